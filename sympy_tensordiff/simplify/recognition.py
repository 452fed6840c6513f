"""What one node is by another name: log-sum-exp, softmax, sigmoid, softplus, and symmetric products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import sympy

from sympy_tensordiff.graph.contractions import Operand, is_core, is_view
from sympy_tensordiff.graph.functions import sigmoid, softplus
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.simplify.passes import Uses, rewritten
from sympy_tensordiff.simplify.products import build, cancelled, inner_parts, may_cancel, product_of, summed_axes

Rule = Callable[[Graph, Node, Uses], Node | None]


def recognise(graph: Graph, roots: Sequence[Node], rules: Rules | None = None) -> list[Node]:
    """``roots`` with log-sum-exp, softmax, sigmoid and softplus by their names.

    What is differentiated is better recognised before: the derivatives are short, and finite where
    an exponential overflows.

    Parameters
    ----------
    graph : Graph
    roots : sequence of Node
    rules : mapping, optional
        The rules by kinds of nodes, if not all.
    """
    chosen = RULES if rules is None else rules

    def rewriting(graph: Graph, node: Node, uses: Uses) -> Node:
        while True:
            for rule in chosen.get(node.op, ()):
                found = rule(graph, node, uses)
                if found is not None and found is not node:
                    node = found
                    break
            else:
                return node

    return rewritten(graph, roots, rewriting)


# ---------------------------------------------------------------- functions


def _logsumexp(graph: Graph, node: Node, uses: Uses) -> Node | None:
    """log(sum(exp(u))) = lse(u)"""
    axes = summed_axes(node.args[0]) if node.data is sympy.log else None
    return None if axes is None else graph.logsumexp(axes, node.args[0].args[0].args[0])


def _softplus(graph: Graph, node: Node, uses: Uses) -> Node | None:
    """log(1 + exp(u)) = softplus(u)"""
    argument = one_plus_exp(graph, node.args[0]) if node.data is sympy.log else None
    return None if argument is None else graph.call(softplus, (argument,))


def one_plus_exp(graph: Graph, node: Node) -> Node | None:
    """The ``u`` of ``1 + exp(u)``."""
    if node.op != "add" or len(node.args) != 2 or graph.one not in node.args:
        return None
    other = node.args[1] if node.args[0] is graph.one else node.args[0]
    return other.args[0] if other.op == "call" and other.data is sympy.exp else None


def _sigmoid(graph: Graph, node: Node, uses: Uses) -> Node | None:
    """(1 + exp(u))**-n = sigmoid(-u)**n"""
    argument = one_plus_exp(graph, node.args[0])
    power = _integer(node.args[1])
    if argument is None or power >= 0:
        return None
    return graph.pow(graph.call(sigmoid, (graph.scale(-1, argument),)), graph.const(-power))


def _complement(graph: Graph, node: Node, uses: Uses) -> Node | None:
    """1 - sigmoid(u) = sigmoid(-u), where sigmoid(u) is not needed otherwise"""
    if len(node.args) != 2 or graph.one not in node.args:
        return None
    other = node.args[1] if node.args[0] is graph.one else node.args[0]
    factor, value = graph.split_view(other)
    if factor != -1 or value.op != "call" or value.data is not sigmoid or uses[value] > 1:
        return None
    return graph.call(sigmoid, (graph.scale(-1, value.args[0]),))


def _content(graph: Graph, node: Node, uses: Uses) -> Node | None:
    """-c x + c y = c (y - x), where a term loses the multiple that it is"""
    if not node.shape:
        return None
    split = [graph.split_view(term) for term in node.args]
    factor = max(factor for factor, _ in split)
    if isinstance(factor, float) or factor == 1 or any(abs(other) != factor for other, _ in split):
        return None
    if all(is_view(rest) or other < 0 for other, rest in split):
        return None
    return graph.scale(factor, graph.add([graph.scale(other / Fraction(factor), rest) for other, rest in split]))


def _outside(graph: Graph, node: Node, uses: Uses) -> Node | None:
    """f(c transposed u) = transposed f(c u); f(c repeated u) = repeated f(c u)"""
    view = node.args[0]
    if not is_view(view) or not view.args or any(arg.shape for arg in node.args[1:]):
        return None
    coefficient, (labels,), output, extents = view.data
    if labels == output or len(set(labels)) != len(labels) or len(set(output)) != len(output):
        return None
    inner = graph.rebuild(node, (graph.scale(coefficient, view.args[0]), *node.args[1:]))
    return graph.ein(1, [(inner, labels)], output, dict(enumerate(extents)))


def _power(graph: Graph, node: Node, uses: Uses) -> Node | None:
    """(x**a)**n = x**(a n),  exp(u)**-n = exp(-u)**n,  abs(x)**(2 n) = x**(2 n)"""
    base, power = node.args[0], _integer(node.args[1])
    if not power:
        return None
    if base.op == "pow" and base.args[1].op == "const":
        return graph.pow(base.args[0], graph.mul((base.args[1], node.args[1])))
    if base.op == "call" and base.data is sympy.exp and power < 0:
        return graph.pow(graph.call(sympy.exp, (graph.scale(-1, base.args[0]),)), graph.const(-power))
    if base.op == "call" and base.data is sympy.Abs and power % 2 == 0:
        return graph.pow(base.args[0], node.args[1])
    return None


def _integer(exponent: Node) -> int:
    """The value of a constant integer exponent; 0 for all others."""
    return exponent.data if exponent.op == "const" and isinstance(exponent.data, int) else 0


# ---------------------------------------------------------------- products


def _cancelled(graph: Graph, node: Node, uses: Uses) -> Node | None:
    """The rules of `products`, on the operands of a product"""
    if not may_cancel(node.args):
        return None
    found = cancelled(graph, product_of(graph, node))
    return None if found is None else build(graph, found)


def _unmoved(graph: Graph, node: Node, uses: Uses) -> Node | None:
    """transposed(X^T X) = X^T X, and sums of such"""
    if not is_view(node) or not node.args:
        return None
    coefficient, inputs, output, _ = node.data
    labels = inputs[0]
    if labels == output or len(labels) != 2 or labels != output[::-1] or not is_symmetric(graph, node.args[0]):
        return None
    return graph.scale(coefficient, node.args[0])


def _ordered(graph: Graph, node: Node, uses: Uses) -> Node | None:
    """One order of the two labels of a symmetric operand"""
    if not is_core(node):
        return None
    _, inputs, output, extents = node.data
    place = {label: n for n, label in enumerate(output)}
    parts: list[Operand] = []
    for arg, labels in zip(node.args, inputs, strict=True):
        if len(labels) == 2 and place.get(labels[0], len(place)) < place.get(labels[1], len(place)):
            labels = labels[::-1] if is_symmetric(graph, arg) else labels
        parts.append((arg, labels))
    return graph.ein(1, parts, output, dict(enumerate(extents)))


def is_symmetric(graph: Graph, node: Node) -> bool:
    """Whether a matrix is its own transpose because of how it is made: ``X^T X``, a diagonal, a sum of such."""
    if len(node.shape) != 2 or node.shape[0] != node.shape[1]:
        return False
    terms = node.args if node.op == "add" else (node,)
    flipped = [_flipped(graph, term) for term in terms]
    return None not in flipped and set(flipped) == set(terms)


def _flipped(graph: Graph, term: Node) -> Node | None:
    """The transpose of a product, from its operands; None for other matrices."""
    if term.op != "ein":
        return None if term.shape else term
    core = is_core(term)
    product = product_of(graph, term)
    parts = inner_parts(term, product.output) if core else product.parts
    return graph.ein(product.coefficient, parts, tuple(product.output)[::-1], product.extents)


Rules = Mapping[str, Sequence[Rule]]

RULES: Rules = {
    "call": (_logsumexp, _softplus, _outside),
    "pow": (_sigmoid, _power, _outside),
    "add": (_complement, _content),
    "mul": (_cancelled,),
    "ein": (_unmoved, _ordered, _cancelled),
}

SINGLE: tuple[Rules, ...] = tuple({op: (rule,)} for op, rules in RULES.items() for rule in rules)
"""The rules one by one."""
