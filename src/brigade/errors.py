"""Errors that are one line, no traceback: mistakes of the user, and limits of the machine."""

import contextlib
from collections.abc import Iterator


class UserError(ValueError):
    """What is wrong and what would be right, in one line. Exit status 2."""


class MachineError(RuntimeError):
    """What this machine lacks and what would need less, in one line. Exit status 1."""


@contextlib.contextmanager
def as_user_errors() -> Iterator[None]:
    """What is wrong with settings is a mistake of the user; also a decorator."""
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise UserError(str(error)) from error
