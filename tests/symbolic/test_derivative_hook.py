"""SymPy's calls of our classes are answered: derivatives through the hook, numbers, order, simplify."""

import pytest
import sympy
from sympy import Idx, Symbol

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic import (
    IndexedSum,
    TensorComprehension,
    TensorEntry,
    TensorSymbol,
    indices,
)
from sympy_tensordiff.symbolic.expressions import hooks

i, j, k, n, m, p = indices("i j k n m p")
A = TensorSymbol("A", (n, m))
x = TensorSymbol("x", m)
y = TensorSymbol("y", m)
s = TensorSymbol("s", ())
d = TensorSymbol("d", 8)
c = Symbol("c", real=True)
I = Idx("i", n)
S = IndexedSum(A[i, j] * x[j], (j, 0, m - 1))


def test_simplify_reaches_the_body():
    body = sympy.sin(x[i]) ** 2 + sympy.cos(x[i]) ** 2
    assert sympy.simplify(IndexedSum(body, (i, 0, m - 1))) == IndexedSum(1, (i, 0, m - 1))
    assert sympy.simplify(TensorComprehension(body, (i, m))) == TensorComprehension(1, (i, m))
    assert sympy.simplify(A) is A and sympy.simplify(S) is S
    assert sympy.expand(TensorComprehension(x[i] * (x[i] + 1), (i, m))) == TensorComprehension(x[i] ** 2 + x[i], (i, m))


def test_numbers_in_indices_stay_exact():
    total = IndexedSum(sympy.pi * x[2 * i + 1], (i, 0, 3))
    assert sympy.N(2 * total) == 2.0 * total
    assert sympy.nfloat(total) == total
    assert total.evalf(subs={m: 9}) == total.subs(m, 9)


def test_entries_are_what_derivatives_need():
    assert x[i].is_symbol and x[i]._diff_wrt and x.is_symbol and x._diff_wrt
    assert x[i].free_symbols == {x, m, i}
    assert x.free_symbols == {x, m}
    assert TensorEntry(A, 0, 1).free_symbols == {A, n, m}
    with pytest.raises(UnsupportedError, match="it is an entry of an expression"):
        sympy.diff(S, TensorComprehension(x[i], (i, m))[p])


class Registered:
    """A derivative that records what it is asked."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def __call__(self, expr, variable):
        self.asked.append((expr, variable))
        return self.answer


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(hooks.derivative, "function", hooks.derivative.function)

    def register(answer):
        function = Registered(answer)
        hooks.derivative.register(function)
        return function

    return register


def test_tensors_keep_their_shape_where_the_variable_is_absent(registered):
    zero = TensorComprehension(0, (i, n), (j, m))
    function = registered(zero)
    T = TensorComprehension(S, (i, n))
    other = TensorSymbol("other", 4)
    assert T.diff(other) == sympy.diff(T, other) == zero
    assert function.asked == [(T, other), (T, other)]
    assert T.diff(other, 2) == zero
    assert T.diff((x[p], 2), other) == zero
    assert [variable for _, variable in function.asked[-3:]] == [x[p], x[p], other]


def test_without_an_answer_the_derivative_stays_unevaluated(registered):
    registered(None)
    assert isinstance(S.diff(x[p]), sympy.Derivative)
    assert isinstance(sympy.diff(2 * S, x[p]).args[1], sympy.Derivative)
    hooks.derivative.register(lambda expr, variable: None)
    assert isinstance(S.diff(x[p]), sympy.Derivative)


@pytest.mark.parametrize("variable", [i, m, I])
def test_integers_are_no_variables(variable):
    expr = IndexedSum(A[i, j] * x[j] + A[I, j], (j, 0, m - 1))
    with pytest.raises(UnsupportedError, match=f"no derivative with respect to {variable}, which is an integer"):
        expr.diff(variable)
    with pytest.raises(UnsupportedError, match="which is an integer"):
        sympy.diff(x[i] * s, i)
    assert S.diff(j) == 0
