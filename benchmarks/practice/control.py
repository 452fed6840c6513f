"""Optimal control, planning and filtering."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy
from sympy import IndexedBase, Sum, cos, exp, sin, sqrt

import sympy_tensordiff as td
from benchmarks.practice.case import Formula, Random, case, covariance, normal, tensor, total

i, k, m, n, t = td.indices("i k m n t")


@case("tensor", {"n": 100, "m": 20}, {"n": 3, "m": 2})
def linear_feedback() -> Formula:
    """Quadratic cost of six steps of a linear system under linear feedback."""
    A, B, K = tensor("A", (n, n)), tensor("B", (n, m)), tensor("K", (m, n))
    x0, Q, R = tensor("x0", n), tensor("Q", (n, n), symmetric=True), tensor("R", (m, m), symmetric=True)
    x, value = x0, 0
    for _ in range(6):
        u = -(K @ x)
        value = value + td.dot(x, Q @ x) + td.dot(u, R @ u)
        x = A @ x + B @ u
    value = value + td.dot(x, Q @ x)

    def function(xp: Any, A: Any, B: Any, K: Any, x: Any, Q: Any, R: Any) -> Any:
        value = 0
        for _ in range(6):
            u = -K @ x
            value = value + x @ Q @ x + u @ R @ u
            x = A @ x + B @ u
        return value + x @ Q @ x

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        system = normal(random, n, n, scale=0.5 / n**0.5), normal(random, n, m, scale=0.1)
        return *system, normal(random, m, n, scale=0.1), normal(random, n), covariance(random, n), covariance(random, m)

    return Formula((A, B, K, x0, Q, R), value, (A, B, K, x0), function, inputs)


@case("index", {"n": 50000}, {"n": 5})
def cart_pole() -> Formula:
    """Effort and squared defects of a trapezoidal transcription of a cart with a pole."""
    x, a, v, w, u = (tensor(name, n) for name in "xavwu")
    h, rho, mu, gr = sympy.symbols("h rho mu gr", positive=True)

    def forces(i: Any, x: Any, a: Any, v: Any, w: Any, u: Any, sin: Any = sin, cos: Any = cos) -> tuple[Any, Any]:
        s, c = sin(a[i]), cos(a[i])
        cart = (u[i] + mu * s * (w[i] ** 2 + gr * c)) / (1 + mu * s**2)
        pole = -(u[i] * c + mu * w[i] ** 2 * c * s + (1 + mu) * gr * s) / (1 + mu * s**2)
        return cart, pole

    rates = [(v[z], w[z], *forces(z, x, a, v, w, u)) for z in (i, i + 1)]
    defects = [y[i + 1] - y[i] - h / 2 * (p + q) for y, p, q in zip((x, a, v, w), *rates, strict=True)]
    value = h * total(u[i] ** 2, (i, 0, n - 1)) + rho / 2 * total(sum(z**2 for z in defects), (i, 0, n - 2))

    def function(xp: Any, x: Any, a: Any, v: Any, w: Any, u: Any, h: Any, rho: Any, mu: Any, gr: Any) -> Any:
        s, c = xp.sin(a), xp.cos(a)
        mass = 1 + mu * s**2
        cart = (u + mu * s * (w**2 + gr * c)) / mass
        pole = -(u * c + mu * w**2 * c * s + (1 + mu) * gr * s) / mass
        pairs = zip((x, a, v, w), (v, w, cart, pole), strict=True)
        defects = [xp.diff(y) - h / 2 * (rate[1:] + rate[:-1]) for y, rate in pairs]
        return h * (u**2).sum() + rho / 2 * sum((z**2).sum() for z in defects)

    def inputs(random: Random, n: int) -> tuple[Any, ...]:
        return *(normal(random, n) for _ in range(5)), 0.1, 2.0, 0.3, 9.8

    return Formula((x, a, v, w, u, h, rho, mu, gr), value, (x, a, v, w, u), function, inputs)


@case("tensor", {"n": 40, "m": 20}, {"n": 3, "m": 2})
def kalman_likelihood() -> Formula:
    """Negative log-likelihood of three observations under a linear Gaussian state space."""
    A, C, y = tensor("A", (n, n)), tensor("C", (m, n)), tensor("y", (3, m))
    Q, R = tensor("Q", (n, n), symmetric=True), tensor("R", (m, m), symmetric=True)
    mean, P, value = td.zeros(n), td.DeltaTensor(n), 0
    for s in range(3):
        mean, P = A @ mean, A @ P @ A.T + Q
        S, error = C @ P @ C.T + R, y[s] - C @ mean
        value = value + td.logdet(S) + td.dot(error, td.solve(S, error))
        mean, P = mean + P @ C.T @ td.solve(S, error), P - P @ C.T @ td.solve(S, C @ P)
    value = value / 2

    def function(xp: Any, A: Any, C: Any, y: Any, Q: Any, R: Any) -> Any:
        Q, R = (Q + Q.T) / 2, (R + R.T) / 2  # so that the gradients are symmetric, as those of ours
        mean, P, value = xp.zeros_like(A[0]), xp.eye(len(A), dtype=A.dtype), 0
        for s in range(3):
            mean, P = A @ mean, A @ P @ A.T + Q
            S, error = C @ P @ C.T + R, y[s] - C @ mean
            scaled = xp.linalg.solve(S, error)
            value = value + xp.linalg.slogdet(S)[1] + error @ scaled
            mean, P = mean + P @ C.T @ scaled, P - P @ C.T @ xp.linalg.solve(S, C @ P)
        return value / 2

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        system = normal(random, n, n, scale=0.7 / n**0.5), normal(random, m, n, scale=n**-0.5)
        return *system, normal(random, 3, m), covariance(random, n), covariance(random, m)

    return Formula((A, C, y, Q, R), value, (A, C, Q, R), function, inputs)


@case("sympy", {"t": 2000, "m": 50}, {"t": 5, "m": 2})
def path_around_obstacles() -> Formula:
    """Smoothness of a path in the plane and its length weighted by the nearness of obstacles."""
    x, c, s = IndexedBase("x", shape=(t, 2)), IndexedBase("c", shape=(m, 2)), IndexedBase("s", shape=(m,))
    w, eps = sympy.symbols("w eps", positive=True)
    bend = Sum((x[i + 1, k] - 2 * x[i, k] + x[i - 1, k]) ** 2, (k, 0, 1), (i, 1, t - 2))
    near = Sum(exp(-Sum((x[i, k] - c[n, k]) ** 2, (k, 0, 1)) / (2 * s[n] ** 2)), (n, 0, m - 1))
    length = sqrt(Sum((x[i + 1, k] - x[i, k]) ** 2, (k, 0, 1)) + eps)
    value = bend / 2 + w * Sum(near * length, (i, 0, t - 2))

    def function(xp: Any, x: Any, c: Any, s: Any, w: Any, eps: Any) -> Any:
        square = ((x[:-1, None] - c) ** 2).sum(2)
        near = xp.exp(-square / (2 * s**2)).sum(1)
        length = xp.sqrt((xp.diff(x, axis=0) ** 2).sum(1) + eps)
        return (xp.diff(x, n=2, axis=0) ** 2).sum() / 2 + w * (near * length).sum()

    def inputs(random: Random, t: int, m: int) -> tuple[Any, ...]:
        path = np.cumsum(normal(random, t, 2, scale=t**-0.5), 0)
        return path, normal(random, m, 2), random.uniform(0.2, 0.6, m), 3.0, 0.001

    return Formula((x, c, s, w, eps), value, (x,), function, inputs)
