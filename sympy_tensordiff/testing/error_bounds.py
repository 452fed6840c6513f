"""First-order bounds of rounding errors, sub-expression by sub-expression.

In floating-point arithmetic with the unit roundoff ``u``, an operation has the value ``v + e`` in place of ``v``, with
``abs(e) <= w*u*abs(v)`` for a small weight ``w``. To first order, the error of a formula ``f`` is the sum of
``df/dv * e`` over its operations. One reverse sweep gives all derivatives ``df/dv``: of ``f`` with an unknown added to
each operation, at 0. The product ``abs(df/dv * v/f)`` is the condition number of ``f`` for the operation: the factor by
which a relative error of ``v`` is magnified.

Source: Higham 2002, *Accuracy and Stability of Numerical Algorithms*, chapters 2 to 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy
from sympy import Expr

from sympy_tensordiff.codegen.api import evaluate
from sympy_tensordiff.derivative.api import gradient
from sympy_tensordiff.errors import ArgumentTypeError
from sympy_tensordiff.simplify.accesses import check_expression
from sympy_tensordiff.symbolic.conversion.lift import lift
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.integer_symbols import integers_by_use
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorExpr, TensorSymbol
from sympy_tensordiff.testing.rounding_errors import Perturbation, Restriction, magnified, table_of

UNIT = sympy.Symbol("u", positive=True)
"""The unit roundoff in symbolic bounds."""

UNITS = {"float64": 2.0**-53, "float32": 2.0**-24}
"""The unit roundoffs of the types of numbers."""


@dataclass(frozen=True)
class ErrorTerm:
    """The contribution of one sub-expression to a bound of rounding errors.

    Attributes
    ----------
    part : Expr
        The sub-expression. Bound indices in it are those of the sums around it.
    bound : Expr, float or ndarray
        The bound of the error in the value that the rounding of ``part`` causes.
    """

    part: Expr
    bound: Any


@dataclass(frozen=True)
class ErrorBound:
    """A first-order bound of the rounding errors of a formula. `print` it to see which sub-expressions lose digits.

    Attributes
    ----------
    expression : Expr
        The formula in index notation, whose operations are counted.
    value : Expr, float or ndarray
        Its value; ``expression`` itself without values of the symbols.
    bound : Expr, float or ndarray
        The bound of the error, for each entry of the value. Without values a multiple of ``u``, the unit roundoff.
    terms : tuple of ErrorTerm
        The parts of ``bound``; with values, the largest first.
    data : tuple of ErrorTerm
        The errors that rounding of the arguments would cause. They are not part of ``bound``: arguments count as exact.
    unit : Expr or float
        The unit roundoff.
    """

    expression: Expr
    value: Any
    bound: Any
    terms: tuple[ErrorTerm, ...]
    data: tuple[ErrorTerm, ...]
    unit: Any

    @property
    def is_symbolic(self) -> bool:
        """Return whether the bound is an expression, because no values were given."""
        return self.unit is UNIT

    @property
    def relative(self) -> Any:
        """Return the relative error bound, the bound divided by the absolute value; infinite where the value is 0 and
        the bound is not. None if the value is a symbolic tensor.
        """
        if self.is_symbolic:
            return self.bound / sympy.Abs(self.value) if not isinstance(self.value, TensorExpr) else None
        return _ratio(self.bound, self.value)

    def __str__(self) -> str:
        if self.is_symbolic:
            bounds = [(term.part, getattr(term.bound, "body", term.bound)) for term in self.terms]
            return "\n".join(["error at most the sum of:", *(f"  {bound}  for {part}" for part, bound in bounds)])
        relative = np.asarray(self.relative)
        worst = np.unravel_index(int(np.argmax(relative)), relative.shape) if relative.size else ()
        value, bound = np.asarray(self.value)[worst], np.asarray(self.bound)[worst]
        place = f"entry {tuple(map(int, worst))}: " if worst else ""
        digits, lost = -np.log10(self.unit), np.log10(max(float(relative[worst]) / self.unit, 1.0))
        lost = f"{min(lost, digits):.1f} of {digits:.0f} digits lost"
        lines = [f"{place}value {value:.6g}, error at most {bound:.2g}, {lost}"]
        lines.append(f"relative errors by sub-expression, in units of {self.unit:.2g}:")
        lines += self._lines(self.terms, worst)
        if self.data:
            lines += ["if the arguments are rounded, also:", *self._lines(self.data, worst)]
        return "\n".join(lines)

    def _lines(self, terms: Sequence[ErrorTerm], worst: tuple[Any, ...]) -> list[str]:
        """Return a line of text for each of `terms`: its share of the relative error of the entry with the index
        `worst`, and the sub-expression.
        """
        shares = [np.asarray(_ratio(term.bound, self.value))[worst] / self.unit for term in terms]
        return [f"  {share:8.2g}  {term.part}" for share, term in zip(shares, terms, strict=True)]


def _ratio(bound: Any, value: Any) -> Any:
    """Return ``bound/abs(value)``; 0 where both are 0, and infinite where only the value is 0."""
    bound, size = np.asarray(bound, float), np.abs(np.asarray(value, float))
    with np.errstate(all="ignore"):
        found = np.where(bound == 0, 0.0, bound / size)
    return np.where(np.isnan(found), np.inf, found)[()]


@explained
def error_bound(f: Expr, values: Mapping[Any, Any] | None = None, *, dtype: str = "float64") -> ErrorBound:
    """Return a first-order bound of the rounding errors of the formula ``f``, sub-expression by sub-expression: a
    number if ``values`` are given, otherwise an expression.

    Parameters
    ----------
    f : scalar or tensor expression
    values : mapping, optional
        Arrays and numbers by the symbols of ``f``, as for `evaluate`. Without them the bound is symbolic.
    dtype : {"float64", "float32"}
        The type of numbers that the formula is computed in.

    Returns
    -------
    ErrorBound
        Its ``bound`` has the shape of ``f``; ``str`` of it lists the sub-expressions.

    Raises
    ------
    UnsupportedError
        For inverses, determinants, recurrences inside of each other, and functions that have only a name: the errors
        depend on how they are computed.
    ArgumentError
        If a symbol has no value.
    ArgumentTypeError
        If ``values`` is not a mapping, or ``dtype`` none of the two types.

    Notes
    -----
    The bound holds for the formula as it is written in index notation (``f.rewrite(td.IndexedSum)``), computed
    operation by operation, up to terms with the square of the unit roundoff, and without underflow. It allows for
    elementary functions with errors of 3 units in the last place, special functions with 12, and sums in any order: of
    ``n`` terms, ``n - 1`` roundings of the sum of the sizes. Kernels compute many formulas in forms with smaller
    errors, see `lambdify`.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> t = sympy.Symbol("t", positive=True)
    >>> print(td.error_bound(sympy.sqrt(t + 1) - sympy.sqrt(t), {t: 1e10}))
    value 5e-06, error at most 2.8e-11, 10.7 of 16 digits lost
    relative errors by sub-expression, in units of 1.1e-16:
         2e+10  sqrt(t + 1)
         2e+10  sqrt(t)
         1e+10  t + 1
             1  -sqrt(t) + sqrt(t + 1)
    if the arguments are rounded, also:
           0.5  t
    >>> td.error_bound(sympy.exp(t) - 1).bound
    u*(6*exp(t) + Abs(exp(t) - 1))
    """
    expression = lift(as_expr(f, "the expression"))
    if dtype not in UNITS:
        raise ArgumentTypeError(f'error_bound: dtype must be "float64" or "float32", not {dtype!r}')
    if values is not None and not isinstance(values, Mapping):
        raise ArgumentTypeError(f"error_bound: values must be a mapping such as {{x: array}}, not {values!r}")
    check_expression(expression)
    written = expression.rewrite(IndexedSum)
    limits: list[Any] = []
    body = written
    if isinstance(written, TensorExpr):
        if not isinstance(written, TensorComprehension):
            written = table_of(written)
        body, limits = written.body, list(written.limits)
    terms, data = _terms(body, [limit[0] for limit in limits], is_symbolic=values is None)
    symbolic = ErrorBound(
        expression=written,
        value=written,
        bound=_table(sympy.factor_terms(sympy.Add(*(term.bound for term in terms))), limits),
        terms=tuple(replace(term, bound=_table(term.bound, limits)) for term in terms),
        data=tuple(replace(term, bound=_table(term.bound, limits)) for term in data),
        unit=UNIT,
    )
    return symbolic if values is None else _at_values(symbolic, values, UNITS[dtype], dtype)


def _terms(body: Expr, indices: Sequence[Any], *, is_symbolic: bool) -> tuple[list[ErrorTerm], list[ErrorTerm]]:
    """Return two lists of terms of the error bound of the scalar `body`: one term for each operation, and one for each
    rounded argument. ``indices`` are its free indices; ``is_symbolic`` says that no values will be substituted.
    """
    sweep = Perturbation(body, indices)
    perturbed = sweep.run(body, ())
    data = [*_arguments(body)]
    unknowns = [*(operation.unknown for operation in sweep.operations), *data]
    at_zero = Restriction(sweep)
    slopes = [at_zero.run(slope) for slope in (gradient(perturbed, tuple(unknowns)) if unknowns else ())]
    own = [
        ErrorTerm(operation.part, UNIT * operation.bound(slope, is_symbolic))
        for operation, slope in zip(sweep.operations, slopes, strict=False)
    ]
    of_arguments = [
        ErrorTerm(argument, UNIT * _of_argument(argument, slope, is_symbolic))
        for argument, slope in zip(data, slopes[len(own) :], strict=True)
    ]
    return own, of_arguments


def _at_values(symbolic: ErrorBound, values: Mapping[Any, Any], unit: float, dtype: str) -> ErrorBound:
    """Return the symbolic error bound evaluated at `values`, with the unit roundoff `unit`."""
    given = {}
    for argument, value in values.items():
        array = np.asarray(value)
        array = array.astype(dtype).astype(float) if array.dtype.kind == "f" else array
        given[argument] = array if array.ndim else array[()]
    every = [*symbolic.terms, *symbolic.data]
    value, *found = evaluate((symbolic.expression, *(_without_unit(term.bound) for term in every)), given)
    with np.errstate(all="ignore"):
        bounds = [np.where(np.isnan(one), np.inf, one * unit)[()] for one in found]
        total = sum(bounds[: len(symbolic.terms)], np.zeros(np.shape(value)))[()]
    terms = [replace(term, bound=bound) for term, bound in zip(every, bounds, strict=True)]
    own, data = terms[: len(symbolic.terms)], terms[len(symbolic.terms) :]
    own.sort(key=lambda term: -float(f"{np.max(_ratio(term.bound, value), initial=0):.2g}"))  # equal as printed
    return replace(symbolic, value=value, bound=total, terms=tuple(own), data=tuple(data), unit=unit)


def _without_unit(bound: Any) -> Any:
    """Return an error bound in units of the roundoff: with 1 in place of the symbol ``u``."""
    if isinstance(bound, TensorComprehension):
        return TensorComprehension(bound.body.xreplace({UNIT: sympy.S.One}), *bound.limits)
    return bound.xreplace({UNIT: sympy.S.One})


def _table(entry: Expr, limits: Sequence[Any]) -> Any:
    """Return the tensor with the entries `entry` for all indices in the ranges `limits`; the scalar `entry` itself if
    there are no ranges.
    """
    return TensorComprehension(entry, *limits) if limits else entry


def _arguments(body: Expr) -> Iterator[Any]:
    """Yield the arguments of the formula `body`, whose values may be rounded: its tensors of real numbers and real
    symbols.
    """
    parts = [*dict.fromkeys(nodes_in([body]))]
    indices = {index for node in parts if getattr(node, "is_binder", False) for index in node.variables}
    indices |= integers_by_use([body])
    indices |= {variable for scan in parts if getattr(scan, "is_scan", False) for variable in scan.bound}
    for part in parts:
        is_tensor = isinstance(part, TensorSymbol) and part.dtype is not int and part not in indices
        if is_tensor or (isinstance(part, sympy.Symbol) and not part.is_integer and part not in indices):
            yield part


def _of_argument(argument: Any, slope: Any, is_symbolic: bool) -> Any:
    """Return a bound of the error that the rounding of ``argument`` causes in a result, in units of the roundoff:
    ``abs(slope*argument)``, summed over the entries of a tensor.

    ``slope`` is the derivative of the result with respect to ``argument``; unless ``is_symbolic``, the bound is 0 where
    the slope is 0, even if ``argument`` is infinite there.
    """
    if not isinstance(argument, TensorExpr) or not argument.rank:
        return magnified(1, slope, sympy.Abs(argument), is_symbolic)
    places = [sympy.Symbol(f"{argument.name}_{n}", integer=True) for n in range(argument.rank)]
    entry = magnified(1, slope[tuple(places)].doit(), sympy.Abs(argument[tuple(places)]), is_symbolic)
    limits = [(place, 0, extent - 1) for place, extent in zip(places, argument.shape, strict=True)]
    return IndexedSum(entry, *reversed(limits)) if limits and entry != 0 else entry
