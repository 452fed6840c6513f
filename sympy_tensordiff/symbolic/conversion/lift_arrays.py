"""Lifting of SymPy's array expressions and explicit arrays, one rule per class.

Products, contractions, diagonals and permutations of axes, of matrices too, all become an `EinsumProduct` of factors
whose axes have labels. An operation that reads entries at computed indices becomes a `TensorComprehension`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import sympy
from sympy import Add, Derivative, Dummy, Expr, KroneckerDelta, Mul, S
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.tensor.array.array_comprehension import ArrayComprehension, ArrayComprehensionMap
from sympy.tensor.array.array_derivatives import ArrayDerivative
from sympy.tensor.array.expressions import array_expressions as arrays
from sympy.tensor.array.ndim_array import NDimArray

from sympy_tensordiff.errors import ShapeError, UnsupportedError
from sympy_tensordiff.symbolic.expressions.base import TensorNode
from sympy_tensordiff.symbolic.expressions.misplaced_tensors import is_whole
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.tabulate import inline_entry, tabulate
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd, TensorMul, apply_to
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import in_shape
from sympy_tensordiff.symbolic.whole_tensors.subscripts import FROM_I

ConvertSubexpression: TypeAlias = Callable[[Any], Any]
"""Lifts a sub-expression: a tensor expression, or a scalar."""

Rule: TypeAlias = Callable[[Any, ConvertSubexpression], Any]
"""Lifts an expression of one class."""

AXES = "call td.diff, which has the axes of the value first and those of the variable last"
MAX_FACTORS = 16
"""Products of more matrices than these are products of products; powers up to this one are multiplied to a vector."""
EXPLICIT_LIMIT = 64
"""An explicit array of more entries than these is refused."""


# ------------------------------------------------------------------ variables, entries, explicit arrays


def symbol(expr: Any, convert: ConvertSubexpression) -> Any:
    """Return the tensor symbol of an array or matrix symbol."""
    return TensorSymbol(str(expr.name), expr.shape)


def element(parent: Any, indices: Sequence[Any], expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert an element of an array, ``parent[indices]``, to an entry, or to a tensor if there are fewer ``indices``
    than axes. ``convert`` converts the parts. Raise `UnsupportedError`, which quotes ``expr``, if the parent has no
    shape.
    """
    tensor = convert(parent)
    if not is_whole(tensor):
        raise UnsupportedError(f"{expr}: {parent} has no shape; declare it, e.g. as ArraySymbol or td.TensorSymbol")
    places = tuple(convert(index) for index in indices)
    return inline_entry(tensor, places, once=False) if len(places) == tensor.rank else tensor[places]


def entry_through_views(tensor: Any, indices: Sequence[Expr]) -> Any:
    """Return the entry of ``tensor`` at ``indices``. For a transpose it is written as an entry of the operand, ``A[j,
    i]`` for ``A.T[i, j]``, and for a constant tensor as its value.
    """
    is_product = isinstance(tensor, EinsumProduct) and len(tensor.operands) == 1
    moves = (is_product and set(tensor.output) == set(tensor.inputs[0])) or isinstance(
        tensor, (DeltaTensor, FilledTensor)
    )
    return tensor.write_out(tuple(indices)) if moves else inline_entry(tensor, indices)


def explicit(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert an explicit array to a tensor: the sum of its nonzero entries times Kronecker deltas of their positions.
    ``convert`` converts an entry. Raise `UnsupportedError` for more than `EXPLICIT_LIMIT` nonzero entries.
    """
    shape = tuple(map(sympy.Integer, expr.shape))
    values = {place: expr[place] for place in itertools.product(*map(range, expr.shape))}
    values = {place: convert(value) for place, value in values.items() if value != 0}
    if len(values) > EXPLICIT_LIMIT:
        raise UnsupportedError(
            f"an explicit array of shape {shape} with {len(values)} entries: more than {EXPLICIT_LIMIT} are not "
            "written out; use a td.TensorSymbol or a MatrixSymbol of this shape, and pass the numbers as its array"
        )

    def entry(*indices: Expr) -> Expr:
        """Return the entry at ``indices`` of the explicit array: the sum of all its nonzero entries, each times
        Kronecker deltas of its position.
        """
        return Add(*(Mul(*map(KroneckerDelta, indices, place), value) for place, value in values.items()))

    return tabulate(shape, values.values(), entry)


def tabulate_function(shape: Sequence[Expr], function: Callable[..., Any], convert: ConvertSubexpression) -> Any:
    """Return the tensor of ``shape`` with the entries ``function(i, j, ...)``, each converted to this package's classes
    by `convert`.
    """
    arguments = [Dummy(integer=True) for _ in shape]  # nothing around can mean them
    body = convert(function(*arguments))
    return tabulate(shape, (body,), lambda *indices: body.xreplace(dict(zip(arguments, indices, strict=True))))


def _comprehension(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert SymPy's `ArrayComprehension` to a tensor; ``convert`` handles its parts. Raise `ShapeError` if the length
    of an axis depends on another index.
    """

    def function(*arguments: Expr) -> Any:
        """Return the entry of SymPy's comprehension at the indices ``arguments``, which count from 0: its body, in
        which each index is replaced by the argument plus the lower limit of the index.
        """
        moved = [(v, index + first) for (v, first, _), index in zip(expr.limits, arguments, strict=True)]
        return expr.function.subs(moved, simultaneous=True)

    if any(v in bound.free_symbols for v in expr.variables for _, *bounds in expr.limits for bound in bounds):
        raise ShapeError(f"{expr}: the length of an axis depends on the index of another one; no tensor has such rows")
    return tabulate_function([last - first + 1 for _, first, last in expr.limits], function, convert)


# ------------------------------------------------------------------ entry by entry


def constant(value: Expr) -> Rule:
    """Return a function that converts an array node all of whose entries are ``value``."""
    return lambda expr, convert: FilledTensor(value, expr.shape)


def elementwise(kind: type) -> Rule:
    """Return a function that converts an elementwise SymPy node to the class ``kind``."""
    return lambda expr, convert: kind(*map(convert, expr.args))


def whole_operation(expr: Any, operands: Sequence[Any]) -> Any:
    """Return the tensor operation for `expr`, a SymPy `Add` or `Mul` whose converted ``operands`` include whole
    tensors; raise `UnsupportedError` for any other node.
    """
    whole = [operand for operand in operands if is_whole(operand)]
    name = "a case of Piecewise" if isinstance(expr, ExprCondPair) else type(expr).__name__
    if (isinstance(expr, Add) and len(whole) == len(operands)) or (isinstance(expr, Mul) and len(whole) == 1):
        return (TensorAdd if isinstance(expr, Add) else TensorMul)(*operands)
    way_out = "for its entries write A.applyfunc(f), HadamardProduct, A[i, j] in a Sum, or a td.TensorComprehension"
    if isinstance(expr, Derivative):
        way_out = AXES
    raise UnsupportedError(
        f"{name} of a whole tensor of rank {whole[0].rank}: {expr}; what SymPy means by it has no index form: {way_out}"
    )


def apply_function(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert SymPy's elementwise application of a function of one argument; ``convert`` handles its parts."""
    tensor, argument = convert(expr.expr), Dummy(real=True)
    body = convert(expr.function(argument))
    if all(argument not in node.free_symbols for node in nodes_in([body]) if isinstance(node, TensorNode)):
        return apply_to((argument,), body, (tensor,))
    return tabulate(
        tensor.shape, (tensor, body), lambda *indices: body.xreplace({argument: entry_through_views(tensor, indices)})
    )


# ------------------------------------------------------------------ products, contractions, axes


class Factor(NamedTuple):
    """One operand of an einsum under construction: a tensor or a scalar, with one integer label per axis."""

    tensor: Any
    labels: tuple[int, ...]


Network: TypeAlias = tuple[list[Factor], list[int]]
"""Factors, and the labels of the axes of their product; other labels are summed."""


def network(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert a network of SymPy's arrays (a matrix product, tensor product, contraction, diagonal or permutation of
    axes) to a single einsum.
    """
    return contraction(*labelled(expr, convert, itertools.count()))


def contraction(factors: Sequence[Factor], output: Sequence[int]) -> Any:
    """Return the einsum of ``factors``, whose labels are numbers: its result has the axes ``output``, and all other
    labels are summed.

    Raises `UnsupportedError` if there are more labels than subscripts have letters.
    """
    scale = Mul(*(factor.tensor for factor in factors if not factor.labels))
    tensors = [factor for factor in factors if factor.labels]
    if len(tensors) == 1 and tensors[0].labels == tuple(output):
        product = tensors[0].tensor
    elif not tensors:
        return scale
    else:
        names = dict.fromkeys(itertools.chain(*(labels for _, labels in tensors)))
        if len(names) > len(FROM_I):
            raise UnsupportedError(
                f"a product with {len(names)} axes: subscripts have {len(FROM_I)}; write it as several"
            )
        letters = dict(zip(names, FROM_I, strict=False))
        texts = ["".join(map(letters.__getitem__, labels)) for labels in (*(own for _, own in tensors), output)]
        product = EinsumProduct(f"{','.join(texts[:-1])}->{texts[-1]}", *(factor.tensor for factor in tensors))
        if len(tensors) < 3 and any(isinstance(factor.tensor, TensorComprehension) for factor in tensors):
            # A slice, blocks or a Kronecker product: the entries of its parts are read where they are needed.
            entries = product
            product = tabulate(
                product.shape, product.args, lambda *indices: entries.entry_of(indices, inline_entry), product.output
            )
    if scale == 1:
        return product
    return TensorMul(scale, product) if is_whole(product) else scale * product


def labelled(expr: Any, convert: ConvertSubexpression, labels: Iterator[int], sums: bool = True) -> Network:
    """Convert ``expr``, a product of matrices or arrays, to the parts of an einsum: return ``(factors, labels)``, its
    labelled operands and the labels of the result. ``convert`` converts an operand; new labels come from the iterator
    ``labels``.

    Without ``sums``, an inner matrix product or contraction is a single factor.
    """
    if isinstance(expr, (sympy.Transpose, sympy.Adjoint)):
        factors, axes = labelled(expr.arg, convert, labels, sums)
        return factors, axes[::-1]
    if isinstance(expr, sympy.MatMul) and sums:
        return _factors_of_product(expr, convert, labels)
    if isinstance(expr, arrays.ArrayTensorProduct):
        parts = [labelled(part, convert, labels, sums=False) for part in expr.args]
        return [factor for own, _ in parts for factor in own], [label for _, own in parts for label in own]
    if isinstance(expr, arrays.PermuteDims):
        factors, axes = labelled(expr.expr, convert, labels, sums)
        return factors, [axes[expr.permutation(n)] for n in range(len(axes))]
    if isinstance(expr, arrays.ArrayDiagonal) or (isinstance(expr, arrays.ArrayContraction) and sums):
        factors, axes = labelled(expr.expr, convert, labels, sums)
        groups = [[axes[int(n)] for n in group] for group in expr.args[1:]]
        joined = {label: group[0] for group in groups for label in group}
        axes = [label for label in axes if label not in joined]
        axes += [group[0] for group in groups] if isinstance(expr, arrays.ArrayDiagonal) else []
        return renamed(factors, joined), axes
    tensor = convert(expr)
    axes = [next(labels) for _ in tensor.shape] if is_whole(tensor) else []
    return [Factor(tensor, tuple(axes))], axes


def renamed(factors: Sequence[Factor], names: Mapping[int, int]) -> list[Factor]:
    """Return ``factors`` with their labels mapped by ``names``."""
    return [Factor(tensor, tuple(names.get(label, label) for label in labels)) for tensor, labels in factors]


def _factors_of_product(expr: Any, convert: ConvertSubexpression, labels: Iterator[int]) -> Network:
    """Convert SymPy's matrix product ``expr`` to einsum operands. Return ``(operands, labels of the result)``, where
    neighbouring operands share a label. ``convert`` converts an operand; new labels come from ``labels``.

    A long product is first split into products of at most `MAX_FACTORS` matrices.
    """
    args = [part for arg in expr.args for part in (_factors_of_power(arg) if 1 in expr.shape else [arg])]
    while len(args) > MAX_FACTORS:
        args = [sympy.MatMul(*args[n : n + MAX_FACTORS]) for n in range(0, len(args), MAX_FACTORS)]
    factors: list[Factor] = []
    axes: list[int] = []
    for arg in args:
        own, ends = labelled(arg, convert, labels, sums=False)
        factors += renamed(own, {ends[0]: axes[1]} if ends and axes else {})
        axes = [*axes[:1], *ends[1:]] if ends and axes else axes or ends
    return factors, axes


def _factors_of_power(arg: Any) -> list[Any]:
    """Return ``[A, A, A]`` for the matrix power ``A**3`` as a factor of a product, which costs less if the product ends
    in a vector. Return ``[arg]`` for anything else.
    """
    if isinstance(arg, sympy.MatPow) and arg.exp.is_Integer and 1 < arg.exp <= MAX_FACTORS:
        return [arg.base] * int(arg.exp)
    return [arg]


# ------------------------------------------------------------------ reshaping


def _reshape(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert SymPy's `Reshape`; ``convert`` handles the array. Raise `ShapeError` if the numbers of entries differ."""
    tensor = convert(expr.expr)
    old, new = shape_of(tensor), tuple(expr.shape)
    reshaped = in_shape(tensor, new)
    if reshaped is None:
        raise ShapeError(f"{expr} reshapes {old} to {new}, which have different numbers of entries; make them equal")
    return reshaped


ARRAY_RULES: dict[Any, Rule] = {
    arrays.ArraySymbol: symbol,
    arrays.ArrayElement: lambda expr, convert: element(expr.name, expr.indices, expr, convert),
    arrays.ZeroArray: constant(S.Zero),
    arrays.OneArray: constant(S.One),
    arrays.ArrayAdd: elementwise(TensorAdd),
    arrays.ArrayElementwiseApplyFunc: apply_function,
    arrays.ArrayTensorProduct: network,
    arrays.ArrayContraction: network,
    arrays.ArrayDiagonal: network,
    arrays.PermuteDims: network,
    arrays.Reshape: _reshape,
    NDimArray: explicit,
    ArrayComprehension: _comprehension,
}

ARRAYS_REFUSED: dict[Any, str] = {
    ArrayDerivative: AXES,
    ArrayComprehensionMap: "write td.TensorComprehension",
}
