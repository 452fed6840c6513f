"""The entries that a block reads, by Fourier-Motzkin elimination: each read with its constraints, and the range of each
of its indices.

A read happens at the integer points of a system: the ranges of axes and sums, the limits of the block, the guards of
the read, and the extents of its tensor (a read out of bounds is 0 and loads nothing). The range of an index over a
block is the projection onto it: a maximum and a minimum of forms in the sizes, the origin and the extent of the block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import Any, NamedTuple

import sympy
from sympy import Expr, KroneckerDelta, Piecewise

from sympy_tensordiff.errors import IndexExpressionError
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.implication import is_empty
from sympy_tensordiff.integer.indirect import variables_in_indirect_indices
from sympy_tensordiff.integer.nests import Bounds, bounds, order
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.integer.values import are_ranges_nonempty, points_of_nest
from sympy_tensordiff.symbolic.index_notation.constraints import alternatives, branch_alternatives
from sympy_tensordiff.symbolic.index_notation.indices import data_of, to_affine
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.sums import IndexedReduction
from sympy_tensordiff.symbolic.index_notation.tensors import TensorEntry

TARGET = "@"
_TARGET = sympy.Symbol(TARGET, integer=True)
MAX_CASES = 16
"""A read whose index needs more cases is not split."""
MAX_SEARCH_STEPS = 200


def variable_name(symbol: Any) -> str:
    """Return the name of ``symbol`` as a variable of constraints. Two dummies with equal names get different ones."""
    return f"{symbol.name}.{symbol.dummy_index}" if isinstance(symbol, sympy.Dummy) else str(symbol.name)


def to_affine_form(form: Any) -> Affine:
    """Return an index expression of SymPy as an affine form, with the names that `variable_name` gives to its
    symbols.
    """
    return to_affine(sympy.expand(form), variable_name)


def range_constraints(ranges: Iterable[IndexRange]) -> Rows:
    """Return the constraints that indices are within their ``ranges``. A bound that is not affine gives no constraint;
    then the entries that a block reads (its footprint) are only overestimated.
    """
    return tuple(row for one in ranges for row in one.constraints(variable_name(one.index), _affine_or_none))


def _affine_or_none(expr: Any) -> Affine | None:
    """Return ``expr`` as an affine form; None if it reads data or is not affine."""
    if data_of(expr):
        return None
    try:
        return to_affine_form(expr)
    except IndexExpressionError:
        return None


def _form_of_integers(expr: Any) -> Affine | None:
    """Return ``expr`` as an affine form; None if a symbol in it is not declared an integer, if it reads data or is not
    affine.
    """
    return _affine_or_none(expr) if all(s.is_integer for s in expr.free_symbols) else None


def _affine_constraint(kind: Any, expr: Any) -> Rows:
    """Return the constraint ``expr >= 0`` (``kind`` "ge") or ``expr == 0`` ("eq") as a tuple of one item; () if
    ``expr`` reads data or is not affine.

    A missing constraint can only enlarge the set of entries that a block is said to read.
    """
    form = _affine_or_none(expr)
    return () if form is None else (Constraint(kind, form),)


class GuardedExpression(NamedTuple):
    """A subexpression with the constraints ``rows`` under which it is evaluated, and ``inner``, the indices of the sums
    that contain it.
    """

    entry: Any
    rows: Rows
    inner: tuple[Expr, ...]


def iterate_reads(expr: Any, rows: Rows = ()) -> Iterator[GuardedExpression]:
    """Yield all reads of tensors in ``expr``, each with the constraints under which it is evaluated; ``rows`` hold for
    ``expr`` itself.
    """
    stack: list[GuardedExpression] = [GuardedExpression(expr, rows, ())]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if isinstance(node.entry, TensorEntry):
            yield node
        for child in _children(*node):
            if child not in seen:
                seen.add(child)
                stack.append(child)


def reduction_domains(expr: Any, rows: Rows, origins: set[Any]) -> list[GuardedExpression] | None:
    """Return the bodies of the reductions over blocks in ``expr``, each with the constraints under which it is
    evaluated: a block in which they never hold has nothing to sum. None if a term of ``expr`` has no reduction over
    blocks.

    ``rows`` are the constraints of ``expr`` itself, ``origins`` the symbols for the first index of each block.
    """
    stack, found = [(GuardedExpression(expr, rows, ()), origins)], []
    while stack:
        node, missing = stack.pop()
        children = list(_children(*node))
        if isinstance(node.entry, IndexedReduction):
            missing = missing - {s for limit in node.entry.args[1:] for s in limit[1].free_symbols}
            children = children[:1]
            if not missing:
                found += children
                continue
        descendants = [(part, missing) for part in children if part.entry.has(*missing)]
        if not descendants or (isinstance(node.entry, sympy.Add) and len(descendants) < len(children)):
            return None
        stack += descendants
    return found


def _children(expr: Any, rows: Rows, inner: tuple[Expr, ...]) -> Iterator[GuardedExpression]:
    """Yield the arguments of ``expr``, each with the constraints under which it is evaluated: ``rows``, which hold for
    ``expr``, and the conditions and ranges that ``expr`` adds. ``inner`` are the indices of the enclosing sums and
    comprehensions.
    """
    if isinstance(expr, TensorEntry):
        yield from (GuardedExpression(index, rows, inner) for index in expr.indices)
    elif isinstance(expr, Piecewise):
        # Two sides of an index would make two reads of one, and hardly a smaller range.
        for part, condition in branch_alternatives(expr.args, _form_of_integers, split_unequal=False):
            yield from (GuardedExpression(part, (*rows, *case), inner) for case in condition.systems)
    elif hasattr(expr, "limits"):
        own = range_constraints(expr.ranges())
        yield GuardedExpression(expr.args[0], (*rows, *own), (*inner, *(limit[0] for limit in reversed(expr.args[1:]))))
        for limit in expr.args[1:]:
            yield from (GuardedExpression(end, rows, inner) for end in limit[1:])
    elif isinstance(expr, sympy.Mul):
        deltas = [f for f in expr.args if isinstance(f, KroneckerDelta)]
        equal = tuple(row for f in deltas for row in _affine_constraint("eq", f.args[0] - f.args[1]))
        for factor in expr.args:
            yield GuardedExpression(factor, rows if factor in deltas else (*rows, *equal), inner)
    else:
        yield from (GuardedExpression(part, rows, inner) for part in getattr(expr, "args", ()))


PIECEWISE_AFFINE = (sympy.Mod, sympy.Max, sympy.Min, sympy.Abs)
"""Functions of indices that are affine in each of a few cases."""


def index_cases(entry: Any, facts: Rows, min_sizes: Mapping[str, int | None]) -> list[tuple[Any, Any]] | None:
    """Split a tensor entry with a periodic or clamped index into cases, and return pairs ``(entry, condition)``: ``x[i
    + 1]`` and ``x[i + 1 - n]`` for ``x[(i + 1) mod n]``. None if there are too many.

    ``facts`` are known constraints, ``min_sizes`` lower bounds of sizes.

    >>> i, n = sympy.symbols("i n", integer=True)
    >>> from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
    >>> index_cases(TensorSymbol("x", n)[sympy.Mod(i + 1, n)], range_constraints([IndexRange(i, 0, n - 1)]), {})
    [(x[i + 1], (i + 1 >= 0) & (-i + n - 2 >= 0)), (x[i - n + 1], (i - n + 1 >= 0) & (-i + 2*n - 2 >= 0))]
    """
    facts = (*facts, *(Constraint("ge", Affine({name: 1}, -block)) for name, block in min_sizes.items() if block))
    facts += tuple(
        Constraint("ge", Affine({variable_name(s): 1}, -1))
        for n in entry.tensor.shape
        for s in sympy.sympify(n).free_symbols
    )
    pending, found = [(entry, sympy.true)], []
    while pending:
        case, condition = pending.pop()
        node = next((a for a in sympy.postorder_traversal(case) if isinstance(a, PIECEWISE_AFFINE)), None)
        if node is None:
            found.append((case, condition))
            continue
        systems = alternatives(condition, _form_of_integers).systems
        known = systems[0] if len(systems) == 1 else ()
        options = _affine_cases(node, (*facts, *known))
        if options is None or len(pending) + len(found) > MAX_CASES:
            return None
        for value, own in reversed(options):
            both = sympy.And(condition, own)
            systems = alternatives(both, _form_of_integers).systems
            if not all(is_empty(system, facts) for system in systems):
                pending.append((case.xreplace({node: value}), both))
    return found


def _affine_cases(node: Any, facts: Rows) -> list[tuple[Any, Any]] | None:
    """Return the cases of ``node``, a remainder, maximum, minimum or absolute value, as pairs ``(form, condition)``:
    ``(i, i - j >= 0)`` and ``(j, j - i >= 0)`` for ``Max(i, j)``.

    None for a remainder whose dividend may be further than one modulus out of range where the constraints ``facts``
    hold.
    """
    if not isinstance(node, sympy.Mod):
        values = (node.args[0], -node.args[0]) if isinstance(node, sympy.Abs) else node.args
        sign = -1 if isinstance(node, sympy.Min) else 1
        return [(a, sympy.And(*(_nonnegative_condition(sign * (a - b)) for b in values if b != a))) for a in values]
    form, modulus = node.args
    outside = (*_affine_constraint("ge", -modulus - 1 - form), *_affine_constraint("ge", form - 2 * modulus))
    if len(outside) < 2 or not all(is_empty((row,), facts) for row in outside):
        return None
    turns = [form - q * modulus for q in (0, 1, -1)]
    return [(v, sympy.And(_nonnegative_condition(v), _nonnegative_condition(modulus - 1 - v))) for v in turns]


def _nonnegative_condition(form: Any) -> Any:
    """Return the SymPy condition ``form >= 0``, without a common divisor, and not evaluated further by SymPy, which may
    not terminate.
    """
    terms = sympy.expand(form).as_coefficients_dict()
    constant = terms.pop(sympy.S.One, 0)
    if not terms or not all(c.is_Integer for c in terms.values()):
        return sympy.Ge(form, 0)
    common = gcd(*map(int, terms.values()))
    return sympy.Ge(sympy.Add(constant // common, *(c / common * term for term, c in terms.items())), 0)


class ReadRanges(NamedTuple):
    """The range of entries that a read accesses along each axis of its tensor while one block is computed. It also has
    conditions (``rows``): where they are false, nothing is read.

    The ends are forms in sizes, block origins and block extents. The read happens if no range of ``axes`` and
    ``others`` is empty and the ``rows`` hold. ``nests`` are the loops inside a range whose ends need not be attained at
    integers.
    """

    axes: tuple[Bounds | None, ...]
    others: tuple[Bounds, ...]
    rows: Rows
    nests: tuple[tuple[Bounds, ...], ...]

    def evaluate(self, values: Mapping[str, int], *, exact: bool = True) -> tuple[Any, ...] | None:
        """Return the ranges of the indices of a read at the sizes and block numbers ``values``, a dictionary from
        names; None if nothing is read. Unless ``exact``, a range may contain values that do not occur.
        """
        if not all(row.holds(values) for row in self.rows):
            return None
        ranges = [one and one.range(values) for one in (*self.axes, *self.others)]
        if exact:
            ranges = [
                one and _shrink_to_points(one, nest, values) for one, nest in zip(ranges, self.nests, strict=True)
            ]
        return None if any(one is not None and not one for one in ranges) else tuple(ranges[: len(self.axes)])


def _shrink_to_points(whole: range, nest: tuple[Bounds, ...], values: Mapping[str, int]) -> range:
    """Return the range ``whole`` of the outermost index of ``nest`` (nested loops), without the values at both ends for
    which the inner loops have no iteration at the sizes ``values``.
    """
    if not nest:
        return whole
    low = next((t for t in whole if _has_point(nest, values, t)), whole.stop)
    high = next((t for t in reversed(whole) if t <= low or _has_point(nest, values, t)), low)
    return range(low, high + 1) if low < whole.stop else range(0)


def _has_point(nest: tuple[Bounds, ...], values: Mapping[str, int], outermost: int) -> bool:
    """Return whether the loops in ``nest`` inside of the outermost one have an iteration if the outermost index is
    ``outermost`` and the sizes have ``values``. True if a search of `MAX_SEARCH_STEPS` steps does not decide this.
    """
    try:
        return any(True for _ in points_of_nest(nest[1:], {**values, nest[0].variable: outermost}, MAX_SEARCH_STEPS))
    except ValueError:
        return True


def read_ranges(read: GuardedExpression, facts: Rows, outer: Sequence[Expr]) -> ReadRanges:
    """Return the ranges of tensor entries that ``read`` accesses while one block is computed, one range for each axis,
    as forms in the sizes and the first indices of the block.

    The indices ``outer`` vary within the block; the constraints ``facts`` always hold.
    """
    loops = {variable_name(s) for s in (*outer, *read.inner)}
    rows = list(read.rows)
    entry = read.entry if isinstance(read.entry, TensorEntry) else None
    for index, extent in zip(entry.indices, entry.tensor.shape, strict=True) if entry else ():
        if not data_of(index):
            rows += _affine_constraint("ge", index) + _affine_constraint("ge", extent - 1 - index)
    rows = [row for row in rows if not variables_in_indirect_indices(row.form)]
    axes: list[tuple[Bounds, ...]] = []
    seen = set[str]()
    for index in entry.indices if entry else ():
        own = () if data_of(index) else _affine_constraint("eq", index - _TARGET)
        axes.append(range_nest(TARGET, (*own, *rows), loops, facts) if own else ())
        seen |= own[0].form.atoms() if own else set()
    others = [range_nest(loop, rows, loops - {loop}, facts) for loop in sorted(loops - seen)]
    others = [nest for nest in others if nest and not (len(nest) == 1 and are_ranges_nonempty(nest, facts))]
    free = tuple(r for r in rows if not r.form.atoms() & loops and not is_empty((r.negation(),), facts))
    return ReadRanges(
        tuple(nest[0] if nest else None for nest in axes),
        tuple(nest[0] for nest in others),
        free,
        tuple(nest if len(nest) > 1 else () for nest in (*axes, *others)),
    )


def range_nest(target: str, rows: Sequence[Constraint], loops: set[str], facts: Rows = ()) -> tuple[Bounds, ...]:
    """Return the range of the variable ``target`` over all values of the variables ``loops`` that satisfy ``rows`` and
    ``facts``, as a tuple that begins with its `Bounds`; () if there are no bounds.

    The tuple ends there unless the projection is rational only, so that integers need not attain the bounds: then those
    of the other variables follow, as inner loops. Congruences and floors that no loop bound expresses are left out,
    which only enlarges the range.
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
        except ValueError:  # no bounds: the caller reads the whole axis or raises
            continue
        hidden = frozenset().union(*(row.form.hidden() for row in chosen))
        is_exact = all(abs(row.form.coefficient(v)) <= 1 and v not in hidden for row in chosen for v in inner)
        return nest[:1] if is_exact else nest
    return ()


def single_end(ranges: Sequence[Bounds], side: str) -> Affine | None:
    """Return the lower (``side`` "lows") or upper ("highs") end of the union of ``ranges`` as one affine form. None if
    an end is a maximum, a minimum or a rounded quotient, or if two ends differ by more than a constant.
    """
    ends = [one.lows if side == "lows" else one.highs for one in ranges]
    if any(len(end) != 1 or end[0][1] != 1 for end in ends):
        return None
    forms = [end[0][0] for end in ends]
    if any(form.terms != forms[0].terms or form.compounds() for form in forms):
        return None
    return (min if side == "lows" else max)(forms, key=lambda form: form.constant)


def to_expression(form: Affine, symbols: Mapping[str, Any]) -> Expr:
    """Return an affine form as a SymPy expression; ``symbols`` maps the names of its variables to symbols."""
    return sympy.Add(form.constant, *(c * symbols[v] for v, c in form.terms))
