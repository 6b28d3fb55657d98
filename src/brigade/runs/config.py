"""The config of a run: one frozen tree of settings, from flags, a file or a dictionary.

Settings from every source become flags for one parser, so a config file is checked as strictly as
the command line. Flags override the file, and the file overrides the preset.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from brigade import registry
from brigade.core import Benchmark, ContinualMethod, Environment, LearnerSettings, Matchmaker
from brigade.core.checks import at_least, positive, within
from brigade.errors import UserError
from brigade.populations import Generator
from brigade.populations.coplay import Ranked
from brigade.reading import entry, expect, parse_json, parse_toml, read_bytes, shown
from brigade.runs.code_files import with_kept_code
from brigade.runs.folder import FORMAT, MAX_CONFIG_BYTES
from brigade.runs.partner_files import name_by_hash, with_paths
from brigade.runs.trust import checked_settings, map_texts, require_trust

SHORT_FLAGS = {"--from": "--start-from"}
MAX_SEED = 2**32  # exclusive: random keys are made from 32 bits
MIN_ENVS = 16  # default number of environments per policy of a population
MAX_UPDATES = 2**31 - 1  # per task, since they are counted in 32 bits


@dataclass(frozen=True)
class RunConfig:
    """The experiment."""

    benchmark: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BENCHMARK")]
    """The benchmark: a name (`brigade list benchmarks`) or path/to/file.py:name."""
    method: str = "ft"
    """Continual method: a name (`brigade list methods`) or path/to/file.py:Name."""
    learner: str = "ippo"
    """RL algorithm: a name (`brigade list learners`) or path/to/file.py:Name."""
    generator: str = "none"
    """Train a population of policies instead of one, see `brigade population`.
    A name (`brigade list generators`) or path/to/file.py:Name."""
    partners: tuple[str, ...] = ()
    """Policies for the other seats; without any, the learner plays all seats.
    Names (`brigade list partners`), policy files (`brigade export`),
    one member of a file as FILE:NAME, or path/to/file.py:Name."""
    partners_of_seed: tuple[str, ...] = ()
    """Which of the partners each seed meets, if not all of them:
    one text per seed, names separated by commas."""
    seats: tuple[str, ...] = ("random",)
    """The learner's seats when it has partners: numbers from 0, or random.
    Random seats are shared out evenly over the environments, or resampled before rollouts."""
    greedy_partners: bool = False
    """Partners take greedy actions instead of sampling."""
    partner_sampling: Literal["uniform", "ranked"] = "uniform"
    """How often partners are met: all alike, or by the rank of the learner's return with them, the
    hardest partner most often (MEP's second stage)."""
    rank_exponent: float = 1.0
    """With ranked sampling, a partner's weight is its rank to this power."""
    preset: str = "auto"
    """Where the defaults come from: paper, laptop, or another preset of the benchmark.
    auto is paper on an accelerator and laptop on a CPU."""
    seeds: int = 1
    """Number of seeds, trained in parallel."""
    seed: int = 0
    """The first seed; the others are seed + 1, seed + 2 and so on."""
    tasks: int = 1
    """Number of tasks, trained one after another."""
    steps_per_task: float = 1e6
    """Environment steps per task and seed, rounded to whole rollouts."""
    num_envs: int = 1
    """Parallel environments per seed; of a learner from histories, the sequences of a batch."""
    num_steps: int = 1
    """Length of a rollout: steps per environment, or timesteps of a sequence."""
    repetitions: int = 1
    """How many times to train the whole sequence; each task keeps its head."""
    eval_every: int = 1
    """Updates between evaluations of all tasks; an update trains on one rollout."""
    eval_episodes: int = 10
    """Episodes per task and evaluation."""
    eval_consecutive: int = 1
    """Consecutive evaluation episodes over which the learner keeps its recurrent state."""
    greedy: bool = False
    """Take greedy actions in evaluations instead of sampling."""
    few_shot_updates: int = 0
    """Updates of a clone on each task before it is evaluated as well; 0 for no such evaluation."""
    start_from: str = ""
    """Policy file or run folder with the parameters to start from (`--from`); FILE:NAME or RUN:NAME
    for one of several."""
    snapshots: int = 0
    """How many policy files to keep in RUN/snapshots, at evenly spaced evaluations."""

    def __post_init__(self) -> None:
        counts = ("seeds", "tasks", "repetitions", "num_envs", "num_steps")
        for name in (*counts, "eval_every", "eval_episodes", "eval_consecutive"):
            at_least(name, getattr(self, name), 1)
        within("seeds", self.seeds, 1, MAX_SEED)
        at_least("seed", self.seed, 0)
        at_least("snapshots", self.snapshots, 0)
        at_least("few_shot_updates", self.few_shot_updates, 0)
        within("seed", self.seed, 0, MAX_SEED - self.seeds)
        positive("steps_per_task", self.steps_per_task)
        at_least("rank_exponent", self.rank_exponent, 0.0)
        if self.updates_per_task > MAX_UPDATES:
            raise ValueError(
                f"steps_per_task is {self.steps_per_task:g}; that is more than "
                f"{MAX_UPDATES:,} updates, give fewer steps"
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
    def total_tasks(self) -> int:
        """Tasks times repetitions."""
        return self.tasks * self.repetitions


@dataclass(frozen=True)
class Experiment:
    """The config of a run with the settings of its learner, method, environment and generator."""

    config: RunConfig
    learner: LearnerSettings
    method: ContinualMethod
    env: Any = None  # the environment's settings, if the benchmark has any
    generator: Generator | None = None  # the generator itself, if a population is trained

    def benchmark(self) -> Benchmark:
        """The benchmark, configured with the settings of its environment."""
        return configured(load_benchmark(self.config.benchmark), self.env)

    def matchmaker(self, partners: int) -> Matchmaker:
        """Who decides whom the learner meets; `partners` is the size of the cast."""
        if self.generator is not None:
            return self.generator
        if self.config.partner_sampling == "uniform":
            return Matchmaker()
        if not partners:
            raise ValueError(
                f"partner_sampling is {self.config.partner_sampling}; it needs partners, add "
                "--partners"
            )
        return Ranked(partners, self.config.rank_exponent)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in a config file."""
        tree = dataclasses.asdict(self.config) | dataclasses.asdict(self.learner)
        for name, settings in (
            ("env", self.env),
            ("method_settings", self.method),
            ("generator_settings", self.generator),
        ):
            values = dataclasses.asdict(settings) if settings is not None else {}
            tree |= {name: values} if values else {}
        return map_texts(tree, str)

    def as_json(self, version: str, code: Mapping[str, str] | None = None) -> str:
        """The text of config.json, in which policy files are named by their hash.

        `code` says where the copies of the user's Python files are.
        """
        config, _ = name_by_hash(self.as_dict())
        head = {"format": FORMAT, "brigade": version, **self.declared()}
        return json.dumps(head | ({"code": code} if code else {}) | {"config": config}, indent=2)

    def declared(self) -> dict[str, Any]:
        """What reports need to know of the benchmark, the method and the generator."""
        benchmark, generator = self.benchmark(), self.generator
        sets = generator.sets(benchmark.env.num_agents) if generator else benchmark.held_out_sets
        # Its own name only: a subclass of EWC that gives itself none is not EWC.
        name = vars(type(self.method)).get("display_name")
        found = {
            "measures": generator.measures if generator else benchmark.measures,
            "names": {"method": name} if name else {},
            "meanings": dict(benchmark.env.meanings),
            "sets": dict(sets),
        }
        return {what: value for what, value in found.items() if value}


def from_dict(tree: Mapping[str, Any], arguments: Sequence[str] = ()) -> Experiment:
    """An experiment from settings as in a config file, and flags that override them."""
    tree = checked_settings(dict(tree))
    benchmark_name = tree.pop("benchmark", "")
    words = [long_flag(word) for word in arguments]
    if words and not words[0].startswith("-"):
        benchmark_name = words.pop(0)
    if not benchmark_name:
        raise UserError(
            "no benchmark given; try brigade run meal/level-1, or see brigade list benchmarks"
        )
    if words and not words[0].startswith("-"):
        raise UserError(
            f"unexpected {words[0]!r} after the benchmark; settings are flags: --tasks 3"
        )
    benchmark = load_benchmark(benchmark_name)
    chosen = _choices(tree, words, benchmark)
    shape = _experiment_type(chosen, benchmark)
    given = [*as_flags(tree), *words]
    defaults = _defaults(benchmark, chosen, shape)
    _check_names([*as_flags(defaults), *given], shape)
    parsed = _parse(shape, [benchmark_name, *as_flags(defaults), *given])
    generator = getattr(parsed, "generator", None)
    if benchmark.settings is not None or generator is not None:  # these can change the defaults
        benchmark = configured(benchmark, getattr(parsed, "env", None))
        defaults = _defaults(benchmark, chosen, shape, generator)
        parsed = _parse(shape, [benchmark_name, *as_flags(defaults), *given])
        parsed = dataclasses.replace(parsed, **settled(parsed, benchmark))
    config = dataclasses.replace(parsed.config, preset=chosen["preset"])
    config = dataclasses.replace(
        config, steps_per_task=config.updates_per_task * config.steps_per_update
    )
    env = getattr(parsed, "env", None)
    return Experiment(config, parsed.learner, parsed.method, env, generator)


def long_flag(word: str) -> str:
    """The flag that a short one stands for."""
    flag, equals, value = word.partition("=")
    return SHORT_FLAGS[flag] + equals + value if flag in SHORT_FLAGS else word


def settled(parsed: Any, benchmark: Benchmark) -> dict[str, Any]:
    """The environment's settings as the configured benchmark has them: it may complete them, such
    as the policy files of a pool."""
    return {"env": benchmark.settings} if getattr(parsed, "env", None) is not None else {}


def from_json(text: str, folder: Path, say: Callable[[str], None] = print) -> Experiment:
    """Read the config.json of a run folder; `say` is told if the user's code has changed since."""
    where = str(folder / "config.json")
    settings = with_paths(settings_of_run(text, where), folder)
    return from_dict(with_kept_code(settings, code_of_run(text, where), folder, say))


def settings_of_run(content: bytes | str, where: str) -> dict[str, Any]:
    """The settings in the config.json of a run."""
    tree = parse_json(content, where)
    number = entry(tree, "format", int, where)
    if number != FORMAT:
        raise UserError(
            f"{where} has format {number}, this Brigade reads {FORMAT}; "
            f"install version {shown(tree.get('brigade', 'unknown'))}, which wrote it"
        )
    return checked_settings(entry(tree, "config", dict, where), where)


def code_of_run(content: bytes | str, where: str) -> dict[str, str]:
    """Where a run keeps copies of the user's Python files."""
    tree = parse_json(content, where)
    code = entry(tree, "code", dict, where) if "code" in tree else {}
    return {
        file: expect(copy, str, f"{where}: the copy of {shown(file)}")
        for file, copy in code.items()
    }


def read_file(path: str, trust: bool = False) -> dict[str, Any]:
    """Read a config file: TOML, or the config.json of a run. Code it names needs `trust`."""
    try:
        content = read_bytes(path, MAX_CONFIG_BYTES, follow=True)
    except FileNotFoundError as error:
        raise UserError(f"cannot read the config file {path}: {error.strerror}") from error
    parse = parse_json if path.endswith(".json") else parse_toml
    tree = expect(parse(content, path), dict, path)
    if path.endswith(".json") and "format" in tree:  # otherwise written by hand
        settings = settings_of_run(content, path)
        require_trust(settings, trust, path)
        folder = Path(path).parent
        code = code_of_run(content, path)
        return with_kept_code(with_paths(settings, folder), code, folder, print_error)
    require_trust(tree, trust, path)
    return checked_settings(tree, path)


def print_error(line: str) -> None:
    """Print a line to standard error."""
    print(f"brigade: {line}", file=sys.stderr)


def load_benchmark(name: str) -> Benchmark:
    """The benchmark with a name."""
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
    if not isinstance(benchmark.env, Environment):
        raise UserError(
            f"{type(benchmark.env).__name__} is not an environment; it must be a subclass of "
            "brigade.core.Environment"
        )
    return benchmark


def configured(benchmark: Benchmark, settings: Any) -> Benchmark:
    """The benchmark with these settings of its environment."""
    if benchmark.configure is None or settings is None:
        return benchmark
    try:
        return benchmark.configure(settings)
    except ValueError as error:
        raise UserError(str(error)) from error


def help_text(arguments: Sequence[str]) -> str:
    """The help of `brigade run`, with the defaults of the given benchmark, learner and method.

    They are those of `--preset`, or else those that this machine would use.
    """
    words = [word for word in arguments if word not in ("-h", "--help")]
    named = bool(words) and not words[0].startswith("-")
    name = words[0] if named else "meal/level-1"
    benchmark = load_benchmark(name)
    chosen = _choices({}, words[1:] if named else words, benchmark)
    shape = _experiment_type(chosen, benchmark)
    parsed = _parse(shape, [name, *as_flags(_defaults(benchmark, chosen, shape))])
    defaults = _defaults(benchmark, chosen, shape, getattr(parsed, "generator", None))
    parsed = _parse(shape, [name, *as_flags(defaults)])
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        tyro.cli(shape, default=parsed, args=["--help"], prog="brigade run", config=_CONF)
    return f"{shown.getvalue()}\n{shown_preset(name, chosen, words, benchmark)}\n"


def shown_preset(
    name: str, chosen: Mapping[str, str], words: Sequence[str], benchmark: Benchmark
) -> str:
    """Which defaults a help text shows, why, and how to see others."""
    preset = chosen["preset"]
    asked = any(word.partition("=")[0] == "--preset" for word in words)
    reason = "" if asked else f", which auto is on this machine ({machine()})"
    known = {"paper", *benchmark.presets}
    others = [f"--preset {each} --help" for each in sorted(known - {preset})]
    text = f"The defaults above are those of {name} with the preset {preset}{reason}."
    if others:
        text += f" Others are shown by brigade run {name} {' or '.join(others)}."
    return textwrap.fill(text, 80, break_on_hyphens=False)


def machine() -> str:
    """What JAX computes on, in words."""
    import jax

    return {"cpu": "a CPU", "gpu": "a GPU", "tpu": "a TPU"}.get(
        jax.default_backend(), jax.default_backend()
    )


def _choices(tree: Mapping[str, Any], words: Sequence[str], benchmark: Benchmark) -> dict[str, str]:
    """The learner, method, preset and generator, which decide what other settings exist."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("learner", "method", "preset", "generator"):
        parser.add_argument(f"--{name}")
    try:
        found, _ = parser.parse_known_args(list(words))
    except argparse.ArgumentError as error:
        raise UserError(f"{error.argument_name} needs a value") from error
    chosen = {"learner": benchmark.learner, "method": "ft", "preset": "auto", "generator": "none"}
    chosen |= {name: tree[name] for name in chosen if name in tree}
    chosen |= {name: value for name, value in vars(found).items() if value is not None}
    for name, value in chosen.items():
        if not value:
            raise UserError(f"{name} is empty; give a name, or leave it out")
    if chosen["preset"] == "auto":
        import jax

        small = jax.default_backend() == "cpu" and "laptop" in benchmark.presets
        chosen["preset"] = "laptop" if small else "paper"
    known = {"auto", "paper", *benchmark.presets}
    if chosen["preset"] not in known:
        raise UserError(registry.unknown_name("preset", chosen["preset"], known))
    return chosen


def _defaults(
    benchmark: Benchmark, chosen: Mapping[str, str], shape: Any, generator: Any = None
) -> dict[str, Any]:
    """The defaults of the benchmark, overridden by the preset's, the method's, the generator's."""
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
        **({"start_from": benchmark.start_from} if benchmark.start_from else {}),
    }
    preset = benchmark.presets.get(chosen["preset"], {})
    tree = merged(merged(paper, preset), benchmark.methods.get(chosen["method"], {}))
    if generator is not None:
        tree = merged(tree, population_defaults(tree, generator))
    tree = merged(tree, benchmark.generators.get(chosen["generator"], {}))
    learner: Any = shape.__dataclass_fields__["learner"].default
    return for_learner(learner, tree)


def for_learner(learner: LearnerSettings, tree: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that this learner does not have, such as PPO's for Q-learning."""
    groups = {
        name: vars(group)
        for name, group in vars(learner).items()
        if dataclasses.is_dataclass(group)
    }
    return {
        name: {key: value for key, value in part.items() if key in groups.get(name, {})}
        if name in ("ppo", "network", "q", "training")
        else part
        for name, part in tree.items()
    }


def population_defaults(tree: Mapping[str, Any], generator: Any) -> dict[str, Any]:
    """One task, one seed, and steps and environments in proportion to the policies."""
    defaults = {
        "seeds": 1,
        "tasks": 1,
        "steps_per_task": float(tree["steps_per_task"] * generator.policies),
        "num_envs": max(tree["num_envs"], MIN_ENVS * generator.policies),
    }
    defaults = merged(defaults, generator.defaults)
    defaults["num_envs"] = -(-defaults["num_envs"] // generator.tables) * generator.tables
    return defaults


def merged(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Both trees; `b` overrides `a`."""
    tree = dict(a)
    for name, value in b.items():
        inner = tree.get(name)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            value = merged(inner, value)
        tree[name] = value
    return tree


RUN_HELP = "Train on a stream of tasks and evaluate all of them along the way."
POPULATION_HELP = "Train many policies in parallel, to be used as partners."
_CONF = (tyro.conf.OmitSubcommandPrefixes,)


def has_no_default(setting: dataclasses.Field[Any]) -> bool:
    """Whether a setting must be given, which no benchmark could do for all methods."""
    missing = dataclasses.MISSING
    return setting.init and setting.default is missing and setting.default_factory is missing


BASES: dict[str, type] = {
    "learner": LearnerSettings,
    "method": ContinualMethod,
    "generator": Generator,
}


def _experiment_type(chosen: Mapping[str, str], benchmark: Benchmark) -> Any:
    """A dataclass like Experiment, with the types of the chosen learner, method and so on."""
    learner_type = registry.get("learners", chosen["learner"])
    method_type = registry.get("methods", chosen["method"])
    kinds: list[tuple[str, Any]] = [("learner", learner_type), ("method", method_type)]
    if chosen["generator"] != "none":
        kinds.append(("generator", registry.get("generators", chosen["generator"])))
    for what, kind in kinds:
        if not issubclass(kind if isinstance(kind, type) else object, BASES[what]):
            raise UserError(
                f"{chosen[what]} is not a {what}; it must be a subclass of {where_is(BASES[what])}"
            )
        if not is_frozen_dataclass(kind):
            raise UserError(f"{chosen[what]} is not a {what}; it must be a frozen dataclass")
        if bare := [each.name for each in dataclasses.fields(kind) if has_no_default(each)]:
            raise UserError(f"{chosen[what]}: the setting {bare[0]} needs a default")
    flat = tyro.conf.arg(name="")
    more: list[Any] = []
    if benchmark.settings is not None:
        env: Any = Annotated[type(benchmark.settings), tyro.conf.arg(name="env")]
        more = [("env", env, dataclasses.field(default=benchmark.settings))]
    for what, chosen_type in kinds[2:]:
        settings: Any = Annotated[chosen_type, tyro.conf.arg(name=f"{what}-settings")]
        more.append((what, settings, dataclasses.field(default=chosen_type())))
    # Not called Experiment: the parser would look up that class for help texts, which Python 3.12
    # and 3.11 do differently.
    return dataclasses.make_dataclass(
        "Flags",
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


def where_is(base: type) -> str:
    """Where one imports a base class from."""
    package = ".".join(base.__module__.split(".")[:2])
    return f"{package}.{base.__name__}"


def is_frozen_dataclass(kind: Any) -> bool:
    """Whether `kind` is a class that `@dataclass(frozen=True)` made."""
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return False
    return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


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
            if any(map(is_flag, words)):
                raise UserError(f"{flag} is {shown(' '.join(words))}; a value cannot start with --")
            flags += [f"--{flag}", *words]
    return flags


def is_flag(word: str) -> bool:
    """Whether a value would be parsed as a flag; negative numbers are not."""
    return word.startswith("-") and not re.match(r"-[\d.]|-inf|-nan", word)


def known_flags(shape: Any) -> Iterator[str]:
    """All flags of an experiment's type."""
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


def _check_names(flags: Sequence[str], shape: Any) -> None:
    """Reject unknown flags, with the nearest known one."""
    known = set(known_flags(shape)) - {"benchmark"}
    for word in flags:
        if word.startswith("--"):
            name = word[2:].partition("=")[0].replace("_", "-")
            if name not in known:
                near = nearest_setting(name, known)
                hint = f"did you mean {near!r}?" if near else "see brigade run --help"
                raise UserError(f"unknown setting {name!r}: {hint}")


# What other libraries call a setting, and its last part here.
OTHER_NAMES = {
    "lr": "learning-rate",
    "lambda": "gae-lambda",
    "clip-eps": "clip",
    "ent-coef": "entropy-coef",
    "vf-coef": "value-coef",
}


def nearest_setting(name: str, known: Iterable[str]) -> str | None:
    """The setting with the same last part, or with a similar one, first in the same group."""
    group, _, last = name.rpartition(".")
    last = OTHER_NAMES.get(last, last)
    known = sorted(known)
    same = [each for each in known if each.rpartition(".")[0] == group]
    for settings, cutoff in ((known, 1.0), (same, 0.6), (known, 0.8)):
        by_last = {each.rpartition(".")[2]: each for each in settings}
        if near := registry.nearest(last, by_last, cutoff):
            return by_last[near]
    return None


def _parse(shape: Any, words: Sequence[str]) -> Any:
    """Parse flags; the parser's boxed error message becomes one line."""
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            return tyro.cli(shape, args=list(words), prog="brigade run", config=_CONF)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UserError(_one_line(message.getvalue())) from None
    except ValueError as error:
        raise UserError(str(error)) from None


# Error messages of the parser, and what to say instead.
PLAIN_ERRORS = (
    (
        r"^Error parsing (--\S+): invalid literal for int\(\) with base 10: ('.*')$",
        r"\1: \2 is not an integer",
    ),
    (
        r"^Error parsing (--\S+): could not convert string to float: ('.*')$",
        r"\1: \2 is not a number",
    ),
    (
        r"^Error parsing (--\S+): no type matching \{None\}\|INT could .* \[('.*')\]\.$",
        r"\1: \2 is not an integer",
    ),
    (
        r"^Error parsing (--\S+): no type matching \{None\}\|FLOAT could .* \[('.*')\]\.$",
        r"\1: \2 is not a number",
    ),
    (r"^Missing value for argument '(--\S+)'\. Expected 1 values\.$", r"\1 needs a value"),
    (r"^Error parsing [\w.]+: ", ""),  # errors of settings name themselves
)


def _one_line(box: str) -> str:
    """The first paragraph of an error message in a box, or between lines of dashes."""
    words: list[str] = []
    for line in box.splitlines()[1:]:  # the first line is the title
        text = line.strip("│╭╮╰╯ ")
        if text.strip("─-"):
            words.append(text)
        elif words:
            break
    text = " ".join(words) or box.strip()
    for pattern, plain in PLAIN_ERRORS:
        text = re.sub(pattern, plain, text)
    return text
