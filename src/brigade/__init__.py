"""Brigade: agents that keep cooperating while their world changes.

Importing this package is cheap: it loads no environment, makes no array and touches no device.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brigade.errors import UserError
from brigade.registry import get, names

if TYPE_CHECKING:
    from brigade.runs.export import LoadedRun
    from brigade.runs.run import resume, run
    from brigade.runs.trained import PolicyFile

__version__ = "0.1.0"
__all__ = ["UserError", "__version__", "get", "load", "names", "resume", "run"]


def load(
    path: str | Path, *, trust: bool = False, warn: Callable[[str], None] = print
) -> "LoadedRun | PolicyFile":
    """Load a run folder or an exported `.safetensors` file; both have `names` and `policy`.

    A folder or file whose settings name Python code needs `trust`. `warn` is told about damaged
    checkpoints, instead of which an older one is loaded.
    """
    if str(path).endswith(".safetensors") or Path(path).is_file():
        from brigade.runs.trained import load_file

        return load_file(path, trust)
    from brigade.runs.run import load as load_run

    return load_run(path, trust=trust, warn=warn)


def __getattr__(name: str) -> Any:
    """`brigade.run` and `brigade.resume` bring JAX in only when they are used."""
    if name in ("resume", "run"):
        from brigade.runs import run as runs

        return getattr(runs, name)
    raise AttributeError(f"module 'brigade' has no attribute {name!r}")
