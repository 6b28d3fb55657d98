"""The interface of sources of experience."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brigade.core.seating import Acting
from brigade.core.types import Key, SourceState, Task, Trajectory


class Source:
    """A source of rollouts: environments on the device, simulators on the host or recordings.

    The base class of sources. A source is hashable, such as a frozen dataclass.
    """

    if TYPE_CHECKING:  # not at run time: subclasses may define it as a field

        @property
        def tables(self) -> int:
            """The number of tables: blocks of environments with the same policies."""

    @property
    def traced(self) -> bool:
        """Whether `next` may be part of a compiled program.

        If not, acting and learning are programs of their own, and seeds are trained in turn.
        """
        return True

    @property
    def steps_per_rollout(self) -> int:
        """Environment steps per rollout."""
        raise NotImplementedError

    def start(self, key: Key, task: Task) -> SourceState:
        """The state in which new episodes begin; always part of a compiled program."""
        raise NotImplementedError

    def next(
        self, state: SourceState, acting: Acting, task: Task, key: Key
    ) -> tuple[SourceState, Trajectory]:
        """Collect a rollout; a new seating takes effect once the last one lasted an episode."""
        raise NotImplementedError

    def example(self, state: SourceState, acting: Acting, task: Task, key: Key) -> Trajectory:
        """Any rollout, for its shapes; always part of a compiled program."""
        return self.next(state, acting, task, key)[1]

    def for_clones(self) -> Source:
        """The source for clones that adapt before an evaluation; games of the run go on."""
        return self

    def restarts(self) -> int:
        """How often simulators had to be started again, because they died or hung."""
        return 0
