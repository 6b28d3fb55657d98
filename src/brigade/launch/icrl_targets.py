"""Positive controls of learning in context, and ablations that must fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brigade.launch.runs_target import Row, RunsTarget

MEASURES = ("first_episode", "last_episodes", "adaptation")
DARK_ROOM, LEVERS = "icrl/dark_room", "icrl/levers"
NOTE = (
    "Scores are shares of the optimum. A control passes at 0.85 (dark room, every seed) and 0.94 "
    "(levers: 7.5 of 8); ablations must stay below."
)


def row(name: str, benchmark: str, learner: str, **settings: Any) -> Row:
    """A run of a control."""
    return Row(name, {"benchmark": benchmark, "learner": learner, **settings})


def blind(**network: Any) -> Mapping[str, Any]:
    """Settings of a network that lacks something."""
    return {"network": network}


@dataclass(frozen=True, kw_only=True)
class Controls(RunsTarget):
    """Runs that are small as they are."""

    scales = ("small",)

    def settings(self, row: Row, scale: str) -> dict[str, Any]:
        """Those of the benchmark."""
        return dict(row.settings)

    def notes_at(self, scale: str) -> list[str]:
        """What the numbers mean."""
        return [self.note]


def controls() -> Controls:
    """Both controls with both learners, and what happens without context, marks or order."""
    no_order = blind(marks="none", positions="none")
    rows = (
        row("dark room, AD", DARK_ROOM, "ad", seeds=5),
        row("dark room, AD, blank", DARK_ROOM, "ad", **blind(blank=True)),
        row("dark room, DPT", DARK_ROOM, "dpt", seeds=5),
        row("dark room, DPT, blank", DARK_ROOM, "dpt", **blind(blank=True)),
        row("dark room, DPT, query first", DARK_ROOM, "dpt", query="first"),
        row("levers, AD", LEVERS, "ad", seeds=5),
        row("levers, DPT", LEVERS, "dpt", seeds=5),
        row("levers, AD, teammate's actions", LEVERS, "ad", **blind(teammate_actions=True)),
        row("levers, AD, blank", LEVERS, "ad", **blind(blank=True)),
        row("levers, AD, no marks", LEVERS, "ad", **blind(marks="none")),
        row("levers, AD, no marks or positions", LEVERS, "ad", **no_order),
        row("levers, DPT, query first", LEVERS, "dpt", query="first"),
    )
    return Controls(
        name="icrl/controls",
        shows="games that need a context",
        title="Positive controls of learning in context",
        rows=rows,
        measures=MEASURES,
        small={},
        note=NOTE,
    )
