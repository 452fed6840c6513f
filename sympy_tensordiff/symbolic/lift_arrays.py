"""Array expressions of SymPy, and explicit arrays, in index notation, rule by rule.

Products, contractions, diagonals and permutations of axes are one thing here: factors whose axes
have labels, some of which are summed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import sympy
from sympy import Add, Derivative, Dummy, Expr, KroneckerDelta, Mul, S
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.tensor.array.array_comprehension import ArrayComprehension, ArrayComprehensionMap
from sympy.tensor.array.array_derivatives import ArrayDerivative
from sympy.tensor.array.expressions import array_expressions as arrays
from sympy.tensor.array.ndim_array import NDimArray

from sympy_tensordiff.errors import ShapeError, UnsupportedError
from sympy_tensordiff.symbolic.tabulate import (
    Factor,
    common_shape,
    contract,
    digits,
    read,
    same_extent,
    shape_of,
    tabulate,
)
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole import is_whole

Lift: TypeAlias = Callable[[Any], Any]
"""Lifts a sub-expression: a tensor expression, or a scalar."""

Rule: TypeAlias = Callable[[Any, Lift], Any]
"""Lifts an expression of one class."""

AXES = "call td.diff, which has the axes of the value first and those of the variable last"
EXPLICIT_LIMIT = 64
"""An explicit array of more entries than these is refused."""


# ------------------------------------------------------------------ variables, entries, explicit arrays


def _symbol(expr: Any, lift: Lift) -> Any:
    return TensorSymbol(str(expr.name), expr.shape)


def element(parent: Any, indices: Sequence[Any], expr: Any, lift: Lift) -> Any:
    """The entry of a tensor at some indices."""
    tensor = lift(parent)
    if not is_whole(tensor):
        raise UnsupportedError(f"{expr}: {parent} has no shape; declare it, e.g. as ArraySymbol or td.TensorSymbol")
    places = tuple(lift(index) for index in indices)
    return read(tensor, places, once=False) if len(places) == tensor.rank else tensor[places]


def explicit(expr: Any, lift: Lift) -> Any:
    """An array of written-out entries: the sum of its entries, each times deltas of its place."""
    shape = tuple(map(sympy.Integer, expr.shape))
    values = {place: expr[place] for place in itertools.product(*map(range, expr.shape))}
    values = {place: lift(value) for place, value in values.items() if value != 0}
    if len(values) > EXPLICIT_LIMIT:
        raise UnsupportedError(
            f"an explicit array of shape {shape} with {len(values)} entries: more than {EXPLICIT_LIMIT} are not "
            "written out; use a td.TensorSymbol or a MatrixSymbol of this shape, and pass the numbers as its array"
        )

    def entry(*indices: Expr) -> Expr:
        return Add(*(Mul(*map(KroneckerDelta, indices, place), value) for place, value in values.items()))

    return tabulate(shape, values.values(), entry)


def tabulate_function(shape: Sequence[Expr], function: Callable[..., Any], lift: Lift) -> Any:
    """The tensor with the entries ``function(i, j, …)``, which are lifted."""
    arguments = [Dummy(integer=True) for _ in shape]  # nothing around can mean them
    body = lift(function(*arguments))
    return tabulate(shape, (body,), lambda *indices: body.xreplace(dict(zip(arguments, indices, strict=True))))


def _comprehension(expr: Any, lift: Lift) -> Any:
    def function(*arguments: Expr) -> Any:
        moved = [(v, index + first) for (v, first, _), index in zip(expr.limits, arguments, strict=True)]
        return expr.function.subs(moved, simultaneous=True)

    if any(v in bound.free_symbols for v in expr.variables for _, *bounds in expr.limits for bound in bounds):
        raise ShapeError(f"{expr}: the length of an axis depends on the index of another one; no tensor has such rows")
    return tabulate_function([last - first + 1 for _, first, last in expr.limits], function, lift)


# ------------------------------------------------------------------ entry by entry


def constant(entry: Callable[..., Expr]) -> Rule:
    """The rule of an array that is known but for its shape."""
    return lambda expr, lift: tabulate(expr.shape, (), entry)


def elementwise(combine: Callable[..., Expr]) -> Rule:
    """The rule of an array with the entries ``combine(a, b, …)`` of its arguments, all of one shape or scalars."""
    return lambda expr, lift: _entrywise(combine, [lift(arg) for arg in expr.args], type(expr).__name__)


def _entrywise(combine: Callable[..., Expr], operands: Sequence[Any], owner: str) -> Any:
    shape = common_shape([shape_of(operand) for operand in operands if is_whole(operand)], owner)

    def entry(*indices: Expr) -> Expr:
        return combine(*(read(operand, indices, once=operands.count(operand) == 1) for operand in operands))

    return tabulate(shape, operands, entry)


def whole_operation(expr: Any, operands: Sequence[Any]) -> Any:
    """A scalar node of SymPy's whose lifted arguments hold whole tensors: sums and multiples of arrays."""
    whole = [operand for operand in operands if is_whole(operand)]
    name = "a case of Piecewise" if isinstance(expr, ExprCondPair) else type(expr).__name__
    if (isinstance(expr, Add) and len(whole) == len(operands)) or (isinstance(expr, Mul) and len(whole) == 1):
        return _entrywise(expr.func, operands, type(expr).__name__)
    way_out = "for its entries write A.applyfunc(f), HadamardProduct, A[i, j] in a Sum, or a td.TensorComprehension"
    if isinstance(expr, Derivative):
        way_out = AXES
    raise UnsupportedError(
        f"{name} of a whole tensor of rank {whole[0].rank}: {expr}; what SymPy means by it has no index form: {way_out}"
    )


def apply_function(expr: Any, lift: Lift) -> Any:
    """A function of one argument, applied entry by entry."""
    tensor, argument = lift(expr.expr), Dummy(real=True)
    body = lift(expr.function(argument))

    def entry(*indices: Expr) -> Expr:
        return body.xreplace({argument: read(tensor, indices, once=body.count(argument) == 1)})

    return tabulate(shape_of(tensor), (tensor, body), entry)


# ------------------------------------------------------------------ products, contractions, axes


def _network(expr: Any, lift: Lift) -> Any:
    """Tensor products, contractions, diagonals and permutations of axes."""
    factors, axes = _labelled(expr, lift)
    return contract(factors, axes, type(expr).__name__)


def _labelled(expr: Any, lift: Lift) -> tuple[list[Factor], list[int]]:
    """The factors of a product and the labels of its axes, through everything around it that sums nothing."""
    moves: list[Any] = []
    while isinstance(expr, (arrays.ArrayDiagonal, arrays.PermuteDims)) or (
        not moves and isinstance(expr, arrays.ArrayContraction)
    ):
        moves.append(expr)
        expr = expr.expr
    tensors = [lift(part) for part in (expr.args if isinstance(expr, arrays.ArrayTensorProduct) else [expr])]
    labels = itertools.count()
    factors = [Factor(tensor, tuple(itertools.islice(labels, len(shape_of(tensor))))) for tensor in tensors]
    axes = [label for factor in factors for label in factor.labels]
    for move in reversed(moves):
        if isinstance(move, arrays.PermuteDims):
            axes = [axes[move.permutation(n)] for n in range(len(axes))]
            continue
        groups = [[axes[int(n)] for n in group] for group in move.args[1:]]
        joined = {label: group[0] for group in groups for label in group}
        factors = [Factor(tensor, tuple(joined.get(label, label) for label in own)) for tensor, own in factors]
        axes = [label for label in axes if label not in joined]
        axes += [group[0] for group in groups] if isinstance(move, arrays.ArrayDiagonal) else []
    return factors, axes


# ------------------------------------------------------------------ reshaping


def _reshape(expr: Any, lift: Lift) -> Any:
    tensor = lift(expr.expr)
    old, new = shape_of(tensor), tuple(expr.shape)
    groups = _groups(old, new)
    if groups is None:
        raise ShapeError(f"{expr} reshapes {old} to {new}, which have different numbers of entries; make them equal")

    def entry(*indices: Expr) -> Expr:
        place = [S.Zero] * len(old)
        for inner, outer in groups:
            flat = S.Zero
            for axis in outer:
                flat = flat * new[axis] + indices[axis]
            for axis, digit in zip(inner, digits(flat, [old[axis] for axis in inner]), strict=True):
                place[axis] = digit
        return read(tensor, place, indices)

    return tabulate(new, (tensor,), entry)


def _groups(old: Sequence[Expr], new: Sequence[Expr]) -> list[tuple[list[int], list[int]]] | None:
    """Which axes become which, in as many groups as there are: the extents of both have one product.

    Axes of extent 1 are in no group. None where the shapes have different numbers of entries.
    """
    axes = [[axis for axis, extent in enumerate(shape) if extent != 1] for shape in (old, new)]
    groups: list[tuple[list[int], list[int]]] = []
    starts: tuple[int, ...] = (0, 0)
    for ends in itertools.product(*(range(1, len(side) + 1) for side in axes)):
        inner, outer = (side[start:end] for side, start, end in zip(axes, starts, ends, strict=True))
        if inner and outer and same_extent(Mul(*(old[n] for n in inner)), Mul(*(new[n] for n in outer))):
            groups.append((inner, outer))
            starts = ends
    return groups if starts == (len(axes[0]), len(axes[1])) else None


ARRAY_RULES: dict[Any, Rule] = {
    arrays.ArraySymbol: _symbol,
    arrays.ArrayElement: lambda expr, lift: element(expr.name, expr.indices, expr, lift),
    arrays.ZeroArray: constant(lambda *indices: S.Zero),
    arrays.OneArray: constant(lambda *indices: S.One),
    arrays.ArrayAdd: elementwise(Add),
    arrays.ArrayElementwiseApplyFunc: apply_function,
    arrays.ArrayTensorProduct: _network,
    arrays.ArrayContraction: _network,
    arrays.ArrayDiagonal: _network,
    arrays.PermuteDims: _network,
    arrays.Reshape: _reshape,
    NDimArray: explicit,
    ArrayComprehension: _comprehension,
}

ARRAYS_REFUSED: dict[Any, str] = {
    ArrayDerivative: AXES,
    ArrayComprehensionMap: "write td.TensorComprehension",
}
