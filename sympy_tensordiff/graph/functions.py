"""Functions of real numbers as the graph knows them, and their partial derivatives.

A ``call`` node holds a SymPy function class, an undefined function, or a `Partial` of one: a
derivative that SymPy leaves unevaluated. Orders per argument commute by themselves, so that
``g_xy`` and ``g_yx`` are one node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy
from sympy.core.function import ArgumentIndexError, UndefinedFunction

from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import erfcx as erfcx
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import log1mexp as log1mexp
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import log_ndtr as log_ndtr
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import logistic_density as logistic_density
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import sigmoid as sigmoid
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import softplus as softplus
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import xlogy as xlogy


class scaled_besseli(sympy.Function):  # type: ignore[misc]  # noqa: N801
    """The function ``exp(-abs(x))*besseli(order, x)``, which does not overflow; it occurs in kernels only."""


class erfcx_slope(sympy.Function):  # type: ignore[misc]  # noqa: N801
    """The derivative ``2*x*erfcx(x) - 2/sqrt(pi)`` of `erfcx`, for kernels only. As a single function it is accurate;
    its two terms nearly cancel for large x.
    """


UNSUPPORTED = (sympy.hyper, sympy.meijerg, sympy.Sum, sympy.Product, sympy.Integral, sympy.I, sympy.DiracDelta)


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial derivative of ``function``: it is differentiated ``orders[n]`` times with respect to argument ``n``, at
    least once in total.
    """

    function: Any
    orders: tuple[int, ...]

    def by(self, position: int) -> Partial:
        """Return this partial derivative differentiated once more, with respect to the argument number ``position``."""
        orders = tuple(order + (n == position) for n, order in enumerate(self.orders))
        return Partial(self.function, orders)


def partial(function: Any, count: int, position: int) -> Partial:
    """Return the derivative of a function of ``count`` arguments with respect to the argument number ``position``, as a
    `Partial`. The function may be a `Partial` itself.
    """
    known = function if isinstance(function, Partial) else Partial(function, (0,) * count)
    return known.by(position)


@lru_cache(maxsize=512)
def formula(derivative: Partial) -> tuple[Any, tuple[Any, ...]]:
    """Return ``(formula, dummies)``: SymPy's formula of the derivative with dummy symbols as arguments. The formula is
    None if SymPy has none.

    The first derivative is taken with respect to an argument for which SymPy has a rule. A formula with functions that
    the graph does not support is not used: the derivative itself is simpler.
    """
    dummies = tuple(sympy.Dummy(f"a{n}", real=True) for n in range(len(derivative.orders)))
    if isinstance(derivative.function, UndefinedFunction):
        return None, dummies
    for position, order in enumerate(derivative.orders):
        if order:
            found = _first_derivative(derivative.function(*dummies, evaluate=False), position)
            if found is not None:
                for n, times in enumerate(derivative.orders):
                    for _ in range(times - (n == position)):
                        found = found.diff(dummies[n])
                return (None if found.has(*UNSUPPORTED) else found), dummies
    return None, dummies


FINITE_DERIVATIVES: dict[tuple[Any, int], Callable[..., Any]] = {
    (sympy.sinc, 0): lambda x: -sympy.jn(1, x),
    (sympy.jn, 1): lambda n, x: (n * sympy.jn(n - 1, x) - (n + 1) * sympy.jn(n + 1, x)) / (2 * n + 1),
}
"""Derivatives with respect to an argument that are finite at 0, where SymPy's formulas divide by 0."""


def _first_derivative(applied: Any, position: int) -> Any:
    """Return the derivative of the call ``applied`` with respect to its argument number ``position``; None if SymPy has
    no rule for it.
    """
    if (applied.func, position) in FINITE_DERIVATIVES:
        return FINITE_DERIVATIVES[applied.func, position](*applied.args)
    try:
        found = applied.fdiff(position + 1)
    except (ArgumentIndexError, AttributeError, NotImplementedError, TypeError):
        return None
    if isinstance(found, sympy.Derivative) and found.expr == applied:
        return None
    return found
