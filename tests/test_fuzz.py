"""Random cases of the whole class, and the command that checks them for as long as one likes."""

from __future__ import annotations

import re
import runpy
import sys
from contextlib import suppress

import pytest
from every import every
from fuzz import extrema, formulas, function_checks, random_function, system_checks
from fuzz import run as fuzz
from fuzz.__main__ import main
from fuzz.costs import CostExceededError, assert_within_law

import sympy_tensordiff as td
from sympy_tensordiff import TensorComprehension
from sympy_tensordiff.errors import UnsupportedError, VerificationError
from sympy_tensordiff.integer import implication, nests
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import random_values

# ---------------------------------------------------------------- what they find


def test_no_system_differs_from_enumeration():
    report = []
    tally = fuzz.fuzz({"systems": 120}, seed=10**6, write=report.append)
    assert tally.counts == {("systems", "right"): 120}
    assert report[0] == "systems: 120 right"
    assert tally.exit_code == 0


@pytest.mark.in_turns(8)
def test_random_index_maps_and_reductions():
    made = [random_function(seed, kinks=False, depth=2) for seed in range(40)]
    assert made[3].function == random_function(3, kinks=False, depth=2).function
    text = " ".join(str(m.function) for m in made)
    for part in (
        *("floor(", "ceiling(", "Mod(floor(", "floor(floor(", "/N)", ", N)", "*floor(", "(w, "),
        *("Max(0, Min(", "Abs(", "IndexedSum(", "IndexedProduct(", "IndexedMax(", "IndexedMin("),
        *("idx[", "jdx[", "pairs[", "place[0]", "[idx[", "*idx[", "(idx["),
    ):
        assert part in text, part
    for seed, function in enumerate(made[:8]):
        for draw in function.draws:
            data = function_checks.data_of(function, draw, seed)
            evaluate(function.function, random_values((function.function, *function.variables), draw, seed, given=data))


@pytest.mark.in_turns(8)
def test_no_index_map_differs_from_the_interpreter(thorough):
    tally = fuzz.fuzz({"maps": 8 if thorough else 2}, seed=3 * 10**6, write=lambda line: None)
    assert set(tally.counts) <= {("maps", "right"), ("maps", "refused")}
    assert tally.counts["maps", "right"] > 1


@pytest.mark.in_turns(10)
def test_no_recurrence_differs_from_dual_numbers(thorough):
    tally = fuzz.fuzz({"recurrences": 40 if thorough else 3}, seed=4, write=lambda line: None)
    assert set(tally.counts) == {("recurrences", "right")}


@pytest.mark.in_turns(8)
def test_no_function_differs_from_the_interpreter():
    tally = fuzz.fuzz({"functions": 3, "tensors": 1}, seed=2 * 10**6 + 6, write=lambda line: None)
    assert tally.counts == {("functions", "right"): 3, ("tensors", "right"): 1}


@pytest.mark.usefixtures("uncompiled")
@every("seed, masks", [(1001, False), (2016, True), (2019, True), (2021, True), (550147, False)], turns=8)
def test_extrema_and_masked_reads(seed, masks):
    extrema.check_extrema(seed, masks, ("numpy", "numba"))


@pytest.mark.usefixtures("uncompiled")
@every(
    "seed, backend",
    [(551345, "llvm"), (551467, "llvm"), (551467, "numba"), (552141, "numpy"), (553569, "numpy"), (580110, "llvm")],
    turns=8,
)
def test_maxima_of_equal_values(seed, backend):
    """Their derivatives compare values that are computed in different loops, and are one number.

    The last one has remainders behind a condition, of which LLVM makes wrong vectors.
    """
    extrema.check_extrema(seed, backends=(backend,))


@pytest.mark.in_turns(8)
def test_no_extremum_differs_from_dual_numbers(thorough):
    tally = fuzz.fuzz(
        {"extrema": 40 if thorough else 4, "masked": 40 if thorough else 4}, seed=2010, write=lambda line: None
    )
    assert {verdict for _, verdict in tally.counts} <= {"right", "refused"}
    assert tally.counts["extrema", "right"] and tally.counts["masked", "right"]


@every("seed", [29, 91000, 91001], turns=10)
def test_texts_of_random_tensors_are_read_and_have_their_values(seed):
    function_checks.check_function(seed, "tensors")


def test_indices_times_sizes_are_not_projected():
    function_checks.check_function(300165)


# ---------------------------------------------------------------- a planted bug is found


def forgetful(rows, variables, facts=()):
    """Loops whose outermost bound is one too large."""
    nest, rest = nests.bounds(rows, variables, facts)
    head = nest[:1]
    return tuple(b._replace(highs=tuple((f + 1, d) for f, d in b.highs)) for b in head) + nest[1:], rest


def test_a_planted_bug_is_found_and_reproduced_by_its_seed(monkeypatch, capsys):
    monkeypatch.setattr(system_checks, "bounds", forgetful)
    assert main(["--systems", "30", "--seed", "5"]) == 1
    printed = capsys.readouterr().out
    assert "wrong, VerificationError: the points of the loops differs from enumeration" in printed
    command = re.search(r"python -m tests.fuzz (--seed \d+ --systems 1)$", printed, re.M)
    assert command is not None
    assert main(command[1].split()) == 1
    assert "systems: 1 wrong" in capsys.readouterr().out
    monkeypatch.undo()
    assert main(command[1].split()) == 0


PLANTED = {
    "solve_equations": lambda graph, variables, rows: (list(variables), {}, tuple(r for r in rows if r.kind == "ge")),
    "is_empty": lambda rows, facts=(): len(rows) > 4,
    "find_point": lambda rows, variables: None,
    "count_points": lambda rows, variables: 0,
    "remove_redundant": lambda rows, facts=(): tuple(rows[1:]),
    "is_implied": lambda row, rows: True,
    "minimum": lambda form, rows: implication.maximum(form, rows),
    "maximum": lambda form, rows: implication.minimum(form, rows),
}


def test_rows_that_follow_from_others_are_found(monkeypatch):
    monkeypatch.setattr(system_checks, "remove_redundant", lambda rows, facts=(): tuple(rows))
    with pytest.raises(VerificationError, match="a redundant row differs"):
        for seed in range(60):
            system_checks.check_system(seed)


@pytest.mark.parametrize("name", PLANTED)
def test_each_question_to_the_integers_is_checked(monkeypatch, name):
    monkeypatch.setattr(system_checks, name, PLANTED[name])
    with pytest.raises(VerificationError, match="differs from enumeration"):
        for seed in range(60):
            system_checks.check_system(seed)


def test_weak_projections_and_wrong_solutions_are_found(monkeypatch):
    project, solve = system_checks.fourier_motzkin.project, system_checks.smith.solve
    monkeypatch.setattr(system_checks.fourier_motzkin, "project", lambda rows, drop, facts=(): ())
    with pytest.raises(VerificationError, match="the completion of a projected point"):
        for seed in range(60):
            system_checks.check_system(seed)

    def tight(rows, drop, facts=()):
        projected = project(rows, drop, facts)
        return projected and tuple(row._replace(form=row.form - 1) for row in projected)

    monkeypatch.setattr(system_checks.fourier_motzkin, "project", tight)
    with pytest.raises(VerificationError, match="a projection differs"):
        for seed in range(60):
            system_checks.check_system(seed)
    monkeypatch.undo()
    monkeypatch.setattr(
        system_checks.smith, "solve", lambda matrix, columns: solve(matrix, columns)._replace(kernel=())
    )
    with pytest.raises(VerificationError, match="a combination of kernel vectors"):
        for seed in range(60):
            system_checks.check_system(seed)


def scaled(function, factor):
    """A derivative that is too large."""

    def wrong(expression, *args):
        result = function(expression, *args)
        if not isinstance(result, TensorComprehension):
            return factor * result
        return TensorComprehension(factor * result.body, *result.limits)

    return wrong


WRONG = {
    "simplify_deltas": "value",
    "jacobian": "jacobian by",
    "hessian": "hessian by",
}


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_results_of_functions_are_found(monkeypatch, name):
    monkeypatch.setattr(function_checks, name, scaled(getattr(function_checks, name), 2))
    found = (fuzz.check("functions", seed) for seed in range(5))
    first = next(outcome for outcome in found if outcome.verdict == "wrong")
    assert WRONG[name] in first.detail


def test_wrong_first_and_second_derivatives_are_found(monkeypatch):
    vjp, gradient = function_checks.vjp, function_checks.gradient

    def doubled(table, wrt, cotangent):
        return vjp(TensorComprehension(2 * table.body, *table.limits), wrt, cotangent)

    monkeypatch.setattr(function_checks, "vjp", doubled)
    assert any("vjp by" in fuzz.check("functions", seed).detail for seed in range(6))
    monkeypatch.undo()
    monkeypatch.setattr(function_checks, "gradient", lambda f, wrt: gradient(2 * f, wrt))
    assert any("vjp of vjp by" in fuzz.check("functions", seed).detail for seed in range(6))


# ---------------------------------------------------------------- the report


@pytest.mark.in_turns(8)
def test_crashes_refusals_and_slow_cases_are_distinguished(monkeypatch):
    def fate(seed):
        if seed == 1:
            raise UnsupportedError("tensor x has the extent M*N + 1: products of sizes are not supported yet")
        if seed == 2:
            raise KeyError("lost")
        if seed == 4:  # as where an object is destroyed
            with suppress(BaseException):
                fate(3)
        if seed == 5:  # as where code in C calls back
            with suppress(BaseException):
                fate(3)
            raise RuntimeError("half a result")
        while seed >= 3:
            pass

    monkeypatch.setattr(function_checks, "check_function", fate)
    lines = []
    tally = fuzz.fuzz({"functions": 6}, limit=0.2, write=lines.append)
    assert [o.verdict for o in tally.failures] == ["crash", "too slow", "too slow", "too slow"]
    assert tally.exit_code == 1
    assert re.match(r"functions 2: crash, KeyError: 'lost' \(test_fuzz\.py:\d+\)\n    python -m", lines[0])
    assert "functions 3: too slow, more than 0.2 seconds" in lines[1]
    assert lines[4] == "functions: 1 crash, 1 refused, 1 right, 3 too slow"
    reason = "UnsupportedError: tensor … has the extent … products of sizes are not supported yet"
    assert lines[5] == f"refused 1 times: {reason}"
    slow = fuzz.fuzz({"functions": 1}, seed=3, limit=0.1, write=lambda line: None)
    assert slow.exit_code == 0


def test_it_ends_after_the_time_and_when_interrupted(monkeypatch):
    assert fuzz.fuzz({"systems": None}, seconds=0, write=lambda line: None).line() == "nothing was checked"
    tally = fuzz.fuzz({"systems": None}, seconds=0.05, write=lambda line: None)
    assert tally.counts["systems", "right"] >= 20

    def interrupted(seed):
        if seed == 25:
            raise KeyboardInterrupt

    monkeypatch.setattr(system_checks, "check_system", interrupted)
    lines = []
    assert fuzz.fuzz({"systems": None}, write=lines.append).exit_code == 0
    assert lines[0] == "interrupted"


def test_the_command_line(capsys):
    for wrong in (["--jobs", "3"], ["--systems", "-1"], ["--kind", "all", "--systems", "1"]):
        with pytest.raises(SystemExit):
            main(wrong)
    assert "either --kind or numbers of cases" in capsys.readouterr().err
    assert main(["--kind", "systems", "--seconds", "0.01"]) == 0
    assert "functions" not in capsys.readouterr().out


@pytest.mark.in_turns(10)
def test_two_processes_check_what_one_does(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, main.__module__)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--systems", "30", "--seed", "8", "--jobs", "2"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("fuzz", run_name="__main__")
    assert end.value.code == 0
    assert "systems: 30 right" in capsys.readouterr().out


def test_formulas():
    assert {fuzz.check("formulas", seed).verdict for seed in range(12)} == {"right"}


def test_formulas_that_are_wrong(monkeypatch):
    def parse(text, language):
        if not text.startswith("declare"):
            raise formulas.ParseError("?", text, len(text) + 5)
        return parsed(text, language)

    parsed = formulas.parse
    monkeypatch.setattr(formulas, "parse", parse)
    assert "the place of the error is outside of the text" in fuzz.check("formulas", 1).detail
    monkeypatch.setattr(formulas, "_RTOL", 0.0)
    assert re.match("DerivativeMismatch: the value of .* is .*, expected", fuzz.check("formulas", 1).detail)


def test_derivatives_that_take_too_much_work_are_found():
    n = td.indices("n")
    A, x = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", n)
    value, slope = td.sum(td.exp(A @ x)), td.gradient(td.sum(td.exp(A @ x)), x)
    assert_within_law(value, (x,), [slope], [td.hvp(value, x, x)])
    with pytest.raises(CostExceededError, match="the derivatives with respect to"):
        assert_within_law(value, (x,), [td.exp(A @ A) @ slope])
    with pytest.raises(CostExceededError, match="second derivatives with respect to"):
        assert_within_law(value, (x,), [slope], [td.exp(A @ A) @ slope])
