"""Values that nest deeply or are long are cut into several: Python's parser and compilers refuse such lines.

Python refuses 200 parentheses within each other, and a sum of some thousand terms, which nests
to the left, overflows the stack of its compiler.
"""

from __future__ import annotations

from dataclasses import replace

from sympy_tensordiff.codegen.loops import Kernel, Let, Program, Statement
from sympy_tensordiff.codegen.masks import with_masks
from sympy_tensordiff.codegen.scalars import Name, Operation, Scalar
from sympy_tensordiff.codegen.walk import Around, array_shapes, own_names, parts, rewrite, scalars, values, with_parts

DEPTH = 30
"""How deep the parts are cut."""

SIZE = 100
"""How large the parts are at most, but for the arguments of one operation."""

WIDTH = 20
"""How many terms or factors stand in one line."""

_ASSOCIATIVE = ("add", "mul", "max", "min", "and", "or")


def split_deep(program: Program) -> Program:
    """The program with a `Let` for each part of a value that nests too deeply or is too long.

    Such a part is computed even where it stands behind the condition of a ``select`` that fails. That changes no
    result: what is read there outside of an array is tested.
    """
    if all(_fits(value, DEPTH, SIZE, WIDTH) for kernel in program.nests for value in values(kernel.body)):
        return program
    shapes = array_shapes(program)
    taken = {a.name for a in program.arguments} | {size.name for size in program.sizes} | set(shapes)
    taken |= {name for shape in shapes.values() for form in shape for name in form.atoms()}
    kernels = [_Splitter(step, taken).kernel() if isinstance(step, Kernel) else step for step in program.kernels]
    return with_masks(replace(program, kernels=tuple(kernels)))


def _fits(value: Scalar, depth: int, size: int, width: int) -> bool:
    """Whether a value is neither deeper, nor larger, nor wider than allowed."""
    depths: dict[int, int] = {}
    nodes = parts(value)
    if len(nodes) > size:
        return False
    for node in nodes:
        arguments = node.arguments if isinstance(node, Operation) else ()
        depths[id(node)] = 1 + max((depths[id(a)] for a in arguments), default=0)
        if depths[id(node)] > depth or len(arguments) > width:
            return False
    return True


class _Splitter:
    """Splits the values of one kernel; ``outside`` are the names of the program."""

    def __init__(self, kernel: Kernel, outside: set[str]) -> None:
        self.own = kernel
        self.outside = outside
        self.taken = {*own_names(kernel), *(n.name for n in scalars(kernel.body) if isinstance(n, Name))}
        self.number = 0

    def kernel(self) -> Kernel:
        return replace(self.own, body=rewrite(self.own.body, self.change))

    def change(self, statement: Statement, _: Around) -> list[Statement]:
        """A statement behind the `Let` statements for parts of its value."""
        before: list[Statement] = []

        def value(scalar: Scalar) -> Scalar:
            fits = _fits(scalar, DEPTH, SIZE, WIDTH)
            return scalar if fits else self.value(scalar, before)

        new = with_parts(statement, value)
        return [*before, new]

    def value(self, value: Scalar, before: list[Statement]) -> Scalar:
        """``value`` with its deep and large parts in `Let` statements, which ``before`` receives."""
        done: dict[int, Scalar] = {}
        depths: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for node in parts(value):
            new, depth, size = node, 1, 1
            if isinstance(node, Operation):
                new = Operation(node.function, tuple(done[id(a)] for a in node.arguments))
                if node.function in _ASSOCIATIVE and len(node.arguments) > WIDTH:
                    new = self.folded(new, before)
                    depth, size = DEPTH, WIDTH
                else:
                    depth += max(depths[id(a)] for a in node.arguments)
                    size += sum(sizes[id(a)] for a in node.arguments)
            if (depth >= DEPTH or size >= SIZE) and node is not value:
                new, depth, size = self.named(new, before), 1, 1
            done[id(node)], depths[id(node)], sizes[id(node)] = new, depth, size
        return done[id(value)]

    def folded(self, node: Operation, before: list[Statement]) -> Operation:
        """A long sum or product as several, each of which begins with the one before."""
        arguments = node.arguments
        while len(arguments) > WIDTH:
            first = self.named(Operation(node.function, arguments[:WIDTH]), before)
            arguments = (first, *arguments[WIDTH:])
        return Operation(node.function, arguments)

    def named(self, value: Scalar, before: list[Statement]) -> Name:
        """The name of a new `Let` with this value."""
        name = self.fresh()
        before.append(Let(name, value))
        return Name(name)

    def fresh(self) -> str:
        self.number += 1
        while f"part{self.number}" in self.taken or f"part{self.number}" in self.outside:
            self.number += 1
        return f"part{self.number}"
