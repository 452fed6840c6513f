"""`simplify_deltas`: an expression without deltas under its sums."""

from __future__ import annotations

from typing import Any

from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.errors import TensorDiffError, UnsupportedError
from sympy_tensordiff.symbolic.binders import Binder
from sympy_tensordiff.symbolic.hooks import register_simplification
from sympy_tensordiff.symbolic.lift import as_operand
from sympy_tensordiff.symbolic.tensors import TensorExpr, TensorSymbol
from sympy_tensordiff.symbolic.traversal import nodes_in


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

    SymPy forgets that half of an odd number is no index:

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
        # A derivative by one entry need not show any more that its divisors are positive.
        if _has_ranges(e):
            raise
        return e
    return work.finish(work.root)


def _has_ranges(e: Any) -> bool:
    """Whether there is anything but numbers, entries of symbols, and functions of these."""
    return any(isinstance(node, (Binder, TensorExpr)) and not isinstance(node, TensorSymbol) for node in nodes_in([e]))


def _simplified(e: Any) -> Any:
    """What `sympy.simplify` makes of a binder with deltas; nothing where it cannot be read."""
    try:
        return simplify_deltas(e)
    except TensorDiffError:
        return e


register_simplification(_simplified)
