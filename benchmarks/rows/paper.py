"""The example of the paper's section 6: all four gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy

import sympy_tensordiff as td
from benchmarks.row import Arrays, Row, Sizes, Vjp, Work, automatic, by_hand
from benchmarks.windows import windows


def ours(sizes: Sizes) -> tuple[Any, Any]:
    I, J, K = (sizes[name] for name in "IJK")
    i, j, k = td.indices("i j k")
    a, b = td.TensorSymbol("a", (I, K)), td.TensorSymbol("b", (J, K))
    c, d = td.TensorSymbol("c", (I, I)), td.TensorSymbol("d", I + K - 1)
    df = td.TensorSymbol("df", (I, J))
    exponent = td.IndexedSum((a[i, k] + b[j, k]) ** 2 * c[i, i] + d[i + k] ** 3, (k, 0, K - 1))
    f = td.TensorComprehension(sympy.exp(-exponent), (i, I), (j, J))
    return (a, b, c, d, df), td.vjp(f, (a, b, c, d), df)


def inputs(random: np.random.Generator, sizes: Sizes) -> Arrays:
    I, J, K = (sizes[name] for name in "IJK")
    a, b = random.uniform(-0.3, 0.3, (I, K)), random.uniform(-0.3, 0.3, (J, K))
    c, d = random.uniform(-0.5, 0.5, (I, I)) / np.sqrt(K), random.uniform(-1, 1, I + K - 1) / np.cbrt(K)
    return a, b, c, d, random.standard_normal((I, J))


def broadcast(xp: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    squares = (a[:, None, :] + b[None, :, :]) ** 2 * xp.diagonal(c)[:, None, None]
    return xp.exp(-(squares + windows(xp, d**3, b.shape[1])[:, None, :]).sum(2))


def matrices(xp: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] + 2 * (a @ b.T)
    return xp.exp(-(squares * xp.diagonal(c)[:, None] + windows(xp, d**3, b.shape[1]).sum(1)[:, None]))


def hand(xp: Any, a: Any, b: Any, c: Any, d: Any, df: Any) -> Any:
    diagonal = np.diagonal(c)[:, None]
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1) + 2 * (a @ b.T)
    weights = -df * np.exp(-(squares * diagonal + windows(xp, d**3, b.shape[1]).sum(1)[:, None]))
    sums = weights.sum(1)
    da = 2 * diagonal * (a * sums[:, None] + weights @ b)
    scaled = weights * diagonal
    db = 2 * (scaled.T @ a + b * scaled.sum(0)[:, None])
    dc = np.diag((weights * squares).sum(1))
    return da, db, dc, 3 * d**2 * np.convolve(sums, np.ones(b.shape[1], b.dtype))


def work(sizes: Sizes) -> Work:
    I, J, K = (sizes[name] for name in "IJK")
    # Three products of matrices; the sums over k and j that are left have two axes at most.
    return Work(6 * I * J * K + 10 * I * J, 2 * (I * K + J * K + I + K - 1) + I + I * I + I * J, I * J)


ROWS = (
    Row(
        "paper",
        "four gradients of exp(-sum_k ((a_ik + b_jk)^2 c_ii + d_{i+k}^3))",
        {"I": 300, "J": 300, "K": 64},
        {"I": 5, "J": 4, "K": 3},
        "J",
        ours,
        inputs,
        (
            by_hand(hand),
            *automatic("broadcast", Vjp(broadcast, (0, 1, 2, 3))),
            *automatic("matrix products", Vjp(matrices, (0, 1, 2, 3))),
        ),
        work,
        expand=True,
    ),
)
