"""How the interpreter computes whole tensors: all entries at once, from the arrays of the operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from itertools import combinations, product
from typing import Any, Protocol, TypeAlias

import numpy as np
from sympy import Basic, Expr

from sympy_tensordiff.errors import ArgumentError, ShapeError
from sympy_tensordiff.reference.duals import (
    CONTEXT,
    Number,
    add,
    compare,
    exponential,
    logarithm,
    multiply,
    power,
    primal,
)
from sympy_tensordiff.reference.inputs import ObjectArray
from sympy_tensordiff.reference.scalars import Compiled, Environment
from sympy_tensordiff.symbolic.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow
from sympy_tensordiff.symbolic.matrix_functions import (
    TensorAdjugate,
    TensorCofactor,
    TensorDeterminant,
    TensorInverse,
    TensorLogSumExp,
)


class Interpreter(Protocol):
    """What is needed of the interpreter."""

    def compile(self, node: Basic) -> Compiled: ...

    def shape(self, tensor: Any) -> Callable[[Environment], tuple[int, ...]]: ...

    def array(self, node: Any, env: Environment) -> ObjectArray: ...


Rule: TypeAlias = Callable[[Interpreter, Any, Environment], ObjectArray]


def _elementwise(
    interpreter: Interpreter, function: Callable[[list[Number]], Number], nodes: Iterable[Expr], env: Environment
) -> ObjectArray:
    """A function of the entries at each position; scalars stand at all positions.

    Where it divides by 0 there is NaN: a choice may leave it out.
    """
    arrays = [interpreter.array(node, env) for node in nodes]
    shapes = {array.shape for array in arrays if array.ndim}
    if len(shapes) > 1:
        raise ShapeError(f"the operands of an element-wise operation have the shapes {sorted(shapes)}")
    result = np.empty(next(iter(shapes), ()), dtype=object)
    for position in np.ndindex(result.shape):
        try:
            result[position] = function([array[position] if array.ndim else array[()] for array in arrays])
        except ZeroDivisionError:
            result[position] = CONTEXT.nan
    return result


def _einsum(interpreter: Interpreter, node: EinsumProduct, env: Environment) -> ObjectArray:
    left, output = node.subscripts.split("->")
    inputs, arrays = left.split(","), [interpreter.array(operand, env) for operand in node.args[1:]]
    lengths: dict[str, int] = {}
    for labels, array in zip(inputs, arrays, strict=True):
        for label, length in zip(labels, array.shape, strict=True):
            if lengths.setdefault(label, length) != length:
                raise ShapeError(
                    f"the axes {label} of {node.subscripts} have the lengths {lengths[label]} and {length}"
                )
    order = [*output, *(label for label in lengths if label not in output)]
    reads = [(array, [order.index(label) for label in labels]) for labels, array in zip(inputs, arrays, strict=True)]
    result = np.full([lengths[label] for label in output], 0, dtype=object)
    for position in product(*(range(lengths[label]) for label in order)):
        term: Number = 1
        for array, axes in reads:
            term = multiply(term, array[tuple([position[axis] for axis in axes])])
        target = position[: len(output)]
        result[target] = add(result[target], term)
    return result


def _delta(interpreter: Interpreter, node: DeltaTensor, env: Environment) -> ObjectArray:
    shape = interpreter.shape(node)(env)
    result = np.full(shape, 0, dtype=object)
    for position in np.ndindex(shape[: len(shape) // 2]):
        result[position + position] = 1
    return result


def _filled(interpreter: Interpreter, node: FilledTensor, env: Environment) -> ObjectArray:
    return np.full(interpreter.shape(node)(env), interpreter.array(node.args[0], env)[()], dtype=object)


def _entrywise(function: Callable[..., Number]) -> Rule:
    """The rule of a function of the entries at each position."""
    return lambda interpreter, node, env: _elementwise(interpreter, lambda numbers: function(*numbers), node.args, env)


def _of_matrix(function: Callable[..., ObjectArray]) -> Rule:
    """The rule of a function of a matrix, of each in the last two axes; arguments before the matrix come after it."""
    return lambda interpreter, node, env: _of_each(
        lambda matrix: function(matrix, *node.args[:-1]), interpreter.array(node.args[-1], env)
    )


def _of_each(function: Callable[[ObjectArray], ObjectArray], array: ObjectArray) -> ObjectArray:
    if array.ndim == 2:
        return function(array)
    found = [np.asarray(function(matrix), dtype=object) for matrix in array.reshape(-1, *array.shape[-2:])]
    return np.stack(found).reshape(array.shape[:-2] + found[0].shape)


def _function(interpreter: Interpreter, node: TensorFunction, env: Environment) -> ObjectArray:
    template, *operands = node.args
    entry = interpreter.compile(template.expr)
    parameters = template.variables
    return _elementwise(interpreter, lambda n: entry({**env, **dict(zip(parameters, n, strict=True))}), operands, env)


def _log_sum_exp(interpreter: Interpreter, node: TensorLogSumExp, env: Environment) -> ObjectArray:
    array = interpreter.array(node.args[0], env)
    axes = [int(axis) for axis in node.args[1]]
    last = np.moveaxis(array, axes, range(-len(axes), 0))
    kept = last.shape[: last.ndim - len(axes)]
    result = np.empty(kept, dtype=object)
    for position in np.ndindex(kept):
        numbers = list(last[position].flat) if axes else [last[position]]
        if not numbers:
            result[position] = -CONTEXT.inf
            continue
        # A constant, which has no derivative and cancels exactly.
        largest = reduce(lambda a, b: a if compare(a, b) >= 0 else b, map(primal, numbers))
        total = reduce(add, (exponential(add(number, multiply(-1, largest))) for number in numbers))
        result[position] = add(largest, logarithm(total))
    return result


# ---------------------------------------------------------------------------- matrices


def determinant(matrix: ObjectArray) -> Number:
    """The determinant by Laplace's expansion, every minor once.

    Nothing is divided by, so that its derivatives are exact at singular matrices, too.
    """
    n = len(matrix)
    # From the last row up: the minors of the rows from `row` on, by their columns.
    minors: dict[tuple[int, ...], Number] = {(): 1}
    for row in reversed(range(n)):
        minors = {columns: _expand(matrix[row], columns, minors) for columns in combinations(range(n), n - row)}
    return minors[tuple(range(n))]


def _expand(row: ObjectArray, columns: tuple[int, ...], minors: dict[tuple[int, ...], Number]) -> Number:
    total: Number = 0
    for place, column in enumerate(columns):
        minor = minors[columns[:place] + columns[place + 1 :]]
        total = add(total, multiply((-1) ** place, multiply(row[column], minor)))
    return total


def cofactors(order: int, matrix: ObjectArray) -> ObjectArray:
    """All derivatives of that order of the determinant by entries: axes row, column, row, column, …

    An entry is the determinant of the matrix without these rows and columns, with the sign of the
    permutation that brings them to the front; 0 where a row or a column is there twice.
    """
    result = np.full(matrix.shape * order, 0, dtype=object)
    known: dict[tuple[frozenset[int], frozenset[int]], Number] = {}
    for position in np.ndindex(result.shape):
        rows, columns = position[::2], position[1::2]
        key = frozenset(rows), frozenset(columns)
        if len(key[0]) < order or len(key[1]) < order:
            continue
        if key not in known:
            known[key] = determinant(np.delete(np.delete(matrix, rows, axis=0), columns, axis=1))
        sign = (-1) ** (sum(position) + _inversions(rows) + _inversions(columns))
        result[position] = multiply(sign, known[key])
    return result


def _inversions(numbers: Sequence[int]) -> int:
    return sum(first > second for first, second in combinations(numbers, 2))


def inverse(matrix: ObjectArray) -> ObjectArray:
    """The adjugate over the determinant.

    Raises
    ------
    ArgumentError
        The matrix is singular.
    """
    whole = determinant(matrix)
    if primal(whole) == 0:
        raise ArgumentError(f"the matrix of which the inverse is needed is singular: {matrix.tolist()}")
    return np.frompyfunc(partial(multiply, power(whole, -1)), 1, 1)(cofactors(1, matrix).T)


RULES: dict[type, Rule] = {
    EinsumProduct: _einsum,
    DeltaTensor: _delta,
    FilledTensor: _filled,
    TensorAdd: _entrywise(lambda *terms: reduce(add, terms)),
    TensorMul: _entrywise(lambda *factors: reduce(multiply, factors)),
    TensorPow: _entrywise(power),
    TensorFunction: _function,
    TensorInverse: _of_matrix(inverse),
    TensorDeterminant: _of_matrix(lambda matrix: cofactors(0, matrix)),
    TensorAdjugate: _of_matrix(lambda matrix: cofactors(1, matrix).T),
    TensorCofactor: _of_matrix(lambda matrix, order: cofactors(int(order), matrix)),
    TensorLogSumExp: _log_sum_exp,
}
