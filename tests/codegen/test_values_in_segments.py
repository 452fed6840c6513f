"""Values in segments of an axis have one entry for each place, if the starts of the segments do not decrease."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from every import every
from sympy import Ge, Piecewise, exp, log, tanh

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.work import NOMINAL_SIZE, nominal_work

i, j, k, q, t, n, m, g, d = td.indices("i j k q t n m g d")
x, y, H, Z = (td.TensorSymbol(name, shape) for name, shape in (("x", n), ("y", g), ("H", (g, d)), ("Z", (n, d))))
start = td.TensorSymbol("start", g + 1, dtype=int, below=n + 1)
other = td.TensorSymbol("other", g + 1, dtype=int, below=n + 1)
flag = td.TensorSymbol("flag", g, dtype=int, below=2)
ARGUMENTS = (x, y, H, Z, start, other, flag)


def over(value, *indices):
    return td.IndexedSum(value, *((index, 0, size - 1) for index, size in indices))


def inside(value, index, starts=start, row=t):
    return td.IndexedSum(value, (index, starts[row], starts[row + 1] - 1))


def score(row, place):
    return over(tanh(H[row, k] + Z[place, k]) * Z[place, k], (k, d))


def weights(place):
    return exp(score(t, place)) / inside(exp(score(t, i)), i)


ATTENTION = over(inside(weights(j) * x[j], j) ** 2, (t, g))
FORMS = {
    "attention": ATTENTION,
    "shares": over(
        inside(log(over(exp(H[t, q] * x[j]) / (1 + inside(exp(H[t, q] * x[i]), i)), (q, d))) ** 2, j), (t, g)
    ),
    "pairs": over(inside(inside(exp(-((x[i] - x[j]) ** 2) * y[t] ** 2) * tanh(score(t, i)), i) ** 2, j), (t, g)),
    "later rows": td.IndexedSum(inside(tanh(score(t, j)) ** 2 * score(t, j), j), (t, 1, g - 1)),
    "row before": td.IndexedSum(inside(tanh(score(t - 1, j)) ** 2 * score(t - 1, j), j), (t, 1, g - 1)),
    "chosen rows": over(Piecewise((inside(weights(j) * score(t, j), j) ** 2, Ge(flag[t], 1)), (0, True)), (t, g)),
    "branches by rows": over(
        inside(tanh(H[t, 0] * Z[j, 0]) * exp(-Piecewise((x[j] ** 2 * y[t] ** 2, Ge(flag[t], 1)), (x[j] ** 2, True))), j)
        ** 2,
        (t, g),
    ),
    "two": over(inside(tanh(score(t, j)) * score(t, j), j) * inside(tanh(score(t, j)) ** 2, j, other), (t, g)),
    "from starts": over(td.IndexedSum(tanh(score(t, j)) ** 2 * score(t, j), (j, start[t], n - 1)), (t, g)),
    "other ends": over(td.IndexedSum(tanh(score(t, j)) ** 2 * score(t, j), (j, start[t], other[t + 1] - 1)), (t, g)),
    "turned": over(inside(tanh(score(t, n - 1 - j)) * score(t, n - 1 - j), j) ** 2, (t, g)),
    "triangle": over(
        td.IndexedSum(inside(tanh(H[t, q] * score(t, j)) * score(t, j), j), (m, 0, q), (q, 0, d - 1)), (t, g)
    ),
}


def values(sizes, kind, seed=5):
    places, rows, columns = sizes
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, places + 1, (2, rows + 1))
    if kind == "ordered":
        starts = np.sort(starts, axis=1)
    elif kind == "all":
        starts[:] = np.sort(starts, axis=1)
        starts[:, 0], starts[:, -1] = 0, places
    reals = rng.normal(size=places), rng.normal(size=rows), rng.normal(size=(rows, columns))
    return (*reals, rng.normal(size=(places, columns)), *starts, rng.integers(0, 2, rows))


def results(value):
    """The value and its gradients; one of them has no schedule that is proved to stay inside of arrays."""
    by = (x, y, Z) if value is FORMS["row before"] else (x, y, H, Z)
    return (value, *(td.gradient(value, argument) for argument in by))


@every("name", list(FORMS))
@every("backend", ["numpy", "llvm"])
def test_values_and_gradients_are_those_without_arrays(name, backend):
    function = td.lambdify(ARGUMENTS, results(FORMS[name]), backend)
    plain = td.lambdify(ARGUMENTS, results(FORMS[name]), "numpy", temporaries=False)
    for sizes in ((9, 4, 3), (1, 1, 1), (5, 12, 2), (17, 2, 1)):
        for kind in ("all", "ordered", "any"):
            arrays = values(sizes, kind)
            for found, expected in zip(function(*arrays), plain(*arrays), strict=True):
                assert found == pytest.approx(expected, rel=1e-9, abs=1e-10), (sizes, kind)


def test_overlapping_segments_have_a_program_of_their_own():
    """It is used for such data only, in each way to call a function."""
    function = td.lambdify(ARGUMENTS, ATTENTION, "llvm")
    assert function.program.increasing == ("start",)
    for copy in (function, pickle.loads(pickle.dumps(function))):
        for kind in ("ordered", "any", "all", "any"):
            arrays = values((9, 4, 3), kind)
            expected = float(td.evaluate(ATTENTION, dict(zip(ARGUMENTS, arrays, strict=True))))
            out = np.empty(())
            assert copy(*arrays) == pytest.approx(expected, rel=1e-12)
            copy(*arrays, out=out)
            assert out == pytest.approx(expected, rel=1e-12)
    ordered, overlapping = values((9, 4, 3), "ordered"), values((9, 4, 3), "any")
    run, result = function.runner(ordered, np.empty(())), np.empty(())
    run(overlapping, [result])
    assert result == pytest.approx(float(function(*overlapping)), rel=1e-12)


def test_starts_may_change_in_place():
    function, arrays = td.lambdify(ARGUMENTS, ATTENTION, "numpy"), values((9, 4, 3), "ordered")
    before = function(*arrays)
    arrays[4][:] = [7, 2, 9, 0, 4]
    found = function(*arrays)
    assert found != before
    assert found == pytest.approx(float(td.evaluate(ATTENTION, dict(zip(ARGUMENTS, arrays, strict=True)))), rel=1e-12)


def test_values_are_computed_once_for_each_place():
    function = td.lambdify(ARGUMENTS, results(ATTENTION), "numba")
    shapes = {str(array.shape) for array in function.program.temporaries}
    assert shapes <= {"(n,)", "(g,)", "(n, d)", "(d, n)", "(g, d)"}
    assert function.source.count(" tanh(") + function.source.count("*tanh(") == 1


def graph_attention():
    """The squared outputs of attention over the edges of a graph, in rows; the gradients select nodes by data."""
    neighbour = td.TensorSymbol("neighbour", n, dtype=int, below=g)
    a, b = td.TensorSymbol("a", d), td.TensorSymbol("b", d)

    def logit(row, place):
        return over(a[k] * tanh(H[row, k] + H[neighbour[place], k]), (k, d))

    weight = exp(logit(t, j)) / inside(exp(logit(t, i)), i)
    message = over(H[t, k] * H[neighbour[j], k] * b[k], (k, d))
    value = over(inside(weight * message, j) ** 2, (t, g))
    return (H, a, b, start, neighbour), (value, *td.gradient(value, (H, a, b)))


def test_the_work_of_graph_attention_is_linear():
    """No loop runs over rows and places, none turns an array round, and no array is computed twice."""
    function = td.lambdify(*graph_attention(), "numba")
    assert nominal_work(function.program) < NOMINAL_SIZE**3
    assert len(function.program.temporaries) <= 21 and len(function.program.kernels) <= 36
    assert "n - " not in function.source[function.source.index("def fill") : function.source.index("def run")]


def test_running_products_in_segments_stay_in_their_loops():
    """The derivative of a product has products up to and after each place, which go on from place to place."""
    factor = 1 - tanh(over(Z[j, k] * H[0, k], (k, d)))
    product = td.IndexedProduct(factor, (j, start[t], start[t + 1] - 1))
    value = over(log(y[t] ** 2 * product + 1), (t, g))
    assert not td.lambdify(ARGUMENTS, (value, td.gradient(value, H)), "numba").program.increasing


def test_steps_of_recurrences_stand_for_all_data():
    """The data of a step are not checked."""

    def step(h):
        logit = over(tanh(h[t, q] + Z[j, q]) * Z[j, q], (q, d))
        total = inside(tanh(logit) ** 2 * logit, j) + inside(tanh(logit) * x[j], j) ** 2
        return td.TensorComprehension(h[t, k] + total, (t, g), (k, d))

    value = td.sum(td.scan(step, H, length=3) ** 2)
    results = (value, td.gradient(value, H))
    function = td.lambdify(ARGUMENTS, results, "llvm")
    plain = td.lambdify(ARGUMENTS, results, "numpy", temporaries=False)
    for kind in ("all", "any"):
        arrays = values((9, 4, 3), kind)
        for found, expected in zip(function(*arrays), plain(*arrays), strict=True):
            assert found == pytest.approx(expected, rel=1e-9)


def test_texts_stand_for_all_data():
    """A printed module has one program, which does not need starts in an order."""
    text = td.generate_code(ARGUMENTS, ATTENTION, "numpy")
    scope: dict = {}
    exec(compile(text, "<text>", "exec"), scope)
    arrays = values((9, 4, 3), "any")
    expected = float(td.evaluate(ATTENTION, dict(zip(ARGUMENTS, arrays, strict=True))))
    assert scope["compute"](*arrays) == pytest.approx(expected, rel=1e-12)
