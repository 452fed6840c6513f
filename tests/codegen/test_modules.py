"""Modules without a reference are freed: a kernel's module, its lines for tracebacks, and Numba's compiled code."""

from __future__ import annotations

import gc
import inspect
import linecache
import pickle
import sys
import weakref

import numpy as np
import pytest
import sympy as sp
from numba import njit
from numba.core.compiler import CompileResult

import sympy_tensordiff as td
from sympy_tensordiff.codegen.run import cache
from sympy_tensordiff.codegen.run import modules as leases

i, n, m = td.indices("i n m")
x, A = td.TensorSymbol("x", n), td.TensorSymbol("A", (n, n))
h = sp.Function("h")
EXPRESSIONS = {
    "elementary": lambda k: td.IndexedSum(sp.sin(k * x[i]) + sp.exp(x[i]), (i, 0, n - 1)),
    "products": lambda k: td.sum(td.exp(k * (x @ A @ A))),
    "own functions": lambda k: td.IndexedSum(h(k * x[i]), (i, 0, n - 1)),
}
COUNT = {"numpy": 3, "numba": 1}


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Objects that are older are not gone through again and again."""
    gc.freeze()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))


def kernel(case, backend, k=2):
    functions = {"h": njit(lambda t: np.sin(t)) if backend == "numba" else np.sin} if case == "own functions" else None
    args = [x, A] if case == "products" else [x]
    function = td.lambdify(
        args, EXPRESSIONS[case](k), backend, functions=functions, parallel=False if backend == "numba" else None
    )
    return function, [np.ones((3,) * len(a.shape)) for a in args]


def counted():
    """The modules, the lines and the compiled functions of all kernels."""
    leases._latest.clear()
    gc.collect()
    modules = [name for name in sys.modules if name.startswith("sympy_tensordiff_generated.")]
    lines = [place for place in linecache.cache if "sympy_tensordiff_generated" in place]
    compiled = [o for o in gc.get_objects() if issubclass(type(o), CompileResult) and "_generated" in o.fndesc.modname]
    return len(modules), len(lines), len(compiled)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", COUNT)
@pytest.mark.parametrize("case", EXPRESSIONS)
def test_nothing_stays_of_what_nobody_holds(case, backend, monkeypatch):
    if backend == "numba":  # what has no file has its lines in a table
        monkeypatch.setenv(cache.VARIABLE, "off")
    before = counted()
    functions = [kernel(case, backend, k) for k in range(2, 2 + COUNT[backend])]
    for function, values in functions:
        function(*values)
    modules = [weakref.ref(found.module) for function, _ in functions for found in function._leases]
    assert len(modules) == len(functions)
    with_all = counted()
    assert with_all[0] == before[0] + len(functions)
    if backend == "numba":
        assert with_all[2] > before[2]
    del function, functions
    assert counted() == before
    assert not any(module() for module in modules)


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("backend", COUNT)
def test_what_one_of_two_holds_stays(backend):
    one, values = kernel("elementary", backend)
    two, _ = kernel("elementary", backend)
    expected = one(*values)
    assert two(*values) == expected
    assert one._leases == two._leases
    del one
    counted()
    module = two._leases[0].module
    assert sys.modules[module.__name__] is module
    assert "def run(" in two.source
    assert inspect.getsource(module) == two.source
    assert two(*values) == expected
    assert pickle.loads(pickle.dumps(two))(*values) == expected
    if backend == "numba":
        assert sum(map(len, (value.signatures for value in vars(module).values() if hasattr(value, "signatures")))) >= 1


@pytest.mark.in_turns(4)
def test_the_same_again_after_it_went():
    function, values = kernel("elementary", "numba")
    expected = function(*values)
    del function
    counted()
    function, _ = kernel("elementary", "numba")
    assert function(*values) == expected


def test_the_latest_stay_for_who_asks_again():
    leases._latest.clear()
    function, values = kernel("elementary", "numpy")
    function(*values)
    module = weakref.ref(function._leases[0].module)
    del function
    gc.collect()
    again, _ = kernel("elementary", "numpy")
    again(*values)
    assert again._leases[0].module is module()
    del again
    for k in range(leases.RECENT):
        function, values = kernel("elementary", "numpy", k + 3)
        function(*values)
    gc.collect()
    assert module() is None
    assert len(leases._latest) == leases.RECENT


@pytest.mark.in_turns(4)
def test_functions_of_the_user_stay_compiled():
    mine = njit(lambda t: np.sin(t))
    function = td.lambdify([x], EXPRESSIONS["own functions"](2), "numba", functions={"h": mine}, parallel=False)
    expected = function(np.ones(3))
    assert mine.signatures
    del function
    counted()
    assert mine.signatures
    assert td.lambdify([x], EXPRESSIONS["own functions"](2), "numba", functions={"h": mine})(np.ones(3)) == expected
