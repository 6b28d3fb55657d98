"""Sprites of tiles, items, pots and cooks, drawn once and cached.

Coordinates are in units of one tile, x to the right and y down. A sprite never extends beyond its
tile, so a change in the kitchen redraws only the tiles concerned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial

from PIL import Image, ImageDraw, ImageFont

from brigade.envs.overcooked.things import DOWN, LEFT, RIGHT, UP, Item, Tile, onions, tomatoes

Colour = tuple[int, ...]  # RGB or RGBA
Point = tuple[float, float]

# From Okabe and Ito's colour-blind safe palette.
SEAT_COLOURS: tuple[Colour, ...] = ((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167))
DIRECTIONS = {UP: (0, -1), DOWN: (0, 1), RIGHT: (1, 0), LEFT: (-1, 0)}
EYES = {UP: (), DOWN: (-0.12, 0.12), RIGHT: (-0.02, 0.17), LEFT: (-0.17, 0.02)}  # none from behind
HANDS = {UP: (0.5, 0.18), DOWN: (0.5, 0.81), RIGHT: (0.8, 0.72), LEFT: (0.2, 0.72)}

INK, WHITE = (46, 40, 38), (255, 255, 255)
SHADOW, CAST_SHADOW = (60, 45, 30, 70), (90, 70, 50, 60)
FLOORS = ((240, 237, 230), (234, 230, 222))
WET_FLOORS = ((204, 226, 240), (196, 219, 235))
WOOD, WOOD_LIGHT, WOOD_DARK = (201, 158, 107), (224, 188, 142), (158, 115, 70)
WOOD_GRAIN, WOOD_SHADOW = (190, 146, 95), (150, 110, 68)
CRATE, CRATE_LIGHT, CRATE_INSIDE = (140, 96, 54), (172, 124, 76), (78, 52, 32)
STEEL, STEEL_LIGHT, STEEL_DARK = (168, 174, 182), (198, 203, 210), (112, 118, 127)
IRON, IRON_LIGHT = (48, 50, 57), (98, 102, 112)
IRON_INSIDE, IRON_BOTTOM = (26, 27, 31), (38, 39, 45)
ONION_SKIN, ONION_LINE, ONION_STREAK = (246, 220, 140), (150, 98, 32), (222, 180, 88)
TOMATO_SKIN, TOMATO_LINE, TOMATO_GLINT = (222, 52, 44), (132, 22, 20), (255, 140, 126)
SPROUT, LEAF = (122, 158, 62), (62, 130, 52)
CHINA, CHINA_LINE, CHINA_WELL = (250, 250, 252), (128, 134, 146), (222, 226, 234)
CHINA_BOTTOM, CHINA_GLINT = (236, 239, 244), (190, 198, 208)
ONION_SOUP, ONION_BIT = (240, 170, 48), (255, 226, 150)
TOMATO_SOUP, TOMATO_BIT = (216, 50, 34), (255, 122, 98)
GREEN, GREEN_LIGHT, GREEN_DARK = (64, 150, 92), (104, 186, 128), (38, 104, 62)
HAT_LINE, HAT_FOLD = (92, 94, 104), (196, 200, 210)
PROGRESS, READY = (255, 196, 60), (92, 224, 110)

OVERSAMPLING = 8  # drawn larger and scaled down, for smooth edges
MIN_PX_FOR_NUMBER = 24  # on smaller tiles digits are not readable


class Canvas:
    """A transparent tile to draw on, with coordinates in units of the tile."""

    def __init__(self, px: int) -> None:
        self.px = px
        self.scale = px * OVERSAMPLING
        self.image = Image.new("RGBA", (self.scale, self.scale), (0, 0, 0, 0))
        self.pen = ImageDraw.Draw(self.image)

    def oval(
        self, x: float, y: float, rx: float, ry: float, fill: Colour, rim: Colour | None = None
    ) -> None:
        """An ellipse; a rim is drawn inside it."""
        for inset, colour in ((0.0, rim or fill), (self.line if rim else 0.0, fill)):
            a, b = rx - inset, ry - inset
            self.pen.ellipse(self._scaled((x - a, y - b), (x + a, y + b)), fill=colour)

    def disc(self, x: float, y: float, r: float, fill: Colour, rim: Colour | None = None) -> None:
        """A circle; a rim is drawn inside it."""
        self.oval(x, y, r, r, fill, rim)

    def box(
        self, x0: float, y0: float, x1: float, y1: float, fill: Colour, corner: float = 0.0
    ) -> None:
        """A rectangle with rounded corners."""
        shape = self._scaled((x0, y0), (x1, y1))
        self.pen.rounded_rectangle(shape, corner * self.scale, fill=fill)

    def shape(self, points: list[Point], fill: Colour) -> None:
        """A polygon."""
        self.pen.polygon(self._scaled(*points), fill=fill)

    def stroke(self, points: list[Point], fill: Colour, width: float) -> None:
        """A line with round ends."""
        self.pen.line(self._scaled(*points), fill, round(width * self.scale), joint="curve")
        for x, y in points:
            self.disc(x, y, width / 2, fill)

    def arc(self, x: float, y: float, r: float, share: float, fill: Colour, width: float) -> None:
        """The first `share` of a circle, clockwise from the top."""
        shape = self._scaled((x - r, y - r), (x + r, y + r))
        self.pen.arc(shape, -90, -90 + 360 * share, fill, round(width * self.scale))

    def dome(self, x: float, y: float, r: float, fill: Colour) -> None:
        """The upper half of a circle."""
        self.pen.pieslice(self._scaled((x - r, y - r), (x + r, y + r)), 180, 360, fill=fill)

    def text(self, x: float, y: float, text: str, size: float, fill: Colour, rim: Colour) -> None:
        """Text around a point."""
        font = ImageFont.load_default(size * self.scale)
        place, width = (x * self.scale, y * self.scale), round(0.045 * self.scale)
        self.pen.text(place, text, fill, font, anchor="mm", stroke_width=width, stroke_fill=rim)

    @property
    def line(self) -> float:
        """The width of an outline: about a pixel on small tiles, but thinner than a small disc."""
        return min(max(0.028, 0.8 / self.px), 0.06)

    def finished(self) -> Image.Image:
        """The tile at its final size; box averages keep flat areas flat, which keeps GIFs small."""
        return self.image.resize((self.px, self.px), Image.Resampling.BOX)

    def _scaled(self, *points: Point) -> list[Point]:
        return [(x * self.scale, y * self.scale) for x, y in points]


# Items.


def draw_onion(c: Canvas, x: float, y: float, r: float) -> None:
    """A pale bulb with a green sprout."""
    for lean in (-0.28, 0.28):
        c.stroke([(x, y - 0.6 * r), (x + lean * r, y - 1.0 * r)], SPROUT, 0.24 * r)
    c.shape([(x - 0.5 * r, y - 0.4 * r), (x + 0.5 * r, y - 0.4 * r), (x, y - r)], ONION_LINE)
    c.oval(x, y + 0.12 * r, r, 0.86 * r, ONION_SKIN, ONION_LINE)
    for lean in (-0.42, 0.42):
        curve = [(x + lean * 0.3 * r, y - 0.5 * r), (x + lean * r, y), (x + lean * r, y + 0.5 * r)]
        c.stroke(curve, ONION_STREAK, 0.1 * r)


def draw_tomato(c: Canvas, x: float, y: float, r: float) -> None:
    """A red fruit with a green star."""
    c.oval(x, y + 0.06 * r, r, 0.92 * r, TOMATO_SKIN, TOMATO_LINE)
    c.oval(x - 0.42 * r, y + 0.02 * r, 0.2 * r, 0.26 * r, TOMATO_GLINT)
    for angle in (200, 250, 290, 340):
        tip = (x + 0.62 * r * cos(angle), y - 0.6 * r - 0.3 * r * sin(angle))
        c.stroke([(x, y - 0.62 * r), tip], LEAF, 0.22 * r)
    c.stroke([(x, y - 0.62 * r), (x, y - 0.95 * r)], LEAF, 0.22 * r)


def draw_plate(c: Canvas, x: float, y: float, r: float) -> None:
    """A white plate from above."""
    c.disc(x, y, r, CHINA, CHINA_LINE)
    c.disc(x, y, 0.62 * r, CHINA_WELL)
    c.disc(x, y + 0.05 * r, 0.54 * r, CHINA_BOTTOM)


def draw_soup(
    c: Canvas, x: float, y: float, r: float, soup: Colour, bits: Sequence[Colour]
) -> None:
    """A bowl on a plate, filled with soup in which bits swim."""
    c.disc(x, y, r, CHINA, CHINA_LINE)
    c.disc(x, y, 0.76 * r, soup, mixed(soup, INK, 0.35))
    for angle, bit in zip(corners(len(bits)), bits, strict=True):
        c.disc(x + 0.34 * r * cos(angle), y - 0.34 * r * sin(angle), 0.17 * r, bit)


DrawThing = Callable[[Canvas, float, float, float], None]  # centre and radius
DRAW_THING: dict[int, DrawThing] = {
    Item.ONION: draw_onion,
    Item.TOMATO: draw_tomato,
    Item.PLATE: draw_plate,
}


def drawing_of(thing: int) -> DrawThing:
    """How to draw any item that can be carried."""
    if thing < Item.SOUP:
        return DRAW_THING[thing]
    contents = thing - Item.SOUP
    bits = (ONION_BIT,) * onions(contents) + (TOMATO_BIT,) * tomatoes(contents)
    return partial(draw_soup, soup=soup_colour(contents), bits=bits)


def draw_lying(c: Canvas, draw: DrawThing) -> None:
    """An item and its shadow on a counter."""
    c.oval(0.5, 0.58, 0.3, 0.28, SHADOW)
    draw(c, 0.49, 0.48, 0.3)


def corners(count: int) -> list[float]:
    """The angles of a soup's ingredients in degrees, spaced for at least three."""
    return [90 + 360 / max(count, 3) * place for place in range(count)]


def soup_colour(contents: int) -> Colour:
    """From golden to red, by the share of tomatoes."""
    total = max(onions(contents) + tomatoes(contents), 1)
    return mixed(ONION_SOUP, TOMATO_SOUP, tomatoes(contents) / total)


# Tiles, which fill the canvas.


def draw_floor(c: Canvas, shade: int = 0, wet: bool = False) -> None:
    """One square of a faint chequerboard; a wet one shines."""
    c.box(0, 0, 1, 1, (WET_FLOORS if wet else FLOORS)[shade])
    if wet:
        for x, y in ((0.2, 0.4), (0.55, 0.75)):
            c.stroke([(x, y), (x + 0.25, y - 0.2)], WHITE, 0.05)


def draw_block(c: Canvas, top: Colour, light: Colour, dark: Colour) -> None:
    """A bevelled top, lit from above left."""
    c.box(0, 0, 1, 1, dark)
    c.box(0, 0, 0.97, 0.95, light)
    c.box(0.04, 0.04, 0.97, 0.95, top)


def draw_counter(c: Canvas) -> None:
    """A wooden block with some grain."""
    draw_block(c, WOOD, WOOD_LIGHT, WOOD_DARK)
    for x0, x1, y in ((0.1, 0.62, 0.24), (0.4, 0.9, 0.5), (0.12, 0.5, 0.76)):
        c.stroke([(x0, y), (x1, y)], WOOD_GRAIN, 0.03)


def draw_crate(c: Canvas, draw: DrawThing) -> None:
    """A crate full of one ingredient."""
    draw_counter(c)
    c.box(0.08, 0.1, 0.92, 0.93, INK, 0.06)
    c.box(0.11, 0.13, 0.89, 0.9, CRATE_INSIDE, 0.04)
    for x, y in ((0.36, 0.28), (0.64, 0.28), (0.26, 0.47), (0.5, 0.47), (0.74, 0.47)):
        draw(c, x, y, 0.155)
    for y in (0.6, 0.765):
        c.box(0.11, y, 0.89, y + 0.135, CRATE)
        c.box(0.11, y, 0.89, y + 0.035, CRATE_LIGHT)


def draw_plate_pile(c: Canvas) -> None:
    """A stack of plates, seen from the front and a little from above."""
    draw_counter(c)
    c.oval(0.5, 0.8, 0.4, 0.14, WOOD_SHADOW)
    for y in (0.72, 0.62, 0.52, 0.42):
        c.oval(0.5, y, 0.38, 0.2, CHINA, CHINA_LINE)
    c.oval(0.5, 0.41, 0.24, 0.115, CHINA_WELL)


def draw_serving(c: Canvas) -> None:
    """A green hatch with a silver cover on it."""
    draw_block(c, GREEN, GREEN_LIGHT, GREEN_DARK)
    c.disc(0.5, 0.25, 0.085, CHINA, GREEN_DARK)
    c.dome(0.5, 0.64, 0.34, GREEN_DARK)
    c.dome(0.5, 0.64, 0.31, CHINA)
    c.stroke([(0.29, 0.56), (0.34, 0.47), (0.42, 0.41)], CHINA_GLINT, 0.045)
    c.box(0.1, 0.64, 0.9, 0.78, GREEN_DARK, 0.06)
    c.box(0.13, 0.67, 0.87, 0.75, CHINA, 0.04)


DRAW_TILE: dict[int, Callable[[Canvas], None]] = {
    Tile.FLOOR: draw_floor,
    Tile.COUNTER: draw_counter,
    Tile.POT: partial(draw_block, top=STEEL, light=STEEL_LIGHT, dark=STEEL_DARK),  # a stove
    Tile.ONION_PILE: partial(draw_crate, draw=draw_onion),
    Tile.TOMATO_PILE: partial(draw_crate, draw=draw_tomato),
    Tile.PLATE_PILE: draw_plate_pile,
    Tile.SERVING: draw_serving,
}


# Pots.


def draw_pot(c: Canvas) -> None:
    """An iron pot from above; what is in it is drawn over it."""
    c.disc(0.5, 0.54, 0.43, SHADOW)
    for x in (0.0, 0.82):
        c.box(x + 0.01, 0.37, x + 0.17, 0.63, IRON, 0.07)
        c.box(x + 0.06, 0.44, x + 0.12, 0.56, STEEL_DARK, 0.02)
    c.disc(0.5, 0.5, 0.43, IRON)


def draw_filling(c: Canvas, inside: Sequence[DrawThing]) -> None:
    """A pot that waits, with ingredients."""
    draw_pot(c)
    c.disc(0.5, 0.5, 0.4, IRON_LIGHT)
    c.disc(0.5, 0.5, 0.34, IRON_INSIDE)
    c.disc(0.5, 0.54, 0.28, IRON_BOTTOM)  # the bottom, so that it looks hollow
    for angle, draw in zip(corners(len(inside)), inside, strict=True):
        draw(c, 0.5 + 0.17 * cos(angle), 0.5 - 0.17 * sin(angle), 0.145)


def draw_cooking(c: Canvas, soup: Colour, tick: int, cook_time: int) -> None:
    """A pot that cooks, with a ring that grows and the steps left."""
    draw_pot(c)
    c.disc(0.5, 0.5, 0.42, IRON_LIGHT)
    c.arc(0.5, 0.5, 0.42, tick / cook_time, PROGRESS, 0.1)
    c.disc(0.5, 0.5, 0.32, IRON_INSIDE)
    c.disc(0.5, 0.5, 0.3, mixed(soup, INK, 0.35))
    if c.px >= MIN_PX_FOR_NUMBER:
        c.text(0.5, 0.5, str(cook_time - tick), 0.4, WHITE, IRON_INSIDE)


def draw_ready(c: Canvas, soup: Colour) -> None:
    """A pot with a green ring, whose soup steams."""
    draw_pot(c)
    c.disc(0.5, 0.5, 0.42, READY)
    c.disc(0.5, 0.5, 0.32, IRON_INSIDE)
    c.disc(0.5, 0.5, 0.3, soup)
    for x in (0.38, 0.5, 0.62):
        wisp = [(x + 0.035 * sin(36 * i), 0.64 - 0.035 * i) for i in range(11)]
        c.stroke(wisp, WHITE, 0.05)


# Cooks.


def draw_cook(c: Canvas, seat: int, facing: int, held: DrawThing | None) -> None:
    """A round cook with a tall hat; face, hands and held item are on the side it faces."""
    (dx, dy), body = DIRECTIONS[facing], SEAT_COLOURS[seat % len(SEAT_COLOURS)]
    x, y = 0.5 - 0.06 * dx, 0.59 - 0.06 * dy  # moved back a little, to make room for the held item
    c.oval(x, 0.88, 0.33, 0.1, SHADOW)
    c.disc(x, y, 0.335, body, INK)
    for eye_x in EYES[facing]:
        c.oval(x + eye_x, y + 0.04, 0.075, 0.095, WHITE)
        c.oval(x + eye_x + 0.03 * dx, y + 0.05, 0.042, 0.062, INK)
    _draw_hat(c, x, y - 0.1)
    hand_x, hand_y = HANDS[facing]
    for side in (-1, 1):
        hand = (hand_x - 0.05 * dx + 0.2 * side * abs(dy), hand_y + 0.14 * side * abs(dx))
        c.disc(*hand, 0.08, mixed(body, WHITE, 0.5), INK)
    if held is not None:
        held(c, hand_x, hand_y, 0.18)


def _draw_hat(c: Canvas, x: float, y: float) -> None:
    """A white toque whose band ends at `y`: first the outline, then the inside."""
    for inset, colour in ((0.0, HAT_LINE), (c.line, WHITE)):
        for puff_x, puff_y, r in ((-0.16, -0.22, 0.125), (0.16, -0.22, 0.125), (0, -0.27, 0.15)):
            c.disc(x + puff_x, y + puff_y, r - inset, colour)
        c.box(x - 0.2 + inset, y - 0.22, x + 0.2 - inset, y - inset, colour, 0.04)
    c.box(x - 0.17, y - 0.09, x + 0.17, y - 0.065, HAT_FOLD)


@cache
def tile_sprite(tile: int, shade: int, px: int, wet: bool = False) -> Image.Image:
    """A tile; `shade` (0 or 1) and `wet` only affect floor."""
    floor = partial(draw_floor, shade=shade, wet=wet)
    return drawn(px, floor if tile == Tile.FLOOR else DRAW_TILE[tile])


@cache
def shadow_sprite(px: int) -> Image.Image:
    """The shadow of a counter on the floor below it."""
    return drawn(px, lambda c: c.box(0, 0, 1, 0.1, CAST_SHADOW))


@cache
def thing_sprite(thing: int, px: int) -> Image.Image:
    """An item on a counter."""
    return drawn(px, partial(draw_lying, draw=drawing_of(thing)))


@cache
def pot_sprite(contents: int, tick: int, cook_time: int, px: int) -> Image.Image:
    """A pot with its contents."""
    if tick == 0:
        inside = [draw_onion] * onions(contents) + [draw_tomato] * tomatoes(contents)
        return drawn(px, partial(draw_filling, inside=inside))
    soup = soup_colour(contents)
    if tick >= cook_time:
        return drawn(px, partial(draw_ready, soup=soup))
    return drawn(px, partial(draw_cooking, soup=soup, tick=tick, cook_time=cook_time))


@cache
def cook_sprite(seat: int, facing: int, held: int, px: int) -> Image.Image:
    """A cook with the item it holds."""
    thing = None if held == Item.NOTHING else drawing_of(held)
    return drawn(px, partial(draw_cook, seat=seat, facing=facing, held=thing))


def drawn(px: int, draw: Callable[[Canvas], None]) -> Image.Image:
    """A finished sprite."""
    canvas = Canvas(px)
    draw(canvas)
    return canvas.finished()


def cos(degrees: float) -> float:
    """The cosine of an angle in degrees."""
    return math.cos(math.radians(degrees))


def sin(degrees: float) -> float:
    """The sine of an angle in degrees."""
    return math.sin(math.radians(degrees))


def mixed(one: Colour, other: Colour, share: float) -> Colour:
    """A colour between two."""
    return tuple(round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
