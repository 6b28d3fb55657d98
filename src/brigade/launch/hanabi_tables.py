"""`brigade reproduce lifelong_hanabi/...`: the pool, Tables 2, 6 and 7, and Figure 2."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from brigade.benchmarks.lifelong_hanabi import READY_MADE
from brigade.benchmarks.published import Figures, published
from brigade.errors import UserError
from brigade.launch.hanabi_measures import (
    Play,
    Start,
    after_learning,
    before_and_after,
    before_learning,
    game,
    of_method,
    start_of,
)
from brigade.launch.hanabi_pool import CROSS_PLAY, SCALES, PoolStudy
from brigade.launch.lifelong_hanabi_targets import NOTE, life, small
from brigade.launch.published_table import Cell, print_table, save
from brigade.launch.reproduce import SMALL_NOTE
from brigade.partners.pools import Pool, read_pool
from brigade.report.crossplay import Matrix, print_matrix, write_matrix
from brigade.report.estimate import Estimate
from brigade.report.summary import mean_over_seeds
from brigade.report.table import wide_console
from brigade.runs.config import Experiment, from_dict, merged
from brigade.runs.ensure import check_settings, start_or_resume
from brigade.runs.folder import read_npz

PREFIX = "lifelong_hanabi/"
TITLES = {
    "sad": "SAD",
    "sad_aux": "SAD + AUX",
    "sad_op": "SAD + OP",
    "sad_aux_op": "SAD + AUX + OP",
}
MEASURES = ("self-play", "intra-play", "inter-play")
NONE: Figures = {}
# Agents that kept learning: the pool's method, and the continual method.
CONTINUAL = {
    "IQL + ER": ("iql", "er"),
    "IQL + AUX + ER": ("iql_aux", "er"),
    "IQL + Multi-task": ("iql", "mtl"),
}
# Whether a table is of the best agents, and its published figures. Table 2 has a part of Table 7.
TABLES = {
    "table-2": (True, "lifelong_hanabi/table-7"),
    "table-6": (False, "lifelong_hanabi/table-6"),
    "table-7": (True, "lifelong_hanabi/table-7"),
}
FIGURE = "figure-2"
FULL_GAME = 25  # points of a perfect game in the paper
EPISODES = {"small": 200, "paper": 1000}


def pool(
    scale: str,
    out: Path | None,
    words: Sequence[str],
    quiet: bool,
    methods: Sequence[str] = (),
    architectures: Sequence[int] = (),
    seeds: int | None = None,
) -> Path:
    """Train a pool, play all pairs, choose streams; print and save how methods play."""
    chosen = SCALES[scale]
    changes: dict[str, Any] = {}
    if methods:
        changes["methods"] = tuple(methods)
    if architectures:
        changes["architectures"] = tuple(architectures)
    if seeds is not None:
        if seeds < 1:
            raise UserError(f"--seeds is {seeds}; it must be at least 1")
        changes["seeds"] = seeds
    folder = out or Path("reproductions") / f"lifelong-hanabi-pool-{scale}"
    study = PoolStudy(folder, replace(chosen, **changes), tuple(words))
    made = read_pool(study.run(quiet))
    cells = pool_cells(made)
    notes = [SMALL_NOTE] if scale == "small" else []
    notes.append(f"{shares(made)} The published pool has 100 agents.")
    title = f"A pool of {len(made.agents)} agents: self-play and cross-play within methods"
    print_table(title, cells, notes)
    save(folder, title, cells, notes)
    matrix = matrix_of(made)
    print_matrix(wide_console(), matrix)
    write_matrix(matrix, folder)
    return made.folder


def shares(made: Pool) -> str:
    """What the numbers of a table are."""
    return (
        f"Shares of the most points: {most_points(made)} in this game, {FULL_GAME} in the paper's."
    )


def most_points(made: Pool) -> int:
    """The score of a perfect game."""
    return game(made).variant.best_score


def pool_cells(made: Pool) -> list[Cell]:
    """Self-play and cross-play within every method."""
    most = most_points(made)
    methods = dict.fromkeys(agent.method for agent in made.agents)
    inter = [agent.name for agent in made.agents]
    figures = published("lifelong_hanabi/pool")
    cells = list[Cell]()
    for method in methods:
        play = of_method(made, method, inter, best=False)
        cells += play_cells(method, play, most, figures.get(method, {}))[:2]
    return cells


def matrix_of(made: Pool) -> Matrix:
    """The pool's cross-play."""
    played = read_npz(made.folder / CROSS_PLAY)
    names = [agent.name for agent in made.agents]
    return Matrix(names, played["score"], played["returns"], "Hanabi")


def pool_of(words: Sequence[str]) -> tuple[Pool, list[str]]:
    """The pool that --env.pool names, or the ready-made one, and the other words."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--env.pool", dest="pool", default=READY_MADE)
    try:
        found, rest = parser.parse_known_args(list(words))
    except argparse.ArgumentError as error:
        raise UserError(f"{error.argument_name} needs a value") from error
    return read_pool(found.pool), rest


def continual_run(
    made: Pool, folder: Path, name: str, scale: str, words: Sequence[str]
) -> tuple[Start, Path, Experiment]:
    """Where an agent of the pool goes on learning."""
    method, continual = CONTINUAL[name]
    start = start_of(made, method)
    settings = life("hard", continual, "adam", len(start.partners))
    settings["env"] = start.settings(made)
    if scale == "small":
        # Evaluations only at the ends: the tables do not need more.
        quick = {"preset": "laptop", "seeds": 1, "few_shot_updates": 0, "eval_every": 10**6}
        settings = merged(merged(settings, quick), small(settings))
    else:
        settings = merged(settings, {"preset": "paper"})
    path = folder / name.lower().replace(" + ", "-").replace(" ", "-")
    return start, path, from_dict(settings, words)


def table(name: str, scale: str, out: Path | None, words: Sequence[str], quiet: bool) -> Path:
    """Table 2, 6 or 7: methods of the pool, and agents that kept learning."""
    best, key = TABLES[name]
    figures = {**published(key), **published("lifelong_hanabi/learners")}
    made, rest = pool_of(words)
    folder = out or Path("reproductions") / f"lifelong-hanabi-{name}-{scale}"
    runs = {row: continual_run(made, folder, row, scale, rest) for row in CONTINUAL}
    check_settings([path for _, path, _ in runs.values()], [each for *_, each in runs.values()])
    inter = made.stream("hard").inter
    present = {agent.method for agent in made.agents}
    cells, most = [], most_points(made)
    for method, title in TITLES.items():
        if method in present:
            play = of_method(made, method, inter, best)
            cells += play_cells(title, play, most, figures[title])
    for number, (row, (start, path, experiment)) in enumerate(runs.items(), start=1):
        if not quiet:
            print(f"[{number}/{len(runs)}] {row}", flush=True)
        start_or_resume(path, experiment, quiet)
        play = after_learning(made, start, path, EPISODES[scale])
        cells += play_cells(row, play, most, figures[row])
        cells += play_cells(f"{row}, before", before_learning(made, start), most)
    kind = "the best agent of each method" if best else "the mean over each method's agents"
    title = f"Self-play, intra-play and inter-play, {kind} (Table {name[-1]})"
    missing = [title for method, title in TITLES.items() if method not in present]
    notes = [SMALL_NOTE] if scale == "small" else []
    notes.append(f"{shares(made)} {NOTE}")
    if missing:
        notes.append(f"Not in this pool: {', '.join(missing)}.")
    print_table(title, cells, notes)
    return save(folder, title, cells, notes)


def play_cells(row: str, play: Play, most: int, figures: Figures = NONE) -> list[Cell]:
    """A row of a table for each of self-play, intra-play and inter-play, as shares of the most."""
    return [
        Cell(row, measure, known(values / most), figures.get(measure))
        for measure, values in zip(MEASURES, play, strict=True)
    ]


def known(values: np.ndarray) -> Estimate:
    """The mean over agents or seeds that have a value."""
    return mean_over_seeds(values[~np.isnan(values)])


def figure(scale: str, out: Path | None, words: Sequence[str], quiet: bool) -> Path:
    """Figure 2: cross-play of a learner and its partners, before and after learning."""
    made, rest = pool_of(words)
    folder = out or Path("reproductions") / f"lifelong-hanabi-{FIGURE}-{scale}"
    start, path, experiment = continual_run(made, folder, "IQL + ER", scale, rest)
    check_settings([path], [experiment])
    start_or_resume(path, experiment, quiet)
    played = before_and_after(made, start, path, EPISODES[scale])
    for when, (names, score, returns) in played.items():
        title = f"Hanabi, {when} a life with {len(start.partners)} partners"
        matrix = Matrix(names, score, returns, title)
        print_matrix(wide_console(), matrix)
        target = folder / when
        target.mkdir(exist_ok=True)
        write_matrix(matrix, target)
    return folder


def reproduce(name: str, scale: str, out: Path | None, words: Sequence[str], quiet: bool) -> Path:
    """Tables 2, 6 and 7, and Figure 2, by the name of the target."""
    short = name.removeprefix(PREFIX)
    return (
        figure(scale, out, words, quiet)
        if short == FIGURE
        else table(short, scale, out, words, quiet)
    )
