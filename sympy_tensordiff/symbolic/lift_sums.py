"""Indices and bounds of SymPy's own sums and products as those of `IndexedSum`."""

from __future__ import annotations

from typing import Any

from sympy import Dummy, Expr, Idx, Max, Product, Sum, Symbol, expand

from sympy_tensordiff.symbolic.binders import fresh_index
from sympy_tensordiff.symbolic.indices import may_be_integer
from sympy_tensordiff.symbolic.limits import bound_forms
from sympy_tensordiff.symbolic.rewriting import Scope, rebound
from sympy_tensordiff.symbolic.traversal import names_in, symbols_in


class Targets:
    """The integer symbols that the indices of a sum or a product become: like them, and captured by nothing."""

    def __init__(self, expr: Sum | Product) -> None:
        self.expr = expr
        self.chosen: set[Any] = set()

    def bind(self, position: int, scope: Scope) -> tuple[Scope, Any]:
        """The scope inside of a limit, and its index there."""
        index = self.expr.limits[position][0]
        if not isinstance(index, (Symbol, Idx)):
            return scope, index  # refused with the sum
        target = _integer(index)
        if target in self.chosen or self._captures(position, index, target, scope):
            around = {symbol for _, new in scope for symbol in new.free_symbols} | self.chosen
            target = fresh_index(target, names_in([self.expr, *around]))
        self.chosen.add(target)
        return rebound(scope, index, target), target

    def _captures(self, position: int, index: Any, target: Any, scope: Scope) -> bool:
        """Whether another symbol is, or would be, mistaken for the index."""
        if target != index and target in symbols_in([self.expr]):
            return True
        if any(target in new.free_symbols for old, new in scope if old != index):
            return True
        return any(index in bound.free_symbols for limit in self.expr.limits[position:] for bound in limit[1:])


def _integer(index: Any) -> Any:
    """The index as an integer: a sum runs over integers by definition."""
    if index.is_integer or not may_be_integer(index):
        return index
    assumptions = {**index._assumptions_orig, "integer": True}
    if isinstance(index, Dummy):
        return Dummy(index.name, dummy_index=index.dummy_index, **assumptions)
    return Symbol(index.name, **assumptions)


def unguarded(low: Expr, high: Expr) -> Expr:
    """The upper bound without parts that lie below the lower bound: they add nothing to a range."""
    if not isinstance(high, Max):
        return high
    lows = (low, *bound_forms(low, Max))
    below = [part for part in high.args if any(expand(form - part).is_positive for form in lows)]
    kept = [part for part in high.args if part not in below]
    return Max(*(kept or below))
