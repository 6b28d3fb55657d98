"""How the programs of a run are compiled."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import jax

# For NVIDIA GPUs; other backends ignore them. cuBLAS is as fast as the Triton kernels XLA would try
# out here, and trying them takes half of the time that compiling takes. Merging the first layers of
# actor and critic costs more in copies than it saves in reading.
OPTIONS: dict[str, Any] = {
    "xla_gpu_enable_triton_gemm": False,
    "xla_gpu_dot_merger_threshold_mb": 0,
}

jit = partial(jax.jit, compiler_options=OPTIONS)


def keep_programs() -> None:
    """Keep compiled programs in the user's cache folder, for the next command to start with."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    jax.config.update("jax_compilation_cache_dir", str(home / "brigade" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def unroll(steps: int) -> int:
    """How many steps of a loop to compile in a row. Every turn of a loop costs a GPU some 20 us; a
    CPU gains nothing and would compile longer."""
    return 1 if jax.default_backend() == "cpu" else steps
