"""Operators of tensor expressions, elementwise, and SymPy's own sums, products and powers of tensors.

Importing this module gives `TensorExpr` its operators. SymPy has postprocessors for ``Add(A, B)``, ``Mul(2, A)`` and
``Pow(2, A)``, which its own differentiation rules build too.

Slices such as ``A[0]``, ``A[1:-1]``, ``A[:, ::2]`` are comprehensions over index maps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sympy import Abs, Add, Basic, Expr, Integer, Mul, Pow, S, floor

from sympy_tensordiff.errors import IndexExpressionError, ShapeError, UnsupportedError
from sympy_tensordiff.symbolic.expressions.arguments import as_expr, as_int
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.expressions.misplaced_tensors import (
    comparison,
    is_whole,
    refuse_as_scalar,
    refuse_property_access,
)
from sympy_tensordiff.symbolic.expressions.printable import short
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry, TensorExpr
from sympy_tensordiff.symbolic.index_notation.signatures import Expression
from sympy_tensordiff.symbolic.index_notation.tabulate import inline_entry, tabulate
from sympy_tensordiff.symbolic.whole_tensors.einsum import (
    EinsumProduct,
    FilledTensor,
    aligned,
    broadcast_shape,
    with_unit_axes,
)
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd, TensorMul, TensorPow
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import elementwise, exp
from sympy_tensordiff.symbolic.whole_tensors.functions import transpose
from sympy_tensordiff.symbolic.whole_tensors.operations import operand, shape_of


def add(*terms: Any) -> Any:
    """Return the sum of ``terms``, tensors and scalars. Zeros are dropped; equal tensors are added up if they contain
    variables declared symmetric.
    """
    checked = aligned([term for term in (operand(term, "operator +") for term in terms) if term != 0], "operator +")
    shape = broadcast_shape(checked, "operator +")
    remaining = _collect_symmetric_terms([term for term in checked if not _is_zero(term)])
    if not any(map(shape_of, remaining)):
        return FilledTensor(Add(*remaining), shape)
    return remaining[0] if len(remaining) == 1 else TensorAdd(*remaining)


def _collect_symmetric_terms(terms: list[Any]) -> list[Any]:
    """Return ``terms`` with multiples of equal tensors added up, if variables declared symmetric occur: ``S @ w + S.T @
    w`` is ``2*S @ w``.

    Other terms stay as they are written.
    """
    counts: dict[Any, Any] = {}
    for term in terms:
        number, rest = _coefficient(term)
        key = tuple(rest) if len(rest) != 1 else rest[0]
        counts.setdefault(key, []).append((number, term))
    equal = [found[0][1] for found in counts.values() if len(found) > 1]
    if not any(measures(term).has_symmetric for term in equal):
        return terms
    sums = [(sum(number for number, _ in found), found[0][1], len(found)) for found in counts.values()]
    return [
        term if count == 1 else multiply(number, *_coefficient(term)[1]) for number, term, count in sums if number != 0
    ]


def multiply(*factors: Any) -> Any:
    """Return the product of ``factors``, tensors and scalars, with numeric factors merged: ``-(-A)`` is A."""
    coefficient, rest = S.One, []
    for factor in factors:
        number, others = _coefficient(operand(factor, "operator *"))
        coefficient *= number
        rest += others
    shape = broadcast_shape(rest, "operator *")
    if coefficient == 0 or any(map(_is_zero, rest)):
        return FilledTensor(S.Zero, shape)
    if coefficient != 1:
        return TensorMul(coefficient, *rest)
    return rest[0] if len(rest) == 1 else TensorMul(*rest)


def _is_zero(expr: Any) -> bool:
    """Return whether ``expr`` is a tensor filled with zeros."""
    return isinstance(expr, FilledTensor) and bool(expr.value == 0) and bool(expr.shape)


def _coefficient(factor: Any) -> tuple[Any, list[Any]]:
    """Return ``(number, other factors)`` of ``factor``; the number is 1 if it has no numeric factor."""
    if factor.is_Number:
        return factor, []
    if not isinstance(factor, TensorMul) or not factor.operands[0].is_Number:
        return S.One, [factor]
    number, *others = factor.operands
    return number, others if len(others) == 1 else [TensorMul(*others)]


def power(base: Any, exponent: Any) -> Any:
    """Return ``base ** exponent``, elementwise; exponents 0 and 1 are evaluated."""
    base, exponent = operand(base, "operator **"), operand(exponent, "operator **")
    if exponent == 0:
        return FilledTensor(S.One, base.shape)
    if exponent == 1:
        return base
    return exp(exponent) if base is S.Exp1 else TensorPow(base, exponent)


def subtract(left: Any, right: Any) -> Any:
    """Return ``left - right``."""
    right = operand(right, "operator -")
    return add(left, multiply(S.NegativeOne, right) if shape_of(right) else -right)


def divide(left: Any, right: Any) -> Any:
    """Return ``left / right``, elementwise."""
    right = operand(right, "operator /")
    return multiply(left, power(right, S.NegativeOne) if shape_of(right) else operand(1 / right, "operator /"))


def floor_divide(left: Any, right: Any) -> Any:
    """Return ``floor(left / right)``, elementwise."""
    return elementwise(floor, divide(left, right))


def remainder(left: Any, right: Any) -> Any:
    """Return ``left - right*floor(left / right)``, elementwise, as Python's ``%``."""
    return subtract(left, multiply(right, floor_divide(left, right)))


@explained
def matmul(A: Expression, B: Expression) -> Any:
    """Return ``A @ B`` by NumPy's rule: for matrices and vectors, and stacks of matrices in the last two axes.

    Parameters
    ----------
    A, B : Expr
        Of rank 1 or more; the axes before the last two are repeated to one shape as in NumPy.

    Returns
    -------
    Expr
        A tensor expression; a scalar for two vectors.

    Raises
    ------
    ShapeError
        If one is a scalar, or the shapes do not fit.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> A, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m)
    >>> td.matmul(A, x), td.matmul(x, x)
    (A @ x, x.T @ x)
    """
    left, right = operand(A, "operator @"), operand(B, "operator @")
    shapes = shape_of(left), shape_of(right)
    if () in shapes:
        raise ShapeError(f"{short(left)} @ {short(right)}: a scalar is not a matrix; the product with a scalar is *")
    stacks = max(0, *(len(shape) - 2 for shape in shapes))
    free = iter("ijklmnopqrstuvwxyzabcdefgh")
    row = next(free) if len(shapes[0]) > 1 else ""
    summed = next(free)
    column = next(free) if len(shapes[1]) > 1 else ""
    letters = ["", ""]
    output = ""
    for axis in range(-stacks - 2, -2):
        extents = [shape[axis] if len(shape) >= -axis else None for shape in shapes]
        letter = next(free)
        output += letter
        for side, extent in enumerate(extents):
            is_repeated = extent == 1 and extents[1 - side] not in (1, None)
            letters[side] += "" if extent is None else next(free) if is_repeated else letter
    subscripts = f"{letters[0]}{row}{summed},{letters[1]}{summed}{column}->{output}{row}{column}"
    return EinsumProduct(subscripts, left, right)


def transposed(tensor: Any) -> Any:
    """Return the transpose of ``tensor``, a matrix; a vector or scalar is returned unchanged. Raise `ShapeError` for
    more than two axes.
    """
    if tensor.rank > 2:
        raise ShapeError(
            f"{short(tensor)}.T: the transpose is that of a matrix, not of a tensor of rank {tensor.rank}; name the "
            f"order of the axes, td.transpose({short(tensor)}, {tuple(range(tensor.rank))[::-1]})"
        )
    return transpose(tensor)


OPERATORS: dict[str, Callable[..., Any]] = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "truediv": divide,
    "pow": power,
    "floordiv": floor_divide,
    "mod": remainder,
    "divmod": lambda left, right: (floor_divide(left, right), remainder(left, right)),
}
OF_SYMPY: dict[Any, Callable[..., Any]] = {Add: add, Mul: multiply, Pow: power}
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda tensor: multiply(S.NegativeOne, tensor),
    "pos": lambda tensor: tensor,
    "abs": lambda tensor: elementwise(Abs, tensor),
}
COMPARISONS = {"lt": ("<", "less"), "le": ("<=", "less_equal"), "gt": (">", "greater"), "ge": (">=", "greater_equal")}


def _binary(name: str, function: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    """Return the method ``name`` of a binary operator, such as ``__add__``. It calls ``function`` if an operand is a
    whole tensor, else SymPy's own; ``reflected`` swaps the operands.
    """
    scalar = getattr(Expr, name)

    def operator(self: Any, other: Any, *modulus: Any) -> Any:
        """Return the result of a binary operator, such as ``*``, for ``self`` and ``other``. If neither is a tensor, or
        if there is a third argument (the modulus of ``pow``), SymPy's own method computes it.
        """
        if modulus or not (is_whole(self) or is_whole(other)):
            return scalar(self, other, *modulus)
        if name == "__mul__" and is_whole(other):
            refuse_property_access(
                self, sys._getframe(1)
            )  # SymPy's tensorproduct multiplies what is not an array of its own
        return function(other, self) if reflected else function(self, other)

    return operator


def _unary(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the method ``name`` of a unary operator, such as ``__neg__``. It calls ``function`` for a whole tensor,
    else SymPy's own.
    """
    scalar = getattr(Expr, name)
    return lambda self: function(self) if is_whole(self) else scalar(self)


def _comparison(name: str, sign: str, function: str) -> Callable[[Any, Any], Any]:
    """Return the method ``name`` of the comparison operator ``sign``, such as ``__lt__`` of ``<``. For whole tensors it
    raises an error that suggests ``td.<function>``; otherwise it is SymPy's own.
    """
    scalar = getattr(Expr, name)

    def operator(self: Any, other: Any) -> Any:
        """Return SymPy's comparison; raise `UnsupportedError` if a side is a whole tensor."""
        for value in (self, other):
            refuse_as_scalar(value, f"operator {sign}", comparison(function))
        return scalar(self, other)

    return operator


def rebuilt(expr: Basic) -> Basic:
    """Return ``expr``, an `Add`, `Mul` or `Pow` that SymPy has just built, as a tensor operation if an argument is a
    whole tensor (SymPy's postprocessor); else unchanged.
    """
    if not any(map(is_whole, expr.args)):
        return expr
    function = OF_SYMPY.get(type(expr))
    if function is None:
        raise UnsupportedError(
            f"{type(expr).__name__}({', '.join(map(str, expr.args))}): SymPy's own matrices and whole tensors have no "
            "product in common; write td.lift(M) in place of the matrix M"
        )
    if function is power:
        return power(*expr.args)
    scalars = [arg for arg in expr.args if not is_whole(arg)]
    return function(expr.func(*scalars), *(arg for arg in expr.args if is_whole(arg)))


def install(tensor_class: Any) -> None:
    """Add operators, slicing, ``.T`` and SymPy's postprocessors to the class ``tensor_class``."""
    methods: dict[str, Callable[..., Any]] = {}
    for name, function in OPERATORS.items():
        for reflected in (False, True):
            method = f"__{'r' * reflected}{name}__"
            methods[method] = _binary(method, function, reflected)
    methods |= {f"__{name}__": _unary(f"__{name}__", function) for name, function in UNARY.items()}
    methods |= {f"__{name}__": _comparison(f"__{name}__", *found) for name, found in COMPARISONS.items()}
    methods["__matmul__"] = lambda self, other: matmul(self, other)
    methods["_part"] = part
    methods["__rmatmul__"] = lambda self, other: matmul(other, self)
    for method, function in methods.items():
        function.__name__ = method
        setattr(tensor_class, method, function)
    tensor_class.T = property(transposed, doc="The transpose of a matrix; a vector is its own.")
    tensor_class._eval_transpose = tensor_class._eval_adjoint = transposed
    tensor_class._eval_Abs = lambda self: elementwise(Abs, self) if is_whole(self) else None
    Basic._constructor_postprocessor_mapping[tensor_class] = {name: [rebuilt] for name in ("Add", "Mul", "Pow")}


def part(tensor: Any, indices: tuple[Any, ...]) -> Any:
    """Return ``tensor[indices]`` by NumPy's basic indexing: an index removes an axis, None inserts one of extent 1.

    Axes without an index are taken whole. Raise `ShapeError` if there are more indices than axes or a part has no
    entries, `IndexExpressionError` for two ellipses or a step of 0, and `OutOfShapeError` for an index outside of the
    shape.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> A = td.TensorSymbol("A", (n, m))
    >>> A[0], A[1:-1, 2].shape, A[..., ::-1]
    (A[0], (n - 2,), TensorComprehension(A[i, m - j - 1], (i, n), (j, m)))
    """
    shape: list[Any] = []
    places: list[Any] = []  # an index, or the start and the step of an axis of the result
    extents = iter(tensor.shape)
    full = _for_all_axes(tensor, indices)
    axes = [index for index in full if index is None or isinstance(index, slice)]
    if 0 < axes.count(None) < len(axes) and getattr(tensor, "dtype", float) is not int:
        selected = tuple([index for index in full if index is not None])
        whole = all(index == slice(None) for index in selected)
        return with_unit_axes(
            tensor if whole else part(tensor, selected), [n for n, index in enumerate(axes) if index is None]
        )
    for index in full:
        if index is None:
            shape.append(S.One)
        elif isinstance(index, slice):
            start, step, length = _slice_range(index, next(extents), tensor)
            places.append((start, step, len(shape)))
            shape.append(length)
        else:
            extent, place = next(extents), as_expr(index, "an index")
            # As the bounds of a slice, a negative number counts from the end of the axis.
            counts_back = place.is_Integer and place < 0 and not (extent.is_Integer and place < -extent)
            places.append(extent + place if counts_back else place)

    def entry(*at: Expr) -> Any:
        """Return the entry of the slice at the indices ``at``: for ``B = A[2:, 1]``, ``B[i]`` is ``A[i + 2, 1]``.

        ``places``, of the enclosing function, has the start, step and axis of each slice, or an index.
        """
        full = [place[0] + place[1] * at[place[2]] if isinstance(place, tuple) else place for place in places]
        return inline_entry(tensor, TensorEntry(tensor, *full).indices)

    names = [place for place in places if not isinstance(place, tuple)]
    return tabulate(shape, (tensor, *names), entry)


def _for_all_axes(tensor: Any, indices: tuple[Any, ...]) -> list[Any]:
    """Return ``indices`` with one item for each axis of ``tensor``: full slices ``:`` replace an ellipsis and are
    appended for missing axes.

    Raises `ShapeError` for more indices than axes and `IndexExpressionError` for two ellipses.
    """
    given = sum(index is not None and index is not Ellipsis for index in indices)
    dots = [place for place, index in enumerate(indices) if index is Ellipsis]
    if given > tensor.rank or len(dots) > 1:
        problem = (
            "two ellipses leave open which axes they mean" if len(dots) > 1 else "there are more indices than axes"
        )
        error: type[Exception] = IndexExpressionError if len(dots) > 1 else ShapeError
        raise error(f"{short(tensor)} has rank {tensor.rank} (shape {tensor.shape}): {problem}")
    place = dots[0] if dots else len(indices)
    return [*indices[:place], *[slice(None)] * (tensor.rank - given), *indices[place + 1 :]]


def _slice_range(index: slice, extent: Any, tensor: Any) -> tuple[Any, int, Any]:
    """Return ``(start, step, length)`` of the slice `index` of an axis with `extent`; negative numbers count from the
    end. ``tensor`` is shown in errors.

    Raises `IndexExpressionError` for the step 0 and `ShapeError` if the slice is empty.
    """
    step = 1 if index.step is None else as_int(index.step, "the step of a slice")
    bounds = [None if bound is None else as_expr(bound, "a bound of a slice") for bound in (index.start, index.stop)]
    if step == 0:
        raise IndexExpressionError(f"{short(tensor)}: the step of a slice is 0; it must be another integer")
    if isinstance(extent, Integer) and all(bound is None or isinstance(bound, Integer) for bound in bounds):
        numbers = range(int(extent))[index]
        length: Any = Integer(len(numbers))
        start: Any = Integer(numbers.start)
    else:
        first, last = (S.Zero, extent) if step > 0 else (extent - 1, S.NegativeOne)
        start, stop = (
            default if bound is None else extent + bound if isinstance(bound, Integer) and bound < 0 else bound
            for bound, default in zip(bounds, (first, last), strict=True)
        )
        distance = stop - start if step > 0 else start - stop
        length = distance if abs(step) == 1 else floor((distance + abs(step) - 1) / Integer(abs(step)))
    if length.is_nonpositive:
        raise ShapeError(f"{short(tensor)}: the slice {index.start}:{index.stop} has no entries; no axis is empty")
    return start, step, length


install(TensorExpr)
