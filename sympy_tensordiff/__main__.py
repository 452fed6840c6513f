"""``python -m sympy_tensordiff``: see `sympy_tensordiff.app.command_line`."""

import sys

from sympy_tensordiff.app.command_line import main

if __name__ == "__main__":
    sys.exit(main())
