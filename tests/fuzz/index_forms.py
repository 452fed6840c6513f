"""Random integers made of indices, ranges and conditions, with their values at every tuple of indices.

What may be in indices, conditions and the ends of ranges is drawn from the table `INDEX_FORMS`; a wider class of
functions is one more entry there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import sympy
from sympy import Abs, Expr, Max, Min, Mod, Symbol, ceiling, floor
from sympy.logic.boolalg import BooleanAtom

from .languages import RELATIONS, Traits

Point: TypeAlias = dict[Symbol, int]
Points: TypeAlias = list[Point]
Form: TypeAlias = tuple[Expr, list[int]]
"""An integer made of the indices in scope, and its value at every point."""
Limit: TypeAlias = tuple[Symbol, Expr, Expr]
Growth: TypeAlias = tuple[tuple[int, tuple[Symbol, ...]], ...]
"""A polynomial of sizes, as pairs of a coefficient and the factors of a monomial."""


@dataclass
class PendingTensor:
    """A tensor or a comprehension to be: its rank, the extents needed so far, then itself.

    An extent is the number in ``extents`` plus what it grows by with the sizes.
    """

    name: str
    extents: list[int]
    growth: list[Growth]
    built: Expr | None = None

    def entry(self, indices: tuple[Expr, ...]) -> Expr:
        """The entry at some indices, once the tensor is built."""
        assert self.built is not None
        return self.built[indices] if indices else self.built


def at(growth: Growth, point: Point) -> int:
    """The value of a polynomial of sizes."""
    return sum(c * prod(point[s] for s in monomial) for c, monomial in growth)


def is_misjudged(form: Expr, divisor: Expr | int) -> bool:
    """Return whether SymPy may leave out a part of what is divided, or of a relation about the remainder.

    SymPy 1.14 takes ``Abs(2*m - 8)/6`` and ``Max(2, Min(4, 2*i))/6`` for integers.
    """
    terms = sympy.Add.make_args(form)
    wide = [term for term in terms if divisor != 1 and term.has(sympy.Abs, sympy.Max, sympy.Min)]
    return any((term / divisor).is_integer for term in wide)


class IndexForms:
    """Draws integers, ranges and conditions.

    Parameters
    ----------
    generator : Random
    language : Traits
    sizes : tuple of Symbol
        The symbols of extents; ``divisors`` are those that are extents, so that they are known to be positive.
    products : bool
        Whether sizes multiply indices.
    tensors : list of PendingTensor
        Tensors of integers. Their entries are drawn into ``data`` when a form first uses them, so that what they
        select and where they end ranges is known as for any other form.
    """

    def __init__(
        self,
        generator: random.Random,
        language: Traits,
        sizes: tuple[Symbol, ...],
        products: bool,
        tensors: list[PendingTensor],
    ) -> None:
        self.random = generator
        self.language = language
        self.sizes = sizes
        self.products = products
        self.divisors: tuple[Symbol, ...] = ()
        self.tensors = tensors
        self.data: dict[Expr, dict[tuple[int, ...], int]] = {t.built: {} for t in tensors if t.built is not None}
        self.nesting = 0

    def form(self, points: Points, widest: int | None = None) -> Form:
        """An affine form, sometimes its quotient or remainder by a number, or one of `INDEX_FORMS`."""
        for _ in range(4 if self.language.has("maps") and self.random.random() < 0.5 else 0):
            form, values = self.random.choice(INDEX_FORMS)(self, points)
            if not form.is_number and (widest is None or max(values) - min(values) < widest):
                return form, values
        if self.products and len(points[0]) > len(self.sizes) and self.random.random() < 0.2:
            size = self.random.choice(self.sizes)
            first, second = (self.random.choice([s for s in points[0] if s not in self.sizes]) for _ in range(2))
            values = [p[size] * p[first] + p[second] for p in points]
            if widest is None or max(values) - min(values) < widest:
                return size * first + second, values
        form, values = self.combination(points, widest)
        draw = self.random.random() if self.language.has("sizes") else 0
        if draw < 0.8 or form.is_number:
            return form, values
        divisor = self.random.choice((2, 2, 3))
        if draw < 0.9:
            return sympy.floor(form / divisor), [value // divisor for value in values]
        return sympy.Mod(form, divisor), [value % divisor for value in values]

    def combination(self, points: Points, widest: int | None = None) -> Form:
        """A random affine form of the indices in scope, and its value at every point."""
        scope = list(points[0])
        while True:
            coefficients = [self.random.choice(self.language.coefficients) for _ in scope]
            values = [sum(c * p[s] for c, s in zip(coefficients, scope, strict=True)) for p in points]
            if widest is None or max(values) - min(values) < widest:
                return sum((c * s for c, s in zip(coefficients, scope, strict=True)), sympy.S.Zero), values

    def end(self, points: Points) -> Form:
        """One end of a range."""
        if self.language.has("maps") and self.random.random() >= 0.5:
            return self.form(points, 12)
        form, values = self.combination(points, 12)
        shift = self.random.randint(-2, 3)
        return form + shift, [value + shift for value in values]

    def limit(self, index: Symbol, points: Points) -> tuple[Limit, list[range]]:
        """A limit of a sum, and the values of its index at each point."""
        visible = [s for s in points[0] if s != index]
        if visible and self.language.has("ranges") and self.random.random() >= 0.5:
            outer = [{s: point[s] for s in visible} for point in points]
            ends = [self.end(outer), self.end(outer)]
            if self.random.random() < 0.5:
                ends[1] = (ends[0][0] + 2, [value + 2 for value in ends[0][1]])
            (low, firsts), (high, lasts) = ends
            return (index, low, high), [range(a, b + 1) for a, b in zip(firsts, lasts, strict=True)]
        lo: Expr = sympy.Integer(self.random.choice((0, 0, 0, 1, -1)))
        hi: Expr = lo + self.random.randint(0, 3)
        if visible and self.random.random() < 0.4:
            other = self.random.choice(visible)
            lo, hi = self.random.choice(
                [(lo, other), (other, hi + 1), (other - 1, other + 1), (2 * other - 1, other + 2), (lo, 3 - other)]
            )
        return (index, lo, hi), [range(int(lo.subs(point)), int(hi.subs(point)) + 1) for point in points]

    def condition(self, points: Points) -> tuple[Expr, Points, Points]:
        """A condition on the indices, and the points at which it holds and at which it does not.

        Beyond tables it is one to three atoms joined by and, or and not.
        """
        joined, truth = self.atom(points)
        for _ in range(self.random.choice((0, 0, 1, 2)) if self.language.has("ranges") else 0):
            other, values = self.atom(points)
            if self.random.random() < 0.5:
                joined, truth = sympy.And(joined, other), [a and b for a, b in zip(truth, values, strict=True)]
            else:
                joined, truth = sympy.Or(joined, other), [a or b for a, b in zip(truth, values, strict=True)]
        if self.language.has("ranges") and self.random.random() < 0.2:
            joined, truth = sympy.Not(joined), [not a for a in truth]
        inside = [p for p, holds in zip(points, truth, strict=True) if holds]
        outside = [p for p, holds in zip(points, truth, strict=True) if not holds]
        return joined, inside, outside

    def atom(self, points: Points) -> tuple[Expr, list[bool]]:
        """A relation between a form and a number, or a congruence."""
        form, values = self.form(points)
        pivot = self.random.choice(values)
        modulus = self.random.randint(2, 6) if self.language.has("ranges") else 2
        relation = self.random.choice(RELATIONS["ranges" if self.language.has("ranges") else "tables"])
        chosen, holds = relation(form, pivot, modulus), {v: bool(relation(v, pivot, modulus)) for v in values}
        is_wrong = isinstance(chosen, BooleanAtom) and (not chosen) in holds.values()
        if is_wrong or is_misjudged(form, modulus):
            return self.atom(points)
        return chosen, [holds[v] for v in values]

    def quotient(self, points: Points) -> Form:
        """A quotient or a remainder."""
        return self.random.choice(_SIMPLE)(self, points)

    def entry(self, points: Points) -> Form:
        """An entry of a tensor of integers."""
        return _entry(self, points)

    def affine(self, points: Points) -> Form:
        """A short affine form: an index, or a combination of two."""
        scope = list(points[0])
        if not scope:
            return sympy.Integer(2), [2] * len(points)
        chosen = self.random.sample(scope, min(len(scope), self.random.choice((1, 1, 1, 2))))
        factors = [self.random.choice((1, 1, 1, -1, 2, 3, -2)) for _ in chosen]
        shift = self.random.choice((0, 0, 0, 1, 2, -1, -3, 5))
        form = sum((c * s for c, s in zip(factors, chosen, strict=True)), sympy.Integer(shift))
        return form, [shift + sum(c * p[s] for c, s in zip(factors, chosen, strict=True)) for p in points]

    def part(self, points: Points) -> Form:
        """Return the argument of a quotient, a clamp or an index of data: mostly affine, else one of these again."""
        if self.nesting > 1 or self.random.random() < 0.75:
            return self.affine(points)
        self.nesting += 1
        form, values = self.random.choice((*_CLAMPS, _entry, _quotient))(self, points)
        self.nesting -= 1
        return form, values

    def divisor(self, points: Points) -> Form:
        """A positive integer, or a size."""
        if self.divisors and self.random.random() < 0.3:
            size = self.random.choice(self.divisors)
            return size, [point[size] for point in points]
        number = self.random.choice((2, 2, 2, 3, 3, 4, 5, 6))
        return sympy.Integer(number), [number] * len(points)


Production: TypeAlias = Callable[[IndexForms, Points], Form]


# ---------------------------------------------------------------------------- quotients


def _divided(write: Callable[[Expr, Expr], Expr], compute: Callable[[int, int], int]) -> Production:
    """Return a production that divides a form, as an expression by ``write`` and as a number by ``compute``."""

    def draw(forms: IndexForms, points: Points) -> Form:
        while True:
            (form, values), (divisor, by) = forms.part(points), forms.divisor(points)
            if not is_misjudged(form, divisor):
                return write(form, divisor), list(map(compute, values, by))

    return draw


_quotient = _divided(lambda f, d: floor(f / d), lambda v, d: v // d)
_rounded_up = _divided(lambda f, d: ceiling(f / d), lambda v, d: -(-v // d))
_remainder = _divided(lambda f, d: Mod(f, d), lambda v, d: v % d)


def _combined(form: Form, factor: int, other: Form) -> Form:
    return form[0] + factor * other[0], [v + factor * w for v, w in zip(form[1], other[1], strict=True)]


def _beside_affine(forms: IndexForms, points: Points) -> Form:
    compound, affine = forms.random.choice(_COMPOUNDS)(forms, points), forms.affine(points)
    return _combined(affine, forms.random.choice((1, 1, -1, 2, 3)), compound)


def _two_compounds(forms: IndexForms, points: Points) -> Form:
    first, second = (forms.random.choice(_COMPOUNDS)(forms, points) for _ in range(2))
    return _combined(first, forms.random.choice((1, 1, -1, 2, 4)), second)


def _nested(forms: IndexForms, points: Points) -> Form:
    form, values = forms.random.choice((*_SIMPLE, _beside_affine))(forms, points)
    factor, shift = forms.random.choice((1, 1, 2)), forms.random.choice((0, 0, 1, -1))
    number = forms.random.choice((2, 3, 4))
    form, values = factor * form + shift, [factor * v + shift for v in values]
    if forms.random.random() < 0.5:
        return floor(form / number), [v // number for v in values]
    # SymPy 1.14 takes Mod(2*Mod(i, 3), 3) for 2*Mod(i, 3).
    remainder = form - number * floor(form / number) if form.has(Mod) else Mod(form, number)
    return remainder, [v % number for v in values]


def _digits(forms: IndexForms, points: Points) -> Form:
    """The digits of a form in other places, as in a transposition of what is flattened."""
    form, values = forms.affine(points)
    (base, by), (place, moved) = forms.divisor(points), forms.divisor(points)
    digits = place * Mod(form, base) + floor(form / base)
    return digits, [p * (v % b) + v // b for v, b, p in zip(values, by, moved, strict=True)]


# ---------------------------------------------------------------------------- clamps


def _bounded_form(forms: IndexForms, points: Points) -> Form:
    """Between two numbers, or between 0 and a size as at the edge of an image."""
    form, values = forms.part(points)
    if forms.sizes and forms.random.random() < 0.5:
        size = forms.random.choice(forms.sizes)
        return Max(0, Min(form, size - 1)), [max(0, min(v, p[size] - 1)) for v, p in zip(values, points, strict=True)]
    least, most = sorted(forms.random.choice(values) for _ in range(2))
    return Max(least, Min(form, most)), [max(least, min(v, most)) for v in values]


def _one_sided(forms: IndexForms, points: Points) -> Form:
    form, values = forms.part(points)
    end = forms.random.choice(values)
    return _extreme(forms, (form, values), (sympy.Integer(end), [end] * len(values)))


def _of_two(forms: IndexForms, points: Points) -> Form:
    return _extreme(forms, forms.part(points), forms.affine(points))


def _extreme(forms: IndexForms, left: Form, right: Form) -> Form:
    """The greater or the less."""
    write, compute = (Max, max) if forms.random.random() < 0.5 else (Min, min)
    return write(left[0], right[0]), [compute(pair) for pair in zip(left[1], right[1], strict=True)]


def _distance(forms: IndexForms, points: Points) -> Form:
    form, values = forms.part(points)
    end = forms.random.choice(values)
    return Abs(form - end), [abs(v - end) for v in values]


# ---------------------------------------------------------------------------- data


def _entry(forms: IndexForms, points: Points) -> Form:
    tensor = forms.random.choice(forms.tensors)
    indices: list[Form] = []
    for length, growth in zip(tensor.extents, tensor.growth, strict=True):
        form, values = _placed(forms, points)
        while is_misjudged(form, length):
            form, values = _placed(forms, points)
        if max(v - at(growth, point) for v, point in zip(values, points, strict=True)) >= length:
            form, values = Mod(form, length), [v % length for v in values]
        indices.append((form, values))
    assert tensor.built is not None
    entries = forms.data[tensor.built]
    places = list(zip(*(values for _, values in indices), strict=True))
    for place in places:
        entries.setdefault(place, forms.random.choice((0, 0, 1, 1, 2, 3, 4, -1)))
    return tensor.entry(tuple(form for form, _ in indices)), [entries[place] for place in places]


def _placed(forms: IndexForms, points: Points) -> Form:
    """A form whose least value is 0."""
    form, values = forms.part(points)
    least = min(values)
    return form - least, [v - least for v in values]


_SIMPLE = (_quotient, _quotient, _rounded_up, _remainder, _remainder)
_CLAMPS = (_bounded_form, _one_sided, _of_two, _distance)
_COMPOUNDS = (*_SIMPLE, *_CLAMPS, _entry, _entry, _entry)

INDEX_FORMS: Sequence[Production] = (
    *(*_COMPOUNDS, _beside_affine, _beside_affine, _two_compounds, _nested, _nested, _digits),
)
"""What may be where an index, a condition or an end of a range has an integer."""
