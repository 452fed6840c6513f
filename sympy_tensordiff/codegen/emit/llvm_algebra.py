"""Linear algebra in the steps of recurrences, as LLVM functions: triangular factors, solutions and determinants.

Matrices are factored by rows into L and U, with exchanges of rows, as LAPACK does with its columns. Factors are stored
as in the backends that call LAPACK: n rows, and one with the exchanges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from sympy_tensordiff.codegen.emit.llvm import FLAGS, SINGULAR, Builder, Module
from sympy_tensordiff.codegen.emit.llvm_elementary import real_text
from sympy_tensordiff.codegen.emit.llvm_nests import LlvmNestPrinter
from sympy_tensordiff.codegen.ir.programs import Apply, Solve
from sympy_tensordiff.integer.affine import Affine


class _MatrixFunction(Builder):
    """The builder of one LLVM function that works with the triangular factors ``%f`` of a matrix with ``%n`` rows."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.real = module.real

    def pointer(self, array: str, row: str, width: str, column: str) -> str:
        """Emit the address of the entry at ``row``, ``column`` of the matrix ``array`` with ``width`` columns, and
        return the pointer. All arguments are LLVM values.
        """
        place = self.add(self.times(row, width), column)
        return self.new(f"getelementptr inbounds {self.real}, ptr {array}, i64 {place}")

    def load(self, pointer: str) -> str:
        """Emit the read of the number at a pointer, and return its value."""
        return self.new(f"load {self.real}, ptr {pointer}")

    def entry(self, row: str, column: str) -> str:
        """Emit the read of the entry at ``row`` and ``column`` of the triangular factors, stored in one matrix, and
        return its value.
        """
        return self.load(self.pointer("%f", row, "%n", column))

    def compute(self, operation: str, *values: str) -> str:
        """Emit an operation of floating-point numbers, and return its value."""
        return self.new(f"{operation} {FLAGS} {self.real} {', '.join(values)}")

    def store(self, value: str, pointer: str) -> None:
        """Emit code that stores the number `value` at a pointer."""
        self.line(f"store {self.real} {value}, ptr {pointer}")

    def compare(self, operation: str, left: str, right: str) -> str:
        """Emit the comparison of two floating-point numbers, the LLVM values ``left`` and ``right``, and return its i1
        value. ``operation`` is LLVM's name for it, such as "ogt".
        """
        return self.new(f"fcmp {operation} {self.real} {left}, {right}")

    def absolute(self, value: str) -> str:
        """Emit the absolute value of a number, and return it."""
        return self.call(self.real, f"llvm.fabs.{_suffix(self.real)}", [value], self.real)

    def exchange(self, array: str, row: str, other: str, width: str) -> None:
        """Emit a loop that exchanges two rows of the matrix ``array``, which has ``width`` columns. ``row`` and
        ``other`` are the row numbers. All arguments are LLVM values.
        """
        with self.loop("0", width) as column:
            first, second = (self.pointer(array, place, width, column) for place in (row, other))
            one, two = self.load(first), self.load(second)
            self.store(two, first)
            self.store(one, second)

    def subtract(self, array: str, row: str, factor: str, other: str, ends: tuple[str, str], width: str) -> None:
        """Emit a loop that computes ``array[row] -= factor*array[other]`` for rows of a matrix with ``width`` columns:
        in the columns from ``ends[0]`` up to, but not including, ``ends[1]``.
        """
        with self.loop(*ends) as column:
            target = self.pointer(array, row, width, column)
            product = self.compute("fmul", factor, self.load(self.pointer(array, other, width, column)))
            self.store(self.compute("fsub", self.load(target), product), target)

    def exchanged(self, row: str) -> str:
        """Emit the read of a row exchange of the factorization: the number of the row with which row ``row`` was
        exchanged. Return the integer value.
        """
        return self.new(f"fptosi {self.real} {self.entry('%n', row)} to i64")

    def define(self, name: str, result: str, parameters: str, value: str) -> str:
        """Add the instructions emitted so far to the module as the function ``name``, with the LLVM type ``result`` and
        the parameter list ``parameters``, which ends by returning ``value``. Return its symbol.
        """
        head = f"define internal {result} @{name}({parameters}) {{"
        return self.module.define(name, "\n".join([head, "entry:", *self.slots, *self.lines, f"  ret {value}", "}"]))


def _suffix(real: str) -> str:
    """Return the suffix of LLVM's intrinsic functions for the type `real`: "f64" for "double", else "f32"."""
    return "f64" if real == "double" else "f32"


def factorized(module: Module) -> str:
    """Define in ``module`` the LLVM function that overwrites a matrix by its LU factors with row pivoting, and stores
    the row exchanges in an extra row below. Return its symbol.
    """
    f = _MatrixFunction(module)
    largest, place = f.slot(f.real), f.slot("i64")
    with f.loop("0", "%n") as k:
        following = f.add(k, "1")
        f.store(f.absolute(f.entry(k, k)), largest)
        f.line(f"store i64 {k}, ptr {place}")
        with f.loop(following, "%n") as i:
            own = f.absolute(f.entry(i, k))
            with f.when(lambda: f.compare("ogt", own, f.load(largest))):
                f.store(own, largest)
                f.line(f"store i64 {i}, ptr {place}")
        other = f.new(f"load i64, ptr {place}")
        f.store(f.new(f"sitofp i64 {other} to {f.real}"), f.pointer("%f", "%n", "%n", k))
        with f.when(lambda: f.new(f"icmp ne i64 {other}, {k}")):
            f.exchange("%f", k, other, "%n")
        pivot = f.entry(k, k)
        with f.when(lambda: f.compare("une", pivot, "0.0")), f.loop(following, "%n") as i:
            target = f.pointer("%f", i, "%n", k)
            factor = f.compute("fdiv", f.load(target), pivot)
            f.store(factor, target)
            f.subtract("%f", i, factor, k, (following, "%n"), "%n")
    return f.define("factorized", "void", "ptr %f, i64 %n", "void")


def solved(module: Module, is_transposed: bool) -> str:
    """Define the LLVM function that solves linear systems, given the factors of the matrix, and return its symbol. It
    overwrites the right-hand sides ``%x`` by the solutions, or returns `SINGULAR`. With `is_transposed`, it solves the
    systems of the transposed matrix.
    """
    f = _MatrixFunction(module)
    code = f.slot("i32")
    f.line(f"store i32 0, ptr {code}")

    def exchange(k: str) -> None:
        """Emit the exchange of row ``k`` of the right-hand sides with another row: the one that step ``k`` of the
        factorization exchanged with row ``k`` of the matrix (pivoting). ``k`` is an LLVM value.
        """
        other = f.exchanged(k)
        with f.when(lambda: f.new(f"icmp ne i64 {other}, {k}")):
            f.exchange("%x", k, other, "%m")

    def eliminate(row: str, low: str, high: str) -> None:
        """Emit ``x[row] -= A[row, k]*x[k]`` for k from ``low`` to ``high - 1``: subtract the rows that are already
        solved from row ``row`` of the right sides.
        """
        with f.loop(low, high) as k:
            f.subtract("%x", row, f.entry(k, row) if is_transposed else f.entry(row, k), k, ("0", "%m"), "%m")

    def divide(row: str) -> None:
        """Emit a loop that divides the row number ``row`` of the right sides by the diagonal entry of the triangular
        matrix in this row. If the entry is 0, the emitted code stores the error code for a singular matrix.
        """
        diagonal = f.entry(row, row)
        with f.when(lambda: f.compare("oeq", diagonal, "0.0")):
            f.line(f"store i32 {SINGULAR}, ptr {code}")
        with f.loop("0", "%m") as column:
            target = f.pointer("%x", row, "%m", column)
            f.store(f.compute("fdiv", f.load(target), diagonal), target)

    if not is_transposed:
        with f.loop("0", "%n") as k:
            exchange(k)
    with f.loop("0", "%n") as row:
        eliminate(row, "0", row)
        if is_transposed:
            divide(row)
    with f.loop("0", "%n", -1) as row:
        eliminate(row, f.add(row, "1"), "%n")
        if not is_transposed:
            divide(row)
    if is_transposed:
        with f.loop("0", "%n", -1) as k:
            exchange(k)
    name = "solved.transposed" if is_transposed else "solved"
    return f.define(name, "i32", "ptr %f, ptr %x, i64 %n, i64 %m", f"i32 {f.new(f'load i32, ptr {code}')}")


def determinant(module: Module, function: str) -> str:
    """Define the LLVM function that computes "det", "logdet" or "logabsdet" of a matrix from its factors, and return
    its symbol.
    """
    f = _MatrixFunction(module)
    value, negative = f.slot(f.real), f.slot("i1")
    f.store("1.0" if function == "det" else "0.0", value)
    f.line(f"store i1 false, ptr {negative}")
    with f.loop("0", "%n") as k:
        entry = f.entry(k, k)
        size = f.absolute(entry)
        if function == "det":
            f.store(f.compute("fmul", f.load(value), size), value)
        else:
            logarithm = f.call(f.real, f"llvm.log.{_suffix(f.real)}", [size], f.real)
            f.store(f.compute("fadd", f.load(value), logarithm), value)
        sign, moved = f.compare("olt", entry, "0.0"), f.new(f"icmp ne i64 {f.exchanged(k)}, {k}")
        both = f.new(f"xor i1 {sign}, {moved}")
        before = f.new(f"load i1, ptr {negative}")
        f.line(f"store i1 {f.new(f'xor i1 {before}, {both}')}, ptr {negative}")
    found, is_negative = f.load(value), f.new(f"load i1, ptr {negative}")
    if function == "det":
        found = f.new(f"select i1 {is_negative}, {f.real} {f.compute('fneg', found)}, {f.real} {found}")
    elif function == "logdet":
        is_zero = f.compare("oeq", found, "0xFFF0000000000000")
        wrong = f.new(f"and i1 {is_negative}, {f.new(f'xor i1 {is_zero}, true')}")
        found = f.new(f"select i1 {wrong}, {f.real} 0x7FF8000000000000, {f.real} {found}")
    return f.define(function, f.real, "ptr %f, i64 %n", f"{f.real} {found}")


class LlvmAlgebraPrinter(LlvmNestPrinter):
    """The printer of the LLVM function of a linear-algebra step (inverse, determinant, factors, solution), which
    handles the matrices of a batch one by one.
    """

    def print_algebra(self, step: Solve | Apply) -> None:
        """Append the LLVM instructions of an inverse, a determinant, the factors of a matrix or a solution."""
        self.step = step
        self.add_code_slot()
        self.operand = step.operand if isinstance(step, Apply) else step.left.array
        *batch, self.n, _ = self.shapes[self.operand]
        self.n -= bool(step.factored)
        is_factorization = isinstance(step, Apply) and step.function == "factors"
        if not step.factored and not is_factorization:
            self.allocate("factors", (self.n + 1, self.n))
        axes = self.right_axes(step) if isinstance(step, Solve) else [("row", self.n), ("column", self.n)]
        needs_columns = isinstance(step, Solve) or step.function == "inv"
        if needs_columns:
            self.allocate("columns", [extent for _, extent in axes])
        with self.axes([(f"batch {place}", extent) for place, extent in enumerate(batch)]) as index:
            if is_factorization:
                self.factorize(step.array, index)
                return
            if step.factored:
                factors = self.entry_pointer(self.operand, [*index, Affine(), Affine()])
            else:
                self.factorize("factors", [], index)
                factors = self.arrays["factors"]
            if isinstance(step, Apply) and not needs_columns:
                symbol = determinant(self.module, step.function)
                value = self.new(f"call {self.real} @{symbol}(ptr {factors}, i64 {self.form(self.n)})")
                self.store(value, [index[axis] for axis in step.axes] if step.axes else index)
            else:
                self.solve(factors, axes, index)

    def right_axes(self, step: Solve) -> list[tuple[str, Affine]]:
        """Return the axes of the right sides of a system as pairs of name and extent: the axis along the rows of the
        matrix, then the axes of the columns. Batch axes are left out.
        """
        *batch, first, second = step.left.labels
        self.summed, self.free = (second, first) if first in step.output else (first, second)
        extents = dict(zip(step.right.labels, self.shapes[step.right.array], strict=True))
        rest = [label for label in step.output if label != self.free and label not in batch]
        return [("row", self.n), *((f"column {label}", extents[label]) for label in rest)]

    @contextmanager
    def axes(self, axes: Sequence[tuple[str, Affine]]) -> Iterator[list[Affine]]:
        """Context manager: emit nested loops over ``axes``, pairs ``(name, extent)``, and yield the loop variables."""
        with ExitStack() as stack:
            for name, extent in axes:
                self.values[name] = stack.enter_context(self.loop("0", self.form(extent)))
            yield [Affine.variable(name) for name, _ in axes]

    def load(self, array: str, index: Sequence[Affine]) -> str:
        """Emit the read of an array entry, and return its value."""
        return self.new(f"load {self.real}, ptr {self.entry_pointer(array, index)}")

    def store(self, value: str, index: Sequence[Affine]) -> None:
        """Emit code that stores ``value`` in an entry of the result, after multiplication by the constant factor of the
        linear algebra step.
        """
        if self.step.factor != 1:
            factor = real_text(float(self.step.factor), self.real)
            value = self.new(f"fmul {FLAGS} {self.real} {value}, {factor}")
        self.line(f"store {self.real} {value}, ptr {self.entry_pointer(self.step.array, index)}")

    def factorize(self, target: str, place: Sequence[Affine], source: Sequence[Affine] = ()) -> None:
        """Emit code that copies one matrix of the operand to ``target[place]`` and computes the triangular factors of
        the copy, in place. ``source`` is the batch index of the matrix, by default ``place``.
        """
        with self.axes([("row", self.n), ("column", self.n)]) as index:
            value = self.load(self.operand, [*(source or place), *index])
            self.line(f"store {self.real} {value}, ptr {self.entry_pointer(target, [*place, *index])}")
        pointer = self.entry_pointer(target, [*place, Affine(), Affine()])
        self.line(f"call void @{factorized(self.module)}(ptr {pointer}, i64 {self.form(self.n)})")

    def solve(self, factors: str, axes: Sequence[tuple[str, Affine]], batch: Sequence[Affine]) -> None:
        """Emit code that solves linear systems, given the triangular ``factors`` of the matrix: the systems of a
        `Solve` step or, for an inverse, those whose right sides are the unit matrix.

        ``axes`` are the names and extents of the axes of a right side, ``batch`` is the index in the batch.
        """
        step, is_transposed = self.step, False
        source: Callable[[Sequence[Affine]], str]
        target: Callable[[Sequence[Affine]], Sequence[Affine]]
        if isinstance(step, Solve):
            *labels, first, _ = step.left.labels
            is_transposed = first == self.summed
            columns = [label for label in step.output if label != self.free and label not in labels]

            def full_index(of: Sequence[int], index: Sequence[Affine]) -> list[Affine]:
                """Return the index of an entry, including that of the current batch, in the order of the axes of its
                array, whose labels are `of`. `index` has the indices of all other axes.

                Batch axes have the index of the current batch, the other axes the values in `index`: first that of the
                system, then those of the right sides.
                """
                known = dict(zip([*labels, self.summed, *columns], [*batch, *index], strict=True))
                return [known[self.summed if label == self.free else label] for label in of]

            source = lambda index: self.load(step.right.array, full_index(step.right.labels, index))  # noqa: E731
            target = lambda index: full_index(step.output, index)  # noqa: E731
        else:

            def source(index: Sequence[Affine]) -> str:
                """Return the entry of the unit matrix at `index`: 1 on the diagonal, 0 elsewhere."""
                row, column = (self.form(one) for one in index)
                is_one = self.new(f"icmp eq i64 {row}, {column}")
                return self.new(f"select i1 {is_one}, {self.real} 1.0, {self.real} 0.0")

            def target(index: Sequence[Affine]) -> Sequence[Affine]:
                """Return the index at which the array of the result stores the entry `index` of the solution: the batch
                indices and `index`, in the order of the result's axes.
                """
                found = [*batch, *index]
                return [found[axis] for axis in step.axes] if step.axes else found

        with self.axes(axes) as index:
            value = source(index)
            self.line(f"store {self.real} {value}, ptr {self.entry_pointer('columns', index)}")
        count = self.entries([extent for _, extent in axes[1:]])
        arguments = f"ptr {factors}, ptr {self.arrays['columns']}, i64 {self.form(self.n)}, i64 {count}"
        self.add_code(self.new(f"call i32 @{solved(self.module, is_transposed)}({arguments})"))
        with self.axes(axes) as index:
            self.store(self.load("columns", index), target(index))
