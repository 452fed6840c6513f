"""Sums of products of which the range ends at an index around them, as products of matrices.

``Sum_{j <= i} a[i, j]*b[j, l]`` multiplies a triangle of ``a``. A term that is not in the range is not computed, since
it may be nan, and 0*nan is nan. So the rows of ``a`` are cut into blocks: the terms that all rows of a block have are
one product of matrices, and the few others of each row, next to the slant, a sum as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.ir.programs import BLOCK
from sympy_tensordiff.codegen.lower.factor_groups import Slant, Split
from sympy_tensordiff.codegen.lower.plan import Planner
from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.implication import implied
from sympy_tensordiff.integer.rows import Rows

FEWEST = 3
"""With fewer blocks of rows than these, or less terms than as many rows, loops are as good."""


def slant_of(rows: Sequence[Row], variables: Sequence[int], around: Sequence[int]) -> Slant | None:
    """The bound of the only variable of a sum by an index around it; None if there are none, or several."""
    if len(variables) != 1:
        return None
    (term,) = variables
    found = [row for row in rows if term in row.form.atoms() and not row.form.atoms().isdisjoint(around)]
    if len(found) != 1 or found[0].kind != "ge" or found[0].form.compounds():
        return None
    form = found[0].form
    indices = [v for v in form.atoms() if v in around]
    sign = form.coefficient(term)
    if len(indices) != 1 or abs(sign) != 1 or form.coefficient(indices[0]) != -sign:
        return None
    last, row = Affine.variable(term), Affine.variable(indices[0])
    return Slant(found[0], row, last, last - row - form * sign, sign > 0)


def beside(slant: Slant, first: Affine) -> Row:
    """The condition of the terms that not all rows of a block have; ``first`` is the first row."""
    end = BLOCK * quotient(slant.row - first, BLOCK) + first + slant.offset
    return Row("ge", end + (BLOCK - 2) - slant.term if slant.is_upper else slant.term - end - 1)


def slanted_range(
    planner: Planner, facts: Rows, label: Affine, split: Split, slant: Slant
) -> tuple[Affine, Affine] | None:
    """The range of a label. A row may have no terms; these may go on to the end of a tensor, which is no copy."""
    if label != slant.term:
        rows = tuple([row for row in split.context.rows if row != slant.bound])
        return planner.range(label, replace(split.context, rows=rows))
    found, (term,) = planner.range(label, split.context), split.summed
    sign = slant.bound.form.coefficient(term)
    others = [row for row in split.bounds if row != slant.bound]
    if found is None or any(row.form.coefficient(term) * sign > 0 for row in others):
        return found
    low, high = found
    if slant.is_upper:
        return (Affine(), high) if implied(Row("ge", low), facts) else found
    reads = [factor for factor in split.factors if factor.op == "read" and label in factor.data]
    lasts = (read.args[0].shape[read.data.index(label)] - 1 for read in reads)
    return low, next((last for last in lasts if implied(Row("ge", last - high), facts)), high)
