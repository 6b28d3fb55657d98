"""The figures of a ZSC-Eval study: best-response proximity of every algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from brigade.metrics.result import Floats
from brigade.metrics.zsc_eval import (
    ProximityTable,
    br_proximity_table,
    expert_and_moderate,
    ranks,
)

TITLES = {
    "sp": "SP",
    "e3t": "E3T",
    "fcp": "FCP",
    "mep": "MEP",
    "trajedi": "TrajeDi",
    "hsp": "HSP",
    "cole": "COLE",
    "cec": "CEC",
    "brdiv": "BRDiv",
    "lbrdiv": "LBRDiv",
    "comedi": "CoMeDi",
}
# BR-Prox of the published runs with middle-sized populations, recomputed with every partner's own
# best response; and the mean returns of the best responses of final and of half-skilled partners.
PUBLISHED: Mapping[str, Mapping[str, float]] = {
    layout: dict(zip(("sp", "e3t", "fcp", "mep", "trajedi", "hsp", "cole"), values, strict=True))
    for layout, values in {
        "coordination_ring": (0.27, 0.60, 0.63, 0.67, 0.66, 0.62, 0.50),
        "counter_circuit": (0.09, 0.51, 0.36, 0.44, 0.43, 0.50, 0.48),
        "blocked_corridor": (0.07, 0.58, 0.15, 0.33, 0.66, 0.56, 0.68),
        "forced_coordination": (0.85, 0.83, 0.87, 0.84, 0.84, 0.86, 0.82),
        "bothway_coordination": (0.68, 0.77, 0.74, 0.67, 0.47, 0.79, 0.67),
        "asymmetric_advantages": (0.43, 0.87, 0.92, 0.93, 0.90, 0.86, 0.80),
    }.items()
}
PUBLISHED_BEST_RESPONSES: Mapping[str, tuple[float, float]] = {
    "coordination_ring": (231, 211),
    "counter_circuit": (181, 144),
    "blocked_corridor": (89, 58),
    "forced_coordination": (138, 103),
    "bothway_coordination": (203, 168),
    "asymmetric_advantages": (347, 288),
}


@dataclass(frozen=True, eq=False)
class Result:
    """How well the egos of one algorithm work with partners they never met."""

    name: str
    table: ProximityTable
    expert: float  # BR-Prox with the better half of the partners
    moderate: float
    mean_return: float
    rank: float
    published: float | None

    @property
    def title(self) -> str:
        """The algorithm's name in the paper."""
        return TITLES.get(self.name, self.name)


def results_of(
    played: Mapping[str, np.ndarray], layout: str, as_released: bool = False
) -> list[Result]:
    """The results of all algorithms in the file of a study's games."""
    best = np.asarray(played["best_responses"], np.float64)  # [partner, seat]
    names = [name for name in played if played[name].ndim == 4]
    returns = {name: played[name].mean(-1) for name in names}  # [seed, partner, seat]
    tables = {
        name: br_proximity_table(returns[name], best, as_released=as_released) for name in names
    }
    order = ranks([tables[name].value for name in names])
    expert = expert_and_moderate(best.mean(1))
    return [
        Result(
            name=name,
            table=tables[name],
            expert=part(returns[name], best, expert, as_released),
            moderate=part(returns[name], best, ~expert, as_released),
            mean_return=float(returns[name].mean()),
            rank=float(rank),
            published=PUBLISHED.get(layout, {}).get(name),
        )
        for name, rank in zip(names, order, strict=True)
    ]


def part(returns: Floats, best: Floats, partners: np.ndarray, as_released: bool) -> float:
    """BR-Prox with some of the partners; nan if there are none."""
    if not partners.any():
        return float("nan")
    return br_proximity_table(returns[:, partners], best[partners], as_released=as_released).value
