"""`brigade report --out`: a folder with the tables and figures of a paper."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from brigade.errors import UserError
from brigade.report.estimate import Spread
from brigade.report.html import write_report
from brigade.report.numbers import write_csv
from brigade.report.paper_figures import PaperFigure, paper_figures, score_matrix
from brigade.report.paper_tables import PaperTable, describe, paper_tables
from brigade.report.read import RunData
from brigade.report.summary import summary
from brigade.report.table import Table, as_bytes, latex, printable
from brigade.report.tables import labels

MATRIX = ("run", "trained", "task", "task_name", "score")


def check_out(folder: Path) -> None:
    """Raise a UserError if a folder cannot be written without overwriting something."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; --out must be a folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty; choose another --out")


def named(runs: Sequence[RunData], names: Sequence[str]) -> list[RunData]:
    """The runs with the names that tables and legends use."""
    if len(names) != len(runs):
        wanted = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
        raise UserError(f"--names needs one name per run: {wanted}, but {len(names)} given")
    if not all(name.strip() for name in names) or len(set(names)) != len(names):
        raise UserError("--names must be different and not empty")
    return [replace(run, title=name) for run, name in zip(runs, names, strict=True)]


def write_paper(runs: Sequence[RunData], out: Path, spread: Spread = "auto") -> Path:
    """Write tables/, figures/, captions.txt, report.html and CSV files into a new folder.

    They appear together: a folder with a part of them is never seen.
    """
    check_out(out)
    folder = Path(os.path.abspath(out))
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.draft")
    draft.mkdir()
    try:
        _fill(draft, runs, spread)
        os.rename(draft, folder)  # fails if the folder has got files in the meantime
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return out


def _fill(folder: Path, runs: Sequence[RunData], spread: Spread) -> None:
    summaries = [summary(run) for run in runs]
    tables = paper_tables(runs, summaries, spread)
    figures = paper_figures(runs, describe(runs, summaries), spread)
    contents = {f"tables/{name}": each for t in tables for name, each in t.files().items()}
    contents |= {f"figures/{name}": each for f in figures for name, each in f.files().items()}
    contents["tables/matrix.csv"] = _matrix_csv(runs)
    contents["figures/figures.tex"] = _figures_tex(figures)
    (folder / "tables").mkdir()
    (folder / "figures").mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "captions.txt").write_bytes(_captions(tables, figures))
    write_report(runs, folder)
    write_csv(runs, folder)


def _matrix_csv(runs: Sequence[RunData]) -> bytes:
    """The matrices task x time, a row per entry."""
    rows = [
        (label, row + 1, task + 1, run.task_names[task], float(score))
        for label, run in zip(labels(runs), runs, strict=True)
        for row, scores in enumerate(score_matrix(run))
        for task, score in enumerate(scores)
        if score == score  # known
    ]
    return Table(MATRIX, rows).to_csv()


def _figures_tex(figures: Sequence[PaperFigure]) -> bytes:
    """Figure environments, for one and for two columns."""
    lines = ["% Needs \\usepackage{graphicx}. Copy what you need."]
    for figure in figures:
        for star, place, width in (("", "one_column", "column"), ("*", "two_columns", "text")):
            lines += [
                f"\\begin{{figure{star}}}",
                f"  \\includegraphics[width=\\{width}width]{{figures/{figure.name}_{place}.pdf}}",
                f"  \\caption{{{latex(figure.caption)}}}",
                f"  \\label{{fig:{figure.name}_{place}}}",
                f"\\end{{figure{star}}}",
                "",
            ]
    return as_bytes("\n".join(lines))


def _captions(tables: Sequence[PaperTable], figures: Sequence[PaperFigure]) -> bytes:
    entries = [(f"tables/{table.name}", table.shown.title) for table in tables]
    entries += [(f"figures/{figure.name}", figure.caption) for figure in figures]
    return as_bytes("\n".join(f"{name}\n  {printable(caption)}\n" for name, caption in entries))
