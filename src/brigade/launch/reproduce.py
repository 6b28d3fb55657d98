"""`brigade reproduce`: do the stages of a target and compare the results with the paper's."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from brigade.launch.job import Workers
from brigade.launch.stage import How
from brigade.launch.target import Request, Target


def reproduce(
    target: Target,
    request: Request,
    workers: AbstractContextManager[Workers] | None = None,
    quiet: bool = False,
    until: str | None = None,
) -> Path:
    """Do what is not done yet, up to the stage `until`; returns the path of the results.

    If an earlier stage than the last is asked for, that is the folder.
    """
    plan = target.plan(request)
    names = [stage.name for stage in plan.stages]
    for stage in plan.stages:
        stage.check()
    how = How(request.folder, workers, quiet)
    last = names[-1] if until is None else until
    for stage in plan.stages[: names.index(last) + 1]:
        stage.do(how)
    return plan.conclude() if last == names[-1] else request.folder
