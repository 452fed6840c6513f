"""What the rules of a certificate ask for, the terms that they give, and where functions have a value.

`CONDITIONS` is the table of the side conditions; `require` is the one place where they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, S

from sympy_tensordiff.convex.affine_parts import Cut
from sympy_tensordiff.convex.generators import Range
from sympy_tensordiff.convex.signs import Signs

CONDITIONS: dict[str, str] = {
    "rule": "each function is one of the table of smooth functions, a kink, or in pieces along one affine scalar",
    "domain": "the argument of a logarithm or a root is positive, or concave (its domain is then convex)",
    "pole": "a denominator has one sign: a domain with a hole is not convex",
    "slope": "an inner convex scalar is taken by a nondecreasing function, an inner concave one by a nonincreasing one",
    "pivot": "a pivot of the matrix of second derivatives is not negative",
    "zero pivot": "where a pivot is 0, its row is 0",
    "ratio": "h'**2/h'' is c*h + d with c and d that do not depend on the index, or at most h",
    "maximum": "a maximum is convex, a minimum is concave, and never the reverse",
    "absolute value": "an absolute value is taken of an affine scalar",
    "order": "the ends of pieces, and the sides of their conditions, have a known order",
    "meeting": "neighbouring pieces have equal values where they meet",
    "corner": "the slope does not decrease from one piece to the next",
    "middle": "a matrix that ties both ends of a form is positive definite",
    "weight": "the weight of a Gram form is not negative",
}


class NoSign(Exception):
    """No rule gives a sign; the message, a text with gaps and what fills them, names the term.

    It is printed at the end only: rules fail often before one fits.
    """

    def __str__(self) -> str:
        text, *parts = self.args
        return str(text).format(*parts)

    def written(self, back: Mapping[Expr, Expr]) -> NoSign:
        """The same with what symbols stand for."""
        return type(self)(*(part.xreplace(back) if isinstance(part, sympy.Basic) else part for part in self.args))


class NoFit(NoSign):
    """The rule is not for a scalar of this kind."""


class Term(NamedTuple):
    """A part of the second derivative in a direction that is not negative.

    Attributes
    ----------
    rule : str
        The law that says so.
    form : Expr
        The part, quadratic in the directions.
    factors : tuple of Expr
        Weight and linear form of a square, or what else the form is made of.
    facts : tuple of (Expr, str)
        Scalars and their signs that were used.
    """

    rule: str
    form: Expr
    factors: tuple[Expr, ...]
    facts: tuple[tuple[Expr, str], ...] = ()

    def __str__(self) -> str:
        facts = ", ".join(f"{scalar} {'=' if sign == '0' else sign} 0" for scalar, sign in self.facts)
        return f"{self.rule}: {self.form}" + (f" since {facts}" if facts else "")


def require(condition: str, holds: bool, text: str, *parts: Any) -> None:
    """One condition of the table.

    Raises
    ------
    NoSign
        If it does not hold.
    """
    if not holds:
        raise NoSign(text + ": {}", *parts, CONDITIONS[condition])


def enter_domain(signs: Signs, cut: Cut, ranges: Mapping[Expr, Range], is_concave: Callable[[Expr], bool]) -> None:
    """Declare the ranges of the symbols of a cut, and require that its function has a value there.

    Ranges are open: where the least value of a part is taken, a continuous function is convex by continuity. So a
    root needs a value above 0 in the open ranges only; a pole and a logarithm need one at their ends as well.

    Raises
    ------
    NoSign
    """
    closed: dict[Expr, Expr] = {}
    for symbol, known in ranges.items():
        signs.given[symbol] = known
        if not known.strict and known.low != known.high:
            signs.given[symbol] = known._replace(strict=True)
            closed[symbol] = Dummy("closed", real=True)
            signs.given[closed[symbol]] = known
    require_values(signs, cut.function, cut.back, closed, _cut_by_domains(signs, cut, is_concave))


def _cut_by_domains(signs: Signs, cut: Cut, is_concave: Callable[[Expr], bool]) -> set[Expr]:
    """The logarithms and roots of concave arguments in one part, whose domains are convex; they bound the part.

    >>> import sympy_tensordiff as td
    >>> n, = td.indices("n,")
    >>> x = td.TensorSymbol("x", n)
    >>> bool(td.certify_convex(-td.log(1 - td.dot(x, x)), x)), bool(td.certify_convex(-td.log(td.dot(x, x) - 1), x))
    (True, False)
    """
    bounding = set()
    for node in sorted(cut.function.atoms(sympy.log, sympy.Pow), key=sympy.default_sort_key):
        base = node.args[0]
        if isinstance(node, sympy.Pow) and (not node.exp.is_Rational or node.exp.is_Integer):
            continue
        if len(base.free_symbols) != 1 or not base.free_symbols <= cut.back.keys():
            continue
        (part,) = base.free_symbols
        slope, offset = base.coeff(part), base.xreplace({part: S.Zero})
        if slope.is_Rational and slope != 0 and offset.is_Rational and base - slope * part - offset == 0:
            known, end = signs.given[part], -offset / slope
            ends = {known.low if slope > 0 else known.high, end} - {None}
            bound = max(ends) if slope > 0 else min(ends)
            narrower = known._replace(**{"low" if slope > 0 else "high": bound}, strict=True)
            if narrower != known and is_concave(slope * cut.back[part]):
                signs.given[part] = narrower
                bounding.add(node)
    return bounding


def require_values(
    signs: Signs,
    function: Expr,
    back: Mapping[Expr, Expr],
    closed: Mapping[Expr, Expr] | None = None,
    bounding: Collection[Expr] = (),
) -> None:
    """Require that every logarithm, root and quotient in the symbols ``back`` has a value.

    Parameters
    ----------
    closed : mapping
        For symbols with closed ranges, which are declared to be open, symbols with the closed ones.
    bounding : collection of Expr
        Logarithms and roots whose domains bound the ranges.

    Raises
    ------
    NoSign
    """
    closed = dict(closed or {})
    for node in sympy.postorder_traversal(function):
        if node in bounding or node.free_symbols.isdisjoint(back):
            continue
        if isinstance(node, sympy.log):
            sign = signs.of(node.args[0].xreplace(closed))
            require("domain", sign == ">", "no sign of {}", node.args[0].xreplace(dict(back)))
        elif isinstance(node, sympy.Pow) and node.base is not S.Exp1:
            base, exponent = node.args
            shown = base.xreplace(dict(back))
            if exponent.is_Integer:
                has_value = exponent > 0 or signs.of(base.xreplace(closed)) in (">", "<")
                require("pole", has_value, "no sign of {}", shown)
                continue
            is_root = exponent.free_symbols.isdisjoint(back) and signs.of(exponent) == ">"
            sign = signs.of(base if is_root else base.xreplace(closed))
            require("domain", sign == ">", "no sign of {}", shown)
