"""Index notation as a person writes it: short entries stand where they are read, no index is bound twice."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

from sympy import Lambda, Symbol

from sympy_tensordiff.symbolic.binders import Binder
from sympy_tensordiff.symbolic.rewriting import Rewriting, Scope, rebound
from sympy_tensordiff.symbolic.tabulate import fresh_indices
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.symbolic.to_indices import to_indices
from sympy_tensordiff.symbolic.trampoline import Recursion
from sympy_tensordiff.symbolic.whole import is_whole


def for_readers(expr: Any) -> Any:
    """``expr`` in index notation, to be read: `to_indices` gives the one to be computed.

    Parameters
    ----------
    expr : tensor expression or scalar

    Returns
    -------
    Expr
        The same value. Short sums of which entries are read more than once stand at each place, where the
        other form keeps a tensor that is computed once; inside of a sum or a comprehension, no other one
        has an index of the same name, and indices have no numbers as long as there are letters.
    """
    return _Distinct().run(to_indices(expr, keeps_sums=False))


class _Distinct(Rewriting):
    """One pass from the outside to the inside; the scope holds the indices around and their new names."""

    def visit(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """The scalar or tensor; tensors know only of the indices that they depend on."""
        if scope and is_whole(expr):
            free = expr.free_symbols
            scope = frozenset(pair for pair in scope if pair[0] in free)
        return super().visit(expr, scope)

    def kept(self, expr: Any, scope: Scope) -> Recursion[Any]:
        yield from ()
        return expr

    def binder(self, expr: Any, scope: Scope) -> Recursion[Any]:
        around = [new for _, new in scope]
        for index in expr.variables:
            new = index
            if isinstance(index, Symbol) and ("_" in index.name or index.name in {other.name for other in around}):
                (new,) = fresh_indices(1, (expr, expr.body, *around))
            around.append(new)
            scope = rebound(scope, index, new) | {(index, new)}
        args = yield self.all(expr.args, scope)
        return expr if all(map(operator.is_, args, expr.args)) else expr._trusted(args[0], args[1:])

    rules: ClassVar[dict[type, Callable[..., Recursion[Any]]]] = {Lambda: kept, TensorSymbol: kept, Binder: binder}
