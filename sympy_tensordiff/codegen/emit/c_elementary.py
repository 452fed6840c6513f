"""The elementary functions of `elementary` in C, translated from their Python texts."""

from __future__ import annotations

import ast
import functools

from sympy_tensordiff.codegen.emit.elementary import DOUBLE, FUNCTIONS, PARAMETERS, SINGLE
from sympy_tensordiff.codegen.emit.forms import INDENT

BITS = """\
static inline {natural} bits_of(real x) {{
    union {{ real x; {natural} bits; }} pun;
    pun.x = x;
    return pun.bits;
}}

static inline real of_bits({natural} bits) {{
    union {{ real x; {natural} bits; }} pun;
    pun.bits = bits;
    return pun.x;
}}

static inline int64_t bits_of_double(double x) {{
    union {{ double x; int64_t bits; }} pun;
    pun.x = x;
    return pun.bits;
}}"""

_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.And: "&&", ast.Or: "||",
}  # fmt: skip


@functools.cache
def c_functions(is_single: bool) -> dict[str, str]:
    """Return the C texts of all elementary functions by their names, each after the functions that it calls, for floats
    (``is_single``) or doubles.
    """
    bits = BITS.format(natural="uint32_t" if is_single else "uint64_t").split("\n\n")
    found = dict(zip(("bits_of", "of_bits", "bits_of_double"), bits, strict=True))
    return found | {f"vector_{name}": _CTranslation(is_single).function(name) for name in FUNCTIONS}


class _CTranslation:
    """Translates the Python text of one elementary function, such as exp, to C.

    Signed integers are added and shifted as unsigned ones, whose overflow C defines.
    """

    def __init__(self, is_single: bool) -> None:
        self.precision = SINGLE if is_single else DOUBLE
        self.kinds: dict[str, str] = {}
        size = self.precision.bits
        self.types = {"whole": f"int{size}_t", "natural": f"uint{size}_t", "int64": "int64_t", "int32": "int32_t"}

    def type(self, kind: str) -> str:
        """Return the C type for numbers of a ``kind``: "real", "double", or a kind of integers such as "whole"."""
        return self.types.get(kind, kind)

    def function(self, name: str) -> str:
        """Return the C function for the elementary function ``name``."""
        what, body = FUNCTIONS[name]
        self.kinds = dict.fromkeys(PARAMETERS[name], "real")
        tree = ast.parse("\n".join(line.strip() for line in body(self.precision).splitlines()))
        given = ", ".join(f"real {parameter}" for parameter in PARAMETERS[name])
        lines = [f"/* {what}. */", f"static inline real vector_{name}({given}) {{"]
        for statement in tree.body:
            if isinstance(statement, ast.Return):
                assert statement.value is not None
                lines.append(f"{INDENT}return {self.text(statement.value)[0]};")
                continue
            assert isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
            text, kind = self.text(statement.value)
            own = statement.targets[0].id
            first = "" if own in self.kinds else f"{self.type(kind)} "
            self.kinds[own] = kind
            lines.append(f"{INDENT}{first}{own} = {text};")
        return "\n".join([*lines, "}"])

    def text(self, node: ast.expr) -> tuple[str, str]:
        """Return ``(C text, kind)`` of a Python expression: the text has operations in parentheses; the kind of number
        is for example "real" or "int64".
        """
        if isinstance(node, ast.Name):
            return node.id, self.kinds[node.id]
        if isinstance(node, ast.Constant):
            return self.number(node.value)
        if isinstance(node, ast.UnaryOp):
            text, kind = self.text(node.operand)
            return f"-{text}", kind
        if isinstance(node, ast.IfExp):
            (test, _), (value, kind), (other, second) = map(self.text, (node.test, node.body, node.orelse))
            return f"({test} ? {value} : {other})", kind if kind != "number" else second
        if isinstance(node, ast.BoolOp):
            return f"({f' {_OPERATORS[type(node.op)]} '.join(self.text(v)[0] for v in node.values)})", "int"
        if isinstance(node, ast.Compare):
            left, right = self.text(node.left)[0], self.text(node.comparators[0])[0]
            return f"({left} {_OPERATORS[type(node.ops[0])]} {right})", "int"
        if isinstance(node, ast.Attribute):
            return ("INFINITY" if node.attr == "inf" else "NAN"), "real"
        if isinstance(node, ast.BinOp):
            return self.operation(node)
        assert isinstance(node, ast.Call)
        return self.call(node)

    def number(self, value: object) -> tuple[str, str]:
        """Return ``(C text, kind)`` of a literal."""
        return repr(value), "number" if isinstance(value, int) else "double" if self.precision is SINGLE else "real"

    def operation(self, node: ast.BinOp) -> tuple[str, str]:
        """Return ``(C text, kind)`` of a binary operation; the kind of number is for example "real" or "int64"."""
        (left, kind), (right, second) = self.text(node.left), self.text(node.right)
        symbol = _OPERATORS[type(node.op)]
        if "double" in (kind, second):
            kind = "double"
        kind = second if kind == "number" else kind
        if kind == "whole" and symbol in ("+", "-", "<<"):
            natural = self.type("natural")
            right = right if symbol == "<<" else f"({natural}){right}"
            return f"({self.type(kind)})(({natural}){left} {symbol} {right})", kind
        return f"({left} {symbol} {right})", kind

    def call(self, node: ast.Call) -> tuple[str, str]:
        """Return ``(C text, kind)`` of a call: a conversion, a reinterpretation of bits, or a function."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        ending = "f" * (self.precision is SINGLE)
        if name == "view":
            assert isinstance(node.func, ast.Attribute)
            text, kind = self.text(node.func.value)
            to = ast.unparse(node.args[0]).removeprefix("np.")
            if kind == "double":
                return f"bits_of_double({text})", to
            if to == "real":
                return f"of_bits(({self.type('natural')}){text})", to
            return f"({self.type(to)})bits_of({text})", to
        (text, kind), *others = map(self.text, node.args)
        if name in ("real", "whole", "natural", "int32"):
            if isinstance(node.args[0], ast.Constant) and name == "real":
                return text + ending, "real"
            return f"({self.type(name)}){text}", name
        if name == "float64":
            return f"(double){text}", "double" if self.precision is SINGLE else "real"
        if name == "min":
            return f"({text} < {others[0][0]} ? {text} : {others[0][0]})", kind
        if name in ("abs", "floor", "sqrt"):
            return f"{name.replace('abs', 'fabs')}{ending}({text})", kind
        if name == "copysign":
            return f"copysign{ending}({text}, {others[0][0]})", kind
        return f"vector_{name}({text})", "real"
