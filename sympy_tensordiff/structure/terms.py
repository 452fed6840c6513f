"""Terms: over the points of a polyhedron, a value at a row and a column; their conditions, and the points they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import sympy
from sympy import Expr, KroneckerDelta, Piecewise
from sympy.logic.boolalg import Boolean

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.binders import Binder as TensorBinder
from sympy_tensordiff.symbolic.indices import Substitution, parse
from sympy_tensordiff.symbolic.lift import lift
from sympy_tensordiff.symbolic.replacement import Replacement
from sympy_tensordiff.symbolic.rewriting import to_indices
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorEntry, in_full
from sympy_tensordiff.symbolic.traversal import Recursion, Rewriting, Rules, nodes_in, parts, postorder

MOST_PATHS = 2_000
"""More terms than this are refused: sums nested so deeply have a derivative that is no sparse sum."""


class BlockIndex(NamedTuple):
    """A row or a column: the number of the tensor among the variables (or functions), and the indices in it."""

    tensor: int
    indices: tuple[Expr, ...]


class Binder(NamedTuple):
    """An index of a term and its range, both ends included; the range may depend on the binders before it."""

    index: Expr
    low: Expr
    high: Expr


class Term(NamedTuple):
    """``value`` at (``row``, ``column``) for all integer points of ``binders`` under ``conditions``.

    ``mirrored`` says that the value is at (``column``, ``row``) as well.
    """

    binders: tuple[Binder, ...]
    conditions: tuple[Boolean, ...]
    value: Expr
    row: BlockIndex
    column: BlockIndex
    mirrored: bool = False

    @property
    def is_dense(self) -> bool:
        """Whether rows and columns vary independently of one another: the term fills a block of the matrix."""
        row, column = ({b.index for b in self.binders} & _symbols(place.indices) for place in (self.row, self.column))
        coupled = any(_symbols((c,)) & row and _symbols((c,)) & column for c in self.conditions)
        ranges = [(b.index, _symbols((b.low, b.high))) for b in self.binders]
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

    def _with_names(self) -> Term:
        """The term with plain symbols as indices, for printing."""
        taken = {s.name for s in _symbols((self.value, *self.conditions)) if not isinstance(s, sympy.Dummy)}
        names: dict[Expr, Expr] = {}
        for index in (b.index for b in self.binders):
            fresh = (index.name + suffix for suffix in ("", *map(str, range(1, len(taken) + 2))))
            name = next(name for name in fresh if name not in taken)
            names[index] = sympy.Symbol(name, integer=True)
            taken.add(name)
        return self.renamed(Replacement(Substitution(names)))

    def renamed(self, names: Callable[[Any], Any]) -> Term:
        """Return the term with other indices: ``names`` is applied to all of its expressions."""
        binders = tuple(Binder(*map(names, binder)) for binder in self.binders)
        row, column = (BlockIndex(p.tensor, tuple(map(names, p.indices))) for p in (self.row, self.column))
        return Term(binders, tuple(map(names, self.conditions)), names(self.value), row, column, self.mirrored)


def written_out(scalar: Any) -> Expr:
    """A scalar in index notation, without entries of composite tensors."""
    own = lift(in_full(scalar))
    return cast(Expr, _Entries().run(own if isinstance(own, TensorEntry | IndexedSum) else to_indices(own)))


class _Entries(Rewriting):
    """Write out the entries of composite tensors, each shared part once."""

    def entry(self, expr: TensorEntry, scope: Any) -> Recursion[Any]:
        body = expr.tensor.write_out(expr.indices)
        return expr if body is None else (yield self.visit(body, scope))

    def binder(self, expr: Any, scope: Any) -> Recursion[Any]:
        body = yield self.visit(expr.body, scope)
        return expr if body is expr.body else expr._trusted(body, expr.limits)

    rules: ClassVar[Rules] = {TensorEntry: entry, TensorBinder: binder}


# ---------------------------------------------------------------------------- conditions


def normalised(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The terms with conditions as rows, and with the sums over the indices that no place holds inside their values."""
    found: list[Term] = []
    known: dict[int, Any] = {}
    for term in terms:
        for conditions, value in _cases(term.value, known):
            rows = tuple(row for c in (*term.conditions, *conditions) for row in sympy.And.make_args(c))
            found.append(_reduced(_without_scatters(term._replace(conditions=rows, value=value))))
            if len(found) > MOST_PATHS:
                raise UnsupportedError(
                    f"the derivative has more than {MOST_PATHS} terms, since its sums are nested deeply: "
                    "take td.hvp or td.jvp, which go through them in turn"
                )
    return tuple(found)


Cases: TypeAlias = list[tuple[tuple[Boolean, ...], Expr]]
"""The summands of a value, each with the conditions that it has."""


def _cases(value: Expr, known: dict[int, tuple[Expr, Cases]]) -> Cases:
    """The value as a sum of values under conditions on indices; conditions on values of tensors stay inside.

    ``known`` holds the answers for parts by their identities. A part without conditions stays the same object.
    """
    for node in postorder(value, known, _case_parts, id):
        known[id(node)] = node, _own_cases(node, [known[id(part)][1] for part in _case_parts(node)])
    return known[id(value)][1]


def _case_parts(value: Any) -> tuple[Any, ...]:
    """Return the parts whose conditions are those of the value."""
    if isinstance(value, sympy.Mul | sympy.Add):
        return tuple(value.args)
    if isinstance(value, Piecewise) and not any(_holds_values(c) for _, c in value.args):
        return tuple(part for part, _ in value.args)
    return ()


def _own_cases(value: Any, below: list[Cases]) -> Cases:
    """Return the cases of a value, given those of its `_case_parts`."""
    if isinstance(value, Piecewise) and below:
        return _branches([condition for _, condition in value.args], below)
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
    return [(_is_filled(value), value)]


def _branches(pieces: list[Any], below: list[Cases]) -> Cases:
    found, before = [], sympy.true
    for condition, cases in zip(pieces, below, strict=True):
        own = sympy.And(before, condition)
        if own != sympy.false:
            rows = () if own == sympy.true else (own,)
            found += [((*rows, *inner), v) for inner, v in cases]
        before = sympy.And(before, sympy.Not(condition))
    return found


def _is_filled(total: IndexedSum) -> tuple[Boolean, ...]:
    """The conditions under which a sum has a summand, as far as its ranges do not depend on one another."""
    bound = {limit[0] for limit in total.args[1:]}
    ranges = [(low, high) for _, low, high in total.args[1:] if not _symbols((low, high)) & bound]
    conditions = [c for low, high in ranges if (c := sympy.Le(low, high)) != sympy.true]
    cases = _cases(total.args[0], {})
    if len(cases) == 1:
        conditions += [c for c in cases[0][0] if not c.free_symbols & bound]
    return tuple(conditions)


def _holds_values(condition: Any) -> bool:
    """Whether a condition depends on a real number."""
    nodes = nodes_in([condition], lambda node: () if isinstance(node, TensorEntry) else parts(node))
    return any(
        node.tensor.dtype is not int if isinstance(node, TensorEntry) else node.is_Symbol and not node.is_integer
        for node in nodes
    )


def _without_scatters(term: Term) -> Term:
    """Put data in the places of the indices that an equation with them determines, so that no point is searched for.

    Under ``i == f[e]`` the points are those of ``e`` alone. Equations of affine forms stay: ranges express them.
    """
    for condition in term.conditions:
        if isinstance(condition, sympy.Eq) and parse(condition.lhs - condition.rhs)[0].compounds():
            for binder in term.binders:
                solution = _solution(term, condition, binder)
                if solution is not None:
                    return _without_scatters(solution)
    return term


def _solution(term: Term, equation: Any, binder: Binder) -> Term | None:
    """Return the term without a binder whose index an equation gives; None where it does not, or a range needs it."""
    index, low, high = binder
    others = tuple(b for b in term.binders if b is not binder)
    difference = sympy.expand(equation.lhs - equation.rhs)
    factor = difference.coeff(index)
    rest = sympy.expand(difference - factor * index)
    if not factor.is_Integer or not factor or index in rest.free_symbols:
        return None
    if index in _symbols([end for b in others for end in (b.low, b.high)]):
        return None
    multiple, count = -sympy.sign(factor) * rest, abs(factor)
    is_whole = [] if count == 1 else [sympy.Eq(sympy.Mod(multiple, count), 0)]
    value = multiple if count == 1 else sympy.floor(multiple / count)
    inside = [row for row in (sympy.Ge(value, low), sympy.Le(value, high)) if not _is_declared(row)]
    rows = [c for c in term.conditions if c is not equation]
    moved = term._replace(binders=others, conditions=(*rows, *is_whole, *inside)).renamed(
        Replacement(Substitution({index: value}))
    )
    return moved._replace(conditions=tuple(c for c in moved.conditions if c != sympy.true))


def _is_declared(row: Any) -> bool:
    """Whether the declared range of an array of integers implies a bound of one of its entries."""
    tensor = getattr(row.lhs, "tensor", None)
    if tensor is None or tensor.below is None:
        return bool(row == sympy.true)
    slack = -row.rhs if isinstance(row, sympy.Ge) else row.rhs - (tensor.below - 1)
    return bool(sympy.expand(slack).is_nonnegative)


def _reduced(term: Term) -> Term:
    """Sum over the indices that neither a place, a condition nor another range holds."""
    binders = list(term.binders)
    needed = _symbols((*term.row.indices, *term.column.indices, *term.conditions))
    inside: list[Binder] = []
    for binder in reversed(term.binders):
        others = _symbols([end for b in binders if b is not binder for end in (b.low, b.high)])
        if binder.index not in needed | others:
            binders.remove(binder)
            inside.append(binder)
    if not inside:
        return term
    filled = tuple(c for b in inside if (c := sympy.Le(b.low, b.high)) != sympy.true)
    holds = {b.index for b in inside}
    if any(_symbols((c,)) & holds for c in filled):  # ranges that depend on one another stay points
        return term
    value = IndexedSum(term.value, *((b.index, b.low, b.high) for b in inside))
    return term._replace(binders=tuple(binders), conditions=(*term.conditions, *filled), value=value)


def _symbols(expressions: Any) -> set[Expr]:
    return set().union(*(e.free_symbols for e in expressions))
