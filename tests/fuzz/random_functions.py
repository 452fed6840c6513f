"""Random functions in index notation: what may be where a scalar is.

What a function is made of is in the tables of `languages`, in `INDEX_FORMS` and in `SCALARS`: a wider class of
functions is one more entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import sympy
from sympy import Expr, Symbol

from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension

from .generate import Generator, Share, Thunk, box
from .index_forms import Limit, PendingTensor, Points
from .languages import FUNCTIONS, Kind, Language, RandomFunction

# ---------------------------------------------------------------------------- arithmetic and functions


def _sum_of(g: Generator, points: Points, depth: int) -> Thunk:
    left, right = g.scalar(points, depth - 1), g.scalar(points, depth - 2)
    factor = g.random.choice((1, 1, -1, 2, sympy.Rational(-3, 2)))
    return lambda: left() + factor * right()


def _product(g: Generator, points: Points, depth: int) -> Thunk:
    left, right = g.scalar(points, depth - 1), g.scalar(points, depth - 2)
    return lambda: left() * right()


def _function(g: Generator, points: Points, depth: int) -> Thunk:
    inner, other = g.scalar(points, depth - 1), g.leaf(points)
    rational = (*FUNCTIONS["rational"], *(FUNCTIONS["kinks"] if g.kinks else ()))
    chosen = g.random.choice(FUNCTIONS["smooth"] if g.kind == "smooth" else rational)
    return lambda: chosen(inner(), other())


def _index_power(g: Generator, points: Points, depth: int) -> Thunk:
    """A power whose exponent is an index; of smooth functions also one whose exponent is a value."""
    base = g.scalar(points, depth - 1)
    form, values = g.forms.form(points, 4)
    shift = -min(values)
    if g.kind == "smooth" and g.random.random() < 0.5:
        exponent = g.leaf(points)
        return lambda: (1 + base() ** 2) ** exponent()
    return lambda: base() ** (form + shift)


def _begin(g: Generator, points: Points, depth: int) -> Thunk:
    """The whole; beyond "sizes" a product or a sum with a function of reads, or few second derivatives are not 0."""
    left = g.scalar(points, depth)
    if not g.language.has("ranges"):
        return left
    right = _function(g, points, 2)
    return lambda: left() * right() if depth % 2 else left() + right()


# ---------------------------------------------------------------------------- sums


def _reduction(g: Generator, points: Points, depth: int) -> Thunk:
    """A reduction over some indices, whose bounds may depend on the indices outside."""
    if g.language.has("ranges") and g.random.random() >= 0.9:
        empty = _empty(g, points, depth)
        if empty is not None:
            return empty
    limits: list[Limit] = []
    inner = points
    owners = list(range(len(points)))
    for _ in range(g.random.choice(g.language.numbers_of_limits)):
        # An index name may stand for an index outside already: it is then hidden inside.
        # (Not inside the limits of one sum, where it is refused as a mistake.)
        used = {s for limit in limits for part in limit for s in part.free_symbols}
        free = [s for s in sympy.symbols("k l m n", integer=True) if s not in used]
        if not free:
            break
        index = g.random.choice(free)
        limit, ranges = g.forms.limit(index, inner)
        if not 0 < sum(map(len, ranges)) <= g.language.most_points:
            continue
        limits.append(limit)
        inner = [{**point, index: value} for point, values in zip(inner, ranges, strict=True) for value in values]
        owners = [owner for owner, values in zip(owners, ranges, strict=True) for _ in values]
    if not limits:
        return g.leaf(points)
    body = g.scalar(inner, depth - 1)
    binder = g.binder(len(set(owners)) == len(points))
    return lambda: binder(body(), *reversed(limits))


def _empty(g: Generator, points: Points, depth: int) -> Thunk | None:
    """A reduction over a range that is empty everywhere; its summand reads inside as if there were one value."""
    index = g.random.choice(sympy.symbols("k l m n", integer=True))
    form, values = g.forms.form(points, 6)
    shift = g.random.randint(-1, 2)
    low = form + shift
    if low.has(index):
        return None
    body = g.scalar([{**p, index: v + shift} for p, v in zip(points, values, strict=True)], depth - 1)
    gap = g.random.randint(1, 2)
    binder = g.binder(never_empty=False)
    return lambda: binder(body(), (index, low, low - gap))


def _window(g: Generator, points: Points, depth: int) -> Thunk:
    """A reduction of the window of a pooling, or of the values that a quotient sends to one."""
    index = Symbol("w", integer=True)
    if index in points[0]:
        return g.leaf(points)
    form, values = g.forms.combination(points, 8)
    width = g.random.choice((2, 3))
    pairs = list(zip(points, values, strict=True))
    inner = [{**point, index: width * v + shift} for point, v in pairs for shift in range(width)]
    if len(inner) > g.language.most_points:
        return g.leaf(points)
    body = g.scalar(inner, depth - 1)
    binder = g.binder(never_empty=True)
    return lambda: binder(body(), (index, width * form, width * form + width - 1))


def _chosen(g: Generator, points: Points, depth: int) -> Thunk:
    """A sum in which data choose the terms, read inside of their tensor only where the range has values."""
    index = Symbol("c", integer=True)
    if index in points[0]:
        return g.leaf(points)
    (_, lo, hi), ranges = g.forms.limit(index, points)
    pairs = [(point, values) for point, values in zip(points, ranges, strict=True) if values]
    inner = [{**point, index: value} for point, values in pairs for value in values]
    if not 0 < len(inner) <= g.language.most_points:
        return g.leaf(points)
    entry, read = g.forms.entry([point for point, _ in pairs])
    form, at_form = g.forms.quotient(inner)
    at_entry = [value for value, (_, values) in zip(read, pairs, strict=True) for _ in values]
    place = g.random.randrange(len(inner))
    shift = at_form[place] - at_entry[place]
    inside = [p for p, v, w in zip(inner, at_form, at_entry, strict=True) if v == w + shift]
    body = g.scalar(inside, depth - 1)
    return lambda: IndexedSum(sympy.KroneckerDelta(form, entry + shift) * body(), (index, lo, hi))


# ---------------------------------------------------------------------------- conditions


def _piecewise(g: Generator, points: Points, depth: int) -> Thunk:
    condition, inside, outside = g.forms.condition(points)
    if not inside or not outside:
        return g.scalar(points, depth - 1)
    yes = g.scalar(inside, depth - 1)
    no: Thunk = lambda: sympy.S.Zero  # noqa: E731
    if g.random.random() < 0.5:
        no = g.scalar(outside, depth - 2)
    return lambda: sympy.Piecewise((yes(), condition), (no(), True))


def _delta(g: Generator, points: Points, depth: int) -> Thunk:
    """A product with a delta: the other factor is evaluated where the delta is 1 only."""
    (left, at_left), (right, at_right) = g.forms.form(points), g.forms.form(points)
    shift = g.random.choice(at_left) - g.random.choice(at_right)
    inside = [p for p, v, w in zip(points, at_left, at_right, strict=True) if v == w + shift]
    if not inside:
        return g.scalar(points, depth - 1)
    body = g.scalar(inside, depth - 1)
    return lambda: sympy.KroneckerDelta(left, right + shift) * body()


def _mixed(g: Generator, points: Points, depth: int) -> Thunk:
    """Cases by conditions that compare indices, values, or both at once."""
    if not g.kinks:
        return _piecewise(g, points, depth)
    condition, inside, outside = g.forms.condition(points)
    left, right = g.leaf(points), g.leaf(points)
    joined = g.random.choice((sympy.And, sympy.And, sympy.Or))
    relation = g.random.choice((sympy.Gt, sympy.Le, sympy.Lt))
    reached, rest = (inside, points) if joined is sympy.And else (points, outside)
    if not reached or not rest:
        return g.scalar(points, depth - 1, _TABLES)
    yes, no = g.scalar(reached, depth - 1), g.scalar(rest, depth - 2)
    return lambda: sympy.Piecewise((yes(), joined(condition, relation(left(), right()))), (no(), True))


# ---------------------------------------------------------------------------- comprehensions


def _chain(g: Generator, points: Points, depth: int) -> Thunk:
    """A read of another comprehension, the same one at several places."""
    name = next(g.names, None) if not g.chained or g.random.random() < 0.5 else None
    if name is not None:
        g.chained[name] = g.blank(name, [1] * g.random.choice((1, 1, 2)))
    if not g.chained:
        return g.leaf(points)
    return g.read(points, g.random.choice(list(g.chained.values())))


def _nested(g: Generator, points: Points, depth: int) -> Thunk:
    """Entries of a comprehension whose body uses the indices around it."""
    axes = g.random.sample(sympy.symbols("c d i", integer=True), g.random.choice((1, 1, 2)))
    table = PendingTensor("table", [1] * len(axes), [()] * len(axes))
    reads: list[tuple[Expr, ...]] = []
    for _ in range(g.random.choice((1, 1, 2))):
        index: list[Expr] = []
        for n in range(len(axes)):
            form, values = g.forms.form(points, 4)
            shift = -min(values)
            table.extents[n] = max(table.extents[n], max(values) + shift + 1)
            index.append(form + shift)
        reads.append(tuple(index))
    inner = box(points, axes, table.extents, table.growth)
    if len(inner) > g.language.most_points:
        return g.scalar(points, depth - 1, _TABLES)
    body = g.scalar(inner, depth - 1)
    limits = tuple(zip(axes, g.shape(table), strict=True))

    def written() -> Expr:
        built: TensorComprehension = TensorComprehension(body(), *limits)
        return sympy.Mul(*(built[index] for index in reads))

    return written


_TABLES: Sequence[Share] = (
    ("tables", 1, (_sum_of, _product, _product, _function, _reduction, _reduction, _chain, _piecewise, _delta)),
)
SCALARS: Sequence[Share] = (
    ("maps", 0.15, (_window, _chosen)),
    ("sizes", 0.3, (_nested, _nested, _mixed, _index_power)),
    *_TABLES,
)
"""What may be where a scalar is: in which language, how often, and what."""


def random_function(
    seed: int,
    language: Language = "maps",
    *,
    rank: int | None = None,
    depth: int = 3,
    kind: Kind = "rational",
    kinks: bool = True,
    symbolic: bool | None = None,
    products: bool = False,
) -> RandomFunction:
    """A random function in index notation; same arguments, same function.

    Parameters
    ----------
    seed : int
    language : {"tables", "sizes", "ranges", "maps"}
        What the function may have, each with what is before it. "tables": reads, sums, functions, conditions,
        comprehensions. "sizes": quotients and remainders, powers, comprehensions that depend on indices around them.
        "ranges": up to 4 indices free and 4 in one sum, ranges that depend on one another or are empty, conditions
        joined by and, or and not, and sizes that are chosen after the function is made. "maps": all index maps and
        reductions, with integer tensors.
    rank : int, optional
        Of the function; random where it is left out.
    depth : int
        How deep the expression is nested.
    kind : {"rational", "smooth"}
        Rational functions, which the oracle differentiates exactly, or transcendental ones.
    kinks : bool
        With ``Max``, ``Min``, ``Abs``, ``sign`` and conditions on values.
    symbolic : bool, optional
        With symbols ``N`` and ``M`` in shapes, ranges and indices, beyond "tables"; random where it is left out.
    products : bool
        With products of a size and an index, and of sizes, beyond "sizes".

    Returns
    -------
    RandomFunction
        It reads inside its shapes for all ``draws``, values of the symbols, and depends on a variable.

    Examples
    --------
    >>> random = random_function(3, symbolic=True)
    >>> random.function == random_function(3, symbolic=True).function
    True
    >>> sorted(map(str, random.sizes))
    ['M', 'N']
    """
    symbolic = (seed % 2 == 1 if symbolic is None else symbolic) and language != "tables"
    while True:
        generator = Generator(seed, language, kind, kinks, symbolic, products, SCALARS, _begin)
        # SymPy 1.14 does not come to an end with some cases whose conditions it sorts to and fro.
        with suppress(RecursionError):
            made = generator.generate(rank, depth)
            if made.variables:
                return made
        seed += 2**32
