"""The verb sweep, and the flags that say where runs are done."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brigade.cli.flags import (
    Parser,
    add_config,
    add_run_flags,
    count,
    prepare_jax,
    read_config,
    real,
    run_flag_words,
    verb_parser,
)
from brigade.errors import MachineError, UserError

if TYPE_CHECKING:
    from brigade.launch import Workers

DESCRIPTION = """\
Do one run for every value of a setting, and compare the results.

Any setting of brigade run can be swept, and any other can be given as a flag
for all runs (see brigade run --help). With several --over, all combinations are
run. A value that is a list is quoted: --over network.hidden "64 64" "256 256"."""
EPILOG = """\
The same command continues a stopped sweep: finished runs are not done again,
and values may be added. Every run is a run folder like that of brigade run. At
the end the folder has table.md, table.csv and a figure (png, svg, pdf).

examples:
  brigade sweep meal/level-1 --method ewc \\
      --over method-settings.coefficient 1e6 1e7 1e8 --seeds 3 --jobs 2
  brigade sweep meal/level-1 --over method ft ewc mas --over ppo.epochs 4 8
  brigade sweep meal/level-1 --over method ft ewc --cluster --gpus-per-run 1"""


def sweep(words: list[str]) -> int:
    """`brigade sweep BENCHMARK --over SETTING VALUE ...`."""
    from brigade.launch.sweep_plan import make_sweep, take_over

    parser = sweep_parser()
    if any(word in ("-h", "--help") for word in words):
        parser.print_help()
        return 0
    over, rest = take_over(words)
    options, settings = parser.parse_known_args(rest)
    workers = make_workers(options, run_flag_words(options))
    prepare_jax(options.cache)
    from brigade.launch.sweep import run_sweep

    tree = read_config(options)
    if options.gpus_per_run and "--preset" not in settings and "preset" not in tree:
        settings = [*settings, "--preset", "paper"]  # auto would ask this machine, not the nodes
    planned = make_sweep(tree, settings, over, options.out)
    try:
        failed = run_sweep(planned, workers, options.quiet, options.baselines)
    except KeyboardInterrupt:
        again = shlex.join(["brigade", "sweep", *words])
        raise KeyboardInterrupt(f"stopped; continue with: {again}") from None
    finish(planned, words, options.quiet)
    if failed:
        raise MachineError(
            f"{len(failed)} of {len(planned.runs)} runs failed; the same command tries them again: "
            + "; ".join(f"{name}: {why}" for name, why in failed.items())
        )
    return 0


def sweep_parser() -> Parser:
    """The flags of `brigade sweep`; those it does not know are settings."""
    parser = verb_parser("sweep", DESCRIPTION)
    parser.usage = (
        "brigade sweep BENCHMARK --over SETTING VALUE VALUE ...\n"
        "                     [--over ...] [flags and settings of brigade run]"
    )
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--over",
        nargs="+",
        metavar=("SETTING", "VALUE"),
        help="a setting of brigade run without its dashes, and its values",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the sweep (default: sweeps/...)"
    )
    add_config(parser)
    add_where(parser)
    add_run_flags(parser)
    return parser


def finish(planned: Any, words: list[str], quiet: bool) -> None:
    """Write the table and the figure of the runs that have numbers, and print the table."""
    from brigade.launch.sweep_figure import write_figure
    from brigade.launch.sweep_table import print_outcome, read_outcome, write_tables
    from brigade.report.table import wide_console

    outcome = read_outcome(planned)
    if not outcome.known:
        return
    paths = write_tables(outcome, planned.folder, words) + write_figure(outcome, planned.folder)
    if quiet:
        return
    print_outcome(wide_console(), outcome)
    for path in paths:
        print(path)


# --- where runs are done: also for reproduce ---


def add_where(parser: Parser) -> None:
    """The flags --jobs, --cluster and what belongs to it."""
    parser.add_argument(
        "--jobs", type=count, metavar="N", help="runs in parallel on this machine (default: 1)"
    )
    parser.add_argument(
        "--cluster",
        nargs="?",
        const="auto",
        metavar="ADDRESS",
        help="do the runs on a Ray cluster: the one this machine is part of, the one at "
        "HOST:PORT, or local for all CPUs and GPUs of this machine (pip extra: cluster)",
    )
    parser.add_argument(
        "--cpus-per-run", type=amount, metavar="N", help="CPUs of a run on a cluster (default: 1)"
    )
    parser.add_argument(
        "--gpus-per-run",
        type=amount,
        metavar="N",
        help="GPUs of a run on a cluster; 0.5 for two runs per GPU (default: 0)",
    )
    parser.add_argument(
        "--retries",
        type=partial(count, least=0),
        metavar="N",
        help="how many times a run whose node dies is continued on another (default: 3)",
    )


def make_workers(
    options: argparse.Namespace, flags: Sequence[str]
) -> AbstractContextManager[Workers]:
    """The processes or the cluster that are asked for, whose runs get these flags.

    Call it before JAX uses a device.
    """
    from brigade.launch.processes import Processes, leave_memory

    check_where(options)
    if options.cluster is None:
        jobs = options.jobs or 1
        return Processes(jobs, flags, leave_memory(jobs))
    from brigade.launch.cluster import Cluster, Needs

    given = {"cpus": options.cpus_per_run, "gpus": options.gpus_per_run, "retries": options.retries}
    needs = Needs(**{name: value for name, value in given.items() if value is not None})
    return Cluster(options.cluster, needs, flags, leave_memory(1))


def check_where(options: argparse.Namespace) -> None:
    """Refuse flags of a cluster without one, and --jobs with one."""
    for name in ("cpus_per_run", "gpus_per_run", "retries"):
        if options.cluster is None and getattr(options, name) is not None:
            flag = "--" + name.replace("_", "-")
            raise UserError(f"{flag} is for a cluster; add --cluster, or remove it")
    if options.cluster is not None and options.jobs is not None:
        raise UserError("--jobs is for this machine; on a cluster --cpus-per-run decides")


def amount(text: str) -> float:
    """A number of CPUs or GPUs: whole, or a part of one."""
    number = real(text)
    if not 0 <= number < 1e6 or (number > 1 and number != int(number)):
        raise argparse.ArgumentTypeError(f"{text} must be 0, a part of 1, or a whole number")
    return number
