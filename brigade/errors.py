"""Mistakes that are the user's to mend: one line, no traceback, exit status 2."""


class UserError(ValueError):
    """What is wrong and what would be right, in one line."""
