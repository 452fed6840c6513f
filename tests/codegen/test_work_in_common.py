"""Functions of practice run in loops as written by hand: products of matrices, one pass over values in common."""

import re
from functools import cache

import numpy as np
import pytest
import sympy
from sympy import cos, exp, sin, tanh

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.llvm_driver import print_llvm
from sympy_tensordiff.codegen.ir.programs import ContractionStep, Scatter
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run import llvm
from sympy_tensordiff.codegen.schedule.passes import prepared

i, j, k, l, p, q = td.indices("i j k l p q")
n, m, d = td.indices("n m d")
Sum, Entries = td.IndexedSum, td.TensorComprehension


def over(index, extent):
    return index, 0, extent - 1


def with_gradient(value, *variables):
    return (value, *td.gradient(value, variables))


Q, K, om = td.TensorSymbol("Q", (n, 2 * d)), td.TensorSymbol("K", (n, 2 * d)), td.TensorSymbol("om", d)
A, B, C, D = (td.TensorSymbol(name, (n, n)) for name in "ABCD")
H, u1, u2 = td.TensorSymbol("H", (m, d)), td.TensorSymbol("u1", d), td.TensorSymbol("u2", d)
src, dst = (td.TensorSymbol(name, n, dtype=int, below=m) for name in ("src", "dst"))
centre, width = td.TensorSymbol("centre", (d, 2)), td.TensorSymbol("width", d)
height, image = td.TensorSymbol("height", d), td.TensorSymbol("image", (n, m))
X, W = td.TensorSymbol("X", (n, m)), td.TensorSymbol("W", (m, d))
scale, shift = td.TensorSymbol("scale", d), td.TensorSymbol("shift", d)


@cache
def rotary_scores():
    """Attention scores of rotated queries and keys."""

    def rotated(x, row):
        even, odd, c, s = x[row, 2 * k], x[row, 2 * k + 1], cos(row * om[k]), sin(row * om[k])
        return even * c - odd * s, even * s + odd * c

    (a, b), (u, v) = rotated(Q, i), rotated(K, j)
    value = Sum(sympy.log(Sum(exp(Sum(a * u + b * v, over(k, d))), over(j, n))), over(i, n))
    return (Q, K, om), with_gradient(value, Q, K)


@cache
def complex_product():
    """The real part of a product of complex matrices."""
    return (A, B, C, D), (Entries(Sum(A[i, k] * C[k, j] - B[i, k] * D[k, j], over(k, n)), (i, n), (j, n)),)


@cache
def edge_attention():
    """Weights over the edges into a node, by exponentials of a bounded score."""

    def score(e):
        return tanh(Sum(u1[k] * H[src[e], k], over(k, d)) + Sum(u2[k] * H[dst[e], k], over(k, d)))

    total = Entries(Sum(exp(score(i)) * sympy.KroneckerDelta(dst[i], p), over(i, n)) + 1, (p, m))
    value = Sum((exp(score(j)) / total[dst[j]]) ** 2 * Sum(H[src[j], l] ** 2, over(l, d)), over(j, n))
    return (H, u1, u2, src, dst), with_gradient(value, H, u1, u2)


@cache
def splats():
    """An image of Gaussians, by their centres, widths and heights."""
    squares = (i - centre[l, 0]) ** 2 + (j - centre[l, 1]) ** 2
    model = Sum(height[l] * exp(-squares * exp(-2 * width[l]) / 2), over(l, d))
    value = Sum((model - image[i, j]) ** 2, over(i, n), over(j, m))
    return (centre, width, height, image), with_gradient(value, centre, width, height)


@cache
def batch_norm():
    """A normalised layer, by its weights and scales."""
    Z = X @ W
    centred = Z - td.mean(Z, axis=0)
    spread = td.sqrt(td.mean(centred**2, axis=0) + sympy.Rational(1, 1000))
    value = td.sum(td.relu(scale * centred / spread + shift) ** 2)
    return (X, W, scale, shift), with_gradient(value, W, scale, shift)


@cache
def coupling():
    """A coupling layer of a normalising flow, by its input and its weights."""
    first, second = Entries(Q[i, k], (i, n), (k, d)), Entries(Q[i, d + k], (i, n), (k, d))
    scaling, moving = td.TensorSymbol("scaling", (d, d)), td.TensorSymbol("moving", (d, d))
    s = td.tanh(first @ scaling + scale)
    z = second * td.exp(s) + first @ moving + shift
    value = (td.sum(first**2) + td.sum(z**2)) / 2 - td.sum(s)
    return (Q, scaling, moving, scale, shift), with_gradient(value, Q, scaling, moving, scale, shift)


@cache
def relative_positions():
    """The sums of a matrix along its diagonals: the gradient of a table of relative positions."""
    first, last = sympy.Max(0, p - n + 1), sympy.Min(p, n - 1)
    return (A,), (Entries(Sum(A[i, i + n - p - 1], (i, first, last)), (p, 2 * n - 1)),)


FUNCTIONS = [
    rotary_scores, complex_product, edge_attention, splats, batch_norm, coupling, relative_positions,
]  # fmt: skip


def arrays_for(arguments, size, dtype=float):
    random = np.random.default_rng(size)
    sizes = {n: size, m: size + 1, d: max(1, size // 2)}
    found = []
    for one in arguments:
        shape = tuple(int(sympy.sympify(extent).subs(sizes)) for extent in one.shape)
        is_integer = one in (src, dst)
        found.append(random.integers(0, size, shape) if is_integer else random.normal(size=shape).astype(dtype))
    return found


@cache
def plainly(make):
    """The function without temporaries, by NumPy."""
    return td.lambdify(*make(), "numpy", temporaries=False)


@cache
def compiled_by_llvm(make):
    return td.lambdify(*make(), "llvm")


@pytest.mark.parametrize("make", FUNCTIONS, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "backend",
    [
        "llvm",
        "numpy",
        pytest.param("uncompiled", marks=pytest.mark.in_turns(3)),
        pytest.param("numba", marks=pytest.mark.in_turns(10)),
    ],
    indirect=True,
)
def test_values(make, backend):
    arguments, results = make()
    plain = plainly(make)
    compiled = compiled_by_llvm(make) if backend == "llvm" else td.lambdify(arguments, results, backend)
    for size in (1, 2, 3, 7, 18):
        arrays = arrays_for(arguments, size)
        for found, wanted in zip(compiled(*arrays), plain(*arrays), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("make", FUNCTIONS, ids=lambda make: make.__name__)
def test_values_in_single_precision_and_of_strided_arrays(make):
    arguments, _ = make()
    compiled = compiled_by_llvm(make)
    for size in (3, 9):
        arrays = arrays_for(arguments, size)
        wanted = compiled(*arrays)
        turned = [np.asfortranarray(array) for array in arrays]
        for found, value in zip(compiled(*turned), wanted, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-12, atol=1e-13)
        single = compiled(*(array.astype(np.float32) if array.dtype == float else array for array in arrays))
        for found, value in zip(single, wanted, strict=True):
            np.testing.assert_allclose(found, value, rtol=2e-3, atol=2e-4 * (1 + np.abs(value).max()))


# ---------------------------------------------------------------------------- the loops


@cache
def program_of(make):
    arguments, results = make()
    return build_program(arguments, results, rows=True, trapezoids=True, tables=True)


def products_of(make):
    return [step for step in program_of(make).kernels if isinstance(step, ContractionStep)]


@pytest.mark.in_turns(4)
def test_a_sum_of_products_of_matrices_is_several_of_them():
    assert len(products_of(complex_product)) == 2
    assert len(products_of(rotary_scores)) == 6  # two for the scores, two for each gradient


def test_differences_of_entries_are_not_split():
    """The difference may be exact, and the two sums lose its digits."""
    value = Entries(Sum((A[i, k] - B[j, k]) * C[k, j], over(k, n)), (i, n), (j, n))
    program = build_program((A, B, C), value, rows=True, trapezoids=True, tables=True)
    assert not any(isinstance(step, ContractionStep) for step in program.kernels)


def test_scatters_add_numbers_and_not_rows():
    scatters = [step for step in program_of(edge_attention).kernels if isinstance(step, Scatter)]
    assert scatters and all(len(step.axes) == 1 for step in scatters)


def test_bounded_exponents_are_not_shifted():
    arguments, results = edge_attention()
    source = td.lambdify(arguments, results, "llvm").source
    assert "maximum(" not in source.partition("def fill")[2]


def test_functions_that_scatters_add_are_vectors():
    """The same numbers in the same order."""
    x = td.TensorSymbol("x", n)
    value = Entries(Sum(sympy.log(1 + x[k] ** 4) * sympy.KroneckerDelta(dst[k], p), over(k, n)), (p, m))
    compiled = td.lambdify((x, dst, m), value, "llvm")
    assert "distribute" in compiled.plan
    random = np.random.default_rng(0)
    for size in (1, 511, 512, 513, 1300):
        given, places = random.normal(size=size), random.integers(0, 5, size)
        wanted = np.zeros(5)
        np.add.at(wanted, places, np.log(1 + given**4))
        np.testing.assert_allclose(compiled(given, places, 5), wanted, rtol=1e-13)


@pytest.mark.in_turns(3)
def test_equal_functions_of_double_sums_are_computed_once():
    arguments, results = splats()
    source = td.lambdify(arguments, results, "llvm", parallel=False).source.partition("def fill_result")[2]
    body = source.partition("def run")[0]
    assert body.count("exp(") == 3  # of widths, in the image, and in one loop for all derivatives


def test_temporaries_are_stored_as_loops_read_them():
    program = prepared(program_of(batch_norm), "llvm")
    assert any("last, along which loops read" in note for note in program.notes)
    shapes = {array.name: array.shape for array in program.temporaries}
    rows = {shape[0] for shape in shapes.values() if len(shape) == 2}
    assert len(rows) == 1, shapes


def test_values_are_found_at_places_shifted_by_sizes():
    arguments, results = coupling()
    source = td.lambdify(arguments, results, "llvm", parallel=False).source.partition("def fill")[2]
    assert source.count("exp(") == 1 and source.count("tanh(") == 1


def test_loops_with_tied_bounds_run_along_rows():
    arguments, results = relative_positions()
    plan = td.lambdify(arguments, results, "llvm", parallel=False).plan
    assert "sink" in plan


def test_short_rows_are_masked_vectors():
    """All lengths around those of vectors and their multiples, in both precisions."""
    value = Entries(exp(-(A[i, j] ** 2)) + sympy.log(1 + B[i, j] ** 2), (i, n), (j, n))
    row = td.lambdify((A,), td.softmax(A, axis=1), "llvm", parallel=False)
    compiled = td.lambdify((A, B), value, "llvm", parallel=False)
    random = np.random.default_rng(1)
    for size in (*range(1, 36), 47, 48, 49, 64, 65):
        a, b = random.normal(size=(2, size, size))
        wanted = np.exp(-(a**2)) + np.log1p(b**2)
        np.testing.assert_allclose(compiled(a, b), wanted, rtol=1e-14)
        single = compiled(a.astype(np.float32), b.astype(np.float32))
        np.testing.assert_allclose(single, wanted, rtol=1e-5)
        powers = np.exp(a - a.max(1, keepdims=True))
        np.testing.assert_allclose(row(a), powers / powers.sum(1, keepdims=True), rtol=1e-14)


def llvm_of(expression):
    function = td.lambdify((A, B), expression, "llvm", parallel=False)
    return print_llvm(function._fused, llvm.target(np.dtype(float))).text


def count_masked_loops(text):
    (mask,) = re.findall(r'^(!\d+) = !{!"llvm.loop.vectorize.predicate.enable"', text, re.MULTILINE)
    return len(re.findall(rf"^!\d+ = distinct .*{mask}}}", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        (Entries(exp(-(A[i, j] ** 2)), (i, n), (j, n)), 1),
        (Entries(Sum(sympy.log(1 + A[i, j] ** 4), over(j, n)), (i, n)), 1),
        (Entries(A[i, j] * B[i, j], (i, n), (j, n)), 0),
        (Entries(exp(-(A[i, i] ** 2)), (i, n)), 0),
        (Entries(Sum(sympy.log(1 + A[j, i] ** 4) * B[i, i], over(j, n)), (i, n)), 0),
    ],
    ids=["rows of functions", "sums of functions", "plain rows", "a diagonal", "columns"],
)
def test_only_rows_of_functions_have_masked_vectors(expression, count):
    assert count_masked_loops(llvm_of(expression)) == count


def test_an_extremum_is_one_loop_of_vectors():
    text = llvm_of(Entries(td.IndexedMax(A[i, j], over(j, n)), (i, n)))
    assert len(re.findall(r"call nsz double @llvm\.maximum", text)) == 1
    plans = [td.lambdify((A,), td.softmax(A, axis=1), backend).plan for backend in ("llvm", "numba")]
    assert ["rfactor" in plan for plan in plans] == [False, True]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extrema_of_rows_keep_nan_and_infinities(dtype):
    least, greatest = (
        td.lambdify((A,), Entries(kind(A[i, j], over(j, n)), (i, n)), "llvm") for kind in (td.IndexedMin, td.IndexedMax)
    )
    random = np.random.default_rng(2)
    for size in (1, 2, 7, 8, 9, 31, 32, 33, 70):
        given = random.normal(size=(size, size)).astype(dtype)
        given[0, size // 2] = np.nan
        given[-1, 0], given[-1, -1] = -np.inf, np.inf
        np.testing.assert_array_equal(least(given), given.min(1))
        np.testing.assert_array_equal(greatest(given), given.max(1))


def test_steps_with_numbers_keep_small_numbers():
    """With the denominators taken out, five steps of size 1/10 have numbers that single precision does not have."""
    rate, sick, healthy, seen = (td.TensorSymbol(name, n) for name in ("rate", "sick", "healthy", "seen"))
    s, x, value = healthy[i], sick[i], 0
    for _ in range(5):
        new = rate[i] * s * x / 10
        s, x = s - new, x + new - x / 10
        value += (x - seen[i]) ** 2
    gradient = td.gradient(Sum(value, over(i, n)), rate)
    numbers = [abs(part) for part in sympy.preorder_traversal(gradient.body) if part.is_Rational]
    assert max(max(part.p, part.q) for part in numbers) <= 10**9
    compiled = td.lambdify((rate, sick, healthy, seen), gradient, "llvm")
    arrays = np.random.default_rng(3).uniform(0.1, 0.9, size=(4, 6))
    np.testing.assert_allclose(compiled(*arrays.astype(np.float32)), compiled(*arrays), rtol=1e-4)
