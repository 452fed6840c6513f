"""Sums and products of quotients: the shortest form is equal to the given one, and is shorter or the same."""

from random import Random

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.simplify.quotients import Quotients, with_short_quotients

a, b, c = LETTERS = sympy.symbols("a b c", positive=True)


def shortened(expr):
    reader = Reader(Graph())
    reader.use((expr,))
    root = reader.read(expr)
    (found,) = with_short_quotients(reader.graph, [root])
    return write(reader, found), root, found, reader.graph


def random_quotient(random, depth):
    if not depth:
        return random.choice([*LETTERS, sympy.Integer(random.randint(1, 3))])
    one, other = (random_quotient(random, depth - 1) for _ in range(2))
    return random.choice([one / (a + b) + other / (a + b), one - other, (one - other) / a, a * (1 - one / a), one**2])


def test_random_quotients_keep_their_values():
    random, changed = Random(7), 0
    for _ in range(40):
        expr = random_quotient(random, 3)
        found, root, node, graph = shortened(expr)
        at = {letter: sympy.Rational(random.randint(1, 9), random.randint(1, 9)) for letter in LETTERS}
        assert found.subs(at) == expr.subs(at), expr
        lengths = Quotients(graph)
        assert lengths.length(node) <= lengths.length(root), expr
        changed += node is not root
    assert changed > 5


@pytest.mark.in_turns(4)
def test_divisors_in_divisors_keep_their_values():
    """A sum that is multiplied out may bring a divisor that is multiplied out as well."""
    random, changed = Random(3), 0
    inner = a**2 + 1
    outer = (a / inner) ** 2 + 1
    at = {a: sympy.Rational(3, 2), b: sympy.Rational(5, 7), c: sympy.Rational(2, 3)}

    def term():
        number = random.choice([-4, -2, 1, 2, 3]) * random.choice([*LETTERS, b * c])
        return number * a ** random.randint(0, 3) / (inner ** random.randint(0, 3) * outer ** random.randint(0, 3))

    for _ in range(200):
        expr = sympy.Add(*(term() for _ in range(random.randint(2, 3))), evaluate=False)
        found, root, node, _ = shortened(expr)
        assert found.subs(at) == expr.subs(at), expr
        changed += node is not root
    assert changed > 1


def test_laws():
    u = sympy.Symbol("u")
    for given, short in (
        (a * (1 - b / a) / b**2, (a - b) / b**2),
        (1 / (u**2 + 1) - u**2 / (u**2 + 1) ** 2, (u**2 + 1) ** -2),
        (
            1 / (2 * sympy.sqrt(u**2 + 1)) - sympy.sqrt(u**2 + 1) / (u**2 + 2),
            -(u**2) / 2 / (u**2 + 2) / sympy.sqrt(u**2 + 1),
        ),
        (
            (u**2 + 1) ** sympy.Rational(-3, 2) - u**2 * (u**2 + 1) ** sympy.Rational(-5, 2),
            (u**2 + 1) ** sympy.Rational(-5, 2),
        ),
        ((sympy.sqrt(a) - 1) / sympy.sqrt(a), 1 - 1 / sympy.sqrt(a)),
        ((a - b) / a, (a - b) / a),
        (c + a * (u - 1) + a, c + a * u),
        ((1 - a) * u / (a - 1), -u),
        (a / (a + b) + b / (a + b), sympy.S.One),
    ):
        assert shortened(given)[0] == short, given


def test_differences_of_variables_keep_their_digits():
    """The slope of ``(x - y)**2/(x*y)`` where ``x`` and ``y`` agree to twelve digits."""
    n, i = td.indices("n i")
    x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
    loss = td.IndexedSum((x[i] - y[i]) ** 2 / (x[i] * y[i]), (i, 0, n - 1))
    left = np.array([1.5, 1.25, 3.0])
    right = left * (1 + 1e-12)
    slopes = td.lambdify((x, y), td.gradient(loss, x), "numpy")(left, right)
    np.testing.assert_allclose(slopes, (left - right) * (left + right) / (left**2 * right), rtol=1e-14)


def test_each_product_is_decomposed_once(monkeypatch):
    """Sums in sums of gated steps took 30 times as long."""
    taken = []
    term = Quotients._term
    monkeypatch.setattr(Quotients, "_term", lambda self, node: taken.append((self, node)) or term(self, node))
    n = td.indices("n")
    W, G, h = td.TensorSymbol("W", (n, n)), td.TensorSymbol("G", (n, n)), td.TensorSymbol("h", n)
    state = h
    for _ in range(4):
        gate = td.sigmoid(G @ state)
        state = gate * td.sqrt(1 + (W @ state) ** 2) + state - gate * state
    td.gradient(td.sum(state**2), W)
    assert taken and len(set(taken)) == len(taken)


def test_opposite_sums_in_a_quotient_have_an_exact_sign():
    """The sign is a power of -1 with a negative exponent, which Python has as a floating point number."""
    i, n = td.indices("i n")
    x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
    u = sympy.atan(x[i] + y[i])
    total = td.IndexedSum(sympy.sqrt(u**2 + y[i] ** 2) + (x[i] + y[i]) / (-x[i] - y[i]), (i, 0, n - 1))
    slope = td.gradient(total, x)
    second = td.gradient(td.sum(slope), x)
    at = {x: np.array([-0.567032, 0.25]), y: np.array([-5.31352, 0.5])}
    step = 1e-5
    near = [td.evaluate(slope, {**at, x: at[x] + sign * step}) for sign in (1, -1)]
    np.testing.assert_allclose(td.evaluate(second, at), (near[0] - near[1]) / (2 * step), rtol=1e-5, atol=1e-9)


def test_factors_are_joined_with_powers():
    x, y, e = (sympy.Symbol(name, positive=True) for name in "xye")
    for expr, text in [
        (x * (x / b) ** (e - 1), "b*(x/b)**e"),
        (x * y * (x * y) ** (e - 1), "(x*y)**e"),
        (y * (x / b) ** (e - 1), "y*(x/b)**(e - 1)"),
    ]:
        given = sympy.Mul(*expr.args, evaluate=False)
        assert str(shortened(given)[0]) == text or sympy.simplify(shortened(given)[0] - sympy.sympify(text)) == 0


def test_a_divisor_of_some_terms_cancels():
    """``1/(c*(x/c + 1))`` is ``1/(x + c)``, also if c is a sum."""
    x = sympy.Symbol("x", positive=True)
    expr = 1 / ((a + b) * (x / (a + b) + 1))
    assert str(shortened(expr)[0]) == str(1 / (a + b + x))


def test_fractions_left_of_common_factors_are_one_fraction():
    """Terms of several sums have factors in common; without these, two of them are fractions that become one."""
    n, i, j = td.indices("n i j")
    x, w = td.TensorSymbol("x", n), td.TensorSymbol("w", n)
    norm = td.sqrt(td.IndexedSum(x[j] ** 2, (j, 0, n - 1)))
    value = td.IndexedSum((td.sin(x[i]) + x[i] ** 2 / norm / (x[i] ** 2 + 2)) * w[i], (i, 0, n - 1))
    text = str(td.gradient(value, x))
    assert "1 - x" not in text and "(x[p]**2 + 2)**2" in text
