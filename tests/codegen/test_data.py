"""Data that select entries: arguments, checks before any kernel; in loop nests built by hand: scatters, laws."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from oracle import check
from programs import (
    CASES,
    K,
    N,
    array,
    data,
    i,
    integers,
    j,
    load,
    op,
    result,
    scattered,
    single,
    within,
)
from sympy import Piecewise

import sympy_tensordiff as td
from sympy_tensordiff.codegen.compile import compile_program
from sympy_tensordiff.codegen.loops import (
    AddAt,
    Argument,
    Array,
    Check,
    If,
    Kernel,
    Scatter,
    Store,
)
from sympy_tensordiff.codegen.masks import with_masks
from sympy_tensordiff.codegen.scalars import IndexValue, Number
from sympy_tensordiff.codegen.verify import verify
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, DataIndexError, VerificationError
from sympy_tensordiff.integer.affine import Affine, Row

BACKENDS = ("numpy", "numba")
EMBEDDING = CASES["embedding"][0]
X = np.arange(12.0).reshape(4, 3)


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
# What a call refuses is read off an expression.

at, of, row, n, m, rows = td.indices("i j k n m rows")
x, w, v = td.TensorSymbol("x", n), td.TensorSymbol("w", m), td.TensorSymbol("v", m)
idx, jdx, off = (td.TensorSymbol(name, m, dtype=int) for name in ("idx", "jdx", "off"))
ptr, last = td.TensorSymbol("ptr", rows + 1, dtype=int), td.TensorSymbol("last", rows + 1, dtype=int)
table, total = td.TensorComprehension, td.IndexedSum
AXES = np.arange(4.0)


def where(value, condition, otherwise=0):
    return Piecewise((value, condition), (otherwise, True))


def refused(function, message, *arguments):
    with pytest.raises(DataIndexError, match=message):
        function(*arguments)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_data_that_leave_an_axis(backend):
    function = td.lambdify([x, idx], table(x[idx[at]], (at, m)), backend)
    for worst, place in ((4, 2), (-1, 0), (2**40, 3)):
        given = np.array([0, 1, 2, 3])
        given[place] = worst
        message = rf"idx\[{place}\] is {worst}: the index idx\[i\] of axis 0 of x has to be from 0 to 3; negative"
        refused(function, message, AXES, given)
        with pytest.raises(IndexError):
            function(AXES, given)
    np.testing.assert_array_equal(function(AXES, np.array([3, 3])), [3, 3])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_nested_data(backend):
    selected = td.TensorSymbol("idx", 3, dtype=int)
    value = table(total(x[selected[jdx[row]]], (row, 0, at)) * jdx[at], (at, m))
    function = td.lambdify([x, selected, jdx], value, backend)
    ones, given = np.ones(4), np.array([0, 9, 1])
    assert function(ones, given, np.array([2, 0, 2, 0])).tolist() == [2, 0, 6, 0]  # the entry 9 is not read
    refused(function, r"idx\[1\] is 9: the index idx\[jdx\[k\]\] of axis 0 of x", ones, given, np.array([0, 0, 1, 0]))
    message = r"jdx\[3\] is 3: the index jdx\[k\] of axis 0 of idx .* from 0 to 2"
    refused(function, message, ones, given, np.array([0, 0, 1, 3]))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_forms_of_data_are_checked_as_they_are_read(backend):
    """The extremes alone would refuse what is never read."""
    function = td.lambdify([x, off], table(x[at + off[at]], (at, m)), backend)
    assert function(AXES, np.array([3, 0, -1, -3])).tolist() == [3, 1, 1, 0]
    refused(function, r"off\[1\] is 3: the index i \+ off\[i\] of axis 0 of x", AXES, np.array([0, 3, 0, 0]))


def test_wrong_indices_of_computed_values():
    doubled = table(2 * w[of], (of, m))
    selected = td.TensorSymbol("idx", n, dtype=int)
    function = td.lambdify([w, selected], table(where(doubled[selected[at]], w[0] > 0), (at, n)), "numpy")
    assert function(np.array([3.0, 5]), np.array([1, 1, 0])).tolist() == [10, 10, 6]
    message = r"idx\[0\] is 2: .* axis 0 of t, which holds computed values, has to be"
    refused(function, message, np.array([3.0, 5]), np.array([2, 1, 0]))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("condition", [w[at], table(total(w[of], (of, at, at)), (at, m))[at]])
def test_a_read_behind_a_condition_on_values_is_checked_where_it_happens(backend, condition):
    function = td.lambdify([x, w, idx], table(2 * where(x[idx[at]], condition > 1, 7), (at, m)), backend)
    values = np.array([0.0, 2, 2, 0])
    assert function(AXES[:3], values, np.array([-5, 1, 2, 99])).tolist() == [14, 2, 4, 14]
    refused(function, r"idx\[2\] is 3", AXES[:3], values, np.array([-5, 1, 3, 99]))
    refused(function, r"idx\[2\] is 3", AXES[:3].astype("f4"), values.astype("f4"), np.array([-5, 1, 3, 99]))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_data_behind_a_choice(backend):
    """Where a choice fails, the data of an index may be wrong, too."""
    selected = td.TensorSymbol("idx", 2, dtype=int)
    value = table(where(x[selected[jdx[at]]], w[at] > 0, 7), (at, m))
    function = td.lambdify([x, w, selected, jdx], value, backend)
    given = AXES[:3], np.array([1.0, -1, 1]), np.array([2, 8])
    assert function(*given, np.array([0, 5, 0])).tolist() == [2, 7, 2]
    refused(function, r"idx\[1\] is 8: the index idx\[jdx\[i\]\] of axis 0 of x", *given, np.array([0, 5, 1]))
    refused(function, r"jdx\[2\] is 5: the index jdx\[i\] of axis 0 of idx", *given, np.array([0, 5, 5]))


@pytest.mark.usefixtures("uncompiled")
def test_data_as_bounds_of_loops():
    """Rows of a matrix in compressed form: the bounds are data."""
    product = table(total(v[row] * x[idx[row]], (row, ptr[at], ptr[at + 1] - 1)), (at, rows))
    function = td.lambdify([v, idx, ptr, x], product)
    given = np.arange(1.0, 6), np.array([0, 2, 1, 0, 1]), np.array([0, 2, 2, 5]), np.array([1.0, 10, 100])
    assert function(*given).tolist() == [201, 0, 84]
    for wrong, place in ((6, 3), (-1, 0)):
        given[2][[0, -1]] = 0, 5
        given[2][place] = wrong
        refused(function, rf"ptr\[{place}\] is {wrong}: the index k of axis 0 of v", *given)


def test_data_behind_the_bounds_of_loops_around():
    """The entry is named that the bound of a loop inside depends on."""
    inner = total(v[m - 1 - row], (row, of - 1, of), (of, ptr[at], last[at]))
    function = td.lambdify([v, ptr, last], table(inner, (at, rows + 1)), "numpy")
    values = np.arange(5.0)
    assert function(values, np.array([2, 9]), np.array([3, 8])).tolist() == [3 + 2 + 2 + 1, 0]
    message = r"{} is {}: the index -k \+ m - 1 of axis 0 of v"
    refused(function, message.format(r"ptr\[1\]", 0), values, np.array([3, 0]), np.array([3, 3]))
    refused(function, message.format(r"last\[0\]", 5), values, np.array([3, 1]), np.array([5, 3]))


@pytest.mark.usefixtures("uncompiled")
def test_one_scalar_of_data():
    one = td.TensorSymbol("one", (), dtype=int)
    function = td.lambdify([x, one], table(where(x[one[()]] * x[at], x[at] > 0), (at, n)))
    assert function(np.array([2.0, 3.0]), 1).tolist() == [6, 9]
    message = r"one\[\(\)\] is 2: the index one\[\(\)\] of axis 0 of x"
    refused(function, message, np.array([2.0, 3.0]), np.uint8(2))


def test_checked_programs_pickle():
    chosen = td.lambdify([x, w, idx], table(where(x[idx[at]], w[at] > 0), (at, m)), "numpy")
    refused(pickle.loads(pickle.dumps(chosen)), r"idx\[0\] is 5", AXES, np.ones(1), [5])


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


def test_reads_by_data_are_tested():
    """Nothing proves them inside."""
    program = single((array("x", N), integers("idx", K)), result("y", N), "i", Store(load("x", data("idx", i))))
    with pytest.raises(VerificationError, match=r"axis 0 of the read x\[idx\[i\]\] in Store is not provably inside"):
        verify(replace(program, checks=(Check((Row("ge", N - K - 1),), "too short"),)))
    verify(with_masks(program))


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
