"""``python -m benchmarks.history``: write docs/history.md and its plot from the files of all runs."""

from __future__ import annotations

import sys

from benchmarks.history.page import write

if __name__ == "__main__":
    write()
    sys.exit(0)
