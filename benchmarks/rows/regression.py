"""Losses of linear models: cross-entropy of a softmax, logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np

import sympy_tensordiff as td
from benchmarks.row import Array, Arrays, Gradient, Hessian, Peer, Row, Sizes, Work, automatic, by_hand


def softmax(scores: Array) -> Any:
    """Of each row, as one writes it in NumPy."""
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    return weights


# The cross-entropy of n examples, with one class each as a row of zeros and a one.


def ours_entropy(sizes: Sizes) -> tuple[Any, Any]:
    Z, Y = (td.TensorSymbol(name, (sizes["n"], sizes["k"])) for name in "ZY")
    return (Z, Y), td.gradient(td.sum(td.logsumexp(Z, axis=1)) - td.sum(Y * Z), Z)


def inputs_entropy(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n, k = sizes["n"], sizes["k"]
    return random.standard_normal((n, k)), np.eye(k)[random.integers(k, size=n)]


def entropy(xp: Any, Z: Any, Y: Any) -> Any:
    top = Z.amax(1) if xp.__name__ == "torch" else Z.max(1)
    return (xp.log(xp.exp(Z - top[:, None]).sum(1)) + top).sum() - (Y * Z).sum()


def entropy_of_library(xp: Any, Z: Any, Y: Any) -> Any:
    if xp.__name__ == "torch":
        return xp.nn.functional.cross_entropy(Z, Y, reduction="sum")
    import jax

    return -(Y * jax.nn.log_softmax(Z, axis=1)).sum()


def hand_entropy(xp: Any, Z: Array, Y: Array) -> Array:
    result: Array = softmax(Z)
    result -= Y
    return result


# The logistic loss of n examples with labels 0 and 1.


def loss(sizes: Sizes) -> tuple[Any, Any]:
    n, d = sizes["n"], sizes["d"]
    X, y, w = td.TensorSymbol("X", (n, d)), td.TensorSymbol("y", n), td.TensorSymbol("w", d)
    return (X, y, w), td.sum(td.softplus(X @ w)) - td.dot(y, X @ w)


def ours_gradient(sizes: Sizes) -> tuple[Any, Any]:
    args, value = loss(sizes)
    return args, td.gradient(value, args[-1])


def ours_hessian(sizes: Sizes) -> tuple[Any, Any]:
    args, value = loss(sizes)
    return args, td.hessian(value, args[-1])


def inputs_logistic(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n, d = sizes["n"], sizes["d"]
    labels = random.integers(2, size=n).astype(float)
    return random.standard_normal((n, d)), labels, random.standard_normal(d) / np.sqrt(d)


def logistic(xp: Any, X: Any, y: Any, w: Any) -> Any:
    scores = X @ w
    return xp.log(1 + xp.exp(scores)).sum() - y @ scores


def logistic_of_library(xp: Any, X: Any, y: Any, w: Any) -> Any:
    scores = X @ w
    if xp.__name__ == "torch":
        return xp.nn.functional.softplus(scores).sum() - y @ scores
    import jax

    return jax.nn.softplus(scores).sum() - y @ scores


def hand_gradient(xp: Any, X: Array, y: Array, w: Array) -> Any:
    return X.T @ (1 / (1 + np.exp(-(X @ w))) - y)


def hand_hessian(xp: Any, X: Array, y: Array, w: Array) -> Any:
    chance = 1 / (1 + np.exp(-(X @ w)))
    return X.T @ ((chance * (1 - chance))[:, None] * X)


def forms(kind: Any) -> tuple[Peer, ...]:
    return (*automatic("log(1 + exp)", kind(logistic, (2,))), *automatic("softplus", kind(logistic_of_library, (2,))))


LARGE, SMALL = {"n": 1000, "d": 300}, {"n": 7, "d": 3}
ROWS = (
    Row(
        "cross-entropy",
        "gradient of the cross-entropy of a softmax with respect to its scores",
        {"n": 4096, "k": 1000},
        {"n": 4, "k": 5},
        "n",
        ours_entropy,
        inputs_entropy,
        (
            by_hand(hand_entropy),
            *automatic("log, exp, sum", Gradient(entropy, (0,))),
            *automatic("of the library", Gradient(entropy_of_library, (0,))),
        ),
        lambda s: Work(4 * s["n"] * s["k"], 3 * s["n"] * s["k"], s["n"] * s["k"]),
    ),
    Row(
        "logistic-gradient",
        "gradient of the logistic loss with respect to the weights",
        LARGE,
        SMALL,
        "n",
        ours_gradient,
        inputs_logistic,
        (by_hand(hand_gradient), *forms(Gradient)),
        lambda s: Work(4 * s["n"] * s["d"], s["n"] * s["d"] + s["n"] + 2 * s["d"], s["n"]),
    ),
    Row(
        "logistic-hessian",
        "Hessian of the logistic loss with respect to the weights",
        LARGE,
        SMALL,
        "n",
        ours_hessian,
        inputs_logistic,
        (by_hand(hand_hessian), *forms(Hessian)),
        # X w, and one triangle of X^T D X: the other one is its mirror image.
        lambda s: Work(
            2 * s["n"] * s["d"] + s["n"] * s["d"] * (s["d"] + 2),
            s["n"] * s["d"] + s["d"] + s["d"] ** 2,
            s["n"],
        ),
    ),
)
