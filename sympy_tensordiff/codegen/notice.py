"""One line on a terminal about work that takes more than two seconds."""

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
def noticed(work: str) -> Iterator[None]:
    """Name the work on the terminal, if it takes long; elsewhere say nothing."""
    if os.environ.get(NOTICE) == "off" or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    text = f"sympy_tensordiff: {work}, once ({NOTICE}=off silences this)"
    timer = threading.Timer(PATIENCE, print, [text], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
