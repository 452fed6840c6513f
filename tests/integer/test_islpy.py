"""The integer algebra against isl, the library of polyhedral compilers: a second opinion beside enumeration.

isl is exact over the integers, with parameters as well; so projections, ranges and emptiness are compared as sets of
points for all values of the parameters, which enumeration cannot do.
"""

from random import Random

import islpy as isl
from every import every
from fuzz.system_checks import nest_of
from fuzz.systems import random_form, random_system

from sympy_tensordiff.integer.affine import Affine, Quotient, Row
from sympy_tensordiff.integer.fourier_motzkin import project
from sympy_tensordiff.integer.polyhedron import (
    FALSE,
    bounds,
    count_points,
    implied,
    is_empty,
    maximum,
    minimum,
    order,
    remove_redundant,
)
from sympy_tensordiff.integer.unfolding import unfolded

CONTEXT = isl.DEFAULT_CONTEXT

# ---------------------------------------------------------------- rows as isl reads them


def text(form, homogeneous=""):
    """A form; with the name of a scale, the constant is multiplied by it."""
    terms = [f"{c}*{floor(v) if isinstance(v, Quotient) else name(v)}" for v, c in form.terms]
    return " + ".join([*terms, f"{form.constant}{'*' + homogeneous if homogeneous else ''}"])


def name(variable):
    return variable if isinstance(variable, str) else f"v{variable}".replace("-", "m")


def floor(quotient):
    return f"floor(({text(quotient.form)})/{quotient.divisor})"


def condition(row):
    if row.kind == "mod":
        return f"({text(row.form)}) mod {row.modulus} = 0"
    return f"{text(row.form)} {'>=' if row.kind == 'ge' else '='} 0"


def isl_set(rows, variables, parameters=()):
    """The points of rows as a set over the variables, for all parameters."""
    conditions = " and ".join(map(condition, rows)) or "true"
    head = ", ".join(map(name, parameters))
    return isl.Set(f"[{head}] -> {{ [{', '.join(map(name, variables))}] : {conditions} }}", CONTEXT)


def rational(rows, variables):
    """Whether inequalities and equations have a rational point: an integer one of their cone above 0."""
    conditions = [f"{text(row.form, 'scale')} {'>=' if row.kind == 'ge' else '='} 0" for row in rows]
    names = ", ".join(["scale", *map(name, variables)])
    return not isl.Set(f"{{ [{names}] : {' and '.join(['scale >= 1', *conditions])} }}", CONTEXT).is_empty()


def without(points, dropped, variables):
    """The projection on the variables that are not dropped."""
    for variable in dropped:
        position = variables.index(variable)
        points = points.project_out(isl.dim_type.set, position, 1)
        variables = [v for v in variables if v != variable]
    return points


def numbers(points):
    """All points of a bounded set, in order."""
    found = []
    dim = points.dim(isl.dim_type.set)
    points.foreach_point(
        lambda p: found.append(tuple(p.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(dim)))
    )
    return sorted(found)


def systems(start, count, loops=4):
    """Random systems with a place for the parameters, and at most so many loops."""
    made = (random_system(seed) for seed in range(start, start + 3 * count))
    return [system for system in made if system.draws and len(system.loops) <= loops][:count]


def affine_only(rows):
    """Rows without congruences and quotients: those that elimination takes."""
    return [row for row in rows if row.kind != "mod" and not row.form.quotients()]


# ---------------------------------------------------------------- emptiness, implication, redundancy


def test_emptiness_for_all_parameters():
    found = 0
    for system in systems(0, 60):
        points = isl_set([*system.rows, *system.facts], system.loops, system.parameters)
        if is_empty(system.rows, system.facts):
            assert points.is_empty(), system
            found += 1
    assert found > 5


def test_irredundant_rows_are_the_same_set():
    for system in systems(100, 60):
        facts = isl_set(system.facts, system.loops, system.parameters)
        reduced = isl_set(remove_redundant(system.rows, system.facts), system.loops, system.parameters)
        assert (isl_set(system.rows, system.loops, system.parameters) & facts).is_equal(reduced & facts), system


def test_implied_rows_and_ranges_of_forms():
    proven = 0
    for seed, system in enumerate(systems(200, 60)):
        generator = Random(seed)
        names = (*system.loops, *system.parameters)
        rows = (*system.rows, *system.facts)
        points = isl_set(rows, names)
        form = random_form(generator, names, 2)
        for row in (Row("ge", form + 9), Row("mod", form, 2), Row("eq", form)):
            if implied(row, rows):
                assert points.is_subset(isl_set([row], names)), (system, row)
                proven += 1
        least, most = minimum(form, rows), maximum(form, rows)
        outside = [Row("ge", bound) for bound in _beyond(form, least, most)]
        assert all((points & isl_set([row], names)).is_empty() for row in outside), (system, form, least, most)
    assert proven > 10


def _beyond(form, least, most):
    if least is not None:
        yield Affine.of(-(-least.numerator // least.denominator) - 1) - form
    if most is not None:
        yield form - (most.numerator // most.denominator + 1)


# ---------------------------------------------------------------- projections


def test_projections_for_all_parameters():
    """Every integer point of isl's projection is in ours; what is more there has a rational completion."""
    equal = more = 0
    for number, system in enumerate(systems(300, 90, loops=3)):
        rows = affine_only(system.rows)
        drop = system.loops[number % 2 :][:2] if len(system.loops) > 1 else system.loops
        left = [v for v in system.loops if v not in drop]
        projected = project(rows, drop)
        exact = without(isl_set(rows, system.loops, system.parameters), drop, list(system.loops))
        ours = isl_set([FALSE] if projected is None else projected, left, system.parameters)
        assert exact.is_subset(ours), system
        equal += ours.is_equal(exact)
        values = system.draws[0]
        fixed = {v: Affine.of(c) for v, c in values.items()}
        numeric = [row.substitute(fixed) for row in rows]
        surplus = isl_set([row.substitute(fixed) for row in projected or ()], left) - without(
            isl_set(numeric, system.loops), drop, list(system.loops)
        )
        if projected is None or not left or not surplus.is_bounded():
            continue
        for point in numbers(surplus)[:4]:
            at = dict(zip(left, map(Affine.of, point), strict=True))
            assert rational([row.substitute(at) for row in numeric], drop), (system, drop, point)
            more += 1
    assert equal > 40
    assert more > 2


# ---------------------------------------------------------------- loops


def numeric_nest(system):
    """The loops over a system at its first place: the rows without equations as numbers, and their bounds."""
    fixed = {v: Affine.of(c) for v, c in system.draws[0].items()}
    rows = [row for row in affine_only(system.rows) if row.kind == "ge"]
    rows = [row.substitute(fixed) for row in rows]
    best = order(rows, system.loops)
    return rows, bounds(rows, best)[0]


def test_ranges_are_those_of_isl():
    """Given the outer ones, a variable runs over the range of the projection; the innermost exactly so."""
    tight = loose = 0
    for system in systems(400, 40, loops=3):
        rows, nest = numeric_nest(system)
        variables = [limit.variable for limit in nest]
        points = isl_set(rows, variables)
        for depth, limit in enumerate(nest):
            shadow = without(points, variables[depth + 1 :], variables)
            for outer in numbers(without(shadow, [limit.variable], variables[: depth + 1]))[:6]:
                at = dict(zip(variables, outer, strict=False))
                line = shadow
                for position, value in enumerate(outer):
                    line = line.fix_val(isl.dim_type.set, position, isl.Val(value, CONTEXT))
                (*_, least), (*_, most) = numbers(line.lexmin())[0], numbers(line.lexmax())[0]
                ours = limit.range(at)
                assert ours[0] <= least <= most <= ours[-1], (system, limit, at)
                exact = ours == range(least, most + 1)
                assert exact or depth + 1 < len(nest), (system, limit, at)
                tight, loose = tight + exact, loose + (not exact)
    assert tight > 100
    assert loose < 0.1 * tight


def test_the_number_of_points():
    total = 0
    for system in systems(500, 40):
        fixed = {v: Affine.of(c) for v, c in system.draws[0].items()}
        rows = [row.substitute(fixed) for row in system.rows]
        expected = isl_set(rows, system.loops).count_val().to_python()
        found = nest_of(system)
        visits = [] if found is None else found.run(system.draws[0], lambda depth: None)
        assert len(visits) == expected, system
        if expected and len(system.loops) < 4:
            assert count_points(rows, system.loops) == expected
        total += expected
    assert total > 500


def narrow(seed):
    """Rows that leave little room between planes of large coefficients, in a box of three loops."""
    generator = Random(seed)
    rows = [row for v in "ijk" for row in (Row("ge", Affine({v: 1})), Row("ge", Affine({v: -1}, 9)))]
    for _ in range(generator.randint(1, 2)):
        form = Affine({v: generator.choice((0, 2, 3, 5, -2, -3, -4, -6)) for v in "ijk"}, generator.randint(-6, 6))
        rows += [Row("ge", form), Row("ge", generator.randint(0, 4) - form)]
    return rows


def test_only_prefixes_of_rational_points_are_visited():
    """Iterations are the points, and the prefixes without a point that a rational one continues.

    Rational are the points of the irredundant rows: dropped are rows that hold at integer points only.
    """
    iterations = points = useless = 0
    for seed in range(120):
        rows = narrow(seed)
        best = order(rows, "ijk")
        nest = bounds(rows, best)[0]
        kept = remove_redundant(rows)
        assert count_runs(nest, {}) == isl_set(rows, best).count_val().to_python()
        for depth in range(1, len(nest)):
            # The prefixes that are visited are those that the rows allow up to there, in the rationals.
            exact = numbers(without(isl_set(rows, best), best[depth:], list(best)))
            visited = prefixes(nest[:depth])
            assert set(exact) <= set(visited)
            for prefix in set(visited).difference(exact):
                at = dict(zip(best, map(Affine.of, prefix), strict=False))
                assert rational([row.substitute(at) for row in kept], best[depth:]), (rows, nest, prefix)
                useless += 1
            iterations, points = iterations + len(visited), points + len(exact)
    assert useless > 20
    assert iterations < 1.3 * points


def prefixes(nest, values=()):
    """The values of some loops, outermost first."""
    if len(values) == len(nest):
        return [values]
    at = {limit.variable: value for limit, value in zip(nest, values, strict=False)}
    return [p for v in nest[len(values)].range(at) for p in prefixes(nest, (*values, v))]


def count_runs(nest, values):
    """How often the body of a nest runs."""
    if not nest:
        return 1
    return sum(count_runs(nest[1:], {**values, nest[0].variable: v}) for v in nest[0].range(values))


# ---------------------------------------------------------------- quotients


@every("seed", range(10))
def test_quotients_of_loops_are_written_out(seed):
    system = random_system(seed + 700)
    for row in system.rows:
        if row.form.quotients():
            written = unfolded(row, frozenset(system.loops))
            if written is not None:
                names = (*system.loops, *system.parameters)
                assert isl_set([row], names).is_equal(isl_set(written, names)), (row, written)
