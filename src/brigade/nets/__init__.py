"""Networks and the policies built from them."""

from brigade.nets.actor_critic import ActorCritic, Joint
from brigade.nets.encoders import Encoder
from brigade.nets.inputs import ChangingInputs
from brigade.nets.policy import ActorCriticPolicy, RecurrentPolicy

__all__ = [
    "ActorCritic",
    "ActorCriticPolicy",
    "ChangingInputs",
    "Encoder",
    "Joint",
    "RecurrentPolicy",
]
