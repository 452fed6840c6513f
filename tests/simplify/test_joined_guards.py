"""Guards: as equations where they are some, without what sums say already, and joined where their bodies are equal."""

from every import every
from fuzz.equality import assert_equal
from sympy import And, Eq, Max, Min, Mod, Piecewise, Symbol, ceiling, floor

from sympy_tensordiff import (
    IndexedSum,
    TensorSymbol,
    gradient,
    indices,
    jacobian,
    lambdify,
)
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.simplify.guards import GuardJoiner
from sympy_tensordiff.testing.values import call_arguments, random_values, to_double

i, j, k, N, W = indices("i j k N W")
x, X = TensorSymbol("x", N), TensorSymbol("X", (N, N))
y = TensorSymbol("y", 3)


def where(value, *conditions):
    return Piecewise((value, And(*conditions)), (0, True))


SPLIT = IndexedSum(X[i, j] * x[j], (j, 0, i - 1)) + X[i, i] * x[i] + IndexedSum(X[i, j] * x[j], (j, i + 1, N - 1))
BANDS = IndexedSum(where(X[i, j] ** 2, i - j >= 0, i - j <= 2), (i, 0, N - 1), (j, 0, N - 1)) + IndexedSum(
    where(X[i, j] ** 2, j - i >= 1, j - i <= 3), (i, 0, N - 1), (j, 0, N - 1)
)
WRAPPED = IndexedSum((x[i] - Piecewise((x[i + 1], i < N - 1), (x[0], True))) ** 2, (i, 0, N - 1))
ENDS = IndexedSum((x[i + 1] - x[i]) ** 2, (i, 0, N - 2)) + x[0] ** 2 + x[N - 1] ** 2
SQUARES = IndexedSum(x[i] ** 2, (i, 1, N - 2)) + x[0] ** 2 + x[N - 1] ** 2
TWINS = IndexedSum(x[i] * x[k], (k, ceiling(i / 2), floor((i + 1) / 2)), (i, 0, N - 1))
EVEN = IndexedSum(where(x[2 * i], Eq(Mod(2 * i, 2), 0)) + x[2 * i + 2], (i, 0, floor((N - 1) / 2) - 1))
WINDOWS = IndexedSum((x[i] - x[k]) ** 2, (k, i, Min(N - 1, i + W)), (i, 0, N - 1))

CASES = {
    "below, at and above": (IndexedSum(SPLIT**2, (i, 0, N - 1)), X, 1, "p >= q", 0),
    "bands side by side": (BANDS, X, 1, "Piecewise", 1),
    # At N = 1 the two ends of a circle are one.
    "wrapped": (WRAPPED, x, 2, "Piecewise", 0),
    "ends": (ENDS, x, 2, "Piecewise", 0),
    # At N = 1 the ends coincide, and count twice.
    "squares": (SQUARES, x, 2, "Piecewise", 1),
    "single values": (TWINS, x, 2, "Piecewise", 0),
    "exact floors": (EVEN, x, 1, "floor", 0),
    "empty sums": (WINDOWS, x, 2, "IndexedSum", 0),
}


@every("name", [*CASES])
def test_guards_are_joined_and_values_kept(name):
    function, variable, order, text, count = CASES[name]
    result = gradient(function, variable)
    for _ in range(order - 1):
        result = jacobian(result, variable)
    assert str(result).count(text) == count, result
    for size in (1, 2, 4):
        values = random_values((function, variable), {N: size, W: size - 2}, size, low=-2, high=2)
        expected = derivative(function, (variable,) * order, values)
        assert_equal(evaluate(result, values), expected, f"{name}, N = {size}")
        arguments, arrays = call_arguments((function, variable), values)
        assert_equal(lambdify(arguments, result, "numpy")(*arrays), to_double(expected), f"{name}, N = {size}", 1e-12)


def test_joined_texts():
    assert "4*KroneckerDelta(p, q)" in str(jacobian(gradient(ENDS, x), x))
    remaining = IndexedSum(x[j], (j, Max(0, i - 2), i))
    assert "Piecewise" not in str(gradient(IndexedSum(remaining**2, (i, 0, N - 1)), x))


def test_a_repeated_term_counts_twice():
    graph = Graph()
    p = graph.fresh("p")
    body = graph.scalar(Symbol("a"))
    form = Affine.variable(p)
    rows = [Constraint("eq", form), Constraint("eq", form), Constraint("ge", form - 1), Constraint("ge", form - 1)]
    terms = [graph.guard([row], body) for row in rows]
    joining = GuardJoiner(graph, frozenset())
    facts = (Constraint("ge", form), Constraint("ge", 5 - form))
    while (new := joining.joined(terms, facts)) is not None:
        terms = new
    for value in range(6):
        at = [graph.substitute(term, {p: Affine.of(value)}) for term in terms]
        assert graph.add(at) is graph.scale(2, body), value
