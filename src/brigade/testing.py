"""Contract tests: what every environment, policy, learner, method and generator must satisfy.

Brigade tests its own parts with these functions, and other packages can use them in their tests:

    from brigade.testing import check_environment
    def test_my_game():
        check_environment(*MyGame.example())

Each function raises an AssertionError with one line that names the violated requirement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import (
    Acting,
    ContinualMethod,
    Environment,
    Group,
    Learner,
    PlainTask,
    Policy,
    Round,
    Seating,
    Source,
    TaskSequence,
    TimeStep,
    Trajectory,
    View,
)
from brigade.core.seating import pairing_of
from brigade.core.trees import pick
from brigade.partners import Stay
from brigade.train import DeviceSource, Evaluator, Players, Trainer
from brigade.train.programs import init_policies, of_each_policy
from brigade.train.trainer import stack_sequences


def check_environment(env: Environment, sequence: TaskSequence) -> None:
    """Shapes and types, purity, one trace for all tasks, no automatic reset, an end in time.

    Only environments with discrete actions can be checked.
    """
    _expect(
        isinstance(env, Environment), "an environment is a subclass of brigade.core.Environment"
    )
    traces = []

    @jax.jit
    def reset(key: Any, task: Any) -> tuple[Any, TimeStep]:
        return env.reset(key, task)

    @jax.jit
    def step(key: Any, state: Any, action: Any, task: Any) -> tuple[Any, TimeStep]:
        traces.append(1)
        return env.step(key, state, action, task)

    key = jax.random.key(0)
    for index in range(len(sequence)):
        task = sequence[index]
        state, now = reset(key, task)
        _check_time_step(env, now, task)
        _expect(now.view.first.all(), "`first` is True for every seat after reset")
        _expect((now.view.prev_action == -1).all(), "`prev_action` is -1 after reset")
        action = _first_available(now.view)
        after, then = step(key, state, action, task)
        _check_time_step(env, then, task)
        _expect(not then.view.first.any(), "`first` is False after a step")
        _expect((then.view.prev_action == action).all(), "`prev_action` is the action played")
        _expect_same_form(
            (state, now),
            (after, then),
            "reset and step return trees of the same structure, shapes and types",
        )
        _expect(
            _weak_types((state, now)) == _weak_types((after, then)),
            "reset and step return arrays of explicit dtypes: a weak type of only one of them "
            "compiles every program twice",
        )
        _expect_equal(step(key, state, action, task), (after, then), "step is a pure function")
    _expect(len(traces) == 1, f"one trace serves all tasks; there were {len(traces)}")
    _check_end(env, reset, step, sequence[0])


def _check_time_step(env: Environment, now: TimeStep, task: Any) -> None:
    seats, view = env.num_agents, now.view
    shapes = {
        "obs": (view.obs, (seats, *env.obs_shape)),
        "avail": (view.avail, (seats, env.num_actions)),
        "prev_action": (view.prev_action, (seats,)),
        "prev_reward": (view.prev_reward, (seats,)),
        "first": (view.first, (seats,)),
        "active": (view.active, (seats,)),
        "task_id": (view.task_id, (seats,)),
        "reward": (now.reward, (seats,)),
        "terminated": (now.terminated, ()),
        "truncated": (now.truncated, ()),
    }
    for name, (array, shape) in shapes.items():
        _expect(array.shape == shape, f"{name} has shape {shape}, not {array.shape}")
    for name in ("avail", "first", "active"):
        _expect(getattr(view, name).dtype == bool, f"{name} is bool")
    _expect(now.reward.dtype == jnp.float32, "reward is float32")
    _expect(view.avail.any(-1).all(), "every seat has an available action")
    _expect((view.task_id == task.id).all(), "`task_id` in the view is the task's id")
    _expect("score" in now.info, "info has a score")


def _check_end(env: Environment, reset: Any, step: Any, task: Any) -> None:
    key = jax.random.key(1)
    state, now = reset(key, task)
    for _ in range(env.horizon):
        key, sub = jax.random.split(key)
        logits = jnp.where(now.view.avail, 0.0, -jnp.inf)
        state, now = step(sub, state, jax.random.categorical(sub, logits), task)
        if now.terminated or now.truncated:
            break
    _expect(
        bool(now.terminated | now.truncated),
        f"an episode ends within its horizon of {env.horizon} steps",
    )
    _expect(not now.view.first.any(), "an environment never resets itself")


def check_policy(policy: Policy, view: View, num_actions: int) -> None:
    """Discrete actions of the right shape and type for any batch axes; greedy ones do not sample.

    `view` is of one timestep, leaves [seats, ...].
    """
    params = jax.jit(policy.init)(jax.random.key(0))
    if policy.sees_state:
        view = view.with_state(view.state, jnp.arange(len(view.active)))
    batched = jax.tree.map(lambda x: np.broadcast_to(np.asarray(x), (3, 2, *x.shape)), view)
    for each in (view, batched):
        carry = policy.initial_carry(each.active.shape)
        action, after, _ = jax.jit(policy.act)(params, carry, each, jax.random.key(1))
        _expect(action.shape == each.active.shape, "there is one action per seat")
        _expect(action.dtype == jnp.int32, "actions are int32")
        played = np.asarray(action)
        _expect(((played >= 0) & (played < num_actions)).all(), "actions are in range")
        _expect_same_form(carry, after, "the recurrent state keeps its structure")

    @jax.jit
    def greedy(params: Any, view: View, key: Any) -> Any:
        carry = policy.initial_carry(view.active.shape)
        return policy.act(params, carry, view, key, greedy=True)[0]

    if not policy.always_samples:
        first, second = (greedy(params, view, jax.random.key(seed)) for seed in (1, 2))
        _expect_equal(first, second, "greedy actions do not depend on the key")


def check_avail(policy: Policy, view: View, num_actions: int) -> None:
    """If only one action is available, it is taken."""
    params, carry = jax.jit(policy.init)(jax.random.key(0)), policy.initial_carry(view.active.shape)
    act = jax.jit(policy.act)
    for only in range(num_actions):
        avail = np.broadcast_to(np.arange(num_actions) == only, view.avail.shape)
        action, _, _ = act(params, carry, view.replace(avail=avail), jax.random.key(only))
        taken = (np.asarray(action) == only).all()
        _expect(taken, f"action {only} is taken if it alone is available")


def check_learner(learner: Learner, source: Source, task: Any) -> None:
    """Minibatches of a rollout have finite losses, and gradient steps change the parameters."""
    key = jax.random.key(0)
    state = jax.jit(learner.init)(key)
    start = jax.jit(source.start)(key, task)
    play = jax.jit(source.next) if source.traced else source.next
    _, traj = play(start, Acting(state.params), task, key)
    state = learner.allocate(state, traj)
    prepared, data, indices = jax.jit(learner.prepare)(state, traj, key)
    _expect_same_form(state, prepared, "prepare keeps the structure of the learner's state")

    @jax.jit
    def learn(prepared: Any, data: Any, indices: Any, key: Any) -> Any:
        index = pick(indices, 0)
        batch, params = learner.take(data, index), prepared.params
        loss_of = jax.value_and_grad(learner.loss, has_aux=True)
        (loss, metrics), grads = loss_of(params, prepared, batch, key)
        after = learner.after_update(learner.apply_gradients(prepared, grads), index, metrics)
        logits = learner.outputs(params, batch).logits
        return loss, metrics, grads, after, logits, learner.begin_task(after)

    loss, metrics, grads, stepped, logits, next_task = learn(prepared, data, indices, key)
    _expect(loss.shape == () and _finite(loss), "the loss is a finite scalar")
    _expect(
        all(m.ndim <= 1 for m in metrics.values()), "metrics are scalars or one number per sample"
    )
    _expect(_finite(grads), "gradients are finite")
    _expect_same_form(state, stepped, "a gradient step keeps the structure of the learner's state")
    _expect(_differs(state.params, stepped.params), "a gradient step changes the parameters")
    _expect(_finite(logits), "outputs are finite")
    _expect_same_form(state, next_task, "begin_task keeps the structure of the learner's state")
    _expect(int(next_task.updates) == 0, "begin_task sets `updates` to 0")


def check_method(
    method: ContinualMethod, trainer: Trainer, evaluator: Evaluator, sequence: TaskSequence
) -> None:
    """Train two tasks: all hooks keep structures, numbers are finite, and the run repeats.

    The end of a task's last phase, which comes after the task's last evaluation, leaves the policy
    as it was.
    """
    shares = sum(share for _, share in method.phases)
    _expect(abs(shares - 1.0) < 1e-6, f"the shares of the phases sum to 1, not {shares}")
    _expect(is_hashable(method), "a method is a frozen dataclass, so that it compiles once")
    rounds = stack_sequences([sequence])

    def run() -> Any:
        state = trainer.init([0], rounds)
        for task in (0, 1):
            state = trainer.begin_task(state, rounds, task)
            for phase, _ in method.phases:
                before = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), state)
                state, metrics = trainer.step(state, rounds, task)
                _expect(_finite(metrics), "metrics are finite")
                evaluated = _moves(trainer, state, rounds)  # right if this is the last phase
                state = trainer.end_phase(state, rounds, task, phase)
                _expect_same_form(before, state, "hooks keep the structure of the training state")
            _expect_equal(
                evaluated,
                _moves(trainer, state, rounds),
                "the end of a task's last phase does not change the policy: it was evaluated "
                "before, and another would be saved; prepare the next task in begin_task",
            )
        return state

    first, second = run(), run()
    _expect_equal(first.learner.params, second.learner.params, "a run repeats from its seed")
    memory, params = pick((first.memory, first.learner.params), 0)
    acting = method.acting_params(memory, params, jnp.int32(0))
    _expect_same_form(params, acting, "acting_params keeps the structure of the parameters")
    score = jax.jit(evaluator)(params, memory, Round(sequence.tasks), jax.random.key(0)).score
    _expect(_finite(score), "scores are finite")


def _moves(trainer: Trainer, state: Any, rounds: Round) -> list[Any]:
    """What the policy does and records in a rollout of every task, with its acting parameters."""
    first = pick(state.replace(source=(), key=()), 0)
    found = []
    for index in range(rounds.task.id.shape[1]):
        task = pick(rounds.task, (0, index))
        acting = trainer.method.acting_params(first.memory, first.learner.params, task.id)
        found.append(_played(trainer.source, Acting(acting), task, jax.random.key(1)))
    return found


@partial(jax.jit, static_argnums=0)
def _played(source: Source, acting: Acting, task: Any, key: Any) -> Any:
    _, traj = source.next(source.start(key, task), acting, task, key)
    return traj.action, traj.extras


def check_generator(generator: Any, trainer: Trainer, env: Environment, traj: Trajectory) -> None:
    """All policies have equally many seats, states keep their structure, numbers are finite.

    `trainer` has the generator as its matchmaker, `traj` is a rollout of `generator.tables` tables.
    """
    key, seats, learner = jax.random.key(0), env.num_agents, trainer.learner
    names = generator.names()
    _expect(len(names) == generator.policies, "every policy has a name")
    _expect(len(set(names)) == len(names), "no two policies have the same name")
    _expect(0 < generator.members <= generator.policies, "members are among the policies")
    _expect(is_hashable(generator), "a generator is a frozen dataclass, so that it compiles once")
    params = jax.jit(lambda key: init_policies(trainer, key).params)(key)
    state = generator.init(params, learner.policy, key)
    evaluated, called = generator.evaluation(seats)
    _expect(len(called) == len(evaluated.own), "every table of an evaluation has a name")
    pairing = pairing_of(evaluated)
    seat = jax.jit(lambda state, key: generator.seat(state, pairing, generator.tables, seats, key))
    for seating in (seat(state, key), evaluated):
        own = np.asarray(seating.member)[np.asarray(seating.own)]
        counts = np.bincount(own, minlength=generator.policies)
        _expect(
            len(counts) == generator.policies, "seatings contain only policies of the population"
        )
        _expect(len(set(counts.tolist())) == 1, "every policy has equally many seats")
        _expect(
            len(set(np.asarray(seating.own).sum(1).tolist())) == 1,
            "the population has equally many seats at every table",
        )
        ids = np.asarray(generator.critic_id(seating))
        _expect(ids.shape == seating.member.shape, "there is a partner id for every seat")
        _expect(
            (ids >= 0).all() and (ids < max(generator.critic_ids, 1)).all(),
            "partner ids are in range",
        )

    @jax.jit
    def pay(state: Any, params: Any, traj: Trajectory, key: Any) -> Any:
        paid = generator.reward(state, learner, params, traj)
        after = generator.after(state, params, traj, key)
        return paid, after, of_each_policy(trainer, params, state, traj).reward

    paid, after, each = pay(state, params, traj, key)
    _expect_same_form(traj, paid, "reward keeps the structure of the rollout")
    _expect(_finite(paid.reward), "rewards are finite")
    _expect_same_form(state, after, "after keeps the structure of the generator's state")
    _expect(len(each) == generator.policies, "every policy gets a rollout of its own")


def check_own_moves(build: Callable[[Environment, int], Learner]) -> None:
    """A learner's gradient does not depend on its partner's actions.

    `build(env, num_tasks)` builds the learner for a game in which seats cannot influence each
    other. There it observes and earns the same with any partner, so its gradient must be the same.
    """
    env = Apart()
    learner = build(env, 1)
    state = jax.jit(learner.init)(jax.random.key(0))
    key, task = jax.random.key(1), PlainTask(jnp.int32(0))
    seating = Seating(jnp.zeros((2, 2), jnp.int32), jnp.array([[True, False], [False, True]]))

    def gradient(partner: Policy, params: Any) -> Any:
        source = DeviceSource(
            env, Players(learner.policy, (Group(partner),), own_seats=1), 4, env.horizon, 2
        )

        @jax.jit
        def play_and_learn(state: Any, params: Any) -> Any:
            acting = Acting(state.params, (params,), seating)
            _, traj = source.next(source.start(key, task), acting, task, key)
            state = learner.allocate(state, traj)
            prepared, data, indices = learner.prepare(state, traj, key)
            batch = learner.take(data, pick(indices, 0))
            return jax.grad(lambda p: learner.loss(p, prepared, batch, key)[0])(state.params), traj

        return play_and_learn(state, params)

    policy = learner.policy
    other = jax.tree.map(lambda x: x[None], policy.init(jax.random.key(2)))
    (alone, played), (with_other, _) = gradient(Stay(0), ()), gradient(policy, other)
    _expect(
        played.action.shape[:3] == (env.horizon, 4, 1),
        "a rollout holds the learner's own seats only",
    )
    _expect(_differs(alone, jax.tree.map(np.zeros_like, alone)), "there is a gradient")
    pairs = zip(jax.tree.leaves(alone), jax.tree.leaves(with_other), strict=True)
    same = all(np.allclose(x, y, atol=1e-6) for x, y in pairs)
    _expect(same, "partners' actions contribute no gradient")


@dataclass(frozen=True)
class Apart(Environment):
    """Two seats that do not interact: a seat observes the time, and its action is its reward."""

    num_agents = 2
    num_actions = 3
    obs_shape = (4,)
    horizon = 4

    def reset(self, key: Any, task: PlainTask) -> tuple[Any, TimeStep]:
        """Start at time 0."""
        return jnp.int32(0), self._time_step(jnp.int32(0), jnp.full(2, -1, jnp.int32), task)

    def step(self, key: Any, state: Any, action: Any, task: PlainTask) -> tuple[Any, TimeStep]:
        """Advance the time by 1."""
        return state + 1, self._time_step(state + 1, action.astype(jnp.int32), task)

    def _time_step(self, time: Any, action: Any, task: PlainTask) -> TimeStep:
        seats = (2,)
        view = View(
            obs=jnp.broadcast_to(jax.nn.one_hot(time, 4, dtype=jnp.uint8), (2, 4)),
            avail=jnp.ones((2, 3), bool),
            prev_action=action,
            prev_reward=action.astype(jnp.float32),
            first=jnp.broadcast_to(time == 0, seats),
            active=jnp.ones(seats, bool),
            task_id=jnp.broadcast_to(task.id, seats),
        )
        reward = action.astype(jnp.float32)
        return TimeStep(view, reward, jnp.bool_(False), time >= 4, {"score": jnp.float32(0.0)})


def check_trajectory(traj: Trajectory, num_steps: int, num_envs: int) -> None:
    """Leaves are [num_steps, num_envs, ...], and slots without a step end no episode."""
    for leaf in jax.tree.leaves((traj.view, traj.action, traj.reward, traj.valid, traj.extras)):
        _expect(leaf.shape[:2] == (num_steps, num_envs), "leaves are [num_steps, num_envs, ...]")
    idle = ~traj.valid
    ended = traj.terminated | traj.truncated
    _expect(not bool((idle & ended).any()), "no episode ends in a slot without a step")


def _first_available(view: View) -> Any:
    return view.avail.argmax(-1).astype(jnp.int32)


def _differs(a: Any, b: Any) -> bool:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return any((np.asarray(x) != np.asarray(y)).any() for x, y in pairs)


def _finite(tree: Any) -> bool:
    return all(np.isfinite(np.asarray(leaf, np.float32)).all() for leaf in jax.tree.leaves(tree))


def is_hashable(part: Any) -> bool:
    """Whether a part can be a static argument of a compiled program."""
    try:
        hash(part)
    except TypeError:
        return False
    return True


def _weak_types(tree: Any) -> list[bool]:
    """Which leaves have a dtype that JAX may still change, as Python numbers have."""
    return [leaf.weak_type for leaf in jax.tree.leaves(tree)]


def _expect_same_form(a: Any, b: Any, requirement: str) -> None:
    """Same tree structure, shapes and dtypes, as a scan needs."""
    structure_of: Any = jax.tree.structure
    same = structure_of(a) == structure_of(b) and all(
        x.shape == y.shape and x.dtype == y.dtype
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )
    _expect(same, requirement)


def _expect_equal(a: Any, b: Any, requirement: str) -> None:
    _expect_same_form(a, b, requirement)
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    _expect(all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in pairs), requirement)


def _expect(holds: Any, requirement: str) -> None:
    if not bool(holds):
        raise AssertionError(f"violated requirement: {requirement}")
