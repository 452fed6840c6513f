"""Identifiers that generated modules can use, out of names that users give."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container


def unique(name: str, *taken: Container[str], tried: dict[str, int] | None = None) -> str:
    """``name`` as an identifier that is not taken yet; ``tried`` remembers the numbers that are."""
    base = re.sub(r"[^A-Za-z0-9_]", "_", re.sub(r"[\\{}]", "", name)) or "v"
    base = base if base[0].isalpha() or base[0] == "_" else f"v{base}"
    base = f"{base}_" if keyword.iskeyword(base) else base
    tried = {} if tried is None else tried
    n = tried.get(base, -1)
    choice = base if n < 0 else f"{base}{n}"
    while any(choice in names for names in taken):
        n += 1
        choice = f"{base}{n}"
    tried[base] = n
    return choice
