"""A table of a paper in two files: what to run, and in anchor_table.toml what was printed."""

from __future__ import annotations

from pathlib import Path

from brigade.benchmarks.published import published_in
from brigade.launch.runs_target import Row, RunsTarget

HERE = Path(__file__).parent
METHOD = f"{HERE / 'anchor.py'}:Anchor"

# What the published runs were trained with, where it differs from the benchmark's defaults.
SETTINGS = {
    "benchmark": "meal/level-1",
    "preset": "laptop",
    "tasks": 2,
    "seed": 1,
    "seeds": 1,
    "steps_per_task": 4e5,
    "ppo": {"shaping_steps": 4e5},
}
ROWS = (
    Row("fine-tuning", SETTINGS),
    Row("strength 0.01", SETTINGS | {"method": METHOD, "method_settings": {"strength": 0.01}}),
    Row("strength 0.1", SETTINGS | {"method": METHOD, "method_settings": {"strength": 0.1}}),
)

TARGET = RunsTarget(
    "tutorial/anchor",
    title="Staying close to the last task",
    shows="the tutorial's table",
    rows=ROWS,
    measures=("average_score", "forgetting"),
    published=published_in(HERE / "anchor_table.toml", "anchor"),
    small={"tasks": 2, "seeds": 1, "steps_per_task": 5e4},
    note="One seed: the differences between rows may be chance.",
)
