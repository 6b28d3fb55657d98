"""Evaluation: all tasks, partners and seats at once, in one compiled program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Acting, Array, ContinualMethod, Environment, Key, Pairing, Round, Seating
from brigade.core.trees import choose
from brigade.train.collect import of_own_seats
from brigade.train.members import by_member, over_members
from brigade.train.play import Games, play_step, reset_all, start_games
from brigade.train.players import Players, Seated


class Evaluation(struct.PyTreeNode):
    """Leaves [tasks, partners, seats, episodes], with a seed axis in front if there are seeds.

    `seats` are the learner's arrangements. Consecutive episodes with one recurrent state add an
    axis at the end.
    """

    score: Array  # normalised, at the end of the episode
    returns: Array  # raw return, the mean over the learner's seats
    events: Array  # [..., players, kinds]: counts per player; no kinds if there are no events


class Tally(struct.PyTreeNode):
    """Running totals of episodes: leaves [num_envs, ...]."""

    running: Array
    returns: Array
    score: Array
    events: Array


@dataclass(frozen=True)
class Evaluator:
    """Plays `episodes` episodes of every task, with the parameters the method uses for that task.

    With `consecutive` episodes in a row, the learner keeps its recurrent state between them; those
    of partners are reset.
    """

    env: Environment
    players: Players
    method: ContinualMethod
    episodes: int = 10
    greedy: bool = False
    consecutive: int = 1
    # Of a stream of different games: every game, and the game of each task.
    envs: tuple[Environment, ...] = ()
    games: tuple[int, ...] = ()

    def game(self, task: int) -> int:
        """The game of a task."""
        return self.games[task] if self.games else 0

    def of_game(self, game: int) -> Evaluator:
        """The evaluator of a game."""
        return replace(self, env=self.envs[game], envs=(), games=()) if self.games else self

    def acting(self, params: Any, mem: Any, round_: Round, cast: Any) -> Acting:
        """The parameters to act with on a task."""
        own = acting_params(self.method, self.players.members, mem, params, round_.task.id)
        return Acting(own, cast)

    def __call__(
        self, params: Any, mem: Any, rounds: Round, key: Key, cast: Any = ()
    ) -> Evaluation:
        """Evaluate all tasks at once; `rounds` has leaves [tasks, ...]."""

        def one_task(round_: Round, key: Key) -> Evaluation:
            return self.play(self.acting(params, mem, round_, cast), round_, key)

        num_tasks = jax.tree.leaves(rounds)[0].shape[0]
        return jax.vmap(one_task)(rounds, jax.random.split(key, num_tasks))

    def play(self, acting: Acting, round_: Round, key: Key) -> Evaluation:
        """Play whole episodes of one task, with every partner and every arrangement of seats."""
        partners, seats = shape_of(round_.pairing)
        tables = partners * seats
        num_envs = tables * self.episodes
        acting = acting.replace(seating=seating_of(round_.pairing))
        start_key, scan_key = jax.random.split(key)
        state = start_games(self.env, self.players, start_key, round_.task, num_envs, tables)
        seated = self.players.take_seats(acting)
        if self.consecutive == 1:
            tally = self._episode(seated, state, round_.task, scan_key)[1]
        else:
            tally = self._consecutive_episodes(seated, state, round_.task, scan_key)

        def shaped(x: Array) -> Array:
            return x.reshape(partners, seats, self.episodes, *x.shape[1:])

        return Evaluation(shaped(tally.score), shaped(tally.returns), shaped(tally.events))

    def _episode(
        self, seated: Seated, state: Games, task: Any, key: Key, keeps: Array | None = None
    ) -> tuple[Games, Tally]:
        """One episode in every environment; steps after its end do not count.

        `keeps` [num_envs, seats]: the seats whose recurrent states are those of the last episode.
        """
        num_envs = state.step.truncated.shape[0]
        kinds = len(self.env.events)
        zeros = jnp.zeros(num_envs)
        counts = jnp.zeros((num_envs, self.env.num_agents, kinds))
        start = Tally(jnp.ones(num_envs, bool), zeros, zeros, counts)

        def step(loop: tuple[Games, Tally], key: Key) -> tuple[tuple[Games, Tally], None]:
            state, tally = loop
            act_key, step_key = jax.random.split(key)
            forget = None if keeps is None else state.step.view.first & ~keeps
            keys = (act_key, step_key)
            after = play_step(
                self.env, self.players, seated, state, keys, task, self.greedy, forget
            ).after
            if keeps is not None:  # the next episode starts from the state of the last step
                memory = self.frozen_after_end(seated, tally.running, after.memory, state.memory)
                after = after.replace(memory=memory)
            then, running = after.step, tally.running
            reward, events = of_own_seats(self.players, seated, then.reward), tally.events
            if kinds:
                events = events + running[:, None, None] * then.info["events"]
            tally = Tally(
                running=running & ~(then.terminated | then.truncated),
                returns=tally.returns + running * reward.mean(-1),
                score=jnp.where(running, then.info["score"], tally.score),
                events=events,
            )
            return (after, tally), None

        keys = jax.random.split(key, self.env.horizon)
        return jax.lax.scan(step, (state, start), keys)[0]

    def _consecutive_episodes(self, seated: Seated, state: Games, task: Any, key: Key) -> Tally:
        """Leaves [num_envs, consecutive, ...]."""
        num_envs = state.step.truncated.shape[0]

        def episode(memory: Any, keys: tuple[Array, Key]) -> tuple[Any, Tally]:
            number, key = keys
            reset_key, play_key = jax.random.split(key)
            env_state, now = reset_all(self.env, reset_key, task, num_envs)
            start = state.replace(env_state=env_state, step=now, memory=memory)
            keeps = self.own_seats(seated, num_envs) & (number > 0)
            after, tally = self._episode(seated, start, task, play_key, keeps)
            return after.memory, tally

        keys = jax.random.split(key, self.consecutive)
        _, tally = jax.lax.scan(episode, state.memory, (jnp.arange(self.consecutive), keys))
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), tally)

    def own_seats(self, seated: Seated, num_envs: int) -> Array:
        """[num_envs, seats] bool: the learner's seats."""
        if not self.players.own_seats:
            return jnp.ones((num_envs, self.env.num_agents), bool)
        assert seated.own is not None
        own = (seated.own[:, :, None] == jnp.arange(self.env.num_agents)).any(1)
        return jnp.repeat(own, num_envs // len(own), axis=0)

    def frozen_after_end(self, seated: Seated, running: Array, after: Any, before: Any) -> Any:
        """The states `after` a step, with the learner's unchanged where the episode is over."""
        own, _ = self.players.seats(self.env.num_agents)
        by_seat = jnp.broadcast_to(running[:, None], (len(running), own))
        if seated.places is not None and seated.own is not None:
            by_seat = by_member(by_seat, seated.places, len(seated.own))
        return after._replace(learner=choose(by_seat, after.learner, before.learner))


def acting_params(
    method: ContinualMethod, policies: int, mem: Any, params: Any, task_id: Array
) -> Any:
    """The parameters to act with on a task; leaves are [policies, ...] if there are several."""
    if policies == 1:
        return method.acting_params(mem, params, task_id)
    return over_members(lambda mem, params: method.acting_params(mem, params, task_id))(mem, params)


def shape_of(pairing: Pairing | None) -> tuple[int, int]:
    """The number of partners and of arrangements of seats in an evaluation."""
    if pairing is None:
        return 1, 1
    partners, seats = pairing.evaluation.own.shape[-3:-1]
    return partners, seats


def seating_of(pairing: Pairing | None) -> Seating | None:
    """The seating of an evaluation: one table per partner and arrangement of seats."""
    if pairing is None:
        return None
    return jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), pairing.evaluation)
