"""Writer of expressions in the text language of Lippmann's thesis; a node is written once per function around it.

Nothing recurses. The writer works on expressions,
not on the tree of notation as the printers do: that is made for readers, and 16 of 100 expressions have the same tree
as another one, while this text is read back as the same expression.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sympy import Add, Function, KroneckerDelta, Max, Min, Mul, Number, NumberSymbol, Piecewise, Pow, S

from sympy_tensordiff.errors import ArgumentError, UnsupportedError
from sympy_tensordiff.functions.table import CONNECTIVES, RELATIONS
from sympy_tensordiff.parsing import text_terms as text
from sympy_tensordiff.parsing.axes import MATRIX_FUNCTIONS, RESERVED
from sympy_tensordiff.parsing.numbers import FUNCTIONS
from sympy_tensordiff.parsing.text_terms import Level, Piece
from sympy_tensordiff.symbolic.expressions.hooks import rewritten
from sympy_tensordiff.symbolic.expressions.integer_symbols import integers_by_use
from sympy_tensordiff.symbolic.expressions.traversal import Recursion, Rewriting, Rules, nodes_in
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import (
    TensorAdjugate,
    TensorCofactor,
    TensorDeterminant,
    TensorInverse,
    TensorLogSumExp,
)

NAME = re.compile("[A-Za-z][A-Za-z0-9]*")
RELATION_NAMES = {relation: name for name, relation in RELATIONS.items()}
CONNECTIVE_NAMES = {connective: name for name, connective in CONNECTIVES.items()}
INDEXED = (IndexedSum, TensorComprehension, TensorEntry, KroneckerDelta)


@dataclass(frozen=True, eq=False)
class FunctionOperands:
    """The texts of the operands of the element-wise function that is being written, by the variables of its formula."""

    variables: Mapping[Any, Piece]


class ThesisWriter(Rewriting):
    """Writes one expression in the text language of Lippmann's thesis. All symbols in the shapes of the tensors
    ``declared``, and of those in the expression, count as sizes.
    """

    def __init__(self, expr: Any, declared: Iterable[Any] = ()) -> None:
        super().__init__()
        if any(isinstance(node, INDEXED) and text.scalar_of(node) is None for node in nodes_in([expr])):
            expr = rewritten(expr, EinsumProduct)
        self.expr = expr
        nodes = nodes_in([expr])
        for node in nodes:
            if isinstance(node, TensorSymbol) and node.dtype is int:
                raise UnsupportedError(f"to_text: {node} is a tensor of integers, which the text language lacks")
        self.integers = integers_by_use([expr, *declared])
        self.names: dict[str, Any] = {}
        self.extents: dict[Any, None] = {}  # of repeated numbers and deltas

    def write(self) -> Piece:
        """Return the text (a `Piece`) of the whole expression."""
        return self.run(self.expr, FunctionOperands({}))  # type: ignore[no-any-return]

    # -------------------------------------------------------------- leaves

    def rebuilt(self, expr: Any, function_operands: FunctionOperands) -> Piece:
        """Raise `UnsupportedError`: a node without a rule cannot be written in the text language."""
        raise text.unsupported(
            expr, f"there is no {type(expr).__name__} in it", "write it with sums, products and functions"
        )

    def visit_number(self, expr: Any, function_operands: FunctionOperands) -> Piece:
        """Return the text of a real number."""
        if not (expr.is_Rational or expr.is_Float):
            raise text.unsupported(expr, "it is not a finite real number", "tensors are real")
        return text.number_piece(expr)

    def visit_constant(self, expr: Any, function_operands: FunctionOperands) -> Piece:
        """Return the text of a named constant such as pi."""
        if expr not in text.CONSTANTS:
            raise text.unsupported(
                expr, "the language has rational numbers, and what functions make of them", "write a number"
            )
        return text.make_piece((text.CONSTANTS[expr],), Level.ATOM)

    def symbol(self, expr: Any, function_operands: FunctionOperands) -> Piece:
        """Return the text of the symbol ``expr``. In the formula of an elementwise function, a placeholder symbol is
        written as its operand in ``function_operands``; any other symbol is written by its name.
        """
        return function_operands.variables.get(expr) or self.visit_name(expr, function_operands)

    def visit_name(self, expr: Any, function_operands: FunctionOperands) -> Piece:
        """Return the name of a tensor or scalar. Raise `ArgumentError` if the language does not allow the name or if
        two things have it, and `UnsupportedError` for an integer.
        """
        if expr.is_integer or expr in self.integers:
            raise text.unsupported(
                expr,
                "it is an integer, a size or an index, and these are not numbers of the language",
                "multiply by it later",
            )
        if not NAME.fullmatch(expr.name) or expr.name in RESERVED or keyword.iskeyword(expr.name):
            raise ArgumentError(
                f"to_text: {expr.name!r} is not a name of the text language: names are letters and digits, beginning "
                "with a letter, and no words of the language or of Python; rename the tensor"
            )
        other = self.names.setdefault(expr.name, expr)
        if other != expr:
            raise ArgumentError(
                f"to_text: {expr.name} names two things, of the shapes {getattr(other, 'shape', ())} and "
                f"{getattr(expr, 'shape', ())}, so that the text could not tell them apart; rename one of them"
            )
        rank = len(getattr(expr, "shape", ()))
        text.axis_letters(rank)
        return text.make_piece((expr.name,), Level.ATOM, rank)

    def visit_delta(self, expr: DeltaTensor, function_operands: FunctionOperands) -> Piece:
        """Return the text of the unit tensor."""
        text.axis_letters(expr.rank)
        self.extents.update(dict.fromkeys(expr.shape))
        return text.make_piece((f"delta({expr.rank // 2})",), Level.ATOM, expr.rank)

    def visit_filled(self, expr: FilledTensor, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of a number repeated along axes."""
        self.extents.update(dict.fromkeys(expr.shape))
        return text.repeated_piece((yield self.visit(expr.value, function_operands)), expr.rank)

    # -------------------------------------------------------------- operations entry by entry

    def visit_sum(self, expr: Any, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of a sum: added terms before subtracted ones, with a number last among those of its sign.
        Several numbers come after all other terms.
        """
        terms: list[tuple[bool, Piece]] = []
        # Two numbers at the beginning would be read as one.
        numbers = sum(bool(term.is_Number) for term in expr.args) > 1
        for term in sorted(
            expr.args, key=lambda term: (numbers and term.is_Number, text.is_subtracted(term), term.is_Number)
        ):
            if text.is_subtracted(term) and terms:
                coefficient, factors = text.split_coefficient(term)
                terms.append((True, (yield from self._write_product(-coefficient, factors, function_operands))))
            else:
                terms.append((False, (yield self.visit(term, function_operands))))
        return text.sum_piece(terms)

    def visit_product(self, expr: Any, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of an element-wise product."""
        return (yield from self._write_product(*text.split_coefficient(expr), function_operands))

    def _write_product(
        self, coefficient: Any, factors: Sequence[Any], function_operands: FunctionOperands
    ) -> Recursion[Any]:
        """Return the text of ``coefficient`` times ``factors`` as a quotient; negative powers go to the denominator."""
        above: list[Piece] = []
        below: list[Piece] = []
        for factor in factors:
            divisor = yield from self._write_divisor(factor, function_operands)
            if divisor is None:
                above.append((yield self.visit(factor, function_operands)))
            else:
                below.append(divisor)
        numerator, denominator = text.split_fraction(coefficient) if factors else (coefficient, S.One)
        if numerator == -1:  # a tensor takes the sign, as the sign of a scalar becomes a part of it
            above.sort(key=lambda part: not part.rank)
        is_scalar = not any(part.rank for part in (*above, *below))
        if numerator == -1 and above and (above[0].rank or (is_scalar and above[0].level > Level.SUM)):
            # The signs of functions that the language does not have are not those of an input that is read back.
            above[0] = text.opposite_piece(above[0]) if function_operands.variables else text.negated_piece(above[0])
        elif numerator != 1 or not above:
            above.insert(0, text.number_piece(numerator))
        if denominator != 1:
            below.append(text.number_piece(denominator))
        return text.quotient_piece(above, below)

    def _write_divisor(self, factor: Any, function_operands: FunctionOperands) -> Recursion[Piece | None]:
        """Return the text of ``1/factor`` if ``factor`` is a negative power; None otherwise."""
        if not isinstance(factor, (Pow, TensorPow)) or factor.args[0].is_Number:
            return None
        coefficient, factors = text.split_coefficient(factor.args[1])
        if coefficient >= 0 or (isinstance(factor, TensorPow) and factor.args[1] != -1):
            return None
        base: Piece = yield self.visit(factor.args[0], function_operands)
        if coefficient == -1 and not factors:
            return base
        exponent = yield from self._write_product(-coefficient, factors, function_operands)
        return self._write_power(factor, base, exponent)

    def visit_power(self, expr: Any, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of a power, or of a quotient for a negative exponent."""
        divisor = yield from self._write_divisor(expr, function_operands)
        if divisor is not None:
            return text.quotient_piece([text.number_piece(S.One)], [divisor])
        base, exponent = yield from self.all(expr.args, function_operands)
        return self._write_power(expr, base, exponent)

    def _write_power(self, expr: Any, base: Piece, exponent: Piece) -> Piece:
        """Return the text ``base ^ exponent``; raise `UnsupportedError` if the exponent has axes."""
        if exponent.rank:
            raise text.unsupported(
                expr, "an exponent of the language has order 0", "write td.exp(B*td.log(A)) where A is positive"
            )
        return text.power_piece(base, exponent)

    def visit_entrywise(self, expr: TensorFunction, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of an element-wise function of tensors."""
        operands = yield from self.all(expr.operands, function_operands)
        name = text.name_of_template(expr.template)
        if name:
            return text.call_piece(name, *operands)
        variables = expr.template.variables
        numbers = {hole: value for hole, value in zip(variables, expr.operands, strict=True) if value.is_Number}
        inside = FunctionOperands(dict(zip(variables, operands, strict=True)))
        result: Piece = yield self.visit(expr.template.expr.xreplace(numbers), inside)
        if result.rank:
            return result
        self.extents.update(dict.fromkeys(expr.shape))
        return text.repeated_piece(result, expr.rank)

    def visit_function(self, expr: Any, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of a function of scalars; raise `UnsupportedError` if the language lacks it."""
        name = text.function_name(expr.func)
        if not name:
            raise text.unsupported(
                expr,
                f"it has no function {expr.func}",
                f"its functions are {', '.join((*FUNCTIONS, *MATRIX_FUNCTIONS))}, and the others that td.parse reads",
            )
        operands = yield from self.all(expr.args, function_operands)
        return text.call_piece(name, *operands)

    def visit_extremum(self, expr: Any, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of a maximum or minimum; that of one argument and 0 is ``relu``."""
        if isinstance(expr, Max) and S.Zero in expr.args and len(expr.args) == 2:
            (argument,) = (arg for arg in expr.args if arg is not S.Zero)
            return text.call_piece("relu", (yield self.visit(argument, function_operands)))
        operands = yield from self.all(expr.args, function_operands)
        return text.call_piece("maximum" if isinstance(expr, Max) else "minimum", *operands)

    def visit_choice(self, expr: Piecewise, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of a `Piecewise`, as calls of ``where``; one that is 1 or 0 is the text of its condition.
        Raise `UnsupportedError` if it has no value where no condition holds.
        """
        *cases, last = expr.args
        if last.cond != S.true:
            raise text.unsupported(
                expr, "it has no value where no condition holds", "add a last case with the condition True"
            )
        result, value = (yield self.visit(last.expr, function_operands)), last.expr
        for case in cases[::-1]:
            condition = yield self.visit(case.cond, function_operands)
            if (case.expr, value) == (1, 0):
                result = condition
            else:
                chosen = yield self.visit(case.expr, function_operands)
                result = text.call_piece("where", condition, chosen, result)
            value = None
        return result

    def visit_relation(self, expr: Any, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of a comparison, such as ``less(x, y)``."""
        operands = yield from self.all(expr.args, function_operands)
        return text.call_piece(RELATION_NAMES[expr.func], *operands)

    def visit_connective(self, expr: Any, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of conditions that And, Or or Not joins."""
        first, *others = yield from self.all(expr.args, function_operands)
        name = CONNECTIVE_NAMES[expr.func]
        if not others:
            return text.call_piece(name, first)
        for other in others:
            first = text.call_piece(name, first, other)
        return first

    # -------------------------------------------------------------- operations on whole tensors

    def visit_contraction(self, expr: EinsumProduct, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of an einsum product."""
        inputs, output = text.lower_case_subscripts(expr)
        factors = []
        for operand, letters in zip(expr.operands, inputs, strict=True):
            is_repeated = isinstance(operand, FilledTensor) and operand.rank
            value = (yield self.visit(operand.value, function_operands)) if is_repeated else None
            factors.append(((yield self.visit(operand, function_operands)), letters, value))
        return text.contraction_piece(factors, output)

    def visit_matrix(self, expr: Any, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of an inverse, determinant or adjugate."""
        matrix = yield self.visit(expr.matrix, function_operands)
        return text.call_piece(
            {TensorInverse: "inv", TensorDeterminant: "det"}.get(type(expr), "adj"), matrix, rank=expr.rank
        )

    def visit_cofactor(self, expr: TensorCofactor, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of a cofactor tensor: ``det`` for order 0, the transposed ``adj`` for order 1; raise
        `UnsupportedError` for higher orders.
        """
        if expr.order > 1:
            raise text.unsupported(
                expr,
                "it has no derivatives of adj",
                "write the adjugate of an invertible matrix as det(X) *(,ij->ij) inv(X) before the derivative",
            )
        matrix = yield self.visit(expr.matrix, function_operands)
        if expr.order == 0:
            return text.call_piece("det", matrix, rank=0)
        return text.relabelled_piece(text.call_piece("adj", matrix), "ij", "ji")

    def visit_log_sum_exp(self, expr: TensorLogSumExp, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of the logarithm of a sum of exponentials."""
        tensor = yield self.visit(expr.tensor, function_operands)
        letters = text.axis_letters(tensor.rank)
        remaining = "".join(letter for axis, letter in enumerate(letters) if axis not in expr.axes)
        return text.call_piece("log", text.relabelled_piece(text.call_piece("exp", tensor), letters, remaining))

    def visit_indexed(self, expr: Any, function_operands: FunctionOperands) -> Recursion[Any]:
        """Return the text of a comprehension without axes, or of its entry, which is the text of the scalar in it.
        Raise `UnsupportedError` for any other node in index notation, since the text language has whole tensors only.
        """
        scalar = text.scalar_of(expr)
        if scalar is not None:
            return (yield self.visit(scalar, function_operands))
        raise text.unsupported(
            expr,
            "it reads single entries or a part of an axis, and the language has whole tensors only",
            "what td.EinsumProduct says can be written: see expr.rewrite(td.EinsumProduct)",
        )

    rules: ClassVar[Rules] = {
        **dict.fromkeys((Number, type(S.ImaginaryUnit), type(S.ComplexInfinity)), visit_number),
        **{NumberSymbol: visit_constant, TensorSymbol: visit_name},
        **{DeltaTensor: visit_delta, FilledTensor: visit_filled},
        **{
            Add: visit_sum,
            TensorAdd: visit_sum,
            Mul: visit_product,
            TensorMul: visit_product,
            Pow: visit_power,
            TensorPow: visit_power,
        },
        **{
            TensorFunction: visit_entrywise,
            Function: visit_function,
            Max: visit_extremum,
            Min: visit_extremum,
            Piecewise: visit_choice,
        },
        **{**dict.fromkeys(RELATION_NAMES, visit_relation), **dict.fromkeys(CONNECTIVE_NAMES, visit_connective)},
        **{
            EinsumProduct: visit_contraction,
            TensorInverse: visit_matrix,
            TensorDeterminant: visit_matrix,
            TensorAdjugate: visit_matrix,
        },
        **{TensorCofactor: visit_cofactor, TensorLogSumExp: visit_log_sum_exp},
        **dict.fromkeys(INDEXED, visit_indexed),
    }
