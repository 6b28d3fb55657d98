"""Networks and the policies built from them."""

from brigade.core.distributions import Categorical, Gaussian
from brigade.nets.actor_critic import ActorCritic, Joint
from brigade.nets.encoders import CNN, MLP
from brigade.nets.inputs import ChangingInputs
from brigade.nets.policy import ActorCriticPolicy, RecurrentPolicy

__all__ = [
    "CNN",
    "MLP",
    "ActorCritic",
    "ActorCriticPolicy",
    "Categorical",
    "ChangingInputs",
    "Gaussian",
    "Joint",
    "RecurrentPolicy",
]
