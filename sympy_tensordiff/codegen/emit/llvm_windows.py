"""Correlations (convolutions) in LLVM modules: tasks, whose blocks of sums stay in registers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from sympy_tensordiff.codegen.emit.llvm import Module
from sympy_tensordiff.codegen.emit.llvm_copies import task_count
from sympy_tensordiff.codegen.emit.llvm_elementary import real_text
from sympy_tensordiff.codegen.emit.llvm_nests import LlvmNestPrinter
from sympy_tensordiff.codegen.emit.llvm_products import HIGH, LOW
from sympy_tensordiff.codegen.ir.programs import Correlation
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.schedule.correlations import ROWS, Tiling, length, own_axis
from sympy_tensordiff.integer.affine import Affine


class LlvmCorrelationPrinter(LlvmNestPrinter):
    """Prints the LLVM function that computes some blocks of the result of a correlation, such as a convolution. The
    right operand is read from a copy in which the axis along which vector instructions run is contiguous.

    ``is_wide``: vectors have 64 bytes.
    """

    def print_correlation(self, step: Correlation, tiles: Tiling, copy: Load, is_wide: bool) -> None:
        """Emit the LLVM instructions that compute the correlation ``step`` in the blocks that ``tiles`` describes, with
        vectors of 64 bytes if ``is_wide``, else of 32. ``copy`` is the read of the copied right operand, without the
        last index, which runs along the vectors.
        """
        self.step, self.tiles, self.extents = step, tiles, dict(step.labels)
        self.symbol = tile_function(self.module, is_wide)
        lane_out, block = own_axis(step.output, tiles.lanes), own_axis(step.output, tiles.rows)
        assert lane_out is not None
        self.block = block if block in tiles.tasks else None
        axes, out = range(len(step.output.index)), self.shapes[step.array]
        self.free = [axis for axis in axes if axis != lane_out and (axis not in tiles.tasks or axis == self.block)]
        self.lanes = self.form(self.shapes[copy.array][-1])
        lengths = [Affine.of(ROWS) if axis == self.block else out[axis] for axis in self.free]
        self.allocate("sums", [*lengths, self.shapes[copy.array][-1]])
        own = Load("sums", tuple([step.output.index[axis] for axis in self.free]))
        self.places = {axis: f"place {axis}" for axis in axes}
        size = self.times(self.entries(self.shapes["sums"]), str(self.module.size))
        self.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
        with self.loop(self.parameter(LOW, "i"), self.parameter(HIGH, "i")) as turn:
            for axis in reversed(tiles.tasks):
                count = self.form(task_count(out[axis], axis == self.block))
                place = self.new(f"srem i64 {turn}, {count}")
                turn = self.new(f"sdiv i64 {turn}, {count}")
                self.values[self.places[axis]] = self.times(place, str(ROWS)) if axis == self.block else place
            self.line(f"call void @llvm.memset.p0.i64(ptr {self.arrays['sums']}, i8 0, i64 {size}, i1 false)")
            with ExitStack() as inner:
                self.enter_loops(inner)
                self.call_tile(own, tiles.left, copy)
            self.print_store(out, lane_out)

    def enter_loops(self, stack: ExitStack) -> None:
        """Emit the heads of the loops around the block product (`call_tile`), over all indices outside of the block
        that the current parallel task does not fix, longest first. If an index is solved for, the loops over the
        indices in its equation come first, then a test that its value is a valid integer. Closing ``stack`` ends the
        loops.
        """
        tiles, output = self.tiles, self.step.output
        known = {tiles.lanes, tiles.rows, tiles.terms, tiles.solved}
        for label in self.extents:
            axis = own_axis(output, label)
            if axis in tiles.tasks:
                known.add(label)
                self.values[label] = self.values[self.places[axis]]
        left = sorted((v for v in self.extents if v not in known), key=lambda v: -length(self.extents[v]))
        first = [] if tiles.solved is None else [v for v in left if v in output.index[tiles.tasks[-1]].atoms()]

        def enter(labels: Sequence[str], step: int = 1) -> None:
            """Emit the beginning of a loop over each of ``labels``, in steps of ``step``, and put it on the enclosing
            function's ``stack``, which ends the loops.
            """
            for label in labels:
                self.values[label] = stack.enter_context(self.loop("0", self.form(self.extents[label]), step))

        enter(first)
        if tiles.solved is not None:
            axis, label = tiles.tasks[-1], tiles.solved
            form = output.index[axis]
            factor = form.coefficient(label)
            rest = Affine.variable(self.places[axis]) - (form - factor * Affine.variable(label))
            value = self.form(rest if factor > 0 else -rest)
            whole = self.divided(value, str(abs(factor)))
            tests = [f"sge i64 {whole}, 0", f"slt i64 {whole}, {self.form(self.extents[label])}"]
            tests += [f"eq i64 {self.times(whole, str(abs(factor)))}, {value}"] if abs(factor) > 1 else []
            stack.enter_context(self.when(*(partial(self.new, f"icmp {test}") for test in tests)))
            self.values[label] = whole
        enter([v for v in left if v not in first])
        enter([] if self.block is not None else [tiles.rows], ROWS)

    def call_tile(self, own: Load, left: Load, right: Load) -> None:
        """Emit a call of the function that computes ``c += a @ b`` for small blocks of matrices. The reads ``own``,
        ``left`` and ``right`` say at which array entries the blocks c (the sums), a and b begin.
        """
        tiles = self.tiles
        zero = {label: Affine() for label in (tiles.lanes, tiles.terms)}
        # Where a task has one block of rows, those of its sums begin with it.
        first = [Affine() if axis == self.block else form for axis, form in zip(self.free, own.index, strict=True)]

        def offset(view: Load, forms: Sequence[Affine]) -> str:
            """Emit the offset of the entry at the indices ``forms`` in the array that ``view`` reads, with 0 for
            missing last indices, and return its value.
            """
            total, shape = "0", self.shapes[view.array]
            for form, extent in zip(forms, shape, strict=False):
                total = self.add(self.times(total, self.form(extent)), self.form(form))
            return self.times(total, self.form(shape[-1])) if len(shape) > len(forms) else total

        def start(view: Load, forms: Sequence[Affine]) -> str:
            """Emit the address of the entry with the indices ``forms`` in the array of ``view``, at the start of a
            block (loop variables are replaced by ``zero``), and return the pointer.
            """
            return self.pointer_at(self.base(view.array), offset(view, [form.substitute(zero) for form in forms]))

        def emit_stride(view: Load, label: str) -> str:
            """Emit the stride of the index ``label`` in the read ``view``, the distance in memory (in entries) by which
            the read moves if the index grows by 1, and return its value.
            """
            return offset(view, [Affine.of(form.coefficient(label)) for form in view.index])

        left_rows = self.new(f"sub nsw i64 {self.form(self.extents[tiles.rows])}, {self.values[tiles.rows]}")
        numbers = [
            emit_stride(own, tiles.rows),
            emit_stride(left, tiles.rows),
            emit_stride(left, tiles.terms),
            emit_stride(right, tiles.terms),
        ]
        numbers += [self.greatest([str(ROWS), left_rows], "smin"), self.lanes, self.form(self.extents[tiles.terms])]
        pointers = start(own, first), start(left, left.index), start(right, right.index)
        rows, lanes, terms = numbers[4:]
        self.check_block(own.array, pointers[0], (rows, numbers[0]), (lanes, "1"))
        self.check_block(left.array, pointers[1], (rows, numbers[1]), (terms, numbers[2]))
        self.check_block(right.array, pointers[2], (terms, numbers[3]), (lanes, "1"))
        passed = [f"ptr {p}" for p in pointers] + [f"i64 {n}" for n in numbers]
        self.line(f"call void @{self.symbol}({', '.join(passed)})")

    def print_store(self, out: Sequence[Affine], lane_out: int) -> None:
        """Emit loops that copy the sums of one task to the result, multiplied by the step's constant factor. ``out`` is
        the shape of the result, ``lane_out`` the axis along which its vectors of entries were computed.
        """
        real, index, places = self.module.real, dict(self.places), dict(self.places)
        with ExitStack() as stack:
            for axis, name in self.places.items():
                if axis == self.block:
                    low = self.values[name]
                    stop = self.greatest([self.add(low, str(ROWS)), self.form(out[axis])], "smin")
                    places[axis], index[axis] = "row of result", "row of sums"
                    self.values[places[axis]] = row = stack.enter_context(self.loop(low, stop))
                    self.values[index[axis]] = self.new(f"sub nsw i64 {row}, {low}")
                elif axis not in self.tiles.tasks:
                    self.values[name] = stack.enter_context(self.loop("0", self.form(out[axis])))
            source = self.entry_pointer("sums", [Affine.variable(index[axis]) for axis in (*self.free, lane_out)])
            value = self.new(f"load {real}, ptr {source}")
            if self.step.factor != 1:
                value = self.new(f"fmul contract nsz {real} {value}, {real_text(float(self.step.factor), real)}")
            target = self.entry_pointer(self.step.array, [Affine.variable(name) for name in places.values()])
            self.line(f"store {real} {value}, ptr {target}")


def tile_function(module: Module, is_wide: bool) -> str:
    """Define in ``module`` the LLVM function that computes ``c += a @ b`` for small blocks of matrices, unless it is
    defined already, and return its symbol. It uses vector registers of 64 bytes if ``is_wide``, else of 32.
    """
    name = "tile"
    if name in module.functions:
        return name
    real, size = module.real, (64 if is_wide else 32) // module.size
    vector, fma = f"<{size} x {real}>", f"llvm.fmuladd.v{size}f{8 * module.size}"
    module.declare(fma, vector, [vector] * 3)
    b = _TileBuilder(module, vector, size, fma)
    b.print(2 if is_wide else 1)
    names = ["ptr %c", "ptr %a", "ptr %b", *(f"i64 %{n}" for n in ("cr", "ar", "at", "bt", "rows", "lanes", "terms"))]
    head = f"define internal void @{name}({', '.join(names)}) noinline {{"
    return module.define(name, "\n".join([head, "entry:", *b.slots, *b.lines, "  ret void", "}"]))


class _TileBuilder(LlvmNestPrinter):
    """Emits the LLVM function that adds a product ``a @ b`` of a few rows to a block ``c`` of an array, with the sums
    in vector registers.
    """

    def __init__(self, module: Module, vector: str, size: int, fma: str) -> None:
        super().__init__(module, {}, frozenset(), frozenset())
        self.vector, self.size, self.fma = vector, size, fma

    def print(self, width: int) -> None:
        """Emit the loops over the columns of the tile: in blocks of ``width`` vectors as long as there are enough
        columns, then in single vectors.
        """
        last = self.add("%rows", "-1")
        # Missing rows repeat the last one, and are not written.
        chosen = [self.greatest([str(m), last], "smin") for m in range(ROWS)]
        firsts = [self.pointer_at("%a", self.times(m, "%ar")) for m in chosen]
        pairs = self.divided("%lanes", str(width * self.size))
        with self.loop("0", pairs) as number:
            self.lanes(self.times(number, str(width * self.size)), width, firsts)
        if width > 1:
            lane = self.times(pairs, str(width * self.size))
            with self.when(lambda: self.new(f"icmp slt i64 {lane}, %lanes")):
                self.lanes(lane, 1, firsts)

    def lanes(self, lane: str, width: int, firsts: Sequence[str]) -> None:
        """Emit code for one block of the product: ``c += a @ b`` for `ROWS` rows of ``a``, which begin at the pointers
        ``firsts``, and ``width`` vectors of columns from the column ``lane`` on.
        """
        real, vector, align = self.module.real, self.vector, self.module.size
        start = self.pointer_at("%b", lane)
        sums = [[self.slot(vector) for _ in range(width)] for _ in range(ROWS)]
        for place in [one for row in sums for one in row]:
            self.line(f"store {vector} zeroinitializer, ptr {place}")
        with self.loop("0", "%terms") as t:
            base = self.times(t, "%bt")
            right = []
            for v in range(width):
                place = self.pointer_at(start, self.add(base, str(v * self.size)))
                right.append(self.new(f"load {vector}, ptr {place}, align {align}"))
            for m in range(ROWS):
                value = self.new(f"load {real}, ptr {self.pointer_at(firsts[m], self.times(t, '%at'))}")
                one = self.new(f"insertelement {vector} poison, {real} {value}, i64 0")
                every = f"<{self.size} x i32> zeroinitializer"
                left = self.new(f"shufflevector {vector} {one}, {vector} poison, {every}")
                for v in range(width):
                    total = self.new(f"load {vector}, ptr {sums[m][v]}")
                    total = self.call(vector, self.fma, [left, right[v], total], vector)
                    self.line(f"store {vector} {total}, ptr {sums[m][v]}")
        for m in range(ROWS):
            with self.when(partial(self.new, f"icmp slt i64 {m}, %rows")):
                row = self.pointer_at("%c", self.add(lane, self.times(str(m), "%cr")))
                for v in range(width):
                    place = self.pointer_at(row, str(v * self.size))
                    before = self.new(f"load {vector}, ptr {place}, align {align}")
                    total = self.new(f"load {vector}, ptr {sums[m][v]}")
                    self.line(
                        f"store {vector} {self.new(f'fadd {vector} {before}, {total}')}, ptr {place}, align {align}"
                    )
