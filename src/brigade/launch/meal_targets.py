"""The tables and figures of the MEAL paper (000)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from brigade.benchmarks.published import published
from brigade.launch.target import Row, Target
from brigade.report.summary import find

STANDARD = ("average_score", "forgetting", "forward_transfer")
METHODS = {
    "FT": "ft",
    "EWC": "ewc",
    "Online EWC": "online_ewc",
    "MAS": "mas",
    "L2": "l2",
    "AGEM": "agem",
}
# Three tasks and two seeds show how a table is produced; they do not test it.
SMALL: Mapping[str, Any] = {
    "preset": "laptop",
    "tasks": 3,
    "seeds": 2,
    "steps_per_task": 2e5,
    "eval_every": 8,
    "eval_episodes": 5,
}
SMALL_STEPS = 7.2e6  # over all runs of a small table, so that all tables take about as long
SMALL_SHARE = {"1": 1.0, "2": 0.5, "3": 0.3}  # by level, since larger kitchens are slower

PLOT = "The paper only plots this figure; there are no published numbers."

# The notes of Tables 2 and 10 are part of the recorded tables in docs/results.
POLE = (
    "Forward transfer divides by 1 - AUC_b and says little where single-task baselines come near a "
    "score of 1 or pass it; the area gained, AUC - AUC_b, is sound there, too."
)

TUNED = (
    "EWC, Online EWC, MAS and L2 have coefficients that were searched with 256 environments and "
    "1e7 steps per kitchen, not the paper's."
)

OTHER_PRINT = (
    "The paper's Table 2 has no intervals, and some of its figures for forgetting are lower than "
    "those of Tables 11 to 13."
)

PLASTICITY = ("auc_loss", "dormant", "final_performance_ratio", "raw_auc_ratio")


def table_2(level: str) -> Target:
    """The six methods on one level."""
    rows = tuple(Row(name, kitchens(level, METHODS[name])) for name in METHODS)
    number = 10 + int(level)  # of the table with intervals
    title = f"Methods on level {level} (Table 2; published figures from Table {number})"
    measures = (*STANDARD, "area_gained", "after_training")
    note, figures = f"{TUNED} {OTHER_PRINT} {POLE}", f"meal/table-{number}"
    return target("meal/table-2", title, rows, measures, note, level, figures=figures)


def table_3(level: str) -> Target:
    """EWC with 1 to 4 cooks."""
    rows = tuple(
        Row(
            f"{cooks} cooks" if cooks > 1 else "1 cook",
            kitchens(level, "ewc")
            | {"env": {"num_agents": cooks}}
            | ({"learner": "ppo"} if cooks == 1 else {}),
        )
        for cooks in (1, 2, 3, 4)
    )
    # Every row has its own baselines, and four cooks give twice as many samples as two.
    small = dict(SMALL) | {"steps_per_task": 1.2e5}
    title = f"EWC and the number of cooks, level {level}"
    figures = f"meal/table-3-level-{level}"
    return target("meal/table-3", title, rows, STANDARD, TUNED, level, small, figures)


def figure_6(level: str) -> Target:
    """Five ablations, for three methods."""
    changes: dict[str, dict[str, Any]] = {
        "as it is": {},
        "one head": {"network": {"multi_head": False}},
        "no task number": {"network": {"task_one_hot": "none"}},
        "critic regularised": {"method_settings": {"critic": True}},
        "no layer norm": {"network": {"layer_norm": False}},
        "CNN": {"network": {"encoder": "cnn", "hidden": [128]}},
    }
    rows = tuple(
        Row(f"{name}, {what}", kitchens(level, METHODS[name]) | change, heavy=what == "CNN")
        for name in ("EWC", "L2", "MAS")
        for what, change in changes.items()
    )
    title = f"Ablations, level {level}"
    return target("meal/figure-6", title, rows, ("average_score",), f"{PLOT} {TUNED}", level)


def figure_7(level: str) -> Target:
    """Full view, partial view, and partial view with a central critic."""
    partial = {"env": {"view": "level"}}
    rows = (
        Row("IPPO, full view", kitchens(level, "ewc")),
        Row("IPPO, partial view", kitchens(level, "ewc") | partial),
        Row("MAPPO, partial view", kitchens(level, "ewc") | partial | {"learner": "mappo"}),
    )
    title = f"EWC with a partial view, level {level}"
    return target("meal/figure-7", title, rows, STANDARD[:2], f"{PLOT} {TUNED}", level)


def table_8(level: str) -> Target:
    """Fine-tuning on a repeated sequence (Table 4 is a part of it)."""
    rows = tuple(
        Row(
            f"{times} x" if times > 1 else "once",
            kitchens(level, "ft") | {"tasks": 10, "repetitions": times, "steps_per_task": 1e7},
            heavy=times == 10,
        )
        for times in (1, 3, 10)
    )
    # A task not learned the first time has no ratio: rather fewer repetitions than fewer steps.
    small = dict(SMALL) | {"tasks": 2, "steps_per_task": 4.5e5}
    title = f"Loss of plasticity, level {level} (Tables 4 and 8)"
    note = (
        "The paper's text says 1e7 steps per task, its Table 5 1e8. Ten repetitions of ten tasks "
        "in a billion steps, as stated for this table, are 1e7 per task."
    )
    figures = "meal/table-8" if level == "1" else ""
    return target("meal/table-8", title, rows, PLASTICITY, note, level, small, figures)


def table_7(level: str) -> Target:
    """A curriculum compared with kitchens of a single level."""
    benchmarks = {
        "level 2 only": "meal/level-2",
        "level 3 only": "meal/level-3",
        "curriculum": "meal/curriculum",
    }
    rows = tuple(
        Row(name, {"benchmark": benchmark, "method": "online_ewc", "tasks": 15})
        for name, benchmark in benchmarks.items()
    )
    note = (
        "The paper names no method for this table; we use Online EWC. It describes the run without "
        "a curriculum as 15 hard kitchens, but refers to level 2 for its second third; we compare "
        "that number with a run on level 2. Scores are those at the end of a kitchen's own "
        f"training. {TUNED}"
    )
    measures, key = ("second_third", "last_third"), "meal/table-7"
    return target(key, "Curriculum", rows, measures, note, figures=key)


def table_9(level: str) -> Target:
    """Designated roles: a chef and a waiter."""
    rows = (
        Row("no roles", kitchens("1", "ewc")),
        Row("chef and waiter", kitchens("1", "ewc") | {"env": {"roles": True}}),
    )
    title = "Designated roles, level 1"
    key = "meal/table-9"
    return target(key, title, rows, (*STANDARD, "collapse"), TUNED, figures=key)


def table_10(level: str) -> Target:
    """Eight partners, one after another, in one kitchen (Figure 16 has their curves)."""
    rows = tuple(
        Row(name, {"benchmark": "meal/partners", "method": METHODS[name]}) for name in ("FT", "L2")
    )
    note = (
        "The learned partners of the paper's release are pickles, which Brigade does not read; "
        "ours were made anew by the same rule. The release pays the learner for its own soups only "
        "(--env.reward individual). "
        f"{TUNED} The curves of Figure 16 are those of 'brigade report' on the runs."
    )
    measures = (*STANDARD[:2], "after_training")
    small = dict(SMALL) | {"tasks": 8}
    title, key = "Eight partners, one kitchen", "meal/table-10"
    return target(key, title, rows, measures, note, small=small, figures=key)


def figure_18(level: str) -> Target:
    """JaxNav with 2 to 4 robots."""
    rows = tuple(
        Row(
            f"{robots} robots",
            {"benchmark": "jaxnav/20", "method": "online_ewc", "env": {"num_agents": robots}},
        )
        for robots in (2, 3, 4)
    )
    note = (
        "The paper plots measures of raw returns and prints no numbers. Scores here are the share "
        f"of robots that reach their goal; the average return is shown as well. {TUNED}"
    )
    measures = (*STANDARD[:2], "average_return")
    # Steps with robots are faster than with cooks, and robots need more of them.
    small = dict(SMALL) | {"tasks": 2, "steps_per_task": 6e5, "eval_every": 25}
    return target("meal/figure-18", "JaxNav, Online EWC", rows, measures, note, small=small)


def hundred_tasks(level: str) -> Target:
    """EWC and Online EWC on a hundred kitchens (Figures 10, 13 and 15)."""
    rows = tuple(
        Row(name, kitchens(level, METHODS[name]) | {"tasks": 100, "eval_every": 25})
        for name in ("EWC", "Online EWC")
    )
    note = f"The paper only plots a hundred tasks; there are no published numbers. {TUNED}"
    title = f"A hundred kitchens of level {level}"
    return target("meal/100-tasks", title, rows, ("average_score", "forgetting"), note, level)


TARGETS: dict[str, Callable[[str], Target]] = {
    "meal/table-2": table_2,
    "meal/table-3": table_3,
    "meal/table-4": table_8,
    "meal/table-7": table_7,
    "meal/table-8": table_8,
    "meal/table-9": table_9,
    "meal/table-10": table_10,
    "meal/table-11": lambda level: table_2("1"),
    "meal/table-12": lambda level: table_2("2"),
    "meal/table-13": lambda level: table_2("3"),
    "meal/figure-6": figure_6,
    "meal/figure-7": figure_7,
    "meal/figure-16": table_10,
    "meal/figure-18": figure_18,
    "meal/100-tasks": hundred_tasks,
}
LEVELLED = {"meal/table-2", "meal/table-3", "meal/figure-6", "meal/figure-7", "meal/100-tasks"}


def kitchens(level: str, method: str) -> dict[str, Any]:
    """Settings of a run on the kitchens of a level."""
    return {"benchmark": f"meal/level-{level}", "method": method}


def target(
    name: str,
    title: str,
    rows: tuple[Row, ...],
    measures: tuple[str, ...],
    note: str = "",
    level: str = "1",
    small: Mapping[str, Any] = SMALL,
    figures: str = "",
) -> Target:
    """A target whose small runs share a budget of steps, smaller for larger kitchens."""
    repetitions = sum(row.settings.get("repetitions", 1) for row in rows if not row.heavy)
    runs = repetitions * small["tasks"] * small["seeds"]
    steps = min(small["steps_per_task"], SMALL_STEPS / runs) * SMALL_SHARE[level]
    return Target(
        name,
        title,
        rows,
        measures,
        dict(small) | {"steps_per_task": steps},
        note,
        needs_baselines=any(find(name).needs_baselines for name in measures),
        published=published(figures) if figures else {},
    )
