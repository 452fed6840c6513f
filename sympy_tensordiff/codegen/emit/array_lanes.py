"""Lanes: the entries of a kernel that one array operation computes together, with one dimension per index.

Conditions restrict them: a condition on a single index narrows its span, one that is the same for all lanes becomes a
Python ``if``, and all others become a mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sympy_tensordiff.integer.affine import Affine, Constraint, Quotient, quotient
from sympy_tensordiff.integer.extrema import PositivePart, positive_part, split_clamps
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.rows import Rows

SHORT_LENGTH = 16
"""The greatest length of a short axis: a loop over no more values may stay a Python loop.

With 32, one benchmark takes 1.16 of the time, one 0.93.
"""


@dataclass(frozen=True, eq=False)
class Span:
    """The range of one index: from ``low`` up to, but not including, ``stop``."""

    axis: str
    low: Affine
    stop: Affine

    @property
    def length(self) -> Affine:
        """The number of index values, ``stop - low``."""
        return self.stop - self.low

    @property
    def is_short(self) -> bool:
        """Return whether the range of this dimension has a constant, small length."""
        return self.length.is_constant and self.length.constant <= SHORT_LENGTH


class Lanes:
    """The dimensions over which array operations are vectorised, outermost first: each is an index with its range.
    ``images`` maps other indices to forms in these.
    """

    def __init__(self, dims: tuple[Span, ...], images: Mapping[str, Affine] | None = None) -> None:
        self.dims = dims
        self.images = dict(images or {})
        self._spans = {span.axis: span for span in dims}

    def image(self, form: Affine) -> Affine:
        """Return ``form`` with each index in ``images`` replaced by its form in the indices of ``dims``, such as ``i``
        by ``2*k``. Other variables stay.
        """
        return form.substitute(self.images) if self.images else form

    def axes_in(self, form: Affine) -> list[str]:
        """Return the vectorised indices on which ``form`` depends, outermost first. An index that is a function of
        other indices is first replaced by its form.
        """
        atoms = self.image(form).atoms()
        return [axis for axis in self._spans if axis in atoms]

    def dims_of(self, *forms: Affine) -> frozenset[Span]:
        """Return the dimensions along which any of `forms` varies."""
        return frozenset(self.dim(axis) for form in forms for axis in self.axes_in(form))

    def varying_rows(self, rows: Rows) -> Rows:
        """Return the constraints of ``rows`` that contain the index of a vectorised dimension: each may be true for
        some entries of an array and false for others.
        """
        return tuple([row for row in rows if self.dims_of(row.form)])

    def has(self, name: str) -> bool:
        """Return whether ``name`` is the index of one of the vectorised dimensions."""
        return name in self._spans

    def dim(self, axis: str) -> Span:
        """Return the span of values of the index called ``axis``."""
        return self._spans[axis]

    def dims_after(self, dim: Span) -> int:
        """Return the number of dimensions after ``dim``."""
        return len(self.dims) - 1 - self.dims.index(dim)

    def with_outer(self, *spans: Span) -> Lanes:
        """Return the dimensions with `spans` added in front, as outermost ones."""
        return Lanes((*spans, *self.dims), self.images)

    def replace(self, old: Span, new: Span, image: Affine | None = None) -> Lanes:
        """Return dimensions in which the index range ``new`` replaces ``old``. If given, ``image`` is the old index as
        a form in the new one, such as ``2*k`` for ``i = 2*k``.
        """
        images = self.images
        if image is not None:
            images = {axis: form.substitute({old.axis: image}) for axis, form in images.items()} | {old.axis: image}
        return Lanes(tuple(new if dim is old else dim for dim in self.dims), images)

    def dims_from_first(self, wanted: frozenset[Span]) -> Iterator[tuple[Span, bool]]:
        """Yield ``(dimension, is_wanted)`` for each dimension from the first one in ``wanted`` on. These are the axes
        with which an array that varies along ``wanted`` broadcasts; where ``is_wanted`` is False, the axis has length
        1.
        """
        started = False
        for dim in self.dims:
            started = started or dim in wanted
            if started:
                yield dim, dim in wanted

    def extreme(self, form: Affine, sign: int) -> Affine | None:
        """Return a bound of ``form`` over all index values of the dimensions, an upper one for ``sign`` 1 or a lower
        one for -1. Return None if an index is in a term that is neither linear, a quotient nor a positive part.

        The bound is the sum of the extremes of the terms, which is exact if each index is in one term.
        """
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


class SpanEnds(NamedTuple):
    """The bounds of one index that follow from conditions: its lower bounds ``lows``, and its upper bounds plus one
    ``stops``.
    """

    lows: list[Affine]
    stops: list[Affine]


@dataclass
class LaneConditions:
    """Conditions sorted by how array code tests them: by a Python ``if`` (one result for all entries), by a narrower
    range of an index, or by a mask.
    """

    scalar: list[Constraint] = field(default_factory=list)
    spans: dict[str, SpanEnds] = field(default_factory=dict)
    mask: list[Constraint] = field(default_factory=list)
    dense: list[Constraint] = field(default_factory=list)
    """The conditions that hold in all lanes once the first two are applied."""


def sort_conditions(lanes: Lanes, rows: Rows, masks_data: bool = False) -> LaneConditions:
    """Sort the constraints ``rows`` by how array code can test them: with an ``if`` statement, by a narrower range of
    one vectorised index, or with a mask.

    With ``masks_data``, constraints that contain integer-array entries go into the mask.
    """
    sorted_ = LaneConditions()
    for row in rows:
        image = Constraint(row.kind, lanes.image(row.form), row.modulus)
        parts = split_clamps(image, frozenset(lanes.axes_in(row.form)))
        masks = len(sorted_.mask)
        for part in parts:
            axes = lanes.axes_in(part.form)
            if part.form.compounds() and is_implied(part, ()):
                continue
            if masks_data and data_entries([part.form]):
                sorted_.mask.append(part)
            elif not axes:
                sorted_.scalar.append(part)
            elif len(axes) > 1 or not _note_span_end(sorted_, part, axes[0]):
                sorted_.mask.append(part)
        if len(sorted_.mask) == masks:
            sorted_.dense.append(row)
    return sorted_


def _note_span_end(found: LaneConditions, row: Constraint, axis: str) -> bool:
    """Record in ``found`` the lower or upper bound that the constraint ``row`` gives for the index ``axis``. Return
    False if it gives none, else True.
    """
    if axis in row.form.hidden() or row.kind == "mod":
        return False
    coefficient = row.form.coefficient(axis)
    rest = row.form - Affine({axis: coefficient})
    size = abs(coefficient)
    wanted = found.spans.setdefault(axis, SpanEnds([], []))
    if row.kind == "eq":
        value = quotient(rest if coefficient < 0 else -rest, size)
        if size > 1:
            found.scalar.append(Constraint("mod", rest, size))
        wanted.lows.append(value)
        wanted.stops.append(value + 1)
    elif coefficient > 0:
        wanted.lows.append(quotient(size - 1 - rest, size))
    else:
        wanted.stops.append(quotient(rest, size) + 1)
    return True
