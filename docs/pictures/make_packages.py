"""Draw packages.svg: the packages of Brigade, and who imports whom.

Run it after imports between packages have changed; a test compares the picture with the code.
"""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "src" / "brigade"
ROWS = (  # from what everybody uses to what nobody does
    ("core", "metrics"),
    ("envs", "nets", "histories"),
    ("partners", "learners", "methods"),
    ("train",),
    ("populations", "benchmarks"),
    ("runs",),
    ("report",),
    ("launch",),
    ("cli",),
)
QUESTIONS = {
    "core": ("what are the roles, and the", "data that pass between them?"),
    "metrics": ("what do the numbers mean?", ""),
    "envs": ("what are the games?", ""),
    "nets": ("how is a policy represented?", ""),
    "histories": ("what was recorded, and what", "does a learner see of it?"),
    "partners": ("which policies exist, and how", "do they become a cast?"),
    "learners": ("how does a policy learn?", ""),
    "methods": ("how does it not forget?", ""),
    "train": ("the one loop: players, steps,", "update, evaluate"),
    "populations": ("who meets whom?", ""),
    "benchmarks": ("what do the papers ask?", ""),
    "runs": ("what is a run on disk?", ""),
    "report": ("what do tables, figures and", "pages say of run folders?"),
    "launch": ("how do many runs become", "a result?"),
    "cli": ("which words are which calls?", ""),
}
WIDTH, HEIGHT, GAP, ROW = 220, 62, 40, 104


def imports(package: str) -> set[str]:
    """The packages that a package imports, wherever in its files."""
    found = set()
    for file in (PACKAGE / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
    parts = [name.split(".") for name in found]
    own = {part[1] for part in parts if part[0] == "brigade" and len(part) > 1}
    return (own & set(QUESTIONS)) - {package, "metrics"}  # which everybody may use


def needed() -> dict[str, set[str]]:
    """The imports that do not follow from others: a picture of all would be black."""
    direct = {package: imports(package) for package in QUESTIONS}

    def reached(package: str) -> set[str]:
        return direct[package].union(*(reached(each) for each in direct[package]))

    return {
        package: {
            each for each in found if not any(each in reached(other) for other in found - {each})
        }
        for package, found in direct.items()
    }


def picture() -> str:
    """The SVG."""
    width = 3 * WIDTH + 2 * GAP + 40
    place = {}
    for row, packages in enumerate(ROWS):
        total = len(packages) * WIDTH + (len(packages) - 1) * GAP
        for column, package in enumerate(packages):
            place[package] = ((width - total) / 2 + column * (WIDTH + GAP), 20 + row * ROW)
    height = 20 + len(ROWS) * ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif">',
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="#5b6472"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<g fill="none" stroke="#5b6472" stroke-width="1.4" marker-end="url(#a)">',
    ]
    for package, others in needed().items():
        x, y = place[package]
        for other in sorted(others):
            to_x, to_y = place[other]
            start, end = (x + WIDTH / 2, y), (to_x + WIDTH / 2, to_y + HEIGHT)
            bend = (start[1] - end[1]) / 2
            lines.append(
                f'<path d="M{start[0]:.0f} {start[1]:.0f}C{start[0]:.0f} {start[1] - bend:.0f} '
                f'{end[0]:.0f} {end[1] + bend:.0f} {end[0]:.0f} {end[1]:.0f}">'
                f"<title>{package} imports {other}</title></path>"
            )
    lines.append("</g>")
    for package, (x, y) in place.items():
        first, second = QUESTIONS[package]
        middle = x + WIDTH / 2
        lines += [
            f'<rect x="{x:.0f}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="9" fill="#eef4fa" '
            'stroke="#0072b2" stroke-width="1.4"/>',
            f'<text x="{middle:.0f}" y="{y + 20}" text-anchor="middle" font-size="15" '
            f'font-weight="600">{package}</text>',
            f'<text x="{middle:.0f}" y="{y + 38}" text-anchor="middle" font-size="12.5" '
            f'fill="#3c4450">{first}</text>',
            f'<text x="{middle:.0f}" y="{y + 53}" text-anchor="middle" font-size="12.5" '
            f'fill="#3c4450">{second}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    (HERE / "packages.svg").write_text(picture(), encoding="utf-8")
