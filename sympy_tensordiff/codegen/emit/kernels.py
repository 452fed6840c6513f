"""One kernel as a NumPy function: statements over lanes."""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.emit.accumulate import Additions, calls_others
from sympy_tensordiff.codegen.emit.base import start_text
from sympy_tensordiff.codegen.emit.driver import WORD, call_text, task_text, without_unused_real
from sympy_tensordiff.codegen.emit.forms import Block, Names
from sympy_tensordiff.codegen.emit.lanes import Lanes, Span, sort_conditions
from sympy_tensordiff.codegen.emit.narrowing import Narrowing, is_short, loop_ends
from sympy_tensordiff.codegen.emit.products import find_nest, print_product
from sympy_tensordiff.codegen.emit.ranges import find_offsets, widened
from sympy_tensordiff.codegen.emit.vectors import Frame, Home, VectorPrinter, tuple_text
from sympy_tensordiff.codegen.ir.facts import Prover, axis_rows, exact_rows, loop_rows, scalar_reads
from sympy_tensordiff.codegen.ir.loops import (
    Accumulator,
    Add,
    AddAt,
    If,
    Kernel,
    Let,
    Loop,
    Scatter,
    Statement,
    Store,
)
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import bounds, dependences, function_name, scalar_names, subexpressions, uses
from sympy_tensordiff.integer.affine import Affine, Row

_FILLED = {"0": ("zeros", ""), "1": ("ones", "")}
"""NumPy's functions that make arrays of one value, and their further arguments."""


class KernelPrinter:
    """Prints one kernel."""

    def __init__(self, kernel: Kernel, bare: frozenset[str], names: Names, prover: Prover) -> None:
        self.kernel = kernel
        self.names = names
        self.prover = prover
        self.values = VectorPrinter(names, prover, bare)
        self.narrowing = Narrowing(self.values, prover)
        self.additions = Additions(self.narrowing)
        self.depends = dependences(kernel)
        self.extents = kernel.box(self.values.shapes)
        """What is passed beside the arrays, where the text needs it: sizes of these forms."""
        self.root = Lanes(tuple(Span(axis, Affine.of(0), n) for axis, n in zip(kernel.axes, self.extents, strict=True)))

    def print(self) -> str:
        """The text of the function."""
        block = Block()
        inner = block.child("")
        inner.line(f'"""{task_text(self.kernel, self.names)}."""')
        inner.line(f"real = {self.names(self.kernel.array)}.dtype.type")
        self.body(self.kernel.body, Frame(self.root, inner, (), axis_rows(self.kernel, self.values.shapes)))
        _, *lines = block.render()
        self.extents += self._sizes_in(lines)
        head = f"def {function_name(self.kernel)}{call_text(self.kernel, self.names, self.extents)}:"
        return "\n".join(without_unused_real([head, *lines]))

    def _sizes_in(self, lines: list[str]) -> tuple[Affine, ...]:
        """The sizes in the shapes of arrays that stand in the text."""
        words = set(WORD.findall("\n".join(lines)))
        forms = [form for array in uses(self.kernel).arrays for form in self.values.shapes[array]]
        sizes = sorted({name for form in forms for name in form.atoms() if isinstance(name, str)})
        return tuple(Affine.variable(name) for name in sizes if self.names(name) in words)

    def body(self, body: tuple[Statement, ...], frame: Frame) -> None:
        """Print statements over the lanes of ``frame``."""
        with self.values.inside(frame):
            for statement in body:
                if isinstance(statement, Loop):
                    self.loop(statement, frame)
                elif isinstance(statement, If):
                    self.body(statement.body, self.narrowing.to(frame, statement.conditions))
                elif isinstance(statement, Accumulator):
                    self.accumulator(statement, frame)
                elif isinstance(statement, Let):
                    self.let(statement, frame)
                elif isinstance(statement, Add):
                    value = self.with_choices(statement.value, frame)
                    self.additions.add(statement.name, value, statement.reduction, frame)
                elif isinstance(statement, AddAt):
                    self.add_at(statement, frame)
                elif isinstance(statement, Store):
                    text = self.values.scalar(self.with_choices(statement.value, frame))
                    frame.block.line(f"{self.names(self.kernel.array)}[...] = {text}")

    # ------------------------------------------------------------------------ values

    def let(self, statement: Let, frame: Frame) -> None:
        value = self.with_choices(statement.value, frame)
        text = self.values.scalar(value)
        if isinstance(value, Number):
            text = f"real({text})"
        self.values.homes[statement.name] = Home(frame.lanes, self.values.varies(value), frame.mask)
        frame.block.line(f"{self.names(statement.name)} = {text}")

    def accumulator(self, statement: Accumulator, frame: Frame) -> None:
        name, start = statement.name, start_text(statement.reduction)
        lanes = frame.lanes
        varies = frozenset[Span]().union(*(lanes.dims_of(Affine.variable(a)) for a in self.depends[name]))
        self.values.homes[name] = Home(lanes, varies, frame.mask)
        text = f"real({start})"
        if varies:
            function, value = _FILLED.get(start, ("full", f", {start}"))
            if lanes is self.root and len(varies) == len(lanes.dims) and not isinstance(self.kernel, Scatter):
                text = f"np.{function}_like({self.names(self.kernel.array)}{value})"
            else:
                lengths = [self.values.form(dim.length) if wanted else "1" for dim, wanted in lanes.walk(varies)]
                shape = f"({', '.join(lengths)})" if len(lengths) > 1 else lengths[0]
                text = f"np.{function}({shape}{value}, real)"
        frame.block.line(f"{self.names(name)} = {text}")

    def with_choices(self, value: Scalar, frame: Frame) -> Scalar:
        """``value`` with each choice that keeps a read from happening computed before, for its lanes only."""
        if not isinstance(value, Operation):
            return value
        if value.function == "select" and self._needs_condition(value, frame):
            return self._chosen(value, frame)
        return Operation(value.function, tuple(self.with_choices(a, frame) for a in value.arguments))

    def _needs_condition(self, value: Operation, frame: Frame) -> bool:
        """Whether a branch calls a function of the user's, or some read in it needs the condition to be inside."""
        if any(calls_others(branch) for branch in value.arguments[1:]):
            return True
        return any(
            self.prover.axes_inside(load, self.values.shapes[load.array], rows)
            for branch in value.arguments[1:]
            for load, rows, _ in scalar_reads(branch, frame.context)
        )

    def _chosen(self, value: Operation, frame: Frame) -> Scalar:
        """The choice between two branches: slices of an array where the condition says where, or by a mask."""
        condition, *branches = value.arguments
        rows = [exact_rows(condition, holds) for holds in (True, False)]
        used = [branch != Number(0) for branch in branches]
        ways = [r is not None and not sort_conditions(frame.lanes, r).mask for r in rows]
        by_slices = all(way for way, is_used in zip(ways, used, strict=True) if is_used)
        condition = self.with_choices(condition, frame)
        if not by_slices and self.values.varies(condition):
            return self._masked(condition, branches, frame)
        name = self.names.fresh("chosen")
        self.depends[name] = scalar_names(value, self.depends)
        self.accumulator(Accumulator(name), frame)
        for branch, exact, holds in zip(branches, rows, (True, False), strict=True):
            if branch == Number(0):
                continue
            if by_slices:
                assert exact is not None
                inner = self.narrowing.to(frame, exact)
            else:
                text = self.values.scalar(condition) if holds else self.values.negation(condition)[0]
                inner = frame.child(f"if {text}:")
            self.body((Add(name, branch),), inner)
        return Name(name)

    def _masked(self, condition: Scalar, branches: Sequence[Scalar], frame: Frame) -> Scalar:
        """The choice between two branches, of which each is computed for all lanes and reads where it counts."""
        mask = Name(self.names.fresh("holds"))
        self.let(Let(mask.name, condition), frame)
        chosen = []
        whole: tuple[Scalar, Scalar] = mask, Operation("not", (mask,))
        for branch, own in zip(branches, whole, strict=True):
            inner = frame._replace(mask=own if frame.mask is None else Operation("and", (frame.mask, own)))
            with self.values.inside(inner):
                chosen.append(self.with_choices(branch, inner))
        return Operation("select", (mask, *chosen))

    def add_at(self, statement: AddAt, frame: Frame) -> None:
        """One addition for each lane, in order; the index has all dimensions, so that none is counted once only."""
        value = self.with_choices(statement.value, frame)
        lanes, array = frame.lanes, self.names(self.kernel.array)
        images = [lanes.image(form) for form in statement.index]
        shape = self.values.shapes[self.kernel.array]
        if frame.mask is not None:
            value = Operation("select", (frame.mask, value, Number(0)))
        elif not lanes.dims or (isinstance(self.kernel, Scatter) and self.kernel.exclusive):
            target = self.values.named_part(array, images, shape, frame)
            frame.block.line(f"{target} += {self.values.scalar(value)}")
            return
        text, entries = self.values.scalar(value), self.values.indices(self.kernel.array, statement.index)
        whole = tuple_text(self.values.form(dim.length) for dim in lanes.dims)
        if frozenset[Span]().union(*map(lanes.dims_of, statement.index)) != frozenset(lanes.dims):
            entries[0] = f"np.broadcast_to({entries[0]}, {whole})"
        if self.values.varies(value) not in (frozenset(), frozenset(lanes.dims)):
            # NumPy 2.4 reads past the end of values with fewer axes than one array of places has.
            text = f"np.broadcast_to({text}, {whole})"
        places = f"({', '.join(entries)})" if len(entries) > 1 else entries[0]
        frame.block.line(f"np.add.at({array}, {places}, {text})")

    # ------------------------------------------------------------------------ loops

    def loop(self, loop: Loop, frame: Frame) -> None:
        lanes = frame.lanes
        if not any(lanes.dims_of(bound.form) for bound in bounds(loop)):
            is_done = self.sum_of_products(loop, frame) or (
                self._is_promotable(loop, lanes) and self.promote(loop, frame)
            )
        elif is_short(self.narrowing.widest(loop, lanes)):
            is_done = False
        else:
            is_done = (
                self.by_offsets(loop, frame) or self.additions.running(loop, frame) or self.over_widest(loop, frame)
            )
        if not is_done:
            self.python_loop(loop, frame)

    def python_loop(self, loop: Loop, frame: Frame) -> None:
        """Print a loop in Python, for the lanes of each value."""
        wide = self.narrowing.widest(loop, frame.lanes)
        lows, stops = loop_ends(wide)
        low = self.values.extreme("max", self.narrowing.strongest(lows, 1, frame.known))
        stop = self.values.extreme("min", self.narrowing.strongest(stops, -1, frame.known))
        span = stop if low == "0" else f"{low}, {stop}"
        inner = frame.child(f"for {self.names(loop.variable)} in range({span}):", loop_rows(wide))
        tied = tuple(row for row in loop_rows(loop) if frame.lanes.dims_of(row.form))
        self.body(loop.body, self.narrowing.to(inner._replace(context=frame.context + loop_rows(wide)), tied))

    def by_offsets(self, loop: Loop, frame: Frame) -> bool:
        """Print a loop of which each value touches few entries in a row, over these, each for all values at once.

        ``s[2*i + a] += v(i, a)`` for ``a = 0, 1, 2`` is three operations on all ``i``, in place of a loop over
        ``i`` with three entries each: the entries of one ``a`` are different ones, in steps.
        """
        found = find_offsets(loop, frame.lanes)
        if found is None:
            return False
        span, frame = self.narrowing.span(frame, self.narrowing.widest(loop, frame.lanes))
        offset = self.names.fresh(f"{self.names(found.span.axis)}_offset")
        step, axis = Affine.variable(offset), Affine.variable(found.span.axis)
        known = (Row("ge", step), Row("ge", found.length - 1 - step))
        frame = frame.child(f"for {offset} in range({found.length}):", known)
        lanes = frame.lanes.replace(found.span, span, found.first + step)
        context = (*frame.context, *loop_rows(loop), Row("eq", found.first + step - axis))
        inside = (Row("ge", axis - found.span.low), Row("ge", found.span.stop - 1 - axis))
        rows = tuple(row for row in loop_rows(loop) if frame.lanes.dims_of(row.form))
        self.body(loop.body, self.narrowing.to(frame._replace(lanes=lanes, context=context), rows + inside))
        return True

    def over_widest(self, loop: Loop, frame: Frame) -> bool:
        """Print a sum over the widest range, and the loop as it stands for calls in which that cannot be used."""
        found = widened(loop, frame, self.additions)
        if found is None:
            return False
        conditions = [self.values.condition(row) for row in found.limits]
        conditions += [f"np.isfinite({array}).all()" for array in found.finite]
        inner = frame
        if conditions:
            inner = frame.child(f"if {' and '.join(conditions)}:")
            self.python_loop(loop, frame.child("else:"))
        for line in found.lines:
            inner.block.line(line)
        with self.values.inside(inner):
            if not self.sum_of_products(found.loop, inner):
                self.promote(found.loop, inner)
        return True

    def sum_of_products(self, loop: Loop, frame: Frame) -> bool:
        """Print loops around one addition of a product at once; False where that is not possible or needs memory."""
        nest = find_nest(loop)
        if nest is None:
            return False
        context = frame.context + tuple(row for inner in nest.loops for row in loop_rows(inner))
        choices = [p for p in subexpressions(nest.add.value) if isinstance(p, Operation) and p.function == "select"]
        if any(self._needs_condition(choice, frame._replace(context=context)) for choice in choices):
            return False
        return print_product(nest, frame, self.additions)

    def promote(self, loop: Loop, frame: Frame) -> bool:
        """Print a loop as sums along one more dimension, cut into blocks where the terms are computed."""
        span, frame = self.narrowing.span(frame, loop)
        if not _is_of_a_view(loop.body):
            span, frame = self.narrowing.blocks(frame, span, frame.lanes.dims)
        self.body(loop.body, frame._replace(lanes=frame.lanes.inside(span)))
        return True

    def _is_promotable(self, loop: Loop, lanes: Lanes) -> bool:
        """Whether the loop becomes one more dimension of the lanes.

        These are kept few. A long sum of few entries gains by it; a short one does not.
        """
        return not is_short(loop) and (len(lanes.dims) < 2 or len(lanes.dims) == len(self.root.dims) == 2)


def _is_of_a_view(body: tuple[Statement, ...]) -> bool:
    """Whether all that is added are entries of an array along its axes, which needs no memory."""
    if len(body) != 1 or not isinstance(body[0], Add) or not isinstance(body[0].value, Load):
        return False
    names = [name for form in body[0].value.index for name in form.atoms()]
    return len(set(names)) == len(names) and not any(form.hidden() for form in body[0].value.index)
