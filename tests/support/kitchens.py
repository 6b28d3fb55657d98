"""Kitchens where cooks meet often, play at random in them, and a count of what lies about."""

import numpy as np

from brigade.envs.overcooked import LAYOUTS
from brigade.envs.overcooked.generate import KitchenSpec, generate
from brigade.envs.overcooked.things import onions, tomatoes

LETTERS = "UDRLSI"
TOMATO_KITCHEN = ("XXPXPXX", "O1...2T", "X..X..X", "O3...4T", "XDXXXSX")
CROWDED = ("XXPXX", "O12.X", "X34.X", "XDXSX")


def kitchens_for(num_agents):
    """A few small kitchens, for so many cooks."""
    drawn = [generate(KitchenSpec(5, 6, 0.2), [7, n], num_agents) for n in range(6)]
    return [TOMATO_KITCHEN, CROWDED, *drawn] if num_agents > 2 else [*LAYOUTS.values(), *drawn]


def busy_actions(rng, shape):
    """Mostly moves and interactions, so that soups get made even by chance."""
    return rng.choice(6, p=[0.17, 0.17, 0.17, 0.17, 0.02, 0.3], size=shape)


def count_things(states):
    """Onions, tomatoes and plates in hands, on counters and in pots, [kitchen, step]."""
    things = np.concatenate([states.held, states.counter], axis=-1).astype(int)
    soups = np.where(things >= 64, things, 0)
    in_pots = states.pot.astype(int)
    return {
        "onion": (things == 1).sum(-1) + onions(soups).sum(-1) + onions(in_pots).sum(-1),
        "tomato": (things == 2).sum(-1) + tomatoes(soups).sum(-1) + tomatoes(in_pots).sum(-1),
        "dish": ((things == 3) | (things >= 64)).sum(-1),
    }
