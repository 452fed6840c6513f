"""Notations as formulas: in LaTeX, and as two-dimensional pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from sympy import Derivative, Mul, fraction
from sympy.core.function import AppliedUndef
from sympy.printing.precedence import precedence_traditional
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from sympy_tensordiff.symbolic.notation import (
    Applied,
    Call,
    Chain,
    Choice,
    Connected,
    Constant,
    Contraction,
    Indicator,
    Inverse,
    Leaf,
    Outer,
    Power,
    Product,
    Relation,
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
from sympy_tensordiff.symbolic.notation_text import ADD, ATOM, CONTRACTED, MUL, POW, SCALED, Writer, with_sums
from sympy_tensordiff.symbolic.partial_derivatives import Subs

# Functions with a notation of their own; the others are names in roman.
LATEX_NAMES = {
    **{name: rf"\operatorname{{{name}}}" for name in ("expm1", "log1p", "log1mexp")},
    "log_ndtr": r"\log\Phi",
}
"""Names that SymPy would print with a subscript."""

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

SIGNS = {">": ">", "<": "<", ">=": r"\geq", "<=": r"\leq", "==": "=", "!=": r"\neq"}
CONNECTIVES = {"and": r" \wedge ", "or": r" \vee ", "not": r"\neg "}


class TraditionalWriter(Writer):
    """How tightly formulas bind, and what those in LaTeX and in pictures have in common but for their signs."""

    levels = MappingProxyType(
        {Choice: 0, Sum: ADD, Chain: MUL, Outer: MUL, Row: POW, Transposed: POW, Inverse: POW, Power: POW},
    )
    level_of_leaf = staticmethod(precedence_traditional)
    top = "T"
    times: str
    by_entry: str  # the sign of products entry by entry
    power_sign: str  # before the exponent of a power entry by entry
    words: tuple[str, str]  # before the condition of a case, and in its place
    superscript: Callable[..., Any]  # of a base and what stands above it on the right
    subscript: Callable[..., Any]  # of a form and the indices below it
    bracketed: Callable[..., Any]  # of a form
    summed: Callable[..., Any]  # of indices and a form
    cases: Callable[..., Any]  # of pairs of forms, a value and where it is taken
    delta: Callable[..., Any]  # of two indices
    entry: Callable[..., Any]  # of a tensor and its indices
    sign_of: Callable[..., str]  # of a sign of Python's
    connective: Callable[..., str]  # of its name

    def replacement(self, notation: Any) -> Any:
        # In a sum of matrices, a number may be read as a multiple of the unit matrix.
        if isinstance(notation, Repeated) and len(notation.shape) > 1:
            return product(factors=[in_front(notation.scalar), Constant("ones", notation.shape)])
        return super().replacement(notation)

    def level(self, notation: Any) -> int:
        if isinstance(notation, Row) and isinstance(notation.vector, Chain):
            return MUL
        if isinstance(notation, Contraction) and (not notation.output or self.has_two_factors(notation)):
            return CONTRACTED
        return super().level(notation)

    def has_two_factors(self, notation: Contraction) -> bool:
        """Whether a contraction is written as a product of two tensors with their labels."""
        return False

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

    def power(self, notation: Power) -> Any:
        return self.superscript(notation.base, self.joined(self.power_sign, self.at(notation.exponent, 0)))

    def elementwise(self, factors: Sequence[Any], alone: int) -> Any:
        """Factors of an element-wise product; ``alone`` says how tightly a single one has to bind."""
        return self.between(self.by_entry, [self.at(factor, POW if len(factors) > 1 else alone) for factor in factors])

    def front(self, scalar: Any) -> Any:
        """A scalar that something follows: sums need parentheses, as their body would go on."""
        form = self.printer._print(scalar)
        is_open = any(getattr(factor, "is_binder", False) for factor in Mul.make_args(scalar))
        return self.parenthesized(form) if is_open or scalar.is_Add else form

    def relation(self, notation: Relation) -> Any:
        return self.joined(self.at(notation.left, 0), f" {self.sign_of(notation.sign)} ", self.at(notation.right, 0))

    def connected(self, notation: Connected) -> Any:
        sign = self.connective(notation.name)
        is_not, parts = notation.name == "not", [self.write(part) for part in notation.conditions]
        parts = [
            self.parenthesized(part) if is_not or isinstance(condition, Connected) else part
            for part, condition in zip(parts, notation.conditions, strict=True)
        ]
        return self.joined(sign, *parts) if is_not else self.between(sign, parts)

    def indicator(self, notation: Indicator) -> Any:
        return self.bracketed(self.write(notation.condition))

    def choice(self, notation: Choice) -> Any:
        before, otherwise = self.words
        branches = [
            (self.at(value, 0), self.joined(before, self.write(condition))) for value, condition in notation.branches
        ]
        return self.cases([*branches, (self.at(notation.rest, 0), otherwise)])

    def contraction(self, notation: Contraction) -> Any:
        names = index_names(notation)
        entries: list[Any] = []
        for labels, operand in zip(notation.inputs, notation.operands, strict=True):
            indices = [names[label] for label in labels]
            if isinstance(operand, Constant) and operand.name == "identity":
                half = len(operand.shape)
                entries += map(self.delta, indices[:half], indices[half:])
            elif not is_filled_with_ones(operand):
                entries.append(self.entry(operand, indices))
        body = self.between(self.times, entries or [self.joined("1")])
        summed = [name for label, name in names.items() if label not in notation.output]
        body = self.summed(summed, body) if summed else body
        if not notation.output:
            return body
        return self.subscript(self.bracketed(body), [names[label] for label in notation.output])


class LatexWriter(TraditionalWriter):
    """LaTeX; the text of tensors as a matrix calculus writes it."""

    top = r"\top"
    minus = "- "
    times = " "
    by_entry = r" \odot "
    power_sign = r"\odot "
    words = r"\text{for}\: ", r"\text{otherwise}"
    has_sums = False

    def has_two_factors(self, notation: Contraction) -> bool:
        operands = notation.operands
        return bool(notation.output) and len(operands) == 2 and not any(isinstance(t, Constant) for t in operands)

    def parenthesized(self, form: str) -> str:
        return rf"\left({form}\right)"

    def bracketed(self, form: str) -> str:
        return rf"\left[{form}\right]"

    def subscript(self, form: str, below: Sequence[str]) -> str:
        return f"{form}_{{{' '.join(below)}}}"

    def summed(self, indices: Sequence[str], body: str) -> str:
        return rf"\sum_{{{', '.join(indices)}}} {body}"

    def cases(self, branches: Sequence[tuple[str, str]]) -> str:
        return " ".join([r"\begin{cases}", r" \\ ".join(map(" & ".join, branches)), r"\end{cases}"])

    def delta(self, left: str, right: str) -> str:
        return rf"\delta_{{{left} {right}}}"

    def sign_of(self, sign: str) -> str:
        return SIGNS[sign]

    def connective(self, name: str) -> str:
        return CONNECTIVES[name]

    def constant(self, constant: Constant) -> str:
        rank = len(constant.shape)
        if rank == 0:
            return "0" if constant.name == "zeros" else "1"
        if constant.name == "identity" and rank == 1:
            return "I"
        symbol = {"ones": r"\mathbf{1}", "zeros": r"\mathbf{0}", "identity": r"\mathbb{I}"}[constant.name]
        sizes = r" \times ".join(self.printer._print(extent) for extent in constant.shape)
        return symbol if rank == 1 else f"{symbol}_{{{sizes}}}"

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
        if not followed:
            return sign + str(self.printer._print(scalar))
        return sign if scalar == 1 else f"{sign}{self.front(scalar)} "

    def quotient(self, notation: Product) -> list[str]:
        """The element-wise product of the factors, over that of the divisors; none for 1."""
        factors, divisors = notation.factors, [divisor.tensor for divisor in notation.divisors]
        if not divisors:
            return [self.elementwise(factors, MUL)] if factors else []
        if all(divisor.rank == 1 for divisor in notation.divisors):
            over = self.elementwise(factors, 0) if factors else "1"
            return [rf"\frac{{{over}}}{{{self.elementwise(divisors, 0)}}}"]
        if not factors:
            return [" ".join(rf"{self.at(divisor, ATOM)}^{{\odot -1}}" for divisor in divisors)]
        return [r" \oslash ".join([self.elementwise(factors, POW), *(self.at(divisor, POW) for divisor in divisors)])]

    def chain(self, notation: Chain) -> str:
        text, *rest = (self.at(factor, MUL if n else SCALED) for n, factor in enumerate(notation.factors))
        for factor in rest:
            # Words that touch other letters would be read as one: a thin space is between them.
            is_word = factor.startswith(r"\mathrm{") or re.search(r"\\mathrm\{\w+\}(\^\{[^{}]*\})?$", text)
            text += rf" \, {factor}" if is_word else f" {factor}"
        return str(text)

    def superscript(self, base: Any, above: str) -> str:
        form = self.at(base, ATOM)
        form = self.printer.parenthesize_super(form) if isinstance(base, Leaf) else form
        return f"{form}^{{{above}}}"

    def call(self, notation: Call) -> str:
        first, *rest = args = self.arguments(notation.args)
        if notation.name in SPECIAL:
            return SPECIAL[notation.name] % ", ".join(args)
        if notation.name == "TensorCofactor":
            return rf"\operatorname{{cof}}_{{{first}}}" + self.parenthesized(", ".join(rest))
        name = LATEX_NAMES.get(notation.name) or self.printer._hprint_Function(notation.name)
        below = [str(value).strip("()") for _, value in notation.keywords if value is not None]
        return (rf"{name}_{{{below[0]}}}" if below else name) + self.parenthesized(", ".join(args))

    def applied(self, notation: Applied) -> str:
        args = self.parenthesized(", ".join(self.arguments(notation.args)))
        body, names = notation.template.expr, notation.template.variables
        body = body.shown() if isinstance(body, Subs) else body
        primes = "'" * len(body.variables) if isinstance(body, Derivative) and len(names) == 1 else ""
        function = body.expr if primes else body
        if isinstance(function, AppliedUndef) and function.args == names:
            return f"{self.printer._hprint_Function(function.func.__name__)}{primes}{args}"
        return f"{self.printer._print(notation.template)}{args}"

    def contraction(self, notation: Contraction) -> str:
        if self.has_two_factors(notation):
            left, right = (self.at(operand, POW) for operand in notation.operands)
            return rf"{left} *_{{\left({', '.join(notation.inputs)} \to {notation.output}\right)}} {right}"
        return str(super().contraction(notation))

    def entry(self, tensor: Any, indices: Sequence[str]) -> str:
        base = self.at(tensor, ATOM)
        # What is above or below a function's arguments does not touch its indices; what is at its name does.
        ends = base.partition(r"\left(")[0] if isinstance(tensor, Call) else base
        is_open = isinstance(tensor, Leaf | Constant | Contraction | Call) and base == self.at(tensor, 0)
        if is_open and re.search(r"[_^]", ends):
            base = self.parenthesized(base)
        return self.subscript(base, indices)


Form = Any


class PrettyWriter(TraditionalWriter):
    """Pictures; in Unicode or ASCII as the printer says."""

    words = "for ", "otherwise"

    def __init__(self, printer: Any) -> None:
        super().__init__(printer)
        self.is_unicode = bool(printer._use_unicode)
        signs = ("⋅", "⊙", "⊙", "∑", "δ") if self.is_unicode else ("*", ".*", ".", "Sum", "delta")
        self.times, self.by_entry, self.power_sign, self.sigma, self.unit = signs

    def parenthesized(self, form: Form) -> Form:
        return prettyForm(*form.parens())

    def bracketed(self, form: Form) -> Form:
        return prettyForm(*form.parens("[", "]"))

    def joined(self, *parts: Any) -> Form:
        return prettyForm(*stringPict.next(*parts))

    def constant(self, constant: Constant) -> Form:
        name = {"ones": "1", "zeros": "0", "identity": "I"}[constant.name]
        if self.is_unicode and (constant.name != "identity" or len(constant.shape) > 1):
            name = {"1": "𝟙", "0": "𝟘", "I": "𝕀"}[name]
        return prettyForm(name)

    def product(self, notation: Product) -> Form:
        over, under = fraction(abs(notation.number) * Mul(*notation.scalars))
        inner = [self.at(item, POW) for item in notation.inner]
        divisors = [divisor.tensor for divisor in notation.divisors]
        front = [] if over == 1 else [self.front(over)]
        if notation.factors:
            inner.append(self.elementwise(notation.factors, CONTRACTED if front or inner else 0))
        below = [] if under == 1 else [self.front(under)]
        below += [self.elementwise(divisors, MUL if below else 0)] if divisors else []
        form = self.between(self.times, [*front, *inner] or [prettyForm("1")])
        if below:
            form = prettyForm(*stringPict.stack(form, stringPict.LINE, self.between(self.times, below)))
        return self.joined("-", form) if notation.number.is_negative else form

    def chain(self, notation: Chain) -> Form:
        first, *rest = with_sums(notation)
        return self.between(self.times, [self.at(first, SCALED if rest else 0), *(self.at(part, MUL) for part in rest)])

    def superscript(self, base: Any, above: Any) -> Form:
        form = self.at(base, ATOM)
        exponent = stringPict(above) if isinstance(above, str) else above
        top = stringPict(*exponent.left(" " * form.width()))
        return prettyForm(*stringPict(*form.right(" " * exponent.width())).above(top))

    def subscript(self, form: Form, below: Sequence[str]) -> Form:
        indices = stringPict(", ".join(below))
        indices.baseline = form.baseline - form.height()
        return prettyForm(*form.right(indices))

    def named(self, name: str, args: Sequence[Any], keywords: Sequence[tuple[str, Any]] = ()) -> Form:
        if name == "abs":
            return prettyForm(*args[0].parens("|", "|"))
        return super().named(name, args, [(key, value) for key, value in keywords if value is not None])

    def applied(self, notation: Applied) -> Form:
        function = self.parenthesized(self.printer._print(notation.template))
        return self.joined(function, self.parenthesized(self.between(", ", self.arguments(notation.args))))

    def sign_of(self, sign: str) -> str:
        return {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}.get(sign, sign) if self.is_unicode else sign

    def connective(self, name: str) -> str:
        if not self.is_unicode:
            return {"and": " and ", "or": " or ", "not": "not "}[name]
        return {"and": " ∧ ", "or": " ∨ ", "not": "¬"}[name]

    def cases(self, branches: Sequence[tuple[Any, Any]]) -> Form:
        widest = max(value.width() for value, _ in branches)
        lines = [self.joined(value, " " * (widest - value.width() + 2), where) for value, where in branches]
        width = max(line.width() for line in lines)
        rows = [prettyForm(*line.right(" " * (width - line.width()))) for line in lines]
        return prettyForm(*prettyForm(*stringPict.stack(*rows)).parens("{", ""))

    def summed(self, indices: Sequence[str], body: Form) -> Form:
        sign = prettyForm(*stringPict(self.sigma).below(", ".join(indices)))
        sign.baseline = 0
        return self.joined(sign, " ", body)

    def delta(self, left: str, right: str) -> Form:
        return prettyForm(f"{self.unit}[{left}, {right}]")

    def entry(self, tensor: Any, indices: Sequence[str]) -> Form:
        return self.joined(self.at(tensor, ATOM), f"[{', '.join(indices)}]")
