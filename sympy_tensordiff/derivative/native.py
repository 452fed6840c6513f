"""Differentiation in SymPy's own notation: `diff`, `simplify_deltas`, and matrices as results."""

from __future__ import annotations

from typing import Any

from sympy import MatrixExpr, MatrixSymbol
from sympy.matrices.matrixbase import MatrixBase

from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.errors import TensorDiffError, UnsupportedError
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.symbolic.conversion.lift import as_operand
from sympy_tensordiff.symbolic.conversion.lift_matrices import only_entry
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.base import TensorNode, counted
from sympy_tensordiff.symbolic.expressions.binders import Binder
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.expressions.misplaced_tensors import is_whole
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in, scans_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorExpr, TensorSymbol


@explained
def diff(e: Any, *variables: Any) -> Any:
    """The derivative of ``e``, as `sympy.diff`, where ``e`` and the variables may be SymPy's own notation.

    Parameters
    ----------
    e : Expr
        A scalar or a tensor expression; lifted first (see `lift`).
    *variables : TensorEntry, TensorSymbol or Symbol, or a pair of one and a count
        As for `sympy.diff`: ``x[p], y[q]``, ``x[p], 2`` or ``(x[p], 2)``. An entry and a scalar
        symbol give an expression of the shape of ``e``, a whole tensor the Jacobian: axes of
        ``e`` first, axes of the variable last.

    Returns
    -------
    Expr
        In the classes of this package; by a `sympy.MatrixSymbol` a matrix of SymPy's, where it has such a form. No
        Kronecker delta remains under a sum, no index is captured, and no guard follows from ``0 <= p < n`` of an entry
        ``x[p]`` that is a variable.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is no variable, or an argument is not one.
    UnsupportedError
        If ``e`` holds something that has no derivative here; the message names it.

    Notes
    -----
    Plain `sympy.diff` works as well on the classes of this package, but ``sympy.Sum`` answers it
    by rules of its own: ``Sum(x[i]*y[i], (i, 0, n - 1)).diff(x[i])`` captures ``i``.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> i, p, n = td.indices("i p n")
    >>> x, y = sympy.IndexedBase("x", shape=n), sympy.IndexedBase("y", shape=n)
    >>> dot = sympy.Sum(x[i]*y[i], (i, 0, n - 1))
    >>> td.diff(dot, x[p]), td.diff(dot, x[i]), td.diff(dot, x)
    (y[p], y[i], TensorComprehension(y[p], (p, n)))
    >>> td.diff(sympy.log(dot), x[p], 2)
    -y[p]**2/IndexedSum(x[i]*y[i], (i, 0, n - 1))**2
    """
    orders = counted(variables)
    value = as_operand(e, "the expression")
    if scans_in([value]):
        for variable in (variable for variable, times in orders for _ in range(times)):
            value = hooks.derivative(value, variable)
        return value
    work = Differentiation(value, by=[variable for variable, _ in orders])
    work.root = work.simplified(work.root)
    facts: tuple[Any, ...] = ()
    for variable, times in orders:
        for _ in range(times):
            node, known = work.derivative(variable)
            facts += known
            work.root = work.simplified(node, facts)
    return in_matrices(write(work.reader, work.root), orders[-1][0], e)


def as_scalar(s: Any, what: str) -> Any:
    """Return `s` converted to this package's classes, and a 1x1 SymPy matrix as its only entry. Error messages call it
    `what`.
    """
    lifted = as_operand(s, what)
    is_entry = isinstance(s, (MatrixExpr, MatrixBase)) and s.shape == (1, 1)
    return only_entry(lifted) if is_entry else lifted


def in_matrices(result: Any, wrt: Any, *given: Any) -> Any:
    """Return the derivative `result` as a SymPy matrix if `wrt` is one and all of `given` is in SymPy's notation; else
    unchanged.

    It stays a tensor where it has no such form, and where not all of its matrices are among those given.

    `given` are the differentiated expression, cotangents and tangents.
    """
    if not isinstance(wrt, MatrixSymbol) or any(isinstance(part, TensorNode) for part in given):
        return result
    if not is_whole(result) or result.rank != 2 or measures(result).is_deep:
        return result
    try:
        matrix = result.rewrite(MatrixExpr)
    except TensorDiffError:
        return result
    known = set().union(*(part.atoms(MatrixSymbol) for part in (wrt, *given) if hasattr(part, "atoms")))
    return matrix if matrix.atoms(MatrixSymbol) <= known else result


@explained
def simplify_deltas(e: Any) -> Any:
    """``e`` with every `KroneckerDelta` under a sum eliminated, exactly over the integers.

    Parameters
    ----------
    e : Expr
        A scalar or a tensor expression; SymPy's own ``Sum`` is lifted first (see `lift`).

    Returns
    -------
    Expr
        The same value, in the classes of this package. Deltas between free indices stay.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> i, j = td.indices("i j")
    >>> td.simplify_deltas(td.IndexedSum(sympy.KroneckerDelta(2*i, j), (i, 0, 10)))
    Piecewise((1, (j >= 0) & (j <= 20) & Eq(Mod(j, 2), 0)), (0, True))

    SymPy forgets that half of an odd number is not an index:

    >>> x = sympy.IndexedBase("x", shape=11)
    >>> own = sympy.Sum(sympy.KroneckerDelta(2*i, j)*x[i], (i, 0, 10))
    >>> own.doit()
    Piecewise((x[j/2], (j >= 0) & (j <= 20)), (0, True))
    >>> td.simplify_deltas(own)
    Piecewise((x[floor(j/2)], (j >= 0) & (j <= 20) & Eq(Mod(j, 2), 0)), (0, True))
    """
    e = as_operand(e, "the expression")
    try:
        work = Differentiation(e)
    except UnsupportedError:
        # A derivative with respect to one entry need not show any more that its divisors are positive.
        if _has_ranges(e):
            raise
        return e
    return work.finish(work.root)


def _has_ranges(e: Any) -> bool:
    """Return whether `e` contains an index that runs over a range: a sum, a comprehension or an operation on whole
    tensors. Plain functions of entries ``x[i]`` contain none.
    """
    return any(isinstance(node, (Binder, TensorExpr)) and not isinstance(node, TensorSymbol) for node in nodes_in([e]))


def _simplified(e: Any) -> Any:
    """Return `e` with Kronecker deltas under sums eliminated; `e` itself if it cannot be converted."""
    try:
        return simplify_deltas(e)
    except TensorDiffError:
        return e


hooks.simplified.register(_simplified)
