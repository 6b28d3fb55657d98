"""Weights & Biases: a run of Brigade is one run there, also when it is resumed."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from brigade.errors import MachineError, UserError
from brigade.reading import read_json
from brigade.runs.folder import write_atomically
from brigade.runs.sinks import FinalResults, Update, group_of

RECORD = "wandb.json"  # in the run folder: where it is logged
PROJECT = "brigade"


@dataclass(frozen=True)
class WandbSettings:
    """Where to log; empty for the default."""

    project: str = ""
    entity: str = ""
    group: str = ""
    mode: str = ""  # online or offline


@dataclass(frozen=True)
class Where:
    """Where a run is logged."""

    id: str
    project: str
    entity: str
    group: str


class WeightsAndBiases:
    """A sink."""

    def __init__(self, folder: Path, settings: WandbSettings, quiet: bool = False) -> None:
        try:
            import wandb
        except ImportError as error:
            raise UserError("--wandb needs pip install 'brigade-rl[wandb]'") from error
        self.wandb: Any = wandb
        self.folder, self.settings, self.quiet = folder, settings, quiet
        self.before = read_where(folder / RECORD)
        self.mode = settings.mode or os.environ.get("WANDB_MODE", "online")
        self.run: Any = None
        if self.before is not None:
            check_same(self.before, settings, folder)
        if self.mode == "online" and not wandb.login(prompt=False, verify=False):
            raise UserError(
                "Weights & Biases has no API key here; run 'wandb login', or add "
                "--wandb-mode offline"
            )

    def open(self, config: Mapping[str, Any]) -> None:
        """Start a run there, or go on with it."""
        where = self.before or new_place(self.settings, config)
        write_atomically(self.folder / RECORD, json.dumps(asdict(where), indent=2).encode())
        try:
            self.run = self.wandb.init(
                id=where.id,
                project=where.project,
                entity=where.entity or None,
                group=where.group,
                resume="allow",
                name=self.folder.resolve().name,
                dir=str(self.folder),
                mode=self.mode,
                config=dict(config),
                tags=[str(config[name])[-64:] for name in ("benchmark", "learner", "method")],
                settings=self.wandb.Settings(console="off", silent=self.quiet),
            )
        except self.wandb.Error as error:
            reason = " ".join(str(error).split())
            raise MachineError(
                f"Weights & Biases: {reason}; --wandb-mode offline needs no network"
            ) from error

    def write(self, update: Update) -> None:
        """Log the mean and every seed's numbers."""
        seeds = {
            f"seed {seed}/{name}": value
            for seed, numbers in update.by_seed.items()
            for name, value in numbers.items()
        }
        self.run.log({**update.mean, **seeds}, step=update.steps)

    def finish(self, results: FinalResults) -> None:
        """Log the tables, the measures and the film."""
        things: dict[str, Any] = {
            f"tables/{name}": self.wandb.Table(columns=list(headings), data=[*map(list, rows)])
            for name, (headings, rows) in results.tables.items()
        }
        if results.film is not None:
            things["film"] = self.wandb.Video(str(results.film), format="gif")
        self.run.log(things, step=results.steps)
        for name, value in results.measures.items():
            self.run.summary[f"final/{name}"] = value

    def close(self) -> None:
        """Wait until everything is sent or written."""
        if self.run is not None:
            self.run.finish()


def new_place(settings: WandbSettings, config: Mapping[str, Any]) -> Where:
    """Where a new run is logged."""
    project, group = settings.project or PROJECT, settings.group or group_of(config)
    return Where(secrets.token_hex(8), project, settings.entity, group)


def read_where(path: Path) -> Where | None:
    """Where a run has been logged; None if nowhere yet."""
    if not path.is_file():
        return None
    try:
        found = read_json(path)
        where = Where(**{name: found[name] for name in Where.__annotations__})
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); delete it to log to a new run") from error
    strings = all(isinstance(value, str) for value in asdict(where).values())
    if not strings or not re.fullmatch(r"[0-9a-f]{1,64}", where.id):
        raise UserError(f"{path} is damaged; delete it to log to a new run")
    return where


def check_same(before: Where, settings: WandbSettings, folder: Path) -> None:
    """A run stays where it is logged."""
    for name in ("project", "entity", "group"):
        given, there = getattr(settings, name), getattr(before, name)
        if given and given != there:
            raise UserError(
                f"{folder} is logged to {name} {there or 'default'}; remove --wandb-{name}"
            )
