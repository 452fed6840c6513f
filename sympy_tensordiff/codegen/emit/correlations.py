"""Correlations (convolutions) as functions for Numba: tasks, each of which fills a part of the result block by block.

The operand with the vectorised axis (the lanes) is copied, its lanes last and padded with zeros to whole vectors. The
sums of a task have an array of their own, with lanes of the same length. The other operand is read in place, and the
sums are copied in the order of the result at the end of a task. No sum is divided between tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.emit.base import signed_text
from sympy_tensordiff.codegen.emit.driver import head_text, passed_names
from sympy_tensordiff.codegen.emit.forms import PRODUCT, UNARY, FormNames, FormPrinter, TextBlock, tuple_text
from sympy_tensordiff.codegen.ir.programs import Correlation
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import function_name
from sympy_tensordiff.codegen.schedule.correlations import ROWS, Tiling, length, own_axis, tiling
from sympy_tensordiff.integer.affine import Affine


def task_name(step: Correlation) -> str:
    """Return the name of the function that computes one part of the result of the correlation ``step`` (a task)."""
    return f"{function_name(step)}_part"


def correlation_texts(step: Correlation, names: FormNames, shapes: Shapes, is_parallel: bool) -> tuple[str, str]:
    """Return the texts of two functions for the correlation ``step``: the first computes one task, a part of the
    result, the second runs all tasks, on several cores if ``is_parallel``. ``shapes`` maps arrays to shapes; ``names``
    maps names of the program to identifiers.
    """
    found = tiling(step, shapes)
    assert found is not None
    printer = _TiledCorrelation(step, found, names.copy(), is_parallel)
    return printer.task_function(), printer.entry_function()


class _TiledCorrelation:
    """Prints a correlation that is cut into tiles: the function of a task, which computes a part of the result, and the
    function that runs all tasks.
    """

    def __init__(self, step: Correlation, tiles: Tiling, names: FormNames, is_parallel: bool) -> None:
        self.step = step
        self.tiles = tiles
        self.target = names(step.array)
        self.extents = dict(step.labels)
        self.names = names
        self.is_parallel = is_parallel
        lane = own_axis(tiles.right, tiles.lanes)
        out = own_axis(step.output, tiles.lanes)
        assert lane is not None and out is not None
        self.lane, self.lane_out = lane, out
        block = own_axis(step.output, tiles.rows)
        self.block = block if block in tiles.tasks else None
        """The axis of the result along which a task has one block of rows; None if a task has all rows."""
        self.copy = names.fresh(f"{tiles.right.array}_lanes")
        # The summed axis comes right before the lanes: a block reads them one after the other.
        others = [axis for axis in range(len(tiles.right.index)) if axis != lane]
        self.order = sorted(others, key=lambda axis: tiles.terms in tiles.right.index[axis].atoms())
        axes = range(len(step.output.index))
        self.free = [axis for axis in axes if axis != out and (axis not in tiles.tasks or axis == self.block)]
        self.places = {axis: names.fresh("pqrstuvwxyz"[axis % 11]) for axis in axes}
        plain = {label: own_axis(step.output, label) for label in self.extents}
        self.texts = {
            label: self.places[axis] if axis is not None and axis in tiles.tasks else names.fresh(label)
            for label, axis in plain.items()
        }
        self.printer = FormPrinter(names, self.texts)

    @property
    def task_parameters(self) -> str:
        """The parameters of the function of a task, as text: the parameters of the step, the copy of the right operand,
        and for each axis of the result that is divided into tasks, the index at which the task begins.
        """
        places = [self.places[axis] for axis in self.tiles.tasks]
        return ", ".join([*passed_names(self.step, self.names), self.copy, *places])

    # ------------------------------------------------------------------------ the whole

    def entry_function(self) -> str:
        """Return the Python text of the function of the step. It copies the right operand to an array with the axis of
        vector instructions last, and then runs all tasks.
        """
        right = self.names(self.tiles.right.array)
        text = TextBlock()
        lines = text.child(head_text(self.step, passed_names(self.step, self.names)))
        target, left, other = (f"{v.array}[{', '.join(map(self.printer.form, v.index))}]" for v in self.step.views)
        lines.line(f'"""Add {left}*{other} to {target}."""')
        counts = "prange" if self.is_parallel else "range"
        lanes = self.names.fresh("lanes")
        lines.line(f"{lanes} = -(-{right}.shape[{self.lane}]*{right}.itemsize//{BYTES})*{BYTES}//{right}.itemsize")
        shape = ", ".join(f"{right}.shape[{axis}]" for axis in self.order)
        lines.line(f"{self.copy} = np.zeros(({shape}, {lanes}), {right}.dtype)")
        indices = {axis: self.names.fresh(f"n{axis}") for axis in (*self.order, self.lane)}
        inner = lines
        for axis, index in indices.items():
            inner = inner.child(f"for {index} in {counts if inner is lines else 'range'}({right}.shape[{axis}]):")
        source = ", ".join(indices[axis] for axis in sorted(indices))
        inner.line(f"{self.copy}[{', '.join(indices.values())}] = {right}[{source}]")
        self.tasks(lines, counts)
        return "\n".join(text.render())

    def tasks(self, lines: TextBlock, counts: str) -> None:
        """Append to ``lines`` the loop over all tasks, the parts of the correlation; ``counts`` is ``range``, or
        ``prange`` for a parallel loop.
        """
        tasks = self.tiles.tasks
        numbers = {axis: self.names.fresh(f"tasks{axis}") for axis in tasks}
        for axis in tasks:
            extent = f"{self.target}.shape[{axis}]"
            lines.line(f"{numbers[axis]} = {f'({extent} + {ROWS - 1})//{ROWS}' if axis == self.block else extent}")
        if tasks:
            turn = self.names.fresh("turn")
            lines = lines.child(f"for {turn} in {counts}({'*'.join(numbers.values())}):")
        for n, axis in enumerate(tasks):
            behind = "*".join(numbers[other] for other in tasks[n + 1 :])
            place = f"{turn}//({behind})" if behind else turn
            place += f" % {numbers[axis]}" if n else ""
            scale = f"*{ROWS}" if axis == self.block else ""
            lines.line(f"{self.places[axis]} = {f'({place}){scale}' if scale else place}")
        lines.line(f"{task_name(self.step)}({self.task_parameters})")

    # ------------------------------------------------------------------------ one task

    def task_function(self) -> str:
        """Return the text of the function that computes one task (a part of the result) of a correlation."""
        text = TextBlock()
        lines = text.child(f"def {task_name(self.step)}({self.task_parameters}):")
        places = ", ".join(self.places[axis] for axis in self.tiles.tasks)
        lines.line(f'"""Fill {self.target}{f" at {places}" if places else ""}."""')
        sums = self.names.fresh("sums")
        lengths = [str(ROWS) if axis == self.block else f"{self.target}.shape[{axis}]" for axis in self.free]
        lengths.append(f"{self.copy}.shape[{len(self.order)}]")
        lines.line(f"{sums} = np.zeros({tuple_text(lengths)}, {self.target}.dtype)")
        left, copy = self.tiles.left, Load(self.copy, tuple([self.tiles.right.index[axis] for axis in self.order]))
        own = Load(sums, tuple([self.step.output.index[axis] for axis in self.free]))
        strides = {
            view.array: self.strides(lines, array, len(view.index))
            for view, array in ((left, self.names(left.array)), (copy, self.copy), (own, sums))
        }
        self.loops(lines).line(self.tile(own, left, copy, strides))
        self.store(lines, sums)
        return "\n".join(text.render())

    def strides(self, lines: TextBlock, array: str, count: int) -> list[str]:
        """Append a line that assigns the strides of the first ``count`` axes of an array, in entries rather than bytes,
        to new variables; return their names.
        """
        found = [self.names.fresh(f"{array}_{axis}") for axis in range(count)]
        if found:
            values = [f"{array}.strides[{axis}]//{array}.itemsize" for axis in range(count)]
            lines.line(f"{', '.join(found)} = {', '.join(values)}")
        return found

    def loops(self, lines: TextBlock) -> TextBlock:
        """Append to ``lines`` the loops of one task around the tiles, which are small matrix products: over the indices
        that are determined neither by the task nor in the tile. Return the block of lines inside of the innermost loop.

        Longer loops are further outside; only those on which a solved index depends come before. Without
        ``self.block``, the innermost loop runs over blocks of rows.
        """
        tiles, output = self.tiles, self.step.output
        known = {tiles.lanes, tiles.rows, tiles.terms, tiles.solved}
        known.update(label for label in self.extents if own_axis(output, label) in tiles.tasks)
        left = sorted((v for v in self.extents if v not in known), key=lambda v: -length(self.extents[v]))
        first = [] if tiles.solved is None else [v for v in left if v in output.index[tiles.tasks[-1]].atoms()]
        for label in first:
            lines = lines.child(f"for {self.texts[label]} in range({self.extent(label)}):")
        if tiles.solved is not None:
            lines = self.solve(lines, tiles.solved)
        for label in [v for v in left if v not in first]:
            lines = lines.child(f"for {self.texts[label]} in range({self.extent(label)}):")
        if self.block is None:
            lines = lines.child(f"for {self.texts[tiles.rows]} in range(0, {self.extent(tiles.rows)}, {ROWS}):")
        return lines

    def solve(self, lines: TextBlock, solved: str) -> TextBlock:
        """Append code to ``lines`` that computes the loop index ``solved`` from the index of a result entry: if that is
        ``i + k``, then ``k`` is that index minus ``i``. Return the block for code that runs only if the result is in
        range.
        """
        axis = self.tiles.tasks[-1]
        form, text, place = self.step.output.index[axis], self.texts[solved], self.places[axis]
        factor = form.coefficient(solved)
        rest = Affine.variable(place) - (form - factor * Affine.variable(solved))
        value = FormPrinter(self.names, {**self.texts, place: place}).form(rest if factor > 0 else -rest)
        test = f"0 <= {text} < {self.extent(solved)}"
        if abs(factor) == 1:
            lines.line(f"{text} = {value}")
        else:
            over = self.names.fresh("over")
            lines.line(f"{text}, {over} = divmod({value}, {abs(factor)})")
            test = f"{over} == 0 and {test}"
        return lines.child(f"if {test}:")

    def tile(self, own: Load, left: Load, right: Load, strides: dict[str, list[str]]) -> str:
        """Return the text of the call that computes one tile: it multiplies a block of ``left`` by a block of ``right``
        and adds the product to a block of ``own``, the array with the sums of a task.

        ``strides`` maps the names of arrays to the texts of their strides.
        """
        tiles = self.tiles
        zero = {label: Affine() for label in (tiles.lanes, tiles.terms)}
        # Where a task has one block of rows, those of its sums begin with it.
        first = [Affine() if axis == self.block else form for axis, form in zip(self.free, own.index, strict=True)]

        def place(view: Load) -> str:
            """Return the text of the memory offset at which a tile begins in the array that `view` reads: that of the
            entry that is read when the loop variables within the tile are 0.
            """
            return self.total([form.substitute(zero) for form in view.index], strides[view.array])

        def stride_text(view: Load, label: str) -> str:
            """Return the text of the stride of the loop index ``label`` in the array that `view` reads: the change of
            the memory offset when the index grows by 1.
            """
            return self.total([Affine.of(form.coefficient(label)) for form in view.index], strides[view.array])

        rows = f"min({ROWS}, {self.extent(tiles.rows, UNARY)} - {self.texts[tiles.rows]})"
        lanes = f"{right.array}.shape[{len(right.index)}]"
        arguments = [own.array, place(Load(own.array, tuple(first))), stride_text(own, tiles.rows)]
        arguments += [
            self.names(left.array),
            place(left),
            stride_text(left, tiles.rows),
            stride_text(left, tiles.terms),
        ]
        arguments += [right.array, place(right), stride_text(right, tiles.terms)]
        return f"add_tile({', '.join([*arguments, rows, lanes, self.extent(tiles.terms)])})"

    def total(self, forms: Sequence[Affine], strides: Sequence[str]) -> str:
        """Return the text of ``form*stride + form*stride + ...``, the offset of the entry at the index ``forms`` in an
        array with these ``strides``.
        """
        terms = []
        for form, stride in zip(forms, strides, strict=True):
            if form != Affine.of(0):
                terms.append(stride if form == Affine.of(1) else f"{self.printer.form(form, PRODUCT + 1)}*{stride}")
        return " + ".join(terms) or "0"

    def extent(self, label: str, level: int = 0) -> str:
        """Return the extent of ``label`` as text, in parentheses if needed next to an operator of the precedence
        ``level``.
        """
        return self.printer.form(self.extents[label], level)

    def store(self, lines: TextBlock, sums: str) -> None:
        """Append loops to ``lines`` that copy the array `sums`, in which a task has computed its part of the result, to
        the result itself, multiplied by the factor of the step.
        """
        places, index = dict(self.places), dict(self.places)
        for axis in places:
            place, stop = places[axis], f"{self.target}.shape[{axis}]"
            if axis == self.block:
                places[axis] = self.names.fresh("row")
                index[axis] = f"{places[axis]} - {place}"
                lines = lines.child(f"for {places[axis]} in range({place}, min({place} + {ROWS}, {stop})):")
            elif axis not in self.tiles.tasks:
                lines = lines.child(f"for {place} in range({stop}):")
        value = f"{sums}[{', '.join(index[axis] for axis in (*self.free, self.lane_out))}]"
        if self.step.factor != 1:
            value += f"*{self.target}.dtype.type({signed_text(self.step.factor)})"
        lines.line(f"{self.target}[{', '.join(places.values())}] = {value}")


# ---------------------------------------------------------------------------- the innermost block
# The innermost block of a sum of products, whose sums stay in registers, as text for Numba's modules.
#
# Numba vectorises a loop whose sums are in memory, or one sum along a loop, but not several sums in several vector
# registers, which load each number once for many products. So this block is built as LLVM IR, with the widest vectors
# of the processor. The Python function before it shows what it computes.


BYTES = 64
"""The bytes of the longest vector: lanes are padded to a multiple of it."""

TILE_NAMES = (
    "add_tile",
    "compiled_tile",
    "tile_in_registers",
    "binding",
    "ir",
    "cgutils",
    "intrinsic",
    "overload",
    "types",
)

TILE = '''\
def add_tile(c, ci, cr, a, ai, ar, at, b, bi, bt, rows, lanes, terms):
    """Add sums of products to rows of ``c``, of which lanes lie side by side: ``c[row, :] += a[row, t]*b[t, :]``.

    Each array is given with a place in it, then the distances of rows and of terms, in numbers. Of the ROWS rows of
    a block at least one is wanted; lanes fill vectors of BYTES bytes.
    """
    c, a, b = c.reshape(-1), a.reshape(-1), b.reshape(-1)
    for row in range(rows):
        place = ci + row*cr
        for t in range(terms):
            c[place:place + lanes] += a[ai + row*ar + t*at]*b[bi + t*bt:bi + t*bt + lanes]


@intrinsic
def tile_in_registers(typing, c, ci, cr, a, ai, ar, at, b, bi, bt, rows, lanes, terms):
    """The same in vectors: sums of ROWS rows, in two vectors each where there are as many registers."""
    n = types.int64
    signature = types.void(c, n, n, a, n, n, n, b, n, n, n, n, n)

    def generate(context, builder, signature, values):
        ci, cr, ai, ar, at, bi, bt, rows, lanes, terms = (values[m] for m in (1, 2, 4, 5, 6, 8, 9, 10, 11, 12))
        integer, real = ir.IntType(64), context.get_data_type(c.dtype)
        is_wide = binding.get_host_cpu_features().get("avx512f", False)
        size = (64 if is_wide else 32)//context.get_abi_sizeof(real)
        vector, short = ir.VectorType(real, size), ir.IntType(32)
        name = f"llvm.fmuladd.v{size}{'f32' if c.dtype == types.float32 else 'f64'}"
        fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector]*3), name)
        zero, none = ir.Constant(vector, None), ir.Constant(vector, ir.Undefined)
        every = ir.Constant(ir.VectorType(short, size), [0]*size)

        def number(value):
            return ir.Constant(integer, value)

        def start(place, array, offset):
            return builder.gep(context.make_array(array)(context, builder, values[place]).data, [offset])

        def pointer(base, offset):
            return builder.bitcast(builder.gep(base, [offset]), vector.as_pointer())

        def load(place):
            value = builder.load(place)
            value.align = context.get_abi_sizeof(real)
            return value

        c0, a0, b0 = start(0, c, ci), start(3, a, ai), start(7, b, bi)
        last = builder.sub(rows, number(1))
        # Rows that are not there repeat the last one, and are not written.
        chosen = [builder.select(builder.icmp_signed("<", number(m), rows), number(m), last) for m in range(ROWS)]
        firsts = [builder.gep(a0, [builder.mul(m, ar)]) for m in chosen]

        def block(lane, width):
            before = builder.block
            inside, after = builder.append_basic_block("terms"), builder.append_basic_block("sums")
            builder.cbranch(builder.icmp_signed("<", number(0), terms), inside, after)
            builder.position_at_end(inside)
            t = builder.phi(integer)
            sums = [[builder.phi(vector) for _ in range(width)] for _ in range(ROWS)]
            base = builder.add(lane, builder.mul(t, bt))
            right = [load(pointer(b0, builder.add(base, number(v*size)))) for v in range(width)]
            totals = []
            for m in range(ROWS):
                left = builder.load(builder.gep(firsts[m], [builder.mul(t, at)]))
                left = builder.shuffle_vector(builder.insert_element(none, left, ir.Constant(short, 0)), none, every)
                totals.append([builder.call(fma, [left, right[v], sums[m][v]]) for v in range(width)])
            following = builder.add(t, number(1))
            builder.cbranch(builder.icmp_signed("<", following, terms), inside, after)
            t.add_incoming(number(0), before)
            t.add_incoming(following, inside)
            builder.position_at_end(after)
            results = [[builder.phi(vector) for _ in range(width)] for _ in range(ROWS)]
            for m in range(ROWS):
                for v in range(width):
                    for phi in (sums[m][v], results[m][v]):
                        phi.add_incoming(zero, before)
                        phi.add_incoming(totals[m][v], inside)
            for m in range(ROWS):
                with builder.if_then(builder.icmp_signed("<", number(m), rows)):
                    row = builder.add(lane, builder.mul(number(m), cr))
                    for v in range(width):
                        place = pointer(c0, builder.add(row, number(v*size)))
                        builder.store(builder.fadd(load(place), results[m][v]), place).align = (
                            context.get_abi_sizeof(real)
                        )

        width = 2 if is_wide else 1
        pairs = builder.sdiv(lanes, number(width*size))
        with cgutils.for_range(builder, pairs, intp=integer) as loop:
            block(builder.mul(loop.index, number(width*size)), width)
        if width > 1:
            lane = builder.mul(pairs, number(width*size))
            with builder.if_then(builder.icmp_signed("<", lane, lanes)):
                block(lane, 1)
        return context.get_dummy_value()

    return signature, generate


@overload(add_tile)
def compiled_tile(c, ci, cr, a, ai, ar, at, b, bi, bt, rows, lanes, terms):
    """What takes the place of ``add_tile`` in compiled code."""
    def tile(c, ci, cr, a, ai, ar, at, b, bi, bt, rows, lanes, terms):
        tile_in_registers(c, ci, cr, a, ai, ar, at, b, bi, bt, rows, lanes, terms)
    return tile'''.replace("ROWS", str(ROWS)).replace("BYTES", str(BYTES))
