"""Sums of products split into two groups of factors, which are matrices labelled by their index forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sympy_tensordiff.codegen.ir.programs import BLOCK
from sympy_tensordiff.codegen.lower.plan import EnclosingLoops, Planner
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.rows import Rows, partition


class Terms(NamedTuple):
    """A sum to be computed as a matrix product: its variables, the constraints on them, and the summand."""

    variables: tuple[int, ...]
    rows: Rows
    body: Node


@dataclass(frozen=True)
class Matrix:
    """An operand of a matrix product, the product of ``factors``. Each of its axes is labelled by an index form, such
    as ``i + k``, on which the factors depend.
    """

    factors: tuple[Node, ...]
    labels: tuple[Affine, ...]


class TriangularBound(NamedTuple):
    """The constraint that makes a sum triangular: ``j <= i + 2`` in ``Sum_{j <= i + 2} a[i, j]*b[j]``, or one with
    ``>=``.

    ``Sum_{j <= i} a[i, j]*b[j, l]`` multiplies a triangle of ``a``. A term that is not in the range is not computed:
    it may be nan, and 0*nan is nan. So the rows of ``a`` are cut into blocks: the terms that all rows of a block have
    are one product of matrices, and the few others of each row, next to the slant, a sum as before.
    """

    bound: Constraint
    row: Affine
    term: Affine
    offset: Affine
    is_upper: bool

    @staticmethod
    def of(terms: Terms, around: Sequence[int]) -> TriangularBound | None:
        """Return the bound, such as ``j <= i``, that relates the only variable of the sum `terms` to one index of the
        loops `around` it. None if there is no such bound or more than one.
        """
        if len(terms.variables) != 1:
            return None
        (term,) = terms.variables
        found = [row for row in terms.rows if term in row.form.atoms() and not row.form.atoms().isdisjoint(around)]
        if len(found) != 1 or found[0].kind != "ge" or found[0].form.compounds():
            return None
        form = found[0].form
        indices = [v for v in form.atoms() if v in around]
        sign = form.coefficient(term)
        if len(indices) != 1 or abs(sign) != 1 or form.coefficient(indices[0]) != -sign:
            return None
        last, row = Affine.variable(term), Affine.variable(indices[0])
        return TriangularBound(found[0], row, last, last - row - form * sign, sign > 0)

    def near_diagonal(self, first: Affine) -> Constraint:
        """Return the constraint that selects the terms of a triangular sum in the partly filled blocks at the diagonal.
        Matrix products of blocks of rows, the first of which starts at row `first`, cover only the terms that all rows
        of a block have, so the selected ones are added separately.
        """
        end = BLOCK * quotient(self.row - first, BLOCK) + first + self.offset
        return Constraint("ge", end + (BLOCK - 2) - self.term if self.is_upper else self.term - end - 1)

    def range(self, label: Affine, split: Split, planner: Planner, facts: Rows) -> tuple[Affine, Affine] | None:
        """Return ``(first, last)``, the range of the index `label` in the triangular matrix product `split`; None if
        `planner` finds none. `facts` are known constraints.

        The range of the summed index is extended to an end of a tensor axis where that changes no result.
        """
        if label != self.term:
            rows = tuple([row for row in split.context.rows if row != self.bound])
            return planner.range(label, replace(split.context, rows=rows))
        found, (term,) = planner.range(label, split.context), split.summed
        sign = self.bound.form.coefficient(term)
        others = [row for row in split.bounds if row != self.bound]
        if found is None or any(row.form.coefficient(term) * sign > 0 for row in others):
            return found
        low, high = found
        if self.is_upper:
            return (Affine(), high) if is_implied(Constraint("ge", low), facts) else found
        reads = [factor for factor in split.factors if factor.op == "read" and label in factor.data]
        lasts = (read.args[0].shape[read.data.index(label)] - 1 for read in reads)
        return low, next((last for last in lasts if is_implied(Constraint("ge", last - high), facts)), high)


@dataclass(frozen=True)
class Split:
    """A plan to compute a sum of products: a library call for a matrix product sums over some of the variables, and
    loops around it sum over the others.

    ``summed`` are the variables that a product of matrices sums over, within ``bounds``, ``factors`` what depends on
    them; ``outer_variables`` are the other variables, with their ``rows``, and ``other_factors`` the other factors.
    ``context`` are the loops and constraints around the factors; in both, variables stand for the quotients in
    ``hidden``. The only variable of a sum over a trapezoid has one more bound, a ``slant``.
    """

    summed: tuple[int, ...]
    bounds: Rows
    factors: tuple[Node, ...]
    outer_variables: tuple[int, ...]
    rows: Rows
    other_factors: tuple[Node, ...]
    context: EnclosingLoops
    hidden: dict[int, Affine]
    is_partial: bool = False
    slant: TriangularBound | None = None

    def place(self, label: Affine) -> int:
        """Return a sort key for the index form `label`, an axis of the matrix product: the position of the outermost
        enclosing loop whose index it contains.

        Forms without such an index contain only variables that are summed around the matrix product, and come first.
        """
        variables = frozenset().union(*(self.hidden.get(v, Affine.variable(v)).atoms() for v in label.atoms()))
        around = [n for n, v in enumerate(self.context.variables) if v in variables and v not in self.outer_variables]
        outer = self.outer_variables
        return min(around) if around else min(outer.index(v) for v in outer if v in variables) - len(outer)

    def roles(self, first: Matrix, second: Matrix) -> tuple[list[Affine], list[Affine], list[Affine], list[Affine]]:
        """Return the labels of the product of the matrices ``first`` and ``second`` as four lists: batch labels (in
        both matrices and the result), row labels (in ``first`` only), column labels (in ``second`` only) and summed
        ones.
        """
        pair, inner = (first, second), {Affine.variable(v) for v in self.summed}
        summed = [label for label in first.labels if label in inner and label in second.labels]
        both = [label for label in first.labels if label in second.labels and label not in inner]
        one, other = ([label for label in m.labels if label not in both and label not in inner] for m in pair)
        return sorted(both, key=self.place), sorted(one, key=self.place), sorted(other, key=self.place), summed

    def partial(self, first: Matrix, second: Matrix, others: Sequence[Matrix]) -> Split | None:
        """Return a plan that computes the matrix product of ``first`` and ``second``, summed over the variables absent
        from ``others``; loops multiply by ``others`` and sum over the remaining variables. None if no summed variable,
        or every one, is absent from ``others``.
        """
        labels = {label for matrix in others for label in matrix.labels}
        own = [Affine.variable(v) for v in self.summed]
        inner = [v for v, label in zip(self.summed, own, strict=True) if label not in labels]
        if not inner or len(inner) == len(self.summed):
            return None
        outside, bounds = partition(self.bounds, inner)
        return replace(
            self,
            summed=tuple(inner),
            bounds=bounds,
            factors=(*first.factors, *second.factors),
            outer_variables=(*self.outer_variables, *(v for v in self.summed if v not in inner)),
            rows=(*self.rows, *outside),
            other_factors=(*self.other_factors, *(factor for matrix in others for factor in matrix.factors)),
            is_partial=True,
        )

    def own_summed(self, matrix: Matrix, summed: Sequence[Affine]) -> tuple[int, ...]:
        """Return the summed variables that label `matrix` but not the other operand: `matrix` can be summed over them
        before the product is computed. `summed` are the summed labels that both operands have.
        """
        labels = [Affine.variable(v) for v in self.summed]
        return tuple([label.terms[0][0] for label in labels if label in matrix.labels and label not in summed])


Ranges = dict[Affine, tuple[Affine, Affine]]
"""The lowest and the highest value of each label."""


def length(ends: tuple[Affine, Affine]) -> Affine:
    """Return the number of integers from ``low`` to ``high``, both included, for ``ends = (low, high)``."""
    return ends[1] - ends[0] + 1


def joined(matrices: Sequence[Matrix]) -> Matrix:
    """Return the elementwise product of `matrices`, broadcast over all of their labels, as one matrix."""
    factors = tuple([factor for matrix in matrices for factor in matrix.factors])
    return Matrix(factors, tuple(dict.fromkeys(label for matrix in matrices for label in matrix.labels)))


def merged(matrices: Sequence[Matrix], entries: Callable[[Matrix], int]) -> list[Matrix]:
    """Return `matrices` with each matrix whose labels all occur in another one merged into that one, by an entrywise
    product. Of several others it is merged into the one with the fewest axes, or among these the fewest ``entries``.

    The function ``entries`` gives the number of entries of a matrix, which may have to be copied for the product.
    """
    found: list[Matrix] = []
    for matrix in sorted(matrices, key=lambda m: -len(m.labels)):
        over = [other for other in found if set(matrix.labels) <= set(other.labels)]
        if over:
            place = found.index(min(over, key=lambda m: (len(m.labels), entries(m))))
            found[place] = joined([found[place], matrix])
        else:
            found.append(matrix)
    return found
