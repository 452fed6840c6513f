"""Conditions and ranges as NumPy text: narrower spans, masks, and ``if`` for what concerns no lane."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sympy_tensordiff.codegen.emit.forms import SUM
from sympy_tensordiff.codegen.emit.numpy_lanes import Ends, Span, sort_conditions
from sympy_tensordiff.codegen.emit.numpy_scalars import Frame, Home, VectorPrinter
from sympy_tensordiff.codegen.ir.facts import Prover, loop_rows
from sympy_tensordiff.codegen.ir.loops import Bound, Loop
from sympy_tensordiff.codegen.ir.scalars import Name
from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.rows import Rows

BLOCK = 1 << 16
"""The entries that are computed at once where a sum is cut into blocks: a constant of the module."""

COPIED = 64
"""So many times as many entries of windows are copied at once for a product of matrices."""

SHORT = 16
"""The length of a short axis: a loop over no more values than this may stay one in Python."""


class Narrowing:
    """Writes what makes lanes fewer."""

    def __init__(self, values: VectorPrinter, prover: Prover) -> None:
        self.values = values
        self.prover = prover
        self.has_blocks = False

    def to(self, frame: Frame, rows: Rows) -> Frame:
        """The frame for the lanes that fulfil ``rows``; its block runs only where there may be any."""
        found = sort_conditions(frame.lanes, rows)
        scalar = tuple(row for row in found.scalar if not self.prover.proves(row, frame.known))
        if scalar:
            frame = frame.child(f"if {' and '.join(map(self.values.condition, scalar))}:", scalar)
        for axis, wanted in found.spans.items():
            frame = self._narrow(frame, axis, wanted)
        frame = frame._replace(context=(*frame.context, *found.dense))
        if not found.mask:
            return frame
        mask = self.values.names.fresh("mask")
        with self.values.inside(frame):
            tests = [f"({self.values.condition(row)})" for row in found.mask]
            varies = frozenset[Span]().union(*(frame.lanes.dims_of(row.form) for row in found.mask))
            if frame.mask is not None:
                tests.insert(0, self.values.scalar(frame.mask, SUM))
                varies |= self.values.varies(frame.mask)
            frame.block.line(f"{mask} = {' & '.join(tests) if len(tests) > 1 else tests[0][1:-1]}")
        self.values.homes[mask] = Home(frame.lanes, varies, None)
        return frame._replace(mask=Name(mask))

    def _narrow(self, frame: Frame, axis: str, wanted: Ends) -> Frame:
        """A narrower span for one index, computed and checked to be non-empty where it is not provably so."""
        span = frame.lanes.dim(axis)
        low, frame = self._extreme(frame, f"{axis}_low", [span.low, *wanted.lows], 1)
        stop, frame = self._extreme(frame, f"{axis}_stop", [span.stop, *wanted.stops], -1)
        frame = self._where_some(frame, low, stop)
        return frame._replace(lanes=frame.lanes.replace(span, Span(axis, low, stop)))

    # ------------------------------------------------------------------------ loops

    def widest(self, loop: Loop, frame: Frame) -> Loop:
        """The loop over all values that it has for some lane of a frame."""

        def furthest(bounds: Sequence[Bound], name: str, sign: int) -> tuple[Bound, ...]:
            forms = [self._furthest(bound.form, f"{loop.variable}_{name}", sign, frame) for bound in bounds]
            return tuple([Bound(form, bound.divisor) for form, bound in zip(forms, bounds, strict=True)])

        return Loop(loop.variable, furthest(loop.lows, "low", -1), furthest(loop.highs, "high", 1), loop.body)

    def _furthest(self, form: Affine, name: str, sign: int, frame: Frame) -> Affine:
        """The greatest (sign 1) or least value of a form over all lanes, under a name where it has to be looked for."""
        image = frame.lanes.image(form)
        extreme = frame.lanes.extreme(image, sign)
        if extreme is not None:
            return extreme
        variable = self.values.names.fresh(name)
        frame.block.line(f"{variable} = np.{'max' if sign > 0 else 'min'}({self.values.form(image)})")
        return Affine.variable(variable)

    def span(self, frame: Frame, loop: Loop) -> tuple[Span, Frame]:
        """The values of a loop whose bounds depend on no lane; the block of the frame runs where there are any."""
        lows, stops = ([frame.lanes.image(form) for form in forms] for forms in loop_ends(loop))
        low, frame = self._extreme(frame, f"{loop.variable}_low", lows, 1)
        stop, frame = self._extreme(frame, f"{loop.variable}_stop", stops, -1)
        frame = self._where_some(frame, low, stop)
        return Span(loop.variable, low, stop), frame._replace(context=frame.context + loop_rows(loop))

    def blocks(self, frame: Frame, span: Span, others: Sequence[Span], times: int = 1) -> tuple[Span, Frame]:
        """A loop over blocks of a span: the values of one block, and the frame inside.

        An array along ``span`` and ``others`` has ``times*BLOCK`` entries at most in a block, if not one value alone
        is more.
        """
        lengths = [dim.length for dim in (span, *others)]
        if all(n.is_constant for n in lengths) and prod(n.constant for n in lengths) <= BLOCK * times:
            return span, frame
        self.has_blocks = True
        name, fresh, form = self.values.names(span.axis), self.values.names.fresh, self.values.form
        first, last, step = fresh(f"{name}_from"), fresh(f"{name}_to"), "BLOCK" if times == 1 else f"{times}*BLOCK"
        if others:
            texts = [form(dim.length) for dim in others]
            width = "*".join(f"({text})" if " " in text else text for text in texts)
            most, step = step, fresh("block")
            frame.block.line(f"{step} = max(1, {most}//{f'({width})' if '*' in width else width})")
        low, stop = Affine.variable(first), Affine.variable(last)
        known = (Row("ge", low - span.low), Row("ge", span.stop - stop), Row("ge", stop - low - 1))
        frame = frame.child(f"for {first} in range({form(span.low)}, {form(span.stop)}, {step}):", known)
        frame.block.line(f"{last} = min({first} + {step}, {form(span.stop)})")
        return Span(span.axis, low, stop), frame

    def strongest(self, forms: list[Affine], sign: int, known: Rows) -> list[Affine]:
        """The forms whose greatest (sign 1) or least is that of all ``forms``."""
        kept: list[Affine] = []
        for form in dict.fromkeys(forms):
            if not any(self.prover.proves(Row("ge", (other - form) * sign), known) for other in kept):
                kept = [o for o in kept if not self.prover.proves(Row("ge", (form - o) * sign), known)]
                kept.append(form)
        return kept

    def _where_some(self, frame: Frame, low: Affine, stop: Affine) -> Frame:
        """The frame whose block runs where there are values from ``low`` to ``stop``."""
        some = Row("ge", stop - low - 1)
        if self.prover.proves(some, frame.known):
            return frame
        return frame.child(f"if {self.values.condition(some)}:", (some,))

    def _extreme(self, frame: Frame, name: str, forms: list[Affine], sign: int) -> tuple[Affine, Frame]:
        """The greatest (sign 1) or least form, as a form or as a new variable, and the frame that knows it."""
        kept = self.strongest(forms, sign, frame.known)
        if len(kept) == 1:
            return kept[0], frame
        variable = Affine.variable(self.values.names.fresh(name))
        texts = ", ".join(map(self.values.form, kept))
        frame.block.line(f"{self.values.form(variable)} = {'max' if sign > 0 else 'min'}({texts})")
        known = tuple(Row("ge", (variable - form) * sign) for form in kept)
        return variable, frame._replace(known=frame.known + known)


def loop_ends(loop: Loop) -> tuple[list[Affine], list[Affine]]:
    """The bounds of a loop: least values, and those behind the greatest."""
    lows = [quotient(b.form + (b.divisor - 1), b.divisor) for b in loop.lows]
    return lows, [quotient(b.form, b.divisor) + 1 for b in loop.highs]


def is_short(loop: Loop) -> bool:
    """Whether there are few values, whatever the sizes are."""
    lows, stops = loop_ends(loop)
    lengths = [stop - low for stop in stops for low in lows]
    return any(n.is_constant and n.constant <= SHORT for n in lengths)
