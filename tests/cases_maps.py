"""Cases whose index maps are wider than affine: quotients and remainders in indices, bounds and conditions."""

from __future__ import annotations

from cases_own import one
from cases_peers import x_of
from sympy import Abs, And, Eq, KroneckerDelta, Max, Min, Mod, Piecewise, ceiling, exp, floor, frac, log, tanh

from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Tensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

i, j, k, l, m, n = indices("i j k l m n")
a, b = indices("a b")
N, M, K = indices("N M K")

# ---------------------------------------------------------------- V: TVM, L: Tullio, H: Halide

_image = x_of(1, 2, 6, 6)
_pool = Sum(_image[m, n, i + 2 * k, j + 2 * l], (k, 0, 1), (l, 0, 1)) / 4
one("V27", _pool, (m, 1), (n, 2), (i, 4), (j, 4), by=(_image,))
_small, _large = x_of(1, 2, 4, 4), x_of(1, 2, 5, 5)
_flat = _small[m, floor(i / 16), Mod(floor(i / 4), 4), Mod(i, 4)]
one("V29", _flat**2, (m, 1), (i, 32), by=(_small,))
_flat = _large[m, floor(i / 25), Mod(floor(i / 5), 5), Mod(i, 5)]
one("V29_50", _flat**2, (m, 1), (i, 50), by=(_large,))
_tiny = x_of(1, 2, 2, 3)
_row = Tensor(_tiny[m, floor(i / 6), Mod(floor(i / 3), 2), Mod(i, 3)], (m, 1), (i, 12))
one("V31_softmax", exp(_row[m, i]) / Sum(exp(_row[m, k]), (k, 0, 11)), (m, 1), (i, 12), by=(_tiny,))
one("V31_log_softmax", _row[m, i] - log(Sum(exp(_row[m, k]), (k, 0, 11))), (m, 1), (i, 12), by=(_tiny,))
one("V31_sigmoid", 1 / (1 + exp(-_row[m, i])), (m, 1), (i, 12), by=(_tiny,))
one("V31_tanh", tanh(_row[m, i]), (m, 1), (i, 12), by=(_tiny,))
_left, _right = TensorSymbol("A", (1, 2, 3, 5)), TensorSymbol("B", (1, 2, 7, 5))
_joined = Piecewise((_left[m, n, i, j], i < 3), (_right[m, n, i - 3, j], True))
one("V32", _joined**2, (m, 1), (n, 2), (i, 10), (j, 5), by=(_left, _right))
_whole = x_of(1, 2, 6, 5)
_upper, _lower = (Tensor(_whole[m, n, i + at, j], (m, 1), (n, 2), (i, 3), (j, 5)) for at in (0, 3))
for _name, _first, _second in (("V33", _upper, _lower), ("V33_swapped", _lower, _upper)):
    _again = Piecewise((_first[m, n, i, j], i < 3), (_second[m, n, i - 3, j], True))
    one(_name, _again**2, (m, 1), (n, 2), (i, 6), (j, 5), by=(_whole,))
_periodic, _kernel = x_of(4, 5, 2), TensorSymbol("w", (3, 2))
_turned = Sum(_periodic[Mod(i + a, 4), Mod(j + b, 5), n] * Abs(_kernel[a, b]), (a, 0, 2), (b, 0, 1))
one("L10", _turned, (i, 4), (j, 5), (n, 2), by=(_periodic, _kernel))
_x5 = x_of(5)
one("H7", _x5[floor(i / 4)] + _x5[ceiling(i / 4)], (i, 16), by=(_x5,))

# ---------------------------------------------------------------- the same, by data

_where = TensorSymbol("where", 7, dtype=int)
_pixels, _entry = x_of(2, 3), Max(0, Min(_where[i], 5))
_taken = {_where: [5, 0, -2, 3, 9, 3, 1]}
one("V34", _pixels[floor(_entry / 3), Mod(_entry, 3)] ** 2, (i, 7), by=(_pixels,), values=_taken)
one("L8", x_of(6)[_where[i]] ** 2, (i, 7), by=(x_of(6),), values={_where: [2, 2, 0, 5, 4, 2, 0]})
_soft = exp(TensorSymbol("w", 7)[i])
_counts = Sum(KroneckerDelta(k, _where[i]) * _soft, (i, 0, 6)) ** 2
one("H8", _counts, (k, 4), by=(TensorSymbol("w", 7),), values={_where: [3, 1, 1, -1, 0, 1, 6]}, low=-1, high=1)

# ---------------------------------------------------------------- windows, rounded up and down

_x, _w = x_of(8), TensorSymbol("w", 3)
one("map_half", _x[floor(i / 2)] ** 2, (i, 13), by=(_x,))
one("map_nested", _x[floor((floor(i / 2) + 1) / 3)] ** 2, (i, 20), by=(_x,))
one("map_backwards", _x[7 - floor(i / 2)] * _x[floor((15 - i) / 2)], (i, 16), by=(_x,))
one("map_three_halves", _x[floor(3 * i / 2)] ** 2 * _x[ceiling(2 * i / 3)], (i, 5), by=(_x,))
one("map_two_rates", _x[floor(i / 2) + floor(i / 3)] ** 2, (i, 9), by=(_x,))
one("map_two_axes", _x[floor((i + j) / 2)] ** 2, (i, 6), (j, 4), by=(_x,))
one("map_index_and_quotient", _x[i - floor(i / 2)] * _x[i + floor(i / 2)], (i, 5), by=(_x,))
one("map_bounds", Sum(_x[k] ** 2, (k, ceiling(i / 3), floor((i + j) / 2))), (i, 6), (j, 3), by=(_x,))
one("map_condition", Piecewise((_x[i] ** 2, floor(i / 3) >= ceiling(j / 2)), (_x[0], True)), (i, 8), (j, 4), by=(_x,))
one("map_chosen_group", Sum(Piecewise((_x[k] ** 2, Eq(floor(k / 3), i)), (0, True)), (k, 0, 7)), (i, 3), by=(_x,))
_adaptive = Sum(_x[k] ** 2, (k, floor(8 * i / 3), ceiling(8 * (i + 1) / 3) - 1))
one("map_adaptive_pool", _adaptive, (i, 3), by=(_x,))
_pooled, _axis = x_of(N), TensorSymbol("w", M)
_adaptive = _axis[i] * Sum(_pooled[k] ** 2, (k, floor(N * i / M), ceiling(N * (i + 1) / M) - 1))
one("map_adaptive_to_a_size", _adaptive, (i, M), by=(_pooled, _axis), sizes={N: 5, M: 3})
_between = (1 - frac(i / 3)) * _x[floor(i / 3)] + frac(i / 3) * _x[floor(i / 3) + 1]
one("map_interpolation", _between**2, (i, 15), by=(_x,))
_strided = Piecewise(
    (_x[(i - k) / 2 - frac((i - k) / 2)] * _w[k], And(Eq(Mod(i - k, 2), 0), i >= k, i - k < 16)), (0, True)
)
one("map_transposed_convolution", Sum(_strided, (k, 0, 2)), (i, 17), by=(_x, _w))
_deep, _taps = x_of(4, 6), TensorSymbol("w", (4, 2, 3))
_grouped = Sum(_deep[2 * floor(n / 2) + m, i + k] * _taps[n, m, k], (m, 0, 1), (k, 0, 2))
one("map_grouped_convolution", _grouped, (n, 4), (i, 4), by=(_deep, _taps))
_plane = x_of(N, M)
_enlarged = _plane[floor(i / 2), floor(j / 3)] ** 2
one("map_upsampling", _enlarged, (i, 2 * N), (j, 3 * M), by=(_plane,), sizes={N: 2, M: 3})

# ---------------------------------------------------------------- remainders and digits

one("map_remainder", _x[Mod(i, 5)] ** 2, (i, 13), by=(_x,))
one("map_remainder_of_quotient", _x[Mod(floor(i / 2), 3)] ** 2, (i, 14), by=(_x,))
one("map_quotient_of_remainder", _x[floor(Mod(i, 6) / 2)] ** 2, (i, 14), by=(_x,))
one("map_remainder_of_remainder", _x[Mod(Mod(i, 6), 4)] ** 2, (i, 15), by=(_x,))
one("map_strided_remainder", _x[Mod(2 * i + 1, 8)] ** 2 * _x[Mod(3 * i, 8)], (i, 8), by=(_x,))
one("map_bit_reversal", _x[4 * Mod(i, 2) + 2 * Mod(floor(i / 2), 2) + floor(i / 4)] ** 2, (i, 8), by=(_x,))
one("map_butterfly", _x[i + 2 - 4 * Mod(floor(i / 2), 2)] * _x[i], (i, 8), by=(_x,))
one("map_interleaved", _x[4 * Mod(i, 2) + floor(i / 2)] * _x[2 * Mod(i, 4) + floor(i / 4)], (i, 8), by=(_x,))
one("map_shared_index", x_of(4, 3)[floor(i / 3), Mod(i, 3)] ** 2, (i, 11), by=(x_of(4, 3),))
one("map_sum_of_digits", _x[floor(i / 3) + Mod(i, 3)] ** 2, (i, 11), by=(_x,))
one("map_dilated_circle", Sum(_x[Mod(2 * i + 3 * a, 8)] * _w[a], (a, 0, 2)) ** 2, (i, 4), by=(_x, _w))
_line, _ring = x_of(N), TensorSymbol("w", K)
_circle = Sum(_line[Mod(i + a, N)] * _ring[a], (a, 0, K - 1))
one("map_circle", _circle**2, (i, N), by=(_line, _ring), sizes={N: 4, K: 3})
_around = (_line[Mod(i + 1, N)] - 2 * _line[i] + _line[Mod(i - 1, N)]) ** 2
one("map_periodic_laplacian", Sum(_around, (i, 0, N - 1)), by=(_line,), sizes={N: 4})
one("map_rolled_twice", Tensor(_line[Mod(i + 2, N)] ** 2, (i, N))[Mod(i - 3, N)], (i, N), by=(_line,), sizes={N: 5})
_cube = x_of(N, M, K)
_flat = _cube[floor(i / (M * K)), Mod(floor(i / K), M), Mod(i, K)]
one("map_flattened", _flat**2, (i, N * M * K), by=(_cube,), sizes={N: 2, M: 3, K: 2})
_channels = x_of(4 * K, N, M)
_shuffled = _channels[4 * i + 2 * Mod(j, 2) + Mod(k, 2), floor(j / 2), floor(k / 2)]
one("map_pixel_shuffle", _shuffled**2, (i, K), (j, 2 * N), (k, 2 * M), by=(_channels,), sizes={K: 1, N: 2, M: 1})
_fine = x_of(1, 4, 6)
_unshuffled = _fine[floor(i / 4), 2 * j + floor(Mod(i, 4) / 2), 2 * k + Mod(i, 2)]
one("map_pixel_unshuffle", _unshuffled**2, (i, 4), (j, 2), (k, 3), by=(_fine,))
_factor = TensorSymbol("B", (K, K))
_kronecker = _plane[floor(i / K), floor(j / K)] * _factor[Mod(i, K), Mod(j, K)]
one("map_kronecker", _kronecker, (i, N * K), (j, M * K), by=(_plane, _factor), sizes={N: 2, M: 1, K: 2})
one("map_tiled", _line[Mod(i, N)] * _ring[floor(i / N)], (i, N * K), by=(_line, _ring), sizes={N: 3, K: 2})
