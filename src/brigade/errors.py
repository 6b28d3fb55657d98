"""Errors that are one line, no traceback: mistakes of the user, and limits of the machine."""


class UserError(ValueError):
    """What is wrong and what would be right, in one line. Exit status 2."""


class MachineError(RuntimeError):
    """What this machine lacks and what would need less, in one line. Exit status 1."""
