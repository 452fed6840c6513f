"""Values of variables, decided terms, points and data: each consequence of constraints against enumerated points."""

import itertools
import random
from fractions import Fraction

import pytest
from every import every

from sympy_tensordiff.integer import lattice, solving, values
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.clamps import decide_clamps, decide_clamps_of_rows, gist, split_first_clamp
from sympy_tensordiff.integer.extrema import (
    cases_of_positive_part,
    maximum_of,
    minimum_of,
    positive_part,
    positive_parts_in,
)
from sympy_tensordiff.integer.floor_elimination import (
    floors_relaxed,
    innermost_bound,
    may_miss,
    positive_divisors,
)
from sympy_tensordiff.integer.indirect import (
    IndirectIndex,
    constraints_for_the_body,
    data_depth,
    data_entries,
    eliminate_shared_entries,
    innermost_first,
)
from sympy_tensordiff.integer.nests import Bounds, bounds, order
from sympy_tensordiff.integer.polynomials import Polynomial, divides, grows_faster
from sympy_tensordiff.integer.products import quotient_by, times
from sympy_tensordiff.integer.values import (
    find_point,
    length_of_range,
    points_of_nest,
    tighten_by_congruences,
    unique_value,
    unique_value_by_equation,
)

x, y, p, n = map(Affine.variable, range(4))
X, Y, P, N = range(4)
OUTER = [{P: a, N: b} for a, b in itertools.product(range(-9, 12), range(1, 6))]
SIZES = (Constraint("ge", n - 1),)


def linear(generator, *variables, most=3):
    return sum((generator.randint(-most, most) * v for v in variables), Affine.of(generator.randint(-most, most)))


def holding(rows, variable, outer, values=range(-35, 36)):
    return [value for value in values if all(row.holds(outer | {variable: value}) for row in rows)]


def agrees(found, variable, rows, outer):
    """Return whether a unique value is the only one at which the rows hold, and exists where its guards say so."""
    mapping, guards = found
    (form,) = mapping.values()
    rest = [row.substitute(mapping) for row in rows]
    exists = all(row.holds(outer) for row in (*guards, *rest))
    return holding(rows, variable, outer) == [form.evaluate(outer)] * exists


def test_the_only_value_between_two_bounds():
    """``low <= c*x <= low + width`` with ``width < c``, where c is a number or a positive symbol, and further rows."""
    refused = 0
    for seed in range(60):
        generator = random.Random(seed)
        factor = generator.choice((Affine.of(2), Affine.of(3), Affine.of(5), n, n + 1, 2 * n))
        low = generator.choice((linear(generator, p), times(n, p), linear(generator, p, n)))
        width = generator.choice((factor - 1, Affine.of(0), factor - 1, factor - 2, factor, Affine.of(1)))
        rest = times(factor, x) - low
        rows = [Constraint("ge", rest), Constraint("ge", width - rest)]
        if generator.random() < 0.4:
            rows.append(Constraint("ge", generator.choice((x - 1, 3 - x, x - p))))
        generator.shuffle(rows)
        found = unique_value([X], tuple(rows), SIZES)
        is_narrow = all((factor - width).evaluate({N: size}) > 0 for size in range(1, 9))
        assert found is not None or not is_narrow, rows
        refused += found is None
        for outer in OUTER[seed % 5 :: 8]:
            assert found is None or agrees(found, X, rows, outer), (rows, found, outer)
        if is_narrow and width == factor - 1 and len(rows) == 2:
            assert found[1] == [Constraint("ge", Affine())]  # it always exists, and no floor says so
    assert 3 < refused < 30


def test_a_value_that_the_other_variables_make_unique():
    """``p <= c*x + y <= p + width`` with ``0 <= y <= most``: x has one value if and only if ``width + most < c``."""
    for factor, width, most in ((3, 1, 1), (3, 1, 2), (5, 1, 2), (5, 2, 2), (5, 2, 3), (4, 1, 3)):
        rest = factor * x + y - p
        rows = tuple(Constraint("ge", row) for row in (rest, width - rest, y, most - y))
        found = unique_value([X, Y], rows)
        assert (found is None) == (width + most >= factor)
        for at in range(-9, 9) if found else ():
            pairs = itertools.product(range(-12, 13), range(most + 1))
            points = {a for a, b in pairs if all(row.holds({X: a, Y: b, P: at}) for row in rows)}
            assert points <= {found[0][X].evaluate({P: at})}


def test_a_value_in_terms_of_another_variable():
    """``0 <= 3*x + y - p <= 2`` gives ``x = floor((p + 2 - y)/3)`` for any y, without a guard."""
    rest = 3 * x + y - p
    mapping, guards = unique_value([X, Y], (Constraint("ge", rest), Constraint("ge", 2 - rest), Constraint("ge", y)))
    assert [*mapping] == [X] and all(row.form == Affine() for row in guards)
    for at, b in itertools.product(range(-7, 8), range(5)):
        point = {P: at, Y: b}
        assert holding([Constraint("ge", rest), Constraint("ge", 2 - rest)], X, point) == [mapping[X].evaluate(point)]


def test_the_value_that_an_equation_with_a_symbol_determines():
    """``sign*(M*x - p + j) == 0``, where ``0 <= j < M`` may be known, is ``x = floor(p/M)``."""
    for sign, digit, shift in itertools.product((1, -1), (False, True), (-3, 0, 2)):
        factor = n + 1 if shift else n
        form = sign * (times(factor, x) - p + shift + (y if digit else 0))
        row = Constraint("eq", form)
        known = [*SIZES, *(Constraint("ge", one) for one in (y, factor - 1 - y))]
        mapping, guards = unique_value_by_equation([X], (row,), known)
        for outer in OUTER[::4]:
            for j in range(factor.evaluate(outer)) if digit else (0,):
                place = outer | {Y: j}
                value = mapping[X].evaluate(place)
                exists = all(guard.holds(place) for guard in guards)
                assert holding([row], X, place) == [value] * exists
        if digit:
            assert Y not in mapping[X].atoms()
    assert unique_value_by_equation([X], (Constraint("eq", times(n, x) - p),), ()) is None  # n may be 0
    assert unique_value_by_equation([X], (Constraint("eq", 2 * x - p),), SIZES) is None
    assert unique_value_by_equation([X], (Constraint("ge", times(n, x) - p),), SIZES) is None
    other = Constraint("eq", times(n, x) - p + 2 * y)
    mapping, _ = unique_value_by_equation([X], (other,), (*SIZES, Constraint("ge", y), Constraint("ge", n - 1 - y)))
    assert Y in mapping[X].atoms()


def test_bounds_are_rounded_to_values_that_congruences_allow():
    for seed in range(100):
        generator = random.Random(seed)
        form, modulus = linear(generator, x, p, most=2), generator.choice((2, 3, 4))
        factor = generator.choice((1, -1))
        row = Constraint("ge", factor * form + modulus * linear(generator, x, p, most=1) + generator.randint(-5, 5))
        congruence = Constraint("mod", form, modulus)
        tightened, other = tighten_by_congruences((row, congruence))
        assert other == congruence
        reached = False
        pairs = {*itertools.product(range(-3, 4), range(-24, 25)), *itertools.product(range(-24, 25), range(-3, 4))}
        for point in ({X: a, P: b} for a, b in pairs):
            if congruence.holds(point):
                assert row.holds(point) == tightened.holds(point), (row, congruence, tightened)
                reached |= tightened.form.evaluate(point) == 0
        assert reached or tightened.form.content() != 1, (row, congruence, tightened)
    assert tighten_by_congruences((Constraint("ge", x), Constraint("ge", p))) == (
        Constraint("ge", x),
        Constraint("ge", p),
    )


def random_clamped(generator):
    one = maximum_of([linear(generator, x, most=2), linear(generator, p, most=1)])
    two = minimum_of([one + linear(generator, x, most=1), linear(generator, p, n, most=1)])
    parts = (positive_part(linear(generator, x, p, most=1)), quotient(linear(generator, x, p, most=2), 3), two)
    return sum((generator.choice((1, -1, 2, -2)) * part for part in generator.sample(parts, 2)), Affine())


def test_decided_terms_have_their_values_where_the_facts_hold():
    decided = 0
    for seed in range(120):
        generator = random.Random(seed)
        form = random_clamped(generator)
        facts = tuple(Constraint("ge", linear(generator, x, p, most=1) + 1) for _ in range(2))
        found = [decide_clamps(form, facts), gist(form, facts)]
        decided += len(found[1].compounds()) < len(form.compounds())
        for a, outer in itertools.product(range(-4, 5), OUTER[::5]):
            point = outer | {X: a}
            if all(row.holds(point) for row in facts):
                assert all(one.evaluate(point) == form.evaluate(point) for one in found), (form, facts, found)
    assert decided > 20


@every("divisor", [Affine.of(2), Affine.of(3), n, n + 2, 2 * n])
def test_quotients_of_one_value_are_numbers(divisor):
    """``floor(x/M)`` with ``M*k <= x + low`` and ``x + high < M*(k + 1)`` is k: any number for a number M, 0 or -1
    for a symbol; it stays if the range is wider by 1 at either end.
    """
    for k in range(-3, 4):
        at = k * divisor
        for low, high in itertools.product((0, -1), (0, 1)):
            facts = (*SIZES, Constraint("ge", x - at - low), Constraint("ge", at + divisor - 1 + high - x))
            found = gist(2 * quotient_by(x, divisor) + x, facts)
            is_one = low == high == 0 and (divisor.is_constant or k in (0, -1))
            assert (found == x + 2 * k) == is_one, (divisor, facts, found)


def test_rows_with_decided_maxima_have_the_points_of_the_rows():
    simpler = 0
    for seed in range(70):
        generator = random.Random(seed)
        first = Constraint(generator.choice(("ge", "ge", "eq")), random_clamped(generator))
        second = Constraint("ge", linear(generator, x, p, most=1) + generator.choice((0, 3)))
        third = Constraint("ge", positive_part(linear(generator, x, p, most=1)) - linear(generator, x, most=1))
        rows = (first, second, third)[: generator.choice((2, 3))]
        facts = (Constraint("ge", linear(generator, x, p, most=1) + 2), *SIZES)
        found = decide_clamps_of_rows(rows, facts)
        simpler += len(positive_parts_in(r.form for r in found)) < len(positive_parts_in(r.form for r in rows))
        for a, outer in itertools.product(range(-5, 6), OUTER[::4]):
            point = outer | {X: a}
            if all(row.holds(point) for row in facts):
                is_point = all(row.holds(point) for row in rows)
                assert all(row.holds(point) for row in found) == is_point, (rows, facts, found, point)
    assert simpler > 15


def test_bounds_by_maxima_of_which_the_row_decides_one():
    """``k <= max(f, g)`` is ``k <= g`` if ``k > f`` is known."""
    known = (Constraint("ge", y - x - 1),)
    (found,) = decide_clamps_of_rows((Constraint("ge", maximum_of([x, p]) - y),), known)
    assert found == Constraint("ge", p - y)
    same = Constraint("ge", maximum_of([x, p]) - y)
    assert decide_clamps_of_rows((same,), ()) == (same,)


def test_positive_parts_of_sums_of_these_are_themselves_or_0():
    """``max(0, f)`` has no maximum around it if all coefficients and the constant of f have one sign."""
    parts = [positive_part(form) for form in (x, x - p)]
    for c, d, constant in itertools.product((-2, -1, 0, 1, 3), (-1, 0, 2), (-2, -1, 0, 1, 2)):
        form = c * parts[0] + d * parts[1] + constant
        found = positive_part(form)
        for a, outer in itertools.product(range(-3, 4), OUTER[::9]):
            assert found.evaluate(outer | {X: a}) == max(0, form.evaluate(outer | {X: a}))
        if min(c, d, constant) >= 0:
            assert found == form
        if max(c, d, constant) <= 0:
            assert found == Affine()


def test_one_case_of_a_maximum_holds_and_has_its_value():
    (part,) = positive_part(2 * x + 1 - p).compounds()
    for tie_is_zero, a, outer in itertools.product((False, True), range(-5, 6), OUTER[::5]):
        point = outer | {X: a}
        found = cases_of_positive_part(part, tie_is_zero=tie_is_zero)
        (which,) = (k for k, (condition, _) in enumerate(found) if condition.holds(point))
        value = part.form.evaluate(point)
        assert found[which][1].evaluate(point) == max(0, value)
        assert which == (value < 0 or (tie_is_zero and value == 0))


def test_equations_with_maxima_are_split_into_cases_with_each_point_once():
    """The tie ``x == n`` of ``p == min(x, n)`` is in the case without the minimum, which has fewer loops."""
    smaller = 0
    for seed in range(40):
        generator = random.Random(seed)
        clamped = generator.choice((minimum_of, maximum_of))([x + generator.randint(-1, 1), generator.choice((p, y))])
        rows = (Constraint("eq", generator.choice((1, -1)) * clamped + linear(generator, p, y, most=1)),)
        rows += tuple(Constraint("ge", form) for v in (x, y) for form in (v + 3, 3 - v))
        systems = split_first_clamp("xypn", frozenset((X, Y)), rows)
        smaller += len(systems) > 1
        for a, b, at in itertools.product(range(-3, 4), range(-3, 4), (-2, 0, 3)):
            point = {X: a, Y: b, P: at}
            holds = [mapping for case, mapping in systems if all(row.holds(point) for row in case)]
            assert len(holds) == all(row.holds(point) for row in rows), (rows, systems, point)
            for mapping in holds:
                assert all(Affine.variable(v).evaluate(point) == form.evaluate(point) for v, form in mapping.items())
    assert smaller > 20
    box = tuple(Constraint("ge", form) for form in (x, 9 - x))
    tied = split_first_clamp("xy", frozenset([X]), (*box, Constraint("eq", p - minimum_of([x, Affine.of(4)]))))
    counts = [sum(all(row.holds({X: a, P: 4}) for row in case) for a in range(10)) for case, _ in tied]
    assert sorted(counts) == [1, 5]  # x = 4 alone, and 5 to 9


def test_points_are_found_where_there_are_some():
    exist = 0
    for seed in range(150):
        generator = random.Random(seed)
        box = [Constraint("ge", form) for v in (x, y) for form in (v + 3, 4 - v)]
        form = generator.choice((linear(generator, x, y, most=5), 3 * quotient(linear(generator, x, y), 2) - x))
        rows = [*box, Constraint(generator.choice(("eq", "ge")), form + generator.choice((0, 7)))]
        rows.append(Constraint("mod", linear(generator, x, y), generator.choice((2, 3))))
        if generator.random() < 0.3:
            rows.append(Constraint("ge", maximum_of([x - 2, -y]) - generator.randint(0, 4)))
        points = [
            {X: a, Y: b}
            for a, b in itertools.product(range(-3, 5), repeat=2)
            if all(row.holds({X: a, Y: b}) for row in rows)
        ]
        found = find_point(rows, [X, Y])
        assert found in points if points else found is None, (rows, found)
        exist += bool(points)
    assert 40 < exist < 140


def test_points_of_open_systems_are_points():
    """Also where a variable is not bounded; then the search may be refused."""
    found = 0
    for seed in range(80):
        generator = random.Random(seed)
        gap = linear(generator, x, y, p, most=5)
        rows = [Constraint("ge", gap), Constraint("ge", generator.randint(0, 4) - gap)]
        rows += [Constraint("ge", linear(generator, x, y, most=3)) for _ in range(generator.choice((0, 1, 2)))]
        try:
            point = find_point(rows, [X, Y, P], limit=200)
        except ValueError:
            continue
        found += point is not None
        assert point is None or all(row.holds(point) for row in rows), (rows, point)
    assert found > 30


def test_searches_have_limits():
    refused = 0
    for seed in range(60):
        generator = random.Random(seed)
        a, b = generator.randint(3, 9), generator.randint(3, 9)
        gap = a * x - b * y - generator.randint(1, 9)
        rows = [Constraint("ge", row) for row in (gap, generator.randint(0, 2) - gap, x + 2, 9 - x)]
        found = find_point(rows, [X, Y], limit=1000)
        pairs = itertools.product(range(-2, 10), range(-40, 40))
        assert (found is not None) == any(all(row.holds({X: u, Y: v}) for row in rows) for u, v in pairs)
        try:
            assert (find_point(rows, [X, Y], limit=2) is None) == (found is None)
        except ValueError as error:
            assert "in 2 steps" in str(error)
            refused += 1
    assert refused > 5
    with pytest.raises(ValueError, match="no values given"):
        find_point([Constraint("ge", x - n)], [X])


def test_points_of_a_nest_are_those_of_nested_loops():
    nest = [Bounds(X, ((p, 2), (Affine.of(-3), 1)), ((n, 1),)), Bounds(Y, ((x - 1, 1),), ((2 * x, 3), (n, 1)))]
    for outer in OUTER[::3]:
        loops = [(a, b) for a in nest[0].range(outer) for b in nest[1].range(outer | {X: a})]
        found = [dict(point) for point in points_of_nest(nest, outer)]
        assert found == [outer | {X: a, Y: b} for a, b in loops]
    nest = [Bounds(X, ((Affine(), 1),), ((Affine.of(9), 1),))]
    assert len([*points_of_nest(nest, limit=1)]) == 10  # each run of a loop is a step, and each return to one
    square = [*nest, nest[0]._replace(variable=Y)]
    assert len([*points_of_nest(square, limit=21)]) == 100
    with pytest.raises(ValueError, match="in 20 steps"):
        list(points_of_nest(square, limit=20))
    assert [*points_of_nest([], {P: 1})] == [{P: 1}]


@every("count", [1, 2, 3])
def test_lengths_are_written_for_ranges_with_few_bounds(count):
    ends = tuple((linear(random.Random(one), p, n, most=2), 1 + one % 2) for one in range(3))
    limit = Bounds(X, ends[:count], ends[:2])
    assert (length_of_range(limit) is None) == (count + 2 > 4)


@every("factor", [n, n + 1, 2 * n, Affine.of(3)])
def test_ranges_of_multiples_that_may_be_empty(factor):
    """``p <= M*x <= p + width`` may have no multiple of M if and only if ``width < M - 1``."""
    for width in (factor - 1, factor - 2, factor, Affine.of(0), 2 * n + 1):
        rest = times(factor, x) - p
        rows = [Constraint("ge", rest), Constraint("ge", width - rest)]
        for rows_in_order in (rows, rows[::-1]):
            missed = any(
                not holding(rows, X, outer, range(-12, 13)) for outer in OUTER if width.evaluate(outer) >= 0
            ) or any(width.evaluate({N: size}) < 0 for size in range(1, 6))
            assert may_miss(rows_in_order, X, SIZES) == missed, (rows, missed)
    assert not may_miss([Constraint("ge", times(factor, x) - p), Constraint("ge", times(factor + 1, -x) + p)], X, SIZES)


def test_rows_without_floors_follow_from_the_row():
    for seed in range(150):
        generator = random.Random(seed)
        divisor = generator.choice((Affine.of(2), Affine.of(3), Affine.of(4), n))
        dividend = linear(generator, x, p, most=2)
        floor = quotient_by(dividend, divisor)
        factor = generator.choice((1, -1, 2, -3))
        whole = times(divisor, floor) if not divisor.is_constant else floor
        row = Constraint(generator.choice(("ge", "ge", "eq")), factor * whole + linear(generator, x, p, most=2))
        relaxed = floors_relaxed(row, frozenset([X]))
        inner = innermost_bound(row, [P, X])
        assert all(X not in one.form.hidden() for one in relaxed), (row, relaxed)
        for a, outer in itertools.product(range(-6, 7), OUTER[::4]):
            point = outer | {X: a}
            if row.holds(point):
                assert all(one.holds(point) for one in relaxed), (row, relaxed, point)
                assert inner is None or inner.holds(point), (row, inner, point)


def test_divisors_that_only_the_rows_of_the_loop_prove_positive():
    rows = [Constraint("ge", times(n, x) - p), Constraint("ge", n - 3)]
    positive = (Constraint("ge", n - 1),)
    assert positive_divisors(X, rows, ()) == positive
    assert positive_divisors(X, [Constraint("ge", times(n, -x) - p), Constraint("ge", n - 3)], ()) == positive
    assert positive_divisors(X, rows, SIZES) == ()
    assert positive_divisors(X, rows[:1], ()) == ()
    assert positive_divisors(X, [Constraint("ge", 2 * x - p), Constraint("ge", n - 3)], ()) == ()


def nested_points(nest, guards, variables, outer):
    if not all(guard.holds(outer) for guard in guards):
        return []
    return sorted(tuple(point[v] for v in variables) for point in points_of_nest(nest, outer))


def test_nests_over_floors_and_multiples_have_each_point_once():
    """Two loops with a floor, a multiple of a symbol, or a fixed gap in between; in both orders."""
    made = 0
    for seed in range(48):
        generator = random.Random(seed)
        box = [Constraint("ge", form) for v in (x, y) for form in (v + 4, p + 2 - v)]
        kind = generator.choice(("floor", "multiple", "gap", "equation"))
        if kind == "floor":
            floor = quotient(linear(generator, x, p, most=2), generator.choice((2, 3)))
            more = [Constraint("ge", generator.choice((1, -1, 2)) * floor + linear(generator, y, p, most=1))]
        elif kind == "multiple":
            rest = times(n, x) + generator.choice((1, -1)) * y - p
            more = [Constraint("ge", rest), Constraint("ge", n - 1 - rest)][: generator.choice((1, 2))]
        else:
            gap = generator.choice((2, 3, 5)) * x - generator.choice((1, 2, 3)) * y + generator.randint(-2, 2)
            width = 0 if kind == "equation" else generator.randint(0, 3)
            more = [Constraint("ge", gap), Constraint("ge", width - gap)]
        rows = [*box, *more]
        for loops in (order(rows, [X, Y], SIZES), (X, Y), (Y, X)):
            try:
                nest, guards = bounds(rows, loops, SIZES, multiples=bool(seed % 2))
            except ValueError:
                continue
            made += 1
            for outer in ({P: 1, N: 1}, {P: 2, N: 2}, {P: -2, N: 3}, {P: -7, N: 1}):
                wanted = [
                    pair
                    for pair in itertools.product(range(-4, 5), repeat=2)
                    if all(row.holds(outer | dict(zip((X, Y), pair, strict=True))) for row in rows)
                ]
                assert nested_points(nest, guards, (X, Y), outer) == wanted, (rows, nest, guards, outer)
    assert made > 100


@every("factor, low, width", [*itertools.product((2, 3, 6), (0, 1), (1, 2, 4, 5, 6)), (2, 0, n), (3, 1, n - 1)])
def test_loops_without_a_value_for_most_parameters_are_outside(factor, low, width):
    """``p + low <= factor*x <= p + low + width`` may have no value: then the loop over x is outside."""
    rest = factor * x - p - low
    gap = [Constraint("ge", rest), Constraint("ge", width - rest), Constraint("ge", y), Constraint("ge", 5 - y)]
    may_be_empty = not isinstance(width, int) or width < factor - 1
    assert (order(gap, (Y, X), SIZES) == (X, Y)) == may_be_empty
    runs = [inner_runs(gap, loops) for loops in (order(gap, (Y, X), SIZES), (X, Y), (Y, X))]
    assert runs[0] == min(runs) or not may_be_empty


def inner_runs(rows, loops):
    """Return the number of starts of the inner loop, for some parameters."""
    (outer_loop, _), _ = bounds(rows, loops, SIZES)
    return sum(len(outer_loop.range({P: at, N: 1})) for at in range(6))


# ---------------------------------------------------------------------------- entries of integer tensors


def entry(name, *index, below=None):
    return Affine.variable(IndirectIndex(name, index, below))


DATA = [{"a": [1, 3, 0, 2], "b": [2, 0, 2, 1]}, {"a": [0, 0, 3, 1], "b": [3, 1, 1, 0]}]


def test_equations_without_shared_entries_have_the_same_solutions():
    for seed in range(80):
        generator = random.Random(seed)
        entries = [entry("a", x), entry("b", x), entry("b", y)]
        chosen = generator.sample(entries, generator.choice((1, 2)))
        rows = [
            Constraint("eq", sum((generator.choice((1, -1, 2, 4)) * one for one in chosen), linear(generator, p, n)))
            for _ in range(generator.choice((2, 3)))
        ]
        rows.append(Constraint("ge", chosen[0] - 1))
        found = eliminate_shared_entries(rows)
        assert len(found) == len(rows) and found[-1] == rows[-1]
        for data, outer in itertools.product(DATA, OUTER[::2]):
            for a, b in ((0, 0), (1, 3), (3, 2)):
                point = {X: a, Y: b, **outer, **data}
                assert all(r.holds(point) for r in rows) == all(r.holds(point) for r in found), (rows, found)
        if len(chosen) == 1:
            factors = [row.form.coefficient(next(iter(chosen[0].variables()))) for row in rows[:-1]]
            if all(one % factors[0] == 0 for one in factors):
                assert sum(bool(data_entries([row.form])) for row in found[:-1]) == 1


def test_entries_inside_of_others_come_first():
    inner = entry("b", x)
    middle = entry("a", inner + y)
    outer = entry("b", 3 - middle + quotient(inner, 2))
    forms = [2 * outer - inner, entry("a", y), middle]
    found = innermost_first(forms)
    assert sorted(map(str, found)) == sorted(map(str, data_entries(forms))) and len(set(found)) == len(found)
    for position, one in enumerate(found):
        assert set(data_entries(one.index)) <= set(found[:position])
    depths = (data_depth(form) for form in (x, inner, middle, outer, quotient(middle, 2), quotient(x, 2)))
    assert [*depths] == [0, 1, 2, 3, 2, 0]


def test_rows_for_the_body_are_those_that_no_loop_bound_expresses():
    i_by_k, k_by_i = Constraint("ge", x - entry("a", y)), Constraint("ge", y - entry("a", x))
    both = constraints_for_the_body([i_by_k, k_by_i], [X, Y])
    assert len(both) == 1 and both[0] in (i_by_k, k_by_i)  # one loop is inside of the other
    assert constraints_for_the_body([i_by_k], [X, Y]) == []
    assert constraints_for_the_body([i_by_k], [Y]) == [i_by_k]
    z = Affine.variable(5)
    chain = [i_by_k, Constraint("ge", y - entry("a", z)), Constraint("ge", z - entry("b", x))]
    assert len(constraints_for_the_body(chain, [X, Y, 5])) == 1
    equation = Constraint("eq", x - entry("a", y))
    assert constraints_for_the_body([equation, Constraint("ge", x), i_by_k], [X, Y]) == [equation]
    assert constraints_for_the_body([equation], [X]) == []


# ---------------------------------------------------------------------------- polynomials


def random_polynomial(generator):
    form = generator.choice((times(linear(generator, x, n), linear(generator, n, p)), linear(generator, x, p)))
    return Polynomial.of(form) * generator.choice((1, -1, Fraction(1, 3))) + generator.randint(-1, 1)


def at(point):
    return lambda variable: point[variable]


def test_polynomials_have_the_values_of_their_operands():
    for seed in range(60):
        generator = random.Random(seed)
        one, two = random_polynomial(generator), random_polynomial(generator)
        for place in ({X: 2, P: -3, N: 5}, {X: 0, P: 1, N: 1}, {X: -7, P: 11, N: 3}):
            a, b = one.evaluate(at(place)), two.evaluate(at(place))
            assert (one + two).evaluate(at(place)) == a + b
            assert (one - two).evaluate(at(place)) == a - b and (1 + one).evaluate(at(place)) == a + 1
            assert (one * two).evaluate(at(place)) == a * b and (2 * one).evaluate(at(place)) == 2 * a
            named = {f"v{v}": value for v, value in place.items()}
            renamed = Polynomial({tuple((f"v{v}", e) for v, e in m): Fraction(c) for m, c in one.terms.items()})
            assert eval(exact(repr(renamed)), {"Fraction": Fraction}, named) == a
        assert (one == two) == all(
            one.evaluate(at(dict(zip((X, P, N), q, strict=True))))
            == two.evaluate(at(dict(zip((X, P, N), q, strict=True))))
            for q in itertools.product(range(4), repeat=3)
        )
        assert one - one == Polynomial() and not (one - one).terms


def exact(text):
    """A text with its quotients of numbers as fractions."""
    return " ".join(
        f"Fraction('{word.split('*')[0]}')" + word[len(word.split("*")[0]) :] if "/" in word else word
        for word in text.replace("-", "- ").split()
    )


def test_polynomials_of_forms_have_products_and_quotients_without_floors():
    form = times(2 * x - n, n + 3) - 5 * quotient(n, 3) + 4
    for a, b in ((2, 5), (-3, 7)):
        value = (2 * a - b) * (b + 3) - Fraction(5 * b, 3) + 4
        assert Polynomial.of(form).evaluate(at({X: a, N: b})) == value
    assert Polynomial.of(7).evaluate(at({})) == 7


def test_the_growth_has_the_monomials_that_divide_no_other():
    for seed in range(80):
        generator = random.Random(seed)
        polynomials = []
        for _ in range(2):
            chosen = {
                (generator.randint(0, 2), generator.randint(0, 2)): generator.choice((1, 2, -1)) for _ in range(3)
            }
            terms = {tuple((v, e) for v, e in zip("mn", key, strict=True) if e): c for key, c in chosen.items()}
            wanted = {
                key
                for key, c in chosen.items()
                if c > 0
                and not any(
                    other != key and d > 0 and key[0] <= other[0] and key[1] <= other[1] for other, d in chosen.items()
                )
            }
            polynomials.append((Polynomial(terms), wanted))
        (one, first), (two, second) = polynomials
        assert one.growth == {tuple((v, e) for v, e in zip("mn", key, strict=True) if e) for key in first}
        faster = any(all(a > c or b > d for c, d in second) for a, b in first)
        assert grows_faster(one.growth, two.growth) == faster
    assert divides((("m", 1),), (("m", 1), ("n", 2))) and not divides((("m", 1),), (("n", 2),))


# ---------------------------------------------------------------------------- reduced bases


def gram_schmidt(basis):
    """Orthogonalised vectors and coefficients, as fractions."""
    found, factors = [], []
    for vector in basis:
        rest, own = [Fraction(c) for c in vector], []
        for other in found:
            own.append(sum(a * b for a, b in zip(vector, other, strict=True)) / sum(b * b for b in other))
            rest = [a - own[-1] * b for a, b in zip(rest, other, strict=True)]
        found.append(rest)
        factors.append(own)
    return found, factors


def test_relations_are_reduced_bases():
    """Size-reduced, with the exchange condition of Lenstra, Lenstra and Lovász for 99/100."""
    for seed in range(60):
        generator = random.Random(seed)
        height, width = generator.randint(2, 6), generator.randint(1, 2)
        rows = [[generator.randint(-9, 9) for _ in range(width)] for _ in range(height)]
        form, transform, relations = lattice.echelon(rows)
        for vector, wanted in ((one, [0] * width) for one in relations):
            assert [sum(c * row[j] for c, row in zip(vector, rows, strict=True)) for j in range(width)] == wanted
        for vector, wanted in zip(transform, form, strict=True):
            assert [sum(c * row[j] for c, row in zip(vector, rows, strict=True)) for j in range(width)] == wanted
        leads = [next(j for j, c in enumerate(row) if c) for row in form]
        assert leads == sorted(set(leads)) and all(row[j] > 0 for row, j in zip(form, leads, strict=True))
        assert all(
            2 * abs(other[j]) <= row[j] for row, j in zip(form, leads, strict=True) for other in form[: form.index(row)]
        )
        orthogonal, factors = gram_schmidt(relations)
        norms = [sum(c * c for c in vector) for vector in orthogonal]
        assert all(abs(factor) <= Fraction(1, 2) for own in factors for factor in own)
        for k in range(1, len(norms)):
            assert norms[k] + factors[k][k - 1] ** 2 * norms[k - 1] >= Fraction(99, 100) * norms[k - 1]
        for vector in transform:
            assert all(
                2 * abs(sum(a * b for a, b in zip(vector, other, strict=True))) <= 2 * sum(b * b for b in other)
                for other in relations
            )


def test_widths_below_coefficients():
    """Numbers are compared as they are; forms as the constraints imply."""
    for width, coefficient in itertools.product(range(-3, 5), repeat=2):
        expected = width < coefficient and coefficient > 0
        assert values._is_less(Affine.of(width), Affine.of(coefficient), ()) == expected
        is_implied_for_all = all(width < size + coefficient > 0 for size in range(1, 9))
        assert values._is_less(Affine.of(width), n + coefficient, SIZES) == is_implied_for_all


def test_the_first_entry_that_is_not_zero():
    for vector in itertools.product((-2, 0, 1), repeat=3):
        expected = [entry for entry in vector if entry]
        assert lattice.first_nonzero(vector) == (expected[0] if expected else 0)


def test_solutions_of_equations_begin_near_zero():
    """The same solutions; no vector of the kernel points along the growth of the values, or else the constants."""
    generator = random.Random(3)
    for _ in range(200):
        count = generator.randint(1, 2)
        kernel = [[generator.randint(-3, 3) for _ in range(3)] for _ in range(count)]
        if any(not any(vector) for vector in kernel) or (count == 2 and is_parallel(*kernel)):
            continue
        given = [linear(generator, p, n, most=2) for _ in range(3)]
        moved, turned = solving._near_zero(given, kernel)
        columns = [[value.coefficient(parameter) for value in moved] for parameter in (P, N)]
        growth, constants = [sum(pair) for pair in zip(*columns, strict=True)], [value.constant for value in moved]
        for old, new in zip(kernel, turned, strict=True):
            assert new in (old, [-entry for entry in old])
            assert (lattice.dot(new, growth), lattice.dot(new, constants)) <= (0, 0)
        for old, new in zip([*(column_of(given, at) for at in (P, N, None))], [*columns, constants], strict=True):
            difference = [a - b for a, b in zip(old, new, strict=True)]
            steps = itertools.product(range(-9, 10), repeat=count)
            assert any(
                difference
                == [sum(step * vector[k] for step, vector in zip(own, kernel, strict=True)) for k in range(3)]
                for own in steps
            )


def is_parallel(one, other):
    return all(one[k] * other[m] == one[m] * other[k] for k in range(3) for m in range(3))


def column_of(given, variable):
    return [value.constant if variable is None else value.coefficient(variable) for value in given]
