"""The 42 derivatives of the baseline: right everywhere, without deltas, and as the documentation shows them."""

import importlib.util
from functools import cache
from pathlib import Path

import sympy
from baseline import tasks, without_shapes
from baseline_truth import answers, equal, is_right, judged_ours, points
from every import every

TASKS = tasks()
SCRIPT = Path(__file__).parents[2] / "docs" / "regenerate_baseline.py"
SHOWN_VERSION = "1.14.0"


def script():
    spec = importlib.util.spec_from_file_location("regenerate_baseline", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def shown():
    return SCRIPT.with_name("baseline.md").read_text(encoding="utf-8")


@every("name", [*TASKS], turns=8)
def test_right_at_every_point_and_as_shown(name):
    task, three = TASKS[name], answers(TASKS[name])
    assert three.ours.right == three.ours.points > 0
    assert three.ours.deltas == task.by_data and not three.ours.result.has(sympy.Sum, sympy.Indexed)
    if sympy.__version__ == SHOWN_VERSION:
        row, section = script().part(name, task, three)
        assert row in shown() and section.strip() in shown(), "run docs/regenerate_baseline.py"


@every("name", ["1", "2", "3b", "6", "8", "9", "11b", "12", "13b", "15", "17b", "22b", "26", "28"], turns=8)
def test_right_without_shapes(name):
    answer = judged_ours(without_shapes(TASKS[name]), points(TASKS[name]))
    assert answer.right == answer.points > 0 and answer.deltas == 0


def test_the_judgement_sees_a_wrong_answer():
    """A judgement that finds everything right would pass as well."""
    task = TASKS["8"]
    where = points(task)
    native = sympy.diff(task.function, *task.by).doit()
    assert {is_right(native, point) for point in where} == {True, False}
    assert all(is_right(sympy.diff(task.function, *task.by), point) for point in where)
    assert not equal(sympy.Rational(1, 3), sympy.Rational(1, 3) + sympy.Rational(1, 10**40))
    assert equal(sympy.exp(1), sympy.E.evalf(40)) and not equal(sympy.exp(1), sympy.Rational(2718281828, 10**9))
