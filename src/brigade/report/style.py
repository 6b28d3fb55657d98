"""Colours and style sheet of the page: one palette for plots and text, light and dark."""

from __future__ import annotations

from typing import Any, NamedTuple

# Okabe and Ito's colour-blind safe palette; brighter on a dark background.
SERIES = (
    ("#0072b2", "#4fb0e8"),
    ("#d55e00", "#f58b45"),
    ("#009e73", "#35c79c"),
    ("#b8558d", "#e59cc8"),
    ("#c98a00", "#f3bb45"),
    ("#5a6570", "#b3bcc6"),
)
DASHES = ("solid", "dashed", "dotted")  # for runs with the same colour
# In print every run has its own dash and marker, so that lines differ without colour, too.
PRINT_DASHES = ("solid", "dashed", "dashdot", "dotted", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)))
PRINT_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

INK, LINE, SHADE = "#1f2430", "#9aa3ad", "#eceff3"
# What all plots of runs share, for Matplotlib.
AXES: dict[Any, Any] = {
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
THEME = {
    "ink": (INK, "#e8eaee"),
    "line": (LINE, "#6f7986"),
    "shade": (SHADE, "#2b323c"),
    "soft": ("#5b6472", "#a3acb9"),
    "page": ("#f6f7f9", "#14171c"),
    "card": ("#ffffff", "#1c2027"),
    "edge": ("#dfe3e8", "#323944"),
    "warn": ("#fff4d6", "#3d3316"),
    **{f"s{index}": pair for index, pair in enumerate(SERIES)},
}


class Look(NamedTuple):
    """How the line of a run is drawn."""

    colour: str
    dash: str | tuple[int, tuple[int, ...]]
    marker: str = ""
    width: float = 1.8
    shift: int = 0  # moves the markers, so that those of several runs do not cover each other
    name: str = ""  # in the legend
    fine: float = 0.6  # width of the lines of single seeds


def series(index: int) -> Look:
    """Colour (of the light theme) and dash of a run's line on a page."""
    return Look(SERIES[index % len(SERIES)][0], DASHES[index // len(SERIES) % len(DASHES)])


def printed_series(index: int, name: str, fine: float) -> Look:
    """Colour, dash and marker of a run's line in a paper."""
    return Look(
        SERIES[index % len(SERIES)][0],
        PRINT_DASHES[(index + index // len(SERIES)) % len(PRINT_DASHES)],
        PRINT_MARKERS[index % len(PRINT_MARKERS)],
        width=1.2,
        shift=index,
        name=name,
        fine=fine,
    )


def themed(svg: str) -> str:
    """Replace the colours of a plot by variables of the page's theme."""
    for name, (light, _) in THEME.items():
        if name in ("ink", "line", "shade") or name[1:].isdigit():
            svg = svg.replace(light, f"var(--{name})")
    return svg


def _variables(dark: bool) -> str:
    return "".join(f"--{name}:{pair[dark]};" for name, pair in THEME.items())


CSS = (
    f":root{{color-scheme:light dark;{_variables(False)}}}"
    f"@media (prefers-color-scheme:dark){{:root{{{_variables(True)}}}}}"
    "@media print{:root{color-scheme:light;" + _variables(False) + "}}"
    """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
 font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 20px 64px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 6px;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:38px 0 10px}
h3{font-size:.95rem;margin:0 0 4px;overflow-wrap:anywhere}
p{margin:6px 0;max-width:76ch}
.soft{color:var(--soft);font-size:.9rem}
.note{background:var(--warn);border-radius:8px;padding:8px 14px;margin:14px 0;max-width:none}
.cards{display:grid;gap:14px;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));margin:20px 0}
.card{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:14px 16px}
.card .number{font-size:1.9rem;font-weight:650;line-height:1.25;font-variant-numeric:tabular-nums}
.card .number small{display:inline-block;font-size:1rem;font-weight:400;color:var(--soft)}
.plots{display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(min(320px,100%),1fr))}
figure{margin:0;background:var(--card);border:1px solid var(--edge);border-radius:10px;
 padding:12px 14px 8px}
figure img{display:block;max-width:100%;height:auto}
figure svg{display:block;width:100%;height:auto}
figure svg *{stroke-linejoin:round;stroke-linecap:butt}
.pictures{display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(180px,1fr))}
.pictures img{display:block;width:100%;height:auto}
.wide{overflow-x:auto;background:var(--card);border:1px solid var(--edge);border-radius:10px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:7px 14px;text-align:left;border-bottom:1px solid var(--edge);vertical-align:top}
th{font-weight:600;font-size:.85rem;color:var(--soft)}
td.n,th.n{text-align:right}td.n{white-space:nowrap}
.half{color:var(--soft);font-weight:400}
tr:last-child td{border-bottom:0}
tr.total td{font-weight:650;border-top:2px solid var(--edge)}
.wide:not(.stacked) td:first-child,.wide:not(.stacked) th:first-child{position:sticky;left:0;
 background:var(--card)}
h2+h3,h3{margin-top:14px}figure h3,.card h3{margin-top:0}
details{margin:12px 0}
summary{cursor:pointer;font-weight:600;padding:4px 0}
details[open]>summary{margin-bottom:8px}
dl{margin:0}dt{font-weight:600;margin-top:12px}dd{margin:2px 0 0;max-width:76ch}
pre{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:12px 16px;
 overflow-x:auto;font-size:.85rem}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
td code{overflow-wrap:anywhere}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;list-style:none;margin:8px 0 14px;padding:0}
.legend li{overflow-wrap:anywhere}
.key{display:inline-block;width:28px;margin-right:8px;vertical-align:middle;border-top:3px solid}
footer{margin-top:44px}
@media (min-width:561px){.stacked td:first-child{white-space:nowrap}}
@media (max-width:560px){
 main{padding:18px 12px 48px}h1{font-size:1.4rem}
 th,td{padding:6px 8px}td,th{font-size:.85rem}.cards{gap:10px}
 .half{display:block}.card:first-child:nth-last-child(odd){grid-column:1/-1}
 .cards{grid-template-columns:repeat(2,minmax(0,1fr))}.card{padding:10px 12px}
 .stacked tr.head{display:none}.stacked tr{display:block;padding:8px 0}
 .stacked tr+tr+tr{border-top:2px solid var(--edge)}.stacked .half{display:inline}
 .stacked td{display:flex;justify-content:flex-end;gap:6px;border:0;padding:2px 10px}
 .stacked td.n{white-space:normal;text-align:right}
 .stacked td::before{content:attr(data-label);color:var(--soft);margin-right:auto}
 .stacked td:first-child{font-weight:650;font-size:.95rem;justify-content:flex-start}
 .wide:not(.stacked) td:first-child{max-width:130px;overflow-wrap:anywhere}
 .wide:not(.stacked) td,.wide:not(.stacked) th{padding:6px 5px}
 .wide:not(.stacked) .half{font-size:.72rem}
 .stacked td:first-child::before{content:none}
 .card .number{font-size:1.45rem}.pictures{grid-template-columns:repeat(2,minmax(0,1fr))}
}
"""
)
