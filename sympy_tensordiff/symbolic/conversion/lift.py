"""Lifting: conversion of SymPy's own sums, indexed bases and matrices into the classes of this package."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

import sympy
from sympy import Expr, Idx, Max, Piecewise, S, Symbol, Tuple, expand
from sympy.concrete.expr_with_limits import ExprWithLimits

from sympy_tensordiff.errors import ArgumentError, ShapeError, UnsupportedError
from sympy_tensordiff.symbolic.conversion.lift_arrays import whole_operation
from sympy_tensordiff.symbolic.conversion.lift_matrices import MATRIX_CLASSES, lift_matrix, matrix_operands
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.base import TensorNode
from sympy_tensordiff.symbolic.expressions.binders import Binder, fresh_index
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.integer_symbols import may_be_integer
from sympy_tensordiff.symbolic.expressions.misplaced_tensors import is_whole
from sympy_tensordiff.symbolic.expressions.moved_conditions import refuse_moved_conditions
from sympy_tensordiff.symbolic.expressions.real_values import OF_COMPLEX, refuse_imaginary, refuse_undeclared
from sympy_tensordiff.symbolic.expressions.traversal import (
    BoundIndices,
    Recursion,
    Rewriting,
    Rules,
    names_in,
    nodes_in,
    rebound,
    symbols_in,
)
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry
from sympy_tensordiff.symbolic.index_notation.indices import parse
from sympy_tensordiff.symbolic.index_notation.limits import NOT_FINITE, bound_forms
from sympy_tensordiff.symbolic.index_notation.sums import IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import NamedTensor, TensorSymbol
from sympy_tensordiff.symbolic.recurrences.scans import Scan
from sympy_tensordiff.symbolic.recurrences.scans_over_indices import over_indices


@explained
def lift(expr: Any) -> Any:
    """Convert SymPy's own notation into the classes of this package.

    Parameters
    ----------
    expr : Expr, or tuple or list of them
        Any expression of SymPy with `sympy.Sum`, `sympy.Product`, `sympy.IndexedBase`, `sympy.Idx` and
        `sympy.KroneckerDelta` anywhere inside, matrix expressions and array expressions; classes of this package are
        unchanged.

    Returns
    -------
    Expr, or tuple or list of them
        `IndexedSum` in place of ``Sum``, `IndexedProduct` in place of ``Product``, `TensorSymbol` and
        `TensorEntry` in place of ``IndexedBase`` and ``Indexed``. An ``IndexedBase`` without a shape has
        one free positive size per axis: ``n_x``, or ``n_x_0, n_x_1, …`` if there are several. An index that
        a sum or a product binds becomes an integer symbol of its name, if it is not declared an
        integer. A matrix is a tensor of rank 2, vectors included, and real: the adjoint is the transpose.

    Raises
    ------
    IndexExpressionError
        For an index or a size that is declared not to be an integer.
    ShapeError
        For a whole ``IndexedBase`` without a shape, for one name with two shapes, and for matrices
        whose shapes do not fit.
    UnsupportedError
        For ``Integral``, and an ``IndexedBase`` with an offset or with strides,
        for functions of whole matrices other than inverse and determinant, and for a condition that SymPy has
        moved out of an inner ``Sum`` whose index it contains.
    ArgumentError
        For a range that is infinite.

    Notes
    -----
    SymPy's ``Sum`` follows Karr's convention (J. ACM 28, 1981): a sum from 5 to 2 is the negative of the sum from 3 to
    4, and a product is the inverse of that. Ranges whose length is a number are lifted to exactly that. If the length
    depends on symbols, an empty range sums to 0, and multiplies to 1, after lifting, which is the meaning of
    ``Sum(x[i], (i, 0, n - 1))`` at ``n = 0`` in either convention.

    Lifting is local: an expression is lifted to the same result in any context.

    Examples
    --------
    >>> import sympy
    >>> from sympy_tensordiff.symbolic.conversion.lift import lift
    >>> i = sympy.symbols("i")
    >>> n = sympy.symbols("n", integer=True)
    >>> x = sympy.IndexedBase("x")
    >>> lift(sympy.Sum(x[i]**2, (i, 0, n - 1)))
    IndexedSum(x[i]**2, (i, 0, n - 1))
    >>> lift(x[0]).tensor.shape
    (n_x,)
    >>> A = sympy.MatrixSymbol("A", n, n)
    >>> lift(sympy.Trace(A.T*A))
    trace(A.T @ A)
    """
    if isinstance(expr, (tuple, list)) and not isinstance(expr, Tuple):
        return type(expr)(lift(part) for part in expr)
    given = as_expr(expr, "the expression")
    refuse_moved_conditions(given)
    return _without_indices(_Lift().run(given))


def lift_native(value: Any, tensors: Iterable[TensorSymbol] = ()) -> Any:
    """Return ``value`` converted to this package's classes if its own class is SymPy's, such as `Indexed`; else
    unchanged. An `IndexedBase` without a shape becomes the tensor of its name in ``tensors``.
    """
    if not isinstance(value, NATIVE):
        return value
    if isinstance(value, sympy.IndexedBase) and value.shape is None:
        for tensor in tensors:
            if tensor.name == str(value.label):
                return tensor
    return lift(value)


hooks.lifted.register(lift_native)


def as_operand(value: object, description: str) -> Any:
    """Return ``value`` as an expression of this package; SymPy's own notation is converted. Error messages call it
    ``description``.
    """
    expr = as_expr(value, description)
    if not isinstance(expr, TensorNode):
        return lift(expr)
    if any(isinstance(node, (sympy.Sum, sympy.Product)) for node in nodes_in([expr])):
        refuse_moved_conditions(expr)
    return _without_indices(expr)


hooks.operand.register(as_operand)


def _without_indices(expr: Any) -> Any:
    """Return an equal expression in which no scan (a loop over time) depends on an index of a surrounding sum or
    comprehension. Each scan that does is replaced by an entry of one scan over all values of the index.
    """
    return over_indices(expr) if any(getattr(node, "is_scan", False) for node in nodes_in([expr])) else expr


class _Lift(Rewriting):
    """Converts SymPy's classes to those of this package, for `lift`. Checks also that two tensors with one name are the
    same tensor.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[str, tuple[TensorSymbol, Expr]] = {}

    # -------------------------------------------------------------- tensors

    def register_tensor(self, tensor: TensorSymbol, written: Expr) -> TensorSymbol:
        """Record that ``tensor`` occurs, and return it. Raise `ShapeError` if another tensor of its name has occurred;
        ``written`` is the user's notation, for the message.
        """
        other, origin = self.tensors.setdefault(tensor.name, (tensor, written))
        if other != tensor:
            way_out = "give them different names"
            if not (isinstance(origin, TensorSymbol) and isinstance(written, TensorSymbol)):
                way_out = (
                    f"give the IndexedBase one shape everywhere, IndexedBase({tensor.name!r}, shape=(n, …)), "
                    "or use two names"
                )
            raise ShapeError(
                f"two different tensors are called {tensor.name}: {origin} of shape {other.shape}"
                f"{properties_of(other)} and {written} of shape {tensor.shape}{properties_of(tensor)}; {way_out}"
            )
        return tensor

    def visit_tensor_symbol(self, expr: TensorSymbol, bound_indices: BoundIndices) -> Any:
        """Return the tensor symbol, after checking that its name means one tensor only."""
        return self.register_tensor(expr, expr)

    def visit_indexed_base(self, expr: sympy.IndexedBase, bound_indices: BoundIndices) -> Any:
        """Return the tensor symbol of an `IndexedBase` used as a whole; raise `ShapeError` if it has no shape."""
        if expr.shape is None:
            raise ShapeError(
                f"the IndexedBase {expr} as a whole has no known rank: give it a shape, "
                f"IndexedBase({str(expr)!r}, shape=(n,)), or write td.TensorSymbol({str(expr)!r}, n)"
            )
        return self.register_tensor(_tensor_of_base(expr, ()), expr)

    def visit_entry(self, expr: sympy.Indexed, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert an entry of SymPy's `Indexed`, ``x[i]``, to a tensor entry; raise `UnsupportedError` if ``x`` is not
        an `IndexedBase`.
        """
        if not isinstance(expr.base, sympy.IndexedBase):
            raise UnsupportedError(
                f"{expr} is an entry of {expr.base} ({type(expr.base).__name__}): only entries of an IndexedBase are "
                "lifted; write td.TensorSymbol in its place"
            )
        indices = yield self.all(expr.indices, bound_indices)
        tensor = _tensor_of_base(expr.base, _size_symbols(str(expr.base.label), len(indices)))
        return TensorEntry(self.register_tensor(tensor, expr if expr.base.shape is None else expr.base), *indices)

    # -------------------------------------------------------------- deltas

    def visit_kronecker_delta(self, expr: Any, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert a `KroneckerDelta`. If it has an index range, it becomes a `Piecewise` that is 0 outside of the
        range.
        """
        left, right = yield self.all(expr.args[:2], bound_indices)
        parse(left - right)  # says which symbol is declared not to be an integer
        delta = sympy.KroneckerDelta(left, right)
        if len(expr.args) < 3:
            return delta
        low, high = yield self.all(expr.args[2].args, bound_indices)
        for bound in (low, high):
            if bound not in NOT_FINITE:
                parse(bound)
        # SymPy: zero where an index leaves the range.
        return Piecewise((delta, sympy.And(left >= low, left <= high)), (S.Zero, True), evaluate=False)

    # -------------------------------------------------------------- binders

    def visit_binder(self, expr: Binder, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert the body, bounds and extents of a sum or comprehension of this package; its bound indices are
        unchanged.
        """
        inner = frozenset(pair for pair in bound_indices if pair[0] not in expr.variables)
        return (yield self.rebuilt(expr, inner))

    def visit_reduction(self, expr: sympy.Sum | sympy.Product, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert SymPy's `Sum` or `Product` to an `IndexedSum` or `IndexedProduct`. A range that ends before it begins
        is reversed as SymPy does (Karr's convention).

        Raises `ArgumentError` for a limit without a complete range and `UnsupportedError` for an imaginary body.
        """
        sign, limits = 1, []
        targets = _IntegerIndices(expr)
        for position, limit in reversed(list(enumerate(expr.limits))):
            if len(limit) != 3 or None in limit.args:
                raise ArgumentError(
                    f"the limit {limit} of {expr} has no complete range; write (index, first, last), e.g. (k, 0, n - 1)"
                )
            # Outermost first: the bounds see the indices around them.
            low, high = yield self.all(limit[1:], bound_indices)
            bound_indices, index = targets.bind(position, bound_indices)
            length = expand(high - low)
            if length.is_Integer and length < -1:
                sign, low, high = -sign, high + 1, low - 1
            limits.append((index, low, _without_redundant_operands(low, high)))
        refuse_imaginary(expr.function, type(expr).__name__)
        body = yield self.visit(expr.function, bound_indices)
        if isinstance(expr, sympy.Product):
            return IndexedProduct(body, *reversed(limits)) ** sign
        return sign * IndexedSum(body, *reversed(limits))

    def refuse_limits(self, expr: Any, bound_indices: BoundIndices) -> Any:
        """Raise `UnsupportedError` for an expression with limits that is not a sum or a product: an `Integral`, say."""
        raise UnsupportedError(
            f"{type(expr).__name__} is not supported in a tensor expression: {expr}; only Sum and Product are"
        )

    def visit_matrix(self, expr: Any, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert a matrix or array expression of SymPy's to this package's classes. Its operands are converted first,
        so that nothing recurses deeply.
        """
        yield self.all(matrix_operands(expr), bound_indices)  # remembered, so that nothing recurses below
        result = lift_matrix(expr, lambda part: self.run(part, bound_indices))
        return self.register_tensor(result, expr) if isinstance(result, TensorSymbol) else result

    def visit_complex_function(self, expr: Any, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert the arguments of a function of complex numbers, such as a conjugate; raise `UnsupportedError` unless
        they are declared real.
        """
        refuse_undeclared(expr, [old for old, _ in bound_indices])
        return (yield self.rebuilt(expr, bound_indices))

    def rebuilt(self, expr: Any, bound_indices: BoundIndices) -> Recursion[Any]:
        """Return ``expr`` with converted arguments. If one of these is a whole tensor, a SymPy sum, product or power
        becomes a tensor operation.
        """
        args = yield self.all(expr.args, bound_indices)
        if any(map(is_whole, args)) and not isinstance(expr, TensorNode) and type(expr) is not Tuple:
            return whole_operation(expr, args)
        return (yield super().rebuilt(expr, bound_indices))

    rules: ClassVar[Rules] = {
        **dict.fromkeys(MATRIX_CLASSES, visit_matrix),
        TensorSymbol: visit_tensor_symbol,
        NamedTensor: visit_tensor_symbol,
        Scan: lambda self, expr, bound_indices: expr,  # its parts have been lifted
        Binder: visit_binder,
        sympy.Sum: visit_reduction,
        sympy.Product: visit_reduction,
        ExprWithLimits: refuse_limits,
        sympy.IndexedBase: visit_indexed_base,
        sympy.Indexed: visit_entry,
        sympy.KroneckerDelta: visit_kronecker_delta,
        **dict.fromkeys(OF_COMPLEX, visit_complex_function),
    }


NATIVE = (sympy.Sum, sympy.Product, sympy.Integral, sympy.IndexedBase, sympy.Indexed, *MATRIX_CLASSES)
"""The classes of SymPy's that only `lift` can read."""


def _tensor_of_base(base: Any, shape: tuple[Expr, ...]) -> TensorSymbol:
    """Return the tensor symbol for SymPy's `IndexedBase` `base`; ``shape`` is used if it has none. Raise
    `UnsupportedError` for offsets, strides or complex entries.
    """
    if base.offset != 0 or base.strides is not None:
        raise UnsupportedError(
            f"the IndexedBase {base} has the offset {base.offset} and the strides {base.strides}, which are about "
            "memory, not about values: leave them out"
        )
    if base.is_extended_real is False or base.is_commutative is False:
        raise UnsupportedError(f"the IndexedBase {base} is declared not to be real; tensors are real")
    dtype = int if base.is_integer else float
    result: TensorSymbol = TensorSymbol(str(base.label), shape if base.shape is None else base.shape, dtype=dtype)
    return result


def _size_symbols(name: str, rank: int) -> tuple[Expr, ...]:
    """Return new size symbols for the ``rank`` axes of a tensor that is declared without a shape: ``n_x`` for a vector
    ``x``, ``n_x_0``, ``n_x_1``, ... for more axes. No two tensors share a symbol.
    """
    if rank == 1 and not re.search(r"_\d+$", name):
        return (Symbol(f"n_{name}", integer=True, positive=True),)
    return tuple(Symbol(f"n_{name}_{axis}", integer=True, positive=True) for axis in range(rank))


def properties_of(tensor: TensorSymbol | NamedTensor) -> str:
    """Return the declared properties of a tensor symbol as text for messages, such as ", symmetric" or " of integers
    below n"; "" if there are none.
    """
    if tensor.symmetric:
        return ", positive definite" if tensor.positive else ", symmetric"
    below = "" if tensor.below is None else f" below {tensor.below}"
    return f" of integers{below}" if tensor.dtype is int else ""


# ------------------------------------------------------------------ indices and bounds of SymPy's sums and products


class _IntegerIndices:
    """The integer symbols that replace the indices of a SymPy `Sum` or `Product` when it is converted. They are renamed
    where they would clash with other symbols.
    """

    def __init__(self, expr: sympy.Sum | sympy.Product) -> None:
        self.expr = expr
        self.chosen: set[Any] = set()

    def bind(self, position: int, bound_indices: BoundIndices) -> tuple[BoundIndices, Any]:
        """Return ``(bound_indices, symbol)`` for limit number ``position`` of the sum: the integer symbol that replaces
        its index, and ``bound_indices`` with this replacement added, to convert the body and inner limits.
        """
        index = self.expr.limits[position][0]
        if not isinstance(index, (Symbol, Idx)):
            return bound_indices, index  # refused with the sum
        target = _as_integer_symbol(index)
        if target in self.chosen or self._captures(position, index, target, bound_indices):
            around = {symbol for _, new in bound_indices for symbol in new.free_symbols} | self.chosen
            target = fresh_index(target, names_in([self.expr, *around]))
        self.chosen.add(target)
        return rebound(bound_indices, index, target), target

    def _captures(self, position: int, index: Any, target: Any, bound_indices: BoundIndices) -> bool:
        """Return whether ``target``, the integer symbol that should replace ``index`` in limit number ``position`` of a
        sum, has to be renamed, because it would be confused with another symbol of the sum or with an index around it.

        It does if ``target`` already occurs in the sum or replaces an outer index, or if a bound of this or an outer
        limit contains ``index``. ``bound_indices`` has the replacements of outer indices.
        """
        if target != index and target in symbols_in([self.expr]):
            return True
        if any(target in new.free_symbols for old, new in bound_indices if old != index):
            return True
        return any(index in bound.free_symbols for limit in self.expr.limits[position:] for bound in limit[1:])


def _as_integer_symbol(index: Any) -> Any:
    """Return ``index`` as an integer symbol of the same name; itself if it is an integer or declared not to be one."""
    if index.is_integer or not may_be_integer(index):
        return index
    assumptions = {**index._assumptions_orig, "integer": True}
    if isinstance(index, sympy.Dummy):
        return sympy.Dummy(index.name, dummy_index=index.dummy_index, **assumptions)
    return Symbol(index.name, **assumptions)


def _without_redundant_operands(low: Expr, high: Expr) -> Expr:
    """Return the upper bound ``high`` of a range that begins at ``low``. If it is a `Max`, its operands that are
    certainly below ``low`` are left out, because they do not change the range.
    """
    if not isinstance(high, Max):
        return high
    lows = (low, *bound_forms(low, Max))
    below = [part for part in high.args if any(expand(form - part).is_positive for form in lows)]
    remaining = [part for part in high.args if part not in below]
    return Max(*(remaining or below))
