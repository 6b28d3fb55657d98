"""Compiler options, the compilation cache and loop unrolling."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import jax

# For NVIDIA GPUs; other backends ignore them. Triton's matrix products are no faster than cuBLAS's
# here, and autotuning them takes half of the compile time. Merging the first layers of actor and
# critic costs more in copies than it saves in reads.
OPTIONS: dict[str, Any] = {
    "xla_gpu_enable_triton_gemm": False,
    "xla_gpu_dot_merger_threshold_mb": 0,
}

jit = partial(jax.jit, compiler_options=OPTIONS)


def cache_folder() -> Path:
    """Where compiled programs are kept."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return home / "brigade" / "jax"


def keep_programs() -> None:
    """Cache compiled programs in the user's cache folder, so that later commands start faster."""
    jax.config.update("jax_compilation_cache_dir", str(cache_folder()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def unroll(steps: int) -> int:
    """How many iterations of a scan to unroll: `steps`, or 1 on a CPU.

    An iteration has an overhead of about 20 us on a GPU. A CPU would only compile longer.
    """
    return 1 if jax.default_backend() == "cpu" else steps
