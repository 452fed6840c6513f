"""Kernels for Numba run as plain Python from their texts: what they mean, without the seconds that a compiler takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.registry import cpu_target

from sympy_tensordiff.codegen.run import compile as compiling


class Checked(np.ndarray):
    """An array without negative positions: NumPy counts them from the end, compiled code may read elsewhere."""

    def __getitem__(self, at: Any) -> Any:
        refuse_negative(at)
        return super().__getitem__(at)

    def __setitem__(self, at: Any, value: Any) -> None:
        refuse_negative(at)
        super().__setitem__(at, value)


def refuse_negative(at: Any) -> None:
    """Raise `IndexError` for a position, or one of several, below zero."""
    for position in at if isinstance(at, tuple) else (at,):
        if isinstance(position, int | np.integer) and position < 0:
            raise IndexError(f"a kernel reads or writes at the negative position {at}")


class CheckedNumPy(ModuleType):
    """NumPy as a kernel sees it, whose new arrays are checked as well."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        found = checking(found) if name in ("empty", "zeros", "ones", "full") else found
        setattr(self, name, found)  # found without a call from now on
        return found


@cache
def checking(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes arrays, which are checked."""
    return lambda *args, **options: make(*args, **options).view(Checked)


def as_compiled(function: Callable[..., float]) -> Callable[..., float]:
    """A function of `math` that is NaN outside of its domain, as in compiled code, where Python raises."""

    def compiled(*args: float) -> float:
        try:
            return function(*args)
        except ValueError:
            return math.nan

    return compiled


@contextmanager
def run_as_python() -> Iterator[None]:
    """Load what is compiled from here on as Python; what has been loaded before stays as it is."""
    cpu_target.typing_context.refresh()  # Numba looks functions of `math` up by name when it is first used
    cpu_target.target_context.refresh()
    load, run = compiling.load_source, compiling.CompiledFunction._run_translating_errors

    def load_python(source: str, versions: str, own: bool = False, on_disk: bool = True) -> ModuleType:
        if "@njit" not in source:
            return load(source, versions, own, on_disk)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numba.config, "DISABLE_JIT", 1)
            module = load(source, f"{versions}, as Python", own, on_disk)
        if hasattr(module, "np"):
            module.np = CheckedNumPy("numpy")  # type: ignore[attr-defined]
        return module

    def run_checked(self: Any, kernel: Any, values: Any, results: Any) -> None:
        if self.backend in ("llvm", "numba"):
            values, results = (
                [each.view(Checked) if type(each) is np.ndarray and each.ndim else each for each in arrays]
                for arrays in (values, results)
            )
        with np.errstate(all="ignore"):
            run(self, kernel, values, results)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("sqrt", "log", "sin", "cos", "tan"):  # a choice that is not taken may ask for these
            patch.setattr(math, name, as_compiled(getattr(math, name)))
        patch.setattr(compiling, "load_source", load_python)
        patch.setattr(compiling.CompiledFunction, "_run_translating_errors", run_checked)
        patch.setattr(compiling.CompiledFunction, "_load_llvm", lambda *given: None)  # the text for Numba instead
        yield


def numba_as_python(backend: str) -> AbstractContextManager[None]:
    """Run Numba's texts as Python if that is the ``backend``: LLVM's code, of the same loops, stands for what compilers
    make of them.
    """
    return run_as_python() if backend == "numba" else nullcontext()
