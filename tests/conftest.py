"""Garbage is collected less often: expressions are many small objects that live on in caches."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)
