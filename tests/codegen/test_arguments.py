"""Every argument that does not fit is refused with an error that names it and shows the value."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from every import every
from programs import CASES, K, L, M, N, array, i, load, op, p, result, single, store

from sympy_tensordiff.codegen.ir.programs import Argument, Check, Program, entrywise
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Name, Number
from sympy_tensordiff.codegen.run.compile import CompiledFunction
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, OutOfShapeError
from sympy_tensordiff.integer.affine import Constraint

pytestmark = pytest.mark.quick

A, B = np.ones((3, 4)), np.ones((4, 5))
MATMUL = CompiledFunction(CASES["matmul"][0], "numpy")
SCALED = CompiledFunction(
    single(
        (Argument("array", "x_", "x name", (2 * N + 1,)), Argument("scalar", "lam", "lambda"), array("rate"),
         Argument("integer", "p", "the index p")),
        result("y", N), "i", store(op("mul", load("x_", 2 * i), Name("lam"), load("rate"), IndexValue(p))),
    ), "numpy",
)  # fmt: skip
X = np.ones(5)


def test_scaled():
    np.testing.assert_array_equal(SCALED(X, 2, 3.0, 4), [24, 24])


class Traced:
    """A tensor of PyTorch of which a gradient is wanted."""

    requires_grad = True

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


REFUSED = {
    "2 arguments are needed (a, b), 1 given": (MATMUL, (A,)),
    "2 arguments are needed (a, b), 3 given": (MATMUL, (A, B, B)),
    "argument b has 1 axes (shape (4,)), expected 2": (MATMUL, (A, np.ones(4))),
    "argument b has length 5 on axis 0, expected 4, which is M with M = 4 from axis 1 of a": (
        MATMUL,
        (A, np.ones((5, 5))),
    ),
    "argument a has length 0 on axis 1 (shape (3, 0)), where the extent M is positive; only functions for": (
        MATMUL,
        (np.ones((3, 0)), B),
    ),
    "argument a has dtype complex128": (MATMUL, (A * 1j, B)),
    "argument a has dtype object": (MATMUL, (A.astype(object), B)),
    "argument a has dtype <U1": (MATMUL, (np.full((3, 4), "a"), B)),
    "argument a has dtype float16, which has too little range for sums": (MATMUL, (A.astype(np.float16), B)),
    "argument a is a masked array": (MATMUL, (np.ma.masked_array(A), B)),
    "argument a is not an array": (MATMUL, ([[1, 2], [3]], B)),
    "argument a requires a gradient, which no kernel carries on: pass it with .detach(), or make": (
        MATMUL,
        (Traced(), B),
    ),
    "argument lambda requires a gradient, which no kernel": (SCALED, (np.ones(5), Traced(), 1, 1)),
    "argument x name has length 4 on axis 0, which is not 2*N + 1 for any positive integer N": (
        SCALED,
        (np.ones(4), 1, 1, 1),
    ),
    "argument x name has length 1 on axis 0, which is not 2*N + 1": (SCALED, (np.ones(1), 1, 1, 1)),
    "argument lambda has shape (1,), a single real number is needed": (SCALED, (X, np.ones(1), 1, 1)),
    "argument lambda has dtype complex128": (SCALED, (X, 1j, 1, 1)),
    "argument lambda has dtype <U3": (SCALED, (X, "1.0", 1, 1)),
    "argument lambda has dtype object": (SCALED, (X, None, 1, 1)),
    "which no float64 can hold": (SCALED, (X, 10**400, 1, 1)),
    "argument rate has shape (2,), a single real number is needed": (SCALED, (X, 1, [1, 2], 1)),
    "argument the index p is 1.0 (float), an integer is needed": (SCALED, (X, 1, 1, 1.0)),
    "argument the index p is True (bool), an integer is needed": (SCALED, (X, 1, 1, True)),
    "argument the index p is '1' (str), an integer is needed": (SCALED, (X, 1, 1, "1")),
    "too large for an index": (SCALED, (X, 1, 1, 2**70)),
}


@every("reason", [*REFUSED])
def test_refused(reason):
    function, arguments = REFUSED[reason]
    with pytest.raises((ArgumentError, ArgumentTypeError), match=re.escape(reason)):
        function(*arguments)


def test_types_are_type_errors():
    with pytest.raises(TypeError):
        MATMUL(A * 1j, B)
    with pytest.raises(ValueError, match="axes"):
        MATMUL(A, X)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is double here")
def test_long_double_is_refused():
    with pytest.raises(ArgumentTypeError, match="which is not supported by compiled kernels; pass it as float64"):
        MATMUL(A.astype(np.longdouble), B)


def test_sizes_that_contradict_an_integer_argument():
    arguments = (Argument("integer", "N", "N"), array("x", N))
    function = CompiledFunction(single(arguments, result("y", N), "i", store(load("x", i))), "numpy")
    with pytest.raises(
        ArgumentError, match="argument x has length 4 on axis 0, expected 3, which is N with N = 3 from argument N"
    ):
        function(3, np.ones(4))


def test_a_result_of_length_zero():
    program = single((Argument("integer", "N", "N"),), result("y", N - 2), "i", store(Number(1)))
    function = CompiledFunction(program, "numpy")
    assert function(3).shape == (1,)
    reason = r"the result y would have length -1 on axis 0, which is N - 2 \(N = 1 from argument N\)"
    with pytest.raises(ArgumentError, match=reason):
        function(1)


def test_a_size_that_nothing_determines():
    program = single((array("x", N),), result("y", K), "i", store(Number(1)))
    with pytest.raises(ArgumentError, match="K is determined by no array's shape; add it to args"):
        CompiledFunction(program, "numpy")
    program = single((array("x", L + M),), result("z", M), "i", store(Number(1)))
    with pytest.raises(ArgumentError, match="L is determined by no array's shape"):
        CompiledFunction(program, "numpy")


def test_sizes_are_solved_in_any_order():
    """M is known only after N, which a later argument tells."""
    arguments = (array("x", 3 * M + N), array("y", 4 - N + 2 * K), array("z", N), array("w", K))
    function = CompiledFunction(single(arguments, result("r", M), "i", store(load("x", i))), "numpy")
    assert function(np.ones(8), np.ones(4), np.ones(2), np.ones(1)).shape == (2,)
    with pytest.raises(ArgumentError, match=re.escape("which is not 3*M + N for any positive integer M")):
        function(np.ones(7), np.ones(4), np.ones(2), np.ones(1))
    with pytest.raises(
        ArgumentError, match="argument w has length 2 on axis 0, expected 1, which is K with K = 1 from axis 0 of y"
    ):
        function(np.ones(8), np.ones(4), np.ones(2), np.ones(2))


def test_checks_of_the_program():
    check = Check((Constraint("ge", -N + 3),), "x[3] is read outside of x")
    program = Program((array("x", N),), (result("y"),), (), (entrywise("y", (), [], load("x", 3)),), checks=(check,))
    function = CompiledFunction(program, "numpy")
    assert function(np.arange(4.0)) == 3
    with pytest.raises(OutOfShapeError, match=re.escape("x[3] is read outside of x (N = 3 from axis 0 of x)")):
        function(np.arange(3.0))
    with pytest.raises(IndexError):
        function(np.arange(3.0))


# ---------------------------------------------------------------------------- dtypes and layouts

PROMOTION = [
    ((np.float32, np.float32), np.float32),
    ((np.float32, np.float64), np.float64),
    ((np.int64, np.float32), np.float64),
    ((np.int8, np.int8), np.float64),
    ((bool, np.float32), np.float64),
    ((">f4", np.float32), np.float32),
    ((">f8", "<f4"), np.float64),
    ((np.uint8, np.float64), np.float64),
]


@every("dtypes, wanted", PROMOTION)
def test_promotion_of_arrays(dtypes, wanted):
    found = MATMUL(A.astype(dtypes[0]), B.astype(dtypes[1]))
    assert found.dtype == wanted
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, np.full((3, 5), 4))


SCALARS = [
    (2, 2.0, np.float32),
    (np.float32(2), 2, np.float32),
    (np.float64(2), 2, np.float64),
    (2, np.array(2.0), np.float64),
    (2, np.array(2, np.float32), np.float32),
    (np.int64(2), 2, np.float64),
    (Fraction(4, 2), True, np.float32),
    (2, np.float64(2), np.float64),
]


@every("lam, rate, wanted", SCALARS)
def test_python_numbers_are_weak(lam, rate, wanted):
    found = SCALED(X.astype(np.float32), lam, rate, np.int8(2))
    assert found.dtype == wanted
    np.testing.assert_array_equal(found, np.full(2, 4.0 * float(rate)))


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_layouts(backend):
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 4)), rng.random((4, 5))
    function = CompiledFunction(CASES["matmul"][0], backend)
    wide = rng.random((6, 8))
    wide[::2, ::-2] = a
    packed = np.zeros(1 + a.nbytes, np.uint8)[1:].view(np.float64).reshape(3, 4)
    packed[...] = a
    locked = a.copy()
    locked.flags.writeable = False
    for same in (np.asfortranarray(a), wide[::2, ::-2], packed, a.tolist(), locked):
        np.testing.assert_allclose(function(same, b), a @ b)
    if backend == "numba":
        dispatcher = function._load(np.dtype(float)).run.__globals__["fill_c"]
        assert len(dispatcher.signatures) == 1  # also for the array that is read-only


# ---------------------------------------------------------------------------- out=


def test_out_is_filled_and_returned():
    out = np.empty((3, 5))
    assert MATMUL(A, B, out=out) is out
    np.testing.assert_array_equal(out, np.full((3, 5), 4))
    for strange in (np.empty((3, 5), order="F"), np.empty((6, 10))[::2, ::2]):
        assert MATMUL(A, B, out=strange) is strange
        np.testing.assert_array_equal(strange, np.full((3, 5), 4))


def test_out_for_a_scalar_and_for_several():
    function = CompiledFunction(CASES["two_outputs"][0], "numpy")
    out = np.empty(4), np.empty(())
    assert function(np.ones(4), out=out) is out
    assert out[1] == np.log(4)


SQUARE = np.ones((4, 4))
BUFFER = np.ones((3, 5, 2))
LOCKED = np.ones((3, 5))
LOCKED.flags.writeable = False
BAD_OUT = {
    "out for c is list, a NumPy array is needed": (A, B, [[1]]),
    "out for c has shape (5, 3), expected (3, 5)": (A, B, np.ones((5, 3))),
    "out for c has dtype float32, expected float64": (A, B, np.ones((3, 5), np.float32)),
    "out for c is read-only": (A, B, LOCKED),
    "out for c shares memory with argument a": (SQUARE, SQUARE.copy(), SQUARE),
    "out for c shares memory with argument b": (np.ones((4, 4)), SQUARE, SQUARE[::-1]),
}


@every("reason", [*BAD_OUT])
def test_out_that_does_not_fit(reason):
    a, b, out = BAD_OUT[reason]
    with pytest.raises((ArgumentError, ArgumentTypeError), match=re.escape(reason)):
        MATMUL(a, b, out=out)


def test_out_next_to_an_input_in_memory_is_allowed():
    """Interleaved memory that is not shared is not an overlap."""
    both = np.ones((4, 8))
    MATMUL(both[:, ::2], SQUARE, out=both[:, 1::2])
    np.testing.assert_array_equal(both[:, 1::2], 4 * SQUARE)


def test_several_outs_that_do_not_fit():
    function = CompiledFunction(CASES["two_outputs"][0], "numpy")
    with pytest.raises(ArgumentTypeError, match="out is ndarray, a tuple of 2 arrays is needed"):
        function(np.ones(4), out=np.ones(4))
    with pytest.raises(ArgumentError, match="out has 1 arrays, 2 are needed"):
        function(np.ones(4), out=(np.ones(4),))
    shared = np.ones(4)
    with pytest.raises(ArgumentError, match="out for z shares memory with out for y"):
        function(np.ones(4), out=(shared, shared[1:2].reshape(())))
