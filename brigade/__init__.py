"""Brigade: agents that keep cooperating while their world changes.

Importing this package is cheap: it loads no environment, makes no array and touches no device.
"""

from brigade.registry import get, names

__version__ = "0.1.0"
__all__ = ["__version__", "get", "names"]
