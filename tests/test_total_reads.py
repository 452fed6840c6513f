"""Reads outside of a tensor are 0, integers too; conditions are logic: values, derivatives, kernels."""

from __future__ import annotations

import cases_branches
import cases_gathers  # noqa: F401
import cases_outside
import numpy as np
import pytest
from cases_reads import ROWS
from every import every
from fuzz.equality import as_scalar, assert_equal
from sympy import Tuple

import sympy_tensordiff as td
from sympy_tensordiff.codegen import program
from sympy_tensordiff.errors import OutOfShapeError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative, hvp
from sympy_tensordiff.simplify import facts
from sympy_tensordiff.testing.values import call_arguments, random_values, shape_of, to_double

# Each has relatives for which the same parts of the package run, in less time.
RELATIVES = {
    "an entry of a table for two conditions",
    "multiples by symbols that no projection tells",
    "a sum of choices with a factor next to data",
    "loops that run once or never",
    "a product of sums of guards",
    "the range of a maximum",
    "a rounded range around data",
    "a remainder that says more than a projection",
    "a sum with a remainder next to data",
    "a condition that leaves a sum",
    "ranges around data and those inside",
    "a range that ends at data, with floor(c/2)",
    "a range that ends at data, with Mod(c, 3)",
    "the square of a sum of a window that data end",
    "data in a range next to a factor",
    "data in a range that bounds another",
    "a test of data that leaves a sum",
    "no branch of two operands",
    "no branch of the sum of two operands",
    "a table for some sizes, by (x, w)",
    "a gather in a range",
    "a gather of a table next to an offset",
    "a condition next to another",
    "a condition sorted the other way",
    "a condition behind an index",
    "a condition or another",
    "a condition on values",
    "cases by Ne(label[Min(i, 6 - i)], 2)",
    "a range that shares no index with data next to it",
    "data behind what says that they can be read",
    "of rows",
    "by sizes",
    "in both factors",
    "in a condition",
    "in the way of another",
    "in the way of each other",
    "or in the way",
    "added up",
    "of a table",
    "a table behind an equation",
    "a table behind one remainder",
    "a table behind at least",
    "a table behind a loop index",
}


def results_of(row):
    """Results by name with what each is: its expression, and a function of values that computes it exactly."""
    function, _, first, second, _ = row
    if first is None:
        atoms = function.atoms(td.TensorSymbol) | {s for s in function.free_symbols if s.is_real}
        first = sorted(filter(is_real, atoms), key=str)
    cotangent = td.TensorSymbol("cotangent", shape_of(function))
    scalar = as_scalar(function, cotangent)
    found = {"value": (td.simplify_deltas(function), lambda values: evaluate(function, values, total=True))}
    for wrt in first:
        exact = lambda values, wrt=wrt: derivative(scalar, (wrt,), values, total=True)  # noqa: E731
        found[f"by {wrt}"] = td.vjp(function, wrt, cotangent), exact
    if second:
        along = td.TensorSymbol("along", shape_of(second[0]))
        if second[0] == second[1]:
            result = td.hvp(scalar, second[0], along)
        else:
            result = td.gradient(as_scalar(td.vjp(function, second[0], cotangent), along), second[1])

        def exact(values):
            directions = {s: np.zeros(np.shape(values[s]), int) for s in reversed(second)} | {second[0]: values[along]}
            return dict(zip(directions, hvp(scalar, directions, values, total=True), strict=True))[second[1]][1]

        found[f"by {second[0]} and {second[1]}"] = result, exact
    return found


def is_real(symbol):
    return symbol.dtype is not int if isinstance(symbol, td.TensorSymbol) else not symbol.is_integer


def values_of(function, setting, seed):
    """Random values where a setting has none."""
    given = {key: np.array(value) for key, value in setting.items() if isinstance(key, td.TensorSymbol)}
    return random_values(function, {k: v for k, v in setting.items() if k not in given}, seed, given=given)


def leaves(function, values):
    """Return whether some read that takes place is outside of its tensor, for which a call is refused."""
    try:
        evaluate(function, values)
    except OutOfShapeError:
        return True
    return False


def checked(name, kernels, symbolic=True):
    """Check a row by the interpreter and by kernels of backends, with temporaries or not, without checks of calls."""
    function, settings, _, second, compiled = ROWS[name]
    drawn = [values_of(function, setting, number) for number, setting in enumerate(settings)]
    outside = any(leaves(function, values) for values in drawn)
    with pytest.MonkeyPatch.context() as patch:
        if outside:
            patch.setattr(program, "checks_of_reads", lambda *_: ((), (), []))
            patch.setattr(facts, "implied_ranges", lambda *_: {})
        found = results_of(ROWS[name])
        results = tuple(result for result, _ in found.values())
        along = [td.TensorSymbol("along", shape_of(second[0]))] if second else []
        symbols, loaded = Tuple(function, *results, *along), {}
        for number, values in enumerate(drawn):
            values |= random_values(symbols, values, number + 1, given=values)
            expected = {name: exact(values) for name, (_, exact) in found.items()}
            if symbolic:
                for (name, exact), result in zip(expected.items(), results, strict=True):
                    assert_equal(evaluate(result, values, total=outside), exact, f"{name}, {settings[number]}")
            arguments, arrays = call_arguments(symbols, values)
            for kernel in kernels:
                if kernel not in loaded:
                    asked = (function, *(results if compiled else ()))
                    loaded[kernel] = td.lambdify(arguments, asked, kernel[0], temporaries=kernel[1])
                exact = ("value as written", expected["value"]), *expected.items()
                for got, (name, value) in zip(loaded[kernel](*arrays), exact, strict=compiled):
                    assert_equal(got, to_double(value), f"{name}, {kernel}, {settings[number]}", 1e-9)


@pytest.mark.in_turns(6)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.thorough if n in RELATIVES else ()) for n in ROWS])
def test_as_the_interpreter(name, thorough):
    """NumPy's kernels and Numba's as plain Python, by turns."""
    kernels = [("numpy", True), ("numba", True)]
    checked(name, kernels if thorough else [kernels[[*ROWS].index(name) % 2]])


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", ["a scatter in loops that may be empty"])
def test_compiled(name):
    checked(name, [("numba", True)], symbolic=False)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", cases_outside.CASES)
def test_simulated(name, simulator):
    """CUDA's kernels in the simulator and Numba's as plain Python, by turns."""
    turn = [*cases_outside.CASES].index(name) % 2
    simulator(checked, name, [(("cuda", True), ("numba", False))[turn]], False)


@every("name", cases_outside.REFUSED, turns=8)
def test_a_call_is_refused_where_a_read_leaves_its_tensor(name):
    function, settings, *_ = ROWS[name]
    drawn = [values_of(function, setting, number) for number, setting in enumerate(settings)]
    kernel = td.lambdify(call_arguments(function, drawn[0])[0], function, "numpy")
    for values in drawn:
        arrays = call_arguments(function, values)[1]
        if leaves(function, values):
            with pytest.raises(OutOfShapeError):
                kernel(*arrays)
        else:
            assert_equal(kernel(*arrays), to_double(evaluate(function, values)), f"{name}", 1e-9)


def test_a_number_from_the_branch_is_no_choice():
    """The total in front is made of choices too, but the choice that counts is that of the entry."""
    gradient = td.gradient(td.sum(cases_branches.CHOICES["a product"]) ** 2, cases_branches.x)
    assert not [part for part in gradient.atoms(td.TensorFunction) if len(part.shape) > 1]


def test_a_choice_by_a_repeated_condition_can_be_read_again():
    entries = cases_branches.CHOICES["a repeated condition"]
    assert not entries.rewrite(td.EinsumProduct).has(td.TensorComprehension)
