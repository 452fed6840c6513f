"""Loops of which each value touches few entries in a row: ``s[2*i + a] += v(i, a)`` for ``a = 0, 1, 2``.

In place of a loop over many ``i`` with three entries each there are three operations on all ``i``:
the entries of one ``a`` are different ones, in steps.
"""

from __future__ import annotations

from typing import NamedTuple

from sympy_tensordiff.codegen.facts import Rows, loop_rows
from sympy_tensordiff.codegen.loops import Loop
from sympy_tensordiff.codegen.printers.lanes import Lanes, Span, split_conditions
from sympy_tensordiff.codegen.printers.narrowing import SHORT
from sympy_tensordiff.integer.affine import Affine, Row


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
