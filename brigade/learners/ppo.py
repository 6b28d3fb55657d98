"""Independent PPO with parameters shared between the seats.

The losses are plain functions of arrays; the class only says which batches follow from a rollout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax
from flax import struct

from brigade.core import Array, Environment, Key, LearnerState, Metrics, Outputs, Trajectory
from brigade.core.checks import at_least, positive, within
from brigade.nets import ActorCritic, ActorCriticPolicy, ChangingInputs
from brigade.nets.encoders import FAST_MULTIPLE
from brigade.nets.policy import log_prob

TINY = 1e-8
Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class PPOConfig:
    """The algorithm. Defaults are the MEAL paper's, appendix B."""

    learning_rate: float = 1e-3
    """Adam's step size at the beginning of every task."""
    final_learning_rate: float = 1e-4
    """Step size at the end of every task, reached linearly."""
    adam_eps: float = 1e-5
    """Added to Adam's denominator."""
    max_grad_norm: float = 1.0
    """Longer gradients are shortened to this."""
    epochs: int = 8
    """How often every sample of a rollout is learned from."""
    minibatches: int = 16
    """Parts a rollout's samples are divided into; they must divide evenly."""
    gamma: float = 0.99
    """Discount per step."""
    gae_lambda: float = 0.95
    """How far advantages look ahead: 0 one step, 1 to the end."""
    clip: float = 0.2
    """How far an action's probability ratio may usefully leave 1."""
    value_clip: float | None = 0.2
    """How far a value may usefully move per rollout; None for no limit."""
    entropy_coef: float = 0.01
    """Weight of the reward for undecided policies."""
    value_coef: float = 0.5
    """Weight of the critic's loss."""
    normalise_advantage: bool = True
    """Scale the advantages of a minibatch to mean 0 and deviation 1."""
    time_limit: Literal["bootstrap", "terminal"] = "bootstrap"
    """At the time limit keep the value of what would have followed, or drop it as releases do."""
    shaping_steps: float | None = 2.5e6
    """Shaped rewards fade to nothing over this many steps of a task; None keeps them."""
    share_shaping: bool = True
    """Every seat earns the shaping of all seats, as in the paper."""
    reset_optimizer: bool = False
    """Forget Adam's moments at task boundaries, as the MEAL release does."""

    def __post_init__(self) -> None:
        at_least("epochs", self.epochs, 1)
        at_least("minibatches", self.minibatches, 1)
        for name in ("gamma", "gae_lambda"):
            within(name, getattr(self, name), 0.0, 1.0)
        for name in ("learning_rate", "adam_eps", "max_grad_norm", "clip"):
            positive(name, getattr(self, name))
        for name in ("value_clip", "shaping_steps"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        for name in ("final_learning_rate", "entropy_coef", "value_coef"):
            at_least(name, getattr(self, name), 0.0)


@dataclass(frozen=True)
class NetworkConfig:
    """The network: the knobs of the MEAL paper's appendix B.1."""

    encoder: Literal["mlp", "cnn"] = "mlp"
    """What reads the observation."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the fully connected layers."""
    activation: Literal["relu", "tanh"] = "relu"
    """Between layers."""
    layer_norm: bool = True
    """Normalise every hidden layer."""
    shared_trunk: bool = False
    """One trunk for actor and critic instead of one each."""
    multi_head: bool = True
    """One output head per task instead of one for all."""
    task_one_hot: Literal["none", "heads", "input"] = "heads"
    """Where the number of the task enters, if at all."""
    precision: Precision = "auto"
    """Of the network's arithmetic; parameters, losses and the optimiser are float32 always. auto is
    bfloat16 on an accelerator and float32 on a CPU."""

    def __post_init__(self) -> None:
        if not self.hidden:
            raise ValueError("hidden is empty; give at least one layer size, e.g. 128 128")
        for size in self.hidden:
            at_least("hidden", size, 1)

    @property
    def dtype(self) -> Any:
        """What `precision` stands for on this machine."""
        low = self.precision == "bfloat16"
        if self.precision == "auto":
            low = jax.default_backend() != "cpu"
        return jnp.bfloat16 if low else jnp.float32

    def build(self, num_actions: int, num_tasks: int) -> ActorCritic:
        """The network itself."""
        knobs = {name: value for name, value in vars(self).items() if name != "precision"}
        return ActorCritic(num_actions, num_tasks, **knobs, dtype=self.dtype)


class OneTask(struct.PyTreeNode):
    """What the samples of one rollout share, since they are of one task."""

    id: Array
    columns: Array  # the entries of the observation that change
    constant: Array  # what the others always are


class Seen(struct.PyTreeNode):
    """What the network is shown: leaves [samples, ...]."""

    obs: Array  # uint8; only the columns that change where `task` says which
    avail: Array  # uint8: which actions are allowed, eight to a byte
    task_id: Array
    task: OneTask | None = None  # not per sample


class Samples(struct.PyTreeNode):
    """One entry per step, environment and seat: leaves [samples, ...]."""

    seen: Seen
    action: Array
    log_prob: Array
    value: Array
    advantage: Array
    target: Array
    weight: Array  # f32: 0 for what is not the learner's own move


@dataclass(frozen=True)
class PPO:
    """Clipped policy optimisation on the learner's own seats."""

    policy: ActorCriticPolicy
    config: PPOConfig
    updates_per_task: int  # rollouts of one task: where the learning rate reaches its end
    changing_inputs: int | None = None  # at most so many entries of an observation change in a task

    def init(self, key: Key) -> LearnerState:
        """Fresh parameters and optimiser."""
        params = self.policy.init(key)
        return LearnerState(params, self._optimizer().init(params), jnp.int32(0))

    def begin_task(self, state: LearnerState) -> LearnerState:
        """Schedules start again; the optimiser's moments go on unless asked otherwise."""
        if self.config.reset_optimizer:
            state = state.replace(opt_state=self._optimizer().init(state.params))
        return state.replace(updates=jnp.int32(0))

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Samples, Array]:
        """Advantages of a rollout, then every sample once per epoch in random minibatches."""
        cfg = self.config
        shaping = self._shaping_weight(state.updates, traj.valid.size)
        reward = total_reward(traj, shaping, cfg.share_shaping)
        seen = self._seen(traj)
        log_prob, value = self._judge(state.params, traj, seen)
        bootstraps = cfg.time_limit == "bootstrap"
        advantage = generalised_advantage(
            reward,
            value,
            traj.terminated if bootstraps else traj.terminated | traj.truncated,
            traj.terminated | traj.truncated,
            cfg.gamma,
            cfg.gae_lambda,
        )
        own = traj.extras.get("own", True)
        weight = (traj.valid[..., None] & traj.view.active & own).astype(jnp.float32)
        samples = Samples(
            seen=seen,
            action=traj.action.reshape(-1),
            log_prob=log_prob.reshape(-1),
            value=value[:-1].reshape(-1),
            advantage=advantage.reshape(-1),
            target=(advantage + value[:-1]).reshape(-1),
            weight=weight.reshape(-1),
        )
        index = shuffled_minibatches(key, weight.size, cfg.epochs, cfg.minibatches)
        return state.replace(updates=state.updates + 1), samples, index

    def _seen(self, traj: Trajectory) -> Seen:
        """The views of a rollout as samples, without what never changes in it."""
        view = traj.view
        obs, avail, task_id = (
            x.reshape(-1, *x.shape[3:])
            for x in (view.obs, jnp.packbits(view.avail, axis=-1), view.task_id)
        )
        if self.changing_inputs is None:
            return Seen(obs, avail, task_id)
        inputs = ChangingInputs.of(obs, self.changing_inputs)
        task = OneTask(task_id[0], inputs.columns, inputs.constant)
        return Seen(inputs.values, avail, task_id, task)

    def _judge(self, params: Any, traj: Trajectory, seen: Seen) -> tuple[Array, Array]:
        """Log-probabilities [T, B, seats] and values [T + 1, B, seats] of a rollout.

        A policy that remembers has recorded both while it acted. Otherwise they are worked out
        now, for all steps at once: that is faster than step by step.
        """
        if "value" in traj.extras:
            value, last = traj.extras["value"], traj.last["value"]
            return traj.extras["log_prob"], jnp.concatenate([value, last[None]])
        end, shape = traj.last_view, traj.action.shape
        out = self._look(params, seen)
        after = self.policy.outputs(params, end.obs, end.task_id, end.avail)
        assert out.value is not None
        assert after.value is not None
        value = jnp.concatenate([out.value.reshape(shape), after.value[None]])
        return log_prob(out.logits, traj.action.reshape(-1)).reshape(shape), value

    def take(self, data: Samples, index: Array) -> Samples:
        """The samples of one minibatch."""
        task, seen = data.seen.task, data.seen.replace(task=None)
        rows = jax.tree.map(
            lambda x: jnp.take(x, index, axis=0, mode="clip"), data.replace(seen=seen)
        )
        return rows.replace(seen=rows.seen.replace(task=task))

    def standalone(self, batch: Samples) -> Samples:
        """The batch with whole observations, to be kept and mixed with those of other tasks."""
        seen = batch.seen
        if seen.task is None:
            return batch
        inputs = ChangingInputs(seen.obs, seen.task.columns, seen.task.constant)
        whole = inputs.whole(self.policy.obs_shape)
        return batch.replace(seen=Seen(whole, seen.avail, seen.task_id))

    def loss(
        self, params: Any, state: LearnerState, batch: Samples, key: Key
    ) -> tuple[Array, Metrics]:
        """Policy, value and entropy terms, weighted to the learner's own moves."""
        cfg = self.config
        out = self.outputs(params, batch)
        assert out.value is not None
        advantage = batch.advantage
        if cfg.normalise_advantage:
            advantage = normalise(advantage, batch.weight)
        new_log_prob = log_prob(out.logits, batch.action)
        surrogate = clipped_surrogate(new_log_prob, batch.log_prob, advantage, cfg.clip)
        value_error = clipped_value_loss(out.value, batch.value, batch.target, cfg.value_clip)
        policy_loss = -weighted_mean(surrogate, batch.weight)
        value_loss = weighted_mean(value_error, batch.weight)
        entropy = weighted_mean(categorical_entropy(out.logits), batch.weight)
        total = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * entropy
        approx_kl = weighted_mean(batch.log_prob - new_log_prob, batch.weight)
        return total, {
            "loss": total,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "approx_kl": approx_kl,
        }

    def outputs(self, params: Any, batch: Samples) -> Outputs:
        """Logits and values of a batch."""
        return self._look(params, batch.seen)

    def _look(self, params: Any, seen: Seen) -> Outputs:
        task, num_actions = seen.task, self.policy.network.num_actions
        avail = jnp.unpackbits(seen.avail, axis=-1, count=num_actions).astype(bool)
        if task is None:
            return self.policy.outputs(params, seen.obs, seen.task_id, avail)
        inputs = ChangingInputs(seen.obs, task.columns, task.constant)
        return self.policy.outputs(params, inputs, task.id, avail)

    def apply_gradients(self, state: LearnerState, grads: Any) -> LearnerState:
        """One Adam step at the learning rate of this point of the task."""
        steps, opt_state = self._optimizer().update(grads, state.opt_state, state.params)
        rate = self._learning_rate(state.updates)
        params = jax.tree.map(lambda p, s: p - rate * s, state.params, steps)
        return state.replace(params=params, opt_state=opt_state)

    def after_update(self, state: LearnerState, index: Array, metrics: Metrics) -> LearnerState:
        """Nothing follows an update."""
        return state

    def _optimizer(self) -> optax.GradientTransformation:
        # All parameters as one vector: a few kernels instead of a few for each of them.
        return optax.flatten(
            optax.chain(
                optax.clip_by_global_norm(self.config.max_grad_norm),
                optax.scale_by_adam(eps=self.config.adam_eps),
            )
        )

    def _learning_rate(self, updates: Array) -> Array:
        cfg = self.config
        # `prepare` has counted the current rollout already: the first one learns at full rate.
        done = jnp.clip((updates - 1) / self.updates_per_task, 0.0, 1.0)
        return cfg.learning_rate + done * (cfg.final_learning_rate - cfg.learning_rate)

    def _shaping_weight(self, updates: Array, steps_per_update: int) -> Array:
        if self.config.shaping_steps is None:
            return jnp.float32(1.0)
        share = steps_per_update / self.config.shaping_steps
        return jnp.clip(1.0 - updates * share, 0.0, 1.0)


@dataclass(frozen=True)
class IPPO:
    """Independent PPO, one network for all seats. Its settings; `build` makes the learner."""

    ppo: PPOConfig = PPOConfig()
    network: NetworkConfig = NetworkConfig()

    def build(
        self,
        env: Environment,
        *,
        num_tasks: int,
        updates_per_task: int,
        changing_inputs: int | None = None,
    ) -> PPO:
        """The learner for an environment and the length of a stream."""
        policy = ActorCriticPolicy(self.network.build(env.num_actions, num_tasks), env.obs_shape)
        kept = kept_inputs(changing_inputs, math.prod(env.obs_shape))
        if self.network.encoder != "mlp":
            kept = None  # a convolution needs the whole picture
        return PPO(policy, self.ppo, updates_per_task, kept)


def kept_inputs(changing: int | None, entries: int) -> int | None:
    """How many columns to keep: a size matrix units like; None if that is no fewer than all."""
    if changing is None:
        return None
    kept = -(-changing // FAST_MULTIPLE) * FAST_MULTIPLE
    return kept if kept < entries else None


def total_reward(traj: Trajectory, shaping: Array, share: bool) -> Array:
    """[T, B, seats]: the game's reward plus what is left of the shaping."""
    if "shaped_reward" not in traj.info:
        return traj.reward
    shaped = traj.info["shaped_reward"]
    if share:
        shaped = jnp.broadcast_to(shaped.sum(-1, keepdims=True), shaped.shape)
    return traj.reward + shaping * shaped


def generalised_advantage(
    reward: Array,
    value: Array,
    worthless_after: Array,
    cut_after: Array,
    gamma: float,
    gae_lambda: float,
) -> Array:
    """GAE over axis 0. `value` has one entry more than `reward`: [T + 1, B, seats].

    `worthless_after` [T, B]: nothing of value follows. `cut_after` [T, B]: the next step belongs to
    another episode, so advantages do not flow back over it.
    """
    follows = 1.0 - worthless_after[..., None].astype(reward.dtype)
    flows = 1.0 - cut_after[..., None].astype(reward.dtype)
    delta = reward + gamma * follows * value[1:] - value[:-1]

    def backwards(advantage: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, flows = step
        advantage = delta + gamma * gae_lambda * flows * advantage
        return advantage, advantage

    return jax.lax.scan(backwards, jnp.zeros_like(delta[0]), (delta, flows), reverse=True)[1]


def clipped_surrogate(
    new_log_prob: Array, old_log_prob: Array, advantage: Array, clip: float
) -> Array:
    """The pessimistic of the plain and the clipped policy gain, per sample."""
    ratio = jnp.exp(new_log_prob - old_log_prob)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


def clipped_value_loss(value: Array, old_value: Array, target: Array, clip: float | None) -> Array:
    """Half the larger of the squared errors with and without a clipped step, per sample."""
    plain = jnp.square(value - target)
    if clip is None:
        return 0.5 * plain
    near = old_value + jnp.clip(value - old_value, -clip, clip)
    return 0.5 * jnp.maximum(plain, jnp.square(near - target))


def categorical_entropy(logits: Array) -> Array:
    """Entropy [...] of `logits` [..., num_actions]."""
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


def weighted_mean(values: Array, weight: Array) -> Array:
    """Mean over the entries that count; 0 when none does."""
    return jnp.sum(values * weight) / jnp.maximum(jnp.sum(weight), 1.0)


def normalise(values: Array, weight: Array) -> Array:
    """Mean 0 and deviation 1 over the entries that count."""
    centred = values - weighted_mean(values, weight)
    return centred / (jnp.sqrt(weighted_mean(jnp.square(centred), weight)) + TINY)


def shuffled_minibatches(key: Key, samples: int, epochs: int, minibatches: int) -> Array:
    """[epochs * minibatches, samples / minibatches]: every sample once per epoch."""
    if samples % minibatches:
        raise ValueError(
            f"{samples} samples do not divide into {minibatches} minibatches; "
            f"change num_envs, num_steps or minibatches so that they do"
        )
    # One sort by random numbers per epoch: `jax.random.permutation` sorts at least twice.
    order = jnp.argsort(jax.random.bits(key, (epochs, samples)), axis=-1)
    return order.reshape(epochs * minibatches, -1)
