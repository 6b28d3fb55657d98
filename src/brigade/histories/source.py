"""Recorded histories as a source of experience."""

from __future__ import annotations

import time
from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Acting, Array, Key, Source, Trajectory, View
from brigade.core.histories import (
    ACTIONS,
    DONES,
    EXPERT_ACTIONS,
    OBS,
    REWARDS,
    STEP,
    TEAMMATE_ACTIONS,
)
from brigade.histories.batches import (
    NEXT_OBS,
    PREV_ACTIONS,
    PREV_REWARDS,
    PREV_TEAMMATE_ACTIONS,
    QUERY_OBS,
    QUERY_TARGET,
    VALID,
    Batches,
)

AHEAD = 2  # batches that are made while the device computes


class Place(struct.PyTreeNode):
    """Which batch comes next: it follows from this alone."""

    seed: Array  # [2] uint32
    update: Array  # [] int32


class Ahead:
    """Makes the next batches in a thread; what they are does not depend on it."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="histories")
        self._coming: dict[Hashable, Future[dict[str, np.ndarray]]] = {}
        self._waited, self._since = 0.0, 0.0

    def get(self, seed: tuple[int, ...], update: int) -> dict[str, np.ndarray]:
        """The batch of an update."""
        asked = time.monotonic()
        self._since = self._since or asked
        found = self._coming.pop((seed, update), None)
        batch = self._made(seed, update) if found is None else found.result()
        self._waited += time.monotonic() - asked
        for later in range(update + 1, update + 1 + AHEAD):
            if (seed, later) not in self._coming:
                self._coming[seed, later] = self._maker.submit(self._made, seed, later)
        return batch

    def share_waited(self) -> float:
        """The share of the time since the first batch in which training waited for data."""
        return self._waited / max(time.monotonic() - self._since, 1e-9)

    def _made(self, seed: tuple[int, ...], update: int) -> dict[str, np.ndarray]:
        return self._batches.sample(np.random.default_rng([*seed, update]))


@dataclass(frozen=True, eq=False)
class RecordedSource(Source):
    """Batches of histories, as rollouts of one seat that somebody else has played.

    Leaves are [T, B, 1, ...], where T is the length of a sequence and B their number. Who acts now
    and which task it is makes no difference. What a View has no place for is in `extras`.
    """

    batches: Batches
    num_actions: int
    tables: int = 1
    ahead: Ahead = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ahead", Ahead(self.batches))

    @property
    def traced(self) -> bool:
        return False

    @property
    def mixes_tasks(self) -> bool:
        return True

    @property
    def steps_per_rollout(self) -> int:
        """Timesteps of a batch."""
        return self.batches.length * self.batches.size

    def start(self, key: Key, task: Any) -> Place:
        """The batches of this key, from the first."""
        return Place(jax.random.key_data(key).reshape(-1)[-2:], jnp.int32(0))

    def next(self, state: Place, acting: Acting, task: Any, key: Key) -> tuple[Place, Trajectory]:
        """The next batch."""
        seed = tuple(np.asarray(state.seed).tolist())
        batch = self.ahead.get(seed, int(state.update))
        return state.replace(update=state.update + 1), self.trajectory(batch)

    def example(self, state: Place, acting: Acting, task: Any, key: Key) -> Trajectory:
        """A batch of zeros."""
        alone = replace(self.batches, size=1).sample(np.random.default_rng(0))
        one: Trajectory = jax.eval_shape(lambda: self.trajectory(alone))

        def several(tree: Any, axis: int) -> Any:
            def of(x: Any) -> Array:
                shape = (*x.shape[:axis], self.batches.size, *x.shape[axis + 1 :])
                return jnp.zeros(shape, x.dtype)

            return jax.tree.map(of, tree)

        return several(one.replace(last_view=None), 1).replace(last_view=several(one.last_view, 0))

    def measured(self) -> dict[str, float]:
        return {"data_wait": self.ahead.share_waited()}

    def trajectory(self, batch: dict[str, np.ndarray]) -> Trajectory:
        """The batch as a rollout; where it is not `valid`, nothing counts."""
        if QUERY_OBS in batch:
            batch = query_in_front(batch)

        def by_time(name: str, kind: Any) -> Array:
            return jnp.asarray(np.moveaxis(batch[name], 0, 1)[:, :, None].astype(kind))

        valid = by_time(VALID, bool)
        extras = {STEP: by_time(STEP, np.int32)}
        if EXPERT_ACTIONS in batch:
            extras[EXPERT_ACTIONS] = by_time(EXPERT_ACTIONS, np.int32)
        if TEAMMATE_ACTIONS in batch:
            extras[TEAMMATE_ACTIONS] = by_time(TEAMMATE_ACTIONS, np.int32)
        if NEXT_OBS in batch:
            extras[NEXT_OBS] = by_time(NEXT_OBS, batch[NEXT_OBS].dtype)
        others = None
        if PREV_TEAMMATE_ACTIONS in batch:
            others = by_time(PREV_TEAMMATE_ACTIONS, np.int32)[..., None]
        view = View(
            obs=by_time(OBS, batch[OBS].dtype),
            avail=jnp.ones((*valid.shape, self.num_actions), bool),
            prev_action=by_time(PREV_ACTIONS, np.int32),
            prev_reward=by_time(PREV_REWARDS, np.float32),
            first=extras[STEP] == 0,
            active=valid,
            task_id=jnp.zeros(valid.shape, jnp.int32),
            others=others,
        )
        return Trajectory(
            view=view,
            action=by_time(ACTIONS, np.int32),
            reward=by_time(REWARDS, np.float32),
            terminated=by_time(DONES, bool)[..., 0] & valid[..., 0],
            truncated=jnp.zeros(valid.shape[:2], bool),
            valid=valid[..., 0],
            info={"score": jnp.full(valid.shape[:2], jnp.nan)},  # histories have none
            extras=extras,
            last_view=jax.tree.map(lambda x: x[-1], view),
            last={},
        )


def query_in_front(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The query as the first timestep, and after it transitions: their own action and reward take
    the place of those before. The query's label is that of every timestep."""
    number, length = batch[VALID].shape

    def after(first: Any, name: str) -> np.ndarray:
        rest = batch[name]
        front = np.broadcast_to(np.asarray(first, rest.dtype), (number, *rest.shape[2:]))
        return np.concatenate([front[:, None], rest], axis=1)

    target = np.repeat(batch[QUERY_TARGET][:, None], length + 1, axis=1)
    whole = {
        OBS: after(batch[QUERY_OBS], OBS),
        NEXT_OBS: after(0, NEXT_OBS),
        PREV_ACTIONS: after(-1, ACTIONS),
        PREV_REWARDS: after(0, REWARDS),
        ACTIONS: target,
        REWARDS: after(0, REWARDS),
        DONES: after(False, DONES),
        STEP: after(0, STEP),
        EXPERT_ACTIONS: target,
        VALID: np.ones_like(target, bool),  # as published, also where transitions are padded
    }
    if TEAMMATE_ACTIONS in batch:
        whole[PREV_TEAMMATE_ACTIONS] = after(-1, TEAMMATE_ACTIONS)
    return whole
