"""Brigade: agents that keep cooperating while their world changes.

Importing this package is cheap: it loads no environment, makes no array and touches no device.
"""

from typing import TYPE_CHECKING, Any

from brigade.registry import get, names

if TYPE_CHECKING:
    from brigade.runs.run import load, resume, run

__version__ = "0.1.0"
__all__ = ["__version__", "get", "load", "names", "resume", "run"]


def __getattr__(name: str) -> Any:
    """`brigade.run`, `brigade.resume` and `brigade.load` bring JAX in only when they are used."""
    if name in ("load", "resume", "run"):
        from brigade.runs import run as runs

        return getattr(runs, name)
    raise AttributeError(f"module 'brigade' has no attribute {name!r}")
