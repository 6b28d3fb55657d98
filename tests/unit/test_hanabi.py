"""Hanabi against OpenSpiel and JaxMARL, and what they do not have: tasks, targets, pictures."""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import permutations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest

from brigade.envs.hanabi import EVENTS, Hanabi
from brigade.envs.hanabi.env import shuffled
from brigade.envs.hanabi.observe import (
    DISCARDABLE,
    PLAYABLE,
    UNKNOWN,
    observations,
    own_hand,
    part_sizes,
)
from brigade.envs.hanabi.render import render, render_states
from brigade.envs.hanabi.text import describe, last_move_name
from brigade.envs.hanabi.variant import NO_CARD, Variant

GAMES = 512
VARIANTS = {
    "two players": Hanabi(),
    "three players": Hanabi(players=3),
    "four players": Hanabi(players=4),
    "five players": Hanabi(players=5),
    "small": Hanabi(colors=2, ranks=3, hand_size=2, hint_tokens=3, life_tokens=2),
    "no deck left": Hanabi(players=3, colors=3, ranks=2, hand_size=4, hint_tokens=2, life_tokens=1),
    "one color": Hanabi(colors=1, hand_size=2),
    "one rank": Hanabi(players=4, colors=5, ranks=1, hand_size=3, hint_tokens=1),
}


class Games(NamedTuple):
    """Games played side by side: leaves [games, moves + 1, ...]; later moves change nothing."""

    deck: np.ndarray
    action: np.ndarray  # [games, moves]
    turn: np.ndarray
    obs: np.ndarray
    avail: np.ndarray
    points: np.ndarray
    over: np.ndarray
    state: object
    events: np.ndarray


@lru_cache
def played(name: str) -> Games:
    """Random legal games by players who sometimes know their cards and play the right one."""
    env, task = VARIANTS[name], VARIANTS[name].task()
    v = env.variant

    def choose(key, state, now):
        styles, kinds, pick = jax.random.split(key, 3)
        legal = now.view.avail[state.turn]
        playable = own_hand(state, v)[state.turn] == PLAYABLE
        right = jnp.zeros(v.num_actions, bool).at[v.hand_size : 2 * v.hand_size].set(playable)
        # Some games are played well, so that fireworks are completed and decks run out.
        plays = jnp.arange(v.num_actions) // v.hand_size == 1
        careful = jax.random.uniform(kinds) < jax.random.uniform(styles) ** 0.2
        good = jnp.where(right.any(), right, legal & ~plays)
        good = jnp.where((good & legal).any(), good & legal, legal)
        weights = jnp.where(careful, good, legal)
        return jax.random.categorical(pick, jnp.log(weights.astype(jnp.float32)))

    def game(key):
        reset_key, play_key = jax.random.split(key)
        state, now = env.reset(reset_key, task)

        def move(carry, key):
            state, now = carry
            action = choose(key, state, now)
            joint = jnp.full(v.players, v.wait).at[state.turn].set(action)
            after, then = env.step(key, state, joint, task)
            kept = jax.tree.map(partial(jnp.where, now.terminated), (state, now), (after, then))
            return kept, (action, kept)

        start = (state, now)
        _, (actions, later) = jax.lax.scan(move, start, jax.random.split(play_key, env.horizon))
        states, steps = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, later)
        return Games(
            states.deck[0],
            actions,
            states.turn,
            steps.view.obs,
            steps.view.avail,
            jnp.cumsum(steps.reward[:, 0] * ~jnp.roll(steps.terminated, 1).at[0].set(False)),
            steps.terminated,
            states,
            steps.info["events"],
        )

    return jax.tree.map(
        np.asarray, jax.jit(jax.vmap(game))(jax.random.split(jax.random.key(7), GAMES))
    )


def spiel(v: Variant) -> pyspiel.Game:
    return pyspiel.load_game(
        "hanabi",
        {
            "players": v.players,
            "colors": v.colors,
            "ranks": v.ranks,
            "hand_size": v.hand_size,
            "max_information_tokens": v.hint_tokens,
            "max_life_tokens": v.life_tokens,
        },
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_games_are_those_of_open_spiel(name):
    """Legal moves, scores, ends and all observations, move by move. Tokens, fireworks and discards
    are parts of the observation."""
    env, games = VARIANTS[name], played(name)
    v, game = env.variant, spiel(env.variant)
    assert game.num_distinct_actions() == v.wait
    assert env.obs_shape == (game.observation_tensor_size(),)
    # Their observations of many players are slow.
    for number in range(GAMES if v.players == 2 else GAMES // 4):
        state, drawn = game.new_initial_state(), 0
        for time in range(env.horizon + 1):
            while state.is_chance_node():
                state.apply_action(int(games.deck[number, drawn]))
                drawn += 1
            assert state.is_terminal() == games.over[number, time]
            assert state.returns()[0] == games.points[number, time]
            for seat in range(v.players):
                theirs = np.array(state.observation_tensor(seat))
                np.testing.assert_array_equal(games.obs[number, time, seat], theirs)
            if state.is_terminal():
                break
            seat = state.current_player()
            assert seat == games.turn[number, time]
            assert np.flatnonzero(games.avail[number, time, seat]).tolist() == state.legal_actions()
            state.apply_action(int(games.action[number, time]))
        else:
            pytest.fail("the game has not ended")


def test_the_games_end_in_every_way():
    """Otherwise the comparison would be worth less."""
    ends = set()
    for name, env in VARIANTS.items():
        state = jax.tree.map(lambda x: x[:, -1], played(name).state)
        complete = state.fireworks.sum(-1) == env.variant.best_score
        ends |= {"lost" if lives < 1 else "other" for lives in state.lives}
        ends |= {"complete"} if (complete & (state.lives > 0)).any() else set()
        ends |= (
            {"deck"} if ((state.turns_left < 1) & ~complete & (state.lives > 0)).any() else set()
        )
    assert ends >= {"lost", "complete", "deck"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two players", "three players"])
def test_observations_are_those_of_jaxmarl(name):
    """It has beliefs instead of the canonical possibilities."""
    jaxmarl = pytest.importorskip("jaxmarl")
    env, games = VARIANTS[name], played(name)
    theirs = jaxmarl.make("hanabi", num_agents=env.players)
    pairs = np.stack([games.deck // env.ranks, games.deck % env.ranks], axis=-1)

    def game(deck, actions):
        obs, state = theirs.reset_from_deck_of_pairs(deck)

        def move(state, action):
            joint = dict.fromkeys(theirs.agents, action)
            obs, state, *_ = theirs.step_env(jax.random.key(0), state, joint)
            return state, jnp.stack([obs[agent] for agent in theirs.agents])

        _, later = jax.lax.scan(move, state, actions)
        first = jnp.stack([obs[agent] for agent in theirs.agents])
        return jnp.concatenate([first[None], later])

    some = 32
    obs = np.asarray(jax.jit(jax.vmap(game))(pairs[:some], games.action[:some]))
    running = ~games.over[:some]  # they go on after the end
    beliefs = jax.jit(jax.vmap(lambda state: observations(state, env.variant, beliefs=True)))
    flat = jax.tree.map(lambda x: x[:some].reshape(-1, *x.shape[2:]), games.state)
    ours = np.asarray(beliefs(flat), np.float32).reshape(obs.shape)
    np.testing.assert_allclose(obs[running], ours[running], atol=5e-4)  # half precision


def test_sizes_are_the_canonical_ones():
    sizes = [Hanabi(players=players).obs_shape[0] for players in (2, 3, 4, 5)]
    assert sizes == [658, 956, 1041, 1280]
    assert [Hanabi(players=players).num_actions for players in (2, 3, 4, 5)] == [21, 31, 39, 49]
    assert Hanabi().horizon == 90


KEY = jax.random.key(0)
DISCARD_0, PLAY_0, PLAY_1 = 0, 2, 3  # with hands of two cards


@partial(jax.jit, static_argnums=0)
def step(env, state, action, task):
    return env.step(KEY, state, action, task)


def play(env: Hanabi, deck: list[int], actions: list[int], task=None):
    """The state and time step after some moves."""
    task = task or env.task()
    state, now = env.deal(deck, task)
    for action in actions:
        state, now = step(env, state, jnp.full(env.players, action), task)
    return state, now


@pytest.mark.parametrize(("rule", "score"), [("zero", 0.0), ("fireworks", 1.0)])
def test_a_lost_game_scores_zero_or_keeps_its_fireworks(rule, score):
    env = Hanabi(colors=1, ranks=3, hand_size=2, life_tokens=1, lost_game=rule)
    deck = [0, 2, 0, 1, 0, 1]
    _, now = play(env, deck, [PLAY_0])
    assert float(now.reward[0]) == 1.0
    assert float(now.info["score"]) == pytest.approx(1 / 3)
    _, now = play(env, deck, [PLAY_0, PLAY_0])  # the second lowest card does not fit
    assert bool(now.terminated)
    assert float(now.info["score"]) == pytest.approx(score / 3)
    assert float(now.reward[0]) == score - 1.0


def test_beliefs_are_shares_of_the_cards_that_are_neither_played_nor_discarded():
    """By hand, for both players' hands as player 0 sees them: two colours of 3, 2 and 1 cards."""
    env = Hanabi(colors=2, ranks=3, hand_size=2, hint_tokens=3, life_tokens=2, encoding="beliefs")
    deck = [0, 1, 3, 4, 0, 1, 3, 4, 0, 3, 2, 5]
    hint_second_color, start = 5, sum(list(part_sizes(env.variant).values())[:-1])

    def beliefs(moves):
        _, now = play(env, deck, moves)
        assert now.view.obs.dtype == jnp.float16  # replay buffers hold many of them
        return np.asarray(now.view.obs[0, start:], np.float64).reshape(2, 2, -1)[:, :, :6]

    def shares(*copies):
        return np.array(copies) / sum(copies)

    unknown = shares(3, 2, 1, 3, 2, 1)
    hinted = shares(0, 0, 0, 3, 2, 1)
    expected = [[unknown, unknown], [hinted, hinted]]
    np.testing.assert_allclose(beliefs([hint_second_color]), expected, atol=1e-3)
    # Player 1 plays one of the hinted cards, the lowest of the second colour, and draws another.
    left = shares(3, 2, 1, 2, 2, 1)
    expected = [[left, left], [shares(0, 0, 0, 2, 2, 1), left]]
    np.testing.assert_allclose(beliefs([hint_second_color, PLAY_0]), expected, atol=1e-3)
    # Player 0 discards a lowest card of the first colour.
    left = shares(2, 2, 1, 2, 2, 1)
    expected = [[left, left], [shares(0, 0, 0, 2, 2, 1), left]]
    found = beliefs([hint_second_color, PLAY_0, DISCARD_0])
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_tokens_of_a_task_are_data():
    env = Hanabi(colors=2, ranks=3, hand_size=2, hint_tokens=3, life_tokens=2)
    few = env.task(hint_tokens=1, life_tokens=1)
    deck = [0, 1, 3, 4, 0, 1, 3, 4, 0, 3, 2, 5]
    state, now = play(env, deck, [], few)
    assert (int(state.hints), int(state.lives)) == (1, 1)
    assert not now.view.avail[0, DISCARD_0]  # all of its tokens are there
    state, now = play(env, deck, [PLAY_1], few)  # rank 2 first: it does not fit
    assert bool(now.terminated)
    with pytest.raises(ValueError, match="hint_tokens is 4; it must be from 1 to 3"):
        env.task(hint_tokens=4)


def test_players_who_wait_can_only_wait():
    env = Hanabi()
    state, now = env.reset(KEY, env.task())
    assert now.view.active.tolist() == [True, False]
    assert np.flatnonzero(now.view.avail[1]).tolist() == [env.variant.wait]
    assert not now.view.avail[0, env.variant.wait]
    _, then = step(env, state, jnp.array([5, 7]), env.task())
    _, same = step(env, state, jnp.array([5, env.variant.wait]), env.task())
    np.testing.assert_array_equal(then.view.obs, same.view.obs)
    assert then.view.active.tolist() == [False, True]


def test_an_illegal_move_only_passes_the_turn():
    env = Hanabi()
    before, _ = env.reset(KEY, env.task())
    after, now = step(env, before, jnp.zeros(2, jnp.int32), env.task())  # all tokens are there
    same = {"hands", "drawn", "fireworks", "discards", "hints", "lives", "turns_left"}
    for name in same:
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert int(after.turn) == 1
    assert not now.info["events"].any()


def test_every_shuffle_has_all_cards_and_its_own_order():
    env = Hanabi(players=3)
    decks = [np.asarray(env.reset(jax.random.key(n), env.task())[0].deck) for n in range(3)]
    assert all((np.sort(deck) == env.variant.deck).all() for deck in decks)
    assert (decks[0] != decks[1]).any()


def test_shuffles_are_even():
    """Every card is in every place equally often, also when random numbers are equal."""
    keys = jax.random.split(KEY, 6000)
    orders = np.asarray(jax.vmap(lambda key: shuffled(key, jnp.arange(5)))(keys))
    counts = np.stack([np.bincount(orders[:, place], minlength=5) for place in range(5)])
    assert (np.abs(counts - 1200) < 150).all()  # five standard deviations
    pairs = np.bincount(orders[:, 0] * 5 + orders[:, 1], minlength=25).reshape(5, 5)
    assert (np.abs(pairs[~np.eye(5, dtype=bool)] - 300) < 85).all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.random, "bits", lambda key, shape: jnp.zeros(shape, jnp.uint32))
        assert shuffled(KEY, jnp.arange(5)).tolist() == [0, 1, 2, 3, 4]


def classes(fireworks, discards, hand, v: Variant) -> list[int]:
    """A plain twin of `own_hand` for one hand."""

    def reachable(color: int, rank: int) -> bool:
        below = range(fireworks[color], rank)
        return all(discards[color * v.ranks + r] < v.copies[color * v.ranks + r] for r in below)

    result = []
    for card in hand:
        color, rank = divmod(int(card), v.ranks)
        if card == NO_CARD:
            result.append(-1)
        elif rank == fireworks[color]:
            result.append(PLAYABLE)
        elif rank < fireworks[color] or not reachable(color, rank):
            result.append(DISCARDABLE)
        else:
            result.append(UNKNOWN)
    return result


@pytest.mark.parametrize("name", ["two players", "small"])
def test_targets_tell_playable_and_useless_cards(name):
    env, games = VARIANTS[name], played(name)
    v, states = env.variant, games.state
    flat = jax.tree.map(lambda x: x[:64].reshape(-1, *x.shape[2:]), states)
    ours = np.asarray(jax.vmap(lambda s: env.conventions.labels(s, env.task())["own_hand"])(flat))
    seen = set()
    for row in range(0, len(ours), 7):
        for seat in range(v.players):
            twin = classes(flat.fireworks[row], flat.discards[row], flat.hands[row, seat], v)
            assert ours[row, seat].tolist() == twin
            seen |= set(twin)
    assert seen == {-1, UNKNOWN, PLAYABLE, DISCARDABLE}


def test_events_are_those_of_the_player_who_moved():
    env = Hanabi(colors=1, ranks=3, hand_size=2, life_tokens=2)
    deck = [0, 2, 0, 1, 0, 1]
    hint_rank = 4 + 1 + 0  # after two discards, two plays and one colour
    moves = {PLAY_0: "play", PLAY_1: "misplay", 4: "hint_color", hint_rank: "hint_rank"}
    for action, event in moves.items():
        _, now = play(env, deck, [action])
        assert [EVENTS[kind] for kind in np.flatnonzero(now.info["events"][0])] == [event]
        assert not now.info["events"][1].any()
    _, now = play(env, deck, [4, DISCARD_0])
    assert np.asarray(now.info["events"])[1].tolist() == [kind == "discard" for kind in EVENTS]


def test_pictures_and_text_show_the_table():
    env, games = VARIANTS["two players"], played("two players")
    states = jax.tree.map(lambda x: x[0, :3], games.state)
    first, second, _ = render_states(states, env.variant)
    assert first.dtype == np.uint8
    assert first.shape == second.shape == env.picture(env.task()).shape
    assert (first != second).any()
    state = jax.tree.map(lambda x: x[1], states)
    words = describe(state, env.variant)
    assert words.splitlines()[0] == last_move_name(state, env.variant)
    assert "player 0 " in words.splitlines()[0]
    assert "deck" in words
    with pytest.raises(ValueError, match="one game"):
        render(states, env.variant)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"players": 1}, "players is 1; it must be from 2 to 5"),
        ({"players": 6}, "players is 6"),
        ({"colors": 0}, "colors is 0; it must be from 1 to 5"),
        ({"ranks": 6}, "ranks is 6"),
        ({"hand_size": 0}, "hand_size is 0"),
        ({"hint_tokens": 0}, "hint_tokens is 0"),
        ({"life_tokens": -1}, "life_tokens is -1"),
        ({"hand_size": 26}, "2 hands of 26 cards need 52 cards, and the deck has 50"),
        ({"encoding": "pixels"}, "encoding is 'pixels'; use one of canonical, beliefs"),
        ({"lost_game": "half"}, "lost_game is 'half'; use one of zero, fireworks"),
    ],
)
def test_impossible_games_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Hanabi(**settings)


@pytest.mark.parametrize(
    ("deck", "message"),
    [
        ([0] * 49, "this game has 50 cards"),
        ([25] * 50, "a card is 25 or 25; use 0 to 24"),
        ([1, *Hanabi().variant.deck.tolist()[1:]], "the deck has 2 of card 0; this game has 3"),
    ],
)
def test_impossible_decks_are_refused(deck, message):
    env = Hanabi()
    with pytest.raises(ValueError, match=message):
        env.deal(deck, env.task())


# --- symmetries ---


@pytest.mark.parametrize("name", ["two players", "four players", "small"])
def test_a_game_with_renamed_colors_is_seen_through_the_symmetry(name):
    """The same moves in both games: other colours, the same everything."""
    env, games = VARIANTS[name], played(name)
    v, symmetries = env.variant, env.conventions.symmetries
    orders = list(permutations(range(v.colors)))
    assert len(symmetries.observation) == len(symmetries.action) == len(orders)
    assert (symmetries.observation[0] == np.arange(env.obs_shape[0])).all()
    some = sorted({0, 1, len(orders) // 3, len(orders) - 1})

    @jax.jit
    def replay(deck, actions):
        state, now = env.deal(deck, env.task())

        def move(state, action):
            joint = jnp.full(v.players, v.wait).at[state.turn].set(action)
            state, then = env.step(KEY, state, joint, env.task())
            return state, (then.view.obs, then.view.avail, then.reward)

        return now.view.obs, jax.lax.scan(move, state, actions)[1]

    for game in range(4):
        for number in some:
            order = orders[number]  # the original colour of each new one
            new = np.argsort(order)
            cards = games.deck[game]
            renamed = new[cards // v.ranks] * v.ranks + cards % v.ranks
            moved = np.argsort(symmetries.action[number])[games.action[game]]
            first, (obs, avail, reward) = replay(renamed, moved)
            moves = int(games.over[game].argmax())
            seen = games.obs[game][..., symmetries.observation[number]]
            np.testing.assert_array_equal(first, seen[0])
            np.testing.assert_array_equal(obs[:moves], seen[1 : moves + 1])
            legal = games.avail[game][..., symmetries.action[number]]
            np.testing.assert_array_equal(avail[:moves], legal[1 : moves + 1])
            assert float(reward[:moves, 0].sum()) == games.points[game, moves]


@pytest.mark.parametrize("name", ["two players", "five players", "one rank"])
def test_observations_show_the_last_move(name):
    env, games = VARIANTS[name], played(name)
    shown = env.conventions.shown_moves
    assert len(shown) == env.num_actions
    for game in range(16):
        moves = int(games.over[game].argmax())
        for time in range(moves + 1):
            for seat in range(env.players):
                obs = games.obs[game, time, seat]
                seen = [
                    action
                    for action, choices in enumerate(shown)
                    if any(all(obs[entry] for entry in entries) for entries in choices)
                ]
                assert seen == ([int(games.action[game, time - 1])] if time else [])


def test_a_seat_is_not_told_its_own_cards():
    env, sequence = Hanabi.example()
    state, _ = env.reset(jax.random.key(3), sequence[0])
    whole = env.describe(state, sequence[0])
    cards = [[slot["card"] for slot in hand] for hand in whole["hands"]]
    assert all(card[0] in "RY" and card[1] in "123" for hand in cards for card in hand)
    for seat in range(2):
        seen = env.describe(state, sequence[0], seat)
        assert [slot["card"] for slot in seen["hands"][seat]] == [None, None]
        assert [slot["card"] for slot in seen["hands"][1 - seat]] == cards[1 - seat]
        assert [slot["hinted"] for slot in seen["hands"][seat]] == ["??", "??"]
    rank = next(
        n for n, name in enumerate(env.action_names) if name == f"hint +1: rank {cards[1][0][1]}"
    )
    after, _ = env.step(jax.random.key(0), state, jnp.array([rank, rank]), sequence[0])
    told = env.describe(after, sequence[0], 1)
    assert told["hands"][1][0] == {"card": None, "hinted": f"?{cards[1][0][1]}"}
    assert told["turn"] == 1
    assert "hints player 1: rank" in told["last_move"]
