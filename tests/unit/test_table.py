"""One table: the same rows on a terminal, as Markdown, as CSV and as LaTeX."""

import io

import pytest
from rich.console import Console

from brigade.report.table import Cell, Table

ROWS = [
    ["=a|b", Cell("0.50", "± 0.10")],
    ["=a|b", Cell("0.70", "(0.6 to 0.8)", best=True)],
    ["c_d", Cell("-0.2")],
]
TABLE = Table(["run", "score"], ROWS, "Scores of 2 runs", ["A note [1]."], grouped=True)


def shown(frame):
    console = Console(file=io.StringIO(), width=60)
    TABLE.to_terminal(console, frame)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_terminal_shows_names_once_and_a_star_at_the_best():
    assert shown("none") == [
        "Scores of 2 runs",
        "run                 score",
        "=a|b          0.50 ± 0.10",
        "      0.70 (0.6 to 0.8) *",
        "c_d                  -0.2",
        "A note [1].",
    ]
    assert len(shown("rule")) == 10  # lines around and under the headings, and after groups


def test_markdown_escapes_names_and_marks_the_best():
    assert TABLE.to_markdown().splitlines() == [
        "| run | score |",
        "| --- | ---: |",
        r"| =a\|b | 0.50 ± 0.10 |",
        r"| =a\|b | **0.70** (0.6 to 0.8) |",
        r"| c\_d | -0.2 |",
    ]


def test_a_csv_quotes_formulas_but_not_numbers_of_ours():
    lines = TABLE.to_csv().decode().split("\n")
    assert lines == ["run,score", "'=a|b,0.50 ± 0.10", "'=a|b,0.70 (0.6 to 0.8)", "c_d,-0.2", ""]


@pytest.mark.parametrize(("columns", "kind"), [(2, "table"), (5, "table*")])
def test_latex_spans_both_columns_if_it_must(columns, kind):
    wide = Table([str(n) for n in range(columns)], [["x_1"] * columns], "A & b")
    text = wide.to_latex("t")
    assert text.startswith("% A & b\n% Needs")
    assert f"\\begin{{{kind}}}" in text
    assert r"\caption{A \& b}" in text
    assert r"x\_1 & x\_1" in text
