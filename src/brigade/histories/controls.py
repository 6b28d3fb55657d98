"""Histories of the dark room and of the levers, played by learners that need no network.

All streams play side by side in NumPy, which takes seconds.
"""

from __future__ import annotations

import numpy as np

from brigade.core.histories import NO_LABEL
from brigade.histories.arrays import ArrayHistories

Generator = np.random.Generator
VERTICAL, HORIZONTAL = (0, 1), (2, 3)  # actions that lower and raise the row, and the column
STAY = 4
LUCKY = 0.3  # how often somebody who walks straight walks to the goal


def towards(cell: np.ndarray, target: np.ndarray, generator: Generator) -> np.ndarray:
    """[streams] actions on a shortest way; of two directions, one by chance."""
    gap = target - cell
    vertical = np.where(gap[:, 0] < 0, *VERTICAL)
    horizontal = np.where(gap[:, 1] < 0, *HORIZONTAL)
    coin = generator.random(len(cell)) < 0.5
    go_vertical = (gap[:, 0] != 0) & (coin | (gap[:, 1] == 0))
    action = np.where(go_vertical, vertical, horizontal)
    return np.where((gap == 0).all(1), STAY, action).astype(np.int32)


class Rooms:
    """Dark rooms side by side, and all that happens in them."""

    def __init__(self, goals: np.ndarray, moves: np.ndarray, side: int, horizon: int) -> None:
        self.goals, self.moves, self.side, self.horizon = goals, moves, side, horizon
        self.streams = np.arange(len(goals))
        self.steps: list[dict[str, np.ndarray]] = []
        self.begin()

    def begin(self) -> None:
        """Start an episode everywhere."""
        self.cell = np.full((len(self.goals), 2), self.side // 2)

    def play(self, action: np.ndarray, label: np.ndarray) -> np.ndarray:
        """One timestep; what it earned [streams]."""
        here = self.cell
        self.cell = np.clip(self.cell + self.moves[action], 0, self.side - 1)
        reward = (self.cell == self.goals).all(1).astype(np.float32)
        done = np.full(len(reward), (len(self.steps) + 1) % self.horizon == 0)
        step = {"here": here, "actions": action, "rewards": reward, "dones": done}
        self.steps.append({**step, "expert_actions": label})
        return reward

    def histories(self) -> ArrayHistories:
        """A history per stream; tasks are goals."""
        fields = {name: np.stack([s[name] for s in self.steps], 1) for name in self.steps[0]}
        here = fields.pop("here")
        obs = (here[..., None] == np.arange(self.side)).reshape(*here.shape[:2], -1)
        tasks = self.goals @ np.array([self.side, 1])
        return ArrayHistories.stacked({"obs": obs.astype(np.uint8), **fields}, tasks)


def explorers(
    goals: np.ndarray,
    moves: np.ndarray,
    side: int,
    horizon: int,
    streams: int,
    episodes: int,
    generator: Generator,
) -> ArrayHistories:
    """Learning in dark rooms: to the nearest cell not yet visited, until the goal is found; from
    then on straight to it. `streams` per goal [goals, 2]."""
    rooms = Rooms(np.repeat(goals, streams, axis=0), moves, side, horizon)
    number = len(rooms.streams)
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1)
    cells = cells.reshape(-1, 2)
    visited, found = np.zeros((number, side**2), bool), np.zeros(number, bool)
    for _ in range(episodes):
        rooms.begin()
        target = np.full((number, 2), -1)
        for _ in range(horizon):
            visited[rooms.streams, rooms.cell @ np.array([side, 1])] = True
            reached = visited[rooms.streams, target @ np.array([side, 1])] | (target[:, 0] < 0)
            distance = abs(cells[None] - rooms.cell[:, None]).sum(-1)
            distance = distance + generator.random(distance.shape)  # ties by chance
            nearest = cells[np.where(visited, np.inf, distance).argmin(1)]
            target = np.where(reached[:, None], nearest, target)
            to_goal = towards(rooms.cell, rooms.goals, generator)
            explore = towards(rooms.cell, target, generator)
            reward = rooms.play(np.where(found, to_goal, explore), to_goal)
            found |= reward > 0
    return rooms.histories()


def walks_and_experts(
    goals: np.ndarray,
    moves: np.ndarray,
    side: int,
    horizon: int,
    streams: int,
    episodes: int,
    generator: Generator,
) -> ArrayHistories:
    """Contexts in dark rooms, and what an expert does after them.

    In the first episodes of a stream, of a number sampled from 0 to `episodes` - 1, somebody walks:
    at random, or straight to a cell sampled per episode, which is the goal now and then: contexts
    must show it, too. In the others the expert plays, and its first episode has labels: those
    after it would copy it, and walkers' own steps say nothing.
    """
    rooms = Rooms(np.repeat(goals, streams, axis=0), moves, side, horizon)
    number = len(rooms.streams)
    walked = generator.integers(0, episodes, size=number)
    for episode in range(episodes):
        rooms.begin()
        target = generator.integers(0, side, size=(number, 2))
        lucky = generator.random(number) < LUCKY
        target = np.where(lucky[:, None], rooms.goals, target)
        directed = generator.random(number) < 0.5
        expert = episode >= walked
        for _ in range(horizon):
            to_goal = towards(rooms.cell, rooms.goals, generator)
            at_random = generator.integers(0, len(moves), size=number)
            walk = np.where(directed, towards(rooms.cell, target, generator), at_random)
            label = np.where(episode == walked, to_goal, NO_LABEL)
            rooms.play(np.where(expert, to_goal, walk).astype(np.int32), label)
    return rooms.histories()


def lever_pullers(
    sequences: np.ndarray, levers: int, streams: int, episodes: int, generator: Generator
) -> ArrayHistories:
    """Learning a partner's sequence [partners, steps]: at every step of an episode, levers in an
    order of one's own until one matches, and that one ever after."""
    wanted = np.repeat(sequences, streams, axis=0)
    number, steps = wanted.shape
    orders = generator.permuted(np.tile(np.arange(levers), (number, steps, 1)), axis=-1)
    tried = (orders == wanted[..., None]).argmax(-1)  # in which episode the right one has its turn
    turn = np.minimum(np.arange(episodes)[:, None, None], tried)
    actions = np.take_along_axis(orders[None], turn[..., None], axis=-1)[..., 0]

    def by_time(x: np.ndarray) -> np.ndarray:
        """[episodes, streams, steps] -> [streams, timesteps]."""
        return np.moveaxis(x, 0, 1).reshape(number, -1)

    partner = np.broadcast_to(wanted, actions.shape)
    last = np.broadcast_to(np.arange(steps) == steps - 1, actions.shape)
    fields = {
        "obs": np.zeros((number, episodes * steps, 1), np.uint8),
        "actions": by_time(actions).astype(np.int32),
        "rewards": by_time(actions == partner).astype(np.float32),
        "dones": by_time(last),
        "teammate_actions": by_time(partner).astype(np.int32),
        "expert_actions": by_time(partner).astype(np.int32),
    }
    return ArrayHistories.stacked(fields, np.repeat(np.arange(len(sequences)), streams))
