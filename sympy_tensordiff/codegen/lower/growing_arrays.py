"""Exponentials computed in the entries that use them, rather than stored in arrays that overflow.

``log(1 + Sum_k exp(x[k]))`` and ``exp(x[p])/(1 + Sum_k exp(x[k]))`` do not overflow where the logarithm or the quotient
sees all exponentials, and can factor out the greatest one (see `exponentials`). Arrays of exponentials hide them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy

from sympy_tensordiff.graph.interning import breadth_first
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable

MAX_READS = 100
"""Programs with more reads of arrays that grow stay as they are."""


def without_growing_arrays(graph: Graph, roots: Sequence[Node], arrays: Mapping[Node, Node]) -> list[Node]:
    """Return the formulas `roots` of array entries with reads of stored exponentials, which may overflow, replaced by
    the formulas of these, so that later passes can rescale them. `arrays` maps each tensor to the formula of its
    entries.

    Unchanged unless such a read is a term of an addition in a logarithm or a denominator.

    `roots` are numbers and comprehensions, `arrays` the arrays computed before, in their order.
    """
    growing: dict[Node, Node] = {}
    known: dict[Node, bool] = {}
    for array, entries in arrays.items():
        if _is_growing(entries, growing, known):
            growing[array] = entries
    if not any(_has_growing_term(part, growing) for root in roots for part in (reachable(root) if growing else ())):
        return list(roots)
    inlining = _Inlining(graph, growing)
    new = [inlining.run(root) for root in roots]
    return list(roots) if inlining.reads > MAX_READS else new


def _is_growing(entries: Node, growing: Mapping[Node, Node], known: dict[Node, bool]) -> bool:
    """Return whether the formula `entries` grows like an exponential: a factor, a term or the base of a power in it is
    an exponential, or a read of an array in ``growing``. `known` stores the answers for its nodes.
    """
    for part in reachable(entries, known=known):
        match part.op:
            case "call":
                known[part] = part.data is sympy.exp
            case "read":
                known[part] = part.args[0] in growing
            case "mul" | "add" | "sum" | "comprehension":
                known[part] = any(known[arg] for arg in part.args)
            case _:
                known[part] = part.op == "pow" and known[part.args[0]]
    return known[entries]


def _has_growing_term(node: Node, growing: Mapping[Node, Node]) -> bool:
    """Return whether `node` is a logarithm or negative power of an addition s, as ``log(s)`` or ``1/s``, a term of
    which reads an array in `growing`, which may overflow.
    """
    is_inverse = node.op == "pow" and node.args[1].op == "const" and node.args[1].data < 0
    if not is_inverse and not (node.op == "call" and node.data is sympy.log):
        return False
    terms = node.args[0].args if node.args[0].op == "add" else ()
    factors = [factor for term in terms for factor in (term.args if term.op == "mul" else (term,))]
    return any(factor.op == "read" and factor.args[0] in growing for factor in factors)


class _Inlining:
    """A rewriting that replaces reads of the arrays in `growing` by the formulas of their entries, inside sums, too."""

    def __init__(self, graph: Graph, growing: Mapping[Node, Node]) -> None:
        self.graph = graph
        self.growing = growing
        self.reads = 0
        """The number of reads that are replaced."""
        self.done: dict[Node, Node] = {}

    def run(self, root: Node) -> Node:
        """Return `root` with each read of an array in ``growing`` replaced by the formula of its entry, also in the
        bodies of reductions and comprehensions. After `MAX_READS` replacements, further reads stay.
        """
        outside = set(breadth_first(root, lambda part: () if part.op in BINDERS else part.args))
        for part in reachable(root, known=self.done):
            if part in outside:
                self.done[part] = self.replaced(part)
        return self.done[root]

    def replaced(self, part: Node) -> Node:
        """Rewrite one node of an expression: a read of an array in ``growing`` becomes the formula of the entry; any
        other node gets its rewritten arguments or, if it is a sum or comprehension, its rewritten body.

        After ``MAX_READS`` reads, further ones are not replaced.
        """
        graph = self.graph
        if part.op in BINDERS:
            if not any(inner in self.growing for inner in reachable(part)):
                return part
            variables, _, body = graph.open(part)
            return graph.over(part, variables, self.run(body))
        if part.op != "read" or part.args[0] not in self.growing or self.reads > MAX_READS:
            return graph.with_args(part, [self.done[arg] for arg in part.args])
        self.reads += 1
        table = self.growing[part.args[0]]
        return self.run(graph.entry(table, part.data) if table.op == "comprehension" else table)
