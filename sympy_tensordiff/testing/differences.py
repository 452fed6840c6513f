"""Checks of derivatives against central differences."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import sympy
from sympy import Expr

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.derivative.api import jacobian, vjp
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, DerivativeMismatch, OutOfShapeError, ShapeError
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.reference import tensors_of
from sympy_tensordiff.simplify.accesses import check_expression
from sympy_tensordiff.symbolic.conversion.lift import lift, lift_native
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.base import no_variable, refuse_array
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.integer_symbols import is_integer_in
from sympy_tensordiff.symbolic.expressions.traversal import scans_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorExpr, TensorSymbol
from sympy_tensordiff.testing.values import call_arguments, random_values, shape_of, size_symbols

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEP = 2.0**-12
_MAX_ATTEMPTS = 12
_MAX_DENSE_ENTRIES = 96  # larger variables are checked along random directions instead of entry by entry
_MAX_DENSE_JACOBIAN = 20_000
_DIRECTION_COUNT = 8
# Ranges of random inputs, used in turn: roots and logarithms need positive ones.
_RANGES = ((-2.0, 2.0), (0.25, 1.75), (-0.9, 0.9), (1.25, 3.0))

FloatArray: TypeAlias = "NDArray[np.float64]"


class SizeError(ArgumentError):
    """The sizes do not fit the expression: an axis would have no entries."""


_Pullback: TypeAlias = Callable[[dict[Any, Any], FloatArray], FloatArray]


class _Slope(NamedTuple):
    """The result of a difference quotient along one direction: the derivative of each entry, whether the function is
    smooth there, and an estimate of the rounding errors.
    """

    value: FloatArray
    smooth: NDArray[np.bool_]
    noise: float


class Point:
    """An expression as a function of one of its variables, at a random point: all other inputs have fixed values."""

    def __init__(self, kernel: Callable[..., Any], arguments: list[Any], arrays: list[Any], wrt: Expr) -> None:
        self.kernel = kernel
        self.arrays = arrays
        self.position = arguments.index(wrt)
        self.is_symmetric = isinstance(wrt, TensorSymbol) and wrt.symmetric
        self.start = np.array(arrays[self.position], dtype=np.float64)
        self.value = self.evaluate(self.start)

    def evaluate(self, variable: FloatArray) -> FloatArray:
        """Return the value of the expression at another value of the variable."""
        arrays = list(self.arrays)
        arrays[self.position] = variable if variable.ndim else float(variable)
        with np.errstate(all="ignore"):
            return np.asarray(self.kernel(*arrays), dtype=np.float64)

    def slope(self, direction: FloatArray) -> _Slope:
        """Return the derivative along ``direction`` by central differences, extrapolated from two step lengths. For a
        symmetric variable the direction is made symmetric.
        """
        direction = (direction + direction.T) / 2 if self.is_symmetric else direction
        step = _STEP * max(1.0, float(np.max(np.abs(self.start), initial=0.0)))
        coarse = [(self.evaluate(self.start + sign * step * direction) - self.value) * sign / step for sign in (1, -1)]
        fine = [
            (self.evaluate(self.start + sign * step / 2 * direction) - self.value) * sign * 2 / step for sign in (1, -1)
        ]
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
    """Compare the derivative of ``expression`` with respect to ``wrt`` with central differences of its values, at a
    random point. Return the relative error; raise `DerivativeMismatch` if it exceeds ``rtol``.

    Each entry of a small Jacobian is compared, of a large one pullbacks of random cotangents along random directions.
    Inputs at which the function has a kink or no value are drawn again. A symmetric matrix is changed symmetrically:
    two equal entries by half a step each.

    Parameters
    ----------
    expression : Expr, a scalar or a tensor
    wrt : TensorSymbol, scalar symbol, or a tuple of them
    sizes : mapping, optional
        The integer symbols; those left out are chosen.
    seed : int
    rtol : float
        Relative to the largest entry.
    derivative : Expr or tuple of Expr, optional
        The derivative to check, of shape ``expression.shape + wrt.shape``, for example one derived by hand. By default
        the derivative that the package computes.

    Raises
    ------
    DerivativeMismatch
        If they differ; the message names the worst entry, the derivative there and the difference quotient.
    ArgumentError
        If no inputs or no sizes are found at which the function is differentiable.
    ShapeError
        If ``derivative`` has another shape.

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
    sympy_tensordiff.errors.DerivativeMismatch: derivative with respect to x: entry (0,) is 3.796..., expected 5.694...
    """
    expression = lift(as_expr(expression, "the expression"))
    variables = tuple(wrt) if isinstance(wrt, (tuple, list, sympy.Tuple)) else (wrt,)
    for v in variables:
        refuse_array(v)
    variables = tuple(lift_native(v, tensors_of(expression)) for v in variables)
    if not variables:
        raise ArgumentError("there is no variable to differentiate with respect to: give one, or a tuple of them")
    for v in variables:
        is_tensor = isinstance(v, TensorSymbol) and v.dtype is not int
        if not is_tensor and (not isinstance(v, sympy.Symbol) or is_integer_in(v, expression)):
            raise no_variable(v)
    if not isinstance(seed, int) or seed < 0 or not isinstance(rtol, (int, float)) or not rtol > 0:
        raise ArgumentTypeError(f"seed must be an int from 0 on and rtol a positive number, not {seed!r} and {rtol!r}")
    _check_sizes((expression, *variables), {} if sizes is None else sizes)
    check_expression(expression)
    candidates = _read_given_derivatives(expression, variables, derivative, isinstance(wrt, (tuple, list, sympy.Tuple)))
    return max(
        _check_variable(expression, v, dict(sizes or {}), seed, rtol, candidate)
        for v, candidate in zip(variables, candidates, strict=True)
    )


def _read_given_derivatives(
    expression: Expr, variables: tuple[Expr, ...], derivative: Any, is_sequence: bool
) -> list[Expr | None]:
    """Return for each of ``variables`` the derivative of ``expression`` that the user gave in ``derivative``, to be
    checked; None if none was given. Raise an error for a wrong number or shape.

    ``is_sequence`` allows a sequence of derivatives.
    """
    if derivative is None:
        return [None] * len(variables)
    given = tuple(derivative) if is_sequence and isinstance(derivative, (tuple, list, sympy.Tuple)) else (derivative,)
    if len(given) != len(variables):
        raise ArgumentError(
            f"derivative has {len(given)} expressions, {len(variables)} are needed, one for each of wrt"
        )
    candidates = [lift(as_expr(candidate, "the derivative")) for candidate in given]
    for variable, candidate in zip(variables, candidates, strict=True):
        expected_shape = shape_of(expression) + shape_of(variable)
        if shape_of(candidate) != expected_shape:
            raise ShapeError(
                f"the derivative with respect to {variable} has the shape {expected_shape}, not {shape_of(candidate)}"
            )
    return candidates


def _check_sizes(expressions: tuple[Expr, ...], sizes: Any) -> None:
    """Raise an error if a size in ``sizes`` is not an integer symbol with an int, or if some axis of ``expressions``
    would have no entries.
    """
    if not isinstance(sizes, Mapping):
        raise ArgumentTypeError(f"sizes must be a mapping from integer symbols to ints, not {sizes!r}")
    for symbol, value in sizes.items():
        if not isinstance(symbol, (sympy.Symbol, sympy.Idx)) or not is_integer_in(symbol, *expressions):
            raise ArgumentTypeError(f"sizes has the key {symbol!r}, which is not an integer symbol")
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            raise ArgumentTypeError(f"the size {symbol} must be an int, not {value!r}")
    for tensor, extent in _extents(expressions):
        length = extent.subs(sizes)
        if length.is_Integer and length < 1:
            raise SizeError(f"the extent {extent} of {tensor} is {length} for sizes={sizes}; extents are positive")


def _extents(expressions: Iterable[Expr]) -> list[tuple[Expr, Expr]]:
    """Return a pair ``(tensor, extent)`` for each axis of each tensor in ``expressions``."""
    tensors = [t for t in (*expressions, *tensors_of(*expressions)) if isinstance(t, TensorExpr)]
    return [(tensor, extent) for tensor in tensors for extent in tensor.shape]


def _check_variable(
    expression: Expr, wrt: Expr, sizes: dict[Any, int], seed: int, rtol: float, candidate: Expr | None
) -> float:
    """Compare the derivative of ``expression`` with respect to ``wrt`` with finite differences at a random point, and
    return the relative error. ``candidate`` is the user's derivative, or None for that of this package.

    ``expression`` is smooth near the point.
    """
    expressions = (expression, wrt) if candidate is None else (expression, wrt, candidate)
    points = _draw_points(expression, wrt, expressions, sizes, seed)
    first, values = next(points)
    is_dense = first.start.size <= _MAX_DENSE_ENTRIES and first.start.size * first.value.size <= _MAX_DENSE_JACOBIAN
    compute_jacobian = None
    if candidate is None and scans_in([expression]):  # they have products with a derivative only
        pullback = _compile_pullback(expression, wrt, values, seed)
        compute_jacobian = _jacobian_from_pullback(pullback, first.value.shape)
    elif is_dense or candidate is not None:
        compute_jacobian = _compile_jacobian(expression, wrt, candidate, expressions, values)
        pullback = _pullback_from_jacobian(compute_jacobian)
    else:
        pullback = _compile_pullback(expression, wrt, values, seed)
    for point, drawn in chain([(first, values)], points):
        if is_dense:
            assert compute_jacobian is not None
            actual = compute_jacobian(drawn)
            expected, smooth, noise = _dense_differences(point)
        else:
            actual, expected, smooth, noise = _directional_differences(
                point, pullback, drawn, np.random.default_rng(seed)
            )
        if smooth.all() and np.isfinite(expected).all():
            return _check_error(actual, expected, noise, rtol, wrt, "entry" if is_dense else "random direction")
    raise ArgumentError(f"no inputs found near which {expression} is smooth in {wrt}")


def _compile_jacobian(
    expression: Expr, wrt: Expr, candidate: Expr | None, expressions: tuple[Expr, ...], values: dict[Any, Any]
) -> Callable[[dict[Any, Any]], FloatArray]:
    """Return a function that computes the Jacobian of ``expression`` with respect to ``wrt`` as an array, from a
    dictionary with the values of all variables in ``expressions``.

    If it is given, the user's derivative ``candidate`` is computed instead. ``values`` is an example of such a
    dictionary.
    """
    arguments, _ = call_arguments(expressions, values)
    kernel = lambdify(arguments, jacobian(expression, wrt) if candidate is None else candidate, backend="numpy")
    return lambda drawn: np.asarray(kernel(*call_arguments(expressions, drawn)[1]), dtype=np.float64)


def _compile_pullback(expression: Expr, wrt: Expr, values: dict[Any, Any], seed: int) -> _Pullback:
    """Return a function ``(inputs, cotangent)`` that multiplies the cotangent by the Jacobian of ``expression`` with
    respect to ``wrt``, without building the Jacobian (vjp). ``values`` is an example of the inputs.
    """
    cotangent = TensorSymbol("cotangent", shape_of(expression))
    expressions = (expression, wrt, cotangent)
    arguments, _ = call_arguments(expressions, {**values, **random_values(cotangent, values, seed, "float")})
    kernel = lambdify(arguments, vjp(expression, wrt, cotangent), backend="numpy")
    return lambda drawn, weights: np.asarray(kernel(*call_arguments(expressions, {**drawn, cotangent: weights})[1]))


def _jacobian_from_pullback(pullback: _Pullback, shape: tuple[int, ...]) -> Callable[[dict[Any, Any]], FloatArray]:
    """Return a function that computes the Jacobian row by row, with one pullback (vjp) for each entry of a value of
    ``shape``.
    """

    def compute_jacobian(drawn: dict[Any, Any]) -> FloatArray:
        """Return the Jacobian at the inputs ``drawn``, computed row by row with one pullback (vjp) for each entry of
        the value.
        """
        units = np.eye(int(np.prod(shape, dtype=int))).reshape(-1, *shape)
        rows = np.array([pullback(drawn, unit) for unit in units], np.float64)
        return rows.reshape((*shape, *rows.shape[1:]))

    return compute_jacobian


def _pullback_from_jacobian(compute_jacobian: Callable[[dict[Any, Any]], FloatArray]) -> _Pullback:
    """Return the pullback as a function of an input and a cotangent: it computes the whole Jacobian by
    ``compute_jacobian``, and multiplies the cotangent by it.
    """
    return lambda drawn, weights: np.asarray(
        np.tensordot(weights, compute_jacobian(drawn), axes=weights.ndim), np.float64
    )


def _draw_points(
    expression: Expr, wrt: Expr, expressions: tuple[Expr, ...], sizes: dict[Any, int], seed: int
) -> Iterator[tuple[Point, dict[Any, Any]]]:
    """Yield pairs ``(point, values)``: a random `Point` at which ``expression``, as a function of ``wrt``, is finite,
    and the values of all inputs of ``expressions`` there. Raise `ArgumentError` if none is found.
    """
    kernel: Callable[..., Any] | None = None
    found = False
    for attempt in range(_MAX_ATTEMPTS):
        low, high = _RANGES[attempt % len(_RANGES)]
        for all_sizes in _draw_sizes(expressions, sizes, seed + attempt):
            try:
                values = random_values(expressions, all_sizes, seed + attempt, "float", low=low, high=high)
                arguments, arrays = call_arguments((expression, wrt), values)
                kernel = kernel or lambdify(arguments, expression, backend="numpy")
                point = Point(kernel, arguments, arrays, wrt)
            except (OutOfShapeError, ShapeError):
                if set(size_symbols(*expressions)) <= set(sizes):
                    raise
                continue
            if np.isfinite(point.value).all():
                found = True
                yield point, values
            break
    if not found:
        raise ArgumentError(f"no inputs found at which {expression} has a finite value; pass sizes=")


def _draw_sizes(expressions: tuple[Expr, ...], sizes: dict[Any, int], seed: int) -> Iterator[dict[Any, int]]:
    """Yield values of the sizes and free indices of ``expressions`` to try: those in ``sizes``, and random ones for the
    others.
    """
    generator = random.Random(seed)
    free_sizes = [s for s in size_symbols(*expressions) if s not in sizes]
    extents = [extent for _, extent in _extents(expressions)]
    for _ in range(200 if free_sizes else 1):
        all_sizes = {**sizes, **{s: generator.randint(1 if s.is_positive else 0, 6) for s in free_sizes}}
        if all(extent.subs(all_sizes) >= 1 for extent in extents):
            yield all_sizes


def _dense_differences(point: Point) -> tuple[FloatArray, NDArray[np.bool_], float]:
    """Return ``(Jacobian by central differences, whether each entry is smooth, size of rounding errors)`` of the
    function at ``point``.
    """
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


def _directional_differences(
    point: Point, pullback: _Pullback, values: dict[Any, Any], generator: np.random.Generator
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_], float]:
    """Return ``(derivatives by the pullback, the same by central differences, whether each is smooth, size of rounding
    errors)`` at a ``point``, for a few random directions and cotangents.

    ``generator`` makes the random numbers; ``values`` are those of all symbols.
    """
    actual, expected, smooth, noise = [], [], [], 0.0
    for _ in range(_DIRECTION_COUNT):
        weights = generator.standard_normal(point.value.shape)
        direction = generator.standard_normal(point.start.shape)
        actual.append(float(np.sum(pullback(values, weights) * direction)))
        slope = point.slope(direction)
        expected.append(float(np.sum(weights * slope.value)))
        smooth.append(bool(slope.smooth.all()))
        noise = max(noise, slope.noise * point.value.size)
    return np.array(actual), np.array(expected), np.array(smooth), noise


def _check_error(
    actual: FloatArray, expected: FloatArray, noise: float, rtol: float, wrt: Expr, description: str
) -> float:
    """Return the largest error of ``actual`` relative to ``expected``; raise `DerivativeMismatch` if an error exceeds
    ``rtol`` times the largest entry, plus the rounding errors ``noise``. ``description`` is the word for an entry in
    the message.
    """
    if actual.shape != expected.shape:
        raise DerivativeMismatch(f"derivative with respect to {wrt}: shape {actual.shape}, expected {expected.shape}")
    error = np.where(np.isfinite(actual), abs(actual - expected), np.inf)
    scale = float(np.max(abs(expected), initial=0.0))
    if error.size and not error.max() <= rtol * scale + noise:
        worst = tuple(int(n) for n in np.unravel_index(int(np.argmax(error)), error.shape))
        relative = error[worst] / (scale or 1.0)
        raise DerivativeMismatch(
            f"derivative with respect to {wrt}: {description} {worst} is {actual[worst]:.10g}, "
            f"expected {expected[worst]:.10g} from central differences, relative error {relative:.3g}"
        )
    # Relative to the bound above, so that it is below rtol also if the derivative is 0.
    return float(error.max(initial=0.0)) / (scale + noise / rtol or 1.0)
