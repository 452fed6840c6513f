"""Random functions with domains, of vectors and matrices, as expressions and as NumPy functions of many points."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import sympy

from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors import entrywise_functions as entrywise
from sympy_tensordiff.symbolic.whole_tensors import functions, reductions
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import sigmoid, softplus

SIZES = {"n": 3, "m": 2, "k": 2}

n, m, k = indices("n m k")
X, y = TensorSymbol("X", (n, m)), TensorSymbol("y", n)
W, Y, A = TensorSymbol("W", (m, k)), TensorSymbol("Y", (n, k)), TensorSymbol("A", (m, m))
S, P = (TensorSymbol(name, (m, m), positive=True) for name in "SP")
T = TensorSymbol("T", (m, m), symmetric=True)
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
    bounds: dict[Any, tuple[Any, Any]]


def _huber(t: Any) -> Any:
    return sympy.Piecewise((t**2 / 2, abs(t) < 1), (abs(t) - sympy.Rational(1, 2), True))


def _half_square(t: Any) -> Any:
    return sympy.Piecewise((t**2, t < 1), (2 * t - 1, True))


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
    (lambda t: abs(t) ** 3, lambda t: np.abs(t) ** 3),
    (lambda t: abs(t) ** sympy.Rational(3, 2), lambda t: np.abs(t) ** 1.5),
    (lambda t: entrywise.sqrt(abs(t)), lambda t: np.sqrt(np.abs(t))),
    (lambda t: -entrywise.log(1 - entrywise.exp(-entrywise.exp(t))), lambda t: -np.log(-np.expm1(-np.exp(t)))),
    (lambda t: entrywise.elementwise(_huber, t), lambda t: np.where(np.abs(t) < 1, t**2 / 2, np.abs(t) - 0.5)),
    (lambda t: entrywise.elementwise(_half_square, t), lambda t: np.where(t < 1, t**2, 2 * t - 1)),
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


def _residual(values: Values) -> Any:
    return values[X] @ values[W] - values[Y]


def _form(left: Any, matrix: Any, right: Any) -> Any:
    return np.einsum("...i,...ij,...j->...", left, matrix, right)


def _trace(*matrices: Any) -> Any:
    product = matrices[0]
    for matrix in matrices[1:]:
        product = product @ matrix
    return np.trace(product, axis1=-2, axis2=-1)


def _turned(matrix: Any) -> Any:
    return np.swapaxes(matrix, -1, -2)


def _logdet(values: Values) -> Any:
    return np.linalg.slogdet(values[S])[1]


def _inverse(values: Values) -> Any:
    return np.linalg.inv(values[S])


def _inverse_of_sum(values: Values) -> Any:
    return np.linalg.inv(2 * values[S] + values[P])


def _inverse_of_difference(values: Values) -> Any:
    return np.linalg.inv(values[S] - values[P] / 9)


OF_GENERAL: tuple[tuple[Callable[[], Any], Callable[[Values], Any]], ...] = (
    (lambda: reductions.norm(X @ W - Y) ** 2, lambda v: (_residual(v) ** 2).sum((-1, -2))),
    (lambda: reductions.norm(X @ W - Y), lambda v: np.sqrt((_residual(v) ** 2).sum((-1, -2)))),
    (lambda: functions.trace(W.T @ W), lambda v: (v[W] ** 2).sum((-1, -2))),
    (lambda: lam * functions.trace(W.T @ W), lambda v: v[lam] * (v[W] ** 2).sum((-1, -2))),
    (lambda: entrywise.sqrt(1 + functions.trace(W.T @ W)), lambda v: np.sqrt(1 + (v[W] ** 2).sum((-1, -2)))),
    (lambda: functions.trace(W.T @ P @ W), lambda v: _trace(_turned(v[W]), v[P], v[W])),
    (lambda: entrywise.sqrt(functions.trace(W.T @ P @ W)), lambda v: np.sqrt(_trace(_turned(v[W]), v[P], v[W]))),
    (lambda: functions.trace(W.T @ T @ W), lambda v: _trace(_turned(v[W]), v[T], v[W])),
    (lambda: functions.trace(W.T @ A @ A.T @ W), lambda v: ((v[A].T @ v[W]) ** 2).sum((-1, -2))),
    (lambda: functions.trace(A @ W @ W.T), lambda v: _trace(v[A], v[W], _turned(v[W]))),
    (
        lambda: reductions.sum(reductions.logsumexp(X @ W, axis=1)),
        lambda v: np.log(np.exp(v[X] @ v[W]).sum(-1)).sum(-1),
    ),
    (lambda: functions.dot(x, W @ reductions.sum(W, axis=0)), lambda v: _form(v[x], v[W], v[W].sum(-2))),
    (lambda: functions.dot(W.T @ x, W.T @ x), lambda v: ((_turned(v[W]) @ v[x][..., None]) ** 2).sum((-1, -2))),
    (lambda: functions.dot(x, x), lambda v: (v[x] ** 2).sum(-1)),
    (lambda: reductions.max(W), lambda v: v[W].max((-1, -2))),
)
"""Functions of a general matrix, and of a vector."""

OF_DEFINITE: tuple[tuple[Callable[[], Any], Callable[[Values], Any]], ...] = (
    (lambda: -functions.logdet(S), lambda v: -_logdet(v)),
    (lambda: functions.logdet(S), _logdet),
    (lambda: 1 / functions.det(S), lambda v: np.exp(-_logdet(v))),
    (lambda: functions.det(S), lambda v: np.exp(_logdet(v))),
    (lambda: functions.trace(functions.inv(S)), lambda v: _trace(_inverse(v))),
    (lambda: functions.trace(A.T @ functions.inv(S) @ A), lambda v: _trace(v[A].T, _inverse(v), v[A])),
    (lambda: functions.trace(A @ functions.inv(S)), lambda v: _trace(v[A], _inverse(v))),
    (lambda: functions.dot(x, functions.solve(S, x)), lambda v: _form(v[x], _inverse(v), v[x])),
    (lambda: functions.trace(W.T @ functions.solve(S, W)), lambda v: _trace(_turned(v[W]), _inverse(v), v[W])),
    (lambda: functions.dot(x, S @ x), lambda v: _form(v[x], v[S], v[x])),
    (lambda: functions.dot(x, x), lambda v: (v[x] ** 2).sum(-1)),
    (lambda: functions.trace(A @ S), lambda v: _trace(v[A], v[S])),
    (lambda: functions.trace(S @ S), lambda v: _trace(v[S], v[S])),
    (lambda: functions.trace(S @ A @ S), lambda v: _trace(v[S], v[A], v[S])),
    (lambda: functions.trace(P @ S @ P @ S), lambda v: _trace(v[P], v[S], v[P], v[S])),
    (lambda: functions.trace(P @ functions.inv(S)), lambda v: _trace(v[P], _inverse(v))),
    (lambda: reductions.sum(P * functions.inv(S)), lambda v: (v[P] * _inverse(v)).sum((-1, -2))),
    (lambda: functions.dot(x, (P * functions.inv(S)) @ x), lambda v: _form(v[x], v[P] * _inverse(v), v[x])),
    (lambda: functions.dot(x, functions.inv(S + P) @ x), lambda v: _form(v[x], np.linalg.inv(v[S] + v[P]), v[x])),
    (lambda: functions.dot(x, functions.inv(S - P / 9) @ x), lambda v: _form(v[x], _inverse_of_difference(v), v[x])),
    (
        lambda: functions.trace(W.T @ functions.inv(2 * S + P) @ W),
        lambda v: _trace(_turned(v[W]), _inverse_of_sum(v), v[W]),
    ),
    (lambda: functions.logdet(functions.inv(S)), lambda v: -_logdet(v)),
    (lambda: -functions.logdet(2 * S + P), lambda v: np.linalg.slogdet(_inverse_of_sum(v))[1]),
    (lambda: functions.trace(S @ S @ S), lambda v: _trace(v[S], v[S], v[S])),
    (lambda: functions.trace(P @ S @ S @ S), lambda v: _trace(v[P], v[S], v[S], v[S])),
    (lambda: -1 / functions.trace(functions.inv(S)), lambda v: -1 / _trace(_inverse(v))),
    (lambda: 1 / functions.trace(functions.inv(S)), lambda v: 1 / _trace(_inverse(v))),
    (lambda: -1 / functions.trace(functions.inv(2 * S + P)), lambda v: -1 / _trace(_inverse_of_sum(v))),
    (lambda: entrywise.log(functions.trace(functions.inv(S))), lambda v: np.log(_trace(_inverse(v)))),
    (lambda: reductions.norm(S - T), lambda v: np.sqrt(((v[S] - v[T]) ** 2).sum((-1, -2)))),
    (lambda: reductions.sum(entrywise.exp(S)), lambda v: np.exp(v[S]).sum((-1, -2))),
    (lambda: -entrywise.log(functions.trace(S)), lambda v: -np.log(_trace(v[S]))),
)
"""Functions of a positive definite matrix, and of a vector or a matrix jointly."""


class _Maker:
    """Makes functions of a domain."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.is_positive = draw.random() < 0.4
        self.joint = draw.random() < 0.3
        self.bounds: dict[Any, tuple[Any, Any]] = {}
        if not self.is_positive and draw.random() < 0.3:
            self.bounds = {x: draw.choice([(-1, 1), (0, sympy.pi), (-sympy.pi / 2, 1)])}

    def case(self) -> Case:
        if self.draw.random() < 0.3:
            return self.matrix_case()
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
            return reductions.sum(made) * lam, lambda v: value(v).sum(-1) * v[lam]
        return reductions.sum(made), lambda v: value(v).sum(-1)

    def scalar(self, depth: int) -> Twin:
        k = self.draw.random()
        if depth == 0 or k < 0.4:
            return self.total(self.draw.choice((1, 1, 2)))
        if k < 0.48:
            made, value = self.vector(self.draw.randint(0, 1))
            return reductions.logsumexp(made), lambda v: np.log(np.exp(value(v)).sum(-1))
        if k < 0.54:
            (made, value), _ = self.affine()
            p, q = self.draw.choice([(2, 1), (2, 1), (2, 3), (4, 1), (3, 1), (1, 1), (2, sympy.Rational(1, 2))])
            return reductions.norm(made, p) ** q, lambda v: (np.abs(value(v)) ** p).sum(-1) ** (float(q) / p)
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
            (dot[0] / reductions.sum(c), lambda v: dot[1](v) / v[c].sum()),
            (reductions.var(x), lambda v: v[x].var(-1)),
        ]
        if self.is_positive:
            choices += [
                (-entrywise.exp(reductions.sum(entrywise.log(x)) / m), lambda v: -np.exp(np.log(v[x]).mean(-1))),
                (reductions.sum(x**3) ** sympy.Rational(1, 3), lambda v: (v[x] ** 3).sum(-1) ** (1 / 3)),
                (1 / reductions.sum(x), lambda v: 1 / v[x].sum(-1)),
            ]
            if self.joint:
                choices += [(functions.dot(u, u) / reductions.sum(x), lambda v: (v[u] ** 2).sum(-1) / v[x].sum(-1))] * 4
        return self.draw.choice(choices)

    def matrix_case(self) -> Case:
        """A sum of two functions of a general or a positive definite matrix, and of a vector where they are joint."""
        (first, left), (second, right) = self.matrix_part(), self.matrix_part()
        if self.draw.random() < 0.3:
            first, left = _after(self.draw.choice(SCALAR), (first, left))
        factor = self.draw.choice((1, 1, 1, 3, -1, 0))
        function = first + factor * second
        variables = tuple(t for t in (W, S, x) if function.has(t) and (t != x or self.joint))
        return Case(function, lambda v: left(v) + factor * right(v), variables or (W,), (c, lam), {})

    def matrix_part(self) -> Twin:
        if self.is_positive:
            make, value = self.draw.choice(OF_DEFINITE)
            return make(), value
        if self.draw.random() < 0.6:
            make, value = self.draw.choice(OF_GENERAL)
            return make(), value
        outer, numeric = self.draw.choice(EVERYWHERE)
        if self.draw.random() < 0.5:
            return reductions.sum(outer(W)), lambda v: numeric(v[W]).sum((-1, -2))
        return reductions.sum(outer(X @ W - Y)), lambda v: numeric(_residual(v)).sum((-1, -2))


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
