"""Integer codes for tiles, items, roles and actions."""

from __future__ import annotations

from typing import Any, ClassVar


class Tile:
    """What a cell is. Cooks can only walk on FLOOR."""

    FLOOR, COUNTER, POT, ONION_PILE, TOMATO_PILE, PLATE_PILE, SERVING = range(7)
    OF_SYMBOL: ClassVar[dict[str, int]] = dict(zip(".XPOTDS", range(7), strict=True))

    @staticmethod
    def is_pile(tile: Any) -> Any:
        """Whether it is a pile of ingredients or plates."""
        return (tile == Tile.ONION_PILE) | (tile == Tile.TOMATO_PILE) | (tile == Tile.PLATE_PILE)


class Item:
    """What is in a hand or on a counter. A plated soup is SOUP plus its contents."""

    NOTHING, ONION, TOMATO, PLATE, SOUP = 0, 1, 2, 3, 64


class Role:
    """What a cook may take: anything, no plates, no ingredients."""

    ANY, CHEF, WAITER = range(3)


# A soup's contents in one byte, in a pot or on a plate: onions + 8 * tomatoes, up to 7 of each.
ONE_ONION, ONE_TOMATO = 1, 8
POT_SIZE, MAX_POT_SIZE = 3, 5  # ingredients per soup
COOK_TIME = 20

ACTIONS = ("up", "down", "right", "left", "stay", "interact")
UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)


def onions(contents: Any) -> Any:
    """The number of onions in a soup."""
    return contents & 7


def tomatoes(contents: Any) -> Any:
    """The number of tomatoes in a soup."""
    return (contents >> 3) & 7


def ingredients_name(contents: int) -> str:
    """A soup's ingredients as letters, onions first: OOT."""
    return "O" * onions(contents) + "T" * tomatoes(contents)


def thing_name(thing: int, ingredients: bool = False) -> str | None:
    """The name in the traces of the original game; a `dish` is an empty plate.

    With `ingredients`, a soup's are named, too: `soup:OOT`.
    """
    if thing >= Item.SOUP:
        return f"soup:{ingredients_name(thing - Item.SOUP)}" if ingredients else "soup"
    names = {Item.ONION: "onion", Item.TOMATO: "tomato", Item.PLATE: "dish"}
    return names[thing] if thing != Item.NOTHING else None
