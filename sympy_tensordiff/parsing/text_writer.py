"""The walk over an expression that makes its text: every node once for each function whose argument it is in.

What the language has no word for is composed of what it has, or refused. Nothing recurses.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sympy import Add, Dummy, Function, KroneckerDelta, Max, Min, Mul, Number, NumberSymbol, Piecewise, Pow, S

from sympy_tensordiff.errors import ArgumentError, UnsupportedError
from sympy_tensordiff.parsing import text_terms as text
from sympy_tensordiff.parsing.axes import OF_MATRICES, RESERVED
from sympy_tensordiff.parsing.numbers import FUNCTIONS
from sympy_tensordiff.parsing.text_terms import Level, Piece
from sympy_tensordiff.symbolic.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.hooks import rewritten
from sympy_tensordiff.symbolic.indices import integers_by_use
from sympy_tensordiff.symbolic.matrix_functions import (
    TensorAdjugate,
    TensorCofactor,
    TensorDeterminant,
    TensorInverse,
    TensorLogSumExp,
)
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.traversal import Recursion, Rewriting, Rules, free_symbols_in, nodes_in

NAME = re.compile("[A-Za-z][A-Za-z0-9]*")
INDEXED = (IndexedSum, TensorComprehension, TensorEntry, KroneckerDelta)


@dataclass(frozen=True, eq=False)
class Scope:
    """What stands in place of the variables of a function, and its operands; told apart by identity."""

    variables: Mapping[Any, Piece]
    operands: Mapping[Any, Any]


class Writer(Rewriting):
    """One walk over one expression."""

    def __init__(self, expr: Any, declared: Iterable[Any] = ()) -> None:
        super().__init__()
        if any(isinstance(node, INDEXED) and text.scalar_of(node) is None for node in nodes_in([expr])):
            expr = rewritten(expr, EinsumProduct)
        self.expr = expr
        nodes = nodes_in([expr])
        for node in nodes:
            if isinstance(node, TensorSymbol) and node.dtype is int:
                raise UnsupportedError(f"to_text: {node} is a tensor of integers, which the text language has not")
        self.integers = integers_by_use([expr, *declared])
        self.names: dict[str, Any] = {}
        self.extents: dict[Any, None] = {}  # of repeated numbers and deltas

    def text(self) -> Piece:
        """The text of the whole."""
        return self.run(self.expr, Scope({}, {}))  # type: ignore[no-any-return]

    # -------------------------------------------------------------- leaves

    def rebuilt(self, expr: Any, scope: Scope) -> Piece:
        """What no rule is for."""
        raise text.refused(
            expr, f"there is no {type(expr).__name__} in it", "write it with sums, products and functions"
        )

    def number_rule(self, expr: Any, scope: Scope) -> Piece:
        """A number."""
        if not (expr.is_Rational or expr.is_Float):
            raise text.refused(expr, "it is no finite real number", "tensors are real")
        return text.number(expr)

    def constant(self, expr: Any, scope: Scope) -> Piece:
        """A number with a name."""
        if expr not in text.CONSTANTS:
            raise text.refused(
                expr, "the language has rational numbers, and what functions make of them", "write a number"
            )
        return text.piece((text.CONSTANTS[expr],), Level.ATOM)

    def symbol(self, expr: Any, scope: Scope) -> Piece:
        """A variable of a function, or a scalar by its name."""
        return scope.variables.get(expr) or self.name(expr, scope)

    def name(self, expr: Any, scope: Scope) -> Piece:
        """A tensor or a scalar by its name."""
        if expr.is_integer or expr in self.integers:
            raise text.refused(
                expr,
                "it is an integer, a size or an index, and these are no numbers of the language",
                "multiply by it later",
            )
        if not NAME.fullmatch(expr.name) or expr.name in RESERVED or keyword.iskeyword(expr.name):
            raise ArgumentError(
                f"to_text: {expr.name!r} is no name of the text language: names are letters and digits, beginning with "
                "a letter, and no words of the language or of Python; rename the tensor"
            )
        other = self.names.setdefault(expr.name, expr)
        if other != expr:
            raise ArgumentError(
                f"to_text: {expr.name} names two things, of the shapes {getattr(other, 'shape', ())} and "
                f"{getattr(expr, 'shape', ())}, so that the text could not tell them apart; rename one of them"
            )
        rank = len(getattr(expr, "shape", ()))
        text.axis_letters(rank)
        return text.piece((expr.name,), Level.ATOM, rank)

    def delta(self, expr: DeltaTensor, scope: Scope) -> Piece:
        """The unit tensor."""
        text.axis_letters(expr.rank)
        self.extents.update(dict.fromkeys(expr.shape))
        return text.piece((f"delta({expr.rank // 2})",), Level.ATOM, expr.rank)

    def filled(self, expr: FilledTensor, scope: Scope) -> Recursion[Any]:
        """A number that is repeated along axes."""
        self.extents.update(dict.fromkeys(expr.shape))
        return text.repeated((yield self.visit(expr.value, scope)), expr.rank)

    # -------------------------------------------------------------- operations entry by entry

    def sum(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """A sum: what is added first, then what is subtracted; numbers last."""
        terms: list[tuple[bool, Piece]] = []
        # Two numbers at the beginning would be read as one.
        numbers = sum(bool(term.is_Number) for term in expr.args) > 1
        for term in sorted(
            expr.args, key=lambda term: (numbers and term.is_Number, text.is_subtracted(term), term.is_Number)
        ):
            if text.is_subtracted(term) and terms:
                coefficient, factors = text.split(term)
                terms.append((True, (yield from self.product_of(-coefficient, factors, scope))))
            else:
                terms.append((False, (yield self.visit(term, scope))))
        return text.total(terms)

    def product(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """A product entry by entry."""
        return (yield from self.product_of(*text.split(expr), scope))

    def product_of(self, coefficient: Any, factors: Sequence[Any], scope: Scope) -> Recursion[Any]:
        """A number times what stands above and below a fraction line."""
        above: list[Piece] = []
        below: list[Piece] = []
        for factor in factors:
            divisor = yield from self.divisor(factor, scope)
            if divisor is None:
                above.append((yield self.visit(factor, scope)))
            else:
                below.append(divisor)
        numerator, denominator = text.fraction(coefficient) if factors else (coefficient, S.One)
        if numerator == -1:  # a tensor takes the sign, as the sign of a scalar becomes a part of it
            above.sort(key=lambda part: not part.rank)
        is_scalar = not any(part.rank for part in (*above, *below))
        if numerator == -1 and above and (above[0].rank or (is_scalar and above[0].level > Level.SUM)):
            # The signs of functions that the language does not have are not those of an input that is read back.
            above[0] = text.flipped(above[0]) if scope.variables else text.negated(above[0])
        elif numerator != 1 or not above:
            above.insert(0, text.number(numerator))
        if denominator != 1:
            below.append(text.number(denominator))
        return text.quotient(above, below)

    def divisor(self, factor: Any, scope: Scope) -> Recursion[Piece | None]:
        """What a factor divides by; None where it does not divide."""
        if not isinstance(factor, (Pow, TensorPow)) or factor.args[0].is_Number:
            return None
        coefficient, factors = text.split(factor.args[1])
        if coefficient >= 0 or (isinstance(factor, TensorPow) and factor.args[1] != -1):
            return None
        base: Piece = yield self.visit(factor.args[0], scope)
        if coefficient == -1 and not factors:
            return base
        exponent = yield from self.product_of(-coefficient, factors, scope)
        return self.powered(factor, base, exponent)

    def power(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """A power, or a quotient."""
        divisor = yield from self.divisor(expr, scope)
        if divisor is not None:
            return text.quotient([text.number(S.One)], [divisor])
        base, exponent = yield from self.all(expr.args, scope)
        return self.powered(expr, base, exponent)

    def powered(self, expr: Any, base: Piece, exponent: Piece) -> Piece:
        if exponent.rank:
            raise text.refused(
                expr, "an exponent of the language has order 0", "write td.exp(B*td.log(A)) where A is positive"
            )
        return text.raised(base, exponent)

    def entrywise(self, expr: TensorFunction, scope: Scope) -> Recursion[Any]:
        """A function of real numbers, of tensors entry by entry."""
        operands = yield from self.all(expr.operands, scope)
        variables = expr.template.variables
        numbers = {hole: value for hole, value in zip(variables, expr.operands, strict=True) if value.is_Number}
        inside = Scope(dict(zip(variables, operands, strict=True)), dict(zip(variables, expr.operands, strict=True)))
        result: Piece = yield self.visit(expr.template.expr.xreplace(numbers), inside)
        if result.rank:
            return result
        self.extents.update(dict.fromkeys(expr.shape))
        return text.repeated(result, expr.rank)

    def function(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """A function that the language has, or that it can compose."""
        if expr.func in text.NAMES:
            return text.called(text.NAMES[expr.func], (yield self.visit(expr.args[0], scope)))
        if expr.func not in text.COMPOSED:
            raise text.refused(
                expr,
                f"it has no function {expr.func}",
                f"its functions are {', '.join((*FUNCTIONS, *OF_MATRICES))}, and what they compose",
            )
        argument = Dummy(real=True)
        inside = Scope({argument: (yield self.visit(expr.args[0], scope))}, {})
        return (yield self.visit(text.COMPOSED[expr.func](argument), inside))

    def extremum(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """The larger or the smaller one of a number and something else."""
        if isinstance(expr, Max) and S.Zero in expr.args and len(expr.args) == 2:
            (argument,) = (arg for arg in expr.args if arg is not S.Zero)
            return text.called("relu", (yield self.visit(argument, scope)))
        found = text.by_relu(expr)
        if found is None:
            raise text.refused(
                expr,
                "it compares with one number only, by relu",
                "write b + td.relu(a - b) for the larger one of a and b",
            )
        return (yield self.visit(found, scope))

    def steps(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """One of two values by a comparison."""
        values = [case.expr for case in expr.args]
        needed = [scope.operands[symbol] for symbol in free_symbols_in(values) if symbol in scope.operands]
        found = text.by_base(expr)
        if found is None:
            found = text.by_sign(expr)
            needed += [value for value in values if not value.is_number]
        if found is None:
            raise text.refused(expr, "it has no cases but the sign of something", "write it with td.sign and td.relu")
        if not text.is_total(needed):
            raise text.refused(
                expr,
                "a value that is not chosen is multiplied by 0, and this one is not defined everywhere",
                "choose the argument of the function in place of its value",
            )
        return (yield self.visit(found, scope))

    # -------------------------------------------------------------- operations on whole tensors

    def contraction(self, expr: EinsumProduct, scope: Scope) -> Recursion[Any]:
        """An einsum product."""
        inputs, output = text.in_lower_case(expr)
        factors = []
        for operand, letters in zip(expr.operands, inputs, strict=True):
            is_repeated = isinstance(operand, FilledTensor) and operand.rank
            value = (yield self.visit(operand.value, scope)) if is_repeated else None
            factors.append(((yield self.visit(operand, scope)), letters, value))
        return text.contracted(factors, output)

    def matrix(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """The inverse, the determinant or the adjugate."""
        matrix = yield self.visit(expr.matrix, scope)
        return text.called({TensorInverse: "inv", TensorDeterminant: "det"}.get(type(expr), "adj"), matrix, expr.rank)

    def cofactor(self, expr: TensorCofactor, scope: Scope) -> Recursion[Any]:
        """The determinant, or its derivative."""
        if expr.order > 1:
            raise text.refused(
                expr,
                "it has no derivatives of adj",
                "write the adjugate of an invertible matrix as det(X) *(,ij->ij) inv(X) before the derivative",
            )
        matrix = yield self.visit(expr.matrix, scope)
        if expr.order == 0:
            return text.called("det", matrix, 0)
        return text.relabelled(text.called("adj", matrix), "ij", "ji")

    def log_sum_exp(self, expr: TensorLogSumExp, scope: Scope) -> Recursion[Any]:
        """The logarithm of a sum of exponentials."""
        tensor = yield self.visit(expr.tensor, scope)
        letters = text.axis_letters(tensor.rank)
        kept = "".join(letter for axis, letter in enumerate(letters) if axis not in expr.axes)
        return text.called("log", text.relabelled(text.called("exp", tensor), letters, kept))

    def indexed(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """A scalar that an entry holds; all else is no operation on whole tensors."""
        scalar = text.scalar_of(expr)
        if scalar is not None:
            return (yield self.visit(scalar, scope))
        raise text.refused(
            expr,
            "it reads single entries or a part of an axis, and the language has whole tensors only",
            "what td.EinsumProduct says can be written: see expr.rewrite(td.EinsumProduct)",
        )

    rules: ClassVar[Rules] = {
        **dict.fromkeys((Number, type(S.ImaginaryUnit), type(S.ComplexInfinity)), number_rule),
        **{NumberSymbol: constant, TensorSymbol: name},
        **{DeltaTensor: delta, FilledTensor: filled},
        **{Add: sum, TensorAdd: sum, Mul: product, TensorMul: product, Pow: power, TensorPow: power},
        **{TensorFunction: entrywise, Function: function, Max: extremum, Min: extremum, Piecewise: steps},
        **{EinsumProduct: contraction, TensorInverse: matrix, TensorDeterminant: matrix, TensorAdjugate: matrix},
        **{TensorCofactor: cofactor, TensorLogSumExp: log_sum_exp},
        **dict.fromkeys(INDEXED, indexed),
    }
