"""Networks and the policies made of them."""

from brigade.nets.actor_critic import ActorCritic
from brigade.nets.encoders import CNN, MLP
from brigade.nets.inputs import ChangingInputs
from brigade.nets.policy import ActorCriticPolicy

__all__ = ["CNN", "MLP", "ActorCritic", "ActorCriticPolicy", "ChangingInputs"]
