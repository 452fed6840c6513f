"""Clamped indices: what the derivatives look like, that they close, and how often their loops run."""

import numpy as np
import pytest
import sympy
from cases_clamps import BOUNDARIES
from counting import masks
from exact_checks import assert_kernel_exact, assert_second_exact
from sympy import Abs, KroneckerDelta, Max, Min, Mod, Piecewise, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import OutOfShapeError, UnsupportedError
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Tensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

i, j, k, m, p, q, r, N, M = td.indices("i j k m p q r N M")
x, y, A = TensorSymbol("x", N), TensorSymbol("y", M), TensorSymbol("A", (N, N))
KERNELS = (("numpy", True), ("numpy", False))

CLAMPED = {
    "edge": Tensor(x[Max(0, Min(i - 1, N - 1))] ** 2, (i, N + 2)),
    "convolution": Tensor(Sum(x[Max(0, Min(i + r - 1, N - 1))] ** 2 * y[r], (r, 0, M - 1)), (i, N)),
    "mirror": Tensor(x[Min(N - 1, Abs(i - 2))] ** 2, (i, N + 2)),
    "corner": Sum(A[Max(i - 1, 0), Min(i + 1, N - 1)] ** 2, (i, 0, N - 1)),
    "larger": Sum(x[Max(i, j)] ** 2 * x[Min(i, j)], (i, 0, N - 1), (j, 0, N - 1)),
    "quotient": Sum(x[Max(0, Min(floor(i / 2) - 1, N - 1))] ** 2, (i, 0, 2 * M)),
    "table": Sum(Tensor(x[Min(2 * i, N - 1)] ** 2, (i, N))[Max(j - 1, 0)] ** 2, (j, 0, N - 1)),
}


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", CLAMPED)
def test_small_sizes_equal_the_oracle(name):
    function = CLAMPED[name]
    variables = [v for v in (x, y, A) if function.has(v)]
    for size in (1, 2, 4):
        assert_kernel_exact(function, variables, {N: size, M: 3}, order=2, kernels=KERNELS[: size % 2 + 1])


def test_a_compound_is_the_form_that_holds_in_each_piece():
    function = Sum(2 * x[Min(i, 11)] * y[Max(i - 11, 0)], (i, 0, 20))
    by_entry = td.gradient(function, x).body
    assert by_entry == Piecewise((2 * y[0], p <= 11), (0, True)) + 2 * KroneckerDelta(11, p) * Sum(
        y[i - 11], (i, 12, 20)
    )


def test_pieces_that_agree_are_one():
    image = Sum(x[Min(i, 2 * N - 1 - i)] ** 2, (i, 0, 2 * N - 1))
    assert td.gradient(image, x).body == 4 * x[p]
    triangle = Sum(x[Max(i, j)], (i, 0, N - 1), (j, 0, N - 1))
    assert td.gradient(triangle, x).body == 2 * p + 1
    both = Piecewise((x[Max(i, 3)], i >= 3), (x[Min(i, 3)], True))
    assert td.gradient(Sum(both, (i, 0, N - 1)), x).body == 1


@pytest.mark.in_turns(8)
def test_second_derivatives_of_every_boundary():
    for name, (boundary, _) in BOUNDARIES.items():
        extended = Tensor(boundary(x, i - 2, N), (i, N + 3))
        if name == "mirror_interior":
            extended = extended.subs(N, 3)
        variable = next(iter(extended.atoms(TensorSymbol)))
        function = Sum((extended[i] - 2 * extended[i + 1]) ** 3, (i, 0, extended.shape[0] - 2))
        for size in (1, 3):
            assert_second_exact(function, variable, sizes={N: size}, backends=() if size == 1 else ("numpy",))


def test_a_maximum_of_indices_as_an_upper_bound_is_two_ranges():
    w = TensorSymbol("w", N)
    function = Tensor(Sum(x[k] ** 2, (k, 0, Max(i, N - 1 - i))), (i, N))
    near = Sum(w[i], (i, 0, Min(N - p - 1, floor((N - 1) / 2))))
    far = Sum(w[i], (i, Max(p, sympy.ceiling(N / 2)), N - 1))
    assert td.vjp(function, x, w).body == sympy.Mul(2, near + far, x[p])
    clamped = Tensor(Sum(x[k], (k, 0, Max(0, i - 1))), (i, N))
    assert td.vjp(clamped, x, w).body == KroneckerDelta(0, p) * w[0] + Sum(w[i], (i, p + 1, N - 1))


def test_bounds_stay_known_where_a_maximum_ties_them_to_indices_that_are_summed_first():
    function = Sum(x[Min(k, N - 1)] * y[j], (k, 0, Max(i, j)), (i, 0, N - 1), (j, 0, M - 1))
    pullback = td.gradient(function, x)
    beyond = N * KroneckerDelta(p, N - 1) * Sum(y[j], (j, k, M - 1), (k, N, M - 1))
    assert beyond in sympy.Add.make_args(pullback.body)
    assert not masks(pullback)
    nested = Sum(Sum(x[Min(k, N - 1)] ** 2, (k, 0, Max(i, j))) ** 2 * y[j] / x[0], (i, 0, N - 1), (j, 0, M - 1))
    assert_kernel_exact(nested, [x, y], {N: 3, M: 2}, order=1, kernels=KERNELS[:1])
    assert_kernel_exact(nested, [x], {N: 1, M: 4}, order=2, kernels=KERNELS[:1])


@pytest.mark.in_turns(8)
def test_products_over_ranges_that_end_at_a_maximum():
    function = td.IndexedProduct(x[k] + y[j], (k, Min(i, j), Max(i, j)), (i, 0, N - 1), (j, 0, M - 1))
    assert_kernel_exact(function, [x], {N: 2, M: 2}, order=1, kernels=KERNELS[:1])


# ---------------------------------------------------------------------------- as values

IDX = TensorSymbol("idx", N, dtype=int)
VALUES = {
    "factors": Max(i, 1) * Abs(i - 2) * x[i] ** 2,
    "exponents": x[i] ** Max(i, 1) + x[i] ** Abs(i - 2),
    "bases": 2 ** Max(i, 1) * x[i] ** 2 / Max(i, 1),
    "arguments": x[i] ** 2 * Max(Min(i, 2) * x[i], Min(i, 3)),
    "rounded": (floor(i / 2) + Mod(i, 3)) * x[i] ** Mod(i, 4),
    "of_data": Max(IDX[i], 1) * x[i] ** Abs(IDX[i] - 1),
    "of_products": Max(i * N - 3, 1) * x[i] ** 2 + Max(i**2, 3) * x[i] ** 3,
    "not_integers": Max(i / 2, 1) * x[i] ** 2,
}


@pytest.mark.parametrize("name", VALUES)
def test_maxima_as_values_equal_the_oracle(name):
    function = Sum(VALUES[name], (i, 0, N - 1))
    assert_kernel_exact(function, [x], {N: 5}, order=2, kernels=KERNELS[:1])


def test_maxima_of_indices_are_exact_integers():
    reader = Reader(Graph())
    for value in (Max(i, 1), Abs(i - j), Min(i, N - 1, 3), Max(IDX[i], 0)):
        assert reader.read(value).op == "index"
    for value in (Max(i, x[i]), Abs(x[i]), Max(i / 2, 1), Max(*td.indices("a:9"))):
        assert reader.read(value).op not in ("index", "const")
    shared = x[i]
    for _ in range(60):
        shared = Abs(sympy.Add(sympy.Mul(shared, shared, evaluate=False), 1, evaluate=False), evaluate=False)
    assert reader.read(shared).op != "index"


def test_exponents_that_a_maximum_keeps_from_0_need_no_condition():
    function = Sum(x[i] ** Max(i, 1), (i, 0, N - 1))
    assert td.gradient(function, x).body == Max(p, 1) * x[p] ** Max(0, p - 1)
    distance = Sum(x[i] ** Abs(i - 2), (i, 0, N - 1))
    (pair, _) = td.gradient(distance, x).body.args
    assert pair.cond == (Abs(p - 2) >= 1)


# ---------------------------------------------------------------------------- checks and refusals


def test_a_clamp_never_leaves_the_shape():
    z = TensorSymbol("z", 5)
    for read in (z[Max(0, Min(i, 4))], z[Min(4, Abs(i - 7))], z[Max(0, Min(floor(i / 2) - 3, Mod(i, 5)))]):
        assert Sum(read, (i, -10, 30)).body == read
    for read, shown in (
        (z[Min(i, 4)], r"at i = -1 its index Min\(4, i\)"),
        (z[Abs(i)], r"at i = 5 its index Abs\(i\)"),
    ):
        with pytest.raises(OutOfShapeError, match=shown):
            Sum(read, (i, -1, 5))


def test_kernels_check_what_a_clamp_leaves_open():
    function = Tensor(x[Min(i, m)], (i, N))
    kernel = td.lambdify((x, m), function, "numpy")
    assert kernel(np.array([1.0, 2.0, 3.0]), 1).tolist() == [1, 2, 2]
    with pytest.raises(OutOfShapeError, match=r"x\[min\(i, m\)\] is read outside .*m = -1"):
        kernel(np.array([1.0, 2.0, 3.0]), -1)
    kernel = td.lambdify((x, m), Tensor(x[Max(0, Min(i + m, N - 1))], (i, N)), "numpy")
    assert kernel(np.array([1.0, 2.0, 3.0]), -9).tolist() == [1, 1, 1]
    assert kernel(np.array([1.0, 2.0, 3.0]), 9).tolist() == [3, 3, 3]


def test_too_many_maxima_in_one_equation_are_refused():
    n = 7
    many = sum(Max(0, i - a * j) for a in range(n))
    function = Sum(TensorSymbol("z", N)[many], (i, 0, M), (j, 0, M))
    with pytest.raises(UnsupportedError, match=r"hides i, j in 7 maxima and minima; at most 6 are solved for: split"):
        td.gradient(function, TensorSymbol("z", N))


# ---------------------------------------------------------------------------- printing

n = td.indices("n")
z = TensorSymbol("z", n)


def test_kernels_hold_one_load_with_a_minimum():
    function = Tensor(z[Max(0, Min(i - 1, n - 1))] ** 2, (i, n + 2))
    for backend, load in (
        ("numba", "z[at(max(0, min(i - 1, n - 1)))]**2"),
        ("cuda", "z[uint64(max(0, min(i - 1, n - 1)))]**2"),
        ("numpy", "z[np.maximum(0, np.minimum(i - 1, n - 1))]"),
    ):
        assert load in td.generate_code(z, function, backend)


UNIONS = {
    "a sum": Tensor(Sum(x[k] ** 2, (k, Min(1, i), Max(i, M - 2))), (i, N)),
    "nested": Sum(x[k] ** 2 * x[j], (k, 0, Max(j, 1)), (j, Min(N, M) - 1, Max(N, M) - 1)),
    "a product": td.IndexedProduct(x[k], (k, Min(N, M) - 1, Max(N, M) - 1)),
    "a maximum": Tensor(td.IndexedMax(x[k], (k, 0, Max(i, M) - 1)), (i, N)),
    "in a table": Tensor(Tensor(Sum(x[1] ** 2, (k, 2 * j, 2 * j + 1)), (j, 4))[Min(3, M - 1)] ** 2, (i, N)),
}


@pytest.mark.parametrize("name", UNIONS)
def test_ranges_from_the_smaller_to_the_larger(name):
    for sizes in ({N: 4, M: 2}, {N: 4, M: 3}):
        assert_kernel_exact(UNIONS[name], [x], sizes, order=2, kernels=KERNELS[:1])
