"""Filters, structured matrices and stencils: reads at sums and differences of indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy

import sympy_tensordiff as td
from benchmarks.row import Array, Arrays, Gradient, Peer, Row, Sizes, Vjp, Work, automatic, by_hand
from benchmarks.rows.contractions import normal
from benchmarks.windows import windows

# y_i = sum_k h_k x_{i+k}.


def ours_fir(sizes: Sizes) -> tuple[Any, Any]:
    n, K = sizes["n"], sizes["K"]
    i, k = td.indices("i k")
    x, h, dy = td.TensorSymbol("x", n + K - 1), td.TensorSymbol("h", K), td.TensorSymbol("dy", n)
    y = td.TensorComprehension(td.IndexedSum(h[k] * x[i + k], (k, 0, K - 1)), (i, n))
    return (x, h, dy), td.vjp(y, (x, h), dy)


def inputs_fir(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n, K = sizes["n"], sizes["K"]
    return tuple(random.standard_normal(length) for length in (n + K - 1, K, n))


def fir_windows(xp: Any, x: Any, h: Any) -> Any:
    return windows(xp, x, h.shape[0]) @ h


def correlate(xp: Any, x: Any, h: Any) -> Any:
    """``sum_k h_k x_{i+k}``, by the function of the library that is made for it."""
    if xp.__name__ == "torch":
        return xp.nn.functional.conv1d(x[None, None], h[None, None])[0, 0]
    return xp.correlate(x, h, mode="valid")


def hand_fir(xp: Any, x: Array, h: Array, dy: Array) -> Arrays:
    return np.convolve(dy, h), np.correlate(x, dy, mode="valid")


# y_i = sum_j t_{i-j+n-1} x_j, the product with a Toeplitz matrix, and with t_{i+j}, a Hankel matrix.


def ours_structured(sign: int, sizes: Sizes) -> tuple[Any, Any]:
    n = sizes["n"]
    i, j = td.indices("i j")
    t, x, dy = td.TensorSymbol("t", 2 * n - 1), td.TensorSymbol("x", n), td.TensorSymbol("dy", n)
    entry = t[i + j] if sign > 0 else t[i - j + n - 1]
    y = td.TensorComprehension(td.IndexedSum(entry * x[j], (j, 0, n - 1)), (i, n))
    return (t, x, dy), td.vjp(y, (t, x), dy)


def inputs_structured(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n = sizes["n"]
    return tuple(random.standard_normal(length) for length in (2 * n - 1, n, n))


def flipped(xp: Any, x: Any) -> Any:
    return xp.flip(x, (0,))


def toeplitz_gather(xp: Any, t: Any, x: Any) -> Any:
    return windows(xp, t, x.shape[0]) @ flipped(xp, x)


def toeplitz_correlate(xp: Any, t: Any, x: Any) -> Any:
    return correlate(xp, t, flipped(xp, x))


def hand_toeplitz(xp: Any, t: Array, x: Array, dy: Array) -> Arrays:
    return np.convolve(dy, x[::-1]), np.correlate(t, dy, mode="valid")[::-1]


def hand_hankel(xp: Any, t: Array, x: Array, dy: Array) -> Arrays:
    return np.convolve(dy, x), np.correlate(t, dy, mode="valid")


def work_structured(sizes: Sizes) -> Work:
    n = sizes["n"]
    return Work(4 * n * n, 2 * (2 * n - 1) + 3 * n)


# Smoothed total variation, sum of sqrt(differences^2 + 1/100).


def ours_variation(sizes: Sizes) -> tuple[Any, Any]:
    n = sizes["n"]
    i, j = td.indices("i j")
    u = td.TensorSymbol("u", (n, n))
    down, right = u[i + 1, j] - u[i, j], u[i, j + 1] - u[i, j]
    size = sympy.sqrt(down**2 + right**2 + sympy.Rational(1, 100))
    return (u,), td.gradient(td.IndexedSum(size, (i, 0, n - 2), (j, 0, n - 2)), u)


def variation(xp: Any, u: Any) -> Any:
    down, right = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
    return xp.sqrt(down**2 + right**2 + 0.01).sum()


def hand_variation(xp: Any, u: Array) -> Array:
    down, right = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
    inverse = 1 / np.sqrt(down * down + right * right + 0.01)
    down *= inverse
    right *= inverse
    result = np.zeros_like(u)
    result[1:, :-1] += down
    result[:-1, 1:] += right
    result[:-1, :-1] -= down
    result[:-1, :-1] -= right
    return result


# The five-point stencil, y_ij = 4 u_ij less the four neighbours, at inner points.


def ours_stencil(sizes: Sizes) -> tuple[Any, Any]:
    n = sizes["n"]
    i, j = td.indices("i j")
    u, dy = td.TensorSymbol("u", (n, n)), td.TensorSymbol("dy", (n - 2, n - 2))
    around = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2]
    return (u, dy), td.vjp(td.TensorComprehension(4 * u[i + 1, j + 1] - around, (i, n - 2), (j, n - 2)), u, dy)


def inputs_stencil(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n = sizes["n"]
    return random.standard_normal((n, n)), random.standard_normal((n - 2, n - 2))


def stencil(xp: Any, u: Any) -> Any:
    return 4 * u[1:-1, 1:-1] - u[:-2, 1:-1] - u[2:, 1:-1] - u[1:-1, :-2] - u[1:-1, 2:]


def hand_stencil(xp: Any, u: Array, dy: Array) -> Array:
    result = np.zeros_like(u)
    result[1:-1, 1:-1] = 4 * dy
    for place in ((slice(-2), slice(1, -1)), (slice(2, None), slice(1, -1))):
        result[place] -= dy
        result[place[::-1]] -= dy
    return result


def structured(name: str, sign: int, hand: Any, gather: Any, best: Any) -> Row:
    return Row(
        name,
        f"both gradients of the product with a {name.capitalize()} matrix",
        {"n": 2000},
        {"n": 6},
        "n",
        lambda sizes: ours_structured(sign, sizes),
        inputs_structured,
        (
            by_hand(hand),
            *automatic("matrix gathered", Vjp(gather, (0, 1))),
            *automatic("correlation", Vjp(best, (0, 1))),
            Peer("torch", "matrix gathered, backward only", Vjp(gather, (0, 1), backward_only=True)),
            Peer("torch", "correlation, backward only", Vjp(best, (0, 1), backward_only=True)),
        ),
        work_structured,
    )


ROWS = (
    Row(
        "fir",
        "both gradients of a filter of K taps",
        {"n": 100_000, "K": 64},
        {"n": 9, "K": 4},
        "n",
        ours_fir,
        inputs_fir,
        (
            by_hand(hand_fir),
            *automatic("windows", Vjp(fir_windows, (0, 1))),
            *automatic("correlation", Vjp(correlate, (0, 1))),
            Peer("torch", "windows, backward only", Vjp(fir_windows, (0, 1), backward_only=True)),
            Peer("torch", "correlation, backward only", Vjp(correlate, (0, 1), backward_only=True)),
        ),
        lambda s: Work(4 * s["n"] * s["K"], 3 * s["n"] + 4 * s["K"]),
    ),
    structured("toeplitz", -1, hand_toeplitz, toeplitz_gather, toeplitz_correlate),
    structured("hankel", 1, hand_hankel, fir_windows, correlate),
    Row(
        "variation",
        "gradient of the smoothed total variation of an image",
        {"n": 2048},
        {"n": 6},
        "n",
        ours_variation,
        normal("n n"),
        (by_hand(hand_variation), *automatic("slices", Gradient(variation, (0,)))),
        lambda s: Work(14 * s["n"] ** 2, 2 * s["n"] ** 2, s["n"] ** 2),
    ),
    Row(
        "stencil",
        "gradient of the five-point stencil",
        {"n": 2048},
        {"n": 6},
        "n",
        ours_stencil,
        inputs_stencil,
        (
            by_hand(hand_stencil),
            *automatic("slices", Vjp(stencil, (0,))),
            Peer("torch", "slices, backward only", Vjp(stencil, (0,), backward_only=True)),
        ),
        lambda s: Work(5 * s["n"] ** 2, 2 * s["n"] ** 2),
    ),
)
