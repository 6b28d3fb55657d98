"""The tables and figures of the MEAL paper (000)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from brigade.benchmarks.published import Figures, published
from brigade.launch.run_table import Row, RunTable

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
SHARE = {"1": 1.0, "2": 0.5, "3": 0.3}  # of steps by level: larger kitchens are slower

SETTINGS = "meal_settings.md"  # recorded results of several targets
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

NONE: Mapping[str, Figures] = {}  # printed in the paper
PLASTICITY = ("auc_loss", "dormant", "final_performance_ratio", "raw_auc_ratio")


def table_2(level: str) -> RunTable:
    """The six methods on one level."""
    rows = tuple(Row(name, kitchens(level, METHODS[name])) for name in METHODS)
    number = 10 + int(level)  # of the table with intervals
    title = f"Methods on level {level} (Table 2; published figures from Table {number})"
    measures = (*STANDARD, "area_gained", "after_training")
    note, page = f"{TUNED} {OTHER_PRINT} {POLE}", "meal.md"
    figures, shows = published(f"meal/table-{number}"), "six methods on a level"
    return table(
        "table-2", shows, 9.0, title, rows, measures, figures, level, note=note, recorded=page
    )


def table_of_level(level: str, minutes: float, recorded: str = "") -> RunTable:
    """Tables 11, 12 and 13, which are Table 2 on one level."""
    named = replace(table_2(level), name=f"meal/table-{10 + int(level)}", levelled=False)
    return replace(named, shows=f"table-2 on level {level}", minutes=minutes, recorded=recorded)


def table_3(level: str) -> RunTable:
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
    figures, shows = published(f"meal/table-3-level-{level}"), "EWC with 1 to 4 cooks"
    return table("table-3", shows, 12.0, title, rows, STANDARD, figures, level, small=small)


def figure_6(level: str) -> RunTable:
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
    note, shows = f"{PLOT} {TUNED}", "network ablations"
    return table("figure-6", shows, 11.0, title, rows, STANDARD[:1], level=level, note=note)


def figure_7(level: str) -> RunTable:
    """Full view, partial view, and partial view with a central critic."""
    partial = {"env": {"view": "level"}}
    rows = (
        Row("IPPO, full view", kitchens(level, "ewc")),
        Row("IPPO, partial view", kitchens(level, "ewc") | partial),
        Row("MAPPO, partial view", kitchens(level, "ewc") | partial | {"learner": "mappo"}),
    )
    title = f"EWC with a partial view, level {level}"
    note, shows = f"{PLOT} {TUNED}", "partial views, MAPPO"
    measures = STANDARD[:2]
    return table(
        "figure-7", shows, 7.0, title, rows, measures, NONE, level, note=note, recorded=SETTINGS
    )


def table_8() -> RunTable:
    """Fine-tuning on a repeated sequence (Table 4 is a part of it)."""
    rows = tuple(
        Row(
            f"{times} x" if times > 1 else "once",
            kitchens("1", "ft") | {"tasks": 10, "repetitions": times, "steps_per_task": 1e7},
            heavy=times == 10,
        )
        for times in (1, 3, 10)
    )
    # A task not learned the first time has no ratio: rather fewer repetitions than fewer steps.
    small = dict(SMALL) | {"tasks": 2, "steps_per_task": 4.5e5}
    title = "Loss of plasticity, level 1 (Tables 4 and 8)"
    note = (
        "The paper's text says 1e7 steps per task, its Table 5 1e8. Ten repetitions of ten tasks "
        "in a billion steps, as stated for this table, are 1e7 per task."
    )
    figures, shows = published("meal/table-8"), "plasticity in a repeated stream"
    return table("table-8", shows, 5.0, title, rows, PLASTICITY, figures, note=note, small=small)


def table_7() -> RunTable:
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
    measures = ("second_third", "last_third")
    figures, shows = published("meal/table-7"), "a curriculum of levels"
    return table("table-7", shows, 12.0, "Curriculum", rows, measures, figures, note=note)


def table_9() -> RunTable:
    """Designated roles: a chef and a waiter."""
    rows = (
        Row("no roles", kitchens("1", "ewc")),
        Row("chef and waiter", kitchens("1", "ewc") | {"env": {"roles": True}}),
    )
    title = "Designated roles, level 1"
    figures, measures = published("meal/table-9"), (*STANDARD, "collapse")
    shows = "designated roles"
    return table("table-9", shows, 7.0, title, rows, measures, figures, recorded=SETTINGS)


def table_10() -> RunTable:
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
    title, shows = "Eight partners, one kitchen", "eight partners one by one"
    figures, small, page = published("meal/table-10"), {**SMALL, "tasks": 8}, "meal_partners.md"
    found = table("table-10", shows, 5.0, title, rows, measures, figures, note=note, small=small)
    return replace(found, recorded=page)


def figure_18() -> RunTable:
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
    title, shows = "JaxNav, Online EWC", "JaxNav with 2 to 4 robots"
    return table("figure-18", shows, 6.0, title, rows, measures, note=note, small=small)


def hundred_tasks(level: str) -> RunTable:
    """EWC and Online EWC on a hundred kitchens (Figures 10, 13 and 15)."""
    rows = tuple(
        Row(name, kitchens(level, METHODS[name]) | {"tasks": 100, "eval_every": 25})
        for name in ("EWC", "Online EWC")
    )
    note = f"The paper only plots a hundred tasks; there are no published numbers. {TUNED}"
    title = f"A hundred kitchens of level {level}"
    shows = "EWC on 100 kitchens"
    return table("100-tasks", shows, 3.0, title, rows, STANDARD[:2], level=level, note=note)


def targets(level: str) -> list[RunTable]:
    """All tables and figures; those that have levels at this one."""
    eight, plasticity = table_10(), table_8()
    return [
        table_2(level),
        table_3(level),
        replace(plasticity, name="meal/table-4", shows="the same as table-8"),
        table_7(),
        plasticity,
        table_9(),
        eight,
        table_of_level("1", minutes=9.0, recorded="meal.md"),
        table_of_level("2", minutes=8.0),
        table_of_level("3", minutes=11.0),
        figure_6(level),
        figure_7(level),
        replace(eight, name="meal/figure-16", shows="the same as table-10"),
        figure_18(),
        hundred_tasks(level),
    ]


def kitchens(level: str, method: str) -> dict[str, Any]:
    """Settings of a run on the kitchens of a level."""
    return {"benchmark": f"meal/level-{level}", "method": method}


def table(
    name: str,
    shows: str,
    minutes: float,
    title: str,
    rows: tuple[Row, ...],
    measures: tuple[str, ...],
    figures: Mapping[str, Figures] = NONE,
    level: str = "",
    **more: Any,
) -> RunTable:
    """A table with what most of them have."""
    usual = {"small": SMALL, "note": TUNED, "share": SHARE[level or "1"], "levelled": bool(level)}
    shown = f"{shows} (--level)" if level else shows
    texts = {"title": title, "rows": rows, "measures": measures, "published": figures}
    return RunTable(f"meal/{name}", shown, minutes, **{**usual, **texts, **more})
