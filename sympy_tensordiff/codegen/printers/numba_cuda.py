"""CUDA through ``numba.cuda``: one thread per entry, the last axis on ``threadIdx.x``.

No locks, no shared memory: every entry is written by the thread it belongs to. Only a scatter, where
data select the entries, has atomic additions. The text is the same for a device and for Numba's simulator.
"""

from __future__ import annotations

from sympy_tensordiff.codegen.in_loops import contractions_in_loops
from sympy_tensordiff.codegen.loops import AddAt, Apply, CofactorTangent, Kernel, Program, Scatter, Step
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.driver import (
    Temporaries,
    call_text,
    header,
    helpers,
    imports,
    labels,
    module_names,
    run_parameters,
    shape_text,
    size_lines,
    task_text,
    used_arguments,
    without_unused_real,
)
from sympy_tensordiff.codegen.printers.forms import UNARY, FormPrinter, Names
from sympy_tensordiff.codegen.printers.helpers import CUDA_HELPERS
from sympy_tensordiff.codegen.printers.nests import NestPrinter
from sympy_tensordiff.codegen.walk import array_shapes, function_name, scalar_arrays
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer.affine import Affine

LAUNCH = '''
def launch(shape):
    """The grid and the block for one thread per entry: last axis on x, the one before on y, the others on z."""
    if len(shape) < 2:
        entries = math.prod(shape)
        threads = min(256, fitting(entries))
        return -(-entries // threads), threads
    *outer, rows, columns = shape
    width = min(32, fitting(columns))
    height = min(256 // width, fitting(rows))
    # A grid has at most 65535 blocks along y and z: the kernels stride over what is left.
    grid = -(-columns // width), min(-(-rows // height), 65535), min(math.prod(outer), 65535)
    return grid, (width, height, 1)


def fitting(extent):
    """The least power of two that is not below the extent."""
    return 1 << (extent - 1).bit_length()
'''

OWN_NAMES = frozenset({
    "math", "cuda", "real", "run", "compute", "launch", "fitting", "ARGUMENTS", "flat",
    "first_y", "first_z", "step_y", "step_z", *CUDA_HELPERS,
})  # fmt: skip


MAXIMUM = CUDA_HELPERS["maximum"].strip("\n")

# The results' names may have an underscore appended, so that both are kept free.
_DEVICE = ("_device", "__device")


class CudaPrinter(NestPrinter):
    """A kernel as a function for ``cuda.jit``; arrays of rank 0 have one entry on the device."""

    functions = NestPrinter.functions | {"floor": "floor", "ceil": "ceil"}

    def subscript(self, index: tuple[Affine, ...]) -> str:
        return super().subscript(index) if index else "0"

    def add_at(self, statement: AddAt, depth: int) -> None:
        entry = self.subscript(statement.index)
        place = f"({entry})" if len(statement.index) > 1 else entry
        array = self.names(self.kernel.array)
        if isinstance(self.kernel, Scatter) and self.kernel.exclusive:
            super().add_at(statement, depth)
            return
        self.line(depth, f"cuda.atomic.add({array}, {place}, real({self.scalar(statement.value)}))")


def print_program(program: Program) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program`` on a CUDA device."""
    program = contractions_in_loops(program)
    names = module_names(program, OWN_NAMES | {f"{a.name}{tail}" for a in program.outputs for tail in _DEVICE})
    bare = scalar_arrays(program.arguments)
    pieces = helpers(program, CudaPrinter.functions, CUDA_HELPERS, "@cuda.jit(device=True)\n")
    sums = [step for step in program.kernels if isinstance(step, Apply) and step.function == "logsumexp"]
    if sums and not any(piece.endswith(MAXIMUM) for piece in pieces):
        pieces.append("@cuda.jit(device=True)\n" + MAXIMUM)
    for step in program.kernels:
        if isinstance(step, Kernel):
            pieces.append(_kernel(step, bare, names))
        elif step in sums:
            pieces.append(_logsumexp(step, names, len(array_shapes(program)[step.operand])))
        else:
            raise UnsupportedError(f"{_refused(step)} on a CUDA device: use backend='numba' or 'numpy'")
    pieces += [LAUNCH.strip("\n"), _compute(program, names), _run(program, names)]
    top = [header(program, "cuda", names), imports(pieces, "from numba import cuda"), labels(program, names)]
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"


def _kernel(kernel: Kernel, bare: frozenset[str], names: Names) -> str:
    printer = CudaPrinter(names, kernel, bare)
    printer.line(0, f"@cuda.jit\ndef {function_name(kernel)}{call_text(kernel, names)}:")
    what = "thread per point" if isinstance(kernel, Scatter) else "thread per entry"
    printer.line(1, f'"""{task_text(kernel, names)}, one {what}."""')
    printer.line(1, f"real = {names(kernel.array)}.dtype.type")
    if isinstance(kernel, Scatter):
        shape = [printer.form(extent, UNARY) for extent in kernel.extents]
    else:
        shape = _shape_texts(names(kernel.array), len(kernel.axes))
    depth = _axes(printer, shape, [names(axis) for axis in kernel.axes])
    printer.body(kernel.body, depth)
    return "\n".join(without_unused_real(printer.lines))


def _refused(step: Step) -> str:
    """What a library call computes that no kernel of one thread per entry does."""
    names = {"inv": "an inverse", "cofactor": "a cofactor", "det": "a determinant"}
    if isinstance(step, Apply):
        what = names.get(step.function, "the logarithm of a determinant")
    elif isinstance(step, CofactorTangent):
        what = names["cofactor"]
    else:
        what = "the solution of equations with a matrix (its inverse)"
    return f"{what} cannot be computed without a library for matrices, which there is none of"


def _logsumexp(step: Apply, names: Names, rank: int) -> str:
    """The kernel of ``log(sum(exp))``: one thread per entry, which runs over the other axes twice."""
    array, operand = names(step.array), names(step.operand)
    local = names.copy()
    own = [local.fresh(f"i{axis}") for axis in range(rank)]
    greatest, shift, total = map(local.fresh, ("greatest", "shift", "total"))
    kept = [name for axis, name in enumerate(own) if axis not in step.options]
    printer = CudaPrinter(local, Kernel(step.array, (), ()), frozenset())
    printer.line(0, f"@cuda.jit\ndef {function_name(step)}{call_text(step, names)}:")
    printer.line(1, f'"""Fill {array} with log(sum(exp({operand}))) over the axes {step.options}."""')
    printer.line(1, f"real = {array}.dtype.type")
    depth = _axes(printer, _shape_texts(array, len(kept)), kept)

    def loops(statement: str) -> None:
        for n, axis in enumerate(step.options):
            printer.line(depth + n, f"for {own[axis]} in range({operand}.shape[{axis}]):")
        printer.line(depth + len(step.options), statement)

    entry = f"{operand}[{', '.join(own)}]"
    printer.line(depth, f"{greatest} = real(-math.inf)")
    loops(f"{greatest} = maximum({greatest}, {entry})")
    printer.line(depth, f"{shift} = {greatest} if abs({greatest}) < math.inf else real(0)")
    printer.line(depth, f"{total} = real(0)")
    loops(f"{total} += math.exp({entry} - {shift})")
    printer.line(depth, f"{array}[{', '.join(kept) or '0'}] = math.log({total}) + {shift}")
    return "\n".join(printer.lines)


def _shape_texts(array: str, rank: int) -> list[str]:
    """The extents of an array."""
    return [f"{array}.shape[{axis}]" for axis in range(rank)]


def _axes(printer: NestPrinter, shape: list[str], axes: list[str]) -> int:
    """Lines that give each axis its value from the thread's place in the grid; the depth of what follows."""
    if len(axes) < 2:
        printer.line(1, f"{axes[0] if axes else 'flat'} = cuda.grid(1)")
        printer.line(1, f"if {axes[0]} < {shape[0]}:" if axes else "if flat == 0:")
        return 2
    last, middle = axes[-1], axes[-2]
    if len(axes) == 2:
        printer.line(1, f"{last}, first_y = cuda.grid(2)")
        printer.line(1, "_, step_y = cuda.gridsize(2)")
    else:
        printer.line(1, f"{last}, first_y, first_z = cuda.grid(3)")
        printer.line(1, "_, step_y, step_z = cuda.gridsize(3)")
    printer.line(1, f"if {last} < {shape[-1]}:")
    depth = 2
    if len(axes) == 3:
        printer.line(2, f"for {axes[0]} in range(first_z, {shape[0]}, step_z):")
        depth = 3
    elif len(axes) > 3:
        printer.line(2, f"for flat in range(first_z, {'*'.join(shape[:-2])}, step_z):")
        depth = 3
        for axis in range(len(axes) - 2):
            inner = "*".join(shape[axis + 1 : -2])
            text = f"flat // ({inner})" if inner else "flat"
            text = text.replace("(", "").replace(")", "") if "*" not in inner else text
            printer.line(3, f"{axes[axis]} = {text}" + (f" % {shape[axis]}" if axis else ""))
    printer.line(depth, f"for {middle} in range(first_y, {shape[-2]}, step_y):")
    return depth + 1


def _compute(program: Program, names: Names) -> str:
    """The function that launches the kernels over arrays that are on the device already."""
    temporaries = Temporaries(program, names)
    lines = ['"""Launch the kernels; all arrays are on the device."""', *size_lines(program, names)]
    dtype = f"{names(program.outputs[0].name)}.dtype"
    for kernel in program.kernels:
        name = names(kernel.array)
        temporary = temporaries.get(kernel.array)
        if isinstance(kernel, Scatter):
            lines += _scatter_launch(kernel, temporaries, names)
            continue
        launch = f"{function_name(kernel)}[launch({name}.shape)]{call_text(kernel, names)}"
        if temporary is None:
            lines.append(launch)
            continue
        lines.append(f"{name} = cuda.device_array({temporaries.shape(temporary, scalar='1')}, {dtype})")
        # A grid without blocks cannot be launched.
        lines += [f"if {name}.size:", INDENT + launch] if temporaries.may_be_empty(temporary) else [launch]
    head = f"def compute({', '.join(map(names, run_parameters(program)))}):"
    return "\n".join([head, *(INDENT + line for line in lines)])


def _scatter_launch(kernel: Scatter, temporaries: Temporaries, names: Names) -> list[str]:
    """The lines that launch a scatter: a thread for each point of its axes, if there are any."""
    printer = FormPrinter(names)
    grid = f"launch({shape_text(kernel.extents, printer)})"
    launch = f"{function_name(kernel)}[{grid}]{call_text(kernel, names)}"
    unsure = [printer.form(extent) for extent in kernel.extents if not temporaries.is_positive(extent)]
    return [f"if {' and '.join(f'{text} > 0' for text in unsure)}:", INDENT + launch] if unsure else [launch]


def _run(program: Program, names: Names) -> str:
    """The function that copies the arguments to the device and the results back."""
    outputs = [(names(a.name), bool(a.shape)) for a in program.outputs]
    bare = scalar_arrays(program.arguments)
    read = set(used_arguments(program))
    lines = ['"""Fill the arrays behind the arguments, which lie in the memory of the host."""']
    passed = []
    for argument in program.arguments:
        name = names(argument.name)
        is_array = argument.kind == "array" and argument.name not in bare
        passed.append(f"cuda.to_device({name})" if is_array and argument.name in read else name)
    for name, ranked in outputs:
        shape = f"{name}.shape" if ranked else "1"
        lines.append(f"{name}_device = cuda.device_array({shape}, {name}.dtype)")
    lines.append(f"compute({', '.join([*passed, *(f'{name}_device' for name, _ in outputs)])})")
    for name, ranked in outputs:
        lines.append(
            f"{name}_device.copy_to_host({name})" if ranked else f"{name}[()] = {name}_device.copy_to_host()[0]"
        )
    head = f"def run({', '.join(map(names, run_parameters(program)))}):"
    return "\n".join([head, *(INDENT + line for line in lines)])
