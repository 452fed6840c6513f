"""Norms in the scalars that stand in a formula of whole tensors: the root of ``x.T @ x`` is ``norm(x)``.

A derivative divides by a norm where that is not 0, and is 0 where it is (see `derivative.pullbacks`). On paper the
convention is not written: ``Piecewise((1/sqrt(x.T @ x), Ne(x.T @ x, 0)), (0, True))`` is ``1/norm(x)``.
"""

from __future__ import annotations

from typing import Any

from sympy import Expr, Ne, Piecewise, Pow, S
from sympy.printing.pretty.stringpict import prettyForm, stringPict


class NormOf(Expr):
    """The norm of a tensor, in print only."""

    is_commutative = True
    is_real = True

    def _sympystr(self, printer: Any) -> str:
        return f"norm({printer._print(self.args[0])})"

    def _latex(self, printer: Any) -> str:
        return rf"\left\|{printer._print(self.args[0])}\right\|"

    def _pretty(self, printer: Any) -> Any:
        argument = prettyForm(*printer._print(self.args[0]).parens())
        return prettyForm(*stringPict.next("norm", argument), binding=prettyForm.FUNC)


def with_norms(expr: Any) -> Any:
    """A scalar with the norms in it by their name; what stands in tensors is theirs."""
    if not expr.args or getattr(expr, "is_tensor_expr", False) or getattr(expr, "is_binder", False):
        return expr
    if isinstance(expr, Pow) and (tensor := _squared(expr.base)) is not None and (2 * expr.exp).is_Integer:
        return expr if expr.exp.is_Integer else NormOf(tensor) ** (2 * expr.exp)
    if isinstance(expr, Piecewise) and (value := _at_no_zero(expr)) is not None:
        return with_norms(value)
    args = [with_norms(arg) for arg in expr.args]
    return expr if all(new is old for new, old in zip(args, expr.args, strict=True)) else expr.func(*args)


def _squared(expr: Any) -> Any | None:
    """The ``x`` of ``x.T @ x``, the sum of the squares of all entries; None for all else."""
    if type(expr).__name__ != "EinsumProduct" or expr.rank or len(expr.operands) != 2:
        return None
    (one, other), (labels, others) = expr.operands, expr.inputs
    return one if one == other and labels == others and len(set(labels)) == len(labels) else None


def _at_no_zero(expr: Piecewise) -> Any | None:
    """The value of a choice that is 0 where a norm is that it divides by; None for all else."""
    if len(expr.args) != 2 or expr.args[1].args != (S.Zero, S.true) or not isinstance(expr.args[0].cond, Ne):
        return None
    value, condition = expr.args[0].args
    square, zero = condition.args
    if zero != 0 or _squared(square) is None:
        return None
    divides = any(power.base == square and power.exp.is_negative for power in value.atoms(Pow))
    return value if divides and not square.is_Number else None
