"""Products of whole tensors as lists of labelled operands, and the rules by which operands cancel.

And one walk over a graph, arguments first, that rewrites every node (`rewritten`), and what the result weighs (`size`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import NamedTuple, TypeAlias

import sympy

from sympy_tensordiff.graph.contractions import is_core, is_transpose, is_view
from sympy_tensordiff.graph.einsum_normal_form import Label, Labels, Operand
from sympy_tensordiff.graph.interning import Number, breadth_first
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.integer.affine import Affine


class ContractionParts(NamedTuple):
    """A product as in an einsum: ``coefficient`` times the sum of the product of ``parts`` (pairs of a tensor and its
    labels) over all labels that are not in ``output``; ``extents`` has the extent of each label.
    """

    coefficient: Number
    parts: list[Operand]
    output: Labels
    extents: dict[Label, Affine]


def product_of(graph: Graph, node: Node) -> ContractionParts:
    """Return `node` as a product of labelled operands, a `ContractionParts`. If `node` is not a product, it is the only
    operand.
    """
    parts: list[Operand]
    if node.op == "mul":
        factor, rest = graph.split_coefficient(node)
        if is_core(rest):
            return product_of(graph, rest)._replace(coefficient=factor)
        parts = [(arg, ()) for arg in (rest.args if rest.op == "mul" else (rest,))]
        sums = [part for part in parts if is_core(part[0])]
        if len(sums) == 1:  # an einsum without axes times scalars
            parts = [part for part in parts if part not in sums] + inner_parts(sums[0][0], ())
        return ContractionParts(factor, parts, (), {})
    if node.op != "ein":
        labels = tuple(range(len(node.shape)))
        return ContractionParts(1, [(node, labels)], labels, dict(enumerate(node.shape)))
    coefficient, inputs, output, extents = node.data
    sizes: dict[Label, Affine] = dict(enumerate(extents))
    parts = list(zip(node.args, inputs, strict=True))
    if is_view(node) and node.args and is_core(node.args[0]):
        parts = inner_parts(node.args[0], inputs[0])
    elif is_view(node) and node.args and node.args[0].op == "mul":
        parts = [(arg, ()) for arg in node.args[0].args]
    return ContractionParts(coefficient, parts, output, sizes)


def inner_parts(core: Node, labels: Labels) -> list[Operand]:
    """Return the operands of the einsum `core` with new labels, such that its result axes are `labels`; summed labels
    are renamed to unique ones.
    """
    outer = dict(zip(core.data.output, labels, strict=True))
    return [
        (arg, tuple(outer.get(label, (core.id, label)) for label in own))
        for arg, own in zip(core.args, core.data.inputs, strict=True)
    ]


def build(graph: Graph, product: ContractionParts) -> Node:
    """Return `product` as a node: a `mul` if it has scalar operands only, else an einsum."""
    coefficient, parts, output, extents = product
    if not output and not any(labels for _, labels in parts):
        return graph.mul((graph.const(coefficient), *(node for node, _ in parts)))
    return graph.ein(coefficient, parts, output, extents)


# ---------------------------------------------------------------- what cancels


def cancelled(graph: Graph, product: ContractionParts) -> ContractionParts | None:
    """Return `product` after all rules of this module, such as ``inv(A) A`` to ``1``; None if none applies."""
    found = None
    while True:
        for rule in RULES:
            parts = rule(graph, found or product)
            if parts is not None:
                found = product._replace(parts=parts)
                break
        else:
            return found


def _inverse(graph: Graph, product: ContractionParts) -> list[Operand] | None:
    """Return the operands of `product` with ``sum_b inv(A)[a, b] A[b, c]`` replaced by the unit matrix; None if no
    inverse is multiplied by its matrix.
    """
    parts = product.parts
    for n, (node, labels) in enumerate(parts):
        if node.op != "inv" or len(labels) != 2:
            continue
        for m, (other, others) in enumerate(parts):
            if other is not node.args[0]:
                continue
            for inner, outer in ((1, 0), (0, 1)):
                if labels[inner] == others[outer] and _occurrences(product, labels[inner]) == 2:
                    unit = graph.delta((node.shape[0],))
                    return [*_without(parts, n, m), (unit, (labels[outer], others[inner]))]
    return None


def without_factor_of_inverse(graph: Graph, product: ContractionParts, uses: Uses) -> ContractionParts | None:
    """Return `product` with ``inv(F R) F`` or ``F inv(R F)`` replaced by ``inv(R)``, for square matrices. None if it
    has no such operands, or if the inverse has further uses; `uses` counts them.
    """
    parts = product.parts
    inverses = [(n, node.args[0], own) for n, (node, own) in enumerate(parts) if node.op == "inv" and len(own) == 2]
    inverses = [inverse for inverse in inverses if uses[parts[inverse[0]][0]] <= 1]
    for n, matrix, (row, column) in inverses:
        for m, (other, own) in enumerate(parts):
            # inv(F R)[a, b] F[b, c] is inv(R)[a, c].
            for end, joined in ((0, column), (1, row)):
                if m == n or len(set(own)) != 2 or joined not in own or _occurrences(product, joined) != 2:
                    continue
                axis = own.index(joined)
                rest = _other_factor(graph, matrix, other, axis, end)
                if rest is not None:
                    outer = own[1 - axis]
                    labels = (row, outer) if end == 0 else (outer, column)
                    return product._replace(parts=[*_without(parts, n, m), (graph.inverse(rest), labels)])
    return None


def _other_factor(graph: Graph, matrix: Node, factor: Node, axis: int, end: int) -> Node | None:
    """Return ``R`` if `matrix` is the product ``F R`` (`end` 0) or ``R F`` (`end` 1). ``F`` is the square matrix
    `factor`, or its transpose if `axis` differs from `end`. None if `matrix` is not such a product.
    """
    if not is_core(matrix) or factor.shape[0] != factor.shape[1]:
        return None
    operands, output = [*zip(matrix.args, matrix.data.inputs, strict=True)], list(matrix.data.output)
    for place, (arg, own) in enumerate(operands):
        if arg is not factor or len(set(own)) != 2 or own[axis] != output[end]:
            continue
        rest, inner = operands[:place] + operands[place + 1 :], own[1 - axis]
        labels = [label for _, other in rest for label in other]
        if labels.count(inner) == 1 and output[end] not in labels and inner not in output:
            return graph.ein(1, rest, [inner if label == output[end] else label for label in output])
    return None


def _softmax(graph: Graph, product: ContractionParts) -> list[Operand] | None:
    """Return the operands of `product` with ``exp(u)/sum(exp(u))`` replaced by ``exp(u - logsumexp(u))``, which cannot
    overflow; None without such operands.
    """
    parts = product.parts
    for n, (_, base, power) in _powers(graph, parts):
        axes = summed_axes(base) if power < 0 else None
        if axes is None:
            continue
        for m, (_, other, count) in _powers(graph, parts):
            labels, rest = parts[m][1], parts[n][1]
            own = _axes_in(graph, base.args[0], axes, rest, other, labels) if count > 0 else None
            if own is not None:
                times = min(count, -power)
                softmax = softmax_of(graph, other.args[0], own)
                new = [
                    (_power(graph, softmax, times), labels),
                    (_power(graph, other, count - times), labels),
                    (_power(graph, base, power + times), rest),
                ]
                return [*_without(parts, n, m), *((node, own) for node, own in new if node is not graph.one)]
    return None


def _axes_in(
    graph: Graph, exponential: Node, axes: tuple[int, ...], rest: Labels, other: Node, labels: Labels
) -> tuple[int, ...] | None:
    """Find out whether `other` is the same exponential as `exponential`, up to the order of axes, which is summed over
    `axes`: then `other` divided by the sum is a softmax. Return the summed axes of `other`, or None. `labels` are those
    of `other`, `rest` those of the sum.

    Both may have their axes in different orders, ``A + V`` and ``A.T + V[:, None]``.
    """
    summed = [label for label in labels if label not in rest]
    if other.op != "call" or other.data is not sympy.exp or len(set(labels)) != len(labels):
        return None
    if len(summed) != len(axes) or len(labels) != len(exponential.shape) or not set(rest) <= set(labels):
        return None
    remaining, over = [axis for axis in range(len(labels)) if axis not in axes], tuple(axes)
    for order in permutations(summed) if len(summed) <= _MOST_ORDERED else ():
        under = dict(zip((*remaining, *over), (*rest, *order), strict=True))
        if _in_order(graph, exponential, [under[axis] for axis in range(len(labels))], labels) is other:
            return tuple(axis for axis, label in enumerate(labels) if label in summed)
    return None


_MOST_ORDERED = 3
"""Of more summed axes not all orders are tried."""


def _in_order(graph: Graph, node: Node, labels: Labels, output: Labels) -> Node:
    """Return `node`, whose axes have `labels`, with its axes in the order `output`; element-wise functions are applied
    after the transposition.
    """
    if tuple(labels) == tuple(output):
        return node
    done: dict[Node, Node] = {}
    for part in sorted(breadth_first(node, _entrywise_args), key=lambda part: part.id):
        args = [done[arg] for arg in _entrywise_args(part)]
        if args:
            done[part] = graph.rebuild(part, args)
        else:
            done[part] = graph.ein(1, [(part, labels)], output) if part.shape else part
    return done[node]


def _entrywise_args(node: Node) -> Sequence[Node]:
    """Return the arguments of an element-wise tensor; () for other nodes."""
    return node.args if node.shape and node.op in ("add", "pow", "call") else ()


def summed_axes(node: Node) -> tuple[int, ...] | None:
    """Return the axes summed in `node` if it is a sum of an exponential, ``sum(exp(u), axes)``; None for all other
    nodes.
    """
    if not is_core(node) or len(node.args) > 1 or node.args[0].op != "call" or node.args[0].data is not sympy.exp:
        return None
    (labels,), output = node.data.inputs, node.data.output
    return None if len(set(labels)) < len(labels) else tuple(n for n, label in enumerate(labels) if label not in output)


def softmax_of(graph: Graph, tensor: Node, axes: tuple[int, ...]) -> Node:
    """Return the softmax ``exp(tensor - L)`` of a tensor, where L is its log-sum-exp over `axes`."""
    labels = range(len(tensor.shape))
    rest = [axis for axis in labels if axis not in axes]
    shift = graph.ein(-1, [(graph.logsumexp(axes, tensor), rest)], labels, dict(enumerate(tensor.shape)))
    return graph.call(sympy.exp, (graph.add((tensor, shift)),))


def _normalised(graph: Graph, product: ContractionParts) -> list[Operand] | None:
    """Return the operands of `product` with ``sum(softmax(u))`` replaced by ones; None without such an operand."""
    for n, (node, labels) in enumerate(product.parts):
        axes = normalised_axes(graph, node)
        if axes and len(set(labels)) == len(labels) and all(_occurrences(product, labels[axis]) == 1 for axis in axes):
            remaining = [axis for axis in range(len(labels)) if axis not in axes]
            ones = graph.filled(1, [node.shape[axis] for axis in remaining])
            return [*_without(product.parts, n), (ones, tuple(labels[axis] for axis in remaining))]
    return None


def normalised_axes(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """Return the axes over which the softmax `node` sums to 1; None if it is not a softmax."""
    if node.op != "call" or node.data is not sympy.exp or node.args[0].op not in ("add", "ein"):
        return None
    for term in _shifts(graph, node.args[0]):
        if term.op == "lse" and softmax_of(graph, term.args[0], term.data) is node:
            axes: tuple[int, ...] = term.data
            return axes
    return None


def _shifts(graph: Graph, exponent: Node) -> list[Node]:
    """Return the terms ``[u, v]`` of the sum `exponent`, ``a*u + b*v``, without their numeric factors, such as those of
    ``u - logsumexp(u)`` in a softmax. Return [] unless `exponent` is a sum of two terms.

    Transpositions of the terms and repetitions along new axes are removed, too.
    """
    while exponent.op == "ein" and exponent.args and is_view(exponent):
        exponent = exponent.args[0]
    terms = [graph.split_view(term)[1] for term in exponent.args] if len(exponent.args) == 2 else []
    return [term.args[0] if term.args and is_view(term) else term for term in terms]


def _exponentials(graph: Graph, product: ContractionParts) -> list[Operand] | None:
    """Return the operands of `product` with a pair of factors ``exp(u)`` and ``exp(-u)`` replaced by ones; None if
    there is no such pair.
    """
    parts = product.parts
    exponents = {
        (node.args[0], tuple(labels)): n
        for n, (node, labels) in enumerate(parts)
        if node.op == "call" and node.data is sympy.exp
    }
    for (exponent, labels), n in exponents.items():
        m = exponents.get((graph.scale(-1, exponent), labels))
        if m is not None:
            return [*_without(parts, n, m), (graph.filled(1, parts[n][0].shape), labels)]
    return None


def _signs(graph: Graph, product: ContractionParts) -> list[Operand] | None:
    """Return the operands of `product` with ``sign(x) abs(x)**n`` replaced by ``x**n`` for odd n, and ``x sign(x)`` by
    ``abs(x)``; None without such operands.
    """
    parts = product.parts
    for n, (node, labels) in enumerate(parts):
        if node.op != "call" or node.data is not sympy.sign:
            continue
        argument = node.args[0]
        size = graph.call(sympy.Abs, (argument,))
        for m, (other, others) in enumerate(parts):
            if tuple(others) != tuple(labels):
                continue
            if other is argument:
                return [*_without(parts, n, m), (size, labels)]
            exponent = other.args[1] if other.op == "pow" else graph.one
            odd = exponent.op == "const" and isinstance(exponent.data, int) and exponent.data % 2 == 1
            if odd and _base(other) is size:
                return [*_without(parts, n, m), (graph.pow(argument, exponent), labels)]
    return None


def _powers_of_products(graph: Graph, product: ContractionParts) -> list[Operand] | None:
    """Return the operands of `product` with ``x*(x*y)**n`` written as ``x*x**n*y**n``, so that the powers of ``x`` can
    be joined; None unless a factor of the base is an operand too.
    """
    parts = product.parts
    bases = {(_base(node), tuple(labels)) for node, labels in parts}
    for n, (node, base, power) in _powers(graph, parts):
        if node is base or not is_core(base) or len(base.data.output) < len(base.data.extents):
            continue
        inner = inner_parts(base, parts[n][1])
        if not bases.isdisjoint((_base(own), tuple(labels)) for own, labels in inner):
            return [*_without(parts, n), *((_power(graph, own, power), labels) for own, labels in inner)]
    return None


def _powers_of_multiples(graph: Graph, product: ContractionParts) -> list[Operand] | None:
    """Return the operands of `product` with ``(c*x)**n`` written as ``c**n*x**n`` for a number c and an integer n, so
    that ``c**n`` joins the coefficient; None without such operands.
    """
    parts = product.parts
    for n, (node, base, power) in _powers(graph, parts):
        number, rest = graph.split_view(base)
        if node is not base and number != 1:
            factor = graph.pow(graph.const(number), graph.const(power))
            return [*_without(parts, n), (factor, ()), (_power(graph, rest, power), parts[n][1])]
    return None


def _joined_powers(graph: Graph, product: ContractionParts) -> list[Operand] | None:
    """Return the operands of `product` with ``x**u * (x**v)**n`` written as ``x**(u + n*v)`` for an integer n; None
    without such operands. A power of a power by itself stays as it is.
    """
    parts = product.parts
    for n, (node, base, power) in _powers(graph, parts):
        if node is base or base.op != "pow" or base.args[1].op == "const" or base.args[0].shape != node.shape:
            continue
        for m, (other, labels) in enumerate(parts):
            own, exponent = other.args if other.op == "pow" else (other, graph.one)
            if m == n or own is not base.args[0] or tuple(labels) != tuple(parts[n][1]):
                continue
            total = graph.add((exponent, graph.scale(power, base.args[1])))
            return [*_without(parts, n, m), (graph.pow(own, total), labels)]
    return None


RULES: tuple[Callable[[Graph, ContractionParts], list[Operand] | None], ...] = (
    _inverse, _softmax, _exponentials, _normalised, _signs, _powers_of_products, _powers_of_multiples, _joined_powers,
)  # fmt: skip


def may_cancel(parts: Sequence[Node]) -> bool:
    """Return whether a rule for products, such as that for ``inv(A) @ A``, may apply to the operands `parts`. This is a
    quick test: if it is False, no rule applies; if it is True, one may.
    """
    for part in parts:
        base = _base(part)
        if base.op == "inv" or (base.op == "call" and base.data in (sympy.exp, sympy.sign)):
            return True
        if part is not base and (is_core(base) or base.op == "pow" or base.view):
            return True
    return False


def _base(node: Node) -> Node:
    """Return the base of a power; another node itself."""
    return node.args[0] if node.op == "pow" else node


def _powers(graph: Graph, parts: Sequence[Operand]) -> list[tuple[int, tuple[Node, Node, int]]]:
    """Return ``(position, (node, base, exponent))`` for each operand in ``parts`` that is ``base**exponent`` with an
    integer exponent; one that is not a power has the exponent 1.
    """
    found = []
    for n, (node, _) in enumerate(parts):
        base, exponent = node.args if node.op == "pow" else (node, graph.one)
        if exponent.op == "const" and isinstance(exponent.data, int) and base.shape == node.shape:
            found.append((n, (node, base, exponent.data)))
    return found


def _power(graph: Graph, base: Node, exponent: int) -> Node:
    """Return ``base**exponent``, 1 for the exponent 0."""
    return graph.pow(base, graph.const(exponent)) if exponent else graph.one


def _occurrences(product: ContractionParts, label: Label) -> int:
    """Return the number of occurrences of `label` in the operands of `product`. For a label of the result, return a
    large number, so that no rule takes it for a summed label.
    """
    if label in product.output:
        return len(product.parts) + 3
    return sum(list(labels).count(label) for _, labels in product.parts)


def _without(parts: Sequence[Operand], *places: int) -> list[Operand]:
    """Return `parts` without the operands at the positions `places`."""
    return [part for n, part in enumerate(parts) if n not in places]


Uses: TypeAlias = Counter[Node]


def rewritten(
    graph: Graph, roots: Sequence[Node], nodes: Sequence[Node], rewriting: Callable[[Node], Node], uses: Uses
) -> list[Node]:
    """Return `roots` after applying `rewriting` to all nodes with operations on whole tensors, arguments first. `nodes`
    are all nodes below the roots; `uses`, the numbers of uses of the nodes, is updated in place.

    Nodes between the binders of index notation are left unchanged: nodes in which a bound variable is free.

    A new node takes over the number of uses of the node that it replaces.
    """
    changed: dict[Node, Node] = {}
    for node in nodes:
        new = node
        if changed and not changed.keys().isdisjoint(node.args):
            new = graph.with_args(node, [changed.get(arg, arg) for arg in node.args])
        if new.has_tensor_ops and (not new.free or all(variable >= 0 for variable in new.free)):
            new = rewriting(new)
        if new is not node:
            uses[new] = uses.get(new, 0) + uses.get(node, 0)
            changed[node] = new
    return [changed.get(root, root) for root in roots]


def counted(nodes: Sequence[Node], roots: Sequence[Node]) -> Counter[Node]:
    """Return how often each node is used: as an argument of one of `nodes`, or as one of `roots`. A use of a transposed
    or scaled tensor counts as a use of the tensor itself.
    """
    uses: Counter[Node] = Counter(map(operand_of_view, roots))
    for node in nodes:
        if not node.view:
            for arg in node.args:
                shown = arg.args[0] if arg.view and arg.args else arg
                uses[shown] = uses.get(shown, 0) + 1
    return uses


def operand_of_view(node: Node) -> Node:
    """Return the operand of a view, ``A`` for ``2*A.T``; another node itself."""
    return node.args[0] if node.args and is_view(node) else node


def size(nodes: Sequence[Node]) -> int:
    """Return the total weight of `nodes`, which estimates the length of their text."""
    return sum(map(weight, nodes))


def weight(node: Node) -> int:
    """Return the weight of `node`, its part in an estimate of the text length of expressions: larger for products of
    several operands, 0 for numbers and transposes.

    A product of K operands counts as K - 1 products of two. Numbers weigh nothing: ``x**2`` is as heavy as ``x x``.
    Nor do transposes: whether a node or its transpose is below one depends on the order in which axes were read.
    """
    if node.op == "const" or is_transpose(node):
        return 0
    count = sum(arg.op != "const" for arg in node.args) if node.op == "mul" else len(node.args)
    return 3 * (count - 1) if count > 1 and node.op in ("ein", "mul") else 1 + count
