"""Norms in scalars within a formula of tensors: the square root of ``x.T @ x`` is printed as ``norm(x)``.

A derivative divides by a norm where that is not 0, and is 0 where it is (see `derivative.pullbacks`). Printed forms
leave this convention out: ``Piecewise((1/sqrt(x.T @ x), Ne(x.T @ x, 0)), (0, True))`` is ``1/norm(x)``. So it is for
the norms of all rows of a matrix, for `hypot`, and for powers of absolute values.
"""

from __future__ import annotations

from typing import Any

from sympy import Abs, Expr, Ne, Piecewise, Pow, S
from sympy.logic.boolalg import Boolean
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from sympy_tensordiff.symbolic.whole_tensors.einsum import EinsumProduct
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow


class NormOf(Expr):
    """The norm of a tensor, used in printing only."""

    is_commutative = True
    is_real = True

    def _sympystr(self, printer: Any) -> str:
        """SymPy's hook for `str`: ``norm(x)``."""
        return f"norm({printer._print(self.args[0])})"

    def _latex(self, printer: Any) -> str:
        """SymPy's hook for LaTeX: double bars around the argument."""
        return rf"\left\|{printer._print(self.args[0])}\right\|"

    def _pretty(self, printer: Any) -> Any:
        """SymPy's hook for pretty printing: ``norm(x)``."""
        argument = prettyForm(*printer._print(self.args[0]).parens())
        return prettyForm(*stringPict.next("norm", argument), binding=prettyForm.FUNC)


def with_norms(expr: Any) -> Any:
    """Return the scalar ``expr`` with roots of sums of squares printed as norms (`NormOf`). The inside of tensors, sums
    and conditions is unchanged.
    """
    if isinstance(expr, Boolean):
        return expr
    if not expr.args or getattr(expr, "is_tensor_expr", False) or getattr(expr, "is_binder", False):
        return expr
    if isinstance(expr, Pow) and (tensor := _squared(expr.base)) is not None and (2 * expr.exp).is_Integer:
        return expr if expr.exp.is_Integer else NormOf(tensor) ** (2 * expr.exp)
    if isinstance(expr, Piecewise) and (value := _scalar_away_from_zero(expr)) is not None:
        return with_norms(value)
    args = [with_norms(arg) for arg in expr.args]
    if all(new is old for new, old in zip(args, expr.args, strict=True)):
        return expr
    return Piecewise(*args, evaluate=False) if isinstance(expr, Piecewise) else expr.func(*args)


def value_away_from_zero(function: Any) -> Any | None:
    """Return ``x/norm(x)`` for an elementwise function that is ``x/norm(x)`` where ``norm(x) != 0`` and 0 elsewhere; it
    is then printed without the condition. Return None for other functions.
    """
    body, operands = function.template.expr, dict(zip(function.template.variables, function.operands, strict=True))
    if not isinstance(body, Piecewise) or len(body.args) != 2 or body.args[1].args != (S.Zero, S.true):
        return None
    value, condition = body.args[0].args
    if not isinstance(condition, Ne) or condition.rhs != 0 or not {value, condition.lhs} <= operands.keys():
        return None
    value, size = operands[value], operands[condition.lhs]
    terms = value.args if isinstance(value, TensorAdd) else (value,)
    factors = [factor for term in terms for factor in (term.args if isinstance(term, TensorMul) else (term,))]
    powers = [factor for factor in factors if isinstance(factor, TensorPow)]
    if _is_norm(size) and any(power.base == size and power.exponent.is_negative for power in powers):
        return value
    return value if any(_is_power_of_size(power, size) for power in powers) else None


def _is_norm(tensor: Any) -> bool:
    """Return whether the entries of `tensor` are values of `hypot` or sums of squares: a quotient by its powers is then
    printed without the condition that it is not 0.
    """
    if isinstance(tensor, TensorFunction):
        return type(tensor.template.expr).__name__ == "hypot"
    if not isinstance(tensor, EinsumProduct):
        return False
    if len(tensor.operands) == 1:
        (power,) = tensor.operands
        return isinstance(power, TensorPow) and power.exponent == 2
    return len(tensor.operands) == 2 and len(set(tensor.operands)) == len(set(tensor.inputs)) == 1


def _is_power_of_size(power: Any, tensor: Any) -> bool:
    """Return whether the tensor ``power`` is ``abs(tensor)**p`` for an exponent ``p`` that is not a number, as in the
    derivative of a p-norm.
    """
    size = power.base
    is_size = isinstance(size, TensorFunction) and isinstance(size.template.expr, Abs)
    return is_size and size.operands == (tensor,) and not power.exponent.is_number


def _squared(expr: Any) -> Any | None:
    """Return ``x`` if ``expr`` is the sum of squares of all entries of ``x``, else None."""
    if not isinstance(expr, EinsumProduct) or expr.rank or len(expr.operands) != 2:
        return None
    (one, other), (labels, others) = expr.operands, expr.inputs
    return one if one == other and labels == others and len(set(labels)) == len(labels) else None


def _scalar_away_from_zero(expr: Piecewise) -> Any | None:
    """Return the value ``x[i]/norm(x)`` of a `Piecewise` that has this value where the norm is not 0, and is 0
    elsewhere; the condition is then not printed. None for another `Piecewise`.
    """
    if len(expr.args) != 2 or expr.args[1].args != (S.Zero, S.true) or not isinstance(expr.args[0].cond, Ne):
        return None
    value, condition = expr.args[0].args
    square, zero = condition.args
    if zero != 0 or _squared(square) is None:
        return None
    divides = any(power.base == square and power.exp.is_negative for power in value.atoms(Pow))
    return value if divides and not square.is_Number else None
