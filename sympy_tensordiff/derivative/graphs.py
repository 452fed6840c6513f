"""A derivative as the graph that the reverse sweep makes, with the pullback of each node it has visited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.graph.nodes import Graph, Node


@dataclass(frozen=True)
class DerivativeGraph:
    """An expression and its derivatives in one graph.

    Attributes
    ----------
    graph : Graph
    root : Node
        The expression.
    results : tuple of Node
        Its derivative by each variable, axes of the expression first.
    pullbacks : dict of Node to Node
        The derivative of the expression by a node of it, for the nodes that the sweep has met. In index
        notation these are the variables alone: the cotangent of an entry depends on indices around it.
    """

    graph: Graph
    root: Node
    results: tuple[Node, ...]
    pullbacks: dict[Node, Node]


def derivative_graph(expr: Any, variables: Sequence[Any], *, simplify: bool = False) -> DerivativeGraph:
    """The graph of an expression and of its derivatives by ``variables``, which may be none.

    Parameters
    ----------
    expr : Expr
        A scalar or a tensor expression of this package's classes.
    variables : sequence of TensorSymbol or Symbol
    simplify : bool
        Whether results and pullbacks are simplified, as those of `td.jacobian` are.

    Raises
    ------
    ArgumentTypeError, UnsupportedError
        If a variable is none, or the expression has no derivative here.

    Notes
    -----
    One reverse sweep (Lippmann 2022, chapter 4).
    """
    work = Differentiation(expr, by=variables)
    leaves = [work.leaf(variable) for variable in variables]
    results, pullbacks = work.jacobians_with_pullbacks(leaves)
    if simplify:
        nodes = work.simplified_all([*results, *pullbacks.values()])
        results, simplified = nodes[: len(results)], nodes[len(results) :]
        pullbacks = dict(zip(pullbacks, simplified, strict=True))
    return DerivativeGraph(work.graph, work.root, tuple(results), pullbacks)
