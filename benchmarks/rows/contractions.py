"""Products of matrices and of three-way tensors: a library for matrices does all the work."""

from __future__ import annotations

from typing import Any

import numpy as np

import sympy_tensordiff as td
from benchmarks.row import Arrays, Peer, Row, Sizes, Vjp, Work, automatic, by_hand

# C = A B.


def ours_matmul(sizes: Sizes) -> tuple[Any, Any]:
    n = sizes["n"]
    A, B, dC = (td.TensorSymbol(name, (n, n)) for name in ("A", "B", "dC"))
    return (A, B, dC), td.vjp(A @ B, (A, B), dC)


def matmul(xp: Any, A: Any, B: Any) -> Any:
    return A @ B


def hand_matmul(xp: Any, A: Any, B: Any, dC: Any) -> Any:
    return dC @ B.T, A.T @ dC


# M_ir = sum_jk T_ijk B_jr C_kr.


def ours_mttkrp(sizes: Sizes) -> tuple[Any, Any]:
    n, r = sizes["n"], sizes["r"]
    T, B, C = td.TensorSymbol("T", (n, n, n)), td.TensorSymbol("B", (n, r)), td.TensorSymbol("C", (n, r))
    dM = td.TensorSymbol("dM", (n, r))
    return (T, B, C, dM), td.vjp(td.einsum("ijk,jr,kr->ir", T, B, C), (T, B, C), dM)


def mttkrp(xp: Any, T: Any, B: Any, C: Any) -> Any:
    return xp.einsum("ijk,jr,kr->ir", T, B, C)


def mttkrp_in_steps(xp: Any, T: Any, B: Any, C: Any) -> Any:
    return xp.einsum("ijr,jr->ir", T @ C, B)


def hand_mttkrp(xp: Any, T: Any, B: Any, C: Any, dM: Any) -> Any:
    n, r = B.shape
    dT = dM @ (B[:, None, :] * C[None, :, :]).reshape(n * n, r).T
    both = (dM.T @ T.reshape(n, n * n)).reshape(r, n, n)
    dB = np.einsum("rjk,kr->jr", both, C)
    dC = np.einsum("rjk,jr->kr", both, B)
    return dT.reshape(n, n, n), dB, dC


def normal(*names: str) -> Any:
    """Standard normal inputs whose shapes are given by the names of their sizes, as in ``"n r"``."""

    def inputs(random: np.random.Generator, sizes: Sizes) -> Arrays:
        return tuple(random.standard_normal([sizes[name] for name in shape.split()]) for shape in names)

    return inputs


ROWS = (
    Row(
        "matmul",
        "both gradients of A B",
        {"n": 512},
        {"n": 5},
        "n",
        ours_matmul,
        normal("n n", "n n", "n n"),
        (
            by_hand(hand_matmul),
            *automatic("A @ B", Vjp(matmul, (0, 1))),
            Peer("torch", "A @ B, backward only", Vjp(matmul, (0, 1), backward_only=True)),
        ),
        lambda s: Work(4 * s["n"] ** 3, 5 * s["n"] ** 2),
    ),
    Row(
        "mttkrp",
        "all three gradients of sum_jk T_ijk B_jr C_kr",
        {"n": 128, "r": 16},
        {"n": 4, "r": 3},
        "r",
        ours_mttkrp,
        normal("n n n", "n r", "n r", "n r"),
        (
            by_hand(hand_mttkrp),
            *automatic("einsum", Vjp(mttkrp, (0, 1, 2))),
            *automatic("two products", Vjp(mttkrp_in_steps, (0, 1, 2))),
            Peer("torch", "einsum, backward only", Vjp(mttkrp, (0, 1, 2), backward_only=True)),
        ),
        # The gradient by T, and the product of T with the cotangent, of which the two others are small products.
        lambda s: Work(4 * s["n"] ** 3 * s["r"] + 4 * s["n"] ** 2 * s["r"], 2 * s["n"] ** 3 + 5 * s["n"] * s["r"]),
    ),
)
