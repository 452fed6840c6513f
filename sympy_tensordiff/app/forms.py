"""Output forms shared by the command and the page: notations, kernels, programs, and checks by finite differences."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO, TypeAlias

import sympy
from sympy import Basic

import sympy_tensordiff as td
from sympy_tensordiff.errors import (
    ArgumentError,
    DerivativeMismatch,
    OutOfShapeError,
    TensorDiffError,
    UnsupportedError,
)
from sympy_tensordiff.simplify.accesses import check_expression
from sympy_tensordiff.symbolic.conversion.rewriting import for_readers
from sympy_tensordiff.symbolic.printing.printed_forms import refuse_unprintable
from sympy_tensordiff.testing.differences import SizeError
from sympy_tensordiff.testing.values import shape_of, size_symbols

# Formulas wider than this are printed on one line instead of in two dimensions.
MAX_WIDTH = 150


class TextOutput:
    """A wrapper of a text stream that writes titles and formulas: in Unicode if the encoding of the stream has the
    characters of formulas, else in plain ASCII.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    @property
    def unicode(self) -> bool:
        """Return whether the stream can encode the characters of two-dimensional formulas."""
        try:
            "∑ ⎛⎞ ─ ⋅ ≤ ∧".encode(self.encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def write_line(self, text: str = "") -> None:
        """Write ``text``, one or more lines, and end the line."""
        if not self.unicode:
            text = text.encode("ascii", "backslashreplace").decode("ascii")
        self.stream.write(text + "\n")
        self.stream.flush()

    def title(self, text: str) -> None:
        """Write ``text`` as an underlined title line."""
        self.write_line(f"{text}\n{'-' * len(text)}")

    def formula(self, name: str, tensor: Any) -> None:
        """Write the shape and ``name[indices] = body`` of a tensor, in two dimensions if it is not too wide."""
        left = sympy.Symbol(f"{name}[{', '.join(map(str, tensor.indices))}]")
        equation = sympy.Eq(left, tensor.body, evaluate=False)
        text = str(sympy.pretty(equation, use_unicode=self.unicode, wrap_line=False))
        if max(map(len, text.splitlines())) > MAX_WIDTH:
            text = f"{left} = {tensor.body}"
        self.write_line(f"{name}, {' x '.join(map(str, tensor.shape))}:")
        self.write_line("\n".join("  " + line.rstrip() for line in text.splitlines()) + "\n")


Sizes: TypeAlias = dict[Any, int]

BACKENDS = ("numpy", "numba", "c", "cuda", "cuda_c", "jax", "torch", "cupy")
FORMS = ("text", "matrix", "pretty", "latex", "index", "python", *BACKENDS)
CHECKED_SIZES = 3
"""The number of choices of the sizes that are checked, if enough of them fit the expression."""
MAX_ATTEMPTS = 30
"""The greatest number of choices that are tried."""
# The greatest number of entries of an array in a check, and the greatest size.
_MAX_ENTRIES = 50_000
_MAX_SIZE = 6
DOMAINS = "positive, nonnegative, or an interval such as 0 : 1, -1.5 :, or 0 : pi/2"
"""The domains of a tensor, for messages."""
_BOUND = re.compile(r"(?P<sign>-?)(?P<number>\d+(?:\.\d+)?)?\*?(?P<pi>pi)?(?:/(?P<over>[1-9]\d*))?")
_FORM_NAMES = {"pretty": "pretty", "latex": "LaTeX", "index": "index notation"}


def parsed_input(source: str, language: str | None = None) -> Any:
    """Parse the input text ``source`` in the text language ``language``; raise an error if it reads a tensor out of
    bounds.
    """
    parsed = td.parse(source, language)
    check_expression(parsed.expression)
    return parsed


def form_text(parsed: Any, expression: Any, form: str, *, unicode: bool = True) -> str:
    """Return ``expression`` as text in the form named ``form``, one of `FORMS`, such as "latex", "python" or a backend.
    Programs take as arguments the tensors that the input ``parsed`` declares. Without ``unicode``, the form "pretty" is
    plain ASCII.
    """
    if form == "python":
        return python_program(parsed, arguments_of(parsed, expression))
    if form in BACKENDS:
        return td.generate_code(arguments_of(parsed, expression), expression, form)
    if form in ("text", "matrix"):
        return td.to_text(expression, "thesis" if form == "text" else form)
    if form == "index":
        expression = for_readers(expression)
    refuse_unprintable(expression, _FORM_NAMES[form])
    if form == "pretty":
        return str(sympy.pretty(expression, use_unicode=unicode, wrap_line=False))
    return str(sympy.latex(expression) if form == "latex" else expression)


def certificate(parsed: Any, domains: Iterable[tuple[str, str]] = (), *, concave: bool = False) -> Any:
    """Return a certificate that the parsed expression ``parsed`` is convex in its variables or, with ``concave``,
    concave.

    ``domains`` are pairs of a tensor's name and the domain of its entries: ``"positive"``, ``"nonnegative"``, or an
    interval such as ``"0 : pi/2"``, in which one bound may be omitted.
    """
    bounds: dict[Any, tuple[Any, Any]] = {}
    signs: dict[str, list[Any]] = {"positive": [], "nonnegative": []}
    for name, text in domains:
        if name not in parsed.tensors:
            raise ArgumentError(f"{name} is not a tensor of the input: its tensors are {', '.join(parsed.tensors)}")
        low, colon, high = text.strip().partition(":")
        if low in signs and not colon:
            signs[low].append(parsed.tensors[name])
        elif colon:
            bounds[parsed.tensors[name]] = (_parse_bound(name, low), _parse_bound(name, high))
        else:
            raise ArgumentError(f"the domain of {name} is {text}: write {DOMAINS}")
    wrt = tuple(dict.fromkeys(parsed.arguments))
    return td.certify_convex(parsed.expression, wrt, bounds=bounds, concave=concave, **signs)


def _parse_bound(name: str, text: str) -> Any:
    """Return a bound of a domain exactly, or None if ``text`` is blank; raise `ArgumentError` if it is invalid."""
    if not text.strip():
        return None
    found = _BOUND.fullmatch(text.replace(" ", ""))
    if found is None or not (found["number"] or found["pi"]):
        raise ArgumentError(f"an end of the domain of {name} is {text.strip()}: write {DOMAINS}")
    number = sympy.Rational(found["number"] or 1) / sympy.Integer(found["over"] or 1)
    return number * (-1 if found["sign"] else 1) * (sympy.pi if found["pi"] else 1)


def certificate_text(found: Any, form: str = "index") -> str:
    """Return the text of the certificate ``found`` with its proof terms, after checking them; the reason if there is no
    certificate. If ``form`` is "latex", return the certificate's LaTeX lines, not checked.
    """
    if form == "latex":
        return " \\\\\n".join(found.latex_lines())
    if not found:
        return f"{found!r}\n(not certified is not a proof of the contrary)"
    found.check()
    lines = [f"  {term}" for term in found.terms] or [f"  it is {str(found).partition(': ')[2]}"]
    word, names = "concave" if found.concave else "convex", ", ".join(map(str, found.directions))
    return "\n".join([f"{word} in {names}, by the parts of the Hessian, which are checked:", *lines])


def arguments_of(parsed: Any, expression: Any) -> tuple[Any, ...]:
    """Return the arguments of a kernel for an input of the user: the tensors that ``parsed`` declares, then the
    symbolic sizes in ``expression`` that occur in no tensor's shape.
    """
    tensors = tuple(parsed.tensors.values())
    known = size_symbols(*tensors)
    return (*tensors, *(size for size in size_symbols(expression) if size not in known))


def check_lines(parsed: Any, derivative: Any) -> Iterator[str]:
    """Compare ``derivative``, a derivative of the expression ``parsed``, with central differences for several choices
    of the sizes. Yield one line of text for each choice: the sizes and the largest relative error.

    A higher-order derivative is compared with differences of the derivative of one order less, and so on.

    Raise `DerivativeMismatch` at the first sizes at which a derivative is wrong, `ArgumentError` if no inputs or sizes
    are found at which the expression is differentiable, and `OutOfShapeError` if it reads outside a shape for all sizes
    that are tried.
    """
    values = [parsed.expression]
    for argument in parsed.arguments[:-1]:
        values.append(td.jacobian(values[-1], argument))
    steps = list(zip(values, parsed.arguments, [*values[1:], derivative], strict=True))
    symbols = size_symbols(*parsed.tensors.values(), parsed.expression, derivative)
    found = 0
    refusal: TensorDiffError | None = None
    for seed, sizes in enumerate(size_choices(symbols, len(shape_of(derivative)))):
        name = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items()) or f"seed {seed}"
        try:
            errors = [td.check_derivative(*step[:2], sizes, seed, derivative=step[2]) for step in steps]
        except DerivativeMismatch as error:
            raise DerivativeMismatch(f"the check has failed for {name}: {error}") from error
        except (SizeError, OutOfShapeError) as error:
            refusal = error  # for an extent n - m, or an entry x[1]
            continue
        yield f"{name}: largest relative error {max(errors):.1e}"
        found += 1
        if found == CHECKED_SIZES:
            return
    if refusal is not None and not found:
        raise refusal


def size_choices(symbols: list[Any], order: int) -> Iterator[Sizes]:
    """Yield values of the sizes ``symbols`` with which to try an expression with ``order`` axes: first all 1, then
    random ones, which grow slowly and are different if possible.

    Only 1 is tried if a tensor with so many axes of length 2 would be too large.
    """
    yield dict.fromkeys(symbols, 1)
    limit = int(_MAX_ENTRIES ** (1 / max(order, 1)))
    if symbols and limit < 2:
        return
    for seed in range(1, MAX_ATTEMPTS if symbols else CHECKED_SIZES):
        candidates = range(2, max(min(_MAX_SIZE + max(seed - CHECKED_SIZES, 0), limit), 2) + 1)
        generator = random.Random(seed)
        draw = generator.sample if len(symbols) <= len(candidates) else generator.choices
        yield dict(zip(symbols, draw(candidates, k=len(symbols)), strict=True))


# ---------------------------------------------------------------------------- a program


_RESERVED = frozenset({"td", "sympy", "expression", "derivative", "function"})
"""Names in the program that no tensor may have."""


def python_program(parsed: Any, arguments: Sequence[Any]) -> str:
    """Return a Python program that builds the expression of ``parsed``, prints its derivative and compiles both as
    functions of ``arguments``.

    Raise `UnsupportedError` if the expression cannot be printed, or a name in it is not a name in Python.
    """
    refuse_unprintable(parsed.expression, "Python")
    names = _PythonWriter(parsed.tensors)
    expression = names.to_python(parsed.expression)
    declared = parsed.tensors.items()
    tensors = [f'{name} = td.TensorSymbol("{name}", {names.arguments_after_name(tensor)})' for name, tensor in declared]
    indices = sorted(names.indices)
    called = ", ".join(map(str, arguments)) + "," * (len(arguments) == 1)
    lines = [
        *([f'{", ".join(indices)} = td.indices("{" ".join(indices)}")'] if indices else []),
        *tensors,
        "",
        f"expression = {expression}",
        *_derivative_lines(parsed),
        "print(derivative)",
        "",
        "# Compiled at its first call:",
        f"function = td.lambdify(({called}), (expression, derivative))",
    ]
    modules = ["import sympy"] * any("sympy." in line for line in lines) + ["import sympy_tensordiff as td", ""]
    return "\n".join([*modules, *lines, ""])


def _derivative_lines(parsed: Any) -> list[str]:
    """Return the lines of the Python program that compute the derivative of the input ``parsed``."""
    is_scalar = not getattr(parsed.expression, "shape", ())
    match [argument.name for argument in parsed.arguments]:
        case [name] if is_scalar:
            return [f"derivative = td.gradient(expression, {name})"]
        case [name, again] if is_scalar and name == again:
            return [f"derivative = td.hessian(expression, {name})"]
        case [name, *others]:
            lines = [f"derivative = td.jacobian(expression, {name})"]
            return lines + [f"derivative = td.jacobian(derivative, {other})" for other in others]
    return ["derivative = expression"]


class _PythonWriter(ast.NodeTransformer):
    """Converts expressions to Python source: adds the prefixes ``td.`` and ``sympy.`` to the names of functions and
    constants, and collects the names of indices, which the program must define.
    """

    def __init__(self, tensors: Any) -> None:
        self.tensors = tensors
        self.symbols: set[str] = set()
        self.indices: set[str] = set()
        for name in tensors:
            if name in _RESERVED:
                raise UnsupportedError(f"the tensor {name} cannot have this name in a Python program: rename it")

    def to_python(self, expr: Any) -> str:
        """Return an expression as Python; raise `UnsupportedError` if it cannot be written."""
        self.symbols |= set(symbols_by_name(expr))
        try:
            return ast.unparse(self.visit(ast.parse(str(expr), mode="eval")))
        except (SyntaxError, RecursionError):
            raise UnsupportedError("this cannot be written in Python; see the index notation") from None

    def arguments_after_name(self, tensor: Any) -> str:
        """Return the arguments of `TensorSymbol` after the name: shape, dtype and symmetry."""
        extents = [self.to_python(extent) for extent in tensor.shape]
        text = extents[0] if len(extents) == 1 else f"({', '.join(extents)})"
        facts: str = ", symmetric=True" * tensor.symmetric + ", positive=True" * tensor.positive
        return text + ", dtype=int" * (tensor.dtype is int) + facts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the name `node` as Python source needs it: with a prefix such as ``td.`` if it is a function or
        constant of a module, otherwise unchanged. Names that are neither functions nor tensors are recorded as indices.
        """
        if node.id not in self.symbols:
            return _from_module(node)
        if node.id not in self.tensors:
            self.indices.add(node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Return the call ``node`` with the prefix of a module before its function, such as ``td.sum(x)`` for
        ``sum(x)``, even if a symbol has the same name as the function.
        """
        arguments = [self.visit(argument) for argument in node.args]
        keywords = [ast.keyword(word.arg, self.visit(word.value)) for word in node.keywords]
        function = _from_module(node.func) if isinstance(node.func, ast.Name) else self.visit(node.func)
        return ast.Call(function, arguments, keywords)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Replace a quotient of integers by ``sympy.Rational``, since Python would make it a float."""
        number = node.left.operand if isinstance(node.left, ast.UnaryOp) else node.left
        is_quotient = isinstance(node.op, ast.Div) and isinstance(number, ast.Constant)
        self.generic_visit(node)
        if is_quotient and isinstance(node.right, ast.Constant):
            return ast.Call(_from_module(ast.Name("Rational")), [node.left, node.right], [])
        return node


def _from_module(name: ast.Name) -> ast.expr:
    """Return the name of a function or constant with the prefix of its module, ``td`` or ``sympy``; raise
    `UnsupportedError` if neither has it.
    """
    if name.id in td.__all__:
        return ast.Attribute(ast.Name("td"), name.id)
    if hasattr(sympy, name.id):
        return ast.Attribute(ast.Name("sympy"), name.id)
    raise UnsupportedError(f"{name.id} has no name in Python; see the index notation")


def symbols_by_name(expr: Basic) -> dict[str, Any]:
    """Return all symbols of an expression, including bound ones, by their printed names."""
    return {str(node): node for node in sympy.preorder_traversal(expr) if getattr(node, "is_symbol", False)}
