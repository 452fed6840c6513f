"""Conditions that depend on the entry, by NumPy, as zeros in between what is computed for all entries.

``sum_{j <= i} a[i, j]*x[j]`` is the sum over all ``j`` of ``x[j]`` and of ``a[i, j]`` with zeros in
the place of the other entries; ``sum_k w[k]*g[p - k]``, over the ``k`` for which ``p - k`` is an
index of ``g``, is that over all ``k`` with zeros around ``g``. An infinity times such a zero is no
zero: the other factor has to be finite, which is asked when the function is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from sympy_tensordiff.codegen.emit.lanes import Lanes, Span
from sympy_tensordiff.codegen.emit.narrowing import Narrowing
from sympy_tensordiff.codegen.emit.products import factors_of, product_of
from sympy_tensordiff.codegen.emit.vectors import rise, tuple_text
from sympy_tensordiff.codegen.ir.facts import Rows, condition_of, loop_rows, reads
from sympy_tensordiff.codegen.ir.loops import Add, AddAt, Kernel, Loop, Statement, Store
from sympy_tensordiff.codegen.ir.scalars import External, Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import Around, added, rewrite, scalar_names, scalars, statements, subexpressions
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import data_entries

MOST = 4
"""A sum with zeros runs over no more than so many times the values that count."""


IDLE = {"sum": 0, "prod": 1}
"""What changes nothing when it is added, by reductions."""


class Widened(NamedTuple):
    """A sum over the widest range, the lines before it, and what has to hold for it to be used."""

    loop: Loop
    lines: tuple[str, ...] = ()
    finite: tuple[str, ...] = ()
    """Arrays that must hold no infinities."""
    limits: tuple[Row, ...] = ()


class Zeros:
    """Finds what can be computed for all entries; new arrays get their place in ``shapes``."""

    def __init__(
        self,
        kernel: Kernel,
        narrowing: Narrowing,
        shapes: dict[str, tuple[Affine, ...]],
        depends: Mapping[str, frozenset[str]],
    ) -> None:
        self.kernel = kernel
        self.narrowing = narrowing
        self.prover = narrowing.prover
        self.values = narrowing.values
        self.shapes = shapes
        self.depends = depends

    # ------------------------------------------------------------------------ guards

    def masked(self, body: tuple[Statement, ...], rows: Rows, context: Rows) -> tuple[Statement, ...] | None:
        """The body of a guard for all entries, with zeros added where not all ``rows`` hold.

        None where something is read, or asked of a function of the user's, that must not be where they do not.
        """
        if any(row.kind == "eq" for row in rows) or data_entries(row.form for row in rows):
            return None  # few entries fulfil these
        if len(rows) > 1 and any(isinstance(statement, Loop) for statement in statements(body)):
            return None
        if _calls_others(scalars(body)):
            return None
        for read in reads(replace(self.kernel, body=body), self.shapes):
            if self._missing(read.load, context + read.context):
                return None
        return _with_zeros(body, condition_of(rows))

    # ------------------------------------------------------------------------ sums

    def widened(self, loop: Loop, lanes: Lanes, context: Rows) -> Widened | None:
        """The sum of a loop around one addition over the widest range; None where it has to stay as it is."""
        if len(loop.body) != 1 or not isinstance(add := loop.body[0], Add) or add.reduction != "sum":
            return None
        if not all(isinstance(dim, Span) for dim in lanes.dims) or _calls_others(subexpressions(add.value)):
            return None
        wide = self.narrowing.widest(loop, lanes)
        rows = tuple(row for row in loop_rows(loop) if lanes.dims_of(row.form))
        around = context + loop_rows(wide)
        inner = Lanes((self.narrowing.draft(wide), *lanes.dims), lanes.replaced)
        loads = dict.fromkeys(part for part in subexpressions(add.value) if isinstance(part, Load))
        outside = [load for load in loads if self._missing(load, around)]
        if not outside:
            return self._triangle(wide, add, rows, inner)
        return self._window(wide, add, rows, inner, (context, around), outside[0]) if len(outside) == 1 else None

    def _missing(self, load: Load, context: Rows) -> list[tuple[int, Row]]:
        return self.prover.axes_inside(load, self.shapes[load.array], context)

    def _triangle(self, wide: Loop, add: Add, rows: Rows, lanes: Lanes) -> Widened | None:
        """All is read inside: what depends on the indices of the bounds is 0 where these do not hold."""
        if len({row.form.coefficient(wide.variable) > 0 for row in rows}) != 1 or data_entries(r.form for r in rows):
            return None  # between two bounds there may be few values
        tied = frozenset().union(*(lanes.dims_of(row.form) for row in rows))
        is_negative, factors = factors_of(add.value)
        inside = [f for f in factors if self._dims(f, lanes) <= tied and not isinstance(f, Number)]
        others = [f for f in factors if f not in inside and not isinstance(f, Number)]
        numbers = [f for f in factors if isinstance(f, Number)]
        if len(others) > 1 or not all(isinstance(f, Load | Name) for f in others):
            return None
        kept = Operation("select", (condition_of(rows), product_of(inside), Number(0)))
        value = product_of([*numbers, kept, *others])
        return Widened(_with_value(wide, add, value, is_negative), finite=self._arrays(others))

    def _window(
        self, wide: Loop, add: Add, rows: Rows, lanes: Lanes, known: tuple[Rows, Rows], load: Load
    ) -> Widened | None:
        """One factor is read inside exactly where the bounds hold: there are zeros around it.

        ``known`` holds around the loop, and inside of it.
        """
        outer, around = known
        is_negative, factors = factors_of(add.value)
        others = [f for f in factors if f != load and not isinstance(f, Number)]
        if factors.count(load) != 1 or len(others) > 1 or not all(isinstance(f, Load | Name) for f in others):
            return None
        shape = self.shapes[load.array]
        inside = [Row("ge", form) for form in load.index]
        inside += [Row("ge", extent - form - 1) for form, extent in zip(load.index, shape, strict=True)]
        if not all(self.prover.proves(row, (*around, *inside)) for row in rows):
            return None
        limits: list[Row] = []
        widths = [(Affine.of(0), Affine.of(0)) for _ in shape]
        for axis, row in self._missing(load, around):
            form, (low, high) = load.index[axis], widths[axis]
            other = self._other_span(lanes.image(form), lanes)
            if other is None:
                return None
            is_low = row.form == form
            width = -lanes.extreme(form, -1) if is_low else lanes.extreme(form, 1) - shape[axis] + 1
            widths[axis] = (width, high) if is_low else (low, width)
            limits.append(Row("ge", MOST * shape[axis] - other.length))
        if not all(self.prover.proves(Row("ge", width), around) for pair in widths for width in pair):
            return None
        open_limits = tuple(row for row in dict.fromkeys(limits) if not self.prover.proves(row, around))
        if any(row.form.is_constant for row in open_limits):
            return None
        # The zeros are put there before the loop, which may have no turn.
        counts = [Row("ge", width) for width in dict.fromkeys(width for pair in widths for width in pair)]
        open_limits = (*[row for row in counts if not self.prover.proves(row, outer)], *open_limits)
        array = self.values.names(load.array)
        padded = self.values.names.fresh(f"{array}_padded")
        self.shapes[padded] = tuple(n + low + high for n, (low, high) in zip(shape, widths, strict=True))
        moved = Load(padded, tuple(form + low for form, (low, _) in zip(load.index, widths, strict=True)))
        value = product_of([moved if f == load else f for f in factors])
        texts = [tuple_text([self.values.form(width) for width in pair]) for pair in widths]
        line = f"{padded} = padded({array}, {tuple_text(texts)})"
        self.values.helpers.add("padded")
        return Widened(_with_value(wide, add, value, is_negative), (line,), self._arrays(others), open_limits)

    def _dims(self, value: Scalar, lanes: Lanes) -> frozenset[object]:
        return frozenset().union(*(lanes.dims_of(Affine.variable(n)) for n in scalar_names(value, self.depends)))

    def _arrays(self, factors: Iterable[Scalar]) -> tuple[str, ...]:
        found = (f.array if isinstance(f, Load) else f.name for f in factors if isinstance(f, Load | Name))
        return tuple(map(self.values.names, found))

    def _other_span(self, form: Affine, lanes: Lanes) -> Span | None:
        """The range of the index besides that of the sum, where a form rises or falls by 1 along both."""
        dims = [lanes.dim(name) for name in lanes.axes_in(form)]
        if len(dims) != 2 or dims[0] is not lanes.dims[0]:
            return None
        spans = [dim for dim in dims if isinstance(dim, Span) and rise(form, dim) in (1, -1)]
        return spans[1] if len(spans) == 2 else None


def _with_zeros(body: tuple[Statement, ...], condition: Scalar) -> tuple[Statement, ...] | None:
    """The statements, where what is added to others' accumulators changes nothing if the condition does not hold."""
    outer = added(body)
    stores = any(isinstance(s, Store | AddAt) for s in statements(body))
    if stores or any(add.reduction not in IDLE for add in outer.values()):
        return None

    def change(statement: Statement, _: Around) -> tuple[Statement, ...]:
        if isinstance(statement, Add) and statement.name in outer:
            idle = Number(IDLE[statement.reduction])
            statement = replace(statement, value=Operation("select", (condition, statement.value, idle)))
        return (statement,)

    return rewrite(body, change)


def _with_value(loop: Loop, add: Add, value: Scalar, is_negative: bool) -> Loop:
    value = Operation("neg", (value,)) if is_negative else value
    return replace(loop, body=(replace(add, value=value),))


def _calls_others(values: Iterable[Scalar]) -> bool:
    """Whether a function of the user's is called, which may be asked for the values that count only."""
    return any(isinstance(part, Operation) and isinstance(part.function, External) for part in values)
