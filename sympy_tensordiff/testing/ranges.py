"""Random functions of the whole class of index equations.

Beyond `language`: up to 4 indices free and 4 in one sum, coefficients up to 6, ranges that depend
on one another or are empty, conditions joined by and, or and not, congruences of all moduli, and
sizes that are chosen after the function is made: it reads inside its shapes for all ``draws``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import sympy
from sympy import Expr, Symbol
from sympy.logic.boolalg import BooleanAtom

from sympy_tensordiff.testing.generate import Growth, Kind, Limit, Points, RandomFunction, Thunk, _Tensor
from sympy_tensordiff.testing.language import LanguageGenerator

_SIZES = (1, 2, 3, 4)
_DRAWS = 3


class RangesGenerator(LanguageGenerator):
    """Makes one random function; ``products`` lets sizes multiply."""

    coefficients = (*(0,) * 12, *(1,) * 5, -1, -1, 2, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6)
    numbers_of_limits = (1, 1, 2, 2, 3, 4)
    most_points = 400
    widest_axis = (0, 30, 11, 6)

    def __init__(self, seed: int, kind: Kind, kinks: bool, symbolic: bool, products: bool) -> None:
        super().__init__(seed, kind, kinks, symbolic=False)
        self.sizes: tuple[Symbol, ...] = sympy.symbols("N M", integer=True, positive=True) if symbolic else ()
        self.products = products and symbolic
        self.begun = False
        if symbolic:
            drawn = {tuple(self.random.choice(_SIZES) for _ in self.sizes) for _ in range(_DRAWS)}
            self.starts = [dict(zip(self.sizes, values, strict=True)) for values in sorted(drawn)]
            self.random.shuffle(self.starts)
        for tensor in self.tensors.values():
            tensor.growth = [self.growth() for _ in tensor.extents]

    def growth(self) -> Growth:
        """What an extent grows by with the sizes."""
        if not self.sizes or self.random.random() < 0.4:
            return ()
        if self.products and self.random.random() < 0.5:
            return ((1, self.sizes),)
        return ((self.random.choice((1, 1, 1, 2, 3)), (self.random.choice(self.sizes),)),)

    def blank(self, name: str, rank: int) -> _Tensor:
        tensor = super().blank(name, rank)
        if hasattr(self, "sizes"):
            tensor.growth = [self.growth() for _ in tensor.extents]
        return tensor

    def whole(self, rank: int) -> _Tensor:
        tensor = super().whole(rank)
        most = (4, 4, 4, 3, 2)[rank]
        tensor.extents = [min(length, most) for length in tensor.extents]
        if self.sizes and rank < 4:
            axis = self.random.randrange(rank)
            symbol = self.random.choice(self.sizes)
            tensor.growth[axis] = ((1, (symbol,)),)
            tensor.extents[axis] = self.random.choice((0, 0, 1))
        return tensor

    def extent(self, length: int) -> Expr:
        return sympy.Integer(length)

    # ------------------------------------------------------------------ ranges

    def scalar(self, points: Points, depth: int) -> Thunk:
        if self.begun:
            return super().scalar(points, depth)
        # The whole is a product of something and a function of reads, or few second derivatives are not 0.
        self.begun = True
        left, right = self.scalar(points, depth), self.function(points, 2)
        return lambda: left() * right() if depth % 2 else left() + right()

    def reduction(self, points: Points, depth: int) -> Thunk:
        if self.random.random() < 0.9:
            return super().reduction(points, depth)
        # A range that is empty everywhere; its summand reads inside as if there were one value.
        index = self.random.choice(sympy.symbols("k l m n", integer=True))
        form, values = self.form(points, 6)
        low = form + self.random.randint(-1, 2)
        if low.has(index):
            return super().reduction(points, depth)
        constant = int(low - form)
        inside = [{**point, index: value + constant} for point, value in zip(points, values, strict=True)]
        body = self.scalar(inside, depth - 1)
        gap = self.random.randint(1, 2)
        binder = self.binder(never_empty=False)
        return lambda: binder(body(), (index, low, low - gap))

    def limit(self, index: Symbol, points: Points) -> tuple[Limit, list[range]]:
        """A limit of a sum; its ends are forms in the indices outside now and then."""
        visible = [s for s in points[0] if s != index]
        if not visible or self.random.random() < 0.5:
            return super().limit(index, points)
        outer = [{s: point[s] for s in visible} for point in points]
        ends = [self.end(outer), self.end(outer)]
        if self.random.random() < 0.5:
            ends[1] = (ends[0][0] + 2, [value + 2 for value in ends[0][1]])
        (low, firsts), (high, lasts) = ends
        return (index, low, high), [range(a, b + 1) for a, b in zip(firsts, lasts, strict=True)]

    def end(self, points: Points) -> tuple[Expr, list[int]]:
        """One end of a range."""
        form, values = super(LanguageGenerator, self).form(points, 12)
        shift = self.random.randint(-2, 3)
        return form + shift, [value + shift for value in values]

    # ------------------------------------------------------------------ conditions

    def condition(self, points: Points) -> tuple[Expr, Points, Points]:
        """One to three atoms joined by and, or and not."""
        joined, truth = self.atom(points)
        for _ in range(self.random.choice((0, 0, 1, 2))):
            other, values = self.atom(points)
            if self.random.random() < 0.5:
                joined, truth = sympy.And(joined, other), [a and b for a, b in zip(truth, values, strict=True)]
            else:
                joined, truth = sympy.Or(joined, other), [a or b for a, b in zip(truth, values, strict=True)]
        if self.random.random() < 0.2:
            joined, truth = sympy.Not(joined), [not a for a in truth]
        inside = [p for p, holds in zip(points, truth, strict=True) if holds]
        outside = [p for p, holds in zip(points, truth, strict=True) if not holds]
        return joined, inside, outside

    def atom(self, points: Points) -> tuple[Expr, list[bool]]:
        """A relation between an affine form and a number, or a congruence."""
        form, values = self.form(points)
        pivot, modulus = self.random.choice(values), self.random.randint(2, 6)
        atoms: list[tuple[Any, Callable[[int], bool]]] = [
            (form >= pivot, lambda v: v >= pivot),
            (form < pivot, lambda v: v < pivot),
            (sympy.Eq(form, pivot), lambda v: v == pivot),
            (sympy.Ne(form, pivot), lambda v: v != pivot),
            (sympy.Eq(sympy.Mod(form, modulus), pivot % modulus), lambda v: (v - pivot) % modulus == 0),
            (sympy.Ne(sympy.Mod(form, modulus), pivot % modulus), lambda v: (v - pivot) % modulus != 0),
        ]
        chosen, test = self.random.choice(atoms)
        truth = [test(v) for v in values]
        is_wrong = isinstance(chosen, BooleanAtom) and bool(chosen) in [not holds for holds in truth]
        return self.atom(points) if is_wrong or is_misjudged(form, modulus) else (chosen, truth)

    def form(self, points: Points, widest: int | None = None) -> tuple[Expr, list[int]]:
        """An affine form, with products of a size and an index where sizes multiply."""
        if self.products and len(points[0]) > len(self.sizes) and self.random.random() < 0.2:
            size = self.random.choice(self.sizes)
            first, second = (self.random.choice([s for s in points[0] if s not in self.sizes]) for _ in range(2))
            values = [p[size] * p[first] + p[second] for p in points]
            if widest is None or max(values) - min(values) < widest:
                return size * first + second, values
        return super().form(points, widest)


def is_misjudged(form: Expr, divisor: Expr | int) -> bool:
    """Whether SymPy may leave out a part of what is divided, or of a relation about the remainder.

    SymPy 1.14 takes ``Abs(2*m - 8)/6`` and ``Max(2, Min(4, 2*i))/6`` for integers.
    """
    terms = sympy.Add.make_args(form)
    wide = [term for term in terms if divisor != 1 and term.has(sympy.Abs, sympy.Max, sympy.Min)]
    return any((term / divisor).is_integer for term in wide)


def random_ranges(
    seed: int,
    *,
    rank: int | None = None,
    depth: int = 3,
    kind: Kind = "rational",
    kinks: bool = True,
    symbolic: bool | None = None,
    products: bool = False,
) -> RandomFunction:
    """A random function of the whole class of index equations; same arguments, same function.

    Parameters
    ----------
    seed : int
    rank : int, optional
        Of the function, 1 to 4; random where it is left out. It reads a tensor at least.
    depth : int
        How deep the expression is nested.
    kind : {"rational", "smooth"}
        Rational functions, which the oracle differentiates exactly, or transcendental ones.
    kinks : bool
        With ``Max``, ``Min``, ``Abs``, ``sign`` and conditions on values.
    symbolic : bool, optional
        With symbols ``N`` and ``M`` in shapes, ranges and indices; random where it is left out.
    products : bool
        With products of a size and an index, and of sizes.

    Returns
    -------
    RandomFunction
        Its ``draws`` are values of the symbols.

    Examples
    --------
    >>> random = random_ranges(3)
    >>> random.function == random_ranges(3).function
    True
    >>> len(random.draws)
    3
    """
    symbolic = seed % 2 == 1 if symbolic is None else symbolic
    while True:
        generator = RangesGenerator(seed, kind, kinks, symbolic, products)
        # SymPy 1.14 does not come to an end with some cases whose conditions it sorts to and fro.
        with suppress(RecursionError):
            made = generator.generate(rank or generator.random.choice((1, 1, 1, 2, 2, 3, 4)), depth)
            if made.variables:
                return made
        seed += 2**32
