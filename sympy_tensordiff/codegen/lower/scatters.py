"""Scatter-adds: sums into entries that integer arrays select, ``out[p] = Sum_i v(i)*[p == idx[i]]``.

As a sum with a test it takes a pass over all ``i`` for each ``p``. Instead, one pass over ``i`` adds to
``out[idx[i]]``: the equation gives the axis ``p`` as a form of data, and the loops run over what selects them. An array
of maxima or minima over such ranges, as ``Max_i v(i)`` over all ``i`` with ``p == idx[i]``, is computed likewise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd, inf
from typing import cast

from sympy_tensordiff.codegen.ir.scalars import Reduction
from sympy_tensordiff.codegen.lower.carries import carried_variables
from sympy_tensordiff.codegen.lower.materialise import is_dear
from sympy_tensordiff.codegen.lower.plan import EnclosingLoops
from sympy_tensordiff.graph.nodes import Graph, Node, ranges, reachable, rewritten
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.rows import Rows, unit_bounds_of


@dataclass(frozen=True)
class ScatterTerm:
    """Loops over ``variables``, bounded by ``rows``, that execute ``array[index] += value`` in each iteration in which
    the ``conditions`` hold. The ``reduction`` may also be a maximum or minimum.

    ``conditions`` are tested at each point. The first of the variables, of these ``extents``, start at 0.
    ``exclusive``: no two points have one entry.
    """

    variables: tuple[int, ...]
    extents: tuple[Affine, ...]
    rows: Rows
    conditions: Rows
    index: tuple[Affine, ...]
    value: Node
    exclusive: bool = False
    reduction: Reduction = "sum"


_EXTREMA = {"max": -inf, "min": inf}
"""The values of a maximum and of a minimum over an empty range."""


def split_scatters(
    graph: Graph, axes: Sequence[int], rows: Rows, guard: Rows, body: Node, stores: bool = True
) -> tuple[Node, list[ScatterTerm]]:
    """Split `body`, the formula of an array's entries, into ``(node, scatters)``: the scatters compute terms such as
    ``Sum_k [p[k] == i]*v[k]`` by ``y[p[k]] += v[k]``, and ``node`` is the formula of the other terms. ``rows`` and
    ``guard`` bound the indices `axes` of an entry. With ``stores``, inner sums may be stored in arrays.

    A sum that depends on fewer axes, as in ``a[r]*Sum_k [p[k] == i]*v[k]``, stays in the node if it ``stores`` such
    sums in arrays of their own: to add ``v[k]`` is less work than to add ``a[r]*v[k]`` for all r. So does a sum that is
    multiplied by functions, which are not called for each k.

    A maximum or minimum that data select is computed in one scatter, and its array starts from infinity of the sign in
    question.
    """
    if body.op in _EXTREMA and selects(graph, body, axes):
        part = _as_scatter(graph, axes, rows, guard, body, ())
        return (body, []) if part is None else (graph.const(_EXTREMA[body.op]), [part])
    rest, parts = [], []
    waiting = [body]
    while waiting:
        term = waiting.pop()
        number, core = graph.split_coefficient(term)
        if core.op == "add" and (
            number == 1 or any(arg.op == "sum" and selects(graph, arg, axes) for arg in core.args)
        ):
            waiting += [graph.scale(number, arg) for arg in reversed(core.args)]
            continue
        part = None
        for factor in term.args if term.op == "mul" else (term,):
            is_whole = not stores or factor.free.issuperset(axes)
            if factor.op == "sum" and is_whole and selects(graph, factor, axes):
                others = [other for other in (term.args if term.op == "mul" else ()) if other is not factor]
                if stores and any(map(_is_called_often, others)) and all(other.total for other in others):
                    continue
                terms = _terms(graph, factor)
                if len(terms) > 1:
                    waiting += [graph.mul([*others, summand]) for summand in reversed(terms)]
                    break
                part = _as_scatter(graph, axes, rows, guard, factor, others)
                if part is not None:
                    parts.append(part)
                    break
        else:
            rest.append(term)
    return graph.add(rest), parts


def extrema_over_segments(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with each maximum over all k of ``v[k] if p[k] == i else -oo`` written as the maximum over the k
    with ``p[k] == i``, so that one pass over k can compute it for all i. Minima are treated in the same way.
    """
    is_asked = bool(graph.integers) and any(part.op in _EXTREMA for part in reachable(*roots))
    return rewritten(graph, roots, lambda node: _over_segment(graph, node)) if is_asked else list(roots)


def _over_segment(graph: Graph, node: Node) -> Node:
    """Return ``node``, a maximum over all k of ``v[k] if p[k] == i else -oo``, as the maximum over the k with ``p[k] ==
    i``; a minimum likewise. Other nodes are returned unchanged.
    """
    if node.op not in _EXTREMA or node.args[0].op != "add":
        return node
    variables, rows, body = graph.open(node)
    left_out = graph.const(_EXTREMA[node.op])
    chosen = [term for term in body.args if term.op == "guard" and term.args[0] is not left_out]
    if len(chosen) != 1 or len(chosen[0].data) != 1 or chosen[0].data[0].kind != "eq":
        return node
    ((equation,),) = (term.data for term in chosen)
    others = [term for term in body.args if term is not chosen[0]]
    complement = {(Constraint("ge", sign * equation.form - 1),) for sign in (1, -1)}
    is_guarded = all(term.op == "guard" for term in others) and {term.data for term in others} == complement
    if not (is_guarded or (len(others) == 1 and _is_zero_where_equal(graph, others[0], equation, left_out))):
        return node
    return graph.reduce(node.op, variables, (*rows, equation), chosen[0].args[0])


def _is_zero_where_equal(graph: Graph, term: Node, equation: Constraint, left_out: Node) -> bool:
    """Return whether `term` is a select that is 0 where `equation` is true, and the infinite constant `left_out`
    elsewhere.
    """
    if term.op != "select" or term.args[0].op != "compare" or term.args[0].data not in ("eq", "ne"):
        return False
    sides = term.args[0].args
    branches = (graph.zero, left_out) if term.args[0].data == "eq" else (left_out, graph.zero)
    if sides[0].op != "index" or sides[1] is not graph.zero or term.args[1:] != branches:
        return False
    return sides[0].data in (equation.form, -equation.form)


MAX_SELECTIONS = 16
"""A summand that is chosen by more conditions than these is not sorted by them."""


def with_sorted_selections(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with each sum split by the integer arrays that select its terms: ``Sum_k ([p[k] == i] - [q[k] ==
    i])*v[k]`` becomes a sum for ``p`` and one for ``q``.

    A single loop over k can then add the terms of each to the entries for all i.

    Functions of i alone are moved in front of these sums, to be called once for each i.

    Where the sum is 0, so is the product, as an empty sum is 0 whatever the function is.
    """
    return rewritten(graph, roots, partial(_sorted_by_selection, graph)) if graph.integers else list(roots)


def _sorted_by_selection(graph: Graph, node: Node) -> Node:
    """Split the sum `node` into one sum for each equation that selects terms by entries of integer arrays, such as
    ``p[k] == i``, and return the total. Other nodes are unchanged.

    Costly factors that do not depend on summed indices are moved in front of their sum.
    """
    if node.op != "sum":
        return node
    variables, rows, body = graph.open(node)
    found = _by_selection(graph, body)
    if found is None or not any(found):
        return node
    sums = []
    for chosen, values in found.items():
        factors = graph.factors(graph.add(values))
        outside = [f for f in factors if chosen and f.free.isdisjoint(variables) and _is_called_often(f)]
        inside = graph.mul([factor for factor in factors if factor not in outside])
        if len(found) == 1 and not outside:
            return node
        total = graph.sum(variables, rows, graph.guard(tuple(chosen), inside))
        product = graph.mul([*outside, total])
        if not all(factor.total for factor in outside):  # it is 0 where data select nothing, whatever the functions are
            product = graph.select(graph.compare("ne", total, graph.zero), product, graph.zero)
        sums.append(product)
    return graph.add(sums)


def _is_called_often(factor: Node) -> bool:
    """Return whether `factor` is a costly function that depends on an index, so that a loop calls it many times."""
    return is_dear(factor) and bool(factor.free)


def _by_selection(graph: Graph, body: Node) -> dict[Rows, list[Node]] | None:
    """Group the values that are added in the summand `body` by the equations under which they count. Return a
    dictionary from equations to values: ``{p[k] == i: [x[k]]}`` for ``[p[k] == i]*x[k]``.

    None if there are no guards, or more than `MAX_SELECTIONS` groups.
    """
    if body.is_guard_free:
        return None
    known: dict[Node, dict[Rows, list[Node]] | None] = {}
    for node in reachable(body):
        is_sorted = node.op in ("add", "mul", "guard") and not node.is_guard_free
        known[node] = _sorted_values(graph, node, known) if is_sorted else {(): [node]}
    return known[body]


def _sorted_values(
    graph: Graph, node: Node, known: Mapping[Node, dict[Rows, list[Node]] | None]
) -> dict[Rows, list[Node]] | None:
    """Group the values that are added in `node`, an addition, product or guard, by the equations such as ``p[k] == i``
    under which they count, as `_by_selection` does; ``known`` has these dictionaries for the arguments of `node`. None
    if there are too many groups, or if several factors of a product have equations.
    """
    parts = [known[arg] for arg in node.args]
    if node.op == "guard":
        if not all(row.kind == "eq" and data_entries([row.form]) for row in node.data):
            return {(): [node]}
        return parts[0] and {(*node.data, *rows): values for rows, values in parts[0].items()}
    if None in parts:
        return None
    found: dict[Rows, list[Node]] = {}
    if node.op == "add":
        for part in parts:
            for rows, values in (part or {}).items():
                found.setdefault(rows, []).extend(values)
        return found if len(found) <= MAX_SELECTIONS else None
    own = [n for n, part in enumerate(parts) if part is not None and (len(part) > 1 or () not in part)]
    if not own:
        return {(): [node]}
    if len(own) > 1:
        return None
    others = [factor for n, factor in enumerate(node.args) if n != own[0]]
    selected = parts[own[0]] or {}
    return {rows: [graph.mul([*others, graph.add(values)])] for rows, values in selected.items()}


def selects(graph: Graph, node: Node, axes: Collection[int]) -> bool:
    """Return whether data select the entries to which terms of the sum, maximum or minimum `node` belong: an
    integer-array entry determines or bounds one of `axes`, as ``p[k]`` the axis i in ``Sum_k [p[k] == i]*v[k]``.
    """
    for summand in _terms(graph, node):
        rows = _tests(graph, summand)
        if solved_equation(rows, axes) or any(_window(rows, axis) for axis in axes):
            return True
    return False


def parameter(graph: Graph, node: Node, variables: Collection[int]) -> IndirectIndex | None:
    """Return the integer-array entry ``r[q]``, with an index q in `variables`, to which a condition of the reduction
    `node` compares entries with summed indices, as in ``Sum_i v[i]*[r[i] == r[q]]``. None if there is none.

    Only the value of ``r[q]`` counts, so that an array of the sums for all values serves all ``q``.
    """
    inside = frozenset(graph.bound(node))
    for summand in _terms(graph, node):
        for row in _tests(graph, summand) if not node.free.isdisjoint(variables) else ():
            entries = [v for v, c in row.form.terms if isinstance(v, IndirectIndex) and abs(c) == 1]
            bound = [entry for entry in entries if not entry.atoms().isdisjoint(inside)]
            for entry in entries if row.kind == "eq" and bound else ():
                if entry not in bound and not entry.atoms().isdisjoint(variables):
                    return entry
    return None


MAX_VALUES = 2**16
"""Data declared to be below a larger number get no array with an entry for each value."""


def limit_of_data(graph: Graph, node: Node, context: EnclosingLoops) -> IndirectIndex | None:
    """Return the integer-array entry ``r[q]``, with an index q of the loops ``context``, at which the range of the
    reduction `node` begins or ends, as in ``Sum_{i >= r[q]} v[i]``. None if there is none, or if the reductions for all
    values of ``r[q]`` are not running ones, each of which continues the one before.

    Nor may the range have another limit that moves with a loop, or the terms depend on a loop that q bounds: the
    array would have more elements than are read.
    """
    loops = frozenset(context.variables)
    for row in node.data if node.free & loops else ():
        for entry in data_entries([row.form]) if row.kind == "ge" else ():
            own = entry.atoms() & loops
            others = (node.free & loops) - own
            if not own or not has_few_values(entry) or any(loops & r.form.atoms() for r in node.data if r is not row):
                continue
            if any(own & r.form.atoms() and others & r.form.atoms() for r in context.rows):
                continue
            v = graph.fresh("value")
            if v in carried_variables(graph, graph.substitute(node, {entry: Affine.variable(v)})):
                return entry
    return None


def has_few_values(entry: IndirectIndex) -> bool:
    """Return whether an array with one element for each value that the data ``entry`` may have is of moderate size: its
    range is declared, and is that of an axis or at most `MAX_VALUES`.
    """
    below = entry.below
    return below is not None and not (below.is_constant and below.constant > MAX_VALUES)


def _terms(graph: Graph, node: Node) -> list[Node]:
    """Split a sum of an addition, `node`, into one sum for each term: return ``[Sum a, Sum b]`` for ``Sum (a + b)``.
    For any other reduction, return ``[node]``.
    """
    (body,) = node.args
    return [graph.rebind(node, arg) for arg in body.args] if body.op == "add" and node.op == "sum" else [node]


def _tests(graph: Graph, node: Node) -> Rows:
    """Return the constraints under which a value contributes to the reduction `node`: those of its range, and for a sum
    also those of the guards of its summand.
    """
    rows: Rows = node.data
    return rows + unguarded(graph, node.args[0])[0] if node.op == "sum" else rows


def unguarded(graph: Graph, body: Node) -> tuple[Rows, Node]:
    """Separate the summand ``body`` from its guards: return ``(constraints, value)``, as ``((p[k] == i,), v[k])`` for
    ``[p[k] == i]*v[k]``.
    """
    rows: Rows = ()
    while True:
        factors = body.args if body.op == "mul" else (body,)
        found = next((factor for factor in factors if factor.op == "guard"), None)
        if found is None:
            return rows, body
        rows += found.data
        body = graph.mul([found.args[0] if factor is found else factor for factor in factors])


def solved_equation(
    rows: Sequence[Constraint], axes: Collection[int], by_data: bool = True
) -> tuple[Constraint, int, Affine] | None:
    """Solve the first possible equation in `rows` for one of `axes`: return ``(equation, axis, value)``, or None. With
    `by_data`, try only equations with integer-array entries, such as ``p[k] == i``; without, only others.
    """
    for row in rows:
        if row.kind == "eq" and bool(data_entries([row.form])) == by_data:
            hidden = row.form.hidden()
            for axis in axes:
                c = row.form.coefficient(axis)
                if abs(c) == 1 and axis not in hidden:
                    return row, axis, Affine({axis: 1}) - c * row.form
    return None


def _window(rows: Sequence[Constraint], axis: int) -> Rows:
    """Return the two constraints of ``rows`` by which integer-array entries bound the variable `axis`, as in ``p[k] <=
    i < p[k + 1]`` for i; () without such bounds.
    """
    found = [row for row in rows if row.kind == "ge" and data_entries([row.form]) and axis not in row.form.hidden()]
    signs = {row.form.coefficient(axis) for row in found}
    return tuple([row for row in found if abs(row.form.coefficient(axis)) == 1]) if signs >= {1, -1} else ()


def _as_scatter(
    graph: Graph, axes: Sequence[int], rows: Rows, guard: Rows, node: Node, others: Sequence[Node]
) -> ScatterTerm | None:
    """Return the scatter that computes an array with the entries ``node*others``, where `node` is a reduction whose
    terms belong to entries that integer arrays select. The array has the indices `axes` in the range `rows`, and only
    entries for which ``guard`` holds count. None if the bounds of a loop would depend on inner loops.
    """
    variables, bounds, body = graph.open(node)
    conditions, value = unguarded(graph, body) if node.op == "sum" else ((), body)
    value = graph.mul([*others, value])
    index = {axis: Affine.variable(axis) for axis in axes}
    tests = (*rows, *guard, *conditions, *(row for row in bounds if row.kind != "ge"))
    bounds = tuple(row for row in bounds if row.kind == "ge")
    while (
        solved := solved_equation(tests, [axis for axis in axes if index[axis] == Affine.variable(axis)])
    ) is not None:
        row, axis, form = solved
        new = {axis: form}
        index = {key: known.substitute(new) for key, known in index.items()}
        tests = tuple(test.substitute(new) for test in tests if test is not row)
        moved = tuple(row.substitute(new) for row in bounds)
        tests += tuple(after for before, after in zip(bounds, moved, strict=True) if before is not after)
        tied = tuple(before for before, after in zip(bounds, moved, strict=True) if before is not after)
        bounds = tuple(row for row in bounds if row not in tied)
        value = graph.substitute(value, new)
    for axis in [axis for axis in axes if index[axis] == Affine.variable(axis)]:
        moved_window = _fixed_window(graph, axis, tests)
        if moved_window is not None:
            offset, place, new_bounds, window = moved_window
            new = {axis: place}
            index = {key: known.substitute(new) for key, known in index.items()}
            tied = tuple(row for row in bounds if axis in row.form.atoms())
            tests = tuple(test.substitute(new) for test in (*tests, *tied) if test not in window)
            bounds = tuple(row for row in bounds if row not in tied)
            bounds += (*new_bounds, *(test for test in tests if _bounds_of(test, offset, frozenset())))
            tests = tuple(test for test in tests if test not in bounds)
            variables += (offset,)
            value = graph.substitute(value, new)
    free = tuple(axis for axis in axes if index[axis] == Affine.variable(axis))
    ranges = tuple(row for row in tests if row in rows and row.form.atoms() & frozenset(free))
    windows = {axis: _window(tests, axis) for axis in free}
    inside = tuple(axis for axis in free if windows[axis])
    ranges += tuple(dict.fromkeys(row for axis in inside for row in windows[axis]))
    tests = tuple(row for row in tests if row not in ranges)
    forms = [*index.values(), *(row.form for row in tests), *(row.form for axis in inside for row in windows[axis])]
    indexed = frozenset().union(*(form.atoms() for form in forms))
    inner = tuple(v for v in variables if v not in indexed)
    own = tuple(row for row in bounds if not row.form.atoms().isdisjoint(inner))
    outer = tuple(row for row in bounds if row not in own)
    indexed_variables = tuple(v for v in variables if v in indexed)
    if not _are_bounded_in_order(indexed_variables, outer):
        inner, own, outer, indexed_variables = (), (), bounds, variables
    if not _are_bounded_in_order(indexed_variables, outer) or not _are_bounded_in_order(inner, own):
        return None
    if inner:
        value = graph.reduce(node.op, inner, own, value)
    free = tuple(axis for axis in free if axis not in inside)
    loops = (*free, *indexed_variables, *inside)
    tests += tuple(row for row in (*ranges, *outer) if _is_test(row, loops))
    ranges = tuple(row for row in ranges if row not in tests)
    outer = tuple(row for row in outer if row not in tests)
    if not _are_bounded_in_order(loops, (*ranges, *outer)):
        return None
    term = _with_loops_in_order(
        graph, (*indexed_variables, *inside), free, (*ranges, *outer), tests, tuple(index.values()), value
    )
    return replace(term, reduction=cast("Reduction", node.op))


def _fixed_window(graph: Graph, axis: int, tests: Rows) -> tuple[int, Affine, Rows, Rows] | None:
    """Find two constraints in `tests` like ``p[k] <= i < p[k] + m``, which restrict the index `axis` i to a window of
    constant length that begins at an integer-array entry. Return ``(a, place, bounds, window)`` for the substitution
    ``i = p[k] + a``, or None.

    ``window`` are the two constraints, ``a`` is a new variable, ``place`` is the index ``p[k] + a``, and ``bounds`` are
    the constraints ``0 <= a < m``.
    """
    window = _window(tests, axis)
    lows, highs = unit_bounds_of(axis, window)
    if len(lows) != 1 or len(highs) != 1 or len(window) != 2 or data_entries([highs[0] - lows[0]]):
        return None
    offset = graph.fresh(graph.names[axis])
    new = Affine.variable(offset)
    return offset, lows[0] + new, (Constraint("ge", new), Constraint("ge", highs[0] - lows[0] - new)), window


def _are_bounded_in_order(variables: Sequence[int], rows: Rows) -> bool:
    """Return whether nested loops over `variables`, outermost first, are possible: whether ``rows`` give each variable
    a lower and an upper bound in which no variables of inner loops occur.
    """
    for n, v in enumerate(variables):
        later = frozenset(variables[n + 1 :])
        signs = {row.form.coefficient(v) > 0 for row in rows if _bounds_of(row, v, later)}
        if len(signs) < 2:
            return False
    return True


def _bounds_of(row: Constraint, v: int, later: frozenset[int]) -> bool:
    """Return whether the inequality `row` can bound the loop over `v`: it contains `v` linearly, and no variable in
    ``later``, of a loop inside of this one.
    """
    alone = row.form.coefficient(v) != 0 and v not in row.form.hidden()
    return row.kind == "ge" and alone and row.form.atoms().isdisjoint(later)


def _is_test(row: Constraint, variables: Sequence[int]) -> bool:
    """Return whether the constraint `row` contains some of the loop variables `variables`, but cannot be a bound of
    their loops, so that it must be tested inside.
    """
    positions = [n for n, v in enumerate(variables) if v in row.form.atoms()]
    return bool(positions) and not _bounds_of(row, variables[positions[-1]], frozenset())


def _with_loops_in_order(
    graph: Graph,
    variables: tuple[int, ...],
    free: tuple[int, ...],
    rows: Rows,
    tests: Rows,
    index: tuple[Affine, ...],
    value: Node,
) -> ScatterTerm:
    """Return the scatter that adds `value` at `index` where ``tests`` hold, with its loops in order: over those of
    `variables` that are bounded by sizes alone, over the `free` axes, and over the rest of `variables`. ``rows`` are
    the bounds of the loops.

    The first ones run in the memory order of the integer array.
    """
    heads: dict[int, Affine] = {}
    shift: dict[int, Affine] = {}
    inside = frozenset((*variables, *free))
    for v in variables:
        own = [row for row in rows if row.form.coefficient(v) and row.form.atoms().isdisjoint(inside - {v})]
        alone = all(v not in row.form.hidden() and not data_entries([row.form]) for row in own)
        lows, highs = unit_bounds_of(v, own)
        tied = [r for r in rows if v in r.form.atoms() and not r.form.atoms().isdisjoint(inside - {v})]
        own_ties = [r for r in tied if _bounds_of(r, v, frozenset(variables[variables.index(v) + 1 :]))]
        if alone and len(lows) == len(highs) == 1 and len(own) == 2 and not own_ties:
            heads[v] = highs[0] - lows[0] + 1
            shift[v] = Affine.variable(v) + lows[0]
    entries = data_entries([*index, *(row.form for row in tests)])
    heads = {v: heads[v] for v in sorted(heads, key=lambda v: max(_axes(entries, v), default=0))}
    ranges = tuple(row.substitute(shift) for row in rows)
    extents = []
    for v in (*heads, *free):
        high = heads.get(v) or next(row.form + Affine({v: 1}) + 1 for row in ranges if row.form.coefficient(v) == -1)
        extents.append(high)
    order = (*heads, *free, *(v for v in variables if v not in heads))
    index = tuple(form.substitute(shift) for form in index)
    tests = tuple(row.substitute(shift) for row in tests)
    return ScatterTerm(order, tuple(extents), ranges, tests, index, graph.substitute(value, shift))


def _axes(entries: Sequence[IndirectIndex], variable: int) -> list[int]:
    """Return the positions of the indices in the integer-array `entries` that contain `variable`: [1] for ``p[i, j]``
    and the variable j.
    """
    return [axis for entry in entries for axis, form in enumerate(entry.index) if variable in form.atoms()]


# ---------------------------------------------------------------------------- terms on diagonals
# Terms that are zero but where axes are equal, or in one residue class: ``out[p, q] = v(p)*[p == q] + …``.
#
# With a test inside of the loops over all axes most instances do nothing, and no processor vectorises the others.
# Instead, one pass over the axes that are left adds ``v(p)`` to ``out[p, p]``. So the array is filled with zeros, or
# with the terms that have no such condition, before.


def split_diagonals(
    graph: Graph, axes: Sequence[int], extents: Sequence[Affine], facts: Rows, guard: Rows, body: Node
) -> tuple[Node, list[ScatterTerm]]:
    """Split `body`, the formula of an array's entries, into ``(node, scatters)``: the terms needed at all entries, and
    scatters for the terms that are nonzero on a diagonal only. `axes` are the indices of an entry, ``extents`` the
    lengths of the axes, ``guard`` the conditions under which entries are needed, ``facts`` known constraints on sizes.
    """
    rest, parts = [], []
    for term in body.args if body.op == "add" else (body,):
        conditions, value = unguarded(graph, term)
        part = _Diagonal(graph, axes, extents, (*guard, *conditions)).part(facts, value)
        if part is None:
            rest.append(term)
        else:
            parts.append(part)
    return graph.add(rest), parts


class _Diagonal:
    """The entries of an array that equations and congruences select, such as its diagonal ``x[i, i]`` by ``i == j``.
    ``index`` maps each axis to an index form in the remaining variables, here i, and ``left`` these to their extents.
    """

    def __init__(self, graph: Graph, axes: Sequence[int], extents: Sequence[Affine], conditions: Rows) -> None:
        self.graph = graph
        self.index = {axis: Affine.variable(axis) for axis in axes}
        self.left = dict(zip(axes, extents, strict=True))
        self.tests = (*conditions, *ranges(axes, extents))
        while (solved := solved_equation(self.tests, [*self.left][::-1], by_data=False)) is not None:
            row, axis, form = solved
            del self.left[axis]
            self.replace(row, axis, form)
        while (strided := _residue(self.tests, self.left)) is not None:
            self.stride(*strided)

    def replace(self, row: Constraint, axis: int, form: Affine) -> None:
        """Eliminate the variable `axis`: substitute `form`, the solution of the constraint `row` for it, in the index
        of the entries and in the tests, and drop `row` from the tests.
        """
        new = {axis: form}
        self.tests = tuple(test.substitute(new) for test in self.tests if test is not row)
        self.index = {key: place.substitute(new) for key, place in self.index.items()}

    def stride(self, row: Constraint, axis: int, first: Affine) -> None:
        """Replace the variable `axis` by ``first + m*k`` with a new variable k, because the congruence ``row``, such as
        ``i mod m == 1``, holds for every m-th value only.
        """
        new, step = self.graph.fresh(self.graph.names[axis]), row.modulus
        order = [new if key == axis else key for key in self.left]
        self.left[new] = quotient(self.left.pop(axis) - first + step - 1, step)
        self.left = {key: self.left[key] for key in order}
        self.replace(row, axis, step * Affine.variable(new) + first)

    def part(self, facts: Rows, value: Node) -> ScatterTerm | None:
        """Return the scatter that adds `value`, the formula of an entry, to these entries only, so that no loop visits
        the others. None if they are all entries of the array.

        Conditions that `facts` imply are not tested.
        """
        if all(place == Affine.variable(axis) for axis, place in self.index.items()):
            return None
        variables, extents = tuple(self.left), tuple(self.left.values())
        box = ranges(variables, extents)
        needed = tuple(dict.fromkeys(test for test in self.tests if not is_implied(test, (*facts, *box))))
        value = self.graph.substitute(value, self.index)
        return ScatterTerm(variables, extents, box, needed, tuple(self.index.values()), value, exclusive=True)


def _residue(tests: Rows, axes: Collection[int]) -> tuple[Constraint, int, Affine] | None:
    """Find a congruence in ``tests`` that restricts one of ``axes`` to every m-th index, such as ``i mod m == 1``.
    Return ``(congruence, axis, smallest index)``, or None if there is none.
    """
    for row in tests:
        own = row.form.atoms().intersection(axes)
        if row.kind == "mod" and len(own) == 1 and not data_entries([row.form]):
            (axis,) = own
            c = row.form.coefficient(axis) % row.modulus
            if axis not in row.form.hidden() and gcd(c, row.modulus) == 1:
                rest = (Affine({axis: row.form.coefficient(axis)}) - row.form) * pow(c, -1, row.modulus)
                return row, axis, rest - row.modulus * quotient(rest, row.modulus)
    return None
