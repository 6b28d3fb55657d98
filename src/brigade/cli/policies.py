"""The verbs that look at finished runs: report, export, crossplay and watch."""

from __future__ import annotations

import argparse
import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from brigade.cli.flags import add_cache, add_run, add_trust, count, prepare_jax, verb_parser
from brigade.errors import UserError
from brigade.registry import CODE, file_and_name

if TYPE_CHECKING:
    from brigade.report.estimate import Spread


def report(words: list[str]) -> int:
    """`brigade report RUN [RUN ...]`."""
    parser = verb_parser(
        "report",
        "Print tables of one or more runs and write report.html and CSV files. With --out, also "
        "write tables and figures for a paper.",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="new folder for all files: tables as LaTeX, Markdown and CSV, figures as PDF, SVG and "
        "PNG (default: only report.html and CSV files, in RUN/report, or report for several)",
    )
    parser.add_argument(
        "--names", nargs="+", metavar="NAME", help="a name per run, for tables and legends"
    )
    parser.add_argument(
        "--interval",
        choices=("auto", "seeds", "ci", "std", "se", "none"),
        help="what to show beside means in the tables and figures of --out: lowest and highest "
        "seed, 95 %% interval (Student's t), standard deviation, standard error or nothing "
        "(default: auto, seeds if there are fewer than 5, otherwise ci)",
    )
    options = parser.parse_args(words)
    if options.interval and not options.out:
        raise UserError("--interval is for the tables and figures of --out DIR")
    print_report(options.runs, options.out, options.names, options.interval or "auto")
    return 0


def print_report(
    paths: list[Path],
    out: Path | None,
    names: list[str] | None = None,
    interval: Spread = "auto",
) -> None:
    """Print the tables and write report.html and the CSV files; with `out`, those of a paper."""
    from rich.console import Console

    from brigade.report import print_summary, read_run, write_csv, write_report
    from brigade.report.paper import check_out, named, write_paper

    folder = out or (paths[0] / "report" if len(paths) == 1 else Path("report"))
    if out:
        check_out(folder)
    elif folder.is_file():
        raise UserError(f"{folder} is a file; --out must be a folder")
    runs = [read_run(path) for path in paths]
    if names:
        runs = named(runs, names)
    print_summary(Console(), runs)
    if out:
        write_paper(runs, folder, interval)
        print(f"tables and figures: {folder}")
    else:
        write_report(runs, folder)
        write_csv(runs, folder)
    print(f"report: {folder / 'report.html'}")


def export(words: list[str]) -> int:
    """`brigade export RUN --out FILE`."""
    parser = verb_parser(
        "export", "Save the policies of a run in one file, to be used as partners or in crossplay."
    )
    add_run(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the .safetensors file to write"
    )
    parser.add_argument(
        "--task",
        type=count,
        default=None,
        help="the task whose head and parameters to use, from 1 (default: the last one trained)",
    )
    parser.add_argument(
        "--helpers",
        action="store_true",
        help="for a population: include policies trained only to help train others",
    )
    parser.add_argument(
        "--stages",
        nargs="+",
        default=["final"],
        metavar="STAGE",
        help="init, mid (half of the final return) or final; the first two need a run with "
        "--snapshots (default: final)",
    )
    parser.add_argument("--half", action="store_true", help="save half as many bytes per number")
    add_trust(parser)
    options = parser.parse_args(words)
    from brigade.cli.export import export as save

    policies = save(
        options.run,
        options.out,
        options.task,
        options.helpers,
        options.trust,
        options.stages,
        options.half,
    )
    print(f"{options.out}: {', '.join(policies.names)}")
    return 0


def crossplay(words: list[str]) -> int:
    """`brigade crossplay A B C`."""
    options, settings = crossplay_parser().parse_known_args(words)
    folder = options.out or Path(f"crossplay-{datetime.now():%Y%m%d-%H%M%S}")
    if folder.exists():
        raise UserError(f"{folder} exists already; choose another --out")
    prepare_jax(options.cache)
    print_crossplay(options, settings, folder)
    return 0


def crossplay_parser() -> argparse.ArgumentParser:
    """The flags of `brigade crossplay`; those it does not know are the environment's."""
    parser = verb_parser(
        "crossplay",
        "Play every policy with every other, in both seat orders. Settings of the environment "
        "work as in brigade run, for example --env.layout coordination_ring.",
    )
    parser.add_argument(
        "policies",
        nargs="+",
        metavar="POLICY",
        help="a policy file, FILE:MEMBER, a run folder, a name from 'brigade list partners', or "
        "path/to/file.py:Name",
    )
    parser.add_argument(
        "--benchmark", help="where to play (default: where the first policy was trained)"
    )
    parser.add_argument(
        "--task",
        type=count,
        help="task of the benchmark's stream, from 1 (default: the first policy's)",
    )
    parser.add_argument(
        "--seed", type=int, help="seed of the stream and the episodes (default: the first policy's)"
    )
    parser.add_argument(
        "--episodes", type=count, default=32, help="episodes per pair (default: 32)"
    )
    parser.add_argument("--greedy", action="store_true", help="greedy actions instead of sampling")
    parser.add_argument("--out", type=Path, help="folder to create (default: crossplay-...)")
    add_trust(parser)
    add_cache(parser)
    return parser


def print_crossplay(options: argparse.Namespace, settings: list[str], folder: Path) -> None:
    """Play all pairs, print the matrix and write its files; nothing is left if it fails."""
    from rich.console import Console

    from brigade.cli.crossplay import crossplay as play_all
    from brigade.report.crossplay import print_matrix, write_matrix

    folder.mkdir(parents=True)  # fail now rather than after all episodes
    try:
        matrix = play_all(options, settings)
        paths = write_matrix(matrix, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    print_matrix(Console(), matrix)
    for path in paths:
        print(path)


def evaluate(words: list[str]) -> int:
    """`brigade evaluate zsc_eval/LAYOUT --policy FILE`."""
    parser = verb_parser(
        "evaluate",
        "Measure the zero-shot coordination of a policy: best-response proximity (BR-Prox) with "
        "evaluation partners it never met, on both seats.",
    )
    parser.add_argument("benchmark", metavar="zsc_eval/LAYOUT", help="where to play")
    parser.add_argument(
        "--policy",
        required=True,
        metavar="FILE",
        help="a policy file (brigade export), FILE:MEMBER, a name, or path/to/file.py:Name; "
        "members of a file count as seeds",
    )
    parser.add_argument(
        "--study",
        type=Path,
        help="take the partners of this study (default: those that come with Brigade)",
    )
    parser.add_argument(
        "--episodes", type=count, default=50, help="episodes per partner and seat (default: 50)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the episodes (default: 0)")
    parser.add_argument("--greedy", action="store_true", help="greedy actions instead of sampling")
    add_cache(parser)
    options = parser.parse_args(words)
    prepare_jax(options.cache)
    from brigade.cli.evaluate import evaluate as play
    from brigade.cli.evaluate import print_evaluation

    found = play(
        options.benchmark,
        options.policy,
        options.study,
        options.episodes,
        options.seed,
        options.greedy,
    )
    print_evaluation(options.benchmark, found)
    return 0


def watch(words: list[str]) -> int:
    """`brigade watch RUN`."""
    options, settings = watch_parser().parse_known_args(words)
    prepare_jax()
    from brigade.cli.watch import save_episode, save_game

    if not Path(options.run).is_dir() and (options.benchmark or is_policy(options.run)):
        path, score = save_game(options, settings)
    else:
        if settings:
            raise UserError(f"unrecognised option {settings[0]}; see brigade watch --help")
        if options.benchmark:
            raise UserError("--benchmark is for policies; a run is filmed where it was trained")
        path, score = save_episode(options)
    print(f"{path}  (score {score:.2f})")
    return 0


def is_policy(word: str) -> bool:
    """Whether a word names a policy file or a policy in a file of code, not a run folder."""
    from brigade.partners.files import SUFFIX

    return any(file_and_name(word, suffix)[0] for suffix in (SUFFIX, CODE))


def watch_parser() -> argparse.ArgumentParser:
    """The flags of `brigade watch`; those it does not know are the environment's."""
    parser = verb_parser(
        "watch",
        "Play one episode with the policy of a run's last checkpoint, or with any policy, and save "
        "it as a GIF. For a policy, settings of the environment work as in brigade run.",
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        help="run folder; or a policy: a file, FILE:MEMBER, a name or path/to/file.py:Name",
    )
    parser.add_argument("--task", type=count, help="which task, from 1 (default: 1)")
    parser.add_argument(
        "--seed", type=int, default=None, help="which seed of the run (default: its first)"
    )
    parser.add_argument(
        "--partner",
        help="which partner, or which table of a population, by its name in the report "
        "(default: the first); for a policy, another policy for the other seats (default: itself)",
    )
    parser.add_argument(
        "--seat", help="the learner's seat, by its name in the report (default: the first)"
    )
    parser.add_argument("--benchmark", help="where a policy plays (default: where it was trained)")
    parser.add_argument("--out", type=Path, help="the .gif file (default: in RUN/report)")
    parser.add_argument("--greedy", action="store_true", help="greedy actions instead of sampling")
    add_trust(parser)
    return parser
