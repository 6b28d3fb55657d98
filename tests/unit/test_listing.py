"""`brigade list`: a line for every entry without importing it, and a page for each."""

import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

from brigade import registry
from brigade.cli import main
from brigade.cli.describe import describe, find_module, optional_packages
from brigade.cli.entry_page import document, page, reference
from brigade.cli.listing import entry_line

ROOT = Path(__file__).parents[2]
ENTRIES = [(kind, name) for kind in registry.KINDS for name in registry.names(kind)]


def test_every_entry_has_a_line_of_80_columns(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in lines:
        assert len(line) <= 80, line
        assert line.endswith(":") or len(line.split()) > 2, line
    assert "  ft          Fine-tuning: trains on without protection, the baseline" in lines
    assert "  forgetting               0: all was kept, 1: all was lost" in lines
    assert "  overcooked     Cooks in a kitchen of tiles; the task is the kitchen" in lines


@pytest.fixture
def my_lab(tmp_path, monkeypatch):
    """A package whose modules must not be imported, with entries of several kinds."""
    package = tmp_path / "my_lab"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import Mine\nraise SystemExit\n")
    (package / "inner.py").write_text('class Mine:\n    """Does\n    much.\n\n    More."""\n')
    (package / "needy.py").write_text(
        'import json\nimport no_such_package.part\nclass Needy:\n    """Needs it."""\n'
    )
    (package / "made.py").write_text('def make(*a): pass\nMADE = make()\n"""Was made."""\n')
    info = tmp_path / "my_lab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-lab\nVersion: 1.0\nProvides-Extra: big\n"
        'Requires-Dist: numpy ; extra == "big"\n'
        'Requires-Dist: no-such-thing>=2 ; extra == "big"\n'
        'Requires-Dist: not-here ; extra == "big" and python_version < "3"\n'
    )
    (info / "entry_points.txt").write_text(
        "[brigade.methods]\nmine = my_lab:Mine\nneedy = my_lab.needy:Needy\n"
        "big = my_lab.inner:Mine [big]\ngone = my_lab.gone:Gone\n[brigade.measures]\n"
        "made = my_lab.made:MADE\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return package


@pytest.mark.parametrize(
    ("kind", "name", "text", "missing"),
    [
        ("methods", "mine", "Does much.", ""),
        ("methods", "needy", "Needs it.", "not installed: it needs no_such_package"),
        ("methods", "big", "Does much.", "not installed: pip install 'my-lab[big]'"),
        ("methods", "gone", "", "broken: there is no module my_lab.gone"),
        ("measures", "made", "Was made.", ""),
    ],
)
def test_entries_of_other_packages_are_described_without_importing_them(
    my_lab, kind, name, text, missing
):
    found = describe(registry.entries(kind)[name])
    assert (found.text, found.missing) == (text, missing)
    assert not any(module.startswith("my_lab") for module in sys.modules)


def test_only_what_an_extra_needs_here_counts_as_missing(my_lab):
    (extra,) = optional_packages("my-lab")
    assert extra.missing == ("no-such-thing",)


def test_a_missing_package_is_part_of_the_line(my_lab, capsys):
    assert main(["list", "methods"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^  needy +not installed: it needs no_such_package; Needs it$", shown, re.M)
    assert main(["list", "methods", "needy"]) == 0  # its page does not import it either
    assert "no_such_package" in capsys.readouterr().out


def test_long_descriptions_are_cut_to_the_terminal(my_lab):
    line = entry_line("x", describe(registry.entries("methods")["big"]), 1, 40)
    assert len(line) <= 40
    assert line.endswith("...")


def test_finding_a_module_imports_no_parent_package():
    before = set(sys.modules)
    assert find_module("xml.etree.ElementTree").origin.endswith("ElementTree.py")
    assert find_module("xml.no_such_part") is None
    assert find_module("no_such_package.part") is None
    assert set(sys.modules) == before


def test_the_page_of_a_method_has_its_settings_paper_and_example(capsys):
    assert main(["list", "methods", "ewc"]) == 0
    shown = capsys.readouterr().out
    assert "Pulls parameters back to earlier tasks, by Fisher information." in shown
    assert "  --method-settings.coefficient  1e7\n      Weight of the penalty" in shown
    assert "  --method-settings.samples  2500\n" in shown  # of a base class
    assert "paper:   J. Kirkpatrick and others, Overcoming" in shown
    assert "page:    docs/methods/ewc.md" in shown
    assert "example: brigade run meal/level-1 --method ewc" in shown


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_page_fits_80_columns_and_names_a_document(kind, name):
    entry = registry.entries(kind)[name]
    lines = list(page(kind, entry, 80))
    assert max(map(len, lines)) <= 80
    file, _, anchor = document(kind, entry).partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / file).read_text(encoding="utf-8"), re.M)
    slugs = [re.sub(r"[^\w\- ]", "", text).lower().replace(" ", "-") for text in headings]
    assert not anchor or anchor in slugs


@pytest.mark.parametrize(
    ("kind", "name"), [each for each in ENTRIES if each[0] in ("methods", "generators")]
)
def test_papers_are_those_of_the_documents(kind, name):
    entry = registry.entries(kind)[name]
    text = (ROOT / document(kind, entry)).read_text(encoding="utf-8")
    cited = re.search(r"Reference: (.*?)\n\n", text, re.S)
    if name in ("ft", "sp"):  # older than any paper
        return
    words = " ".join(cited[1].split()).replace("*", "")
    assert reference(entry.module).rstrip(".") in words


def test_every_optional_package_is_listed(capsys):
    main(["list"])
    shown = capsys.readouterr().out.partition("optional packages:\n")[2]
    extras = importlib.metadata.metadata("brigade-rl").get_all("Provides-Extra")
    assert {line.split()[0] for line in shown.splitlines()} == set(extras) - {"dev"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("list methods ecw", "brigade: unknown method 'ecw': did you mean 'ewc'? known:"),
        ("list metods ewc", "brigade: unknown kind 'metods': did you mean 'methods'?"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(words, message, capsys):
    assert main(words.split()) == 2
    assert capsys.readouterr().err.startswith(message)
