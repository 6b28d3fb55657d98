"""`brigade watch`: one episode of a run's policies as a GIF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from brigade.core import Acting, Environment, Round
from brigade.envs.overcooked.render import save_gif
from brigade.errors import UserError
from brigade.registry import unknown_name
from brigade.runs.loaded import LoadedRun
from brigade.runs.run import load
from brigade.train.evaluate import seating_of, shape_of
from brigade.train.play import film
from brigade.train.programs import pick
from brigade.train.trainer import stack_sequences


def save_episode(
    path: Path,
    task: int,
    seed: int | None,
    out: Path | None,
    greedy: bool,
    trust: bool,
    partner: str | None = None,
    seat: str | None = None,
) -> tuple[Path, float]:
    """Play one episode of task `task` (from 1); return the path of the GIF and the score."""
    if out is not None and out.suffix.lower() != ".gif":
        raise UserError(f"--out is {out}; it must end in .gif")
    run = load(path, trust=trust)
    seeds = list(run.parts.seeds)
    if seed is not None and seed not in seeds:
        raise UserError(f"the run has no seed {seed}; its seeds are {', '.join(map(str, seeds))}")
    if task > len(run.parts.sequences[0]):
        raise UserError(f"the run has {len(run.parts.sequences[0])} tasks; there is no task {task}")
    index = seeds.index(seed) if seed is not None else 0
    if type(run.parts.benchmark.env).frames is Environment.frames:
        raise UserError(
            f"{run.experiment.config.benchmark} cannot be recorded: its environment has no frames()"
        )
    table = table_of(run, partner, seat)
    greedy = greedy or run.parts.learner.evaluates_greedily
    states, score = play(run, index, task - 1, greedy, table)
    frames = run.parts.benchmark.env.frames(states, run.parts.sequences[index][task - 1])
    suffix = f"-table{table + 1}" if table else ""
    target = out or path / "report" / f"seed{seeds[index]}-task{task}{suffix}.gif"
    save_gif(target, frames, run.parts.benchmark.env.frames_per_second)
    return target, score


def table_of(run: LoadedRun, partner: str | None, seat: str | None) -> int:
    """The index of an evaluation's table: ordered by partner, then by the learner's seats."""
    partners, seats = run.parts.lineup.partner_names, run.parts.lineup.seat_names
    for what, name, known in (("partner", partner, partners), ("seat", seat, seats)):
        if name is not None and name not in known:
            raise UserError(unknown_name(what, name, known))
    first = partners.index(partner) if partner is not None else 0
    return first * len(seats) + (seats.index(seat) if seat is not None else 0)


def play(run: LoadedRun, seed: int, task: int, greedy: bool, table: int = 0) -> tuple[Any, float]:
    """The states of one episode [steps, ...], and its score."""
    env, players = run.parts.benchmark.env, run.parts.evaluator.players
    rounds: Round = stack_sequences(run.parts.sequences, run.parts.lineup.pairings)
    now: Round = pick(pick(rounds, seed), task)
    tables = shape_of(now.pairing)[0] * shape_of(now.pairing)[1]
    acting = Acting(run.acting_params(seed, task), run.cast(seed), seating_of(now.pairing))
    seated = players.take_seats(acting)
    states, steps = film(env, players, seated, jax.random.key(0), now.task, tables, table, greedy)
    return states, float(steps.info["score"][-1])
