"""Notations in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from sympy import Derivative, Mul, fraction
from sympy.core.function import AppliedUndef
from sympy.printing.precedence import precedence_traditional

from sympy_tensordiff.symbolic.notation import (
    Applied,
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
    in_front,
    index_names,
    is_filled_with_ones,
    product,
    transposed,
)
from sympy_tensordiff.symbolic.notation_text import ADD, ATOM, CONTRACTED, MUL, POW, SCALED, Writer
from sympy_tensordiff.symbolic.partial_derivatives import Subs

# Functions with a notation of their own; the others are names in roman.
SPECIAL = {
    "abs": r"\left|{%s}\right|",
    "floor": r"\left\lfloor{%s}\right\rfloor",
    "ceiling": r"\left\lceil{%s}\right\rceil",
    "sqrt": r"\sqrt{%s}",
    "sigmoid": r"\sigma\left(%s\right)",
    "exp": r"\exp\left(%s\right)",
    "det": r"\det\left(%s\right)",
    "trace": r"\operatorname{tr}\left(%s\right)",
    "maximum": r"\max\left(%s\right)",
    "minimum": r"\min\left(%s\right)",
}

RELATIONS = {">": ">", "<": "<", ">=": r"\geq", "<=": r"\leq"}


class TraditionalWriter(Writer):
    """How tightly formulas bind; base of those in LaTeX and of pictures."""

    levels = MappingProxyType(
        {Choice: 0, Sum: ADD, Chain: MUL, Outer: MUL, Row: POW, Transposed: POW, Inverse: POW, Power: POW},
    )
    top = "T"

    def level(self, notation: Any) -> int:
        if isinstance(notation, Row) and isinstance(notation.vector, Chain):
            return MUL
        if isinstance(notation, Contraction) and (not notation.output or self.has_two_factors(notation)):
            return CONTRACTED
        return super().level(notation)

    def repeated_scalar(self, notation: Repeated) -> Any:
        # In a sum of matrices, a number may be read as a multiple of the unit matrix.
        if len(notation.shape) < 2:
            return notation.scalar
        return product(factors=[in_front(notation.scalar), Constant("ones", notation.shape)])

    def has_two_factors(self, notation: Contraction) -> bool:
        """Whether a contraction is written as a product of two tensors with their labels."""
        return False

    def level_of_leaf(self, node: Any) -> int:
        return int(precedence_traditional(node))

    def superscript(self, base: Any, above: Any) -> Any:
        """The base with what stands above it on the right."""
        raise NotImplementedError

    def row(self, notation: Row) -> Any:
        vector = notation.vector
        if not isinstance(vector, Chain):
            return self.superscript(vector, self.top)
        *matrices, column = vector.factors
        return self.write(Chain((Row(column), *map(transposed, matrices[::-1]))))

    def outer(self, notation: Outer) -> Any:
        return self.write(Chain((notation.column, Row(notation.row))))

    def transposed(self, notation: Transposed) -> Any:
        matrix = notation.matrix
        is_inverse = isinstance(matrix, Inverse)
        return self.superscript(*(matrix.matrix, f"-{self.top}") if is_inverse else (matrix, self.top))

    def inverse(self, notation: Inverse) -> Any:
        return self.superscript(notation.matrix, "-1")

    def in_entries(self, notation: Contraction) -> tuple[list[Any], list[str], list[str]]:
        """The entries whose product is summed, the indices of the sum, and those of the result."""
        names = index_names(notation)
        entries = [
            self.entry(operand, [names[label] for label in labels])
            for labels, operand in zip(notation.inputs, notation.operands, strict=True)
            if not is_filled_with_ones(operand)
        ]
        summed = [name for label, name in names.items() if label not in notation.output]
        return entries, summed, [names[label] for label in notation.output]

    def entry(self, tensor: Any, indices: Sequence[str]) -> Any:
        """One entry of an operand."""
        raise NotImplementedError


class LatexWriter(TraditionalWriter):
    """LaTeX; the text of tensors as a matrix calculus writes it."""

    top = r"\top"

    def has_two_factors(self, notation: Contraction) -> bool:
        operands = notation.operands
        return bool(notation.output) and len(operands) == 2 and not any(isinstance(t, Constant) for t in operands)

    def parenthesized(self, form: str) -> str:
        return rf"\left({form}\right)"

    def leaf(self, leaf: Leaf) -> str:
        return str(self.printer._print(leaf.node))

    def constant(self, constant: Constant) -> str:
        rank = len(constant.shape)
        if rank == 0:
            return "0" if constant.name == "zeros" else "1"
        if constant.name == "identity" and rank == 1:
            return "I"
        symbol = {"ones": r"\mathbf{1}", "zeros": r"\mathbf{0}", "identity": r"\mathbb{I}"}[constant.name]
        sizes = r" \times ".join(self.printer._print(extent) for extent in constant.shape)
        return symbol if rank == 1 else f"{symbol}_{{{sizes}}}"

    def sum(self, notation: Sum) -> str:
        return self.signed(notation).removeprefix("+ ")

    def product(self, notation: Product) -> str:
        items = notation.inner + notation.factors
        text = self.scalar(notation, followed=bool(items or notation.divisors))
        if len(items) == 1 and not notation.divisors:
            over, under = fraction(notation.scalar)
            if over in (1, -1) and any(getattr(symbol, "is_tensor_expr", False) for symbol in under.free_symbols):
                sign = "- " if notation.number.is_negative else ""
                return rf"{sign}\frac{{{self.at(items[0], 0)}}}{{{self.printer._print(under)}}}"
            return f"{text}{self.at(items[0], CONTRACTED)}"
        return text + " ".join([*(self.at(item, POW) for item in notation.inner), *self.quotient(notation)])

    def scalar(self, notation: Product, followed: bool) -> str:
        """The scalars in front, with a blank behind; nothing for 1."""
        sign = "- " if notation.number.is_negative else ""
        scalar = notation._replace(number=abs(notation.number)).scalar
        text = str(self.printer._print(scalar))
        if not followed:
            return sign + text
        if scalar == 1:
            return sign
        # Sums that are not the last factor need parentheses, as their body would go on.
        is_open = any(getattr(factor, "is_binder", False) for factor in Mul.make_args(scalar))
        return f"{sign}{self.parenthesized(text) if is_open or scalar.is_Add else text} "

    def quotient(self, notation: Product) -> list[str]:
        """The element-wise product of the factors, over that of the divisors; none for 1."""
        factors, divisors = notation.factors, [divisor.tensor for divisor in notation.divisors]
        if not divisors:
            return [self.joined(factors)] if factors else []
        if all(divisor.rank == 1 for divisor in notation.divisors):
            over = self.joined(factors, alone=0) if factors else "1"
            return [rf"\frac{{{over}}}{{{self.joined(divisors, alone=0)}}}"]
        if not factors:
            return [" ".join(rf"{self.at(divisor, ATOM)}^{{\odot -1}}" for divisor in divisors)]
        return [r" \oslash ".join([self.joined(factors, alone=POW), *(self.at(divisor, POW) for divisor in divisors)])]

    def joined(self, factors: Sequence[Any], alone: int = MUL) -> str:
        """Factors of an element-wise product; ``alone`` says how tightly a single one has to bind."""
        return r" \odot ".join(self.at(factor, POW if len(factors) > 1 else alone) for factor in factors)

    def chain(self, notation: Chain) -> str:
        text, *rest = (self.at(factor, MUL if n else SCALED) for n, factor in enumerate(notation.factors))
        for factor in rest:
            # Words that touch other letters would be read as one: a thin space is between them.
            is_word = factor.startswith(r"\mathrm{") or re.search(r"\\mathrm\{\w+\}(\^\{[^{}]*\})?$", text)
            text += rf" \, {factor}" if is_word else f" {factor}"
        return str(text)

    def diagonal(self, notation: Diagonal) -> str:
        return rf"\operatorname{{diag}}\left({self.at(notation.vector, 0)}\right)"

    def power(self, notation: Power) -> str:
        return self.superscript(notation.base, rf"\odot {self.at(notation.exponent, 0)}")

    def superscript(self, base: Any, above: str) -> str:
        form = self.at(base, ATOM)
        form = self.printer.parenthesize_super(form) if isinstance(base, Leaf) else form
        return f"{form}^{{{above}}}"

    def call(self, notation: Call) -> str:
        args = ", ".join(self.at(arg, 0) for arg in notation.args)
        if notation.name in SPECIAL:
            return SPECIAL[notation.name] % args
        if notation.name == "TensorCofactor":
            return rf"\operatorname{{cof}}_{{{self.at(notation.args[0], 0)}}}" + self.parenthesized(
                args[args.index(", ") + 2 :]
            )
        name = self.printer._hprint_Function(notation.name)
        below = [str(value).strip("()") for _, value in notation.keywords if value is not None]
        return (rf"{name}_{{{below[0]}}}" if below else name) + self.parenthesized(args)

    def applied(self, notation: Applied) -> str:
        args = self.parenthesized(", ".join(self.at(arg, 0) for arg in notation.args))
        body, names = notation.template.expr, notation.template.variables
        body = body.shown() if isinstance(body, Subs) else body
        primes = "'" * len(body.variables) if isinstance(body, Derivative) and len(names) == 1 else ""
        function = body.expr if primes else body
        if isinstance(function, AppliedUndef) and function.args == names:
            return f"{self.printer._hprint_Function(function.func.__name__)}{primes}{args}"
        return f"{self.printer._print(notation.template)}{args}"

    def indicator(self, notation: Indicator) -> str:
        left, right = (self.at(side, 0) for side in notation.sides)
        return rf"\left[{left} {RELATIONS[notation.sign]} {right}\right]"

    def choice(self, notation: Choice) -> str:
        lines = []
        for value, *relation in notation.branches:
            where = r"\text{otherwise}"
            if relation:
                left, sign, right = relation
                where = rf"\text{{for}}\: {self.at(left, 0)} {RELATIONS[sign]} {self.at(right, 0)}"
            lines.append(f"{self.at(value, 0)} & {where}")
        return " ".join([r"\begin{cases}", r" \\ ".join(lines), r"\end{cases}"])

    def contraction(self, notation: Contraction) -> str:
        if self.has_two_factors(notation):
            left, right = (self.at(operand, POW) for operand in notation.operands)
            return rf"{left} *_{{\left({', '.join(notation.inputs)} \to {notation.output}\right)}} {right}"
        entries, summed, kept = self.in_entries(notation)
        sign = rf"\sum_{{{', '.join(summed)}}} " if summed else ""
        body = sign + (" ".join(entries) or "1")
        if not notation.output:
            return body
        return rf"\left[{body}\right]_{{{' '.join(kept)}}}"

    def entry(self, tensor: Any, indices: Sequence[str]) -> str:
        if isinstance(tensor, Constant) and tensor.name == "identity":
            half = len(tensor.shape)
            pairs = zip(indices[:half], indices[half:], strict=True)
            return " ".join(rf"\delta_{{{left} {right}}}" for left, right in pairs)
        base = self.at(tensor, ATOM)
        # What is above or below a function's arguments does not touch its indices; what is at its name does.
        ends = base.partition(r"\left(")[0] if isinstance(tensor, Call) else base
        is_open = isinstance(tensor, Leaf | Constant | Contraction | Call) and base == self.at(tensor, 0)
        if is_open and re.search(r"[_^]", ends):
            base = self.parenthesized(base)
        return f"{base}_{{{' '.join(indices)}}}"
