"""Expressions from trees of LaTeX formulas with known shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
from sympy import S

from sympy_tensordiff.parsing.frontend import Tree
from sympy_tensordiff.parsing.latex.lower import LatexLowering
from sympy_tensordiff.parsing.matrix.build import MatrixBuilder
from sympy_tensordiff.parsing.matrix.shapes import MATRIX
from sympy_tensordiff.parsing.numbers import errors_at
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension
from sympy_tensordiff.symbolic.whole_tensors import comparisons, concatenation, functions, operators, reductions
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import choice
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of

_REDUCTIONS = {"sum": IndexedSum, "prod": IndexedProduct, "max": IndexedMax, "min": IndexedMin}
_COMPARISONS = {
    **{"<": comparisons.less, "<=": comparisons.less_equal, ">": comparisons.greater},
    **{">=": comparisons.greater_equal, "==": comparisons.equal, "!=": comparisons.not_equal},
}
_CONDITIONS = ("relation", "both", "either")


class LatexBuilder(MatrixBuilder):
    """Builds the expression of a LaTeX formula from its tree, after this has been converted to the kinds of nodes that
    all languages share.
    """

    formula: LatexLowering
    stated: frozenset[int]

    def expression(self, nodes: Sequence[Tree]) -> Any:
        """Build the expressions of ``nodes``, operands first, and return the last one."""
        for node in nodes:
            parts = [self.values.get(part) for part in node.children]
            with errors_at(node):
                value = self.values[node] = getattr(self, f"_build_{node.kind}")(node, *parts)
                if node.kind not in _CONDITIONS and not shape_of(value):
                    self.operations.numbers.check_real(value)
        return self.values[nodes[-1]]

    def _build_index(self, node: Tree) -> Any:
        """Return the SymPy expression of `node`, an index or size in a formula: its symbol, plus 1 if the formula
        counts this index from 1. Symbols of indices count from 0.
        """
        return indices(node.text) + self.formula.offset_of(node.text)

    def _build_part(self, node: Tree) -> Any:
        """Return the value of a named part, as a line after "where" defines it."""
        return self.values[self.formula.parts[node.text]]

    def _build_entry(self, node: Tree, base: Any, *subscripts: Any) -> Any:
        """Return the tensor entry ``base[subscripts]``. Subtract 1 from each subscript first if the formula counts
        indices from 1.
        """
        return base[tuple(value - self.formula.base for value in subscripts)]

    def _build_delta(self, node: Tree, first: Any, second: Any) -> Any:
        """Return the `KroneckerDelta` of the indices ``first`` and ``second``."""
        return sympy.KroneckerDelta(first - self.formula.base, second - self.formula.base)

    def _build_modulo(self, node: Tree, value: Any, modulus: Any) -> Any:
        """Return ``Mod(value, modulus)``."""
        return sympy.Mod(value, modulus)

    # ------------------------------------------------------------------------ binders

    def ranges(self, node: Tree) -> list[tuple[Any, Any, Any]]:
        """Return ``(index, first, last)`` for each index that ``node`` binds; indices count from 0."""
        base = self.formula.base
        found = []
        for binder in self.formula.binders[node]:
            lower = S.Zero if binder.lower is None else self.values[binder.lower] - base
            if binder.upper is not None:
                upper = self.values[binder.upper] - int(binder.is_open) - base
            else:
                if binder.axis is None or not self.has_own_size(binder.axis):
                    raise binder.node.error(
                        f"no axis tells how far {binder.letter} runs; write its range, as in \\sum_{{i=1}}^{{n}}"
                    )
                (extent,) = self.shape((binder.axis,))
                upper = extent - 1
            found.append((indices(binder.letter), lower, upper))
        return found

    def has_own_size(self, axis: int) -> bool:
        """Return whether the size of ``axis`` follows from a tensor, a constant or a declaration, and not only from the
        range of an index.
        """
        assert self.shapes.unified is not None
        root = self.shapes.unified.root
        own = {root(other) for axes in self.shapes.names.values() for other in axes if other is not None}
        return root(axis) in own or root(axis) in self.stated

    def _build_reduction(self, node: Tree, body: Any, *ends: Any) -> Any:
        """Return the sum, product or extremum of ``body`` over the ranges of ``node``."""
        return _REDUCTIONS[node.text](body, *self.ranges(node)[::-1])

    def _build_comprehension(self, node: Tree, body: Any, *ends: Any) -> Any:
        """Return the comprehension, a tensor defined entry by entry, with the scalar ``body`` at each point of the
        index ranges of ``node``. The ranges are read from ``node``, not from the built ``ends``.
        """
        return TensorComprehension(body, *((index, upper + 1) for index, _, upper in self.ranges(node)))

    # ------------------------------------------------------------------------ choices

    def _build_relation(self, node: Tree, *parts: Any) -> Any:
        r"""Return a chain of comparisons, ``0 \le i < n``, as a condition. A comparison of tensors is a tensor with 1
        where it is true, 0 elsewhere.
        """
        pairs = zip(node.tokens, parts[:-1], parts[1:], strict=True)
        if any(map(shape_of, parts)):
            found = [_COMPARISONS[str(sign)](left, right) for sign, left, right in pairs]
            return found[0] if len(found) == 1 else comparisons.logical_and(*found)
        return sympy.And(*(sympy.Rel(left, right, str(sign)) for sign, left, right in pairs))

    def _build_both(self, node: Tree, *parts: Any) -> Any:
        """Return the conjunction of the conditions ``parts``; for tensors of 1 and 0, entry by entry."""
        return comparisons.logical_and(*parts) if any(map(shape_of, parts)) else sympy.And(*parts)

    def _build_either(self, node: Tree, *parts: Any) -> Any:
        """Return the disjunction of the conditions ``parts``; for tensors of 1 and 0, entry by entry."""
        return comparisons.logical_or(*parts) if any(map(shape_of, parts)) else sympy.Or(*parts)

    def _build_indicator(self, node: Tree, condition: Any) -> Any:
        """Return 1 where ``condition`` holds, else 0. A tensor of 1 and 0 is returned unchanged."""
        return condition if shape_of(condition) else sympy.Piecewise((1, condition), (0, True))

    def _build_cases(self, node: Tree, *parts: Any) -> Any:
        """Return a `Piecewise` of the values and conditions in `parts`; for tensors, nested ``where``."""
        pairs = [parts[at : at + 2] for at in range(0, len(parts), 2)]
        if any(map(shape_of, parts)):
            *cases, last = pairs
            value = last[0]
            if len(last) == 2:
                raise node.error("the cases of a tensor end with `otherwise`")
            for inner, condition in cases[::-1]:
                value = comparisons.where(condition, inner, value)
            return value
        found = [(pair[0], pair[1] if len(pair) == 2 else S.true) for pair in pairs]
        try:
            return sympy.Piecewise(*found)
        except RecursionError:  # SymPy turns some conditions round for ever
            return choice(found)

    def _build_column(self, node: Tree, *parts: Any) -> Any:
        """Return the tensor of the values ``parts``, the rows of a LaTeX matrix with one column, stacked along a new
        first axis.
        """
        return concatenation.stack(parts)

    # ------------------------------------------------------------------------ products and functions

    def _build_fraction(self, node: Tree, above: Any, below: Any) -> Any:
        """Return ``above/below``; raise `ParseError` if ``below`` is 0."""
        if below.is_zero:
            raise node.children[1].error("this divides by 0")
        return self.operations.multiply([above, self.operations.power(below, S.NegativeOne)])

    def _build_dot(self, node: Tree, left: Any, right: Any) -> Any:
        r"""Return ``left \cdot right``: a multiple, an inner product, an outer product or a matrix product, as the
        operands' shapes imply.
        """
        if not shape_of(left) or not shape_of(right):
            return self.operations.multiply([left, right])
        if not self.orders[node]:
            return functions.dot(left, right)
        product = functions.outer if len(shape_of(left)) == len(shape_of(right)) == 1 else operators.matmul
        return product(left, right)

    def _build_inner(self, node: Tree, left: Any, right: Any) -> Any:
        """Return the inner product of two vectors or two matrices ``left`` and ``right``."""
        return (
            reductions.sum(operators.multiply(left, right)) if len(shape_of(left)) > 1 else functions.dot(left, right)
        )

    def _build_einsum(self, node: Tree, left: Any, right: Any) -> Any:
        """Return the einsum of the operands ``left`` and ``right``; the text of ``node`` is its subscripts, such as
        ``ij,jk->ik``.
        """
        return functions.einsum(node.text, left, right)

    def _build_modulus(self, node: Tree, value: Any) -> Any:
        """Return ``|value|``: the determinant of a matrix, otherwise the absolute value."""
        if self.orders[node.children[0]] == MATRIX and not node.text:
            return functions.det(value)
        return self.operations.entrywise("abs", [value])

    def _build_along(self, node: Tree, value: Any) -> Any:
        """Return a reduction of ``value``, such as ``sum`` or ``mean``, over the axes that the formula names."""
        axes = tuple(int(token) for token in node.tokens)
        return getattr(reductions, node.text)(value, axis=axes[0] if len(axes) == 1 else axes)

    def _build_filled(self, node: Tree, *sizes: Any) -> Any:
        """Return a constant tensor with the given ``sizes``: zeros, ones or the unit tensor, for the text ``0``, ``1``
        or ``I`` of ``node``.
        """
        if node.text == "I":
            return DeltaTensor(sizes[:1] if len(set(sizes)) == 1 else sizes)
        return FilledTensor(sympy.Integer(node.text), sizes)

    def _build_call(self, node: Tree, *parts: Any) -> Any:
        """Return the value of the function that `node` names at the arguments ``parts``. Two cases differ from matrix
        formulas: ``softmax`` of a tensor with several axes runs over all of them, and ``floor`` and ``ceiling`` of a
        scalar are SymPy's own.
        """
        if node.text == "softmax" and len(shape_of(parts[0])) > 1:
            return reductions.softmax(parts[0], axis=None)
        if node.text in ("floor", "ceiling") and not shape_of(parts[0]):
            return getattr(sympy, node.text)(parts[0])
        return super()._build_call(node, *parts)
