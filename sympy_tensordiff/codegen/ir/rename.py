"""Renaming of the names in kernels, and identifiers for generated modules."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from sympy_tensordiff.codegen.ir.loops import Statement
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Load, Name, Scalar
from sympy_tensordiff.codegen.ir.walk import own_names, rewrite, rewrite_scalar, with_parts
from sympy_tensordiff.integer.affine import Affine, Variable
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries


class Renaming:
    """Renames or replaces scalars and integers in statements.

    `names` maps old names of axes, loop variables and scalars to new ones; `forms` maps integers to forms that replace
    them, `scalars` maps scalars to scalars or array entries. The arrays in `rows` lose their first axis, at which all
    accesses are the same.
    """

    def __init__(
        self,
        names: Mapping[str, str],
        rows: frozenset[str] = frozenset(),
        forms: Mapping[Any, Affine] | None = None,
        scalars: Mapping[str, Name | Load] | None = None,
    ) -> None:
        self.names = names
        self.rows = rows
        self.scalars: Mapping[str, Name | Load] = {old: Name(new) for old, new in names.items()} | dict(scalars or {})
        self._forms = {old: Affine.variable(new) for old, new in names.items()} | dict(forms or {})

    def name(self, name: str) -> str:
        """Return the new name of the scalar or integer ``name``; ``name`` itself if it is not renamed."""
        return self.names.get(name, name)

    def form(self, form: Affine) -> Affine:
        """Return ``form`` with its variables renamed."""
        return form.substitute(self._forms)

    def body(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Return the statements `body` with variables and arrays renamed."""
        return rewrite(body, lambda statement, _: (self.statement(statement),))

    def statement(self, statement: Statement) -> Statement:
        """Return a statement with the new names; the body of a loop or guard is not changed."""
        return with_parts(statement, self.value, self.form, self.name, self._rename_target)

    def value(self, value: Scalar) -> Scalar:
        """Return the scalar expression `value` with variables and arrays renamed."""
        return rewrite_scalar(value, self._rename_part)

    def _rename_target(self, target: Name | Load) -> Name | Load:
        """Return the target of an assignment with its new name. An entry ``a[t, i]`` of an array in ``self.rows``, of
        which only one row is stored, becomes ``a[i]``. Its indices must have been renamed already.
        """
        if isinstance(target, Name):
            return self.scalars.get(target.name, target)
        return Load(target.array, target.index[1:]) if target.array in self.rows else target

    def _rename_part(self, value: Scalar) -> Scalar:
        """Return `value`, one node of a scalar expression, with the new names. A read ``a[t, i]`` of an array in
        ``self.rows``, of which only one row is stored, becomes ``a[i]``.
        """
        if isinstance(value, Name):
            return self.scalars.get(value.name, value)
        if isinstance(value, IndexValue):
            return IndexValue(self.form(value.form))
        if isinstance(value, Load):
            index = tuple([self.form(form) for form in value.index])
            return Load(value.array, index[1:] if value.array in self.rows else index)
        return value


def renamed(kernel: Kernel, common: Mapping[str, str], taken: set[str], tried: dict[str, int] | None = None) -> Kernel:
    """Return ``kernel`` with its axes, loop variables and scalars renamed, so that it can be merged with other kernels:
    by the mapping ``common``, and to unused names, which are added to ``taken``, if they are not in it.

    ``tried`` stores the last number used for each name, see `unique`.
    """
    names = dict(common)
    for name in own_names(kernel):
        if name not in common:
            names[name] = unique(name, taken, tried=tried)
            taken.add(names[name])
    renaming = Renaming(names)
    return replace(kernel, axes=tuple(map(renaming.name, kernel.axes)), body=renaming.body(kernel.body))


# ---------------------------------------------------------------------------- identifiers
# Identifiers of generated modules, made from names of users.


def unique(name: str, *taken: Container[str], tried: dict[str, int] | None = None) -> str:
    """Return ``name`` as a valid identifier; if it is in one of ``taken``, with the first free number at its end:
    ``x0``, ``x1``, … for ``x``. ``tried`` stores the last number used for each name.
    """
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


def reserve_name(wish: str, taken: set[str]) -> str:
    """Return an unused identifier like ``wish``, and add it to ``taken``."""
    name = unique(wish, taken)
    taken.add(name)
    return name


def named(form: Affine, names: Mapping[Any, str], arrays: Mapping[str, str]) -> Affine:
    """Return an affine form of the graph with its variables and integer tensors replaced by their names in the program:
    `names` maps the variables, `arrays` the tensors.
    """
    return _with_array_names(form.substitute({v: Affine.variable(names[v]) for v in form.atoms()}), names, arrays)


def _with_array_names(form: Affine, names: Mapping[Any, str], arrays: Mapping[str, str]) -> Affine:
    """Return `form` with its integer tensors renamed by ``arrays``: ``p[i] + 1`` becomes ``q[i] + 1``. `names` renames
    the variables in the declared bounds of their entries only; other variables keep their names.
    """
    found: dict[Variable, Affine] = {}
    for entry in data_entries([form]):
        index = tuple([_with_array_names(inner, names, arrays) for inner in entry.index])
        below = None if entry.below is None else named(entry.below, names, arrays)
        found[entry] = Affine.variable(IndirectIndex(arrays[entry.tensor], index, below))
    return form.substitute(found) if found else form
