"""Functions in blocks on Dask: results of the single kernel, on any source, with any scheduler; what is refused."""

from __future__ import annotations

import os
import pickle
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.distributed import tasks
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackendError,
    UnsupportedError,
)

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

n, m, r, p, q, k, i, j, d, e = td.indices("n m r p q k i j d e")
x, y, w, w3 = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("w", m), td.TensorSymbol("w3", 3)
X, A, long = td.TensorSymbol("X", (n, m)), td.TensorSymbol("A", (n, n)), td.TensorSymbol("long", 2 * n + 1)
T, V, W = td.TensorSymbol("T", (n, m, p)), td.TensorSymbol("V", (m, r)), td.TensorSymbol("W", (p, r))
chosen = td.TensorSymbol("chosen", n, dtype=int, below=m)
SIZES = {n: 11, m: 5, r: 2, p: 3}

logistic = td.sum(td.softplus(X @ w)) - td.dot(y, X @ w)
strided = td.TensorComprehension(td.IndexedSum(long[2 * i + k] * w3[k], (k, 0, 2)), (i, n))
dilated = td.IndexedSum(td.IndexedSum(long[i + 3 * k] * w3[k], (k, 0, 2)) ** 2, (i, 0, 2 * n - 6))
down, right = X[i + 1, j] - X[i, j], X[i, j + 1] - X[i, j]
variation = td.IndexedSum(sympy.sqrt(down**2 + right**2 + 1), (j, 0, m - 2), (i, 0, n - 2))
squares = td.IndexedSum((X[i, d] - X[j, d]) ** 2, (d, 0, m - 1))
gaussian = td.IndexedSum(y[i] * td.IndexedSum(sympy.exp(-squares) * y[j], (j, 0, n - 1)), (i, 0, n - 1))
rows = td.TensorComprehension(sympy.exp(X[i, j]) / td.IndexedSum(sympy.exp(X[k, j]), (k, 0, n - 1)), (i, n), (j, m))
largest = td.IndexedMax(x[i], (i, 0, n - 1))
neighbours = sympy.Piecewise((x[i - 1], i > 0), (x[i], True)) + sympy.Piecewise((x[i + 1], i < n - 1), (0, True))
gathered = td.IndexedSum((w[chosen[i]] - y[i]) ** 2, (i, 0, n - 1))
greatest = td.IndexedSum(td.IndexedMax(X[i, k] * w[k] + 5, (k, 0, m - 1)) ** 2, (i, 0, n - 1))
mttkrp = td.einsum("ijk,jr,kr->ir", T, V, W)

ROWS: dict[str, tuple[tuple[Any, ...], Any, dict[Any, int]]] = {
    "logistic": ((X, y, w), (logistic, td.gradient(logistic, w), td.hessian(logistic, w)), {n: 3}),
    "logistic, both sizes": ((X, y, w), td.gradient(logistic, w), {n: 3, m: 2}),
    "strided": ((long, w3), strided, {n: 3}),
    "strided pullbacks": ((long, w3, y), td.vjp(strided, (long, w3), y), {n: 3}),
    "dilated": ((long, w3), (dilated, td.gradient(dilated, long)), {n: 3}),
    "variation": ((X,), (variation, td.gradient(variation, X)), {n: 3, m: 2}),
    "gaussian": ((X, y), (gaussian, td.gradient(gaussian, X), td.gradient(gaussian, y)), {n: 4}),
    "softmax": ((x,), (td.softmax(x), td.logsumexp(x), td.hessian(td.logsumexp(x), x)), {n: 3}),
    "softmax of columns": ((X,), rows, {n: 3}),
    "mean and variance": ((x,), (td.mean(x), td.mean((x - td.mean(x)) ** 2)), {n: 3}),
    "norm": ((x,), td.gradient(sympy.sqrt(td.dot(x, x)), x), {n: 3}),
    "products of matrices": ((A, X), (A @ X, A @ A, X.T @ X, X @ X.T), {n: 3, m: 2}),
    "mttkrp": ((T, V, W), mttkrp, {n: 3, m: 2}),
    "triangle": ((x,), td.IndexedSum(x[k] * td.IndexedSum(x[j], (j, 0, k)), (k, 0, n - 1)), {n: 3}),
    "prefix sums": ((x,), td.TensorComprehension(td.IndexedSum(x[k], (k, 0, i)), (i, n)), {n: 3}),
    "extrema": ((x,), (largest, td.IndexedMin(x[i], (i, 0, n - 1)), td.IndexedProduct(x[i], (i, 0, n - 1))), {n: 3}),
    "shifted": ((x,), td.IndexedSum(sympy.exp(x[j] - largest), (j, 0, n - 1)), {n: 3}),
    "largest of columns": ((X,), td.TensorComprehension(td.IndexedMax(X[i, j], (i, 0, n - 1)), (j, m)), {n: 3}),
    "ridge": ((X, w, y), td.gradient(td.dot(X @ w - y, X @ w - y) + 3 * td.dot(w, w), w), {n: 3}),
    "gathered": ((w, chosen, y), (gathered, td.gradient(gathered, w)), {n: 3}),
    "neighbours": ((x,), td.TensorComprehension(neighbours, (i, n)), {n: 3}),
    "reversed": ((x, y), td.TensorComprehension(x[n - 1 - i] * y[i], (i, n)), {n: 3}),
    "halves": ((x,), td.TensorComprehension(x[sympy.floor(i / 2)], (i, 2 * n)), {n: 3}),
    "gram": ((X,), (X @ X.T, td.gradient(td.sum((X @ X.T) ** 2), X)), {n: 3}),
    "attention": ((X,), td.einsum("ij,jk->ik", td.softmax(X @ X.T, axis=1), X), {n: 4}),
    "periodic": ((x, y), (td.roll(x, 2), td.vjp(td.roll(x, 2) * x, x, y)), {n: 3}),
    "clamped": ((x,), td.TensorComprehension(x[sympy.Min(sympy.Max(i - 1, 0), n - 1)] - x[0], (i, n)), {n: 3}),
    "chain of means": ((x,), x * td.mean(x * td.mean(x * td.mean(x * td.mean(x)))), {n: 3}),
    "running maximum": ((x,), td.TensorComprehension(td.IndexedMax(x[j], (j, 0, i)), (i, n)), {n: 3}),
    "scatter": ((w, x, chosen), td.gradient(td.IndexedSum(x[i] * w[chosen[i]], (i, 0, n - 1)), w), {n: 3, m: 2}),
    "greatest of rows": ((X, w), (td.gradient(greatest, X), td.gradient(greatest, w)), {n: 3}),
    "an argument": ((x, X), (x, X.T), {n: 3}),
    "product of sums": ((x, y), td.hessian(td.dot(x, y) ** 2, x), {n: 3}),
}


def inputs(args: Any, sizes: Any = SIZES, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    found: list[Any] = []
    for arg in args:
        shape = tuple(int(sympy.sympify(extent).subs(sizes)) for extent in arg.shape)
        found.append(rng.integers(0, sizes[m], shape) if arg.dtype is int else rng.normal(size=shape))
    return found


def in_chunks(array: Any) -> Any:
    """A dask array of uneven chunks that are not the blocks."""
    chunks = [(4, s - 4) if s > 4 else (s,) for s in array.shape]
    return da.from_array(array, chunks=tuple(chunks))


def agree(got: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for one, other in zip(got, expected, strict=True):
            agree(one, other)
        return
    assert np.shape(got) == np.shape(expected)
    assert np.abs(got - expected).max() <= 1e-12 * max(1.0, np.abs(expected).max())


@cache
def in_blocks(name: str) -> Any:
    """The function of a row, which several tests call."""
    args, expr, blocks = ROWS[name]
    return td.lambdify(args, expr, "dask-numpy", blocks=blocks)


def assert_single(function: Any, args: Any, expr: Any, arrays: Any) -> None:
    """Blocks give the numbers of the single kernel, and the same ones to the bit whatever the chunks are."""
    chunks = (in_chunks(array) if np.ndim(array) else array for array in arrays)
    with dask.config.set(scheduler="synchronous"):
        got, chunked = dask.compute(function(*arrays), function(*chunks))
    agree(got, td.lambdify(args, expr, "numpy")(*arrays))
    assert repr(got) == repr(chunked)


@every("name", list(ROWS))
def test_blocks_are_the_single_kernel(name: str) -> None:
    args, expr, _ = ROWS[name]
    assert_single(in_blocks(name), args, expr, inputs(args))


def refused(error: type[Exception], message: str, args: Any, expr: Any, **options: Any) -> None:
    with pytest.raises(error, match=message):
        td.lambdify(args, expr, options.pop("backend", "dask-numpy"), **options)


def test_refusals() -> None:
    refused(
        ArgumentError, "blocks= and memory= are for backend=.dask., not for", x, 2 * x, backend="numpy", blocks={n: 3}
    )
    refused(ArgumentError, "parallel= and sizes= are not for", x, 2 * x, blocks={n: 3}, sizes={n: 3})
    refused(ArgumentTypeError, "blocks must be a mapping such as", x, 2 * x, blocks=3)
    refused(ArgumentTypeError, "must be a positive int or None", x, 2 * x, blocks={n: 0})
    refused(ArgumentError, "blocks has an entry for m, which is not a size or an index", x, 2 * x, blocks={m: 3})
    column = td.TensorComprehension(X[i, 0], (i, n))
    refused(UnsupportedError, "no axis of a result and no sum has a range that", X, column, blocks={m: 3})
    needs_all = "one entry needs the whole array.*, which no block of blocks=.n: 3. holds: compute it with another"
    refused(UnsupportedError, needs_all, A, td.inv(A), blocks={n: 3})
    refused(UnsupportedError, needs_all, A, td.det(A), blocks={n: 3})
    own = td.TensorSymbol("chosen", n, dtype=int, below=n)
    by_data = td.TensorComprehension(x[own[i]], (i, n))
    by_data_message = "data or an index that is not affine select the entries of x"
    by_data_message += r" .*is split: every block may need all of it\. Gather x by data before .* another backend$"
    refused(UnsupportedError, by_data_message, (x, own), by_data, blocks={n: 3})
    odd = td.TensorSymbol("odd", 2 * n + 1)
    table = td.TensorComprehension(odd[own[i]] + w[j], (i, n), (j, m))
    unsplit = r"Do not split this size \(blocks=\{n: None\}\), so that every worker loads all of odd"
    refused(UnsupportedError, unsplit, (odd, w, own), table, blocks={n: 3, m: 2})
    assert td.lambdify((odd, w, own), table, "dask-numpy", blocks={n: None, m: 2}) is not None


@every("modulus", [2, 3, m])
def test_congruences_and_floors_around_affine_reads(modulus: Any) -> None:
    read = sympy.Piecewise((x[i] ** 2 * w[sympy.Mod(i, m)], sympy.Eq(sympy.Mod(i, modulus), 0)), (0, True))
    shifted = sympy.Piecewise((x[n - 1 - i] ** 2, sympy.Ge(sympy.floor(i / 3) * 2, i / 2)), (x[i], True))
    for summand in (read, shifted):
        value = td.IndexedSum(summand, (i, 0, n - 1))
        both = (value, td.gradient(value, x), td.TensorComprehension(summand, (i, n)))
        function = td.lambdify((x, w), both, "dask-numpy", blocks={n: 3})
        assert_single(function, (x, w), both, inputs((x, w)))


def test_refused_calls() -> None:
    function = td.lambdify((X, w), X @ w, "dask-numpy", blocks={n: 3})
    with pytest.raises(ArgumentError, match="the sizes are unknown before the first call: give them by name"):
        function.footprint((0,))
    with pytest.raises(ArgumentError, match="the size m is missing: give all sizes by name"):
        function.footprint((0,), n=3)
    with pytest.raises(ArgumentError, match=r"kernel 0 has blocks \[4\] along its loops: there is no block \(4,\)"):
        function.footprint((4,), n=11, m=5)
    with pytest.raises(ArgumentError, match=r"argument w has length 4 on axis 0, expected 5, which is m"):
        function(np.ones((11, 5)), np.ones(4))
    with pytest.raises(ArgumentError, match=r"argument X has 1 axes \(shape \(11,\)\), expected 2"):
        function(np.ones(11), np.ones(5))
    with pytest.raises(ArgumentError, match=r"2 arguments are needed \(X, w\), 1 given"):
        function(np.ones((11, 5)))


def test_types_of_arguments() -> None:
    function = td.lambdify((X, w), X @ w, "dask-numpy", blocks={n: 3})
    for wrong in (np.ones((11, 5), complex), da.ones((11, 5), dtype=complex)):
        with pytest.raises(ArgumentTypeError, match="argument X has dtype complex128; real numbers"):
            function(wrong, np.ones(5))
    gather = td.lambdify((w, chosen), td.TensorComprehension(w[chosen[i]], (i, n)), "dask-numpy", blocks={n: 3})
    with pytest.raises(ArgumentTypeError, match="argument chosen has dtype float64, but selects entries"):
        gather(np.ones(5), np.zeros(11))
    assert function(np.ones((11, 5), ">f4"), np.ones(5, np.float32)).dtype == np.dtype(np.float32)


def test_axes_without_entries() -> None:
    x = td.TensorSymbol("x", n)
    function = td.lambdify(x, (td.sum(x), td.exp(x)), "dask-numpy", blocks={n: 3})
    total, values = function(np.empty(0))
    assert total.compute() == 0 and values.compute().shape == (0,)
    with pytest.raises(ArgumentError, match=r"with n = 0: IndexedMax has no value where an axis has no entries"):
        td.lambdify(x, td.max(x), "dask-numpy", blocks={n: 3})(np.empty(0))


@every("name", ["clamped", "greatest of rows", "softmax"])
def test_functions_are_pickled(name: str) -> None:
    function, arrays = in_blocks(name), inputs(ROWS[name][0])
    again = pickle.loads(pickle.dumps(function))
    assert repr(dask.compute(again(*arrays))) == repr(dask.compute(function(*arrays)))


def test_two_parts_of_one_argument() -> None:
    x, i = td.TensorSymbol("x", n), td.indices("i")
    function = td.lambdify(x, td.TensorComprehension(x[i] * x[n - 1 - i], (i, n)), "dask-numpy", blocks={n: 4})
    assert function.loads((0,), n=100) == {"x": [(slice(0, 4),), (slice(96, 100),)]}
    assert function.footprint((0,), n=100) == {"x": (slice(0, 100),)}


def test_calls_by_name_and_without_room() -> None:
    function = td.lambdify((X, w), X @ w, "dask-numpy", blocks={n: 3})
    assert np.array_equal(function(w=np.ones(5), X=np.ones((11, 5))).compute(), np.full(11, 5.0))
    with pytest.raises(ArgumentError, match="so there is nothing to fill out= with: leave it out"):
        function(np.ones((11, 5)), np.ones(5), out=np.empty(11))
    periodic = td.lambdify(x, td.roll(x, 2), "dask-numpy", blocks={n: 5})
    with pytest.raises(ArgumentError, match=r"n = 4 is less than one block of 5, and periodic indices are correct"):
        periodic(np.ones(4))


def test_blocks_that_need_too_much_memory() -> None:
    refused(ArgumentTypeError, "memory must be a number of bytes such as", x, 2 * x, blocks={n: 3}, memory="much")
    outer = td.einsum("i,j->ij", x, w)
    message = (
        r"block \(0,\) of kernel 0 reads x \(4,\); w \(900,\) and makes \(4, 900\): 36,032 bytes at 8 an entry, "
        r"more than memory=10,000. Give smaller blocks than \{'n': 4\}, or blocks of m"
    )
    with pytest.raises(UnsupportedError, match=message):
        td.lambdify((x, w), outer, "dask-numpy", blocks={n: 4}, memory="10 kB")(np.ones(8), np.ones(900))
    fits = td.lambdify((x, w), outer, "dask-numpy", blocks={n: 4, m: 100}, memory="10 kB")
    assert np.array_equal(fits(np.ones(8), np.ones(900)).compute(), np.ones((8, 900)))
    hessian = td.hessian(td.dot(X @ w, X @ w), w)
    with pytest.raises(UnsupportedError, match=r"makes \(5, 5\), 8 of them to be reduced: 1,800 bytes"):
        td.lambdify((X, w), hessian, "dask-numpy", blocks={n: 3}, memory=1000)(np.ones((11, 5)), np.ones(5))


class File:
    """As arrays of h5py without chunks: sliced only, and what was read is known."""

    chunks = None

    def __init__(self, values: Any) -> None:
        self.values, self.shape, self.dtype, self.read = values, values.shape, values.dtype, []

    def __getitem__(self, cut: Any) -> Any:
        self.read.append(cut)
        return self.values[cut]


def test_files(tmp_path: Any) -> None:
    values = np.random.default_rng(0).normal(size=(11, 5))
    mapped = np.memmap(tmp_path / "X", float, "w+", shape=values.shape)
    mapped[...] = values
    mapped.flush()
    sources = [np.memmap(tmp_path / "X", float, "r", shape=values.shape), file := File(values)]
    zarr = pytest.importorskip("zarr")
    sources.append(zarr.create_array(tmp_path / "X.zarr", data=values, chunks=(4, 2)))
    function = td.lambdify((X, w), td.gradient(td.dot(X @ w, X @ w), w), "dask-numpy", blocks={n: 3})
    for source in sources:
        got = function(source, np.ones(5)).compute(scheduler="synchronous")
        assert np.allclose(got, 2 * values.T @ values.sum(1), rtol=1e-12)
    assert sorted(file.read, key=repr) == sorted([function.footprint((k,))["X"] for k in range(4)], key=repr)
    file.read.clear()
    pairs = td.lambdify(X, X @ X.T, "dask-numpy", blocks={n: 3})
    assert np.allclose(pairs(file).compute(scheduler="synchronous"), values @ values.T, rtol=1e-12)
    assert len(file.read) == 4  # a part that several blocks read is read once
    chunked = td.lambdify((X, w), X @ w, "dask-numpy")(sources[-1], np.ones(5))
    assert chunked.chunks == ((4, 4, 3),)
    assert np.allclose(chunked.compute(), values.sum(1), rtol=1e-12)


def test_chunks_of_unknown_size() -> None:
    array = da.arange(10, chunks=4, dtype=float)
    unknown = array[array > 2]
    for options in ({}, {"blocks": {n: 3}}):
        function = td.lambdify(x, 2 * x, "dask-numpy", **options)
        with pytest.raises(ArgumentError, match=r"chunks of x are not known.*: call x.compute_chunk_sizes\(\) before"):
            function(unknown)
    assert np.array_equal(function(unknown.compute_chunk_sizes()).compute(), 2.0 * np.arange(3, 10))


def test_small_parts_are_copies() -> None:
    """A view would keep all of a chunk in the memory of a worker."""
    chunk = np.arange(100.0)[:50]
    assert tasks._copy_slice(chunk, (slice(0, 40),)).base is None
    assert tasks._copy_slice(np.arange(100.0), (slice(0, 60),)).base is not None


def test_dead_workers(tmp_path: Any) -> None:
    """A worker dies while it reads a chunk, another one with computed chunks: Dask computes again what they had."""
    distributed = pytest.importorskip("distributed")
    marker, log = str(tmp_path / "dead"), tmp_path / "log"
    log.touch()

    def read(block_info: Any = None) -> Any:
        first, last = block_info[None]["array-location"][0]
        with log.open("a") as file:
            file.write(f"{first}\n")
        if first == 4 and not os.path.exists(marker):
            open(marker, "w").close()
            os._exit(1)
        return np.arange(first, last, dtype=float)

    array = da.map_blocks(read, chunks=((2,) * 6,), dtype=float, meta=np.empty(0))
    function = td.lambdify(x, (td.sum(x**2), td.roll(x, 1)), "dask-numpy", blocks={n: 3})
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        total, rolled = client.persist(function(array))
        distributed.wait([total, rolled])
        assert os.path.exists(marker)
        before = len(log.read_text().split())
        holder = next(iter(client.who_has(rolled).values()))[0]
        client.run(os._exit, 1, workers=[holder], on_error="ignore")
        total, rolled = dask.compute(total, rolled)
        assert len(log.read_text().split()) > before  # chunks of the result were lost
    assert total == 506.0
    assert np.array_equal(rolled, np.roll(np.arange(12.0), 1))


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_numbers_do_not_depend_on_the_scheduler(scheduler: str) -> None:
    args, expr, blocks = ROWS["logistic"]
    arrays = inputs(args)
    arrays[1][4] = np.nan
    function = td.lambdify(args, expr, "dask-numpy", blocks=blocks)
    results = [dask.compute(function(*arrays), scheduler=one) for one in ("synchronous", scheduler)]
    assert repr(results[0]) == repr(results[1])
    assert np.isnan(results[0][0][1]).all()


def test_deep_expressions() -> None:
    """The walks have no recursion of their own; what index notation cannot write is refused by name."""
    deep = x
    for _ in range(60):
        deep = td.sin(deep) + 1
    arrays = inputs((x,))
    got = td.lambdify(x, deep, "dask-numpy", blocks={n: 4})(*arrays)
    agree(np.asarray(got), td.lambdify(x, deep, "numpy")(*arrays))


def test_chunks_of_a_call_are_blocks() -> None:
    function = td.lambdify((x,), 2 * x, "dask-numpy")
    with pytest.raises(ArgumentError, match="there was none: call the function first"):
        function.plan  # noqa: B018
    with pytest.raises(ArgumentError, match="no argument has several chunks along an axis"):
        function(np.ones(4))
    assert function(da.ones(10, chunks=4)).chunks == ((4, 4, 2),)


def test_dask_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.array", None)
    refused(BackendError, "backend='dask' needs Dask", x, 2 * x, blocks={n: 3})


def test_costs_are_counted() -> None:
    """27 blocks of ``X``: each entry is read once, and a tree of eights adds."""
    function = td.lambdify((X, w), td.gradient(td.dot(X @ w, X @ w), w), "dask-numpy", blocks={n: 4})
    cost = function.cost(n=108, m=5)
    assert (cost.kernel_tasks, cost.reduction_tasks) == (27, 4 + 1)
    assert cost.bytes_read == 8 * (108 * 5 + 27 * 5)
    assert cost.bytes_reduced == 8 * 27 * 5
    graph = dict(function(np.ones((108, 5)), np.ones(5)).__dask_graph__())
    functions = [task[0] for task in graph.values() if isinstance(task, tuple)]
    assert (functions.count(tasks._run_kernel), functions.count(tasks._combine), len(functions)) == (27, 5, 32)


def test_bytes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    read = tasks._read_slice

    def counting(value: Any, cut: Any) -> Any:
        array = read(value, cut)
        given.append(np.asarray(array).nbytes)
        return array

    monkeypatch.setattr(tasks, "_read_slice", counting)
    for name in ("logistic", "gaussian", "prefix sums", "gram", "periodic"):
        args, expr, blocks = ROWS[name]
        function = td.lambdify(args, expr, "dask-numpy", blocks=blocks)
        given.clear()
        dask.compute(function(*map(in_chunks, inputs(args))), scheduler="synchronous")
        assert sum(given) == function.cost().bytes_read, name


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_of_vanishing_exponentials(dtype):
    function = td.lambdify((x,), td.logsumexp(x), "dask-numpy", blocks={n: 3})
    assert function(np.full(8, -np.inf, dtype)).compute() == -np.inf
    assert function(np.array([-np.inf] * 5 + [700.0] * 3, dtype)).compute() == pytest.approx(700 + np.log(3))
