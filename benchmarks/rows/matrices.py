"""Inverses and determinants: the likelihood of a Gaussian process, many small matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy

import sympy_tensordiff as td
from benchmarks.row import Array, Arrays, Gradient, Row, Sizes, Work, automatic, by_hand

# ---------------------------------------------------------------- a Gaussian process


def ours_process(sizes: Sizes) -> tuple[Any, Any]:
    n, d = sizes["n"], sizes["d"]
    i, j, k = td.indices("i j k")
    X, y, h = td.TensorSymbol("X", (n, d)), td.TensorSymbol("y", n), td.TensorSymbol("h", d)
    s = td.TensorSymbol("s", 2)  # the noise and the scale
    distance = td.IndexedSum(((X[i, k] - X[j, k]) / h[k]) ** 2, (k, 0, d - 1))
    covariance = td.TensorComprehension(s[1] ** 2 * sympy.exp(-distance / 2), (i, n), (j, n))
    K = covariance + s[0] ** 2 * td.DeltaTensor(n)
    return (X, y, h, s), td.gradient((y @ td.inv(K) @ y + td.logdet(K)) / 2, (h, s))


def process_inputs(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    n, d = sizes["n"], sizes["d"]
    return rng.normal(size=(n, d)), rng.normal(size=n), rng.uniform(0.7, 1.5, d), np.array([0.5, 1.2])


def likelihood(xp: Any, X: Any, y: Any, h: Any, s: Any) -> Any:
    z = X / h
    squares = (z * z).sum(1)
    distances = squares[:, None] + squares[None] - 2 * z @ z.T
    K = s[1] ** 2 * xp.exp(-distances / 2) + s[0] ** 2 * xp.eye(len(y), dtype=y.dtype)
    factor = xp.linalg.cholesky(K)
    first = xp.linalg.solve(K, y)
    return (y * first).sum() / 2 + xp.log(xp.diagonal(factor)).sum()


def hand_process(xp: Any, X: Array, y: Array, h: Array, s: Array) -> Arrays:
    from scipy.linalg import lapack

    noise, scale = s
    z = X / h
    squares = (z * z).sum(1)
    E = np.exp(z @ z.T - squares[:, None] / 2 - squares[None] / 2)
    K = scale**2 * E
    np.fill_diagonal(K, scale**2 + noise**2)
    letter = "s" if X.dtype.itemsize == 4 else "d"
    factor = getattr(lapack, letter + "potrf")(K, lower=1, overwrite_a=1)[0]
    solved = getattr(lapack, letter + "potrs")(factor, y, lower=1)[0]
    lower = np.tril(getattr(lapack, letter + "potri")(factor, lower=1)[0])
    G = lower + np.tril(lower, -1).T - np.outer(solved, solved)
    weights = G * E
    rows = weights.sum(1)
    by_h = scale**2 * ((X * X * rows[:, None]).sum(0) - ((weights @ X) * X).sum(0)) / h**3
    return by_h, np.array([noise * np.trace(G), scale * weights.sum()])


# ---------------------------------------------------------------- many matrices


def ours_matrices(sizes: Sizes) -> tuple[Any, Any]:
    N, n = sizes["N"], sizes["n"]
    A = td.TensorSymbol("A", (N, n, n))
    return (A,), td.gradient(td.sum(td.inv(A) ** 2) + td.sum(td.logdet(A)), A)


def matrices_inputs(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    root = rng.normal(size=(sizes["N"], sizes["n"], sizes["n"]))
    return (root @ root.transpose(0, 2, 1) + sizes["n"] * np.eye(sizes["n"]),)


def of_matrices(xp: Any, A: Any) -> Any:
    return (xp.linalg.inv(A) ** 2).sum() + xp.linalg.slogdet(A)[1].sum()


def hand_matrices(xp: Any, A: Array) -> Array:
    inverse = np.linalg.inv(A)
    turned = inverse.transpose(0, 2, 1)
    return np.asarray(turned - 2 * turned @ inverse @ turned)


ROWS = (
    Row(
        "gaussian-process",
        "the marginal likelihood of a Gaussian process by all its hyper-parameters",
        {"n": 1000, "d": 3},
        {"n": 6, "d": 2},
        "n",
        ours_process,
        process_inputs,
        (by_hand(hand_process), *automatic("a factorization and a solution", Gradient(likelihood, (2, 3)))),
        lambda s: Work(s["n"] ** 3 + (4 * s["d"] + 6) * s["n"] ** 2, s["n"] * (s["d"] + 1), s["n"] ** 2 // 2),
    ),
    Row(
        "batch-inverse",
        "inverses and determinants of many small matrices, differentiated by them",
        {"N": 512, "n": 16},
        {"N": 3, "n": 2},
        "N",
        ours_matrices,
        matrices_inputs,
        (by_hand(hand_matrices), *automatic("as written", Gradient(of_matrices, (0,)))),
        lambda s: Work(6 * s["N"] * s["n"] ** 3, 2 * s["N"] * s["n"] ** 2),
    ),
)
