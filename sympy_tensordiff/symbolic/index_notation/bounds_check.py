"""The bounds check when an expression is built: raise for reads that provably leave their tensor's shape.

Considered are reads that happen unconditionally, at indices whose ranges are numbers: every enclosing range is a system
of rows, and a violating index tuple is a point of the system. Reads behind a condition that is not an affine condition
on such indices, or multiplied by a `KroneckerDelta`, are not checked.

This is not the check of `simplify/accesses.py`, which asks on the graph if a read is out of bounds for every size. Of
the 23 wrong reads in ranges of numbers in its tests, which are refused here with the indices at which they go wrong,
that check finds 16: not those behind conditions or by remainders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sympy import ITE, And, Expr, KroneckerDelta, Mul, Not, Or, Piecewise, S

from sympy_tensordiff.errors import IndexExpressionError, OutOfShapeError
from sympy_tensordiff.integer.affine import Affine, Constraint, Quotient
from sympy_tensordiff.integer.extrema import PositivePart
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.rows import linear, shape_rows
from sympy_tensordiff.integer.system import definitions
from sympy_tensordiff.integer.values import find_point, least_slack_point
from sympy_tensordiff.symbolic.expressions.base import TensorNode
from sympy_tensordiff.symbolic.index_notation.constraints import Alternatives, alternatives, branch_alternatives
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry, TensorExpr
from sympy_tensordiff.symbolic.index_notation.indices import data_of, is_data, to_affine
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange


class ReadContext(NamedTuple):
    """The ranges and conditions around a read ``x[i]``, as a system of constraints over variables numbered 0, 1, ...

    ``variables`` maps an index with a numeric range to its variable, ``names`` maps back, and ``rows`` are the ranges
    and conditions.
    """

    variables: dict[Expr, int]
    names: tuple[Expr, ...] = ()
    rows: tuple[Constraint, ...] = ()

    def affine_form(self, index: Expr) -> Affine | None:
        """Return ``index`` as an affine form of the variables. The result is None if it contains a symbol without a
        numeric range, a product of symbols, or an entry of an integer tensor.
        """
        try:
            form = to_affine(index, self.variables.__getitem__)
        except (KeyError, IndexExpressionError):
            return None
        if linear([form]):
            return form
        known = all(isinstance(part, Quotient | PositivePart) for part in definitions(form.compounds()))
        return form if known else None

    def inside_range(self, limit: IndexRange, *, of_axis: bool) -> ReadContext | None:
        """Return the context for reads inside of a sum or tensor axis with the range ``limit``. If an end of the range
        is not affine, return None for a sum; for an axis (``of_axis``), a context without a variable for the index.

        A sum over a range with unknown ends may be empty, so that a read inside need not happen; a tensor axis is never
        empty.
        """
        number, variables = len(self.names), dict(self.variables)
        rows = limit.constraints(number, self.affine_form)
        if len(rows) < len(limit.lows + limit.highs):
            if not of_axis:
                return None
            variables.pop(limit.index, None)
            return self._replace(variables=variables)
        variables[limit.index] = number
        return ReadContext(variables, (*self.names, limit.index), (*self.rows, *rows))

    def inside(self, condition: Alternatives) -> list[ReadContext]:
        """Return a context for each of the alternatives of ``condition``: this one with their constraints added. [] if
        the condition is not known exactly.
        """
        systems = condition.systems if condition.exact else ()
        return [self._replace(rows=(*self.rows, *rows)) if rows else self for rows in systems]

    def violation(self, inside: Constraint) -> dict[int, int] | None:
        """Return values of the variables for which the constraint ``inside`` fails, as an example for the error
        message, preferably at the ends of ranges; None if none is found.
        """
        if is_implied(inside, self.rows):
            return None
        variables = range(len(self.names))
        rows = (*self.rows, inside.negation())
        ends = [
            Constraint("eq", Affine({v: 1}) - end)
            for v, end in least_slack_point(inside, variables[::-1], self.rows).items()
        ]
        return find_point([*rows, *ends], variables) or find_point(rows, variables)


def check_reads(body: Expr, ranges: Sequence[IndexRange], *, of_axes: bool) -> None:
    """Raise `OutOfShapeError` if the expression ``body`` has a read that is out of bounds for some indices in
    ``ranges``, which are given outermost first. ``of_axes`` says whether they are ranges of tensor axes, which are
    never empty, or of sums.
    """
    context: ReadContext | None = ReadContext({})
    for limit in ranges:
        context = context.inside_range(limit, of_axis=of_axes) if context is not None else None
    stack = [(body, context)]
    # A shared part is visited once per context; the table keeps the contexts, so that no two have one id.
    seen: dict[tuple[Any, int], ReadContext] = {}
    while stack:
        node, context = stack.pop()
        if context is not None and context.variables and (node, id(context)) not in seen:
            seen[node, id(context)] = context
            stack.extend(_check_node(node, context))


def _check_node(node: Any, context: ReadContext) -> list[tuple[Any, ReadContext | None]]:
    """Raise `OutOfShapeError` if ``node`` is a tensor read out of bounds. Return the subexpressions to check next, as
    pairs ``(subexpression, context)``.

    A context has the constraints that hold at the subexpression; it is None if they are not known.
    """
    if isinstance(node, TensorEntry):
        _check_read(node, context)
        parts = [index for index in node.indices if not index.is_Symbol and data_of(index)]
        return [(part, context) for part in (*parts, *(() if node.tensor.is_symbol else (node.tensor,)))]
    if isinstance(node, TensorNode) and hasattr(node, "ranges"):
        if node.free_symbols.isdisjoint(context.variables):
            return []  # nothing around it matters: it has been checked when it was made
        inner: ReadContext | None = context
        for limit in node.ranges():
            inner = inner.inside_range(limit, of_axis=isinstance(node, TensorExpr)) if inner is not None else None
        return [(node.body, inner)]
    if isinstance(node, Piecewise | ITE):
        branches = node.args if isinstance(node, Piecewise) else [(node.args[1], node.args[0]), (node.args[2], S.true)]
        found = branch_alternatives(branches, context.affine_form)
        return [(part, inner) for part, condition in found for inner in context.inside(condition)]
    if isinstance(node, And | Or):
        return _parts_of_connective(node, context)
    if isinstance(node, Mul) and any(isinstance(factor, KroneckerDelta) for factor in node.args):
        return []
    return [(arg, context) for arg in node.args]


def _parts_of_connective(node: Any, context: ReadContext) -> list[tuple[Any, ReadContext | None]]:
    """Return the operands of an `And` or `Or` that read tensor entries, as pairs ``(operand, context)``: each with the
    constraints under which it is evaluated. [] if these are not all constraints of affine forms.

    The context contains the conditions without reads: the other operands, negated for `Or`.
    """
    reading = [part for part in node.args if part.has(TensorEntry)]
    if len(reading) > 1 and any(all(map(is_data, part.atoms(TensorEntry))) for part in reading):
        return []
    asked = And(*(part if isinstance(node, And) else Not(part) for part in node.args if part not in reading))
    found = context.inside(alternatives(asked, context.affine_form))
    return [(part, inner) for part in reading for inner in found]


def _check_read(entry: TensorEntry, context: ReadContext) -> None:
    """Raise `OutOfShapeError` if an index of ``entry`` that is not constant is negative, or not less than a known
    integer extent, for some values of the indices that ``context`` allows.
    """
    tensor: TensorExpr = entry.tensor
    for axis, (index, extent) in enumerate(zip(entry.indices, tensor.shape, strict=True)):
        form = context.affine_form(index)
        if form is None or form.is_constant:
            continue
        # A symbolic extent has no end that is known.
        for inside in shape_rows([form], [Affine.of(int(extent))]) if extent.is_Integer else [Constraint("ge", form)]:
            point = context.violation(inside)
            if point is not None:
                raise OutOfShapeError(_out_of_shape_message(entry, axis, form, point, context))


def _out_of_shape_message(
    entry: TensorEntry, axis: int, form: Affine, point: dict[int, int], context: ReadContext
) -> str:
    """Return the error text for ``entry``: its index ``form`` along ``axis`` is out of bounds when the variables have
    the values ``point``.
    """
    atoms = sorted(form.atoms())
    where = ", ".join(f"{context.names[variable]} = {point[variable]}" for variable in atoms)
    shape = tuple(entry.tensor.shape)
    return (
        f"{entry} leaves the shape {shape}: at {where} its index {entry.indices[axis]} of axis {axis} is "
        f"{form.evaluate(point)}, outside of 0 … {shape[axis] - 1}; fix the range, the index or the shape"
    )
