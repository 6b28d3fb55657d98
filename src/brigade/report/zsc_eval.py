"""The HTML report of a ZSC-Eval study: BR-Prox of every algorithm, and how partners were chosen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from brigade.benchmarks.published import published
from brigade.benchmarks.zsc_scales import PAPER
from brigade.metrics.result import Floats
from brigade.report import page, zsc_plots
from brigade.report.page import soft
from brigade.report.table import Table
from brigade.report.tables import count
from brigade.report.zsc_candidates import MIN_RETURN, Behaviour, from_arrays
from brigade.report.zsc_results import TITLES, Result, cells, interval, number
from brigade.runs.folder import read_npz, write_atomically

CSV = (
    *("algorithm", "seeds", "br_prox", "low", "high", "rank", "expert", "moderate"),
    *("seat_0", "seat_1", "mean_return", "published"),
)
HEADINGS = (
    *("algorithm", "BR-Prox", "95 % interval", "rank", "with experts", "with moderates"),
    *("mean return", "published"),
)
MEANING = (
    "BR-Prox is the return of an ego divided by the return of its partner's best response: 1 is "
    "as good as the best response, 0 is no delivery. It is the inter-quartile mean over seeds, "
    "partners and seats. Egos never met these partners in training."
)
CHOICE = (
    f"Candidates are kept if they reach a return above {MIN_RETURN:g} with their best response. Of "
    "these, the ones with the most different best responses are chosen: the subset whose features "
    "have the largest determinant (BR-Div)."
)
MAPS = (
    "Maps: the first two principal components of the behaviour features, and their shares of the "
    "variance. P-Div is the determinant of the candidates' own features; both lines are the BR-Div "
    "of the subset chosen. The dashed line is the number of partners chosen."
)
PUBLISHED = (
    "Published: the paper's runs with middle-sized populations, recomputed with every partner's "
    "own best response."
)
MAX_FILM_BYTES = 8_000_000
PAPER_STEPS = (
    *(PAPER.candidate_steps, PAPER.population_steps, PAPER.ego_steps),
    *(PAPER.alone_steps, PAPER.cole_steps),
)


@dataclass(frozen=True, eq=False)
class StudyData:
    """What the folder of a study holds, and the results of its algorithms."""

    folder: Path
    layout: str
    results: Sequence[Result]
    selection: dict[str, Any]
    behaviour: Behaviour
    played: dict[str, np.ndarray]

    @property
    def titles(self) -> list[str]:
        """The names of the algorithms."""
        return [result.title for result in self.results]

    @property
    def partners(self) -> list[str]:
        """The names of the evaluation partners; those that end in -mid are half-skilled."""
        return [str(name) for name in self.played["partners"]]

    @property
    def half_skilled(self) -> zsc_plots.Mask:
        """[partner]."""
        return np.array([name.endswith("-mid") for name in self.partners])

    @property
    def best(self) -> Floats:
        """Returns of the best responses [partner], mean over seats."""
        return np.asarray(self.played["best_responses"].mean(1))

    @property
    def seeds(self) -> list[int]:
        """How many egos each algorithm has."""
        return [len(result.table.ratios) for result in self.results]

    @property
    def games(self) -> int:
        """How many games were played."""
        return sum(self.played[result.name].size for result in self.results)

    @property
    def has_published(self) -> bool:
        """Whether the paper's release has figures for this layout."""
        return any(result.published is not None for result in self.results)

    @property
    def is_capped(self) -> bool:
        """Whether ratios were capped at 1, as in the paper's release."""
        highest = max(np.nanmax(result.table.ratios) for result in self.results)
        returns = (self.played[result.name].mean(-1) for result in self.results)
        best = self.played["best_responses"]
        return bool(highest <= 1 and any((r > best)[:, best > 0].any() for r in returns))

    @cached_property
    def runs(self) -> list[tuple[str, dict[str, Any]]]:
        """Title and settings of every run whose config can be read."""
        populations = sorted(path.name for path in self.folder.glob("populations/*"))
        places = [("Candidates and best responses", "candidates")]
        places += [(f"Population of {TITLES.get(n, n)}", f"populations/{n}") for n in populations]
        places += [(f"Egos of {r.title}", f"egos/{r.name}") for r in self.results]
        found = [(title, _read_config(self.folder / place)) for title, place in places]
        return [(title, config) for title, config in found if config]

    @property
    def steps(self) -> list[float]:
        """Steps per policy, or per pair, of every run that is known."""
        return [_steps(config) for _, config in self.runs]

    @property
    def is_small(self) -> bool:
        """Whether runs have less than half of the steps of the paper's shortest."""
        return any(steps < min(PAPER_STEPS) / 2 for steps in self.steps)


def write_study_report(folder: Path, layout: str, results: Sequence[Result]) -> Path:
    """Write report/report.html and report/table.csv into a study's folder; returns the page."""
    if not results:
        raise ValueError("a report needs at least one algorithm")
    study = _read(folder, layout, results)
    body = [
        _head(study),
        _cards(study),
        _proximity(study),
        _by_partner(study),
        _choice(study),
        _films(folder / "films"),
        _settings(study),
        page.tag("footer", f"Written by Brigade from {folder.name}.", "soft"),
    ]
    text = page.document(f"ZSC-Eval: {layout}", "\n".join(body))
    path = folder / "report" / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path.with_name("table.csv"), _csv(results))
    write_atomically(path, text.encode("utf-8", "replace"))
    return path


def _read(folder: Path, layout: str, results: Sequence[Result]) -> StudyData:
    chosen = folder / "selection"
    selection = json.loads((chosen / "selection.json").read_text(encoding="utf-8"))
    behaviour = from_arrays(read_npz(chosen / "behaviour.npz"))
    played = read_npz(folder / "measurement" / "played.npz")
    return StudyData(folder, layout, results, selection, behaviour, played)


def _read_config(folder: Path) -> dict[str, Any]:
    """The settings of a run; empty if they cannot be read."""
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    config = content.get("config") if isinstance(content, dict) else None
    return config if isinstance(config, dict) and "steps_per_task" in config else {}


def _csv(results: Sequence[Result]) -> bytes:
    rows = [
        [
            *(result.name, len(result.table.ratios), result.table.value, *result.table.interval),
            *(result.rank, result.expert, result.moderate, *result.table.per_seat),
            *(result.mean_return, result.published),
        ]
        for result in results
    ]
    return Table(CSV, rows).to_csv()


# --- The page, from top to bottom ---------------------------------------------------------------


def _head(study: StudyData) -> str:
    lines = [
        page.tag("h1", f"Zero-shot coordination in {study.layout}"),
        soft("ZSC-Eval: egos play with partners they never met in training."),
    ]
    if study.is_small:
        text = (
            "Small scale: much shorter training than in the paper. These figures show how the "
            "table is produced and say nothing about the paper."
        )
        lines.append(page.tag("p", text, "note"))
    return page.box("header", "\n".join(lines))


def _cards(study: StudyData) -> str:
    best = max(study.results, key=lambda result: np.nan_to_num(result.table.value, nan=-np.inf))
    half = int(study.half_skilled.sum())
    kinds = f"{len(study.partners) - half} final, {half} half-skilled"
    kept = len(study.selection["kept"])
    between = f", {interval(best)}" if interval(best) else ""
    seeds = " or ".join(map(str, sorted(set(study.seeds))))
    episodes = study.played[best.name].shape[-1]
    cards: list[tuple[str, object, str]] = [
        ("Highest BR-Prox", number(best.table.value), f"{best.title}{between}"),
        ("Candidates", len(study.behaviour.names), f"of which {kept} deliver"),
        ("Partners", len(study.partners), kinds),
        ("Algorithms", len(study.results), f"seeds of each: {seeds}"),
        ("Games", f"{study.games:,}", f"{episodes} per ego, partner and seat"),
    ]
    return page.cards(cards)


def _proximity(study: StudyData) -> str:
    notes = [
        "The interval is a bootstrap over whole seeds." if max(study.seeds) > 1 else "",
        "One seed has no interval." if min(study.seeds) == 1 else "",
        "Experts are the partners whose best response has a return above the median, moderates "
        "the others.",
        "Ratios are capped at 1, as in the paper's release." if study.is_capped else "",
        PUBLISHED if study.has_published else "",
    ]
    columns = len(HEADINGS) if study.has_published else -1
    return page.section(
        "Best-response proximity",
        page.tag("p", MEANING),
        page.table(Table(HEADINGS[:columns], [cells(r)[:columns] for r in study.results])),
        soft(" ".join(filter(None, notes))),
        page.plots(zsc_plots.proximity_plots(study.results)),
    )


def _by_partner(study: StudyData) -> str:
    order = np.argsort(study.half_skilled, kind="stable")  # final partners first
    columns = [
        zsc_plots.Column(
            _short(study.partners[i]), bool(study.half_skilled[i]), float(study.best[i])
        )
        for i in order
    ]
    ratios = np.stack([r.table.ratios.mean((0, 2))[order] for r in study.results])
    svg, width = zsc_plots.heat_map("Mean ratio by partner", study.titles, columns, ratios)
    # Text in a wide plot would be too small on a phone: the plot scrolls instead.
    scroll = f'<div style="overflow-x:auto"><div style="width:{width}px">{svg}</div></div>'
    text = (
        "Mean over seeds and seats of the ego's return divided by the best response's. BR return: "
        f"mean return of the partner's best response. {_best_responses(study)}"
    )
    return page.section("By partner", soft(text), page.box("figure", scroll))


def _best_responses(study: StudyData) -> str:
    """How good best responses are, beside the published ones."""
    groups = (("final", ~study.half_skilled), ("half-skilled", study.half_skilled))
    means = [(name, study.best[mask].mean()) for name, mask in groups if mask.any()]
    text = " and ".join(f"{mean:.0f} with {name} partners" for name, mean in means)
    figures = published("zsc_eval/best-responses").get(study.layout, {})
    known = " and ".join(f"{figure.value:.0f}" for figure in figures.values())
    beside = f" (published: {known})" if known else ""
    return f"Best responses reach {text}{beside}."


def _short(name: str) -> str:
    """A candidate's number: 3 for biased-3 and biased-3-mid."""
    return name.removesuffix("-mid").removeprefix("biased-")


def _choice(study: StudyData) -> str:
    names = study.behaviour.names
    kept, chosen = (np.isin(names, study.selection[group]) for group in ("kept", "chosen"))
    plots = zsc_plots.choice_plots(study.behaviour, kept, chosen, [_short(n) for n in names])
    return page.section(
        "Choice of the partners", page.tag("p", CHOICE), page.plots(plots), soft(MAPS)
    )


def _films(folder: Path) -> str:
    """All films; symbolic links are skipped, since they could point to any file."""
    figures = []
    for path in sorted(folder.glob("*.gif")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_FILM_BYTES:
            continue
        gif = path.read_bytes()
        if gif.startswith(b"GIF8"):
            figures.append(page.picture(_film_title(path.stem), gif, "gif"))
    return page.section("Films", page.box("div", "\n".join(figures), "pictures") if figures else "")


def _film_title(stem: str) -> str:
    """`fcp-with-biased-3`: FCP with biased-3."""
    ego, between, partner = stem.partition("-with-")
    return f"{TITLES.get(ego, ego)} with {partner}" if between else stem


def _settings(study: StudyData) -> str:
    selection = study.selection
    rows = [_run_row(title, config) for title, config in study.runs]
    headings = ("run", "policies or pairs", "steps of each", "environments of each", "seeds")
    text = (
        f"{count(len(selection['chosen']), 'partner')} chosen from {len(selection['kept'])} "
        f"candidates that deliver, BR-Div {selection['determinant']:.3g}. Returns of best "
        f"responses: mean over {count(selection['episodes'], 'episode')} per seat, the best of "
        "all kept candidates' best responses."
    )
    if study.steps:
        text += (
            f" Steps of each policy or pair: {_range(study.steps)}; in the paper "
            f"{_range(PAPER_STEPS)}."
        )
    return page.section("How it was made", page.table(Table(headings, rows)), soft(text))


def _run_row(title: str, config: dict[str, Any]) -> list[str]:
    members = _members(config)
    environments = float(config.get("num_envs", np.nan)) / members
    seeds = str(config.get("seeds", "-"))
    return [title, str(members), f"{_steps(config):,.0f}", f"{environments:g}", seeds]


def _members(config: dict[str, Any]) -> int:
    return int(config.get("generator_settings", {}).get("members", 1))


def _steps(config: dict[str, Any]) -> float:
    """Steps of a run per policy, or per pair."""
    return float(config["steps_per_task"]) / _members(config)


def _range(steps: Sequence[float]) -> str:
    low, high = (f"{value / 1e6:.2g}" for value in (min(steps), max(steps)))
    return f"{low} million" if low == high else f"{low} to {high} million"
