"""Shapes of all parts of a LaTeX formula: the rules of matrix formulas, and those of entries, sums and cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from sympy import S

from sympy_tensordiff.parsing.axes import AxisClasses
from sympy_tensordiff.parsing.frontend import Tree, bottom_up, short
from sympy_tensordiff.parsing.latex.lower import LatexLowering
from sympy_tensordiff.parsing.latex.lower_base import BoundIndices
from sympy_tensordiff.parsing.latex.names import LatexBinder
from sympy_tensordiff.parsing.matrix.shapes import (
    COLUMN,
    MATRIX,
    NUMBER,
    ODD,
    RARE,
    SHAPE_NAMES,
    Axes,
    ShapeInference,
    has_axis,
    shape_code,
)
from sympy_tensordiff.symbolic.index_notation.indices import indices

SCALAR: Axes = (None, None)


def axes_of(present: Sequence[int | None]) -> Axes:
    """Pad ``present``, the extents of a tensor's axes, with None to at least two elements, as shape inference expects:
    ``(a, None)`` for one axis, ``(None, None)`` for a scalar. None stands for a missing axis.
    """
    return tuple(present) if len(present) > 2 else (*present, None, None)[:2]  # type: ignore[return-value]


def rank_of(axes: Axes) -> int:
    """Return the number of ``axes`` that are not None."""
    return sum(axis is not None for axis in axes)


class LatexShapes(ShapeInference):
    """Infers the axes of all nodes of a LaTeX formula, from the leaves up.

    Names that occur only with indices have as many axes as indices; with three or more axes their axes are a longer
    tuple.
    """

    def __init__(
        self,
        orders: Mapping[str, int],
        is_numpy: bool,
        unified: AxisClasses | None = None,
        names: Mapping[str, Axes] | None = None,
        sizes: Mapping[str, int] | None = None,
        *,
        formula: LatexLowering,
        higher: Mapping[str, int],
    ) -> None:
        super().__init__(orders, is_numpy, unified, names, sizes)
        self.formula = formula
        if names is None:
            self.names = {**self.names, **{name: axes_of((0,) * rank) for name, rank in higher.items()}}
        self.free: dict[str, int] = {}
        """Axes of undeclared names at the indices that nothing binds."""
        self.exact: list[tuple[int, Any, Tree]] = []
        """Axes with their stated sizes."""
        self.least: list[tuple[int, Any, Tree]] = []
        """Axes with lower bounds of their sizes, from the greatest index."""

    # ------------------------------------------------------------------------ indices

    def _infer_index(self, node: Tree, *parts: Axes) -> Axes:
        """Return no axes: an index is a scalar."""
        return SCALAR

    def _infer_part(self, node: Tree) -> Axes:
        """Return the axes of a named part, which are those of its definition."""
        return self.axes[self.formula.parts[node.text]]

    def _infer_delta(self, node: Tree, *parts: Axes) -> Axes:
        """Return no axes, since a Kronecker delta is a scalar. If both of its indices run over whole axes, record that
        these axes are equally long.
        """
        bound_indices = self.formula.scopes[node]
        binders = [bound_indices.get(part.text) for part in node.children if part.kind == "index"]
        if self.unified is not None and len(binders) == 2:
            axes = [self.axis_of_binder(b) for b in binders if b is not None and b.upper is None]
            self.unify(*(axes if len(axes) == 2 else (None, None)))
        return SCALAR

    def _infer_modulo(self, node: Tree, *parts: Axes) -> Axes:
        """Return no axes, since a remainder is a scalar; raise `ParseError` if an operand is not one."""
        if any(map(has_axis, parts)):
            raise node.error("\\bmod takes integers")
        return SCALAR

    def _infer_entry(self, node: Tree, *parts: Axes) -> Axes:
        """Return no axes, since an entry is a scalar, and record what the subscripts say about sizes. Raise
        `ParseError` unless there is one subscript for each axis.
        """
        base, *subscripts = parts
        rank = rank_of(base)
        if rank != len(subscripts):
            shown = node.children[0].shown
            raise node.error(f"{shown} has {rank} axes, and {len(subscripts)} indices are given")
        if self.unified is not None:
            present = [axis for axis in base if axis is not None]
            for axis, subscript in zip(present, node.children[1:], strict=True):
                self.link(axis, subscript, self.formula.scopes[node])
                known = {*self.formula.scopes[node], *self.formula.sizes}
                is_free = subscript.kind == "index" and subscript.text not in known
                if is_free and node.children[0].text not in self.formula.declared:
                    self.unify(axis, self.free.setdefault(subscript.text, axis))
        return SCALAR

    def link(self, axis: int, subscript: Tree, bound_indices: BoundIndices) -> None:
        """Record what ``subscript`` says about the size of ``axis``: the same length as another axis, or a
        lower bound.
        """
        binder = bound_indices.get(subscript.text) if subscript.kind == "index" else None
        if binder is not None and binder.upper is None:
            self.unify(axis, self.axis_of_binder(binder))
            return
        greatest = greatest_value(subscript, bound_indices, self.formula.base)
        if greatest is not None and any(
            part.kind == "index" and part.text in bound_indices for part in bottom_up(subscript)
        ):
            self.least.append((axis, greatest + 1 - self.formula.base, subscript))

    def axis_of_binder(self, binder: LatexBinder) -> int:
        """Return the axis along which the index ``binder`` runs; it is created when it is first needed."""
        if binder.axis is None:
            binder.axis = self.new_axis()
        return binder.axis

    def _infer_reduction(self, node: Tree, body: Axes, *ends: Axes) -> Axes:
        """Return `SCALAR`, the empty list of axes: a sum over indices is a scalar. Raise `ParseError` if its ``body``
        has axes; the ``ends`` of its range are not checked.
        """
        if has_axis(body):
            raise node.error(
                f"\\{node.text} adds up numbers, and {node.children[0].shown} is {SHAPE_NAMES[shape_code(body)]}; "
                "write the entries with their indices, or a product of matrices"
            )
        return SCALAR

    def _infer_comprehension(self, node: Tree, body: Axes, *ends: Axes) -> Axes:
        """Return one axis for each bound index of a comprehension; raise `ParseError` if its body is not a scalar."""
        if has_axis(body):
            raise node.error("the brackets with indices contain entries, which are numbers")
        if self.unified is None:
            axes = [0] * len(self.formula.binders[node])
        else:
            axes = [self.axis_of_binder(binder) for binder in self.formula.binders[node]]
            for axis, binder in zip(axes, self.formula.binders[node], strict=True):
                if binder.upper is not None and (last := greatest_value(binder.upper, {}, 0)) is not None:
                    self.exact.append((axis, last + int(not binder.is_open), binder.node))
        return axes_of(axes)

    # ------------------------------------------------------------------------ choices

    def _infer_relation(self, node: Tree, *parts: Axes) -> Axes:
        """Return the axes of an element-wise comparison."""
        return self.infer_entrywise(node, node.text, node.children, *parts)

    _infer_both = _infer_either = _infer_cases = _infer_relation

    def _infer_column(self, node: Tree, *parts: Axes) -> Axes:
        """Return the axes of ``node``, a LaTeX matrix with one column, whose rows have the axes ``parts``: a new first
        axis as long as the number of rows, then the axes of a row. Raise an error if the rows differ in shape.
        """
        row = self.infer_entrywise(node, "stack", node.children, *parts)
        axis = 0 if self.unified is None else self.new_axis()
        if self.unified is not None:
            self.exact.append((axis, len(parts), node))
        return axes_of((axis, *(one for one in row if one is not None)))

    def _infer_indicator(self, node: Tree, part: Axes) -> Axes:
        """Return the axes of an indicator, which are those of its condition (``part``)."""
        return part

    # ------------------------------------------------------------------------ products

    def _infer_transpose(self, node: Tree, operand: Axes) -> Axes:
        """Return the axes of the ``operand`` in reverse order; raise `ParseError` for a scalar, such as an entry."""
        if node.children[0].kind == "entry" or self.is_number(node.children[0], operand):
            raise node.error(
                f"{node.children[0].shown} is a number here, an entry of a tensor, which has no transpose; sums over "
                "vectors are written with their entries"
            )
        return super()._infer_transpose(node, operand)

    def is_number(self, node: Tree, axes: Axes) -> bool:
        """Return whether ``node``, with the axes ``axes``, is a number in any case: a number literal, an index or a
        scalar sum over indices. A name is not, since its number of axes may be guessed.
        """
        return not has_axis(axes) and node.kind in ("reduction", "number", "index")

    def infer_entrywise(self, node: Tree, sign: str, nodes: Any, *parts: Axes) -> Axes:
        """Return the axes of the result of the element-wise operation ``sign``, such as "+". ``nodes`` are its
        operands, two or more, and ``parts`` the axes of each. Raise `ParseError` if the operands differ in shape.
        """
        tensors = [part for part in parts if has_axis(part)]
        if any(len(part) > 2 for part in tensors):
            for part in tensors:
                if len(part) != len(tensors[0]):
                    raise node.error(f"the operands of {sign} have different numbers of axes")
                for first, second in zip(tensors[0], part, strict=True):
                    self.unify(first, second)
            return tensors[0]
        if sign in ("+", "-") and any(shape_code(part) == MATRIX for part in tensors):
            numbers = [n for n, part in zip(nodes, parts, strict=True) if not has_axis(part)]
            self.penalty += 2 * ODD * any(n not in self.constants for n in numbers)
        return super().infer_entrywise(node, sign, nodes, *parts)

    def infer_matrix_product(self, node: Tree, left: Axes, right: Axes) -> Axes:
        """Return the axes of the product of matrices with the axes ``left`` and ``right``; raise `ParseError` for
        tensors with three axes or more.
        """
        if has_axis(left) and has_axis(right) and max(len(left), len(right)) > 2:
            raise node.error(f"{node.shown} multiplies tensors with three axes or more; write entries with indices")
        return super().infer_matrix_product(node, left, right)

    def _infer_fraction(self, node: Tree, above: Axes, below: Axes) -> Axes:
        """Return the axes of a quotient of operands with the axes ``above`` and ``below``. Division by a tensor, which
        is element-wise, is unusual: it adds a penalty that makes this reading of the formula less plausible.
        """
        if has_axis(below):
            self.penalty += 1
            self.penalty += RARE * (not has_axis(above) and node.children[0].kind != "number")
            return self.infer_entrywise(node, "/", [], above, below)
        return above

    def _infer_dot(self, node: Tree, left: Axes, right: Axes) -> Axes:
        r"""Return the axes of ``x \cdot y``: none for the inner product of two columns, else those of a matrix product.
        ``left`` and ``right`` are the axes of ``x`` and ``y``.
        """
        if shape_code(left) == shape_code(right) == COLUMN:
            self.unify(left[0], right[0])
            return SCALAR
        self.penalty += RARE * all(part.kind == "name" for part in node.children)
        return self.infer_matrix_product(node, left, right)

    def _infer_inner(self, node: Tree, left: Axes, right: Axes) -> Axes:
        """Return the axes of an inner product: none, since it is a scalar. Raise `ParseError` unless the operands, with
        the axes ``left`` and ``right``, are two vectors or two matrices of one shape.
        """
        found = self.infer_entrywise(node, "the inner product", [], left, right)
        if not has_axis(left) or not has_axis(right):
            raise node.error("the inner product takes two vectors or two matrices")
        del found
        return SCALAR

    def _infer_einsum(self, node: Tree, left: Axes, right: Axes) -> Axes:
        """Return the axes of the result of the parsed ``einsum`` call `node`, whose two operands have the axes ``left``
        and ``right``. Record that axes with the same letter are equally long.
        """
        inputs, _, output = node.text.partition("->")
        letters: dict[str, int] = {}
        for group, axes, part in zip(inputs.split(","), (left, right), node.children, strict=True):
            present = [axis for axis in axes if axis is not None]
            if len(present) != len(group):
                raise node.error(f"{part.shown} has {len(present)} axes, and ({group}) gives it {len(group)}")
            for letter, axis in zip(group, present, strict=True):
                self.unify(letters.setdefault(letter, axis), axis)
        if any(letter not in letters for letter in output):
            raise node.error("a letter of the result is in no operand")
        return axes_of([letters[letter] for letter in output])

    # ------------------------------------------------------------------------ functions

    def _infer_modulus(self, node: Tree, operand: Axes) -> Axes:
        """Return the axes of ``|x|``: none for a matrix, whose determinant it is, else ``operand``, those of ``x``."""
        if shape_code(operand) == MATRIX and not node.text:
            self.unify(*operand)
            return SCALAR
        return operand

    def _infer_along(self, node: Tree, operand: Axes) -> Axes:
        """Return the axes of a reduction such as ``mean`` over the axes that the formula names: the axes in ``operand``
        that are not named. A ``softmax`` keeps all axes.
        """
        present = [axis for axis in operand if axis is not None]
        axes = {int(token) for token in node.tokens}
        if not axes <= {*range(len(present))}:
            raise node.error(f"{node.text} has the axes {sorted(axes)}, and its argument has {len(present)}")
        if node.text == "softmax":
            return operand
        left = [axis for number, axis in enumerate(present) if number not in axes]
        return axes_of(left)

    def infer_other_call(self, node: Tree, axes: Axes) -> Axes:
        """Return the axes of the result of the call `node`, for a function that is not applied entry by entry. `axes`
        are the axes of its argument.

        A softmax keeps them, a sum or norm of a tensor of rank 3 or more is a scalar; `ShapeInference` infers all other
        cases.

        ``diag`` of a single name is less plausible for a matrix than for a vector.
        """
        if node.text == "softmax" and has_axis(axes):
            return axes
        if node.text in ("sum", "mean", "norm2", "norm1", "logsumexp") and len(axes) > 2:
            return SCALAR
        if node.text == "diag" and shape_code(axes) == MATRIX and node.children[0].kind == "name":
            self.penalty += ODD  # more often the argument is a vector
        return super().infer_other_call(node, axes)

    def _infer_filled(self, node: Tree, *parts: Axes) -> Axes:
        """Return new axes for a constant tensor of given sizes."""
        axes = []
        for part in node.children:
            axis = self.new_axis()
            axes.append(axis)
            if self.unified is not None and (size := greatest_value(part, {}, 0)) is not None:
                self.exact.append((axis, size, part))
        if node.text == "I":
            axes = axes * 2 if len(axes) == 1 else axes
            if len(axes) != 2:
                raise node.error("the unit tensor of more than one axis is not read; write \\delta_{i j}")
        return axes_of(axes)


def greatest_value(node: Tree, bound_indices: BoundIndices, base: int, is_least: bool = False) -> Any:
    """Return the greatest value (the least if `is_least`) that the index expression ``node`` takes over the ranges of
    ``bound_indices``; None if it is not known. An index without a stated first value starts at ``base``.
    """
    value = integer_value(node)
    if value is None:
        return None
    for _ in range(len(bound_indices) + 1):
        letters = [binder for binder in bound_indices.values() if indices(binder.letter) in value.free_symbols]
        if not letters:
            return value
        for binder in letters[::-1]:
            symbol = indices(binder.letter)
            slope = value.coeff(symbol) if value.is_polynomial(symbol) else S.Zero
            is_upper = bool(slope.is_positive) != is_least
            end = binder.upper if is_upper else binder.lower
            if not slope.is_number or slope == 0 or binder.upper is None:
                return None
            last = S(base) if end is None else integer_value(end)
            if last is None:
                return None
            value = sympy.expand(value.subs(symbol, last - int(binder.is_open and is_upper)))
    return None


def first_index(formula: LatexLowering, sizes: Mapping[str, Sequence[Tree]]) -> int:
    """Return the number at which the indices of the formula start, 0 or 1; ``sizes`` has the declared sizes of tensors
    by name.

    It is 1 if sums start there and no index is 0. Where shapes are declared, ``sizes``, an index must also be as great
    as the size of its axis, which printed formulas do not have.
    """
    reached = []
    for node, bound_indices in formula.scopes.items():
        for number, subscript in enumerate(node.children[1:] if node.kind == "entry" else ()):
            if greatest_value(subscript, bound_indices, formula.base, True) == 0:
                return 0
            known = sizes.get(node.children[0].text, ())
            if number < len(known) and subscript.kind != "number":
                reached.append(greatest_value(subscript, bound_indices, formula.base) == integer_value(known[number]))
    return formula.base if not reached or any(reached) else 0


def integer_value(node: Tree) -> Any:
    """Return the SymPy expression of an affine integer expression in sizes and indices; None if ``node`` is anything
    else.
    """
    parts = [integer_value(part) for part in node.children]
    if None in parts:
        return None
    match node.kind:
        case "number" if node.text.isdecimal() and len(node.text) < 10:
            return sympy.Integer(node.text)
        case "index" | "name" if not parts:
            return indices(node.text)
        case "signed":
            return -parts[0] if node.text == "-" else parts[0]
        case "sum":
            signs = ("+", *node.tokens)
            return sympy.Add(*(p if s == "+" else -p for s, p in zip(signs, parts, strict=True)))
        case "product":
            return sympy.expand(sympy.Mul(*parts))
    return None


def order_of_rank(rank: int) -> int:
    """Return the shape code (0 number, 1 column, 3 matrix) of a tensor with ``rank`` axes, at most two."""
    return (NUMBER, COLUMN, MATRIX)[rank]


def conflict(node: Tree, first: Any, second: Any) -> Any:
    """Return (do not raise) the `ParseError` that ``node`` makes an axis of size ``first`` as long as one of the
    different size ``second``.
    """
    return node.error(
        f"this makes an axis of size {short(str(first))} as long as one of size {short(str(second))}; declare the "
        "shapes, as in declare x[n]"
    )
