"""The roles, and the data that passes between them. It imports no other part of Brigade.

Everything is a pure function of its arguments, so it can be traced once, batched with `vmap` and
repeated from a key. `brigade.testing` checks these requirements.
"""

from brigade.core.benchmark import Benchmark
from brigade.core.environment import Conventions, Environment
from brigade.core.histories import Histories, Windows
from brigade.core.learner import Learner, LearnerSettings
from brigade.core.matchmaker import Matchmaker
from brigade.core.method import ContinualMethod, LossOf, LossOn
from brigade.core.policy import Policy
from brigade.core.seating import Acting, Cast, Group, Pairing, Seating
from brigade.core.simulator import HostGames, Simulator, SimulatorError
from brigade.core.source import Source
from brigade.core.types import (
    Array,
    Batch,
    Everyone,
    FromSeat,
    HiddenLayer,
    Key,
    LearnerState,
    Memories,
    Metrics,
    Outputs,
    ParameterGroups,
    PlainTask,
    Round,
    Symmetries,
    TaskSequence,
    TimeStep,
    Trajectory,
    View,
)

__all__ = [
    "Acting",
    "Array",
    "Batch",
    "Benchmark",
    "Cast",
    "ContinualMethod",
    "Conventions",
    "Environment",
    "Everyone",
    "FromSeat",
    "Group",
    "HiddenLayer",
    "Histories",
    "HostGames",
    "Key",
    "Learner",
    "LearnerSettings",
    "LearnerState",
    "LossOf",
    "LossOn",
    "Matchmaker",
    "Memories",
    "Metrics",
    "Outputs",
    "Pairing",
    "ParameterGroups",
    "PlainTask",
    "Policy",
    "Round",
    "Seating",
    "Simulator",
    "SimulatorError",
    "Source",
    "Symmetries",
    "TaskSequence",
    "TimeStep",
    "Trajectory",
    "View",
    "Windows",
]
