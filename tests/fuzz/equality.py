"""Values against those of the oracle: exact where they are rational, else relative to the largest entry."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from sympy import Expr, Symbol

from sympy_tensordiff.errors import DerivativeMismatch
from sympy_tensordiff.reference.duals import to_float
from sympy_tensordiff.reference.inputs import is_whole, to_number
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors.einsum import EinsumProduct
from sympy_tensordiff.testing.values import shape_of

# 30-digit floats on both sides; what is lost is lost in long sums.
_PRECISE = 1e-20
# Entries this small may be what is left of larger ones that cancel.
_TINY = 1e-6


def assert_equal(got: Any, expected: Any, what: str, rtol: float = _PRECISE) -> None:
    """Raise `DerivativeMismatch` with the worst entry where two values differ.

    Fractions are compared exactly, everything else relative to the largest entry.
    """
    got, expected = np.asarray(got, dtype=object), np.asarray(expected, dtype=object)
    if got.shape != expected.shape:
        raise DerivativeMismatch(f"{what}: shape {got.shape}, expected {expected.shape}")
    # Entries may be beyond the range of machine numbers.
    scale = max((abs(to_float(to_number(e, what))) for e in expected.flat), default=to_float(0))
    worst, where = 0.0, None
    for position in np.ndindex(expected.shape):
        error = _difference(to_number(got[position], what), to_number(expected[position], what), scale, rtol)
        if error > worst:
            worst, where = error, position
    if where is not None:
        message = f"{what}: entry {where} is {got[where]}, expected {expected[where]}, error {worst:.3g}"
        raise DerivativeMismatch(message)


def _difference(got: Any, expected: Any, scale: Any, rtol: float) -> float:
    """The error of an entry relative to the largest one; 0 where it is within the tolerance."""
    if got == expected or (got != got and expected != expected):
        return 0.0
    distance = abs(to_float(got) - to_float(expected))
    error = float(distance / max(scale, _TINY))
    if isinstance(got, Fraction) and isinstance(expected, Fraction):
        return error or float("inf")
    if error != error:
        return float("inf")
    return 0.0 if error <= rtol else error


def as_scalar(expression: Expr, cotangent: TensorSymbol) -> Expr:
    """The scalar function that contracts an expression with a cotangent, in the notation of the expression."""
    shape = shape_of(expression)
    if not shape:
        return cotangent * expression
    if is_whole(expression):
        labels = "abcdefgh"[: len(shape)]
        product: Expr = EinsumProduct(f"{labels},{labels}->", cotangent, expression)
        return product
    axes = [Symbol(f"axis{n}", integer=True) for n in range(len(shape))]
    limits = [(axis, 0, extent - 1) for axis, extent in zip(axes, shape, strict=True)]
    return IndexedSum(cotangent[tuple(axes)] * expression[tuple(axes)], *limits)
