"""Rules of the interpreter for whole tensors: all entries at once, from the arrays of the operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial, reduce
from itertools import combinations, product
from typing import Any, Protocol, TypeAlias

from sympy import Basic, Expr

from sympy_tensordiff.errors import ArgumentError, ShapeError
from sympy_tensordiff.lazy import numpy as np
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
from sympy_tensordiff.reference.scalars import Compiled, SymbolValues
from sympy_tensordiff.symbolic.recurrences.scans import Scan
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import (
    TensorAdjugate,
    TensorCofactor,
    TensorDeterminant,
    TensorInverse,
    TensorLogSumExp,
)


class EntryInterpreter(Protocol):
    """A protocol: the methods of the interpreter that the rules for whole tensors call."""

    def compile(self, node: Basic) -> Compiled:
        """Return a function that evaluates a scalar or a condition, given the values of symbols."""

    def compile_shape(self, tensor: Any) -> Callable[[SymbolValues], tuple[int, ...]]:
        """Return a function that evaluates the shape of ``tensor``, given the values of symbols."""

    def array(self, node: Any, env: SymbolValues) -> ObjectArray:
        """Return all entries of a tensor as an object array, for the values of symbols in ``env``."""

    def compile_integer(self, node: Basic) -> Callable[[SymbolValues], int]:
        """Return a function that evaluates an integer expression, given the values of symbols."""

    def inside(self, arrays: Mapping[Any, ObjectArray]) -> AbstractContextManager[EntryInterpreter]:
        """Return an interpreter that also knows the values ``arrays`` of bound variables."""


TensorRule: TypeAlias = Callable[[EntryInterpreter, Any, SymbolValues], ObjectArray]


def _compute_elementwise(
    interpreter: EntryInterpreter, function: Callable[[list[Number]], Number], nodes: Iterable[Expr], env: SymbolValues
) -> ObjectArray:
    """Return the array of ``function`` applied to the entries of `nodes`, which ``interpreter`` evaluates at the values
    ``env`` of symbols; scalars are broadcast. A division by 0 gives the entry NaN and no error, since a `Piecewise` may
    not use it.
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


def _compute_einsum(interpreter: EntryInterpreter, node: EinsumProduct, env: SymbolValues) -> ObjectArray:
    """Return the contraction by a loop over all indices; raise `ShapeError` if axes with one label differ in length.
    ``env`` has the values of symbols; ``interpreter`` evaluates the operands.
    """
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


def _compute_delta(interpreter: EntryInterpreter, node: DeltaTensor, env: SymbolValues) -> ObjectArray:
    """Return the unit tensor: 1 where the first half of the indices equals the second."""
    shape = interpreter.compile_shape(node)(env)
    result = np.full(shape, 0, dtype=object)
    for position in np.ndindex(shape[: len(shape) // 2]):
        result[position + position] = 1
    return result


def _compute_filled(interpreter: EntryInterpreter, node: FilledTensor, env: SymbolValues) -> ObjectArray:
    """Return the array of a tensor whose entries are all one value. ``env`` has the values of symbols; ``interpreter``
    evaluates the value.
    """
    return np.full(interpreter.compile_shape(node)(env), interpreter.array(node.args[0], env)[()], dtype=object)


def _elementwise_rule(function: Callable[..., Number]) -> TensorRule:
    """Return the rule that evaluates an elementwise node by ``function``, which is given the entries at each
    position.
    """
    return lambda interpreter, node, env: _compute_elementwise(
        interpreter, lambda numbers: function(*numbers), node.args, env
    )


def _matrix_rule(function: Callable[..., ObjectArray]) -> TensorRule:
    """Return the rule that evaluates a node whose last argument is a matrix or a stack of matrices: it calls
    ``function(matrix, *others)`` for each matrix, where ``others`` are the node's other arguments.
    """
    return lambda interpreter, node, env: _map_over_matrices(
        lambda matrix: function(matrix, *node.args[:-1]), interpreter.array(node.args[-1], env)
    )


def _map_over_matrices(function: Callable[[ObjectArray], ObjectArray], array: ObjectArray) -> ObjectArray:
    """Return the results of ``function`` for each matrix in the last two axes of ``array``, stacked along its other
    axes.
    """
    if array.ndim == 2:
        return function(array)
    found = [np.asarray(function(matrix), dtype=object) for matrix in array.reshape(-1, *array.shape[-2:])]
    return np.stack(found).reshape(array.shape[:-2] + found[0].shape)


def _compute_function(interpreter: EntryInterpreter, node: TensorFunction, env: SymbolValues) -> ObjectArray:
    """Return the array of an element-wise function: its template, a scalar formula, is evaluated with the entries of
    the operands as values of its parameters.
    """
    template, *operands = node.args
    entry = interpreter.compile(template.expr)
    parameters = template.variables
    return _compute_elementwise(
        interpreter, lambda n: entry({**env, **dict(zip(parameters, n, strict=True))}), operands, env
    )


def _compute_log_sum_exp(interpreter: EntryInterpreter, node: TensorLogSumExp, env: SymbolValues) -> ObjectArray:
    """Return the array of a log-sum-exp over some axes, shifted by the maximum; minus infinity if there are no
    entries.
    """
    array = interpreter.array(node.args[0], env)
    axes = [int(axis) for axis in node.args[1]]
    last = np.moveaxis(array, axes, range(-len(axes), 0))
    outer_shape = last.shape[: last.ndim - len(axes)]
    result = np.empty(outer_shape, dtype=object)
    for position in np.ndindex(outer_shape):
        numbers = list(last[position].flat) if axes else [last[position]]
        if not numbers:
            result[position] = -CONTEXT.inf
            continue
        # Treated as a constant: its derivative cancels exactly.
        largest = reduce(lambda a, b: a if compare(a, b) >= 0 else b, map(primal, numbers))
        total = reduce(add, (exponential(add(number, multiply(-1, largest))) for number in numbers))
        result[position] = add(largest, logarithm(total))
    return result


# ---------------------------------------------------------------------------- matrices


def determinant(matrix: ObjectArray) -> Number:
    """Return the determinant of ``matrix`` by Laplace expansion, in which each minor is computed once.

    There is no division, so that the derivatives are exact at singular matrices, too.
    """
    n = len(matrix)
    # From the last row up: the minors of the rows below and including `row`, by their columns.
    minors: dict[tuple[int, ...], Number] = {(): 1}
    for row in reversed(range(n)):
        minors = {columns: _expand_by_row(matrix[row], columns, minors) for columns in combinations(range(n), n - row)}
    return minors[tuple(range(n))]


def _expand_by_row(row: ObjectArray, columns: tuple[int, ...], minors: dict[tuple[int, ...], Number]) -> Number:
    """Return a determinant by expansion along its first ``row``, restricted to ``columns``. ``minors`` maps tuples of
    columns to the determinants of the rows below.
    """
    total: Number = 0
    for position, column in enumerate(columns):
        minor = minors[columns[:position] + columns[position + 1 :]]
        total = add(total, multiply((-1) ** position, multiply(row[column], minor)))
    return total


def cofactors(order: int, matrix: ObjectArray) -> ObjectArray:
    """Return all derivatives of order `order` of the determinant with respect to entries of `matrix`, with the axes
    row, column, row, column, ...

    An entry is the determinant of the matrix without these rows and columns, with the sign of the permutation that
    moves them to the front; 0 if a row or a column is repeated.
    """
    result = np.full(matrix.shape * order, 0, dtype=object)
    determinants: dict[tuple[frozenset[int], frozenset[int]], Number] = {}
    for position in np.ndindex(result.shape):
        rows, columns = position[::2], position[1::2]
        key = frozenset(rows), frozenset(columns)
        if len(key[0]) < order or len(key[1]) < order:
            continue
        if key not in determinants:
            determinants[key] = determinant(np.delete(np.delete(matrix, rows, axis=0), columns, axis=1))
        sign = (-1) ** (sum(position) + _count_inversions(rows) + _count_inversions(columns))
        result[position] = multiply(sign, determinants[key])
    return result


def _count_inversions(numbers: Sequence[int]) -> int:
    """Return the number of inversions in `numbers`: pairs of which the first number is the greater one."""
    return sum(first > second for first, second in combinations(numbers, 2))


def inverse(matrix: ObjectArray) -> ObjectArray:
    """Return the inverse of ``matrix`` as the adjugate over the determinant.

    Raise `ArgumentError` if the matrix is singular.
    """
    det = determinant(matrix)
    if primal(det) == 0:
        raise ArgumentError(f"cannot invert a singular matrix: {matrix.tolist()}")
    return np.frompyfunc(partial(multiply, power(det, -1)), 1, 1)(cofactors(1, matrix).T)


def _compute_scan(interpreter: EntryInterpreter, node: Scan, env: SymbolValues) -> ObjectArray:
    """Return the array of a scan (a recurrence over time), computed step by step. ``env`` has the values of symbols;
    ``interpreter`` evaluates the operands.
    """
    states = {state.variable: interpreter.array(state.initial, env) for state in node.states}
    sequences = {variable: interpreter.array(sequence, env) for variable, sequence in node.sequences}
    times = range(interpreter.compile_integer(node.length)(env))
    values: dict[int, ObjectArray] = {}
    for time in reversed(times) if node.reverse else times:
        rows = {variable: np.asarray(sequence[time], dtype=object) for variable, sequence in sequences.items()}
        around = {**env, node.time: time}
        with interpreter.inside({**states, **rows}) as step:
            values[time] = step.array(node.value, around)
            states = {state.variable: step.array(state.update, around) for state in node.states}
    if node.kind == "last":
        return values[times[0] if node.reverse else times[-1]]
    if node.kind == "sum":
        total = reduce(np.frompyfunc(add, 2, 1), values.values())
        return np.asarray(total, dtype=object)
    result = np.empty((len(times), *values[0].shape), dtype=object)
    for time in times:
        result[time] = values[time][()]
    return result


TENSOR_RULES: dict[type, TensorRule] = {
    EinsumProduct: _compute_einsum,
    DeltaTensor: _compute_delta,
    FilledTensor: _compute_filled,
    TensorAdd: _elementwise_rule(lambda *terms: reduce(add, terms)),
    TensorMul: _elementwise_rule(lambda *factors: reduce(multiply, factors)),
    TensorPow: _elementwise_rule(power),
    TensorFunction: _compute_function,
    TensorInverse: _matrix_rule(inverse),
    TensorDeterminant: _matrix_rule(lambda matrix: cofactors(0, matrix)),
    TensorAdjugate: _matrix_rule(lambda matrix: cofactors(1, matrix).T),
    TensorCofactor: _matrix_rule(lambda matrix, order: cofactors(int(order), matrix)),
    TensorLogSumExp: _compute_log_sum_exp,
    Scan: _compute_scan,
}
