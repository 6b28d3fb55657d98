"""Which runs a sweep consists of: all combinations of the values of its settings."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brigade.errors import UserError
from brigade.registry import folder_and_name
from brigade.runs.assemble import assemble
from brigade.runs.config import Experiment, from_dict
from brigade.runs.flags import as_flags, long_flag

HOW = "give a setting and its values: --over method-settings.coefficient 1e6 1e7"
MAX_RUNS = 1000  # more are a mistake rather than a plan
MAX_NAME = 40  # characters of a value in a folder's name


@dataclass(frozen=True)
class Over:
    """A setting and the values it takes, as they were typed."""

    setting: str  # with dots and dashes, as in a flag
    values: tuple[str, ...]

    @property
    def last(self) -> str:
        """The last part of the setting's name."""
        return self.setting.rpartition(".")[2]

    def flags(self, value: str) -> list[str]:
        """The words of `brigade run` for a value; several words are a list."""
        if value.lower() in ("true", "false"):
            return as_flags({self.setting: value.lower() == "true"})
        return [long_flag(f"--{self.setting}"), *value.split()]


@dataclass(frozen=True)
class SweptRun:
    """One run of a sweep."""

    name: str  # of its folder
    values: tuple[str, ...]  # one for every setting of the sweep
    experiment: Experiment


@dataclass(frozen=True)
class Sweep:
    """A folder with one run for every combination of values."""

    folder: Path
    over: tuple[Over, ...]
    runs: tuple[SweptRun, ...]

    def path(self, run: SweptRun) -> Path:
        """The folder of a run."""
        return self.folder / run.name


def take_over(words: Sequence[str]) -> tuple[list[Over], list[str]]:
    """Take `--over SETTING VALUE ...` out of the words of a command; the rest comes second."""
    over, rest = list[Over](), list[str]()
    left = list(words)
    while left:
        word = left.pop(0)
        if word.startswith("--over="):
            raise UserError(f"{word}: {HOW}")
        if word != "--over":
            rest.append(word)
            continue
        taken = list(itertools.takewhile(lambda each: not each.startswith("--"), left))
        left = left[len(taken) :]
        over.append(read_over(taken))
    return over, rest


def read_over(words: Sequence[str]) -> Over:
    """The setting and its values; a setting without values is a mistake."""
    if len(words) < 2:
        named = f"--over {words[0]} has no values" if words else "--over has no setting"
        raise UserError(f"{named}; {HOW}")
    setting, *values = words
    if not all(value.strip() for value in values):
        raise UserError(f"--over {setting}: a value is empty; {HOW}")
    for value, number in Counter(values).items():
        if number > 1:
            raise UserError(f"--over {setting}: {value} is there {number} times; give it once")
    return Over(setting.replace("_", "-"), tuple(values))


def make_sweep(
    tree: Mapping[str, Any], words: Sequence[str], over: Sequence[Over], out: Path | None
) -> Sweep:
    """Plan a sweep and check the settings of all its runs; nothing is written."""
    check_over(over, words)
    runs = list[SweptRun]()
    names = Counter[str]()
    for values in itertools.product(*(each.values for each in over)):
        experiment = experiment_with(tree, words, over, values)
        check_start(experiment.config.start_from)
        name = run_name(over, values)
        names[name] += 1  # values that differ only in letters a folder's name cannot have
        runs.append(
            SweptRun(f"{name}-{names[name]}" if names[name] > 1 else name, values, experiment)
        )
    check_different(runs)
    for run in runs:
        with naming(over, run.values):
            assemble(run.experiment)
    folder = out or Path("sweeps") / folder_name(over, runs[0].experiment)
    return Sweep(folder, tuple(over), tuple(runs))


def check_start(start_from: str) -> None:
    """All runs of a sweep start from one file, which no later run can change."""
    if run := folder_and_name(start_from)[0]:
        raise UserError(
            f"{start_from} is a run folder; a sweep needs a file: brigade export "
            f"{run} --out start.safetensors, then --from start.safetensors"
        )


def check_over(over: Sequence[Over], words: Sequence[str]) -> None:
    """Refuse a setting that is given twice, and far too many runs."""
    if not over:
        raise UserError(f"nothing to sweep; {HOW}")
    given = set(given_settings(words))
    for setting, number in Counter(each.setting for each in over).items():
        if number > 1:
            raise UserError(f"--over {setting} is given twice; name all its values once")
        if setting in given:
            raise UserError(f"{setting} is given by --over and by itself; remove one of them")
    number = 1
    for each in over:
        number *= len(each.values)
    if number > MAX_RUNS:
        raise UserError(f"that is {number:,} runs; a sweep has at most {MAX_RUNS:,}")


def given_settings(words: Sequence[str]) -> Iterator[str]:
    """The settings that words of `brigade run` name."""
    if words and not words[0].startswith("-"):
        yield "benchmark"
    for word in words:
        if word.startswith("--"):
            name = word[2:].partition("=")[0].replace("_", "-")
            head, dot, last = name.rpartition(".")
            yield name
            yield f"{head}{dot}{last.removeprefix('no-')}"


def experiment_with(
    tree: Mapping[str, Any], words: Sequence[str], over: Sequence[Over], values: Sequence[str]
) -> Experiment:
    """The experiment with these values of the swept settings."""
    flags, benchmark = list[str](), list[str]()
    for each, value in zip(over, values, strict=True):
        if each.setting == "benchmark":
            benchmark = [value]
        else:
            flags += each.flags(value)
    with naming(over, values):
        return from_dict(tree, [*benchmark, *words, *flags])


@contextlib.contextmanager
def naming(over: Sequence[Over], values: Sequence[str]) -> Iterator[None]:
    """Say with which values something is wrong, where several settings are swept."""
    try:
        yield
    except UserError as error:
        if len(over) == 1:
            raise
        with_values = ", ".join(f"{o.last} {v}" for o, v in zip(over, values, strict=True))
        raise UserError(f"with {with_values}: {error}") from error


def check_different(runs: Sequence[SweptRun]) -> None:
    """Refuse two runs with the same settings, such as of 1e3 and 1000."""
    seen = dict[str, SweptRun]()
    for run in runs:
        settings = json.dumps(run.experiment.as_dict(), sort_keys=True)
        if settings in seen:
            same = " and ".join(" ".join(each.values) for each in (seen[settings], run))
            raise UserError(f"{same} are the same settings; give each value once")
        seen[settings] = run


def run_name(over: Sequence[Over], values: Sequence[str]) -> str:
    """The folder of a run: coefficient-1e6, or coefficient-1e6_epochs-4 for two settings."""
    lasts = Counter(each.last for each in over)
    parts = [
        f"{each.last if lasts[each.last] == 1 else each.setting}-{Path(value).name[:MAX_NAME]}"
        for each, value in zip(over, values, strict=True)
    ]
    return "_".join(plain(part) for part in parts)


def folder_name(over: Sequence[Over], experiment: Experiment) -> str:
    """The folder of a sweep, the same for the same command: meal-level-1-ewc-coefficient."""
    config = experiment.config
    algorithm = "method" if config.generator == "none" else "generator"
    fixed = {"benchmark": config.benchmark, algorithm: Path(getattr(config, algorithm)).name}
    for each in over:
        fixed.pop(each.setting, None)
    return "-".join(plain(part) for part in (*fixed.values(), *(each.last for each in over)))


def plain(text: str) -> str:
    """Letters, digits, dots, pluses and dashes."""
    return re.sub(r"[^\w.+-]+", "-", text).strip("-.")
