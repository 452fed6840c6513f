"""Results as kernels fill them: one sign for equal differences, and terms of a diagonal for themselves.

Derivatives are written for readers, with common factors outside of an addition and with signs that read well. In a
kernel ``c*(delta*S + A)`` would ask the condition for each entry; ``c*delta*S + c*A`` adds to a diagonal. Residuals
that differ in their signs are one array.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.products_of_sums import MOST_TERMS
from sympy_tensordiff.simplify.signs import with_signs


def in_terms(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """The ``nodes`` with one sign for differences, and sums with terms of a diagonal multiplied out.

    Parameters
    ----------
    graph : Graph
    nodes : sequence of Node
    """
    nodes = with_signs(graph, nodes, numbers=False)
    return [node if node.whole else _entries_in_terms(graph, node) for node in nodes]


def _entries_in_terms(graph: Graph, node: Node) -> Node:
    if node.op != "comprehension":
        return _in_terms(graph, node)
    variables, _, body = graph.inside(node, ())
    new = _in_terms(graph, body)
    return node if new is body else graph.comprehension(variables, node.data, new)


def _in_terms(graph: Graph, root: Node) -> Node:
    """An entry with the additions in it that have terms of a diagonal multiplied out."""
    outer = {root}
    nodes = reachable(root)
    for node in reversed(nodes):
        if node in outer and node.op in ("add", "mul", "guard"):
            outer.update(node.args)
    done: dict[Node, Node] = {}
    for node in nodes:
        if node in outer:
            new = graph.with_args(node, [done.get(arg, arg) for arg in node.args])
            done[node] = _multiplied_out(graph, new) if new.op == "mul" else new
    return done[root]


def _multiplied_out(graph: Graph, product: Node) -> Node:
    factors = graph.factors(product)
    additions = [factor for factor in factors if factor.op == "add" and any(map(_is_diagonal, factor.args))]
    if len(additions) != 1 or len(additions[0].args) > MOST_TERMS:
        return product
    others = [factor for factor in factors if factor is not additions[0]]
    return graph.add([graph.mul([*others, term]) for term in additions[0].args])


def _is_diagonal(term: Node) -> bool:
    """Whether an equation chooses a term, which is 0 in most entries. Other conditions leave most entries."""
    factors = term.args if term.op == "mul" else (term,)
    return any(factor.op == "guard" and any(row.kind == "eq" for row in factor.data) for factor in factors)


# ---------------------------------------------------------------------------- powers at base 0
# Derivatives of powers at base 0: a factor that is 0 there wins over one that is infinite.
#
# ``x**y*log(x)``, the derivative of ``x**y`` by ``y``, is 0 at ``x = 0 < y``, and ``y*x**(y - 1)``, the
# one by ``x``, is 0 at ``y = 0``; floating point numbers say ``0*inf``. The formulas stay as they
# are; in kernels the factor that may be 0 becomes the condition of a choice.


_MOST_ORDERS = 4
"""``y*(y - 1)*x**(y - 2)`` and so on are recognised up to so many factors."""


def defined_at_zero(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """``roots`` with the products of both kinds as choices."""
    done: dict[Node, Node] = {}
    for part in reachable(*roots):
        args = [done[arg] for arg in part.args]
        done[part] = _product(graph, part, args) if part.op == "mul" else graph.with_args(part, args)
    return [done[root] for root in roots]


def _product(graph: Graph, node: Node, args: Sequence[Node]) -> Node:
    """A product whose factors have become ``args``."""
    for power in node.args:
        if power.op == "pow" and power.args[0].op != "const" and power.args[1].op not in ("const", "index"):
            logarithms = [n for n, factor in enumerate(node.args) if _is_logarithm(factor, power.args[0])]
            scales = _scales(graph, node, power)
            if logarithms or scales:
                own = node.args.index(power)
                value = args[own]
                if logarithms:
                    value = _unless_zero(graph, value, graph.mul(args[n] for n in logarithms))
                if scales:
                    value = _unless_zero(graph, graph.mul(args[n] for n in scales), value)
                used = {own, *logarithms, *scales}
                return graph.mul((*(arg for n, arg in enumerate(args) if n not in used), value))
    return node if tuple(args) == node.args else graph.mul(args)


def _unless_zero(graph: Graph, factor: Node, other: Node) -> Node:
    """``factor*other``, and 0 where the factor is 0, whatever the other one is."""
    return graph.select(graph.compare("ne", factor, graph.zero), graph.mul((factor, other)), graph.zero)


def _is_logarithm(factor: Node, base: Node) -> bool:
    """Whether a factor is ``log(base)`` or a power of it."""
    if factor.op == "pow" and factor.args[1].op == "const" and factor.args[1].data > 0:
        factor = factor.args[0]
    return factor.op == "call" and factor.data is sympy.log and factor.args[0] is base


def _scales(graph: Graph, node: Node, power: Node) -> list[int]:
    """The factors of ``e + 1``, ``e + 2``, … among those of a product with ``base**e``."""
    found: list[int] = []
    for order in range(1, _MOST_ORDERS + 1):
        above = graph.add((power.args[1], graph.const(order)))
        wanted = [f for f in (above.args if above.op == "mul" else (above,)) if f.op != "const"]
        if wanted and all(f in node.args and f is not power for f in wanted):
            found += [node.args.index(f) for f in wanted]
    return list(dict.fromkeys(found))
