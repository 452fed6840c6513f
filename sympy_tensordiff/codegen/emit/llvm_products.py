"""Matrix products in LLVM modules: calls of BLAS."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce

from sympy_tensordiff.codegen.emit.library import LibraryMatrices
from sympy_tensordiff.codegen.emit.llvm import FLAGS, TOO_LARGE, Module
from sympy_tensordiff.codegen.emit.llvm_copies import block_count, matrices_of, matrix_order
from sympy_tensordiff.codegen.emit.llvm_elementary import real_text
from sympy_tensordiff.codegen.emit.llvm_nests import LlvmNestPrinter
from sympy_tensordiff.codegen.ir.programs import BLOCK, ContractionStep, Trapezoid
from sympy_tensordiff.codegen.ir.steps import extents

MULTIPLY = """\
define internal i32 @multiply(ptr %c, i64 %c.step, ptr %a, i64 %a.step, i1 %a.turned, ptr %b, i64 %b.step, \
i1 %b.turned, i64 %rows, i64 %columns, i64 %terms, {real} %factor) noinline {{
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
  %s0 = call i64 @llvm.smax.i64(i64 %rows, i64 %columns)
  %s1 = call i64 @llvm.smax.i64(i64 %s0, i64 %terms)
  %s2 = call i64 @llvm.smax.i64(i64 %s1, i64 %a.step)
  %s3 = call i64 @llvm.smax.i64(i64 %s2, i64 %b.step)
  %s4 = call i64 @llvm.smax.i64(i64 %s3, i64 %c.step)
  %too.large = icmp sgt i64 %s4, 2147483647
  br i1 %too.large, label %large, label %small
large:
  ret i32 {code}
small:
  %r = call i64 @llvm.abs.i64(i64 %rows, i1 false)
  %q = call i64 @llvm.abs.i64(i64 %columns, i1 false)
  %some = icmp sgt i64 %terms, 0
  br i1 %some, label %start, label %empty
empty:
  %bytes = mul i64 %q, {size}
  %pitch = mul i64 %c.step, {size}
  br label %clear
clear:
  %i = phi i64 [ 0, %empty ], [ %i.next, %zero ]
  %more = icmp slt i64 %i, %r
  br i1 %more, label %zero, label %cleared
zero:
  %before = mul i64 %i, %pitch
  %c.row = getelementptr i8, ptr %c, i64 %before
  call void @llvm.memset.p0.i64(ptr %c.row, i8 0, i64 %bytes, i1 false)
  %i.next = add i64 %i, 1
  br label %clear
cleared:
  ret i32 0
start:
  %r32 = trunc i64 %r to i32
  %q32 = trunc i64 %q to i32
  %k32 = trunc i64 %terms to i32
  %a.least = call i64 @llvm.smax.i64(i64 %a.step, i64 1)
  %b.least = call i64 @llvm.smax.i64(i64 %b.step, i64 1)
  %c.least = call i64 @llvm.smax.i64(i64 %c.step, i64 1)
  %a32 = trunc i64 %a.least to i32
  %b32 = trunc i64 %b.least to i32
  %c32 = trunc i64 %c.least to i32
  store {real} %factor, ptr %alpha
  store {real} 0.0, ptr %beta
  store i32 1, ptr %one
  store i32 %a32, ptr %lda
  store i32 %b32, ptr %ldb
  store i32 %c32, ptr %ldc
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
"""A matrix product by BLAS, with all matrices transposed, since BLAS has column-major order."""


def multiply(module: Module) -> str:
    """Define the function that calls BLAS for one matrix product, and return its symbol."""
    x = "d" if module.real == "double" else "s"
    module.declare("llvm.abs.i64", "i64", ["i64", "i1"])
    module.declare("llvm.smax.i64", "i64", ["i64", "i64"])
    module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
    for name, result, count in (("gemm", "void", 13), ("gemv", "void", 11), ("dot", module.real, 5)):
        module.declare(f"blas_{x}{name}", result, ["ptr"] * count)
    return module.define("multiply", MULTIPLY.format(real=module.real, x=x, code=TOO_LARGE, size=module.size))


MAX_SMALL_PRODUCT, MAX_SMALL_MATRIX_PRODUCT = 2**10, 2**8
"""The most multiplications of a product with a vector, and of two matrices, in a step of a scan that loops compute.

A call of BLAS takes longer: CPU of a gradient of 2,000 steps ``tanh(W @ h + U @ x)``, without BLAS and with it: 0.60
and 0.77 ms for 16 states, 2.03 and 2.05 ms for 32; a Kalman filter with products of 512 multiplications, 1.2 of the
time without BLAS.
"""

LOW, HIGH = "block low", "block high"
"""The parameters for the range of parts that a function computes."""


class LlvmProductPrinter(LlvmNestPrinter):
    """Prints the function that computes a range of rows (or of batch entries) of a contraction by BLAS calls.

    A part is one product of the batch if there are batch labels, else a block of a trapezoid, else a row.
    """

    def print_contraction(self, step: ContractionStep | Trapezoid) -> None:
        """Append the LLVM instructions of a contraction, with BLAS calls."""
        self.step, self.extents = step, extents(step, self.shapes)
        _, _, both, own, other, summed = found = self.matrices = matrices_of(step)
        self.add_code_slot()
        low, high = self.parameter(LOW, "i"), self.parameter(HIGH, "i")
        rows, columns, terms = (self.length_of(group) for group in (own, other, summed))
        pointers = self.base(step.array), self.base(found.left.array), self.base(found.right.array)
        groups = ((own, other), (own, summed), (summed, other))
        labels = step.output, found.left.labels, found.right.labels
        _, *turned = orders = [bool(matrix_order(axes, both, *pair)) for axes, pair in zip(labels, groups, strict=True)]
        pitches = [self.row_step(*each) for each in zip(labels, groups, orders, strict=True)]
        with ExitStack() as stack:
            if both:
                place = stack.enter_context(self.loop(low, high))
                pointers = self.advance(pointers, [self.offset_of_batch(place, both, axes) for axes in labels])
            if isinstance(step, Trapezoid):
                low, high = ("0", self.form(block_count(step, self.shapes))) if both else (low, high)
                self.print_blocks(step, found, pointers, turned, (low, high))
                return
            if not both and own:
                offsets = [self.times(low, pitches[0]), low if turned[0] else self.times(low, pitches[1])]
                pointers = self.advance(pointers, offsets)
                rows = self.new(f"sub nsw i64 {high}, {low}")
            self.multiply(pointers, pitches, turned, rows if own else "-1", columns if other else "-1", terms)

    def row_step(self, labels: Sequence[int], groups: tuple[Sequence[int], Sequence[int]], is_turned: bool) -> str:
        """Emit code that computes the distance in memory, in entries, between successive rows of a matrix, and return
        its value. ``labels`` are the axes of the matrix's array; ``groups`` are the row labels and the column labels.
        With `is_turned`, the matrix is stored transposed.
        """
        first, second = reversed(groups) if is_turned else groups
        return self.stride(labels, first[-1]) if first and second else self.length_of(second)

    def stride(self, labels: Sequence[int], label: int) -> str:
        """Emit code that computes the stride, in entries, of the axis ``label`` in an array with the axes ``labels``,
        and return its value.
        """
        return self.length_of(labels[list(labels).index(label) + 1 :])

    def offset_of_batch(self, place: str, both: Sequence[int], labels: Sequence[int]) -> str:
        """Emit code that computes the offset, in entries, of the matrix number ``place`` in an array that stores a
        batch of matrices, and return its value. ``labels`` are the axes of the array, ``both`` those of the batch.

        The last axis of the batch counts fastest.
        """
        if list(labels[: len(both)]) == list(both):
            return self.times(place, self.length_of(labels[len(both) :]))
        total, rest = "0", place
        for label in reversed(both):
            length = self.form(self.extents[label])
            digit = rest if label == both[0] else self.new(f"urem i64 {rest}, {length}")
            rest = rest if label == both[0] else self.new(f"udiv i64 {rest}, {length}")
            total = self.add(total, self.times(digit, self.stride(labels, label)))
        return total

    def length_of(self, labels: Sequence[int]) -> str:
        """Emit the number of entries along the axes ``labels``, and return its value."""
        return reduce(self.times, [self.form(self.extents[label]) for label in labels], "1")

    def advance(self, pointers: tuple[str, str, str], offsets: Sequence[str]) -> tuple[str, str, str]:
        """Emit the addresses that are ``offsets`` entries after `pointers` (to the result, the left and the right
        operand), and return them. Missing last offsets count as 0.
        """
        out, left, right = (self.pointer_at(*pair) for pair in itertools.zip_longest(pointers, offsets, fillvalue="0"))
        return out, left, right

    def multiply(
        self, pointers: Sequence[str], steps: Sequence[str], turned: Sequence[bool], rows: str, columns: str, terms: str
    ) -> None:
        """Emit one product of a ``rows`` x ``terms`` matrix and a ``terms`` x ``columns`` matrix: a BLAS call, or loops
        if it is small. ``pointers`` and ``steps`` are the addresses and row strides of the result, the left and the
        right operand; `turned` says of each operand whether it is stored transposed.

        ``rows`` or ``columns`` is -1 if that operand is a vector.
        """
        out, left, right = pointers
        own, other = ("1" if length == "-1" else length for length in (rows, columns))
        arrays = self.step.array, self.matrices.left.array, self.matrices.right.array
        blocks = [(own, other, steps[0]), (own, terms, steps[1]), (terms, other, steps[2])]
        for array, pointer, (height, width, stride), swaps in zip(
            arrays, pointers, blocks, (False, *turned), strict=True
        ):
            strides = ("1", stride) if swaps else (stride, "1")
            self.check_block(array, pointer, (height, strides[0]), (width, strides[1]))
        operands = zip((left, right), steps[1:], turned, strict=True)
        sides = [f"ptr {pointer}, i64 {step}, i1 {str(swaps).lower()}" for pointer, step, swaps in operands]
        numbers = ", ".join(f"i64 {value}" for value in (rows, columns, terms))
        factor = real_text(float(self.step.factor), self.module.real)
        limit = MAX_SMALL_PRODUCT if "1" in (own, other) else MAX_SMALL_MATRIX_PRODUCT
        size = reduce(self.times, (own, other, terms)) if self.is_inlined else str(limit + 1)
        name = multiply(self.module)
        with self.when(lambda: self.new(f"icmp sgt i64 {size}, {limit}")):
            given = ", ".join([f"ptr {out}, i64 {steps[0]}", *sides, numbers, f"{self.module.real} {factor}"])
            self.add_code(self.new(f"call i32 @{name}({given})"))
        if self.is_inlined:
            with self.when(lambda: self.new(f"icmp sle i64 {size}, {limit}")):
                self.small_product(pointers, (own, other, terms), steps, turned, factor)

    def small_product(
        self,
        pointers: Sequence[str],
        lengths: tuple[str, str, str],
        steps: Sequence[str],
        are_transposed: Sequence[bool],
        factor: str,
    ) -> None:
        """Emit loops for a small matrix product times ``factor``. ``lengths`` are its numbers of rows, columns and
        terms; ``pointers`` and ``steps`` are the addresses and row strides of the result, the left and the right
        operand; `are_transposed` says of each operand whether it is stored transposed.
        """
        (out, left, right), (rows, columns, terms), (pitch, *steps) = pointers, lengths, steps
        has_columns = columns != "1"
        if not has_columns and are_transposed[0]:  # the columns of the matrix, times the vector
            out, left, right = out, right, left
            rows, columns, steps, are_transposed = "1", rows, ["1", steps[0]], (False, False)
        is_sum_of_rows = columns != "1" and not are_transposed[1]
        real, flags = self.module.real, f"reassoc {FLAGS}"

        def entry(pointer: str, first: str, second: str, step: str, swaps: bool) -> str:
            """Emit the read of the entry ``(first, second)`` of the matrix at ``pointer``, and return its value. Rows
            are ``step`` entries apart in memory. With ``swaps``, the matrix is stored transposed, and the two indices
            are exchanged.
            """
            first, second = (second, first) if swaps else (first, second)
            return self.new(f"load {real}, ptr {self.pointer_at(pointer, self.add(self.times(first, step), second))}")

        with self.loop("0", rows) as row:
            target = self.pointer_at(out, self.times(row, pitch))
            if is_sum_of_rows:
                with self.loop("0", columns) as column:
                    self.line(f"store {real} 0.0, ptr {self.pointer_at(target, column)}")
                with self.loop("0", terms) as term:
                    scale = self.new(f"fmul {real} {entry(left, row, term, steps[0], are_transposed[0])}, {factor}")
                    with self.loop("0", columns) as column:
                        place = self.pointer_at(target, column)
                        product = self.new(
                            f"fmul {FLAGS} {real} {scale}, {entry(right, term, column, steps[1], False)}"
                        )
                        total = self.new(f"fadd {FLAGS} {real} {self.new(f'load {real}, ptr {place}')}, {product}")
                        self.line(f"store {real} {total}, ptr {place}")
                return
            with self.loop("0", columns) as column:
                total = self.slot(real)
                self.line(f"store {real} 0.0, ptr {total}")
                with self.loop("0", terms) as term:
                    one = entry(left, row, term, steps[0], are_transposed[0])
                    other = entry(right, column, term, steps[1] if has_columns else "1", False)
                    product = self.new(f"fmul {flags} {real} {one}, {other}")
                    before = self.new(f"load {real}, ptr {total}")
                    self.line(f"store {real} {self.new(f'fadd {flags} {real} {before}, {product}')}, ptr {total}")
                scaled = self.new(f"fmul {real} {self.new(f'load {real}, ptr {total}')}, {factor}")
                self.line(f"store {real} {scaled}, ptr {self.pointer_at(target, column)}")

    def print_blocks(
        self,
        step: Trapezoid,
        matrices: LibraryMatrices,
        pointers: tuple[str, str, str],
        are_transposed: Sequence[bool],
        ends: tuple[str, str],
    ) -> None:
        """Emit a loop over the blocks of rows ``ends[0]`` to ``ends[1] - 1`` of the triangular product ``step``, with
        one matrix product for each block. ``matrices`` are the operands with their labels, ``pointers`` the addresses
        of the result, the left and the right operand; `are_transposed` says which operands are stored transposed.

        Each product is over the summation indices that all rows of the block have.
        """
        _, _, _, own, other, summed = matrices
        rows, columns, terms = (self.length_of(group) for group in (own, other, summed))
        height, others = self.form(self.extents[step.row]), self.length_of(own[1:])
        with self.loop(*ends) as block:
            start = self.times(block, str(BLOCK))
            shift = self.add(start, self.form(step.shift + (BLOCK - 1 if step.is_upper else 1)))
            end = self.greatest(["0", self.greatest([terms, shift], "smin")])
            first = self.times(start, others)
            pointers = self.advance(
                pointers, [self.times(first, columns), first if are_transposed[0] else self.times(first, terms)]
            )
            if step.is_upper:
                left = self.times(end, rows) if are_transposed[0] else end
                pointers = self.advance(pointers, ["0", left, end if are_transposed[1] else self.times(end, columns)])
            count = self.new(f"sub nsw i64 {terms}, {end}") if step.is_upper else end
            left_rows = self.new(f"sub nsw i64 {height}, {start}")
            size = self.times(self.greatest([str(BLOCK), left_rows], "smin"), others)
            steps = columns, (rows if are_transposed[0] else terms), (terms if are_transposed[1] else columns)
            self.multiply(pointers, steps, are_transposed, size, columns if other else "-1", count)
