"""Scripted cooks: they fetch, cook and serve on shortest paths.

They act on the observation alone, so a cook can play any seat of any kitchen with the full view.
Which tasks a cook does, and how reliably, are its parameters (`Habits`), so cooks with different
habits share one program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar, get_args

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Environment, Key, View
from brigade.envs.overcooked import Overcooked
from brigade.envs.overcooked.env import RecipeKind
from brigade.envs.overcooked.observe import SHARED_CHANNELS
from brigade.envs.overcooked.things import INTERACT, POT_SIZE, STAY

NOTHING, FOOD, PLATE, SOUP = range(4)  # what a cook holds
UNREACHABLE = 2**15  # as a distance
MAX_TOMATOES = POT_SIZE - 1  # in a soup: without an onion it does not pay

Planes = TypeVar("Planes", bound=tuple[Array, ...])


class Habits(struct.PyTreeNode):
    """The parameters of a cook. Leaves [], or [members]."""

    cooks: Array  # bool: brings ingredients to pots, and starts them
    serves: Array  # bool: fetches plates, plates soups and serves them
    drops: Array  # f32: probability of leaving what it fetched on a counter

    @classmethod
    def of(cls, cooks: bool = True, serves: bool = True, drops: float = 0.0) -> Habits:
        """From plain values."""
        return cls(jnp.bool_(cooks), jnp.bool_(serves), jnp.float32(drops))


class Errand(struct.PyTreeNode):
    """The state of a cook from one timestep to the next. Leaves [..., seats]."""

    cell: Array  # int32: its position one step ago
    hand: Array  # int32: what it held
    dropping: Array  # bool: it is going to leave what it holds on a counter


@dataclass(frozen=True)
class Cook:
    """Fills pots while one has room, then plates and serves soups, by default.

    A cook that does only one of the two holds its item and waits until its partner has done the
    other. A cook that does both puts down items it cannot use now, and uses items on counters.
    Cooks in separate rooms pass ingredients, plates and soups over the counters between them.
    If all paths are blocked it moves in a random direction. If its last move was blocked, or its
    next move would only undo the last one, it stays with probability 1/2: otherwise two cooks could
    block each other, or step aside for each other, forever.
    """

    recipes: RecipeKind = "single"
    """The kitchen's: with multi, cooks start full pots, and use at most two tomatoes per soup."""

    always_samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.recipes not in get_args(RecipeKind):
            raise ValueError(
                f"recipes is {self.recipes!r}; use one of {', '.join(get_args(RecipeKind))}"
            )

    def init(self, key: Key) -> Habits:
        """The habits of a cook that does everything, reliably."""
        return Habits.of()

    def initial_carry(self, batch: tuple[int, ...]) -> Errand:
        """The state before an episode: empty hands."""
        zeros = jnp.zeros(batch, jnp.int32)
        return Errand(zeros, zeros, zeros == 1)

    def act(
        self, params: Habits, carry: Errand, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Errand, dict[str, Array]]:
        """One action per seat."""
        drop_key, wait_key, aside_key = jax.random.split(key, 3)
        shape = view.active.shape
        scene = parse(view.obs, self.recipes)
        fetched = (scene.hand == FOOD) | (scene.hand == PLATE)
        picked_up = fetched & ((carry.hand == NOTHING) | view.first)
        drops = jax.random.uniform(drop_key, shape) < params.drops
        dropping = jnp.where(picked_up, drops, carry.dropping & fetched & ~view.first)
        aside = jax.random.randint(aside_key, shape, 0, STAY)
        action = next_action(scene, targets(scene, params, dropping), aside)
        waits = is_stuck(scene, carry, view, action) & ~view.first
        action = jnp.where(waits & jax.random.bernoulli(wait_key, 0.5, shape), STAY, action)
        return action.astype(jnp.int32), Errand(scene.cell, scene.hand, dropping), {}


@dataclass(frozen=True)
class Planner(Cook):
    """A cook with fixed habits."""

    drops: float = 0.1
    """Probability of leaving an ingredient or a plate on a counter."""

    cooks: ClassVar[bool] = True
    serves: ClassVar[bool] = True

    def init(self, key: Key) -> Habits:
        """Its habits."""
        return Habits.of(self.cooks, self.serves, self.drops)

    @classmethod
    def for_game(cls, env: Environment) -> Planner:
        """A cook for Overcooked with the full view; an error for other environments."""
        if not isinstance(env, Overcooked) or env.view != "full":
            raise ValueError(
                "scripted cooks need Overcooked with the full view; choose another partner"
            )
        return cls(recipes=env.recipes)

    def member(self) -> tuple[Cook, Habits]:
        """The policy that all cooks share, and the parameters of this one."""
        return Cook(self.recipes), Habits.of(self.cooks, self.serves, self.drops)


@dataclass(frozen=True)
class Human(Planner):
    """Fills pots; if no pot has room, plates and serves soups."""


@dataclass(frozen=True)
class OnionOnly(Planner):
    """Only fills pots and starts them."""

    serves: ClassVar[bool] = False


@dataclass(frozen=True)
class PlateOnly(Planner):
    """Only plates and serves soups."""

    cooks: ClassVar[bool] = False


# --- what a cook sees ---

# With one recipe all ingredients are alike, and tomatoes are read as onions.
SAME_WITH_ONE_RECIPE = {
    "tomato pile": "onion pile",
    "tomatoes in a pot that is not cooking": "onions in a pot that is not cooking",
    "tomatoes in a soup, cooking, ready or plated": "onions in a soup, cooking, ready or plated",
    "tomatoes": "onions",
}


class Stations(NamedTuple):
    """Tiles by what can be done there. Planes [..., height, width] bool."""

    pots: Array
    open_pots: Array  # take an onion
    tomato_pots: Array  # take a tomato, and the soup can still pay
    full_pots: Array  # have to be started; with one recipe they start by themselves
    busy_pots: Array  # cook, or hold a soup
    ready_pots: Array
    counters: Array  # with nothing on them
    onion_piles: Array
    tomato_piles: Array
    plate_piles: Array
    servings: Array


class Items(NamedTuple):
    """Items on counters or in hands. Planes [..., height, width] bool."""

    onions: Array
    tomatoes: Array
    plates: Array
    soups: Array  # those that pay
    spoiled_soups: Array


class Rooms(NamedTuple):
    """The cook's room, and those of cooks it cannot reach. Planes [..., height, width] bool."""

    floor: Array  # that it can reach, ignoring other cooks
    reach: Array  # all tiles beside its floor
    their_reach: Array  # all tiles beside the floor of the other rooms
    others: Array  # the cooks in the other rooms


class Equipment(NamedTuple):
    """Whether a room has these stations. Values [...] bool."""

    pot: Array
    onions: Array
    plates: Array
    serving: Array


class Passing(NamedTuple):
    """What a cook passes to other rooms. Planes [..., height, width] bool, the rest [...] bool.

    If all cooks are in one room, or each room has everything, nothing is shared or passed.
    """

    shared: Array  # tiles that another room reaches, too
    counters: Array  # the empty counters among them
    gives_food: Array  # ingredients on shared counters are meant for others
    gives_plates: Array  # plates are
    wants_food: Array  # others need another onion, and there is space for it
    wants_plate: Array  # others need another plate, and there is space for it
    others_serve: Array  # they have a serving tile
    clutter: Array  # items to clear away, because no shared counter is empty


class Scene(NamedTuple):
    """An observation by meaning. Planes [..., height, width] bool, the rest [...]."""

    own: Array
    other: Array
    cell: Array  # int32: own position, in row-major order
    floor_ahead: Array  # bool: it faces a floor tile
    facing: Array  # up, down, right, left
    hand: Array  # int32
    holds_tomato: Array  # bool
    holds_spoiled_soup: Array  # bool
    others_hold_tomato: Array  # bool
    gives_way: Array  # bool: if it has nothing to do it steps aside for a cook next to it
    room: Array  # floor that it can reach, ignoring other cooks
    stations: Stations  # in its reach
    lying: Items  # on counters in its reach
    passing: Passing


def parse(obs: Array, recipes: RecipeKind) -> Scene:
    """Parse observations [..., height, width, channels]; stations out of reach are left out."""
    own, other, facings = obs[..., 0] > 0, obs[..., 1] > 0, obs[..., 2:6] > 0
    amounts = shared_channels(obs, recipes)
    stations, items = read_stations(amounts, recipes), read_items(amounts, recipes)
    lying, held = within(items, ~own & ~other), within(items, own)
    rooms = find_rooms(own, other, ~walls(stations, lying))
    facing = facings.any(axis=(-3, -2)).argmax(-1)
    kinds = (held.onions | held.tomatoes, held.plates, held.soups | held.spoiled_soups)
    hand = jnp.stack([anywhere(kind) for kind in kinds], -1) @ jnp.array([FOOD, PLATE, SOUP])
    # With one recipe, cooks that wait with an item stand still: recorded results depend on it.
    may_give_way = (hand == NOTHING) | (recipes == "multi")
    return Scene(
        own=own,
        other=other,
        cell=own.reshape(*own.shape[:-2], -1).argmax(-1).astype(jnp.int32),
        floor_ahead=ahead(values_around(own, rooms.floor, False), facing) > 0,
        facing=facing,
        hand=hand,
        holds_tomato=anywhere(held.tomatoes),
        holds_spoiled_soup=anywhere(held.spoiled_soups),
        others_hold_tomato=anywhere(items.tomatoes & other),
        gives_way=may_give_way & anywhere(beside(own) & other),
        room=rooms.floor,
        stations=within(stations, rooms.reach),
        lying=within(lying, rooms.reach),
        passing=plan_passing(stations, items, rooms, ingredients_missing(amounts)),
    )


def shared_channels(obs: Array, recipes: RecipeKind) -> dict[str, Array]:
    """The channels that all cooks share, by name. Values [..., height, width] uint8."""
    amounts = {
        name: obs[..., index - len(SHARED_CHANNELS)] for index, name in enumerate(SHARED_CHANNELS)
    }
    if recipes == "single":
        for tomato, onion in SAME_WITH_ONE_RECIPE.items():
            amounts[onion] += amounts[tomato]
            amounts[tomato] = jnp.zeros_like(amounts[onion])
    return amounts


def read_stations(amounts: dict[str, Array], recipes: RecipeKind) -> Stations:
    """All stations of a kitchen."""
    pots = amounts["pot"] > 0
    tomatoes = amounts["tomatoes in a pot that is not cooking"]
    busy, full = pots & (soup_size(amounts) > 0), jnp.zeros_like(pots)
    if recipes == "multi":
        full = pots & (ingredients_waiting(amounts) >= POT_SIZE)
    open_pots = pots & ~busy & ~full
    return Stations(
        pots=pots,
        open_pots=open_pots,
        tomato_pots=open_pots & (tomatoes < MAX_TOMATOES),
        full_pots=full,
        busy_pots=busy,
        ready_pots=pots & (amounts["soup ready, in a pot or plated"] > 0),
        counters=amounts["counter"] > 0,
        onion_piles=amounts["onion pile"] > 0,
        tomato_piles=amounts["tomato pile"] > 0,
        plate_piles=amounts["plate pile"] > 0,
        servings=amounts["serving"] > 0,
    )


def read_items(amounts: dict[str, Array], recipes: RecipeKind) -> Items:
    """All items of a kitchen."""
    soups = (amounts["soup ready, in a pot or plated"] > 0) & (amounts["pot"] == 0)
    spoiled = jnp.zeros_like(soups)
    if recipes == "multi":
        onions = amounts["onions in a soup, cooking, ready or plated"]
        spoiled = soups & ((onions == 0) | (soup_size(amounts) < 2))
    return Items(
        onions=amounts["onions"] > 0,
        tomatoes=amounts["tomatoes"] > 0,
        plates=amounts["plates"] > 0,
        soups=soups & ~spoiled,
        spoiled_soups=spoiled,
    )


def soup_size(amounts: dict[str, Array]) -> Array:
    """Ingredients in soups that cook, are ready or plated."""
    return (
        amounts["onions in a soup, cooking, ready or plated"]
        + amounts["tomatoes in a soup, cooking, ready or plated"]
    )


def ingredients_waiting(amounts: dict[str, Array]) -> Array:
    """Ingredients in pots that are not cooking."""
    return (
        amounts["onions in a pot that is not cooking"]
        + amounts["tomatoes in a pot that is not cooking"]
    )


def ingredients_missing(amounts: dict[str, Array]) -> Array:
    """Ingredients that a waiting pot still takes, at least 1; pots of other sizes look the same."""
    return jnp.maximum(POT_SIZE - ingredients_waiting(amounts).astype(jnp.int32), 1)


def walls(stations: Stations, lying: Items) -> Array:
    """All tiles that are not floor."""
    blocked = jnp.zeros_like(stations.pots)
    for plane in (*stations, *lying):
        blocked |= plane
    return blocked


def find_rooms(own: Array, other: Array, floor: Array) -> Rooms:
    """The room of a cook and the rooms of others."""
    room, reach = flood(own, floor)
    others = other & ~room
    _, their_reach = flood(others, floor)
    return Rooms(room, reach, their_reach, others)


def plan_passing(stations: Stations, items: Items, rooms: Rooms, missing: Array) -> Passing:
    """What others need from this cook, and the counters for it.

    Others get what they have no pile for. Soups come first: if one has to pass, other items leave
    a counter empty for it, or both rooms could wait for an empty counter forever.
    """
    mine, theirs = within(stations, rooms.reach), within(stations, rooms.their_reach)
    have, others_have = equipment(mine), equipment(theirs)
    passes = ~(complete(have) & complete(others_have))
    shared = only_if(passes, rooms.reach & rooms.their_reach)
    counters = mine.counters & shared
    on_their_side = rooms.their_reach & ~rooms.reach
    soups_to_come = count(items.soups & (rooms.others | on_their_side)) * ~others_have.serving
    soup_to_go = anywhere(items.soups & rooms.reach & ~shared) & ~have.serving & others_have.serving
    coming = within(items, shared | rooms.others)
    needs_onion = at(missing, stations.open_pots & on_their_side) > count(coming.onions)
    needs_plate = count(stations.busy_pots & on_their_side) > count(coming.plates)
    has_space = count(counters) > soups_to_come
    gives_food = have.onions & ~others_have.onions
    gives_plates = have.plates & ~others_have.plates
    in_the_way = useless(
        within(items, shared),
        within(stations, rooms.reach | rooms.their_reach),
        soup_waits=(soups_to_come > 0) | soup_to_go,
    )
    return Passing(
        shared=shared,
        counters=counters,
        gives_food=gives_food,
        gives_plates=gives_plates,
        wants_food=gives_food & needs_onion & has_space,
        wants_plate=gives_plates & needs_plate & has_space,
        others_serve=others_have.serving,
        clutter=only_if(~anywhere(counters), in_the_way),
    )


def equipment(stations: Stations) -> Equipment:
    """The equipment of a room with these stations in reach."""
    return Equipment(
        pot=anywhere(stations.pots),
        onions=anywhere(stations.onion_piles),
        plates=anywhere(stations.plate_piles),
        serving=anywhere(stations.servings),
    )


def complete(room: Equipment) -> Array:
    """Whether cooks in the room can make and serve soups without others."""
    return room.pot & room.onions & room.plates & room.serving


def useless(items: Items, stations: Stations, soup_waits: Array) -> Array:
    """The items for which no station has a use now; if a soup waits for space, all but soups."""
    return (
        only_if(soup_waits | ~anywhere(stations.open_pots), items.onions)
        | only_if(soup_waits | ~anywhere(stations.tomato_pots), items.tomatoes)
        | only_if(soup_waits | ~anywhere(stations.busy_pots), items.plates)
        | items.spoiled_soups
    )


# --- what a cook wants ---

Choices = Sequence[tuple[Array | bool, Array]]  # conditions and tiles; the first that holds counts


def targets(scene: Scene, habits: Habits, dropping: Array) -> Array:
    """[..., height, width] bool: the tiles a cook wants to use now; none if it has to wait."""
    chosen = jnp.zeros_like(scene.own)
    for hand, choices in (
        (NOTHING, with_empty_hands(scene, habits)),
        (FOOD, with_food(scene, habits, dropping)),
        (PLATE, with_plate(scene, habits, dropping)),
        (SOUP, with_soup(scene)),
    ):
        undecided = scene.hand == hand
        for condition, tiles in choices:
            chosen |= only_if(undecided & condition, tiles)
            undecided &= ~condition
    return chosen


def with_empty_hands(scene: Scene, habits: Habits) -> Choices:
    """Soups of other rooms come first, then pots to start, food while it is of use, and plates."""
    here, passing = scene.stations, scene.passing
    does_both = habits.cooks & habits.serves
    soups = soups_to_take(scene)
    food = food_to_take(scene, does_both)
    plates = plates_to_take(scene, does_both)
    food_of_use = anywhere(food) & (anywhere(here.open_pots) | passing.wants_food)
    plate_of_use = anywhere(plates) & (anywhere(here.busy_pots) | passing.wants_plate)
    clears = does_both & anywhere(passing.clutter) & anywhere(private_counters(scene))
    return (
        (habits.serves & anywhere(soups), soups),
        (clears, passing.clutter),
        (habits.cooks & anywhere(here.full_pots), here.full_pots),
        (habits.cooks & (food_of_use | ~habits.serves), food),
        (habits.serves & (plate_of_use | ~habits.cooks), plates),
    )


def soups_to_take(scene: Scene) -> Array:
    """Soups that others passed; without a serving tile, soups put down because none could pass."""
    soups, passing = scene.lying.soups, scene.passing
    can_serve = anywhere(scene.stations.servings)
    can_pass = ~can_serve & passing.others_serve & anywhere(passing.counters)
    return only_if(can_serve, soups & passing.shared) | only_if(can_pass, soups & ~passing.shared)


def food_to_take(scene: Scene, does_both: Array) -> Array:
    """Ingredients from piles and counters; tomatoes only where they do not spoil a soup."""
    here, lying, passing = scene.stations, scene.lying, scene.passing
    takes_tomatoes = anywhere(here.tomato_pots) & ~scene.others_hold_tomato
    free_to_take = may_take(passing.shared, passing.gives_food, does_both)
    onions = here.onion_piles | (lying.onions & free_to_take)
    tomatoes = here.tomato_piles | (lying.tomatoes & free_to_take)
    return onions | only_if(takes_tomatoes, tomatoes)


def plates_to_take(scene: Scene, does_both: Array) -> Array:
    """Plates from piles and counters."""
    passing = scene.passing
    free_to_take = may_take(passing.shared, passing.gives_plates, does_both)
    return scene.stations.plate_piles | (scene.lying.plates & free_to_take)


def may_take(shared: Array, gives: Array, does_both: Array) -> Array:
    """The counters from which a cook takes items: not what it has put there for others."""
    return only_if(does_both, ~shared) | only_if(~gives, shared)


def with_food(scene: Scene, habits: Habits, dropping: Array) -> Choices:
    """Into a pot, or over a counter to others. If neither is possible it waits or puts it down."""
    here, passing = scene.stations, scene.passing
    counter_free = anywhere(here.counters)
    pots = jnp.where(scene.holds_tomato[..., None, None], here.tomato_pots, here.open_pots)
    needs_free_hands = anywhere(here.full_pots | here.open_pots)
    return (
        (dropping & counter_free, here.counters),
        (anywhere(pots), pots),
        (passing.wants_food & ~scene.holds_tomato, passing.counters),
        (habits.serves | needs_free_hands, spare_counters(scene)),
    )


def with_plate(scene: Scene, habits: Habits, dropping: Array) -> Choices:
    """Over a counter to others who have none, or to a soup. A cook that does both does not wait."""
    here, passing = scene.stations, scene.passing
    soup_coming, counter_free = anywhere(here.busy_pots), anywhere(here.counters)
    return (
        (dropping & counter_free, here.counters),
        (passing.wants_plate, passing.counters),
        (habits.cooks & ~soup_coming & counter_free, spare_counters(scene)),
        (True, here.ready_pots),
    )


def with_soup(scene: Scene) -> Choices:
    """To a serving tile, or over a counter to others who have one."""
    here, passing = scene.stations, scene.passing
    return (
        (scene.holds_spoiled_soup & anywhere(here.counters), spare_counters(scene)),
        (anywhere(here.servings), here.servings),
        (passing.others_serve & anywhere(passing.counters), passing.counters),
        (passing.others_serve, here.counters),
    )


def private_counters(scene: Scene) -> Array:
    """Empty counters that no other room reaches."""
    return scene.stations.counters & ~scene.passing.shared


def spare_counters(scene: Scene) -> Array:
    """Empty counters for what cannot be used now; shared ones only if there are no others."""
    private = private_counters(scene)
    return jnp.where(anywhere(private)[..., None, None], private, scene.stations.counters)


def next_action(scene: Scene, target: Array, aside: Array) -> Array:
    """The next action on a shortest path to a target tile; `aside` if all paths are blocked.

    Without a target it stays, or gives way to a cook next to it.
    """
    distance = walking_distance(target, scene.room & ~scene.other)
    around = values_around(scene.own, distance, UNREACHABLE)
    action = jnp.where(around.min(-1) < UNREACHABLE, around.argmin(-1), aside)
    action = jnp.where(ahead(around, scene.facing) == 0, INTERACT, action)
    idle_action = jnp.where(scene.gives_way, aside, STAY)
    return jnp.where(anywhere(distance == 0), action, idle_action)


def is_stuck(scene: Scene, before: Errand, view: View, action: Array) -> Array:
    """Whether the last move was blocked, or the next one would only undo it."""
    walked = (view.prev_action >= 0) & (view.prev_action < STAY)
    stayed = scene.cell == before.cell
    width = view.obs.shape[-2]
    next_cell = scene.cell + jnp.array([-width, width, 1, -1, 0, 0])[action]
    turns_back = ~stayed & (next_cell == before.cell) & (scene.hand == before.hand)
    return (walked & stayed & scene.floor_ahead) | turns_back


# --- planes [..., height, width] ---


def neighbour(plane: Array, direction: int, outside: bool | int) -> Array:
    """For each tile the value of its neighbour in a direction: up, down, right, left."""
    down, right = ((1, 0), (-1, 0), (0, -1), (0, 1))[direction]  # where values move
    unmoved = [(0, 0, 0)] * (plane.ndim - 2)
    shift = [*unmoved, (down, -down, 0), (right, -right, 0)]
    return jax.lax.pad(plane, jnp.asarray(outside, plane.dtype), shift)


def beside(plane: Array) -> Array:
    """The tiles next to marked ones."""
    up, down, right, left = (neighbour(plane, direction, False) for direction in range(4))
    return up | down | right | left


def values_around(mark: Array, plane: Array, outside: bool | int) -> Array:
    """[..., 4]: the values of a plane above, below, right and left of the marked tile."""
    return jnp.stack([at(neighbour(plane, way, outside), mark) for way in range(4)], -1)


def ahead(around: Array, facing: Array) -> Array:
    """Of the values around a tile, the one that it faces."""
    return jnp.take_along_axis(around, facing[..., None], axis=-1)[..., 0]


def flood(start: Array, passable: Array) -> tuple[Array, Array]:
    """All passable tiles that can be reached from `start`, with itself, and all tiles beside them.

    The loop carries both, so that the second is computed once and not by everything that uses it.
    """

    def grow(_: int, reached: tuple[Array, Array]) -> tuple[Array, Array]:
        room = reached[0] | (reached[1] & passable)
        return room, beside(room)

    return jax.lax.fori_loop(0, longest_walk(start), grow, (start, beside(start)))


def walking_distance(goal: Array, passable: Array) -> Array:
    """int32: steps over passable tiles onto the nearest goal, or UNREACHABLE."""
    start = jnp.where(goal, 0, UNREACHABLE)

    def relax(_: int, distance: Array) -> Array:
        nearest = distance
        for direction in range(4):
            nearest = jnp.minimum(nearest, 1 + neighbour(distance, direction, UNREACHABLE))
        return jnp.where(passable, jnp.minimum(nearest, UNREACHABLE), start)

    return jax.lax.fori_loop(0, longest_walk(goal), relax, start)


def longest_walk(plane: Array) -> int:
    """An upper bound on the length of a shortest path: the number of inner tiles."""
    height, width = plane.shape[-2:]
    return (height - 2) * (width - 2)


def at(plane: Array, mark: Array) -> Array:
    """The value on the marked tile, or the sum over marked tiles."""
    return jnp.sum(jnp.where(mark, plane, 0), axis=(-2, -1))


def anywhere(plane: Array) -> Array:
    """Whether any tile is marked."""
    return plane.any(axis=(-2, -1))


def count(plane: Array) -> Array:
    """int32: how many tiles are marked."""
    return plane.sum(axis=(-2, -1), dtype=jnp.int32)


def only_if(condition: Array, plane: Array) -> Array:
    """The plane where the condition [...] holds, and nothing elsewhere."""
    return plane & condition[..., None, None]


def within(planes: Planes, mask: Array) -> Planes:
    """The marked parts of all planes of a tuple."""
    return type(planes)(*(plane & mask for plane in planes))
