"""Build the parts of an experiment: environment, players, learner, trainer and evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import jax
import jax.numpy as jnp

from brigade.core import (
    Benchmark,
    Cast,
    ContinualMethod,
    Environment,
    Learner,
    Matchmaker,
    Pairing,
    Round,
    Simulator,
    Source,
    TaskSequence,
    Windows,
)
from brigade.core.seating import arrangements, pairing_of, pairings
from brigade.core.trees import pick
from brigade.errors import as_user_errors
from brigade.histories import Batches, RecordedSource
from brigade.methods.ft import FineTuning
from brigade.partners.cast import cast_of
from brigade.partners.files import check_fits, load_policies, named_policies
from brigade.registry import unknown_name
from brigade.runs.config import Experiment, RunConfig
from brigade.runs.limits import check_memory, check_state_fits
from brigade.train import DeviceSource, Evaluator, Lineup, Players, Trainer, TrainState
from brigade.train.host import HostSource
from brigade.train.more_evaluations import FewShot, HeldOut
from brigade.train.recording import Recording
from brigade.train.trainer import AlsoEvaluate, stack_sequences


@dataclass(frozen=True)
class Parts:
    """The parts of an experiment."""

    benchmark: Benchmark
    sequences: list[TaskSequence]
    learner: Learner
    trainer: Trainer
    evaluator: Evaluator
    seeds: list[int]
    lineup: Lineup  # the partners, and the learner's seats
    also: tuple[AlsoEvaluate, ...] = ()  # evaluations beside that of all tasks

    @property
    def rounds(self) -> Round:
        """The tasks and pairings of all seeds, leaves [seeds, num_tasks, ...]."""
        return stack_sequences(self.sequences, self.lineup.pairings)

    def initial_state(self, index: int = 0) -> TrainState:
        """The state before training, in the game of task `index`."""
        lineup = self.lineup
        return self.trainer.init(self.seeds, self.rounds, lineup.cast, lineup.params, index)

    def abstract_state(self, index: int = 0) -> TrainState:
        """The shapes of the training state in a task, without computing it."""
        state: TrainState = jax.eval_shape(lambda: self.initial_state(index))
        return state


def assemble(experiment: Experiment) -> Parts:
    """Build everything an experiment names, without compiling anything."""
    config, benchmark = experiment.config, experiment.benchmark()
    seeds = range(config.seed, config.seed + config.seeds)
    steps = int(config.steps_per_task)
    check_memory(experiment, benchmark.env)
    with as_user_errors():  # settings that are valid on their own but not together
        sequences = [benchmark.sequence(seed, config.tasks, steps) for seed in seeds]
    return assemble_with(experiment, benchmark, sequences, list(seeds))


@as_user_errors()
def assemble_with(
    experiment: Experiment,
    benchmark: Benchmark,
    sequences: list[TaskSequence],
    seeds: list[int],
) -> Parts:
    """Build the parts for these sequences, one per seed."""
    config, method, env = experiment.config, experiment.method, benchmark.env
    learner = build_learner(experiment, env, sequences)
    method.check(learner, config.repetitions)
    check_task_ids(method, config.method, sequences)
    given = given_partners(config, benchmark)
    matchmaker = experiment.matchmaker(given.size)
    matchmaker.check(env, learner)
    cast = given if given.groups else matchmaker.cast(learner.policy)
    lineup = lineup_of(config, benchmark, matchmaker, cast, sequences)
    params = start_params(config, learner, env, benchmark.held_out)
    lineup = replace(lineup, params=params)
    players = Players(
        learner=learner.policy,
        cast=cast.groups,
        own_seats=lineup.pairings[0].arrangements.shape[-1] if cast.groups else 0,
        members=matchmaker.policies,
        names_partners=matchmaker if matchmaker.critic_ids else None,
        keeps_actions=config.histories > 0,
    )
    check_rollouts(config, matchmaker, env)
    tables = matchmaker.tables
    if matchmaker.policies == 1:
        tables = tables_for(config.num_envs, lineup.pairings)
    every = learner.carry_every(config.num_steps)
    games = games_of_tasks(sequences)
    sources = sources_of(experiment, benchmark, players, tables, every)
    tests = benchmark.test_games or benchmark.games or (env,)
    greedy = config.greedy or learner.evaluates_greedily
    evaluator = Evaluator(
        tests[0],
        players,
        method,
        config.eval_episodes,
        greedy,
        config.eval_consecutive,
        envs=tests,
        games=games,
    )
    trainer = Trainer(
        sources[0],
        learner,
        method,
        matchmaker,
        recording=recording_of(experiment, env, matchmaker),
        sources=sources,
        games=games,
    )
    also = more_evaluations(config, trainer, evaluator, benchmark.held_out, lineup)
    parts = Parts(benchmark, sequences, learner, trainer, evaluator, seeds, lineup, also)
    check_shapes(parts)
    return parts


def recording_of(
    experiment: Experiment, env: Environment, matchmaker: Matchmaker
) -> Recording | None:
    """What is kept of rollouts for learning histories, if any are asked for."""
    if not experiment.config.histories:
        return None
    if env.continuous or matchmaker.policies > 1 or experiment.learner.windows is not None:
        raise ValueError(
            "histories are of one policy that learns by playing, with discrete actions; remove "
            "--histories"
        )
    return Recording(experiment.config.num_envs)


def games_of_tasks(sequences: Sequence[TaskSequence]) -> tuple[int, ...]:
    """The game of each task, the same for all seeds; () if there is only one game."""
    first = sequences[0].games
    if any(sequence.games != first for sequence in sequences):
        raise ValueError("every seed must train on the games of a stream in the same order")
    return first


def sources_of(
    experiment: Experiment, benchmark: Benchmark, players: Players, tables: int, carry_every: int
) -> tuple[Source, ...]:
    """Where the rollouts of every game come from."""
    games = benchmark.games or (benchmark.env,)
    windows = experiment.learner.windows
    if windows is not None:
        return (recorded_source(experiment, benchmark, windows),) * len(games)
    config = experiment.config
    return tuple(source_of(game, players, config, tables, carry_every) for game in games)


def source_of(
    game: Environment, players: Players, config: RunConfig, tables: int, carry_every: int
) -> Source:
    """Where the rollouts of a game come from."""
    shape = (config.num_envs, config.num_steps, tables, carry_every)
    if game.traced:
        return DeviceSource(game, players, *shape)
    return HostSource(cast(Simulator, game), players, *shape, seeds=config.seeds)


def recorded_source(experiment: Experiment, benchmark: Benchmark, windows: Windows) -> Source:
    """Batches of the benchmark's histories: `num_envs` sequences of `num_steps` timesteps."""
    config = experiment.config
    if benchmark.histories is None:
        raise ValueError(
            f"{config.learner} learns from recorded histories and {benchmark.id} has none; use a "
            "learner that plays, such as ippo"
        )
    if config.generator != "none" or config.few_shot_updates:
        raise ValueError(
            f"{config.learner} learns from recorded histories; populations and few-shot updates "
            "need a learner that plays, such as ippo"
        )
    histories = benchmark.histories(config.seed, windows.needs)
    batches = Batches(histories, config.num_steps, config.num_envs, windows)
    return RecordedSource(batches, benchmark.env.num_actions)


def check_rollouts(config: RunConfig, matchmaker: Matchmaker, env: Environment) -> None:
    """Refuse rollouts that the matchmaker cannot use."""
    if config.num_envs % matchmaker.tables:
        raise ValueError(
            f"num_envs is {config.num_envs}; it must be a multiple of {matchmaker.tables}, the "
            "tables that the population needs"
        )
    if matchmaker.whole_episodes and config.num_steps < env.horizon:
        raise ValueError(
            f"num_steps is {config.num_steps}; this compares returns and needs rollouts of "
            f"whole episodes, use --num-steps {env.horizon}"
        )


def more_evaluations(
    config: RunConfig, trainer: Trainer, evaluator: Evaluator, held_out: Cast, lineup: Lineup
) -> tuple[AlsoEvaluate, ...]:
    """Evaluations with held-out partners and of few-shot clones, if there are any."""
    also: list[AlsoEvaluate] = []
    if lineup.held_out_names:
        seats = evaluator.env.num_agents
        choices = arrangements(config.seats, seats)
        players = replace(evaluator.players, cast=held_out.groups)
        pairing = pairings(held_out, [held_out.names], choices, seats)
        also.append(HeldOut(replace(evaluator, players=players), pairing, held_out.params))
    if config.few_shot_updates:
        clone, plain = trainer.learner.for_few_shot(), FineTuning()
        also.append(
            FewShot(
                replace(
                    trainer,
                    learner=clone,
                    method=plain,
                    recording=None,
                    source=trainer.source.for_clones(),
                    sources=tuple(source.for_clones() for source in trainer.sources),
                ),
                replace(evaluator, method=plain),
                config.few_shot_updates,
            )
        )
    return tuple(also)


def start_params(config: RunConfig, learner: Learner, env: Environment, held_out: Cast) -> Any:
    """The parameters that the learner starts from; None for initial ones."""
    word = config.start_from
    if not word:
        return None
    policies = named_policies(word) or load_policies(word)  # which says that it is none
    check_fits(policies, env, word)
    if len(policies.members) > 1:
        raise ValueError(
            f"{word} has {len(policies.members)} policies; name one, {word}:{policies.names[0]}"
        )
    check_network(learner, policies.policy, word)
    params = pick(policies.params, 0)
    if twin := member_like(params, held_out):
        raise ValueError(
            f"{word} is {twin}, which is held out for tests; start from another policy"
        )
    return params


def check_network(learner: Learner, theirs: Any, file: str) -> None:
    """Refuse a file whose network differs from the learner's."""
    params = jax.eval_shape(learner.init, jax.random.key(0)).params
    own: Any = learner.policy
    if theirs.kind != own.kind:
        words = {
            "q_network": "Q-learning (iql, vdn, pqn)",
            "actor_critic": "PPO (ippo, mappo, ppo)",
        }
        here, there = (words.get(each.kind, each.kind) for each in (own, theirs))
        raise ValueError(f"{file} was trained by {there} and the learner is {here}; use the same")
    here, there = own.actor(params, 0)[0].settings()["network"], theirs.settings()["network"]
    for name in sorted(here.keys() | there.keys()):
        if name != "dtype" and here.get(name) != there.get(name):
            raise ValueError(
                f"{file} has another network than the learner: {name} is {there.get(name)}, here "
                f"{here.get(name)}; use the same --network settings and number of tasks"
            )


def member_like(params: Any, cast: Cast) -> str:
    """The name of a member with these parameters; empty if there is none."""
    first = 0
    for group, stacked in zip(cast.groups, cast.params, strict=True):
        for member in range(group.size):
            if same_params(params, pick(stacked, member)):
                return cast.names[first + member]
        first += group.size
    return ""


def same_params(one: Any, other: Any) -> bool:
    """Whether both have the same entries with the same values."""
    mine, theirs = (dict(jax.tree_util.tree_leaves_with_path(tree)) for tree in (one, other))
    return mine.keys() == theirs.keys() and all(
        mine[path].shape == theirs[path].shape and bool((mine[path] == theirs[path]).all())
        for path in mine
    )


def check_task_ids(method: ContinualMethod, name: str, sequences: Sequence[TaskSequence]) -> None:
    """Refuse streams in which tasks come back, if the method cannot have that."""
    for sequence in sequences:
        new = bool((sequence.tasks.id == jnp.arange(len(sequence))).all())
        if not new and not method.tasks_may_recur:
            raise ValueError(
                f"{name} needs streams of new tasks, and in this one tasks come back; use another "
                "method or fewer --tasks"
            )


def build_learner(
    experiment: Experiment, env: Environment, sequences: Sequence[TaskSequence]
) -> Learner:
    """The learner of a policy, with whatever the method adds to its network."""
    config, generator = experiment.config, experiment.generator
    extra = {"critic_ids": generator.critic_ids} if generator and generator.critic_ids else {}
    mixes = experiment.method.mixes_tasks or experiment.learner.offline
    learner: Learner = experiment.learner.build(
        env,
        num_tasks=config.tasks,
        updates_per_task=config.updates_per_task * (config.tasks if mixes else 1),
        changing_inputs=changing_inputs(env, sequences),
        **extra,
    )
    return experiment.method.equip(learner)


def given_partners(config: RunConfig, benchmark: Benchmark) -> Cast:
    """The partners of a run: those of --partners, those of the benchmark, or none."""
    env, cast = benchmark.env, benchmark.cast
    if config.generator != "none":
        if config.partners:
            raise ValueError("a population trains without partners; remove --partners")
        if config.start_from or config.few_shot_updates:
            raise ValueError(
                "a population starts anew, and its evaluations have no few-shot updates"
            )
        return Cast()
    if config.partners and cast.groups:
        raise ValueError(
            f"{benchmark.id} has its own partners; choose them with --env.partners, not --partners"
        )
    if config.partners:
        return cast_of(config.partners, env, config.greedy_partners)
    if config.greedy_partners and cast.groups:
        return Cast(tuple(replace(g, greedy=True) for g in cast.groups), cast.params, cast.names)
    return cast


def lineup_of(
    config: RunConfig,
    benchmark: Benchmark,
    matchmaker: Matchmaker,
    cast: Cast,
    sequences: Sequence[TaskSequence],
) -> Lineup:
    """Whom the learner meets in training and evaluations, by seed and task."""
    env = benchmark.env
    if brought := matchmaker.evaluated():
        choices = arrangements(("random",), env.num_agents)
        return lineup_with(cast, [(brought,) * len(each) for each in sequences], choices, env)
    if (tables := matchmaker.evaluation(env.num_agents)) is not None:
        pairing, tasks = pairing_of(tables[0]), len(sequences[0])
        same = jax.tree.map(lambda x: jnp.broadcast_to(x, (tasks, *x.shape)), pairing)
        return Lineup(cast.params, [same] * len(sequences), tuple(tables[1]), ("all",))
    if not cast.groups:
        if tuple(config.seats) != tuple(benchmark.seats) or config.greedy_partners:
            raise ValueError("--seats and --greedy-partners need partners; add --partners")
        if config.partners_of_seed:
            raise ValueError("--partners-of-seed chooses among partners; add --partners")
        return Lineup()
    choices = arrangements(config.seats, env.num_agents)
    if len(choices[0]) == env.num_agents:
        raise ValueError(
            f"seats are {' '.join(config.seats)}; no seat is left for the partners, give fewer"
        )
    by_task = [sequence.partners or (cast.names,) * len(sequence) for sequence in sequences]
    if config.partners_of_seed:
        if any(sequence.partners for sequence in sequences):
            raise ValueError(
                f"{benchmark.id} says which partners every task has; remove --partners-of-seed"
            )
        met = met_by_seed(config.partners_of_seed, cast.names, config.seeds)
        by_task = [(names,) * len(sequence) for names, sequence in zip(met, sequences, strict=True)]
    lineup = lineup_with(cast, by_task, choices, env)
    return replace(lineup, held_out_names=benchmark.held_out.names)


def met_by_seed(words: Sequence[str], known: Sequence[str], seeds: int) -> list[tuple[str, ...]]:
    """The names of the partners of every seed, from one text of names per seed."""
    met = [tuple(name.strip() for name in word.split(",")) for word in words]
    if len(met) != seeds:
        raise ValueError(
            f"partners_of_seed has {len(met)} texts and seeds is {seeds}; give one text per seed"
        )
    for names in met:
        for name in names:
            if name not in known:
                raise ValueError(unknown_name("partner", name, known))
        if len(set(names)) < len(names):
            raise ValueError(f"partners_of_seed names a partner twice in {','.join(names)}")
    if len({len(names) for names in met}) > 1:
        raise ValueError(
            f"partners_of_seed has {' and '.join(str(len(names)) for names in met)} names; every "
            "seed must meet equally many partners"
        )
    return met


def lineup_with(
    cast: Cast,
    by_task: Sequence[Sequence[tuple[str, ...]]],
    choices: Sequence[tuple[int, ...]],
    env: Environment,
) -> Lineup:
    """The lineup of a learner whose partners are named by seed and task."""
    by_seed = [pairings(cast, names, choices, env.num_agents) for names in by_task]
    names = by_task[0][0]
    if len(set(by_task[0])) > 1:
        names = tuple(f"partner {number} of the task" for number in range(1, len(names) + 1))
    elif len({seed[0] for seed in by_task}) > 1:
        names = tuple(f"partner {number} of the seed" for number in range(1, len(names) + 1))
    seat_names = tuple("+".join(map(str, seats)) for seats in choices)
    return Lineup(cast.params, by_seed, names, seat_names)


MAX_TABLES = 64  # parameters of partners are gathered for every table


def tables_for(num_envs: int, pairings: Sequence[Pairing]) -> int:
    """The number of tables: 1 if every table would have the same policies on the same seats."""
    if not pairings:
        return 1
    partners, seats = pairings[0].evaluation.own.shape[-3:-1]
    if partners == 1 and seats == 1:
        return 1
    return max(n for n in range(1, min(num_envs, MAX_TABLES) + 1) if num_envs % n == 0)


def changing_inputs(env: Environment, sequences: Sequence[TaskSequence]) -> int | None:
    """The most entries of an observation that change within a task; None if not known."""
    counts = [env.changing_inputs(sequence.tasks) for sequence in sequences]
    return None if None in counts else max(count for count in counts if count is not None)


def check_shapes(parts: Parts) -> None:
    """Fail before compiling, for example if the samples do not divide into minibatches."""
    check_state_fits(parts.abstract_state())
    for clones in filter(None, (each.clones for each in parts.also)):
        replace(parts, trainer=clones).abstract_state()
