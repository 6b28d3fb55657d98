"""Recurrent Q-learning with prioritised replay (R2D2), each seat for itself or seats summed (VDN).

Rollouts are cut into sequences. Each is stored with the recurrent state the policy had at its
start. A rollout is followed by a number of gradient steps on sequences sampled from the buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import optax
from flax import struct

from brigade.core import (
    Array,
    Environment,
    Key,
    LearnerState,
    Metrics,
    Outputs,
    ParameterGroups,
    Trajectory,
)
from brigade.core.checks import at_least, positive, within
from brigade.learners import prioritised
from brigade.learners.losses import total_reward
from brigade.learners.ppo import Precision, dtype_of, take_rows, unpacked_avail
from brigade.nets.q_network import QNetwork, QPolicy


@dataclass(frozen=True)
class QConfig:
    """Settings of recurrent Q-learning. Defaults are those of the Lifelong Hanabi paper."""

    learning_rate: float = 6.25e-5
    """Learning rate at the start of every task."""
    final_learning_rate: float | None = None
    """Learning rate at the end of every task; the decay is exponential. None for no decay."""
    optimizer: Literal["adam", "sgd"] = "adam"
    """The optimiser."""
    adam_eps: float = 1.5e-5
    """Adam's epsilon."""
    momentum: float = 0.8
    """Momentum of SGD."""
    max_grad_norm: float = 5.0
    """Gradients are clipped to this global norm."""
    gamma: float = 0.999
    """Discount factor."""
    n_step: int = 3
    """Steps of reward before the target network's value."""
    double: bool = True
    """The network in training chooses the action whose value the target network gives."""
    sequence_length: int | None = None
    """Timesteps of a stored sequence; it must divide num_steps. None is num_steps."""
    burn_in: int = 0
    """First timesteps of a sequence that only bring the recurrent state up to date."""
    batch_size: int = 32
    """Sequences per gradient step."""
    gradient_steps: int = 8
    """Gradient steps per rollout."""
    buffer_size: int = 32768
    """Sequences in the replay buffer, which is emptied at the start of every task."""
    warm_up: int = 1000
    """Sequences in the buffer before learning begins."""
    priority_exponent: float = 0.9
    """Exponent of priorities in sampling; 0 samples uniformly."""
    importance_exponent: float = 0.6
    """Exponent of the weights that make up for sampling by priority; 0 for none."""
    priority_max_share: float = 0.9
    """A sequence's priority is this share of its largest error and the rest of its mean error."""
    target_every: int = 2500
    """Gradient steps between updates of the target network."""
    exploration: float = 0.1
    """Largest rate of random actions; environment i of 80 has it to the power 1 + 7 i / 79."""
    shaping_steps: float | None = 2.5e6
    """Steps of a task over which shaped rewards decay linearly to 0; None for no decay."""
    share_shaping: bool = True
    """Every seat gets the sum of the shaped rewards of all seats."""
    reset_optimizer: bool = False
    """Reset the optimiser at the start of every task."""

    def __post_init__(self) -> None:
        for name in ("n_step", "batch_size", "gradient_steps", "target_every"):
            at_least(name, getattr(self, name), 1)
        for name in ("burn_in", "warm_up"):
            at_least(name, getattr(self, name), 0)
        for name in ("learning_rate", "adam_eps", "max_grad_norm"):
            positive(name, getattr(self, name))
        for name in ("final_learning_rate", "shaping_steps"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        for name in (
            *("gamma", "momentum", "priority_exponent", "importance_exponent"),
            *("priority_max_share", "exploration"),
        ):
            within(name, getattr(self, name), 0.0, 1.0)
        if self.buffer_size < max(self.batch_size, self.warm_up):
            raise ValueError(
                f"buffer_size is {self.buffer_size}; it must hold a batch of {self.batch_size} and "
                f"the {self.warm_up} sequences of the warm-up"
            )


@dataclass(frozen=True)
class QNetworkConfig:
    """Settings of the network; defaults are type 1 of the Lifelong Hanabi paper, but wider."""

    encoder: Literal["mlp", "cnn"] = "mlp"
    """Type of the feed-forward layers."""
    hidden: tuple[int, ...] = (512,)
    """Sizes of the feed-forward layers."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation function of the hidden layers."""
    layer_norm: bool = False
    """Layer norm in every feed-forward layer."""
    memory: Literal["none", "gru", "lstm"] = "lstm"
    """Type of the recurrent layers."""
    memory_size: int = 512
    """Units of a recurrent layer."""
    memory_layers: int = 1
    """Number of recurrent layers."""
    dueling: bool = True
    """A head for the state's value and one for the actions' advantages."""
    precision: Precision = "auto"
    """Precision of the hidden layers; auto is bfloat16 on an accelerator and float32 on a CPU."""

    def __post_init__(self) -> None:
        if not self.hidden:
            raise ValueError("hidden is empty; give at least one layer size, e.g. 512")
        for size in (*self.hidden, self.memory_size, self.memory_layers):
            at_least("hidden, memory_size and memory_layers", size, 1)

    def build(self, env: Environment) -> QNetwork:
        """The network."""
        return QNetwork(
            num_actions=env.num_actions,
            encoder=self.encoder,
            hidden=tuple(self.hidden),
            activation=self.activation,
            layer_norm=self.layer_norm,
            memory=self.memory,
            memory_size=self.memory_size,
            memory_layers=self.memory_layers,
            dueling=self.dueling,
            dtype=dtype_of(self.precision),
        )


class Sequences(struct.PyTreeNode):
    """Stored experience, with T timesteps of the seats whose values are summed."""

    obs: Array  # [sequences, T + 1, seats, *observation]
    avail: Array  # [sequences, T + 1, seats, bytes] packed bits
    first: Array  # [sequences, T + 1, seats] bool
    carry: Any  # [sequences, seats, ...] at the first timestep
    action: Array  # [sequences, T, seats] int32
    active: Array  # [sequences, T, seats] bool
    reward: Array  # [sequences, T] f32: the mean over seats
    terminated: Array  # [sequences, T] bool
    truncated: Array  # [sequences, T] bool
    valid: Array  # [sequences, T] bool: False for a slot without a step


class QBatch(struct.PyTreeNode):
    """A minibatch of sequences."""

    sequences: Sequences
    importance: Array  # [sequences] f32

    @property
    def weight(self) -> Array:
        """[sequences, T * seats] f32: 1 where a seat acted."""
        acted = self.sequences.active & self.sequences.valid[..., None]
        return acted.reshape(len(acted), -1).astype(jnp.float32)

    @property
    def timesteps(self) -> int:
        """Timesteps per sequence, counted for every seat."""
        return int(self.sequences.action[0].size)


class Sampled(struct.PyTreeNode):
    """What selects minibatches: leaves [gradient steps, batch size]."""

    slot: Array  # int32, in the buffer
    importance: Array  # f32


class ReplayState(struct.PyTreeNode):
    """What Q-learning keeps beside the parameters."""

    target: Any  # parameters of the target network
    steps: Array  # int32: gradient steps so far
    buffer: Any = None  # a prioritised.Buffer once `allocate` has seen a rollout


@dataclass(frozen=True)
class QLearner:
    """Recurrent double Q-learning on the learner's own seats."""

    policy: QPolicy
    config: QConfig
    updates_per_task: int  # rollouts per task, for the learning rate schedule
    joint: bool = False  # the values of all own seats are summed (VDN)
    num_tasks: int = 1

    evaluates_greedily: ClassVar[bool] = True

    def groups(self, params: Any) -> ParameterGroups:
        """The roles of the parameters, as declared by the network."""
        return self.policy.network.groups(params)

    def init(self, key: Key) -> LearnerState:
        """Initial parameters and optimiser state, without a buffer."""
        params = self.policy.init(key)
        replay = ReplayState(params, jnp.int32(0))
        return LearnerState(params, self._optimizer().init(params), jnp.int32(0), replay)

    def allocate(self, state: LearnerState, traj: Trajectory) -> LearnerState:
        """Reserve the replay buffer, for sequences such as those of `traj`."""
        sequences = self._sequences(state, traj)
        number = len(sequences.reward)
        if number > self.config.buffer_size:
            raise ValueError(
                f"buffer_size is {self.config.buffer_size}, but a rollout has {number} sequences; "
                "use a larger buffer or fewer environments"
            )
        buffer = prioritised.empty(sequences, self.config.buffer_size)
        return state.replace(aux=state.aux.replace(buffer=buffer))

    def begin_task(self, state: LearnerState) -> LearnerState:
        """Empty the buffer and restart the schedules; the target network catches up."""
        if self.config.reset_optimizer:
            state = state.replace(opt_state=self._optimizer().init(state.params))
        replay = state.aux.replace(target=state.params)
        if replay.buffer is not None:
            replay = replay.replace(buffer=prioritised.cleared(replay.buffer))
        return state.replace(updates=jnp.int32(0), aux=replay)

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Sequences, Sampled]:
        """Store the rollout, and sample the sequences of all gradient steps."""
        cfg, replay = self.config, state.aux
        buffer = prioritised.add(replay.buffer, self._sequences(state, traj))
        ready = (buffer.filled >= cfg.warm_up).astype(jnp.float32)

        def sampled(key: Key) -> Sampled:
            slot, probability = prioritised.sample(
                buffer, cfg.batch_size, cfg.priority_exponent, key
            )
            weights = prioritised.importance_weights(
                probability, buffer.filled, cfg.importance_exponent
            )
            return Sampled(slot, ready * weights)

        index = jax.vmap(sampled)(jax.random.split(key, cfg.gradient_steps))
        state = state.replace(updates=state.updates + 1, aux=replay.replace(buffer=buffer))
        return state, buffer.entries, index

    def _sequences(self, state: LearnerState, traj: Trajectory) -> Sequences:
        """Cut a rollout into sequences."""
        cfg, steps = self.config, traj.action.shape[0]
        length = cfg.sequence_length or steps
        if steps % length:
            raise ValueError(
                f"sequence_length is {length} and num_steps {steps}; it must divide num_steps"
            )
        if cfg.burn_in >= length:
            raise ValueError(f"burn_in is {cfg.burn_in}; it must be below {length}, a sequence")
        shaping = self._shaping_weight(state.updates, traj.valid.size)
        reward = total_reward(traj, shaping, cfg.share_shaping)
        view, last = traj.view, traj.last_view
        starts = range(0, steps, length)

        def split_seats(x: Array) -> Array:
            """[starts, T, B, seats, ...] -> [sequences, T, summed seats, ...]."""
            x = jnp.moveaxis(x, 1, 2)  # [starts, B, T, seats, ...]
            if not self.joint:
                x = jnp.moveaxis(x, 3, 2)[:, :, :, :, None]
                return x.reshape(-1, *x.shape[3:])
            return x.reshape(-1, *x.shape[2:])

        def with_end(x: Array, end: Array) -> Array:
            whole = jnp.concatenate([x, end[None]])
            return split_seats(jnp.stack([whole[t : t + length + 1] for t in starts]))

        def steps_of(x: Array) -> Array:
            return split_seats(x.reshape(len(starts), length, *x.shape[1:]))

        def of_game(x: Array) -> Array:
            """[T, B] -> [sequences, T]."""
            every_seat = jnp.broadcast_to(x[..., None], (*x.shape, view.active.shape[2]))
            return steps_of(every_seat)[:, :, 0]

        return Sequences(
            obs=with_end(view.obs, last.obs),
            avail=with_end(jnp.packbits(view.avail, -1), jnp.packbits(last.avail, -1)),
            first=with_end(view.first, last.first),
            carry=jax.tree.map(
                lambda x: split_seats(x[::length][:, None])[:, 0], traj.extras["carry"]
            ),
            action=steps_of(traj.action),
            active=steps_of(view.active),
            reward=steps_of(reward).mean(-1),
            terminated=of_game(traj.terminated),
            truncated=of_game(traj.truncated),
            valid=of_game(traj.valid),
        )

    def take(self, data: Sequences, index: Sampled) -> QBatch:
        """One minibatch."""
        return QBatch(take_rows(data, index.slot), index.importance)

    def standalone(self, batch: QBatch) -> QBatch:
        """Sequences can be stored as they are."""
        return batch

    def loss(
        self, params: Any, state: LearnerState, batch: QBatch, key: Key
    ) -> tuple[Array, Metrics]:
        """Huber loss of the n-step errors, summed over a sequence."""
        error = self._errors(params, state.aux.target, batch.sequences)  # [sequences, T]
        total = (batch.importance * optax.huber_loss(error).sum(-1)).mean()
        size = jnp.abs(jax.lax.stop_gradient(error))
        share = self.config.priority_max_share
        counted = jnp.maximum(self._counts(batch.sequences).sum(-1), 1.0)
        priority = share * size.max(-1) + (1 - share) * size.sum(-1) / counted
        return total, {"loss": total, "td_error": size.mean(), "priority": priority}

    def rehearse(self, params: Any, state: LearnerState, batch: QBatch) -> tuple[Array, Metrics]:
        """The same loss on sequences of earlier tasks."""
        error = self._errors(params, state.aux.target, batch.sequences)
        return optax.huber_loss(error).sum(-1).mean(), {}

    def _errors(self, params: Any, target: Any, sequences: Sequences) -> Array:
        """Errors of the chosen actions' values [sequences, T], 0 where they do not count."""
        cfg = self.config
        values = self._values(params, sequences)  # [sequences, T + 1, seats, actions]
        chosen = at_action(values[:, :-1], sequences.action).sum(-1)
        of_target = jax.lax.stop_gradient(self._values(target, sequences))
        best = (values if cfg.double else of_target).argmax(-1)
        after = at_action(of_target, best).sum(-1)  # [sequences, T + 1]
        returns = n_step_returns(
            sequences.reward,
            after,
            sequences.terminated,
            sequences.truncated,
            cfg.gamma,
            cfg.n_step,
        )
        return (returns - chosen) * self._counts(sequences)

    def _counts(self, sequences: Sequences) -> Array:
        """[sequences, T] f32: 1 for steps that were played, after the burn-in."""
        length = sequences.valid.shape[1]
        return (sequences.valid & (jnp.arange(length) >= self.config.burn_in)).astype(jnp.float32)

    def _values(self, params: Any, sequences: Sequences) -> Array:
        """Values of all actions [sequences, T + 1, seats, actions]."""
        avail = unpacked_avail(sequences.avail, self.policy.network.num_actions)
        obs, avail, first = (x.swapaxes(0, 1) for x in (sequences.obs, avail, sequences.first))
        carry, start = sequences.carry, self.config.burn_in
        parts = []
        if start:  # no gradient goes through the burn-in
            early, carry = jax.lax.stop_gradient(
                self.policy.values(params, obs[:start], avail[:start], first[:start], carry)
            )
            parts = [early]
        late, _ = self.policy.values(params, obs[start:], avail[start:], first[start:], carry)
        return jnp.concatenate([*parts, late]).swapaxes(0, 1)

    def outputs(self, params: Any, batch: QBatch) -> Outputs:
        """Values of all actions in place of logits [sequences, T * seats, actions]."""
        values = self._values(params, batch.sequences)[:, :-1]
        return Outputs(values.reshape(len(values), -1, values.shape[-1]), None)

    def diagnose(self, params: Any, batch: QBatch) -> Metrics:
        """Nothing more."""
        return {}

    def apply_gradients(self, state: LearnerState, grads: Any) -> LearnerState:
        """One step of the optimiser at the current learning rate."""
        steps, opt_state = self._optimizer().update(grads, state.opt_state, state.params)
        rate = self._learning_rate(state.updates)
        params = jax.tree.map(lambda p, s: p - rate * s, state.params, steps)
        return state.replace(params=params, opt_state=opt_state)

    def after_update(self, state: LearnerState, index: Sampled, metrics: Metrics) -> LearnerState:
        """New priorities of the sampled sequences; from time to time a new target network."""
        replay = state.aux
        learned = index.importance.max() > 0  # not in the warm-up
        old = replay.buffer.priority[index.slot]
        priority = jnp.where(learned, metrics["priority"], old)
        steps = replay.steps + learned.astype(jnp.int32)
        renew = learned & (steps % self.config.target_every == 0)
        target = jax.tree.map(lambda p, t: jnp.where(renew, p, t), state.params, replay.target)
        buffer = prioritised.reprioritise(replay.buffer, index.slot, priority)
        return state.replace(aux=ReplayState(target, steps, buffer))

    def _optimizer(self) -> optax.GradientTransformation:
        cfg = self.config
        rule = (
            optax.scale_by_adam(eps=cfg.adam_eps)
            if cfg.optimizer == "adam"
            else optax.trace(cfg.momentum)
        )
        return optax.chain(optax.clip_by_global_norm(cfg.max_grad_norm), rule)

    def _learning_rate(self, updates: Array) -> Array | float:
        cfg = self.config
        if cfg.final_learning_rate is None:
            return cfg.learning_rate
        # `prepare` has already counted the current rollout; for the first one this is 0.
        done = jnp.clip((updates - 1) / self.updates_per_task, 0.0, 1.0)
        return cfg.learning_rate * (cfg.final_learning_rate / cfg.learning_rate) ** done

    def _shaping_weight(self, updates: Array, steps_per_update: int) -> Array:
        if self.config.shaping_steps is None:
            return jnp.float32(1.0)
        share = steps_per_update / self.config.shaping_steps
        return jnp.clip(1.0 - updates * share, 0.0, 1.0)


def n_step_returns(
    reward: Array, value: Array, terminated: Array, truncated: Array, gamma: float, steps: int
) -> Array:
    """Up to `steps` rewards and then the value, [..., T]; `value` is [..., T + 1].

    The value comes earlier at the end of the sequence and of a truncated episode. After a
    terminated episode there is none.
    """
    last = value[..., -1:]
    returns = value
    for _ in range(steps):
        later = jnp.where(truncated, value[..., 1:], returns[..., 1:])
        returns = jnp.concatenate([reward + gamma * ~terminated * later, last], axis=-1)
    return returns[..., :-1]


def at_action(values: Array, action: Array) -> Array:
    """[..., actions], [...] -> [...]."""
    return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]


@dataclass(frozen=True)
class IQL:
    """Independent recurrent Q-learning: every seat learns from what it saw and earned."""

    q: QConfig = field(default_factory=QConfig)
    network: QNetworkConfig = field(default_factory=QNetworkConfig)

    joint: ClassVar[bool] = False

    def build(
        self,
        env: Environment,
        *,
        num_tasks: int,
        updates_per_task: int,
        changing_inputs: int | None = None,
        critic_ids: int = 0,
    ) -> QLearner:
        """The learner for an environment; all tasks share one head."""
        if env.continuous:
            raise ValueError("Q-learning needs discrete actions; use ippo")
        policy = QPolicy(self.network.build(env), env.obs_shape, self.q.exploration)
        return QLearner(policy, self.q, updates_per_task, self.joint, num_tasks)


@dataclass(frozen=True)
class VDN(IQL):
    """Value decomposition: the values of all own seats are summed and learned together."""

    joint: ClassVar[bool] = True
