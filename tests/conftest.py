"""What all tests share: a folder of their own for generated modules, and little garbage collection."""

from __future__ import annotations

import gc
import os

import pytest


def pytest_collection_finish() -> None:
    # Expressions are many small objects that live on in caches.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    before = os.environ.get("SYMPY_TENSORDIFF_CACHE")
    os.environ["SYMPY_TENSORDIFF_CACHE"] = str(tmp_path_factory.mktemp("generated"))
    yield
    os.environ.pop("SYMPY_TENSORDIFF_CACHE")
    if before is not None:
        os.environ["SYMPY_TENSORDIFF_CACHE"] = before
