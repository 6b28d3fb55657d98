"""`brigade evaluate`: measure a policy's zero-shot coordination with ready-made partners."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

from brigade.benchmarks.zsc_eval import KITCHENS
from brigade.core.checks import within
from brigade.errors import UserError
from brigade.launch.audit import refuse_leakage, refuse_trained_with
from brigade.partners.cast import cast_of
from brigade.partners.files import SUFFIX, check_fits, load_policies
from brigade.reading import expect, read_json
from brigade.registry import file_and_name, unknown_name
from brigade.report.table import Table
from brigade.report.zsc_results import results_of
from brigade.runs.config import from_dict
from brigade.runs.limits import SCORE_BYTES, require_memory
from brigade.runs.trust import without_files
from brigade.train.crossplay import play_with

MAX_SEED = 2**32 - 1
READY_MADE = "brigade.partners.zsc_eval"  # LAYOUT.safetensors and LAYOUT.json


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The games of a policy with evaluation partners."""

    partners: tuple[str, ...]
    returns: np.ndarray  # [policy, partner, seat, episode]
    best_responses: np.ndarray  # [partner, seat]
    policies: tuple[str, ...]


def evaluate(
    name: str,
    policy: str,
    study: Path | None = None,
    episodes: int = 50,
    seed: int = 0,
    greedy: bool = False,
) -> Evaluation:
    """Play a policy file with the evaluation partners of a layout, on both seats.

    The members of the file count as seeds. Partners come with Brigade, or from a `study`.
    """
    layout = layout_of(name)
    partners, best = evaluation_partners(layout, study)
    policies = load_policies(partners)
    env = without_files(policies.origin.get("env", {}))
    rules = {"benchmark": f"zsc_eval/{layout}", "env": env}
    benchmark = from_dict(rules).benchmark()  # as when best responses were measured
    task = benchmark.sequence(0, 1, 1)[0]
    try:
        egos = cast_of([policy], benchmark.env, greedy)
        check_fits(policies, benchmark.env, str(partners))
        cast = policies.cast()
        if file := file_and_name(policy, SUFFIX)[0]:
            refuse_leakage(benchmark.env, task, partners, [Path(file)])
            refuse_trained_with(partners, Path(file))
        within("seed", seed, 0, MAX_SEED)
        needed = SCORE_BYTES * egos.size * cast.size * episodes
        require_memory(needed, "the scores", "--episodes")
        key = jax.random.key(seed)
        returns = play_with(benchmark.env, task, egos, cast, episodes, key)
    except ValueError as error:
        raise UserError(str(error)) from error
    return Evaluation(cast.names, returns, best, egos.names)


def layout_of(name: str) -> str:
    """The layout of `zsc_eval/LAYOUT`."""
    family, _, layout = name.partition("/")
    if family != "zsc_eval" or layout not in KITCHENS:
        known = [f"zsc_eval/{each}" for each in KITCHENS]
        raise UserError(unknown_name("benchmark", name, known))
    return layout


def evaluation_partners(layout: str, study: Path | None) -> tuple[Path, np.ndarray]:
    """The file of a layout's evaluation partners, and the returns of best responses to them."""
    if study is not None:
        file, about = study / "selection" / "partners.safetensors", "selection/selection.json"
        return file, best_responses(study / about, layout, f"{study} has no finished selection")
    folder = Path(str(files(READY_MADE)))
    file = folder / f"{layout}{SUFFIX}"
    if not file.exists():
        ready = sorted(path.stem for path in folder.glob(f"*{SUFFIX}"))
        raise UserError(
            f"no evaluation partners for {layout} come with Brigade, only for "
            f"{', '.join(ready) or 'no layout'}; make them with 'brigade reproduce "
            f"zsc_eval/{layout}' and give its folder with --study"
        )
    return file, best_responses(folder / f"{layout}.json", layout, f"{layout} is damaged")


def best_responses(path: Path, layout: str, wrong: str) -> np.ndarray:
    """The returns [partner, seat] of the best responses."""
    try:
        found: dict[str, Any] = expect(read_json(path, follow=True), dict, str(path))
        made_for, best = found["layout"], np.asarray(found["best_responses"], np.float64)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{wrong} ({path}: {error})") from error
    if made_for != layout:
        raise UserError(f"{path} is of {made_for}, not of {layout}; give the study of {layout}")
    return best


def print_evaluation(name: str, found: Evaluation) -> None:
    """Print the returns with every partner, and BR-Prox."""
    played = {"policy": found.returns, "best_responses": found.best_responses}
    (result,) = results_of(played, layout_of(name))
    policies = "1 policy" if len(found.policies) == 1 else f"{len(found.policies)} policies"
    means = found.returns.mean((0, 3))  # [partner, seat]
    rows = [
        [
            partner,
            f"{means[row, 0]:.0f}",
            f"{means[row, 1]:.0f}",
            f"{best[0]:.0f} and {best[1]:.0f}",
            f"{result.table.per_partner[row]:.2f}",
        ]
        for row, (partner, best) in enumerate(
            zip(found.partners, found.best_responses, strict=True)
        )
    ]
    title = f"{name}, mean returns of {policies}"
    headings = ("partner", "seat 0", "seat 1", "best response", "BR-Prox")
    Table(headings, rows, title).to_terminal(Console())
    low, high = result.table.interval
    interval = "" if np.isnan(low) else f" (95 % interval {low:.2f} to {high:.2f})"
    print(f"BR-Prox {result.table.value:.2f}{interval}")
    print(f"with expert partners {result.expert:.2f}, with moderate ones {result.moderate:.2f}")
