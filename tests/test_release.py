"""Facts about the version that several files state agree, and the changelog has the headings of Keep a Changelog."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def found(pattern: str, text: str) -> list[str]:
    return re.findall(pattern, text, re.MULTILINE)


def test_the_citation_is_that_of_the_project() -> None:
    assert found(r"^version: (.+)$", CITATION) == found(r'^version = "(.+)"$', PROJECT)
    assert found(r"^license: (.+)$", CITATION) == found(r'^license = "(.+)"$', PROJECT)
    known = found(r'^(?:Homepage|Repository|Source) = "(.+)"$', PROJECT)
    assert found(r'^repository-code: "(.+)"$', CITATION) == known[:1]


def test_a_released_version_has_one_date() -> None:
    (version,) = found(r"^version: (.+)$", CITATION)
    dates = found(rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)$", CHANGES)
    assert found(r'^date-released: "(.+)"$', CITATION) == dates


def test_changes_are_under_the_headings_of_keep_a_changelog() -> None:
    versions = re.split(r"^## ", CHANGES, flags=re.MULTILINE)[1:]
    assert versions[0].startswith("[Unreleased]")
    for version in versions:
        headings = found(r"^### (.+)$", version)
        assert headings == [kind for kind in KINDS if kind in headings]
        assert not found(r"^- ", version.partition("\n### ")[0]), "a change without a heading"
