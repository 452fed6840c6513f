"""Shapes of all parts of a matrix formula for given orders of its names, with a penalty for unusual uses.

Axes are a pair (rows, columns), each an axis number or None: a number has neither, a column only rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from sympy_tensordiff.parsing.axes import AxisClasses
from sympy_tensordiff.parsing.frontend import Tree
from sympy_tensordiff.parsing.numbers import CHOICES, ENTRYWISE

Axes: TypeAlias = tuple[int | None, int | None]
NUMBER, COLUMN, ROW, MATRIX = range(4)
SHAPE_NAMES = ("a number", "a column vector", "a row vector", "a matrix")

REDUCTIONS = frozenset({"sum", "mean", "prod", "var", "std", "norm", "norm1", "norm2", "logsumexp"})
SQUARE_MATRIX_FUNCTIONS = frozenset({"tr", "trace", "det", "logdet", "inv", "adj"})
FUNCTIONS_OF_MATRICES = SQUARE_MATRIX_FUNCTIONS | {"diag", "solve", "kron"}
"""Functions that take no tensors with more than two axes, which LaTeX has."""
VECTOR_FUNCTIONS = frozenset({"dot", "outer"})
FUNCTIONS_OF_TWO = VECTOR_FUNCTIONS | {"solve", "kron", "reshape"}
CONSTANT_TENSORS = frozenset({"ones", "zeros", "eye", "DeltaTensor"})
OTHER_FUNCTIONS = frozenset({"diag", "softmax", "cumsum", "cumprod", "flip", "transpose", "vector", "matrix"})
RUNNING = frozenset({"softmax", "cumsum", "cumprod", "flip"})
"""Functions along an axis of a matrix whose value has the shape of the matrix."""
ALONG_AXIS = RUNNING | REDUCTIONS - {"norm", "norm1", "norm2"}
"""Functions that take ``axis=``."""
FUNCTIONS = (
    frozenset(ENTRYWISE) | REDUCTIONS | SQUARE_MATRIX_FUNCTIONS | FUNCTIONS_OF_TWO | CONSTANT_TENSORS | OTHER_FUNCTIONS
)

NAMES_OF_TENSORS_TOO = frozenset({*CHOICES, "var", "std", "prod", "clip", "square", "frac", "flip", "solve", "kron"})
"""Functions whose names a formula may give to a tensor instead, if it does not call them."""

UNUSUAL, RARE, ODD = 1, 2, 4
"""Penalties of a reading: a number after a tensor or a row after a number; a number added to all entries; the transpose
of a number."""


def shape_code(axes: Axes) -> int:
    """Return a code for the shape: 0 for a number, 1 for a column, 2 for a row, 3 for a matrix. ``axes`` are (row axis,
    column axis), None where missing.
    """
    return (axes[0] is not None) + 2 * (axes[1] is not None)


class ShapeInference:
    """Infers the axes of each node of a matrix formula, and which axes have equal length. Nodes must come after their
    operands.

    `orders` has the order of each name. With `is_numpy`, ``*`` is element-wise, as for NumPy arrays. `unified` has the
    classes of axes of equal length; without it only orders are compared. `names` has the axes of the names. `penalty`
    is the total penalty of the orders, `axes` has the axes of each node, `sizes` those of the sizes named in
    ``ones(n)``, `products` has the pairs of an axis and the axes whose lengths it multiplies, as for ``kron(A, B)``.
    """

    def __init__(
        self,
        orders: Mapping[str, int],
        is_numpy: bool,
        unified: AxisClasses | None = None,
        names: Mapping[str, Axes] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.is_numpy = is_numpy
        self.unified = unified
        self.names = names or {name: self.new_axes(order) for name, order in orders.items()}
        self.sizes = dict(sizes or {})
        self.penalty = 0
        self.axes: dict[Tree, Axes] = {}
        self.products: list[tuple[int, tuple[int, ...]]] = []
        self.constants: set[Tree] = set()

    def run(self, nodes: Iterable[Tree]) -> Axes:
        """Infer the axes of all ``nodes``, operands first, and return those of the last."""
        found: Axes = (None, None)
        for node in nodes:
            parts = [self.axes[part] for part in node.children]
            found = self.axes[node] = getattr(self, f"_infer_{node.kind}")(node, *parts)
            if node.kind == "number" or (node.children and self.constants.issuperset(node.children)):
                self.constants.add(node)
        return found

    def new_axes(self, order: int) -> Axes:
        """Return new axes for the shape code ``order`` (0 number, 1 column, 2 row, 3 matrix)."""
        return (self.new_axis() if order & COLUMN else None, self.new_axis() if order & ROW else None)

    def new_axis(self) -> int:
        """Return the number of a new axis. If ``unified`` is None, axes are only counted, not compared in length, and
        the number is always 0.
        """
        return self.unified.new_axes(1)[0] if self.unified else 0

    def unify(self, first: int | None, second: int | None) -> None:
        """Record that the axes numbered ``first`` and ``second`` are equally long; if one is None, do nothing."""
        if self.unified and first is not None and second is not None:
            self.unified.unify(first, second)

    # -------------------------------------------------------------- nodes

    def _infer_number(self, node: Tree) -> Axes:
        """Return no axes: a number is a scalar."""
        return None, None

    def _infer_name(self, node: Tree) -> Axes:
        """Return the axes of the name at ``node``, the same at each occurrence; for an undeclared ``eye``, those of a
        new square matrix.
        """
        if node.text == "eye" and node.text not in self.names:
            return self.new_square()
        return self.names.get(node.text, (None, None))

    def new_square(self) -> Axes:
        """Return the axes ``(n, n)`` of a square matrix with a new axis ``n``."""
        axis = self.new_axis()
        return axis, axis

    def _infer_signed(self, node: Tree, operand: Axes) -> Axes:
        """Return the axes of ``-x``, which are ``operand``, those of ``x``."""
        return operand

    def _infer_transpose(self, node: Tree, operand: Axes) -> Axes:
        """Return the axes of the transpose `node` of an operand with the axes ``operand``: the reverse order, but
        NumPy's ``.T`` leaves vectors unchanged. The transpose of a scalar adds a penalty, since this reading of the
        formula is improbable.
        """
        if not has_axis(operand):
            self.penalty += ODD
        return operand if node.text == ".T" and operand[1] is None else operand[::-1]

    def _infer_sum(self, node: Tree, *parts: Axes) -> Axes:
        """Return the axes of a sum of operands with the axes ``parts``."""
        return self.infer_entrywise(node, node.text, node.children, *parts)

    def infer_entrywise(self, node: Tree, sign: str, nodes: Sequence[Tree], *parts: Axes) -> Axes:
        """Return the axes of an element-wise operation with the operator or function ``sign``: ``nodes`` are its
        operands, `parts` their axes. Raise `ParseError` if operands differ in shape.
        """
        tensors = [part for part in parts if has_axis(part)]
        for part in tensors[1:]:
            if shape_code(part) != shape_code(tensors[0]):
                first, second = SHAPE_NAMES[shape_code(tensors[0])], SHAPE_NAMES[shape_code(part)]
                raise node.error(
                    f"the operands of {sign} have different orders, {first} and {second}; transpose one, or declare "
                    "the shapes of the names"
                )
            self.unify(tensors[0][0], part[0])
            self.unify(tensors[0][1], part[1])
        if 0 < len(tensors) < len(parts) and sign in ("+", "-", "max", "maximum", "min", "minimum"):
            varying = [
                n for n, part in zip(nodes, parts, strict=True) if not has_axis(part) and n not in self.constants
            ]
            self.penalty += RARE * bool(varying)
        return tensors[0] if tensors else parts[0]

    def _infer_product(self, node: Tree, *parts: Axes) -> Axes:
        """Return the axes of a chain of products and quotients."""
        found = parts[0]
        for number, (sign, part, axes) in enumerate(zip(node.tokens, node.children[1:], parts[1:], strict=True)):
            left = [node.children[0]] if number == 0 else []
            found = self.infer_operator(node, str(sign), left, part, found, axes)
        self.penalty += UNUSUAL * (shape_code(found) == ROW and not has_axis(parts[0]))
        return found

    def infer_operator(self, node: Tree, sign: str, lefts: list[Tree], right: Tree, left: Axes, axes: Axes) -> Axes:
        """Return the axes of ``left sign right``, one step in a chain of products and quotients. ``left`` and ``axes``
        are the axes of the two operands, ``right`` is the node of the second; ``lefts`` has the node of the first if it
        is a single factor, else nothing.
        """
        if sign == "@":
            return self.infer_matmul(node, left, axes)
        if sign in (".*", "./"):
            operands = [*zip(lefts, [left], strict=False), (right, axes)]
            self.penalty += (ODD - 1) * sum(not has_axis(a) and n not in self.constants for n, a in operands)
            return self.infer_entrywise(node, sign, [], left, axes)
        if has_axis(left) and not has_axis(axes) and sign == "*":
            self.penalty += UNUSUAL * (right not in self.constants)
        if self.is_numpy:
            return self.infer_entrywise(node, sign, [], left, axes)
        if sign == "/" and has_axis(axes):
            raise node.error(f"the divisor {right.shown} is {SHAPE_NAMES[shape_code(axes)]}; write ./ or inv(…)")
        return self.infer_matrix_product(node, left, axes)

    def infer_matrix_product(self, node: Tree, left: Axes, right: Axes) -> Axes:
        """Return the axes of a matrix product of operands with the axes ``left`` and ``right``; one of them may be a
        number. Raise `ParseError` if the shapes do not fit.
        """
        if not has_axis(left) or not has_axis(right):
            return left if has_axis(left) else right
        if (left[1] is None) != (right[0] is None):
            first, second = SHAPE_NAMES[shape_code(left)], SHAPE_NAMES[shape_code(right)]
            raise node.error(
                f"{node.shown} multiplies {first} by {second}; write x'*y for the inner product, x*y' for the outer "
                "one, x.*y for that of the entries"
            )
        self.unify(left[1], right[0])
        return left[0], right[1]

    def infer_matmul(self, node: Tree, left: Axes, right: Axes) -> Axes:
        """Return the axes of NumPy's ``@`` for operands with the axes ``left`` and ``right``; a vector is neither a
        column nor a row.
        """
        if not has_axis(left) or not has_axis(right):
            raise node.error("the product @ takes vectors and matrices; write * for a factor that is a number")
        self.unify(right[0] if right[0] is not None else right[1], left[1] if left[1] is not None else left[0])
        is_matrix = [shape_code(part) == MATRIX for part in (left, right)]
        outer = [axis for axis, has in ((left[0], is_matrix[0]), (right[1], is_matrix[1])) if has]
        return (*outer, None, None)[:2]  # type: ignore[return-value]

    def _infer_power(self, node: Tree, base: Axes, exponent: Axes) -> Axes:
        """Return the axes of an element-wise power, or of an integer power of a square matrix."""
        sign = node.tokens[0]
        if sign in (".^", "**"):
            self.penalty += (ODD - 1) * (sign == ".^" and not has_axis(base))
            return self.infer_entrywise(node, sign, node.children, base, exponent)
        if not has_axis(base) and not has_axis(exponent):
            return base
        if shape_code(base) == MATRIX and integer_exponent(node.children[1]) is not None:
            self.unify(*base)
            return base
        raise node.error(
            f"the power {node.shown} of {SHAPE_NAMES[shape_code(base)]} needs a square matrix and a whole number up to "
            f"{MAX_MATRIX_POWER}; write .^ for the powers of the entries"
        )

    def _infer_modulus(self, node: Tree, operand: Axes) -> Axes:
        """Return no axes for ``|c|``; raise `ParseError` if the operand is not a number."""
        if has_axis(operand):
            raise node.error(
                f"{node.shown} takes a number, not {SHAPE_NAMES[shape_code(operand)]}; write abs(x) for the entries, "
                "||x|| for the norm, det(A) for the determinant"
            )
        return operand

    def _infer_tuple(self, node: Tree, *parts: Axes) -> Axes:
        """Return no axes: a tuple only lists sizes."""
        return None, None

    def _infer_call(self, node: Tree, *parts: Axes) -> Axes:
        """Infer the axes of the result of the function call ``node`` from the axes ``parts`` of its arguments. Raise
        `ParseError` if the function is unknown, or if the number or shapes of the arguments do not fit.
        """
        name = node.text
        if name not in FUNCTIONS:
            raise node.error(
                f"{name} is not a function of matrix formulas: these are {', '.join(listed_functions())}; "
                "a product has a *"
            )
        least, most = argument_counts(name)
        if not least <= len(parts) <= most:
            needed = least if least == most else f"{least} or more"
            form = "; the shape is one argument, as in reshape(A, (n, m))" * (name == "reshape")
            raise node.error(f"{name} takes {needed} arguments, and {len(parts)} are given{form}")
        if (axis := axis_of_call(node)) is not None:
            self.check_shape(node, parts[0], MATRIX)
            return parts[0] if name in RUNNING else (parts[0][1 - axis], None)
        if name in CONSTANT_TENSORS:
            return self.infer_constant(node)
        if name in ENTRYWISE:
            return self.infer_entrywise(node, name, node.children, *parts)
        if name in SQUARE_MATRIX_FUNCTIONS:
            self.check_shape(node, parts[0], MATRIX)
            self.unify(*parts[0])
            return parts[0] if name in ("inv", "adj") else (None, None)
        if name in ("solve", "kron", "reshape"):
            return getattr(self, f"infer_{name}")(node, *parts)  # type: ignore[no-any-return]
        if name in VECTOR_FUNCTIONS:
            first, second = (self.axis_of_vector(node, part) for part in parts)
            if name == "outer":
                return first, second
            self.unify(first, second)
            return None, None
        return self.infer_other_call(node, parts[0])

    def infer_solve(self, node: Tree, matrix: Axes, right: Axes) -> Axes:
        """Return the axes of the solution of a linear system, those of its right side ``right``."""
        self.check_shape(node, matrix, MATRIX)
        self.check_shape(node, right, COLUMN, MATRIX)
        self.unify(*matrix)
        self.unify(matrix[0], right[0])
        return right

    def infer_kron(self, node: Tree, first: Axes, second: Axes) -> Axes:
        """Return the axes of a Kronecker product of two matrices, columns or rows; raise `ParseError` for others."""
        self.check_shape(node, first, COLUMN, ROW, MATRIX)
        self.check_shape(node, second, COLUMN, ROW, MATRIX)
        if shape_code(first) != shape_code(second):
            shown = SHAPE_NAMES[shape_code(first)], SHAPE_NAMES[shape_code(second)]
            raise node.error(f"kron takes two matrices or two vectors alike, not {shown[0]} and {shown[1]}")
        rows, columns = (None if None in pair else self.product_axis(pair) for pair in zip(first, second, strict=True))
        return rows, columns

    def infer_reshape(self, node: Tree, operand: Axes, shape: Axes) -> Axes:
        """Return the axes of ``reshape(A, (n, m))``, in which sizes are names and integers, or of ``reshape(A, -1)``.
        Raise `ParseError` for another shape.
        """
        self.check_shape(node, operand, COLUMN, ROW, MATRIX)
        given = node.children[1]
        old = [axis for axis in operand if axis is not None]
        if integer_exponent(given) == -1:
            return self.product_axis(old), None
        sizes = given.children if given.kind == "tuple" else (given,)
        if len(sizes) > 2:
            raise node.error(f"reshape gives at most two axes, as in {node.text}(A, (n, m)), not {len(sizes)}")
        new = [self.axis_of_size(part) for part in sizes]
        if len(old) == 1 and len(new) == 1:
            self.unify(old[0], new[0])
        elif len(old) == 1:
            self.unify(old[0], self.product_axis(new))
        return (*new, None)[:2]  # type: ignore[return-value]

    def product_axis(self, factors: Sequence[int | None]) -> int:
        """Return a new axis, which is as long as the product of the lengths of ``factors``."""
        axis = self.new_axis()
        if self.unified:
            self.products.append((axis, tuple(factor for factor in factors if factor is not None)))
        return axis

    def infer_other_call(self, node: Tree, axes: Axes) -> Axes:
        """Return the axes of the result of a function of one argument that is not applied entry by entry, such as
        ``trace``, ``diag`` or ``softmax``.
        """
        match node.text:
            case "vector":
                self.check_shape(node, axes, NUMBER)
                return self.new_axis(), None
            case "matrix":
                self.check_shape(node, axes, NUMBER)
                return self.new_axes(MATRIX)
            case "transpose":
                return axes[::-1]
            case "flip":
                self.check_shape(node, axes, COLUMN, ROW, MATRIX)
                return axes
            case "softmax" | "cumsum" | "cumprod":
                if shape_code(axes) == MATRIX:
                    along = f"{node.text}({node.children[0].shown}, axis=1)"
                    raise node.error(
                        f"{node.text} of a matrix runs along its rows or its columns: write {along} or axis=0"
                    )
                self.check_shape(node, axes, COLUMN, ROW)
                return axes
            case "diag":
                self.check_shape(node, axes, COLUMN, ROW, MATRIX)
                if shape_code(axes) == MATRIX:
                    self.unify(*axes)
                    return axes[0], None
                return (self.axis_of_vector(node, axes),) * 2
            case _:
                self.check_shape(node, axes, COLUMN, ROW, MATRIX)
                return None, None

    def infer_constant(self, node: Tree) -> Axes:
        """Return the axes of ``ones(n)``, ``zeros((n, m))`` or ``eye(n)``, from the named sizes."""
        sizes = node.children[0].children if node.children and node.children[0].kind == "tuple" else node.children
        found: list[int | None] = [self.axis_of_size(part) for part in sizes]
        if node.text in ("eye", "DeltaTensor"):
            found = 2 * found if found else list(self.new_square())
        if not 0 < len(found) <= 2:
            raise node.error(f"{node.text} takes one size or two, as in ones(n) and zeros((n, m))")
        return (*found, None)[:2]  # type: ignore[return-value]

    def axis_of_size(self, node: Tree) -> int:
        """Return the axis whose size is the name or number ``node``; it is created when the size first occurs."""
        if node.kind not in ("name", "number"):
            raise node.error(f"{node.shown} is not a size: a size is a name or an integer")
        if node.text not in self.sizes:
            self.sizes[node.text] = self.new_axis()
        return self.sizes[node.text]

    def check_shape(self, node: Tree, axes: Axes, *orders: int) -> None:
        """Raise `ParseError` unless ``axes``, of an argument of the function ``node``, have one of the shape codes
        ``orders`` (0 number, 1 column, 2 row, 3 matrix).
        """
        is_higher = len(axes) > 2 and node.text in FUNCTIONS_OF_MATRICES
        if is_higher or shape_code(axes) not in orders:
            wanted = " or ".join(SHAPE_NAMES[order] for order in orders)
            given = f"a tensor with {len(axes)} axes" if is_higher else SHAPE_NAMES[shape_code(axes)]
            raise node.error(f"{node.text} takes {wanted}, not {given}")

    def axis_of_vector(self, node: Tree, axes: Axes) -> int | None:
        """Return the only axis of the vector `node`, a row or a column. ``axes`` has its row axis and its column axis,
        one of which is None; raise `ParseError` for other shapes.
        """
        self.check_shape(node, axes, COLUMN, ROW)
        return axes[0] if axes[0] is not None else axes[1]


MAX_MATRIX_POWER = 20
"""The greatest absolute exponent of a matrix."""


def integer_exponent(node: Tree) -> int | None:
    """Return the exponent of a matrix power if it is an integer literal from -20 to 20 other than 0; else None."""
    sign = 1
    while node.kind == "signed":
        sign = -sign if node.text == "-" else sign
        (node,) = node.children
    if (
        node.kind == "number"
        and node.text.isdecimal()
        and len(node.text) < 3
        and 0 < int(node.text) <= MAX_MATRIX_POWER
    ):
        return sign * int(node.text)
    return None


def axis_of_call(node: Tree) -> int | None:
    """Return the axis, 0 or 1, that the call `node` names by ``axis=``; None if it names none. Raise `ParseError` for
    any other axis.
    """
    token = next((token for token in node.tokens if token.type == "AXIS"), None)
    if token is None:
        return None
    axis = int(token.partition("=")[2])
    if node.text not in ALONG_AXIS:
        raise node.error(f"{node.text} takes no axis; {', '.join(sorted(ALONG_AXIS))} do", token.start_pos)
    if not -2 <= axis < 2:
        raise node.error(f"a matrix has the axes 0 and 1, not {axis}", token.start_pos)
    return axis % 2


def listed_functions() -> list[str]:
    """Return the names of all functions of matrix and LaTeX formulas in alphabetical order, for error messages; without
    upper-case variants of a name.
    """
    return [name for name in sorted(FUNCTIONS) if name.islower() or name.lower() not in FUNCTIONS]


def argument_counts(name: str) -> tuple[int, int]:
    """Return the least and the greatest number of arguments of the function ``name``."""
    if name in CONSTANT_TENSORS:
        return 1 - (name == "eye"), 2
    return ENTRYWISE.get(name, (2, 2) if name in FUNCTIONS_OF_TWO else (1, 1))


def has_axis(axes: Axes) -> bool:
    """Return whether the shape ``axes`` has an axis, and is not that of a number."""
    return axes != (None, None)
