"""Norms of entries whose squares overflow or underflow: values, gradients and Hessians in all backends that compile."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from every import every
from in_c import COMPILER, Function, build, sources

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.base import ScalarPrinter
from sympy_tensordiff.codegen.emit.forms import FormNames
from sympy_tensordiff.codegen.ir.loops import Set, let
from sympy_tensordiff.codegen.ir.nests import FALSE, TRUE
from sympy_tensordiff.codegen.ir.rare_loops import decided
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Number, Operation
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.integer.affine import Affine

n, m, i, j, k = td.indices("n m i j k")
x, y, P = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("P", (m, 3))
A = td.TensorSymbol("A", (m, n))
by_hand = sympy.sqrt(td.IndexedSum(x[i] ** 2, (i, 0, n - 1)))
row_norm = sympy.sqrt(td.IndexedSum(A[i, k] ** 2, (k, 0, n - 1)))
NORMS = {  # a function, its variable, and its degree of homogeneity
    "norm": (td.norm(x), x, 1),
    "by hand": (by_hand, x, 1),
    "of a difference": (td.norm(x - y), x, 1),
    "of a matrix": (td.norm(A), A, 1),
    "of rows": (td.sqrt(td.sum(A**2, axis=1)), A, 1),
    "of columns": (td.sqrt(td.sum(A**2, axis=0)), A, 1),
    "of points": (td.sqrt(td.sum(P**2, axis=1)), P, 1),
    "of rows, in indices": (td.TensorComprehension(row_norm, (i, m)), A, 1),
    "sum of norms": (td.IndexedSum(row_norm, (i, 0, m - 1)), A, 1),
    "root mean square": (td.sqrt(td.mean(x**2)), x, 1),
    "standard deviation": (td.std(x), x, 1),
    "unit vector": (x / td.norm(x), x, 0),
    "unit rows": (td.TensorComprehension(A[i, j] / row_norm, (i, m), (j, n)), A, 0),
    "cube": (td.norm(x) ** 3, x, 3),
}
TEST, OTHER = Name("test"), Name("other")
SCALES = {np.float64: (1e200, 1e-200, 1e-12), np.float32: (1e30, 1e-30)}


def results(name):
    """A norm and the gradient of the sum of its entries; of norms of whole vectors the Hessian, too."""
    value, variable, _ = NORMS[name]
    total = td.sum(value) if getattr(value, "shape", ()) else value
    found = value, td.gradient(total, variable)
    return (*found, td.hessian(value, x)) if name in ("norm", "of a difference", "cube") else found


def arguments(name):
    """The arrays of a function's arguments, and these as symbols."""
    random = np.random.default_rng(0)
    used = [one for one in (x, y, A, P) if any(part.has(one) for part in results(name))]
    shapes = {x: 5, y: 5, A: (4, 5), P: (4, 3)}
    return tuple(used), [random.standard_normal(shapes[one]) for one in used]


def check(name, compute, values, dtype):
    """Compare values at a scale with those at scale 1, where nothing overflows."""
    degree = NORMS[name][2]
    expected = [np.asarray(one) for one in compute(*(value.astype(dtype) for value in values))]
    for scale in SCALES[dtype]:
        root = scale ** (1 / degree) if degree > 1 else scale
        found = compute(*((value * root).astype(dtype) for value in values))
        for order, (one, wanted) in enumerate(zip(found, expected, strict=True)):
            size = np.abs(wanted).max()
            exponent = np.log10(root) * (degree - order)
            got = np.asarray(one, np.longdouble) / np.longdouble(10) ** np.longdouble(exponent)
            np.testing.assert_allclose(got, wanted, rtol=0, atol=500 * np.finfo(dtype).eps * size, err_msg=f"{scale}")


@every("name", [*NORMS], turns=10)
def test_values_and_derivatives(name):
    symbols, values = arguments(name)
    compiled = ("llvm",) * (name in ("norm", "by hand", "of rows", "of columns", "of points", "unit rows"))
    for backend in ("numpy", *compiled, *("numba",) * (name in ("norm", "of rows"))):
        compute = td.lambdify(symbols, results(name), backend)
        for dtype in SCALES:
            check(name, compute, values, dtype)


@pytest.mark.in_turns(8)
@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_in_c(tmp_path):
    names = dict(zip("abcdefghijklmnop", NORMS, strict=False))
    programs = {
        letter: build_program(arguments(name)[0], results(name), norms=True, rows=True)
        for letter, name in names.items()
    }
    for dtype, ctype in ((np.float64, "float64"), (np.float32, "float32")):
        found, refused = sources(programs, dtype=ctype)
        assert not refused
        folder = tmp_path / ctype
        folder.mkdir()
        library = build(found, folder, "-O2")
        for letter, name in names.items():
            check(name, Function(library, letter, programs[letter], dtype), arguments(name)[1], dtype)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_zeros_and_infinities(backend):
    compute = td.lambdify((x, A), (td.norm(x), td.gradient(td.norm(x), x), td.sqrt(td.sum(A**2, axis=1))), backend)
    rows = np.array([[0, 0, 0], [3e200, 4e200, 0], [np.inf, 1, -2], [np.nan, 1, 1], [3, 4, 0], [3e-310, 0, 4e-310]])
    value, gradient, norms = compute(np.zeros(3), rows)
    assert value == 0 and not gradient.any()
    np.testing.assert_allclose(norms[:5], [0, 5e200, np.inf, np.nan, 5], rtol=1e-15)
    assert 4e-310 <= norms[5] <= 5e-310  # no number has an inverse there: the largest entry
    assert compute(np.array([1.0, -np.inf, 2.0]), rows)[0] == np.inf


def test_the_second_computation_is_a_branch():
    """Of one loop in the usual case, and named in the plan; distances of all pairs stay as they are."""
    value = td.norm(x)
    assert "in forms that keep their digits: norm" in td.lambdify(x, value, "numpy").plan
    text = td.generate_code(x, by_hand, "c").partition("void fill_result")[2].partition("\n}")[0]
    assert text.index("if (!v1)") < text.index("maximum(") and text.count("x[i]") == 1
    for backend, condition in (("numpy", "t.min() and t.max() < math.inf:"), ("numba", "if not v1:")):
        assert condition in td.generate_code(A, td.sqrt(td.sum(A**2, axis=1)), backend)
    pairs = sympy.sqrt(td.IndexedSum((A[i, k] - A[j, k]) ** 2, (k, 0, n - 1)))
    assert "max" not in td.generate_code(A, td.TensorComprehension(pairs, (i, m), (j, m)), "c")
    assert "max" not in td.generate_code(x, value, "jax")
    running = sympy.sqrt(td.IndexedSum(x[k] ** 2, (k, 0, i)))
    assert "max" not in td.generate_code(x, td.TensorComprehension(running, (i, n)), "numpy")


def test_columns_are_computed_in_vectors():
    """The loop of the usual case has no branch, and a second one runs where an entry needs it."""
    text = td.generate_code(A, td.sqrt(td.sum(A**2, axis=0)), "numba")
    assert text.index("rare |= not v1_1") < text.index("if rare >= 1:") < text.index("maximum(greatest")


def test_conditional_sums_run_only_where_they_are_needed():
    value = sympy.Piecewise((y[0], y[0] > 0), (td.IndexedSum(sympy.exp(x[k]), (k, 0, n - 1)), True))
    for backend, condition in (("numpy", "if v:"), ("numba", "if not v:"), ("c", "if (!v) {")):
        assert condition in td.generate_code((x, y), value, backend)
    largest = td.IndexedMax(sympy.Piecewise((x[k], y[0] > 0), (0, True)), (k, 0, n - 1))
    for backend in ("numpy", "llvm"):
        for form, wanted in ((value, 2 * np.exp(-1.0)), (largest, 0)):
            compute = td.lambdify((x, y), form, backend)
            assert compute(np.array([-1.0, -1.0]), np.array([-1.0, 0.0])) == pytest.approx(wanted)
        assert td.lambdify((x, y), largest, backend)(np.array([-1.0, -2.0]), np.array([1.0, 0.0])) == -1


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["numba", "llvm"])
def test_norms_of_rows_that_data_select(backend):
    """The loop of the usual case has integers of its own: a nest used one before it was set."""
    three = td.TensorSymbol("three", (n, 3), dtype=int, below=m)
    first, second = (
        td.TensorComprehension(P[three[i, at + 1], k] - P[three[i, at], k], (i, n), (k, 3)) for at in range(2)
    )
    length = sympy.sqrt(td.IndexedSum(second[i, k] ** 2, (k, 0, 2)))
    total = td.IndexedSum(length * td.IndexedSum(first[i, k] * second[i, k], (k, 0, 2)), (i, 0, n - 1))
    function = td.lambdify((P, three), (total, td.gradient(total, P)), backend, parallel=False)
    assert "usual" in function.plan
    points, rows = np.random.default_rng(0).normal(size=(6, 3)), np.array([[0, 1, 2], [3, 4, 5], [1, 5, 2]])
    value, slope = function(points, rows)
    one, other = points[rows[:, 1]] - points[rows[:, 0]], points[rows[:, 2]] - points[rows[:, 1]]
    lengths, products = np.linalg.norm(other, axis=1), (one * other).sum(1)
    by_one = lengths[:, None] * other
    by_other = lengths[:, None] * one + (products / lengths)[:, None] * other
    wanted = np.zeros_like(points)
    for row, cotangent in ((rows[:, 1], by_one - by_other), (rows[:, 0], -by_one), (rows[:, 2], by_other)):
        np.add.at(wanted, row, cotangent)
    np.testing.assert_allclose(value, (lengths * products).sum(), rtol=1e-12)
    np.testing.assert_allclose(slope, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("holds", "wanted"), [(True, (OTHER, TRUE, TRUE, FALSE)), (False, (FALSE, OTHER, FALSE, TRUE))]
)
def test_conditions_of_a_decided_branch_are_decided(holds, wanted):
    """A text of NumPy had ``v12 =``, since a condition had no parts left."""
    conditions = Operation("and", (TEST, OTHER)), Operation("or", (TEST, OTHER)), Operation("or", (TEST,))
    body = [let("test", Operation("lt", (Name("x"), Number(1))))]
    stores = [Set(Load("y", (Affine.of(p),)), one) for p, one in enumerate((*conditions, Operation("not", (TEST,))))]
    assert tuple(statement.value for statement in decided([*body, *stores], TEST, holds)) == wanted


def test_conditions_that_always_or_never_hold_have_a_text():
    printer = ScalarPrinter(FormNames([], ()))
    assert [printer.scalar(one) for one in (TRUE, FALSE)] == ["True", "False"]


@every("backend", ["numpy", "llvm", "numba"])
def test_factors_of_a_norm_that_depend_on_an_index(backend):
    """A bound index, a quotient of sizes, a difference that may be negative, an integer argument."""
    a, p = sympy.Symbol("a", integer=True), sympy.Symbol("p", integer=True, positive=True)
    z = td.TensorSymbol("z", p)
    total = td.sum(x**2)
    roots = [
        td.TensorComprehension(sympy.sqrt(i * total), (i, n)),
        td.TensorComprehension(sympy.sqrt(total / n) * y[i], (i, n)),
        td.TensorComprehension(sympy.sqrt((n - p) * total) * y[i] * z[0], (i, n)),
        td.TensorComprehension(sympy.sqrt(a**2 * total) * y[i], (i, n)),
    ]
    at, factors = np.array([3.0, -1.0, 2.0, 0.5]), np.array([1.0, 2.0, -1.0, 4.0])
    found = td.lambdify([x, y, z, a], tuple(roots), backend)(at, factors, np.ones(2), -3)
    norm = np.linalg.norm(at)
    np.testing.assert_allclose(found[0], np.sqrt(np.arange(4)) * norm, rtol=1e-14)
    for result, scale in zip(found[1:], (0.5, np.sqrt(2), 3), strict=True):
        np.testing.assert_allclose(result, scale * norm * factors, rtol=1e-14)
