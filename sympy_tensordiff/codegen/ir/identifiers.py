"""Identifiers that generated modules can use, out of names that users give."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container, Mapping
from typing import Any

from sympy_tensordiff.integer.affine import Affine, Variable
from sympy_tensordiff.integer.data import DataEntry, data_entries


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


def named(form: Affine, names: Mapping[Any, str], arrays: Mapping[str, str]) -> Affine:
    """A form over names in place of variables, and over the arrays that hold tensors of integers in place of these."""
    return _with_arrays(form.substitute({v: Affine.variable(names[v]) for v in form.atoms()}), names, arrays)


def _with_arrays(form: Affine, names: Mapping[Any, str], arrays: Mapping[str, str]) -> Affine:
    found: dict[Variable, Affine] = {}
    for entry in data_entries([form]):
        index = tuple([_with_arrays(inner, names, arrays) for inner in entry.index])
        below = None if entry.below is None else named(entry.below, names, arrays)
        found[entry] = Affine.variable(DataEntry(arrays[entry.tensor], index, below))
    return form.substitute(found) if found else form
