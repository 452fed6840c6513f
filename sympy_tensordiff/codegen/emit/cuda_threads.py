"""CUDA kernels as text: one thread per entry, the last axis on ``threadIdx.x``, arrays flat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy_tensordiff.codegen.emit.forms import PRODUCT, SUM, UNARY, Names
from sympy_tensordiff.codegen.emit.helpers import TYPED_HELPERS
from sympy_tensordiff.codegen.emit.nests import NestPrinter
from sympy_tensordiff.codegen.ir.loops import Ends, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.programs import Kernel, Scatter
from sympy_tensordiff.codegen.ir.scalars import External, Load, Name, Scalar
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
