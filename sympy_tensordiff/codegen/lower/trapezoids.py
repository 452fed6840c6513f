"""Sums of products of which the range ends at an index around them, as products of matrices.

``Sum_{j <= i} a[i, j]*b[j, l]`` multiplies a triangle of ``a``. A term that is not in the range is not computed, since
it may be nan, and 0*nan is nan. So the rows of ``a`` are cut into blocks: the terms that all rows of a block have are
one product of matrices, and the few others of each row, next to the slant, a sum as before. The array of the products
is the same for all that needs it, as those of `Matrices` are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.ir.programs import BLOCK, Contraction, Product, Trapezoid
from sympy_tensordiff.codegen.lower.factor_groups import Matrix, Slant, Split, Terms
from sympy_tensordiff.codegen.lower.matrices import Matrices, Ranges
from sympy_tensordiff.codegen.lower.plan import Context
from sympy_tensordiff.graph.interning import Recursion
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.implication import implied

FEWEST = 3
"""With fewer blocks of rows than these, or less terms than as many rows, loops are as good."""


class Trapezoids(Matrices):
    """Finds products of matrices over trapezoids, too. Parameters are those of `Storage`."""

    trapezoids = False
    """Whether the backend has them."""

    def _as_product(self, node: Node, context: Context) -> Recursion[Node | None]:
        product: Node | None = yield super()._as_product(node, context)
        if product is None and self.trapezoids:
            product = yield self._as_trapezoid(node, context)
        return product

    def _as_trapezoid(self, node: Node, context: Context) -> Recursion[Node | None]:
        """A sum, as what a product of matrices has of it, and the terms next to the slant."""
        if self.hints is None or node.args[0].op != "mul" or self._is_excluded(node):
            return None
        terms = Terms(*self.graph.open(node))
        slant = _slant(terms.rows, terms.variables, context.variables)
        split = None if slant is None else self._split_sum(terms, context, (slant.bound,))
        if split is None or slant is None:
            return None
        chosen = self._chosen(replace(split, slant=slant))
        product = None if chosen is None else (yield self._product_of(*chosen))
        if chosen is None or product is None:
            return None
        first, _ = chosen[2][Affine.variable(slant.row)]
        term, block = Affine.variable(slant.term), BLOCK * quotient(Affine.variable(slant.row) - first, BLOCK)
        end = block + first + slant.offset
        outside = Row("ge", end + (BLOCK - 2) - term if slant.is_upper else term - end - 1)
        rest = self.graph.sum(terms.variables, (*terms.rows, outside), self.graph.mul(split.factors))
        return self.graph.substitute(self.graph.mul([*split.rest, self.graph.add([product, rest])]), split.hidden)

    def _ranges(self, pair: tuple[Matrix, Matrix], split: Split) -> Ranges | None:
        """As for other products; the index that bounds the terms is a label of one of the matrices."""
        ranges = super()._ranges(pair, split)
        if ranges is None or split.slant is None:
            return ranges
        row, term = Affine.variable(split.slant.row), Affine.variable(split.slant.term)
        _, first, second, _ = split.roles(*pair)
        if row not in (*first, *second):
            return None
        is_long = all(self._volume([label], ranges) >= FEWEST * BLOCK for label in (row, term))
        return ranges if is_long else None

    def _range(self, label: Affine, split: Split) -> tuple[Affine, Affine] | None:
        """As for other products. A row may have no terms; these may go on to the end of a tensor, which is no copy."""
        slant = split.slant
        if slant is None:
            return super()._range(label, split)
        if label != Affine.variable(slant.term):
            rows = tuple([row for row in split.context.rows if row != slant.bound])
            return self.planner.range(label, replace(split.context, rows=rows))
        found = super()._range(label, split)
        sign = slant.bound.form.coefficient(slant.term)
        others = [row for row in split.bounds if row != slant.bound]
        if found is None or any(row.form.coefficient(slant.term) * sign > 0 for row in others):
            return found
        low, high = found
        if slant.is_upper:
            return (Affine(), high) if implied(Row("ge", low), self.facts) else found
        reads = [factor for factor in split.factors if factor.op == "read" and label in factor.data]
        lasts = (read.args[0].shape[read.data.index(label)] - 1 for read in reads)
        return low, next((last for last in lasts if implied(Row("ge", last - high), self.facts)), high)

    def _in_order(self, first: Matrix, second: Matrix, split: Split) -> tuple[Matrix, Matrix]:
        if split.slant is None:
            return super()._in_order(first, second, split)
        return (first, second) if Affine.variable(split.slant.row) in first.labels else (second, first)

    def _step(self, step: Contraction, ranges: Ranges, numbers: dict[Affine, int], split: Split) -> Product:
        if split.slant is None:
            return step
        _, row, term, offset, is_upper = split.slant
        (first_row, _), (first_term, _) = (ranges[Affine.variable(v)] for v in (row, term))
        shift = self.form(offset + first_row - first_term)
        number = numbers[Affine.variable(row)]
        return Trapezoid(step.array, step.output, step.left, step.right, row=number, shift=shift, is_upper=is_upper)


def _slant(rows: Sequence[Row], variables: Sequence[int], around: Sequence[int]) -> Slant | None:
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
    offset = Affine.variable(term) - Affine.variable(indices[0]) - form * sign
    return Slant(found[0], indices[0], term, offset, sign > 0)
