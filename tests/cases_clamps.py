"""Clamped indices: boundary conditions of images, and maxima and minima in indices of other kinds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cases import Case, case
from sympy import Abs, And, Expr, Max, Min, Mod, Piecewise, ceiling, floor

from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Tensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

i, j, k, r, t, N, M = indices("i j k r t N M")

# ---------------------------------------------------------------- H: Halide

Boundary = Callable[[TensorSymbol, Expr, Expr], Expr]

BOUNDARIES: dict[str, tuple[Boundary, list[int]]] = {
    "repeat_edge": (lambda x, i, n: x[Max(0, Min(i, n - 1))], [1, 5]),
    "constant_exterior": (lambda x, i, n: Piecewise((x[i], And(i >= 0, i <= n - 1)), (0, True)), [1, 2]),
    "repeat_image": (lambda x, i, n: x[Mod(i, n)], [3, 3]),
    "mirror_image": (lambda x, i, n: x[Min(Mod(i, 2 * n), 2 * n - 1 - Mod(i, 2 * n))], [2, 4]),
    "mirror_interior": (lambda x, i, n: x[Abs(Mod(i + n - 1, 2 * n - 2) - n + 1)], [3, 3]),
}


def _h5(boundary: Boundary, given: list[int]) -> Case:
    x = TensorSymbol("in_", 2)
    extended = Tensor(boundary(x, i, 2), (i, 4))
    return Case(Sum(extended[t] + extended[t + 1], (t, 0, 2)), (x,), values={x: [3, 7]}, gradient={x: given})


def _extended(boundary: Boundary) -> Case:
    x, y = TensorSymbol("x", N), TensorSymbol("y", N + 4)
    return Case(Tensor(boundary(x, i - 2, N) ** 2 * y[i], (i, N + 4)), (x, y), sizes={N: 3})


for _name, (_boundary, _given) in BOUNDARIES.items():
    case(f"H5_{_name}")(partial(_h5, _boundary, _given))
    case(f"clamp_{_name}")(partial(_extended, _boundary))


@case("H3")
def _h3() -> Case:
    x, kernel = TensorSymbol("in_", 4), TensorSymbol("k_", 2)
    convolved = Tensor(Sum(x[Max(0, Min(t + r, 3))] * kernel[r], (r, 0, 1)), (t, 4))
    values = {x: [1, 2, 3, 4], kernel: [5, 7]}
    given = {kernel: [60 * 5 + 72 * 7, 72 * 5 + 90 * 7]}
    return Case(Sum(convolved[t] ** 2, (t, 0, 3)), (x, kernel), values=values, gradient=given)


# ---------------------------------------------------------------- V: TVM, L: Tullio


@case("V19")
def _v19() -> Case:
    a = TensorSymbol("A", (N, N))
    body = Sum(a[k, k] - a[Min(j + k, N - 1), j] * a[i, k], (k, 0, N - 1))
    return Case(Tensor(body, (i, N), (j, N)), (a,), sizes={N: 4})


_L11 = {
    "L11_mod": (lambda x: Sum(x[Mod(i, 3)], (i, 0, 4)), [2, 2, 1]),
    "L11_clamp": (lambda x: Sum(x[Max(0, Min(i, 2))], (i, 0, 4)), [1, 1, 3]),
    "L11_pad": (lambda x: Sum(Piecewise((x[i - 2], And(i >= 2, i <= 4)), (0, True)), (i, 0, 6)), [1, 1, 1]),
}


def _l11(function: Callable[[TensorSymbol], Expr], given: list[int]) -> Case:
    x = TensorSymbol("x", 3)
    return Case(function(x), (x,), values={x: [2, 5, -3]}, gradient={x: given})


for _name, (_function, _given) in _L11.items():
    case(_name)(partial(_l11, _function, _given))


# ---------------------------------------------------------------- ours

x_, y_, A_ = TensorSymbol("x", N), TensorSymbol("y", M), TensorSymbol("A", (N, M))

_OWN: dict[str, Callable[[], Expr]] = {
    "mirror": lambda: Tensor(x_[Min(N - 1, Abs(i - 3))] ** 2, (i, N + 2)),
    "of_two_indices": lambda: Tensor(x_[Max(i, j)] ** 2 * y_[Min(j, M - 1)], (i, N), (j, N)),
    "difference": lambda: Tensor(x_[Abs(i - j)] * x_[i], (i, N), (j, N)),
    "several": lambda: Tensor(A_[Max(i - 1, 0), Min(i + 1, M - 1)] ** 2 * x_[i], (i, N)),
    "two_in_one_index": lambda: Sum(TensorSymbol("z", 2 * N)[Max(i, 2) + Min(j, N - 2)] ** 2, (j, 0, 3), (i, 0, N - 1)),
    "nested": lambda: Sum(x_[Min(N - 1, Max(2 * i - 3, Min(j, 2), 0))] ** 2, (j, 0, M - 1), (i, 0, N)),
    "of_quotients": lambda: Tensor(x_[Max(0, Min(floor(i / 2) - 1, N - 1))] * x_[ceiling(Max(0, i - 2) / 3)], (i, N)),
    "of_a_remainder": lambda: Tensor(x_[Min(N - 1, Mod(i, 3))] ** 2, (i, N + 4)),
    "with_stride": lambda: Sum(x_[Min(3 * i, N - 1)] * x_[Max(N - 2 * i - 2, 0)], (i, 0, N - 1)),
    "in_a_condition": lambda: Tensor(
        Piecewise((x_[i] ** 2 * x_[Max(i, j)], Abs(i - j) <= Min(2, M)), (0, True)), (i, N), (j, N)
    ),
    "as_a_bound": lambda: Tensor(Sum(x_[Max(0, i - k)] ** 2, (k, Max(0, i - 2), Min(i + 1, M))), (i, N)),
    "upper_bounds": lambda: Sum(x_[Min(k, N - 1)] ** 2 * y_[j] ** 2, (k, 0, Max(i, j)), (i, 0, N - 1), (j, 0, M - 1)),
    "lower_bounds": lambda: Tensor(Sum(x_[Max(k, 0)] ** 2 * x_[i], (k, Min(i, N - 1 - i) - 2, Min(i, 3))), (i, N)),
    "both_bounds": lambda: Sum(A_[k, j] / (1 + x_[k] ** 2), (k, Min(i, j), Max(i, j)), (i, 0, N - 1), (j, 0, N - 1)),
    "a_distance_as_bound": lambda: Tensor(Sum(x_[k] ** 2, (k, 0, Abs(i - 1))), (i, N - 1)),
    "under_a_table": lambda: Sum(Tensor(x_[Min(i, N - 2)] ** 2, (i, N))[Max(j - 1, 0)] * y_[j], (j, 0, Min(N, M) - 1)),
}  # fmt: skip


def _own(function: Callable[[], Expr]) -> Case:
    made = function()
    variables = [v for v in (x_, y_, A_, TensorSymbol("z", 2 * N)) if made.has(v)]
    return Case(made, tuple(variables), sizes={N: 4, M: 5})


for _name, _made in _OWN.items():
    case(f"clamp_{_name}")(partial(_own, _made))
