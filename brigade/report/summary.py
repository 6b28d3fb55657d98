"""The numbers of a run: its benchmark's measures for every seed, then averaged over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from brigade import registry
from brigade.core.protocols import CONTINUAL_MEASURES
from brigade.errors import UserError
from brigade.metrics.result import Floats
from brigade.metrics.stats import mean_and_interval
from brigade.report.measures import Measure
from brigade.report.read import RunData


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and the half-width of its 95 % interval (nan for one seed)."""

    mean: float
    half_width: float
    decimals: int = 2  # intervals over a few seeds are wider than two

    def __str__(self) -> str:
        """Mean and interval."""
        if np.isnan(self.half_width):
            return _rounded(self.mean, self.decimals)
        return f"{_rounded(self.mean, self.decimals)} ± {_rounded(self.half_width, self.decimals)}"


@dataclass(frozen=True)
class Summary:
    """One run; None is what cannot be known yet, or ever."""

    benchmark: str
    method: str  # or the generator of a population
    seeds: int
    task_names: tuple[str, ...]
    measures: Mapping[str, Measure]  # by name, in the order of tables
    values: Mapping[str, Estimate | None]  # by measure
    by_task: Mapping[str, Sequence[Estimate | None]]  # of the measures that tell of tasks
    trained: int  # tasks that have ended
    steps: int
    planned_steps: int
    repetitions: int = 1
    notes: Sequence[str] = field(default_factory=list)  # why something is not known

    @property
    def finished(self) -> bool:
        """Whether the last evaluation lies at the end of the last task."""
        return self.steps >= self.planned_steps


def summary(run: RunData) -> Summary:
    """Compute what the tables and the page show."""
    measures, notes = measures_of(run), list[str]()
    values, by_task = dict[str, Estimate | None](), dict[str, Sequence[Estimate | None]]()
    for name, measure in measures.items():
        values[name] = estimate(measure, measure.compute(run))
        if measure.per_task is not None:
            by_task[name] = [estimate(measure, row) for row in measure.per_task(run)]
        if values[name] is None and measure.unknown(run):
            notes.append(f"{measure.title.capitalize()}: {measure.unknown(run)}.")
    return Summary(
        benchmark=run.setting("benchmark"),
        method=run.how,
        seeds=len(run.seeds),
        task_names=tuple(run.task_names),
        measures=measures,
        values=values,
        by_task=by_task,
        trained=int((run.task_ends <= run.steps[-1]).sum()),
        steps=int(run.steps[-1]),
        planned_steps=int(run.task_ends[-1]),
        repetitions=run.repetitions,
        notes=notes,
    )


def measures_of(run: RunData) -> dict[str, Measure]:
    """The measures of a run's benchmark; names that are not installed here are left out."""
    known = registry.names("measures")
    return {name: find(name) for name in run.measures or CONTINUAL_MEASURES if name in known}


def find(name: str) -> Measure:
    """A measure by name."""
    measure = registry.get("measures", name)
    if not isinstance(measure, Measure):
        raise UserError(f"{name} is not a measure; it must be a brigade.report.measures.Measure")
    return measure


def estimate(measure: Measure, values: Floats | None) -> Estimate | None:
    """A measure's values [seed] as a mean with its interval."""
    return None if values is None else sure(values, measure.decimals)


def sure(values: Floats, decimals: int = 2) -> Estimate:
    """Of values [seed]."""
    mean, half_width = mean_and_interval(values)
    return Estimate(float(mean), float(half_width), decimals)


def _rounded(value: float, decimals: int) -> str:
    return f"{round(value, decimals) + 0.0:.{decimals}f}"  # + 0.0 makes -0.00 a plain 0.00
