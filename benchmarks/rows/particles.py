"""Sums over pairs: a Gaussian kernel, and the second-order Volterra series of a signal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import sympy

import sympy_tensordiff as td
from benchmarks.row import Array, Arrays, ByHand, Gradient, Hessian, Peer, Row, Sizes, Vjp, Work, automatic, by_hand
from benchmarks.windows import windows

# F_i = sum_j exp(-|x_i - y_j|^2) b_j, by the points x.


def ours_gaussian(sizes: Sizes) -> tuple[Any, Any]:
    N, D = sizes["N"], sizes["D"]
    i, j, k = td.indices("i j k")
    x, y = td.TensorSymbol("x", (N, D)), td.TensorSymbol("y", (N, D))
    b, dF = td.TensorSymbol("b", N), td.TensorSymbol("dF", N)
    distance = td.IndexedSum((x[i, k] - y[j, k]) ** 2, (k, 0, D - 1))
    F = td.TensorComprehension(td.IndexedSum(sympy.exp(-distance) * b[j], (j, 0, N - 1)), (i, N))
    return (x, y, b, dF), td.vjp(F, x, dF)


def inputs_gaussian(random: np.random.Generator, sizes: Sizes) -> Arrays:
    N, D = sizes["N"], sizes["D"]
    return (*(random.standard_normal((N, D)) for _ in "xy"), *(random.standard_normal(N) for _ in "bF"))


def gaussian(xp: Any, x: Any, y: Any, b: Any) -> Any:
    return xp.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(2)) @ b


def gaussian_by_products(xp: Any, x: Any, y: Any, b: Any) -> Any:
    return xp.exp(2 * (x @ y.T) - (x * x).sum(1)[:, None] - (y * y).sum(1)[None, :]) @ b


def hand_gaussian(xp: Any, x: Array, y: Array, b: Array, dF: Array) -> Any:
    weights = np.exp(2 * (x @ y.T) - (x * x).sum(1)[:, None] - (y * y).sum(1)) * b
    return -2 * dF[:, None] * (x * weights.sum(1)[:, None] - weights @ y)


def keops_gaussian(xp: Any, x: Array, y: Array, b: Array, dF: Array) -> Any:
    """``xp`` is ``pykeops.numpy.LazyTensor``: a formula whose sums are compiled, with nothing of size N times N."""
    difference = xp(x[:, None, :]) - xp(y[None, :, :])
    weights = (-(difference**2).sum(-1)).exp() * xp(b[None, :, None])
    return -2 * dF[:, None] * (weights * difference).sum(axis=1)


def work_gaussian(sizes: Sizes) -> Work:
    N, D = sizes["N"], sizes["D"]
    return Work(N * N * (3 * D + 1 + 2 * D), 3 * N * D + 2 * N, N * N)


# E = sum_i (sum_a g_a x_{i+a} + sum_ab h_ab x_{i+a} x_{i+b} - z_i)^2 / 2, by the series g, h.


def symbols(sizes: Sizes) -> tuple[Any, Any]:
    n, K = sizes["n"], sizes["K"]
    i, a, b = td.indices("i a b")
    x, z = td.TensorSymbol("x", n + K - 1), td.TensorSymbol("z", n)
    g, h = td.TensorSymbol("g", K), td.TensorSymbol("h", (K, K))
    linear = td.IndexedSum(g[a] * x[i + a], (a, 0, K - 1))
    squares = td.IndexedSum(h[a, b] * x[i + a] * x[i + b], (b, 0, K - 1), (a, 0, K - 1))
    return (x, z, g, h), td.IndexedSum((linear + squares - z[i]) ** 2, (i, 0, n - 1)) / 2


def ours_volterra(sizes: Sizes) -> tuple[Any, Any]:
    args, energy = symbols(sizes)
    return args, td.gradient(energy, args[2:])


def ours_volterra_hessian(sizes: Sizes) -> tuple[Any, Any]:
    args, energy = symbols(sizes)
    return args, td.hessian(energy, args[2:])


def inputs_volterra(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n, K = sizes["n"], sizes["K"]
    x, z, g = (random.standard_normal(length) for length in (n + K - 1, n, K))
    return x, z, g, random.standard_normal((K, K)) / K


def volterra(xp: Any, x: Any, z: Any, g: Any, h: Any) -> Any:
    w = windows(xp, x, g.shape[0])
    return ((w @ g + xp.einsum("ia,ab,ib->i", w, h, w) - z) ** 2).sum() / 2


def volterra_by_products(xp: Any, x: Any, z: Any, g: Any, h: Any) -> Any:
    w = windows(xp, x, g.shape[0])
    return ((w @ g + ((w @ h) * w).sum(1) - z) ** 2).sum() / 2


def hand_volterra(xp: Any, x: Array, z: Array, g: Array, h: Array) -> Arrays:
    w = np.ascontiguousarray(windows(xp, x, len(g)))
    residual = w @ g + ((w @ h) * w).sum(1) - z
    return w.T @ residual, w.T @ (residual[:, None] * w)


def hand_volterra_hessian(xp: Any, x: Array, z: Array, g: Array, h: Array) -> Arrays:
    K = len(g)
    w = np.ascontiguousarray(windows(xp, x, K))
    pairs = (w[:, :, None] * w[:, None, :]).reshape(len(w), K * K)
    mixed = w.T @ pairs
    second = pairs.T @ pairs
    return (
        w.T @ w,
        mixed.reshape(K, K, K),
        np.ascontiguousarray(mixed.T).reshape(K, K, K),
        second.reshape(K, K, K, K),
    )


def distinct(values: int, order: int) -> int:
    """Return the number of products of ``order`` factors out of ``values``, their order not counted."""
    return math.comb(values + order - 1, order)


VOLTERRA, VOLTERRA_QUICK = {"n": 20_000, "K": 16}, {"n": 6, "K": 3}
ROWS = (
    Row(
        "gaussian",
        "gradient of sums of a Gaussian kernel with respect to the points",
        {"N": 2000, "D": 3},
        {"N": 6, "D": 3},
        "N",
        ours_gaussian,
        inputs_gaussian,
        (
            by_hand(hand_gaussian),
            *automatic("broadcast", Vjp(gaussian, (0,))),
            *automatic("matrix products", Vjp(gaussian_by_products, (0,))),
            Peer("keops", "LazyTensor", ByHand(keops_gaussian)),
        ),
        work_gaussian,
    ),
    Row(
        "volterra",
        "both gradients of the misfit of a second-order Volterra series",
        VOLTERRA,
        VOLTERRA_QUICK,
        "n",
        ours_volterra,
        inputs_volterra,
        (
            by_hand(hand_volterra),
            *automatic("einsum of windows", Gradient(volterra, (2, 3))),
            *automatic("products of windows", Gradient(volterra_by_products, (2, 3))),
        ),
        # The value takes w h and w g; one triangle of x_{i+a} x_{i+b} is enough for the gradient.
        lambda s: Work(
            s["n"] * (2 * s["K"] ** 2 + 4 * s["K"] + s["K"] * (s["K"] + 2)),
            2 * s["n"] + s["K"] + 2 * (s["K"] + s["K"] ** 2),
        ),
    ),
    Row(
        "volterra-hessian",
        "all blocks of the Hessian of that misfit",
        {"n": 2000, "K": 16},
        VOLTERRA_QUICK,
        "n",
        ours_volterra_hessian,
        inputs_volterra,
        (
            by_hand(hand_volterra_hessian),
            *automatic("einsum of windows", Hessian(volterra, (2, 3))),
            *automatic("products of windows", Hessian(volterra_by_products, (2, 3))),
        ),
        # Different products of four, three and two entries of a window.
        lambda s: Work(
            2 * s["n"] * sum(distinct(s["K"], order) for order in (2, 3, 4)),
            s["n"] + s["K"] - 1 + (s["K"] + s["K"] ** 2) ** 2,
        ),
    ),
)
