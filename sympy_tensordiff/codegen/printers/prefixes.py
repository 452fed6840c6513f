"""Reductions whose range ends, or begins, where the entry says: running ones, by NumPy's ``accumulate``.

``prod_{k < p} x[k]`` for all ``p`` is one pass along ``x``. Nothing is taken away again, so that
infinities and values that are not numbers stay with the entries that have them.
"""

from __future__ import annotations

from sympy_tensordiff.codegen.facts import Rows, loop_rows
from sympy_tensordiff.codegen.loops import Add, Loop
from sympy_tensordiff.codegen.printers.accumulate import FUNCTIONS, Additions
from sympy_tensordiff.codegen.printers.base import start_text
from sympy_tensordiff.codegen.printers.blocks import Block
from sympy_tensordiff.codegen.printers.lanes import Dim, Lanes, Span
from sympy_tensordiff.codegen.printers.narrowing import Narrowing, Place
from sympy_tensordiff.codegen.scalars import External, Load, Operation
from sympy_tensordiff.codegen.walk import subexpressions
from sympy_tensordiff.integer.affine import Affine, Row, quotient


class Prefixes:
    """Writes running reductions."""

    def __init__(self, narrowing: Narrowing, additions: Additions) -> None:
        self.narrowing = narrowing
        self.values = narrowing.values
        self.prover = narrowing.prover
        self.additions = additions

    def print(self, loop: Loop, place: Place, context: Rows) -> bool:
        """Write a loop around one addition, of whose range one end depends on one lane; False for any other."""
        lanes = place.lanes
        if len(loop.body) != 1 or not isinstance(add := loop.body[0], Add):
            return False
        tied = [row for row in loop_rows(loop) if lanes.dims_of(row.form)]
        home = self.values.homes[add.name]
        if len(tied) != 1 or len(lanes.dims_of(tied[0].form)) != 1 or self.additions.summed(home):
            return False
        (dim,) = lanes.dims_of(tied[0].form)
        wide = self.narrowing.widest(loop, lanes)
        others = self._others(wide, add, lanes, context)
        if others is None or dim in others or not isinstance(dim, Span) or self.additions.may_meet(home):
            return False
        span, place = self.narrowing.span(place, wide)
        with self.values.inside(Lanes((span, *others), lanes.replaced), place.block):
            text = self.values.scalar(add.value)
        is_first = tied[0].form.coefficient(loop.variable) < 0
        array = self.values.names.fresh("partial")
        self.values.helpers.add("running")
        turned = text if is_first else f"({text})[::-1]"
        start = start_text(add.reduction)
        place.block.line(f"{array} = running({FUNCTIONS[add.reduction][0]}, {turned}, {start})")
        known = context + place.known
        count = self._count(loop, span, lanes, is_first)
        with self.values.inside(Lanes((dim,), lanes.replaced), place.block):
            index = self.values.form(count)
            if not all(self.prover.proves(Row("ge", form), known) for form in (count, span.length - count)):
                index = f"np.clip({index}, 0, {self.values.form(span.length)})"
        text = self.values.in_order(f"{array}[{index}]", [dim, *others])
        place.block.line(self.additions.assignment(add.name, home, [], text, add.reduction))
        return True

    def _others(self, wide: Loop, add: Add, lanes: Lanes, context: Rows) -> list[Dim] | None:
        """The lanes along which the values vary; None where they cannot be taken for the whole range."""
        parts = list(subexpressions(add.value))
        if any(isinstance(part, Operation) and isinstance(part.function, External) for part in parts):
            return None
        around = context + loop_rows(wide)
        loads = [part for part in parts if isinstance(part, Load)]
        if any(self.prover.axes_inside(load, self.values.shapes[load.array], around) for load in loads):
            return None
        draft = self.narrowing.draft(wide)
        with self.values.inside(Lanes((draft, *lanes.dims), lanes.replaced), Block()):
            varies = self.values.varies(add.value)
        return [dim for dim in lanes.dims if dim in varies] if draft in varies else None

    def _count(self, loop: Loop, span: Span, lanes: Lanes, is_first: bool) -> Affine:
        """How many of the values an entry has, the first or the last ones."""
        if is_first:
            bound = next(bound for bound in loop.highs if lanes.dims_of(bound.form))
            return quotient(bound.form, bound.divisor) + 1 - span.low
        bound = next(bound for bound in loop.lows if lanes.dims_of(bound.form))
        return span.stop - quotient(bound.form + (bound.divisor - 1), bound.divisor)
