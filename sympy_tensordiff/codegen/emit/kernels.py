"""One kernel as a NumPy function: statements over lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sympy_tensordiff.codegen.emit.accumulate import Additions, Prefixes
from sympy_tensordiff.codegen.emit.base import start_text
from sympy_tensordiff.codegen.emit.driver import WORD, call_text, task_text, without_unused_real
from sympy_tensordiff.codegen.emit.forms import Block, Names
from sympy_tensordiff.codegen.emit.lanes import Dim, Lanes, Picked, Span, walk_dims
from sympy_tensordiff.codegen.emit.narrowing import SHORT, Narrowing, Offsets, Place, find_offsets
from sympy_tensordiff.codegen.emit.products import Products, find_nest
from sympy_tensordiff.codegen.emit.vectors import Home, VectorPrinter
from sympy_tensordiff.codegen.emit.zeros import Widened, Zeros
from sympy_tensordiff.codegen.ir.facts import (
    Prover,
    Rows,
    axis_rows,
    condition_rows,
    exact_rows,
    loop_rows,
    scalar_reads,
)
from sympy_tensordiff.codegen.ir.loops import (
    Accumulator,
    Add,
    AddAt,
    Bound,
    If,
    Kernel,
    Let,
    Loop,
    Scatter,
    Statement,
    Store,
)
from sympy_tensordiff.codegen.ir.scalars import External, Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import bounds, dependences, function_name, scalar_names, subexpressions, uses
from sympy_tensordiff.integer.affine import Affine, Row, quotient

_FILLED = {"0": ("zeros", ""), "1": ("ones", "")}
"""NumPy's functions that make arrays of one value, and their further arguments."""


class Frame(NamedTuple):
    """Where a statement is printed: its place, and the rows that hold there for each lane."""

    place: Place
    context: Rows


class KernelPrinter:
    """Prints one kernel."""

    def __init__(self, kernel: Kernel, bare: frozenset[str], names: Names, prover: Prover) -> None:
        self.kernel = kernel
        self.names = names
        self.prover = prover
        self.shapes = dict(prover.shapes)
        self.promoted: set[str] = set()
        shape = kernel.box(self.shapes)
        self.root = Lanes(tuple(Span(axis, Affine.of(0), n) for axis, n in zip(kernel.axes, shape, strict=True)))
        self.values = VectorPrinter(names, self.shapes, bare, self.root)

        self.narrowing = Narrowing(self.values, prover)
        self.additions = Additions(self.values, self.promoted)
        self.products = Products(self.values, self.narrowing, self.additions, self.promoted)
        self.depends = dependences(kernel)
        self.prefixes = Prefixes(self.narrowing, self.additions)
        self.zeros = Zeros(kernel, self.narrowing, self.shapes, self.depends)
        self.context = axis_rows(kernel, self.shapes)
        self.extents = kernel.box(self.shapes)
        """What is passed beside the arrays, where the text needs it: sizes of these forms."""

    def print(self) -> str:
        """The text of the function."""
        block = Block()
        array = self.names(self.kernel.array)
        inner = block.child("")
        inner.line(f'"""{task_text(self.kernel, self.names)}."""')
        inner.line(f"real = {array}.dtype.type")
        with self.values.inside(self.root, inner):
            self.body(self.kernel.body, Frame(Place(self.root, inner, ()), self.context))
        _, *lines = block.render()
        self.extents += self._sizes_in(lines)
        head = f"def {function_name(self.kernel)}{call_text(self.kernel, self.names, self.extents)}:"
        return "\n".join(without_unused_real([head, *lines]))

    def _sizes_in(self, lines: list[str]) -> tuple[Affine, ...]:
        """The sizes in the shapes of arrays that stand in the text."""
        words = set(WORD.findall("\n".join(lines)))
        forms = [form for array in uses(self.kernel).arrays for form in self.shapes[array]]
        sizes = sorted({name for form in forms for name in form.atoms() if isinstance(name, str)})
        return tuple(Affine.variable(name) for name in sizes if self.names(name) in words)

    def body(self, body: tuple[Statement, ...], frame: Frame) -> None:
        """Print statements over the lanes of ``frame``."""
        for statement in body:
            if isinstance(statement, Loop):
                self.loop(statement, frame)
            elif isinstance(statement, If):
                self.narrowed(statement.body, frame, statement.conditions)
            elif isinstance(statement, Accumulator):
                self.accumulator(statement, frame)
            elif isinstance(statement, Let):
                self.let(statement, frame)
            elif isinstance(statement, Add):
                self.add(statement, frame)
            elif isinstance(statement, AddAt):
                self.add_at(statement, frame)
            elif isinstance(statement, Store):
                self.store(statement, frame)

    # ------------------------------------------------------------------------ values

    def let(self, statement: Let, frame: Frame) -> None:
        value = self.with_choices(statement.value, frame)
        text = self.values.scalar(value)
        if isinstance(value, Number):
            text = f"real({text})"
        self.values.homes[statement.name] = Home(frame.place.lanes, self.values.varies(value))
        frame.place.block.line(f"{self.names(statement.name)} = {text}")

    def store(self, statement: Store, frame: Frame) -> None:
        value = self.with_choices(statement.value, frame)
        frame.place.block.line(f"{self.names(self.kernel.array)}[...] = {self.values.scalar(value)}")

    def accumulator(self, statement: Accumulator, frame: Frame) -> None:
        name, start = statement.name, start_text(statement.reduction)
        lanes = frame.place.lanes
        varies = frozenset[Dim]().union(*(lanes.dims_of(Affine.variable(a)) for a in self.depends[name]))
        self.values.homes[name] = Home(lanes, varies)
        text = f"real({start})"
        if varies:
            function, value = _FILLED.get(start, ("full", f", {start}"))
            if lanes is self.root and len(varies) == len(lanes.dims) and not isinstance(self.kernel, Scatter):
                text = f"np.{function}_like({self.names(self.kernel.array)}{value})"
            else:
                lengths = [self.values.length(dim) if wanted else "1" for dim, wanted in walk_dims(lanes.dims, varies)]
                shape = f"({', '.join(lengths)})" if len(lengths) > 1 else lengths[0]
                text = f"np.{function}({shape}{value}, real)"
        frame.place.block.line(f"{self.names(name)} = {text}")

    def add(self, statement: Add, frame: Frame) -> None:
        value = self.with_choices(statement.value, frame)
        frame.place.block.line(self.additions.line(statement.name, value, statement.reduction))

    def add_at(self, statement: AddAt, frame: Frame) -> None:
        """One addition for each lane, in order; the index has all dimensions, so that none is counted once only."""
        value = self.with_choices(statement.value, frame)
        lanes = frame.place.lanes
        array, text = self.names(self.kernel.array), self.values.scalar(value)
        if isinstance(self.kernel, Scatter) and self.kernel.exclusive:
            self.add_to_own_entries(statement.index, text, frame)
            return
        entries = [self.values.form(form) for form in statement.index]
        if not lanes.dims:
            frame.place.block.line(f"{array}[{', '.join(entries)}] += {text}")
            return
        shape = ", ".join(self.values.length(dim) for dim in lanes.dims) + "," * (len(lanes.dims) == 1)
        if frozenset[Dim]().union(*map(lanes.dims_of, statement.index)) != frozenset(lanes.dims):
            entries[0] = f"np.broadcast_to({entries[0]}, ({shape}))"
        if self.values.varies(value) not in (frozenset(), frozenset(lanes.dims)):
            # NumPy 2.4 reads past the end of values with fewer axes than one array of places has.
            text = f"np.broadcast_to({text}, ({shape}))"
        places = f"({', '.join(entries)})" if len(entries) > 1 else entries[0]
        frame.place.block.line(f"np.add.at({array}, {places}, {text})")

    def add_to_own_entries(self, index: tuple[Affine, ...], text: str, frame: Frame) -> None:
        """One addition for each lane, to an entry of its own."""
        array, block = self.names(self.kernel.array), frame.place.block
        images = [frame.place.lanes.image(form) for form in index]
        part = self.values.part(array, images, self.shapes[self.kernel.array], ", write=True")
        if part is None:
            entries = ", ".join(self.values.entry_text(form) for form in images)
            block.line(f"{array}[{entries}] += {text}")
        elif part.startswith(f"{array}[") and part.count("[") == 1:
            block.line(f"{part} += {text}")
        else:
            entries = self.names.fresh("entries")
            block.line(f"{entries} = {part}")
            block.line(f"{entries} += {text}")

    # ------------------------------------------------------------------------ choices that keep reads inside

    def with_choices(self, value: Scalar, frame: Frame) -> Scalar:
        """``value`` with each choice that keeps a read from happening computed before, for its lanes only."""
        if not isinstance(value, Operation):
            return value
        if value.function == "select" and self._needs_condition(value, frame):
            return self._chosen(value, frame)
        return Operation(value.function, tuple(self.with_choices(a, frame) for a in value.arguments))

    def _needs_condition(self, value: Operation, frame: Frame) -> bool:
        """Whether a branch calls a function of the user's, or some read in it needs the condition to be inside."""
        parts = [part for branch in value.arguments[1:] for part in subexpressions(branch)]
        if any(isinstance(part, Operation) and isinstance(part.function, External) for part in parts):
            return True
        return any(
            self.prover.axes_inside(load, self.shapes[load.array], rows)
            for branch in value.arguments[1:]
            for load, rows, _ in scalar_reads(branch, frame.context)
        )

    def _chosen(self, value: Operation, frame: Frame) -> Name:
        condition, chosen, otherwise = value.arguments
        name = self.names.fresh("chosen")
        self.depends[name] = scalar_names(value, self.depends)
        self.accumulator(Accumulator(name), frame)
        for branch, holds in ((chosen, True), (otherwise, False)):
            if isinstance(branch, Number) and branch.value == 0:
                continue
            rows = exact_rows(condition, holds)
            if rows is not None:
                self.narrowed((Add(name, branch),), frame, rows)
                continue
            context = frame.context + condition_rows(condition, holds)
            place = self.narrowing.where(frame.place, self.with_choices(condition, frame), holds)
            with self.values.inside(place.lanes, place.block):
                self.body((Add(name, branch),), Frame(place, context))
        return Name(name)

    # ------------------------------------------------------------------------ loops and guards

    def narrowed(self, body: tuple[Statement, ...], frame: Frame, rows: Rows) -> None:
        """Print ``body`` over the lanes for which all ``rows`` hold."""
        place, context = frame.place, frame.context
        others, mask = self.narrowing.apart(place.lanes, rows)
        wide = (
            self.zeros.masked(body, mask, context + others) if mask and not isinstance(self.kernel, Scatter) else None
        )
        if wide is not None:
            body, rows = wide, others
        place = self.narrowing.to(place, rows)
        with self.values.inside(place.lanes, place.block):
            self.body(body, Frame(place, context + rows))

    def loop(self, loop: Loop, frame: Frame) -> None:
        lanes = frame.place.lanes
        if any(lanes.dims_of(bound.form) for bound in bounds(loop)):
            if self._is_short(self.narrowing.widest(loop, lanes)):
                self.python_loop(loop, frame)
            elif (offsets := find_offsets(loop, lanes)) is not None:
                self.by_offsets(offsets, loop, frame)
            elif not self.prefixes.print(loop, frame.place, frame.context):
                widened = self.zeros.widened(loop, lanes, frame.context)
                if widened is None:
                    self.python_loop(loop, frame)
                else:
                    self.widened(widened, loop, frame)
        elif not self.sum_of_products(loop, frame):
            (self.promote if self._is_promotable(loop, lanes) else self.python_loop)(loop, frame)

    def widened(self, found: Widened, loop: Loop, frame: Frame) -> None:
        """Print a sum over the widest range, and the loop as it stands for calls in which that cannot be used."""
        place, context = frame.place, frame.context + loop_rows(found.loop)
        conditions = [self.values.condition(row) for row in found.limits]
        conditions += [f"np.isfinite({array}).all()" for array in found.finite]
        inner = place.block
        if conditions:
            inner = place.block.child(f"if {' and '.join(conditions)}:")
            self.python_loop(loop, Frame(place._replace(block=place.block.child("else:")), frame.context))
        for line in found.lines:
            inner.line(line)
        with self.values.inside(place.lanes, inner):
            wide = Frame(place._replace(block=inner), context)
            if not self.sum_of_products(found.loop, wide):
                self.promote(found.loop, wide)

    def by_offsets(self, found: Offsets, loop: Loop, frame: Frame) -> None:
        """Print a loop over the few entries that each value touches, each for all values at once."""
        lanes = frame.place.lanes
        span, place = self.narrowing.span(frame.place, self.narrowing.widest(loop, lanes))
        offset = self.names.fresh(f"{self.names(found.span.axis)}_offset")
        step = Affine.variable(offset)
        inner = place.block.child(f"for {offset} in range({found.length}):")
        known = (*place.known, Row("ge", step), Row("ge", found.length - 1 - step))
        image = found.first + step
        lanes = lanes.replace((found.span,), span, {found.span.axis: image})
        place = self.narrowing.to(Place(lanes, inner, known), found.rows)
        same = Row("eq", image - Affine.variable(found.span.axis))
        names = self.additions.renamed
        names[span.axis] = names.get(found.span.axis, found.span.axis)
        with self.values.inside(place.lanes, place.block):
            self.body(loop.body, Frame(place, (*frame.context, *loop_rows(loop), same)))
        del names[span.axis]  # another loop may have an index of this name

    def python_loop(self, loop: Loop, frame: Frame) -> None:
        """Print a loop in Python, for the lanes of each value."""
        lanes = frame.place.lanes
        wide = self.narrowing.widest(loop, lanes)
        low, stop = self.ends(wide.lows, wide.highs, frame.place)
        span = stop if low == "0" else f"{low}, {stop}"
        inner = frame.place.block.child(f"for {self.names(loop.variable)} in range({span}):")
        known = frame.place.known + loop_rows(wide)
        rows = loop_rows(loop)
        narrow = tuple(row for row in rows if lanes.dims_of(row.form))
        place = self.narrowing.to(Place(lanes, inner, known), narrow)
        with self.values.inside(place.lanes, place.block):
            self.body(loop.body, Frame(place, frame.context + rows))

    def sum_of_products(self, loop: Loop, frame: Frame) -> bool:
        """Print loops around one addition of a product at once; False where that is not possible or needs memory."""
        nest = find_nest(loop)
        if nest is None:
            return False
        context = frame.context + tuple(row for inner in nest.loops for row in loop_rows(inner))
        choices = [p for p in subexpressions(nest.add.value) if isinstance(p, Operation) and p.function == "select"]
        if any(self._needs_condition(choice, Frame(frame.place, context)) for choice in choices):
            return False
        return self.products.print(nest, frame.place)

    def ends(self, lows: tuple[Bound, ...], highs: tuple[Bound, ...], place: Place) -> tuple[str, str]:
        """The first value of a loop and the one behind the last, without bounds that others imply."""
        starts = [quotient(b.form + (b.divisor - 1), b.divisor) for b in lows]
        stops = [quotient(b.form, b.divisor) + 1 for b in highs]
        kept = self.narrowing.strongest(starts, 1, place.known), self.narrowing.strongest(stops, -1, place.known)
        return self.values.extreme("max", kept[0]), self.values.extreme("min", kept[1])

    def _is_promotable(self, loop: Loop, lanes: Lanes) -> bool:
        """Whether the loop becomes one more dimension of the lanes.

        These are kept few. A long sum of few entries gains by it; a short one does not.
        """
        if self._is_short(loop) or any(isinstance(dim, Picked) for dim in lanes.dims):
            return False
        return len(lanes.dims) < 2 or (len(lanes.dims) == 2 and not any(lanes.has(axis) for axis in self.promoted))

    def _is_short(self, loop: Loop) -> bool:
        """Whether there are few values, whatever the sizes are."""
        lengths = [
            quotient(high.form, high.divisor) - quotient(low.form + (low.divisor - 1), low.divisor) + 1
            for high in loop.highs
            for low in loop.lows
        ]
        return any(n.is_constant and n.constant <= SHORT for n in lengths)

    def promote(self, loop: Loop, frame: Frame) -> None:
        """Print a loop as sums along one more dimension, cut into blocks where the terms are computed."""
        span, place = self.narrowing.span(frame.place, loop)
        if not _is_of_a_view(loop.body):
            span, place = self.narrowing.blocks(place, span, place.lanes.dims)
        self.promoted.add(loop.variable)
        lanes = Lanes((span, *place.lanes.dims), place.lanes.replaced)
        with self.values.inside(lanes, place.block):
            self.body(loop.body, Frame(place._replace(lanes=lanes), frame.context + loop_rows(loop)))


def _is_of_a_view(body: Sequence[Statement]) -> bool:
    """Whether all that is added are entries of an array along its axes, which needs no memory."""
    if len(body) != 1 or not isinstance(body[0], Add) or not isinstance(body[0].value, Load):
        return False
    names = [name for form in body[0].value.index for name in form.atoms()]
    return len(set(names)) == len(names) and not any(form.hidden() for form in body[0].value.index)
