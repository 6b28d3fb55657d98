"""`python -m brigade`: the command line, where its script is not on the path."""

import sys

from brigade.cli import main

if __name__ == "__main__":
    sys.exit(main())
