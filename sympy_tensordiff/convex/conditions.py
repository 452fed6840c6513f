"""What the rules of a certificate ask for, and the terms that they give.

`CONDITIONS` is the table of the side conditions; `require` is the one place where they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import sympy
from sympy import Expr

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


__all__ = ["CONDITIONS", "NoFit", "NoSign", "Term", "require"]
