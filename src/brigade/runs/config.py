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
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from brigade import registry
from brigade.core import Benchmark, ContinualMethod, Environment, LearnerSettings, Matchmaker
from brigade.core.checks import at_least, each, positive, within
from brigade.errors import UserError, as_user_errors
from brigade.populations import Generator
from brigade.populations.coplay import Ranked
from brigade.runs.flags import CONF, as_flags, check_names, long_flag, parse
from brigade.runs.folder import FORMAT
from brigade.runs.kept_files import name_by_hash
from brigade.runs.trust import checked_settings, map_texts

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
    histories: int = 0
    """Keep so many learning histories of every seed and task in RUN/histories: those of the
    environments whose returns end highest and improve most."""
    history_steps: int = 0
    """Histories hold so many timesteps of every episode, the first ones; 0: all."""

    def __post_init__(self) -> None:
        each(at_least, self, "seeds tasks repetitions num_envs num_steps", 1)
        each(at_least, self, "eval_every eval_episodes eval_consecutive", 1)
        each(at_least, self, "seed snapshots few_shot_updates histories history_steps", 0)
        at_least("rank_exponent", self.rank_exponent, 0.0)
        within("seeds", self.seeds, 1, MAX_SEED)
        within("seed", self.seed, 0, MAX_SEED - self.seeds)
        positive("steps_per_task", self.steps_per_task)
        if self.histories > self.num_envs:
            raise ValueError(
                f"histories is {self.histories} and num_envs {self.num_envs}; every history is of "
                "an environment of its own"
            )
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
    check_names([*as_flags(defaults), *given], shape)
    parsed = parse(shape, [benchmark_name, *as_flags(defaults), *given])
    generator = getattr(parsed, "generator_settings", None)
    if benchmark.settings is not None or generator is not None:  # these can change the defaults
        benchmark = configured(benchmark, getattr(parsed, "env", None))
        defaults = _defaults(benchmark, chosen, shape, generator)
        parsed = parse(shape, [benchmark_name, *as_flags(defaults), *given])
    config = parsed.config
    steps = config.updates_per_task * config.steps_per_update
    config = dataclasses.replace(config, preset=chosen["preset"], steps_per_task=steps)
    # As the configured benchmark has them: it may complete them, such as the files of a pool.
    env = None if getattr(parsed, "env", None) is None else benchmark.settings
    return Experiment(config, parsed.learner, parsed.method_settings, env, generator)


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
    with as_user_errors():
        return benchmark.configure(settings)


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
    parsed = parse(shape, [name, *as_flags(_defaults(benchmark, chosen, shape))])
    defaults = _defaults(benchmark, chosen, shape, getattr(parsed, "generator_settings", None))
    parsed = parse(shape, [name, *as_flags(defaults)])
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        tyro.cli(shape, default=parsed, args=["--help"], prog="brigade run", config=CONF)
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
    given = dataclasses.field
    flat = tyro.conf.arg(name="")
    fields: list[Any] = [
        ("config", Annotated[RunConfig, flat]),
        ("learner", Annotated[learner_type, flat], given(default=learner_type())),
        ("method_settings", method_type, given(default=method_type())),
    ]
    if benchmark.settings is not None:
        fields.append(("env", type(benchmark.settings), given(default=benchmark.settings)))
    for _, generator_type in kinds[2:]:
        fields.append(("generator_settings", generator_type, given(default=generator_type())))
    # Not called Experiment: the parser would look up that class for help texts, which Python 3.12
    # and 3.11 do differently.
    doc = {"__doc__": POPULATION_HELP if kinds[2:] else RUN_HELP}
    return dataclasses.make_dataclass("Flags", fields, frozen=True, namespace=doc)


def where_is(base: type) -> str:
    """Where one imports a base class from."""
    package = ".".join(base.__module__.split(".")[:2])
    return f"{package}.{base.__name__}"


def is_frozen_dataclass(kind: Any) -> bool:
    """Whether `kind` is a class that `@dataclass(frozen=True)` made."""
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return False
    return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
