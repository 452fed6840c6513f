"""Schedules: each primitive on random loops computes what the loop does; the laws of nests find wrong ones."""

import math
import random
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import sympy
from as_python import as_python
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.forms import FormNames
from sympy_tensordiff.codegen.emit.numba_cpu import NumbaPrinter
from sympy_tensordiff.codegen.ir.bounds import check_bounds
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.laws import NestLaws
from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, accumulator
from sympy_tensordiff.codegen.ir.nests import exactly, extent, span
from sympy_tensordiff.codegen.ir.programs import Argument, Array, Program, entrywise
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Bound, Ends, Load, Name, Number, Operation
from sympy_tensordiff.codegen.schedule import cpu, fusion
from sympy_tensordiff.codegen.schedule.primitives import jam, rfactor, split, split_sums
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Constraint

i, n = Affine.variable("i"), Affine.variable("n")
REDUCTIONS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


def run(body, names, **values):
    """Return the value of the scalar ``s`` after the text of a nest has run."""
    NestLaws({"n", "x"}, ()).check(body)
    printer = NumbaPrinter(names, frozenset())
    printer.body(body, 0)
    own = {"real": float, "np": np, "math": math, "at": int, "plus": lambda a, b: a + b, "maximum": max, "minimum": min}
    exec("\n".join(printer.lines), own | values, found := {})
    return found["s"]


def random_loop(rng, reduction):
    """A loop of a few or of no steps, with several bounds, that reduces entries of an array."""
    lows = [
        Bound(Affine.of(rng.randint(0, 4))),
        *([Bound(n - rng.randint(5, 30), rng.randint(1, 3))] * rng.randint(0, 1)),
    ]
    highs = [Bound(n - rng.randint(1, 3)), *([Bound(2 * n - 7, rng.randint(2, 5))] * rng.randint(0, 1))]
    value = Operation("mul", (Load("x", (i,)), Load("x", (n - i,))))
    return Loop("i", tuple(lows), tuple(highs), (Set(Name("s"), value, reduction),))


def scheduled(loop, rng, fresh):
    """A loop by a random primitive that is legal for it."""
    (add,) = loop.body
    size = rng.randint(1, 9)
    ways = ["split", "rfactor", *(["sums"] if add.reduction == "sum" else [])]
    variant = rng.choice(ways)
    if variant == "split":
        return [split(loop, size, fresh("first"))]
    if variant == "rfactor":
        return rfactor(loop, size, fresh)
    return split_sums(loop, ["s"], size, fresh)


@every("seed", range(20))
def test_a_schedule_computes_what_the_loop_does(seed):
    rng = random.Random(seed)
    reduction = rng.choice(list(REDUCTIONS))
    size = rng.randint(1, 40)
    x = np.random.default_rng(seed).uniform(0.5, 1.5, size + 1)
    loop = random_loop(rng, reduction)
    first = max(-(-bound.form.evaluate({"n": size}) // bound.divisor) for bound in loop.lows)
    last = min(bound.form.evaluate({"n": size}) // bound.divisor for bound in loop.highs)
    terms = [x[k] * x[size - k] for k in range(first, last + 1)]
    names = FormNames(["i", "n", "s", "x"], ["real", "np", "math", "at", "plus"])
    begin = accumulator("s", reduction)
    found = run([begin, *scheduled(loop, rng, names.fresh)], names, x=x, n=size)
    expected = (
        REDUCTIONS[reduction](terms) if terms else {"sum": 0, "prod": 1, "max": -math.inf, "min": math.inf}[reduction]
    )
    assert found == pytest.approx(expected, rel=1e-12)


@every("seed", range(10))
def test_jammed_sums_of_rows_are_the_same_bit_for_bit(seed):
    """Terms are added in the order in which they were, however many at a time, and those that are left, too."""
    rng = random.Random(seed)
    size, columns = rng.randint(1, 40), rng.randint(1, 5)
    x = np.random.default_rng(seed).normal(size=(size + 1, columns))
    j, total = Affine.variable("j"), Load("total", (Affine.variable("j"),))
    value = Operation("mul", (Load("x", (i, j)), Load("x", (n - i, j))))
    row = span("j", Affine(), Affine.of(columns), [Set(total, value, "sum")])
    loop = replace(random_loop(rng, "sum"), body=(row,))
    begin = Set(Name("s"), Number(0))
    names = FormNames(["i", "j", "n", "s", "x", "total"], ["at"])
    results = []
    for body in ([loop], jam(loop, rng.randint(1, 9), names.fresh)):
        found = np.zeros(columns)
        printer = NumbaPrinter(names, frozenset())
        printer.body([begin, *body], 0)
        exec("\n".join(printer.lines), {"at": int, "real": float, "x": x, "n": size, "total": found})
        results.append(found)
    np.testing.assert_array_equal(*results)


STORE = Set(Load("x", (i,)), Name("s"))
BLOCK = ("first", "stop")
FIRST, STOP = map(Affine.variable, BLOCK)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([STORE], "a nest uses i, s before it is set"),
        ([Set(Name("s"), Number(1), "sum")], "a nest uses s before it is set"),
        ([span("i", Affine(), Affine.variable("m"))], "a nest uses m before it is set"),
        ([span("i", Affine(), n, [span("i", Affine(), n)])], "a nest has two loops over i inside of each other"),
        (
            [Alloc("t", (exactly(n),), "x"), Set(Load("t", (n,)), Number(1)), Set(Load("x", ()), Load("t", (n, n)))],
            "a nest reads t at 2 indices",
        ),
        ([Alloc("t", (exactly(n),), "x"), Set(Load("t", ()), Number(1))], "a nest writes to t at 0 indices"),
        ([Set(Load("x", (n,)), Number(1), "sum")], "a nest uses x before it is set"),
        ([Set(Name("s"), Load("x", (n,)))], "a nest uses x before it is set"),
        ([Set(Load("y", (n,)), Number(1))], "a nest writes to y, which is not its own"),
        (
            [span("i", Affine(), n, [Set(Load("x", (i,)), Number(1))])],
            r"another block may write to the entry \(i,\) of x",
        ),
        ([span("i", FIRST, STOP, [Set(Load("x", (i + 1,)), Number(1))])], r"another block may write to .*\(i \+ 1,\)"),
        ([span("i", FIRST, STOP + 1, [Set(Load("x", (i,)), Number(1))])], r"another block may write to .*\(i,\)"),
    ],
)
def test_wrong_nests_are_refused(body, message):
    with pytest.raises(VerificationError, match=message):
        NestLaws({"n"}, {"x"}, BLOCK).check(body)


ENTRY, NEXT = (Set(Name("s"), Load("x", (form,))) for form in (i, i + 1))


@pytest.mark.parametrize(("read", "is_right"), [(ENTRY, True), (NEXT, False)])
def test_only_what_is_complete_is_read(read, is_right):
    """Of the same turn of a loop, or of one that has ended."""
    fill = Set(Load("x", (i,)), Number(1))
    loop = span("i", Affine(), n, [fill, read])
    NestLaws({"n"}, {"x"}).check([span("i", Affine(), n, [fill]), span("i", Affine(), n, [read])])
    for nest in (loop, split(loop, 4, "first")):
        if is_right:
            NestLaws({"n"}, {"x"}).check([nest])
        else:
            with pytest.raises(VerificationError, match=r"a nest reads x while the loop over (i|first) still fills it"):
                NestLaws({"n"}, {"x"}).check([nest])


def test_a_strip_is_complete_for_a_loop_over_the_same_strip():
    """A second loop in the strip may read what the first one filled, and no loop over other entries."""
    fill = Set(Load("x", (i,)), Number(1))
    strips = split(span("i", Affine(), n, [fill]), 4, "first")
    (strip,) = strips.body
    NestLaws({"n"}, {"x"}).check([replace(strips, body=(strip, replace(strip, body=(ENTRY,))))])
    for wrong in (replace(strip, body=(NEXT,)), span("i", Affine(), n, [ENTRY])):
        with pytest.raises(VerificationError, match="a nest reads x while the loop over first still fills it"):
            NestLaws({"n"}, {"x"}).check([replace(strips, body=(strip, wrong))])


def test_no_loop_changes_its_bounds():
    with pytest.raises(VerificationError, match="a loop changes n, which its bounds need"):
        NestLaws({"n"}, {"x"}).check([span("i", Affine(), n, [Set(Name("n"), Number(1))])])


X_OF_N = Program((Argument("array", "x", "x", (n,)),), (Array("y", (n,)),), (), ())
OWN = entrywise("y", ("i",), (), Load("x", (i,)))
FILL = Set(Load("y", (i,)), Load("x", (i,)))
LAST = Set(Name("last"), Ends((), (Bound(n - 1), Bound(Affine.variable("m")))))


def ahead(loop):
    """The loop with its body for the next value."""
    return replace(loop, body=Renaming({}, forms={loop.variable: Affine.variable(loop.variable) + 1}).body(loop.body))


def uncut(blocks):
    """Blocks of which the last one is as long as the others."""
    (inner,) = blocks.body
    return replace(blocks, body=(replace(inner, highs=inner.highs[-1:]),))


@pytest.mark.parametrize(
    ("nest", "needs"),
    [
        (span("i", Affine(), n, [FILL]), None),
        (span("i", Affine(), extent("y", 0), [FILL]), None),
        (split(span("i", Affine(), n, [FILL]), 512, "first"), None),
        (span("i", Affine(), n, [If((Constraint("ge", i - 1),), (Set(Load("y", (i - 1,)), Load("x", (i,))),))]), None),
        (span("i", FIRST, STOP, [FILL]), None),
        (span("i", Affine(), n + 1, [FILL]), r"axis 0 of x needs -i + n - 1 >= 0"),
        (span("i", Affine(), n, [Set(Load("y", (i - 1,)), Load("x", (i,)))]), r"axis 0 of y needs i - 1 >= 0"),
        (ahead(span("i", Affine(), n, [FILL])), r"axis 0 of x needs -i + n - 2 >= 0"),
        (uncut(split(span("i", Affine(), n, [FILL]), 512, "first")), r"axis 0 of x needs -i + n - 1 >= 0"),
        (span("i", FIRST, STOP + 1, [FILL]), r"axis 0 of x needs -i + n - 1 >= 0"),
    ],
)
def test_a_nest_stays_inside_of_its_arrays(nest, needs):
    check = partial(check_bounds, [nest], OWN, Prover(X_OF_N), BLOCK)
    if needs is None:
        check()
    else:
        with pytest.raises(VerificationError, match=re.escape(f"the nest of y: {needs}")):
            check()


def test_a_new_array_has_the_length_that_its_loops_have():
    new = Alloc("t", (exactly(n),), "y")
    entries = span("i", Affine(), extent("t", 0), [Set(Load("t", (i,)), Load("x", (i,)))])
    check_bounds([new, LAST, entries], OWN, Prover(X_OF_N))
    reads = span("i", Affine(), Affine.variable("last"), [Set(Load("y", (i,)), Load("t", (i,)))])
    check_bounds([new, LAST, entries, reads], OWN, Prover(X_OF_N))
    for wrong in (replace(new, shape=(exactly(n - 1),)), replace(new, shape=(exactly(n + 1),))):
        with pytest.raises(VerificationError, match=r"the nest of y: axis 0 of [tx] needs"):
            check_bounds([wrong, LAST, entries, reads], OWN, Prover(X_OF_N))


def threads(variable, *inside):
    return replace(span(variable, Affine(), n, inside), bind="grid.x")


MEET = "a nest writes to x in threads for each"


@pytest.mark.parametrize(
    ("nest", "message"),
    [
        (threads("i", threads("j", Set(Load("x", (i,)), Number(1)))), f"{MEET} j"),
        (threads("i", Set(Load("x", (i + 1,)), Number(1))), f"{MEET} i"),
    ],
)
def test_threads_do_not_meet(nest, message):
    with pytest.raises(VerificationError, match=message):
        NestLaws({"n"}, {"x"}).check([nest])
    NestLaws({"n"}, {"x"}).check([threads("i", Set(Load("x", (i,)), Number(1)))])


@pytest.mark.parametrize("reduction", [td.IndexedSum, td.IndexedMax])
@pytest.mark.parametrize("inner", [True, False])
def test_totals_of_rows_are_their_entries_in_each_loop(reduction, inner):
    """With large angles: a loop that sets an entry from what it held cannot run again with other sines."""
    rows, columns = sympy.symbols("rows columns", integer=True, positive=True)
    p, q, k = sympy.symbols("p q k", integer=True)
    x = td.TensorSymbol("x", (rows, columns))
    soft = td.TensorComprehension(
        sympy.exp(x[p, q]) * td.IndexedSum(x[p, k], (k, 0, columns - 1)), (p, rows), (q, columns)
    )
    entry = 10**7 * soft[k, q]
    value = sympy.sin(entry) if inner else entry
    total = reduction(value, (k, 0, rows - 1))
    result = td.TensorComprehension(total if inner else sympy.sin(total), (q, columns))
    function = td.lambdify((x,), (soft, result))
    assert "together" in function.plan
    values = np.random.default_rng(0).standard_normal((12, 9))
    expected = td.lambdify((x,), (soft, result), "numpy")(values)
    found = [np.full_like(array, np.nan) for array in expected]
    as_python(function.source)(values, *found)
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-5)


p, q, k, r, size = td.indices("p q k r size")
v, w, rows = td.TensorSymbol("v", size), td.TensorSymbol("w", (size, size)), td.TensorSymbol("r", (3, size))
idx = td.TensorSymbol("idx", (size, size), dtype=int, below=size)
RULES = {
    "usual": td.sqrt(td.sum(rows**2, axis=0)),
    "sink": td.TensorComprehension(td.IndexedSum(w[k, q], (k, 0, size - 1)), (q, size)),
    "carry": td.TensorComprehension(td.IndexedSum(v[k], (k, 0, p)), (p, size)),
    "gather": td.TensorComprehension(sympy.exp(v[idx[p, q]]), (p, size), (q, size)),
    "jam": td.TensorComprehension(td.IndexedSum(rows[q, k] * sympy.exp(v[k]), (k, 0, size - 1)), (q, 3)),
    "jam rows": td.TensorComprehension(td.IndexedSum(v[k] * w[k, q], (k, 0, size - 1)), (q, size)),
    "rfactor": td.IndexedMax(v[k], (k, 0, size - 1)),
    "split": td.IndexedSum(v[k], (k, 0, size - 1)),
    "distribute": td.TensorComprehension(sympy.exp(td.IndexedSum(w[p, k] ** 2, (k, 0, size - 1))), (p, size)),
    "near angles": td.TensorComprehension(sympy.sin(v[p]), (p, size)),
    "interior": td.TensorComprehension(v[p] - v[sympy.Mod(p + 1, size)], (p, size)),
    "read once": td.TensorComprehension(td.IndexedSum(w[idx[p, k], q], (k, 0, size - 1)), (p, size), (q, size)),
}


@pytest.mark.parametrize(
    "term",
    [
        sympy.exp(w[k, q] * v[k]),  # the function takes most of the time
        w[idx[p, k], q] * v[k],  # rows that data select
        (w[k, q] * v[p] + v[k] * v[q] + w[p, k])
        * (w[k, q] * w[p, q] + v[k])
        * (w[k, q] + v[q] + w[k, p]),  # many reads
    ],
    ids=["functions", "data", "weight"],
)
def test_sums_of_rows_that_are_not_jammed(term):
    expression = td.TensorComprehension(td.IndexedSum(term, (k, 0, size - 1)), (p, size), (q, size))
    plan = td.lambdify([one for one in (v, w, idx) if expression.has(one)], expression).plan
    assert "sink" in plan and "jam rows" not in plan


def test_a_loop_is_cut_once_at_several_conditions():
    """Functions under conditions of their own: a cut at each would double the text each time."""
    terms = [td.IndexedSum(sympy.exp(step * v[k]), (k, 0, size - 1 - step)) for step in range(1, 9)]
    one, all_ = (td.lambdify(v, td.gradient(sum(part), v)) for part in (terms[:1], terms))
    assert "interior" in one.plan and "interior" in all_.plan
    assert all_.source.count("for ") <= one.source.count("for ") + 1


@pytest.mark.usefixtures("uncompiled")
def test_a_loop_that_does_nothing_else_is_no_loop():
    """Functions under the only condition in a loop: there is nothing to do where it does not hold."""
    value = td.IndexedSum(sympy.Piecewise((sympy.exp(w[k, k]), k <= size - 2), (0, True)), (k, 0, size - 1))
    slope = td.lambdify(w, td.gradient(value, w))
    assert "interior" in slope.plan
    given = np.arange(16.0).reshape(4, 4) / 9
    np.testing.assert_allclose(slope(given), np.diag([*np.exp(np.diag(given)[:-1]), 0]), rtol=1e-12)


def test_plans_name_the_rules():
    assert set(RULES) == {rule.name for rule in (*cpu.ROWS, *cpu.LOOPS, cpu.ONCE)}
    for name, expression in RULES.items():
        arguments = [one for one in (v, w, rows, idx) if expression.has(one)]
        plan = td.lambdify(arguments, expression, "numba" if name == "rfactor" else "llvm").plan
        (rule,) = [rule for rule in (*cpu.ROWS, *cpu.LOOPS, cpu.ONCE) if rule.name == name]
        assert f"\n     {name}: {rule.reason}" in plan, plan
    assert "\n     " not in td.lambdify([v], RULES["split"], "numpy").plan


def test_plain_loops_where_a_schedule_is_not_proved(monkeypatch, proved_schedules):
    """A rule of blocks, the last one of which is as long as the others."""
    rule = cpu.Rule("blocks", "", lambda loop, site, _: (uncut(split(loop, 64, site.fresh("first"))),))
    monkeypatch.setattr(cpu, "LOOPS", (rule,))
    x, k = td.TensorSymbol("x", 100), td.indices("k")
    value = td.TensorComprehension(2 * x[k] + 1, (k, 100))
    with pytest.raises(VerificationError, match="the nest of result: axis 0 of x needs"):
        td.generate_code([x], value)
    monkeypatch.setattr(fusion, "in_plain_loops", proved_schedules)
    function = td.lambdify([x], value)
    assert function.plan.endswith(f"\n     {cpu.PLAIN.name}: {cpu.PLAIN.reason}")
    assert "for k in range(result.shape[0]):" in function.source
    given = np.arange(100.0)
    np.testing.assert_allclose(function(given), 2 * given + 1)
