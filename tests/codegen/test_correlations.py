"""Products that read and add up windows in place: which ones, and that they mean the same as their definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from as_python import as_python

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import Correlation
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.verify import check_correlation
from sympy_tensordiff.codegen.ir.walk import array_shapes
from sympy_tensordiff.codegen.lower import matrices
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.compile import print_source
from sympy_tensordiff.codegen.schedule import correlations as passes
from sympy_tensordiff.codegen.schedule.correlations import with_correlations
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine

n, c, f, i, j, a, b = td.indices("n c f i j a b")


def convolution(sizes, stride, dilation, more=0):
    """A convolution of images, forwards and its gradients; images have ``more`` entries along each axis."""
    N, C, F, H, K = sizes
    O = (H - dilation * (K - 1) - 1) // stride + 1
    X, W = td.TensorSymbol("X", (N + more, C + more, H + more, H + more)), td.TensorSymbol("W", (F, C, K, K))
    dY = td.TensorSymbol("dY", (N, F, O, O))
    body = X[n, c, stride * i + dilation * a, stride * j + dilation * b] * W[f, c, a, b]
    Y = td.TensorComprehension(
        td.IndexedSum(body, (b, 0, K - 1), (a, 0, K - 1), (c, 0, C - 1)), (n, N), (f, F), (i, O), (j, O)
    )
    return (X, W, dY), {"Y": Y, "X": td.vjp(Y, X, dY), "W": td.vjp(Y, W, dY)}


def truth(what, values, stride, dilation, more=0):
    full = np.zeros_like(values["XW".find(what)])
    X, W, dY = (
        value[tuple(slice(extent - more * (n == 0)) for extent in value.shape)] for n, value in enumerate(values)
    )
    result = np.zeros({"X": X, "W": W, "Y": dY}[what].shape)
    last = [stride * (extent - 1) + 1 for extent in dY.shape[2:]]
    for a, b in product(*map(range, W.shape[2:])):
        rows, columns = (slice(dilation * m, dilation * m + end, stride) for m, end in zip((a, b), last, strict=True))
        windows = (slice(None), slice(None), rows, columns)
        if what == "Y":
            result += np.einsum("ncij,fc->nfij", X[windows], W[:, :, a, b])
        elif what == "X":
            result[windows] += np.einsum("nfij,fc->ncij", dY, W[:, :, a, b])
        else:
            result[:, :, a, b] = np.einsum("nfij,ncij->fc", dY, X[windows])
    full[tuple(map(slice, result.shape))] = result
    return full


def integers(symbols, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    return [rng.integers(-9, 9, symbol.shape).astype(dtype) for symbol in symbols]


def correlations(symbols, expression, **options):
    steps = with_correlations(build_program(symbols, expression, **options)).kernels
    return [step for step in steps if isinstance(step, Correlation)]


@pytest.fixture
def always(monkeypatch):
    """Products of matrices, and in place, however small they are."""
    monkeypatch.setattr(matrices, "is_worth", lambda cost, iterations: True)
    monkeypatch.setattr(passes, "_WORTH", 0)


MAPS = [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (1, 3), (2, 3), (3, 1)]
ODD = [
    (1, 2, 3, 7, 3),
    (2, 3, 5, 7, 2),
    (3, 1, 2, 8, 3),
    (2, 5, 1, 7, 1),
    (1, 1, 3, 9, 2),
    (5, 2, 2, 8, 3),
    (2, 9, 3, 8, 2),
]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_sizes(always, number):
    """By the images, the weights, and forwards; on one core and on several, to the last bit."""
    sizes, found = ODD[number], 0
    for more, maps in enumerate((MAPS[number], MAPS[(number + 4) % 8])):
        symbols, results = convolution(sizes, *maps, more)
        values = integers(symbols, number)
        for what, expression in results.items():
            expected = truth(what, values, *maps, more)
            program = build_program(symbols, expression)
            found += sum(isinstance(step, Correlation) for step in with_correlations(program).kernels)
            for parallel in (False, True):
                out = np.full(expected.shape, np.nan)
                as_python(print_source(program, "numba", parallel))(*values, out)
                np.testing.assert_array_equal(out, expected, err_msg=f"{what} {maps} {parallel}")
    # Where images are larger, the gradient by them has conditions; windows of one entry are none.
    assert found == (4 if sizes[-1] > 1 else 2)


@pytest.mark.parametrize(
    ("dtype", "parallel", "names"),
    [
        (np.float32, False, "XW"),
        pytest.param(np.float64, True, "YX", marks=pytest.mark.thorough),
    ],
)
def test_compiled(always, dtype, parallel, names):
    """Blocks that are not full: 9 rows and 19 lanes, which fill one vector and a part of the next."""
    symbols, results = convolution((2, 9, 19, 12, 3), 2, 1)
    results = {name: results[name] for name in names}
    assert all(len(correlations(symbols, expression)) == 1 for expression in results.values())
    values = integers(symbols, 0, dtype)
    function = td.lambdify(symbols, tuple(results.values()), parallel=parallel)
    assert "windows where they lie" in function.plan
    for what, found in zip(results, function(*values), strict=True):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, truth(what, values, 2, 1))


def test_where_loops_pay():
    """Windows of some channels; not of hundreds, nor without windows, nor where blocks would be nearly empty."""
    sizes = (2, 16, 16, 12, 3)
    symbols, results = convolution(sizes, 1, 1)
    for what, expression in results.items():
        program = build_program(symbols, expression)
        (step,) = correlations(symbols, expression)
        lengths = dict(step.labels)
        found = passes.tiling(step, array_shapes(program))
        assert lengths[found.lanes] == Affine.of(16)
        assert (found.solved is not None) == (what == "X")
    symbols, results = convolution((2, 256, 256, 16, 3), 1, 1)
    assert not any(correlations(symbols, expression) for expression in results.values())
    symbols, results = convolution((64, 1, 2, 40, 3), 1, 1)
    assert not correlations(symbols, results["W"])
    x, y = td.TensorSymbol("x", (40, 40)), td.TensorSymbol("y", (40, 40))
    assert not correlations([x, y], td.exp(x @ y))


def test_windows_of_vectors():
    """One dimension, with symbolic sizes, a sum in several windows, and entries that no window reaches."""
    N, C, F, O = td.indices("N C F O")
    X, W = td.TensorSymbol("X", (N, C, 2 * O + 3)), td.TensorSymbol("W", (F, C, 4))
    dY = td.TensorSymbol("dY", (N, F, O))
    body = td.IndexedSum(X[n, c, 2 * i + a] * W[f, c, a], (a, 0, 3), (c, 0, C - 1))
    Y = td.TensorComprehension(body, (n, N), (f, F), (i, O))
    symbols = (X, W, dY)
    sizes = {N: 3, C: 10, F: 17, O: 6}
    rng = np.random.default_rng(0)
    values = [rng.integers(-9, 9, [int(td_size(e, sizes)) for e in s.shape]).astype(float) for s in symbols]
    for what, expression in (("X", td.vjp(Y, X, dY)), ("W", td.vjp(Y, W, dY))):
        assert len(correlations(symbols, expression, sizes=sizes)) == 1
        source = td.generate_code(symbols, expression, sizes=sizes)
        target = values["XW".index(what)]
        expected = np.zeros(target.shape)
        for p, q, r, s, t in product(range(3), range(10), range(17), range(6), range(4)):
            if what == "X":
                expected[p, q, 2 * s + t] += values[2][p, r, s] * values[1][r, q, t]
            else:
                expected[r, q, t] += values[2][p, r, s] * values[0][p, q, 2 * s + t]
        out = np.full(target.shape, np.nan)
        as_python(source)(*values, out)
        np.testing.assert_array_equal(out, expected)


def td_size(extent, sizes):
    return extent.subs(sizes) if hasattr(extent, "subs") else extent


def test_infinite_numbers_stay_where_they_are(always):
    """Blocks that are not full add nothing: an infinite weight is in no entry that its windows do not reach."""
    symbols, results = convolution((1, 2, 2, 6, 2), 2, 2)
    values = integers(symbols)
    values[1][1, 0, 1, 1] = np.inf
    values[2][0, 1, 0, 1] = 3
    expected = np.zeros(values[0].shape)
    for c, f, i, j, a, b in product(range(2), repeat=6):
        expected[0, c, 2 * i + 2 * a, 2 * j + 2 * b] += values[2][0, f, i, j] * values[1][f, c, a, b]
    out = np.full(expected.shape, np.nan)
    as_python(td.generate_code(symbols, results["X"]))(*values, out)
    np.testing.assert_array_equal(out, expected)
    assert np.isfinite(expected).any() and not np.isfinite(expected).all()


def test_a_read_outside_is_refused():
    symbols, results = convolution((2, 16, 16, 12, 3), 1, 1)
    program = with_correlations(build_program(symbols, results["W"]))
    (step,) = (step for step in program.kernels if isinstance(step, Correlation))
    view = step.left if step.left.array == "X" else step.right
    moved = Load(view.array, (*view.index[:-1], view.index[-1] + 1))
    wrong = Correlation(
        step.output, step.left if view is step.right else moved, step.right if view is step.left else moved, step.labels
    )
    with pytest.raises(VerificationError, match=r"correlation result: axis 3 of X at .* needs"):
        check_correlation(wrong, Prover(program))
