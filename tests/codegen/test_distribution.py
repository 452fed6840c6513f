"""Loops over a reduction and a function of its result become two loops: functions are computed in vectors."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import Loop, Set, accumulator, add, let
from sympy_tensordiff.codegen.ir.nests import span
from sympy_tensordiff.codegen.ir.scalars import Bound, Ends, Load, Name, Operation
from sympy_tensordiff.codegen.ir.walk import live_statements, loops, scalars
from sympy_tensordiff.codegen.lower.materialise import is_dear
from sympy_tensordiff.codegen.schedule.distribution import distributed
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import IndirectIndex

n, m, d = sympy.symbols("n m d", integer=True, positive=True)
i, j, k = td.indices("i j k")
X, C, w = td.TensorSymbol("X", (n, d)), td.TensorSymbol("C", (m, d)), td.TensorSymbol("w", m)
distance = td.IndexedSum((X[i, k] - C[j, k]) ** 2, (k, 0, d - 1))
network = td.TensorComprehension(td.IndexedSum(w[j] * sympy.exp(-distance), (j, 0, m - 1)), (i, n))

ROW, COLUMN = Affine.variable("j"), Affine.variable("k")
INNER = span("k", Affine(), Affine.variable("d"), [add("r", Load("c", (ROW, COLUMN)))])
OUTER = [accumulator("r"), INNER, add("s", Operation("exp", (Name("r"),)))]


def fresh(name):
    return f"{name}_"


def loop_over(body, stop="m"):
    return span("j", Affine(), Affine.variable(stop) if isinstance(stop, str) else Affine.of(stop), body)


def test_a_function_of_a_sum_has_a_loop_without_loops():
    buffers, strips = distributed(loop_over(OUTER), "c", fresh)
    reductions, functions = strips.body
    assert [buffer.name for buffer in buffers] == ["r_row_"]
    assert any(loops(reductions.body))
    assert not any(loops(functions.body))
    assert [part.function for part in scalars(functions.body) if isinstance(part, Operation)] == ["exp"]


def test_positions_that_data_select_are_read_in_both_loops():
    """An integer of the first loop, by which the second one reads, is set in the second one as well."""
    place = let("place", Ends((Bound(Affine.variable(IndirectIndex("idx", (ROW,)))),)))
    scaled = Operation("mul", (Name("r"), Load("v", (Affine.variable("place"),))))
    found = distributed(loop_over([place, *OUTER[:2], add("s", Operation("exp", (scaled,)))]), "c", fresh)
    assert found is not None
    _, functions = found[1].body
    assert functions.body[0] == place


@pytest.mark.parametrize(
    "body",
    {
        "no function": [accumulator("r"), INNER, add("s", Name("r"))],
        "no reduction": [let("r", Load("c", (ROW, ROW))), add("s", Operation("exp", (Name("r"),)))],
        "the next turn reads the sum": [let("q", Name("s")), *OUTER],
        "the next turn reads what is written": [
            accumulator("r"),
            INNER,
            Set(Load("c", (ROW, ROW)), Operation("exp", (Name("r"),))),
        ],
        "unrolled": [
            accumulator("r"),
            span("k", Affine(), Affine.of(3), [add("r", Load("c", (ROW, COLUMN)))]),
            OUTER[2],
        ],
    }.items(),
    ids=lambda item: item[0],
)
def test_other_loops_stay(body):
    assert distributed(loop_over(body[1]), "c", fresh) is None


def test_short_loops_stay():
    assert distributed(loop_over(OUTER, 8), "c", fresh) is None


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["numba", "llvm"])
def test_values_beyond_one_strip(backend):
    function = td.lambdify([X, C, w], (network, td.gradient(td.sum(network**2), C)), backend, parallel=False)
    for dtype, (count, centres, axes) in itertools.product(
        ("float64", "float32"), [(1, 1, 1), (3, 511, 2), (2, 512, 3), (4, 1030, 1)]
    ):
        random = np.random.default_rng(0)
        x, c, weights = (random.normal(size=s).astype(dtype) for s in ((count, axes), (centres, axes), centres))
        value, gradient = function(x, c, weights)
        x, c, weights = (a.astype("float64") for a in (x, c, weights))
        kernel = np.exp(-((x[:, None] - c[None]) ** 2).sum(-1))
        wanted = kernel @ weights
        slope = 4 * np.einsum("i,j,ij,ijk->jk", wanted, weights, kernel, x[:, None] - c[None])
        tolerance = 1e-10 if dtype == "float64" else 1e-3
        np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance, err_msg=f"{dtype} {centres}")
        np.testing.assert_allclose(gradient, slope, rtol=tolerance, atol=tolerance, err_msg=f"{dtype} {centres}")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["numba", "llvm"])
def test_long_sums_of_functions_of_sums(backend):
    """Sums of a call are added up strip by strip, in double precision: 10**5 terms keep their digits."""
    total = td.IndexedSum(sympy.exp(-td.IndexedSum(X[i, k] ** 2, (k, 0, d - 1))), (i, 0, n - 1))
    function = td.lambdify([X], total, backend, parallel=False)
    assert "distribute" in function.plan
    x = np.full((100_000, 2), 0.1, np.float32)
    np.testing.assert_allclose(function(x), 100_000 * np.exp(-2 * float(x[0, 0]) ** 2), rtol=2e-6)


def test_kernels_of_one_loop_are_distributed_together():
    """A value and its derivative share a power, which is computed in vectors after the sums in it."""
    p = sympy.Symbol("p", positive=True)
    norms = td.TensorComprehension((1 + td.IndexedSum(X[i, k] ** 2, (k, 0, d - 1))) ** p / p, (i, n))
    total = td.IndexedSum(norms[i] ** 2, (i, 0, n - 1))
    function = td.lambdify([X, p], (norms, total), "llvm", parallel=False)
    assert function.source.count("= general_power(") == 1
    assert "distribute" in function.plan
    x = np.random.default_rng(0).normal(size=(1030, 3))
    wanted = (1 + (x**2).sum(1)) ** 1.3 / 1.3
    found, square = function(x, 1.3)
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    np.testing.assert_allclose(square, (wanted**2).sum(), rtol=1e-13)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numba", "llvm", "c"])
def test_rows_of_one_number_are_stored_between_the_loops(backend):
    """Products with a vector, whose entries are numbers in a fused loop, and a function of them."""
    A, y = td.TensorSymbol("A", (n, m)), td.TensorSymbol("y", m)
    value = A @ td.sin(y) + td.exp(A @ y)
    if backend == "c":
        assert "exp" in td.generate_code([A, y], value, "c")  # verified
        return
    a, b = np.random.default_rng(0).normal(size=(40, 3)), np.arange(3.0)
    np.testing.assert_allclose(td.lambdify([A, y], value, backend)(a, b), a @ np.sin(b) + np.exp(a @ b), rtol=1e-12)


def test_the_plan_says_so():
    assert "distribute: functions of inner sums" in td.lambdify([X, C, w], network, "llvm", parallel=False).plan


@pytest.mark.parametrize(
    ("exponent", "is_stored"), [(sympy.Rational(7, 3), True), (6, False), (sympy.Rational(7, 2), False)]
)
def test_powers_that_need_a_logarithm_are_stored_as_functions_are(exponent, is_stored):
    """A value and a sum share a power of an inner sum if its exponent is general, and compute products again."""
    power = (1 + td.IndexedSum(X[i, k] ** 2, (k, 0, d - 1))) ** exponent
    results = (td.TensorComprehension(power / 3, (i, n)), td.IndexedSum(power * X[i, 0], (i, 0, n - 1)))
    assert is_dear(Reader(Graph()).read(power.subs(i, 0))) == is_stored
    source = td.lambdify([X], results, "numba", parallel=False).source.partition("def fill_")[2]
    assert source.count("general_power(") == (1 if is_stored else 0)


def test_a_strip_is_read_by_another_loop_over_the_same_strip():
    """A loop in strips fills an array in one inner loop and reads it in another: the verification knows both ranges."""
    j, l, k = td.indices("j l k")
    x, v = td.TensorSymbol("x", (m, n)), td.TensorSymbol("v", n)
    g = td.TensorSymbol("g", n, dtype=int)
    weight = sympy.exp(v[sympy.Mod(l + 1, n)] / 4) / (v[l] ** 2 + 2)
    selected = sympy.Piecewise(((x[k, j] - x[k, l]) * weight, sympy.Eq(j, g[l])), (0, True))
    near = (j, sympy.Max(0, i - 1), sympy.Min(i + 1, n - 1))
    total = td.IndexedSum((x[k, i] - x[k, j]) * td.IndexedSum(selected, (l, 0, n - 1)), near)
    value = td.IndexedSum(sympy.log(total**2 + 2), (i, 0, n - 1), (k, 0, m - 1))
    results = value, td.gradient(value, x)
    random = np.random.default_rng(0)
    arrays = random.normal(size=(2, 70)), random.normal(size=70), random.integers(0, 70, 70)
    plain = td.lambdify((x, v, g), results, "numpy", temporaries=False)(*arrays)
    for found, wanted in zip(td.lambdify((x, v, g), results, "llvm")(*arrays), plain, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_a_loop_that_stores_is_no_dead_code():
    """It stays, without the updates of scalars that are not wanted; a loop that only updates such a scalar goes."""
    entry = Load("t", (Affine.variable("i"),))
    rows = Bound(Affine.of(0)), Bound(Affine.of(9))
    storing = Loop("i", rows[:1], rows[1:], (add("s", Name("a")), Set(entry, Name("a"))))
    counting = Loop("j", rows[:1], rows[1:], (add("u", Name("a")),))
    stores = Loop("i", rows[:1], rows[1:], (Set(entry, Name("a")),))
    statements = [accumulator("s"), storing, accumulator("u"), counting]
    assert live_statements(statements, set()) == [stores]
    assert live_statements(statements, {"s"}) == [accumulator("s"), storing]
    assert live_statements([Loop("k", rows[:1], rows[1:], tuple(statements))], set()) == [
        replace(stores, variable="k", body=(stores,))
    ]


def test_what_the_next_iteration_uses_is_no_dead_code():
    """The value of one iteration goes into a sum of the next one, whose entry is stored before the sum grows."""
    rows = Bound(Affine.of(0)), Bound(Affine.of(9))
    entry = Load("t", (Affine.variable("i"),))
    body = (Set(entry, Name("s")), let("v", Name("a")), add("s", Name("v")))
    statements = [accumulator("s"), Loop("i", rows[:1], rows[1:], body)]
    assert live_statements(statements, set()) == statements
