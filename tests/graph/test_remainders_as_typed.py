"""Results equal the expression that a user gets by typing them: ``Mod`` is evaluated where SymPy is right."""

import pytest
import sympy
from every import every
from exact_checks import assert_derivative_exact
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Max, Mod, Rational, ceiling, floor

import sympy_tensordiff as td
from sympy_tensordiff import IndexedSum as Sum
from sympy_tensordiff import TensorComprehension as Table
from sympy_tensordiff.errors import IndexExpressionError, OutOfShapeError
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write

i, j, p, n, m, a = SYMBOLS = td.indices("i j p n m a")
N = sympy.Symbol("N", integer=True, positive=True)
NAMES = {str(symbol): symbol for symbol in (*SYMBOLS, N)} | {"Mod": Mod, "floor": floor, "ceiling": ceiling, "Max": Max}
x, G = td.TensorSymbol("x", n), td.TensorSymbol("G", n)


def written(index):
    """The index of an entry that has been read into the graph, and is written again."""
    reader = Reader(Graph())
    (again,) = write(reader, reader.read(x[index])).indices
    return again


def typed(index):
    """The SymPy expression that the text of an index evaluates to."""
    return sympy.sympify(str(x[index])[2:-1], locals=NAMES)


AS_TYPED = {
    "digits": 4 * Mod(p, 2) + 2 * Mod(floor(p / 2), 2) + floor(p / 4),
    "from the end": n - 1 - Mod(p, n),
    "backwards by a number": Mod(3 - p, 4),
    "positive size": Mod(p - 1, N),
    "sum of sizes": Mod(p + 2, 2 * n - 2),
    "inside of a quotient": floor((Mod(p, n) + 1) / 2),
    "in an absolute value": sympy.Abs(Mod(p, 2 * n - 2) - n + 1),
    "next to a maximum": Max(0, p - 2) + Mod(p, 3),
}


@every("name", [*AS_TYPED])
def test_forms_are_written_as_they_are_typed(name):
    again = written(AS_TYPED[name])
    assert again.has(Mod)
    assert typed(again) == again


def test_wrong_and_endless_evaluations_are_left_out():
    """SymPy 1.14 has ``2*Mod(i, 3)`` for the first, ``Mod(n, 6)`` for the second, and never ends on the third."""
    for index in (
        Mod(2 * Mod(i, 3), 3, evaluate=False),
        Mod(n + Max(0, 2 * i), 6, evaluate=False),
        Mod(p - 2, N + 1, evaluate=False),
    ):
        again = written(index)
        for value in range(8):
            numbers = {i: value, n: value + 1, p: value - 3, N: 5}
            assert again.subs(numbers) == index.args[0].subs(numbers) % index.args[1].subs(numbers)


@st.composite
def forms(draw, depth=2):
    total = sum((draw(st.integers(-2, 2)) * s for s in (i, p, n, N)), sympy.Integer(draw(st.integers(-4, 4))))
    if depth and draw(st.booleans()):
        inner, by = draw(forms(depth - 1)), draw(st.sampled_from((2, 3, 4, n, N, 2 * n, n * m)))
        rounded = draw(st.sampled_from((floor, ceiling)))(inner / by)
        compound = draw(st.sampled_from((rounded, inner - by * floor(inner / by), Mod(inner, by, evaluate=False))))
        total += draw(st.sampled_from((1, -1, 2))) * compound
    return total


@settings(max_examples=25, deadline=None)
@given(forms(), st.lists(st.integers(1, 9), min_size=5, max_size=5))
def test_random_forms_keep_their_values_and_are_what_is_typed(index, values):
    try:
        entry = x[index]
    except (IndexExpressionError, OutOfShapeError):  # several sizes multiply an index, or it is a negative number
        return
    again = written(entry.indices[0])
    assert typed(again) == again
    numbers = dict(zip((i, p, n, N, m), map(sympy.Integer, values), strict=True))
    floors = index.replace(Mod, lambda above, below: above - below * floor(above / below))
    assert again.subs(numbers) == floors.subs(numbers)
    assert Rational(again.subs(numbers)).is_integer


k, w = td.indices("k"), td.TensorSymbol("w", m)
MIRROR = Table(Sum(x[sympy.Abs(Mod(i + n - 1 + k - 2, 2 * n - 2) - n + 1)] * w[k], (k, 0, m - 1)), (i, n))
SHIFTS = {
    "by a half": (floor(n / 2), "G[Mod(p - floor(n/2), n)]"),
    "back by a half": (-floor(n / 2), "G[Mod(p + floor(n/2), n)]"),
    "by a rounded symbol": (floor(a / 2), "G[Mod(p - floor(a/2), n)]"),
    "by a remainder": (Mod(a, 3), "G[Mod(p - Mod(a, 3), n)]"),
}


@pytest.mark.parametrize("name", SHIFTS)
def test_shifts_by_what_is_rounded_are_remainders(name):
    shift, text = SHIFTS[name]
    function = Table(x[Mod(i + shift, n)], (i, n))
    pullback = td.vjp(function, x, G)
    assert str(pullback) == f"TensorComprehension({text}, (p, n))"
    assert pullback.body == G[Mod(p - shift, n)]
    assert_derivative_exact(function**2, x, {n: 5, a: 7})


def test_reads_of_the_user_stay_remainders():
    assert "x[Abs(Mod(i + n + p - 3, 2*n - 2) - n + 1)]" in str(td.vjp(MIRROR, w, G))
    assert_derivative_exact(MIRROR, w, {n: 4, m: 3})
    nested = Table(x[Mod(Mod(i + 2, 3), n)] ** 2, (i, n))
    assert td.jvp(nested, x, G).body == 2 * G[Mod(Mod(i + 2, 3), n)] * x[Mod(Mod(i + 2, 3), n)]
