"""What a block reads: rows of a scalar in index notation, and the range of each index of a read by Fourier-Motzkin.

A read happens at the integer points of a system: ranges of axes and sums, limits of the block, conditions around the
read, and its own tensor's extents (a read outside is 0 and loads nothing). The range of an index over a block is the
projection on it, a maximum and a minimum of forms in the sizes, the origin and the extent of the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import gcd
from typing import Any, NamedTuple

import sympy
from sympy import Expr, KroneckerDelta, Piecewise
from sympy.core.relational import Relational

from sympy_tensordiff.errors import IndexExpressionError
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import selected_in
from sympy_tensordiff.integer.implication import is_empty
from sympy_tensordiff.integer.nests import Bounds, bounds, order
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.integer.values import never_empty, run
from sympy_tensordiff.symbolic.indices import data_of, relation_row, to_affine
from sympy_tensordiff.symbolic.sums import IndexedReduction
from sympy_tensordiff.symbolic.tensors import TensorEntry

TARGET = "@"
_TARGET = sympy.Symbol(TARGET, integer=True)
MOST_CASES = 16
"""Conditions with more alternatives narrow nothing: the footprint is that of the read without them."""
MOST_STEPS = 200


def variable(symbol: Any) -> str:
    """The variable of rows that stands for a symbol; dummies of one name differ."""
    return f"{symbol.name}.{symbol.dummy_index}" if isinstance(symbol, sympy.Dummy) else str(symbol.name)


def affine(form: Any) -> Affine:
    """The form of an index expression over the names of `variable`."""
    return to_affine(sympy.expand(form), variable)


def limit_rows(index: Any, low: Any, high: Any) -> Rows:
    """``low <= index <= high``; what has no form is left out, which only enlarges a footprint."""
    lows = low.args if isinstance(low, sympy.Max) else (low,)
    highs = high.args if isinstance(high, sympy.Min) else (high,)
    return tuple(row for end in (*(index - e for e in lows), *(e - index for e in highs)) for row in _row("ge", end))


def _row(kind: Any, expr: Any) -> Rows:
    if data_of(expr):
        return ()
    try:
        return (Row(kind, affine(expr)),)
    except IndexExpressionError:
        return ()


class Read(NamedTuple):
    """An entry that is read at the points of some rows; ``inner`` are the indices of the sums around it."""

    entry: Any
    rows: Rows
    inner: tuple[Expr, ...]


def reads_of(expr: Any, rows: Rows = ()) -> Iterator[Read]:
    """All reads of tensor symbols in a scalar, each under the conditions around it."""
    stack: list[Read] = [Read(expr, rows, ())]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if isinstance(node.entry, TensorEntry):
            yield node
        for below in _below(*node):
            if below not in seen:
                seen.add(below)
                stack.append(below)


def domains_of(expr: Any, rows: Rows, origins: set[Any]) -> list[Read] | None:
    """What a scalar is reduced over blocks with these origins: summands with their rows; None where it adds others."""
    stack, found = [(Read(expr, rows, ()), origins)], []
    while stack:
        node, missing = stack.pop()
        below = list(_below(*node))
        if isinstance(node.entry, IndexedReduction):
            missing = missing - {s for limit in node.entry.args[1:] for s in limit[1].free_symbols}
            below = below[:1]
            if not missing:
                found += below
                continue
        deeper = [(part, missing) for part in below if part.entry.has(*missing)]
        if not deeper or (isinstance(node.entry, sympy.Add) and len(deeper) < len(below)):
            return None
        stack += deeper
    return found


def _below(expr: Any, rows: Rows, inner: tuple[Expr, ...]) -> Iterator[Read]:
    """The parts of an expression, each under the conditions around it."""
    if isinstance(expr, TensorEntry):
        yield from (Read(index, rows, inner) for index in expr.indices)
    elif isinstance(expr, Piecewise):
        before: Any = sympy.true
        for value, condition in expr.args:
            yield Read(condition, rows, inner)
            for case in _cases(sympy.And(before, condition)):
                yield Read(value, (*rows, *case), inner)
            before = sympy.And(before, sympy.Not(condition))
    elif hasattr(expr, "limits"):
        own = tuple(row for limit in expr.args[1:] for row in limit_rows(*limit))
        yield Read(expr.args[0], (*rows, *own), (*inner, *(limit[0] for limit in reversed(expr.args[1:]))))
        for limit in expr.args[1:]:
            yield from (Read(end, rows, inner) for end in limit[1:])
    elif isinstance(expr, sympy.Mul):
        deltas = [f for f in expr.args if isinstance(f, KroneckerDelta)]
        equal = tuple(row for f in deltas for row in _row("eq", f.args[0] - f.args[1]))
        for factor in expr.args:
            yield Read(factor, rows if factor in deltas else (*rows, *equal), inner)
    else:
        yield from (Read(part, rows, inner) for part in getattr(expr, "args", ()))


CASES = (sympy.Mod, sympy.Max, sympy.Min, sympy.Abs)
"""Functions in indices that are affine in each of a few cases."""


def index_cases(entry: Any, facts: Rows, least: Mapping[str, int | None]) -> list[tuple[Any, Any]] | None:
    """Entries with affine indices and the conditions under which each is read, the first that holds.

    None where there are too many, or where a remainder passes more than one end of its range. ``least`` are smallest
    values of sizes.

    >>> i, n = sympy.symbols("i n", integer=True)
    >>> from sympy_tensordiff.symbolic.tensors import TensorSymbol
    >>> index_cases(TensorSymbol("x", n)[sympy.Mod(i + 1, n)], limit_rows(i, 0, n - 1), {})
    [(x[i + 1], (i + 1 >= 0) & (-i + n - 2 >= 0)), (x[i - n + 1], (i - n + 1 >= 0) & (-i + 2*n - 2 >= 0))]
    """
    facts = (*facts, *(Row("ge", Affine({name: 1}, -block)) for name, block in least.items() if block))
    facts += tuple(
        Row("ge", Affine({variable(s): 1}, -1)) for n in entry.tensor.shape for s in sympy.sympify(n).free_symbols
    )
    waiting, found = [(entry, sympy.true)], []
    while waiting:
        case, condition = waiting.pop()
        node = next((a for a in sympy.postorder_traversal(case) if isinstance(a, CASES)), None)
        if node is None:
            found.append((case, condition))
            continue
        options = _options(node, (*facts, *(_cases(condition) or [()])[0]))
        if options is None or len(waiting) + len(found) > MOST_CASES:
            return None
        for value, own in reversed(options):
            both = sympy.And(condition, own)
            rows = _cases(both)
            if rows and not is_empty(rows[0], facts):
                waiting.append((case.xreplace({node: value}), both))
    return found


def _options(node: Any, facts: Rows) -> list[tuple[Any, Any]] | None:
    """The values of a function of `CASES`, with their conditions."""
    if not isinstance(node, sympy.Mod):
        values = (node.args[0], -node.args[0]) if isinstance(node, sympy.Abs) else node.args
        sign = -1 if isinstance(node, sympy.Min) else 1
        return [(a, sympy.And(*(_nonnegative(sign * (a - b)) for b in values if b != a))) for a in values]
    form, modulus = node.args
    outside = (*_row("ge", -modulus - 1 - form), *_row("ge", form - 2 * modulus))
    if len(outside) < 2 or not all(is_empty((row,), facts) for row in outside):
        return None
    turns = [form - q * modulus for q in (0, 1, -1)]
    return [(v, sympy.And(_nonnegative(v), _nonnegative(modulus - 1 - v))) for v in turns]


def _nonnegative(form: Any) -> Any:
    """``form >= 0`` between integers, without a common divisor: SymPy's search for a canonical one need not end."""
    terms = sympy.expand(form).as_coefficients_dict()
    constant = terms.pop(sympy.S.One, 0)
    if not terms or not all(c.is_Integer for c in terms.values()):
        return sympy.Ge(form, 0)
    common = gcd(*map(int, terms.values()))
    return sympy.Ge(sympy.Add(constant // common, *(c / common * term for term, c in terms.items())), 0)


def _cases(condition: Any) -> list[Rows]:
    """The alternatives of a condition, each as rows; parts about values of tensors are left out."""
    if condition == sympy.false:
        return []
    parts = [sympy.Or.make_args(part) for part in sympy.And.make_args(sympy.to_nnf(condition, simplify=False))]
    if sympy.prod(len(part) for part in parts) > MOST_CASES:
        return [()]
    found = []
    for case in product(*parts):
        rows: list[Row] = []
        for part in case:
            for one in sympy.And.make_args(part):
                rows += _condition(one)
        found.append(tuple(rows))
    return list(dict.fromkeys(found))


def _condition(condition: Any) -> Rows:
    if condition.has(TensorEntry) or not isinstance(condition, Relational) or isinstance(condition, sympy.Ne):
        return ()
    if not all(s.is_integer for s in condition.free_symbols):
        return ()
    difference, denominator = sympy.fraction(sympy.together(condition.lhs - condition.rhs))
    if not (denominator.is_Integer and denominator > 0):
        return ()
    return tuple(relation_row(condition, row.form) for row in _row("eq", difference))


class Ranges(NamedTuple):
    """Where a read happens: the range of each index, or None where data select it, and when it happens at all.

    All are forms in what is neither an axis nor a sum's index. The read happens if no range of ``axes`` and ``others``
    is empty and the ``rows`` hold. ``nests`` are the loops inside of these ranges, where the ends of a range need not
    be taken by integers.
    """

    axes: tuple[Bounds | None, ...]
    others: tuple[Bounds, ...]
    rows: Rows
    nests: tuple[tuple[Bounds, ...], ...]

    def at(self, values: Mapping[str, int], *, exact: bool = True) -> tuple[Any, ...] | None:
        """The ranges at given values; None where the read does not happen. They may be larger if not ``exact``."""
        if not all(row.holds(values) for row in self.rows):
            return None
        ranges = [one and one.range(values) for one in (*self.axes, *self.others)]
        if exact:
            ranges = [one and _tightened(one, nest, values) for one, nest in zip(ranges, self.nests, strict=True)]
        return None if any(one is not None and not one for one in ranges) else tuple(ranges[: len(self.axes)])


def _tightened(whole: range, nest: tuple[Bounds, ...], values: Mapping[str, int]) -> range:
    """The range from the first to the last value for which the loops inside have a point."""
    if not nest:
        return whole
    low = next((t for t in whole if _has_point(nest, values, t)), whole.stop)
    high = next((t for t in reversed(whole) if t <= low or _has_point(nest, values, t)), low)
    return range(low, high + 1) if low < whole.stop else range(0)


def _has_point(nest: tuple[Bounds, ...], values: Mapping[str, int], outermost: int) -> bool:
    """Whether loops have a point; after `MOST_STEPS` of a search the answer is yes, which only enlarges a footprint."""
    try:
        return any(True for _ in run(nest[1:], {**values, nest[0].variable: outermost}, MOST_STEPS))
    except ValueError:
        return True


def ranges_of(read: Read, facts: Rows, outer: Sequence[Expr]) -> Ranges:
    """The ranges of a read over a block; ``outer`` are the axes of the result."""
    loops = {variable(s) for s in (*outer, *read.inner)}
    rows = list(read.rows)
    entry = read.entry if isinstance(read.entry, TensorEntry) else None
    for index, extent in zip(entry.indices, entry.tensor.shape, strict=True) if entry else ():
        if not data_of(index):
            rows += _row("ge", index) + _row("ge", extent - 1 - index)
    rows = [row for row in rows if not selected_in(row.form)]
    axes: list[tuple[Bounds, ...]] = []
    seen = set[str]()
    for index in entry.indices if entry else ():
        own = () if data_of(index) else _row("eq", index - _TARGET)
        axes.append(nest_of(TARGET, (*own, *rows), loops, facts) if own else ())
        seen |= own[0].form.atoms() if own else set()
    others = [nest_of(loop, rows, loops - {loop}, facts) for loop in sorted(loops - seen)]
    others = [nest for nest in others if nest and not (len(nest) == 1 and never_empty(nest, facts))]
    free = tuple(r for r in rows if not r.form.atoms() & loops and not is_empty((r.negation(),), facts))
    return Ranges(
        tuple(nest[0] if nest else None for nest in axes),
        tuple(nest[0] for nest in others),
        free,
        tuple(nest if len(nest) > 1 else () for nest in (*axes, *others)),
    )


def nest_of(target: str, rows: Sequence[Row], loops: set[str], facts: Rows = ()) -> tuple[Bounds, ...]:
    """Return the range of one variable in terms of what is in no loop; () where no loop could express it.

    The loops inside follow where the projection is rational, so that integers need not take the ends of the range.
    Congruences and floors that no bound of a loop expresses are left out, which only enlarges the range.
    """
    for own in (rows, [row for row in rows if row.kind != "mod" and not row.form.hidden()]):
        connected, before = {target}, set[str]()
        while connected != before:
            before = set(connected)
            for row in own:
                if row.form.atoms() & connected:
                    connected |= row.form.atoms() & loops
        chosen = [row for row in own if row.form.atoms() & connected]
        inner = sorted(connected - {target})
        try:
            inner = list(order(chosen, inner, facts)) if inner else []
            nest = bounds(chosen, [target, *inner], facts)[0]
        except ValueError:  # no bounds express it: the caller takes the whole or refuses
            continue
        hidden = frozenset().union(*(row.form.hidden() for row in chosen))
        is_exact = all(abs(row.form.coefficient(v)) <= 1 and v not in hidden for row in chosen for v in inner)
        return nest[:1] if is_exact else nest
    return ()


def single_form(ranges: Sequence[Bounds], side: str) -> Affine | None:
    """The end of the hull as one form, where all ranges have one without rounding and they differ by numbers."""
    ends = [one.lows if side == "lows" else one.highs for one in ranges]
    if any(len(end) != 1 or end[0][1] != 1 for end in ends):
        return None
    forms = [end[0][0] for end in ends]
    if any(form.terms != forms[0].terms or form.compounds() for form in forms):
        return None
    return (min if side == "lows" else max)(forms, key=lambda form: form.constant)


def written(form: Affine, symbols: Mapping[str, Any]) -> Expr:
    """A form as an expression of the symbols by their variables."""
    return sympy.Add(form.constant, *(c * symbols[v] for v, c in form.terms))
