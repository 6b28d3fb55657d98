"""`brigade report --out`: tables and figures for a paper."""

import csv
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image
from support.run_folders import CONFIG, FIRST, SECOND, make_run, many_seeds, raw_run

from brigade.cli import main
from brigade.core import ContinualMethod
from brigade.report import read_run
from brigade.report.estimate import Estimate
from brigade.report.measures import AVERAGE_SCORE, COLLAPSE, FORGETTING
from brigade.report.paper_figures import WIDTHS, chosen_tasks, paper_figures, score_matrix
from brigade.report.paper_tables import estimate_cells, paper_tables
from brigade.report.statistics import power_note, statistics, table
from brigade.report.style import printed_series
from brigade.report.summary import summary
from brigade.report.table import latex
from brigade.report.tables import labels, unlike
from brigade.runs.config import from_dict

EVIL = "A&B_$x$ 100% #1 {~^\\}\n\\input{/etc/passwd} <b>|"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of three runs, written once."""
    at = tmp_path_factory.mktemp("paper")
    paths = [make_run(at / m, config=CONFIG | {"method": m}) for m in ("ft", "ewc")]
    paths.append(many_seeds(at / "l2", config=CONFIG | {"method": "l2"}))
    out = at / "out"
    names = ["Ours", "EWC & friends", EVIL]
    assert main(["report", *map(str, paths), "--out", str(out), "--names", *names]) == 0
    return out


def test_the_folder_holds_tables_figures_and_captions(folder):
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    tables = ["results", "statistics", "tasks_average_score", "tasks_forgetting"]
    assert {f"tables/{t}.{kind}" for t in tables for kind in ("tex", "md", "csv")} <= names
    kinds = ("pdf", "svg", "png")
    figures = {
        f"figures/{name}_{width}.{kind}"
        for name in ("score", "tasks", "final", "matrix")
        for width in WIDTHS
        for kind in kinds
    }
    assert figures <= names
    assert {"captions.txt", "report.html", "scores.csv", "seeds.csv", "summary.csv"} <= names
    assert list(folder.parent.glob(".*")) == []  # no drafts
    captions = (folder / "captions.txt").read_text()
    for words in ("learner ippo", "200 steps per seed", "2 seeds (3, 4)", "6 seeds", "2 tasks"):
        assert words in captions


@pytest.mark.slow
def test_nothing_is_overwritten(folder, tmp_path, capsys):
    run = str(make_run(tmp_path / "run"))
    before = (folder / "captions.txt").read_bytes()
    assert main(["report", run, "--out", str(folder)]) == 2
    assert "is not empty; choose another --out" in capsys.readouterr().err
    assert (folder / "captions.txt").read_bytes() == before
    (tmp_path / "empty").mkdir()
    assert main(["report", run, "--out", str(tmp_path / "empty")]) == 0
    assert (tmp_path / "empty" / "tables" / "results.tex").is_file()
    assert not (tmp_path / "empty" / "tables" / "statistics.tex").exists()  # nothing to compare


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--names A B", "--names needs one name per run: 1 run, but 2 given"),
        ("--interval std", "--interval is for the tables and figures of --out DIR"),
        ("--interval wide --out x", "invalid choice: 'wide'"),
    ],
)
def test_bad_flags_are_one_line_and_write_nothing(flags, message, tmp_path, capsys, monkeypatch):
    run = make_run(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    try:
        status = main(["report", str(run), *flags.split()])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert not (run / "report").exists()


def test_names_must_differ(tmp_path, capsys):
    runs = [str(make_run(tmp_path / name)) for name in "ab"]
    assert main(["report", *runs, "--out", str(tmp_path / "o"), "--names", "A", "A"]) == 2
    assert "must be different" in capsys.readouterr().err


def test_runs_with_other_numbers_of_tasks_are_not_compared(tmp_path):
    short, long = make_run(tmp_path / "a"), make_run(tmp_path / "b")
    runs = [read_run(short), read_run(long)]
    one_more = {
        name: np.concatenate([runs[1].arrays[name]] * 2, axis=1)
        for name in ("score", "returns", "events")
        if name in runs[1].arrays
    }
    ends = runs[1].arrays["task_ends"]
    more = {
        **runs[1].arrays,
        **one_more,
        "task_ends": np.concatenate([ends, ends + ends[-1]]),
        "task_names": np.concatenate([runs[1].arrays["task_names"]] * 2),
    }
    runs[1] = replace(runs[1], arrays=more)
    summaries = [summary(run) for run in runs]
    (note,) = unlike(summaries)
    assert "averages over tasks are not comparable" in note
    results = paper_tables(runs, summaries, "auto")[0]
    assert note in results.shown.title
    assert not any(cell.best for row in results.shown.rows for cell in row)


def test_the_best_is_bold_in_the_right_direction():
    values = [Estimate((0.2, 0.4)), Estimate((0.5, 0.7)), None, Estimate((0.6, 0.6))]

    def bold(measure):
        return [cell.best for cell in estimate_cells(values, measure, "auto")]

    assert bold(AVERAGE_SCORE) == [False, True, False, True]  # two have 0.60
    assert bold(FORGETTING) == [True, False, False, False]
    assert bold(COLLAPSE) == [False] * 4  # neither is better
    alone = estimate_cells(values[:1], AVERAGE_SCORE, "se")
    assert (alone[0].text, alone[0].beside, alone[0].best) == ("0.30", "± 0.10", False)


def test_latex_tables_are_whole_and_escaped(folder):
    for path in (folder / "tables").glob("*.tex"):
        text = path.read_text()
        code = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
        assert "\\input" not in code
        plain = re.sub(r"\\[\\{}$&%#_]", "", code)
        assert plain.count("{") == plain.count("}")
        assert plain.count("$") % 2 == 0
        assert not re.search(r"[%#~^<>]", plain)
        cells = {line.count("&") for line in plain.splitlines() if line.startswith("    ")} - {0}
        assert len(cells) == 1, path.name
        for word in ("\\toprule", "\\midrule", "\\bottomrule", "\\caption", "\\label"):
            assert word in code
    results = (folder / "tables" / "results.tex").read_text()
    assert r"EWC \& friends & \textbf{0.58} {\scriptsize (0.51 to 0.65)}" in results
    assert r"{\scriptsize $\pm$ 0.08}" in results  # six seeds
    assert r"forgetting $\downarrow$" in results
    assert latex("-0.5 to level-1") == "$-$0.5 to level-1"


def test_markdown_and_csv_have_the_same_rows(folder):
    lines = (folder / "tables" / "results.md").read_text().splitlines()
    assert lines[2].startswith("|  | average score ↑ | forgetting ↓ |")
    assert lines[4].startswith("| Ours | **0.58** (0.51 to 0.65) |")
    assert r"\|" in lines[6]
    with (folder / "tables" / "results.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["run"] for row in table] == ["Ours", "EWC & friends", EVIL]
    assert float(table[0]["average_score_mean"]) == pytest.approx(0.58)
    assert float(table[0]["average_score_std"]) == pytest.approx(0.14 / 2**0.5)
    assert float(table[0]["average_score_standard_error"]) == pytest.approx(0.07)
    assert (table[0]["seeds"], table[2]["seeds"]) == ("2", "6")


def test_figures_stand_alone(folder):
    for name, width in WIDTHS.items():
        for path in (folder / "figures").glob(f"*_{name}.pdf"):
            content = path.read_bytes()
            assert b"/FontFile2" in content  # embedded TrueType
            assert b"/Type3" not in content
            box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", content)
            assert float(box[1]) == pytest.approx(72 * width, abs=1)
        for path in (folder / "figures").glob(f"*_{name}.svg"):
            tree = ElementTree.fromstring(path.read_text())
            tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
            assert not tags & {"text", "script"}  # letters are shapes
        for path in (folder / "figures").glob(f"*_{name}.png"):
            assert Image.open(path).width == round(300 * width)


def test_figures_are_the_same_whenever_they_are_written(tmp_path):
    run = read_run(make_run(tmp_path / "run"))
    first, second = (paper_figures([run], "", "auto")[0].files() for _ in range(2))
    assert first == second


def drawn(run, name):
    """The axes of a paper's figure."""
    (chosen,) = (each for each in paper_figures([run], "", "auto") if each.name == name)
    figure = Figure()
    chosen.draw(figure, WIDTHS["two_columns"])
    return chosen.caption, [axes for axes in figure.axes if axes.get_visible()]


@pytest.mark.parametrize("name", ["tasks", "final"])
def test_raw_scores_have_a_panel_per_task_and_no_line_at_1(tmp_path, name):
    raw, normalised = read_run(raw_run(tmp_path / "a")), read_run(make_run(tmp_path / "b"))
    caption, (first, second) = drawn(raw, name)
    assert "every task has an axis of its own" in caption
    assert "score of 1" not in caption
    assert first.get_ylim()[0] > second.get_ylim()[1]
    assert not any(line.get_linestyle() == "--" for line in (*first.lines, *second.lines))
    caption, panels = drawn(normalised, name)
    assert "Dashed: a score of 1" in caption
    assert len({axes.get_ylim() for axes in panels}) == 1
    assert all(any(line.get_linestyle() == "--" for line in axes.lines) for axes in panels)


def test_colours_of_raw_scores_compare_within_a_task(tmp_path):
    raw, normalised = read_run(raw_run(tmp_path / "a")), read_run(make_run(tmp_path / "b"))
    caption, (matrix, _) = drawn(raw, "matrix")
    assert "lowest to the highest score of every task" in caption
    np.testing.assert_allclose(matrix.images[0].get_array(), [[1, 0], [0, 1]])
    assert [text.get_text() for text in matrix.texts] == ["450", "-450", "225", "-145"]
    _, (matrix, _) = drawn(normalised, "matrix")
    shown = matrix.images[0].get_array()
    np.testing.assert_allclose(shown, [[0.9, 0.1], [0.45, 0.71]], atol=1e-6)


def test_lines_differ_in_more_than_colour():
    many = [printed_series(index, "", 0.6) for index in range(24)]
    assert len({look[:3] for look in many}) == len({look[:2] for look in many}) == 24
    looks = many[:6]
    for part in ("colour", "dash", "marker"):
        assert len({getattr(look, part) for look in looks}) == 6
    grey = sorted(np.dot(to_rgb(look.colour), (0.2126, 0.7152, 0.0722)) for look in looks[:2])
    assert grey[1] - grey[0] > 0.04


def test_the_matrix_has_every_task_after_every_training(tmp_path):
    run = read_run(make_run(tmp_path / "run"))
    # After task 1 (steps 100): 1.0 and 0.8, 0 and 0.2. After task 2: 0.5 and 0.4, 0.8 and 0.62.
    np.testing.assert_allclose(score_matrix(run), [[0.9, 0.1], [0.45, 0.71]], atol=1e-6)
    half = score_matrix(read_run(make_run(tmp_path / "half", evals=4)))
    np.testing.assert_allclose(half[0], [0.9, 0.1], atol=1e-6)
    assert np.isnan(half[1]).all()


def test_of_many_tasks_some_get_a_panel(tmp_path):
    number = 50
    score = np.zeros((1, number, 1, 1, 2, 1))
    many = {
        "score": score,
        "returns": score,
        "steps": np.array([10]),
        "task_ends": np.arange(1, number + 1) * 10,
        "task_names": np.array([f"k{i}" for i in range(number)]),
    }
    chosen = chosen_tasks([read_run(make_run(tmp_path / "run", **many))])
    assert (len(chosen), chosen[0], chosen[-1]) == (20, 0, 49)
    assert chosen_tasks([read_run(make_run(tmp_path / "few"))]) == [0, 1]


def test_statistics_compare_with_the_first_run_over_common_seeds(tmp_path):
    first, other = (
        read_run(make_run(tmp_path / name, score=score, returns=score, seeds=np.array(seeds)))
        for name, score, seeds in (
            ("a", np.stack([FIRST, SECOND], axis=-1)[:, :, None, None, :, None], [3, 4]),
            ("b", np.stack([SECOND, FIRST], axis=-1)[:, :, None, None, :, None] - 0.1, [4, 5]),
        )
    )
    one, two = statistics([first, other])
    assert one.improvement is one.paired is None
    assert two.paired.seeds == 1
    assert two.paired.difference == pytest.approx(0.1)  # seed 4: 0.51 and 0.41
    # Task 1: 0.5, 0.4 against 0.3, 0.4: 3.5 of 4. Task 2: 0.8, 0.62 against 0.52, 0.7: 3 of 4.
    assert two.improvement.value == pytest.approx((3.5 + 3) / 8)
    assert "With 1 common seed p cannot be below 1" in power_note([one, two])
    texts = table(["A", "B"], [one, two]).rows
    assert texts[1][-2:] == ["+0.10", "-"]
    alone = first.arrays["score"][..., :1, :]
    single = make_run(tmp_path / "d", score=alone, returns=alone, seeds=np.array([3]))
    assert statistics([first, read_run(single)])[1].improvement is None
    elsewhere = make_run(tmp_path / "c", config=CONFIG | {"benchmark": "meal/level-2"})
    assert statistics([first, read_run(elsewhere)])[1].improvement is None


def test_a_method_may_name_itself(tmp_path):
    folder = make_run(tmp_path / "run")
    head = json.loads((folder / "config.json").read_text())
    own = make_run(tmp_path / "own", config=CONFIG | {"method": "my/file.py:Ours"})
    assert labels([read_run(folder), read_run(own)]) == ["ft", "Ours"]
    (folder / "config.json").write_text(json.dumps(head | {"names": {"method": "Fine-tuning"}}))
    assert labels([read_run(folder), read_run(own)]) == ["Fine-tuning", "Ours"]
    for broken in ([], {"method": 3}, "x"):
        (folder / "config.json").write_text(json.dumps(head | {"names": broken}))
        assert labels([read_run(folder)]) == ["ft"]


def test_a_display_name_is_recorded_and_not_inherited():
    def recorded(method):
        experiment = from_dict({"benchmark": "meal/level-1", "method": method})
        return json.loads(experiment.as_json("")).get("names")

    assert recorded("online_ewc") == {"method": "Online EWC"}
    assert recorded("examples/anchor.py:Anchor") is None
    assert ContinualMethod.display_name == ""
