"""The classes of this package rewritten into SymPy's own notation: ``expr.rewrite(sympy.Sum)``.

SymPy's ``Sum`` and ``Product`` follow Karr's convention, where a range that ends before it starts is not empty
but negative. Every range that may be empty therefore ends at ``Max(high, low - 1)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from sympy import (
    Add,
    Eq,
    Expr,
    Idx,
    IndexedBase,
    Max,
    Min,
    Ne,
    Piecewise,
    Product,
    S,
    StrictGreaterThan,
    StrictLessThan,
    Sum,
    Symbol,
    default_sort_key,
    expand,
)
from sympy.core.relational import Relational

from sympy_tensordiff.errors import IndexExpressionError, UnsupportedError
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.implication import implied
from sympy_tensordiff.symbolic.binders import fresh_index
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.hooks import register_notation
from sympy_tensordiff.symbolic.indices import parse, to_affine
from sympy_tensordiff.symbolic.lift import lift
from sympy_tensordiff.symbolic.limits import bound_forms
from sympy_tensordiff.symbolic.operations import TensorOperation
from sympy_tensordiff.symbolic.rewriting import Rewriting, Scope
from sympy_tensordiff.symbolic.sums import IndexedProduct, IndexedReduction, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.to_indices import to_indices
from sympy_tensordiff.symbolic.trampoline import Recursion
from sympy_tensordiff.symbolic.traversal import names_in, nodes_in
from sympy_tensordiff.symbolic.whole import index_letters


class Around(NamedTuple):
    """What stands around an expression: the ranges of sums and products, and their indices, outermost first.

    ``merging`` says that one here is the whole body of the last one, of its class: SymPy makes one of the two.
    """

    rows: tuple[Row, ...] = ()
    sums: tuple[tuple[Any, ...], ...] = ()
    merging: bool = False


def native(expr: Any) -> Any:
    """``expr``, one of the classes of this package, in SymPy's own notation.

    Raises
    ------
    UnsupportedError
        For a whole comprehension, and for a condition that SymPy would carry out of its sum.
    """
    try:
        expr = to_indices(lift(expr))  # SymPy's own sums in it bind indices, too
        return _Native(expr).run(expr)
    except RecursionError:
        raise UnsupportedError(
            f"this {type(expr).__name__} is nested too deeply to be written in SymPy's own classes"
        ) from None


class _Native(Rewriting):
    """One rewriting."""

    def __init__(self, root: Any) -> None:
        super().__init__()
        self.free = {symbol for symbol in root.free_symbols if isinstance(symbol, (Symbol, Idx))}
        self.numbers: dict[Any, int] = {}
        extents = {e for node in nodes_in([root]) if isinstance(node, TensorSymbol) for e in node.shape}
        self.facts = [Row("ge", self.form(extent) - 1) for extent in extents]
        for symbol in self.free:
            if symbol.is_integer and symbol.is_nonnegative:
                self.facts.append(Row("ge", self.form(symbol) - (1 if symbol.is_positive else 0)))

    def form(self, expr: Expr) -> Affine:
        return to_affine(expr, lambda symbol: self.numbers.setdefault(symbol, len(self.numbers)))

    # -------------------------------------------------------------- tensors

    def tensor_symbol(self, expr: TensorSymbol, scope: Scope) -> Recursion[Any]:
        yield from ()
        if not expr.shape:
            return Symbol(expr.name, real=True)
        return IndexedBase(expr.name, shape=expr.shape, real=True)

    def comprehension(self, expr: TensorComprehension, scope: Scope) -> Recursion[Any]:
        if expr.rank == 0:
            return (yield self.visit(expr.body, scope))
        entry = f"T[{', '.join(index_letters(expr.rank))}]"
        raise UnsupportedError(
            f"a whole comprehension has no form in SymPy's own notation: rewrite an entry of it, {entry}, "
            f"with T = {expr}"
        )

    def entry(self, expr: TensorEntry, scope: Scope) -> Recursion[Any]:
        indices = yield self.all(expr.indices, scope)
        if isinstance(expr.tensor, TensorComprehension):
            inner = inside(scope, zip(expr.tensor.indices, indices, strict=True), around(scope))
            return (yield self.visit(expr.tensor.body, inner))
        tensor = yield self.visit(expr.tensor, scope)
        return tensor[tuple(indices)] if indices else tensor

    def operation(self, expr: TensorOperation, scope: Scope) -> Recursion[Any]:
        """What is left of operations on whole tensors in index notation."""
        yield from ()
        raise UnsupportedError(
            f"{type(expr).__name__} has no form as a sum: {expr}; rewrite(sympy.MatrixExpr) has SymPy's own inverses "
            "and determinants of whole matrices"
        )

    # -------------------------------------------------------------- sums and products

    def reduction(self, expr: IndexedReduction, scope: Scope) -> Recursion[Any]:
        if not isinstance(expr, IndexedSum | IndexedProduct):
            raise UnsupportedError(
                f"{type(expr).__name__} has no form in SymPy's own notation, which has sums and products over ranges: "
                f"{expr}; write sympy.{type(expr).__name__[-3:]} of the entries"
            )
        limits = []
        rows, sums, merging = around(scope)
        for index, low, high in reversed(expr.limits):
            low, high = yield self.all((low, high), scope)
            new = self.index(index, scope)
            limits.append((new, low, self.guarded(low, high, rows)))
            value = self.form(new)
            rows += tuple(Row("ge", value - self.form(form)) for form in bound_forms(low, Max))
            rows += tuple(Row("ge", self.form(form) - value) for form in bound_forms(high, Min))
            scope = inside(scope, [(index, new)], Around(rows, sums))
        group = tuple(new for new, _, _ in limits)
        sums = (*sums[:-1], sums[-1] + group) if merging else (*sums, group)
        scope = inside(scope, [], Around(rows, sums, type(expr.body) is type(expr)))
        body = yield self.visit(expr.body, scope)
        return (Product if isinstance(expr, IndexedProduct) else Sum)(body, *reversed(limits))

    def index(self, index: Any, scope: Scope) -> Any:
        """A symbol for a bound index, unlike all symbols around it."""
        label = index.label if isinstance(index, Idx) else index
        visible = self.free.union(*(new.free_symbols for _, new in scope if not isinstance(new, Around)))
        names = {symbol.name for symbol in visible}
        return fresh_index(label, names) if label.name in names else label

    def guarded(self, low: Expr, high: Expr, rows: Sequence[Row]) -> Expr:
        """The upper bound, and not less than one below the lower bound."""
        facts = (*self.facts, *rows)
        highs = [self.form(form) for form in bound_forms(high, Min)]
        open_ = [
            form - 1
            for form in bound_forms(low, Max)
            if not all(implied(Row("ge", top - self.form(form) + 1), facts) for top in highs)
        ]
        return Max(high, *open_) if open_ else high

    # -------------------------------------------------------------- conditions

    def piecewise(self, expr: Piecewise, scope: Scope) -> Recursion[Any]:
        result = yield self.rebuilt(expr, scope)
        if not isinstance(result, Piecewise):  # the indices of an entry have decided it
            return result
        leaking = ", ".join(sorted(map(str, _leaking(result, around(scope).sums))))
        if not leaking:
            return result
        try:
            return as_sums(result, fresh_index(Symbol("g", integer=True), names_in([result])))
        except IndexExpressionError:
            raise UnsupportedError(
                f"{expr} has a condition on values with {leaking}, an index of a sum inside of a sum: "
                "SymPy's Sum would carry it out of its sum (sympy.piecewise_fold)"
            ) from None

    rules: ClassVar[dict[type, Callable[..., Recursion[Any]]]] = {
        TensorSymbol: tensor_symbol,
        TensorOperation: operation,
        TensorComprehension: comprehension,
        TensorEntry: entry,
        IndexedReduction: reduction,
        Piecewise: piecewise,
    }


def around(scope: Scope) -> Around:
    """What stands around the expressions of a scope."""
    return next((new for _, new in scope if isinstance(new, Around)), Around())


def inside(scope: Scope, pairs: Iterable[tuple[Any, Any]], ranges: Around) -> Scope:
    """The scope inside of a binder."""
    pairs = list(pairs)
    bound = {old for old, _ in pairs}
    rest = [pair for pair in scope if pair[0] not in bound and not isinstance(pair[1], Around)]
    return frozenset([*rest, *pairs, (None, ranges)])


def _leaking(expr: Piecewise, sums: Sequence[tuple[Any, ...]]) -> set[Any]:
    """Indices of inner sums in the conditions, where an outer sum would take the conditions for its own."""
    conditions = set().union(*(condition.free_symbols for _, condition in expr.args))
    leaking: set[Any] = set()
    for depth, inner in enumerate(sums):
        if not expr.free_symbols.isdisjoint(index for outer in sums[:depth] for index in outer):
            leaking |= conditions.intersection(inner)
    return leaking


def as_sums(expr: Piecewise, index: Any) -> Expr:
    """The cases of a `Piecewise` on indices as sums over one value of ``index`` where they hold, over none elsewhere.

    >>> from sympy import symbols
    >>> i, g = symbols("i g", integer=True)
    >>> as_sums(Piecewise((i**2, i > 3), (0, True)), g)
    Sum(i**2, (g, 0, Max(-1, Min(0, i - 4))))
    """
    terms = _cases([(value, condition) for value, condition in expr.args], ())
    return Add(*(Sum(value, (index, 0, Max(-1, Min(0, *forms)))) if forms else value for value, forms in terms))


def _cases(pairs: list[tuple[Any, Any]], forms: tuple[Expr, ...]) -> list[tuple[Any, tuple[Expr, ...]]]:
    """The values that are not 0, with the forms that are not negative where, and only where, each is taken."""
    pairs = [pair for pair in pairs if pair[1] != S.false]
    if not pairs:
        raise UnsupportedError("a Piecewise without a default has no value where no condition holds: add (0, True)")
    value, condition = pairs[0]
    if condition == S.true:
        return [] if value == 0 else [(value, forms)]
    relation = min(condition.atoms(Relational), key=default_sort_key)
    holds, fails = _forms(relation)
    terms = []
    for pieces, truth in ((holds, S.true), (fails, S.false)):
        decided = [(v, _decided(c, relation, truth)) for v, c in pairs]
        for piece in pieces:
            terms += _cases(decided, (*forms, *piece))
    return terms


def _decided(condition: Any, relation: Any, truth: Any) -> Any:
    """The condition where a relation in it is known."""
    negated = relation.negated
    known = {relation: truth, relation.reversed: truth}
    return condition.xreplace({**known, negated: ~truth, negated.reversed: ~truth})


def _forms(relation: Any) -> tuple[list[list[Expr]], list[list[Expr]]]:
    """Where the relation holds, and where it fails: disjoint pieces, each of integer forms that are not negative."""
    if isinstance(relation, Ne):
        return _forms(relation.negated)[::-1]
    form = expand(relation.lhs - relation.rhs) if isinstance(relation, Eq) else expand(relation.gts - relation.lts)
    parse(form)  # raises unless it is an integer
    if isinstance(relation, Eq):
        return [[form, -form]], [[form - 1], [-form - 1]]
    if isinstance(relation, (StrictGreaterThan, StrictLessThan)):
        form -= 1
    return [[form]], [[-form - 1]]


register_notation(Sum, native)
register_notation(Product, native)
