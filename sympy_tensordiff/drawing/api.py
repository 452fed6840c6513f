"""The public functions for a picture of an expression, and for its equation in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import sympy

from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.derivative.named_parts import cse
from sympy_tensordiff.drawing.picture import Cluster, make_cluster, name_pullbacks, number_nodes
from sympy_tensordiff.drawing.svg import svg_text
from sympy_tensordiff.drawing.writers import dot_text, render_png, tree_text
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.symbolic import hooks
from sympy_tensordiff.symbolic.calls import explained
from sympy_tensordiff.symbolic.lift import as_operand
from sympy_tensordiff.symbolic.printing import in_latex, unlabelled, upright
from sympy_tensordiff.symbolic.signatures import Scalar
from sympy_tensordiff.symbolic.tensors import TensorComprehension
from sympy_tensordiff.symbolic.traversal import named_in


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
        """The picture in the language of graphviz, which needs no other program."""
        return dot_text(self._clusters)

    @cached_property
    def text(self) -> str:
        """The picture as a tree in plain text; a node with several parents is written once and then referred to by
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
        """Return the SVG for notebooks; None for a picture that is too large, so that they show the text."""
        try:
            return self.svg()
        except UnsupportedError:
            return None


@explained
def draw_graph(expr: Any, wrt: Any = None, *, simplify: bool = False) -> GraphDrawing:
    """Return a picture of the graph of an expression, and of its derivative next to it.

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
    is_sequence = isinstance(wrt, tuple | list)
    variables = tuple(wrt) if is_sequence else () if wrt is None else (wrt,)
    work, results, pullbacks = derivative_graph(as_operand(expr, "the expression"), variables, simplify=simplify)
    expression = make_cluster(work.graph, "expression", [work.root])
    clusters = [expression]
    if variables:
        names = [str(variable) for variable in variables]
        derivative = make_cluster(work.graph, f"derivative by {', '.join(names)}", results)
        name_pullbacks(expression, derivative, pullbacks, names)
        clusters.append(derivative)
    number_nodes(clusters)
    return GraphDrawing(clusters)


def derivative_graph(
    expr: Any, variables: Sequence[Any], *, simplify: bool = False
) -> tuple[Differentiation, list[Node], dict[Node, Node]]:
    """Return the graph of an expression with its derivatives from one reverse sweep: the differentiation, the
    derivatives with respect to ``variables``, and the pullback of each node that the sweep has met.

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


# ---------------------------------------------------------------------------- equations in LaTeX


_SIMPLE = re.compile(r"[A-Za-z]|\\[A-Za-z]+|\\math[a-z]+\{\w+\}")


@explained
def latex(expr: Scalar | Sequence[Scalar], name: str | Sequence[str] | None = None, parts: bool = False) -> str:
    r"""Return an expression as an equation in LaTeX, without delimiters.

    Parameters
    ----------
    expr : Expr, or sequence of Expr
        Scalars and tensor expressions. Several are equations one below the other.
    name : str, or sequence of str, optional
        The left-hand sides, in LaTeX, one for each expression. A comprehension is written entry by entry, with the free
        indices on the left and their ranges after the right-hand side. None: no left-hand side.
    parts : bool
        True: repeated subexpressions get names, as in `cse`, and are defined below, after "where"; so are named parts
        (`td.name`).

    Returns
    -------
    str
        Several lines are ``aligned``, for an equation environment or between ``\[`` and ``\]``.

    Raises
    ------
    ArgumentError
        If there are not as many names as expressions.
    ArgumentTypeError
        If a name is not a string, or ``parts`` is not a bool.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, j, n = td.indices("i j n")
    >>> A, x = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", n)
    >>> loss = td.IndexedSum(td.IndexedSum(A[i, j]*x[j], (j, 0, n - 1))**2, (i, 0, n - 1))
    >>> print(td.latex(td.gradient(loss, A), r"\frac{\partial f}{\partial A}"))
    \left(\frac{\partial f}{\partial A}\right)_{p q} = 2 x_{q} \sum_{j=0}^{n - 1} A_{p j} x_{j}, \quad p < n,\; q < n
    >>> print(td.latex(td.gradient(td.logsumexp(A @ x), (A, x)), ("F", "g"), parts=True))
    \begin{aligned}
    F &= t_{0} x^{\top} \\
    g &= A^{\top} t_{0} \\
    \text{where}\quad t_{0} &= \operatorname{softmax}\left(A x\right)
    \end{aligned}
    """
    expressions: Any = expr if isinstance(expr, (tuple, list, sympy.Tuple)) else [expr]
    exprs = [as_operand(e, "the expression") for e in expressions]
    names: list[Any] = [*name] if isinstance(name, (tuple, list)) else [name]
    names = names * len(exprs) if name is None else names
    if len(names) != len(exprs):
        raise ArgumentError(f"td.latex: {len(exprs)} expressions need as many names, not {len(names)}: {names}")
    if not all(n is None or isinstance(n, str) for n in names):
        raise ArgumentTypeError(f"td.latex: a name is a string of LaTeX, not {name!r}")
    if not isinstance(parts, bool):
        raise ArgumentTypeError(f"td.latex: parts must be True or False, not {parts!r}")
    named_parts, reduced = cse(exprs) if parts else ([], exprs)
    rows = [_equation(None if n is None else upright(n), e) for n, e in zip(names, reduced, strict=True)]
    where_lines = [_equation(sympy.latex(symbol), e) for symbol, e in named_parts]
    if len(rows) + len(where_lines) == 1:
        left, right = rows[0]
        return f"{left} = {right}" if left else right
    lines = [f"{left} &= {right}" if left else f"& {right}" for left, right in rows]
    lines += [
        (r"\text{where}\quad " if n == 0 else "") + f"{left} &= {right}" for n, (left, right) in enumerate(where_lines)
    ]
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


# Notebooks print results one below the other; named parts with their definitions and other repeated subexpressions.
hooks.formula.register(lambda results: latex(results, parts=bool(named_in(results))))


def _equation(left: str | None, expr: Any) -> tuple[str | None, str]:
    """Return both sides of an equation in LaTeX; a comprehension with a left-hand side is written entry by entry."""
    if left is None or not isinstance(expr, TensorComprehension):
        return left, in_latex(expr)
    expr = unlabelled(expr)
    indices = [sympy.latex(index) for index in expr.indices]
    base = left if _SIMPLE.fullmatch(left) else rf"\left({left}\right)"
    ranges = r",\; ".join(f"{i} < {sympy.latex(extent)}" for i, extent in zip(indices, expr.shape, strict=True))
    subscript = (" " if all(len(i) == 1 for i in indices) else ", ").join(indices)
    return f"{base}_{{{subscript}}}", rf"{in_latex(expr.body)}, \quad {ranges}"
