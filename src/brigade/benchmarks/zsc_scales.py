"""How much work a ZSC-Eval study is: on a laptop, and in the paper."""

from __future__ import annotations

from dataclasses import dataclass


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
    evaluations: int = 20
    memory: str = "gru"  # of egos that learn with a population
    fades: bool = False  # shaped rewards fade over a run
    horizon: int = 400
    min_return: float = 10.0  # candidates that do not reach more never delivered


SMALL = Scale(
    preset="laptop",
    candidates=6,
    partners=2,
    members=3,
    met=2,
    biased=3,
    envs=16,
    candidate_steps=5e5,
    population_steps=4e5,
    ego_steps=6e5,
    alone_steps=6e5,
    cec_steps=1e6,
    cole_steps=6e5,
    archive=5,
    generation=15,
    feature_episodes=8,
    episodes=10,
    seeds=2,
    kitchens=100,
    evaluations=6,
    memory="none",
)
MEDIUM = Scale(
    preset="laptop",
    candidates=20,
    partners=6,
    members=5,
    met=4,
    biased=6,
    envs=16,
    candidate_steps=8e5,
    population_steps=8e5,
    ego_steps=2e6,
    alone_steps=1e6,
    cec_steps=4e6,
    cole_steps=2e6,
    archive=10,
    generation=25,
    feature_episodes=20,
    episodes=20,
    seeds=3,
    kitchens=1000,
    evaluations=12,
    memory="none",
)
PAPER = Scale(
    preset="paper",
    candidates=None,
    partners=None,
    members=5,
    met=4,
    biased=6,
    envs=100,
    candidate_steps=1e7,
    population_steps=1e7,
    ego_steps=5e7,
    alone_steps=1e7,
    cec_steps=1e8,
    cole_steps=5e7,
    archive=25,
    generation=25,
    feature_episodes=80,
    episodes=50,
    seeds=5,
    kitchens=4000,
    fades=True,
)
SCALES = {"small": SMALL, "medium": MEDIUM, "paper": PAPER}
