"""Side conditions of the certificate rules, the terms that the rules return, and the domains of functions.

`CONDITIONS` is the table of the side conditions; only `require` checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, S

from sympy_tensordiff.convex.affine_parts import Decomposition
from sympy_tensordiff.convex.signs import Signs
from sympy_tensordiff.functions.table import Interval

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


class SignUnknown(Exception):
    """Raised if no rule proves a sign or convexity. Its arguments are a format text and the values to insert, such as
    the scalar.

    The text is formatted at the end only, since many rules fail before one applies.
    """

    def __str__(self) -> str:
        text, *values = self.args
        return str(text).format(*values)

    def with_parts(self, parts: Mapping[Expr, Expr]) -> SignUnknown:
        """Return a copy of this exception for messages to the user: each symbol in its values is replaced by the scalar
        for which it stands, as the dictionary ``parts`` says.
        """
        return type(self)(*(part.xreplace(parts) if isinstance(part, sympy.Basic) else part for part in self.args))


class RuleDoesNotApply(SignUnknown):
    """Raised by a convexity rule if a scalar has another form than the rule is for. Another rule is then tried."""


class ProofTerm(NamedTuple):
    """A nonnegative summand of the second derivative along a direction, with the rule (law) that proves its sign.

    Attributes
    ----------
    rule : str
        The law that proves the sign.
    form : Expr
        The summand, quadratic in the directions.
    factors : tuple of Expr
        Weight and linear form of a square, or the factors of another form.
    facts : tuple of (Expr, str)
        The scalars whose signs were used, with these signs.
    """

    rule: str
    form: Expr
    factors: tuple[Expr, ...]
    facts: tuple[tuple[Expr, str], ...] = ()

    def __str__(self) -> str:
        facts = ", ".join(f"{scalar} {'=' if sign == '0' else sign} 0" for scalar, sign in self.facts)
        return f"{self.rule}: {self.form}" + (f" since {facts}" if facts else "")


def require(condition: str, holds: bool, text: str, *values: Any) -> None:
    """Raise `SignUnknown` unless ``holds``. Its message is ``text``, with ``values`` inserted, and the description of
    the side condition with the key ``condition`` in `CONDITIONS`.
    """
    if not holds:
        raise SignUnknown(text + ": {}", *values, CONDITIONS[condition])


def enter_domain(
    signs: Signs, outer: Decomposition, ranges: Mapping[Expr, Interval], is_concave: Callable[[Expr], bool]
) -> None:
    """Declare in ``signs`` the ``ranges`` of the symbols in the function of ``outer``, and raise `SignUnknown` unless
    the function is proved to be defined there. ``is_concave(scalar)`` says whether a scalar is proved to be concave.

    The range of a symbol whose scalar is concave is first narrowed to where logarithms and roots of it are defined.

    Ranges are open: at the ends of a range, a continuous function is convex by continuity. So a root must be defined in
    the open ranges only, a pole and a logarithm at their ends as well.
    """
    closed: dict[Expr, Expr] = {}
    for symbol, interval in ranges.items():
        signs.declared[symbol] = interval
        if not interval.is_open and interval.low != interval.high:
            signs.declared[symbol] = interval._replace(is_open=True)
            closed[symbol] = Dummy("closed", real=True)
            signs.declared[closed[symbol]] = interval
    require_values(signs, outer.function, outer.parts, closed, _narrow_to_domains(signs, outer, is_concave))


def _narrow_to_domains(signs: Signs, outer: Decomposition, is_concave: Callable[[Expr], bool]) -> set[Expr]:
    """Restrict the ranges in ``signs`` to numbers for which the function of ``outer`` is defined: if it contains
    ``log(a*p + b)`` or a root of ``a*p + b`` for a symbol p, to those with ``a*p + b > 0``. Return the logarithms and
    roots that were used.

    ``is_concave`` must prove ``a*p`` concave.

    >>> import sympy_tensordiff as td
    >>> n, = td.indices("n,")
    >>> x = td.TensorSymbol("x", n)
    >>> bool(td.certify_convex(-td.log(1 - td.dot(x, x)), x)), bool(td.certify_convex(-td.log(td.dot(x, x) - 1), x))
    (True, False)
    """
    domain_nodes = set()
    for node in sorted(outer.function.atoms(sympy.log, sympy.Pow), key=sympy.default_sort_key):
        base = node.args[0]
        if isinstance(node, sympy.Pow) and (not node.exp.is_Rational or node.exp.is_Integer):
            continue
        if len(base.free_symbols) != 1 or not base.free_symbols <= outer.parts.keys():
            continue
        (part,) = base.free_symbols
        slope, offset = base.coeff(part), base.xreplace({part: S.Zero})
        if slope.is_Rational and slope != 0 and offset.is_Rational and base - slope * part - offset == 0:
            interval, end = signs.declared[part], -offset / slope
            ends = {interval.low if slope > 0 else interval.high, end} - {None}
            bound = max(ends) if slope > 0 else min(ends)
            narrower = interval._replace(**{"low" if slope > 0 else "high": bound}, is_open=True)
            if narrower != interval and is_concave(slope * outer.parts[part]):
                signs.declared[part] = narrower
                domain_nodes.add(node)
    return domain_nodes


def require_values(
    signs: Signs,
    function: Expr,
    parts: Mapping[Expr, Expr],
    closed: Mapping[Expr, Expr] | None = None,
    domain_nodes: Collection[Expr] = (),
) -> None:
    """Raise `SignUnknown` unless each logarithm, root and quotient in ``function`` is proved to be defined in the
    declared ranges. Nodes without a symbol of ``parts`` and those in ``domain_nodes`` are not checked. ``parts`` maps
    each symbol to the expression it stands for.

    `closed` maps a symbol to another one whose declared range contains its ends, too.

    `domain_nodes` are the logarithms and roots to whose domains the ranges were narrowed.
    """
    closed = dict(closed or {})
    for node in sympy.postorder_traversal(function):
        if node in domain_nodes or node.free_symbols.isdisjoint(parts):
            continue
        if isinstance(node, sympy.log):
            sign = signs.of(node.args[0].xreplace(closed))
            require("domain", sign == ">", "no sign of {}", node.args[0].xreplace(dict(parts)))
        elif isinstance(node, sympy.Pow) and node.base is not S.Exp1:
            base, exponent = node.args
            printed_base = base.xreplace(dict(parts))
            if exponent.is_Integer:
                has_value = exponent > 0 or signs.of(base.xreplace(closed)) in (">", "<")
                require("pole", has_value, "no sign of {}", printed_base)
                continue
            is_root = exponent.free_symbols.isdisjoint(parts) and signs.of(exponent) == ">"
            sign = signs.of(base if is_root else base.xreplace(closed))
            require("domain", sign == ">", "no sign of {}", printed_base)
