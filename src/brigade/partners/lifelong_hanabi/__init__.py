"""A ready-made pool of Hanabi agents: policy files, and how they play with one another."""
