"""Products of matrices in the language of LLVM: calls of BLAS, and the block of a convolution in registers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial, reduce

from sympy_tensordiff.codegen.emit.correlations import BYTES
from sympy_tensordiff.codegen.emit.library import Matrices, as_matrices
from sympy_tensordiff.codegen.emit.llvm import Module, NestPrinter, real_text
from sympy_tensordiff.codegen.ir.programs import BLOCK, Contraction, Correlation, Operand, Trapezoid
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.steps import Shapes, extents
from sympy_tensordiff.codegen.schedule.correlations import ROWS, length, own_axis, tiling
from sympy_tensordiff.integer.affine import Affine

BLAS = ("gemm", "gemv", "dot")
"""What is called of BLAS, by the names in SciPy's table, which begin with d or s."""

TOO_LARGE = 1
"""The code of a product that BLAS cannot count."""

MULTIPLY = """\
define internal i32 @multiply(ptr %c, ptr %a, i64 %a.step, i1 %a.turned, ptr %b, i64 %b.step, i1 %b.turned, \
i64 %rows, i64 %columns, i64 %terms, {real} %factor) noinline {{
; fill c with a factor times a product of matrices; a vector has -1 rows or columns
entry:
  %m = alloca i32
  %n = alloca i32
  %k = alloca i32
  %lda = alloca i32
  %ldb = alloca i32
  %ldc = alloca i32
  %alpha = alloca {real}
  %beta = alloca {real}
  %one = alloca i32
  %ta = alloca i8
  %tb = alloca i8
  %s0 = icmp sgt i64 %rows, 2147483647
  %s1 = icmp sgt i64 %columns, 2147483647
  %s2 = icmp sgt i64 %terms, 2147483647
  %s3 = or i1 %s0, %s1
  %s4 = or i1 %s3, %s2
  br i1 %s4, label %large, label %small
large:
  ret i32 {code}
small:
  %r = call i64 @llvm.abs.i64(i64 %rows, i1 false)
  %q = call i64 @llvm.abs.i64(i64 %columns, i1 false)
  %some = icmp sgt i64 %terms, 0
  br i1 %some, label %start, label %empty
empty:
  %count = mul i64 %r, %q
  %bytes = mul i64 %count, {size}
  call void @llvm.memset.p0.i64(ptr %c, i8 0, i64 %bytes, i1 false)
  ret i32 0
start:
  %r32 = trunc i64 %r to i32
  %q32 = trunc i64 %q to i32
  %k32 = trunc i64 %terms to i32
  %a.least = call i64 @llvm.smax.i64(i64 %a.step, i64 1)
  %b.least = call i64 @llvm.smax.i64(i64 %b.step, i64 1)
  %a32 = trunc i64 %a.least to i32
  %b32 = trunc i64 %b.least to i32
  store {real} %factor, ptr %alpha
  store {real} 0.0, ptr %beta
  store i32 1, ptr %one
  store i32 %a32, ptr %lda
  store i32 %b32, ptr %ldb
  store i32 %q32, ptr %ldc
  %no.rows = icmp slt i64 %rows, 0
  %no.columns = icmp slt i64 %columns, 0
  br i1 %no.rows, label %row, label %several
row:
  br i1 %no.columns, label %inner, label %left
inner:
  store i32 %k32, ptr %k
  %product = call {real} @blas_{x}dot(ptr %k, ptr %a, ptr %one, ptr %b, ptr %one)
  %scaled = fmul {real} %product, %factor
  store {real} %scaled, ptr %c
  ret i32 0
left:
  %l0 = select i1 %b.turned, i32 %k32, i32 %q32
  %l1 = select i1 %b.turned, i32 %q32, i32 %k32
  %l2 = select i1 %b.turned, i8 116, i8 110
  store i32 %l0, ptr %m
  store i32 %l1, ptr %n
  store i8 %l2, ptr %ta
  call void @blas_{x}gemv(ptr %ta, ptr %m, ptr %n, ptr %alpha, ptr %b, ptr %ldb, ptr %a, ptr %one, ptr %beta, ptr %c, \
ptr %one)
  ret i32 0
several:
  br i1 %no.columns, label %right, label %both
right:
  %r0 = select i1 %a.turned, i32 %r32, i32 %k32
  %r1 = select i1 %a.turned, i32 %k32, i32 %r32
  %r2 = select i1 %a.turned, i8 110, i8 116
  store i32 %r0, ptr %m
  store i32 %r1, ptr %n
  store i8 %r2, ptr %ta
  call void @blas_{x}gemv(ptr %ta, ptr %m, ptr %n, ptr %alpha, ptr %a, ptr %lda, ptr %b, ptr %one, ptr %beta, ptr %c, \
ptr %one)
  ret i32 0
both:
  %m0 = select i1 %b.turned, i8 116, i8 110
  %m1 = select i1 %a.turned, i8 116, i8 110
  store i8 %m0, ptr %tb
  store i8 %m1, ptr %ta
  store i32 %q32, ptr %m
  store i32 %r32, ptr %n
  store i32 %k32, ptr %k
  call void @blas_{x}gemm(ptr %tb, ptr %ta, ptr %m, ptr %n, ptr %k, ptr %alpha, ptr %b, ptr %ldb, ptr %a, ptr %lda, \
ptr %beta, ptr %c, ptr %ldc)
  ret i32 0
}}"""
"""A product as BLAS sees it: all matrices are transposed, since it takes columns to lie one after the other."""


def multiply(module: Module) -> str:
    """The symbol of the function that multiplies matrices."""
    x = "d" if module.real == "double" else "s"
    module.declare("llvm.abs.i64", "i64", ["i64", "i1"])
    module.declare("llvm.smax.i64", "i64", ["i64", "i64"])
    module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
    for name, result, count in (("gemm", "void", 13), ("gemv", "void", 11), ("dot", module.real, 5)):
        module.declare(f"blas_{x}{name}", result, ["ptr"] * count)
    return module.define("multiply", MULTIPLY.format(real=module.real, x=x, code=TOO_LARGE, size=module.size))


class ProductPrinter(NestPrinter):
    """The function of a contraction, of one over a trapezoid, or of a correlation."""

    def contraction(self, step: Contraction | Trapezoid, shapes: Shapes) -> None:
        """The instructions of a product of matrices."""
        self.step, self.extents = step, extents(step, shapes)
        out, found = list(step.output), as_matrices(step)
        if isinstance(step, Trapezoid) and step.row not in found.rows:
            found = found.transposed()
        self.code = self.slot("i32")
        self.line(f"store i32 0, ptr {self.code}")
        first = self.operand(found.left, found.both, found.rows, found.terms)
        second = self.operand(found.right, found.both, found.terms, found.columns)
        target = self.base(step.array)
        product = target if found.order == out else self.array("product", [self.extents[v] for v in found.order])
        self.products(found, first, second, product)
        if found.order != out:
            self.copy(step.array, out, "product", found.order)

    def finished(self) -> str:
        """The text of the function of a product of matrices."""
        return self.function(f"i32 {self.new(f'load i32, ptr {self.code}')}")

    def length_of(self, labels: Sequence[int]) -> str:
        """The number of entries of some axes."""
        return reduce(self.times, [self.form(self.extents[label]) for label in labels], "1")

    def operand(
        self, operand: Operand, both: Sequence[int], rows: Sequence[int], columns: Sequence[int]
    ) -> tuple[str, bool]:
        """The pointer of an array with the groups of axes in this order, and whether the last two are exchanged."""
        labels = list(operand.labels)
        if labels == [*both, *columns, *rows] and rows and columns:
            return self.base(operand.array), True
        order = [*both, *rows, *columns]
        if labels == order:
            return self.base(operand.array), False
        name = f"{operand.array} ordered {len(self.arrays)}"
        self.array(name, [self.extents[label] for label in order])
        self.copy(name, order, operand.array, labels)
        return self.arrays[name], False

    def copy(self, target: str, axes: Sequence[int], source: str, labels: Sequence[int]) -> None:
        """Loops that copy the entries of one array into another one with other axes."""
        names = {label: f"axis {label}" for label in axes}
        with ExitStack() as stack:
            for label in axes:
                self.values[names[label]] = stack.enter_context(self.loop("0", self.form(self.extents[label])))
            places = [[Affine.variable(names[label]) for label in order] for order in (axes, labels)]
            real = self.module.real
            value = self.new(f"load {real}, ptr {self.place(source, places[1])}")
            self.line(f"store {real} {value}, ptr {self.place(target, places[0])}")

    def products(self, found: Matrices, first: tuple[str, bool], second: tuple[str, bool], out: str) -> None:
        """The products of two operands, one for each entry of the axes that both keep."""
        _, _, both, own, other, summed = found
        rows, columns, terms = (self.length_of(group) for group in (own, other, summed))
        pointers = out, first[0], second[0]
        with ExitStack() as stack:
            if both:
                place = stack.enter_context(self.loop("0", self.length_of(both)))
                sizes = [[*own, *other], [*own, *summed], [*summed, *other]]
                pairs = zip(pointers, sizes, strict=True)
                pointers = tuple(self.shifted(p, self.times(place, self.length_of(group))) for p, group in pairs)  # type: ignore[assignment]
            if isinstance(self.step, Trapezoid):
                self.blocks(self.step, found, pointers, (first[1], second[1]))
            else:
                turned = first[1], second[1]
                steps = (rows if turned[0] else terms), (terms if turned[1] else columns)
                self.multiply(pointers, steps, turned, rows if own else "-1", columns if other else "-1", terms)

    def multiply(
        self, pointers: Sequence[str], steps: Sequence[str], turned: Sequence[bool], rows: str, columns: str, terms: str
    ) -> None:
        """The call for one product; rows, columns or both are -1 where there are none."""
        out, left, right = pointers
        sides = [f"ptr {p}, i64 {s}, i1 {str(t).lower()}" for p, s, t in zip((left, right), steps, turned, strict=True)]
        numbers = ", ".join(f"i64 {value}" for value in (rows, columns, terms))
        factor = real_text(float(self.step.factor), self.module.real)
        name = multiply(self.module)
        code = self.new(f"call i32 @{name}(ptr {out}, {', '.join(sides)}, {numbers}, {self.module.real} {factor})")
        before = self.new(f"load i32, ptr {self.code}")
        self.line(f"store i32 {self.new(f'or i32 {before}, {code}')}, ptr {self.code}")

    def blocks(
        self, step: Trapezoid, found: Matrices, pointers: Sequence[str], turned: tuple[bool, bool]
    ) -> None:
        """The products of blocks of rows, each with the terms that all rows of the block have."""
        _, _, _, own, other, summed = found
        rows, columns, terms = (self.length_of(group) for group in (own, other, summed))
        out, left, right = pointers
        height, others = self.form(self.extents[step.row]), self.length_of(own[1:])
        with self.loop("0", self.divided(self.add(height, str(BLOCK - 1)), str(BLOCK))) as block:
            start = self.times(block, str(BLOCK))
            shift = self.add(start, self.form(step.shift + (BLOCK - 1 if step.is_upper else 1)))
            end = self.greatest(["0", self.greatest([terms, shift], "smin")])
            first = self.times(start, others)
            out = self.shifted(out, self.times(first, columns))
            left = self.shifted(left, first if turned[0] else self.times(first, terms))
            if step.is_upper:
                left = self.shifted(left, self.times(end, rows) if turned[0] else end)
                right = self.shifted(right, end if turned[1] else self.times(end, columns))
            count = self.new(f"sub nsw i64 {terms}, {end}") if step.is_upper else end
            left_rows = self.new(f"sub nsw i64 {height}, {start}")
            size = self.times(self.greatest([str(BLOCK), left_rows], "smin"), others)
            steps = (rows if turned[0] else terms), (terms if turned[1] else columns)
            self.multiply((out, left, right), steps, turned, size, columns if other else "-1", count)


# ---------------------------------------------------------------------------- windows


class CorrelationPrinter(NestPrinter):
    """The function of a correlation, see `correlations`. ``is_wide``: vectors have 64 bytes."""

    def correlation(self, step: Correlation, shapes: Shapes, is_wide: bool) -> None:
        """The instructions."""
        found = tiling(step, shapes)
        assert found is not None
        self.step, self.tiles, self.extents = step, found, dict(step.labels)
        self.symbol = tile(self.module, is_wide)
        real = self.module.real
        lane, lane_out = own_axis(found.right, found.lanes), own_axis(step.output, found.lanes)
        assert lane is not None and lane_out is not None
        block = own_axis(step.output, found.rows)
        self.block = block if block in found.tasks else None
        # The terms lie next to the lanes: what a block reads one after the other.
        others = [axis for axis in range(len(found.right.index)) if axis != lane]
        order = sorted(others, key=lambda axis: found.terms in found.right.index[axis].atoms())
        axes = range(len(step.output.index))
        self.free = [axis for axis in axes if axis != lane_out and (axis not in found.tasks or axis == self.block)]
        shape = shapes[found.right.array]
        width = BYTES // self.module.size
        rounded = self.divided(self.add(self.form(shape[lane]), str(width - 1)), str(width))
        self.values["lanes"] = self.times(rounded, str(width))
        lanes = Affine.variable("lanes")
        copy = Load("copy", tuple([found.right.index[axis] for axis in order]))
        self.array("copy", [*(shape[axis] for axis in order), lanes], is_zero=True)
        with ExitStack() as stack:
            names = {axis: f"n{axis} of copy" for axis in (*order, lane)}
            for axis, name in names.items():
                self.values[name] = stack.enter_context(self.loop("0", self.form(shape[axis])))
            source = [Affine.variable(names[axis]) for axis in sorted(names)]
            value = self.new(f"load {real}, ptr {self.place(found.right.array, source)}")
            target = self.place("copy", [Affine.variable(name) for name in names.values()])
            self.line(f"store {real} {value}, ptr {target}")
        out = shapes[step.array]
        lengths = [Affine.of(ROWS) if axis == self.block else out[axis] for axis in self.free]
        self.array("sums", [*lengths, lanes])
        own = Load("sums", tuple([step.output.index[axis] for axis in self.free]))
        self.place_of = {axis: f"place {axis}" for axis in axes}
        with ExitStack() as stack:
            for axis in found.tasks:
                stride = ROWS if axis == self.block else 1
                self.values[self.place_of[axis]] = stack.enter_context(self.loop("0", self.form(out[axis]), stride))
            bytes_ = self.times(self.entries(self.shapes["sums"]), str(self.module.size))
            self.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
            self.line(f"call void @llvm.memset.p0.i64(ptr {self.arrays['sums']}, i8 0, i64 {bytes_}, i1 false)")
            with ExitStack() as inner:
                self.loops(inner)
                self.tile(own, found.left, copy)
            self.store(out, lane_out)

    def loops(self, stack: ExitStack) -> None:
        """The loops over the labels that are no block's, longest first."""
        tiles, output = self.tiles, self.step.output
        known = {tiles.lanes, tiles.rows, tiles.terms, tiles.solved}
        for label in self.extents:
            axis = own_axis(output, label)
            if axis in tiles.tasks:
                known.add(label)
                self.values[label] = self.values[self.place_of[axis]]  # type: ignore[index]
        left = sorted((v for v in self.extents if v not in known), key=lambda v: -length(self.extents[v]))
        first = [] if tiles.solved is None else [v for v in left if v in output.index[tiles.tasks[-1]].atoms()]

        def enter(labels: Sequence[str]) -> None:
            for label in labels:
                self.values[label] = stack.enter_context(self.loop("0", self.form(self.extents[label])))

        enter(first)
        if tiles.solved is not None:
            axis, label = tiles.tasks[-1], tiles.solved
            form = output.index[axis]
            factor = form.coefficient(label)
            rest = Affine.variable(self.place_of[axis]) - (form - factor * Affine.variable(label))
            value = self.form(rest if factor > 0 else -rest)
            whole = self.divided(value, str(abs(factor)))
            tests = [f"sge i64 {whole}, 0", f"slt i64 {whole}, {self.form(self.extents[label])}"]
            tests += [f"eq i64 {self.times(whole, str(abs(factor)))}, {value}"] if abs(factor) > 1 else []
            asked = [self.new(f"icmp {test}") for test in tests]
            stack.enter_context(self.when(*(partial(str, one) for one in asked)))
            self.values[label] = whole
        enter([v for v in left if v not in first])
        if self.block is None:
            self.values[tiles.rows] = stack.enter_context(self.loop("0", self.form(self.extents[tiles.rows]), ROWS))

    def tile(self, own: Load, left: Load, right: Load) -> None:
        """The call for a block."""
        tiles = self.tiles
        zero = {label: Affine() for label in (tiles.lanes, tiles.terms)}
        # Where a task has one block of rows, those of its sums begin with it.
        first = [Affine() if axis == self.block else form for axis, form in zip(self.free, own.index, strict=True)]

        def offset(view: Load, forms: Sequence[Affine]) -> str:
            total, shape = "0", self.shapes[view.array]
            for form, extent in zip(forms, shape, strict=False):
                total = self.add(self.times(total, self.form(extent)), self.form(form))
            return self.times(total, self.form(shape[-1])) if len(shape) > len(forms) else total

        def start(view: Load, forms: Sequence[Affine]) -> str:
            return self.shifted(self.base(view.array), offset(view, [form.substitute(zero) for form in forms]))

        def step(view: Load, label: str) -> str:
            return offset(view, [Affine.of(form.coefficient(label)) for form in view.index])

        left_rows = self.new(f"sub nsw i64 {self.form(self.extents[tiles.rows])}, {self.values[tiles.rows]}")
        numbers = [step(own, tiles.rows), step(left, tiles.rows), step(left, tiles.terms), step(right, tiles.terms)]
        numbers += [self.greatest([str(ROWS), left_rows], "smin"), self.values["lanes"]]
        numbers.append(self.form(self.extents[tiles.terms]))
        pointers = start(own, first), start(left, left.index), start(right, right.index)
        passed = [f"ptr {p}" for p in pointers] + [f"i64 {n}" for n in numbers]
        self.line(f"call void @{self.symbol}({', '.join(passed)})")

    def store(self, out: Sequence[Affine], lane_out: int) -> None:
        """Loops that bring the sums into the order of the result."""
        real, index = self.module.real, dict(self.place_of)
        places = dict(self.place_of)
        with ExitStack() as stack:
            for axis, name in self.place_of.items():
                if axis == self.block:
                    low = self.values[name]
                    stop = self.greatest([self.add(low, str(ROWS)), self.form(out[axis])], "smin")
                    places[axis], index[axis] = "row of result", "row of sums"
                    self.values[places[axis]] = row = stack.enter_context(self.loop(low, stop))
                    self.values[index[axis]] = self.new(f"sub nsw i64 {row}, {low}")
                elif axis not in self.tiles.tasks:
                    self.values[name] = stack.enter_context(self.loop("0", self.form(out[axis])))
            source = self.place("sums", [Affine.variable(index[axis]) for axis in (*self.free, lane_out)])
            value = self.new(f"load {real}, ptr {source}")
            if self.step.factor != 1:
                value = self.new(f"fmul contract nsz {real} {value}, {real_text(float(self.step.factor), real)}")
            target = self.place(self.step.array, [Affine.variable(name) for name in places.values()])
            self.line(f"store {real} {value}, ptr {target}")


def tile(module: Module, is_wide: bool) -> str:
    """The symbol of the function that adds sums of products to rows, in vectors that stay in registers.

    It takes pointers to sums ``c``, to ``a`` and ``b``, the distances of rows of ``c`` and of ``a``, and of terms in
    ``a`` and in ``b``, then rows, lanes and terms: ``c[row, :] += a[row, t]*b[t, :]``.
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


class _TileBuilder(NestPrinter):
    def __init__(self, module: Module, vector: str, size: int, fma: str) -> None:
        super().__init__(module, {}, frozenset(), frozenset())
        self.vector, self.size, self.fma = vector, size, fma

    def print(self, width: int) -> None:
        """Blocks of lanes: of several vectors, as long as there are as many, then of one."""
        last = self.add("%rows", "-1")
        # Rows that are not there repeat the last one, and are not written.
        chosen = [self.greatest([str(m), last], "smin") for m in range(ROWS)]
        firsts = [self.shifted("%a", self.times(m, "%ar")) for m in chosen]
        pairs = self.divided("%lanes", str(width * self.size))
        with self.loop("0", pairs) as number:
            self.lanes(self.times(number, str(width * self.size)), width, firsts)
        if width > 1:
            lane = self.times(pairs, str(width * self.size))
            with self.when(lambda: self.new(f"icmp slt i64 {lane}, %lanes")):
                self.lanes(lane, 1, firsts)

    def lanes(self, lane: str, width: int, firsts: Sequence[str]) -> None:
        """Sums of all rows in so many vectors each, from a lane on."""
        real, vector, align = self.module.real, self.vector, self.module.size
        start = self.shifted("%b", lane)
        sums = [[self.slot(vector) for _ in range(width)] for _ in range(ROWS)]
        for place in [one for row in sums for one in row]:
            self.line(f"store {vector} zeroinitializer, ptr {place}")
        with self.loop("0", "%terms") as t:
            base = self.times(t, "%bt")
            right = []
            for v in range(width):
                place = self.shifted(start, self.add(base, str(v * self.size)))
                right.append(self.new(f"load {vector}, ptr {place}, align {align}"))
            for m in range(ROWS):
                value = self.new(f"load {real}, ptr {self.shifted(firsts[m], self.times(t, '%at'))}")
                one = self.new(f"insertelement {vector} poison, {real} {value}, i64 0")
                every = f"<{self.size} x i32> zeroinitializer"
                left = self.new(f"shufflevector {vector} {one}, {vector} poison, {every}")
                for v in range(width):
                    total = self.new(f"load {vector}, ptr {sums[m][v]}")
                    total = self.call(vector, self.fma, [left, right[v], total], vector)
                    self.line(f"store {vector} {total}, ptr {sums[m][v]}")
        for m in range(ROWS):
            with self.when(partial(self.new, f"icmp slt i64 {m}, %rows")):
                row = self.shifted("%c", self.add(lane, self.times(str(m), "%cr")))
                for v in range(width):
                    place = self.shifted(row, str(v * self.size))
                    before = self.new(f"load {vector}, ptr {place}, align {align}")
                    total = self.new(f"load {vector}, ptr {sums[m][v]}")
                    self.line(f"store {vector} {self.new(f'fadd {vector} {before}, {total}')}, ptr {place}, align {align}")
