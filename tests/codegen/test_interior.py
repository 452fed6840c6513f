"""Loops cut where guards begin to hold and remainders are needed no longer, run as Python."""

from __future__ import annotations

import ast
import random

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.forms import FormNames
from sympy_tensordiff.codegen.emit.numba_cpu import NumbaPrinter
from sympy_tensordiff.codegen.ir.laws import NestLaws
from sympy_tensordiff.codegen.ir.loops import If, Set, accumulator
from sympy_tensordiff.codegen.ir.nests import span
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Name
from sympy_tensordiff.codegen.schedule.interior import LoopContext, interior
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


@pytest.mark.in_turns(10)
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
        shifted = [remainder(axis + rng.randint(-3, 3), n) for axis in (i, j)]
        body.append(Set(Name("s"), IndexValue(i * 7 + shifted[0] + 5 * shifted[1]), "sum"))
    loop = span("i", Affine(), n, body)
    names = FormNames(["i", "j", "n", "s", *(f"x{k}" for k in range(9))], ["real", "np", "math", "at", "plus"])
    fresh = iter(f"x{k}" for k in range(9))
    around = [span("j", Affine(), n)]
    parts = interior(loop, lambda name: next(fresh), LoopContext({}, lambda test: rng.random() < 0.5, around))
    assert parts is not None
    for size in (1, 2, 3, 4, 9):
        for row in range(min(size, 5)):
            results = [run([accumulator("s"), *part], names, n=size, j=row) for part in ([loop], parts)]
            assert results[0] == results[1]


@pytest.mark.parametrize(
    "body",
    [
        (Set(Name("s"), IndexValue(i), "sum"),),
        (Set(Name("s"), IndexValue(quotient(i, 2)), "sum"),),
        (Set(Name("s"), IndexValue(i), "sum"), If((Constraint("ge", i - j),), (Set(Name("s"), IndexValue(i), "sum"),))),
    ],
)
def test_other_loops_stay(body):
    """Nothing to cut off, a quotient with many values, and a cheap guard that fails in many iterations."""
    assert interior(span("i", Affine(), n, body), str, LoopContext({}, lambda test: False)) is None


def inner_loops(source):
    """The numbers of tests and of divisions in each innermost loop of a text."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef) and function.name.startswith("fill"):
            for loop in ast.walk(function):
                inside = [node for one in getattr(loop, "body", ()) for node in ast.walk(one)]
                if isinstance(loop, ast.For) and not any(isinstance(node, ast.For) for node in inside):
                    tests = sum(isinstance(node, ast.If) for node in inside)
                    yield (
                        tests,
                        sum(isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) for node in inside),
                    )


p, q, r, size = td.indices("p q r size")
LINE, PLANE, BOX = (td.TensorSymbol("u", (size,) * rank) for rank in (1, 2, 3))


def shifted(tensor, places, axis, step):
    """The entry of a periodic ``tensor`` a ``step`` along an ``axis`` away."""
    return tensor[tuple(sympy.Mod(k + step * (n == axis), size) for n, k in enumerate(places))]


def periodic(tensor, places):
    """A gradient energy on a torus."""
    steps = [(shifted(tensor, places, axis, 1) - tensor[places]) ** 2 for axis in range(len(places))]
    return td.IndexedSum(sum(steps), *((k, 0, size - 1) for k in reversed(places)))


def open_ends(tensor, places):
    """The squared Laplacian in the interior of a box."""
    moved = [
        tensor[tuple(k + step * (n == axis) for n, k in enumerate(places))]
        for axis in range(len(places))
        for step in (1, -1)
    ]
    term = (sum(moved) - 2 * len(places) * tensor[places]) ** 2
    return td.IndexedSum(term, *((k, 1, size - 2) for k in reversed(places)))


def gradient_of(name, u):
    """The gradients of the two energies, in NumPy."""
    if name == "periodic":
        return sum(2 * (2 * u - np.roll(u, 1, axis) - np.roll(u, -1, axis)) for axis in range(u.ndim))
    result, residual = np.zeros_like(u), np.zeros_like(u)
    if u.shape[0] < 3:
        return result
    inner = (slice(1, -1),) * u.ndim
    laplacian = sum(np.roll(u, step, axis) for axis in range(u.ndim) for step in (1, -1)) - 2 * u.ndim * u
    residual[inner] = 2 * laplacian[inner]
    padded = np.pad(residual, 1)
    moved = sum(np.roll(padded, step, axis) for axis in range(u.ndim) for step in (1, -1))
    return (moved - 2 * u.ndim * padded)[inner]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("tensor", [LINE, PLANE, BOX], ids=["line", "plane", "box"])
@pytest.mark.parametrize("energy", [periodic, open_ends])
def test_interiors_of_stencils_test_and_divide_nothing(energy, tensor):
    """One loop of each kernel of the gradient has no test and no remainder, and all entries are right at each size."""
    places = (p, q, r)[: len(tensor.shape)]
    gradient = td.gradient(energy(tensor, places), tensor)
    function = td.lambdify(tensor, gradient, "llvm", parallel=False)
    assert "interior" in function.plan
    kernels = function.source.count("def fill_")
    found = list(inner_loops(function.source))
    assert sum(pair == (0, 0) for pair in found) >= kernels
    assert len(found) <= 7 * kernels
    generator = np.random.default_rng(0)
    for length in range(1, 19):
        u = generator.normal(size=(length,) * len(places))
        np.testing.assert_allclose(function(u), gradient_of(energy.__name__, u), rtol=1e-12, atol=1e-12)
        strided = np.repeat(u, 2, axis=-1)[..., ::2]
        np.testing.assert_array_equal(function(strided), function(u))


def test_blocks_of_several_cores_have_interiors():
    """The ends of an axis are those of the whole axis, not of a block, and results are the same for any blocks."""
    gradient = td.gradient(periodic(LINE, (p,)), LINE)
    many, one = (td.lambdify(LINE, gradient, "llvm", parallel=parallel) for parallel in (True, False))
    assert (0, 0) in list(inner_loops(many.source)) and "def fill_result_block(" in many.source
    generator = np.random.default_rng(0)
    for length in (1, 2, 3, 17, 1000, 100_003):
        u = generator.normal(size=length)
        np.testing.assert_array_equal(many(u), one(u))


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
