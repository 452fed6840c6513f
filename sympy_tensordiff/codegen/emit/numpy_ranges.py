"""Loops whose ranges depend on the entry, as operations on all entries by NumPy.

Either each value touches few entries in a row, or the sum runs over the widest range, with zeros:
``sum_{j <= i} a[i, j]*x[j]`` is the sum over all ``j`` of ``x[j]`` and of ``a[i, j]`` with zeros in
the place of the other entries; ``sum_k w[k]*g[p - k]``, over the ``k`` for which ``p - k`` is an
index of ``g``, is that over all ``k`` with zeros around ``g``. An infinity times such a zero is no
zero: the other factor has to be finite, which is asked when the function is called.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from sympy_tensordiff.codegen.emit.forms import Block
from sympy_tensordiff.codegen.emit.numpy_conditions import SHORT
from sympy_tensordiff.codegen.emit.numpy_lanes import Lanes, Span, sort_conditions
from sympy_tensordiff.codegen.emit.numpy_products import factors_of, product_of
from sympy_tensordiff.codegen.emit.numpy_scalars import Frame, rise, tuple_text
from sympy_tensordiff.codegen.emit.numpy_sums import Additions, calls_others
from sympy_tensordiff.codegen.ir.facts import condition_of, loop_rows
from sympy_tensordiff.codegen.ir.loops import Add, Loop
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Number, Operation, Scalar
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import data_entries
from sympy_tensordiff.integer.rows import Rows, shape_rows

_MOST = 4
"""A sum with zeros runs over no more than so many times the values that count."""


class Offsets(NamedTuple):
    """The lane along which a loop touches ``length`` entries from ``first`` on."""

    span: Span
    first: Affine
    length: int


def find_offsets(loop: Loop, lanes: Lanes) -> Offsets | None:
    """The few entries along one lane that each value of a loop touches; None where they are many, or the same."""
    found = sort_conditions(lanes, tuple(row for row in loop_rows(loop) if lanes.dims_of(row.form)))
    if found.mask or found.scalar or len(found.spans) != 1:
        return None
    ((axis, wanted),) = found.spans.items()
    span = lanes.dim(axis)
    for first in wanted.lows:
        for stop in wanted.stops:
            length = stop - first
            moves = first.coefficient(loop.variable) and loop.variable not in first.hidden()
            if moves and length.is_constant and 0 < length.constant <= SHORT:
                return Offsets(span, first, length.constant)
    return None


class Widened(NamedTuple):
    """A sum over the widest range, the lines before it, and what has to hold for it to be used."""

    loop: Loop
    lines: tuple[str, ...]
    finite: tuple[str, ...]
    """Arrays that must hold no infinities."""
    limits: tuple[Row, ...]


def widened(loop: Loop, wide: Loop, frame: Frame, additions: Additions) -> Widened | None:
    """The sum of a loop around one addition over the widest range; None where it has to stay as it is."""
    add = loop.body[0]
    if len(loop.body) != 1 or not isinstance(add, Add) or add.reduction != "sum" or calls_others(add.value):
        return None
    if not additions.counts_everywhere(add.name, frame):
        return None
    lanes, values = frame.lanes, additions.values
    span, inner = additions.narrowing.span(frame._replace(block=Block()), wide)
    inner = inner._replace(lanes=lanes.inside(span), context=frame.context + loop_rows(wide))
    rows = tuple(row for row in loop_rows(loop) if lanes.dims_of(row.form))
    outside = additions.reads_outside(add.value, inner)
    is_negative, factors = factors_of(add.value)
    numbers = [f for f in factors if isinstance(f, Number)]
    factors = [f for f in factors if not isinstance(f, Number)]
    lines: tuple[str, ...] = ()
    limits: Rows = ()
    if not outside:
        if len({row.form.coefficient(wide.variable) > 0 for row in rows}) != 1 or data_entries(r.form for r in rows):
            return None  # between two bounds there may be few values
        tied = frozenset[Span]().union(*(inner.lanes.dims_of(row.form) for row in rows))
        with values.inside(inner):
            inside = [f for f in factors if values.varies(f) <= tied]
        others = [f for f in factors if f not in inside]
        kept: Scalar = Operation("select", (condition_of(rows), product_of(inside), Number(0)))
    else:
        if len(outside) > 1 or factors.count(outside[0]) != 1:
            return None
        others = [f for f in factors if f != outside[0]]
        found = _padded(outside[0], rows, inner, frame, additions)
        if found is None:
            return None
        kept, lines, limits = found
    if len(others) > 1 or not all(isinstance(f, Load | Name) for f in others):
        return None
    value = product_of([*numbers, kept, *others])
    value = Operation("neg", (value,)) if is_negative else value
    finite = tuple(
        values.names(f.array if isinstance(f, Load) else f.name) for f in others if isinstance(f, Load | Name)
    )
    return Widened(replace(wide, body=(replace(add, value=value),)), lines, finite, limits)


def _padded(
    load: Load, rows: Rows, inner: Frame, outer: Frame, additions: Additions
) -> tuple[Load, tuple[str, ...], Rows] | None:
    """A read, which is inside exactly where the bounds hold, of the array with zeros around it."""
    values, prover, lanes = additions.values, additions.values.prover, inner.lanes
    shape = values.shapes[load.array]
    inside = shape_rows(load.index, shape)
    if not all(prover.proves(row, (*inner.context, *inside)) for row in rows):
        return None
    limits: list[Row] = []
    widths = [[Affine.of(0), Affine.of(0)] for _ in shape]
    for axis, row in prover.axes_inside(load, shape, inner.context):
        form = load.index[axis]
        along = [lanes.dim(name) for name in lanes.axes_in(form)]
        if (
            len(along) != 2
            or lanes.dims[0] not in along
            or any(rise(lanes.image(form), s) not in (1, -1) for s in along)
        ):
            return None
        is_low = row.form == form
        end = lanes.extreme(lanes.image(form), -1 if is_low else 1)
        if end is None:
            return None
        widths[axis][0 if is_low else 1] = -end if is_low else end - shape[axis] + 1
        limits.append(Row("ge", _MOST * shape[axis] - along[1].length))
    counts = [Row("ge", width) for width in dict.fromkeys(width for pair in widths for width in pair)]
    if not all(prover.proves(row, inner.context) for row in counts):
        return None
    limits = [row for row in dict.fromkeys(limits) if not prover.proves(row, inner.context)]
    if any(row.form.is_constant for row in limits):
        return None
    # The zeros are put there before the loop, which may have no turn.
    limits = [row for row in counts if not prover.proves(row, outer.context)] + limits
    array = values.names(load.array)
    padded = values.names.fresh(f"{array}_padded")
    values.shapes[padded] = tuple(n + low + high for n, (low, high) in zip(shape, widths, strict=True))
    moved = Load(padded, tuple(form + low for form, (low, _) in zip(load.index, widths, strict=True)))
    texts = [tuple_text(map(values.form, pair)) for pair in widths]
    values.helpers.add("padded")
    return moved, (f"{padded} = padded({array}, {tuple_text(texts)})",), tuple(limits)
