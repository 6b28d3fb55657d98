"""The command `brigade`."""

from __future__ import annotations

import argparse
import sys

from brigade import __version__
from brigade.registry import KINDS, UnknownNameError, names


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; a mistake is one line on standard error and exit status 2."""
    parser = argparse.ArgumentParser(
        prog="brigade", description="Agents that keep cooperating while their world changes."
    )
    parser.add_argument("--version", action="version", version=f"brigade {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="show what can be used by name")
    listing.add_argument("kind", nargs="?", help=f"one of {', '.join(KINDS)}; all when left out")
    args = parser.parse_args(arguments)
    try:
        print_names([args.kind] if args.kind else list(KINDS))
    except UnknownNameError as error:
        print(f"brigade: {error}", file=sys.stderr)
        return 2
    return 0


def print_names(kinds: list[str]) -> None:
    """The names of each kind; nothing is imported to list them."""
    for kind in kinds:
        print(f"{kind}:")
        for name in names(kind):
            print(f"  {name}")


if __name__ == "__main__":
    sys.exit(main())
