"""Products with Hessians of losses that people fit: an autoencoder, a classifier, attention, solutions, transport."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy

import sympy_tensordiff as td
from benchmarks.row import Array, Arrays, Hessian, HessianProduct, Row, Sizes, Work, automatic, by_hand
from benchmarks.rows.regression import softmax

# sum((tanh(X W) W' - X)^2) by W: the decoder is the transpose of the encoder.


def ours_autoencoder(sizes: Sizes) -> tuple[Any, Any]:
    b, n, m = sizes["b"], sizes["n"], sizes["m"]
    X, W, V = td.TensorSymbol("X", (b, n)), td.TensorSymbol("W", (n, m)), td.TensorSymbol("V", (n, m))
    return (X, W, V), td.hvp(td.sum((td.tanh(X @ W) @ W.T - X) ** 2), W, V)


def inputs_autoencoder(random: np.random.Generator, sizes: Sizes) -> Arrays:
    b, n, m = sizes["b"], sizes["n"], sizes["m"]
    return random.standard_normal((b, n)), *(random.standard_normal((n, m)) / np.sqrt(n) for _ in range(2))


def autoencoder(xp: Any, X: Any, W: Any) -> Any:
    return ((xp.tanh(X @ W) @ W.T - X) ** 2).sum()


def hand_autoencoder(xp: Any, X: Array, W: Array, V: Array) -> Array:
    H = np.tanh(X @ W)
    slope = 1 - H * H
    dH = (X @ V) * slope
    R, dR = 2 * (H @ W.T - X), 2 * (dH @ W.T + H @ V.T)
    back = R @ W
    inner = (dR @ W + R @ V) * slope - 2 * back * H * dH
    return np.asarray(dR.T @ H + R.T @ dH + X.T @ inner)


# The cross-entropy of softmax(tanh(X A) C) by A.


def ours_classifier(sizes: Sizes) -> tuple[Any, Any]:
    b, n, m, k = sizes["b"], sizes["n"], sizes["m"], sizes["k"]
    X, Y, A = td.TensorSymbol("X", (b, n)), td.TensorSymbol("Y", (b, k)), td.TensorSymbol("A", (n, m))
    C, V = td.TensorSymbol("C", (m, k)), td.TensorSymbol("V", (n, m))
    scores = td.tanh(X @ A) @ C
    loss = td.sum(td.logsumexp(scores, axis=1)) - td.sum(Y * scores)
    return (X, Y, A, C, V), td.hvp(loss, A, V)


def inputs_classifier(random: np.random.Generator, sizes: Sizes) -> Arrays:
    b, n, m, k = sizes["b"], sizes["n"], sizes["m"], sizes["k"]
    A, V = (random.standard_normal((n, m)) / np.sqrt(n) for _ in range(2))
    labels = np.eye(k)[random.integers(k, size=b)]
    return random.standard_normal((b, n)), labels, A, random.standard_normal((m, k)), V


def classifier(xp: Any, X: Any, Y: Any, A: Any, C: Any) -> Any:
    scores = xp.tanh(X @ A) @ C
    if xp.__name__ == "torch":
        return xp.logsumexp(scores, 1).sum() - (Y * scores).sum()
    import jax

    return jax.nn.logsumexp(scores, axis=1).sum() - (Y * scores).sum()


def hand_classifier(xp: Any, X: Array, Y: Array, A: Array, C: Array, V: Array) -> Array:
    H = np.tanh(X @ A)
    slope = 1 - H * H
    dH = (X @ V) * slope
    P, dS = softmax(H @ C), dH @ C
    dP = P * (dS - (P * dS).sum(1, keepdims=True))
    return np.asarray(X.T @ ((dP @ C.T) * slope - 2 * ((P - Y) @ C.T) * H * dH))


# sum(Y softmax(Q K' / sqrt(D)) V) by K.


def ours_attention(sizes: Sizes) -> tuple[Any, Any]:
    shape = sizes["N"], sizes["D"]
    Q, K, V, Y, T = (td.TensorSymbol(name, shape) for name in "QKVYT")
    weights = td.softmax(Q @ K.T / sympy.sqrt(sizes["D"]), axis=1)
    return (Q, K, V, Y, T), td.hvp(td.sum(Y * (weights @ V)), K, T)


def inputs_attention(random: np.random.Generator, sizes: Sizes) -> Arrays:
    return tuple(random.standard_normal((sizes["N"], sizes["D"])) for _ in range(5))


def attention(xp: Any, Q: Any, K: Any, V: Any, Y: Any) -> Any:
    scores = Q @ K.T / Q.shape[1] ** 0.5
    if xp.__name__ == "torch":
        return (Y * (xp.softmax(scores, 1) @ V)).sum()
    import jax

    return (Y * (jax.nn.softmax(scores, axis=1) @ V)).sum()


def hand_attention(xp: Any, Q: Array, K: Array, V: Array, Y: Array, T: Array) -> Array:
    scale = Q.dtype.type(Q.shape[1] ** -0.5)
    P, dS = softmax(Q @ K.T * scale), Q @ T.T * scale
    dP = P * (dS - (P * dS).sum(1, keepdims=True))
    by_P = Y @ V.T
    centred = by_P - (P * by_P).sum(1, keepdims=True)
    by_S = dP * centred - P * (dP * by_P).sum(1, keepdims=True)
    return np.asarray(by_S.T @ Q * scale)


# The likelihood of a Gaussian process twice by its length scale.


def ours_process(sizes: Sizes) -> tuple[Any, Any]:
    n, d = sizes["n"], sizes["d"]
    i, j, k = td.indices("i j k")
    X, y, s = td.TensorSymbol("X", (n, d)), td.TensorSymbol("y", n), td.TensorSymbol("s", 1)
    distance = td.IndexedSum((X[i, k] - X[j, k]) ** 2, (k, 0, d - 1))
    covariance = td.TensorComprehension(sympy.exp(-distance / (2 * s[0] ** 2)), (i, n), (j, n))
    K = covariance + td.DeltaTensor(n) / 4
    return (X, y, s), td.hessian((y @ td.solve(K, y) + td.logdet(K)) / 2, s)


def inputs_process(random: np.random.Generator, sizes: Sizes) -> Arrays:
    return random.standard_normal((sizes["n"], sizes["d"])), random.standard_normal(sizes["n"]), np.array([0.8])


def likelihood(xp: Any, X: Any, y: Any, s: Any) -> Any:
    squares = (X * X).sum(1)
    distances = squares[:, None] + squares[None] - 2 * X @ X.T
    K = xp.exp(-distances / (2 * s[0] ** 2)) + xp.eye(len(y), dtype=y.dtype) / 4
    factor = xp.linalg.cholesky(K)
    return (y * xp.linalg.solve(K, y)).sum() / 2 + xp.log(xp.diagonal(factor)).sum()


def hand_process(xp: Any, X: Array, y: Array, s: Array) -> Array:
    (length,) = s
    squares = (X * X).sum(1)
    D = squares[:, None] + squares - 2 * X @ X.T
    E = np.exp(-D / (2 * length**2))
    first, second = E * D / length**3, E * (D / length**6 - 3 / length**4) * D
    inverse = np.linalg.inv(E + np.eye(len(y), dtype=X.dtype) / 4)
    solved, product = inverse @ y, inverse @ first
    along = first @ solved
    quadratic = 2 * along @ inverse @ along - solved @ second @ solved
    return np.asarray([[(quadratic + (inverse * second).sum() - (product * product.T).sum()) / 2]], X.dtype)


# log det A and sum(inv(A)^2).


def ours_determinant(sizes: Sizes) -> tuple[Any, Any]:
    A, V = (td.TensorSymbol(name, (sizes["n"], sizes["n"])) for name in "AV")
    return (A, V), td.hvp(td.logdet(A), A, V)


def ours_inverse(sizes: Sizes) -> tuple[Any, Any]:
    A, V = (td.TensorSymbol(name, (sizes["n"], sizes["n"])) for name in "AV")
    return (A, V), td.hvp(td.sum(td.inv(A) ** 2), A, V)


def inputs_matrix(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n = sizes["n"]
    root, tangent = random.standard_normal((2, n, n))
    return root @ root.T / n + np.eye(n), tangent


def determinant(xp: Any, A: Any) -> Any:
    return xp.linalg.slogdet(A)[1]


def inverse(xp: Any, A: Any) -> Any:
    return (xp.linalg.inv(A) ** 2).sum()


def hand_determinant(xp: Any, A: Array, V: Array) -> Array:
    B = np.linalg.inv(A)
    return np.asarray(-(B @ V @ B).T)


def hand_inverse(xp: Any, A: Array, V: Array) -> Array:
    B = np.linalg.inv(A)
    dB = -B @ V @ B
    inner = dB @ B.T
    return np.asarray(-2 * (dB.T @ B @ B.T + B.T @ (inner + inner.T)))


# Transport: u = a/(K v), v = b/(K' u) some times, K = exp(-C); sum(C u K v) by C.

ROUNDS = 4


def ours_sinkhorn(sizes: Sizes) -> tuple[Any, Any]:
    n, m = sizes["n"], sizes["m"]
    C, V = td.TensorSymbol("C", (n, m)), td.TensorSymbol("V", (n, m))
    a, b = td.TensorSymbol("a", n), td.TensorSymbol("b", m)
    K = td.exp(-C)
    u = a
    for _ in range(ROUNDS):
        v = b / (K.T @ u)
        u = a / (K @ v)
    return (C, a, b, V), td.hvp(td.sum(C * K * td.outer(u, v)), C, V)


def inputs_sinkhorn(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n, m = sizes["n"], sizes["m"]
    masses = random.uniform(0.5, 1.5, n), random.uniform(0.5, 1.5, m)
    return random.uniform(0, 1, (n, m)), *(x / x.sum() for x in masses), random.standard_normal((n, m))


def sinkhorn(xp: Any, C: Any, a: Any, b: Any) -> Any:
    K = xp.exp(-C)
    u = a
    for _ in range(ROUNDS):
        v = b / (K.T @ u)
        u = a / (K @ v)
    return (u[:, None] * (C * K) * v).sum()


def hand_sinkhorn(xp: Any, C: Array, a: Array, b: Array, V: Array) -> Array:
    """All values with their tangents, forward and backward."""
    K = np.exp(-C)
    dK = -K * V
    u, du = a, np.zeros_like(a)
    states = []
    for _ in range(ROUNDS):
        q, dq = K.T @ u, dK.T @ u + K.T @ du
        v = b / q
        dv = -v * dq / q
        p, dp = K @ v, dK @ v + K @ dv
        states.append((u, du, q, dq, v, dv, p, dp))
        u = a / p
        du = -u * dp / p
    M, dM = C * K, V * K + C * dK
    outer, d_outer = np.outer(u, v), np.outer(du, v) + np.outer(u, dv)
    by_K, d_by_K = C * outer, V * outer + C * d_outer
    direct = dK * outer + K * d_outer
    by_u, d_by_u = M @ v, dM @ v + M @ dv
    by_v, d_by_v = M.T @ u, dM.T @ u + M.T @ du
    for before, d_before, q, dq, v, dv, p, dp in states[::-1]:
        by_p = -by_u * u / p
        d_by_p = -(d_by_u * u + by_u * du) / p - by_p * dp / p
        by_K += np.outer(by_p, v)
        d_by_K += np.outer(d_by_p, v) + np.outer(by_p, dv)
        by_v, d_by_v = by_v + K.T @ by_p, d_by_v + dK.T @ by_p + K.T @ d_by_p
        by_q = -by_v * v / q
        d_by_q = -(d_by_v * v + by_v * dv) / q - by_q * dq / q
        by_K += np.outer(before, by_q)
        d_by_K += np.outer(d_before, by_q) + np.outer(before, d_by_q)
        by_u, d_by_u = K @ by_q, dK @ by_q + K @ d_by_q
        by_v, d_by_v = np.zeros_like(v), np.zeros_like(v)
        u, du = before, d_before
    return np.asarray(direct - d_by_K * K - by_K * dK)


def the_block(xp: Any, blocks: Any) -> Any:
    """The one block of second derivatives with respect to one array."""
    return blocks[0][0]


def cubes(count: int) -> Any:
    """The work of so many products of square matrices."""
    return lambda s: Work(2 * count * s["n"] ** 3, 3 * s["n"] ** 2)


ROWS = (
    Row(
        "autoencoder-hvp",
        "a product with the Hessian of an autoencoder with tied weights",
        {"b": 256, "n": 256, "m": 64},
        {"b": 3, "n": 4, "m": 2},
        "b",
        ours_autoencoder,
        inputs_autoencoder,
        (by_hand(hand_autoencoder), *automatic("matrix products", HessianProduct(autoencoder, 1))),
        lambda s: Work(22 * s["b"] * s["n"] * s["m"], s["b"] * s["n"] + 3 * s["n"] * s["m"], s["b"] * s["m"]),
    ),
    Row(
        "softmax-network-hvp",
        "a product with the Hessian of the cross-entropy of a network of 2 layers with respect to the first weights",
        {"b": 512, "n": 128, "m": 128, "k": 10},
        {"b": 3, "n": 4, "m": 2, "k": 3},
        "b",
        ours_classifier,
        inputs_classifier,
        (by_hand(hand_classifier), *automatic("matrix products", HessianProduct(classifier, 2))),
        lambda s: Work(
            s["b"] * s["m"] * (6 * s["n"] + 8 * s["k"]),
            s["b"] * (s["n"] + s["k"]) + s["m"] * (3 * s["n"] + s["k"]),
            s["b"] * (s["m"] + s["k"]),
        ),
    ),
    Row(
        "attention-hvp",
        "a product with the Hessian of attention with respect to the keys",
        {"N": 512, "D": 64},
        {"N": 4, "D": 3},
        "N",
        ours_attention,
        inputs_attention,
        (by_hand(hand_attention), *automatic("softmax", HessianProduct(attention, 1))),
        lambda s: Work(s["N"] ** 2 * (8 * s["D"] + 12), 6 * s["N"] * s["D"], s["N"] ** 2),
    ),
    Row(
        "process-hessian",
        "the marginal likelihood of a Gaussian process twice by its length scale",
        {"n": 400, "d": 3},
        {"n": 6, "d": 2},
        "n",
        ours_process,
        inputs_process,
        (by_hand(hand_process), *automatic("a factorization and a solution", Hessian(likelihood, (2,), the_block))),
        lambda s: Work(4 * s["n"] ** 3, s["n"] * (s["d"] + 1), s["n"] ** 2 // 2),
    ),
    Row(
        "logdet-hvp",
        "a product with the Hessian of log det",
        {"n": 256},
        {"n": 4},
        "n",
        ours_determinant,
        inputs_matrix,
        (by_hand(hand_determinant), *automatic("as written", HessianProduct(determinant, 0))),
        cubes(3),
    ),
    Row(
        "inverse-hvp",
        "a product with the Hessian of the squared inverse",
        {"n": 256},
        {"n": 4},
        "n",
        ours_inverse,
        inputs_matrix,
        (by_hand(hand_inverse), *automatic("as written", HessianProduct(inverse, 0))),
        cubes(7),
    ),
    Row(
        "sinkhorn-hvp",
        f"a product with the Hessian of {ROUNDS} rounds of Sinkhorn's method with respect to the costs",
        {"n": 256, "m": 256},
        {"n": 3, "m": 4},
        "n",
        ours_sinkhorn,
        inputs_sinkhorn,
        (by_hand(hand_sinkhorn), *automatic("matrix products", HessianProduct(sinkhorn, 0))),
        lambda s: Work(s["n"] * s["m"] * (24 * ROUNDS + 20), 3 * s["n"] * s["m"], s["n"] * s["m"]),
    ),
)
