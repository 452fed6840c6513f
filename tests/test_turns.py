"""Tables whose cases take turns: each case runs once in n days, and always where a file or a name is asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import is_today, turn, waiting_tests
from every import every

TESTS = Path(__file__).parent


class Item(SimpleNamespace):
    """A test for pytest: its name and its marks."""

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def __hash__(self):
        return hash(self.nodeid)


def config(*arguments, day="7", thorough=False, keyword=""):
    option = SimpleNamespace(turn=day, thorough=thorough, keyword=keyword)
    return SimpleNamespace(option=option, args=[str(TESTS / argument) for argument in arguments])


@every("parts", [2, 3, 5])
def test_each_case_runs_once_in_so_many_days(parts):
    mark = {"in_turns": SimpleNamespace(args=(parts,), kwargs={})}
    items = [Item(nodeid=f"file::test_{name}[{n}]", marks=mark) for name in "abc" for n in range(11)]
    items.append(Item(nodeid="file::test_plain", marks={}))
    items.append(Item(nodeid="file::test_quick", marks={**mark, "quick": True}))
    ran = [item.nodeid for day in range(parts) for item in items if item not in waiting_tests(items, day)]
    assert sorted(ran) == sorted([*(i.nodeid for i in items[:-2]), *["file::test_plain", "file::test_quick"] * parts])
    today = [item for item in items[:33] if item not in waiting_tests(items, 0)]
    assert len(today) <= 3 * -(-11 // parts)
    assert not waiting_tests(items, None)


def test_turns_by_a_parameter_keep_its_cases_together():
    mark = {"in_turns": SimpleNamespace(args=(2,), kwargs={"by": "name"})}
    pairs = [(name, step) for name in "abcd" for step in range(3)]
    items = [
        Item(nodeid=f"file::test[{name}-{step}]", marks=mark, callspec=SimpleNamespace(params={"name": name}))
        for name, step in pairs
    ]
    for day in range(2):
        waiting = waiting_tests(items, day)
        names = [item.callspec.params["name"] for item in items if item not in waiting]
        assert names in (["a"] * 3 + ["c"] * 3, ["b"] * 3 + ["d"] * 3)


def test_files_names_and_thorough_runs_have_all_cases():
    assert turn(config("")) == turn(config("", "codegen")) == 7
    for asked in (config("test_turns.py"), config("", "test_turns.py::test_x"), config("", keyword="x")):
        assert turn(asked) is None
    assert turn(config("", thorough=True)) is None and turn(config("", day="all")) is None


def test_values_of_a_loop_take_turns():
    seen = []

    @every("value", "abcde", turns=2)
    def test(value):
        seen.append(value)

    for day in range(2):
        test(in_turns=lambda cases, parts, day=day: [c for n, c in enumerate(cases) if is_today(n, "x", day, parts)])
    assert sorted(seen) == [*"abcde"]


def test_the_day_is_that_of_the_whole_run(request: pytest.FixtureRequest):
    assert request.config.option.turn == "all" or int(request.config.option.turn) > 0
