"""Random matrix and array expressions of SymPy, and their values by SymPy's explicit arrays.

Nothing of the package is used here: matrices are multiplied, sliced, … by SymPy's own explicit
matrices, arrays contracted by `sympy.tensorcontraction`, both entry by entry over rationals.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import sympy
from sympy import Array, ImmutableMatrix, Lambda, Rational, Symbol
from sympy.combinatorics import Permutation
from sympy.matrices.expressions.applyfunc import ElementwiseApplyFunction
from sympy.matrices.expressions.hadamard import HadamardPower
from sympy.matrices.expressions.kronecker import KroneckerProduct, matrix_kronecker_product
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.tensor.array import ArrayComprehension
from sympy.tensor.array.expressions import (
    ArrayAdd,
    ArrayContraction,
    ArrayDiagonal,
    ArrayElementwiseApplyFunc,
    ArraySymbol,
    ArrayTensorProduct,
    OneArray,
    PermuteDims,
    Reshape,
    ZeroArray,
)

t, u, v = sympy.symbols("t u v")
FUNCTIONS = (Lambda(t, t**2 + 1), Lambda(t, 3 * t), Lambda(t, t / (t**2 + 1)))
ALPHA = Symbol("alpha", real=True)
Shape = tuple[int, ...]


class RandomExpressions:
    """Expressions of a given shape, nested to a given depth; some parts are shared."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.made: dict[Shape, list[Any]] = {}

    def shape(self, *ranks: int) -> Shape:
        return tuple(self.random.choice((1, 2, 3)) for _ in range(self.random.choice(ranks)))

    def expression(self, shape: Sequence[int], depth: int) -> Any:
        shape = tuple(shape)
        if depth <= 0 or len(shape) > 4:
            return self.leaf(shape)
        known = self.made.setdefault(shape, [])
        if known and self.random.random() < 0.2:
            return self.random.choice(known)
        known.append(self.random.choice(self.makers(shape))(shape, depth - 1))
        return known[-1]

    def numbers(self, shape: Shape) -> list[Any]:
        return [Rational(self.random.randint(-3, 3), self.random.choice((1, 2))) for _ in range(math.prod(shape))]

    def leaf(self, shape: Shape) -> Any:
        raise NotImplementedError

    def makers(self, shape: Shape) -> list[Callable[[Shape, int], Any]]:
        raise NotImplementedError


class RandomMatrices(RandomExpressions):
    """Matrix expressions with every node that has an index form."""

    def symbol(self, shape: Shape) -> Any:
        return sympy.MatrixSymbol(f"{self.random.choice('ABC')}{shape[0]}{shape[1]}", *shape)

    def leaf(self, shape: Shape) -> Any:
        draw = self.random.random()
        if draw < 0.75 or math.prod(shape) > 16:
            return self.symbol(shape)
        if draw < 0.8:
            return sympy.OneMatrix(*shape)
        if draw < 0.85 and shape[0] == shape[1]:
            return sympy.Identity(shape[0])
        if draw < 0.9:
            return sympy.ZeroMatrix(*shape)
        if draw < 0.95:
            return sympy.FunctionMatrix(*shape, Lambda((u, v), 2 * u - v + 3))
        return ImmutableMatrix(*shape, self.numbers(shape))

    def makers(self, shape: Shape) -> list[Callable[[Shape, int], Any]]:
        makers = [self.add, self.product, self.product, self.transposed, self.hadamard, self.power, self.scaled]
        makers += [self.slice, self.kronecker]
        if shape != (1, 1):
            makers.append(self.applied)  # SymPy applies the function itself to a matrix of 1 x 1
        if min(shape) > 1:
            makers.append(self.blocks)
        if shape[0] == shape[1]:
            makers += [self.matrix_power, self.diagonal, self.diagonal]
        if shape[1] == 1:
            makers.append(self.diagonal_of)
        return makers

    def scalar(self, depth: int) -> Any:
        k, draw = self.random.choice((2, 3)), self.random.random()
        if draw < 0.3:
            return Rational(self.random.randint(-4, 4), 2)
        if draw < 0.55:
            return sympy.Trace(self.expression((k, k), depth))
        if draw < 0.7:
            return sympy.DotProduct(self.leaf((k, 1)), self.leaf((1, k)))
        return self.expression((k, 2), depth)[k - 1, 1] if draw < 0.85 else ALPHA

    def add(self, shape: Shape, depth: int) -> Any:
        return sympy.MatAdd(self.expression(shape, depth), self.expression(shape, depth))

    def product(self, shape: Shape, depth: int) -> Any:
        extents = (shape[0], *self.shape(1, 1, 2), shape[1])
        return sympy.MatMul(*(self.expression(pair, depth) for pair in itertools.pairwise(extents)))

    def scaled(self, shape: Shape, depth: int) -> Any:
        return sympy.MatMul(self.scalar(depth), self.expression(shape, depth))

    def transposed(self, shape: Shape, depth: int) -> Any:
        return self.random.choice((sympy.Transpose, sympy.Adjoint))(self.expression(shape[::-1], depth))

    def hadamard(self, shape: Shape, depth: int) -> Any:
        return sympy.HadamardProduct(self.expression(shape, depth), self.expression(shape, depth))

    def power(self, shape: Shape, depth: int) -> Any:
        return HadamardPower(self.expression(shape, depth), 2)

    def applied(self, shape: Shape, depth: int) -> Any:
        return ElementwiseApplyFunction(self.random.choice(FUNCTIONS), self.expression(shape, depth))

    def slice(self, shape: Shape, depth: int) -> Any:
        step, row, column = (self.random.choice(choice) for choice in ((1, 2), (0, 1), (0, 2)))
        parent = self.expression((row + step * shape[0] + self.random.choice((0, 1)), column + shape[1]), depth)
        return sympy.MatrixSlice(parent, (row, row + step * shape[0], step), (column, column + shape[1]))

    def blocks(self, shape: Shape, depth: int) -> Any:
        splits = [(cut, extent - cut) for extent in shape for cut in [self.random.randint(1, extent - 1)]]
        return sympy.BlockMatrix([[self.expression((m, n), depth) for n in splits[1]] for m in splits[0]])

    def kronecker(self, shape: Shape, depth: int) -> Any:
        first = [self.random.choice([f for f in range(1, extent + 1) if extent % f == 0]) for extent in shape]
        second = [extent // f for extent, f in zip(shape, first, strict=True)]
        return KroneckerProduct(self.expression(first, depth), self.expression(second, depth))

    def matrix_power(self, shape: Shape, depth: int) -> Any:
        return sympy.MatPow(self.expression(shape, depth), self.random.choice((0, 2, 3, 5)))

    def diagonal(self, shape: Shape, depth: int) -> Any:
        extent = shape[0]
        choice = self.random.choice([(extent, extent), (extent, extent), (extent, 1), (1, extent)])
        return (sympy.DiagMatrix if 1 in choice else sympy.DiagonalMatrix)(self.expression(choice, depth))

    def diagonal_of(self, shape: Shape, depth: int) -> Any:
        # Not of an explicit matrix: SymPy asks its extents, Python integers, for is_Integer.
        return sympy.DiagonalOf(self.symbol((shape[0], shape[0] + self.random.choice((0, 1)))))


class RandomArrays(RandomExpressions):
    """Array expressions with every node that has an index form."""

    def leaf(self, shape: Shape) -> Any:
        draw = self.random.random()
        if draw < 0.1:
            return OneArray(*shape)
        if draw < 0.15:
            return ZeroArray(*shape)
        if draw < 0.25 and math.prod(shape) <= 12:
            return Array(self.numbers(shape), shape)
        if draw < 0.3:
            symbols = sympy.symbols(f"u:{len(shape)}")
            limits = [(s, low, low + n - 1) for s, n in zip(symbols, shape, strict=True) for low in [len(shape) - 2]]
            return ArrayComprehension(sum((n + 1) * s for n, s in enumerate(symbols)), *limits)
        if draw < 0.5 and len(shape) == 2:
            return sympy.MatrixSymbol(f"M{shape[0]}{shape[1]}", *shape)
        return ArraySymbol("S" + "".join(map(str, shape)), shape)

    def makers(self, shape: Shape) -> list[Callable[[Shape, int], Any]]:
        makers = [self.add, self.applied, self.contraction, self.contraction, self.permuted, self.reshaped]
        return [*makers, self.diagonal, *([self.product] if len(shape) > 1 else [])]

    def add(self, shape: Shape, depth: int) -> Any:
        return ArrayAdd(self.expression(shape, depth), self.expression(shape, depth))

    def applied(self, shape: Shape, depth: int) -> Any:
        return ArrayElementwiseApplyFunc(self.random.choice(FUNCTIONS), self.expression(shape, depth))

    def product(self, shape: Shape, depth: int) -> Any:
        cut = self.random.randint(1, len(shape) - 1)
        return ArrayTensorProduct(self.expression(shape[:cut], depth), self.expression(shape[cut:], depth))

    def permuted(self, shape: Shape, depth: int) -> Any:
        order = self.random.sample(range(len(shape)), len(shape))
        old = [extent for _, extent in sorted(zip(order, shape, strict=True))]
        return PermuteDims(self.expression(old, depth), Permutation(order))

    def reshaped(self, shape: Shape, depth: int) -> Any:
        size = math.prod(shape)
        shapes = [(size,), *itertools.product((1, 2, 3, 4), repeat=2), *itertools.product((1, 2, 3), repeat=3)]
        plain = [s for s in shapes if math.prod(s) == size]
        # A Reshape is not an operand of a contraction: SymPy asks it for ranks that it does not know.
        return ArrayAdd(Reshape(self.expression(self.random.choice(plain), depth), shape), self.leaf(shape))

    def contraction(self, shape: Shape, depth: int) -> Any:
        axes: list[tuple[int, int]] = [(-1, extent) for extent in shape]  # group or -1, extent
        for group in range(self.random.choice((1, 1, 2))):
            extent = self.random.choice((1, 2, 3))
            for _ in range(self.random.choice((1, 2, 2, 2, 3)) if group == 0 else 2):
                axes.insert(self.random.randint(0, len(axes)), (group, extent))
        return ArrayContraction(self.grouped(axes, depth), *_groups(axes))

    def diagonal(self, shape: Shape, depth: int) -> Any:
        axes = [(-1, extent) for extent in shape[:-1]]
        for _ in range(self.random.choice((2, 2, 3))):
            axes.insert(self.random.randint(0, len(axes)), (0, shape[-1]))
        return ArrayDiagonal(self.grouped(axes, depth), *_groups(axes))

    def grouped(self, axes: list[tuple[int, int]], depth: int) -> Any:
        extents = [extent for _, extent in axes]
        cuts = sorted(self.random.sample(range(1, len(axes)), min(len(axes) - 1, self.random.choice((0, 1, 1, 2)))))
        parts = [extents[a:b] for a, b in itertools.pairwise([0, *cuts, len(axes)])]
        return ArrayTensorProduct(*(self.expression(part, depth) for part in parts))


def _groups(axes: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    groups = sorted({group for group, _ in axes} - {-1})
    return [tuple(n for n, (group, _) in enumerate(axes) if group == g) for g in groups]


# ------------------------------------------------------------------ values by SymPy


def symbols_of(expr: Any) -> list[Any]:
    """The matrix and array symbols of an expression."""
    return sorted(expr.atoms(sympy.MatrixSymbol) | expr.atoms(ArraySymbol), key=str)


def random_arrays(expr: Any, seed: int) -> dict[Any, Any]:
    """Explicit rational arrays for the symbols of an expression, and a number for alpha."""
    draw = random.Random(seed)
    values: dict[Any, Any] = {ALPHA: Rational(3, 7)}
    for symbol in symbols_of(expr):
        size = math.prod(map(int, symbol.shape))
        numbers = [Rational(draw.randint(-5, 5), draw.choice((1, 2, 3))) for _ in range(size)]
        matrix = isinstance(symbol, sympy.MatrixSymbol)
        values[symbol] = ImmutableMatrix(*symbol.shape, numbers) if matrix else Array(numbers, tuple(symbol.shape))
    return values


def explicit(expr: Any, values: dict[Any, Any]) -> Any:
    """The value by explicit matrices and arrays, from the leaves up."""
    if expr in values:
        return values[expr]
    for kind in type(expr).__mro__:
        if kind in RULES:
            return RULES[kind](expr, lambda part: explicit(part, values))
    return expr


def _blocks(expr: Any, go: Callable[[Any], Any]) -> Any:
    rows, columns = expr.blockshape
    return ImmutableMatrix(sympy.Matrix([[go(expr.blocks[r, c]) for c in range(columns)] for r in range(rows)]))


def _slice(expr: Any, go: Callable[[Any], Any]) -> Any:
    parent, (row, _, down), (column, _, right) = go(expr.parent), expr.rowslice, expr.colslice
    return ImmutableMatrix(*expr.shape, lambda i, j: parent[row + down * i, column + right * j])


def _dot(expr: Any, go: Callable[[Any], Any]) -> Any:
    left, right = map(go, expr.args)
    return sum(a * b for a, b in zip(left, right, strict=True))


def _diagonal_matrix(expr: Any, go: Callable[[Any], Any]) -> Any:
    matrix = go(expr.arg)
    return ImmutableMatrix(*matrix.shape, lambda i, j: matrix[i, j] if i == j else 0)


def _diagonal_of(expr: Any, go: Callable[[Any], Any]) -> Any:
    matrix = go(expr.arg)
    return ImmutableMatrix([matrix[n, n] for n in range(min(matrix.shape))])


RULES: dict[Any, Callable[[Any, Callable[[Any], Any]], Any]] = {
    MatrixElement: lambda expr, go: go(expr.parent)[expr.i, expr.j],
    sympy.conjugate: lambda expr, go: go(expr.args[0]),
    sympy.Add: lambda expr, go: sum(map(go, expr.args)),
    sympy.Mul: lambda expr, go: math.prod((go(arg) for arg in expr.args), start=sympy.Integer(1)),
    sympy.Pow: lambda expr, go: go(expr.base) ** expr.exp,
    sympy.MatMul: lambda expr, go: reduce(lambda a, b: a * b, map(go, expr.args)),
    sympy.MatAdd: lambda expr, go: reduce(lambda a, b: a + b, map(go, expr.args)),
    sympy.MatPow: lambda expr, go: go(expr.base) ** expr.exp,
    sympy.Transpose: lambda expr, go: go(expr.arg).T,
    sympy.Adjoint: lambda expr, go: go(expr.arg).T,
    sympy.HadamardProduct: lambda expr, go: reduce(lambda a, b: a.multiply_elementwise(b), map(go, expr.args)),
    HadamardPower: lambda expr, go: go(expr.base).applyfunc(lambda x: x**expr.exp),
    ElementwiseApplyFunction: lambda expr, go: go(expr.expr).applyfunc(expr.function),
    KroneckerProduct: lambda expr, go: matrix_kronecker_product(*map(go, expr.args)),
    sympy.Trace: lambda expr, go: go(expr.arg).trace(),
    sympy.DotProduct: _dot,
    sympy.DiagMatrix: lambda expr, go: sympy.diag(*go(expr.args[0])),
    sympy.DiagonalMatrix: _diagonal_matrix,
    sympy.DiagonalOf: _diagonal_of,
    sympy.MatrixSlice: _slice,
    sympy.BlockMatrix: _blocks,
    sympy.matrices.matrixbase.MatrixBase: lambda expr, go: expr,
    sympy.MatrixExpr: lambda expr, go: expr.as_explicit(),
    ArrayTensorProduct: lambda expr, go: sympy.tensorproduct(*(Array(go(arg)) for arg in expr.args)),
    ArrayContraction: lambda expr, go: sympy.tensorcontraction(Array(go(expr.expr)), *expr.contraction_indices),
    ArrayDiagonal: lambda expr, go: sympy.tensordiagonal(Array(go(expr.expr)), *expr.diagonal_indices),
    PermuteDims: lambda expr, go: sympy.permutedims(Array(go(expr.expr)), expr.permutation),
    ArrayAdd: lambda expr, go: reduce(lambda a, b: a + b, (Array(go(arg)) for arg in expr.args)),
    ArrayElementwiseApplyFunc: lambda expr, go: Array(go(expr.expr)).applyfunc(expr.function),
    Reshape: lambda expr, go: Array(go(expr.expr)).reshape(*expr.shape),
    ArrayComprehension: lambda expr, go: Array(expr.doit()),
    ZeroArray: lambda expr, go: expr.as_explicit(),
    OneArray: lambda expr, go: expr.as_explicit(),
}
