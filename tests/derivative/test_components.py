"""Functions of the components of vectors, written out: their derivatives are those of the sums over the components."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sympy
from fuzz.second_orders import check_ways

import sympy_tensordiff as td

i, j, k, c, n, K = td.indices("i j k c n K")
q, x, r = td.TensorSymbol("q", 4), td.TensorSymbol("x", (K, 4)), td.TensorSymbol("r", (n, 3))


def test_derivatives_are_those_of_the_sums():
    by_hand = sum(x[k, a] * q[a] ** 2 for a in range(4)) / sum(q[a] ** 2 for a in range(4))
    as_sums = td.IndexedSum(x[k, c] * q[c] ** 2, (c, 0, 3)) / td.IndexedSum(q[c] ** 2, (c, 0, 3))
    one, other = (td.IndexedSum(e**2, (k, 0, K - 1)) for e in (by_hand, as_sums))
    for derivative in (td.gradient, td.hessian):
        assert derivative(one, q) == derivative(other, q)
    assert td.cost(td.hessian(one, q)).operations == td.cost(td.hessian(other, q)).operations
    text = td.generate_code([q, x], td.hessian(one, q), "numba")
    assert text.count("*") < 40  # 394 with a formula for each pair of components


def test_forces_between_pairs_are_one_formula():
    square = sum((r[i, a] - r[j, a]) ** 2 for a in range(3))
    energy = td.IndexedSum(1 / square, (j, i + 1, n - 1), (i, 0, n - 1))
    forces = td.gradient(energy, r)
    assert str(forces) == (
        "TensorComprehension(-2*IndexedSum(Piecewise(((r[p, q] - r[j, q])/IndexedSum((r[p, c] - r[j, c])**2, "
        "(c, 0, 2))**2, Ne(p, j)), (0, True)), (j, 0, n - 1)), (p, n), (q, 3))"
    )
    positions = np.random.default_rng(0).normal(size=(4, 3))
    away = positions[:, None] - positions
    with np.errstate(all="ignore"):
        terms = np.nan_to_num(-2 * away / (away**2).sum(axis=2, keepdims=True) ** 2)
    np.testing.assert_allclose(td.lambdify([r], forces, "numpy")(positions), terms.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        q[0] ** 2 + q[1] ** 2 + q[2] ** 2,
        q[0] * q[1] + q[1] * q[2] + q[2] * q[3] + q[3] * q[0],
        q[0] ** 2 + q[1] ** 2 + 2 * q[2] ** 2 + q[3] ** 2,
    ],
)
def test_other_additions_stay(function):
    assert not td.gradient(function, q).has(td.IndexedSum)


def test_what_was_written_stays():
    """Only derivatives with respect to whole tensors have the sums: their result has a free component, too."""
    function = sympy.exp(q[0] ** 2 + q[1] ** 2 + q[2] ** 2 + q[3] ** 2)
    assert td.diff(function, q[1]) == 2 * function * q[1]
    assert td.gradient(function, q).has(td.IndexedSum)


def made_of_components(seed):
    rng = random.Random(seed)
    y, z = td.TensorSymbol("y", (n, 3)), td.TensorSymbol("z", 3)
    functions = [lambda u: u, lambda u: u**2, sympy.exp, lambda u: 1 / (2 + u**2), lambda u: u * z[rng.randrange(3)]]

    def term(at, choose):
        rng.seed(choose)
        u, v = (rng.choice([z[at], y[i, at], y[0, at], y[i, at] - y[j, at], y[i, rng.randrange(3)]]) for _ in "uv")
        return rng.choice(functions)(u) * rng.choice([1, 1, v, 3])

    def addition(choose):
        return sum(term(at, choose) for at in range(rng.choice([3, 3, 3, 2])))

    body = rng.choice(functions)(addition(seed)) * rng.choice([1, addition(seed + 1)]) + addition(seed + 2)
    return td.IndexedSum(body, (j, 0, n - 1), (i, 0, n - 1)), (y, z)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("seed", [2, 4, 6, 8, 11, 12, 13])  # with additions that become sums
def test_values(seed):
    function, variables = made_of_components(seed)
    check_ways(function, [v for v in variables if function.has(v)], {n: 2}, seed)


# ---------------------------------------------------------------------------- rows of whole tensors

u, A = td.TensorSymbol("u", (2, n)), td.TensorSymbol("A", (n, n))
OF_ROWS = {
    "quadratic forms": td.dot(u[0], A @ u[0]) ** 2 + td.dot(u[1], A @ u[1]) ** 2,
    "log-sum-exp": td.logsumexp(u[0]) * td.sum(u[0]) + td.logsumexp(u[1]) * td.sum(u[1]),
    "norms": td.norm(u[0]) + td.norm(u[1]),
    "determinants": td.det(A + td.outer(u[0], u[0])) + td.det(A + td.outer(u[1], u[1])),
}


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", OF_ROWS)
def test_whole_rows_are_joined_too(name):
    """One formula for all rows, of scalars of whole tensors as well; determinants stay as they are."""
    td.check_derivative(OF_ROWS[name], u, sizes={n: 3})
    direction = td.TensorSymbol("direction", (2, n))
    random = np.random.default_rng(0)
    values = {s: random.normal(size=[3 if e == n else int(e) for e in s.shape]) for s in (u, A, direction)}
    blocks = td.evaluate(td.hessian(OF_ROWS[name], u), {u: values[u], A: values[A]})
    product = td.evaluate(td.hvp(OF_ROWS[name], u, direction), values)
    np.testing.assert_allclose(np.einsum("ijkl,kl->ij", blocks, values[direction]), product, rtol=1e-10)
    if name != "determinants":
        assert "KroneckerDelta" not in str(td.gradient(OF_ROWS[name], u))  # a delta for each row otherwise
