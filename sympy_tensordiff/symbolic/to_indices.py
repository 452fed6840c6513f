"""Operations on whole tensors rewritten into index notation: ``expr.rewrite(td.IndexedSum)``.

Bottom-up. What is read once is written out where it is read; what would be computed more often by
that, and what is long, stays a comprehension that is read, so that the text grows linearly.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from sympy import Idx, Lambda, Symbol

from sympy_tensordiff.symbolic.binders import Binder
from sympy_tensordiff.symbolic.einsum import EinsumProduct
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.operations import TensorOperation
from sympy_tensordiff.symbolic.rewriting import with_args
from sympy_tensordiff.symbolic.tabulate import read, tabulate
from sympy_tensordiff.symbolic.trampoline import Recursion, trampoline
from sympy_tensordiff.symbolic.whole import is_whole

Scope: TypeAlias = frozenset[Any]
"""The indices that are bound around."""


def to_indices(expr: Any) -> Any:
    """``expr`` in index notation, as far as there is one.

    Parameters
    ----------
    expr : tensor expression or scalar

    Returns
    -------
    Expr
        The same value: a comprehension or a variable, or a scalar made of indexed sums and entries.
        Inverses, determinants, adjugates and cofactors stay what they are, of matrices in index
        notation. A log-sum-exp becomes the logarithm of a sum, which may overflow.
    """
    return trampoline(_Index().visit(expr, frozenset()))


class _Index:
    """One rewriting; shared parts are visited once for each scope."""

    def __init__(self) -> None:
        # Nodes are known by identity: comparing and hashing deep ones is a recursion of its own.
        self.done: dict[tuple[int, Scope], tuple[Any, Any]] = {}

    def visit(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """The scalar or tensor in index notation."""
        if is_whole(expr):
            scope = scope.intersection(expr.free_symbols) if scope else scope
        key = id(expr), scope
        if key not in self.done:
            self.done[key] = expr, (yield self.rewritten(expr, scope))
        return self.done[key][1]

    def rewritten(self, expr: Any, scope: Scope) -> Recursion[Any]:
        if isinstance(expr, (Symbol, Idx, Lambda)) or getattr(expr, "is_symbol", False):
            return expr
        if isinstance(expr, TensorEntry):
            tensor = yield self.visit(expr.tensor, scope)
            return expr if tensor is expr.tensor else read(tensor, expr.indices, scope or None)
        if isinstance(expr, Binder):
            body = yield self.visit(expr.body, scope.union(expr.variables))
            return expr if body is expr.body else expr._trusted(body, expr.limits)
        args = []
        for arg in expr.args:
            args.append((yield self.visit(arg, scope)))
        node = with_args(expr, args)
        return written(node) if isinstance(node, TensorOperation) else node


def written(node: TensorOperation) -> Any:
    """An operation on tensors in index notation, entry by entry; itself where its entries have none."""
    names = node.output if isinstance(node, EinsumProduct) else ()
    if not node.has_index_form:
        return node
    return tabulate(node.shape, node.args, lambda *indices: node.entry_of(indices, read), names)
