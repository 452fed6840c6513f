"""Affine forms over the integers, floor quotients of them, and constraints on them (`Constraint`).

A *variable* is any hashable, orderable key (the graph uses integers, the loop nests use
strings) or a `Compound`: an integer that is not affine in its variables, such as the `Quotient`
``floor(form / divisor)`` or a `Product` of symbolic sizes. All values are exact integers and
immutable; forms compare and hash by value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import Any, Literal, NamedTuple, TypeAlias

Variable: TypeAlias = Any
Kind = Literal["ge", "eq", "mod"]


class Compound:
    """A nonlinear integer, such as ``floor(i/2)``, ``n*i``, ``max(0, i)`` or ``idx[i]``, which counts as one variable
    of an `Affine` form.
    """

    __slots__ = ("_hash",)
    rank: int
    """The position of compounds of this class in the order of the terms of a form."""
    fields: tuple[str, ...]
    """The names of the constructor's arguments, in order."""
    _hash: int

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.key() == other.key()

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple([getattr(self, name) for name in self.fields])

    def key(self) -> tuple[Any, ...]:
        """Return a tuple by which nonlinear integers of one class are ordered and compared."""
        raise NotImplementedError

    def atoms(self) -> frozenset[Variable]:
        """Return the plain variables on which the nonlinear integer depends: i and n for ``floor((i + n*i)/2)``."""
        return frozenset().union(*(form.atoms() for form in self.forms()))

    def forms(self) -> tuple[Affine, ...]:
        """Return the affine forms inside of the nonlinear integer: ``(i,)`` for ``floor(i/2)``."""
        raise NotImplementedError

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        """Return this nonlinear integer, such as ``floor(i/2)``, as a form after replacing variables inside of it by
        `mapping`; None if it contains none of them.
        """
        raise NotImplementedError

    def evaluate(self, values: Mapping[Variable, int]) -> int:
        """Return the integer value of this nonlinear term, given the ``values`` of the variables in it: 3 for
        ``floor(i/2)`` with ``{i: 7}``.
        """
        raise NotImplementedError

    def definition(self) -> tuple[Constraint, ...]:
        """Return constraints that hold for the nonlinear term at all values of its variables, such as
        ``0 <= n - 2*q <= 1`` for ``q = floor(n/2)``; () if none are known.
        """
        return ()

    def floor_of_sum(self, others: Affine, divisor: int) -> Affine | None:
        """Return ``floor((self + others)/divisor)`` with one floor if ``self`` is a floor: ``floor((floor(f/2) +
        g)/3)`` is ``floor((f + 2*g)/6)``. None otherwise.
        """
        return None

    def __lt__(self, other: object) -> bool:
        # Compounds are sorted after all plain variables.
        return isinstance(other, Compound) and (self.rank, self.key()) < (other.rank, other.key())

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Compound) or (self.rank, self.key()) > (other.rank, other.key())


class _Form(NamedTuple):
    """The two fields of an `Affine` form: its terms, as sorted pairs (variable, coefficient), and its constant."""

    terms: tuple[tuple[Variable, int], ...]
    constant: int


class Affine(_Form):
    """An integer form ``sum(coefficient*variable) + constant``, such as ``2*i - n + 1``. Nonlinear integers like
    ``floor(i/2)`` count as variables.

    `terms` maps variables to coefficients; zeros are dropped.

    Examples
    --------
    >>> i, k = Affine.variable("i"), Affine.variable("k")
    >>> form = 2 * i - k + 3
    >>> form
    2*i - k + 3
    >>> form.substitute({"k": 2 * i}) == Affine.of(3)
    True
    """

    # A tuple: forms are keys and are sorted all the time, and a tuple hashes and compares without a call.
    __slots__ = ()

    def __new__(cls, terms: Mapping[Variable, int] | None = None, constant: int = 0) -> Affine:
        if not terms:
            return _affine_of_sorted((), constant)
        nonzero = [item for item in terms.items() if item[1]]
        if len(nonzero) > 1:
            nonzero.sort()
        return _affine_of_sorted(tuple(nonzero), constant)

    @staticmethod
    def variable(variable: Variable) -> Affine:
        """Return the form that is ``1 * variable``."""
        return Affine({variable: 1})

    @staticmethod
    def of(value: Affine | int) -> Affine:
        """Return ``value`` as a form: an int as a constant form, a form unchanged."""
        return value if isinstance(value, Affine) else Affine(None, value)

    def coefficient(self, variable: Variable) -> int:
        """Return the coefficient of ``variable``, 0 if it is absent."""
        for v, c in self.terms:
            if v == variable:
                return c
        return 0

    def split(self, variable: Variable) -> tuple[Affine, Affine]:
        """Return ``(c, rest)`` with ``c*variable + rest`` equal to the form, and c as a constant form."""
        c = self.coefficient(variable)
        return Affine(None, c), self - Affine({variable: c})

    @property
    def is_constant(self) -> bool:
        """Return whether the form has no variables."""
        return not self.terms

    def variables(self) -> Iterator[Variable]:
        """Iterate over the variables with a non-zero coefficient; ``floor(i/2)`` is one of them, the i in it is not."""
        return (v for v, _ in self.terms)

    def atoms(self) -> frozenset[Variable]:
        """Return all plain variables in the form, including i for a term ``floor(i/2)``."""
        found: set[Variable] = set()
        for v, _ in self.terms:
            if isinstance(v, Compound):
                found |= v.atoms()
            else:
                found.add(v)
        return frozenset(found)

    def hidden(self) -> frozenset[Variable]:
        """Return the variables inside of nonlinear terms: i for ``floor(i/2) + k``. The form is not linear in these
        variables.
        """
        return frozenset().union(*(v.atoms() for v, _ in self.terms if isinstance(v, Compound)))

    def compounds(self) -> frozenset[Compound]:
        """Return the nonlinear terms of this form (`Compound`), such as ``floor(i/2)``, without those nested in
        others.
        """
        return frozenset(v for v, _ in self.terms if isinstance(v, Compound))

    def quotients(self) -> frozenset[Quotient]:
        """Return the terms ``floor(form/number)`` of this form, without those nested in others."""
        return frozenset(v for v, _ in self.terms if isinstance(v, Quotient))

    def substitute(self, mapping: Mapping[Variable, Affine]) -> Affine:
        """Return the form with all variables of ``mapping`` replaced at once, also inside of floors and other nonlinear
        terms.
        """
        result: dict[Variable, int] = {}
        constant = self.constant
        changed = False
        for v, c in self.terms:
            new = mapping.get(v)
            if new is None and isinstance(v, Compound):
                new = v.substituted(mapping)
            if new is None:
                result[v] = result.get(v, 0) + c
                continue
            changed = True
            constant += c * new.constant
            for w, d in new.terms:
                result[w] = result.get(w, 0) + c * d
        return Affine(result, constant) if changed else self

    def evaluate(self, values: Mapping[Variable, int]) -> int:
        """Return the value of the form for the integer ``values`` of its variables; nonlinear terms such as
        ``floor(i/2)`` are evaluated from the values of the variables in them.
        """
        total = self.constant
        for v, c in self.terms:
            total += c * (v.evaluate(values) if isinstance(v, Compound) else values[v])
        return total

    def __add__(self, other: Affine | int) -> Affine:  # type: ignore[override]
        if isinstance(other, int):
            return self if other == 0 else _affine_of_sorted(self.terms, self.constant + other)
        if not other.terms:
            return self + other.constant
        result = dict(self.terms)
        for v, c in other.terms:
            result[v] = result.get(v, 0) + c
        return Affine(result, self.constant + other.constant)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return self + -other
        result = dict(self.terms)
        for v, c in other.terms:
            result[v] = result.get(v, 0) - c
        return Affine(result, self.constant - other.constant)

    def __rsub__(self, other: int) -> Affine:
        return -self + other

    def __mul__(self, factor: int) -> Affine:  # type: ignore[override]
        if factor == 0:
            return Affine()
        return _affine_of_sorted(tuple([(v, c * factor) for v, c in self.terms]), self.constant * factor)

    __rmul__ = __mul__  # type: ignore[assignment]

    def divided(self, divisor: int) -> Affine:
        """Return ``floor(form/divisor)`` for a `divisor` that divides all coefficients; only the constant is
        rounded.
        """
        return _affine_of_sorted(tuple([(v, c // divisor) for v, c in self.terms]), self.constant // divisor)

    def content(self) -> int:
        """Return the gcd of the coefficients, without the constant; 0 for a constant form."""
        return gcd(*(c for _, c in self.terms))

    def __reduce__(self) -> tuple[Any, ...]:
        return Affine, (dict(self.terms), self.constant)

    def __repr__(self) -> str:
        text = ""
        for v, c in self.terms:
            sign = " - " if c < 0 else " + "
            text += sign + (f"{abs(c)}*{v}" if abs(c) != 1 else f"{v}")
        if self.constant or not text:
            text += f" - {-self.constant}" if self.constant < 0 else f" + {self.constant}"
        return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _affine_of_sorted(terms: tuple[tuple[Variable, int], ...], constant: int) -> Affine:
    """Return an `Affine` form without checks: the terms must be sorted and have non-zero coefficients."""
    return tuple.__new__(Affine, (terms, constant))


class Quotient(Compound):
    """The integer variable ``floor(form / divisor)`` with a number ``divisor > 1``; built by `quotient`."""

    __slots__ = ("divisor", "form")
    rank = 0
    fields = ("form", "divisor")

    def __init__(self, form: Affine, divisor: int) -> None:
        self.form = form
        self.divisor = divisor
        self._hash = hash(("quotient", form, divisor))

    def definition(self) -> tuple[Constraint, Constraint]:
        """Return the two constraints ``0 <= form - divisor*q <= divisor - 1`` that define this variable q, the quotient
        ``floor(form/divisor)``.
        """
        rest = self.form - Affine({self: self.divisor})
        return Constraint("ge", rest), Constraint("ge", -rest + (self.divisor - 1))

    def key(self) -> tuple[Any, ...]:
        """Return the divisor and the form of the floor quotient, by which quotients are ordered."""
        return self.divisor, self.form

    def forms(self) -> tuple[Affine, ...]:
        """Return the dividend of the floor quotient, in a tuple."""
        return (self.form,)

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        """Return this quotient with ``mapping`` substituted in its form; None if the form contains none of the
        variables, so that nothing changes.
        """
        inner = self.form.substitute(mapping)
        return None if inner is self.form else quotient(inner, self.divisor)

    def evaluate(self, values: Mapping[Variable, int]) -> int:
        """Return ``floor(form/divisor)`` at integer ``values`` of all plain variables."""
        return self.form.evaluate(values) // self.divisor

    def floor_of_sum(self, others: Affine, divisor: int) -> Affine | None:
        """Return ``floor((self + others)/divisor)`` with a single floor, which is always possible: ``floor((floor(f/d)
        + g)/m)`` is ``floor((f + d*g)/(d*m))``.
        """
        return quotient(self.form + self.divisor * others, self.divisor * divisor)

    def __repr__(self) -> str:
        shown = f"({self.form})" if len(self.form.terms) + bool(self.form.constant) > 1 else str(self.form)
        return f"floor({shown}/{self.divisor})"


def quotient(form: Affine, divisor: int) -> Affine:
    """Return ``floor(form/divisor)`` as a form, for a number ``divisor >= 1``. Divisible terms are outside of the
    floor: ``i + floor(j/2)`` for ``(2*i + j)/2``.

    >>> p = Affine.variable("p")
    >>> quotient(4 * p + 2, 2), quotient(p + 5, 2)
    (2*p + 1, floor((p + 1)/2) + 2)
    """
    if divisor == 1:
        return form
    outside = {v: c // divisor for v, c in form.terms if c % divisor == 0}
    inside = {v: c for v, c in form.terms if c % divisor}
    whole, rest = divmod(form.constant, divisor)
    if not inside:
        return Affine(outside, whole)
    common = gcd(divisor, *inside.values())
    if common > 1:  # floor((g*a + r) / (g*d)) = floor((a + floor(r/g)) / d)
        inside = {v: c // common for v, c in inside.items()}
        divisor //= common
        rest //= common
    form = Affine(inside, rest)
    shorter = _without_absorbed_remainder(form, divisor)
    if shorter is not None:
        return Affine(outside, whole) + quotient(shorter, divisor)
    for v, c in inside.items():
        if c == 1 and isinstance(v, Compound):
            others = Affine({w: b for w, b in inside.items() if w != v}, rest)
            nested = v.floor_of_sum(others, divisor)
            if nested is not None:
                return Affine(outside, whole) + nested
    if form.terms[0][1] < 0:  # floor(-f/d) = -floor((f + d - 1)/d)
        return Affine(outside, whole) - quotient(divisor - 1 - form, divisor)
    return Affine(outside, whole) + Affine({Quotient(form, divisor): 1})


def _without_absorbed_remainder(form: Affine, divisor: int) -> Affine | None:
    """Return ``form`` without a remainder in it that cannot change ``floor(form/divisor)``: if the form is
    ``2*q + (r mod 2)`` and the divisor is 4, this is ``2*q``. None if there is no such remainder.

    ``floor((2*q + r mod 2)/4)`` is ``floor(2*q/4)``: the other terms and the divisor are even.
    """
    for v, c in form.terms:
        if isinstance(v, Quotient) and c % v.divisor == 0:
            factor = -c // v.divisor
            rest = form - factor * (v.form - v.divisor * Affine.variable(v))
            common = gcd(divisor, rest.content())
            last = rest.constant % common + factor * (v.divisor - 1)
            if len(rest.terms) < len(form.terms) and 0 <= last < common:
                return rest
    return None


class Constraint(NamedTuple):
    """A constraint on integer variables: ``form >= 0`` (`kind` "ge"), ``form == 0`` ("eq") or ``form mod modulus == 0``
    ("mod").
    """

    kind: Kind
    form: Affine
    modulus: int = 0

    def substitute(self, mapping: Mapping[Variable, Affine]) -> Constraint:
        """Return the constraint with all variables of ``mapping`` replaced at once."""
        form = self.form.substitute(mapping)
        return self if form is self.form else Constraint(self.kind, form, self.modulus)

    def holds(self, values: Mapping[Variable, int]) -> bool:
        """Return whether the constraint is true for the integer ``values`` of its variables. Compounds such as
        ``floor(i/2)`` are computed from these and need no value.
        """
        value = self.form.evaluate(values)
        if self.kind == "ge":
            return value >= 0
        return value == 0 if self.kind == "eq" else value % self.modulus == 0

    def negation(self) -> Constraint:
        """Return the negation of an inequality or congruence as one constraint: ``-form - 1 >= 0`` for ``form >= 0``.
        Must not be called for an equation, whose negation has two cases.

        >>> i = Affine.variable("i")
        >>> Constraint("ge", i - 3).negation(), Constraint("mod", i, 2).negation(), Constraint("mod", i, 3).negation()
        (-i + 2 >= 0, (i + 1) mod 2 == 0, i - 3*floor(i/3) - 1 >= 0)
        """
        if self.kind == "ge":
            return Constraint("ge", -self.form - 1)
        if self.modulus == 2:
            return Constraint("mod", self.form + 1, 2)
        return Constraint("ge", self.form - self.modulus * quotient(self.form, self.modulus) - 1)

    def __repr__(self) -> str:
        if self.kind == "mod":
            return f"({self.form}) mod {self.modulus} == 0"
        return f"{self.form} {'>=' if self.kind == 'ge' else '=='} 0"
