"""The generator of random functions in index notation whose reads stay inside the shapes by construction.

A function is generated together with the list of all index tuples at which each of its parts
is evaluated. A read chooses coefficients first; its offset then makes the least index value 0
or 1, and the largest value becomes the least extent of its tensor. So the shapes are known last,
and what is generated are *thunks*: functions that write the expression once the tensors exist.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import sympy
from sympy import Expr, Symbol

from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol

from .index_forms import Growth, IndexForms, PendingTensor, Points, at
from .languages import BINDERS, LANGUAGES, Kind, Language, RandomFunction

Thunk: TypeAlias = Callable[[], Expr]
Production: TypeAlias = "Callable[[Generator, Points, int], Thunk]"
"""What writes a scalar that is evaluated at some points, nested so deep."""
Share: TypeAlias = tuple[Language, float, Sequence[Production]]
"""The language from which on there are some productions, how often one of them is taken, and they themselves."""

_SIZES = (1, 2, 3, 4)
_DRAWS = 3
_DATA = {"idx": (8,), "jdx": (6,), "pairs": (5, 3), "place": (1,)}
"""The tensors of integers and their extents, but for what these grow by."""


class Generator:
    """Makes one random function; `generate` is called once.

    Parameters
    ----------
    seed, language, kind, kinks, symbolic, products
        As in `random_function`.
    productions : sequence of Share
        What may be where a scalar is.
    begin : Production
        What the function is at its indices.

    Attributes
    ----------
    sizes : tuple of Symbol
        What extents grow by with.
    starts : list of dict
        Values of symbols that are free everywhere; the function is made for all of them.
    """

    def __init__(
        self,
        seed: int,
        language: Language,
        kind: Kind,
        kinks: bool,
        symbolic: bool,
        products: bool,
        productions: Sequence[Share],
        begin: Production,
    ) -> None:
        self.random = random.Random(seed)
        self.language = LANGUAGES[language]
        self.kind = kind
        self.kinks = kinks
        self.productions, self.begin = productions, begin
        self.products = products and symbolic
        self.sizes: tuple[Symbol, ...] = ()
        self.starts: Points = [{}]
        ranks = {"x": self.random.choice((1, 1, 2)), "y": self.random.choice((1, 2)), "z": self.random.choice((0, 3))}
        self.tensors = {name: self.blank(name, [1] * rank) for name, rank in ranks.items()}
        self.chained: dict[str, PendingTensor] = {}
        self.scalar_used = False
        self.names = iter("ghu")
        if symbolic:
            self.draw_sizes()
        for tensor in self.tensors.values():
            tensor.growth = [self.growth() for _ in tensor.extents]
        data = [self.blank(name, extents) for name, extents in _DATA.items()] if self.language.has("maps") else []
        for tensor in data:
            tensor.built = TensorSymbol(tensor.name, self.shape(tensor), dtype=int)
        self.forms = IndexForms(self.random, self.language, self.sizes, self.products, data)

    def draw_sizes(self) -> None:
        """Values of the symbols: of several draws, or of one with which extents are then written."""
        if not self.language.has("ranges"):
            self.starts = [{symbol: self.random.randint(1, 4) for symbol in sympy.symbols("N M", integer=True)}]
            return
        self.sizes = sympy.symbols("N M", integer=True, positive=True)
        drawn = {tuple(self.random.choice(_SIZES) for _ in self.sizes) for _ in range(_DRAWS)}
        self.starts = [dict(zip(self.sizes, values, strict=True)) for values in sorted(drawn)]
        self.random.shuffle(self.starts)

    def growth(self) -> Growth:
        """Return the growth of an extent with the sizes."""
        if not self.sizes or self.random.random() < 0.4:
            return ()
        if self.products and self.random.random() < 0.5:
            return ((1, self.sizes),)
        return ((self.random.choice((1, 1, 1, 2, 3)), (self.random.choice(self.sizes),)),)

    def blank(self, name: str, extents: Iterable[int]) -> PendingTensor:
        """A tensor that nothing reads yet."""
        extents = list(extents)
        return PendingTensor(name, extents, [self.growth() for _ in extents])

    def whole(self, rank: int) -> PendingTensor:
        """The function itself, whose extents are free."""
        extents = [min(self.random.randint(1, 4), self.language.longest_axis[rank]) for _ in range(rank)]
        tensor = PendingTensor("f", extents, [()] * rank)
        if self.sizes and rank < 4:
            axis = self.random.randrange(rank)
            symbol = self.random.choice(self.sizes)
            tensor.growth[axis] = ((1, (symbol,)),)
            tensor.extents[axis] = self.random.choice((0, 0, 1))
            self.forms.divisors = () if tensor.extents[axis] else (symbol,)
        return tensor

    def extent(self, length: int) -> Expr:
        """Return an extent as a number, or with a symbol that has one value only."""
        start = {} if self.sizes else self.starts[0]
        if not start or self.random.random() < 0.4:
            return sympy.Integer(length)
        symbol = self.random.choice(list(start))
        factor = self.random.choice((1, 1, 2))
        return factor * symbol + (length - factor * start[symbol])

    def shape(self, tensor: PendingTensor) -> tuple[Expr, ...]:
        """The extents as they are written."""
        extents = zip(tensor.extents, tensor.growth, strict=True)
        return tuple(self.extent(length) + sum((c * sympy.Mul(*m) for c, m in growth), 0) for length, growth in extents)

    # ------------------------------------------------------------------ scalars

    def scalar(self, points: Points, depth: int, table: Sequence[Share] | None = None) -> Thunk:
        """A scalar that is evaluated at ``points``, by a production."""
        for language, share, productions in (table or self.productions) if depth > 0 else ():
            if self.language.has(language) and (share == 1 or self.random.random() < share):
                return self.random.choice(productions)(self, points, depth)
        return self.leaf(points)

    def leaf(self, points: Points) -> Thunk:
        """A read, an index, a scalar or a number."""
        draw = self.random.random()
        if draw < 0.8:
            return self.read(points, self.random.choice(list(self.tensors.values())))
        if draw < 0.9:
            form, _ = self.forms.form(points)
            return lambda: form
        if draw < 0.95:
            self.scalar_used = True
            return lambda: Symbol("alpha", real=True)
        number = sympy.Rational(self.random.randint(-4, 4), 2)
        return lambda: number

    def read(self, points: Points, tensor: PendingTensor) -> Thunk:
        """A read of ``tensor`` that is valid at all points."""
        indices: list[Expr] = []
        for axis in range(len(tensor.extents)):
            form, values = self.forms.form(points, self.language.widest_axis[len(tensor.extents)])
            offset = self.random.choice((0, 0, 1)) - min(values)
            needed = max(v - at(tensor.growth[axis], p) for v, p in zip(values, points, strict=True)) + offset + 1
            tensor.extents[axis] = max(tensor.extents[axis], needed)
            indices.append(form + offset)
        return lambda: tensor.entry(tuple(indices))

    def binder(self, never_empty: bool) -> Callable[..., Expr]:
        """Return the class of a reduction, without maxima and minima unless ``never_empty``."""
        if not self.language.has("maps"):
            return IndexedSum
        return self.random.choice(BINDERS if never_empty else BINDERS[:-2])

    # ------------------------------------------------------------------ the whole

    def comprehension(self, body: Thunk, axes: Sequence[Symbol], tensor: PendingTensor) -> TensorComprehension:
        whole: TensorComprehension = TensorComprehension(body(), *zip(axes, self.shape(tensor), strict=True))
        return whole

    def generate(self, rank: int | None, depth: int) -> RandomFunction:
        """The function; its rank is random where it is None."""
        rank = rank or self.random.choice(self.language.ranks)
        axes = sympy.symbols("i j p q", integer=True)[:rank]
        whole = self.whole(rank)
        body = self.begin(self, box(self.starts, axes, whole.extents, whole.growth), depth)
        inner: list[tuple[PendingTensor, Thunk, Sequence[Symbol]]] = []
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
        data = {tensor: entries for tensor, entries in self.forms.data.items() if function.has(tensor)}
        present = [v for v in variables if function.has(v)]
        return RandomFunction(function, present, self.starts[0], self.starts, data)


def box(points: Points, axes: Sequence[Symbol], extents: Sequence[int], growths: Sequence[Growth]) -> Points:
    """All points, extended by the indices of a tensor."""
    for axis, extent, growth in zip(axes, extents, growths, strict=True):
        points = [{**point, axis: value} for point in points for value in range(extent + at(growth, point))]
    return points
