"""What SymPy asks our classes for: derivatives through the hook, numbers, order, simplify."""

import pytest
import sympy
from sympy import Idx, IndexedBase, Symbol, default_sort_key
from sympy.functions.elementary.piecewise import ExprCondPair

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic import (
    IndexedSum,
    TensorComprehension,
    TensorEntry,
    TensorSymbol,
    hooks,
    indices,
)

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


def test_sums_stand_last_in_products():
    assert (S * sympy.exp(s) * x[p] * 3).as_ordered_factors()[-1] == S
    assert sorted([S, s, x[p]], key=default_sort_key)[-1] == S


def test_they_are_not_sympys_own():
    assert not isinstance(S, sympy.Sum) and not isinstance(x, IndexedBase) and not isinstance(x[i], sympy.Indexed)
    assert TensorSymbol("x", n) != Symbol("x")
    assert not S.has(sympy.Sum)
    assert ExprCondPair is not None


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
    monkeypatch.setattr(hooks, "_registered", [])

    def register(answer):
        function = Registered(answer)
        hooks.register_derivative(function)
        return function

    return register


def test_the_hook_answers_every_way_to_differentiate(registered):
    function = registered(x[p])
    for differentiate in (
        *(lambda: sympy.diff(S, x[p]), lambda: S.diff(x[p]), lambda: sympy.Derivative(S, x[p]).doit()),
        *(lambda: sympy.Derivative(S, x[p], evaluate=True), lambda: S.diff((x[p], 1))),
    ):
        assert differentiate() == x[p]
        assert function.asked.pop() == (S, x[p])
    assert sympy.diff(sympy.sin(S), x[p]) == sympy.cos(S) * x[p]
    assert sympy.diff(x[j] ** 2, x[p]) == 2 * x[j] * x[p]
    assert sympy.diff(s**2, s) == 2 * s * x[p]


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
    hooks._registered.clear()
    assert isinstance(S.diff(x[p]), sympy.Derivative)


@pytest.mark.parametrize("expr", [S, x[i], TensorComprehension(x[i], (i, m))[p]])
def test_a_scalar_by_a_whole_tensor(expr, registered):
    answer = TensorSymbol("dA", A.shape)
    function = registered(answer)
    assert expr.diff(A) == sympy.diff(expr, A) == sympy.Derivative(expr, A).doit() == answer
    assert sympy.diff(sympy.exp(expr) * c, A) == c * (sympy.exp(expr) * answer)
    assert {variable for _, variable in function.asked} == {A}


@pytest.mark.parametrize("variable", [i, m, I])
def test_integers_are_no_variables(variable):
    expr = IndexedSum(A[i, j] * x[j] + A[I, j], (j, 0, m - 1))
    with pytest.raises(UnsupportedError, match=f"no derivative by {variable}, which is an integer"):
        expr.diff(variable)
    with pytest.raises(UnsupportedError, match="which is an integer"):
        sympy.diff(x[i] * s, i)
    assert S.diff(j) == 0
