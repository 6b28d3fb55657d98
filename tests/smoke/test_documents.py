"""The documents: their Python and their commands run, their links and help texts hold."""

import importlib.util
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from smoke.commands import Commands, commands_in, let_go_of_many_programs

from brigade import registry
from brigade.cli import VERBS

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Last, because it lets go of compiled programs that the others share.
DOCUMENTS.sort(key=lambda path: path.name == "reproduce.md")
TRAINED_POLICY = ROOT / "docs" / "use_a_policy.md"  # its Python uses what its command trains


def blocks(path, language):
    """The blocks of one language in a document."""
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.S)


def with_blocks(language):
    """The documents that have some, as parameters of a test."""
    return [
        pytest.param(path, id=str(path.relative_to(ROOT)))
        for path in DOCUMENTS
        if blocks(path, language) and path != TRAINED_POLICY
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", with_blocks("python"))
def test_python_blocks_run_in_order(path, monkeypatch):
    module = ModuleType("document")
    module.__file__ = str(ROOT / "examples" / path.name)  # the tutorial shows files of examples/
    monkeypatch.setitem(sys.modules, "document", module)  # dataclasses look their module up
    monkeypatch.chdir(ROOT)
    for number, code in enumerate(blocks(path, "python"), 1):
        name = f"{path.name}, Python block {number}"
        exec(compile(code, name, "exec", dont_inherit=True), module.__dict__)


@pytest.fixture(scope="module")
def run_command(tmp_path_factory):
    return Commands(tmp_path_factory.mktemp("trained"))


@pytest.mark.slow
@pytest.mark.parametrize("path", with_blocks("sh"))
def test_commands_run_in_order(path, run_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    for text in blocks(path, "toml"):
        if named := re.match(r"# (\S+\.toml)\n", text):
            Path(named[1]).write_text(text, encoding="utf-8")
    commands = commands_in(blocks(path, "sh"))
    for number, words in enumerate(commands, start=1):
        status = run_command(words, later=commands[number:])
        assert status == 0, f"{path.name}: {shlex.join(words)}"
    let_go_of_many_programs()


@pytest.mark.slow
def test_the_page_about_trained_policies_runs_as_written(run_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = commands_in(blocks(TRAINED_POLICY, "sh"))
    used = [["brigade", "load", "runs/mine"]]  # by the Python below
    assert [run_command(words, later=used) for words in commands[:1]] == [0]
    names, games = {}, []
    for code in blocks(TRAINED_POLICY, "python"):
        exec(compile(code, TRAINED_POLICY.name, "exec", dont_inherit=True), names)
        games.append(names["game"])
    assert games[0].over
    assert {path.name for path in tmp_path.iterdir()} >= {"film.gif", "mine.safetensors"}
    assert [run_command(words, later=[]) for words in commands[1:]] == [0] * len(commands[1:])


@pytest.mark.parametrize("name", registry.names("methods"))
def test_every_method_has_a_page_with_its_settings_and_their_defaults(name):
    page = (ROOT / "docs" / "methods" / f"{name}.md").read_text(encoding="utf-8")
    shown = {
        setting: default.replace(",", "")
        for settings, default in re.findall(r"^\| (`.*`) \| (\S+) \|", page, re.M)
        for setting in re.findall(r"`(\w+)`", settings)
    }
    defaults = {field.name: field.default for field in fields(registry.get("methods", name))}
    assert shown.keys() == defaults.keys()
    for setting, default in defaults.items():
        words = {"yes": True, "no": False, "none": None}
        said = shown[setting]
        assert (words[said] if said in words else float(said)) == default


@pytest.mark.parametrize("name", registry.names("generators"))
def test_every_generator_has_a_page_with_its_settings(name):
    page = (ROOT / "docs" / "partners" / f"{name}.md").read_text(encoding="utf-8")
    if name == "brdiv":
        page = (ROOT / "docs" / "populations.md").read_text(encoding="utf-8")
    for field in fields(registry.get("generators", name)):
        if field.name != "members" or field.default != 1:
            assert f"`{field.name}`" in page


def test_links_between_documents_lead_somewhere():
    for path in DOCUMENTS:
        for target, anchor in re.findall(r"\]\(([^)#]*)(#[^)]*)?\)", path.read_text()):
            if target.startswith("http"):
                continue
            to = path.parent / target if target else path
            assert to.exists(), f"{path.name} links to {target}"
            if anchor:
                assert anchor[1:] in anchors(to), f"{path.name} links to {target}{anchor}"


def anchors(path):
    """The names of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_the_tutorial_shows_the_examples_as_they_are():
    shown = "\n\n\n".join(block.strip() for block in blocks(ROOT / "docs/tutorial.md", "python"))
    anchor = (ROOT / "examples/anchor.py").read_text(encoding="utf-8")
    assert anchor.strip() in shown
    assert len(anchor.splitlines()) <= 50
    for name in ("anchor_table", "pooled", "population_play", "reinforce", "slow_cook"):
        assert (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").strip() in shown
    meeting = (ROOT / "examples/meeting.py").read_text(encoding="utf-8")
    environment, benchmark = meeting.split("\n\n\ndef meeting")
    assert environment.strip() in shown
    assert f"def meeting{benchmark}".strip() in shown


def test_every_verb_has_a_page_with_its_help():
    pages = ROOT / "docs" / "verbs"
    assert {path.stem for path in pages.glob("*.md")} == set(VERBS)
    spec = importlib.util.spec_from_file_location("make_help", pages / "make_help.py")
    make_help = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_help)
    for verb in VERBS:
        page = (pages / f"{verb}.md").read_text(encoding="utf-8")
        assert make_help.BLOCK.search(page)
        now = make_help.with_help(page, verb)
        assert page == now, f"{verb}.md is old: run python docs/verbs/make_help.py"


@pytest.mark.slow
def test_the_example_trains_and_reports(tmp_path):
    command = [sys.executable, "examples/first_stream.py", "--tasks", "2", "--num-envs", "2"]
    command += ["--steps-per-task", "800", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "kitchen 2:" in done.stdout
    assert "forgetting" in done.stdout
    arrays = np.load(tmp_path / "run" / "returns.npz")  # no pickles
    assert arrays["score"].shape == (3, 2, 1, 1, 1, 10)


@pytest.mark.parametrize(
    ("words", "status", "output"),
    [
        (["list"], 0, "meal/level-1"),
        (["list", "methods"], 0, "  ft"),
        (["list", "method"], 2, "brigade: unknown kind 'method': did you mean 'methods'?"),
        (["--version"], 0, "brigade 0."),
    ],
)
def test_the_command_lists_names(words, status, output):
    command = [str(Path(sys.executable).parent / "brigade"), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status
    assert output in (done.stderr if status else done.stdout)
