"""The terms of the generators, worked by hand: rewards, weights, multipliers, archives."""

import gzip
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brigade
from brigade.benchmarks.zsc_eval import kitchen
from brigade.core import Everyone, Policy, Seating, Trajectory, View
from brigade.envs.overcooked import EVENTS, MULTI_EVENTS, preferences
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.partners.scripted import Stay
from brigade.partners.wrappers import Noisy
from brigade.populations.cole import COLE
from brigade.populations.comedi import CoMeDi, Mixture, most_compatible
from brigade.populations.coplay import followed, latest_returns, rank_weights
from brigade.populations.e3t import moved_towards
from brigade.populations.hsp import HSP, preferred_reward
from brigade.populations.lbrdiv import LBRDiv, next_multipliers, pair_weights
from brigade.populations.mep import population_surprise
from brigade.populations.tables import returns_by_table
from brigade.populations.trajedi import log_ratio_to_mean, paid_later, smoothed
from brigade.train.members import split

KEY = jax.random.key(0)
GOLDEN = Path(__file__).parents[1] / "golden" / "data"


def rollout(reward, seating=None, ends=None):
    """A trajectory with these rewards [T, B, seats] that ends with its last timestep."""
    reward = jnp.asarray(reward, jnp.float32)
    over = jnp.zeros(reward.shape[:2], bool).at[-1].set(True) if ends is None else jnp.asarray(ends)
    return Trajectory(
        view=None,
        action=None,
        reward=reward,
        terminated=jnp.zeros_like(over),
        truncated=over,
        valid=jnp.ones_like(over),
        info={},
        extras={},
        last_view=None,
        last={},
        seating=seating,
    )


# --- preferences and HSP ---


@pytest.mark.parametrize(
    ("table", "number"),
    [
        ("default", 52),
        ("forced_coordination", 30),
        ("bothway_coordination", 54),
        ("blocked_corridor", 40),
        ("multi", 72),
    ],
)
def test_tables_have_as_many_candidates_as_in_zsc_eval(table, number):
    every = preferences.candidates(table)
    assert len(every) == number
    assert len({tuple(sorted(weights.items())) for weights in every}) == number
    events = MULTI_EVENTS if table == "multi" else EVENTS
    matrix = preferences.weight_matrix(every, events)
    for name, weight in preferences.ALWAYS.items():
        assert (matrix[:, events.index(name)] == weight).all()
    assert (matrix[:, -1] > 0).all()  # the order


@pytest.mark.parametrize("name", ["overcooked_events", "overcooked_multi_traces"])
def test_preferred_rewards_are_those_of_the_recorded_games(name):
    """Weights times events and order times the team's reward; the other gets its own shaping."""
    with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt") as lines:
        games = [json.loads(line) for line in lines]
    for game in games:
        names = game["event_names"]
        weights = np.zeros((2, len(names) + 1), np.float32)
        seat = game["preference"]["seat"]
        for event, weight in game["preference"]["weights"].items():
            weights[seat, names.index(event) if event in names else -1] = weight
        counts = np.array(
            [[[row.get(n, 0) for n in names] for row in s["events"]] for s in game["steps"]]
        )
        team = np.array([[sum(s["sparse"])] * 2 for s in game["steps"]], np.float32)
        shaped = np.array([s["shaped"] for s in game["steps"]], np.float32)
        found = np.asarray(preferred_reward(team, counts, weights))
        found[:, 1 - seat] = (team + shaped)[:, 1 - seat]
        recorded = np.array([s["preference_rewards"] for s in game["steps"]])
        np.testing.assert_allclose(found, recorded, atol=1e-5)


def test_hsp_pays_biased_policies_by_their_weights_and_responses_by_the_game():
    generator = HSP(members=2, weights=("stay=-2,order=0.5", "delivery=7,order=1"))
    assert generator.sets(2) == {"own": tuple(generator.evaluation(2)[1])}
    seating = generator.seat((), None, 4, 2, KEY)
    assert seating.member.tolist() == [[2, 0], [0, 2], [3, 1], [1, 3]]
    events = np.zeros((1, 4, 2, len(EVENTS)), bool)
    events[..., EVENTS.index("stay")] = True
    events[:, 2:, :, EVENTS.index("delivery")] = True
    traj = rollout(np.full((1, 4, 2), 20.0), seating)
    traj = traj.replace(info={"events": jnp.asarray(events), "shaped_reward": jnp.ones((1, 4, 2))})
    paid = generator.reward((), None, None, traj)
    # 0.5 x 20 - 2 for the first biased policy, 20 + 7 for the second.
    assert paid.reward[0].tolist() == [[20, 8], [8, 20], [20, 27], [27, 20]]
    assert paid.info["shaped_reward"][0].tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"table": "defualt"}, "unknown table 'defualt': did you mean 'default'"),
        ({"members": 60}, "the table default has 52 candidates, give at most that"),
        ({"members": 2, "weights": ("stay=1",)}, "give one per member"),
        ({"members": 2, "weights": ("stays=1", "stay=1")}, "unknown event 'stays': did you mean"),
        ({"members": 2, "weights": ("stay", "stay=1")}, "write them as event=number"),
    ],
)
def test_wrong_preferences_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        HSP(**settings)


def test_samples_of_candidates_differ_by_seed_and_have_no_doubles():
    some = HSP(members=10).candidates
    assert some != HSP(members=10, weights_seed=1).candidates
    assert len({str(weights) for weights in some}) == 10
    assert HSP(members=52).candidates == preferences.candidates("default")


# --- MEP and TrajeDi ---


def test_the_population_is_surprised_by_what_it_rarely_does():
    """Probabilities 1/2 and 1/4: -log of the mean 3/8."""
    bonus = population_surprise(jnp.log(jnp.array([[0.5, 1.0], [0.25, 1.0]])))
    np.testing.assert_allclose(bonus, [-np.log(3 / 8), 0.0], atol=1e-6)


def test_smoothing_weighs_actions_by_distance_within_an_episode():
    """Against the full kernel matrix; a second episode starts after the third timestep."""
    values = np.random.default_rng(0).normal(size=(7, 2, 2)).astype(np.float32)
    ends = np.zeros((7, 2), bool)
    ends[2, 0] = True
    found = smoothed(jnp.asarray(values), jnp.asarray(ends), 0.5)
    time = np.arange(7)
    kernel = 0.5 ** (np.abs(time[:, None] - time) + 1)
    np.testing.assert_allclose(found[:, 1], np.einsum("ij,jk->ik", kernel, values[:, 1]), rtol=1e-5)
    same = (time[:, None] <= 2) == (time <= 2)
    np.testing.assert_allclose(
        found[:, 0], np.einsum("ij,jk->ik", kernel * same, values[:, 0]), rtol=1e-5
    )


def test_values_are_paid_later_but_within_their_episode():
    """Against a plain loop; nothing is lost."""
    values = np.random.default_rng(0).normal(size=(9, 2, 1)).astype(np.float32)
    ends = np.zeros((9, 2), bool)
    ends[4, 0] = ends[1, 1] = True
    for lag in (0, 1, 3, 20):
        wanted = np.zeros_like(values)
        for game in range(2):
            for time in range(9):
                last = next(t for t in range(time, 9) if ends[t, game] or t == 8)
                wanted[min(time + lag, last), game] += values[time, game]
        found = paid_later(jnp.asarray(values), jnp.asarray(ends), lag)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_the_ratio_to_the_mean_is_zero_for_equals_and_at_most_log_of_their_number():
    same = jnp.zeros((3, 4))
    np.testing.assert_allclose(log_ratio_to_mean(same[0], same), 0.0, atol=1e-6)
    apart = jnp.array([[0.0], [-100.0], [-100.0]])
    np.testing.assert_allclose(log_ratio_to_mean(apart[0], apart), np.log(3), rtol=1e-6)


# --- LBRDiv ---


def test_pair_weights_are_those_of_the_lagrangian():
    """Two partners; own pairs weigh 1 plus their multipliers, others lose theirs."""
    multipliers = jnp.array([[[0, 1.0], [2.0, 0]], [[0, 3.0], [4.0, 0]]])
    # R_00: 1 + 1 + 3; R_11: 1 + 2 + 4; R_01: -(1 + 4); R_10: -(2 + 3); the mean own weight is 6.
    np.testing.assert_allclose(pair_weights(multipliers), [[5 / 6, -5 / 6], [-5 / 6, 7 / 6]])


def test_multipliers_grow_while_a_constraint_is_violated():
    returns = jnp.array([[100.0, 95.0], [10.0, 50.0]])
    found = next_multipliers(jnp.full((2, 2, 2), 1.0), returns, 20.0, 0.01, 1.6)
    # R_00 - 20 - R_01 = -15; R_11 - 20 - R_10 = 20; R_00 - 20 - R_10 = 70; R_11 - 20 - R_01 = -65.
    np.testing.assert_allclose(found, [[[0, 1.15], [0.8, 0]], [[0, 0.3], [1.6, 0]]], atol=1e-6)


def test_lbrdiv_reads_returns_by_pair_whatever_the_seats():
    generator = LBRDiv(members=2, margin=0.0, multiplier_rate=1e-3, max_multiplier=10.0)
    member = jnp.array([[2, 0], [0, 3], [2, 1], [1, 3]])  # partner 0 with both, partner 1 with both
    seating = Seating(member, jnp.ones((4, 2), bool))
    traj = rollout(np.broadcast_to([[[40.0]], [[10.0]], [[5.0]], [[30.0]]], (4, 1, 2))[None, :, 0])
    after = generator.after(jnp.ones((2, 2, 2)), None, traj.replace(seating=seating), KEY)
    expected = next_multipliers(
        jnp.ones((2, 2, 2)), jnp.array([[40.0, 10.0], [5.0, 30.0]]), 0.0, 1e-3, 10.0
    )
    np.testing.assert_allclose(after, expected, rtol=1e-6)


# --- co-play ---


def test_returns_by_table_are_means_per_episode():
    reward = np.zeros((4, 4, 2))
    reward[:, 0], reward[:, 1], reward[:, 2:] = 1.0, 3.0, 5.0
    ends = np.zeros((4, 4), bool)
    ends[[1, 3]] = True  # two episodes
    assert returns_by_table(rollout(reward, ends=ends), 2).tolist() == [4.0, 10.0]
    assert returns_by_table(rollout(reward, ends=np.zeros((4, 4), bool)), 2).tolist() == [8.0, 20.0]


def test_partner_returns_follow_the_tables_of_each_partner():
    member = jnp.array([[0, 2], [1, 0], [0, 1], [2, 0]])
    own = jnp.array([[True, False], [False, True], [True, False], [False, True]])
    reward = np.broadcast_to(np.array([10.0, 20.0, 40.0, 30.0])[None, :, None], (1, 4, 2))
    traj = rollout(reward, Seating(member, own))
    known = jnp.array([7.0, jnp.nan, 100.0, jnp.nan])
    found = followed(known, *latest_returns(traj, len(known)))
    # Partner 1 had 20 and 40, partner 2 had 10 and 30; 0 and 3 were not there.
    np.testing.assert_allclose(found, [7.0, 30.0, 100 + 0.3 * (20 - 100), np.nan])


def test_the_hardest_partner_is_met_most():
    returns = jnp.array([30.0, 10.0, jnp.nan, 20.0, 5.0])
    there = jnp.array([True, True, True, True, False])
    assert rank_weights(returns, 1.0, there).tolist() == [1.0, 3.0, 4.0, 2.0, 0.0]
    np.testing.assert_allclose(
        rank_weights(returns, 0.5, there), np.sqrt([1.0, 3.0, 4.0, 2.0, 0.0]), rtol=1e-6
    )


def test_the_copy_follows_slowly():
    copy, params = {"w": jnp.array([1.0])}, {"w": jnp.array([3.0])}
    assert moved_towards(copy, params, 0.1)["w"].tolist() == pytest.approx([1.2])


def test_noise_is_masked_or_not():
    env, tasks = brigade.get("envs", "overcooked").example()
    _, now = env.reset(KEY, tasks[0])
    view = jax.tree.map(lambda x: jnp.broadcast_to(x, (1000, *x.shape)), now.view)
    allowed = jnp.zeros(view.avail.shape, bool).at[..., 2:5].set(True)
    view = view.replace(state=None, avail=allowed)
    masked, _, _ = Noisy(Stay(4), 1.0).act((), (), view, KEY)
    assert set(masked.ravel().tolist()) == {2, 3, 4}
    free, _, _ = Noisy(Stay(4), 1.0, masked=False).act((), (), view, KEY)
    assert set(free.ravel().tolist()) == set(range(6))
    layout = kitchen("coordination_ring")
    assert layout.generators["e3t"]["generator_settings"] == {"masked": False}  # as released


def test_noise_replaces_so_many_actions():
    env, tasks = brigade.get("envs", "overcooked").example()
    _, now = env.reset(KEY, tasks[0])
    view = jax.tree.map(lambda x: jnp.broadcast_to(x, (4000, *x.shape)), now.view)
    for epsilon, share in ((0.0, 1.0), (0.5, 0.5 + 0.5 / 6), (1.0, 1 / 6)):
        action, _, _ = Noisy(Stay(4), epsilon).act((), (), view.replace(state=None), KEY)
        assert float((action == 4).mean()) == pytest.approx(share, abs=0.02)


class OneNumber(Policy):
    """A policy whose parameters are one random number."""

    def init(self, key):
        return {"w": jax.random.uniform(key, ())}


def games_of(returns):
    """A rollout in which the ego has these returns with the members of the cast; NaN: not met."""
    met = np.flatnonzero(~np.isnan(returns))
    member = jnp.stack([jnp.zeros(len(met), jnp.int32), jnp.asarray(met, jnp.int32)], axis=1)
    own = jnp.broadcast_to(jnp.array([True, False]), member.shape)
    reward = np.broadcast_to(np.asarray(returns)[met][None, :, None], (1, len(met), 2))
    return rollout(reward, Seating(member, own))


@pytest.mark.parametrize(
    ("archive", "initial"), [(2, 2), (5, 3), (10, 3), (25, 5), (50, 10), (75, 15)]
)
def test_cole_starts_with_different_untrained_networks(archive, initial):
    state = COLE(archive=archive).init({"w": jnp.array(0.0)}, OneNumber(), KEY)
    assert int(state.filled) == initial
    assert len(set(state.params["w"][:initial].tolist())) == initial
    expected = {25: 1.5, 50: 1.0, 75: 0.5}.get(archive, 1.5)
    assert COLE(archive=archive).power == pytest.approx(expected)
    assert not state.params["w"][initial:].any()


def test_cole_samples_by_the_dense_rank_of_mean_utility():
    """Whoever does worst with the archive, itself included, is met most; equals are met alike."""
    generator = COLE(archive=4, initial=3, exponent=2.0)
    state = generator.init({"w": jnp.array(0.0)}, OneNumber(), KEY)
    np.testing.assert_allclose(generator.weights(state, None), [0.25, 0.25, 0.25, 0, 0.25])
    utility = jnp.array([[1.0, 2, 3, 99], [9, 9, 9, 99], [4, 1, 1, 99], [0, 0, 0, 0]])
    found = generator.weights(state.replace(utility=utility), None)  # means 2, 9, 2; ranks 2, 1, 2
    np.testing.assert_allclose(found, [0.75 * 4 / 9, 0.75 / 9, 0.75 * 4 / 9, 0, 0.25], rtol=1e-6)


def test_cole_fills_its_archive_as_a_plain_twin_does():
    """The rules of ZSC-Eval's release in plain Python, over 40 generations of random returns."""
    generator = COLE(archive=6, initial=3, generation=2, max_tries=3)
    state = generator.init({"w": jnp.array(-1.0)}, OneNumber(), KEY)
    after = jax.jit(generator.after)
    rng, order = np.random.default_rng(0), [0, 1, 2]
    utility = {p: dict.fromkeys(order, 0.0) for p in order}
    ego, tries, joined, known = dict.fromkeys(order, 0.0), 0, [], {}
    for number in range(80):
        returns = np.full(7, np.nan)
        some = rng.choice(order, size=2, replace=False)
        returns[some] = rng.integers(0, 50 + number, 2)
        returns[6] = rng.integers(0, 200)
        key = jax.random.key(number)
        state = after(state, {"w": jnp.float32(number)}, games_of(returns), key)
        known |= {p: returns[p] for p in some}
        for p in known:  # the release looks at all returns that it has seen, at every rollout
            ego[p] = (ego[p] + known[p]) / 2
        if number % 2 == 0:
            continue
        full = len(order) == 6
        mine = np.mean([ego[p] for p in order])
        not_higher = sum(np.mean([utility[p][q] for q in order]) <= mine for p in order)
        if not_higher >= np.ceil((0.8 if full else 0.9) * len(order)) or tries == 2:
            place = int(jax.random.randint(key, (), 0, 6)) if full else len(order)
            order += [] if full else [place]
            ego[place] = returns[6]
            known.pop(place, None)
            utility[place] = dict(ego)
            for p in order:
                utility[p][place] = ego[p]
            tries = 0
            joined.append((number, place))
        else:
            tries += 1
        assert int(state.filled) == len(order)
        assert int(state.tries) == tries
        expected = [[utility[p][q] for q in order] for p in order]
        found = state.utility[: len(order), : len(order)]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert len(joined) < 40  # some generations end without a newcomer
    last = {place: number for number, place in joined}
    assert {p: state.params["w"][p] for p in last} == last


def test_cole_ends_a_generation_after_its_rollouts():
    generator = COLE(archive=4, generation=2)
    state = generator.init({"w": jnp.array(0.0)}, OneNumber(), KEY)
    returns = np.array([12.0, np.nan, 8.0, np.nan, 20.0])
    first = generator.after(state, {"w": jnp.array(1.0)}, games_of(returns), KEY)
    assert (int(first.filled), int(first.rollouts), float(first.self_play)) == (3, 1, 20.0)
    assert first.own.tolist() == [6.0, 0.0, 4.0, 0.0]
    second = generator.after(first, {"w": jnp.array(2.0)}, games_of(returns), KEY)
    assert (int(second.filled), int(second.rollouts)) == (4, 0)
    assert second.params["w"][3] == 2.0
    assert second.utility[3].tolist() == [9.0, 0.0, 6.0, 20.0]


# --- CoMeDi ---


def test_unknown_earlier_policies_are_tried_first_and_then_the_best_is_met():
    nan = jnp.nan
    returns = jnp.array([[nan, nan, nan], [5.0, nan, nan], [7.0, 9.0, nan]])
    assert most_compatible(returns).tolist() == [0, 0, 1]
    assert most_compatible(returns.at[2, 0].set(nan)).tolist() == [0, 0, 0]


def test_comedi_seats_self_cross_and_mixed_play_and_pays_each_its_weight():
    generator = CoMeDi(members=3, cross_play=0.5, mixed_play=0.25, explore=0.0)
    state = generator.init(None, None, KEY).at[2].set(jnp.array([1.0, 8.0, jnp.nan]))
    seating = generator.seat(state, None, 9, 2, KEY)
    assert seating.own.sum(1).tolist() == [1] * 9
    policy, other, kind = generator.kinds(seating)
    assert policy.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    # The first has only itself; the third works best with the second; 3 + i is a mixture.
    assert other.tolist() == [0, 0, 0, 1, 0, 4, 2, 1, 5]
    assert kind.tolist() == [0, 0, 0, 0, 1, 2, 0, 1, 2]
    traj = rollout(np.full((1, 9, 1), 4.0), seating)
    traj = traj.replace(info={"shaped_reward": jnp.full((1, 9, 2), 2.0)})
    paid = generator.reward(state, None, None, traj)
    assert paid.reward[0, :, 0].tolist() == [4, 4, 4, 4, -2, 1, 4, -2, 1]
    assert paid.info["shaped_reward"][0, 4].tolist() == [-1, -1]
    after = generator.after(state, None, traj, KEY)
    assert after[1, 0] == 4.0  # first game
    assert after[2, 1] == pytest.approx(8 + 0.3 * (4 - 8))
    assert after[2, 0] == 1.0  # not met


def test_a_mixture_is_the_other_half_of_the_time_until_it_ends():
    class Constant(Policy):
        def act(self, params, carry, view, key, greedy=False):
            return jnp.full(view.active.shape, params), carry, {}

    mixture = Mixture(Constant(), longest=10)
    shape = (4000, 1)
    view = View(
        obs=None,
        avail=None,
        prev_action=None,
        prev_reward=None,
        first=jnp.ones(shape, bool),
        active=jnp.ones(shape, bool),
        task_id=None,
    )
    carry, shares = mixture.initial_carry(shape), []
    for time in range(12):
        key = jax.random.fold_in(KEY, time)
        action, carry, _ = mixture.act(
            (0, 1), carry, view.replace(first=jnp.full(shape, time == 0)), key
        )
        shares.append(float(action.mean()))
    # Mixing ends at a uniformly random timestep: at t it goes on with probability (9 - t) / 10.
    expected = [0.5 * max(9 - time, 0) / 10 for time in range(12)]
    assert shares == pytest.approx(expected, abs=0.03)
    assert shares[9:] == [0, 0, 0]


@pytest.mark.slow
def test_a_policy_beside_partners_learns_from_its_own_seat_only():
    """`split` of a population with partners: every policy gets its own seat's observations."""
    env, _ = brigade.get("envs", "overcooked").example()
    base = IPPO(PPOConfig(minibatches=1), NetworkConfig(hidden=(4,))).build(
        env, num_tasks=1, updates_per_task=1, critic_ids=3
    )
    generator = CoMeDi(members=2, explore=0.0)
    seating = generator.seat(generator.init(None, None, KEY), None, 6, 2, KEY)
    seat = jnp.where(seating.own, jnp.arange(2), 0).sum(1, keepdims=True).astype(jnp.int32)
    steps, games = 3, 6
    kinds = jnp.take_along_axis(generator.critic_id(seating), seat, axis=1)
    number = jnp.arange(games, dtype=jnp.float32)[None, :, None] * jnp.ones((steps, 1, 1))
    blank = View(
        obs=jnp.zeros((steps, games, 1, 1)),
        avail=jnp.ones((steps, games, 1, 6), bool),
        prev_action=jnp.zeros((steps, games, 1), jnp.int32),
        prev_reward=jnp.zeros((steps, games, 1)),
        first=jnp.zeros((steps, games, 1), bool),
        active=jnp.ones((steps, games, 1), bool),
        task_id=jnp.zeros((steps, games, 1), jnp.int32),
        state=Everyone(None, jnp.broadcast_to(kinds, (steps, games, 1))),
    )
    shaped = jnp.stack([10 + number[..., 0], 20 + number[..., 0]], axis=-1)
    traj = rollout(number, seating).replace(
        view=blank,
        action=jnp.zeros((steps, games, 1), jnp.int32),
        info={"shaped_reward": shaped},
        last_view=jax.tree.map(lambda x: x[0], blank),
        seat=seat,
    )
    each = split(traj, base, 2, generator.seats_per_table(2))
    assert each.reward[:, 0, :, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    wanted = [10 * (1 + int(seat[game, 0])) + game for game in range(games)]
    assert each.info["shaped_reward"][:, 0, :, 0].reshape(-1).tolist() == wanted
    assert each.view.state.seat[:, 0, :, 0].tolist() == [[0, 0, 0], [0, 1, 2]]  # kinds of games
