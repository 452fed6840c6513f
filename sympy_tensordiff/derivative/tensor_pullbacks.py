"""The pullback rules of whole tensors.

The cotangent of a node has first the axes of the differentiated expression (none for a scalar), then those of the node:
``C[P, …]``. Element-wise nodes have the rules of scalars (`derivative.pullbacks`), taken for all entries at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import sympy

from sympy_tensordiff.derivative.product_trees import leave_one_out, product_tree
from sympy_tensordiff.derivative.pullbacks import pull, pull_through_choices
from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.einsum_normal_form import Label, Labels, Operand
from sympy_tensordiff.graph.einsums import scalar_of, tensor_of
from sympy_tensordiff.graph.nodes import Graph, Node, ranges
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.node_properties import count_true_terms, is_conditional

Contribution = tuple[Node, Node]
"""An operand and a contribution to its cotangent."""

Active = Callable[[Node], bool]

DIRECT = 3
"""Products of more operands are differentiated along the tree of their cheapest contraction."""


def pull_tensor(
    graph: Graph, node: Node, cotangent: Node, prefix: int, is_active: Active, *, certain: bool
) -> Iterator[Contribution]:
    """Yield ``(operand, contribution)`` for each operand of `node` that depends on a variable: the part of its
    cotangent that comes from `node`, whose cotangent is `cotangent`. The first `prefix` axes of cotangents are those of
    the differentiated value.

    ``is_active(operand)`` tells whether an operand depends on a variable. With `certain`, `node` is finite wherever the
    differentiated value is, and needs no guards.
    """
    if node.op == "ein":
        return _contraction(graph, node, cotangent, prefix, is_active, certain)
    if node.op in ("inv", "cof", "lse"):
        return iter([(node.args[0], {"inv": _inverse, "cof": _cofactor, "lse": _logsumexp}[node.op](
            graph, node, cotangent, prefix
        ))])  # fmt: skip
    return _elementwise(graph, node, cotangent, prefix, is_active, certain)


def axes_of(prefix: int) -> tuple[Label, ...]:
    """Return `prefix` new labels, for the leading axes that a cotangent has in addition to those of its node."""
    return tuple(("P", n) for n in range(prefix))


# ---------------------------------------------------------------- einsum


def _contraction(
    graph: Graph, node: Node, cotangent: Node, prefix: int, is_active: Active, certain: bool
) -> Iterator[Contribution]:
    """Yield ``(operand, its cotangent)`` for each operand of the einsum `node` that depends on a variable
    (``is_active``): the einsum of `cotangent` with the other operands, ``ik,jk->ij`` for the first operand of
    ``ij,jk->ik``. The first `prefix` axes of `cotangent` stay in front; with `certain`, the operands are known to be
    finite.
    """
    coefficient, inputs, output, extents = node.data
    outer = axes_of(prefix)
    given = (cotangent, (*outer, *output))
    if is_view(node):
        if node.args and is_active(node.args[0]):
            labels = (*outer, *inputs[0])
            yield node.args[0], graph.ein(coefficient, [given], labels, dict(enumerate(extents)))
        return
    operands = list(zip(node.args, inputs, strict=True))
    yield from _leave_one_out(graph, given, operands, outer, dict(enumerate(extents)), is_active, certain)


def _leave_one_out(
    graph: Graph,
    known: Operand,
    operands: Sequence[Operand],
    outer: tuple[Label, ...],
    extents: dict[Label, Affine],
    is_active: Active,
    certain: bool,
) -> Iterator[Contribution]:
    """Yield ``(operand, cotangent)`` for each of the ``operands`` of a product that depends on a variable: its
    cotangent is `known`, the cotangent of the product, times all other operands.

    ``is_active`` says whether an operand depends on a variable. `outer` are the labels of the leading axes of
    cotangents, ``extents`` maps labels to extents. With `certain`, all operands are known to be finite.

    Partial products are shared, so that the work is linear in the number of operands.
    """
    if not any(is_active(node) for node, _ in operands):
        return
    if len(operands) <= DIRECT:
        for n, (node, labels) in enumerate(operands):
            if is_active(node):
                others = [*operands[:n], *operands[n + 1 :]]
                yield node, contraction(graph, known, others, (*outer, *labels), extents, certain=certain)
        return
    tree = product_tree(
        graph, operands, [label for label in known[1] if label not in outer], lambda n: is_active(operands[n][0])
    )

    def contract(given: Operand, others: Sequence[Operand], output: Labels) -> Node:
        """Return the einsum of the cotangent `given` and the labelled operands `others`, with the result labels
        `output`. The labels have the extents that they have in the differentiated product.
        """
        return contraction(graph, given, others, output, extents, certain=certain)

    for leaf, part in leave_one_out(tree, known, outer, contract):
        yield leaf.node, part


# ---------------------------------------------------------------- matrices


def _inverse(graph: Graph, node: Node, cotangent: Node, prefix: int) -> Node:
    """Return the cotangent of X for the `cotangent` of ``inv(X)``, by D inv(X)[i,j] / d X[a,b] = -inv(X)[i,a]
    inv(X)[b,j]. Both cotangents have the same first `prefix` axes, those of the value that is differentiated.
    """
    batch = tuple(range(len(node.shape) - 2))
    outer = (*axes_of(prefix), *batch)
    factors: list[Operand] = [
        (cotangent, (*outer, "i", "j")),
        (node, (*batch, "i", "a")),
        (node, (*batch, "b", "j")),
    ]
    return graph.ein(-1, factors, (*outer, "a", "b"))


def _cofactor(graph: Graph, node: Node, cotangent: Node, prefix: int) -> Node:
    """Return the cotangent of a matrix X, given the `cotangent` of its cofactors ``cof(k, X)``, the result of `node`:
    contracted with their derivative, ``cof(k + 1, X)``.

    The first `prefix` axes of both cotangents are those of the differentiated value.
    """
    outer = axes_of(prefix)
    own = tuple(range(len(node.shape)))
    batch = own[: len(own) - 2 * node.data]
    derivative = graph.cofactor(node.data + 1, node.args[0])
    return graph.ein(1, [(cotangent, (*outer, *own)), (derivative, (*own, "a", "b"))], (*outer, *batch, "a", "b"))


def softmax(graph: Graph, node: Node) -> Node:
    """Return ``exp(X - lse(X))``, the derivative of the log-sum-exp `node` of X."""
    tensor = node.args[0]
    labels = range(len(tensor.shape))
    rest = [axis for axis in labels if axis not in node.data]
    shift = graph.ein(-1, [(node, rest)], labels, dict(enumerate(tensor.shape)))
    return graph.call(sympy.exp, (graph.add((tensor, shift)),))


def _logsumexp(graph: Graph, node: Node, cotangent: Node, prefix: int) -> Node:
    """Return the cotangent of X for the `cotangent` of its log-sum-exp, by D lse(X) / d X = exp(X - lse(X)). Both
    cotangents have the same first `prefix` axes, those of the value that is differentiated.
    """
    outer = axes_of(prefix)
    labels = range(len(node.args[0].shape))
    rest = [axis for axis in labels if axis not in node.data]
    return graph.ein(1, [(cotangent, (*outer, *rest)), (softmax(graph, node), labels)], (*outer, *labels))


# ---------------------------------------------------------------- element-wise


def _elementwise(
    graph: Graph, node: Node, cotangent: Node, prefix: int, is_active: Active, certain: bool
) -> Iterator[Contribution]:
    """Yield ``(argument, its cotangent)`` for each argument of the element-wise `node` that depends on a variable
    (``is_active``): `cotangent` times the derivative of `node`, summed over the entries if the argument is a scalar.
    The first `prefix` axes of `cotangent` stay in front; with `certain`, the derivatives are known to be finite.
    """
    own = tuple(range(len(node.shape)))
    axes = (*axes_of(prefix), *own)
    for position, arg in enumerate(node.args):
        if not is_active(arg):
            continue
        labels = axes if arg.shape else axes[:prefix]
        if prefix:
            slope = graph.broadcast(pull(graph, node, graph.one, position), node.shape)
            extents = dict(zip(axes, cotangent.shape, strict=True))
            yield arg, contraction(graph, (cotangent, axes), [(slope, own)], labels, extents, certain=certain)
            continue

        def rule(part: Node, position: int = position) -> Node:
            """Return the cotangent of the argument number `position` of ``node``, if ``part`` is the cotangent of
            ``node``, or one branch or term of it.
            """
            return pull(graph, node, part, position)

        pulled = graph.broadcast(
            pull_through_choices(graph, cotangent, rule, certain=certain or node.total), node.shape
        )
        yield arg, pulled if arg.shape else graph.ein(1, [(pulled, own)], ())


def contraction(
    graph: Graph,
    cotangent: Operand,
    factors: Sequence[Operand],
    output: Labels,
    extents: dict[Label, Affine],
    *,
    certain: bool = False,
) -> Node:
    """Return the einsum of `cotangent` and `factors` with the labels `output`, for a pullback. It is exactly 0 where
    the cotangent is 0, even if a factor is infinite there; with `certain`, all factors are finite. ``extents`` maps
    labels to extents.

    `cotangent` and `factors` are pairs of node and labels; `extents` has the extents of the labels in `output`.
    `certain` says whether the function evaluates the node unconditionally: then the factors are finite.
    """
    if certain or all(factor.total for factor, _ in factors) or not is_conditional(graph, cotangent[0]):
        return graph.ein(1, [cotangent, *factors], output, extents)
    chosen = _move_into_select(graph, cotangent, factors)
    if chosen is not None:
        return graph.ein(1, chosen, output, extents)
    operands = [cotangent, *factors]
    sizes = {label: size for part, labels in operands for label, size in zip(labels, part.shape, strict=True)}
    variables = {label: graph.fresh(f"i{n}") for n, label in enumerate(sizes)}
    number, *values = (
        graph.read(part, [Affine.variable(variables[label]) for label in labels])
        for part, labels in ((count_true_terms(graph, cotangent[0]), cotangent[1]), *operands)
    )
    product = graph.select(graph.compare("lt", graph.zero, number), graph.mul(values), graph.zero)
    axes, summed = [label for label in sizes if label in output], [label for label in sizes if label not in output]
    if summed:
        over = [variables[label] for label in summed]
        product = graph.sum(over, ranges(over, [sizes[label] for label in summed]), product)
    shape = tuple(sizes[label] for label in axes)
    found = (
        tensor_of(graph, [variables[label] for label in axes], shape, product) if axes else scalar_of(graph, product)
    )
    return graph.ein(1, [(found, axes)], output, extents)


def _move_into_select(graph: Graph, cotangent: Operand, factors: Sequence[Operand]) -> list[Operand] | None:
    """Move `factors` into the nonzero branch of a select in `cotangent`, so that ``0*nan`` does not arise where the
    other branch is chosen. Return the new operands; None if no select has all axes that the factors need.
    """
    node, labels = cotangent
    parts = [cotangent]
    if node.op == "ein" and len(set(node.data.output)) == len(labels):
        names: dict[int, Label] = dict(zip(node.data.output, labels, strict=True))
        parts = [(graph.const(node.data.coefficient), ())]
        for arg, inner in zip(node.args, node.data.inputs, strict=True):
            parts.append((arg, tuple(names.setdefault(label, (node.id, label)) for label in inner)))
    moved = [factor for factor in factors if not factor[0].total]
    needed = {label for _, own in moved for label in own}
    chosen = [part for part in parts if is_conditional(graph, part[0])]
    for choice, own in chosen:
        others = [part for part in chosen if part[0] is not choice]
        inside = needed.union(*(labels for _, labels in others)).issubset(own) and len(set(own)) == len(own)
        if choice.op == "select" and any(map(graph.is_zero, choice.args[1:])) and inside:
            rest = [part for part in (*parts, *factors) if part not in (*chosen, *moved)]
            return [(_with_factors(graph, (choice, own), others, moved), own), *rest]
    return None


def _with_factors(graph: Graph, chosen: Operand, others: Sequence[Operand], moved: Sequence[Operand]) -> Node:
    """Return the select `chosen`, with 0 in one branch, times the selects `others` and the factors `moved`: its nonzero
    branch is multiplied by them, and the branch 0 stays 0.
    """
    choice, own = chosen
    sizes = dict(zip(own, choice.shape, strict=True))
    sides = []
    for side in choice.args[1:]:
        if not graph.is_zero(side):
            part = graph.ein(1, [(graph.broadcast(side, choice.shape), own), *others], own, sizes)
            side = contraction(graph, (part, own), moved, own, sizes)
        sides.append(side)
    return graph.select(choice.args[0], *sides)
