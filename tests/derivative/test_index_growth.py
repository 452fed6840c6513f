"""Second derivatives in index notation: as large as two gradients, right, and written and planned in linear time."""

import numpy as np
import pytest
from sympy import Abs, Max, Piecewise, Rational, acos, sin, sqrt

import sympy_tensordiff as td
from sympy_tensordiff.codegen.lower.plan import Planner
from sympy_tensordiff.symbolic.expressions import depth
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in

i, j, k, l, t, n, m = td.indices("i j k l t n m")
S, T = td.IndexedSum, td.TensorComprehension
X, Y = td.TensorSymbol("X", (n, 3)), td.TensorSymbol("Y", (n, 3))
u, w = td.TensorSymbol("u", n), td.TensorSymbol("w", n)
TRIPLES = td.TensorSymbol("triples", (m, 3), dtype=int, below=n)


def dot(a, b):
    return S(a * b, (k, 0, 2))


def pairs(body):
    return S(body, (j, 0, i - 1), (i, 0, n - 1))


def angles():
    a, b = X[TRIPLES[t, 0], k] - X[TRIPLES[t, 1], k], X[TRIPLES[t, 2], k] - X[TRIPLES[t, 1], k]
    return S((acos(dot(a, b) / sqrt(dot(a, a) * dot(b, b))) - Rational(3, 2)) ** 2, (t, 0, m - 1)), (X,)


def dipoles():
    r = sqrt(dot(X[i, k] - X[j, k], X[i, k] - X[j, k]))
    a, b = (dot(Y[one, k], X[i, k] - X[j, k]) for one in (i, j))
    return pairs(r**-12 + dot(Y[i, k], Y[j, k]) / r**3 - 3 * a * b / r**5), (X, Y)


def three_bodies():
    r = T(sqrt(dot(X[i, k] - X[j, k], X[i, k] - X[j, k]) + 1), (i, n), (j, n))
    cosine = dot(X[j, k] - X[i, k], X[l, k] - X[i, k]) / (r[i, j] * r[i, l])
    density = T(S(Piecewise((cosine**2 / r[i, l], l > j), (0, True)), (l, 0, n - 1)), (i, n), (j, n))
    return S(sqrt(1 + density[i, j] ** 2) / r[i, j], (j, 0, n - 1), (i, 0, n - 1)), (X,)


def upwind():
    flux = lambda p: Max(u[p], u[p + 1]) * (u[p] + u[p + 1] / w[p + 1]) - Abs(u[p + 1] - u[p]) * w[p]  # noqa: E731
    return S((u[i] - flux(i + 1) / 7 + flux(i) / 7) ** 2 / w[i], (i, 0, n - 3)), (u, w)


def nonlinear_weights():
    smooth = [(u[i] - 2 * u[i + 1] + u[i + 2]) ** 2 + s * (u[i] - u[i + s]) ** 2 for s in (1, 2)]
    share = [s / (Rational(1, 9) + one) ** 2 for s, one in zip((1, 2), smooth, strict=True)]
    value = sum(one * u[i + s] for s, one in enumerate(share)) / sum(share)
    return S((value - w[i]) ** 2, (i, 0, n - 3)), (u,)


FUNCTIONS = {f.__name__: f for f in (angles, dipoles, three_bodies, upwind, nonlinear_weights)}


def direction(variable):
    return td.TensorSymbol(f"d{variable.name}", variable.shape)


@pytest.fixture(params=FUNCTIONS, scope="module")
def case(request):
    """A function, its variables and their directions; the gradient and a product with the Hessian."""
    function, variables = FUNCTIONS[request.param]()
    directions = tuple(map(direction, variables))
    return variables, directions, td.gradient(function, variables), td.hvp(function, variables, directions)


def size(exprs):
    return len(set(nodes_in(exprs)))


@pytest.mark.in_turns(8)
def test_a_product_with_the_hessian_has_few_nodes_more_than_two_gradients(case):
    _, _, gradient, product = case
    assert size(product) <= 2.5 * size(gradient)


@pytest.mark.in_turns(8)
def test_a_product_with_the_hessian_is_the_slope_of_the_gradient(case):
    variables, directions, gradient, product = case
    random = np.random.default_rng(0)
    given = {v: random.uniform(0.5, 1.5, [int(e.subs(n, 5)) for e in v.shape]) for v in (X, Y, u, w)}
    given[TRIPLES] = np.array([[0, 1, 2], [1, 2, 3], [4, 0, 3]])
    moves = {d: random.uniform(-1, 1, given[v].shape) for v, d in zip(variables, directions, strict=True)}
    used = set(nodes_in(gradient)) & given.keys()
    args = [v for v in given if v in used]
    slopes = td.lambdify(args, tuple(gradient), backend="numpy")

    def at(step):
        moved = {**given, **{v: given[v] + step * moves[d] for v, d in zip(variables, directions, strict=True)}}
        return slopes(*(moved[v] for v in args))

    got = td.lambdify([*args, *directions], tuple(product), backend="numpy")(*(given[v] for v in args), *moves.values())
    for one, before, after in zip(got, at(-1e-6), at(1e-6), strict=True):
        wanted = (after - before) / 2e-6
        np.testing.assert_allclose(one, wanted, atol=1e-6 * max(1, np.abs(wanted).max()))


def visits(monkeypatch, levels):
    """Return the number of nodes visited to measure a gradient that is built level by level."""
    count = 0
    below = depth._without_measures

    def counted(node):
        nonlocal count
        count += 1
        return below(node)

    value = u[i]
    for _ in range(levels):
        value = sin(value) * w[i] + 1
    function = S(value, (i, 0, n - 1))
    with monkeypatch.context() as patch:
        patch.setattr(depth, "_without_measures", counted)
        td.gradient(function, u)
    return count


def test_an_expression_is_measured_once_per_node(monkeypatch):
    few, many = (visits(monkeypatch, levels) for levels in (10, 40))
    assert many < 6 * few  # all paths to all nodes below each new node: 16 times and more


@pytest.mark.in_turns(8)
def test_only_parts_that_may_have_an_array_are_written_over_its_axes(monkeypatch):
    """Whatever an array holds, most sums and products are not equal to it after a change of indices."""
    function, variables = three_bodies()
    directions = tuple(map(direction, variables))
    results = (function, *td.gradient(function, variables), *td.hvp(function, variables, directions))
    count, candidate = 0, Planner.candidate

    def counted(self, *args, **options):
        nonlocal count
        count += 1
        return candidate(self, *args, **options)

    monkeypatch.setattr(Planner, "candidate", counted)
    text = td.generate_code([*variables, *directions], results, "numba")
    assert count < 22 * text.count("np.empty")  # in three programs, of which one is printed
