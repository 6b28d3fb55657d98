"""Building blocks of HTML pages. All text is escaped, except arguments `markup` and `svg`."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

from brigade.report.style import CSS

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


def details(title: str, markup: str) -> str:
    """Content that is collapsed at first."""
    return f"<details>\n{tag('summary', title)}\n{markup}\n</details>"


def card(title: str, number: str, after: str, text: str) -> str:
    """A headline number, its spread in small print, and a short description."""
    small = f" <small>{escape(after)}</small>" if after else ""
    value = f'<div class="number">{escape(number)}{small}</div>'
    return box("div", tag("h3", title) + value + tag("div", text, "soft"), "card")


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    names: int,
    total: bool = False,
    stacked: bool = False,
) -> str:
    """`names` left-aligned columns, then right-aligned numbers; `total` sets the last row bold.

    On a narrow screen a `stacked` table has a block per row and a line per cell; others scroll
    sideways with their first column in place.
    """
    body = list(rows)
    labels = headings if stacked else ()
    lines = [_row("th", headings, names, "head")]
    for index, row in enumerate(body):
        last = total and index == len(body) - 1
        lines.append(_row("td", row, names, "total" if last else "", labels))
    css = "wide stacked" if stacked else "wide"
    return box("div", box("table", "\n".join(lines)), css)


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


def picture(title: str, png: bytes) -> str:
    """A PNG embedded in the page."""
    data = base64.b64encode(png).decode("ascii")
    image = f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">'
    return box("figure", tag("h3", title) + image)


def key(colour: str, dash: str, text: str) -> str:
    """One entry of a legend."""
    line = f'<span class="key" style="border-top-style:{dash};border-top-color:{colour}"></span>'
    return f"<li>{line}{escape(text)}</li>"


def definitions(entries: Iterable[tuple[str, str]]) -> str:
    """A list of terms and definitions."""
    return box("dl", "\n".join(tag("dt", term) + tag("dd", text) for term, text in entries))
