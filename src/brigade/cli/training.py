"""The verbs that train: run, population, resume and reproduce."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from brigade.cli.errors import OUT_OF_MEMORY, device_error, print_line
from brigade.cli.flags import (
    add_run,
    add_run_flags,
    add_trust,
    count,
    prepare_jax,
    read_config,
    read_experiment,
    run_flags_help,
    run_parser,
    verb_parser,
    wandb_settings,
)
from brigade.cli.policies import print_report
from brigade.errors import MachineError, UserError
from brigade.registry import names

POPULATION_FILE = "population.safetensors"  # in the run folder of a population


def run(words: list[str]) -> int:
    """`brigade run BENCHMARK [flags]`."""
    if any(word in ("-h", "--help") for word in words):
        from brigade.runs.config import help_text

        print(help_text(words) + run_flags_help())
        return 0
    options, experiment = read_experiment("run", words)
    from brigade.runs.run import default_path
    from brigade.runs.run import run as train

    path = options.out or default_path(experiment)

    def start(show: Any) -> Any:
        return train(
            experiment,
            path,
            trust=options.trust,
            checkpoint_minutes=options.checkpoint_minutes,
            on_start=show.start,
            watch=show,
        )

    return complete(path, options, start)


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
        print(
            text + "\n--members N is short for --generator-settings.members N.\n" + run_flags_help()
        )
        return 0
    return run(words)


def chosen_generator(words: list[str]) -> str | None:
    """The generator that the flags or the config file name, or None."""
    parser = run_parser("population")
    parser.add_argument("--generator")
    found, _ = parser.parse_known_args(words)
    if found.generator is None:
        named: str = read_config(found).get("generator", "none")
        return None if named == "none" else named
    return str(found.generator)


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

    def go_on(show: Any) -> Any:
        return continue_run(
            options.run,
            tasks=options.tasks,
            steps_per_task=options.steps_per_task,
            repetitions=options.repetitions,
            trust=options.trust,
            checkpoint_minutes=options.checkpoint_minutes,
            on_start=show.start,
            watch=show,
            warn=print_line,
        )

    return complete(options.run, options, go_on)


def complete(path: Path, options: argparse.Namespace, train: Callable[[Any], Any]) -> int:
    """Train, then what else the flags ask for, and print the report."""
    with resumable(path, options), sinks(options, path) as show:
        result = train(show)
        if options.baselines:
            from brigade.runs.baselines import add_baselines, print_progress

            add_baselines(result, None if options.quiet else print_progress)
        if show.sinks:  # TensorBoard or Weights & Biases
            from brigade.cli.final_results import final_results

            show.finish(final_results(result))
    return finish(result, options.quiet)


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
