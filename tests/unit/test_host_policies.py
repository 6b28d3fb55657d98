"""Agents in plain Python: functions of NumPy arrays that play like any other policy."""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.tell import TASK, Counts, Says, Tell

from brigade.cli import main
from brigade.core import Cast, Group
from brigade.errors import UserError
from brigade.partners.cast import cast_of
from brigade.partners.host import host_policy
from brigade.train.crossplay import cross_play

KEY = jax.random.key(0)
GAME = Tell()
EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_agent.py"
AGENTS = '''
"""Agents as users write them."""
import numpy as np


def act(view):
    """The first available action that is not the last one."""
    allowed = view.avail.copy()
    played = view.prev_action >= 0
    allowed[np.flatnonzero(played), view.prev_action[played]] = False
    return allowed.argmax(-1)


class Remembers:
    """Goes through the actions, one per step."""

    def initial_memory(self, number):
        return {"steps": np.zeros(number, np.int64)}

    def act(self, view, memory):
        assert (memory["steps"][view.first] == 0).all()
        return memory["steps"] % 4, {"steps": memory["steps"] + 1}


def fails(view):
    return 1 // 0


def too_high(view):
    return np.full(len(view.first), 99)


def too_few(view):
    return [0]


def floats(view):
    return np.zeros(len(view.first))


class Forgets(Remembers):
    def act(self, view, memory):
        return memory["steps"]


class Needs:
    def __init__(self, weights):
        pass


number = 3
'''


def says(number):
    return lambda view: np.full(len(view.first), number)


class HostCounts:
    """`support.tell.Counts` in NumPy."""

    def initial_memory(self, number):
        return np.zeros(number, np.int32)

    def act(self, view, memory):
        return memory + 1, memory + 1


def single(policy, params, name):
    return Cast((Group(policy),), (params,), (name,))


@pytest.mark.slow
def test_agents_play_as_their_twins_in_the_program_do():
    """On both seats, batched over episodes and pairs; a memory is reset where an episode begins."""
    traced = (
        single(Says(), jnp.array([3]), "says")
        + single(Counts(), jnp.array([1]), "counts")
        + single(Says(), jnp.array([7]), "more")
    )
    host = (
        single(host_policy("says", says(3), GAME), (), "says")
        + single(host_policy("counts", HostCounts, GAME), (), "counts")
        + single(host_policy("more", says(7), GAME), (), "more")
    )
    expected = cross_play(GAME, TASK, traced, 3, KEY)
    found = cross_play(GAME, TASK, host, 3, KEY)
    np.testing.assert_array_equal(found.score, expected.score)
    np.testing.assert_array_equal(found.returns, expected.returns)


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    path = tmp_path_factory.mktemp("agents") / "agents.py"
    path.write_text(AGENTS)
    return path


def one_step(word):
    """What an agent does on four seats, all at the start of their episode."""
    cast = cast_of([str(word)], GAME)
    policy = cast.groups[0].policy
    _, now = jax.vmap(GAME.reset, in_axes=(0, None))(jax.random.split(KEY, 2), TASK)
    carry = policy.initial_carry((2, 2))
    action, after, _ = policy.act((), carry, now.view, KEY)
    return np.asarray(action), after


def test_agents_are_functions_or_classes_of_a_file(agents):
    action, carry = one_step(f"{agents}:act")
    assert action.tolist() == [[0, 0], [0, 0]]
    assert carry == ()
    action, carry = one_step(f"{agents}:Remembers")
    assert action.dtype == np.int32
    assert np.asarray(carry["steps"]).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "agents.py:fails failed in line 26 of"),
        ("too_high", "returned the action 99; actions are 0 to 8"),
        ("too_few", r"integers from 0 to 8 of shape \(4,\)"),
        ("floats", r"it returned float64 of shape \(4,\)"),
        ("Forgets", "must return actions and the next memory, not ndarray"),
        ("Needs", "cannot be made without arguments"),
        ("number", "is no agent; give a function"),
        ("nobody", "unknown name in"),
    ],
)
def test_a_wrong_agent_is_one_line(agents, name, message):
    with pytest.raises((UserError, jax.errors.JaxRuntimeError), match=message):
        one_step(f"{agents}:{name}")


@pytest.mark.slow
def test_agents_from_the_command_line(agents, tmp_path, monkeypatch, capfd):
    """In crossplay, in a film and beside a learner; what an agent does wrong is one line."""
    monkeypatch.chdir(tmp_path)
    place = ["--benchmark", "overcooked/layout", "--env.horizon", "20"]
    words = ["crossplay", f"{agents}:act", f"{agents}:Remembers", "--episodes", "2"]
    assert main([*words, *place, "--out", "cross"]) == 0
    assert "2 Remembers" in capfd.readouterr().out
    film = ["watch", f"{agents}:Remembers", "--partner", "random", "--seat", "1"]
    assert main([*film, *place, "--out", "film.gif"]) == 0
    assert "film.gif  (score 0.00)" in capfd.readouterr().out
    assert (tmp_path / "film.gif").read_bytes().startswith(b"GIF89a")
    assert main([*film, *place, "--out", "film.gif"]) == 2  # nothing is overwritten
    assert "film.gif exists already" in capfd.readouterr().err

    assert main(["crossplay", f"{agents}:fails", "--episodes", "2", *place, "--out", "no"]) == 2
    error = capfd.readouterr().err
    assert "agents.py:fails failed in line 26 of" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "no").exists()


@pytest.mark.slow
def test_a_learner_trains_beside_an_agent(agents, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    words = (
        f"run overcooked/layout --partners {agents}:Remembers --preset laptop --env.horizon 20 "
        "--num-envs 4 --num-steps 20 --steps-per-task 160 --eval-episodes 2 --ppo.minibatches 2 "
        "--network.hidden 8 --out runs/beside"
    )
    assert main(words.split()) == 0
    assert "Remembers" in capfd.readouterr().out
    copies = list((tmp_path / "runs" / "beside" / "code").rglob("agents.py"))
    assert len(copies) == 1  # a run keeps the code that it uses


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("name", ["act", "Recurrent"])
def test_the_example_with_pytorch(name):
    from brigade.envs.overcooked import Overcooked

    env, sequence = Overcooked.example()
    cast = cast_of([f"{EXAMPLE}:{name}"], env)
    found = cross_play(env, sequence[0], cast, 2, KEY)
    assert found.score.shape == (1, 1, 2)
