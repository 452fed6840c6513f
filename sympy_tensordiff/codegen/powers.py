"""Derivatives of powers at base 0: a factor that is 0 there wins over one that is infinite.

``x**y*log(x)``, the derivative of ``x**y`` by ``y``, is 0 at ``x = 0 < y``, and ``y*x**(y - 1)``, the
one by ``x``, is 0 at ``y = 0``; floating point numbers say ``0*inf``. The formulas stay as they
are; in kernels the factor that may be 0 becomes the condition of a choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from sympy_tensordiff.graph.nodes import Graph, Node, reachable

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
