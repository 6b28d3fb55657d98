"""Which tests are slow: those that build a learner, train, play rollouts, compare with JaxMARL or
start another process. `make check` leaves them out.

This is read off a test's parameters, its code, that of its fixtures and of the functions of tests
that they call, so that new tests need no mark. The marks `slow` and `quick` overrule it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

SLOW_MODULES = (
    "brigade.train",
    "brigade.testing",  # plays and trains whatever it checks
    "brigade.runs.run",
    "brigade.runs.writer",
    "brigade.runs.checkpoints",
    "brigade.runs.interrupt",
    "brigade.runs.baselines",
    "brigade.launch.reproduce",
    "brigade.learners.settings",
    "jaxmarl",
    "subprocess",
)
SLOW_VERBS = {
    "run",
    "population",
    "sweep",
    "resume",
    "watch",
    "crossplay",
    "bench",
    "reproduce",
}
TESTS = Path(__file__).parents[1]


def mark_slow(items: list[pytest.Function]) -> None:
    """Mark the slow tests."""
    known: dict[FunctionType, bool] = {}
    for item in items:
        if any(mark.name in ("slow", "quick") for mark in item.iter_markers()):
            continue
        fixtures = [found[-1].func for found in item._fixtureinfo.name2fixturedefs.values()]
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if any(is_slow(function, known) for function in (item.obj, *fixtures)) or any(
            is_slow_module(home_of(parameter)) for parameter in parameters
        ):
            item.add_marker(pytest.mark.slow)


def is_slow(function: Callable[..., Any], known: dict[FunctionType, bool]) -> bool:
    """Whether a function of the tests reaches slow code."""
    function = getattr(function, "__wrapped__", function)
    if not is_of_tests(function):
        return False
    if function not in known:
        known[function] = False  # for functions that call themselves
        known[function] = reaches_slow_code(function, known)
    return known[function]


def is_of_tests(thing: Any) -> bool:
    """Whether this is a function of the tests."""
    return isinstance(thing, FunctionType) and TESTS in Path(thing.__code__.co_filename).parents


def reaches_slow_code(function: FunctionType, known: dict[FunctionType, bool]) -> bool:
    """Whether a function uses a slow module, a slow verb of the command, or a slow function."""
    names, texts = set[str](), set[str]()
    for code in codes_in(function.__code__):
        names.update(code.co_names)
        texts.update(strings_in(code.co_consts))
    things = [function.__globals__.get(name) for name in names]
    ours = [m for m in things if isinstance(m, ModuleType) and m.__name__.startswith("brigade")]
    things += [getattr(module, name, None) for module in ours for name in names]  # brigade.run
    homes = {home_of(thing) for thing in things} | names | texts  # names: imports in a function
    if any(map(is_slow_module, homes)):
        return True
    if any(home.startswith("brigade.cli") for home in homes) and SLOW_VERBS & first_words(texts):
        return True
    return any(is_slow(thing, known) for thing in things)


def is_slow_module(name: str) -> bool:
    """Whether this is the name of a slow module or of a part of one."""
    return any(name == slow or name.startswith(f"{slow}.") for slow in SLOW_MODULES)


def home_of(thing: Any) -> str:
    """The module of something, or its name if it is a module."""
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    return name if isinstance(name, str) else ""


def first_words(texts: set[str]) -> set[str]:
    """The verbs, where texts are commands."""
    return {text.split()[0] for text in texts if text.strip()}


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def strings_in(constants: tuple[Any, ...]) -> Iterator[str]:
    """The strings among constants."""
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):
            yield from strings_in(constant)
