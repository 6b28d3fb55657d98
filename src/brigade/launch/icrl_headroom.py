"""Headroom: what adapting to a test teammate of ICRL4AHT could gain at all.

For every kitchen and teammate the mean return of a random ego, of one that stays where it is, and
of a best response that was trained with that very teammate. Adaptation can show only where the best
response is clearly better than the random ego.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np

from brigade.benchmarks.icrl4aht import TRACK_1, TRACK_2, TrackSettings, with_planes
from brigade.benchmarks.overcooked_v2 import RuleSettings
from brigade.envs.overcooked_v2 import LAYOUTS, task_from_kitchen
from brigade.errors import UserError
from brigade.launch.stage import Computation, Run, Runs
from brigade.launch.target import Plan, Request, Target, small_note, with_flags
from brigade.metrics.icrl4aht import headroom
from brigade.metrics.record import axes_name
from brigade.partners.cast import cast_of
from brigade.registry import unknown_name
from brigade.report.table import Cell, Table, as_bytes, wide_console
from brigade.runs.config import Experiment, from_dict
from brigade.runs.folder import npz_bytes, read_npz, write_atomically
from brigade.train.crossplay import play_all

ALL_LAYOUTS = (*TRACK_1, *TRACK_2.values(), *TRACK_2)
EGOS = ("random", "static")
PLAYED = "returns.npz"
KEYS = ("random", "static", "best_response", "headroom")
MARK = "*"
LEAST = 5.0  # points of return: below, nothing an ego does can show
NOTE = (
    "Mean returns over episodes, the ego on seat 0. Best responses were trained for a short time, "
    "so theirs are lower bounds. * marks teammates with less than 5 points between best response "
    "and random ego: with them no adaptation can show."
)


@dataclass(frozen=True)
class Scale:
    """How much is trained and played."""

    layouts: tuple[str, ...] = ALL_LAYOUTS
    steps: float = 3e5  # of every best response
    episodes: int = 50  # of an ego beside a teammate
    horizon: int = 100
    instances: int = 5  # of every family


SCALES: Mapping[str, Scale] = {
    "small": Scale(("cramped_room_down", "test_time_wide"), 1e5, 20),
    "medium": Scale(),
    "paper": Scale(steps=1e7, episodes=100),
}


@dataclass(frozen=True)
class Headroom(Target):
    """The table of all kitchens and test teammates."""

    about = (
        "Train a best response to every test teammate of ICRL4AHT, and compare it with a random "
        "ego and one that stays."
    )
    scales: ClassVar[Sequence[str]] = tuple(SCALES)

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """--layouts, --horizon, --instances, --episodes, --as-released."""
        parser.add_argument("--layouts", nargs="+", metavar="NAME", help="kitchens (default: all)")
        parser.add_argument("--horizon", type=int, help="length of an episode (default: 100)")
        parser.add_argument(
            "--instances", type=int, metavar="N", help="teammates of each family (default: 5)"
        )
        parser.add_argument(
            "--episodes", type=int, metavar="N", help="episodes of an ego beside a teammate"
        )
        parser.add_argument(
            "--as-released", action="store_true", help="teammates as in the public release"
        )

    def steps(self, scale: str) -> float:
        """Of all best responses."""
        chosen = SCALES[scale]
        return chosen.steps * len(chosen.layouts) * 4 * chosen.instances

    def plan(self, request: Request) -> Plan:
        """Best responses, then the games of the other egos."""
        scale = with_flags(SCALES[request.scale], request.flags)
        for layout in scale.layouts:
            if layout not in LAYOUTS:
                raise UserError(unknown_name("layout", layout, LAYOUTS))
        how: Any = "as_released" if request.flags.get("as_released") else "by_sight"
        try:
            settings = TrackSettings(
                horizon=scale.horizon, instances=scale.instances, teammates=how
            )
        except ValueError as error:
            raise UserError(str(error)) from error
        runs = [
            Run(
                f"best responses in {layout}",
                request.folder / "best_responses" / layout,
                partial(best_responses, layout, scale, settings, request.words),
            )
            for layout in scale.layouts
        ]
        played = Computation(
            "random and static egos",
            request.folder / "egos",
            {"layouts": list(scale.layouts), "episodes": scale.episodes, "how": how}
            | {"horizon": scale.horizon, "instances": scale.instances},
            (),
            partial(play_egos, scale, settings),
        )
        return Plan(
            (Runs("best responses", runs), played),
            partial(conclude, request, scale, settings, [run.path for run in runs]),
        )


def best_responses(
    layout: str, scale: Scale, settings: TrackSettings, words: Sequence[str]
) -> Experiment:
    """One run per kitchen: a seed per teammate."""
    names = settings.names(layout)
    given: dict[str, Any] = {
        "benchmark": "icrl4aht/ego",
        "preset": "laptop",
        "env": {"layout": layout, "horizon": scale.horizon},
        "partners": list(names),
        "partners_of_seed": list(names),
        "seats": ["0"],
        "seeds": len(names),
        "num_steps": scale.horizon,
        "steps_per_task": scale.steps,
        "eval_every": 1_000_000,
        "eval_episodes": scale.episodes,
        "ppo": {"shaping_steps": 2 * scale.steps},
    }
    return from_dict(given, words)


def play_egos(scale: Scale, settings: TrackSettings, folder: Path) -> None:
    """Returns of egos that learn nothing [layout, ego, teammate, episode]."""
    found = []
    for layout in scale.layouts:
        kitchen = LAYOUTS[layout]
        env = with_planes(RuleSettings(horizon=scale.horizon).env([kitchen]))
        task = task_from_kitchen(kitchen)
        egos, teammates = cast_of(EGOS, env), cast_of(settings.names(layout), env)
        played = play_all(env, task, egos, teammates, scale.episodes, jax.random.key(0))
        order = [teammates.names.index(name) for name in settings.names(layout)]
        rows = [egos.names.index(name) for name in EGOS]
        found.append(played.returns[rows][:, order])
    write_atomically(folder / PLAYED, npz_bytes({"returns": np.stack(found)}))


def of_best_responses(run: Path) -> np.ndarray:
    """The returns of a run's last evaluation [seed, episode]: of each seed with its teammate."""
    arrays = read_npz(run / "returns.npz")
    axes = arrays[axes_name("returns")].tolist()
    last = np.moveaxis(arrays["returns"], [axes.index("eval"), axes.index("seed")], [0, 1])[-1]
    return np.asarray(last.reshape(len(last), -1))


def conclude(request: Request, scale: Scale, settings: TrackSettings, runs: Sequence[Path]) -> Path:
    """Print the table, and write it as Markdown, CSV and JSON."""
    egos = read_npz(request.folder / "egos" / PLAYED)["returns"].mean(-1)
    rows, values = [], []
    for layout, run, (random, static) in zip(scale.layouts, runs, egos, strict=True):
        best = of_best_responses(run).mean(-1)
        for name, *means in zip(settings.names(layout), random, static, best, strict=True):
            room = headroom(means[2], means[0])
            marked = f"{room:.1f}{MARK if room < LEAST else ''}"
            rows.append([layout, name, *(Cell(f"{mean:.1f}") for mean in means), Cell(marked)])
            numbers = dict(zip(KEYS, (float(x) for x in (*means, room)), strict=True))
            values.append({"layout": layout, "teammate": name, **numbers})
    table = Table(
        ["kitchen", "teammate", *EGOS, "best response", "headroom"],
        rows,
        title=f"Headroom beside test teammates, games of {scale.horizon} steps",
        notes=[*small_note(request.scale), NOTE],
        names=2,
        grouped=True,
    )
    table.to_terminal(wide_console())
    path = request.folder / "table.md"
    lines = [f"# {table.title}", "", *table.notes, "", table.to_markdown()]
    write_atomically(path, as_bytes("\n".join(lines)))
    write_atomically(request.folder / "table.csv", table.to_csv())
    write_atomically(request.folder / "table.json", json.dumps(values, indent=2).encode())
    return path


HEADROOM = Headroom("icrl4aht/headroom", shows="what adapting can gain")
