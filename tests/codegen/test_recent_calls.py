"""A call like the last one is answered without the checks; any other one is checked in full."""

from __future__ import annotations

import re
import tempfile

import numpy as np
import pytest
from every import every
from programs import CASES, N, array, i, load, op, p, result, single, store
from test_arguments import REFUSED

from sympy_tensordiff.codegen.ir.programs import Argument
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Name
from sympy_tensordiff.codegen.run.arguments import MAX_COPIED_BYTES
from sympy_tensordiff.codegen.run.compile import CompiledFunction
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError

A, B = np.ones((3, 4)), np.ones((4, 5))
SCALED = single(
    (array("x", N), Argument("scalar", "lam", "lambda"), Argument("integer", "p", "p")),
    result("y", N), "i", store(op("mul", load("x", i), Name("lam"), IndexValue(i + p))),
)  # fmt: skip


@pytest.fixture
def matmul():
    function = CompiledFunction(CASES["matmul"][0], "numpy")
    function(A, B)
    return function


@pytest.fixture
def checks(monkeypatch, matmul):
    """Return the number of calls that have been checked."""
    counted = []
    prepare = matmul._checker.prepare
    monkeypatch.setattr(matmul._checker, "prepare", lambda values: counted.append(1) or prepare(values))
    return counted


def test_equal_calls_are_checked_once(matmul, checks):
    for scale in (1, 2, 3):
        np.testing.assert_array_equal(matmul(scale * A, B), np.full((3, 5), 4 * scale))
    assert not checks


def packed(a):
    """The same values at an odd address."""
    return np.frombuffer(b"." + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape)


def locked(a):
    a = a.copy()
    a.flags.writeable = False
    return a


OTHERS = {
    "shape": lambda a: np.ones((7, 4)),
    "order": np.asfortranarray,
    "strides": lambda a: np.ones((6, 4))[::2],
    "address": packed,
    "list": np.ndarray.tolist,
    "integers": lambda a: a.astype(int),
    "single": lambda a: a.astype(np.float32),
    "byte order": lambda a: a.astype(">f8"),
    "subclass": lambda a: a.view(np.recarray),
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_calls_are_checked(matmul, checks, other):
    a = OTHERS[other](A)
    np.testing.assert_array_equal(matmul(a, B), np.asarray(a, float) @ B)
    assert checks == [1]
    np.testing.assert_array_equal(matmul(A, B), A @ B)


class Foreign:
    """An array of another library, which gives its entries to be read."""

    def __init__(self, array):
        self.array = locked(array)

    def __array__(self, dtype=None, copy=None):
        if self.array.max() > 100:
            raise RuntimeError("too large to be shown")
        return self.array


def mapped(a):
    """The same values in a file."""
    with tempfile.TemporaryFile() as file:
        file.write(a.tobytes())
        file.flush()
        return np.memmap(file, dtype=a.dtype, mode="r", shape=a.shape)


READ_ONLY = {"locked": locked, "mapped": mapped, "foreign": Foreign}


@pytest.mark.parametrize("kind", READ_ONLY)
@pytest.mark.parametrize("size", [4, MAX_COPIED_BYTES])
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_what_is_read_only_is_as_good_as_any(monkeypatch, kind, size, backend):
    function = CompiledFunction(CASES["matmul"][0], backend)
    a = np.ones((3, size))
    b = READ_ONLY[kind](np.ones((size, 5)))
    function(a, np.asarray(b))
    function(a, b)
    monkeypatch.setattr(function._checker, "prepare", None)
    for scale in (1, 2):
        b = READ_ONLY[kind](np.full((size, 5), float(scale)))
        np.testing.assert_array_equal(function(a, b), np.full((3, 5), size * scale))
        np.testing.assert_array_equal(np.asarray(b), np.full((size, 5), scale))
    assert all(len(value.signatures) == 1 for value in vars(module_of(function)).values() if signed(value))


def signed(value):
    return hasattr(value, "signatures") and value.signatures


def module_of(function):
    return function._module(np.dtype(float))


def test_refusals_of_other_libraries_are_explained(matmul):
    good = Foreign(B)
    matmul(A, good)
    matmul(A, good)
    with pytest.raises(ArgumentTypeError, match="argument b is not an array: too large to be shown"):
        matmul(A, Foreign(1000 * B))


def test_a_matrix_of_an_own_kind_is_none_of_the_last_call(matmul):
    with pytest.raises(ArgumentTypeError, match="argument a is a masked array"):
        matmul(np.ma.masked_array(A), B)


@every("reason", [*REFUSED])
def test_what_is_refused_is_refused_after_a_good_call(reason):
    function, arguments = REFUSED[reason]
    good = (A, B) if len(function.program.arguments) == 2 else (np.ones(5), 2.0, 3.0, 4)
    function(*good)
    function(*good)
    with pytest.raises((ArgumentError, ArgumentTypeError), match=re.escape(reason)):
        function(*arguments)


def test_out_is_filled_after_other_calls(matmul):
    out = np.zeros((3, 5))
    assert matmul(A, B, out=out) is out
    assert (out == 4).all()
    with pytest.raises(ArgumentError, match="out for c has shape"):
        matmul(A, B, out=np.zeros((5, 3)))


def test_numbers_may_differ_and_integers_may_not():
    function = CompiledFunction(SCALED, "numpy")
    x = np.ones(2)
    for lam, at in ((1.0, 1), (2.0, 1), (2.0, 2), (0.5, 1), (3, 2)):
        np.testing.assert_array_equal(function(x, lam, at), [lam * at, lam * (at + 1)])
    single = function(x.astype(np.float32), 2.0, 1)
    assert single.dtype == function(x.astype(np.float32), 3.0, 1).dtype == np.float32
    with pytest.raises(ArgumentTypeError, match=r"argument p is 1\.0"):
        function(x, 1.0, 1.0)
