"""Pictures by the program ``dot`` of graphviz."""

from __future__ import annotations

import shutil
import subprocess

from sympy_tensordiff.errors import BackendError, UnsupportedError

LARGEST = 2000
"""Nodes of a picture; the layout of larger ones takes minutes, and nobody can read them."""

SECONDS = 60
"""The longest time a layout may take."""


def is_available() -> bool:
    """Whether ``dot`` is there."""
    return shutil.which("dot") is not None


def rendered(source: str, size: int, kind: str) -> bytes:
    """The picture of ``size`` nodes as "svg" or "png".

    Raises
    ------
    BackendError
        If ``dot`` is not installed, or fails.
    UnsupportedError
        If the picture is too large, or its layout takes too long.
    """
    way_out = "its text (str) and its .source need no layout; or draw a part of the expression"
    if size > LARGEST:
        raise UnsupportedError(f"a picture of {size} nodes is larger than {LARGEST}: {way_out}")
    program = shutil.which("dot")
    if program is None:
        raise BackendError(
            f"{kind} pictures need the program dot: install graphviz (https://graphviz.org), or save as .txt or .dot"
        )
    try:
        done = subprocess.run(
            [program, f"-T{kind}", "-Gcharset=utf-8"], input=source.encode(), capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise UnsupportedError(f"the layout of {size} nodes takes dot longer than {SECONDS} s: {way_out}") from None
    if done.returncode != 0 or not done.stdout:
        problem = done.stderr.decode(errors="replace").strip()[:300]
        raise BackendError(f"{program} has drawn nothing (exit code {done.returncode}): {problem}")
    return done.stdout
