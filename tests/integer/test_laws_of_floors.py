"""Floors, remainders and congruences in forms: each way to write or bound them, against the values at points."""

import itertools
import math
import random

from every import every

from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.clamps import split_all_clamps
from sympy_tensordiff.integer.extrema import (
    extrema_in,
    extrema_text,
    maximum_of,
    minimum_of,
    positive_part,
    positive_parts_in,
)
from sympy_tensordiff.integer.floor_elimination import bounds_by_multiples, divided_bounds, relax_to_affine
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.indirect import IndirectIndex, bound_of_data
from sympy_tensordiff.integer.nests import Bounds
from sympy_tensordiff.integer.products import negated_partial_quotients, quotient_by, times
from sympy_tensordiff.integer.remainders import digits_in, remainders_in, remainders_of
from sympy_tensordiff.integer.rows import bounds_with_divisors, range_rows, remainders
from sympy_tensordiff.integer.solving import solve_equations, split_by_residue
from sympy_tensordiff.integer.values import are_ranges_nonempty, has_point, length_of_range, without_exact_floors

i, p, n = (Affine.variable(name) for name in "ipn")
POINTS = [{"i": a, "p": b, "n": c} for a, b, c in itertools.product(range(-7, 8), range(-9, 13), range(1, 6))]


def linear(generator, *variables, most=4):
    return sum((generator.randint(-most, most) * v for v in variables), Affine.of(generator.randint(-most, most)))


def divisor_of(generator):
    return generator.choice((Affine.of(2), Affine.of(3), Affine.of(4), Affine.of(6), n, n, 2 * n, n + 1))


def with_remainder(generator):
    """A form with a remainder, or with floors of the same dividend by several divisors."""
    dividend, divisor = linear(generator, i, p, most=2), divisor_of(generator)
    if generator.random() < 0.5:
        factor = generator.choice((1, -1, 2, -3))
        moved = generator.choice((Affine(), n, divisor - 1))
        return factor * (dividend - times(divisor, quotient_by(dividend, divisor))) + moved + generator.randint(-2, 2)
    floors = [
        generator.randint(-6, 6) * quotient(p, d) for d in generator.sample((2, 3, 4, 6), generator.choice((1, 2)))
    ]
    return sum(floors, generator.randint(-6, 6) * p + generator.randint(-1, 1) * i)


def value(rest, found, point):
    parts = (factor.evaluate(point) * (f.evaluate(point) % m.evaluate(point)) for factor, f, m in found)
    return rest.evaluate(point) + sum(parts)


@every("written, least", [(remainders_in, 40), (digits_in, 20), (remainders_of, 60)])
def test_written_remainders_have_the_value_of_the_form(written, least):
    changed = 0
    for seed in range(150):
        generator = random.Random(seed)
        form = with_remainder(generator)
        rest, found = written(form)
        changed += bool(found)
        for point in generator.sample(POINTS, 12):
            assert value(rest, found, point) == form.evaluate(point), (form, rest, found, point)
    assert changed > least


@every("divisor", [n + 1, 2 * n + 3, times(n, n) + n])
def test_remainders_are_found_where_other_terms_cancel_the_dividend(divisor):
    """``(i + p) mod (n + 1) - p`` has no ``p`` outside of the floor."""
    for dividend, others in ((i + p, -p), (i + p, -i), (2 * i + p + 3, -p - 3), (i - p, p)):
        form = dividend - times(divisor, quotient_by(dividend, divisor)) + others
        rest, found = remainders_in(form)
        assert [one[2] for one in found] == [divisor] and rest == others + dividend - found[0][1]
        assert all(value(rest, found, point) == form.evaluate(point) for point in POINTS[::17])


def test_remainders_of_sums_with_floors_are_found():
    """``f mod n`` and ``(n - 1 - f) mod n``, where the floor has the common denominator of f."""
    for seed in range(60):
        generator = random.Random(seed)
        dividend = generator.choice((1, -1)) * p + generator.choice(
            (quotient(n, 2), quotient(i, 3), quotient(i + n, 2))
        )
        dividend += generator.choice((0, 0, i, -2))
        taken = quotient_by(dividend if seed % 2 else n - 1 - dividend, n)
        moved = generator.choice((Affine(), n, -n, Affine.variable("k")))
        form = dividend - (1 if seed % 2 else -1) * times(n, taken) + moved
        rest, found = remainders_in(form)
        assert [one[2] for one in found] == [n] and len(rest.terms) <= len(moved.terms), (form, rest, found)
        for point in generator.sample(POINTS, 12):
            assert value(rest, found, point | {"k": 5}) == form.evaluate(point | {"k": 5})


def test_digits_are_no_longer_than_the_form():
    """Never longer; all of ``a*p + c*floor(p/d)`` that get shorter as ``a*mod + (a*d + c)*floor`` are written so."""
    for a, c, d in itertools.product(range(-6, 7), range(-12, 13), (2, 3, 4)):
        form = a * p + c * quotient(p, d)
        rest, found = digits_in(form)
        size = sum(abs(one) for _, one in rest.terms) + sum(abs(factor.constant) for factor, _, _ in found)
        best = [abs(a) + abs(c)]
        if a and c:
            best.append(abs(a) + abs(a * d + c))
            best += [abs(a + c // d) + abs(c // d)] * (c % d == 0)
        assert size == min(best), (form, rest, found)


@every("kind", ["ge", "eq"])
def test_conditions_on_one_remainder(kind):
    for d, constant, sign, factor in itertools.product((2, 3, 5), range(-6, 7), (1, -1), (1, 3)):
        inside = factor * i + p
        form = sign * (inside - d * quotient(inside, d)) + constant
        found, modulus, values = remainders(kind, form)
        for point in POINTS[::7]:
            inside_value = form.evaluate(point)
            holds = inside_value >= 0 if kind == "ge" else inside_value == 0
            assert holds == (found.evaluate(point) % modulus in values), (form, values, point)
    assert remainders(kind, i + 2 * quotient(p, 3)) is None and remainders(kind, i) is None


def test_systems_split_by_residue_have_each_point_once():
    one, other = (Affine.variable(name) for name in (0, 1))
    for d, constant, sign in itertools.product((2, 3, 5), range(-4, 5), (1, -1)):
        rows = (Constraint("ge", other), Constraint("ge", sign * (one - d * quotient(one, d)) + constant))
        found = split_by_residue(frozenset((0, 1)), rows)
        for x, y in itertools.product(range(-6, 7), (-1, 0, 1)):
            hits = sum(all(row.holds({0: x, 1: y}) for row in system) for system in found)
            assert hits == all(row.holds({0: x, 1: y}) for row in rows)
    assert split_by_residue(frozenset((0, 1)), (Constraint("ge", one - other), Constraint("ge", other))) is None
    solved = Constraint("eq", one - other)
    remainder = Constraint("ge", one - 2 * quotient(one, 2) - 1)
    assert split_by_residue(frozenset((0, 1)), (solved, remainder)) is None


def test_exact_floors_have_their_value_where_the_congruence_holds():
    removed = 0
    for seed in range(200):
        generator = random.Random(seed)
        d, a = generator.choice((2, 3)), linear(generator, i, p, most=2)
        form = generator.choice((d, -d, 2 * d, 1)) * quotient(a, d) + linear(generator, i, p)
        sign = generator.choice((1, -1))
        congruence = Constraint("mod", sign * a + generator.randint(-2, 2), d * generator.choice((1, 2)))
        found = without_exact_floors(form, (congruence,))
        removed += form.quotients() != found.quotients()
        is_whole = all(floor.divisor == d and form.coefficient(floor) % d == 0 for floor in form.quotients())
        assert not is_whole or not found.quotients(), (form, congruence)
        assert all(found.evaluate(q) == form.evaluate(q) for q in POINTS[::5] if congruence.holds(q)), (form, found)
    assert removed > 50


def parts_of(form):
    return [Affine({v: c}) for v, c in form.terms] + [Affine.of(form.constant)] * bool(form.constant)


def test_partial_quotients_are_those_of_terms():
    for seed in range(150):
        generator = random.Random(seed)
        divisor = generator.choice((Affine.of(2), Affine.of(3), 2 * n, 3 * n + 1, n + p, times(n, p) + n))
        form = times(linear(generator, i, n, most=6), linear(generator, n, p, most=2))
        found = negated_partial_quotients(form, divisor)
        terms = {Affine({v: c}) for v, c in form.terms} | {Affine.of(form.constant)}
        assert any(all(-times(part, one) in terms for part in found) for one in parts_of(divisor)), (form, found)
        if divisor == 2 * n:
            divided = [v for v, c in form.terms if c % 2 == 0 and "n" in Affine.variable(v).atoms()]
            assert len(found) == len(divided)
        if divisor.is_constant:
            divided = [c for c in (*(c for _, c in form.terms), form.constant) if c % divisor.constant == 0]
            assert len(found) == len(divided)


def test_bounds_of_entries_of_data_are_reached():
    entry, other = (Affine.variable(IndirectIndex(name, (), n)) for name in ("a", "b"))
    for a, b, c in itertools.product(range(-2, 3), range(-2, 3), range(-1, 2)):
        form = a * entry + b * other + c * i
        for size, outer in ((1, -2), (4, 3)):
            values = [form.evaluate({"a": x, "b": y, "i": outer, "n": size}) for x in range(size) for y in range(size)]
            point = {"i": outer, "n": size}
            assert bound_of_data(form, 1).evaluate(point) == max(values)
            assert bound_of_data(form, -1).evaluate(point) == min(values)
    assert bound_of_data(Affine.variable(IndirectIndex("a", ())), 1) is None
    assert bound_of_data(quotient(entry, 2), 1) is None


def test_bounds_say_the_same_as_the_rows():
    """For each form that contains the variable, with a number or a positive symbol as the factor."""
    known = [Constraint("ge", n - 1)]
    for seed in range(100):
        generator = random.Random(seed)
        rest, c = linear(generator, p), generator.choice((-3, -2, -1, 1, 2, 3))
        lows, highs = bounds_with_divisors("i", [c * i + rest])
        sign, kind = generator.choice((1, -1)), generator.choice(("ge", "eq"))
        row = Constraint(kind, sign * times(n, i) + rest)
        symbolic_lows, symbolic_highs = divided_bounds("i", row, known)
        for point in generator.sample(POINTS, 20):
            outer = {"p": point["p"], "n": point["n"]}
            assert (point["i"] in loop(lows, highs, outer)) == ((c * i + rest).evaluate(point) >= 0)
            if kind == "ge":
                assert (point["i"] in loop(symbolic_lows, symbolic_highs, outer)) == row.holds(point)
            elif row.holds(point):
                assert [*loop(symbolic_lows, symbolic_highs, outer)] == [point["i"]]


def loop(lows, highs, outer):
    """The values of a loop; far away where a side has no bound."""
    far = Affine.of(999)
    return Bounds("i", tuple(lows) or ((-far, 1),), tuple(highs) or ((far, 1),)).range(outer)


def test_rows_without_a_variable_hold_where_it_has_a_value():
    """Multiples of a symbol are eliminated by bounds; the result also tells where there is no value, by rationals."""
    known = [Constraint("ge", n - 1)]
    decided = 0
    for seed in range(60):
        generator = random.Random(seed)
        factors = generator.choice(((n, -n), (n, Affine.of(-1)), (Affine.of(1), -n), (n, -2 * n), (n + 1, -n)))
        rows = [Constraint("ge", times(factor, i) + linear(generator, p)) for factor in factors]
        found = bounds_by_multiples(rows, "i", ["p"], known)
        decided += bool(found)
        for outer in itertools.product(range(-9, 13, 2), (1, 2, 5)):
            point = dict(zip("pn", outer, strict=True))
            if any(all(row.holds(point | {"i": x}) for row in rows) for x in range(-30, 31)):
                assert all(row.holds(point) for row in found), (rows, found, point)
    assert decided > 35


def test_two_multiples_of_a_symbol_give_their_product():
    rows = [Constraint("ge", times(n, i) - p), Constraint("ge", 5 - i)]
    (found,) = bounds_by_multiples(rows, "i", ["p"], [Constraint("ge", n - 1)])
    assert found.form == 5 * n - p
    rows = [Constraint("ge", 2 * i - p), Constraint("ge", 5 - i)]
    assert bounds_by_multiples(rows, "i", ["p"], []) == []


def test_relaxed_rows_hold_at_all_points():
    for seed in range(150):
        generator = random.Random(seed)
        d = generator.choice((2, 3, 4))
        form = generator.randint(-3, 3) * quotient(linear(generator, i, p, most=2), d) + linear(generator, i, p)
        rows = [Constraint(generator.choice(("ge", "ge", "eq")), form), Constraint("mod", p + i, 2)]
        found = relax_to_affine(rows, frozenset("i"))
        assert all(row.kind != "mod" and "i" not in row.form.hidden() for row in found)
        for point in POINTS[::6]:
            if rows[0].holds(point):
                assert all(row.holds(point) for row in found), (rows, found, point)
    retained = [Constraint("mod", p, 2)]
    assert relax_to_affine(retained, frozenset("i")) == retained


def test_lengths_of_ranges_are_those_of_loops():
    for seed in range(120):
        generator = random.Random(seed)
        lows, highs = (
            tuple(
                (linear(generator, p, n, most=2), generator.choice((1, 2, 3))) for _ in range(generator.choice((1, 2)))
            )
            for _ in range(2)
        )
        limit = Bounds("i", lows, highs)
        length, nonempty = length_of_range(limit), are_ranges_nonempty([limit], (Constraint("ge", n - 1),))
        for point in generator.sample(POINTS, 15):
            assert max(0, length.evaluate(point)) == len(limit.range(point))
            assert limit.range(point) or not nonempty
    wide = Bounds("i", ((p, 1), (n, 1), (i, 1)), ((p, 2), (n, 2)))
    assert length_of_range(wide) is None


@every("low, high, step, holds", [(0, 2, 3, True), (0, 1, 3, False), (1, 3, 3, True), (0, 0, 1, True)])
def test_ranges_that_surely_have_a_value(low, high, step, holds):
    """``p + low <= step*i <= p + high`` has a value for each p if and only if the range is as long as a step."""
    limit = Bounds("i", ((p + low, step),), ((p + high, step),))
    assert are_ranges_nonempty([limit], ()) == holds
    assert all(limit.range({"p": at}) for at in range(12)) == holds


def test_ranges_that_form_a_constraint_each():
    rows = range_rows(i, [p, n], [p + 5])
    for point in POINTS[::5]:
        inside = max(point["p"], point["n"]) <= point["i"] <= point["p"] + 5
        assert all(row.holds(point) for row in rows) == inside


@every("sizes", [(3,), (1, 2, 4)])
def test_equations_with_floors_have_each_solution_once(sizes):
    """The equation ``a*floor(f/M) + b*j + c*i == ...`` is solved for i and j, by digits or otherwise."""
    for seed in range(16):
        generator = random.Random(seed)
        graph = Graph()
        first, second, symbol = (graph.fresh(name) for name in "ijM")
        divisor = Affine.of(3) if sizes == (3,) else Affine.variable(symbol)
        x, y = Affine.variable(first), Affine.variable(second)
        b, c = generator.choice((-2, -1, 1, 2)), generator.choice((0, 0, -2, 1))
        shift = generator.choice((0, 1, -1))
        form = quotient_by(generator.choice((1, -1)) * x + shift, divisor) + b * y + c * x + generator.randint(-1, 1)
        box = [Constraint("ge", row) for v in (x, y) for row in (v + 5, 5 - v)]
        solution = solve_equations(graph, [first, second], [*box, Constraint("eq", form)])
        for size in sizes:
            outer = {symbol: size}
            wanted = [
                pair
                for pair in itertools.product(range(-5, 6), repeat=2)
                if form.evaluate(dict(zip((first, second), pair, strict=True)) | outer) == 0
            ]
            remaining, mapping, rows = solution
            found = []
            for values in itertools.product(range(-11, 12), repeat=len(remaining)):
                point = dict(zip(remaining, values, strict=True)) | outer
                if all(row.holds(point) for row in rows):
                    found.append(tuple(mapping.get(v, Affine.variable(v)).evaluate(point) for v in (first, second)))
            assert sorted(found) == wanted, (form, size, mapping, rows)


def test_a_point_is_proved_only_where_there_is_one():
    """Ranges of two variables, the inner one with bounds by the outer one."""
    x, y, p, n = map(Affine.variable, range(4))
    proved = 0
    for seed in range(150):
        generator = random.Random(seed)
        ends = [(p, p + generator.randint(-1, 3)), (x - generator.randint(-1, 2), x + generator.randint(-1, 2))]
        rows = [
            Constraint("ge", row) for v, (low, high) in zip((x, y), ends, strict=True) for row in (v - low, high - v)
        ]
        if generator.random() < 0.3:
            rows.append(Constraint("ge", generator.choice((y - p, x + y - 2 * p, 2 * y - n))))
        is_proved = has_point(tuple(rows), [0, 1], (Constraint("ge", n - 1),))
        proved += is_proved
        exist = all(
            any(
                all(row.holds({0: a, 1: b, 2: at, 3: size}) for row in rows)
                for a, b in itertools.product(range(-6, 9), repeat=2)
            )
            for at, size in ((-2, 1), (0, 5), (3, 2))
        )
        assert exist or not is_proved, rows
        if exist and len(rows) == 4 and all((high - low).constant >= 0 for low, high in ends):
            assert is_proved, rows
    assert proved > 40


def test_systems_without_maxima_have_each_point_once():
    x, y, p = map(Affine.variable, range(3))
    for seed in range(40):
        generator = random.Random(seed)
        parts = [maximum_of([linear(generator, x, y, most=2), linear(generator, x, p, most=1)]) for _ in range(2)]
        rows = (
            Constraint("ge", parts[0] - parts[1] + linear(generator, x, y, most=1)),
            Constraint("ge", parts[1] - y),
        )
        systems = [*split_all_clamps(["x", "y", "p"], frozenset((0, 1)), rows)]
        for a, b, at in itertools.product(range(-4, 5), range(-4, 5), (-1, 2)):
            point = {0: a, 1: b, 2: at}
            hits = sum(all(row.holds(point) for row in system) for system in systems)
            assert hits == all(row.holds(point) for row in rows), (rows, systems, point)
        assert not any(positive_parts_in([row.form for row in system]) for system in systems)


NAMES = {"floor": math.floor, "max": max, "min": min, "abs": abs}


def test_texts_are_python_with_the_value_of_the_form():
    """Also those of constraints, and those with maxima, minima and absolute values."""
    for seed in range(120):
        generator = random.Random(seed)
        one, two = linear(generator, i, p, most=2), linear(generator, p, n, most=2)
        clamped = generator.choice(
            (maximum_of([one, two]), minimum_of([one, two, i]), positive_part(one) + positive_part(-one))
        )
        floor = quotient(generator.choice((one, i, clamped)), generator.choice((2, 3)))
        form = (
            generator.choice((1, -1, 3)) * floor + generator.choice((0, 1, -1, 2)) * clamped + linear(generator, i, n)
        )
        form += generator.choice((0, 1)) * times(i, n) + quotient_by(two, n)
        rows = [Constraint("ge", form), Constraint("eq", form - form.constant), Constraint("mod", form, 3)]
        for point in generator.sample(POINTS, 6):
            value = form.evaluate(point)
            assert eval(repr(form), NAMES, point) == value, (repr(form), point)
            assert eval(extrema_text(form), NAMES, point) == value, (extrema_text(form), point)
            assert all(eval(repr(row).replace("mod", "%"), NAMES, point) == row.holds(point) for row in rows)
    for constant in (-2, 0, 5):
        assert int(repr(Affine.of(constant))) == constant
        assert eval(repr(i + constant), {"i": 7}) == 7 + constant


def test_negations_hold_where_the_rows_do_not():
    for seed in range(60):
        generator = random.Random(seed)
        form = linear(generator, i, p) + quotient(linear(generator, i, p), 3)
        for row in (Constraint("ge", form), *(Constraint("mod", form, modulus) for modulus in (2, 3, 4))):
            assert all(row.holds(point) != row.negation().holds(point) for point in POINTS[::31])


def test_floors_of_small_remainders_are_left_out():
    """``floor((c*q + (r mod 2))/d)`` has no remainder if and only if it never changes the value."""
    shorter = 0
    for c, d, modulus, factor, shift in itertools.product((2, 3, 4, 6), (4, 6, 8), (2, 3), (1, 2, -1), (0, 1, 3)):
        remainder = i - modulus * quotient(i, modulus)
        form = quotient(c * p + factor * remainder + shift, d)
        shorter += "i" not in form.atoms()
        for point in POINTS[::23]:
            value = c * point["p"] + factor * (point["i"] % modulus) + shift
            assert form.evaluate(point) == value // d
        ends = {(c * at + factor * r + shift) // d == (c * at + shift) // d for at in range(d) for r in range(modulus)}
        assert ("i" not in form.atoms()) == (ends == {True}), (c, d, modulus, factor, shift, form)
    assert shorter > 20


def test_floors_of_floors_have_the_value_of_nested_divisions():
    for seed in range(80):
        generator = random.Random(seed)
        inner, others = generator.choice((i, p, i - p)) + generator.randint(-2, 2), linear(generator, p, n, most=2)
        first, second = (generator.choice((Affine.of(2), Affine.of(3), n, n + 1)) for _ in range(2))
        form = quotient_by(quotient_by(inner, first) + others, second)
        for point in generator.sample(POINTS, 10):
            value = inner.evaluate(point) // first.evaluate(point) + others.evaluate(point)
            assert form.evaluate(point) == value // second.evaluate(point), (inner, first, others, second, form)


@every("d, e", itertools.product((2, 3, 4), repeat=2))
def test_sums_of_floors_are_bounded_by_the_floors_of_the_bounds(d, e):
    """``p <= d*q + d - 1`` and ``i <= e*n + e - 1`` give ``floor(p/d) + floor(i/e) <= q + n``; one more does not."""
    q = Affine.variable("q")
    total = quotient(p, d) + quotient(i, e)
    for more, other in itertools.product((0, 1), repeat=2):
        highs = [Constraint("ge", d * q + d - 1 + more - p), Constraint("ge", e * n + e - 1 + other - i)]
        assert is_implied(Constraint("ge", q + n - total), highs) == (more == other == 0)
        lows = [Constraint("ge", p - d * q + more), Constraint("ge", i - e * n + other)]
        assert is_implied(Constraint("ge", total - q - n), lows) == (more == other == 0)


def number_of_terms(*forms):
    return sum(len(form.terms) + bool(form.constant) for form in forms)


def test_maxima_of_unlike_forms_are_written_by_no_more_terms_than_these():
    """An absolute value by its operand alone."""
    for seed in range(100):
        generator = random.Random(seed)
        one, two = linear(generator, i, most=2) + 3 * i, linear(generator, p, n, most=2) + 3 * p
        made = {"max": maximum_of([one, two]), "min": minimum_of([one, two]), "abs": 2 * positive_part(one) - one}
        for function, form in made.items():
            rest, (extremum,) = extrema_in(form)
            operands = (extremum.one, extremum.other)[: 1 if extremum.function == "abs" else 2]
            given = (one,) if function == "abs" else (one, two)
            assert number_of_terms(rest, *operands) <= number_of_terms(*given), (form, rest, extremum)
