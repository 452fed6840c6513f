"""Signs of scalars over declared domains, by exact algebra over the rationals.

A sign is proved by the signs of terms and factors, by coefficients after a shift of each generator to its bound, by
counts of real roots (Sturm), by a discriminant, or by a value at an end and a derivative. SymPy's `simplify` is never
used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from sympy import Dummy, Expr, Poly, S
from sympy.polys.fields import FracField

from sympy_tensordiff.convex.generators import FREE, Generators
from sympy_tensordiff.functions.table import Interval

MAX_OPERATIONS = 120
MAX_TERMS = 100
"""Size limits of a scalar and of a polynomial beyond which no sign is proved: a failure must not take minutes."""

MAX_DIFFERENTIATED_OPERATIONS = 30
MAX_DERIVATIVES = 2
"""Longer polynomials are not differentiated for their sign, and none more often than this."""

_NO_GENERATOR = Dummy("none", real=True)


class Signs(Generators):
    """Proves signs of scalars, by exact algebra on rational functions of generators (symbols for entries, exponentials
    and so on) with known ranges.

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

    def __init__(self, ranges: Mapping[Any, Interval]) -> None:
        super().__init__(ranges)
        self._signs: dict[Expr, str] = {}
        self._failed: dict[Expr, int] = {}
        self._fields: dict[tuple[Expr, ...], Any] = {}
        self._depth = 0

    def is_zero(self, scalar: Expr) -> bool:
        """Return whether ``scalar`` is proved to be 0 everywhere; False if a proof would take too long."""
        form = self.form(scalar)
        return _operation_count(form) <= MAX_OPERATIONS and bool(self._reduced_fraction(form)[0] == 0)

    def quotient(self, form: Expr) -> tuple[Expr, Expr]:
        """Return ``(numerator, denominator)`` of the rational function ``form``, without common factors; powers of
        roots such as ``(x**(1/2))**2`` are reduced.
        """
        top, bottom = self._reduced_fraction(form)
        return top.as_expr(), bottom.as_expr()

    def _reduced_fraction(self, form: Expr) -> tuple[Any, Any]:
        """Return ``(numerator, denominator)`` of the rational function ``form`` as polynomials, in which powers of
        roots, ``(x**(1/2))**2``, are replaced by their base.
        """
        for root, (degree, base) in reversed(self._roots.items()):
            if root in form.free_symbols:
                top, bottom = (
                    _reduce_root_powers(part.as_expr(), root, degree, base) for part in self._plain_fraction(form)
                )
                form = top / bottom
        return self._plain_fraction(form)

    def _plain_fraction(self, form: Expr) -> tuple[Any, Any]:
        """Return ``(numerator, denominator)`` of the rational function ``form``: polynomials without common factors."""
        symbols = tuple(sorted(form.free_symbols, key=lambda s: s.dummy_index)) or (_NO_GENERATOR,)
        if symbols not in self._fields:
            self._fields[symbols] = FracField(symbols, sympy.QQ, sympy.lex)
        element = self._fields[symbols].from_expr(form)
        return element.numer, element.denom

    def factored(self, scalar: Expr) -> Expr:
        """Return ``scalar`` as a quotient of factored polynomials if that is shorter, else unchanged."""
        top, bottom = (sympy.factor(part) for part in self.quotient(self.form(scalar)))
        found = self.to_expression(top) / self.to_expression(bottom)
        return found if found.count_ops() < scalar.count_ops() else scalar

    # ---------------------------------------------------------------- proofs

    def sign_of(self, form: Expr) -> str | None:
        """Return the sign of the rational function ``form``, such as ``'>'``, or None if none is proved; results are
        cached.
        """
        if form in self._signs:
            return self._signs[form]
        if self._depth >= self._failed.get(form, MAX_DERIVATIVES + 1):
            return None
        sign = self._sign_by_terms(form) or self._sign_by_factors(form)
        if sign:
            self._signs[form] = sign
        else:
            self._failed[form] = self._depth
        return sign

    def _sign_by_terms(self, form: Expr) -> str | None:
        """Return the sign of the rational function ``form`` that the signs of its terms and factors imply; None if they
        do not imply one.
        """
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
            return _sign_of_product([self._sign_by_terms(a) for a in form.args])
        if isinstance(form, sympy.Add):
            return _sign_of_sum([self._sign_by_terms(a) for a in form.args])
        return None

    def _sign_by_factors(self, form: Expr) -> str | None:
        """Return the sign of the rational function ``form`` that the irreducible factors of its numerator and
        denominator imply; None if they do not imply one.
        """
        if _operation_count(form) > MAX_OPERATIONS:
            return None
        top, bottom = self._reduced_fraction(form)
        if len(top) > MAX_TERMS:
            return None
        if top == 0:
            return "0"
        signs: list[str | None] = []
        for part in (top, bottom):
            number, factors = part.factor_list()
            signs.append(">" if number > 0 else "<")
            for factor, exponent in factors:
                sign = self._sign_of_factor(factor.as_expr())
                if sign is None and exponent % 2:
                    return None
                if exponent % 2 == 0:
                    sign = ">" if sign in (">", "<") else ">="
                signs.append(sign)
        return _sign_of_product(signs)

    def _sign_of_factor(self, factor: Expr) -> str | None:
        """Return the sign of the irreducible polynomial ``factor`` by the first method that proves one; None if none
        does.
        """
        methods = (
            self._sign_by_terms,
            self._sign_by_coefficients,
            self._sign_by_roots,
            self._sign_by_discriminant,
            self._sign_by_derivative,
        )
        return next((sign for sign in (method(factor) for method in methods) if sign), None)

    def _sign_by_coefficients(self, factor: Expr) -> str | None:
        """Return the sign of the polynomial `factor` (">", ">=", "<" or "<=") if all its coefficients agree once each
        bounded variable is replaced by its distance from the bound, such as ``x - 1`` for ``x > 1``; else None.

        Variables without bounds may have even exponents only.
        """
        shifts, counted, strict = {}, set(), set()
        for g in factor.free_symbols:
            interval = self.ranges.get(g, FREE)
            if interval.low is not None or interval.high is not None:
                shifts[g] = interval.low + g if interval.low is not None else interval.high - g
                counted.add(g)
                strict |= {g} if interval.is_open else set()
        shifted = Poly(factor.xreplace(shifts), *sorted(factor.free_symbols, key=sympy.default_sort_key))
        signs = []
        for exponents, coefficient in shifted.terms():
            used = [(g, e) for g, e in zip(shifted.gens, exponents, strict=True) if e]
            if any(e % 2 and g not in counted for g, e in used):
                return None
            positive = all(g in strict for g, _ in used)
            signs.append((">" if positive else ">=") if coefficient > 0 else ("<" if positive else "<="))
        return _sign_of_sum(signs)

    def _sign_by_roots(self, factor: Expr) -> str | None:
        """Return the sign of the polynomial `factor` (">", ">=", "<" or "<=") if it has one variable, and no root
        inside of the range of this variable (by Sturm's theorem); else None.
        """
        if len(factor.free_symbols) != 1:
            return None
        (g,) = factor.free_symbols
        interval, polynomial = self.ranges.get(g, FREE), Poly(factor, g)
        ends = [end for end in (interval.low, interval.high) if end is not None]
        inside = polynomial.count_roots(interval.low, interval.high) - sum(
            polynomial.eval(end) == 0 for end in set(ends)
        )
        if inside:
            return None
        low, high = interval.low, interval.high
        if low is None or high is None:
            point = low + 1 if low is not None else high - 1 if high is not None else S.Zero
        else:
            point = (low + high) / 2
        at_end = not interval.is_open and any(polynomial.eval(end) == 0 for end in ends)
        return (">=" if at_end else ">") if polynomial.eval(point) > 0 else ("<=" if at_end else "<")

    def _sign_by_discriminant(self, factor: Expr) -> str | None:
        """Return the sign of ``factor``, if it is quadratic in some variable and has no two different zeros because its
        discriminant is never positive; None for other polynomials.
        """
        for g in sorted(factor.free_symbols, key=sympy.default_sort_key):
            polynomial = Poly(factor, g)
            if polynomial.degree() == 2:
                a, b, c = polynomial.all_coeffs()
                leading, below = self.sign_of(a), self.sign_of(4 * a * c - b**2)
                if leading in (">", "<") and below in (">", ">=", "0"):
                    return leading if below == ">" else leading + "="
        return None

    def _sign_by_derivative(self, factor: Expr) -> str | None:
        """Return the sign of ``factor``, if its value at an end of the range of one of its symbols, and the sign of its
        derivative with respect to this symbol, prove it; else None.
        """
        if (
            self._depth == MAX_DERIVATIVES
            or len(factor.free_symbols) < 2
            or factor.count_ops() > MAX_DIFFERENTIATED_OPERATIONS
        ):
            return None
        self._depth += 1
        tries = (
            self._sign_from_end_points(factor, g) for g in sorted(factor.free_symbols, key=lambda s: s.dummy_index)
        )
        sign = next((sign for sign in tries if sign), None)
        self._depth -= 1
        return sign

    def _sign_from_end_points(self, factor: Expr, g: Expr) -> str | None:
        """Return the sign of ``factor``, such as ">=", if its value at one point and its slope in ``g`` prove it: if it
        is positive at the lower end of the range of ``g`` and grows with ``g``, it is positive. Return None without a
        proof.

        The slope is that with respect to the symbol ``g``, and the point is 0 or an end of its range.
        """
        if not any(g in self._in_terms_of(g, other).free_symbols for other in factor.free_symbols - {g}):
            return None
        low, high, strict = self.ranges[g]
        points = [(end, direction) for end, direction in ((low, 1), (high, -1)) if end is not None]
        if (low is None or low < 0) and (high is None or high > 0):
            points.append((S.Zero, 0))
        for point, direction in points:
            value = self._value(factor, g, point)
            at_point = None if value is None else self.sign_of(value)
            if at_point is None:
                continue
            slope = self._derivative(factor, g)
            change = direction * slope
            if direction == 0 and self._value(slope, g, point) == 0:
                change = self._derivative(slope, g)
            sign = self.sign_of(change)
            if sign is not None and sign != "0" and (at_point == "0" or at_point[0] == sign[0]):
                is_strict = at_point in (">", "<") or (direction != 0 and strict and len(sign) == 1)
                return sign[0] if is_strict else sign[0] + "="
        return None

    def _in_terms_of(self, g: Expr, form: Expr) -> Expr:
        """Return the rational function ``form`` with each symbol for an exponential, logarithm or root replaced by its
        formula, except ``g``. The result contains only ``g`` and symbols for entries.
        """
        while names := {o: self.functions[o] for o in form.free_symbols - {g} if o in self.functions}:
            form = form.xreplace(names)
        return form

    def _derivative(self, form: Expr, g: Expr) -> Expr:
        """Return the derivative of the rational function ``form`` with respect to the symbol ``g``, including the
        derivatives of symbols that stand for functions of ``g``.
        """
        return self.form(sympy.diff(self._in_terms_of(g, form), g))

    def _value(self, form: Expr, g: Expr, end: Expr) -> Expr | None:
        """Return the value of the rational function ``form`` where the symbol ``g`` has the value ``end``; None if it
        has no value there.

        None, too, if a symbol in it that depends on ``g`` is irrational there.
        """
        functions = {other: self._in_terms_of(g, other) for other in form.free_symbols}
        values = {o: function.xreplace({g: end}) for o, function in functions.items() if g in function.free_symbols}
        if not all(value.is_Rational for value in values.values()):
            return None
        value = form.xreplace(values)
        return None if value.has(sympy.nan, sympy.zoo) else value


def _operation_count(form: Expr) -> int:
    """Return the number of operations in the scalar ``form``; an integer power ``x**n`` counts as n products."""
    return int(form.count_ops()) + sum(abs(int(p.exp)) for p in form.atoms(sympy.Pow) if p.exp.is_Integer)


def _reduce_root_powers(polynomial: Expr, root: Expr, degree: int, base: Expr) -> Expr:
    """Replace ``root**degree`` by ``base`` in `polynomial`, where ``root`` is a symbol for ``base**(1/degree)``."""
    if root not in polynomial.free_symbols:
        return polynomial
    terms = Poly(polynomial, root).terms()
    return sympy.Add(*(c * base ** (e // degree) * root ** (e % degree) for (e,), c in terms))


def _sign_of_range(interval: Interval) -> str | None:
    """Return the sign that all numbers in ``interval`` have; None if they have different ones."""
    low, high, strict = interval
    if low == high == 0:
        return "0"
    if low is not None and low >= 0:
        return ">" if strict or low > 0 else ">="
    if high is not None and high <= 0:
        return "<" if strict or high < 0 else "<="
    return None


def _sign_of_product(signs: Sequence[str | None]) -> str | None:
    """Return the sign of a product (">", ">=", "<", "<=" or "0") whose factors have the given ``signs``: "0" if one
    factor is 0, else None if the sign of one is unknown.
    """
    if "0" in signs:
        return "0"
    if None in signs:
        return None
    negative = sum(s[0] == "<" for s in signs if s) % 2
    return ("<" if negative else ">") + ("=" if any(len(s) > 1 for s in signs if s) else "")


def _sign_of_sum(signs: Sequence[str | None]) -> str | None:
    """Return the sign of a sum of terms with these signs; None if they differ or a term has none."""
    directions = {s[0] if s else None for s in signs if s != "0"}
    if not directions:
        return "0"
    if len(directions) > 1 or None in directions:
        return None
    (direction,) = directions
    return str(direction) + ("" if direction in signs else "=")
