"""Continual-learning methods: one small file each, on the hooks of `ContinualMethod`."""
