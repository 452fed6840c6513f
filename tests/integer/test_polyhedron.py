"""Implication, redundancy and loop nests against enumeration."""

from fractions import Fraction
from itertools import product
from random import Random

import pytest
import random_systems as systems
from every import every

from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.normalise import normalise, normalise_rows
from sympy_tensordiff.integer.polyhedron import (
    FALSE,
    Bounds,
    bounds,
    count_points,
    find_point,
    implied,
    is_empty,
    maximum,
    minimum,
    order,
    remove_redundant,
)
from sympy_tensordiff.integer.products import SymbolicQuotient, times

H, J, K, N, P, X, Y, Z = (Affine.variable(v) for v in ("h", "j", "k", "n", "p", "x", "y", "z"))


def ge(form):
    return Row("ge", form)


def eq(form):
    return Row("eq", form)


def mod(form, modulus):
    return Row("mod", form, modulus)


def between(low, form, high):
    return [ge(form - low), ge(-form + high)]


def random_case(seed, most=3):
    random = Random(seed)
    loops = list(systems.LOOPS[: random.randint(1, most)])
    parameters = list(systems.PARAMETERS[: random.randint(0, 2)])
    random.shuffle(loops)
    return loops, parameters, systems.loop_rows(random, loops, parameters), systems.parameter_facts(random, parameters)


def parameter_values(parameters, facts):
    return systems.points(facts, {v: range(-1, 7) for v in parameters})


# Lowest terms


@every("seed", range(100))
def test_lowest_terms_are_the_lowest(seed):
    """Once more changes nothing, multiples of quotients included, and the points are the same."""
    random = Random(seed)
    form = random.randint(-3, 3) * J + random.randint(-3, 3) * P + random.randint(-9, 9)
    for inner, divisor in ((P + random.randint(-2, 2), 3), (2 * J - P, 2)):
        form += random.randint(-3, 3) * quotient(inner, divisor)
    row = Row(random.choice(["ge", "ge", "eq", "mod"]), random.randint(1, 3) * form, random.randint(2, 6))
    row = row if row.kind == "mod" else Row(row.kind, row.form)
    reduced = normalise(row)
    for values in ({"j": j, "p": p} for j in range(-6, 7) for p in range(-6, 7)):
        assert row.holds(values) == (reduced if isinstance(reduced, bool) else reduced.holds(values))
    if not isinstance(reduced, bool):
        assert normalise(reduced) == reduced


def test_multiples_of_quotients_by_symbols_in_lowest_terms():
    row = ge(3 * J - 3 * Affine.variable(SymbolicQuotient(P, N)) - 8)
    assert normalise(row) == ge(times(N, J) - 2 * N - P - 1)


# Implication


@every("seed", range(40))
def test_empty_and_implied_are_proofs(seed):
    random = Random(seed)
    names = systems.LOOPS[:3]
    rows = [row for v in names for row in between(-3, Affine.variable(v), 4)]
    for _ in range(random.randint(1, 4)):
        rows.append(Row(random.choice(("ge", "ge", "eq")), systems.form(random, names)))
    if random.random() < 0.5:
        rows.append(mod(systems.form(random, names), random.randint(2, 5)))
    if random.random() < 0.5:
        rows.append(ge(systems.form(random, names, 1) + quotient(systems.form(random, names), 3)))
    inside = systems.points(rows, {v: range(-3, 5) for v in names})
    if is_empty(rows):
        assert not inside
    for _ in range(6):
        kind = random.choice(("ge", "eq", "mod"))
        row = Row(kind, systems.form(random, names, 2, 12), random.randint(2, 4) if kind == "mod" else 0)
        if implied(row, rows):
            assert all(row.holds(point) for point in inside)
    form = systems.form(random, names)
    least, most = minimum(form, rows), maximum(form, rows)
    values = [form.evaluate(point) for point in inside]
    if values:
        assert least is not None and most is not None
        assert least <= min(values) <= max(values) <= most


def test_implied_of_each_kind():
    assert implied(ge(H + J), [ge(H), ge(J)])
    assert not implied(ge(H + J - 1), [ge(H), ge(J)])
    assert implied(eq(H - J), [ge(H - J), ge(J - K), ge(K - H)])
    assert implied(eq(2 * H - 4), [*between(2, H, 2)])
    assert implied(mod(H + J, 2), [mod(H - J, 2)])
    assert implied(mod(H, 2), [mod(H, 6)])
    assert not implied(mod(H, 6), [mod(H, 2)])
    assert implied(mod(H, 6), [mod(H, 2), mod(H, 3)])
    assert implied(mod(3 * H, 6), [eq(H - 2 * J)])


def test_implied_of_constants_and_empty_systems():
    assert implied(ge(Affine.of(0)), [])
    assert not implied(ge(Affine.of(-1)), [])
    assert implied(ge(Affine.of(-1)), [ge(H), ge(-H - 1)])
    assert implied(mod(2 * H + 1, 2), [ge(H), ge(-H - 1)])
    assert not implied(mod(2 * H + 1, 2), [ge(H)])
    assert not implied(ge(H), [ge(J)])
    assert implied(ge(H), [ge(J), ge(-J - 1)])


def test_quotients_know_their_definition():
    half = quotient(P, 2)
    assert implied(ge(P - 2 * half), [])
    assert implied(ge(half), [ge(P)])
    assert not implied(ge(half - 1), [ge(P)])
    assert implied(eq(2 * half - P), [mod(P, 2)])
    assert implied(eq(quotient(P + 1, 2) + quotient(-P, 2)), [])
    assert implied(ge(quotient(quotient(P, 2), 3)), [ge(P)])
    assert is_empty([ge(half - 4), ge(7 - P)])
    assert not is_empty([ge(half - 3), ge(7 - P)])


def test_equations_are_solved_over_the_integers():
    assert is_empty([eq(2 * H - 4 * J - 1)])
    assert is_empty([eq(6 * H + 10 * J + 15 * K - 1), mod(H, 5), mod(K, 2)])
    assert not is_empty([eq(6 * H + 10 * J + 15 * K - 1)])
    assert is_empty([eq(3 * H - 2 * J), *between(1, H, 1)])
    assert is_empty([mod(P, 2), mod(P + 1, 4)])


def test_least_and_greatest_values():
    triangle = [ge(X), ge(Y), ge(5 - X - 2 * Y)]
    assert (minimum(X + Y, triangle), maximum(X + Y, triangle)) == (0, 5)
    assert maximum(Y, triangle) == Fraction(5, 2)
    assert maximum(Y, triangle[:2]) is None
    assert maximum(Y, [*triangle, ge(-X - 1)]) is None
    assert maximum(Z, triangle) is None
    assert minimum(Affine.of(3), []) == 3


# Redundancy


@every("seed", range(50))
def test_redundancy_keeps_the_points_and_nothing_more(seed):
    loops, parameters, rows, facts = random_case(seed)
    result = remove_redundant(rows, facts)
    if result != (FALSE,):
        for row in result:
            assert not implied(row, [*facts, *(other for other in result if other is not row)])
    box = {v: range(-3, 10) for v in loops}
    for values in parameter_values(parameters, facts)[::9]:
        fixed = {v: range(c, c + 1) for v, c in values.items()}
        assert systems.points(rows, {**box, **fixed}) == systems.points(result, {**box, **fixed})


def test_simple_rows_stay():
    rows = [ge(P + 4 - 2 * K), ge(P - K), ge(4 - P), ge(K)]
    assert remove_redundant(rows) == (ge(P - K), ge(4 - P), ge(K))
    # i <= j, j <= n and i <= n: the first two stay, as the last follows.
    assert remove_redundant([ge(J - H), ge(N - J), ge(N - H)]) == (ge(J - H), ge(N - J))
    assert remove_redundant([ge(4 - P), ge(8 - 2 * P), ge(9 - 2 * P)]) == (ge(4 - P),)


def test_rows_that_meet_become_an_equation():
    assert remove_redundant([ge(H - 2), ge(5 - H), ge(2 - H)]) == (eq(H - 2),)
    assert remove_redundant([eq(H - J), ge(H), ge(J)]) == (eq(H - J), ge(H))
    assert remove_redundant([ge(H - J), ge(J - K), ge(K - H)], [ge(H)]) != (FALSE,)


def test_congruences_tighten_and_vanish():
    assert remove_redundant([ge(17 - P), mod(P, 2)], [ge(P)]) == (ge(16 - P), mod(P, 2))
    assert remove_redundant([ge(P - 1)], [ge(P), mod(P + 1, 2)]) == ()
    assert remove_redundant([mod(P, 2), ge(P)], [mod(P, 4)]) == (ge(P),)
    assert remove_redundant([mod(P, 2), mod(P + 1, 2)]) == (FALSE,)
    assert remove_redundant([ge(11 - P)], [mod(P - N, 3), eq(N - 1)]) == (ge(10 - P),)


def test_empty_systems():
    assert remove_redundant([]) == ()
    assert remove_redundant([ge(H), ge(-H - 1)]) == (FALSE,)
    assert remove_redundant([ge(H)], [ge(-H - 1)]) == (FALSE,)
    assert remove_redundant([eq(2 * H - 1)]) == (FALSE,)
    assert remove_redundant([ge(Affine.of(2))]) == ()
    assert not FALSE.holds({})


def test_the_result_does_not_depend_on_repetitions():
    rows = [ge(H), ge(5 - H), ge(H + J), ge(J), ge(3 - J)]
    assert remove_redundant([*rows, *rows]) == remove_redundant(rows)


# Loop nests


@every("seed", range(50))
def test_nest_runs_over_the_points(seed):
    """The nest with symbolic parameters, run at their values, against the points of a box."""
    loops, parameters, rows, facts = random_case(seed)
    nest, rest = bounds(rows, loops, facts)
    box = {v: range(-3, 10) for v in loops}
    for values in parameter_values(parameters, facts)[::5]:
        expected = systems.points(rows, {**{v: range(c, c + 1) for v, c in values.items()}, **box})
        found = list(systems.run(nest, values)) if all(row.holds(values) for row in rest) else []
        assert found == expected  # in lexicographic order of the loops, too


@every("seed", range(8))
def test_four_loops_in_their_best_order(seed):
    random = Random(1000 + seed)
    loops = list(systems.LOOPS)
    rows = systems.loop_rows(random, loops, ["p"])
    best = order(rows, loops)
    assert sorted(best) == loops
    nest, rest = bounds(rows, best)
    for p in (-1, 2, 5):
        expected = systems.points(rows, {"p": range(p, p + 1), **{v: range(-3, 8) for v in best}})
        assert (list(systems.run(nest, {"p": p})) if all(row.holds({"p": p}) for row in rest) else []) == expected


def test_no_bound_follows_from_what_stands_outside():
    for seed in range(60):
        loops, _, rows, facts = random_case(seed)
        nest, rest = bounds(rows, loops, facts)
        if rest == (FALSE,):
            continue
        outside = [*facts, *rest]
        for level in nest:
            variable = Affine.variable(level.variable)
            own = normalise_rows(
                [ge(d * variable - form) for form, d in level.lows]
                + [ge(form - d * variable) for form, d in level.highs]
            )
            assert own is not None
            for row in own:
                assert not implied(row, [*outside, *(other for other in own if other != row)])
            outside += own


def test_empty_inner_ranges_are_rare():
    """The projections tighten the outer loops: the paper's "tight" holds over the rationals only."""

    def visits(nest, values):
        """Values of outer loops, and those of them with nothing inside."""
        if len(nest) < 2:
            return 0, 0
        total = empty = 0
        for value in nest[0].range(values):
            inside = {**values, nest[0].variable: value}
            below, idle = visits(nest[1:], inside)
            total, empty = total + 1 + below, empty + idle + (next(systems.run(nest[1:], inside), None) is None)
        return total, empty

    total = empty = 0
    for seed in range(200):
        loops, parameters, rows, facts = random_case(seed)
        nest, rest = bounds(rows, order(rows, loops, facts), facts)
        for values in parameter_values(parameters, facts)[::2]:
            if all(row.holds(values) for row in rest):
                counts = visits(nest, values)
                total, empty = total + counts[0], empty + counts[1]
    assert total > 1000
    assert empty < 0.06 * total


def test_example_of_section_6():
    """The derivative by d: z1 from max(0, p - 2) to min(4, p), and the other index over its extent."""
    rows = [*between(0, P - K, 2), *between(0, J, 3), *between(0, K, 4)]
    nest, rest = bounds(rows, ["k", "j"], between(0, P, 7))
    assert nest == (
        Bounds("k", ((P - 2, 1), (Affine.of(0), 1)), ((P, 1), (Affine.of(4), 1))),
        Bounds("j", ((Affine.of(0), 1),), ((Affine.of(3), 1),)),
    )
    assert rest == ()
    assert order(rows, ["k", "j"]) == ("k", "j")
    assert order(rows, ["j", "k"]) == ("j", "k")


def test_figure_4():
    z1, z2 = Affine.variable("z1"), Affine.variable("z2")
    rows = [*between(-1, z1, 1), *between(0, z1 + z2, 4)]
    nest, rest = bounds(rows, ["z2", "z1"])
    assert nest == (
        Bounds("z2", ((Affine.of(-1), 1),), ((Affine.of(5), 1),)),
        Bounds("z1", ((Affine.of(-1), 1), (-z2, 1)), ((Affine.of(1), 1), (4 - z2, 1))),
    )
    assert rest == ()
    assert count_points(rows, ["z1", "z2"]) == 15


def test_rows_without_loop_variables_are_guards():
    rows = [*between(0, H, 5), ge(P - 2), mod(P, 2), ge(7 - P)]
    nest, rest = bounds(rows, ["h"], between(0, P, 7))
    assert rest == (ge(P - 2), mod(P, 2))
    assert nest == (Bounds("h", ((Affine.of(0), 1),), ((Affine.of(5), 1),)),)
    assert bounds(rows[2:], [], [ge(P)]) == ((), (ge(P - 2), ge(6 - P), mod(P, 2)))


def test_congruences_lose_loop_variables_first():
    """(2h + p) mod 2 is a condition on p, and no row of the loop."""
    nest, rest = bounds([*between(0, H, 5), mod(2 * H + P, 2)], ["h"])
    assert rest == (mod(P, 2),)
    assert nest[0].highs == ((Affine.of(5), 1),)


def test_projection_alone_gives_no_guard():
    nest, rest = bounds(between(0, H, N - 1), ["h"])
    assert rest == ()
    assert list(nest[0].range({"n": 0})) == []


def test_facts_on_loop_variables_bound_nothing():
    """A fact on the loop variable would otherwise justify dropping its own bound."""
    nest, _ = bounds(between(0, H, 5), ["h"], between(0, H, 5))
    assert nest == (Bounds("h", ((Affine.of(0), 1),), ((Affine.of(5), 1),)),)


def test_equations_bound_from_both_sides():
    nest, rest = bounds([eq(2 * H - P), *between(0, H, 9)], ["h"])
    assert rest == ()
    for p in range(-3, 25):
        assert list(nest[0].range({"p": p})) == ([p // 2] if p % 2 == 0 and 0 <= p <= 18 else [])


def test_quotients_of_loop_variables():
    nest, rest = bounds([ge(H), ge(P - quotient(H, 3))], ["h"])
    assert (nest, rest) == ((Bounds("h", ((Affine.of(0), 1),), ((3 * P + 2, 1),)),), ())
    nest, _ = bounds([ge(11 - H), ge(2 * quotient(H + 1, 3) - P)], ["h"])
    for p in range(-3, 9):
        assert list(nest[0].range({"p": p})) == [i for i in range(-30, 12) if 2 * ((i + 1) // 3) >= p]
    with pytest.raises(ValueError, match="express"):
        bounds([*between(0, H, 9), ge(P + H - 2 * quotient(H, 3))], ["h"])


def test_quotients_of_outer_loop_variables():
    rows = [*between(0, J, 11), ge(K), ge(2 * quotient(J, 3) - K), ge(3 * quotient(K, 2) + quotient(J, 2) - 4)]
    points = {(j, k) for j in range(12) for k in range(2 * (j // 3) + 1) if 3 * (k // 2) + j // 2 >= 4}
    for variables in (["j", "k"], ["k", "j"]):
        nest, rest = bounds(rows, variables)
        found = [
            {variables[0]: outer, variables[1]: inner}
            for outer in nest[0].range({})
            for inner in nest[1].range({variables[0]: outer})
        ]
        assert rest == ()
        assert len(found) == len(points)
        assert {(point["j"], point["k"]) for point in found} == points


def test_empty_variable_list_and_infeasible_systems():
    assert bounds([], []) == ((), ())
    assert bounds([ge(P), ge(P - 2)], []) == ((), (ge(P - 2),))
    nest, rest = bounds([*between(0, H, P), ge(-P - 1)], ["h"])
    assert rest == (FALSE,)
    assert list(nest[0].range({"p": -5})) == []
    nest, rest = bounds([*between(0, H, J), *between(0, J, N)], ["j", "h"], [ge(-N - 1)])
    assert rest == (FALSE,)
    assert [level.variable for level in nest] == ["j", "h"]
    assert order([ge(H), ge(-H - 1)], ["j", "h"]) == ("j", "h")


MULTIPLES = {
    "two multiples": [ge(P - times(N, K)), ge(times(N, K) - times(N, J)), ge(times(N, J) + P)],
    "a multiple and the index itself": [ge(times(N, J) - times(N, K) + N - P), ge(K), ge(1 - J)],
}


@pytest.mark.parametrize("name", MULTIPLES)
def test_an_outer_loop_may_be_bounded_by_multiples_of_an_inner_index_alone(name):
    rows = MULTIPLES[name]
    nest, guards = bounds(rows, ["j", "k"], [ge(N - 1)], multiples=True)
    for size, rest in product((1, 2, 3, 5), range(-4, 9)):
        given = {"n": size, "p": rest}
        box = ({**given, "j": j, "k": k} for j, k in product(range(-12, 13), repeat=2))
        points = {(point["j"], point["k"]) for point in box if all(row.holds(point) for row in rows)}
        loops = {(j, k) for j in nest[0].range(given) for k in nest[1].range({**given, "j": j})}
        assert loops == (points if all(row.holds(given) for row in guards) else set())


def test_unbounded_variables_are_refused():
    with pytest.raises(ValueError, match="index h has no upper bound"):
        bounds([ge(H)], ["h"])
    with pytest.raises(ValueError, match="index j has no lower bound"):
        bounds([*between(0, H, 5), ge(H - J)], ["h", "j"])
    with pytest.raises(ValueError, match="index j has no lower bound"):
        bounds(between(0, H, 5), ["j", "h"])
    with pytest.raises(ValueError, match="express"):
        bounds([*between(0, H, 5), mod(H, 2)], ["h"])


def test_order_prefers_few_rows_and_unit_coefficients():
    assert order([*between(0, H, N), *between(0, J, H)], ["j", "h"]) == ("h", "j")
    assert order([ge(H), ge(J), ge(9 - H - 2 * J)], ["h", "j"]) == ("j", "h")
    assert order([eq(H - J - K), *between(0, J, 3), *between(0, K, 3)], ["h", "j", "k"])[-1] in {"i", "j", "k"}
    # Without h, 2*h >= j and 3*h <= j + n leave j + 2*n >= 0, which says less than the integers do.
    exact_first = [ge(2 * H - J), ge(J + N - 3 * H), ge(J - N), ge(J), ge(20 - J), ge(P - J)]
    assert order(exact_first, ["j", "h"]) == ("h", "j")
    free = [row for v in "ijkl" for row in between(0, Affine.variable(v), N)]
    assert order(free, list("kilj")) == tuple("kilj")
    assert order(free, []) == ()


# Numeric systems


@every("seed", range(33))
def test_find_and_count_points(seed):
    loops, parameters, rows, facts = random_case(seed)
    choice = parameter_values(parameters, facts)
    if not choice:
        return
    values = choice[seed % len(choice)]
    numeric = [*rows, *(eq(Affine.variable(v) - c) for v, c in values.items())]
    inside = systems.points(
        rows, {**{v: range(-3, 10) for v in loops}, **{v: range(c, c + 1) for v, c in values.items()}}
    )
    point = find_point(numeric, [*loops, *parameters])
    assert (point in inside) if inside else point is None
    if inside or is_empty(numeric):
        assert count_points(numeric, [*loops, *parameters]) == len(inside)


def test_points_of_stride_and_congruence():
    assert find_point([eq(2 * H - 7), *between(0, H, 9)], ["h"]) is None
    assert find_point([mod(H, 4), *between(1, H, 3)], ["h"]) is None
    assert find_point([mod(H, 4), *between(1, H, 6)], ["h"]) == {"h": 4}
    # Not empty over the rationals, and all constants are tight: only the search tells.
    assert find_point([*between(1, 3 * X - 2 * Y, 2), *between(0, X - Y, 0), ge(X - 3), ge(9 - X)], ["x", "y"]) is None
    assert count_points([mod(X + Y, 3), *between(0, X, 5), *between(0, Y, 5)], ["x", "y"]) == 12
    assert count_points([], []) == 1


def test_points_of_open_systems():
    assert find_point([ge(H - 3)], ["h"]) == {"h": 3}
    with pytest.raises(ValueError, match="no values given"):
        find_point([ge(H - N)], ["h"])
    with pytest.raises(ValueError, match="unbounded"):
        count_points([ge(H)], ["h"])
    with pytest.raises(ValueError, match="unbounded"):
        count_points([*between(0, H, 3)], ["h", "j"])


# The solver unit tests of TVM (test_arith_solve_linear_equations.py, test_arith_solve_linear_inequality.py)


def test_tvm_unique_solution():
    rows = [eq(X + Y - 20), eq(X - Y - 10)]
    assert find_point(rows, ["x", "y"]) == {"x": 15, "y": 5}
    assert implied(eq(X - 15), rows) and implied(eq(Y - 5), rows)


def test_tvm_low_rank():
    rows = [eq(X + Y + Z - 15), eq(X + Y - 10)]
    assert implied(eq(Z - 5), rows)
    assert not is_empty(rows)
    assert maximum(X, rows) is None


def test_tvm_inferred_range():
    rows = [eq(X + Y), *between(-5, X, 4), *between(0, Y, 9)]
    nest, rest = bounds(rows, ["x", "y"])
    assert (nest[0].lows, nest[0].highs) == (((Affine.of(-5), 1),), ((Affine.of(0), 1),))
    assert (nest[1].lows, nest[1].highs) == (((-X, 1),), ((-X, 1),))
    assert rest == ()


def test_tvm_ill_formed():
    assert is_empty([eq(X + Y), eq(X - Y), eq(X - 5)])


def test_tvm_dual_variable():
    rows = [ge(X - Y - 10), ge(20 - X - Y), *between(0, Y, 10), *between(0, X, 100)]
    nest, rest = bounds(rows, ["y", "x"])
    assert nest == (
        Bounds("y", ((Affine.of(0), 1),), ((Affine.of(5), 1),)),
        Bounds("x", ((Y + 10, 1),), ((20 - Y, 1),)),
    )
    assert rest == ()


def test_tvm_equal():
    rows = [ge(X + Y - 10), ge(X - Y - 2), ge(6 - X)]
    assert implied(eq(X - 6), rows) and implied(eq(Y - 4), rows)
    assert find_point(rows, ["x", "y"]) == {"x": 6, "y": 4}


def test_tvm_multi_equal():
    """x <= 6, x >= 6, x - z*y >= 0 and x - z*y <= 0: bilinear, no affine row; at x = 6, z = 2 it is one."""
    rows = [ge(6 - X), ge(X - 6), ge(X - 2 * Y), ge(2 * Y - X)]
    assert remove_redundant(rows) == (eq(X - 6), eq(X - 2 * Y))
    assert implied(eq(Y - 3), rows)


def test_tvm_no_solution():
    rows = [ge(-5 * X + 2 + X + 4), ge(5 * X - 4 * X - 5), *between(-20, X, 20)]
    assert is_empty(rows)
    assert find_point(rows, ["x"]) is None
