"""Products with powers of norms that neither overflow nor vanish: ``(x/n**3) * y`` instead of ``(x*y) / n**3``.

Second derivatives of a norm ``n = s**(1/2)`` have terms like ``x[i]*y[j]*s**(-3/2)``. The cube of a norm leaves the
range of numbers where neither the norm nor the term does, for norms below 1e-103 or above 1e102, in single precision
1e-13 and 1e12. So the vectors of an outer product are divided by the norm, entry by entry, one of them by the remaining
power, and loops multiply by one factor ``1/n`` after the other, in turn with the other factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sympy.codegen.cfunctions import hypot

from sympy_tensordiff.codegen.lower.functions import has_root
from sympy_tensordiff.graph.contractions import sums_labels
from sympy_tensordiff.graph.einsums import entry
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine

_MAX_INVERSES = 8
"""The largest power of a norm that is divided by one norm after the other."""


def with_scaled_vectors(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with products like ``s**(-3/2)*outer(x, y)`` computed as outer products of scaled vectors, such as
    ``x*s**(-1/2)`` and ``y/s``. This takes fewer multiplications and does not overflow.
    """
    done: dict[Node, Node] = {}
    for part in reachable(*roots):
        node = graph.with_args(part, [done[arg] for arg in part.args])
        done[part] = _with_scaled_vector(graph, node) if node.op == "ein" else node
    return [done[root] for root in roots]


def _with_scaled_vector(graph: Graph, node: Node) -> Node:
    """Return the product of tensors `node` with a scalar factor such as ``s**(-3/2)``, a power of a norm, multiplied
    into operands that have fewer entries than the result, which saves multiplications. Return `node` itself if it has
    no such factor or operands.
    """
    power = next((arg for arg in node.args if not arg.shape and _inverse_power(arg) is not None), None)
    inverse = None if power is None else _inverse_power(power)
    if power is None or inverse is None:
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
    rest = inverse.args[1].data
    for n, one in enumerate(operands):
        if one is not vector and one[0].shape and len(one[0].shape) < len(node.shape) and rest < -1:
            operands[n] = _scaled(graph, one[0], power, Fraction(-1, 2)), one[1]
            rest += Fraction(1, 2)
    operands[operands.index(vector)] = _scaled(graph, vector[0], power, rest), vector[1]
    return graph.ein(coefficient, operands, node.data.output)


def _is_outer(node: Node) -> bool:
    """Return whether `node` is an outer product: no label occurs twice in its operands."""
    output = node.data.output if node.op == "ein" else ()
    return node.op == "ein" and len(node.args) > 1 and not sums_labels(node) and len(set(output)) == len(output)


def _scaled(graph: Graph, tensor: Node, power: Node, exponent: Any) -> Node:
    """Return `tensor` times a power of a norm, as a comprehension. The power is the node `power` (``s**(-3/2)``, or a
    select that is 0 for ``s == 0``) with its exponent replaced by `exponent`.
    """
    axes = [graph.fresh(f"i{n}") for n in range(len(tensor.shape))]
    value = entry(graph, tensor, [Affine.variable(v) for v in axes])
    inverse = _inverse_power(power)
    assert inverse is not None
    product = graph.mul((value, graph.pow(inverse.args[0], graph.const(exponent))))
    if power.op == "select":
        product = graph.with_args(power, (power.args[0], product, power.args[2]))
    return graph.comprehension(axes, tensor.shape, product)


def _inverse_power(node: Node) -> Node | None:
    """Return the node ``s**(-3/2)`` if `node` is such a power, or a select between it and 0, as ``s**(-3/2) if s != 0
    else 0``. None for other nodes.
    """
    if node.op == "select" and node.args[2].op == "const" and node.args[2].data == 0:
        node = node.args[1]
    return node if is_inverse_root(node) else None


def is_inverse_root(node: Node) -> bool:
    """Return whether `node` is a power with a negative half-integer exponent, like ``s**(-3/2)``."""
    return node.op == "pow" and has_root(node.args[1]) and node.args[1].data < 0


def inverse_norms(graph: Graph, factors: Sequence[Node]) -> list[Node]:
    """Return those `factors` of a product that are negative powers ``n**-k`` of a norm n. Return [] for a single
    factor, or if the only divisor is a norm ``n**-1``, since they then need no special treatment.

    The caller divides by one norm after the other, since ``n**k`` may overflow or underflow.
    """
    found = [factor for factor in factors if is_inverse_norm(graph, factor)]
    divisors = [f for f in factors if f.op == "pow" and f.args[1].op == "const" and f.args[1].data < 0]
    is_one = len(divisors) == 1 and bool(found) and found[0].args[1].data == -1
    return [] if is_one or len(factors) == 1 else found


def is_inverse_norm(graph: Graph, node: Node) -> bool:
    """Return whether `node` is ``n**-k`` with a Euclidean norm n and a small positive integer k. A norm is an entry of
    an array of norms, a call of `hypot`, or a select with a square root as its value.
    """
    if node.op != "pow" or node.args[1].op != "const" or node.args[1].data not in range(-_MAX_INVERSES, 0):
        return False
    base = node.args[0]
    if base.op == "read":
        return base.args[0] in graph.norms
    if base.op == "call":
        return base.data is hypot
    return base.op == "select" and base.args[1].op == "pow" and base.args[1].args[1].data == Fraction(1, 2)


def factors_of_root(graph: Graph, power: Node) -> tuple[Node, Node]:
    """Return two factors whose product is `power`, ``s**e``: the inverse root ``s**(-1/2)``, and ``s**(e + 1/2)``."""
    base, exponent = power.args
    half = Fraction(-1, 2)
    return graph.pow(base, graph.const(half)), graph.pow(base, graph.const(exponent.data - half))
