"""Recurrences from practice: values and gradients against loops written by hand, in complex numbers.

Products with Hessians are compared with JAX where it is installed, else with differences.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import sympy
from jax_versions import enable_x64

import sympy_tensordiff as td

try:
    import jax
    import jax.numpy as jnp
except ImportError:  # CI has no JAX
    jax = jnp = None

n, m, T = td.indices("n m T")
SIZES = {n: 3, m: 2}


class Program(NamedTuple):
    """A scalar with its tensors and their shapes, the number of differentiated ones, and the same by hand.

    ``value(xp, *arrays)`` computes with the arrays of NumPy (also complex ones) or JAX.
    """

    tensors: tuple[Any, ...]
    active: int
    loss: Any
    value: Callable[..., Any]


def named(names: str, *shapes: Any) -> list[Any]:
    return [td.TensorSymbol(name, shape) for name, shape in zip(names.split(), shapes, strict=True)]


def logsumexp(xp: Any, a: Any, axis: int) -> Any:
    top = xp.max(a.real, axis=axis, keepdims=True)
    return xp.squeeze(top, axis) + xp.log(xp.sum(xp.exp(a - top), axis=axis))


def sigmoid(xp: Any, a: Any) -> Any:
    return 1 / (1 + xp.exp(-a))


def kalman() -> Program:
    A, Q, H, R, start, P0, y = named("A Q H R start P0 y", (n, n), (n, n), (m, n), (m, m), n, (n, n), (T, m))

    def step(mean: Any, P: Any, y: Any) -> Any:
        mean, P = A @ mean, A @ P @ A.T + Q
        S, v = H @ P @ H.T + R, y - H @ mean
        K = P @ H.T @ td.inv(S)
        return (mean + K @ v, P - K @ H @ P), -(td.logdet(S) + td.dot(v, td.inv(S) @ v)) / 2

    _, loss = td.scan(step, {"mean": start, "P": P0}, {"y": y}, total=True)

    def value(xp: Any, A: Any, Q: Any, H: Any, R: Any, mean: Any, P: Any, y: Any) -> Any:
        total = 0
        for row in y:
            mean, P = A @ mean, A @ P @ A.T + Q
            S, v = H @ P @ H.T + R, row - H @ mean
            K = P @ H.T @ xp.linalg.inv(S)
            total = total - (xp.log(xp.linalg.det(S)) + v @ xp.linalg.inv(S) @ v) / 2
            mean, P = mean + K @ v, P - K @ H @ P
        return total

    return Program((A, Q, H, R, start, P0, y), 7, loss, value)


def markov() -> Program:
    p, move, seen = named("p M B", n, (n, n), (T, n))
    last = td.scan(lambda a, b: td.logsumexp(a[:, None] + move, axis=0) + b, p, seen, last=True)

    def value(xp: Any, a: Any, M: Any, B: Any) -> Any:
        for row in B:
            a = logsumexp(xp, a[:, None] + M, 0) + row
        return logsumexp(xp, a, 0)

    return Program((p, move, seen), 3, td.logsumexp(last), value)


def lstm() -> Program:
    W, U, b, h0, c0, x = named("W U b h0 c0 x", (4, n, n), (4, n, m), (4, n), n, n, (T, m))

    def step(h: Any, c: Any, x: Any) -> Any:
        z = td.einsum("gij,j->gi", W, h) + td.einsum("gij,j->gi", U, x) + b
        c = td.sigmoid(z[1]) * c + td.sigmoid(z[0]) * td.tanh(z[2])
        return td.sigmoid(z[3]) * td.tanh(c), c

    h, _ = td.scan(step, {"h": h0, "c": c0}, {"x": x})

    def value(xp: Any, W: Any, U: Any, b: Any, h: Any, c: Any, x: Any) -> Any:
        total = 0
        for row in x:
            z = W @ h + U @ row + b
            c = sigmoid(xp, z[1]) * c + sigmoid(xp, z[0]) * xp.tanh(z[2])
            h = sigmoid(xp, z[3]) * xp.tanh(c)
            total = total + h @ h
        return total

    return Program((W, U, b, h0, c0, x), 6, td.sum(h**2), value)


def gru() -> Program:
    names = "Wr Wz Wq Ur Uz Uq h0 x"
    Wr, Wz, Wq, Ur, Uz, Uq, h0, x = named(names, *[(n, n)] * 3, *[(n, m)] * 3, n, (T, m))

    def step(h: Any, x: Any) -> Any:
        r, z = td.sigmoid(Wr @ h + Ur @ x), td.sigmoid(Wz @ h + Uz @ x)
        return (1 - z) * td.tanh(Uq @ x + r * (Wq @ h)) + z * h

    def value(xp: Any, Wr: Any, Wz: Any, Wq: Any, Ur: Any, Uz: Any, Uq: Any, h: Any, x: Any) -> Any:
        total = 0
        for row in x:
            r, z = sigmoid(xp, Wr @ h + Ur @ row), sigmoid(xp, Wz @ h + Uz @ row)
            h = (1 - z) * xp.tanh(Uq @ row + r * (Wq @ h)) + z * h
            total = total + h @ h
        return total

    return Program((Wr, Wz, Wq, Ur, Uz, Uq, h0, x), 8, td.sum(td.scan(step, h0, x) ** 2), value)


FAR = 1e3
"""The distance outside of the table of a soft alignment."""


def soft_dtw() -> Program:
    (c,) = named("c", (T, m))

    def row(above: Any, c: Any, t: Any) -> Any:
        corner = td.where(sympy.Eq(t, 0), 0, FAR) * td.ones((1,))
        entry = lambda left, up, corner, c: (c - td.logsumexp(-td.stack((up, left, corner))),)  # noqa: E731
        return td.scan(entry, {"left": FAR}, {"up": above, "corner": td.concatenate([corner, above[:-1]]), "c": c})[0]

    def value(xp: Any, c: Any) -> Any:
        rows, columns = c.shape
        table = {(i, j): FAR for i in range(-1, rows) for j in range(-1, columns)} | {(-1, -1): 0.0}
        for i in range(rows):
            for j in range(columns):
                three = xp.stack([xp.asarray(-table[i - a, j - b] + 0 * c[i, j]) for a, b in ((1, 0), (0, 1), (1, 1))])
                table[i, j] = c[i, j] - logsumexp(xp, three, 0)
        return table[rows - 1, columns - 1]

    return Program((c,), 1, td.scan(row, FAR * td.ones(m), c, last=True)[m - 1], value)


def lorenz96() -> Program:
    start, seen, F = *named("start seen", n, (T, n)), td.TensorSymbol("F", ())

    def advance(slope: Any, x: Any) -> Any:
        k1 = slope(x)
        k2 = slope(x + k1 / 200)
        k3 = slope(x + k2 / 200)
        return x + (k1 + 2 * k2 + 2 * k3 + slope(x + k3 / 100)) / 600

    def step(x: Any, seen: Any) -> Any:
        new = advance(lambda x: (td.roll(x, -1) - td.roll(x, 2)) * td.roll(x, 1) - x + F, x)
        return new, td.dot(new - seen, new - seen)

    def value(xp: Any, x: Any, F: Any, seen: Any) -> Any:
        total = 0
        for row in seen:
            x = advance(lambda x: (xp.roll(x, -1) - xp.roll(x, 2)) * xp.roll(x, 1) - x + F, x)
            total = total + (x - row) @ (x - row)
        return total

    return Program((start, F, seen), 3, td.scan(step, start, seen, total=True)[1], value)


def euler_maruyama() -> Program:
    start, A, s, noise = named("start A s noise", n, (n, n), n, (T, n))
    x = td.scan(lambda x, w: x + (td.tanh(A @ x) - x) / 100 + s * td.sqrt(1 + x**2) * w / 10, start, noise)

    def value(xp: Any, x: Any, A: Any, s: Any, noise: Any) -> Any:
        total = 0
        for w in noise:
            x = x + (xp.tanh(A @ x) - x) / 100 + s * xp.sqrt(1 + x**2) * w / 10
            total = total + x @ x
        return total

    return Program((start, A, s, noise), 4, td.sum(x**2), value)


def sinkhorn() -> Program:
    C, a, b, steps = named("C a b steps", (n, m), n, m, (T, 1))

    def step(f: Any, g: Any) -> Any:
        f = a - td.logsumexp(g[None, :] - C, axis=1)
        return f, b - td.logsumexp(f[:, None] - C, axis=0)

    f, g = td.scan(step, {"f": td.zeros(n), "g": td.zeros(m)}, length=T, last=True)
    loss = td.sum(td.exp(f[:, None] + g[None, :] - C) * C) + td.sum(steps)

    def value(xp: Any, C: Any, a: Any, b: Any, steps: Any) -> Any:
        g = xp.zeros(C.shape[1])
        for _ in steps:
            f = a - logsumexp(xp, g[None, :] - C, 1)
            g = b - logsumexp(xp, f[:, None] - C, 0)
        return xp.sum(xp.exp(f[:, None] + g[None, :] - C) * C) + xp.sum(steps)

    return Program((C, a, b, steps), 3, loss, value)


def lqr() -> Program:
    A, B, Q, R, start, u = named("A B Q R start u", (n, n), (n, m), (n, n), (m, m), n, (T, m))
    step = lambda s, u: (A @ s + B @ u, td.dot(s, Q @ s) + td.dot(u, R @ u))  # noqa: E731
    end, cost = td.scan(step, start, u, last=True, total=True)

    def value(xp: Any, A: Any, B: Any, Q: Any, R: Any, s: Any, u: Any) -> Any:
        total = 0
        for row in u:
            total = total + s @ Q @ s + row @ R @ row
            s = A @ s + B @ row
        return total + s @ Q @ s

    return Program((A, B, Q, R, start, u), 6, cost + td.dot(end, Q @ end), value)


PROGRAMS = {
    function.__name__: function
    for function in (kalman, markov, lstm, gru, soft_dtw, lorenz96, euler_maruyama, sinkhorn, lqr)
}


@cache
def compiled(name: str) -> tuple[Program, Any, Any]:
    """Return the program with the function of its value and gradient, and that of products with the Hessian."""
    program = PROGRAMS[name]()
    wrt = program.tensors[: program.active]
    along = tuple(td.TensorSymbol(f"d{tensor.name}", tensor.shape) for tensor in wrt)
    first = td.lambdify(program.tensors, (program.loss, *td.gradient(program.loss, wrt)))
    return program, first, td.lambdify([*program.tensors, *along], td.hvp(program.loss, wrt, along))


def point(program: Program, steps: int) -> tuple[list[Any], list[Any]]:
    """Return arrays for all tensors, where filters and controls are stable, and directions for the active ones."""
    rng = np.random.default_rng(steps)
    arrays = []
    for tensor in program.tensors:
        shape = tuple(int(extent.subs({**SIZES, T: steps})) for extent in map(sympy.sympify, tensor.shape))
        array = rng.normal(size=shape) / 3
        arrays.append(array + 2 * np.eye(len(array)) if tensor.name in ("Q", "R", "P0") else array)
    return arrays, [rng.normal(size=array.shape) for array in arrays[: program.active]]


def moved(arrays: list[Any], along: list[Any], length: Any) -> list[Any]:
    """Return the arrays moved by ``length`` along the directions."""
    new = [array + length * one for array, one in zip(arrays, along, strict=False)]
    return [*new, *arrays[len(along) :]]


def inner(first: Any, second: Any) -> float:
    return float(sum(np.sum(a * b) for a, b in zip(first, second, strict=True)))


@pytest.mark.in_turns(8, by="name")
@pytest.mark.parametrize("steps", [1, 2, 7, 300])
@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_gradient_are_those_of_a_loop(name: str, steps: int) -> None:
    program, first, _ = compiled(name)
    arrays, along = point(program, steps)
    value, *slope = first(*arrays)
    moving = program.value(np, *moved(arrays, along, 1e-30j))
    np.testing.assert_allclose(value, moving.real, rtol=1e-11)
    size = inner(slope, slope) ** 0.5
    np.testing.assert_allclose(inner(slope, along), moving.imag / 1e-30, rtol=1e-10, atol=1e-10 * size)


@pytest.mark.in_turns(10, by="name")
@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("name", PROGRAMS)
def test_products_with_hessians(name: str, steps: int) -> None:
    program, first, second = compiled(name)
    arrays, along = point(program, steps)
    found = second(*arrays, *along)
    if jax is None:
        _, *after = first(*moved(arrays, along, 1e-5))
        _, *before = first(*moved(arrays, along, -1e-5))
        expected = [(a - b) / 2e-5 for a, b in zip(after, before, strict=True)]
        tolerance = 1e-6
    else:
        with enable_x64(True):
            active = [jnp.asarray(array) for array in arrays[: program.active]]
            of_active = lambda *given: program.value(jnp, *given, *arrays[program.active :])  # noqa: E731
            gradient = jax.grad(of_active, tuple(range(program.active)))
            _, expected = jax.jvp(gradient, tuple(active), tuple(map(jnp.asarray, along)))
        tolerance = 1e-10
    scale = max(float(np.max(np.abs(one))) for one in expected)
    for own, one in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, one, rtol=tolerance, atol=tolerance * scale)
