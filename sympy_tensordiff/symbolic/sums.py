"""The indexed sum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sympy import Expr, Tuple

from sympy_tensordiff.symbolic.binders import Binder, limit_tuple
from sympy_tensordiff.symbolic.indices import as_expr


class IndexedSum(Binder):
    """The sum of ``body`` over index ranges.

    Parameters
    ----------
    body : Expr
        A scalar expression.
    *limits : (index, lower, upper)
        The upper bound belongs to the range. As in `sympy.Sum` the first limit is the
        innermost: its bounds may contain the indices of later limits.

    Notes
    -----
    An empty range sums to 0. (`sympy.Sum` follows Karr's convention there and does not.)

    Examples
    --------
    >>> from sympy_tensordiff.symbolic import TensorSymbol, indices
    >>> i, n = indices("i n")
    >>> x = TensorSymbol("x", n)
    >>> IndexedSum(x[i]**2, (i, 0, n - 1))
    IndexedSum(x[i]**2, (i, 0, n - 1))
    """

    is_real = True
    is_scalar = True

    def __new__(cls, body: Any, *limits: Any) -> Any:
        body = as_expr(body, "the body of an IndexedSum")
        return cls._unchecked(body, *(Tuple(*limit_tuple(limit)) for limit in limits))

    @classmethod
    def _trusted(cls, body: Expr, limits: Iterable[Any]) -> Any:
        """The sum of parts known to be valid, without validation."""
        return cls._unchecked(body, *(limit if isinstance(limit, Tuple) else Tuple(*limit) for limit in limits))

    @property
    def function(self) -> Any:
        """The body, under the name SymPy's printers ask for."""
        return self.args[0]
