"""Sums of exponentials over a range that grows from entry to entry are one pass along the row."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import sympy
from as_python import as_python

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.scalars import Number, Operation
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.compile import print_source

i, j, k, n = td.indices("i j k n")
t, w = td.TensorSymbol("t", n), td.TensorSymbol("w", n)


def summed(*factors_and_range):
    *factors, limits = factors_and_range
    return td.IndexedSum(sympy.Mul(*factors), limits)


def nested(value, depth):
    """Return an expression that is long if values with two uses are written out."""
    return nested(value**2 + 1 / (2 + value**2), depth - 1) if depth else value


VALUES = {
    "later ones": sympy.log(summed(sympy.exp(t[j]), (j, i, n - 1))) - t[i],
    "earlier ones": sympy.log(summed(w[j], sympy.exp(t[j]), (j, 0, i))) * w[i],
    "earlier ones and 1": sympy.log(1 + summed(w[j], sympy.exp(t[j]), (j, 0, i - 1))) * w[i],
    "two more each time": sympy.log(summed(sympy.exp(t[j]), (j, 0, sympy.Min(2 * i, n - 1)))) * w[i],
    "differences": summed(sympy.exp(t[j] - t[i]), w[j], (j, 0, i)),
    "a square": summed(sympy.exp(t[j] - w[i]), w[j] ** 2, (j, 0, i)),
    "a factor that is stored": summed(sympy.exp(t[j] - w[i]), nested(t[j], 2), (j, 0, i)),
}
LOOPS = {
    "a product of both": summed(sympy.exp(t[j] * w[i]), (j, 0, i)),
    "two exponentials": summed(sympy.exp(t[j] - w[i]), sympy.cos(w[i] * t[j]), (j, 0, i)),
    "an exponential and a tangent": summed(sympy.exp(t[j] - w[i]), sympy.tanh(w[i] * t[j]), (j, 0, i)),
    "a cosine": summed(sympy.cos(t[j] - w[i]), (j, 0, i)),
    "a window": sympy.log(summed(sympy.exp(t[j]), (j, i, sympy.Min(n - 1, i + 3)))),
    "a shift that loops find": summed(
        sympy.exp(t[j] - td.IndexedMax(w[k] * t[i], (k, i, sympy.Min(2 * i, n - 1)))), (j, 0, i)
    ),
    "a greatest value": td.IndexedMax(sympy.exp(t[j] - w[i]), (j, 0, i)),
}


def inputs(kind, count):
    random = np.random.default_rng(3)
    first, second = random.normal(size=count), random.uniform(0.1, 1, count)
    match kind:
        case "far apart":
            first *= 500
        case "rising":
            first = np.sort(first) * 300
        case "infinite":
            first[count // 2] = np.inf
        case "nothing at first":
            first[: count // 2] = -np.inf
            first[count // 2 :] -= 2000
        case "nan":
            first[count // 2] = np.nan
        case "large factors":
            second *= 1e300
    return first, second


def results(value):
    table = td.TensorComprehension(value, (i, n))
    return td.IndexedSum(value, (i, 0, n - 1)), table, td.gradient(td.IndexedSum(value, (i, 0, n - 1)), t)


KINDS = ("near", "far apart", "rising", "infinite", "nothing at first", "nan", "large factors")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.usefixtures("uncompiled")
def test_values(name):
    exprs = results(VALUES[name])
    ours = td.lambdify((t, w), exprs, "numba")
    plain = td.lambdify((t, w), exprs, "numpy", temporaries=False)
    assert "shift_so_far" in ours.source
    for kind, count in itertools.product(KINDS, (1, 2, 7, 24)):
        values = inputs(kind, count)
        with np.errstate(all="ignore"):
            for found, wanted in zip(ours(*values), plain(*values), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, err_msg=kind)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.usefixtures("uncompiled")
def test_values_and_gradients(name):
    """Without the values of the entries among the results: the shifts are kept with the other sign."""
    value, _, slope = results(VALUES[name])
    ours = td.lambdify((t, w), (value, slope), "numba")
    plain = td.lambdify((t, w), (value, slope), "numpy", temporaries=False)
    for kind in ("near", "far apart"):
        for found, wanted in zip(ours(*inputs(kind, 9)), plain(*inputs(kind, 9)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.usefixtures("uncompiled")
def test_a_large_sum_under_a_factor_that_is_zero(dtype):
    """The sum at one entry times ``exp(-1.1*large)`` is a number, ``exp(-1.1*large)`` alone is 0."""
    large = dtype(80 if dtype is np.float32 else 700)
    first = np.array([large, -large, -large], dtype)
    second = np.array([0.05, 1.15, 1.1], dtype) * large
    table = td.TensorComprehension(VALUES["a square"], (i, n))
    found = td.lambdify((t, w), table, "numba")(first, second)
    assert found.all()
    np.testing.assert_allclose(
        found, second[0] ** 2 * np.exp(large - second), rtol=2e-5 if dtype is np.float32 else 1e-12
    )


@pytest.mark.parametrize("name", LOOPS)
def test_what_goes_on_otherwise_is_a_loop_for_each_entry(name):
    program = build_program((t, w), td.TensorComprehension(LOOPS[name], (i, n)))
    assert "shift_so_far" not in print_source(program, "numba")


def test_the_work_is_linear():
    """Cox's partial likelihood: each entry takes a few exponentials, however many are at risk."""
    value = td.IndexedSum(VALUES["later ones"], (i, 0, n - 1))
    source = print_source(build_program((t,), (value, td.gradient(value, t))), "numba")
    counted = "calls = []\ndef exp(value):\n    calls.append(value)\n    return np.exp(value)"
    run = as_python(source.replace("exp = elementary(exp_single, exp_double)", counted))
    calls = run.__globals__["calls"]
    for count in (50, 100):
        calls.clear()
        run(np.sin(np.arange(count)), np.empty(()), np.empty(count))
        assert count <= len(calls) <= 8 * count


def test_values_of_scans_behind_a_condition_are_not_left():
    """Values that are written out in the carried loops are not computed for each entry as well."""
    ahead = summed(w[j], sympy.exp(t[j]), (j, i + 1, n - 1))
    value = td.IndexedSum(w[i] * n * sympy.log(1 + ahead) / (i + 1), (i, 0, n - 1))
    source = print_source(build_program((t, w), td.gradient(value, t)), "numba")
    assert "shift_so_far" in source
    assert [
        name for name in re.findall(r"(?m)^ +(v\d*) = ", source) if len(re.findall(rf"\b{name}\b", source)) < 2
    ] == []


@pytest.mark.parametrize("name", VALUES)
def test_multiples_of_what_is_kept_have_no_array(name):
    """The shifts of the exponents are needed with both signs."""
    value, _, slope = results(VALUES[name])
    program = build_program((t, w), (value, slope))
    temporaries = {array.name for array in program.temporaries}
    stored = [kernel.body[-1].value for kernel in program.nests if kernel.array in temporaries]
    products = [one for one in stored if isinstance(one, Operation) and one.function == "mul"]
    assert not any(isinstance(factor, Number) for one in products for factor in one.arguments)


def test_a_greatest_value_that_goes_on_is_one_chain():
    """Of one step more for each entry there is nothing to compare side by side."""
    source = print_source(build_program((t,), td.TensorComprehension(td.IndexedMax(t[j], (j, 0, i)), (i, n))), "numba")
    assert "greatest_so_far = maximum(greatest_so_far, " in source
    assert "greatest_so_far_1" not in source


r = sympy.Symbol("r", real=True)
DECAYS = {
    "earlier ones": summed(w[j], sympy.exp(-r * (i - j)), (j, 0, i)),
    "later ones": summed(w[j], sympy.exp(-r * (j - i)), (j, i, n - 1)),
    "with distances": summed(w[j], (i - j) ** 2, sympy.exp(-r * (i - j)), (j, 0, i)),
    "two behind": summed(w[j], (i - j), sympy.exp(-r * (2 * i - j) / 3), (j, 0, i - 2)),
    "selected": sympy.Piecewise(
        (summed(w[j], sympy.exp(-r * (i - j)), (j, 0, i)), sympy.Eq(sympy.Mod(i, 2), 0)), (0, True)
    ),
}


@pytest.mark.parametrize("name", DECAYS)
@pytest.mark.usefixtures("uncompiled")
def test_values_of_decays_along_the_index(name):
    """The sum at an entry is multiplied by one number to go on; it starts again where that is not safe."""
    table = td.TensorComprehension(DECAYS[name], (i, n))
    exprs = table, td.gradient(td.IndexedSum(table[i] ** 2, (i, 0, n - 1)), w)
    ours = td.lambdify((w, r), exprs, "numba")
    plain = td.lambdify((w, r), exprs, "numpy", temporaries=False)
    rng = np.random.default_rng(0)
    for count, rate in itertools.product((1, 2, 9, 30), (0.0, 0.3, -0.3, 2.5, -20.0, 40.0, 900.0)):
        values = rng.normal(size=count)
        values[count // 2] = 0
        with np.errstate(all="ignore"):
            for found, wanted in zip(ours(values, rate), plain(values, rate), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, err_msg=f"{count} {rate}")


@pytest.mark.usefixtures("uncompiled")
def test_values_of_decays_at_entries_that_data_select():
    c = td.TensorSymbol("c", n, dtype=int)
    selected = sympy.Piecewise((DECAYS["with distances"], sympy.Eq(c[i], 1)), (0, True))
    function = td.lambdify((w, r, c), td.TensorComprehension(selected, (i, n)), "numba")
    assert "_so_far" in function.source
    numbers, choice = np.random.default_rng(1).normal(size=20), np.random.default_rng(2).integers(0, 2, 20)
    lags = np.subtract.outer(np.arange(20), np.arange(20))
    expected = np.tril(lags**2 * np.exp(-0.3 * np.abs(lags))) @ numbers * (choice == 1)
    np.testing.assert_allclose(function(numbers, 0.3, choice), expected, 1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["earlier ones", "later ones", "with distances"])
def test_a_decay_along_the_index_takes_one_exponential(name):
    """Outside of loops; those in loops are of sums that start again."""
    source = print_source(build_program((w, r), td.TensorComprehension(DECAYS[name], (i, n))), "numba")
    assert "shift_so_far" not in source
    kernel = source[source.index("def fill_") : source.index("def run(")].split("\n")
    lines = [line for line in kernel if re.search(r"\bexp\(", line)]
    assert sum(line.startswith("    root = ") for line in lines) == 1
    again = [line for line in lines if not line.startswith("    root = ")]
    steps = kernel[kernel.index(next(line for line in kernel if "again >= 1" in line)) :]
    assert all(line in steps for line in again)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_two_sums_in_one_loop_of_which_one_gains_a_factor(backend):
    value = summed(w[j], r ** (i - j), (j, 0, i)) + summed(t[j] ** 2, (j, 0, i))
    table = td.lambdify((w, t, r), td.TensorComprehension(value, (i, n)), backend, temporaries=False)
    first, second = np.random.default_rng(0).normal(size=(2, 6))
    powers = np.tril(0.5 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6))))
    np.testing.assert_allclose(table(first, second, 0.5), powers @ first + np.cumsum(second**2), 1e-12)
