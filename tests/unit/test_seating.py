"""Who plays is data: seats, partners of any kind, and what the learner learns from."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.parts import make_learner
from support.tell import TASK, Counts, Nowhere, Says, Tell

from brigade.core import Acting, Cast, ContinualMethod, Group, Pairing, Round, Seating
from brigade.core.seating import arrangements, evenly_sampled, pairings
from brigade.core.trees import pick
from brigade.envs.jaxnav import JaxNav
from brigade.envs.overcooked import Overcooked
from brigade.errors import UserError
from brigade.learners import IPPO, MAPPO, NetworkConfig, PPOConfig
from brigade.partners import Random, Stay
from brigade.partners.cast import cast_of
from brigade.runs.assemble import assemble, tables_for
from brigade.runs.baselines import with_seeds
from brigade.runs.config import from_dict
from brigade.runs.speed import shrunk
from brigade.testing import check_own_moves
from brigade.train import DeviceSource, Evaluator, Players, programs
from brigade.train.players import by_member, by_table, places_of
from brigade.train.programs import acting_with
from brigade.train.trainer import stack_sequences

KEY = jax.random.key(0)


def rollout(players, cast, seating, num_envs=4, agents=2, steps=4):
    env = Tell(agents)
    source = DeviceSource(env, players, num_envs, steps, seating.shape[0])
    acting = Acting(jnp.int32(0), cast, seating)
    return source.next(source.start(KEY, TASK), acting, TASK, KEY)


def all_actions(state):
    """What every seat did last, [num_envs, seats]."""
    return np.asarray(state.step.view.prev_action)


@pytest.mark.slow
def test_everybody_plays_the_seat_that_the_seating_says():
    """Two groups and a single partner, on either seat; the learner says 0."""
    groups = (Group(Says(), 2), Group(Counts(), 2), Group(Says()))
    cast = (jnp.array([5, 6]), jnp.array([1, 2]), jnp.array([8]))
    member = jnp.array([[0, 0], [1, 0], [0, 3], [4, 0]])
    own = jnp.array([[True, False], [False, True], [True, False], [False, True]])
    players = Players(Says(), groups, own_seats=1)
    state, traj = rollout(players, cast, Seating(member, own))
    # After 4 steps the one that counts has said 3 + 2.
    assert all_actions(state).tolist() == [[0, 5], [6, 0], [0, 5], [8, 0]]
    assert np.asarray(traj.seat).tolist() == [[0], [1], [0], [1]]
    assert np.asarray(traj.view.obs)[0, :, 0, 0].tolist() == [0, 1, 0, 1]
    assert traj.action.shape == traj.reward.shape == (4, 4, 1)
    assert not np.asarray(traj.action).any()


@pytest.mark.slow
def test_four_seats_with_two_partners():
    groups = (Group(Says(), 3),)
    member = jnp.array([[0, 2, 0, 1], [1, 1, 0, 0]])
    own = jnp.array([[True, False, True, False], [False, False, True, True]])
    state, traj = rollout(
        Players(Says(), groups, own_seats=2), (jnp.array([4, 5, 6]),), Seating(member, own), 4, 4
    )
    assert all_actions(state).tolist() == [[0, 6, 0, 5]] * 2 + [[5, 5, 0, 0]] * 2
    assert np.asarray(traj.seat).tolist() == [[0, 2]] * 2 + [[2, 3]] * 2


@dataclass(frozen=True)
class Watches(Says):
    """Its rollouts hold what everybody did."""

    needs_actions: ClassVar[bool] = True


@pytest.mark.slow
def test_a_rollout_holds_the_actions_of_all_seats_if_asked_for():
    member = jnp.array([[0, 2, 0, 1], [1, 1, 0, 0]])
    own = jnp.array([[True, False, True, False], [False, False, True, True]])
    cast, seating = (jnp.array([4, 5, 6]),), Seating(member, own)
    _, traj = rollout(Players(Watches(), (Group(Says(), 3),), own_seats=2), cast, seating, 2, 4)
    joint = np.asarray(traj.extras["joint_action"])
    assert joint.shape == (4, 2, 2, 4)  # timesteps, environments, own seats, all seats
    assert (joint == np.array([[0, 6, 0, 5], [5, 5, 0, 0]])[None, :, None]).all()
    _, without = rollout(Players(Says(), (Group(Says(), 3),), own_seats=2), cast, seating, 2, 4)
    assert "joint_action" not in without.extras


@pytest.mark.slow
@pytest.mark.parametrize("balanced", [False, True])
def test_members_of_a_group_keep_their_memories_apart(balanced):
    """Also where nothing is gathered because everybody has equally many places."""
    groups = (Group(Counts(), 2, balanced=balanced),)
    member = jnp.array([[0, 1], [0, 0], [1, 0], [0, 0]])
    own = jnp.array([[True, False], [True, False], [False, True], [False, True]])
    state, _ = rollout(
        Players(Says(), groups, own_seats=1), (jnp.array([0, 3]),), Seating(member, own), 8
    )
    assert all_actions(state)[::2].tolist() == [[0, 6], [0, 3], [6, 0], [3, 0]]


@pytest.mark.slow
def test_a_population_acts_where_its_members_sit():
    member = jnp.array([[2, 0], [1, 2], [0, 1]])
    seating = Seating(member, jnp.ones((3, 2), bool))
    env, players = Tell(), Players(Counts(), members=3)
    source = DeviceSource(env, players, 6, 4, 3)
    acting = Acting(jnp.array([0, 2, 4]), (), seating)
    state, traj = source.next(source.start(KEY, TASK), acting, TASK, KEY)
    assert all_actions(state)[::2].tolist() == [[7, 3], [5, 7], [3, 5]]
    assert traj.action.shape == (4, 6, 2)


@pytest.mark.slow
def test_grouping_by_member_and_back():
    member = jax.random.permutation(KEY, jnp.repeat(jnp.arange(4), 3)).reshape(6, 2)
    places = places_of(member, 4)
    x = jnp.repeat(member, 5, axis=0)  # [30 environments, 2 seats]
    grouped = by_member(x, places, 6)
    assert grouped.shape == (4, 15)
    assert (grouped == jnp.arange(4)[:, None]).all()
    y = jnp.arange(60.0).reshape(30, 2)
    np.testing.assert_array_equal(by_table(by_member(y, places, 6), places, 6), y)
    later = by_member(jnp.stack([y, y + 100]), places, 6, axis=1)  # time in front
    np.testing.assert_array_equal(later[:, 1] - 100, later[:, 0])


# --- sampled seatings ---


def test_partners_are_sampled_evenly_by_their_weights():
    weights = jnp.array([1.0, 0.0, 2.0, 1.0])
    sampled = Counter(np.asarray(evenly_sampled(KEY, weights, 8)).tolist())
    assert sampled == {0: 2, 2: 4, 3: 2}
    # Fewer places than partners: in the long run as often as their weights say.
    keys = jax.random.split(KEY, 2000)
    one = np.asarray(jax.vmap(lambda key: evenly_sampled(key, weights, 1))(keys))
    np.testing.assert_allclose(
        np.bincount(one.ravel(), minlength=4) / 2000, [0.25, 0, 0.5, 0.25], atol=0.04
    )


def test_seats_are_sampled_for_every_table():
    people = pairings(cast_for("abc"), [("a", "c")], arrangements(["random"], 3), 3)
    one = jax.tree.map(lambda x: x[0], people)
    seating = one.sample(KEY, 12, 3)
    own = np.asarray(seating.own)
    assert own.sum(1).tolist() == [1] * 12
    assert own.sum(0).tolist() == [4, 4, 4]
    partners = np.asarray(seating.member)[~own]
    assert Counter(partners.tolist()) == {0: 12, 2: 12}
    assert people.evaluation.own.shape == (1, 2, 3, 3)  # tasks, partners, arrangements, seats
    assert np.asarray(people.evaluation.member)[0, 1, 0].tolist() == [0, 2, 2]


def one_task(names, seats, agents=2):
    people = pairings(cast_for("".join(names)), [tuple(names)], arrangements(seats, agents), agents)
    return jax.tree.map(lambda x: x[0], people)


def test_tables_that_can_be_shared_out_evenly_keep_their_seating():
    constant = one_task("ab", ["random"]).constant(8)
    rows = zip(constant.member.tolist(), constant.own.tolist(), strict=True)
    who = Counter(
        (tuple(own), next(m for m, o in zip(member, own, strict=True) if not o))
        for member, own in rows
    )
    both = [(True, False), (False, True)]
    assert who == {(own, partner): 2 for own in both for partner in (0, 1)}
    assert one_task("ab", ["random"]).constant(6) is None  # four kinds of tables
    assert one_task("abc", ["0"]).constant(6).member[:, 1].tolist() == [0, 1, 2, 0, 1, 2]
    # Two partners on two other seats can differ, one partner cannot.
    assert one_task("ab", ["0"], agents=3).constant(4) is None
    assert one_task("a", ["0"], agents=3).constant(4).own.tolist() == [[True, False, False]] * 4


@pytest.mark.slow
def test_no_game_is_broken_off_where_the_seating_never_changes():
    """Games of Hanabi end at any time; rollouts are shorter than they may be."""
    settings = {
        "benchmark": "hanabi/standard",
        "preset": "laptop",
        "partners": ["random"],
        "num_envs": 8,
        "num_steps": 12,
        "env": {"colors": 2, "ranks": 3, "hand_size": 2, "hint_tokens": 3, "life_tokens": 2},
        "ppo": {"minibatches": 1},
        "network": {"hidden": [4]},
    }
    parts = assemble(from_dict(settings))
    rounds, cast = stack_sequences(parts.sequences, parts.lineup.pairings), parts.lineup.cast
    trainer, task = parts.trainer, parts.sequences[0][0]
    now = pick(pick(rounds, 0), 0)
    learner = trainer.learner.init(KEY)

    @jax.jit
    def play(source, key):
        acting = acting_with(trainer, learner.params, (), cast, now.pairing, key)
        return trainer.source.next(source, acting, task, key)

    source, first, ended = trainer.source.start(KEY, task), [], []
    for number in range(8):
        source, traj = play(source, jax.random.key(number))
        first.append(traj.view.first[..., 0])
        ended.append(traj.terminated)
    first, ended = np.concatenate(first), np.concatenate(ended)
    assert ended.sum() > 20
    # Every game but the first begins because one has ended in the timestep before.
    np.testing.assert_array_equal(first[1:], ended[:-1])
    assert np.asarray(source.seating.own).sum(0).tolist() == [4, 4]


@pytest.mark.slow
def test_every_seed_meets_the_partners_that_are_named_for_it():
    settings = {"partners": ["random", "static", "human"], "seeds": 2}
    chosen = {"partners_of_seed": ["random,human", "human,static"]}
    parts = assemble(from_dict(SMALL | settings | chosen))
    weights = [pairing.weights[0].tolist() for pairing in parts.lineup.pairings]
    cast = list(cast_of(settings["partners"], parts.trainer.source.env).names)
    met = [{cast[n] for n, weight in enumerate(row) if weight} for row in weights]
    assert met == [{"random", "human"}, {"human", "static"}]
    assert parts.lineup.partner_names == ("partner 1 of the seed", "partner 2 of the seed")
    # One seed is timed for `plan`, and the baselines of a seed meet that seed's partners.
    experiment = from_dict(SMALL | settings | chosen)
    assert assemble(shrunk(experiment)).lineup.pairings[0].weights[0].tolist() == weights[0]
    config = with_seeds(experiment.config, experiment.config.seed + 1, 3)
    assert (config.seeds, config.partners_of_seed) == (3, ("human,static",) * 3)
    everybody = assemble(from_dict(SMALL | settings))
    assert set(everybody.lineup.partner_names) == set(cast)


def test_every_seat_is_sampled_even_with_one_table():
    people = pairings(cast_for("a"), [("a",)], arrangements(["random"], 3), 3)
    one = jax.tree.map(lambda x: x[0], people)
    keys = jax.random.split(KEY, 300)
    own = np.asarray(jax.vmap(lambda key: one.sample(key, 1, 3).own)(keys))
    np.testing.assert_allclose(own.mean((0, 1)), 1 / 3, atol=0.1)


@pytest.mark.slow
def test_the_same_people_play_on():
    """Rollouts of 3 steps, games of 4, nobody changes: no game is cut."""
    env, players = Tell(), Players(Says(), (Group(Says(), 2),), own_seats=1)
    source = DeviceSource(env, players, 1, 3)
    state, times = source.start(KEY, TASK), []
    seating = Seating(jnp.array([[0, 1]]), jnp.array([[True, False]]))
    for _ in range(4):
        acting = Acting(jnp.int32(0), (jnp.array([5, 6]),), seating)
        state, traj = source.next(state, acting, TASK, KEY)
        times += np.asarray(traj.view.obs)[:, 0, 0, 1].tolist()
    assert times == [0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2]


def cast_for(names):
    return Cast((Group(Says(), len(names)),), (jnp.arange(len(names)),), tuple(names))


@pytest.mark.parametrize(
    ("seats", "agents", "found"),
    [
        (["0"], 2, ((0,),)),
        (["random"], 2, ((0,), (1,))),
        (["3", "1"], 4, ((1, 3),)),
        (["random", "random"], 3, ((0, 1), (0, 2), (1, 2))),
    ],
)
def test_words_for_seats(seats, agents, found):
    assert arrangements(seats, agents) == found


@pytest.mark.parametrize(
    "seats", [["2"], ["0", "0"], ["random", "0"], [], ["first"], ["0", "1", "2"]]
)
def test_seats_that_are_none_are_refused(seats):
    with pytest.raises(ValueError, match="seats are"):
        arrangements(seats, 2)


@pytest.mark.slow
def test_people_change_when_their_games_may_be_over():
    """Rollouts of 3 steps, games of 4: a seating lasts two rollouts, and then games start anew."""
    env, players = Tell(), Players(Says(), (Group(Says(), 2),), own_seats=1)
    source = DeviceSource(env, players, 1, 3)
    state = source.start(KEY, TASK)
    seen = []
    for partner in (0, 1, 1, 0):
        seating = Seating(jnp.array([[0, partner]]), jnp.array([[True, False]]))
        acting = Acting(jnp.int32(0), (jnp.array([5, 6]),), seating)
        state, traj = source.next(state, acting, TASK, KEY)
        seen.append((int(all_actions(state)[0, 1]), np.asarray(traj.view.obs)[:, 0, 0, 1].tolist()))
    # The second and the fourth seating come too early and are not taken.
    assert [partner for partner, _ in seen] == [5, 5, 6, 6]
    assert [times for _, times in seen] == [[0, 1, 2], [3, 4, 0], [0, 1, 2], [3, 4, 0]]


# --- evaluation ---


@pytest.mark.slow
def test_evaluations_meet_everybody_on_every_seat():
    cast = cast_for("abc")
    people = pairings(cast, [("a", "b", "c")] * 2, arrangements(["random"], 2), 2)
    evaluator = Evaluator(Tell(), Players(Says(), cast.groups, own_seats=1), ContinualMethod(), 2)
    rounds = Round(Nowhere(jnp.arange(2)), people)
    result = evaluator(jnp.int32(4), (), rounds, KEY, (jnp.array([0, 1, 2]),))
    assert result.score.shape == (2, 3, 2, 2)  # tasks, partners, seats, episodes
    assert np.asarray(result.score)[0, :, :, 0].tolist() == [[4, 4], [5, 5], [6, 6]]
    assert np.unique(result.returns).tolist() == [16.0]  # the learner's own: four times 4


@pytest.mark.slow
@pytest.mark.parametrize("with_partner", [False, True])
def test_consecutive_episodes_keep_the_learners_memory(with_partner):
    """The learner counts on over three games; a partner that counts starts each anew."""
    groups = (Group(Counts()),) if with_partner else ()
    players = Players(Counts(), groups, own_seats=1 if with_partner else 0)
    people = None
    if with_partner:
        cast = Cast(groups, (jnp.zeros(1, jnp.int32),), ("partner",))
        people = jax.tree.map(lambda x: x[0], pairings(cast, [("partner",)], [(1,)], 2))
    evaluator = Evaluator(Tell(), players, ContinualMethod(), 2, consecutive=3)
    acting = Acting(jnp.int32(0), (jnp.zeros(1, jnp.int32),) if with_partner else ())
    result = evaluator.play(acting, Round(TASK, people), KEY)
    assert result.score.shape == (1, 1, 2, 3)
    learner, partner = np.array([3, 7, 11]), np.array([3, 3, 3])  # in the last step of each game
    expected = learner + partner if with_partner else 2 * learner
    np.testing.assert_array_equal(result.score[0, 0, 0], expected)


@pytest.mark.slow
def test_a_memory_stops_with_its_game():
    """Games of 4 steps in a horizon of 6: what is not played is not remembered."""

    @dataclass(frozen=True)
    class Ends(Tell):
        horizon: int = 6

        def _now(self, time, action, task):
            now = super()._now(time, action, task)
            return now.replace(terminated=time >= 4, truncated=jnp.bool_(False))

    evaluator = Evaluator(Ends(), Players(Counts()), ContinualMethod(), 1, consecutive=2)
    result = evaluator.play(Acting(jnp.int32(0)), Round(TASK), KEY)
    np.testing.assert_array_equal(result.score[0, 0, 0], [6, 14])


# --- partners of any kind, through whole runs ---


SMALL: dict[str, Any] = {
    "benchmark": "meal/level-1",
    "tasks": 1,
    "seeds": 1,
    "num_envs": 4,
    "num_steps": 40,
    "steps_per_task": 160,
    "eval_episodes": 1,
    "ppo": {"epochs": 1, "minibatches": 2},
    "network": {"hidden": [8]},
}


def one_update(settings):
    """The parts, the state after an update and its metrics."""
    parts = assemble(from_dict(SMALL | settings))
    rounds, cast = stack_sequences(parts.sequences, parts.lineup.pairings), parts.lineup.cast
    state = parts.trainer.begin_task(parts.trainer.init([0], rounds, cast), rounds, 0)
    state, metrics = parts.trainer.step(state, rounds, 0, cast)
    return parts, state, metrics


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "seats"),
    [
        ({"partners": ["random"], "seats": ["0"]}, [[0]]),
        ({"partners": ["random"], "seats": ["1"]}, [[1]]),
        ({"partners": ["random", "static"]}, [[0], [1]]),
        ({"partners": ["random"], "seats": ["1", "3"], "env": {"num_agents": 4}}, [[1, 3]]),
    ],
    ids=["seat 0", "seat 1", "drawn", "four cooks, two of them partners"],
)
def test_a_learner_learns_on_any_seat(settings, seats):
    parts, state, metrics = one_update(settings)
    assert np.isfinite(np.asarray(metrics["loss"])).all()
    seated = np.asarray(state.source.seating.own)[0]
    found = sorted({tuple(np.flatnonzero(row)) for row in seated})
    assert found == [tuple(row) for row in seats]
    names = tuple("+".join(map(str, row)) for row in seats)
    assert parts.lineup.seat_names == names


@pytest.mark.slow
@pytest.mark.parametrize("actions", ["discrete", "continuous"])
def test_robots_learn_with_partners(actions):
    """Components of an action stay with their seat: the partner that stands still does."""
    settings = {
        "benchmark": "jaxnav/20",
        "partners": ["static"],
        "seats": ["1"],
        "env": {"actions": actions, "horizon": 40},
    }
    parts, state, metrics = one_update(settings)
    assert np.isfinite(np.asarray(metrics["loss"])).all()
    games = state.source.env_state
    np.testing.assert_allclose(np.asarray(games.speed)[0, :, 0], 0.0, atol=1e-6)
    assert np.abs(np.asarray(games.speed)[0, :, 1]).max() > 0
    assert parts.trainer.source.env.continuous == (actions == "continuous")


def test_a_random_robot_moves_within_the_bounds():
    env = JaxNav(height=6, width=5, horizon=20, actions="continuous")
    view = env.example()[1]
    _, now = env.reset(KEY, view[0])
    action, _, _ = Random.for_game(env).act((), (), now.view, KEY)
    assert action.shape == (2, 2)
    assert float(jnp.abs(action).max()) <= 1.0


def test_partners_that_do_not_fit_the_game_are_refused():
    env = JaxNav()
    with pytest.raises(UserError, match="partner human: scripted cooks need Overcooked"):
        cast_of(["human"], env)
    with pytest.raises(UserError, match="need Overcooked with the full view"):
        cast_of(["plate"], Overcooked(view=(1, 1, 0)))
    with pytest.raises(UserError, match="this environment has no stay action"):
        cast_of(["static"], Tell())


@pytest.mark.slow
def test_greedy_partners_are_greedy_or_refused():
    env, task = Overcooked.example()
    learner = make_learner(env)
    params = jax.tree.map(lambda x: x[None], learner.init(KEY).params)
    for greedy in (True, False):
        players = Players(Stay(4), (Group(learner.policy, 1, greedy),), own_seats=1)
        seating = Seating(jnp.zeros((1, 2), jnp.int32), jnp.array([[True, False]]))
        seated = players.take_seats(Acting((), (params,), seating))
        view = jax.tree.map(lambda x: x[None], env.reset(KEY, task[0])[1].view)
        memory = players.initial_memory(1, 2, 1)
        moves = {
            int(players.act(seated, memory, view, jax.random.key(n))[0][0, 1]) for n in range(30)
        }
        assert (len(moves) == 1) == greedy
    with pytest.raises(UserError, match="Random always samples"):
        cast_of(["random"], env, greedy=True)
    with pytest.raises(UserError, match="Cook always samples"):
        cast_of(["human"], env, greedy=True)


@pytest.mark.slow
def test_another_partner_of_the_same_shape_compiles_nothing(tmp_path):
    """Neither training nor evaluation is traced again for another file."""
    from brigade.partners.files import Policies, interface, load_policies
    from brigade.train.programs import evaluate, evaluate_compiled

    parts = assemble(from_dict(SMALL))
    policy = make_learner(parts.benchmark.env, 1).policy
    counts = []
    for number in range(2):
        made, params = policy.actor(policy.init(jax.random.key(number)), 0)
        params = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), params)
        members = [{"name": f"{number}-{n}"} for n in range(2)]
        policies = Policies(made, params, interface(parts.benchmark.env), members)
        path = tmp_path / f"{number}.safetensors"
        path.write_bytes(policies.as_bytes())
        assert load_policies(path).policy == made
        found, state, _ = one_update({"partners": [str(path)]})
        rounds = stack_sequences(found.sequences, found.lineup.pairings)
        evaluate(found.trainer, found.evaluator, state, rounds, KEY[None], found.lineup.cast)
        counts.append((programs.step._cache_size(), evaluate_compiled._cache_size()))
    assert counts[0] == counts[1]


def test_tables_are_as_many_as_may_differ():
    one = pairings(cast_for("a"), [("a",)], [(0,)], 2)
    assert tables_for(48, [one]) == 1
    assert tables_for(48, [pairings(cast_for("ab"), [("a", "b")], [(0,)], 2)]) == 48
    assert tables_for(96, [pairings(cast_for("a"), [("a",)], [(0,), (1,)], 2)]) == 48
    assert tables_for(96, []) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"partners": ["humn"]}, "did you mean 'human'"),
        ({"partners": ["human"], "seats": ["2"]}, "this game has seats 0 to 1"),
        ({"partners": ["human"], "seats": ["0", "1"]}, "no seat is left for the partners"),
        ({"seats": ["1"]}, "--greedy-partners need partners; add --partners"),
        ({"greedy_partners": True}, "--greedy-partners need partners; add --partners"),
        (
            {"partners": ["tests/support/tell.py:Nowhere"]},
            "tell.py:Nowhere cannot be made without arguments",
        ),
        ({"benchmark": "meal/partners", "partners": ["human"]}, "has its own partners"),
        ({"partners": ["x.npz"]}, "unknown partner 'x.npz'"),
        ({"partners_of_seed": ["human"]}, "chooses among partners; add --partners"),
        (
            {"partners": ["human"], "partners_of_seed": ["human", "human"]},
            "has 2 texts and seeds is 1; give one text per seed",
        ),
        ({"partners": ["human"], "partners_of_seed": ["hman"]}, "did you mean 'human'"),
        (
            {"partners": ["human", "static"], "partners_of_seed": ["human,human"]},
            "names a partner twice in human,human",
        ),
        (
            {
                "partners": ["human", "static"],
                "seeds": 2,
                "partners_of_seed": ["human", "human,static"],
            },
            "has 1 and 2 names; every seed must meet equally many",
        ),
    ],
)
def test_partners_and_seats_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        assemble(from_dict(SMALL | settings))


# --- what is learned from ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "network"),
    [(IPPO, {}), (MAPPO, {}), (IPPO, {"memory": "gru"}), (MAPPO, {"memory": "gru"})],
    ids=["ippo", "mappo", "ippo-gru", "mappo-gru"],
)
def test_no_gradient_comes_from_foreign_moves(kind, network):
    def build(env, num_tasks):
        ppo = PPOConfig(epochs=1, minibatches=2)
        settings = kind(ppo, NetworkConfig(hidden=(8,), memory_size=4, **network))
        return settings.build(env, num_tasks=num_tasks, updates_per_task=4)

    check_own_moves(build)


@pytest.mark.slow
def test_a_central_critic_sees_all_seats_beside_partners():
    """Values of samples are those of the joint observation and the sample's seat, by hand."""
    env = Tell(3)
    learner = MAPPO(PPOConfig(epochs=1, minibatches=1), NetworkConfig(hidden=(8,))).build(
        env, num_tasks=1, updates_per_task=2
    )
    state = learner.init(KEY)
    players = Players(learner.policy, (Group(Says(), 2),), own_seats=2)
    source = DeviceSource(env, players, 2, 3, 2)
    seating = Seating(
        jnp.array([[0, 0, 0], [1, 0, 0]]), jnp.array([[True, False, True], [False, True, True]])
    )
    acting = Acting(state.params, (jnp.array([1, 2]),), seating)
    _, traj = source.next(source.start(KEY, TASK), acting, TASK, KEY)
    _, data, index = learner.prepare(state, traj, KEY)
    batch = learner.take(data, index[0])
    values = learner.outputs(state.params, batch).value
    network, rows = learner.policy.network, np.asarray(index[0])
    from brigade.nets import Joint

    for row, value in zip(rows, np.asarray(values), strict=True):
        time, rest = divmod(int(row), 4)
        game, place = divmod(rest, 2)
        seat = [[0, 2], [1, 2]][game][place]
        joint = jnp.array([[n, time] for n in range(3)], jnp.uint8).reshape(1, -1)
        own = jnp.array([[seat, time]], jnp.uint8)
        out = network.apply(
            {"params": state.params}, own, jnp.zeros(1, jnp.int32), Joint(joint, jnp.array([seat]))
        )
        np.testing.assert_allclose(value, out.value[0], rtol=1e-5)


@pytest.mark.slow
def test_shaped_rewards_are_shared_with_the_whole_table():
    """What a partner does for the team counts where shaping is shared, and not where it is not."""
    from brigade.learners.losses import total_reward

    env, sequence = Overcooked.example()
    players = Players(Stay(4), (Group(Says()),), own_seats=1)
    source = DeviceSource(env, players, 2, 5)
    seating = Seating(jnp.zeros((1, 2), jnp.int32), jnp.array([[False, True]]))
    acting = Acting((), (jnp.array([5]),), seating)
    _, traj = source.next(source.start(KEY, sequence[0]), acting, sequence[0], KEY)
    shaped = jnp.zeros((5, 2, 2)).at[:, :, 0].set(3.0).at[:, :, 1].set(2.0)
    traj = traj.replace(info=traj.info | {"shaped_reward": shaped})
    assert np.unique(total_reward(traj, jnp.float32(1.0), share=True)).tolist() == [5.0]
    assert np.unique(total_reward(traj, jnp.float32(1.0), share=False)).tolist() == [2.0]


def test_a_company_is_plain_data():
    people = pairings(cast_for("ab"), [("a",), ("b",)], [(0,)], 2)
    assert isinstance(people, Pairing)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(people))
    with pytest.raises(ValueError, match="equally many partners"):
        pairings(cast_for("ab"), [("a",), ("a", "b")], [(0,)], 2)
