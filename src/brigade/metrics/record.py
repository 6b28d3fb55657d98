"""The evaluations of a run: arrays with named axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

SCORE_AXES = ("task", "partner", "seat", "seed", "episode")  # after the axis of evaluations
ROW_AXIS = "attempt"  # consecutive episodes with one recurrent state
EVENT_AXES = ("task", "partner", "seat", "seed", "player", "kind")
HELD_OUT_AXES = ("held_out", "seat", "seed", "episode")  # partners who are never trained with
FEW_SHOT, HELD_OUT = "few_shot", "held_out"  # prefixes of the names of more evaluations


FEW_SHOT_ARRAYS = (f"{FEW_SHOT}_score", f"{FEW_SHOT}_returns")
HELD_OUT_ARRAYS = (f"{HELD_OUT}_score", f"{HELD_OUT}_returns")
RECORDED = ("score", "returns", "events", *FEW_SHOT_ARRAYS, *HELD_OUT_ARRAYS)


@dataclass
class Record:
    """The evaluations so far, and the names of their axes.

    `partner` is the learner's partner, `seat` the learner's seat, `player` the seat of events.
    """

    task_names: tuple[str, ...]
    steps_per_task: int
    seeds: tuple[int, ...]
    repetitions: int = 1
    event_names: tuple[str, ...] = ()
    horizon: int = 0  # maximum length of an episode, to normalise counts of events
    partner_names: tuple[str, ...] = ("self",)
    seat_names: tuple[str, ...] = ("all",)
    held_out_names: tuple[str, ...] = ()
    earlier_ends: tuple[int, ...] = ()  # of tasks trained before `steps_per_task` was changed
    steps: list[int] = field(default_factory=list)  # environment steps at each evaluation
    columns: dict[str, list[np.ndarray]] = field(default_factory=dict)  # one array per evaluation
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # after the axis of evaluations

    def add(self, name: str, values: np.ndarray, axes: tuple[str, ...]) -> None:
        """Add an array of the latest evaluation, the last one in `steps`."""
        if self.axes.setdefault(name, axes) != axes or values.ndim != len(axes):
            raise ValueError(f"{name} has axes {self.axes[name]}, not {axes} of {values.shape}")
        self.columns.setdefault(name, []).append(values)

    @property
    def score(self) -> list[np.ndarray]:
        """One array per evaluation, tasks first."""
        return self.columns["score"]

    def start_of(self, task: int) -> int:
        """The step at which the training of a task starts; tasks count on over repetitions."""
        known = len(self.earlier_ends)
        if task <= known:
            return self.earlier_ends[task - 1] if task else 0
        return self.start_of(known) + (task - known) * self.steps_per_task

    def ends(self) -> list[int]:
        """The step at which the training of every task ends, over all repetitions."""
        total = self.repetitions * len(self.task_names)
        return [self.start_of(task + 1) for task in range(total)]

    def arrays(self) -> dict[str, np.ndarray]:
        """`steps` [eval], `task_ends` [task], the recorded arrays [eval, ...], and all names.

        `axes` are those of score and returns, `events_axes` those of events, which are means over
        episodes. In a repeated sequence, `task_ends` are those of the last repetition.
        """
        ends = np.asarray(self.ends()[-len(self.task_names) :])
        more = {}
        if self.event_names:
            more["event_names"] = np.array(self.event_names)
            more["horizon"] = np.array(self.horizon, np.int64)
        if self.held_out_names:
            more["held_out_names"] = np.array(self.held_out_names)
        return {
            **more,
            **{name: np.stack(values) for name, values in self.columns.items()},
            **{
                axes_name(name): np.array(("eval", *axes))
                for name, axes in self.axes.items()
                if name != "returns"  # the same as those of score
            },
            "steps": np.asarray(self.steps, np.int64),
            "steps_per_task": np.array(self.steps_per_task, np.int64),
            "earlier_ends": np.array(self.earlier_ends, np.int64),
            "task_ends": ends.astype(np.int64),
            "task_names": np.array(self.task_names),
            "partner_names": np.array(self.partner_names),
            "seat_names": np.array(self.seat_names),
            "seeds": np.array(self.seeds, np.int64),
            "repetitions": np.array(self.repetitions, np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Record:
        """The inverse of `arrays`."""
        names = [name for name in RECORDED if name in arrays]
        return cls(
            task_names=tuple(arrays["task_names"].tolist()),
            steps_per_task=int(arrays["steps_per_task"]),
            seeds=tuple(arrays["seeds"].tolist()),
            repetitions=int(arrays["repetitions"]),
            event_names=tuple(arrays["event_names"].tolist()) if "events" in arrays else (),
            horizon=int(arrays.get("horizon", 0)),
            partner_names=tuple(arrays["partner_names"].tolist()),
            seat_names=tuple(arrays["seat_names"].tolist()),
            held_out_names=tuple(arrays.get("held_out_names", np.array(())).tolist()),
            earlier_ends=tuple(arrays["earlier_ends"].tolist()),
            steps=arrays["steps"].tolist(),
            columns={name: list(arrays[name]) for name in names},
            axes={name: tuple(arrays[axes_name(name)].tolist()[1:]) for name in names},
        )


def axes_name(name: str) -> str:
    """The name under which the axes of an array are saved."""
    return "axes" if name in ("score", "returns") else f"{name}_axes"
