"""The numbers of a run: the measures of its benchmark, per seed, then averaged over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from brigade import registry
from brigade.errors import UserError
from brigade.metrics.result import Floats
from brigade.report.estimate import Estimate
from brigade.report.measures import Measure
from brigade.report.read import RunData


@dataclass(frozen=True)
class Summary:
    """The numbers of one run; None where a measure is not known."""

    benchmark: str
    method: str  # or the generator of a population
    seeds: int
    task_names: tuple[str, ...]
    measures: Mapping[str, Measure]  # by name, in the order of tables
    values: Mapping[str, Estimate | None]  # by measure
    by_task: Mapping[str, Sequence[Estimate | None]]  # by measure, for those defined per task
    trained: int  # number of tasks whose training has ended
    steps: int
    planned_steps: int
    repetitions: int = 1
    notes: Sequence[str] = field(default_factory=list)  # why a measure is not known

    @property
    def finished(self) -> bool:
        """Whether the last evaluation is at the end of the last task."""
        return self.steps >= self.planned_steps


def summary(run: RunData) -> Summary:
    """Compute the numbers that tables and report show."""
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
        method=run.algorithm,
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
    """The measures of a run's benchmark, except those that are not installed here."""
    known = registry.names("measures")
    return {name: find(name) for name in run.measures if name in known}


def measures_of_all(summaries: Sequence[Summary]) -> dict[str, Measure]:
    """The measures of all runs by name, in the order of tables."""
    return {name: measure for each in summaries for name, measure in each.measures.items()}


def find(name: str) -> Measure:
    """A measure by name."""
    measure = registry.get("measures", name)
    if not isinstance(measure, Measure):
        raise UserError(f"{name} is not a measure; it must be a brigade.report.measures.Measure")
    return measure


def estimate(measure: Measure, values: Floats | None) -> Estimate | None:
    """The mean of a measure's values [seed], with its spread."""
    return None if values is None else mean_over_seeds(values, measure.decimals)


def mean_over_seeds(values: Floats, decimals: int = 2) -> Estimate:
    """The mean of values [seed], with its spread."""
    return Estimate(tuple(float(value) for value in values), decimals)
