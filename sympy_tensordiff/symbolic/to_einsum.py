"""Index notation rewritten into operations on whole tensors: ``expr.rewrite(td.EinsumProduct)``.

Bottom-up. A scalar below some binders is a `Term`: entries of tensors at the indices that these
binders bind, each of which runs over the whole of an axis. What is no such entry *does not fit*.
Of a node with parts that fit and others that do not, the latter become comprehensions, operands
like any other; where nothing fits, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, ClassVar

from sympy import (
    Add,
    Expr,
    Function,
    Idx,
    KroneckerDelta,
    Lambda,
    Max,
    Min,
    Mul,
    Piecewise,
    Pow,
    Symbol,
    expand,
)

from sympy_tensordiff.symbolic.base import Node
from sympy_tensordiff.symbolic.einsum import DeltaTensor
from sympy_tensordiff.symbolic.einsum_terms import (
    Factor,
    Label,
    Scope,
    Term,
    added,
    among,
    applied,
    axis,
    closed,
    depends,
    is_open,
    one_factor,
    operand_of,
    plain_reads,
    product,
    restricted,
    summed,
    tensor_of,
    union,
)
from sympy_tensordiff.symbolic.elementwise import TensorPow
from sympy_tensordiff.symbolic.entries import TensorEntry, TensorExpr
from sympy_tensordiff.symbolic.rewriting import EMPTY, Rewriting, with_args
from sympy_tensordiff.symbolic.sums import IndexedReduction, IndexedSum
from sympy_tensordiff.symbolic.tabulate import same_extent
from sympy_tensordiff.symbolic.tensors import TensorComprehension
from sympy_tensordiff.symbolic.trampoline import Recursion, trampoline
from sympy_tensordiff.symbolic.traversal import free_symbols_in, nodes_in
from sympy_tensordiff.symbolic.whole import is_whole


def to_einsum(expr: Any) -> Any:
    """``expr`` as operations on whole tensors, as far as there are such operations.

    Parameters
    ----------
    expr : tensor expression or scalar

    Returns
    -------
    Expr
        The same value: of the same shape, or a scalar. Sums over whole axes of products of
        entries are einsum products, functions of entries are element-wise functions. Parts that
        read at other places, or run over parts of an axis, are comprehensions.
    """
    return _Einsum(expr).run(expr)


class _Einsum(Rewriting):
    """One rewriting of scalars into terms, which are None where no part fits, and of tensors into tensors."""

    def __init__(self, root: Any) -> None:
        super().__init__()
        self.tensors: dict[tuple[int, Scope], tuple[Any, Any]] = {}
        self.extents = {expand(e) for node in nodes_in([root]) if isinstance(node, TensorExpr) for e in node.shape}
        self.positions = count()

    def run(self, expr: Any, scope: Scope = EMPTY) -> Any:
        """The rewritten expression."""
        if is_whole(expr):
            return trampoline(self.tensor(expr, scope))
        return super().run(expr, scope).scale

    def visit(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """The scalar as a term."""
        return super().visit(expr, restricted(scope, expr) if isinstance(expr, Node) else scope)

    # -------------------------------------------------------------- parts that do not fit

    def fitted(self, exprs: Sequence[Any], scope: Scope) -> Recursion[list[Term] | None]:
        """The terms of some parts, comprehensions for those that do not fit; None where none fits."""
        terms: list[Any] = yield self.all(exprs, scope)
        if None in terms and not any(term.labels for term in terms if term is not None):
            return None
        for position, expr in enumerate(exprs):
            if terms[position] is None:
                terms[position] = yield self.leaf(expr, scope)
        return terms

    def joined(self, exprs: Sequence[Any], scope: Scope, join: Callable[..., list[Any]]) -> Recursion[list[Any]]:
        """The parts, with those that do not fit put together by ``join``, unless none fits."""
        terms = yield self.all(exprs, scope)
        if not any(term.labels for term in terms if term is not None):
            return list(exprs)
        fit = [expr for expr, term in zip(exprs, terms, strict=True) if term is not None]
        unfit = [expr for expr, term in zip(exprs, terms, strict=True) if term is None]
        return fit + join(unfit, scope)

    def leaf(self, expr: Expr, scope: Scope) -> Recursion[Term]:
        """What does not fit, as a comprehension over the labels that it depends on."""
        free = free_symbols_in([expr])
        labels = {index: label for index, label in scope if label is not None and index in free}
        indices = sorted(labels, key=lambda index: labels[index].position or 0)
        body = yield self.visit(expr, closed(scope))
        tensor = TensorComprehension(body.scale, *((index, labels[index].extent) for index in indices))
        return Term(factors=(Factor(tensor, tuple(labels[index] for index in indices)),))

    # -------------------------------------------------------------- leaves of the expression

    def symbol(self, expr: Any, scope: Scope) -> Term | None:
        """An index of an axis is no factor; everything else is a scalar."""
        return None if dict(scope).get(expr) is not None else Term(expr)

    def entry(self, expr: TensorEntry, scope: Scope) -> Recursion[Term | None]:
        labels = dict(scope)
        if is_open(restricted(scope, expr.tensor)):
            body = expr.tensor.write_out(expr.indices)
            return None if body is None else (yield self.visit(body, scope))
        axes = [axis(index, extent, labels) for index, extent in zip(expr.indices, expr.tensor.shape, strict=True)]
        known = tuple(label for label in axes if label is not None)
        fits = len(known) == len(axes) and any(label.position is not None for label in known)
        if is_open(scope) and not fits:
            return None
        tensor = yield self.tensor(expr.tensor, scope)
        if fits:
            return Term(factors=(Factor(tensor, known),))
        if not expr.indices:
            return Term(tensor)  # what has no axes may have become a scalar of SymPy's
        return Term(expr if tensor is expr.tensor else tensor[expr.indices])

    def delta(self, expr: Any, scope: Scope) -> Recursion[Term | None]:
        yield from ()
        labels = [label for label in map(dict(scope).get, expr.args) if label is not None]
        if len(labels) == len(expr.args) == 2 and same_extent(labels[0].extent, labels[1].extent):
            return Term(factors=(Factor(DeltaTensor(labels[0].extent), tuple(labels)),))
        return None if is_open(among(scope, expr.free_symbols)) else Term(expr)

    def scalar_tensor(self, expr: TensorExpr, scope: Scope) -> Recursion[Term | None]:
        """A tensor expression of rank 0."""
        if not is_open(scope):
            return Term((yield self.tensor(expr, scope)))
        body = expr.write_out(())
        return None if body is None else (yield self.visit(body, scope))

    # -------------------------------------------------------------- scalar operations

    def add(self, expr: Add, scope: Scope) -> Recursion[Term | None]:
        parts = yield self.joined(expr.args, scope, lambda unfit, _: [Add(*unfit)] if unfit else [])
        terms = yield self.fitted(parts, scope)
        return None if terms is None else added(terms)

    def mul(self, expr: Mul, scope: Scope) -> Recursion[Term | None]:
        terms = yield self.all(expr.args, scope)
        if None in terms and any(isinstance(node, KroneckerDelta) for node in nodes_in(expr.args, outside_of_entries)):
            return None  # what a delta is multiplied by may leave its shape where the delta is 0
        parts = yield self.joined(expr.args, scope, connected)
        terms = yield self.fitted(parts, scope)
        return None if terms is None else product(terms)

    def pow(self, expr: Pow, scope: Scope) -> Recursion[Term | None]:
        terms = yield self.fitted(expr.args, scope)
        if terms is None:
            return None
        labels = union(terms)
        if not labels:
            return Term(with_args(expr, [term.scale for term in terms]))
        return Term(factors=(Factor(TensorPow(*(operand_of(term, labels) for term in terms)), labels),))

    def function(self, expr: Any, scope: Scope) -> Recursion[Term | None]:
        """A function of numbers."""
        terms = yield self.fitted(expr.args, scope)
        if terms is None:
            return None
        if not union(terms):
            return Term(with_args(expr, [term.scale for term in terms]))
        return applied(terms, lambda values: expr.func(*values))

    def cases(self, expr: Piecewise, scope: Scope) -> Recursion[Term | None]:
        """Cases of entries: the entries are operands, everything between them is the function."""
        parts = outer_parts(expr)
        terms = yield self.all(parts, scope)
        if None in terms:
            return None
        if not union(terms):
            term: Term | None = yield self.rebuilt(expr, scope)
            return term
        return applied(terms, lambda values: expr.xreplace(dict(zip(parts, values, strict=True))))

    def rebuilt(self, expr: Any, scope: Scope) -> Recursion[Term | None]:
        """A node that is no operation on whole tensors."""
        terms = yield self.all(expr.args, scope)
        if any(term is None or term.labels for term in terms):
            return None
        return Term(with_args(expr, [term.scale for term in terms]))

    # -------------------------------------------------------------- binders

    def sum(self, expr: IndexedSum, scope: Scope) -> Recursion[Term | None]:
        term: Term | None
        parameters = {} if is_open(scope) else plain_reads(expr)
        around = dict(scope) | {index: self.label(index, extent) for index, extent in parameters.items()}
        named = {around[index]: index for index in parameters}
        body, over = self.opened(expr, around)
        term = yield self.summed(body, frozenset(around.items()), over)
        if term is not None and parameters and term.labels:
            tensor, labels = one_factor(term)
            term = Term(tensor[tuple(named[label] for label in labels)])
        if term is not None and not depends([term.scale, *(factor.tensor for factor in term.factors)], scope):
            return term
        return None if is_open(scope) else Term((yield self.kept(expr, scope)))

    def opened(self, expr: Any, around: dict[Any, Label | None]) -> tuple[Any, list[Label]]:
        """The body below the outermost sums that run over whole axes, and their labels, which ``around`` gets, too."""
        over = []
        while isinstance(expr, IndexedSum):
            limits = list(expr.limits)
            while limits and self.is_axis(limits[-1], around):
                index, _, high = limits.pop()
                over.append(self.label(index, high + 1))
                around[index] = over[-1]
            if limits:
                return IndexedSum._trusted(expr.body, limits), over
            expr = expr.body
        return expr, over

    def is_axis(self, limit: Any, around: dict[Any, Any]) -> bool:
        """Whether a range is that of an axis of a tensor, so that it is not empty."""
        _, low, high = limit
        extent = expand(high + 1)
        known = extent in self.extents or bool(extent.is_Integer and extent > 0)
        return bool(low == 0 and known and extent.free_symbols.isdisjoint(around))

    def label(self, index: Any, extent: Expr) -> Label:
        return Label(index.label if isinstance(index, Idx) else index, extent, next(self.positions))

    def summed(self, body: Any, inner: Scope, over: Sequence[Label]) -> Recursion[Term | None]:
        """The sum of the body, term by term where the terms do not depend on the same indices."""
        term: Term | None = (yield self.visit(body, inner)) if over else None
        if term is None:
            return None
        if isinstance(body, Add):
            parts = yield self.joined(body.args, inner, lambda unfit, _: [Add(*unfit)] if unfit else [])
            terms = yield self.fitted(parts, inner)
            if len({part.labels for part in terms}) > 1:
                return added([summed(part, over) for part in terms])
        return summed(term, over)

    def reduction(self, expr: IndexedReduction, scope: Scope) -> Recursion[Term | None]:
        """A product, a maximum or a minimum: no operation on whole tensors."""
        return None if is_open(scope) else Term((yield self.kept(expr, scope)))

    def kept(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """A binder that stays one."""
        term = yield self.visit(expr.body, closed(scope) | {(index, None) for index in expr.variables})
        return expr if term.scale is expr.body else expr._trusted(term.scale, expr.limits)

    # -------------------------------------------------------------- whole tensors

    def tensor(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """A tensor expression as operations on whole tensors."""
        scope = restricted(closed(scope), expr)
        key = id(expr), scope
        if key not in self.tensors:
            rule = self.comprehension if isinstance(expr, TensorComprehension) else self.operation
            self.tensors[key] = expr, (expr if expr.is_symbol else (yield rule(expr, scope)))
        return self.tensors[key][1]

    def comprehension(self, expr: TensorComprehension, scope: Scope) -> Recursion[Any]:
        labels = [self.label(index, extent) for index, extent in expr.limits]
        term = yield self.visit(expr.body, scope | set(zip(expr.indices, labels, strict=True)))
        tensor = None if term is None else tensor_of(term, labels)
        if tensor is None or depends([tensor], scope):
            return (yield self.kept(expr, scope))
        return tensor

    def operation(self, expr: Any, scope: Scope) -> Recursion[Any]:
        args = []
        for arg in expr.args:
            if is_whole(arg):
                arg = yield self.tensor(arg, scope)
            elif isinstance(arg, Expr) and not isinstance(arg, Lambda):
                arg = (yield self.visit(arg, scope)).scale
            args.append(arg)
        return with_args(expr, args)

    rules: ClassVar[dict[type, Callable[..., Recursion[Term | None]]]] = {
        TensorEntry: entry,
        TensorExpr: scalar_tensor,
        KroneckerDelta: delta,
        Add: add,
        Mul: mul,
        Pow: pow,
        Piecewise: cases,
        Function: function,
        Max: function,
        Min: function,
        IndexedSum: sum,
        IndexedReduction: reduction,
    }


def connected(factors: Iterable[Any], scope: Scope) -> list[Any]:
    """The products of factors that depend on common indices."""
    groups: list[tuple[set[Any], list[Any]]] = []
    for factor in factors:
        indices = {index for index, label in among(scope, free_symbols_in([factor])) if label is not None}
        touching = [group for group in groups if not indices.isdisjoint(group[0])]
        groups = [group for group in groups if group not in touching]
        groups.append((indices.union(*(own for own, _ in touching)), [f for _, fs in touching for f in fs] + [factor]))
    return [Mul(*members) for _, members in groups]


def outer_parts(expr: Any) -> list[Any]:
    """The nodes of ours and the symbols that a native expression is made of."""
    found = nodes_in([expr], lambda node: () if isinstance(node, (Node, Symbol, Idx)) else node.args)
    return [node for node in found if isinstance(node, (Node, Symbol, Idx))]


def outside_of_entries(node: Any) -> tuple[Any, ...]:
    """The parts of a node that are not inside of a tensor."""
    return () if isinstance(node, TensorEntry) else tuple(node.args)
