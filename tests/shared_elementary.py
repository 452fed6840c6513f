"""Elementary functions that all kernels for Numba share in a run of tests: each is compiled once."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from sympy_tensordiff.codegen.emit.elementary import FUNCTIONS, PARAMETERS, elementary_functions
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


def with_shared_functions(module: Any) -> Any:
    """Replace the elementary functions of a generated module by those of the library, and return the module."""
    for name in FUNCTIONS:
        if hasattr(module, f"{name}_double"):
            setattr(module, name, getattr(library(), name))
    return module


def install(patch: pytest.MonkeyPatch) -> None:
    """Share elementary functions among all modules loaded from here on, except those that run as Python."""
    load = compiling.load_source

    def loaded(source: str, *given: Any) -> ModuleType:
        module = load(source, *given)
        if "\ndef elementary(" in source and not sys.modules["numba"].config.DISABLE_JIT:
            return with_shared_functions(module)
        return module

    patch.setattr(compiling, "load_source", loaded)
