"""The indexed sum, and what all reductions over index ranges have in common."""

from __future__ import annotations

from typing import Any

from sympy import Max, Min

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.symbolic import deep
from sympy_tensordiff.symbolic.base import RealScalar
from sympy_tensordiff.symbolic.binders import Binder
from sympy_tensordiff.symbolic.checks import check_reads
from sympy_tensordiff.symbolic.expanded_sums import expanded_sum
from sympy_tensordiff.symbolic.limits import bound_forms, check_names, check_scopes, checked_body, checked_range
from sympy_tensordiff.symbolic.reduction_printing import PrintedSum


class IndexedReduction(Binder, RealScalar):
    """Base of the sum, the product, the maximum and the minimum: one number out of those at all points of ranges."""

    def __new__(cls, body: Any, *limits: Any) -> Any:
        owner = cls.__name__
        body = checked_body(body, owner)
        if not limits:
            raise ArgumentError(f"{owner}({body}) has no range; write {owner}(body, (k, 0, n - 1))")
        ranges = tuple(checked_range(limit, owner) for limit in limits)
        check_names(body, ranges, owner)
        check_scopes(ranges, owner)
        result = cls._unchecked(body, *ranges)
        check_reads(body, result.ranges(), of_axes=False)
        return result

    def ranges(self) -> list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]]:
        return [(k, bound_forms(low, Max), bound_forms(high, Min)) for k, low, high in reversed(self.limits)]

    @property
    def function(self) -> Any:
        """The body, under the name SymPy's printers ask for."""
        return self.args[0]


class IndexedSum(PrintedSum, IndexedReduction):
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

    def _eval_is_zero(self) -> bool | None:
        return True if self.args[0] == 0 else None

    def _eval_expand_basic(self, **hints: Any) -> Any:
        deep.refuse_walk(self, "expand")
        return expanded_sum(self, **hints)
