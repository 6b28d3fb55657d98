"""How much work a ZSC-Eval study is: on a laptop, and in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scale:
    """How much work a study is. Steps are environment steps per policy, or per pair."""

    preset: str
    candidates: int | None  # None: all of the layout's table
    partners: int | None  # None: as many as in the paper
    members: int  # policies of a population, each at three skills
    met: int  # of them by each ego; another seed meets others
    biased: int  # biased policies in HSP's population
    envs: int  # per policy or pair
    candidate_steps: float
    population_steps: float
    ego_steps: float  # with a population
    alone_steps: float  # SP and E3T
    cec_steps: float
    cole_steps: float
    archive: int
    generation: int
    feature_episodes: int
    episodes: int  # per ego, partner and seat
    seeds: int
    kitchens: int  # generated ones, for CEC
    evaluations: int
    memory: str  # of egos that learn with a population
    fades: bool  # shaped rewards fade over a run
    horizon: int = 400
    min_return: float = 10.0  # candidates that do not reach more never delivered


# Small, medium and the paper's.
NUMBERS: Mapping[str, tuple[Any, Any, Any]] = {
    "preset": ("laptop", "laptop", "paper"),
    "candidates": (6, 20, None),
    "partners": (2, 6, None),
    "members": (3, 5, 5),
    "met": (2, 4, 4),
    "biased": (3, 6, 6),
    "envs": (16, 16, 100),
    "candidate_steps": (5e5, 8e5, 1e7),
    "population_steps": (4e5, 8e5, 1e7),
    "ego_steps": (6e5, 2e6, 5e7),
    "alone_steps": (6e5, 1e6, 1e7),
    "cec_steps": (1e6, 4e6, 1e8),
    "cole_steps": (6e5, 2e6, 5e7),
    "archive": (5, 10, 25),
    "generation": (15, 25, 25),
    "feature_episodes": (8, 20, 80),
    "episodes": (10, 20, 50),
    "seeds": (2, 3, 5),
    "kitchens": (100, 1000, 4000),
    "evaluations": (6, 12, 20),
    "memory": ("none", "none", "gru"),
    "fades": (False, False, True),
}
SMALL, MEDIUM, PAPER = (
    Scale(**dict(zip(NUMBERS, column, strict=True)))
    for column in zip(*NUMBERS.values(), strict=True)
)
SCALES = {"small": SMALL, "medium": MEDIUM, "paper": PAPER}
