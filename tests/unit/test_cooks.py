"""Scripted cooks: what they do next, what they do not, and that soup is served."""

from collections import deque
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.benchmarks.meal import KitchenSettings
from brigade.core import Acting, Cast, ContinualMethod, Group, Round
from brigade.core.seating import pairings
from brigade.envs.overcooked import LAYOUTS, Overcooked, describe, task_from_grid
from brigade.envs.overcooked.cooks import Cook, Errand, Habits, Human, OnionOnly, PlateOnly
from brigade.envs.overcooked.cooks.kitchen_map import FOOD, PLATE
from brigade.envs.overcooked.generate import generate_sequence
from brigade.partners import Random, Stay
from brigade.train import Evaluator, Players

KEY = jax.random.key(0)
STAY, INTERACT = 4, 5
WAYS = ((0, -1), (0, 1), (1, 0), (-1, 0))  # up, down, right, left as (x, y)
ONION, TOMATO, DISH, SOUP = 1, 2, 3, 64  # items of a state
OOO, OTT, TTT = 3, 1 + 2 * 8, 3 * 8  # contents of pots and soups


def kitchen(name):
    grid = LAYOUTS[name]
    recipes = "multi" if name.endswith("_multi") else "single"
    return Overcooked(height=len(grid), width=len(grid[0]), recipes=recipes), task_from_grid(grid)


# --- against a plain cook that reads the game itself, in kitchens where nothing is passed ---


def plain_actions(grid, state, seat, cooks, serves, dropping, multi):
    """All good next actions of a cook, from the description of the kitchen; None: step aside."""
    cells = {(x, y): c for y, row in enumerate(grid) for x, c in enumerate(row)}
    players = [((x, y), "UDRL".index(f), held) for x, y, f, held in state["players"]]
    (here, facing, held), others = players[seat], players[:seat] + players[seat + 1 :]
    lying = {(x, y): thing for x, y, thing in state["counters"]}
    floor = {cell for cell, c in cells.items() if c in ".123456789"}

    def around(cell):
        return [(cell[0] + x, cell[1] + y) for x, y in WAYS]

    def walk(goal, free):
        """Steps to the nearest cell of `goal` from every cell that can reach it."""
        steps = dict.fromkeys(goal & free, 0)
        queue = deque(steps)
        while queue:
            cell = queue.popleft()
            for near in around(cell):
                if near in free and near not in steps:
                    steps[near] = steps[cell] + 1
                    queue.append(near)
        return steps

    room = set(walk({here}, floor))
    reach = {cell for cell in cells if any(near in room for near in around(cell))}

    def stations(symbols):
        return {cell for cell in reach if cells[cell] in symbols}

    def lying_in_reach(*things):
        return {cell for cell in reach if lying.get(cell) in things}

    pots = {tuple(map(int, k.split(","))): v for k, v in state["pots"].items()}
    pots = {cell: v for cell, v in pots.items() if cell in reach}
    busy = {cell for cell, pot in pots.items() if pot[1] > 0}
    ready = {cell for cell, pot in pots.items() if pot[1] == 20}
    full = {cell for cell in set(pots) - busy if multi and len(pots[cell][0]) == 3}
    takes_onion = set(pots) - busy - full
    takes_tomato = {c for c in takes_onion if not multi or pots[c][0].count("T") < 2}
    counters = stations("X") - set(lying)
    if held is None:
        cooks_now = cooks and (bool(takes_onion) or not serves)
        onions, tomatoes = stations("O"), stations("T")
        if cooks and serves:
            onions, tomatoes = onions | lying_in_reach("onion"), tomatoes | lying_in_reach("tomato")
        if multi and (not takes_tomato or any(thing == "tomato" for _, _, thing in others)):
            tomatoes = set()
        if cooks and full:
            target = full
        elif cooks_now:
            target = onions | tomatoes
        else:
            target = stations("D") | (lying_in_reach("dish") if cooks else set())
    elif held in ("onion", "tomato"):
        usable = takes_tomato if held == "tomato" else takes_onion
        hands_needed = multi and (full or takes_onion)
        away = (dropping or ((serves or hands_needed) and not usable)) and counters
        target = counters if away else usable
    elif held == "dish":
        away = (dropping or (cooks and not busy)) and counters
        target = counters if away else ready
    else:
        target = stations("S")
    if not target:
        is_near = any(place in around(here) for place, _, _ in others)
        return None if is_near and (multi or held is None) else {STAY}
    if around(here)[facing] in target:
        return {INTERACT}
    free = room - {place for place, _, _ in others}
    steps = walk({near for cell in target for near in around(cell)}, free)
    if here not in steps:
        return None
    if steps[here] == 0:
        return {way for way, near in enumerate(around(here)) if near in target}
    return {way for way, near in enumerate(around(here)) if steps.get(near) == steps[here] - 1}


@pytest.mark.parametrize(
    "layout",
    ["cramped_room", "counter_circuit", "asymmetric_coordination", "coordination_ring_multi"],
)
def test_cooks_do_what_a_plain_cook_would(layout):
    """In moments of games that cooks, somebody random among them, come to."""
    env, task = kitchen(layout)
    cook = Cook(env.recipes)
    act, step = jax.jit(cook.act), jax.jit(env.step)
    state, now = env.reset(KEY, task)
    memory = cook.initial_carry((2,))
    tried = {True: 0, False: 0}
    for number in range(160):
        key = jax.random.fold_in(KEY, number)
        if number % 4 == 0:
            told = describe(state, task)
            kinds = {None: 0, "onion": FOOD, "tomato": FOOD, "dish": PLATE}
            hand = jnp.array([kinds.get(held, 3) for _, _, _, held in told["players"]])
            for cooks, serves, dropping in [
                (True, True, False),
                (True, True, True),
                (True, False, False),
                (True, False, True),
                (False, True, False),
                (False, True, True),
            ]:
                before = Errand(jnp.full(2, -1), hand, jnp.full(2, dropping))
                chosen, _, _ = act(Habits.of(cooks, serves), before, now.view, key)
                for seat in range(2):
                    good = plain_actions(
                        LAYOUTS[layout], told, seat, cooks, serves, dropping, env.recipes == "multi"
                    )
                    tried[good is None] += 1
                    allowed = range(4) if good is None else good
                    assert int(chosen[seat]) in allowed, (number, seat, told)
        action, memory, _ = act(Habits.of(drops=0.3), memory, now.view, key)
        anything, _, _ = Random().act((), (), now.view, key)
        state, now = step(key, state, action.at[1].set(anything[1]), task)
    assert tried[False] > 300


# --- two of them serve soup ---

GENERATED = {"level 1": 40, "handoff": 10}  # kitchens; in the latter items have to be passed


def play(env, habits, state, now, task, key, moves=True):
    """The last state of an episode of two cooks; those that do not move stay."""
    cook = Cook(env.recipes)

    def step(loop, key):
        state, now, errand = loop
        action, errand, _ = cook.act(habits, errand, now.view, key)
        state, now = env.step(key, state, jnp.where(moves, action, STAY), task)
        return (state, now, errand), None

    start = (state, now, cook.initial_carry((2,)))
    return jax.lax.scan(step, start, jax.random.split(key, env.horizon))[0][0]


def grids_by_kind(recipes):
    """Kitchens with these recipes: the layouts, generated ones, and those that need hand-offs."""
    multi = recipes == "multi"
    grids = {name: [grid] for name, grid in LAYOUTS.items() if name.endswith("_multi") == multi}
    for kind, number in GENERATED.items():
        settings = KitchenSettings(recipes=recipes, require_handoff=kind == "handoff")
        grids[kind] = generate_sequence(settings.spec("1"), number, seed=0)
    return grids


@cache
def last_states(recipes):
    """Of an episode of two human cooks, by kind of kitchen; leaves [kitchens, ...]."""
    kinds = grids_by_kind(recipes)
    grids = [grid for some in kinds.values() for grid in some]
    width = max(len(grid[0]) for grid in grids)
    env = Overcooked(height=7, width=width, recipes=recipes)
    tasks = [task_from_grid(grid, height=7, width=width) for grid in grids]
    habits = Human.for_game(env).init(KEY)

    def one(task, key):
        return play(env, habits, *env.reset(key, task), task, key)

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
    states = jax.jit(jax.vmap(one))(stacked, jax.random.split(KEY, len(tasks)))
    ends = np.cumsum([len(some) for some in kinds.values()])
    parts = [slice(end - len(some), end) for end, some in zip(ends, kinds.values(), strict=True)]
    return {
        kind: jax.tree.map(lambda x, part=part: np.asarray(x)[part], states)
        for kind, part in zip(kinds, parts, strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize(("recipes", "number"), [("single", 8), ("multi", 3)])
def test_two_human_cooks_serve_soup_in_every_layout(recipes, number):
    """Also where they have to pass items over counters."""
    soups = {name: int(s.soups[0]) for name, s in last_states(recipes).items() if name in LAYOUTS}
    assert len(soups) == number
    assert [name for name, served in soups.items() if not served] == []


@pytest.mark.slow
@pytest.mark.parametrize("recipes", ["single", "multi"])
def test_two_human_cooks_serve_soup_in_nearly_all_generated_kitchens(recipes):
    """They may fail where a path is one tile wide, and each needs what is behind the other."""
    states = last_states(recipes)
    assert (states["level 1"].soups > 0).mean() >= 0.95
    assert (states["handoff"].soups > 0).all()


@pytest.mark.slow
def test_soups_of_human_cooks_pay_the_most():
    """Never tomatoes alone, never fewer than three ingredients."""
    for kind, state in last_states("multi").items():
        assert (state.earned == 20 * state.soups).all(), kind


# --- single moments ---

STEPS = 60
HUMAN, ONLY_ONION, ONLY_PLATE = Habits.of(), Habits.of(serves=False), Habits.of(cooks=False)


@cache
def scenes(layout):
    """A function (changes, habits, moves) -> state of a kitchen after `STEPS` steps."""
    grid = LAYOUTS[layout]
    recipes = "multi" if layout.endswith("_multi") else "single"
    env = Overcooked(height=len(grid), width=len(grid[0]), horizon=STEPS, recipes=recipes)
    task = task_from_grid(grid)

    @jax.jit
    def run(state, habits, moves):
        state, now = env.step(KEY, state, jnp.full(2, STAY), task)
        return play(env, habits, state, now, task, KEY, moves)

    def at(place):
        x, y = place
        return y * len(grid[0]) + x

    def after(habits=HUMAN, moves=(True, True), held=(0, 0), **boards):
        """`boards` has items by (x, y), for a state's counter, pot and tick."""
        state, _ = env.reset(KEY, task)
        for name, things in boards.items():
            board = getattr(state, name)
            for place, thing in things.items():
                board = board.at[at(place)].set(thing)
            state = state.replace(**{name: board})
        state = state.replace(held=jnp.array(held, jnp.uint8))
        return jax.device_get(run(state, habits, jnp.array(moves)))

    return at, after


def lying(state, at, places):
    """The items on these counters, and how many there are on all."""
    return [int(state.counter[at(place)]) for place in places], int((state.counter > 0).sum())


BETWEEN = [(2, 1), (2, 2), (2, 3)]  # the counters between the rooms of forced_coordination
POTS = [(3, 0), (4, 1)]  # its pots, which only seat 0 reaches


@pytest.mark.parametrize("habits", [HUMAN, ONLY_ONION])
def test_ingredients_for_another_room_are_put_between_the_rooms_and_left_there(habits):
    at, after = scenes("forced_coordination")
    state = after(habits, moves=(False, True))
    assert lying(state, at, BETWEEN) == ([ONION] * 3, 3)


@pytest.mark.parametrize("habits", [HUMAN, ONLY_PLATE])
def test_no_more_plates_are_passed_than_soups_are_coming(habits):
    at, after = scenes("forced_coordination")
    state = after(habits, (False, True), pot=dict.fromkeys(POTS, OOO), tick=dict.fromkeys(POTS, 1))
    things, number = lying(state, at, BETWEEN)
    assert sorted(things) == [0, DISH, DISH]
    assert number == 2


def test_items_that_others_passed_are_used():
    at, after = scenes("forced_coordination")
    state = after(moves=(True, False), counter=dict.fromkeys(BETWEEN, ONION))
    assert sorted(int(state.pot[at(place)]) for place in POTS) == [0, OOO]
    ready = {"pot": {POTS[0]: OOO}, "tick": {POTS[0]: 20}}
    state = after(moves=(True, False), counter={BETWEEN[0]: DISH}, **ready)
    assert int(state.soups) == 1


def test_a_soup_goes_over_a_counter_to_the_cook_who_can_serve_it():
    at, after = scenes("bothway_coordination")
    between = [(3, 2), (3, 3)]
    state = after(moves=(True, False), held=(SOUP + OOO, 0))
    assert SOUP + OOO in lying(state, at, between)[0]
    assert int(state.soups) == 0
    state = after(moves=(False, True), counter={between[0]: SOUP + OOO})
    assert int(state.soups) == 1


def test_full_counters_between_rooms_are_cleared_for_a_soup():
    at, after = scenes("bothway_coordination")
    between = [(3, 2), (3, 3)]
    state = after(moves=(True, False), held=(SOUP + OOO, 0), counter=dict.fromkeys(between, DISH))
    assert SOUP + OOO in lying(state, at, between)[0]


def test_a_soup_in_a_kitchen_of_one_room_is_left_to_the_cook_who_put_it_down():
    at, after = scenes("cramped_room")
    state = after(counter={(0, 2): SOUP + OOO})
    assert int(state.counter[at((0, 2))]) == SOUP + OOO
    assert int(state.soups) >= 1


CIRCUIT_POTS = [(3, 0), (4, 0)]


def test_an_onion_cook_starts_pots_and_a_plate_cook_does_not():
    at, after = scenes("counter_circuit_multi")
    full = {"pot": dict.fromkeys(CIRCUIT_POTS, OTT)}
    state = after(ONLY_ONION, (False, True), **full)
    assert all(int(state.tick[at(place)]) > 0 for place in CIRCUIT_POTS)
    state = after(ONLY_PLATE, (False, True), **full)
    assert all(int(state.tick[at(place)]) == 0 for place in CIRCUIT_POTS)
    assert int(state.held[1]) == DISH


def test_full_hands_do_not_keep_a_cook_from_starting_a_pot():
    at, after = scenes("counter_circuit_multi")
    for habits, thing in [(ONLY_ONION, TOMATO), (HUMAN, ONION), (HUMAN, DISH)]:
        state = after(habits, (False, True), (0, thing), pot=dict.fromkeys(CIRCUIT_POTS, OTT))
        waits = [state.pot[at(pot)] == OTT and state.tick[at(pot)] == 0 for pot in CIRCUIT_POTS]
        assert not any(waits), thing


def test_a_third_tomato_stays_out_of_the_pot():
    at, after = scenes("counter_circuit_multi")
    for habits in (HUMAN, ONLY_ONION):
        two = {"pot": dict.fromkeys(CIRCUIT_POTS, 2 * 8)}
        state = after(habits, (True, True), (TOMATO, TOMATO), **two)
        assert {int(state.pot[at(place)]) for place in CIRCUIT_POTS} == {OTT}


def test_a_soup_that_costs_points_is_not_served():
    _, after = scenes("counter_circuit_multi")
    state = after(ONLY_PLATE, held=(SOUP + TTT, SOUP + 1))
    assert sorted(state.counter[state.counter > 0].tolist()) == [SOUP + 1, SOUP + TTT]
    assert int(state.soups) == 0
    state = after(ONLY_PLATE, held=(SOUP + OTT, SOUP + 2))
    assert float(state.earned) == 30


def test_cooks_of_one_kitchen_share_a_program_and_know_its_recipes():
    for recipes in ("single", "multi"):
        env = Overcooked(recipes=recipes)
        members = [kind.for_game(env).member() for kind in (Human, OnionOnly, PlateOnly)]
        assert {policy for policy, _ in members} == {Cook(recipes)}
        habits = [(bool(one.cooks), bool(one.serves)) for _, one in members]
        assert habits == [(True, True), (True, False), (False, True)]
    with pytest.raises(ValueError, match="recipes is 'both'; use one of single, multi"):
        Cook("both")
    with pytest.raises(ValueError, match="full view"):
        Human.for_game(Overcooked(view=(1, 1, 0)))


# --- habits ---


def games(env, task, habits, others, number):
    """Score and events per game of two cooks."""
    partner = Stay(4) if others is None else Cook()
    one = jax.tree.map(lambda x: x[None], () if others is None else others)
    cast = Cast((Group(partner),), (one,), ("partner",))
    evaluator = Evaluator(env, Players(Cook(), cast.groups, 1), ContinualMethod(), number)
    people = jax.tree.map(lambda x: x[0], pairings(cast, [("partner",)], [(0,)], 2))
    play = jax.jit(lambda h: evaluator.play(Acting(h, cast.params), Round(task, people), KEY))
    return jax.tree.map(lambda x: x[0, 0], play(habits))


@pytest.mark.slow
def test_cooks_who_meet_get_on():
    """A hundred games, none without a soup: nobody waits for ever for the other to go first."""
    env, task = kitchen("cramped_room")
    both = games(env, task, Habits.of(), Habits.of(), 100)
    assert float(both.score.min()) > 0.5  # more than half of what one cook can do alone
    split = games(env, task, Habits.of(serves=False), Habits.of(cooks=False), 5)
    assert float(split.score.min()) >= 1.0


@pytest.mark.slow
def test_habits_are_kept():
    """Half a cook does its half only."""
    env, task = kitchen("cramped_room")
    onion = games(env, task, Habits.of(serves=False, drops=0.3), None, 20)
    counts = dict(zip(env.events, np.asarray(onion.events).sum(0).T, strict=True))
    assert counts["pickup_plate_from_pile"][0] == counts["delivery"][0] == 0
    assert counts["put_onion_on_counter"][0] > 0
    assert counts["placement_in_pot"].tolist() == [60, 0]  # three in each game
    plate = games(env, task, Habits.of(), Habits.of(cooks=False), 20)
    counts = dict(zip(env.events, np.asarray(plate.events).sum(0).T, strict=True))
    assert counts["pickup_onion_from_pile"][1] == 0
    assert counts["delivery"][1] > 0


def test_what_is_picked_up_is_meant_for_a_counter_as_often_as_asked():
    """It is decided once, when a thing is picked up, and not again while it is carried."""
    env, task = kitchen("cramped_room")
    state, _ = env.reset(KEY, task)
    held = state.replace(held=jnp.array([1, 3], jnp.uint8))  # an onion, a plate
    view = env.step(KEY, held, jnp.array([STAY, STAY]), task)[1].view
    many = jax.tree.map(lambda x: jnp.broadcast_to(x, (3000, *x.shape)), view)

    def dropping(hand, before):
        carry = Errand(*(jnp.full((3000, 2), x) for x in (0, hand, before)))
        return np.asarray(Cook().act(Habits.of(drops=0.3), carry, many, KEY)[1].dropping)

    np.testing.assert_allclose(dropping(0, False).mean(0), 0.3, atol=0.04)
    carried = jnp.array([FOOD, PLATE])
    assert dropping(carried, True).all()
    assert not dropping(carried, False).any()
