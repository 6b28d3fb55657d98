"""Partners: cooks that plan, populations that learn, and tasks that name them."""

import json
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.benchmarks.meal_partners import SCHEDULE, PartnerSettings, partners, roster
from brigade.cli import main
from brigade.core import ContinualMethod
from brigade.envs.overcooked import LAYOUTS, Overcooked, task_from_grid
from brigade.envs.overcooked.env import describe
from brigade.envs.overcooked.rules import EVENTS
from brigade.errors import UserError
from brigade.partners import Random, SeatedPolicy, Stay
from brigade.partners.brdiv import PARTNER, RESPONSE, BRDiv, Generator, Samples, by_game, by_player
from brigade.partners.company import Company, Group, KitchenInCompany, Roster, Situation
from brigade.partners.cook import FOOD, PLATE, Cook, Errand, Habits
from brigade.partners.learned import Actor, Learned, Population
from brigade.runs.baselines import one_task
from brigade.runs.config import from_dict
from brigade.runs.run import assemble
from brigade.train import Evaluator

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
    player = SeatedPolicy(cook, Random(), (), (True, False))
    act, step = jax.jit(player.act), jax.jit(env.step)
    judged = jax.jit(cook.act)
    state, now = env.reset(KEY, task)
    memory = player.initial_carry(())
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
                chosen, _, _ = judged(Habits.of(cooks, serves), before, now.view, key)
                for seat in range(2):
                    good = plain_actions(LAYOUTS[layout], told, seat, cooks, serves, dropping)
                    tried[good is None] += 1
                    allowed = range(4) if good is None else good
                    assert int(chosen[seat]) in allowed, (number, seat, told)
        action, memory, _ = act(Habits.of(drops=0.3), memory, now.view, key)
        state, now = step(key, state, action, task)
    assert tried[False] > 300


def games(env, task, habits, others, number):
    """Score and events per game of two cooks."""
    policy = SeatedPolicy(Cook(), Cook(), others, (True, False))
    if others is None:
        policy = SeatedPolicy(Cook(), Stay(), (), (True, False))
    evaluator = Evaluator(env, policy, ContinualMethod(), number)
    return jax.jit(lambda h: evaluator.play(h, task, KEY))(habits)


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


# --- who is there ---


@dataclass(frozen=True)
class Constant:
    """Always the action that is its parameter."""

    def init(self, key):
        return jnp.int32(0)

    def initial_carry(self, batch):
        return jnp.zeros(batch, jnp.int32)

    def act(self, params, carry, view, key, greedy=False):
        return jnp.broadcast_to(params, view.active.shape), carry + 1, {}


def test_the_partner_of_the_task_plays():
    """Through the environment: in every task, and for games of several partners side by side."""
    env, task = kitchen("cramped_room")
    company = KitchenInCompany(env)
    pair, trio = jnp.array([3, 1]), jnp.array([5, 0, 2])
    everybody = Roster((Group(Constant(), pair, 2), Group(Stay()), Group(Constant(), trio, 3)))
    numbers = jnp.arange(6)
    resets = jax.vmap(
        lambda partner: company.reset(KEY, Company(task, partner, jnp.int32(7)))[1].view
    )
    views = resets(numbers)
    assert np.unique(views.task_id).tolist() == [7]
    actions, memory, _ = everybody.act((), everybody.initial_carry((6,)), views, KEY)
    assert actions.tolist() == [[3, 3], [1, 1], [4, 4], [5, 5], [0, 0], [2, 2]]
    assert [leaf.shape for leaf in jax.tree.leaves(memory)] == [(2, 6), (3, 6)]
    state = company.reset(KEY, Company(task, jnp.int32(2), jnp.int32(0)))[0]
    _, then = company.step(KEY, state, jnp.array([4, 4]), Company(task, numbers[2], numbers[0]))
    assert isinstance(then.view.state, Situation)
    assert int(then.view.state.partner) == 2


def test_partners_draw_even_when_the_learner_is_greedy():
    env, task = kitchen("cramped_room")
    view = KitchenInCompany(env).reset(KEY, Company(task, jnp.int32(0), jnp.int32(0)))[1].view
    policy = Learned(Actor(6, (8,)), env.obs_shape)
    params = jax.tree.map(lambda x: x[None], policy.init(KEY))
    everybody = Roster((Group(policy, params),))
    carry = everybody.initial_carry(())
    keys = jax.random.split(KEY, 30)
    seen = [everybody.act((), carry, view, key, greedy=True)[0].tolist() for key in keys]
    assert len({tuple(each) for each in seen}) > 5


def test_a_task_keeps_its_partner_when_it_is_learned_alone():
    benchmark = partners()
    whole = benchmark.sequence(3, 8, 1000)
    assert whole.names == SCHEDULE
    assert whole.tasks.id.tolist() == list(range(8))
    _, names = roster(PartnerSettings())
    for place, name in enumerate(SCHEDULE):
        alone = one_task(whole, place)
        assert names[int(alone[0].partner)] == name
        assert int(alone[0].id) == 0


def test_our_learned_partners_belong_to_the_kitchen_and_differ():
    population = PartnerSettings().learned()
    assert population.size == 3
    assert population.story["kitchen"] == "cramped_room"
    soups = np.array(population.story["soups"])
    own = np.eye(3, dtype=bool)
    assert soups[own].min() >= 9
    assert soups[~own].max() <= 0.5
    env, task = kitchen("cramped_room")
    _, now = env.reset(KEY, task)
    logits = jax.vmap(lambda p: population.policy.network.apply({"params": p}, now.view.obs))
    best = np.asarray(jax.nn.softmax(logits(population.params)))[:, 1]
    assert np.abs(best[0] - best[1]).sum() + np.abs(best[1] - best[2]).sum() > 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"partners": ("humn",)}, "did you mean 'human'"),
        ({"partners": ("brdiv1", "human")}, "did you mean 'brdiv-1'"),
        ({"partners": ("human",), "population": "nowhere.npz"}, "cannot read the partners"),
        ({"partners": ("brdiv-4",)}, "unknown partner 'brdiv-4'"),
        ({"partners": ("human", "human")}, "name each once"),
        ({"partners": ()}, "partners are none"),
        ({"layout": "cramped"}, "did you mean 'cramped_room'"),
        ({"layout": "coordination_ring"}, "no learned partners for coordination_ring"),
        ({"drops": 1.5}, "from 0 to 1"),
        ({"population": "nowhere.npz"}, "cannot read the partners nowhere.npz"),
    ],
)
def test_partners_that_do_not_fit_are_refused(settings, message):
    with pytest.raises((UserError, ValueError), match=message):
        partners(PartnerSettings(**settings))


def test_more_tasks_than_partners_are_refused(capsys):
    assert main(["run", "meal/partners", "--tasks", "9"]) == 2
    assert "--tasks 9, but 8 partners are named" in capsys.readouterr().err


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
    tasks = jax.tree.map(lambda x: x[None], parts.sequences[0].tasks)
    state = parts.trainer.init([0], tasks)
    for index in range(2):
        state = parts.trainer.begin_task(state, tasks, index)
        state, metrics = parts.trainer.step(state, tasks, index)
        assert np.isfinite(np.asarray(metrics["loss"])).all()
        state = parts.trainer.end_phase(state, tasks, index, "train")
    if method == "er":  # no slot goes to the partner
        kept = state.memory.samples
        assert float(kept.weight[0, :10].min()) == 1.0
    else:
        importance = jax.tree.leaves(state.memory.importance)
        assert max(float(jnp.abs(leaf).max()) for leaf in importance) > 0
    one = jax.tree.map(lambda x: x[0], state)
    task = parts.sequences[0][1]
    source = parts.trainer.source
    _, traj = jax.jit(source.next)(one.source, one.learner.params, task, KEY)
    assert np.unique(traj.action[..., 1]).tolist() == [STAY]
    assert len(np.unique(traj.action[..., 0])) > 2
    _, data, index = parts.learner.prepare(one.learner, traj, KEY)
    assert float(data.weight.sum()) == traj.action.size / 2
    rows = traj.action.size // 2 if memory == "none" else 2
    assert sorted(np.asarray(index).ravel().tolist()) == list(range(0, 2 * rows, 2))
    assert float(parts.learner.take(data, index[0]).weight.min()) == 1.0


# --- files of partners ---


def small_population(obs_shape=(4, 5, 26)):
    policy = Learned(Actor(6, (8,)), obs_shape)
    keys = jax.random.split(KEY, 2)
    params = jax.tree.map(lambda *x: jnp.stack(x), *[policy.init(key) for key in keys])
    return Population(policy, params, {"kitchen": "cramped_room"})


def test_partners_come_back_from_their_file(tmp_path):
    population = small_population()
    (tmp_path / "two.npz").write_bytes(population.as_bytes())
    again = Population.load(tmp_path / "two.npz")
    assert again.policy == population.policy
    assert again.story == population.story
    jax.tree.map(np.testing.assert_array_equal, again.params, population.params)
    settings = PartnerSettings(population=str(tmp_path / "two.npz"), partners=("brdiv-2", "plate"))
    assert partners(settings).sequence(0, 2, 1).names == ("brdiv-2", "plate")


def test_files_that_are_no_partners_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(UserError, match="is no file of partners"):
        Population.load(path)
    np.savez(path, about=np.array({"format": 1}, dtype=object))  # a pickle inside
    with pytest.raises(UserError, match="is no file of partners"):
        Population.load(path)
    path.write_bytes(b"")
    with pytest.raises(UserError, match="is no file of partners"):
        Population.load(path)
    path.write_bytes(small_population().as_bytes())
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **(arrays | {"Dense_0/bias": np.zeros((2, 3))}))
    with pytest.raises(UserError, match="do not fit the network"):
        Population.load(path)
    np.savez(path, **(arrays | {"Dense_0/bias": np.full((2, 6), np.nan)}))
    with pytest.raises(UserError, match="do not fit the network"):
        Population.load(path)
    for change, message in [
        ({"format": 9, "hidden": None}, "has format 9"),
        ({"hidden": ["a"]}, "is damaged"),
        ({"hidden": [0]}, "is damaged"),
        ({"story": None}, "is damaged"),
    ]:
        about = json.loads(str(arrays["about"])) | change
        np.savez(path, **(arrays | {"about": np.array(json.dumps(about))}))
        with pytest.raises(UserError, match=message):
            Population.load(path)


def test_partners_of_another_kitchen_are_refused(tmp_path):
    ours = str(tmp_path / "other.npz")
    Path(ours).write_bytes(small_population((5, 5, 26)).as_bytes())
    with pytest.raises(ValueError, match="do not see what cooks see in cramped_room"):
        partners(PartnerSettings(population=ours))
    with pytest.raises(ValueError, match="were made in cramped_room; make some"):
        partners(PartnerSettings("coordination_ring", population=ours))


# --- BRDiv ---


def test_brdiv_weighs_own_pairs_against_all_others():
    """Worked by hand: 3 members, weight 1. Own (1 + 2) * 3 = 9, others -3 / 2."""
    assert BRDiv().weights().tolist() == [[9, -1.5, -1.5], [-1.5, 9, -1.5], [-1.5, -1.5, 9]]
    weights = BRDiv(members=4, cross_play=0.5).weights()
    soups = np.random.default_rng(0).uniform(size=(4, 4))
    own = np.eye(4, dtype=bool)
    objective = 2.0 * soups[own].mean() - 0.5 * soups[~own].mean()
    assert (weights * soups).mean() == pytest.approx(objective)


@pytest.fixture(scope="module")
def pairings():
    """Players that always do the same: response j action j, partner i action 3 + i."""
    env, task = kitchen("cramped_room")
    short = Overcooked(height=env.height, width=env.width, horizon=6, start_facing="up")
    generator = Generator(BRDiv(members=2, num_envs=3, hidden=(8,), minibatches=4), short)
    players = generator.init(KEY)
    bias = players.actor["Dense_0"]["bias"]
    for seat, first in ((RESPONSE, 0), (PARTNER, 3)):
        for member in range(2):
            bias = bias.at[seat, member, first + member].set(50.0)
    actor = players.actor | {"Dense_0": players.actor["Dense_0"] | {"bias": bias}}
    return generator, players.replace(actor=actor), task


def test_players_of_brdiv_get_their_own_games(pairings):
    generator, players, task = pairings
    samples, soups = jax.jit(generator.play)(players, task, KEY)
    assert soups.shape == (2, 2)
    for seat, first in ((RESPONSE, 0), (PARTNER, 3)):
        for member in range(2):
            assert np.unique(samples.action[seat, member]).tolist() == [first + member]
    others = np.asarray(samples.other).reshape(2, 2, 6, 2, 3)
    weights = np.asarray(samples.weight).reshape(2, 2, 6, 2, 3)
    for member in range(2):
        for other in range(2):
            assert (others[:, member, :, other] == other).all()
            assert (weights[:, member, :, other] == (6 if member == other else 2)).all()
    # Where partner 0 (left) and response 1 (down) play: each sees itself first, at the right place.
    obs = np.asarray(samples.obs).reshape(2, 2, 6, 2, 3, 4, 5, -1)
    response, partner = obs[RESPONSE, 1, :, 0], obs[PARTNER, 0, :, 1]
    np.testing.assert_array_equal(response[..., 0], partner[..., 1])
    np.testing.assert_array_equal(response[..., 1], partner[..., 0])
    rows, columns = np.nonzero(partner[-1, 0, ..., 0])
    assert (rows.tolist(), columns.tolist()) == ([1], [1])  # from column 3 to the left, by 2


def test_others_are_paid_for_what_they_do_not_achieve(pairings):
    """The same reward with the sign of the pairing; advantages by hand with values 0, lambda 1."""
    generator, players, task = pairings
    plain = Generator(
        BRDiv(members=2, num_envs=3, hidden=(8,), gamma=1.0, gae_lambda=1.0), generator.env
    )
    paid = PaidKitchen(**vars(generator.env))
    zero = jax.tree.map(jnp.zeros_like, players.critic)
    samples, _ = Generator(plain.settings, paid).play(players.replace(critic=zero), task, KEY)
    advantage = np.asarray(samples.advantage).reshape(2, 2, 6, 2, 3)
    to_go = np.arange(6, 0, -1)[:, None]  # one reward a step
    for member in range(2):
        for other in range(2):
            sign = 1 if member == other else -1
            for seat in range(2):
                np.testing.assert_allclose(
                    advantage[seat, member, :, other], np.broadcast_to(sign * to_go, (6, 3))
                )


class PaidKitchen(Overcooked):
    """Pays everybody 1 for every step."""

    def step(self, key, state, action, task):
        state, then = super().step(key, state, action, task)
        return state, then.replace(reward=jnp.ones(2))


def test_brdivs_loss_by_hand(pairings):
    """Two samples, ratio 1: -mean(weight * normalised advantage) + value - entropy terms."""
    generator, players, _ = pairings
    player = jax.tree.map(lambda x: x[0, 0], players)
    params = jax.tree.map(jnp.zeros_like, (player.actor, player.critic))
    batch = Samples(
        obs=jnp.zeros((2, 4, 5, 26), jnp.uint8),
        action=jnp.array([0, 3]),
        log_prob=jnp.full(2, -jnp.log(6.0)),
        value=jnp.zeros(2),
        advantage=jnp.array([5.0, 1.0]),
        target=jnp.array([2.0, 4.0]),
        other=jnp.array([0, 1]),
        weight=jnp.array([6.0, 2.0]),
    )
    policy = -(6 * 1 + 2 * -1) / 2
    value = 0.5 * (2**2 / 2 + 4**2 / 2) / 2
    expected = policy + value - 0.02 * np.log(6)
    assert float(generator.loss(params, batch)) == pytest.approx(expected, rel=1e-4)


def test_games_and_players_are_two_orders_of_the_same():
    games = jnp.arange(3 * 3 * 2 * 2 * 4).reshape(3, 3, 2, 2, 4)
    players = by_player(games)
    np.testing.assert_array_equal(players[RESPONSE, 2, 1], games[1, 2, :, RESPONSE])
    np.testing.assert_array_equal(players[PARTNER, 2, 1], games[2, 1, :, PARTNER])
    np.testing.assert_array_equal(by_game(players[..., 0]), games[..., 0])


def test_a_population_is_made_saved_and_shown(tmp_path, capsys):
    out = tmp_path / "pair.npz"
    words = ["partners", "--members", "2", "--steps", "3200", "--num-envs", "1", "--out", str(out)]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "brdiv-2" in shown
    assert f"partners: {out}" in shown
    assert Population.load(out).size == 2
    assert main(words) == 2  # nothing is overwritten
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x.npz", "--members", "1"], "members is 1; it must be a number of at least 2"),
        (["--out", "x.npz", "--cross-play", "nan"], "cross_play is nan"),
        (["--out", "x.npz", "--cross-play", "-1"], "cross_play is -1"),
        (["--out", "x.npz", "--steps", "0"], "steps is 0.0"),
        (["--out", "x.npz", "--seed", "-1"], "seed is -1"),
        (["--out", "x.npz", "--seed", "99999999999999999999"], "it must be from 0 to 4294967295"),
        (["--out", "/dev/null/x.npz"], "cannot write"),
        (["--out", "x.npz", "--layout", "cramped"], "did you mean 'cramped_room'"),
        (["--out", "x.txt"], "saved as .npz"),
        ([], "--out"),
    ],
)
def test_bad_input_makes_no_partners(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["partners", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
