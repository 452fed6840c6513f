"""The laws of names, ranks and order in loop nests; `verify` adds that no read leaves its array."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from keyword import iskeyword

from sympy_tensordiff.codegen.ir.loops import (
    If,
    Loop,
    Set,
    Statement,
    defines,
    is_accumulator,
    is_addition,
    is_let,
    is_scatter,
    is_store,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.programs import Correlation, Fused, Kernel, Program, Scatter, Table, Trapezoid
from sympy_tensordiff.codegen.ir.scalars import ELEMENTARY, External, IndexValue, Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.ir.steps import check_step
from sympy_tensordiff.codegen.ir.walk import array_shapes, bounds, scalars, statements, uses
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.data import data_entries
from sympy_tensordiff.integer.lattice import independent

_COMPARISONS = ("lt", "le", "eq", "ne")
_CONNECTIVES = ("and", "or", "not")
_ARITY: dict[str, tuple[int, int | None]] = {
    "add": (2, None), "mul": (2, None), "max": (2, None), "min": (2, None), "and": (2, None), "or": (2, None),
    "neg": (1, 1), "not": (1, 1), "pow": (2, 2), "select": (3, 3), "lt": (2, 2), "le": (2, 2), "eq": (2, 2),
    "ne": (2, 2),
} | {name: (count, count) for name, count in ELEMENTARY.items()}  # fmt: skip


def check_laws(program: Program) -> None:
    """Names are defined once and before use, ranks fit, each array is written by one kernel before it is read."""
    scope = _check_globals(program)
    shapes = array_shapes(program)
    written = {a.name: a.shape for a in program.arguments if a.kind == "array"}
    integers = {a.name for a in program.arguments if a.dtype == "integer"}
    read = set(written)
    tables = frozenset(step.array for step in program.kernels if isinstance(step, Table))
    for kernel in program.kernels:
        assert not isinstance(kernel, Fused | Correlation)  # these are made of programs that have been verified
        where = f"kernel {kernel.array}"
        if kernel.array not in shapes:
            raise VerificationError(f"{where}: no array of this name is declared")
        if isinstance(kernel, Scatter):
            if kernel.array not in written or kernel.array in read or not shapes[kernel.array]:
                raise VerificationError(
                    f"{where}: a scatter adds to an array with axes that has been filled and not read yet"
                )
        elif kernel.array in written:
            raise VerificationError(f"{where}: {kernel.array} is an argument or has been written before")
        if isinstance(kernel, Trapezoid):
            _check_forms(where, [kernel.shift], scope)
        if isinstance(kernel, Table) and not is_same_in_all_calls(kernel, shapes, tables):
            raise VerificationError(f"{where}: a table depends on an argument")
        if not isinstance(kernel, Kernel):
            check_step(kernel, written, shapes[kernel.array])
        elif len(kernel.axes) != len(kernel.box(shapes)):
            raise VerificationError(f"{where}: {len(kernel.axes)} axes for rank {len(kernel.box(shapes))}")
        else:
            others = written
            if kernel.array in written:  # a scatter does not read what it adds to
                others = {name: shape for name, shape in written.items() if name != kernel.array}
            _KernelLaws(kernel, others, shapes, scope, integers).check()
        read.update(uses(kernel).arrays)
        written[kernel.array] = shapes[kernel.array]
    unwritten = sorted(shapes.keys() - written.keys())
    if unwritten:
        raise VerificationError(f"no kernel writes {', '.join(unwritten)}")


Kinds = Mapping[str, str]
"""What each visible name is: "integer", "real", "accumulator" (a real number, too) or "condition"."""


def _check_globals(program: Program) -> Kinds:
    solved = [s.name for s in solve_sizes(program.arguments)]
    integers = {a.name for a in program.arguments if a.kind == "integer"} | set(solved)
    for argument in program.arguments:
        _check_forms(f"argument {argument.name}", argument.shape, integers)
    for check in program.granted:
        _check_forms("a check", [row.form for row in check.violation], integers)
    for size in program.sizes:
        if bool(size.lows) == bool(size.highs):
            raise VerificationError(f"size {size.name}: exactly one of lows and highs is needed")
        _check_forms(f"size {size.name}", size.lows + size.highs, integers)
        integers.add(size.name)
    for array in program.outputs + program.temporaries:
        _check_forms(f"array {array.name}", array.shape, integers)
    for check in program.checks:
        _check_forms("a check", [row.form for row in check.violation], integers)
    names = [a.name for a in program.arguments + program.outputs + program.temporaries]
    names += solved + [size.name for size in program.sizes]
    for name in names:
        _check_identifier("the program", name)
    if len(set(names)) != len(names):
        raise VerificationError(f"a name is declared twice among {', '.join(sorted(names))}")
    kinds = dict.fromkeys(integers, "integer")
    return kinds | {a.name: "real" for a in program.arguments if a.kind == "scalar"}


def _check_forms(where: str, forms: Iterable[Affine], known: Container[str]) -> None:
    for form in forms:
        unknown = sorted(name for name in form.atoms() if name not in known)
        if unknown:
            raise VerificationError(f"{where}: {', '.join(unknown)} in {form} is no integer defined before")


def _check_identifier(where: str, name: str) -> None:
    if not name.isidentifier() or not name.isascii() or iskeyword(name):
        raise VerificationError(f"{where}: {name!r} is no identifier")


def is_same_in_all_calls(kernel: Kernel, shapes: Mapping[str, Sequence[Affine]], tables: AbstractSet[str]) -> bool:
    """Whether a kernel depends on no argument and no size, and on no function of the user's, which may remember."""
    used = uses(kernel)
    functions = {node.function for node in scalars(kernel.body) if isinstance(node, Operation)}
    if used.scalars or used.integers or any(isinstance(function, External) for function in functions):
        return False
    return tables >= set(used.arrays) and all(extent.is_constant for extent in shapes[kernel.array])


def _adding(body: Sequence[Statement]) -> list[Statement]:
    """The statements of a block that add to the array, or hold such; others compute values."""
    return [s for s in body if any(is_scatter(inner) for inner in statements((s,)))]


class _KernelLaws:
    """The laws of one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        written: Mapping[str, tuple[Affine, ...]],
        arrays: Mapping[str, tuple[Affine, ...]],
        outside: Kinds,
        integers: Container[str],
    ) -> None:
        self.kernel = kernel
        self.written = written
        self.arrays = arrays
        self.integers = integers
        self.outside = outside
        self.inside: dict[str, str] = {}
        self.reductions: dict[str, str] = {}
        self.declared: set[str] = set()
        self.read: set[str] = set()
        self.where = f"kernel {kernel.array}"

    def check(self) -> None:
        body = self.kernel.body
        stores, additions = sum(map(is_store, statements(body))), sum(map(is_scatter, statements(body)))
        if isinstance(self.kernel, Scatter):
            if stores or not additions:
                raise VerificationError(f"{self.where}: a scatter sets no entry, and adds to some")
            self.forms(self.kernel.extents)
            if self.kernel.exclusive:
                self.exclusive(self.kernel)
        elif stores != 1 or additions or not is_store(body[-1]) or body[-1].target != self.kernel.entry:
            raise VerificationError(f"{self.where}: its own entry is set once, at top level, last")
        for axis in self.kernel.axes:
            self.declare(axis, "integer")
        self.block(body)

    def exclusive(self, scatter: Scatter) -> None:
        """Check that no two instances add to one entry: each adds once, where affine forms tell all axes apart."""
        additions = [s for s in statements(scatter.body) if is_scatter(s)]
        once = _adding(scatter.body)
        while len(once) == 1 and isinstance(once[0], If):
            once = _adding(once[0].body)
        plain = [form for form in additions[0].index if form.hidden().isdisjoint(scatter.axes)]
        matrix = [tuple([form.coefficient(axis) for axis in scatter.axes]) for form in plain]
        if once != additions or len(independent(matrix)) < len(scatter.axes):
            raise VerificationError(f"{self.where}: two instances of an exclusive scatter may add to one entry")

    def kind(self, name: str) -> str | None:
        """What a visible name is; None where it is not visible."""
        return self.inside.get(name) or self.outside.get(name)

    def forms(self, forms: Iterable[Affine]) -> None:
        """Check that forms hold visible integers only, and entries of arrays of integers with all their indices."""
        forms = list(forms)
        for entry in data_entries(forms):
            if entry.tensor not in self.integers:
                raise VerificationError(f"{self.where}: {entry.tensor} in {entry} is no array of integers")
            self.rank(entry.tensor, entry.index, self.written[entry.tensor])
        names = {name for form in forms for name in form.atoms() if self.kind(name) == "integer"}
        _check_forms(self.where, forms, names)

    def declare(self, name: str, kind: str, again: bool = False) -> None:
        """A new name; a loop variable may be used again by a later loop."""
        _check_identifier(self.where, name)
        if self.kind(name) or name in self.arrays or (name in self.declared and not again):
            raise VerificationError(f"{self.where}: {name} is declared twice")
        self.declared.add(name)
        self.inside[name] = kind

    def block(self, body: tuple[Statement, ...]) -> None:
        """Check the statements of a block; the names that they declare are visible in it only."""
        for statement in body:
            self.where = f"kernel {self.kernel.array}, {type(statement).__name__}"
            self.statement(statement)
        for statement in body:
            if defines(statement):
                del self.inside[statement.name]

    def statement(self, statement: Statement) -> None:
        """Check one statement."""
        if isinstance(statement, Loop):
            self.loop(statement)
        elif isinstance(statement, If):
            self.forms([row.form for row in statement.conditions])
            self.block(statement.body)
        elif is_let(statement):
            condition = self.value(statement.value)
            self.declare(statement.name, "condition" if condition else "real")
        elif is_accumulator(statement):
            self.declare(statement.name, "accumulator")
            self.reductions[statement.name] = reduction_of(statement)
        else:
            assert isinstance(statement, Set)  # the others are made by schedules
            if self.value(statement.value):
                raise VerificationError(f"{self.where}: a condition is no number")
            if is_addition(statement):
                self.add(statement)
            elif is_scatter(statement):
                if statement.name != self.kernel.array or statement.reduction != "sum":
                    raise VerificationError(f"{self.where}: a scatter adds to {self.kernel.array} only")
                self.rank(statement.name, statement.index, self.arrays[statement.name])
                self.forms(statement.index)

    def loop(self, loop: Loop) -> None:
        if not loop.lows or not loop.highs or any(bound.divisor < 1 for bound in bounds(loop)):
            raise VerificationError(f"{self.where}: bounds on both sides with positive divisors are needed")
        self.forms([bound.form for bound in bounds(loop)])
        self.declare(loop.variable, "integer", again=True)
        adds = [s.name for s in statements(loop.body) if is_addition(s) and self.kind(s.name) == "accumulator"]
        early = {n.name for n in scalars(loop.body) if isinstance(n, Name)}.intersection(adds)
        if early:
            raise VerificationError(f"{self.where}: {', '.join(sorted(early))} is read in the loop that fills it")
        self.block(loop.body)
        del self.inside[loop.variable]

    def add(self, statement: Set) -> None:
        if self.kind(statement.name) != "accumulator":
            raise VerificationError(f"{self.where}: {statement.name} is no accumulator declared before")
        if statement.reduction != self.reductions[statement.name]:
            raise VerificationError(
                f"{self.where}: {statement.name} is a {self.reductions[statement.name]}, no {statement.reduction}"
            )
        if statement.name in self.read:
            raise VerificationError(f"{self.where}: {statement.name} has been read before")

    def value(self, value: Scalar) -> bool:
        """Check a scalar expression; whether it is a condition."""
        stack: list[tuple[Scalar, bool | None]] = [(value, None)]
        while stack:
            node, wanted = stack.pop()
            boolean = self.node(node)
            if wanted is not None and boolean != wanted:
                raise VerificationError(f"{self.where}: {node} is {'a condition' if boolean else 'no condition'}")
            if isinstance(node, Operation):
                stack += zip(node.arguments, _wanted(node), strict=True)
        return self.node(value)

    def node(self, node: Scalar) -> bool:
        """Check one node without what is inside it; whether it is a condition."""
        if isinstance(node, IndexValue):
            self.forms([node.form])
        elif isinstance(node, Name):
            kind = self.kind(node.name)
            if kind in (None, "integer"):
                raise VerificationError(f"{self.where}: {node.name} is no scalar defined before")
            self.read.add(node.name)
            return kind == "condition"
        elif isinstance(node, Load):
            self.load(node)
        elif isinstance(node, Operation):
            if isinstance(node.function, External):
                arity: tuple[int, int | None] = (len(node.function.orders), len(node.function.orders))
            else:
                arity = _ARITY.get(node.function, (1, 0))
            least, most = arity
            count = len(node.arguments)
            if most == 0 or count < least or (most is not None and count > most):
                raise VerificationError(f"{self.where}: no operation {node.function!r} with {count} arguments")
            return node.function in _COMPARISONS or node.function in _CONNECTIVES
        elif not isinstance(node, Number):
            raise VerificationError(f"{self.where}: {node!r} is no scalar expression")
        return False

    def load(self, node: Load) -> None:
        if node.array not in self.written:
            raise VerificationError(f"{self.where}: {node.array} is read before it is written")
        if node.array in self.integers:
            raise VerificationError(f"{self.where}: {node.array} holds integers, which are read in index forms")
        self.rank(node.array, node.index, self.written[node.array])
        self.forms(node.index)

    def rank(self, array: str, index: tuple[Affine, ...], shape: tuple[Affine, ...]) -> None:
        """Check that an entry has one index for each axis."""
        if len(index) != len(shape):
            raise VerificationError(f"{self.where}: {len(index)} indices for {array} of rank {len(shape)}")


def _wanted(node: Operation) -> tuple[bool, ...]:
    """Which arguments of an operation have to be conditions."""
    if node.function == "select":
        return True, False, False
    return (node.function in _CONNECTIVES,) * len(node.arguments)
