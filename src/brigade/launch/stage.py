"""Stages that compute something from files: done once, and again only if their inputs change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brigade import __version__
from brigade.runs.folder import digest, write_atomically

RECORD = "stage.json"


@dataclass(frozen=True)
class Stage:
    """A computation that writes files into its folder.

    It is done if the folder has a record of the same inputs: settings, and the contents of files.
    """

    name: str
    folder: Path
    settings: Mapping[str, Any]
    files: Sequence[Path]
    work: Callable[[Path], None]

    def fingerprint(self) -> str:
        """A hash of everything the results depend on."""
        inputs = {
            "brigade": __version__,
            "settings": dict(self.settings),
            "files": [digest(path) for path in self.files],
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()

    def is_done(self) -> bool:
        """Whether the results in the folder are of these inputs."""
        try:
            found = json.loads((self.folder / RECORD).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return False
        return bool(found.get("inputs") == self.fingerprint())

    def ensure(self) -> bool:
        """Do the work unless it is done; returns whether there was any."""
        if self.is_done():
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        self.work(self.folder)
        # Last: a stage that was interrupted has no record.
        record = {"stage": self.name, "inputs": self.fingerprint()}
        write_atomically(self.folder / RECORD, json.dumps(record, indent=2).encode())
        return True
