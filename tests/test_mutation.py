"""The command ``python -m tests.mutants`` changes one operator, number or condition of a function of the package."""

from __future__ import annotations

import ast

import mutants
import pytest


def test_all_folders_have_places_and_each_place_has_a_change():
    for folder, tests in mutants.FOLDERS.items():
        found = mutants.sites(folder)
        assert len(found) > 500
        code, text = mutants.mutant(found[len(found) // 2])
        assert code.co_name == found[len(found) // 2].function and "->" in text
        assert all((mutants.TESTS / name).exists() for name in tests)


@pytest.mark.parametrize(
    ("before", "after"),
    [("a < b", "a <= b"), ("a + b", "a - b"), ("not a", "a"), ("a and b", "a or b"), ("3", "4"), ("True", "False")],
)
def test_changes(before, after):
    change = mutants.Change(0)
    assert ast.unparse(change.visit(ast.parse(before, mode="eval").body)) == after
