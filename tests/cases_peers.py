"""The cases of the peers and of the paper (`reference/peers_elementwise.md`, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cases import Case, case
from sympy import Abs, And, Expr, Piecewise, Rational, ceiling, exp, floor, log, sign, sin, sqrt, tanh

from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Tensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

i, j, k, l, m, n, r, s, t = indices("i j k l m n r s t")
a, b, c = indices("a b c")


def x_of(*shape: int) -> TensorSymbol:
    return TensorSymbol("x", shape)


# ---------------------------------------------------------------- T: TensorAlgDiff


def _t1(power: int) -> Case:
    x, y, z = x_of(3, 4), TensorSymbol("y", (4, 4)), TensorSymbol("z", 5)
    body = x[i, j] ** power + 2 * (y[j, j] * z[k] ** 3)
    return Case(Tensor(body, (i, 3), (j, 4), (k, 5)), (x, y, z))


case("T1")(partial(_t1, 1))
case("T5")(partial(_t1, 2))


@case("T2")
def _t2() -> Case:
    x = x_of(6, 4)
    return Case(Tensor(x[2 * i, j], (i, 3), (j, 4), (k, 5)), (x,))


@case("T3")
def _t3() -> Case:
    x = x_of(3, 10)
    return Case(Tensor(Sum(x[i, s], (s, 0, 6)), (i, 3)), (x,))


@case("T4")
def _t4() -> Case:
    x = x_of(10)
    return Case(Tensor(x[i + 2], (i, 7)), (x,))


def _gaussians() -> tuple[TensorSymbol, TensorSymbol, TensorSymbol]:
    return TensorSymbol("Sigma", (3, 4, 4)), TensorSymbol("mu", (3, 4)), TensorSymbol("V", (2, 4))


@case("T6")
def _t6() -> Case:
    sigma, mu, v = _gaussians()
    spread = 1 + 2 * sigma[s, n, n]
    body = sqrt(1 / (1 + 2 * sigma[s, n, n] ** 2)) * exp(-((mu[s, n] - v[r, n]) ** 2) / spread)
    return Case(Tensor(body, (r, 2), (s, 3), (n, 4)), (sigma, mu, v), low=0.25)


@case("T7")
def _t7() -> Case:
    sigma, mu, v = _gaussians()
    middle = mu[s, n] - (v[r, n] + v[t, n]) / 2
    exponent = -2 * middle**2 / (1 + 4 * sigma[s, n, n]) - (v[r, n] - v[t, n]) ** 2 / 2
    body = sqrt(1 / (1 + 4 * sigma[s, n, n] ** 2)) * exp(exponent)
    return Case(Tensor(body, (r, 2), (s, 3), (t, 2), (n, 4)), (sigma, mu, v), low=0.25)


@case("T8")
def _t8() -> Case:
    x, y = x_of(4, 3, 9), TensorSymbol("y", (2, 4))
    inner = Sum(x[n, s, 2 * s] ** 2 + x[n, s, 0 * s] ** 2 - y[t, 0 * s], (s, 0, 2))
    return Case(Tensor(y[t, n] ** 2 * inner, (t, 2), (n, 4)), (x, y))


@case("T9")
def _t9() -> Case:
    x = x_of(50)
    return Case(Tensor(x[10 * s + t] ** 2, (s, 3), (t, 10)), (x,))


def section6(rows: int = 3, columns: int = 4, terms: int = 5) -> tuple[Tensor, tuple[TensorSymbol, ...]]:
    """The function of the paper's section 6 and its variables a, b, c, d."""
    a_, b_ = TensorSymbol("a", (rows, terms)), TensorSymbol("b", (columns, terms))
    c_, d_ = TensorSymbol("c", (rows, rows)), TensorSymbol("d", rows + terms - 1)
    inner = Sum((a_[i, k] + b_[j, k]) ** 2 * c_[i, i] + d_[i + k] ** 3, (k, 0, terms - 1))
    return Tensor(exp(-inner), (i, rows), (j, columns)), (a_, b_, c_, d_)


@case("T10")
def _t10() -> Case:
    function, variables = section6()
    # The second derivative with respect to c is X11: the deltas of a diagonal collapse at every order.
    return Case(function, variables, low=-0.75, high=0.75)


# ---------------------------------------------------------------- P: the paper


@case("P1")
def _p1() -> Case:
    x = x_of(5)
    return Case(Tensor(sin(x[i]), (i, 5)), (x,))


@case("P2")
def _p2() -> Case:
    x, y = x_of(3), TensorSymbol("y", (3, 4))
    return Case(Tensor(x[i] * y[i, j], (i, 3), (j, 4)), (x, y))


@case("P3")
def _p3() -> Case:
    x = x_of(4, 4)
    return Case(Tensor(x[i, i] ** 3, (i, 4)), (x,))


@case("P4")
def _p4() -> Case:
    x, y = x_of(3, 5), TensorSymbol("y", (5, 4))
    return Case(Tensor(Sum(x[i, k] * y[k, j], (k, 0, 4)), (i, 3), (j, 4)), (x, y))


@case("P5")
def _p5() -> Case:
    x = x_of(12)
    return Case(Tensor(exp(x[4 * i + j]), (i, 3), (j, 4)), (x,))


@case("P6")
def _p6() -> Case:
    x = x_of(3)
    return Case(Tensor(x[i] ** 2, (i, 3), (j, 4)), (x,))


@case("P7")
def _p7() -> Case:
    x = x_of(6)
    return Case(Tensor(exp(x[i + j]), (i, 3), (j, 4)), (x,))


@case("P8")  # figure 3: A = (1 -2)
def _p8() -> Case:
    x = x_of(10)
    return Case(Tensor(x[i - 2 * j + 4] ** 2, (i, 6), (j, 3)), (x,))


@case("P9")  # figure 4: A = (1 -2 -2)
def _p9() -> Case:
    x = x_of(21)
    return Case(Tensor(x[i - 2 * j - 2 * k + 16] ** 2, (i, 5), (j, 5), (k, 5)), (x,))


# ---------------------------------------------------------------- D: DeepNet


@case("D1")
def _d1() -> Case:
    x, y = x_of(3, 3), TensorSymbol("y", (2, 3))
    values = {x: [[1, 0, 0], [0, 2, 0], [0, 0, 3]], y: [[4, 5, 6], [7, 8, 9]]}
    return Case(Tensor(2 * x[k, k] + y[0, k], (k, 3)), (x, y), values=values, value=[6, 9, 12])


@case("D2")
def _d2() -> Case:
    x = x_of(3, 3)
    values = {x: [[2, 1, 1], [1, 3, 1], [1, 1, 4]]}
    return Case(Tensor(2 * Sum(x[l, k], (l, 0, 2)), (k, 3)), (x,), values=values, value=[8, 10, 12])


@case("D3")
def _d3() -> Case:
    ks, ls = indices("ks ls")
    x, y = TensorSymbol("x", (ks, ks)), TensorSymbol("y", (ls, ks))
    return Case(Tensor(2 * x[k, k] + y[l, k], (k, ks), (l, ls)), (x, y), sizes={ks: 3, ls: 2})


@case("D4")
def _d4() -> Case:
    x, length = x_of(1, 3), TensorSymbol("l", 1)
    body = exp(-((x[a, s] - x[a, t]) ** 2) / (2 * length[a] ** 2))
    values = {x: [[1.0, 1.1, 2.0]], length: [0.5]}
    return Case(Tensor(body, (a, 1), (s, 3), (t, 3)), (x, length), values=values)


@case("D4_symbolic")
def _d4_symbolic() -> Case:
    groups, samples = indices("groups samples")
    x, length = TensorSymbol("x", (groups, samples)), TensorSymbol("l", groups)
    body = exp(-((x[a, s] - x[a, t]) ** 2) / (2 * length[a] ** 2))
    function = Tensor(body, (a, groups), (s, samples), (t, samples))
    return Case(function, (x, length), sizes={groups: 2, samples: 3}, low=0.5)


@case("D5")
def _d5() -> Case:
    x, length = x_of(2, 3), TensorSymbol("l", 2)
    mu, spread = TensorSymbol("mu", 2), TensorSymbol("S", (2, 2))
    total = length[a] ** 2 + spread[a, a]
    body = sqrt(length[a] ** 2 / total) * exp(-((mu[a] - x[a, s]) ** 2) / (2 * total))
    values = {mu: [1, 0.5], spread: [[0.4, 0.2], [0.2, 0.8]], length: [0.5, 0.6]}
    return Case(Tensor(body, (a, 2), (s, 3)), (mu, spread, x, length), values=values)


@case("D6")
def _d6() -> Case:
    x, y = x_of(5), TensorSymbol("y", 4)
    scale, length = TensorSymbol("sf", ()), TensorSymbol("len_", ())
    body = scale * exp(-((x[i] - y[j]) ** 2) / (2 * length**2))
    return Case(Tensor(body, (i, 5), (j, 4)), (x, y, scale, length), low=0.5)


@case("D7")
def _d7() -> Case:
    x, y = x_of(5), TensorSymbol("y", 4)
    return Case(Tensor(x[i] * y[j], (i, 5), (j, 4)), (x, y))


@case("D8")
def _d8() -> Case:
    x, y = x_of(15), TensorSymbol("y", 10)
    return Case(Tensor(x[i] + y[j], (i, 15), (j, 10)), (x, y))


@case("D9")
def _d9() -> Case:
    left, right = TensorSymbol("a", (4, 5)), TensorSymbol("b", (4, 3))
    return Case(Tensor(left[i, j] * right[i, 0], (i, 4), (j, 5)), (left, right))


# ---------------------------------------------------------------- V: TVM


@case("V1")
def _v1() -> Case:
    left = TensorSymbol("A", (5, 5))
    return Case(Tensor(left[i, j], (i, 5), (j, 5)), (left,))


@case("V2")
def _v2() -> Case:
    left, right = TensorSymbol("A0", (5, 5)), TensorSymbol("A1", (5, 5))
    return Case(Tensor(left[i, j] + right[i, j], (i, 5), (j, 5)), (left, right))


@case("V9")
def _v9() -> Case:
    left = TensorSymbol("A", (4, 4))
    body = log(Rational(1, 10) + Abs(left[i, j] + exp(left[j, i])))
    return Case(Tensor(body, (i, 4), (j, 4)), (left,))


def _of_two(name: str, body: Callable[[Expr, Expr], Expr], **kwargs: float) -> None:
    """A function of ``A[i, j]`` and ``A[j, i]``."""

    def builder() -> Case:
        left = TensorSymbol("A", (4, 4))
        return Case(Tensor(body(left[i, j], left[j, i]), (i, 4), (j, 4)), (left,), **kwargs)

    case(name)(builder)


_of_two("V3", lambda u, v: u + v)
_of_two("V4", lambda u, v: floor(u))
_of_two("V5", lambda u, v: ceiling(u))
_of_two("V6", lambda u, v: sign(u) * floor(Abs(u)))
_of_two("V7", lambda u, v: floor(u + Rational(1, 2)))
_of_two("V8", lambda u, v: u + exp(v))
_of_two("V10", lambda u, v: 1 / (1 + exp(-(u**2) * v)))
_of_two("V11", lambda u, v: tanh(u**2 * v))
_of_two("V12", lambda u, v: sqrt(u**2 * v), low=0.25)
_of_two("V13", lambda u, v: Abs(u) ** v)
_of_two("V14", lambda u, v: u * v)


@case("V15")
def _v15() -> Case:
    left = TensorSymbol("A", (4, 4))
    return Case(Tensor(Sum(left[i, k] * left[k, i], (k, 0, 3)), (i, 4)), (left,))


@case("V16")
def _v16() -> Case:
    left = TensorSymbol("A", (4, 4))
    return Case(Tensor(Sum(left[i, k] * left[k, i] + 5, (k, 0, 3)), (i, 4), (j, 3)), (left,))


@case("V18")
def _v18() -> Case:
    left, right = TensorSymbol("A0", (5, 5)), TensorSymbol("A1", (5, 5))
    body = left[i, j] * (right[j, i] + left[j, i])
    return Case(Tensor(body, (i, 5), (j, 5)), (left, right))


@case("V21")
def _v21() -> Case:
    x = TensorSymbol("X", 10)
    u = Tensor(x[i] + x[9 - i], (i, 10))
    v = Tensor(x[i] * x[9 - i], (i, 10))
    return Case(Sum(u[i] * v[i], (i, 0, 9)), (x,))


@case("V22")
def _v22() -> Case:
    x = TensorSymbol("X", (3, 3))
    return Case(Tensor(x[i, i], (i, 3)), (x,))


@case("V25")
def _v25() -> Case:
    weight = TensorSymbol("W", 1)
    return Case(Tensor(weight[0], (i, 5), (j, 2), (a, 3), (b, 3)), (weight,))


@case("V26")
def _v26() -> Case:
    image, weight = TensorSymbol("X", (1, 2, 4, 4)), TensorSymbol("W", 1)
    broadcast = Tensor(weight[0], (m, 5), (c, 2), (a, 3), (b, 3))
    row, column = i + a - 1, j + b - 1
    padded = Piecewise((image[n, c, row, column], And(row >= 0, row <= 3, column >= 0, column <= 3)), (0, True))
    body = Sum(padded * broadcast[m, c, a, b], (b, 0, 2), (a, 0, 2), (c, 0, 1))
    return Case(Tensor(body, (n, 1), (m, 5), (i, 4), (j, 4)), (image, weight))


def residual(size: int, channels: int) -> Case:
    """Two steps of a residual net."""
    image, weight = TensorSymbol("X", (1, channels, size, size)), TensorSymbol("W", (channels, channels, 3, 3))

    def step(source: Expr) -> Tensor:
        row, column = i + a - 1, j + b - 1
        inside = And(row >= 0, row <= size - 1, column >= 0, column <= size - 1)
        padded = Piecewise((source[n, c, row, column], inside), (0, True))
        total = Sum(padded * weight[m, c, a, b], (b, 0, 2), (a, 0, 2), (c, 0, channels - 1))
        return Tensor(image[n, m, i, j] + total, (n, 1), (m, channels), (i, size), (j, size))

    return Case(step(step(image)), (image, weight), low=-1, high=1)


case("V30", partial(residual, 2, 1))(partial(residual, 3, 2))


@case("V35")
def _v35() -> Case:
    data, weight = TensorSymbol("X", (2, 3)), TensorSymbol("W", (3, 3))
    dense = Tensor(Sum(data[i, k] * weight[j, k], (k, 0, 2)), (i, 2), (j, 3))
    soft = exp(dense[i, j]) / Sum(exp(dense[i, k]), (k, 0, 2))
    return Case(Tensor(soft, (i, 2), (j, 3)), (data, weight), low=-1, high=1)


def convolution(size: int, width: int, stride: int, dilation: int) -> Case:
    """Convolution of 1 x 2 x size x size by 2 x 2 x width x width, without padding."""
    extent = (size - dilation * (width - 1) - 1) // stride + 1
    image, kernel = TensorSymbol("X", (1, 2, size, size)), TensorSymbol("W", (2, 2, width, width))
    read = image[n, c, stride * i + dilation * a, stride * j + dilation * b]
    body = Sum(read * kernel[m, c, a, b], (b, 0, width - 1), (a, 0, width - 1), (c, 0, 1))
    return Case(Tensor(body, (n, 1), (m, 2), (i, extent), (j, extent)), (image, kernel))


GRID = [(width, stride, dilation) for width in (1, 2, 3) for stride in (1, 2, 3) for dilation in (1, 2, 3)]
for _number, _setting in enumerate(GRID, start=36):
    _smaller = partial(convolution, 7 if _setting[0] == 3 else 5, *_setting)
    case(f"V{_number}", _smaller)(partial(convolution, 10, *_setting))

NARROW = {f"V{number}" for number, (width, _, _) in enumerate(GRID, start=36) if width < 3}
"""The convolutions of the grid by one or two pixels: a wider one has all that they have."""


# ---------------------------------------------------------------- X: this study


def _strided(name: str, shape: tuple[int, ...], read: tuple, extents: tuple[int, ...]) -> None:
    def builder() -> Case:
        x = x_of(*shape)
        return Case(Tensor(x[read] ** 2, *zip((i, j, k), extents, strict=False)), (x,))

    case(name)(builder)


_strided("X1", (9,), (2 * i,), (4,))
_strided("X2", (20,), (2 * i + 4 * j,), (4, 3))
_strided("X3", (17, 8), (2 * i + 4 * j, 3 * j), (4, 3))
_strided("X4", (9,), (2 * i + 1,), (4,))
_strided("X5", (4, 4), (i, i), (4,))
_strided("X6", (8, 5), (2 * i, i), (4,))
_strided("X7", (63,), (6 * i + 10 * j + 15 * k,), (3, 3, 3))
_strided("X8", (3, 4, 6), (i, j, i + j), (3, 4))
_strided("X9", (5,), (3,), (4,))
_strided("X10", (7,), (5 - i,), (6,))


@case("X11")
def _x11() -> Case:
    function, (_, _, c_, _) = section6()
    return Case(function, (c_,), low=-0.75, high=0.75)


# ---------------------------------------------------------------- H: Halide


@case("H1")
def _h1() -> Case:
    source = TensorSymbol("in_", 4)
    blurred = Tensor(source[i] + source[i + 1], (i, 2))
    values = {source: [1, 2, 3, 4]}
    # [2*b0, 2*b0 + 2*b1, 2*b1, 0] at b = (3, 5)
    return Case(Sum(blurred[i] ** 2, (i, 0, 1)), (source,), values=values, gradient={source: [6, 16, 10, 0]})


@case("H2")
def _h2() -> Case:
    source = TensorSymbol("c_", (5, 5))
    rows = Tensor(source[i, j] + source[i + 1, j] + source[i + 2, j], (i, 3), (j, 5))
    both = Tensor(rows[i, j] + rows[i, j + 1] + rows[i, j + 2], (i, 3), (j, 3))
    return Case(Sum(both[i, j] ** 2, (i, 0, 2), (j, 0, 2)), (source,))


@case("H4")
def _h4() -> Case:
    source = TensorSymbol("in_", 2)
    scaled = Tensor((i + 1) * source[j], (i, 2), (j, 2))
    loss = Sum(scaled[i, j] ** 2, (i, 0, 1), (j, 0, 1))
    return Case(loss, (source,), values={source: [1, 2]}, gradient={source: [10, 20]})


@case("H6")  # a convolution, its loss, and the second order that Halide's test gives
def _h6() -> Case:
    source, target = TensorSymbol("in_", 8), TensorSymbol("target", 6)
    smoothed = Tensor(Sum(source[i + r], (r, 0, 2)), (i, 6))
    loss = Sum((smoothed[i] - target[i]) ** 2, (i, 0, 5))
    return Case(loss, (source, target))
