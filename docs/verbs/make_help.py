"""Write every verb's help, and the targets of `reproduce`, into its page:
python docs/verbs/make_help.py.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from unittest import mock

from brigade.cli import VERBS, main
from brigade.launch.overview import overview

FOLDER = Path(__file__).parent
BLOCK = re.compile(r"<!-- help -->\n.*?<!-- /help -->", re.S)
TARGETS = re.compile(r"<!-- targets -->\n.*?<!-- /targets -->", re.S)


# The same defaults whatever the machine.
PRESET = {"run": ["--preset", "paper"], "population": ["--preset", "paper"]}


def help_of(verb: str) -> str:
    """What `brigade VERB --help` prints on a terminal of 80 columns, with the preset `paper`."""
    shown = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "80"}),
        contextlib.redirect_stdout(shown),
        contextlib.suppress(SystemExit),
    ):
        main([verb, *PRESET.get(verb, []), "--help"])
    return "\n".join(line.rstrip() for line in shown.getvalue().strip().splitlines())


def with_help(page: str, verb: str) -> str:
    """The page with the help and the targets of today."""
    page = filled(page, BLOCK, "help", help_of(verb))
    listed = "\n".join(line.rstrip() for line in overview("cpu"))
    return filled(page, TARGETS, "targets", listed)


def filled(page: str, block: re.Pattern[str], name: str, text: str) -> str:
    """The page with this text between its marks, if it has any."""
    shown = f"<!-- {name} -->\n```text\n{text}\n```\n<!-- /{name} -->"
    return block.sub(lambda _: shown, page)


if __name__ == "__main__":
    for verb in VERBS:
        path = FOLDER / f"{verb}.md"
        path.write_text(with_help(path.read_text(encoding="utf-8"), verb), encoding="utf-8")
