"""Maxima and minima of forms, as in clamped indices ``Max(0, Min(i - 1, n - 1))``.

All of them are made of one compound, the positive part ``max(0, f)``: ``max(f, g)`` is
``f + max(0, g - f)``, ``min(f, g)`` is ``f - max(0, f - g)`` and ``|f|`` is ``2*max(0, f) - f``. It is the
form ``f`` or 0, so that a system with positive parts is a union of systems without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import Any, Literal, NamedTuple

from .affine import Affine, Compound, Constraint, Variable
from .rows import substitute_all


class PositivePart(Compound):
    """The integer ``max(0, form)``. All maxima, minima and absolute values are written with it: ``max(a, b)`` is ``a +
    max(0, b - a)``.
    """

    __slots__ = ("form",)
    rank = 3
    fields = ("form",)

    def __init__(self, form: Affine) -> None:
        self.form = form
        self._hash = hash(("positive part", form))

    def key(self) -> tuple[Any, ...]:
        """Return ``(form,)``, by which terms ``max(0, form)`` are ordered."""
        return (self.form,)

    def forms(self) -> tuple[Affine, ...]:
        """Return the form in ``max(0, form)``, in a tuple."""
        return (self.form,)

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        """Return ``max(0, form)`` with the variables in the form replaced by ``mapping``; None if it contains none of
        them.
        """
        inner = self.form.substitute(mapping)
        return None if inner is self.form else positive_part(inner)

    def evaluate(self, values: Mapping[Variable, int]) -> int:
        """Return ``max(0, form)``, where ``values`` has the values of its variables. These may also be arrays; the
        result is then an array.
        """
        value = self.form.evaluate(values)
        return value * (value > 0)  # of an array, too

    def definition(self) -> tuple[Constraint, ...]:
        """Return the constraints ``self >= 0`` and ``self >= form``. They do not say that one of the two is an
        equality; `cases` does.
        """
        itself = Affine.variable(self)
        return Constraint("ge", itself), Constraint("ge", itself - self.form)

    def __repr__(self) -> str:
        return f"max(0, {self.form})"


def positive_part(form: Affine) -> Affine:
    """Return ``max(0, form)`` as a form in a standard notation: common divisors are in front, and the first coefficient
    inside is positive.

    >>> i = Affine.variable("i")
    >>> positive_part(2 * i - 4), positive_part(1 - i), positive_part(positive_part(i) + 3)
    (2*max(0, i - 2), -i + max(0, i - 1) + 1, max(0, i) + 3)
    """
    if form.is_constant:
        return Affine.of(max(0, form.constant))
    if all(isinstance(v, PositivePart) for v, _ in form.terms):  # the sign is that of the coefficients
        if form.constant >= 0 and all(c > 0 for _, c in form.terms):
            return form
        if form.constant <= 0 and all(c < 0 for _, c in form.terms):
            return Affine()
    divisor = gcd(form.content(), form.constant)
    if form.terms[0][1] < 0:  # max(0, -f) = max(0, f) - f
        return form + positive_part(-form)
    return Affine({PositivePart(form.divided(divisor)): divisor})


def maximum_of(forms: Iterable[Affine]) -> Affine:
    """Return the maximum of ``forms`` as one form, with terms ``max(0, f)``. Of forms that differ by a constant, only
    the largest is used.

    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> maximum_of([i, Affine.of(0)]), maximum_of([i + 1, i - 2, i])
    (max(0, i), i + 1)
    """
    largest: dict[Any, Affine] = {}
    for form in forms:
        known = largest.get(form.terms)
        if known is None or form.constant > known.constant:
            largest[form.terms] = form
    result, *others = sorted(largest.values())
    for form in others:
        result += positive_part(form - result)
    return result


def minimum_of(forms: Iterable[Affine]) -> Affine:
    """Return the minimum of one or more forms: ``-maximum_of(-form, ...)``.

    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> minimum_of([i, n - 1])
    i - max(0, i - n + 1)
    """
    return -maximum_of(-form for form in forms)


# ---------------------------------------------------------------------------- notation with max, min and abs


class Extremum(NamedTuple):
    """A number (``coefficient``) times ``max(one, other)``, ``min(one, other)`` or ``abs(one)``, for printing."""

    coefficient: int
    function: Literal["max", "min", "abs"]
    one: Affine
    other: Affine


def extrema_in(form: Affine) -> tuple[Affine, list[Extremum]]:
    """Write the terms ``max(0, f)`` of ``form`` as maxima, minima and absolute values, for printing. Return
    ``(rest, extrema)``, whose sum is ``form``: ``i`` and ``[max(n, i)]`` for ``2*i + max(0, n - i)``.

    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> extrema_in(2 * n + minimum_of([i + 1, n - 1]))
    (2*n, [Extremum(coefficient=1, function='min', one=i + 1, other=n - 1)])
    >>> extrema_in(positive_part(2 * i) - i)
    (0, [Extremum(coefficient=1, function='abs', one=i, other=-i)])
    >>> extrema_in(minimum_of([i, 6 - i]))
    (0, [Extremum(coefficient=1, function='min', one=i, other=-i + 6)])
    """
    found = []
    # A positive part inside another one becomes part of its operands.
    while (part := outermost(form, lambda v, c: True)) is not None:
        c = form.coefficient(part)
        rest = form - Affine({part: c})
        alone = not any(isinstance(v, PositivePart) for v, _ in rest.terms)
        written = [
            _with_extremum(rest, part.form, c, alone=alone),
            _with_extremum(rest, part.form * abs(c), 1 if c > 0 else -1, alone=alone),
        ]
        if c % 2 == 0:
            written.append((rest + part.form * (c // 2), Extremum(c // 2, "abs", part.form, -part.form)))
        form, extremum = min(written, key=_number_of_terms)
        found.append(extremum)
    return form, found


def outermost(form: Affine, accepts: Callable[[PositivePart, int], bool]) -> PositivePart | None:
    """Return a term ``max(0, f)`` of ``form`` that occurs in no other such term and is accepted by
    ``accepts(term, coefficient)``: the last one in the order of terms. None if there is none.
    """
    parts = [(v, c) for v, c in form.terms if isinstance(v, PositivePart)]
    inside = {v for part, _ in parts for v in part.form.compounds()}
    return next((v for v, c in reversed(parts) if v not in inside and accepts(v, c)), None)


def extrema_text(form: Affine) -> str:
    """Return the text of a form, with maxima and minima written as ``max(...)`` and ``min(...)``.

    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> extrema_text(minimum_of([i, n - 1]) + 2)
    'min(i + 2, n + 1)'
    """
    rest, found = extrema_in(form)
    for c, function, *args in found:
        texts = [extrema_text(arg) for arg in args[: 1 if function == "abs" else 2]]
        rest += Affine({f"{function}({', '.join(texts)})": c})
    return str(rest)


def _number_of_terms(written: tuple[Affine, Extremum]) -> tuple[int, int]:
    """Return a sort key that puts short notations of a form first: the number of its terms, and how many of them are
    outside of the extremum. ``written`` is such a notation, the sum of a rest and an extremum.

    ``min(i, 6 - i)`` is as short as ``3 - |i - 3|`` but has no term outside; ``|i|`` is shorter than ``max(i, -i)``.
    """
    rest, extremum = written
    inside = (extremum.one, *(() if extremum.function == "abs" else (extremum.other,)))
    outside, *lengths = (len(form.terms) + bool(form.constant) for form in (rest, *inside))
    return outside + sum(lengths), outside


def _with_extremum(rest: Affine, form: Affine, c: int, *, alone: bool) -> tuple[Affine, Extremum]:
    """Write ``rest + c*max(0, form)`` in the shortest way as a sum ``(new rest, extremum)``: ``s + max(0, f)`` may
    become ``max(s, s + f)``. If ``alone``, ``rest`` contains no other ``max(0, g)``, and constants may move into the
    extremum.
    """
    size, sign = abs(c), 1 if c > 0 else -1
    step = sign * form
    slopes = {v: (b // size, step.coefficient(v)) for v, b in rest.terms if b % size == 0}
    share = Affine({v: b for v, (b, e) in slopes.items() if abs(b + e) < abs(e)})
    if rest.constant % size == 0 and (alone or rest.constant == -size * step.constant):
        share += rest.constant // size
    if sign < 0 and share.is_constant:
        return rest, Extremum(c, "max", Affine(), form)
    extremum = Extremum(size, "max" if sign > 0 else "min", share, share + step)
    return rest - share * size, _of_negated_operands(extremum) if all(map(_is_negative, extremum[2:])) else extremum


def _is_negative(form: Affine) -> bool:
    """Return whether the first coefficient of ``form`` is negative; False for a constant."""
    return bool(form.terms) and form.terms[0][1] < 0


def _of_negated_operands(extremum: Extremum) -> Extremum:
    """Return an equal extremum with both operands negated: ``-min(i, n - 1)`` for ``max(-i, 1 - n)``."""
    c, function, one, other = extremum
    return Extremum(-c, "min" if function == "max" else "max", -one, -other)


# ---------------------------------------------------------------------------- cases


def positive_parts_in(forms: Iterable[Affine]) -> list[PositivePart]:
    """Return all terms ``max(0, f)`` in ``forms``, each once, nested ones before those that contain them."""
    found: dict[PositivePart, None] = {}
    _collect_parts(forms, found)
    return list(found)


def _collect_parts(forms: Iterable[Affine], found: dict[PositivePart, None]) -> None:
    """Add all terms ``max(0, f)`` in ``forms`` to ``found``, nested ones first."""
    for form in forms:
        for v, _ in form.terms:
            if isinstance(v, Compound):
                _collect_parts(v.forms(), found)
                if isinstance(v, PositivePart):
                    found[v] = None


def cases_of_positive_part(
    part: PositivePart, *, tie_is_zero: bool = False
) -> tuple[tuple[Constraint, Affine], tuple[Constraint, Affine]]:
    """Return the two cases of ``part``, which is ``max(0, form)``, as pairs (condition, value): ``(form >= 0, form)``
    and ``(form < 0, 0)``. With `tie_is_zero`, the conditions are ``form > 0`` and ``form <= 0``.

    >>> cases_of_positive_part(PositivePart(Affine.variable("i")))
    ((i >= 0, i), (-i - 1 >= 0, 0))
    """
    form, tie = part.form, int(tie_is_zero)
    return (Constraint("ge", form - tie), form), (Constraint("ge", -form - 1 + tie), Affine())


CASES_LIMIT = 4
"""The default number of positive parts that `cases` splits by; of others only the definitions are known."""


def cases(rows: Sequence[Constraint], limit: int | None = CASES_LIMIT) -> Iterator[tuple[Constraint, ...]]:
    """Split ``rows`` into cases in which each term ``max(0, f)`` is replaced by ``f`` or by 0, and yield the
    constraints of each case. The cases are disjoint and have the points of ``rows``. At most ``limit`` terms are
    replaced (None: all).

    >>> i, j = Affine.variable("i"), Affine.variable("j")
    >>> list(cases([Constraint("ge", positive_part(i) - j)]))
    [(i - j >= 0, i >= 0), (-j >= 0, -i - 1 >= 0)]
    """
    parts = positive_parts_in(row.form for row in rows) if limit is None or limit > 0 else []
    if not parts:
        yield tuple(rows)
        return
    for condition, value in cases_of_positive_part(parts[0]):
        new = substitute_all(rows, {parts[0]: value})
        if not any(row.form.is_constant and not row.holds({}) for row in (*new, condition)):
            yield from cases((*new, condition), None if limit is None else limit - 1)


def split_clamps(row: Constraint, variables: frozenset[Variable]) -> list[Constraint]:
    """Return an inequality like ``g >= max(0, f)`` as two, ``g >= 0`` and ``g >= f``, if f depends on ``variables``; a
    list with the row alone otherwise.

    >>> i, k, n = (Affine.variable(v) for v in "ikn")
    >>> split_clamps(Constraint("ge", minimum_of([i, n]) - k), frozenset("ikn"))
    [i - k >= 0, -k + n >= 0]
    """
    result: list[Constraint] = []
    waiting = [row]
    while waiting:
        row = waiting.pop()
        part = outermost(row.form, lambda v, c: c < 0 and not v.atoms().isdisjoint(variables))
        if row.kind != "ge" or part is None:
            result.append(row)
            continue
        c = row.form.coefficient(part)
        rest = row.form - Affine({part: c})
        waiting += [Constraint("ge", rest + c * part.form), Constraint("ge", rest)]
    return result
