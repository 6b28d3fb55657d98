"""Small Gymnasium environments, as users write them."""

import os
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces


class Chase(gymnasium.Env):
    """Says where the goal is; moving there pays 1. Ends after three right moves or four steps."""

    observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(3)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = self.right = 0
        return self._look(), {}

    def step(self, action):
        reward = float(action == self.goal)
        self.steps, self.right = self.steps + 1, self.right + int(reward)
        return self._look(), reward, self.right == 3, self.steps == 4, {}

    def _look(self):
        self.goal = int(self.np_random.integers(3))
        return np.eye(3, dtype=np.float32)[self.goal]

    def render(self):
        picture = np.zeros((8, 24, 3), np.uint8)
        picture[:, 8 * self.goal : 8 * (self.goal + 1)] = 255
        return picture


class Wide(Chase):
    """The same with five places and an observation of numbers from 2."""

    observation_space = spaces.Discrete(5, start=2)
    action_space = spaces.Discrete(5, start=1)

    def step(self, action):
        return super().step(action - 1)

    def _look(self):
        self.goal = int(self.np_random.integers(5))
        return np.int64(self.goal + 2)


class Breaks(Chase):
    """Dies or hangs in its third step, as often as files called `die` or `hang` lie beside it."""

    def step(self, action):
        if self.steps == 2:
            for name in ("die", "hang"):
                try:
                    next(Path(__file__).parent.glob(f"{name}*")).unlink()
                except (StopIteration, FileNotFoundError):
                    continue
                if name == "die":
                    os._exit(1)
                time.sleep(30)
        return super().step(action)


class Moves(gymnasium.Env):
    """Continuous actions from 10 to 20; the reward is the first one."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Box(10.0, 20.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), float(action[0]), False, self.steps == 4, {}


class Mixed(Moves):
    """Observations that no network takes."""

    observation_space = spaces.Dict({"a": spaces.Discrete(2)})
