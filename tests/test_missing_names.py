"""Names that other packages have: the hint of each is code that runs."""

import re

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import ShapeError
from sympy_tensordiff.symbolic.index_notation.entries import REPLACED_FUNCTIONS, REPLACED_METHODS

i, j, k, l, n, m = td.indices("i j k l n m")
A, S = td.TensorSymbol("A", (n, m)), td.TensorSymbol("S", (n, n))
x, y, b = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("b", m)
s, p = td.dot(td.sin(x), y), td.TensorSymbol("p", n, dtype=int, below=m)
NAMES = {"td": td, "sympy": sympy, "i": i, "j": j, "k": k, "l": l, "n": n, "m": m}
NAMES |= {"A": A, "S": S, "x": x, "y": y, "s": s, "p": p}


@every("name", list(REPLACED_FUNCTIONS))
def test_hints_of_the_module(name):
    assert name not in td.__all__, f"td.{name} exists: take its entry out of symbolic/index_notation/entries.py"
    with pytest.raises(AttributeError, match=re.escape(f"no attribute '{name}'; write {REPLACED_FUNCTIONS[name]}")):
        getattr(td, name)
    for code in REPLACED_FUNCTIONS[name].replace(", as everything of SymPy's", "").split(", or by entries "):
        assert eval(code, dict(NAMES)) is not None


def test_other_names_of_the_module():
    with pytest.raises(AttributeError, match=r"no attribute 'gradiant'; did you mean td\.gradient\?$"):
        td.gradiant  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'xyzzy'$"):
        td.xyzzy  # noqa: B018
    with pytest.raises(ImportError):
        from sympy_tensordiff import xyzzy  # noqa: F401
    assert not hasattr(td, "__wrapped__") and not hasattr(td, "grad")


@every("name", list(REPLACED_METHODS))
def test_hints_of_tensors(name):
    with pytest.raises(AttributeError, match=re.escape(REPLACED_METHODS[name].format(*["A @ b"] * 2))):
        getattr(A @ b, name)
    assert not hasattr(A, name) and not hasattr(A, "xyzzy")


def test_large_tensors_are_not_repeated():
    with pytest.raises(AttributeError, match=r"write td\.sum\(A\)$"):
        sum((td.sin(c * x) for c in range(20)), x).sum()


@pytest.mark.parametrize(
    ("small", "large", "hint"),
    [
        (x, A, 'td.einsum("i,j->ij", x, td.ones(m))'),
        (td.exp(b), td.TensorSymbol("T", (n, m, n)), 'td.einsum("j,ik->ijk", exp(b), td.ones((n, n)))'),
    ],
)
def test_broadcasts(small, large, hint):
    for operands in ((small, large), (large, small)):
        with pytest.raises(ShapeError, match=re.escape(f"write the broadcast, {hint}")):
            operands[0] + operands[1]
    assert (large + eval(hint, {"td": td, "b": b, "x": x, "n": n, "m": m, "exp": td.exp})).shape == large.shape


def test_a_row_of_biases_has_its_value():
    shifted = td.evaluate(A + b, {A: np.zeros((2, 3)), b: [1, 2, 3]})
    assert shifted.tolist() == [[1, 2, 3]] * 2
