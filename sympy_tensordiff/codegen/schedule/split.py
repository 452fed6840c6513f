"""Splitting of deep and long expressions, which Python's parser and compilers refuse, into several assignments.

Python refuses 200 parentheses within each other, and a sum of some thousand terms, which nests
to the left, overflows the stack of its compiler.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sympy_tensordiff.codegen.ir.loops import Loop, Statement, defines, is_let, let
from sympy_tensordiff.codegen.ir.programs import Array, Kernel, Program, Scatter, Step, entrywise
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Operation, Scalar, is_condition
from sympy_tensordiff.codegen.ir.verify import with_masks
from sympy_tensordiff.codegen.ir.walk import (
    Around,
    all_names,
    array_shapes,
    filled,
    outer_names,
    own_names,
    parts,
    rewrite,
    scalars,
    used_names,
    values,
    weight,
    with_parts,
    with_values,
)

DEPTH = 30
"""How deep the parts are cut."""

SIZE = 100
"""How large the parts are at most, but for the arguments of one operation."""

WIDTH = 20
"""The number of terms or factors in one line."""

_ASSOCIATIVE = ("add", "mul", "max", "min", "and", "or")


def split_deep(program: Program) -> Program:
    """Return the program with long or deeply nested expressions cut into several assignments, since compilers take long
    for them.

    Such a part is computed even under the condition of a ``select`` that fails. That changes no result: reads out of
    bounds are tested there.
    """
    if all(_fits(value) for kernel in program.nests for value in values(kernel.body)):
        return program
    taken = outer_names(program)
    kernels = [_Splitter(step, taken).kernel() if isinstance(step, Kernel) else step for step in program.kernels]
    return with_masks(replace(program, kernels=tuple(kernels)))


def _fits(value: Scalar) -> bool:
    """Return whether `value` is within the limits of depth, size and number of operands."""
    depths: dict[int, int] = {}
    nodes = parts(value)
    if len(nodes) > SIZE:
        return False
    for node in nodes:
        arguments = node.arguments if isinstance(node, Operation) else ()
        depths[id(node)] = 1 + max((depths[id(a)] for a in arguments), default=0)
        if depths[id(node)] > DEPTH or len(arguments) > WIDTH:
            return False
    return True


class _Splitter:
    """Splits long expressions of one kernel into several statements. ``outside`` are names that new scalars must not
    have.
    """

    def __init__(self, kernel: Kernel, outside: set[str]) -> None:
        self.own = kernel
        self.outside = outside
        self.taken = {*own_names(kernel), *(n.name for n in scalars(kernel.body) if isinstance(n, Name))}
        self.number = 0

    def kernel(self) -> Kernel:
        """Return the kernel with too deep or long expressions split into several assignments."""
        return replace(self.own, body=rewrite(self.own.body, self.change))

    def change(self, statement: Statement, _: Around) -> list[Statement]:
        """Return `statement` with too deep or too large expressions in it split up, after the assignments that compute
        their parts: ``[part = ..., y[i] = part + ...]``.
        """
        before: list[Statement] = []

        def split_if_large(scalar: Scalar) -> Scalar:
            """Return `scalar` unchanged if it is small; otherwise append assignments of its parts to ``before``, a list
            of the enclosing method, and return the expression in terms of these.
            """
            return scalar if _fits(scalar) else self.value(scalar, before)

        new = with_parts(statement, split_if_large)
        return [*before, new]

    def value(self, value: Scalar, before: list[Statement]) -> Scalar:
        """Return ``value`` with names in place of parts that are too deep or too large. The assignments of these names
        are appended to ``before``.
        """
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
                    depth += max((depths[id(a)] for a in node.arguments), default=0)
                    size += sum(sizes[id(a)] for a in node.arguments)
            if (depth >= DEPTH or size >= SIZE) and node is not value:
                new, depth, size = self.named(new, before), 1, 1
            done[id(node)], depths[id(node)], sizes[id(node)] = new, depth, size
        return done[id(value)]

    def folded(self, node: Operation, before: list[Statement]) -> Operation:
        """Return `node`, a long sum or product, with at most ``WIDTH`` operands. While there are more, a new scalar
        replaces the first ``WIDTH`` operands, and its assignment is appended to ``before``.
        """
        arguments = node.arguments
        while len(arguments) > WIDTH:
            first = self.named(Operation(node.function, arguments[:WIDTH]), before)
            arguments = (first, *arguments[WIDTH:])
        return Operation(node.function, arguments)

    def named(self, value: Scalar, before: list[Statement]) -> Name:
        """Append an assignment of `value` to ``before``, and return its new name."""
        name = self.fresh()
        before.append(let(name, value))
        return Name(name)

    def fresh(self) -> str:
        """Return an unused name for a scalar that stores a subexpression: ``part1``, ``part2``, ..."""
        self.number += 1
        while f"part{self.number}" in self.taken or f"part{self.number}" in self.outside:
            self.number += 1
        return f"part{self.number}"


# ---------------------------------------------------------------------------- kernels that are too large
# Kernels too large for a compiler are cut into several, with temporaries for what one hands to the next.
#
# Compilers take more than linear time for a function. So in a large kernel each value that is used
# twice, each sum, and each value that has grown large is computed by a kernel of its own, entry by
# entry; the others stay with the one place where they are used.


MAX_KERNEL_OPERATIONS = 300
"""Kernels of more scalar operations and reads than this are cut.

Half and twice as much change no text of the benchmarks.
"""

PIECE = 60
"""A value of more than this gets a kernel of its own. Half and twice as much change no text of the benchmarks."""

SHARED = 4
"""So does a value of more than this that is used more than once.

Half and twice as much change no text of the benchmarks.
"""


def split_large(program: Program) -> Program:
    """Return the program with large kernels cut into several small ones, since compilers take long for them. A single
    large loop is not cut.
    """
    if all(weight(kernel.body) <= MAX_KERNEL_OPERATIONS for kernel in program.nests):
        return program
    taken = all_names(program)
    kernels: list[Step] = []
    arrays: list[Array] = []
    shapes = array_shapes(program)
    for kernel in program.kernels:
        if (
            not isinstance(kernel, Kernel)
            or isinstance(kernel, Scatter)
            or weight(kernel.body) <= MAX_KERNEL_OPERATIONS
        ):
            kernels.append(kernel)
            continue
        pieces = _Pieces(kernel, taken)
        kernels += pieces.kernels
        arrays += [Array(name, shapes[kernel.array]) for name in pieces.made]
    return replace(program, kernels=tuple(kernels), temporaries=(*program.temporaries, *arrays))


class _Pieces:
    """Splits a kernel that is too large for compilers into several. Values that they share are stored in new arrays,
    listed in ``made``.
    """

    def __init__(self, kernel: Kernel, taken: set[str]) -> None:
        self.kernel = kernel
        self.taken = taken
        self.kernels: list[Kernel] = []
        self.made: list[str] = []
        self.loads: dict[str, Load] = {}
        self.positions = {id(statement): number for number, statement in enumerate(kernel.body)}
        self.declared = {s.name: s for s in kernel.body if defines(s)}
        # What defines each name at top level, and the weight of that with all names it needs that have no array.
        self.definitions: dict[str, list[Statement]] = {}
        self.weights: dict[str, int] = {}
        self.cut()

    def cut(self) -> None:
        """Build the list of smaller kernels, in the order of the statements of the large one."""
        body = self.kernel.body
        uses = Counter(name for statement in body for name in used_names(statement))
        conditions: set[str] = set()
        last = {name: number for number, statement in enumerate(body) for name in filled(statement)}
        for number, statement in enumerate(body):
            if defines(statement):
                self.definitions[statement.name] = [statement]
                self.weights[statement.name] = 0
            for name in filled(statement):
                if not defines(statement):
                    others = [self.declared[other] for other in filled(statement) if other != name]
                    self.definitions[name] += [*others, statement]
                self.weights[name] += weight([statement]) + self.below(statement)
            if is_let(statement) and is_condition(statement.value, conditions):
                conditions.add(statement.name)
                continue
            for name in filled(statement):
                large = self.weights[name] > (SHARED if uses[name] > 1 else PIECE)
                if last[name] == number and (large or isinstance(statement, Loop)):
                    self.store(name)
        result = body[-1]
        self.kernels.append(replace(self.kernel, body=self.piece([], result)))

    def below(self, statement: Statement) -> int:
        """Return the number of operations to compute the scalars that `statement` uses, without those that are stored
        in new arrays.
        """
        return sum(
            self.weights[name] for name in used_names(statement) if name in self.weights and name not in self.loads
        )

    def store(self, name: str) -> None:
        """Add a kernel that stores the value of the scalar `name` in a new array, from which other kernels read it."""
        number = len(self.made) + 1
        while (array := f"{self.kernel.array}_part{number}") in self.taken:
            number += 1
        self.taken.add(array)
        self.made.append(array)
        kernel = entrywise(array, self.kernel.axes, (), Name(name))
        self.kernels.append(replace(kernel, body=self.piece(self.definitions[name], kernel.body[0])))
        self.loads[name] = kernel.entry

    def piece(self, body: list[Statement], store: Statement) -> tuple[Statement, ...]:
        """Return the body of a new kernel that is split off a large one: the statements `body` and `store`, preceded by
        the statements that they need. Scalars that another new kernel stores in an array are read from there.
        """
        needed = {name for statement in body for name in filled(statement)}
        statements = {self.positions[id(statement)]: statement for statement in body}
        stack = [name for statement in [*body, store] for name in used_names(statement)]
        while stack:
            name = stack.pop()
            if name in self.definitions and name not in self.loads and name not in needed:
                needed.add(name)
                for statement in self.definitions[name]:
                    statements[self.positions[id(statement)]] = statement
                    stack += used_names(statement)
        ordered = [statements[position] for position in sorted(statements)]
        return with_values([*ordered, store], self.read)

    def read(self, value: Scalar) -> Scalar:
        """Return the read of the array that stores the scalar `value`, if there is one; other nodes unchanged."""
        return self.loads.get(value.name, value) if isinstance(value, Name) else value
