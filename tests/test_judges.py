"""Judges that share no code with the package agree with it on a slice of their cases, and notice wrong answers."""

from __future__ import annotations

import pickle
from collections import Counter
from importlib.util import find_spec

import pytest
import smith_form
from every import every
from judges import __main__ as command
from judges import report
from judges.__main__ import JUDGES, judge_named, main
from judges.report import WrongAnswerError

from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer import smith
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.implication import is_empty
from sympy_tensordiff.integer.solving import solve_equations

LIBRARIES = {"isl": "islpy", "snf": "sympy", "jax": "jax", "index": "jax", "mpmath": "mpmath"}
SLICES = {
    "isl": range(75, 105),
    "snf": range(60),
    "jax": range(61, 71),
    "index": range(1288, 1296),
    "mpmath": range(24),
}
"""Seeds of the slices; those of isl have 29 systems and the questions of one function."""


def judge(name):
    pytest.importorskip(LIBRARIES[name])
    return judge_named(name)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", JUDGES)
def test_a_slice_has_no_wrong_answer(name):
    found = report.run(judge(name), SLICES[name])
    assert not found.wrong
    assert found.counts["cases"] == len(SLICES[name])


def test_isl_notices_wrong_answers():
    """Each answer about a system is exchanged for a wrong one."""
    judge("isl")
    from judges import by_isl, questions

    i, n = Affine.variable("i"), Affine.variable("n")
    inside = (Constraint("ge", i - 1), Constraint("ge", n - i))
    never = (Constraint("ge", -i - 1), *inside)
    wrong = {
        "is_empty": [(inside, True)],
        "is_implied": [((Constraint("ge", n - 2), inside), True)],
        "minimum": [((i, inside), 2), ((n, inside), 3)],
        "maximum": [((-i, inside), -2)],
        "project": [((inside, ["i"]), None), ((inside, ["i"]), (Constraint("ge", n - 2),)), ((inside, ["i"]), inside)],
        "project_exactly": [((inside, ["i"]), ()), ((inside, ["i"]), (Constraint("ge", n - 2),))],
        "remove_redundant": [((inside, ()), inside[:1])],
        "constraints_on_union": [(([inside, never], "i"), inside)],
        "count_points": [(((*inside, Constraint("eq", n - 4)), ["i", "n"]), 5)],
    }
    assert {*wrong, "bounds", "solve_equations"} == set(by_isl.VERDICTS)
    wrong["constraints_on_union"] = [(([inside, inside[:1]], "i"), inside)]
    for function, cases in wrong.items():
        for given, answer in cases:
            given = (given,) if function == "is_empty" else given
            with pytest.raises(WrongAnswerError):
                by_isl.verdict(by_isl.Question(function, given, {}, answer))
    found = Counter()
    for seed in range(1, 12):
        for question in questions.of_system(seed):
            if question.function == "bounds" and question.answer[0]:
                (first, *others), guards = question.answer
                fewer = first._replace(lows=tuple((form + divisor, divisor) for form, divisor in first.lows))
                damaged = question._replace(answer=((fewer, *others), guards))
            elif question.function == "solve_equations" and question.answer is not None:
                remaining, mapping, rows = question.answer
                damaged = question._replace(answer=(remaining, {v: f + 1 for v, f in mapping.items()}, rows))
            else:
                continue
            try:
                by_isl.verdict(damaged)
            except WrongAnswerError:
                found[question.function] += 1
    assert found["bounds"] > 4 and found["solve_equations"] > 2, found


def test_questions_of_functions_are_recorded():
    judge("isl")
    from judges import questions

    asked = questions.of_function(25)
    assert len(asked) > 50 and len({question.function for question in asked}) >= 5
    assert questions.implication.is_implied.__name__ == "is_implied"  # what was patched is back


def test_questions_of_tests_are_recorded_in_a_file_and_judged(tmp_path, capsys):
    """Calls by tests are recorded, each once, with graphs left out; a wrong answer in the file is noticed."""
    judge("isl")
    from judges import recording

    i, n = Affine.variable("i"), Affine.variable("n")
    inside = (Constraint("ge", i - 1), Constraint("ge", n - i))
    for number in (0, 1):
        with recording.written(tmp_path / f"run.{number}"):
            assert not is_empty(iter(inside))
            assert not is_empty(inside)
            graph = Graph()
            assert solve_equations(graph, [graph.fresh("i")], ()) is not None
    found = recording.read(tmp_path / "run")
    assert [question.function for question in found].count("is_empty") == 1
    assert main(["isl", "--recorded", str(tmp_path / "run")]) == 0
    assert "1 is_empty: " in capsys.readouterr().out
    with (tmp_path / "wrong").open("wb") as file:
        pickle.dump(("is_empty", (inside,), {}, True), file)
    assert main(["isl", "--recorded", str(tmp_path / "wrong")]) == 1
    for arguments in (["jax", "--recorded", str(tmp_path / "wrong")], ["isl"]):
        with pytest.raises(SystemExit):
            main(arguments)


@every("damage", ["factors", "u", "kernel"])
def test_sympy_notices_wrong_smith_forms(damage, monkeypatch):
    wrong = judge("snf")
    right, kernel = smith_form.smith_decomposition, smith.kernel_basis
    with monkeypatch.context() as patch:
        if damage == "factors":
            double = lambda found: found._replace(factors=tuple(2 * f for f in found.factors))  # noqa: E731
            patch.setattr(smith_form, "smith_decomposition", lambda rows: double(right(rows)))
        elif damage == "u":
            patch.setattr(smith_form, "smith_decomposition", lambda rows: right(rows)._replace(u=right(rows).u[::-1]))
        else:
            patch.setattr(smith, "kernel_basis", lambda rows: tuple(tuple(2 * x for x in v) for v in kernel(rows)))
        found = report.run(wrong, range(12), write=lambda line: None)
    assert found.counts["WRONG"] > 3 and "CRASHED" not in found.counts


def test_mpmath_notices_lost_digits(monkeypatch):
    accuracy = pytest.importorskip("judges.accuracy")
    coarse = accuracy.FUNCTIONS["one more"]._replace(ours=lambda x: x + (1 + 2**-20))
    monkeypatch.setitem(accuracy.FUNCTIONS, "one more", coarse)
    seeds = [n for n in range(80) if "one more" in accuracy.random_formula(n).text()]
    found = Counter()
    for seed in seeds:
        found += report.run(accuracy.judge, range(seed, seed + 1), write=lambda line: None).counts
    assert found["WRONG"] > len(seeds) / 4


def test_a_report_counts_wrong_answers_crashes_and_slow_cases():
    def verdicts(seed):
        if seed == 1:
            raise WrongAnswerError("2 instead of 3")
        if seed == 2:
            raise KeyError("x")
        while seed == 3:
            pass
        return Counter({"equal": 2})

    lines = []
    found = report.run(verdicts, range(5), limit=0.05, write=lines.append)
    assert found.counts == {
        **{"cases": 5, "equal": 4, "WRONG": 1, "CRASHED": 1},
        "cases beyond the time limit": 1,
    }
    assert lines == found.wrong and lines[0] == "seed 1: wrong: 2 instead of 3" and "KeyError" in lines[1]


def test_the_command(capsys):
    assert main(["snf", "3", "--seed", "7"]) == 0
    assert "snf: seeds 7 to 9" in capsys.readouterr().out
    if find_spec("jax") is None:
        assert main(["jax", "1"]) == 2
        assert "No module named 'jax'" in capsys.readouterr().err


def test_kept_runs_take_new_seeds_and_add_up(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "TOTALS", tmp_path / "totals.txt")
    command.TOTALS.write_text("# a comment\nsnf 10 14 1 2\nisl 0 9 0 0\n")
    assert main(["snf", "3", "--keep"]) == 0
    assert main(["snf", "2", "--keep", "--seed", "40"]) == 0
    assert command.totals()["snf"] == (10, 1, 2, 42) and command.totals()["jax"] == (0, 0, 0, 0)
    assert command.TOTALS.read_text().splitlines()[-2:] == ["snf 15 17 0 0", "snf 40 41 0 0"]
    assert "kept: 10 cases in all, 1 wrong or crashed" in capsys.readouterr().out


def test_kept_runs_are_disjoint():
    for name in JUDGES:
        seeds = [seed for run in command.kept_runs() if run[0] == name for seed in range(run[1], run[2] + 1)]
        assert len(seeds) == len(set(seeds)), name
