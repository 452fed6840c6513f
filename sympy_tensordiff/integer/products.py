"""Products of variables, and quotients by them: what symbolic strides and sizes ``N*M`` need.

A `Product` such as ``M*i`` is one variable of an affine form, so that forms with symbolic strides
stay affine in their compounds; what is nonlinear about it is told to a system by the rows of
`product_rows`. A `SymbolicQuotient` such as ``floor(p/M)`` is what solves ``p = M*i + j`` with
``0 <= j < M`` (mixed radix); all divisors are positive, which whoever makes one has to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import gcd
from typing import Any

from .affine import Affine, Compound, Quotient, Row, Variable, quotient


class Product(Compound):
    """The integer ``v*w*...`` of two or more variables, in order; built by `times`."""

    __slots__ = ("factors",)
    rank = 1
    fields = ("factors",)

    def __init__(self, factors: tuple[Variable, ...]) -> None:
        self.factors = factors
        self._hash = hash(("product", factors))

    def key(self) -> tuple[Any, ...]:
        return len(self.factors), self.factors

    def forms(self) -> tuple[Affine, ...]:
        return tuple(map(Affine.variable, self.factors))

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        forms = [form.substitute(mapping) for form in self.forms()]
        if all(form.terms == ((f, 1),) and not form.constant for form, f in zip(forms, self.factors, strict=True)):
            return None
        return times(*forms)

    def evaluate(self, values: Mapping[Variable, int]) -> int:
        result = 1
        for f in self.factors:
            result *= f.evaluate(values) if isinstance(f, Compound) else values[f]
        return result

    def without(self, factor: Variable) -> Affine:
        """The product of the other factors."""
        rest = list(self.factors)
        rest.remove(factor)
        return _monomial(rest)

    def __repr__(self) -> str:
        return "*".join(map(str, self.factors))


class SymbolicQuotient(Compound):
    """The integer ``floor(form / divisor)`` by a form that is positive; built by `quotient_by`."""

    __slots__ = ("divisor", "form")
    rank = 2
    fields = ("form", "divisor")

    def __init__(self, form: Affine, divisor: Affine) -> None:
        self.form = form
        self.divisor = divisor
        self._hash = hash(("symbolic quotient", form, divisor))

    def key(self) -> tuple[Any, ...]:
        return self.divisor, self.form

    def forms(self) -> tuple[Affine, ...]:
        return self.form, self.divisor

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        form, divisor = self.form.substitute(mapping), self.divisor.substitute(mapping)
        return None if form is self.form and divisor is self.divisor else quotient_by(form, divisor)

    def evaluate(self, values: Mapping[Variable, int]) -> int:
        return self.form.evaluate(values) // self.divisor.evaluate(values)

    def definition(self) -> tuple[Row, ...]:
        """The rows ``0 <= form - divisor*self <= divisor - 1``."""
        rest = self.form - times(self.divisor, Affine.variable(self))
        return Row("ge", rest), Row("ge", self.divisor - 1 - rest)

    def share(self, others: Affine, divisor: int) -> Affine | None:
        """``floor((floor(f/d) + g)/m) = floor((f + d*g)/(d*m))``."""
        return quotient_by(self.form + times(self.divisor, others), self.divisor * divisor)

    def __repr__(self) -> str:
        return f"floor(({self.form})/({self.divisor}))"


def _monomial(factors: Sequence[Variable]) -> Affine:
    """The product of plain variables and compounds as a form."""
    return Affine.variable(_variable(factors)) if factors else Affine.of(1)


def _variable(factors: Sequence[Variable]) -> Variable:
    """The one factor, or the product of several."""
    return factors[0] if len(factors) == 1 else Product(tuple(sorted(factors)))


def _factors(variable: Variable) -> tuple[Variable, ...]:
    return variable.factors if isinstance(variable, Product) else (variable,)


def times(*forms: Affine) -> Affine:
    """The product of forms, multiplied out.

    >>> M, i, j = (Affine.variable(v) for v in "Mij")
    >>> times(M, i + 2 * j - 1), times(M + 1, M - 1)
    (-M + M*i + 2*M*j, M*M - 1)
    """
    result = Affine.of(1)
    for form in forms:
        left = [*((_factors(v), c) for v, c in result.terms), ((), result.constant)]
        right = [*((_factors(v), c) for v, c in form.terms), ((), form.constant)]
        terms: dict[Variable, int] = {}
        for f, b in left:
            for g, c in right:
                if b * c and (f or g):
                    v = _variable((*f, *g))
                    terms[v] = terms.get(v, 0) + b * c
        result = Affine(terms, result.constant * form.constant)
    return result


def quotient_by(form: Affine, divisor: Affine) -> Affine:
    """``floor(form / divisor)`` as a form; the divisor is positive.

    Terms that the divisor divides leave the quotient, and so does a common divisor of the numbers.

    >>> p, i, M, N = (Affine.variable(v) for v in "piMN")
    >>> quotient_by(p - times(M, N, i) + 3 * M, M)
    -N*i + floor((p)/(M)) + 3
    >>> quotient_by(quotient_by(p, M), N), quotient_by(2 * p + 1, 2 * M)
    (floor((p)/(M*N)), floor((p)/(M)))
    """
    if divisor.is_constant:
        if divisor.constant < 1:
            raise ValueError(f"the divisor {divisor.constant} is not positive")
        return quotient(form, divisor.constant)
    whole, form = divided(form, divisor)
    common = gcd(divisor.content(), divisor.constant, *(c for _, c in form.terms))
    if common > 1:  # floor((g*a + r) / (g*d)) = floor((a + floor(r/g)) / d)
        form, divisor = form.divided(common), divisor.divided(common)
        more, form = divided(form, divisor)
        whole += more
    if len(divisor.terms) == 1 and not divisor.constant:  # floor((3*n + p) / (2*n)) = floor((n + p) / (2*n)) + 1
        ((v, c),) = divisor.terms
        more = Affine.of(form.coefficient(v) // c)
        whole, form = whole + more, form - times(more, divisor)
    if form.is_constant and form.constant in (0, -1):  # -1 is -divisor at the least
        return whole + form.constant
    for v, c in form.terms:
        if c == 1 and isinstance(v, (Quotient, SymbolicQuotient)):
            others = form - Affine.variable(v)
            by = Affine.of(v.divisor)
            return whole + quotient_by(v.form + times(by, others), times(by, divisor))
    return whole + Affine.variable(SymbolicQuotient(form, divisor))


def divided(form: Affine, divisor: Affine) -> tuple[Affine, Affine]:
    """A quotient and a rest of fewer terms: ``form == quotient*divisor + rest``.

    >>> M, i, p = (Affine.variable(v) for v in "Mip")
    >>> divided(times(M + 2, i) + p, M + 2), divided(Affine.of(12), Affine.of(4))
    ((i, p), (3, 0))
    """
    whole = Affine()
    for part in parts_by(form, divisor):
        left = form + times(part, divisor)
        if _length(left) < _length(form):
            whole, form = whole - part, left
    return whole, form


def parts_by(form: Affine, divisor: Affine) -> list[Affine]:
    """For each term of ``form`` that the leading term of ``divisor`` divides: minus their quotient."""
    if divisor.is_constant:
        constant = divisor.constant
        parts = [Affine({v: -(c // constant)}) for v, c in form.terms if c % constant == 0]
        return parts + [Affine.of(-(form.constant // constant))] * (form.constant % constant == 0)
    lead, by = max(divisor.terms, key=lambda term: (len(_factors(term[0])), term))
    found = []
    for v, c in form.terms:
        rest = list(_factors(v))
        if c % by == 0 and all(_removed(rest, f) for f in _factors(lead)):
            found.append(_monomial(rest) * -(c // by))
    return found


def _removed(factors: list[Variable], factor: Variable) -> bool:
    if factor not in factors:
        return False
    factors.remove(factor)
    return True


def _length(form: Affine) -> int:
    return len(form.terms) + bool(form.constant)


def slope(form: Affine, variable: Variable) -> tuple[Affine, Affine] | None:
    """``(a, rest)`` with ``form == a*variable + rest`` and neither holding the variable; None where there are none.

    >>> M, i, p = (Affine.variable(v) for v in "Mip")
    >>> slope(p - times(M, i) - 2 * i, "i")
    (-M - 2, p)
    >>> slope(quotient(i + p, 2), "i") is None
    True
    """
    if variable not in form.hidden():
        return form.split(variable)
    factor, rest = Affine(), Affine(None, form.constant)
    for v, c in form.terms:
        if v == variable:
            factor += c
        elif isinstance(v, Compound) and variable in v.atoms():
            other = v.without(variable) if isinstance(v, Product) and variable in v.factors else None
            if other is None or variable in other.atoms():
                return None
            factor += other * c
        else:
            rest += Affine({v: c})
    return factor, rest


def quotients_in(form: Affine) -> list[Quotient | SymbolicQuotient]:
    """The quotients in a form, alone or as a factor of a product; those inside of others are not among them."""
    factors = (f for v, _ in form.terms for f in _factors(v))
    return [f for f in factors if isinstance(f, (Quotient, SymbolicQuotient))]


def factors_in(forms: Iterable[Affine]) -> list[Variable]:
    """The plain variables that are factors of products: of extents ``N*M`` the sizes, each of which is positive."""
    held = (f for form in forms for v, _ in form.terms if isinstance(v, Product) for f in v.factors)
    return list(dict.fromkeys(f for f in held if not isinstance(f, Compound)))


def product_rows(forms: Iterable[Affine], also: Iterable[Compound] = ()) -> list[Affine]:
    """What inequalities ``form >= 0`` say of the products in them and ``also`` of others, as inequalities.

    For a product ``v*w`` every row that holds ``v`` may be multiplied by ``w``, where the rows say
    that ``w`` is not negative (the first level of the reformulation-linearisation technique of
    Sherali & Adams 1990).

    >>> M, N, i = (Affine.variable(v) for v in "MNi")
    >>> product_rows([times(M, i), M - 1, N - 1 - i])
    [-M + M*N - M*i]
    """
    forms = list(forms)
    held = (v for form in forms for v, _ in form.terms)
    waiting = [v for v in dict.fromkeys(chain(held, also)) if isinstance(v, Product)]
    nonnegative = {form.terms[0][0] for form in forms if _is_lower_bound(form)}
    found: dict[Affine, None] = {}
    seen: set[Product] = set()
    while waiting:
        product = waiting.pop()
        seen.add(product)
        for v in dict.fromkeys(product.factors):
            rest = product.without(v)
            if nonnegative.issuperset(_factors(rest.terms[0][0])):
                rows = [times(rest, form) for form in forms if form.coefficient(v)]
                found.update(dict.fromkeys(rows))
                # The rows hold smaller products, of which something is known too.
                smaller = (w for row in rows for w, _ in row.terms if isinstance(w, Product))
                waiting += [w for w in smaller if len(w.factors) < len(product.factors) and w not in seen]
    return [form for form in found if form not in forms]


def _is_lower_bound(form: Affine) -> bool:
    return len(form.terms) == 1 and form.terms[0][1] > 0 and form.constant <= 0
