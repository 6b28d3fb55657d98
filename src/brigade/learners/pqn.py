"""Parallel Q-learning (PQN): Q-learning on fresh rollouts, without replay and target networks.

Layer norm keeps it stable (Gallici et al., 2024). Returns are mixtures of n-step returns for all n,
weighted by powers of lambda, from the network as it was at the start of the update.

Reference: M. Gallici and others, *Simplifying deep temporal difference learning*, ICLR 2025.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax

from brigade.core import Array, Key, LearnerState, Metrics, Trajectory
from brigade.core.checks import at_least, each, positive, within
from brigade.learners.losses import shuffled_minibatches
from brigade.learners.ppo import take_rows
from brigade.learners.q_sequences import (
    SequenceBatch,
    SequenceLearner,
    at_action,
    counted,
    outputs_of,
    prediction_loss,
)
from brigade.learners.q_settings import QLearning, QNetworkConfig


@dataclass(frozen=True)
class PQNConfig:
    """Settings of parallel Q-learning."""

    learning_rate: float = 5e-4
    """Learning rate at the start of every task; it decays linearly."""
    final_learning_rate: float = 5e-5
    """Learning rate at the end of every task."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this global norm."""
    gamma: float = 0.99
    """Discount factor."""
    td_lambda: float = 0.9
    """Weight of longer returns: 0 looks one step ahead, 1 to the end of the rollout."""
    sum_seats: bool = True
    """Sum the values of all own seats, as VDN does; otherwise every seat learns for itself."""
    sequence_length: int | None = None
    """Timesteps of a sequence; it must divide num_steps. None is num_steps."""
    epochs: int = 2
    """Passes over a rollout."""
    minibatches: int = 4
    """Minibatches per pass."""
    exploration: float = 0.1
    """Largest rate of random actions: environment i has it to the power 1 + 7 i / 79, for i from 0
    to 79 and then again."""
    shaping_steps: float | None = 2.5e6
    """Steps of a task over which shaped rewards decay linearly to 0; None for no decay."""
    share_shaping: bool = True
    """Every seat gets the sum of the shaped rewards of all seats."""
    reset_optimizer: bool = False
    """Reset the optimiser at the start of every task."""

    def __post_init__(self) -> None:
        each(at_least, self, "epochs minibatches sequence_length", 1)
        each(positive, self, "learning_rate max_grad_norm shaping_steps")
        each(at_least, self, "final_learning_rate", 0.0)
        each(within, self, "gamma td_lambda exploration", 0.0, 1.0)


class Targets(SequenceBatch):
    """Sequences of one rollout, and what their values should be."""

    returns: Array  # [sequences, T] f32


@dataclass(frozen=True)
class PQNLearner(SequenceLearner):
    """Q-learning on the learner's own seats, from fresh rollouts."""

    config: PQNConfig

    @property
    def joins_seats(self) -> bool:
        """Whether the values of all own seats are summed."""
        return self.config.sum_seats

    def for_few_shot(self) -> PQNLearner:
        """The learner of a clone that is trained for a few updates: its rate does not decay."""
        rate = self.config.learning_rate
        return replace(self, config=replace(self.config, final_learning_rate=rate))

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Targets, Array]:
        """The sequences of the rollout with their returns, and shuffled minibatches."""
        cfg, sequences = self.config, self.sequences(state, traj)
        values = outputs_of(self.policy, state.params, sequences).values
        returns = lambda_returns(
            sequences.reward,
            values.max(-1).sum(-1),
            sequences.terminated,
            sequences.truncated,
            cfg.gamma,
            cfg.td_lambda,
        )
        number = len(sequences.reward)
        index = shuffled_minibatches(key, number, cfg.epochs, cfg.minibatches)
        return state.replace(updates=state.updates + 1), Targets(sequences, returns), index

    def take(self, data: Targets, index: Array) -> Targets:
        """One minibatch."""
        batch: Targets = take_rows(data, index)
        return batch

    def loss(
        self, params: Any, state: LearnerState, batch: Targets, key: Key
    ) -> tuple[Array, Metrics]:
        """Half the squared error of the chosen actions' values, and the auxiliary loss."""
        return self._loss(params, batch, key)

    def _loss(self, params: Any, batch: Targets, dropout: Key | None) -> tuple[Array, Metrics]:
        counts = counted(batch.sequences, 0)
        out = outputs_of(self.policy, params, batch.sequences, dropout=dropout)
        chosen = at_action(out.values[:, :-1], batch.sequences.action).sum(-1)
        error = (batch.returns - chosen) * counts
        total = 0.5 * (error**2).sum() / jnp.maximum(counts.sum(), 1.0)
        metrics = {"loss": total, "td_error": jnp.abs(error).mean()}
        if self.aux and out.predictions is not None and batch.sequences.target is not None:
            each = prediction_loss(out.predictions[:, :-1], batch.sequences.target).mean(-1)
            predicted = (each * counts).sum() / jnp.maximum(counts.sum(), 1.0)
            total = total + self.aux * predicted
            metrics["prediction"] = predicted
        return total, metrics

    def rehearse(
        self, params: Any, state: LearnerState, batch: Targets, probability: Array | None = None
    ) -> tuple[Array, Metrics]:
        """The same loss on sequences of earlier tasks."""
        return self._loss(params, batch, None)[0], {}

    def optimizer(self) -> optax.GradientTransformation:
        """Rectified Adam, with clipped gradients."""
        return optax.chain(
            optax.clip_by_global_norm(self.config.max_grad_norm), optax.scale_by_radam()
        )


def lambda_returns(
    reward: Array, value: Array, terminated: Array, truncated: Array, gamma: float, weight: float
) -> Array:
    """Returns [..., T] that mix the next value with the next return; `value` is [..., T + 1].

    After a terminated step there is nothing. After a truncated one, and at the end of the sequence,
    there is the value alone.
    """
    time_first = [jnp.moveaxis(x, -1, 0) for x in (reward, value[..., 1:], terminated, truncated)]

    def backwards(later: Array, step: list[Array]) -> tuple[Array, Array]:
        reward, value, terminated, truncated = step
        mixed = jnp.where(truncated, value, (1.0 - weight) * value + weight * later)
        total = reward + gamma * ~terminated * mixed
        return total, total

    _, returns = jax.lax.scan(backwards, value[..., -1], time_first, reverse=True)
    return jnp.moveaxis(returns, 0, -1)


@dataclass(frozen=True)
class PQN(QLearning):
    """Parallel Q-learning, from fresh rollouts without replay."""

    q: PQNConfig = field(default_factory=PQNConfig)
    network: QNetworkConfig = field(
        default_factory=lambda: QNetworkConfig(layer_norm=True, memory="gru")
    )

    learner: ClassVar[type[SequenceLearner]] = PQNLearner

    @property
    def epochs(self) -> int:
        return self.q.epochs
