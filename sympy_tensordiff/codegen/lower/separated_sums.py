"""Sums split by memory order: terms that are contiguous along different loops become different sums.

``Sum_j (a_jp + a_pj)*w_j`` is ``Sum_j a_jp*w_j + Sum_j a_pj*w_j``: no order of the loops over j and p suits both reads.
The same holds for ``Sum_ij (2*g_pqij - g_pjiq)*d_ij`` and for the number ``Sum_ijkl (2*g_ijkl - g_ilkj)*d_ij*d_kl``,
in which the loop over l or that over j is the innermost one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import prod

from sympy_tensordiff.codegen.lower.loop_order import UNROLLED, is_short_range
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine

MAX_TERMS = 16
"""A product with more terms than these is not multiplied out: the terms are compared in pairs."""

Scaled = tuple[Number, list[Node]]
"""A term of a sum: its number and its other factors."""


def separated_sums(graph: Graph, roots: Sequence[Node], is_shared: Callable[[Node, Sequence[int]], bool]) -> list[Node]:
    """Return `roots` with sums split so that all reads of a sum are contiguous along the same index: ``Sum_j (A[i, j] +
    A[j, i])*x[j]`` becomes two sums, with different loop orders. A sum for which ``is_shared(sum, axes)`` is true,
    because other code uses it, too, is unchanged.
    """
    return [_with_separated_sums(graph, root, is_shared) for root in roots]


def _with_separated_sums(graph: Graph, root: Node, is_shared: Callable[[Node, Sequence[int]], bool]) -> Node:
    """Split the outermost sums of `root`, a comprehension or scalar, so that all reads of a sum are contiguous along
    the same index, and return the new expression. A sum is not split if ``is_shared(sum, axes)`` is true.
    """
    variables: tuple[int, ...] = ()
    body = root
    if root.op == "comprehension":
        variables, _, body = graph.inside(root, ())
        if not variables or _is_short(root.shape[-1]):
            return root
    outer = {body}
    parts = reachable(body)
    for part in reversed(parts):
        if part in outer and part.op not in BINDERS:
            outer.update(part.args)
    done: dict[Node, Node] = {}
    for part in parts:
        if part in outer:
            new = part if part.op in BINDERS else graph.with_args(part, [done.get(arg, arg) for arg in part.args])
            is_split = new.op == "sum" and not is_shared(new, variables)
            done[part] = _separated(graph, new, variables) if is_split else new
    if done[body] is body:
        return root
    return graph.over(root, variables, done[body]) if variables else done[body]


def _separated(graph: Graph, node: Node, axes: Sequence[int]) -> Node:
    """Split the sum `node` if its terms read memory contiguously along different indices: return the total of one sum
    for each of these indices, so that each can have its own innermost loop. Otherwise return `node`. `axes` are the
    indices of the entry that `node` computes.

    Each term must have one entry of a tensor that depends on all indices, so that reading it takes most of the time;
    the other entries depend on summed indices only. The sum is returned unchanged, too, where terms that would be in
    different sums may cancel.
    """
    variables, rows, body = graph.open(node)
    terms = _terms(graph, body)
    if len(terms) < 2 or any(is_short_range(rows, v) for v in variables):
        return node
    groups: dict[int, list[Scaled]] = {}
    tensors: dict[int, list[tuple[Node, Number]]] = {}
    for number, factors in terms:
        large = [factor for factor in factors if factor.free.issuperset((*axes, *variables))]
        others = [factor for factor in factors if factor not in large]
        if len(large) != 1 or not all(map(_is_read, factors)) or large[0].op != "read":
            return node
        if any(not factor.free.isdisjoint(axes) for factor in others):
            return node
        last = large[0].data[-1].atoms().intersection((*axes[-1:], *variables))
        if len(last) != 1:
            return node
        (v,) = last
        groups.setdefault(v, []).append((number, factors))
        tensors.setdefault(v, []).append((large[0].args[0], number))
    if len(groups) < 2 or any(_may_cancel(*pair) for pair in combinations(tensors.values(), 2)):
        return node
    return graph.add([graph.sum(variables, rows, _added(graph, group)) for group in groups.values()])


def _terms(graph: Graph, body: Node) -> list[Scaled]:
    """Return the terms of `body`, with products of additions multiplied out, each as ``(number, factors)``. Return []
    if there are more than `MAX_TERMS`.
    """
    found: list[Scaled] = []
    waiting: list[Scaled] = [(1, [body])]
    while waiting and len(found) + len(waiting) <= MAX_TERMS:
        number, nodes = waiting.pop()
        split = [graph.split_coefficient(node) for node in nodes]
        number *= prod(own for own, _ in split)
        factors = [factor for _, core in split for factor in graph.factors(core)]
        addition = next((factor for factor in factors if factor.op == "add"), None)
        if addition is None:
            found.append((number, factors))
            continue
        rest = [factor for factor in factors if factor is not addition]
        waiting += [(number, [*rest, term]) for term in reversed(addition.args)]
    return found if not waiting else []


def _added(graph: Graph, terms: Sequence[Scaled]) -> Node:
    """Return the sum of `terms`, with their common factors in front of it."""
    first = terms[0][1]
    common = [factor for factor in first if all(factor in factors for _, factors in terms)]
    rests = [graph.scale(number, graph.mul([f for f in factors if f not in common])) for number, factors in terms]
    return graph.mul([*common, graph.add(rests)])


def _may_cancel(one: Sequence[tuple[Node, Number]], two: Sequence[tuple[Node, Number]]) -> bool:
    """Return whether a term of the group `one` may cancel a term of the group `two`, as in ``a[i, j] - a[j, i]`` for a
    symmetric matrix; they must then stay in a single sum. A term is a pair ``(tensor, coefficient)``.

    Entries of one tensor with numbers of different size do not cancel where the entries are equal.
    """
    return any(
        (a > 0) != (b > 0) and (tensor is not other or abs(a) == abs(b)) for tensor, a in one for other, b in two
    )


def _is_read(factor: Node) -> bool:
    """Return whether a factor is a number or an entry of a tensor."""
    return factor.op in ("const", "scalar") or (factor.op == "read" and factor.args[0].op == "tensor")


def _is_short(extent: Affine) -> bool:
    """Return whether `extent` is a constant so small that a loop over the axis will be unrolled."""
    return bool(extent.is_constant and extent.constant <= UNROLLED)
