"""Table 1 and the learning curves of the Lifelong Hanabi paper (003).

Tables 2, 6 and 7 and Figure 2 also need the pool's own cross-play: see `hanabi_tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from brigade.benchmarks.published import published
from brigade.launch.run_table import Row, RunTable

METHODS = {
    "Naive": "ft",
    "EWC off.": "ewc",
    "EWC on.": "online_ewc",
    "ER": "er",
    "AGEM": "agem",
    "Multi-Task": "mtl",
}
MEASURES = (
    "lifelong_average",
    "lifelong_forgetting",
    "few_shot_average",
    "few_shot_forgetting",
)
CURVES = ("current_score", *MEASURES[:2], "future_score", *MEASURES[2:], "generalisation")
OPTIMIZERS = {"adam": "Adam", "sgd": "SGD"}
KINDS = {"hard": "hard", "easy": "easy", "10": "ten"}  # of streams
PAGE = "lifelong_hanabi.md"

SGD_COEFFICIENT = 30.0  # EWC's, with SGD: at Adam's 100 the penalty's steps overshoot
SEQUENCE = 80  # timesteps, in the paper
PAPER_MEMORY = 32768 * SEQUENCE  # timesteps of a task's episodic memory
SMALL_TASK = 2e5  # steps, at most

NOTE = (
    "Partners come from the pool of --env.pool; by default the ready-made one, of a small game. "
    "The published figures are of the full game with the paper's pool."
)
SGD_NOTE = (
    "The release runs SGD at Adam's learning rate, so that it hardly moves; ours is 0.02 with "
    "momentum 0.8."
)
PLOT = "The paper only plots this figure; there are no published numbers."


def life(stream: str, method: str, optimizer: str, tasks: int = 5) -> dict[str, Any]:
    """Settings of a run."""
    q: dict[str, Any] = {"optimizer": optimizer}
    if optimizer == "sgd":
        q |= {"learning_rate": 0.02, "momentum": 0.8}
    settings: dict[str, Any] = {"benchmark": f"lifelong_hanabi/{stream}", "method": method}
    if method in ("er", "agem"):
        settings["method_settings"] = {
            "memory_size": PAPER_MEMORY * tasks,
            "sample_size": 32 * SEQUENCE,
        }
    if method in ("ewc", "online_ewc") and optimizer == "sgd":
        settings["method_settings"] = {"coefficient": SGD_COEFFICIENT}
    if method == "mtl":
        q |= {"buffer_size": 32768 * tasks}
    return settings | {"q": q}


def small(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the settings of a run become at the small scale: memories that fit small games."""
    changes: dict[str, Any] = {}
    if settings["method"] in ("er", "agem"):
        changes["method_settings"] = {"memory_size": 100_000, "sample_size": 2048}
    if settings["method"] == "mtl":
        changes["q"] = {"buffer_size": 32768}
    return changes


def table(
    name: str, shows: str, title: str, rows: tuple[Row, ...], measures: tuple[str, ...], note: str
) -> RunTable:
    """A table whose small runs have one seed."""
    tasks = 10 if rows[0].settings["benchmark"] == "lifelong_hanabi/10" else 5
    small = {"preset": "laptop", "seeds": 1, "tasks": tasks, "steps_per_task": SMALL_TASK}
    name = f"lifelong_hanabi/{name}"
    found = RunTable(name, shows, title=title, rows=rows, measures=measures, small=small)
    return replace(found, note=note)


def row(name: str, settings: Mapping[str, Any]) -> Row:
    """A run, with smaller memories at the small scale."""
    return Row(name, settings, small=small(settings))


def table_1() -> RunTable:
    """Methods with both optimisers on the hard stream."""
    found = published("lifelong_hanabi/table-1")
    names = {name: name.rpartition(" ")[::2] for name in found}  # method and optimiser
    rows = tuple(
        row(name, life("hard", METHODS[method], optimizer.lower()))
        for name, (method, optimizer) in names.items()
    )
    title = "Lifelong learning with five hard partners (Table 1)"
    measures = (*MEASURES, "generalisation")
    shows = "methods with hard partners"
    made = table("table-1", shows, title, rows, measures, f"{NOTE} {SGD_NOTE}")
    return replace(made, published=found, minutes=18.0, recorded=PAGE)


def curves(number: int, stream: str, optimizer: str, recorded: str = "") -> RunTable:
    """All methods with one optimiser on one stream (Figures 3 and 7 to 12)."""
    tasks = 10 if stream == "10" else 5
    rows = tuple(
        row(name, life(stream, method, optimizer, tasks)) for name, method in METHODS.items()
    )
    title = f"Stream {stream} with {OPTIMIZERS[optimizer]} (Figure {number})"
    note = f"{PLOT} {NOTE} The curves are those of 'brigade report' on the runs."
    if optimizer == "sgd":
        note = f"{note} {SGD_NOTE}"
    shows = f"{KINDS[stream]} partners, {OPTIMIZERS[optimizer]}"
    found = table(f"figure-{number}", shows, title, rows, CURVES, note)
    return replace(found, recorded=recorded)


def figure_4() -> RunTable:
    """ER with small and large memories, and with few and many few-shot updates."""
    rows = []
    for optimizer, name in OPTIMIZERS.items():
        for share in (16, 4, 1):
            settings = life("hard", "er", optimizer)
            settings["method_settings"]["memory_size"] //= share
            label = f"ER {name}, memory / {share}" if share > 1 else f"ER {name}, whole memory"
            less = {"method_settings": {"memory_size": 100_000 // share, "sample_size": 2048}}
            rows.append(Row(label, settings, small=less))
    for updates, steps in ((1, 10), (6, 50), (12, 100)):
        settings = life("hard", "er", "adam") | {"few_shot_updates": updates}
        rows.append(row(f"ER Adam, about {steps} gradient steps few-shot", settings))
    title = "Memory size, few-shot updates and generalisation (Figure 4)"
    memory = (
        "The whole memory is 32k games of 80 timesteps per partner, as in the paper, which also "
        "has 2k and 8k, a 16th and a quarter; at the small scale it is 100,000 timesteps in all."
    )
    note = f"{PLOT} {memory} {NOTE} {SGD_NOTE}"
    shows = "memory size and few-shot updates"
    return replace(table("figure-4", shows, title, tuple(rows), CURVES, note), recorded=PAGE)


def figure_5() -> RunTable:
    """ER with three replay strategies on ten partners."""
    rows = []
    for name, strategy in (("ER", "surprise"), ("ER FIFO", "uniform"), ("ER Reward", "reward")):
        settings = life("10", "er", "adam", 10)
        settings["q"]["priority"] = strategy
        rows.append(row(name, settings))
    title = "Replay strategies with ten partners (Figure 5)"
    note = f"{PLOT} {NOTE}"
    return table("figure-5", "replay strategies", title, tuple(rows), CURVES, note)


def figures() -> list[RunTable]:
    """All figures of learning curves."""
    return [
        curves(3, "hard", "adam", recorded=PAGE),
        figure_4(),
        figure_5(),
        curves(7, "hard", "adam"),
        curves(8, "easy", "adam"),
        curves(9, "hard", "sgd"),
        curves(10, "easy", "sgd"),
        curves(11, "10", "adam"),
        curves(12, "10", "sgd"),
    ]
