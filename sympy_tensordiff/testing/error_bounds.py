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
from itertools import count
from typing import Any, ClassVar

import numpy as np
import sympy
from sympy import Expr
from sympy.codegen import cfunctions
from sympy.core.function import AppliedUndef

from sympy_tensordiff.codegen.api import evaluate
from sympy_tensordiff.derivative.api import gradient
from sympy_tensordiff.errors import ArgumentTypeError, UnsupportedError
from sympy_tensordiff.graph.functions import sigmoid, softplus, xlogy
from sympy_tensordiff.simplify.accesses import check_expression
from sympy_tensordiff.symbolic.calls import explained
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.indices import as_expr, integers_by_use
from sympy_tensordiff.symbolic.lift import lift
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorExpr, TensorSymbol
from sympy_tensordiff.symbolic.traversal import Recursion, Rewriting, Rules, names_in, nodes_in, with_args

UNIT = sympy.Symbol("u", positive=True)
"""The unit roundoff in symbolic bounds."""

UNITS = {"float64": 2.0**-53, "float32": 2.0**-24}
"""The unit roundoffs of the types of numbers."""

_EXACT: frozenset[Any] = frozenset(
    {sympy.Abs, sympy.sign, sympy.Max, sympy.Min, sympy.floor, sympy.ceiling, sympy.Heaviside, sympy.frac}
)
"""Functions without rounding errors."""

_ELEMENTARY: frozenset[Any] = frozenset({
    *(sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.tan, sympy.asin, sympy.acos, sympy.atan, sympy.atan2),
    *(sympy.sinh, sympy.cosh, sympy.tanh, sympy.asinh, sympy.acosh, sympy.atanh, sympy.erf),
    *(cfunctions.expm1, cfunctions.log1p, cfunctions.exp2, cfunctions.log2, cfunctions.log10),
    *(cfunctions.hypot, cfunctions.Cbrt, cfunctions.Sqrt, sigmoid, softplus, xlogy),
})  # fmt: skip

ELEMENTARY_WEIGHT, SPECIAL_WEIGHT = 6, 24
"""The errors of functions in unit roundoffs: 3 and 12 units in the last place, more than those of all libraries."""

Limit = tuple[Any, Any, Any]
"""A bound index with its first and last value."""


@dataclass(frozen=True)
class ErrorTerm:
    """The share of one sub-expression in a bound of rounding errors.

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
    """A first-order bound of the rounding errors of a formula; `print` shows which sub-expressions lose digits.

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
        """Whether the bound is an expression, as no values are given."""
        return self.unit is UNIT

    @property
    def relative(self) -> Any:
        """Return the bound divided by the size of the value; infinite where only the value is 0."""
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
        """Return a line for each of `terms`, with its share of the relative error of the entry `worst`."""
        shares = [np.asarray(_ratio(term.bound, self.value))[worst] / self.unit for term in terms]
        return [f"  {share:8.2g}  {term.part}" for share, term in zip(shares, terms, strict=True)]


def _ratio(bound: Any, value: Any) -> Any:
    """Return ``bound/abs(value)``, 0 where both are 0, infinite where only the value is."""
    bound, size = np.asarray(bound, float), np.abs(np.asarray(value, float))
    with np.errstate(all="ignore"):
        found = np.where(bound == 0, 0.0, bound / size)
    return np.where(np.isnan(found), np.inf, found)[()]


@explained
def error_bound(f: Expr, values: Mapping[Any, Any] | None = None, *, dtype: str = "float64") -> ErrorBound:
    """Return a first-order bound of the rounding errors of a formula, sub-expression by sub-expression.

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
        For inverses, determinants, recurrences and functions that have only a name: the errors depend on how they are
        computed.
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
            written = TensorComprehension(*_entry_of(written))
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
    """Return the terms of the error bound of the scalar `body`, one per operation, and those for rounded arguments;
    `indices` are free.
    """
    sweep = _Perturbation(body, indices)
    perturbed = sweep.run(body, ())
    data = [*_arguments(body)]
    unknowns = [*(operation.unknown for operation in sweep.operations), *data]
    at_zero = _Restriction(sweep)
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
    """Return the bound with 1 in place of the unit roundoff."""
    if isinstance(bound, TensorComprehension):
        return TensorComprehension(bound.body.xreplace({UNIT: sympy.S.One}), *bound.limits)
    return bound.xreplace({UNIT: sympy.S.One})


def _table(entry: Expr, limits: Sequence[Any]) -> Any:
    """Return the tensor of `entry` over the index ranges `limits`; `entry` itself without limits."""
    return TensorComprehension(entry, *limits) if limits else entry


def _entry_of(tensor: TensorExpr) -> tuple[Any, ...]:
    """Return the general entry of `tensor` and its index ranges, as the arguments of a comprehension."""
    used = names_in([tensor])
    names = (name for n in range(len(used) + tensor.rank) if (name := f"p{n}") not in used)
    places = [sympy.Symbol(name, integer=True) for name, _ in zip(names, tensor.shape, strict=False)]
    return (tensor[tuple(places)].doit(), *zip(places, tensor.shape, strict=True))


def _arguments(body: Expr) -> Iterator[Any]:
    """Yield the real tensors and symbols in `body`."""
    parts = [*dict.fromkeys(nodes_in([body]))]
    indices = {index for node in parts if getattr(node, "is_binder", False) for index in node.variables}
    indices |= integers_by_use([body])
    for part in parts:
        is_tensor = isinstance(part, TensorSymbol) and part.dtype is not int
        if is_tensor or (isinstance(part, sympy.Symbol) and not part.is_integer and part not in indices):
            yield part


def _of_argument(argument: Any, slope: Any, is_symbolic: bool) -> Any:
    """Return ``abs(slope*argument)``, summed over the entries of a tensor argument."""
    if not isinstance(argument, TensorExpr):
        return _product(1, slope, sympy.Abs(argument), is_symbolic)
    places = [sympy.Symbol(f"{argument.name}_{n}", integer=True) for n in range(argument.rank)]
    entry = _product(1, slope[tuple(places)].doit(), sympy.Abs(argument[tuple(places)]), is_symbolic)
    limits = [(place, 0, extent - 1) for place, extent in zip(places, argument.shape, strict=True)]
    return IndexedSum(entry, *reversed(limits)) if limits and entry != 0 else entry


def _product(weight: Any, slope: Any, size: Any, is_symbolic: bool) -> Any:
    """Return ``weight*abs(slope)*size``, which is 0 where a numerical slope is 0, even for infinite ``size``."""
    value = weight * sympy.Abs(slope) * size
    if is_symbolic or slope.is_number:
        return value
    return sympy.Piecewise((value, sympy.Ne(slope, 0)), (0, True), evaluate=False)


# ---------------------------------------------------------------------------- operations


@dataclass(frozen=True)
class _Operation:
    """An operation in a formula, with the unknown for the error of its result.

    Attributes
    ----------
    part : Expr
    unknown : TensorSymbol or Symbol
    weight : Expr
        The error is at most ``weight*u*size``.
    size : Expr
    limits : tuple of Limit
        The bound indices in ``part``, the outer ones first; the unknown has an axis for each.
    offsets : tuple of Expr
        The smallest value of each index.
    """

    part: Expr
    unknown: Any
    weight: Any
    size: Any
    limits: tuple[Limit, ...]
    offsets: tuple[Any, ...]

    def bound(self, slope: Any, is_symbolic: bool) -> Any:
        """Return the bound of the operation's rounding error, ``weight*abs(slope)*size``, summed over the bound
        indices.
        """
        if not self.limits:
            return _product(self.weight, slope, self.size, is_symbolic)
        places = [limit[0] - offset for limit, offset in zip(self.limits, self.offsets, strict=True)]
        entry = _product(self.weight, slope[tuple(places)].doit(), self.size, is_symbolic)
        return IndexedSum(entry, *reversed(self.limits)) if entry != 0 else entry


class _Perturbation(Rewriting):
    """A traversal that adds an unknown error to each operation of a formula; a scope has the index limits around,
    outermost first.
    """

    def __init__(self, body: Expr, indices: Sequence[Any]) -> None:
        super().__init__()
        self.indices = indices
        self.operations: list[_Operation] = []
        self.names = names_in([body])
        self.unknowns: dict[tuple[Any, tuple[Limit, ...]], Any] = {}

    # ------------------------------------------------------------ nodes

    def visit(self, expr: Any, scope: Any) -> Recursion[Any]:
        """Return `expr` with unknown errors added; integers, numbers and arguments are returned unchanged."""
        if isinstance(expr, Expr) and not isinstance(expr, TensorExpr) and self.is_exact(expr):
            return expr
        if isinstance(expr, Expr) and expr.is_number:
            weight = 1 if expr.is_Rational or expr.is_Float or expr.is_NumberSymbol else SPECIAL_WEIGHT
            return self.rounded(expr, expr, weight, sympy.Abs(expr), ())
        return (yield super().visit(expr, scope))

    def is_exact(self, expr: Any) -> bool:
        """Whether `expr` is an argument, an integer, or a number without rounding error."""
        if isinstance(expr, sympy.Symbol) or (isinstance(expr, TensorEntry) and expr.tensor.is_symbol):
            return True
        if expr.is_Rational or expr.is_Float:
            return _is_dyadic(expr)
        return bool(expr.is_integer) and not expr.atoms(sympy.Function)

    def addition(self, expr: Any, scope: Any) -> Recursion[Any]:
        """Return a sum with unknown errors; from three terms on, those of the partial sums, which may be larger than
        the result.
        """
        args = yield self.all(expr.args, scope)
        roundings = len(expr.args) - 1
        size = sympy.Abs(expr) if roundings == 1 else sympy.Add(*map(sympy.Abs, expr.args))
        return self.rounded(expr, sympy.Add(*args), roundings, size, scope)

    def product(self, expr: Any, scope: Any) -> Recursion[Any]:
        """Return a product with unknown errors; multiplying by a power of 2 has none."""
        args = yield self.all(expr.args, scope)
        exact = [arg for arg in expr.args if _is_power_of_two(arg)]
        return self.rounded(expr, sympy.Mul(*args), max(len(expr.args) - len(exact) - 1, 0), sympy.Abs(expr), scope)

    def power(self, expr: Any, scope: Any) -> Recursion[Any]:
        """Return a power with unknown errors: those of a root, of products, or of the function `pow` and its rounded
        exponent.
        """
        base, exponent = yield self.all(expr.args, scope)
        own = expr.exp
        if own.is_Integer or (own.is_Rational and own.q == 2 and abs(own) < 16):
            weight: Any = abs(int(own.p)) - int(own.q == 1) + int(own.p < 0)
        else:
            weight = ELEMENTARY_WEIGHT
            if own.is_number and not _is_dyadic(own):
                weight += sympy.Abs(own * sympy.log(sympy.Abs(expr.base)))
        return self.rounded(expr, base**exponent, weight, sympy.Abs(expr), scope)

    def function(self, expr: Any, scope: Any) -> Recursion[Any]:
        """Return the call of a function with the unknown error of its value."""
        if isinstance(expr, AppliedUndef):
            raise UnsupportedError(f"error_bound: {expr.func} has only a name, and no bound of its error is known")
        args = yield self.all(expr.args, scope)
        weight = 0 if expr.func in _EXACT else ELEMENTARY_WEIGHT if expr.func in _ELEMENTARY else SPECIAL_WEIGHT
        return self.rounded(expr, expr.func(*args), weight, sympy.Abs(expr), scope)

    def choice(self, expr: Any, scope: Any) -> Recursion[Any]:
        """Return a choice with unknown errors in its values; its conditions are unchanged."""
        values = yield self.all([pair.args[0] for pair in expr.args], scope)
        pairs = [(value, pair.args[1]) for value, pair in zip(values, expr.args, strict=True)]
        return sympy.Piecewise(*pairs, evaluate=False)

    def reduction(self, expr: Any, scope: Any) -> Recursion[Any]:
        """Return a sum, product or extremum with unknown errors; a sum of ``n`` terms rounds ``n - 1`` times, in any
        order.
        """
        expr = self.with_new_indices(expr, scope)
        inner = (*scope, *(tuple(limit) for limit in reversed(expr.limits)))
        body = yield self.visit(expr.body, inner)
        new = with_args(expr, (body, *expr.args[1:]))
        if isinstance(expr, (IndexedMax, IndexedMin)):
            return new
        is_product = isinstance(expr, IndexedProduct)
        size = sympy.Abs(expr) if is_product else IndexedSum(sympy.Abs(expr.body), *expr.limits)
        return self.rounded(expr, new, _count(expr) - 1, size, scope)

    def entry(self, expr: Any, scope: Any) -> Recursion[Any]:
        """Return an entry of a tensor with unknown errors in its formula; its indices are unchanged."""
        if not isinstance(expr.tensor, TensorComprehension):
            raise UnsupportedError(f"error_bound: the errors of {expr.tensor} depend on how it is computed")
        tensor = self.with_new_indices(expr.tensor, scope)
        body = yield self.visit(tensor.body, (*scope, *((k, sympy.S.Zero, n - 1) for k, n in tensor.limits)))
        return TensorEntry(TensorComprehension(body, *tensor.limits), *expr.args[1:])

    def with_new_indices(self, binder: Any, scope: tuple[Limit, ...]) -> Any:
        """Return `binder` with those of its indices renamed that ``scope`` binds already."""
        around = {*self.indices, *(limit[0] for limit in scope)}
        renamed = {}
        for index in around.intersection(binder.variables):
            name = next(name for n in count(1) if (name := f"{index.name}_{n}") not in self.names)
            self.names.add(name)
            renamed[index] = sympy.Symbol(name, integer=True)
        return binder.xreplace(renamed) if renamed else binder

    def other(self, expr: Any, scope: Any) -> Any:
        """Raise an error: the rounding error of this kind of expression is not known."""
        raise UnsupportedError(f"error_bound: the errors of {expr} depend on how it is computed")

    rules: ClassVar[Rules] = {
        sympy.Add: addition,
        sympy.Mul: product,
        sympy.Pow: power,
        sympy.exp: function,
        sympy.Piecewise: choice,
        sympy.Function: function,
        IndexedSum: reduction,
        IndexedProduct: reduction,
        IndexedMax: reduction,
        IndexedMin: reduction,
        TensorEntry: entry,
        Expr: other,
    }

    # ------------------------------------------------------------ unknowns

    def rounded(self, part: Any, value: Any, weight: Any, size: Any, scope: tuple[Limit, ...]) -> Any:
        """Return `value` plus a new, recorded unknown for the rounding error of ``part``; `value` itself if ``weight``
        is 0.
        """
        if weight == 0:
            return value
        used = [limit for limit in scope if limit[0] in part.free_symbols]
        limits, offsets, extents = [], [], []
        for n, (index, low, high) in enumerate(used):
            kept = {limit[0] for limit in used[:n]}
            ends = [_outermost(end, scope, kept, is_low) for end, is_low in ((low, True), (high, False))]
            limits.append((index, *ends))
            first, last = (
                _outermost(end, scope, set(), is_low) for end, is_low in zip(ends, (True, False), strict=True)
            )
            offsets.append(first)
            extents.append(last - first + 1)
        key = part, tuple(limits)
        if key not in self.unknowns:
            name = f"error_{len(self.unknowns)}"
            while name in self.names:
                name += "_"
            unknown = TensorSymbol(name, tuple(extents)) if extents else sympy.Symbol(name, real=True)
            self.unknowns[key] = unknown
            self.operations.append(_Operation(part, unknown, weight, size, tuple(limits), tuple(offsets)))
        unknown = self.unknowns[key]
        places = [limit[0] - offset for limit, offset in zip(limits, offsets, strict=True)]
        return value + (unknown[tuple(places)] if places else unknown)


def _count(reduction: Any) -> Any:
    """Return the number of terms of a reduction, at least 1, as an expression."""
    total: Any = sympy.S.One
    for _, low, high in reduction.limits:
        if {limit[0] for limit in reduction.limits} & (low.free_symbols | high.free_symbols):
            return IndexedSum(sympy.S.One, *reduction.limits)
        extent = high - low + 1
        is_whole = extent.is_number or extent.is_Symbol  # a size, which is positive
        total *= extent if is_whole else sympy.Max(extent, 1)
    return total


def _outermost(end: Any, scope: Sequence[Limit], kept: set[Any], is_low: bool) -> Any:
    """Return the smallest (`is_low`) or largest value of the affine `end` as the indices of ``scope`` vary, except
    those in `kept`.
    """
    end = sympy.sympify(end)
    for index, low, high in reversed(scope):
        if index in end.free_symbols and index not in kept:
            slope = end.coeff(index)
            if not slope.is_Integer or (end - slope * index).has(index):
                raise UnsupportedError(f"error_bound: the range that ends at {end} is not affine in {index}")
            end = end.subs(index, low if (slope > 0) == is_low else high)
    return end


def _is_dyadic(number: Any) -> bool:
    """Return whether `number` is an integer of at most 24 bits times a power of 2, so that float32 stores it
    exactly.
    """
    if not (number.is_Rational or number.is_Float):
        return False
    exact = sympy.Rational(number)
    return int(exact.q) & (int(exact.q) - 1) == 0 and abs(int(exact.p)).bit_length() <= 24


def _is_power_of_two(number: Any) -> bool:
    """Whether `number` is a rational power of 2, of either sign: products with it are exact."""
    if not number.is_Rational or number == 0:
        return False
    return all(int(abs(part)) & (int(abs(part)) - 1) == 0 for part in (number.p, number.q))


class _Restriction(Rewriting):
    """A traversal that sets the unknown errors in a derivative to 0."""

    def __init__(self, sweep: _Perturbation) -> None:
        super().__init__()
        self.unknowns = {operation.unknown for operation in sweep.operations}

    def symbol(self, expr: Any, scope: Any) -> Any:
        """Return 0 for an unknown number."""
        return sympy.S.Zero if expr in self.unknowns else expr

    def entry(self, expr: Any, scope: Any) -> Any:
        """Return 0 for an entry of a tensor of unknown errors; another entry with the unknowns in it set to 0."""
        if expr.tensor in self.unknowns:
            return sympy.S.Zero
        args = yield self.all(expr.args, scope)
        return with_args(expr, args)

    rules: ClassVar[Rules] = {TensorEntry: entry}
