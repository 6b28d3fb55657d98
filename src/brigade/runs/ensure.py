"""Make sure that a run with given settings is finished: start it, resume it, or find it done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from brigade.errors import UserError
from brigade.metrics.checks import find_problem
from brigade.runs.config import Experiment, from_dict
from brigade.runs.config_files import kept_by
from brigade.runs.folder import RunFolder
from brigade.runs.kept_files import copies, name_by_hash
from brigade.runs.progress import Display
from brigade.runs.run import RunResult, resume, run
from brigade.runs.trust import code_in


def check_settings(paths: Sequence[Path], experiments: Sequence[Experiment]) -> None:
    """Existing runs must have the same settings."""
    for path, experiment in zip(paths, experiments, strict=True):
        if not (path / "config.json").exists():
            continue
        if not has_settings(kept_by(RunFolder.open(path)).settings, experiment):
            raise UserError(
                f"{path} was run with other settings; use the same ones, or another --out"
            )
        if not has_code(path, experiment):
            raise UserError(f"{path} was run with another version of your code; use another --out")


def has_code(path: Path, experiment: Experiment) -> bool:
    """Whether a run keeps the code that the experiment names now."""
    return kept_by(RunFolder.open(path)).code == copies(experiment.as_dict())[0]


def has_settings(config: Mapping[str, Any], experiment: Experiment) -> bool:
    """Whether a config is the experiment's."""
    wanted = experiment.as_dict()
    names = ("benchmark", "learner", "method")
    same_names = all(config.get(name) == wanted[name] for name in names)
    # Compared first: parsing may execute code.
    same_code = set(code_in(config)) <= set(code_in(wanted))
    if not same_names or not same_code:
        return False
    return bool(name_by_hash(from_dict(config).as_dict())[0] == name_by_hash(wanted)[0])


def start_or_resume(path: Path, experiment: Experiment, quiet: bool) -> RunResult:
    """Start a run, resume it, or return it if it is finished."""
    done = finished_run(path, experiment)
    if done is not None:
        return done
    with Display(quiet) as show:
        if (path / "config.json").exists():
            # Its config equals the one asked for, so the code it names is trusted.
            return resume(path, trust=True, on_start=show.start, watch=show)
        return run(experiment, path, on_start=show.start, watch=show)


def finished_run(path: Path, experiment: Experiment) -> RunResult | None:
    """The run if all its evaluations are there; shared folders come without checkpoints."""
    if not (path / "returns.npz").exists():
        return None
    arrays = RunFolder.open(path).read_returns()
    if problem := find_problem(arrays):
        raise UserError(f"{path}/returns.npz: {problem}; choose another --out")
    if arrays["steps"][-1] < arrays["task_ends"][-1]:
        return None
    return RunResult(path, experiment, arrays)
