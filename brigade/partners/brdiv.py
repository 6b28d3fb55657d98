"""BRDiv: partners that each need another answer (Rahman and others, TMLR 2023).

Every partner has a best response of its own. Pairs that belong together are paid for what they
achieve, all other pairs for what they do not: so partners come to differ in what works with them.
All pairings are played side by side in every rollout; partners and responses are one stack of
players that learn by PPO.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import struct

from brigade.core import Array, Key
from brigade.core.checks import at_least, positive, within
from brigade.envs.overcooked import Overcooked, Task
from brigade.learners.losses import (
    clipped_surrogate,
    clipped_value_loss,
    generalised_advantage,
    normalise,
    shuffled_minibatches,
)
from brigade.nets.distributions import Categorical
from brigade.nets.encoders import MLP
from brigade.partners.learned import Actor, Learned, Population

RESPONSE, PARTNER = 0, 1  # seats: the learner's is the first


@dataclass(frozen=True)
class BRDiv:
    """How a population is made. Members and cross-play are the MEAL paper's, appendix J."""

    members: int = 3
    """Partners to make, each with a best response of its own."""
    cross_play: float = 1.0
    """Weight of what partners must not achieve with the responses of others."""
    steps: float = 3e6
    """Environment steps in all."""
    num_envs: int = 8
    """Games of every pairing side by side; 3 members make 9 pairings."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the layers of every network."""
    learning_rate: float = 1e-3
    """Adam's step size at the beginning; it falls to nothing at the end."""
    epochs: int = 6
    """How often every sample of a rollout is learned from."""
    minibatches: int = 8
    """Parts a rollout's samples are divided into."""
    gamma: float = 0.99
    """Discount per step."""
    gae_lambda: float = 0.95
    """How far advantages look ahead."""
    clip: float = 0.2
    """How far an action's probability ratio may usefully leave 1."""
    entropy_coef: float = 0.02
    """Weight of the reward for undecided policies."""
    value_coef: float = 0.5
    """Weight of the critic's loss."""
    max_grad_norm: float = 1.0
    """Longer gradients are shortened to this."""

    def __post_init__(self) -> None:
        at_least("members", self.members, 2)
        at_least("cross_play", self.cross_play, 0.0)
        for name in ("num_envs", "epochs", "minibatches"):
            at_least(name, getattr(self, name), 1)
        for name in ("gamma", "gae_lambda"):
            within(name, getattr(self, name), 0.0, 1.0)
        for name in ("steps", "learning_rate", "clip", "max_grad_norm"):
            positive(name, getattr(self, name))

    def weights(self) -> np.ndarray:
        """[members, members]: what a pairing's reward counts for, where the objective is

        (1 + 2 cross_play) * mean of own pairs - cross_play * mean of other pairs.
        """
        number = self.members
        own = (1.0 + 2.0 * self.cross_play) * number
        other = -self.cross_play * number / (number - 1)
        return np.where(np.eye(number, dtype=bool), own, other).astype(np.float32)


class Critic(nn.Module):
    """From an observation and who the other is to a value."""

    members: int
    hidden: tuple[int, ...]

    @nn.compact
    def __call__(self, obs: Array, other: Array) -> Array:
        """[samples, *observation], [samples] -> [samples]."""
        x = MLP(self.hidden, num_tasks=self.members)(obs, other, (len(obs),))
        value: Array = nn.Dense(1, kernel_init=nn.initializers.orthogonal(1.0))(x)[..., 0]
        return value


class Players(struct.PyTreeNode):
    """All who learn: leaves [2 seats, members, ...], the response's seat first."""

    actor: Any
    critic: Any
    opt_state: Any


class Samples(struct.PyTreeNode):
    """What players learn from: leaves [2 seats, members, samples, ...]."""

    obs: Array
    action: Array
    log_prob: Array
    value: Array
    advantage: Array
    target: Array
    other: Array  # int32: who was there
    weight: Array  # f32: of the pairing


@dataclass(frozen=True)
class Generator:
    """One compiled update of a population in one kitchen."""

    settings: BRDiv
    env: Overcooked

    @property
    def updates(self) -> int:
        """Rollouts, one game long each."""
        games = self.settings.members**2 * self.settings.num_envs
        return max(1, round(self.settings.steps / (games * self.env.horizon)))

    @property
    def policy(self) -> Learned:
        """What players act with."""
        return Learned(Actor(self.env.num_actions, self.settings.hidden), self.env.obs_shape)

    @property
    def critic(self) -> Critic:
        """What values their games."""
        return Critic(self.settings.members, self.settings.hidden)

    @property
    def optimizer(self) -> optax.GradientTransformation:
        """Adam, with a rate that falls to nothing."""
        cfg = self.settings
        last = self.updates * cfg.epochs * cfg.minibatches
        return optax.chain(
            optax.clip_by_global_norm(cfg.max_grad_norm),
            optax.adam(optax.linear_schedule(cfg.learning_rate, 0.0, last), eps=1e-5),
        )

    def init(self, key: Key) -> Players:
        """Fresh players; one after the other, since batched orthogonal weights can block a CPU."""
        obs = jnp.zeros((1, *self.env.obs_shape), jnp.uint8)

        def player(key: Key) -> Players:
            actor_key, critic_key = jax.random.split(key)
            actor = self.policy.init(actor_key)
            critic = self.critic.init(critic_key, obs, jnp.zeros(1, jnp.int32))["params"]
            return Players(actor, critic, self.optimizer.init((actor, critic)))

        keys = jax.random.split(key, 2 * self.settings.members)
        return jax.tree.map(
            lambda *leaves: jnp.stack(leaves).reshape(2, self.settings.members, *leaves[0].shape),
            *[jax.jit(player)(each) for each in keys],
        )

    @partial(jax.jit, static_argnums=0)
    def update(self, players: Players, task: Task, key: Key) -> tuple[Players, Array]:
        """Play every pairing, learn; also the soups of each [partner, response]."""
        play_key, learn_key = jax.random.split(key)
        samples, soups = self.play(players, task, play_key)
        return self.learn(players, samples, learn_key), soups

    def play(self, players: Players, task: Task, key: Key) -> tuple[Samples, Array]:
        """A game of every pairing in every environment."""
        cfg, number = self.settings, self.settings.members
        games = (number, number, cfg.num_envs)  # partner, response, environment
        reset_key, scan_key = jax.random.split(key)
        reset, step = self.env.reset, self.env.step
        for _ in games:
            reset, step = jax.vmap(reset, (0, None)), jax.vmap(step, (0, 0, 0, None))
        state, now = reset(jax.random.split(reset_key, games), task)
        logits_of = jax.vmap(jax.vmap(self._logits))

        def turn(carry: tuple[Any, Array], key: Key) -> tuple[Any, Any]:
            state, obs = carry
            act_key, step_key = jax.random.split(key)
            answers = logits_of(players.actor, by_player(obs))
            actions = Categorical.sample(act_key, answers)
            log_prob = Categorical.log_prob(answers, actions)
            keys = jax.random.split(step_key, games)
            state, then = step(keys, state, by_game(actions), task)
            shaped = then.info["shaped_reward"]
            reward = then.reward + shaped.sum(-1, keepdims=True)
            record = (by_player(obs), actions, log_prob, by_player(reward))
            return (state, then.view.obs), record

        keys = jax.random.split(scan_key, self.env.horizon)
        (state, last), record = jax.lax.scan(turn, (state, now.view.obs), keys)
        obs, action, log_prob, reward = record  # [T, 2, self, other, environments, ...]
        pairing = jnp.asarray(cfg.weights())
        reward = reward * jnp.sign(pairing)[:, :, None]
        other = jnp.broadcast_to(jnp.arange(number)[:, None], reward.shape[1:])
        value = self._values(players, jnp.concatenate([obs, by_player(last)[None]]), other)
        never = jnp.zeros(reward.shape[:-1], bool)  # games end with rollouts, cut by their limit
        advantage = generalised_advantage(reward, value, never, never, cfg.gamma, cfg.gae_lambda)
        samples = Samples(
            obs=obs,
            action=action,
            log_prob=log_prob,
            value=value[:-1],
            advantage=advantage,
            target=advantage + value[:-1],
            other=jnp.broadcast_to(other, reward.shape),
            weight=jnp.broadcast_to(jnp.abs(pairing)[:, :, None], reward.shape),
        )
        flat = jax.tree.map(samples_of_players, samples)
        return flat, state.soups.mean(-1).astype(jnp.float32)

    def _logits(self, actor: Any, obs: Array) -> Array:
        """Of one player: [other, environments, ...] -> [other, environments, actions]."""
        rows = obs.reshape(-1, *self.env.obs_shape)
        logits = self.policy.network.apply({"params": actor}, rows)
        return jnp.asarray(logits).reshape(*obs.shape[:2], -1)

    def _values(self, players: Players, obs: Array, other: Array) -> Array:
        """[T + 1, 2, self, other, environments]."""

        def of_player(critic: Any, obs: Array, other: Array) -> Array:
            def at_once(obs: Array) -> Array:
                rows = obs.reshape(-1, *self.env.obs_shape)
                value = self.critic.apply({"params": critic}, rows, other.reshape(-1))
                return jnp.asarray(value).reshape(other.shape)

            return jax.vmap(at_once)(obs)

        return jax.vmap(jax.vmap(of_player, (0, 1, 0), 1), (0, 1, 0), 1)(players.critic, obs, other)

    def learn(self, players: Players, samples: Samples, key: Key) -> Players:
        """Every player learns from its own games."""
        cfg = self.settings
        number = samples.action.shape[2]
        index = shuffled_minibatches(key, number, cfg.epochs, cfg.minibatches)

        def one_step(players: Players, index: Array) -> tuple[Players, None]:
            batch = jax.tree.map(lambda x: jnp.take(x, index, axis=2), samples)
            return jax.vmap(jax.vmap(self._gradient_step))(players, batch), None

        return jax.lax.scan(one_step, players, index)[0]

    def _gradient_step(self, player: Players, batch: Samples) -> Players:
        grads = jax.grad(self.loss)((player.actor, player.critic), batch)
        steps, opt_state = self.optimizer.update(grads, player.opt_state)
        actor, critic = optax.apply_updates((player.actor, player.critic), steps)
        return Players(actor, critic, opt_state)

    def loss(self, params: tuple[Any, Any], batch: Samples) -> Array:
        """PPO's, for one player; pairings weigh in the policy's term only."""
        cfg, (actor, critic) = self.settings, params
        logits = jnp.asarray(self.policy.network.apply({"params": actor}, batch.obs))
        value = jnp.asarray(self.critic.apply({"params": critic}, batch.obs, batch.other))
        gain = clipped_surrogate(
            Categorical.log_prob(logits, batch.action),
            batch.log_prob,
            normalise(batch.advantage, jnp.ones_like(batch.advantage)),
            cfg.clip,
        )
        error = clipped_value_loss(value, batch.value, batch.target, None)
        return (
            -jnp.mean(batch.weight * gain)
            + cfg.value_coef * jnp.mean(error)
            - cfg.entropy_coef * jnp.mean(Categorical.entropy(logits))
        )


def by_player(x: Array) -> Array:
    """[partner, response, environments, seats, ...] -> [seats, self, other, environments, ...]."""
    return jnp.stack([x[:, :, :, RESPONSE].swapaxes(0, 1), x[:, :, :, PARTNER]])


def by_game(x: Array) -> Array:
    """The inverse of `by_player`."""
    return jnp.stack([x[RESPONSE].swapaxes(0, 1), x[PARTNER]], axis=3)


def samples_of_players(x: Array) -> Array:
    """[T, seats, self, other, environments, ...] -> [seats, self, samples, ...]."""
    x = jnp.moveaxis(x, 0, 2)
    return x.reshape(*x.shape[:2], -1, *x.shape[5:])


def generate(
    settings: BRDiv,
    env: Overcooked,
    task: Task,
    kitchen: str,
    seed: int,
    watch: Callable[[float, Array], None] | None = None,
) -> Population:
    """Make a population; `watch` hears how much is done and the soups of each pairing.

    `kitchen` is the name of the task's.
    """
    generator = Generator(settings, env)
    init_key, loop_key = jax.random.split(jax.random.key(seed))
    players = generator.init(init_key)
    soups = jnp.zeros((settings.members, settings.members))
    for number in range(generator.updates):
        key = jax.random.fold_in(loop_key, number)
        players, soups = generator.update(players, task, key)
        if watch is not None:
            watch((number + 1) / generator.updates, soups)
    partners = jax.tree.map(lambda x: x[PARTNER], players.actor)
    story = {
        "generator": "brdiv",
        "kitchen": kitchen,
        "seed": seed,
        "settings": asdict(settings),
        "soups": np.asarray(soups).tolist(),  # [partner, response], last rollout
    }
    return Population(generator.policy, partners, story)
