"""Elementary functions and helpers that all kernels for Numba share in a run of tests: each is compiled once."""

from __future__ import annotations

import re
import sys
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from sympy_tensordiff.codegen.emit.elementary import FUNCTIONS, PARAMETERS, elementary_functions
from sympy_tensordiff.codegen.emit.numba_cpu import HELPERS
from sympy_tensordiff.codegen.run import compile as compiling


@cache
def library() -> ModuleType:
    """Return a module with all elementary functions; their texts are those of each generated module."""
    import math

    import numba
    import numba.extending
    import numpy as np

    found = ModuleType("shared_elementary_functions")
    found.__dict__.update(math=math, np=np, types=numba.types, overload=numba.extending.overload)
    calls = [f"{name}({', '.join(PARAMETERS[name])})" for name in FUNCTIONS]
    exec("\n\n".join(elementary_functions(calls)), found.__dict__)
    return found


HELPER = re.compile(
    rf"^@register_jitable\(.*\)\ndef ({'|'.join(['plus', 'at', *HELPERS])})\((?:.|\n)*?(?=\n\n\n|\Z)", re.M
)
"""The text of a helper in a generated module, from its decorator to its end."""


@cache
def helper(text: str, name: str) -> Any:
    """Return the helper with a text and a name."""
    import numba.extending

    found = ModuleType(f"shared_helper_{name}")
    found.__dict__.update(vars(library()), register_jitable=numba.extending.register_jitable)
    exec(text, found.__dict__)
    return getattr(found, name)


def with_shared_functions(module: Any, source: str) -> Any:
    """Replace the elementary functions and helpers of a generated module by shared ones, and return the module."""
    for name in FUNCTIONS:
        if hasattr(module, f"{name}_double"):
            setattr(module, name, getattr(library(), name))
    for found in HELPER.finditer(source):
        setattr(module, found[1], helper(found[0], found[1]))
    return module


def install(patch: pytest.MonkeyPatch) -> None:
    """Share elementary functions among all modules loaded from here on, except those that run as Python."""
    load = compiling.load_source

    def loaded(source: str, *given: Any) -> ModuleType:
        module = load(source, *given)
        if "\n@register_jitable(" in source and not sys.modules["numba"].config.DISABLE_JIT:
            return with_shared_functions(module, source)
        return module

    patch.setattr(compiling, "load_source", loaded)
