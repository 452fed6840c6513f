"""Texts for Numba run as plain Python: what they mean, without the seconds that a compiler takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numba
from numba.extending import overload


def as_python(source: str) -> Callable[..., None]:
    """``run`` of a module without its decorators, which is Python; the blocks of parallel loops run backwards."""
    namespace: dict[str, Any] = {
        "prange": lambda count: reversed(range(count)),
        "overload": overload,
        "types": numba.types,
    }
    # Where a value overflows, Python raises, and compiled code has an infinite one.
    source = re.sub(r"\bmath\.(sinh|cosh)\(", r"np.\1(", source)
    exec(re.sub(r"(?m)^(@.*|from (numba|llvmlite).*)$", "", source), namespace)
    run: Callable[..., None] = namespace["run"]
    return run
