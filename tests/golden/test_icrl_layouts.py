"""What learners see of histories, and their policies in games, against ICRL4AHT's release.

The arrays come from a transcription by hand of the loaders of AHT-Hub/ICRL4AHT at 22f6c17.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from support.tell import TASK, Tell

from brigade.core import Acting, Group, Policy, Round, Seating, Windows
from brigade.core.histories import ACTIONS, EXPERT_ACTIONS, OBS, REWARDS, TEAMMATE_ACTIONS
from brigade.core.seating import pairing_of
from brigade.histories import ArrayHistories, Batches
from brigade.histories.batches import NEXT_OBS, PREVIOUS, VALID
from brigade.methods.ft import FineTuning
from brigade.partners.scripted import Random
from brigade.train import Evaluator, Players

GOLDEN = json.loads((Path(__file__).parent / "data" / "icrl_sequence_layout.json").read_text())
FIELDS = {
    OBS: np.int32,
    ACTIONS: np.int32,
    TEAMMATE_ACTIONS: np.int32,
    EXPERT_ACTIONS: np.int32,
    REWARDS: np.float32,
    "dones": bool,
}


def recorded():
    rows = [
        {name: np.array(each[name], kind) for name, kind in FIELDS.items()}
        for each in GOLDEN["histories"]
    ]
    return ArrayHistories(rows, ["AB".index(each["task_id"]) for each in GOLDEN["histories"]])


def as_released(batch):
    """The release's names, and its 0 for an action that was not."""
    names = {ACTIONS: "target_actions", VALID: "attention_mask"}
    kept = {OBS, "dones", *names, *PREVIOUS}
    return {
        names.get(name, name): np.where(x == -1, 0, x) if "action" in name else x
        for name, x in batch.items()
        if name in kept
    }


def expect_rows(batch, rows, prefix=""):
    for number, row in enumerate(rows):
        for name, values in batch.items():
            assert values[number].tolist() == row[prefix + name], (number, name)


def test_windows_are_those_of_the_release():
    batches = Batches(recorded(), GOLDEN["ad"]["seq_len"], 1)
    for row in GOLDEN["ad"]["fixed"]:
        window = as_released(batches.window(row["history"], row["start"]))
        assert len(window) == 7
        expect_rows({name: x[None] for name, x in window.items()}, [row])


def test_sampled_windows_are_those_of_the_release():
    sampled = GOLDEN["ad"]["sampled"]
    batches = Batches(recorded(), GOLDEN["ad"]["seq_len"], sampled["batch_size"])
    batch = batches.sample(np.random.default_rng(sampled["numpy_default_rng"]))
    expect_rows(as_released(batch), sampled["rows"])


@pytest.mark.parametrize("kind", ["fixed", "sampled"])
def test_queries_and_their_contexts_are_those_of_the_release(kind):
    dpt = GOLDEN["dpt"]
    windows = Windows((EXPERT_ACTIONS,), query_first=True)
    rows = dpt["fixed"] if kind == "fixed" else dpt["sampled"]["rows"]
    batches = Batches(recorded(), dpt["ctx_len"] + 1, len(rows), windows)
    if kind == "sampled":
        batch = batches.sample(np.random.default_rng(dpt["sampled"]["numpy_default_rng"]))
    else:
        places = ("query_history", "query_t", "context_history", "context_start")
        each = [batches.query(*(row[name] for name in places)) for row in rows]
        batch = {name: np.stack([one[name] for one in each]) for name in each[0]}
    assert batch[VALID].sum(1).tolist() == [row["valid"] for row in rows]
    context = (OBS, ACTIONS, NEXT_OBS, REWARDS, TEAMMATE_ACTIONS)
    expect_rows({name: batch[name] for name in context}, rows, "context_")
    expect_rows({name: batch[name] for name in ("query_obs", "query_target")}, rows)


# What a policy sees in a game, and what it would see of that game as a history.


@dataclass(frozen=True)
class Longer(Tell):
    """Rewards differ from actions, and perhaps it says that all episodes are equally long."""

    fixed_length: bool = False

    def _now(self, time, action, task):
        now = super()._now(time, action, task)
        reward = 10.0 * now.reward + time
        view = now.view.replace(prev_reward=jnp.where(time == 0, 0.0, reward))
        return now.replace(reward=reward, view=view)


@dataclass(frozen=True, eq=False)
class Spy(Policy):
    """Plays at random and writes down what it sees and does."""

    outlives: bool
    log: list = field(default_factory=list)
    sees_actions: ClassVar[bool] = True

    @property
    def outlives_episodes(self):
        return self.outlives

    def init(self, key):
        return ()

    def initial_carry(self, batch):
        return jnp.zeros(batch)

    def act(self, params, carry, view, key, greedy=False):
        action = jax.random.randint(key, view.active.shape, 0, 9)
        seen = (view.obs, view.prev_action, view.prev_reward, view.others, view.first, action)
        io_callback(lambda *x: self.log.append([np.asarray(each)[0, 0] for each in x]), None, *seen)
        return action, carry, {}


def played(spy, fixed_length, episodes=4):
    """What the spy saw on seat 0 in consecutive episodes, a list per kind."""
    env, random = Longer(fixed_length=fixed_length), Random()
    players = Players(spy, (Group(random),), own_seats=1)
    seating = Seating(jnp.zeros((1, 2), jnp.int32), jnp.array([[True, False]]))
    evaluator = Evaluator(env, players, FineTuning(), episodes=1, consecutive=episodes)
    round_ = Round(TASK, pairing_of(seating))
    jax.block_until_ready(evaluator.play(Acting((), ((),)), round_, jax.random.key(0)))
    jax.effects_barrier()
    return [np.stack(each) for each in zip(*spy.log, strict=True)]


def history_of(obs, actions, rewards, others, first):
    """The same games as a history: what came of a timestep is seen at the next."""
    later = {
        ACTIONS: actions[:-1],
        REWARDS: rewards[1:],
        TEAMMATE_ACTIONS: others[1:, 0],
        "dones": first[1:],
    }
    return ArrayHistories([{OBS: obs[:-1], **later}])


@pytest.mark.parametrize("fixed_length", [False, True])
def test_evaluations_show_at_every_timestep_what_training_shows(fixed_length):
    obs, prev_action, prev_reward, others, first, action = played(Spy(True), fixed_length)
    assert first.sum() == 4
    assert prev_action[1:].tolist() == action[:-1].tolist()  # also over the ends of episodes
    history = history_of(obs, action, prev_reward, others, first)
    window = Batches(history, len(obs) - 1, 1).window(0, 0)
    seen = {"prev_actions": prev_action, "prev_rewards": prev_reward, OBS: obs}
    for name, values in {**seen, "prev_teammate_actions": others[:, 0]}.items():
        assert window[name].tolist() == values[:-1].tolist(), name


def test_evaluations_as_released_forget_how_episodes_end():
    obs, prev_action, prev_reward, others, first, action = played(Spy(False), True)
    rows = zip(obs, prev_action, prev_reward, others[:, 0], strict=True)
    log = [{"first": f, "action": a} for f, a in zip(first, action, strict=True)]
    for number, (_, own, reward, other) in enumerate(rows):
        if log[number]["first"]:
            assert (own, reward, other) == (-1, 0.0, -1)
        else:
            assert own == log[number - 1]["action"]


def test_the_release_shows_in_evaluations_what_is_tested_above():
    """Nothing of the step before where an episode begins; otherwise its action and reward."""
    log, settings = GOLDEN["evaluation"]["log"], GOLDEN["evaluation"]["settings"]
    for shown in GOLDEN["evaluation"]["inputs"]:
        now = shown["episode"] * settings["steps"] + shown["step"]
        start = max(0, now + 1 - settings["model_seq_len_ad"])
        rows = [(log[n], log[n - 1] if log[n]["step"] else None) for n in range(start, now + 1)]
        expected = {
            "obs": [here["obs"] for here, _ in rows],
            "prev_actions": [0 if last is None else last["action"] for _, last in rows],
            "prev_rewards": [0.0 if last is None else last["reward"] for _, last in rows],
        }
        assert {name: shown["ad_sequential"][name] for name in expected} == expected
