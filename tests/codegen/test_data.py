"""Data that select entries, in loop nests built by hand: arguments, checks before any kernel, scatters, laws."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from oracle import check
from programs import (
    CASES,
    K,
    M,
    N,
    array,
    data,
    i,
    integers,
    j,
    k,
    load,
    loop,
    op,
    result,
    scattered,
    single,
    within,
)

from sympy_tensordiff.codegen.compile import compile_program
from sympy_tensordiff.codegen.data_checks import data_checks
from sympy_tensordiff.codegen.loops import Accumulator, Add, AddAt, Argument, Array, If, Kernel, Let, Scatter, Store
from sympy_tensordiff.codegen.masks import with_masks
from sympy_tensordiff.codegen.scalars import IndexValue, Name, Number
from sympy_tensordiff.codegen.verify import verify
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, DataIndexError, VerificationError
from sympy_tensordiff.integer.affine import Affine

BACKENDS = ("numpy", "numba")
EMBEDDING = CASES["embedding"][0]
X = np.arange(12.0).reshape(4, 3)


def checked(program):
    program = with_masks(replace(program, data_checks=data_checks(program)))
    verify(program)
    return program


# ---------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4"])
def test_any_integers_select(dtype):
    idx = np.array([3, 0, 3, 1], dtype)
    for backend in BACKENDS:
        np.testing.assert_array_equal(compile_program(EMBEDDING, backend)(X, idx), X[[3, 0, 3, 1]])


def test_data_in_any_order_of_memory():
    idx = np.array([[3, 9], [0, 9], [1, 9]])[:, 0]
    idx.flags.writeable = False
    for given in (idx, idx[::-1], [3, 0, 1]):
        np.testing.assert_array_equal(compile_program(EMBEDDING, "numba")(X, given), X[np.asarray(given)])


def test_data_do_not_take_part_in_the_promotion():
    assert compile_program(EMBEDDING, "numba")(X.astype("f4"), np.array([1, 2])).dtype == np.float32


REFUSED = {
    r"idx has dtype float64, but selects entries: integers are needed; pass .astype\(int\)": np.ones(3),
    r"idx has dtype bool, but selects entries: integers are needed; np.flatnonzero makes them": np.ones(3, bool),
    r"idx has dtype complex128, but selects entries: integers are needed": np.ones(3, complex),
    r"idx has dtype object, but selects entries: integers are needed; pass .astype\(int\)": np.ones(3, object),
}


@pytest.mark.parametrize("message", REFUSED)
def test_other_data_are_refused(message):
    with pytest.raises(ArgumentTypeError, match=message):
        compile_program(EMBEDDING, "numpy")(X, REFUSED[message])


def test_data_too_large_for_the_arithmetic_of_kernels():
    for worst in (np.uint64(2**64 - 1), np.int64(-(2**63))):
        with pytest.raises(ArgumentError, match=r"idx holds an integer of size -?\d+, too large for an index"):
            compile_program(EMBEDDING, "numpy")(X, np.array([0, worst], type(worst)))


# ---------------------------------------------------------------------------- checks


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_data_that_leave_an_axis(backend):
    function = compile_program(EMBEDDING, backend)
    for worst, place in ((4, 2), (-1, 0), (2**40, 3)):
        idx = np.array([0, 1, 2, 3])
        idx[place] = worst
        message = rf"idx\[{place}\] is {worst}: the index idx\[i\] of axis 0 of x has to be from 0 to 3; negative"
        with pytest.raises(DataIndexError, match=message):
            function(X, idx)
        with pytest.raises(IndexError):
            function(X, idx)
    np.testing.assert_array_equal(function(X, np.array([3, 3])), X[[3, 3]])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_nested_data(backend):
    function = compile_program(CASES["nested_data"][0], backend)
    x, idx, jdx = np.ones(4), np.array([0, 9, 1]), np.array([2, 0, 2, 0])
    assert function(x, idx, jdx).tolist() == [2, 0, 6, 0]  # the entry 9 is not read
    with pytest.raises(DataIndexError, match=r"idx\[1\] is 9: the index idx\[jdx\[k\]\] of axis 0 of x"):
        function(x, idx, np.array([0, 0, 1, 0]))
    with pytest.raises(DataIndexError, match=r"jdx\[3\] is 3: the index jdx\[k\] of axis 0 of idx .* from 0 to 2"):
        function(x, idx, np.array([0, 0, 1, 3]))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_forms_of_data_are_checked_as_they_are_read(backend):
    """The extremes alone would refuse what is never read."""
    program = checked(
        single((array("x", N), integers("off", K)), result("y", K), "i", Store(load("x", i + data("off", i))))
    )
    function = compile_program(program, backend)
    x = np.arange(4.0)
    assert function(x, np.array([3, 0, -1, -3])).tolist() == [3, 1, 1, 0]
    with pytest.raises(DataIndexError, match=r"off\[1\] is 3: the index i \+ off\[i\] of axis 0 of x"):
        function(x, np.array([0, 3, 0, 0]))


def test_wrong_indices_of_computed_values():
    own = single((array("w", K), integers("idx", N)), result("y", N), "i", Store(load("t", data("idx", i))))
    before = Kernel("t", ("i",), (Store(op("mul", 2, load("w", i))),))
    program = checked(replace(own, temporaries=(Array("t", (K,)),), kernels=(before, *own.kernels)))
    function = compile_program(program, "numpy")
    assert function(np.array([3.0, 5]), np.array([1, 1, 0])).tolist() == [10, 10, 6]
    with pytest.raises(DataIndexError, match=r"idx\[0\] is 2: .* axis 0 of t, which holds computed values, has to be"):
        function(np.array([3.0, 5]), np.array([2, 1, 0]))


def chosen_program(condition_array):
    """x[idx[i]] where a value is positive; the value is computed before."""
    keep = Let("keep", op("add", load(condition_array, i), -1))
    chosen = op("select", op("lt", 0, Name("keep")), load("x", data("idx", i)), 7)
    arguments = (array("x", N), array("w", K), integers("idx", K))
    own = single(arguments, result("y", K), "i", keep, Store(op("mul", 2, chosen)))
    if condition_array == "w":
        return checked(own)
    before = Kernel("t", ("i",), (Store(op("mul", 2, load("w", i))),))
    return checked(replace(own, temporaries=(Array("t", (K,)),), kernels=(before, *own.kernels)))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("condition_array", ["w", "t"])
def test_a_read_behind_a_condition_on_values_is_checked_where_it_happens(backend, condition_array):
    function = compile_program(chosen_program(condition_array), backend)
    x, w = np.arange(3.0), np.array([0.0, 2, 2, 0])
    assert function(x, w, np.array([-5, 1, 2, 99])).tolist() == [14, 2, 4, 14]
    with pytest.raises(DataIndexError, match=r"idx\[2\] is 3"):
        function(x, w, np.array([-5, 1, 3, 99]))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_data_behind_a_choice(backend):
    """Where a choice fails, the data of an index may be wrong, too."""
    value = op("select", op("lt", 0, load("w", i)), load("x", data("idx", data("jdx", i))), 7)
    arguments = (array("x", N), array("w", K), integers("idx", M), integers("jdx", K))
    function = compile_program(checked(single(arguments, result("y", K), "i", Store(value))), backend)
    x, w, idx = np.arange(3.0), np.array([1.0, -1, 1]), np.array([2, 8])
    assert function(x, w, idx, np.array([0, 5, 0])).tolist() == [2, 7, 2]
    with pytest.raises(DataIndexError, match=r"jdx\[2\] is 1: the index idx\[jdx\[i\]\] of axis 0 of x"):
        function(x, w, idx, np.array([0, 5, 1]))
    with pytest.raises(DataIndexError, match=r"jdx\[2\] is 5: the index jdx\[i\] of axis 0 of idx"):
        function(x, w, idx, np.array([0, 5, 5]))


@pytest.mark.usefixtures("uncompiled")
def test_data_as_bounds_of_loops():
    """Rows of a matrix in compressed form: the bounds are data."""
    body = loop(
        "k", data("ptr", i), data("ptr", i + 1) - 1, Add("s", op("mul", load("v", k), load("x", data("col", k))))
    )
    arguments = (array("v", K), integers("col", K), integers("ptr", N + 1), array("x", M))
    program = checked(single(arguments, result("y", N), "i", Accumulator("s"), body, Store(Name("s"))))
    v, col, ptr, x = np.arange(1.0, 6), np.array([0, 2, 1, 0, 1]), np.array([0, 2, 2, 5]), np.array([1.0, 10, 100])
    check(program, "numba", [v, col, ptr, x])
    function = compile_program(program, "numba")
    assert function(v, col, ptr, x).tolist() == [201, 0, 84]
    for wrong, place in ((6, 3), (-1, 0)):
        ptr[[0, -1]] = 0, 5
        ptr[place] = wrong
        with pytest.raises(DataIndexError, match=rf"ptr\[{place}\] is {wrong}: the index k of axis 0 of v"):
            function(v, col, ptr, x)


def test_data_behind_the_bounds_of_loops_around():
    """The entry is named that the bound of a loop inside depends on."""
    inner = loop("k", j - 1, j, Add("s", load("v", (K - 1) - k)))
    body = loop("j", data("ptr", i), data("last", i), inner)
    arguments = (array("v", K), integers("ptr", N), integers("last", N))
    program = checked(single(arguments, result("y", N), "i", Accumulator("s"), body, Store(Name("s"))))
    function = compile_program(program, "numpy")
    assert function(np.arange(5.0), np.array([2, 9]), np.array([3, 8])).tolist() == [3 + 2 + 2 + 1, 0]
    with pytest.raises(DataIndexError, match=r"ptr\[1\] is 0: the index K - k - 1 of axis 0 of v"):
        function(np.arange(5.0), np.array([3, 0]), np.array([3, 3]))
    with pytest.raises(DataIndexError, match=r"last\[0\] is 5: the index K - k - 1 of axis 0 of v"):
        function(np.arange(5.0), np.array([3, 1]), np.array([5, 3]))


@pytest.mark.usefixtures("uncompiled")
def test_one_scalar_of_data():
    function = compile_program(CASES["scalar_data"][0], "numba")
    assert function(np.array([2.0, 3.0]), 1).tolist() == [6, 9]
    with pytest.raises(DataIndexError, match=r"one\[\(\)\] is 2: the index one\[\(\)\] of axis 0 of x"):
        function(np.array([2.0, 3.0]), np.uint8(2))


def test_checked_programs_pickle():
    function = pickle.loads(pickle.dumps(compile_program(EMBEDDING, "numpy")))
    with pytest.raises(DataIndexError):
        function(X, [5])


# ---------------------------------------------------------------------------- scatters


def test_a_scatter_adds_in_order():
    """The same bits in every run: entry by entry, in the order of the loops."""
    program = CASES["histogram"][0]
    values, idx = np.array([1e16, 1.0, -1e16, 3.0]), np.array([2, 2, 2, 9])
    for backend in BACKENDS:
        assert compile_program(program, backend)(values, idx, 3).tolist() == [0, 0, 0.0]
        assert compile_program(program, backend)(values[[0, 2, 1, 3]], idx, 3).tolist() == [0, 0, 1.0]


def test_a_scatter_in_float32():
    program = CASES["histogram"][0]
    for backend in BACKENDS:
        found = compile_program(program, backend)(np.ones(5, np.float32), np.array([0, 1, 1, 7, -7]), 2)
        assert found.dtype == np.float32
        assert found.tolist() == [1, 2]


def test_plans_name_scatters():
    program = CASES["scattered_twice"][0]
    plan = compile_program(program, "numba").plan
    assert "1. fill y[i]" in plan
    assert "2. scatter: add to y[idx[k]], y[0] over i, k (one after the other, in order)" in plan
    assert "3. scatter: add to y[idx[i]] over i" in plan
    cuda = compile_program(program, "cuda")
    assert "(atomic additions in any order)" in cuda.plan
    assert "cuda.atomic.add(y, uint64(idx[uint64(k)]), " in cuda.source
    assert "scatter2_y[(*launch((K,)), stream)](y, v, idx, K, N)" in cuda.source


# ---------------------------------------------------------------------------- laws

ZEROS = Kernel("y", ("i",), (Store(Number(0)),))
HISTOGRAM = CASES["histogram"][0]
WHOLE = HISTOGRAM.kernels[1]
PLAIN = AddAt((data("idx", i),), Number(1))


def with_scatter(*body):
    return scattered(HISTOGRAM.arguments, HISTOGRAM.outputs[0], "i", (K,), *body)


BROKEN = {
    "a scatter adds to an array with axes that has been filled": replace(HISTOGRAM, kernels=(WHOLE, ZEROS)),
    "filled and not read yet": replace(
        HISTOGRAM,
        temporaries=(Array("z", (N,)),),
        kernels=(ZEROS, Kernel("z", ("i",), (Store(load("y", i)),)), WHOLE),
    ),
    "a scatter has no Store, and some AddAt": with_scatter(If(within(i, N), (Store(Number(1)),))),
    "exactly one Store is needed": replace(HISTOGRAM, kernels=(replace(ZEROS, body=(PLAIN, *ZEROS.body)),)),
    "2 indices for y of rank 1": with_scatter(AddAt((i, i), Number(1))),
    "y is read before it is written": with_scatter(AddAt((i,), load("y", i))),
    "v in v[i] is no array of integers": with_scatter(AddAt((data("v", i),), Number(1))),
    "2 indices for idx of rank 1": with_scatter(AddAt((data("idx", i, i),), Number(1))),
    "idx holds integers, which are read in index forms": with_scatter(AddAt((i,), load("idx", i))),
    "j in idx[j] is no integer defined before": with_scatter(AddAt((data("idx", j),), Number(1))),
    "axis 0 of the read y[idx[i]] in AddAt is not provably inside": with_scatter(PLAIN),
    "2 axes for rank 1": replace(HISTOGRAM, kernels=(ZEROS, Scatter("y", ("i", "j"), (PLAIN,), (K,)))),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_laws(message):
    with pytest.raises(VerificationError) as error:
        verify(BROKEN[message])
    assert message in str(error.value)


def test_reads_of_data_have_to_be_inside():
    """An entry of data is read where its index is inside for sure, or where sizes say so."""
    program = single((array("x", N), integers("idx", K)), result("y", N), "i", Store(load("x", data("idx", i))))
    with pytest.raises(VerificationError, match=r"axis 0 of the read idx\[i\] in Store is not provably inside"):
        verify(checked_data_only(program))


def checked_data_only(program):
    return replace(program, data_checks=data_checks(program))


def test_counts_of_a_scatter():
    from sympy_tensordiff.codegen.count import count

    counts = count(CASES["scattered_in_loops"][0], {"K": 4, "N": 3, "idx": [0, 1, 5, 2]})
    assert [kernel.stores for kernel in counts.kernels] == [3, 4]
    assert counts.iterations == 10


def test_integers_as_numbers():
    argument = Argument("integer", "N", "N")
    value = op("mul", IndexValue(data("idx", i) + Affine.of(1)), load("x", i))
    program = single((array("x", N), integers("idx", N), argument), result("y", N), "i", Store(value))
    for backend in BACKENDS:
        check(program, backend, [np.ones(3, np.float32), np.array([1, -2, 5]), 3], rtol=1e-6, dtype=np.float32)
