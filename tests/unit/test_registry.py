"""Names: listed without imports, found with a hint when mistyped, joined by outside packages."""

import sys

import pytest

import brigade
from brigade.errors import UserError
from brigade.registry import UnknownNameError


def test_every_name_loads():
    for kind in ("benchmarks", "envs", "learners", "methods", "partners"):
        assert brigade.names(kind), kind
        for name in brigade.names(kind):
            assert callable(brigade.get(kind, name))


def test_a_typo_is_told_the_nearest_name():
    with pytest.raises(
        UnknownNameError, match="unknown env 'overcoked': did you mean 'overcooked'"
    ):
        brigade.get("envs", "overcoked")
    with pytest.raises(UnknownNameError, match="did you mean 'methods'"):
        brigade.names("method")


def test_suggestions_ignore_case():
    with pytest.raises(UnknownNameError, match="unknown method 'EWC': did you mean 'ewc'"):
        brigade.get("methods", "EWC")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "mine.py, line 1: invalid syntax (add --debug for the traceback)"),
        ("\n1 / 0\n", "mine.py, line 2: ZeroDivisionError: division by zero (add --debug"),
        ("import no_such_module\n", "mine.py, line 1: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit()\n", "mine.py, line 2: SystemExit (add --debug"),
        ("class Other: pass\n", "unknown name in mine.py 'Mine': known: Other"),
    ],
)
@pytest.mark.parametrize("kind", ["benchmarks", "generators", "learners", "methods", "partners"])
def test_an_error_in_a_file_of_the_user_is_one_line(kind, text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(text)
    loaded = set(sys.modules)
    with pytest.raises(UserError) as caught:
        brigade.get(kind, "mine.py:Mine")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    if "line" in message:
        assert caught.value.__cause__ is not None  # for --debug
        assert set(sys.modules) <= loaded


def test_a_file_without_the_name_in_it_is_told_so():
    with pytest.raises(UnknownNameError, match=r"^method mine.py: add the class: mine.py:Name$"):
        brigade.get("methods", "mine.py")
    with pytest.raises(UnknownNameError, match=r"add the function: mine.py:Name$"):
        brigade.get("benchmarks", "mine.py:")


def test_an_outside_package_adds_a_name(tmp_path, monkeypatch):
    (tmp_path / "other_lab.py").write_text("class Mine:\n    pass\n")
    info = tmp_path / "other_lab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[brigade.methods]\nmine = other_lab:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "mine" in brigade.names("methods")
    assert "other_lab" not in sys.modules
    assert brigade.get("methods", "mine").__name__ == "Mine"
