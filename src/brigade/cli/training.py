"""The verbs that train: run, population, resume and reproduce."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from brigade.cli.errors import OUT_OF_MEMORY, device_error, print_warning
from brigade.cli.flags import (
    RUN_FLAGS,
    Parser,
    add_cache,
    add_run,
    add_run_flags,
    add_trust,
    count,
    prepare_jax,
    read_experiment,
    verb_parser,
    wandb_settings,
)
from brigade.cli.policies import print_report
from brigade.cli.sweeps import add_where, check_where, make_workers
from brigade.errors import MachineError, UserError
from brigade.registry import names

STUDIES = "zsc_eval/"  # targets of `brigade reproduce` that are studies
HANABI_POOL = "lifelong_hanabi/pool"
HANABI_STUDIES = (
    HANABI_POOL,
    *(f"lifelong_hanabi/{name}" for name in ("table-2", "table-6", "table-7", "figure-2")),
)
POOL_METHODS = (
    "some of iql, iql_aux, iql_op, vdn, vdn_aux, vdn_op, sad, sad_aux, sad_op, sad_aux_op "
    "(default: all, at the small scale eight of them)"
)
POPULATION_FILE = "population.safetensors"  # in the run folder of a population


def run(words: list[str]) -> int:
    """`brigade run BENCHMARK [flags]`."""
    if any(word in ("-h", "--help") for word in words):
        from brigade.runs.config import help_text

        print(help_text(words) + RUN_FLAGS)
        return 0
    options, experiment = read_experiment("run", words)
    from brigade.runs.run import default_path
    from brigade.runs.run import run as train

    path = options.out or default_path(experiment)
    with resumable(path, options), sinks(options, path) as show:
        result = train(
            experiment,
            path,
            trust=options.trust,
            checkpoint_minutes=options.checkpoint_minutes,
            on_start=show.start,
            watch=show,
        )
        train_baselines(result, options)
        log_results(result, show)
    return finish(result, options.quiet)


def population(words: list[str]) -> int:
    """`brigade population BENCHMARK [flags]`: a run with a generator."""
    if chosen_generator(words) == "none":
        known = ", ".join(names("generators"))
        raise UserError(f"generator is none; a population needs one of {known}")
    if chosen_generator(words) is None:
        words = [*words, "--generator", "sp"]
    settings = "--generator-settings.members"
    words = [
        settings + word.removeprefix("--members") if word.partition("=")[0] == "--members" else word
        for word in words
    ]
    if any(word in ("-h", "--help") for word in words):
        from brigade.runs.config import help_text

        text = help_text(words).replace("brigade run", "brigade population")
        print(text + "\n--members N is short for --generator-settings.members N.\n" + RUN_FLAGS)
        return 0
    return run(words)


def chosen_generator(words: list[str]) -> str | None:
    """The generator that the flags or the config file name, or None."""
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--generator")
    parser.add_argument("--config")
    parser.add_argument("--trust", action="store_true")
    found, _ = parser.parse_known_args(words)
    if found.generator is None and found.config is not None:
        from brigade.runs.config import read_file

        named: str = read_file(found.config, found.trust).get("generator", "none")
        return named if named != "none" else None
    generator: str | None = found.generator
    return generator


def resume(words: list[str]) -> int:
    """`brigade resume RUN`."""
    parser = verb_parser(
        "resume", "Continue a stopped run from its last checkpoint, or make a run longer."
    )
    add_run(parser)
    parser.add_argument("--tasks", type=count, help="train this many tasks in all")
    parser.add_argument(
        "--steps-per-task",
        type=float,
        metavar="STEPS",
        help="of the tasks that have not ended yet; of the last one if all have",
    )
    parser.add_argument(
        "--repetitions", type=count, metavar="N", help="train the sequence this often in all"
    )
    add_run_flags(parser)
    add_trust(parser)
    options = parser.parse_args(words)
    prepare_jax(options.cache)
    from brigade.runs.run import resume as continue_run

    with resumable(options.run, options), sinks(options, options.run) as show:
        result = continue_run(
            options.run,
            tasks=options.tasks,
            steps_per_task=options.steps_per_task,
            repetitions=options.repetitions,
            trust=options.trust,
            checkpoint_minutes=options.checkpoint_minutes,
            on_start=show.start,
            watch=show,
            warn=print_warning,
        )
        train_baselines(result, options)
        log_results(result, show)
    return finish(result, options.quiet)


def reproduce(words: list[str]) -> int:
    """`brigade reproduce TARGET`."""
    from brigade.launch.targets import TARGETS

    if not words or words == ["--measure"]:
        return list_targets(measure=bool(words))
    if words and words[0].startswith(STUDIES):
        return study(words)
    if words and words[0] in HANABI_STUDIES:
        return hanabi_study(words)
    parser = verb_parser(
        "reproduce",
        "Do the runs of a published table and print the results next to the published numbers. "
        "Finished runs are reused and stopped ones continued. Any setting of brigade run applies "
        "to all runs of the table, for example --seeds 3. zsc_eval/LAYOUT and lifelong_hanabi/pool "
        "are whole studies: see brigade reproduce zsc_eval/coordination_ring --help. Without a "
        "target, all targets are listed with their cost on this machine; --measure then times it.",
    )
    targets = ", ".join((*TARGETS, *HANABI_STUDIES))
    parser.add_argument("target", metavar="TARGET", help=f"one of {targets}")
    parser.add_argument(
        "--level", choices=("1", "2", "3"), help="difficulty of the kitchens (default: 1)"
    )
    parser.add_argument(
        "--scale",
        choices=("small", "paper"),
        default="small",
        help="small: minutes on two CPU cores; paper: the published settings (default: small)",
    )
    parser.add_argument(
        "--out", type=Path, help="folder for the runs and the table (default: reproductions/...)"
    )
    add_where(parser)
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    add_cache(parser)
    options, settings = parser.parse_known_args(words)
    workers = workers_of_table(options)
    prepare_jax(options.cache)
    from brigade.launch.reproduce import reproduce as run_table

    try:
        path = run_table(
            options.target,
            options.level,
            options.scale,
            options.out,
            settings,
            options.quiet,
            workers,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues from here") from None
    print(f"table: {path}")
    return 0


def list_targets(measure: bool) -> int:
    """`brigade reproduce` alone: all targets, with their cost on this machine."""
    prepare_jax()
    import jax

    from brigade.cli.bench import quick_speed
    from brigade.cli.doctor import known_speed
    from brigade.launch.overview import overview

    backend = jax.default_backend()
    faster = quick_speed().steps_per_second / known_speed(backend) if measure else None
    for line in overview(backend, faster):
        print(line)
    return 0


def workers_of_table(options: argparse.Namespace) -> Any:
    """Where the runs of a table are done; None for one after another in this process."""
    from brigade.launch.processes import Processes, share_memory

    check_where(options)
    flags = [] if options.cache else ["--no-cache"]
    if options.cluster is not None:
        return make_workers(options, flags)
    share_memory(options.jobs or 1)  # this process trains, too: single-task baselines
    return Processes(options.jobs, flags) if (options.jobs or 1) > 1 else None


def study(words: list[str]) -> int:
    """`brigade reproduce zsc_eval/LAYOUT`."""
    parser = verb_parser(
        "reproduce",
        "Make evaluation partners for a kitchen, choose them, train egos and measure how well they "
        "work with partners they never met. What is done is not done again; a stopped study "
        "continues. Any setting of brigade run applies to all runs of the study.",
    )
    parser.add_argument("target", metavar="zsc_eval/LAYOUT", help="the kitchen to study")
    parser.add_argument(
        "--scale",
        choices=("small", "medium", "paper"),
        default="small",
        help="small: minutes on two CPU cores; medium: an hour or two; paper: the published "
        "settings (default: small)",
    )
    parser.add_argument(
        "--algorithms",
        nargs="+",
        default=[],
        metavar="NAME",
        help="some of sp, e3t, fcp, mep, trajedi, hsp, cole (default: all)",
    )
    parser.add_argument("--seeds", type=int, help="egos of each algorithm")
    parser.add_argument("--out", type=Path, help="folder of the study (default: reproductions/...)")
    parser.add_argument(
        "--as-released", action="store_true", help="cap ratios at 1, as the public release does"
    )
    parser.add_argument(
        "--until",
        choices=("candidates", "selection", "populations", "egos", "measurement"),
        default="measurement",
        help="the last step to do (default: measurement, which is all)",
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    add_cache(parser)
    options, settings = parser.parse_known_args(words)
    prepare_jax(options.cache)
    from brigade.cli.study import run_study

    try:
        path = run_study(
            options.target.removeprefix(STUDIES),
            options.scale,
            options.out,
            options.algorithms,
            options.seeds,
            settings,
            options.quiet,
            options.as_released,
            options.until,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues from here") from None
    print(f"{'report' if path.is_file() else 'study'}: {path}")
    return 0


def hanabi_study(words: list[str]) -> int:
    """`brigade reproduce lifelong_hanabi/pool`, and what is made from a pool."""
    is_pool = words[0] == HANABI_POOL
    what = (
        "Train a pool of Hanabi agents in self-play, play all pairs and choose streams of partners."
        if is_pool
        else "Compare agents of a pool with agents that kept learning. --env.pool names the pool."
    )
    parser = verb_parser(
        "reproduce",
        f"{what} What is done is not done again; a stopped study continues. Any setting of brigade "
        "run applies to all runs.",
    )
    parser.add_argument("target", metavar=words[0], help="what to make")
    parser.add_argument(
        "--scale",
        choices=("small", "paper"),
        default="small",
        help="small: a small game on two CPU cores; paper: the published settings (default: small)",
    )
    parser.add_argument("--out", type=Path, help="folder of the study (default: reproductions/...)")
    if is_pool:
        parser.add_argument("--methods", nargs="+", default=[], metavar="NAME", help=POOL_METHODS)
        parser.add_argument(
            "--architectures",
            nargs="+",
            type=int,
            default=[],
            metavar="N",
            help="some of 1 to 5, the paper's Table 3 (default: all, at the small scale 1 and 4)",
        )
        parser.add_argument("--seeds", type=int, help="agents per method and architecture")
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    add_cache(parser)
    options, settings = parser.parse_known_args(words)
    prepare_jax(options.cache)
    from brigade.launch import hanabi_tables

    common = (options.scale, options.out, settings, options.quiet)
    try:
        if is_pool:
            chosen = (options.methods, options.architectures, options.seeds)
            path = hanabi_tables.pool(*common, *chosen)
        else:
            path = hanabi_tables.reproduce(options.target, *common)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues from here") from None
    print(f"{'pool' if is_pool else 'results'}: {path}")
    return 0


def sinks(options: argparse.Namespace, folder: Path) -> Any:
    """The progress display, and TensorBoard or Weights & Biases if asked for."""
    from brigade.runs.sinks import Sink, Sinks

    chosen, settings = list[Sink](), wandb_settings(options)
    if options.tensorboard:
        from brigade.runs.tensorboard import TensorBoard

        chosen.append(TensorBoard(folder))
    if options.wandb:
        from brigade.runs.weights_and_biases import WandbSettings, WeightsAndBiases

        chosen.append(WeightsAndBiases(folder, WandbSettings(**settings), options.quiet))
    return Sinks(folder, options.quiet, chosen)


def log_results(result: Any, show: Any) -> None:
    """Give TensorBoard and Weights & Biases the tables and the film, if one of them is on."""
    if show.sinks:
        from brigade.cli.results import final_results

        show.finish(final_results(result))


def train_baselines(result: Any, options: argparse.Namespace) -> None:
    """Train single-task baselines, if asked for."""
    if not options.baselines:
        return
    from brigade.runs.baselines import add_baselines, print_progress

    add_baselines(result, None if options.quiet else print_progress)


@contextlib.contextmanager
def resumable(path: Path, options: argparse.Namespace) -> Iterator[None]:
    """Add the command that continues the run to the error that stops it."""
    try:
        yield
    except KeyboardInterrupt:
        started = (path / "config.json").exists()
        hint = f"; continue with: {resume_command(path, options)}" if started else ""
        raise KeyboardInterrupt(f"stopped{hint}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        hint = ""
        if (path / "config.json").exists():
            hint = f"; once that is fixed, continue with: {resume_command(path, options)}"
        raise OSError(error.errno, f"{reason}{hint}") from error
    except RuntimeError as error:
        from brigade.runs.folder import RunFolder

        # Without a checkpoint it would start over with the same settings and fail again.
        if not OUT_OF_MEMORY.search(str(error)) or not RunFolder(path).checkpoint_numbers():
            raise
        message = device_error(error, "run")
        command = resume_command(path, options)
        raise MachineError(f"{message}; or free memory and continue with: {command}") from error


def resume_command(path: Path, options: argparse.Namespace) -> str:
    """The command that continues a run."""
    trusted = names_code(path)  # it ran before
    names = [name for name in ("baselines", "tensorboard", "wandb") if getattr(options, name)]
    words = [str(path), *(f"--{name}" for name in names), *(["--trust"] if trusted else [])]
    return f"brigade resume {shlex.join(words)}"


def names_code(path: Path) -> bool:
    """Whether the config of a run names Python files."""
    config = path / "config.json"
    return config.exists() and ".py:" in config.read_text(encoding="utf-8")


def finish(result: Any, quiet: bool) -> int:
    """Save the policies of a population, and print the report of a finished run."""
    population = None
    if result.experiment.generator is not None:
        population = save_population(result)
    if not quiet:
        with explained(f"see the complete run with: brigade report {result.path}"):
            print_report([result.path], None)
    if population is not None:
        print(f"policies: {population}")
    return 0


def save_population(result: Any) -> Path:
    """Export the policies of a population into its run folder."""
    from brigade.cli.export import export

    path: Path = result.path / POPULATION_FILE
    stages = result.experiment.generator.stages
    words = ["brigade export", str(result.path), "--out", str(path)]
    words += [] if tuple(stages) == ("final",) else ["--stages", *stages]
    words += ["--trust"] if names_code(result.path) else []
    if not path.exists():  # --trust: the same code has just been run
        with explained(f"get the policies of the complete run with: {' '.join(words)}"):
            export(result.path, path, None, helpers=False, trust=True, stages=stages)
    return path


@contextlib.contextmanager
def explained(after: str) -> Iterator[None]:
    """Add what to do to an error of the disk after training: nothing has to be trained again."""
    try:
        yield
    except (OSError, UserError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        reason = cause.strerror or str(cause)
        raise MachineError(f"{reason}; once that is fixed, {after}") from error
