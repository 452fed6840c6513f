"""The one command of the suite: ``python -m benchmarks``."""

from __future__ import annotations

import sys

from benchmarks.environment import limit_threads, threads_of

# Libraries read their number of threads when they are imported, so it is set before anything else is.
limit_threads(threads_of(sys.argv[1:]))

from benchmarks.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
