"""Functions of a real number that SymPy does not have."""

from __future__ import annotations

from typing import Any, ClassVar

import sympy
from sympy import Expr, Function, Lambda, S
from sympy.core.function import ArgumentIndexError

from sympy_tensordiff.symbolic.elementwise import TensorFunction, placeholders
from sympy_tensordiff.symbolic.printing import METHODS
from sympy_tensordiff.symbolic.whole import is_whole


class EntryFunction(Function):
    """A function of one real number; of a whole tensor, entry by entry."""

    values: ClassVar[dict[Any, Any]]  # where they are plain
    name_in_latex: str

    def __new__(cls, argument: Any, **options: Any) -> Any:
        if is_whole(argument):
            (t,) = placeholders(1)
            return TensorFunction(Lambda((t,), cls(t)), argument)
        return super().__new__(cls, argument, **options)

    @classmethod
    def eval(cls, argument: Any) -> Any:
        """The value where it is plain."""
        return cls.values.get(argument)

    def fdiff(self, argindex: int = 1) -> Any:
        """The derivative."""
        if argindex != 1:
            raise ArgumentIndexError(self, argindex)
        return self.slope()

    def slope(self) -> Any:
        """The derivative by the argument."""
        raise NotImplementedError

    def _eval_is_positive(self) -> bool | None:
        return True if self.args[0].is_real else None

    def _eval_is_extended_real(self) -> bool | None:
        real: bool | None = self.args[0].is_extended_real
        return real

    def _eval_evalf(self, precision: int) -> Any:
        return self.rewrite(sympy.exp)._eval_evalf(precision)

    def _latex(self, printer: Any, exp: Any = None) -> str:
        power = "" if exp is None else f"^{{{exp}}}"
        return rf"{self.name_in_latex}{power}{{\left({printer._print(self.args[0])} \right)}}"


def print_code(self: Any, printer: Any, *args: Any, **options: Any) -> Any:
    """The code of the same function in terms of the exponential."""
    code = printer._print(self.rewrite(sympy.exp))
    return f"({code})" if isinstance(code, str) else code


for _name in METHODS:
    setattr(EntryFunction, _name, print_code)


class sigmoid(EntryFunction):  # noqa: N801
    r"""The logistic function ``1/(1 + exp(-x))``, entry by entry on whole tensors.

    Its derivative is written with itself: ``sigmoid(x)*(1 - sigmoid(x))``.

    Parameters
    ----------
    x : Expr or number

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> x = sympy.Symbol("x", real=True)
    >>> td.sigmoid(x).diff(x), td.sigmoid(0), td.sigmoid(x).rewrite(sympy.exp)
    ((1 - sigmoid(x))*sigmoid(x), 1/2, 1/(1 + exp(-x)))
    >>> td.sigmoid(td.TensorSymbol("A", (2, 3))).shape
    (2, 3)
    """

    values: ClassVar = {S.Zero: S.Half, S.Infinity: S.One, S.NegativeInfinity: S.Zero}
    name_in_latex = r"\sigma"

    def slope(self) -> Any:
        return self * (1 - self)

    def _eval_rewrite_as_exp(self, argument: Expr, **hints: Any) -> Any:
        return 1 / (1 + sympy.exp(-argument))

    def _eval_is_finite(self) -> bool | None:
        return True if self.args[0].is_extended_real else None


class softplus(EntryFunction):  # noqa: N801
    r"""The function ``log(1 + exp(x))``, entry by entry on whole tensors; its derivative is `sigmoid`.

    Parameters
    ----------
    x : Expr or number

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> x = sympy.Symbol("x", real=True)
    >>> td.softplus(x).diff(x), td.softplus(0)
    (sigmoid(x), log(2))
    >>> td.softplus(td.TensorSymbol("A", (2, 3))).shape
    (2, 3)
    """

    values: ClassVar = {S.Zero: sympy.log(2), S.Infinity: S.Infinity, S.NegativeInfinity: S.Zero}
    name_in_latex = r"\operatorname{softplus}"

    def slope(self) -> Any:
        return sigmoid(self.args[0])

    def _eval_rewrite_as_exp(self, argument: Expr, **hints: Any) -> Any:
        return sympy.log(1 + sympy.exp(argument))
