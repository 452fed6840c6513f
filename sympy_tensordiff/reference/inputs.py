"""What goes into the interpreter: arrays and numbers made exact, sizes read off the shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import product
from math import isfinite
from numbers import Rational, Real
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy import Basic, Expr, Symbol

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, DataIndexError, ShapeError
from sympy_tensordiff.reference.duals import CONTEXT, Number
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorExpr, TensorSymbol
from sympy_tensordiff.symbolic.traversal import nodes_in

ObjectArray = NDArray[np.object_]


def tensors_of(*expressions: Basic) -> list[TensorSymbol]:
    """The tensor symbols that occur in some expressions, sorted by name."""
    found = {node for node in nodes_in(expressions) if isinstance(node, TensorSymbol)}
    return sorted(found, key=lambda tensor: (str(tensor.args[0]), str(tensor.args[1])))


def symbols_of(*expressions: Expr) -> list[Symbol]:
    """The scalar, index and size symbols that are free in some expressions, sorted by name."""
    found: set[Basic] = set()
    for expression in expressions:
        found |= expression.free_symbols
    for tensor in tensors_of(*expressions):
        for extent in tensor.shape:
            found |= sympy.sympify(extent).free_symbols
    return sorted((s for s in found if isinstance(s, (Symbol, sympy.Idx))), key=str)


def to_number(value: Any, name: object = "the value") -> Number:
    """A number of the interpreter: rationals exactly, everything else as a 30-digit float."""
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
    """Nested lists or an array as an object array of the interpreter's numbers."""
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


def bind(
    expressions: Iterable[Expr], values: Mapping[Any, Any], sizes: Mapping[Any, Any] | None
) -> tuple[dict[Basic, ObjectArray], dict[Basic, Number]]:
    """The arrays by tensor and the numbers by symbol, symbolic sizes included.

    Raises
    ------
    ArgumentError
        A tensor has no value, or one for which its declared shape is impossible.
    """
    given = {sympy.sympify(key): value for key, value in {**(sizes or {}), **values}.items()}
    arrays = {key: to_array(key, value) for key, value in given.items() if isinstance(key, TensorSymbol)}
    numbers: dict[Basic, Number] = {
        key: _to_symbol_value(key, value) for key, value in given.items() if key not in arrays
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
    """Refuse integers outside of the range that is declared of them."""
    below: Any = sympy.oo if tensor.below is None else tensor.below.subs(dict(numbers))
    for index in np.ndindex(array.shape) if below.is_Integer else ():
        if not 0 <= array[index] < below:
            raise DataIndexError(
                f"{tensor}[{', '.join(map(str, index)) or '()'}] is {array[index]}: it is declared with "
                f"below={tensor.below}, and has to be from 0 to {below - 1}; negative ones do not wrap around"
            )


def _to_symbol_value(symbol: Basic, value: Any) -> Number:
    number = to_number(value, symbol)
    if isinstance(symbol, Expr) and symbol.is_integer:
        if number != int(number):
            raise ArgumentTypeError(f"the integer symbol {symbol} cannot have the value {value!r}")
        return int(number)
    return number


def _solve_sizes(equations: list[tuple[Expr, int, TensorSymbol]], numbers: dict[Basic, Number]) -> None:
    """Add to ``numbers`` the sizes that the lengths of the axes determine; check all others."""
    waiting = equations
    while waiting:
        rest = []
        for extent, length, tensor in waiting:
            known = extent.subs({s: numbers[s] for s in extent.free_symbols if s in numbers})
            unknown = known.free_symbols
            if not unknown and known != length:
                raise ShapeError(f"an axis of {tensor} has length {length}; its extent {extent} is {known}")
            if len(unknown) == 1 and sympy.diff(known, *unknown, 2) == 0:
                numbers[next(iter(unknown))] = _solve_size(known, length, tensor)
            elif unknown:
                rest.append((extent, length, tensor))
        if len(rest) == len(waiting):
            return  # undetermined here: the interpreter complains where such a size is needed
        waiting = rest


def _solve_size(extent: Expr, length: int, tensor: TensorSymbol) -> int:
    (symbol,) = extent.free_symbols
    offset = extent.subs(symbol, 0)
    solution = (length - offset) / (extent.subs(symbol, 1) - offset)
    if solution.is_integer and solution >= 0 and extent.subs(symbol, solution) == length:
        return int(solution)
    raise ShapeError(f"an axis of {tensor} has length {length}; its extent {extent} never is")


def is_tensor(expression: object) -> bool:
    """Whether an expression is a tensor of rank 1 or more, or one of any rank that is no variable."""
    return isinstance(expression, TensorExpr) and not (
        isinstance(expression, TensorSymbol) and len(expression.shape) == 0
    )


def is_whole(expression: object) -> bool:
    """Whether an expression is a tensor that is computed from whole tensors."""
    return isinstance(expression, TensorExpr) and not isinstance(expression, (TensorSymbol, TensorComprehension))
