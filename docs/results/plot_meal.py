"""The picture in meal.md, from the run folders beside it: python docs/results/plot_meal.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

from brigade.metrics.stats import mean_and_interval
from brigade.report.measure import summary
from brigade.report.read import read_run

HERE = Path(__file__).parent
RUNS = {
    "FT": "ft",
    "EWC": "ewc",
    "Online EWC": "online-ewc",
    "MAS": "mas",
    "L2": "l2",
    "A-GEM": "agem",
}


def main() -> None:
    figure, (over_time, plane) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, folder in RUNS.items():
        run = read_run(HERE / "meal-level-1" / folder)
        mean, half = mean_and_interval(run.score.mean(1), axis=1)
        (line,) = over_time.plot(run.steps / 1e6, mean, label=name)
        over_time.fill_between(run.steps / 1e6, mean - half, mean + half, alpha=0.2, lw=0)
        numbers = summary(run)
        assert numbers.area_gained is not None
        assert numbers.forgetting is not None
        place = (numbers.area_gained.mean, 1 - numbers.forgetting.mean)
        plane.plot(*place, "o", color=line.get_color(), label=name)
    over_time.set(xlabel="million steps", ylabel="average score over all 20 kitchens")
    over_time.legend(frameon=False)
    plane.set(xlabel="area gained over training alone", ylabel="1 - forgetting", ylim=(0, 1.05))
    plane.legend(frameon=False)
    for axes in (over_time, plane):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "meal.png", dpi=110)


if __name__ == "__main__":
    main()
