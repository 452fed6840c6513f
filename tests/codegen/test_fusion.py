"""Kernels over one leading axis run in one loop, and what lies between them is one row of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy
from as_python import as_python
from oracle import check_against
from programs import load

import sympy_tensordiff as td
from sympy_tensordiff.codegen import program as programs_of_tasks
from sympy_tensordiff.codegen.emit.numba_cpu import print_program
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import Loop, Set
from sympy_tensordiff.codegen.ir.programs import Array, FusedKernels, Scatter, entrywise
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.compile import CompiledFunction, print_source
from sympy_tensordiff.codegen.schedule.fusion import MAX_SUMS_IN_LOOP, fuse
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import IndirectIndex

i, j, k, n, m = td.indices("i j k n m")
x, g, dy = td.TensorSymbol("x", (n, m)), td.TensorSymbol("g", m), td.TensorSymbol("dy", (n, m))
w = td.TensorSymbol("w", (m, m))


def rows_of(tensor):
    return td.IndexedSum(tensor[i, k], (k, 0, m - 1))


CENTRED = td.TensorComprehension(x[i, j] - rows_of(x) / m, (i, n), (j, m))
SCALED = td.TensorComprehension(
    g[j] * CENTRED[i, j] / sympy.sqrt(td.IndexedSum(CENTRED[i, k] ** 2, (k, 0, m - 1)) + 1), (i, n), (j, m)
)
SOFT = td.TensorComprehension(sympy.exp(x[i, j]) / td.IndexedSum(sympy.exp(x[i, k]), (k, 0, m - 1)), (i, n), (j, m))
RUNNING = td.TensorComprehension(
    td.IndexedSum(SOFT[i, k] * dy[i, k], (k, 0, j)) + td.IndexedMax(SOFT[i, k], (k, 0, m - 1)), (i, n), (j, m)
)
MIXED = td.TensorComprehension(td.IndexedSum(SOFT[i, k] * w[k, j], (k, 0, m - 1)), (i, n), (j, m))

# An expression, its arguments, and of the steps that run together: how many kernels, and of which arrays a row is kept.
CASES = {
    "a scaled row": (SCALED, (x, g), [(4, 3)]),
    "its gradients": (td.vjp(SCALED, (x, g), dy), (x, g, dy), [(10, 8)]),
    "a softmax": (SOFT, (x,), [(3, 2)]),
    "a row with a scan": (RUNNING, (x, dy), [(6, 5)]),
    "a row times a matrix": (MIXED, (x, w), [(4, 3)]),
    "column sums of a softmax": (
        td.TensorComprehension(td.IndexedSum(SOFT[i, j], (i, 0, n - 1)), (j, m)), (x,), [(4, 3)]
    ),
    "a number": (td.IndexedSum(SOFT[i, j] ** 2, (j, 0, m - 1), (i, 0, n - 1)), (x,), [(4, 3)]),
}  # fmt: skip


def values_of(arguments, rows=4, columns=3):
    random = np.random.default_rng(5)
    return [random.uniform(-1, 1, [{n: rows, m: columns}[extent] for extent in a.shape]) for a in arguments]


def fused(expression, arguments):
    program = build_program(arguments, expression, library=False)
    return program, fuse(program, Prover(program))


@pytest.mark.parametrize(("name", "parts"), [("its gradients", 1), ("a number", 0)])
def test_totals_of_blocks_are_added_in_their_order(name, parts):
    """On all cores each block has totals of its own; one that is a number keeps the step on one core."""
    expression, arguments, _ = CASES[name]
    program = build_program(arguments, expression, library=False)
    function = CompiledFunction(program, "numba", parallel=True)
    assert function.source.count("_parts = np.empty((8, *") == parts
    assert ("prange" in function.source) == bool(parts)
    values = values_of(arguments, 21, 3)
    wanted = leaves(CompiledFunction(program, "numpy")(*values))
    blocks = [np.full_like(value, np.nan) for value in wanted]
    as_python(function.source)(*values, *blocks)
    found = [blocks, leaves(function(*values))] if name == "column sums of a softmax" else [blocks]
    for results in found:
        for left, right in zip(results, wanted, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-12)


def leaves(results):
    return results if isinstance(results, tuple) else (results,)


def test_plans_name_what_runs_together():
    plan = td.lambdify((x,), SOFT).plan
    assert "together for each i0: fill t[i0], t1[i0, i1], t0[i0], result[i0, j], of t, t1, t0 one row" in plan
    assert "together" not in td.lambdify((x,), SOFT, "numpy").plan


# ---------------------------------------------------------------------------- laws

PROGRAM, TOGETHER = fused(CASES["column sums of a softmax"][0], (x,))
(STEP,) = TOGETHER.kernels
FIRST, *REST = STEP.kernels
I, N = Affine.variable("i"), Affine.variable("n")


def broken(*steps):
    return replace(TOGETHER, kernels=steps)


def with_first(**changes):
    return broken(replace(STEP, kernels=(replace(FIRST, **changes), *REST)))


def late(total):
    inner = [
        replace(s, lows=(replace(s.lows[0], form=Affine.of(1)),)) if isinstance(s, Loop) else s for s in total.body
    ]
    return replace(total, body=tuple(inner))


EXTRA = entrywise("result2", ("i",), [], load(STEP.rows[0].name, *(Affine.of(0),) * (1 + len(STEP.rows[0].shape))))
ADDED = Scatter(FIRST.array, FIRST.axes, (Set(FIRST.entry, FIRST.body[-1].value, "sum"),), (N,))
BROKEN = {
    "t0 is read before it is complete": broken(STEP, EXTRA),
    "uses t0 before it is set": broken(replace(STEP, kernels=(ADDED, *REST), rows=())),
    "a nest uses other before it is set": with_first(
        axes=("other", *FIRST.axes[1:]), body=Renaming({STEP.axis: "other"}).body(FIRST.body)
    ),
    "nest uses t0 before it is set": broken(replace(STEP, kernels=(*REST, FIRST))),
    "a nest uses t1 before it is set": with_first(
        body=(Set(FIRST.entry, load("x", Affine.variable(IndirectIndex(REST[0].array, (I,))), 0)),)
    ),
    "result has no loop over all values of i0": broken(replace(STEP, kernels=(FIRST, *REST[:-1], late(REST[-1])))),
    "have a name in common": broken(
        replace(STEP, kernels=(FIRST, *REST, replace(FIRST, array="twice"))),
    ),
    "step t1: t1 is read before it is complete": broken(Scatter("t1", (), (), ()), STEP),
    "no step fills result": broken(*PROGRAM.kernels[:1]),
    "is read before it is complete": replace(PROGRAM, kernels=PROGRAM.kernels[::-1]),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_laws(message):
    program = BROKEN[message]
    extra = tuple(Array(name, (N,)) for name in ("result2", "twice"))
    with pytest.raises(VerificationError) as error:
        print_program(replace(program, temporaries=(*program.temporaries, *extra)))
    assert message in str(error.value)


def test_one_row_of_what_a_function_returns_serves_several_sums():
    """The table would be larger than all arguments: one row is kept, also where a value reads a gradient's sum."""
    i, j, k, n, m = td.indices("i j k n m")
    x, y, c = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("c", m)
    model = td.IndexedSum(c[k] * sympy.exp(-((m * x[i] - k) ** 2)), (k, 0, m - 1))
    loss = td.IndexedSum((model - y[i]) ** 2, (i, 0, n - 1))
    pairs = td.IndexedSum(sympy.exp(-((x[i] - x[j]) ** 2)) * y[i] * y[j], (i, 0, n - 1), (j, 0, n - 1))
    fitted, paired = (
        build_program(args, (f, *td.gradient(f, args[:2])), rows=True)
        for args, f in (((x, c, y), loss), ((x, y), pairs))
    )
    steps = [step for step in fuse(fitted, Prover(fitted)).kernels if isinstance(step, FusedKernels)]
    assert [len(array.shape) for step in steps for array in step.rows if array.shape] == [1]
    together = [step for step in fuse(paired, Prover(paired)).kernels if isinstance(step, FusedKernels)]
    rows = {array.name for step in together for array in step.rows}
    assert all(array.name in rows for array in paired.temporaries if len(array.shape) > 1)
    text = print_source(fitted, "numba")
    assert text[text.index("def fill_") :].count("= exp(") == 1


@pytest.mark.parametrize(("columns", "is_one"), [(MAX_SUMS_IN_LOOP, True), (MAX_SUMS_IN_LOOP + 1, False), (m, False)])
def test_few_sums_over_rows_that_another_kernel_reads_come_in_its_loop(columns, is_one):
    """The gradient of a regression reads its data once."""
    i, k = td.indices("i k")
    x, w, y = td.TensorSymbol("x", (n, columns)), td.TensorSymbol("w", columns), td.TensorSymbol("y", n)
    error = td.TensorComprehension(td.IndexedSum(x[i, k] * w[k], (k, 0, columns - 1)) - y[i], (i, n))
    loss = td.IndexedSum(sympy.log(1 + error[i] ** 2), (i, 0, n - 1))
    program = build_program((x, w, y), td.gradient(loss, w), library=False)
    steps = fuse(program, Prover(program)).kernels
    assert any(isinstance(step, FusedKernels) and program.outputs[0].name in step.totals for step in steps) == is_one
    random = np.random.default_rng(0)
    length = columns if isinstance(columns, int) else 4
    values = random.normal(size=(70, length)), random.normal(size=length), random.normal(size=70)
    residual = values[0] @ values[1] - values[2]
    wanted = values[0].T @ (2 * residual / (1 + residual**2))
    text = print_source(program, "numba")
    found = np.empty(length)
    as_python(text)(*values, found)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_what_one_row_needs_comes_with_it():
    """Two tables that only the sums of a row read, one of them made before what the other one waits for."""
    distances = td.TensorComprehension(td.IndexedSum((x[i, k] - x[j, k]) ** 2, (k, 0, m - 1)), (i, n), (j, n))
    weights = td.TensorComprehension(1 / (1 + distances[i, j]) ** 2, (i, n), (j, n))
    means = td.TensorComprehension(td.IndexedSum(sympy.cos(x[i, k]), (k, 0, m - 1)) ** 3, (i, n))
    pairs = td.TensorComprehension(sympy.sin(means[i] + means[j]), (i, n), (j, n))
    expr = td.TensorComprehension(td.IndexedSum(weights[i, k] * pairs[i, k] * x[k, j], (k, 0, n - 1)), (i, n), (j, m))
    program, together = fused(expr, (x,))
    rows = {array.name for step in together.kernels if isinstance(step, FusedKernels) for array in step.rows}
    assert len([array for array in program.temporaries if len(array.shape) == 2 and array.name not in rows]) == 0
    check_against(program, together, values_of((x,)))


@pytest.mark.parametrize("name", ["sums over all rows", "a column"])
def test_what_needs_more_than_one_row_is_not_pulled_in(name):
    """A table that only the sums of a row read, which itself needs what all rows are complete for."""
    distances = td.TensorComprehension(td.IndexedSum((x[i, k] - x[j, k]) ** 2, (k, 0, m - 1)), (i, n), (j, n))
    weights = td.TensorComprehension(1 / (1 + distances[i, j]) ** 2, (i, n), (j, n))
    means = td.TensorComprehension(td.IndexedSum(sympy.cos(x[i, k]), (k, 0, m - 1)) ** 3, (i, n))
    columns = td.IndexedSum(sympy.cos(x[i, k]) * weights[i, j], (i, 0, n - 1), (k, 0, m - 1))
    other = td.TensorComprehension(columns, (j, n))[j] if name == "sums over all rows" else weights[j, i]
    pairs = td.TensorComprehension(sympy.sin(means[i] + other), (i, n), (j, n))
    expr = td.TensorComprehension(td.IndexedSum(weights[i, k] * pairs[i, k] * x[k, j], (k, 0, n - 1)), (i, n), (j, m))
    program, together = fused(expr, (x,))
    assert any(isinstance(step, FusedKernels) for step in together.kernels)
    check_against(program, together, values_of((x,)))


def test_a_table_of_which_a_row_is_enough_is_not_kept_whole():
    """A value of kernel ridge regression in each gradient: one more exponential in place of all of them in memory."""
    i, j, k, n, m, d = td.indices("i j k n m d")
    X, Y, b, y = (td.TensorSymbol(*one) for one in (("X", (n, d)), ("Y", (m, d)), ("b", m), ("y", n)))
    distance = td.IndexedSum((X[i, k] - Y[j, k]) ** 2, (k, 0, d - 1))
    error = td.IndexedSum(sympy.exp(-distance) * b[j], (j, 0, m - 1)) - y[i]
    loss = td.IndexedSum(error**2, (i, 0, n - 1))
    plan = td.lambdify((X, Y, b, y), (td.gradient(loss, Y), td.gradient(loss, b))).plan
    assert "of t0 one row" in plan and plan.count("2 indices") == 1


def test_what_a_scatter_adds_to_is_complete():
    """Entries that data select are added to an array before the rows that read it, whatever else these read."""
    where = td.TensorSymbol("where", n, dtype=int)
    total = td.TensorComprehension(td.IndexedSum(sympy.exp(x[i, k]), (k, 0, m - 1)), (i, n))
    for summand in (x[k, 0], total[k]):
        chosen = td.IndexedSum(sympy.KroneckerDelta(where[k], i) * summand, (k, 0, n - 1))
        bins = td.TensorComprehension(chosen, (i, n))
        for factor in (bins[i], sympy.exp(bins[i])):
            value = td.TensorComprehension(sympy.exp(x[i, j]) / total[i] * factor, (i, n), (j, m))
            program, together = fused(value, (where, x))
            assert any(isinstance(step, FusedKernels) for step in together.kernels)
            check_against(program, together, [np.array([0, 2, 0, 3]), np.arange(12.0).reshape(4, 3) / 9])


def test_entries_are_simplified_once_for_both_ways_to_store_tables(monkeypatch):
    """Three programs are compared; what comes before their kernels is the same for all."""
    simplified, lowered = [], []
    tighten, lower = programs_of_tasks.tighten, programs_of_tasks._lowered
    monkeypatch.setattr(programs_of_tasks, "tighten", lambda *given: simplified.append(1) or tighten(*given))
    monkeypatch.setattr(programs_of_tasks, "_lowered", lambda *given: lowered.append(1) or lower(*given))
    d = td.indices("d")
    X, Y, b, y = (td.TensorSymbol(*one) for one in (("X", (n, d)), ("Y", (m, d)), ("b", m), ("y", n)))
    distance = td.IndexedSum((X[i, k] - Y[j, k]) ** 2, (k, 0, d - 1))
    error = td.IndexedSum(sympy.exp(-distance) * b[j], (j, 0, m - 1)) - y[i]
    loss = td.IndexedSum(error**2, (i, 0, n - 1))
    build_program((X, Y, b, y), (td.gradient(loss, Y), td.gradient(loss, b)), rows=True)
    assert (len(simplified), len(lowered)) == (1, 3)


def attention(heads, queries):
    """The gradient of attention by its queries, with the names of its arguments."""
    Q, K, V = (td.TensorSymbol(name, (heads, queries, 4)) for name in "QKV")
    weights = td.softmax(td.einsum("hnd,hmd->hnm", Q, K), axis=-1)
    return (Q, K, V), td.gradient(td.sum(td.einsum("hnm,hmd->hnd", weights, V) ** 2), Q)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["llvm", "numba"])
def test_attention_keeps_the_weights_of_one_query(backend):
    """Kernels over heads, queries and keys share the loops over the first two."""
    arguments, slope = attention(m, n)
    program = build_program(arguments, slope, rows=True)
    groups = [step for step in fuse(program, Prover(program)).kernels if isinstance(step, FusedKernels)]
    assert groups
    assert all(len(group.axes) == 2 for group in groups)
    assert {len(row.shape) for group in groups for row in group.rows} == {0, 1}
    rng = np.random.default_rng(0)
    for heads, queries in ((1, 1), (2, 3), (3, 17)):
        arrays = [rng.normal(size=(heads, queries, 4)) for _ in range(3)]
        wanted = td.lambdify(arguments, slope, "numpy", temporaries=False)(*arrays)
        found = td.lambdify(arguments, slope, backend, parallel=False)(*arrays)
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)


def test_rows_of_few_entries_are_filled_together():
    """Of three coordinates, a loop over the points is the innermost."""
    y = td.TensorSymbol("y", (m, n, 3))
    centred = y - td.mean(y, axis=-1, keepdims=True)
    results = td.gradient(td.sum(td.tanh(centred) * centred**2), y)
    program = build_program((y,), results, rows=True)
    groups = [step for step in fuse(program, Prover(program)).kernels if isinstance(step, FusedKernels)]
    assert all(len(group.axes) == 1 for group in groups)


def test_a_sum_with_a_scalar_in_front_of_its_loop_joins_the_loop_that_fills_what_it_reads():
    d = td.indices("d")
    X, w, v = td.TensorSymbol("X", (n, d)), td.TensorSymbol("w", d), td.TensorSymbol("v", n)
    distance = td.IndexedSum((X[i, k] - w[k]) ** 2, (k, 0, d - 1))
    total = td.IndexedSum((w[0] - X[i, 0]) * sympy.sqrt(distance) * (v[i] + sympy.exp(distance)), (i, 0, n - 1))
    program = prepared(build_program((X, w, v), total, rows=True), "numba", splits=False)
    program = fuse(program, Prover(program))
    assert [type(step) for step in program.kernels] == [FusedKernels]


def test_entries_of_a_stack_are_summed_in_one_loop():
    """Both derivatives with respect to s take exponentials of the same entries, divided by the same number."""
    P, s = td.TensorSymbol("P", n), td.TensorSymbol("s", 2)
    u = x[i, k] / s[0]
    price = td.IndexedSum(sympy.exp(-s[1] * ((1 - sympy.exp(-u)) / u - sympy.exp(-u))), (k, 0, m - 1))
    gradient = td.gradient(td.IndexedSum((P[i] - price) ** 2, (i, 0, n - 1)), s)
    text = td.generate_code((P, x, s), gradient, "numba")
    body = text[text.index("def fill") : text.index("def checked")]
    assert body.count("to which each adds") == 2
    assert body.count(" = real(1)/s[0]\n") == 1
    assert body.count("in range(") <= 5
