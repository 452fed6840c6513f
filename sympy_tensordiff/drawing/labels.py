"""Labels of the nodes of a picture, in ordinary notation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from sympy_tensordiff.graph.functions import Partial
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.integer.affine import Affine, Constraint, Quotient, Variable
from sympy_tensordiff.integer.extrema import Extremum, PositivePart, extrema_in
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.products import IndexProduct, SymbolicQuotient

Names = Mapping[int, str]
"""The names of bound and free variables."""

LETTERS = ascii_lowercase[8:] + ascii_lowercase[:8] + ascii_uppercase


def truncate(text: str, max_length: int) -> str:
    """Return ``text`` on one line, with the middle left out if it is longer than ``max_length``."""
    text = "".join(c if c.isprintable() else "�" for c in text)
    end = max_length // 3
    return text if len(text) <= max_length else f"{text[: max_length - end - 3]} … {text[-end:]}"


def node_label(node: Node, bound_variables: Sequence[int], names: Names) -> str:
    """Return the label of ``node`` in a picture. ``names`` maps variables to names, also the variables
    ``bound_variables`` that the node binds.
    """
    match node.op:
        case "const" | "scalar":
            return str(node.data)
        case "index":
            return form_text(node.data, names)
        case "tensor":
            return str(node.data[0])
        case "read":
            return _read_text(node, names)
        case "add":
            return "+"
        case "mul":
            return _with_coefficient(node.args[0].data, "·") if is_multiple(node) else "*"
        case "pow":
            return f"^ {node.args[1].data}" if node.args[1].op == "const" else "^"
        case "call":
            return function_name(node.data)
        case "compare":
            return {"lt": "<", "le": "≤", "eq": "=", "ne": "≠"}[node.data]
        case "select":
            return "if … else"
        case "guard":
            return "if " + " and ".join(constraint_text(r, names) for r in node.data)
        case _:
            return _label_of_structured(node, bound_variables, names)


def _label_of_structured(node: Node, bound_variables: Sequence[int], names: Names) -> str:
    """Return the label of a sum, a comprehension, or an operation on whole tensors. ``bound_variables`` are the
    variables that ``node`` binds; ``names`` maps variables to names.
    """
    match node.op:
        case "sum" | "prod" | "max" | "min":
            return _reduction_text(node, bound_variables, names)
        case "comprehension":
            ranges = (f"{names[v]} < {form_text(n, names)}" for v, n in zip(bound_variables, node.data, strict=True))
            return f"[{', '.join(ranges)}]"
        case "ein":
            return _view_label(node, names) if node.view else _einsum_text(node)
        case "cof":
            return ("det", "adjᵀ")[node.data] if node.data < 2 else f"derivative {node.data} of det"
        case "lse":
            everything = len(node.data) == len(node.args[0].shape)
            return "logsumexp" if everything else f"logsumexp over {', '.join(f'axis {n}' for n in node.data)}"
        case _:
            return node.op


def is_multiple(node: Node) -> bool:
    """Return whether ``node`` is a number times one factor, drawn as a multiple of the factor."""
    return node.op == "mul" and len(node.args) == 2 and node.args[0].op == "const"


def children(node: Node) -> Sequence[Node]:
    """Return the arguments of `node` that are drawn as nodes of their own; a number that is part of its label is left
    out.
    """
    args = node.args
    if is_multiple(node):
        args = args[1:]
    elif node.op == "pow" and args[1].op == "const":
        args = args[:1]
    return [skip_scalar_read(arg) for arg in args]


def skip_scalar_read(node: Node) -> Node:
    """Return the tensor without axes whose only entry ``node`` reads; any other node unchanged."""
    return node.args[0] if node.op == "read" and not node.data else node


def is_ordered(node: Node) -> bool:
    """Return whether the order of the arguments of ``node`` matters, as in a quotient or power, so that a picture
    numbers its edges.
    """
    if node.op == "ein":
        return len(set(node.data.inputs)) > 1
    return node.op in ("compare", "pow", "select") or (
        node.op == "call" and function_name(node.data) not in ("max", "min")
    )


def shape_text(node: Node, names: Names) -> str:
    """Return the shape of ``node`` as text, or "scalar". ``names`` maps variables to names."""
    return f"shape ({', '.join(form_text(extent, names) for extent in node.shape)})" if node.shape else "scalar"


def function_name(function: Any) -> str:
    """Return the name of ``function``; of a partial derivative with primes or with its orders."""
    if isinstance(function, Partial):
        name = function_name(function.function)
        if len(function.orders) == 1:
            return name + "'" * function.orders[0]
        return f"∂{name} ({', '.join(map(str, function.orders))})"
    name = str(getattr(function, "__name__", function))
    return {"Abs": "abs", "Max": "max", "Min": "min"}.get(name, name)


# ---------------------------------------------------------------- indices


def form_text(affine: Affine, names: Names) -> str:
    """Return an affine form as text, ``2*i + k - 1``, a positive term first if there is one."""
    affine, extrema = extrema_in(affine)
    parts = [(_variable_text(v, names), c) for v, c in affine.terms]
    parts += [(_extremum_text(extremum, names), extremum.coefficient) for extremum in extrema]
    terms = [(c < 0, name if abs(c) == 1 else f"{abs(c)}*{name}") for name, c in parts]
    if affine.constant or not terms:
        terms.append((affine.constant < 0, str(abs(affine.constant))))
    if terms[0][0]:
        terms.sort(key=lambda term: term[0])
    text = "".join((" - " if negative else " + ") + part for negative, part in terms)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _variable_text(variable: Variable, names: Names) -> str:
    """Return the name of a variable; write out a product, a floor quotient or an entry of an index array."""
    match variable:
        case IndexProduct():
            return "*".join(_variable_text(factor, names) for factor in variable.factors)
        case Quotient() | SymbolicQuotient():
            return f"floor({quotient_text(variable.form, Affine.of(variable.divisor), names)})"
        case IndirectIndex():
            return f"{variable.tensor}[{', '.join(form_text(index, names) for index in variable.index)}]"
        case PositivePart():  # as a factor of a product
            return form_text(Affine.variable(variable), names)
    name: str = names[variable]
    return name


def quotient_text(above: Affine, below: Affine, names: Names) -> str:
    """Return the quotient of the affine forms ``above`` and ``below`` as text, ``(i + 1)/2``, with parentheses where
    needed. ``names`` maps variables to their names.
    """
    texts = [form_text(part, names) for part in (above, below)]
    return "/".join(text if text.isidentifier() or text.isnumeric() else f"({text})" for text in texts)


def limit_text(function: str, texts: Sequence[str]) -> str:
    """Return a bound of a loop as text: ``max(0, i - 1)`` for the ``function`` "max" and the ``texts`` "0" and "i - 1";
    a single text unchanged.
    """
    return texts[0] if len(texts) == 1 else f"{function}({', '.join(texts)})"


def _extremum_text(extremum: Extremum, names: Names) -> str:
    """Return the absolute value, maximum or minimum ``extremum`` as text. ``names`` maps variables to names."""
    one, other = form_text(extremum.one, names), form_text(extremum.other, names)
    return f"|{one}|" if extremum.function == "abs" else limit_text(extremum.function, [one, other])


def constraint_text(condition: Constraint, names: Names) -> str:
    """Return the constraint ``condition`` as text, ``k ≤ i + n - 1``, with subtracted terms on the other side.
    ``names`` maps variables to names.
    """
    constant = condition.form.constant
    if condition.kind == "mod":
        rest = -constant % condition.modulus
        return f"{form_text(condition.form - constant, names)} ≡ {rest} (mod {condition.modulus})"
    plus = Affine({v: c for v, c in condition.form.terms if c > 0})
    minus = plus + constant - condition.form
    if condition.kind == "eq":
        return f"{form_text(plus, names)} = {form_text(minus - constant, names)}"
    if minus.is_constant:
        return f"{form_text(plus, names)} ≥ {-constant}"
    return f"{form_text(minus, names)} ≤ {form_text(plus + constant, names)}"


def _read_text(node: Node, names: Names) -> str:
    """Return the read of an entry as text, ``x[i]``. ``names`` maps variables to names."""
    index = f"[{', '.join(form_text(part, names) for part in node.data)}]"
    tensor = node.args[0]
    return f"{tensor.data[0]}{index}" if tensor.op == "tensor" else f"entry {index}"


def _reduction_text(node: Node, bound_variables: Sequence[int], names: Names) -> str:
    """Return the text of a sum or other reduction, ``Σ k = 0 … n - 1``. Constraints that are not bounds of a single
    index follow after "where".
    """
    parts, conditions = [], list(node.data)
    for place, v in enumerate(bound_variables):
        inner = bound_variables[place + 1 :]
        bounds = [r for r in conditions if abs(r.form.coefficient(v)) == 1 and r.kind == "ge"]
        bounds = [r for r in bounds if r.form.atoms().isdisjoint(inner)]
        lower = [Affine.variable(v) - r.form for r in bounds if r.form.coefficient(v) == 1]
        upper = [Affine.variable(v) + r.form for r in bounds if r.form.coefficient(v) == -1]
        if lower and upper and not any(v in bound.atoms() for bound in (*lower, *upper)):
            low, high = ([form_text(bound, names) for bound in these] for these in (lower, upper))
            parts.append(f"{names[v]} = {limit_text('max', low)} … {limit_text('min', high)}")
            conditions = [r for r in conditions if r not in bounds]
        else:
            parts.append(names[v])
    rest = " and ".join(constraint_text(r, names) for r in conditions)
    return f"{_SIGNS.get(node.op, node.op)} {', '.join(parts)}" + (f" where {rest}" if rest else "")


_SIGNS = {"sum": "Σ", "prod": "Π"}


# ---------------------------------------------------------------- whole tensors


def _einsum_text(node: Node) -> str:
    """Return the label of a contraction, with one letter per index."""
    inputs = ",".join(label_letters(labels) for labels in node.data.inputs)
    return ("Σ " if len(node.args) == 1 else "*") + f"({inputs}->{label_letters(node.data.output)})"


def _view_label(node: Node, names: Names) -> str:
    """Return the label of a view: a multiple, transpose, repetition or diagonal of a tensor or, without an operand, an
    identity or constant tensor. ``names`` maps variables to names.
    """
    coefficient, inputs, output, extents = node.data
    if inputs:
        scales = inputs[0] == output and len(set(output)) == len(output)
        return _with_coefficient(coefficient, "·") if scales else view_text(node)
    half = len(output) // 2
    if len(set(output)) == len(output) or coefficient == 0:
        return f"{coefficient} [{', '.join(form_text(extent, names) for extent in node.shape)}]"
    if output == output[:half] * 2 and len(set(output)) == half:
        return _with_coefficient(coefficient, f"δ [{', '.join(form_text(extent, names) for extent in extents)}]")
    return f"{coefficient} (->{label_letters(output)})"


def view_text(node: Node) -> str:
    """Return the text for a transpose, repetition or diagonal in a drawing: its coefficient and its subscripts, such as
    ``(i->ii)``.
    """
    return _with_coefficient(
        node.data.coefficient, f"({label_letters(node.data.inputs[0])}->{label_letters(node.data.output)})"
    )


def _with_coefficient(coefficient: Any, text: str) -> str:
    """Return ``text`` with `coefficient` in front: nothing for 1, a minus sign for -1."""
    if coefficient == 1:
        return text
    if coefficient == -1:
        return "-" if text == "·" else f"-{text}"
    return f"{coefficient} {text}"


def label_letters(labels: Iterable[int]) -> str:
    """Return one letter for each index label; ``<53>`` if the letters run out."""
    return "".join(LETTERS[n] if n < len(LETTERS) else f"<{n}>" for n in labels)
