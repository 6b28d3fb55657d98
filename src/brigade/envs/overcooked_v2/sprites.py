"""Sprites of what Overcooked does not have: ten ingredients, the recipe's board, buttons, marks.

Every ingredient has a shape and a colour of its own, so that none is told by its colour alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from PIL import Image

from brigade.envs.overcooked.sprites import (
    INK,
    LEAF,
    ONION_BIT,
    ONION_SOUP,
    PROGRESS,
    SPROUT,
    STEEL,
    STEEL_DARK,
    STEEL_LIGHT,
    TOMATO_BIT,
    TOMATO_SOUP,
    WHITE,
    WOOD_DARK,
    Canvas,
    Colour,
    DrawThing,
    corners,
    cos,
    draw_block,
    draw_cook,
    draw_cooking,
    draw_counter,
    draw_crate,
    draw_filling,
    draw_floor,
    draw_lying,
    draw_onion,
    draw_plate,
    draw_plate_pile,
    draw_ready,
    draw_serving,
    draw_soup,
    draw_tomato,
    drawn,
    mixed,
    sin,
)
from brigade.envs.overcooked_v2.things import (
    BUTTON,
    COOK_TIME,
    COOKED,
    COUNTER,
    FLOOR,
    INDICATOR,
    MAX_INGREDIENTS,
    OUTSIDE,
    PILE,
    PLATE_PILE,
    POT,
    SERVING,
    SHOW_TIME,
    ingredients_of,
)

GREEN, GREEN_LINE, GREEN_GLINT = (0, 158, 115), (0, 92, 66), (120, 214, 180)
PURPLE, PURPLE_LINE, PURPLE_GLINT = (98, 62, 140), (52, 28, 84), (168, 132, 206)
ORANGE, ORANGE_LINE = (240, 140, 20), (150, 82, 0)
BROWN, BROWN_LINE, BROWN_SPOT = (150, 98, 62), (88, 54, 30), (226, 200, 170)
BLUE, BLUE_LINE, BLUE_GLINT = (0, 114, 178), (0, 62, 110), (120, 186, 232)
SKY, SKY_LINE = (120, 196, 236), (34, 104, 150)
PINK, PINK_LINE = (226, 140, 182), (140, 64, 104)
YELLOW, YELLOW_LINE, YELLOW_GRAIN = (246, 222, 40), (150, 128, 0), (214, 180, 10)
BOARD, BOARD_LINE = (44, 62, 58), (104, 130, 122)
LAMP_OFF, LAMP_LINE = (126, 96, 92), (70, 50, 48)
RIGHT, WRONG = (40, 170, 92), (213, 60, 40)
NIGHT = (28, 32, 48, 120)
VOID = (226, 224, 220)


# --- ingredients ---


def draw_pepper(c: Canvas, x: float, y: float, r: float) -> None:
    """Two green lobes and a stalk."""
    for side in (-0.4, 0.4):
        c.oval(x + side * r, y + 0.12 * r, 0.56 * r, 0.86 * r, GREEN, GREEN_LINE)
    c.oval(x - 0.5 * r, y - 0.1 * r, 0.14 * r, 0.3 * r, GREEN_GLINT)
    c.stroke([(x, y - 0.5 * r), (x + 0.15 * r, y - 0.95 * r)], SPROUT, 0.24 * r)


def draw_aubergine(c: Canvas, x: float, y: float, r: float) -> None:
    """A long purple fruit with a green cap."""
    c.oval(x, y + 0.45 * r, 0.62 * r, 0.55 * r, PURPLE, PURPLE_LINE)
    c.oval(x, y - 0.05 * r, 0.42 * r, 0.75 * r, PURPLE, PURPLE_LINE)
    c.oval(x, y + 0.45 * r, 0.5 * r, 0.45 * r, PURPLE)
    c.oval(x - 0.2 * r, y + 0.1 * r, 0.1 * r, 0.34 * r, PURPLE_GLINT)
    c.oval(x, y - 0.66 * r, 0.42 * r, 0.22 * r, LEAF)
    c.stroke([(x, y - 0.7 * r), (x + 0.1 * r, y - 0.98 * r)], LEAF, 0.2 * r)


def draw_carrot(c: Canvas, x: float, y: float, r: float) -> None:
    """An orange root that points down."""
    for lean in (-0.35, 0.0, 0.35):
        c.stroke([(x, y - 0.4 * r), (x + lean * r, y - 0.95 * r)], SPROUT, 0.22 * r)
    for grow, colour in ((1.0, ORANGE_LINE), (0.78, ORANGE)):
        width = 0.6 * grow * r
        c.shape([(x - width, y - 0.42 * r), (x + width, y - 0.42 * r), (x, y + grow * r)], colour)
    for height, width in ((-0.1, 0.3), (0.25, 0.18)):
        c.stroke([(x - width * r, y + height * r), (x, y + height * r)], ORANGE_LINE, 0.1 * r)


def draw_mushroom(c: Canvas, x: float, y: float, r: float) -> None:
    """A brown cap with pale spots on a pale stem."""
    c.box(x - 0.34 * r, y - 0.1 * r, x + 0.34 * r, y + 0.95 * r, BROWN_LINE, 0.2 * r)
    c.box(x - 0.22 * r, y - 0.1 * r, x + 0.22 * r, y + 0.83 * r, BROWN_SPOT, 0.14 * r)
    c.dome(x, y + 0.2 * r, r, BROWN_LINE)
    c.dome(x, y + 0.1 * r, 0.84 * r, BROWN)
    for spot, size in ((-0.4, 0.16), (0.05, 0.2), (0.45, 0.14)):
        c.disc(x + spot * r, y - 0.25 * r - 0.1 * r * (size > 0.18), size * r, BROWN_SPOT)


def draw_berries(c: Canvas, x: float, y: float, r: float) -> None:
    """Three blue berries."""
    for angle in (90, 210, 330):
        at = (x + 0.46 * r * cos(angle), y - 0.46 * r * sin(angle))
        c.disc(*at, 0.5 * r, BLUE, BLUE_LINE)
        c.disc(at[0] - 0.14 * r, at[1] - 0.14 * r, 0.12 * r, BLUE_GLINT)


def draw_fish(c: Canvas, x: float, y: float, r: float) -> None:
    """A pale blue fish that swims to the left."""
    tail = [(x + 0.35 * r, y), (x + r, y - 0.55 * r), (x + r, y + 0.55 * r)]
    c.shape(tail, SKY_LINE)
    c.oval(x - 0.2 * r, y, 0.78 * r, 0.5 * r, SKY, SKY_LINE)
    c.disc(x - 0.6 * r, y - 0.1 * r, 0.14 * r, INK)
    c.stroke(
        [(x - 0.2 * r, y - 0.25 * r), (x - 0.1 * r, y), (x - 0.2 * r, y + 0.25 * r)],
        SKY_LINE,
        0.1 * r,
    )


def draw_ham(c: Canvas, x: float, y: float, r: float) -> None:
    """A pink slice with a bone."""
    c.oval(x, y, 0.95 * r, 0.78 * r, PINK, PINK_LINE)
    c.disc(x + 0.2 * r, y - 0.05 * r, 0.36 * r, PINK_LINE)
    c.disc(x + 0.2 * r, y - 0.05 * r, 0.26 * r, WHITE)
    c.disc(x + 0.2 * r, y - 0.05 * r, 0.12 * r, PINK)


def draw_corn(c: Canvas, x: float, y: float, r: float) -> None:
    """A yellow cob in two leaves."""
    c.oval(x, y - 0.1 * r, 0.5 * r, 0.9 * r, YELLOW, YELLOW_LINE)
    for row in (-0.55, -0.2, 0.15):
        for column in (-0.2, 0.2):
            c.disc(x + column * r, y + row * r, 0.12 * r, YELLOW_GRAIN)
    for side in (-1, 1):
        leaf = [(x, y + r), (x + side * 0.75 * r, y - 0.05 * r), (x + side * 0.3 * r, y + 0.75 * r)]
        c.shape([(x, y + 0.4 * r), *leaf[1:], leaf[0]], LEAF)


INGREDIENTS: tuple[tuple[DrawThing, Colour, Colour], ...] = (  # with the colours of soup and bits
    (draw_onion, ONION_SOUP, ONION_BIT),
    (draw_tomato, TOMATO_SOUP, TOMATO_BIT),
    (draw_pepper, GREEN, GREEN_GLINT),
    (draw_aubergine, PURPLE, PURPLE_GLINT),
    (draw_carrot, ORANGE, ORANGE_LINE),
    (draw_mushroom, BROWN, BROWN_SPOT),
    (draw_berries, BLUE, BLUE_GLINT),
    (draw_fish, SKY, SKY_LINE),
    (draw_ham, PINK, PINK_LINE),
    (draw_corn, YELLOW, YELLOW_GRAIN),
)
assert len(INGREDIENTS) == MAX_INGREDIENTS


def soup_colour(thing: int) -> Colour:
    """The mean of its ingredients'."""
    colours = [INGREDIENTS[number][1] for number in ingredients_of(thing)]
    return tuple(round(sum(parts) / len(colours)) for parts in zip(*colours, strict=True))


def drawing_of(thing: int) -> DrawThing:
    """How to draw anything that can be carried."""
    inside = ingredients_of(thing)
    if thing & COOKED:
        bits = [INGREDIENTS[number][2] for number in inside]
        return partial(draw_soup, soup=soup_colour(thing), bits=bits)
    return INGREDIENTS[inside[0]][0] if inside else draw_plate


# --- tiles ---


def draw_board(c: Canvas, recipe: int) -> None:
    """A blackboard with the ingredients of a recipe; 0 is no recipe."""
    draw_counter(c)
    c.box(0.04, 0.06, 0.96, 0.94, WOOD_DARK, 0.06)
    c.box(0.09, 0.11, 0.91, 0.89, BOARD, 0.03)
    draw_recipe(c, recipe, 0.5, 0.5, 0.2)


def draw_recipe(c: Canvas, recipe: int, x: float, y: float, r: float) -> None:
    """Ingredients around a point."""
    inside = ingredients_of(recipe)
    for angle, number in zip(corners(len(inside)), inside, strict=True):
        at = (x + 1.12 * r * cos(angle), y - 1.12 * r * sin(angle) + 0.25 * r)
        INGREDIENTS[number][0](c, *at, 0.88 * r)


def draw_button(c: Canvas, recipe: int, timer: int) -> None:
    """A dull button, or one that shines and shows the recipe in a ring of the time that is left."""
    draw_block(c, STEEL, STEEL_LIGHT, STEEL_DARK)
    if timer == 0:
        c.disc(0.5, 0.53, 0.33, STEEL_DARK)
        c.disc(0.5, 0.5, 0.3, LAMP_OFF, LAMP_LINE)
        c.oval(0.42, 0.4, 0.1, 0.07, mixed(LAMP_OFF, WHITE, 0.4))
        return
    c.disc(0.5, 0.5, 0.46, STEEL_DARK)
    c.arc(0.5, 0.5, 0.46, timer / SHOW_TIME, PROGRESS, 0.09)
    c.disc(0.5, 0.5, 0.37, BOARD, BOARD_LINE)
    draw_recipe(c, recipe, 0.5, 0.5, 0.165)


def draw_mark(c: Canvas, right: bool) -> None:
    """A tick or a cross over a serving tile."""
    colour = RIGHT if right else WRONG
    c.disc(0.5, 0.5, 0.4, WHITE, colour)
    c.disc(0.5, 0.5, 0.36, colour)
    if right:
        c.stroke([(0.32, 0.52), (0.45, 0.66), (0.7, 0.36)], WHITE, 0.1)
    else:
        c.stroke([(0.36, 0.36), (0.64, 0.64)], WHITE, 0.1)
        c.stroke([(0.64, 0.36), (0.36, 0.64)], WHITE, 0.1)


# --- the sprites that the renderer uses; each is drawn once ---


DRAW_TILE: dict[int, Callable[[Canvas], None]] = {
    COUNTER: draw_counter,
    SERVING: draw_serving,
    POT: partial(draw_block, top=STEEL, light=STEEL_LIGHT, dark=STEEL_DARK),
    INDICATOR: partial(draw_board, recipe=0),
    BUTTON: partial(draw_button, recipe=0, timer=0),
    PLATE_PILE: draw_plate_pile,
    OUTSIDE: lambda c: c.box(0, 0, 1, 1, VOID),
}


@cache
def tile_sprite(tile: int, shade: int, px: int) -> Image.Image:
    """A tile without what changes; `shade` (0 or 1) is the floor's."""
    if tile == FLOOR:
        return drawn(px, partial(draw_floor, shade=shade))
    if tile >= PILE:
        return drawn(px, partial(draw_crate, draw=INGREDIENTS[tile - PILE][0]))
    return drawn(px, DRAW_TILE[tile])


@cache
def board_sprite(recipe: int, px: int) -> Image.Image:
    """The board with the recipe."""
    return drawn(px, partial(draw_board, recipe=recipe))


@cache
def button_sprite(recipe: int, timer: int, px: int) -> Image.Image:
    """A button."""
    return drawn(px, partial(draw_button, recipe=recipe, timer=timer))


@cache
def thing_sprite(thing: int, px: int) -> Image.Image:
    """Something on a counter."""
    return drawn(px, partial(draw_lying, draw=drawing_of(thing)))


@cache
def pot_sprite(thing: int, timer: int, px: int) -> Image.Image:
    """A pot with what is in it."""
    if timer:
        tick = COOK_TIME - timer
        return drawn(
            px, partial(draw_cooking, soup=soup_colour(thing), tick=tick, cook_time=COOK_TIME)
        )
    if thing & COOKED:
        return drawn(px, partial(draw_ready, soup=soup_colour(thing)))
    inside: Sequence[DrawThing] = [INGREDIENTS[number][0] for number in ingredients_of(thing)]
    return drawn(px, partial(draw_filling, inside=inside))


@cache
def cook_sprite(seat: int, facing: int, held: int, px: int) -> Image.Image:
    """A cook with what it holds."""
    thing = drawing_of(held) if held else None
    return drawn(px, partial(draw_cook, seat=seat, facing=facing, held=thing))


@cache
def mark_sprite(right: bool, px: int) -> Image.Image:
    """What came of a soup that was served."""
    return drawn(px, partial(draw_mark, right=right))


@cache
def night_sprite(px: int) -> Image.Image:
    """Over tiles that nobody sees."""
    return drawn(px, lambda c: c.box(0, 0, 1, 1, NIGHT))
