"""``python -m benchmarks.practice``: functions of published practice, timed in pairs with JAX on one core."""

from __future__ import annotations

import os
import sys
import tempfile

from benchmarks.environment import limit_threads

# Before anything is imported: one thread, and an empty cache of kernels, so that first calls compile.
limit_threads(1)
with tempfile.TemporaryDirectory() as folder:
    os.environ["SYMPY_TENSORDIFF_CACHE"] = folder
    from benchmarks.practice.command import main

    status = main(sys.argv[1:])
sys.exit(status)
