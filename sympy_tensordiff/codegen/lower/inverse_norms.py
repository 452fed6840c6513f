"""Products with powers of norms that neither overflow nor vanish: ``(x/n**3) * y`` instead of ``(x*y) / n**3``.

Second derivatives of a norm ``n = s**(1/2)`` have terms like ``x[i]*y[j]*s**(-3/2)``. The cube of a norm leaves the
range of numbers where neither the norm nor the term does, for norms below 1e-103 or above 1e102, in single precision
1e-13 and 1e12. So a vector of an outer product is multiplied by the power, entry by entry, and `separated_root` lets
loops multiply by ``s**(-1/2)`` and then by the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.lower.functions import has_root
from sympy_tensordiff.graph.contractions import sums_labels
from sympy_tensordiff.graph.einsums import entry
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine


def with_scaled_vectors(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots`, with the power in products like ``s**(-3/2)*outer(x, y)`` multiplied into the smallest operand of
    the outer product.
    """
    done: dict[Node, Node] = {}
    for part in reachable(*roots):
        node = graph.with_args(part, [done[arg] for arg in part.args])
        done[part] = _with_scaled_vector(graph, node) if node.op == "ein" else node
    return [done[root] for root in roots]


def _with_scaled_vector(graph: Graph, node: Node) -> Node:
    """Return the einsum `node`, an outer product times a power, with its smallest operand multiplied by the power;
    `node` itself if that is as large as the result.
    """
    power = next((arg for arg in node.args if not arg.shape and _inverse_power(arg) is not None), None)
    if power is None:
        return node
    operands = [(arg, labels) for arg, labels in zip(node.args, node.data.inputs, strict=True) if arg is not power]
    coefficient = node.data.coefficient
    if len(operands) == 1 and _is_outer(product := operands[0][0]):
        renamed = dict(zip(product.data.output, operands[0][1], strict=True))
        coefficient *= product.data.coefficient
        inner = zip(product.args, product.data.inputs, strict=True)
        operands = [(arg, tuple([renamed[label] for label in labels])) for arg, labels in inner]
    vector = min((one for one in operands if one[0].shape), key=lambda one: len(one[0].shape), default=None)
    if vector is None or len(vector[0].shape) >= max(len(node.shape), 2):
        return node
    operands[operands.index(vector)] = _scaled(graph, vector[0], power), vector[1]
    return graph.ein(coefficient, operands, node.data.output)


def _is_outer(node: Node) -> bool:
    """Return whether `node` is an outer product: no label occurs twice in its operands."""
    output = node.data.output if node.op == "ein" else ()
    return node.op == "ein" and len(node.args) > 1 and not sums_labels(node) and len(set(output)) == len(output)


def _scaled(graph: Graph, tensor: Node, power: Node) -> Node:
    """Return ``power*tensor`` as a comprehension; `power` may be a choice between a power and 0."""
    axes = [graph.fresh(f"i{n}") for n in range(len(tensor.shape))]
    value = entry(graph, tensor, [Affine.variable(v) for v in axes])
    inverse = _inverse_power(power)
    assert inverse is not None
    product = graph.mul((value, inverse))
    if power.op == "select":
        product = graph.with_args(power, (power.args[0], product, power.args[2]))
    return graph.comprehension(axes, tensor.shape, product)


def _inverse_power(node: Node) -> Node | None:
    """Return the power in `node`, which is one like ``s**(-3/2)`` or a choice between one and 0; None for any other
    node.
    """
    if node.op == "select" and node.args[2].op == "const" and node.args[2].data == 0:
        node = node.args[1]
    return node if is_inverse_root(node) else None


def is_inverse_root(node: Node) -> bool:
    """Return whether `node` is a power with a negative half-integer exponent, like ``s**(-3/2)``."""
    return node.op == "pow" and has_root(node.args[1]) and node.args[1].data < 0
