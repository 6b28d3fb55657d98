"""Learning histories of a run (`--histories`): rollouts are kept while a task is trained, and what
is best of them is written when it ends.

    RUN/histories/parts/SEED/TASK-UPDATE.npz  the rollouts of the task in training
    RUN/histories/index.jsonl, shards/        see `brigade.histories.files`
"""

from __future__ import annotations

import shutil
import zipfile
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Policy, View
from brigade.core.histories import (
    ACTIONS,
    DONES,
    EXPERT_ACTIONS,
    OBS,
    REWARDS,
    TEAMMATE_ACTIONS,
)
from brigade.errors import UserError
from brigade.histories.files import (
    SHARDS,
    IndexEntry,
    best_streams,
    episode_returns,
    finished_shard,
    write_index,
    write_shard,
)
from brigade.reading import DamagedError, read_npz
from brigade.runs.assemble import Parts
from brigade.runs.config import Experiment
from brigade.runs.export import as_loaded
from brigade.runs.folder import write_atomically
from brigade.train import Position, Progress
from brigade.train.recording import AVAIL, FIRST, VALID

FOLDER = "histories"


class HistoryWriter:
    """Keeps the rollouts of a task, and makes histories of them when it ends."""

    def __init__(self, run: Path, experiment: Experiment, parts: Parts) -> None:
        self.folder, self.experiment, self.parts = run / FOLDER, experiment, parts
        self.rollouts = self.folder / "parts"

    def start(self, position: Position | None) -> None:
        """Forget rollouts that will be played again, since the run goes on from here."""
        done = (position.task, position.update) if position else (-1, 0)
        for path in self.rollouts.glob("*/*.npz"):
            if place_of(path) > done:
                path.unlink()
        ended = done[0] + (done[1] == self.experiment.config.updates_per_task)
        for task in range(max(0, ended), self.experiment.config.total_tasks):
            for row in range(len(self.parts.seeds)):
                for path in (self.folder / SHARDS).glob(f"{self.task_id(row, task)}.*"):
                    path.unlink()
        if position and position.update == self.experiment.config.updates_per_task:
            self.finish(position)  # unless it was finished before the run stopped

    def add(self, progress: Progress, position: Position) -> None:
        """Keep the rollout of an update; at the end of a task, write its histories."""
        if progress.rollout is None:  # the evaluation before the first update
            return
        if progress.update == 1:  # a checkpoint was saved since the last task has ended
            shutil.rmtree(self.rollouts, ignore_errors=True)
        rollout = jax.device_get(progress.rollout)
        for row, seed in enumerate(self.parts.seeds):
            path = self.rollouts / str(seed) / f"{progress.task:06d}-{progress.update:08d}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, packed({name: x[row] for name, x in rollout.items()}))
        if progress.update == self.experiment.config.updates_per_task:
            self.finish(position)

    def finish(self, position: Position) -> None:
        """Write the histories of the task that has ended, and the index of all so far."""
        shards = []
        for task in range(position.task + 1):
            for row in range(len(self.parts.seeds)):
                name = self.task_id(row, task)
                done = finished_shard(self.folder, name)
                if done is None:
                    rollouts = self.read(row, task)
                    done = write_shard(self.folder, name, self.best(rollouts, position, row))
                shards.append(done)
        write_index(self.folder, shards)

    def close(self) -> None:
        """Forget the rollouts of a run that has ended."""
        shutil.rmtree(self.rollouts, ignore_errors=True)

    def task_id(self, row: int, task: int) -> str:
        """What one seed's histories of a task are called."""
        return f"seed{self.parts.seeds[row]}-task{task + 1}"

    def read(self, row: int, task: int) -> list[Path]:
        """The rollouts of a seed in a task, in order; all of them must be there."""
        paths = sorted((self.rollouts / str(self.parts.seeds[row])).glob(f"{task:06d}-*.npz"))
        wanted = self.experiment.config.updates_per_task
        if len(paths) != wanted:
            raise DamagedError(
                f"{self.rollouts} has {len(paths)} of the {wanted} rollouts of task {task + 1}; "
                "its histories are lost, train the run anew"
            )
        return paths

    def best(
        self, paths: list[Path], position: Position, row: int
    ) -> list[tuple[IndexEntry, dict[str, np.ndarray]]]:
        """The streams of a seed that are kept, with what the trained policy would have done."""
        config = self.experiment.config
        timeline = joined(paths, (REWARDS, DONES, FIRST, VALID))
        streams = [
            whole_episodes(Stream(*(timeline[name][:, n] for name in Stream._fields)), config)
            for n in range(timeline[REWARDS].shape[1])
        ]
        if not all(len(each.places) for each in streams):
            raise UserError(
                "a task is shorter than an episode, so there are no histories; use more "
                "--steps-per-task"
            )
        returns = [
            episode_returns(timeline[REWARDS][each.places, n], each.dones)
            for n, each in enumerate(streams)
        ]
        chosen = best_streams(returns, config.histories)
        rest = joined(paths, (OBS, ACTIONS, TEAMMATE_ACTIONS, AVAIL), chosen)
        histories = [
            {name: x[streams[n].places, place] for name, x in rest.items()}
            | {REWARDS: timeline[REWARDS][streams[n].places, n], DONES: streams[n].dones}
            for place, n in enumerate(chosen)
        ]
        run = as_loaded(self.folder.parent, self.experiment, self.parts, position)
        task = position.task % len(self.parts.sequences[0])
        params = run.acting_params(row, task)
        policy = self.parts.learner.policy
        task_id = self.parts.sequences[row].tasks.id[task]
        labels = expert_actions(policy, params, histories, task_id)
        for each, wanted in zip(histories, labels, strict=True):
            each[EXPERT_ACTIONS] = wanted
            del each[AVAIL]
        return [
            (self.described(row, task, n, each), each)
            for n, each in zip(chosen, histories, strict=True)
        ]

    def described(
        self, row: int, task: int, stream: int, history: dict[str, np.ndarray]
    ) -> IndexEntry:
        """The line of the index for a history."""
        config = self.experiment.config
        met = config.partners_of_seed[row] if config.partners_of_seed else ""
        return IndexEntry(
            history_id=0,
            task_id=self.task_id(row, task),
            env_idx=stream,
            T=len(history[DONES]),
            obs_shape=history[OBS].shape[1:],
            action_dim=self.parts.benchmark.env.num_actions,
            layout=self.parts.sequences[row].names[task],
            teammate_kind=met or ",".join(config.partners) or "self",
            has_teammate_actions=TEAMMATE_ACTIONS in history,
            has_expert_actions=True,
        )


class Stream(NamedTuple):
    """One environment's timesteps [T]."""

    dones: np.ndarray
    first: np.ndarray
    valid: np.ndarray


class Episodes(NamedTuple):
    """Which timesteps of a stream make up its history."""

    places: np.ndarray  # [timesteps of the history]: their numbers in the stream
    dones: np.ndarray  # [timesteps of the history] bool


def whole_episodes(stream: Stream, config: Any) -> Episodes:
    """The whole episodes of a stream, or the first `history_steps` of each."""
    (index,) = np.nonzero(stream.valid)
    begins = stream.first[index]
    number = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    step = np.arange(len(index)) - starts[np.maximum(number, 0)] if len(starts) else index
    kept = number >= 0
    if config.history_steps:
        kept &= step < config.history_steps
    length = np.bincount(number[kept], minlength=len(starts))
    ended = np.bincount(number[kept], stream.dones[index][kept], minlength=len(starts)) > 0
    whole = ended | (length == config.history_steps)
    kept &= whole[np.maximum(number, 0)]
    return Episodes(index[kept], (step + 1 == length[np.maximum(number, 0)])[kept])


def place_of(path: Path) -> tuple[int, int]:
    """The task and the update of a kept rollout."""
    task, _, update = path.stem.partition("-")
    return int(task), int(update)


def joined(
    paths: list[Path], names: tuple[str, ...], streams: list[int] | None = None
) -> dict[str, np.ndarray]:
    """Arrays of rollouts in a row [all timesteps, streams, ...], as far as there are such."""
    parts = []
    for path in paths:
        arrays = read_npz(path)
        chosen = slice(None) if streams is None else streams
        parts.append({name: arrays[name][:, chosen] for name in names if name in arrays})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    """Arrays as .npz, compressed quickly."""
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
    return content.getvalue()


def expert_actions(
    policy: Policy,
    params: Any,
    histories: list[dict[str, np.ndarray]],
    task_id: Array,
) -> list[np.ndarray]:
    """What a policy would do greedily at every timestep of histories, with the memory that it has
    of the episode so far."""
    lengths = [len(each[DONES]) for each in histories]

    def aligned(name: str) -> Array:
        """[T, histories, ...], with zeros after the end of shorter ones."""
        shape = (max(lengths), len(histories), *histories[0][name].shape[1:])
        rows = np.zeros(shape, histories[0][name].dtype)
        for row, each in enumerate(histories):
            rows[: len(each[name]), row] = each[name]
        return jnp.asarray(rows)

    fields = tuple(map(aligned, (OBS, ACTIONS, REWARDS, DONES, AVAIL)))
    labels = np.asarray(_labels(policy, params, fields, task_id))
    return [labels[:length, n] for n, length in enumerate(lengths)]


@partial(jax.jit, static_argnums=0)
def _labels(policy: Policy, params: Any, fields: tuple[Array, ...], task_id: Array) -> Array:
    _, action, reward, _, _ = fields
    batch = action.shape[1:]
    key = jax.random.key(0)  # greedy actions need none

    def step(loop: Any, now: tuple[Array, ...]) -> Any:
        carry, before_action, before_reward, first = loop
        seen, action, reward, done, avail = now
        view = View(
            obs=seen,
            avail=avail,
            prev_action=jnp.where(first, -1, before_action),
            prev_reward=jnp.where(first, 0.0, before_reward),
            first=first,
            active=jnp.ones(batch, bool),
            task_id=jnp.broadcast_to(task_id, batch),
        )
        chosen, carry, _ = policy.act(params, carry, view, key, greedy=True)
        return (carry, action, reward, done), chosen

    start = (policy.initial_carry(batch), action[0], reward[0], jnp.ones(batch, bool))
    return jax.lax.scan(step, start, fields)[1]
