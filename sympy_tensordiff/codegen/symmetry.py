"""Which kernels give the same value when two axes are exchanged: decided on the statements, exactly.

A kernel is written as a tree in which equal parts are one number, the terms of sums and the factors of products
in one order, and what loops and scalars are called does not count. Where the tree with two axes exchanged is the
same tree, so is the value at both entries, but for the order in which it is rounded. ``(x_i - x_j)**2`` and
``Abs(x_i - x_j)`` are the same up to the sign of what is inside, and so count as equal, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from sympy_tensordiff.codegen.loops import Accumulator, Add, Bound, If, Kernel, Let, Loop, Scatter, Statement, Store
from sympy_tensordiff.codegen.scalars import IndexValue, Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.walk import statements
from sympy_tensordiff.integer.affine import Affine, Row

Shapes = Mapping[str, tuple[Affine, ...]]

_LARGE = 400
"""Kernels of more statements than these are not looked at."""

_SYMMETRIC = frozenset({"max", "min", "and", "or", "eq", "ne"})
"""Operations in which the order of the arguments does not matter."""

_EVEN = frozenset({"abs"})


def exchangeable_axes(kernel: Kernel, shapes: Shapes) -> Iterator[tuple[int, int]]:
    """The pairs of axes that can be exchanged."""
    if isinstance(kernel, Scatter) or sum(1 for _ in statements(kernel.body)) > _LARGE:
        return
    extents = shapes[kernel.array]
    pairs = [pair for pair in combinations(range(len(extents)), 2) if extents[pair[0]] == extents[pair[1]]]
    table: dict[Any, int] = {}
    plain = _Tree(table, {}).value_of(kernel.body) if pairs else 0
    for first, second in pairs:
        one, other = kernel.axes[first], kernel.axes[second]
        exchanged = {one: Affine.variable(other), other: Affine.variable(one)}
        if _Tree(table, exchanged).value_of(kernel.body) == plain:
            yield first, second


class _Tree:
    """Numbers for the values of one kernel: equal ones for what is equal, in all trees of one ``table``."""

    def __init__(self, table: dict[Any, int], forms: Mapping[str, Affine]) -> None:
        self.table = table
        self.forms = dict(forms)
        self.names: dict[str, int] = {}
        self.added: dict[str, tuple[int, list[Any]]] = {}
        self.stored = -1

    def value_of(self, body: Sequence[Statement]) -> int:
        """The number of what a kernel stores."""
        self.block(body, ())
        return self.stored

    def number(self, *key: Any) -> int:
        return self.table.setdefault(key, len(self.table))

    # ------------------------------------------------------------------------ statements

    def block(self, body: Sequence[Statement], path: tuple[Any, ...]) -> None:
        """Note the values of statements; ``path`` are the loops and conditions around."""
        for statement in body:
            if isinstance(statement, Let):
                self.names[statement.name] = self.value(statement.value)
            elif isinstance(statement, Accumulator):
                self.added[statement.name] = len(path), []
                self.names[statement.name] = self.number("reduction", statement.reduction, ())
            elif isinstance(statement, Add):
                depth, terms = self.added[statement.name]
                terms.append(self.number("term", path[depth:], self.value(statement.value)))
                self.names[statement.name] = self.number("reduction", statement.reduction, tuple(sorted(terms)))
            elif isinstance(statement, Loop):
                self.forms[statement.variable] = Affine.variable(f"loop {len(path)}")
                ends = tuple([self.ends(side) for side in (statement.lows, statement.highs)])
                self.block(statement.body, (*path, ("loop", ends)))
            elif isinstance(statement, If):
                rows = tuple(sorted([self.row(row) for row in statement.conditions], key=repr))
                self.block(statement.body, (*path, ("if", rows)))
            elif isinstance(statement, Store):
                self.stored = self.value(statement.value)

    def ends(self, bounds: Sequence[Bound]) -> tuple[Any, ...]:
        return tuple(sorted([(self.form(bound.form), bound.divisor) for bound in bounds]))

    def row(self, row: Row) -> tuple[Any, ...]:
        form = self.form(row.form)
        return row.kind, row.modulus, max(form, -form) if row.kind == "eq" else form

    def form(self, form: Affine) -> Affine:
        return form.substitute(self.forms)

    # ------------------------------------------------------------------------ values

    def value(self, value: Scalar) -> int:
        """The number of a value."""
        if isinstance(value, Name):
            return self.names.get(value.name, self.number("name", value.name))
        if isinstance(value, Number):
            return self.number("number", value.value)
        if isinstance(value, IndexValue):
            return self.number("index", self.form(value.form))
        if isinstance(value, Load):
            return self.number("load", value.array, tuple(map(self.form, value.index)))
        match value.function:
            case "add" | "neg" | "mul":
                return self.sum(self.terms(value))
            case "pow" if value.arguments[1] in (Number(2), Number(4)):
                return self.number("pow", self.unsigned(value.arguments[0]), self.value(value.arguments[1]))
            case function if function in _EVEN:
                return self.number(function, self.unsigned(value.arguments[0]))
        arguments = [self.value(argument) for argument in value.arguments]
        return self.number(value.function, tuple(sorted(arguments) if value.function in _SYMMETRIC else arguments))

    def sum(self, terms: Mapping[int, Any]) -> int:
        for term, times in terms.items():
            if len(terms) == 1 and times == 1:
                return term
        return self.number("sum", tuple(sorted(terms.items())))

    def unsigned(self, value: Scalar) -> int:
        """The number of a value or of its negative, whichever is the lower one."""
        terms = self.terms(value)
        return min(self.sum(terms), self.sum(_scaled(-1, terms)))

    def terms(self, value: Scalar) -> dict[int, Any]:
        """How often each term stands in a sum."""
        if not isinstance(value, Operation) or value.function not in ("add", "neg", "mul"):
            return {self.value(value): 1}
        if value.function == "neg":
            return _scaled(-1, self.terms(value.arguments[0]))
        if value.function == "mul":
            return self.product(value)
        found: dict[int, Any] = {}
        for argument in value.arguments:
            for term, times in self.terms(argument).items():
                found[term] = found.get(term, 0) + times
        return {term: times for term, times in found.items() if times}

    def product(self, value: Operation) -> dict[int, Any]:
        """A product as terms; a number among the factors multiplies all."""
        times: Any = 1
        factors = []
        stack = list(value.arguments)
        while stack:
            factor = stack.pop()
            if isinstance(factor, Operation) and factor.function == "mul":
                stack += factor.arguments
            elif isinstance(factor, Number):
                times *= factor.value
            else:
                factors.append(factor)
        if len(factors) == 1:
            return _scaled(times, self.terms(factors[0]))
        return {self.number("product", tuple(sorted(map(self.value, factors)))): times}


def _scaled(factor: Any, terms: Mapping[int, Any]) -> dict[int, Any]:
    return {term: factor * times for term, times in terms.items()}
