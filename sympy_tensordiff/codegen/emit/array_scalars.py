"""Scalar expressions as the text of array operations over lanes, in NumPy's names.

A value that varies along some dimensions of the lanes is an array whose axes are the dimensions from the first of
these on, with length 1 where the value does not vary; other values are NumPy scalars or Python numbers. So any two
values broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

from sympy_tensordiff.codegen.emit.array_guards import (
    SAFE_ARGUMENTS,
    SAFE_ENTRY,
    Condition,
    Conditions,
    conditions_at,
    is_nonnegative,
    is_singular,
)
from sympy_tensordiff.codegen.emit.array_lanes import SHORT_LENGTH, Lanes, Span
from sympy_tensordiff.codegen.emit.base import ScalarPrinter, split_off_sign
from sympy_tensordiff.codegen.emit.dialects import Dialect
from sympy_tensordiff.codegen.emit.forms import ATOM, CHOICE, COMPARE, SUM, FormNames, TextBlock, tuple_text
from sympy_tensordiff.codegen.emit.helpers import NUMPY_HELPERS
from sympy_tensordiff.codegen.ir.facts import Prover, as_integer_or_condition, integer_form
from sympy_tensordiff.codegen.ir.scalars import (
    INFINITY,
    External,
    IndexValue,
    Load,
    MaskedEntry,
    Name,
    Number,
    Operation,
    Scalar,
    constant,
)
from sympy_tensordiff.codegen.ir.walk import subexpressions
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint, Quotient
from sympy_tensordiff.integer.extrema import Extremum
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.products import quotient_by, times
from sympy_tensordiff.integer.rows import Rows

_INFINITE = INFINITY, Operation("neg", (INFINITY,))


class PrintingContext(NamedTuple):
    """The context in which a statement is printed as array code: its vectorised dimensions (``lanes``), the mask of
    entries whose values count, the block of text to append to, and the constraints that hold.

    ``known`` are conditions on Python integers, ``context`` conditions that hold in each lane, and ``mask`` is a
    condition on lanes: values computed where it fails are not used.
    """

    lanes: Lanes
    block: TextBlock
    known: Rows
    context: Rows
    mask: Scalar | None = None

    def child(self, head: str, known: Rows = ()) -> PrintingContext:
        """Return the context for printing in an indented block below the line ``head``, where the constraints ``known``
        hold in addition.
        """
        return self._replace(block=self.block.child(head), known=self.known + known)


class StoredValue(NamedTuple):
    """A value with a name in generated array code: ``lanes`` are the dimensions of its array, ``varies`` those along
    which its entries differ, and ``mask`` is the condition where they are valid (None: everywhere).
    """

    lanes: Lanes
    varies: frozenset[Span]
    mask: Scalar | None


class VectorPrinter(ScalarPrinter):
    """Prints a scalar expression as the text of an array expression: the array has the values of the scalar at all
    indices of the current vectorised dimensions.
    """

    operators: ClassVar[Mapping[str, tuple[str, int]]] = {
        **ScalarPrinter.operators,
        "and": (" & ", COMPARE), "or": (" | ", COMPARE),  # these bind more tightly than comparisons
    }  # fmt: skip

    def __init__(self, names: FormNames, prover: Prover, bare: frozenset[str], dialect: Dialect) -> None:
        super().__init__(names)
        self.dialect = dialect
        self.functions = dialect.functions
        self.prover = prover
        self.shapes = dict(prover.shapes)
        self.bare = bare
        self.lanes = Lanes(())
        self.frame = PrintingContext(self.lanes, TextBlock(), (), ())
        self.context: Rows = ()
        self.masks: tuple[Scalar, ...] = ()
        self.stored: dict[str, StoredValue] = {}
        self._slots: dict[tuple[Span, int], tuple[TextBlock, dict[str, str]]] = {}
        self._used: set[str] = set()
        self.stored_conditions: Mapping[str, Conditions] = {}
        """The conditions of use of arrays whose entries are `SAFE_ENTRY` elsewhere."""
        self.mask_conditions: dict[str, Conditions] = {}
        """The conditions whose conjunction a mask is, by its name; masks that depend on values are left out."""
        self.nonnegative: frozenset[str] = frozenset()
        """The names of values that are not negative."""
        self.is_index = False
        """Whether an entry of an array of integers is printed, an index."""
        self.is_base = False
        """Whether an argument of a singular function is printed that has no guard: entries out of bounds are 0.5."""

    # ------------------------------------------------------------------------ lanes

    @contextmanager
    def inside(self, frame: PrintingContext) -> Iterator[None]:
        """Context manager in which values are printed as arrays over the dimensions of ``frame``. Definitions of index
        arrays that they need are inserted in its block before all lines that the ``with`` block appends.
        """
        outer = self.lanes, self._slots, self.context, self.masks, self.frame
        slot, lanes = frame.block.slot(), frame.lanes
        new = {(dim, lanes.dims_after(dim)): (slot, dict[str, str]()) for dim in lanes.dims}
        masks = () if frame.mask is None else (frame.mask,)
        self.lanes, self._slots, self.context, self.masks = lanes, new | self._slots, frame.context, masks
        self.frame = frame
        yield
        self.lanes, self._slots, self.context, self.masks, self.frame = outer

    def varies(self, node: Scalar) -> frozenset[Span]:
        """Return the vectorised dimensions of the current array operation along which the value of the scalar ``node``
        may vary.
        """
        forms: list[Affine] = []
        for part in subexpressions(node):
            forms += [part.form] if isinstance(part, IndexValue) else part.index if isinstance(part, Load) else []
            if isinstance(part, Name) and part.name in self.stored:
                forms += [Affine.variable(dim.axis) for dim in self.stored[part.name].varies]
        return self.lanes.dims_of(*forms)

    def variable(self, name: str) -> str:
        """Return the text of the integer variable `name`. For the index of a vectorised dimension, it is the name of an
        array with all values of the index; for other variables, their name.
        """
        return self.index_array(name) if self.lanes.has(name) else super().variable(name)

    def index_array(self, axis: str) -> str:
        """Return the name of an array with all values of the index `axis`, in a shape that broadcasts. It is defined
        first if it is new.
        """
        dim = self.lanes.dim(axis)
        trailing = self.lanes.dims_after(dim)
        slot, made = self._slots[dim, trailing]
        if axis not in made:
            start = "" if dim.low == Affine.of(0) else f"{self.form(dim.low)}, "
            tail = f"[:{', None' * trailing}]" if trailing else ""
            own = self.names(axis)
            made[axis] = self.names.fresh(axis) if own in self._used else own
            self._used.add(made[axis])
            slot.line(f"{made[axis]} = {self.dialect.arange}({start}{self.form(dim.stop)}){tail}")
        return made[axis]

    # ------------------------------------------------------------------------ integers

    def data(self, entry: IndirectIndex) -> str:
        """Return the text of `entry`, an entry of an integer array that is used as an index. If its own index varies
        along a vectorised dimension, the text is an array of the values.
        """
        if not entry.index:
            return self.names(entry.tensor)
        self.is_index, outer = True, self.is_index
        text = self.read_text(entry.tensor, entry.index)
        self.is_index = outer
        return text

    def integer(self, entry: IndirectIndex) -> str:
        """Return the text of `entry`, an entry of an integer array, as an integer; a masked entry is 0 where its
        constraints fail.
        """
        if not isinstance(entry, MaskedEntry) or not any(map(self.is_array, entry.forms())):
            return super().integer(entry)
        tests = " & ".join(f"({self.condition(row)})" for row in entry.inside)
        array, index = self.names(entry.tensor), ", ".join(map(self.form, entry.index))
        if not any(self.is_array(row.form) for row in entry.inside):  # PyTorch selects by tensors only
            return f"(nearest({array}, {index}) if {tests} else 0)"
        return f"inside({array}, {tests}, {index})"

    def form(self, form: Affine, level: int = CHOICE) -> str:
        """Return the text of the integer form `form`, in parentheses if its precedence is below ``level``. An index of
        a vectorised dimension is printed as the array of its values.
        """
        return super().form(self.lanes.image(form), level)

    def extremum(self, extremum: Extremum) -> str:
        """Return the maximum or minimum of two integers, or of index arrays, as text."""
        if extremum.function == "abs" or not self.is_array(extremum.one - extremum.other):
            return super().extremum(extremum)
        function = self.dialect.extrema.format(extremum.function)
        return f"{function}({self.form(extremum.one)}, {self.form(extremum.other)})"

    # ------------------------------------------------------------------------ reads

    def load(self, node: Load) -> str:
        """Return the text of the read `node`: an array of its values at all indices of the current dimensions. The read
        of an array without axes (its name is in ``bare``) is just the name.
        """
        return self.names(node.array) if node.array in self.bare else self.read_text(node.array, node.index)

    def name(self, name: str) -> str:
        """Return the Python text of the value `name`. For an array, it has new axes of length 1 for the current
        dimensions that the array lacks, so that it broadcasts.
        """
        home, text = self.stored.get(name), self.names(name)
        if home is None or not home.varies:
            return text
        count = len(home.lanes.dims)
        if home.lanes.dims == self.lanes.dims[len(self.lanes.dims) - count :]:
            return text
        return self.view_text(text, *self.indices_into(home))

    def indices_into(self, home: StoredValue) -> tuple[list[Affine], list[Affine]]:
        """Return ``(index, shape)`` for a read of the named array ``home`` inside of the current loops: one index for
        each of its axes, in terms of the current dimensions, and the lengths of the axes. An axis along which the
        values are equal has the index 0 and the length 1.
        """
        entries, extents = [], []
        for dim, wanted in home.lanes.dims_from_first(home.varies):
            image = self.lanes.image(Affine.variable(dim.axis)) - dim.low
            entries.append(image if wanted else Affine.of(0))
            extents.append(dim.length if wanted else Affine.of(1))
        return entries, extents

    def read_text(self, array: str, index: Sequence[Affine]) -> str:
        """Return the text of a read of ``array`` at ``index``, if possible as a slice or view. A read under a mask that
        may be out of bounds gets the nearest entry or 0 there; the mask discards this value.
        """
        if self._outside(array, index):
            if self.dialect.is_pure and (text := self._part_text(array, index)):
                return text
            if all(self.prover.proves(Constraint("ge", extent - 1)) for extent in self.shapes[array]):
                texts, name = self.index_arrays(array, index), self.names(array)
                chosen = [bool(self.dialect.selection) and self._is_chosen_by_data(form) for form in index]
                if any(chosen):
                    places = [text if one else "None" for text, one in zip(texts, chosen, strict=True)]
                    name = f"{self.dialect.selection}({', '.join([name, *places])})"
                    texts = [text for text, one in zip(texts, chosen, strict=True) if not one]
                return name + (f"[{', '.join(texts)}]" if texts else "")
            return f"nearest({', '.join([self.names(array), *map(self.form, index)])})"
        return self.view_text(self.names(array), [self.lanes.image(form) for form in index], self.shapes[array])

    def _part_text(self, array: str, index: Sequence[Affine]) -> str:
        """Return the text ``part(x, (start, length), ...)`` for reading a slice of ``array`` that may extend beyond its
        ends: the function ``part`` pads it there. Return "" if ``index`` does not select a slice.
        """
        spans, texts, dims = [], [], list[Span]()
        for form in map(self.lanes.image, index):
            own = self.lanes.dims_of(form)
            if data_entries([form]) or len(own) > 1 or any(dim in dims or slope_along(form, dim) != 1 for dim in own):
                return ""
            dims += own
            start = form.substitute({dim.axis: dim.low for dim in own})
            (length,) = [self.form(dim.length) for dim in own] or ["1"]
            spans.append(f"({self.form(start)}, {length})")
            texts.append(":" if own else "0")
        spans += ["outside=0.5"] if self.is_base else []
        return self.in_lane_order(f"part({', '.join([self.names(array), *spans])})", dims, texts) if dims else ""

    def index_arrays(self, array: str, index: Sequence[Affine]) -> list[str]:
        """Return the texts of the indices of a read, one for each axis of `array`. If the read is masked, indices that
        may be out of bounds are clipped to the bounds.
        """
        texts = [self.form(form) for form in index]
        for axis, row in self._outside(array, index):
            function, end = "min", self.form(self.shapes[array][axis] - 1)
            if row.form == index[axis]:
                function, end = "max", "0"
            if self.is_array(index[axis]):
                function = self.dialect.extrema.format(function)
            texts[axis] = f"{function}({texts[axis]}, {end})"
        return texts

    def is_array(self, form: Affine) -> bool:
        """Return whether the text of an integer form is an array of the library, and not a Python integer: it contains
        the index of a dimension or, in a pure dialect, entries of integer arrays.
        """
        return bool(self.lanes.dims_of(form)) or (self.dialect.is_pure and bool(data_entries([form])))

    def _outside(self, array: str, index: Sequence[Affine]) -> list[tuple[int, Constraint]]:
        """Return ``(axis, constraint)`` for each bound that a masked read of `array` at `index` may violate; [] if no
        mask is set, or if the read is known to be in bounds.
        """
        load = Load(array, tuple(index))
        return self.prover.unproved_bounds(load, self.context) if self.masks else []

    def is_view(self, load: Load) -> bool:
        """Return whether the read ``load`` can be printed as a slice or view of its array, so that no entries are
        copied.
        """
        return self._strides([self.lanes.image(form) for form in load.index]) is not None

    def view_text(self, name: str, index: Sequence[Affine], extents: Sequence[Affine], options: str = "") -> str:
        """Return the text of the entries at ``index`` of the array ``name``, whose axes have the lengths ``extents``: a
        slice or view of the memory if possible, else a read with index arrays. ``options`` are further arguments of
        ``view``.
        """
        if self.dialect.selection and any(map(self._is_chosen_by_data, index)):
            places = [self.form(form) if self._is_chosen_by_data(form) else "None" for form in index]
            rest = [n for n, form in enumerate(index) if not self._is_chosen_by_data(form)]
            name = f"{self.dialect.selection}({', '.join([name, *places])})"
            return self.view_text(name, [index[n] for n in rest], [extents[n] for n in rest], options)
        steps = self._strides(index)
        if steps is None and not options and (shifts := self._periodic_shifts(index, extents)):
            plain = [Affine.variable(shifts[n][0].axis) if n in shifts else form for n, form in enumerate(index)]
            amounts = [self.form(-amount) for _, amount in shifts.values()]
            axes = [str(-1 - self.lanes.dims_after(dim)) for dim, _ in shifts.values()]
            where = ", ".join(values[0] if len(shifts) == 1 else tuple_text(values) for values in (amounts, axes))
            return f"np.roll({self.view_text(name, plain, extents)}, {where})"
        if steps is None and self.dialect.is_pure and (text := self._rows_text(name, index, extents)) is not None:
            return text
        if not index and self.dialect.is_pure:
            return name
        if not index or steps is None:
            return f"{name}[{', '.join(map(self.form, index)) or '()'}]"
        used = self.lanes.dims_of(*index)
        starts = [form.substitute({dim.axis: dim.low for dim in used}) for form in index]
        along = [[dim for dim in steps if dim.axis in form.atoms()] for form in index]
        dims = [dim for found in along for dim in found]
        rises = [steps[found[0]][axis] if found else 1 for axis, found in enumerate(along)]
        is_sliced = len(set(dims)) == len(dims) and all(len(found) < 2 for found in along)
        if is_sliced and (min(rises) > 0 or self.dialect.is_pure):
            texts = []
            for start, step, found, extent in zip(starts, rises, along, extents, strict=True):
                least = start + step * (found[0].length - 1) if step < 0 else start
                texts.append(self.slice_text(least, abs(step), found[0], extent) if found else self.form(start))
            turned = [n for n, dim in enumerate(dims) if min(steps[dim]) < 0]
            if turned:
                name, texts = f"np.flip({name}{subscript(texts)}, {tuple_text(map(str, turned))})", [":"] * len(dims)
            elif self.dialect.is_fused and not self.is_index:
                name, texts = self._components_first(name, along, extents, texts)
            return self.in_lane_order(name, dims, texts)
        if self.dialect.is_pure:
            return f"{name}[{', '.join(map(self.form, index))}]"
        # One axis for each dimension in the indices, also with stride 0: the indices of stored values rely on it.
        lengths = [self.form(dim.length) if dim in used else "1" for dim in steps]
        rows = [map(self.form, starts), lengths, *(map(str, column) for column in steps.values())]
        return f"view({', '.join([name, *map(tuple_text, rows)])}{options})"

    def _components_first(
        self, name: str, along: Sequence[Sequence[Span]], extents: Sequence[Affine], texts: list[str]
    ) -> tuple[str, list[str]]:
        """Return ``(array text, subscripts)`` of a read of the array ``name``, transposed so that the axes that are
        read at a single index come first: ``x.T[0]`` for ``x[:, 0]``. Return both unchanged if one of these axes is not
        short.

        ``along`` has the vectorised dimensions of each axis (empty at a single index), ``extents`` the axis lengths,
        ``texts`` the subscripts.

        A compiler of sums copies a strided slice entry by entry: norms of vectors took four times as long.
        """
        single = [n for n, found in enumerate(along) if not found]
        order = single + [n for n, found in enumerate(along) if found]
        is_short = all(extents[n].is_constant and 1 < extents[n].constant <= SHORT_LENGTH for n in single)
        if not is_short or order == sorted(order):
            return name, texts
        if len(order) == len(single) + 1 and order[-1] == 0:
            return f"{name}.T", texts[::-1]
        return f"{name}.{self.dialect.transpose}({', '.join(map(str, order))})", [texts[n] for n in order]

    def _periodic_shifts(self, index: Sequence[Affine], extents: Sequence[Affine]) -> dict[int, tuple[Span, Affine]]:
        """Return ``{axis: (dimension, c)}`` for the axes along which a read at `index` wraps around, as ``x[(i + c) %
        n]`` does for all i. Such a read is printed as a roll of the axis by c.

        ``extents`` are the lengths of the array's axes.
        """
        found: dict[int, tuple[Span, Affine]] = {}
        for axis, (form, extent) in enumerate(zip(index, extents, strict=True)):
            dims = self.lanes.dims_of(form)
            others = self.lanes.dims_of(*(other for n, other in enumerate(index) if n != axis))
            if len(dims) != 1 or dims & others or not form.compounds():
                continue
            (dim,) = dims
            place = Affine({v: c for v, c in form.terms if not isinstance(v, Compound)}, form.constant)
            is_whole = dim.low == Affine.of(0) and dim.stop == extent and place.coefficient(dim.axis) == 1
            if is_whole and form == place - times(extent, quotient_by(place, extent)):
                found[axis] = dim, place - Affine.variable(dim.axis)
        return found

    def _rows_text(self, name: str, index: Sequence[Affine], extents: Sequence[Affine]) -> str | None:
        """Return the text of a read such as ``x[rows, :]``: a slice along each axis whose index increases with a
        dimension of its own, and index arrays along the others.

        None if no axis has a slice, or if those with index arrays are not adjacent. ``extents`` are the lengths of the
        axes.
        """
        axes = [self.lanes.dims_of(form) for form in index]
        alone = [
            n
            for n, (form, dims) in enumerate(zip(index, axes, strict=True))
            if len(dims) == 1 and not any(dims & other for m, other in enumerate(axes) if m != n)
            if (slope_along(form, *dims) or 0) > 0 and not data_entries([form])
        ]
        chosen = [n for n in range(len(index)) if n not in alone]
        if not alone or chosen != list(range(chosen[0], chosen[-1] + 1)):
            return None
        own = [dim for dim in self.lanes.dims if any(dim in axes[n] for n in chosen)]
        lanes = self.lanes
        with self.inside(self.frame._replace(lanes=Lanes(tuple(own), lanes.images))):
            arrays = {n: self.form(index[n]) for n in chosen}
        texts, dims = [], list[Span]()
        for n, form in enumerate(index):
            if n in alone:
                (dim,) = axes[n]
                step = slope_along(form, dim)
                assert step is not None
                texts.append(self.slice_text(form.substitute({dim.axis: dim.low}), step, dim, extents[n]))
                dims.append(dim)
            else:
                texts.append(arrays[n])
                dims += own if n == chosen[0] else []
        return self.in_lane_order(f"{name}[{', '.join(texts)}]", dims, [":"] * len(dims))

    def target_text(self, name: str, index: Sequence[Affine], extents: Sequence[Affine], block: TextBlock) -> str:
        """Return the Python text of the entries at ``index`` of the array ``name``, as the target of an assignment. If
        Python cannot assign to this expression, first give the view a name in ``block``, and return this name.

        ``extents`` are the lengths of the array's axes.
        """
        part = self.view_text(name, index, extents, ", write=True")
        is_transposed = ".T" in part or ".transpose(" in part
        if self._strides(index) is None or not (is_transposed or part.startswith("view(")):
            return part
        entries = self.names.fresh("entries")
        block.line(f"{entries} = {part}")
        return entries

    def slice_text(self, start: Affine, step: int, dim: Span, extent: Affine) -> str:
        """Return a slice like ``2:n:3`` of an axis of the length ``extent``: it begins at ``start`` and has the stride
        ``step`` and one entry per value of ``dim``.
        """
        stop = start + step * (dim.length - 1) + 1
        if step == 1 and start == Affine.of(0) and stop == extent:
            return ":"
        first = "" if start == Affine.of(0) else self.form(start)
        last = "" if step == 1 and stop == extent else self.form(stop)
        return f"{first}:{last}" + (f":{step}" if step > 1 else "")

    def in_lane_order(self, name: str, dims: Sequence[Span], texts: Sequence[str]) -> str:
        """Return the text of the read ``name[texts]``, whose axes run over the dimensions `dims`, transposed to
        broadcast against the current vectorised dimensions. A dimension that is not in `dims` gets an axis of length 1,
        written ``None``.
        """
        order = [self.lanes.dims.index(dim) for dim in dims]
        texts = list(texts)
        if order != sorted(order):
            ranks = sorted(range(len(order)), key=order.__getitem__)
            name += subscript(texts) + (
                ".T" if len(order) == 2 else f".{self.dialect.transpose}({', '.join(map(str, ranks))})"
            )
            texts, order = [":"] * len(order), sorted(order)
        result: list[str] = []
        place = iter(order)
        expected = order[0] if order else 0
        for text in texts:
            if ":" in text:
                current = next(place)
                result += ["None"] * (current - expected)
                expected = current + 1
            result.append(text)
        return name + subscript(result + ["None"] * (len(self.lanes.dims) - expected if order else 0))

    def _is_moved_by_data(self, form: Affine) -> bool:
        """Return whether the index `form` is the sum of a vectorised index and an entry of an integer tensor. It cannot
        be a slice: JAX does not allow traced values as the ends of slices.
        """
        return bool(self.lanes.dims_of(form)) and bool(data_entries([form]))

    def _is_chosen_by_data(self, form: Affine) -> bool:
        """Return whether the index `form` contains entries of integer arrays, but no index of a vectorised dimension,
        so that it is one number.
        """
        return bool(data_entries([form])) and not self.lanes.dims_of(form)

    def _strides(self, index: Sequence[Affine]) -> dict[Span, list[int]] | None:
        """Return for each vectorised dimension a list of steps, one for each form in `index`: how much the form grows
        from one value of the dimension to the next. None if a step is not constant.

        None, too, in a dialect without assignments to arrays, if an index is moved by data.
        """
        used = self.lanes.dims_of(*index)
        steps: dict[Span, list[int]] = {}
        for dim, is_used in self.lanes.dims_from_first(used):
            column = [slope_along(form, dim) if is_used else 0 for form in index]
            if None in column or (self.dialect.is_pure and any(map(self._is_moved_by_data, index))):
                return None
            steps[dim] = [step for step in column if step is not None]
        return steps

    # ------------------------------------------------------------------------ operations

    def operation(self, node: Operation) -> tuple[str, int]:
        """Return the array-library text of an operation and its precedence."""
        if node.function == "guarded":
            return self._guarded_text(*node.arguments)
        if self.masks and self.dialect.is_differentiated:
            node = self._with_guards(node)
        if node.function == "not":
            return f"{self.dialect.negation}({self.scalar(node.arguments[0])})", ATOM
        return super().operation(node)

    def _with_guards(self, node: Operation) -> Operation:
        """Return `node`, a product or function call, with finite derivatives also where a mask is false: an argument at
        which a derivative may be infinite, such as ``x`` in ``1/x``, is replaced there by a safe number.

        A library that differentiates ``where(mask, 1/x, 0)`` multiplies the derivative of ``1/x`` by 0, which is nan at
        ``x = 0``.
        """
        if node.function == "mul":
            factors = [self._with_guards(one) if isinstance(one, Operation) else one for one in node.arguments]
            return Operation("mul", tuple(factors))
        if not is_singular(node, self.nonnegative) or not self._is_array_value(node.arguments[0]):
            return node
        first, *rest = node.arguments
        if isinstance(first, Operation) and (
            first.function == "guarded" or (first.function in ("pow", "sqrt") and is_singular(first, self.nonnegative))
        ):
            return node  # a guarded root or power is not 0
        safe = constant(SAFE_ARGUMENTS[str(node.function)])
        return Operation(node.function, (Operation("guarded", (first, safe)), *rest))

    def _guarded_text(self, value: Scalar, safe: Scalar) -> tuple[str, int]:
        """Return ``(text, precedence)`` of ``np.where(mask, value, safe)``, which is ``value`` where all current masks
        are true, else the number ``safe``. A mask is left out if ``value`` is safe without it.
        """
        masks, texts = self.masks, list[str]()
        needed = [not self.is_safe_without(mask, value, safe) for mask in masks]
        for number, mask in enumerate(masks):
            if needed[number] and self._is_array_value(mask) and self.varies(mask) <= self.varies(value):
                self.masks = masks[:number]
                texts.append(self.scalar(mask, SUM))
        self.masks = masks
        self.is_base = not all(needed)
        text, level = (self.argument(value), ATOM) if texts else self._scalar(value)
        self.is_base = False
        if not texts:
            return text, level
        return f"np.where({' & '.join(dict.fromkeys(texts))}, {text}, {self.choice_of(safe, value)})", ATOM

    def _is_array_value(self, node: Scalar) -> bool:
        """Return whether `node` is an array or a number computed from arrays, not a number or condition of Python."""
        return bool(self.varies(node)) or not (may_be_static(node) or as_integer_or_condition(node) is not None)

    def add_mask(self, name: str, conditions: Iterable[Condition], outer: Scalar | None) -> None:
        """Record the conditions under which the mask `name` is true: all `conditions`, and those recorded for the mask
        ``outer``, if it is not None. Record nothing if ``outer`` is not the name of a recorded mask.
        """
        if outer is None:
            self.mask_conditions[name] = frozenset(conditions)
        elif isinstance(outer, Name) and outer.name in self.mask_conditions:
            self.mask_conditions[name] = frozenset(conditions) | self.mask_conditions[outer.name]

    def is_safe_without(self, mask: Scalar, value: Scalar, safe: Scalar) -> bool:
        """Return whether `value` is safe to read even where `mask` is false, so that no replacement by `safe` is
        needed: it is an entry of an array that provably contains the number `safe` there.
        """
        if not isinstance(value, Load) or value.array not in self.stored_conditions or safe != SAFE_ENTRY:
            return False
        wanted = self.mask_conditions.get(mask.name) if isinstance(mask, Name) else None
        if wanted is None or (
            self._outside(value.array, value.index) and not self._part_text(value.array, value.index)
        ):
            return False
        known = conditions_at(self.stored_conditions[value.array], value.index)
        rows = (*self.context, *(one for one in known if isinstance(one, Constraint)))
        return all(one in known or (isinstance(one, Constraint) and self.prover.proves(one, rows)) for one in wanted)

    def constant(self, text: str) -> str:
        """Return the text of a constant unchanged: Python numbers take the type of arrays."""
        return text

    def argument(self, argument: Scalar, level: int = CHOICE) -> str:
        """Return an argument of a function as text, in parentheses if it binds less tightly than ``level``; a constant
        is converted to the type of the results.
        """
        # A function of a Python number alone would be a float64 even among float32.
        is_constant = isinstance(argument, Number) or (self.dialect.is_pure and argument in _INFINITE)
        return f"real({self.scalar(argument)})" if is_constant else self.scalar(argument, level)

    def choice_of(self, value: Scalar, other: Scalar) -> str:
        """Return the text of `value`, one of the two alternatives of a call of ``np.where``; ``other`` is the other
        alternative. A number is converted to the type of the results, unless ``other`` is an array of this type.
        """
        is_number = isinstance(value, Number) or value in _INFINITE
        if (
            is_number
            and self.dialect.is_differentiated
            and self.varies(other)
            and as_integer_or_condition(other) is None
        ):
            return self.scalar(value)
        return self.argument(value)

    def _sum(self, arguments: tuple[Scalar, ...]) -> str:
        """Return the text of the sum of ``arguments``; negated terms are subtracted, and are not the first ones: ``b -
        a`` is one operation less than ``-a + b``.
        """
        signs = [split_off_sign(argument)[0] for argument in arguments]
        if self.dialect.is_pure and signs[0] and not all(signs):
            first = signs.index(False)
            arguments = (arguments[first], *arguments[:first], *arguments[first + 1 :])
        return super()._sum(arguments)

    def _product(self, node: Scalar) -> tuple[str, int]:
        """Return the text and the precedence of a product, with the factors of fewer dimensions first, so that few
        operations are made on large arrays.
        """
        negative, rest = split_off_sign(node)
        if self.dialect.is_pure and isinstance(rest, Operation) and rest.function == "mul":
            factors = sorted(map(_with_root_below, rest.arguments), key=lambda factor: len(self.varies(factor)))
            rest = Operation("mul", tuple(factors))
            return super()._product(Operation("neg", (rest,)) if negative else rest)
        return super()._product(node)

    def _comparison(self, function: str, left: Scalar, right: Scalar) -> tuple[str, int]:
        """Return the text of a comparison and its precedence. In array libraries, the terms of ``==`` and ``!=``
        between integers are moved to the side where they are positive, so that no arrays are subtracted.
        """
        a, b = integer_form(left), integer_form(right)
        if function not in ("eq", "ne") or a is None or b is None or not self.dialect.is_pure:
            return super()._comparison(function, left, right)
        text = self.condition(Constraint("eq", a - b))
        return text if function == "eq" else text.replace(" == ", " != "), COMPARE

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
        """Return the text of the call of `function` with ``arguments``; a user function is called only at entries that
        are not masked.
        """
        if isinstance(function, External) and self.masks and not self.dialect.is_pure:
            mask = " & ".join(self.scalar(mask, SUM) for mask in dict.fromkeys(self.masks))
            texts = [self.names.functions[function], mask, *map(self.argument, arguments)]
            return f"real(called({', '.join(texts)}))"
        if function == "spherical_bessel" and self.dialect.is_pure and isinstance(arguments[0], Number):
            return f"spherical_bessel({arguments[0].value}, {self.argument(arguments[1])})"
        if function == "max" and self.dialect.positive_part and Number(0) in arguments and len(arguments) == 2:
            (other,) = (argument for argument in arguments if argument != Number(0))
            return f"{self.dialect.positive_part}({self.argument(other)})"
        text = super().call(function, arguments)
        return f"real({text})" if function in NUMPY_HELPERS and not self.dialect.is_pure else text

    def _may_be_root_of_0(self, base: Scalar) -> bool:
        """Return whether `base` is a sum of squares that may be 0: then its root has the derivative 0. False if a mask
        excludes 0.
        """
        if isinstance(base, Operation) and base.function == "guarded":
            base = base.arguments[0]
        if not is_nonnegative(base, self.nonnegative) or not is_singular(Operation("sqrt", (base,)), self.nonnegative):
            return False
        return not any(mask == Operation("ne", (base, Number(0))) for mask in self.masks)

    def select(self, condition: Scalar, value: Scalar, otherwise: Scalar) -> tuple[str, int]:
        """Return ``(text, precedence)`` of a choice: ``np.where(condition, value, otherwise)`` if the condition differs
        between entries, else a conditional expression.
        """
        varies = self.varies(Operation("select", (condition, value, otherwise)))
        if not varies and (not self.dialect.is_pure or is_static(condition)):
            # A Python number would raise an error where it is divided by 0.
            first, second = self.scalar(condition, CHOICE + 1), self.argument(value, CHOICE + 1)
            return self.choice.format(first, second, self.argument(otherwise)), CHOICE
        texts, outer = [], self.masks
        fails = Operation("not", (condition,))
        for branch, other, mask in ((value, otherwise, condition), (otherwise, value, fails)):
            self.masks = (*outer, mask)
            texts.append(self.choice_of(branch, other))
        self.masks = outer
        test = self.scalar(condition)
        if not self.varies(condition) and may_be_static(condition):
            test = self.dialect.condition.format(test)
        return f"np.where({test}, {', '.join(texts)})", ATOM

    def power(self, base: Scalar, exponent: Scalar) -> tuple[str, int]:
        """Return the text of the power ``base**exponent`` and its precedence. The square root of a sum of squares is a
        call of the helper ``root`` in a library that differentiates the text.
        """
        if exponent == constant(0.5) and self.dialect.is_differentiated and self._may_be_root_of_0(base):
            return f"root({self.argument(base)})", ATOM
        if exponent == constant(-0.5):  # without the helper: its derivatives are infinite at 0
            base, exponent = Operation("sqrt", (base,)), Number(-1)
        return super().power(base, exponent)

    def integer_power(self, base: Scalar, exponent: int) -> tuple[str, int]:
        """Return ``(text, precedence)`` of ``base**exponent``. The text calls the helper ``power``, which multiplies,
        if ``base`` is an array and ``exponent`` at least 3; otherwise it uses ``**``.
        """
        if exponent < 3 or not self.varies(base):
            return super().integer_power(base, exponent)
        return f"power({self.scalar(base)}, {exponent})", ATOM


def _with_root_below(factor: Scalar) -> Scalar:
    """Return ``1/sqrt(x)`` for ``x**(-1/2)``, whose derivatives are infinite at 0, and other factors unchanged."""
    if isinstance(factor, Operation) and factor.function == "pow" and factor.arguments[1] == constant(-0.5):
        return Operation("pow", (Operation("sqrt", factor.arguments[:1]), Number(-1)))
    return factor


def is_static(condition: Scalar) -> bool:
    """Return whether integers alone decide `condition`, as in ``i < n``, so that it can be tested before the array
    operations. A condition on array values cannot.
    """
    parts = [part for part in subexpressions(condition) if isinstance(part, IndexValue)]
    return as_integer_or_condition(condition) is not None and not data_entries(part.form for part in parts)


def may_be_static(condition: Scalar) -> bool:
    """Return whether the generated text of `condition` may be a Python bool rather than an array of booleans: it
    consists of conditions on integers and of names.
    """
    if isinstance(condition, Operation) and condition.function in ("and", "or", "not"):
        return all(map(may_be_static, condition.arguments))
    return isinstance(condition, Name) or is_static(condition)


def slope_along(form: Affine, span: Span) -> int | None:
    """Return by how much ``form`` grows from one value of ``span`` to the next; None if that is not a constant."""
    total = 0
    for variable, coefficient in form.terms:
        if not isinstance(variable, Compound):
            total += coefficient if variable == span.axis else 0
        elif span.axis in variable.atoms():
            if not isinstance(variable, Quotient):
                return None
            inner = slope_along(variable.form, span)
            if inner is None or inner % variable.divisor:
                return None
            total += coefficient * (inner // variable.divisor)
    return total


def subscript(texts: Sequence[str]) -> str:
    """Return the slices ``texts`` in brackets, without trailing ``:``; "" if all of them are ``:``."""
    texts = list(texts)
    while texts and texts[-1] == ":":
        texts.pop()
    return f"[{', '.join(texts)}]" if texts else ""
