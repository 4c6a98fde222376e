"""`python -m spector` is the command `spector`."""

import sys

from spector.cli import main

if __name__ == "__main__":
    sys.exit(main())
