"""What is written on the nodes of a picture: the notation of a person, for one node of the graph each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from sympy_tensordiff.graph.functions import Partial
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.integer.affine import Affine, Quotient, Row, Variable
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import Extremum, PositivePart, extrema_in
from sympy_tensordiff.integer.products import Product, SymbolicQuotient

Names = Mapping[int, str]
"""The names of variables, bound and free ones."""

LETTERS = ascii_lowercase[8:] + ascii_lowercase[:8] + ascii_uppercase


def cut(text: str, longest: int) -> str:
    """A text on one line, of which the middle is left out where it is longer."""
    text = "".join(c if c.isprintable() else "�" for c in text)
    end = longest // 3
    return text if len(text) <= longest else f"{text[: longest - end - 3]} … {text[-end:]}"


def label(node: Node, own: Sequence[int], names: Names) -> str:
    """The text of a node, which binds the variables ``own``; ``names`` has these and all that are free in it."""
    match node.op:
        case "const" | "scalar":
            return str(node.data)
        case "index":
            return form(node.data, names)
        case "tensor":
            return str(node.data[0])
        case "read":
            return _read(node, names)
        case "add":
            return "+"
        case "mul":
            return _scaled(node.args[0].data, "·") if is_multiple(node) else "*"
        case "pow":
            return f"^ {node.args[1].data}" if node.args[1].op == "const" else "^"
        case "call":
            return function_name(node.data)
        case "compare":
            return {"lt": "<", "le": "≤", "eq": "=", "ne": "≠"}[node.data]
        case "select":
            return "if … else"
        case "guard":
            return "if " + " and ".join(row(r, names) for r in node.data)
        case _:
            return _structured(node, own, names)


def _structured(node: Node, own: Sequence[int], names: Names) -> str:
    """Binders and what is done with whole tensors."""
    match node.op:
        case "sum" | "prod" | "max" | "min":
            return _reduction(node, own, names)
        case "comprehension":
            ranges = (f"{names[v]} < {form(n, names)}" for v, n in zip(own, node.data, strict=True))
            return f"[{', '.join(ranges)}]"
        case "ein":
            return _view(node, names) if node.view else _product(node)
        case "cof":
            return ("det", "adjᵀ")[node.data] if node.data < 2 else f"derivative {node.data} of det"
        case "lse":
            everything = len(node.data) == len(node.args[0].shape)
            return "logsumexp" if everything else f"logsumexp over {', '.join(f'axis {n}' for n in node.data)}"
        case _:
            return node.op


def is_multiple(node: Node) -> bool:
    """Whether a node is a number times one factor, which is written as the multiple of that."""
    return node.op == "mul" and len(node.args) == 2 and node.args[0].op == "const"


def children(node: Node) -> Sequence[Node]:
    """The arguments that are nodes of the picture: a number that is part of a label is none."""
    args = node.args
    if is_multiple(node):
        args = args[1:]
    elif node.op == "pow" and args[1].op == "const":
        args = args[:1]
    return [without_read(arg) for arg in args]


def without_read(node: Node) -> Node:
    """The tensor of rank 0 that a node is the only entry of; other nodes as they are."""
    return node.args[0] if node.op == "read" and not node.data else node


def is_ordered(node: Node) -> bool:
    """Whether a reader has to know which argument is the first."""
    if node.op == "ein":
        return len(set(node.data.inputs)) > 1
    return node.op in ("compare", "pow", "select") or (
        node.op == "call" and function_name(node.data) not in ("max", "min")
    )


def shape_text(node: Node, names: Names) -> str:
    """The shape of a node, or that it is a scalar."""
    return f"shape ({', '.join(form(extent, names) for extent in node.shape)})" if node.shape else "scalar"


def function_name(function: Any) -> str:
    """The name of a function, of a partial derivative with a prime or the orders by the arguments."""
    if isinstance(function, Partial):
        name = function_name(function.function)
        if len(function.orders) == 1:
            return name + "'" * function.orders[0]
        return f"∂{name} ({', '.join(map(str, function.orders))})"
    name = str(getattr(function, "__name__", function))
    return {"Abs": "abs", "Max": "max", "Min": "min"}.get(name, name)


# ---------------------------------------------------------------- indices


def form(affine: Affine, names: Names) -> str:
    """``2*i + k - 1``: the first term is positive where one is."""
    affine, extrema = extrema_in(affine)
    parts = [(_variable(v, names), c) for v, c in affine.terms]
    parts += [(_extremum(extremum, names), extremum.coefficient) for extremum in extrema]
    terms = [(c < 0, name if abs(c) == 1 else f"{abs(c)}*{name}") for name, c in parts]
    if affine.constant or not terms:
        terms.append((affine.constant < 0, str(abs(affine.constant))))
    if terms[0][0]:
        terms.sort(key=lambda term: term[0])
    text = "".join((" - " if negative else " + ") + part for negative, part in terms)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _variable(variable: Variable, names: Names) -> str:
    """A variable by its name; a product, a rounded quotient or an entry of integers written out."""
    match variable:
        case Product():
            return "*".join(_variable(factor, names) for factor in variable.factors)
        case Quotient() | SymbolicQuotient():
            return f"floor({quotient(variable.form, Affine.of(variable.divisor), names)})"
        case DataEntry():
            return f"{variable.tensor}[{', '.join(form(index, names) for index in variable.index)}]"
        case PositivePart():  # a factor of a product
            return form(Affine.variable(variable), names)
    name: str = names[variable]
    return name


def quotient(above: Affine, below: Affine, names: Names) -> str:
    """``(i + 1)/2``, with brackets where they are needed."""
    texts = [form(part, names) for part in (above, below)]
    return "/".join(text if text.isidentifier() or text.isnumeric() else f"({text})" for text in texts)


def limit(function: str, texts: Sequence[str]) -> str:
    """``max(0, i - 1)``; one bound alone is itself."""
    return texts[0] if len(texts) == 1 else f"{function}({', '.join(texts)})"


def _extremum(extremum: Extremum, names: Names) -> str:
    one, other = form(extremum.one, names), form(extremum.other, names)
    return f"|{one}|" if extremum.function == "abs" else limit(extremum.function, [one, other])


def row(condition: Row, names: Names) -> str:
    """``k ≤ i + n - 1``: what is subtracted stands on the other side."""
    constant = condition.form.constant
    if condition.kind == "mod":
        rest = -constant % condition.modulus
        return f"{form(condition.form - constant, names)} ≡ {rest} (mod {condition.modulus})"
    plus = Affine({v: c for v, c in condition.form.terms if c > 0})
    minus = plus + constant - condition.form
    if condition.kind == "eq":
        return f"{form(plus, names)} = {form(minus - constant, names)}"
    if minus.is_constant:
        return f"{form(plus, names)} ≥ {-constant}"
    return f"{form(minus, names)} ≤ {form(plus + constant, names)}"


def _read(node: Node, names: Names) -> str:
    index = f"[{', '.join(form(part, names) for part in node.data)}]"
    tensor = node.args[0]
    return f"{tensor.data[0]}{index}" if tensor.op == "tensor" else f"entry {index}"


def _reduction(node: Node, own: Sequence[int], names: Names) -> str:
    """``Σ k = 0 … n - 1``: the rows as bounds of one variable each, what is none of these behind them."""
    parts, conditions = [], list(node.data)
    for place, v in enumerate(own):
        inner = own[place + 1 :]
        bounds = [r for r in conditions if abs(r.form.coefficient(v)) == 1 and r.kind == "ge"]
        bounds = [r for r in bounds if r.form.atoms().isdisjoint(inner)]
        lower = [Affine.variable(v) - r.form for r in bounds if r.form.coefficient(v) == 1]
        upper = [Affine.variable(v) + r.form for r in bounds if r.form.coefficient(v) == -1]
        if lower and upper and not any(v in bound.atoms() for bound in (*lower, *upper)):
            low, high = ([form(bound, names) for bound in these] for these in (lower, upper))
            parts.append(f"{names[v]} = {limit('max', low)} … {limit('min', high)}")
            conditions = [r for r in conditions if r not in bounds]
        else:
            parts.append(names[v])
    rest = " and ".join(row(r, names) for r in conditions)
    return f"{_SIGNS.get(node.op, node.op)} {', '.join(parts)}" + (f" where {rest}" if rest else "")


_SIGNS = {"sum": "Σ", "prod": "Π"}


# ---------------------------------------------------------------- whole tensors


def _product(node: Node) -> str:
    inputs = ",".join(letters(labels) for labels in node.data.inputs)
    return ("Σ " if len(node.args) == 1 else "*") + f"({inputs}->{letters(node.data.output)})"


def _view(node: Node, names: Names) -> str:
    """A multiple, a transpose, a repetition, a diagonal; of no operand a delta or a tensor of one number."""
    coefficient, inputs, output, extents = node.data
    if inputs:
        scales = inputs[0] == output and len(set(output)) == len(output)
        return _scaled(coefficient, "·") if scales else view_text(node)
    half = len(output) // 2
    if len(set(output)) == len(output) or coefficient == 0:
        return f"{coefficient} [{', '.join(form(extent, names) for extent in node.shape)}]"
    if output == output[:half] * 2 and len(set(output)) == half:
        return _scaled(coefficient, f"δ [{', '.join(form(extent, names) for extent in extents)}]")
    return f"{coefficient} (->{letters(output)})"


def view_text(node: Node) -> str:
    """How the entries of a view's operand stand in it: ``(i->ii)``."""
    return _scaled(node.data.coefficient, f"({letters(node.data.inputs[0])}->{letters(node.data.output)})")


def _scaled(coefficient: Any, text: str) -> str:
    if coefficient == 1:
        return text
    if coefficient == -1:
        return "-" if text == "·" else f"-{text}"
    return f"{coefficient} {text}"


def letters(labels: Iterable[int]) -> str:
    """One letter for each label; ``<53>`` where there are no more."""
    return "".join(LETTERS[n] if n < len(LETTERS) else f"<{n}>" for n in labels)
