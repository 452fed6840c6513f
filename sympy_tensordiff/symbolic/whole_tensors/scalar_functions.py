"""Scalar functions that SymPy does not have, such as `sigmoid`, `softplus` and `xlogy`."""

from __future__ import annotations

from typing import Any, ClassVar

import sympy
from sympy import Expr, Function, Lambda, S
from sympy.codegen.cfunctions import expm1
from sympy.core.function import ArgumentIndexError

from sympy_tensordiff.functions.table import ELEMENTARY_ERROR, Interval, RealFunction, add_record, record_of
from sympy_tensordiff.symbolic.expressions.misplaced_tensors import is_whole
from sympy_tensordiff.symbolic.expressions.printable import CODE_METHODS
from sympy_tensordiff.symbolic.whole_tensors.einsum import aligned
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorFunction, apply_to, placeholders


class EntryFunction(Function):
    """The base class of functions of one real number, such as `sigmoid`. If they are called with a whole tensor, they
    are applied entry by entry.
    """

    values: ClassVar[dict[Any, Any]]  # where they are plain

    def __new__(cls, argument: Any, **options: Any) -> Any:
        if is_whole(argument):
            (t,) = placeholders(1)
            return TensorFunction(Lambda((t,), cls(t)), argument)
        return super().__new__(cls, argument, **options)

    @classmethod
    def eval(cls, argument: Any) -> Any:
        """SymPy's hook for evaluation: return the value from the class's table ``values`` for an argument such as 0;
        else None, which keeps the call.
        """
        return cls.values.get(argument)

    def fdiff(self, argindex: int = 1) -> Any:
        """SymPy's hook for `diff`: return the derivative with respect to the only argument, number ``argindex``, from
        `slope`.
        """
        if argindex != 1:
            raise ArgumentIndexError(self, argindex)
        return self.slope()

    def slope(self) -> Any:
        """Return the derivative of the function with respect to its argument; subclasses implement it."""
        raise NotImplementedError

    def _eval_is_positive(self) -> bool | None:
        """SymPy's hook for the assumption `positive`: True for a real argument."""
        return True if self.args[0].is_real else None

    def _eval_is_extended_real(self) -> bool | None:
        """SymPy's hook for the assumption `extended_real`: that of the argument."""
        real: bool | None = self.args[0].is_extended_real
        return real

    def _eval_evalf(self, precision: int) -> Any:
        """SymPy's hook for `evalf`: return the number with ``precision`` bits, from the formula of this function with
        exponentials.
        """
        return self.rewrite(sympy.exp)._eval_evalf(precision)

    def _latex(self, printer: Any, exp: Any = None) -> str:
        """SymPy's hook for LaTeX: the name and the argument, with the exponent ``exp`` of a power."""
        power = "" if exp is None else f"^{{{exp}}}"
        return rf"{record_of(self.func).latex}{power}{{\left({printer._print(self.args[0])} \right)}}"


def print_code(self: Any, printer: Any, *args: Any, **options: Any) -> Any:
    """SymPy's hook for its code printers: print the formula of the function with exponentials."""
    code = printer._print(self.rewrite(sympy.exp))
    return f"({code})" if isinstance(code, str) else code


for _name in CODE_METHODS:
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

    def slope(self) -> Any:
        """Return the derivative of the sigmoid."""
        return self * (1 - self)

    def _eval_rewrite_as_exp(self, argument: Expr, **hints: Any) -> Any:
        """SymPy's hook for ``rewrite(exp)``: return the formula of the function of ``argument`` written with an
        exponential.
        """
        return 1 / (1 + sympy.exp(-argument))

    def _eval_is_finite(self) -> bool | None:
        """SymPy's hook for the assumption `finite`: True for a real argument, None (unknown) for others."""
        return True if self.args[0].is_extended_real else None


class logistic_density(Function):  # noqa: N801
    """The derivative ``exp(-x)/(1 + exp(-x))**2`` of `sigmoid`, for kernels only. It is accurate for all ``x``, while
    ``s*(1 - s)`` with ``s = sigmoid(x)`` loses its digits for large ``x``.
    """


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

    def slope(self) -> Any:
        """Return the derivative of softplus, the sigmoid."""
        return sigmoid(self.args[0])

    def _eval_rewrite_as_exp(self, argument: Expr, **hints: Any) -> Any:
        """SymPy's hook for ``rewrite(exp)``: the formula with an exponential."""
        return sympy.log(1 + sympy.exp(argument))


class log1mexp(EntryFunction):  # noqa: N801
    r"""The function ``log(1 - exp(-abs(x)))``, entry by entry on whole tensors, without loss of digits.

    For negative ``x`` this is ``log(1 - exp(x))``, the logarithm of the probability of the complement of an event whose
    probability has the logarithm ``x``.

    Parameters
    ----------
    x : Expr or number

    Notes
    -----
    At 0 the value is ``-oo``. Mächler 2012, *Accurately Computing log(1 - exp(-|a|))*.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> x = sympy.Symbol("x", real=True)
    >>> td.log1mexp(x).diff(x)
    sign(x)/expm1(Abs(x))
    >>> float(td.evaluate(td.log1mexp(x), {x: -1e-20})), float(td.evaluate(td.log1mexp(x), {x: -800}))
    (-46.051701859880914, -0.0)
    """

    values: ClassVar = {S.Zero: S.NegativeInfinity, S.Infinity: S.Zero, S.NegativeInfinity: S.Zero}

    def slope(self) -> Any:
        """Return the derivative of log1mexp."""
        (x,) = self.args
        return sympy.sign(x) / expm1(sympy.Abs(x))

    def _eval_rewrite_as_exp(self, argument: Expr, **hints: Any) -> Any:
        """SymPy's hook for ``rewrite(exp)``: the formula with an exponential."""
        return sympy.log(1 - sympy.exp(-sympy.Abs(argument)))

    def _eval_is_positive(self) -> bool | None:
        """SymPy's hook for the assumption `positive`: None (unknown), unlike the base class."""
        return None

    def _eval_is_finite(self) -> bool | None:
        """SymPy's hook for the assumption `finite`: True for a real nonzero argument, None (unknown) for others."""
        return True if self.args[0].is_real and self.args[0].is_nonzero else None


class log_ndtr(EntryFunction):  # noqa: N801
    r"""The logarithm of the cumulative distribution function of the standard normal distribution, entry by entry.

    Parameters
    ----------
    x : Expr or number

    Notes
    -----
    As `scipy.special.log_ndtr`: exact to the last digits in both tails, where ``log(erfc(-x/sqrt(2))/2)`` is ``-oo``.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> x = sympy.Symbol("x", real=True)
    >>> td.log_ndtr(x).diff(x)
    sqrt(2)/(sqrt(pi)*erfcx(-sqrt(2)*x/2))
    >>> float(td.evaluate(td.log_ndtr(x), {x: -40}))
    -804.6084420137538
    """

    values: ClassVar = {S.Zero: -sympy.log(2), S.Infinity: S.Zero, S.NegativeInfinity: S.NegativeInfinity}

    def slope(self) -> Any:
        """Return the derivative of log_ndtr."""
        (x,) = self.args
        return sympy.sqrt(2) / (sympy.sqrt(sympy.pi) * erfcx(-x / sympy.sqrt(2)))

    def _eval_rewrite_as_exp(self, argument: Expr, **hints: Any) -> Any:
        """SymPy's hook for ``rewrite(exp)``: return ``log(erfc(-x/sqrt(2))/2)`` for ``log_ndtr(x)``."""
        return sympy.log(sympy.erfc(-argument / sympy.sqrt(2)) / 2)

    def _eval_is_positive(self) -> bool | None:
        """SymPy's hook for the assumption `positive`: None (unknown), unlike the base class."""
        return None

    def _eval_is_finite(self) -> bool | None:
        """SymPy's hook for the assumption `finite`: True for a real argument, None (unknown) for others."""
        return True if self.args[0].is_real else None


class erfcx(EntryFunction):  # noqa: N801
    r"""The scaled complementary error function ``exp(x**2)*erfc(x)``, entry by entry on whole tensors.

    Parameters
    ----------
    x : Expr or number

    Notes
    -----
    As `scipy.special.erfcx`: about ``1/(sqrt(pi)*x)`` where ``erfc(x)`` is 0 in floating point.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> x = sympy.Symbol("x", real=True)
    >>> td.erfcx(x).diff(x)
    2*x*erfcx(x) - 2/sqrt(pi)
    >>> td.erfcx(x).rewrite(sympy.exp), float(td.evaluate(td.erfcx(x), {x: 100}))
    (exp(x**2)*erfc(x), 0.005641613782989433)
    """

    values: ClassVar = {S.Zero: S.One, S.Infinity: S.Zero, S.NegativeInfinity: S.Infinity}

    def slope(self) -> Any:
        """Return the derivative of erfcx."""
        (x,) = self.args
        return 2 * x * self - 2 / sympy.sqrt(sympy.pi)

    def _eval_rewrite_as_exp(self, argument: Expr, **hints: Any) -> Any:
        """SymPy's hook for ``rewrite(exp)``: the formula with `erfc`."""
        return sympy.exp(argument**2) * sympy.erfc(argument)

    def _eval_is_finite(self) -> bool | None:
        """SymPy's hook for the assumption `finite`: True for a real argument, None (unknown) for others."""
        return True if self.args[0].is_real else None


class xlogy(Function):  # noqa: N801
    r"""The function ``x*log(y)``, 0 where ``x`` is 0 whatever ``y`` is; entry by entry on whole tensors.

    Parameters
    ----------
    x, y : Expr or number
        Tensors, repeated to one shape as in NumPy, and scalars; ``y`` is not negative.

    Notes
    -----
    As `scipy.special.xlogy`. The derivatives are ``log(y)`` and ``x/y``.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> x, y = sympy.symbols("x y", real=True)
    >>> td.xlogy(x, y).diff(x), td.xlogy(x, y).diff(y), td.xlogy(0, y)
    (log(y), x/y, 0)
    >>> p, q = td.TensorSymbol("p", 3), td.TensorSymbol("q", 3)
    >>> td.gradient(td.sum(td.xlogy(p, q)), q)
    p/q
    """

    def __new__(cls, x: Any, y: Any, **options: Any) -> Any:
        if is_whole(x) or is_whole(y):
            variables = placeholders(2)
            return apply_to(variables, cls(*variables), aligned((x, y), "xlogy"))
        return super().__new__(cls, x, y, **options)

    @classmethod
    def eval(cls, x: Any, y: Any) -> Any:
        """Override SymPy's evaluation of ``xlogy(x, y)``, which is ``x*log(y)``: return 0 for ``x = 0`` or ``y = 1``, a
        value for two numbers, else None.
        """
        if x.is_zero or y is S.One:
            return S.Zero
        return x * sympy.log(y) if x.is_number and y.is_number else None

    def fdiff(self, argindex: int = 1) -> Any:
        """SymPy's hook for `diff`: return the derivative with respect to argument ``argindex``, 1 or 2."""
        x, y = self.args
        if argindex not in (1, 2):
            raise ArgumentIndexError(self, argindex)
        return sympy.log(y) if argindex == 1 else x / y

    def _eval_is_extended_real(self) -> bool | None:
        """SymPy's hook for the assumption `extended_real`: True for real arguments."""
        return True if all(arg.is_real for arg in self.args) else None

    def _eval_is_finite(self) -> bool | None:
        """SymPy's hook for the assumption `finite`: True for a real ``x`` and a positive ``y``, None (unknown) for
        others.
        """
        return True if self.args[0].is_real and self.args[1].is_positive else None

    def _eval_rewrite_as_log(self, x: Expr, y: Expr, **hints: Any) -> Any:
        """SymPy's hook for ``rewrite(log)``: a `Piecewise` that is 0 at ``x = 0``."""
        return sympy.Piecewise((0, sympy.Eq(x, 0)), (x * sympy.log(y), True))

    def _eval_rewrite_as_exp(self, x: Expr, y: Expr, **hints: Any) -> Any:
        """SymPy's hook for ``rewrite(exp)``: return the formula of the function written with a logarithm."""
        return self._eval_rewrite_as_log(x, y)

    def _eval_evalf(self, precision: int) -> Any:
        """SymPy's hook for `evalf`: return ``x*log(y)`` as a number with ``precision`` bits, or 0 if ``x`` is 0."""
        return self._eval_rewrite_as_log(*self.args)._eval_evalf(precision)


for _name in CODE_METHODS:
    setattr(xlogy, _name, print_code)

for _record in (
    RealFunction("sigmoid", sigmoid, "sigmoid", error=ELEMENTARY_ERROR, values=Interval(0, 1), latex=r"\sigma"),
    RealFunction(
        "softplus", softplus, "softplus", error=ELEMENTARY_ERROR, values=Interval(0), latex=r"\operatorname{softplus}"
    ),
    RealFunction("log_ndtr", log_ndtr, values=Interval(None, 0), latex=r"\log\Phi"),
):
    add_record(_record._replace(is_public=True, is_defined=True, is_finite=True))

for _record in (
    RealFunction("erfcx", erfcx, is_defined=True, values=Interval(0), latex=r"\operatorname{erfcx}"),
    RealFunction("log1mexp", log1mexp, latex=r"\operatorname{log1mexp}"),
    RealFunction("xlogy", xlogy, operands=(2, 2), error=ELEMENTARY_ERROR),
    RealFunction("entr", lambda x: -xlogy(x, x)),
):
    add_record(_record._replace(is_public=True))

add_record(
    RealFunction(
        *("logistic_density", logistic_density, "logistic_density"),
        is_readable=False,
        is_defined=True,
        is_finite=True,
        error=ELEMENTARY_ERROR,
        parity=1,
        values=Interval(0),
    )
)
