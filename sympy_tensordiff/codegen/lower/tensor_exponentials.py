"""Products and sums of whole tensors of exponentials as multiples of their greatest terms: `exponentials` for einsums.

Each tensor below a logarithm, or in a product with the inverse of such a sum, is written as ``exp(shift)*rest``,
entry by entry, before it is known which tensors become arrays::

    exp(u)                      shift u, rest 1
    a + b                       the greater shift, each term times exp(own shift - it)
    ein(exp(u)[i, k], b[k])     shift M[i] = max_k u[i, k], rest ein(exp(u - M)[i, k], b[k])

So ``log(A @ exp(x))`` is ``M + log(A @ exp(x - M))`` with ``M = max(x)``, and ``mean(y*exp(x))/mean(exp(x))`` is
``mean(y*exp(x - M))/mean(exp(x - M))``. Factors that depend on the same indices, or on some of them, are one
exponential. Sums of exponentials of two tensors over common indices, as ``exp(A) @ exp(B)``, subtract the greatest
exponents of each.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy

from sympy_tensordiff.codegen.lower.exponentials import Exponentials, Scaled, finite
from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.einsums import entry
from sympy_tensordiff.graph.interning import Recursion, breadth_first, in_turn, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, ranges, reachable
from sympy_tensordiff.integer.affine import Affine

Labels = tuple[int, ...]


def without_large_tensors(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with whole-tensor formulas like ``log(sum(exp(X), axis=1))`` rewritten so that no exponential
    overflows: the greatest exponents are subtracted before.
    """
    remaining: set[Node] = set()
    while any(_is_exponential(part) and part not in remaining for part in reachable(*roots)):
        work = _TensorExponentials(graph, remaining)
        new = [trampoline(work.final(root)) for root in roots]
        # Where some value needs an exponential as it is, another array would serve the others, and nothing be won.
        needed = work.scaled_exponentials.intersection(arg for part in reachable(*new) for arg in part.args)
        if not needed:
            return new
        remaining |= needed
    return list(roots)


class _TensorExponentials(Exponentials):
    """Rewrites whole-tensor formulas so that no exponential in them overflows (see `without_large_tensors`). Results
    are cached by node.

    The exponentials in `remaining` stay as they are.
    """

    def __init__(self, graph: Graph, remaining: Collection[Node]) -> None:
        super().__init__(graph)
        self.remaining = remaining
        self.scaled_exponentials: set[Node] = set()

    def _final(self, node: Node) -> Recursion[Node]:
        """Return `node` rewritten so that exponentials in logarithms, and in quotients of sums, do not overflow. If no
        rule applies to `node`, its arguments are rewritten.
        """
        graph = self.graph
        if node.op in BINDERS or not node.has_tensor_ops:
            return node
        if node.op == "call" and node.data is sympy.log:
            found: Scaled = yield self.scaled(node.args[0])
            if found.summed:
                parts = (graph.broadcast(part, node.shape) for part in (self.sum_of(found.shift), found.rest))
                return self.logarithm(*parts)
        if node.op == "compare" and graph.is_zero(node.args[1]):
            found = yield self.scaled(node.args[0])
            if found.shift:
                return graph.with_args(node, (graph.broadcast(found.rest, node.args[0].shape), node.args[1]))
        if node.op in ("mul", "ein"):
            found = yield self._rule(node)
            if found.is_quotient:
                return self._times(found.rest, self._power(found.shift), node)
        args = yield from in_turn(map(self.final, node.args))
        return graph.with_args(node, args)

    def _power(self, shift: Mapping[Node, Any]) -> Node:
        """Return ``exp(sum)``, where ``sum`` adds up ``factor*node`` over the items ``node: factor`` of the dictionary
        ``shift``; 1 if the sum is 0.
        """
        exponent = self.sum_of(shift)
        return self.graph.call(sympy.exp, (exponent,)) if shift and exponent is not self.graph.zero else self.graph.one

    def _times(self, one: Node, other: Node, like: Node) -> Node:
        """Return the entrywise product of `one` and `other`, each a number or a tensor with the shape of the node
        `like`.
        """
        labels = tuple(range(len(like.shape)))
        operands = [(factor, labels if factor.shape else ()) for factor in (one, other)]
        return self.graph.ein(1, operands, labels, dict(enumerate(like.shape)))

    def _rule(self, node: Node) -> Recursion[Scaled]:
        """Return `node` as ``exp(shift)*rest``, against overflow, by the rule for its kind of operation. If there is no
        rule, there is no shift, and ``rest`` is `node`.
        """
        if _is_exponential(node) and node not in self.remaining:
            self.scaled_exponentials.add(node)
            exponent = yield self.final(node.args[0])
            return Scaled({exponent: 1}, self.graph.one, self.degree(node.args[0]), above=True)
        if node.op == "pow" and node.args[1].op == "const":
            found: Scaled = yield self._root(node)
        elif node.op == "mul":
            found = yield self._product(node)
        elif node.op == "ein":
            found = yield self._contraction(node)
        elif node.op == "add":
            found = yield self._addition(node)
        elif node.op == "select" and self.graph.is_zero(node.args[2]):
            found = yield self._choice(node)
        else:
            found = Scaled({}, node)
        return found

    def _choice(self, node: Node) -> Recursion[Scaled]:
        """Rewrite the select `node`, ``value if c else 0``, as ``exp(shift)*(rest if c else 0)``, where ``value =
        exp(shift)*rest``. If the value has no exponential factor, return `node` unchanged, without a shift.
        """
        found: Scaled = yield self.scaled(node.args[1])
        if not found.shift:
            return Scaled({}, node)
        condition = yield self.final(node.args[0])
        shape = node.shape if condition.shape or found.rest.shape else ()
        branches = [self.graph.broadcast(branch, shape) for branch in (found.rest, self.graph.zero)]
        return replace(found, rest=self.graph.select(condition, *branches))

    def _addition(self, node: Node) -> Recursion[Scaled]:
        """Return the addition `node` as ``exp(shift)*rest``, against overflow, where the shift is the greatest one of
        its terms.

        The shift is empty if no term has one, or if a term is subtracted and no term with a shift is a sum of
        exponentials over axes.

        Other additions are left to `exponentials`: differences are rewritten before, so that they keep their digits.
        """
        terms = yield from in_turn(map(self.scaled, node.args))
        is_difference = any(self.graph.split_view(arg)[0] < 0 for arg in node.args)
        if not any(term.shift and (term.summed or not is_difference) for term in terms):
            return Scaled({}, node)
        shifts = [self.graph.broadcast(self.sum_of(term.shift), node.shape) for term in terms]
        greatest, scales = self.scales(shifts)
        parts = [self._times(scale, term.rest, node) for scale, term in zip(scales, terms, strict=True)]
        return self.joined(terms, greatest, parts)

    def _contraction(self, node: Node) -> Recursion[Scaled]:
        """Return the einsum `node` of exponentials as ``exp(shift)*rest``, against overflow: the greatest exponent over
        each summed index is moved into the shift.
        """
        graph, (coefficient, inputs, output, extents) = self.graph, node.data
        terms = yield from in_turn(map(self.scaled, node.args))
        sizes: dict[Hashable, Affine] = dict(enumerate(extents))
        has_diagonals = len(set(output)) < len(output) or any(len(set(labels)) < len(labels) for labels in inputs)
        if has_diagonals or not any(term.shift for term in terms):
            return Scaled({}, node)
        if any(_is_iterated(*own, output) for own in zip(node.args, terms, inputs, strict=True)):
            return Scaled({}, node)
        parts: dict[tuple[Node, Labels], Any] = {}
        for term, labels in zip(terms, inputs, strict=True):
            for part, c in term.shift.items():
                core, own = _core(part, labels)
                parts[core, own] = parts.get((core, own), 0) + c
        groups: dict[frozenset[int], list[tuple[Node, Labels, Any]]] = {}
        for (part, labels), c in sorted(parts.items(), key=lambda item: -len(item[0][1])):
            if c:
                around = next((known for known in groups if known.issuperset(labels)), frozenset(labels))
                groups.setdefault(around, []).append((part, labels, c))
        shift: dict[Node, Any] = {}
        operands = [(term.rest, labels if term.rest.shape else ()) for term, labels in zip(terms, inputs, strict=True)]
        for around, members in groups.items():
            if around.issubset(output):
                for part, labels, c in members:
                    spread = graph.ein(1, [(part, labels)], output, sizes)
                    shift[spread] = shift.get(spread, 0) + c
                continue
            axes = tuple(sorted(around))
            exponent = graph.add([graph.ein(c, [(part, labels)], axes, sizes) for part, labels, c in members])
            remaining = tuple([label for label in axes if label in output])
            greatest = self._largest(exponent, axes, remaining)
            less = graph.ein(-1, [(greatest, remaining)], axes, sizes)
            operands.append((graph.call(sympy.exp, (graph.add((exponent, less)),)), axes))
            spread = graph.ein(1, [(greatest, remaining)], output, sizes)
            shift[spread] = shift.get(spread, 0) + 1
        summed = any(term.summed for term in terms) or not all(around.issubset(output) for around in groups)
        rest = graph.ein(coefficient, operands, output, sizes)
        degree = sum(term.degree for term in terms)
        above, below = (any(getattr(term, side) for term in terms) for side in ("above", "below"))
        return Scaled({part: c for part, c in shift.items() if c}, rest, degree, above, below, summed)

    def _largest(self, tensor: Node, axes: Labels, remaining: Labels) -> Node:
        """Return the maxima of `tensor` over the axes whose labels are not in `remaining`, with 0 in place of an
        infinite maximum; ``axes`` are the labels of all axes.
        """
        graph = self.graph
        variables = {axis: graph.fresh(f"k{axis}") for axis in axes}
        body = entry(graph, tensor, [Affine.variable(variables[axis]) for axis in axes])
        extents = dict(zip(axes, tensor.shape, strict=True))
        inner = [axis for axis in axes if axis not in remaining]
        rows = ranges([variables[axis] for axis in inner], [extents[axis] for axis in inner])
        value = finite(graph, graph.reduce("max", [variables[axis] for axis in inner], rows, body))
        if not remaining:
            return value
        return graph.comprehension(
            [variables[axis] for axis in remaining], [extents[axis] for axis in remaining], value
        )


def _core(part: Node, labels: Labels) -> tuple[Node, Labels]:
    """Return ``(tensor, labels)`` for `part` with the given `labels`. If `part` is a transpose or repetition of another
    tensor, return that tensor with the labels of its own axes.
    """
    if not is_view(part) or not part.args or part.data.coefficient != 1 or len(set(part.data.output)) < len(labels):
        return part, labels
    renamed = dict(zip(part.data.output, labels, strict=True))
    return part.args[0], tuple([renamed[label] for label in part.data.inputs[0]])


def _is_iterated(operand: Node, value: Scaled, labels: Labels, output: Labels) -> bool:
    """Return whether no maximum is to be subtracted from the exponents of `operand`, as in Sinkhorn's iteration: along
    summed indices, it is divided by exponentials already, or has some in ``rest``. Its `value` is ``exp(shift)*rest``;
    `labels` and `output` are its labels and those of the contraction's result.
    """
    if value.shift:
        return value.below and any(not set(_core(part, labels)[1]) <= set(output) for part in value.shift)
    return not set(labels) <= set(output) and _has_exponentials(operand)


def _has_exponentials(tensor: Node) -> bool:
    """Return whether the entries of `tensor` contain exponentials of tensors. Exponentials of scalars do not count."""
    return any(map(_is_exponential, breadth_first(tensor, lambda part: part.args if part.shape else ())))


def _is_exponential(node: Node) -> bool:
    """Return whether `node` is the exponential of a whole tensor. A softmax, which cannot overflow, does not count."""
    return bool(node.shape) and node.op == "call" and node.data is sympy.exp and not _has_log_sum(node.args[0])


def _has_log_sum(exponent: Node) -> bool:
    """Return whether `exponent` subtracts a log-sum-exp, as the exponent of a softmax does: its exponential cannot
    overflow.
    """
    # No node is made here: operands of products are ordered by the time at which they are made.
    terms = exponent.args if exponent.op == "add" else ()
    return any(arg.op == "lse" for term in terms if term.op in ("ein", "mul") for arg in term.args)
