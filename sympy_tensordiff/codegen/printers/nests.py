"""Statements as Python loops, for the backends that compile scalar Python (Numba on CPU and GPU)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from sympy_tensordiff.codegen.loops import Accumulator, Add, AddAt, If, Kernel, Let, Loop, Statement, Store
from sympy_tensordiff.codegen.printers.base import ScalarPrinter, start_text
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.forms import Names
from sympy_tensordiff.codegen.scalars import External, Load, Scalar
from sympy_tensordiff.codegen.walk import EXTREMA
from sympy_tensordiff.integer.affine import Affine

WIDENED = frozenset({"sign", "heaviside", "floor", "ceil", "cbrt", "sigmoid", "softplus"})
"""Functions whose value may have another type than their argument has."""


class NestPrinter(ScalarPrinter):
    """The body of one kernel as nested Python loops."""

    functions: ClassVar[dict[str, str]] = {
        "max": "maximum", "min": "minimum", "abs": "abs", "sign": "sign", "heaviside": "heaviside",
        "exp": "math.exp", "log": "math.log", "sqrt": "math.sqrt", "sin": "math.sin", "cos": "math.cos",
        "tan": "math.tan", "arcsin": "math.asin", "arccos": "math.acos", "arctan": "math.atan",
        "arctan2": "math.atan2", "sinh": "math.sinh", "cosh": "math.cosh", "tanh": "math.tanh",
        "arcsinh": "math.asinh", "arccosh": "math.acosh", "arctanh": "math.atanh", "erf": "math.erf",
        "erfc": "math.erfc", "gamma": "math.gamma", "lgamma": "math.lgamma", "expm1": "math.expm1",
        "log1p": "math.log1p", "log2": "math.log2", "log10": "math.log10", "cbrt": "cbrt", "hypot": "math.hypot",
        "sigmoid": "sigmoid", "softplus": "softplus",
    }  # fmt: skip
    """The texts of the functions, without ``floor`` and ``ceil``: `math` turns these into integers."""

    def __init__(self, names: Names, kernel: Kernel, bare: frozenset[str]) -> None:
        super().__init__(names)
        self.kernel = kernel
        self.bare = bare
        self.lines: list[str] = []
        self.loop_depth = 0

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
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
            self.loop_depth += 1
            self.loop(self.head_text(statement), statement.body, depth, statement.variable)
            self.loop_depth -= 1
        elif isinstance(statement, If):
            self.line(depth, self.head_text(statement))
            self.body(statement.body, depth + 1)
        elif isinstance(statement, Accumulator):
            self.line(depth, f"{self.name(statement.name)} = real({start_text(statement.reduction)})")
        elif isinstance(statement, Let):
            self.line(depth, f"{self.name(statement.name)} = {self.scalar(statement.value)}")
        elif isinstance(statement, Store):
            self.store(statement, depth)
        elif isinstance(statement, AddAt):
            self.add_at(statement, depth)
        elif isinstance(statement, Add):
            self.add(statement, depth)

    def loop(self, head: str, body: Sequence[Statement], depth: int, variable: str) -> None:
        """Append a loop."""
        self.line(depth, head)
        self.begin(variable, depth + 1)
        self.body(body, depth + 1)

    def begin(self, variable: str, depth: int) -> None:
        """Append what a pass of the loop over ``variable`` begins with; "" is before all loops."""

    def head_text(self, statement: Loop | If) -> str:
        """The line that a loop or a guard begins with."""
        if isinstance(statement, If):
            return f"if {' and '.join(self.condition(row) for row in statement.conditions)}:"
        low, stop = self.lower(statement.lows), self.stop(statement.highs)
        span = stop if low == "0" else f"{low}, {stop}"
        return f"for {self.names(statement.variable)} in range({span}):"

    def store(self, statement: Store, depth: int) -> None:
        """Append the line that writes the kernel's own entry."""
        entry = self.subscript(tuple(Affine.variable(axis) for axis in self.kernel.axes))
        self.line(depth, f"{self.names(self.kernel.array)}[{entry}] = {self.scalar(statement.value)}")

    def add_at(self, statement: AddAt, depth: int) -> None:
        """Append the line of one addition to an entry that data select."""
        entry = f"{self.names(self.kernel.array)}[{self.subscript(statement.index)}]"
        self.line(depth, f"{entry} += {self.scalar(statement.value)}")

    def add(self, statement: Add, depth: int) -> None:
        """Append the line that adds one value to an accumulator."""
        self.line(depth, self.reduced(statement))

    def reduced(self, statement: Add) -> str:
        """One more value of a reduction."""
        name = self.name(statement.name)
        if statement.reduction in EXTREMA:
            return f"{name} = {self.functions[statement.reduction]}({name}, {self.scalar(statement.value)})"
        return f"{name} {'+' if statement.reduction == 'sum' else '*'}= {self.scalar(statement.value)}"
