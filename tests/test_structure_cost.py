"""Structured derivatives: each shared part is visited once, patterns take linear time, calls cost no checks again."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse
import sympy
from sympy import Eq, Mod, Piecewise
from uncompiled import run_as_python

import sympy_tensordiff as td
from sympy_tensordiff.codegen.run import compile as compiling
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, DataIndexError, UnsupportedError
from sympy_tensordiff.structure import values as compiled_here
from sympy_tensordiff.structure.values import extract_common_subexpressions
from sympy_tensordiff.symbolic.expressions import traversal
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.expressions.replacement import Replacement
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in

i, j, k, m, n = td.indices("i j k m n")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", m)
at = td.TensorSymbol("at", m, dtype=int, below=n)
S = td.IndexedSum


@pytest.fixture
def as_python(monkeypatch):
    monkeypatch.setattr(compiled_here, "_compiled_sum_sources", lambda: compiled_here._sum_sources)
    with run_as_python():
        yield


def doubled(value, times):
    """A value that has two paths to each of its parts, ``2**times`` in all."""
    for n_ in range(times):
        value = sympy.sin(value) * sympy.Rational(n_ + 1, 3) + sympy.cos(value)
    return value


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("times", [10, 20, 40])
def test_shared_parts_are_visited_once(times, monkeypatch):
    """SymPy's own walks (`xreplace`, `atoms`, `has`, `doit`) would take each of the paths."""
    visits = [0]
    below = traversal.native_parts

    def counting(node):
        visits[0] += 1
        return below(node)

    monkeypatch.setattr("sympy_tensordiff.symbolic.expressions.replacement.native_parts", counting)
    original = sympy.Basic._xreplace

    def xreplace(self, rule):
        visits[0] += 1
        return original(self, rule)

    monkeypatch.setattr(sympy.Basic, "_xreplace", xreplace)
    function = td.TensorComprehension(doubled(x[at[i]] * y[i], times), (i, m))
    jacobian = td.structured_jacobian((x, y, at), function, (x, y), backend="numpy")
    kernel = jacobian.kernel(jacobian._groups)
    assert visits[0] < 1_000 + 400 * times
    assert measures(jacobian.terms[0].value).size > 2 ** min(times, 30)
    assert len(kernel.function.source) < 20_000 + 1_000 * times


def test_values_of_shared_parts(as_python):
    function = td.TensorComprehension(doubled(x[at[i]] * y[i], 8), (i, m))
    rng = np.random.default_rng(0)
    given = rng.normal(size=4), rng.normal(size=6), rng.integers(0, 4, 6)
    matrix = td.structured_jacobian((x, y, at), function, (x, y))(*given).toarray()
    known = dict(zip((x, y, at), given, strict=True))
    np.testing.assert_allclose(matrix, np.hstack(td.evaluate(td.jacobian(function, (x, y)), known)), rtol=1e-12)


def test_a_replacement_is_an_xreplace_that_keeps_sharing():
    shared = sympy.sin(x[i]) + 1
    expr = shared**2 + sympy.exp(shared) + S(x[i] * x[j], (j, 0, i))
    for rule in ({i: k + 1}, {x[i]: sympy.Symbol("a")}, {x: y}, {i: j}, {}):
        assert Replacement(rule)(expr) == expr.xreplace(rule)
    replaced = Replacement({i: k})
    assert replaced(expr) is replaced(expr)
    assert len({id(node) for node in nodes_in([replaced(expr)]) if node == sympy.sin(x[k]) + 1}) == 1


def test_common_parts_are_stored_where_that_pays():
    angle = x[i] + 2 * x[i + 1]
    axes = [(i, n - 1)]
    both = extract_common_subexpressions([sympy.sin(angle) * x[i], sympy.sin(angle) + 1], axes)
    sine = td.TensorComprehension(sympy.sin(angle), *axes)[i]
    assert both == [sine * x[i], sine + 1]
    cheap = [angle * x[i], angle + 1]  # one addition
    assert extract_common_subexpressions(cheap, axes) == cheap
    guarded = sympy.Piecewise((sympy.log(x[i]), x[i] > 0), (0, True))
    once, again = extract_common_subexpressions(
        [guarded + 1, sympy.Piecewise((sympy.log(x[i]), x[i] > 1), (0, True))], axes
    )
    assert (once, again) == (guarded + 1, sympy.Piecewise((sympy.log(x[i]), x[i] > 1), (0, True)))


def test_patterns_of_scatter_sums_are_linear():
    size = 200_000  # of all pairs there are 4e10
    total = td.TensorComprehension(S(sympy.KroneckerDelta(j, at[i]) * y[i] ** 2, (i, 0, m - 1)), (j, n))
    places = np.random.default_rng(0).integers(0, size, size)
    jacobian = td.structured_jacobian((x, y, at), total + 0 * x, y, backend="numpy")
    start = time.process_time()
    rows, columns = jacobian.structure(np.ones(size), np.ones(size), places)
    assert time.process_time() - start < 5
    order = np.lexsort((np.arange(size), places))
    assert (rows == places[order]).all() and (columns == order).all()
    assert [str(term) for term in jacobian.terms] == ["2*y[i] at [0, at[i]] x [0, i] for i = 0 .. m - 1"]


def test_data_outside_of_a_scatter_select_nothing(as_python):
    free = td.TensorSymbol("free", m, dtype=int)
    total = td.TensorComprehension(S(sympy.KroneckerDelta(j, free[i]) * y[i] ** 2, (i, 0, m - 1)), (j, n))
    given = np.arange(1.0, 6.0), np.array([0, 7, 2, -1, 2]), 3
    matrix = td.structured_jacobian((y, free, n), total, y)(*given).toarray()
    assert matrix.tolist() == [[2, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 6, 0, 10]]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("left", [j, 2 * j, 3 - j, j - 1])
@pytest.mark.parametrize("right", [sympy.Mod(at[i], 3), sympy.floor(at[i] / 2), 2 * at[i] + 1, at[i] + i])
def test_scatters_to_positions_computed_from_data(left, right, as_python):
    total = td.TensorComprehension(S(sympy.KroneckerDelta(left, right) * y[i] ** 2 * x[j], (i, 0, m - 1)), (j, n))
    given = np.linspace(1, 2, 5), np.linspace(-1, 3, 6), np.array([0, 4, 1, 3, 2, 1])
    matrix = td.structured_jacobian((x, y, at), total, (x, y))(*given).toarray()
    known = dict(zip((x, y, at), given, strict=True))
    np.testing.assert_allclose(matrix, np.hstack(td.evaluate(td.jacobian(total, (x, y)), known)))


def test_maxima_up_to_a_point_of_a_list(as_python):
    """Over points that are not a box, a maximum runs up to a coordinate: a scalar that is one entry of data."""
    greatest = td.IndexedMax(x[j] * x[k], (k, 0, j))
    total = S(Piecewise((greatest, Eq(Mod(j, 2), 0)), (x[j] ** 4, True)), (j, 0, n - 1))
    at = np.array([1.0, -2.0, 3.0, 0.5, 0.7])
    expected = td.lambdify([x], td.hessian(total, x), "numpy")(at)
    np.testing.assert_allclose(td.structured_hessian((x,), total, x)(at).toarray(), expected)


def test_a_term_whose_range_has_nothing_else_cancels(as_python):
    zero = S(x[i] * y[j], (i, 0, n - 1), (j, 0, m - 1)) - S(x[k] * y[j], (j, 0, m - 1), (k, 0, n - 1))
    for function in (td.TensorComprehension(zero + y[k], (k, m)), td.TensorComprehension(zero, (k, m))):
        matrix = td.structured_jacobian((x, y), function, (x, y))(np.ones(2), np.ones(3)).toarray()
        assert (matrix != 0).sum() == (3 if function.body.has(y[k]) else 0)


def test_low_rank_of_rank_0(as_python):
    loss = S(x[i] ** 2, (i, 0, n - 1)) + S(y[k] * S(x[i], (i, 0, n - 1)) ** 2, (k, 0, m - 2))
    operator = td.structured_hessian((x, y), loss, x)(np.ones(4), np.ones(1))
    assert operator.solve(np.ones(4)).tolist() == [0.5] * 4
    assert operator.method.startswith("low rank: a sparse matrix plus one of rank 0 of 4 rows")


def test_an_index_of_a_sum_inside_is_no_index_of_the_term(as_python):
    """One term of a pair sums over an index that another one has points for."""
    z, s = td.TensorSymbol("z", n), sympy.Symbol("s", real=True)
    totals = td.TensorComprehension(S(s * z[j + 1] - x[j + 2], (j, 2 * k - 1, k + 2)), (k, 2))
    loss, args = S(totals[k] ** 2, (k, 0, 1)), (x, s, z)
    given = np.arange(1.0, 8.0), 0.5, np.linspace(-1, 1, 7)
    matrix = td.structured_hessian(args, loss, args)(*given).toarray()
    rows = zip(td.evaluate(td.hessian(loss, args), dict(zip(args, given, strict=True))), (7, 1, 7), strict=True)
    np.testing.assert_allclose(matrix, np.block([[np.reshape(b, (size, -1)) for b in row] for row, size in rows]))


def test_first_calls_compile_one_kernel(as_python, monkeypatch):
    made = []
    make = compiling.CompiledFunction.__init__
    monkeypatch.setattr(compiling.CompiledFunction, "__init__", lambda *a, **kw: (made.append(1), make(*a, **kw))[1])
    loss = sympy.exp(S(x[i] ** 2, (i, 0, n - 1))) + S(x[i] * x[i + 1] ** 2, (i, 0, n - 2)) + x[0] ** 3
    operator = td.structured_hessian((x,), loss, x)(np.ones(4) / 3)
    operator.toarray()
    assert len(made) == 1 and operator.has_dense_terms


def test_later_calls_check_nothing_again(as_python, monkeypatch):
    steps = td.TensorComprehension(S(sympy.KroneckerDelta(j, at[i]) * sympy.sin(y[i]), (i, 0, m - 1)) - x[j], (j, n))
    places = np.array([0, 1, 1, 2, 0])
    problem = td.nlp(S(x[i] ** 2, (i, 0, n - 1)), steps, (x, y), start=(np.ones(3), np.ones(5)), data={at: places})
    point, multipliers = problem.x0 + 0.25, np.ones(3)
    methods = (problem.objective, problem.gradient, problem.constraints, problem.jacobian,
               lambda p: problem.hessian(p, multipliers, 2.0))  # fmt: skip
    first = [np.array(method(point)) for method in methods]
    checked = []
    prepare = ArgumentChecker.prepare
    monkeypatch.setattr(ArgumentChecker, "prepare", lambda *args: (checked.append(1), prepare(*args))[1])
    for method, wanted in zip(methods, first, strict=True):
        np.testing.assert_array_equal(method(point), wanted)
        assert (method(point + 0.5) != wanted).any()
    assert not checked
    places[0] = 2  # in place: the pattern and the values follow
    assert problem._jacobian.structure(point[:3], point[3:], places)[0].tolist() == [0, 0, 1, 1, 1, 2, 2, 2]
    assert checked
    rows, columns = problem._jacobian.structure(point[:3], point[3:], places)
    matrix = scipy.sparse.coo_array((problem._jacobian.values(point[:3], point[3:], places), (rows, columns))).toarray()
    assert matrix[2, 3] == np.cos(point[3]) and matrix[0, 3] == 0
    places[0] = 3
    with pytest.raises(DataIndexError):
        problem.jacobian(point)


def test_backends_and_texts():
    loss = S(x[i] * x[i + 1] ** 2, (i, 0, n - 2))
    given = np.arange(1.0, 4.0)
    matrix = td.structured_hessian(loss, x, backend="numpy")(given).toarray()
    assert matrix.tolist() == [[0, 4, 0], [4, 2, 6], [0, 6, 4]]
    hessian = td.structured_hessian((x,), loss, x, backend="numpy")
    assert "terms:\n  result0 at [0, i + 1] x [0, i + 1] for i = 0 .. n - 2\n" in hessian.plan
    module = {}
    exec(hessian.generate_code("numpy"), module)
    assert [part.tolist() for part in module["compute"](given)] == [[2, 4], [4, 6]]
    assert "import numpy" in hessian.source and "void" in hessian.generate_code("c")
    linear = td.structured_hessian((x,), S(x[i], (i, 0, n - 1)), x)
    assert linear.source == linear.plan == ""
    with pytest.raises(
        UnsupportedError, match="there is no text: the derivative has no terms, all of its entries are 0"
    ):
        linear.generate_code()
    with pytest.raises(ArgumentError, match="backend='cuda': structured derivatives are computed with 'llvm', 'nu"):
        td.structured_hessian((x,), loss, x, backend="cuda")
    message = (
        r"is not an argument of a call: the order is td.structured_hessian\(args, f, wrt\), with args as td.lambdify"
    )
    with pytest.raises(ArgumentTypeError, match=message):
        td.structured_hessian(loss, (x,), x)
    problem = td.minimize_problem(loss, x, backend="numpy")
    assert problem.hess_operator(given).toarray().tolist() == matrix.tolist()
