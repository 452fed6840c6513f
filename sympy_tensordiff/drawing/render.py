"""Pictures by the program ``dot`` of graphviz."""

from __future__ import annotations

import shutil
import subprocess

from sympy_tensordiff.errors import BackendError, UnsupportedError

LARGEST = 2000
"""Nodes of a picture; the layout of larger ones takes minutes, and nobody can read them."""

SECONDS = 60
"""The longest time a layout may take."""


NOTEBOOK_SECONDS = 5
"""The same where nobody has asked for the picture."""

ROUGH = 200
"""Larger pictures are laid out with less care, which takes a fraction of the time."""


def rendered(source: str, size: int, kind: str, seconds: float | None = None) -> bytes:
    """The picture of ``size`` nodes as "svg" or "png", in so many seconds.

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
    seconds = SECONDS if seconds is None else seconds
    options = [f"-T{kind}"]
    if size > ROUGH:
        options += ["-Gnslimit=2", "-Gnslimit1=2", "-Gmclimit=0.2"]
    try:
        done = subprocess.run([program, *options], input=source.encode(), capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise UnsupportedError(f"the layout of {size} nodes takes dot longer than {seconds} s: {way_out}") from None
    if done.returncode != 0 or not done.stdout:
        problem = done.stderr.decode(errors="replace").strip()[:300]
        raise BackendError(f"{program} has drawn nothing (exit code {done.returncode}): {problem}")
    return done.stdout
