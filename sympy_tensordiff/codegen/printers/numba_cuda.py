"""CUDA through ``numba.cuda``: one thread per entry, the last axis on ``threadIdx.x``.

No locks: every entry is written by the thread it belongs to. Only a scatter, where data select the entries, has
atomic additions. The text is the same for a device and for Numba's simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy_tensordiff.codegen.in_loops import calls_in_loops
from sympy_tensordiff.codegen.loops import (
    AddAt,
    Apply,
    CofactorTangent,
    External,
    Kernel,
    Load,
    Loop,
    Program,
    Scalar,
    Scatter,
    Statement,
    Step,
    Store,
)
from sympy_tensordiff.codegen.printers.cuda_driver import LAUNCH, LAUNCH_NAMES, compute_text, device_names, run_text
from sympy_tensordiff.codegen.printers.driver import (
    header,
    helpers,
    imports,
    labels,
    module_names,
    passed_names,
    task_text,
    without_unused_real,
)
from sympy_tensordiff.codegen.printers.forms import PRODUCT, SUM, UNARY, Names
from sympy_tensordiff.codegen.printers.helpers import CUDA_HELPERS, TYPED_HELPERS
from sympy_tensordiff.codegen.printers.nests import NestPrinter
from sympy_tensordiff.codegen.walk import array_shapes, function_name, uses
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.data import DataEntry

Shapes = Mapping[str, tuple[Affine, ...]]

OWN_NAMES = LAUNCH_NAMES | {"math", "cuda", "uint64", "real", "ARGUMENTS", "flat"}
OWN_NAMES |= {"first_y", "first_z", "step_y", "step_z", *CUDA_HELPERS}


class CudaPrinter(NestPrinter):
    """A kernel as a function for ``cuda.jit``, over arrays of one axis that hold the entries in order.

    What costs on a device is the arithmetic of indices. An unsigned place has no case for negative ones; ``while``
    has one comparison and one addition in a round, where ``range`` counts rounds beside; and with places of 64 bits
    the compiler finds out on its own by how much each of them grows.
    """

    functions = NestPrinter.functions | {"floor": "floor", "ceil": "ceil"}

    def __init__(self, names: Names, kernel: Kernel, shapes: Shapes) -> None:
        super().__init__(names.copy(), kernel, frozenset())
        self.shapes = shapes

    def threads(self) -> None:
        """Append the lines that give each axis its value from the thread's place in the grid, and the body."""
        axes = [self.names(axis) for axis in self.kernel.axes]
        shape = [self.form(extent, UNARY) for extent in self.kernel.box(self.shapes)]
        if len(axes) < 2:
            self.line(1, f"{axes[0] if axes else 'flat'} = cuda.grid(1)")
            self.line(1, f"if {axes[0]} < {shape[0]}:" if axes else "if flat == 0:")
            self.body(self.kernel.body, 2)
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
            rest = "flat"
            for axis in range(len(axes) - 3, 0, -1):
                self.line(3, f"{axes[axis]} = {rest} % {shape[axis]}")
                rest = f"{rest}//{shape[axis]}"
            if len(axes) > 3:
                self.line(3, f"{axes[0]} = {rest}")
            self.line(3, f"{middle} = first_y")
        self.line(depth, f"while {middle} < {shape[-2]}:")
        self.body(self.kernel.body, depth + 1)
        self.line(depth + 1, f"{middle} += step_y")
        if len(axes) > 2:
            self.line(3, f"{outer} += step_z")

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

    def store(self, statement: Store, depth: int) -> None:
        place = self.place(self.kernel.array, [Affine.variable(axis) for axis in self.kernel.axes])
        self.line(depth, f"{self.names(self.kernel.array)}[{place}] = {self.scalar(statement.value)}")

    def add_at(self, statement: AddAt, depth: int) -> None:
        array, place = self.names(self.kernel.array), self.place(self.kernel.array, statement.index)
        if isinstance(self.kernel, Scatter) and self.kernel.exclusive:
            self.line(depth, f"{array}[{place}] += {self.scalar(statement.value)}")
        else:
            self.line(depth, f"cuda.atomic.add({array}, {place}, real({self.scalar(statement.value)}))")

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
        self.line(depth + 1, f"{variable} += 1")


def print_program(program: Program) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program`` on a CUDA device."""
    program = calls_in_loops(program)
    names = module_names(program, OWN_NAMES | device_names(program))
    shapes = array_shapes(program)
    pieces = helpers(program, CudaPrinter.functions, CUDA_HELPERS, "@cuda.jit(device=True)\n")
    parameters = {}
    for step in program.kernels:
        if not isinstance(step, Kernel):
            raise UnsupportedError(f"{_refused(step)} on a CUDA device: use backend='numba' or 'numpy'")
        parameters[function_name(step)] = passed_names(step, names, _extents(step, shapes))
        pieces.append(_kernel(step, shapes, names, parameters[function_name(step)]))
    pieces += [LAUNCH.strip("\n"), compute_text(program, names, parameters), run_text(program, names)]
    last = f"from numba import cuda{', uint64' * any('uint64(' in piece for piece in pieces)}"
    top = [header(program, "cuda", names), imports(pieces, last), labels(program, names)]
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"


def _extents(kernel: Kernel, shapes: Shapes) -> list[Affine]:
    """What tells where entries stand, and which threads have one."""
    arrays = (kernel.array, *uses(kernel).arrays)
    return [*kernel.box(shapes), *(extent for array in arrays for extent in shapes[array][1:])]


def _kernel(kernel: Kernel, shapes: Shapes, names: Names, parameters: Sequence[str]) -> str:
    printer = CudaPrinter(names, kernel, shapes)
    printer.line(0, f"@cuda.jit\ndef {function_name(kernel)}({', '.join(parameters)}):")
    what = "thread per point" if isinstance(kernel, Scatter) else "thread per entry"
    printer.line(1, f'"""{task_text(kernel, names)}, one {what}."""')
    printer.line(1, f"real = {names(kernel.array)}.dtype.type")
    printer.threads()
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
