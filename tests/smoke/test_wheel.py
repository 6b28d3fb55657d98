"""The wheel of this tree is complete and works outside the checkout."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
# Reads all data files of the package, and says where they are.
READ_DATA = """
import json
from importlib.resources import files
import brigade
from brigade.benchmarks.published import published
from brigade.envs.overcooked import LAYOUTS
from brigade.partners.files import load_policies
found = [path for path in files("brigade.partners").iterdir() if path.suffix == ".safetensors"]
data = {
    "file": brigade.__file__,
    "layouts": list(LAYOUTS),
    "policies": {path.name: load_policies(path).names for path in found},
    "published": list(published("zsc_eval/br-prox")),
}
print(json.dumps(data))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of what a wheel is built from: building leaves files behind, which the next would
    take in."""
    folder = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """The folder of `brigade` and `python` in a virtual environment that has the wheel."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, symlinks=True)
    pip("--python", home / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    # It borrows the dependencies of this environment, but not the checkout that is installed here:
    # a folder named in a .pth file is searched without reading the .pth files in that folder.
    (site,) = home.glob("lib/python*/site-packages")
    folders = [path for path in sys.path if path.endswith("-packages")]
    (site / "dependencies.pth").write_text("\n".join(folders), encoding="utf-8")
    return home / "bin"


def pip(*words):
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *map(str, words)], check=True)


def output_of(words, folder):
    """What a command prints, run in an empty folder."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, words)), cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_file_of_the_package_is_in_it(source, wheel):
    files = {
        str(path.relative_to(source / "src")) for path in (source / "src" / "brigade").rglob("*.*")
    }
    assert any(not name.endswith(".py") for name in files)
    assert files - set(ZipFile(wheel).namelist()) == set()


def test_every_name_is_listed(programs, tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    expected = [
        line
        for group, names in sorted(project["entry-points"].items())
        for line in (f"{group.removeprefix('brigade.')}:", *sorted(f"  {name}" for name in names))
    ]
    listed = output_of([programs / "brigade", "list"], tmp_path)
    described = listed.partition("optional packages:")[0].splitlines()
    assert all(len(line.split()) > 1 for line in described if line.startswith("  "))
    names = [f"  {line.split()[0]}" if line.startswith("  ") else line for line in described]
    assert sorted(names) == sorted(expected)


def test_its_data_is_found_outside_the_checkout(source, programs, tmp_path):
    found = json.loads(output_of([programs / "python", "-c", READ_DATA], tmp_path))
    assert Path(found["file"]).is_relative_to(programs.parent)
    layouts = (source / "src" / "brigade" / "envs" / "overcooked" / "layouts").glob("*.txt")
    assert set(found["layouts"]) == {path.stem for path in layouts}
    assert found["policies"]["brdiv_cramped_room.safetensors"]
    assert "coordination_ring" in found["published"]


def test_a_command_runs_with_data_of_the_package(programs, tmp_path):
    words = ["-m", "brigade", "plan", "meal/partners", "--preset", "laptop", "--no-measure"]
    assert "environment steps" in output_of([programs / "python", *words], tmp_path)
