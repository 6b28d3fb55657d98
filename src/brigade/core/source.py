"""The interface of sources of experience."""

from __future__ import annotations

from typing import Protocol

from brigade.core.seating import Acting
from brigade.core.types import (
    Key,
    SourceState,
    Task,
    Trajectory,
)


class Source(Protocol):
    """A source of rollouts: environments on the device, host simulators or recordings."""

    @property
    def steps_per_rollout(self) -> int:
        """Environment steps per rollout."""
        ...

    @property
    def tables(self) -> int:
        """The number of tables: blocks of environments with the same policies."""
        ...

    def start(self, key: Key, task: Task) -> SourceState: ...
    def next(
        self, state: SourceState, acting: Acting, task: Task, key: Key
    ) -> tuple[SourceState, Trajectory]:
        """Collect a rollout; a new seating takes effect once the last one lasted an episode."""
        ...
