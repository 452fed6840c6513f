"""Functions of SymPy that know no scopes: `cse` hoists nothing that holds a bound index, `replace` captures nothing."""

import pytest
import sympy
from every import every
from sympy import Matrix, Piecewise, Symbol, Tuple, Wild
from sympy.core.kind import NumberKind

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic import IndexedSum, TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.expressions import sympy_callers
from sympy_tensordiff.symbolic.expressions.sympy_callers import code_of, names_of
from sympy_tensordiff.symbolic.index_notation.indices import indices

i, j, k, n, m, p = indices("i j k n m p")
A = TensorSymbol("A", (n, m))
x = TensorSymbol("x", m)
y = TensorSymbol("y", m)
c = Symbol("c", real=True)
S = IndexedSum(A[i, j] * x[j], (j, 0, m - 1))
body = sympy.exp(x[j]) * sympy.sin(x[j]) + sympy.exp(x[j]) / (1 + sympy.sin(x[j]))
REPEATED = {
    "in one body": IndexedSum(body, (j, 0, m - 1)),
    "inside and outside": IndexedSum(body, (j, 0, m - 1)) + body,
    "under indices of one name": IndexedSum(body, (j, 0, m - 1)) * IndexedSum(body**2, (j, 1, m - 1)),
    "nested": IndexedSum(S**2 + x[i] * S, (i, 0, n - 1)),
    "a bound that is an expression": IndexedSum(x[j] * IndexedSum(x[j] ** 2, (j, 0, m - 1)), (j, 0, m - 1)),
    "an entry": TensorComprehension(body, (j, m))[2 * p] + body,
    "in a fraction": IndexedSum(sympy.exp(x[j]) * y[j], (j, 0, m - 1)) / IndexedSum(sympy.exp(x[j]), (j, 0, m - 1)),
    "twice": S**2 + sympy.sin(S),
    "a guard": Piecewise((S, n > 3), (S**2 + 1, True)),
    "a name of its own": IndexedSum(c * x[j], (j, 0, m - 1)) + sympy.sin(S) * S,
}


@every("symbols", [None, "c"])
@every("expr", REPEATED.values(), ids=REPEATED)
def test_no_common_subexpression_holds_a_bound_index(expr, symbols):
    def named(name, value):
        assert value.free_symbols - {Symbol(f"x{number}") for number in range(9)} <= expr.free_symbols
        assert not any(symbol.name == name.name for symbol in expr.atoms(Symbol, TensorSymbol))
        return name, value

    given = {} if symbols is None else {"symbols": (Symbol(f"{symbols}{end}") for end in ("", 1, 2, 3, 4))}
    replacements, (result,) = sympy.cse(expr, **given)
    for name, value in (named(*pair) for pair in reversed(replacements)):
        binders = result.atoms(IndexedSum, TensorComprehension)
        assert not any(name in binder.free_symbols for binder in binders)
        result = result.xreplace({name: value})
    assert result == expr


def test_whole_sums_are_common_subexpressions():
    ((name, value),), (result,) = sympy.cse([sympy.sin(S) * (S + 1)])
    assert value == S and result == sympy.sin(name) * (name + 1)
    ((name, value),), (matrix,) = sympy.cse([Matrix([S, S**2])])
    assert value == S and matrix == Matrix([name, name**2])
    ((name, value),), (container,) = sympy.cse(Tuple(S, S**2))
    assert value == S and container == Tuple(name, name**2)


def test_whole_tensors_get_no_scalar_name():
    T = TensorComprehension(x[j] ** 2, (j, m))
    assert sympy.cse([T, T]) == ([], [T, T])
    assert sympy.cse([x, x]) == ([], [x, x])
    rank0 = TensorComprehension(S)
    assert sympy.cse([rank0, sympy.sin(rank0)])[0][0][1] == rank0


@every(
    "holder",
    [
        TensorSymbol("x0", m)[p],
        x[Symbol("x0", integer=True)],
        IndexedSum(Symbol("x0") * x[j], (j, 0, m - 1)),
        TensorComprehension(Symbol("x0") * x[j], (j, m))[p],
        IndexedSum(x[Symbol("x0", integer=True)], (Symbol("x0", integer=True), 0, m - 1)),
    ],
    ids=str,
)
def test_names_that_occur_anywhere_are_not_given_away(holder):
    ((name, value),), (result,) = sympy.cse(holder + sympy.sin(S) * S)
    assert name.name == "x1" and value == S
    assert result == holder + sympy.sin(name) * name


def test_entries_are_read_in_place():
    """A read behind a condition is not moved in front of it."""
    guarded = Piecewise((x[p - 1] ** 2 + sympy.cos(x[p - 1] + 1), p > 0), (0, True))
    assert sympy.cse(guarded) == ([], [guarded])


def test_replace_does_not_capture():
    assert S.replace(i, j).dummy_eq(IndexedSum(A[j, k] * x[k], (k, 0, m - 1)))
    assert (2 * S + i).replace(i, j) == 2 * S.subs(i, j) + j
    T = TensorComprehension(IndexedSum(A[i, k] * A[p, k], (k, 0, m - 1)), (i, n))
    assert T.replace(p, k).dummy_eq(TensorComprehension(IndexedSum(A[i, j] * A[k, j], (j, 0, m - 1)), (i, n)))
    assert T.replace(p, i).dummy_eq(TensorComprehension(IndexedSum(A[j, k] * A[i, k], (k, 0, m - 1)), (j, n)))


def test_replace_leaves_bound_indices_alone():
    assert S.replace(j, k) == S and S.replace(x[j], y[j]) == S
    assert S.replace(x, y) == IndexedSum(A[i, j] * y[j], (j, 0, m - 1))
    assert (S + x[j]).replace(x[j], y[j]) == S + y[j]


def test_replace_with_patterns_and_functions():
    row, column = (Wild(name, integer=True) for name in ("row", "column"))
    result = S.replace(A[row, column], x[column] * j)
    assert result.dummy_eq(IndexedSum(x[k] ** 2 * j, (k, 0, m - 1)))
    exponential = IndexedSum(sympy.exp(x[j]), (j, 0, m - 1))
    assert exponential.replace(sympy.exp, sympy.sin) == IndexedSum(sympy.sin(x[j]), (j, 0, m - 1))
    assert exponential.replace(lambda e: e == x, lambda e: y) == IndexedSum(sympy.exp(y[j]), (j, 0, m - 1))


GUARDED = IndexedSum(Piecewise((x[j - 1] * sympy.exp(2 * c), j > 0), (y[j], True)), (j, 0, m - 1))
ENTRY = TensorComprehension(Piecewise((c * x[j - 1], j > 0), (sympy.cos(y[j]) ** 2, True)), (j, m))[p]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("part", [GUARDED, ENTRY, IndexedSum(GUARDED * A[i, j] + x[i], (i, 0, n - 1))], ids=str)
def test_conditions_on_bound_indices_stay_inside(part):
    """SymPy's piecewise_fold and simplify would carry them out, never end, or fail on what is left."""
    around = Piecewise((part * x[i] + 1, i > 0), (0, True))
    for expr in (part, 2 * part + x[i], sympy.exp(part) / (1 + part), around, 2 * x[p] * around):
        for rewrite in (sympy.piecewise_fold, sympy.piecewise_exclusive, sympy.simplify):
            result = rewrite(expr)
            assert result.free_symbols <= expr.free_symbols
            values = {x: [2, 3, 5], y: [7, 11, 13], A: [[1, 2, 4]] * 2, i: 1, j: 0, p: 2, c: 0.25}
            assert abs(evaluate(result, values) - evaluate(expr, values)) < 1e-12 * abs(evaluate(expr, values))


def test_conditions_of_a_sum_are_not_decided_by_the_cases_around_it():
    around = Piecewise((GUARDED * c, i > 0), (0, True))
    assert sympy.integrate(around, x[i]) == Piecewise((GUARDED * c * x[i], i > 0), (0, True))
    plain = around.subs(GUARDED, S)
    assert sympy.integrate(plain, c) == Piecewise((S * c**2 / 2, i > 0), (0, True))
    assert GUARDED.xreplace({j > 0: sympy.true}) == GUARDED and GUARDED.xreplace({x[j]: c, y[j]: c}) == GUARDED


def test_has_tells_whether_there_are_cases():
    assert GUARDED.has(Piecewise) and ENTRY.has(Piecewise) and not S.has(Piecewise)
    (cases,) = GUARDED.atoms(Piecewise)
    for expr in (GUARDED, 2 * GUARDED, sympy.sin(ENTRY) + GUARDED):
        assert all(expr.has(node) for node in sympy.preorder_traversal(expr))
        assert expr.atoms(Piecewise) and expr.find(Piecewise) and expr.has(cases) and expr.has(sympy.exp) is True
    # SymPy's passes ask so for cases that they may take apart.
    assert not (2 * GUARDED).has(Piecewise) and (2 * GUARDED + Piecewise((1, i > 0), (0, True))).has(Piecewise)


def test_simplify_works_on_the_parts():
    unit = sympy.sin(x[j]) ** 2 + sympy.cos(x[j]) ** 2
    assert sympy.simplify(2 * IndexedSum(unit, (j, 0, m - 1)) + S) == 2 * IndexedSum(1, (j, 0, m - 1)) + S
    hyperbolic = IndexedSum(sympy.cosh(x[j]) ** 2 + sympy.exp(-x[j] * c) * sympy.sin(x[j]) ** 2, (j, 0, m - 1))
    assert sympy.simplify(2 * hyperbolic * x[i]).atoms(IndexedSum)


def test_a_form_that_does_not_exist_leaves_the_node_alone():
    trigonometric = IndexedSum(sympy.cos(x[j]), (j, 0, m - 1))
    assert trigonometric.rewrite(sympy.exp) == trigonometric  # complex exponentials
    assert IndexedSum(sympy.cosh(x[j]), (j, 0, 2)).rewrite(sympy.exp).has(sympy.exp)
    low = IndexedSum(x[j], (j, sympy.Max(0, p - 1), m - 1))
    assert low.rewrite(Piecewise) == low


def test_sympy_may_ask_whether_something_is_constant():
    """SymPy differentiates with respect to every free symbol to answer, tensors and sizes among them."""
    z = Symbol("z", real=True)
    assert S.is_constant() is False and (z * S).is_constant() is False and S.is_constant(z)
    numbered = TensorSymbol("u", 3)  # no size is free, and SymPy tries symbols that are numbers only
    for node in (numbered[0], IndexedSum(numbered[j], (j, 0, 2))):
        assert node.is_constant() is None and node.is_constant(numbered) is None and node.is_constant(z)
    assert IndexedSum(1, (j, 0, 2)).is_constant()
    assert (2 * S).equals(S + S) and not (2 * S).equals(S + c)
    assert sympy.solve(z * S - c, z) == [c / S] and sympy.solve(S * 2 - c, S) == [c / 2]
    assert sympy.solve(sympy.exp(z) * S - 1, z) == [sympy.log(1 / S)]
    assert set(sympy.solve(z**2 * S - 1, z)) == {sympy.sqrt(1 / S), -sympy.sqrt(1 / S)}
    assert sympy.linsolve([z * S - c], z) == sympy.FiniteSet((c / S,))
    with pytest.raises(UnsupportedError, match="has no derivative with respect to m, which is an integer"):
        S.diff(m)


def test_patterns_for_scalars_do_not_fit_whole_tensors():
    anything = Wild("anything")
    assert x.match(anything + 1) is None and x.match(2 * anything) is None and x.match(anything) == {anything: x}
    assert (2 * S + 1).match(2 * anything + 1) == {anything: S}
    total = IndexedSum(x[j], (j, 0, m - 1))
    by_terms = c**3 * m / 3 + c**2 * total / 2
    assert sympy.integrate(IndexedSum(c * x[j] + c**2, (j, 0, m - 1)), c) == by_terms
    assert sympy.integrate(S * c, (c, 0, 1)) == S / 2
    assert x.kind == TensorComprehension(x[j], (j, m)).kind != S.kind == x[i].kind == NumberKind


def test_names_that_a_version_of_sympy_lacks_are_nobody():
    assert names_of("sympy.no_such_module") == {}
    assert code_of("sympy.no_such_module", "walk") is None
    assert code_of("sympy.core.basic", "Basic.no_such_method") is None
    assert code_of("sympy.core.basic", "Basic.replace", "no_such_function") is None
    assert code_of("sympy.core.expr", "Expr.args") is None  # no function
    # This version has all of them.
    codes = (
        sympy_callers.HAS,
        sympy_callers.PREORDER,
        sympy_callers.FOLD,
        sympy_callers.CONSTANT,
        sympy_callers.ATOMS,
        sympy_callers.REPLACE,
    )
    assert None not in (*codes, sympy_callers.WALK, sympy_callers.PARTIAL, sympy_callers.SUBSTITUTED)
    assert all(
        (sympy_callers.CSE, sympy_callers.LATEX, sympy_callers.SIMPLIFY, sympy_callers.PIECEWISE, sympy_callers.SOLVERS)
    )
