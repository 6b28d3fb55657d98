"""Gymnasium environments as games for one seat, vectorised by Gymnasium itself."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from brigade import registry
from brigade.core import HostGames, Simulator, SimulatorError, TimeStep
from brigade.errors import UserError

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

    from brigade.envs.gym_maker import maker
except ImportError as error:
    raise UserError(
        "Gymnasium environments need gymnasium: pip install 'brigade-rl[gymnasium]'"
    ) from error


@dataclass(frozen=True)
class GymGame(Simulator):
    """One Gymnasium environment: a registered id, or a class of yours as path/to/file.py:Name."""

    id: str
    obs_shape: tuple[int, ...]
    obs_type: str  # as NumPy calls it
    num_actions: int
    horizon: int
    continuous: bool = False
    processes: bool = False
    time_limit: float = 60.0  # seconds

    num_agents = 1
    meanings = MappingProxyType({"raw_score": "the return of an episode as it is"})

    @property
    def obs_dtype(self) -> Any:
        return np.dtype(self.obs_type)

    def open(self, num_envs: int, pictures: bool = False) -> HostGames:
        return GymGames(self, self._vectorised(num_envs, pictures))

    def _vectorised(self, num_envs: int, pictures: bool) -> VectorEnv:
        """Gymnasium's vector environment: processes, its own for this id, or one after another."""
        more: dict[str, Any] = {"render_mode": "rgb_array"} if pictures else {}
        if pictures:
            os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # pygame looks for a loudspeaker
        make = maker(self.id, self.horizon, **more)
        if self.processes and not pictures:
            # Not forked from here: JAX has threads, and a fork of those can wait forever.
            multiprocessing.set_forkserver_preload(["brigade.envs.gym_maker"])
            return AsyncVectorEnv([make] * num_envs, context="forkserver")
        if self.id in gymnasium.registry and not pictures:
            spec = gymnasium.spec(self.id)
            if spec.vector_entry_point is not None and spec.max_episode_steps == self.horizon:
                envs: VectorEnv = gymnasium.make_vec(self.id, num_envs)
                if envs.metadata.get("autoreset_mode") == AutoresetMode.NEXT_STEP:
                    return envs
        return SyncVectorEnv([make] * num_envs)


def gym_game(
    id: str, horizon: int | None = None, processes: bool = False, time_limit: float = 60.0
) -> GymGame:
    """The game of an id; what its spaces are is asked of one environment."""
    if ":" in id and ".py:" not in id:
        raise UserError(
            f"{id} names a module; give a registered id, such as CartPole-v1, or a class in a file "
            "as path/to/file.py:Name"
        )
    if ".py:" not in id and id not in gymnasium.registry:
        near = registry.nearest(id, gymnasium.registry)  # there are too many to list them
        known = [near] if near else []
        raise UserError(registry.unknown_name("Gymnasium environment", id, known))
    try:
        env = maker(id)()
        seen, acts, spec = env.observation_space, env.action_space, env.spec
        env.close()
    except UserError:
        raise
    except Exception as error:  # an environment can raise anything
        raise UserError(f"{id} cannot be made: {one_line(error)}") from error
    if horizon is None:
        horizon = None if spec is None else spec.max_episode_steps
    if horizon is None:
        raise UserError(
            f"{id} has no time limit; say how many steps an episode may have: --env.horizon"
        )
    shape, kind = shape_of(id, seen)
    actions, continuous = actions_of(id, acts)
    return GymGame(id, shape, kind, actions, horizon, continuous, processes, time_limit)


def shape_of(id: str, space: spaces.Space) -> tuple[tuple[int, ...], str]:
    """The shape and the type of observations; numbers from 0 to n - 1 become one-hots."""
    match space:
        case spaces.Box():
            return space.shape, "uint8" if space.dtype == np.uint8 else "float32"
        case spaces.Discrete():
            return (int(space.n),), "float32"
    raise UserError(
        f"{id} has observations of type {type(space).__name__}; only Box and Discrete can be "
        "learned from, flatten others with a wrapper (gymnasium.wrappers.FlattenObservation)"
    )


def actions_of(id: str, space: spaces.Space) -> tuple[int, bool]:
    """The number of actions, and whether they are continuous."""
    match space:
        case spaces.Discrete():
            return int(space.n), False
        case spaces.Box() if len(space.shape) == 1:
            return int(space.shape[0]), True
    raise UserError(
        f"{id} has actions of type {type(space).__name__}; only Discrete and vectors (Box) can be "
        "learned"
    )


class GymGames(HostGames):
    """A running vector of Gymnasium environments."""

    def __init__(self, game: GymGame, envs: VectorEnv) -> None:
        self.game, self.envs, self.number = game, envs, envs.num_envs
        self.seen: Any = envs.single_observation_space
        self.acts: Any = envs.single_action_space
        self.return_so_far = np.zeros(self.number, np.float32)
        self.over = np.zeros(self.number, bool)

    def reset(self, seed: int) -> TimeStep:
        obs, _ = self._ask("reset", seed=seed)
        self.return_so_far[:] = 0.0
        none = np.zeros(self.number, bool)
        return self._timestep(obs, self._no_action(), np.zeros(self.number), none, none, ~none)

    def step(self, action: np.ndarray) -> TimeStep:
        first = self.over  # these episodes ended, and this step starts the next ones
        obs, reward, terminated, truncated, _ = self._ask("step", self._own(action[:, 0]))
        self.return_so_far = np.where(first, 0.0, self.return_so_far + reward).astype(np.float32)
        before = np.where(first.reshape(-1, *[1] * (action.ndim - 1)), self._no_action(), action)
        return self._timestep(obs, before, reward, terminated, truncated, first)

    def frame(self, game: int) -> np.ndarray:
        try:
            picture = np.asarray(cast(SyncVectorEnv, self.envs).envs[game].render(), np.uint8)
        except Exception as error:  # an environment can raise anything
            raise UserError(f"{self.game.id} cannot be filmed: {one_line(error)}") from error
        if picture.ndim != 3:
            raise UserError(f"{self.game.id} cannot be filmed: it draws no RGB pictures")
        return picture

    def close(self) -> None:
        if not self.game.processes:
            self.envs.close()
            return
        # With a step still pending, as after a death, Gymnasium's own way of closing would wait.
        for process in cast(AsyncVectorEnv, self.envs).processes:
            process.kill()
        self.envs.closed = True

    def _ask(self, what: str, *arguments: Any, **more: Any) -> Any:
        """Reset or step all environments, within the time limit if they have processes."""
        name = self.game.id
        try:
            if not isinstance(self.envs, AsyncVectorEnv):
                return getattr(self.envs, what)(*arguments, **more)
            getattr(self.envs, f"{what}_async")(*arguments, **more)
            return getattr(self.envs, f"{what}_wait")(timeout=self.game.time_limit)
        except multiprocessing.TimeoutError as error:
            limit = self.game.time_limit
            raise SimulatorError(f"{name} did not answer within {limit:g} s") from error
        except (EOFError, ConnectionError) as error:
            raise SimulatorError(f"a process of {name} has died") from error
        except Exception as error:  # an environment can raise anything
            raise UserError(f"{name} failed: {one_line(error)}") from error

    def _own(self, action: np.ndarray) -> np.ndarray:
        """Actions as the environment wants them; components from -1 to 1 span bounded ranges."""
        space = self.acts
        if not self.game.continuous:
            return np.asarray(action + space.start)
        within = np.clip(action, -1.0, 1.0)
        bounded = np.isfinite(space.low) & np.isfinite(space.high)
        low, high = (np.where(bounded, bound, 0.0) for bound in (space.low, space.high))
        scaled = np.where(bounded, low + (within + 1.0) / 2.0 * (high - low), action)
        return np.asarray(scaled, space.dtype)

    def _no_action(self) -> np.ndarray:
        if self.game.continuous:
            return np.zeros((self.number, 1, self.game.num_actions), np.float32)
        return np.full((self.number, 1), -1, np.int32)

    def _timestep(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        first: np.ndarray,
    ) -> TimeStep:
        self.over = terminated | truncated
        if isinstance(self.seen, spaces.Discrete):
            obs = np.eye(int(self.seen.n), dtype=np.float32)[obs - self.seen.start]
        earned = np.asarray(reward, np.float32)[:, None]
        return self.game.timestep(
            np.array(obs, self.game.obs_dtype)[:, None],
            action,
            earned,
            (terminated.copy(), truncated & ~terminated),
            first[:, None].copy(),
            {"score": self.return_so_far.copy()},
        )


def one_line(error: Exception) -> str:
    """An error of somebody else's code in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
