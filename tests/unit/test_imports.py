"""The layout of the package: who may import whom, and what importing costs."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import brigade

ROOT = Path(brigade.__file__).parent

BASE = {"core", "registry", "errors", "machine", "reading"}
PARTS = {"envs", "nets", "histories", "learners", "methods", "partners", "train", "metrics"}
TRAINED = BASE | PARTS

# What each part may import beside itself.
MAY_IMPORT = {
    "errors": set(),
    "machine": set(),
    "reading": {"errors", "machine"},
    "registry": {"errors"},
    "core": {"errors"},
    "metrics": set(),
    "envs": BASE,
    "nets": BASE,
    "histories": BASE,
    "learners": BASE | {"envs", "nets"},
    "methods": BASE | {"envs", "nets"},
    "partners": BASE | {"envs", "nets", "learners"},
    "train": TRAINED,
    "benchmarks": TRAINED,
    "populations": TRAINED,
    "runs": TRAINED | {"populations", "__version__"},
    "report": BASE | {"metrics", "histories", "runs", "benchmarks", "envs"},
    "launch": TRAINED | {"benchmarks", "runs", "report", "__version__"},
    "cli": TRAINED | {"populations", "benchmarks", "runs", "report", "launch", "__version__"},
}


def imports(path):
    """Parts of brigade a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            modules = [node.module or ""]
            if node.module == "brigade":
                modules = [f"brigade.{alias.name}" for alias in node.names]
        for module in modules:
            parts = module.split(".")
            if parts[0] == "brigade" and len(parts) > 1:
                yield parts[1]


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_point_one_way(part):
    folder = ROOT / part
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [ROOT / f"{part}.py"]
    assert files
    for file in files:
        wrong = set(imports(file)) - MAY_IMPORT[part] - {part}
        assert not wrong, f"{file.relative_to(ROOT)} imports {wrong}"


def test_every_folder_has_its_place_in_the_order():
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert folders <= set(MAY_IMPORT)


ROLES = (
    "agent|batch|benchmark|env|environment|game|generator|learner|matchmaker|method|policy|source"
)
# What strangers name in a config may be anything: this refuses it in words.
REFUSES = {
    "isinstance(benchmark, Benchmark)",
    "isinstance(benchmark.env, Environment)",
    "isinstance(config.get('benchmark'), str)",
}


@pytest.mark.parametrize("part", ["core", "train", "runs"])
def test_roles_are_asked_and_not_guessed(part):
    """What an object can do is a declared member of its base class, here never looked up."""
    for file in sorted((ROOT / part).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            line = ast.unparse(node) if isinstance(node, ast.Call | ast.Compare) else ""
            asked = re.match(r"(getattr|hasattr|isinstance|issubclass)\((.*?)[,)]", line)
            if asked and re.search(rf"\b({ROLES})s?\b", asked[2]) and line not in REFUSES:
                raise AssertionError(f"{file.name}:{node.lineno}: {line}")
            by_base = re.search(r"type\(.*\)\.\w+ is (not )?\w+\.\w+", line)
            assert not by_base, f"{file.name}:{node.lineno}: {line}"


def test_the_picture_of_the_packages_shows_their_imports():
    pictures = ROOT.parents[1] / "docs" / "pictures"
    spec = importlib.util.spec_from_file_location("make_packages", pictures / "make_packages.py")
    drawn = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawn)
    assert set(drawn.QUESTIONS) == {p.name for p in ROOT.iterdir() if (p / "__init__.py").exists()}
    now = (pictures / "packages.svg").read_text(encoding="utf-8")
    assert now == drawn.picture(), "packages.svg is old: run python docs/pictures/make_packages.py"


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_importing_and_listing_load_nothing_heavy():
    code = (
        "import sys, brigade, brigade.cli; brigade.names('envs'); brigade.cli.main(['list']);"
        "print([m for m in ('jax', 'flax', 'brigade.envs', 'brigade.core') if m in sys.modules])"
    )
    listed = run(code).splitlines()
    assert listed[-1] == "[]"
    assert "benchmarks:" in listed


@pytest.mark.slow
def test_importing_every_module_makes_no_array():
    """No array means no device is set up: JAX has made no backend."""
    code = (
        "import pkgutil, importlib, brigade;"
        "names = [m.name for m in pkgutil.walk_packages(brigade.__path__, 'brigade.')];"
        "[importlib.import_module(n) for n in names];"
        "from jax._src import xla_bridge; print(len(names) > 20, xla_bridge._backends)"
    )
    assert run(code) == "True {}"
