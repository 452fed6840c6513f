"""Interchanged and merged sums: the form of a program's sums that takes the least work.

Nested sums: ``Sum_k a_k*Sum_j b_j*c_jk`` is ``Sum_j b_j*Sum_k a_k*c_jk``. Both take the same multiplications, but for
the arrays that keep the inner sum, if the inner sum depends on all indices of the outer one. The other order is chosen

- where its inner sum depends on fewer indices around both sums, and so is computed less often;
- where it depends on as many, and is needed elsewhere, too: then one array of it serves both;
- for a single number, where its innermost loop reads along rows and the other one down columns.

A sum over several indices whose part over some of them is known: ``Sum_jk w_j*a_jk*w_k`` is ``Sum_j w_j*s_j`` where a
derivative needs ``s_j = Sum_k a_jk*w_k``.

Sums over one range whose summands share a factor: ``Sum_j p_j*d_j*w_jr - c*Sum_j p_j*w_jr`` is
``Sum_j p_j*(d_j - c)*w_jr``, as in the derivative of a value divided by its sum. Only where both sums depend on the
same indices and the addition on no more than these and one of its terms, so that nothing is computed more often, and
where nothing else uses one of the sums: ``b_t*Sum_j a_sj*c_j + c_t*Sum_j a_sj*b_j`` has two sums.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import NamedTuple

from sympy_tensordiff.codegen.lower.plan import Planner, is_never_empty
from sympy_tensordiff.graph.interning import Number, breadth_first
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable, rewritten
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.rows import Rows, partition
from sympy_tensordiff.simplify.canonical_signs import content_of


class Exchanged(NamedTuple):
    """A nested sum after its two sums are interchanged, ``Sum_j Sum_i`` for ``Sum_i Sum_j``: the new sum, its inner
    sum, its outer indices, and whether the new order is better.

    `is_fewer`: the inner sum depends on fewer indices; `is_along`: more reads run along rows.
    """

    whole: Node
    inner: Node
    outer: tuple[int, ...]
    is_fewer: bool
    is_along: bool


def ordered_sums(graph: Graph, planner: Planner, roots: Sequence[Node]) -> tuple[list[Node], set[Node]]:
    """Return ``(roots, sums)``: `roots` with nested sums interchanged where that saves operations, and those inner sums
    that several expressions use, so that it pays to store them in an array.

    The latter are given as `Planner.numbered` does, over the numbered axes. Of one index, they are those that several
    values are made of, too: ``log(S[i])`` and ``1/S[i]`` read one ``S``.
    """
    parts = reachable(*roots)
    known = {numbered(planner, part) for part in parts if part.op == "sum"}
    shared = _sums_with_several_uses(graph, planner, parts)

    def with_sums_interchanged(node: Node) -> Node:
        """Return the nested sum `node` with its two sums interchanged where that saves operations. Record inner sums
        that also occur in other expressions as ``shared``.
        """
        if node.op != "sum":
            return node
        found = _exchanged(graph, node, planner.facts)
        if found is None:
            return node
        name = numbered(planner, found.inner, found.outer)
        if name in known:
            shared.add(name)
        return found.whole if found.is_fewer or name in known or found.is_along else node

    return rewritten(graph, roots, with_sums_interchanged), shared


def nested_around_known_sums(graph: Graph, planner: Planner, roots: Sequence[Node]) -> tuple[list[Node], set[Node]]:
    """Return ``(roots, inner sums)``: `roots` with sums like ``Sum_{i, j} a[i]*b[i, j]`` written as ``Sum_i a[i]*Sum_j
    b[i, j]`` if the inner sum also occurs elsewhere, and these inner sums.

    If only half of the terms of a sum occur elsewhere, it is split into two sums first.
    """
    sums = [part for part in reachable(*roots) if part.op == "sum"]
    halves = _halves(graph, planner, sums)
    known = {*halves, *(numbered(planner, part) for part in sums)}
    depths = {len(graph.bound(part)) for part in sums if _outer_variables(part)}
    lengths = range(1 + min(depths, default=MAX_SPLIT), MAX_SPLIT + 1)
    shared: set[Node] = set()

    def nested(node: Node) -> Node:
        """Split the sum `node` into a sum around an inner sum that also occurs elsewhere, if there is one, and return
        it. Record the inner sum as shared. Other nodes are returned unchanged.
        """
        if node.op == "sum" and len(graph.bound(node)) in lengths:
            split = _with_known(graph, planner, node, known)
            if split is not None:
                shared.add(split[1])
                return split[0]
        return node

    found = rewritten(graph, roots, nested)
    split = {whole: graph.add(parts) for name, (whole, *parts) in halves.items() if name in shared}
    return (rewritten(graph, found, lambda node: split.get(node, node)) if split else found), shared


MAX_HALVED_TERMS = 6
"""Of a sum of more terms than these, halves are not looked for."""


def _halves(graph: Graph, planner: Planner, sums: Sequence[Node]) -> dict[Node, tuple[Node, Node, Node]]:
    """Return a dictionary ``{half: (sum, half, other half)}`` of the ways to split each of `sums` in two: ``Sum_j (a_j
    + b_j)*c_j`` has the halves ``Sum_j a_j*c_j`` and ``Sum_j b_j*c_j``.

    The keys have standard names for the outer indices.

    Only additions with an even number of terms are split; terms that may cancel exactly stay together.
    """
    found: dict[Node, tuple[Node, Node, Node]] = {}
    for whole in sums:
        factors = graph.factors(whole.args[0])
        total = next((factor for factor in factors if factor.op == "add"), None)
        if total is None or not _outer_variables(whole) or len(total.args) not in range(2, MAX_HALVED_TERMS + 1, 2):
            continue
        rest = [factor for factor in factors if factor is not total]
        for chosen in combinations(total.args, len(total.args) // 2):
            sides = chosen, [term for term in total.args if term not in chosen]
            numbers, others = ({graph.split_coefficient(term)[0] for term in side} for side in sides)
            if any(-number in others for number in numbers):
                continue
            half, other = (graph.rebind(whole, graph.mul([*rest, graph.add(side)])) for side in sides)
            found.setdefault(numbered(planner, half), (whole, half, other))
    return found


def with_coprime_terms(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with numeric factors moved in front of sums: ``Sum (a/2 - b)*c`` becomes ``Sum (a - 2*b)*c/2``.
    Sums that are multiples of each other are then recognised.
    """

    def coprime(node: Node) -> Node:
        """Take common numeric factors out of the additions in the summand of an indexed sum: return a number times the
        sum in which each addition has coprime integer coefficients. Any other node, also an addition that is not in a
        sum, is returned unchanged.
        """
        factors = graph.factors(node.args[0]) if node.op == "sum" else ()
        if not any(factor.op == "add" for factor in factors):
            return node
        divisor, rest = Fraction(1), []
        for factor in factors:
            terms = [graph.split_coefficient(term) for term in factor.args] if factor.op == "add" else []
            content = content_of([number for number, _ in terms]) if terms else 1
            if content != 1:
                divisor *= content
                factor = graph.add(graph.scale(Fraction(number) / content, core) for number, core in terms)
            rest.append(factor)
        return node if divisor == 1 else graph.scale(divisor, graph.rebind(node, graph.mul(rest)))

    return rewritten(graph, roots, coprime)


MAX_SPLIT = 4
"""A sum over more indices than these is not looked through for sums over some of them."""


def _with_known(graph: Graph, planner: Planner, node: Node, known: Container[Node]) -> tuple[Node, Node] | None:
    """Return ``(sum, inner)`` if the sum `node` can be written as a nested sum whose inner sum is in ``known``: the
    nested sum, and its inner one. None for other sums.
    """
    variables, rows, body = graph.open(node)
    factors = graph.factors(body)
    for count in range(len(variables) - 1, 0, -1):
        for inner in permutations(variables, count):
            others = [factor for factor in factors if factor.free.isdisjoint(inner)]
            coupled = [factor for factor in factors if not factor.free.isdisjoint(inner)]
            outer = tuple([v for v in variables if v not in inner])
            if not all(any(v in factor.free for factor in others) for v in outer):
                continue
            around, own = partition(rows, inner)
            if not all(_is_bounded(v, around) for v in outer):
                continue
            part = graph.sum(inner, own, graph.mul(coupled))
            name = numbered(planner, part, outer)
            if name in known and part.free.intersection(outer):
                return graph.sum(outer, around, graph.mul([*others, part])), name
    return None


def _is_bounded(v: int, rows: Rows) -> bool:
    """Return whether `rows` have a lower and an upper bound of the index `v`, or an equation for it."""
    signs = {(row.form.coefficient(v) > 0, row.kind) for row in rows if row.form.coefficient(v)}
    return any(kind == "eq" for _, kind in signs) or {(True, "ge"), (False, "ge")} <= signs


def _sums_with_several_uses(graph: Graph, planner: Planner, parts: Sequence[Node]) -> set[Node]:
    """Return the sums in `parts` that depend on one outer index, such as ``S[k]``, and are used in several expressions,
    as in ``log(S[k])`` and ``1/S[k]``, so that it pays to store them in arrays.
    """
    around: dict[Node, set[Node]] = {}
    for part in parts:
        value = graph.split_coefficient(part)[1]
        for arg in value.args:
            if arg.op == "sum" and len(_outer_variables(arg)) == 1:
                made = value if value.op in ("mul", "pow", "call") else arg
                around.setdefault(numbered(planner, arg), set()).add(numbered(planner, made))
        if value is not part and value.op == "sum" and len(_outer_variables(value)) == 1:
            around.setdefault(numbered(planner, value), set()).add(numbered(planner, value))
    extrema = {one for part in parts if part.op in ("max", "min") for one in _sums_of_one_index(planner, part)}
    others = [part for part in parts if extrema and part.op in BINDERS and part.op not in ("max", "min")]
    in_both = extrema.intersection(one for part in others for one in _sums_of_one_index(planner, part))
    return in_both | {node for node, users in around.items() if len(users) > 1}


def _sums_of_one_index(planner: Planner, binder: Node) -> set[Node]:
    """Return the sums in the body of `binder`, a sum or comprehension, that depend on exactly one index bound around
    them.

    In the result, this index has a standard name. Inner sums and comprehensions are not entered.
    """
    body = breadth_first(binder.args[0], lambda node: () if node.op in BINDERS else node.args)
    return {numbered(planner, part) for part in body if part.op == "sum" and len(_outer_variables(part)) == 1}


def _exchanged(graph: Graph, node: Node, facts: Rows) -> Exchanged | None:
    """Return the nested sum `node`, ``Sum_i a_i*Sum_j b_ij``, interchanged to ``Sum_j Sum_i a_i*b_ij``, as an
    `Exchanged` record. None if that is not possible or costs more.

    It is not possible if the ranges depend on each other or may be empty.
    """
    outer, outer_rows, body = graph.open(node)
    factors = graph.factors(body)
    sums = [factor for factor in factors if factor.op == "sum"]
    if len(sums) != 1 or len(factors) == 1 or not is_never_empty(outer, outer_rows, facts):
        return None
    inner, inner_rows, summand = graph.open(sums[0])
    if any(not row.form.atoms().isdisjoint(outer) for row in inner_rows):
        return None
    others = [factor for factor in factors if factor is not sums[0]]
    coupled = [factor for factor in graph.factors(summand) if not factor.free.isdisjoint(outer)]
    own = [factor for factor in graph.factors(summand) if factor.free.isdisjoint(outer)]
    if not coupled or any(factor.free.isdisjoint(inner) for factor in coupled):
        return None
    new = graph.sum(outer, outer_rows, graph.mul([*others, *coupled]))
    if not _outer_variables(new) <= _outer_variables(sums[0]):
        return None
    whole = graph.sum(inner, inner_rows, graph.mul([*own, new]))
    around = _outer_variables(node)
    reads = [part for part in reachable(*coupled) if part.op == "read" and part.free.issuperset((*outer, *inner))]
    # An outer index on which the inner sum does not depend would be run through for each of its terms.
    along = sums[0].free.issuperset(outer)
    along = along and _count_contiguous_reads(coupled, outer) > _count_contiguous_reads(coupled, inner)
    if around:  # unless the last axis of the result is that of the reads, or the 0 of an empty sum is multiplied
        along = (
            along
            and is_never_empty(inner, inner_rows, facts)
            and _count_contiguous_reads(reads, outer) > _count_contiguous_reads(reads, (*inner, *around))
        )
    return Exchanged(whole, new, inner, _outer_variables(new) < _outer_variables(sums[0]), along)


def _outer_variables(node: Node) -> set[int]:
    """Return the free indices of `node` that an enclosing sum or comprehension binds: the variables with negative
    numbers.
    """
    return {v for v in node.free if v < 0}


def numbered(planner: Planner, node: Node, opened: Sequence[int] = ()) -> Node:
    """Return `node` with the indices that are bound outside of it, and those in `opened`, renamed in a standard way, so
    that nodes that differ only in these names become equal.
    """
    return planner.numbered(node, sorted(v for v in node.free if v < 0 or v in opened))


def _count_contiguous_reads(factors: Sequence[Node], variables: Sequence[int]) -> int:
    """Return how many reads are contiguous along one of `variables`, because only their last index contains it."""
    count = 0
    for part in reachable(*factors):
        if part.op == "read" and part.data:
            *heads, last = [form.atoms().isdisjoint(variables) for form in part.data]
            count += not last and all(heads)
    return count


# ---------------------------------------------------------------------------- sums over one range


class Opened(NamedTuple):
    """A product with a sum as a factor, written as ``number * Sum(prod(factors))``: the factors in front of the sum are
    moved into it. In this form, terms of an addition with sums over equal ranges can be merged.

    Sums over equal ranges, which depend on the same indices, have the same ``variables``. The sum as it was depends on
    ``free``; a factor that was outside of it may depend on more.
    """

    range: Hashable
    free: frozenset[int]
    variables: tuple[int, ...]
    rows: Rows
    number: Number
    factors: Sequence[Node]


def joined_sums(graph: Graph, planner: Planner, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with additions like ``Sum_i a[i]*b[i] + Sum_i a[i]*c[i]`` written as one sum, ``Sum_i a[i]*(b[i] +
    c[i])``.
    """
    parts = reachable(*roots)
    if not any(part.op == "add" and sum(not term.is_guard_free for term in part.args) > 1 for part in parts):
        return list(roots)
    used = Counter(numbered(planner, arg) for part in parts for arg in part.args if arg.op == "sum")

    def with_sums_merged(node: Node) -> Node:
        """Return the addition `node` with its sums over equal ranges merged, as ``Sum_i a[i]*(b[i] + c[i])``. Sums that
        occur several times elsewhere are not merged; other nodes are unchanged.
        """
        own = {term: _sums_in(graph, term) for term in node.args} if node.op == "add" else {}
        single = {term: [s for s in sums if used[numbered(planner, s)] == 1] for term, sums in own.items()}
        return _with_merged_sums(graph, node, {term: sums for term, sums in single.items() if sums})

    return rewritten(graph, roots, with_sums_merged)


def _sums_in(graph: Graph, term: Node) -> list[Node]:
    """Return the sums among the factors of `term`; `term` itself if it is a sum."""
    return [factor for factor in graph.factors(graph.split_coefficient(term)[1]) if factor.op == "sum"]


def _with_merged_sums(graph: Graph, addition: Node, single: Mapping[Node, Sequence[Node]]) -> Node:
    """Return `addition` with pairs of terms merged into a single sum each, ``Sum_j a[j]*b[j] + Sum_j a[j]*c[j]`` into
    ``Sum_j a[j]*(b[j] + c[j])``. ``single`` maps each term to the sums in it that nothing else uses.
    """
    if len(single) < 2:
        return addition
    spaces: dict[Hashable, tuple[tuple[int, ...], Rows]] = {}
    left: list[tuple[Node, list[Opened]]] = []
    waiting = deque(
        (term, [_with_factors_in_sum(graph, term, node, spaces) for node in sums]) for term, sums in single.items()
    )
    while waiting:
        term, opened = waiting.popleft()
        for place, (_, others) in enumerate(left):
            joined = (_as_single_sum(graph, one, two) for one, two in product(others, opened))
            found = next((new for new in joined if new is not None), None)
            if found is not None:
                del left[place]
                waiting.append(
                    (found, [_with_factors_in_sum(graph, found, node, spaces) for node in _sums_in(graph, found)])
                )
                break
        else:
            left.append((term, opened))
    rest = [term for term in addition.args if term not in single]
    return graph.add([*rest, *(term for term, _ in left)])


def _with_factors_in_sum(
    graph: Graph, term: Node, node: Node, spaces: dict[Hashable, tuple[tuple[int, ...], Rows]]
) -> Opened:
    """Return `term`, a product with the sum `node` as a factor, as one sum with the other factors moved inside.
    ``spaces`` caches the variables of each range, so that sums over equal ranges have equal variables and can be
    merged.
    """
    variables, rows, body = graph.open(node)
    places = {v: Affine.variable(-(1 + n)) for n, v in enumerate(variables)}
    key = node.free, len(variables), frozenset(row.substitute(places) for row in rows)
    if key in spaces:
        body = graph.substitute(body, dict(zip(variables, map(Affine.variable, spaces[key][0]), strict=True)))
    variables, rows = spaces.setdefault(key, (variables, rows))
    outer, core = graph.split_coefficient(term)
    around = [factor for factor in graph.factors(core) if factor is not node]
    number, inside = graph.split_coefficient(graph.mul([graph.const(outer), *around, body]))
    return Opened(key, node.free, variables, rows, number, graph.factors(inside))


def _as_single_sum(graph: Graph, one: Opened, two: Opened) -> Node | None:
    """Return `one` plus `two`, each a sum over one range, as a single sum with the common factors written once.

    None if the ranges differ, if no common factor depends on a summed index, or if the terms then depend on more
    indices than before.
    """
    if one.range != two.range:
        return None
    common = [factor for factor in one.factors if factor in two.factors]
    within = [factor for factor in common if not factor.free.isdisjoint(one.variables)]
    if not within:
        return None
    rests = [graph.scale(t.number, graph.mul([f for f in t.factors if f not in common])) for t in (one, two)]
    addition = graph.add(rests)
    if not any(addition.free <= rest.free for rest in rests) or not addition.free.issubset((*one.free, *one.variables)):
        return None
    outside = [factor for factor in common if factor.free.isdisjoint(one.variables)]
    return graph.mul([*outside, graph.sum(one.variables, one.rows, graph.mul([*within, addition]))])
