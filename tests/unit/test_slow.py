"""Slow tests are told from quick ones by what they use."""

import subprocess

import numpy as np
import pytest
from support.parts import make_trainer
from support.slow import is_slow

import brigade
from brigade.cli import main
from brigade.learners import IPPO


def adds_numbers():
    return np.zeros(3) + 1


def makes_a_mistake(words):
    return main(words)


def shows_a_plan():
    return main(["plan", "meal/level-1"])


def trains_by_command():
    return main(["run", "meal/level-1"])


def trains_from_python():
    return brigade.run({})


def trains_with_a_helper():
    return make_trainer(None, None)


def trains_further_down():
    return [trains_with_a_helper() for _ in range(2)]


def builds_a_learner():
    return IPPO()


def asks_jaxmarl():
    from jaxmarl.environments.overcooked import Overcooked

    return Overcooked


def starts_a_program():
    return subprocess.run(["true"])


@pytest.mark.parametrize("function", [adds_numbers, makes_a_mistake, shows_a_plan])
def test_what_trains_nothing_is_quick(function):
    assert not is_slow(function, {})


@pytest.mark.parametrize(
    "function",
    [
        trains_by_command,
        trains_from_python,
        trains_with_a_helper,
        trains_further_down,
        builds_a_learner,
        asks_jaxmarl,
        starts_a_program,
    ],
)
def test_what_trains_is_slow(function):
    assert is_slow(function, {})
