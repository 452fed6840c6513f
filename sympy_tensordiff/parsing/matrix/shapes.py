"""The axes of all parts of a formula for given orders of its names, and what is unusual about these orders.

A number has no axes, a column rows, a row columns, a matrix both: an axis is a number, or None where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from sympy_tensordiff.parsing.axes import Unified
from sympy_tensordiff.parsing.frontend import Tree

Axes: TypeAlias = tuple[int | None, int | None]
NUMBER, COLUMN, ROW, MATRIX = range(4)
WORDS = ("a number", "a column vector", "a row vector", "a matrix")

_ENTRYWISE = """abs acos acosh arccos arcsin arctan asin asinh atan atanh ceiling cos cosh erf exp floor ln log relu
sigmoid sign sin sinh softplus sqrt tan tanh"""
ENTRYWISE = frozenset(_ENTRYWISE.split())
EXTREMA = frozenset({"maximum", "minimum", "max", "min"})
REDUCTIONS = frozenset({"sum", "mean", "norm", "norm1", "norm2", "logsumexp"})
OF_SQUARES = frozenset({"tr", "trace", "det", "logdet", "inv", "adj"})
OF_VECTORS = frozenset({"dot", "outer"})
OF_SIZES = frozenset({"ones", "zeros", "eye", "DeltaTensor"})
OTHERS = frozenset({"diag", "softmax", "transpose", "vector", "matrix"})
FUNCTIONS = ENTRYWISE | EXTREMA | REDUCTIONS | OF_SQUARES | OF_VECTORS | OF_SIZES | OTHERS

UNUSUAL, RARE, ODD = 1, 2, 4
"""How much speaks against a reading: a number behind a tensor, a row with a number before it, a number added to all
entries, and the transpose of a number."""


def order_of(axes: Axes) -> int:
    """The order of what has these axes."""
    return (axes[0] is not None) + 2 * (axes[1] is not None)


class Shapes:
    """One pass over a tree, the parts of each node first.

    Parameters
    ----------
    orders : mapping
        The order of each name.
    is_numpy : bool
        Whether ``*`` is element by element, as for NumPy's arrays.
    unified : Unified, optional
        Where axes become equally long; without it orders are compared only.
    names : mapping, optional
        The axes of the names.

    Attributes
    ----------
    against : int
        How much speaks against the orders.
    axes : dict
        The axes of each node.
    sizes : dict
        The axes that stand for the sizes in ``ones(n)``.
    """

    def __init__(
        self,
        orders: Mapping[str, int],
        is_numpy: bool,
        unified: Unified | None = None,
        names: Mapping[str, Axes] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.is_numpy = is_numpy
        self.unified = unified
        self.names = names or {name: self.of(order) for name, order in orders.items()}
        self.sizes = dict(sizes or {})
        self.against = 0
        self.axes: dict[Tree, Axes] = {}
        self.constants: set[Tree] = set()

    def run(self, nodes: Iterable[Tree]) -> Axes:
        """The axes of the last node."""
        found: Axes = (None, None)
        for node in nodes:
            parts = [self.axes[part] for part in node.parts]
            found = self.axes[node] = getattr(self, f"_{node.kind}")(node, *parts)
            if node.kind == "number" or (node.parts and self.constants.issuperset(node.parts)):
                self.constants.add(node)
        return found

    def of(self, order: int) -> Axes:
        """New axes."""
        return (self.new() if order & COLUMN else None, self.new() if order & ROW else None)

    def new(self) -> int:
        """A new axis."""
        return self.unified.new(1)[0] if self.unified else 0

    def equal(self, first: int | None, second: int | None) -> None:
        """Two axes are equally long."""
        if self.unified and first is not None and second is not None:
            self.unified.unify(first, second)

    # -------------------------------------------------------------- nodes

    def _number(self, node: Tree) -> Axes:
        return None, None

    def _name(self, node: Tree) -> Axes:
        if node.text == "eye" and node.text not in self.names:
            return self.square()
        return self.names.get(node.text, (None, None))

    def square(self) -> Axes:
        """The axes of a square matrix."""
        axis = self.new()
        return axis, axis

    def _signed(self, node: Tree, operand: Axes) -> Axes:
        return operand

    def _transpose(self, node: Tree, operand: Axes) -> Axes:
        if not any_axis(operand):
            self.against += ODD
        return operand if node.text == ".T" and operand[1] is None else operand[::-1]

    def _sum(self, node: Tree, *parts: Axes) -> Axes:
        return self.entrywise(node, node.text, node.parts, *parts)

    def entrywise(self, node: Tree, sign: str, nodes: Sequence[Tree], *parts: Axes) -> Axes:
        """Operands of one shape, or numbers, which fit every shape."""
        tensors = [part for part in parts if any_axis(part)]
        for part in tensors[1:]:
            if order_of(part) != order_of(tensors[0]):
                first, second = WORDS[order_of(tensors[0])], WORDS[order_of(part)]
                raise node.error(
                    f"the operands of {sign} have different orders, {first} and {second}; transpose one, or declare "
                    "the shapes of the names"
                )
            self.equal(tensors[0][0], part[0])
            self.equal(tensors[0][1], part[1])
        if 0 < len(tensors) < len(parts) and sign in ("+", "-", *EXTREMA):
            varying = [
                n for n, part in zip(nodes, parts, strict=True) if not any_axis(part) and n not in self.constants
            ]
            self.against += RARE * bool(varying)
        return tensors[0] if tensors else parts[0]

    def _product(self, node: Tree, *parts: Axes) -> Axes:
        found = parts[0]
        for number, (sign, part, axes) in enumerate(zip(node.tokens, node.parts[1:], parts[1:], strict=True)):
            left = [node.parts[0]] if number == 0 else []
            found = self.step(node, str(sign), left, part, found, axes)
        self.against += UNUSUAL * (order_of(found) == ROW and not any_axis(parts[0]))
        return found

    def step(self, node: Tree, sign: str, lefts: list[Tree], right: Tree, left: Axes, axes: Axes) -> Axes:
        """One operator of a chain of products and quotients."""
        if sign == "@":
            return self.matmul(node, left, axes)
        if sign in (".*", "./"):
            operands = [*zip(lefts, [left], strict=False), (right, axes)]
            self.against += (ODD - 1) * sum(not any_axis(a) and n not in self.constants for n, a in operands)
            return self.entrywise(node, sign, [], left, axes)
        if any_axis(left) and not any_axis(axes) and sign == "*":
            self.against += UNUSUAL * (right not in self.constants)
        if self.is_numpy:
            return self.entrywise(node, sign, [], left, axes)
        if sign == "/" and any_axis(axes):
            raise node.error(f"the divisor {right.shown} is {WORDS[order_of(axes)]}; write ./ or inv(…)")
        return self.times(node, left, axes)

    def times(self, node: Tree, left: Axes, right: Axes) -> Axes:
        """The product of matrices, with numbers that scale."""
        if not any_axis(left) or not any_axis(right):
            return left if any_axis(left) else right
        if (left[1] is None) != (right[0] is None):
            first, second = WORDS[order_of(left)], WORDS[order_of(right)]
            raise node.error(
                f"{node.shown} multiplies {first} by {second}; write x'*y for the inner product, x*y' for the outer "
                "one, x.*y for that of the entries"
            )
        self.equal(left[1], right[0])
        return left[0], right[1]

    def matmul(self, node: Tree, left: Axes, right: Axes) -> Axes:
        """The product ``@`` of NumPy, in which vectors are neither columns nor rows."""
        if not any_axis(left) or not any_axis(right):
            raise node.error("the product @ takes vectors and matrices; write * for a factor that is a number")
        self.equal(right[0] if right[0] is not None else right[1], left[1] if left[1] is not None else left[0])
        is_matrix = [order_of(part) == MATRIX for part in (left, right)]
        outer = [axis for axis, has in ((left[0], is_matrix[0]), (right[1], is_matrix[1])) if has]
        return (*outer, None, None)[:2]  # type: ignore[return-value]

    def _power(self, node: Tree, base: Axes, exponent: Axes) -> Axes:
        sign = node.tokens[0]
        if sign in (".^", "**"):
            self.against += (ODD - 1) * (sign == ".^" and not any_axis(base))
            return self.entrywise(node, sign, node.parts, base, exponent)
        if not any_axis(base) and not any_axis(exponent):
            return base
        if order_of(base) == MATRIX and whole_number(node.parts[1]) is not None:
            self.equal(*base)
            return base
        raise node.error(
            f"the power {node.shown} of {WORDS[order_of(base)]} needs a square matrix and a whole number up to "
            f"{HIGHEST}; write .^ for the powers of the entries"
        )

    def _modulus(self, node: Tree, operand: Axes) -> Axes:
        if any_axis(operand):
            raise node.error(
                f"{node.shown} takes a number, not {WORDS[order_of(operand)]}; write abs(x) for the entries, "
                "||x|| for the norm, det(A) for the determinant"
            )
        return operand

    def _tuple(self, node: Tree, *parts: Axes) -> Axes:
        return None, None

    def _call(self, node: Tree, *parts: Axes) -> Axes:
        name = node.text
        if name not in FUNCTIONS:
            raise node.error(
                f"{name} is not a function of matrix formulas: these are {', '.join(sorted(FUNCTIONS))}; "
                "a product has a *"
            )
        least, most = counts(name)
        if not least <= len(parts) <= most:
            needed = least if least == most else f"{least} or more"
            raise node.error(f"{name} takes {needed} arguments, and {len(parts)} are given")
        if name in OF_SIZES:
            return self.sized(node)
        if name in ENTRYWISE:
            return parts[0]
        if name in EXTREMA:
            return self.entrywise(node, name, node.parts, *parts)
        if name in OF_SQUARES:
            self.accept(node, parts[0], MATRIX)
            self.equal(*parts[0])
            return parts[0] if name in ("inv", "adj") else (None, None)
        if name in OF_VECTORS:
            first, second = (self.vector(node, part) for part in parts)
            if name == "outer":
                return first, second
            self.equal(first, second)
            return None, None
        return self.other(node, parts[0])

    def other(self, node: Tree, axes: Axes) -> Axes:
        """The functions of one argument that differ in what they take."""
        match node.text:
            case "vector":
                self.accept(node, axes, NUMBER)
                return self.new(), None
            case "matrix":
                self.accept(node, axes, NUMBER)
                return self.of(MATRIX)
            case "transpose":
                return axes[::-1]
            case "softmax":
                self.accept(node, axes, COLUMN, ROW)
                return axes
            case "diag":
                self.accept(node, axes, COLUMN, ROW, MATRIX)
                if order_of(axes) == MATRIX:
                    self.equal(*axes)
                    return axes[0], None
                return (self.vector(node, axes),) * 2
            case _:
                self.accept(node, axes, COLUMN, ROW, MATRIX)
                return None, None

    def sized(self, node: Tree) -> Axes:
        """``ones(n)``, ``zeros((n, m))``, ``eye(n)``: the axes of the sizes that are named."""
        sizes = node.parts[0].parts if node.parts and node.parts[0].kind == "tuple" else node.parts
        found: list[int | None] = [self.size(part) for part in sizes]
        if node.text in ("eye", "DeltaTensor"):
            found = 2 * found if found else list(self.square())
        if not 0 < len(found) <= 2:
            raise node.error(f"{node.text} takes one size or two, as in ones(n) and zeros((n, m))")
        return (*found, None)[:2]  # type: ignore[return-value]

    def size(self, node: Tree) -> int:
        """The axis that stands for a size."""
        if node.kind not in ("name", "number"):
            raise node.error(f"{node.shown} is no size: a size is a name or a whole number")
        if node.text not in self.sizes:
            self.sizes[node.text] = self.new()
        return self.sizes[node.text]

    def accept(self, node: Tree, axes: Axes, *orders: int) -> None:
        """Raise where the argument of a function has none of the orders."""
        if order_of(axes) not in orders:
            wanted = " or ".join(WORDS[order] for order in orders)
            raise node.error(f"{node.text} takes {wanted}, not {WORDS[order_of(axes)]}")

    def vector(self, node: Tree, axes: Axes) -> int | None:
        """The axis of a vector."""
        self.accept(node, axes, COLUMN, ROW)
        return axes[0] if axes[0] is not None else axes[1]


HIGHEST = 20
"""The highest power of a matrix."""


def whole_number(node: Tree) -> int | None:
    """The exponent of a matrix."""
    sign = 1
    while node.kind == "signed":
        sign = -sign if node.text == "-" else sign
        (node,) = node.parts
    if node.kind == "number" and node.text.isdecimal() and len(node.text) < 3 and 0 < int(node.text) <= HIGHEST:
        return sign * int(node.text)
    return None


def counts(name: str) -> tuple[int, int]:
    """How many arguments a function takes at least and at most."""
    if name in OF_SIZES:
        return 1 - (name == "eye"), 2
    return (2, 100) if name in EXTREMA else (2, 2) if name in OF_VECTORS else (1, 1)


def any_axis(axes: Axes) -> bool:
    """Whether there is an axis."""
    return axes != (None, None)
