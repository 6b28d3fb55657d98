"""Hanabi as an environment: its rules behind Brigade's protocol."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Conventions, Environment, Key, TaskSequence, TimeStep, View
from brigade.core.checks import one_of, within
from brigade.envs.hanabi import rules
from brigade.envs.hanabi.observe import observations, own_hand, part_sizes
from brigade.envs.hanabi.rules import State, Task
from brigade.envs.hanabi.symmetries import color_symmetries, shown_moves
from brigade.envs.hanabi.text import plain_state, short_name
from brigade.envs.hanabi.variant import LARGE_HAND, SMALL_HAND, Kind, Variant

EVENTS = ("play", "misplay", "discard", "hint_color", "hint_rank")


@dataclass(frozen=True)
class Hanabi(Environment):
    """Hanabi for two to five players; the task says how many tokens."""

    players: int = 2
    """Number of players, 2 to 5."""
    colors: int = 5
    """Number of colours, 1 to 5."""
    ranks: int = 5
    """Number of ranks, 1 to 5; the lowest has three copies of each card, the highest one."""
    hand_size: int | None = None
    """Cards per hand; by default 5 for up to three players and 4 for more."""
    hint_tokens: int = 8
    """Hint tokens at the start, which is also their maximum."""
    life_tokens: int = 3
    """Life tokens."""
    lost_game: Literal["zero", "fireworks"] = "zero"
    """Score of a game whose lives are lost: zero, or the cards in the fireworks."""
    encoding: Literal["canonical", "beliefs"] = "canonical"
    """Observed of hinted cards: which are possible, or their shares among the cards left."""

    events = EVENTS  # the kinds of `info["events"]` [seats, kinds]
    meanings = MappingProxyType({"score": "points divided by the most points"})

    def __post_init__(self) -> None:
        one_of("lost_game", self.lost_game, ("zero", "fireworks"))
        one_of("encoding", self.encoding, ("canonical", "beliefs"))
        _ = self.variant  # checks the numbers

    @cached_property
    def variant(self) -> Variant:
        """The numbers of this game."""
        usual = LARGE_HAND if self.players <= 3 else SMALL_HAND
        return Variant(
            self.players,
            self.colors,
            self.ranks,
            usual if self.hand_size is None else self.hand_size,
            self.hint_tokens,
            self.life_tokens,
        )

    @property
    def num_agents(self) -> int:
        """The number of players."""
        return self.players

    @property
    def num_actions(self) -> int:
        """All moves, and the action of players who wait."""
        return self.variant.num_actions

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """The size of the canonical encoding: 658 for the standard game of two."""
        return (sum(part_sizes(self.variant).values()),)

    @property
    def horizon(self) -> int:
        """No game has more moves."""
        return self.variant.longest_game

    @property
    def variant_settings(self) -> dict[str, Any]:
        """All settings: a policy for one variant is none for another."""
        return asdict(self)

    @property
    def partial_view(self) -> str:
        """Nobody sees their own cards."""
        return "one's own cards"

    def task(
        self, hint_tokens: int | None = None, life_tokens: int | None = None, number: int = 0
    ) -> Task:
        """A task; without arguments it has all tokens of the variant."""
        hints = self.hint_tokens if hint_tokens is None else hint_tokens
        lives = self.life_tokens if life_tokens is None else life_tokens
        within("hint_tokens", hints, 1, self.hint_tokens)
        within("life_tokens", lives, 1, self.life_tokens)
        return Task(jnp.int32(number), jnp.int8(hints), jnp.int8(lives))

    def deal(self, deck: Any, task: Task) -> tuple[State, TimeStep]:
        """Start a game with the cards of `deck` in the order they are drawn.

        Cards are numbers, `color * ranks + rank`. Player 0 gets a whole hand first, then player 1.
        """
        self._check_deck(deck)
        state = rules.deal(jnp.asarray(deck), task, self.variant)
        action = jnp.full(self.players, -1, jnp.int32)
        events = jnp.zeros((self.players, len(EVENTS)), bool)
        return state, self._time_step(state, task, action, jnp.float32(0.0), events)

    def _check_deck(self, deck: Any) -> None:
        """Refuse decks that are not the variant's; in compiled code only by their size."""
        v = self.variant
        if np.shape(deck) != (v.deck_size,):
            raise ValueError(
                f"the deck has shape {np.shape(deck)}; this game has {v.deck_size} cards"
            )
        if isinstance(deck, jax.core.Tracer):
            return
        cards = np.asarray(deck)
        if ((cards < 0) | (cards >= v.cards)).any():
            raise ValueError(f"a card is {cards.min()} or {cards.max()}; use 0 to {v.cards - 1}")
        wrong = np.flatnonzero(np.bincount(cards, minlength=v.cards) != v.copies)
        if len(wrong):
            found, wanted = (cards == wrong[0]).sum(), v.copies[wrong[0]]
            raise ValueError(f"the deck has {found} of card {wrong[0]}; this game has {wanted}")

    def reset(self, key: Key, task: Task) -> tuple[State, TimeStep]:
        """Shuffle and deal."""
        return self.deal(shuffled(key, jnp.asarray(self.variant.deck, jnp.int8)), task)

    def step(self, key: Key, state: State, action: Array, task: Task) -> tuple[State, TimeStep]:
        """Play the action of the player whose turn it is; the others' are ignored."""
        action = action.astype(jnp.int32)
        after = rules.step(state, action[state.turn], task, self.variant)
        reward = self._points(after) - self._points(state)
        return after, self._time_step(after, task, action, reward, self._events(state, after))

    @cached_property
    def conventions(self) -> Conventions:
        """All renamings of colours, where observations show the last move, and for auxiliary losses
        whether each of one's own cards is unknown, playable or discardable."""
        return Conventions(
            color_symmetries(self.variant),
            shown_moves(self.variant),
            {"own_hand": (self.variant.hand_size, 3)},
            lambda state, task: {"own_hand": own_hand(state, self.variant)},
        )

    @property
    def action_names(self) -> tuple[str, ...]:
        """Such as "play card 1" and, with offsets to the next players, "hint +1: red"."""
        return tuple(short_name(action, self.variant) for action in range(self.num_actions))

    def describe(self, state: State, task: Task, seat: int | None = None) -> dict[str, Any]:
        """The cards and tokens; a seat sees of its own cards only what hints have named."""
        return plain_state(jax.device_get(state), self.variant, seat)

    def _points(self, state: State) -> Array:
        return rules.score(state, self.lost_game == "zero").astype(jnp.float32)

    def _events(self, before: State, after: State) -> Array:
        """[seats, kinds] bool: what the player who moved has done."""
        used = after.last.card >= 0
        kind = jnp.asarray(self.variant.moves.kind)[after.last.action]
        kinds = jnp.stack(
            [
                used & (kind == Kind.PLAY) & after.last.scored,
                used & (kind == Kind.PLAY) & ~after.last.scored,
                used & (kind == Kind.DISCARD),
                after.last.touched.any() & (kind == Kind.HINT_COLOR),
                after.last.touched.any() & (kind == Kind.HINT_RANK),
            ]
        )
        return (jnp.arange(self.players) == before.turn)[:, None] & kinds

    def _time_step(
        self, state: State, task: Task, action: Array, reward: Array, events: Array
    ) -> TimeStep:
        seats, waits = (self.players,), self.variant.wait
        on_turn = jnp.arange(self.players) == state.turn
        legal = rules.legal_moves(state, task, self.variant)
        waiting = jnp.arange(self.num_actions) == waits
        shared = jnp.broadcast_to(reward, seats)
        over = rules.over(state, self.variant)
        view = View(
            obs=observations(state, self.variant, self.encoding == "beliefs"),
            avail=jnp.where((on_turn & ~over)[:, None], legal, waiting),
            prev_action=action,
            prev_reward=shared,
            first=jnp.broadcast_to(state.time == 0, seats),
            active=on_turn & ~over,
            task_id=jnp.broadcast_to(task.id, seats),
            state=state,
        )
        # Scores are normalised everywhere in Brigade; returns are the points of the game.
        info = {"events": events, "score": self._points(state) / self.variant.best_score}
        return TimeStep(view, shared, over, ~over & (state.time >= self.horizon), info)

    def picture(self, task: Task) -> np.ndarray:
        """RGB picture of the game before the first move, with an unshuffled deck."""
        from brigade.envs.hanabi.render import render

        state, _ = self.deal(self.variant.deck, task)
        return render(state, self.variant)

    @property
    def frames_per_second(self) -> int:
        """A move takes a moment to read."""
        return 1

    def frames(self, states: State, task: Task) -> list[np.ndarray]:
        """RGB pictures of a game; `states` has leaves [timesteps, ...]."""
        from brigade.envs.hanabi.render import render_states

        return render_states(states, self.variant)

    @classmethod
    def example(cls) -> tuple[Hanabi, TaskSequence]:
        """A small instance for contract tests and documents."""
        env = cls(colors=2, ranks=3, hand_size=2, hint_tokens=3, life_tokens=2)
        tasks = [env.task(), env.task(hint_tokens=2), env.task(life_tokens=1)]
        return env, TaskSequence.from_tasks(tasks, ["full", "two hints", "one life"], 2000)


def shuffled(key: Key, cards: Array) -> Array:
    """The cards in random order, by the ranks of random numbers.

    Ranks are counted, which is many times as fast here as sorting: environments are reset side by
    side with every step.
    """
    numbers, place = jax.random.bits(key, cards.shape), jnp.arange(len(cards))
    ties = (numbers == numbers[:, None]) & (place < place[:, None])
    rank = ((numbers < numbers[:, None]) | ties).sum(-1, dtype=jnp.int8)
    return cards[rank]
