"""A derivative against central differences."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy import Expr

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.derivative.api import jacobian, vjp
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, DerivativeMismatch, OutOfShapeError, ShapeError
from sympy_tensordiff.reference import tensors_of
from sympy_tensordiff.simplify.accesses import check_expression
from sympy_tensordiff.symbolic.base import no_variable, refuse_array
from sympy_tensordiff.symbolic.calls import explained
from sympy_tensordiff.symbolic.indices import as_expr, is_integer_in
from sympy_tensordiff.symbolic.lift import lift, lift_native
from sympy_tensordiff.symbolic.tensors import TensorExpr, TensorSymbol
from sympy_tensordiff.testing.values import call_arguments, random_values, shape_of, size_symbols

_STEP = 2.0**-12
_ATTEMPTS = 12
_SMALL = 96  # entries of the variable, up to which each is moved on its own
_SMALL_JACOBIAN = 20_000
_DIRECTIONS = 8
# The ranges that inputs are drawn from, in turn: roots and logarithms want positive ones.
_RANGES = ((-2.0, 2.0), (0.25, 1.75), (-0.9, 0.9), (1.25, 3.0))

FloatArray = NDArray[np.float64]


class SizeError(ArgumentError):
    """The sizes do not fit the expression: an axis would have no entries."""


_Pullback: TypeAlias = Callable[[dict[Any, Any], FloatArray], FloatArray]


class _Slope(NamedTuple):
    """Central differences along one direction and whether the function is smooth there."""

    value: FloatArray
    smooth: NDArray[np.bool_]
    noise: float


class Point:
    """An expression as a function of one of its variables, at one choice of the inputs."""

    def __init__(self, kernel: Callable[..., Any], arguments: list[Any], arrays: list[Any], wrt: Expr) -> None:
        self.kernel = kernel
        self.arrays = arrays
        self.position = arguments.index(wrt)
        self.is_symmetric = isinstance(wrt, TensorSymbol) and wrt.symmetric
        self.start = np.array(arrays[self.position], dtype=np.float64)
        self.value = self.at(self.start)

    def at(self, variable: FloatArray) -> FloatArray:
        """The value of the expression where the variable has another value."""
        arrays = list(self.arrays)
        arrays[self.position] = variable if variable.ndim else float(variable)
        with np.errstate(all="ignore"):
            return np.asarray(self.kernel(*arrays), dtype=np.float64)

    def slope(self, direction: FloatArray) -> _Slope:
        """The derivative along a direction (of a symmetric matrix: its symmetric part), from steps of two lengths."""
        direction = (direction + direction.T) / 2 if self.is_symmetric else direction
        step = _STEP * max(1.0, float(np.max(np.abs(self.start), initial=0.0)))
        coarse = [(self.at(self.start + sign * step * direction) - self.value) * sign / step for sign in (1, -1)]
        fine = [(self.at(self.start + sign * step / 2 * direction) - self.value) * sign * 2 / step for sign in (1, -1)]
        central = (fine[0] + fine[1]) / 2
        # Extrapolated, so that the error is of fourth order in the step.
        value = (4 * central - (coarse[0] + coarse[1]) / 2) / 3
        scale = float(np.max(np.abs(value), initial=0.0))
        noise = 1e-14 * float(np.max(np.abs(self.value), initial=0.0)) / step
        # The one-sided differences of a smooth function approach each other as the step shrinks.
        gap, gap_fine = abs(coarse[0] - coarse[1]), abs(fine[0] - fine[1])
        jumps = abs(central - (coarse[0] + coarse[1]) / 2) > 1e-4 * scale + noise
        smooth = ~((gap_fine > 0.75 * gap) & (gap_fine > 1e-7 * scale + noise)) & ~jumps
        return _Slope(value, smooth, noise)


@explained
def check_derivative(
    expression: Expr,
    wrt: Any,
    sizes: Mapping[Any, int] | None = None,
    seed: int = 0,
    rtol: float = 1e-6,
    *,
    derivative: Any = None,
) -> float:
    """Compare the derivative of an expression with central differences of its values.

    Every entry of the Jacobian is compared where it is small, otherwise pullbacks of random
    cotangents along random directions. Inputs at which the function has a kink or no value are
    drawn anew. A symmetric matrix moves symmetrically: both entries that are equal by half of a step.

    Parameters
    ----------
    expression : scalar or tensor expression
    wrt : TensorSymbol, scalar symbol, or a tuple of them
    sizes : mapping, optional
        The integer symbols; those left out are chosen.
    seed : int
    rtol : float
        Relative to the largest entry.
    derivative : expression, or tuple of expressions, optional
        What is to be the derivative by ``wrt``, of shape ``expression.shape + wrt.shape``: one that
        was found by hand, for one. Otherwise the package's own.

    Returns
    -------
    float
        The largest relative error.

    Raises
    ------
    DerivativeMismatch
        The message names the worst entry: its index, the derivative there and the difference
        quotient.
    ArgumentError
        No inputs or no sizes were found at which the function is differentiable.
    ShapeError
        ``derivative`` has another shape.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n = td.indices("n")
    >>> x = td.TensorSymbol("x", n)
    >>> td.check_derivative(td.sum(x**3), x) < 1e-9
    True
    >>> td.check_derivative(td.sum(x**3), x, {n: 2}, derivative=2*x**2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    sympy_tensordiff.errors.DerivativeMismatch: derivative by x: entry (0,) is 3.796..., expected 5.694... from ...
    """
    expression = lift(as_expr(expression, "the expression"))
    variables = tuple(wrt) if isinstance(wrt, (tuple, list, sympy.Tuple)) else (wrt,)
    for v in variables:
        refuse_array(v)
    variables = tuple(lift_native(v, tensors_of(expression)) for v in variables)
    if not variables:
        raise ArgumentError("there is no variable to differentiate by: give one, or a tuple of them")
    for v in variables:
        is_tensor = isinstance(v, TensorSymbol) and v.dtype is not int
        if not is_tensor and (not isinstance(v, sympy.Symbol) or is_integer_in(v, expression)):
            raise no_variable(v)
    if not isinstance(seed, int) or seed < 0 or not isinstance(rtol, (int, float)) or not rtol > 0:
        raise ArgumentTypeError(f"seed must be an int from 0 on and rtol a positive number, not {seed!r} and {rtol!r}")
    _check_sizes((expression, *variables), {} if sizes is None else sizes)
    check_expression(expression)
    claims = _claims(expression, variables, derivative, isinstance(wrt, (tuple, list, sympy.Tuple)))
    return max(
        _check_one(expression, v, dict(sizes or {}), seed, rtol, claim)
        for v, claim in zip(variables, claims, strict=True)
    )


def _claims(expression: Expr, variables: tuple[Expr, ...], derivative: Any, several: bool) -> list[Expr | None]:
    """What each derivative is to be, None where the caller has not said."""
    if derivative is None:
        return [None] * len(variables)
    given = tuple(derivative) if several and isinstance(derivative, (tuple, list, sympy.Tuple)) else (derivative,)
    if len(given) != len(variables):
        raise ArgumentError(
            f"derivative has {len(given)} expressions, {len(variables)} are needed, one for each of wrt"
        )
    claims = [lift(as_expr(claim, "the derivative")) for claim in given]
    for variable, claim in zip(variables, claims, strict=True):
        wanted = shape_of(expression) + shape_of(variable)
        if shape_of(claim) != wanted:
            raise ShapeError(f"the derivative by {variable} has the shape {wanted}, not {shape_of(claim)}")
    return claims


def _check_sizes(expressions: tuple[Expr, ...], sizes: Any) -> None:
    """The sizes that the caller has chosen are integers that leave every extent positive."""
    if not isinstance(sizes, Mapping):
        raise ArgumentTypeError(f"sizes must be a mapping from integer symbols to ints, not {sizes!r}")
    for symbol, value in sizes.items():
        if not isinstance(symbol, (sympy.Symbol, sympy.Idx)) or not is_integer_in(symbol, *expressions):
            raise ArgumentTypeError(f"sizes has the key {symbol!r}, which is no integer symbol")
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            raise ArgumentTypeError(f"the size {symbol} must be an int, not {value!r}")
    for tensor, extent in _extents(expressions):
        length = extent.subs(sizes)
        if length.is_Integer and length < 1:
            raise SizeError(f"the extent {extent} of {tensor} is {length} for sizes={sizes}; extents are positive")


def _extents(expressions: Iterable[Expr]) -> list[tuple[Expr, Expr]]:
    """All extents, with the tensors they belong to."""
    tensors = [t for t in (*expressions, *tensors_of(*expressions)) if isinstance(t, TensorExpr)]
    return [(tensor, extent) for tensor in tensors for extent in tensor.shape]


def _check_one(expression: Expr, wrt: Expr, sizes: dict[Any, int], seed: int, rtol: float, claim: Expr | None) -> float:
    involved = (expression, wrt) if claim is None else (expression, wrt, claim)
    points = _points(expression, wrt, involved, sizes, seed)
    first, values = next(points)
    dense = first.start.size <= _SMALL and first.start.size * first.value.size <= _SMALL_JACOBIAN
    table = _table(expression, wrt, claim, involved, values) if dense or claim is not None else None
    pullback = _pullback(expression, wrt, values, seed) if table is None else _contraction(table)
    for point, drawn in chain([(first, values)], points):
        if dense:
            assert table is not None
            got = table(drawn)
            expected, smooth, noise = _dense_differences(point)
        else:
            got, expected, smooth, noise = _directions(point, pullback, drawn, np.random.default_rng(seed))
        if smooth.all() and np.isfinite(expected).all():
            return _compare(got, expected, noise, rtol, wrt, "entry" if dense else "random direction")
    raise ArgumentError(f"no inputs found near which {expression} is smooth in {wrt}")


def _table(
    expression: Expr, wrt: Expr, claim: Expr | None, involved: tuple[Expr, ...], values: dict[Any, Any]
) -> Callable[[dict[Any, Any]], FloatArray]:
    """The whole Jacobian as a function of the inputs."""
    arguments, _ = call_arguments(involved, values)
    kernel = lambdify(arguments, jacobian(expression, wrt) if claim is None else claim, backend="numpy")
    return lambda drawn: np.asarray(kernel(*call_arguments(involved, drawn)[1]), dtype=np.float64)


def _pullback(expression: Expr, wrt: Expr, values: dict[Any, Any], seed: int) -> _Pullback:
    """The product of a cotangent with the Jacobian, which is never written down."""
    cotangent = TensorSymbol("cotangent", shape_of(expression))
    involved = (expression, wrt, cotangent)
    arguments, _ = call_arguments(involved, {**values, **random_values(cotangent, values, seed, "float")})
    kernel = lambdify(arguments, vjp(expression, wrt, cotangent), backend="numpy")
    return lambda drawn, weights: np.asarray(kernel(*call_arguments(involved, {**drawn, cotangent: weights})[1]))


def _contraction(table: Callable[[dict[Any, Any]], FloatArray]) -> _Pullback:
    """The product of a cotangent with a Jacobian that is written down."""
    return lambda drawn, weights: np.asarray(np.tensordot(weights, table(drawn), axes=weights.ndim), np.float64)


def _points(
    expression: Expr, wrt: Expr, involved: tuple[Expr, ...], sizes: dict[Any, int], seed: int
) -> Iterator[tuple[Point, dict[Any, Any]]]:
    """Inputs at which the expression is finite, up to a number of attempts."""
    kernel: Callable[..., Any] | None = None
    found = False
    for attempt in range(_ATTEMPTS):
        low, high = _RANGES[attempt % len(_RANGES)]
        for chosen in _choices(involved, sizes, seed + attempt):
            try:
                values = random_values(involved, chosen, seed + attempt, "float", low=low, high=high)
                arguments, arrays = call_arguments((expression, wrt), values)
                kernel = kernel or lambdify(arguments, expression, backend="numpy")
                point = Point(kernel, arguments, arrays, wrt)
            except (OutOfShapeError, ShapeError):
                if set(size_symbols(*involved)) <= set(sizes):
                    raise
                continue
            if np.isfinite(point.value).all():
                found = True
                yield point, values
            break
    if not found:
        raise ArgumentError(f"no inputs found at which {expression} has a finite value; pass sizes=")


def _choices(involved: tuple[Expr, ...], sizes: dict[Any, int], seed: int) -> Iterator[dict[Any, int]]:
    """Sizes and free indices to try: those given, the others at random."""
    generator = random.Random(seed)
    open_ = [s for s in size_symbols(*involved) if s not in sizes]
    extents = [extent for _, extent in _extents(involved)]
    for _ in range(200 if open_ else 1):
        chosen = {**sizes, **{s: generator.randint(1 if s.is_positive else 0, 6) for s in open_}}
        if all(extent.subs(chosen) >= 1 for extent in extents):
            yield chosen


def _dense_differences(point: Point) -> tuple[FloatArray, NDArray[np.bool_], float]:
    """The Jacobian by central differences, one entry of the variable at a time."""
    shape = point.value.shape + point.start.shape
    expected, smooth, noise = np.zeros(shape), np.ones(shape, dtype=bool), 0.0
    for position in np.ndindex(point.start.shape):
        direction = np.zeros(point.start.shape)
        direction[position] = 1.0
        slope = point.slope(direction)
        entry: Any = (..., *position)
        expected[entry], smooth[entry] = slope.value, slope.smooth
        noise = max(noise, slope.noise)
    return expected, smooth, noise


def _directions(
    point: Point, pullback: _Pullback, values: dict[Any, Any], generator: np.random.Generator
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_], float]:
    """Pullbacks of random cotangents along random directions, and their differences."""
    got, expected, smooth, noise = [], [], [], 0.0
    for _ in range(_DIRECTIONS):
        weights = generator.standard_normal(point.value.shape)
        direction = generator.standard_normal(point.start.shape)
        got.append(float(np.sum(pullback(values, weights) * direction)))
        slope = point.slope(direction)
        expected.append(float(np.sum(weights * slope.value)))
        smooth.append(bool(slope.smooth.all()))
        noise = max(noise, slope.noise * point.value.size)
    return np.array(got), np.array(expected), np.array(smooth), noise


def _compare(got: FloatArray, expected: FloatArray, noise: float, rtol: float, wrt: Expr, what: str) -> float:
    if got.shape != expected.shape:
        raise DerivativeMismatch(f"derivative by {wrt}: shape {got.shape}, expected {expected.shape}")
    error = np.where(np.isfinite(got), abs(got - expected), np.inf)
    scale = float(np.max(abs(expected), initial=0.0))
    if error.size and not error.max() <= rtol * scale + noise:
        where = tuple(int(n) for n in np.unravel_index(int(np.argmax(error)), error.shape))
        relative = error[where] / (scale or 1.0)
        raise DerivativeMismatch(
            f"derivative by {wrt}: {what} {where} is {got[where]:.10g}, "
            f"expected {expected[where]:.10g} from central differences, relative error {relative:.3g}"
        )
    # Relative to what decides above, so that it is below rtol also where the derivative is 0.
    return float(error.max(initial=0.0)) / (scale + noise / rtol or 1.0)
