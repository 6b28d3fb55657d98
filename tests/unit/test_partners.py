"""Partners: cooks that plan, and the stream of eight partners."""

import hashlib
from collections import deque
from importlib.resources import files

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.benchmarks.meal_partners import OURS, SCHEDULE, PartnerSettings, partners
from brigade.cli import main
from brigade.core import Acting, Cast, ContinualMethod, Group, Round
from brigade.core.seating import pairings
from brigade.envs.overcooked import LAYOUTS, Overcooked, task_from_grid
from brigade.envs.overcooked.env import describe
from brigade.envs.overcooked.rules import EVENTS
from brigade.errors import UserError
from brigade.partners import Random, Stay
from brigade.partners.cook import FOOD, PLATE, Cook, Errand, Habits
from brigade.runs.assemble import assemble
from brigade.runs.baselines import one_task
from brigade.runs.config import from_dict
from brigade.train import Evaluator, Players
from brigade.train.trainer import acting_with, pick, stack_sequences

KEY = jax.random.key(0)
STAY, INTERACT = 4, 5
WAYS = ((0, -1), (0, 1), (1, 0), (-1, 0))  # up, down, right, left as (x, y)


def kitchen(name):
    grid = LAYOUTS[name]
    return Overcooked(height=len(grid), width=len(grid[0])), task_from_grid(grid)


# --- cooks, against a plain one that reads the game itself ---


def plain_actions(grid, state, seat, cooks, serves, dropping):
    """All good next actions of a cook, from the description of the kitchen; None: step aside."""
    cells = {(x, y): c for y, row in enumerate(grid) for x, c in enumerate(row)}
    players = [((x, y), "UDRL".index(f), held) for x, y, f, held in state["players"]]
    (here, facing, held), others = players[seat], [p[0] for i, p in enumerate(players) if i != seat]
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

    pots = {tuple(map(int, k.split(","))): v for k, v in state["pots"].items()}
    full = {cell for cell, (_, tick) in pots.items() if tick > 0}
    ready = {cell for cell, (_, tick) in pots.items() if tick == 20}
    open_pots, busy = stations("P") - full, stations("P") & full
    counters = stations("X") - set(lying)
    if held is None:
        cooks_now = cooks and (bool(open_pots) or not serves)
        target = stations("OT") if cooks_now else stations("D") if serves else set()
        if cooks and serves:
            wanted = ("onion", "tomato") if cooks_now else ("dish",)
            target |= {cell for cell in reach if lying.get(cell) in wanted}
    elif held in ("onion", "tomato"):
        away = (dropping or (serves and not open_pots)) and counters
        target = counters if away else open_pots
    elif held == "dish":
        away = (dropping or (cooks and not busy)) and counters
        target = counters if away else ready & reach
    else:
        target = stations("S")
    if not target:
        return {STAY}
    if around(here)[facing] in target:
        return {INTERACT}
    free = room - set(others)
    steps = walk({near for cell in target for near in around(cell)}, free)
    if here not in steps:
        return None
    if steps[here] == 0:
        return {way for way, near in enumerate(around(here)) if near in target}
    return {way for way, near in enumerate(around(here)) if steps.get(near) == steps[here] - 1}


@pytest.mark.parametrize("layout", ["cramped_room", "counter_circuit", "forced_coordination"])
def test_cooks_do_what_a_plain_cook_would(layout):
    """In moments of games that cooks, somebody random among them, come to."""
    env, task = kitchen(layout)
    cook = Cook()
    act, step = jax.jit(cook.act), jax.jit(env.step)
    state, now = env.reset(KEY, task)
    memory = cook.initial_carry((2,))
    tried = {True: 0, False: 0}
    for number in range(160):
        key = jax.random.fold_in(KEY, number)
        if number % 4 == 0:
            told = describe(state, task)
            hands = [h for _, _, _, h in told["players"]]
            hand = jnp.array([FOOD if h == "onion" else PLATE if h == "dish" else 3 for h in hands])
            hand = jnp.where(jnp.array([h is None for h in hands]), 0, hand)
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
                    good = plain_actions(LAYOUTS[layout], told, seat, cooks, serves, dropping)
                    tried[good is None] += 1
                    allowed = range(4) if good is None else good
                    assert int(chosen[seat]) in allowed, (number, seat, told)
        action, memory, _ = act(Habits.of(drops=0.3), memory, now.view, key)
        anything, _, _ = Random().act((), (), now.view, key)
        state, now = step(key, state, action.at[1].set(anything[1]), task)
    assert tried[False] > 300


def games(env, task, habits, others, number):
    """Score and events per game of two cooks."""
    partner = Stay() if others is None else Cook()
    one = jax.tree.map(lambda x: x[None], () if others is None else others)
    cast = Cast((Group(partner),), (one,), ("partner",))
    evaluator = Evaluator(env, Players(Cook(), cast.groups, 1), ContinualMethod(), number)
    people = jax.tree.map(lambda x: x[0], pairings(cast, [("partner",)], [(0,)], 2))
    play = jax.jit(lambda h: evaluator.play(Acting(h, cast.params), Round(task, people), KEY))
    return jax.tree.map(lambda x: x[0, 0], play(habits))


def test_cooks_who_meet_get_on():
    """A hundred games, none without a soup: nobody waits for ever for the other to go first."""
    env, task = kitchen("cramped_room")
    both = games(env, task, Habits.of(), Habits.of(), 100)
    assert float(both.score.min()) > 0.5  # more than half of what one cook can do alone
    split = games(env, task, Habits.of(serves=False), Habits.of(cooks=False), 5)
    assert float(split.score.min()) >= 1.0


def test_habits_are_kept():
    """Half a cook does its half only."""
    env, task = kitchen("cramped_room")
    onion = games(env, task, Habits.of(serves=False, drops=0.3), None, 20)
    counts = dict(zip(EVENTS, np.asarray(onion.events).sum(0).T, strict=True))
    assert counts["pickup_plate_from_pile"][0] == counts["delivery"][0] == 0
    assert counts["put_onion_on_counter"][0] > 0
    assert counts["placement_in_pot"].tolist() == [60, 0]  # three in each game
    plate = games(env, task, Habits.of(), Habits.of(cooks=False), 20)
    counts = dict(zip(EVENTS, np.asarray(plate.events).sum(0).T, strict=True))
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


def test_random_partners_take_all_actions_alike():
    env, task = kitchen("cramped_room")
    view = env.reset(KEY, task)[1].view
    many = jax.tree.map(lambda x: jnp.broadcast_to(x, (3000, *x.shape)), view)
    actions, _, _ = Random().act((), (), many, KEY)
    np.testing.assert_allclose(np.bincount(actions.ravel(), minlength=6) / 6000, 1 / 6, atol=0.025)


# --- the stream of partners ---


def test_a_task_keeps_its_partner_when_it_is_learned_alone():
    whole = partners().sequence(3, 8, 1000)
    assert whole.names == SCHEDULE
    assert whole.tasks.id.tolist() == list(range(8))
    for place, name in enumerate(SCHEDULE):
        alone = one_task(whole, place)
        assert alone.partners == ((name,),)
        assert int(alone[0].id) == 0


def test_our_learned_partners_belong_to_the_kitchen_and_differ():
    policies = PartnerSettings().learned()
    assert policies.names == ("brdiv-1", "brdiv-2", "brdiv-3")
    assert policies.origin["env"] == {"layout": "cramped_room"}
    soups = np.array([member["soups_with_responses"] for member in policies.members])
    own = np.eye(3, dtype=bool)
    assert soups[own].min() >= 9
    assert soups[~own].max() <= 0.5
    env, task = kitchen("cramped_room")
    view = env.reset(KEY, task)[1].view
    network = policies.policy.network
    logits = jax.vmap(lambda p: network.apply({"params": p}, view.obs, view.task_id).logits)
    best = np.asarray(jax.nn.softmax(logits(policies.params)))[:, 1]
    assert np.abs(best[0] - best[1]).sum() + np.abs(best[1] - best[2]).sum() > 0.5


def test_our_learned_partners_never_change():
    """Runs name them without keeping a copy; a better population gets a name of its own."""
    content = files("brigade.partners").joinpath(OURS).read_bytes()
    assert hashlib.sha256(content).hexdigest()[:16] == "37a8a2c9405638ff"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"partners": ("humn",)}, "did you mean 'human'"),
        ({"partners": ("brdiv1", "human")}, "did you mean 'brdiv-1'"),
        ({"partners": ("human",), "population": "nowhere.safetensors"}, "there is no policy file"),
        ({"partners": ("brdiv-4",)}, "unknown partner 'brdiv-4'"),
        ({"partners": ("human", "human")}, "name each partner once"),
        ({"partners": ()}, "partners is empty"),
        ({"layout": "cramped"}, "did you mean 'cramped_room'"),
        ({"layout": "coordination_ring"}, "no trained partners for coordination_ring"),
        ({"drops": 1.5}, "from 0 to 1"),
    ],
)
def test_partners_that_do_not_fit_are_refused(settings, message):
    with pytest.raises((UserError, ValueError), match=message):
        partners(PartnerSettings(**settings))


def test_more_tasks_than_partners_are_refused(capsys):
    assert main(["run", "meal/partners", "--tasks", "9"]) == 2
    assert "--tasks is 9, but there are 8 partners" in capsys.readouterr().err


@pytest.mark.parametrize(("memory", "method"), [("none", "er"), ("gru", "ewc")])
def test_a_learner_learns_with_partners(memory, method):
    """One update with each of two partners; only the learner's own seat is learned from."""
    experiment = from_dict(
        {
            "benchmark": "meal/partners",
            "method": method,
            "tasks": 2,
            "num_envs": 2,
            "num_steps": 40,
            "steps_per_task": 80,
            "eval_episodes": 1,
            "env": {"partners": ["brdiv-2", "static"]},
            "ppo": {"epochs": 1, "minibatches": 2},
            "network": {"hidden": [8], "memory": memory, "memory_size": 8},
        }
    )
    parts = assemble(experiment)
    cast, rounds = parts.table.cast, stack_sequences(parts.sequences[:1], parts.table.pairings[:1])
    state = parts.trainer.init([0], rounds, cast)
    for index in range(2):
        state = parts.trainer.begin_task(state, rounds, index)
        state, metrics = parts.trainer.step(state, rounds, index, cast)
        assert np.isfinite(np.asarray(metrics["loss"])).all()
        state = parts.trainer.end_phase(state, rounds, index, "train", cast)
    if method == "er":  # no slot goes to the partner
        kept = state.memory.samples
        assert float(kept.weight[0, :10].min()) == 1.0
    else:
        importance = jax.tree.leaves(state.memory.importance)
        assert max(float(jnp.abs(leaf).max()) for leaf in importance) > 0
    one, now = pick(state, 0), pick(pick(rounds, 0), 1)
    acting = acting_with(parts.trainer, one.learner, cast, now.pairing, KEY)
    _, traj = jax.jit(parts.trainer.source.next)(one.source, acting, now.task, KEY)
    assert traj.action.shape == (40, 2, 1)
    assert np.asarray(traj.seat).tolist() == [[0], [0]]
    # The partner that stays shows in the view alone: its place never changes.
    theirs = np.asarray(traj.view.obs)[:, :, 0, :, :, 1]
    assert (theirs == theirs[:1]).all()
    mine = np.asarray(traj.view.obs)[:, :, 0, :, :, 0]
    assert (mine != mine[:1]).any()
