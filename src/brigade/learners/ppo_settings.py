"""Settings of PPO, and its network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from brigade.core import Environment
from brigade.core.checks import at_least, each, positive, within
from brigade.nets import ActorCritic
from brigade.nets.encoders import encoder_class
from brigade.nets.settings import NetworkSettings


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO. Defaults are those of the MEAL paper, appendix B."""

    learning_rate: float = 1e-3
    """Adam's learning rate at the start of every task."""
    final_learning_rate: float = 1e-4
    """Learning rate at the end of every task; the decay is linear."""
    adam_eps: float = 1e-5
    """Adam's epsilon."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this global norm."""
    epochs: int = 8
    """Passes over the samples of a rollout."""
    minibatches: int = 16
    """Minibatches per epoch; their number must divide the samples of a rollout."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation (GAE)."""
    clip: float = 0.2
    """Clipping range of the probability ratio around 1."""
    value_clip: float | None = 0.2
    """Clipping range of the value around its old estimate; None for no clipping."""
    entropy_coef: float = 0.01
    """Weight of the entropy bonus."""
    entropy_schedule: tuple[float, ...] = ()
    """Weights of the entropy bonus over a task, instead of one: 0.2 0.05 0.01 is 0.2 at its start,
    0.05 half-way and 0.01 at its end, linear in between."""
    entropy_milestones: tuple[float, ...] = ()
    """When the schedule has these weights, as shares of the task: 0 0.6 1. By default
    they are evenly spaced."""
    value_coef: float = 0.5
    """Weight of the value loss."""
    normalise_value: bool = False
    """The critic predicts returns in units of their running standard deviation, as MAPPO does; the
    clipping range of the value is then in these units, too."""
    normalise_advantage: bool = True
    """Normalise the advantages of a minibatch to mean 0 and standard deviation 1."""
    time_limit: Literal["bootstrap", "terminal"] = "bootstrap"
    """At the time limit: bootstrap from the value, or treat it as terminal like MEAL's release."""
    shaping_steps: float | None = 2.5e6
    """Steps of a task over which shaped rewards decay linearly to 0; None for no decay."""
    share_shaping: bool = True
    """Every seat gets the sum of the shaped rewards of all seats, as in the paper."""
    sequence_length: int | None = None
    """Timesteps of backpropagation through time in recurrent policies; it must divide num_steps.
    None is the divisor of num_steps closest to 50 (by ratio)."""
    reset_optimizer: bool = False
    """Reset Adam's moments at the start of every task, as the MEAL release does."""

    def __post_init__(self) -> None:
        each(at_least, self, "epochs minibatches sequence_length", 1)
        each(within, self, "gamma gae_lambda", 0.0, 1.0)
        each(positive, self, "learning_rate adam_eps max_grad_norm clip value_clip shaping_steps")
        each(at_least, self, "final_learning_rate entropy_coef value_coef", 0.0)
        check_schedule(self.entropy_schedule, self.entropy_milestones)

    @property
    def milestones(self) -> tuple[float, ...]:
        """The milestones of the entropy schedule."""
        last = max(len(self.entropy_schedule) - 1, 1)
        even = tuple(number / last for number in range(len(self.entropy_schedule)))
        return self.entropy_milestones or even


def check_schedule(schedule: tuple[float, ...], milestones: tuple[float, ...]) -> None:
    """Require weights of at least 0, with a milestone from 0 to 1 for each, in rising order."""
    for weight in schedule:
        at_least("entropy_schedule", weight, 0.0)
    for milestone in milestones:
        within("entropy_milestones", milestone, 0.0, 1.0)
    if milestones and (
        len(milestones) != len(schedule) or list(milestones) != sorted(set(milestones))
    ):
        raise ValueError(
            f"entropy_milestones is {' '.join(map(str, milestones))}; give one for each of the "
            f"{len(schedule)} weights of entropy_schedule, in rising order"
        )


@dataclass(frozen=True)
class NetworkConfig(NetworkSettings):
    """Settings of the network; the MLP is that of the MEAL paper's appendix B.1."""

    norm_last: bool = False
    """Layer norm after the activation instead of before it, as in the MEAL release."""
    shared_trunk: bool = False
    """One trunk for actor and critic instead of two."""
    multi_head: bool = True
    """One head per task instead of one for all tasks."""
    task_one_hot: Literal["none", "heads", "input"] = "heads"
    """Where the one-hot of the task id is added: before the heads, at the input, or nowhere."""

    def build(
        self, env: Environment, num_tasks: int, central: bool = False, critic_ids: int = 0
    ) -> ActorCritic:
        """The network. With `central`, the critic gets the observations of all seats.

        With `critic_ids`, the number of partner ids, it gets the id of the partner.
        """
        if critic_ids and (central or self.shared_trunk):
            raise ValueError(
                "a critic that gets partner ids cannot be central or share a trunk; use learner "
                "ippo and no shared_trunk"
            )
        encoder = encoder_class(self.encoder)
        if central and (self.shared_trunk or not encoder.flattens):
            raise ValueError(
                "a central critic needs its own mlp trunk; use encoder mlp and no shared_trunk"
            )
        encoder.check(self.encoder, env.obs_shape)
        settings = {name: value for name, value in vars(self).items() if name != "precision"}
        return ActorCritic(
            env.num_actions,
            num_tasks,
            **settings,
            central_seats=env.num_agents if central else 0,
            critic_ids=critic_ids,
            continuous=env.continuous,
            dtype=self.dtype,
        )
