"""Operations on whole tensors in index notation, to be computed (``expr.rewrite(td.IndexedSum)``) and to be read.

Bottom-up. What is read once is written out where it is read; what would be computed more often by
that, and what is long, stays a comprehension that is read, so that the text grows linearly.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from sympy import Lambda, Symbol

from sympy_tensordiff.symbolic import hooks
from sympy_tensordiff.symbolic.binders import Binder
from sympy_tensordiff.symbolic.einsum import EinsumProduct
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.operations import TensorOperation
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.tabulate import fresh_indices, read, tabulate
from sympy_tensordiff.symbolic.tensors import NamedTensor, TensorSymbol
from sympy_tensordiff.symbolic.traversal import Recursion, Rewriting, Rules, Scope, rebound
from sympy_tensordiff.symbolic.whole import is_whole


def to_indices(expr: Any, keeps_sums: bool = True) -> Any:
    """``expr`` in index notation, as far as there is one.

    Parameters
    ----------
    expr : tensor expression or scalar
    keeps_sums : bool
        Whether a tensor that holds sums, of which an entry is read more than once, stays a tensor that is
        computed once. Without, short entries are written out wherever they stand, for a reader.

    Returns
    -------
    Expr
        The same value: a comprehension or a variable, or a scalar made of indexed sums and entries.
        Inverses, determinants, adjugates and cofactors stay what they are, of matrices in index
        notation. A log-sum-exp becomes the logarithm of a sum, which may overflow.
    """
    return _Index(partial(read, keeps_sums=keeps_sums)).run(expr)


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


class _OfTensors(Rewriting):
    """A rewriting whose scope holds the indices around; tensors know only of those that they depend on."""

    def visit(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """The scalar or tensor in index notation."""
        if scope and is_whole(expr):
            free = expr.free_symbols
            scope = frozenset(pair for pair in scope if pair[0] in free)
        return super().visit(expr, scope)

    def kept(self, expr: Any, scope: Scope) -> Any:
        return expr


class _Index(_OfTensors):
    """One rewriting; the indices that are bound around stand for themselves."""

    def __init__(self, read: Callable[..., Any]) -> None:
        super().__init__()
        self.read = read

    def entry(self, expr: TensorEntry, scope: Scope) -> Recursion[Any]:
        tensor = yield self.visit(expr.tensor, scope)
        return expr if tensor is expr.tensor else self.read(tensor, expr.indices, {index for index, _ in scope} or None)

    def binder(self, expr: Any, scope: Scope) -> Recursion[Any]:
        body = yield self.visit(expr.body, scope | {(index, index) for index in expr.variables})
        return expr if body is expr.body else expr._trusted(body, expr.limits)

    def operation(self, expr: TensorOperation, scope: Scope) -> Recursion[Any]:
        return self.written((yield self.rebuilt(expr, scope)))

    def written(self, node: TensorOperation) -> Any:
        """An operation on tensors in index notation, entry by entry; itself where its entries have none."""
        names = node.output if isinstance(node, EinsumProduct) else ()
        if not node.has_index_form:
            return node
        return tabulate(node.shape, node.args, lambda *indices: node.entry_of(indices, self.read), names)

    rules: ClassVar[Rules] = {
        Lambda: _OfTensors.kept,
        TensorSymbol: _OfTensors.kept,
        NamedTensor: _OfTensors.kept,
        TensorEntry: entry,
        Binder: binder,
        TensorOperation: operation,
    }


class _Distinct(_OfTensors):
    """One pass from the outside to the inside; the scope has the new names of the indices around."""

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

    rules: ClassVar[Rules] = {
        Lambda: _OfTensors.kept,
        TensorSymbol: _OfTensors.kept,
        NamedTensor: _OfTensors.kept,
        Binder: binder,
    }


hooks.notations[IndexedSum] = to_indices
