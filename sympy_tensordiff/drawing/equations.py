"""Results as equations in LaTeX: a left-hand side, free indices with their ranges, and what the parts are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import sympy

from sympy_tensordiff.derivative.named_parts import cse
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.symbolic import hooks
from sympy_tensordiff.symbolic.lift import as_operand
from sympy_tensordiff.symbolic.printing import in_latex, unlabelled, upright
from sympy_tensordiff.symbolic.signatures import Scalar
from sympy_tensordiff.symbolic.tensors import TensorComprehension
from sympy_tensordiff.symbolic.traversal import named_in

_SIMPLE = re.compile(r"[A-Za-z]|\\[A-Za-z]+|\\math[a-z]+\{\w+\}")


def latex(expr: Scalar | Sequence[Scalar], name: str | Sequence[str] | None = None, parts: bool = False) -> str:
    r"""An expression as an equation in LaTeX, without delimiters.

    Parameters
    ----------
    expr : Expr, or sequence of Expr
        Scalars and tensor expressions. Several are equations one below the other.
    name : str, or sequence of str, optional
        The left-hand sides, in LaTeX, one for each expression. The entries of a comprehension stand
        on the right-hand side, with the free indices on the left and their ranges behind. None: no left-hand side.
    parts : bool
        True: what occurs more than once has a name, as `cse` gives it, and stands below, after "where"; so do the
        definitions of named parts (`td.name`).

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
    given: Any = expr if isinstance(expr, (tuple, list, sympy.Tuple)) else [expr]
    exprs = [as_operand(e, "the expression") for e in given]
    names: list[Any] = [*name] if isinstance(name, (tuple, list)) else [name]
    names = names * len(exprs) if name is None else names
    if len(names) != len(exprs):
        raise ArgumentError(f"td.latex: {len(exprs)} expressions need as many names, not {len(names)}: {names}")
    if not all(n is None or isinstance(n, str) for n in names):
        raise ArgumentTypeError(f"td.latex: a name is a string of LaTeX, not {name!r}")
    if not isinstance(parts, bool):
        raise ArgumentTypeError(f"td.latex: parts must be True or False, not {parts!r}")
    found, reduced = cse(exprs) if parts else ([], exprs)
    rows = [_equation(None if n is None else upright(n), e) for n, e in zip(names, reduced, strict=True)]
    where = [_equation(sympy.latex(symbol), e) for symbol, e in found]
    if len(rows) + len(where) == 1:
        left, right = rows[0]
        return f"{left} = {right}" if left else right
    lines = [f"{left} &= {right}" if left else f"& {right}" for left, right in rows]
    lines += [(r"\text{where}\quad " if n == 0 else "") + f"{left} &= {right}" for n, (left, right) in enumerate(where)]
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def _in_notebook(results: Sequence[Any]) -> str:
    """Results one below the other; those with named parts with the definitions of these, and of what else repeats."""
    return latex(results, parts=bool(named_in(results)))


hooks.register_formula(_in_notebook)


def _equation(left: str | None, expr: Any) -> tuple[str | None, str]:
    """Both sides; a comprehension entry by entry where there is a left-hand side for its indices."""
    if left is None or not isinstance(expr, TensorComprehension):
        return left, in_latex(expr)
    expr = unlabelled(expr)
    indices = [sympy.latex(index) for index in expr.indices]
    base = left if _SIMPLE.fullmatch(left) else rf"\left({left}\right)"
    ranges = r",\; ".join(f"{i} < {sympy.latex(extent)}" for i, extent in zip(indices, expr.shape, strict=True))
    subscript = (" " if all(len(i) == 1 for i in indices) else ", ").join(indices)
    return f"{base}_{{{subscript}}}", rf"{in_latex(expr.body)}, \quad {ranges}"
