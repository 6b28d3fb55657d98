"""Rollouts, evaluations and films of simulators on the host.

Policies act in compiled programs, batched over games and seats; the simulators step in between.
"""

from __future__ import annotations

import atexit
import contextlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import (
    Acting,
    HostGames,
    Key,
    Round,
    Simulator,
    SimulatorError,
    TimeStep,
    Trajectory,
)
from brigade.errors import UserError
from brigade.train.collect import (
    GamesSource,
    of_own_seats,
    recorded,
    reseated,
    with_actions,
    with_end,
)
from brigade.train.evaluate import Evaluation, Evaluator, seating_of, shape_of
from brigade.train.play import Games, games_of
from brigade.train.players import Players, Seated

MOST_FAILURES = 5  # in a row, before a run is given up
OPEN_EVALUATIONS = 4  # sets of games that stay open for the next evaluation
Result = TypeVar("Result")


Running = tuple[HostGames, TimeStep | None]  # and their timestep; None before the first


class OpenGames:
    """Simulators that stay open between rollouts, and how often they were started again."""

    def __init__(self) -> None:
        self.restarts = Counter[Simulator]()
        self._open: OrderedDict[tuple[str, Hashable], Running] = OrderedDict()

    @contextlib.contextmanager
    def lent(
        self, env: Simulator, number: int, purpose: str, user: Hashable, most: int
    ) -> Iterator[Running]:
        """The games of a user, which are closed if they die or hang."""
        games, now = self._open.get((purpose, user)) or (env.open(number), None)
        self.keep(purpose, user, games, now, most)
        try:
            yield games, now
        except SimulatorError:
            self.close(purpose, user)
            raise

    def keep(
        self, purpose: str, user: Hashable, games: HostGames, now: TimeStep | None, most: int
    ) -> None:
        """Remember games; for each purpose, `most` are kept open, those used last."""
        self._open[purpose, user] = games, now
        self._open.move_to_end((purpose, user))
        of_purpose = [each for each in self._open if each[0] == purpose]
        for oldest in of_purpose[:-most]:
            self.close(*oldest)

    def close(self, purpose: str, user: Hashable) -> None:
        """Close the games of a user, if there are any."""
        games, _ = self._open.pop((purpose, user), (HostGames(), None))
        games.close()

    def close_all(self) -> None:
        """Close all games."""
        for purpose, user in list(self._open):
            self.close(purpose, user)


OPEN = OpenGames()
atexit.register(OPEN.close_all)


def persistent(env: Simulator, play: Callable[[Key], Result], key: Key) -> Result:
    """`play(key)`; if a simulator dies or hangs, once more from its start with another key."""
    problem: Exception | None = None
    for attempt in range(MOST_FAILURES):
        try:
            return play(jax.random.fold_in(key, attempt))
        except SimulatorError as error:
            OPEN.restarts[env] += 1
            problem = error
    raise UserError(f"{problem} ({MOST_FAILURES} times in a row)")


class Slots(NamedTuple):
    """A rollout as it was played: leaves [T, games, seats, ...]."""

    now: TimeStep
    action: Any
    then: TimeStep
    extras: Any


@dataclass(frozen=True)
class HostSource(GamesSource):
    """Rollouts from simulators. Episodes start anew after a crash and when a run is resumed."""

    env: Simulator
    seeds: int = 1  # as many sets of games stay open
    purpose: str = "training"

    @property
    def traced(self) -> bool:
        return False

    def for_clones(self) -> HostSource:
        return replace(self, purpose="clones")

    def restarts(self) -> int:
        return OPEN.restarts[self.env]

    def start(self, key: Key, task: Any) -> Games:
        """A state whose games are opened by the next rollout; its key stands for them."""
        now = jax.tree.map(jnp.asarray, self.env.blank(self.num_envs))
        env_state = jax.random.key_data(key)
        return games_of(self.players, env_state, now, self.env.num_agents, self.tables)

    def example(self, state: Games, acting: Acting, task: Any, key: Key) -> Trajectory:
        """A rollout of zeros."""
        seated = self.players.take_seats(acting)
        action, _, extras = self.players.act(seated, state.memory, state.step.view, key)
        carry = self.players.carry_to_train(seated, state.memory)
        extras_of_steps = with_actions(self.players, extras, action)
        slots = Slots(state.step, action, state.step, extras_of_steps)

        def repeated(tree: Any, number: int) -> Any:
            return jax.tree.map(lambda x: jnp.zeros((number, *x.shape), x.dtype), tree)

        carries = repeated(carry, self.num_steps // self.carry_every)
        played = repeated(slots, self.num_steps)
        return self.trajectory(seated, played, carries, state.step, extras, acting.seating)

    def next(self, state: Games, acting: Acting, task: Any, key: Key) -> tuple[Games, Trajectory]:
        """Collect a rollout; if simulators die or hang, from its start with new episodes."""
        return persistent(self.env, partial(self._collect, state, acting, np.asarray(task.id)), key)

    def _collect(
        self, state: Games, acting: Acting, task_id: np.ndarray, key: Key
    ) -> tuple[Games, Trajectory]:
        start_key, play_key, last_key = jax.random.split(key, 3)
        state, over = _reseated(self.env, acting, state, self.num_steps)
        user = (self, np.asarray(state.env_state).tobytes())
        with OPEN.lent(self.env, self.num_envs, self.purpose, user, self.seeds) as (games, now):
            if now is None or (over & ~np.asarray(state.step.truncated)).any():
                now = games.reset(seed_of(start_key))
            seated = _take_seats(self.players, acting.replace(seating=state.seating))
            memory, slots, carries = state.memory, [], []
            for step, act_key in enumerate(jax.random.split(play_key, self.num_steps)):
                if step % self.carry_every == 0:
                    carries.append(_carry_to_train(self.players, seated, memory))
                now = with_task(now, task_id)
                action, memory, extras = act(self.players, seated, memory, now.view, act_key)
                then = games.step(np.asarray(action))
                slots.append(Slots(now, action, then, with_actions(self.players, extras, action)))
                now = then
        now = with_task(now, task_id)
        OPEN.keep(self.purpose, user, games, now, self.seeds)
        last = act(self.players, seated, memory, now.view, last_key)[2]
        played, carry = (
            jax.tree.map(lambda *leaves: np.stack(leaves), *each) for each in (slots, carries)
        )
        traj = _trajectory(self, seated, played, carry, now, last, state.seating)
        return state.replace(step=jax.tree.map(jnp.asarray, now), memory=memory), traj

    def trajectory(
        self, seated: Seated, slots: Slots, carry: Any, now: TimeStep, last: Any, seating: Any
    ) -> Trajectory:
        """The rollout; a slot after the end of an episode is not a step."""
        players = self.players

        def slot(now: TimeStep, action: Any, then: TimeStep, extras: Any) -> Trajectory:
            valid = ~(now.terminated | now.truncated)
            return recorded(players, seated, now, action, then, extras, valid)

        return with_end(players, seated, jax.vmap(slot)(*slots), now, last, carry, seating)


def seed_of(key: Key) -> int:
    """A seed for a simulator."""
    return int(jax.random.bits(key, dtype=jnp.uint32) >> 1)


def with_task(now: TimeStep, task_id: np.ndarray) -> TimeStep:
    """The timestep with the task's number, for heads and one-hots."""
    numbers = np.full_like(now.view.task_id, task_id)
    return now.replace(view=now.view.replace(task_id=numbers))


# The compiled parts between the steps of simulators.
_reseated = jax.jit(reseated, static_argnums=(0, 3))
_take_seats = jax.jit(Players.take_seats, static_argnums=0)
_carry_to_train = jax.jit(Players.carry_to_train, static_argnums=0)
_trajectory = jax.jit(HostSource.trajectory, static_argnums=0)
_frozen = jax.jit(Evaluator.frozen_after_end, static_argnums=0)
_of_own_seats = jax.jit(of_own_seats, static_argnums=0)
act = jax.jit(Players.act, static_argnums=0, static_argnames="greedy")


def play_episodes(evaluator: Evaluator, acting: Acting, now: Round, key: Key) -> Evaluation:
    """Play whole episodes of one task, with every partner and every arrangement of seats."""
    env = cast(Simulator, evaluator.env)
    return persistent(env, partial(_play_episodes, evaluator, acting, now), key)


def _play_episodes(evaluator: Evaluator, acting: Acting, now: Round, key: Key) -> Evaluation:
    env, players = cast(Simulator, evaluator.env), evaluator.players
    tables, in_a_row = shape_of(now.pairing), evaluator.consecutive
    num_envs = tables[0] * tables[1] * evaluator.episodes
    seated = _take_seats(players, acting.replace(seating=seating_of(now.pairing)))
    start_key, play_key = jax.random.split(key)
    user = (env, num_envs)
    memory = players.initial_memory(num_envs, env.num_agents, tables[0] * tables[1])
    keeps = np.asarray(evaluator.own_seats(seated, num_envs))
    score, returns = np.zeros((2, num_envs, in_a_row), np.float32)
    events = np.zeros((num_envs, in_a_row, env.num_agents, len(env.events)), np.float32)
    number, every = np.zeros(num_envs, int), np.arange(num_envs)  # of the episode
    with OPEN.lent(env, num_envs, "evaluation", user, OPEN_EVALUATIONS) as (games, _):
        step = games.reset(seed_of(start_key))
        for act_key in jax.random.split(play_key, in_a_row * (env.horizon + 1)):
            ended = step.terminated | step.truncated
            number += ended
            if (number == in_a_row).all():
                break
            view = with_task(step, np.asarray(now.task.id)).view
            view = view.replace(forget=view.first & ~(keeps & (number > 0)[:, None]))
            action, after, _ = act(players, seated, memory, view, act_key, greedy=evaluator.greedy)
            if in_a_row > 1:  # the slot after an episode is not a step
                after = _frozen(evaluator, seated, jnp.asarray(~ended), after, memory)
            memory, step = after, games.step(np.asarray(action))
            place = every, np.minimum(number, in_a_row - 1)
            played = ~ended & (number < in_a_row)
            reward = np.asarray(_of_own_seats(players, seated, step.reward)).mean(-1)
            returns[place] += played * reward
            score[place] = np.where(played, step.info["score"], score[place])
            if env.events:
                events[place] += played[:, None, None] * step.info["events"]

    def shaped(x: np.ndarray) -> Any:
        x = x.reshape(*tables, evaluator.episodes, *x.shape[1:])
        return x if in_a_row > 1 else x[:, :, :, 0]

    return Evaluation(shaped(score), shaped(returns), shaped(events))


def film_on_host(
    env: Simulator,
    players: Players,
    acting: Acting,
    task: Any,
    key: Key,
    tables: int,
    table: int = 0,
    greedy: bool = False,
) -> tuple[list[np.ndarray], float, np.ndarray]:
    """Pictures of one table's episode, its score, and the return of every seat."""
    seated = _take_seats(players, acting)
    memory = players.initial_memory(tables, env.num_agents, tables)
    start_key, play_key = jax.random.split(key)
    games = env.open(tables, pictures=True)
    returns = np.zeros(env.num_agents)
    try:
        step = games.reset(seed_of(start_key))
        frames = [games.frame(table)]
        for act_key in jax.random.split(play_key, env.horizon):
            view = with_task(step, np.asarray(task.id)).view
            action, memory, _ = act(players, seated, memory, view, act_key, greedy=greedy)
            step = games.step(np.asarray(action))
            frames.append(games.frame(table))
            returns += np.asarray(step.reward[table])
            if step.terminated[table] or step.truncated[table]:
                break
    except SimulatorError as error:
        raise UserError(str(error)) from error
    finally:
        games.close()
    return frames, float(step.info["score"][table]), returns
