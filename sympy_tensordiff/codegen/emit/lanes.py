"""Lanes: the entries of a kernel that one NumPy operation handles at once.

Lanes have dimensions, as an array has. A `Span` is a range of one index, a `Picked` dimension a
list of chosen combinations of several indices. Conditions on indices make the lanes fewer:

* a condition on one index narrows its span (also to every m-th index),
* an equation between indices expresses one of them by the others,
* whatever is left picks the combinations that fulfil it.

So nothing is computed, and above all nothing read, for an entry for which a condition fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Any, NamedTuple, TypeAlias

from sympy_tensordiff.codegen.ir.scalars import MaskedEntry
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer.affine import Affine, Compound, Quotient, Row, quotient
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import PositivePart, positive_part, split_clamps
from sympy_tensordiff.integer.polyhedron import implied
from sympy_tensordiff.integer.products import Product, SymbolicQuotient, quotient_by, times


@dataclass(frozen=True, eq=False)
class Span:
    """The values ``low, low + step, …`` below ``stop`` of one index; forms over Python integers."""

    axis: str
    low: Affine
    stop: Affine
    step: int = 1

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.axis,)

    @property
    def length(self) -> Affine:
        return quotient(self.stop - self.low + (self.step - 1), self.step)


@dataclass(frozen=True, eq=False)
class Picked:
    """Chosen combinations of several indices: arrays of equal length, by index.

    ``spans`` are the ranges from which they were picked; ``positions`` tells for each earlier
    `Picked` where its chosen ones stand in it.
    """

    arrays: Mapping[str, str]
    spans: Mapping[str, Span]
    positions: Mapping[Picked, str] = field(default_factory=dict)

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(self.arrays)

    @property
    def size_text(self) -> str:
        return f"{next(iter(self.arrays.values()))}.size"


Dim: TypeAlias = Span | Picked


class Lanes:
    """Dimensions, and the indices that are expressed by others."""

    def __init__(self, dims: tuple[Dim, ...], replaced: Mapping[str, Affine] | None = None) -> None:
        self.dims = dims
        self.replaced = dict(replaced or {})
        self._dim_of = {axis: dim for dim in dims for axis in dim.axes}

    def image(self, form: Affine) -> Affine:
        """``form`` without the indices that are expressed by others."""
        return form.substitute(self.replaced) if self.replaced else form

    def dims_of(self, form: Affine) -> frozenset[Dim]:
        """The dimensions along which ``form`` varies."""
        return frozenset(self._dim_of[a] for a in self.image(form).atoms() if a in self._dim_of)

    def axes_in(self, form: Affine) -> list[str]:
        """The indices of lanes in ``form``, in order of the dimensions."""
        atoms = self.image(form).atoms()
        return [axis for axis in self._dim_of if axis in atoms]

    def has(self, name: str) -> bool:
        """Whether ``name`` is an index that varies along some dimension."""
        return name in self._dim_of

    def dim(self, axis: str) -> Dim:
        """The dimension that an index varies along."""
        return self._dim_of[axis]

    def span(self, axis: str) -> Span:
        """The range of values of an index (for picked combinations the one they were picked from)."""
        dim = self._dim_of[axis]
        return dim if isinstance(dim, Span) else dim.spans[axis]

    def trailing(self, dim: Dim) -> int:
        """The number of dimensions behind ``dim``."""
        return len(self.dims) - 1 - self.dims.index(dim)

    def replace(self, old: tuple[Dim, ...], new: Dim | None, images: Mapping[str, Affine] | None = None) -> Lanes:
        """The lanes with ``new`` in the place of the first of ``old``; ``images`` are indices expressed by others."""
        dims: list[Dim] = []
        for dim in self.dims:
            if dim is old[0] and new is not None:
                dims.append(new)
            elif dim not in old:
                dims.append(dim)
        replaced = {a: f.substitute(images or {}) for a, f in self.replaced.items()} | dict(images or {})
        return Lanes(tuple(dims), replaced)

    def extreme(self, form: Affine, sign: int) -> Affine:
        """A bound of ``form`` over all lanes, over Python integers: not above (sign -1), not below (sign 1) it."""
        form = self.image(form)
        ends = {}
        for axis in self.axes_in(form):
            span = self.span(axis)
            ends[axis] = (span.low, span.stop - 1)
        return _extreme(form, ends, sign)


class DataExtreme(DataEntry):
    """The least or the greatest of all entries of an array of integers."""

    __slots__ = ("greatest",)
    rank = 6

    def __init__(self, tensor: str, greatest: bool) -> None:
        super().__init__(tensor, ())
        self.greatest = greatest

    def key(self) -> tuple[Any, ...]:
        return self.tensor, self.greatest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataExtreme) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash((DataExtreme, self.key()))

    def __repr__(self) -> str:
        return f"{self.tensor}.{'max' if self.greatest else 'min'}()"


def _extreme(form: Affine, ends: Mapping[str, tuple[Affine, Affine]], sign: int) -> Affine:
    result = Affine.of(form.constant)
    for variable, coefficient in form.terms:
        upward = (coefficient > 0) == (sign > 0)
        result = result + coefficient * _extreme_of(variable, ends, 1 if upward else -1)
    return result


def _extreme_of(variable: str | Compound, ends: Mapping[str, tuple[Affine, Affine]], sign: int) -> Affine:
    if isinstance(variable, str):
        low, high = ends.get(variable, (None, None))
        return Affine.variable(variable) if low is None or high is None else high if sign > 0 else low
    if variable.atoms().isdisjoint(ends):
        return Affine.variable(variable)
    if isinstance(variable, DataEntry):
        extreme = Affine.variable(DataExtreme(variable.tensor, sign > 0))
        return sign * positive_part(sign * extreme) if isinstance(variable, MaskedEntry) else extreme
    if isinstance(variable, Quotient):
        return quotient(_extreme(variable.form, ends, sign), variable.divisor)
    if isinstance(variable, PositivePart):
        return positive_part(_extreme(variable.form, ends, sign))
    if isinstance(variable, Product):
        varying = [factor for factor in variable.factors if not Affine.variable(factor).atoms().isdisjoint(ends)]
        if len(varying) == 1:
            ends_of = [times(variable.without(varying[0]), _extreme_of(varying[0], ends, end)) for end in (-sign, sign)]
            # Whatever the sign of the other factors is, the product is between these two.
            return ends_of[1] + sign * positive_part(sign * (ends_of[0] - ends_of[1]))
    if isinstance(variable, SymbolicQuotient) and variable.divisor.atoms().isdisjoint(ends):
        return quotient_by(_extreme(variable.form, ends, sign), variable.divisor)
    raise UnsupportedError(f'NumPy\'s loops over whole axes cannot end at {variable}: use backend="numba"')


# ---------------------------------------------------------------------------- conditions


class Narrowed(NamedTuple):
    """What a set of conditions asks of one span."""

    lows: list[Affine]
    stops: list[Affine]
    residues: list[tuple[Affine, int]]


@dataclass
class Split:
    """Conditions sorted by what they need: Python's ``if``, narrower spans, a picked combination."""

    lanes: Lanes
    scalar: list[Row] = field(default_factory=list)
    spans: dict[str, Narrowed] = field(default_factory=dict)
    mask: list[Row] = field(default_factory=list)


def split_conditions(lanes: Lanes, rows: tuple[Row, ...]) -> Split:
    """Sort ``rows``; equations between indices are solved on the way."""
    split = Split(lanes)
    work = list(rows)
    solved_one = True
    while solved_one:
        solved_one = False
        for position, row in enumerate(work):
            solved = _solve_equation(split.lanes, row)
            if solved is not None:
                split.lanes, more = solved
                work[position : position + 1] = more
                solved_one = True
                break
    for row in _plain(split.lanes, work):
        row = _unfolded(split.lanes, row)
        axes = split.lanes.axes_in(row.form)
        if not axes:
            split.scalar.append(row)
        elif len(axes) > 1 or not _narrow(split, row, axes[0]):
            split.mask.append(row)
    return split


def _plain(lanes: Lanes, rows: list[Row]) -> list[Row]:
    """The rows without maxima and minima of the lanes' indices, as far as several rows say the same."""
    images = [Row(row.kind, lanes.image(row.form), row.modulus) for row in rows]
    parts = [part for row in images for part in split_clamps(row, frozenset(lanes.axes_in(row.form)))]
    return [part for part in parts if not (part.form.compounds() and implied(part, ()))]


def _solve_equation(lanes: Lanes, row: Row) -> tuple[Lanes, list[Row]] | None:
    """The lanes with one index of an equation expressed by the others, and the rows of its range."""
    form = lanes.image(row.form)
    axes = lanes.axes_in(form)
    if row.kind != "eq" or len(axes) < 2:
        return None
    for axis in reversed(axes):
        span = lanes.dim(axis)
        coefficient = form.coefficient(axis)
        if not isinstance(span, Span) or abs(coefficient) != 1 or axis in form.hidden():
            continue
        image = (form - Affine({axis: coefficient})) * -coefficient
        rows = [Row("ge", image - span.low), Row("ge", span.stop - 1 - image)]
        if span.step > 1:
            rows.append(Row("mod", image - span.low, span.step))
        return lanes.replace((span,), None, {axis: image}), rows
    return None


def _unfolded(lanes: Lanes, row: Row) -> Row:
    """``floor(form/d) >= m`` as ``form >= d*m``, so that the lanes' indices leave the quotient."""
    while row.kind == "ge":
        held = [(v, c) for v, c in row.form.terms if lanes.axes_in(Affine({v: 1}))]
        if len(held) != 1 or not isinstance(held[0][0], Quotient):
            break
        found, coefficient = held[0]
        rest = row.form - Affine({found: coefficient})
        if coefficient > 0:
            least = quotient(coefficient - 1 - rest, coefficient)
            row = Row("ge", found.form - found.divisor * least)
        else:
            most = quotient(rest, -coefficient)
            row = Row("ge", found.divisor * most + (found.divisor - 1) - found.form)
    return row


def _narrow(split: Split, row: Row, axis: str) -> bool:
    """Note what ``row`` asks of the span of its only index; False where no span expresses it."""
    span = split.lanes.dim(axis)
    if not isinstance(span, Span) or axis in row.form.hidden():
        return False
    coefficient = row.form.coefficient(axis)
    rest = row.form - Affine({axis: coefficient})
    size = abs(coefficient)
    wanted = split.spans.get(axis) or Narrowed([], [], [])
    if row.kind == "mod":
        if gcd(size, row.modulus) != 1 or span.step > 1 or wanted.residues:
            return False
        wanted.residues.append((rest * -pow(coefficient, -1, row.modulus), row.modulus))
    elif row.kind == "eq":
        value = quotient(rest if coefficient < 0 else -rest, size)
        if size > 1:
            split.scalar.append(Row("mod", rest, size))
        wanted.lows.append(value)
        wanted.stops.append(value + 1)
    elif coefficient > 0:
        wanted.lows.append(quotient(size - 1 - rest, size))
    else:
        wanted.stops.append(quotient(rest, size) + 1)
    split.spans[axis] = wanted
    return True


def first_in_residue(low: Affine, residue: Affine, modulus: int) -> Affine:
    """The least integer from ``low`` on that is congruent to ``residue``."""
    gap = residue - low
    return low + gap - modulus * quotient(gap, modulus)


def walk_dims(dims: tuple[Dim, ...], wanted: frozenset[Dim]) -> Iterator[tuple[Dim, bool]]:
    """The dimensions from the first wanted one on, each with whether it is wanted."""
    started = False
    for dim in dims:
        started = started or dim in wanted
        if started:
            yield dim, dim in wanted
