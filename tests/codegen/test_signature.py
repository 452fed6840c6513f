"""Arguments by their names: keywords, the signature, the docstring."""

import inspect
import pickle
import pydoc

import numpy as np
import pytest

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentTypeError

n, m, k = td.indices("n m k")
A, x, idx = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m), td.TensorSymbol("idx", 3, dtype=int, below=m)
a, b = td.TensorSymbol("x_{1}", ()), td.TensorSymbol("out", n)
F = td.lambdify((A, x), A @ x, "numpy")
MATRIX, VECTOR = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 4.0])


def test_keywords():
    for f in (F, pickle.loads(pickle.dumps(F))):
        for result in (f(MATRIX, x=VECTOR), f(x=VECTOR, A=MATRIX), f(x=VECTOR, A=MATRIX, out=np.empty(2))):
            assert (result == MATRIX @ VECTOR).all()


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((MATRIX,), {"y": 1}, "there is no argument y: the arguments are A, x"),
        ((MATRIX,), {"A": 1, "x": 1}, "the argument A is given twice, by its position and by its name"),
        ((), {"x": VECTOR}, "the argument A is missing: give it by its position or by its name"),
    ],
)
def test_keywords_that_do_not_fit(args, named, message):
    with pytest.raises(ArgumentTypeError, match=message):
        F(*args, **named)


def test_names_that_are_no_identifiers():
    f = td.lambdify((b, a), a * b, "numpy")
    assert str(inspect.signature(f)) == "(out0, x_1, *, out=None)"
    assert f(x_1=2.0, out0=np.ones(2)).tolist() == [2, 2]
    assert "x_1 is called x_{1} in the expression." in f.__doc__
    own = td.TensorSymbol("self", 2)
    assert td.lambdify(own, 2 * own, "numpy")(self=[1, 2]).tolist() == [2, 4]


def test_documentation():
    value = td.IndexedSum(x[idx[k]], (k, 0, 2))
    f = td.lambdify((x, idx, n, a), (value, td.ones(n) * a), "numpy")
    shown = pydoc.render_doc(f, renderer=pydoc.plaintext)
    for line in (
        "(x, idx, n, x_1) -> a tuple of 2 results, computed with numpy.",
        "x : array of shape (m,), real (float64, float32 or integers)",
        "idx : array of shape (3,), of integers from 0 to m - 1",
        "n : int",
        "result0 : number, of the arguments' type: float32 if all of them are, else float64",
        "result1 : array of shape (n,), of the arguments' type: float32 if all of them are, else float64",
    ):
        assert line in shown
    assert "stream : optional" in td.codegen.run.signature.documentation(f.program, "cuda")
