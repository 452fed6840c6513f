"""One kernel as a NumPy function: statements over lanes."""

from __future__ import annotations

from typing import NamedTuple

from sympy_tensordiff.codegen.facts import Prover, Rows, axis_rows, condition_rows, exact_rows, loop_rows, scalar_reads
from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    AddAt,
    Bound,
    External,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Name,
    Number,
    Operation,
    Reduction,
    Scalar,
    Scatter,
    Statement,
    Store,
)
from sympy_tensordiff.codegen.printers.base import start_text
from sympy_tensordiff.codegen.printers.blocks import Block
from sympy_tensordiff.codegen.printers.driver import call_text, task_text, without_unused_real
from sympy_tensordiff.codegen.printers.forms import ATOM, UNARY, Names
from sympy_tensordiff.codegen.printers.lanes import Dim, Lanes, Picked, Span, walk_dims
from sympy_tensordiff.codegen.printers.narrowing import Narrowing, Place
from sympy_tensordiff.codegen.printers.vectors import Home, VectorPrinter
from sympy_tensordiff.codegen.walk import EXTREMA, dependences, forms, function_name, scalar_names, subexpressions
from sympy_tensordiff.integer.affine import Affine, Row, quotient

_SHORT = 16
"""A sum over no more terms than this stays a Python loop."""


_FUNCTIONS: dict[Reduction, tuple[str, str]] = {
    "sum": ("np.add", "+"), "prod": ("np.multiply", "*"), "max": ("np.maximum", ""), "min": ("np.minimum", ""),
}  # fmt: skip
"""NumPy's functions of two arrays, and their operators, that reduce."""

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
        self.shapes = prover.shapes
        self.uses_block = False
        self.promoted: set[str] = set()
        shape = kernel.box(self.shapes)
        self.root = Lanes(tuple(Span(axis, Affine.of(0), n) for axis, n in zip(kernel.axes, shape, strict=True)))
        self.values = VectorPrinter(names, self.shapes, bare, self.root)
        self.narrowing = Narrowing(self.values, prover)
        self.depends = dependences(kernel)
        self.context = axis_rows(kernel, self.shapes)

    def print(self) -> str:
        """The text of the function."""
        block = Block()
        array = self.names(self.kernel.array)
        passed = call_text(self.kernel, self.names, self.kernel.box(self.shapes))
        inner = block.child(f"def {function_name(self.kernel)}{passed}:")
        inner.line(f'"""{task_text(self.kernel, self.names)}."""')
        inner.line(f"real = {array}.dtype.type")
        with self.values.inside(self.root, inner):
            self.body(self.kernel.body, Frame(Place(self.root, inner, ()), self.context))
        return "\n".join(without_unused_real(block.render()))

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
            else:
                self.store(statement, frame)

    # ------------------------------------------------------------------------ values

    def let(self, statement: Let, frame: Frame) -> None:
        value = self.protected(statement.value, frame)
        text = self.values.scalar(value)
        if isinstance(value, Number):
            text = f"real({text})"
        self.values.homes[statement.name] = Home(frame.place.lanes, self.values.varies(value))
        frame.place.block.line(f"{self.names(statement.name)} = {text}")

    def store(self, statement: Store, frame: Frame) -> None:
        value = self.protected(statement.value, frame)
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
                lengths = [self.length(dim) if wanted else "1" for dim, wanted in walk_dims(lanes.dims, varies)]
                shape = f"({', '.join(lengths)})" if len(lengths) > 1 else lengths[0]
                text = f"np.{function}({shape}{value}, real)"
        frame.place.block.line(f"{self.names(name)} = {text}")

    def length(self, dim: Dim) -> str:
        """The length of a dimension as text."""
        return self.values.form(dim.length) if isinstance(dim, Span) else dim.size_text

    def add(self, statement: Add, frame: Frame) -> None:
        value = self.protected(statement.value, frame)
        home = self.values.homes[statement.name]
        kept = frozenset[Dim]().union(*(self.values.current_dims(dim) for dim in home.varies))
        lanes = frame.place.lanes
        summed = [d for d in lanes.dims if d not in kept and not self._is_outside(d, home)]
        text = self._reduced(value, summed, statement.reduction)
        name = self.names(statement.name)
        function, operator = _FUNCTIONS[statement.reduction]
        if any(not self._is_outside(dim, home) for dim in kept):
            # Several lanes may belong to one entry of the accumulator.
            frame.place.block.line(f"{function}.at({name}, {self._positions(home)}, {text})")
            return
        entry = f"{name}{self._target(home, summed)}"
        frame.place.block.line(f"{entry} {operator}= {text}" if operator else f"{entry} = {function}({entry}, {text})")

    def add_at(self, statement: AddAt, frame: Frame) -> None:
        """One addition for each lane, in order; the index has all dimensions, so that none is counted once only."""
        value = self.protected(statement.value, frame)
        lanes = frame.place.lanes
        array, text = self.names(self.kernel.array), self.values.scalar(value)
        if isinstance(self.kernel, Scatter) and self.kernel.exclusive:
            frame.place.block.line(f"{self.values.load(Load(self.kernel.array, statement.index))} += {text}")
            return
        entries = [self.values.form(form) for form in statement.index]
        if not lanes.dims:
            frame.place.block.line(f"{array}[{', '.join(entries)}] += {text}")
            return
        if frozenset[Dim]().union(*map(lanes.dims_of, statement.index)) != frozenset(lanes.dims):
            lengths = ", ".join(self.length(dim) for dim in lanes.dims) + "," * (len(lanes.dims) == 1)
            entries[0] = f"np.broadcast_to({entries[0]}, ({lengths}))"
        places = f"({', '.join(entries)})" if len(entries) > 1 else entries[0]
        frame.place.block.line(f"np.add.at({array}, {places}, {text})")

    def _is_outside(self, dim: Dim, home: Home) -> bool:
        """Whether no summation index that ``home`` does not have runs along ``dim``."""
        return all(axis not in self.promoted or home.lanes.has(axis) for axis in dim.axes)

    def _reduced(self, value: Scalar, summed: list[Dim], reduction: Reduction) -> str:
        """The text of ``value`` reduced along the dimensions ``summed``, which stand in front."""
        varies = self.values.varies(value)
        counts = [self.length(dim) for dim in summed if dim not in varies]
        if not varies.intersection(summed):
            if not counts:
                return self.values.scalar(value)
            if reduction == "prod":  # an integer to the power of a length may be too large for a real number
                inner = self.values.scalar(value, ATOM) if varies else f"real({self.values.scalar(value)})"
            else:
                inner = self.values.scalar(value, UNARY)
            return _repeated(inner, counts, reduction)
        places = [self.values.lanes.dims.index(dim) for dim in varies if dim not in summed]
        first = min(self.values.lanes.dims.index(dim) for dim in varies)
        axes = range(min(places) - first) if places else range(0)
        inner = self.values.scalar(value, ATOM)
        text = f"{inner}.{reduction}({f'axis={tuple(axes) if len(axes) > 1 else 0}' if places else ''})"
        return _repeated(text, counts, reduction)

    def _target(self, home: Home, summed: list[Dim]) -> str:
        """The part of an accumulator that the current lanes add to, as a subscript."""
        if not home.varies or self.values.is_here(home):
            return ""
        entries, extents = self.values.entries(home)
        slices = self.values.slices(entries, extents)
        rest = [dim for dim in self.values.lanes.dims if dim not in summed]
        if slices is not None and len(rest) == len(home.lanes.dims):
            texts, dims = slices
            present = [wanted for _, wanted in walk_dims(home.lanes.dims, home.varies)]
            behind = rest[len(rest) - len(present) :]
            if dims == [dim for dim, wanted in zip(behind, present, strict=True) if wanted]:
                return f"[{', '.join(t if w else ':' for t, w in zip(texts, present, strict=True))}]"
        return f"[{', '.join(self.values.entry_text(entry) for entry in entries)}]"

    def _positions(self, home: Home) -> str:
        entries, _ = self.values.entries(home)
        texts = [self.values.entry_text(entry) for entry in entries]
        return f"({', '.join(texts)})" if len(texts) > 1 else texts[0]

    # ------------------------------------------------------------------------ choices that protect reads

    def protected(self, value: Scalar, frame: Frame) -> Scalar:
        """``value`` with each choice that keeps a read from happening computed before, for its lanes only."""
        if not isinstance(value, Operation):
            return value
        if value.function == "select" and self._protects(value, frame):
            return self._chosen(value, frame)
        return Operation(value.function, tuple(self.protected(a, frame) for a in value.arguments))

    def _protects(self, value: Operation, frame: Frame) -> bool:
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
            place = self.narrowing.where(frame.place, self.protected(condition, frame), holds)
            with self.values.inside(place.lanes, place.block):
                self.body((Add(name, branch),), Frame(place, context))
        return Name(name)

    # ------------------------------------------------------------------------ loops and guards

    def narrowed(self, body: tuple[Statement, ...], frame: Frame, rows: Rows) -> None:
        """Print ``body`` over the lanes for which all ``rows`` hold."""
        place = self.narrowing.to(frame.place, rows)
        with self.values.inside(place.lanes, place.block):
            self.body(body, Frame(place, frame.context + rows))

    def loop(self, loop: Loop, frame: Frame) -> None:
        lanes = frame.place.lanes
        loose = not any(lanes.dims_of(bound.form) for bound in loop.lows + loop.highs)
        if loose and self._is_promotable(loop, lanes):
            self.promote(loop, frame)
            return
        lows = tuple(Bound(lanes.extreme(b.form, -1), b.divisor) for b in loop.lows)
        highs = tuple(Bound(lanes.extreme(b.form, 1), b.divisor) for b in loop.highs)
        low, stop = self.ends(lows, highs, frame.place)
        span = stop if low == "0" else f"{low}, {stop}"
        inner = frame.place.block.child(f"for {self.names(loop.variable)} in range({span}):")
        known = frame.place.known + loop_rows(Loop(loop.variable, lows, highs, ()))
        rows = loop_rows(loop)
        narrow = tuple(row for row in rows if lanes.dims_of(row.form))
        place = self.narrowing.to(Place(lanes, inner, known), narrow)
        with self.values.inside(place.lanes, place.block):
            self.body(loop.body, Frame(place, frame.context + rows))

    def ends(self, lows: tuple[Bound, ...], highs: tuple[Bound, ...], place: Place) -> tuple[str, str]:
        """The first value of a loop and the one behind the last, without bounds that others imply."""
        starts = [quotient(b.form + (b.divisor - 1), b.divisor) for b in lows]
        stops = [quotient(b.form, b.divisor) + 1 for b in highs]
        kept = self.narrowing.strongest(starts, 1, place.known), self.narrowing.strongest(stops, -1, place.known)
        return self.values.extreme("max", kept[0]), self.values.extreme("min", kept[1])

    def _is_promotable(self, loop: Loop, lanes: Lanes) -> bool:
        """Whether the loop becomes one more dimension of the lanes.

        These are kept few. A long sum of few entries gains by it; a short one does not, nor one
        whose index is tied to those of the lanes, where slices do better.
        """
        lengths = [
            quotient(high.form, high.divisor) - quotient(low.form + (low.divisor - 1), low.divisor) + 1
            for high in loop.highs
            for low in loop.lows
        ]
        if any(n.is_constant and n.constant <= _SHORT for n in lengths):
            return False
        if any(isinstance(dim, Picked) for dim in lanes.dims):
            return False
        if any(loop.variable in form.atoms() and lanes.dims_of(form) for form in forms(loop.body, values=False)):
            return False
        return len(lanes.dims) < 2 or (len(lanes.dims) == 2 and not any(lanes.has(axis) for axis in self.promoted))

    def promote(self, loop: Loop, frame: Frame) -> None:
        """Print a loop as sums along one more dimension, cut into blocks."""
        self.uses_block = True
        place, variable = frame.place, self.names(loop.variable)
        start, stop = self.names.fresh(f"{variable}_from"), self.names.fresh(f"{variable}_to")
        low, high = self.ends(loop.lows, loop.highs, place)
        block = "BLOCK"
        sizes = [self.length(dim) for dim in place.lanes.dims]
        if sizes:
            product = "*".join(f"({s})" if " " in s else s for s in sizes)
            block = self.names.fresh("block")
            place.block.line(f"{block} = max(1, BLOCK//{f'({product})' if '*' in product else product})")
        inner = place.block.child(f"for {start} in range({low}, {high}, {block}):")
        inner.line(f"{stop} = min({start} + {block}, {high})")
        self.promoted.add(loop.variable)
        span = Span(loop.variable, Affine.variable(start), Affine.variable(stop))
        known = tuple(
            row.substitute({loop.variable: form})
            for row in loop_rows(loop)
            for form in (Affine.variable(start), Affine.variable(stop) - 1)
        )
        known += (Row("ge", Affine.variable(stop) - Affine.variable(start) - 1),)
        lanes = Lanes((span, *place.lanes.dims), place.lanes.replaced)
        with self.values.inside(lanes, inner):
            self.body(loop.body, Frame(Place(lanes, inner, place.known + known), frame.context + loop_rows(loop)))


def _repeated(text: str, counts: list[str], reduction: Reduction) -> str:
    """A value so many times, reduced: the counts of several dimensions are multiplied."""
    if not counts or reduction in EXTREMA:
        return text
    factors = [f"({count})" if " " in count else count for count in counts]
    if reduction == "sum":
        return "*".join([*factors, text])
    return f"{text}**({'*'.join(factors)})" if len(factors) > 1 else f"{text}**{factors[0]}"
