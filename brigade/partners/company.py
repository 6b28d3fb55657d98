"""Games whose task also says who the partner is: new partners are new tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, Key, Policy, TimeStep, View
from brigade.envs.overcooked import Overcooked, State
from brigade.envs.overcooked import Task as Kitchen


class Company(struct.PyTreeNode):
    """A task: a kitchen, and who of a roster works in it with the learner."""

    kitchen: Kitchen
    partner: Array  # int32: a number in the roster
    id: Array  # int32: which task of a sequence this is


class Situation(struct.PyTreeNode):
    """What a view tells those who may know more than the cooks."""

    state: State
    partner: Array


@dataclass(frozen=True)
class KitchenInCompany:
    """Overcooked with tasks that name the partner; nothing that cooks see tells who it is."""

    game: Overcooked

    fixed_length = Overcooked.fixed_length
    events = Overcooked.events
    num_actions = Overcooked.num_actions

    @property
    def num_agents(self) -> int:
        """Cooks, learner and partner."""
        return self.game.num_agents

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """[height, width, channels] of one seat."""
        return self.game.obs_shape

    @property
    def horizon(self) -> int:
        """Steps of a game."""
        return self.game.horizon

    def reset(self, key: Key, task: Company) -> tuple[State, TimeStep]:
        """As in the kitchen."""
        return self._in_company(task, self.game.reset(key, _kitchen(task)))

    def step(self, key: Key, state: State, action: Array, task: Company) -> tuple[State, TimeStep]:
        """As in the kitchen."""
        return self._in_company(task, self.game.step(key, state, action, _kitchen(task)))

    def _in_company(self, task: Company, after: tuple[State, TimeStep]) -> tuple[State, TimeStep]:
        state, step = after
        situation = Situation(step.view.state, task.partner)
        return state, step.replace(view=step.view.replace(state=situation))

    def changing_inputs(self, tasks: Company) -> int:
        """At most so many entries of an observation change within a game of any of `tasks`."""
        return self.game.changing_inputs(tasks.kitchen)

    def picture(self, task: Company) -> np.ndarray:
        """RGB of the kitchen at its start."""
        return self.game.picture(task.kitchen)

    def frames(self, states: State, task: Company) -> list[np.ndarray]:
        """RGB pictures of a game, `states` with leaves [moments, ...]."""
        return self.game.frames(states, task.kitchen)


def _kitchen(task: Company) -> Kitchen:
    kitchen: Kitchen = task.kitchen.replace(id=task.id)
    return kitchen


@dataclass(frozen=True)
class Group:
    """Partners that are one policy with different parameters: leaves [size, ...]."""

    policy: Policy
    params: Any = ()
    size: int = 1


@dataclass(frozen=True, eq=False)  # compiled programs know a roster by who it is
class Roster:
    """Partners of several kinds, numbered through; the task's partner plays.

    Partners always draw their actions, as they did when they learned: one that takes only its
    likeliest actions would be somebody else.
    """

    groups: Sequence[Group]

    def init(self, key: Key) -> tuple[()]:
        """Nothing to learn."""
        return ()

    def initial_carry(self, batch: tuple[int, ...]) -> list[Any]:
        """Everybody's memory: per group, leaves [members, *batch, ...]."""

        def for_all(group: Group) -> Any:
            one = group.policy.initial_carry(batch)
            return jax.tree.map(lambda x: jnp.broadcast_to(x, (group.size, *x.shape)), one)

        return [for_all(group) for group in self.groups]

    def act(
        self, params: tuple[()], carry: list[Any], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, list[Any], dict[str, Array]]:
        """All choose, side by side; the one who is there is heard."""
        actions, memories = [], []
        for group, memory in zip(self.groups, carry, strict=True):
            choose = jax.vmap(group.policy.act, (0, 0, None, None), axis_size=group.size)
            action, after, _ = choose(group.params, memory, view, key)
            actions.append(action)
            memories.append(after)
        everyone = jnp.concatenate(actions)  # [partners, ..., seats]
        who = jnp.broadcast_to(view.state.partner[..., None], everyone.shape[1:])
        return jnp.take_along_axis(everyone, who[None], axis=0)[0], memories, {}
