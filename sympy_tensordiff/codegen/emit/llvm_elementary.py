"""The elementary functions of `elementary` as LLVM IR, translated from their Python texts."""

from __future__ import annotations

import ast
import functools
import math
import struct

from sympy_tensordiff.codegen.emit.elementary import DOUBLE, FUNCTIONS, PARAMETERS, SINGLE

_ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_BITS = {ast.LShift: "shl", ast.BitAnd: "and"}
_TESTS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


def real_text(value: float, kind: str) -> str:
    """Return ``value`` as the exact hexadecimal text of an LLVM floating-point constant of type ``kind``."""
    if kind == "float" and math.isfinite(value):
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


@functools.cache
def elementary_text(name: str, kind: str) -> tuple[str, tuple[str, ...]]:
    """Return the LLVM text of an elementary function, such as exp, for the number type ``kind`` ("float" or "double"),
    and the names of the functions that it calls.
    """
    translation = _LlvmTranslation(kind)
    text = translation.function(name)
    return text, tuple(dict.fromkeys(translation.called))


class _LlvmTranslation:
    """Translates the Python text of one elementary function to LLVM IR. A value is a pair of its LLVM text and its kind
    of number, such as "real" or "whole".
    """

    def __init__(self, real: str) -> None:
        self.real = real
        self.precision = DOUBLE if real == "double" else SINGLE
        size = f"i{self.precision.bits}"
        self.types = {"real": real, "double": "double", "whole": size, "natural": size, "int64": "i64", "int32": "i32"}
        self.types["bool"] = "i1"
        self.values: dict[str, tuple[str, str]] = {}
        self.lines: list[str] = []
        self.called: list[str] = []

    def new(self, text: str) -> str:
        """Append an instruction, and return its value."""
        self.lines.append(f"  %t{len(self.lines)} = {text}")
        return f"%t{len(self.lines) - 1}"

    def function(self, name: str) -> str:
        """Return the LLVM text of the elementary function ``name``."""
        what, body = FUNCTIONS[name]
        self.values = {parameter: (f"%{parameter}", "real") for parameter in PARAMETERS[name]}
        tree = ast.parse("\n".join(line.strip() for line in body(self.precision).splitlines()))
        for statement in tree.body:
            if isinstance(statement, ast.Return):
                assert statement.value is not None
                result = self.as_kind(self.value(statement.value), "real")
            else:
                assert isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
                self.values[statement.targets[0].id] = self.value(statement.value)
        given = ", ".join(f"{self.real} %{parameter}" for parameter in PARAMETERS[name])
        head = f"define internal {self.real} @{name}.{self.real}({given}) alwaysinline {{ ; {what}"
        return "\n".join([head, *self.lines, f"  ret {self.real} {result}", "}"])

    def as_kind(self, value: tuple[str, str], kind: str) -> str:
        """Return the text of `value`, a pair ``(text, kind)`` of LLVM code, as an operand of the type `kind`: a literal
        is written in that type. Emit code that extends a single-precision number to double if that is needed.
        """
        text, own = value
        if own == "number":
            return text if kind not in ("real", "double") else real_text(float(text), self.types[kind])
        if self.types[own] == self.types[kind]:
            return text
        if own == "literal":
            return real_text(float(text), self.types[kind])
        assert (own, kind) == ("real", "double")
        return self.new(f"fpext float {text} to double")

    def common(self, left: tuple[str, str], right: tuple[str, str]) -> tuple[str, str, str]:
        """Return ``(left text, right text, kind)`` of two values converted to their common kind."""
        kinds = [left[1], right[1]]
        kind = "double" if "double" in kinds else next((k for k in kinds if k not in ("number",)), "number")
        return self.as_kind(left, kind), self.as_kind(right, kind), kind

    def value(self, node: ast.expr) -> tuple[str, str]:
        """Emit the code of a Python expression, and return ``(text, kind)`` of its value: the LLVM operand, and the
        kind of number, such as "real".
        """
        if isinstance(node, ast.Name):
            return self.values[node.id]
        if isinstance(node, ast.Constant):
            if isinstance(node.value, int):
                return str(node.value), "number"
            assert isinstance(node.value, float)
            kind = "double" if self.real == "float" else "real"
            return real_text(node.value, self.types[kind]), kind
        if isinstance(node, ast.Attribute):
            return real_text(math.inf if node.attr == "inf" else math.nan, self.real), "real"
        if isinstance(node, ast.UnaryOp):
            text, kind = self.value(node.operand)
            if kind == "number":
                return f"-{text}", kind
            if kind in ("real", "double"):
                return self.new(f"fneg contract {self.types[kind]} {text}"), kind
            return self.new(f"sub {self.types[kind]} 0, {text}"), kind
        if isinstance(node, ast.IfExp):
            test = self.condition(node.test)
            one, other, kind = self.common(self.value(node.body), self.value(node.orelse))
            kind = "whole" if kind == "number" else kind
            return self.new(f"select i1 {test}, {self.types[kind]} {one}, {self.types[kind]} {other}"), kind
        if isinstance(node, ast.BoolOp):
            word = "and" if isinstance(node.op, ast.And) else "or"
            texts = [self.condition(value) for value in node.values]
            return functools.reduce(lambda a, b: self.new(f"{word} i1 {a}, {b}"), texts), "bool"
        if isinstance(node, ast.Compare):
            one, other, kind = self.common(self.value(node.left), self.value(node.comparators[0]))
            return self.compared(_TESTS[type(node.ops[0])], one, other, kind), "bool"
        if isinstance(node, ast.BinOp):
            return self.operation(node)
        assert isinstance(node, ast.Call)
        return self.call(node)

    def compared(self, test: str, one: str, other: str, kind: str) -> str:
        """Emit the comparison of ``one`` and ``other`` by ``test``, such as "lt", and return its i1 value. Both are
        numbers of the ``kind``, such as "real".
        """
        if kind in ("real", "double"):
            return self.new(f"fcmp {'une' if test == 'ne' else f'o{test}'} {self.types[kind]} {one}, {other}")
        sign = "" if test in ("eq", "ne") else "u" if kind == "natural" else "s"
        return self.new(f"icmp {sign}{test} {self.types[kind]} {one}, {other}")

    def condition(self, node: ast.expr) -> str:
        """Emit an expression as a boolean (an integer is compared with 0), and return its i1 value."""
        text, kind = self.value(node)
        return text if kind == "bool" else self.new(f"icmp ne {self.types[kind]} {text}, 0")

    def operation(self, node: ast.BinOp) -> tuple[str, str]:
        """Emit a binary operation, and return ``(text, kind)`` of its value."""
        one, other, kind = self.common(self.value(node.left), self.value(node.right))
        if kind in ("real", "double"):
            return self.new(f"f{_ARITHMETIC[type(node.op)]} contract {self.types[kind]} {one}, {other}"), kind
        name = "lshr" if kind == "natural" else "ashr"
        if not isinstance(node.op, ast.RShift):
            name = {**_ARITHMETIC, **_BITS}[type(node.op)]
        return self.new(f"{name} {self.types[kind]} {one}, {other}"), kind

    def call(self, node: ast.Call) -> tuple[str, str]:
        """Emit a call (a conversion, a reinterpretation of bits, or a function), and return ``(text, kind)`` of its
        value.
        """
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "view":
            assert isinstance(node.func, ast.Attribute)
            text, kind = self.value(node.func.value)
            to = ast.unparse(node.args[0]).removeprefix("np.")
            return self.new(f"bitcast {self.types[kind]} {text} to {self.types[to]}"), to
        if name in ("real", "whole", "natural", "int32", "float64"):
            return self.changed(
                self.value(node.args[0]),
                "double" if name == "float64" and self.real == "float" else "real" if name == "float64" else name,
            )
        if name == "min":
            one, other, kind = self.common(*map(self.value, node.args))
            return self.new(
                f"select i1 {self.compared('lt', one, other, kind)}, {self.types[kind]} {one}, "
                f"{self.types[kind]} {other}"
            ), kind
        given = [self.as_kind(self.value(argument), "real") for argument in node.args]
        passed = ", ".join(f"{self.real} {text}" for text in given)
        if name in ("abs", "copysign", "floor", "sqrt"):
            short = "f64" if self.real == "double" else "f32"
            return self.new(f"call {self.real} @llvm.{name.replace('abs', 'fabs')}.{short}({passed})"), "real"
        self.called.append(name)
        return self.new(f"call {self.real} @{name}.{self.real}({passed})"), "real"

    def changed(self, value: tuple[str, str], kind: str) -> tuple[str, str]:
        """Emit the conversion of `value`, a pair ``(text, kind)``, to the number type `kind`, and return the result as
        such a pair. It is used where the Python code that is translated to LLVM converts explicitly.
        """
        text, own = value
        if own == "number":
            return self.as_kind(value, kind), kind
        old, new = self.types[own], self.types[kind]
        if old == new:
            return text, kind
        if new in ("double", "float"):
            if old in ("double", "float"):
                if text.startswith("0x"):
                    return real_text(struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0], new), kind
                return self.new(f"{'fpext' if new == 'double' else 'fptrunc'} {old} {text} to {new}"), kind
            return self.new(f"sitofp {old} {text} to {new}"), kind
        if int(old[1:]) > int(new[1:]):
            return self.new(f"trunc {old} {text} to {new}"), kind
        return self.new(f"{'zext' if own == 'natural' else 'sext'} {old} {text} to {new}"), kind
