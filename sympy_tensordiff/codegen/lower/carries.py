"""Reductions that continue from one value of an index to the next (prefix sums, products and extrema).

``Prod_{k < j} a_k`` has one factor more for each ``j``, and ``Sum_{j > q} b_j*Prod_{q < k < j} a_k`` is ``b_(q + 1)``
plus ``a_(q + 1)`` times the same for ``q + 1``, as is ``Sum_{j > q} b_j*g**(j - q)``. An array of such values takes one
pass (`schedule.scans`), where a loop for each value takes as many passes as there are values. So it is worth an array
also inside of a sum over that index, although the array has as many entries as the sum has terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sympy

from sympy_tensordiff.codegen.lower.plan import Planner, StorageCandidate
from sympy_tensordiff.graph.interning import breadth_first
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.rows import Rows


def carried_variables(graph: Graph, node: Node) -> frozenset[int]:
    """Return the indices along which the reduction `node` can be updated from step to step: ``i`` in ``Sum_{j <= i}
    x[j]``, which gains one term per step. Empty for other nodes.
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
    varying = [factor for factor in graph.factors(node.args[0]) if v in factor.free]
    if len(varying) != 1 or varying[0].op != "call" or varying[0].data is not sympy.exp:
        return False
    (exponent,) = varying[0].args
    terms = exponent.args if exponent.op == "add" else (exponent,)
    return all(v not in term.free or bound[0] not in term.free for term in terms)


def chain_factor(graph: Graph, node: Node, v: int) -> Node | None:
    """Return the only factor of the summand of the running sum `node` that depends on ``v``: ``a**(v - w)`` in ``Sum_{w
    <= v} a**(v - w)*x[w]``. None unless this factor multiplies all terms by one number in a step of ``v``.
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
    """Return whether a running sum over `w` of products over `u`, as ``Sum_{w <= v} Prod_{w < u <= v} a[u]``, can be
    updated in a step of `v` by one new factor ``a[v]``. `rows` and `inner` are the ranges of `w` and `u`; `side` is 1
    if these end at `v`, -1 if they begin there.
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
    """Return 1 if the upper bound of `w` grows with `v`, -1 if the lower bound does, 0 if neither or both do."""
    own = [row for row in rows if v in row.form.atoms()]
    if any(row.kind != "ge" or not row.form.coefficient(w) or v in row.form.hidden() for row in own):
        return 0
    sides = {1 if row.form.coefficient(w) < 0 else -1 for row in own}
    is_rising = all(row.form.coefficient(v) * row.form.coefficient(w) < 0 for row in own)
    return sides.pop() if len(sides) == 1 and is_rising else 0


def has_windows(variables: Sequence[int], rows: Rows) -> bool:
    """Whether one of `variables` is bounded by others from both sides, as ``i <= j <= i + 2`` (a window). An array with
    axes for all of them would be mostly unused.
    """
    for v in variables:
        own = [row.form for row in rows if row.form.coefficient(v)]
        tied = [form for form in own if not form.atoms().isdisjoint([w for w in variables if w != v])]
        if len({form.coefficient(v) > 0 for form in tied}) == 2:
            return True
    return False


def carried_last(graph: Graph, candidate: StorageCandidate, order: Sequence[int]) -> tuple[int, ...] | None:
    """Return the axes `order` of an array that stores running reductions, with the axis along which they continue from
    entry to entry moved to the end. None if there is no such axis.
    """
    carried = carried_variables(graph, candidate.node)
    places = [place for place in order if candidate.axes[place] in carried]
    return (*(place for place in order if place != places[-1]), places[-1]) if places else None


def repeated_carries(graph: Graph, planner: Planner, roots: Sequence[Node]) -> set[Node]:
    """Return the running reductions (`carried_variables`) that occur in several loops or sums, so that storing them in
    arrays pays. Their outer indices have standard names.
    """
    places: Counter[Node] = Counter()
    for node in reachable(*roots):
        if node.op in BINDERS:
            inside = breadth_first(node.args[0], lambda part: () if part.op in BINDERS else part.args)
            carried = [part for part in inside if any(v < 0 for v in carried_variables(graph, part))]
            places.update({planner.numbered(part, sorted(v for v in part.free if v < 0)) for part in carried})
    return {node for node, count in places.items() if count > 1}
