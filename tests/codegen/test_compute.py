"""``compute`` of the texts of `generate_code`: what a colleague calls who has the text alone."""

import re

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td

n, m, i, k = td.indices("n m i k")
X, y, w = td.TensorSymbol("X", (n, m)), td.TensorSymbol("y", n), td.TensorSymbol("w", m)
LOSS = td.norm(X @ w - y) ** 2
BOTH = (td.gradient(LOSS, w), (LOSS, 2))
idx, x = td.TensorSymbol("idx", 3, dtype=int), td.TensorSymbol("x_{1}", n)
lam = sympy.Symbol("lam", real=True)
FORWARD = td.TensorComprehension(x[i + 1] - lam * x[i], (i, n - 1))
CHOSEN = td.IndexedSum(x[idx[k]], (k, 0, 2))
PADDED = td.IndexedSum(sympy.Piecewise((x[idx[k]], idx[k] >= 0), (0, True)), (k, 0, 2))
VALUES = np.arange(6.0).reshape(2, 3), np.ones(2), np.array([1.0, 2.0, 4.0])


def compute(args, expr, backend="numpy"):
    module = {}
    exec(td.generate_code(args, expr, backend).replace("cache=True, ", ""), module)
    return module["compute"]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_the_values_of_lambdify(backend):
    found = compute((X, y, w), BOTH, backend)(*VALUES)
    gradient, (loss, two) = td.lambdify((X, y, w), BOTH, "numpy")(*VALUES)
    assert np.allclose(found[0], gradient) and found[1] == (loss, two)


def test_types():
    f = compute((x, lam), FORWARD)
    assert f([1, 2, 4], 2).tolist() == [0, 0]
    assert f(np.ones(3, np.float32), 1.0).dtype == np.float32
    assert f(np.ones(3, np.float32), np.float64(1)).dtype == np.float64
    assert f(np.ones((3, 2), np.float32)[:, 0], np.float32(1)).dtype == np.float32
    assert compute((x, idx), CHOSEN)([1, 2, 4], [2, 0, 2]) == 9
    assert compute((x, k), x[k])([1, 2, 4], 1) == 2


REFUSED = {
    "shape": ((X, y, w), LOSS, (VALUES[0], np.ones(3), VALUES[2]), "y has shape (3,), expected (2,)"),
    "axes": ((X, y, w), LOSS, (np.ones(2), *VALUES[1:]), "X has shape (2,) and dtype float64; it needs 2 axes"),
    "none": ((x, lam), FORWARD, (np.ones(0), 1), "it needs 1 axes, none without entries"),
    "complex": ((x, lam), FORWARD, (np.ones(2) * 1j, 1), "and real numbers (float64, float32, integers)"),
    "size": ((x, lam), FORWARD, (np.ones(1), 1), "a tensor would have no entries: of n - 1, each has to be positive"),
    "check": ((x,), x[5], (np.ones(3),), "x_{1}[5] is read outside of the shape"),
    "data": ((x, idx), CHOSEN, (np.ones(3), [0, 1, 3]), "idx has an entry outside: the index idx[k] of axis 0 of"),
    "floats": ((x, idx), CHOSEN, (np.ones(3), np.ones(3)), "and integers"),
    "index": ((x, k), x[k], (np.ones(3), 1.0), "k has shape () and dtype float64; it needs 0 axes"),
    "perhaps": ((x, idx), PADDED, (np.ones(3), [0, 1, 3]), "idx may lead a read out of x_1: call run with data"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    args, expr, values, message = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        compute(args, expr)(*values)
    if case != "size":  # there `lambdify` makes another program
        with pytest.raises((ValueError, TypeError, IndexError)):
            td.lambdify(args, expr, "numpy")(*values)


def test_names_of_its_own():
    names = [td.TensorSymbol(name, 2) for name in ("np", "checked", "dtype", "run", "compute", "min", "type_of")]
    assert compute(names, td.einsum(",".join("iiiiiii") + "->i", *names))(*[np.full(2, 2.0)] * 7).tolist() == [128, 128]


def test_deep_tuples():
    deep = (y,)
    for _ in range(300):
        deep = (deep,)
    assert compute((y,), deep)(np.ones(2))[0].tolist() == [1, 1]


def test_on_a_device():
    assert "def compute(X, y, w, stream=0):" in td.generate_code((X, y, w), BOTH, "cuda")
