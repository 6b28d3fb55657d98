"""Shared by all tests: a persistent compilation cache, since compiling is most of their time."""

import os
from pathlib import Path

import jax
import pytest

CACHE = Path(os.environ.get("BRIGADE_TEST_CACHE", Path(__file__).parent.parent / ".cache" / "jax"))

jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


@pytest.fixture(scope="module", autouse=True)
def let_go_of_programs():
    """XLA crashes when a process holds some thousands of compiled programs; each is a file of maps
    in memory, whose number is limited. Every module starts with none."""
    yield
    jax.clear_caches()
