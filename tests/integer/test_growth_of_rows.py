"""Elimination with six variables stays small: rows are counted, not seconds."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer import fourier_motzkin, implication, nests
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.nests import bounds, order
from sympy_tensordiff.integer.products import IndexProduct, times
from sympy_tensordiff.integer.solving import solve_equations
from sympy_tensordiff.integer.system import system

SIX = 6


def pullback_system(seed):
    """A read ``x[A v + c]`` of up to three axes by six indices, coefficients up to 6, as its pullback sees it."""
    random = Random(seed)
    graph = Graph()
    loops = [graph.fresh(name) for name in "ijklmn"]
    axes = [graph.fresh("p") for _ in range(random.randint(1, 3))]
    rows = []
    for n, v in enumerate(loops):
        rows.append(Constraint("ge", Affine.variable(v)))
        around = random.choice(loops[:n]) if n and random.random() < 0.3 else None
        length = Affine.of(random.randint(2, 9)) if around is None else Affine({around: 1}, random.randint(0, 3))
        rows.append(Constraint("ge", length - Affine.variable(v)))
    for p in axes:
        terms = {v: random.randint(-6, 6) for v in loops if random.random() < 0.7}
        rows.append(Constraint("eq", Affine(terms, random.randint(-5, 5)) - Affine.variable(p)))
    return graph, loops, rows


def sizes(count):
    """Of so many systems: the most rows on the way of an elimination, and the terms of all bounds of the nest."""
    largest = []
    terms = []
    eliminate = fourier_motzkin.eliminate

    def watched(rows, variable):
        result = eliminate(rows, variable)
        largest[-1] = max(largest[-1], len(result or ()))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nests, "eliminate", watched)
        for seed in range(count):
            largest.append(0)
            solution = solve_equations(*pullback_system(seed))
            assert solution is not None
            remaining, _, rows = solution
            nest, _ = bounds(rows, order(rows, remaining))
            terms.append(sum(len(limit.lows) + len(limit.highs) for limit in nest))
    return largest, terms


@pytest.mark.in_turns(8)
def test_rows_on_the_way_and_terms_of_the_bounds(thorough):
    largest, terms = sizes(100 if thorough else 40)
    assert max(largest) <= 120
    assert median(largest) <= 12
    assert max(terms) <= 80
    assert median(terms) <= 24


def test_rows_of_products_say_something_of_the_products_that_are_stated(monkeypatch):
    """Each is a product of stated rows, and not of such products again; what holds a loose product is left out."""
    size, other, i, j, k = (Affine.variable(v) for v in ("M", "N", "i", "j", "k"))
    box = [Constraint("ge", form) for v, n in ((i, size), (j, other), (k, size)) for form in (v, n - 1 - v)]
    positive = [Constraint("ge", size - 1), Constraint("ge", other - 1)]
    flat = times(times(size, other), i) + times(size, j) + k
    rows = (*positive, *box, Constraint("ge", times(times(size, size), other) - 1 - flat))
    question = times(times(size, other), size - 1 - i) + times(size, other - 1 - j) + times(times(size, i), i)
    asked = []

    def watched(*args):
        asked.append(system(*args))
        return asked[-1]

    monkeypatch.setattr(implication, "system", watched)
    assert is_implied(Constraint("ge", question), rows)
    assert max(len(known.images) for known in asked) <= 20
    assert max(len(v.factors) for known in asked for v in known.images if isinstance(v, IndexProduct)) <= 3


def box_with_cuts(random):
    """Six indices in a box, cut by four rows with small coefficients, and what follows from pairs of these."""
    names = "abcdef"
    rows = [Constraint("ge", form) for v in map(Affine.variable, names) for form in (v, 5 - v)]
    cuts = [Affine({v: random.randint(-3, 3) for v in names}, random.randint(4, 12)) for _ in range(4)]
    pairs = [(first + second + 1) for n, first in enumerate(cuts) for second in cuts[:n]]
    return [*rows, *(Constraint("ge", form) for form in (*cuts, *pairs))]


@pytest.mark.parametrize("seed", range(4))
def test_projection_of_no_more_than_so_many_rows(seed, monkeypatch):
    """Redundant rows go before they are paired; all points fulfil what is left."""
    rows = box_with_cuts(Random(seed))
    given = []
    eliminate = fourier_motzkin.eliminate

    def watched(before, variable):
        given.append(len(before))
        return eliminate(before, variable)

    monkeypatch.setattr(fourier_motzkin, "eliminate", watched)
    shadow = fourier_motzkin.project(rows, "abcd", max_rows=8)
    assert shadow is not None
    assert len(shadow) <= 8
    assert max(given[1:]) <= 13 < len(rows)
    full = fourier_motzkin.project(rows, "abcd")
    assert full is not None
    assert all(is_implied(row, full) for row in shadow)


def between_planes(random):
    """Four indices between twenty planes around the origin, most of which are faces."""
    return [Constraint("ge", Affine({v: random.randint(-3, 3) for v in "abcd"}, 12)) for _ in range(20)]


@pytest.mark.parametrize("seed", range(4))
def test_a_loop_order_is_chosen_by_few_rows(seed, monkeypatch):
    """Systems that are eliminated only to choose an order stay small, although all faces would be more."""
    rows = between_planes(Random(seed))
    given = []
    eliminate = nests.eliminate

    def watched(before, variable):
        given.append(len(before))
        return eliminate(before, variable)

    monkeypatch.setattr(nests, "eliminate", watched)
    assert sorted(order(rows, "abcd")) == list("abcd")
    assert max(given) <= nests.MAX_ROWS_FOR_ORDER == 16
    monkeypatch.setattr(nests, "MAX_ROWS_FOR_ORDER", len(rows) ** 2)
    order(rows, "abcd")
    assert max(given) > 16
