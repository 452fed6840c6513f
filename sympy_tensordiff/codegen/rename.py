"""Kernels with other names for what they own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sympy_tensordiff.codegen.loops import Accumulator, Add, AddAt, Bound, If, Let, Loop, Statement, Store
from sympy_tensordiff.codegen.scalars import IndexValue, Load, Name, Operation, Scalar
from sympy_tensordiff.integer.affine import Affine, Row


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
        return tuple(self.statement(statement) for statement in body)

    def statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Loop):
            lows = tuple(Bound(self.form(bound.form), bound.divisor) for bound in statement.lows)
            highs = tuple(Bound(self.form(bound.form), bound.divisor) for bound in statement.highs)
            return Loop(self.name(statement.variable), lows, highs, self.body(statement.body))
        if isinstance(statement, If):
            rows = tuple(Row(row.kind, self.form(row.form), row.modulus) for row in statement.conditions)
            return If(rows, self.body(statement.body))
        if isinstance(statement, Accumulator):
            return replace(statement, name=self.name(statement.name))
        if isinstance(statement, Let | Add):
            return replace(statement, name=self.name(statement.name), value=self.value(statement.value))
        if isinstance(statement, AddAt):
            return AddAt(tuple(self.form(form) for form in statement.index), self.value(statement.value))
        return Store(self.value(statement.value))

    def value(self, value: Scalar) -> Scalar:
        """A scalar expression with the new names."""
        if isinstance(value, Name):
            return Name(self.name(value.name))
        if isinstance(value, IndexValue):
            return IndexValue(self.form(value.form))
        if isinstance(value, Load):
            index = tuple(self.form(form) for form in value.index)
            return Load(value.array, index[1:] if value.array in self.rows else index)
        if isinstance(value, Operation):
            return Operation(value.function, tuple(self.value(argument) for argument in value.arguments))
        return value
