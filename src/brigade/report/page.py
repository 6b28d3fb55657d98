"""Building blocks of HTML pages. All text is escaped, except arguments `markup` and `svg`."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from itertools import starmap

from brigade.report.style import CSS
from brigade.report.table import Table

# The page may load and execute nothing, whatever the run folder contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def document(title: str, markup: str) -> str:
    """A whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n"
        f"<body>\n<main>\n{markup}\n</main>\n</body>\n</html>\n"
    )


def tag(name: str, text: str, css: str = "") -> str:
    """One element around plain text."""
    return f"<{name}{_css(css)}>{escape(text)}</{name}>"


def box(name: str, markup: str, css: str = "") -> str:
    """One element around other elements."""
    return f"<{name}{_css(css)}>\n{markup}\n</{name}>"


def _css(css: str) -> str:
    return f' class="{css}"' if css else ""


def section(title: str, *markup: str) -> str:
    """A heading and its content; empty if there is no content."""
    below = "\n".join(filter(None, markup))
    return f"<section>\n{tag('h2', title)}\n{below}\n</section>" if below else ""


def soft(text: str) -> str:
    """A paragraph in small print."""
    return tag("p", text, "soft")


def plots(titled: Iterable[tuple[str, str]]) -> str:
    """Titles and SVG of plots, side by side."""
    return box("div", "\n".join(starmap(plot, titled)), "plots")


def details(title: str, markup: str) -> str:
    """Content that is collapsed at first."""
    return f"<details>\n{tag('summary', title)}\n{markup}\n</details>"


def card(title: str, number: str, after: str, text: str) -> str:
    """A headline number, its spread in small print, and a short description."""
    small = f" <small>{escape(after)}</small>" if after else ""
    value = f'<div class="number">{escape(number)}{small}</div>'
    return box("div", tag("h3", title) + value + tag("div", text, "soft"), "card")


def cards(entries: Iterable[tuple[str, object, str]]) -> str:
    """Cards side by side: title, number with what stands beside it, description."""
    shown = ((title, *str(number).partition(" ")[::2], text) for title, number, text in entries)
    return box("div", "\n".join(starmap(card, shown)), "cards")


def table(shown: Table, stacked: bool = False) -> str:
    """Names are left-aligned, numbers right-aligned; empty if there are no rows.

    On a narrow screen a `stacked` table has a block per row and a line per cell; others scroll
    sideways with their first column in place.
    """
    if not shown.rows:
        return ""
    labels = shown.headings if stacked else ()
    lines = [_row("th", shown.headings, shown.names, "head")]
    for index, row in enumerate(shown.rows, 1):
        css = "total" if shown.total and index == len(shown.rows) else ""
        lines.append(_row("td", row, shown.names, css, labels))
    return box("div", box("table", "\n".join(lines)), "wide stacked" if stacked else "wide")


def _row(cell: str, texts: Sequence[str], names: int, css: str, labels: Sequence[str] = ()) -> str:
    cells = [
        f"<{cell}{_css('' if i < names else 'n')}{_label(labels, i)}>"
        f"{escape(text) if i < names else _number(text)}</{cell}>"
        for i, text in enumerate(texts)
    ]
    return f"<tr{_css(css)}>{''.join(cells)}</tr>"


def _label(labels: Sequence[str], place: int) -> str:
    """The heading of a cell, for screens on which rows are blocks."""
    return f' data-label="{escape(labels[place])}"' if labels else ""


def _number(text: str) -> str:
    """A number whose spread, ± or in brackets, goes below it on a narrow screen."""
    mean, space, spread = text.partition(" ")
    if not spread.startswith(("±", "(", "[")):
        return escape(text)
    return f'{escape(mean)}{space}<span class="half">{escape(spread)}</span>'


def plot(title: str, svg: str) -> str:
    """A plot with a title."""
    return box("figure", tag("h3", title) + svg)


def picture(title: str, content: bytes, kind: str = "png") -> str:
    """A picture embedded in the page."""
    data = base64.b64encode(content).decode("ascii")
    image = f'<img alt="{escape(title)}" src="data:image/{kind};base64,{data}">'
    return box("figure", tag("h3", title) + image)


def key(colour: str, dash: str, text: str) -> str:
    """One entry of a legend."""
    line = f'<span class="key" style="border-top-style:{dash};border-top-color:{colour}"></span>'
    return f"<li>{line}{escape(text)}</li>"


def definitions(entries: Iterable[tuple[str, str]]) -> str:
    """A list of terms and definitions."""
    return box("dl", "\n".join(tag("dt", term) + tag("dd", text) for term, text in entries))
