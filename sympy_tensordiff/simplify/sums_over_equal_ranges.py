"""Merging of sums over equal ranges with common factors: ``Sum r*a + Sum r*b`` is ``Sum r*(a + b)``.

Only if a factor of one of them is computed, so that something is computed or written once instead of several times:
for sums of products of entries, separate loops are as short, and each reads its tensors in its best order. A tensor and
its transpose are one factor nevertheless, ``W[i, p] + W[p, i]``, which kernels separate again. And only where all
depend on the same indices, so that nothing is repeated for more of them than before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.rows import renaming_map
from sympy_tensordiff.simplify.canonical_signs import content_of
from sympy_tensordiff.simplify.common_factors import (
    MAX_TERMS,
    PowerProduct,
    Powers,
    grouped,
    joined_groups,
    node_of,
    product_of,
    with_common,
    with_sums_joined,
)
from sympy_tensordiff.simplify.recognition import with_factors_cancelled, with_terms_joined, without_circles

ENTRIES = frozenset({"read", "scalar", "index"})
"""Factors that take no computation."""

LEVELS = 4
"""The number of times that the remaining summands of merged sums are merged in turn."""


class Summed(NamedTuple):
    """A term ``number * prod(outside) * node`` of an addition, where `node` is a sum over a range."""

    number: Number
    outside: frozenset[Node]
    node: Node


def merged_sums(
    graph: Graph, nodes: Sequence[Node], sizes: frozenset[int] = frozenset(), *, selected: bool = False
) -> list[Node]:
    """Return `nodes` with sums over the same range that share factors merged: ``Sum a*f + Sum a*g`` becomes
    ``Sum a*(f + g)``. `sizes` are variables that are not indices. With `selected`, guards such as ``[p == a[t]]`` count
    as factors.

    Additions of whole tensors are unchanged.

    The variables in `sizes` are never bound: sums may differ in factors that contain no others. With `selected`,
    equations with tensor entries are factors, ``Sum_t f[t]*([p == a[t]] - [p == b[t]])``, and ``f[t]`` is read outside
    of them.
    """
    done: dict[Node, Node] = {}
    for part in reachable(*nodes):
        new = part if part.has_tensor_ops else graph.with_args(part, [done[arg] for arg in part.args])
        if new.op == "add" and not new.has_tensor_ops:
            new = with_sums_joined(graph, new)
            new = with_terms_joined(graph, new) if new.op == "add" else new
            new = without_circles(graph, new) if new.op == "add" else new
        if new.op == "add" and not new.has_tensor_ops and len(new.args) <= MAX_TERMS and not new.is_guard_free:
            new = _shortened(graph, _merged(graph, new, LEVELS, sizes, selected))
        elif new.op in ("sum", "guard", "comprehension", "mul"):
            new = with_factors_cancelled(graph, new) or new
            new = graph.with_args(new, [_common_outside(graph, arg) for arg in new.args])
            new = _constants_outside(graph, new, sizes) if "add" in graph.kinds else new
        elif new.op == "select":
            new = graph.with_args(new, [new.args[0], *(_common_outside(graph, side) for side in new.args[1:])])
        done[part] = new
    return [node if node.has_tensor_ops else _common_outside(graph, done[node]) for node in nodes]


def _common_outside(graph: Graph, body: Node) -> Node:
    """Return `body` with common factors of its terms taken out. In each factor, sums are taken term by term if terms
    then cancel.
    """
    new = grouped(graph, body)
    return body if new is body else graph.mul([_shortened(graph, factor) for factor in graph.factors(new)])


def _constants_outside(graph: Graph, total: Node, sizes: frozenset[int]) -> Node:
    """Return the sum `total` with factors that depend on no index in front of it: ``Sum e*f[i]`` becomes ``e*Sum
    f[i]``. Reads at fixed indices stay inside. Variables in `sizes` are not indices.

    The sum may be empty, and tensors too small for an entry at a number then: such an entry stays.
    """
    if total.op != "sum":
        return total
    tests, body = graph.split_index_choice(total.args[0])
    factors = graph.factors(body)
    outside = [factor for factor in factors if factor.is_guard_free and factor.total and factor.free <= sizes]
    outside = [factor for factor in outside if not any(part.op == "read" and part.data for part in reachable(factor))]
    if not outside or len(outside) == len(factors):
        return total
    rest = graph.mul([factor for factor in factors if factor not in outside])
    return graph.mul([*outside, graph.rebind(total, graph.tested(tests, rest))])


def _merged(graph: Graph, addition: Node, levels: int, sizes: frozenset[int], selected: bool) -> Node:
    """Merge sums over equal ranges in `addition` that are multiplied by the same factors:
    ``c*Sum_i a[i] + c*Sum_j b[j]`` becomes ``c*Sum_i (a[i] + b[i])``. Return the new addition. `sizes` are variables
    that are not indices. With `selected`, guards such as ``[p == a[t]]`` count as factors.

    Nested additions are merged, too, `levels` deep.
    """
    groups: dict[object, list[Summed]] = {}
    rest: list[Node] = []
    for term in _terms(graph, addition):
        found = _summed(graph, term)
        if found is None:
            rest.append(term)
        else:
            node = found.node
            count = len(graph.hints[node.id])
            key = (found.outside, node.free - sizes, count, _lowered(node, count))
            groups.setdefault(key, []).append(found)
    if all(len(group) == 1 for group in groups.values()):
        return addition
    for group in groups.values():
        outside = [*group[0].outside]
        rest += [graph.mul([*outside, part]) for part in _merge_group(graph, group, levels, sizes, selected)]
    return graph.add(rest)


def _shortened(graph: Graph, addition: Node) -> Node:
    """Return `addition` with a sum ``Sum w*(f + 1)`` in it split into ``Sum w*f + Sum w``, if terms then cancel so that
    fewer remain; else unchanged.

    ``Sum w*(f + 1)/Sum w - 1`` is ``Sum w*f/Sum w``.
    """
    for term in addition.args if addition.op == "add" else ():
        found = _summed(graph, term)
        split = _by_terms(graph, found) if found else None
        if split:
            new = graph.add([*(other for other in addition.args if other is not term), *split])
            if new.op != "add" or len(new.args) < len(addition.args):
                return _shortened(graph, new)
    return addition


def _by_terms(graph: Graph, term: Summed) -> list[Node] | None:
    """Return ``c*Sum w*(f + 1)`` as the terms ``c*Sum w*f`` and ``c*Sum w``; None for sums without such an addition."""
    number, factors = graph.split_coefficient(term.node.args[0])
    additions = [factor for factor in graph.factors(factors) if factor.op == "add" and factor.args[-1].op == "const"]
    if len(additions) != 1 or len(additions[0].args) > MAX_TERMS:
        return None
    rest = [factor for factor in graph.factors(factors) if factor is not additions[0]]
    sums = []
    for part in additions[0].args:
        own, core = graph.split_coefficient(part)
        total = graph.rebind(term.node, graph.mul([*rest, core]))
        sums.append(graph.mul([graph.const(term.number * number * own), *term.outside, total]))
    return sums


def _terms(graph: Graph, addition: Node) -> list[Node]:
    """Return the terms of `addition`, with ``c*(a + b)`` in it replaced by ``c*a`` and ``c*b`` if it contains sums."""
    found = []
    for term in addition.args:
        number, core = graph.split_coefficient(term)
        has_sums = core.op == "add" and any(_summed(graph, inner) for inner in core.args)
        found += [graph.scale(number, inner) for inner in core.args] if has_sums else [term]
    return found


def _summed(graph: Graph, term: Node) -> Summed | None:
    """Return `term` as a number times factors times one sum; None unless exactly one of its factors is a sum."""
    number, term = graph.split_coefficient(term)
    factors = graph.factors(term)
    sums = [factor for factor in factors if factor.op == "sum"]
    if len(sums) != 1:
        return None
    return Summed(number, frozenset(factor for factor in factors if factor is not sums[0]), sums[0])


def _lowered(node: Node, count: int) -> tuple[Constraint, ...]:
    """Return the constraints of the sum `node` with its `count` bound variables renumbered to -1, -2, ..., so that sums
    over equal ranges have equal constraints.
    """
    base = node.height - count
    own = {-(base + 1 + n): Affine.variable(-(n + 1)) for n in range(count)}
    # Bound variables of outer binders are different from these.
    around = {v: Affine.variable(v - count) for v in node.free if v < 0}
    return tuple(sorted(row.substitute({**own, **around}) for row in node.data))


def _merge_group(
    graph: Graph, group: Sequence[Summed], levels: int, sizes: frozenset[int], selected: bool
) -> list[Node]:
    """Merge those sums in `group`, all over the same range, that have common factors:
    ``Sum_i a[i]*b[i] + Sum_i a[i]*c[i]`` becomes ``Sum_i a[i]*(b[i] + c[i])``. Return the list of the new sums. `sizes`
    are variables that are not indices. With `selected`, guards such as ``[p == a[t]]`` count as factors.

    Inner additions are merged, too, `levels` deep.
    """
    variables, rows, _ = graph.open(group[0].node)
    bodies = []
    for number, _, node in group:
        own, _, body = graph.open(node)
        tests, body = graph.split_index_choice(graph.substitute(body, renaming_map(own, variables)))
        bodies.append(_Body(number, tests, body))
    alike = _branches(graph, bodies, selected)

    def merged(inner: Node) -> Node:
        """Return `inner`, the body of a merged sum, with common factors taken out.

        If it is an addition, sums over equal ranges in it are merged first, down to a limited depth.
        """
        is_addition = inner.op == "add" and levels
        return grouped(graph, _merged(graph, inner, levels - 1, sizes, selected) if is_addition else inner)

    def factored(terms: Sequence[PowerProduct], common: Powers) -> PowerProduct | None:
        """Return the sum of `terms`, which all have the factors `common`, as ``common*(sum of the rests)``. Return None
        if all factors are plain entries, scalars or indices.

        Such terms are merged only if they differ only in the order of indices, as ``X[i, j]`` and ``X[j, i]``.
        """
        if all(base.op in ENTRIES for term in terms for base in term.powers) and not _are_twins(terms):
            return None
        content = content_of([term.number for term in terms]) if selected else 1  # none is found of what is guarded
        scaled = [term._replace(number=term.number * Fraction(1, content)) for term in terms]
        found = with_common(graph, scaled, common, merged)
        return found._replace(number=found.number * content)

    parts = []
    choices: dict[tuple[Node | None, Node], dict[int, tuple[Number, Node]]] = {}
    for (tests, condition, branch), terms in alike.items():
        found = [
            (term.number, node_of(graph, term._replace(number=1))) for term in joined_groups(graph, terms, factored)
        ]
        # One test, ``j != p`` or ``x[j] > 0``, is written and evaluated once.
        if (tests is not None or condition is not None) and len(found) > 1:
            found = [(1, merged(graph.add([graph.scale(*term) for term in found])))]
        if condition is not None:
            (choices.setdefault((tests, condition), {})[branch],) = found
            continue
        for number, body in found:
            parts.append(graph.scale(number, graph.sum(variables, rows, graph.tested(tests, body))))
    for (tests, condition), branches in choices.items():
        number, body = _select(graph, condition, branches)
        parts.append(graph.scale(number, graph.sum(variables, rows, graph.tested(tests, body))))
    return parts


class _Body(NamedTuple):
    """The summand ``number * node`` of a sum where the conditions ``tests`` on indices hold; it is 0 elsewhere."""

    number: Number
    tests: Node | None
    node: Node


Branch: TypeAlias = tuple[Node | None, Node | None, int]
"""``(tests, condition, branch)``: tests of indices and, if several summands choose by one condition on values, this
condition and the branch: 0 where it is true, 1 where it is false.
"""


def _branches(graph: Graph, bodies: Sequence[_Body], selected: bool) -> dict[Branch, list[PowerProduct]]:
    """Group the summands `bodies` by the conditions under which they are added: return a dictionary from the conditions
    to the summands, as products of powers. With `selected`, guards such as ``[p == a[t]]`` count as factors.

    A summand ``a if c else b`` is split in two if another one has the same ``c``.
    """
    choices = [(body, *graph.split_coefficient(body.node)) for body in bodies]
    counts = Counter((body.tests, choice.args[0]) for body, _, choice in choices if choice.op == "select")
    alike: dict[Branch, list[PowerProduct]] = {}
    for body, number, choice in choices:
        is_split = choice.op == "select" and counts[body.tests, choice.args[0]] > 1
        condition, *values = choice.args if is_split else (None, choice)
        for branch, value in enumerate(values):
            if value is not graph.zero:
                term = _with_equations(graph, value) if selected else product_of(graph, value)
                term = term._replace(number=body.number * number * term.number)
                alike.setdefault((body.tests, condition, branch), []).append(term)
    return alike


def _select(graph: Graph, condition: Node, branches: Mapping[int, tuple[Number, Node]]) -> tuple[Number, Node]:
    """Return ``(number, select)``, whose product is a choice by `condition`. `branches` maps the number of a branch, 0
    or 1, to a pair ``(c, x)`` for the value ``c*x`` of this branch. A missing branch is 0.

    ``number`` is the coefficient of both branches if they have the same one up to its sign; else it is 1.
    """
    numbers = [number for number, _ in branches.values()]
    common = numbers[0] if abs(numbers[0]) == abs(numbers[-1]) else 1
    sides = [graph.zero, graph.zero]
    for branch, (number, body) in branches.items():
        sides[branch] = graph.scale(number if common == 1 else 1 if number == common else -1, body)
    return common, graph.select(condition, *sides)


def _with_equations(graph: Graph, body: Node) -> PowerProduct:
    """Return `body` as a product of powers. The guard of an equation such as ``p[t] == i`` counts as a factor (the
    guard of 1).
    """
    if body.op != "guard" or not all(row.kind == "eq" and data_entries([row.form]) for row in body.data):
        return product_of(graph, body)
    inner = product_of(graph, body.args[0])
    return inner._replace(powers={graph.guard(body.data, graph.one): 1, **inner.powers})


def _are_twins(terms: Sequence[PowerProduct]) -> bool:
    """Return whether `terms` differ only in the order of the indices of one tensor, as ``a*X[i, j]`` and ``a*X[j,
    i]``.
    """
    items = [term.powers.items() for term in terms]
    own = [[base for base, e in item if any((base, e) not in other for other in items)] for item in items]
    reads = [factors[0] for factors in own if len(factors) == 1 and factors[0].op == "read"]
    if len(reads) < len(terms) or any(read.args[0] is not reads[0].args[0] for read in reads):
        return False
    return all(Counter(read.data) == Counter(reads[0].data) for read in reads)
