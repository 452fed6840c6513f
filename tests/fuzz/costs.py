"""The cost law for random functions of whole tensors: the work that `td.cost` counts for derivatives and the function.

`tests.cost_judge` counts what kernels execute, of functions made for that purpose. Here the estimate that decides about
rewritings is asked, which takes a sixth of the time of the derivatives. In index notation it counts ranges that depend
on other indices, and the points at which data select, as full ranges: functions of random index maps are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from sympy_tensordiff.codegen.cost import cost
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorCofactor

GRADIENT, PRODUCT = 5, 4
"""Operations of all first derivatives for one of the function, and of their derivative along a direction for one of
theirs."""

EXTENT = 40
"""What every symbol in a shape is taken for."""

ENTRIES, SPARE = 8, 200
"""Operations allowed besides, for each entry of an argument, the value and a result, and in all.

A function may read few entries, or compute nothing: ``x[0]`` costs nothing, and its gradient is an array. At the small
fixed extents of some functions, operations for each axis count as much as those for each entry.
"""


class CostExceededError(AssertionError):
    """A derivative takes more work than the law allows."""


def assert_within_law(value: Any, variables: Sequence[Any], firsts: Sequence[Any], seconds: Sequence[Any] = ()) -> None:
    """Check the operations of the pullbacks `firsts` of `value`, and of `seconds`, their derivatives along directions.

    Raises
    ------
    CostExceededError
        One of them takes more operations than the law allows.
    """
    if not firsts:
        return
    spare = SPARE + ENTRIES * sum(map(_entries, (value, *variables)))
    own = operations(value)
    first = operations(tuple(firsts))
    limit = GRADIENT * own + 2 * spare
    if first > limit:
        raise CostExceededError(
            f"the derivatives with respect to {tuple(variables)} take {first} operations, not {limit}: {own}"
        )
    if seconds and not _has_third_cofactors(seconds):
        second = operations(tuple(seconds))
        limit = PRODUCT * max(first, own) + 2 * spare
        if second > limit:
            raise CostExceededError(
                f"second derivatives with respect to {tuple(variables)} take {second} operations, not {limit}"
            )


def operations(exprs: Any) -> int:
    """Return the operations of expressions that are evaluated together, where symbolic extents are `EXTENT`."""
    found = cost(exprs).operations
    return int(found.subs(dict.fromkeys(found.free_symbols, EXTENT)))


def _has_third_cofactors(exprs: Sequence[Any]) -> bool:
    """Return whether an expression holds third derivatives of a determinant: they are built, with six axes."""
    return any(order > 2 for expr in exprs for order, _ in (part.args for part in expr.atoms(TensorCofactor)))


def _entries(expr: Any) -> int:
    """Return the number of entries of an expression, where symbolic extents are `EXTENT`."""
    extents = (extent.subs(dict.fromkeys(extent.free_symbols, EXTENT)) for extent in getattr(expr, "shape", ()))
    return int(prod(extents))
