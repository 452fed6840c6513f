"""Second derivatives of networks by their input: Hessians and products with them, of 2 to 8 layers; a third one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import sympy_tensordiff as td
from benchmarks.row import (
    Array,
    Arrays,
    Formulation,
    Gradient,
    Hessian,
    HessianProduct,
    Row,
    Sizes,
    Third,
    Work,
    automatic,
    by_hand,
)
from benchmarks.rows.curvature import the_block

# w . tanh(W_L ... tanh(W_1 q)), by q.


def network(xp: Any, q: Any, w: Any, *weights: Any) -> Any:
    for weight in weights:
        q = xp.tanh(weight @ q)
    return w @ q


def symbols(sizes: Sizes, depth: int) -> tuple[Any, tuple[Any, ...]]:
    """The input, and the other arguments: the last weights, then those of the layers."""
    n, d = sizes["n"], sizes["d"]
    weights = [td.TensorSymbol(f"W{layer}", (n, n if layer else d)) for layer in range(depth)]
    return td.TensorSymbol("q", d), (td.TensorSymbol("w", n), *weights)


def value(q: Any, w: Any, *weights: Any) -> Any:
    for weight in weights:
        q = td.tanh(weight @ q)
    return td.dot(w, q)


def inputs(depth: int, tangent: bool) -> Callable[[np.random.Generator, Sizes], Arrays]:
    def arrays(random: np.random.Generator, sizes: Sizes) -> Arrays:
        n, d = sizes["n"], sizes["d"]
        weights = [random.standard_normal((n, n if k else d)) / np.sqrt(n if k else d) for k in range(depth)]
        found = random.standard_normal(d), random.standard_normal(n), *weights
        return (*found, random.standard_normal(d)) if tangent else found

    return arrays


def ours_hessian(depth: int) -> Callable[[Sizes], tuple[Any, Any]]:
    def ours(sizes: Sizes) -> tuple[Any, Any]:
        q, others = symbols(sizes, depth)
        return (q, *others), td.hessian(value(q, *others), q)

    return ours


def ours_product(depth: int) -> Callable[[Sizes], tuple[Any, Any]]:
    def ours(sizes: Sizes) -> tuple[Any, Any]:
        q, others = symbols(sizes, depth)
        tangent = td.TensorSymbol("v", sizes["d"])
        return (q, *others, tangent), td.hvp(value(q, *others), q, tangent)

    return ours


def hand_hessian(xp: Any, q: Array, w: Array, *weights: Array) -> Array:
    """Jacobians of the layers forward, their second derivatives backward."""
    values, slopes = [q], []
    jacobian = None
    for weight in weights:
        slopes.append(weight if jacobian is None else weight @ jacobian)
        values.append(np.tanh(weight @ values[-1]))
        jacobian = (1 - values[-1] ** 2)[:, None] * slopes[-1]
    result = np.zeros((len(q), len(q)), q.dtype)
    for weight, x, slope in zip(weights[::-1], values[:0:-1], slopes[::-1], strict=True):
        inner = w * (1 - x * x)
        result += slope.T @ ((-2 * x * inner)[:, None] * slope)
        w = weight.T @ inner
    return result


def hand_product(xp: Any, q: Array, w: Array, *others: Array) -> Array:
    """The tangent forward, cotangents and their tangents backward."""
    *weights, v = others
    values, tangents = [q], [v]
    for weight in weights:
        values.append(np.tanh(weight @ values[-1]))
        tangents.append((1 - values[-1] ** 2) * (weight @ tangents[-1]))
    by_w = np.zeros_like(w)
    for weight, x, dx in zip(weights[::-1], values[:0:-1], tangents[:0:-1], strict=True):
        slope = 1 - x * x
        by_w = weight.T @ (by_w * slope - 2 * w * x * dx)
        w = weight.T @ (w * slope)
    return by_w


def work_hessian(depth: int) -> Callable[[Sizes], Work]:
    def work(sizes: Sizes) -> Work:
        n, d = sizes["n"], sizes["d"]
        weights = n * d + (depth - 1) * n * n
        products = 2 * (depth - 1) * n * n * d + depth * n * d * (d + 1) + 4 * weights
        return Work(products, weights + n + d + d * d, depth * n)

    return work


def work_product(depth: int) -> Callable[[Sizes], Work]:
    def work(sizes: Sizes) -> Work:
        weights = sizes["n"] * sizes["d"] + (depth - 1) * sizes["n"] ** 2
        return Work(8 * weights, weights + sizes["n"] + 3 * sizes["d"], depth * sizes["n"])

    return work


# The third derivative of such a network of two layers.


def ours_third(sizes: Sizes) -> tuple[Any, Any]:
    q, others = symbols(sizes, 2)
    return (q, *others), td.jacobian(td.hessian(value(q, *others), q), q)


def hand_third(xp: Any, q: Array, w: Array, A: Array, B: Array) -> Array:
    x = np.tanh(A @ q)
    y = np.tanh(B @ x)
    x1, y1 = 1 - x * x, 1 - y * y
    x2, y2 = -2 * x * x1, -2 * y * y1
    x3, y3 = -2 * x1 * (1 - 3 * x * x), -2 * y1 * (1 - 3 * y * y)
    slope = B @ (x1[:, None] * A)
    mixed = ((w * y2)[:, None] * slope).T @ B * x2
    pairs, cubes = A[:, :, None] * A[:, None], slope[:, :, None] * slope[:, None]
    n, d = A.shape
    once = (mixed @ pairs.reshape(n, -1)).reshape(d, d, d)
    weights = ((B.T @ (w * y1)) * x3)[:, None] * A
    result = (weights.T @ pairs.reshape(n, -1)) + ((w * y3)[:, None] * slope).T @ cubes.reshape(n, -1)
    return np.asarray(result.reshape(d, d, d) + once + once.transpose(1, 0, 2) + once.transpose(1, 2, 0))


# The squared norms of the gradients by the rows of X of sum(tanh(tanh(X A) B) w), by A and B.


def ours_penalty(sizes: Sizes) -> tuple[Any, Any]:
    b, d, n = sizes["b"], sizes["d"], sizes["n"]
    X, w = td.TensorSymbol("X", (b, d)), td.TensorSymbol("w", n)
    A, B = td.TensorSymbol("A", (d, n)), td.TensorSymbol("B", (n, n))
    slope = td.gradient(td.sum(td.tanh(td.tanh(X @ A) @ B) @ w), X)
    return (X, w, A, B), td.gradient(td.sum(slope**2), (A, B))


def inputs_penalty(random: np.random.Generator, sizes: Sizes) -> Arrays:
    b, d, n = sizes["b"], sizes["d"], sizes["n"]
    first, second = random.standard_normal((d, n)) / np.sqrt(d), random.standard_normal((n, n)) / np.sqrt(n)
    return random.standard_normal((b, d)), random.standard_normal(n), first, second


def penalty(xp: Any, X: Any, w: Any, A: Any, B: Any) -> Any:
    def total(X: Any) -> Any:
        return (xp.tanh(xp.tanh(X @ A) @ B) @ w).sum()

    if xp.__name__ == "torch":
        X = X.detach().requires_grad_(True)
        (slope,) = xp.autograd.grad(total(X), X, create_graph=True)
    else:
        import jax

        slope = jax.grad(total)(X)
    return (slope**2).sum()


def hand_penalty(xp: Any, X: Array, w: Array, A: Array, B: Array) -> Arrays:
    x = np.tanh(X @ A)
    y = np.tanh(x @ B)
    x1, y1 = 1 - x * x, 1 - y * y
    by_y = y1 * w
    by_x = by_y @ B.T
    by_first = by_x * x1
    slope = 2 * by_first @ A.T
    back = slope @ A
    inner = back * x1
    by_second = inner @ B * w * -2 * y * y1
    by_layer = (by_second @ B.T - 2 * x * back * by_x) * x1
    return slope.T @ by_first + X.T @ by_layer, inner.T @ by_y + x.T @ by_second


def work_penalty(sizes: Sizes) -> Work:
    b, d, n = sizes["b"], sizes["d"], sizes["n"]
    return Work(2 * b * (5 * d * n + 6 * n * n), b * d + n + 2 * (d * n + n * n), 2 * b * n)


def network_rows(depth: int, sizes: Sizes) -> tuple[Row, Row]:
    """The Hessian of a network, and its product with a tangent."""
    quick = {"n": 4, "d": 3}
    forms: tuple[tuple[str, str, Any, Any, Formulation, Any], ...] = (
        ("hessian", "Hessian", ours_hessian, hand_hessian, Hessian(network, (0,), the_block), work_hessian),
        ("hvp", "a product with the Hessian", ours_product, hand_product, HessianProduct(network, 0), work_product),
    )
    first, second = (
        Row(
            f"network-{name}-{depth}",
            f"{what} of a network of {depth} layers by its input",
            sizes,
            quick,
            "n",
            ours(depth),
            inputs(depth, name == "hvp"),
            (by_hand(hand), *automatic("matrix products", formulation)),
            work(depth),
        )
        for name, what, ours, hand, formulation, work in forms
    )
    return first, second


ROWS = (
    *network_rows(2, {"n": 512, "d": 64}),
    *network_rows(3, {"n": 512, "d": 64}),
    *network_rows(4, {"n": 160, "d": 32}),
    *network_rows(8, {"n": 64, "d": 16}),
    Row(
        "network-third",
        "third derivative of a network of 2 layers with respect to its input",
        {"n": 128, "d": 24},
        {"n": 4, "d": 3},
        "n",
        ours_third,
        inputs(2, False),
        (by_hand(hand_third), *automatic("matrix products", Third(network, 0))),
        lambda s: Work(
            2 * s["n"] * s["d"] * (s["n"] * 2 + 3 * s["d"] ** 2), s["d"] ** 3 + s["n"] * (s["n"] + s["d"]), 2 * s["n"]
        ),
    ),
    Row(
        "gradient-penalty",
        "gradients, with respect to both weights, of the squared gradients of a network of 2 layers with respect to "
        "its input",
        {"b": 256, "d": 64, "n": 128},
        {"b": 3, "d": 2, "n": 4},
        "b",
        ours_penalty,
        inputs_penalty,
        (by_hand(hand_penalty), *automatic("matrix products", Gradient(penalty, (2, 3)))),
        work_penalty,
    ),
)
