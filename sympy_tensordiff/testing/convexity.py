"""Random functions with domains: a certificate of convexity against eigenvalues and midpoints in NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import sympy

from sympy_tensordiff.convex.api import certify_convex
from sympy_tensordiff.errors import DerivativeMismatch, UnsupportedError
from sympy_tensordiff.symbolic import entrywise_functions as entrywise
from sympy_tensordiff.symbolic import functions, reductions
from sympy_tensordiff.symbolic.indices import indices
from sympy_tensordiff.symbolic.scalar_functions import sigmoid, softplus
from sympy_tensordiff.symbolic.tensors import TensorSymbol

SIZES = {"n": 3, "m": 2}
POINTS = 200
_STEP = 2e-4
_SLACK = 1e-5

n, m = indices("n m")
X, y = TensorSymbol("X", (n, m)), TensorSymbol("y", n)
x, u, c, b = (TensorSymbol(name, m) for name in ("x", "u", "c", "b"))
lam = TensorSymbol("lam", ())
Values = Mapping[Any, Any]
Twin = tuple[Any, Callable[[Values], Any]]
"""An expression, and its value in NumPy: a vector has the points first."""


class Case(NamedTuple):
    """A function, its variables, the positive tensors among all, and bounds."""

    function: Any
    value: Callable[[Values], Any]
    variables: tuple[Any, ...]
    positive: tuple[Any, ...]
    bounds: dict[Any, tuple[int, int]]


def _softplus(t: Any) -> Any:
    return np.logaddexp(0, t)


EVERYWHERE: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    (entrywise.exp, np.exp),
    (softplus, _softplus),
    (lambda t: entrywise.log(1 + entrywise.exp(t)), _softplus),
    (lambda t: t**2, np.square),
    (lambda t: t**4, lambda t: t**4),
    (lambda t: t**3, lambda t: t**3),
    (lambda t: entrywise.sqrt(1 + t**2), lambda t: np.sqrt(1 + t**2)),
    (lambda t: entrywise.log(1 + t**2), lambda t: np.log(1 + t**2)),
    (lambda t: 1 / (1 + t**2), lambda t: 1 / (1 + t**2)),
    (entrywise.cosh, np.cosh),
    (lambda t: entrywise.log(entrywise.cosh(t)), lambda t: np.log(np.cosh(t))),
    (entrywise.tanh, np.tanh),
    (entrywise.sin, np.sin),
    (sigmoid, lambda t: 1 / (1 + np.exp(-t))),
    (entrywise.relu, lambda t: np.maximum(t, 0)),
    (abs, np.abs),
    (lambda t: t**2 - t, lambda t: t**2 - t),
    (lambda t: entrywise.exp(t) - t, lambda t: np.exp(t) - t),
    (lambda t: 1 / t**2, lambda t: 1 / t**2),
    (lambda t: entrywise.log(t**2), lambda t: np.log(t**2)),
)
WHERE_POSITIVE: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    (entrywise.log, np.log),
    (lambda t: -entrywise.log(t), lambda t: -np.log(t)),
    (lambda t: t * entrywise.log(t), lambda t: t * np.log(t)),
    (lambda t: 1 / t, lambda t: 1 / t),
    (entrywise.sqrt, np.sqrt),
    (lambda t: t ** sympy.Rational(3, 2), lambda t: t**1.5),
    (lambda t: t**3, lambda t: t**3),
    (lambda t: 1 / (1 + t), lambda t: 1 / (1 + t)),
)
SCALAR: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    (lambda t: entrywise.exp(t / 10), lambda t: np.exp(t / 10)),
    (softplus, _softplus),
    (lambda t: t**2, np.square),
    (lambda t: entrywise.sqrt(1 + t**2), lambda t: np.sqrt(1 + t**2)),
    (lambda t: entrywise.log(1 + t**2), lambda t: np.log(1 + t**2)),
    (lambda t: sympy.Max(t, 1), lambda t: np.maximum(t, 1)),
    (entrywise.tanh, np.tanh),
)


class _Maker:
    """Makes functions of a domain."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.is_positive = draw.random() < 0.4
        self.joint = draw.random() < 0.3
        self.bounds = {x: (-1, 1)} if not self.is_positive and draw.random() < 0.2 else {}

    def case(self) -> Case:
        function, value = self.scalar(2)
        variables = (x, u) if self.joint else (x,)
        return Case(function, value, variables, (c, lam, *((x,) if self.is_positive else ())), self.bounds)

    def affine(self) -> tuple[Twin, bool]:
        """An affine vector, and whether it is positive."""
        choices: list[tuple[Twin, bool]] = [
            ((X @ x, _rows), False),
            ((X @ x - y, lambda v: _rows(v) - v[y]), False),
            ((-y * (X @ x), lambda v: -v[y] * _rows(v)), False),
            ((x, lambda v: v[x]), self.is_positive),
            ((2 * x + 1, lambda v: 2 * v[x] + 1), self.is_positive),
            ((b - x, lambda v: v[b] - v[x]), False),
            ((x / c, lambda v: v[x] / v[c]), self.is_positive),
        ]
        if self.joint:
            choices += [((x - u, lambda v: v[x] - v[u]), False), ((u, lambda v: v[u]), False)] * 2
        return self.draw.choice(choices)

    def vector(self, depth: int) -> Twin:
        (made, value), positive = self.affine()
        for step in range(depth):
            table = WHERE_POSITIVE if positive and step == 0 and self.draw.random() < 0.6 else EVERYWHERE
            made, value = _after(self.draw.choice(table), (made, value))
        return made, value

    def total(self, depth: int) -> Twin:
        """A sum over a vector; over a product of two vectors now and then."""
        made, value = self.vector(depth)
        if self.draw.random() < 0.15:
            return functions.sum(made) * lam, lambda v: value(v).sum(-1) * v[lam]
        return functions.sum(made), lambda v: value(v).sum(-1)

    def scalar(self, depth: int) -> Twin:
        k = self.draw.random()
        if depth == 0 or k < 0.4:
            return self.total(self.draw.choice((1, 1, 2)))
        if k < 0.48:
            made, value = self.vector(self.draw.randint(0, 1))
            return functions.logsumexp(made), lambda v: np.log(np.exp(value(v)).sum(-1))
        if k < 0.54:
            (made, value), _ = self.affine()
            return reductions.norm(made), lambda v: np.sqrt((value(v) ** 2).sum(-1))
        if k < 0.6:
            made, value = self.vector(self.draw.randint(0, 1))
            return reductions.max(made), lambda v: value(v).max(-1)
        if k < 0.65:
            return self.special()
        if k < 0.78:
            return _after(self.draw.choice(SCALAR), self.scalar(depth - 1))
        (first, left), (second, right) = self.scalar(depth - 1), self.scalar(depth - 1)
        factor = self.draw.choice((1, 1, 1, 3, -1))
        return factor * first + second, lambda v: factor * left(v) + right(v)

    def special(self) -> Twin:
        """Functions of all entries at once."""
        dot = (functions.dot(x, x), lambda v: (v[x] ** 2).sum(-1))
        choices: list[Twin] = [
            (entrywise.sqrt(1 + dot[0]), lambda v: np.sqrt(1 + dot[1](v))),
            (functions.dot(X @ x, X @ x), lambda v: (_rows(v) ** 2).sum(-1)),
            (dot[0] / functions.sum(c), lambda v: dot[1](v) / v[c].sum()),
            (reductions.var(x), lambda v: v[x].var(-1)),
        ]
        if self.is_positive:
            choices += [
                (-entrywise.exp(functions.sum(entrywise.log(x)) / m), lambda v: -np.exp(np.log(v[x]).mean(-1))),
                (functions.sum(x**3) ** sympy.Rational(1, 3), lambda v: (v[x] ** 3).sum(-1) ** (1 / 3)),
                (1 / functions.sum(x), lambda v: 1 / v[x].sum(-1)),
            ]
            if self.joint:
                choices += [(functions.dot(u, u) / functions.sum(x), lambda v: (v[u] ** 2).sum(-1) / v[x].sum(-1))] * 4
        return self.draw.choice(choices)


def _rows(values: Values) -> Any:
    return values[x] @ values[X].T


def _after(pair: tuple[Callable[[Any], Any], Callable[[Any], Any]], inner: Twin) -> Twin:
    outer, numeric = pair
    made, value = inner
    return outer(made), lambda v: numeric(value(v))


def random_case(seed: int) -> Case:
    """A function with a domain.

    >>> random_case(1).function == random_case(1).function
    True
    """
    return _Maker(random.Random(seed)).case()


def least_curvature(case: Case, seed: int, points: int = POINTS) -> float:
    """The least eigenvalue over the points, relative to the size of the Hessian there; midpoints count as well."""
    generator = np.random.default_rng(seed)
    sizes = [SIZES["m"]] * len(case.variables)
    worst = 0.0
    with np.errstate(all="ignore"):
        for block in range(4):
            values = {X: generator.normal(size=(SIZES["n"], SIZES["m"])), y: generator.normal(size=SIZES["n"])}
            values |= {b: 1 + generator.normal(size=SIZES["m"]), c: generator.uniform(0.3, 2, SIZES["m"])}
            values |= {lam: generator.uniform(0.2, 2)}
            at = np.concatenate([_points(case, v, points // 4, generator) for v in case.variables], axis=1)

            def value(p: Any, values: Any = values) -> Any:
                parts = np.split(p, np.cumsum(sizes)[:-1], axis=1)
                return case.value({**values, **dict(zip(case.variables, parts, strict=True))})

            worst = min(worst, _eigenvalue(value, at), _midpoint(value, at, at[::-1]))
            del block
    return worst


def _points(case: Case, variable: Any, count: int, generator: Any) -> Any:
    size = (count, SIZES["m"])
    if variable in case.positive:
        return generator.uniform(0.05, 3, size)
    return generator.uniform(-0.95, 0.95, size) if variable in case.bounds else generator.normal(size=size) * 1.5


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
    return float((np.linalg.eigvalsh(fine[good])[:, 0] / scale[good]).min())


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
