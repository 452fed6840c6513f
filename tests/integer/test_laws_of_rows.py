"""Rows that bound loops, that share variables, or that are least complex: by values, and by connected sets."""

import itertools
import random
import re

from every import every

from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.fourier_motzkin import project, simplest
from sympy_tensordiff.integer.implication import complexity, is_empty, remove_redundant
from sympy_tensordiff.integer.nests import _innermost_cost, bounds, order
from sympy_tensordiff.integer.products import product_rows, quotient_by, times
from sympy_tensordiff.integer.remainders import remainders_in
from sympy_tensordiff.integer.rows import _normalise_congruence, bounds_a_loop, rows_connected_to, unit_bounds_of
from sympy_tensordiff.integer.values import at_least_slack, has_point, points_of_nest

x, y, p, n = map(Affine.variable, range(4))
X, Y, P, N = range(4)
POINTS = [dict(enumerate(values)) for values in itertools.product(range(-4, 5), range(-4, 5), (-3, 0, 2), (1, 2, 4))]


def linear(generator, *variables, most=3):
    return sum((generator.randint(-most, most) * v for v in variables), Affine.of(generator.randint(-most, most)))


def slopes(form, variable):
    """The differences of the values at neighbouring values of a variable."""
    return {form.evaluate(q | {variable: q[variable] + 1}) - form.evaluate(q) for q in POINTS}


def test_rows_bound_the_innermost_loop_if_they_have_a_slope_in_its_variable():
    found = 0
    for seed in range(120):
        generator = random.Random(seed)
        form = generator.choice((Affine(), 2 * quotient(linear(generator, x, p), 3), quotient(y, 2), times(n, y)))
        form += generator.choice((x, y, 2 * x - y, p, linear(generator, x, y)))
        row = Constraint(generator.choice(("ge", "ge", "ge", "eq")), form)
        for loops in ([X, Y], [Y, X]):
            inner = next((v for v in reversed(loops) if slopes(form, v) != {0}), None)
            is_bound = row.kind == "ge" and inner is not None and len(slopes(form, inner)) == 1
            assert bounds_a_loop(row, loops) == is_bound, (row, loops)
            found += is_bound
    assert 60 < found < 200


def test_connected_rows_are_those_that_a_search_reaches():
    for seed in range(150):
        generator = random.Random(seed)
        names = range(7)
        rows = []
        for _ in range(generator.randint(1, 6)):
            chosen = generator.sample(names, generator.choice((1, 2, 2, 3)))
            rows.append(Constraint("ge", sum((Affine.variable(v) for v in chosen), Affine())))
        sizes = frozenset(generator.sample(names, 2))
        start = frozenset(generator.sample(names, 1))
        reached, wanted = start - sizes, set()
        for _ in rows:
            wanted = {k for k, row in enumerate(rows) if not (own := row.form.atoms() - sizes) or own & reached}
            reached = reached.union(*(rows[k].form.atoms() - sizes for k in wanted))
        assert rows_connected_to(tuple(rows), start, sizes) == tuple(rows[k] for k in sorted(wanted))


def test_unit_bounds_are_the_bounds_that_rows_set():
    for seed in range(60):
        generator = random.Random(seed)
        rows = [Constraint("ge", linear(generator, x, p, n)) for _ in range(3)]
        lows, highs = unit_bounds_of(X, rows)
        units = [row for row in rows if len(slopes(row.form, X) & {1, -1}) == 1]
        for point in POINTS[::5]:
            inside = all(low.evaluate(point) <= point[X] for low in lows)
            inside &= all(high.evaluate(point) >= point[X] for high in highs)
            assert inside == all(row.holds(point) for row in units)


@every("inner, outer", [(Affine.of(3), n), (Affine.of(2), n + 1), (n, Affine.of(5)), (n, n + 2)])
def test_remainders_of_remainders_are_written_with_both(inner, outer):
    """``(x mod a) mod b`` has no floor left."""
    first = x - times(inner, quotient_by(x, inner))
    form = first - times(outer, quotient_by(first, outer)) + y
    rest, found = remainders_in(form)
    assert [*rest.variables()] == [Y] and len(found) == 1
    ((factor, dividend, divisor),) = found
    for point in POINTS[::7]:
        value = point[X] % inner.evaluate(point) % outer.evaluate(point) + point[Y]
        assert form.evaluate(point) == value
        taken = factor.evaluate(point) * (dividend.evaluate(point) % divisor.evaluate(point))
        assert rest.evaluate(point) + taken == value
    assert divisor == outer


@every("a, b", [(1, 2), (1, 3), (2, 1), (3, 1), (1, 1)])
def test_the_inner_loop_has_the_unit_coefficient(a, b):
    """Of ``a*x + b*y <= n``; the last variable if both have one."""
    rows = [Constraint("ge", form) for form in (x, y, n - a * x - b * y)]
    inner = X if a < b else Y
    assert order(rows, (X, Y))[-1] == inner
    assert order(rows, (Y, X))[-1] == (inner if a != b else X)


def test_redundant_rows_are_those_without_which_the_points_are_the_same():
    """In lowest terms, over a box of three variables: no row of the result is implied by the others, by enumeration."""
    removed = 0
    for seed in range(50):
        generator = random.Random(seed)
        box = [Constraint("ge", form) for v in (x, y) for form in (v + 3, 3 - v)]
        rows = box + [Constraint("ge", linear(generator, x, y, most=2) + 2) for _ in range(3)]
        rows += [rows[-1], Constraint("ge", 2 * rows[-2].form + 1)][: generator.choice((0, 1, 2))]
        generator.shuffle(rows)
        facts = [Constraint("ge", linear(generator, x, y, most=1) + 2)]
        places = [q for q in POINTS if q[P] == 0 and q[N] == 1 and facts[0].holds(q)]
        wanted = [q for q in places if all(row.holds(q) for row in rows)]
        found = remove_redundant(rows, facts)
        assert [q for q in places if all(row.holds(q) for row in found)] == wanted
        removed += len(rows) - len(found)
        for row in found if wanted else ():
            others = [other for other in found if other is not row]
            assert row.kind != "ge" or not is_empty([*others, *facts, row.negation()]), (rows, found, row)
    assert removed > 100


def test_the_simplest_rows_are_kept_and_follow():
    rows = [Constraint("ge", form) for form in (x + y + n, x + 2 * y + 9, x, 5 - y, x + y - 3 * p + 2)]
    remaining = simplest(rows, (), 3)
    assert remaining == tuple(row for row in rows if row in sorted(rows, key=complexity)[:3])
    assert simplest(rows, (), 5) == simplest(rows, (), None) == tuple(rows)
    assert simplest([*rows, Constraint("ge", x + 1)], (Constraint("ge", 4 - y),), 4) == tuple(
        r for r in rows if r != rows[3]
    )


def test_projections_of_few_rows_contain_the_projection():
    for seed in range(25):
        generator = random.Random(seed)
        rows = [Constraint("ge", linear(generator, x, y, p, most=2) + 4) for _ in range(5)]
        rows += [Constraint("ge", form) for v in (x, y) for form in (v + 3, 3 - v)]
        full, few = project(rows, [X, Y]), project(rows, [X, Y], max_rows=1)
        for at in range(-12, 13):
            inside = any(
                all(row.holds({X: a, Y: b, P: at}) for row in rows)
                for a, b in itertools.product(range(-3, 4), repeat=2)
            )
            for found in (full, few):
                assert not inside or all(row.holds({P: at}) for row in found), (rows, found, at)
        assert few is None or full is None or len(few) <= len(full)


def test_rows_at_their_least_slack_imply_the_rows():
    for seed in range(80):
        generator = random.Random(seed)
        context = [Constraint("ge", form) for form in (y, x - y, x + 2, n + 1 - x)]
        row = Constraint("ge", linear(generator, x, y, p, n, most=2))
        worst = at_least_slack(row, [Y, X], context)
        slope = row.form.coefficient(Y)
        assert (worst is None) == (row.form.coefficient(X) + min(slope, 0) > 0)  # x has two lower bounds
        if worst is None:
            continue
        assert not worst.form.atoms() & {X, Y}
        for point in POINTS[::3]:
            inside = all(one.holds(point) for one in context)
            assert not (inside and worst.holds(point)) or row.holds(point), (row, worst, point)
        if slope:  # the bound is reached at a corner
            corners = [{X: a, Y: b} for a in (-2, 2) for b in (0, a) if 0 <= b <= a]
            assert all(worst.form.evaluate({P: 1, N: 1} | c) <= row.form.evaluate({P: 1, N: 1} | c) for c in corners)


def test_products_of_rows_hold_at_all_points():
    for seed in range(60):
        generator = random.Random(seed)
        forms = [n - 1, p - generator.randint(0, 1), times(n, x) - y, p - x - generator.randint(0, 2), times(n, p, x)]
        chosen = generator.sample(forms, generator.choice((3, 4, 5)))
        found = product_rows(chosen)
        assert not set(found) & set(chosen)
        for q in POINTS:
            if all(form.evaluate(q) >= 0 for form in chosen):
                assert all(form.evaluate(q) >= 0 for form in found), (chosen, found, q)
    assert product_rows([times(n, x), n - 1, p - 1 - x]) == [times(n, p) - n - times(n, x)]
    assert product_rows([times(n, x), n + 1, p - 1 - x]) == []


def test_a_nest_of_ranges_has_a_point_where_each_range_has_one():
    chain = [Constraint("ge", form) for form in (x - p, p + 2 - x, y - x, x + n - 1 - y)]
    known = (Constraint("ge", n - 1),)
    assert has_point(tuple(chain), [X, Y], known) and has_point(tuple(chain[::-1]), [Y, X], known)
    assert not has_point(tuple(chain), [X, Y], ())
    assert not has_point((*chain, Constraint("ge", 2 * x - p)), [X, Y], known)
    assert not has_point(tuple(chain[1:]), [X, Y], known)
    nest, guards = bounds(chain, (X, Y), known)
    assert not guards and len([*points_of_nest(nest, {P: 4, N: 3})]) == 9


def test_rows_are_as_complex_as_their_text():
    """By the number of names in the text, those of floors among them, and the sum of the coefficients."""
    i, k = map(Affine.variable, "ik")
    for seed in range(60):
        generator = random.Random(seed)
        form = generator.choice((1, -2, 3)) * quotient(linear(generator, i, k, most=4), generator.choice((5, 7)))
        form += linear(generator, i, k) + quotient(quotient(i, 3) + 2 * k, 9)
        terms = re.findall(r"(?:(\d+)\*)?(floor|[ik])", repr(form))
        row = Constraint(generator.choice(("ge", "eq", "mod")), form, 2)
        assert complexity(row)[1:] == (len(terms), sum(int(factor or 1) for factor, _ in terms)), row
    ranks = [complexity(Constraint(kind, i, 2))[0] for kind in ("eq", "mod", "ge")]
    assert ranks == sorted(set(ranks))


@every("least", range(-3, 6))
def test_bounds_that_follow_from_multiples_are_left_out(least):
    """``x >= 0`` follows from ``n*x >= least`` for a positive number, and for 0; no other row follows."""
    rows = [Constraint("ge", form) for form in (times(n, x) - least, x, p - x)]
    ((_, lows, highs),), guards = bounds(rows, [X], [Constraint("ge", n - 1)])
    assert len(highs) == 1 and not guards
    assert len(lows) == 1
    for size, at in itertools.product((1, 2, 5), (-1, 0, 4)):
        wanted = [a for a in range(-3, 6) if all(row.holds({X: a, P: at, N: size}) for row in rows)]
        (nest,), _ = bounds(rows, [X], [Constraint("ge", n - 1)])
        assert [*nest.range({P: at, N: size})] == wanted


def test_an_inner_loop_over_multiples_is_inexact_where_it_may_be_empty():
    """``i <= d*v <= i + width`` has an integer v for each i or not, by enumeration; the key of the order knows."""
    v, i = Affine.variable("v"), Affine.variable("i")
    for d, width in itertools.product(range(2, 8), range(14)):
        rows = [Constraint("ge", d * v - i), Constraint("ge", i + width - d * v)]
        always = all(any(start <= d * k <= start + width for k in range(-40, 40)) for start in range(2 * d))
        assert (_innermost_cost(rows, "v", ["i", "v"], ())[2] == 0) == always


def test_pairs_of_multiples_make_an_inner_loop_inexact():
    """A lower bound ``a*v >= ...`` and an upper bound ``b*v <= ...`` with another index are exact if a or b is 1."""
    v, i = Affine.variable("v"), Affine.variable("i")
    for a, b, more in itertools.product(range(1, 4), range(1, 4), range(3)):
        rows = [Constraint("ge", a * v - i), Constraint("ge", 7 * i + 5 - b * v)]
        rows += [Constraint("ge", 3 * i + 7 + k - 2 * v) for k in range(more)]
        expected = (a > 1) * ((b > 1) + more)
        assert _innermost_cost(rows, "v", ["i", "v"], ())[2] == expected


def test_congruences_have_least_coefficients():
    """The same points; coefficients are at most half of the modulus, and the first one is positive."""
    p, q = Affine.variable(0), Affine.variable(1)
    points = [{0: a, 1: b} for a in range(12) for b in range(12)]
    for modulus, a, b, c in itertools.product(range(2, 8), range(-4, 5), range(-4, 5), (0, 1, 3)):
        row = Constraint("mod", a * p + b * q + c, modulus)
        found = _normalise_congruence(row.form, modulus)
        holding = [row.holds(point) for point in points]
        if isinstance(found, bool):
            assert set(holding) == {found}
            continue
        assert holding == [found.holds(point) for point in points]
        coefficients = [one for _, one in found.form.terms]
        assert all(2 * abs(one) <= found.modulus for one in coefficients) and coefficients[0] > 0
        assert 0 <= found.form.constant < found.modulus <= modulus
