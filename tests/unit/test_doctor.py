"""`brigade doctor`: what it says about machines that lack something, which are fakes here."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from brigade.cli import bench, doctor, main
from brigade.cli.describe import Extra
from brigade.cli.doctor import Driver, nvidia_driver

ROOT = Path(__file__).parents[2]
QUICK = ["doctor", "--no-benchmark"]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(doctor, "nvidia_driver", lambda: None)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def said(capsys):
    """What was printed, as one line."""
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 or "/" in line for line in shown.splitlines())  # paths may be long
    return " ".join(shown.split())


def test_a_machine_that_works_is_told_so(capsys):
    assert main(QUICK) == 0
    shown = said(capsys)
    assert f"jax {jax.__version__}" in shown
    assert "JAX computes on 1 device: cpu" in shown
    assert "CPU core" in shown
    assert "brigade/jax" in shown
    assert shown.endswith("Brigade can be used.")
    assert "speed" not in shown


@pytest.mark.parametrize(
    ("cuda", "extra"), [(12, "brigade-rl[cuda12]"), (13, "brigade-rl[cuda13]"), (None, "cuda12")]
)
def test_a_gpu_that_jax_does_not_use_is_named_with_what_to_install(
    cuda, extra, monkeypatch, capsys
):
    monkeypatch.setattr(doctor, "nvidia_driver", lambda: Driver(("NVIDIA L4",), cuda))
    monkeypatch.setattr(doctor, "installed_version", lambda name: None)
    assert main(QUICK) == 1  # without versions, all packages seem to be missing
    shown = said(capsys)
    assert "NVIDIA L4: JAX does not use it" in shown
    assert re.search(rf"to train on the GPU: pip install '.*{re.escape(extra)}", shown)


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("JAX_PLATFORMS", "cpu", "unset JAX_PLATFORMS, which is cpu"),
        ("CUDA_VISIBLE_DEVICES", "", "unset CUDA_VISIBLE_DEVICES, which hides all GPUs"),
    ],
)
def test_a_gpu_that_is_hidden_is_told_how(name, value, advice, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "nvidia_driver", lambda: Driver(("NVIDIA L4",), 12))
    monkeypatch.setenv(name, value)
    assert main(QUICK) == 0
    assert advice in said(capsys)


def test_a_plugin_that_does_not_start_points_at_the_driver(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "nvidia_driver", lambda: Driver(("NVIDIA L4",), 11))
    found = doctor.installed_version
    monkeypatch.setattr(
        doctor, "installed_version", lambda name: "1" if "cuda12" in name else found(name)
    )
    assert main(QUICK) == 0
    assert "JAX for cuda12 is installed but does not start: the driver may be" in said(capsys)


@pytest.mark.parametrize(
    ("found", "message", "advice"),
    [
        (None, "broken flax is missing", "- pip install 'flax>=0.12'"),
        ("0.1", "broken flax is 0.1; Brigade needs >=0.12", "- pip install 'flax>=0.12'"),
    ],
)
def test_a_missing_or_old_package_is_broken(found, message, advice, monkeypatch, capsys):
    real = doctor.installed_version
    monkeypatch.setattr(
        doctor, "installed_version", lambda name: found if name == "flax" else real(name)
    )
    assert main(QUICK) == 1
    shown = said(capsys)
    assert message in shown
    assert shown.endswith(f"Something is broken. What to do: {advice}")


def test_a_jax_that_cannot_compute_is_broken_and_nothing_is_measured(monkeypatch, capsys):
    def fail():
        raise RuntimeError("Unable to initialize backend 'cuda': no\nlibrary")

    monkeypatch.setattr(jax, "devices", fail)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    assert main(["doctor"]) == 1
    shown = said(capsys)
    assert "broken JAX cannot compute: Unable to initialize backend 'cuda': no library" in shown
    assert "JAX_PLATFORMS is cuda: unset it" in shown
    assert "speed" not in shown


def test_it_runs_without_jax(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jax", None)  # importing it fails
    assert main(QUICK) == 1
    assert "broken JAX cannot compute: import of jax halted" in said(capsys)


@pytest.mark.slow
def test_missing_extras_have_their_command(monkeypatch, capsys):
    missing = [Extra("brigade-rl", "wandb", ("wandb",)), Extra("brigade-rl", "jaxmarl", ())]
    monkeypatch.setattr(doctor, "optional_packages", lambda name: missing)
    assert main(QUICK) == 0
    shown = said(capsys)
    assert "ok jaxmarl missing wandb, for brigade run --wandb: pip install" in shown
    assert "'brigade-rl[wandb]'" in shown


def test_a_cache_that_cannot_be_written_is_told(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: Path(path) != tmp_path)
    assert main(QUICK) == 0
    assert f"make {tmp_path} writable, or set XDG_CACHE_HOME" in said(capsys)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_the_speed_is_compared_with_the_table(backend, monkeypatch, capsys):
    monkeypatch.setattr(bench, "quick_speed", lambda: SimpleNamespace(steps_per_second=11_000.0))
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert main(["doctor"]) == 0
    shown = said(capsys)
    assert "training on level 1: 11,000 steps/s" in shown
    assert ("two cores of an AMD EPYC: 27,500" in shown) == (backend == "cpu")
    assert ("one NVIDIA H200: 5,830,000" in shown) == (backend == "gpu")
    assert "this machine has 40% of it" in shown or backend == "gpu"


def test_too_little_memory_for_the_benchmark_is_a_note(monkeypatch, capsys):
    def fail():
        raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")

    monkeypatch.setattr(bench, "quick_speed", fail)
    assert main(["doctor"]) == 0
    assert "note not measured: RESOURCE_EXHAUSTED: out of memory" in said(capsys)


def test_known_speeds_are_those_of_the_document():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    gpu, cpu = doctor.KNOWN
    assert f"| training, level 1 | 1.63 M steps/s | {gpu.steps_per_second / 1e6:g} M" in page
    assert re.search(rf"^\| training, 16 env.* \| {cpu.steps_per_second / 1e3:g} k \|", page, re.M)


def test_the_driver_is_asked_for_its_gpus(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\nif [ "$1" = "--list-gpus" ]; then echo "GPU 0: NVIDIA L4 (UUID: GPU-1)"; '
        'else echo "| NVIDIA-SMI 550.1  Driver Version: 550.1  CUDA Version: 12.4 |"; fi\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvidia_driver() == Driver(("NVIDIA L4",), 12)
    program.write_text("#!/bin/sh\necho failed\nexit 9\n")
    assert nvidia_driver() is None
    program.unlink()
    assert nvidia_driver() is None
