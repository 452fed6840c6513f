"""Products of variables, and quotients by them, as in symbolic strides and sizes ``N*M``.

A `IndexProduct` such as ``M*i`` is one variable of an affine form, so that forms with symbolic strides
stay affine in their compounds; a system learns about products by the inequalities of
`product_rows`. A `SymbolicQuotient` such as ``floor(p/M)`` solves ``p = M*i + j`` with
``0 <= j < M`` (mixed radix); all divisors are positive, which the caller has to ensure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import gcd
from typing import Any

from .affine import Affine, Compound, Constraint, Quotient, Variable, quotient


class IndexProduct(Compound):
    """The product ``v*w*...`` of several integer variables, which counts as one variable of a form; built by
    `times`.
    """

    __slots__ = ("factors",)
    rank = 1
    fields = ("factors",)

    def __init__(self, factors: tuple[Variable, ...]) -> None:
        self.factors = factors
        self._hash = hash(("product", factors))

    def key(self) -> tuple[Any, ...]:
        """Return the sort key ``(number of factors, factors)``, by which products are ordered."""
        return len(self.factors), self.factors

    def forms(self) -> tuple[Affine, ...]:
        """Return the factors of the product as affine forms."""
        return tuple(map(Affine.variable, self.factors))

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        """Return the product with variables in its factors replaced as ``mapping`` says; None if no factor changes."""
        forms = [form.substitute(mapping) for form in self.forms()]
        if all(form.terms == ((f, 1),) and not form.constant for form, f in zip(forms, self.factors, strict=True)):
            return None
        return times(*forms)

    def evaluate(self, values: Mapping[Variable, int]) -> int:
        """Return the integer value of the product, given the ``values`` of the variables in it: 6 for ``n*i`` with
        ``{n: 3, i: 2}``.
        """
        result = 1
        for f in self.factors:
            result *= f.evaluate(values) if isinstance(f, Compound) else values[f]
        return result

    def without(self, factor: Variable) -> Affine:
        """Return the product with one ``factor`` left out, as a form: v for ``v*w`` and w."""
        rest = list(self.factors)
        rest.remove(factor)
        return _monomial(rest)

    def __repr__(self) -> str:
        return "*".join(map(str, self.factors))


class SymbolicQuotient(Compound):
    """The integer ``floor(form / divisor)``, where the divisor is itself an affine form, and positive; built by
    `quotient_by`.
    """

    __slots__ = ("divisor", "form")
    rank = 2
    fields = ("form", "divisor")

    def __init__(self, form: Affine, divisor: Affine) -> None:
        self.form = form
        self.divisor = divisor
        self._hash = hash(("symbolic quotient", form, divisor))

    def key(self) -> tuple[Any, ...]:
        """Return ``(divisor, form)`` of a quotient ``form//divisor``, by which such quotients are sorted."""
        return self.divisor, self.form

    def forms(self) -> tuple[Affine, ...]:
        """Return the dividend and the divisor as forms."""
        return self.form, self.divisor

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        """Return the quotient with variables in its two forms replaced by ``mapping``; None if they contain none of
        them.
        """
        form, divisor = self.form.substitute(mapping), self.divisor.substitute(mapping)
        return None if form is self.form and divisor is self.divisor else quotient_by(form, divisor)

    def evaluate(self, values: Mapping[Variable, int]) -> int:
        """Return ``floor(form/divisor)`` at integer ``values`` of all plain variables."""
        return self.form.evaluate(values) // self.divisor.evaluate(values)

    def definition(self) -> tuple[Constraint, ...]:
        """Return the constraints that define the quotient ``q = floor(form/divisor)``: ``0 <= form - divisor*q`` and
        ``form - divisor*q <= divisor - 1``.
        """
        rest = self.form - times(self.divisor, Affine.variable(self))
        return Constraint("ge", rest), Constraint("ge", self.divisor - 1 - rest)

    def floor_of_sum(self, others: Affine, divisor: int) -> Affine | None:
        """Return ``floor((self + others)/divisor)`` as a single quotient: ``floor((floor(f/d) + g)/m)`` is
        ``floor((f + d*g)/(d*m))``.
        """
        return quotient_by(self.form + times(self.divisor, others), self.divisor * divisor)

    def __repr__(self) -> str:
        return f"floor(({self.form})/({self.divisor}))"


def _monomial(factors: Sequence[Variable]) -> Affine:
    """Return the product of the variables ``factors`` as an affine form; 1 without factors."""
    return Affine.variable(_product_variable(factors)) if factors else Affine.of(1)


def _product_variable(factors: Sequence[Variable]) -> Variable:
    """Return the only factor, or the `IndexProduct` of several."""
    return factors[0] if len(factors) == 1 else IndexProduct(tuple(sorted(factors)))


def _factors(variable: Variable) -> tuple[Variable, ...]:
    """Return the factors of a product, or the variable itself as the only one."""
    return variable.factors if isinstance(variable, IndexProduct) else (variable,)


def times(*forms: Affine) -> Affine:
    """Return the product of forms, multiplied out.

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
                    v = _product_variable((*f, *g))
                    terms[v] = terms.get(v, 0) + b * c
        result = Affine(terms, result.constant * form.constant)
    return result


def quotient_by(form: Affine, divisor: Affine) -> Affine:
    """Return ``floor(form / divisor)`` as a form; the divisor must be positive.

    Terms that the divisor divides are moved out of the floor, and common factors of the numbers are cancelled.

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
    whole, form = divide_with_rest(form, divisor)
    common = gcd(divisor.content(), divisor.constant, *(c for _, c in form.terms))
    if common > 1:  # floor((g*a + r) / (g*d)) = floor((a + floor(r/g)) / d)
        form, divisor = form.divided(common), divisor.divided(common)
        extra, form = divide_with_rest(form, divisor)
        whole += extra
    if len(divisor.terms) == 1 and not divisor.constant:  # floor((3*n + p) / (2*n)) = floor((n + p) / (2*n)) + 1
        ((v, c),) = divisor.terms
        extra = Affine.of(form.coefficient(v) // c)
        whole, form = whole + extra, form - times(extra, divisor)
    if form.is_constant and form.constant in (0, -1):  # -1 is -divisor at the least
        return whole + form.constant
    for v, c in form.terms:
        if c == 1 and isinstance(v, (Quotient, SymbolicQuotient)):
            others = form - Affine.variable(v)
            by = Affine.of(v.divisor)
            return whole + quotient_by(v.form + times(by, others), times(by, divisor))
    return whole + Affine.variable(SymbolicQuotient(form, divisor))


def divide_with_rest(form: Affine, divisor: Affine) -> tuple[Affine, Affine]:
    """Return ``(quotient, rest)`` with ``form == quotient*divisor + rest``, by polynomial division as long as the rest
    gets shorter.

    >>> M, i, p = (Affine.variable(v) for v in "Mip")
    >>> divide_with_rest(times(M + 2, i) + p, M + 2), divide_with_rest(Affine.of(12), Affine.of(4))
    ((i, p), (3, 0))
    """
    whole = Affine()
    for negated in negated_partial_quotients(form, divisor):
        shorter = form + times(negated, divisor)
        if _number_of_terms(shorter) < _number_of_terms(form):
            whole, form = whole - negated, shorter
    return whole, form


def negated_partial_quotients(form: Affine, divisor: Affine) -> list[Affine]:
    """Return factors of ``divisor`` for one step of polynomial division: adding ``factor*divisor`` to ``form`` cancels
    one term of it. They are ``-term/lead`` for each term of ``form`` that is divisible by ``lead``, the leading term of
    ``divisor``.
    """
    if divisor.is_constant:
        constant = divisor.constant
        parts = [Affine({v: -(c // constant)}) for v, c in form.terms if c % constant == 0]
        return parts + [Affine.of(-(form.constant // constant))] * (form.constant % constant == 0)
    lead, leading_coefficient = max(divisor.terms, key=lambda term: (len(_factors(term[0])), term))
    result = []
    for v, c in form.terms:
        rest = list(_factors(v))
        if c % leading_coefficient == 0 and all(_remove(rest, f) for f in _factors(lead)):
            result.append(_monomial(rest) * -(c // leading_coefficient))
    return result


def _remove(factors: list[Variable], factor: Variable) -> bool:
    """Remove ``factor`` once from the list ``factors``; return False if the list does not contain it."""
    if factor not in factors:
        return False
    factors.remove(factor)
    return True


def _number_of_terms(form: Affine) -> int:
    """Return the number of terms of a form, a non-zero constant included."""
    return len(form.terms) + bool(form.constant)


def slope(form: Affine, variable: Variable) -> tuple[Affine, Affine] | None:
    """Return ``(a, rest)`` with ``form == a*variable + rest``, where neither contains the variable. None if ``form`` is
    not linear in it.

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
            other = v.without(variable) if isinstance(v, IndexProduct) and variable in v.factors else None
            if other is None or variable in other.atoms():
                return None
            factor += other * c
        else:
            rest += Affine({v: c})
    return factor, rest


def quotients_in(form: Affine) -> list[Quotient | SymbolicQuotient]:
    """Return the quotients that are variables of the form, or factors of its products; quotients nested in others are
    left out.
    """
    factors = (f for v, _ in form.terms for f in _factors(v))
    return [f for f in factors if isinstance(f, (Quotient, SymbolicQuotient))]


def factors_of_products(forms: Iterable[Affine]) -> list[Variable]:
    """Return the variables that occur as factors of products, such as ``N*M``, in ``forms``, each once. Factors that
    are floors or other compounds are left out.

    In products of sizes such as ``N*M`` all of them are positive.
    """
    factors = (f for form in forms for v, _ in form.terms if isinstance(v, IndexProduct) for f in v.factors)
    return list(dict.fromkeys(f for f in factors if not isinstance(f, Compound)))


def product_rows(forms: Iterable[Affine], also: Iterable[Compound] = ()) -> list[Affine]:
    """Return inequalities with products of variables that follow from ``form >= 0`` for all ``forms``: ``M*N - M - M*i
    >= 0`` follows from ``N - 1 - i >= 0`` and ``M >= 0``. Each is given by its form.

    Only products in `forms` or in `also` are bounded.

    For a product ``v*w`` every inequality with ``v`` may be multiplied by ``w`` if another one says that ``w`` is not
    negative (the first level of the reformulation-linearisation technique of Sherali & Adams 1990).

    >>> M, N, i = (Affine.variable(v) for v in "MNi")
    >>> product_rows([times(M, i), M - 1, N - 1 - i])
    [-M + M*N - M*i]
    """
    forms = list(forms)
    variables = (v for form in forms for v, _ in form.terms)
    waiting = [v for v in dict.fromkeys(chain(variables, also)) if isinstance(v, IndexProduct)]
    nonnegative = {form.terms[0][0] for form in forms if _is_lower_bound(form)}
    result: dict[Affine, None] = {}
    seen: set[IndexProduct] = set()
    while waiting:
        product = waiting.pop()
        seen.add(product)
        for v in dict.fromkeys(product.factors):
            rest = product.without(v)
            if nonnegative.issuperset(_factors(rest.terms[0][0])):
                rows = [times(rest, form) for form in forms if form.coefficient(v)]
                result.update(dict.fromkeys(rows))
                # The new rows contain smaller products, which are multiplied out in turn.
                smaller = (w for row in rows for w, _ in row.terms if isinstance(w, IndexProduct))
                waiting += [w for w in smaller if len(w.factors) < len(product.factors) and w not in seen]
    return [form for form in result if form not in forms]


def _is_lower_bound(form: Affine) -> bool:
    """Return whether ``form >= 0`` implies ``v >= 0`` for its only variable ``v``, as ``v >= 0`` and ``v - 1 >= 0`` do.
    The form has one term, with a positive coefficient, and no positive constant.
    """
    return len(form.terms) == 1 and form.terms[0][1] > 0 and form.constant <= 0
