"""The order of axes in memory: temporaries as they are read, copies where loops would read in strides."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import sympy
from every import every
from generator import Generator
from optimised import optimised
from oracle import check_against
from programs import CASES, L, M, N, array, i, j, k, load, op, owned, result, store, total

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import ContractionStep, Kernel, Operand, Program, entrywise
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Number
from sympy_tensordiff.codegen.ir.steps import calls_in_loops
from sympy_tensordiff.codegen.ir.verify import verify, with_masks
from sympy_tensordiff.codegen.ir.walk import scalars
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.schedule.layout import _column_reads, in_reading_order
from sympy_tensordiff.integer.affine import Affine


def gaussian(n, d):
    """The gradient of sums of a Gaussian kernel by its points, and its arguments."""
    p, q, r = td.indices("p q r")
    x, y = td.TensorSymbol("x", (n, d)), td.TensorSymbol("y", (n, d))
    b, g = td.TensorSymbol("b", n), td.TensorSymbol("g", n)
    distance = td.IndexedSum((x[p, r] - y[q, r]) ** 2, (r, 0, d - 1))
    values = td.TensorComprehension(td.IndexedSum(sympy.exp(-distance) * b[q], (q, 0, n - 1)), (p, n))
    return (x, y, b, g), td.vjp(values, x, g)


def check_order(program, arguments):
    """Fail where another order gives other results in any entry; whether there is another order."""
    turned = in_reading_order(program)
    if turned is program:
        return False
    check_against(program, turned, arguments)
    return True


@every("name", [*CASES])
def test_results_stay(name):
    program, arguments = CASES[name]
    verify(in_reading_order(with_masks(program)))
    check_order(program, arguments(np.random.default_rng(3)))


@pytest.mark.in_turns(8)
def test_results_of_random_programs_stay(thorough):
    turned = 0
    for seed in range(400, 440 if thorough else 406):
        generator = Generator(seed)
        program = generator.program()
        random = np.random.default_rng(seed)
        shapes = [[form.evaluate(generator.sizes) for form in a.shape] for a in program.arguments]
        turned += check_order(program, [random.uniform(-1, 1, shape) for shape in shapes])
    assert turned > 1


def test_points_are_read_by_coordinate():
    """The temporary is filled and read along its last axis, the points y are copied, x is read once per row."""
    args, gradient = gaussian(50, 3)
    program = in_reading_order(build_program(args, gradient))
    copy, fill, last = program.kernels
    assert (copy.array, last.array, len(program.temporaries)) == ("y_turned", "result", 2)
    assert [reads(kernel, "y") for kernel in (fill, last)] == [[], []]
    row, column = fill.axes
    assert {str(index[0]) for index in reads(fill, "x")} == {row}
    assert {str(index[1]) for index in reads(fill, "y_turned")} == {column}
    (index,) = reads(last, fill.array)
    assert str(index[0]) == last.axes[0]


def reads(kernel, name):
    """The indices at which a kernel reads an array."""
    return [node.index for node in scalars(kernel.body) if isinstance(node, Load) and node.array == name]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_points_are_computed_on_vectors(dtype):
    """No gathers, no strides: both loops, one of them a sum, are of vectors."""
    args, gradient = gaussian(50, 3)
    random = np.random.default_rng(0)
    x, y, b, g = given = [random.normal(size=s).astype(dtype) for s in ((50, 3), (50, 3), 50, 50)]
    kernel = td.lambdify(args, gradient)
    weights = np.exp(-((x[:, None] - y[None]) ** 2).sum(2)) * b
    wanted = -2 * g[:, None] * (weights[:, :, None] * (x[:, None] - y[None])).sum(1)
    np.testing.assert_allclose(kernel(*given), wanted, rtol=1e-12 if dtype is np.float64 else 1e-4)
    scalar = "double" if dtype is np.float64 else "float"
    assert "y_turned: a copy of y with axis 0 last, along which loops read it" in kernel.plan
    code = optimised(kernel, dtype)
    assert "masked.gather" not in code
    vectors = re.findall(rf"= f(?:add|sub|mul) .*<\d+ x {scalar}>.*", code)
    assert len(vectors) >= 20
    assert any(" reassoc " in line for line in vectors), "the sum"
    assert dtype is np.float64 or "fpext" not in code


def column_sums(*extra):
    """r[i, j] = sum_k t[k, i]*a[k, j] over 3 columns j, with t[k, i] = 2*b[i, k]."""
    fill = entrywise("t", ("k", "i"), [], op("mul", 2, load("b", i, k)))
    body = (*total("s", op("mul", load("t", k, i), load("a", k, j)), ("k", 0, M - 1)), store(Name("s")))
    kernels = (fill, owned(Kernel("r", ("i", "j"), body)), *extra)
    outputs = (result("r", L, 3), *(result(step.array, M, M) for step in extra))
    return Program((array("b", L, M), array("a", M, 3)), outputs, (result("t", M, L),), kernels)


def test_what_is_read_once_stays():
    turned = in_reading_order(column_sums())
    assert [a.name for a in turned.temporaries] == ["t", "a_turned"]


STRIDED = {"3*i + 2*k": (3, 2, 0), "2*k - i": (-1, 2, 6), "4*i - 3*k": (4, -3, 18), "k + 2*i": (2, 1, 1)}
"""Indices ``a*i + b*k + c`` by a, b, c: with strides, negative ones, and remainders of what is around the loop."""


@every("name", [*STRIDED])
@every("sizes", [(7, 5), (1, 1), (2, 7)], turns=8)
def test_residue_classes(name, sizes, uncompiled):
    """Reads in strides run along copies of residue classes: the value and both gradients, by vectors and matrices."""
    a, b, c = STRIDED[name]
    i, k, n, m = td.indices("i k n m")
    x, y = td.TensorSymbol("x", 5 * n + 3 * m + 19), td.TensorSymbol("y", (n, 4 * n + 3 * m + 19))
    w, z = td.TensorSymbol("w", m), td.TensorSymbol("z", n)
    place = a * i + b * k + c
    residual = td.IndexedSum((x[place] + y[i, place]) * w[k], (k, 0, m - 1)) - z[i]
    loss = td.IndexedSum(residual**2, (i, 0, n - 1))
    values = {n: sizes[0], m: min(sizes[1], 6) if b < 0 else sizes[1]}
    random = np.random.default_rng(1)
    shapes = [[int(sympy.sympify(extent).subs(values)) for extent in tensor.shape] for tensor in (x, y, w, z)]
    arrays = [random.uniform(-1, 1, shape) for shape in shapes]
    exprs = (loss, *td.gradient(loss, (x, y, w)))
    compiled, expected = (td.lambdify((x, y, w, z), exprs, backend)(*arrays) for backend in ("numba", "numpy"))
    for found, wanted in zip(compiled, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_residue_classes_are_in_the_plan():
    i, k, n, m = td.indices("i k n m")
    x, w = td.TensorSymbol("x", 3 * n + 2 * m), td.TensorSymbol("w", m)
    sums = td.TensorComprehension(td.IndexedSum(x[3 * i + 2 * k] * w[k], (k, 0, m - 1)), (i, n))
    assert "x_classes: the residue classes of axis 0 of x modulo 2, along" in td.lambdify((x, w), sums).plan
    # What is read once is not copied.
    assert "classes" not in td.lambdify((x, w), td.TensorComprehension(x[3 * i] ** 2, (i, n))).plan


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("columns", [2, 5, 8])
def test_forces_between_points_of_few_coordinates_run_over_the_points(columns):
    """The sums of a short row are scalars, and the points are read by coordinate: the long loop is the innermost."""
    x, w = td.TensorSymbol("x", (50, columns)), td.TensorSymbol("w", 50)
    p, q, j, k = td.indices("p q j k")
    distance = td.IndexedSum((x[p, k] - x[j, k]) ** 2, (k, 0, columns - 1))
    force = td.IndexedSum(w[j] * (x[p, q] - x[j, q]) / (1 + distance), (j, 0, 49))
    function = td.lambdify([x, w], td.TensorComprehension(force, (p, 50), (q, columns)))
    assert "x_turned" in function.source
    points, weights = (np.random.default_rng(n).normal(size=shape) for n, shape in enumerate(((50, columns), 50)))
    differences = points[:, None] - points
    expected = np.einsum("j,pjq,pj->pq", weights, differences, 1 / (1 + (differences**2).sum(2)))
    np.testing.assert_allclose(function(points, weights), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.usefixtures("uncompiled")
def test_filters_of_five_taps_are_read_by_residue_classes():
    """A loop of five steps is unrolled, and yet repeats the reads of an image often enough for a copy."""
    f, w, y = td.TensorSymbol("f", (64, 64)), td.TensorSymbol("w", (5, 5)), td.TensorSymbol("y", (30, 30))
    a, b, c, d = td.indices("a b c d")
    response = td.IndexedSum(f[2 * a + c, 2 * b + d] * w[c, d], (c, 0, 4), (d, 0, 4))
    loss = td.IndexedSum((response - y[a, b]) ** 2, (a, 0, 29), (b, 0, 29))
    function = td.lambdify([f, w, y], tuple(td.gradient(loss, [f, w])))
    assert "f_classes" in function.source
    arrays = [np.random.default_rng(n).normal(size=shape) for n, shape in enumerate(((64, 64), (5, 5), (30, 30)))]
    windows = np.lib.stride_tricks.sliding_window_view(arrays[0], (5, 5))[:60:2, :60:2]
    residual = 2 * (np.einsum("abcd,cd->ab", windows, arrays[1]) - arrays[2])
    np.testing.assert_allclose(function(*arrays)[1], np.einsum("ab,abcd->cd", residual, windows), rtol=1e-11)


def product_read(*indices):
    """A product of matrices c[i, j], and the sums over k <= i of what is read of it at ``indices``."""
    product = ContractionStep("c", (0, 1), Operand("a", (0, 2)), Operand("b", (1, 2)))
    loads = [load("c", *index) for index in indices]
    value = loads[0] if len(loads) == 1 else op("mul", *loads)
    sums = entrywise("r", ("i",), [*total("s", value, ("k", 0, i))], Name("s"))
    arrays = array("a", N, M), array("b", N, M)
    return Program(arrays, (result("r", N),), (result("c", N, N),), (product, sums))


READS = {"columns": [(k, i)], "rows": [(i, k)], "both": [(i, k), (k, i)], "more columns": [(k, i), (k, i), (i, k)]}


@pytest.mark.parametrize("name", READS)
def test_products_of_matrices_have_the_layout_that_loops_read(name):
    program = product_read(*READS[name])
    turned = in_reading_order(program)
    found = next(step.output for step in turned.kernels if isinstance(step, ContractionStep))
    assert found == ((1, 0) if "columns" in name else (0, 1))
    assert ("c: transposed, since loops read along its columns" in turned.notes) == ("columns" in name)
    random = np.random.default_rng(0)
    check_against(*map(calls_in_loops, (program, turned)), [random.normal(size=(4, 3)), random.normal(size=(4, 3))])


def test_products_read_their_operands_in_the_order_of_the_loops():
    program = product_read((k, i))
    square = ContractionStep("d", (0, 1), Operand("c", (0, 2)), Operand("c", (2, 1)))
    program = replace(program, kernels=(*program.kernels, square), outputs=(*program.outputs, result("d", N, N)))
    turned = in_reading_order(program)
    products = {step.array: step for step in turned.kernels if isinstance(step, ContractionStep)}
    assert products["c"].output == (1, 0)
    assert [one.labels for one in products["d"].operands] == [(2, 0), (1, 2)]
    random = np.random.default_rng(0)
    check_against(*map(calls_in_loops, (program, turned)), [random.normal(size=(4, 3)), random.normal(size=(4, 3))])


def test_a_masked_divergence_reads_its_product_along_rows():
    """The sum of ``M*(W @ H)`` and the loops read W @ H in one order, that of M."""
    n, m, r = td.indices("n m r")
    X, mask = td.TensorSymbol("X", (n, m)), td.TensorSymbol("M", (n, m))
    W, H = td.TensorSymbol("W", (n, r)), td.TensorSymbol("H", (r, m))
    Y = W @ H
    value = td.sum(mask * (Y - X * td.log(Y))) + td.sum(H) / 10
    function = td.lambdify([X, mask, W, H], (value, *td.gradient(value, (W, H))), "numpy")
    program = in_reading_order(build_program([X, mask, W, H], (value, *td.gradient(value, (W, H))), rows=True))
    loads = [part for step in program.kernels if isinstance(step, Kernel) for part in scalars(step.body)]
    products = {step.array for step in program.kernels if isinstance(step, ContractionStep)}
    reads = [part.index for part in loads if isinstance(part, Load) and part.array in products and len(part.index) == 2]
    like = [part.index for part in loads if isinstance(part, Load) and part.array == "X"]
    assert reads
    assert set(reads) <= set(like)
    rng = np.random.default_rng(1)
    arrays = [rng.uniform(0.5, 1, size=shape) for shape in ((4, 5), (4, 5), (4, 3), (3, 5))]
    weights = arrays[1] * (1 - arrays[0] / (arrays[2] @ arrays[3]))
    for got, wanted in zip(function(*arrays)[1:], (weights @ arrays[3].T, arrays[2].T @ weights + 0.1), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("output", [(0, 1, 2, 3), (0, 3, 1, 2), (1, 0, 2, 3)])
def test_results_of_batched_products_have_the_layout_that_loops_read(output):
    """The rows of a result may be two axes; labels of a batch that are not in front keep their places."""
    product = ContractionStep("c", output, Operand("a", (0, 1, 2, 4)), Operand("b", (0, 3, 4)))
    axes = dict(enumerate(["p", "q", "i", "j"]))
    forms = {n: Affine.variable(name) for n, name in axes.items()}
    value = op("mul", load("c", *(forms[n] for n in output)), Number(2))
    fill = entrywise("r", tuple(axes.values()), [], value)
    shapes = {0: Affine.of(2), 1: Affine.of(2), 2: Affine.of(9), 3: Affine.of(9), 4: M}
    arrays = array("a", *(shapes[n] for n in (0, 1, 2, 4))), array("b", *(shapes[n] for n in (0, 3, 4)))
    whole = result("r", *(shapes[n] for n in range(4)))
    remaining = result("c", *(shapes[n] for n in output))
    program = Program(arrays, (whole,), (remaining,), (product, fill))
    turned = in_reading_order(program)
    (found,) = (step.output for step in turned.kernels if isinstance(step, ContractionStep))
    assert found == ((0, 1, 2, 3) if output[0] == 0 else output)
    random = np.random.default_rng(0)
    values = [random.normal(size=(2, 2, 9, 3)), random.normal(size=(2, 9, 3))]
    check_against(*map(calls_in_loops, (program, turned)), values)


def test_a_product_has_the_layout_of_the_arguments_read_with_it():
    """Log likelihoods of counts G: two kernels and the value read G with the product, which is transposed for them."""
    n, m, r, i, j, k = td.indices("n m r i j k")
    A, B, G = td.TensorSymbol("A", (n, r)), td.TensorSymbol("B", (r, m)), td.TensorSymbol("G", (n, m))
    powers = td.IndexedSum(sympy.exp(A[i, k]) / (1 + sympy.exp(-B[k, j])), (k, 0, r - 1))
    shares = powers / td.IndexedSum(sympy.exp(A[i, k]), (k, 0, r - 1))
    terms = G[i, j] * sympy.log(shares) + (2 - G[i, j]) * sympy.log(1 - shares)
    value = -td.IndexedSum(terms, (i, 0, n - 1), (j, 0, m - 1))
    plan = str(td.lambdify((A, B, G), (value, *td.gradient(value, (A, B))), "llvm").plan)
    temporaries = plan[plan.index("temporaries:") : plan.index("kernels:")]
    assert " : array (n, m)\n" in temporaries
    assert " : array (m, n)\n" not in temporaries


def test_a_product_has_the_layout_of_the_values_computed_from_it():
    """The hidden layer is read by columns for a vector of weights: it and the product below it are transposed."""
    n, d, h, a = td.indices("n d h a")
    inputs, targets = td.TensorSymbol("X", (n, d)), td.TensorSymbol("y", n)
    first, second, weights = td.TensorSymbol("U", (d, h)), td.TensorSymbol("V", (h, a)), td.TensorSymbol("w", h)
    hidden = td.tanh(inputs @ first)
    value = td.mean(td.logsumexp(hidden @ second, axis=1)) + td.mean((hidden @ weights - targets) ** 2)
    arguments = inputs, first, second, weights, targets
    program = build_program(arguments, (value, *td.gradient(value, (first, second, weights))))
    turned = in_reading_order(program)
    assert _column_reads(program) > _column_reads(turned) == 0
    random = np.random.default_rng(1)
    shapes = (5, 3), (3, 4), (4, 2), (4,), (5,)
    check_against(*map(calls_in_loops, (program, turned)), [random.normal(size=shape) for shape in shapes])
