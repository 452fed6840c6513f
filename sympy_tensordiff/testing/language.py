"""Random functions in the whole element-wise language.

Beyond `generate`: symbolic sizes, comprehensions that depend on the indices around them,
quotients and remainders as indices, conditions that mix indices and values, and powers whose
exponent is an index or a value. They read inside their shapes for the sizes that come along.
"""

from __future__ import annotations

import sympy
from sympy import Expr

from sympy_tensordiff.symbolic.tensors import TensorComprehension
from sympy_tensordiff.testing.generate import (
    Generator,
    Kind,
    Points,
    RandomFunction,
    Thunk,
    box,
)


class LanguageGenerator(Generator):
    """Makes one random function; ``symbolic`` puts symbols into shapes, ranges and indices."""

    def __init__(self, seed: int, kind: Kind, kinks: bool, symbolic: bool) -> None:
        super().__init__(seed, kind, conditions=True, kinks=kinks)
        if symbolic:
            self.starts = [{symbol: self.random.randint(1, 4) for symbol in sympy.symbols("N M", integer=True)}]

    def extent(self, length: int) -> Expr:
        """``length`` for the sizes chosen, written with one of their symbols or as a number."""
        (start,) = self.starts
        if not start or self.random.random() < 0.4:
            return super().extent(length)
        symbol = self.random.choice(list(start))
        factor = self.random.choice((1, 1, 2))
        return factor * symbol + (length - factor * start[symbol])

    def scalar(self, points: Points, depth: int) -> Thunk:
        if depth > 0 and self.random.random() < 0.3:
            return self.random.choice((self.nested, self.nested, self.mixed, self.index_power))(points, depth)
        return super().scalar(points, depth)

    def form(self, points: Points, widest: int | None = None) -> tuple[Expr, list[int]]:
        """An affine form, sometimes its quotient or remainder by a number."""
        form, values = super().form(points, widest)
        draw = self.random.random()
        if draw < 0.8 or form.is_number:
            return form, values
        divisor = self.random.choice((2, 2, 3))
        if draw < 0.9:
            return sympy.floor(form / divisor), [value // divisor for value in values]
        return sympy.Mod(form, divisor), [value % divisor for value in values]

    def nested(self, points: Points, depth: int) -> Thunk:
        """Entries of a comprehension whose body uses the indices around it."""
        axes = self.random.sample(sympy.symbols("c d i", integer=True), self.random.choice((1, 1, 2)))
        extents = [1] * len(axes)
        reads: list[tuple[Expr, ...]] = []
        for _ in range(self.random.choice((1, 1, 2))):
            index: list[Expr] = []
            for n in range(len(axes)):
                form, values = self.form(points, 4)
                shift = -min(values)
                extents[n] = max(extents[n], max(values) + shift + 1)
                index.append(form + shift)
            reads.append(tuple(index))
        inner = box(points, axes, extents, [()] * len(axes))
        if len(inner) > self.most_points:
            return super().scalar(points, depth - 1)
        body = self.scalar(inner, depth - 1)
        shape = [self.extent(length) for length in extents]

        def written() -> Expr:
            table: TensorComprehension = TensorComprehension(body(), *zip(axes, shape, strict=True))
            return sympy.Mul(*(table[index] for index in reads))

        return written

    def mixed(self, points: Points, depth: int) -> Thunk:
        """Cases by conditions that compare indices, values, or both at once."""
        if not self.kinks:
            return self.piecewise(points, depth)
        condition, inside, outside = self.condition(points)
        left, right = self.leaf(points), self.leaf(points)
        joined = self.random.choice((sympy.And, sympy.And, sympy.Or))
        relation = self.random.choice((sympy.Gt, sympy.Le, sympy.Lt))
        reached, rest = (inside, points) if joined is sympy.And else (points, outside)
        if not reached or not rest:
            return super().scalar(points, depth - 1)
        yes, no = self.scalar(reached, depth - 1), self.scalar(rest, depth - 2)
        return lambda: sympy.Piecewise((yes(), joined(condition, relation(left(), right()))), (no(), True))

    def index_power(self, points: Points, depth: int) -> Thunk:
        """A power whose exponent is an index; of smooth functions also one whose exponent is a value."""
        base = self.scalar(points, depth - 1)
        form, values = self.form(points, 4)
        shift = -min(values)
        if self.kind == "smooth" and self.random.random() < 0.5:
            exponent = self.leaf(points)
            return lambda: (1 + base() ** 2) ** exponent()
        return lambda: base() ** (form + shift)


def random_function(
    seed: int,
    *,
    rank: int | None = None,
    depth: int = 3,
    kind: Kind = "rational",
    kinks: bool = True,
    symbolic: bool | None = None,
) -> RandomFunction:
    """A random function in the whole element-wise language; same arguments, same function.

    Parameters
    ----------
    seed : int
    rank : int, optional
        Of the function, 1 to 3; random where it is left out.
    depth : int
        How deep the expression is nested.
    kind : {"rational", "smooth"}
        Rational functions, which the oracle differentiates exactly, or transcendental ones.
    kinks : bool
        With ``Max``, ``Min``, ``Abs``, ``sign`` and conditions on values.
    symbolic : bool, optional
        With symbols ``N`` and ``M`` in shapes, ranges and indices; random where it is left out.

    Returns
    -------
    RandomFunction
        Its ``sizes`` are the values of the symbols.

    Examples
    --------
    >>> random = random_function(3, symbolic=True)
    >>> random.function == random_function(3, symbolic=True).function
    True
    >>> sorted(map(str, random.sizes))
    ['M', 'N']
    """
    generator = LanguageGenerator(seed, kind, kinks, seed % 2 == 1 if symbolic is None else symbolic)
    return generator.generate(rank or generator.random.randint(1, 3), depth)
