"""Reports: hand-checked numbers, and pages that a stranger's run folder cannot misuse."""

import csv
import io
import json
import math
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console
from support.run_folders import CONFIG, FIRST, SECOND, make_run, many_seeds, raw_run

from brigade.envs.overcooked.env import MEANINGS
from brigade.envs.overcooked.events import EVENTS
from brigade.errors import UserError
from brigade.metrics.record import EVENT_AXES
from brigade.report import (
    RunFolderError,
    curves,
    print_summary,
    read_run,
    write_csv,
    write_report,
)
from brigade.report.command import command
from brigade.report.estimate import Estimate
from brigade.report.measures import NO_BASELINES, REPEATED
from brigade.report.paint import line, task_lines
from brigade.report.style import series
from brigade.report.summary import summary
from brigade.report.tables import coordination_table, labels
from brigade.runs.flags import as_flags

T = 12.706204736  # 97.5 % quantile of Student's t with one degree of freedom: two seeds
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
PNG = b"\x89PNG\r\n\x1a\n" + b"not much of a picture"


def page_of(*runs, folder):
    return write_report(list(runs), folder).read_text(encoding="utf-8")


def printed(*runs, width=80, **options):
    out = io.StringIO()
    print_summary(Console(file=out, width=width, **options), list(runs))
    return out.getvalue()


def near(estimate, first, second):
    """The mean and interval of the two seeds' values."""
    half_width = T * abs(first - second) / 2  # sd / sqrt(2), the sd being |a - b| / sqrt(2)
    expected = ((first + second) / 2, half_width)
    assert (estimate.mean, estimate.half_width) == pytest.approx(expected, abs=1e-6)


def test_numbers_are_those_of_hand_arithmetic(tmp_path):
    numbers = summary(read_run(make_run(tmp_path / "run")))
    final, lost = numbers.by_task["average_score"], numbers.by_task["forgetting"]
    near(numbers.by_task["after_training"][0], 1.0, 0.8)
    near(final[0], 0.5, 0.4)
    # Seed 3 lost half at both later evaluations. Seed 4 lost nothing, then half: weights 1/e, 1/e².
    near(lost[0], 0.5, 0.5 / (math.e + 1))
    near(numbers.by_task["after_training"][1], 0.8, 0.62)
    near(final[1], 0.8, 0.62)
    assert lost[1] is None  # nothing came after it
    near(numbers.values["average_score"], 0.65, 0.51)
    near(numbers.values["after_training"], 0.9, 0.71)
    near(numbers.values["forgetting"], 0.5, 0.5 / (math.e + 1))
    assert numbers.values["forward_transfer"] is None
    assert numbers.notes == [f"Forward transfer: {NO_BASELINES}."]
    assert numbers.finished


def test_a_run_is_reported_by_the_measures_of_its_benchmark(tmp_path):
    """Named in its config; one that is not installed here is left out."""
    measures = ["average_return", "of_another_package", "after_training"]
    run = declare(make_run(tmp_path / "run"), measures=measures)
    numbers = summary(run)
    assert list(numbers.values) == ["average_return", "after_training"]
    near(numbers.values["average_return"], 20 * 0.65, 20 * 0.51)
    assert "Average return 11.60 (10.20 to 13.00)." in printed(run)
    assert "forgetting" not in printed(run)
    page = page_of(run, folder=tmp_path / "out")
    assert "Average return" in page
    assert "Forgetting" not in page
    _, totals, _ = (rows_of(path) for path in write_csv([run], tmp_path / "out"))
    assert float(totals[-1]["average_return"]) == pytest.approx(11.6)
    assert "forgetting" not in totals[0]


def declare(folder, **declared):
    """A run whose config.json declares more."""
    head = json.loads((folder / "config.json").read_text()) | declared
    (folder / "config.json").write_text(json.dumps(head))
    return read_run(folder)


def test_what_a_score_means_is_declared_by_the_game_and_said_once(tmp_path):
    silent, kitchen, other = (make_run(tmp_path / name) for name in "abc")
    text = page_of(read_run(silent), folder=tmp_path / "out")
    assert "The normalised result of an episode. Scores are means" in text
    kitchen = declare(kitchen, meanings=dict(MEANINGS), sets=3)
    text = page_of(kitchen, kitchen, folder=tmp_path / "out")
    assert text.count("The normalised result of an episode: soups served divided by what") == 1
    other = declare(other, meanings={"score": "points", "coordination": 3})
    text = page_of(kitchen, other, folder=tmp_path / "out")
    assert "one good cook could serve alone; points. Scores are means" in text


def task_axes(run, task):
    axes = Figure().subplots()
    task_lines(axes, [run], task, 1.0, [series(0)])
    return axes


def test_raw_scores_have_an_axis_per_task_and_no_line_at_1(tmp_path):
    """The game says what its scores are, not the benchmark's name."""
    raw, normalised = read_run(raw_run(tmp_path / "a")), read_run(make_run(tmp_path / "b"))
    limits = [task_axes(raw, task).get_ylim() for task in (0, 1)]
    np.testing.assert_allclose(limits, [(-25, 525), (-520, -80)])
    assert task_axes(normalised, 0).get_ylim() == task_axes(normalised, 1).get_ylim()
    for run, dashed in ((raw, []), (normalised, [1.0])):
        lines = [each for each in task_axes(run, 0).lines if each.get_linestyle() == "--"]
        assert [each.get_ydata()[0] for each in lines] == dashed
    text = page_of(raw, folder=tmp_path / "out")
    assert "Not normalised: the return of an episode. Scores are means" in text
    assert "The normalised result" not in text
    assert "a score of 1" not in text
    assert "Training score: 2 · Acrobot" in text
    text = page_of(raw, normalised, folder=tmp_path / "out")
    assert "The normalised result of an episode. Not normalised: the return" in text


def test_own_pairs_are_those_that_the_run_declares(tmp_path):
    """Whatever the tables are called."""
    names = ["a", "b", "c"]
    score = np.stack([FIRST, SECOND], axis=-1)[:, :, None, None, :, None] * np.ones((3, 1, 1, 1))
    score *= np.array([1.0, 0.5, 0.1])[:, None, None, None]
    axes = ["eval", "task", "partner", "seat", "seed", "episode"]
    arrays = {"score": score, "returns": score, "partner_names": np.array(names)}
    folder = make_run(tmp_path / "run", axes=np.array(axes), seat_names=np.array(["all"]), **arrays)
    measures = ["own_pairs", "other_pairs"]
    unknown = summary(declare(folder, measures=measures))
    assert list(unknown.values.values()) == [None, None]
    assert "Own pairs: not known (the run does not say which pairs these are)." in unknown.notes
    found = summary(declare(folder, measures=measures, sets={"own": ["a", "c"]}))
    near(found.values["own_pairs"], 0.65 * 0.55, 0.51 * 0.55)
    near(found.values["other_pairs"], 0.65 * 0.5, 0.51 * 0.5)


def test_partners_and_seats_are_axes_of_their_own(tmp_path):
    """Two partners, two seats: reports average them and show them apart."""
    seats = np.stack([FIRST, SECOND], axis=-1)[:, :, None, None, :, None]
    score = seats * np.array([[1.0, 0.5], [0.2, 0.1]])[:, :, None, None]
    named = {
        "score": score,
        "returns": score,
        "partner_names": np.array(["human", "static"]),
        "seat_names": np.array(["0", "1"]),
    }
    run = read_run(make_run(tmp_path / "run", **named))
    near(summary(run).values["average_score"], 0.65 * 0.45, 0.51 * 0.45)
    assert run.mean("score", "seat", "partner").shape == (2, 2)
    text = printed(run)
    assert "human: on seat 0 0.58 (0.51 to 0.65), on seat 1 0.29 (0.26 to 0.33)" in text
    assert "static: on seat 0 0.12 (0.10 to 0.13)" in text
    assert "Scores by partner and seat" in page_of(run, folder=tmp_path / "out")
    wrong = named | {"partner_names": np.array(["human"])}
    with pytest.raises(RunFolderError, match="axis partner of score has length 2"):
        read_run(make_run(tmp_path / "wrong", **wrong))


def test_forward_transfer_needs_baselines(tmp_path):
    alone = {"baseline_steps": np.array([0, 50, 100]), "baseline_score": np.zeros((2, 2, 3))}
    run = read_run(make_run(tmp_path / "run", **alone))
    numbers = summary(run)
    transfer = numbers.values["forward_transfer"]
    assert f"Forward transfer {transfer}, area gained" in printed(run)
    # Alone nothing is learned, so the gain is the mean height of the curve itself.
    near(transfer, (0.5 + 0.4) / 2, (0.4 + 0.405) / 2)
    assert numbers.values["area_gained"] == transfer
    assert numbers.notes == []


def test_a_curve_shows_the_gain_over_the_single_task_baseline(tmp_path):
    # By seed; alone, task 1 goes from 0 to 0.5 and task 2 stays at 0.2. Read off at 0, 50, 100.
    alone = {
        "baseline_steps": np.array([0, 100]),
        "baseline_score": np.array([[[0.0, 0.5]] * 2, [[0.2, 0.2]] * 2]),
    }
    run = read_run(make_run(tmp_path / "run", **alone))
    steps, gain = curves.gain_over_baseline(run)
    assert steps.tolist() == [0, 50, 100, 100, 100, 150, 200, 200]
    parted = np.isnan(gain).all(1)
    assert parted.tolist() == [False] * 3 + [True] + [False] * 3 + [True]
    first, second = [0, 0.25, 0.5, -0.2, 0.2, 0.6], [0, 0.15, 0.3, 0.0, 0.2, 0.42]
    np.testing.assert_allclose(gain[~parted].T, [first, second], atol=1e-6)
    page = write_report([run], tmp_path / "report").read_text()
    assert "Forward transfer curve" in page
    without = read_run(make_run(tmp_path / "other"))
    page = write_report([without], tmp_path / "more").read_text()
    assert "Forward transfer curve" not in page


def test_a_repeated_sequence_has_no_forward_transfer_but_plasticity(tmp_path):
    alone = {"baseline_steps": np.array([0, 50, 100]), "baseline_score": np.zeros((2, 2, 3))}
    path = make_run(tmp_path / "run", repetitions=np.array(2), **alone)
    log = [
        {"task": 0, "update": 1, "steps": n, "seconds": 1, "metrics": {"score": [s, s]}}
        for n, s in enumerate([1.0, 1.0, 2.0, 2.0, 0.5, 0.5, 2.0, 2.0])
    ]
    (path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
    run = read_run(path)
    assert summary(run).values["forward_transfer"] is None
    assert summary(run).notes == [f"Forward transfer: {REPEATED}."]
    page = write_report([run], tmp_path / "report").read_text()
    assert "AUC-loss" in page
    assert "0.25" in page
    assert "2 tasks trained 2 times" in page
    assert "2 tasks trained 2 times, 200 steps" in printed(run)
    assert run.visits(1) == [(150.0, 200.0), (50.0, 100.0)]  # the last time first


def test_bad_baselines_are_explained_not_fatal(tmp_path):
    alone = {"baseline_steps": np.array([0, 50]), "baseline_score": np.zeros((1, 2, 3))}
    run = read_run(make_run(tmp_path / "run", **alone))
    assert summary(run).values["forward_transfer"] is None
    assert "baseline_score" in printed(run)


@pytest.mark.parametrize(
    ("evals", "trained", "lost"), [(4, 1, (0.5, 0.0)), (3, 1, None), (2, 0, None), (1, 0, None)]
)
def test_unfinished_run_says_what_is_known(tmp_path, evals, trained, lost):
    run = read_run(make_run(tmp_path / "run", evals=evals))
    numbers = summary(run)
    assert not numbers.finished
    assert numbers.trained == trained
    assert (numbers.values["after_training"] is None) == (trained == 0)
    if lost:
        near(numbers.by_task["forgetting"][0], *lost)
    else:
        assert numbers.values["forgetting"] is None
    assert "not finished" in printed(run)
    assert "not finished" in page_of(run, folder=tmp_path / "out")


def test_one_seed_has_no_interval(tmp_path):
    one = np.array(FIRST)[:, :, None, None, None, None]
    arrays = {"score": one, "returns": one, "seeds": np.array([7])}
    folder = make_run(tmp_path / "run", **arrays)
    (folder / "log.jsonl").unlink()
    run = read_run(folder)
    assert str(summary(run).values["average_score"]) == "0.65"
    text = printed(run)
    assert "±" not in text
    assert "1 seed," in text
    page_of(run, folder=tmp_path / "out")


def test_an_estimate_shows_few_seeds_and_the_interval_of_many():
    two, five = Estimate((0.7, 0.9)), Estimate((0.6, 0.7, 0.8, 0.9, 1.0))
    assert str(two) == "0.80 (0.70 to 0.90)"
    # Standard deviation 0.158114, t(.975, 4 degrees) = 2.776445: 2.776445 * 0.158114 / sqrt(5).
    assert str(five) == "0.80 ± 0.20"
    assert five.half_width == pytest.approx(0.196324, abs=1e-6)
    shown = ("0.80 (0.60 to 1.00)", "0.80 ± 0.20", "0.80 ± 0.16", "0.80 ± 0.07", "0.80")
    assert tuple(five.show(each) for each in ("seeds", "ci", "std", "se", "none")) == shown
    assert two.show("ci") == "0.80 ± 1.27"  # who asks for it gets it
    assert two.bounds() == (0.7, 0.9)
    assert str(Estimate((0.7,))) == "0.70"
    assert str(Estimate(())) == str(Estimate((0.7, math.nan))) == "-"


def drawn_line(values):
    """Thin lines, and the lower and upper end of the bands, of a plotted line."""
    axes = Figure().subplots()
    axes.set_ylim(0, 1)
    line(axes, series(0), np.arange(3.0), np.array(values))
    thin = [each for each in axes.lines if each.get_linewidth() < 1]
    bands = [each.get_paths()[0].vertices[:, 1] for each in axes.collections]
    return len(thin), [(band.min(), band.max()) for band in bands]


def test_few_seeds_are_lines_and_a_band_stays_within_the_axis():
    assert drawn_line([[0.1, 0.9]] * 3) == (2, [])
    assert drawn_line([[0.5]] * 3) == (0, [])
    assert drawn_line([[0.5] * 5] * 3) == (0, [(0.5, 0.5)])
    assert drawn_line([[-3, -2, 0.5, 3, 4]] * 3) == (0, [(0.0, 1.0)])  # cut off, not spread


def test_pages_of_many_seeds_speak_of_intervals(tmp_path):
    run = read_run(many_seeds(tmp_path / "run"))
    few = page_of(read_run(make_run(tmp_path / "few")), folder=tmp_path / "a")
    many = page_of(run, folder=tmp_path / "b")
    assert "Band: 95 % interval" in many
    assert "Thin lines: single seeds" in few
    assert "Band:" not in few
    assert "Thin lines" not in many
    assert "± is the half-width of the 95 %" in printed(run)
    assert "0.58 ± 0.08" in printed(run)


def test_terminal_table_is_plain_and_narrow(tmp_path):
    text = printed(read_run(make_run(tmp_path / "run")))
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    cells = next(line for line in text.splitlines() if "kitchen 1" in line)
    assert re.sub(r"\s+", " ", cells).strip() == (
        "1 kitchen 1 0.90 (0.80 to 1.00) 0.45 (0.40 to 0.50) 0.32 (0.13 to 0.50)"
    )
    assert "In brackets: lowest and highest seed" in text
    assert NO_BASELINES in text


def test_terminal_compares_runs(tmp_path):
    ft = read_run(make_run(tmp_path / "a"))
    ewc = read_run(make_run(tmp_path / "b", config=CONFIG | {"method": "ewc"}))
    text = printed(ft, ewc)
    assert max(map(len, text.splitlines())) <= 80
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    assert lines[0] == "meal/level-1"
    assert lines[1] == "method seeds average score forgetting after training"
    assert lines[2] == "ft 2 0.58 (0.51 to 0.65) 0.32 (0.13 to 0.50) 0.80 (0.71 to 0.90)"
    assert lines[3] == "ewc 2 0.58 (0.51 to 0.65) 0.32 (0.13 to 0.50) 0.80 (0.71 to 0.90)"


def test_a_comparison_that_is_too_wide_is_printed_in_parts(tmp_path):
    runs = [read_run(make_run(tmp_path / name)) for name in ("a_rather_long_name", "another")]
    text = printed(*runs, width=60)
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    assert max(map(len, text.splitlines()[:8])) <= 60
    assert lines[1] == "run method seeds average score"
    assert lines[5] == "run method seeds forgetting"
    assert lines[6].startswith("a_rather_long_name ft 2 0.32 (0.13")


def test_terminal_names_the_benchmarks_where_they_differ(tmp_path):
    one = read_run(make_run(tmp_path / "a"))
    two = read_run(make_run(tmp_path / "b", config=CONFIG | {"benchmark": "meal/level-2"}))
    text = printed(one, two, width=120)
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    assert lines[0] == "run benchmark method seeds average score forgetting after training"
    assert lines[2].startswith("meal/level-2 ft")


def test_terminal_takes_no_orders_from_names(tmp_path):
    run = read_run(make_run(tmp_path / "run", names=("\x1b[2J[red]x[/]", "\u009b31my")))
    text = printed(run, force_terminal=True, color_system=None)
    assert "\x1b[2J" not in text
    assert "\u009b" not in text
    assert "[red]x[/]" in text


def test_ascii_terminal_gets_ascii(tmp_path):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_summary(Console(file=out, width=80), [read_run(many_seeds(tmp_path / "run"))])
    out.flush()
    assert b"0.90 +- 0.11" in out.buffer.getvalue()


def test_labels_are_short_and_different(tmp_path):
    first = read_run(make_run(tmp_path / "x" / "a"))
    second = read_run(make_run(tmp_path / "x" / "b"))
    namesake = read_run(make_run(tmp_path / "y" / "a"))
    assert labels([first]) == ["ft"]
    assert labels([first, second]) == ["a", "b"]
    assert labels([first, namesake]) == [str(first.path), str(namesake.path)]


class Tags(HTMLParser):
    """Collects tags and attributes, and checks that tags close in order."""

    def __init__(self, text):
        super().__init__()
        self.seen, self.attributes, self.open = set(), [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += attrs
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def evil_run(path):
    config = CONFIG | {"benchmark": EVIL, "method": EVIL, EVIL: EVIL, "ppo": {EVIL: [EVIL]}}
    run = make_run(path, names=(EVIL, "$\\frac{--><b>"), config=config)
    (run / "pictures").mkdir()
    for seed in (3, 4):
        (run / "pictures" / f"seed{seed}-task1.png").write_bytes(PNG)
    return read_run(run)


@pytest.mark.parametrize("count", [1, 2])
def test_page_is_self_contained_and_inert(tmp_path, count):
    runs = [evil_run(tmp_path / EVIL.replace("/", "") / str(i)) for i in range(count)]
    text = page_of(*runs, folder=tmp_path / "out")
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", text)
    tags = Tags(text)
    assert not tags.seen & {"script", "iframe", "object", "embed", "link", "base", "form", "b"}
    for name, value in tags.attributes:
        assert not name.startswith("on")
        assert name != "src" or value.startswith("data:image/png;base64,")
        assert not name.endswith("href") or value.startswith("#")
    assert "&lt;script&gt;alert(1)" in text
    assert "default-src 'none'" in text


def test_page_shows_numbers_pictures_and_settings(tmp_path):
    folder = make_run(tmp_path / "run")
    (folder / "pictures").mkdir()
    (folder / "pictures" / "seed3-task1.png").write_bytes(PNG)
    text = page_of(read_run(folder), folder=folder / "report")
    for word in (
        "0.58",
        "(0.51 to 0.65)",
        "0.90",
        "kitchen 2",
        "Seed 3",
        NO_BASELINES,
        "ppo.learning_rate",
    ):
        assert word in text
    assert text.count("<svg") == 5  # average, training, forgetting and two tasks
    assert text.count("<img") == 1


def test_page_overlays_runs(tmp_path):
    runs = [make_run(tmp_path / m, config=CONFIG | {"method": m}) for m in ("ft", "ewc")]
    longer = {"task_ends": np.array([100, 400])}  # another schedule: no common shading
    runs.append(make_run(tmp_path / "agem", config=CONFIG | {"method": "agem"}, **longer))
    text = page_of(*map(read_run, runs), folder=tmp_path / "out")
    assert text.count("<svg") == 6  # one more: stability and plasticity
    assert text.count('class="key"') == 6  # three runs in two legends
    for colour in ("var(--s0)", "var(--s1)", "var(--s2)"):
        assert colour in text
    assert "agem is not finished" in text


def test_a_comparison_says_what_a_single_page_does(tmp_path):
    """Learner, seeds and steps, numbers by task, statistics, and in what the runs differ."""
    other = CONFIG | {"method": "ewc", "ppo": {"learning_rate": 0.5, "anneal": True}}
    runs = [make_run(tmp_path / "ft"), make_run(tmp_path / "ewc", config=other)]
    text = page_of(*map(read_run, runs), folder=tmp_path / "out")
    assert "learner ippo · seeds 3, 4 · 2 tasks, 200 steps per seed" in text
    shown = re.sub(r"<details>.*?</details>", "", text, flags=re.S)  # what is open at first
    rows = [re.sub(r"<.*?>", " ", row).split() for row in re.findall(r"<tr.*?</tr>", shown)]
    assert "1 · kitchen 1 0.90 (0.80 to 1.00) 0.90 (0.80 to 1.00)".split() in rows
    assert "average 0.80 (0.71 to 0.90) 0.80 (0.71 to 0.90)".split() in rows
    assert ["ppo.learning_rate", "0.002", "0.5"] in rows
    assert not any("ppo.anneal" in row for row in rows)
    # The inter-quartile mean is that of task 1's higher and task 2's lower seed: 0.5 and 0.62. A
    # resample may have 0.4 twice (0.51), 0.8 twice (0.65) or both.
    wanted = "ewc 2 0.58 (0.51 to 0.65) 0.56 [0.51, 0.65] 0.50".split()
    assert any(row[: len(wanted)] == wanted for row in rows)
    assert "p cannot be below 0.5" in text
    assert 'data-label="after training"' in text
    longer = make_run(tmp_path / "l", config=other, task_ends=np.array([100, 400]))
    text = page_of(*map(read_run, [runs[0], longer]), folder=tmp_path / "more")
    assert "ft: 2 tasks, 200 steps per seed; ewc: 2 tasks, 400 steps per seed" in text


def painted(monkeypatch, summaries):
    """What the plane of stability and plasticity shows: its points and the names of its axes."""
    axes = Figure().subplots()

    def draw(label, paint, xlabel, ylabel):
        paint(axes)
        return xlabel, ylabel

    monkeypatch.setattr(curves, "draw", draw)
    named = curves.stability_plasticity(summaries)
    return named, [tuple(line.get_xydata()[0]) for line in axes.lines if line.get_marker() == "o"]


def test_the_plane_shows_what_is_kept_over_what_is_gained(tmp_path, monkeypatch):
    numbers = summary(read_run(make_run(tmp_path / "run")))
    runs = [
        replace(
            numbers,
            values={
                **numbers.values,
                "area_gained": Estimate((gained - 0.1, gained + 0.1)),
                "forgetting": Estimate((lost - 0.2, lost + 0.2)),
            },
        )
        for gained, lost in ((-0.25, 0.125), (0.5, 0.75))
    ]
    named, points = painted(monkeypatch, runs)
    assert named == ("area gained over baselines", "1 - forgetting")
    assert points == [(-0.25, 0.875), (0.5, 0.25)]
    named, points = painted(monkeypatch, [numbers, runs[1]])  # of one, transfer is not known
    assert named == ("score after own training", "1 - forgetting")
    assert [x for x, _ in points] == [numbers.values["after_training"].mean] * 2
    assert curves.stability_plasticity(runs[:1]) is None


def test_writing_twice_gives_the_same_bytes_and_no_litter(tmp_path):
    run = read_run(make_run(tmp_path / "run"))
    first = page_of(run, folder=tmp_path / "out")
    assert page_of(run, folder=tmp_path / "out") == first
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_csv_rows(tmp_path):
    runs = [read_run(make_run(tmp_path / name, names=("=1+1", "b"))) for name in ("x", "y")]
    scores, totals, seeds = (rows_of(path) for path in write_csv(runs, tmp_path / "out"))
    assert len(scores) == 2 * 5 * 2 * 2
    found = [r for r in scores if (r["run"], r["seed"], r["steps"]) == ("y", "4", "150")]
    assert [(r["task"], r["task_name"]) for r in found] == [("1", "'=1+1"), ("2", "b")]
    assert [float(r["score"]) for r in found] == pytest.approx([0.8, 0.4])
    assert [float(r["return"]) for r in found] == pytest.approx([16.0, 8.0])
    assert [(r["run"], r["task"]) for r in totals[:3]] == [("x", "1"), ("x", "2"), ("x", "all")]
    assert float(totals[2]["average_score"]) == pytest.approx(0.58)
    assert float(totals[2]["average_score_half_width"]) == pytest.approx(T * 0.07)
    ends = (totals[2]["average_score_min"], totals[2]["average_score_max"])
    assert [float(end) for end in ends] == pytest.approx([0.51, 0.65])
    assert totals[1]["forgetting"] == totals[2]["forward_transfer"] == ""
    whole = [(r["seed"], float(r["average_score"])) for r in seeds if r["task"] == "all"]
    assert whole[:2] == [("3", pytest.approx(0.65)), ("4", pytest.approx(0.51))]
    assert len(seeds) == 2 * 3 * 2


def test_command_is_the_one_the_config_came_from(tmp_path):
    config = CONFIG | {"method": "my file.py:Method"}
    settings = {name: value for name, value in config.items() if name != "benchmark"}
    words = shlex.split(command(config).replace("\\\n", ""))  # as a shell joins lines
    assert words == ["brigade", "run", "meal/level-1", *as_flags(settings)]


def test_cut_last_line_of_the_log_is_ignored(tmp_path):
    folder = make_run(tmp_path / "run")
    with (folder / "log.jsonl").open("a") as log:
        log.write('{"task": 0, "update": 6, "ste')
    assert [row["steps"] for row in read_run(folder).log] == [10, 20, 30, 40, 50]


def test_log_has_one_row_per_update(tmp_path):
    folder = make_run(tmp_path / "run")
    with (folder / "log.jsonl").open("a") as log:  # what a resumed run and an evaluation may add
        log.write('{"steps": 20, "metrics": {"score": [0.5, 0.6]}}\n{"steps": 30, "metrics": {}}\n')
    steps, score = read_run(folder).logged("score")
    assert steps.tolist() == [10, 20, 30, 40, 50]
    assert score[:3].tolist() == [[0.1, 0.3], [0.5, 0.6], [0.1, 0.3]]


def test_only_real_pictures_are_shown(tmp_path):
    folder = make_run(tmp_path / "run")
    pictures = folder / "pictures"
    pictures.mkdir()
    (pictures / "seed3-task1.png").write_bytes(PNG)
    (pictures / "seed3-task2.png").write_text("root:x:0:0")
    (tmp_path / "secret.png").write_bytes(PNG + b"secret")
    (pictures / "holiday.png").write_bytes(PNG)
    assert read_run(folder).pictures == {(3, 1): PNG}
    (pictures / "seed4-task1.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(UserError, match="is a symbolic link; it must be a plain file"):
        read_run(folder)


class Bomb:
    """An object whose unpickling leaves a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def test_pickles_are_refused_and_never_run(tmp_path):
    bomb = np.array([Bomb(tmp_path / "mark")], dtype=object)
    for name in ("seeds", "extra"):
        with pytest.raises(RunFolderError, match=r"returns\.npz"):
            read_run(make_run(tmp_path / name, **{name: bomb}))
    folder = make_run(tmp_path / "raw")
    with (folder / "returns.npz").open("wb") as file:
        np.lib.format.write_array(file, bomb, allow_pickle=True)
    with pytest.raises(RunFolderError, match=r"returns\.npz"):
        read_run(folder)
    assert not (tmp_path / "mark").exists()


def change(name, content):
    return lambda folder: (folder / name).write_bytes(content)


BROKEN = {
    "no config": (lambda f: (f / "config.json").unlink(), "not a run folder"),
    "no evaluations": (lambda f: (f / "returns.npz").unlink(), "no evaluations yet"),
    "half a config": (change("config.json", b'{"format": 1,'), r"config\.json"),
    "binary config": (change("config.json", b"\xff\xfe\x00"), r"config\.json"),
    "deep config": (change("config.json", b"[" * 100_000), r"config\.json"),
    "a list": (change("config.json", b"[]"), '"format"'),
    "no format": (change("config.json", b'{"config": {}}'), '"format"'),
    "broken npz": (change("returns.npz", b"PK\x03\x04 and no more"), r"returns\.npz"),
    "empty npz": (change("returns.npz", b""), r"returns\.npz"),
    "bad log line": (change("log.jsonl", b"{\n{}\n"), "line 1"),
    "log of words": (change("log.jsonl", b'{"steps": 1, "metrics": 3}\n[]\n'), "line 1"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_folder_is_one_clear_line(tmp_path, case):
    damage, message = BROKEN[case]
    folder = make_run(tmp_path / "run")
    damage(folder)
    with pytest.raises(RunFolderError, match=message) as caught:
        read_run(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


WRONG = {
    "score": (np.zeros((5, 2)), "score"),
    "returns": (np.zeros((5, 2, 1, 1, 2, 1)), "returns"),
    "steps": (np.array([0, 50, 50, 150, 200]), "increasing"),
    "task_ends": (np.array([0, 100]), "increasing"),
    "task_names": (np.array(["only one"]), "one name per task"),
    "seeds": (np.array(["a", "b"]), "numbers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_do_not_fit_are_named(tmp_path, name):
    values, message = WRONG[name]
    with pytest.raises(RunFolderError, match=message):
        read_run(make_run(tmp_path / "run", **{name: values}))


def test_missing_folder_and_newer_format(tmp_path):
    with pytest.raises(RunFolderError, match="nowhere"):
        read_run(tmp_path / "nowhere")
    folder = make_run(tmp_path / "run", number=2)
    wanted = f"{folder} was written by a newer Brigade (format 2, this one reads 1)"
    with pytest.raises(RunFolderError, match=re.escape(wanted)):
        read_run(folder)


def test_log_of_another_shape_is_an_error_not_a_crash(tmp_path):
    folder = make_run(tmp_path / "run")
    (folder / "log.jsonl").write_text('{"steps": 1, "metrics": {"score": ["<b>"]}}\n')
    with pytest.raises(RunFolderError, match="score must be one number per seed"):
        page_of(read_run(folder), folder=tmp_path / "out")


def test_damaged_compressed_data_is_an_error(tmp_path):
    folder = make_run(tmp_path / "run")
    data = bytearray((folder / "returns.npz").read_bytes())
    data[200] ^= 0xFF  # inside the first array: the checksum no longer fits
    (folder / "returns.npz").write_bytes(data)
    with pytest.raises(RunFolderError, match=r"returns\.npz"):
        read_run(folder)


def test_a_run_that_tells_of_events_shows_how_seats_share_their_work(tmp_path):
    quiet = read_run(make_run(tmp_path / "quiet"))
    events = np.zeros((5, 2, 1, 1, 2, 2, len(EVENTS)))
    events[..., 0, EVENTS.index("delivery")] = 3
    events[..., 1, EVENTS.index("delivery")] = 1
    events[..., 1, EVENTS.index("stay")] = 40
    told = {"events": events, "event_names": np.array(EVENTS), "horizon": np.array(400)}
    told["events_axes"] = np.array(["eval", *EVENT_AXES])
    run = read_run(make_run(tmp_path / "run", **told))
    first, second, team = coordination_table(run).rows
    assert first[1].startswith("0.75")
    assert second[2].startswith("0.10")
    assert team[3].startswith("0.50")
    assert coordination_table(quiet).rows == []
    assert "Coordination" in page_of(run, folder=tmp_path / "out")


@pytest.mark.parametrize("wrong", ["events", "event_names", "horizon"])
def test_events_that_do_not_fit_are_refused(tmp_path, wrong):
    told = {
        "events": np.zeros((5, 2, 1, 1, 2, 2, 3)),
        "events_axes": np.array(["eval", *EVENT_AXES]),
        "event_names": np.array(["a", "b", "c"]),
        "horizon": np.array(400),
    }
    told[wrong] = np.zeros(7)
    with pytest.raises(RunFolderError, match="events"):
        read_run(make_run(tmp_path / "run", **told))
