"""How each class of operations on whole tensors is written, in text, LaTeX and pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sympy import Max, Piecewise, Pow, S, exp
from sympy.printing.pretty.stringpict import prettyForm

from sympy_tensordiff.symbolic.depth import measures
from sympy_tensordiff.symbolic.matrix_notation import einsum_notation
from sympy_tensordiff.symbolic.notation import (
    NOTHING,
    Applied,
    Broadcast,
    Call,
    Choice,
    Constant,
    Divisor,
    Indicator,
    Inverse,
    Leaf,
    Power,
    Repeated,
    in_front,
    product,
    total,
)
from sympy_tensordiff.symbolic.notation_formulas import RELATIONS, LatexWriter, PrettyWriter
from sympy_tensordiff.symbolic.notation_text import ADD, ATOM, MUL, POW, TextWriter
from sympy_tensordiff.symbolic.printing import Printed, position_in_formula, refuse_unprintable, text_instead

# Element-wise functions that the package has under another name than SymPy.
NAMES = {"Abs": "abs", "Max": "maximum", "Min": "minimum"}
FUNCTIONS = {
    *("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *(
        "sign",
        "sigmoid",
        "softplus",
        "erf",
        "floor",
        "ceiling",
        "expm1",
        "log1p",
        "log1mexp",
        "log_ndtr",
        "xlogy",
        "hypot",
        *NAMES.values(),
    ),
}


class PrintedTensor(Printed):
    """As products of matrices where they are, else in index notation."""

    @property
    def precedence(self) -> int:
        """How tightly the text binds; in LaTeX, products need parentheses unless they are the last factor.

        SymPy writes the factors of a negative product as terms of a sum, and Python reads ``*``, ``/`` and ``@``
        from the left: a text with an operator binds like a sum, and has parentheses as a factor and as a divisor.
        """
        if measures(self).is_unprintable:
            return ATOM
        place = position_in_formula(sys._getframe(1))
        if place == "text":
            level = TextWriter(None).level(notation_of(self))
            return level if level >= POW else ADD
        level = LatexWriter(None).level(notation_of(self))
        return (MUL - 1 if place == "factor" else MUL) if ADD < level < POW else level

    def _sympystr(self: Any, printer: Any) -> str:
        other = text_instead(self, printer)
        return str(TextWriter(printer).write(notation_of(self))) if other is None else other

    def _latex(self, printer: Any) -> str:
        refuse_unprintable(self, "LaTeX")
        return str(LatexWriter(printer).write(notation_of(self)))

    def _pretty(self, printer: Any) -> Any:
        refuse_unprintable(self, "pretty")
        notation, writer = notation_of(self), PrettyWriter(printer)
        form = writer.write(notation)
        bindings = {ADD: prettyForm.ADD, POW: prettyForm.POW, ATOM: prettyForm.ATOM}
        return prettyForm("\n".join(form.picture), form.baseline, bindings.get(writer.level(notation), prettyForm.MUL))


def notation_of(node: Any) -> Any:
    """The notation of a node of any kind."""
    known = _NOTATIONS.get(type(node).__name__) if isinstance(node, PrintedTensor) else None
    return Leaf(node) if known is None else known(node)


def _einsum(node: Any) -> Any:
    operands = [notation_of(operand) for operand in node.operands]
    return einsum_notation(node.inputs, node.output, operands, node.label_extents)


def _sum(node: Any) -> Any:
    parts = zip(node.args, _without_broadcasts(node), strict=True)
    return total(part if rank(term) else Repeated(Leaf(term), node.shape) for term, part in parts)


def _product(node: Any) -> Any:
    factors = zip(node.args, _without_broadcasts(node), strict=True)
    return product(factors=[notation if rank(factor) else in_front(notation) for factor, notation in factors])


def _power(node: Any) -> Any:
    base, exponent = _without_broadcasts(node)
    number = node.exponent
    if not number.is_Number or not rank(node.base):
        return Power(base, exponent)
    if number.is_negative:
        positive = base if number == -1 else _powered(base, -number)
        return NOTHING._replace(divisors=(Divisor(positive, rank(node.base)),))
    return _powered(base, number)


def _without_broadcasts(node: Any) -> list[Any]:
    """The operands of an element-wise node, without the ones with which NumPy's rule repeats them, if it does."""
    parts = [_narrow(operand) for operand in node.operands]
    reached = all(
        any(len(shape) > back and shape[-1 - back] == extent for shape, _ in parts)
        for back, extent in enumerate(node.shape[::-1])
    )
    return [part.product if isinstance(part, Broadcast) and not reached else part for _, part in parts]


def _narrow(node: Any) -> tuple[tuple[Any, ...], Any]:
    """The shape and the notation of an operand; a `Broadcast`, and the shape before, where it only repeats another."""
    tensor = _repeated(node)
    if tensor is None:
        return tuple(getattr(node, "shape", ())), notation_of(node)
    if _is(node, "TensorMul"):
        shape, forms = _narrow(node.args[-1])
        fronts = [in_front(notation_of(scalar)) for scalar in node.args[:-1]]
        return shape, Broadcast(*(product(factors=[*fronts, form]) for form in forms))
    parts = [notation_of(operand) for operand in node.operands]
    with_ones = einsum_notation(node.inputs, node.output, parts, node.label_extents)
    pairs = zip(node.operands, parts, strict=True)
    factors = [part if rank(operand) else in_front(part) for operand, part in pairs if not _is_ones(operand)]
    return tensor.shape, Broadcast(product(factors=factors), with_ones)


def _repeated(node: Any) -> Any | None:
    """The tensor that a product with ones repeats by NumPy's rule; None for all else."""
    if _is(node, "TensorMul"):
        return _repeated(node.args[-1]) if sum(map(bool, map(rank, node.args))) == 1 else None
    if not _is(node, "EinsumProduct"):
        return None
    pairs = [(labels, operand) for labels, operand in zip(node.inputs, node.operands, strict=True) if labels]
    tensors = [(labels, operand) for labels, operand in pairs if not _is_ones(operand)]
    extents = [pair for labels, operand in pairs for pair in zip(labels, operand.shape, strict=True)]
    if len(tensors) != 1 or any(label not in node.output and extent != 1 for label, extent in extents):
        return None  # a sum over ones is a number of times
    (labels, tensor), output = tensors[0], node.output
    meet = zip(labels[::-1], tensor.shape[::-1], output[::-1], strict=False)
    fits = all(own == label or (extent == 1 and own not in output) for own, extent, label in meet)
    return tensor if fits and len(set(labels)) == len(labels) <= len(output) else None


def _is_ones(operand: Any) -> bool:
    return _is(operand, "FilledTensor") and bool(operand.value == 1) and bool(operand.shape)


def _powered(base: Any, number: Any) -> Any:
    return Call("sqrt", (base,)) if number == S.Half else Power(base, Leaf(number))


def _function(node: Any) -> Any:
    softmax = _softmax(node)
    if softmax is not None:
        return softmax
    operands = tuple(_without_broadcasts(node))
    body, names = node.template.expr, node.template.variables
    if isinstance(body, Pow) and body.args == (*names, S.Half):
        return Call("sqrt", operands)
    if isinstance(body, Max) and set(body.args) == {S.Zero, *names}:
        return Call("relu", operands)
    name = type(body).__name__
    name = NAMES.get(name, name)
    numbers = tuple(Leaf(arg) for arg in body.args if arg.is_Number)  # of an extremum
    if name in FUNCTIONS and len(body.args) == len(names + numbers) and set(names) <= set(body.args):
        return Call(name, operands + numbers)
    applied = Applied(node.template, operands)
    return _choice(applied) or applied


def _choice(applied: Applied) -> Choice | Indicator | None:
    """The function as one between its arguments and numbers, by relations of these; None where it is no such."""
    body = applied.template.expr
    if not isinstance(body, Piecewise) or body.args[-1].cond is not S.true:
        return None
    relations = [branch.cond for branch in body.args[:-1]]
    if any(getattr(relation, "rel_op", None) not in RELATIONS for relation in relations):
        return None
    values = dict(zip(applied.template.variables, applied.args, strict=True))
    parts = [*(value for value, _ in body.args), *(side for relation in relations for side in relation.args)]
    if not all(part in values or part.is_Number for part in parts):
        return None
    values.update((part, Leaf(part)) for part in parts if part.is_Number)
    if [value for value, _ in body.args] == [1, 0]:
        (relation,) = relations
        return Indicator(applied, relation.rel_op, (values[relation.lhs], values[relation.rhs]))
    branches = [
        (values[value], values[relation.lhs], relation.rel_op, values[relation.rhs])
        for (value, _), relation in zip(body.args[:-1], relations, strict=True)
    ]
    return Choice(applied, (*branches, (values[body.args[-1].expr],)))


def _log_sum_exp(node: Any) -> Any:
    return Call("logsumexp", (notation_of(node.tensor),), _axis(node.axes, rank(node.tensor)))


def _axis(axes: tuple[int, ...], axes_of_all: int) -> tuple[tuple[str, Any], ...]:
    if len(axes) == axes_of_all:
        return ()
    return (("axis", axes[0] if len(axes) == 1 else axes),)


def _filled(node: Any) -> Any:
    value, shape = node.args
    name = {0: "zeros", 1: "ones"}.get(value)
    constant = Constant(name or "ones", tuple(shape.args))
    if not shape.args:
        return notation_of(value)
    return constant if name else product(factors=[in_front(notation_of(value)), constant])


def _softmax(node: Any) -> Any | None:
    """``exp(A - logsumexp(A))``, the latter repeated along the axes that it has lost; None for all else."""
    exponent = node.operands[0]
    if not isinstance(node.template.expr, exp) or not _is(exponent, "TensorAdd"):
        return None
    for place, term in enumerate(exponent.args):
        total, axes = _subtracted_logsumexp(term)
        rest = exponent.args[:place] + exponent.args[place + 1 :]
        if total is None or rest not in ((total.tensor,), total.tensor.args):
            continue
        ranks = range(rank(total.tensor))
        if axes == tuple(axis for axis in ranks if axis not in total.axes):
            keyword = _axis(total.axes, len(ranks)) or (("axis", None),)
            return Call("softmax", (notation_of(total.tensor),), keyword if len(ranks) > 1 else ())
    return None


def _subtracted_logsumexp(term: Any) -> tuple[Any, tuple[int, ...]]:
    """The ``u`` of a term ``-logsumexp(u)``, and its axes; None for other terms."""
    if rank(term) == 0:
        return (-term, ()) if _is(-term, "TensorLogSumExp") else (None, ())
    sign, term = term.args if _is(term, "TensorMul") and len(term.args) == 2 else (S.One, term)
    if not _is(term, "EinsumProduct"):
        return (term, tuple(range(rank(term)))) if sign == -1 and _is(term, "TensorLogSumExp") else (None, ())
    total, axes = None, ()
    for labels, operand in zip(term.inputs, term.operands, strict=True):
        if not set(labels) <= set(term.output):
            return None, ()
        if _is(operand, "TensorLogSumExp") and total is None:
            total, axes = operand, tuple(map(term.output.index, labels))
        elif operand.is_Number:
            sign *= operand
        elif not _is(operand, "FilledTensor") or operand.value != 1:
            return None, ()
    return (total, axes) if sign == -1 else (None, ())


def _is(node: Any, name: str) -> bool:
    return type(node).__name__ == name


def rank(expr: Any) -> int:
    """The rank of a tensor, 0 for a scalar."""
    return int(getattr(expr, "rank", 0))


def _matrix_function(name: str) -> Callable[[Any], Any]:
    return lambda node: Call(name, (notation_of(node.matrix),))


_NOTATIONS: dict[str, Callable[[Any], Any]] = {
    "EinsumProduct": _einsum,
    "DeltaTensor": lambda node: Constant("identity", node.shape[: node.rank // 2]),
    "FilledTensor": _filled,
    "TensorAdd": _sum,
    "TensorMul": _product,
    "TensorPow": _power,
    "TensorFunction": _function,
    "TensorInverse": lambda node: Inverse(notation_of(node.matrix)),
    "TensorDeterminant": _matrix_function("det"),
    "TensorAdjugate": _matrix_function("adj"),
    "TensorCofactor": lambda node: Call("TensorCofactor", (Leaf(node.args[0]), notation_of(node.matrix))),
    "TensorLogSumExp": _log_sum_exp,
}
