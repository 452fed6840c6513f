"""Scalar expressions as NumPy text over lanes.

The text of a value that varies along some dimensions of the lanes is an array whose axes are the
dimensions from the first of these on, with length 1 where the value does not vary; all others
are NumPy scalars or Python numbers. So any two values broadcast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, NamedTuple, TypeAlias

from sympy_tensordiff.codegen.emit.base import ScalarPrinter
from sympy_tensordiff.codegen.emit.forms import ATOM, CHOICE, COMPARE, SUM, Block, Names
from sympy_tensordiff.codegen.emit.helpers import NUMPY_HELPERS
from sympy_tensordiff.codegen.emit.lanes import DataExtreme, Dim, Lanes, Picked, Span, walk_dims
from sympy_tensordiff.codegen.ir.scalars import External, IndexValue, Load, MaskedEntry, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import subexpressions
from sympy_tensordiff.integer.affine import Affine, Compound, Quotient, quotient
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import Extremum


class Home(NamedTuple):
    """Where a named value was made: its lanes, and the dimensions along which it varies."""

    lanes: Lanes
    varies: frozenset[Dim]


Entry: TypeAlias = "Affine | Picked | str"
"""One index of a read: a form, all of a picked dimension, or an array of positions by name."""


class VectorPrinter(ScalarPrinter):
    """Scalar expressions over the current ``lanes``."""

    functions: ClassVar[dict[str, str]] = {
        "max": "np.maximum", "min": "np.minimum", "erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "lgamma",
        "sigmoid": "sigmoid", "softplus": "softplus",
    } | {
        name: f"np.{name}"
        for name in (
            "exp", "log", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh",
            "arcsinh", "arccosh", "arctanh", "abs", "sign", "floor", "ceil", "heaviside", "sqrt",
            "expm1", "log1p", "log2", "log10", "cbrt", "hypot",
        )
    }  # fmt: skip
    operators: ClassVar[Mapping[str, tuple[str, int]]] = {
        **ScalarPrinter.operators,
        "and": (" & ", COMPARE), "or": (" | ", COMPARE + 0),
    }  # fmt: skip

    def __init__(
        self, names: Names, shapes: Mapping[str, tuple[Affine, ...]], bare: frozenset[str], lanes: Lanes
    ) -> None:
        super().__init__(names)
        self.shapes = shapes
        self.bare = bare
        self.lanes = lanes
        self.homes: dict[str, Home] = {}
        self.helpers: set[str] = set()
        self._slots: dict[tuple[Dim, int], tuple[Block, dict[str, str]]] = {}
        self._used: set[str] = set()

    # ------------------------------------------------------------------------ what varies along what

    def varies(self, node: Scalar) -> frozenset[Dim]:
        """The dimensions of the lanes along which ``node`` varies."""
        found: set[Dim] = set()
        for part in subexpressions(node):
            if isinstance(part, IndexValue):
                found |= self.lanes.dims_of(part.form)
            elif isinstance(part, Load):
                for form in part.index:
                    found |= self.lanes.dims_of(form)
            elif isinstance(part, Name) and part.name in self.homes:
                for dim in self.homes[part.name].varies:
                    found |= self.current_dims(dim)
        return frozenset(found)

    def current_dims(self, dim: Dim) -> frozenset[Dim]:
        """The dimensions of the current lanes along which a dimension of earlier lanes varies."""
        return frozenset().union(*(self.lanes.dims_of(Affine.variable(axis)) for axis in dim.axes))

    # ------------------------------------------------------------------------ index arrays

    @contextmanager
    def inside(self, lanes: Lanes, block: Block) -> Iterator[None]:
        """Print over ``lanes``; index arrays that are new to them are made at the present end of ``block``."""
        outer = self.lanes, self._slots
        slot = block.slot()
        new = {(dim, lanes.trailing(dim)): (slot, dict[str, str]()) for dim in lanes.dims}
        self.lanes, self._slots = lanes, new | self._slots
        yield
        self.lanes, self._slots = outer

    def variable(self, name: str) -> str:
        return self.index_array(name) if self.lanes.has(name) else super().variable(name)

    def index_array(self, axis: str) -> str:
        """The name of an array with the values of an index of the lanes, shaped to broadcast."""
        dim = self.lanes.dim(axis)
        trailing = self.lanes.trailing(dim)
        slot, made = self._slots[dim, trailing]
        if axis not in made:
            tail = new_axes(trailing)
            if isinstance(dim, Picked):
                if not tail:
                    return dim.arrays[axis]
                text = dim.arrays[axis] + tail
            else:
                start = "" if dim.low == Affine.of(0) and dim.step == 1 else f"{self.form(dim.low)}, "
                step = f", {dim.step}" if dim.step > 1 else ""
                text = f"np.arange({start}{self.form(dim.stop)}{step}){tail}"
            own = self.names(axis)
            made[axis] = self.names.fresh(axis) if own in self._used else own
            self._used.add(made[axis])
            slot.line(f"{made[axis]} = {text}")
        return made[axis]

    def data(self, entry: DataEntry) -> str:
        if isinstance(entry, DataExtreme):
            return f"{self.names(entry.tensor)}.{'max' if entry.greatest else 'min'}()"
        if not entry.index:
            return self.names(entry.tensor)
        return self.read(self.names(entry.tensor), entry.index, self.shapes[entry.tensor])

    def integer(self, entry: DataEntry) -> str:
        if not isinstance(entry, MaskedEntry) or not any(map(self.lanes.dims_of, entry.forms())):
            return super().integer(entry)
        tests = [f"({self.condition(row)})" for row in entry.inside]
        self.helpers.add("inside")
        return f"inside({', '.join([self.names(entry.tensor), ' & '.join(tests), *map(self.form, entry.index)])})"

    def form(self, form: Affine, level: int = CHOICE) -> str:
        return super().form(self.lanes.image(form), level)

    def extremum(self, extremum: Extremum) -> str:
        if extremum.function == "abs" or not self.lanes.dims_of(extremum.one - extremum.other):
            return super().extremum(extremum)
        return f"np.{extremum.function}imum({self.form(extremum.one)}, {self.form(extremum.other)})"

    def index_value(self, form: Affine) -> str:
        return f"real({self.form(form)})"

    # ------------------------------------------------------------------------ reads

    def load(self, node: Load) -> str:
        if node.array in self.bare:
            return self.names(node.array)
        return self.read(self.names(node.array), [self.lanes.image(f) for f in node.index], self.shapes[node.array])

    def name(self, name: str) -> str:
        home = self.homes.get(name)
        text = self.names(name)
        if home is None or not home.varies or self.is_here(home):
            return text
        entries, extents = self.entries(home)
        return self.read(text, entries, extents)

    def is_here(self, home: Home) -> bool:
        """Whether values from ``home`` broadcast with the current lanes as they are."""
        count = len(home.lanes.dims)
        return count <= len(self.lanes.dims) and self.lanes.dims[len(self.lanes.dims) - count :] == home.lanes.dims

    def entries(self, home: Home) -> tuple[list[Entry], list[Affine]]:
        """Where the current lanes find their values in an array made at ``home``, and the array's extents."""
        entries: list[Entry] = []
        extents: list[Affine] = []
        for dim, wanted in walk_dims(home.lanes.dims, home.varies):
            if not wanted:
                entries.append(Affine.of(0))
                extents.append(Affine.of(1))
            elif isinstance(dim, Span):
                image = self.lanes.image(Affine.variable(dim.axis))
                entries.append(quotient(image - dim.low, dim.step))
                extents.append(dim.length)
            else:
                entries.append(self._picked_entry(dim))
                extents.append(Affine.of(-1))
        return entries, extents

    def _picked_entry(self, dim: Picked) -> Entry:
        if dim in self.lanes.dims:
            return dim
        found = next(d for d in self.lanes.dims if isinstance(d, Picked) and dim in d.positions)
        trailing = self.lanes.trailing(found)
        return found.positions[dim] + new_axes(trailing)

    def read(self, name: str, entries: Sequence[Entry], extents: Sequence[Affine]) -> str:
        """The text of a read: slices where every index runs along one dimension, a view, or index arrays."""
        text = self.part(name, entries, extents)
        return text or f"{name}[{', '.join(self.entry_text(entry) for entry in entries)}]"

    def part(self, name: str, entries: Sequence[Entry], extents: Sequence[Affine], options: str = "") -> str | None:
        """The text of entries as an array in the same memory, by slices or a view; None where it takes index arrays.

        ``options`` are further arguments of ``view``.
        """
        if not entries:
            return f"{name}[()]"
        slices = self.slices(entries, extents)
        if slices is None:
            return self._view(name, entries, options)
        texts, dims = slices
        return self.in_order(name, dims, texts)

    def in_order(self, name: str, dims: Sequence[Dim], texts: list[str] | None = None) -> str:
        """An array, or the slices ``texts`` of it, whose axes are ``dims``, with its axes as the lanes stand."""
        texts = [":"] * len(dims) if texts is None else texts
        order = [self.lanes.dims.index(dim) for dim in dims]
        if order != sorted(order):
            text = name + self._brackets(texts)
            text += ".T" if len(order) == 2 else f".transpose({', '.join(map(str, _ranks(order)))})"
            texts, name = [":"] * len(order), text
        return name + self._brackets(self._with_new_axes(texts, sorted(order)))

    def _brackets(self, texts: list[str]) -> str:
        return "" if all(t == ":" for t in texts) else f"[{', '.join(texts)}]"

    def _with_new_axes(self, texts: list[str], order: list[int]) -> list[str]:
        """The slices with ``None`` for the dimensions between and behind those that are read."""
        missing = [n for n in range(order[0], len(self.lanes.dims)) if n not in order] if order else []
        result: list[str] = []
        place = iter(order)
        current = None
        for text in texts:
            if ":" in text:
                current = next(place)
                while missing and missing[0] < current:
                    result.append("None")
                    missing.pop(0)
            result.append(text)
        return result + ["None"] * len(missing)

    def is_part(self, load: Load) -> bool:
        """Whether a read needs no copy, as by slices or a view."""
        images = [self.lanes.image(form) for form in load.index]
        return self.slices(images, self.shapes[load.array]) is not None or self._steps(images) is not None

    def _steps(self, entries: Sequence[Entry]) -> tuple[list[Affine], dict[Dim, list[int]]] | None:
        """The first index of a read, and how it rises along each dimension; None where that is not regular."""
        axes = [self.lanes.axes_in(entry) if isinstance(entry, Affine) else [] for entry in entries]
        used = frozenset(self.lanes.dim(axis) for found in axes for axis in found)
        steps: dict[Dim, list[int]] = {dim: [] for dim, _ in walk_dims(self.lanes.dims, used)}
        starts: list[Affine] = []
        for entry in entries:
            if not isinstance(entry, Affine):
                return None
            for dim, column in steps.items():
                each = 0 if dim not in used else rise(entry, dim) if isinstance(dim, Span) else None
                if each is None:
                    return None
                column.append(each)
            starts.append(entry.substitute({dim.axis: dim.low for dim in steps if isinstance(dim, Span)}))
        return starts, steps

    def _view(self, name: str, entries: Sequence[Entry], options: str) -> str | None:
        """A read along several dimensions at once without a copy, of a window or a diagonal; None where it is none."""
        found = self._steps(entries)
        if found is None:
            return None
        starts, steps = found
        # Along each dimension that the indices hold, though they may not rise there: who picks entries counts on it.
        used = {
            self.lanes.dim(axis) for entry in entries if isinstance(entry, Affine) for axis in self.lanes.axes_in(entry)
        }
        lengths = [self.length(dim) if dim in used else "1" for dim in steps]
        texts = [[self.form(start) for start in starts], lengths, *([str(n) for n in c] for c in steps.values())]
        self.helpers.add("view")
        return f"view({', '.join([name, *map(tuple_text, texts)])}{options})"

    def length(self, dim: Dim) -> str:
        """The length of a dimension as text."""
        return self.form(dim.length) if isinstance(dim, Span) else dim.size_text

    def slices(self, entries: Sequence[Entry], extents: Sequence[Affine]) -> tuple[list[str], list[Dim]] | None:
        """The slices of a read and the dimensions along which they run; None where index arrays are needed."""
        texts: list[str] = []
        dims: list[Dim] = []
        for entry, extent in zip(entries, extents, strict=True):
            if not isinstance(entry, Affine):
                return None
            axes = self.lanes.axes_in(entry)
            if not axes:
                texts.append(self.form(entry))
                continue
            dim = self.lanes.dim(axes[0])
            text = self._slice(entry, dim, extent) if len(axes) == 1 and isinstance(dim, Span) else None
            if text is None or dim in dims:
                return None
            texts.append(text)
            dims.append(dim)
        return texts, dims

    def _slice(self, form: Affine, span: Span, extent: Affine) -> str | None:
        """``form`` along a span as a slice, where it rises by a constant from one value to the next."""
        each = rise(form, span)
        if each is None or each < 1:
            return None
        start = form.substitute({span.axis: span.low})
        if span.step > 1 and form.coefficient(span.axis) == 1 and each == span.step:
            # A slice ends by itself before a stop that is no multiple of its step away.
            stop = form.substitute({span.axis: span.stop})
            return f"{self.form(start) if start != Affine.of(0) else ''}:{self.form(stop)}:{each}"
        stop = start + each * (span.length - 1) + 1
        if each == 1 and start == Affine.of(0) and stop == extent:
            return ":"
        first = "" if start == Affine.of(0) else self.form(start)
        last = "" if each == 1 and stop == extent else self.form(stop)
        return f"{first}:{last}" + (f":{each}" if each > 1 else "")

    def entry_text(self, entry: Entry) -> str:
        """One index of a read by index arrays."""
        if isinstance(entry, Affine):
            return self.form(entry)
        if isinstance(entry, str):
            return entry
        trailing = self.lanes.trailing(entry)
        return f"np.arange({entry.size_text}){new_axes(trailing)}"

    # ------------------------------------------------------------------------ operations

    def constant(self, text: str) -> str:
        return text

    def argument(self, argument: Scalar) -> str:
        # A function of a Python number alone would be a float64 even among float32.
        return f"real({self.scalar(argument)})" if isinstance(argument, Number) else self.scalar(argument)

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
        text = super().call(function, arguments)
        if function not in NUMPY_HELPERS:
            return text
        self.helpers.add(function)
        return f"real({text})"

    def select(self, condition: Scalar, value: Scalar, otherwise: Scalar) -> tuple[str, int]:
        if not self.varies(Operation("select", (condition, value, otherwise))):
            return super().select(condition, value, otherwise)
        return f"np.where({self.scalar(condition)}, {self.argument(value)}, {self.argument(otherwise)})", ATOM

    def negation(self, argument: Scalar) -> tuple[str, int]:
        return f"np.logical_not({self.scalar(argument)})", ATOM

    def operation(self, node: Operation) -> tuple[str, int]:
        if node.function in ("and", "or"):
            # & and | bind more tightly than comparisons do.
            operator = self.operators[node.function][0]
            return operator.join(self.scalar(a, SUM) for a in node.arguments), COMPARE
        return super().operation(node)

    def integer_power(self, base: Scalar, exponent: int) -> tuple[str, int]:
        if exponent < 3 or not self.varies(base):
            return super().integer_power(base, exponent)
        self.helpers.add("power")
        return f"power({self.scalar(base)}, {exponent})", ATOM


def new_axes(count: int) -> str:
    """A subscript that puts ``count`` axes of length 1 behind the only axis of an array."""
    return f"[:{', None' * count}]" if count else ""


def rise(form: Affine, span: Span) -> int | None:
    """By how much ``form`` rises from one value of the span to the next; None where that varies."""
    total = 0
    for variable, coefficient in form.terms:
        if not isinstance(variable, Compound):
            total += coefficient * span.step if variable == span.axis else 0
        elif span.axis in variable.atoms():
            if not isinstance(variable, Quotient):
                return None
            inner = rise(variable.form, span)
            if inner is None or inner % variable.divisor:
                return None
            total += coefficient * (inner // variable.divisor)
    return total


def tuple_text(texts: Sequence[str]) -> str:
    """A tuple."""
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _ranks(order: list[int]) -> list[int]:
    """The permutation that sorts ``order``."""
    return sorted(range(len(order)), key=order.__getitem__)
