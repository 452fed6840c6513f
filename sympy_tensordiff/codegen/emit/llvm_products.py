"""Products of matrices in the language of LLVM: calls of BLAS, and the block of a convolution in registers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce

from sympy_tensordiff.codegen.emit.library import Matrices, as_matrices
from sympy_tensordiff.codegen.emit.llvm import Module, NestPrinter, real_text
from sympy_tensordiff.codegen.ir.loops import If, accumulator, add
from sympy_tensordiff.codegen.ir.programs import (
    BLOCK,
    Array,
    Contraction,
    Correlation,
    Operand,
    Program,
    Step,
    Trapezoid,
    entrywise,
)
from sympy_tensordiff.codegen.ir.rename import unique
from sympy_tensordiff.codegen.ir.scalars import Load, Name
from sympy_tensordiff.codegen.ir.steps import Shapes, extents
from sympy_tensordiff.codegen.ir.walk import all_names, array_shapes
from sympy_tensordiff.codegen.schedule.correlations import ROWS, Tiling, length, own_axis, tiling
from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.products import times

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


# ---------------------------------------------------------------------------- copies as steps of their own


def matrices_of(step: Contraction | Trapezoid) -> Matrices:
    """A contraction as products of matrices; the rows are those of the trapezoid."""
    found = as_matrices(step)
    return found.transposed() if isinstance(step, Trapezoid) and step.row not in found.rows else found


def is_turned(operand: Operand, both: Sequence[int], first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether an operand has the second group of axes before the first."""
    return bool(first and second) and list(operand.labels) == [*both, *second, *first]


def tasks_of(extent: Affine, is_block: bool) -> Affine:
    """The number of tasks along an axis of a correlation."""
    return quotient(extent + (ROWS - 1), ROWS) if is_block else extent


def blocks(step: Trapezoid, shapes: Shapes) -> Affine:
    """The number of blocks of rows."""
    return quotient(extents(step, shapes)[step.row] + (BLOCK - 1), BLOCK)


def parts_of(step: Contraction | Trapezoid | Correlation, shapes: Shapes) -> Affine:
    """How many parts a step has, of which its function computes a range."""
    if isinstance(step, Correlation):
        tiles, out = tiling(step, shapes), shapes[step.array]
        assert tiles is not None
        row = own_axis(step.output, tiles.rows)
        return times(*(tasks_of(out[axis], axis == row) for axis in tiles.tasks))
    found, known = matrices_of(step), extents(step, shapes)
    if not found.both and isinstance(step, Trapezoid):
        return blocks(step, shapes)
    return times(*(known[label] for label in found.both or found.rows))


class Copies:
    """A program in which products read and fill arrays that lie as they need them, by copies that are kernels.

    ``width``: a whole number of vectors has so many entries. ``lanes`` are the operands of correlations in lanes.
    """

    def __init__(self, program: Program, width: int) -> None:
        self.width = width
        self.shapes = array_shapes(program)
        self.taken = all_names(program)
        self.lanes: dict[str, Load] = {}
        self.arrays: list[Array] = []
        self.steps: list[Step] = []
        for step in program.kernels:
            if isinstance(step, Contraction | Trapezoid):
                self.contraction(step)
            else:
                if isinstance(step, Correlation):
                    self.correlation(step)
                self.steps.append(step)
        self.program = program.with_steps(self.steps, new=self.arrays)

    def fresh(self, wish: str) -> str:
        """A new name."""
        name = unique(wish, self.taken)
        self.taken.add(name)
        return name

    def array(self, wish: str, shape: Sequence[Affine]) -> str:
        """A new temporary."""
        name = self.fresh(wish)
        self.arrays.append(Array(name, tuple(shape)))
        return name

    def copy(self, target: str, axes: Sequence[int], source: str, labels: Sequence[int]) -> None:
        """Copy an array into one with axes in another order."""
        names = {label: self.fresh("i") for label in axes}
        value = Load(source, tuple([Affine.variable(names[label]) for label in labels]))
        self.steps.append(entrywise(target, [names[label] for label in axes], [], value))

    def contraction(self, step: Contraction | Trapezoid) -> None:
        """A contraction with copies."""
        found, known = matrices_of(step), extents(step, self.shapes)

        def ordered(operand: Operand, first: Sequence[int], second: Sequence[int]) -> Operand:
            labels = [*found.both, *first, *second]
            if list(operand.labels) == labels or is_turned(operand, found.both, first, second):
                return operand
            name = self.array(f"{operand.array}_ordered", [known[label] for label in labels])
            self.copy(name, labels, operand.array, operand.labels)
            return Operand(name, tuple(labels))

        left = ordered(found.left, found.rows, found.terms)
        right = ordered(found.right, found.terms, found.columns)
        if found.order == list(step.output):
            self.steps.append(replace(step, left=left, right=right))
            return
        name = self.array(f"{step.array}_ordered", [known[label] for label in found.order])
        self.steps.append(replace(step, array=name, output=tuple(found.order), left=left, right=right))
        self.copy(step.array, step.output, name, found.order)

    def correlation(self, step: Correlation) -> None:
        """The copy of an operand whose lanes fill whole vectors, with zeros at the end."""
        tiles = tiling(step, self.shapes)
        assert tiles is not None
        view = tiles.right
        lane, shape = own_axis(view, tiles.lanes), self.shapes[view.array]
        assert lane is not None
        # The terms lie next to the lanes: what a block reads one after the other.
        others = [axis for axis in range(len(view.index)) if axis != lane]
        order = sorted(others, key=lambda axis: tiles.terms in view.index[axis].atoms())
        lanes = self.width * quotient(shape[lane] + (self.width - 1), self.width)
        name = self.array(f"{view.array}_lanes", [*(shape[axis] for axis in order), lanes])
        names = {axis: self.fresh("i") for axis in (*order, lane)}
        entry, total = Load(view.array, tuple([Affine.variable(names[axis]) for axis in sorted(names)])), self.fresh("s")
        inside = If((Row("ge", shape[lane] - 1 - Affine.variable(names[lane])),), (add(total, entry),))
        self.steps.append(entrywise(name, list(names.values()), [accumulator(total), inside], Name(total)))
        self.lanes[step.array] = Load(name, tuple([view.index[axis] for axis in order]))


LOW, HIGH = "block low", "block high"
"""The parameters that say which part of a step a function computes."""


class ProductPrinter(NestPrinter):
    """The function of a part of a contraction, or of one over a trapezoid, whose operands lie as BLAS reads them.

    A part is a range of products where both operands keep axes, else of blocks of a trapezoid, else of rows.
    """

    def contraction(self, step: Contraction | Trapezoid) -> None:
        """The instructions."""
        self.step, self.extents = step, extents(step, self.shapes)
        _, _, both, own, other, summed = found = matrices_of(step)
        self.code = self.slot("i32")
        self.line(f"store i32 0, ptr {self.code}")
        low, high = self.parameter(LOW, "i"), self.parameter(HIGH, "i")
        rows, columns, terms = (self.length_of(group) for group in (own, other, summed))
        pointers = self.base(step.array), self.base(found.left.array), self.base(found.right.array)
        turned = is_turned(found.left, both, own, summed), is_turned(found.right, both, summed, other)
        steps = (rows if turned[0] else terms), (terms if turned[1] else columns)
        with ExitStack() as stack:
            if both:
                place = stack.enter_context(self.loop(low, high))
                sizes = [[*own, *other], [*own, *summed], [*summed, *other]]
                pointers = self.moved(pointers, [self.times(place, self.length_of(group)) for group in sizes])
            if isinstance(step, Trapezoid):
                low, high = ("0", self.form(blocks(step, self.shapes))) if both else (low, high)
                self.blocks(step, found, pointers, turned, (low, high))
                return
            if not both and own:
                pointers = self.moved(pointers, [self.times(low, columns), low if turned[0] else self.times(low, terms)])
                rows = self.new(f"sub nsw i64 {high}, {low}")
            self.multiply(pointers, steps, turned, rows if own else "-1", columns if other else "-1", terms)

    def finished(self) -> str:
        """The text of the function."""
        return self.function(f"i32 {self.new(f'load i32, ptr {self.code}')}")

    def length_of(self, labels: Sequence[int]) -> str:
        """The number of entries of some axes."""
        return reduce(self.times, [self.form(self.extents[label]) for label in labels], "1")

    def moved(self, pointers: tuple[str, str, str], offsets: Sequence[str]) -> tuple[str, str, str]:
        """The pointers to the result and to the operands so many entries further on."""
        out, left, right = (self.shifted(*pair) for pair in itertools.zip_longest(pointers, offsets, fillvalue="0"))
        return out, left, right

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
        self,
        step: Trapezoid,
        found: Matrices,
        pointers: tuple[str, str, str],
        turned: tuple[bool, bool],
        ends: tuple[str, str],
    ) -> None:
        """The products of blocks of rows, each with the terms that all rows of the block have."""
        _, _, _, own, other, summed = found
        rows, columns, terms = (self.length_of(group) for group in (own, other, summed))
        height, others = self.form(self.extents[step.row]), self.length_of(own[1:])
        with self.loop(*ends) as block:
            start = self.times(block, str(BLOCK))
            shift = self.add(start, self.form(step.shift + (BLOCK - 1 if step.is_upper else 1)))
            end = self.greatest(["0", self.greatest([terms, shift], "smin")])
            first = self.times(start, others)
            pointers = self.moved(pointers, [self.times(first, columns), first if turned[0] else self.times(first, terms)])
            if step.is_upper:
                left = self.times(end, rows) if turned[0] else end
                pointers = self.moved(pointers, ["0", left, end if turned[1] else self.times(end, columns)])
            count = self.new(f"sub nsw i64 {terms}, {end}") if step.is_upper else end
            left_rows = self.new(f"sub nsw i64 {height}, {start}")
            size = self.times(self.greatest([str(BLOCK), left_rows], "smin"), others)
            steps = (rows if turned[0] else terms), (terms if turned[1] else columns)
            self.multiply(pointers, steps, turned, size, columns if other else "-1", count)


# ---------------------------------------------------------------------------- windows


class CorrelationPrinter(NestPrinter):
    """The function of some tasks of a correlation whose right operand lies in lanes, see `correlations`.

    ``is_wide``: vectors have 64 bytes.
    """

    def correlation(self, step: Correlation, tiles: Tiling, copy: Load, is_wide: bool) -> None:
        """The instructions; ``copy`` is the operand in lanes, without the last index."""
        self.step, self.tiles, self.extents = step, tiles, dict(step.labels)
        self.symbol = tile(self.module, is_wide)
        lane_out, block = own_axis(step.output, tiles.lanes), own_axis(step.output, tiles.rows)
        assert lane_out is not None
        self.block = block if block in tiles.tasks else None
        axes, out = range(len(step.output.index)), self.shapes[step.array]
        self.free = [axis for axis in axes if axis != lane_out and (axis not in tiles.tasks or axis == self.block)]
        self.lanes = self.form(self.shapes[copy.array][-1])
        lengths = [Affine.of(ROWS) if axis == self.block else out[axis] for axis in self.free]
        self.array("sums", [*lengths, self.shapes[copy.array][-1]])
        own = Load("sums", tuple([step.output.index[axis] for axis in self.free]))
        self.places = {axis: f"place {axis}" for axis in axes}
        size = self.times(self.entries(self.shapes["sums"]), str(self.module.size))
        self.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
        with self.loop(self.parameter(LOW, "i"), self.parameter(HIGH, "i")) as turn:
            for axis in reversed(tiles.tasks):
                count = self.form(tasks_of(out[axis], axis == self.block))
                place = self.new(f"srem i64 {turn}, {count}")
                turn = self.new(f"sdiv i64 {turn}, {count}")
                self.values[self.places[axis]] = self.times(place, str(ROWS)) if axis == self.block else place
            self.line(f"call void @llvm.memset.p0.i64(ptr {self.arrays['sums']}, i8 0, i64 {size}, i1 false)")
            with ExitStack() as inner:
                self.loops(inner)
                self.tile(own, tiles.left, copy)
            self.store(out, lane_out)

    def loops(self, stack: ExitStack) -> None:
        """The loops over the labels that are no block's, longest first."""
        tiles, output = self.tiles, self.step.output
        known = {tiles.lanes, tiles.rows, tiles.terms, tiles.solved}
        for label in self.extents:
            axis = own_axis(output, label)
            if axis in tiles.tasks:
                known.add(label)
                self.values[label] = self.values[self.places[axis]]  # type: ignore[index]
        left = sorted((v for v in self.extents if v not in known), key=lambda v: -length(self.extents[v]))
        first = [] if tiles.solved is None else [v for v in left if v in output.index[tiles.tasks[-1]].atoms()]

        def enter(labels: Sequence[str], step: int = 1) -> None:
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
        numbers += [self.greatest([str(ROWS), left_rows], "smin"), self.lanes, self.form(self.extents[tiles.terms])]
        pointers = start(own, first), start(left, left.index), start(right, right.index)
        passed = [f"ptr {p}" for p in pointers] + [f"i64 {n}" for n in numbers]
        self.line(f"call void @{self.symbol}({', '.join(passed)})")

    def store(self, out: Sequence[Affine], lane_out: int) -> None:
        """Loops that bring the sums into the order of the result."""
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
