"""Kernels as functions for ``cuda.jit``, with one thread per value of the axes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sympy_tensordiff.codegen.emit.base import NestPrinter
from sympy_tensordiff.codegen.emit.driver import WORD, passed_names, task_text, text_up_to_renaming, without_unused_real
from sympy_tensordiff.codegen.emit.forms import CHOICE, PRODUCT, SUM, UNARY, FormNames, FormPrinter
from sympy_tensordiff.codegen.emit.helpers import TYPED_HELPERS, WARP_HELPERS
from sympy_tensordiff.codegen.ir.bounds import check_bounds
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.laws import NestLaws
from sympy_tensordiff.codegen.ir.loops import Barrier, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.programs import FusedKernels, Kernel, Scatter, kernels_of
from sympy_tensordiff.codegen.ir.scalars import Ends, External, IndexValue, Name, Scalar
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import filled_arrays, forms, function_name, own_names
from sympy_tensordiff.codegen.schedule.block_laws import check_blocks
from sympy_tensordiff.codegen.schedule.block_nests import block_nest
from sympy_tensordiff.codegen.schedule.blocks import BlockNest, alloc_shape, shared_size
from sympy_tensordiff.codegen.schedule.launches import common_axes, thread_nest
from sympy_tensordiff.codegen.schedule.shared_sums import SharedLoop
from sympy_tensordiff.codegen.schedule.split_reductions import SHORT
from sympy_tensordiff.integer.affine import Affine, quotient
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.products import slope, times


class CudaPrinter(NestPrinter):
    """Prints a kernel as a function for ``cuda.jit``; arrays are flat, in row-major order.

    Index arithmetic is what costs time on a device. Unsigned offsets need no case for negative indices; ``while`` needs
    one comparison and one addition per iteration, where ``range`` counts iterations in addition; and with 64-bit
    offsets the compiler finds their increments itself.

    ``passed_constants`` are the numbers of the ``constants`` that are parameters of the function; None for all of them.
    """

    functions: Mapping[str, str] = {**NestPrinter.functions, "floor": "floor", "ceil": "ceil", "real": "real"}

    def __init__(
        self, names: FormNames, step: Kernel | FusedKernels, shapes: Shapes, chosen: Collection[int] | None
    ) -> None:
        super().__init__(names.copy(), frozenset())
        self.shapes = shapes
        self.axes = common_axes(step)
        self.box = kernels_of(step)[0].box(shapes)[: len(self.axes)]
        self.needs_atomics = isinstance(step, Scatter) and not step.exclusive
        """Whether several threads may add to one entry."""
        self.own_variables = list(dict.fromkeys(name for kernel in kernels_of(step) for name in own_names(kernel)))
        self.passed_constants = chosen
        self.constants: list[Affine] = []
        """The parts of bounds and offsets that are the same in all threads, so that they may be parameters."""
        self.parameters: dict[str, Affine] = {}
        self.long_loops: set[str] = set()
        """The variables of loops with many iterations."""

    def named_constant(self, form: Affine, wish: str) -> str | None:
        """Make `form`, a value that all threads share, a parameter of the kernel, for which the host passes the value.
        Return the parameter's name, which is similar to `wish`; None if ``passed_constants`` excludes it, so that the
        kernel computes the value.

        In both cases, `form` is recorded in ``constants``.
        """
        number = len(self.constants)
        self.constants.append(form)
        if self.passed_constants is not None and number not in self.passed_constants:
            return None
        name = self.names.fresh(wish)
        self.parameters[name] = form
        return name

    def bound_text(self, form: Affine, level: int = CHOICE) -> str:
        """Return the text of a loop bound or number of threads: the name of a kernel parameter if the host passes its
        value, else a formula, in parentheses if needed next to an operator of the precedence ``level``.
        """
        passed = self.named_constant(form, "length") if self.is_constant(form) else None
        return passed or self.form(form, level)

    def is_constant(self, form: Affine) -> bool:
        """Return whether a form has the same value in all threads and iterations: it contains no axis, no loop variable
        and no array entry.
        """
        return form.atoms().isdisjoint(self.own_variables) and not data_entries([form])

    def print_threads(self, body: Sequence[Statement]) -> None:
        """Append the lines that compute the indices along the kernel's axes from the position of the thread in the
        grid, and then ``body``, the loop nest of one thread.
        """
        for _ in self.axes:
            (loop,) = body
            assert isinstance(loop, Loop)
            body = loop.body
        axes = [self.names(axis) for axis in self.axes]
        # Extents that axes are divided by: a division by a constant is a multiplication.
        many = self.box[:-3] and self.box[:-2]
        shape = [self.form(extent, UNARY) for extent in many]
        shape += [self.bound_text(extent, UNARY) for extent in self.box[len(many) :]]
        if len(axes) < 2:
            self.line(1, f"{axes[0] if axes else 'flat'} = cuda.grid(1)")
            self.line(1, f"if {axes[0]} < {shape[0]}:" if axes else "if flat == 0:")
            self.body(body, 2)
            return
        last, middle, outer = axes[-1], axes[-2], axes[0] if len(axes) == 3 else "flat"
        grid = [last, middle] if len(axes) == 2 else [last, "first_y", outer]
        self.line(1, f"{', '.join(grid)} = cuda.grid({len(grid)})")
        self.line(1, f"{', '.join(['_', 'step_y', 'step_z'][: len(grid)])} = cuda.gridsize({len(grid)})")
        self.line(1, f"if {last} < {shape[-1]}:")
        depth = 2
        if len(axes) > 2:
            self.line(2, f"while {outer} < {'*'.join(shape[:-2])}:")
            depth = 3
            self.print_delinearised([outer] if len(axes) == 3 else axes[:-2], outer, 3)
            self.line(3, f"{middle} = first_y")
        self.line(depth, f"while {middle} < {shape[-2]}:")
        self.body(body, depth + 1)
        self.line(depth + 1, f"{middle} += step_y")
        if len(axes) > 2:
            self.line(3, f"{outer} += step_z")

    def print_delinearised(self, axes: Sequence[str], flat: str, depth: int) -> None:
        """Append lines, indented by ``depth`` levels, that recover the indices ``axes`` from ``flat``, the number of an
        entry in row-major order, by division and remainder.
        """
        for number in range(len(axes) - 1, -1, -1):
            extent = self.form(self.box[number], UNARY)
            value = f"{flat} % {extent}" if number else flat
            if value != axes[number]:
                self.line(depth, f"{axes[number]} = {value}")
            flat = f"{flat}//{extent}"

    def place(self, array: str, index: Sequence[Affine]) -> str:
        """Return the text of the offset of the entry at ``index`` in the flat ``array``, in row-major order."""
        return self.strided_index(array, index) or self.horner_index(array, index)

    def strided_index(self, array: str, index: Sequence[Affine]) -> str:
        """Return the text of the offset of the entry at ``index`` in ``array`` as a sum of variables times strides,
        with kernel parameters for strides and the constant term where useful; "" if the offset has no such form, or
        none of them is a parameter.
        """
        shape = self.shapes[array]
        rest = sum((times(form, *shape[n:]) for n, form in enumerate(index, 1)), Affine())
        factors: list[tuple[str, Affine]] = []
        for name in self.own_variables:
            found = slope(rest, name)
            if found is None or not self.is_constant(found[0]):
                return ""
            factors += [(name, found[0])] if found[0] != Affine() else []
            rest = found[1]
        if not self.is_constant(rest):
            return ""
        texts = []
        for name, factor in factors:
            # In long loops, compilers fold constant strides into addresses, at no cost.
            is_number = name in self.long_loops and factor.is_constant
            texts.append((self.names(name), None if is_number else self.named_constant(factor, "stride"), factor))
        constant = None if rest == Affine() else self.named_constant(rest, "offset")
        if constant is None and all(text is None for _, text, _ in texts):
            return ""
        sums = [
            name if text is None and factor == Affine.of(1) else f"{text or self.form(factor, PRODUCT)}*{name}"
            for name, text, factor in texts
        ]
        sums += [] if rest == Affine() else [constant or self.form(rest, SUM)]
        return f"uint64({' + '.join(sums)})"

    def horner_index(self, array: str, index: Sequence[Affine]) -> str:
        """Return the offset of an entry in a flat array as text, by Horner's rule with one multiplication per axis."""
        total, text = Affine.of(0), ""
        for form, extent in zip(index, self.shapes[array], strict=True):
            if extent.is_constant and not text:
                total = total * extent.constant + form
                continue
            text = text or self.form(total, PRODUCT + 1)
            if text == "0":
                total, text = form, ""
                continue
            rest = "" if form == Affine.of(0) else " + " + self.form(form, SUM)
            text = f"({text}*{self.form(extent, PRODUCT + 1)}{rest})"
        text = text.removeprefix("(").removesuffix(")") if text else self.form(total)
        return text if text.isdecimal() else f"uint64({text})"

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
        """Return the text of the call of ``function`` with ``arguments``; typed helpers also get the type of their
        result.
        """
        if function in WARP_HELPERS:
            value, threads = arguments
            assert isinstance(threads, IndexValue)
            return f"{function}({self.scalar(value)}, {self.form(threads.form)})"
        if function in TYPED_HELPERS:
            return f"{function}({', '.join([*map(self.argument, arguments), 'real'])})"
        return super().call(function, arguments)

    def data(self, entry: IndirectIndex) -> str:
        """Return the CUDA expression that reads `entry`, an entry of a flat integer array that is used as an index of
        another array.
        """
        return f"{self.names(entry.tensor)}[{self.place(entry.tensor, entry.index)}]"

    def set_text(self, statement: Set) -> str:
        """Return an assignment; an atomic update if several threads may add to the entry."""
        target = statement.target
        if isinstance(target, Name) or not self.needs_atomics:
            return super().set_text(statement)
        assert not isinstance(statement.value, Ends)
        place = self.place(target.array, target.index)
        function = {"sum": "add"}.get(statement.reduction, statement.reduction)
        return f"cuda.atomic.{function}({self.names(target.array)}, {place}, real({self.scalar(statement.value)}))"

    def statement(self, statement: Statement, depth: int) -> None:
        """Append the lines of a statement at the indentation ``depth``; loops are ``while`` loops."""
        if isinstance(statement, Barrier):
            self.line(depth, "cuda.syncthreads()")
            return
        if not isinstance(statement, Loop):
            super().statement(statement, depth)
            return
        variable, stop = self.names(statement.variable), self.stop_text(statement)
        self.line(depth, f"{variable} = {self.lower(statement.lows)}")
        if not stop.isalnum():
            end = self.names.fresh(f"{variable}_stop")
            self.line(depth, f"{end} = {stop}")
            stop = end
        self.line(depth, f"while {variable} < {stop}:")
        self.body(statement.body, depth + 1)
        self.line(depth + 1, f"{variable} += {self.form(Affine.of(statement.step))}")

    def stop_text(self, loop: Loop) -> str:
        """Return the text of the end of a loop (exclusive). A constant that makes the loop short stays a literal, so
        that compilers can unroll the loop.
        """
        form, *others = (quotient(bound.form, bound.divisor) + 1 for bound in loop.highs)
        if not others and form.is_constant and form.constant < SHORT:
            return self.stop(loop.highs)
        self.long_loops.add(loop.variable)
        return self.stop(loop.highs) if others else self.bound_text(form)


class CudaPythonLoopPrinter(CudaPrinter):
    """Prints a kernel in a time step of a recurrence as a Python function for ``cuda.jit``. A block of threads, which
    runs the whole loop over time, calls it in each step; the threads divide the entries of the array among them.

    ``batch`` is the number of the batch axis, or None.
    """

    def __init__(self, names: FormNames, step: Kernel | FusedKernels, shapes: Shapes, batch: int | None) -> None:
        super().__init__(names, step, shapes, ())
        self.batch = batch

    def print_threads(self, body: Sequence[Statement]) -> None:
        """Append the lines that compute the indices along the kernel's axes from the position of the thread in its
        block, and then ``body``, the loop nest of one thread.
        """
        for _ in self.axes:
            (loop,) = body
            assert isinstance(loop, Loop)
            body = loop.body
        axes, depth = list(map(self.names, self.axes)), 1
        if self.batch is not None:
            extent = self.box[self.batch]
            self.line(1, f"{axes[self.batch]} = {BATCH}")
            self.line(1, f"if {axes.pop(self.batch)} < {self.form(extent)}:")
            self.box, depth = (*self.box[: self.batch], *self.box[self.batch + 1 :]), 2
        entry = axes[0] if len(axes) == 1 else self.names.fresh("entry")
        self.line(depth, f"{entry} = cuda.threadIdx.x")
        self.line(depth, f"while {entry} < {'*'.join(self.form(extent, UNARY) for extent in self.box) or '1'}:")
        if axes[1:]:
            self.print_delinearised(axes, entry, depth + 1)
        self.body(body, depth + 1)
        self.line(depth + 1, f"{entry} += cuda.blockDim.x")


BATCH = "cuda.blockIdx.x*cuda.blockDim.y + cuda.threadIdx.y"
"""The entry of the batch that a thread of a loop over time works on."""


class CudaPythonBlockPrinter(CudaPrinter):
    """Prints the loop nest of a kernel in which the threads of a block share memory, as a function for ``cuda.jit``."""

    def __init__(
        self,
        names: FormNames,
        step: Kernel | FusedKernels,
        nest: BlockNest,
        shapes: Shapes,
        chosen: Collection[int] | None,
    ) -> None:
        super().__init__(names, step, {**shapes, **{a.name: alloc_shape(a) for a in nest.shared}}, chosen)
        self.nest = nest
        coordinates = [name for name, _ in (*nest.blocks, *nest.entries, nest.x, nest.y)]
        own = own_names(replace(kernels_of(step)[0], body=nest.body))
        self.own_variables = list(dict.fromkeys([*coordinates, *own]))

    def print_threads(self, body: Sequence[Statement]) -> None:
        """Append the Python lines of the kernel's body: declarations of arrays in shared memory, the coordinates of the
        thread, and then the loop nest ``body``.
        """
        nest = self.nest
        for alloc in nest.shared:
            self.line(1, f"{self.names(alloc.name)} = cuda.shared.array({shared_size(alloc)}, real)")
        for name, (variable, _) in zip("xy", (nest.x, nest.y), strict=True):
            if any(variable in form.atoms() for form in forms(body)):
                self.line(1, f"{self.names(variable)} = cuda.threadIdx.{name}")
        flat = "cuda.blockIdx.x"
        flat += f"*cuda.blockDim.{nest.along} + cuda.threadIdx.{nest.along}" if nest.along else ""
        axes = [*nest.blocks, *nest.entries]
        if len(axes) > 1:
            number = self.names.fresh("number")
            self.line(1, f"{number} = {flat}")
            flat = number
        self.box = tuple([extent for _, extent in axes])
        self.print_delinearised([self.names(axis) for axis, _ in axes], flat, 1)
        self.body(body, 1)


# ---------------------------------------------------------------------------- functions


def _needed_extents(step: Kernel | FusedKernels, shapes: Shapes, nest: BlockNest | None = None) -> list[Affine]:
    """Return the axis lengths that the GPU kernel of ``step`` needs: those of the grid of threads, and those of its
    arrays except along their first axes. ``shapes`` maps arrays to shapes.

    `nest` is the loop nest for blocks of threads, if they share memory.
    """
    arrays = (*filled_arrays(step), *uses(step).arrays)
    box = [extent for kernel in kernels_of(step) for extent in kernel.box(shapes)]
    box += [extent for _, extent in nest.coordinates] if nest is not None else []
    return [*box, *(extent for array in arrays for extent in shapes[array][1:])]


def checked_nest(step: Kernel | FusedKernels, prover: Prover) -> tuple[Statement, ...]:
    """Return ``step`` as a loop nest for GPU threads, after verification. Raise VerificationError if, for example, two
    threads write the same entry or an access is out of bounds.
    """
    nest = thread_nest(step, prover.shapes)
    # Scatters add to entries atomically, or are verified separately to write distinct entries.
    totals = [step.array] if isinstance(step, Scatter) else []
    NestLaws(known_names(step, prover.shapes), filled_arrays(step), totals=totals).check(nest)
    check_bounds(nest, step, prover)
    return nest


def known_names(step: Kernel | FusedKernels, shapes: Shapes) -> set[str]:
    """Return the names that have a value at the start of the kernel of a step: scalars and arrays passed to it, and the
    sizes in its shapes.
    """
    used = uses(step)
    sizes = {str(name) for extent in _needed_extents(step, shapes) for name in extent.atoms()}
    return {*used.scalars, *used.integers, *used.arrays, *sizes, *([step.array] if isinstance(step, Scatter) else [])}


class KernelText(NamedTuple):
    """The text of a GPU kernel, with the arguments that the host passes and the names in use.

    ``constants`` are integer forms in the text, such as strides, that are equal in all threads: the host could compute
    them and pass them as arguments instead.
    """

    text: str
    arguments: list[str]
    constants: tuple[Affine, ...]
    names: FormNames


class GpuKernel(NamedTuple):
    """The data to print a GPU kernel: a ``step`` of the program, its loop ``nest`` for threads or for blocks of
    threads, and ``names``, which maps the program's names to identifiers.
    """

    step: Kernel | FusedKernels
    nest: tuple[Statement, ...] | BlockNest
    names: FormNames


def gpu_kernels(
    steps: Sequence[Kernel | FusedKernels], names: FormNames, prover: Prover, shared_loops: Mapping[str, SharedLoop]
) -> Iterator[GpuKernel]:
    """Yield each step as a GPU kernel with its loop nest, which has been verified: all accesses are in bounds, and
    threads do not race. ``shared_loops`` maps arrays to sums whose terms the threads of a block share.
    """
    for step in steps:
        local = names.copy()
        blocks = block_nest(step, shared_loops, prover.shapes, local.fresh)
        if blocks is None:
            yield GpuKernel(step, checked_nest(step, prover), local)
        else:
            check_blocks(blocks, step, prover, known_names(step, prover.shapes))
            yield GpuKernel(step, blocks, local)


def kernel_functions(kernels: Sequence[GpuKernel], shapes: Shapes) -> Iterator[KernelText]:
    """Yield the printed function of each GPU kernel. Kernels that are equal up to integer constants, such as strides,
    get equal texts, with these constants as parameters.
    """
    open_ = [_kernel_text(*kernel, shapes, None) for kernel in kernels]
    patterns = [text_up_to_renaming(printed.text, printed.names.texts) for printed in open_]
    alike: dict[str, list[tuple[Affine, ...]]] = {}
    for key, printed in zip(patterns, open_, strict=True):
        alike.setdefault(key, []).append(printed.constants)
    for kernel, key in zip(kernels, patterns, strict=True):
        columns = enumerate(zip(*alike[key], strict=True))
        differ = [number for number, column in columns if len(set(column)) > 1]
        yield _kernel_text(*kernel, shapes, differ)


def _kernel_text(
    step: Kernel | FusedKernels,
    nest: tuple[Statement, ...] | BlockNest,
    names: FormNames,
    shapes: Shapes,
    chosen: Collection[int] | None,
) -> KernelText:
    """Return the text of the GPU function that computes ``step`` by the loop nest ``nest``.

    Integer forms with the same value in all threads are numbered; those with numbers in ``chosen`` (None: all) become
    parameters of the function.
    """
    if not isinstance(nest, BlockNest):
        printer = CudaPrinter(names, step, shapes, chosen)
        threads = "one thread per point" if isinstance(step, Scatter) else "one thread per entry"
        if isinstance(step, FusedKernels):
            threads = f"one thread per {', '.join(map(names, printer.axes))}"
        return _function_text(printer, step, names, nest, threads, _needed_extents(step, shapes))
    threads = "in tiles of a block" if nest.tiles else "sums shared by the threads of a block"
    threads = "a block per row" if isinstance(step, FusedKernels) else threads
    printer = CudaPythonBlockPrinter(names, step, nest, shapes, chosen)
    return _function_text(printer, step, names, nest.body, threads, _needed_extents(step, shapes, nest))


def loop_kernel_text(step: Kernel | FusedKernels, names: FormNames, prover: Prover, batch: int | None) -> KernelText:
    """Return the CUDA device function in which the threads of one block compute the kernel ``step`` of a time step, for
    a recurrence whose whole loop over time runs on the GPU. ``batch`` is the number of the batch axis, or None.
    """
    nest, extents = checked_nest(step, prover), _needed_extents(step, prover.shapes)
    printer = CudaPythonLoopPrinter(names.copy(), step, prover.shapes, batch)
    return _function_text(printer, step, names, nest, "by the threads of a block", extents)


def _function_text(
    printer: CudaPrinter,
    step: Kernel | FusedKernels,
    names: FormNames,
    body: Sequence[Statement],
    threads: str,
    extents: Sequence[Affine],
) -> KernelText:
    """Return the text of the GPU function that computes ``step`` by the loop nest ``body``. Its parameters are the
    names that occur in the text or in the forms ``extents``.

    ``threads`` says in its docstring which threads compute it.
    """
    first, *others = (task_text(k, names) for k in kernels_of(step) if k.array in filled_arrays(step))
    tasks = ", ".join([first, *(other.removeprefix("Fill ") for other in others)])
    printer.line(1, f'"""{tasks}, {threads}."""')
    printer.line(1, f"real = {names(filled_arrays(step)[0])}.dtype.type")
    printer.print_threads(body)
    words = set(WORD.findall("\n".join(printer.lines)))
    own = [name for name in passed_names(step, names, extents) if name in words]
    head = f"def {function_name(step)}({', '.join([*own, *printer.parameters])}):"
    arguments = [*own, *map(FormPrinter(names).form, printer.parameters.values())]
    text = "\n".join(without_unused_real([head, *printer.lines]))
    return KernelText(text, arguments, tuple(printer.constants), printer.names)
