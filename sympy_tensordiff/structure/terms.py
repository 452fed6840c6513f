"""Derivative terms: a value at a row and a column for all points of a polyhedron; their guards and normal form. Scans
whose results need no state are written as sums over time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import sympy
from sympy import Expr, KroneckerDelta, Piecewise, Symbol
from sympy.logic.boolalg import Boolean

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.conversion.lift import lift
from sympy_tensordiff.symbolic.conversion.rewriting import to_indices
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.binders import Binder, fresh_index
from sympy_tensordiff.symbolic.expressions.replacement import Replacement, Substitution
from sympy_tensordiff.symbolic.expressions.traversal import (
    EMPTY,
    Recursion,
    Rewriting,
    Rules,
    names_in,
    nodes_in,
    parts,
    postorder,
)
from sympy_tensordiff.symbolic.index_notation.indices import parse
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry, in_full
from sympy_tensordiff.symbolic.recurrences.scans import Scan, needed_states
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of


def over_time(expr: Any) -> Any:
    """Return ``expr`` with each scan (a loop over time) replaced by a comprehension or sum over time. Raise
    `UnsupportedError` if a result depends on a state that changes from step to step.
    """
    return _OverTime().run(expr, EMPTY) if any(isinstance(node, Scan) for node in nodes_in([expr])) else expr


class _OverTime(Rewriting):
    """Rewrites scans (loops over time) whose steps do not depend on each other as comprehensions or sums over time.
    Raises `UnsupportedError` for a scan whose states depend on earlier ones.
    """

    def visit_scan(self, expr: Scan, bound_indices: Any) -> Recursion[Any]:
        """Return the scan ``expr`` in index notation: a comprehension over the time if its values are stacked, a sum
        over the time if they are added. Raise `UnsupportedError` if they depend on a state that changes.
        """
        if needed_states([(s.variable, s.update) for s in expr.states if not s.is_constant], [expr.value]):
            raise UnsupportedError(
                f"a structured derivative of {expr}: each state depends on all rows before it, so that the derivative "
                "is dense; make the states variables, tied by the step: td.scan over xs=(X[:-1], X[1:]) with the "
                "output td.sum((X[t+1] - step(X[t]))**2), or constraints of td.nlp"
            )
        taken = names_in([expr])
        index = fresh_index(Symbol("t", integer=True), taken)
        rule = {expr.time: index} | {state.variable: state.initial for state in expr.states}
        for variable, sequence in expr.sequences:
            own = [fresh_index(Symbol("q", integer=True), taken) for _ in variable.shape]
            entry = TensorEntry(sequence, index, *own)
            rule[variable] = TensorComprehension(entry, *zip(own, variable.shape, strict=True)) if own else entry
        value = yield self.visit(expr.value.xreplace(rule), EMPTY)
        axes = [fresh_index(Symbol("q", integer=True), taken) for _ in shape_of(value)]
        limits = [*zip(axes, shape_of(value), strict=True)]
        entry = TensorEntry(value, *axes) if axes else value
        if expr.kind == "stack":
            return TensorComprehension(entry, (index, expr.length), *limits)
        if expr.kind == "sum":
            entry = IndexedSum(entry, (index, 0, expr.length - 1))
        else:
            entry = entry.xreplace({index: 0 if expr.reverse else expr.length - 1})
        return TensorComprehension(entry, *limits) if axes else entry

    rules: ClassVar[Rules] = {Scan: visit_scan}


MAX_TERMS = 2_000
"""More terms are refused: sums nested so deeply do not have a sparse derivative."""


class BlockIndex(NamedTuple):
    """The row or column number of a term in a matrix of derivatives: ``tensor`` is the number of the variable (or
    function), ``indices`` are the indices of its entry.
    """

    tensor: int
    indices: tuple[Expr, ...]


class DerivativeTerm(NamedTuple):
    """One term of a matrix of derivatives: it adds ``value`` to the entry (``row``, ``column``), for all values of the
    indices in ``binders`` that satisfy ``conditions``. If ``mirrored``, it is also added at (``column``, ``row``).
    """

    binders: tuple[IndexRange, ...]
    conditions: tuple[Boolean, ...]
    value: Expr
    row: BlockIndex
    column: BlockIndex
    mirrored: bool = False

    @property
    def is_dense(self) -> bool:
        """Return whether any row index may occur with any column index, so that the term fills a whole block of the
        matrix.
        """
        row, column = (
            {b.index for b in self.binders} & _free_symbols(place.indices) for place in (self.row, self.column)
        )
        coupled = any(_free_symbols((c,)) & row and _free_symbols((c,)) & column for c in self.conditions)
        ranges = [(b.index, _free_symbols((b.low, b.high))) for b in self.binders]
        crossing = any((i in row and s & column) or (i in column and s & row) for i, s in ranges)
        return bool(row and column) and not (coupled or crossing or row & column)

    def __str__(self) -> str:
        if any(isinstance(b.index, sympy.Dummy) for b in self.binders):
            return str(self._with_names())
        ranges = ", ".join(f"{b.index} = {b.low} .. {b.high}" for b in self.binders)
        places = ["[" + ", ".join(map(str, (p.tensor, *p.indices))) + "]" for p in (self.row, self.column)]
        text = f"{self.value} at {places[0]} x {places[1]}" + (" and transposed" if self.mirrored else "")
        text += f" for {ranges}" if ranges else ""
        return text + ("" if not self.conditions else f" where {sympy.And(*self.conditions)}")

    def latex_cells(self) -> tuple[str, str, str, str]:
        """Return the LaTeX of the value, the row, the column, and the ranges with the conditions of a term."""
        if any(isinstance(b.index, sympy.Dummy) for b in self.binders):
            return self._with_names().latex_cells()
        row, column = (
            rf"{place.tensor}: \left[{', '.join(map(sympy.latex, place.indices))}\right]"
            for place in (self.row, self.column)
        )
        ranges = [rf"{sympy.latex(b.low)} \le {sympy.latex(b.index)} \le {sympy.latex(b.high)}" for b in self.binders]
        return hooks.formula([self.value]), row, column, r",\; ".join((*ranges, *map(sympy.latex, self.conditions)))

    def _with_names(self) -> DerivativeTerm:
        """Return a copy of the term for printing, with each bound index replaced by a plain integer symbol whose name
        nothing else in the term has.
        """
        taken = {s.name for s in _free_symbols((self.value, *self.conditions)) if not isinstance(s, sympy.Dummy)}
        names: dict[Expr, Expr] = {}
        for index in (b.index for b in self.binders):
            fresh = (index.name + suffix for suffix in ("", *map(str, range(1, len(taken) + 2))))
            name = next(name for name in fresh if name not in taken)
            names[index] = sympy.Symbol(name, integer=True)
            taken.add(name)
        return self.renamed(Replacement(Substitution(names)))

    def renamed(self, names: Callable[[Any], Any]) -> DerivativeTerm:
        """Return a copy of the term in which the function ``names``, a substitution of indices, is applied to every
        expression.
        """
        binders = tuple(IndexRange(*map(names, binder)) for binder in self.binders)
        row, column = (BlockIndex(p.tensor, tuple(map(names, p.indices))) for p in (self.row, self.column))
        return DerivativeTerm(
            binders, tuple(map(names, self.conditions)), names(self.value), row, column, self.mirrored
        )


def to_index_notation(scalar: Any) -> Expr:
    """Return ``scalar`` in index notation: entries of tensor formulas, such as ``(A*B)[i, j]``, are written as sums."""
    given = lift(in_full(scalar))
    own = over_time(given)
    is_written_out = own is given and isinstance(own, TensorEntry | IndexedSum)
    return cast(Expr, _EntryExpander().run(own if is_written_out else to_indices(own)))


class _EntryExpander(Rewriting):
    """Writes the entries of tensor formulas, such as ``(A*B)[i, j]``, in index notation; each shared subexpression is
    written once.
    """

    def visit_entry(self, expr: TensorEntry, bound_indices: Any) -> Recursion[Any]:
        """Return the entry of a tensor formula in index notation. An entry of a tensor symbol is returned unchanged."""
        body = expr.tensor.write_out(expr.indices)
        return expr if body is None else (yield self.visit(body, bound_indices))

    def visit_binder(self, expr: Any, bound_indices: Any) -> Recursion[Any]:
        """Return a reduction or comprehension ``expr`` with its body expanded to entries."""
        body = yield self.visit(expr.body, bound_indices)
        return expr if body is expr.body else expr._trusted(body, expr.limits)

    rules: ClassVar[Rules] = {TensorEntry: visit_entry, Binder: visit_binder}


# ---------------------------------------------------------------------------- conditions


def normalise_terms(terms: Iterable[DerivativeTerm]) -> tuple[DerivativeTerm, ...]:
    """Return ``terms`` with each term whose value is a sum of cases split into one term per case, with the case's
    conditions on indices. Raise `UnsupportedError` beyond `MAX_TERMS` terms.

    Indices that an equation determines, or on which only the value depends, are eliminated.
    """
    found: list[DerivativeTerm] = []
    memo: dict[int, Any] = {}
    for term in terms:
        for conditions, value in _guarded_summands(term.value, memo):
            rows = tuple(row for c in (*term.conditions, *conditions) for row in sympy.And.make_args(c))
            found.append(
                _sum_out_unused_indices(_eliminate_determined_indices(term._replace(conditions=rows, value=value)))
            )
            if len(found) > MAX_TERMS:
                raise UnsupportedError(
                    f"the derivative has more than {MAX_TERMS} terms, since its sums are nested deeply: "
                    "take td.hvp or td.jvp, which go through them in turn"
                )
    return tuple(found)


GuardedSummands: TypeAlias = list[tuple[tuple[Boolean, ...], Expr]]
"""The summands of a value, each with its conditions."""


def _guarded_summands(value: Expr, memo: dict[int, tuple[Expr, GuardedSummands]]) -> GuardedSummands:
    """Return ``value`` as a list of pairs ``(conditions on indices, summand)``: it is the sum of the summands whose
    conditions hold. Conditions on real numbers stay in the summands. ``memo`` caches the result for each node.

    A node without conditions stays the same object.
    """
    for node in postorder(value, memo, _transparent_args, id):
        memo[id(node)] = node, _combine_summands(node, [memo[id(part)][1] for part in _transparent_args(node)])
    return memo[id(value)][1]


def _transparent_args(value: Any) -> tuple[Any, ...]:
    """Return the arguments of ``value`` whose conditions can be moved in front of it: the terms of a sum, the factors
    of a product, or the branches of a `Piecewise` with conditions on indices. () for other nodes.
    """
    if isinstance(value, sympy.Mul | sympy.Add):
        return tuple(value.args)
    if isinstance(value, Piecewise) and not any(_depends_on_reals(c) for _, c in value.args):
        return tuple(part for part, _ in value.args)
    return ()


def _combine_summands(value: Any, below: list[GuardedSummands]) -> GuardedSummands:
    """Return ``value`` as pairs ``(conditions on indices, summand)``, such as ``(i == j, a[i])``. ``below`` has these
    pairs for each of its arguments.
    """
    if isinstance(value, Piecewise) and below:
        return _summands_of_branches([condition for _, condition in value.args], below)
    if isinstance(value, KroneckerDelta):
        return [((sympy.Eq(*value.args[:2]),), sympy.S.One)]
    if not any(len(cases) != 1 or cases[0][0] for cases in below) and not isinstance(value, IndexedSum):
        return [((), value)] if value != 0 else []
    if isinstance(value, sympy.Mul):
        return [
            (tuple(dict.fromkeys(row for rows, _ in case for row in rows)), sympy.Mul(*(v for _, v in case)))
            for case in product(*below)
        ]
    if isinstance(value, sympy.Add):
        together: dict[tuple[Boolean, ...], list[Expr]] = {}
        for conditions, part in (case for cases in below for case in cases):
            together.setdefault(conditions, []).append(part)
        return [(conditions, sympy.Add(*parts)) for conditions, parts in together.items()]
    return [(_nonempty_conditions(value), value)]


def _summands_of_branches(pieces: list[Any], below: list[GuardedSummands]) -> GuardedSummands:
    """Return pairs ``(conditions, summand)`` for a `Piecewise` with the conditions ``pieces``; ``below`` has such pairs
    for the value of each branch. Each pair gets the further condition that the condition of its branch holds and
    those of earlier branches fail.
    """
    found, before = [], sympy.true
    for condition, cases in zip(pieces, below, strict=True):
        own = sympy.And(before, condition)
        if own != sympy.false:
            rows = () if own == sympy.true else (own,)
            found += [((*rows, *inner), v) for inner, v in cases]
        before = sympy.And(before, sympy.Not(condition))
    return found


def _nonempty_conditions(total: IndexedSum) -> tuple[Boolean, ...]:
    """Return conditions without which the sum ``total`` is 0: its ranges are not empty, and the conditions in its body
    that contain no bound index hold. Ranges that depend on other bound indices are ignored.
    """
    bound = {limit[0] for limit in total.args[1:]}
    ranges = [(low, high) for _, low, high in total.args[1:] if not _free_symbols((low, high)) & bound]
    conditions = [c for low, high in ranges if (c := sympy.Le(low, high)) != sympy.true]
    cases = _guarded_summands(total.args[0], {})
    if len(cases) == 1:
        conditions += [c for c in cases[0][0] if not c.free_symbols & bound]
    return tuple(conditions)


def _depends_on_reals(condition: Any) -> bool:
    """Return whether ``condition`` depends on a real number rather than on indices and index arrays only."""
    nodes = nodes_in([condition], lambda node: () if isinstance(node, TensorEntry) else parts(node))
    return any(
        node.tensor.dtype is not int if isinstance(node, TensorEntry) else node.is_Symbol and not node.is_integer
        for node in nodes
    )


def _eliminate_determined_indices(term: DerivativeTerm) -> DerivativeTerm:
    """Return the term without the indices that an equation with an index array determines, such as ``j == idx[i]``.
    These need not be enumerated.

    Under ``i == f[e]`` the points are those of ``e`` alone. Equations of affine forms stay: ranges express them.
    """
    for condition in term.conditions:
        if isinstance(condition, sympy.Eq) and parse(condition.lhs - condition.rhs)[0].compounds():
            for binder in term.binders:
                solution = _eliminate_index(term, condition, binder)
                if solution is not None:
                    return _eliminate_determined_indices(solution)
    return term


def _eliminate_index(term: DerivativeTerm, equation: Any, binder: IndexRange) -> DerivativeTerm | None:
    """Return ``term`` with the index of ``binder`` replaced by its value in ``equation``. None if the equation does not
    determine it, or if another range depends on it.
    """
    index, low, high = binder
    others = tuple(b for b in term.binders if b is not binder)
    difference = sympy.expand(equation.lhs - equation.rhs)
    factor = difference.coeff(index)
    rest = sympy.expand(difference - factor * index)
    if not factor.is_Integer or not factor or index in rest.free_symbols:
        return None
    if index in _free_symbols([end for b in others for end in (b.low, b.high)]):
        return None
    multiple, count = -sympy.sign(factor) * rest, abs(factor)
    is_whole = [] if count == 1 else [sympy.Eq(sympy.Mod(multiple, count), 0)]
    value = multiple if count == 1 else sympy.floor(multiple / count)
    inside = [row for row in (sympy.Ge(value, low), sympy.Le(value, high)) if not _is_known_bound(row)]
    rows = [c for c in term.conditions if c is not equation]
    moved = term._replace(binders=others, conditions=(*rows, *is_whole, *inside)).renamed(
        Replacement(Substitution({index: value}))
    )
    return moved._replace(conditions=tuple(c for c in moved.conditions if c != sympy.true))


def _is_known_bound(row: Any) -> bool:
    """Return whether the condition ``row`` is always true: it is `true`, or an inequality that follows from the
    declared range (``below``) of an index array.
    """
    tensor = None if row in (sympy.true, sympy.false) else getattr(row.lhs, "tensor", None)
    if tensor is None or tensor.below is None:
        return bool(row == sympy.true)
    slack = -row.rhs if isinstance(row, sympy.Ge) else row.rhs - (tensor.below - 1)
    return bool(sympy.expand(slack).is_nonnegative)


def _sum_out_unused_indices(term: DerivativeTerm) -> DerivativeTerm:
    """Return the term with its value summed over each index that only the value depends on. The position of the entry,
    the conditions and the other ranges must not contain this index.
    """
    binders = list(term.binders)
    needed = _free_symbols((*term.row.indices, *term.column.indices, *term.conditions))
    inside: list[IndexRange] = []
    for binder in reversed(term.binders):
        others = _free_symbols([end for b in binders if b is not binder for end in (b.low, b.high)])
        if binder.index not in needed | others:
            binders.remove(binder)
            inside.append(binder)
    if not inside:
        return term
    filled = tuple(c for b in inside if (c := sympy.Le(b.low, b.high)) != sympy.true)
    holds = {b.index for b in inside}
    if any(_free_symbols((c,)) & holds for c in filled):  # ranges that depend on one another are not summed over
        return term
    value = IndexedSum(term.value, *((b.index, b.low, b.high) for b in inside))
    return term._replace(binders=tuple(binders), conditions=(*term.conditions, *filled), value=value)


def _free_symbols(expressions: Any) -> set[Expr]:
    """Return the union of the free symbols of ``expressions``."""
    return set().union(*(e.free_symbols for e in expressions))
