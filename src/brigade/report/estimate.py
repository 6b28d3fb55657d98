"""A mean over seeds and its spread: single seeds while there are few, then an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from brigade.metrics.stats import mean_and_interval

# Fewer seeds are shown one by one: Student's interval of two is 13 standard errors wide each way.
FEW = 5
Spread: TypeAlias = Literal["auto", "seeds", "ci", "std", "se", "none"]
SPREADS: dict[Spread, str] = {  # what is shown beside a mean
    "seeds": "the lowest and the highest seed",
    "ci": "half the width of the 95 % confidence interval of the mean over seeds (Student's t)",
    "std": "the standard deviation over seeds",
    "se": "the standard error of the mean over seeds",
    "none": "",
}


def spread_for(seeds: int, asked: Spread = "auto") -> Spread:
    """What to show beside the mean of so many seeds."""
    if seeds < 2:
        return "none"
    if asked == "auto":
        return "seeds" if seeds < FEW else "ci"
    return asked


@dataclass(frozen=True)
class Estimate:
    """Values of single seeds (or of policies, or episodes), shown as their mean and spread."""

    values: tuple[float, ...]
    decimals: int = 2  # more would mean nothing: seeds differ by more than that

    @property
    def mean(self) -> float:
        """The mean; nan if there are no values."""
        return float(np.mean(self.values)) if self.values else float("nan")

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval (Student's t); nan for fewer than two values."""
        return float(mean_and_interval(self.values).half_width) if self.values else float("nan")

    @property
    def std(self) -> float:
        """The standard deviation; nan for fewer than two values."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else float("nan")

    @property
    def standard_error(self) -> float:
        """The standard error of the mean; nan for fewer than two values."""
        return self.std / max(len(self.values), 1) ** 0.5

    @property
    def numbers(self) -> dict[str, float]:
        """Mean and all spreads, the lowest and the highest value, as the columns of CSV files."""
        return {
            "mean": self.mean,
            "std": self.std,
            "standard_error": self.standard_error,
            "half_width": self.half_width,
            "min": min(self.values),
            "max": max(self.values),
        }

    def bounds(self, spread: Spread = "auto") -> tuple[float, float]:
        """The lower and upper end of what is shown beside the mean; nan if nothing is."""
        shown = spread_for(len(self.values), spread)
        if shown == "seeds":
            return min(self.values), max(self.values)
        half = {"ci": self.half_width, "std": self.std, "se": self.standard_error}
        away = half.get(shown, float("nan"))
        return self.mean - away, self.mean + away

    def __str__(self) -> str:
        """Mean and spread: 0.80 (0.71 to 0.89) for few seeds, 0.80 ± 0.05 for more."""
        return self.show()

    def show(self, spread: Spread = "auto") -> str:
        """Mean and spread as text; a dash if the mean is not known."""
        if np.isnan(self.mean):
            return "-"
        mean, shown = self._rounded(self.mean), spread_for(len(self.values), spread)
        low, high = self.bounds(spread)
        if shown == "none":
            return mean
        if shown == "seeds":
            return f"{mean} ({self._rounded(low)} to {self._rounded(high)})"
        return f"{mean} ± {self._rounded(high - self.mean)}"

    def _rounded(self, value: float) -> str:
        return f"{round(value, self.decimals) + 0.0:.{self.decimals}f}"  # + 0.0 removes -0.00
