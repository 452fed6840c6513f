"""Values that nest deeply are cut into several: Python's parser refuses 200 parentheses within each other."""

from __future__ import annotations

from dataclasses import replace

from sympy_tensordiff.codegen.facts import Prover, Rows, axis_rows, loop_rows
from sympy_tensordiff.codegen.loops import (
    Add,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Name,
    Operation,
    Program,
    Scalar,
    Statement,
    Store,
)
from sympy_tensordiff.codegen.walk import scalars, statements, subexpressions
from sympy_tensordiff.errors import UnsupportedError

DEPTH = 30
"""How deep the parts are cut."""

_MOST_DEPTH = 90


def split_deep(program: Program) -> Program:
    """The program with a `Let` for each part of a value that nests too deeply.

    Such a part is computed even where it stands behind the condition of a ``select`` that fails.
    That changes no result; a part with a read that only the condition keeps inside its array is
    left where it is.
    """
    if _deepest(program) <= DEPTH:
        return program
    prover = Prover(program)
    result = replace(program, kernels=tuple(_Splitter(kernel, program, prover).kernel() for kernel in program.kernels))
    if _deepest(result) > _MOST_DEPTH:
        raise UnsupportedError(
            f"a formula behind a condition nests deeper than {_MOST_DEPTH} and reads arrays outside of their shapes "
            "where the condition fails: write its inner part as a comprehension of its own"
        )
    return result


def _deepest(program: Program) -> int:
    depths = [_depths(value)[id(value)] for kernel in program.kernels for value in _values(kernel)]
    return max(depths, default=0)


def _values(kernel: Kernel) -> list[Scalar]:
    return [s.value for s in statements(kernel.body) if isinstance(s, Let | Add | Store)]


def _parts(value: Scalar) -> list[Scalar]:
    """All parts of a value, each object once, before what it is part of. (Deep values cannot be hashed.)"""
    parts: dict[int, Scalar] = {}
    stack = [value]
    while stack:
        node = stack[-1]
        missing = [a for a in node.arguments if id(a) not in parts] if isinstance(node, Operation) else []
        if missing:
            stack += missing
        else:
            parts[id(node)] = stack.pop()
    return list(parts.values())


def _depths(value: Scalar) -> dict[int, int]:
    """The depth of every part of a value, by identity."""
    depths: dict[int, int] = {}
    for node in _parts(value):
        inner = [depths[id(a)] for a in node.arguments] if isinstance(node, Operation) else []
        depths[id(node)] = 1 + max(inner, default=0)
    return depths


class _Splitter:
    """Splits the values of one kernel."""

    def __init__(self, kernel: Kernel, program: Program, prover: Prover) -> None:
        self.own = kernel
        self.prover = prover
        self.shapes = prover.shapes
        self.rows = axis_rows(kernel, self.shapes)
        self.taken = {a.name for a in program.arguments} | set(self.shapes) | {size.name for size in program.sizes}
        self.taken |= {name for shape in self.shapes.values() for form in shape for name in form.atoms()}
        self.taken |= {*kernel.axes, *(n.name for n in scalars(kernel.body) if isinstance(n, Name))}
        for statement in statements(kernel.body):
            if isinstance(statement, Loop):
                self.taken.add(statement.variable)
            elif not isinstance(statement, If | Store):
                self.taken.add(statement.name)

    def kernel(self) -> Kernel:
        return replace(self.own, body=self.block(self.own.body, self.rows))

    def block(self, body: tuple[Statement, ...], rows: Rows) -> tuple[Statement, ...]:
        result: list[Statement] = []
        for statement in body:
            if isinstance(statement, Loop):
                result.append(replace(statement, body=self.block(statement.body, rows + loop_rows(statement))))
            elif isinstance(statement, If):
                result.append(replace(statement, body=self.block(statement.body, rows + statement.conditions)))
            elif isinstance(statement, Let | Add | Store):
                value = self.value(statement.value, rows, result)
                result.append(replace(statement, value=value))
            else:
                result.append(statement)
        return tuple(result)

    def value(self, value: Scalar, rows: Rows, before: list[Statement]) -> Scalar:
        """``value`` with its deep parts in `Let` statements, which ``before`` receives."""
        done: dict[int, Scalar] = {}
        depths: dict[int, int] = {}
        for node in _parts(value):
            new, depth = node, 1
            if isinstance(node, Operation):
                new = Operation(node.function, tuple(done[id(a)] for a in node.arguments))
                depth += max(depths[id(a)] for a in node.arguments)
            if depth >= DEPTH and node is not value and self.is_safe(node, rows):
                name = self.fresh()
                before.append(Let(name, new))
                new, depth = Name(name), 1
            done[id(node)], depths[id(node)] = new, depth
        return done[id(value)]

    def is_safe(self, node: Scalar, rows: Rows) -> bool:
        """Whether ``node`` can be computed where ``rows`` hold, whatever the conditions around it say."""
        loads = [part for part in subexpressions(node) if isinstance(part, Load)]
        return not any(self.prover.axes_inside(load, self.shapes[load.array], rows) for load in loads)

    def fresh(self) -> str:
        number = 1
        while f"part{number}" in self.taken:
            number += 1
        self.taken.add(f"part{number}")
        return f"part{number}"
