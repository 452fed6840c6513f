"""Sums with exponential kernels, ``Sum_{j <= i} (t[i] - t[j])**n*exp(-b*(t[i] - t[j]))*w[j]``, take one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
from as_python import as_python
from sympy import exp, floor, log

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.compile import print_source

i, j, k, n = td.indices("i j k n")
t, w = td.TensorSymbol("t", n), td.TensorSymbol("w", n)
b = sympy.Symbol("b")
rate = sympy.Symbol("rate", positive=True)
Sum = td.IndexedSum

ENTRIES = {
    "decay": Sum(exp(-b * (t[i] - t[j])) * w[j], (j, 0, i)),
    "decay by a time constant": Sum(exp(-(t[i] - t[j]) / b) * w[j], (j, 0, i - 1)),
    "decay of places": Sum(exp(-b * (i - j)) * w[j], (j, 0, i)),
    "first moment": Sum((t[i] - t[j]) * exp(-b * (t[i] - t[j])), (j, 0, i - 1)),
    "second moment": Sum((t[i] - t[j]) ** 2 * w[j] * exp(-b * (t[i] - t[j])), (j, 0, i)),
    "third moment backwards": Sum(w[j] * (j - i) ** 3 * exp(-b * (j - i)), (j, i, n - 1)),
    "moment of another place": Sum(w[j] * (w[i] - 2 * t[j]) * exp(w[j] - b * (t[i] - t[j])), (j, 0, i)),
    "two places in the exponent": Sum(exp(-b * (t[i] - t[j]) + w[i] / 4), (j, 0, i)),
    "powers back to the start": Sum(b**k * w[i - k], (k, 0, i)),
    "powers up to the end": Sum(b**k * w[i + k] * t[i + k], (k, 0, n - 1 - i)),
    "odd powers": Sum(b ** (2 * k + 1) * w[i - k - 1], (k, 0, i - 1)),
    "moment of distances": Sum(k**2 * exp(-b * k) * w[i - k], (k, 0, i)),
    "sums up to the end": Sum(w[i + k], (k, 0, n - 1 - i)),
}
"""Entries that one pass computes."""

OTHERS = {
    "a rate of the entry": Sum(exp(-t[j] * (t[i] - t[j])), (j, 0, i)),
    "a square in the exponent": Sum(exp(-((t[i] - t[j]) ** 2)), (j, 0, i)),
    "two distances": Sum((t[i] - t[j]) * (w[i] - w[j]) * exp(-b * (t[i] - t[j])), (j, 0, i)),
    "every second entry": Sum(b**k * w[2 * i - k], (k, 0, i)),
}
"""Entries that have loops of their own."""

TIMES = {
    "in order": lambda count: np.linspace(0.1, 4.0, count) ** 1.5,
    "late": lambda count: 1e9 + 25.0 * np.arange(count),
    "in any order": lambda count: np.random.default_rng(count).normal(size=count),
    "far apart, in any order": lambda count: 400 * np.random.default_rng(count).normal(size=count),
    "equal": np.zeros,
}


def text(results: Any) -> str:
    return print_source(build_program((t, w, b, rate), results, rows=True), "numba")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", [*ENTRIES, *OTHERS])
@pytest.mark.usefixtures("uncompiled")
def test_values(name):
    """The pass adds the terms again if the factor from entry to entry is above 1, or a sum is not finite."""
    entry = {**ENTRIES, **OTHERS}[name]
    results = td.TensorComprehension(entry, (i, floor(n / 2) if name == "every second entry" else n))
    ours = td.lambdify((t, w, b, rate), results, "numba")
    plain = td.lambdify((t, w, b, rate), results, "numpy", temporaries=False)
    assert ("_so_far" in text(results)) == (name in ENTRIES)
    for times in TIMES.values():
        for count in (1, 2, 13):
            arrays = times(count), np.random.default_rng(count).normal(size=count)
            for number in (0.7, -0.4, 30.0):
                with np.errstate(all="ignore"):
                    found, wanted = (run(*arrays, number, 1.0) for run in (ours, plain))
                size = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-13 * size + 1e-300)


DOUBLE = {
    "a triangle": Sum(w[j] * t[i], (j, 0, i), (i, 0, n - 1)),
    "powers in a triangle": Sum(rate ** (i - j) * w[j] * t[i], (j, 0, i), (i, 0, n - 1)),
    "decay in a triangle": Sum(exp(-rate * (t[i] - t[j])) * w[j] * w[i], (i, j + 1, n - 1), (j, 0, n - 2)),
    "distances in a triangle": Sum((t[i] - t[j]) * exp(-rate * (t[i] - t[j])) * w[i], (j, 0, i), (i, 0, n - 1)),
    "powers of distances": Sum(rate**k * w[i - k] * t[i], (k, 0, i), (i, 0, n - 1)),
}


def hawkes() -> tuple[Any, ...]:
    """Log-likelihood of a self-exciting point process (Hawkes 1971) and its derivatives."""
    intensity = b + Sum(exp(-rate * (t[i] - t[j])), (j, 0, i - 1))
    f = Sum(log(intensity), (i, 0, n - 1)) - Sum(1 - exp(-rate * (t[n - 1] - t[i])), (i, 0, n - 1)) / rate
    return f, sympy.diff(f, b), sympy.diff(f, rate), td.gradient(f, t)


CALCULATIONS = {
    **{name: (total, sympy.diff(total, rate), td.gradient(total, w)) for name, total in DOUBLE.items()},
    "decay and its derivatives": tuple(
        td.gradient(Sum(sympy.sin(ENTRIES["decay"]), (i, 0, n - 1)), variable) for variable in (t, w)
    ),
    "point process": hawkes(),
}


class Counted(np.ndarray):
    """An array that counts its reads in the attribute of the class."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        Counted.reads += 1
        return np.asarray(self)[place]


LINEAR = ["a triangle", "powers in a triangle", "decay in a triangle", "powers of distances", "point process"]


@pytest.mark.parametrize("name", LINEAR)
def test_the_work_is_linear(name):
    results = CALCULATIONS[name][:3] if name == "point process" else (DOUBLE[name], td.gradient(DOUBLE[name], w))
    run = as_python(print_source(build_program((t, w, b, rate), results, rows=True), "numba"))
    for count in (40, 80):
        Counted.reads = 0
        arrays = np.linspace(0.1, 9.0, count).view(Counted), np.ones(count).view(Counted)
        outputs = [np.empty(count if getattr(result, "shape", ()) else ()) for result in results]
        with np.errstate(all="ignore"):
            run(*arrays, 0.9, 0.8, *outputs)
        assert count <= Counted.reads <= 80 * count


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("name", CALCULATIONS)
@pytest.mark.usefixtures("uncompiled")
def test_values_and_derivatives(name):
    results = CALCULATIONS[name]
    ours = td.lambdify((t, w, b, rate), results, "numba")
    plain = td.lambdify((t, w, b, rate), results, "numpy", temporaries=False)
    for count in (1, 2, 14):
        arrays = np.sort(np.random.default_rng(count).uniform(0, 5, count)), np.random.default_rng(1).normal(size=count)
        for found, wanted in zip(ours(*arrays, 0.9, 0.8), plain(*arrays, 0.9, 0.8), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-11)


kind, x, g = td.TensorSymbol("kind", n, dtype=int), td.TensorSymbol("x", n), td.TensorSymbol("g", n)


def competing_risks(x=x, wrt=x):
    """Log-likelihood of sums over later entries, and over earlier ones of a kind, with weights (Fine & Gray 1999)."""
    earlier = Sum(sympy.Piecewise((exp(x[j]) * g[i] / g[j], sympy.Eq(kind[j], 2)), (0, True)), (j, 0, i - 1))
    risk = Sum(exp(x[j]), (j, i, n - 1)) + earlier
    value = Sum(sympy.Piecewise((log(risk) - x[i], sympy.Eq(kind[i], 1)), (0, True)), (i, 0, n - 1))
    return value, td.gradient(value, wrt)


def value_of_risks(kind, x, g):
    share = np.exp(x - x.max())
    earlier = np.tril(np.where(kind == 2, share / g, 0) * np.ones((len(x), 1)), -1).sum(1) * g
    risk = np.triu(share * np.ones((len(x), 1))).sum(1) + earlier
    own = (kind == 1)[:, None] / risk[:, None]
    weights = own * (np.triu(np.ones((len(x), len(x)))) + np.tril((kind == 2) * g[:, None] / g, -1))
    value = np.where(kind == 1, np.log(risk) + x.max() - x, 0).sum()
    return value, weights.sum(0) * share - (kind == 1)


@pytest.mark.parametrize("backend", ["llvm", pytest.param("numba", marks=pytest.mark.in_turns(8))])
@pytest.mark.parametrize("scale", [0.3, 3, 60])
def test_running_sums_of_entries_that_data_select(scale, backend):
    """Exponents that rise and fall by up to hundreds from entry to entry."""
    results = competing_risks()
    call = td.lambdify((kind, x, g), results, backend)
    for count in (1, 2, 3, 8, 65, 500):
        generator = np.random.default_rng(count)
        chosen = generator.integers(0, 3, count)
        values, weights = generator.normal(size=count) * scale, np.linspace(1, 0.3, count)
        found, wanted = call(chosen, values, weights), value_of_risks(chosen, values, weights)
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-9, atol=1e-11)
        if scale < 10:
            single = call(chosen, values.astype(np.float32), weights.astype(np.float32))
            np.testing.assert_allclose(single[1], wanted[1], rtol=1e-3, atol=1e-3)


def test_running_sums_that_data_select_are_linear():
    run = as_python(print_source(build_program((kind, x, g), competing_risks(), rows=True, norms=True), "numba"))
    reads = []
    for count in (60, 120):
        Counted.reads = 0
        generator = np.random.default_rng(0)
        arrays = (
            generator.integers(1, 3, count),
            generator.normal(size=count).view(Counted),
            np.ones(count).view(Counted),
        )
        with np.errstate(all="ignore"):
            run(*arrays, np.empty(()), np.empty(count))
        reads.append(Counted.reads)
    assert reads[1] < 2.3 * reads[0]


def test_scales_of_a_sum_without_terms_are_not_read():
    """The sums over earlier entries read scales at ``i - 1``, of which the first entry has none."""
    data, slopes = td.TensorSymbol("data", (n, 3)), td.TensorSymbol("slopes", 3)
    scores = td.TensorComprehension(Sum(data[i, k] * slopes[k], (k, 0, 2)), (i, n))
    call = td.lambdify((kind, data, slopes, g), competing_risks(scores, slopes), "llvm")
    assert str(call.plan).count("carry: entries") == 6  # all sums over other entries
    generator = np.random.default_rng(0)
    for count in (1, 2, 9, 70):
        values, weights, chosen = generator.normal(size=(count, 3)), np.ones(3), generator.integers(0, 3, count)
        wanted = value_of_risks(chosen, values @ weights, np.linspace(1, 0.3, count))
        found = call(chosen, values, weights, np.linspace(1, 0.3, count))
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found[1], wanted[1] @ values, rtol=1e-9, atol=1e-11)
