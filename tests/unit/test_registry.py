"""Names: listed without imports, found with a hint when mistyped, joined by outside packages."""

import sys

import pytest

import brigade
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


def test_an_outside_package_adds_a_name(tmp_path, monkeypatch):
    (tmp_path / "my_lab.py").write_text("class Mine:\n    pass\n")
    info = tmp_path / "my_lab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[brigade.methods]\nmine = my_lab:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "mine" in brigade.names("methods")
    assert "my_lab" not in sys.modules
    assert brigade.get("methods", "mine").__name__ == "Mine"
