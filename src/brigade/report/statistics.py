"""Statistics of the final scores of several runs: over tasks and seeds, and against the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brigade.metrics.result import Floats
from brigade.metrics.stats import (
    Interval,
    PairedTest,
    inter_quartile_mean_interval,
    paired_test,
    probability_of_improvement,
    smallest_p,
)
from brigade.report.estimate import Estimate, Spread
from brigade.report.read import RunData
from brigade.report.summary import mean_over_seeds
from brigade.report.table import Table

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Statistics:
    """Of the scores of one run at its last evaluation."""

    mean: Estimate  # over tasks, by seed
    inter_quartile_mean: Interval
    improvement: Interval | None  # probability that the first run is better; None for the first
    paired: PairedTest | None  # first run minus this one; None for the first


def statistics(runs: Sequence[RunData]) -> list[Statistics]:
    """Statistics of every run, compared with the first where they have the same tasks."""
    return [_of_run(run, None if run is runs[0] else runs[0]) for run in runs]


def _of_run(run: RunData, first: RunData | None) -> Statistics:
    scores = final_scores(run)
    comparable = first is not None and same_tasks(first, run)
    return Statistics(
        mean_over_seeds(scores.mean(axis=1)),
        inter_quartile_mean_interval(scores),
        _improvement(first, run) if first and comparable else None,
        _paired(first, run) if first and comparable else None,
    )


def _improvement(first: RunData, run: RunData) -> Interval | None:
    """None if a run has one seed: a single pair says nothing about chance."""
    if min(len(first.seeds), len(run.seeds)) < 2:
        return None
    return probability_of_improvement(final_scores(first), final_scores(run))


def final_scores(run: RunData) -> Floats:
    """[seed, task]: scores at the last evaluation."""
    return run.score[-1].T


def same_tasks(first: RunData, run: RunData) -> bool:
    """Whether scores can be compared task by task."""
    names = ("benchmark", "env")
    settings = all(first.config.get(name) == run.config.get(name) for name in names)
    return settings and first.task_names == run.task_names


def _paired(first: RunData, run: RunData) -> PairedTest | None:
    """Of the mean over tasks, by seed; None without common seeds."""
    common = [seed for seed in first.seeds if seed in run.seeds]
    if not common:
        return None
    ours, theirs = (
        final_scores(each)[[each.seeds.index(seed) for seed in common]].mean(axis=1)
        for each in (first, run)
    )
    return paired_test(ours, theirs)


def table(labels: Sequence[str], found: Sequence[Statistics], spread: Spread = "auto") -> Table:
    """A row per run."""
    headings = ["run", "seeds", "mean score", "IQM", f"P({labels[0]} better)"]
    rows = [
        [
            label,
            str(len(each.mean.values)),
            each.mean.show(spread),
            show_interval(each.inter_quartile_mean),
            show_interval(each.improvement),
            "-" if each.paired is None else f"{round(each.paired.difference, 2) + 0.0:+.2f}",
            "-" if each.paired is None or each.paired.seeds < 2 else f"{each.paired.p:.3f}",
        ]
        for label, each in zip(labels, found, strict=True)
    ]
    return Table([*headings, f"{labels[0]} minus run", "p"], rows)


def show_interval(interval: Interval | None) -> str:
    """0.50 [0.40, 0.60]; the value alone for one seed."""
    if interval is None:
        return "-"
    value, low, high = (f"{number + 0.0:.2f}" for number in interval)
    return value if low == "nan" else f"{value} [{low}, {high}]"


def caption(first: str, found: Sequence[Statistics]) -> str:
    """What the table shows, and what its p values can show."""
    text = (
        "Scores at the last evaluation. IQM: inter-quartile mean over tasks and seeds. "
        "Square brackets: 95 % intervals by stratified bootstrap, 2,000 resamples of seeds within "
        f"tasks. P({first} better): probability that a seed of {first} scores higher than a seed "
        "of the run on a random task, ties counting half (Agarwal et al., 2021). "
        f"{first} minus run: mean difference over common seeds. p: two-sided sign-flip permutation "
        "test on these differences, paired by seed."
    )
    return f"{text} {power_note(found)}".rstrip()


def power_note(found: Sequence[Statistics]) -> str:
    """Says so if there are too few seeds for the paired test to ever be significant."""
    pairs = [each.paired.seeds for each in found if each.paired is not None]
    few = min(pairs, default=0)
    if not pairs or smallest_p(few) < SIGNIFICANT:
        return ""
    enough = next(number for number in range(1, 99) if smallest_p(number) < SIGNIFICANT)
    seeds = "common seed" if few == 1 else "common seeds"
    return (
        f"With {few} {seeds} p cannot be below {smallest_p(few):.3g}; "
        f"to reach {SIGNIFICANT} takes {enough} or more."
    )
