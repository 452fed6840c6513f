"""Signs of scalars over declared domains, by exact algebra over the rationals.

A sign is proved by the signs of terms and factors, by coefficients after a shift of each generator to its bound, by
counts of real roots (Sturm), by a discriminant, or by a value at an end and a derivative. SymPy's `simplify` is never
asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from sympy import Dummy, Expr, Poly, S
from sympy.polys.fields import FracField

from sympy_tensordiff.convex.generators import FREE, Generators, Range

MOST_OPERATIONS = 120
MOST_TERMS = 100
"""A scalar of more operations, or a polynomial of more terms, is given no sign: a refusal is to take no minutes."""

SHORT = 30
MOST_DERIVATIVES = 2
"""A longer polynomial is not differentiated for its sign; nor is one more often."""

_NO_GENERATOR = Dummy("none", real=True)


class Signs(Generators):
    """The signs of scalars whose generators have known ranges.

    Examples
    --------
    >>> import sympy
    >>> from sympy_tensordiff.convex.generators import POSITIVE
    >>> x, y = sympy.symbols("x y", real=True)
    >>> signs = Signs({x: POSITIVE})
    >>> signs.of(x**2 - 2*x + 1), signs.of(x + 1), signs.of(1 - x)
    ('>=', '>', None)
    >>> signs.of(sympy.exp(y)/(1 + sympy.exp(y)) - (sympy.exp(y)/(1 + sympy.exp(y)))**2)
    '>'
    >>> signs.of(sympy.exp(x) - 1 - x), signs.of(sympy.exp(x) - 1 - 2*x)
    ('>', None)
    """

    def __init__(self, ranges: Mapping[Any, Range]) -> None:
        super().__init__(ranges)
        self._signs: dict[Expr, str] = {}
        self._failed: dict[Expr, int] = {}
        self._fields: dict[tuple[Expr, ...], Any] = {}
        self._depth = 0

    def is_zero(self, scalar: Expr) -> bool:
        """Whether a scalar is 0 as a rational function of its generators."""
        form = self.form(scalar)
        return _effort(form) <= MOST_OPERATIONS and bool(self._fraction(form)[0] == 0)

    def quotient(self, form: Expr) -> tuple[Expr, Expr]:
        """Numerator and denominator without common factors, powers of roots reduced."""
        top, bottom = self._fraction(form)
        return top.as_expr(), bottom.as_expr()

    def _fraction(self, form: Expr) -> tuple[Any, Any]:
        """Both as polynomials of the ring of all generators that occur."""
        for root, (degree, base) in reversed(self._roots.items()):
            if root in form.free_symbols:
                top, bottom = (_reduced(part.as_expr(), root, degree, base) for part in self._fraction_of(form))
                form = top / bottom
        return self._fraction_of(form)

    def _fraction_of(self, form: Expr) -> tuple[Any, Any]:
        symbols = tuple(sorted(form.free_symbols, key=lambda s: s.dummy_index)) or (_NO_GENERATOR,)
        if symbols not in self._fields:
            self._fields[symbols] = FracField(symbols, sympy.QQ, sympy.lex)
        element = self._fields[symbols].from_expr(form)
        return element.numer, element.denom

    def factored(self, scalar: Expr) -> Expr:
        """A scalar as a quotient of products, where that is shorter."""
        top, bottom = (sympy.factor(part) for part in self.quotient(self.form(scalar)))
        found = self.written(top) / self.written(bottom)
        return found if found.count_ops() < scalar.count_ops() else scalar

    # ---------------------------------------------------------------- proofs

    def sign_of(self, form: Expr) -> str | None:
        """The sign of a form, where one is proved."""
        if form in self._signs:
            return self._signs[form]
        if self._depth >= self._failed.get(form, MOST_DERIVATIVES + 1):
            return None
        sign = self._by_terms(form) or self._by_factors(form)
        if sign:
            self._signs[form] = sign
        else:
            self._failed[form] = self._depth
        return sign

    def _by_terms(self, form: Expr) -> str | None:
        """The sign that terms and factors give at once."""
        if form.is_Rational:
            return "0" if form == 0 else ">" if form > 0 else "<"
        if form in self.ranges:
            return _sign_of_range(self.ranges[form])
        if isinstance(form, sympy.Pow) and form.exp.is_Integer:
            sign = self.sign_of(form.base)
            if form.exp % 2 == 0:
                return ">" if sign in (">", "<") or form.exp < 0 else "0" if sign == "0" else ">="
            return sign
        if isinstance(form, sympy.Mul):
            return _product([self._by_terms(a) for a in form.args])
        if isinstance(form, sympy.Add):
            return _sum([self._by_terms(a) for a in form.args])
        return None

    def _by_factors(self, form: Expr) -> str | None:
        if _effort(form) > MOST_OPERATIONS:
            return None
        top, bottom = self._fraction(form)
        if len(top) > MOST_TERMS:
            return None
        if top == 0:
            return "0"
        signs: list[str | None] = []
        for part in (top, bottom):
            number, factors = part.factor_list()
            signs.append(">" if number > 0 else "<")
            for factor, exponent in factors:
                sign = self._of_factor(factor.as_expr())
                if sign is None and exponent % 2:
                    return None
                if exponent % 2 == 0:
                    sign = ">" if sign in (">", "<") else ">="
                signs.append(sign)
        return _product(signs)

    def _of_factor(self, factor: Expr) -> str | None:
        """The sign of an irreducible polynomial."""
        ways = (self._by_terms, self._by_coefficients, self._by_roots, self._by_square, self._by_derivative)
        return next((sign for sign in (way(factor) for way in ways) if sign), None)

    def _by_coefficients(self, factor: Expr) -> str | None:
        """All terms of one sign, where each bounded generator counts from its bound."""
        shifts, counted, strict = {}, set(), set()
        for g in factor.free_symbols:
            known = self.ranges.get(g, FREE)
            if known.low is not None or known.high is not None:
                shifts[g] = known.low + g if known.low is not None else known.high - g
                counted.add(g)
                strict |= {g} if known.strict else set()
        shifted = Poly(factor.xreplace(shifts), *sorted(factor.free_symbols, key=sympy.default_sort_key))
        signs = []
        for exponents, coefficient in shifted.terms():
            used = [(g, e) for g, e in zip(shifted.gens, exponents, strict=True) if e]
            if any(e % 2 and g not in counted for g, e in used):
                return None
            positive = all(g in strict for g, _ in used)
            signs.append((">" if positive else ">=") if coefficient > 0 else ("<" if positive else "<="))
        return _sum(signs)

    def _by_roots(self, factor: Expr) -> str | None:
        """A polynomial of one generator has one sign where it has no root in the range."""
        if len(factor.free_symbols) != 1:
            return None
        (g,) = factor.free_symbols
        known, polynomial = self.ranges.get(g, FREE), Poly(factor, g)
        ends = [end for end in (known.low, known.high) if end is not None]
        inside = polynomial.count_roots(known.low, known.high) - sum(polynomial.eval(end) == 0 for end in set(ends))
        if inside:
            return None
        low, high = known.low, known.high
        if low is None or high is None:
            point = low + 1 if low is not None else high - 1 if high is not None else S.Zero
        else:
            point = (low + high) / 2
        at_end = not known.strict and any(polynomial.eval(end) == 0 for end in ends)
        return (">=" if at_end else ">") if polynomial.eval(point) > 0 else ("<=" if at_end else "<")

    def _by_square(self, factor: Expr) -> str | None:
        """A quadratic polynomial of one generator whose discriminant is not positive."""
        for g in sorted(factor.free_symbols, key=sympy.default_sort_key):
            polynomial = Poly(factor, g)
            if polynomial.degree() == 2:
                a, b, c = polynomial.all_coeffs()
                leading, below = self.sign_of(a), self.sign_of(4 * a * c - b**2)
                if leading in (">", "<") and below in (">", ">=", "0"):
                    return leading if below == ">" else leading + "="
        return None

    def _by_derivative(self, factor: Expr) -> str | None:
        """A function has, from an end of a range on, the sign of its derivative; a convex one is least at slope 0."""
        if self._depth == MOST_DERIVATIVES or len(factor.free_symbols) < 2 or factor.count_ops() > SHORT:
            return None
        self._depth += 1
        tries = (self._from_points(factor, g) for g in sorted(factor.free_symbols, key=lambda s: s.dummy_index))
        sign = next((sign for sign in tries if sign), None)
        self._depth -= 1
        return sign

    def _from_points(self, factor: Expr, g: Expr) -> str | None:
        """A sign by values at ends of the range of one generator, or at a least value where it is 0."""
        if not any(g in self._in(g, other).free_symbols for other in factor.free_symbols - {g}):
            return None
        low, high, strict = self.ranges[g]
        points = [(end, way) for end, way in ((low, 1), (high, -1)) if end is not None]
        if (low is None or low < 0) and (high is None or high > 0):
            points.append((S.Zero, 0))
        for point, way in points:
            value = self._value(factor, g, point)
            at_point = None if value is None else self.sign_of(value)
            if at_point is None:
                continue
            slope = self._derivative(factor, g)
            change = way * slope
            if way == 0 and self._value(slope, g, point) == 0:
                change = self._derivative(slope, g)
            sign = self.sign_of(change)
            if sign is not None and sign != "0" and (at_point == "0" or at_point[0] == sign[0]):
                is_strict = at_point in (">", "<") or (way != 0 and strict and len(sign) == 1)
                return sign[0] if is_strict else sign[0] + "="
        return None

    def _in(self, g: Expr, form: Expr) -> Expr:
        """A form with exponentials, logarithms and roots as functions of one generator and of others that are none."""
        while names := {o: self.functions[o] for o in form.free_symbols - {g} if o in self.functions}:
            form = form.xreplace(names)
        return form

    def _derivative(self, form: Expr, g: Expr) -> Expr:
        """The derivative of a form by a generator."""
        return self.form(sympy.diff(self._in(g, form), g))

    def _value(self, form: Expr, g: Expr, end: Expr) -> Expr | None:
        """The value of a form where a generator has a value, if what depends on that is rational."""
        functions = {other: self._in(g, other) for other in form.free_symbols}
        values = {o: function.xreplace({g: end}) for o, function in functions.items() if g in function.free_symbols}
        if not all(value.is_Rational for value in values.values()):
            return None
        value = form.xreplace(values)
        return None if value.has(sympy.nan, sympy.zoo) else value


def _effort(form: Expr) -> int:
    """Operations of a form, where a power counts as products."""
    return int(form.count_ops()) + sum(abs(int(p.exp)) for p in form.atoms(sympy.Pow) if p.exp.is_Integer)


def _reduced(polynomial: Expr, root: Expr, degree: int, base: Expr) -> Expr:
    """Powers of a root of at least its degree, written with what it is a root of."""
    if root not in polynomial.free_symbols:
        return polynomial
    terms = Poly(polynomial, root).terms()
    return sympy.Add(*(c * base ** (e // degree) * root ** (e % degree) for (e,), c in terms))


def _sign_of_range(known: Range) -> str | None:
    low, high, strict = known
    if low == high == 0:
        return "0"
    if low is not None and low >= 0:
        return ">" if strict or low > 0 else ">="
    if high is not None and high <= 0:
        return "<" if strict or high < 0 else "<="
    return None


def _product(signs: Sequence[str | None]) -> str | None:
    if "0" in signs:
        return "0"
    if None in signs:
        return None
    negative = sum(s[0] == "<" for s in signs if s) % 2
    return ("<" if negative else ">") + ("=" if any(len(s) > 1 for s in signs if s) else "")


def _sum(signs: Sequence[str | None]) -> str | None:
    directions = {s[0] if s else None for s in signs if s != "0"}
    if not directions:
        return "0"
    if len(directions) > 1 or None in directions:
        return None
    (direction,) = directions
    return str(direction) + ("" if direction in signs else "=")
