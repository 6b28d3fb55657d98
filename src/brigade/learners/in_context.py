"""Learners from recorded histories, whose policies adapt within their context.

References: M. Laskin and others, *In-context reinforcement learning with algorithm distillation*,
ICLR 2023; J. Lee and others, *Supervised pretraining can learn in-context reinforcement learning*,
NeurIPS 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import optax

from brigade.core import (
    Array,
    Batch,
    Environment,
    Key,
    LearnerSettings,
    LearnerState,
    Metrics,
    Outputs,
    ParameterGroups,
    Trajectory,
    Windows,
)
from brigade.core.checks import at_least, positive, within
from brigade.core.distributions import Categorical
from brigade.core.histories import ACTIONS, EXPERT_ACTIONS, STEP, TEAMMATE_ACTIONS
from brigade.learners.losses import weighted_mean
from brigade.learners.scheduled import ScheduledLearner, warmed_up_cosine
from brigade.nets.context import ContextNetwork, ContextPolicy, Marks, Tokens
from brigade.nets.encoders import encoder_class
from brigade.nets.settings import Precision
from brigade.nets.transformer import Positions

SIZES = {"small": (2, 64), "medium": (4, 128), "large": (4, 256)}  # layers, width


@dataclass(frozen=True)
class ContextNetworkConfig:
    """Settings of the transformer; defaults are those of the ICRL4AHT paper, appendix E."""

    size: Literal["small", "medium", "large"] = "large"
    """Layers and width: 2 x 64, 4 x 128 or 4 x 256."""
    heads: int = 4
    """Attention heads; they must divide the width into even parts."""
    context: int = 500
    """How many timesteps the policy sees, over as many episodes as they are."""
    positions: Positions = "rotary"
    """How timesteps of the context are told apart: rotary, learned, or not at all."""
    marks: Marks = "step"
    """What a timestep shows of its episode: the step within it, whether it is the first, or
    nothing."""
    teammate_actions: bool = False
    """See the previous actions of the other seats."""
    keeps_last: bool = True
    """An episode's first timestep shows the action and the reward before it; as released it does
    in training only, and the last reward of an episode is never seen."""
    blank: bool = False
    """See the present observation alone: an ablation that cannot adapt."""
    encoder: str = "mlp"
    """What turns observations into features (brigade list encoders), or path/to/file.py:Name."""
    hidden: tuple[int, ...] = (64,)
    """Sizes of the encoder's fully connected layers."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation function of the encoder."""
    layer_norm: bool = True
    """Layer norm in the encoder's fully connected layers."""
    reward_scale: float = 1.0
    """What rewards are multiplied by before they are seen."""
    dropout: float = 0.0
    """Dropout of embeddings and of what every layer adds; 0.1 in the paper."""
    attention_dropout: float = 0.0
    """Dropout of attention; 0.1 in the paper."""
    precision: Precision = "auto"
    """Precision of the matrix products; attention, losses and optimiser are always float32.
    auto is bfloat16 on an accelerator and float32 on a CPU."""

    def __post_init__(self) -> None:
        at_least("heads", self.heads, 1)
        at_least("context", self.context, 1)
        positive("reward_scale", self.reward_scale)
        for name in ("dropout", "attention_dropout"):
            within(name, getattr(self, name), 0.0, 0.9)
        if not self.hidden:
            raise ValueError("hidden is empty; give at least one layer size, e.g. 64")
        for size in self.hidden:
            at_least("hidden", size, 1)
        width = SIZES[self.size][1]
        if width % (2 * self.heads):
            raise ValueError(
                f"heads is {self.heads}; it must divide the width, {width}, into even parts"
            )

    @property
    def dtype(self) -> Any:
        """The type that `precision` means on this machine."""
        low = self.precision == "bfloat16"
        if self.precision == "auto":
            low = jax.default_backend() != "cpu"
        return jnp.bfloat16 if low else jnp.float32

    def largest_matrix(self, inputs: int) -> int:
        """Parameters of the largest matrix."""
        first = inputs if encoder_class(self.encoder).flattens else 1
        return max(first * self.hidden[0], 4 * SIZES[self.size][1] ** 2)

    def build(self, env: Environment, query_first: bool, predicts_obs: bool) -> ContextNetwork:
        """The network for an environment."""
        encoder_class(self.encoder).check(self.encoder, env.obs_shape)
        if env.continuous:
            raise ValueError("policies with a context choose among discrete actions; use ppo")
        layers, width = SIZES[self.size]
        own = {
            name: value
            for name, value in vars(self).items()
            if name not in ("size", "precision", "teammate_actions")
        }
        return ContextNetwork(
            num_actions=env.num_actions,
            layers=layers,
            width=width,
            horizon=env.horizon,
            others=env.num_agents - 1 if self.teammate_actions else 0,
            query_first=query_first,
            predicts_obs=math.prod(env.obs_shape) if predicts_obs else 0,
            dtype=self.dtype,
            **own,
        )


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of training on histories; defaults are those of the ICRL4AHT paper, table 22."""

    learning_rate: float = 1e-3
    """The highest learning rate."""
    final_learning_rate: float = 0.0
    """Learning rate at the end of the run; it falls along a cosine."""
    warm_up: float = 0.05
    """Share of the run over which the learning rate rises from 0."""
    weight_decay: float = 0.0
    """Weight decay (AdamW); 0 is Adam."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this global norm."""
    label_smoothing: float = 0.0
    """Share of every label that is spread over all actions."""
    next_obs_coef: float = 0.0
    """Weight of the loss of predicting the next observation; 0 for none."""
    starts: Literal["anywhere", "episodes", "beginning"] = "anywhere"
    """Where the sequences start: anywhere, where an episode begins, or where a history does."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "max_grad_norm"):
            positive(name, getattr(self, name))
        for name in ("final_learning_rate", "weight_decay", "next_obs_coef"):
            at_least(name, getattr(self, name), 0.0)
        for name in ("warm_up", "label_smoothing"):
            within(name, getattr(self, name), 0.0, 0.99)


class Sequences(Batch):
    """Sequences of timesteps: leaves [sequences, T, ...]."""

    tokens: Tokens
    avail: Array  # bool
    action: Array  # int32: what was played then
    label: Array  # int32: what the policy should play
    weight: Array  # f32: 1 where there is a label

    @property
    def weights(self) -> Array:
        """Where there is a label."""
        return self.weight

    @property
    def timesteps(self) -> int:
        """The length of a sequence."""
        return int(self.weight.shape[-1])


@dataclass(frozen=True)
class InContextLearner(ScheduledLearner):
    """Predicts an action at every timestep of a sequence, from that timestep and those before."""

    policy: ContextPolicy
    config: TrainingConfig
    labels: str = ACTIONS  # the field of histories that it predicts

    def groups(self, params: Any) -> ParameterGroups:
        """The head."""
        return ParameterGroups(
            heads=("head",), why_no_layers="a transformer has no plain hidden layers"
        )

    def begin_task(self, state: LearnerState) -> LearnerState:
        """Restart the schedule."""
        return state.replace(updates=jnp.int32(0))

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Sequences, Array]:
        """Every sequence once, all of them in one minibatch."""

        def rows(tree: Any) -> Any:
            """Leaves [T, B, seats, ...] -> [B * seats, T, ...]."""
            return jax.tree.map(
                lambda x: jnp.moveaxis(x, 0, 2).reshape(-1, x.shape[0], *x.shape[3:]), tree
            )

        label = traj.action if self.labels == ACTIONS else traj.extras[self.labels]
        played = traj.valid[..., None] & traj.view.active
        tokens = Tokens.of(traj.view, traj.extras[STEP], traj.extras.get("next_obs"))
        if not self.policy.network.others:
            tokens = tokens.replace(others=None)
        sequences = Sequences(
            tokens=rows(tokens),
            avail=rows(traj.view.avail),
            action=rows(traj.action),
            label=rows(label),
            weight=rows((played & (label >= 0)).astype(jnp.float32)),
        )
        state = state.replace(updates=state.updates + 1)
        return state, sequences, jnp.arange(len(sequences.weight))[None]

    def loss(
        self, params: Any, state: LearnerState, batch: Sequences, key: Key
    ) -> tuple[Array, Metrics]:
        """The cross-entropy of the labels, and of what is seen next if that is predicted."""
        cfg, network = self.config, self.policy.network
        dropout = key if network.dropout or network.attention_dropout else None
        logits, predicted = self.policy.sequence(params, batch.tokens, batch.action, dropout)
        logits = Categorical.mask(logits, batch.avail)
        log_prob = jax.nn.log_softmax(logits)
        wanted = jax.nn.one_hot(batch.label, network.num_actions)
        possible = batch.avail / batch.avail.sum(-1, keepdims=True)
        wanted = (1.0 - cfg.label_smoothing) * wanted + cfg.label_smoothing * possible
        # An action that is not available has no log-probability to speak of.
        entropy = -jnp.where(wanted > 0.0, wanted * log_prob, 0.0).sum(-1)
        loss = weighted_mean(entropy, batch.weight)
        right = (logits.argmax(-1) == batch.label).astype(jnp.float32)
        metrics = {"imitation_loss": loss, "accuracy": weighted_mean(right, batch.weight)}
        if predicted is not None:
            obs_loss = next_obs_loss(predicted, batch.tokens.obs, batch.weight)
            loss = loss + cfg.next_obs_coef * obs_loss
            metrics["next_obs_loss"] = obs_loss
        return loss, {"loss": loss, **metrics}

    def rehearse(
        self, params: Any, state: LearnerState, batch: Sequences, probability: Array | None = None
    ) -> tuple[Array, Metrics]:
        """The same loss, without dropout."""
        logits, _ = self.policy.sequence(params, batch.tokens)
        log_prob = Categorical.log_prob(logits, batch.label)
        return -weighted_mean(log_prob, batch.weight), {}

    def outputs(self, params: Any, batch: Sequences) -> Outputs:
        """Logits of every timestep."""
        logits, _ = self.policy.sequence(params, batch.tokens)
        return Outputs(Categorical.mask(logits, batch.avail), None)

    def learning_rate(self, updates: Array) -> Array:
        """It rises, and then falls along a cosine."""
        cfg = self.config
        # `prepare` has counted this update; half of it keeps the first and last rate above 0.
        share = (updates - 0.5) / self.updates_per_task
        return warmed_up_cosine(share, cfg.learning_rate, cfg.final_learning_rate, cfg.warm_up)

    def optimizer(self) -> optax.GradientTransformation:
        """AdamW with clipped gradients."""
        return optax.chain(
            optax.clip_by_global_norm(self.config.max_grad_norm),
            optax.scale_by_adam(),
            optax.add_decayed_weights(self.config.weight_decay),
        )


def next_obs_loss(predicted: Array, obs: Array, weight: Array) -> Array:
    """The squared error of predicting each next observation of a sequence; the last has none."""
    seen = obs.reshape(*predicted.shape).astype(jnp.float32)
    error = jnp.square(predicted[:, :-1] - seen[:, 1:]).mean(-1)
    return weighted_mean(error, weight[:, 1:])


@dataclass(frozen=True)
class AD(LearnerSettings):
    """Algorithm distillation: imitates how players of histories learned."""

    training: TrainingConfig = field(default_factory=TrainingConfig)
    network: ContextNetworkConfig = field(default_factory=ContextNetworkConfig)

    labels: ClassVar[str] = ACTIONS

    @property
    def query_first(self) -> bool:
        """Whether an observation to act on is in front of its context."""
        return False

    @property
    def windows(self) -> Windows:
        """Windows of one history each, with the fields that it cannot do without."""
        others = (TEAMMATE_ACTIONS,) if self.network.teammate_actions else ()
        reach = 1 if self.network.blank or self.query_first else self.network.context
        return Windows((self.labels, *others), self.training.starts, reach, self.query_first)

    def build(
        self,
        env: Environment,
        *,
        num_tasks: int,
        updates_per_task: int,
        changing_inputs: int | None = None,
        critic_ids: int = 0,
    ) -> InContextLearner:
        """The learner; `updates_per_task` are those of the run."""
        predicts = self.training.next_obs_coef > 0.0
        network = self.network.build(env, self.query_first, predicts)
        policy = ContextPolicy(network, env.obs_shape)
        return InContextLearner(policy, self.training, updates_per_task, self.labels)


@dataclass(frozen=True)
class DPT(AD):
    """Decision-pretrained transformer: predicts an expert's next action."""

    query: Literal["every", "first"] = "every"
    """Every timestep asks for its action and sees those before it; or, as released, one observation
    in front of transitions, which under the causal mask sees none of them."""

    labels: ClassVar[str] = EXPERT_ACTIONS

    @property
    def query_first(self) -> bool:
        return self.query == "first"
