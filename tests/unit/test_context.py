"""The transformer, and policies that act with a context."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.core import View
from brigade.learners.in_context import AD, ContextNetworkConfig
from brigade.nets import transformer
from brigade.nets.context import ContextNetwork, ContextPolicy, Tokens, make_context_policy
from brigade.nets.transformer import attention, fused_attention

GAMES, STEPS, EPISODE = 3, 23, 5
SMALL = {"hidden": (8,), "layers": 2, "width": 16, "heads": 2}
NETWORK = ContextNetwork(num_actions=4, context=9, horizon=6, **SMALL)


def policy_with(**changes):
    return ContextPolicy(NETWORK.clone(**changes), (3,))


def views(seed=0, others=0):
    """Views of several episodes [STEPS, GAMES, 1 seat]."""
    numbers, shape = np.random.default_rng(seed), (STEPS, GAMES, 1)
    first = np.broadcast_to((np.arange(STEPS) % EPISODE == 0)[:, None, None], shape)
    return View(
        obs=numbers.integers(0, 2, (*shape, 3)).astype(np.uint8),
        avail=np.ones((*shape, 4), bool),
        prev_action=numbers.integers(-1, 4, shape).astype(np.int32),
        prev_reward=numbers.random(shape).astype(np.float32),
        first=first,
        active=np.ones(shape, bool),
        task_id=np.zeros(shape, np.int32),
        forget=np.zeros(shape, bool),
        others=numbers.integers(-1, 4, (*shape, others)).astype(np.int32) if others else None,
    )


def acted_logits(policy, params, seen):
    """The logits of every timestep when acting one by one [STEPS, GAMES, actions]."""

    def step(carry, view):
        # The mode of logits says little; probabilities of samples would need many. So ask twice.
        logits = policy.network.apply(
            {"params": params},
            Tokens.of(jax.tree.map(lambda x: x[:, 0], view), stepped(carry, view)[:, 0]),
            jnp.where(view.resets, 0, carry.length)[:, 0],
            jax.tree.map(lambda x: x[:, 0], carry.rings),
            method=ContextNetwork.step,
        )[0]
        action, carry, _ = policy.act(params, carry, view, jax.random.key(0), greedy=True)
        return carry, (logits, action)

    carry = policy.initial_carry((GAMES, 1))
    _, (logits, actions) = jax.jit(lambda: jax.lax.scan(step, carry, seen))()
    assert (actions[..., 0] == logits.argmax(-1)).all()
    return np.asarray(logits)


def stepped(carry, view):
    return jnp.where(view.first, 0, carry.step + 1)


def whole_logits(policy, params, seen, start=0):
    """The logits of the timesteps from `start` on, all at once [STEPS, GAMES, actions]."""
    step = np.broadcast_to((np.arange(STEPS) % EPISODE)[:, None, None], seen.first.shape)
    tokens = jax.tree.map(
        lambda x: jnp.moveaxis(jnp.asarray(x[start:, :, 0]), 0, 1), Tokens.of(seen, step)
    )
    logits, _ = jax.jit(policy.sequence)(params, tokens)
    return np.asarray(logits.swapaxes(0, 1))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "learned", "others": 2},
        {"positions": "none", "marks": "first"},
        {"marks": "none", "context": 1},
        {"blank": True, "others": 1},
    ],
    ids=str,
)
def test_acting_with_a_ring_equals_all_timesteps_at_once(changes):
    """Also when the context has long been full: attention reaches as far back in both."""
    policy = policy_with(**changes)
    params, seen = policy.init(jax.random.key(1)), views(others=changes.get("others", 0))
    acted, whole = acted_logits(policy, params, seen), whole_logits(policy, params, seen)
    np.testing.assert_allclose(acted, whole, atol=2e-6)
    assert np.ptp(whole, axis=0).max() > 0.01


def test_a_reset_empties_the_context():
    policy, seen = policy_with(), views()
    params = policy.init(jax.random.key(1))
    forgets = np.array(seen.forget)
    forgets[15, 1:] = True  # of two games
    acted = acted_logits(policy, params, seen.replace(forget=forgets))
    never, anew = (whole_logits(policy, params, seen, start) for start in (0, 15))
    np.testing.assert_allclose(acted[:15], never[:15], atol=2e-6)
    np.testing.assert_allclose(acted[15:, 0], never[15:, 0], atol=2e-6)
    np.testing.assert_allclose(acted[15:, 1:], anew[:, 1:], atol=2e-6)
    assert abs(acted[16:, 1:] - never[16:, 1:]).max() > 1e-3


def test_a_blank_context_shows_the_present_alone():
    policy, seen = policy_with(blank=True), views()
    params = policy.init(jax.random.key(1))
    other = views(seed=7)
    other = other.replace(obs=np.concatenate([other.obs[:-1], seen.obs[-1:]]))
    one, two = (whole_logits(policy, params, each)[-1] for each in (seen, other))
    np.testing.assert_allclose(one, two, atol=1e-6)
    assert policy.initial_carry((1,)).rings[0].keys.shape[-2] == 1


@pytest.mark.parametrize("reach", [1, 4, 50])
def test_blocks_of_queries_equal_attention_at_once(monkeypatch, reach):
    keys = jax.random.split(jax.random.key(0), 3)
    parts = [jax.random.normal(key, (2, 3, 23, 8)) for key in keys]
    whole = attention(*parts, reach)
    monkeypatch.setattr(transformer, "BLOCK", 5)
    np.testing.assert_allclose(attention(*parts, reach), whole, atol=1e-6)
    np.testing.assert_allclose(fused_attention(*parts, reach), whole, atol=1e-5)


def test_a_policy_is_rebuilt_from_its_settings():
    policy = policy_with(predicts_obs=3, dropout=0.1)
    params = policy.init(jax.random.key(0))
    acting, kept = policy.actor(params, 0)
    again = make_context_policy(acting.settings())
    assert again == acting
    assert jax.tree.map(jnp.shape, again.init(jax.random.key(1))) == jax.tree.map(jnp.shape, kept)


def test_sizes_are_named_and_refused_in_words():
    with pytest.raises(ValueError, match="heads is 3; it must divide the width, 64"):
        replace(AD().network, size="small", heads=3)
    with pytest.raises(ValueError, match="hidden is empty"):
        ContextNetworkConfig(hidden=())
