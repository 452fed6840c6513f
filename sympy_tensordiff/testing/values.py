"""Random inputs, the way of the oracle's inputs into a kernel, and values beside those of the oracle."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy import Basic, Expr, Symbol

from sympy_tensordiff.errors import ArgumentError, DerivativeMismatch
from sympy_tensordiff.reference import symbols_of, tensors_of
from sympy_tensordiff.reference.duals import to_float
from sympy_tensordiff.reference.inputs import is_whole, to_number
from sympy_tensordiff.symbolic.einsum import EinsumProduct
from sympy_tensordiff.symbolic.indices import integers_by_use
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.testing.integer_data import data_ranges

# Numerators over this give numbers that a double holds exactly, so the kernels and the oracle
# start from the same inputs; odd numerators keep away from 0.
_DENOMINATOR = 16
MOST = 10**8
"""For no larger tensor are values drawn."""


def as_expressions(expression: Any) -> tuple[Expr, ...]:
    """One expression or several, as a tuple."""
    several = isinstance(expression, (tuple, list, sympy.Tuple))
    return tuple(sympy.sympify(e) for e in (expression if several else (expression,)))


def size_symbols(*expressions: Expr) -> list[Basic]:
    """The integer symbols of some expressions: sizes and free indices, by name."""
    used = integers_by_use(expressions)
    return [s for s in symbols_of(*expressions) if isinstance(s, Expr) and (s.is_integer or s in used)]


def shape_of(expression: Expr) -> tuple[Expr, ...]:
    """The shape of an expression, ``()`` for a scalar."""
    return tuple(sympy.sympify(extent) for extent in getattr(expression, "shape", ()))


def concrete_shape(tensor: Expr, sizes: Mapping[Any, Any]) -> tuple[int, ...]:
    """The shape of a tensor where its symbolic sizes have values."""
    extents = []
    for extent in shape_of(tensor):
        known = {s: int(sizes[s]) for s in extent.free_symbols if s in sizes}
        extents.append(extent.subs(known))
    for extent in extents:
        if not extent.is_Integer:
            raise ArgumentError(f"{tensor}: no value given for {sorted(map(str, extent.free_symbols))}; pass sizes=")
    return tuple(int(extent) for extent in extents)


def random_values(
    expressions: Any,
    sizes: Mapping[Any, int] | None = None,
    seed: int = 0,
    kind: Literal["rational", "float"] = "rational",
    *,
    low: float = -2,
    high: float = 2,
    given: Mapping[Any, Any] | None = None,
) -> dict[Any, Any]:
    """Random values for all tensors and scalar symbols of some expressions, the sizes included.

    Integers that select what is read keep all reads inside of their shapes (`integer_data`).

    Parameters
    ----------
    expressions : expression, or tuple of expressions and symbols
    sizes : mapping, optional
        The integer symbols: sizes of tensors and free indices.
    seed : int
    kind : {"rational", "float"}
        Fractions with a power of two below, which a double holds exactly, or doubles.
    low, high : float
        The range; rational values are never 0.
    given : mapping, optional
        Values that are not drawn.
    """
    expressions = as_expressions(expressions)
    generator = random.Random(seed)

    def number() -> Fraction | float:
        if kind == "float":
            return generator.uniform(low, high)
        odd = 2 * generator.randrange(int(low * _DENOMINATOR) // 2, int(high * _DENOMINATOR) // 2) + 1
        return Fraction(odd, _DENOMINATOR)

    known = dict(sizes or {})
    values: dict[Any, Any] = dict(given or {})
    tensors = [tensor for tensor in tensors_of(*expressions) if tensor not in values]
    ranges = data_ranges(expressions, known) if any(tensor.dtype is int for tensor in tensors) else {}
    for tensor in tensors:
        shape = concrete_shape(tensor, known)
        if math.prod(shape) > MOST:
            raise ArgumentError(
                f"{tensor} has {math.prod(shape):,} entries, and random values are drawn for at most {MOST:,}; take "
                "smaller sizes"
            )
        if tensor.dtype is int:
            draws = [generator.randint(*ranges[tensor.name]) for _ in np.ndindex(shape)]
            values[tensor] = np.array(draws, dtype=np.int64).reshape(shape)
            continue
        array = np.empty(shape, dtype=object if kind == "rational" else np.float64)
        for position in np.ndindex(shape):
            array[position] = number()
        values[tensor] = _as_declared(tensor, array)
    integers = size_symbols(*expressions)
    for symbol in symbols_of(*expressions):
        if symbol in values:
            continue
        if symbol in known:
            values[symbol] = known[symbol]
        elif symbol in integers:
            raise ArgumentError(f"no value given for the integer symbol {symbol}; pass sizes=")
        else:
            values[symbol] = number()
    return values


def _as_declared(tensor: TensorSymbol, array: NDArray[Any]) -> NDArray[Any]:
    """Random numbers as a symmetric matrix, and a positive definite one, where the tensor is declared to be that."""
    if not tensor.symmetric:
        return array
    array = np.triu(array) + np.triu(array, 1).T
    if tensor.positive:
        np.fill_diagonal(array, abs(array).sum(axis=1) + 1)
    return array


def to_double(value: Any) -> NDArray[np.float64]:
    """A result of the oracle, or an input of it, in double precision."""
    return np.asarray(value, dtype=object).astype(np.float64)


def determined_sizes(extents: Iterable[Expr]) -> set[Basic]:
    """The size symbols that the lengths of axes of these extents determine, one after the other.

    >>> N, M = sympy.symbols("N M", integer=True)
    >>> sorted(map(str, determined_sizes([N*M, N + 1]))), determined_sizes([N*M, N**2])
    (['M', 'N'], set())
    """
    known: set[Basic] = set()
    waiting = list(extents)
    while True:
        unknown = [(extent, sympy.sympify(extent).free_symbols - known) for extent in waiting]
        found = [s for extent, (s,) in ((e, u) for e, u in unknown if len(u) == 1) if sympy.diff(extent, s, 2) == 0]
        if not found:
            return known
        known.update(found)


def call_arguments(expressions: Any, values: Mapping[Any, Any]) -> tuple[list[Basic], list[Any]]:
    """The arguments of a kernel, as symbols and as values: tensors, scalars, then integers.

    Sizes that the shapes of the tensors determine are left out.
    """
    expressions = as_expressions(expressions)
    tensors: Sequence[TensorSymbol] = tensors_of(*expressions)
    determined = determined_sizes(extent for tensor in tensors for extent in tensor.shape)
    symbols = [s for s in symbols_of(*expressions) if s not in determined]
    sizes = size_symbols(*expressions)
    reals, integers = ([s for s in symbols if (s in sizes) is whole] for whole in (False, True))
    arrays = [np.asarray(values[t], np.int64) if t.dtype is int else to_double(values[t]) for t in tensors]
    scalars = [float(values[s]) for s in reals]
    return [*tensors, *reals, *integers], [*arrays, *scalars, *(int(values[s]) for s in integers)]


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
    scale = max((abs(float(e)) for e in expected.flat), default=0.0)
    worst, where = 0.0, None
    for position in np.ndindex(expected.shape):
        error = _difference(to_number(got[position], what), to_number(expected[position], what), scale, rtol)
        if error > worst:
            worst, where = error, position
    if where is not None:
        message = f"{what}: entry {where} is {got[where]}, expected {expected[where]}, error {worst:.3g}"
        raise DerivativeMismatch(message)


def _difference(got: Any, expected: Any, scale: float, rtol: float) -> float:
    """The error of an entry relative to the largest one; 0 where it is within the tolerance."""
    if got == expected or (got != got and expected != expected):
        return 0.0
    distance = abs(float(to_float(got) - to_float(expected)))
    error = distance / max(scale, _TINY)
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
