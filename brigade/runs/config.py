"""What a run is: one frozen tree of settings, from flags, a file or a dictionary.

Whatever the source, settings become flags and pass one parser, so that a config file is checked as
strictly as the command line and later sources win: preset, file, flags.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tyro

from brigade import registry
from brigade.core import Benchmark
from brigade.core.checks import at_least, positive, within
from brigade.errors import UserError
from brigade.populations import Generator
from brigade.runs.folder import FORMAT
from brigade.runs.kept import by_content, found_again

LARGEST_SEED = 2**32  # keys are made of 32 bits
LEAST_ENVS = 16  # for every policy of a population, by default
MOST_UPDATES = 2**31 - 1  # of a task: they are counted in 32 bits


@dataclass(frozen=True)
class RunConfig:
    """The experiment."""

    benchmark: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BENCHMARK")]
    """What to run: a name (`brigade list benchmarks`) or path/to/file.py:name."""
    method: str = "ft"
    """Continual method: a name (`brigade list methods`) or path/to/file.py:Name."""
    learner: str = "ippo"
    """Learning algorithm: a name (`brigade list learners`) or path/to/file.py:Name."""
    generator: str = "none"
    """Train a population instead of one policy: a name (`brigade list generators`) or
    path/to/file.py:Name; see `brigade population`."""
    partners: tuple[str, ...] = ()
    """Who has the seats that are not the learner's: names (`brigade list partners`), policy files
    (`brigade export`), one member of a file as FILE:NAME, or path/to/file.py:Name. Left out, the
    learner has every seat."""
    seats: tuple[str, ...] = ("random",)
    """Seats of the learner among partners: numbers from 0, or random for each one that is drawn
    anew for the games of every rollout."""
    greedy_partners: bool = False
    """Partners take their greedy actions instead of sampling."""
    preset: str = "auto"
    """Where defaults come from: paper, laptop or another the benchmark has; auto is the paper's on
    an accelerator and laptop on a CPU."""
    seeds: int = 1
    """How many seeds to train side by side."""
    seed: int = 0
    """The first seed; the others count up from it."""
    tasks: int = 1
    """How many tasks to learn one after another."""
    steps_per_task: float = 1e6
    """Environment steps per task and seed, rounded to whole rollouts."""
    num_envs: int = 1
    """Environments that run side by side, per seed."""
    num_steps: int = 1
    """Steps of a rollout in each of them."""
    repetitions: int = 1
    """How often the sequence is gone through, the same tasks with the same heads."""
    eval_every: int = 1
    """Updates between evaluations of all tasks; one update learns from one rollout."""
    eval_episodes: int = 10
    """Episodes per task and evaluation."""
    eval_consecutive: int = 1
    """Episodes of an evaluation that are played in a row with one memory."""
    greedy: bool = False
    """Take the greedy action in evaluations instead of sampling."""

    def __post_init__(self) -> None:
        counts = ("seeds", "tasks", "repetitions", "num_envs", "num_steps")
        for name in (*counts, "eval_every", "eval_episodes", "eval_consecutive"):
            at_least(name, getattr(self, name), 1)
        at_least("seed", self.seed, 0)
        within("seed", self.seed, 0, LARGEST_SEED - self.seeds)
        positive("steps_per_task", self.steps_per_task)
        if self.updates_per_task > MOST_UPDATES:
            raise ValueError(
                f"steps_per_task is {self.steps_per_task:g}; that is more than "
                f"{MOST_UPDATES:,} updates; give fewer"
            )

    @property
    def updates_per_task(self) -> int:
        """Rollouts per task, at least one."""
        return max(1, round(self.steps_per_task / self.steps_per_update))

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one rollout, per seed."""
        return self.num_envs * self.num_steps

    @property
    def tasks_in_all(self) -> int:
        """With repetitions."""
        return self.tasks * self.repetitions


@dataclass(frozen=True)
class Experiment:
    """A config with the settings of its learner, its method and its environment."""

    config: RunConfig
    learner: Any  # a learner's settings, with `build`
    method: Any  # the method itself
    env: Any = None  # the environment's settings, where the benchmark has such
    generator: Any = None  # the generator itself, where a population is trained

    def benchmark(self) -> Benchmark:
        """The description, with the environment as set."""
        return configured(load_benchmark(self.config.benchmark), self.env)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, in the form of a config file."""
        tree = dataclasses.asdict(self.config) | dataclasses.asdict(self.learner)
        for name, settings in (
            ("env", self.env),
            ("method_settings", self.method),
            ("generator_settings", self.generator),
        ):
            values = dataclasses.asdict(settings) if settings is not None else {}
            tree |= {name: values} if values else {}
        return _plain(tree)

    def as_json(self, version: str) -> str:
        """The text of config.json; policy files are named by their content."""
        config, _ = by_content(self.as_dict())
        measures = list(self.benchmark().measures)
        if self.generator is not None:
            measures = list(self.generator.measures)
        return json.dumps(
            {"format": FORMAT, "brigade": version, "measures": measures, "config": config}, indent=2
        )


def from_dict(tree: Mapping[str, Any], arguments: Sequence[str] = ()) -> Experiment:
    """Settings as in a config file, and flags that win over them."""
    tree = dict(tree)
    benchmark_name = str(tree.pop("benchmark", ""))
    words = list(arguments)
    if words and not words[0].startswith("-"):
        benchmark_name = words.pop(0)
    if not benchmark_name:
        raise UserError("no benchmark is named; e.g. brigade run meal/level-1 (see brigade list)")
    if words and not words[0].startswith("-"):
        raise UserError(
            f"unexpected {words[0]!r} after the benchmark; settings are flags: --tasks 3"
        )
    benchmark = load_benchmark(benchmark_name)
    chosen = _first_look(tree, words, benchmark)
    shape = _experiment_type(chosen, benchmark)
    given = [*as_flags(tree), *words]
    _refuse_unknown([*as_flags(_defaults(benchmark, chosen)), *given], shape)
    parsed = _parse(shape, [benchmark_name, *as_flags(_defaults(benchmark, chosen)), *given])
    generator = getattr(parsed, "generator", None)
    if benchmark.settings is not None or generator is not None:  # they may have other defaults
        benchmark = configured(benchmark, getattr(parsed, "env", None))
        defaults = _defaults(benchmark, chosen, generator)
        parsed = _parse(shape, [benchmark_name, *as_flags(defaults), *given])
    config = dataclasses.replace(parsed.config, preset=chosen["preset"])
    config = dataclasses.replace(
        config, steps_per_task=config.updates_per_task * config.steps_per_update
    )
    env = getattr(parsed, "env", None)
    return Experiment(config, parsed.learner, parsed.method, env, generator)


def from_json(text: str, folder: Path) -> Experiment:
    """Read the config.json of a run's folder back."""
    try:
        tree = json.loads(text)
        number, config = tree["format"], tree["config"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(f"config.json is damaged ({error})") from error
    if number != FORMAT:
        raise UserError(
            f"config.json has format {number}, this Brigade reads {FORMAT}; "
            f"it was written by version {tree.get('brigade', 'unknown')}: install that one"
        )
    return from_dict(found_again(config, folder))


def read_file(path: str) -> dict[str, Any]:
    """A config file: TOML, or a run's config.json."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        if path.endswith(".json"):
            tree = json.loads(text)
            return dict(found_again(tree.get("config", tree), Path(path).parent))
        return tomllib.loads(text)
    except OSError as error:
        raise UserError(f"cannot read the config file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is not valid: {error}") from error


def load_benchmark(name: str) -> Benchmark:
    """The description behind a name."""
    make = registry.get("benchmarks", name)
    wrong = (
        f"{name} is not a benchmark; it must be a function that returns a brigade.core.Benchmark"
    )
    try:
        benchmark = make()
    except TypeError as error:
        raise UserError(f"{wrong} ({error})") from error
    if not isinstance(benchmark, Benchmark):
        raise UserError(wrong)
    return benchmark


def configured(benchmark: Benchmark, settings: Any) -> Benchmark:
    """The benchmark with an environment as `settings` say."""
    if benchmark.configure is None or settings is None:
        return benchmark
    try:
        return benchmark.configure(settings)
    except ValueError as error:
        raise UserError(str(error)) from error


def help_text(arguments: Sequence[str]) -> str:
    """The help of `brigade run` for the learner and method that are named, defaults as on a GPU."""
    words = [word for word in arguments if word not in ("-h", "--help")]
    named = bool(words) and not words[0].startswith("-")
    name = words[0] if named else "meal/level-1"
    benchmark = load_benchmark(name)
    look = _first_look({"preset": "paper"}, words[1:] if named else words, benchmark)
    shape = _experiment_type(look, benchmark)
    parsed = _parse(shape, [name, *as_flags(_defaults(benchmark, look))])
    defaults = _defaults(benchmark, look, getattr(parsed, "generator", None))
    parsed = _parse(shape, [name, *as_flags(defaults)])
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        tyro.cli(shape, default=parsed, args=["--help"], prog="brigade run", config=_CONF)
    return shown.getvalue()


def _first_look(
    tree: Mapping[str, Any], words: Sequence[str], benchmark: Benchmark
) -> dict[str, str]:
    """The choices that decide which other settings there are."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("learner", "method", "preset", "generator"):
        parser.add_argument(f"--{name}")
    try:
        found, _ = parser.parse_known_args(list(words))
    except argparse.ArgumentError as error:
        raise UserError(str(error)) from error
    chosen = {"learner": benchmark.learner, "method": "ft", "preset": "auto", "generator": "none"}
    chosen |= {name: str(tree[name]) for name in chosen if name in tree}
    chosen |= {name: value for name, value in vars(found).items() if value}
    if chosen["preset"] == "auto":
        import jax

        small = jax.default_backend() == "cpu" and "laptop" in benchmark.presets
        chosen["preset"] = "laptop" if small else "paper"
    known = {"auto", "paper", *benchmark.presets}
    if chosen["preset"] not in known:
        raise UserError(registry.unknown_name("preset", chosen["preset"], known))
    return chosen


def _defaults(
    benchmark: Benchmark, chosen: Mapping[str, str], generator: Any = None
) -> dict[str, Any]:
    """The paper's numbers, then the preset's, then those of a generator."""
    paper = {
        "learner": benchmark.learner,
        "seeds": benchmark.num_seeds,
        "tasks": benchmark.num_tasks,
        "steps_per_task": benchmark.steps_per_task,
        "num_envs": benchmark.num_envs,
        "num_steps": benchmark.num_steps,
        "eval_every": benchmark.eval_every,
        "eval_episodes": benchmark.eval_episodes,
        "seats": benchmark.seats,
        "generator": chosen["generator"],
    }
    tree = merged(paper, benchmark.presets.get(chosen["preset"], {}))
    return tree if generator is None else merged(tree, population_defaults(tree, generator))


def population_defaults(tree: Mapping[str, Any], generator: Any) -> dict[str, Any]:
    """One task and one seed, steps for every policy, and environments for every table."""
    defaults = {
        "seeds": 1,
        "tasks": 1,
        "steps_per_task": float(tree["steps_per_task"] * generator.policies),
        "num_envs": max(tree["num_envs"], LEAST_ENVS * generator.policies),
    }
    defaults = merged(defaults, generator.defaults)
    defaults["num_envs"] = -(-defaults["num_envs"] // generator.tables) * generator.tables
    return defaults


def merged(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Both trees; `b` wins."""
    tree = dict(a)
    for name, value in b.items():
        inner = tree.get(name)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            value = merged(inner, value)
        tree[name] = value
    return tree


RUN_HELP = "Learn a stream of tasks and record what was kept and forgotten."
POPULATION_HELP = "Train many policies side by side, to be partners for others."
_CONF = (tyro.conf.OmitSubcommandPrefixes,)


def _experiment_type(chosen: Mapping[str, str], benchmark: Benchmark) -> Any:
    """Experiment with the types of the settings of everything that is chosen."""
    learner_type = registry.get("learners", chosen["learner"])
    method_type = registry.get("methods", chosen["method"])
    kinds = [("learner", learner_type), ("method", method_type)]
    if chosen["generator"] != "none":
        kind = registry.get("generators", chosen["generator"])
        if not (isinstance(kind, type) and issubclass(kind, Generator)):
            raise UserError(f"{chosen['generator']} is not a brigade.populations.Generator")
        kinds.append(("generator", kind))
    for what, kind in kinds:
        if not dataclasses.is_dataclass(kind):
            raise UserError(f"the {what} {kind!r} is not a dataclass; make it a frozen dataclass")
    flat = tyro.conf.arg(name="")
    more: list[Any] = []
    if benchmark.settings is not None:
        env: Any = Annotated[type(benchmark.settings), tyro.conf.arg(name="env")]
        more = [("env", env, dataclasses.field(default=benchmark.settings))]
    for what, chosen_type in kinds[2:]:
        settings: Any = Annotated[chosen_type, tyro.conf.arg(name=f"{what}-settings")]
        more.append((what, settings, dataclasses.field(default=chosen_type())))
    return dataclasses.make_dataclass(
        "Experiment",
        [
            ("config", Annotated[RunConfig, flat]),
            ("learner", Annotated[learner_type, flat], dataclasses.field(default=learner_type())),
            (
                "method",
                Annotated[method_type, tyro.conf.arg(name="method-settings")],
                dataclasses.field(default=method_type()),
            ),
            *more,
        ],
        frozen=True,
        namespace={"__doc__": POPULATION_HELP if kinds[2:] else RUN_HELP},
    )


def as_flags(tree: Mapping[str, Any], prefix: str = "") -> list[str]:
    """{"ppo": {"epochs": 4}} -> ["--ppo.epochs", "4"]."""
    flags: list[str] = []
    for name, value in tree.items():
        flag = f"{prefix}{name}".replace("_", "-")
        if isinstance(value, Mapping):
            flags += as_flags(value, f"{flag}.")
        elif isinstance(value, bool):
            head, _, last = flag.rpartition(".")
            flags.append("--" + (f"{head}." if head else "") + ("" if value else "no-") + last)
        else:
            words = [str(each) for each in (value if isinstance(value, list | tuple) else [value])]
            if any(word.startswith("--") for word in words):  # it would be taken for a flag
                raise UserError(f"{flag} is {' '.join(words)}; a value cannot begin with --")
            flags += [f"--{flag}", *words]
    return flags


def known_flags(shape: Any) -> Iterator[str]:
    """Every flag of an experiment's type."""
    for name, kind in get_type_hints(shape).items():
        prefix = {
            "method": "method-settings.",
            "env": "env.",
            "generator": "generator-settings.",
        }.get(name, "")
        yield from _flags_of(kind, prefix)


def _flags_of(kind: Any, prefix: str) -> Iterator[str]:
    types = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        name = prefix + field.name.replace("_", "-")
        if dataclasses.is_dataclass(types[field.name]):
            yield from _flags_of(types[field.name], f"{name}.")
        else:
            yield name
            if types[field.name] is bool:
                head, _, last = name.rpartition(".")
                yield (f"{head}." if head else "") + f"no-{last}"


def _refuse_unknown(flags: Sequence[str], shape: Any) -> None:
    known = set(known_flags(shape)) - {"benchmark"}
    for word in flags:
        if word.startswith("--"):
            name = word[2:].partition("=")[0].replace("_", "-")
            if name not in known:
                raise UserError(registry.unknown_name("setting", name, known, listed=False))


def _parse(shape: Any, words: Sequence[str]) -> Any:
    """Parse flags; the parser's boxed complaint becomes one line."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(shape, args=list(words), prog="brigade run", config=_CONF)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UserError(_one_line(complaint.getvalue())) from None
    except ValueError as error:
        raise UserError(str(error)) from None


def _one_line(box: str) -> str:
    """The first paragraph of a box drawn around an error, or between rules of plain dashes."""
    words: list[str] = []
    for line in box.splitlines()[1:]:  # the first is the box's title
        text = line.strip("│╭╮╰╯ ")
        if text.strip("─-"):
            words.append(text)
        elif words:
            break
    said = " ".join(words) or box.strip()
    return re.sub(r"^Error parsing \w+: ", "", said)  # what settings say of themselves is enough


def _plain(value: Any) -> Any:
    """Tuples become lists: what JSON gives back."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
