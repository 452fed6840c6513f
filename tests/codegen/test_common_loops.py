"""Loops over the entries of one row that compute the same costly value become one loop."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import Set, accumulator, add, let
from sympy_tensordiff.codegen.ir.nests import extent, lengths, span
from sympy_tensordiff.codegen.ir.scalars import External, Load, Name, Number, Operation
from sympy_tensordiff.codegen.ir.walk import loads, scalars
from sympy_tensordiff.codegen.schedule.common_loops import with_common_loops
from sympy_tensordiff.integer.affine import Affine

J, K, M = map(Affine.variable, "jkm")


def times(*factors):
    return Operation("mul", factors)


def exp(value):
    return Operation("exp", (value,))


def log(index):
    return Operation("log", (Load("x", (index,)),))


def joined(*body):
    """The joined loops; the axes of `a` and `b` have the extent m."""
    names = iter(f"w{n}" for n in range(99))
    return with_common_loops(body, {**lengths("a", [M]), **lengths("b", [M])}, lambda name: next(names))


def first(*body, variable="j", stop=M):
    return span(variable, Affine(), stop, body)


A, B = Load("a", (J,)), Load("b", (K,))


def test_a_common_value_is_computed_once():
    one = first(Set(A, times(log(J), Name("s"))), stop=extent("a", 0))
    other = first(Set(B, times(log(K), Name("t"))), variable="k", stop=extent("b", 0))
    (loop,) = joined(one, other)
    value, store_a, store_b = loop.body
    assert value == let("w0", log(J))
    assert store_a == Set(A, times(Name("w0"), Name("s")))
    assert store_b == Set(Load("b", (J,)), times(Name("w0"), Name("t")))


def test_an_entry_that_was_stored_is_not_read_again():
    one = first(Set(A, times(log(J), log(J))))
    (loop,) = joined(one, accumulator("s"), first(add("s", times(Load("a", (K,)), log(K))), variable="k"))[1:]
    assert not [load for load in loads([loop]) if load.array == "a" and load != A]
    assert sum(isinstance(part, Operation) and part.function == "log" for part in scalars([loop])) == 1
    assert add("s", times(Name("w1"), Name("w0"))) in loop.body


def test_inner_terms_come_first():
    begin, factor = accumulator("s"), let("c", exp(Name("r")))
    one, other = first(Set(A, log(J))), first(add("s", times(Name("c"), log(J))))
    after = Set(Load("z", ()), Load("a", (Affine(),)))
    assert joined(one, begin, after, factor, other)[:2] == (begin, factor)
    assert joined(one, begin, after, factor, other)[3:] == (after,)


@pytest.mark.parametrize(
    "body",
    {
        "nothing in common": [first(Set(A, log(J))), first(Set(B, log(J + 1)), variable="k")],
        "only the same in all iterations": [
            first(Set(A, times(exp(Name("r")), Load("x", (J,))))),
            first(Set(B, times(exp(Name("r")), Load("y", (K,)))), variable="k"),
        ],
        "cheap": [
            first(Set(A, times(Load("x", (J,)), Load("y", (J,))))),
            first(Set(B, times(Load("x", (K,)), Load("y", (K,)))), variable="k"),
        ],
        "an entry that is stored": [
            first(Set(A, log(J))),
            first(Set(B, times(Load("a", (K,)), Load("y", (K,)))), variable="k"),
        ],
        "a column": [first(Set(A, log(J))), first(Set(B, times(log(K), Load("c", (K, Affine())))), variable="k")],
        "other ranges": [first(Set(A, log(J))), first(Set(B, log(K)), variable="k", stop=M - 1)],
        "an entry of another iteration": [
            first(Set(A, log(J))),
            first(Set(B, times(log(K), Load("a", (K + 1,)))), variable="k"),
        ],
        "the whole sum": [
            accumulator("s"),
            first(add("s", log(J))),
            first(Set(B, times(log(K), Name("s"))), variable="k"),
        ],
        "a function of the sum": [
            accumulator("s"),
            first(add("s", log(J))),
            let("r", exp(Name("s"))),
            first(Set(B, times(log(K), Name("r"))), variable="k"),
        ],
        "an array that the first loop reads": [
            first(Set(A, times(log(J), Load("b", (J + 1,))))),
            first(Set(B, log(K)), variable="k"),
        ],
        "a running sum that is stored": [
            first(Set(A, log(J))),
            accumulator("s"),
            first(Set(B, Name("s")), add("s", log(K)), variable="k"),
        ],
        "a scalar that goes on to the next entry": [
            first(Set(A, log(J))),
            let("old", Number(0)),
            first(Set(B, times(Name("old"), log(K))), let("old", log(K)), variable="k"),
        ],
        "an array that is read in between": [
            first(Set(A, log(J))),
            let("r", Load("b", (Affine(),))),
            first(Set(B, log(K)), variable="k"),
        ],
        "the same array": [first(Set(A, log(J))), first(Set(Load("a", (K,)), log(K)), variable="k")],
        "a user's function": [
            first(Set(A, Operation(External("f", (0,)), (log(J),)))),
            first(Set(B, Operation(External("f", (0,)), (log(K),))), variable="k"),
        ],
    }.values(),
    ids=str,
)
def test_loops_that_stay(body):
    assert joined(*body) is None


def test_a_branch_is_computed_only_where_it_is_taken():
    test = Operation("lt", (Number(0), Load("x", (J,))))
    chosen = Operation("select", (test, times(log(J), Load("y", (J,))), Number(0)))
    (loop,) = joined(first(Set(A, chosen)), first(Set(Load("b", (J,)), Operation("add", (chosen, Number(1))))))
    value, *stores = loop.body
    assert value.value.function == "select"
    assert stores == [Set(A, Name("w0")), Set(Load("b", (J,)), Operation("add", (Name("w0"), Number(1))))]
    other = Operation("select", (test, times(log(J), Load("z", (J,))), Number(0)))
    (loop,) = joined(first(Set(A, chosen)), first(Set(Load("b", (J,)), other)))
    assert not any(isinstance(part.value, Operation) and part.value.function == "log" for part in loop.body)


def test_scalars_that_change_keep_their_names():
    begin = let("p", Number(0)), let("q", Number(0)), let("r", Number(0))
    changes = first(let("p", times(Name("p"), Name("q"))), let("r", Name("p")))
    last = let("u", exp(Name("p"))), let("v", exp(Name("q"))), let("w", exp(Name("q")))
    use = Set(Load("z", ()), times(Name("u"), Name("v"), Name("w"), Name("r")))
    loops = first(Set(A, log(J))), first(Set(B, log(K)), variable="k")
    found = joined(*begin, changes, *last, *loops, use)
    assert found[:6] == (*begin, changes, *last[:2])
    assert found[-1] == Set(Load("z", ()), times(Name("u"), Name("v"), Name("v"), Name("r")))


def test_functions_of_a_sum_that_goes_on_differ():
    begin, first_terms = accumulator("s"), first(add("s", Load("y", (J,))), stop=M - 2)
    other = first(add("s", Load("y", (K,))), variable="k", stop=M - 1)
    body = begin, first_terms, let("u", exp(Name("s"))), other, let("v", exp(Name("s")))
    use = Set(Load("z", ()), times(Name("u"), Name("v")))
    loops = first(Set(A, log(J))), first(Set(B, log(K)), variable="k")
    found = joined(*body, *loops, use)
    assert found[-1] == use
    assert found[:5] == body


i, j, n, m = td.indices("i j n m")
a, c, x = td.TensorSymbol("a", n), td.TensorSymbol("c", n), td.TensorSymbol("x", m)
value = sympy.log(1 + a[i] ** 2 * x[j] ** 2) / sympy.sqrt(c[i] ** 2 + x[j] ** 2)
LOSS = td.IndexedSum((value - a[i] * c[i]) ** 2, (j, 0, m - 1), (i, 0, n - 1))


def test_functions_of_a_row_and_a_column_are_computed_once_in_a_loop():
    function = td.lambdify((a, c, x), (LOSS, *td.gradient(LOSS, (a, c))), "llvm")
    assert "common loops" in function.plan
    kernels = function.source.split("\ndef fill_")[1:]
    assert all(kernel.count("log(") <= 1 and kernel.count("sqrt(") <= 1 for kernel in kernels)


@pytest.mark.in_turns(8)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 4), (6, 5), (40, 70)])
def test_values(shape):
    results = (LOSS, *td.gradient(LOSS, (a, c, x)))
    arrays = [np.random.default_rng(k).uniform(0.5, 2, shape[k > 1]) for k in range(3)]
    found = td.lambdify((a, c, x), results, "llvm")(*arrays)
    expected = td.lambdify((a, c, x), results, "numpy", temporaries=False)(*arrays)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-11)


k, d, p = td.indices("k d p")
Y, Z = td.TensorSymbol("Y", (n, d)), td.TensorSymbol("Z", (m, d))
distance = td.IndexedSum((Y[i, k] - Z[j, k]) ** 2, (k, 0, d - 1))
HINGE = td.IndexedSum(sympy.Max(0, 3 - distance), (j, 0, m - 1), (i, 0, n - 1))


def test_a_distance_in_a_value_and_in_a_condition_is_computed_once():
    """The gradient of a hinge asks whether the distance is less than its margin; the value adds the same distance."""
    function = td.lambdify((Y, Z), (HINGE, *td.gradient(HINGE, (Y, Z))), "llvm", parallel=False)
    assert function.source.count("**2") == 1
    arrays = [np.random.default_rng(s).normal(size=(s, 4)) for s in (5, 9)]
    differences = arrays[0][:, None] - arrays[1]
    distances = (differences**2).sum(2)
    assert (distances < 3).any()
    assert (distances > 3).any()
    weighted = 2 * differences * (distances < 3)[..., None]
    expected = np.maximum(0, 3 - distances).sum(), -weighted.sum(1), weighted.sum(0)
    for one, other in zip(function(*arrays), expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-12, atol=1e-12)


t, s = td.indices("t s")
P, Q = td.TensorSymbol("P", (m, n)), td.TensorSymbol("Q", (m, n))
u, v, w = (td.TensorSymbol(name, m) for name in "uvw")


def test_values_of_two_reservoirs():
    """Two running sums with moments in a row: what one goes on from and what the other does both begin with 0."""
    fast, slow = (td.IndexedSum(P[i, s] * sympy.exp(-(t - s) * rate[i]), (s, 0, t)) for rate in (u, v))
    runoff = w[i] * fast * (1 - sympy.exp(-u[i])) + (1 - w[i]) * slow
    loss = td.IndexedSum((sympy.sqrt(runoff) - sympy.sqrt(Q[i, t])) ** 2, (t, 0, n - 1), (i, 0, m - 1))
    function = td.lambdify((P, Q, u, v, w), (loss, *td.gradient(loss, (u, w))), "llvm")
    assert "common loops" in function.plan
    rng = np.random.default_rng(0)
    rain, flow = rng.uniform(0.5, 1.5, (2, 3, 20))
    rates, share = rng.uniform(0.1, 0.9, (2, 3)), rng.uniform(size=3)
    lags = np.tril(np.subtract.outer(np.arange(20), np.arange(20)))
    decays = np.tril(np.exp(-lags * rates[..., None, None]))
    fast, slow = np.einsum("kits,is->kit", decays, rain)
    of_rate = -np.einsum("its,is->it", lags * decays[0], rain)
    remaining, share = np.exp(-rates[0])[:, None], share[:, None]
    root = np.sqrt(share * fast * (1 - remaining) + (1 - share) * slow)
    outer = (root - np.sqrt(flow)) / root
    by_rate = (outer * share * (of_rate * (1 - remaining) + fast * remaining)).sum(1)
    by_share = (outer * (fast * (1 - remaining) - slow)).sum(1)
    expected = ((root - np.sqrt(flow)) ** 2).sum(), by_rate, by_share
    for one, other in zip(function(rain, flow, *rates, share[:, 0]), expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-10, atol=1e-10)
