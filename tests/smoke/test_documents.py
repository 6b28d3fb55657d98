"""Every Python block of the documents runs, and the example script does what it says."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(code, id=f"{path.relative_to(ROOT)}:{number}")
    for path in DOCUMENTS
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.S))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_a_python_block_runs(code):
    exec(compile(code, "document", "exec"), {"__name__": "document"})


def test_links_between_documents_lead_somewhere():
    for path in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            if not target.startswith("http"):
                assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_example_trains_reports_and_draws(tmp_path):
    command = [sys.executable, "examples/first_stream.py", "--tasks", "2", "--num-envs", "2"]
    command += ["--steps-per-task", "1600", "--seeds", "2"]
    for flag in ("save", "plot", "gif"):
        command += [
            f"--{flag}",
            str(tmp_path / {"save": "a.npz", "plot": "a.png"}.get(flag, "a.gif")),
        ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "kitchen 2:" in done.stdout
    assert "forgetting" in done.stdout
    arrays = np.load(tmp_path / "a.npz")  # no pickles
    assert arrays["score"].shape == (5, 2, 1, 2, 10)
    assert Image.open(tmp_path / "a.gif").n_frames > 1
    assert Image.open(tmp_path / "a.png").width > 500


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
