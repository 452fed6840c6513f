"""Our own cases: the holes of the paper, and what demanding users write."""

from __future__ import annotations

from cases import Case, case
from cases_peers import x_of
from sympy import (
    Abs,
    And,
    Eq,
    Expr,
    KroneckerDelta,
    Max,
    Min,
    Mod,
    Ne,
    Or,
    Piecewise,
    Rational,
    Symbol,
    acos,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceiling,
    cos,
    cosh,
    erf,
    exp,
    floor,
    log,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)

from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Tensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

i, j, k, l, m, n, p, q = indices("i j k l m n p q")
N, M, K = indices("N M K")
alpha, beta = Symbol("alpha", real=True), Symbol("beta", real=True)


def y_of(*shape: int) -> TensorSymbol:
    return TensorSymbol("y", shape)


def one(name: str, body: Expr, *limits: tuple[Symbol, int | Expr], by: tuple = (), **kwargs: object) -> None:
    """A case whose expression is at hand; without limits it is a scalar."""
    case(name)(lambda: Case(Tensor(body, *limits) if limits else body, by, **kwargs))


# ------------------------------------------------------- the holes of the paper, the bare reads


def _bare(name: str, shape: tuple[int, ...], read: tuple, *extents: int) -> None:
    x = x_of(*shape)
    one(name, x[read], *zip((i, j, k), extents, strict=False), by=(x,))


_bare("hole_2i", (8,), (2 * i,), 4)
_bare("hole_2i+1", (8,), (2 * i + 1,), 4)
_bare("hole_2i+4j", (15,), (2 * i + 4 * j,), 4, 3)
_bare("hole_2i+4j,3j", (15, 7), (2 * i + 4 * j, 3 * j), 4, 3)
_bare("hole_2i,i", (7, 4), (2 * i, i), 4)
_bare("hole_6i+10j+15k", (63,), (6 * i + 10 * j + 15 * k,), 3, 3, 3)
_bare("hole_i+2", (10,), (i + 2,), 7)
_bare("hole_2i-3j", (14,), (2 * i - 3 * j + 6,), 4, 3)
_bare("hole_3i+3", (14, 5), (3 * i + 3, 4 - i), 3)
_d = TensorSymbol("d", 9)
one("hole_range_sum", Sum(_d[i + k] ** 3, (k, 0, 4)), (i, 3), by=(_d,))
_y6 = y_of(6)
one("hole_whole_sum", exp(-Sum(_y6[k], (k, 0, 5))), by=(_y6,))
one("hole_whole_sum_indexed", exp(-Sum(_y6[i + k] ** 2, (k, 0, 2))) * _y6[i], (i, 4), by=(_y6,))

# ------------------------------------------------------- index maps

_x = x_of(8)
one("negative_stride", _x[7 - 2 * i] ** 3, (i, 4), by=(_x,))
one("reversed", _x[7 - i] * _x[i], (i, 8), by=(_x,))
one("many_maps", _x[i] * _x[j] * _x[i + j] + _x[2 * i + 1] ** 2 * _x[i], (i, 4), (j, 4), by=(_x,))
one("equal_maps", _x[i + 1] ** 2 + _x[i + 1] * sin(_x[i + 1]), (i, 6), by=(_x,))
one("difference", (_x[i - j + 3] - _x[i]) ** 2, (i, 4), (j, 4), by=(_x,))
one("one_entry", _x[0] * _x[7] + _x[3] ** 2, by=(_x,))
one("not_all_entries", _x[i] ** 2, (i, 5), by=(_x,))
one("overlapping_strides", _x[2 * i] * _x[3 * i], (i, 3), by=(_x,))
_A, _B = TensorSymbol("A", (4, 4)), TensorSymbol("B", (1, 4))
one("symmetric", _A[i, j] * _A[j, i] + _A[i, i] * _A[j, j], (i, 4), (j, 4), by=(_A,))
one("diagonal_and_row", _A[i, i] * Sum(_A[i, k], (k, 0, 3)), (i, 4), by=(_A,))
one("antidiagonal", _A[i, 3 - i] ** 2, (i, 4), by=(_A,))
one("shear", _A[i, i + j], (i, 3), (j, 2), by=(_A,))
one("extent_one", _B[i, j] * _A[j, i], (i, 1), (j, 4), by=(_A, _B))
one("broadcast_axis", _B[0, j] * _A[i, j], (i, 4), (j, 4), (k, 1), by=(_A, _B))
one("offsets", _A[i + 1, 2 * j + 1] * _x[i + j + 2], (i, 3), (j, 2), by=(_A, _x))
one("unused_variable", _x[i] * 3, (i, 8), by=(_A, _x, alpha))
_C = TensorSymbol("C", (3, 4, 5))
one("rank_three", _C[i, j, k] * _C[2 - i, 3 - j, 4 - k], (i, 3), (j, 4), (k, 5), by=(_C,))
one("permuted", _C[j, k, i] * _A[j, k], (i, 5), (j, 3), (k, 4), by=(_C, _A))
one("diagonal_of_three", TensorSymbol("E", (3, 3, 3))[i, i, j], (i, 3), (j, 3), by=(TensorSymbol("E", (3, 3, 3)),))
one("rank_four_out", _A[i, j] * _A[k, l], (i, 2), (j, 2), (k, 2), (l, 2), by=(_A,))

# ------------------------------------------------------- indices as values, conditions on indices

one("index_value", i * _x[i] + j**2 * _x[j] + (i - j), (i, 4), (j, 4), by=(_x,))
one("index_value_inside", sin(i * _x[i] / 4) + _x[2 * i] ** i, (i, 4), by=(_x,))
one("index_power", Sum(_x[k] ** k / (k + 1), (k, 0, 7)), by=(_x,))
_w = TensorSymbol("w", 3)
_padded = Piecewise((_x[i + k - 1], And(i + k - 1 >= 0, i + k - 1 <= 7)), (0, True))
one("padding", Sum(_padded * _w[k], (k, 0, 2)), (i, 8), by=(_x, _w))
one("padding_squared", Sum(_padded * _w[k], (k, 0, 2)) ** 2, (i, 8), by=(_x, _w))
_edge = Piecewise((_x[0], i + k < 1), (_x[7], i + k > 8), (_x[i + k - 1], True))
one("repeated_edge", Sum(_edge * _w[k], (k, 0, 2)), (i, 8), by=(_x, _w))
one("piecewise_equal", Piecewise((_x[i] ** 2, Eq(i, j)), (_x[i] * _x[j], True)), (i, 4), (j, 5), by=(_x,))
one("piecewise_unequal", Sum(Piecewise((_x[i] * _x[k], Ne(i, k)), (0, True)), (k, 0, 7)), (i, 8), by=(_x,))
one("piecewise_parity", Piecewise((_x[i], Eq(Mod(i, 2), 0)), (_x[i] ** 2, True)), (i, 8), by=(_x,))
one("piecewise_or", Piecewise((_x[i] ** 2, Or(i < 2, i > 5)), (_x[7 - i], True)), (i, 8), by=(_x,))
one("piecewise_in_denominator", 1 / (2 + Piecewise((_x[i - 1] ** 2, i >= 1), (0, True))), (i, 8), by=(_x,))
_tail = Piecewise((Sum(_x[k] ** 2, (k, 0, i - 2)), i >= 2), (_x[0], True))
one("piecewise_around_sum", _tail, (i, 8), by=(_x,))
one("delta_in_body", Sum(KroneckerDelta(i, 2 * k) * _x[i] * _w[k], (k, 0, 2)), (i, 8), by=(_x, _w))
one("delta_free", KroneckerDelta(i, j) * _x[i] * _x[j + 1], (i, 5), (j, 7), by=(_x,))
one("delta_guards_read", KroneckerDelta(i, j + 3) * _x[i - 3], (i, 8), (j, 8), by=(_x,))

# ------------------------------------------------------- sums

one("triangle", Sum(_x[k] * _x[i], (k, 0, i)), (i, 8), by=(_x,))
one("triangle_matrix", Sum(_A[i, k] * _x[k], (k, 0, i)), (i, 4), by=(_A, _x))
one("band", Sum(_x[l + 1] * _w[k], (l, 2 * i - 1, i + k), (k, 0, 2)), (i, 4), by=(_x, _w))
one("sometimes_empty", Sum(_x[k] ** 2, (k, i, 3)) + 1, (i, 8), by=(_x,))
one("always_empty", Sum(_x[k], (k, 3, 2)) + _x[i], (i, 8), by=(_x,))
one("empty_in_exponent", exp(-Sum(_x[k] ** 2, (k, i, 3)) / 4), (i, 8), by=(_x,))
# What bounds k is in a floor with another index, and no read says it once more.
_floor = Sum((k + 1) * _x[i] ** 2, (k, 0, floor((i - l) / 2)), (l, 0, i), (i, 0, 3))
one("bounded_in_a_floor", _floor, by=(_x,))
one("nested_dependent", Sum(Sum(_A[k, l], (l, 0, k)) ** 2, (k, 0, 3)), by=(_A,))
one("clipped_bounds", Sum(_x[i - k] * _w[k], (k, Max(0, i - 7), Min(2, i))), (i, 8), by=(_x, _w))
one("one_name_nested", Sum(_x[k] * Sum(_w[k], (k, 0, 2)), (k, 0, 7)), by=(_x, _w))
one("one_name_side_by_side", Sum(_x[k], (k, 0, 7)) * Sum(_x[k] ** 2, (k, 0, 3)), by=(_x,))
one("output_name_inside", _x[i] * Sum(_x[j], (j, 0, 3)) + _w[j], (i, 8), (j, 3), by=(_x, _w))
_layers = Sum(sin(Sum(_A[i, k] * _x[k], (k, 0, 3))) * _x[i], (i, 0, 3))
one("sum_in_function_in_sum", _layers, by=(_A, _x))
one("sum_of_constant", Sum(_x[i], (k, 0, 4)) + Sum(2, (k, 0, i)), (i, 8), by=(_x,))
one("product_of_sums", Sum(_x[i + k], (k, 0, 2)) * Sum(_x[i + k] ** 2, (k, 1, 3)), (i, 5), by=(_x,))
one("three_sums", Sum(_C[i, j, k] * _A[i, j] * _x[k], (i, 0, 2), (j, 0, 3), (k, 0, 4)), by=(_C, _A, _x))
_outer = Sum(Sum(Sum(_A[k, l] * _x[l + m], (m, 0, l)), (l, 0, k)), (k, 0, 3))
one("sums_three_deep", _outer, by=(_A, _x))
_squared = Sum(Sum(_A[i, k] * _A[k, j], (k, 0, 3)) ** 2, (i, 0, 3), (j, 0, 3))
one("square_of_square", _squared, by=(_A,))


# ------------------------------------------------------- chained comprehensions


@case("chain")
def _chain() -> Case:
    inner = Tensor(sin(_x[i]) * _x[i + 1], (i, 7))
    return Case(Tensor(inner[i] + inner[i + 1] * inner[2 * i], (i, 4)), (_x,))


@case("chain_same_names")
def _chain_same_names() -> Case:
    inner = Tensor(Sum(_A[i, k] * _x[k], (k, 0, 3)), (i, 4))
    return Case(Tensor(Sum(inner[k] * _A[k, i], (k, 0, 3)) * inner[i], (i, 4)), (_A, _x))


@case("chain_in_sum")
def _chain_in_sum() -> Case:
    inner = Tensor(_x[i] ** 2 + _x[7 - i], (i, 8))
    return Case(Tensor(Sum(inner[i + k] * _w[k], (k, 0, 2)), (i, 6)), (_x, _w))


@case("chain_of_three")
def _chain_of_three() -> Case:
    first = Tensor(_x[i] * _x[i + 1], (i, 7))
    second = Tensor(first[i] + first[i + 2] ** 2, (i, 5))
    return Case(Tensor(second[2 * i] * first[i], (i, 3)), (_x,))


@case("chain_partly_read")
def _chain_partly_read() -> Case:
    # log is evaluated at a positive entry only: what is not read is not computed.
    inner = Tensor(_x[i] * j, (i, 8), (j, 3))
    return Case(Tensor(inner[2 * i, 1] ** 2, (i, 4)), (_x,))


@case("chain_deep")
def _chain_deep() -> Case:
    layer = Tensor(tanh(_x[i]), (i, 8))
    for _ in range(6):
        layer = Tensor(tanh(layer[7 - i] + _x[i] / 2), (i, 8))
    return Case(layer, (_x,))


@case("net")
def _net() -> Case:
    first, second = TensorSymbol("W1", (4, 3)), TensorSymbol("W2", (2, 4))
    bias = TensorSymbol("b1", 4)
    hidden = Tensor(tanh(Sum(first[i, k] * _w[k], (k, 0, 2)) + bias[i]), (i, 4))
    output = Tensor(Sum(second[i, k] * hidden[k], (k, 0, 3)), (i, 2))
    return Case(Sum(output[i] ** 2, (i, 0, 1)) / 2, (first, second, bias, _w))


@case("relu_net")
def _relu_net() -> Case:
    first, second = TensorSymbol("W1", (4, 3)), TensorSymbol("W2", (2, 4))
    hidden = Tensor(Max(Sum(first[i, k] * _w[k], (k, 0, 2)), 0), (i, 4))
    return Case(Tensor(Sum(second[i, k] * hidden[k], (k, 0, 3)), (i, 2)), (first, second, _w))


@case("softmax")
def _softmax() -> Case:
    return Case(Tensor(exp(_x[i]) / Sum(exp(_x[k]), (k, 0, 7)), (i, 8)), (_x,))


@case("logsumexp")
def _logsumexp() -> Case:
    return Case(log(Sum(exp(_x[k]), (k, 0, 7))), (_x,))


@case("normalised")
def _normalised() -> Case:
    mean = Sum(_x[k], (k, 0, 7)) / 8
    variance = Sum((_x[k] - mean) ** 2, (k, 0, 7)) / 8
    return Case(Tensor((_x[i] - mean) / sqrt(variance + Rational(1, 8)), (i, 8)), (_x,))


@case("attention")
def _attention() -> Case:
    query, key, value = TensorSymbol("Q", (3, 2)), TensorSymbol("Key", (4, 2)), TensorSymbol("Val", (4, 2))
    score = Tensor(exp(Sum(query[i, k] * key[j, k], (k, 0, 1)) / 2), (i, 3), (j, 4))
    body = Sum(score[i, k] * value[k, j], (k, 0, 3)) / Sum(score[i, k], (k, 0, 3))
    return Case(Tensor(body, (i, 3), (j, 2)), (query, key, value))


@case("laplacian_squared")
def _laplacian_squared() -> Case:
    x = x_of(5, 5)
    stencil = x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2] - 4 * x[i + 1, j + 1]
    return Case(Sum(stencil**2, (i, 0, 2), (j, 0, 2)), (x,))


# ------------------------------------------------------- functions and kinks

one("powers", _x[i] ** Rational(3, 2) + _x[i] ** -2 + 2 ** _x[i] + 1 / _x[i], (i, 8), by=(_x,), low=0.25)
_z = TensorSymbol("z", 8)
one("power_of_both", _x[i] ** _z[7 - i], (i, 8), by=(_x, _z), low=0.25)
one("trigonometric", tan(_x[i]) + cos(_x[i]) * atan(_x[i]), (i, 8), by=(_x,), low=-1, high=1)
one("inverse", asin(_x[i]) + acos(_x[i]) ** 2 + atanh(_x[i]), (i, 8), by=(_x,), low=-0.75, high=0.75)
one("hyperbolic", sinh(_x[i]) * cosh(_x[i + 1]) + tanh(_x[i]) + asinh(_x[i]), (i, 7), by=(_x,))
one("logarithms", log(_x[i]) * log(_x[i] + _z[i]) + sqrt(_z[i]), (i, 8), by=(_x, _z), low=0.25)
one("error_function", erf(_x[i]) * _x[i], (i, 8), by=(_x,))
one("two_arguments", atan2(_x[i], _z[i]), (i, 8), by=(_x, _z), low=0.25)
one("steps", floor(_x[i]) * _x[i] + ceiling(_x[i]) + sign(_x[i]) * _x[i] ** 2, (i, 8), by=(_x,))
_ties = {_x: [0, 1, 1, -1, 2, 0, -2, 3], _z: [0, 1, -1, 1, 2, 1, -2, 0]}
one("absolute", Abs(_x[i]) + Abs(_x[i] - _z[i]) ** 3, (i, 8), by=(_x, _z), values=_ties)
one("relu", Max(_x[i], 0) * _z[i], (i, 8), by=(_x, _z), values=_ties)
one("max_of_two", Max(_x[i], _z[i]), (i, 8), by=(_x, _z), values=_ties)
one("min_of_two", Min(_x[i], _z[i]), (i, 8), by=(_x, _z), values=_ties)
one("max_of_three", Max(_x[i], _x[7 - i], _z[i]), (i, 8), by=(_x, _z), values=_ties)
one("max_with_number", Max(_x[i], _z[i], 1), (i, 8), by=(_x, _z), values=_ties)
one("min_with_number", Min(_x[i] ** 2, _z[i], 1), (i, 8), by=(_x, _z), values=_ties)
one("max_of_one_tensor", Max(_x[i], _x[j]) ** 2, (i, 4), (j, 4), by=(_x,), values=_ties)
one("max_of_min", Max(Min(_x[i], 1), -1) * _z[i], (i, 8), by=(_x, _z), values=_ties)
one("max_of_index", Max(_x[i], i - 3), (i, 8), by=(_x,))
one("sign_in_sum", Sum(sign(_x[k]) * _x[k] * _z[k], (k, 0, 7)), by=(_x, _z), values=_ties)
one("piecewise_on_values", Piecewise((_x[i] ** 2, _x[i] > 0), (_z[i], True)), (i, 8), by=(_x, _z), values=_ties)
one("maximum_squared", Sum(Max(_x[k] - _z[k], 0) ** 2, (k, 0, 7)), by=(_x, _z))

# ------------------------------------------------------- scalars and symbolic sizes

_s = TensorSymbol("s", ())
one("rank_zero", _s * _x[i] ** 2 + sin(_s), (i, 8), by=(_s, _x))
one("rank_zero_only", _s**3 + exp(-_s), by=(_s,))
one("scalar_symbols", alpha * _x[i] + beta**2 * sin(alpha), (i, 8), by=(_x, alpha, beta))
one("free_indices", _x[p] * Sum(_x[k] * _A[k, q], (k, 0, 3)) ** 2, by=(_x, _A), sizes={p: 2, q: 1})
one("free_index_alone", alpha * _x[p] * Sum(_x[k] ** 2, (k, 0, 7)), by=(_x, alpha), sizes={p: 2})
one("free_offset", Sum(_x[k + p] ** 2, (k, 0, 3)), by=(_x,), sizes={p: 3})
_X, _Y, _u, _v = TensorSymbol("X", (N, K)), TensorSymbol("Y", (K, M)), TensorSymbol("u", N), TensorSymbol("v", K)
_sizes = {N: 3, M: 4, K: 2}
one("symbolic_product", Sum(_X[i, k] * _Y[k, j], (k, 0, K - 1)), (i, N), (j, M), by=(_X, _Y), sizes=_sizes)
_long = TensorSymbol("x", N + K - 1)
_short = {N: 5, K: 3}
one("symbolic_convolution", Sum(_long[i + k] * _v[k], (k, 0, K - 1)), (i, N), by=(_long, _v), sizes=_short)
_wide = TensorSymbol("x", 2 * N + 1)
one("symbolic_stride", _wide[2 * i] * _wide[2 * i + 1] + _u[i], (i, N), by=(_wide, _u), sizes={N: 4})
one("symbolic_reversed", _u[N - 1 - i] ** 2 * i, (i, N), by=(_u,), sizes={N: 5})
one("symbolic_triangle", Sum(_u[k] * _u[i], (k, 0, i)), (i, N), by=(_u,), sizes={N: 5})
one("symbolic_differences", Sum((_u[k + 1] - _u[k]) ** 2, (k, 0, N - 2)), by=(_u,), sizes={N: 5})
one("symbolic_size_as_value", Sum(_u[k], (k, 0, N - 1)) / N, by=(_u,), sizes={N: 4})
one("symbolic_one", Sum((_u[k + 1] - _u[k]) ** 2, (k, 0, N - 2)) + _u[0], by=(_u,), sizes={N: 1})
_padded_n = Piecewise((_u[i + k - 1], And(i + k >= 1, i + k <= N)), (0, True))
one("symbolic_padding", Sum(_padded_n * _w[k], (k, 0, 2)), (i, N), by=(_u, _w), sizes={N: 4})


@case("symbolic_chain")
def _symbolic_chain() -> Case:
    inner = Tensor(Sum(_X[i, k] * _v[k], (k, 0, K - 1)), (i, N))
    return Case(Sum(sin(inner[i]) * _u[i], (i, 0, N - 1)), (_X, _v, _u), sizes=_sizes)
