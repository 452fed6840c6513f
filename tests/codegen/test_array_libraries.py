"""Programs of array libraries: CuPy's run with NumPy in place of CuPy, those of JAX and PyTorch where installed."""

from __future__ import annotations

import ast
import pickle
import re
import sys
import types

import cases
import numpy as np
import pytest
import random_arrays
import sympy
from bridge_cases import CASES
from exact_checks import call_arguments, pullback_problem
from jax_versions import enable_x64
from test_scan import SCANS, point

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.dialects import PURE
from sympy_tensordiff.codegen.run.array_functions import ArrayFunction, print_array_module
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, BackendError, UnsupportedError

special = pytest.importorskip("scipy.special", reason="CuPy's special functions are SciPy's here")
i, j, k, p, n, m = td.indices("i j k p n m")
x, y, A = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("A", (n, m))


@pytest.fixture
def cupy(monkeypatch):
    """NumPy under the name of CuPy, whose functions have the same names."""
    scipy, cupyx = types.ModuleType("cupyx.scipy"), types.ModuleType("cupyx")
    scipy.special, cupyx.scipy = special, scipy
    for name, module in (("cupy", np), ("cupyx", cupyx), ("cupyx.scipy", scipy), ("cupyx.scipy.special", special)):
        monkeypatch.setitem(sys.modules, name, module)
    return np


@pytest.fixture
def jax():
    found = pytest.importorskip("jax", reason="needs pip install '.[jax]'")
    with enable_x64(True):
        yield found


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs pip install torch")


def leaves(results):
    return [leaf for result in results for leaf in leaves(result)] if isinstance(results, tuple) else [results]


def assert_close(got, wanted, tolerance=1e-12):
    for one, other in zip(leaves(got), leaves(wanted), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        scale = np.max(np.abs(other), initial=1, where=np.isfinite(other))
        np.testing.assert_allclose(one / scale, other / scale, rtol=0, atol=tolerance)


def value_and_pullbacks(name):
    """NumPy's function for the value and all pullbacks of a case, and the arrays of a call."""
    case = cases.build(name)
    options = dict(case.sizes), 3, dict(case.values), case.low, case.high
    cotangent, values = pullback_problem(case.function, case.variables, *options)
    exprs = case.function, td.vjp(case.function, tuple(case.variables), cotangent)
    args, arrays = call_arguments((case.function, cotangent, *case.variables), values)
    return td.lambdify(tuple(args), exprs, "numpy"), arrays


def in_backend(function, backend):
    """The same program for another library."""
    return ArrayFunction(function.program, backend, function.functions, function._build)


TABLE = """
    V20 range_product_of_a_diagonal V29 clamp_mirror_image map_butterfly map_circle L11_pad map_adaptive_to_a_size
    T10 V33 symbolic_convolution range_product_of_zeros
"""


@pytest.mark.parametrize("name", TABLE.split())
def test_value_and_pullbacks_equal_those_of_numpy(name, cupy):
    function, arrays = value_and_pullbacks(name)
    assert_close(in_backend(function, "cupy")(*arrays), function(*arrays))


@pytest.mark.parametrize("backend", PURE)
@pytest.mark.parametrize("name", ["V20", "map_circle", "L11_pad"])
def test_texts_change_no_array(name, backend):
    tree = ast.parse(print_array_module(value_and_pullbacks(name)[0].program, backend))
    helpers = {"spread", "added"} if backend == "cupy" else set()  # these fill an array of their own
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name not in helpers):
        stores = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
        assert not any(isinstance(target, ast.Subscript) for node in stores for target in node.targets)
        assert not any(isinstance(node, ast.AugAssign) for node in ast.walk(function))


RECURRENCES = [name for name in SCANS if name != "time"]


def recurrences(names):
    """NumPy's function of scans and of a gradient, and the arrays of a call."""
    exprs = tuple(SCANS[name]() for name in names)
    values = point(3)
    tensors = [tensor for tensor in values if any(tensor in expr.free_symbols for expr in exprs)]
    exprs = (*exprs, td.gradient(td.sum(exprs[0] ** 2), tensors[0]))
    return td.lambdify(tensors, exprs, "numpy"), [values[tensor].astype(float) for tensor in tensors]


def test_recurrences_equal_those_of_numpy(cupy):
    function, arrays = recurrences(RECURRENCES)
    assert_close(in_backend(function, "cupy")(*arrays), function(*arrays))


def test_recurrences_in_jax_are_its_scans(jax):
    function, arrays = recurrences(["rnn", "pair"])
    own = in_backend(function, "jax")
    assert_close(jax.jit(own)(*arrays), function(*arrays))
    assert "over_time" not in own.source and own.source.count("jax.lax.scan") == 3


def test_recurrences_in_torch(torch):
    function, arrays = recurrences(RECURRENCES)
    assert_close(in_backend(function, "torch")(*arrays), function(*arrays))


def test_time_that_selects_is_not_traced():
    c, t0 = td.TensorSymbol("c", (m, n)), td.TensorSymbol("t0", n)
    step = lambda h, x, t: x + td.concatenate([td.where(sympy.Eq(t, 0), 0, 9) * td.ones((1,)), h[:-1]])  # noqa: E731
    assert "over_time(" in td.generate_code([t0, c], td.scan(step, t0, c), "jax")


MATRICES = {
    "solve": td.dot(x, td.solve(td.TensorSymbol("M", (n, n)), x)),
    "logdet": td.logdet(td.TensorSymbol("S", (n, n), symmetric=True, positive=True)),
    "cofactors": td.det(td.TensorSymbol("M", (n, n))),
}


@pytest.mark.parametrize("name", MATRICES)
def test_functions_of_matrices(name, cupy):
    check_matrices(name, "cupy", np.asarray)


def check_matrices(name, backend, convert):
    loss = MATRICES[name]
    args = sorted(loss.atoms(td.TensorSymbol), key=str)
    matrix = next(one for one in args if len(one.shape) == 2)
    drawn = np.random.default_rng(0).normal(size=(4, 4))
    arrays = [drawn @ drawn.T + np.eye(4) if one == matrix else drawn[0] for one in args]
    first = td.gradient(loss, matrix)
    exprs = loss, first, td.gradient(td.sum(first * first), matrix)
    wanted = td.lambdify(args, exprs, "numpy")(*arrays)
    assert_close(td.lambdify(args, exprs, backend)(*map(convert, arrays)), wanted, 1e-11)


def test_products_with_a_matrix_and_its_transpose_are_two_functions(cupy):
    B = td.TensorSymbol("B", (n, n))
    named = td.TensorComprehension(x[i] * y[j] + B[j, i], (i, n), (j, n))  # so that i and j are names of the module
    exprs = named, B @ x, B.T @ x
    arrays = np.arange(9.0).reshape(3, 3) ** 2, np.arange(3.0), np.ones(3)
    assert_close(*[td.lambdify((B, x, y), exprs, one)(*arrays) for one in ("cupy", "numpy")])


def chained():
    """A running sum, each term of which gains a factor from entry to entry, forwards and backwards."""
    a, b = td.TensorSymbol("a", (m, n)), td.TensorSymbol("b", (m, n))
    forwards = td.IndexedSum(b[i, j] * td.IndexedProduct(a[i, k], (k, j + 1, p)), (j, 0, p))
    backwards = td.IndexedSum(b[i, j] * td.IndexedProduct(a[i, k], (k, p + 1, j - 1)), (j, p + 1, n - 1))
    powers = td.IndexedSum(b[i, j] * a[i, 0] ** (p - j), (j, 0, p))
    return (a, b), tuple(td.TensorComprehension(one, (i, m), (p, n)) for one in (forwards, backwards, powers))


@pytest.mark.parametrize("backend", ["numpy", "cupy"])
def test_chained_sums_are_linear_recurrences(backend, cupy):
    args, exprs = chained()
    f = td.lambdify(args, exprs, backend)
    assert f.source.count("= recurrence(") == 3
    for rows, columns in ((1, 1), (2, 1), (3, 7), (2, 8)):
        drawn = np.random.default_rng(0)
        arrays = drawn.uniform(0.5, 1.5, (rows, columns)), drawn.normal(size=(rows, columns))
        a, b = arrays
        loops = np.zeros((3, rows, columns))
        for q in range(columns):
            loops[0, :, q] = sum(b[:, o] * a[:, o + 1 : q + 1].prod(1) for o in range(q + 1))
            loops[1, :, q] = sum(b[:, o] * a[:, q + 1 : o].prod(1) for o in range(q + 1, columns))
            loops[2, :, q] = sum(b[:, o] * a[:, 0] ** (q - o) for o in range(q + 1))
        assert_close(f(*arrays), tuple(loops))


def test_factors_of_recurrences_are_read_where_there_is_an_entry_before():
    """One factor less than terms, in products that end at the term and that end before it."""
    (o, q), b = td.indices("o q"), td.TensorSymbol("b", n)
    a, long = td.TensorSymbol("a", n - 1), td.TensorSymbol("long", n)
    chains = {
        a: td.IndexedSum(b[o] * td.IndexedProduct(a[k], (k, q, o - 1)), (o, q, n - 1)),
        long: td.IndexedSum(b[o] * td.IndexedProduct(long[k], (k, q + 1, o)), (o, q, n - 1)),
    }
    for first, (factors, chain) in enumerate(chains.items()):
        f = td.lambdify((factors, b), td.TensorComprehension(chain, (q, n)), "numpy")
        assert "= recurrence(" in f.source
        for size in (1, 2, 7):
            drawn = np.random.default_rng(size)
            own, terms = drawn.normal(size=size - 1 + first), drawn.normal(size=size)
            each = [own[p + first : r + first] for p in range(size) for r in range(p, size)]
            products = iter([one.prod() for one in each])
            loops = [sum(terms[r] * next(products) for r in range(p, size)) for p in range(size)]
            assert_close(f(own, terms), np.array(loops))


def test_chained_sums_in_jax(jax):
    args, exprs = chained()
    f, arrays = (
        td.lambdify(args, exprs, "jax"),
        (np.linspace(0.5, 1.5, 18).reshape(2, 9), np.arange(18.0).reshape(2, 9)),
    )
    assert "associative_scan" in f.source
    assert_close(jax.jit(f)(*arrays), td.lambdify(args, exprs, "numpy")(*arrays))


def test_periodic_reads_are_rolls(cupy):
    periodic = td.TensorComprehension(A[(i + 1) % n, j] * A[i, (j - k) % m], (i, n), (j, m))
    f, ours = (td.lambdify((A, k), periodic, backend) for backend in ("numpy", "cupy"))
    assert "np.roll(A, -1, -2)" in f.source and "np.roll(A, k, -1)" in f.source
    for shape in ((3, 4), (1, 1), (2, 5)):
        array = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        wanted = np.roll(array, -1, 0) * np.roll(array, 7, 1)
        assert_close((f(array, 7), ours(array, 7)), (wanted, wanted))


def test_masked_products_are_einsums(cupy):
    B = td.TensorSymbol("B", (n, n))
    lower = td.TensorComprehension(td.IndexedSum(td.exp(B[i, k]) * A[k, j], (k, 0, i)), (i, n), (j, m))
    text = td.generate_code((A, B), lower, "cupy")
    assert re.search(r'einsum\("\w+,\w+->\w+", cp\.where\(', text)
    arrays = np.arange(15.0).reshape(5, 3), np.arange(25.0).reshape(5, 5) / 9
    wanted = np.tril(np.exp(arrays[1])) @ arrays[0]
    assert_close(td.lambdify((A, B), lower, "cupy")(*arrays), wanted)


def test_sums_along_rows_of_products_in_torch(torch):
    """PyTorch's `einsum` would be a product of one row and one column for each entry."""
    B = td.TensorSymbol("B", (m, n))
    rows = td.TensorComprehension(td.IndexedSum(A[i, k] * B[k, i], (k, 0, m - 1)), (i, n))
    text = td.generate_code((A, B), rows, "torch")
    assert ".sum(axis=(-1,))" in text and "einsum" not in text
    assert "einsum" in td.generate_code((A, B), rows, "cupy")
    for shape in ((3, 4), (1, 1), (0, 2), (2, 0)):
        arrays = np.cos(np.arange(2.0 * np.prod(shape))).reshape(2, *shape)
        computed = td.lambdify((A, B), rows, "torch")(torch.as_tensor(arrays[0]), torch.as_tensor(arrays[1].T.copy()))
        assert_close(computed, np.einsum("ik,ik->i", *arrays))


def test_torch_adds_to_whole_arrays(torch, monkeypatch):
    """PyTorch's compiler adds to an expanded tensor as if its entries were one."""
    place = td.TensorSymbol("place", m, dtype=int, below=n)
    function = td.lambdify((x, place), td.gradient(td.IndexedSum(x[place[k]] ** 3, (k, 0, m - 1)), x), "torch")
    strides, index_put = [], torch.Tensor.index_put

    def watched(tensor, *args, **options):
        strides.append(tensor.stride())
        return index_put(tensor, *args, **options)

    monkeypatch.setattr(torch.Tensor, "index_put", watched)
    result = function(torch.arange(3.0, dtype=torch.float64), torch.as_tensor([1, 2, 2]))
    assert_close(result, np.array([0.0, 3.0, 24.0]))
    assert strides == [(1,)]


def test_scatters_to_the_same_places_are_one(cupy):
    ends = td.TensorSymbol("ends", (m, 2), dtype=int, below=n)
    stretch = td.IndexedSum((x[ends[i, 0]] - x[ends[i, 1]]) ** 2 * y[ends[i, 0]] * x[ends[i, 1]], (i, 0, m - 1))
    exprs = stretch, td.gradient(stretch, x)
    arrays = np.arange(1.0, 5), np.arange(4.0) ** 2, np.array([[0, 1], [2, 1], [3, 3]])
    f = td.lambdify((x, y, ends), exprs, "cupy")
    assert f.source.count("added(") == 3  # its definition, and one call for each column
    assert_close(f(*arrays), td.lambdify((x, y, ends), exprs, "numpy")(*arrays))


def test_jax_pads_what_it_adds_to_parts():
    energy = td.IndexedSum((x[i + 1] - x[i] ** 2) ** 2, (i, 0, n - 2))
    text = td.generate_code(x, td.gradient(energy, x), "jax")
    assert text.count("spread(") == 3 and ".at[" not in text
    assert text.partition("fill_result")[2].count("if n >= 2") == 1


SLICES = {
    "columns": (A, td.IndexedSum(A[i, 0] * sympy.exp(A[i, 2]), (i, 0, n - 1)) + td.sum(A) ** 2, 2),
    "rows": (A, td.IndexedSum(A[0, j] * sympy.sin(A[n - 1, j]), (j, 0, m - 1)), 2),
    "entries": (A, sympy.exp(A[1, 1] * A[0, 2]), 2),
    "an antidiagonal": (A, td.IndexedSum(A[i, 2 - i] ** 3, (i, 0, 2)) * A[0, 0], 1),
}
"""Functions of a tensor that read slices of it, and how many of these XLA can pad."""


@pytest.mark.parametrize("name", SLICES)
def test_additions_to_slices_are_sums_with_padded_arrays(name, cupy, jax, torch):
    tensor, value, count = SLICES[name]
    exprs = td.gradient(value, tensor), td.hvp(value, tensor, td.TensorSymbol("along", tensor.shape))
    args = tensor, td.TensorSymbol("along", tensor.shape)
    arrays = [np.random.default_rng(seed).normal(size=(4, 3)) for seed in range(2)]
    text = td.generate_code(tensor, exprs[0], "jax")
    assert len(re.findall(r"= \w+ \+ spread\(", text)) == count
    for library, as_array in (("cupy", np.asarray), ("jax", jax.numpy.asarray), ("torch", torch.as_tensor)):
        ours = td.lambdify(args, exprs, library)
        assert_close(ours(*map(as_array, arrays)), td.lambdify(args, exprs, "numpy")(*arrays))


F = td.TensorSymbol("F", (n, n, n))
OFF = sympy.Ne(i, j) & sympy.Ne(j, k)
FORCES = {True: sympy.exp(F[i, j, k]) * (x[j] - x[i]), False: sympy.exp(F[i, j, k]) / (x[j] - x[i])}
"""Values in a masked sum: whether the factors next to the mask are finite where it is false."""


@pytest.mark.parametrize("is_finite", FORCES)
def test_masked_sums_of_products_are_split_unless_a_factor_is_singular(is_finite, jax):
    """A sum over two indices has no array with the axis of the components too."""
    positions = td.TensorSymbol("R", (n, 3))
    value = FORCES[is_finite].subs({x[j]: positions[j, p], x[i]: positions[i, p]})
    masked = sympy.Piecewise((value, OFF), (0, True))
    forces = td.TensorComprehension(td.IndexedSum(masked, (k, 0, n - 1), (j, 0, n - 1)), (i, n), (p, 3))
    ours = td.lambdify((positions, F), forces, "jax")
    assert ("einsum(" in ours.source) == is_finite
    for size in (1, 2, 5):
        arrays = [np.random.default_rng(size).normal(size=shape) for shape in ((size, 3), (size,) * 3)]
        assert_close(ours(*arrays), td.lambdify((positions, F), forces, "numpy")(*arrays))
        assert np.all(np.isfinite(jax.grad(lambda *a: jax.numpy.sum(ours(*a)))(*arrays)))


def test_types_and_sizes(cupy):
    energy = td.IndexedSum((x[i + 1] - x[i] ** 2) ** 2, (i, 0, n - 2)) + td.sum(A @ td.ones((m,)))
    exprs = energy, td.gradient(energy, x), td.gradient(energy, A)
    ours, numpy = (td.lambdify((x, A), exprs, backend) for backend in ("cupy", "numpy"))
    for rows, columns in ((1, 1), (2, 1), (5, 3), (33, 2), (3, 0), (1, 0)):
        for dtype in (np.float64, np.float32):
            arrays = np.linspace(0.5, 1, rows, dtype=dtype), np.ones((rows, columns), dtype)
            assert_close(ours(*arrays), numpy(*arrays), 1e-12 if dtype == np.float64 else 1e-5)


def test_data_select_entries(cupy):
    chosen = td.TensorSymbol("chosen", m, dtype=int, below=n)
    total = td.IndexedSum(x[chosen[i]] ** 2 * y[chosen[i]], (i, 0, m - 1))
    exprs = total, td.gradient(total, (x, y))
    arrays = np.arange(1.0, 5), np.arange(4.0), np.array([2, 0, 2, 3, 3], np.uint8)
    assert_close(*[td.lambdify((x, y, chosen), exprs, one)(*arrays) for one in ("cupy", "numpy")])


def test_ranges_by_data_have_a_declared_bound(cupy):
    start = td.TensorSymbol("start", n, dtype=int, below=m)
    rows = td.TensorComprehension(td.IndexedSum(A[i, k], (k, start[i], m - 1)), (i, n))
    arrays = np.arange(12.0).reshape(3, 4), np.array([0, 2, 3])
    assert_close(*[td.lambdify((A, start), rows, one)(*arrays) for one in ("cupy", "numpy")])
    free = td.TensorSymbol("free", n, dtype=int)
    rows = td.TensorComprehension(td.IndexedSum(A[i, k], (k, free[i], m - 1)), (i, n))
    with pytest.raises(UnsupportedError, match=r"depends on free\[i\]: .* declare free with below="):
        td.lambdify((A, free), rows, "cupy")


def test_functions_of_the_user_are_called_with_arrays(cupy):
    g = sympy.Function("g")
    loss = td.IndexedSum(g(x[i]), (i, 0, n - 1))
    f = td.lambdify(x, (loss, td.gradient(loss, x)), "cupy", functions={"g": np.cosh, "g'": np.sinh})
    value, slope = f(np.arange(3.0))
    assert_close((value, slope), (np.cosh(np.arange(3)).sum(), np.sinh(np.arange(3.0))))


def test_calls(cupy):
    f = td.lambdify((A, x), (A.T @ x, (n * x, td.sum(x))), "cupy")
    arrays = np.arange(6.0).reshape(3, 2), np.ones(3)
    wanted = f(*arrays)
    assert_close(wanted, (np.array([6.0, 9.0]), (np.full(3, 3.0), np.float64(3))))
    assert_close(f(x=arrays[1], A=arrays[0]), wanted)
    assert_close(pickle.loads(pickle.dumps(f))(*arrays), wanted)
    assert repr(f) == "<ArrayFunction(A, x) for cupy>"
    assert "fill" in f.plan
    module = {}
    exec(td.generate_code((A, x), A.T @ x, "cupy"), module)
    assert_close(module["compute"](*arrays), wanted[0])


def test_wrong_calls(cupy):
    f = td.lambdify((A, x), A.T @ x, "cupy")
    with pytest.raises(ArgumentError, match=r"argument A has the shape \(3,\), an array of 2 axes is needed"):
        f(np.ones(3), np.ones(3))
    with pytest.raises(ArgumentError, match="argument x has length 4 on axis 0, expected 3"):
        f(np.ones((3, 2)), np.ones(4))
    with pytest.raises(ArgumentTypeError, match=r"argument n must be a known integer, not 1\.5: pass a Python int"):
        td.lambdify((x, n), n * x[0], "cupy")(np.ones(3), 1.5)
    with pytest.raises(ArgumentError, match="parallel=True is for 'llvm' and 'numba', not for 'jax'"):
        td.lambdify(x, x, "jax", parallel=True)


def test_the_library_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BackendError, match=r"CuPy is not installed \(.*\): pip install cupy"):
        td.lambdify(x, x, "cupy")


# ---------------------------------------------------------------------------- JAX and PyTorch


@pytest.mark.parametrize("name", MATRICES)
def test_functions_of_matrices_in_jax(name, jax):
    check_matrices(name, "jax", jax.numpy.asarray)


@pytest.mark.parametrize("name", MATRICES)
def test_functions_of_matrices_in_torch(name, torch):
    check_matrices(name, "torch", torch.as_tensor)


z, q = td.TensorSymbol("z", n), td.TensorSymbol("q", (), dtype=int, below=n)
row, far = td.TensorSymbol("row", m, dtype=int, below=n), td.TensorSymbol("far", (), dtype=int)


def inside(value, condition):
    return sympy.Piecewise((value, condition), (0, True))


MOVED = {
    "an entry": x[q] ** 2 * y[0],
    "a row": td.sum(td.sin(td.TensorComprehension(A[q, j], (j, m)))),
    "a row of data": td.sum(td.exp(td.TensorComprehension(A[row[0], j], (j, m)))) + inside(x[row[1]], row[1] + 1 < n),
    "a start": td.IndexedSum(x[i] ** 2 * z[i], (i, q, n - 1)),
    "a stop": td.IndexedSum(td.IndexedSum(x[j], (j, 0, i)) ** 2, (i, 0, q)),
    "a shift": td.IndexedSum(inside(x[i + q] ** 2 * z[i], i + q < n), (i, 0, n - 1)),
    "a shift without a bound": td.IndexedSum(inside(x[i + far] * z[i], (i + far < n) & (i + far >= 0)), (i, 0, n - 1)),
    "a reflection": td.IndexedSum(x[abs(i - q)] * z[i] ** 2, (i, 0, n - 1)),
    "a clamp": td.IndexedSum(x[sympy.Min(i + q, n - 1)] ** 2 * z[i], (i, 0, n - 1)),
    "a roll": td.IndexedSum(x[(i + q) % n] * z[i] ** 2, (i, 0, n - 1)),
}


@pytest.mark.parametrize("name", MOVED)
def test_places_of_data_are_traced(name, jax):
    """No slice begins, and no Python loop ends, at an entry of data."""
    loss = MOVED[name]
    args = sorted(loss.atoms(td.TensorSymbol), key=str)
    args += [] if any(n in one.shape for one in args) else [x]
    exprs = loss, td.gradient(loss, tuple(one for one in args if one.dtype is not int))
    ours, numpy = jax.jit(td.lambdify(args, exprs, "jax")), td.lambdify(args, exprs, "numpy")
    drawn = np.random.default_rng(0)
    for rows, columns in ((5, 3), (1, 2), (3, 4)):
        sizes = {n: rows, m: columns}
        shapes = [[int(sympy.sympify(extent).subs(sizes)) for extent in one.shape] for one in args]
        arrays = [
            drawn.integers(0, rows, shape) if one.dtype is int else drawn.uniform(0.5, 1.5, shape)
            for one, shape in zip(args, shapes, strict=True)
        ]
        assert_close(ours(*arrays), numpy(*arrays))


R, charge = td.TensorSymbol("R", (n, 3)), td.TensorSymbol("charge", n)
squared = td.IndexedSum((R[i, k] - R[j, k]) ** 2, (k, 0, 2))
PAIRED = {
    "named values": td.IndexedSum(
        inside(charge[i] * charge[j] / sympy.sqrt(squared), sympy.Ne(i, j)), (j, 0, n - 1), (i, 0, n - 1)
    ),
    "ranges": td.IndexedSum(squared**-6 - squared**-3, (j, 0, i - 1), (i, 0, n - 1)),
    "three points": td.IndexedSum(
        inside(
            td.IndexedSum((R[j, k] - R[i, k]) * (R[p, k] - R[i, k]), (k, 0, 2))
            / sympy.sqrt(squared * squared.subs(j, p)),
            sympy.Ne(i, j) & sympy.Ne(i, p) & sympy.Ne(j, p),
        ),
        (p, 0, n - 1),
        (j, 0, n - 1),
        (i, 0, n - 1),
    ),
    "values": td.IndexedSum(inside(charge[i] * sympy.log(charge[i]), charge[i] > 0), (i, 0, n - 1)),
    "tensors": td.sum(td.where(td.greater(charge, 0), td.sqrt(charge) ** 3, 0)),
}


def differentiated(name):
    """A function that is singular where it is not used, with its gradient, and arrays at which it is so."""
    loss = PAIRED[name]
    args = [one for one in (R, charge) if loss.has(one)]
    drawn = np.random.default_rng(0)
    arrays = [drawn.normal(size=(4, 3) if one is R else 4) for one in args]
    if args == [charge]:
        arrays[0][1:3] = 0, -1
    return args, (loss, td.gradient(loss, args[0])), arrays, drawn.normal(size=arrays[0].shape)


@pytest.mark.parametrize("name", PAIRED)
def test_derivatives_of_what_is_not_used_are_finite(name, jax):
    """Derivatives of JAX, also of our gradient: third ones are those of our second one."""
    args, exprs, arrays, along = differentiated(name)
    ours, second = td.lambdify(args, exprs, "jax"), td.hvp(exprs[0], args[0], td.TensorSymbol("along", args[0].shape))
    slope = lambda u: ours(u, *arrays[1:])[1]  # noqa: E731
    value = jax.grad(lambda u: ours(u, *arrays[1:])[0])
    wanted = td.lambdify([*args, td.TensorSymbol("along", args[0].shape)], second, "numpy")
    third = jax.jvp(lambda u: jax.jvp(slope, (u,), (along,))[1], (arrays[0],), (along,))[1]
    assert_close(jax.jvp(slope, (arrays[0],), (along,))[1], wanted(*arrays, along), 1e-10)
    assert_close(jax.jvp(value, (arrays[0],), (along,))[1], wanted(*arrays, along), 1e-10)
    step = 1e-4
    slopes = [np.asarray(wanted(arrays[0] + sign * step * along, *arrays[1:], along)) for sign in (1, -1)]
    if name not in ("values", "tensors"):  # at whose kinks differences are none
        assert_close(third, (slopes[0] - slopes[1]) / (2 * step), 1e-4)
    assert np.all(np.isfinite(third))


@pytest.mark.parametrize("name", PAIRED)
def test_torch_differentiates_what_is_used(name, torch):
    args, exprs, arrays, _ = differentiated(name)
    tensors = [torch.as_tensor(one).requires_grad_() for one in arrays]
    value, slope = td.lambdify(args, exprs, "torch")(*tensors)
    (own,) = torch.autograd.grad(value, tensors[:1], create_graph=True)
    assert_close(own.detach(), slope.detach(), 1e-10)
    (second,) = torch.autograd.grad(own.sum(), tensors[:1], retain_graph=True)
    (other,) = torch.autograd.grad(slope.sum(), tensors[:1])
    assert_close(second, other, 1e-10)
    assert np.all(np.isfinite(np.asarray(second)))


RANDOM = {
    "a choice by sizes": ("masked", 710025, "torch"),
    "a row that data select": ("selections", 700015, "jax"),
    "values added to one row in a loop over rows": ("maps", 610004, "torch"),
    "entries of data that data select, at one place": ("maps", 610040, "jax"),
    "data in conditions of use": ("selections", 610195, "torch"),
    "entries of data that sizes select": ("maps", 610247, "torch"),
    "slices out of bounds": ("functions", 612072, "torch"),
    # XLA aborted where it reversed an array to all entries of which a scatter added; then compiled equal values twice.
    "arrays compared with their maximum": ("extrema", 740012, "jax"),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_functions(name, request):
    """Check a function that its library refused, or computed wrongly."""
    kind, seed, library = RANDOM[name]
    request.getfixturevalue(library)
    assert random_arrays.check(kind, seed, [library])


@pytest.mark.parametrize("softening, guards", [(0, 1), (1, 0)])
def test_only_singular_values_are_guarded(softening, guards):
    """Sums of squares and a positive number are positive, also where they are not used, and in arrays."""
    X = td.TensorSymbol("X", (n, 3))
    square = td.IndexedSum((X[i, k] - X[j, k]) ** 2, (k, 0, 2)) + softening
    energy = td.IndexedSum(1 / sympy.sqrt(square), (j, 0, i - 1), (i, 0, n - 1))
    text = td.generate_code(X, (energy, td.gradient(energy, X)), "jax")
    assert text.count(", 0.5)") == guards


def test_distances_that_are_stored_need_no_guards(jax, torch):
    """Entries that no use needs are stored as 0.5: XLA computes functions of guarded values again for each guard."""
    step = R[i, k] - R[j, k]
    square = td.IndexedSum((step - 3 * sympy.floor(step / 3 + sympy.S.Half)) ** 2, (k, 0, 2))
    pair = charge[i] * charge[j] * sympy.erfc(sympy.sqrt(square)) / sympy.sqrt(square)
    energy = td.IndexedSum(pair, (j, 0, i - 1), (i, 0, n - 1))
    exprs = energy, *td.gradient(energy, (R, charge))
    drawn = np.random.default_rng(0)
    for size in (1, 2, 5):
        arrays = [drawn.normal(size=(size, 3)), drawn.normal(size=size)]
        wanted = td.lambdify((R, charge), exprs, "numpy")(*arrays)
        for library, as_array in (("jax", jax.numpy.asarray), ("torch", torch.as_tensor)):
            ours = td.lambdify((R, charge), exprs, library)
            assert_close(ours(*map(as_array, arrays)), wanted)
        assert_close(jax.grad(lambda *a: td.lambdify((R, charge), exprs, "jax")(*a)[0])(*arrays), wanted[1], 1e-10)
    text = td.generate_code((R, charge), exprs, "jax")
    stores = re.findall(r"return jnp.where\(.*, 0.5\)", text)
    assert len(stores) == text.count(", 0.5)") == 2


@pytest.mark.parametrize("factored", [False, True])
def test_libraries_differentiate_logarithms_of_determinants(factored, jax, torch):
    M = td.TensorSymbol("M", (n, n))
    f = td.logdet(M @ M.T + td.eye(n)) + td.trace(td.inv(M @ M.T + td.eye(n))) * int(factored)
    array = np.random.default_rng(0).normal(size=(3, 3))
    wanted = td.lambdify(M, td.gradient(f, M), "numpy")(array)
    assert_close(jax.grad(td.lambdify(M, f, "jax"))(array), wanted)
    assert_close(torch.func.grad(td.lambdify(M, f, "torch"))(torch.as_tensor(array)), wanted)


def test_compiled_by_torch(torch):
    case = CASES["waves"]
    arrays = [torch.as_tensor(array) for array in arrays_of(case)]
    for function in (td.lambdify(case.args, case.expr, "torch"), td.torch_function(case.args, case.expr)):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        assert_close(compiled(*arrays), function(*arrays))
    torch.compiler.reset()


def arrays_of(case):
    drawn = np.random.default_rng(0)
    return [drawn.uniform(0.5, 1.5, shape) for shape in case.shapes]


@pytest.mark.parametrize("name", CASES)
def test_transformations_of_jax(name, jax):
    case, arrays = CASES[name], arrays_of(CASES[name])
    ours = td.lambdify(case.args, case.expr, "jax")
    positions = tuple(range(len(arrays)))

    def results(f):
        loss = lambda *values: jax.numpy.sum(jax.numpy.sin(f(*values)))  # noqa: E731
        twice = jax.numpy.stack([arrays[0], 2 * arrays[0]])
        batch = jax.vmap(jax.grad(loss), (0, *[None] * (len(arrays) - 1)))(twice, *arrays[1:])
        return f(*arrays), jax.hessian(loss, positions)(*arrays), batch

    assert_close(jax.jit(lambda: results(ours))(), jax.jit(lambda: results(lambda *a: case.plain(jax.numpy, *a)))())


@pytest.mark.parametrize("name", CASES)
def test_transformations_of_torch(name, torch):
    case, arrays = CASES[name], [torch.as_tensor(array) for array in arrays_of(CASES[name])]
    ours = td.lambdify(case.args, case.expr, "torch")
    positions = tuple(range(len(arrays)))
    slopes = torch.func.jacrev(lambda *a: ours(*a).sin().sum(), positions)(*arrays)
    cotangent = td.TensorSymbol("cotangent", case.expr.shape) if getattr(case.expr, "shape", ()) else None
    args = (*case.args, *[cotangent] * (cotangent is not None))
    pulled = td.vjp(case.expr, case.args, 1 if cotangent is None else cotangent)
    given = ours(*arrays).cos()
    scale = given if cotangent is None else 1
    wanted = td.lambdify(args, pulled, "torch")(*arrays, *[given] * (cotangent is not None))
    assert_close(slopes, tuple(one * scale for one in wanted))
    many = torch.stack([arrays[0], 2 * arrays[0]])
    batch = torch.func.vmap(ours, (0, *[None] * (len(arrays) - 1)))(many, *arrays[1:])
    assert_close(batch[1], ours(2 * arrays[0], *arrays[1:]))


@pytest.mark.parametrize(("is_long", "dims"), [(True, 2), (False, 2), (True, 1)])
def test_long_terms_are_computed_before_they_are_added_up(is_long, dims, jax):
    i, j, n = td.indices("i j n")
    x, y = td.TensorSymbol("x", (n, n)), td.TensorSymbol("y", n)
    long = (x[i, j] ** 2 + 3 * x[i, j] * x[j, i]) / (2 + x[i, j] ** 2 + x[j, i] ** 2) - x[j, i] / (3 + x[i, j] ** 4)
    narrow = (y[i] ** 2 + 3 * y[i] + 1) / (2 + y[i] ** 2) - y[i] / (3 + y[i] ** 4)
    term = (long if dims == 2 else narrow * x[i, j]) if is_long else x[i, j] ** 2
    function = td.IndexedSum(term, (j, 0, n - 1), (i, 0, n - 1))
    assert ("computed_first((" in td.generate_code((x, y), function, "jax")) == (is_long and dims == 2)
    arrays = np.linspace(-1, 2, 25).reshape(5, 5), np.linspace(0, 1, 5)
    wanted = td.lambdify((x, y), function)(*arrays)
    computed = td.lambdify((x, y), function, "jax")
    np.testing.assert_allclose(jax.jit(computed)(*arrays), wanted, rtol=1e-12)
    step, turned = 1e-6, np.cos(np.arange(25.0)).reshape(5, 5)
    ends = [td.lambdify((x, y), function)(arrays[0] + sign * step * turned, arrays[1]) for sign in (1, -1)]
    slope = np.sum(np.asarray(jax.grad(computed)(*arrays)) * turned)
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-7)


N_, I_ = td.indices("n i")
X_, PLACES = td.TensorSymbol("x", N_), td.TensorSymbol("places", N_, dtype=int)


@pytest.mark.parametrize("backend", ["cupy", "jax", "torch"])
def test_other_numbers_are_refused(backend, request):
    """An imaginary part or a fraction of an index would be dropped."""
    request.getfixturevalue(backend)
    chosen = td.lambdify((X_, PLACES), td.TensorComprehension(X_[PLACES[I_]] ** 2, (I_, N_)), backend)
    assert np.asarray(chosen([1.0, 3.0], [1, 0])).tolist() == [9, 1]
    for wrong, message in (
        ((np.array([1j, 2.0]), [1, 0]), "x has the type (torch.)?complex128; real numbers are needed"),
        ((np.ones(2), np.array([1.7, 0.0])), "places has the type (torch.)?float64; integers are needed"),
        ((np.ones(2), np.array([True, False])), "places has the type (torch.)?bool; integers are needed"),
    ):
        with pytest.raises(TypeError, match=message):
            chosen(*wrong)


@pytest.mark.parametrize("backend", ["cupy", "jax", "torch"])
@pytest.mark.parametrize(
    "function",
    [sympy.loggamma, lambda u: sympy.polygamma(1, u), lambda u: sympy.erfinv(u / 9)],
    ids=["gamma", "psi", "inverse"],
)
def test_special_functions_of_the_libraries(function, backend, request):
    """Each has SciPy's functions under their names, and differentiates them."""
    request.getfixturevalue(backend)
    value = td.IndexedSum(function(X_[I_]), (I_, 0, N_ - 1))
    results, points = (value, td.gradient(value, X_)), np.array([0.3, 1.5, 4.0])
    assert_close(td.lambdify(X_, results, backend)(points), td.lambdify(X_, results, "numpy")(points), 1e-13)


def test_torch_differentiates_results_without_entries(torch):
    """A stencil on one entry and a sum over none are constants; their derivatives are zeros."""
    steps = td.IndexedSum((X_[I_ + 1] - X_[I_]) ** 2, (I_, 0, N_ - 2))
    for function in (td.lambdify(X_, (steps, td.sum(X_**2)), "torch"), td.torch_function(X_, (steps, td.sum(X_**2)))):
        for length, slopes in ((0, []), (1, [2.0]), (2, [2.0, 2.0])):
            x = torch.ones(length, dtype=torch.float64, requires_grad=True)
            sum(function(x)).backward()
            assert x.grad.tolist() == slopes


def test_positive_parts_have_the_derivative_0_at_0(jax, torch):
    value = td.sum(td.relu(X_) + td.maximum(0, X_ - 1))
    ours = td.lambdify(X_, value, "jax")
    assert jax.grad(ours)(np.array([0.0, 1.0, 3.0])).tolist() == [0, 1, 2]
    x = torch.tensor([0.0, 1.0, 3.0], requires_grad=True)
    td.lambdify(X_, value, "torch")(x).backward()
    assert x.grad.tolist() == [0, 1, 2]


U_ = td.TensorSymbol("U", (N_, 3))
FROM_EACH_OTHER = sympy.sqrt(td.IndexedSum((U_[I_, k] - U_[p, k]) ** 2, (k, 0, 2)))
DISTANCES = {
    "norm": (X_, td.norm(X_)),
    "of rows": (U_, td.IndexedSum(sympy.sqrt(td.IndexedSum(U_[I_, k] ** 2, (k, 0, 2))), (I_, 0, N_ - 1))),
    "of pairs": (U_, td.IndexedSum(FROM_EACH_OTHER, (p, 0, I_ - 1), (I_, 0, N_ - 1))),
    "of all": (U_, td.IndexedSum(FROM_EACH_OTHER * sympy.cos(U_[I_, 0]), (p, 0, N_ - 1), (I_, 0, N_ - 1))),
    "cubed": (X_, td.norm(X_) ** 3),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_derivatives_of_distances_are_0_at_0(name, jax, torch):
    """A library that differentiates our value, or our gradient, finds our derivatives, at 0 and elsewhere."""
    x, value = DISTANCES[name]
    along = td.TensorSymbol("along", x.shape)
    results = td.gradient(value, x), td.hvp(value, x, along)
    half = np.ones([2] + [3] * (len(x.shape) - 1))
    both = np.concatenate([0 * half, np.cos(np.arange(half.size)).reshape(half.shape)])
    for place in (0 * half, both):
        direction = np.ones(place.shape)
        slope, curved = td.lambdify((x, along), results, "numpy")(place, direction)
        assert place.any() or not (slope.any() or curved.any())
        own, gradient = (td.lambdify(x, one, "jax") for one in (value, results[0]))
        assert_close(jax.grad(own)(place), slope)
        for f in (jax.grad(own), gradient):
            assert_close(jax.jvp(f, (place,), (direction,))[1], curved)
        own, gradient = (td.lambdify(x, one, "torch") for one in (value, results[0]))
        tensor = torch.as_tensor(place).requires_grad_()
        (first,) = torch.autograd.grad(own(tensor), tensor, create_graph=True)
        assert_close(first.detach(), slope)
        for one in (
            first,
            *[gradient(tensor)] * (name != "of pairs"),
        ):  # whose reciprocals are stored before their tests
            assert_close(torch.autograd.grad(one.sum(), tensor)[0], curved)


def test_infinite_slopes_of_roots_stay(jax):
    """A root of other numbers than squares has an infinite slope at 0, and so has that of a negative multiple."""
    roots = td.IndexedSum(sympy.sqrt(X_[I_]), (I_, 0, N_ - 1))
    assert np.isinf(jax.grad(td.lambdify(X_, roots, "jax"))(np.zeros(2))).all()
    assert "root(" not in td.generate_code(X_, sympy.sqrt(-2 * td.dot(X_, X_)), "jax")
