"""Nests as Python loops, for the backends that compile scalar Python (Numba on CPU and GPU)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from sympy_tensordiff.codegen.emit.base import ScalarPrinter
from sympy_tensordiff.codegen.emit.forms import ATOM, INDENT, Names
from sympy_tensordiff.codegen.ir.loops import Ends, If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.nests import FALSE, INFINITY
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.scalars import External, Load, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import EXTREMA
from sympy_tensordiff.integer.affine import Affine

WIDENED = frozenset({"sign", "heaviside", "floor", "ceil", "cbrt", "sigmoid", "softplus"})
"""Functions whose value may have another type than their argument has."""


class NestPrinter(ScalarPrinter):
    """Nests of `Loop`, `If` and `Set` as Python loops."""

    functions: Mapping[str, str] = {
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

    of_integers: ClassVar[Mapping[str, str]] = {"max": "max", "min": "min"}
    """The texts of the functions of integers."""

    false: ClassVar[str] = "False"

    def __init__(self, names: Names, kernel: Kernel, bare: frozenset[str]) -> None:
        super().__init__(names)
        self.kernel = kernel
        self.bare = bare
        self.lines: list[str] = []

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
        if isinstance(statement, Loop | If):
            self.line(depth, self.head_text(statement))
            self.body(statement.body, depth + 1)
        elif isinstance(statement, Set):
            self.line(depth, self.set_text(statement))

    def head_text(self, statement: Loop | If) -> str:
        """The line that a loop or a guard begins with."""
        if isinstance(statement, If):
            return f"if {' and '.join(self.condition(row) for row in statement.conditions)}:"
        low, stop = self.lower(statement.lows), self.stop(statement.highs)
        span = stop if low == "0" else f"{low}, {stop}"
        return f"for {self.names(statement.variable)} in range({span}):"

    def set_text(self, statement: Set) -> str:
        """A value that is set, or one more value of a reduction."""
        target, reduction, value = statement.target, statement.reduction, statement.value
        own = self.name(target.name) if isinstance(target, Name) else self.load(target)
        text = self.integer_text(value) if isinstance(value, Ends) else self.scalar(value)
        if reduction in EXTREMA:
            functions = self.of_integers if isinstance(value, Ends) else self.functions
            return f"{own} = {functions[reduction]}({own}, {text})"
        # With "or", LLVM would see a branch.
        operator = {"any": "|", "sum": "+", "prod": "*"}.get(reduction, "")
        return f"{own} {operator}= {text}"

    def integer_text(self, ends: Ends) -> str:
        """An integer."""
        return self.lower(ends.lows) if ends.lows else self.stop(ends.highs)

    def operation(self, node: Operation) -> tuple[str, int]:
        if node == INFINITY:
            return self.constant("math.inf"), ATOM
        return (self.false, ATOM) if node == FALSE else super().operation(node)
