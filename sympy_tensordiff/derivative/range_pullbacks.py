"""The pullback rules of extrema and products over ranges.

Tied values share the derivative of an extremum over a range equally: with ``M = max_k b(k)``, the derivative with
respect to ``b(k)`` is ``[b(k) == M] / Sum_k [b(k) == M]``. Conditions on values have no derivative, so the weights are
constants for the next order, and nothing new has to be differentiated.

The cotangent of each factor is the product of all others, computed without a division: ``D prod_k b(k) / d b(k)`` is
``prod_{l<k} b(l) * prod_{l>k} b(l)``, which is exact where factors are 0. A product over several indices is a product
of products: the innermost factor is multiplied by the rest of its product, that by the rest of the product around it,
and so on. All of these are products over ranges again, with bounds that depend on ``k``, so that a derivative of a
derivative needs nothing else. A logarithm divides by the product: ``D log(prod_k b(k)) / d b(k)`` is ``1/b(k)``, which
neither overflows nor costs a product.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.rows import Rows, partition, renaming_map, substitute_all
from sympy_tensordiff.simplify.node_properties import cases_of

EXTREMA = frozenset({"max", "min"})


def share_among_ties(graph: Graph, node: Node, body: Node, cotangent: Node) -> Node:
    """Return the cotangent of `body`, one of the values whose maximum or minimum is `node`: the `cotangent` of `node`
    divided by the number of values equal to the extremum; 0 if `body` is not equal to it.

    Values that are equal to the extremum have equal shares, others 0.
    """
    if cotangent is graph.zero:
        return cotangent
    variables, rows, other = graph.open(node)
    count = graph.sum(variables, rows, _where_equal(graph, other, node, graph.one))
    return _where_equal(graph, body, node, graph.mul((cotangent, graph.pow(count, graph.const(-1)))))


def _where_equal(graph: Graph, value: Node, node: Node, result: Node) -> Node:
    """Return an expression that is `result` where `value` equals `node` and 0 elsewhere. The derivative of a maximum
    `node` uses it, since only the values that equal the maximum contribute.

    If `value` is given by cases, the value of each case is compared under the conditions of the case.

    Where the indices are known, so is which of them it is: a kernel compares the entry in an array of such values.
    """
    terms = []
    for rows, case in cases_of(graph, value):
        equal = graph.compare("eq", case, node)
        terms.append(graph.guard(rows, graph.select(equal, result, graph.zero)))
    return graph.add(terms)


def product_pullback(graph: Graph, node: Node, cotangent: Node) -> tuple[tuple[int, ...], Rows, Node, Node]:
    """Pull the `cotangent` of `node`, a product over a range, back to its factor. Return ``(indices, ranges, factor,
    cotangent of the factor)``, with which the reverse sweep goes on.
    """
    terms = cotangent.args if cotangent.op == "add" else (cotangent,)
    if all(_is_divided(graph, node, term) for term in terms):
        variables, rows, body = graph.open(node)
        slope = graph.mul((node, graph.pow(body, graph.const(-1))))
        return variables, rows, body, graph.add([graph.mul((term, slope)) for term in terms])
    variables, rows, body, others = opened_product(graph, node)
    return variables, rows, body, graph.mul((cotangent, others))


def _is_divided(graph: Graph, node: Node, term: Node) -> bool:
    """Return whether `term` is divided by `node`, or by a higher power of it."""
    factors = graph.factors(term.args[0] if term.op == "guard" else term)
    powers = [factor.args[1] for factor in factors if factor.op == "pow" and factor.args[0] is node]
    return any(power.op == "const" and power.data <= -1 for power in powers)


def opened_product(graph: Graph, node: Node) -> tuple[tuple[int, ...], Rows, Node, Node]:
    """Return ``(indices, ranges, factor, others)`` for `node`, a product over a range: its bound indices, the
    constraints on them, the factor at these indices, and the product of all other factors.
    """
    variables, rows, body = graph.open(node)
    parts = []
    for level in range(len(variables)):
        for sign in (-1, 1):
            parts.append(_one_side(graph, variables, rows, body, level, sign))
    return variables, rows, body, graph.mul(parts)


def _one_side(graph: Graph, variables: Sequence[int], rows: Rows, body: Node, level: int, sign: int) -> Node:
    """Return the product of the factors ``body(j)`` over all index tuples j in the range ``rows`` that agree with the
    tuple `variables` in the first `level` indices, and have a smaller (`sign` -1) or greater (1) next index.
    """
    free = variables[level:]
    new = [graph.fresh(graph.names[v]) for v in free]
    new_names = renaming_map(free, new)
    own = substitute_all(partition(rows, free)[1], new_names)
    beyond = Constraint("ge", sign * Affine({new[0]: 1, free[0]: -1}) - 1)
    return graph.reduce("prod", new, [*own, beyond], graph.substitute(body, new_names))
