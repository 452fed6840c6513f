"""A derivative as a sum of terms: over the points of a polyhedron, a value at a row and a column.

A function in index notation is a composition of scalar functions and sums. Let ``e = g(r_1, ..., s_1, ...)`` with reads
``r`` of the variables and inner sums ``s`` of them. The first derivative has one term for each read, and the terms of
each inner sum times its partial derivative; the second has one for each pair of reads, the products of the first-order
terms of each pair of sums, and the second-order terms of each sum. This is the structure of partially separable
functions (Griewank & Toint 1982), applied at each sum. No delta appears: a read says itself to which row it belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import sympy
from sympy import Expr, KroneckerDelta, Piecewise
from sympy.logic.boolalg import Boolean

from sympy_tensordiff.derivative.api import gradient, hessian
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.binders import Binder as TensorBinder
from sympy_tensordiff.symbolic.lift import lift
from sympy_tensordiff.symbolic.replacement import Replacement
from sympy_tensordiff.symbolic.rewriting import to_indices
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorEntry, in_full
from sympy_tensordiff.symbolic.traversal import Recursion, Rewriting, Rules, free_symbols_in, nodes_in, parts, postorder

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
        return self.renamed(Replacement(names))

    def renamed(self, names: Callable[[Any], Any]) -> Term:
        """Return the term with other indices: ``names`` is applied to all of its expressions."""
        binders = tuple(Binder(*map(names, binder)) for binder in self.binders)
        row, column = (BlockIndex(p.tensor, tuple(map(names, p.indices))) for p in (self.row, self.column))
        return Term(binders, tuple(map(names, self.conditions)), names(self.value), row, column, self.mirrored)


class _First(NamedTuple):
    """One term of a first derivative."""

    binders: tuple[Binder, ...]
    value: Expr
    place: BlockIndex


def hessian_terms(loss: Any, variables: Sequence[Expr]) -> tuple[Term, ...]:
    """The terms of the second derivative of a scalar.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> k, n = td.indices("k n")
    >>> x = td.TensorSymbol("x", n)
    >>> for term in hessian_terms(td.IndexedSum(x[k]**2 * x[k + 1], (k, 0, n - 2)), (x,)):
    ...     print(term)
    2*x[k + 1] at [0, k] x [0, k] for k = 0 .. n - 2
    2*x[k] at [0, k] x [0, k + 1] and transposed for k = 0 .. n - 2
    """
    return _normalised(_second(written_out(loss), tuple(variables)))


def jacobian_terms(functions: Sequence[Any], variables: Sequence[Expr]) -> tuple[Term, ...]:
    """The terms of the first derivatives of tensors or scalars, whose rows are the entries of all of them in turn."""
    found: list[Term] = []
    for number, function in enumerate(functions):
        shape = tuple(getattr(function, "shape", ()))
        axes = tuple(Binder(sympy.Dummy(f"i{a}", integer=True), sympy.S.Zero, n - 1) for a, n in enumerate(shape))
        row = BlockIndex(number, tuple(binder.index for binder in axes))
        body = written_out(function[row.indices] if shape else function)
        for first in _first(body, tuple(variables)):
            found.append(Term((*axes, *first.binders), (), first.value, row, first.place))
    return _normalised(found)


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


# ---------------------------------------------------------------------------- the chain rule


class _Cut(NamedTuple):
    """A scalar with symbols in place of the reads of the variables and of the sums that hold them."""

    function: Expr
    reads: dict[Expr, BlockIndex]
    sums: dict[Expr, IndexedSum]
    back: Replacement


def _second(scalar: Expr, variables: tuple[Expr, ...]) -> Iterator[Term]:
    """The second derivative of one scalar; of a pair of places that differ, one is given and mirrored."""
    if isinstance(scalar, IndexedSum):
        binders, body = _renamed(scalar)
        for term in _second(body, variables):
            yield term._replace(binders=(*binders, *term.binders))
        return
    cut = _cut(scalar, variables)
    symbols = (*cut.reads, *cut.sums)
    if not symbols:
        return
    slopes = gradient(cut.function, tuple(cut.sums)) if cut.sums else ()
    curvature = hessian(cut.function, symbols)
    for a, left in enumerate(symbols):
        for b in range(a, len(symbols)):
            value = curvature[a][b]
            if value != 0:
                yield from _products(cut, left, symbols[b], cut.back(value), variables)
    for total, slope in zip(cut.sums.values(), slopes, strict=True):
        for term in _second(total, variables):
            yield term._replace(value=cut.back(slope) * term.value)


def _products(cut: _Cut, left: Expr, right: Expr, value: Expr, variables: tuple[Expr, ...]) -> Iterator[Term]:
    """All terms of one second partial derivative; of a pair that differs, the other order is the mirrored one."""
    rights = _reads_of(cut, right, variables)
    for a, one in enumerate(_reads_of(cut, left, variables)):
        for b, other in enumerate(rights):
            if left != right or a <= b:
                binders, mirrored = (*one.binders, *other.binders), left != right or a < b
                yield Term(binders, (), value * one.value * other.value, one.place, other.place, mirrored)


def _reads_of(cut: _Cut, symbol: Expr, variables: tuple[Expr, ...]) -> list[_First]:
    if symbol in cut.reads:
        return [_First((), sympy.S.One, cut.reads[symbol])]
    return list(_first(cut.sums[symbol], variables))


def _first(scalar: Expr, variables: tuple[Expr, ...]) -> Iterator[_First]:
    """The first derivative of one scalar; each call has indices of its own."""
    if isinstance(scalar, IndexedSum):
        binders, body = _renamed(scalar)
        for first in _first(body, variables):
            yield first._replace(binders=(*binders, *first.binders))
        return
    cut = _cut(scalar, variables)
    symbols = (*cut.reads, *cut.sums)
    if not symbols:
        return
    for symbol, slope in zip(symbols, gradient(cut.function, symbols), strict=True):
        if slope != 0:
            for first in _reads_of(cut, symbol, variables):
                yield first._replace(value=cut.back(slope) * first.value)


def _cut(scalar: Expr, variables: tuple[Expr, ...]) -> _Cut:
    """Put real symbols in place of what the derivative goes through."""
    reads: dict[Expr, BlockIndex] = {}
    sums: dict[Expr, IndexedSum] = {}
    stand_ins: dict[Expr, Expr] = {}
    stack, seen = [scalar], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen or node in stand_ins:
            continue
        seen.add(id(node))
        tensor = node.tensor if isinstance(node, TensorEntry) else node
        if tensor in variables:
            indices = tuple(node.indices) if isinstance(node, TensorEntry) else ()
            stand_ins[node] = symbol = sympy.Dummy("r", real=True)
            reads[symbol] = BlockIndex(variables.index(tensor), indices)
        elif isinstance(node, IndexedSum) and _reads_any(node, variables):
            stand_ins[node] = symbol = sympy.Dummy("s", real=True)
            sums[symbol] = node
        elif _binds(node) and _reads_any(node, variables):
            raise UnsupportedError(
                f"{type(node).__name__} in {node}: a structured derivative goes through scalar functions and sums in "
                "index notation only; take td.hessian or td.jacobian, or td.hvp in an operator of SciPy"
            )
        elif not _binds(node):
            stack += reversed(parts(node))
    function = Replacement(stand_ins)(scalar)
    return _Cut(function, reads, sums, Replacement({symbol: node for node, symbol in stand_ins.items()}))


def _binds(node: Any) -> bool:
    """Whether a node is more than a scalar function of its arguments."""
    return (
        hasattr(node, "limits")
        or isinstance(node, TensorComprehension | TensorEntry)
        or (getattr(node, "is_tensor_expr", False))
    )


def _reads_any(node: Expr, variables: tuple[Expr, ...]) -> bool:
    return not free_symbols_in([node]).isdisjoint(variables)


def _renamed(total: IndexedSum) -> tuple[tuple[Binder, ...], Expr]:
    """The binders of a sum, outermost first, under names of their own, and its body."""
    body, limits = total.args[0], [tuple(limit) for limit in reversed(total.args[1:])]
    names = Replacement({limit[0]: sympy.Dummy(limit[0].name, integer=True) for limit in limits})
    return tuple(Binder(*map(names, limit)) for limit in limits), names(body)


# ---------------------------------------------------------------------------- conditions


def _normalised(terms: Any) -> tuple[Term, ...]:
    """The terms with conditions as rows, and with the sums over the indices that no place holds inside their values."""
    found: list[Term] = []
    known: dict[int, Any] = {}
    for term in terms:
        for conditions, value in _cases(term.value, known):
            found.append(_reduced(term._replace(conditions=(*term.conditions, *conditions), value=value)))
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
