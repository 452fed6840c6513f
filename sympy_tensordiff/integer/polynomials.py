"""Polynomials in sizes, and their asymptotic growth if all sizes are large and independent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TypeAlias

from .affine import Affine, Quotient, Variable
from .products import IndexProduct

Monomial: TypeAlias = tuple[tuple[Variable, int], ...]
"""A product of powers: variables with their exponents, in order."""

Growth: TypeAlias = frozenset[Monomial]
"""The growth of a polynomial: its monomials that do not divide another one."""


class Polynomial:
    """A polynomial in integer variables with rational coefficients; immutable.

    `terms` maps monomials to coefficients; zeros are dropped.

    Examples
    --------
    >>> n, m = (Polynomial.of(Affine.variable(name)) for name in "nm")
    >>> n * n * m + 2 * m
    m*n**2 + 2*m
    >>> (n * n * m + 2 * m).evaluate(lambda variable: 10)
    Fraction(1020, 1)
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, Fraction | int] | None = None) -> None:
        self.terms: dict[Monomial, Fraction | int] = {m: c for m, c in (terms or {}).items() if c}

    @staticmethod
    def of(form: Affine | int) -> Polynomial:
        """Return a form as a polynomial: products are multiplied out, and ``floor(i/2)`` is replaced by i/2."""
        if isinstance(form, int):
            return Polynomial({(): form})
        total = Polynomial({(): form.constant})
        for variable, coefficient in form.terms:
            total += _of_variable(variable) * coefficient
        return total

    def __add__(self, other: Polynomial | int) -> Polynomial:
        terms = dict(self.terms)
        for monomial, coefficient in _as_polynomial(other).terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Polynomial(terms)

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + _as_polynomial(other) * -1

    def __mul__(self, other: Polynomial | Fraction | int) -> Polynomial:
        terms: dict[Monomial, Fraction | int] = {}
        for one, a in self.terms.items():
            for two, b in _as_polynomial(other).terms.items():
                product = _multiply_monomials(one, two)
                terms[product] = terms.get(product, 0) + a * b
        return Polynomial(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def evaluate(self, value: Callable[[Variable], int]) -> Fraction:
        """Return the value of the polynomial, where each variable ``v`` has the integer value ``value(v)``."""
        total = Fraction(0)
        for monomial, coefficient in self.terms.items():
            product = Fraction(coefficient)
            for variable, exponent in monomial:
                product *= value(variable) ** exponent
            total += product
        return total

    @property
    def growth(self) -> Growth:
        """The monomials that dominate for large sizes: those with a positive coefficient that divide no other one, n**2
        and m*n for ``n**2 + m*n + n + 7``.

        >>> n, m = (Polynomial.of(Affine.variable(name)) for name in "nm")
        >>> sorted((n * n + n * m + m + 7).growth)
        [(('m', 1), ('n', 1)), (('n', 2),)]
        """
        return maximal(monomial for monomial, coefficient in self.terms.items() if coefficient > 0)

    def __repr__(self) -> str:
        parts = []
        for monomial, coefficient in sorted(self.terms.items(), key=lambda term: (-degree(term[0]), repr(term[0]))):
            factors = [f"{v}**{e}" if e > 1 else f"{v}" for v, e in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, f"{abs(coefficient)}")
            parts.append((" - " if coefficient < 0 else " + ") + "*".join(factors))
        text = "".join(parts) or " + 0"
        return text[3:] if text.startswith(" + ") else "-" + text[3:]


def maximal(monomials: Iterable[Monomial]) -> Growth:
    """Return ``monomials`` without those that divide another one: of n, n**2 and m, the monomials n**2 and m."""
    result: list[Monomial] = []
    for monomial in sorted(set(monomials), key=degree, reverse=True):
        if not any(divides(monomial, other) for other in result):
            result.append(monomial)
    return frozenset(result)


def grows_faster(one: Growth, other: Growth) -> bool:
    """Return whether a polynomial with the leading monomials ``one`` may grow faster than one with the leading
    monomials ``other``: some monomial in ``one`` divides none in ``other``, as ``n**2`` does not divide ``n*m``.

    >>> n, m = (Polynomial.of(Affine.variable(name)) for name in "nm")
    >>> grows_faster((n * n).growth, (n * m).growth), grows_faster(n.growth, (n * m).growth)
    (True, False)
    """
    return any(not any(divides(monomial, bound) for bound in other) for monomial in one)


def divides(one: Monomial, other: Monomial) -> bool:
    """Return whether the monomial ``one`` divides ``other``: no exponent is greater."""
    exponents = dict(other)
    return all(exponent <= exponents.get(variable, 0) for variable, exponent in one)


def degree(monomial: Monomial) -> int:
    """Return the sum of the exponents of a monomial."""
    return sum(exponent for _, exponent in monomial)


def _as_polynomial(value: Polynomial | Fraction | int) -> Polynomial:
    """Return ``value`` as a polynomial: a number as a constant one, a polynomial unchanged."""
    return value if isinstance(value, Polynomial) else Polynomial({(): value})


def _of_variable(variable: Variable) -> Polynomial:
    """Return a variable of a form as a polynomial: a product of integers multiplied out, ``floor(i/2)`` as the fraction
    i/2, and any other variable as itself.
    """
    if isinstance(variable, IndexProduct):
        total = Polynomial({(): 1})
        for factor in variable.factors:
            total *= _of_variable(factor)
        return total
    if isinstance(variable, Quotient):
        return Polynomial.of(variable.form) * Fraction(1, variable.divisor)
    return Polynomial({((variable, 1),): 1})


def _multiply_monomials(one: Monomial, other: Monomial) -> Monomial:
    """Return the product of the monomials ``one`` and ``other``, with equal variables joined and in order."""
    if not one or not other:
        return one or other
    exponents = dict(one)
    for variable, exponent in other:
        exponents[variable] = exponents.get(variable, 0) + exponent
    return tuple(sorted(exponents.items()))
