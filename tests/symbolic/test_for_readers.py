"""Index notation for readers: entries written out, each index bound once on the way to a read."""

import numpy as np
import pytest

import sympy_tensordiff as td
from sympy_tensordiff.symbolic.conversion.rewriting import for_readers
from sympy_tensordiff.symbolic.expressions.binders import Binder
from sympy_tensordiff.symbolic.expressions.misplaced_tensors import is_whole

n, m = td.indices("n m")
A = td.TensorSymbol("A", (n, m))
S = td.TensorSymbol("S", (n, n))
w = td.TensorSymbol("w", m)
y = td.TensorSymbol("y", n)
VALUES = {
    tensor: np.random.default_rng(7).uniform(-1, 1, shape)
    for tensor, shape in ((A, (3, 2)), (S, (3, 3)), (w, 2), (y, 3))
}


def binders_inside(expr, around=()):
    """Every sum and comprehension of scalars, each with the indices that are bound around it."""
    if isinstance(expr, Binder):
        yield expr, around
        around = (*around, *expr.variables)
    for part in expr.args:
        yield from binders_inside(part, () if is_whole(part) else around)


def numbers(expr):
    return td.lambdify(tuple(VALUES), expr, "numpy")(*VALUES.values())


CASES = {
    "logistic": (td.gradient(td.sum(td.softplus(-y * (A @ w))), w), 1),
    "softmax": (td.jacobian(td.exp(y) / td.sum(td.exp(y)), y), 2),
    "powers": (td.gradient(td.sum(S @ S @ S @ y), S), 2),
    "quotient": (td.gradient(1 / td.dot(y, A @ w), A), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_names(name):
    expr, rank = CASES[name]
    found = for_readers(expr)
    np.testing.assert_allclose(numbers(found), numbers(expr), rtol=1e-12)
    assert found.rank == rank
    pairs = list(binders_inside(found))
    assert len(pairs) > 1
    for binder, around in pairs:
        names = [index.name for index in (*around, *binder.variables)]
        assert len(names) == len(set(names)), found
        assert not any("_" in name for name in names), found


def test_long_entries_stay_tensors():
    """The text grows linearly."""
    value = y
    lengths = []
    for _ in range(8):
        value = td.tanh(S @ value)
        lengths.append(len(str(for_readers(value))))
    assert lengths[7] - lengths[5] <= 2 * (lengths[5] - lengths[3]) + 100


def test_what_is_index_notation_already():
    i, j = td.indices("i j")
    found = td.TensorComprehension(td.IndexedSum(S[i, j] * y[j], (j, 0, n - 1)), (i, n))
    assert for_readers(found) is found
    shadowing = td.TensorComprehension(y[i] * td.IndexedSum(y[i], (i, 0, n - 1)), (i, n))
    distinct = td.TensorComprehension(y[i] * td.IndexedSum(y[j], (j, 0, n - 1)), (i, n))
    assert for_readers(shadowing) == distinct != shadowing


@pytest.mark.in_turns(4)
def test_the_work_on_chains_is_linear(monkeypatch):
    """A substitution leaves tensors alone that its indices are not free in, and what is below them."""
    visits = 0
    replaced = Binder._replaced

    def counted(self, rule):
        nonlocal visits
        visits += 1
        return replaced(self, rule)

    monkeypatch.setattr(Binder, "_replaced", counted)
    found = []
    for length in (100, 200, 400):
        value = y
        for _ in range(length):
            value = td.tanh(S @ value)
        visits = 0
        value.rewrite(td.IndexedSum)
        found.append(visits)
    assert 0 < found[2] - found[1] <= 2.2 * (found[1] - found[0])
