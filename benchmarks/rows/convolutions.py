"""Gradients of two-dimensional convolutions, by the images and by the weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import sympy_tensordiff as td
from benchmarks.row import Array, Arrays, ByHand, Peer, Row, Sizes, Vjp, Work

STRIDES_AND_DILATIONS = ((1, 1), (2, 1), (2, 2), (1, 3))
NAMES = ("N", "C", "F", "H", "K")  # images, channels, features, height and width, height and width of the weights
IMAGES, WEIGHTS = 0, 1


def extent(stride: int, dilation: int, sizes: Sizes) -> int:
    """Height and width of the result: nothing is padded."""
    return (sizes["H"] - dilation * (sizes["K"] - 1) - 1) // stride + 1


def ours(stride: int, dilation: int, variable: int, sizes: Sizes) -> tuple[Any, Any]:
    N, C, F, H, K = (sizes[name] for name in NAMES)
    O = extent(stride, dilation, sizes)
    n, c, f, i, j, a, b = td.indices("n c f i j a b")
    X, W = td.TensorSymbol("X", (N, C, H, H)), td.TensorSymbol("W", (F, C, K, K))
    dY = td.TensorSymbol("dY", (N, F, O, O))
    body = X[n, c, stride * i + dilation * a, stride * j + dilation * b] * W[f, c, a, b]
    Y = td.TensorComprehension(
        td.IndexedSum(body, (b, 0, K - 1), (a, 0, K - 1), (c, 0, C - 1)), (n, N), (f, F), (i, O), (j, O)
    )
    return (X, W, dY), td.vjp(Y, (X, W)[variable], dY)


def inputs(stride: int, dilation: int, random: np.random.Generator, sizes: Sizes) -> Arrays:
    N, C, F, H, K = (sizes[name] for name in NAMES)
    O = extent(stride, dilation, sizes)
    return tuple(random.standard_normal(shape) for shape in ((N, C, H, H), (F, C, K, K), (N, F, O, O)))


def with_jax(stride: int, dilation: int, xp: Any, X: Any, W: Any) -> Any:
    import jax

    return jax.lax.conv_general_dilated(X, W, (stride, stride), "VALID", rhs_dilation=(dilation, dilation))


def with_torch(stride: int, dilation: int, xp: Any, X: Any, W: Any) -> Any:
    return xp.nn.functional.conv2d(X, W, stride=stride, dilation=dilation)


def by_hand_images(stride: int, dilation: int, xp: Any, X: Array, W: Array, dY: Array) -> Array:
    """One product of matrices, whose columns are then added to where they were read."""
    K, O = W.shape[-1], dY.shape[-1]
    columns = np.tensordot(W, dY, axes=(0, 1))  # c, a, b, n, i, j
    dX = np.zeros_like(X)
    last = stride * (O - 1) + 1
    for a in range(K):
        for b in range(K):
            p, q = dilation * a, dilation * b
            dX[:, :, p : p + last : stride, q : q + last : stride] += columns[:, a, b].swapaxes(0, 1)
    return dX


def by_hand_weights(stride: int, dilation: int, xp: Any, X: Array, W: Array, dY: Array) -> Array:
    """One product of matrices, with the columns gathered before."""
    (_, C, K, _), O, N = W.shape, dY.shape[-1], len(X)
    columns = np.empty((C, K, K, N, O, O), X.dtype)
    last = stride * (O - 1) + 1
    for a in range(K):
        for b in range(K):
            p, q = dilation * a, dilation * b
            columns[:, a, b] = X[:, :, p : p + last : stride, q : q + last : stride].swapaxes(0, 1)
    product = dY.swapaxes(0, 1).reshape(len(W), -1) @ columns.reshape(C * K * K, -1).T
    return product.reshape(W.shape)


def work(stride: int, dilation: int, variable: int, sizes: Sizes) -> Work:
    N, C, F, H, K = (sizes[name] for name in NAMES)
    O = extent(stride, dilation, sizes)
    return Work(2 * N * C * F * O * O * K * K, N * C * H * H + F * C * K * K + N * F * O * O)


def row(stride: int, dilation: int, variable: int) -> Row:
    maps = (stride, dilation)
    form = Vjp(partial(with_torch, *maps), (variable,))
    by = "XW"[variable]
    return Row(
        f"conv-{by}-{stride}-{dilation}",
        f"gradient of a convolution with respect to {('the images', 'the weights')[variable]}, "
        f"stride {stride}, dilation {dilation}",
        {"N": 4, "C": 32, "F": 32, "H": 64, "K": 3},
        {"N": 2, "C": 2, "F": 3, "H": 9, "K": 3},
        "N",
        partial(ours, *maps, variable),
        partial(inputs, *maps),
        (
            Peer("numpy", "by hand", ByHand(partial((by_hand_images, by_hand_weights)[variable], *maps))),
            Peer("jax", "lax.conv", Vjp(partial(with_jax, *maps), (variable,))),
            Peer("torch", "conv2d", form),
            Peer("torch", "conv2d, backward only", Vjp(form.function, form.wrt, backward_only=True)),
        ),
        partial(work, *maps, variable),
    )


ROWS = tuple(row(*maps, variable) for maps in STRIDES_AND_DILATIONS for variable in (IMAGES, WEIGHTS))
