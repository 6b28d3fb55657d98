"""The pictures in meal.md, from the run folders beside it: python docs/results/plot_meal.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from brigade.metrics.stats import mean_and_interval
from brigade.report.read import RunData, read_run
from brigade.report.summary import summary

HERE = Path(__file__).parent
RUNS = {
    "FT": "ft",
    "EWC": "ewc",
    "Online EWC": "online-ewc",
    "MAS": "mas",
    "L2": "l2",
    "A-GEM": "agem",
    "MAS, last kitchen only": "mas-last",
    "MAS, earlier release": "mas-earlier",
}
DASHED = {
    "MAS, last kitchen only",
    "MAS, earlier release",
}  # tried to explain a published row, not rows of the table


def main() -> None:
    runs = {name: read_run(HERE / "meal-level-1" / folder) for name, folder in RUNS.items()}
    summary_picture(runs).savefig(HERE / "meal.png", dpi=110)
    kitchens_picture(runs).savefig(HERE / "meal_kitchens.png", dpi=110)
    met = {name: read_run(HERE / "meal-partners" / RUNS[name]) for name in ("FT", "L2")}
    partners_picture(met).savefig(HERE / "meal_partners.png", dpi=110)


def summary_picture(runs: dict[str, RunData]) -> Figure:
    """Average score over time, and forgetting against transfer."""
    figure, (over_time, plane) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, run in runs.items():
        seeds = run.score.mean(1)  # [eval, seed]
        style = "--" if name in DASHED else "-"
        (line,) = over_time.plot(run.steps / 1e6, seeds.mean(1), style, label=name)
        over_time.plot(run.steps / 1e6, seeds, color=line.get_color(), lw=0.5, alpha=0.5)
        numbers = summary(run)
        gained, lost = numbers.values["area_gained"], numbers.values["forgetting"]
        assert gained is not None
        assert lost is not None
        place = (gained.mean, 1 - lost.mean)
        marker = "x" if name in DASHED else "o"
        plane.plot(*place, marker, color=line.get_color(), label=name)
    over_time.set(
        xlabel="million steps", ylabel="average score over all 20 kitchens", ylim=(0, None)
    )
    over_time.legend(frameon=False)
    plane.set(xlabel="area gained over training alone", ylabel="1 - forgetting", ylim=(0, 1.05))
    plane.legend(frameon=False)
    for axes in (over_time, plane):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def kitchens_picture(runs: dict[str, RunData]) -> Figure:
    """The score of every kitchen over time, mean over seeds, one panel per method."""
    figure, grid = plt.subplots(2, 4, figsize=(10, 5), layout="constrained", sharex=True)
    for axes, (name, run) in zip(grid.flat, runs.items(), strict=True):
        scores = run.score.mean(-1).T  # [kitchen, evaluation]
        times, kitchens = run.steps / 1e6, range(1, len(scores) + 1)
        picture = axes.pcolormesh(times, kitchens, scores, vmin=0, vmax=2, shading="nearest")
        axes.set(title=name, yticks=(1, 5, 10, 15, 20))
        axes.invert_yaxis()
    figure.supxlabel("million steps")
    figure.supylabel("kitchen, in the order of learning")
    figure.colorbar(picture, ax=grid, label="score")
    return figure


def partners_picture(runs: dict[str, RunData]) -> Figure:
    """The score with every partner over time, one panel per partner."""
    figure, grid = plt.subplots(
        2, 4, figsize=(10, 4.5), layout="constrained", sharex=True, sharey=True
    )
    for name, run in runs.items():
        for partner, axes in enumerate(grid.flat):
            mean, half = mean_and_interval(run.score[:, partner], axis=1)
            axes.plot(run.steps / 1e6, mean, label=name)
            axes.fill_between(run.steps / 1e6, mean - half, mean + half, alpha=0.2, lw=0)
            axes.set(title=run.task_names[partner], ylim=(0, 1.6))
            axes.spines[["top", "right"]].set_visible(False)
    length = run.steps[-1] / 1e6 / grid.size
    for partner, axes in enumerate(grid.flat):
        axes.axvspan(partner * length, (partner + 1) * length, color="0.9", zorder=0, lw=0)
    grid.flat[0].legend(frameon=False, loc="lower right")
    figure.supxlabel("million steps")
    figure.supylabel("score with this partner")
    return figure


if __name__ == "__main__":
    main()
