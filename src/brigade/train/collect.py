"""Rollouts on the device: one scan over the steps of many parallel environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Acting, Array, Environment, Key, Seating, Source, TimeStep, Trajectory
from brigade.core.compile import unroll
from brigade.train.play import Games, play_step, reset_all, restart, start_games
from brigade.train.players import Players, Seated, take_seats

UNROLLED_STEPS = 4


def collect(
    env: Environment,
    players: Players,
    acting: Acting,
    state: Games,
    key: Key,
    task: Any,
    num_steps: int,
    restarts: bool = True,
    carry_every: int = 1,
) -> tuple[Games, Trajectory]:
    """Play `num_steps` in every environment.

    A terminated episode is replaced by a new one at once. After a truncated one the policy sees its
    last state once more, since the advantage needs its value. Inside a rollout that takes one slot
    without a step (`valid` is False). At the end of a rollout `last` has the value, and the next
    rollout starts a new episode. Without `restarts`, episodes only end with a rollout.
    Recurrent states are recorded before every `carry_every`-th timestep.
    """
    num_envs = state.step.truncated.shape[0]
    start_key, scan_key, last_key = jax.random.split(key, 3)
    state, over = reseated(env, acting, state, num_steps)
    state = restart(state, over, *reset_all(env, start_key, task, num_envs))
    seated = players.take_seats(acting.replace(seating=state.seating))

    def play(state: Games, keys: Key) -> tuple[Games, Trajectory]:
        act_key, step_key, reset_key = keys
        now = state.step
        played = play_step(env, players, seated, state, (act_key, step_key), task)
        then, after = played.after.step, played.after
        extras = played.extras | targets_of(env, players, seated, state.env_state, task)
        extras = with_actions(players, extras, played.action)
        record = recorded(players, seated, now, played.action, then, extras, ~now.truncated)
        if restarts:
            ended = then.terminated | now.truncated
            after = restart(after, ended, *reset_all(env, reset_key, task, num_envs))
        return after, record

    def sequence(state: Games, keys: Key) -> tuple[Games, tuple[Any, Trajectory]]:
        carry = players.carry_to_train(seated, state.memory)
        state, traj = jax.lax.scan(play, state, keys, unroll=unroll(UNROLLED_STEPS))
        return state, (carry, traj)

    keys = jax.random.split(scan_key, (num_steps, 3))
    if carry_every == num_steps:
        end, (carry, traj) = sequence(state, keys)
        carry = jax.tree.map(lambda x: x[None], carry)
    else:
        keys = keys.reshape(num_steps // carry_every, carry_every, 3)
        end, (carry, traj) = jax.lax.scan(sequence, state, keys)
        traj = jax.tree.map(lambda x: x.reshape(num_steps, *x.shape[2:]), traj)
    _, _, last = players.act(seated, end.memory, end.step.view, last_key)
    return end, with_end(players, seated, traj, end.step, last, carry, state.seating)


def recorded(
    players: Players,
    seated: Seated,
    now: TimeStep,
    action: Array,
    then: TimeStep,
    extras: dict[str, Any],
    valid: Array,
) -> Trajectory:
    """One timestep of a rollout [num_envs, ...]; what belongs to its end is added by `with_end`."""
    return Trajectory(
        view=players.own_view(seated, now.view),
        action=of_own_seats(players, seated, action),
        reward=of_own_seats(players, seated, then.reward),
        terminated=then.terminated & valid,
        truncated=then.truncated & valid,
        valid=valid,
        info=then.info,
        extras=extras,
        last_view=None,
        last={},
    )


def with_end(
    players: Players,
    seated: Seated,
    traj: Trajectory,
    now: TimeStep,
    last: dict[str, Any],
    carry: Any,
    seating: Seating | None,
) -> Trajectory:
    """The rollout with the timestep after it, what the policy records there, and the seats."""
    num_envs = len(now.truncated)
    return traj.replace(
        last_view=players.own_view(seated, now.view),
        last=last,
        carry=carry,
        seating=seating,
        seat=players.seat_numbers(seated, num_envs) if players.own_seats else None,
    )


def targets_of(
    env: Environment, players: Players, seated: Seated, env_state: Any, task: Any
) -> dict[str, Any]:
    """Labels for the learner's auxiliary loss, if its policy `predicts` any of the targets."""
    names = players.learner.predicts
    if not names:
        return {}
    targets = jax.vmap(env.conventions.labels, in_axes=(0, None))(env_state, task)
    return {"targets": {name: of_own_seats(players, seated, targets[name]) for name in names}}


def with_actions(players: Players, extras: dict[str, Any], action: Array) -> dict[str, Any]:
    """With the actions of all seats [num_envs, own seats, all seats, ...], if they are needed."""
    if not players.learner.needs_actions:
        return extras
    own, _ = players.seats(action.shape[1])
    shape = (len(action), own, *action.shape[1:])
    return extras | {"joint_action": jnp.broadcast_to(action[:, None], shape)}


def of_own_seats(players: Players, seated: Seated, x: Array) -> Array:
    """[num_envs, seats, ...] -> [num_envs, own seats, ...]."""
    return x if seated.own is None or not players.own_seats else take_seats(x, seated.own)


def reseated(env: Environment, acting: Acting, state: Games, num_steps: int) -> tuple[Games, Array]:
    """The state with the next seating, and which episodes must restart [num_envs].

    A seating lasts long enough for an episode to reach its horizon. An episode still running when
    it changes is truncated; the rollout before has bootstrapped from its last view.
    """
    over = state.step.truncated
    if state.seating is None or state.rollouts is None:
        return state, over
    pairs = zip(jax.tree.leaves(acting.seating), jax.tree.leaves(state.seating), strict=True)
    differs = jnp.stack([(new != old).any() for new, old in pairs]).any()
    change = (state.rollouts == 0) & differs  # the same seating again restarts nothing
    seating = jax.tree.map(
        lambda new, old: jnp.where(change, new, old), acting.seating, state.seating
    )
    rollouts = (state.rollouts + 1) % rollouts_per_seating(env, num_steps)
    return state.replace(seating=seating, rollouts=rollouts), over | change


def rollouts_per_seating(env: Environment, num_steps: int) -> int:
    """How many rollouts a seating lasts: enough for an episode to reach its horizon."""
    return max(1, -(-env.horizon // num_steps))


@dataclass(frozen=True)
class GamesSource(Source):
    """Rollouts of games that are played side by side."""

    env: Environment
    players: Players
    num_envs: int = 2048
    num_steps: int = 400
    tables: int = 1
    carry_every: int = 1  # timesteps; see `Learner.carry_every`

    def __post_init__(self) -> None:
        if self.num_envs < 1 or self.num_steps < 1:
            raise ValueError(
                f"num_envs is {self.num_envs} and num_steps {self.num_steps}; "
                "both must be at least 1"
            )
        if self.num_envs % self.tables:
            raise ValueError(
                f"num_envs is {self.num_envs}; it must be a multiple of {self.tables}, the number "
                "of tables"
            )

    @property
    def steps_per_rollout(self) -> int:
        """Environment steps per rollout; on the host, slots after episodes count as steps, too."""
        return self.num_envs * self.num_steps


@dataclass(frozen=True)
class DeviceSource(GamesSource):
    """Rollouts from JAX environments, in the same compiled program as the update."""

    def start(self, key: Key, task: Any) -> Games:
        """Start new episodes."""
        return start_games(self.env, self.players, key, task, self.num_envs, self.tables)

    def next(self, state: Games, acting: Acting, task: Any, key: Key) -> tuple[Games, Trajectory]:
        """Collect a rollout."""
        restarts = not ends_with_rollouts(self.env, self.num_steps)
        # What nobody records needs no loop of its own.
        every = self.carry_every if self.players.learner.has_memory else self.num_steps
        return collect(
            self.env, self.players, acting, state, key, task, self.num_steps, restarts, every
        )


def ends_with_rollouts(env: Environment, num_steps: int) -> bool:
    """Whether episodes only end with a rollout, so that steps need not check for it."""
    return env.fixed_length and env.horizon % num_steps == 0
