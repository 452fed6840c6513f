"""Rows that data select are read once for all iterations of the inner loops, and scatters run along rows."""

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td

pytest.importorskip("numba")

N, M, K = 5, 7, 3
i, j, k = td.indices("i j k")
idx = td.TensorSymbol("idx", N, dtype=int, below=M)
pairs = td.TensorSymbol("pairs", (N, K), dtype=int, below=M)
table, weights, factor = td.TensorSymbol("A", (M, 9)), td.TensorSymbol("w", (N, K)), td.TensorSymbol("f", N)
ARGUMENTS = (table, weights, factor, idx, pairs)
RANDOM = np.random.default_rng(0)
VALUES = (
    *(RANDOM.standard_normal(shape) for shape in ((M, 9), (N, K), N)),
    *(RANDOM.integers(M, size=size) for size in (N, (N, K))),
)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(("dtype", "parallel"), [("float32", True)])
def test_functions_of_what_data_select_run_along_rows_of_it(dtype, parallel) -> None:
    """All that is selected is read before, so that the functions are vectorised."""
    entry = sympy.exp(factor[idx[i]] * factor[i]) / (1 + table[idx[i], 0] ** 2)
    pair = td.TensorComprehension(sympy.tanh(table[idx[i], j] * table[idx[i], pairs[i, 0]]), (i, N), (j, 9))
    chosen = td.TensorComprehension(sympy.exp(-table[pairs[i, j], j]), (i, N), (j, K))
    results = (td.TensorComprehension(entry, (i, N)), pair, chosen)
    bounded = [r.subs({idx: td.TensorSymbol("idx", N, dtype=int, below=N)}) for r in results]
    arguments = (*ARGUMENTS[:3], td.TensorSymbol("idx", N, dtype=int, below=N), pairs)
    given = [*(value.astype(dtype) for value in VALUES[:3]), VALUES[3] % N, VALUES[4]]
    for result in bounded:
        found = td.lambdify(arguments, result, "numba", parallel=parallel)
        assert ("_row[" in found.source) is (result is not bounded[1]), found.source
        expected = td.lambdify(arguments, result, "numpy")(*given)
        np.testing.assert_allclose(found(*given), expected, rtol={"float64": 1e-13, "float32": 1e-5}[dtype])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("declared", [True, False])
def test_a_softmax_of_segments_takes_one_pass_for_each_sum(declared) -> None:
    """Sums of all with the same number are an array, also where they are asked for by an entry of another index.

    A third pass takes the greatest exponent of each segment, which is subtracted.
    """
    s, ds = td.TensorSymbol("s", N), td.TensorSymbol("ds", N)
    group = td.TensorSymbol("group", N, dtype=int, **({"below": M} if declared else {}))
    total = td.TensorComprehension(
        td.IndexedSum(sympy.exp(s[k]) * sympy.KroneckerDelta(j, group[k]), (k, 0, N - 1)), (j, M)
    )
    found = td.lambdify(
        (s, group, ds), td.vjp(td.TensorComprehension(sympy.exp(s[i]) / total[group[i]], (i, N)), s, ds), "numba"
    )
    assert found.plan.count("scatter: ") == 3 and found.source.count(" = exp(") == 1
    values, places, direction = VALUES[2], VALUES[3], RANDOM.standard_normal(N)
    part = np.exp(values) / np.bincount(places, np.exp(values), M)[places]
    slope = part * (direction - np.bincount(places, part * direction, M)[places])
    np.testing.assert_allclose(found(values, places, direction), slope, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("declared", [True, False])
def test_a_scatter_tests_only_what_no_range_proves(declared) -> None:
    free = td.TensorSymbol("idx", N, dtype=int, **({"below": M} if declared else {}))
    slope = td.gradient(td.IndexedSum(sympy.exp(table[free[i], j]), (i, 0, N - 1), (j, 0, 8)), table)
    assert ("if idx" in td.lambdify((table, free), slope, "numba").source) is not declared
