"""Evaluation: all tasks, partners and seats at once, in one compiled program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import (
    Acting,
    Array,
    ContinualMethod,
    Environment,
    Key,
    Pairing,
    Round,
    Seating,
    View,
)
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


class LastStep(struct.PyTreeNode):
    """The end of the last episode, which a memory that outlives it has yet to see."""

    action: Array  # [num_envs, seats]
    reward: Array  # [num_envs, seats] f32

    @classmethod
    def of(cls, view: View) -> LastStep:
        """What a view shows of it, or would have shown."""
        return cls(view.prev_action, view.prev_reward)


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
        self,
        seated: Seated,
        state: Games,
        task: Any,
        key: Key,
        keeps: Array | None = None,
        last: LastStep | None = None,
    ) -> tuple[Games, Tally, LastStep | None]:
        """One episode in every environment; steps after its end do not count.

        `keeps` [num_envs, seats]: the seats whose recurrent states are those of the last episode.
        `last`: how that ended, and how this one did, for a policy that outlives episodes.
        """
        num_envs = state.step.truncated.shape[0]
        kinds = len(self.env.events)
        zeros = jnp.zeros(num_envs)
        counts = jnp.zeros((num_envs, self.env.num_agents, kinds))
        start = Tally(jnp.ones(num_envs, bool), zeros, zeros, counts)

        def step(loop: tuple[Any, ...], key: Key) -> tuple[tuple[Any, ...], None]:
            state, tally, ended = loop
            act_key, step_key = jax.random.split(key)
            view = None if keeps is None else self.kept_view(state.step.view, keeps, last)
            keys = (act_key, step_key)
            after = play_step(
                self.env, self.players, seated, state, keys, task, self.greedy, view
            ).after
            then, running = after.step, tally.running
            # The next episode starts from the state of the last step.
            if keeps is not None and not self.env.fixed_length:
                memory = self.frozen_after_end(seated, running, after.memory, state.memory)
                after = after.replace(memory=memory)
            if ended is not None:
                ended = choose(running, LastStep.of(then.view), ended)
            reward, events = of_own_seats(self.players, seated, then.reward), tally.events
            if kinds:
                events = events + running[:, None, None] * then.info["events"]
            tally = Tally(
                running=running & ~(then.terminated | then.truncated),
                returns=tally.returns + running * reward.mean(-1),
                score=jnp.where(running, then.info["score"], tally.score),
                events=events,
            )
            return (after, tally, ended), None

        keys = jax.random.split(key, self.env.horizon)
        (state, tally, last), _ = jax.lax.scan(step, (state, start, last), keys)
        return state, tally, last

    def _consecutive_episodes(self, seated: Seated, state: Games, task: Any, key: Key) -> Tally:
        """Leaves [num_envs, consecutive, ...]."""
        num_envs = state.step.truncated.shape[0]

        def episode(kept: tuple[Any, Any], keys: tuple[Array, Key]) -> tuple[Any, Tally]:
            (memory, last), (number, key) = kept, keys
            reset_key, play_key = jax.random.split(key)
            env_state, now = reset_all(self.env, reset_key, task, num_envs)
            start = state.replace(env_state=env_state, step=now, memory=memory)
            keeps = self.own_seats(seated, num_envs) & (number > 0)
            after, tally, last = self._episode(seated, start, task, play_key, keeps, last)
            return (after.memory, last), tally

        keys = jax.random.split(key, self.consecutive)
        last = LastStep.of(state.step.view) if self.players.learner.outlives_episodes else None
        numbers = jnp.arange(self.consecutive)
        _, tally = jax.lax.scan(episode, (state.memory, last), (numbers, keys))
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), tally)

    def kept_view(self, view: View, keeps: Array, last: LastStep | None) -> View:
        """What is seen where `keeps` [num_envs, seats] says who remembers the last episode."""
        seen: View = view.replace(forget=view.first & ~keeps)
        if last is None:
            return seen
        before = view.replace(prev_action=last.action, prev_reward=last.reward)
        kept = view.first & keeps

        def shown(view: View) -> Any:
            seen = self.players.with_others(view)
            return {"prev_action": seen.prev_action, "prev_reward": seen.prev_reward} | (
                {} if seen.others is None else {"others": seen.others}
            )

        return seen.replace(**choose(kept, shown(before), shown(view)))

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
