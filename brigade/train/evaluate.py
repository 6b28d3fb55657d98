"""Evaluation: all tasks, partners and seats at once, in one compiled program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Acting, Array, Company, ContinualMethod, Environment, Key, Round, Seating
from brigade.train.collect import RolloutState, begin, of_own_seats, reset_all, step_all
from brigade.train.players import Players, Seated, by_member


class Evaluation(struct.PyTreeNode):
    """Leaves [tasks, partners, seats, episodes], with a seed axis in front of those of seeds.

    `seats` are the learner's arrangements. Where episodes are played in a row with one memory,
    their number in it is one more axis behind.
    """

    score: Array  # normalised, at the end of the episode
    returns: Array  # raw reward of the learner's seats, their mean
    events: Array  # [..., players, kinds]: how often each player did what; no kinds, if none told


class Tally(struct.PyTreeNode):
    """What is counted while games are played: leaves [num_envs, ...]."""

    running: Array
    returns: Array
    score: Array
    events: Array


@dataclass(frozen=True)
class Evaluator:
    """Plays `episodes` games of every task with the parameters the method acts with there.

    With `consecutive` games in a row, the learner's memory goes on from one to the next; partners
    start each of them afresh.
    """

    env: Environment
    players: Players
    method: ContinualMethod
    episodes: int = 10
    greedy: bool = False
    consecutive: int = 1

    def __call__(
        self, params: Any, mem: Any, rounds: Round, key: Key, cast: Any = ()
    ) -> Evaluation:
        """`rounds` has leaves [tasks, ...]; the work is linear in their number."""

        def one_task(round_: Round, key: Key) -> Evaluation:
            acting = self.method.acting_params(mem, params, round_.task.id)
            return self.play(Acting(acting, cast), round_, key)

        num_tasks = jax.tree.leaves(rounds)[0].shape[0]
        return jax.vmap(one_task)(rounds, jax.random.split(key, num_tasks))

    def play(self, acting: Acting, round_: Round, key: Key) -> Evaluation:
        """Whole games of one task, with everybody and on every seat that is asked for."""
        partners, seats = shape_of(round_.company)
        tables = partners * seats
        num_envs = tables * self.episodes
        acting = acting.replace(seating=seating_of(round_.company))
        begin_key, scan_key = jax.random.split(key)
        state = begin(self.env, self.players, begin_key, round_.task, num_envs, tables)
        seated = self.players.take_seats(acting)
        if self.consecutive == 1:
            tally = self._game(seated, state, round_.task, scan_key)[1]
        else:
            tally = self._games_in_a_row(seated, state, round_.task, scan_key)

        def shaped(x: Array) -> Array:
            return x.reshape(partners, seats, self.episodes, *x.shape[1:])

        return Evaluation(shaped(tally.score), shaped(tally.returns), shaped(tally.events))

    def _game(
        self, seated: Seated, state: RolloutState, task: Any, key: Key
    ) -> tuple[RolloutState, Tally]:
        """One game in every environment; what comes after its end does not count."""
        num_envs = state.step.truncated.shape[0]
        kinds = len(event_names(self.env))
        nothing = jnp.zeros(num_envs)
        counts = jnp.zeros((num_envs, self.env.num_agents, kinds))
        start = Tally(jnp.ones(num_envs, bool), nothing, nothing, counts)

        def step(
            loop: tuple[RolloutState, Tally], key: Key
        ) -> tuple[tuple[RolloutState, Tally], None]:
            state, tally = loop
            act_key, step_key = jax.random.split(key)
            action, memory, _ = self.players.act(
                seated, state.memory, state.step.view, act_key, self.greedy
            )
            if self.consecutive > 1:  # a memory goes on from the last step that was played
                memory = self._kept(seated, tally.running, memory, state.memory)
            env_state, then = step_all(self.env, step_key, state.env_state, action, task)
            running, reward = tally.running, of_own_seats(self.players, seated, then.reward)
            events = tally.events
            if kinds:
                events = events + running[:, None, None] * then.info["events"]
            tally = Tally(
                running=running & ~(then.terminated | then.truncated),
                returns=tally.returns + running * reward.mean(-1),
                score=jnp.where(running, then.info["score"], tally.score),
                events=events,
            )
            return (state.replace(env_state=env_state, step=then, memory=memory), tally), None

        keys = jax.random.split(key, self.env.horizon)
        return jax.lax.scan(step, (state, start), keys)[0]

    def _games_in_a_row(self, seated: Seated, state: RolloutState, task: Any, key: Key) -> Tally:
        """Leaves [num_envs, consecutive, ...]."""
        num_envs = state.step.truncated.shape[0]

        def game(memory: Any, keys: tuple[Array, Key]) -> tuple[Any, Tally]:
            number, key = keys
            reset_key, play_key = jax.random.split(key)
            env_state, now = reset_all(self.env, reset_key, task, num_envs)
            view = now.view.replace(first=self._restarts(seated, now.view.first, number))
            begun = state.replace(env_state=env_state, step=now.replace(view=view), memory=memory)
            after, tally = self._game(seated, begun, task, play_key)
            return after.memory, tally

        keys = jax.random.split(key, self.consecutive)
        _, tally = jax.lax.scan(game, state.memory, (jnp.arange(self.consecutive), keys))
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), tally)

    def _restarts(self, seated: Seated, first: Array, number: Array) -> Array:
        """Where memories restart [num_envs, seats]: the learner's in the first game only."""
        if not self.players.own_seats:
            return first & (number == 0)
        assert seated.own is not None
        seats = jnp.arange(first.shape[1])
        own = (seated.own[:, :, None] == seats).any(1)  # [tables, seats]
        own = jnp.repeat(own, len(first) // len(own), axis=0)
        return first & ((number == 0) | ~own)

    def _kept(self, seated: Seated, running: Array, after: Any, before: Any) -> Any:
        """The learner's memory of games that are over stays as it is."""
        own, _ = self.players.seats(self.env.num_agents)
        going = jnp.broadcast_to(running[:, None], (len(running), own))
        if seated.places is not None and seated.own is not None:
            going = by_member(going, seated.places, len(seated.own))

        def keep(new: Array, old: Array) -> Array:
            return jnp.where(going.reshape(*going.shape, *[1] * (new.ndim - 2)), new, old)

        return after._replace(learner=jax.tree.map(keep, after.learner, before.learner))


def shape_of(company: Company | None) -> tuple[int, int]:
    """Partners and arrangements of seats in an evaluation."""
    if company is None:
        return 1, 1
    partners, seats = company.evaluation.own.shape[-3:-1]
    return partners, seats


def seating_of(company: Company | None) -> Seating | None:
    """The tables of an evaluation, one after another."""
    if company is None:
        return None
    return jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), company.evaluation)


def event_names(env: Environment) -> tuple[str, ...]:
    """What an environment tells of in `info["events"]` [seats, kinds]; nothing, for many."""
    names: tuple[str, ...] = getattr(env, "events", ())
    return names
