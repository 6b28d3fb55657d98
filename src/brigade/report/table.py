"""A table of names and numbers: on a terminal, as Markdown, as CSV and as LaTeX."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

MISSING = "-"
PIPE_WIDTH = 120  # characters, where output is not a terminal
COLUMN_HEADINGS = 4  # LaTeX tables with more headings span both columns of a page
Frame: TypeAlias = Literal["none", "rule", "full"]
FRAMES = {"none": None, "rule": box.SIMPLE_HEAD, "full": box.HEAVY_HEAD}
LATEX = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
}
MARKDOWN = {char: f"\\{char}" for char in "\\|`*_<>[]#"}


@dataclass(frozen=True)
class Cell:
    """A mean, or any text, and what stands beside it."""

    text: str
    beside: str = ""
    best: bool = False  # of its column

    @classmethod
    def of(cls, text: str, best: bool = False) -> Cell:
        """A cell from a mean and what follows it."""
        mean, _, beside = text.partition(" ")
        return cls(mean, beside, best)

    def __str__(self) -> str:
        return f"{self.text} {self.beside}".rstrip()


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings. A string is a name or, in a CSV, any value; a Cell is ours."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""  # or caption
    notes: Sequence[str] = ()
    names: int = 1  # columns of names, which are left-aligned
    total: bool = False  # whether the last row is a mean over the others
    grouped: bool = False  # whether rows with the same first name are shown as a group

    def to_terminal(self, console: Console, frame: Frame = "rule") -> None:
        """Print title, table and notes. A star marks the best."""
        if self.title:
            print_line(console, self.title)
        console.print(self._rich(console, frame))
        for note in self.notes:
            print_line(console, note)

    def _rich(self, console: Console, frame: Frame) -> RichTable:
        has_head = any(self.headings)
        table = RichTable(box=FRAMES[frame], pad_edge=frame == "full", show_header=has_head)
        for index, heading in enumerate(self.headings):
            justify: Literal["left", "right"] = "left" if index < self.names else "right"
            table.add_column(heading, justify=justify, overflow="fold")
        has_best = any(is_best(cell) for row in self.rows for cell in row)
        for index in range(len(self.rows)):
            names, numbers = self._named_once(index), self.rows[index][self.names :]
            cells = [*names, *(map(starred, numbers) if has_best else numbers)]
            style = "bold" if self.total and index + 1 == len(self.rows) else None
            texts = [terminal_text(console, cell) for cell in cells]
            table.add_row(*texts, style=style, end_section=self._ends_group(index))
        return table

    def _named_once(self, index: int) -> Sequence[Any]:
        """The names of a row, the first left out if it is that of the row above."""
        names = self.rows[index][: self.names]
        repeated = self.grouped and index > 0 and self.rows[index - 1][0] == names[0]
        return ["", *names[1:]] if repeated else names

    def _ends_group(self, index: int) -> bool:
        is_last = index + 1 == len(self.rows)
        return self.grouped and (is_last or self.rows[index + 1][0] != self.rows[index][0])

    def to_markdown(self) -> str:
        """The table without its title and notes; the best is bold."""
        rule = ["---"] * self.names + ["---:"] * (len(self.headings) - self.names)
        rows = [[*map(markdown, self.headings)], rule]
        rows += [[in_markdown(cell) for cell in row] for row in self.rows]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def to_csv(self) -> bytes:
        """A CSV file that spreadsheets can open safely; what is not known is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(in_csv, self.headings))
        writer.writerows(map(in_csv, row) for row in self.rows)
        return text.getvalue().encode("utf-8", "replace")

    def to_latex(self, name: str) -> str:
        """A table environment for \\input; it needs the package booktabs."""
        kind = "table*" if len(self.headings) > COLUMN_HEADINGS else "table"
        columns = "l" * self.names + "c" * (len(self.headings) - self.names)
        lines = [
            f"% {printable(self.title)}",
            "% Needs \\usepackage{booktabs}.",
            f"\\begin{{{kind}}}",
            "  \\centering",
            f"  \\caption{{{latex(self.title)}}}",
            f"  \\label{{tab:{name}}}",
            f"  \\begin{{tabular}}{{{columns}}}",
            "    \\toprule",
            f"    {' & '.join(map(latex, self.headings))} \\\\",
            "    \\midrule",
            *(f"    {' & '.join(map(in_latex, row))} \\\\" for row in self.rows),
            "    \\bottomrule",
            "  \\end{tabular}",
            f"\\end{{{kind}}}",
        ]
        return "\n".join(lines) + "\n"


# --- cells ---


def is_best(cell: Any) -> bool:
    return isinstance(cell, Cell) and cell.best


def starred(cell: Any) -> Text:
    """A number with its star; others keep the star's place free, so that they are aligned."""
    return Text(f"{cell} *", style="bold") if is_best(cell) else Text(f"{cell}  ")


def in_markdown(cell: Any) -> str:
    shown = cell if isinstance(cell, Cell) else Cell(str(cell))
    value = f"**{markdown(shown.text)}**" if shown.best else markdown(shown.text)
    return f"{value} {markdown(shown.beside)}".rstrip()


def in_latex(cell: Any) -> str:
    shown = cell if isinstance(cell, Cell) else Cell(str(cell))
    value = f"\\textbf{{{latex(shown.text)}}}" if shown.best else latex(shown.text)
    return f"{value} {{\\scriptsize {latex(shown.beside)}}}" if shown.beside else value


def in_csv(cell: Any) -> Any:
    """Quote names that a spreadsheet would execute as a formula; nan is empty."""
    if isinstance(cell, str):
        return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell
    return cell if cell == cell else ""


# --- text ---


def latex(text: str) -> str:
    """Text with special characters escaped, and a minus before negative numbers."""
    escaped = "".join(LATEX.get(char, char) for char in printable(text))
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", escaped)


def markdown(text: str) -> str:
    """Text with special characters escaped."""
    return "".join(MARKDOWN.get(char, char) for char in printable(text))


def printable(text: str) -> str:
    """Text without control characters, which could manipulate a terminal or end a comment."""
    return "".join(char if char.isprintable() else "?" for char in text)


def terminal_text(console: Console, cell: Any) -> Text:
    """A cell as a terminal can show it."""
    clean = printable(str(cell))
    if console.options.ascii_only:
        clean = clean.replace("±", "+-").encode("ascii", "replace").decode()
    return Text(clean, style=cell.style if isinstance(cell, Text) else "")


def print_line(console: Console, line: str) -> None:
    """Print a line of text, which only a terminal wraps."""
    console.print(terminal_text(console, line), soft_wrap=not console.is_terminal)


def wide_console() -> Console:
    """A console; a pipe has no width, and the default would break lines."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def as_bytes(text: str) -> bytes:
    """The content of a file, whatever is in the names."""
    return text.encode("utf-8", "replace")
