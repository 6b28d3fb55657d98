"""Errors of the command line, each printed as one line."""

from __future__ import annotations

import os
import re
import sys

from brigade.errors import MachineError, UserError

# What to change when the device is out of memory, by verb.
LESS_MEMORY = {"crossplay": "reduce --episodes", "bench": "reduce --num-envs"}
RUN_LESS_MEMORY = "reduce --num-envs or --seeds, or increase --ppo.minibatches"
MAX_LINE = 2000  # characters
# Programs that run asynchronously report it as an INTERNAL error that only says it in words.
OUT_OF_MEMORY = re.compile("RESOURCE_EXHAUSTED|out[ _]of[ _]memory", re.IGNORECASE)

# Errors of agents reach us in the text of JAX's own error.
AGENT_ERROR = re.compile(r"^(?:brigade\.errors\.)?UserError: (.*)$", re.MULTILINE)


def print_line(line: str) -> None:
    """Print one line on standard error, without control characters that a file may contain."""
    words = " ".join(line.split())
    plain = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in words)
    cut = plain if len(plain) <= MAX_LINE else f"{plain[:MAX_LINE]}..."
    print(f"brigade: {cut}", file=sys.stderr)


def in_one_line(error: BaseException, verb: str) -> tuple[str, int] | None:
    """What to say of an error and the exit status; None for a mistake of ours."""
    match error:
        case UserError():
            return str(error), 2
        case KeyboardInterrupt():
            return str(error) or "stopped", 130
        case OSError():
            return f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), 1
        case MemoryError():
            return f"this machine is out of memory ({error}); {less_memory(verb)}", 1
        case RuntimeError() | AssertionError():
            if found := AGENT_ERROR.search(str(error)):
                return found.group(1), 2
            message = device_error(error, verb)
            return None if message is None else (message, 1)
    return None


def device_error(error: Exception, verb: str) -> str | None:
    """The message for an error of the device (no memory, no device); None for any other error."""
    if isinstance(error, MachineError):
        return str(error)
    if found := OUT_OF_MEMORY.search(str(error)):
        reason = first_sentence(str(error)[found.start() :])
        return f"the device is out of memory ({reason}); {less_memory(verb)}"
    if not has_device():
        platforms = os.environ.get("JAX_PLATFORMS", "not set")
        reason = f", {first_sentence(str(error))}" if str(error) else ""
        return (
            f"JAX finds no device to use (JAX_PLATFORMS is {platforms}{reason}); "
            "set JAX_PLATFORMS=cpu to run on the CPU"
        )
    return None


def less_memory(verb: str) -> str:
    """What to change when memory does not suffice."""
    return LESS_MEMORY.get(verb, RUN_LESS_MEMORY)


def first_sentence(text: str) -> str:
    """The first line of an error message of JAX, without the advice in parentheses."""
    return text.partition("\n")[0].partition(" (")[0].rstrip(". ")


def has_device() -> bool:
    """Whether JAX has a device to compute on; True if JAX has not been imported."""
    jax = sys.modules.get("jax")
    try:
        return jax is None or bool(jax.devices())
    except (RuntimeError, AssertionError):  # some versions raise the latter, without a message
        return False
