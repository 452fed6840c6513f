"""Loops cut where guards begin to hold and remainders are needed no longer, run as Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.forms import FormNames
from sympy_tensordiff.codegen.emit.numba_cpu import NumbaPrinter
from sympy_tensordiff.codegen.ir.laws import NestLaws
from sympy_tensordiff.codegen.ir.loops import If, Set, accumulator
from sympy_tensordiff.codegen.ir.nests import span
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Name
from sympy_tensordiff.codegen.schedule.interior import interior
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.products import quotient_by, times

i, j, n = (Affine.variable(v) for v in "ijn")


def run(body, names, **values):
    """The sum that a nest leaves in the scalar ``s``, by its text."""
    NestLaws({"n", "j"}, ()).check(body)
    printer = NumbaPrinter(names, frozenset())
    printer.body(body, 0)
    own = {"real": float, "at": int, "plus": lambda total, term: total + term}
    exec("\n".join(printer.lines), own | values, found := {})
    return found["s"]


def remainder(form, divisor):
    return form - times(divisor, quotient_by(form, divisor))


@pytest.mark.in_turns(5)
@pytest.mark.parametrize("seed", range(60))
def test_a_loop_in_parts_runs_once_for_each_value(seed):
    """Guards on both ends, on other integers, congruences, and remainders, for lengths of any size."""
    rng = random.Random(seed)
    body = []
    for number in range(rng.randint(1, 3)):
        rows = [Constraint("ge", rng.choice([1, -1]) * i + rng.choice([0, 1]) * n + rng.randint(-4, 4))]
        rows += [Constraint("ge", j - rng.randint(0, 2))] * rng.randint(0, 1) + [Constraint("mod", i, 2)] * (
            rng.random() < 0.2
        )
        body.append(If(tuple(rows), (Set(Name("s"), IndexValue((3 + number) * i + 1), "sum"),)))
    for _ in range(rng.randint(1, 2)):
        body.append(Set(Name("s"), IndexValue(i * 7 + remainder(i + rng.randint(-3, 3), n)), "sum"))
    loop = span("i", Affine(), n, body)
    names = FormNames(["i", "j", "n", "s", *(f"x{k}" for k in range(9))], ["real", "np", "math", "at", "plus"])
    fresh = iter(f"x{k}" for k in range(9))
    parts = interior(loop, lambda name: next(fresh), {}, lambda test: True)
    assert parts is not None
    for size in (1, 2, 3, 4, 9):
        for row in (0, 1, 2):
            results = [run([accumulator("s"), *part], names, n=size, j=row) for part in ([loop], parts)]
            assert results[0] == results[1]


@pytest.mark.parametrize(
    "body",
    [
        (Set(Name("s"), IndexValue(i), "sum"),),
        (Set(Name("s"), IndexValue(quotient(i, 2)), "sum"),),
        (If((Constraint("ge", i - 1),), (Set(Name("s"), IndexValue(i), "sum"),)),),
    ],
)
def test_other_loops_stay(body):
    """Nothing to cut off, a quotient with many values, and a guard alone."""
    assert interior(span("i", Affine(), n, body), str, {}, lambda test: False) is None


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (1, 4), (4, 1)])
def test_rows_of_temporaries_have_an_interior(shape):
    """The length of a row that is stored one at a time is that of the last axis, not of the first."""
    rows, columns = td.indices("n m")
    u, v = td.TensorSymbol("u", (rows, columns)), td.TensorSymbol("v", (rows, columns))
    function = td.lambdify([u, v], td.roll(u, 1, 1) + td.roll(u, -1, 1) + td.roll(u, 1, 0) + v, "llvm", parallel=False)
    assert "interior" in function.plan
    vectors = [line for line in function.source.splitlines() if "] = u[i, at(" in line]
    assert any("//" not in line for line in vectors)
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=shape), generator.normal(size=shape)
    expected = np.roll(a, 1, 1) + np.roll(a, -1, 1) + np.roll(a, 1, 0) + b
    np.testing.assert_allclose(function(a, b), expected, rtol=1e-14)
