"""Exact derivatives of anything the interpreter evaluates, by dual numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import sympy
from sympy import Expr

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.reference.duals import Dual, Key, Number, primal
from sympy_tensordiff.reference.interpreter import Interpreter, to_exact
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

if TYPE_CHECKING:
    from numpy.typing import NDArray


def differentiate(
    expression: Expr, wrt: Expr, values: Mapping[Any, Any], sizes: Mapping[Any, Any] | None = None
) -> NDArray[np.object_]:
    """Return the Jacobian of ``expression`` at ``values`` as an object array: axes of the expression first, of ``wrt``
    last.

    `values` and `sizes` are those of `evaluate`.

    Notes
    -----
    At kinks: ``abs'(0) = 0``; in ``Max`` and ``Min`` a number wins a tie, otherwise tied
    arguments share the derivative equally; ``sign``, ``floor``, ``Heaviside`` and comparisons
    have derivative 0.
    """
    return derivative(expression, (wrt,), values, sizes)


def derivative(
    expression: Expr,
    variables: Sequence[Expr],
    values: Mapping[Any, Any],
    sizes: Mapping[Any, Any] | None = None,
    *,
    total: bool = False,
) -> NDArray[np.object_]:
    """Return the derivative of ``expression`` at ``values`` with respect to ``variables``, one after the other, as an
    object array. Its last axes are those of the variables, in this order. With `total`, reads out of bounds are 0.
    """
    with Interpreter((expression,), values, sizes, total=total) as interpreter:
        shapes = [
            _make_dual(interpreter, wrt, level, _one_key_per_entry(())) for level, wrt in enumerate(variables, start=1)
        ]
        return _to_dense(interpreter.run(expression), tuple(reversed(shapes)))


def hessian(
    expression: Expr,
    wrt: Expr,
    values: Mapping[Any, Any],
    sizes: Mapping[Any, Any] | None = None,
    second: Expr | None = None,
) -> NDArray[np.object_]:
    """Return the second derivative of ``expression`` at ``values``, with respect to ``wrt`` and then ``second``
    (default: ``wrt``).
    """
    return derivative(expression, (wrt, wrt if second is None else second), values, sizes)


def hvp(
    expression: Expr,
    directions: Mapping[Any, Any],
    values: Mapping[Any, Any],
    sizes: Mapping[Any, Any] | None = None,
    *,
    total: bool = False,
) -> list[tuple[NDArray[np.object_], NDArray[np.object_]]]:
    """Return a pair for each variable in `directions`: the gradient of the scalar ``expression`` at ``values`` with
    respect to it, and the derivative of this gradient along all directions.

    `directions` maps variables to arrays with their shapes. With ``total``, reads out of bounds are 0.

    `values`, `sizes` and `total` are those of `evaluate`.
    """
    with Interpreter((expression,), values, sizes, total=total) as interpreter:
        shapes = []
        for n, (wrt, direction) in enumerate(directions.items()):
            _make_dual(interpreter, wrt, 1, _one_key_along(np.asarray(direction, dtype=object)))
            shapes.append(_make_dual(interpreter, wrt, 2, _one_key_per_entry((n,))))
        number = interpreter.run(expression)
    result = [(np.full(shape, 0, dtype=object), np.full(shape, 0, dtype=object)) for shape in shapes]
    if isinstance(number, Dual) and number.level == 2:
        for (n, *position), slope in number.parts.items():
            first, second = result[n]
            first[tuple(position)] = primal(slope)
            second[tuple(position)] = slope.parts.get((), 0) if isinstance(slope, Dual) else 0
    return [(to_exact(first), to_exact(second)) for first, second in result]


SeedRule: TypeAlias = Callable[[tuple[int, ...]], tuple[Key, Number]]
"""Returns the key and the coefficient of the derivative of the entry at a position."""


def _one_key_per_entry(prefix: Key) -> SeedRule:
    """Return the seed rule for the derivatives with respect to all entries at once: the dual number at ``position``
    gets a key of its own, ``(*prefix, *position)``, with the coefficient 1.
    """
    return lambda position: (prefix + position, 1)


def _one_key_along(direction: NDArray[np.object_]) -> SeedRule:
    """Return the seed rule for the derivative along `direction`: the dual number at ``position`` gets the key ``()``,
    common to all entries, with the coefficient ``direction[position]``.
    """
    return lambda position: ((), direction[position])


def _make_dual(interpreter: Interpreter, wrt: Expr, level: int, seed: SeedRule) -> tuple[int, ...]:
    """Replace the values of the variable ``wrt`` in ``interpreter`` by dual numbers, and return its shape. Raise
    `ArgumentError` if ``wrt`` has no value or no derivative.

    ``level`` is 1 for first derivatives; the function `seed` gives each entry its differentials.
    """
    if isinstance(wrt, TensorSymbol) and wrt.dtype is int:
        raise ArgumentError(f"{wrt} is a tensor of integers: there is no derivative with respect to it")
    if wrt in interpreter.arrays:
        array = interpreter.arrays[wrt]
        # Equal entries of a symmetric matrix each get half of the derivative.
        is_symmetric = isinstance(wrt, TensorSymbol) and wrt.symmetric
        for position in np.ndindex(array.shape):
            parts = dict([seed(position)])
            if is_symmetric and position != position[::-1]:
                parts = {key: slope * Fraction(1, 2) for key, slope in parts.items()}
                key, slope = seed(position[::-1])
                parts[key] = parts.get(key, 0) + slope * Fraction(1, 2)
            array[position] = Dual(array[position], parts, level)
        return array.shape
    if isinstance(wrt, TensorSymbol):
        raise ArgumentError(f"no value given for the tensor {wrt}")
    if wrt not in interpreter.numbers or not isinstance(wrt, sympy.Symbol) or wrt.is_integer:
        raise ArgumentError(f"{wrt} is neither a tensor symbol nor a scalar symbol with a value")
    interpreter.numbers[wrt] = Dual(interpreter.numbers[wrt], dict([seed(())]), level)
    return ()


def _to_dense(result: Any, shapes: tuple[tuple[int, ...], ...]) -> NDArray[np.object_]:
    """Return the derivatives in ``result``, an array of dual numbers, as a dense array. Its axes are those of
    ``result``, then those of the variables. ``shapes`` has the shapes of the variables, the last one first.
    """
    entries = np.asarray(result, dtype=object)
    outer = entries.shape
    jacobian = np.full(outer + tuple(n for shape in reversed(shapes) for n in shape), 0, dtype=object)
    for position in np.ndindex(outer):
        for index, coefficient in _coefficients(entries[position], len(shapes)):
            jacobian[position + index] = coefficient
    return to_exact(jacobian)  # type: ignore[no-any-return]


def _coefficients(number: Number, level: int) -> list[tuple[tuple[int, ...], Number]]:
    """Return the mixed derivatives of the highest order in a dual number, as pairs ``(index, derivative)``; [] if it
    contains none. ``level`` is the depth to which dual numbers are nested.
    """
    if level == 0:
        return [((), number)]
    if not isinstance(number, Dual) or number.level != level:
        return []
    return [
        (inner + key, coefficient)
        for key, part in number.parts.items()
        for inner, coefficient in _coefficients(part, level - 1)
    ]
