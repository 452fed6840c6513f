"""The seeds of the tested slice that break the law today. The aim is that this is empty; a test that passes says so."""

from __future__ import annotations

_GUARDS = "a guard around a product keeps its sums together: each layer adds a loop"

KNOWN: dict[int, str] = {15: _GUARDS}
