"""Reductions that continue from one value of an index to the next (prefix sums, products and extrema).

``Prod_{k < j} a_k`` has one factor more for each ``j``, and ``Sum_{j > q} b_j*Prod_{q < k < j} a_k`` is ``b_(q + 1)``
plus ``a_(q + 1)`` times the same for ``q + 1``, as is ``Sum_{j > q} b_j*g**(j - q)``. An array of such values takes one
pass (`schedule.scans`), where a loop for each value takes as many passes as there are values. So it is worth an array
also inside of a sum over that index, although the array has as many entries as the sum has terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import sympy

from sympy_tensordiff.codegen.lower.plan import Planner, StorageCandidate, index_forms
from sympy_tensordiff.graph.interning import breadth_first
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, reachable, rewritten
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.rows import Rows, partition, substitute_all
from sympy_tensordiff.simplify.growing_functions import is_call

MAX_DISTANCES = 3
"""The largest power of a distance ``p[v] - q[w]`` that multiplies an exponential in a running sum."""


def carried_variables(graph: Graph, node: Node) -> frozenset[int]:
    """Return the free indices along which the reduction `node` can be updated from one value to the next, as a running
    sum: ``i`` for ``Sum_{j <= i} x[j]``, which gains one term per step of i. Empty for other nodes.
    """
    if node.op not in RANGED:
        return frozenset()
    bound = graph.bound(node)
    inside = node.args[0].free
    return frozenset(
        v
        for v in node.free
        if _moving_side(node.data, v, bound[0])
        and (
            v not in inside
            or is_rescaled(graph, node, v)
            or (len(bound) == 1 and chain_factor(graph, node, v) is not None)
        )
    )


def is_rescaled(graph: Graph, node: Node, v: int) -> bool:
    """Return whether `node` is a running sum along `v` of terms like ``exp(a[w] - m[v])``, as in a softmax that is
    computed in one pass: each step of `v` multiplies the sum so far by ``exp(m[v - 1] - m[v])``.
    """
    if node.op != "sum" or len(bound := graph.bound(node)) != 1 or not _moving_side(node.data, v, bound[0]):
        return False
    w = bound[0]
    varying = [factor for factor in graph.factors(node.args[0]) if v in factor.free]
    exponentials = [factor for factor in varying if is_call(factor, sympy.exp)]
    distances = [factor for factor in varying if factor not in exponentials]
    powers = [_power(factor) for factor in distances]
    if len(exponentials) != 1 or len({base for base, _ in powers}) > 1 or sum(n for _, n in powers) > MAX_DISTANCES:
        return False
    return all(_is_separable(graph, part, v, w) for part in (*exponentials[0].args, *(base for base, _ in powers)))


def _power(node: Node) -> tuple[Node, int]:
    """Return ``(base, n)`` for a power with a positive integer n as exponent, ``(node, 1)`` for other nodes."""
    if node.op == "pow" and node.args[1].op == "const" and isinstance(n := node.args[1].data, int) and n > 0:
        return node.args[0], n
    return node, 1


def _is_separable(graph: Graph, node: Node, v: int, w: int) -> bool:
    """Return whether `node` is a sum of terms each of which depends on `v` or on `w`, but not on both, as ``p[v] -
    q[w]``. A factor that depends on neither may be in front, as in ``c*(p[v] - q[w])``.
    """
    if v not in node.free or w not in node.free:
        return True
    if node.op == "index":
        return not {v, w} & node.data.hidden()
    if node.op == "add":
        return all(_is_separable(graph, term, v, w) for term in node.args)
    varying = [factor for factor in graph.factors(node) if not factor.free.isdisjoint((v, w))]
    return node.op == "mul" and len(varying) == 1 and _is_separable(graph, varying[0], v, w)


def chain_factor(graph: Graph, node: Node, v: int) -> Node | None:
    """Return the factor ``a**(v - w)`` of a running sum such as ``Sum_{w <= v} a**(v - w)*x[w]``: when ``v`` grows by
    1, it multiplies all earlier terms by the same number, a. None if `node` has no such factor, or another factor
    depends on ``v``.
    """
    if node.op != "sum":
        return None
    (w,) = graph.bound(node)
    side = _moving_side(node.data, v, w)
    varying = [factor for factor in graph.factors(node.args[0]) if v in factor.free]
    if len(varying) != 1 or not side:
        return None
    (factor,) = varying
    if factor.op == "pow":
        base, exponent = factor.args
        form = index_form(graph, exponent)
        if form is None or not base.free.isdisjoint((v, w)) or v in form.hidden():
            return None
        return factor if form.coefficient(v) * side > 0 else None
    if factor.op == "prod" and factor.args[0].free.isdisjoint((v, w)) and len(graph.bound(factor)) == 1:
        return factor if _is_chained(node.data, factor.data, v, w, graph.bound(factor)[0], side) else None
    return None


def _is_chained(rows: Rows, inner: Rows, v: int, w: int, u: int, side: int) -> bool:
    """Return whether a running sum of products, such as ``Sum_{w <= v} Prod_{w < u <= v} a[u]``, is a linear recurrence
    in `v`: each step multiplies the old value by one new factor. `rows` and `inner` are the ranges of `w` and `u`,
    which end (`side` 1) or begin (-1) at `v`.
    """
    moving = [row.form for row in rows if v in row.form.atoms()]
    own = [row.form for row in inner if v in row.form.atoms()]
    other = [row.form for row in inner if w in row.form.atoms()]
    if [len(moving), len(own), len(other)] != [1, 1, 1] or len(inner) != 2:
        return False
    # w <= v + c, u <= v + d and u >= w - e; for the other side w >= v - c, u >= v - d and u <= w + e.
    ends = ((moving[0], {v: 1, w: -1}), (own[0], {v: 1, u: -1}), (other[0], {u: 1, w: -1}))
    rests = [form - Affine(terms) * side for form, terms in ends]
    if not all(form.is_constant for form in rests):
        return False
    c, d, e = (form.constant for form in rests)
    return c - 1 - e <= d  # the product of the nearest earlier term has the new factor


def index_form(graph: Graph, node: Node) -> Affine | None:
    """Return an expression of indices and integers, such as ``i + 2*k``, as an affine form; None for other nodes."""
    if node.op == "index":
        form: Affine = node.data
        return form
    if node.op == "const":
        return Affine.of(node.data) if isinstance(node.data, int) else None
    if node.op == "add":
        forms = [one for term in node.args if (one := index_form(graph, term)) is not None]
        return sum(forms, Affine()) if len(forms) == len(node.args) else None
    number, core = graph.split_coefficient(node)
    if number == 1 or not isinstance(number, int):
        return None
    inner = index_form(graph, core)
    return None if inner is None else inner * number


def _moving_side(rows: Rows, v: int, w: int) -> int:
    """Return 1 if only the upper bounds of the inner loop over `w` grow with the outer variable `v`, -1 if only the
    lower ones do, and 0 otherwise. `rows` are the constraints of both loops.
    """
    own = [row for row in rows if v in row.form.atoms()]
    if any(row.kind != "ge" or not row.form.coefficient(w) or v in row.form.hidden() for row in own):
        return 0
    sides = {1 if row.form.coefficient(w) < 0 else -1 for row in own}
    is_rising = all(row.form.coefficient(v) * row.form.coefficient(w) < 0 for row in own)
    return sides.pop() if len(sides) == 1 and is_rising else 0


def with_running_sums(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with sums rewritten as running sums, such as ``Sum_{j <= i} x[j]``, where possible. A single pass
    then computes the sum for all values of the outer index i.

    A double sum over a triangle becomes a sum of running sums, ``Sum_i y[i]*(Sum_{j <= i} x[j])`` for ``Sum_{j <= i}
    x[j]*y[i]``. A sum over the distance to the end of a range becomes a sum up to that end, ``Sum_{j <= i} g**(i -
    j)*x[j]`` for ``Sum_{k <= i} g**k*x[i - k]``.
    """
    return rewritten(graph, roots, partial(_as_running_sum, graph))


def _as_running_sum(graph: Graph, node: Node) -> Node:
    """Return the sum `node` as a running sum or a sum of running sums if it has such a form; other nodes unchanged."""
    if node.op != "sum":
        return node
    bound, inside = set(graph.bound(node)), node.args[0].free
    if len(bound) > 1:
        is_tied = any(len(bound & row.form.atoms()) > 1 for row in node.data)
        return _around_running_sum(graph, node) if is_tied else node
    is_tied = any((row.form.atoms() & inside) - bound for row in node.data)
    return _with_split_indices(graph, _up_to_end(graph, node)) if is_tied else node


def _with_split_indices(graph: Graph, node: Node) -> Node:
    """Return the running sum `node` over ``w`` with each index form such as ``i - w``, in exponentials and powers,
    written as an addition of two nodes, ``i`` and ``-w``, so that they are not stored in a table over ``i - w``. Other
    sums are unchanged.

    Such a table would need a loop for each entry.
    """
    (w,), rows, body = graph.open(node)
    carried = carried_variables(graph, node) & body.free
    if not carried:
        return node

    def split(part: Node) -> Node:
        """Return an index node such as ``i - w``, which contains the enclosing function's summation variable `w` and
        another term, as the addition of the nodes ``i`` and ``-w``. Other nodes are unchanged.
        """
        if part.op != "index" or part.data.hidden() or len(part.data.terms) < 2 or w not in part.data.atoms():
            return part
        terms = [graph.scale(c, graph.index(Affine.variable(v))) for v, c in part.data.terms]
        return graph.add([*terms, graph.const(part.data.constant)])

    factors = graph.factors(body)
    new = [rewritten(graph, [one], split)[0] if one.op == "pow" or is_call(one, sympy.exp) else one for one in factors]
    return node if new == list(factors) else graph.sum((w,), rows, graph.mul(new))


def _up_to_end(graph: Graph, node: Node) -> Node:
    """Return the sum `node` over one index, such as ``Sum_{k <= i} g**k*x[i - k]``, as a running sum over a new index,
    ``j = i - k``. Return it unchanged if it is a running sum already, or if it cannot become one.
    """
    (w,), rows, body = graph.open(node)
    if carried_variables(graph, node) & body.free:
        return node
    tied = {v for row in rows if w in row.form.atoms() for v in row.form.atoms() if v in body.free}
    forms = [form for part in reachable(body) for form in index_forms(part)]
    places = {form for form in forms if w in form.atoms() and not tied.isdisjoint(form.atoms())}
    for place in sorted(places, key=str):
        c = place.coefficient(w)
        own = [v for v in place.atoms() if v != w and v in tied]
        if abs(c) != 1 or len(own) != 1 or abs(place.coefficient(own[0])) != 1 or place.hidden():
            continue
        # The new index is c*w + d*v.
        start = {w: (Affine.variable(w) - Affine.variable(own[0]) * place.coefficient(own[0])) * c}
        new = graph.sum((w,), substitute_all(rows, start), graph.substitute(body, start))
        if own[0] in carried_variables(graph, new):
            return new
    return node


def _around_running_sum(graph: Graph, node: Node) -> Node:
    """Write the sum `node` over several indices as a sum around a running sum, ``Sum_i a[i]*Sum_{j <= i} b[j]``, whose
    inner sum is continued from one i to the next. Return it unchanged if it has no such form.
    """
    variables, rows, body = graph.open(node)
    outer = node.free
    for w in reversed(variables):
        others = [v for v in variables if v != w]
        fixed, own = partition(rows, {w})
        if not all(_has_both_ends(partition(fixed, others[n + 1 :])[0], v) for n, v in enumerate(others)):
            continue  # w bounds another variable
        factors = graph.factors(body)
        inside = [factor for factor in factors if w in factor.free]
        inner = _up_to_end(graph, graph.sum((w,), own, graph.mul(inside)))
        moving = [v for v in others if v in inner.free]
        if len(moving) == 1 and moving[0] in carried_variables(graph, inner) and inner.free <= {*outer, *moving}:
            rest = [factor for factor in factors if factor not in inside]
            return graph.sum(others, fixed, graph.mul([*rest, _with_split_indices(graph, inner)]))
    return node


def _has_both_ends(rows: Rows, v: int) -> bool:
    """Return whether `rows` bound the variable `v` from below and from above, or determine it."""
    own = [row for row in rows if row.form.coefficient(v)]
    return any(row.kind == "eq" for row in own) or len({row.form.coefficient(v) > 0 for row in own}) == 2


def has_windows(variables: Sequence[int], rows: Rows) -> bool:
    """Return whether the constraints `rows` bound one of `variables` both below and above by the others, as in ``i <= j
    <= i + 2`` (a window). An array with an axis for each variable would then be mostly unused.
    """
    for v in variables:
        own = [row.form for row in rows if row.form.coefficient(v)]
        tied = [form for form in own if not form.atoms().isdisjoint([w for w in variables if w != v])]
        if len({form.coefficient(v) > 0 for form in tied}) == 2:
            return True
    return False


def carried_last(graph: Graph, candidate: StorageCandidate, order: Sequence[int]) -> tuple[int, ...] | None:
    """Return the axes `order`, of an array for the running reduction `candidate`, with the axis along which the
    reduction is updated moved to the end, so that it becomes the innermost loop. None if there is no such axis.
    """
    carried = carried_variables(graph, candidate.node)
    places = [place for place in order if candidate.axes[place] in carried]
    return (*(place for place in order if place != places[-1]), places[-1]) if places else None


def repeated_carries(graph: Graph, planner: Planner, roots: Sequence[Node]) -> set[Node]:
    """Return the running reductions below `roots`, such as cumulative sums, that several loops or sums compute, so that
    storing them in arrays pays. Their indices have standard names, so that equal reductions are one node.
    """
    places: Counter[Node] = Counter()
    for node in reachable(*roots):
        if node.op in BINDERS:
            inside = breadth_first(node.args[0], lambda part: () if part.op in BINDERS else part.args)
            carried = [part for part in inside if any(v < 0 for v in carried_variables(graph, part))]
            places.update({planner.numbered(part, sorted(v for v in part.free if v < 0)) for part in carried})
    return {node for node, count in places.items() if count > 1}
