"""The command ``python -m tests.mutants`` changes one operator, number or condition of a function of the package."""

from __future__ import annotations

import ast
import contextlib
import os
from types import SimpleNamespace

import mutants
import pytest
from every import every

from sympy_tensordiff.integer import smith


@every("folder", mutants.FOLDERS, turns=4)
def test_all_folders_have_places_and_each_place_has_a_change(folder):
    found = mutants.sites(folder)
    assert len(found) > 500
    mutant = None
    for site in found[len(found) // 2 :]:
        with contextlib.suppress(LookupError):  # inside of a message
            mutant = mutants.mutant(site)
            break
    assert mutant is not None
    assert mutant.code.co_name == site.function and "->" in mutant.text
    assert mutant.lines.start >= site.line


@pytest.mark.parametrize(
    ("before", "after"),
    [("a < b", "a <= b"), ("a + b", "a - b"), ("not a", "a"), ("a and b", "a or b"), ("3", "4"), ("True", "False")],
)
def test_changes(before, after):
    change = mutants.Change(0)
    assert ast.unparse(change.visit(ast.parse(before, mode="eval").body)) == after


def test_assertions_and_messages_are_no_places():
    for text in ("zip(a, b, strict=True)", "raise E(f'{a + 1}')"):
        change = mutants.Change(0)
        assert ast.unparse(change.visit(ast.parse(text).body[0])) == text and change.number == 0


def test_the_lines_of_a_condition_are_not_those_of_its_statements():
    change = mutants.Change(0)
    change.visit(ast.parse("if (a and\n   b):\n    c()\n    d()").body[0])
    assert change.lines == range(1, 3)


def campaign(tests, lines, seconds=60.0):
    """Return a campaign with a record of tests (names and seconds) that run lines of `integer/smith.py`."""
    record = mutants.Record([*tests], [*tests.values()], {"integer/smith.py": lines})
    made = mutants.Campaign(record, iter(()), seconds, print)
    made.items = [name for name in tests]
    made.live = SimpleNamespace(of=lambda _: [], forget=lambda: None)
    return made


def a_mutant(lines):
    path = mutants.PACKAGE / "integer" / "smith.py"
    return mutants.Mutant(mutants.Site(path, "solve", 1, 0), smith.solve.__code__, lines, "")


def test_tests_of_the_own_folder_and_known_killers_come_first():
    tests = {
        "tests/test_a.py::x": 1,
        "tests/integer/test_b.py::y": 9,
        "tests/integer/test_b.py::z": 8,
        "tests/c.py::t": 2,
    }
    made = campaign(tests, {"5": [0, 1, 2], "7": [3]})
    names = lambda lines: ["xyzt"[n] for n in made.chosen(a_mutant(lines))]  # noqa: E731
    assert names(range(5, 6)) == ["z", "x", "y"]  # of each file one, before the second of a file
    assert names(range(5, 8)) == ["z", "x", "t", "y"]
    assert names(range(6, 7)) == []
    made.hits[a_mutant(range(5, 6)).site.path, 1] += 1
    assert names(range(5, 6)) == ["y", "x", "z"]
    made.seconds = 9.5
    assert names(range(5, 6)) == ["y"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_mutant_is_noticed_by_a_test_that_passes_without_it():
    made = campaign({"tests/a.py::broken": 0.1, "tests/b.py::strict": 0.1}, {"5": [0, 1], "6": [0]})
    session = SimpleNamespace(testsfailed=0)

    def live():
        return 1

    def protocol(item, nextitem):
        session.testsfailed += item.name == "broken" or live() != 1

    config = SimpleNamespace(hook=SimpleNamespace(pytest_runtest_protocol=protocol))
    made.items = [SimpleNamespace(name=name, config=config, session=session) for name in ("broken", "strict")]
    made.live.of = lambda _: [live]
    changed = a_mutant(range(5, 6))._replace(code=(lambda: 2).__code__)
    assert made.judge(changed) == ("noticed", "  by tests/b.py::strict")
    assert made.judge(changed._replace(code=(lambda: 1).__code__))[0] == "survived"
    assert made.judge(changed._replace(lines=range(6, 7)))[0] == "survived"  # `broken` fails without it, too
    assert live() == 1


def test_a_mutant_that_no_test_runs_is_not_run():
    made = campaign({"tests/a.py::x": 1}, {"5": [0]})
    made.live.of = lambda _: [lambda: None]
    assert made.judge(a_mutant(range(9, 10)))[0] == "not run"


@pytest.mark.parametrize("kind", [mutants.Change, mutants.Watch])
def test_annotations_are_not_changed(kind):
    """Those of local variables are not evaluated: ``int | None`` has no mutant, the value has one."""
    found = []
    for number in range(2):
        change = kind(number)
        statement = change.visit(ast.parse("found: int | None = a < b").body[0])
        found.append((change.texts, ast.unparse(statement.annotation)))
    assert found == [(("a < b", "a <= b"), "int | None"), (("", ""), "int | None")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a) < b + 1", "W(lambda: f(a) < b + 1, lambda: f(a) < b + 2)"),
        ("a and f(b > 0)", "a and f(W(lambda: b > 0, lambda: b > 1))"),
        ("f(3)", "f(4)"),
        ("(a := b) > 0", "(a := b) > 1"),
    ],
)
def test_the_expression_around_a_change_is_watched(before, after):
    """The last change, a number, is made; what contains it is watched up to the next call."""
    tree = ast.parse(before, mode="eval").body
    count = sum(mutants.changed(node) is not None for node in ast.walk(tree))
    watch = mutants.Watch(count - 1)
    assert ast.unparse(watch.visit(tree)).replace(mutants.WATCH, "W") == after
    assert watch.is_watched == ("W(" in after)


def test_values_that_differ():
    assert mutants.differ(lambda: [1], lambda: [1]) == ([1], False)
    assert mutants.differ(lambda: 1, lambda: 2) == (1, True)
    assert mutants.differ(lambda: 1, lambda: 1 // 0) == (1, True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_survivor_has_another_value_or_always_the_same():
    made = campaign({"tests/a.py::x": 0.1}, {"5": [0]})
    session = SimpleNamespace(testsfailed=0)

    def live():
        return 1

    def protocol(item, nextitem):
        live()

    config = SimpleNamespace(hook=SimpleNamespace(pytest_runtest_protocol=protocol))
    made.items = [SimpleNamespace(name="x", config=config, session=session)]
    made.live.of = lambda _: [live]
    for after, text in ((1, ", always the same value"), (2, ", another value")):
        watched = compile(f"lambda: {mutants.WATCH}(lambda: 1, lambda: {after})", "", "eval").co_consts[0]
        changed = a_mutant(range(5, 6))._replace(code=(lambda: 3).__code__, watched=watched)
        assert made.judge(changed) == ("survived", f"  (1 tests{text})")
    assert live() == 1


def test_equivalent_mutants_are_named_once_and_are_no_survivors():
    made = campaign({"tests/a.py::x": 0.1}, {"5": [0]})
    made.live.of = lambda _: [lambda: None]
    made.verdict = lambda mutant, tests: ("survived", 0)
    changed = a_mutant(range(5, 6))._replace(text="integer/smith.py:5 solve: a > 0  ->  a >= 0")
    assert changed.name == "integer/smith.py solve 0: a > 0  ->  a >= 0"
    assert made.judge(changed)[0] == "survived"
    made.reasons = {changed.name: "never 0"}
    assert made.judge(changed) == ("equivalent", "  (never 0)")
    known = mutants.reasons()
    assert known and all(name.count("  ->  ") == 1 and reason for name, reason in known.items())


@pytest.mark.in_turns(4)
def test_equivalent_mutants_exist():
    """Each name is that of a mutant of the present code."""
    wanted = set(mutants.reasons())
    files = {name.split(" ")[0] for name in wanted}
    for folder in mutants.FOLDERS:
        for site in mutants.sites(folder):
            if str(site.path.relative_to(mutants.PACKAGE)) in files and any(
                f" {site.function} {site.number}: " in name for name in wanted
            ):
                with contextlib.suppress(LookupError):
                    wanted.discard(mutants.mutant(site).name)
    assert not wanted
