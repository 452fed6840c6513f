"""Printing of operations on whole tensors: the notation of each class, as text, LaTeX and two-dimensional form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from string import ascii_letters
from types import FrameType
from typing import Any, NamedTuple

from sympy import And, Max, Min, Mul, Not, Or, Piecewise, Pow, S, default_sort_key, exp
from sympy.printing.pretty.stringpict import prettyForm

from sympy_tensordiff.functions.table import by_name, record_of
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.expressions.sympy_callers import position_in_formula
from sympy_tensordiff.symbolic.expressions.traversal import postorder
from sympy_tensordiff.symbolic.printing.matrix_notation import added_labels, einsum_notation
from sympy_tensordiff.symbolic.printing.norm_notation import value_away_from_zero, with_norms
from sympy_tensordiff.symbolic.printing.notation import (
    NOTHING,
    Applied,
    Call,
    Choice,
    Connected,
    Constant,
    Divisor,
    Expanded,
    Indicator,
    Inverse,
    Leaf,
    Power,
    Relation,
    Repeated,
    RowVector,
    entrywise,
    in_forms,
    in_front,
    product,
    split_scalar,
    total,
    variant,
)
from sympy_tensordiff.symbolic.printing.notation_formulas import LatexWriter
from sympy_tensordiff.symbolic.printing.notation_pretty import PrettyWriter
from sympy_tensordiff.symbolic.printing.notation_text import ADD, ATOM, MUL, POW, RELATIONS, TextWriter, mean_of
from sympy_tensordiff.symbolic.printing.printed_forms import PrintedForms, refuse_unprintable, text_instead
from sympy_tensordiff.symbolic.printing.repeated_tensors import (
    is_ones_tensor,
    labels_of_ones,
    rank,
    repeated_tensor,
)
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import (
    TensorAdjugate,
    TensorCofactor,
    TensorDeterminant,
    TensorInverse,
    TensorLogSumExp,
)
from sympy_tensordiff.symbolic.whole_tensors.operations import TensorOperation


class TensorForms(PrintedForms):
    """The printed forms of an operation on tensors: matrix products if possible, else index notation."""

    def precedence(self, caller: FrameType) -> int:
        """Return the precedence of the printed form, by which SymPy's printers set parentheses. ``caller`` is the stack
        frame that tells where it is printed.

        In LaTeX, a product gets parentheses unless it is the last factor.

        SymPy writes the factors of a negative product as terms of a sum, and Python reads ``*``, ``/`` and ``@`` from
        the left: a text with an operator binds like a sum, and has parentheses as a factor and as a divisor.
        """
        if measures(self.node).is_unprintable:
            return ATOM
        place = position_in_formula(caller)
        if place == "text":
            level = TextWriter(None).level(notation_of(self.node))
            return level if level >= POW else ADD
        level = LatexWriter(None).level(notation_of(self.node))
        return (MUL - 1 if place == "factor" else MUL) if ADD < level < POW else level

    def text(self, printer: Any) -> str:
        """Return the tensor operation as Python text."""
        other = text_instead(self.node, printer)
        return str(TextWriter(printer).write(notation_of(self.node))) if other is None else other

    def latex(self, printer: Any) -> str:
        """Return the tensor operation as a formula in LaTeX."""
        refuse_unprintable(self.node, "LaTeX")
        return str(LatexWriter(printer).write(notation_of(self.node)))

    def pretty(self, printer: Any) -> Any:
        """Return the tensor operation as a two-dimensional formula."""
        refuse_unprintable(self.node, "pretty")
        notation, writer = notation_of(self.node), PrettyWriter(printer)
        form = writer.write(notation)
        bindings = {ADD: prettyForm.ADD, POW: prettyForm.POW, ATOM: prettyForm.ATOM}
        return prettyForm("\n".join(form.picture), form.baseline, bindings.get(writer.level(notation), prettyForm.MUL))


SHALLOW = 30
"""Notations of so many levels are made by recursion."""

CACHED = 1 << 10
"""Notations of so many nodes are remembered: a tensor occurs in a formula several times, and in several forms of it."""


def notation_of(node: Any) -> Any:
    """Return the printed form of ``node`` as a tree (its notation), from which all printers write it. For a deep node,
    the trees of its operands are made first, to avoid deep recursion.
    """
    if isinstance(node, TensorOperation) and measures(node).depth > SHALLOW:
        done: set[Any] = set()
        for part in postorder(node, done, _operands):
            done.add(part)
            _notation(part)
    return _notation(node)


def _operands(node: Any) -> tuple[Any, ...]:
    """Return the operands of ``node``; () if it is not a tensor operation."""
    return tuple(node.operands) if isinstance(node, TensorOperation) and hasattr(node, "operands") else ()


@lru_cache(maxsize=CACHED)
def _notation(node: Any) -> Any:
    """Return the notation (the tree from which all printers write) of any node, from the cache or made from its
    operands.
    """
    known = _NOTATIONS.get(type(node))
    return Leaf(with_norms(node)) if known is None else known(node)


def _einsum(node: Any) -> Any:
    """Return the printed form, as a tree, of an einsum product. A tensor that is only repeated is written with new
    axes, ``x[:, None]``, and a sum divided by its number of terms as a mean.
    """
    operands = [_notation(operand) for operand in node.operands]
    found = einsum_notation(node.inputs, node.output, operands, node.label_extents)
    parts = [(labels, operand) for labels, operand in zip(node.inputs, operands, strict=True)]
    repeated = repeated_tensor(node)
    new = [axis for axis in range(node.rank) if repeated is None or axis not in repeated[1]]
    if repeated is not None and all(node.shape[axis] == 1 for axis in new):
        tensor, flags = _notation(repeated[0]), tuple(axis in new for axis in range(node.rank))
        formula = found if node.rank > 2 else in_forms(_row, tensor) if flags[0] else tensor
        return variant(in_forms(_expanded, tensor, flags), formula)
    mean = _mean(node, parts)
    if mean is None:
        return found
    return variant(mean, found) if node.rank else mean


def _expanded(tensor: Any, new: tuple[bool, ...]) -> Any:
    """Return the printed form of ``tensor`` with an axis of extent 1 inserted wherever ``new`` is True; scalar factors
    are written in front.
    """
    front, inner = split_scalar(tensor)
    return product(factors=[front, Expanded(inner, new)]) if any(new) else tensor


def _row(vector: Any) -> Any:
    """Return the printed form, as a tree, of a vector as a row, ``x.T``; scalar factors are written in front."""
    front, inner = split_scalar(vector)
    return product(factors=[front, RowVector(inner)])


def _contracted(parts: Sequence[tuple[str, Any]], output: str, node: Any) -> Any:
    """Return the printed form, as a tree, of the einsum with the result labels ``output``. ``parts`` are pairs of an
    operand's labels and printed form; `node` has the extents of the labels.
    """
    inputs, operands = [labels for labels, _ in parts], [operand for _, operand in parts]
    return einsum_notation(inputs, output, operands, node.label_extents)


def _mean(node: Any, parts: Sequence[tuple[str, Any]]) -> Any | None:
    """Return the notation ``mean(...)`` for a sum of the tensors `parts` divided by the number of its terms; None for
    any other product.
    """
    labels = added_labels(node.inputs, node.output)
    extents = [node.label_extents[label] for label in labels]
    scalars = [operand for labels, operand in zip(node.inputs, node.operands, strict=True) if not labels]
    if not labels or scalars != [1 / Mul(*extents)]:
        return None
    total = _contracted([part for part in parts if part[0]], node.output, node)
    front, tensor = split_scalar(getattr(total, "text", total))
    mean = mean_of(tensor, extents)
    return None if mean is None else product(factors=[front, mean])


def _sum(node: Any) -> Any:
    """Return the printed form, as a tree, of a sum."""
    parts = zip(node.args, _without_ones(node), strict=True)
    return total(part if rank(term) else Repeated(Leaf(term), node.shape) for term, part in parts)


def _product(node: Any) -> Any:
    """Return the printed form, as a tree, of an elementwise product. In formulas, a factor that is broadcast along an
    axis, as in ``v[:, None]*X``, becomes a diagonal matrix or part of an outer product.
    """
    operands = [_operand(factor) for factor in node.args]
    parts = _without_redundant_ones(operands, node.shape)
    factors = [part if rank(factor) else in_front(part) for factor, part in zip(node.args, parts, strict=True)]
    if all(len(own.axes) == rank(factor) for own, factor in zip(operands, node.args, strict=True)):
        return product(factors=factors)
    # On paper, a factor that is repeated along axes is a diagonal matrix, or one factor of an outer product.
    labels = ascii_letters[: node.rank]
    inputs = ["".join(labels[axis] for axis in own.axes) for own in operands]
    extents = dict(zip(labels, node.shape, strict=True))
    formula = einsum_notation(inputs, labels, [own.bare for own in operands], extents)
    return variant(product(factors=factors), formula)


def _power(node: Any) -> Any:
    """Return the printed form, as a tree, of an elementwise power; one with a negative exponent becomes a divisor."""
    base, exponent = _without_ones(node)
    number = node.exponent
    if not number.is_Number or not rank(node.base):
        return Power(base, exponent)
    if number.is_negative:
        positive = base if number == -1 else _powered(base, -number)
        return NOTHING._replace(divisors=(Divisor(positive, rank(node.base)),))
    return _powered(base, number)


class _Operand(NamedTuple):
    """An operand of an elementwise operation for the printer, in two forms: as it is, and multiplied by a tensor of
    ones, so that it has all axes of the operation.

    ``shape`` and ``text`` are its shape and notation next to operands that have the other axes; ``axes`` are its axes
    in the node, ``bare`` its notation with these alone, and ``full`` its notation with the ones.
    """

    shape: tuple[Any, ...]
    text: Any
    axes: tuple[int, ...]
    bare: Any
    full: Any


def _without_ones(node: Any) -> list[Any]:
    """Return the trees for printing the operands of the elementwise operation ``node``. An operand ``v`` that is
    multiplied by ones only to have more axes is printed as ``v``, if broadcasting has the same effect.
    """
    return _without_redundant_ones([_operand(operand) for operand in node.operands], node.shape)


def _without_redundant_ones(parts: Sequence[_Operand], shape: Sequence[Any]) -> list[Any]:
    """Return the trees for printing the operands ``parts`` of an elementwise operation with the result shape ``shape``.
    In Python text, an operand is printed without the tensor of ones that broadcasts it, if the operands still broadcast
    to ``shape`` without these ones.
    """
    reached = all(
        any(len(part.shape) > back and part.shape[-1 - back] == extent for part in parts)
        for back, extent in enumerate(shape[::-1])
    )
    return [variant(part.text, part.full) if reached and part.text != part.full else part.full for part in parts]


def _operand(node: Any) -> _Operand:
    """Return an operand of an elementwise operation in its printed forms. If `node` repeats a tensor along new axes,
    ``full`` writes this as a product with a tensor of ones and ``bare`` is the tensor alone; otherwise both are equal.
    """
    axes = tuple(range(rank(node)))
    if isinstance(node, TensorMul) and sum(map(bool, map(rank, node.args))) == 1:
        tensor = _operand(node.args[-1])
        fronts = [in_front(_notation(scalar)) for scalar in node.args[:-1]]
        text, bare, full = (product(factors=[*fronts, form]) for form in (tensor.text, tensor.bare, tensor.full))
        return _Operand(tensor.shape, text, tensor.axes, bare, full)
    if (repeated := repeated_tensor(node)) is None:
        notation = _notation(node)
        return _Operand(tuple(getattr(node, "shape", ())), notation, axes, notation, notation)
    tensor, own = repeated
    bare = _notation(tensor)
    new = labels_of_ones(node)
    if all(node.label_extents[label] == 1 for label in new):
        return _Operand(tuple(node.shape), _notation(node), own, bare, _notation(node))
    ones = Constant("ones", tuple(node.label_extents[label] for label in new))
    remaining = "".join(node.output[axis] for axis in own)
    full = _contracted([(remaining, bare), ("".join(new), ones)], node.output, node)
    if (given := _unrepeated_operand(node)) is not None:
        return _Operand(tuple(given.shape), _notation(given), own, bare, full)
    flags = tuple(axis not in own for axis in range(own[0], len(axes)))
    shape = tuple(node.shape[axis] if axis in own else S.One for axis in range(own[0], len(axes)))
    return _Operand(shape, in_forms(_expanded, bare, flags), own, bare, full)


def _unrepeated_operand(node: Any) -> Any | None:
    """Return the tensor ``x`` if the einsum ``node`` only broadcasts it by NumPy's rules: its other operands are
    tensors of ones, and axes of ``x`` of extent 1 are repeated to the shape of the result. Return None for other
    einsums.
    """
    rest = [pair for pair in zip(node.inputs, node.operands, strict=True) if not is_ones_tensor(pair[1])]
    (labels, tensor), output = rest[0], node.output
    unit = [label for label in labels if label not in output]
    fits = all(own == label or own in unit for own, label in zip(labels[::-1], output[::-1], strict=False))
    is_view = len(rest) == 1 and unit and all(node.label_extents[label] == 1 for label in unit)
    return tensor if is_view and fits and len(set(labels)) == len(labels) <= len(output) else None


def _powered(base: Any, number: Any) -> Any:
    """Return the printed form, a tree, of ``base`` to the power of a number; the exponent 1/2 is written ``sqrt``."""
    return Call("sqrt", (base,)) if number == S.Half else Power(base, Leaf(number))


_COMPOSED = ("entr", "logaddexp")
"""Functions of the package whose formulas are composed of other functions."""


def _function(node: Any) -> Any:
    """Return the printed form, as a tree, of an elementwise function: a call by its name, a choice (``where``), or its
    formula.
    """
    softmax = softmax_notation(node)
    if softmax is not None:
        return softmax
    if (value := value_away_from_zero(node)) is not None:
        return _notation(value)
    operands = tuple(_without_ones(node))
    body, names = node.template.expr, node.template.variables
    if isinstance(body, Pow) and body.args == (*names, S.Half):
        return Call("sqrt", operands)
    if isinstance(body, Max) and set(body.args) == {S.Zero, *names}:
        return Call("relu", operands)
    if (arguments := clipped(node)) is not None:
        return Call("clip", tuple(map(_notation, arguments)))
    for name in _COMPOSED:
        record = by_name(name)
        if record is not None and record.operands[0] == len(names) and body == record.function(*names):
            return Call(name, operands)
    record = record_of(type(body))
    numbers = tuple(Leaf(arg) for arg in body.args if arg.is_Number)  # of an extremum
    if record.is_public and len(body.args) == len(names + numbers) and set(names) <= set(body.args):
        if len(body.args) == 1 and rank(node) == 2:
            return entrywise(lambda operand: Call(record.name, (operand,)), operands[0])
        if isinstance(body, (Max, Min)):  # SymPy sorts their arguments
            return Call(record.name, operands + numbers)
        forms = dict(zip(names, operands, strict=True))
        return Call(record.name, tuple(Leaf(arg) if arg.is_Number else forms[arg] for arg in body.args))
    return choice_notation(body, dict(zip(names, operands, strict=True))) or Applied(node.template, operands)


def _log_sum_exp(node: Any) -> Any:
    """Return the printed form of a log-sum-exp: the call ``logsumexp(x, axis)``."""
    return Call("logsumexp", (_notation(node.tensor),), _axis(node.axes, rank(node.tensor)))


def _axis(axes: tuple[int, ...], axes_of_all: int) -> tuple[tuple[str, Any], ...]:
    """Return the keyword argument ``axis=...`` that names ``axes`` of a tensor with ``axes_of_all`` axes; () if they
    are all of its axes.
    """
    if len(axes) == axes_of_all:
        return ()
    return (("axis", axes[0] if len(axes) == 1 else axes),)


def _filled(node: Any) -> Any:
    """Return the printed form, as a tree, of a tensor whose entries are all equal: ``zeros``, ``ones``, or
    ``value*ones``. Without axes, it is the form of the value.
    """
    value, shape = node.args
    name = {0: "zeros", 1: "ones"}.get(value)
    constant = Constant(name or "ones", tuple(shape.args))
    if not shape.args:
        return _notation(value)
    return constant if name else product(factors=[in_front(_notation(value)), constant])


def softmax_notation(node: Any) -> Any | None:
    """Return the call ``softmax(A)`` for a node ``exp(A - logsumexp(A))``; None for any other node."""
    exponent = node.operands[0]
    if not isinstance(node.template.expr, exp) or not isinstance(exponent, TensorAdd):
        return None
    for place, term in enumerate(exponent.args):
        total, axes = _subtracted_logsumexp(term)
        rest = exponent.args[:place] + exponent.args[place + 1 :]
        if total is None or rest not in ((total.tensor,), total.tensor.args):
            continue
        ranks = range(rank(total.tensor))
        if axes == tuple(axis for axis in ranks if axis not in total.axes):
            keyword = _axis(total.axes, len(ranks)) or (("axis", None),)
            return Call("softmax", (_notation(total.tensor),), keyword if len(ranks) > 1 else ())
    return None


def _subtracted_logsumexp(term: Any) -> tuple[Any, tuple[int, ...]]:
    """Return ``(tensor, axes)`` if ``term`` is minus a log-sum-exp, maybe repeated along further axes: the log-sum-exp,
    and the axes of ``term`` that belong to it. Return (None, ()) for another term.
    """
    if rank(term) == 0:
        return (-term, ()) if isinstance(-term, TensorLogSumExp) else (None, ())
    sign, term = term.args if isinstance(term, TensorMul) and len(term.args) == 2 else (S.One, term)
    if not isinstance(term, EinsumProduct):
        return (term, tuple(range(rank(term)))) if sign == -1 and isinstance(term, TensorLogSumExp) else (None, ())
    total: Any = None
    axes: tuple[int, ...] = ()
    for labels, operand in zip(term.inputs, term.operands, strict=True):
        if not set(labels) <= set(term.output):
            return None, ()
        if isinstance(operand, TensorLogSumExp) and total is None:
            total, axes = operand, tuple(map(term.output.index, labels))
        elif operand.is_Number:
            sign *= operand
        elif not isinstance(operand, FilledTensor) or operand.value != 1:
            return None, ()
    return (total, axes) if sign == -1 else (None, ())


def _matrix_function(name: str) -> Callable[[Any], Any]:
    """Return a function that maps a node to its printed form, a call of ``name`` with the node's matrix, such as
    ``det(A)``.
    """
    return lambda node: Call(name, (_notation(node.matrix),))


_NOTATIONS: dict[type, Callable[[Any], Any]] = {
    EinsumProduct: _einsum,
    DeltaTensor: lambda node: Constant("identity", node.shape[: node.rank // 2]),
    FilledTensor: _filled,
    TensorAdd: _sum,
    TensorMul: _product,
    TensorPow: _power,
    TensorFunction: _function,
    TensorInverse: lambda node: Inverse(_notation(node.matrix)),
    TensorDeterminant: _matrix_function("det"),
    TensorAdjugate: _matrix_function("adj"),
    TensorCofactor: lambda node: Call("TensorCofactor", (Leaf(node.args[0]), _notation(node.matrix))),
    TensorLogSumExp: _log_sum_exp,
}


def choice_notation(body: Any, values: dict[Any, Any]) -> Choice | Indicator | None:
    """Return the `Piecewise` `body` of an elementwise function as a tree that is printed as ``where(...)``; None if it
    has no such form. ``values`` maps the function's arguments to the trees of the operands.

    It has none if a value or condition contains anything else, or if there is no last case without a condition. A
    `Piecewise` with the values 1 and 0 and one condition becomes an `Indicator`.
    """
    if not isinstance(body, Piecewise) or body.args[-1].cond is not S.true:
        return None
    results = [_argument(value, values) for value, _ in body.args]
    conditions = [_condition(condition, values) for _, condition in body.args[:-1]]
    if None in results or None in conditions:
        return None
    if [value for value, _ in body.args] == [1, 0]:
        return Indicator(conditions[0])
    return Choice(tuple(zip(results[:-1], conditions, strict=True)), results[-1])


def _argument(value: Any, values: dict[Any, Any]) -> Any | None:
    """Return the printed form, as a tree, of one value of a choice: a number, a nested choice, or an expression whose
    printed form is in ``values``. None for anything else.
    """
    if isinstance(value, Piecewise):
        return choice_notation(value, values)
    return Leaf(value) if value.is_Number else values.get(value)


def _condition(condition: Any, values: dict[Any, Any]) -> Any | None:
    """Return the printed form, as a tree, of a condition; None unless it consists of relations between function
    arguments, joined by and, or, not. ``values`` maps each argument to its printed form.
    """
    if isinstance(condition, (And, Or, Not)):
        parts = tuple(_condition(part, values) for part in _in_canonical_order(condition))
        return None if None in parts else Connected(type(condition).__name__.lower(), parts)
    if getattr(condition, "rel_op", None) not in RELATIONS:
        return None
    sides = _argument(condition.lhs, values), _argument(condition.rhs, values)
    return None if None in sides else Relation(condition.rel_op, *sides)


def _in_canonical_order(condition: Any) -> list[Any]:
    """Return the parts of a condition, such as those of an `And`, as a list in SymPy's canonical order."""
    return sorted(condition.args, key=default_sort_key)


def clipped(node: Any) -> tuple[Any, Any, Any] | None:
    """Return ``(tensor, lower, upper)`` if `node` is ``min(max(tensor, lower), upper)`` with scalar bounds, so that it
    prints as ``clip``; None for other nodes.
    """
    above, high = _tensor_and_bound(node, Min)
    tensor, low = _tensor_and_bound(above, Max)
    return None if low is None or high is None else (tensor, low, high)


def _tensor_and_bound(node: Any, extremum: type) -> tuple[Any, Any]:
    """Return ``(tensor, scalar)`` if `node` is the elementwise maximum of a tensor and a scalar, or the minimum
    (`extremum` is `Max` or `Min`); ``(None, None)`` for other nodes.
    """
    if not isinstance(node, TensorFunction) or type(node.template.expr) is not extremum or len(node.operands) != 2:
        return None, None
    scalar, tensor = sorted(node.operands, key=lambda operand: rank(operand) > 0)
    return (tensor, scalar) if rank(tensor) and not rank(scalar) else (None, None)
