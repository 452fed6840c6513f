"""Equations in LaTeX: one formula, or one with the definitions of its parts below, after "where"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sympy

from sympy_tensordiff.derivative.named_parts import cse
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from sympy_tensordiff.symbolic.conversion.lift import as_operand
from sympy_tensordiff.symbolic.conversion.rewriting import with_entries_written_out
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.expressions.traversal import named_in, nodes_in
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry
from sympy_tensordiff.symbolic.index_notation.signatures import Scalar
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.printing.norm_notation import with_norms
from sympy_tensordiff.symbolic.printing.printed_forms import in_latex, unlabelled, upright
from sympy_tensordiff.symbolic.recurrences.scans import Scan

LONGEST_FORMULA = 100
"""A formula of more signs, which are more than a line of a page, is shown in parts where that makes it shorter."""

LONGEST_STEPS = 50
"""Steps of a recurrence with more signs are shown in parts where that makes them shorter: there are other lines."""

LETTERS = "rstuvwzabcfgh"
"""Names of parts of which only entries occur, in the order in which they are taken."""

LONGEST_UNREAD = 10**6
"""The length of a formula that is too large to print."""

_SIMPLE = re.compile(r"[A-Za-z]|\\[A-Za-z]+|\\math[a-z]+\{\w+\}")
_SIGN = re.compile(r"\\[A-Za-z]+|[^\s{}^_&\\]")
_UNSEEN = frozenset(
    {r"\left", r"\right", r"\mathrm", r"\operatorname", r"\text", r"\quad", r"\frac", r"\begin", r"\end"}
)


class Formula(str):
    """A string with a formula in LaTeX, which notebooks typeset."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython's hook for text output: give the text without quotes to ``printer``; ``cycle`` is not used."""
        printer.text(str(self))

    def _repr_latex_(self) -> str:
        """IPython's hook for LaTeX output."""
        return rf"$\displaystyle {self}$"


@explained
def latex(expr: Scalar | Sequence[Scalar], name: str | Sequence[str] | None = None, parts: bool | None = None) -> str:
    r"""Return ``expr``, one expression or several, as equations in LaTeX, without dollar signs. ``name`` is the
    left-hand side; with ``parts``, common subexpressions get names, which are explained after the formula.

    Parameters
    ----------
    expr : Expr, or sequence of Expr
        Scalars and tensor expressions. Several are equations one below the other.
    name : str, or sequence of str, optional
        The left-hand sides, in LaTeX, one for each expression. The entries of a comprehension are on the right-hand
        side, with the free indices on the left and their ranges after them. None: no left-hand side.
    parts : bool, optional
        True: a part that occurs more than once has a name, as `cse` gives it, and follows after "where"; so do the
        definitions of named parts (`td.name`). False: one formula. None: in parts where the formula is longer than a
        line and the parts are shorter, or where it repeats a comprehension.

    Returns
    -------
    str
        Several lines are ``aligned``, for an equation environment or between ``\[`` and ``\]``. Notebooks show the
        formula.

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
    if not (parts is None or isinstance(parts, bool)):
        raise ArgumentTypeError(f"td.latex: parts must be True or False, or None, not {parts!r}")
    if parts is not None:
        return _equations(names, *_with_letters(*cse(exprs))) if parts else _equations(names, [], exprs)
    whole, repeats_a_table = None, _repeats_a_table(exprs)
    if _has_scan(exprs) or not any(measures(e).is_unprintable for e in exprs):
        whole = _equations(names, [], exprs)
        if count_signs(whole) <= LONGEST_FORMULA and not repeats_a_table:
            return whole
    found, reduced = cse(exprs)
    if not found:
        return _equations(names, [], exprs) if whole is None else whole
    in_parts = _equations(names, *_with_letters(found, reduced))
    if whole is None or repeats_a_table:
        return in_parts
    return in_parts if count_signs(in_parts) < count_signs(whole) else whole


def _has_scan(exprs: Sequence[Any]) -> bool:
    """Return whether a recurrence (`Scan`) occurs in `exprs`."""
    return any(isinstance(node, Scan) for node in nodes_in(exprs, lambda node: node.args))


def _repeats_a_table(exprs: Sequence[Any]) -> bool:
    """Return whether a comprehension (a tensor of values, such as distances) is used more than once in `exprs`, so that
    it is worth a name.
    """
    nodes = nodes_in(exprs, lambda node: node.args)
    uses = Counter(arg for node in nodes for arg in node.args if isinstance(arg, TensorComprehension))
    return any(count > 1 for count in uses.values())


def count_signs(formula: str) -> int:
    """Return about how many characters of a formula in LaTeX a reader sees."""
    return sum(sign not in _UNSEEN for sign in _SIGN.findall(formula))


def _with_letters(found: Sequence[tuple[Any, Any]], reduced: Sequence[Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Return ``(found, reduced)``, the pairs (name, common part) and the expressions that use them, with tensors
    renamed to single letters where only their entries occur: ``s_{i j}`` reads better than ``(t_{0})_{i j}``.
    """
    exprs = [*reduced, *(e for _, e in found)]
    nodes = nodes_in(exprs, lambda node: node.args)
    whole = {id(arg) for node in nodes if not isinstance(node, TensorEntry) for arg in node.args}
    used = {id(expr) for expr in exprs} | whole
    taken = {str(node.name) for node in nodes if isinstance(node, (sympy.Symbol, TensorSymbol))}
    letters = iter([letter for letter in LETTERS if letter not in taken])
    occurring = {node: id(node) in used for node in nodes if isinstance(node, TensorSymbol)}
    new = {
        symbol: TensorSymbol(letter, symbol.shape)
        for symbol, _ in found
        if symbol.shape and re.fullmatch(r"t\d+", symbol.name) and not occurring.get(symbol, True)
        for letter in [next(letters, None)]
        if letter is not None
    }
    return [(new.get(symbol, symbol), e.xreplace(new)) for symbol, e in found], [e.xreplace(new) for e in reduced]


def _equations(names: Sequence[Any], found: Sequence[tuple[Any, Any]], reduced: Sequence[Any]) -> Formula:
    """Return the LaTeX of the equations ``name = expression`` for the expressions `reduced`, then "where" and an
    equation for each ``(symbol, expression)`` in ``found``.
    """
    rows = [_equation(None if n is None else upright(n), e) for n, e in zip(names, reduced, strict=True)]
    extents, known = _ranges([*reduced, *(e for _, e in found)]), {*_ranges(reduced)}
    where = []
    for symbol, e in found:
        where.append(_equation(sympy.latex(symbol), e, {i for i in known if len(extents[i]) == 1}))
        known |= {*_ranges([e])}
    if len(rows) + len(where) == 1:
        left, right = rows[0]
        return Formula(f"{left} = {right}" if left else right)
    lines = [f"{left} &= {right}" if left else f"& {right}" for left, right in rows]
    lines += [(r"\text{where}\quad " if n == 0 else "") + f"{left} &= {right}" for n, (left, right) in enumerate(where)]
    return Formula("\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}")


def _in_notebook(results: Sequence[Any]) -> str:
    """Return the LaTeX of the expressions `results` for notebooks, one below the other. Definitions of named parts
    follow after "where".
    """
    return latex(results, parts=True if named_in(results) else None)


def _in_lines(expr: Any) -> list[tuple[Any, Any]] | None:
    """Return `expr` split by common subexpressions, as lines ``(symbol, common subexpression)``, followed by the line
    ``(None, expr in terms of the symbols)``; None if there are none, or `cse` does not support `expr`.
    """
    try:
        found, (reduced,) = cse(expr)
    except UnsupportedError:
        return None
    return [*found, (None, reduced)] if found else None


def _with_parts(found: Sequence[tuple[Any, Any]], reduced: Sequence[Any]) -> str:
    """Return the LaTeX of the expressions `reduced`, one on each line, then "where" and an equation for each ``(symbol,
    expression)`` in ``found``.
    """
    return _equations([None] * len(reduced), found, reduced)


def _parts_of_steps(steps: Sequence[Any], is_text: bool) -> tuple[Sequence[tuple[Any, Any]], Sequence[Any]]:
    """Find common subexpressions in the steps of a scan (loop over time) for printing. Return ``(parts, steps)``: pairs
    ``(symbol, expression)``, and the steps in terms of the symbols. There are no parts if the steps are short, or would
    not become shorter.

    ``is_text`` tells text from LaTeX, for their lengths.
    """
    length = _length(dict.fromkeys(steps), is_text)
    if length <= LONGEST_STEPS:
        return [], steps
    found, reduced = cse(steps)
    shown = dict.fromkeys([*reduced, *(part for _, part in found)])
    return (found, reduced) if _length(shown, is_text) < length else ([], steps)


def _length(exprs: Iterable[Any], is_text: bool) -> int:
    """Return the number of visible characters of all ``exprs``, printed as text or in LaTeX."""
    return sum(
        LONGEST_UNREAD if measures(e).is_unprintable else len(str(e)) if is_text else count_signs(in_latex(e))
        for e in exprs
    )


hooks.formula.register(_in_notebook)
hooks.equations.register(_with_parts)
hooks.lines.register(_in_lines)
hooks.step_parts.register(_parts_of_steps)


def _ranges(exprs: Sequence[Any]) -> dict[Any, set[Any]]:
    """Return for each index the lengths ``n`` of its ranges ``0 … n - 1`` in the sums and comprehensions of `exprs`;
    None stands for a range that does not begin at 0.
    """
    found: dict[Any, set[Any]] = {}
    for node in nodes_in(exprs, lambda node: node.args):
        if isinstance(node, IndexedSum):
            for index, low, high in node.limits:
                found.setdefault(index, set()).add(high + 1 if low == 0 else None)
    for expr in exprs:
        for index, extent in expr.limits if isinstance(expr, TensorComprehension) else ():
            found.setdefault(index, set()).add(extent)
    return found


def _equation(left: str | None, expr: Any, known: Collection[Any] = ()) -> tuple[str | None, str]:
    """Return ``(left side, right side)``, in LaTeX, of the equation that defines ``left`` as `expr`. A comprehension is
    written entry by entry, ``A_{i j} = ...``, with the ranges of indices that are not in `known`.

    A ``left`` that is not a plain name is put in parentheses before its subscripts. If it is None, there is no left
    side, and `expr` is written as a whole.
    """
    expr = with_entries_written_out(expr)
    if left is None or not isinstance(expr, TensorComprehension):
        return left, in_latex(with_norms(expr))
    expr = unlabelled(expr)
    indices = [sympy.latex(index) for index in expr.indices]
    base = left if _SIMPLE.fullmatch(left) else rf"\left({left}\right)"
    limits = zip(expr.indices, indices, expr.shape, strict=True)
    shown = [(text, extent) for index, text, extent in limits if index not in known]
    ranges = r",\; ".join(f"{i} < {sympy.latex(extent)}" for i, extent in shown)
    subscript = (" " if all(len(i) == 1 for i in indices) else ", ").join(indices)
    body = in_latex(with_norms(expr.body))
    return f"{base}_{{{subscript}}}", rf"{body}, \quad {ranges}" if ranges else body
