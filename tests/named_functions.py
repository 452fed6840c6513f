"""Functions that have names, over tensors of symbolic sizes, each with what its derivatives need at least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from cases_peers import section6
from fuzz.equality import assert_equal
from sympy import And, Expr, Max, Mod, Piecewise, exp, floor, log, sqrt

from sympy_tensordiff import gradient, jacobian, lambdify
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Tensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.values import call_arguments, to_double

a, b, c, i, j, k, l, N, M, R, K = indices("a b c i j k l N M R K")

x, t, y = TensorSymbol("x", N), TensorSymbol("t", N), TensorSymbol("y", N)
X, T = TensorSymbol("X", (N, M)), TensorSymbol("T", (N, M))


@dataclass(frozen=True)
class Named:
    """A function, what to differentiate it by, and sizes to try.

    ``depths`` are how deep sums are in each other and ``sums`` how many different ones there are: in the function,
    and in its first, second and third derivative.
    """

    function: Expr
    variable: TensorSymbol
    sizes: tuple[Mapping[Any, int], ...]
    depths: tuple[int, ...]
    sums: tuple[int, ...]
    low: float = -2
    high: float = 2

    @cached_property
    def orders(self) -> tuple[Expr, ...]:
        """The function and its derivatives, as many as there are depths."""
        found = [self.function]
        for _ in self.depths[1:]:
            derive = jacobian if getattr(found[-1], "shape", ()) else gradient
            found.append(derive(found[-1], self.variable))
        return tuple(found)

    def check_kernel(self, backend: str) -> None:
        """Compare one kernel of all orders with the oracle, at all sizes."""
        kernel = None
        for sizes in self.sizes:
            values = random_values(self.orders, sizes, 1, low=self.low, high=self.high)
            arguments, arrays = call_arguments(self.orders, values)
            kernel = kernel or lambdify(arguments, self.orders, backend)
            for order, got in enumerate(kernel(*arrays)):
                expected = derivative(self.function, (self.variable,) * order, values)
                assert_equal(got, to_double(expected), f"order {order} at {sizes} on {backend}", 1e-9)


def along_axis(*choices: int) -> tuple[dict[Any, int], ...]:
    return tuple({N: n} for n in choices)


def of_image(*choices: tuple[int, int]) -> tuple[dict[Any, int], ...]:
    return tuple({N: n, M: m} for n, m in choices)


def padded(image: Any, kernel: Any, row: Expr, column: Expr) -> Expr:
    """One entry of a convolution by a kernel of 3 by 3 with a margin of zeros."""
    p, q = row + a - 1, column + b - 1
    inside = And(p >= 0, p <= N - 1, q >= 0, q <= M - 1)
    return Sum(Piecewise((image(p, q) * kernel[a, b], inside), (0, True)), (b, 0, 2), (a, 0, 2))


@cache
def named_functions() -> dict[str, Named]:
    """All of them by name."""
    found: dict[str, Named] = {}

    total = Sum(exp(x[j]), (j, 0, N - 1))
    found["softmax cross-entropy"] = Named(
        -Sum(t[i] * log(exp(x[i]) / total), (i, 0, N - 1)), x, along_axis(1, 3), (2, 1, 1, 1), (2, 2, 2, 2)
    )
    found["logsumexp"] = Named(log(total), x, along_axis(2, 3), (1, 1, 1, 1), (1, 1, 1, 1))

    mean = Sum(x[j], (j, 0, N - 1)) / N
    variance = Sum((x[k] - mean) ** 2, (k, 0, N - 1)) / N
    found["layernorm"] = Named(
        Sum(t[i] * (x[i] - mean) / sqrt(variance + 1), (i, 0, N - 1)), x, along_axis(1, 3), (3, 2, 2, 2), (3, 4, 4, 4)
    )

    kernel = TensorSymbol("K", (N, N))
    residual = Sum(kernel[i, j] * x[j], (j, 0, i)) - y[i]
    found["volterra"] = Named(Sum(residual**2, (i, 0, N - 1)), x, along_axis(2, 3), (2, 2, 1, 0), (2, 2, 1, 0))

    U, B, C, D = (TensorSymbol(n, s) for n, s in (("U", (N, R)), ("B", (M, R)), ("C", (R, M)), ("D", (N, M, M))))
    error = D[i, j, k] - Sum(U[i, l] * B[j, l] * C[l, k], (l, 0, R - 1))
    found["mttkrp"] = Named(
        Sum(error**2, (i, 0, N - 1), (j, 0, M - 1), (k, 0, M - 1)),
        U,
        ({N: 2, M: 1, R: 2}, {N: 1, M: 2, R: 1}),
        (4, 3, 1, 0),
        (2, 2, 2, 0),
    )
    found["pairwise"] = Named(
        Sum((x[i] - x[j]) ** 4, (i, 0, N - 1), (j, 0, N - 1)), x, along_axis(2, 3), (2, 1, 1, 1), (1, 1, 1, 1)
    )
    found["total variation"] = Named(
        Sum(sqrt((x[i + 1] - x[i]) ** 2 + 1), (i, 0, N - 2)), x, along_axis(2, 3), (1, 0, 0, 0), (1, 0, 0, 0)
    )
    steps = (X[i + 1, j] - X[i, j]) ** 2 + (X[i, j + 1] - X[i, j]) ** 2
    found["total variation of an image"] = Named(
        Sum(sqrt(steps + 1), (i, 0, N - 2), (j, 0, M - 2)), X, of_image((2, 2), (3, 2)), (2, 0, 0, 0), (1, 0, 0, 0)
    )

    query, keys = TensorSymbol("Q", R), TensorSymbol("A", (N, R))
    weight = exp(Sum(query[l] * keys[j, l], (l, 0, R - 1)))
    found["attention row"] = Named(
        Sum(weight * t[j], (j, 0, N - 1)) / Sum(weight, (j, 0, N - 1)),
        query,
        ({N: 2, R: 2}, {N: 3, R: 1}),
        (2, 2, 2, 2),
        (3, 5, 9, 17),
    )
    squared_distance = Sum((X[i, l] - X[j, l]) ** 2, (l, 0, M - 1))
    found["gaussian kernel matrix"] = Named(
        Sum(exp(-squared_distance), (i, 0, N - 1), (j, 0, N - 1)),
        X,
        of_image((2, 1), (2, 2)),
        (3, 2, 2, 2),
        (2, 2, 4, 7),
    )

    signal, taps = TensorSymbol("s", 2 * (N - 1) + 3 * (K - 1) + 1), TensorSymbol("w", K)
    strided = Sum(signal[2 * i + 3 * k] * taps[k], (k, 0, K - 1))
    found["strided and dilated convolution"] = Named(
        Sum(strided**3, (i, 0, N - 1)), signal, ({N: 1, K: 2}, {N: 2, K: 2}), (2, 2, 2, 1), (2, 2, 2, 1)
    )
    turned = Sum(x[Mod(i - j, N)] * y[j], (j, 0, N - 1))
    found["circulant"] = Named(Sum(turned**3, (i, 0, N - 1)), x, along_axis(1, 3), (2, 2, 2, 1), (2, 2, 2, 1))

    deep, wide = TensorSymbol("Z", (4, N, M)), TensorSymbol("W", (2 * N, 2 * M))
    shuffled = deep[2 * Mod(i, 2) + Mod(j, 2), floor(i / 2), floor(j / 2)]
    found["pixel shuffle"] = Named(
        Sum(shuffled**3 * wide[i, j], (i, 0, 2 * N - 1), (j, 0, 2 * M - 1)),
        deep,
        of_image((1, 1), (2, 1)),
        (2, 0, 0, 0),
        (1, 0, 0, 0),
    )
    flat = TensorSymbol("f", N * M)
    found["flattened matrix"] = Named(
        Sum(flat[M * i + j] ** 3 * T[i, j], (j, 0, M - 1), (i, 0, N - 1)),
        flat,
        of_image((1, 2), (2, 2)),
        (2, 0, 0, 0),
        (1, 0, 0, 0),
    )

    mask = TensorSymbol("W", (3, 3))
    entry = padded(lambda p, q: X[p, q], mask, i, j)
    found["padded convolution"] = Named(
        Sum(entry**2, (i, 0, N - 1), (j, 0, M - 1)), X, of_image((1, 1), (2, 3)), (4, 4, 2, 0), (2, 2, 1, 0)
    )
    found["padded convolution by its kernel"] = Named(
        Sum(entry**2, (i, 0, N - 1), (j, 0, M - 1)), mask, of_image((1, 1), (2, 3)), (4, 4, 2, 0), (2, 2, 1, 0)
    )
    first = Tensor(padded(lambda p, q: X[p, q], mask, i, j), (i, N), (j, M))
    second = padded(lambda p, q: Max(first[p, q], 0), TensorSymbol("V", (3, 3)), i, j)
    found["two padded convolutions"] = Named(
        Sum(second**2, (i, 0, N - 1), (j, 0, M - 1)), mask, of_image((1, 1), (2, 2)), (6, 8, 8, 0), (3, 4, 4, 0)
    )
    left = Piecewise((x[i - 1], And(i >= 1, i <= N)), (0, True))
    right = Piecewise((x[i], And(i >= 0, i <= N - 1)), (0, True))
    found["constant exterior"] = Named(
        Sum((left + right) ** 3, (i, 0, N)), x, along_axis(1, 3), (1, 0, 0, 0), (1, 0, 0, 0)
    )
    gaussian, (_, _, kernel6, _) = section6()
    found["diagonal of a square"] = Named(gaussian, kernel6, ({},), (1, 1, 1, 1), (1, 2, 2, 2))
    return found
