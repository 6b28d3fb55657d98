"""Types and protocols that everything else stands on. Imports nothing of ours."""

from brigade.core.protocols import (
    Benchmark,
    ContinualMethod,
    Environment,
    Learner,
    LearnerSettings,
    LossOf,
    LossOn,
    Policy,
    Source,
)
from brigade.core.types import (
    Array,
    Key,
    LearnerState,
    Memories,
    Metrics,
    Outputs,
    TaskSequence,
    TimeStep,
    Trajectory,
    View,
)

__all__ = [
    "Array",
    "Benchmark",
    "ContinualMethod",
    "Environment",
    "Key",
    "Learner",
    "LearnerSettings",
    "LearnerState",
    "LossOf",
    "LossOn",
    "Memories",
    "Metrics",
    "Outputs",
    "Policy",
    "Source",
    "TaskSequence",
    "TimeStep",
    "Trajectory",
    "View",
]
