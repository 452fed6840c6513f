"""Certificates of convexity of random functions against eigenvalues and midpoints in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sympy_tensordiff.convex.api import certify_convex
from sympy_tensordiff.errors import DerivativeMismatch, UnsupportedError

from .convex_functions import SIZES, A, Case, P, S, T, W, X, Y, b, c, lam, random_case, u, x, y

POINTS = 200
_STEP = 2e-4
_SLACK = 1e-5


def least_curvature(case: Case, seed: int, points: int = POINTS) -> float:
    """The least eigenvalue over the points, relative to the size of the Hessian there; midpoints count as well."""
    generator = np.random.default_rng(seed)
    n, m, k = SIZES.values()
    worst = 0.0
    with np.errstate(all="ignore"):
        for _ in range(4):
            normal = generator.normal
            values = {X: normal(size=(n, m)), y: normal(size=n), Y: normal(size=(n, k)), A: normal(size=(m, m))}
            values |= {b: 1 + normal(size=m), c: generator.uniform(0.3, 2, m), lam: generator.uniform(0.2, 2)}
            values |= {
                x: normal(size=m),
                u: normal(size=m),
                P: _definite(generator),
                T: (lambda half: half + half.T)(normal(size=(m, m))),
                S: _definite(generator),
                W: normal(size=(m, k)),
            }
            at = [_points(case, v, points // 4, generator) for v in case.variables]
            ends = np.cumsum([part.shape[1] for part in at])[:-1]

            def value(p: Any, values: Any = values, ends: Any = ends) -> Any:
                parts = zip(case.variables, np.split(p, ends, axis=1), strict=True)
                return case.value({**values, **{v: _shaped(v, part) for v, part in parts}})

            where = np.concatenate(at, axis=1)
            worst = min(worst, _eigenvalue(value, where), _midpoint(value, where, where[::-1]))
    return worst


def _definite(generator: Any, *first: int) -> Any:
    size = SIZES["m"]
    root = generator.normal(size=(*first, size, size))
    return root @ np.swapaxes(root, -1, -2) + 0.3 * np.eye(size)


def _points(case: Case, variable: Any, count: int, generator: Any) -> Any:
    """Points of a variable, a row of independent entries each."""
    shape = tuple(SIZES[str(extent)] for extent in variable.shape)
    if variable.symmetric:
        i, j = np.tril_indices(shape[0])
        return _definite(generator, count)[:, i, j]
    if variable in case.positive:
        return generator.uniform(0.05, 3, (count, *shape)).reshape(count, -1)
    if variable in case.bounds:
        low, high = map(float, case.bounds[variable])
        return generator.uniform(low + 0.05, high - 0.05, (count, *shape)).reshape(count, -1)
    return generator.normal(size=(count, *shape)).reshape(count, -1) * 1.5


def _shaped(variable: Any, rows: Any) -> Any:
    """The values of a variable, the points first, from rows of independent entries."""
    shape = tuple(SIZES[str(extent)] for extent in variable.shape)
    if not variable.symmetric:
        return rows.reshape(len(rows), *shape)
    i, j = np.tril_indices(shape[0])
    full = np.empty((len(rows), *shape))
    full[:, i, j] = full[:, j, i] = rows
    return full


def _eigenvalue(value: Callable[[Any], Any], at: Any) -> float:
    """The least relative eigenvalue of matrices of second differences, away from kinks."""
    size = at.shape[1]
    basis = np.eye(size)

    def second(step: float) -> Any:
        matrix = np.empty((len(at), size, size))
        for i in range(size):
            for j in range(i + 1):
                p, q = basis[i] * step, basis[j] * step
                quad = value(at + p + q) - value(at + p - q) - value(at - p + q) + value(at - p - q)
                matrix[:, i, j] = matrix[:, j, i] = quad / (4 * step**2)
        return matrix

    fine, coarse = second(_STEP), second(4 * _STEP)
    scale = np.abs(fine).max((1, 2)) + 1e-3 + np.abs(value(at)) / 10
    good = np.isfinite(fine).all((1, 2)) & (np.abs(fine - coarse).max((1, 2)) < 1e-3 * scale)
    if not good.any():
        return 0.0
    # What two steps differ by is the error of the differences: the third derivative of abs(t)**3 jumps at 0.
    error = np.abs(fine - coarse).sum((1, 2))[good]
    return float(((np.linalg.eigvalsh(fine[good])[:, 0] + error) / scale[good]).min())


def _midpoint(value: Callable[[Any], Any], first: Any, second: Any) -> float:
    """The least of (f(a) + f(b))/2 - f((a + b)/2), relative; a midpoint without a value is as bad as any."""
    ends, middle = (value(first), value(second)), value((first + second) / 2)
    good = np.isfinite(ends[0]) & np.isfinite(ends[1])
    if not good.any():
        return 0.0
    gap = (ends[0] + ends[1]) / 2 - middle
    relative = gap / (1 + np.abs(ends[0]) + np.abs(ends[1]))
    return float(np.where(np.isnan(relative), -1, relative)[good].min())


def check_convexity(seed: int) -> None:
    """Check the certificate of one random function.

    Raises
    ------
    DerivativeMismatch
        If it is certified and has a negative eigenvalue, or if the certificate is not the Hessian.
    UnsupportedError
        If it is convex at all points and not certified.
    """
    case = random_case(seed)
    certificate = certify_convex(case.function, case.variables, positive=case.positive, bounds=case.bounds)
    curvature = least_curvature(case, seed)
    if certificate:
        certificate.check()
        if curvature < -_SLACK:
            raise DerivativeMismatch(f"{case.function} is certified and has the relative curvature {curvature}")
    elif curvature >= -_SLACK:
        raise UnsupportedError(f"{case.function} is convex at all points that were tried: {certificate.reason}")
