"""Linear algebra in the steps of recurrences: LLVM's own functions against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sympy_tensordiff as td
from sympy_tensordiff.errors import SingularMatrixError

n, m, b, T = td.indices("n m b T")
A, B, v, X = (
    td.TensorSymbol("A", (n, n)),
    td.TensorSymbol("B", (n, m)),
    td.TensorSymbol("v", n),
    td.TensorSymbol("X", (T, n)),
)
S = td.TensorSymbol("S", (n, n), symmetric=True, positive=True)
E = td.TensorSymbol("E", (b, n, n))


def moving(matrix: Any, h: Any) -> Any:
    """Return a matrix that depends on the state, so that it is factored in each step."""
    return matrix * (1 + td.dot(h, h) / 100)


STEPS = {
    "solution": lambda h, x: td.solve(moving(A, h), v + h) + x,
    "transposed": lambda h, x: td.solve(moving(A.T, h), v + h) + x,
    "from the right": lambda h, x: (v + h) @ td.inv(moving(A, h)) + x,
    "solutions": lambda h, x: td.solve(moving(A, h), B) @ td.solve(moving(A, h), B).T @ v + x,
    "inverse": lambda h, x: td.inv(moving(A, h)) @ td.inv(moving(A, h)).T @ v - x,
    "determinant": lambda h, x: td.sin(td.det(moving(A, h))) * v + x,
    "logarithm": lambda h, x: td.log(td.det(moving(A, h)) ** 2) * v + x,
    "shared": lambda h, x: td.logdet(S + td.outer(h, h)) * td.solve(S + td.outer(h, h), h) / 9 + x,
    "after a constant": lambda h, x: td.solve(S, h) + td.inv(moving(S, h)) @ td.solve(S, v) + x,
    "batch": lambda h, x: td.einsum("bij,j->i", td.inv(moving(E, h)), h) + x,
}


def point(size: int) -> dict[Any, Any]:
    rng = np.random.default_rng(size)
    root = rng.normal(size=(size, size))
    values = {A: rng.normal(size=(size, size)), B: rng.normal(size=(size, 3)), v: rng.normal(size=size)}
    return values | {
        X: rng.normal(size=(5, size)),
        S: root @ root.T + np.eye(size),
        E: rng.normal(size=(2, size, size)),
    }


def values(expr: Any, known: dict[Any, Any], backend: str, dtype: type = float) -> Any:
    tensors = sorted(expr.free_symbols & known.keys(), key=str)
    function = td.lambdify(tensors, expr, backend)
    assert backend != "llvm" or "step_" not in function.llvm  # no loop in Python
    return function(*(known[tensor].astype(dtype) for tensor in tensors))


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", STEPS)
def test_steps_compute_the_same(name: str) -> None:
    states = td.scan(STEPS[name], v, X)
    for size in (1, 2, 5):
        known = point(size)
        np.testing.assert_allclose(values(states, known, "llvm"), values(states, known, "numpy"), rtol=1e-8)
    known = point(3)
    single = values(states, known, "llvm", np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, values(states, known, "numpy"), rtol=2e-2, atol=1e-3)


def test_signs_and_exchanges_of_determinants() -> None:
    """Determinants of permutations and of singular matrices."""
    number = td.scan(lambda s, x: td.det(A + s * A) + x, 0, td.TensorSymbol("y", T))
    for matrix in (np.eye(3), np.eye(3)[[1, 0, 2]], np.eye(3)[[1, 2, 0]], np.zeros((3, 3)), np.diag([1.0, -2, 3])):
        function = td.lambdify([A, td.TensorSymbol("y", T)], number)
        s, expected = 0.0, []
        for x in (0.0, 0.5):
            s = np.linalg.det(matrix + s * matrix) + x
            expected.append(s)
        np.testing.assert_allclose(function(matrix, np.array([0.0, 0.5])), expected, rtol=1e-12)


def test_singular_matrices_are_refused() -> None:
    with pytest.raises(SingularMatrixError, match="in the steps of a scan"):
        values(td.scan(STEPS["inverse"], v, X), {**point(2), A: np.ones((2, 2))}, "llvm")
