"""Notations as Python text: the `str` of a whole tensor, which gives the tensor again when it is typed in.

Python reads ``*``, ``/`` and ``@`` from the left and alike, so that a scalar in front of a product of matrices needs no
parentheses, and an elementwise product of several tensors does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sympy import Mul, Pow, S
from sympy.core.function import AppliedUndef
from sympy.printing.precedence import PRECEDENCE, precedence

from sympy_tensordiff.symbolic.printing.notation import (
    Applied,
    Call,
    Chain,
    Choice,
    Connected,
    Constant,
    Diagonal,
    Einsum,
    Expanded,
    Indicator,
    Inverse,
    Leaf,
    Outer,
    Power,
    Product,
    Relation,
    Repeated,
    RowVector,
    Sum,
    Transposed,
    Variant,
    is_ones,
)

ADD, MUL, POW, ATOM = (int(PRECEDENCE[name]) for name in ("Add", "Mul", "Pow", "Atom"))
# Between a sum and a product of matrices: element-wise products, contractions, products with scalars in front.
ELEMENTWISE, CONTRACTED, SCALED = MUL - 5, MUL - 3, MUL - 2

RELATIONS = {
    **{">": "greater", ">=": "greater_equal", "<": "less", "<=": "less_equal", "==": "equal", "!=": "not_equal"},
}
"""The names of the relations between entries by their signs."""


class Writer:
    """The base class of the writers that turn a notation (the tree of a printed form) into text or a formula, by one
    method for each class of nodes in the tree. Here the results are strings.

    ``printer``, a SymPy printer, may be None if only levels are needed. Writers of other forms override how forms are
    joined and parenthesized.
    """

    levels: Mapping[type, int] = MappingProxyType({})
    level_of_leaf = staticmethod(precedence)
    minus = "-"
    has_sums = True  # whether products with ones are written as sums

    def __init__(self, printer: Any) -> None:
        self.printer = printer

    def write(self, notation: Any) -> Any:
        """Return the written form of ``notation``, by calling the method named after its class."""
        notation = self.replacement(notation)
        return getattr(self, f"write_{type(notation).__name__.lower()}")(notation)

    def replacement(self, notation: Any) -> Any:
        """Return the notation to print in place of ``notation``: the formula of a `Variant`, the scalar of a `Repeated`
        (a scalar broadcast to a tensor), and any other notation itself.
        """
        if isinstance(notation, Variant):
            return self.replacement(notation.formula)
        return notation.scalar if isinstance(notation, Repeated) else notation

    def at(self, notation: Any, least: int) -> Any:
        """Return the written form of ``notation``, in parentheses if its precedence is below ``least``, the precedence
        that the surrounding notation needs.
        """
        form = self.write(notation)
        return self.parenthesized(form) if self.level(notation) < least else form

    def level(self, notation: Any) -> int:
        """Return the precedence of the text in which ``notation`` is written; it decides whether parentheses are
        needed.
        """
        notation = self.replacement(notation)
        if isinstance(notation, Leaf):
            return int(self.level_of_leaf(notation.node))
        if isinstance(notation, Product):
            if notation.number.is_negative:
                return ADD
            return SCALED if len(notation.factors) < 2 and not notation.divisors else ELEMENTWISE
        return ATOM if self.has_sums and is_sum(notation) else self.levels.get(type(notation), ATOM)

    def joined(self, *parts: Any) -> Any:
        """Return written forms and texts joined from left to right."""
        return "".join(parts)

    def between(self, sign: str, forms: Sequence[Any]) -> Any:
        """Return the written ``forms`` with ``sign`` between them."""
        return self.joined(forms[0], *(part for form in forms[1:] for part in (sign, form)))

    def parenthesized(self, form: Any) -> Any:
        """Return the written ``form`` in parentheses."""
        return f"({form})"

    def arguments(self, args: Sequence[Any]) -> list[Any]:
        """Return the written forms of function arguments."""
        return [self.at(arg, 0) for arg in args]

    def write_leaf(self, leaf: Leaf) -> Any:
        """Return a leaf (a scalar, symbol or comprehension) as SymPy's printer writes it."""
        return self.printer._print(leaf.node)

    def write_sum(self, notation: Sum) -> Any:
        """Return the printed form of ``notation``, a sum: its terms, joined by plus and minus signs."""
        parts: list[Any] = []
        for minus, term in notation.terms:
            parts += [" - " if minus else " + "] if parts else [self.minus] * minus
            parts.append(self.at(term, ELEMENTWISE if minus else ADD))
        return self.joined(*parts)

    def write_diagonal(self, notation: Diagonal) -> Any:
        """Return the written form of a diagonal matrix as a call of ``diag``."""
        return self.write_call(Call("diag", (notation.vector,)))

    def write_call(self, notation: Call) -> Any:
        """Return the written form of a function call."""
        return self.named(notation.name, self.arguments(notation.args), notation.keywords)

    def named(self, name: str, args: Sequence[Any], keywords: Sequence[tuple[str, Any]] = ()) -> Any:
        """Return the written form of a call of the function ``name``. The arguments ``args`` are written already;
        ``keywords`` are pairs ``(name, value)`` of keyword arguments.
        """
        return self.joined(name, self.parenthesized(self.between(", ", [*args, *(f"{k}={v}" for k, v in keywords)])))


class TextWriter(Writer):
    """The writer that turns notations (the trees of printed forms) into Python text."""

    levels = MappingProxyType({Sum: ADD, Chain: MUL, Power: POW})

    def replacement(self, notation: Any) -> Any:
        """Return the notation to print in place of ``notation``: the Python text of a `Variant`, the scalar of a
        `Repeated` (a scalar broadcast to a tensor), and any other notation itself.
        """
        return self.replacement(notation.text) if isinstance(notation, Variant) else super().replacement(notation)

    def write_constant(self, constant: Constant) -> str:
        """Return the text of a constant tensor as a function call."""
        name = "DeltaTensor" if constant.name == "identity" else constant.name
        extents = ", ".join(self.printer._print(extent) for extent in constant.shape)
        return f"{name}({extents})" if len(constant.shape) == 1 else f"{name}(({extents}))"

    def write_product(self, notation: Product) -> str:
        """Return the text of an elementwise product or quotient."""
        number = notation.number
        factors = list(notation.inner + notation.factors)
        # A product of matrices may follow scalars, and a number may follow it.
        least = MUL if len(factors) == 1 and not notation.divisors else POW
        above = [str(abs(number.p))] if number.is_Rational and abs(number.p) != 1 else []
        above += [] if number.is_Rational else [self.printer.parenthesize(abs(number), MUL)]
        below = [str(number.q)] if number.is_Rational and number.q != 1 else []
        for scalar in _with_one_root(Mul.make_args(Mul(*notation.scalars))):
            if isinstance(scalar, Pow) and scalar.exp.could_extract_minus_sign():
                below.append(self.printer.parenthesize(1 / scalar, MUL, strict=False))
            elif scalar != 1:
                above.append(self.printer.parenthesize(scalar, MUL, strict=False))
        above += [self.at(factor, least) for factor in factors]
        below += [self.at(divisor.tensor, POW) for divisor in notation.divisors]
        text = "*".join(above) or "1"
        if below:
            text += "/" + (below[0] if len(below) == 1 else f"({'*'.join(below)})")
        return "-" + text if number.is_negative else text

    def write_chain(self, notation: Chain) -> str:
        """Return the text of a matrix product, with ``sum`` for products with ones."""
        first, *rest = with_sums(notation)
        return " @ ".join([self.at(first, SCALED), *(self.at(factor, POW) for factor in rest)])

    def write_rowvector(self, notation: RowVector | Transposed) -> str:
        """Return the text of a transposed vector or matrix."""
        return f"{self.at(notation[0], ATOM)}.T"

    write_transposed = write_rowvector

    def write_expanded(self, notation: Expanded) -> str:
        """Return the text of a tensor with new axes, as ``x[:, None]``."""
        axes = ", ".join("None" if is_new else ":" for is_new in notation.new)
        return f"{self.at(notation.tensor, ATOM)}[{axes}]"

    def write_outer(self, notation: Outer) -> Any:
        """Return the text of an outer product as a call."""
        return self.write_call(Call("outer", notation))

    def write_inverse(self, notation: Inverse) -> Any:
        """Return the text of an inverse as a call."""
        return self.write_call(Call("inv", notation))

    def write_power(self, notation: Power) -> str:
        """Return the text of a power."""
        return f"{self.at(notation.base, POW + 1)}**{self.at(notation.exponent, POW)}"

    def write_applied(self, notation: Applied) -> Any:
        """Return the text of an elementwise function without a name in this package: a call of ``elementwise`` with a
        function name or a lambda.
        """
        body, names = notation.template.expr, notation.template.variables
        if isinstance(body, AppliedUndef) and body.args == names:
            function = body.func.__name__
        else:
            function = f"lambda {', '.join(map(str, names))}: {self.printer._print(body)}"
        return self.named("elementwise", [function, *self.arguments(notation.args)])

    def write_relation(self, notation: Relation) -> Any:
        """Return the text of a relation as a call, such as ``greater``."""
        return self.write_call(Call(RELATIONS[notation.sign], (notation.left, notation.right)))

    def write_connected(self, notation: Connected) -> Any:
        """Return the text of joined conditions as calls, such as ``logical_and``."""
        first, *others = notation.conditions
        for condition in others:
            first = Call(f"logical_{notation.name}", (first, condition))
        return self.write_call(first if others else Call("logical_not", (first,)))

    def write_indicator(self, notation: Indicator) -> Any:
        """Return the text of an indicator, its condition alone: comparisons in Python text are 1 or 0, too."""
        return self.write(notation.condition)

    def write_choice(self, notation: Choice) -> Any:
        """Return the text of a choice as nested calls of ``where``."""
        rest = notation.rest
        for value, condition in reversed(notation.branches):
            rest = Call("where", (condition, value, rest))
        return self.write_call(rest)

    def write_einsum(self, notation: Einsum) -> Any:
        """Return the text of the contraction ``notation``: a call of ``sum`` if it only sums over axes, else a call of
        ``EinsumProduct``.
        """
        if (total := sum_of_axes(notation)) is not None:
            return self.write_call(total)
        subscripts = repr(f"{','.join(notation.inputs)}->{notation.output}")
        return self.named("EinsumProduct", [subscripts, *self.arguments(notation.operands)])


def _with_one_root(factors: Sequence[Any]) -> list[Any]:
    """Return scalar `factors` with a quotient of square roots of numbers written as one root: ``sqrt(2/pi)`` for
    ``sqrt(2)/sqrt(pi)``. Unchanged unless there is a root in the numerator and one in the denominator.
    """
    roots = [factor for factor in factors if factor.is_Pow and abs(factor.exp) == S.Half and factor.base.is_positive]
    roots = [factor for factor in roots if factor.is_number]
    if len({factor.exp for factor in roots}) < 2:
        return list(factors)
    quotient = Mul(*(factor.base if factor.exp.is_positive else 1 / factor.base for factor in roots))
    return [Pow(quotient, S.Half, evaluate=False), *(factor for factor in factors if factor not in roots)]


def sum_of_axes(notation: Einsum) -> Call | None:
    """Return a contraction of one tensor as ``sum(A, axis=...)``; None for any other contraction."""
    labels, output = notation.inputs[0], notation.output
    remaining = [label for label in labels if label in output]
    if len(notation.inputs) > 1 or output != "".join(remaining) or len(set(labels)) != len(labels):
        return None
    axes = tuple(axis for axis, label in enumerate(labels) if label not in output)
    axis = axes[0] if len(axes) == 1 else axes
    return Call("sum", notation.operands, (("axis", axis),) if output else ())


def mean_of(notation: Any, extents: Sequence[Any]) -> Any | None:
    """Return ``notation`` with its sum over axes of the given ``extents`` replaced by a mean. The caller drops the
    factor ``1/n``, to print ``mean(x)`` for ``sum(x)/n``. None unless there is exactly one such sum.

    The sum may be the notation itself, the end of a matrix product, or a factor, perhaps in a diagonal matrix.
    """
    if isinstance(notation, Einsum):
        total = sum_of_axes(notation)
        return None if total is None else total._replace(name="mean")
    if isinstance(notation, Chain):
        first, *_, last = notation.factors
        ones = [first.vector] if isinstance(first, RowVector) and is_ones(first.vector) else []
        ones += [last] if is_ones(last) else []
        if [vector.shape[0] for vector in ones] in ([*extents], [*extents][::-1]):
            *others, total = with_sums(notation)
            mean = total._replace(name="mean")
            return Chain((*others, mean)) if others else mean
    if isinstance(notation, Diagonal):
        vector = mean_of(notation.vector, extents)
        return None if vector is None else Diagonal(vector)
    if not isinstance(notation, (Chain, Product)):
        return None
    means = [mean_of(factor, extents) for factor in notation.factors]
    if sum(mean is not None for mean in means) != 1:
        return None
    factors = (factor if mean is None else mean for factor, mean in zip(notation.factors, means, strict=True))
    return notation._replace(factors=tuple(factors))


def is_sum(notation: Any) -> bool:
    """Return whether `notation` can be printed as ``sum(a)``: it is a product of one factor and vectors of ones, such
    as ``ones.T @ a``.
    """
    return isinstance(notation, Chain) and len(with_sums(notation)) == 1


def with_sums(chain: Chain) -> list[Any]:
    """Return the factors of the matrix product ``chain``; a product with a vector of ones becomes a call of ``sum``."""
    first, *rest = chain.factors
    if isinstance(first, RowVector) and is_ones(first.vector):
        remaining = rest[:-1] if len(rest) > 1 and is_ones(rest[-1]) else rest
        return [Call("sum", (remaining[0] if len(remaining) == 1 else Chain(tuple(remaining)),))]
    if not is_ones(rest[-1]):
        return [first, *rest]
    *others, matrix = chain.factors[:-1]
    summed, axis = (matrix.matrix, 0) if isinstance(matrix, Transposed) else (matrix, 1)
    return [*others, Call("sum", (summed,), (("axis", axis),))]
