"""Brigade's environments for code written for JaxMARL, PettingZoo or Gymnasium.

Each module needs its own package and is imported on its own, so none of them is needed here.
"""
