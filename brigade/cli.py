"""The command `brigade`: verbs, and mistakes answered in one line."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from brigade import __version__
from brigade.errors import MachineError, UserError
from brigade.registry import KINDS, names

USAGE = """usage: brigade VERB ...

Agents that keep cooperating while their world changes.

  list        what can be used by name
  run         learn a benchmark's tasks one after another, alone or with partners
  population  train many policies side by side, to be partners
  resume      go on with a run that was stopped
  report      tables, curves and pictures of one run or several
  export      save the policies of a run in one file
  crossplay   play every policy with every other: a matrix and a heat map
  plan        what a run would cost, before it starts
  layouts     draw kitchens, or check one of your own
  watch       film a game of a run's policies
  bench       how fast this machine is
  reproduce   a published table, our figures beside it

brigade VERB --help tells more. --debug shows a traceback when something goes wrong.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. A mistake is one line on standard error and status 2; what the machine cannot
    do is one line and status 1."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if words[0] == "--version":
        print(f"brigade {__version__}")
        return 0
    try:
        return verb_named(words[0])(words[1:])
    except UserError as error:
        if debug:
            raise
        return complain(str(error), 2)
    except SystemExit as stop:  # argparse leaves this way after --help
        return int(stop.code or 0)
    except KeyboardInterrupt as stop:
        if debug:
            raise
        return complain(str(stop) or "stopped", 130)
    except BrokenPipeError:  # whoever read our output has gone: nothing to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if debug:
            raise
        return complain(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), 1)
    except (RuntimeError, AssertionError) as error:
        limit = limit_of_the_machine(error, words[0])
        if debug or limit is None:
            raise
        return complain(limit, 1)


def complain(message: str, status: int) -> int:
    """One line on standard error."""
    print(f"brigade: {' '.join(message.split())}", file=sys.stderr)
    return status


NEEDS_LESS = {"crossplay": "fewer --episodes need", "bench": "fewer --num-envs need"}
RUN_NEEDS_LESS = "fewer --num-envs, more --ppo.minibatches or fewer --seeds need"
# A program that was started without waiting reports it as an INTERNAL error, in words alone.
OUT_OF_MEMORY = re.compile("RESOURCE_EXHAUSTED|out[ _]of[ _]memory", re.IGNORECASE)


def limit_of_the_machine(error: Exception, verb: str) -> str | None:
    """What the machine lacks, if that is what an error of JAX means."""
    if isinstance(error, MachineError):
        return str(error)
    if found := OUT_OF_MEMORY.search(str(error)):
        said = first_sentence(str(error)[found.start() :])
        return f"the device is out of memory ({said}); {NEEDS_LESS.get(verb, RUN_NEEDS_LESS)} less"
    if not finds_device():
        asked = os.environ.get("JAX_PLATFORMS", "not set")
        said = f", {first_sentence(str(error))}" if str(error) else ""
        return (
            f"JAX finds no device to use (JAX_PLATFORMS is {asked}{said}); "
            "set JAX_PLATFORMS=cpu to run on the CPU"
        )
    return None


def first_sentence(text: str) -> str:
    """The first line of what JAX says, without its advice in brackets."""
    return text.partition("\n")[0].partition(" (")[0].rstrip(". ")


def finds_device() -> bool:
    """Whether JAX, where a verb has loaded it, has a device to compute on."""
    jax = sys.modules.get("jax")
    try:
        return jax is None or bool(jax.devices())
    except (RuntimeError, AssertionError):  # the latter, without a word, from some versions
        return False


def verb_named(name: str) -> Callable[[list[str]], int]:
    """The function behind a verb."""
    if name not in VERBS:
        nearest = difflib.get_close_matches(name, VERBS, n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"one of {', '.join(VERBS)}"
        raise UserError(f"unknown verb {name!r}: {hint}")
    return VERBS[name]


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Offer the nearest flag for an unknown one."""
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            word = message.removeprefix(prefix).split()[0]
            nearest = difflib.get_close_matches(word, self._option_string_actions, n=1, cutoff=0.4)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"see {self.prog} --help"
            raise UserError(f"unknown argument {word!r}: {hint}")
        raise UserError(f"{message}; see {self.prog} --help")


def parser(verb: str, description: str) -> Parser:
    """A parser for one verb."""
    return Parser(prog=f"brigade {verb}", description=description, allow_abbrev=False)


def count(text: str) -> int:
    """A whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few; at least 1")
    return number


def minutes(text: str) -> float:
    """A number of minutes, 0 or more."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of minutes")
    return number


# --- verbs ---


def list_names(words: list[str]) -> int:
    """`brigade list [KIND]`."""
    args = parser("list", "Show what can be used by name; nothing is imported to list it.")
    args.add_argument("kind", nargs="?", help=f"one of {', '.join(KINDS)}; all when left out")
    kind = args.parse_args(words).kind
    for each in [kind] if kind else KINDS:
        known = names(each)
        print(f"{each}:")
        for name in known:
            print(f"  {name}")
    return 0


OPERATION = """
where and how (not part of the experiment):
  --out DIR              run folder to create; runs/... when left out
  --config FILE          settings from a .toml file or a run's config.json; flags win
  --checkpoint-minutes M save at least this often, and at every end of a task (5)
  --quiet                no progress, and no table and report at the end
  --tensorboard          also write TensorBoard events into the run folder (extra: tensorboard)
  --wandb                also log to Weights & Biases; WANDB_MODE=offline works (extra: wandb)
  --no-cache             do not keep compiled programs for the next run
  --baselines            afterwards learn every task alone, too: forward transfer needs it
"""


def run(words: list[str]) -> int:
    """`brigade run BENCHMARK [flags]`."""
    if any(word in ("-h", "--help") for word in words):
        from brigade.runs.config import help_text

        print(help_text(words) + OPERATION)
        return 0
    args, experiment = read_experiment("run", words)
    from brigade.runs.run import default_path
    from brigade.runs.run import run as start

    path = args.out or default_path(experiment)
    with going_on_with(path, args.baselines), sinks(args, path) as show:
        result = start(
            experiment,
            path,
            checkpoint_minutes=args.checkpoint_minutes,
            begin=show.begin,
            watch=show,
        )
        learn_alone(result, args)
    return finish(result, args.quiet)


def population(words: list[str]) -> int:
    """`brigade population BENCHMARK [flags]`: a run with a generator."""
    if chosen_generator(words) == "none":
        raise UserError(
            f"generator is none; one of {', '.join(names('generators'))} makes a population"
        )
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
        print(text + "\n--members N is short for --generator-settings.members N.\n" + OPERATION)
        return 0
    return run(words)


def chosen_generator(words: list[str]) -> str | None:
    """The generator that flags or the config file name, if they do."""
    look = Parser(add_help=False, allow_abbrev=False)
    look.add_argument("--generator")
    look.add_argument("--config")
    found, _ = look.parse_known_args(words)
    if found.generator is None and found.config is not None:
        from brigade.runs.config import read_file

        tree = read_file(found.config)
        return str(tree["generator"]) if tree.get("generator", "none") != "none" else None
    generator: str | None = found.generator
    return generator


def resume(words: list[str]) -> int:
    """`brigade resume RUN`."""
    args = parser("resume", "Take a stopped run up at its last checkpoint.")
    args.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    add_operation(args)
    args.add_argument("--trust", action="store_true", help="run code files the config points at")
    options = args.parse_args(words)
    prepare(options.cache)
    from brigade.runs.run import resume as take_up

    with going_on_with(options.run, options.baselines), sinks(options, options.run) as show:
        result = take_up(
            options.run,
            trust=options.trust,
            checkpoint_minutes=options.checkpoint_minutes,
            begin=show.begin,
            watch=show,
            complain=warn,
        )
        learn_alone(result, options)
    return finish(result, options.quiet)


def report(words: list[str]) -> int:
    """`brigade report RUN [RUN ...]`."""
    args = parser("report", "Tables in the terminal; report.html and CSV files in a folder.")
    args.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run's folder")
    args.add_argument("--out", type=Path, help="folder for the files; RUN/report for one run")
    options = args.parse_args(words)
    print_report(options.runs, options.out)
    return 0


def export(words: list[str]) -> int:
    """`brigade export RUN --out FILE`."""
    args = parser("export", "Save the policies of a run in one file, which any seat can load.")
    args.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    args.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the .safetensors file to write"
    )
    args.add_argument(
        "--task", type=count, default=None, help="act as on this task, from 1 (the last one)"
    )
    args.add_argument(
        "--helpers",
        action="store_true",
        help="of a population, also policies that were trained only for others",
    )
    args.add_argument("--trust", action="store_true", help="run code files the config points at")
    options = args.parse_args(words)
    from brigade.commands.export import export as save

    policies = save(options.run, options.out, options.task, options.helpers, options.trust)
    print(f"{options.out}: {', '.join(policies.names)}")
    return 0


def crossplay(words: list[str]) -> int:
    """`brigade crossplay A B C`."""
    args = parser(
        "crossplay",
        "Play every policy with every other, on either side of the table. Settings of the game "
        "can be given as to brigade run: --env.layout coordination_ring.",
    )
    args.add_argument(
        "policies",
        nargs="+",
        metavar="POLICY",
        help="a policy file, FILE:MEMBER, a run's folder, or a name of 'brigade list partners'",
    )
    args.add_argument("--benchmark", help="the game; the one the first policy was trained in")
    args.add_argument(
        "--task", type=count, help="of the benchmark's stream, from 1 (the first policy's own)"
    )
    args.add_argument(
        "--seed", type=int, help="of the stream and the games (the first policy's own)"
    )
    args.add_argument("--episodes", type=count, default=32, help="games of every pair (32)")
    args.add_argument("--greedy", action="store_true", help="greedy actions, no sampling")
    args.add_argument("--out", type=Path, help="folder to create; crossplay-... when left out")
    args.add_argument("--trust", action="store_true", help="run code files that runs point at")
    add_cache(args)
    options, flags = args.parse_known_args(words)
    from datetime import datetime

    folder = options.out or Path(f"crossplay-{datetime.now():%Y%m%d-%H%M%S}")
    if folder.exists():
        raise UserError(f"{folder} exists already; choose another --out")
    prepare(options.cache)
    from rich.console import Console

    from brigade.commands.crossplay import crossplay as play_all
    from brigade.report.crossplay import print_matrix, write_matrix

    folder.mkdir(parents=True)  # now, not when all is played
    try:
        matrix = play_all(
            options.policies,
            options.benchmark,
            flags,
            options.task,
            options.seed,
            options.episodes,
            options.greedy,
            options.trust,
        )
        paths = write_matrix(matrix, folder)
    except BaseException:
        folder.rmdir()
        raise
    print_matrix(Console(), matrix)
    for path in paths:
        print(path)
    return 0


def plan(words: list[str]) -> int:
    """`brigade plan BENCHMARK [flags]`: the same flags as run."""
    if any(word in ("-h", "--help") for word in words):
        print("usage: brigade plan BENCHMARK [--no-measure] [the flags of brigade run]\n")
        print("What a run would cost; --no-measure leaves out the time, which takes a minute.")
        return 0
    measured = "--no-measure" not in words
    words = [word for word in words if word != "--no-measure"]
    _, experiment = read_experiment("plan", words)
    from brigade.commands.plan import print_plan

    print_plan(experiment, measured)
    return 0


def layouts(words: list[str]) -> int:
    """`brigade layouts`."""
    args = parser("layouts", "Draw kitchens of a level, or check a kitchen of your own.")
    args.add_argument("--level", default="1", help="1, 2, 3, extreme or release-1 ... (1)")
    args.add_argument("--num", type=count, default=4, help="how many (4)")
    args.add_argument("--seed", type=int, default=0, help="of the drawing (0)")
    args.add_argument("--agents", type=count, default=None, help="cooks, 1 to 4 (2)")
    args.add_argument(
        "--require-handoff",
        action="store_true",
        help="only kitchens where things must be passed over counters",
    )
    args.add_argument("--json", action="store_true", help="a list of lists of rows")
    args.add_argument("--out", type=Path, help="folder for pictures and text files")
    args.add_argument("--file", type=Path, help="check this kitchen instead")
    options = args.parse_args(words)
    from brigade.commands.kitchens import checked_kitchen, drawn_kitchens, save_kitchens

    if options.file:
        checked = checked_kitchen(options.file, options.agents, options.require_handoff)
        kitchens = {options.file.stem: checked}
    else:
        kitchens = drawn_kitchens(
            options.level,
            options.num,
            options.seed,
            options.agents or 2,
            options.require_handoff,
        )
    if options.json:
        print(json.dumps([list(rows) for rows in kitchens.values()]))
    else:
        print("\n\n".join(f"# {name}\n" + "\n".join(rows) for name, rows in kitchens.items()))
    if options.file and not options.json:
        print(f"\n{options.file} obeys all ten rules")
    if options.out:
        save_kitchens(kitchens, options.out, options.agents or 2)
    return 0


def watch(words: list[str]) -> int:
    """`brigade watch RUN`."""
    args = parser("watch", "Film one game of a run's policies, with the last checkpoint.")
    args.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    args.add_argument("--task", type=count, default=1, help="which task, from 1 (1)")
    args.add_argument("--seed", type=int, default=None, help="which seed of the run (its first)")
    args.add_argument(
        "--partner", help="with whom, by name; of a population, which table (the first)"
    )
    args.add_argument("--seat", help="where the learner sits, as the report names it (the first)")
    args.add_argument("--out", type=Path, help="the .gif; in the run's report folder if left out")
    args.add_argument("--greedy", action="store_true", help="greedy actions, no sampling")
    args.add_argument("--trust", action="store_true", help="run code files the config points at")
    options = args.parse_args(words)
    prepare(True)
    from brigade.commands.film import film

    path, score = film(
        options.run,
        options.task,
        options.seed,
        options.out,
        options.greedy,
        options.trust,
        options.partner,
        options.seat,
    )
    print(f"{path}  (score {score:.2f})")
    return 0


def bench(words: list[str]) -> int:
    """`brigade bench`."""
    args = parser("bench", "Steps per second of every part of training on this machine.")
    args.add_argument("--level", choices=("1", "2", "3"), default="1", help="of the kitchens (1)")
    args.add_argument(
        "--num-envs", type=count, help="side by side (2048 on an accelerator, 16 on a CPU)"
    )
    add_cache(args)
    options = args.parse_args(words)
    prepare(options.cache)
    from brigade.commands.bench import print_bench

    print_bench(options.level, options.num_envs)
    return 0


def reproduce(words: list[str]) -> int:
    """`brigade reproduce TARGET`."""
    from brigade.reproduce.meal import TARGETS

    args = parser(
        "reproduce",
        "Run what a published table needs, or finish it, and set our figures beside the published. "
        "Any setting of a run can be given as well and holds for all of them: --seeds 3.",
    )
    args.add_argument("target", metavar="TARGET", help=f"one of {', '.join(TARGETS)}")
    args.add_argument("--level", choices=("1", "2", "3"), help="of the kitchens (1)")
    args.add_argument(
        "--scale", choices=("small", "paper"), default="small", help="minutes on a laptop (small)"
    )
    args.add_argument("--out", type=Path, help="folder of the runs; reproductions/... by itself")
    args.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time (1)")
    args.add_argument("--quiet", action="store_true", help="no progress")
    add_cache(args)
    options, rest = args.parse_known_args(words)
    from brigade.reproduce.jobs import share_memory

    share_memory(options.jobs)
    prepare(options.cache)
    from brigade.reproduce.command import reproduce as carry_out

    try:
        path = carry_out(
            options.target,
            options.level,
            options.scale,
            options.out,
            rest,
            options.quiet,
            options.jobs,
            [] if options.cache else ["--no-cache"],
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command goes on from here") from None
    print(f"table: {path}")
    return 0


VERBS: dict[str, Callable[[list[str]], int]] = {
    "list": list_names,
    "run": run,
    "population": population,
    "resume": resume,
    "report": report,
    "export": export,
    "crossplay": crossplay,
    "plan": plan,
    "layouts": layouts,
    "watch": watch,
    "bench": bench,
    "reproduce": reproduce,
}

# --- shared by verbs ---


def add_operation(args: argparse.ArgumentParser) -> None:
    """Flags that say how a run goes about its work."""
    args.add_argument(
        "--checkpoint-minutes",
        type=minutes,
        default=5.0,
        metavar="M",
        help="save at least this often, and at every end of a task (5)",
    )
    args.add_argument(
        "--quiet", action="store_true", help="no progress, and no table and report at the end"
    )
    args.add_argument("--tensorboard", action="store_true", help="TensorBoard events as well")
    args.add_argument("--wandb", action="store_true", help="Weights & Biases as well")
    add_cache(args)
    args.add_argument(
        "--baselines", action="store_true", help="afterwards learn every task alone, too"
    )


def learn_alone(result: Any, options: argparse.Namespace) -> None:
    """Single-task baselines, if asked for."""
    if not options.baselines:
        return
    from brigade.runs.baselines import add_baselines, tell

    add_baselines(result, None if options.quiet else tell)


def add_cache(args: argparse.ArgumentParser) -> None:
    """The switch of the compilation cache."""
    args.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="do not keep compiled programs for the next run",
    )


def read_experiment(verb: str, words: list[str]) -> tuple[argparse.Namespace, Any]:
    """Split the flags of the operation from those of the experiment."""
    args = Parser(prog=f"brigade {verb}", add_help=False, allow_abbrev=False)
    args.add_argument("--out", type=Path)
    args.add_argument("--config")
    add_operation(args)
    options, rest = args.parse_known_args(words)
    if options.out is not None and options.out.exists():
        is_run = (options.out / "config.json").exists()
        hint = f"take it up with 'brigade resume {options.out}', or " if is_run else ""
        raise UserError(f"{options.out} exists already; {hint}choose another --out")
    prepare(options.cache)
    from brigade.runs.config import from_dict, read_file

    tree = read_file(options.config) if options.config else {}
    return options, from_dict(tree, rest)


def prepare(cache: bool) -> None:
    """Keep compiled programs for the next command, and stop as Ctrl-C does when terminated."""
    from brigade.core.compile import keep_programs

    if cache:
        keep_programs()
    signal.signal(signal.SIGTERM, interrupt)


def interrupt(*_: object) -> None:
    """As Ctrl-C; where that is ignored, as by a script's background jobs, all the same."""
    if callable(signal.getsignal(signal.SIGINT)):
        signal.raise_signal(signal.SIGINT)
    else:
        raise KeyboardInterrupt


def sinks(options: argparse.Namespace, folder: Path) -> Any:
    """The display and whatever else wants the news."""
    from brigade.runs.sinks import Sinks

    return Sinks(folder, options.quiet, options.tensorboard, options.wandb)


@contextlib.contextmanager
def going_on_with(path: Path, baselines: bool) -> Iterator[None]:
    """Say how to take a run up that was stopped, by a person, a full disk or a full device."""
    try:
        yield
    except KeyboardInterrupt:
        started = (path / "config.json").exists()
        hint = f"; go on with: {resume_command(path, baselines)}" if started else ""
        raise KeyboardInterrupt(f"stopped{hint}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        hint = f"; when that is mended: {resume_command(path, baselines)}" if path.exists() else ""
        raise OSError(error.errno, f"{reason}{hint}") from error
    except RuntimeError as error:
        from brigade.runs.folder import RunFolder

        # Without a checkpoint it would only begin again with the settings that were too much.
        if not OUT_OF_MEMORY.search(str(error)) or not RunFolder(path).checkpoint_numbers():
            raise
        limit = limit_of_the_machine(error, "run")
        command = resume_command(path, baselines)
        raise MachineError(f"{limit}; with more memory free: {command}") from error


def resume_command(path: Path, baselines: bool) -> str:
    """What takes a run up again."""
    config = path / "config.json"
    trusted = config.exists() and ".py:" in config.read_text(encoding="utf-8")  # when it ran
    flags = (" --baselines" if baselines else "") + (" --trust" if trusted else "")
    return f"brigade resume {path}{flags}"


def warn(line: str) -> None:
    """One line on standard error, and on."""
    print(f"brigade: {line}", file=sys.stderr)


def finish(result: Any, quiet: bool) -> int:
    """The policy file of a population, and the report of a run that ended."""
    if not quiet:
        print_report([result.path], None)
    if result.experiment.generator is not None:
        from brigade.commands.export import export

        path = result.path / POPULATION
        if not path.exists():  # its code was trusted when it ran
            export(result.path, path, None, helpers=False, trust=True)
        print(f"policies: {path}")
    return 0


POPULATION = "population.safetensors"  # in a population's folder


def print_report(paths: list[Path], out: Path | None) -> None:
    """Tables on the screen, files in a folder."""
    from rich.console import Console

    from brigade.report import print_summary, read_run, write_csv, write_report

    runs = [read_run(path) for path in paths]
    folder = out or (paths[0] / "report" if len(paths) == 1 else Path("report"))
    print_summary(Console(), runs)
    html = write_report(runs, folder)
    write_csv(runs, folder)
    print(f"report: {html}")
