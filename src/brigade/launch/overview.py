"""`brigade reproduce` without a target: what there is, what it costs here, what is recorded."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from brigade.launch.cost import cost, roughly
from brigade.launch.targets import targets

WIDTH = 80
MACHINES = {"cpu": "two cores of an AMD EPYC", "gpu": "one NVIDIA H200"}


def overview(backend: str, faster: float | None = None) -> Iterator[str]:
    """The lines of the overview. `faster` is the speed of this machine relative to the known one;
    None: not measured."""
    yield f"  {'target':26}{'small':>9}{'paper':>9}  shows"
    for name, target in targets().items():
        costs = (cost(target, scale, backend, faster or 1.0) for scale in ("small", "paper"))
        small, paper = map(roughly, costs)
        mark = "*" if target.recorded else " "
        yield f"{mark} {name:26}{small:>9}{paper:>9}  {target.shows}"
    yield ""
    yield from textwrap.wrap(explanation(backend, faster), WIDTH, break_on_hyphens=False)


def explanation(backend: str, faster: float | None) -> str:
    """What the marks and the times mean, and how they are known."""
    recorded = [target.recorded for target in targets().values() if target.recorded]
    pages = ", ".join(dict.fromkeys(recorded))
    machine = MACHINES["cpu" if backend == "cpu" else "gpu"]
    how = (
        f"They are those of {machine}; --measure times this machine for about ten seconds and "
        "scales them."
        if faster is None
        else f"They are scaled from {machine}: this machine trains {faster:.2g} times as fast."
    )
    return (
        f"*: a recorded result is in docs/results ({pages}). Times are rough: small ones were "
        "measured or follow from a measured run; at the paper's scale they are the environment "
        "steps of all runs, divided by the speed of training; y is years. A question mark: nothing "
        f"like it was timed on a {'CPU' if backend == 'cpu' else 'GPU'}. {how} LAYOUT is one of "
        "ten kitchens (brigade list benchmarks). brigade reproduce TARGET has the small scale, "
        "which shows how a table is made; --scale paper has the published settings."
    )
