"""Functions of JAX: all transformations of a table of functions, next to the same functions written for JAX."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from bridge_cases import CASES, A, c, chain, chosen, i, n, w, waves, x
from every import every
from jax_versions import enable_x64

import sympy_tensordiff as td
from sympy_tensordiff.bridges.jax import _load
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, BackendError


def test_without_jax(monkeypatch):
    def missing(name, package=None):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    _load.cache_clear()
    with pytest.raises(BackendError, match=r"JAX is not installed \(No module named 'jax'\): pip install '.\[jax\]'"):
        td.jax_function(x, chain)


@pytest.fixture
def jax():
    found = pytest.importorskip("jax", reason="needs pip install '.[jax]'")
    importlib.import_module("jax.test_util")
    with enable_x64(True):
        yield found


@pytest.fixture
def jax_single():
    found = pytest.importorskip("jax", reason="needs pip install '.[jax]'")
    with enable_x64(False):
        yield found


def drawn(shapes, dtype=np.float64, seed=0):
    draw = np.random.default_rng(seed)
    return [draw.uniform(0.5, 1.5, shape).astype(dtype) for shape in shapes]


def transformed(jax, h, arrays):
    """The results of the transformations, by name; compiled, since JAX compiles each operation for itself else."""
    np = jax.numpy
    arrays = [np.asarray(a) for a in arrays]
    positions = tuple(range(len(arrays)))
    batched = np.stack([arrays[0], 2 * arrays[0], arrays[0] + 1]), *arrays[1:]
    axes = (0, *[None] * (len(arrays) - 1))

    def loss(*args):
        return np.sum(np.sin(h(*args)))

    def of_batch(*args):
        return np.sum(jax.vmap(h, axes)(*args) ** 2)

    yield "value", h(*arrays)
    yield "jit", jax.jit(h)(*arrays)
    yield "grad", jax.jit(jax.grad(loss, positions))(*arrays)
    yield "jvp", jax.jit(lambda *a: jax.jvp(h, a, tuple(np.cos(t) for t in a)))(*arrays)
    yield "jacfwd", jax.jit(jax.jacfwd(h, positions))(*arrays)
    yield "jacrev", jax.jit(jax.jacrev(h, positions))(*arrays)
    yield "hessian", jax.jit(jax.hessian(loss, positions))(*arrays)
    yield "reverse over reverse", jax.jit(jax.jacrev(jax.jacrev(loss, positions), positions))(*arrays)
    yield "vmap", jax.jit(jax.vmap(jax.grad(loss, positions), axes))(*batched)
    yield "gradient of vmap", jax.jit(jax.grad(of_batch, positions))(*batched)
    yield "third derivative", jax.jit(jax.jacfwd(jax.hessian(loss)))(*arrays)


@cache
def function_of(name, backend="numpy"):
    case = CASES[name]
    return td.jax_function(case.args, case.expr, backend=backend)


def check_transformations(jax, name, dtype, tolerance, backend="numpy"):
    case = CASES[name]
    arrays = drawn(case.shapes, dtype)
    ours = transformed(jax, function_of(name, backend), arrays)
    plain = transformed(jax, lambda *a: case.plain(jax.numpy, *a), arrays)
    for (step, result), (_, wanted) in zip(ours, plain, strict=True):
        for one, other in zip(jax.tree.leaves(result), jax.tree.leaves(wanted), strict=True):
            assert one.dtype == dtype, step
            scale = 1 + np.abs(other).max()
            np.testing.assert_allclose(one / scale, other / scale, rtol=0, atol=tolerance, err_msg=step)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@every("name", list(CASES))
def test_transformations(jax, name, backend):
    check_transformations(jax, name, np.float64, 1e-10, backend)


@every("name", list(CASES))
def test_transformations_in_single_precision(jax_single, name):
    check_transformations(jax_single, name, np.float32, 1e-4)


@every("name", ["waves", "kernel", "inverse", "scaled"])
def test_third_order_by_differences(jax, name):
    jax.test_util.check_grads(function_of(name), drawn(CASES[name].shapes), order=3, modes=("fwd", "rev"), eps=1e-4)


def test_compiled_for_two_shapes(jax):
    function = jax.jit(jax.grad(lambda a, b: td_waves(a, b).sum()))
    td_waves = td.jax_function((CASES["waves"].args), waves)
    for length in (7, 11):
        (a, b) = drawn([(length,), (3,)])
        wanted = jax.grad(lambda a, b: CASES["waves"].plain(jax.numpy, a, b).sum())(a, b)
        np.testing.assert_allclose(function(a, b), wanted, rtol=1e-12)
    with pytest.raises(ArgumentError, match=r"argument odd has length 6 on axis 0, which is not 2\*n \+ 1"):
        function(np.ones(6), np.ones(3))
    with pytest.raises(ArgumentError, match=r"argument odd has the shape \(7, 1\), an array of 1 axes is needed"):
        function(np.ones((7, 1)), np.ones(3))


def test_numbers_and_integers(jax):
    function = td.jax_function((x, c, n), c * x[n - 1] ** 2, backend="numpy")
    assert function(np.arange(3.0), 2, 3) == 8
    assert jax.jit(function, static_argnums=2)(np.arange(3.0), 2.0, 3) == 8
    gradient = jax.vmap(jax.grad(function, (0, 1)), (0, None, None))(np.arange(6.0).reshape(2, 3), 2.0, 3)
    assert gradient[0].tolist() == [[0, 0, 8], [0, 0, 20]] and gradient[1].tolist() == [4, 25]
    with pytest.raises(ArgumentTypeError, match=r"argument n must be a known integer, not .*static_argnums"):
        jax.jit(function)(np.arange(3.0), 2.0, 3)
    with pytest.raises(ArgumentTypeError, match="argument n must be a known integer, not 'three'"):
        function(np.arange(3.0), 2.0, "three")
    single = function(np.arange(3, dtype=np.float32), 2.0, 3)
    assert single.dtype == np.float32
    assert function(np.arange(3), 2.0, 3).dtype == np.float64


def test_data_select_entries(jax):
    function = td.jax_function((x, chosen), td.IndexedSum(x[chosen[i]] ** 2, (i, 0, 2)), backend="numpy")
    signal, data = np.arange(1.0, 5.0), np.array([2, 0, 2])
    assert jax.jit(jax.grad(function))(signal, data).tolist() == [2, 0, 12, 0]
    assert jax.jvp(lambda s: function(s, data), (signal,), (signal,))[1] == 38
    assert jax.vmap(function, (None, 0))(signal, np.array([data, [0, 0, 1]])).tolist() == [19, 6]
    with pytest.raises(Exception, match="from 0 to 3; negative ones do not wrap around"):
        function(signal, np.array([2, 0, 4]))


def test_several_results_and_wrt(jax):
    function = td.jax_function((A, w), (td.sum(A), A * w[0]), wrt=A, backend="numpy")
    a, b = drawn([(2, 2), (3,)])
    total, product = function(a, b)
    assert total == pytest.approx(a.sum()) and np.allclose(product, a * b[0])
    assert np.allclose(jax.grad(lambda a: function(a, b)[0] + function(a, b)[1].sum())(a), 1 + b[0])
    with pytest.raises(ArgumentError, match="a derivative with respect to w is asked for, which is not in wrt"):
        jax.grad(lambda b: function(a, b)[0])(b)


def test_a_batch_without_entries(jax):
    function = td.jax_function(x, chain, backend="numpy")
    assert jax.vmap(function)(np.ones((0, 3))).shape == (0,)
    double = td.jax_function(x, 2 * x, backend="numpy")
    assert jax.jit(jax.jacrev(double))(np.ones(0)).shape == (0, 0)


def test_refusals(jax):
    with pytest.raises(
        ArgumentError, match="jax_function works with the backends 'jax', 'llvm', 'numba' and 'numpy', not with 'cuda'"
    ):
        td.jax_function(x, chain, backend="cuda")
    with pytest.raises(ArgumentError, match="c is in wrt, but not in args: add it to args"):
        td.jax_function(x, chain, wrt=c)
    with pytest.raises(ArgumentError, match="chosen is in wrt, but holds integers: there is no derivative"):
        td.jax_function((x, chosen), x[chosen[0]], wrt=chosen)
    function = td.jax_function(chain, x, backend="numpy")  # the short form
    with pytest.raises(ArgumentError, match=r"1 argument is needed \(x\), 2 given"):
        function(np.ones(3), np.ones(3))
    with pytest.raises(
        ArgumentTypeError, match=r"argument x has the type float16, which kernels do not take: use .astype"
    ):
        function(np.ones(3, np.float16))
    program = td.jax_function((x, chosen), x[chosen[0]])
    with pytest.raises(ArgumentTypeError, match=r"argument x has the type complex\d+; real numbers are needed"):
        program(1j * np.ones(3), np.zeros(1, int))
    for wrong in (np.zeros(1), np.zeros(1, bool)):
        with pytest.raises(ArgumentTypeError, match=r"argument chosen has the type \w+; integers are needed"):
            program(np.ones(3), wrong)


@every("name", ["cubes", "square", "product", "waves", "strided", "softmax", "network", "numbers"])
def test_half_types(jax, name):
    """JAX has most operations for bfloat16 and float16; kernels have none."""
    case, function = CASES[name], function_of(name, backend="jax")
    values = [0.5 + value for value in drawn(case.shapes)]
    scale = float(abs(function(*values)).max())
    every_axis = tuple(range(len(values)))

    def loss(*args):
        return jax.numpy.sin(function(*args) / scale).sum()

    def results(*args):
        batch = [jax.numpy.stack([args[0], args[0]]), *args[1:]]
        mapped = jax.vmap(function, (0, *[None] * (len(args) - 1)))(*batch)
        return function(*args), mapped, *jax.grad(loss, every_axis)(*args)

    wanted = results(*values)
    for dtype in (jax.numpy.bfloat16, jax.numpy.float16):
        half = [jax.numpy.asarray(value, dtype) for value in values]
        for found in (results(*half), jax.jit(results)(*half)):
            assert {result.dtype for result in found} == {np.dtype(dtype)}
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one.astype(float), other, rtol=0.1, atol=0.02 * float(abs(other).max()))
    flags = [value > 1 for value in values]
    np.testing.assert_allclose(function(*flags), function(*[flag.astype(float) for flag in flags]))


def test_within_loops_and_threads(jax):
    """JAX differentiates loops and recomputed parts around a function; several threads may call it."""
    case, function = CASES["cubes"], function_of("cubes")
    a, b = drawn(case.shapes)

    def loss(h):
        def step(x, _):
            return jax.checkpoint(h)(x, b), x.sum()

        return lambda x: jax.lax.scan(step, x, None, length=2)[0].sum()

    def plain(x, y):
        return case.plain(jax.numpy, x, y)

    for derivative in (jax.grad, jax.hessian):
        np.testing.assert_allclose(derivative(loss(function))(a), derivative(loss(plain))(a), rtol=1e-12)
    compiled = jax.jit(jax.grad(lambda x, y: function(x, y).sum()))
    calls = [drawn([(length,), (length,)], seed=length) for length in range(2, 8)] * 3
    with ThreadPoolExecutor(4) as threads:
        for result, (x, y) in zip(threads.map(lambda call: compiled(*call), calls), calls, strict=True):
            np.testing.assert_allclose(result, 3 * x**2 * y, rtol=1e-5)  # these threads work with 32 bits


def test_hyperbolic_cosines_keep_their_digits(jax):
    """XLA's own ``cosh`` is wrong by 9 units in the last place; derivatives through ours are right at 0 too."""
    kernel = td.lambdify(x, td.sum(td.cosh(x)), "jax")
    for at in (0.001, -2.5, 37.55, 38.83, -700.1, 710.3):
        assert kernel(np.array([at])) == pytest.approx(float(np.cosh(at)), rel=2**-50), at
    second = jax.hessian(lambda values: kernel(values))(np.array([0.0, 1.0]))
    assert np.diag(second) == pytest.approx(np.cosh([0.0, 1.0]), rel=2**-50)
