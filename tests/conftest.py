"""Shared by all tests: a persistent compilation cache, since compiling is most of their time."""

import os
from pathlib import Path

import jax
import pytest
from support.slow import mark_slow

# Programs run for moments here: compiling them must be fast, not they. Processes that tests start
# inherit this. Other versions of JAX may not know the second flag and would stop at it.
FAST_TO_COMPILE = ["--xla_backend_optimization_level=0"]
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

MOST_MAPS = 25_000  # Linux allows 65,530; one module adds up to 15,000


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


def pytest_collection_modifyitems(items):
    mark_slow(items)
