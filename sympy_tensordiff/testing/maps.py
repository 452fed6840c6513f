"""Random functions whose index maps are wider than affine: quotients, remainders and windows of all kinds.

Beyond `ranges`: what stands in indices, conditions and the ends of ranges is drawn from the table
`INDEX_FORMS`, and scalars now and then from the table `SCALARS`. A wider class of functions is one
more entry there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import sympy
from sympy import Expr, Mod, Symbol, ceiling, floor

from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.testing.generate import Generator, Kind, Points, RandomFunction, Thunk, _Tensor
from sympy_tensordiff.testing.ranges import RangesGenerator

Form: TypeAlias = tuple[Expr, list[int]]
"""An integer made of the indices in scope, and its value at every point."""


class MapsGenerator(RangesGenerator):
    """Makes one random function."""

    numbers_of_limits = (1, 1, 1, 1, 2, 3)
    divisors: tuple[Symbol, ...] = ()
    """The sizes that are extents, so that they are known to be positive."""

    def whole(self, rank: int) -> _Tensor:
        tensor = super().whole(rank)
        held = [s for growth in tensor.growth for _, monomial in growth for s in monomial]
        self.divisors = tuple(dict.fromkeys(held))
        return tensor

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

    def scalar(self, points: Points, depth: int) -> Thunk:
        if self.begun and depth > 0 and self.random.random() < 0.15:
            return self.random.choice(SCALARS)(self, points, depth)
        return super().scalar(points, depth)


# ---------------------------------------------------------------------------- forms


def _quotient(generator: MapsGenerator, points: Points) -> Form:
    (form, values), (divisor, by) = generator.affine(points), generator.divisor(points)
    return floor(form / divisor), [v // d for v, d in zip(values, by, strict=True)]


def _rounded_up(generator: MapsGenerator, points: Points) -> Form:
    (form, values), (divisor, by) = generator.affine(points), generator.divisor(points)
    return ceiling(form / divisor), [-(-v // d) for v, d in zip(values, by, strict=True)]


def _remainder(generator: MapsGenerator, points: Points) -> Form:
    (form, values), (divisor, by) = generator.affine(points), generator.divisor(points)
    return Mod(form, divisor), [v % d for v, d in zip(values, by, strict=True)]


def _beside_affine(generator: MapsGenerator, points: Points) -> Form:
    (form, values), (other, more) = generator.random.choice(_SIMPLE)(generator, points), generator.affine(points)
    factor = generator.random.choice((1, 1, -1, 2, 3))
    return other + factor * form, [w + factor * v for v, w in zip(values, more, strict=True)]


def _two_compounds(generator: MapsGenerator, points: Points) -> Form:
    (form, values), (other, more) = (generator.random.choice(_SIMPLE)(generator, points) for _ in range(2))
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
    (base, by), (place, at) = generator.divisor(points), generator.divisor(points)
    moved = place * Mod(form, base) + floor(form / base)
    return moved, [p * (v % b) + v // b for v, b, p in zip(values, by, at, strict=True)]


_SIMPLE = (_quotient, _quotient, _rounded_up, _remainder, _remainder)

INDEX_FORMS: tuple[Callable[[MapsGenerator, Points], Form], ...] = (
    *_SIMPLE,
    _beside_affine,
    _two_compounds,
    _nested,
    _nested,
    _digits,
)
"""What may stand where an index, a condition or an end of a range has an integer."""


# ---------------------------------------------------------------------------- scalars


def _window(generator: MapsGenerator, points: Points, depth: int) -> Thunk:
    """A sum over the window of a pooling, or over the values that a quotient sends to one."""
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
    return lambda: IndexedSum(body(), (index, width * form, width * form + width - 1))


SCALARS: tuple[Callable[[MapsGenerator, Points, int], Thunk], ...] = (_window,)
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
    """A random function with wider index maps; same arguments, same function.

    Parameters are those of `random_ranges`.

    Examples
    --------
    >>> random = random_maps(4)
    >>> random.function == random_maps(4).function
    True
    """
    symbolic = seed % 2 == 1 if symbolic is None else symbolic
    while True:
        generator = MapsGenerator(seed, kind, kinks, symbolic, products=False)
        made = generator.generate(rank or generator.random.choice((1, 1, 2, 2, 3)), depth)
        if made.variables:
            return made
        seed += 2**32
