"""NumPy kernels have no loop over the entries of a result: what loops run in Python is counted, at several sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy
from every import every
from exact_checks import assert_kernel_exact
from oracle import check, expected
from programs import CASES, REDUCTIONS, M, N, array, load, loop, op, result, single, store, total

import sympy_tensordiff as td
from benchmarks.contestants import inputs, reference
from benchmarks.libraries import leaves
from benchmarks.rows import ROWS
from sympy_tensordiff.codegen.emit.dialects import DIALECTS
from sympy_tensordiff.codegen.ir.loops import If, Loop, accumulator, add
from sympy_tensordiff.codegen.ir.scalars import Bound, Name, Number
from sympy_tensordiff.codegen.run.compile import CompiledFunction
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient

I, J, K, P = (Affine.variable(name) for name in "ijkp")


def call(function, arguments):
    """The results of a call, and how many values its loops in Python take."""
    function(*arguments)
    namespace = function._load(np.dtype(float)).run.__globals__
    taken = []

    def counting(*ends):
        taken.append(len(range(*ends)))
        return range(*ends)

    namespace["range"] = counting
    try:
        return function(*arguments), sum(taken)
    finally:
        del namespace["range"]


# ---------------------------------------------------------------------------- the rows of the benchmarks

# All sizes but those of short sums and windows are doubled; what is written at one size is one array of a block.
SIZES = {
    "paper": ({"I": 18, "J": 17, "K": 19}, {"I": 36, "J": 34, "K": 38}, 0),
    "conv-X-2-2": ({"N": 2, "C": 3, "F": 17, "H": 9, "K": 3}, {"N": 4, "C": 6, "F": 34, "H": 18, "K": 3}, 12),
    "conv-X-1-1": ({"N": 2, "C": 3, "F": 17, "H": 9, "K": 3}, {"N": 4, "C": 6, "F": 34, "H": 18, "K": 3}, 12),
    "conv-X-2-1": ({"N": 2, "C": 3, "F": 17, "H": 40, "K": 3}, {"N": 4, "C": 6, "F": 34, "H": 80, "K": 3}, 12),
    "conv-W-2-1": ({"N": 2, "C": 3, "F": 2, "H": 9, "K": 3}, {"N": 4, "C": 6, "F": 4, "H": 40, "K": 3}, 0),
    "conv-W-1-3": ({"N": 2, "C": 3, "F": 2, "H": 9, "K": 3}, {"N": 4, "C": 6, "F": 4, "H": 40, "K": 3}, 0),
    "fir": ({"n": 50, "K": 20}, {"n": 100, "K": 40}, 0),
    "toeplitz": ({"n": 20}, {"n": 40}, 0),
    "hankel": ({"n": 20}, {"n": 40}, 0),
    "gaussian": ({"N": 20, "D": 3}, {"N": 40, "D": 3}, 3),
    "volterra": ({"n": 20, "K": 17}, {"n": 40, "K": 34}, 0),
    "volterra-hessian": ({"n": 20, "K": 5}, {"n": 40, "K": 5}, 0),
    "factorization-hessian": ({"m": 5, "n": 6, "r": 3}, {"m": 10, "n": 12, "r": 3}, 0),
    "variation": ({"n": 18}, {"n": 36}, 0),
    "cross-entropy": ({"n": 18, "k": 20}, {"n": 36, "k": 40}, 0),
    "attention": ({"N": 20, "D": 17}, {"N": 40, "D": 34}, 0),
    "attention-row": ({"N": 30, "D": 17}, {"N": 60, "D": 34}, 0),
    "layernorm": ({"B": 18, "n": 20}, {"B": 36, "n": 40}, 0),
}


@every("name", [*SIZES], turns=8)
def test_the_loops_of_a_row_do_not_grow(name):
    row = ROWS[name]
    *both, most = SIZES[name]
    for sizes in both:
        arguments, expression = row.ours(sizes)
        arrays = inputs(row, sizes, "float64")
        found, taken = call(td.lambdify(arguments, expression, "numpy"), arrays)
        assert taken <= most
        for value, right in zip(leaves(found), reference(row, arrays), strict=True):
            np.testing.assert_allclose(value, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["paper", "conv-W-2-1", "volterra", "attention"])
def test_blocks_of_few_entries(name, monkeypatch):
    """Sums that are cut into many blocks are the same."""
    monkeypatch.setitem(DIALECTS, "numpy", replace(DIALECTS["numpy"], block=1))
    row, sizes = ROWS[name], SIZES[name][0]
    arguments, expression = row.ours(sizes)
    arrays = inputs(row, sizes, "float64")
    found, taken = call(td.lambdify(arguments, expression, "numpy"), arrays)
    assert taken > 1
    for value, right in zip(leaves(found), reference(row, arrays), strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-10, atol=1e-10)


# ---------------------------------------------------------------------------- sums of products


def summed(body, *shapes):
    """The sum over k of ``body``, for each i and j."""
    arrays = [array(name, *shape) for name, shape in zip("abc", shapes, strict=False)]
    return single(tuple(arrays), result("y", N, M), "ij", *total("s", body, ("k", 0, 19)), store(Name("s")))


def test_texts_of_sums_of_products():
    def text(body, *shapes):
        lines = CompiledFunction(summed(body, *shapes), "numpy").source.splitlines()
        return next(line.strip() for line in lines if "s +=" in line)

    a, b = load("a", I, K), load("b", K, J)
    assert text(op("mul", a, b), (N, 20), (20, M)) == 's += np.einsum("ik,kj->ij", a, b, optimize=True)'
    # A window is a view; as the product copies it, it is cut into blocks.
    window = op("mul", load("a", I + K), b)
    assert text(window, (N + 19,), (20, M)).endswith(
        'np.einsum("ki,kj->ij", view(a, (k_from,), (k_to - k_from, N), (1,), (1,)), b[k_from:k_to], optimize=True)'
    )
    # What varies along one axis only is put to it before.
    three = op("mul", a, load("c", I), b)
    assert text(three, (N, 20), (20, M), (N,)) == 's += np.einsum("ik,kj->ij", a*c[:, None], b, optimize=True)'


@pytest.mark.parametrize("along", [1, -1])
@pytest.mark.parametrize("step", [1, -1])
def test_products_with_windows_of_a_vector(step, along):
    """All ways in which a window may run, whichever is longer."""
    body = op(
        "mul",
        load(
            "x",
            40 + along * I + step * K,
        ),
        load("w", K),
    )
    sums = total("s", body, ("k", 1, M - 2))
    program = single((array("x", 80), array("w", M), array("z", N)), result("y", N), "i", *sums, store(Name("s")))
    source = CompiledFunction(program, "numpy").source
    assert ("np.correlate" if step == 1 else "np.convolve") in source
    random = np.random.default_rng(5)
    for n, m in ((1, 1), (1, 2), (1, 3), (2, 9), (9, 5), (7, 7)):
        check(program, "numpy", [random.standard_normal(size) for size in (80, m, n)])
    strided = op("mul", load("x", 2 * I + K), load("w", K))
    sums = total("s", strided, ("k", 0, M - 1))
    program = single((array("x", 80), array("w", M), array("z", N)), result("y", N), "i", *sums, store(Name("s")))
    assert "np.einsum" in CompiledFunction(program, "numpy").source


# ---------------------------------------------------------------------------- zeros


@pytest.mark.parametrize("lengths", [(8, 9), (100, 3), (3, 100)])
def test_windows_that_overlap_a_vector_partly(lengths):
    """Nothing is multiplied by zeros around it: what is not finite reaches the entries of its own."""
    program, _ = CASES["correlation_adjoint"]
    function = CompiledFunction(program, "numpy")
    assert "np.convolve(g, w)" in function.source
    random = np.random.default_rng(0)
    w, g = map(random.standard_normal, lengths)
    strange = np.where(np.arange(len(w)) == 1, np.inf, w)
    for values in (
        (w, g),
        (strange, g),
        (np.where(w > 1, np.nan, w), g),
        (w, np.where(np.arange(len(g)) == 2, np.inf, g)),
    ):
        found, taken = call(function, values)
        assert taken == 0
        np.testing.assert_allclose(found, expected(program, list(values))[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rises", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
@pytest.mark.parametrize("factor", [None, -3])
def test_windows_in_all_directions(rises, factor):
    """Gradients of correlations: a window of more than 16 places, whose first or last entries are outside."""
    length, count = 20, 30
    first = (length - 1) * (rises[1] < 0) + (count - 1) * (rises[0] < 0)
    x, w, dy = (
        td.TensorSymbol(name, size) for name, size in zip("xwd", (length + count - 1, length, count), strict=True)
    )
    i, k = td.indices("i k")
    inner = td.IndexedSum(w[k] * x[rises[0] * i + rises[1] * k + first], (k, 0, length - 1))
    function = td.lambdify(
        (w, dy), td.gradient(td.IndexedSum(dy[i] * inner * (factor or 1), (i, 0, count - 1)), x), "numpy"
    )
    assert "np.convolve(" in function.source or "np.correlate(" in function.source
    random = np.random.default_rng(0)
    values = random.standard_normal(length), random.standard_normal(count)
    wanted = np.zeros(length + count - 1)
    for a in range(count):
        for b in range(length):
            wanted[rises[0] * a + rises[1] * b + first] += (factor or 1) * values[1][a] * values[0][b]
    np.testing.assert_allclose(function(*values), wanted, rtol=1e-12, atol=1e-12)


def triangle(*factors):
    """``y[i, j] = sum_{k <= i} ...`` of a: N by N, b: N by M, c: N."""
    body = (accumulator("s"), loop("k", 0, I, add("s", op("mul", *factors))), store(Name("s")))
    return single((array("a", N, N), array("b", N, M), array("c", N)), result("y", N, M), "ij", *body)


def test_a_triangle_is_a_product_with_zeros():
    program = triangle(load("a", I, K), load("b", K, J), load("c", K))
    function = CompiledFunction(program, "numpy")
    random = np.random.default_rng(1)
    a, b, c = random.standard_normal((6, 6)), random.standard_normal((6, 4)), random.standard_normal(6)
    check(program, "numpy", [a, b, c])
    assert call(function, (a, b, c))[1] == 0
    # What is behind the diagonal is not seen, what is not finite in b neither.
    a[0, 5] = c[5] = np.nan
    found, taken = call(function, (a, b, c))
    assert taken == 0
    assert np.isnan(found).sum() == 4
    np.testing.assert_allclose(found, expected(program, [a, b, c])[0], rtol=1e-12, atol=1e-12)
    b[5, 1] = np.inf
    found, taken = call(function, (a, b, c))
    assert taken == 6
    np.testing.assert_allclose(found, expected(program, [a, b, c])[0], rtol=1e-12, atol=1e-12)


@every("scale, shift, length", [(2, 0, 3), (1, -2, 2), (3, 4, 2), (-2, 30, 5), (-1, 30, 1), (2, -9, 17)])
def test_loops_over_values_that_touch_few_entries(scale, shift, length):
    """Each of the few entries of a value is one operation on all values, cut off at both ends of the result."""
    size = abs(scale)
    if scale > 0:  # shift + scale*k <= i < shift + scale*k + length
        lows, highs = Bound(I - shift - length + 1, size), Bound(I - shift, size)
    else:
        lows, highs = Bound(shift - I, size), Bound(shift + length - 1 - I, size)
    value = op("mul", load("a", K), load("b", I, J), load("c", K, J))
    sums = Loop("k", (lows, Bound(Affine.of(0))), (highs, Bound(N - 1)), (add("s", value),))
    arrays = (array("a", N), array("b", M, 4), array("c", N, 4))
    program = single(arrays, result("y", M, 4), "ij", accumulator("s"), sums, store(Name("s")))
    random = np.random.default_rng(6)
    for n, m in ((20, 50), (20, 7), (3, 40), (1, 1)):
        values = [random.standard_normal(shape) for shape in ((n,), (m, 4), (n, 4))]
        check(program, "numpy", values)
        assert call(CompiledFunction(program, "numpy"), values)[1] <= (length if length < 17 else n)


ENDS = {
    "first": (0, I - 1),
    "last": (I, N - 1),
    "clipped": (2, 2 * I - 5),
    "half": (quotient(I, 2), N - 2),
}


@every("reduction", REDUCTIONS, turns=4)
@every("ends", [*ENDS])
def test_running_reductions(ends, reduction):
    """One pass for all entries, where the range of one ends or begins; what is not finite stays with its entries."""
    low, high = map(Affine.of, ENDS[ends])
    for value, shape in ((load("a", K), (N,)), (op("mul", load("a", K), load("b", K, J)), (N, M))):
        body = (
            accumulator("s", reduction),
            add("s", Number(1), reduction),
            Loop("k", (Bound(Affine.of(0)), Bound(low)), (Bound(high), Bound(N - 1)), (add("s", value, reduction),)),
            store(Name("s")),
        )
        program = single((array("a", N), array("b", N, M)), result("y", *shape), "ij"[: len(shape)], *body)
        random = np.random.default_rng(4)
        for n in (1, 3, 20):
            a, b = random.standard_normal(n), random.standard_normal((n, 3))
            check(program, "numpy", [a, b])
        a[7], a[3] = np.inf, np.nan
        found, taken = call(CompiledFunction(program, "numpy"), (a, b))
        assert taken == 0
        np.testing.assert_allclose(found, expected(program, [a, b])[0], rtol=1e-12, atol=1e-12)


def test_a_band_of_few_values_stays_a_loop():
    """Between two bounds there may be few values among many."""
    lows, highs = (tuple(map(Bound, map(Affine.of, ends))) for ends in ((I - 1, 0), (I + 1, N - 1)))
    body = Loop("k", lows, highs, (add("s", op("mul", load("a", I, K), load("b", K, J))),))
    program = single(
        (array("a", N, N), array("b", N, M)), result("y", N, M), "ij", accumulator("s"), body, store(Name("s"))
    )
    random = np.random.default_rng(2)
    check(program, "numpy", [random.standard_normal((20, 20)), random.standard_normal((20, 3))])
    assert "isfinite" not in CompiledFunction(program, "numpy").source


def test_guards_are_computed_for_all_entries_where_all_may_be_read():
    inner = (*total("t", op("mul", load("a", I, K), load("b", J, K)), ("k", 0, 29)), add("s", op("log", Name("t"))))
    guarded = (accumulator("s"), If((Constraint("ge", I - J),), inner), store(Name("s")))
    program = single((array("a", N, 30), array("b", N, 30)), result("y", N, N), "ij", *guarded)
    random = np.random.default_rng(3)
    a, b = random.standard_normal((5, 30)), random.standard_normal((5, 30))
    check(program, "numpy", [a, b])
    found, taken = call(CompiledFunction(program, "numpy"), (a, b))
    assert taken == 0
    assert (found[np.triu_indices(5, 1)] == 0).all()  # the logarithms of negative sums do not show
    # What would be read outside is not: the nearest entry is, and counts nowhere.
    shifted = (accumulator("s"), If((Constraint("ge", I - J),), (add("s", load("c", I - J)),)), store(Name("s")))
    program = single((array("c", N),), result("y", N, N), "ij", *shifted)
    check(program, "numpy", [random.standard_normal(5)])
    assert "np.where(mask, c[np.maximum(i - j, 0)], real(0))" in CompiledFunction(program, "numpy").source


def test_guards_with_zeros_around_functions_of_the_users():
    """They are asked for the values that count only."""
    seen = []

    def g(x):
        seen.append(np.size(x))
        return x

    i, j = td.indices("i j")
    x = td.TensorSymbol("x", (6, 6))
    body = sympy.Piecewise((sympy.Function("g")(x[i, j]), i <= j), (0, True))
    function = td.lambdify((x,), td.TensorComprehension(body, (i, 6), (j, 6)), "numpy", functions={"g": g})
    values = np.arange(36.0).reshape(6, 6)
    np.testing.assert_array_equal(function(values), np.triu(values))
    assert sum(seen) == 21


@pytest.mark.parametrize("outer", [lambda value: value, sympy.sin], ids=["plain", "function"])
def test_few_entries_of_each_value_are_summed_where_the_value_is_summed_too(outer):
    i, k, n = td.indices("i k n")
    x = td.TensorSymbol("x", n)
    inner = td.IndexedSum(x[sympy.Min(k, n - 1)], (k, abs(i - 1), sympy.Min(i + 2, 2 * i + 1)))
    function = td.lambdify((x,), td.IndexedSum(outer(inner), (i, 0, n - 1)), "numpy")
    function_of = np.sin if outer is sympy.sin else float
    for length in (1, 2, 3, 4, 5, 9):
        values = np.arange(1.0, length + 1)
        parts = [
            sum(values[min(at, length - 1)] for at in range(abs(row - 1), min(row + 2, 2 * row + 1) + 1))
            for row in range(length)
        ]
        assert function(values) == pytest.approx(sum(map(function_of, parts)))
    assert call(function, (np.ones(50),))[1] <= 5


@pytest.mark.parametrize("data", [0, 2])
def test_a_choice_inside_of_such_a_sum_counts_once(data):
    # What x[place[0]] is, is read where the choice takes it, and is the same for all values.
    i, k, n = td.indices("i k n")
    z, w, x = td.TensorSymbol("z", n + 4), td.TensorSymbol("w", n), td.TensorSymbol("x", 3)
    place = td.TensorSymbol("place", 1, dtype=int)
    chosen = sympy.Piecewise((x[place[0]], x[0] > 0), (0, True))
    inner = td.IndexedSum(sympy.exp(z[k] * chosen), (k, i, i + 2))
    function = td.lambdify((z, w, x, place), td.IndexedSum(w[i] * inner, (i, 0, n - 1)), "numpy")
    assert "_offset in range(3)" in function.source
    rows, weights, values = np.linspace(0, 1, 14), np.linspace(1, 2, 10), np.array([0.5, 0.0, -1.0])
    terms = [weights[i] * np.exp(rows[i : i + 3] * values[data]).sum() for i in range(10)]
    assert function(rows, weights, values, np.array([data])) == pytest.approx(sum(terms), rel=1e-12)


def test_bounds_that_name_indices_which_cancel_are_numbers():
    """Behind an equation between lanes ``4*i - 4*j`` is the same for all of them, and tested once."""
    i, j, p, n = td.indices("i j p n")
    z, x = td.TensorSymbol("z", ()), td.TensorSymbol("x", 2)
    total = td.IndexedSum(6 * i + 5 * n + 6 * p, (n, -p - 2, 4 * i))
    chosen = sympy.Piecewise((z, sympy.Eq(j + p, 2)), (x[1], True)) - i
    entry = chosen**2 * sympy.Piecewise((0, sympy.Eq(sympy.Mod(j + p - i, 2), 0)), (total, True))
    assert_kernel_exact(td.TensorComprehension(entry, (i, 3), (j, 3), (p, 3)), [z, x])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_window_that_is_longer_than_the_vector_is_read_nowhere(backend):
    i, k, n, m = td.indices("i k n m")
    x, w = td.TensorSymbol("x", n), td.TensorSymbol("w", m)
    energy = td.IndexedSum(td.IndexedSum(x[i + k] * w[k], (k, 0, m - 1)) ** 2, (i, 0, n - m))
    kernel = td.lambdify([x, w], (energy, td.gradient(energy, x)), backend)
    for length, width, by_x in ((2, 5, [0, 0]), (2, 2, [4, 4]), (3, 2, [4, 8, 4])):
        value, gradient = kernel(np.ones(length), np.ones(width))
        assert gradient.tolist() == by_x and value == (length - width + 1) * width**2 * (width <= length)


def test_reads_behind_a_mask_of_an_array_that_may_be_empty():
    """The sums over the entries behind the i-th one: for one value there is no array of them to read from."""
    i, j, n = td.indices("i j n")
    v, x = td.TensorSymbol("v", n), td.TensorSymbol("x", (n, n))
    tail = td.IndexedSum(j * v[j] + x[i, j], (j, i + 1, n - 1))
    slope = td.gradient(td.IndexedSum(sympy.log(1 + tail**2), (i, 0, n - 1)), x)
    kernel, plain = (td.lambdify((v, x), slope, "numpy", temporaries=wanted) for wanted in (True, False))
    assert "nearest(" in kernel.source
    for count in (1, 2, 6):
        values = np.arange(1.0, count + 1), np.arange(count**2).reshape(count, count) % 5.0
        np.testing.assert_allclose(kernel(*values), plain(*values), rtol=1e-14)
