"""Random functions of all index maps and reductions: quotients, clamps, data, products and extremes over ranges.

Beyond `ranges`: what stands in indices, conditions and the ends of ranges is drawn from the table
`INDEX_FORMS`, scalars now and then from the table `SCALARS`, and what reduces from `BINDERS`. A wider
class of functions is one more entry there.

The entries of a tensor of integers are drawn when a form first uses them, so that what they select
and where they end ranges is known as for any other form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import sympy
from sympy import Abs, Expr, Max, Min, Mod, Symbol, ceiling, floor

from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.testing.generate import Generator, Kind, Points, RandomFunction, Thunk, _Tensor, at
from sympy_tensordiff.testing.ranges import RangesGenerator, is_misjudged

Form: TypeAlias = tuple[Expr, list[int]]
"""An integer made of the indices in scope, and its value at every point."""

BINDERS = (IndexedSum, IndexedSum, IndexedSum, IndexedProduct, IndexedProduct, IndexedMax, IndexedMin)
"""What reduces; the last two not where a range is empty."""


class MapsGenerator(RangesGenerator):
    """Makes one random function."""

    numbers_of_limits = (1, 1, 1, 1, 2, 3)
    divisors: tuple[Symbol, ...] = ()
    """The sizes that are extents, so that they are known to be positive."""

    def __init__(self, seed: int, kind: Kind, kinks: bool, symbolic: bool) -> None:
        super().__init__(seed, kind, kinks, symbolic, products=False)
        self.nesting = 0
        self.data: dict[Expr, dict[tuple[int, ...], int]] = {}
        self.data_tensors = [self.data_tensor(name, extents) for name, extents in _DATA.items()]

    def data_tensor(self, name: str, extents: tuple[int, ...]) -> _Tensor:
        tensor = _Tensor(name, list(extents), [self.growth() for _ in extents])
        tensor.built = TensorSymbol(name, self.shape(tensor), dtype=int)
        self.data[tensor.built] = {}
        return tensor

    def whole(self, rank: int) -> _Tensor:
        tensor = super().whole(rank)
        axes = zip(tensor.extents, tensor.growth, strict=True)
        held = [s for length, growth in axes for _, monomial in growth for s in monomial if not length]
        self.divisors = tuple(dict.fromkeys(held))
        return tensor

    def generate(self, rank: int, depth: int) -> RandomFunction:
        made = super().generate(rank, depth)
        made.data = {tensor: entries for tensor, entries in self.data.items() if made.function.has(tensor)}
        return made

    # ------------------------------------------------------------------ forms

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
        """What stands in a quotient, a clamp or an index of data: mostly affine, else one of these again."""
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

    def form(self, points: Points, widest: int | None = None) -> Form:
        """Half of the forms are affine, as in `ranges`."""
        for _ in range(4 if self.random.random() < 0.5 else 0):
            form, values = self.random.choice(INDEX_FORMS)(self, points)
            if not form.is_number and (widest is None or max(values) - min(values) < widest):
                return form, values
        return super().form(points, widest)

    def end(self, points: Points) -> Form:
        if self.random.random() < 0.5:
            return super().end(points)
        return self.form(points, 12)

    # ------------------------------------------------------------------ scalars

    def scalar(self, points: Points, depth: int) -> Thunk:
        if self.begun and depth > 0 and self.random.random() < 0.15:
            return self.random.choice(SCALARS)(self, points, depth)
        return super().scalar(points, depth)

    def binder(self, never_empty: bool) -> Callable[..., Expr]:
        """What reduces; the greatest value of nothing is infinite."""
        return self.random.choice(BINDERS if never_empty else BINDERS[:-2])


# ---------------------------------------------------------------------------- quotients


def _division(generator: MapsGenerator, points: Points) -> tuple[Expr, Expr, list[tuple[int, int]]]:
    """What is divided by what, and the values of both."""
    while True:
        (form, values), (divisor, by) = generator.part(points), generator.divisor(points)
        if not is_misjudged(form, divisor):
            return form, divisor, list(zip(values, by, strict=True))


def _quotient(generator: MapsGenerator, points: Points) -> Form:
    form, divisor, pairs = _division(generator, points)
    return floor(form / divisor), [v // d for v, d in pairs]


def _rounded_up(generator: MapsGenerator, points: Points) -> Form:
    form, divisor, pairs = _division(generator, points)
    return ceiling(form / divisor), [-(-v // d) for v, d in pairs]


def _remainder(generator: MapsGenerator, points: Points) -> Form:
    form, divisor, pairs = _division(generator, points)
    return Mod(form, divisor), [v % d for v, d in pairs]


def _beside_affine(generator: MapsGenerator, points: Points) -> Form:
    (form, values), (other, more) = generator.random.choice(_COMPOUNDS)(generator, points), generator.affine(points)
    factor = generator.random.choice((1, 1, -1, 2, 3))
    return other + factor * form, [w + factor * v for v, w in zip(values, more, strict=True)]


def _two_compounds(generator: MapsGenerator, points: Points) -> Form:
    (form, values), (other, more) = (generator.random.choice(_COMPOUNDS)(generator, points) for _ in range(2))
    factor = generator.random.choice((1, 1, -1, 2, 4))
    return form + factor * other, [v + factor * w for v, w in zip(values, more, strict=True)]


def _nested(generator: MapsGenerator, points: Points) -> Form:
    form, values = generator.random.choice((*_SIMPLE, _beside_affine))(generator, points)
    factor, shift = generator.random.choice((1, 1, 2)), generator.random.choice((0, 0, 1, -1))
    number = generator.random.choice((2, 3, 4))
    form, values = factor * form + shift, [factor * v + shift for v in values]
    if generator.random.random() < 0.5:
        return floor(form / number), [v // number for v in values]
    # SymPy 1.14 takes Mod(2*Mod(i, 3), 3) for 2*Mod(i, 3).
    remainder = form - number * floor(form / number) if form.has(Mod) else Mod(form, number)
    return remainder, [v % number for v in values]


def _digits(generator: MapsGenerator, points: Points) -> Form:
    """The digits of a form in other places, as in a transposition of what is flattened."""
    form, values = generator.affine(points)
    (base, by), (place, moved) = generator.divisor(points), generator.divisor(points)
    digits = place * Mod(form, base) + floor(form / base)
    return digits, [p * (v % b) + v // b for v, b, p in zip(values, by, moved, strict=True)]


# ---------------------------------------------------------------------------- clamps


def _held(generator: MapsGenerator, points: Points) -> Form:
    """Between two numbers, or between 0 and a size as at the edge of an image."""
    form, values = generator.part(points)
    if generator.sizes and generator.random.random() < 0.5:
        size = generator.random.choice(generator.sizes)
        return Max(0, Min(form, size - 1)), [max(0, min(v, p[size] - 1)) for v, p in zip(values, points, strict=True)]
    least, most = sorted(generator.random.choice(values) for _ in range(2))
    return Max(least, Min(form, most)), [max(least, min(v, most)) for v in values]


def _one_sided(generator: MapsGenerator, points: Points) -> Form:
    form, values = generator.part(points)
    end = generator.random.choice(values)
    if generator.random.random() < 0.5:
        return Max(form, end), [max(v, end) for v in values]
    return Min(form, end), [min(v, end) for v in values]


def _of_two(generator: MapsGenerator, points: Points) -> Form:
    (form, values), (other, more) = generator.part(points), generator.affine(points)
    if generator.random.random() < 0.5:
        return Max(form, other), [max(pair) for pair in zip(values, more, strict=True)]
    return Min(form, other), [min(pair) for pair in zip(values, more, strict=True)]


def _distance(generator: MapsGenerator, points: Points) -> Form:
    form, values = generator.part(points)
    end = generator.random.choice(values)
    return Abs(form - end), [abs(v - end) for v in values]


# ---------------------------------------------------------------------------- data

_DATA = {"idx": (8,), "jdx": (6,), "pairs": (5, 3), "place": (1,)}
"""The tensors of integers and their extents, but for what these grow by."""


def _entry(generator: MapsGenerator, points: Points) -> Form:
    """An entry of a tensor of integers."""
    tensor = generator.random.choice(generator.data_tensors)
    assert tensor.built is not None
    indices: list[Form] = []
    for length, growth in zip(tensor.extents, tensor.growth, strict=True):
        form, values = _placed(*generator.part(points))
        while is_misjudged(form, length):
            form, values = _placed(*generator.part(points))
        if max(v - at(growth, point) for v, point in zip(values, points, strict=True)) >= length:
            form, values = Mod(form, length), [v % length for v in values]
        indices.append((form, values))
    entries = generator.data[tensor.built]
    places = list(zip(*(values for _, values in indices), strict=True))
    for place in places:
        entries.setdefault(place, generator.random.choice((0, 0, 1, 1, 2, 3, 4, -1)))
    return Generator.entry(tensor, tuple(form for form, _ in indices)), [entries[place] for place in places]


def _placed(form: Expr, values: list[int]) -> Form:
    """A form whose least value is 0."""
    least = min(values)
    return form - least, [v - least for v in values]


_SIMPLE = (_quotient, _quotient, _rounded_up, _remainder, _remainder)
_CLAMPS = (_held, _one_sided, _of_two, _distance)
_COMPOUNDS = (*_SIMPLE, *_CLAMPS, _entry, _entry, _entry)

INDEX_FORMS: tuple[Callable[[MapsGenerator, Points], Form], ...] = (
    *_COMPOUNDS,
    _beside_affine,
    _beside_affine,
    _two_compounds,
    _nested,
    _nested,
    _digits,
)
"""What may stand where an index, a condition or an end of a range has an integer."""


# ---------------------------------------------------------------------------- scalars


def _window(generator: MapsGenerator, points: Points, depth: int) -> Thunk:
    """A reduction of the window of a pooling, or of the values that a quotient sends to one."""
    index = sympy.Symbol("w", integer=True)
    if index in points[0]:
        return generator.leaf(points)
    form, values = Generator.form(generator, points, 8)
    width = generator.random.choice((2, 3))
    inner = [
        {**point, index: width * v + shift} for point, v in zip(points, values, strict=True) for shift in range(width)
    ]
    if len(inner) > generator.most_points:
        return generator.leaf(points)
    body = generator.scalar(inner, depth - 1)
    binder = generator.binder(never_empty=True)
    return lambda: binder(body(), (index, width * form, width * form + width - 1))


def _chosen(generator: MapsGenerator, points: Points, depth: int) -> Thunk:
    """A sum in which data choose the terms, read inside of their tensor only where the range has values."""
    index = sympy.Symbol("c", integer=True)
    if index in points[0]:
        return generator.leaf(points)
    (_, lo, hi), ranges = generator.limit(index, points)
    pairs = [(point, values) for point, values in zip(points, ranges, strict=True) if values]
    inner = [{**point, index: value} for point, values in pairs for value in values]
    if not 0 < len(inner) <= generator.most_points:
        return generator.leaf(points)
    entry, read = _entry(generator, [point for point, _ in pairs])
    form, at_form = generator.random.choice(_SIMPLE)(generator, inner)
    at_entry = [value for value, (_, values) in zip(read, pairs, strict=True) for _ in values]
    place = generator.random.randrange(len(inner))
    shift = at_form[place] - at_entry[place]
    inside = [p for p, v, w in zip(inner, at_form, at_entry, strict=True) if v == w + shift]
    body = generator.scalar(inside, depth - 1)
    return lambda: IndexedSum(sympy.KroneckerDelta(form, entry + shift) * body(), (index, lo, hi))


SCALARS: tuple[Callable[[MapsGenerator, Points, int], Thunk], ...] = (_window, _chosen)
"""What may stand where a scalar is."""


def random_maps(
    seed: int,
    *,
    rank: int | None = None,
    depth: int = 2,
    kind: Kind = "rational",
    kinks: bool = False,
    symbolic: bool | None = None,
) -> RandomFunction:
    """A random function of all index maps and reductions; same arguments, same function.

    Parameters are those of `random_ranges`.

    Examples
    --------
    >>> random = random_maps(4)
    >>> random.function == random_maps(4).function
    True
    """
    symbolic = seed % 2 == 1 if symbolic is None else symbolic
    while True:
        generator = MapsGenerator(seed, kind, kinks, symbolic)
        made = generator.generate(rank or generator.random.choice((1, 1, 2, 2, 3)), depth)
        if made.variables:
            return made
        seed += 2**32
