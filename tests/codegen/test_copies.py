"""Temporaries that hold what another array holds are not filled: that array is read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from programs import owned, store
from sympy import Abs, Rational

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Array, ContractionStep, Kernel, Operand, Program, entrywise
from sympy_tensordiff.codegen.ir.scalars import Load, Number, Operation
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.schedule.copies import without_aliases
from sympy_tensordiff.integer.affine import Affine

i, k, l, p, q, n, m = td.indices("i k l p q n m")
Z, w = td.TensorSymbol("Z", (n, m, 8)), td.TensorSymbol("w", 8)


def moved(index):
    return td.IndexedSum(Z[i, index, l] * Abs(w[l] - w[k]), (l, 0, 7))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("factor", [-1, 1, Rational(1, 2)])
def test_multiples_of_a_product_are_one_array(factor):
    terms = td.IndexedSum(Abs(moved(p) + factor * moved(q)) ** 3, (k, 0, 7))
    expr = td.TensorComprehension(terms, (i, n), (p, m), (q, m))
    program = build_program([Z, w], expr, sizes={n: 100, m: 100})
    whole = [array for array in program.temporaries if len(array.shape) == 3]
    assert len(whole) == 1
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 5, 8)), rng.normal(size=8)
    found = np.einsum("ipl,lk->ipk", values[0], np.abs(values[1][:, None] - values[1]))
    expected = (np.abs(found[:, :, None] + float(factor) * found[:, None]) ** 3).sum(axis=-1)
    for backend in ("numpy", "numba") if factor == -1 else ("numpy",):
        function = td.lambdify([Z, w], expr, backend=backend, sizes={n: 100, m: 100})
        np.testing.assert_allclose(function(*values), expected, rtol=1e-11)


x, y = Affine.variable("x"), Affine.variable("y")
N = Affine.variable("N")
square = (N, N)


def copy_of(array, target, sign=1, index=(x, y), kind=Kernel, **more):
    load = Load(array, index)
    value = load if sign == 1 else Operation("mul", (Number(sign), load))
    return owned(kind(target, ("x", "y"), (store(value),), **more))


def program_of(*kernels, outputs=("result",)):
    arrays = [step.array for step in kernels if step.array not in outputs]
    temporaries = tuple(Array(name, square) for name in dict.fromkeys(arrays))
    return Program((), tuple(Array(name, square) for name in outputs), temporaries, kernels)


def filled(array):
    return entrywise(array, ("x", "y"), [], Number(2))


def test_products_read_the_array_behind_copies_of_copies():
    product = ContractionStep("result", (0, 2), Operand("c", (0, 1)), Operand("a", (2, 1)), 3)
    program = program_of(filled("a"), copy_of("a", "b", -1), copy_of("b", "c"), product)
    found = without_aliases(program)
    assert [array.name for array in found.temporaries] == ["a"]
    assert found.kernels[1:] == (ContractionStep("result", (0, 2), Operand("a", (0, 1)), Operand("a", (2, 1)), -3),)


def test_equal_steps_run_once():
    """Their names and labels may differ; another factor or order of labels is another product."""
    renamed = entrywise("b", ["u", "v"], [], Number(2))
    one = ContractionStep("p", (0, 2), Operand("a", (0, 1)), Operand("b", (1, 2)))
    other = ContractionStep("q", (5, 1), Operand("b", (5, 7)), Operand("a", (7, 1)))
    turned, scaled = replace(one, array="s", output=(2, 0)), replace(one, array="t", factor=2)
    total = ContractionStep("result", (0, 2), Operand("p", (0, 1)), Operand("q", (1, 2)))
    last = ContractionStep("last", (0, 2), Operand("s", (0, 1)), Operand("t", (1, 2)))
    program = program_of(filled("a"), renamed, one, other, turned, scaled, total, last, outputs=("result", "last"))
    found = without_aliases(program)
    assert [step.array for step in found.kernels] == ["a", "p", "s", "t", "result", "last"]
    assert {operand.array for operand in found.kernels[-2].operands} == {"p"}
    assert {operand.array for step in found.kernels[1:4] for operand in step.operands} == {"a"}
    assert [array.name for array in found.temporaries] == ["a", "p", "s", "t"]


def test_names_of_sizes_are_not_taken_for_axes():
    """Whatever names replace those of axes, ``x[k + size]`` is not ``x[2*i]``."""
    sizes = [Affine.variable(name) for name in ("v0", "v", "i0", "k", "_0")]
    for size in sizes:
        shifted = entrywise("a", ["j"], [], Load("x", (Affine.variable("j") + size, y)))
        doubled = entrywise("b", ["i"], [], Load("x", (2 * Affine.variable("i"), y)))
        product = ContractionStep("result", (0, 2), Operand("a", (0, 1)), Operand("b", (1, 2)))
        assert [step.array for step in without_aliases(program_of(shifted, doubled, product)).kernels][:2] == ["a", "b"]


def test_results_that_are_equal_are_both_filled():
    program = program_of(filled("one"), filled("other"), outputs=("one", "other"))
    assert without_aliases(program) == program
