"""Generated modules of the tests go to a folder of their own."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    before = os.environ.get("SYMPY_TENSORDIFF_CACHE")
    os.environ["SYMPY_TENSORDIFF_CACHE"] = str(tmp_path_factory.mktemp("generated"))
    yield
    os.environ.pop("SYMPY_TENSORDIFF_CACHE")
    if before is not None:
        os.environ["SYMPY_TENSORDIFF_CACHE"] = before
