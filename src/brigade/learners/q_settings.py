"""Settings of Q-learning, and its network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from brigade.core import Environment, LearnerSettings
from brigade.core.checks import at_least, each, positive, within
from brigade.learners.q_sequences import SequenceLearner
from brigade.nets.encoders import encoder_class
from brigade.nets.q_network import QNetwork
from brigade.nets.q_policy import QPolicy
from brigade.nets.settings import NetworkSettings

MAX_LAYERS = 64  # recurrent ones
AUX_TARGET = "own_hand"  # the classes that `aux` predicts


@dataclass(frozen=True)
class Additions:
    """What can be added to Q-learning, of any kind; with every combination of these."""

    op: bool = False
    """Other-play: in training, every player but one renames the game by a random symmetry."""
    sad: bool = False
    """Simplified action decoder: see the greedy action of the last move beside the one played."""
    aux: float = 0.0
    """Weight of an auxiliary loss: predict the classes of one's own cards. The paper has 0.25."""

    def __post_init__(self) -> None:
        at_least("aux", self.aux, 0.0)

    def build_policy(
        self, env: Environment, network: QNetworkConfig, exploration: float
    ) -> QPolicy:
        """The policy for an environment, which must offer what the additions need."""
        if env.continuous:
            raise ValueError("Q-learning needs discrete actions; use ippo")
        game = type(env).__name__
        known = env.conventions
        if self.op and known.symmetries is None:
            raise ValueError(f"op needs the symmetries of a game, and {game} declares none")
        if self.sad and known.shown_moves is None:
            raise ValueError(f"sad needs observations that show the last move; {game} has none")
        if self.aux and AUX_TARGET not in known.label_sizes:
            raise ValueError(f"aux predicts {AUX_TARGET}, which {game} does not know")
        items, classes = known.label_sizes[AUX_TARGET] if self.aux else (0, 0)
        return QPolicy(
            network.build(env, predictions=items * classes),
            env.obs_shape,
            exploration,
            symmetries=known.symmetries if self.op else None,
            shown_moves=known.shown_moves if self.sad else None,
            predicts=(AUX_TARGET,) if self.aux else (),
        )


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
    warm_up: int = 10_000
    """Sequences in the buffer before learning begins."""
    priority_exponent: float = 0.9
    """Exponent of priorities in sampling; 0 samples uniformly."""
    importance_exponent: float = 0.6
    """Exponent of the weights that make up for sampling by priority; 0 for none."""
    priority: Literal["surprise", "reward", "uniform"] = "surprise"
    """What makes a sequence worth replaying: its errors, the size of its rewards, or nothing."""
    priority_max_share: float = 0.9
    """A sequence's priority is this share of its largest error and the rest of its mean error."""
    target_every: int = 2500
    """Gradient steps between updates of the target network."""
    exploration: float = 0.1
    """Largest rate of random actions: environment i has it to the power 1 + 7 i / 79, for i from 0
    to 79 and then again."""
    few_shot_buffer: int = 10_000
    """Sequences in the replay buffer of a clone in few-shot evaluations."""
    shaping_steps: float | None = 2.5e6
    """Steps of a task over which shaped rewards decay linearly to 0; None for no decay."""
    share_shaping: bool = True
    """Every seat gets the sum of the shaped rewards of all seats."""
    reset_optimizer: bool = False
    """Reset the optimiser at the start of every task."""

    def __post_init__(self) -> None:
        counts = "n_step batch_size gradient_steps target_every few_shot_buffer sequence_length"
        each(at_least, self, counts, 1)
        each(at_least, self, "burn_in warm_up", 0)
        each(positive, self, "learning_rate adam_eps max_grad_norm")
        each(positive, self, "final_learning_rate shaping_steps")
        each(within, self, "gamma momentum priority_exponent importance_exponent", 0.0, 1.0)
        each(within, self, "priority_max_share exploration", 0.0, 1.0)
        if self.few_shot_buffer < self.batch_size:
            raise ValueError(
                f"few_shot_buffer is {self.few_shot_buffer}; it must hold a batch of "
                f"{self.batch_size}"
            )
        if self.buffer_size < max(self.batch_size, self.warm_up):
            raise ValueError(
                f"buffer_size is {self.buffer_size}; it must hold a batch of {self.batch_size} and "
                f"the {self.warm_up} sequences of the warm-up"
            )


@dataclass(frozen=True)
class QNetworkConfig(NetworkSettings):
    """Settings of the network; defaults are type 1 of the Lifelong Hanabi paper, but wider."""

    hidden: tuple[int, ...] = (512,)
    """Sizes of the feed-forward layers."""
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
    dropout: float = 0.0
    """Share of the feed-forward layers' outputs that is dropped in training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within("memory_layers", self.memory_layers, 1, MAX_LAYERS)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it must be at least 0 and below 1")

    def build(self, env: Environment, predictions: int = 0) -> QNetwork:
        """The network, with so many outputs for an auxiliary loss."""
        encoder_class(self.encoder).check(self.encoder, env.obs_shape)
        settings = {name: value for name, value in vars(self).items() if name != "precision"}
        return QNetwork(env.num_actions, **settings, predictions=predictions, dtype=self.dtype)


@dataclass(frozen=True)
class QLearning(LearnerSettings):
    """Q-learning of any kind."""

    q: Any = None
    network: QNetworkConfig = field(default_factory=QNetworkConfig)
    add: Additions = field(default_factory=Additions)

    learner: ClassVar[type[SequenceLearner]]

    def build(
        self,
        env: Environment,
        *,
        num_tasks: int,
        updates_per_task: int,
        changing_inputs: int | None = None,
        critic_ids: int = 0,
    ) -> SequenceLearner:
        """The learner for an environment; all tasks share one head."""
        policy = self.add.build_policy(env, self.network, self.q.exploration)
        return self.learner(policy, self.q, updates_per_task, num_tasks, self.add.aux)
