"""Sums over all others, ``j != i``, of products are products of matrices, computed once."""

import numpy as np
import pytest
import sympy
from sympy import Eq, Ne, Piecewise, log

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import ContractionStep
from sympy_tensordiff.codegen.program import build_program

i, j, t = td.indices("i j t")
n, m = td.indices("n m")
Sum, Entries = td.IndexedSum, td.TensorComprehension
D, X, pop, b = (td.TensorSymbol(*one) for one in (("D", (n, n)), ("X", (n, m)), ("pop", n), ("b", n)))
rho = sympy.Symbol("rho", positive=True)


def over(index, extent):
    return index, 0, extent - 1


def without_self():
    """The sum for all others, with a factor for each."""
    total = Sum(Piecewise((D[i, j] * pop[j] * X[j, t] * b[i], Ne(i, j)), (0, True)), over(j, n))
    return (D, X, pop, b), (Entries(total, (i, n), (t, m)),)


def without_self_by_numpy(D, X, pop, b):
    D = D.copy()
    np.fill_diagonal(D, 0)
    return ((D * pop * b[:, None]) @ X,)


def gravity():
    """A coupling that is 1 on the diagonal, its values in a logarithm, with the gradient by an exponent."""
    coupling = Piecewise((1, Eq(i, j)), (pop[j] / D[i, j] ** rho, True))
    rate = Sum(coupling * X[j, t], over(j, n)) * b[i]
    value = Sum(rate - log(rate), over(i, n), over(t, m))
    return (D, X, pop, b, rho), (value, *td.gradient(value, (b, rho)))


def gravity_by_numpy(D, X, pop, b, rho):
    D = D.copy()
    np.fill_diagonal(D, 1)
    coupling = pop / D**rho
    np.fill_diagonal(coupling, 1)
    total = coupling @ X
    rate = total * b[:, None]
    by_rate = 1 - 1 / rate
    by_coupling = (by_rate * b[:, None]) @ X.T
    return (rate - np.log(rate)).sum(), (by_rate * total).sum(1), -(by_coupling * coupling * np.log(D)).sum()


CASES = [(without_self, without_self_by_numpy), (gravity, gravity_by_numpy)]


def arrays_for(arguments, rows, columns):
    random = np.random.default_rng(rows)
    found = []
    for one in arguments:
        shape = [int(sympy.sympify(extent).subs({n: rows, m: columns})) for extent in getattr(one, "shape", ())]
        found.append(random.uniform(0.5, 2, shape) if shape else 1.3)
    np.fill_diagonal(found[0], 0)
    return found


@pytest.mark.parametrize(("make", "by_numpy"), CASES, ids=["without self", "gravity"])
@pytest.mark.parametrize(
    "backend",
    [
        "llvm",
        "numpy",
        pytest.param("uncompiled", marks=pytest.mark.in_turns(3)),
        pytest.param("numba", marks=pytest.mark.in_turns(10)),
    ],
    indirect=True,
)
def test_values(make, by_numpy, backend):
    arguments, results = make()
    compiled = td.lambdify(arguments, results, backend)
    for size in ((1, 1), (1, 4), (2, 1), (3, 5), (17, 9)):
        arrays = arrays_for(arguments, *size)
        for found, wanted in zip(compiled(*arrays), by_numpy(*arrays), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_values_in_single_precision_and_of_strided_arrays():
    for make, by_numpy in CASES:
        arguments, results = make()
        compiled = td.lambdify(arguments, results, "llvm")
        for size in ((1, 2), (3, 5), (17, 9)):
            arrays = arrays_for(arguments, *size)
            wanted = by_numpy(*arrays)
            turned = [np.asfortranarray(one) if np.ndim(one) else one for one in arrays]
            for found, value in zip(compiled(*turned), wanted, strict=True):
                np.testing.assert_allclose(found, value, rtol=1e-11, atol=1e-12)
            single = [np.float32(one) for one in arrays]
            for found, value in zip(compiled(*single), wanted, strict=True):
                np.testing.assert_allclose(found, value, rtol=1e-3, atol=1e-3)


def products_of(arguments, results):
    program = build_program(arguments, results, rows=True, trapezoids=True, tables=True)
    return [step for step in program.kernels if isinstance(step, ContractionStep)]


def test_it_is_one_product():
    assert len(products_of(*without_self())) == 1
    assert len(products_of(*gravity())) == 2  # the rates, and the derivatives with respect to the coupling


def test_powers_that_several_loops_need_are_computed_once():
    arguments, results = gravity()
    source = td.generate_code(arguments, results, parallel=False)
    assert source.count("general_power(D") == 1


def test_factors_of_both_indices_stay_under_the_condition():
    """They may be infinite on the diagonal, for each t."""
    s = td.indices("s")
    Y = td.TensorSymbol("Y", (n, m))
    total = Sum(Piecewise((Y[j, s] / (X[i, t] - X[j, t]), Ne(i, j)), (0, True)), over(j, n))
    arguments, results = (X, Y), Entries(total, (i, n), (t, m), (s, m))
    assert len(products_of(arguments, results)) == 1
    x, y = np.random.default_rng(0).normal(size=(2, 5, 3))
    gaps = np.where(np.eye(5)[:, :, None] > 0, np.inf, x[:, None] - x)
    wanted = np.einsum("js,ijt->its", y, 1 / gaps)
    np.testing.assert_allclose(td.lambdify(arguments, results, "llvm")(x, y), wanted, rtol=1e-12)


def test_both_sides_of_the_users_function():
    """Sums over ``k < j`` and ``k > j`` of entries of a matrix are one product; others are running sums, each in one
    pass.
    """
    j, k, t, n, h = td.indices("j k t n h")
    D, I, x = td.TensorSymbol("D", (n, n)), td.TensorSymbol("I", (h, n)), td.TensorSymbol("x", n)

    def sides(term):
        return td.IndexedSum(term, (k, 0, j - 1)) + td.IndexedSum(term, (k, j + 1, n - 1))

    value = td.IndexedSum(sympy.log(1 + sides(I[t, k] * D[j, k] ** 2)), (j, 0, n - 1), (t, 0, h - 1))
    program = build_program((D, I), value)
    (product,) = [step for step in program.kernels if isinstance(step, ContractionStep)]
    assert len(product.output) == 2
    rng = np.random.default_rng(0)
    squares, entries = rng.uniform(0.5, 1, (2, 5, 5))
    others = squares**2 * (1 - np.eye(5))
    found = td.lambdify((D, I), value, "llvm")(squares, entries)
    assert found == pytest.approx(np.log1p(entries @ others.T).sum(), rel=1e-13)
    running = td.IndexedSum(sympy.log(1 + sides(x[k] ** 2)), (j, 0, n - 1))
    plans = [td.lambdify(x, result, "llvm").plan for result in (running, td.gradient(running, x))]
    assert plans[0].count("carry: entries") == 2 and "carry: entries" in plans[1]
