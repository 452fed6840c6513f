"""Data that select entries: arguments, checks before any kernel; in loop nests built by hand: scatters, laws."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from programs import (
    CASES,
    K,
    N,
    add_at,
    array,
    data,
    i,
    integers,
    j,
    load,
    owned,
    result,
    scattered,
    single,
    store,
    within,
)
from sympy import KroneckerDelta, Max, Min, Mod, Ne, Piecewise, floor

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.helpers import NUMPY_HELPERS
from sympy_tensordiff.codegen.ir.loops import If, Set
from sympy_tensordiff.codegen.ir.programs import Array, Check, Scatter, entrywise
from sympy_tensordiff.codegen.ir.scalars import Number
from sympy_tensordiff.codegen.ir.verify import verify, with_masks
from sympy_tensordiff.codegen.run.compile import CompiledFunction
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, DataIndexError, VerificationError
from sympy_tensordiff.integer.affine import Constraint

BACKENDS = ("numpy", "numba")
EMBEDDING = CASES["embedding"][0]
X = np.arange(12.0).reshape(4, 3)


# ---------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4"])
def test_any_integers_select(dtype):
    idx = np.array([3, 0, 3, 1], dtype)
    for backend in BACKENDS:
        np.testing.assert_array_equal(CompiledFunction(EMBEDDING, backend)(X, idx), X[[3, 0, 3, 1]])


REFUSED = {
    r"idx has dtype float64, but selects entries: integers are needed; pass .astype\(int\)": np.ones(3),
    r"idx has dtype bool, but selects entries: integers are needed; np.flatnonzero makes them": np.ones(3, bool),
    r"idx has dtype complex128, but selects entries: integers are needed": np.ones(3, complex),
    r"idx has dtype object, but selects entries: integers are needed; pass .astype\(int\)": np.ones(3, object),
}


@pytest.mark.parametrize("message", REFUSED)
def test_other_data_are_refused(message):
    with pytest.raises(ArgumentTypeError, match=message):
        CompiledFunction(EMBEDDING, "numpy")(X, REFUSED[message])


def test_data_too_large_for_the_arithmetic_of_kernels():
    for worst in (np.uint64(2**64 - 1), np.int64(-(2**63))):
        with pytest.raises(ArgumentError, match=r"idx holds an integer of size -?\d+, too large for an index"):
            CompiledFunction(EMBEDDING, "numpy")(X, np.array([0, worst], type(worst)))


# ---------------------------------------------------------------------------- checks
# What a call refuses is read off an expression.

at, of, row, n, m, rows = td.indices("i j k n m rows")
x, w, v, z = (td.TensorSymbol(name, size) for name, size in (("x", n), ("w", m), ("v", m), ("z", (6, 6))))
idx, jdx, off = (td.TensorSymbol(name, m, dtype=int) for name in ("idx", "jdx", "off"))
ptr, last = td.TensorSymbol("ptr", rows + 1, dtype=int), td.TensorSymbol("last", rows + 1, dtype=int)
one, few, pair = (td.TensorSymbol(name, size, dtype=int) for name, size in (("one", ()), ("few", n), ("pair", 2)))
pairs, place = td.TensorSymbol("pairs", (5, 3), dtype=int), td.TensorSymbol("place", 1, dtype=int)
table, total = td.TensorComprehension, td.IndexedSum
DOUBLED = table(2 * w[of], (of, m))
CHOSEN = Ne(Mod(Max(-at - 1, 2 * at - 1), 5), 3) & Ne(Max(0, Min(1, at)) + 4 * place[Max(3, at + 1) - 3], 0)
long, AXES, ONES = td.TensorSymbol("long", 6), np.arange(4.0), np.ones(4, int)


def where(value, condition, otherwise=0):
    return Piecewise((value, condition), (otherwise, True))


def behind(condition):
    """A read behind a condition on values, where it does not hold at the ends, and the data there are wrong."""
    return (
        table(2 * where(x[idx[at]], condition > 1, 7), (at, m)),
        {x: AXES[:3], w: np.array([0.0, 2, 2, 0]), idx: np.array([-5, 1, 2, 99])},
        [14, 2, 4, 14],
        ({idx: np.array([-5, 1, 3, 99])}, r"idx\[2\] is 3"),
        ({x: np.ones(3, "f4"), w: np.array([0, 2, 2, 0], "f4"), idx: np.array([-5, 1, 3, 99])}, r"idx\[2\] is 3"),
    )


# A function, arguments and its value there, and other arguments with what is said of them.
REFUSED_READS = {
    "an axis": (
        table(x[idx[at]], (at, m)),
        {x: AXES, idx: np.array([3, 3, 0, 1])},
        [3, 3, 0, 1],
        *(
            (
                {idx: np.array([0, 1, worst])},
                rf"idx\[2\] is {worst}: the index idx\[i\] of axis 0 of x has to be from 0 to 3; neg",
            )
            for worst in (4, -1, 2**40)
        ),
    ),
    "nested data": (
        table(total(x[few[jdx[row]]], (row, 0, at)) * jdx[at], (at, m)),
        {x: np.ones(3), few: np.array([0, 9, 1]), jdx: np.array([2, 0, 2, 0])},  # the entry 9 is not read
        [2, 0, 6, 0],
        ({jdx: np.array([0, 0, 1, 0])}, r"few\[1\] is 9: the index few\[jdx\[k\]\] of axis 0 of x"),
        ({jdx: np.array([0, 0, 1, 3])}, r"jdx\[3\] is 3: the index jdx\[k\] of axis 0 of few .* from 0 to 2"),
    ),
    "a form, of which the extremes alone would refuse what is never read": (
        table(x[at + off[at]], (at, m)),
        {x: AXES, off: np.array([3, 0, -1, -3])},
        [3, 1, 1, 0],
        ({off: np.array([0, 3, 0, 0])}, r"off\[1\] is 3: the index i \+ off\[i\] of axis 0 of x"),
    ),
    "computed values": (
        table(where(DOUBLED[few[at]], w[0] > 0), (at, n)),
        {w: np.array([3.0, 5]), few: np.array([1, 1, 0])},
        [10, 10, 6],
        ({few: np.array([2, 1, 0])}, r"few\[0\] is 2: .* axis 0 of t, which holds computed values, has to be"),
    ),
    "a condition on values": behind(w[at]),
    "a condition on a table": behind(table(total(w[of], (of, at, at)), (at, m))[at]),
    "data behind a choice": (
        table(where(x[pair[jdx[at]]], w[at] > 0, 7), (at, m)),
        {x: AXES[:3], w: np.array([1.0, -1, 1]), pair: np.array([2, 8]), jdx: np.array([0, 5, 0])},
        [2, 7, 2],
        ({jdx: np.array([0, 5, 1])}, r"pair\[1\] is 8: the index pair\[jdx\[i\]\] of axis 0 of x"),
        ({jdx: np.array([0, 5, 5])}, r"jdx\[2\] is 5: the index jdx\[i\] of axis 0 of pair"),
    ),
    "rows of a matrix in compressed form": (
        table(total(v[row] * x[idx[row]], (row, ptr[at], ptr[at + 1] - 1)), (at, rows)),
        {v: np.arange(1.0, 6), idx: [0, 2, 1, 0, 1], ptr: np.array([0, 2, 2, 5]), x: np.array([1.0, 10, 100])},
        [201, 0, 84],
        ({ptr: np.array([0, 2, 2, 6])}, r"ptr\[3\] is 6: the index k of axis 0 of v"),
        ({ptr: np.array([-1, 2, 2, 5])}, r"ptr\[0\] is -1: the index k of axis 0 of v"),
    ),
    "the bounds of loops around": (
        table(total(v[m - 1 - row], (row, of - 1, of), (of, ptr[at], last[at])), (at, rows + 1)),
        {v: np.arange(5.0), ptr: np.array([2, 9]), last: np.array([3, 8])},
        [3 + 2 + 2 + 1, 0],
        ({ptr: np.array([3, 0]), last: np.array([3, 3])}, r"ptr\[1\] is 0: the index -k \+ m - 1 of axis 0 of v"),
        ({ptr: np.array([3, 1]), last: np.array([5, 3])}, r"last\[0\] is 5: the index -k \+ m - 1 of axis 0 of v"),
    ),
    "one scalar": (
        table(where(x[one[()]] * x[at], x[at] > 0), (at, n)),
        {x: np.array([2.0, 3]), one: 1},
        [6, 9],
        ({one: np.uint8(2)}, r"one\[\(\)\] is 2: the index one\[\(\)\] of axis 0 of x"),
    ),
    "several conditions that read outside": (
        total(KroneckerDelta(idx[at], 1) * KroneckerDelta(few[at], 1) * long[at], (at, 0, 3)),
        {long: np.ones(6), idx: np.array([1, 0, 0, 0]), few: ONES[:1]},
        1,
        *(
            ({idx: first, few: second}, r"no condition on data rules out a read outside: the index .* of axis")
            for first, second in ((ONES[:1], ONES), (ONES[:1], ONES[:1]))
        ),
    ),
    "data that decide whether others are read": (
        table(where(z[pairs[at - 1, floor(2 * at / 3)] + 1, 5 - 4 * at], CHOSEN), (at, 2)),
        {z: np.arange(36.0).reshape(6, 6), pairs: np.ones((5, 3), int), place: np.zeros(1, int)},
        [0, 13],
        ({place: np.ones(1, int)}, r"place\[0\] is 1: the index (5\*)?i - 1 of axis 0 of pairs"),
    ),
}


@pytest.mark.in_turns(8)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", REFUSED_READS)
def test_data_that_leave(name, backend):
    function, given, value, *refusals = REFUSED_READS[name]
    kernel = td.lambdify(list(given), function, backend)
    np.testing.assert_array_equal(kernel(*given.values()), value)
    for changed, message in refusals:
        with pytest.raises(DataIndexError, match=message) as error:
            kernel(*(given | changed).values())
        assert isinstance(error.value, IndexError)


def test_checked_programs_pickle():
    chosen = td.lambdify([x, w, idx], table(where(x[idx[at]], w[at] > 0), (at, m)), "numpy")
    with pytest.raises(DataIndexError, match=r"idx\[0\] is 5"):
        pickle.loads(pickle.dumps(chosen))(AXES, np.ones(1), [5])


# ---------------------------------------------------------------------------- scatters


def test_a_scatter_in_float32():
    program = CASES["histogram"][0]
    for backend in BACKENDS:
        found = CompiledFunction(program, backend)(np.ones(5, np.float32), np.array([0, 1, 1, 7, -7]), 2)
        assert found.dtype == np.float32
        assert found.tolist() == [1, 2]


def test_plans_name_scatters():
    program = CASES["scattered_twice"][0]
    plan = CompiledFunction(program, "numba").plan
    assert "1. fill y[i]" in plan
    assert "2. scatter: add to y[idx[k]], y[0] over i, k (one after the other, in order)" in plan
    assert "3. scatter: add to y[idx[i]] over i" in plan
    cuda = CompiledFunction(program, "cuda")
    assert "(atomic, in any order)" in cuda.plan
    assert "cuda.atomic.add(y, uint64(idx[uint64(k)]), " in cuda.source
    assert "scatter2_y[(*launch((K,)), stream)](y, v, idx, K, N)" in cuda.source


# ---------------------------------------------------------------------------- laws

ZEROS = entrywise("y", ("i",), [], Number(0))
HISTOGRAM = CASES["histogram"][0]
WHOLE = HISTOGRAM.kernels[1]
PLAIN = add_at((data("idx", i),), Number(1))


def with_scatter(*body):
    return scattered(HISTOGRAM.arguments, HISTOGRAM.outputs[0], "i", (K,), *body)


BROKEN = {
    "step y: y is read before it is complete": replace(HISTOGRAM, kernels=(WHOLE, ZEROS)),
    "step z: y is read before it is complete": replace(
        HISTOGRAM,
        temporaries=(Array("z", (N,)),),
        kernels=(ZEROS, entrywise("z", ("i",), [], load("y", i)), WHOLE),
    ),
    "a scatter sets no entry, and adds to some": with_scatter(If(within(i, N), (store(Number(1)),))),
    "its own entry is set once": replace(HISTOGRAM, kernels=(owned(replace(ZEROS, body=(PLAIN, *ZEROS.body))),)),
    "a scatter has sums only": with_scatter(replace(PLAIN, reduction="max")),
    "a scatter adds to an array with axes": replace(
        HISTOGRAM,
        outputs=(Array("y", ()),),
        kernels=(entrywise("y", (), [], Number(0)), owned(Scatter("y", (), (add_at((), Number(1)),), ()))),
    ),
    "kernel y writes to v, which is not its own": with_scatter(Set(load("v", i), Number(1), "sum")),
    "kernel y writes to y at 2 indices": with_scatter(add_at((i, i), Number(1))),
    "y is read before": with_scatter(add_at((i,), load("y", i))),
    "v in v[i] is not an array of integers": with_scatter(add_at((data("v", i),), Number(1))),
    "kernel y reads idx at 2 indices": with_scatter(add_at((data("idx", i, i),), Number(1))),
    "idx holds integers, which are read in index forms": with_scatter(add_at((i,), load("idx", i))),
    "kernel y uses j before it is set": with_scatter(add_at((data("idx", j),), Number(1))),
    "axis 0 of the read y[idx[i]] in Set is not provably inside": with_scatter(PLAIN),
    "2 axes for rank 1": replace(HISTOGRAM, kernels=(ZEROS, owned(Scatter("y", ("i", "j"), (PLAIN,), (K,))))),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_laws(message):
    with pytest.raises(VerificationError) as error:
        verify(BROKEN[message])
    assert message in str(error.value)


def test_reads_by_data_are_tested():
    """Nothing proves them inside."""
    program = single((array("x", N), integers("idx", K)), result("y", N), "i", store(load("x", data("idx", i))))
    with pytest.raises(VerificationError, match=r"axis 0 of the read x\[idx\[i\]\] in Set is not provably inside"):
        verify(replace(program, checks=(Check((Constraint("ge", N - K - 1),), "too short"),)))
    verify(with_masks(program))


def test_masked_entries_are_read_inside_of_the_array_whatever_the_mask_leaves_open():
    """A mask may have no upper end, where conditions around it have one that NumPy evaluates later."""
    space = {"np": np}
    for name in ("nearest", "inside"):
        exec(NUMPY_HELPERS[name], space)
    entries, place = np.array([3, 5, 7]), np.array([-4, 0, 2, 9])
    np.testing.assert_array_equal(space["inside"](entries, place >= 0, place), [0, 3, 7, 7])
    np.testing.assert_array_equal(space["inside"](entries[:0], place >= 9, place), [0, 0, 0, 0])
