"""Second derivatives of a matrix factorization, sum (U V^T - M)^2 / 2: most of them are zero."""

from __future__ import annotations

from typing import Any

import numpy as np

import sympy_tensordiff as td
from benchmarks.row import Array, Arrays, Hessian, Row, Sizes, Work, automatic, by_hand
from benchmarks.rows.contractions import normal


def symbols(sizes: Sizes) -> tuple[Any, Any]:
    m, n, r = sizes["m"], sizes["n"], sizes["r"]
    U, V, M = td.TensorSymbol("U", (m, r)), td.TensorSymbol("V", (n, r)), td.TensorSymbol("M", (m, n))
    residual = U @ V.T - M
    return (U, V, M), td.sum(residual * residual) / 2


def ours_hessian(sizes: Sizes) -> tuple[Any, Any]:
    args, loss = symbols(sizes)
    return args, td.hessian(loss, args[:2])


def ours_diagonal(sizes: Sizes) -> tuple[Any, Any]:
    args, loss = symbols(sizes)
    p, q = td.indices("p q")
    blocks = [td.hessian(loss, variable) for variable in args[:2]]
    return args, tuple(
        td.TensorComprehension(block[p, q, p, q], (p, block.shape[0]), (q, block.shape[1])) for block in blocks
    )


def loss(xp: Any, U: Any, V: Any, M: Any) -> Any:
    return ((U @ V.T - M) ** 2).sum() / 2


def diagonals(xp: Any, blocks: Any) -> Any:
    return tuple(xp.einsum("pqpq->pq", blocks[n][n]) for n in range(2))


def hand_hessian(xp: Any, U: Array, V: Array, M: Array) -> Arrays:
    (m, r), n = U.shape, len(V)
    residual = U @ V.T - M
    mixed = U[:, None, None, :] * V.T[None, :, :, None]  # i a j b
    ranks, rows, columns = np.arange(r), np.arange(m), np.arange(n)
    mixed[:, ranks, :, ranks] += residual  # the index arrays are first: a i j
    by_U, by_V = np.zeros((m, r, m, r), U.dtype), np.zeros((n, r, n, r), U.dtype)
    by_U[rows, :, rows, :] = V.T @ V
    by_V[columns, :, columns, :] = U.T @ U
    return by_U, mixed, np.ascontiguousarray(mixed.transpose(2, 3, 0, 1)), by_V


def hand_diagonal(xp: Any, U: Array, V: Array, M: Array) -> Arrays:
    by_U, by_V = np.empty_like(U), np.empty_like(V)
    by_U[:] = (V * V).sum(0)
    by_V[:] = (U * U).sum(0)
    return by_U, by_V


def work_hessian(sizes: Sizes) -> Work:
    m, n, r = sizes["m"], sizes["n"], sizes["r"]
    products = 2 * m * n * r + m * n + (m + n) * r * r * 2  # the residual, and the two Gram matrices
    return Work(products + m * n * r * r, (m + n) * r + m * n + ((m + n) * r) ** 2)


LARGE, SMALL = {"m": 40, "n": 40, "r": 8}, {"m": 3, "n": 4, "r": 2}
ROWS = (
    Row(
        "factorization-hessian",
        "all blocks of the Hessian of a matrix factorization",
        LARGE,
        SMALL,
        "m",
        ours_hessian,
        normal("m r", "n r", "m n"),
        (by_hand(hand_hessian), *automatic("matrix products", Hessian(loss, (0, 1)))),
        work_hessian,
    ),
    Row(
        "factorization-diagonal",
        "the diagonal of the Hessian of a matrix factorization",
        LARGE,
        SMALL,
        "m",
        ours_diagonal,
        normal("m r", "n r", "m n"),
        (by_hand(hand_diagonal), *automatic("out of the Hessian", Hessian(loss, (0, 1), diagonals))),
        lambda s: Work(2 * (s["m"] + s["n"]) * s["r"], 2 * (s["m"] + s["n"]) * s["r"]),
    ),
)
