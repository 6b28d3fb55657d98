"""What a run was made with: one line per start and resume in `sessions.jsonl`."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

import brigade
from brigade.runs.folder import RunFolder

FILE = "sessions.jsonl"
PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")


def add_session(folder: RunFolder, did: str, **more: Any) -> None:
    """Add a line that says what was done, when, and with which versions and devices."""
    session = {"did": did, "time": datetime.now(UTC).isoformat(timespec="seconds")}
    folder.append_rows(FILE, [session | made_with() | more])


def made_with() -> dict[str, Any]:
    """Versions, git commits where there are any, and devices."""
    devices = jax.devices()
    return {
        "brigade": brigade.__version__,
        "brigade_git": git_commit(Path(brigade.__file__).parent, "__init__.py"),
        "git": git_commit(Path.cwd()),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "device": f"{len(devices)} x {devices[0].device_kind}",
    }


def git_commit(folder: Path, tracked: str = ".") -> str | None:
    """The commit checked out in a folder, with a + if files differ from it; None if there is none.

    `tracked` must be part of it: a package can be installed inside another repository.
    """
    if git(folder, "ls-files", "--error-unmatch", tracked) is None:
        return None
    commit = git(folder, "rev-parse", "HEAD")
    changed = git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+" if commit and changed else commit


def git(folder: Path, *words: str) -> str | None:
    """The output of a git command; None if it fails or there is no git."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
