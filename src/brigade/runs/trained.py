"""Trained policies to act with, one step at a time, from a run folder or a policy file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade import registry
from brigade.core import Environment, Key, Policy, View
from brigade.core.compile import jit
from brigade.core.trees import pick, stack
from brigade.envs.gif import save_gif
from brigade.errors import UserError
from brigade.partners.files import Policies, load_policies
from brigade.runs.config import from_dict
from brigade.runs.trust import require_trust, without_files
from brigade.train.players import actions_of_others

Home = Callable[[], tuple[Environment, Any]]  # the environment and task of a policy


class TrainedPolicy:
    """A policy that acts. It keeps its recurrent state and its random key between calls."""

    def __init__(
        self, name: str, policy: Policy, params: Any, seats: int, home: Home, seed: int = 0
    ) -> None:
        self.name = name
        self._policy, self._params, self._home = policy, params, home
        self._seats = seats
        self._carry = policy.initial_carry((seats,))
        self._key, self._steps = jax.random.key(seed), 0

    def __repr__(self) -> str:
        return f"TrainedPolicy({self.name!r})"

    def act(self, view: View, seat: int | None = None, *, greedy: bool = False) -> np.ndarray:
        """The actions of all seats, or the action of one `seat`, sampled or `greedy`.

        The recurrent state starts anew wherever `view.first` is True.
        """
        if len(view.first) != self._seats:
            raise UserError(
                f"{self.name} plays a game with {self._seats} seats; "
                f"this view has {len(view.first)}"
            )
        if seat is not None and not 0 <= seat < self._seats:
            raise UserError(f"seat is {seat}; it must be from 0 to {self._seats - 1}")
        if self._policy.sees_actions:
            view = view.replace(others=actions_of_others(jnp.asarray(view.prev_action)))
        seats = slice(None) if seat is None else slice(seat, seat + 1)
        now = pick((view.replace(state=None), self._carry), seats)
        key = jax.random.fold_in(self._key, self._steps)
        action, carry = act(self._policy, self._params, *now, key, greedy)
        self._carry = jax.tree.map(lambda old, new: old.at[seats].set(new), self._carry, carry)
        self._steps += 1
        return np.asarray(action if seat is None else action[0])

    def game(self, seed: int = 0) -> Game:
        """A game of the task that the policy was trained for."""
        env, task = self._home()
        return Game(env, task, seed)


class Game:
    """One episode at a time, played step by step."""

    def __init__(self, env: Environment, task: Any, seed: int = 0) -> None:
        self.env, self.task = env, task
        self.reset(seed)

    def reset(self, seed: int = 0) -> View:
        """Start an episode and return what all seats observe."""
        start, self._key = jax.random.split(jax.random.key(seed))
        state, self._last = reset(self.env, start, self.task)
        self._states = [state]
        self.returns = np.zeros(self.env.num_agents)
        return self.view

    def step(self, action: Sequence[Any] | np.ndarray) -> View:
        """Play one action per seat and return what all seats observe then."""
        if self.over:
            raise UserError("the game is over; start another with reset()")
        actions = checked_actions(action, self.env)
        key = jax.random.fold_in(self._key, len(self._states))
        state, self._last = step(self.env, key, self._states[-1], actions, self.task)
        self._states.append(state)
        self.returns += np.asarray(self._last.reward)
        return self.view

    @property
    def view(self) -> View:
        """What all seats observe now: leaves [seats, ...]."""
        view: View = self._last.view
        return view

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return len(self._states) > 1 and bool(self._last.terminated | self._last.truncated)

    @property
    def score(self) -> float:
        """The score of the episode so far."""
        return float(self._last.info["score"])

    def film(self, path: str | Path) -> Path:
        """Save the episode so far as a GIF, in a new file."""
        target = new_file(path, ".gif")
        states = stack(self._states)
        frames = self.env.frames(states, self.task)
        if frames is None:
            raise UserError(f"{type(self.env).__name__} cannot be filmed: it has no frames()")
        save_gif(target, frames, self.env.frames_per_second)
        return target


@dataclass(frozen=True, repr=False)
class PolicyFile:
    """The policies of an exported file, which can act."""

    path: Path
    policies: Policies
    trust: bool = False

    def __repr__(self) -> str:
        return f"PolicyFile({str(self.path)!r}, policies: {', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the policies."""
        return self.policies.names

    def policy(self, name: str | None = None, *, seed: int | None = None) -> TrainedPolicy:
        """A policy by its name, or the first one of a seed of its run; by default the first."""
        index = find_member(self.policies.members, name, seed)
        params = pick(self.policies.params, index)
        home, seats = partial(self.home, index), int(self.policies.game["seats"])
        return TrainedPolicy(self.names[index], self.policies.policy, params, seats, home)

    def home(self, index: int) -> tuple[Environment, Any]:
        """The environment and the task that a policy was trained in."""
        origin, member = self.policies.origin, self.policies.members[index]
        benchmark = str(origin.get("benchmark", ""))
        if benchmark not in registry.names("benchmarks") and not (self.trust and benchmark):
            raise UserError(
                f"{self.path} was trained on {benchmark or 'an unknown benchmark'}, which is not "
                "installed; load it with trust=True if that is a file you trust"
            )
        env = origin.get("env") or {}
        env = env if self.trust else without_files(env)
        require_trust(env, self.trust, str(self.path))
        tree = {"benchmark": benchmark, **({"env": env} if env else {})}
        made, number = from_dict(tree).benchmark(), int(origin.get("task_number", 1))
        return made.env, made.sequence(int(member.get("seed", 0)), number, 1)[number - 1]


def load_file(path: str | Path, trust: bool = False) -> PolicyFile:
    """The policies of a file that `brigade export` wrote."""
    return PolicyFile(Path(path), load_policies(path), trust)


def checked_actions(action: Any, env: Environment) -> Any:
    """One action per seat, within the range of discrete ones."""
    try:
        actions = np.asarray(action)
        number = len(actions)
    except (TypeError, ValueError):
        raise UserError(f"give one action per seat, not {action!r}") from None
    if number != env.num_agents:
        raise UserError(f"give one action per seat: {env.num_agents}, not {number}")
    if actions.dtype.kind not in "iuf":
        raise UserError(f"actions are numbers, not {action!r}")
    if not env.continuous and not ((actions >= 0) & (actions < env.num_actions)).all():
        raise UserError(f"actions are 0 to {env.num_actions - 1}, not {actions.tolist()}")
    return jnp.asarray(actions)


def find_member(members: Sequence[Mapping[str, Any]], name: str | None, seed: int | None) -> int:
    """The index of the member with a name, or of the first one of a seed."""
    if name is not None and not isinstance(name, str):
        raise UserError(f"a policy is chosen by its name or by seed={name!r}, not by {name!r}")
    for index, member in enumerate(members):
        if name in (None, member["name"]) and seed in (None, member.get("seed")):
            return index
    names, seeds = ([member.get(what) for member in members] for what in ("name", "seed"))
    if name is not None and name not in names:
        raise UserError(registry.unknown_name("policy", name, map(str, names)))
    known = ", ".join(str(each) for each in dict.fromkeys(seeds))
    raise UserError(f"there is no policy of seed {seed}; seeds are {known}")


def new_file(path: str | Path, suffix: str) -> Path:
    """A path that has the right ending and where nothing is yet."""
    target = Path(path)
    if target.suffix.lower() != suffix:
        raise UserError(f"{target} must end in {suffix}")
    if target.exists():
        raise UserError(f"{target} exists already; choose another file")
    return target


@partial(jit, static_argnums=(0, 5))
def act(
    policy: Policy, params: Any, view: View, carry: Any, key: Key, greedy: bool
) -> tuple[Any, Any]:
    """Actions [seats, ...] and the next recurrent states: a table with one game."""
    memory, views = jax.tree.map(lambda leaf: leaf[None], (carry, view))
    action, after, _ = policy.act(params, memory, views, key, greedy)
    return action[0], pick(after, 0)


@partial(jit, static_argnums=0)
def reset(env: Environment, key: Key, task: Any) -> tuple[Any, Any]:
    """Start an episode."""
    return env.reset(key, task)


@partial(jit, static_argnums=0)
def step(env: Environment, key: Key, state: Any, action: Any, task: Any) -> tuple[Any, Any]:
    """Play one joint action."""
    return env.step(key, state, action, task)


__all__ = ["Game", "PolicyFile", "TrainedPolicy", "load_file"]
