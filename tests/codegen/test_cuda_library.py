"""Library calls on CUDA: CuPy's where it is installed. Here NumPy stands in for it, on the memory of the simulator."""

from __future__ import annotations

import sys
import types
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit import cuda_library
from sympy_tensordiff.codegen.run import compile as compile_module
from sympy_tensordiff.errors import SingularMatrixError

i, j, k, n, m = td.indices("i j k n m")
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, n))
S, y = td.TensorSymbol("S", (n, n)), td.TensorSymbol("y", n)
T = td.TensorSymbol("T", (n, n, m))

PRODUCTS = {
    "chain": ((A, B), 3 * (A @ B) @ A),
    "diagonal": ((T, B), td.einsum("iij,jk->ik", T, B)),
    "batch": ((T, S), td.einsum("bij,bi->bj", T, S)),
}
PRODUCTS["in index notation"] = (
    (A, B),
    td.TensorComprehension(2 * td.IndexedSum(A[i, k] * B[k, j], (k, 0, m - 1)), (i, n), (j, n)),
)
MATRICES = {
    "solution": ((S, y), td.inv(S) @ y),
    "inverse": ((S,), td.inv(S)),
    "determinant": ((S,), td.det(S)),
    "logarithm": ((S,), sympy.log(td.det(S))),
    "gradient": ((S,), td.gradient(td.det(S), S)),
    "second derivative": ((S,), td.hvp(td.det(S), S, td.TensorComprehension(1, (i, n), (j, n)))),
}
CASES = PRODUCTS | MATRICES


def stand_in():
    """A module that has NumPy's functions under CuPy's name; ``calls`` says what has been asked for."""
    cupy = types.ModuleType("cupy")
    cupy.__dict__.update({name: value for name, value in vars(np).items() if not name.startswith("__")})
    cupy.calls = []
    null = nullcontext()
    cupy.cuda = types.SimpleNamespace(Stream=types.SimpleNamespace(null=null))

    def asarray(array):
        cupy.calls.append("asarray")
        return array._ary if hasattr(array, "_ary") else np.asarray(array)

    cupy.asarray = asarray
    cupyx = types.ModuleType("cupyx")
    cupyx.errstate = lambda linalg: cupy.calls.append(linalg) or nullcontext()
    return cupy, cupyx


@contextmanager
def with_cupy(args, expression):
    """The function of an expression, where CuPy is installed."""
    cupy, cupyx = stand_in()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", cupy)
        patch.setitem(sys.modules, "cupyx", cupyx)
        # The simulator has no arrays for CuPy, but for this one.
        for module in (cuda_library, compile_module):
            patch.setattr(module, "has_cupy", lambda: True)
        function = td.lambdify(args, expression, "cuda")
        # Other tests may have loaded the same text without it.
        patch.setattr(function._cuda, "cupy", cupy)
        patch.setattr(function._cuda, "cupyx", cupyx, raising=False)
        yield function, cupy.calls


def arrays_for(args):
    rng, sizes = np.random.default_rng(2), {n: 3, m: 2}
    arrays = [rng.uniform(-1, 1, [sizes[extent] for extent in arg.shape]) for arg in args]
    return [array + 2 * np.eye(3) if arg is S else array for arg, array in zip(args, arrays, strict=True)]


def by_cupy(name):
    args, expression = CASES[name]
    arrays = arrays_for(args)
    right = td.lambdify(args, expression, "numpy")(*arrays)
    with with_cupy(args, expression) as (function, calls):
        np.testing.assert_allclose(function(*arrays), right, rtol=1e-11)
        assert {"asarray", "raise"} <= set(calls)


@pytest.mark.parametrize("name", CASES)
def test_calls_of_cupy(name, simulator):
    simulator(by_cupy, name)


def singular():
    with with_cupy(*MATRICES["inverse"]) as (function, _), pytest.raises(SingularMatrixError, match="the matrix S is"):
        function(np.ones((3, 3)))


def test_singular_matrices_on_cuda(simulator):
    simulator(singular)


def without_cupy(name):
    args, expression = PRODUCTS[name]
    function, arrays = td.lambdify(args, expression, "cuda"), arrays_for(args)
    assert function._cuda.cupy is None
    np.testing.assert_allclose(function(*arrays), td.lambdify(args, expression, "numpy")(*arrays), rtol=1e-11)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_without_cupy(name, simulator):
    """By kernels of our own."""
    simulator(without_cupy, name)
