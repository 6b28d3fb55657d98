"""`brigade doctor`: what is installed, which devices JAX sees, how fast they are, what to do.

JAX is imported only where its devices are asked for: it may be what is broken.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement

from brigade.cli.describe import optional_packages
from brigade.cli.listing import EXTRAS
from brigade.registry import OURS

WIDTH = 80
CUDA = ("cuda12", "cuda13")
ALWAYS_SHOWN = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")
PROBE_SECONDS = 20  # how long nvidia-smi may take


@dataclass(frozen=True)
class Finding:
    """What was found, and what to do about it."""

    level: Literal["ok", "missing", "note", "broken"]
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Known:
    """A speed of docs/performance.md: training on level 1, in environment steps per second."""

    machine: str
    backend: str
    steps_per_second: float
    date: str


KNOWN = (
    Known("one NVIDIA H200", "gpu", 5.83e6, "2026-11-15"),
    Known("two cores of an AMD EPYC", "cpu", 27.5e3, "2026-11-15"),
)


def known_speed(backend: str) -> float:
    """The known speed of a CPU or an accelerator."""
    kind = "cpu" if backend == "cpu" else "gpu"
    return next(known.steps_per_second for known in KNOWN if known.backend == kind)


@dataclass(frozen=True)
class Driver:
    """What nvidia-smi says: the names of the GPUs, and the newest CUDA that the driver supports."""

    gpus: tuple[str, ...]
    cuda: int | None


def print_examination(benchmark: bool) -> int:
    """Print all findings and what to do; the exit status is 1 if something is broken."""
    findings = list[Finding]()
    topics = {"packages": packages, "optional packages": extras, "devices": devices}
    examine(topics, findings)
    broken = any(finding.level == "broken" for finding in findings)
    if not broken:
        examine({"cache of compiled programs": cache}, findings)
        examine({"speed": speed} if benchmark else {}, findings)
    print()
    print("Something is broken." if broken else "Brigade can be used.")
    todo = [finding.advice for finding in findings if finding.advice]
    if todo:
        print("What to do:")
    for advice in dict.fromkeys(todo):
        print(wrapped(advice, "- ", "  "))
    return 1 if broken else 0


def examine(topics: Mapping[str, Callable[[], Iterator[Finding]]], findings: list[Finding]) -> None:
    """Print what is found about some topics, and add it to the findings."""
    for topic, look in topics.items():
        print(topic)
        for finding in look():
            print(wrapped(finding.text, f"  {finding.level:8} ", " " * 11), flush=True)
            findings.append(finding)


def wrapped(text: str, first: str, rest: str) -> str:
    """Text as a paragraph that hangs below its first line."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=False,
    )


# --- what is installed ---


def packages() -> Iterator[Finding]:
    """Python, Brigade and the packages it needs."""
    python = ".".join(map(str, sys.version_info[:3]))
    system = f"{platform.system()} {platform.machine()}"
    yield Finding("ok", f"Brigade {version(OURS)}, Python {python}, {system}")
    shown = ", ".join(f"{name} {found}" for name, found in main_versions())
    yield Finding("ok", shown)
    for text in distribution(OURS).requires or []:
        needed = Requirement(text)
        if needed.marker and not needed.marker.evaluate({"extra": ""}):
            continue
        found = installed_version(needed.name)
        wanted = f"{needed.name}{needed.specifier}"
        if found is None:
            yield Finding("broken", f"{needed.name} is missing", f"pip install '{wanted}'")
        elif not needed.specifier.contains(found, prereleases=True):
            yield Finding(
                "broken",
                f"{needed.name} is {found}; Brigade needs {needed.specifier}",
                f"pip install '{wanted}'",
            )


def main_versions() -> Iterator[tuple[str, str]]:
    """The packages whose versions matter most, as far as they are installed."""
    for name in ALWAYS_SHOWN:
        if found := installed_version(name):
            yield name, found


def installed_version(name: str) -> str | None:
    """The version of a distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def extras() -> Iterator[Finding]:
    """Optional packages. `devices` says which one a GPU needs."""
    found = [extra for extra in optional_packages(OURS) if extra.name not in CUDA]
    present = [extra.name for extra in found if not extra.missing]
    if present:
        yield Finding("ok", ", ".join(sorted(present)))
    for extra in sorted(found, key=lambda each: each.name):
        if extra.missing:
            use = EXTRAS.get(extra.name, "")
            text = f"{extra.name}{f', for {use}' if use else ''}: {extra.command}"
            yield Finding("missing", text)


def cache() -> Iterator[Finding]:
    """Where compiled programs are kept."""
    from brigade.core.compile import cache_folder

    folder = cache_folder()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK):
        yield Finding(
            "note",
            f"{folder} cannot be written, so that every command compiles anew",
            f"make {there} writable, or set XDG_CACHE_HOME to a folder that is",
        )
        return
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    text = f"{folder}: {megabytes:,.0f} MB; it can be deleted at any time"
    yield Finding("ok", text)


# --- devices ---


def devices() -> Iterator[Finding]:
    """What JAX computes on, and a GPU that it does not see."""
    yield Finding("ok", processor())
    try:
        import jax

        found = jax.devices()
        compute(jax)
    except Exception as error:  # a broken installation can raise anything
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        yield Finding("broken", f"JAX cannot compute: {reason}", no_device_advice())
        return
    kinds = ", ".join(sorted({device.device_kind for device in found}))
    number = f"{len(found)} device{'' if len(found) == 1 else 's'}"
    text = f"JAX computes on {number}: {kinds}{device_memory(found[0])}"
    yield Finding("ok", text)
    if (driver := nvidia_driver()) and found[0].platform == "cpu":
        yield unseen_gpu(driver)


def compute(jax: Any) -> None:
    """A small product; it fails where drivers and libraries do not match."""
    numbers = jax.numpy.ones((8, 8))
    if float((numbers @ numbers).sum()) != 512.0:
        raise RuntimeError("a product of matrices of ones is wrong")


def no_device_advice() -> str:
    """What to do where JAX fails."""
    if platforms := os.environ.get("JAX_PLATFORMS"):
        return f"JAX_PLATFORMS is {platforms}: unset it, or set JAX_PLATFORMS=cpu to use the CPU"
    return "set JAX_PLATFORMS=cpu to use the CPU, or install JAX again: pip install -U jax jaxlib"


def unseen_gpu(driver: Driver) -> Finding:
    """A GPU is there, but JAX computes on the CPU: why, and what to install."""
    text = f"{', '.join(driver.gpus)}: JAX does not use it"
    plugins = [name for name in CUDA if installed_version(f"jax-{name}-plugin")]
    if os.environ.get("JAX_PLATFORMS", "").startswith("cpu"):
        advice = "unset JAX_PLATFORMS, which is cpu, to use the GPU"
    elif os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        advice = "unset CUDA_VISIBLE_DEVICES, which hides all GPUs"
    elif plugins:
        advice = (
            f"JAX for {plugins[0]} is installed but does not start: the driver may be too old "
            "for it (nvidia-smi shows its CUDA version); see docs/gpu.md"
        )
    else:
        extra = "cuda13" if (driver.cuda or 12) >= 13 else "cuda12"
        advice = f"to train on the GPU: pip install '{OURS}[{extra}]'"
    return Finding("note", text, advice)


def nvidia_driver() -> Driver | None:
    """The GPUs that the NVIDIA driver sees; None if there is no driver or no GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        said = subprocess.run(
            [program], capture_output=True, text=True, timeout=PROBE_SECONDS
        ).stdout
        listed = subprocess.run(
            [program, "--list-gpus"], capture_output=True, text=True, timeout=PROBE_SECONDS
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = re.findall(r"^GPU \d+: (.*?)(?: \(UUID.*)?$", listed, re.M)
    cuda = re.search(r"CUDA Version: (\d+)", said)
    return Driver(tuple(names), int(cuda[1]) if cuda else None) if names else None


def processor() -> str:
    """Cores and memory of this computer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = f"{cores} CPU core{'' if cores == 1 else 's'}"
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        kilobytes = dict(re.findall(r"^(\w+): +(\d+) kB$", meminfo.read_text(), re.M))
        total, free = (int(kilobytes.get(name, 0)) / 1e6 for name in ("MemTotal", "MemAvailable"))
        text += f", {total:.0f} GB of memory, {free:.0f} GB of it free"
    return text


def device_memory(device: Any) -> str:
    """The memory of a device, where it is known."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    limit = (stats or {}).get("bytes_limit")
    return f", {limit / 1e9:.0f} GB for JAX" if limit else ""


# --- speed ---


def speed() -> Iterator[Finding]:
    """Train for a few seconds, and compare with the table of known figures."""
    import jax

    from brigade.cli import bench
    from brigade.core.compile import keep_programs

    keep_programs()
    backend = jax.default_backend()
    try:
        measured = bench.quick_speed().steps_per_second
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:120]
        yield Finding("note", f"not measured: {reason}", "see docs/gpu.md about memory")
        return
    yield Finding("ok", f"training on level 1: {measured:,.0f} steps/s")
    for known in KNOWN:
        if known.backend == ("cpu" if backend == "cpu" else "gpu"):
            share = measured / known.steps_per_second
            text = f"{known.machine}: {known.steps_per_second:,.0f} steps/s ({known.date}); "
            yield Finding("ok", f"{text}this machine has {share:.0%} of it")
