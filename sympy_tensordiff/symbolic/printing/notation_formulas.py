"""Notations as formulas: what LaTeX and two-dimensional forms share, and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from sympy import Derivative, Mul, fraction
from sympy.core.function import AppliedUndef
from sympy.printing.precedence import precedence_traditional

from sympy_tensordiff.functions.table import by_name
from sympy_tensordiff.symbolic.expressions.partial_derivatives import Subs
from sympy_tensordiff.symbolic.printing.notation import (
    Applied,
    Call,
    Chain,
    Choice,
    Connected,
    Constant,
    Einsum,
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
    in_front,
    index_names,
    is_filled_with_ones,
    product,
    transposed,
)
from sympy_tensordiff.symbolic.printing.notation_text import ADD, ATOM, CONTRACTED, MUL, POW, SCALED, Writer

MATRIX_FUNCTIONS = {"det": r"\det", "trace": r"\operatorname{tr}"}
"""The names of functions of matrices in LaTeX."""

SIGNS = {">": ">", "<": "<", ">=": r"\geq", "<=": r"\leq", "==": "=", "!=": r"\neq"}
CONNECTIVES = {"and": r" \wedge ", "or": r" \vee ", "not": r"\neg "}


class TraditionalWriter(Writer):
    """The base class of the writers that turn a notation (the tree of a printed form) into a mathematical formula, in
    LaTeX or two-dimensional text. Subclasses define signs and layout; results are strings or SymPy's `prettyForm`.
    """

    levels = MappingProxyType(
        {Choice: 0, Sum: ADD, Chain: MUL, Outer: MUL, RowVector: POW, Transposed: POW, Inverse: POW, Power: POW},
    )
    level_of_leaf = staticmethod(precedence_traditional)
    top = "T"
    times: str
    by_entry: str  # the sign of products entry by entry
    power_sign: str  # before the exponent of a power entry by entry
    words: tuple[str, str]  # before the condition of a case, and in its place
    superscript: Callable[..., Any]  # of a base and its exponent
    subscript: Callable[..., Any]  # of a form and the indices below it
    bracketed: Callable[..., Any]  # of a form
    summed: Callable[..., Any]  # of indices and a form
    cases: Callable[..., Any]  # of pairs of forms, a value and where it is taken
    delta: Callable[..., Any]  # of two indices
    entry: Callable[..., Any]  # of a tensor and its indices
    sign_of: Callable[..., str]  # of a sign of Python's
    connective: Callable[..., str]  # of its name

    def replacement(self, notation: Any) -> Any:
        """Return the notation to write in place of ``notation``. A scalar that is added to a matrix becomes a multiple
        of a matrix of ones; for other notations, see `Writer`.
        """
        # In a sum of matrices, a number may be read as a multiple of the unit matrix.
        if isinstance(notation, Repeated) and len(notation.shape) > 1:
            return product(factors=[in_front(notation.scalar), Constant("ones", notation.shape)])
        return super().replacement(notation)

    def level(self, notation: Any) -> int:
        """Return the precedence of the written form of ``notation``, by which parentheses are set."""
        if isinstance(notation, RowVector) and isinstance(notation.vector, Chain):
            return MUL
        if isinstance(notation, Einsum) and (not notation.output or self.has_two_factors(notation)):
            return CONTRACTED
        return super().level(notation)

    def has_two_factors(self, notation: Einsum) -> bool:
        """Return whether the contraction ``notation`` is written as a product of two tensors, with the labels below the
        sign. False unless a subclass overrides this.
        """
        return False

    def write_rowvector(self, notation: RowVector) -> Any:
        """Return the formula of a transposed vector, such as ``x^T``. That of a product has its factors transposed in
        reverse order.
        """
        vector = notation.vector
        if not isinstance(vector, Chain):
            return self.superscript(vector, self.top)
        *matrices, column = vector.factors
        return self.write(Chain((RowVector(column), *map(transposed, matrices[::-1]))))

    def write_outer(self, notation: Outer) -> Any:
        """Return the formula of an outer product, ``x y^T``: a column times a row."""
        return self.write(Chain((notation.column, RowVector(notation.row))))

    def write_transposed(self, notation: Transposed) -> Any:
        """Return the formula of a transposed matrix, ``A^T``; ``A^-T`` for a transposed inverse."""
        matrix = notation.matrix
        is_inverse = isinstance(matrix, Inverse)
        return self.superscript(*(matrix.matrix, f"-{self.top}") if is_inverse else (matrix, self.top))

    def write_inverse(self, notation: Inverse) -> Any:
        """Return the formula of an inverse matrix, ``A^-1``."""
        return self.superscript(notation.matrix, "-1")

    def write_power(self, notation: Power) -> Any:
        """Return the formula of an elementwise power."""
        exponent = self.at(notation.exponent, MUL if self.power_sign else 0)  # the sign would belong to its first term
        return self.superscript(notation.base, self.joined(self.power_sign, exponent))

    def elementwise(self, factors: Sequence[Any], alone: int) -> Any:
        """Return the formula of an elementwise product of tensors. A single factor gets parentheses if its precedence
        is below ``alone``.
        """
        return self.between(self.by_entry, [self.at(factor, POW if len(factors) > 1 else alone) for factor in factors])

    def front(self, scalar: Any) -> Any:
        """Return the formula of ``scalar``, for use as a factor in front of others, in parentheses if needed.

        They are needed if it is a sum of terms, or contains a sum over an index as a factor, since the summation sign
        would seem to cover the following factors, too.
        """
        form = self.printer._print(scalar)
        is_open = any(getattr(factor, "is_binder", False) for factor in Mul.make_args(scalar))
        return self.parenthesized(form) if is_open or scalar.is_Add else form

    def write_relation(self, notation: Relation) -> Any:
        """Return the formula of a comparison such as ``x < y``."""
        return self.joined(self.at(notation.left, 0), f" {self.sign_of(notation.sign)} ", self.at(notation.right, 0))

    def write_connected(self, notation: Connected) -> Any:
        """Return the formula of conditions joined by "and" or "or", or negated by "not"."""
        sign = self.connective(notation.name)
        is_not, parts = notation.name == "not", [self.write(part) for part in notation.conditions]
        parts = [
            self.parenthesized(part) if is_not or isinstance(condition, Connected) else part
            for part, condition in zip(parts, notation.conditions, strict=True)
        ]
        return self.joined(sign, *parts) if is_not else self.between(sign, parts)

    def write_indicator(self, notation: Indicator) -> Any:
        """Return the formula of an indicator, which is its condition in square brackets."""
        return self.bracketed(self.write(notation.condition))

    def write_choice(self, notation: Choice) -> Any:
        """Return the formula of a choice (``where``) as a list of cases."""
        before, otherwise = self.words
        branches = [
            (self.at(value, 0), self.joined(before, self.write(condition))) for value, condition in notation.branches
        ]
        return self.cases([*branches, (self.at(notation.rest, 0), otherwise)])

    def write_einsum(self, notation: Einsum) -> Any:
        """Return the formula of a contraction: a sum of products of entries, in square brackets with the indices of the
        result.
        """
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
    """The writer of LaTeX formulas in the notation of matrix calculus."""

    top = r"\top"
    minus = "- "
    times = " "
    by_entry = r" \odot "
    power_sign = r"\odot "
    words = r"\text{for}\: ", r"\text{otherwise}"
    has_sums = False

    def has_two_factors(self, notation: Einsum) -> bool:
        """Return whether a contraction is a product of two tensors that is written with a star and labels below it: the
        result is a tensor, and neither operand is a constant tensor.
        """
        operands = notation.operands
        return bool(notation.output) and len(operands) == 2 and not any(isinstance(t, Constant) for t in operands)

    def parenthesized(self, form: str) -> str:
        """Return ``form`` in parentheses."""
        return rf"\left({form}\right)"

    def bracketed(self, form: str) -> str:
        """Return ``form`` in square brackets."""
        return rf"\left[{form}\right]"

    def subscript(self, form: str, below: Sequence[str]) -> str:
        """Return ``form`` with the indices ``below`` as its subscript."""
        return f"{form}_{{{' '.join(below)}}}"

    def summed(self, indices: Sequence[str], body: str) -> str:
        """Return the LaTeX of the sum of ``body`` over ``indices``: a sum sign with the indices, then the body."""
        return rf"\sum_{{{', '.join(indices)}}} {body}"

    def cases(self, branches: Sequence[tuple[str, str]]) -> str:
        """Return the LaTeX of a list of cases, each a value and a condition."""
        return " ".join([r"\begin{cases}", r" \\ ".join(map(" & ".join, branches)), r"\end{cases}"])

    def delta(self, left: str, right: str) -> str:
        """Return the LaTeX of the Kronecker delta of the indices ``left`` and ``right``."""
        return rf"\delta_{{{left} {right}}}"

    def sign_of(self, sign: str) -> str:
        """Return the LaTeX of a relation sign of Python."""
        return SIGNS[sign]

    def connective(self, name: str) -> str:
        """Return the LaTeX of the connective ``name``."""
        return CONNECTIVES[name]

    def write_constant(self, constant: Constant) -> str:
        """Return the LaTeX symbol of a constant tensor; with its sizes if it has two or more axes."""
        rank = len(constant.shape)
        if rank == 0:
            return "0" if constant.name == "zeros" else "1"
        if constant.name == "identity" and rank == 1:
            return "I"
        symbol = {"ones": r"\mathbf{1}", "zeros": r"\mathbf{0}", "identity": r"\mathbb{I}"}[constant.name]
        sizes = r" \times ".join(self.printer._print(extent) for extent in constant.shape)
        return symbol if rank == 1 else f"{symbol}_{{{sizes}}}"

    def write_product(self, notation: Product) -> str:
        """Return the LaTeX of an elementwise product: scalars, then tensors, then the quotient by the divisors."""
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
        """Return the LaTeX of the scalar in front of a product. If factors follow (``followed``), a space is added and
        the number 1 is left out.
        """
        sign = "- " if notation.number.is_negative else ""
        scalar = notation._replace(number=abs(notation.number)).scalar
        if not followed:
            return sign + str(self.printer._print(scalar))
        return sign if scalar == 1 else f"{sign}{self.front(scalar)} "

    def quotient(self, notation: Product) -> list[str]:
        """Return a list with the LaTeX of an elementwise product, its factors over its divisors; [] if it has neither
        factors nor divisors.
        """
        factors, divisors = notation.factors, [divisor.tensor for divisor in notation.divisors]
        if not divisors:
            return [self.elementwise(factors, MUL)] if factors else []
        if all(divisor.rank == 1 for divisor in notation.divisors):
            over = self.elementwise(factors, 0) if factors else "1"
            return [rf"\frac{{{over}}}{{{self.elementwise(divisors, 0)}}}"]
        if not factors:
            return [" ".join(rf"{self.at(divisor, ATOM)}^{{\odot -1}}" for divisor in divisors)]
        return [r" \oslash ".join([self.elementwise(factors, POW), *(self.at(divisor, POW) for divisor in divisors)])]

    def write_chain(self, notation: Chain) -> str:
        """Return the LaTeX of a matrix product; names of several letters are set off by thin spaces."""
        text, *rest = (self.at(factor, MUL if n else SCALED) for n, factor in enumerate(notation.factors))
        for factor in rest:
            # Words that touch other letters would be read as one: a thin space is between them.
            is_word = factor.startswith(r"\mathrm{") or re.search(r"\\mathrm\{\w+\}(\^\{[^{}]*\})?$", text)
            text += rf" \, {factor}" if is_word else f" {factor}"
        return str(text)

    def _of_entries(self, tensor: Any, indices: Sequence[str]) -> str | None:
        """Return the LaTeX of the entry at ``indices`` of a sum, a power or a tensor repeated along new axes, in terms
        of entries of the operands: ``(X_{i k} - X_{j k})^{2}``. None for another tensor.
        """
        match tensor:
            case Variant():
                return self.entry(tensor.formula, indices)
            case Einsum():
                ((labels, operand),) = _read_operands(tensor)
                return self.entry(operand, [indices[tensor.output.index(label)] for label in labels])
            case Sum():
                terms = [("-" if is_negative else "+", self.entry(term, indices)) for is_negative, term in tensor.terms]
                return self.parenthesized(" ".join(part for term in terms for part in term).removeprefix("+ "))
            case Power(exponent=Leaf()):
                return f"{self.entry(tensor.base, indices)}^{{{self.at(tensor.exponent, 0)}}}"
        return None

    def superscript(self, base: Any, above: str) -> str:
        """Return ``base`` with the superscript ``above``."""
        form = self.at(base, ATOM)
        form = self.printer.parenthesize_super(form) if isinstance(base, Leaf) else form
        return f"{form}^{{{above}}}"

    def write_call(self, notation: Call) -> str:
        """Return the LaTeX of a function call. A keyword argument, such as an axis, becomes a subscript of the
        function's name.
        """
        first, *rest = args = self.arguments(notation.args)
        record = by_name(notation.name)
        own = MATRIX_FUNCTIONS.get(notation.name) or (record.latex if record else "")
        if "%s" in own:
            return own % ", ".join(args)
        if notation.name == "TensorCofactor":
            return rf"\operatorname{{cof}}_{{{first}}}" + self.parenthesized(", ".join(rest))
        name = own or self.printer._hprint_Function(notation.name)
        below = [str(value).strip("()") for _, value in notation.keywords if value is not None]
        return (rf"{name}_{{{below[0]}}}" if below else name) + self.parenthesized(", ".join(args))

    def write_applied(self, notation: Applied) -> str:
        """Return the LaTeX of an elementwise function without a name in this package. An undefined function is written
        by its name, with primes for derivatives.
        """
        args = self.parenthesized(", ".join(self.arguments(notation.args)))
        body, names = notation.template.expr, notation.template.variables
        body = body.shown() if isinstance(body, Subs) else body
        primes = "'" * len(body.variables) if isinstance(body, Derivative) and len(names) == 1 else ""
        function = body.expr if primes else body
        if isinstance(function, AppliedUndef) and function.args == names:
            return f"{self.printer._hprint_Function(function.func.__name__)}{primes}{args}"
        return f"{self.printer._print(notation.template)}{args}"

    def write_einsum(self, notation: Einsum) -> str:
        """Return the LaTeX of a contraction. A contraction of two tensors may be written as a product with a star and
        labels, see `has_two_factors`.
        """
        if self.has_two_factors(notation):
            left, right = (self.at(operand, POW) for operand in notation.operands)
            return rf"{left} *_{{\left({', '.join(notation.inputs)} \to {notation.output}\right)}} {right}"
        return str(super().write_einsum(notation))

    def entry(self, tensor: Any, indices: Sequence[str]) -> str:
        """Return ``tensor`` with ``indices`` as its subscript, in parentheses if it has a subscript or superscript
        already.
        """
        if _has_repeated(tensor) and (written := self._of_entries(tensor, indices)) is not None:
            return written
        base = self.at(tensor, ATOM)
        # Text above or below a function's arguments does not touch its indices; text at its name does.
        ends = base.partition(r"\left(")[0] if isinstance(tensor, Call) else base
        is_open = isinstance(tensor, Leaf | Constant | Einsum | Call) and base == self.at(tensor, 0)
        if is_open and re.search(r"[_^]", ends):
            base = self.parenthesized(base)
        return self.subscript(base, indices)


def _has_repeated(tensor: Any) -> bool:
    """Return whether `tensor` repeats another one along new axes, or is a sum or power of such a tensor. Its entry at
    ``i, j`` is then printed with fewer indices, as ``x[i]``.
    """
    match tensor:
        case Variant():
            return _has_repeated(tensor.formula)
        case Einsum():
            read = _read_operands(tensor)
            return len(read) == 1 and set(read[0][0]) < set(tensor.output)
        case Sum():
            return any(_has_repeated(term) for _, term in tensor.terms)
        case Power():
            return _has_repeated(tensor.base)
    return False


def _read_operands(tensor: Einsum) -> list[tuple[str, Any]]:
    """Return the operands of a contraction with their labels; tensors of ones are left out."""
    parts = zip(tensor.inputs, tensor.operands, strict=True)
    return [(labels, operand) for labels, operand in parts if not is_filled_with_ones(operand)]
