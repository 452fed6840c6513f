"""Functions of other kinds than the suite's, on which nothing has been tuned: gradients compared with JAX and PyTorch.

``python benchmarks/unseen.py [NAME ...]`` prints a line for each: our time, and the best of the other libraries' as a
multiple of it. Look at the figures after a change, not during one: what is tuned here is not unseen any more.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.environment import limit_threads

limit_threads(1)

import numpy as np  # noqa: E402
import sympy  # noqa: E402

import sympy_tensordiff as td  # noqa: E402
from benchmarks.libraries import LIBRARIES  # noqa: E402
from benchmarks.measure import in_turn  # noqa: E402
from benchmarks.row import Gradient  # noqa: E402

i, j, k, l, b = td.indices("i j k l b")
total, table, tensor = td.IndexedSum, td.TensorComprehension, td.TensorSymbol


class Case(NamedTuple):
    """A number by its tensors in this package, and ``function(xp, *arrays)`` elsewhere; ``wrt`` are differentiated."""

    tensors: tuple[Any, ...]
    value: Any
    function: Callable[..., Any]
    wrt: tuple[int, ...]


def batch_norm() -> Case:
    N, C = 4096, 64
    x, g, h, t = tensor("x", (N, C)), tensor("g", C), tensor("h", C), tensor("t", (N, C))
    mean = table(total(x[i, k], (i, 0, N - 1)) / N, (k, C))
    spread = table(total((x[i, k] - mean[k]) ** 2, (i, 0, N - 1)) / N, (k, C))
    value = total(
        (g[k] * (x[i, k] - mean[k]) / sympy.sqrt(spread[k] + sympy.Rational(1, 1000)) + h[k] - t[i, k]) ** 2,
        (i, 0, N - 1), (k, 0, C - 1),
    )  # fmt: skip

    def function(xp: Any, x: Any, g: Any, h: Any, t: Any) -> Any:
        mean = x.mean(0)
        return ((g * (x - mean) / xp.sqrt(((x - mean) ** 2).mean(0) + 1e-3) + h - t) ** 2).sum()

    return Case((x, g, h, t), value, function, (0, 1, 2))


def kernel_ridge() -> Case:
    N, D = 400, 5
    x, a, y = tensor("x", (N, D)), tensor("a", N), tensor("y", N)
    distance = total((x[i, k] - x[j, k]) ** 2, (k, 0, D - 1))
    value = total((total(a[j] / (1 + distance), (j, 0, N - 1)) - y[i]) ** 2, (i, 0, N - 1))

    def function(xp: Any, x: Any, a: Any, y: Any) -> Any:
        return (((1 / (1 + ((x[:, None] - x[None]) ** 2).sum(2))) @ a - y) ** 2).sum()

    return Case((x, a, y), value, function, (0, 1))


def ising() -> Case:
    N = 512
    s, J, h = tensor("s", (N, N)), tensor("J", (N, N)), tensor("h", (N, N))
    t = table(sympy.tanh(s[i, j]), (i, N), (j, N))
    value = total(-t[i, j] * (J[i, j] * t[i + 1, j] + t[i, j + 1] + h[i, j]), (i, 0, N - 2), (j, 0, N - 2))

    def function(xp: Any, s: Any, J: Any, h: Any) -> Any:
        t = xp.tanh(s)
        return (-t[:-1, :-1] * (J[:-1, :-1] * t[1:, :-1] + t[:-1, 1:] + h[:-1, :-1])).sum()

    return Case((s, J, h), value, function, (0, 1, 2))


def hidden_markov() -> Case:
    B, S = 256, 64
    A, p, e = tensor("A", (S, S)), tensor("p", (B, S)), tensor("e", (B, S))
    step = table(total(p[b, i] * sympy.exp(A[i, j]), (i, 0, S - 1)) * e[b, j], (b, B), (j, S))
    value = total(sympy.log(total(step[b, j], (j, 0, S - 1))), (b, 0, B - 1))

    def function(xp: Any, A: Any, p: Any, e: Any) -> Any:
        return xp.log(((p @ xp.exp(A)) * e).sum(1)).sum()

    return Case((A, p, e), value, function, (0, 1, 2))


def poisson() -> Case:
    N = 500
    u, c, f = tensor("u", (N, N)), tensor("c", (N, N)), tensor("f", (N, N))
    flow = c[i, j] * (u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4 * u[i, j]) + u[i, j] ** 3
    value = total((flow - f[i, j]) ** 2, (i, 1, N - 2), (j, 1, N - 2))

    def function(xp: Any, u: Any, c: Any, f: Any) -> Any:
        m = u[1:-1, 1:-1]
        flow = c[1:-1, 1:-1] * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * m) + m**3
        return ((flow - f[1:-1, 1:-1]) ** 2).sum()

    return Case((u, c, f), value, function, (0, 1))


def masked_attention() -> Case:
    N, D = 256, 32
    q, w, v, t = (tensor(name, (N, D)) for name in "qwvt")
    score = sympy.exp(total(q[i, k] * w[j, k], (k, 0, D - 1)) / sympy.Integer(8))
    value = total(
        (total(score * v[j, l], (j, 0, i)) / total(score, (j, 0, i)) - t[i, l]) ** 2, (i, 0, N - 1), (l, 0, D - 1)
    )

    def function(xp: Any, q: Any, w: Any, v: Any, t: Any) -> Any:
        score = xp.tril(xp.exp(q @ w.T / 8))
        return ((score @ v / score.sum(1)[:, None] - t) ** 2).sum()

    return Case((q, w, v, t), value, function, (0, 1, 2))


def upsampling() -> Case:
    N = 200
    x, t = tensor("x", (N + 1, N + 1)), tensor("t", (2 * N, 2 * N))
    even, right = x[i, j], (x[i, j] + x[i, j + 1]) / 2
    below, middle = (x[i, j] + x[i + 1, j]) / 2, (x[i, j] + x[i + 1, j] + x[i, j + 1] + x[i + 1, j + 1]) / 4
    value = total(
        (even - t[2 * i, 2 * j]) ** 2 + (right - t[2 * i, 2 * j + 1]) ** 2
        + (below - t[2 * i + 1, 2 * j]) ** 2 + (middle - t[2 * i + 1, 2 * j + 1]) ** 2,
        (i, 0, N - 1), (j, 0, N - 1),
    )  # fmt: skip

    def function(xp: Any, x: Any, t: Any) -> Any:
        a, b, c, d = x[:-1, :-1], x[:-1, 1:], x[1:, :-1], x[1:, 1:]
        loss = ((a - t[::2, ::2]) ** 2).sum() + (((a + b) / 2 - t[::2, 1::2]) ** 2).sum()
        return loss + (((a + c) / 2 - t[1::2, ::2]) ** 2).sum() + (((a + b + c + d) / 4 - t[1::2, 1::2]) ** 2).sum()

    return Case((x, t), value, function, (0, 1))


def triplet() -> Case:
    N, D = 4000, 32
    a, p, n = (tensor(name, (N, D)) for name in "apn")
    near = total((a[i, k] - p[i, k]) ** 2, (k, 0, D - 1))
    far = total((a[i, k] - n[i, k]) ** 2, (k, 0, D - 1))
    value = total(sympy.Max(near - far + 1, 0), (i, 0, N - 1))

    def function(xp: Any, a: Any, p: Any, n: Any) -> Any:
        return td_relu(xp, ((a - p) ** 2).sum(1) - ((a - n) ** 2).sum(1) + 1).sum()

    return Case((a, p, n), value, function, (0, 1, 2))


def td_relu(xp: Any, x: Any) -> Any:
    return x * (x > 0)


def spline() -> Case:
    N, M = 20000, 64
    c, x, y = tensor("c", M), tensor("x", N), tensor("y", N)
    value = total(
        (total(c[k] * sympy.exp(-((M * x[i] - k) ** 2) / 2), (k, 0, M - 1)) - y[i]) ** 2, (i, 0, N - 1)
    )  # fmt: skip

    def function(xp: Any, c: Any, x: Any, y: Any) -> Any:
        knots = xp.arange(M)
        return ((xp.exp(-((M * x[:, None] - knots) ** 2) / 2) @ c - y) ** 2).sum()

    return Case((c, x, y), value, function, (0, 1))


def tensor_train() -> Case:
    N, R = 24, 12
    T = tensor("T", (N, N, N))
    a, b_, c = tensor("a", (N, R)), tensor("g", (R, N, R)), tensor("c", (R, N))
    train = total(a[i, b] * b_[b, j, l] * c[l, k], (b, 0, R - 1), (l, 0, R - 1))
    value = total((train - T[i, j, k]) ** 2, (i, 0, N - 1), (j, 0, N - 1), (k, 0, N - 1))

    def function(xp: Any, T: Any, a: Any, g: Any, c: Any) -> Any:
        return ((xp.einsum("ib,bjl,lk->ijk", a, g, c) - T) ** 2).sum()

    return Case((T, a, b_, c), value, function, (1, 2, 3))


def periodic() -> Case:
    N, K = 2000, 31
    x, w, y = tensor("x", N), tensor("w", K), tensor("y", N)
    value = total((total(w[k] * x[(i + k) % N], (k, 0, K - 1)) - y[i]) ** 2, (i, 0, N - 1))
    places = (np.arange(N)[:, None] + np.arange(K)) % N

    def function(xp: Any, x: Any, w: Any, y: Any) -> Any:
        return ((x[places] @ w - y) ** 2).sum()

    return Case((x, w, y), value, function, (0, 1))


def factorization_machine() -> Case:
    N, M, R = 2000, 40, 8
    x, w, v, y = tensor("x", (N, M)), tensor("w", M), tensor("v", (M, R)), tensor("y", N)
    first = total(w[k] * x[i, k], (k, 0, M - 1))
    pairs = total(
        total(v[k, l] * x[i, k], (k, 0, M - 1)) ** 2 - total(v[k, l] ** 2 * x[i, k] ** 2, (k, 0, M - 1)), (l, 0, R - 1)
    )
    value = total((first + pairs / 2 - y[i]) ** 2, (i, 0, N - 1))

    def function(xp: Any, x: Any, w: Any, v: Any, y: Any) -> Any:
        return ((x @ w + ((x @ v) ** 2 - x**2 @ v**2).sum(1) / 2 - y) ** 2).sum()

    return Case((x, w, v, y), value, function, (1, 2))


CASES = {
    case.__name__.replace("_", "-"): case
    for case in (
        batch_norm, kernel_ridge, ising, hidden_markov, poisson, masked_attention, upsampling, triplet, spline,
        tensor_train, periodic, factorization_machine,
    )
}  # fmt: skip


def compare(name: str) -> float | None:
    """Print the line of a case; the ratio to the best of the others."""
    case = CASES[name]()
    random = np.random.default_rng(0)
    arrays = tuple([random.uniform(0.1, 1, [int(n) for n in tensor.shape]) for tensor in case.tensors])
    ours = td.lambdify(case.tensors, tuple(td.gradient(case.value, [case.tensors[n] for n in case.wrt])))
    expected = ours(*arrays)
    calls = {"ours": lambda: ours(*arrays)}
    for label in ("jax", "torch"):
        library = LIBRARIES[label]()
        call = library.prepare(Gradient(case.function, case.wrt), arrays)
        for found, wanted in zip(call(), expected, strict=True):
            scale = np.abs(wanted).max()
            np.testing.assert_allclose(library.to_numpy(found) / scale, wanted / scale, atol=1e-9, err_msg=label)
        calls[label] = call
    times = {label: statistics.median(found) for label, found in in_turn(calls, 4.0).items()}
    best = min((label for label in times if label != "ours"), key=times.__getitem__)
    ratio = times[best] / times["ours"]
    print(f"{name:22} {times['ours'] * 1e6:10.1f} us  {ratio:6.2f} times as long in {best}", flush=True)
    return ratio


def main(names: list[str]) -> None:
    """Compare all cases, or those that are named."""
    found = [compare(name) for name in names or CASES]
    print(f"geometric mean {math.exp(statistics.fmean(map(math.log, found))):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
