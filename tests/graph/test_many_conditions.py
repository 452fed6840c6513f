"""Conditions with many cases become few loops or one test in the loop, checked against the exact interpreter."""

import numpy as np
import pytest
import sympy
from every import every
from exact_checks import assert_derivative_exact, assert_kernel_exact
from sympy import And, Eq, KroneckerDelta, Mod, Ne, Not, Or, Piecewise, Xor, floor

import sympy_tensordiff as td
from sympy_tensordiff.graph.decision_trees import (
    CASES_LIMIT,
    DECISIONS_LIMIT,
    Literal,
    TooManyCasesError,
    decisions,
    logic,
)
from sympy_tensordiff.graph.nodes import Graph, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Constraint

i, j, n, m = td.indices("i j n m")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)

HOLES = {
    "Ne": lambda q, step: And(*(Ne(i, step * r) for r in range(q))),
    "Ne of two indices": lambda q, step: And(*(Ne(i - j, step * r - 3) for r in range(q))),
    "Ne of strides": lambda q, step: And(*(Ne(step * i, r) for r in range(q))),
    "Eq": lambda q, step: Or(*(Eq(i, step * r) for r in range(q))),
    "intervals": lambda q, step: Or(*((i >= step * r) & (i <= step * r + 1) for r in range(q))),
    "gaps": lambda q, step: Not(Or(*((i >= step * r) & (i < step * r + 1) for r in range(q)))),
    "remainders": lambda q, step: Or(*(Eq(Mod(i, 2 * step + r), 1) for r in range(q))),
    "quotients": lambda q, step: And(*(Ne(floor(i / step), 2 * r) for r in range(q))),
    "odd": lambda q, step: Xor(*(i > step * r for r in range(q))),
    "sizes": lambda q, step: And(*(Ne(step * i, n - r) for r in range(q))),
    "nested": lambda q, step: Or(Eq(j, 0), And(*(Or(Ne(i, step * r), j > r) for r in range(q)))),
    "squares": lambda q, step: Or(*((i - step * r) ** 2 <= 1 for r in range(q))),
}
VARIANTS = [(name, *((5, 2), (40, 3))[n % 2]) for n, name in enumerate(HOLES)]


def total(condition, body=None, other=0):
    body = x[i] ** 2 * y[j] if body is None else body
    return td.IndexedSum(Piecewise((body, condition), (other, True)), (i, 0, n - 1), (j, 0, n - 1))


def choices(result):
    """Return the number of choices in a result."""
    return sum(1 for part in sympy.preorder_traversal(result) if isinstance(part, Piecewise | KroneckerDelta))


@every("name, q, step", VARIANTS, turns=10)
def test_many_conditions_on_one_index(name, q, step):
    function = total(HOLES[name](q, step))
    gradient = td.gradient(function, x)
    assert choices(gradient) <= 36
    assert_kernel_exact(function, [x], sizes={n: 7})


@pytest.mark.parametrize(("name", "q"), [("intervals", 40), ("nested", 12)])
def test_many_conditions_in_second_derivatives(name, q):
    function = total(HOLES[name](q, 3), body=x[i] ** 3 * y[j], other=x[j])
    assert_kernel_exact(function, [x], sizes={n: 4}, order=2)


@pytest.mark.parametrize("q", [12, 64])
def test_many_conditions_in_text(q):
    texts = {
        " and ".join(f"i != {3 * r}" for r in range(q)): HOLES["Ne"](q, 3),
        " or ".join(f"(i >= {3 * r} and i <= {3 * r + 1})" for r in range(q)): HOLES["intervals"](q, 3),
    }
    for text, condition in texts.items():
        read = td.parse_indexed(f"declare x[n], s  s = sum(where({text}, x[i]**2, 0), i)  derivative wrt x").expression
        function = td.IndexedSum(Piecewise((x[i] ** 2, condition), (0, True)), (i, 0, n - 1))
        assert str(td.gradient(read, x)) == str(td.gradient(function, x))


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("q", [4, 40])
def test_reads_behind_a_condition_stay_inside(q):
    for holes in (HOLES["Ne"](q, 3), HOLES["intervals"](q, 3)):
        inside = And(i >= 1, holes, i + j < n)
        one = total(inside, body=x[i - 1] * x[i + j] ** 2)
        cases = (x[i - 1] ** 2, inside), (x[i + 1] ** 3, And(i < n - 1, holes)), (x[i], True)
        for function in (one, td.IndexedSum(Piecewise(*cases), (i, 0, n - 1), (j, 0, n - 1))):
            assert_kernel_exact(function, [x], sizes={n: 6})


def test_branches_are_worth_a_case_each():
    chain = Piecewise(*((x[i] ** (r + 1), i < 3 * r) for r in range(1, 30)), (0, True))
    function = td.IndexedSum(chain, (i, 0, n - 1))
    assert_derivative_exact(function, x, sizes={n: 20})
    assert not any(p.has(sympy.Or) for p in td.gradient(function, x).atoms(Piecewise))


def test_cases_without_points_are_not_counted():
    for count, tests in ((CASES_LIMIT, 0), (2 * CASES_LIMIT, 2 * CASES_LIMIT)):
        holes = HOLES["Ne"](count, 3)
        parts = reachable(Reader(Graph()).read(total(holes)))
        assert sum(part.op == "compare" for part in parts) == tests
        # A reader sees one condition, however they are computed; i is not 0, so it is 1 at least.
        assert len(td.gradient(total(holes), x).atoms(Ne)) == count - (tests == 0)


@pytest.mark.in_turns(4)
def test_graphs_of_many_conditions_grow_as_they_do():
    def nodes(name, q):
        reader = Reader(Graph())
        return sum(1 for _ in reachable(reader.read(total(HOLES[name](q, 3)))))

    for name in ("Ne", "intervals", "gaps", "squares"):
        assert nodes(name, 64) <= 2.2 * nodes(name, 32)


def test_decisions_are_limited():
    # Relations that nothing ties: each doubles the cases, and those of the value 0 count no less decisions.
    symbols = sympy.symbols("a0:20", integer=True)
    literals = [
        Literal(a > 0, (Constraint("ge", Affine.variable(a) - 1),), ((Constraint("ge", -Affine.variable(a)),),))
        for a in symbols
    ]
    with pytest.raises(TooManyCasesError):
        decisions([(sympy.S.One, logic(Xor(*(a > 0 for a in symbols)))), (sympy.S.Zero, True)], literals)
    assert DECISIONS_LIMIT <= 1000


@pytest.mark.in_turns(4)
def test_a_read_behind_many_conditions_is_refused_by_none_of_them():
    guarded = sum(Piecewise((x[3] * x[0] ** r, Ne(n, r) & (n >= 4)), (0, True)) for r in range(1, 90))
    run = td.lambdify([x], guarded, "numpy")
    assert run(np.ones(3)) == 0 and run(np.ones(5)) == 88
    with pytest.raises(td.errors.OutOfShapeError, match=r"x\[3\] is read outside"):
        td.lambdify([x], guarded + x[3], "numpy")(np.ones(3))
