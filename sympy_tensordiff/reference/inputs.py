"""The inputs of the interpreter: arrays and numbers made exact, sizes read off the shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import product
from math import isfinite
from numbers import Rational, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import sympy
from sympy import Basic, Expr, Symbol

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, DataIndexError, ShapeError
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.reference.duals import CONTEXT, Number
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorExpr, TensorSymbol
from sympy_tensordiff.symbolic.recurrences.scans import ScanVariable

if TYPE_CHECKING:
    from numpy.typing import NDArray

ObjectArray: TypeAlias = "NDArray[np.object_]"


def tensors_of(*expressions: Basic) -> list[TensorSymbol]:
    """Return the tensor symbols in ``expressions``, sorted by name, except those that a scan (loop over time) binds."""
    nodes = nodes_in(expressions)
    found = {node for node in nodes if isinstance(node, TensorSymbol) and not isinstance(node, ScanVariable)}
    return sorted(found, key=lambda tensor: (str(tensor.args[0]), str(tensor.args[1])))


def symbols_of(*expressions: Expr) -> list[Symbol]:
    """Return the free symbols of ``expressions`` that stand for numbers (scalars, indices and sizes), sorted by
    name.
    """
    found: set[Basic] = set()
    for expression in expressions:
        found |= expression.free_symbols
    for tensor in tensors_of(*expressions):
        for extent in tensor.shape:
            found |= sympy.sympify(extent).free_symbols
    return sorted((s for s in found if isinstance(s, (Symbol, sympy.Idx))), key=str)


def to_number(value: Any, name: object = "the value") -> Number:
    """Convert ``value`` to a number: a rational exactly, any other real number to a 30-digit float. Raise
    `ArgumentTypeError`, with ``name``, if it is not real.
    """
    if isinstance(value, (CONTEXT.mpf, Fraction)):
        return value
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, (Real, np.floating)):
        return CONTEXT.mpf(float(value)) if isfinite(value) else CONTEXT.mpf(str(float(value)))
    if isinstance(value, sympy.Rational):
        return Fraction(int(value.p), int(value.q))
    if isinstance(value, Expr) and value.is_number and value.is_real:
        return CONTEXT.make_mpf(sympy.Float(value, 30)._mpf_)
    raise ArgumentTypeError(f"{name}: {value!r} is not a real number")


def to_array(tensor: TensorSymbol, value: Any) -> ObjectArray:
    """Convert nested lists or an array to an object array of exact numbers; raise an error for a wrong number of axes,
    or for a fraction in an integer tensor.
    """
    array = np.array(value, dtype=object)
    rank = len(tensor.shape)
    if array.ndim != rank:
        raise ShapeError(f"the value of {tensor} has {array.ndim} axes; its shape {tensor.shape} has {rank}")
    result = np.empty(array.shape, dtype=object)
    for index in product(*map(range, array.shape)):
        result[index] = to_number(array[index], tensor)
        if tensor.dtype is int and result[index] != int(result[index]):
            raise ArgumentTypeError(f"the entry {index} of {tensor} is {array[index]!r}, but {tensor} is of integers")
    return result


def bind_values(
    expressions: Iterable[Expr], values: Mapping[Any, Any], sizes: Mapping[Any, Any] | None
) -> tuple[dict[Basic, ObjectArray], dict[Basic, Number]]:
    """Return ``(arrays by tensor, numbers by symbol)`` for the symbols in ``expressions``, from the user's ``values``
    and ``sizes``; sizes that the shapes of the arrays determine are added.

    Raise `ArgumentError` if a tensor has no value, `ShapeError` for a wrong shape.
    """
    values_by_symbol = {sympy.sympify(key): value for key, value in {**(sizes or {}), **values}.items()}
    arrays = {key: to_array(key, value) for key, value in values_by_symbol.items() if isinstance(key, TensorSymbol)}
    numbers: dict[Basic, Number] = {
        key: _to_symbol_value(key, value) for key, value in values_by_symbol.items() if key not in arrays
    }
    for tensor in tensors_of(*expressions):
        if tensor not in arrays:
            raise ArgumentError(f"no value given for the tensor {tensor}")
    equations = [
        (sympy.sympify(extent), length, tensor)
        for tensor, array in arrays.items()
        for extent, length in zip(tensor.shape, array.shape, strict=True)
    ]
    _solve_sizes(equations, numbers)
    for tensor, array in arrays.items():
        _check_range(tensor, array, numbers)
    return arrays, numbers


def _check_range(tensor: TensorSymbol, array: ObjectArray, numbers: Mapping[Basic, Number]) -> None:
    """Raise `DataIndexError` if ``array``, the value of an integer tensor that is used as an index, has an entry
    outside of its declared range; ``numbers`` has the values of symbols.
    """
    below: Any = sympy.oo if tensor.below is None else tensor.below.subs(dict(numbers))
    for index in np.ndindex(array.shape) if below.is_Integer else ():
        if not 0 <= array[index] < below:
            raise DataIndexError(
                f"{tensor}[{', '.join(map(str, index)) or '()'}] is {array[index]}: it is declared with "
                f"below={tensor.below}, and has to be from 0 to {below - 1}; negative ones do not wrap around"
            )


def _to_symbol_value(symbol: Basic, value: Any) -> Number:
    """Convert the user's value of `symbol` to a number; raise `ArgumentTypeError` if it is a fraction and the symbol an
    integer.
    """
    number = to_number(value, symbol)
    if isinstance(symbol, Expr) and symbol.is_integer:
        if number != int(number):
            raise ArgumentTypeError(f"the integer symbol {symbol} cannot have the value {value!r}")
        return int(number)
    return number


def _solve_sizes(equations: list[tuple[Expr, int, TensorSymbol]], numbers: dict[Basic, Number]) -> None:
    """Add to ``numbers`` the sizes that axis lengths determine; raise `ShapeError` if a length contradicts them.
    ``equations`` are triples of an extent, the length of the axis and the tensor.
    """
    pending = equations
    while pending:
        unsolved = []
        for extent, length, tensor in pending:
            known = extent.subs({s: numbers[s] for s in extent.free_symbols if s in numbers})
            unknown = known.free_symbols
            if not unknown and known != length:
                raise ShapeError(f"an axis of {tensor} has length {length}; its extent {extent} is {known}")
            if len(unknown) == 1 and sympy.diff(known, *unknown, 2) == 0:
                numbers[next(iter(unknown))] = _solve_size(known, length, tensor)
            elif unknown:
                unsolved.append((extent, length, tensor))
        if len(unsolved) == len(pending):
            return  # undetermined: the interpreter raises where it needs such a size
        pending = unsolved


def _solve_size(extent: Expr, length: int, tensor: TensorSymbol) -> int:
    """Return the value of the only size in ``extent``, given the ``length`` of that axis of ``tensor``; raise
    `ShapeError` if no integer fits.
    """
    (symbol,) = extent.free_symbols
    offset = extent.subs(symbol, 0)
    solution = (length - offset) / (extent.subs(symbol, 1) - offset)
    if solution.is_integer and solution >= 0 and extent.subs(symbol, solution) == length:
        return int(solution)
    raise ShapeError(f"an axis of {tensor} has length {length}; its extent {extent} never is")


def is_tensor(expression: object) -> bool:
    """Return whether ``expression`` is a tensor. A tensor symbol without axes counts as a scalar."""
    return isinstance(expression, TensorExpr) and not (
        isinstance(expression, TensorSymbol) and len(expression.shape) == 0
    )


def is_whole(expression: object) -> bool:
    """Return whether ``expression`` is an operation on whole tensors, and neither a tensor symbol nor a
    comprehension.
    """
    return isinstance(expression, TensorExpr) and not isinstance(expression, (TensorSymbol, TensorComprehension))
