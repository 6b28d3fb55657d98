"""`brigade watch`: one episode of a run's policies, or of any policy, as a GIF."""

from __future__ import annotations

import argparse
from pathlib import Path

import jax

from brigade.cli.crossplay import find_benchmark, place_of, trained_policies
from brigade.core import Acting, Cast, Round
from brigade.core.trees import pick
from brigade.errors import UserError
from brigade.launch.films import seated
from brigade.partners.cast import cast_of
from brigade.registry import unknown_name
from brigade.runs.export import LoadedRun
from brigade.runs.run import load
from brigade.train.evaluate import seating_of, shape_of
from brigade.train.films import Film, film_episode
from brigade.train.trainer import stack_sequences


def save_episode(options: argparse.Namespace) -> tuple[Path, float]:
    """Play one episode of a run; return the path of the GIF and the score."""
    check_name(options.out)
    path, task, seed = Path(options.run), options.task or 1, options.seed
    run = load(path, trust=options.trust)
    seeds = list(run.parts.seeds)
    if seed is not None and seed not in seeds:
        raise UserError(f"the run has no seed {seed}; its seeds are {', '.join(map(str, seeds))}")
    if task > len(run.parts.sequences[0]):
        raise UserError(f"the run has {len(run.parts.sequences[0])} tasks; there is no task {task}")
    index = seeds.index(seed) if seed is not None else 0
    meeting = meeting_of(run, options.partner, options.seat)
    greedy = options.greedy or run.parts.learner.evaluates_greedily
    played = play(run, index, task - 1, greedy, meeting)
    suffix = f"-table{meeting + 1}" if meeting else ""
    target = options.out or path / "report" / f"seed{seeds[index]}-task{task}{suffix}.gif"
    played.save(target)
    return target, played.score


def check_name(out: Path | None) -> None:
    """Refuse a file that is not a GIF."""
    if out is not None and out.suffix.lower() != ".gif":
        raise UserError(f"--out is {out}; it must end in .gif")


def meeting_of(run: LoadedRun, partner: str | None, seat: str | None) -> int:
    """Which meeting of an evaluation: ordered by partner, then by the learner's seats."""
    partners, seats = run.parts.lineup.partner_names, run.parts.lineup.seat_names
    for what, name, known in (("partner", partner, partners), ("seat", seat, seats)):
        if name is not None and name not in known:
            raise UserError(unknown_name(what, name, known))
    first = partners.index(partner) if partner is not None else 0
    return first * len(seats) + (seats.index(seat) if seat is not None else 0)


def play(run: LoadedRun, seed: int, task: int, greedy: bool, meeting: int = 0) -> Film:
    """One episode of a seed on a task, both from 0."""
    evaluator = run.parts.evaluator.of_game(run.parts.evaluator.game(task))
    rounds: Round = stack_sequences(run.parts.sequences, run.parts.lineup.pairings)
    now: Round = pick(pick(rounds, seed), task)
    meetings = shape_of(now.pairing)[0] * shape_of(now.pairing)[1]
    acting = Acting(run.acting_params(seed, task), run.cast(seed), seating_of(now.pairing))
    key = jax.random.key(0)
    return film_episode(
        evaluator.env, evaluator.players, acting, now.task, key, meetings, meeting, greedy
    )


def save_game(options: argparse.Namespace, flags: list[str]) -> tuple[Path, float]:
    """Film a policy on a seat with a partner on the others, by default itself, in any benchmark."""
    check_name(options.out)
    words = [options.run, *([options.partner] if options.partner else [])]
    loaded = trained_policies(words, options.task, options.trust)
    first = next(iter(loaded.values()), None)
    benchmark = find_benchmark(first, options.benchmark, flags)
    task, seed = place_of(first, benchmark, options.task, options.seed)
    sequence = benchmark.sequence(seed, task, 1)
    game = (benchmark.games or (benchmark.env,))[sequence.game(task - 1)]
    casts = [only_member(cast_of([word], game, options.greedy, loaded), word) for word in words]
    target = options.out or Path(f"{casts[0].names[0]}-task{task}.gif")
    if target.exists():
        raise UserError(f"{target} exists already; choose another --out")
    players, acting = seated(game, casts, options.seat)
    key = jax.random.key(seed)
    played = film_episode(game, players, acting, sequence[task - 1], key, greedy=options.greedy)
    played.save(target)
    return target, played.score


def only_member(cast: Cast, word: str) -> Cast:
    """The cast of a single policy."""
    if cast.size > 1:
        raise UserError(f"{word} has {cast.size} policies; name one, {word}:{cast.names[0]}")
    return cast
