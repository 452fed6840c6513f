"""The base class of operations on whole tensors, and validation of operands and shapes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from sympy import Basic, Derivative, Expr, Indexed, IndexedBase, Lambda, S, Tuple
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import Boolean
from sympy.matrices.expressions.matexpr import MatrixExpr
from sympy.matrices.matrixbase import MatrixBase
from sympy.tensor.array.expressions.array_expressions import _ArrayExpr
from sympy.tensor.array.ndim_array import NDimArray

from sympy_tensordiff.errors import ArgumentTypeError, ShapeError, UnsupportedError
from sympy_tensordiff.symbolic.expressions import depth, sympy_callers
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.base import TensorNode, interned, is_placeholder
from sympy_tensordiff.symbolic.expressions.moved_conditions import refuse_moved_conditions
from sympy_tensordiff.symbolic.expressions.real_values import OF_COMPLEX, refuse_undeclared, way_out
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, nodes_in
from sympy_tensordiff.symbolic.index_notation.entries import TensorExpr
from sympy_tensordiff.symbolic.index_notation.limits import NOT_FINITE, checked_extent

Shape = tuple[Any, ...]
Read: TypeAlias = Callable[[Any, Sequence[Expr], Iterable[Any]], Any]
"""Writes the entry of an operand at some indices, given the indices that vary there; a scalar as it is."""

FOREIGN = (MatrixBase, MatrixExpr, NDimArray, _ArrayExpr, IndexedBase)
"""SymPy's own whole tensors, whose products mean something else."""


class TensorOperation(TensorExpr):
    """The base class of operations on whole tensors. The shape of the result is computed from the operands when a node
    is made.
    """

    has_symbols_of_parts = True
    has_index_form = True
    _shape: Shape = ()

    @classmethod
    def _unchecked(cls, *args: Basic) -> Any:
        """Return the node of this class with the arguments ``args``, without checking them; its shape is computed."""
        return cls._of_shape(args, cls._inferred(*args))

    @classmethod
    def _of_shape(cls, args: tuple[Basic, ...], shape: Shape) -> Any:
        """Return the node with the arguments ``args`` and the known ``shape``, without checking either."""
        node = interned(cls, args)
        node._shape = shape
        return node

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape of a node with the arguments `args`, which must be valid; implemented by each subclass."""
        raise NotImplementedError

    @property
    def shape(self) -> Shape:
        """Return the shape of the result, a tuple with the extent of each axis."""
        return self._shape

    @property
    def operands(self) -> tuple[Any, ...]:
        """Return the tensors and scalars that the operation takes."""
        return tuple(self.args)

    @property
    def free_symbols(self) -> set[Basic]:
        """Override `Basic.free_symbols`: return the free symbols of all arguments."""
        return sympy_callers.free_symbols_for_caller(self, free_symbols_in([self]), sys._getframe(1))

    def write_out(self, indices: tuple[Expr, ...]) -> Expr | None:
        """Return the entry at ``indices`` in index notation, one level deep; None for an operation without index
        notation, such as an inverse.
        """
        return self.entry_of(indices, entry) if self.has_index_form else None

    def entry_of(self, indices: Sequence[Expr], read: Read) -> Any:
        """Return the entry of this tensor at ``indices``, as an expression in entries of the operands.
        ``read(operand, indices, varying)`` returns such an entry; ``varying`` are the index symbols in ``indices``.
        """
        raise NotImplementedError

    def _substituted(self, old: Basic, new: Basic) -> Any:
        """Return the node with ``old`` replaced by ``new`` in all arguments. If ``new`` is a temporary placeholder of
        `subs`, the shape is not computed again.
        """
        if not is_placeholder(new):
            return super()._substituted(old, new)
        args = tuple(arg._subs(old, new) for arg in self.args)
        return self if args == self.args else self._of_shape(args, self._shape)

    def doit(self, **hints: Any) -> Any:
        """Override `Basic.doit`: return the operation with its operands evaluated; raise `UnsupportedError` if the
        expression is too large.
        """
        depth.refuse_walk(self, "doit")
        return super().doit(**hints)

    def _eval_simplify(self, **kwargs: Any) -> Any:
        """SymPy's hook for `simplify`: return the operation unchanged."""
        return self


def entry(operand: Any, indices: Sequence[Expr], varying: Iterable[Any]) -> Any:
    """Return the entry of ``operand`` at ``indices`` as one `TensorEntry` node, so that the operand stays shared; a
    scalar is returned unchanged. ``varying`` is ignored; functions of the same signature use it.
    """
    return operand[tuple(indices)] if shape_of(operand) else operand


def varying_in(indices: Iterable[Expr]) -> set[Any]:
    """Return the free symbols of ``indices``: the symbols that vary from one entry to another."""
    return set().union(*(index.free_symbols for index in indices))


def operand(value: Any, owner: str) -> Expr:
    """Return ``value`` as a tensor expression or a real scalar; raise an error that names the operation ``owner`` if it
    is neither.

    Raises `ArgumentTypeError` for another object and `UnsupportedError` for a native matrix or array, or a scalar that
    is complex or infinite.
    """
    expr = as_expr(value, f"an operand of {owner}")
    if isinstance(expr, TensorExpr):
        return expr
    if isinstance(expr, FOREIGN):
        raise UnsupportedError(
            f"{owner}: {expr} is SymPy's own {type(expr).__name__}, which is lifted first: write td.lift({expr}) "
            "in its place, or a td.TensorSymbol"
        )
    if not isinstance(expr, Expr) or isinstance(expr, Lambda):
        hint = "; a condition selects entries in a Piecewise under a TensorComprehension"
        raise ArgumentTypeError(
            f"{owner}: an operand must be a tensor or a real scalar, not {expr} ({type(expr).__name__})"
            f"{hint if isinstance(expr, Boolean) else ''}"
        )
    if expr.is_commutative is False:
        raise UnsupportedError(f"{owner}: the operand {expr} does not commute, so it is not a real number")
    for node in nodes_in([expr], _arguments):
        if isinstance(node, Derivative) and any(shape_of(part) for part in (node.expr, *node.variables)):
            raise UnsupportedError(
                f"{owner}: the operand {expr} is a whole tensor that has no shape yet: evaluate the derivative first, "
                "with .doit(), or write td.diff"
            )
        if isinstance(node, OF_COMPLEX):
            refuse_undeclared(node)
        if node is S.ImaginaryUnit or node in NOT_FINITE:
            refuse_moved_conditions(expr)  # the logarithm of a sum of zeros, which nobody wrote
            advice = f": {way_out(())}" if node is S.ImaginaryUnit else ""
            if node in (S.Infinity, S.NegativeInfinity):
                advice = ": td.where and Piecewise take it as the value of a branch"
            raise UnsupportedError(f"{owner}: the operand {expr} is not a finite real number; tensors are real{advice}")
    return expr


def _arguments(node: Any) -> tuple[Any, ...]:
    """Return the arguments of ``node`` in which to search for values that are complex or infinite; () if ``node`` is an
    entry of a tensor, which is real.

    Arguments of tensor entries are left out, and so are infinite values of choices (masked scores).
    """
    if isinstance(node, (TensorNode, Indexed)):
        return ()
    if isinstance(node, ExprCondPair) and node.expr in (S.Infinity, S.NegativeInfinity):
        return (node.cond,)
    args: tuple[Any, ...] = node.args
    return args


def shape_of(expr: Any) -> Shape:
    """Return the shape of a tensor; ``()`` for a scalar."""
    return tuple(expr.shape) if isinstance(expr, TensorExpr) else ()


def shape_tuple(shape: Any, owner: str) -> Tuple:
    """Return ``shape`` as a tuple of checked extents; a single number or symbol means one axis. Errors name
    ``owner``.
    """
    extents = shape if isinstance(shape, (tuple, list, Tuple)) else (shape,)
    return Tuple(*(checked_extent(extent, owner) for extent in extents))


def refuse_scalars(operands: Iterable[Any], owner: str) -> None:
    """Raise `ShapeError` if all ``operands`` are scalars, because the elementwise node ``owner`` needs a tensor among
    them.
    """
    operands = tuple(operands)
    if not any(map(shape_of, operands)):
        shown = ", ".join(map(str, operands))
        raise ShapeError(
            f"{owner}({shown}) has no operand of rank > 0: SymPy's own scalar nodes do that, and the operators and "
            "functions of td choose by themselves"
        )
