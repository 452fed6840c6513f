"""Named parts: `td.cse`, `td.name`, `td.latex`. Values against the exact interpreter, forms as text."""

from random import Random

import numpy as np
import pytest
import sympy
from every import every
from exact_checks import pullback_problem
from fuzz.equality import assert_equal
from test_cases import ALL, small

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic.expressions.traversal import named_in
from sympy_tensordiff.symbolic.index_notation.tensors import in_full

i, j, k, n, m, d = td.indices("i j k n m d")
X, y, A, x = (td.TensorSymbol(*pair) for pair in (("X", (n, d)), ("y", n), ("A", (n, n)), ("x", n)))
length, scale, noise = sympy.symbols("l s e", positive=True)
SOME = Random(3).sample(ALL, 16)


def in_parts_is_whole(exprs, values, names=None):
    """Every expression has the value that its parts, one after the other, give it."""
    parts, reduced = td.cse(exprs, names)
    known = dict(values)
    for symbol, definition in parts:
        known[symbol] = evaluate(definition, known)
        assert np.shape(known[symbol]) == np.shape(evaluate(symbol, known))
    for expr, short in zip(exprs, reduced, strict=True):
        assert_equal(evaluate(short, known), evaluate(expr, values), str(short))
    return parts, reduced


def test_functions_and_their_pullbacks_in_parts(thorough):
    """All at once: a part that only one of them may have would show."""
    for name in ALL if thorough else SOME:
        case = small(name)
        cotangent, values = pullback_problem(
            case.function, sympy.Tuple(*case.variables), case.sizes, 0, case.values, -2, 2
        )
        in_parts_is_whole([case.function, *td.vjp(case.function, tuple(case.variables), cotangent)], values)


def covariance(named):
    """A covariance, its inverse times the data, and the likelihood of a Gaussian process; with names or without."""
    give = td.name if named else lambda expr, name: expr
    square = td.IndexedSum((X[i, k] - X[j, k]) ** 2, (k, 0, d - 1))
    D = give(td.TensorComprehension(square, (i, n), (j, n)), "D")
    K = give(scale**2 * td.exp(-D / (2 * length**2)) + noise**2 * td.DeltaTensor((n,)), "K")
    alpha = give(td.inv(K) @ y, "alpha")
    return D, K, y @ alpha / 2 + td.log(td.det(K)) / 2


WRT = (length, scale, noise, X)
DATA = (np.array([[0.1, 0.7], [-0.4, 0.2], [0.9, -0.3]]), np.array([1.0, -2.0, 0.5]), 0.7, 1.3, 0.4)


@pytest.mark.in_turns(8)
def test_derivatives_through_names():
    loss, full = covariance(True)[2], covariance(False)[2]
    V = td.TensorSymbol("V", (n, d))
    assert in_full(loss) == full
    pairs = [(td.gradient(loss, WRT), td.gradient(full, WRT))]
    pairs += [((td.hvp(loss, X, V),), (td.hvp(full, X, V),)), ((td.jvp(loss, X, V),), (td.jvp(full, X, V),))]
    pairs += [((td.diff(loss, length, scale),), (td.diff(full, length, scale),))]
    for with_names, without in pairs:
        args = (X, y, length, scale, noise, V)
        both = [td.lambdify(args, tuple(exprs), "numpy") for exprs in (with_names, without)]
        for got, expected in zip(*(f(*DATA, np.ones((3, 2)) / 3) for f in both), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_what_a_person_reads_of_a_gaussian_process():
    gradients = td.gradient(covariance(True)[2], WRT[:3])
    assert [str(gradient) for gradient in gradients] == [
        "(s**2*sum(D*dK*exp(-D/(2*l**2))))/l**3",
        "2*s*sum(dK*exp(-D/(2*l**2)))",
        "2*e*trace(dK)",
    ]
    parts, reduced = td.cse(gradients)
    assert [str(symbol) for symbol, _ in parts] == ["D", "t0", "dalpha", "K", "dK"]
    assert str(reduced[1]) == "2*s*trace(dK.T @ t0)"
    parts, _ = td.cse(td.gradient(covariance(False)[2], WRT[:3]), dict(zip(covariance(False), "DK", strict=False)))
    assert [str(symbol) for symbol, _ in parts] == ["D", "t0", "K", "t1"]
    assert str(parts[2][1]) == "e**2*DeltaTensor(n) + s**2*t0"


def test_parts_of_stencils_are_the_same_at_all_positions():
    u = td.TensorSymbol("u", (n, m))
    step = (u[i + 1, j] - u[i, j]) ** 2 + (u[i, j + 1] - u[i, j]) ** 2 + sympy.Rational(1, 100)
    variation = td.IndexedSum(td.sqrt(step), (i, 0, n - 2), (j, 0, m - 2))
    values = {u: [[1, 3, 2], [0, 5, 7], [2, 2, 4]], n: 3, m: 3}
    parts, (reduced,) = td.cse(td.gradient(variation, u))
    ((norm, definition),) = parts
    assert norm.shape == (n - 1, m - 1)
    assert definition.body == 1 / td.sqrt(definition.body.args[0])
    assert {str(entry) for entry in reduced.atoms(td.TensorEntry) if entry.tensor == norm} == {
        "t0[p, q]",
        "t0[p - 1, q]",
        "t0[p, q - 1]",
    }
    known = {**values, norm: evaluate(definition, values)}
    got, expected = (np.asarray(evaluate(e, known), float) for e in (reduced, td.gradient(variation, u)))
    np.testing.assert_allclose(got, expected)


def test_parts_that_differ_in_sign_number_or_grouping_are_one():
    """A residual of a stencil at three places, one product in two groupings, an inverse and its transpose."""
    residual = x[i + 1] - 2 * x[i] + x[i - 1] + sympy.exp(x[i])
    stencil = td.gradient(td.IndexedSum(residual**2, (i, 1, n - 2)), x)
    parts, _ = in_parts_is_whole([stencil], {x: np.array([0.3, -0.2, 0.5, 0.1, 0.4]), n: 5})
    assert [str(part) for _, part in parts] == [
        "TensorComprehension(exp(x[p + 1]) + x[p + 2] + x[p] - 2*x[p + 1], (p, n - 2))"
    ]
    values = {A: np.array([[1.0, 0.2], [0.3, 2.0]]), x: np.array([0.5, -1.0]), n: 2}
    assert len(in_parts_is_whole([td.sum(td.exp(A @ (A @ x))) + td.sum(td.sin((A @ A) @ x))], values)[0]) == 1
    K = td.tanh(A @ A.T) + td.DeltaTensor(n)
    parts, (reduced,) = td.cse(td.inv(K).T @ x + td.inv(K) @ y)
    assert len(parts) == 1 and ".T" not in str(reduced)


def test_long_answers_show_their_parts():
    """By default where that is shorter; what is too large for a text is printed by its parts, one per line."""
    W, V, H = (td.TensorSymbol(name, (n, n)) for name in "WVH")
    S = td.softmax(H @ W @ (H @ V).T)
    attention = td.gradient(td.sum((S @ H - A) ** 2), W)
    assert td.latex(attention) == td.latex(attention, parts=True) != td.latex(attention, parts=False)
    assert r"\text{where}" in attention._repr_latex_()
    assert td.latex(A @ x) == td.latex(A @ x, parts=False)
    deep = A
    for _ in range(20):
        deep = td.tanh(deep @ deep)
    lines = str(deep).splitlines()
    assert lines[0] == "t0 = tanh(A @ A)" and lines[-1] == "tanh(t18 @ t18)" and len(lines) == 20
    assert "\n" not in f"{deep}" and "too much to print" in f"{deep}"
    assert td.latex(deep) == td.latex(deep, parts=True)
    with pytest.raises(UnsupportedError, match=r"td.latex\(expr, parts=True\).*td.name"):
        td.latex(deep, parts=False)
    names = {"td": td, "A": A, "tanh": td.tanh}
    exec("\n".join([*lines[:-1], f"result = {lines[-1]}"]), names)
    assert names["result"] == deep


def test_a_part_is_read_inside_of_its_range_only():
    """The range of a part ends with the condition that guards its read or quotient."""
    body = sympy.Piecewise((1 / x[i - 1] + 1 / (1 / x[i - 1] + 2), i >= 1), (0, True))
    expr = td.TensorComprehension(body, (i, n))
    parts, _ = in_parts_is_whole([expr], {x: [1, 2, 3, 0], n: 4})
    assert all(symbol.shape == (n - 1,) for symbol, _ in parts)
    twice = 1 / (x[i] + 1) + sympy.sin(1 / (x[i] + 1))
    assert len(td.cse(td.TensorComprehension(twice, (i, n)))[0]) == 1
    chosen = sympy.Piecewise((twice, x[i] > 0), (0, True))
    assert td.cse(td.TensorComprehension(chosen, (i, n)))[0] == []  # 1/0 is chosen by nobody


def test_small_things_have_no_name():
    assert td.cse(x + 1) == ([], [x + 1])
    assert td.cse([td.exp(x), td.exp(x) * y])[0] == []
    parts, reduced = td.cse([td.softmax(A @ x), td.sum(y * td.softmax(A @ x))])
    assert (str(parts), str(reduced)) == ("[(t0, softmax(A @ x))]", "[t0, sum(t0*y)]")
    assert td.cse([]) == ([], [])


def test_named_expressions():
    K = td.name(A @ A.T, "K")
    total = td.name(td.sum(y * y), "total")
    assert (str(K), K.shape, K.doit(), total.shape, total.free_symbols) == ("K", (n, n), A @ A.T, (), {y, n})
    assert K.func(*K.args) == K
    assert sympy.srepr(K).startswith("NamedTensor('K', ")
    assert td.to_text(K @ y) == td.to_text(A @ A.T @ y)
    assert str(td.gradient(sympy.sin(total), y)) == "2*dtotal*y"
    assert td.gradient(y @ K @ y, K) == td.outer(y, y)
    by_k, by_y = td.gradient(y @ K @ y, (K, y))
    assert (by_k, str(by_y)) == (td.outer(y, y), "(K + K.T) @ y")
    assert td.gradient(td.trace(K), y) == td.gradient(td.trace(A), y)
    slope = td.gradient(td.trace(td.name(td.inv(K), "W") @ A), A)
    assert sorted(str(part) for part in named_in([slope])) == ["K", "W", "dK", "dW"]
    assert str(td.gradient(slope[0, 0], y)) == str(td.gradient(td.trace(A), y))
    assert td.evaluate(td.gradient(total, y), {y: np.arange(3.0)}).tolist() == [0, 2, 4]
    assert str(td.diff(td.exp(total), y[i])) == "2*exp(sum(y**2))*y[i]"


def test_equations():
    gradient = td.gradient(td.IndexedSum(x[i] ** 3, (i, 0, n - 1)), x)
    assert td.latex(gradient, "slope").startswith(r"\mathrm{slope}_{p} = ")
    loss = td.name(td.sum(x * x), "loss")
    assert r"\text{where}\quad \mathrm{loss} &= " in td.latex(sympy.sin(loss), "f", parts=True)


def test_tangents_and_cotangents_of_names_are_transposes():
    K = td.name(A @ A.T, "K")
    loss, values = y @ K @ y * td.trace(A), {A: [[1, 2], [-1, 3]], y: [2, 5], n: 2}
    dA, dK = td.TensorSymbol("dA", (n, n)), td.TensorSymbol("dH", (n, n))
    values |= {dA: [[3, 1], [0, 2]], dK: [[1, 4], [-2, 1]]}
    by_a, by_k = td.gradient(loss, (A, K))
    moved = td.jvp(loss, (A, K), (dA, dK))
    assert evaluate(moved, values) == evaluate(td.sum(by_a * dA) + td.sum(by_k * dK), values)
    with pytest.raises(UnsupportedError, match="K is the name of an expression"):
        td.jacobian(K @ y, K)
    assert td.gradient(td.sum(y * y), K) == td.zeros((n, n))


z, V = td.TensorSymbol("z", 4), td.TensorSymbol("V", (4, 4))
INVERSE = td.name(td.TensorComprehension(1 / (z[i] - z[j]), (i, 4), (j, 4)), "F")
LOG = td.name(td.TensorComprehension(sympy.log(z[i] - z[0]), (i, 4)), "L")
WHOLE = td.name(td.log(z), "L")
ROOT = td.name(td.sqrt(z + 1), "R")
PAIRS = ((i, 0, 3), (j, 0, 3))


def where(value, condition):
    return sympy.Piecewise((value, condition), (0, True))


def where_positive(value):
    return td.elementwise(lambda a, b: where(b, a > 0), z, value)


SINGULAR = {
    "indices that differ": td.IndexedSum(where(V[i, j] * INVERSE[i, j], sympy.Ne(i, j)), *PAIRS),
    "a range": td.IndexedSum(V[i, j] * INVERSE[i, j], (j, 0, i - 1), (i, 0, 3)),
    "two ranges": td.IndexedSum(V[i, j] * INVERSE[i, j], (j, 0, i - 1), (i, 0, 3))
    + td.IndexedSum(INVERSE[i, j] ** 2, (j, i + 1, 3), (i, 0, 3)),
    "values": td.IndexedSum(where(LOG[i] ** 2, z[i] > z[0]), (i, 0, 3)),
    "a choice in a choice": td.IndexedSum(where(where(INVERSE[i, j], z[i] > z[j]), sympy.Ne(i, j)), *PAIRS),
    "two choices": td.IndexedSum(where(LOG[i], z[i] > z[0]) * where(LOG[3 - i], z[3 - i] > z[0]), (i, 0, 3)),
    "whole tensors": td.sum(where_positive(WHOLE)),
    "whole tensors twice": td.sum(where_positive(WHOLE) * where_positive(z * WHOLE)),
    "a value that is 0 by chance": td.IndexedSum(z[i] * ROOT[i], (i, 1, 3)),
}


@every("name", [*SINGULAR], turns=10)
def test_a_zero_annihilates_slopes_of_named_parts(name):
    """A part that no term reads at an entry may not be a number there."""
    value, v = SINGULAR[name], td.TensorSymbol("v", 4)
    point = {z: np.array([0.0, 0.5, 2.0, 3.0]), V: np.arange(16.0).reshape(4, 4), v: np.array([1.0, -2.0, 0.5, 3.0])}
    for derivative in (lambda s: td.gradient(s, z), lambda s: td.hvp(s, z, v)):
        named, plain = derivative(value), derivative(in_full(value))
        # Both sums of the first are one, of (V[r, j] - V[j, r])/(z[r] - z[j])**2.
        assert named_in([named]) or name in ("indices that differ", "a choice in a choice")
        one, other = (td.lambdify((z, V, v), e, "numpy")(*(point[a] for a in (z, V, v))) for e in (named, plain))
        assert np.isfinite(other).all()
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


PLACES = np.array([[0.1, 0.7], [-0.4, 0.2], [0.9, -0.3], [0.5, 1.2]])


def test_parts_below_conditions_are_0_where_these_fail():
    """A value that is undefined on the diagonal, which a condition leaves out."""
    square = td.IndexedSum((X[i, k] - X[j, k]) ** 2, (k, 0, d - 1))
    reach = sympy.sqrt(square) - 1 / (1 - sympy.exp(-square))
    pairs = sympy.Piecewise((reach**-6 - reach**-3, sympy.Ne(i, j)), (0, True))
    energy = td.IndexedSum(pairs, (j, 0, n - 1), (i, 0, n - 1))
    gradient = td.gradient(energy, X)
    parts, _ = in_parts_is_whole([energy, gradient], {X: PLACES, n: 4, d: 2})
    assert sum("Ne(" in str(part) for _, part in parts) >= 2
    assert sum(len(str(part)) for _, part in parts) < len(str(gradient))


def test_parts_of_triangles_have_axes_of_the_tensors():
    """In ``j < p`` and ``i > p``, a value that is finite everywhere is one part, whichever index comes first."""
    square = td.IndexedSum((X[i, k] - X[j, k] - sympy.floor(X[i, k] - X[j, k])) ** 2, (k, 0, d - 1))
    energy = td.IndexedSum(sympy.sin(square) * sympy.exp(-square), (j, 0, i - 1), (i, 0, n - 1))
    parts, _ = in_parts_is_whole([td.gradient(energy, X)], {X: PLACES, n: 4, d: 2})
    assert [symbol.shape for symbol, _ in parts][:2] == [(n, n, d), (n, n)]


def test_parts_at_indices_from_data():
    """A cosine that three terms of a sum over triples need, each at another atom."""
    T = td.TensorSymbol("T", (m, 3), dtype=int, below=n)
    one, two = (X[T[j, a], k] - X[T[j, 1], k] for a in (0, 2))
    dot, size = td.IndexedSum(one * two, (k, 0, d - 1)), td.IndexedSum(one**2, (k, 0, d - 1))
    energy = td.IndexedSum(sympy.exp(dot / size), (j, 0, m - 1))
    values = {X: PLACES, T: np.array([[0, 1, 2], [3, 1, 0]]), n: 4, d: 2, m: 2}
    parts, _ = in_parts_is_whole([td.gradient(energy, X)], values)
    assert [symbol.shape for symbol, _ in parts].count((m,)) >= 2


def test_a_chain_of_choices_has_too_many_conditions_to_name_parts_below():
    chain = sympy.sin(x[i])
    for number in range(24):
        chain = sympy.Piecewise((sympy.exp(chain) * y[i], i > number), (sympy.cos(chain), True))
    expr = td.TensorComprehension(chain, (i, n))
    assert td.cse(expr)[0] == []


def test_refusals():
    D = td.TensorComprehension((x[i] - x[j]) ** 2, (i, n), (j, n))
    refused = {
        "is not a part of the expressions that can have a name": lambda: td.cse(x + y, {A @ x: "b"}),
        "which the expressions call something else": lambda: td.cse(A @ x + td.exp(A @ x), {A @ x: "A"}),
        "names gives two parts one name": lambda: td.cse(A @ x, {A @ x: "b", x + y: "b"}),
        "i is a free index of": lambda: td.name(x[i] ** 2, "square"),
        "need as many names, not 2": lambda: td.latex(D, ("a", "b")),
        "is not a name for a tensor": lambda: td.name(D, "not a name"),
    }
    for text, call in refused.items():
        with pytest.raises(ArgumentError, match=text):
            call()
    wrong = {
        "names must be a mapping of expressions to strings": lambda: td.cse(x, ["K"]),
        "a name is a string of LaTeX": lambda: td.latex(x, 3),
        "parts must be True or False": lambda: td.latex(x, parts="yes"),
    }
    for text, call in wrong.items():
        with pytest.raises(ArgumentTypeError, match=text):
            call()
    with pytest.raises(ShapeError, match="two different tensors are called K"):
        td.cse([td.name(x + y, "K") * td.name(x - y, "K")])


def test_roots_and_quotients_are_parts():
    """Distances where only roots occur; the values of a softmax."""
    rng = np.random.default_rng(2)
    soft = td.TensorComprehension(sympy.exp(x[i]) / td.IndexedSum(sympy.exp(x[j]), (j, 0, n - 1)), (i, n))
    parts, reduced = in_parts_is_whole([td.jacobian(soft, x)], {x: rng.normal(size=3), n: 3})
    assert len(parts) == 1 and str(reduced[0]).count("t0") == 2
    away = sympy.sqrt(td.IndexedSum((X[i, k] - X[j, k]) ** 2, (k, 0, d - 1)))
    energy = td.IndexedSum(sympy.exp(-away) * away, (j, 0, i - 1), (i, 0, n - 1))
    positions = rng.normal(size=(4, 2))
    positions[1] = positions[0]
    parts, reduced = in_parts_is_whole([td.gradient(energy, X)], {X: positions, n: 4, d: 2})
    assert "sqrt" in str(parts[0][1]) and "sqrt" not in str(reduced[0])


def test_tables_of_the_function_are_parts_under_conditions():
    table = td.TensorComprehension(1 / (x[i] - y[j]), (i, n), (j, n))
    body = sympy.Piecewise((table[i, j] ** 2 + sympy.cos(table[i, j]), sympy.Ne(i, j)), (0, True))
    values = {x: np.array([1.0, 2.0, 3.0]), y: np.array([1.0, 2.5, 4.0]), n: 3}
    total = td.IndexedSum(body, (j, 0, n - 1), (i, 0, n - 1))
    ((symbol, definition),), (reduced,) = td.cse([total])
    assert definition == table
    with np.errstate(divide="ignore"):
        known = {**values, symbol: td.evaluate(definition, values)}
    assert np.isinf(known[symbol][0, 0])
    np.testing.assert_allclose(td.evaluate(reduced, known), td.evaluate(total, values))


def test_names_of_parts_are_not_those_of_the_users_tensors():
    n = td.indices("n")
    A, vector, other = td.TensorSymbol("A", (n, n)), td.TensorSymbol("t0", n), td.TensorSymbol("t2", n)
    exponential = td.exp(A @ vector)
    expression = td.sum(exponential * other) / td.sum(exponential) + td.sum(td.sin(exponential))
    for chosen, name in (({}, "t1"), ({exponential: "K"}, "K")):
        parts, _ = td.cse([expression], chosen)
        assert parts[-1][0].name == name and parts[-1][0].name not in {"t0", "t2"}
