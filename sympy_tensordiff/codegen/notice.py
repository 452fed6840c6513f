"""One line on a terminal while Numba compiles for more than two seconds."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

NOTICE = "SYMPY_TENSORDIFF_NOTICE"
"""The environment variable that is ``off`` where nothing is to be said."""

PATIENCE = 2.0
"""Seconds without a word."""


@contextlib.contextmanager
def noticed(kernels: int) -> Iterator[None]:
    """Say on the terminal that so many kernels are being compiled, if that takes long; elsewhere nothing."""
    if os.environ.get(NOTICE) == "off" or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    text = f"sympy_tensordiff: compiling {kernels} kernel{'s' * (kernels != 1)}, once ({NOTICE}=off silences this)"
    timer = threading.Timer(PATIENCE, print, [text], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
