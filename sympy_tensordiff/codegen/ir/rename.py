"""Kernels with other names for what they own."""

from __future__ import annotations

from collections.abc import Mapping

from sympy_tensordiff.codegen.ir.loops import Statement
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Load, Name, Scalar
from sympy_tensordiff.codegen.ir.walk import rewrite, rewrite_scalar, with_parts
from sympy_tensordiff.integer.affine import Affine


class Renaming:
    """Puts other names in the place of scalars and integers.

    Parameters
    ----------
    names : mapping
        The new names by the old ones: axes, loop variables, `Let` and accumulators.
    rows : container of str
        Arrays that lose their first axis, which all reads of them have in common.
    forms : mapping
        Forms in the place of integers.
    """

    def __init__(
        self,
        names: Mapping[str, str],
        rows: frozenset[str] = frozenset(),
        forms: Mapping[str, Affine] | None = None,
    ) -> None:
        self.names = names
        self.rows = rows
        self._forms = {old: Affine.variable(new) for old, new in names.items()} | dict(forms or {})

    def name(self, name: str) -> str:
        return self.names.get(name, name)

    def form(self, form: Affine) -> Affine:
        return form.substitute(self._forms)

    def body(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The statements with the new names."""
        return rewrite(body, lambda statement, _: (self.statement(statement),))

    def statement(self, statement: Statement) -> Statement:
        """A statement with the new names; what is inside of a loop or guard stays as it is."""
        return with_parts(statement, self.value, self.form, self.name)

    def value(self, value: Scalar) -> Scalar:
        """A scalar expression with the new names."""
        return rewrite_scalar(value, self._part)

    def _part(self, value: Scalar) -> Scalar:
        if isinstance(value, Name):
            return Name(self.name(value.name))
        if isinstance(value, IndexValue):
            return IndexValue(self.form(value.form))
        if isinstance(value, Load):
            index = tuple([self.form(form) for form in value.index])
            return Load(value.array, index[1:] if value.array in self.rows else index)
        return value
