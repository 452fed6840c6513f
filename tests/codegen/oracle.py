"""Runs programs with a backend and with the plain interpreter, and compares."""

from __future__ import annotations

from typing import Any

import numpy as np
from interpreter import Interpreter

from sympy_tensordiff.codegen.ir.programs import Program
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker
from sympy_tensordiff.codegen.run.compile import CompiledFunction
from sympy_tensordiff.codegen.run.results import fit


def expected(program: Program, arguments: list[Any]) -> list[np.ndarray]:
    """The results of the interpreter, in double precision."""
    given = list(zip(program.arguments, arguments, strict=True))
    values = {a.name: np.asarray(v, float if a.dtype == "real" else int)[()] for a, v in given}
    read = [v if a.kind == "integer" else np.asarray(v) for a, v in zip(program.arguments, arguments, strict=True)]
    return Interpreter(program, values, ArgumentChecker(program).sizes(read)).run()


def check(program: Program, backend: str, arguments: list[Any], rtol: float = 1e-11, dtype: Any = np.float64) -> None:
    """Fail where a backend disagrees with the interpreter."""
    function = CompiledFunction(program, backend)
    found = function(*arguments)
    wanted = expected(program, arguments)
    for output, value, right in zip(program.outputs, fit(program.structure, found), wanted, strict=True):
        assert value.dtype == dtype
        assert value.shape == right.shape
        scale = float(np.abs(right[np.isfinite(right)]).max(initial=1.0))
        np.testing.assert_allclose(
            value, right, rtol=rtol, atol=rtol * scale, err_msg=f"{output.name}\n{function.source}"
        )


def check_against(program: Program, other: Program, arguments: list[Any]) -> None:
    """Fail where the interpreter gives other results for ``other`` than for ``program``, bit by bit."""
    for right, value in zip(expected(program, arguments), expected(other, arguments), strict=True):
        np.testing.assert_array_equal(value, right)
