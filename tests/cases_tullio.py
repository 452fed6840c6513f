"""The cases of Tullio and of KeOps (`reference/peers_elementwise.md`, section 4)."""

from __future__ import annotations

from cases import Case, case
from cases_peers import x_of
from sympy import Abs, Expr, Rational, exp, log, sqrt, tanh

from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Tensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

i, j, k, l, m, n, s, t = indices("i j k l m n s t")
a, b, c, d = indices("a b c d")


@case("L1")
def _l1() -> Case:
    x = x_of(3)
    return Case(Sum(2 * x[i] + i, (i, 0, 2)), (x,), values={x: [1, 2, 3]}, value=15, gradient={x: [2, 2, 2]})


@case("L1_entries")
def _l1_entries() -> Case:
    x = x_of(3)
    return Case(Tensor(2 * x[i] + i, (i, 3)), (x,), values={x: [1, 2, 3]}, value=[2, 5, 8])


@case("L2")
def _l2() -> Case:
    x = x_of(4)
    return Case(Tensor(x[i] + 1000 * x[j], (i, 4), (j, 4)), (x,))


@case("L3")
def _l3() -> Case:
    x = x_of(6)
    return Case(Sum(exp(x[i]) / x[j], (i, 0, 5), (j, 0, 5)), (x,), low=0.25)


@case("L4")
def _l4() -> Case:
    x, y = x_of(3, 4), TensorSymbol("y", (4, 3))
    return Case(Tensor(Sum(x[i, j] + y[j, i], (j, 0, 3)), (i, 3)), (x, y))


@case("L5")
def _l5() -> Case:
    x, y = x_of(3, 4), TensorSymbol("y", (4, 3))
    return Case(Tensor(Sum(log(x[i, j]) / y[j, i], (j, 0, 3)), (i, 3)), (x, y), low=0.25)


@case("L6")
def _l6() -> Case:
    x, y = x_of(3, 2), TensorSymbol("y", (2, 4))
    return Case(Tensor(Sum(2 * x[i, k] * y[k, j], (k, 0, 1)), (i, 3), (j, 4)), (x, y))


@case("L7")
def _l7() -> Case:
    v = TensorSymbol("v", 6)
    return Case(Sum(Abs(1 + v[i] ** 2), (i, 0, 5)), (v,))


@case("L9")
def _l9() -> Case:
    image, kernel = TensorSymbol("N_", (6, 6, 2)), TensorSymbol("K_", (3, 3))
    body = Sum(image[s + i, t + j, c] * kernel[i, j], (i, 0, 2), (j, 0, 2))
    return Case(Tensor(body, (s, 4), (t, 4), (c, 2)), (image, kernel))


@case("L12")
def _l12() -> Case:
    x = x_of(3, 3, 4)
    return Case(Tensor(22 * Sum(x[i, i, k], (i, 0, 2)), (k, 4)), (x,))


@case("L13")
def _l13() -> Case:
    x = x_of(2, 2, 3, 2, 2)
    return Case(Tensor(22 * Sum(x[i, i, k, j, j], (i, 0, 1), (j, 0, 1)), (k, 3)), (x,))


@case("L14")
def _l14() -> Case:
    x, right = x_of(3, 2, 4), TensorSymbol("r_", (4, 3, 2))
    body = Sum(x[i, l, k] * right[k, m, l], (k, 0, 3), (l, 0, 1))
    return Case(Tensor(body, (i, 3), (m, 3)), (x, right))


@case("L15")
def _l15() -> Case:
    left, x = TensorSymbol("r_", (2, 2, 3, 4)), x_of(2, 2, 4, 3)
    body = Sum(left[s, s, j, k] * x[t, t, k, i], (s, 0, 1), (t, 0, 1), (k, 0, 3))
    return Case(Tensor(body, (i, 3), (j, 3)), (left, x))


@case("L16")
def _l16() -> Case:
    left, x, q = TensorSymbol("r_", (2, 3, 2, 2)), x_of(3, 2, 2, 3), TensorSymbol("q", (2, 2))
    body = Sum(left[a, b, j, k] * x[b, c, k, i] * q[a, c], (a, 0, 1), (b, 0, 2), (c, 0, 1), (k, 0, 1))
    return Case(Tensor(body, (i, 3), (j, 2)), (left, x, q))


@case("L17")
def _l17() -> Case:
    left, x, q = TensorSymbol("r_", (3, 2)), x_of(2, 3, 4), TensorSymbol("q", (4, 2, 2))
    return Case(Sum(left[b, d] * x[a, b, c] * q[c, a, d], (a, 0, 1), (b, 0, 2), (c, 0, 3), (d, 0, 1)), (left, x, q))


@case("L20")
def _l20() -> Case:
    matrix = TensorSymbol("m_", (3, 4))
    return Case(Tensor(sqrt(Sum(matrix[i, j] ** 2, (j, 0, 3))), (i, 3)), (matrix,))


@case("L21")
def _l21() -> Case:
    matrix, x = TensorSymbol("m_", (3, 4)), x_of(4, 2)
    return Case(Tensor(tanh(Sum(matrix[i, j] * x[j, k], (j, 0, 3))), (i, 3), (k, 2)), (matrix, x))


@case("L22")
def _l22() -> Case:
    matrix = TensorSymbol("m_", (3, 4))
    return Case(Tensor(log(Sum(exp(matrix[i, j]), (i, 0, 2))), (j, 4)), (matrix,))


@case("L23")
def _l23() -> Case:
    x = x_of(8)
    return Case(Tensor((x[2 * i] + x[2 * i + 1]) / 2, (i, 4)), (x,))


@case("L24")
def _l24() -> Case:
    x, kernel = x_of(7, 7), TensorSymbol("k_", (3, 3))
    body = Sum(x[2 * i - a + 2, 2 * j - b + 2] * kernel[a, b], (a, 0, 2), (b, 0, 2))
    return Case(Tensor(body, (i, 3), (j, 3)), (x, kernel))


def _variation(x: TensorSymbol) -> Expr:
    return (x[i, j] - x[i + 1, j]) ** 2 + (x[i, j] - x[i, j + 1]) ** 2


@case("L25")
def _l25() -> Case:
    x = x_of(4, 5)
    # No two neighbours are equal: the square root has a kink at 0.
    values = [[(7 * row + 3 * column + row * column) % 11 for column in range(5)] for row in range(4)]
    return Case(Sum(sqrt(_variation(x)), (i, 0, 2), (j, 0, 3)), (x,), values={x: values})


@case("L25_smooth")
def _l25_smooth() -> Case:
    x = x_of(4, 5)
    return Case(Sum(sqrt(_variation(x) + Rational(1, 4)), (i, 0, 2), (j, 0, 3)), (x,))


@case("L26")
def _l26() -> Case:
    x, weight = x_of(3, 3, 2, 2), TensorSymbol("W", (3, 3, 2, 2, 2, 2))
    body = Sum(x[s + i, t + j, c, b] * weight[s + i, t + j, i, j, c, d], (i, 0, 1), (j, 0, 1), (c, 0, 1))
    return Case(Tensor(body, (s, 2), (t, 2), (d, 2), (b, 2)), (x, weight))


@case("L27")
def _l27() -> Case:
    left, weight = TensorSymbol("M", (3, 4)), TensorSymbol("S", (3, 3))
    body = Sum((left[m, i] - left[m, j]) * weight[m, n] * (left[n, i] - left[n, j]), (m, 0, 2), (n, 0, 2))
    return Case(Tensor(body, (i, 4), (j, 4)), (left, weight))


@case("K1")
def _k1() -> Case:
    x, y, b_ = x_of(3, 3), TensorSymbol("y", (4, 3)), TensorSymbol("b", 4)
    distance = Sum((x[i, k] - y[j, k]) ** 2, (k, 0, 2))
    return Case(Tensor(Sum(exp(-distance) * b_[j], (j, 0, 3)), (i, 3)), (x, y, b_), low=-1, high=1)
