"""Softmax, log-sum-exp and extrema over the entries that data put into one segment, as the edges into a node."""

from __future__ import annotations

import numpy as np
import pytest
from every import every
from in_c import COMPILER, Function, build
from sympy import Eq, KroneckerDelta, Piecewise, exp, log, oo

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Scatter
from sympy_tensordiff.codegen.ir.walk import loops
from sympy_tensordiff.codegen.program import build_program

e, f, v, E, V = td.indices("e f v E V")
s, y, h = td.TensorSymbol("s", E), td.TensorSymbol("y", E), td.TensorSymbol("h", V)
dst = td.TensorSymbol("dst", E, dtype=int, below=V)
ARGUMENTS = s, dst, y, h
SCORES = np.array([1000.0, -1000, 1001, 0, 999, -1001, 3, 2000])
SEGMENTS = np.array([0, 1, 0, 3, 0, 1, 3, 3])  # segment 2 is empty
COTANGENT = np.array([0.3, -1.0, 0.25, 0.5, 2.0, -0.75, 1.5, 0.125])


def per_node(entry):
    """Return the sums of the exponentials of each segment; ``entry`` says how the segment is written."""
    return td.TensorComprehension(td.IndexedSum(entry, (f, 0, E - 1)), (v, V))


TOTALS = {
    "delta": per_node(exp(s[f]) * KroneckerDelta(dst[f], v)),
    "choice": per_node(Piecewise((exp(s[f]), Eq(dst[f], v)), (0, True))),
}
SOFTMAX = {name: td.TensorComprehension(exp(s[e]) / total[dst[e]], (e, E)) for name, total in TOTALS.items()}
SOFTMAX["of pairs"] = td.TensorComprehension(
    exp(s[e]) / td.IndexedSum(exp(s[f]) * KroneckerDelta(dst[f], dst[e]), (f, 0, E - 1)), (e, E)
)


def results(weights):
    """Return the softmax, a sum of its products with `y`, and the gradient of that."""
    loss = td.IndexedSum(weights[e] * y[e], (e, 0, E - 1))
    return weights, loss, td.gradient(loss, s)


def wanted(scores, cotangent):
    """Return what `results` are, segment by segment."""
    weights, gradient = np.zeros(len(scores)), np.zeros(len(scores))
    for own in (np.flatnonzero(node == SEGMENTS) for node in range(4)):
        if own.size:
            powers = np.exp(scores[own] - scores[own].max())
            weights[own] = powers / powers.sum()
            gradient[own] = weights[own] * (cotangent[own] - weights[own] @ cotangent[own])
    return weights, weights @ cotangent, gradient


def check(function, dtype=np.float64):
    """Compare a function of scores, segments, `y` and `h` with `wanted`."""
    scores, cotangent = SCORES.astype(dtype), COTANGENT.astype(dtype)
    found = function(scores, SEGMENTS, cotangent, np.zeros(4, dtype))
    for own, expected in zip(found, wanted(scores.astype(float), cotangent.astype(float)), strict=True):
        np.testing.assert_allclose(own, expected, rtol=0, atol=8 * np.finfo(dtype).eps)


def simulated(weights):
    """Check a softmax on the simulator of CUDA."""
    check(td.lambdify(ARGUMENTS, results(weights), "cuda"))


@every("name", [*SOFTMAX], turns=10)
def test_softmax_of_segments(name):
    for backend in ("numpy", "llvm", *("numba",) * (name == "delta")):
        function = td.lambdify(ARGUMENTS, results(SOFTMAX[name]), backend)
        check(function)
        check(function, np.float32)


def test_in_the_simulator(simulator):
    simulator(simulated, SOFTMAX["delta"])


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_in_c(dtype, tmp_path):
    forms = results(SOFTMAX["choice"])
    library = build({"f": td.generate_code(ARGUMENTS, forms, "c", name="f", dtype=dtype)}, tmp_path)
    check(Function(library, "f", build_program(ARGUMENTS, forms), dtype), np.dtype(dtype).type)


def test_one_pass_over_the_edges_each():
    """Each sum and each maximum takes one pass over the edges, not one for each node or each other edge."""
    for weights in SOFTMAX.values():
        program = build_program(ARGUMENTS, results(weights))
        assert {step.reduction for step in program.kernels if isinstance(step, Scatter)} == {"sum", "max"}
        assert sum(isinstance(step, Scatter) and step.reduction == "max" for step in program.kernels) == 1
        assert not any(True for step in program.kernels if step.axes for _ in loops(step.body))
    plan = td.lambdify(ARGUMENTS, SOFTMAX["delta"], "numpy").plan
    assert "scatter: maximum in " in plan and "(one after the other, in order)" in plan


@every("backend", ["numpy", "llvm"])
def test_logarithms_of_sums_over_segments(backend):
    loss = td.IndexedSum(h[v] * log(TOTALS["delta"][v]), (v, 0, V - 1))
    value, gradient = td.lambdify(ARGUMENTS, (loss, td.gradient(loss, s)), backend)(
        SCORES, np.where(SEGMENTS == 3, 2, SEGMENTS), COTANGENT, np.array([1, 2, -1.0])
    )
    weights = wanted(SCORES, COTANGENT)[0]
    np.testing.assert_allclose(gradient, weights * np.array([1, 2, 1, -1, 1, 2, -1, -1]), atol=1e-15)
    logarithms = np.log([np.exp([-1, 0, -2]).sum(), np.exp([0, -1]).sum(), 1]) + np.array([1001, -1000, 2000])
    np.testing.assert_allclose(value, logarithms @ [1, 2, -1], rtol=1e-14)


@every("backend", ["numpy", "numba", "llvm"], turns=3)
def test_extrema_of_segments(backend):
    """Each extremum is taken in one pass; that of an empty segment is that of an empty range."""
    largest, least = (
        td.TensorComprehension(extremum(Piecewise((s[f] * y[f], Eq(dst[f], v)), (empty, True)), (f, 0, E - 1)), (v, V))
        for extremum, empty in ((td.IndexedMax, -oo), (td.IndexedMin, oo))
    )
    function = td.lambdify(ARGUMENTS, (largest, least), backend)
    assert "scatter: maximum in result0[dst[f]]" in function.plan
    assert "scatter: minimum in result1[dst[f]]" in function.plan
    highest, lowest = function(SCORES, SEGMENTS, COTANGENT, np.zeros(4))
    values = SCORES * COTANGENT
    for node in (0, 1, 3):
        own = values[node == SEGMENTS]
        assert (highest[node], lowest[node]) == (own.max(), own.min())
    assert (highest[2], lowest[2]) == (-np.inf, np.inf)


@every("backend", ["numpy", "llvm"], turns=3)
@pytest.mark.parametrize("function", ["1/u", "1/(2 + u**2)", "h/u"])
def test_functions_of_the_sum_that_an_edge_reads(backend, function):
    """Their gradient has a sum over the edges of a segment with the greatest score of it, which is the same for all."""
    total = td.IndexedSum(exp(s[f]) * KroneckerDelta(dst[f], dst[e]), (f, 0, E - 1))
    of_total = {"1/u": 1 / total, "1/(2 + u**2)": 1 / (2 + total**2), "h/u": h[dst[e]] / total}[function]
    loss = td.IndexedSum(y[e] * of_total, (e, 0, E - 1))
    kernel = td.lambdify(ARGUMENTS, (loss, td.gradient(loss, s)), backend)
    generator = np.random.default_rng(0)
    scores, weights, nodes = generator.normal(size=8), generator.normal(size=8), generator.normal(size=4)
    totals = np.array([np.exp(scores[node == SEGMENTS]).sum() for node in range(4)])[SEGMENTS]
    values = {"1/u": 1 / totals, "1/(2 + u**2)": 1 / (2 + totals**2), "h/u": nodes[SEGMENTS] / totals}[function]
    by_total = {
        "1/u": -1 / totals**2, "1/(2 + u**2)": -2 * totals / (2 + totals**2) ** 2, "h/u": -nodes[SEGMENTS] / totals**2
    }[function]  # fmt: skip
    found, slope = kernel(scores, SEGMENTS, weights, nodes)
    np.testing.assert_allclose(found, weights @ values, rtol=1e-13)
    together = (weights * by_total)[None] * (SEGMENTS[:, None] == SEGMENTS)
    np.testing.assert_allclose(slope, together.sum(1) * np.exp(scores), rtol=1e-12)
