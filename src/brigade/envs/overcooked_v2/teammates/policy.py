"""Heuristic teammates as policies: a family is one program, its instances are parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Environment, FromSeat, Key, Policy, View
from brigade.envs.overcooked_v2.env import OvercookedV2
from brigade.envs.overcooked_v2.rules import Whole
from brigade.envs.overcooked_v2.teammates import assembly, recipe, territory, utility
from brigade.envs.overcooked_v2.teammates.beliefs import Belief, everything, look, nothing_known
from brigade.envs.overcooked_v2.teammates.instances import instance
from brigade.envs.overcooked_v2.teammates.kitchen import Decision, Kitchen

RELEASED = "as_released"


class Family(NamedTuple):
    """The functions of a family, about one cook."""

    params: Callable[..., Any]
    start: Callable[[], Any]  # its memory before an episode
    draw: Callable[[Key, Array], Any]  # fresh noise
    draw_as_released: Callable[[Array], tuple[Any, Array]]
    decide: Callable[[Any, Any, Kitchen, Any, bool], Decision]


FAMILIES: Mapping[str, Family] = {
    name: Family(params, code.start, code.draw, code.draw_as_released, code.decide)
    for name, params, code in (
        ("h1", recipe.Recipe, recipe),
        ("h2", territory.Territory, territory),
        ("h3", assembly.Assembly, assembly),
        ("h4", utility.Utility, utility),
    )
}


class Mind(struct.PyTreeNode):
    """The recurrent state of a teammate. Leaves [*batch, ...]."""

    memory: Any  # the family's
    belief: Belief | None  # None: it knows all, as in the release
    noise: Any  # [2] uint32: the release's key; None: noise is fresh


@dataclass(frozen=True)
class Teammate(Policy):
    """A heuristic teammate, in kitchens of one size; the base class of the families.

    By default it knows the kitchen and itself, and of everything else what it has seen. With
    `as_released` it decides as the public release does: it knows all, and every episode repeats
    the same noise.
    """

    height: int
    width: int
    view: int | None = 2  # tiles that it sees each way
    renews: bool = True  # there is a new recipe after a right soup
    as_released: bool = False
    instance: str = "default"  # whose parameters `init` gives

    family: ClassVar[str] = ""
    always_samples: ClassVar[bool] = True
    sees_state: ClassVar[bool] = True

    @classmethod
    def for_game(cls, env: Environment) -> Teammate:
        """A teammate for OvercookedV2 with two cooks; an error for other environments."""
        if not isinstance(env, OvercookedV2) or env.num_agents != 2:
            raise ValueError(
                "heuristic teammates need OvercookedV2 with two cooks; choose another partner"
            )
        return cls(env.height, env.width, env.view, env.new_recipe_on_delivery)

    def named(self, which: str) -> Teammate:
        """An instance by its name; with `:as_released` it decides as the public release does."""
        name, _, how = which.partition(":")
        if name == RELEASED:
            name, how = self.instance, name
        if how not in ("", RELEASED):
            raise ValueError(f"{how!r} is no way to decide; use {RELEASED} or leave it out")
        instance(self.family, name)
        return replace(self, as_released=how == RELEASED, instance=name)

    def member(self) -> tuple[Teammate, Any]:
        """The policy that all instances of the family share, and the parameters of this one."""
        return replace(self, instance="default"), parameters(self.family, self.instance)

    def init(self, key: Key) -> Any:
        """The parameters of its instance."""
        return parameters(self.family, self.instance)

    def initial_carry(self, batch: tuple[int, ...]) -> Mind:
        """The state before an episode."""
        belief = None if self.as_released else nothing_known(self.height * self.width)
        noise = jnp.zeros(2, jnp.uint32) if self.as_released else None
        one = Mind(FAMILIES[self.family].start(), belief, noise)
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (*batch, *x.shape)), one)

    def act(
        self, params: Any, carry: Mind, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Mind, dict[str, Any]]:
        """One action per seat. Every episode begins with nothing remembered."""
        shape = view.active.shape
        seen: FromSeat = view.state
        keys = jax.random.split(key, shape)

        def act(carry: Mind, game: Whole, seat: Array, first: Array, key: Key) -> Any:
            fresh = self.initial_carry(())
            carry = jax.tree.map(lambda new, old: jnp.where(first, new, old), fresh, carry)
            return self.decide(params, carry, game, seat, first, key)

        for _ in shape:
            act = jax.vmap(act)
        first = view.first | view.resets
        action, carry = act(carry, seen.state, seen.seat, first, keys)
        return action, carry, {}

    def decide(
        self, params: Any, mind: Mind, game: Whole, seat: Array, first: Array, key: Key
    ) -> tuple[Array, Mind]:
        """The action of one cook."""
        family = FAMILIES[self.family]
        if mind.belief is not None:
            mood_key, draw_key = jax.random.split(key)
            scene, belief = look(game, seat, mind.belief, self.view, self.renews, mood_key)
            draws = family.draw(draw_key, belief.mood)
            decision = family.decide(params, mind.memory, Kitchen(scene), draws, False)
            return decision.action, Mind(decision.memory, belief, None)
        restarted = jnp.stack([jnp.uint32(0), seat.astype(jnp.uint32)])
        draws, keys = family.draw_as_released(jnp.where(first, restarted, mind.noise))
        kitchen = Kitchen(everything(game, seat))
        decision = family.decide(params, mind.memory, kitchen, draws, True)
        return decision.action, Mind(decision.memory, None, keys[decision.branch])


def parameters(family: str, name: str) -> Any:
    """The parameters of an instance by its name, as arrays."""
    return as_arrays(family, instance(family, name))


def as_arrays(family: str, values: Mapping[str, float]) -> Any:
    """Parameters as arrays: whole numbers are int32, others float32."""
    kinds = {name: jnp.int32 if isinstance(v, int) else jnp.float32 for name, v in values.items()}
    return FAMILIES[family].params(**{name: kinds[name](value) for name, value in values.items()})


class H1(Teammate):
    """A teammate that cooks by the recipe that it knows or finds out."""

    family: ClassVar[str] = "h1"


class H2(Teammate):
    """A teammate that keeps to its part of the kitchen, or hinders."""

    family: ClassVar[str] = "h2"


class H3(Teammate):
    """A teammate that runs ingredients, or plates and serves, or both."""

    family: ClassVar[str] = "h3"


class H4(Teammate):
    """A teammate that scores what it could do and follows the best."""

    family: ClassVar[str] = "h4"
