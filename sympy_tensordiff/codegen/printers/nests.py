"""Statements as Python loops, for the backends that compile scalar Python (Numba on CPU and GPU)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Program,
    Scalar,
    Statement,
    Store,
)
from sympy_tensordiff.codegen.printers.base import FormPrinter, Names, ScalarPrinter
from sympy_tensordiff.codegen.sizes import solve_sizes
from sympy_tensordiff.codegen.walk import array_shapes, loops, operations, scalar_arrays, statements
from sympy_tensordiff.integer.affine import Affine, quotient

INDENT = "    "

HELPERS: dict[str, str] = {
    "maximum": '''
def maximum(x, y):
    """The greater one; nan where one of them is nan."""
    return x if x >= y or x != x else y
''',
    "minimum": '''
def minimum(x, y):
    """The lesser one; nan where one of them is nan."""
    return x if x <= y or x != x else y
''',
    "sign": '''
def sign(x):
    """-1, 0 or 1; nan where x is nan."""
    return x if x != x else (x > 0) - (x < 0)
''',
    "heaviside": '''
def heaviside(x, at_zero):
    """0 or 1, at_zero at 0; nan where x is nan."""
    return x if x != x else at_zero if x == 0 else x > 0
''',
}
"""Functions that are printed into a module where it uses them."""


WIDENED = frozenset({"sign", "heaviside", "floor", "ceil"})
"""Functions whose value may have another type than their argument has."""


def program_names(program: Program) -> list[str]:
    """All names of a program in a stable order."""
    names = [a.name for a in program.arguments] + list(array_shapes(program))
    names += [solved.name for solved in solve_sizes(program.arguments)] + [size.name for size in program.sizes]
    for kernel in program.kernels:
        names += kernel.axes
        names += [loop.variable for loop in loops(kernel.body)]
        names += [s.name for s in statements(kernel.body) if isinstance(s, Let | Accumulator)]
    return list(dict.fromkeys(names))


class NestPrinter(ScalarPrinter):
    """The body of one kernel as nested Python loops."""

    functions: ClassVar[dict[str, str]] = {
        "max": "maximum", "min": "minimum", "abs": "abs", "sign": "sign", "heaviside": "heaviside",
        "floor": "np.floor", "ceil": "np.ceil",
        "arcsin": "math.asin", "arccos": "math.acos", "arctan": "math.atan", "arctan2": "math.atan2",
        "arcsinh": "math.asinh", "arccosh": "math.acosh", "arctanh": "math.atanh",
    } | {
        f: f"math.{f}"
        for f in "exp log sin cos tan sinh cosh tanh sqrt erf erfc gamma lgamma".split()
    }  # fmt: skip

    def __init__(self, names: Names, kernel: Kernel, program: Program) -> None:
        super().__init__(names)
        self.kernel = kernel
        self.bare = scalar_arrays(program.arguments)
        self.lines: list[str] = []

    def call(self, function: str, arguments: tuple[Scalar, ...]) -> str:
        text = super().call(function, arguments)
        return f"real({text})" if function in WIDENED else text

    def load(self, node: Load) -> str:
        name = self.names(node.array)
        return name if node.array in self.bare else f"{name}[{self.subscript(node.index)}]"

    def subscript(self, index: tuple[Affine, ...]) -> str:
        """What stands between the brackets of a read or of the store."""
        return ", ".join(self.form(form) for form in index) or "()"

    def body(self, body: Iterable[Statement], depth: int) -> None:
        """Append the lines of ``body``."""
        for statement in body:
            self.statement(statement, depth)

    def line(self, depth: int, text: str) -> None:
        """Append one line."""
        self.lines.append(INDENT * depth + text)

    def statement(self, statement: Statement, depth: int) -> None:
        """Append the lines of one statement."""
        if isinstance(statement, Loop):
            low, stop = self.lower(statement.lows), self.stop(statement.highs)
            span = stop if low == "0" else f"{low}, {stop}"
            self.line(depth, f"for {self.names(statement.variable)} in range({span}):")
            self.body(statement.body, depth + 1)
        elif isinstance(statement, If):
            self.line(depth, f"if {' and '.join(self.condition(row) for row in statement.conditions)}:")
            self.body(statement.body, depth + 1)
        elif isinstance(statement, Accumulator):
            self.line(depth, f"{self.names(statement.name)} = real(0)")
        elif isinstance(statement, Let):
            self.line(depth, f"{self.names(statement.name)} = {self.scalar(statement.value)}")
        elif isinstance(statement, Store):
            entry = self.subscript(tuple(Affine.variable(axis) for axis in self.kernel.axes))
            self.line(depth, f"{self.names(self.kernel.array)}[{entry}] = {self.scalar(statement.value)}")
        else:
            self.add(statement, depth)

    def add(self, statement: Add, depth: int) -> None:
        """Append the line of one addition to an accumulator."""
        self.line(depth, f"{self.names(statement.name)} += {self.scalar(statement.value)}")


def helpers(program: Program, functions: dict[str, str], decorator: str) -> list[str]:
    """The helper functions that the program needs, decorated, as pieces of the module's text."""
    used = operations(program)
    wanted = sorted({functions[f] for f in used if functions.get(f) in HELPERS})
    return [decorator + HELPERS[name] for name in wanted]


def sizes_text(program: Program, names: Names) -> list[str]:
    """Lines of the driver that read the sizes off the shapes and compute the others."""
    lines = []
    printer = FormPrinter(names)
    for solved in solve_sizes(program.arguments):
        axis = f"{names(solved.argument.name)}.shape[{solved.axis}]"
        length, sign = Affine.variable(axis), 1 if solved.coefficient > 0 else -1
        value = quotient((length - solved.rest) * sign, abs(solved.coefficient))
        text = FormPrinter(names, {axis: axis}).form(value)
        lines.append(f"{names(solved.name)} = {text}")
    for size in program.sizes:
        function, forms = ("max", size.lows) if size.lows else ("min", size.highs)
        texts = [printer.form(form) for form in forms]
        text = texts[0] if len(texts) == 1 else f"{function}({', '.join(texts)})"
        lines.append(f"{names(size.name)} = {text}")
    return lines


def shape_text(shape: tuple[Affine, ...], printer: FormPrinter) -> str:
    """A shape as a Python tuple."""
    inner = ", ".join(printer.form(form) for form in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def header(program: Program, backend: str, names: Names) -> list[str]:
    """The docstring of the module and the table of the user's names, which are data, never code."""
    printer = FormPrinter(names)
    lines = [f'"""Generated by sympy_tensordiff for the backend "{backend}".', ""]
    parameters = [a.name for a in program.arguments] + [a.name for a in program.outputs]
    lines += [f"``run({', '.join(map(names, parameters))})`` fills the arrays behind the arguments.", ""]
    for argument in program.arguments:
        what = f"array {shape_text(argument.shape, printer)}" if argument.kind == "array" else argument.kind
        lines.append(f"{names(argument.name)} : {what}")
    lines += [f"{names(a.name)} : array {shape_text(a.shape, printer)}, to be filled" for a in program.outputs]
    labels = "".join(f"{ascii(a.label)}, " for a in program.arguments)
    return [*lines, '"""', "", f"ARGUMENTS = ({labels.rstrip(' ')})"]
