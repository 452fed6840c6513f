"""Recurrences of several fields, written as their users would: gradients against central differences."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

import sympy_tensordiff as td

n, m, T = td.indices("n m T")
i, j, k, c = td.indices("i j k c")
a, b, g, dt = sympy.symbols("a b g dt", positive=True)
x0, y, X, A = (td.TensorSymbol(*one) for one in (("x0", n), ("y", T), ("X", (T, n)), ("A", (n, n))))
SIZES = {n: 3, m: 2, T: 4}


def control() -> Any:
    """A proportional-integral-derivative controller and what it costs."""

    def step(x: Any, total: Any, error: Any, y: Any) -> Any:
        new = y - x
        u = a * new + b * total + g * (new - error) / dt
        return (x + dt * (sympy.tanh(u) - x), total + dt * new, new), new**2 + u**2 / 100

    return td.scan(step, {"x": 0, "total": 0, "error": 0}, {"y": y}, total=True)[1], (a, g, y)


def bodies() -> Any:
    """Bodies that attract each other, by the leapfrog method."""
    q0, p0, M = td.TensorSymbol("q0", (n, 2)), td.TensorSymbol("p0", (n, 2)), td.TensorSymbol("M", n)

    def force(q: Any) -> Any:
        far = td.IndexedSum((q[j, c] - q[i, c]) ** 2, (c, 0, 1)) + 1
        return td.TensorComprehension(td.IndexedSum(M[j] * (q[j, k] - q[i, k]) / far, (j, 0, n - 1)), (i, n), (k, 2))

    def step(q: Any, p: Any) -> Any:
        p = p + dt / 2 * force(q)
        q = q + dt * p
        return q, p + dt / 2 * force(q)

    q, p = td.scan(step, {"q": q0, "p": p0}, length=T, last=True)
    return td.sum(q**2) + td.sum(p**2), (M, dt)


def epidemic() -> Any:
    """Compartments of an epidemic, with the likelihood of what is counted."""

    def step(S: Any, E: Any, infected: Any, y: Any) -> Any:
        new = a * S * (A @ infected)
        S, E, infected = S - new, E + new - b * E, infected + b * E - g * infected
        return (S, E, infected), (y - td.sum(infected)) ** 2

    start = {"S": x0, "E": x0 / 10, "infected": x0 / 10}
    return td.scan(step, start, {"y": y}, total=True)[1], (a, b, g, A)


def filtering() -> Any:
    """An adaptive filter, normalised least mean squares."""

    def step(w: Any, x: Any, y: Any) -> Any:
        error = y - td.dot(w, x)
        return w + a * error * x / (td.dot(x, x) + 1), error**2

    return td.scan(step, {"w": x0}, {"x": X, "y": y}, total=True)[1], (a, x0, X)


def path() -> Any:
    """The best path through states, as Viterbi's."""
    best = lambda v, x: td.TensorComprehension(td.IndexedMax(v[i] + A[i, j], (i, 0, n - 1)) + x[j], (j, n))  # noqa: E731
    return td.max(td.scan(best, x0, X, last=True)), (A, X)


def conjugate_gradients() -> Any:
    def step(x: Any, r: Any, p: Any) -> Any:
        Ap = A.T @ (A @ p) + p
        length = td.dot(r, r) / td.dot(p, Ap)
        new = r - length * Ap
        return x + length * p, new, new + td.dot(new, new) / td.dot(r, r) * p

    x, _, _ = td.scan(step, {"x": td.zeros(n), "r": x0, "p": x0}, length=2, last=True)
    return td.sum(x**2), (A, x0)


def descent() -> Any:
    """The gradient by the learning rate: the steps are derivatives themselves."""
    loss = lambda w: td.sum((X @ w - y) ** 2) + b * td.sum(w**2)  # noqa: E731
    w = td.scan(lambda w: w - a / 20 * td.gradient(loss(w), w), x0, length=m, last=True)
    return loss(w), (a, b, x0)


def missing() -> Any:
    """A filter of numbers some of which are missing."""
    seen = td.TensorSymbol("seen", T, dtype=int, below=2)

    def step(mean: Any, P: Any, y: Any, s: Any) -> Any:
        mean, P = a * mean, a**2 * P + b
        S, is_seen = P + g, sympy.Eq(s, 1)
        gain = td.where(is_seen, P / S, 0)
        return (mean + gain * (y - mean), (1 - gain) * P), td.where(is_seen, -(td.log(S) + (y - mean) ** 2 / S) / 2, 0)

    return td.scan(step, {"mean": 0, "P": 1}, {"y": y, "s": seen}, total=True)[1], (a, b, g, y)


def seasons() -> Any:
    """Smoothing with a trend and a season, as Holt and Winters do it: the oldest season is replaced."""

    def step(level: Any, trend: Any, season: Any, y: Any) -> Any:
        new = a * (y - season[0]) + (1 - a) * (level + trend)
        latest = g * (y - new) + (1 - g) * season[0]
        season = td.concatenate([season[1:], latest * td.ones(1)])
        return (new, b * (new - level) + (1 - b) * trend, season), (y - level - trend - season[0]) ** 2

    return td.scan(step, {"level": 0, "trend": 1, "season": x0}, {"y": y}, total=True)[1], (a, b, g, x0, y)


def returns() -> Any:
    """The returns of temporal differences, TD(lambda), backwards in time."""
    V, r = td.TensorSymbol("V", T + 1), y
    G = td.scan(lambda G, x: x[0] + g * ((1 - a) * x[1] + a * G), V[T], (r, V[1:]), reverse=True)
    return td.sum((G - V[:-1]) ** 2), (a, g, V, r)


def alignment() -> Any:
    """The probability of labels in a given order, as in connectionist temporal classification."""

    def step(a: Any, x: Any) -> Any:
        return td.logaddexp(a, td.concatenate([-50 * td.ones(1), a[:-1]])) + x - td.logsumexp(x)

    return td.scan(step, td.TensorComprehension(-50 * i, (i, n)), X @ A, last=True)[n - 1], (A, X)


def tridiagonal() -> Any:
    """The solution of tridiagonal equations, as Thomas': the second scan runs backwards over the first one."""
    upper, right = td.TensorSymbol("upper", T), td.TensorSymbol("right", T)
    forwards = lambda c, d, u, r, y: (u / (4 + y - y * c), (r - y * d) / (4 + y - y * c))  # noqa: E731
    c, d = td.scan(forwards, {"c": 0, "d": 0}, {"u": upper, "r": right, "y": y})
    (x,) = td.scan(lambda x, c, d: (d - c * x,), {"x": 0}, {"c": c, "d": d}, reverse=True)
    return td.sum(x**2), (upper, right, y)


def selective() -> Any:
    """A state space whose steps depend on the input, as in Mamba."""
    B, C = td.TensorSymbol("B", (m, n)), td.TensorSymbol("C", (m, n))

    def step(h: Any, x: Any) -> Any:
        rate = td.log(1 + td.exp(A @ x))
        h = td.exp(-rate[:, None] * td.exp(B.T)) * h + (rate * x)[:, None] * (B @ x)[None, :]
        return h, h @ (C @ x)

    return td.sum(td.scan(step, td.zeros((n, m)), X)[1] ** 2), (A, B, C, X)


FIELDS = (
    *(control, bodies, epidemic, filtering, path, conjugate_gradients, descent, missing),
    *(seasons, returns, alignment, tridiagonal, selective),
)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("field", FIELDS)
def test_gradients(field: Any) -> None:
    loss, wrt = field()
    assert td.check_derivative(loss, wrt, SIZES) < 1e-5
