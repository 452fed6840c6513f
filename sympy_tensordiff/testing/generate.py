"""Random element-wise defined functions whose reads stay inside the shapes by construction.

A function is generated together with the list of all index tuples at which each of its parts
is evaluated. A read chooses coefficients first; its offset then makes the least index value 0
or 1, and the largest value becomes the least extent of its tensor. So the shapes are known last,
and what is generated are *thunks*: functions that write the expression once the tensors exist.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal, TypeAlias

import sympy
from sympy import Expr, Symbol

from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorSymbol

Thunk: TypeAlias = Callable[[], Expr]
Point: TypeAlias = dict[Symbol, int]
Points: TypeAlias = list[Point]
Limit: TypeAlias = tuple[Symbol, Expr, Expr]
Kind = Literal["rational", "smooth"]
Growth: TypeAlias = tuple[tuple[int, tuple[Symbol, ...]], ...]
"""A polynomial of sizes, as pairs of a coefficient and the factors of a monomial."""


@dataclass
class _Tensor:
    """A tensor or a comprehension to be: its rank, the extents needed so far, then itself.

    An extent is the number in ``extents`` plus what it grows by with the sizes.
    """

    name: str
    extents: list[int]
    growth: list[Growth]
    built: Expr | None = None


@dataclass
class RandomFunction:
    """A generated function.

    Attributes
    ----------
    function : scalar or tensor expression
    variables : list of TensorSymbol and Symbol
        What it can be differentiated by.
    sizes : dict
        The values of the symbols in its shapes and ranges, for which it reads inside.
    draws : list of dict
        All such values; the first are ``sizes``.
    data : dict
        The entries of tensors of integers that it was made with, by their place.
    """

    function: Expr
    variables: list[Expr] = field(default_factory=list)
    sizes: dict[Symbol, int] = field(default_factory=dict)
    draws: list[dict[Symbol, int]] = field(default_factory=list)
    data: dict[Expr, dict[tuple[int, ...], int]] = field(default_factory=dict)


class Generator:
    """Makes one random function; `generate` is called once. A subclass widens the class of functions.

    Attributes
    ----------
    starts : list of dict
        Values of symbols that stand free everywhere; the function is made for all of them.
    """

    coefficients: tuple[int, ...] = (0, 0, 1, 1, 1, 2, 3, -1, -1, -2, -3)
    numbers_of_limits: tuple[int, ...] = (1, 1, 2)
    most_points = 240
    widest_axis: tuple[int, ...] = (0, 14, 8, 5)  # by rank, so that no tensor has many more entries than another

    def __init__(self, seed: int, kind: Kind, conditions: bool, kinks: bool) -> None:
        self.random = random.Random(seed)
        self.kind = kind
        self.conditions = conditions
        self.kinks = kinks
        ranks = {"x": self.random.choice((1, 1, 2)), "y": self.random.choice((1, 2)), "z": self.random.choice((0, 3))}
        self.starts: Points = [{}]
        self.tensors = {name: self.blank(name, rank) for name, rank in ranks.items()}
        self.chained: dict[str, _Tensor] = {}
        self.scalar_used = False
        self.names = iter("ghu")

    def blank(self, name: str, rank: int) -> _Tensor:
        """A tensor that nothing reads yet."""
        return _Tensor(name, [1] * rank, [()] * rank)

    def whole(self, rank: int) -> _Tensor:
        """The function itself, whose extents are free."""
        return _Tensor("f", [self.random.randint(1, 4) for _ in range(rank)], [()] * rank)

    def extent(self, length: int) -> Expr:
        """How an extent is written."""
        return sympy.Integer(length)

    # ------------------------------------------------------------------ scalars

    def scalar(self, points: Points, depth: int) -> Thunk:
        """A scalar that is evaluated at ``points``."""
        if depth <= 0:
            return self.leaf(points)
        choices: list[Callable[[Points, int], Thunk]] = [
            *(self.sum_of, self.product, self.product, self.function, self.reduction, self.reduction, self.chain),
        ]
        if self.conditions:
            choices += [self.piecewise, self.delta]
        return self.random.choice(choices)(points, depth)

    def leaf(self, points: Points) -> Thunk:
        draw = self.random.random()
        if draw < 0.8:
            return self.read(points, self.random.choice(list(self.tensors.values())))
        if draw < 0.9:
            return self.index_value(points)
        if draw < 0.95:
            self.scalar_used = True
            return lambda: Symbol("alpha", real=True)
        number = sympy.Rational(self.random.randint(-4, 4), 2)
        return lambda: number

    def index_value(self, points: Points) -> Thunk:
        form, _ = self.form(points)
        return lambda: form

    def form(self, points: Points, widest: int | None = None) -> tuple[Expr, list[int]]:
        """A random affine form of the indices in scope, and its value at every point."""
        scope = list(points[0])
        while True:
            coefficients = [self.random.choice(self.coefficients) for _ in scope]
            values = [sum(c * p[s] for c, s in zip(coefficients, scope, strict=True)) for p in points]
            if widest is None or max(values) - min(values) < widest:
                return sum((c * s for c, s in zip(coefficients, scope, strict=True)), sympy.S.Zero), values

    def read(self, points: Points, tensor: _Tensor) -> Thunk:
        """A read of ``tensor`` that is valid at all points."""
        indices: list[Expr] = []
        for axis in range(len(tensor.extents)):
            form, values = self.form(points, self.widest_axis[len(tensor.extents)])
            offset = self.random.choice((0, 0, 1)) - min(values)
            needed = max(v - at(tensor.growth[axis], p) for v, p in zip(values, points, strict=True)) + offset + 1
            tensor.extents[axis] = max(tensor.extents[axis], needed)
            indices.append(form + offset)
        return lambda: self.entry(tensor, tuple(indices))

    @staticmethod
    def entry(tensor: _Tensor, indices: tuple[Expr, ...]) -> Expr:
        assert tensor.built is not None
        return tensor.built[indices] if indices else tensor.built

    def sum_of(self, points: Points, depth: int) -> Thunk:
        left, right = self.scalar(points, depth - 1), self.scalar(points, depth - 2)
        factor = self.random.choice((1, 1, -1, 2, sympy.Rational(-3, 2)))
        return lambda: left() + factor * right()

    def product(self, points: Points, depth: int) -> Thunk:
        left, right = self.scalar(points, depth - 1), self.scalar(points, depth - 2)
        return lambda: left() * right()

    def function(self, points: Points, depth: int) -> Thunk:
        inner, other = self.scalar(points, depth - 1), self.leaf(points)
        functions: list[Callable[[Expr, Expr], Expr]] = [
            *(lambda u, v: u**2, lambda u, v: u**3, lambda u, v: v / (1 + u**2), lambda u, v: (u - v) ** 2),
        ]
        if self.kinks:
            functions += [
                *(lambda u, v: sympy.Abs(u), lambda u, v: sympy.Max(u, 0), lambda u, v: sympy.Min(u, v)),
                *(lambda u, v: sympy.Max(u, v, 1), lambda u, v: sympy.sign(u) * v),
                lambda u, v: sympy.Piecewise((u, v > 0), (2 * v, True)),
            ]
        if self.kind == "smooth":
            functions = [
                *(lambda u, v: sympy.sin(u), lambda u, v: v * sympy.cos(u), lambda u, v: sympy.tanh(u)),
                *(lambda u, v: sympy.exp(-(u**2)), lambda u, v: sympy.sqrt(1 + u**2), lambda u, v: u**2),
                lambda u, v: sympy.log(1 + u**2),
            ]
        chosen = self.random.choice(functions)
        return lambda: chosen(inner(), other())

    # --------------------------------------------------------- sums, conditions, chains

    def reduction(self, points: Points, depth: int) -> Thunk:
        """A sum over one or two indices, whose bounds may depend on the indices outside."""
        limits: list[tuple[Symbol, Expr, Expr]] = []
        inner = points
        owners = list(range(len(points)))
        for _ in range(self.random.choice(self.numbers_of_limits)):
            # An index name may stand for an index outside already: it is then hidden inside.
            # (Not inside the limits of one sum, where it is refused as a mistake.)
            used = {s for limit in limits for part in limit for s in part.free_symbols}
            free = [s for s in sympy.symbols("k l m n", integer=True) if s not in used]
            if not free:
                break
            index = self.random.choice(free)
            limit, ranges = self.limit(index, inner)
            if not 0 < sum(map(len, ranges)) <= self.most_points:
                continue
            limits.append(limit)
            inner = [{**point, index: value} for point, values in zip(inner, ranges, strict=True) for value in values]
            owners = [owner for owner, values in zip(owners, ranges, strict=True) for _ in values]
        if not limits:
            return self.leaf(points)
        body = self.scalar(inner, depth - 1)
        binder = self.binder(len(set(owners)) == len(points))
        return lambda: binder(body(), *reversed(limits))

    def binder(self, never_empty: bool) -> Callable[..., Expr]:
        """What reduces: a sum."""
        return IndexedSum

    def limit(self, index: Symbol, points: Points) -> tuple[Limit, list[range]]:
        """A limit of a sum, and the values of its index at each point."""
        visible = [s for s in points[0] if s != index]
        lo: Expr = sympy.Integer(self.random.choice((0, 0, 0, 1, -1)))
        hi: Expr = lo + self.random.randint(0, 3)
        if visible and self.random.random() < 0.4:
            outer = self.random.choice(visible)
            lo, hi = self.random.choice(
                [(lo, outer), (outer, hi + 1), (outer - 1, outer + 1), (2 * outer - 1, outer + 2), (lo, 3 - outer)]
            )
        return (index, lo, hi), [range(int(lo.subs(point)), int(hi.subs(point)) + 1) for point in points]

    def condition(self, points: Points) -> tuple[Expr, Points, Points]:
        """A condition on the indices, and the points at which it holds and at which it does not."""
        form, values = self.form(points)
        pivot = self.random.choice(values)
        holds: list[tuple[Expr, Callable[[int], bool]]] = [
            (form >= pivot, lambda v: v >= pivot),
            (form < pivot + 1, lambda v: v < pivot + 1),
            (sympy.Eq(form, pivot), lambda v: v == pivot),
            (sympy.Ne(form, pivot), lambda v: v != pivot),
            (sympy.Eq(sympy.Mod(form, 2), pivot % 2), lambda v: v % 2 == pivot % 2),
            ((form >= pivot) & (form <= pivot + 2), lambda v: pivot <= v <= pivot + 2),
            ((form < pivot) | (form > pivot + 1), lambda v: not pivot <= v <= pivot + 1),
        ]
        chosen, test = self.random.choice(holds)
        inside = [p for p, v in zip(points, values, strict=True) if test(v)]
        outside = [p for p, v in zip(points, values, strict=True) if not test(v)]
        return chosen, inside, outside

    def piecewise(self, points: Points, depth: int) -> Thunk:
        condition, inside, outside = self.condition(points)
        if not inside or not outside:
            return self.scalar(points, depth - 1)
        yes = self.scalar(inside, depth - 1)
        no: Thunk = lambda: sympy.S.Zero  # noqa: E731
        if self.random.random() < 0.5:
            no = self.scalar(outside, depth - 2)
        return lambda: sympy.Piecewise((yes(), condition), (no(), True))

    def delta(self, points: Points, depth: int) -> Thunk:
        """A product with a delta: the other factor is evaluated where the delta is 1 only."""
        (left, at_left), (right, at_right) = self.form(points), self.form(points)
        shift = self.random.choice(at_left) - self.random.choice(at_right)
        inside = [p for p, v, w in zip(points, at_left, at_right, strict=True) if v == w + shift]
        if not inside:
            return self.scalar(points, depth - 1)
        body = self.scalar(inside, depth - 1)
        return lambda: sympy.KroneckerDelta(left, right + shift) * body()

    def chain(self, points: Points, depth: int) -> Thunk:
        """A read of another comprehension, the same one at several places."""
        name = next(self.names, None) if not self.chained or self.random.random() < 0.5 else None
        if name is not None:
            self.chained[name] = self.blank(name, self.random.choice((1, 1, 2)))
        if not self.chained:
            return self.leaf(points)
        return self.read(points, self.random.choice(list(self.chained.values())))

    # ------------------------------------------------------------------ the whole

    def shape(self, tensor: _Tensor) -> tuple[Expr, ...]:
        """The extents as they are written."""
        extents = zip(tensor.extents, tensor.growth, strict=True)
        return tuple(self.extent(length) + sum((c * sympy.Mul(*m) for c, m in growth), 0) for length, growth in extents)

    def comprehension(self, body: Thunk, axes: Sequence[Symbol], tensor: _Tensor) -> TensorComprehension:
        whole: TensorComprehension = TensorComprehension(body(), *zip(axes, self.shape(tensor), strict=True))
        return whole

    def generate(self, rank: int, depth: int) -> RandomFunction:
        axes = sympy.symbols("i j p q", integer=True)[:rank]
        whole = self.whole(rank)
        body = self.scalar(box(self.starts, axes, whole.extents, whole.growth), depth)
        inner: list[tuple[_Tensor, Thunk, Sequence[Symbol]]] = []
        # First come, first finished: a comprehension reads only later ones, so that its own
        # extents, which its readers determine, are final when its body is generated.
        while self.chained:
            tensor = self.chained.pop(next(iter(self.chained)))
            own = sympy.symbols("a b", integer=True)[: len(tensor.extents)]
            points = box(self.starts, own, tensor.extents, tensor.growth)
            inner.append((tensor, self.scalar(points, max(1, depth - 2)), own))
        variables: list[Expr] = []
        for tensor in self.tensors.values():
            tensor.extents = [extent + self.random.choice((0, 0, 1)) for extent in tensor.extents]
            tensor.built = TensorSymbol(tensor.name, self.shape(tensor))
            variables.append(tensor.built)
        for tensor, thunk, own in reversed(inner):
            tensor.built = self.comprehension(thunk, own, tensor)
        if self.scalar_used:
            variables.append(Symbol("alpha", real=True))
        function = self.comprehension(body, axes, whole)
        return RandomFunction(function, [v for v in variables if function.has(v)], self.starts[0], self.starts)


def at(growth: Growth, point: Point) -> int:
    """The value of a polynomial of sizes."""
    return sum(c * prod(point[s] for s in monomial) for c, monomial in growth)


def box(points: Points, axes: Sequence[Symbol], extents: Sequence[int], growths: Sequence[Growth]) -> Points:
    """All points, extended by the indices of a tensor."""
    for axis, extent, growth in zip(axes, extents, growths, strict=True):
        points = [{**point, axis: value} for point in points for value in range(extent + at(growth, point))]
    return points


def random_comprehension(
    seed: int,
    *,
    rank: int | None = None,
    depth: int = 3,
    kind: Kind = "rational",
    conditions: bool = True,
    kinks: bool = True,
) -> RandomFunction:
    """A random element-wise defined function; same arguments, same function.

    Parameters
    ----------
    seed : int
    rank : int, optional
        Of the function, 1 to 3; random where it is left out.
    depth : int
        How deep the expression is nested.
    kind : {"rational", "smooth"}
        Rational functions, which the oracle differentiates exactly, or transcendental ones.
    conditions : bool
        With ``Piecewise`` on the indices and ``KroneckerDelta``.
    kinks : bool
        With ``Max``, ``Min``, ``Abs``, ``sign`` and ``Piecewise`` on values.

    Examples
    --------
    >>> random = random_comprehension(3)
    >>> random.function == random_comprehension(3).function
    True
    """
    generator = Generator(seed, kind, conditions, kinks)
    return generator.generate(rank or generator.random.randint(1, 3), depth)
