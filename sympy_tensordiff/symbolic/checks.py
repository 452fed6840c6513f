"""Reads that provably leave their tensor's shape raise when the expression is built.

Considered are reads that happen unconditionally, at indices whose ranges are numbers: every
enclosing range is a system of rows, and a violating index tuple is a point of the system. Reads
behind a condition that is no affine condition on such indices, or multiplied by a
`KroneckerDelta`, are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sympy import ITE, And, Eq, Expr, Ge, Gt, KroneckerDelta, Le, Lt, Mul, Not, Or, Piecewise, S

from sympy_tensordiff.errors import IndexExpressionError, OutOfShapeError
from sympy_tensordiff.integer.affine import Affine, Quotient, Row
from sympy_tensordiff.integer.extrema import PositivePart
from sympy_tensordiff.integer.implication import implied
from sympy_tensordiff.integer.rows import linear, range_rows, shape_rows
from sympy_tensordiff.integer.system import definitions
from sympy_tensordiff.integer.values import find_point, hardest
from sympy_tensordiff.symbolic.base import Node
from sympy_tensordiff.symbolic.entries import TensorEntry, TensorExpr
from sympy_tensordiff.symbolic.indices import data_of, is_data, relation_row, to_affine

Range = tuple[Expr, Sequence[Expr], Sequence[Expr]]


class Scope(NamedTuple):
    """What is known where a read happens, over variables 0, 1, … for the indices.

    ``variables`` maps an index with a numeric range to its variable; ``rows`` are the ranges and conditions.
    """

    variables: dict[Expr, int]
    names: tuple[Expr, ...] = ()
    rows: tuple[Row, ...] = ()

    def form(self, index: Expr) -> Affine | None:
        """The form of an index over the variables; None where it holds a symbol without a range, a product, or data."""
        try:
            form = to_affine(index, self.variables.__getitem__)
        except (KeyError, IndexExpressionError):
            return None
        if linear([form]):
            return form
        known = all(isinstance(part, Quotient | PositivePart) for part in definitions(form.compounds()))
        return form if known else None

    def forms(self, expressions: Sequence[Expr]) -> list[Affine] | None:
        """The forms of all expressions, or None."""
        forms = [self.form(expr) for expr in expressions]
        return None if any(form is None for form in forms) else forms  # type: ignore[return-value]

    def entered(self, index: Expr, lower: Sequence[Expr], upper: Sequence[Expr], *, of_axis: bool) -> Scope | None:
        """The scope inside of a range; None where nothing is known to be read there: the range may be empty.

        The range of an axis never is.
        """
        lows, highs = self.forms(lower), self.forms(upper)
        variables = dict(self.variables)
        if lows is None or highs is None:
            if not of_axis:
                return None
            variables.pop(index, None)
            return self._replace(variables=variables)
        number = len(self.names)
        variables[index] = number
        return Scope(variables, (*self.names, index), (*self.rows, *range_rows(number, lows, highs)))

    def under(self, rows: Sequence[Row]) -> Scope:
        """The scope behind further conditions."""
        return self._replace(rows=(*self.rows, *rows)) if rows else self

    def point(self, inside: Row) -> dict[int, int] | None:
        """Values at which a row does not hold, ends of the ranges if possible; None where there are none."""
        if implied(inside, self.rows):
            return None
        variables = range(len(self.names))
        rows = (*self.rows, inside.negation())
        ends = [Row("eq", Affine({v: 1}) - end) for v, end in hardest(inside, variables[::-1], self.rows).items()]
        return find_point([*rows, *ends], variables) or find_point(rows, variables)


def check_reads(body: Expr, ranges: Sequence[Range], *, of_axes: bool) -> None:
    """Raise `OutOfShapeError` for a read in ``body`` that leaves its shape somewhere in ``ranges``.

    Parameters
    ----------
    body : Expr
    ranges : sequence of (index, lower forms, upper forms)
        The outermost first; the index runs from the maximum of the lower to the minimum of the
        upper forms.
    of_axes : bool
        Whether these are the indices of a tensor, whose extents are positive even where they are symbols.
    """
    scope: Scope | None = Scope({})
    for limit in ranges:
        scope = scope.entered(*limit, of_axis=of_axes) if scope is not None else None
    stack = [(body, scope)]
    # A shared part is visited once per scope; the table keeps the scopes, so that no two have one id.
    seen: dict[tuple[Any, int], Scope] = {}
    while stack:
        node, scope = stack.pop()
        if scope is not None and scope.variables and (node, id(scope)) not in seen:
            seen[node, id(scope)] = scope
            stack.extend(_visited(node, scope))


def _visited(node: Any, scope: Scope) -> list[tuple[Any, Scope | None]]:
    """Check the node if it is a read; its parts with the scopes that they are in."""
    if isinstance(node, TensorEntry):
        _check_read(node, scope)
        parts = [index for index in node.indices if not index.is_Symbol and data_of(index)]
        return [(part, scope) for part in (*parts, *(() if node.tensor.is_symbol else (node.tensor,)))]
    if isinstance(node, Node) and hasattr(node, "ranges"):
        if node.free_symbols.isdisjoint(scope.variables):
            return []  # nothing around it matters: it has been checked when it was made
        inner: Scope | None = scope
        for limit in node.ranges():
            inner = inner.entered(*limit, of_axis=isinstance(node, TensorExpr)) if inner is not None else None
        return [(node.body, inner)]
    if isinstance(node, Piecewise):
        return _branches(node.args, scope)
    if isinstance(node, ITE):
        condition, value, otherwise = node.args
        return _branches([(value, condition), (otherwise, S.true)], scope)
    if isinstance(node, And | Or):
        return _connected(node, scope)
    if isinstance(node, Mul) and any(isinstance(factor, KroneckerDelta) for factor in node.args):
        return []
    return [(arg, scope) for arg in node.args]


def _branches(pairs: Sequence[tuple[Any, Any]], scope: Scope | None) -> list[tuple[Any, Scope | None]]:
    parts: list[tuple[Any, Scope | None]] = []
    for value, condition in pairs:
        if scope is None:
            break
        parts.append((condition, scope))
        rows = _condition_rows(condition, scope)
        if rows is None:
            break
        parts.append((value, scope.under(rows)))
        scope = scope.under([rows[0].negation()]) if len(rows) == 1 and rows[0].kind == "ge" else None
    return parts


def _connected(node: Any, scope: Scope) -> list[tuple[Any, Scope | None]]:
    """The parts of a condition that read, each with the parts that do not read as what is known there."""
    reading = [part for part in node.args if part.has(TensorEntry)]
    if len(reading) > 1 and any(all(map(is_data, part.atoms(TensorEntry))) for part in reading):
        return []
    asked = [part if isinstance(node, And) else Not(part) for part in node.args if part not in reading]
    rows = [_condition_rows(part, scope) for part in asked]
    if any(part is None for part in rows):
        return []
    return [(part, scope.under([row for part in rows for row in part or ()])) for part in reading]


def _condition_rows(condition: Any, scope: Scope) -> list[Row] | None:
    """The rows of a condition on indices; None where it is anything else."""
    if condition == S.true:
        return []
    if isinstance(condition, And):
        parts = [_condition_rows(part, scope) for part in condition.args]
        return None if any(part is None for part in parts) else [row for part in parts for row in part or ()]
    if not isinstance(condition, (Ge, Gt, Le, Lt, Eq)):
        return None
    sides = scope.forms(condition.args)
    return None if sides is None else [relation_row(condition, sides[0] - sides[1])]


def _check_read(entry: TensorEntry, scope: Scope) -> None:
    tensor: TensorExpr = entry.tensor
    for axis, (index, extent) in enumerate(zip(entry.indices, tensor.shape, strict=True)):
        form = scope.form(index)
        if form is None or form.is_constant:
            continue
        # A symbolic extent has no end that is known.
        for inside in shape_rows([form], [Affine.of(int(extent))]) if extent.is_Integer else [Row("ge", form)]:
            point = scope.point(inside)
            if point is not None:
                raise OutOfShapeError(_message(entry, axis, form, point, scope))


def _message(entry: TensorEntry, axis: int, form: Affine, point: dict[int, int], scope: Scope) -> str:
    atoms = sorted(form.atoms())
    where = ", ".join(f"{scope.names[variable]} = {point[variable]}" for variable in atoms)
    shape = tuple(entry.tensor.shape)
    return (
        f"{entry} leaves the shape {shape}: at {where} its index {entry.indices[axis]} of axis {axis} is "
        f"{form.evaluate(point)}, outside of 0 … {shape[axis] - 1}; fix the range, the index or the shape"
    )
