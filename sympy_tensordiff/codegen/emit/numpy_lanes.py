"""Lanes: the entries of a kernel that one NumPy operation handles at once, one dimension for each index.

Conditions make them fewer: one on a single index narrows its span, one that holds for all lanes or
for none is Python's ``if``, and all others are a mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sympy_tensordiff.integer.affine import Affine, Quotient, Row, quotient
from sympy_tensordiff.integer.extrema import PositivePart, positive_part, split_clamps
from sympy_tensordiff.integer.implication import implied
from sympy_tensordiff.integer.rows import Rows


@dataclass(frozen=True, eq=False)
class Span:
    """The values of one index from ``low`` on below ``stop``; forms over Python integers."""

    axis: str
    low: Affine
    stop: Affine

    @property
    def length(self) -> Affine:
        return self.stop - self.low


class Lanes:
    """Spans, outermost first; ``images`` are indices that others take the place of, as forms in these."""

    def __init__(self, dims: tuple[Span, ...], images: Mapping[str, Affine] | None = None) -> None:
        self.dims = dims
        self.images = dict(images or {})
        self._spans = {span.axis: span for span in dims}

    def image(self, form: Affine) -> Affine:
        """``form`` in the indices of the spans."""
        return form.substitute(self.images) if self.images else form

    def axes_in(self, form: Affine) -> list[str]:
        """The indices of spans in ``form``, in order of the dimensions."""
        atoms = self.image(form).atoms()
        return [axis for axis in self._spans if axis in atoms]

    def dims_of(self, *forms: Affine) -> frozenset[Span]:
        """The dimensions along which some of the forms vary."""
        return frozenset(self.dim(axis) for form in forms for axis in self.axes_in(form))

    def tied(self, rows: Rows) -> Rows:
        """The rows that vary from lane to lane."""
        return tuple([row for row in rows if self.dims_of(row.form)])

    def has(self, name: str) -> bool:
        """Whether ``name`` is the index of a span."""
        return name in self._spans

    def dim(self, axis: str) -> Span:
        """The span of an index."""
        return self._spans[axis]

    def trailing(self, dim: Span) -> int:
        """The number of dimensions behind ``dim``."""
        return len(self.dims) - 1 - self.dims.index(dim)

    def inside(self, *spans: Span) -> Lanes:
        """The lanes with further dimensions in front."""
        return Lanes((*spans, *self.dims), self.images)

    def replace(self, old: Span, new: Span, image: Affine | None = None) -> Lanes:
        """The lanes with another span in place of one; ``image`` is the old index by the new one."""
        images = self.images
        if image is not None:
            images = {axis: form.substitute({old.axis: image}) for axis, form in images.items()} | {old.axis: image}
        return Lanes(tuple(new if dim is old else dim for dim in self.dims), images)

    def walk(self, wanted: frozenset[Span]) -> Iterator[tuple[Span, bool]]:
        """The dimensions from the first wanted one on, each with whether it is wanted."""
        started = False
        for dim in self.dims:
            started = started or dim in wanted
            if started:
                yield dim, dim in wanted

    def extreme(self, form: Affine, sign: int) -> Affine | None:
        """The greatest (sign 1) or least value of a form over all lanes; None where it does not rise or fall evenly."""
        result = Affine.of(form.constant)
        for variable, coefficient in form.terms:
            own = sign if coefficient > 0 else -sign
            found = Affine.variable(variable)
            if isinstance(variable, str) and self.has(variable):
                span = self.dim(variable)
                found = span.stop - 1 if own > 0 else span.low
            elif isinstance(variable, Quotient | PositivePart):
                inner = self.extreme(variable.form, own)
                if inner is None:
                    return None
                found = quotient(inner, variable.divisor) if isinstance(variable, Quotient) else positive_part(inner)
            elif self.axes_in(found):
                return None
            result += coefficient * found
        return result


# ---------------------------------------------------------------------------- conditions


class Ends(NamedTuple):
    """What a set of conditions asks of one span."""

    lows: list[Affine]
    stops: list[Affine]


@dataclass
class Conditions:
    """Conditions sorted by what they need: Python's ``if``, narrower spans, a mask."""

    scalar: list[Row] = field(default_factory=list)
    spans: dict[str, Ends] = field(default_factory=dict)
    mask: list[Row] = field(default_factory=list)
    dense: list[Row] = field(default_factory=list)
    """What holds in all lanes once the first two are obeyed."""


def sort_conditions(lanes: Lanes, rows: Rows) -> Conditions:
    """Sort ``rows``, without maxima and minima of the lanes' indices as far as several rows say the same."""
    sorted_ = Conditions()
    for row in rows:
        image = Row(row.kind, lanes.image(row.form), row.modulus)
        parts = split_clamps(image, frozenset(lanes.axes_in(row.form)))
        masks = len(sorted_.mask)
        for part in parts:
            axes = lanes.axes_in(part.form)
            if part.form.compounds() and implied(part, ()):
                continue
            if not axes:
                sorted_.scalar.append(part)
            elif len(axes) > 1 or not _narrow(sorted_, part, axes[0]):
                sorted_.mask.append(part)
        if len(sorted_.mask) == masks:
            sorted_.dense.append(row)
    return sorted_


def _narrow(found: Conditions, row: Row, axis: str) -> bool:
    """Note what ``row`` asks of the span of its only index; False where no span expresses it."""
    if axis in row.form.hidden() or row.kind == "mod":
        return False
    coefficient = row.form.coefficient(axis)
    rest = row.form - Affine({axis: coefficient})
    size = abs(coefficient)
    wanted = found.spans.setdefault(axis, Ends([], []))
    if row.kind == "eq":
        value = quotient(rest if coefficient < 0 else -rest, size)
        if size > 1:
            found.scalar.append(Row("mod", rest, size))
        wanted.lows.append(value)
        wanted.stops.append(value + 1)
    elif coefficient > 0:
        wanted.lows.append(quotient(size - 1 - rest, size))
    else:
        wanted.stops.append(quotient(rest, size) + 1)
    return True
