"""Continual-learning methods: subclasses of `ContinualMethod`, one small file each."""
