"""Mutants of the code: each makes a core of checks fail, which passes on the code as it is.

The core compares exact rationals of the reference interpreter; each mutant is one error that
somebody could make (or has made), patched in for one run.
"""

import itertools
import sys
from fractions import Fraction

import numpy as np
import pytest
import sympy
from exact_checks import contract
from sympy import Abs, Eq, Max, Min, Mod, Piecewise

from sympy_tensordiff import IndexedSum, TensorComprehension, TensorSymbol, hessian, indices, jacobian, vjp
from sympy_tensordiff.derivative import pullbacks, sweep
from sympy_tensordiff.graph import nodes, write
from sympy_tensordiff.integer import affine, fourier_motzkin, implication, nests, smith, solving, values
from sympy_tensordiff.integer import rows as conditions
from sympy_tensordiff.reference import differentiate, evaluate, points
from sympy_tensordiff.reference import hessian as second_derivative
from sympy_tensordiff.simplify import bounds, pipeline
from sympy_tensordiff.simplify import node_properties as choices
from sympy_tensordiff.symbolic.expressions import binders

i, j, k, l, p, q = indices("i j k l p q")


def numbers(*shape, start=1):
    """Different rationals without symmetry, the first ones of both signs; nested as the shape says."""
    count = itertools.count(start)

    def fill(extents):
        if extents:
            return [fill(extents[1:]) for _ in range(extents[0])]
        n = next(count)
        return Fraction((-1) ** (n // 2) * (n * n + 1), 1 + n % 3)

    return fill(shape)


def tensor(name, *shape):
    return TensorSymbol(name, shape)


def table(body, *limits):
    return TensorComprehension(body, *limits)


def check(function, *variables, values=None, sizes=None, second=False):
    """Pullback and Jacobian by each variable are those of the oracle, entry by entry."""
    df = TensorSymbol("df", getattr(function, "shape", ()))
    tensors = sorted(function.atoms(TensorSymbol) | {df}, key=lambda t: t.name)
    shapes = [[int(extent.subs(sizes or {})) for extent in t.shape] for t in tensors]
    inputs = {t: numbers(*shape, start=2 * n + 1) for n, (t, shape) in enumerate(zip(tensors, shapes, strict=True))}
    inputs |= {**(values or {}), **(sizes or {})}
    for variable in variables:
        expected = differentiate(function, variable, inputs)
        same(vjp(function, variable, df), inputs, contract(np.asarray(inputs[df], dtype=object), expected))
        same(jacobian(function, variable), inputs, expected)
        if second:
            same(hessian(function, variable), inputs, second_derivative(function, variable, inputs))


def check_entry(function, entry, **at):
    """Plain ``diff`` by one entry is that entry of the oracle's derivative."""
    index = {s: at[s.name] for s in function.free_symbols | entry.free_symbols if s.is_Symbol}
    tensors = sorted(function.atoms(TensorSymbol), key=lambda t: t.name)
    inputs = {t: numbers(*map(int, t.shape), start=2 * n + 1) for n, t in enumerate(tensors)} | index
    position = tuple(int(sympy.sympify(e).subs(index)) for e in entry.indices)
    same(sympy.diff(function, entry), inputs, differentiate(function, entry.tensor, inputs)[(..., *position)])


def same(result, inputs, expected):
    got = evaluate(result, inputs)
    assert np.shape(got) == np.shape(expected)
    assert np.array_equal(got, expected), (got, expected)


def check_tight(function, variable):
    """No value of an outer index has an empty inner range, whatever the entry."""
    result = vjp(function, variable, tensor("df", *map(int, function.shape)))
    for entry in itertools.product(*(range(int(extent)) for extent in variable.shape)):
        at = dict(zip(result.indices, entry, strict=True))
        for total in result.atoms(IndexedSum):
            outer = {point[1:] for point in points(*total.limits, values=at)}
            assert outer == set(points(*total.limits[1:], values=at)), (total, entry)


# ---------------------------------------------------------------------------- the core

x, y, z, w = tensor("x", 8), tensor("y", 8), tensor("z", 5), tensor("w", 3)
A, B = tensor("A", 4, 4), tensor("B", 9, 9)
small, long = tensor("u", 4), tensor("v", 40)
KINKS = {x: [0, 1, -1, Fraction(1, 2), 2, 0, -2, 3], y: [0, 1, 1, -1, 2, 3, -3, 3]}


def _section_6():
    a, b, c, d = tensor("a", 2, 3), tensor("b", 3, 3), tensor("c", 2, 2), tensor("d", 4)
    inner = IndexedSum((a[i, k] + b[j, k]) ** 2 * c[i, i] + d[i + k] ** 3, (k, 0, 2))
    check(table(1 / (1 + inner**2), (i, 2), (j, 3)), a, b, c, d)


def _window():
    check(table(IndexedSum(x[i + k] ** 2 * w[k], (k, 0, 2)) ** 3, (i, 4)), x, w)


def _congruences():
    check(table(x[2 * i], (i, 3)), x)
    check(table(x[2 * i + 1] ** 2, (i, 4)), x)
    check(table(long[2 * i + 4 * j] * small[i], (i, 4), (j, 3)), long, small)
    check(table(B[2 * i + 4 * j, 3 * j] ** 2, (i, 2), (j, 2)), B)
    # No unit coefficient and no common divisor in a row: Smith's factors are 1 and 5.
    check(table(B[2 * i + 3 * j, 3 * i + 2 * j] ** 2, (i, 2), (j, 2)), B)


def _cokernels():
    check(table(B[2 * i, i] ** 2, (i, 4)), B)
    check(table(B[i, i] * z[i], (i, 5)), B, z)
    check(table(B[2 * i + 3 * j, 2 * i + 3 * j] * w[j], (i, 2), (j, 2)), B, w)


def _lattices():
    check(table(long[6 * i + 10 * j + 15 * k] * w[k], (i, 2), (j, 2), (k, 2)), long, w)
    check(table(x[i - 2 * j + 4] ** 2, (i, 4), (j, 3)), x)
    check(table(x[5 - i], (i, 6)), x)
    # A number on the right side is rounded: 5 - 2*j >= 0 is j <= 2.
    for entry in range(8):
        check_entry(IndexedSum(x[i + 2 * j] * small[i] * w[j], (i, 0, 3), (j, 0, 2)), x[entry])


def _tight_ranges():
    for function in (
        table(x[i + j], (i, 4), (j, 5)),
        table(long[i + 2 * j + 3 * k] * w[k], (i, 4), (j, 4), (k, 3)),
        table(long[i - 2 * j - 2 * k + 16], (i, 5), (j, 5), (k, 5)),
        table(IndexedSum(long[i + k + l], (k, 0, i), (l, 0, 3)), (i, 5)),
    ):
        check_tight(function, function.atoms(TensorSymbol).intersection({x, long}).pop())


def _shifts():
    check(table(x[i + 2], (i, 3)), x)
    check(table(x[i + 2] ** 2 * z[i], (i, 5)), x, z)


def _one_name():
    check(IndexedSum(x[k] * IndexedSum(z[k] * x[k], (k, 0, 4)), (k, 0, 7)), x, z, second=True)
    check(
        table(IndexedSum(A[i, k] * small[k], (k, 0, 3)) * IndexedSum(A[k, i] * small[k], (k, 0, 3)), (i, 4)), A, small
    )
    row = IndexedSum(A[i, k] * small[k], (k, 0, 3))
    inputs = {A: numbers(4, 4), small: numbers(4)}
    for n in range(4):
        expected = evaluate(row, {**inputs, i: n})
        same(row.subs(i, k), {**inputs, k: n}, expected)
        check_entry(row.subs(i, k), A[k, l], k=n, l=2)
        same(sympy.diff(row, small[p]).subs(p, k), {**inputs, i: 3, k: n}, inputs[A][3][n])
        same(
            table(small[i] * A[i, j], (i, 4))[k].subs(j, i), {**inputs, k: 2, i: n}, inputs[small][2] * inputs[A][2][n]
        )


def _guards():
    check(table(1 / (2 + Piecewise((x[i - 1] ** 2, i >= 1), (0, True))) * y[i], (i, 8)), x, y)
    inner = 1 / (2 + Piecewise((z[k - 1] ** 2, k >= 2), (0, True)))
    check(table(IndexedSum(x[i + k] * inner, (k, 0, 4)), (i, 4)), x, z)
    padded = Piecewise((z[i + k - 1], (i + k >= 1) & (i + k <= 5)), (0, True))
    check(table(IndexedSum(padded * w[k], (k, 0, 2)), (i, 5)), z, w)
    check(table(Piecewise((x[i], Eq(Mod(i, 2), 0)), (x[7 - i] ** 2, True)), (i, 8)), x)
    check(table(Piecewise((A[i, j] ** 2, Eq(i, j)), (A[j, i], i < j), (0, True)), (i, 4), (j, 4)), A)


def _whole_sums():
    check(1 / (1 + IndexedSum(z[k] ** 2, (k, 0, 4))), z, second=True)
    check(table(IndexedSum(x[i + k] * w[k], (k, 0, 2)) ** 3 * x[i], (i, 4)), x, w)


def _staged_sums():
    check(IndexedSum(z[i] * IndexedSum(x[k] * small[k] ** 2, (k, 0, i)), (i, 0, 3)), x, small, z)
    check(IndexedSum(IndexedSum(A[i, k] * small[k], (k, 0, 3)) ** 2 * z[i + 1], (i, 0, 3)), A, small, z, second=False)


def _empty_ranges():
    check(table(IndexedSum(z[i] ** 2 * y[0], (k, i, 2)), (i, 5)), z, y)
    check(table(IndexedSum(z[k] ** 2, (k, i, 3)) + x[i], (i, 8)), z, x)
    check(table(x[i] * IndexedSum(z[i] ** 2, (k, i, 2)), (i, 5)), x, z)
    check(table(x[i] * IndexedSum(w[i] * z[k], (k, i, 2)), (i, 8)), x, z, w)
    check(table(Piecewise((IndexedSum(z[k] * small[i - 4], (k, 0, 4)), i >= 4), (x[i], True)), (i, 8)), z, small, x)
    # Nothing is divided by x[0], which is 0: there the sum is empty.
    check(IndexedSum(y[j] / x[i], (j, 1, i), (i, 0, 7)), x, y, values={x: list(range(8))})


def _shared_reads():
    check(table((x[i] + 1) * y[i] + (x[i] + 1) ** 3 * x[i], (i, 8)), x, y)
    check(IndexedSum(IndexedSum(x[i] * x[i + j], (j, 0, 3)) ** 2 * x[i], (i, 0, 4)), x, second=True)


def _sizes():
    n = indices("n")
    u = tensor("u", n)
    # u[2 - k] says that n >= 3, but only where the sum is not empty.
    total = IndexedSum(u[2 - k] * z[1] + z[0] ** 2, (k, 0, n - 3)) + u[0]
    for size in (1, 2, 4):
        check(total, u, z, sizes={n: size})
    check(table(u[i] * u[n - 1 - i] ** 2, (i, n)), u, sizes={n: 4})


def _chains():
    first = table(x[i] * x[i + 1], (i, 7))
    second = table(first[i] ** 2 + first[i + 2] * x[i], (i, 5))
    check(table(second[2 * i] * first[i], (i, 3)), x)
    check(IndexedSum(second[k] * first[k] * z[k], (k, 0, 4)), x, z)


def _kinks():
    check(table(Abs(x[i]) * y[i], (i, 8)), x, y, values=KINKS)
    check(table(Max(x[i], y[i]), (i, 8)), x, y, values=KINKS)
    check(table(Min(x[i], y[i]), (i, 8)), x, y, values=KINKS)
    check(table(Max(x[i], 1) * Min(y[i], 0), (i, 8)), x, y, values=KINKS)
    check(table(Piecewise((x[i] ** 2, x[i] > y[i]), (y[i] ** 3, True)), (i, 8)), x, y, values=KINKS)


def _reads():
    # No entry is chosen where the other factor would be read at -4.
    n, m = indices("n m")
    u, bounds_of = tensor("u", n + 9), tensor("c", 2 * n + 1)
    chosen = Piecewise((u[0] * u[5 * m - n - 6] ** 2, x[0] < bounds_of[n - m - i + 3]), (0, True))
    check(table(chosen, (i, m)), u, sizes={n: 3, m: 1}, values={bounds_of: [-99] * 7})


def _choices():
    # Nothing is divided by x[0], which is 0, for both uses of the quotient.
    inverse = 1 / x[i]
    first, second = (Piecewise((f, x[i] > n), (0, True)) for n, f in enumerate((inverse * y[i], 3 * inverse + 1)))
    check(table(first + second, (i, 8)), x, y, values={x: list(range(8))})


CORE = (
    *(_shifts, _kinks, _window, _cokernels, _one_name, _shared_reads, _staged_sums, _sizes, _guards),
    *(_reads, _choices),
    *(_chains, _whole_sums, _empty_ranges, _congruences, _lattices, _tight_ranges, _section_6),
)


def run_core():
    """Raise where anything differs."""
    for part in CORE:
        part()


# ---------------------------------------------------------------------------- the mutants


class Patches:
    """Replaces functions wherever the package has imported them, and knows whether they ran."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch
        self.calls = 0

    def _counted(self, mutate, *first):
        def mutant(*args, **kwargs):
            self.calls += 1
            return mutate(*first, *args, **kwargs)

        return mutant

    def function(self, module, name, mutate):
        """``mutate(original, *args)`` in place of a function of a module, wherever it was imported."""
        original = getattr(module, name)
        mutant = self._counted(mutate, original)
        for other in [m for n, m in sys.modules.items() if n.startswith("sympy_tensordiff")]:
            if getattr(other, name, None) is original:
                self.monkeypatch.setattr(other, name, mutant)

    def attribute(self, owner, name, mutate):
        """``mutate(original, *args)`` in place of a method, or of a function that one module has imported."""
        self.monkeypatch.setattr(owner, name, self._counted(mutate, getattr(owner, name)))

    def rule(self, rules, key, mutate):
        """``mutate(original, *args)`` in place of a pullback rule."""
        self.monkeypatch.setitem(rules, key, self._counted(mutate, rules[key]))


def congruence_dropped(patches):
    def mutate(original, row, remaining):
        divided = original(row, remaining)
        return divided and divided[1:]

    patches.function(solving, "_divided", mutate)


def congruence_of_smith_dropped(patches):
    patches.function(smith, "solve", lambda original, *args: original(*args)._replace(congruences=()))


def cokernel_dropped(patches):
    patches.function(smith, "solve", lambda original, *args: original(*args)._replace(equations=()))


def leftover_equation_dropped(patches):
    def mutate(original, graph, variables, rows):
        solution = original(graph, variables, rows)
        if solution is None:
            return None
        remaining, mapping, rows = solution
        return remaining, mapping, tuple(row for row in rows if row.kind != "eq")

    patches.function(solving, "solve_equations", mutate)


def upper_bound_shifted(patches):
    def mutate(original, variable, rows, known):
        limit = original(variable, rows, known)
        return limit._replace(highs=tuple((form - divisor, divisor) for form, divisor in limit.highs))

    patches.function(nests, "_bounds_of", mutate)


def lower_bound_shifted(patches):
    def mutate(original, variable, rows, known):
        limit = original(variable, rows, known)
        return limit._replace(lows=tuple((form + divisor, divisor) for form, divisor in limit.lows))

    patches.function(nests, "_bounds_of", mutate)


def a_bound_dropped(patches):
    def mutate(original, variable, rows, known):
        limit = original(variable, rows, known)
        return limit._replace(highs=limit.highs[:1])

    patches.function(nests, "_bounds_of", mutate)


def renaming_off_in_the_graph(patches):
    def mutate(original, graph, name):
        return graph.names.index(name) if name in graph.names else original(graph, name)

    patches.attribute(nodes.Graph, "fresh", mutate)


def renaming_off_when_written(patches):
    def mutate(original, writer, variables, names, scope):
        symbols = [sympy.Symbol(name, integer=True) for name in names]
        return (*scope, *zip(variables, symbols, strict=True))

    patches.attribute(write.ExpressionWriter, "bind", mutate)


def renaming_off_in_substitutions(patches):
    patches.attribute(binders.Binder, "_clashing", lambda original, binder, symbols: set())


def guard_not_substituted(patches):
    def mutate(original, graph, node, args, mapping=None):
        if node.op == "guard":
            return graph.guard(node.data, args[0])
        return original(graph, node, args, mapping)

    patches.attribute(nodes.Graph, "rebuild", mutate)


def guard_ignored_in_the_sweep(patches):
    def mutate(original, sweep_, node, rows, cotangent):
        while node.op == "guard":
            node = node.args[0]
        return original(sweep_, node, rows, cotangent)

    patches.attribute(sweep.Sweep, "_add_cotangent", mutate)


def rows_of_one_contribution_dropped(patches):
    def mutate(original, sweep_, node, parts):
        return [((), cotangent) for _, cotangent in original(sweep_, node, parts)]

    patches.attribute(sweep.Sweep, "_merged", mutate)


def only_the_last_contribution(patches):
    patches.attribute(sweep.Sweep, "_merged", lambda original, self, node, parts: original(self, node, parts[-1:]))


def ceil_in_place_of_floor(patches):
    def mutate(original, row):
        content = row.form.content() if row.kind == "ge" else 0
        if content > 1:
            up = -row.form.constant % content
            row = affine.Constraint("ge", row.form + up)
        return original(row)

    patches.function(conditions, "normalise", mutate)


def rows_not_tightened(patches):
    patches.function(values, "tighten_by_congruences", lambda original, rows: tuple(r for r in rows if r.kind != "mod"))


def a_redundant_row_too_many(patches):
    def mutate(original, rows, facts=()):
        result = original(rows, facts)
        return result[1:] if len(result) > 3 else result

    patches.function(implication, "remove_redundant", mutate)


def derivative_of_abs_is_one(patches):
    patches.rule(pullbacks.FUNCTIONS, sympy.Abs, lambda original, graph, node, cotangent, position: cotangent)


def derivative_of_abs_at_zero_is_one(patches):
    def mutate(original, graph, node, cotangent, position):
        negative = graph.compare("lt", node.args[0], graph.zero)
        return graph.select(negative, graph.neg(cotangent), cotangent)

    patches.rule(pullbacks.FUNCTIONS, sympy.Abs, mutate)


def min_differentiated_as_max(patches):
    def mutate(original, graph, node, cotangent, position):
        return original(graph, graph.call(sympy.Max, node.args), cotangent, position)

    patches.rule(pullbacks.FUNCTIONS, sympy.Min, mutate)


def ties_not_shared(patches):
    def mutate(original, graph, node, cotangent, position):
        others = [a for n, a in enumerate(node.args) if n != position]
        wins = [graph.compare("le", *((a, node.args[position]))) for a in others]
        return graph.select(graph.logic("and", wins), cotangent, graph.zero)

    patches.rule(pullbacks.FUNCTIONS, sympy.Max, mutate)


def branches_exchanged(patches):
    def mutate(original, graph, node, cotangent, position):
        return original(graph, node, cotangent, {0: 0, 1: 2, 2: 1}[position])

    patches.rule(pullbacks.PULLBACKS, "select", mutate)


def summand_in_place_of_the_sum(patches):
    def mutate(original, sweep_, node):
        if node.op != "sum":
            return original(sweep_, node)
        graph = sweep_.graph
        for rows, cotangent in sweep_._merged(node, sweep_._cotangents.pop(node)):
            variables, more, body = graph.open(node)
            sweep_._bind(variables, 1)
            sweep_._add_cotangent(body, rows + more, pullbacks.replace(graph, cotangent, {node: body}))
        return None

    patches.attribute(sweep.Sweep, "_visit", mutate)


def second_read_of_a_chain_dropped(patches):
    def mutate(original, sweep_, node, rows, cotangent):
        if node.args[0].op == "tensor" or node.args[0] not in sweep_._reads:
            original(sweep_, node, rows, cotangent)

    patches.attribute(sweep.Sweep, "_read", mutate)


def projection_dropped_in_staging(patches):
    patches.attribute(sweep, "project", lambda original, rows, drop, facts, most: ())


def staging_forgets_the_outer_rows(patches):
    def mutate(original, sweep_, node, rows, cotangent):
        remaining, total = original(sweep_, node, rows, cotangent)
        return (remaining if len(rows) == len(remaining) else ()), total

    patches.attribute(sweep.Sweep, "_sum_unused_indices", mutate)


def pivot_with_the_wrong_sign(patches):
    def mutate(original, graph, remaining, rows):
        step = original(graph, remaining, rows)
        if step is None:
            return None
        mapping, rest, left = step
        if len(mapping) == 1 and rest == rows and len(left) < len(remaining):
            mapping = {v: -form for v, form in mapping.items()}
        return mapping, rest, left

    patches.function(solving, "_solving_step", mutate)


def reads_of_a_result_are_facts(patches):
    def mutate(original, tighten, node, known):
        reads = [part for part in nodes.reachable(node.args[0]) if part.op == "read" and part.args[0].op == "tensor"]
        return original(
            tighten, node, (*known, *(row for read in reads for row in choices.inside_shape(tighten.graph, read)))
        )

    patches.attribute(bounds._Tighten, "guard", mutate)


def pair_of_fourier_motzkin_dropped(patches):
    patches.attribute(fourier_motzkin, "product", lambda original, lows, highs: list(original(lows, highs))[:-1])


def factors_taken_out_of_empty_sums(patches):
    patches.function(values, "are_ranges_nonempty", lambda original, limits, known: True)


def reads_left_unguarded(patches):
    patches.function(pipeline, "explicit_reads", lambda original, graph, nodes, *more: list(nodes))


def slopes_multiplied_where_nothing_is_chosen(patches):
    patches.function(pullbacks, "_applied", lambda original, graph, cotangent, rule: rule(cotangent))


def sums_taken_for_nonempty(patches):
    patches.function(values, "has_point", lambda original, rows, variables, known: True)


MUTANTS = [
    congruence_dropped,
    congruence_of_smith_dropped,
    cokernel_dropped,
    leftover_equation_dropped,
    upper_bound_shifted,
    lower_bound_shifted,
    a_bound_dropped,
    renaming_off_in_the_graph,
    renaming_off_when_written,
    renaming_off_in_substitutions,
    guard_not_substituted,
    guard_ignored_in_the_sweep,
    rows_of_one_contribution_dropped,
    only_the_last_contribution,
    ceil_in_place_of_floor,
    rows_not_tightened,
    a_redundant_row_too_many,
    derivative_of_abs_is_one,
    derivative_of_abs_at_zero_is_one,
    min_differentiated_as_max,
    ties_not_shared,
    branches_exchanged,
    summand_in_place_of_the_sum,
    second_read_of_a_chain_dropped,
    projection_dropped_in_staging,
    staging_forgets_the_outer_rows,
    pivot_with_the_wrong_sign,
    reads_of_a_result_are_facts,
    pair_of_fourier_motzkin_dropped,
    factors_taken_out_of_empty_sums,
    reads_left_unguarded,
    slopes_multiplied_where_nothing_is_chosen,
    sums_taken_for_nonempty,
]


def clear_caches():
    """Forget everything that the package and SymPy remember between calls."""
    for module in [m for n, m in sys.modules.items() if n.startswith("sympy_tensordiff")]:
        for value in list(vars(module).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    sympy.core.cache.clear_cache()


@pytest.fixture(autouse=True)
def _fresh_caches():
    clear_caches()
    yield
    clear_caches()


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("part", CORE, ids=lambda part: part.__name__.strip("_"))
def test_the_core_passes(part):
    part()


@pytest.mark.thorough  # it tests the tests
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_makes_the_core_fail(mutant, monkeypatch):
    patches = Patches(monkeypatch)
    mutant(patches)
    failure = None
    try:
        run_core()
    except Exception as error:
        failure = error
    finally:
        monkeypatch.undo()
    assert patches.calls, "the mutated code did not run"
    assert failure is not None, "the mutant survives"
    assert not isinstance(failure, NameError | AttributeError | SyntaxError | TypeError), failure
    print(type(failure).__name__, str(failure).partition("\n")[0][:150])
