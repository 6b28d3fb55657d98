"""Adapters: Brigade's environments with the interfaces of JaxMARL, PettingZoo and Gymnasium.

Each module needs its package and is imported separately, so Brigade itself needs none of them.
"""
