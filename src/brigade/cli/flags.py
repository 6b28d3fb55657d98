"""Flags that several verbs share, and the parser that reports mistakes in one line."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from typing import Any, NoReturn

from brigade.errors import UserError
from brigade.registry import nearest

WANDB_FLAGS = {
    "project": "project there (default: brigade)",
    "entity": "user or team there (default: yours)",
    "group": "group there (default: BENCHMARK/METHOD)",
}


class Parser(argparse.ArgumentParser):
    """An argument parser that raises a one-line UserError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Suggest the nearest flag for an unknown one."""
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            word = message.removeprefix(prefix).split()[0]
            near = nearest(word, self._option_string_actions)
            hint = f"did you mean {near!r}?" if near else f"see {self.prog} --help"
            raise UserError(f"unknown argument {word!r}: {hint}")
        raise UserError(f"{message}; see {self.prog} --help")


def verb_parser(verb: str, description: str) -> Parser:
    """The parser of a verb."""
    return Parser(prog=f"brigade {verb}", description=description, allow_abbrev=False)


def count(text: str, least: int = 1) -> int:
    """An integer of at least 1, or at least another number."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"{number} is too small; it must be at least {least}")
    return number


def real(text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def minutes(text: str) -> float:
    """A number of minutes, 0 or more."""
    number = real(text)
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of minutes; use 0 or more")
    return number


def add_run(parser: Parser) -> None:
    """The positional argument RUN."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")


def add_trust(parser: Parser) -> None:
    """The flag --trust."""
    parser.add_argument(
        "--trust", action="store_true", help="execute the Python files that the run's config names"
    )


def add_config(parser: Parser) -> None:
    """The flags --config and --trust."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="read settings from a .toml file or a run's config.json; flags override them",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="execute the Python files that the config file names; those that a flag names are "
        "executed anyway",
    )


def add_cache(parser: Parser) -> None:
    """The flag --no-cache."""
    parser.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="do not use the cache of compiled programs",
    )


def run_parser(verb: str) -> Parser:
    """The flags of `brigade run` that are not settings of the experiment."""
    parser = Parser(prog=f"brigade {verb}", add_help=False, allow_abbrev=False)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="run folder to create (default: runs/...)"
    )
    add_config(parser)
    add_run_flags(parser)
    return parser


def run_flags_help() -> str:
    """What they mean, for the help of `brigade run`."""
    _, _, options = run_parser("run").format_help().partition("options:\n")
    return f"\nhow to run it (not part of the experiment):\n{options}"


def read_experiment(verb: str, words: list[str]) -> tuple[argparse.Namespace, Any]:
    """Parse the flags of a run: those of the command line, and the experiment's settings."""
    options, settings = run_parser(verb).parse_known_args(words)
    if options.out is not None:
        from brigade.runs.folder import check_new

        check_new(options.out)
    prepare_jax(options.cache)
    from brigade.runs.config import from_dict

    return options, from_dict(read_config(options), settings)


def read_config(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of --config; none without it."""
    from brigade.runs.config_files import read_file

    return read_file(options.config, options.trust) if options.config else {}


def add_run_flags(parser: Parser) -> None:
    """The flags of `brigade run` that resume has, too."""
    parser.add_argument(
        "--checkpoint-minutes",
        type=minutes,
        default=5.0,
        metavar="M",
        help="save a checkpoint at least every M minutes, and after every task (default: 5)",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="print no progress, and no table or report at the end"
    )
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="also write TensorBoard events to the run folder (pip extra: tensorboard)",
    )
    parser.add_argument(
        "--wandb", action="store_true", help="also log to Weights & Biases (pip extra: wandb)"
    )
    for name, meaning in WANDB_FLAGS.items():
        parser.add_argument(f"--wandb-{name}", metavar="NAME", help=meaning)
    parser.add_argument(
        "--wandb-mode",
        choices=("online", "offline"),
        help="send now, or keep in the run folder (default: WANDB_MODE, or online)",
    )
    add_cache(parser)
    parser.add_argument(
        "--baselines",
        action="store_true",
        help="then train a single-task baseline for every task, for forward transfer",
    )


def run_flag_words(options: argparse.Namespace) -> list[str]:
    """Flags of `add_run_flags` as words, for runs in other processes.

    These are quiet, and train no baselines: runs share them, so they are trained once, afterwards.
    """
    words = ["--checkpoint-minutes", f"{options.checkpoint_minutes:g}"]
    for name in ("tensorboard", "wandb"):
        words += [f"--{name}"] if getattr(options, name) else []
    for name, value in wandb_settings(options).items():
        words += [f"--wandb-{name}", value] if value else []
    return words if options.cache else [*words, "--no-cache"]


def wandb_settings(options: argparse.Namespace) -> dict[str, str]:
    """Project, entity, group and mode for Weights & Biases; empty for the default."""
    names = (*WANDB_FLAGS, "mode")
    settings = {name: getattr(options, f"wandb_{name}") or "" for name in names}
    for name, value in settings.items():
        if value and not options.wandb:
            raise UserError(f"--wandb-{name} is for Weights & Biases; add --wandb, or remove it")
    return settings


def prepare_jax(cache: bool = True) -> None:
    """Turn on the cache of compiled programs, and let SIGTERM stop a command as Ctrl-C does."""
    from brigade.core.compile import keep_programs

    if cache:
        keep_programs()
    signal.signal(signal.SIGTERM, interrupt)


def interrupt(*_: object) -> None:
    """Do what Ctrl-C does, even where it is ignored, as in background jobs of a script."""
    if callable(signal.getsignal(signal.SIGINT)):
        signal.raise_signal(signal.SIGINT)
    else:
        raise KeyboardInterrupt
