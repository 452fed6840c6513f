"""The seeds of the tested slice that break the law today. The aim is that this is empty; a test that passes says so."""

from __future__ import annotations

_REVERSE = "reverse over reverse stores what a product of three operands is split into"
_GUARDS = "a guard around a product keeps its sums together: each layer adds a loop"

KNOWN: dict[int, str] = {
    0: _REVERSE,
    12: _REVERSE,
    14: _REVERSE,
    15: _GUARDS,
    16: _REVERSE,
    26: _REVERSE,
    28: _REVERSE,
}
