"""What stands in a kitchen and what can be carried through it, as small numbers."""

from __future__ import annotations

from typing import Any

# Tiles. A cook walks on FLOOR only.
FLOOR, COUNTER, POT, ONION_PILE, TOMATO_PILE, PLATE_PILE, SERVING = range(7)
TILE_OF_SYMBOL = {
    ".": FLOOR,
    "X": COUNTER,
    "P": POT,
    "O": ONION_PILE,
    "T": TOMATO_PILE,
    "D": PLATE_PILE,
    "S": SERVING,
}

# Things that are held or lie on a counter. A plated soup is SOUP plus what is in it.
NOTHING, ONION, TOMATO, PLATE, SOUP = 0, 1, 2, 3, 64

# A soup's contents in one byte, in a pot or on a plate: onions + 8 * tomatoes, up to 7 of each.
ONE_ONION, ONE_TOMATO = 1, 8
POT_SIZE, MAX_POT_SIZE = 3, 5  # ingredients of a soup
COOK_TIME = 20

# What a seat may take: anything, no plates, no ingredients.
ANY, CHEF, WAITER = range(3)

ACTIONS = ("up", "down", "right", "left", "stay", "interact")
UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)


def onions(contents: Any) -> Any:
    """Count the onions of a soup."""
    return contents & 7


def tomatoes(contents: Any) -> Any:
    """Count the tomatoes of a soup."""
    return (contents >> 3) & 7


def thing_name(thing: int) -> str | None:
    """The name the original game's traces use; a `dish` is an empty plate."""
    if thing >= SOUP:
        return "soup"
    return {NOTHING: None, ONION: "onion", TOMATO: "tomato", PLATE: "dish"}[thing]
