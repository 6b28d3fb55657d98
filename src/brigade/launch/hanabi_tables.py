"""`brigade reproduce lifelong_hanabi/...`: the pool, Tables 2, 6 and 7, and Figure 2."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from brigade.benchmarks.lifelong_hanabi import READY_MADE
from brigade.benchmarks.lifelong_hanabi_pool import Pool, Stream, read_pool
from brigade.benchmarks.published import Figures, published
from brigade.errors import UserError
from brigade.launch.comparison import Comparison, print_and_save
from brigade.launch.cost import steps_of_run
from brigade.launch.hanabi_measures import (
    Play,
    after_learning,
    before_and_after,
    before_learning,
    game,
    of_method,
    settings_of,
    start_of,
)
from brigade.launch.hanabi_pool import CROSS_PLAY, METHODS, SCALES, NewPool
from brigade.launch.papers import read_paper, targets_of
from brigade.launch.runs_target import Row
from brigade.launch.stage import Run, Runs
from brigade.launch.target import Plan, Request, Target, small_note, with_flags
from brigade.report.crossplay import Matrix, print_matrix, write_matrix
from brigade.report.estimate import Estimate
from brigade.report.summary import mean_over_seeds
from brigade.report.table import wide_console
from brigade.runs.config import from_dict, merged
from brigade.runs.folder import read_npz

TITLES = {
    "sad": "SAD",
    "sad_aux": "SAD + AUX",
    "sad_op": "SAD + OP",
    "sad_aux_op": "SAD + AUX + OP",
}
MEASURES = ("self-play", "intra-play", "inter-play")
# Agents that kept learning: the pool's method, and the row of Figure 3 they learn like.
CONTINUAL = {
    "IQL + ER": ("iql", "ER"),
    "IQL + AUX + ER": ("iql_aux", "ER"),
    "IQL + Multi-task": ("iql", "Multi-Task"),
}
PAGE = "lifelong_hanabi.md"  # in docs/results
FULL_GAME = 25  # points of a perfect game in the paper
EPISODES = {"small": 200, "paper": 1000}


# --- the pool ---


@dataclass(frozen=True)
class PoolTarget(Target):
    """A pool of agents, and streams of partners chosen from it."""

    about = (
        "Train a pool of Hanabi agents in self-play, play all pairs and choose streams of partners."
    )
    result = "pool"

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Which agents the pool has."""
        few = len(SCALES["small"].methods)
        parser.add_argument(
            "--methods",
            nargs="+",
            metavar="NAME",
            help=f"some of {', '.join(METHODS)} (default: all, at the small scale {few} of them)",
        )
        parser.add_argument(
            "--architectures",
            nargs="+",
            type=int,
            metavar="N",
            help="some of 1 to 5, the paper's Table 3 (default: all, at the small scale 1 and 4)",
        )
        parser.add_argument("--seeds", type=int, help="agents per method and architecture")

    def plan(self, request: Request) -> Plan:
        """The runs of all agents, then cross-play."""
        scale = with_flags(SCALES[request.scale], request.flags)
        new = NewPool(request.folder, scale, request.words)
        return Plan(new.stages(), partial(conclude_pool, new, request))

    def steps(self, scale: str) -> float:
        """Of all agents."""
        return NewPool(Path(), SCALES[scale]).steps()


def conclude_pool(new: NewPool, request: Request) -> Path:
    """Print and save how the methods of a pool play; returns the pool's folder."""
    made = read_pool(new.pool)
    note = f"{shares(made)} The published pool has 100 agents."
    title = f"A pool of {len(made.agents)} agents: self-play and cross-play within methods"
    print_and_save(request.folder, title, compare_pool(made), [*small_note(request.scale), note])
    played = read_npz(made.folder / CROSS_PLAY)
    names = [agent.name for agent in made.agents]
    show_matrix(Matrix(names, played["score"], played["returns"], "Hanabi"), request.folder)
    return made.folder


def show_matrix(matrix: Matrix, folder: Path) -> None:
    """Print and save cross-play."""
    print_matrix(wide_console(), matrix)
    folder.mkdir(exist_ok=True)
    write_matrix(matrix, folder)


def shares(made: Pool) -> str:
    """What the numbers of a table are."""
    return (
        f"Shares of the most points: {most_points(made)} in this game, {FULL_GAME} in the paper's."
    )


def most_points(made: Pool) -> int:
    """The score of a perfect game."""
    return game(made).variant.best_score


def compare_pool(made: Pool) -> list[Comparison]:
    """Self-play and cross-play within every method."""
    most, figures = most_points(made), published("lifelong_hanabi/pool")
    everyone = [agent.name for agent in made.agents]
    compared = list[Comparison]()
    for method in dict.fromkeys(agent.method for agent in made.agents):
        play = of_method(made, method, everyone, best=False)
        compared += compare_play(method, play, most, figures)[:2]
    return compared


# --- agents of a pool that keep learning ---


@dataclass(frozen=True)
class Learner:
    """An agent of a pool that keeps learning, and its run."""

    name: str
    start: Stream
    run: Run


@dataclass(frozen=True, kw_only=True)
class LearnersTarget(Target):
    """What compares agents of a pool with those of them that kept learning."""

    learners: Sequence[str]  # names in CONTINUAL
    conclude: Callable[[Pool, Sequence[Learner], Request], Path]

    about = "Compare agents of a pool with agents that kept learning. --env.pool names the pool."
    result = "results"

    def plan(self, request: Request) -> Plan:
        """One run per learner."""
        made, words = pool_of(request.words)
        learners = [
            learner(made, request.folder, name, request.scale, words) for name in self.learners
        ]
        runs = Runs("runs", [each.run for each in learners])
        return Plan((runs,), partial(self.conclude, made, learners, request))

    def steps(self, scale: str) -> float:
        """Of all learners."""
        preset = {"preset": "laptop", "seeds": 1} if scale == "small" else {"preset": scale}
        return len(self.learners) * steps_of_run(merged(life("ER").settings, preset))


def pool_of(words: Sequence[str]) -> tuple[Pool, list[str]]:
    """The pool that --env.pool names, or the ready-made one, and the other words."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--env.pool", dest="pool", default=READY_MADE)
    try:
        found, rest = parser.parse_known_args(list(words))
    except argparse.ArgumentError as error:
        raise UserError(f"{error.argument_name} needs a value") from error
    return read_pool(found.pool), rest


def learner(made: Pool, folder: Path, name: str, scale: str, words: Sequence[str]) -> Learner:
    """Where an agent of the pool goes on learning."""
    method, like = CONTINUAL[name]
    start, row = start_of(made, method), life(like)
    settings = merged(row.settings, {"env": settings_of(made, start)})
    if scale == "small":
        # Evaluations only at the ends: the tables do not need more.
        quick = {"preset": "laptop", "seeds": 1, "few_shot_updates": 0, "eval_every": 10**6}
        settings = merged(merged(settings, quick), row.small)
    else:
        settings = merged(settings, {"preset": scale})
    path = folder / name.lower().replace(" + ", "-").replace(" ", "-")
    return Learner(name, start, Run(name, path, partial(from_dict, settings, words)))


def life(name: str) -> Row:
    """A row of Figure 3: a method on the hard stream."""
    rows = targets_of("lifelong_hanabi")["lifelong_hanabi/figure-3"].rows
    return next(row for row in rows if row.name == name)


@dataclass(frozen=True)
class PlayTable:
    """Table 2, 6 or 7: self-play, intra-play and inter-play before and after learning."""

    number: int
    best: bool  # agent of each method, or the mean over them
    published: Mapping[str, Figures]

    def __call__(self, made: Pool, learners: Sequence[Learner], request: Request) -> Path:
        """Print and save the table."""
        compared = [*self.compare_pool(made), *self.compare_learners(made, learners, request.scale)]
        kind = (
            "the best agent of each method" if self.best else "the mean over each method's agents"
        )
        title = f"Self-play, intra-play and inter-play, {kind} (Table {self.number})"
        notes = [f"{shares(made)} {read_paper('lifelong_hanabi')['texts']['pool']}"]
        present = {agent.method for agent in made.agents}
        if missing := [title for method, title in TITLES.items() if method not in present]:
            notes.append(f"Not in this pool: {', '.join(missing)}.")
        return print_and_save(request.folder, title, compared, [*small_note(request.scale), *notes])

    def compare_pool(self, made: Pool) -> list[Comparison]:
        """The rows of the pool's methods."""
        inter, most = made.stream("hard").inter, most_points(made)
        present, compared = {agent.method for agent in made.agents}, list[Comparison]()
        for method, title in TITLES.items():
            if method in present:
                play = of_method(made, method, inter, self.best)
                compared += compare_play(title, play, most, self.published)
        return compared

    def compare_learners(
        self, made: Pool, learners: Sequence[Learner], scale: str
    ) -> list[Comparison]:
        """The rows of agents after learning and before."""
        most, compared = most_points(made), list[Comparison]()
        for each in learners:
            after = after_learning(made, each.start, each.run.path, EPISODES[scale])
            compared += compare_play(each.name, after, most, self.published)
            before = before_learning(made, each.start)
            compared += compare_play(f"{each.name}, before", before, most, self.published)
        return compared


def compare_play(
    row: str, play: Play, most: int, published: Mapping[str, Figures]
) -> list[Comparison]:
    """A row of a table for each of self-play, intra-play and inter-play, as shares of the most."""
    figures = published.get(row, {})
    return [
        Comparison(row, measure, known(values / most), figures.get(measure))
        for measure, values in zip(MEASURES, play, strict=True)
    ]


def known(values: np.ndarray) -> Estimate:
    """The mean over agents or seeds that have a value."""
    return mean_over_seeds(values[~np.isnan(values)])


def print_matrices(made: Pool, learners: Sequence[Learner], request: Request) -> Path:
    """Figure 2: cross-play of a learner and its partners before and after, each in its folder."""
    (one,) = learners
    played = before_and_after(made, one.start, one.run.path, EPISODES[request.scale])
    for when, (names, score, returns) in played.items():
        title = f"Hanabi, {when} a life with {len(one.start.partners)} partners"
        show_matrix(Matrix(names, score, returns, title), request.folder / when)
    return request.folder


def play_table(number: int, shows: str, best: bool, printed: int, recorded: str = "") -> Target:
    """A table whose figures of the pool are printed in that or another table."""
    figures = published(f"lifelong_hanabi/table-{printed}")
    conclude = PlayTable(number, best, {**figures, **published("lifelong_hanabi/learners")})
    name, learners = f"lifelong_hanabi/table-{number}", tuple(CONTINUAL)
    return LearnersTarget(name, shows, recorded=recorded, learners=learners, conclude=conclude)


def pool() -> PoolTarget:
    """The pool."""
    return PoolTarget("lifelong_hanabi/pool", "a pool of agents and their play", 60.0, PAGE)


def of_pool() -> list[Target]:
    """What is made from a pool. Table 2 has a part of Table 7."""
    name, shows = "lifelong_hanabi/figure-2", "cross-play before and after"
    one = ["IQL + ER"]
    return [
        play_table(2, "best agents and those who learn", True, printed=7, recorded=PAGE),
        play_table(6, "the same, mean over agents", False, printed=6),
        play_table(7, "the same as table-2", True, printed=7),
        LearnersTarget(name, shows, recorded=PAGE, learners=one, conclude=print_matrices),
    ]
