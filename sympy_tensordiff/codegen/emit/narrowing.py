"""Conditions as NumPy text: narrower spans, picked combinations, and ``if`` for what concerns no lane."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from sympy_tensordiff.codegen.emit.forms import SUM, Block
from sympy_tensordiff.codegen.emit.lanes import (
    Dim,
    Lanes,
    Narrowed,
    Picked,
    Span,
    first_in_residue,
    split_conditions,
)
from sympy_tensordiff.codegen.emit.vectors import VectorPrinter
from sympy_tensordiff.codegen.ir.facts import Prover, Rows, loop_rows
from sympy_tensordiff.codegen.ir.loops import Bound, Loop
from sympy_tensordiff.codegen.ir.scalars import Scalar
from sympy_tensordiff.integer.affine import Affine, Row, quotient

LIMITS = {
    "BLOCK": (1 << 16, "entries that are computed at once where a sum is cut into blocks"),
    "COPIED": (1 << 22, "entries of windows that are copied at once for a product of matrices"),
}
"""The constants of a module that bound its memory."""

SHORT = 16
"""The length of a short axis: a loop over no more values than this may stay one in Python."""


class Place(NamedTuple):
    """Lanes, the block their text goes to, and the rows known there about Python's integers."""

    lanes: Lanes
    block: Block
    known: Rows


class Narrowing:
    """Writes what makes lanes fewer."""

    def __init__(self, values: VectorPrinter, prover: Prover) -> None:
        self.values = values
        self.prover = prover
        self.constants: set[str] = set()
        """The constants of the module that the text uses."""

    def to(self, place: Place, rows: Rows) -> Place:
        """The place for the lanes that fulfil ``rows``; its block runs only where there are any."""
        split = split_conditions(place.lanes, rows)
        place = place._replace(lanes=split.lanes)
        # What is the same for all lanes may hold indices all the same, which cancel once they are expressed by others.
        told = [row.substitute(split.lanes.replaced) for row in split.scalar]
        scalar = tuple(row for row in told if not self.prover.proves(row, place.known))
        if scalar:
            text = " and ".join(self.values.condition(row) for row in scalar)
            place = Place(place.lanes, place.block.child(f"if {text}:"), place.known + scalar)
        for axis, wanted in split.spans.items():
            place = self._narrow(place, axis, wanted)
        if split.mask:
            place = self._pick_rows(place, split.mask)
        return place

    def apart(self, lanes: Lanes, rows: Rows) -> tuple[Rows, Rows]:
        """The rows that make spans narrower, each by itself, and those for which combinations have to be picked."""
        mask = tuple(row for row in rows if split_conditions(lanes, (row,)).mask)
        return tuple(row for row in rows if row not in mask), mask

    # ------------------------------------------------------------------------ spans

    def widest(self, loop: Loop, lanes: Lanes) -> Loop:
        """The loop over all values that it has for some lane."""
        lows = tuple(Bound(lanes.extreme(bound.form, -1), bound.divisor) for bound in loop.lows)
        highs = tuple(Bound(lanes.extreme(bound.form, 1), bound.divisor) for bound in loop.highs)
        return Loop(loop.variable, lows, highs, loop.body)

    def draft(self, loop: Loop) -> Span:
        """The values of a loop, or some more: by one lower and one upper bound."""
        lows, stops = _ends(loop)
        return Span(loop.variable, self.strongest(lows, 1, ())[0], self.strongest(stops, -1, ())[0])

    def span(self, place: Place, loop: Loop) -> tuple[Span, Place]:
        """The values of a loop whose bounds depend on no lane; the block of the place runs where there are any."""
        lows, stops = ([place.lanes.image(form) for form in forms] for forms in _ends(loop))
        low, known = self._extreme(place, f"{loop.variable}_low", lows, 1)
        stop, known = self._extreme(place._replace(known=known), f"{loop.variable}_stop", stops, -1)
        return Span(loop.variable, low, stop), self._where_some(place._replace(known=known), low, stop)

    def blocks(self, place: Place, span: Span, others: Sequence[Dim], most: str = "BLOCK") -> tuple[Span, Place]:
        """A loop over blocks of a span: the values of one block, and the place inside.

        An array along ``span`` and ``others`` has ``most`` entries at most in a block, if not one value alone is more.
        """
        lengths = [dim.length if isinstance(dim, Span) else None for dim in (span, *others)]
        known = [length.constant for length in lengths if length is not None and length.is_constant]
        if len(known) == len(lengths) and prod(known) <= LIMITS[most][0]:
            return span, place
        self.constants.add(most)
        name, fresh, form = self.values.names(span.axis), self.values.names.fresh, self.values.form
        first, last, step = fresh(f"{name}_from"), fresh(f"{name}_to"), most
        if others:
            texts = map(self.values.length, others)
            width = "*".join(f"({text})" if " " in text else text for text in texts)
            step = fresh("block")
            place.block.line(f"{step} = max(1, {most}//{f'({width})' if '*' in width else width})")
        inner = place.block.child(f"for {first} in range({form(span.low)}, {form(span.stop)}, {step}):")
        inner.line(f"{last} = min({first} + {step}, {form(span.stop)})")
        low, stop = Affine.variable(first), Affine.variable(last)
        rows = (Row("ge", low - span.low), Row("ge", span.stop - stop), Row("ge", stop - low - 1))
        return Span(span.axis, low, stop), Place(place.lanes, inner, place.known + rows)

    def _narrow(self, place: Place, axis: str, wanted: Narrowed) -> Place:
        """A narrower span for one index, computed and checked to be non-empty where it is not provably so."""
        span = place.lanes.dim(axis)
        assert isinstance(span, Span)
        lows = [
            span.low,
            *(span.low + span.step * quotient(b - span.low + span.step - 1, span.step) for b in wanted.lows),
        ]
        low, known = self._extreme(place, f"{axis}_low", lows, 1)
        place = place._replace(known=known)
        step = span.step
        for residue, modulus in wanted.residues:
            low, place, step = self._aligned(place, axis, low, residue, modulus), place, modulus
        stop, known = self._extreme(place, f"{axis}_stop", [span.stop, *wanted.stops], -1)
        place = place._replace(known=known)
        place = self._where_some(place, low, stop)
        return place._replace(lanes=place.lanes.replace((span,), Span(axis, low, stop, step)))

    def _where_some(self, place: Place, low: Affine, stop: Affine) -> Place:
        """The place whose block runs where there are values from ``low`` to ``stop``."""
        some = Row("ge", stop - low - 1)
        if self.prover.proves(some, place.known):
            return place
        text = self.values.condition(some)
        return Place(place.lanes, place.block.child(f"if {text}:"), (*place.known, some))

    def _extreme(self, place: Place, name: str, forms: list[Affine], sign: int) -> tuple[Affine, Rows]:
        """The greatest (sign 1) or least form, as a form or as a new variable, and what is known then."""
        kept = self.strongest(forms, sign, place.known)
        if len(kept) == 1:
            return kept[0], place.known
        variable = Affine.variable(self.values.names.fresh(name))
        texts = ", ".join(self.values.form(form) for form in kept)
        place.block.line(f"{self.values.form(variable)} = {'max' if sign > 0 else 'min'}({texts})")
        return variable, place.known + tuple(Row("ge", (variable - form) * sign) for form in kept)

    def strongest(self, forms: list[Affine], sign: int, known: Rows) -> list[Affine]:
        """The forms whose greatest (sign 1) or least is that of all ``forms``."""
        kept: list[Affine] = []
        for form in dict.fromkeys(forms):
            if not any(self.prover.proves(Row("ge", (other - form) * sign), known) for other in kept):
                kept = [o for o in kept if not self.prover.proves(Row("ge", (form - o) * sign), known)]
                kept.append(form)
        return kept

    def _aligned(self, place: Place, axis: str, low: Affine, residue: Affine, modulus: int) -> Affine:
        """The first value from ``low`` on in a residue class, under a name where it has to be computed."""
        form = first_in_residue(low, residue, modulus)
        if not form.quotients():
            return form
        variable = Affine.variable(self.values.names.fresh(f"{axis}_low"))
        place.block.line(f"{self.values.form(variable)} = {self.values.form(form)}")
        return variable

    # ------------------------------------------------------------------------ picked combinations

    def _pick_rows(self, place: Place, rows: list[Row]) -> Place:
        wanted = frozenset[Dim]().union(*(place.lanes.dims_of(row.form) for row in rows))
        dims = tuple(dim for dim in place.lanes.dims if dim in wanted)
        with self.values.inside(Lanes(dims, place.lanes.replaced), place.block):
            texts = [self.values.condition(row) for row in rows]
        return self._pick(place, dims, " & ".join(f"({t})" for t in texts) if len(texts) > 1 else texts[0])

    def where(self, place: Place, condition: Scalar, holds: bool) -> Place:
        """The place for the lanes in which a condition on values holds (or fails)."""
        varies = self.values.varies(condition)
        dims = tuple(dim for dim in place.lanes.dims if dim in varies)
        with self.values.inside(Lanes(dims, place.lanes.replaced), place.block):
            text = self.values.scalar(condition) if holds else self.values.negation(condition)[0]
        if not dims:
            return place._replace(block=place.block.child(f"if {text}:"))
        return self._pick(place, dims, text)

    def _pick(self, place: Place, dims: tuple[Dim, ...], text: str) -> Place:
        """Replace ``dims`` by the combinations for which the text, an array over them, is true."""
        fresh = self.values.names.fresh
        targets = [fresh(dim.axis if isinstance(dim, Span) else "place") for dim in dims]
        left = ", ".join(targets) if len(targets) > 1 else f"({targets[0]},)"
        place.block.line(f"{left} = np.nonzero({text})")
        arrays: dict[str, str] = {}
        spans: dict[str, Span] = {}
        positions: dict[Picked, str] = {}
        for dim, target in zip(dims, targets, strict=True):
            if isinstance(dim, Span):
                arrays[dim.axis], spans[dim.axis] = target, dim
                scaled = f"{target}*{dim.step}" if dim.step > 1 else target
                if dim.low != Affine.of(0) or dim.step > 1:
                    place.block.line(f"{target} = {self.values.form(dim.low, SUM)} + {scaled}")
                continue
            positions[dim] = target
            spans |= dim.spans
            for axis, array in dim.arrays.items():
                arrays[axis] = fresh(axis)
                place.block.line(f"{arrays[axis]} = {array}[{target}]")
            for earlier, array in dim.positions.items():
                positions[earlier] = fresh("place")
                place.block.line(f"{positions[earlier]} = {array}[{target}]")
        picked = Picked(arrays, spans, positions)
        lanes = place.lanes.replace(dims, picked)
        return Place(lanes, place.block.child(f"if {picked.size_text}:"), place.known)


def _ends(loop: Loop) -> tuple[list[Affine], list[Affine]]:
    """The bounds of a loop: least values, and those behind the greatest."""
    lows = [quotient(b.form + (b.divisor - 1), b.divisor) for b in loop.lows]
    return lows, [quotient(b.form, b.divisor) + 1 for b in loop.highs]


# ---------------------------------------------------------------------------- few entries in a row
# Loops of which each value touches few entries in a row: ``s[2*i + a] += v(i, a)`` for ``a = 0, 1, 2``.
#
# In place of a loop over many ``i`` with three entries each there are three operations on all ``i``:
# the entries of one ``a`` are different ones, in steps.


class Offsets(NamedTuple):
    """The lane along which a loop touches ``length`` entries from ``first`` on, and the conditions that say so."""

    span: Span
    first: Affine
    length: int
    rows: Rows


def find_offsets(loop: Loop, lanes: Lanes) -> Offsets | None:
    """The few entries along one lane that each value of a loop touches; None where they are many, or the same."""
    rows = tuple(row for row in loop_rows(loop) if lanes.dims_of(row.form))
    split = split_conditions(lanes, rows)
    if split.mask or split.scalar or len(split.spans) != 1 or split.lanes is not lanes:
        return None
    ((axis, wanted),) = split.spans.items()
    span = lanes.dim(axis)
    if not isinstance(span, Span) or span.step > 1 or wanted.residues:
        return None
    for first in wanted.lows:
        for stop in wanted.stops:
            length = stop - first
            moves = first.coefficient(loop.variable) and loop.variable not in first.hidden()
            if moves and length.is_constant and 0 < length.constant <= SHORT:
                variable = Affine.variable(axis)
                inside = (Row("ge", variable - span.low), Row("ge", span.stop - 1 - variable))
                return Offsets(span, first, length.constant, rows + inside)
    return None
