"""Programs as CUDA C++ files: kernels, and functions of the host that check their arguments and launch the kernels.

The kernels are those of the module for ``numba.cuda``; arrays are in device memory. NVRTC compiles the kernels alone.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from sympy_tensordiff.codegen.emit.c import CFile, COptions, CSource, Refusal
from sympy_tensordiff.codegen.emit.c_library import c_helpers
from sympy_tensordiff.codegen.emit.c_nests import MATH_FUNCTIONS, CForms, CPrinter
from sympy_tensordiff.codegen.emit.c_recurrences import (
    BATCH,
    CRecurrencePrinter,
    CudaBlockRecurrencePrinter,
    CudaRecurrencePrinter,
)
from sympy_tensordiff.codegen.emit.c_steps import CStepPrinter, StepText
from sympy_tensordiff.codegen.emit.cuda_c_library import DEVICE_HELPERS, LAUNCH, LAUNCH_HELPERS, OWN_NAMES, PREAMBLE
from sympy_tensordiff.codegen.emit.cuda_nests import checked_nest, known_names
from sympy_tensordiff.codegen.emit.driver import Functions
from sympy_tensordiff.codegen.emit.forms import INDENT, SUM, UNARY, FormNames
from sympy_tensordiff.codegen.emit.helpers import WARP_HELPERS, called_by
from sympy_tensordiff.codegen.emit.recurrences import step_function
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import Barrier, If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.programs import (
    NO_POSITION,
    FusedKernels,
    Kernel,
    Program,
    Recurrence,
    Scatter,
    Step,
    kernels_of,
)
from sympy_tensordiff.codegen.ir.scalars import Ends, External, IndexValue, Load, Scalar
from sympy_tensordiff.codegen.ir.sizes import check_determined
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import forms as all_forms
from sympy_tensordiff.codegen.ir.walk import function_name, scalar_arrays
from sympy_tensordiff.codegen.schedule.block_laws import check_blocks
from sympy_tensordiff.codegen.schedule.block_nests import block_nest
from sympy_tensordiff.codegen.schedule.blocks import BlockNest, alloc_shape, shared_size
from sympy_tensordiff.codegen.schedule.cpu import Nest
from sympy_tensordiff.codegen.schedule.device_loops import MAX_BLOCK_OPERATIONS, BlockRecurrence, block_loop
from sympy_tensordiff.codegen.schedule.launches import common_axes, on_device
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.codegen.schedule.shared_sums import SharedLoop
from sympy_tensordiff.errors import ArgumentError, NotInCError
from sympy_tensordiff.integer.affine import Affine


def print_cuda_c(program: Program, options: COptions) -> CSource:
    """Return a program as the text of a CUDA C++ file, with its header; raise NotInCError for a step for which CUDA
    files have no routine. ``options`` has the name of the function and its number type.
    """
    if options.allocate:
        raise ArgumentError("allocate=True is for backend='c': a CUDA file has its scratch memory from the caller")
    if options.parallel is not None:
        raise ArgumentError("parallel= is not for backend='cuda_c', whose kernels run on all cores of a device")
    check_determined(program)
    return CudaFile(program, options).file_text()


class CudaTexts(CPrinter):
    """Base class of the printers of CUDA C kernels. It prints what these have in common: the computation of indices
    from the number of a thread, loops, calls and assignments.
    """

    language = "CUDA"
    has_pragmas = False
    needs_atomics = False
    """Whether several threads may add to one entry."""

    def __init__(self, names: FormNames, shapes: Shapes, nest: Nest, is_single: bool) -> None:
        super().__init__(names, shapes, nest, is_single, parallel=False)
        own = {name: text + "f" * is_single for name, text in MATH_FUNCTIONS.items()}
        self.functions = {**self.functions, **own, **{name: name for name in DEVICE_HELPERS}}

    def delinearised_lines(self, axes: Sequence[str], extents: Sequence[str], flat: str) -> list[str]:
        """Return the lines of C that compute the indices ``axes`` from ``flat``, the number of an entry in row-major
        order, by division and remainder. ``extents`` are the lengths of the axes.
        """
        lines = []
        for number in range(len(axes) - 1, -1, -1):
            lines.append(f"const ptrdiff_t {axes[number]} = {flat}{f' % {extents[number]}' if number else ''};")
            flat = f"{flat}/{extents[number]}"
        return lines

    def head_text(self, statement: Loop | If) -> str:
        """Return the head of a ``for`` or ``if`` statement. The step of a loop may be an integer variable."""
        if isinstance(statement, If) or isinstance(statement.step, int):
            return super().head_text(statement)
        own = self.names(statement.variable)
        bounds = f"ptrdiff_t {own} = {self.lower(statement.lows)}; {own} < {self.stop(statement.highs)}"
        return f"for ({bounds}; {own} += {self.form(statement.step)})"

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
        """Return the text of the call of ``function`` with ``arguments``. A helper that combines the values of threads
        of a warp also gets the number of these threads.
        """
        if function in WARP_HELPERS:
            value, threads = arguments
            assert isinstance(threads, IndexValue)
            return f"{function}({self.scalar(value)}, {self.form(threads.form)})"
        return super().call(function, arguments)

    def set_text(self, statement: Set) -> str:
        """Return an assignment; an atomic update if several threads may add to the entry."""
        if not isinstance(statement.target, Load) or not self.needs_atomics:
            return super().set_text(statement)
        assert not isinstance(statement.value, Ends)
        function = {"max": "raise_to", "min": "lower_to"}.get(statement.reduction, "atomicAdd")
        return f"{function}(&{self.load(statement.target)}, (real)({self.scalar(statement.value)}))"


class CudaCPrinter(CudaTexts):
    """Prints a kernel or fused kernels as the body of a ``__global__`` function, one thread per value of the axes."""

    def __init__(
        self, names: FormNames, prover: Prover, step: Kernel | FusedKernels, bare: frozenset[str], single: bool
    ) -> None:
        body = checked_nest(step, prover)
        self.axes = common_axes(step)
        self.box = kernels_of(step)[0].box(prover.shapes)[: len(self.axes)]
        for _ in self.axes:
            (loop,) = body
            assert isinstance(loop, Loop)
            body = loop.body
        super().__init__(names, prover.shapes, Nest((), body, bare), single)
        self.needs_atomics = isinstance(step, Scatter) and not step.exclusive
        self.print_threads(body)

    def print_threads(self, body: Sequence[Statement]) -> None:
        """Append the lines that compute the indices along the kernel's axes from the position of the thread in the
        grid, and then ``body``, the loop nest of one thread.
        """
        axes, extents = list(map(self.names, self.axes)), [self.form(extent, UNARY) for extent in self.box]
        heads = [f"for (ptrdiff_t {axis} = THREAD_Y; {axis} < {extent}; {axis} += THREADS_Y) {{"
                 for axis, extent in zip(axes[-2:-1], extents[-2:-1], strict=True)]  # fmt: skip
        if len(axes) > 2:
            outer = axes[0] if len(axes) == 3 else self.names.fresh("outer")
            heads.insert(
                0, f"for (ptrdiff_t {outer} = THREAD_Z; {outer} < {'*'.join(extents[:-2])}; {outer} += THREADS_Z) {{"
            )
            heads[1:1] = self.delinearised_lines(axes[:-2], extents, outer) if len(axes) > 3 else []
        if axes:
            self.line(1, f"const ptrdiff_t {axes[-1]} = THREAD_X;")
            heads.insert(0, f"if ({axes[-1]} < {extents[-1]}) {{")
        self.print_inside(heads, body)

    def print_inside(self, heads: Sequence[str], body: Sequence[Statement]) -> None:
        """Append the lines in `heads`, each of which may open a block with a brace, then the loop nest `body` inside of
        these blocks, and close them.
        """
        depth = 1
        for head in heads:
            self.line(depth, head)
            depth += head.endswith("{")
        begin = len(self.lines)
        self.print_block(body)
        self.lines[begin:] = [INDENT * (depth - 1) + line for line in self.lines[begin:]]
        while depth > 1:
            depth -= 1
            self.line(depth, "}")


class CudaLoopKernelPrinter(CudaCPrinter):
    """Prints a kernel of a recurrence as CUDA C for a block of threads that runs the whole loop over time: the threads
    divide the entries of each array among them. ``batch`` is the number of the batch axis, None without one.
    """

    def __init__(
        self,
        names: FormNames,
        prover: Prover,
        step: Kernel | FusedKernels,
        bare: frozenset[str],
        single: bool,
        batch: int | None,
    ) -> None:
        self.batch = batch
        super().__init__(names, prover, step, bare, single)

    def print_threads(self, body: Sequence[Statement]) -> None:
        """Append the lines that compute the indices along the kernel's axes from the position of the thread in its
        block, and then ``body``, the loop nest of one thread.
        """
        axes, extents = list(map(self.names, self.axes)), [self.form(extent, UNARY) for extent in self.box]
        heads = []
        if self.batch is not None:
            axis, extent = axes.pop(self.batch), extents.pop(self.batch)
            self.line(1, f"const ptrdiff_t {axis} = {BATCH};")
            heads.append(f"if ({axis} < {extent}) {{")
        entry = axes[0] if len(axes) == 1 else self.names.fresh("entry")
        heads.append(
            f"for (ptrdiff_t {entry} = threadIdx.x; {entry} < {'*'.join(extents) or '1'}; {entry} += blockDim.x) {{"
        )
        self.print_inside([*heads, *(self.delinearised_lines(axes, extents, entry) if axes[1:] else [])], body)


class CudaBlockPrinter(CudaTexts):
    """Prints the loop nest of a CUDA kernel in which the threads of a block share memory."""

    def __init__(
        self, names: FormNames, shapes: Shapes, nest: BlockNest, bare: frozenset[str], is_single: bool
    ) -> None:
        super().__init__(names, shapes, Nest((), nest.body, bare), is_single)
        for alloc in nest.shared:
            self.shapes[alloc.name] = list(alloc_shape(alloc))
            self.line(1, f"__shared__ real {names(alloc.name)}[{shared_size(alloc)}];")
        for name, thread in zip("xy", (nest.x, nest.y), strict=True):
            if any(thread[0] in form.atoms() for form in all_forms(nest.body)):
                self.line(1, f"const ptrdiff_t {names(thread[0])} = threadIdx.{name};")
        flat = "(ptrdiff_t)blockIdx.x" + f"*blockDim.{nest.along} + threadIdx.{nest.along}" * bool(nest.along)
        axes = [*nest.blocks, *nest.entries]
        if len(axes) > 1:
            own = names.fresh("number")
            self.line(1, f"const ptrdiff_t {own} = {flat};")
            flat = own
        for text in self.delinearised_lines([names(a) for a, _ in axes], [self.form(e, UNARY) for _, e in axes], flat):
            self.line(1, text)
        self.print_block(nest.body)

    def print_statement(self, statement: Statement, path: tuple[int, ...], kind: str) -> None:
        """Append the lines of a statement; a `Barrier` becomes ``__syncthreads()``.

        ``path`` has the numbers of the statement and of those around it in their blocks; ``kind`` is the C type that
        the statement declares, such as ``"real "``, or "".
        """
        if isinstance(statement, Barrier):
            self.line(len(path), "__syncthreads();")
        else:
            super().print_statement(statement, path, kind)


class CudaStepPrinter(CStepPrinter):
    """Prints the steps of a program as kernels of CUDA."""

    storage = 'extern "C" __global__'
    with_code = ()
    axes: Mapping[str, int] = {}
    """The axes of the batch of a recurrence that blocks run, see `BlockRecurrence`."""

    def step(self, step: Step) -> StepText:
        """Return the CUDA function for `step`, a `Kernel` or fused kernels. Raise NotInCError for a step of linear
        algebra.
        """
        if isinstance(step, Kernel | FusedKernels):
            return self.nest(step)
        raise NotInCError(
            f"CUDA files have no routine for {step.array}, which needs the factors of a matrix: use the backend "
            "'cuda' with CuPy, or 'c'"
        )

    shared_loops: Mapping[str, SharedLoop] = {}

    def block_nest(self, step: Step, names: FormNames) -> BlockNest | None:
        """Return the CUDA loop nest of ``step`` in which the threads of a block share memory, as a `BlockNest`; None if
        the step uses no shared memory.
        """
        return block_nest(step, self.shared_loops, self.prover.shapes, names.fresh)

    def nest(self, step: Kernel | FusedKernels) -> StepText:
        """Return the CUDA kernel of a step. It has one thread per entry or, if the step has a `block_nest` (a loop nest
        for a block of threads), copies entries to shared memory.
        """
        local, bare = self.names.copy(), scalar_arrays(self.program.arguments)
        if (nest := self.block_nest(step, local)) is not None:
            check_blocks(nest, step, self.prover, known_names(step, self.prover.shapes))
            lines = CudaBlockPrinter(local, self.prover.shapes, nest, bare, self.is_single).lines
        else:
            lines = CudaCPrinter(local, self.prover, step, bare, self.is_single).lines
        return self.function(step, lines, local, {})


class CudaLoopStepPrinter(CudaStepPrinter):
    """Prints the kernels in a time step of a recurrence as CUDA device functions, which a block of threads calls in its
    loop over time.
    """

    storage = "static __device__"

    def nest(self, step: Kernel | FusedKernels) -> StepText:
        """Return the CUDA device function in which the threads of a block compute the kernel ``step`` together. It is
        called in each step of a loop over time that runs on the GPU.
        """
        local, bare = self.names.copy(), scalar_arrays(self.program.arguments)
        batch = self.axes.get(kernels_of(step)[0].array)
        lines = CudaLoopKernelPrinter(local, self.prover, step, bare, self.is_single, batch).lines
        return self.function(step, lines, local, {})


class CudaFile(CFile):
    """Prints a program as a CUDA C++ file."""

    step_printer: ClassVar[type[CudaStepPrinter]] = CudaStepPrinter
    """The printer of the kernels."""

    language = "CUDA C++"
    loop_printer: type[CRecurrencePrinter] = CudaRecurrencePrinter
    own_names = OWN_NAMES
    stream_parameters: tuple[str, ...] = ("cudaStream_t stream",)

    @property
    def last_code(self) -> str:
        """The C expression that the function of all steps returns: the negative of the last CUDA error. For the body of
        a recurrence it is 0, because the function of the whole program checks for errors.
        """
        if self.is_body:
            return "0"
        return f"-(int)cuda{'Peek' if self.is_search else 'Get'}{'At' * self.is_search}LastError()"

    def __init__(self, program: Program, options: COptions, is_search: bool = False) -> None:
        self.shared_loops: Mapping[str, SharedLoop] = {}
        super().__init__(program, options, is_search)
        self.loops: dict[str, tuple[BlockRecurrence, str]] = {}
        """The recurrences that blocks run, by their arrays, and the texts of the launches."""
        self.steps = self.step_printer(
            self.program, self.prover, self.names, self.integers, options.dtype == "float32", False
        )
        self.steps.shared_loops = self.shared_loops
        self.printer = self.steps

    def scheduled(self, program: Program) -> tuple[Program, Prover]:
        """Return the program with one step per kernel launch, and the prover for its nests."""
        program, _, _, self.shared_loops = on_device(prepared(program, "cuda"))
        return program, Prover(program)

    def file_text(self) -> CSource:
        """Return the text of the whole file, with its header."""
        source = super().file_text()
        text = source.replace("*restrict ", "*__restrict__ ")
        for name in called_by([text], c_helpers([text]) | DEVICE_HELPERS):
            head = rf"^static (inline )?(?=\w+ {name}\()"
            text = re.sub(head, "static __host__ __device__ inline ", text, flags=re.MULTILINE)
        changed = CSource(text)
        include = "#include <stdint.h>\n"
        changed.header = source.header.replace(include, f"{include}\nstruct CUstream_st;\n", 1)
        return changed

    def with_helpers(self, pieces: list[str]) -> list[str]:
        """Return the texts of a CUDA file: the device helpers that the kernels in ``pieces`` call, the kernels, and
        then the host functions in ``pieces`` with their helpers.
        """
        pieces = [text for piece in pieces for text in piece.split("\n\n")]
        is_kernel = [re.search("^.*__(global|device)__", text, re.MULTILINE) is not None for text in pieces]
        host = [text for text, is_own in zip(pieces, is_kernel, strict=True) if not is_own]
        kernels = [text for text, is_own in zip(pieces, is_kernel, strict=True) if is_own]
        launching = list(called_by(host, LAUNCH_HELPERS).values())
        known = c_helpers(pieces) | DEVICE_HELPERS
        helpers = called_by(kernels, known)
        others = [text for name, text in called_by([*host, *launching], known).items() if name not in helpers]
        start, end = ["#ifndef __CUDACC_RTC__", LAUNCH, *others, *launching, 'extern "C" {'], ["}", "#endif"]
        return [*helpers.values(), *kernels, *start, *host, *end]

    def preamble(self, pieces: Sequence[str]) -> str:
        """Return the first lines of a CUDA file: includes, number type and macros. They do not depend on ``pieces``,
        the texts of its functions.
        """
        return PREAMBLE.format(type=self.type)

    def prototype(self, head: str) -> str:
        """Return the prototype for the header file of the function that begins with ``head``, without CUDA's types."""
        return head.replace("cudaStream_t ", "struct CUstream_st *")

    @property
    def function_name_pattern(self) -> str:
        r"""The replacement by which ``re.sub`` renames a kernel, in which ``\1`` is the old name: the name of the
        file's function is put in front, so that names are unique also if several files are linked.
        """
        return rf"{self.options.name}_\1"

    def usage_lines(self, unknown: str) -> list[str]:
        """Return the lines of the comment that explains to the caller of the CUDA function its arrays, return codes and
        scratch memory. ``unknown`` is the text about return code 5, or "".
        """
        name = self.options.name
        return [
            "   Arrays and scratch are on the device, arrays dense, the last axis first in memory, and share none.",
            f"   {name} launches kernels on the stream, for which it waits only to check integers and",
            "   symmetric matrices. It returns 0, or 1 where sizes do not fit (an axis without entries, too), 2 where",
            f"   integers may lead a read out of an array, or a matrix is not symmetric{unknown}, and the negative",
            f"   of a cudaError_t where CUDA fails. {name}_unchecked does not look for 1, 2 and 5.",
            f"   scratch: as many numbers as {name}_scratch says, at an address as of cudaMalloc. */",
        ]

    def scratch_function(self, memory: tuple[dict[str, str], list[str]]) -> str:
        """Return the C function that computes the number of entries of the scratch memory. ``memory`` is a pair: a
        dictionary from temporaries to their numbers of entries, and a list of those of the steps' work memory, all as C
        text.
        """
        if any(a.symmetric or (a.dtype == "integer" and a.shape) for a in self.program.arguments):
            memory = {"": f"greatest({' + '.join(memory[0].values()) or '0'}, 4)"}, memory[1]
        return super().scratch_function(memory)

    def search_entries(self, search: CFile) -> str:
        """Return the C expression for the length of the buffer that the search for out-of-bounds indices in the C file
        `search` needs: one entry for each of its results, plus scratch memory.
        """
        return f"{len(search.program.outputs)} + {super().search_entries(search)}"

    def step_text(self, step: Step) -> StepText:
        """Return the kernel of a step, or the functions that run a recurrence; raise NotInCError for a routine of
        linear algebra.
        """
        if not isinstance(step, Recurrence):
            return super().step_text(step)
        loop = block_loop(step)
        found = None if loop is None else self.in_blocks(loop)
        if loop is not None and found is not None and loop.is_small:
            return found
        host = self.recurrence(step)
        *pieces, own = host.text.rpartition(f"{self.printer.storage} ")
        head, _, body = own.partition(") {")
        host = host._replace(text=f"{pieces[0]}static {head}, cudaStream_t stream) {{{body}")
        if found is None:
            return host
        ((name, size),), (most,) = host.work.items(), found.work.values()
        return host._replace(text=f"{found.text}\n\n{host.text}", work={name: f"greatest({size}, {most})"})

    def in_blocks(self, loop: BlockRecurrence) -> StepText:
        """Return the CUDA kernel in which blocks of threads run the whole recurrence `loop`, all time steps included.
        Record in ``loops`` the recurrence and the code that launches this kernel.
        """
        step = loop.step
        name = f"{self.options.name}_{step_function(step)}_in_block"
        body = CudaLoopBody(step.body, replace(self.options, name=name))
        body.batch_axes = body.steps.axes = loop.axes
        found = self.loop_over_time(step, body, CudaBlockRecurrencePrinter)
        own = f"{self.options.name}_{function_name(step)}_in_blocks"
        text = found.text.replace("*restrict ", "*").replace(f" {function_name(step)}(", f" {own}(")
        entries = self.forms.integers("max", [self.product(extents) for extents in loop.entries])
        shape = f"{entries}, {'0' if loop.batch is None else self.forms.form(loop.batch)}"
        passed = ", ".join([*found.passed, "work"])
        launch = f"LAUNCH({own}, grid_of_loop({shape}), block_of_loop({shape}), stream, {passed});"
        self.loops[step.array] = loop, launch
        return found._replace(text=text)

    def product(self, extents: Sequence[Affine]) -> str:
        """Return a product of extents as C text."""
        return "*".join(self.forms.form(extent, UNARY) for extent in extents) or "1"

    def step_call(self, step: Step, found: StepText, functions: Functions) -> Iterator[str]:
        """Yield the lines of C code that launch the kernel of ``step``, or call the function of a recurrence. A launch
        that may have no threads is guarded by a condition.

        ``functions`` returns the call of a step's function as text.
        """
        function, _, rest = functions(step).partition("(")
        if isinstance(step, Recurrence):
            loop, launch = self.loops.get(step.array, (None, ""))
            call = f"{function}({rest[:-1]}, stream);"
            if loop is None or loop.is_small:
                yield f"{INDENT}{launch or call}"
                return
            operations = " + ".join(map(self.product, loop.operations))
            yield f"{INDENT}if ({operations} <= {MAX_BLOCK_OPERATIONS}) {{"
            yield from (f"{INDENT * 2}{launch}", f"{INDENT}}} else {{", f"{INDENT * 2}{call}", f"{INDENT}}}")
            return
        assert isinstance(step, Kernel | FusedKernels)
        nest = self.steps.block_nest(step, self.names.copy())
        if nest is not None:
            yield from self.block_launch(function, rest, nest)
            return
        box = kernels_of(step)[0].box(self.prover.shapes)[: len(common_axes(step))]
        own = [self.forms.form(extent) for extent in box[-2:]]
        shape = ", ".join([self.forms.entries(box[:-2]), *["1"] * (2 - len(own)), *own])
        text = f"LAUNCH({function}, grid_for({shape}), block_for({shape}), stream, {rest};"
        some = self.temporaries.nonempty_condition(box)
        yield from [f"{INDENT}if ({some}) {{", f"{INDENT * 2}{text}", f"{INDENT}}}"] if some else [INDENT + text]

    def block_launch(self, function: str, rest: str, nest: BlockNest) -> Iterator[str]:
        """Yield the lines that launch ``function``, the kernel of a nest, with the needed number of blocks; ``rest`` is
        the text of its arguments. If there may be no blocks, a test guards the lines.
        """
        form = self.forms.form
        grid = self.forms.entries(nest.grid)
        if nest.along:
            height = (nest.x if nest.along == "x" else nest.y)[1]
            grid = f"({grid} + {form(height - 1, SUM)})/({form(height)})"
        block = ", ".join(f"(unsigned)({form(extent)})" for _, extent in (nest.x, nest.y))
        text = f"LAUNCH({function}, dim3((unsigned)({grid})), dim3({block}), stream, {rest};"
        some = self.temporaries.nonempty_condition([extent for _, extent in (*nest.blocks, *nest.entries)])
        yield from [f"{INDENT}if ({some}) {{", f"{INDENT * 2}{text}", f"{INDENT}}}"] if some else [INDENT + text]

    # ------------------------------------------------------------------------ checks of data

    def asymmetry_refusals(self, array: str, length: str) -> Iterator[Refusal]:
        """Yield the `Refusal` items that refuse a call if the matrix ``array``, declared symmetric, is not: the
        declaration of a flag, the device test that sets it, and the refusal if it is set. ``length`` is the number of
        rows.
        """
        found = self.names.fresh(f"{array}_asymmetry")
        yield Refusal(f"{INDENT}int64_t {found};", 0)
        yield Refusal(f"find_asymmetry(&{found}, {array}, {length}, scratch, stream)", self.last_code)
        yield Refusal(found, 2)

    def range_of_data(self, array: str, count: str) -> Generator[Refusal, None, tuple[str, str]]:
        """Yield the lines (`Refusal`) that find the least and the greatest of the ``count`` entries of the integer
        ``array`` on the device. Return the C expressions of both values (the result of ``yield from``).
        """
        found = self.names.fresh(f"{array}_range")
        yield Refusal(f"{INDENT}int64_t {found}[2];", 0)
        yield Refusal(f"find_range({found}, {array}, {count}, scratch, stream)", self.last_code)
        return f"(ptrdiff_t){found}[0]", f"(ptrdiff_t){found}[1]"

    def search_refusals(self, search: CFile, forms: CForms) -> Iterator[Refusal]:
        """Yield the lines that run the search for out-of-bounds entries of integer arrays on the device, and then the
        `Refusal` of a call with such an entry. The kernels of the search are in the file ``search``; ``forms`` prints
        conditions.
        """
        count = len(search.program.outputs)
        found = self.names.fresh("found")
        yield Refusal(f"{INDENT}real {found}[{count}] = {{{', '.join([f'(real){NO_POSITION!r}'] * count)}}};", 0)
        suspects = " || ".join(f"({forms.conditions(check.violation)})" for check in self.program.data_checks)
        arguments = self.argument_texts()[: -2 - len(self.program.outputs)]
        places = [f"scratch + {number}" for number in range(count + 1)]
        call = f"{search.options.name}_unchecked({', '.join([*arguments, *places, 'stream'])})"
        copy = f"copied({found}, scratch, sizeof {found}, stream)"
        yield Refusal(f"({suspects}) && ({call} || {copy})", self.last_code)
        yield Refusal(" || ".join(f"{found}[{number}] < (real){NO_POSITION!r}" for number in range(count)), 2)


class CudaLoopBody(CudaFile):
    """Prints the CUDA device functions of one time step of a recurrence that each block of threads runs by itself. A
    barrier follows each kernel, since the next kernel reads its results.
    """

    step_printer = CudaLoopStepPrinter
    loop_printer = CudaBlockRecurrencePrinter
    entry_storage = "static __device__"
    stream_parameters = ()
    printer: CudaLoopStepPrinter

    def scheduled(self, program: Program) -> tuple[Program, Prover]:
        """Return ``(program, prover)``: the program unchanged, because `block_loop` has scheduled it already, and a
        prover of constraints for its loop nests.
        """
        return program, Prover(program)

    def step_text(self, step: Step) -> StepText:
        """Return the device function of `step`, a kernel or a recurrence within the time step."""
        return CFile.step_text(self, step)

    def step_call(self, step: Step, found: StepText, functions: Functions) -> Iterator[str]:
        """Yield the lines by which a block of threads calls the function of `step`, followed by a barrier.
        ``functions(step)`` is the text of the call; `found` is not used.
        """
        yield from (f"{INDENT}{functions(step)};", f"{INDENT}__syncthreads();")
