"""Nested tuples of results, from `lambdify` and `generate_code`, through every backend."""

from __future__ import annotations

import ast
import pickle
import re

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError

n, m = td.indices("n m")
A, x, y = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", n), td.TensorSymbol("y", m)
SCALAR = td.einsum("i,ij,j->", x**2, A, td.exp(y))
HESSIAN = td.hessian(SCALAR, (x, y))
rng = np.random.default_rng(7)
a, u, v = rng.standard_normal((3, 4)), rng.standard_normal(3), rng.standard_normal(4)
BLOCKS = (
    (np.diag(2 * a @ np.exp(v)), 2 * u[:, None] * a * np.exp(v)),
    (2 * u * a.T * np.exp(v)[:, None], np.diag(u**2 @ a * np.exp(v))),
)


def same(found, wanted):
    """Equal values in tuples that are nested alike."""
    if isinstance(wanted, tuple):
        assert type(found) is tuple
        assert len(found) == len(wanted)
        for left, right in zip(found, wanted, strict=True):
            same(left, right)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_blocks_of_a_hessian(backend):
    function = td.lambdify((A, x, y), HESSIAN, backend)
    same(function(a, u, v), BLOCKS)
    same(pickle.loads(pickle.dumps(function))(a, u, v), BLOCKS)
    out = [tuple(np.full(block.shape, np.nan) for block in row) for row in BLOCKS]
    assert function(a, u, v, out=out) is out
    same(tuple(out), BLOCKS)


def printed(args, results, backend):
    """The text but for `compute`, which nests its results."""
    return td.generate_code(args, results, backend).partition("def checked")[0]


def test_blocks_of_a_hessian_on_cuda():
    text = td.generate_code((A, x, y), HESSIAN, "cuda")
    run = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "run")
    assert [arg.arg for arg in run.args.args][:7] == ["A", "x", "y", "result0", "result1", "result2", "result3"]
    flat = [block for row in HESSIAN for block in row]
    assert printed((A, x, y), flat, "cuda") == text.partition("def checked")[0]


@pytest.mark.parametrize("backend", ["numpy", "numba", "cuda"])
def test_the_text_is_that_of_the_flat_tuple(backend):
    assert printed((x, y), (x, ((y, 2), [td.sum(x)])), backend) == printed((x, y), (x, y, 2, td.sum(x)), backend)


def test_tensors_and_tuples_mix():
    function = td.lambdify((x, y), (td.sum(x), ([x, sympy.Tuple(y)], 2), x * 2), "numpy")
    same(function(u, v), (u.sum(), ((u, (v,)), 2.0), 2 * u))
    same(td.lambdify((x,), ((x,),), "numpy")(u), ((u,),))


def test_deep_nesting():
    """No recursion over the tuples: one result in 5,000 of them."""
    nested = x
    for _ in range(5000):
        nested = (nested,)
    function = pickle.loads(pickle.dumps(td.lambdify((x,), nested, "numpy")))
    found, out = function(u), np.empty(3)
    for _ in range(5000):
        assert type(found) is tuple
        (found,) = found
        out = [out]
    np.testing.assert_array_equal(found, u)
    assert function(u, out=out) is out


@every("empty", [(), [], ((),), (x, (y, ())), sympy.Tuple(x, sympy.Tuple())])
def test_empty_tuples_are_refused(empty):
    for call in (td.lambdify, td.generate_code):
        with pytest.raises(ArgumentError, match="there is no expression in an empty tuple: give one"):
            call((x, y), empty)


def test_a_list_in_itself_is_refused():
    cycle = [x]
    cycle.append((y, cycle))
    with pytest.raises(ArgumentError, match="a list of expressions contains itself"):
        td.lambdify((x, y), cycle)
    again = [x]
    assert len(td.lambdify((x,), (again, again), "numpy")(u)) == 2


ONE, OTHER = np.empty(3), np.empty(4)
BAD_OUT = {
    "out is ndarray, a tuple of 2 entries is needed": ONE,
    "out[1] is ndarray, a tuple of 2 entries is needed": (ONE, OTHER),
    "out has 3 entries, 2 are needed": (ONE, (OTHER, ONE), ONE),
    "out[1] has 1 entries, 2 are needed": (ONE, (OTHER,)),
    "out for result0 is tuple, a NumPy array is needed": ((ONE,), (OTHER, ONE)),
    "out for result2 shares memory with out for result0": (ONE, (OTHER, ONE)),
}


@every("reason", [*BAD_OUT])
def test_out_is_nested_as_the_results_are(reason):
    function = td.lambdify((x, y), (x, (y, x + 1)), "numpy")
    with pytest.raises((ArgumentError, ArgumentTypeError), match="^" + re.escape(reason)):
        function(u, v, out=BAD_OUT[reason])
