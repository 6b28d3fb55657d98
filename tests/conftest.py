"""Shared by all tests: what makes tracing and compiling fast, since that is most of their time."""

import ctypes
import gc
import os
import resource
from pathlib import Path

import jax
import pytest

# Programs run for moments here: compiling them must be fast, not they. Processes that tests start
# inherit this. Other versions of JAX may not know the second flag and would stop at it.
FAST_TO_COMPILE = [
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",  # two workers have both cores already
]
if jax.__version_info__ < (0, 11):
    FAST_TO_COMPILE.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join([*FAST_TO_COMPILE, os.environ.get("XLA_FLAGS", "")])

# Where commands keep their programs, so that all tests and what they start share them. Another
# folder for a start from nothing: BRIGADE_TEST_CACHE=$(mktemp -d) make test
CACHE = Path(os.environ.get("BRIGADE_TEST_CACHE", Path(__file__).parents[1] / ".cache"))
os.environ["XDG_CACHE_HOME"] = str(CACHE)
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(CACHE / "brigade" / "jax")
# Small programs too: most are single operations, which many modules need.
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)

# Tracing makes many small objects that stay: by default they are searched for garbage all the time.
gc.set_threshold(200_000, 50, 100)

MOST_MAPS = 25_000  # Linux allows 65,530; one module adds up to 15,000
MOST_BYTES = 2.0e9  # a test adds up to 0.6e9; two workers have at least 8 GB between them


@pytest.fixture(scope="module", autouse=True)
def let_go_of_programs():
    """XLA crashes when a process holds too many compiled programs: each takes several memory maps,
    whose number is limited. Far from the limit they are kept, since the next modules use them."""
    yield
    if memory_maps() > MOST_MAPS:
        jax.clear_caches()


def memory_maps() -> int:
    """How many memory maps this process has; more than allowed where that is not known."""
    maps = Path("/proc/self/maps")
    return len(maps.read_bytes().splitlines()) if maps.exists() else MOST_MAPS + 1


@pytest.fixture(autouse=True)
def let_go_of_memory():
    """The same for memory, which the allocator only returns when told to."""
    yield
    if memory() > MOST_BYTES:
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def memory() -> int:
    """The bytes that this process has in memory; 0 where that is not known."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * resource.getpagesize() if pages.exists() else 0
