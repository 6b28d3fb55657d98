"""`brigade bench` and the scripts of bench/: how fast each part of training is on this machine."""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import jax
import tyro
from rich.console import Console

from brigade.benchmarks.meal import KitchenSettings, kitchens
from brigade.cli.plan import device
from brigade.core import Acting, Environment, Key
from brigade.core.compile import jit, keep_programs
from brigade.core.trees import choose, pick
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.methods.ft import FineTuning
from brigade.nets.settings import Precision
from brigade.populations.sp import SelfPlay
from brigade.report.table import Table
from brigade.runs.assemble import assemble
from brigade.runs.config import Experiment, RunConfig
from brigade.runs.speed import Speed, speed_of
from brigade.train.collect import ends_with_rollouts
from brigade.train.play import reset_all, step_all
from brigade.train.programs import TrainState, evaluate
from brigade.train.trainer import stack_sequences
from brigade.train.update import update

EVAL_EVERY, EVAL_EPISODES = 5, 10
PAPER_STEPS, MINUTE = 1e8, 60.0
Level: TypeAlias = Literal["1", "2", "3"]


@dataclass(frozen=True)
class TrainingSetting:
    """What is trained; the defaults are the MEAL release's."""

    level: Level = "1"
    tasks: int = 20  # in the sequence
    learn_tasks: int = 1  # of them to learn and time
    agents: int = 2  # in a kitchen
    population: int = 0  # policies that learn side by side from the same environments; 0: one
    seeds: int = 1  # side by side
    num_envs: int = 2048  # per seed
    num_steps: int = 400  # of a rollout
    num_minibatches: int = 16  # per epoch
    epochs: int = 8  # per update
    hidden: tuple[int, ...] = (128, 128)
    encoder: str = "mlp"
    memory: Literal["none", "gru", "lstm"] = "none"
    sequence_length: int = 0  # of a recurrent policy; 0: the learner's choice
    updates: int = 15  # to time, per task
    evaluate: bool = False  # all tasks, every 5 updates
    precision: Precision = "auto"

    @property
    def steps_per_update(self) -> int:
        """Over all seeds."""
        return self.seeds * self.num_envs * self.num_steps


@dataclass(frozen=True)
class TrainingSpeed(Speed):
    """With what it means for all tasks of the setting at the paper's 1e8 steps each."""

    projected_minutes: float


class Training:
    """A setting made ready: parts, tasks and a state in the first task."""

    def __init__(self, setting: TrainingSetting, updates_per_task: int = 100) -> None:
        parts = assemble(experiment_of(setting, updates_per_task))
        self.trainer, self.evaluator, self.seeds = parts.trainer, parts.evaluator, parts.seeds
        self.tasks = stack_sequences(parts.sequences, parts.lineup.pairings)

    def start(self) -> TrainState:
        """Fresh parameters, in the first task."""
        return self.trainer.begin_task(self.trainer.init(self.seeds, self.tasks), self.tasks, 0)

    def one_seed(self) -> tuple[TrainState, Any]:
        """The state and the first task of the first seed alone."""
        state = jax.tree.map(lambda leaf: leaf[0], self.start())
        return state, pick(pick(self.tasks, 0), 0).task

    def evaluate(self, state: TrainState, number: int) -> Any:
        """Play all tasks."""
        keys = jax.random.split(jax.random.key(number), len(self.seeds))
        return evaluate(self.trainer, self.evaluator, state, self.tasks, keys)


def experiment_of(setting: TrainingSetting, updates_per_task: int) -> Experiment:
    """Fine-tuning on kitchens, alone or as a population."""
    config = RunConfig(
        benchmark=f"meal/level-{setting.level}",
        seeds=setting.seeds,
        tasks=setting.tasks,
        steps_per_task=float(updates_per_task * setting.num_envs * setting.num_steps),
        num_envs=setting.num_envs,
        num_steps=setting.num_steps,
        eval_episodes=EVAL_EPISODES,
        generator="sp" if setting.population else "none",
    )
    ppo = PPOConfig(
        epochs=setting.epochs,
        minibatches=setting.num_minibatches,
        sequence_length=setting.sequence_length or None,
    )
    network = NetworkConfig(
        hidden=setting.hidden,
        encoder=setting.encoder,
        memory=setting.memory,
        precision=setting.precision,
    )
    population = SelfPlay(setting.population) if setting.population else None
    kitchen = KitchenSettings(num_agents=setting.agents)
    return Experiment(config, IPPO(ppo, network), FineTuning(), kitchen, population)


def training_speed(setting: TrainingSetting) -> TrainingSpeed:
    """Whole updates, with evaluations if asked; the median over stretches of them."""
    training = Training(setting)
    trainer, tasks, state = training.trainer, training.tasks, training.start()

    def stretch(state: TrainState, task: int, number: int) -> TrainState:
        for _ in range(EVAL_EVERY if setting.evaluate else 1):
            state, _ = trainer.step(state, tasks, task)
        if setting.evaluate:
            jax.block_until_ready(training.evaluate(state, number))
        return jax.block_until_ready(state)

    began = time.perf_counter()
    state = jax.block_until_ready(trainer.step(state, tasks, 0)[0])
    first = time.perf_counter() - began
    state = trainer.end_phase(stretch(state, 0, 0), tasks, 0, "train")  # to compile it, too
    updates_per_stretch = EVAL_EVERY if setting.evaluate else 1
    stretches = max(1, setting.updates // updates_per_stretch)
    seconds, began = [], time.perf_counter()
    for task in range(setting.learn_tasks):
        state = trainer.begin_task(state, tasks, task)
        for number in range(stretches):
            stretch_began = time.perf_counter()
            state = stretch(state, task, number)
            seconds.append(time.perf_counter() - stretch_began)
        state = trainer.end_phase(state, tasks, task, "train")
    whole = time.perf_counter() - began
    per_stretch = setting.steps_per_update * updates_per_stretch
    median = statistics.median(seconds)
    rate_of_all = per_stretch * len(seconds) / whole
    return TrainingSpeed(
        steps_per_second=per_stretch / median,
        compile_seconds=first - median / updates_per_stretch,
        projected_minutes=setting.seeds * setting.tasks * PAPER_STEPS / rate_of_all / MINUTE,
    )


def collect_speed(setting: TrainingSetting) -> Speed:
    """Acting and stepping, without learning; one seed."""
    training = Training(setting)
    state, task = training.one_seed()

    @jit
    def rollout(state: TrainState, key: Key) -> Any:
        return training.trainer.source.next(state.source, Acting(state.learner.params), task, key)[
            1
        ]

    return speed_of(
        lambda number: rollout(state, jax.random.key(number)), setting.num_envs * setting.num_steps
    )


def update_speed(setting: TrainingSetting) -> Speed:
    """Learning from one rollout, without collecting it; one seed."""
    training = Training(setting)
    state, task = training.one_seed()
    play = jit(training.trainer.source.next)
    _, traj = play(state.source, Acting(state.learner.params), task, state.key)

    @jit
    def learn(learner: Any, traj: Any, key: Key) -> Any:
        return update(training.trainer.learner, FineTuning(), key, learner, (), traj)[0]

    return speed_of(
        lambda number: learn(state.learner, traj, jax.random.key(number)),
        setting.num_envs * setting.num_steps,
    )


def evaluation_speed(setting: TrainingSetting) -> Speed:
    """Playing `EVAL_EPISODES` games of every task."""
    training = Training(setting)
    state = training.start()
    steps = setting.seeds * setting.tasks * EVAL_EPISODES * training.evaluator.env.horizon
    return speed_of(lambda number: training.evaluate(state, number), steps)


def environment_speed(env: Environment, task: Any, num_envs: int, num_steps: int = 400) -> Speed:
    """Random play with observations; games that end start again."""
    restarts = not ends_with_rollouts(env, num_steps)

    @jit
    def rollout(key: Key, task: Any) -> Any:
        start_key, act_key, scan_key = jax.random.split(key, 3)
        shape = (num_steps, num_envs, env.num_agents)
        actions = jax.random.randint(act_key, shape, 0, env.num_actions)

        def step(state: Any, move: tuple[Any, Key]) -> tuple[Any, Any]:
            action, keys = move
            state, then = step_all(env, keys[0], state, action, task)
            if restarts:
                fresh = reset_all(env, keys[1], task, num_envs)
                over = then.truncated | then.terminated
                state, then = choose(over, fresh, (state, then))
            # The sums keep the observations in the program. They are over games only: on a CPU, a
            # sum over everything (0.4 ns per entry) can take longer than the step.
            obs = then.view.obs
            return state, (then.reward.sum(), obs.sum(0, dtype=obs.dtype))

        state, _ = reset_all(env, start_key, task, num_envs)
        return jax.lax.scan(step, state, (actions, jax.random.split(scan_key, (num_steps, 2))))[1]

    return speed_of(lambda number: rollout(jax.random.key(number), task), num_envs * num_steps)


def print_result(name: str, setting: TrainingSetting | dict[str, Any], speed: Speed) -> None:
    """One line for people, one JSON object for programs."""
    plain = setting if isinstance(setting, dict) else dataclasses.asdict(setting)
    result = {"bench": name, "setting": plain, "device": device()}
    print(f"{name}: {speed.steps_per_second:,.0f} steps/s")
    print(json.dumps(result | dataclasses.asdict(speed)))


def setting_from(words: Sequence[str], description: str | None) -> TrainingSetting:
    """Read a setting from flags; keeps compiled programs unless --no-cache is one of them."""
    if "--no-cache" not in words:
        keep_programs()
    flags = [word for word in words if word != "--no-cache"]
    about = (description or "").partition("\n")[0]
    return tyro.cli(TrainingSetting, args=flags, description=about)


def usual_setting(level: Level = "1", updates: int = 5) -> TrainingSetting:
    """The settings of docs/performance.md: the paper's on an accelerator, small on a CPU."""
    setting = TrainingSetting(level=level, updates=updates)
    if jax.default_backend() != "cpu":
        return setting
    return dataclasses.replace(setting, num_envs=16, num_minibatches=8, epochs=4, hidden=(64, 64))


def quick_speed() -> TrainingSpeed:
    """How fast this machine trains on level 1, in about ten seconds."""
    return training_speed(usual_setting(updates=10))


def print_bench(level: Level, num_envs: int | None) -> None:
    """A table with one row per part."""
    on_cpu = jax.default_backend() == "cpu"
    setting = usual_setting(level)
    setting = dataclasses.replace(setting, num_envs=num_envs or setting.num_envs)
    benchmark = kitchens(level)
    task = benchmark.sequence(0, 1, 1)[0]
    crowd = 1024 if on_cpu else 16384
    parts: tuple[tuple[str, Callable[[], Speed]], ...] = (
        (f"environment alone, {crowd:,}", lambda: environment_speed(benchmark.env, task, crowd)),
        (f"collecting, {setting.num_envs:,}", lambda: collect_speed(setting)),
        ("learning", lambda: update_speed(setting)),
        (f"evaluating {setting.tasks} tasks", lambda: evaluation_speed(setting)),
        ("training, all of it", lambda: training_speed(setting)),
    )
    console, rows = Console(), list[tuple[str, str, str]]()
    with console.status("") as status:
        for name, measure in parts:
            status.update(f"measuring: {name}")
            speed = measure()
            steps, seconds = f"{speed.steps_per_second:,.0f}", f"{speed.compile_seconds:.1f} s"
            rows.append((name, steps, seconds))
    title = f"kitchens of level {level} on {device()}"
    Table(("part", "steps per second", "compiling"), rows, title, names=3).to_terminal(
        console, "full"
    )
