"""Notations as Python: what `str` of a whole tensor says, and what makes it again when typed in.

Python reads ``*``, ``/`` and ``@`` from the left and alike, so that a scalar in front of a product of
matrices needs no parentheses, and an element-wise product of several tensors does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sympy import Mul, Pow
from sympy.core.function import AppliedUndef
from sympy.printing.precedence import PRECEDENCE, precedence

from sympy_tensordiff.symbolic.notation import (
    Applied,
    Broadcast,
    Call,
    Chain,
    Choice,
    Constant,
    Contraction,
    Diagonal,
    Indicator,
    Inverse,
    Leaf,
    Outer,
    Power,
    Product,
    Repeated,
    Row,
    Sum,
    Transposed,
    is_ones,
)

ADD, MUL, POW, ATOM = (int(PRECEDENCE[name]) for name in ("Add", "Mul", "Pow", "Atom"))
# Between a sum and a product of matrices: element-wise products, contractions, products with scalars in front.
ELEMENTWISE, CONTRACTED, SCALED = MUL - 5, MUL - 3, MUL - 2


class Writer:
    """Writes notations through a printer of SymPy's, which may be None where only levels are asked for."""

    levels: Mapping[type, int] = MappingProxyType({})

    def __init__(self, printer: Any) -> None:
        self.printer = printer

    def write(self, notation: Any) -> Any:
        """The form of a notation."""
        return getattr(self, type(notation).__name__.lower())(notation)

    def at(self, notation: Any, least: int) -> Any:
        """The form, in parentheses where it binds less tightly than ``least``."""
        form = self.write(notation)
        return self.parenthesized(form) if self.level(notation) < least else form

    def parenthesized(self, form: Any) -> Any:
        """The form in parentheses."""
        return f"({form})"

    def level(self, notation: Any) -> int:
        """How tightly the form of a notation binds."""
        if isinstance(notation, Leaf):
            return self.level_of_leaf(notation.node)
        if isinstance(notation, Repeated):
            return self.level(self.repeated_scalar(notation))
        if isinstance(notation, Broadcast):
            return self.level(self.repeated_tensor(notation))
        if isinstance(notation, Product):
            if notation.number.is_negative:
                return ADD
            return SCALED if len(notation.factors) < 2 and not notation.divisors else ELEMENTWISE
        return self.levels.get(type(notation), ATOM)

    def signed(self, notation: Sum) -> str:
        """The terms of a sum, each with its sign."""
        terms = (
            f"{'-' if minus else '+'} {self.at(term, ELEMENTWISE if minus else ADD)}" for minus, term in notation.terms
        )
        return " ".join(terms)

    def repeated(self, notation: Repeated) -> Any:
        """A scalar in a sum of tensors."""
        return self.write(self.repeated_scalar(notation))

    def repeated_scalar(self, notation: Repeated) -> Any:
        """What is written for a scalar in a sum of tensors: the scalar."""
        return notation.scalar

    def broadcast(self, notation: Broadcast) -> Any:
        """A tensor that is repeated to the shape of others."""
        return self.write(self.repeated_tensor(notation))

    def repeated_tensor(self, notation: Broadcast) -> Any:
        """What is written for a tensor that is repeated: its product with ones, which has one reading on paper."""
        return notation.product

    def level_of_leaf(self, node: Any) -> int:
        """How tightly the form of SymPy's own node binds."""
        return int(precedence(node))


class TextWriter(Writer):
    """Python text."""

    levels = MappingProxyType({Sum: ADD, Chain: MUL, Power: POW})

    def level(self, notation: Any) -> int:
        return ATOM if is_sum(notation) else super().level(notation)

    def repeated_tensor(self, notation: Broadcast) -> Any:
        return notation.tensor

    def leaf(self, leaf: Leaf) -> str:
        return str(self.printer._print(leaf.node))

    def constant(self, constant: Constant) -> str:
        name = "DeltaTensor" if constant.name == "identity" else constant.name
        extents = ", ".join(self.printer._print(extent) for extent in constant.shape)
        return f"{name}({extents})" if len(constant.shape) == 1 else f"{name}(({extents}))"

    def sum(self, notation: Sum) -> str:
        text = self.signed(notation)
        return text[2:] if text.startswith("+") else "-" + text[2:]

    def product(self, notation: Product) -> str:
        number = notation.number
        factors = list(notation.inner + notation.factors)
        # A product of matrices may follow scalars, and a number may follow it.
        least = MUL if len(factors) == 1 and not notation.divisors else POW
        above = [str(abs(number.p))] if number.is_Rational and abs(number.p) != 1 else []
        above += [] if number.is_Rational else [self.printer.parenthesize(abs(number), MUL)]
        below = [self.at(divisor.tensor, POW) for divisor in notation.divisors]
        below += [str(number.q)] if number.is_Rational and number.q != 1 else []
        for scalar in Mul.make_args(Mul(*notation.scalars)):
            if isinstance(scalar, Pow) and scalar.exp.could_extract_minus_sign():
                below.append(self.printer.parenthesize(1 / scalar, MUL, strict=False))
            elif scalar != 1:
                above.append(self.printer.parenthesize(scalar, MUL, strict=False))
        above += [self.at(factor, least) for factor in factors]
        text = "*".join(above) or "1"
        if below:
            text += "/" + (below[0] if len(below) == 1 else f"({'*'.join(below)})")
        return "-" + text if number.is_negative else text

    def chain(self, notation: Chain) -> str:
        return self._joined(with_sums(notation))

    def _joined(self, factors: list[Any]) -> str:
        return " @ ".join([self.at(factors[0], SCALED), *(self.at(factor, POW) for factor in factors[1:])])

    def row(self, notation: Row) -> str:
        return f"{self.at(notation.vector, ATOM)}.T"

    def transposed(self, notation: Transposed) -> str:
        return f"{self.at(notation.matrix, ATOM)}.T"

    def outer(self, notation: Outer) -> str:
        return self.call(Call("outer", (notation.column, notation.row)))

    def diagonal(self, notation: Diagonal) -> str:
        return self.call(Call("diag", (notation.vector,)))

    def inverse(self, notation: Inverse) -> str:
        return self.call(Call("inv", (notation.matrix,)))

    def power(self, notation: Power) -> str:
        return f"{self.at(notation.base, POW + 1)}**{self.at(notation.exponent, POW)}"

    def call(self, notation: Call) -> str:
        return self._called(notation.name, [self.at(arg, 0) for arg in notation.args], notation.keywords)

    def _called(self, name: str, args: list[str], keywords: tuple[tuple[str, Any], ...] = ()) -> str:
        return f"{name}({', '.join([*args, *(f'{keyword}={value}' for keyword, value in keywords)])})"

    def applied(self, notation: Applied) -> str:
        body, names = notation.template.expr, notation.template.variables
        if isinstance(body, AppliedUndef) and body.args == names:
            function = body.func.__name__
        else:
            function = f"lambda {', '.join(map(str, names))}: {self.printer._print(body)}"
        return self._called("elementwise", [function, *(self.at(arg, 0) for arg in notation.args)])

    def indicator(self, notation: Indicator) -> str:
        return self.applied(notation.function)

    def choice(self, notation: Choice) -> str:
        return self.applied(notation.function)

    def contraction(self, notation: Contraction) -> str:
        labels, output = notation.inputs[0], notation.output
        kept = [label for label in labels if label in output]
        if len(notation.inputs) == 1 and output == "".join(kept) and len(set(labels)) == len(labels):
            axes = tuple(axis for axis, label in enumerate(labels) if label not in output)
            axis = axes[0] if len(axes) == 1 else axes
            return self.call(Call("sum", notation.operands, (("axis", axis),) if output else ()))
        subscripts = repr(f"{','.join(notation.inputs)}->{output}")
        return self._called("EinsumProduct", [subscripts, *(self.at(arg, 0) for arg in notation.operands)])


def is_sum(notation: Any) -> bool:
    """Whether a product of matrices is a sum and nothing else."""
    return isinstance(notation, Chain) and len(with_sums(notation)) == 1


def with_sums(chain: Chain) -> list[Any]:
    """The factors of a product of matrices, sums in place of vectors of ones."""
    first, *rest = chain.factors
    if isinstance(first, Row) and is_ones(first.vector):
        kept = rest[:-1] if len(rest) > 1 and is_ones(rest[-1]) else rest
        return [Call("sum", (kept[0] if len(kept) == 1 else Chain(tuple(kept)),))]
    if not is_ones(rest[-1]):
        return [first, *rest]
    *others, matrix = chain.factors[:-1]
    summed, axis = (matrix.matrix, 0) if isinstance(matrix, Transposed) else (matrix, 1)
    return [*others, Call("sum", (summed,), (("axis", axis),))]
