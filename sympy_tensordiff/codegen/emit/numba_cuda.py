"""CUDA through ``numba.cuda``: one thread per entry, also of the parts of long sums.

No locks: every entry is written by the thread it belongs to. Only a scatter, where data select the entries, has
atomic additions. The text is the same for a device and for Numba's simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.emit.base import NestPrinter
from sympy_tensordiff.codegen.emit.cuda_library import (
    IMPORT,
    library_lines,
    library_pieces,
    require_library,
)
from sympy_tensordiff.codegen.emit.cuda_library import OWN_NAMES as LIBRARY_NAMES
from sympy_tensordiff.codegen.emit.driver import (
    Temporaries,
    header,
    helpers,
    imports,
    labels,
    module_names,
    passed_names,
    run_parameters,
    shape_text,
    size_lines,
    task_text,
    used_arguments,
    without_unused_real,
)
from sympy_tensordiff.codegen.emit.forms import INDENT, PRODUCT, SUM, UNARY, FormPrinter, Names
from sympy_tensordiff.codegen.emit.helpers import CUDA_HELPERS, TYPED_HELPERS
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import Loop, Set, Statement
from sympy_tensordiff.codegen.ir.nests import ZERO, NestLaws, span
from sympy_tensordiff.codegen.ir.programs import (
    Apply,
    Contraction,
    Correlation,
    Fused,
    Kernel,
    Product,
    Program,
    Scatter,
)
from sympy_tensordiff.codegen.ir.scalars import Ends, External, Load, Name, Scalar
from sympy_tensordiff.codegen.ir.steps import calls_in_loops
from sympy_tensordiff.codegen.ir.walk import array_shapes, function_name, uses
from sympy_tensordiff.codegen.schedule.stages import Stages, in_stages
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.data import DataEntry

Shapes = Mapping[str, tuple[Affine, ...]]


class CudaPrinter(NestPrinter):
    """A kernel as a function for ``cuda.jit``, over arrays of one axis that hold the entries in order.

    What costs on a device is the arithmetic of indices. An unsigned place has no case for negative ones; ``while``
    has one comparison and one addition in a round, where ``range`` counts rounds beside; and with places of 64 bits
    the compiler finds out on its own by how much each of them grows.
    """

    functions: Mapping[str, str] = {**NestPrinter.functions, "floor": "floor", "ceil": "ceil"}

    def __init__(self, names: Names, kernel: Kernel, shapes: Shapes) -> None:
        super().__init__(names.copy(), kernel, frozenset())
        self.shapes = shapes

    def threads(self, body: Sequence[Statement]) -> None:
        """Append the lines that give each axis its value from the thread's place in the grid, and the nest."""
        for _ in self.kernel.axes:
            (loop,) = body
            assert isinstance(loop, Loop)
            body = loop.body
        axes = [self.names(axis) for axis in self.kernel.axes]
        shape = [self.form(extent, UNARY) for extent in self.kernel.box(self.shapes)]
        if len(axes) < 2:
            self.line(1, f"{axes[0] if axes else 'flat'} = cuda.grid(1)")
            self.line(1, f"if {axes[0]} < {shape[0]}:" if axes else "if flat == 0:")
            self.body(body, 2)
            return
        last, middle = axes[-1], axes[-2]
        if len(axes) == 2:
            self.line(1, f"{last}, {middle} = cuda.grid(2)")
            self.line(1, "_, step_y = cuda.gridsize(2)")
        else:
            outer = axes[0] if len(axes) == 3 else "flat"
            self.line(1, f"{last}, first_y, {outer} = cuda.grid(3)")
            self.line(1, "_, step_y, step_z = cuda.gridsize(3)")
        self.line(1, f"if {last} < {shape[-1]}:")
        depth = 2
        if len(axes) > 2:
            self.line(2, f"while {outer} < {'*'.join(shape[:-2])}:")
            depth = 3
            self.mixed([outer] if len(axes) == 3 else axes[:-2], outer, 3)
            self.line(3, f"{middle} = first_y")
        self.line(depth, f"while {middle} < {shape[-2]}:")
        self.body(body, depth + 1)
        self.line(depth + 1, f"{middle} += step_y")
        if len(axes) > 2:
            self.line(3, f"{outer} += step_z")

    def mixed(self, axes: Sequence[str], flat: str, depth: int) -> None:
        """Append the lines that give several axes their values out of one number."""
        for number in range(len(axes) - 1, -1, -1):
            extent = self.form(self.kernel.box(self.shapes)[number], UNARY)
            value = f"{flat} % {extent}" if number else flat
            if value != axes[number]:
                self.line(depth, f"{axes[number]} = {value}")
            flat = f"{flat}//{extent}"

    def place(self, array: str, index: Sequence[Affine]) -> str:
        """Where an entry of an array stands: the last axis runs fastest."""
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
        if function in TYPED_HELPERS:
            return f"{function}({', '.join([*map(self.argument, arguments), 'real'])})"
        return super().call(function, arguments)

    def load(self, node: Load) -> str:
        return f"{self.names(node.array)}[{self.place(node.array, node.index)}]"

    def data(self, entry: DataEntry) -> str:
        return f"{self.names(entry.tensor)}[{self.place(entry.tensor, entry.index)}]"

    def set_text(self, statement: Set) -> str:
        target = statement.target
        is_met = isinstance(self.kernel, Scatter) and not self.kernel.exclusive
        if isinstance(target, Name) or not is_met:
            return super().set_text(statement)
        assert not isinstance(statement.value, Ends)
        place = self.place(target.array, target.index)
        return f"cuda.atomic.add({self.names(target.array)}, {place}, real({self.scalar(statement.value)}))"

    def statement(self, statement: Statement, depth: int) -> None:
        if not isinstance(statement, Loop):
            super().statement(statement, depth)
            return
        variable, stop = self.names(statement.variable), self.stop(statement.highs)
        self.line(depth, f"{variable} = {self.lower(statement.lows)}")
        if not stop.isalnum():
            end = self.names.fresh(f"{variable}_stop")
            self.line(depth, f"{end} = {stop}")
            stop = end
        self.line(depth, f"while {variable} < {stop}:")
        self.body(statement.body, depth + 1)
        self.line(depth + 1, f"{variable} += {self.form(Affine.of(statement.step))}")


# ---------------------------------------------------------------------------- modules


def print_program(program: Program) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program`` on a CUDA device."""
    calls: dict[str, Product | Apply] = {step.array: step for step in program.kernels if isinstance(step, Contraction)}
    stages = in_stages(calls_in_loops(program))
    program = stages.program
    own = {f"library_{function_name(step)}" for step in program.kernels} | device_names(program)
    names = module_names(program, OWN_NAMES | own)
    shapes = array_shapes(program)
    pieces = helpers(program, CudaPrinter.functions, CUDA_HELPERS, "@cuda.jit(device=True)\n")
    passed: dict[str, list[str]] = {}
    for step in program.kernels:
        if not isinstance(step, Kernel):
            assert not isinstance(step, Fused | Correlation)
            require_library(step)
            calls[step.array] = step
            continue
        passed[function_name(step)] = passed_names(step, names, _extents(step, shapes))
        pieces.append(_kernel(step, shapes, names, passed[function_name(step)]))
    pieces.append(LAUNCH.strip("\n"))
    pieces += library_pieces(list(calls.values()), program, names) if calls else []
    by_library = {array: library_lines(step, names, shapes) for array, step in calls.items()}
    pieces += [compute_text(stages, names, passed, by_library), run_text(program, names)]
    last = f"from numba import cuda{', uint64' * any('uint64(' in piece for piece in pieces)}"
    last += f"\n{IMPORT.rstrip()}" if calls else ""
    top = [header(program, "cuda", names), imports(pieces, last), labels(program, names)]
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"


def _extents(kernel: Kernel, shapes: Shapes) -> list[Affine]:
    """What tells where entries stand, and which threads have one."""
    arrays = (kernel.array, *uses(kernel).arrays)
    return [*kernel.box(shapes), *(extent for array in arrays for extent in shapes[array][1:])]


def _check(kernel: Kernel, nest: Sequence[Statement], shapes: Shapes) -> None:
    """Raise `VerificationError` where a nest breaks a law: among others, no two threads write one entry."""
    used, is_scatter = uses(kernel), isinstance(kernel, Scatter)
    sizes = {str(name) for extent in _extents(kernel, shapes) for name in extent.atoms()}
    known = {*used.scalars, *used.integers, *used.arrays, *sizes, *([kernel.array] if is_scatter else [])}
    # What scatters add to an entry is added atomically, or laws of their own say that they do not meet.
    totals = [kernel.array] if is_scatter else []
    NestLaws(known, [kernel.array], totals=totals).check(nest)


def _kernel(kernel: Kernel, shapes: Shapes, names: Names, parameters: Sequence[str]) -> str:
    printer = CudaPrinter(names, kernel, shapes)
    printer.line(0, f"@cuda.jit\ndef {function_name(kernel)}({', '.join(parameters)}):")
    what = "thread per point" if isinstance(kernel, Scatter) else "thread per entry"
    printer.line(1, f'"""{task_text(kernel, names)}, one {what}."""')
    printer.line(1, f"real = {names(kernel.array)}.dtype.type")
    nest = thread_nest(kernel, kernel.box(shapes))
    _check(kernel, nest, shapes)
    printer.threads(nest)
    return "\n".join(without_unused_real(printer.lines))


# ---------------------------------------------------------------------------- what launches kernels and moves arrays
# What launches the kernels of a CUDA module, and what moves arrays between host and device.


LAUNCH = '''
@functools.cache
def launch(shape):
    """The grid and the block for one thread per entry: last axis on x, the one before on y, the others on z."""
    if len(shape) < 2:
        entries = math.prod(shape)
        threads = min(256, fitting(entries))
        return -(-entries // threads), threads
    *outer, rows, columns = shape
    width = min(32, fitting(columns))
    height = min(256 // width, fitting(rows))
    # A block has at most 64 threads along z.
    depth = min(256 // (width*height), 64, fitting(math.prod(outer)))
    # A grid has at most 65535 blocks along y and z: the kernels stride over what is left.
    grid = -(-columns // width), min(-(-rows // height), 65535), min(-(-math.prod(outer) // depth), 65535)
    return grid, (width, height, depth)


def fitting(extent):
    """The least power of two that is not below the extent."""
    return 1 << (extent - 1).bit_length()
'''

LAUNCH_NAMES = frozenset({"functools", "np", "stream", "empty", "run", "run_on_device", "launch", "fitting"})

OWN_NAMES = LAUNCH_NAMES | LIBRARY_NAMES | {"cuda", "uint64", "real", "flat"}
OWN_NAMES |= {"first_y", "first_z", "step_y", "step_z", *CUDA_HELPERS}

# The results' names may have an underscore appended, so that both are kept free.
_DEVICE = ("_device", "__device")


def device_names(program: Program) -> set[str]:
    """What the arrays on the device are called."""
    return {f"{a.name}{tail}" for a in program.outputs for tail in _DEVICE}


def compute_text(
    stages: Stages,
    names: Names,
    passed: Mapping[str, Sequence[str]],
    by_library: Mapping[str, Sequence[str]],
) -> str:
    """The function that launches the kernels.

    ``passed`` are the parameters of their functions, by the names of these.
    ``by_library`` has lines that fill arrays otherwise, instead of kernels where there is the library.
    Where temporaries lie is left to the caller, whose library may have memory at hand.
    """
    program = stages.program
    temporaries = Temporaries(program, names)
    shapes = Prover(program).shapes
    lines = ['"""Launch the kernels on a stream; all arrays are on the device."""', *size_lines(program, names)]
    read = set(used_arguments(program))
    flat = [a for a in program.arguments if a.name in read] + list(program.outputs)
    lines += [f"{names(a.name)} = {names(a.name)}.reshape(-1)" for a in flat if len(a.shape) > 1]
    for kernel in program.kernels:
        made = None if isinstance(kernel, Scatter) else temporaries.get(kernel.array)
        new: list[str] = []
        if made is not None:
            dtype = f"{names(program.outputs[0].name)}.dtype"
            new = [f"{names(made.name)} = empty({temporaries.entries(made)}, {dtype}, stream=stream)"]
        whole = stages.whole.get(kernel.array)
        lines += new if whole is None else []
        if not isinstance(kernel, Kernel):
            lines += by_library[kernel.array]
            continue
        printer, box, function = FormPrinter(names), kernel.box(shapes), function_name(kernel)
        grid = f"(*launch({shape_text(box, printer)}), stream)"
        launch = [*(new if whole else []), f"{function}[{grid}]({', '.join(passed[function])})"]
        # A grid without blocks cannot be launched.
        uncertain = [f"{printer.form(extent)} > 0" for extent in box if not temporaries.is_positive(extent)]
        launch = [f"if {' and '.join(uncertain)}:", *(INDENT + line for line in launch)] if uncertain else launch
        if not isinstance(kernel, Scatter) and (whole or kernel.array) in by_library:
            launch = ["if cupy is None:", *(INDENT + line for line in launch)]
            if whole is None:
                launch += ["else:", *(INDENT + line for line in by_library[kernel.array])]
        lines += launch
    head = f"def run_on_device({', '.join(map(names, run_parameters(program)))}, stream=0, empty=cuda.device_array):"
    return "\n".join([head, *(INDENT + line for line in lines)])


def run_text(program: Program, names: Names) -> str:
    """The function that copies the arguments to the device and the results back."""
    read = {name for kernel in program.kernels for name in uses(kernel).arrays}
    lines = ['"""Fill the arrays behind the arguments, which lie in the memory of the host."""']
    passed = []
    for argument in program.arguments:
        name = names(argument.name)
        if argument.kind == "array" and argument.name in read:
            name = f"cuda.to_device({name if argument.shape else f'np.reshape({name}, 1)'}, stream)"
        passed.append(name)
    outputs = [(names(a.name), bool(a.shape)) for a in program.outputs]
    for name, ranked in outputs:
        shape = f"{name}.shape" if ranked else "1"
        lines.append(f"{name}_device = cuda.device_array({shape}, {name}.dtype, stream=stream)")
    lines.append(f"run_on_device({', '.join([*passed, *(f'{name}_device' for name, _ in outputs)])}, stream)")
    for name, ranked in outputs:
        lines.append(f"{name}_device.copy_to_host({name if ranked else f'{name}.reshape(1)'}, stream)")
    lines += ["if stream:", f"{INDENT}stream.synchronize()"]
    head = f"def run({', '.join(map(names, run_parameters(program)))}, stream=0):"
    return "\n".join([head, *(INDENT + line for line in lines)])


def thread_nest(kernel: Kernel, box: Sequence[Affine]) -> tuple[Statement, ...]:
    """A kernel with one thread for each entry: the last axis along x, the one before along y, the others along z."""
    body = kernel.body
    for number, (axis, extent) in enumerate(zip(reversed(kernel.axes), reversed(box), strict=True)):
        body = (replace(span(axis, ZERO, extent, body), bind=f"grid.{'xyz'[min(number, 2)]}"),)
    return body
