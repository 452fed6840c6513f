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
from sympy_tensordiff.codegen.lower.factor_groups import Matrix, Slant, Split
from sympy_tensordiff.codegen.lower.matrices import Matrices, Ranges
from sympy_tensordiff.codegen.lower.plan import Context
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.graph.trampoline import Recursion
from sympy_tensordiff.integer.affine import Affine, Row, quotient

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
        terms = self._opened(node)
        row, slant = _slant(terms.rows, terms.variables, context.variables)
        split = None if row is None else self._taken_apart(terms, context, (row,))
        if split is None or slant is None or split.left or split.hidden:
            return None
        chosen = self._chosen(replace(split, slant=slant))
        product = None if chosen is None else (yield self._product_of(*chosen))
        if chosen is None or product is None:
            return None
        first, _ = chosen[2][Affine.variable(slant.row)]
        term, block = Affine.variable(slant.term), BLOCK * quotient(Affine.variable(slant.row) - first, BLOCK)
        end = block + first + slant.offset
        beside = Row("ge", end + (BLOCK - 2) - term if slant.is_upper else term - end - 1)
        rest = self.graph.sum(terms.variables, (*terms.rows, beside), self.graph.mul(split.factors))
        return self.graph.mul([*split.rest, self.graph.add([product, rest])])

    def _ranges(self, pair: tuple[Matrix, Matrix], split: Split) -> Ranges | None:
        """As for other products; the index that bounds the terms is a label of one of the matrices."""
        ranges = super()._ranges(pair, split)
        if ranges is None or split.slant is None:
            return ranges
        row, term = Affine.variable(split.slant.row), Affine.variable(split.slant.term)
        _, first, second, summed = split.roles(*pair)
        if summed != [term] or row not in (*first, *second):
            return None
        is_long = all(self._volume([label], ranges) >= FEWEST * BLOCK for label in (row, term))
        return ranges if is_long else None

    def _in_order(self, first: Matrix, second: Matrix, split: Split) -> tuple[Matrix, Matrix]:
        if split.slant is None:
            return super()._in_order(first, second, split)
        return (first, second) if Affine.variable(split.slant.row) in first.labels else (second, first)

    def _step(self, step: Contraction, ranges: Ranges, numbers: dict[Affine, int], split: Split) -> Product:
        if split.slant is None:
            return step
        row, term, offset, is_upper = split.slant
        (first_row, _), (first_term, _) = (ranges[Affine.variable(v)] for v in (row, term))
        shift = self.form(offset + first_row - first_term)
        number = numbers[Affine.variable(row)]
        return Trapezoid(step.array, step.output, step.left, step.right, row=number, shift=shift, is_upper=is_upper)


def _slant(
    rows: Sequence[Row], variables: Sequence[int], around: Sequence[int]
) -> tuple[Row, Slant] | tuple[None, None]:
    """The row that bounds the only variable of a sum by an index around it, and what it says; None if several do."""
    if len(variables) != 1:
        return None, None
    (term,) = variables
    found = [row for row in rows if term in row.form.atoms() and not row.form.atoms().isdisjoint(around)]
    if len(found) != 1 or found[0].kind != "ge" or found[0].form.compounds():
        return None, None
    form = found[0].form
    indices = [v for v in form.atoms() if v in around]
    sign = form.coefficient(term)
    if len(indices) != 1 or abs(sign) != 1 or form.coefficient(indices[0]) != -sign:
        return None, None
    offset = Affine.variable(term) - Affine.variable(indices[0]) - form * sign
    return found[0], Slant(indices[0], term, offset, sign > 0)
