"""Parts of neural networks: attention with a mask, layer normalization, a network of three layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy

import sympy_tensordiff as td
from benchmarks.row import Array, Arrays, Gradient, Peer, Row, Sizes, Vjp, Work, automatic, by_hand
from benchmarks.rows.contractions import normal
from benchmarks.rows.regression import softmax

# out_i = sum_{j <= i} softmax_j(q_i k_j) v_j, for all rows i, and for the row of one query, masked after two thirds.


def ours_attention(sizes: Sizes) -> tuple[Any, Any]:
    N, D = sizes["N"], sizes["D"]
    i, j, k = td.indices("i j k")
    Q, K, V, dO = (td.TensorSymbol(name, (N, D)) for name in ("Q", "K", "V", "dO"))
    scores = td.IndexedSum(Q[i, k] * K[j, k], (k, 0, D - 1)) / sympy.sqrt(D)
    weights = td.TensorComprehension(sympy.exp(scores), (i, N), (j, N))
    total = td.IndexedSum(weights[i, j], (j, 0, i))
    out = td.TensorComprehension(td.IndexedSum(weights[i, j] * V[j, k], (j, 0, i)) / total, (i, N), (k, D))
    return (Q, K, V, dO), td.vjp(out, (Q, K, V), dO)


def attention(xp: Any, Q: Any, K: Any, V: Any) -> Any:
    N, D = Q.shape
    scores = Q @ K.T / D**0.5
    masked = xp.where(xp.arange(N)[:, None] >= xp.arange(N)[None, :], scores, -xp.inf)
    if xp.__name__ == "torch":
        return xp.softmax(masked, 1) @ V
    import jax

    return jax.nn.softmax(masked, axis=1) @ V


def attention_of_library(xp: Any, Q: Any, K: Any, V: Any) -> Any:
    return xp.nn.functional.scaled_dot_product_attention(Q[None], K[None], V[None], is_causal=True)[0]


def hand_attention(xp: Any, Q: Array, K: Array, V: Array, dO: Array) -> Arrays:
    N, D = Q.shape
    scale = Q.dtype.type(D**-0.5)
    weights = softmax(np.where(np.tri(N, dtype=bool), Q @ K.T * scale, -np.inf).astype(Q.dtype))
    by_weights = dO @ V.T
    by_scores = weights * (by_weights - (weights * by_weights).sum(1, keepdims=True)) * scale
    return by_scores @ K, by_scores.T @ Q, weights.T @ dO


def work_attention(sizes: Sizes) -> Work:
    pairs = sizes["N"] * (sizes["N"] + 1) // 2
    return Work(10 * pairs * sizes["D"] + 5 * pairs, 7 * sizes["N"] * sizes["D"], pairs)


def remaining(n: int) -> int:
    """Return the number of keys that the mask leaves."""
    return 2 * n // 3


def ours_row(sizes: Sizes) -> tuple[Any, Any]:
    N, D = sizes["N"], sizes["D"]
    j, k = td.indices("j k")
    q, K, V = td.TensorSymbol("q", D), td.TensorSymbol("K", (N, D)), td.TensorSymbol("V", (N, D))
    do = td.TensorSymbol("do", D)
    scores = td.IndexedSum(K[j, k] * q[k], (k, 0, D - 1)) / sympy.sqrt(D)
    weights = td.TensorComprehension(sympy.exp(scores), (j, N))
    last = remaining(N) - 1
    out = td.IndexedSum(weights[j] * V[j, k], (j, 0, last)) / td.IndexedSum(weights[j], (j, 0, last))
    return (q, K, V, do), td.vjp(td.TensorComprehension(out, (k, D)), (q, K, V), do)


def attention_row(xp: Any, q: Any, K: Any, V: Any) -> Any:
    N, D = K.shape
    scores = xp.where(xp.arange(N) < remaining(N), K @ q / D**0.5, -xp.inf)
    if xp.__name__ == "torch":
        return xp.softmax(scores, 0) @ V
    import jax

    return jax.nn.softmax(scores) @ V


def attention_row_sliced(xp: Any, q: Any, K: Any, V: Any) -> Any:
    N, D = K.shape
    scores = K[: remaining(N)] @ q / D**0.5
    if xp.__name__ == "torch":
        return xp.softmax(scores, 0) @ V[: remaining(N)]
    import jax

    return jax.nn.softmax(scores) @ V[: remaining(N)]


def hand_row(xp: Any, q: Array, K: Array, V: Array, do: Array) -> Arrays:
    N, D = K.shape
    last, scale = remaining(N), q.dtype.type(D**-0.5)
    weights = softmax((K[:last] @ q * scale)[None])[0]
    by_weights = V[:last] @ do
    by_scores = weights * (by_weights - weights @ by_weights) * scale
    dK, dV = np.zeros_like(K), np.zeros_like(V)
    np.outer(by_scores, q, out=dK[:last])
    np.outer(weights, do, out=dV[:last])
    return by_scores @ K[:last], dK, dV


def work_row(sizes: Sizes) -> Work:
    N, D = sizes["N"], sizes["D"]
    return Work(8 * remaining(N) * D, 2 * remaining(N) * D + 2 * N * D + 3 * D, remaining(N))


# y_ij = (x_ij - mean_i) / sqrt(variance_i + 1/1000) g_j + b_j.


def ours_layernorm(sizes: Sizes) -> tuple[Any, Any]:
    B, n = sizes["B"], sizes["n"]
    i, j = td.indices("i j")
    x, g, b = td.TensorSymbol("x", (B, n)), td.TensorSymbol("g", n), td.TensorSymbol("b", n)
    dy = td.TensorSymbol("dy", (B, n))
    mean = td.TensorComprehension(td.IndexedSum(x[i, j], (j, 0, n - 1)) / n, (i, B))
    centred = td.TensorComprehension(x[i, j] - mean[i], (i, B), (j, n))
    variance = td.TensorComprehension(td.IndexedSum(centred[i, j] ** 2, (j, 0, n - 1)) / n, (i, B))
    deviation = sympy.sqrt(variance[i] + sympy.Rational(1, 1000))
    y = td.TensorComprehension(centred[i, j] / deviation * g[j] + b[j], (i, B), (j, n))
    return (x, g, b, dy), td.vjp(y, (x, g, b), dy)


def layernorm(xp: Any, x: Any, g: Any, b: Any) -> Any:
    centred = x - x.mean(1)[:, None]
    return centred / xp.sqrt((centred**2).mean(1) + 1e-3)[:, None] * g + b


def layernorm_of_library(xp: Any, x: Any, g: Any, b: Any) -> Any:
    if xp.__name__ == "torch":
        return xp.nn.functional.layer_norm(x, (x.shape[1],), g, b, eps=1e-3)
    import jax

    return jax.nn.standardize(x, axis=1, epsilon=1e-3) * g + b


def hand_layernorm(xp: Any, x: Array, g: Array, b: Array, dy: Array) -> Arrays:
    n = x.shape[1]
    normal = x - x.mean(1, keepdims=True)
    inverse = 1 / np.sqrt(np.einsum("ij,ij->i", normal, normal)[:, None] / n + 1e-3)
    normal *= inverse
    scaled = dy * g
    dx = scaled - scaled.mean(1, keepdims=True) - normal * (np.einsum("ij,ij->i", scaled, normal)[:, None] / n)
    dx *= inverse
    return dx, np.einsum("ij,ij->j", dy, normal), dy.sum(0)


# logsumexp(tanh(tanh(X A) B) C) less the scores of the right classes, by the weights A, B and C.


def ours_network(sizes: Sizes) -> tuple[Any, Any]:
    n, m, k = sizes["n"], sizes["m"], sizes["k"]
    X, Y = td.TensorSymbol("X", (n, m)), td.TensorSymbol("Y", (n, k))
    A, B, C = td.TensorSymbol("A", (m, m)), td.TensorSymbol("B", (m, m)), td.TensorSymbol("C", (m, k))
    scores = td.tanh(td.tanh(X @ A) @ B) @ C
    loss = td.sum(td.logsumexp(scores, axis=1)) - td.sum(Y * scores)
    return (X, Y, A, B, C), td.gradient(loss, (A, B, C))


def inputs_network(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n, m, k = sizes["n"], sizes["m"], sizes["k"]
    weights = (random.standard_normal(shape) / np.sqrt(m) for shape in ((m, m), (m, m), (m, k)))
    return (random.standard_normal((n, m)), np.eye(k)[random.integers(k, size=n)], *weights)


def network(xp: Any, X: Any, Y: Any, A: Any, B: Any, C: Any) -> Any:
    scores = xp.tanh(xp.tanh(X @ A) @ B) @ C
    if xp.__name__ == "torch":
        return xp.logsumexp(scores, 1).sum() - (Y * scores).sum()
    import jax

    return jax.nn.logsumexp(scores, axis=1).sum() - (Y * scores).sum()


def hand_network(xp: Any, X: Array, Y: Array, A: Array, B: Array, C: Array) -> Arrays:
    first = np.tanh(X @ A)
    second = np.tanh(first @ B)
    by_scores = softmax(second @ C) - Y
    by_second = (by_scores @ C.T) * (1 - second * second)
    by_first = (by_second @ B.T) * (1 - first * first)
    return X.T @ by_first, first.T @ by_second, second.T @ by_scores


def work_network(sizes: Sizes) -> Work:
    n, m, k = sizes["n"], sizes["m"], sizes["k"]
    # Each layer: the value, the derivatives with respect to its weights and, but for the first, to its input.
    products = 2 * n * (2 * m * m + 3 * m * m + 3 * m * k)
    return Work(products + 6 * n * m + 4 * n * k, n * (m + k) + 2 * (2 * m * m + m * k), n * (2 * m + k))


ROWS = (
    Row(
        "attention",
        "all three gradients of attention with a causal mask",
        {"N": 512, "D": 64},
        {"N": 4, "D": 4},
        "N",
        ours_attention,
        normal("N D", "N D", "N D", "N D"),
        (
            by_hand(hand_attention),
            *automatic("masked softmax", Vjp(attention, (0, 1, 2))),
            # (JAX's function for it takes the softmax in single precision.)
            Peer("torch", "of the library", Vjp(attention_of_library, (0, 1, 2))),
        ),
        work_attention,
    ),
    Row(
        "attention-row",
        "all three gradients of one row of attention with a mask",
        {"N": 4096, "D": 64},
        {"N": 6, "D": 4},
        "N",
        ours_row,
        normal("D", "N D", "N D", "D"),
        (
            by_hand(hand_row),
            *automatic("masked softmax", Vjp(attention_row, (0, 1, 2))),
            *automatic("sliced softmax", Vjp(attention_row_sliced, (0, 1, 2))),
        ),
        work_row,
    ),
    Row(
        "layernorm",
        "all three gradients of a layer normalization",
        {"B": 2048, "n": 512},
        {"B": 3, "n": 5},
        "B",
        ours_layernorm,
        normal("B n", "n", "n", "B n"),
        (
            by_hand(hand_layernorm),
            *automatic("means", Vjp(layernorm, (0, 1, 2))),
            *automatic("of the library", Vjp(layernorm_of_library, (0, 1, 2))),
        ),
        lambda s: Work(16 * s["B"] * s["n"], 3 * s["B"] * s["n"] + 3 * s["n"], s["B"]),
    ),
    Row(
        "network",
        "gradients of a three-layer network with respect to all weights, as whole tensors",
        {"n": 256, "m": 256, "k": 10},
        {"n": 4, "m": 3, "k": 3},
        "n",
        ours_network,
        inputs_network,
        (by_hand(hand_network), *automatic("matrix products", Gradient(network, (2, 3, 4)))),
        work_network,
    ),
)
