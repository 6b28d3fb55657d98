"""Shared by all tests: a persistent compilation cache, since compiling is most of their time."""

import os
from pathlib import Path

import jax
import pytest

# Programs run for moments here: compiling them must be fast, not they. Processes that tests start
# inherit this. Other versions of JAX may not know the second flag and would stop at it.
FAST_TO_COMPILE = ["--xla_backend_optimization_level=0"]
if jax.__version_info__ < (0, 11):
    FAST_TO_COMPILE.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join([*FAST_TO_COMPILE, os.environ.get("XLA_FLAGS", "")])

CACHE = Path(os.environ.get("BRIGADE_TEST_CACHE", Path(__file__).parent.parent / ".cache" / "jax"))

jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


@pytest.fixture(scope="module", autouse=True)
def let_go_of_programs():
    """XLA crashes when a process holds some thousands of compiled programs; each is a file of maps
    in memory, whose number is limited. Every module starts with none."""
    yield
    jax.clear_caches()
