"""The public ways to a picture of an expression."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.drawing.picture import Cluster, cluster, name_pullbacks, number_nodes
from sympy_tensordiff.drawing.svg import svg_text
from sympy_tensordiff.drawing.writers import dot_text, png, tree_text
from sympy_tensordiff.errors import ArgumentError, UnsupportedError
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.symbolic.calls import explained
from sympy_tensordiff.symbolic.lift import as_operand


class GraphDrawing:
    """A picture of an expression's graph, made by `draw_graph`.

    It shows itself as a picture in notebooks, elsewhere as text.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 3)
    >>> drawing = td.draw_graph(td.sum(td.exp(x)))
    >>> drawing
    Σ (i->)
    └─ exp
       └─ x
    >>> drawing.source.splitlines()[0]
    'digraph {'
    """

    def __init__(self, clusters: list[Cluster]) -> None:
        self._clusters = clusters

    @cached_property
    def source(self) -> str:
        """The picture in the language of graphviz; no program is needed to make it."""
        return dot_text(self._clusters)

    @cached_property
    def text(self) -> str:
        """The picture as a tree in plain text: a node with several parents stands once, and then by its number."""
        return tree_text(self._clusters)

    def svg(self) -> str:
        """The picture as SVG; no program is needed to make it.

        Raises
        ------
        UnsupportedError
            If there are more than 2,000 nodes, or very many long edges.
        """
        return svg_text(self._clusters)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the picture: ``.svg``, ``.png`` by graphviz, its source as ``.dot`` or ``.gv``, text as ``.txt``.

        Raises
        ------
        ArgumentError
            If the path ends in something else.
        BackendError
            If the program ``dot`` of graphviz, which makes ``.png``, is not installed.
        UnsupportedError
            As `svg`; nothing is written then.
        """
        target = Path(path)
        match target.suffix.lower():
            case ".svg":
                content = self.svg().encode()
            case ".png":
                content = png(self._clusters)
            case ".dot" | ".gv":
                content = self.source.encode()
            case ".txt":
                content = f"{self.text}\n".encode()
            case _:
                raise ArgumentError(f"cannot save a picture as {target.name!r}: use .svg, .png, .dot, .gv or .txt")
        target.write_bytes(content)

    def __repr__(self) -> str:
        return self.text

    def _repr_svg_(self) -> str | None:
        """For notebooks; None for a picture that is too large, so that they show the text."""
        try:
            return self.svg()
        except UnsupportedError:
            return None


@explained
def draw_graph(expr: Any, wrt: Any = None, *, simplify: bool = False) -> GraphDrawing:
    """A picture of the graph of an expression, and of its derivative beside it.

    Parameters
    ----------
    expr : Expr
        Any expression of this package or of SymPy that can be differentiated; or what `td.parse` gives, which
        is drawn with the derivative by its first argument.
    wrt : TensorSymbol, Symbol or tuple of them, optional
        What to differentiate by; of several the derivatives share their nodes.
    simplify : bool
        Whether the derivative is drawn simplified, as that of `td.jacobian` is, or as the reverse sweep makes it.

    Returns
    -------
    GraphDrawing
        With ``.source`` (for graphviz), ``.text``, ``.svg()`` and ``.save(path)``.

    Raises
    ------
    ArgumentTypeError, UnsupportedError
        If the expression or a variable is none, or there is no derivative.

    Notes
    -----
    Equal parts of an expression are one node. The graph is the one that is differentiated, in which transposes
    of transposes and the like are gone already, and ``X*X`` is a square.

    The derivative of the expression by one of its nodes is the *pullback* of that node (Lippmann 2022, section
    4.1). A node of the derivative that is a pullback has the colour of the node that it belongs to, and says so;
    in index notation only variables have one. Where the sweep has already moved the entries of a pullback into
    what follows, ``as (i->ii)`` says how they stand in it: here on its diagonal.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> v = td.TensorSymbol("v", 3)
    >>> td.draw_graph(td.sum(td.sin(v) + td.cos(td.sin(v))), v)
    expression:
    Σ (i->)
    └─ +
       ├─ #1 sin
       │  └─ v
       └─ cos
          └─ see #1: sin
    derivative by v:
    *(i,i->i)   (pullback of v)
    ├─ +   (pullback of #1)
    │  ├─ -
    │  │  └─ sin
    │  │     └─ sin
    │  │        └─ v
    │  └─ 1
    └─ cos
       └─ v
    """
    if hasattr(expr, "expression") and hasattr(expr, "arguments"):
        wrt = expr.arguments[0] if wrt is None and expr.arguments else wrt
        expr = expr.expression
    several = isinstance(wrt, tuple | list)
    variables = tuple(wrt) if several else () if wrt is None else (wrt,)
    work, results, pullbacks = derivative_graph(as_operand(expr, "the expression"), variables, simplify=simplify)
    expression = cluster(work.graph, "expression", [work.root])
    clusters = [expression]
    if variables:
        names = [str(variable) for variable in variables]
        derivative = cluster(work.graph, f"derivative by {', '.join(names)}", results)
        name_pullbacks(expression, derivative, pullbacks, names)
        clusters.append(derivative)
    number_nodes(clusters)
    return GraphDrawing(clusters)


def derivative_graph(
    expr: Any, variables: Sequence[Any], *, simplify: bool = False
) -> tuple[Differentiation, list[Node], dict[Node, Node]]:
    """An expression and its derivatives by variables in one graph, out of one reverse sweep (Lippmann 2022, chapter 4).

    With them come the derivatives by the nodes of the expression that the sweep has met. In index notation these are
    the variables alone: the cotangent of an entry depends on indices around it.
    """
    work = Differentiation(expr, by=variables)
    results, pullbacks = work.jacobians_with_pullbacks([work.leaf(variable) for variable in variables])
    if simplify:
        nodes = work.simplified_all([*results, *pullbacks.values()])
        results, simplified = nodes[: len(results)], nodes[len(results) :]
        pullbacks = dict(zip(pullbacks, simplified, strict=True))
    return work, results, pullbacks
