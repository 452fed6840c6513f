"""The public functions for a picture of an expression."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.drawing.picture import Cluster, make_cluster, name_pullbacks, number_nodes
from sympy_tensordiff.drawing.svg import svg_text
from sympy_tensordiff.drawing.writers import dot_text, render_png, tree_text
from sympy_tensordiff.errors import ArgumentError, UnsupportedError
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.symbolic.conversion.lift import as_operand
from sympy_tensordiff.symbolic.expressions.call_errors import explained


class GraphDrawing:
    """A picture of the graph of an expression, made by `draw_graph`; notebooks display it as SVG, consoles as text.

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
        """The picture in the language of graphviz. No other program is needed to make it."""
        return dot_text(self._clusters)

    @cached_property
    def text(self) -> str:
        """The picture as a tree in plain text. A node with several parents is written once, and elsewhere only its
        number.
        """
        return tree_text(self._clusters)

    def svg(self) -> str:
        """Return the picture as SVG, which needs no other program.

        Raises
        ------
        UnsupportedError
            If there are more than 2,000 nodes, or very many long edges.
        """
        return svg_text(self._clusters)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture to a file: ``.svg``, ``.png`` (by graphviz), source as ``.dot`` or ``.gv``, text as
        ``.txt``.

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
                content = render_png(self._clusters)
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
        """Return the SVG for notebooks; None if the picture is too large, in which case notebooks show the text."""
        try:
            return self.svg()
        except UnsupportedError:
            return None


@explained
def draw_graph(expr: Any, wrt: Any = None, *, simplify: bool = False) -> GraphDrawing:
    """Return a picture of the graph of an expression; with ``wrt``, also of its derivative next to it. With
    ``simplify``, the derivative is simplified.

    Parameters
    ----------
    expr : Expr
        Any expression of this package or of SymPy that can be differentiated; or the result of `td.parse`, drawn with
        the derivative with respect to its first argument.
    wrt : TensorSymbol, Symbol or tuple of them, optional
        The variables to differentiate with respect to; derivatives with respect to several share nodes.
    simplify : bool
        Whether to simplify the derivative as `td.jacobian` does; by default it is drawn as the reverse sweep returns
        it.

    Returns
    -------
    GraphDrawing
        With ``.source`` (for graphviz), ``.text``, ``.svg()`` and ``.save(path)``.

    Raises
    ------
    ArgumentTypeError, UnsupportedError
        If the expression or a variable is not one, or there is no derivative.

    Notes
    -----
    Equal subexpressions are one node. The graph is the one that is differentiated: transposes of transposes and the
    like are simplified already, and ``X*X`` is a square.

    The derivative with respect to a node is the *pullback* of that node (Lippmann 2022, section 4.1). A node of the
    derivative that is a pullback has the colour of the node that it belongs to, and names it; in index notation only
    variables have one. If the sweep has merged a pullback into its use, ``as (i->ii)`` says where its entries are: here
    on the diagonal.

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
    derivative with respect to v:
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
    is_sequence = isinstance(wrt, tuple | list)
    variables = tuple(wrt) if is_sequence else () if wrt is None else (wrt,)
    work, results, pullbacks = derivative_graph(as_operand(expr, "the expression"), variables, simplify=simplify)
    expression = make_cluster(work.graph, "expression", [work.root])
    clusters = [expression]
    if variables:
        names = [str(variable) for variable in variables]
        derivative = make_cluster(work.graph, f"derivative with respect to {', '.join(names)}", results)
        name_pullbacks(expression, derivative, pullbacks, names)
        clusters.append(derivative)
    number_nodes(clusters)
    return GraphDrawing(clusters)


def derivative_graph(
    expr: Any, variables: Sequence[Any], *, simplify: bool = False
) -> tuple[Differentiation, list[Node], dict[Node, Node]]:
    """Compute the derivatives of ``expr`` with respect to ``variables`` by one reverse sweep, for a drawing. Return
    ``(differentiation, derivatives, pullbacks)``: the `Differentiation` with the graph, the nodes of the derivatives,
    and a dictionary from each visited node to its pullback (cotangent).

    With ``simplify``, derivatives and pullbacks are simplified.

    In index notation only variables have pullbacks: the cotangent of an entry depends on the enclosing indices
    (Lippmann 2022, chapter 4).
    """
    work = Differentiation(expr, by=variables)
    results, pullbacks = work.jacobians_with_pullbacks([work.leaf(variable) for variable in variables])
    if simplify:
        nodes = work.simplified_all([*results, *pullbacks.values()])
        results, simplified = nodes[: len(results)], nodes[len(results) :]
        pullbacks = dict(zip(pullbacks, simplified, strict=True))
    return work, results, pullbacks
