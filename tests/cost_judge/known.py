"""The seeds of the tested slice that break the law today. The aim is that this is empty; a test that passes says so."""

from __future__ import annotations

KNOWN: dict[int, str] = {}
