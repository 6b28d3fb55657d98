"""PyTorch agents that Brigade can measure, seat as partners and film.

    brigade evaluate zsc_eval/coordination_ring --policy examples/torch_agent.py:act
    brigade crossplay examples/torch_agent.py:Recurrent human --benchmark overcooked/layout

Brigade calls the agent once per timestep, with one row per seat that it has in all games. A network
of your own goes where these untrained ones are: torch.load or safetensors, then .eval().
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from brigade.core import View

torch.manual_seed(0)
torch.set_num_threads(1)  # the games need the other cores

network = nn.Sequential(nn.LazyLinear(64), nn.ReLU(), nn.LazyLinear(6))


def inputs(view: View) -> torch.Tensor:
    """Observations [rows, entries]."""
    obs = np.asarray(view.obs, np.float32)
    return torch.from_numpy(obs.reshape(len(obs), -1))


def sample(logits: torch.Tensor, view: View) -> np.ndarray:
    """One of the available actions per row."""
    allowed = logits.masked_fill(~torch.from_numpy(np.array(view.avail)), -1e9)
    return torch.distributions.Categorical(logits=allowed).sample().numpy()


@torch.no_grad()
def act(view: View) -> np.ndarray:
    """Actions [rows] of an agent without memory."""
    return sample(network(inputs(view)), view)


class Recurrent:
    """An agent with memory. Brigade keeps the memory and resets it when an episode begins."""

    def __init__(self) -> None:
        self.encoder, self.head = nn.LazyLinear(64), nn.Linear(32, 6)
        self.cell = nn.GRUCell(64, 32)

    def initial_memory(self, number: int) -> np.ndarray:
        """The memory of `number` seats before an episode: an array, or a dict of arrays."""
        return np.zeros((number, 32), np.float32)

    @torch.no_grad()
    def act(self, view: View, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Actions [rows], and the memory for the next timestep."""
        hidden = torch.relu(self.encoder(inputs(view)))
        state = self.cell(hidden, torch.from_numpy(np.array(memory)))
        return sample(self.head(state), view), state.numpy()
