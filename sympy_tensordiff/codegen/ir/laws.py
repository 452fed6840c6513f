"""The laws of programs and loop nests on names, ranks and order; `verify` adds that no read is out of bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from keyword import iskeyword

from sympy_tensordiff.codegen.ir.dataflow import check_order, is_same_in_all_calls
from sympy_tensordiff.codegen.ir.loops import (
    Alloc,
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
from sympy_tensordiff.codegen.ir.programs import (
    ConstantKernel,
    Correlation,
    FusedKernels,
    Kernel,
    Program,
    Recurrence,
    Scatter,
    Trapezoid,
)
from sympy_tensordiff.codegen.ir.scalars import (
    ELEMENTARY,
    Bound,
    External,
    Identity,
    Load,
    Name,
    Operation,
    is_condition,
)
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.ir.steps import check_recurrence, check_step
from sympy_tensordiff.codegen.ir.walk import (
    added,
    array_shapes,
    bounds,
    declared,
    filled_arrays,
    forms,
    scalars,
    statements,
    subexpressions,
    used_names,
)
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.lattice import independent

_ARGUMENT_COUNTS: dict[str, tuple[int, int | None]] = {
    "add": (2, None), "mul": (2, None), "max": (2, None), "min": (2, None), "and": (2, None), "or": (2, None),
    "neg": (1, 1), "not": (1, 1), "pow": (2, 2), "select": (3, 3), "lt": (2, 2), "le": (2, 2), "eq": (2, 2),
    "ne": (2, 2), "infinity": (0, 0),
} | {name: (count, count) for name, count in ELEMENTARY.items()}  # fmt: skip


def check_laws(program: Program) -> None:
    """Raise VerificationError if a program is malformed: a name is defined twice or used before its definition, ranks
    do not match, or an array is read before it is filled.
    """
    integers = _check_globals(program)
    check_order(program)
    shapes = array_shapes(program)
    begun = {a.name for a in program.arguments}
    tables = frozenset(step.array for step in program.kernels if isinstance(step, ConstantKernel))
    for kernel in program.kernels:
        assert not isinstance(kernel, FusedKernels | Correlation)  # these are made of programs that have been verified
        where = f"kernel {kernel.array}"
        if kernel.array not in shapes:
            raise VerificationError(f"{where}: no array of this name is declared")
        if isinstance(kernel, Scatter):
            if not shapes[kernel.array]:
                raise VerificationError(f"{where}: a scatter adds to an array with axes")
        elif kernel.array in begun:
            raise VerificationError(f"{where}: {kernel.array} is an argument or has been written before")
        if isinstance(kernel, Trapezoid):
            _check_forms(where, [kernel.shift], integers)
        if isinstance(kernel, ConstantKernel) and not is_same_in_all_calls(kernel, shapes, tables):
            raise VerificationError(f"{where}: a table depends on an argument")
        if isinstance(kernel, Recurrence):
            _check_forms(where, kernel.forms, integers)
            check_recurrence(kernel, shapes)
        elif not isinstance(kernel, Kernel):
            check_step(kernel, shapes, shapes[kernel.array])
        elif len(kernel.axes) != len(kernel.box(shapes)):
            raise VerificationError(f"{where}: {len(kernel.axes)} axes for rank {len(kernel.box(shapes))}")
        else:
            _check_kernel(kernel, program, integers)
        begun.update(filled_arrays(kernel))
    if unwritten := sorted(shapes.keys() - begun):
        raise VerificationError(f"no kernel writes {', '.join(unwritten)}")


def _check_globals(program: Program) -> set[str]:
    """Raise VerificationError if the arguments, sizes, arrays or run-time checks of a program have wrong names or use
    unknown ones. Return the names of integers that all kernels may use.
    """
    solved = [s.name for s in solve_sizes(program.arguments)]
    integers = {a.name for a in program.arguments if a.kind == "integer"} | set(solved)
    for argument in program.arguments:
        _check_forms(f"argument {argument.name}", argument.shape, integers)
    for check in program.assumptions:
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
    return integers


def _check_forms(where: str, forms: Iterable[Affine], known: Container[str]) -> None:
    """Raise VerificationError if a form contains a name that is not in ``known``. ``where`` is the beginning of the
    message.
    """
    for form in forms:
        unknown = sorted(name for name in form.atoms() if name not in known)
        if unknown:
            raise VerificationError(f"{where}: {', '.join(unknown)} in {form} is not an integer defined before")


def _check_identifier(where: str, name: str) -> None:
    """Raise VerificationError if a name is not an identifier. ``where`` is the beginning of the message."""
    if not name.isidentifier() or not name.isascii() or iskeyword(name):
        raise VerificationError(f"{where}: {name!r} is not an identifier")


def _check_kernel(kernel: Kernel, program: Program, integers: AbstractSet[str]) -> None:
    """Raise VerificationError if a kernel is malformed: it uses an undefined name, uses one name both as an integer and
    as a real number, or sets entries of an array that it does not fill.
    """
    where, inside, used = f"kernel {kernel.array}", list(statements(kernel.body)), list(forms(kernel.body))
    shapes = array_shapes(program)
    numbers = {a.name for a in program.arguments if a.kind == "scalar"}
    _check_names(where, kernel, {*integers, *numbers, *shapes})
    _check_stores(where, kernel, inside)
    known = {*integers, *numbers, *kernel.axes, *shapes}
    if isinstance(kernel, Scatter):
        _check_forms(where, kernel.extents, integers)
    else:
        known.remove(kernel.array)
    ranks = {array: len(shape) for array, shape in shapes.items()}
    NestLaws(known, [kernel.array], where=where, ranks=ranks).check(kernel.body)
    numbers |= {s.name for s in inside if defines(s)}
    parts = list(scalars(kernel.body))
    names = {part.name for part in parts if isinstance(part, Name)}
    if mixed := (numbers & {name for form in used for name in form.atoms()}) | (names - numbers):
        raise VerificationError(f"{where}: {', '.join(sorted(mixed))} is both an integer and a number")
    data = {a.name for a in program.arguments if a.dtype == "integer"}
    for entry in data_entries(used):
        if entry.tensor not in data:
            raise VerificationError(f"{where}: {entry.tensor} in {entry} is not an array of integers")
    if found := sorted(data & {part.array for part in parts if isinstance(part, Load)}):
        raise VerificationError(f"{where}: {found[0]} holds integers, which are read in index forms")
    _check_values(where, inside)
    _check_reductions(where, inside)


def _check_names(where: str, kernel: Kernel, outside: AbstractSet[str]) -> None:
    """Raise VerificationError if a kernel declares a name twice, or one that is in `outside`; several loops may share a
    variable. ``where`` names the kernel in the message.
    """
    inside = list(statements(kernel.body))
    variables = {s.variable for s in inside if isinstance(s, Loop)}
    own = Counter([*kernel.axes, *(s.name for s in inside if defines(s)), *variables])
    for name in own:
        _check_identifier(where, name)
    if twice := sorted(name for name, count in own.items() if count > 1 or name in outside):
        raise VerificationError(f"{where}: {', '.join(twice)} is declared twice")


def _check_stores(where: str, kernel: Kernel, inside: Sequence[Statement]) -> None:
    """Raise VerificationError unless ``kernel`` stores its entry exactly once, in its last statement. A scatter must
    instead only add to entries. ``inside`` are all statements of the kernel; ``where`` names it in the message.
    """
    stores, additions = [s for s in inside if is_store(s)], [s for s in inside if is_scatter(s)]
    if not isinstance(kernel, Scatter):
        if additions or stores != [kernel.body[-1]] or stores[0].target != kernel.entry:
            raise VerificationError(f"{where}: its own entry is set once, at top level, last")
        return
    if stores or not additions:
        raise VerificationError(f"{where}: a scatter sets no entry, and adds to some")
    if kernel.reduction == "prod" or any(s.reduction != kernel.reduction for s in additions):
        raise VerificationError(f"{where}: a scatter has sums only, or maxima, or minima")
    if kernel.exclusive and not _is_exclusive(kernel, additions):
        raise VerificationError(f"{where}: two instances of an exclusive scatter may add to one entry")


def _is_exclusive(scatter: Scatter, additions: Sequence[Set]) -> bool:
    """Return whether no two iterations of a scatter's loops add to the same entry, so that no atomic additions are
    needed.
    """
    once: Sequence[Statement] = scatter.body
    while once := [s for s in once if any(map(is_scatter, statements([s])))]:
        if len(once) > 1 or not isinstance(once[0], If):
            break
        once = once[0].body
    plain = [form for form in additions[0].index if form.hidden().isdisjoint(scatter.axes)]
    matrix = [tuple([form.coefficient(axis) for axis in scatter.axes]) for form in plain]
    return once == additions and len(independent(matrix)) == len(scatter.axes)


def _check_values(where: str, inside: Sequence[Statement]) -> None:
    """Raise VerificationError if a statement of a kernel uses a condition as a number, or a number as a condition.
    ``inside`` are the statements; ``where`` names the kernel in the message.
    """
    conditions: set[str] = set()
    for s in inside:
        if not isinstance(s, Set) or isinstance(s.value, Identity):
            continue
        for node in subexpressions(s.value):
            if isinstance(node, Operation):
                _check_operation(where, node, conditions)
        if is_condition(s.value, conditions):
            if not is_let(s):
                raise VerificationError(f"{where}: a condition is not a number")
            conditions.add(s.name)


def _check_operation(where: str, node: Operation, conditions: Container[str]) -> None:
    """Raise VerificationError if the operation ``node`` has a wrong number of arguments, a number in place of a
    condition, or a condition in place of a number. ``conditions`` are the names of boolean scalars, ``where`` is the
    beginning of the message.
    """
    function, count = node.function, len(node.arguments)
    if isinstance(function, External):
        arity: tuple[int, int | None] = (len(function.orders), len(function.orders))
    else:
        arity = _ARGUMENT_COUNTS.get(function, (1, 0))
    least, most = arity
    if count < least or (most is not None and count > most):
        raise VerificationError(f"{where}: no operation {function!r} with {count} arguments")
    for number, argument in enumerate(node.arguments):
        wanted = function in ("and", "or", "not") or (function == "select" and not number)
        if is_condition(argument, conditions) != wanted:
            raise VerificationError(f"{where}: {argument} is {'not ' if wanted else ''}a condition")


def _check_reductions(where: str, inside: Sequence[Statement]) -> None:
    """Raise `VerificationError` if a kernel reads an accumulator before the loop that updates it has ended, or updates
    it by another reduction than the one it was initialised for. ``inside`` are the statements of the kernel, `where` is
    the beginning of the message.
    """
    starts, read = declared(inside), set[str]()
    for s in inside:
        if isinstance(s, Loop) and (early := used_names(s) & added(s.body).keys()):
            raise VerificationError(f"{where}: {', '.join(sorted(early))} is read in the loop that fills it")
        if is_addition(s):
            start = starts[s.name]
            if not is_accumulator(start):
                raise VerificationError(f"{where}: {s.name} is not an accumulator declared before")
            if s.reduction != reduction_of(start):
                raise VerificationError(f"{where}: {s.name} is a {reduction_of(start)}, not a {s.reduction}")
            if s.name in read:
                raise VerificationError(f"{where}: {s.name} has been read before")
        read |= used_names(s) if isinstance(s, Set) else set()


# ---------------------------------------------------------------------------- laws of nests
# Names and entries are set before use, indices match ranks, and blocks write distinct entries.


class NestLaws:
    """Checks that a loop nest is well formed: names are set before they are used, arrays have the right numbers of
    axes, and a thread writes only the entries that it has to compute. A violation is a bug of this package.

    The function gets values for the names `known`, and writes to the arrays `filled` and those that it allocates. If
    other threads write other entries, `block` has the two integers that bound the first index of its own entries. Each
    block of threads has its own copy of the arrays `totals`, or adds to them atomically. `where` names the nest in
    messages; `ranks` maps arrays to their numbers of axes.

    Examples
    --------
    >>> from sympy_tensordiff.codegen.ir.scalars import Number
    >>> NestLaws(["n"], ["x"]).check([Set(Name("s"), Number(1), "sum")])
    Traceback (most recent call last):
    ...
    sympy_tensordiff.errors.VerificationError: a nest uses s before it is set
    """

    def __init__(
        self,
        known: Collection[str],
        filled: Collection[str],
        block: tuple[str, str] | None = None,
        totals: Collection[str] = (),
        where: str = "a nest",
        ranks: Mapping[str, int] | None = None,
    ) -> None:
        self.known = set(known) | set(block or ())
        self.filled = set(filled)
        self.block = block
        self.totals = totals
        self.where = where
        self.ranks = dict(ranks or {})
        self.allocated: set[str] = set()
        self.block_variables: set[str] = set()
        """The variables of loops whose ranges are within the block."""
        self.enclosing_loops: list[Loop] = []
        self.written: dict[str, list[tuple[tuple[Affine, ...], list[Loop]]]] = {}
        """The indices at which each array has been written so far, with the enclosing loops."""

    def check(self, body: Sequence[Statement]) -> None:
        """Raise VerificationError if one of the statements ``body``, or one inside of them, breaks a rule of
        `NestLaws`, such as that a name is set before it is used. Names that ``body`` sets are unknown again afterwards.
        """
        outside = set(self.known)
        for statement in body:
            self.check_reads(statement)
            if isinstance(statement, Alloc):
                self.allocated.add(statement.name)
                self.ranks[statement.name] = len(statement.shape)
            elif isinstance(statement, Set):
                self.check_write(statement)
            elif isinstance(statement, If):
                self.check(statement.body)
            elif isinstance(statement, Loop):
                self.check_loop(statement)
        self.known = outside

    def check_loop(self, loop: Loop) -> None:
        """Raise VerificationError if ``loop`` has no lower or upper bound, if an enclosing loop has the same variable,
        or if a statement in its body violates one of the rules that this class checks.
        """
        if not loop.lows or not loop.highs or any(bound.divisor < 1 for bound in bounds(loop)):
            raise VerificationError(f"{self.where} has a loop without bounds on both sides with positive divisors")
        if loop.variable in self.known:
            raise VerificationError(f"{self.where} has two loops over {loop.variable} inside of each other")
        is_cut = self.block is not None and self.stays_in_block(loop, *self.block)
        self.known.add(loop.variable)
        self.enclosing_loops.append(loop)
        self.block_variables |= {loop.variable} if is_cut else set()
        self.check(loop.body)
        self.known.discard(loop.variable)
        self.enclosing_loops.pop()
        self.block_variables.discard(loop.variable)

    def stays_in_block(self, loop: Loop, start: str, stop: str) -> bool:
        """Return whether `loop` stays within the block of rows that a thread computes: all values of its variable are
        between ``start`` and ``stop``, the ends of the block.
        """
        lows = [Bound(Affine.variable(name)) for name in (start, *self.block_variables)]
        return any(low in lows for low in loop.lows) and Bound(Affine.variable(stop) - 1) in loop.highs

    def check_reads(self, statement: Statement) -> None:
        """Raise VerificationError if a statement uses a name before it is set, or an array with a wrong number of
        indices. The statements in its body are not checked.
        """
        own = [replace(statement, body=()) if isinstance(statement, Loop | If) else statement]
        nodes = list(scalars(own))
        used = {node.name for node in nodes if isinstance(node, Name)}
        used = used.union(*(form.atoms() for form in forms(own)))
        if isinstance(statement, Alloc):
            used = used.union(*(b.form.atoms() for ends in statement.shape for b in bounds(ends)))
        loads = dict.fromkeys(node for node in nodes if isinstance(node, Load))
        arrays = {load.array for load in loads}
        if isinstance(statement, Set) and statement.reduction:
            target = statement.target
            arrays.add(target.name if isinstance(target, Name) else target.array)
        data = data_entries(forms(own))
        used |= {entry.tensor for entry in data} | (arrays - self.written.keys())
        if missing := sorted(str(name) for name in used - self.known if "." not in str(name)):
            raise VerificationError(f"{self.where} uses {', '.join(missing)} before it is set")
        for array, index in [(load.array, load.index) for load in loads] + [(one.tensor, one.index) for one in data]:
            if len(index) != self.ranks.get(array, len(index)):
                raise VerificationError(f"{self.where} reads {array} at {len(index)} indices")
        for load in loads:
            if load.array not in self.allocated | self.known:
                self.check_complete(load)

    def check_complete(self, load: Load) -> None:
        """Raise `VerificationError` if the read ``load`` is of an array that an enclosing loop of the nest is still
        filling.
        """
        for index, enclosing in self.written[load.array]:
            common = [loop for loop in self.enclosing_loops if any(loop is other for other in enclosing)]
            same = [form for form, read in zip(index, load.index, strict=True) if form == read]
            for loop in common:
                inner = [one for one in common if Affine.variable(one.variable) in same]
                # The outer variable of a split loop is determined by the inner one, also by those of two loops.
                strips = [
                    {one.variable for one in around if _is_strip(one, loop)}
                    for around in (enclosing, self.enclosing_loops)
                ]
                is_block = any(Affine.variable(variable) in same for variable in strips[0] & strips[1])
                if loop not in inner and not is_block:
                    raise VerificationError(
                        f"{self.where} reads {load.array} while the loop over {loop.variable} still fills it"
                    )

    def check_write(self, statement: Set) -> None:
        """Raise VerificationError if an assignment changes a bound of an enclosing loop, writes to an array that the
        nest must not fill, or writes to an entry that belongs to another thread.
        """
        target = statement.target
        if isinstance(target, Name):
            # C computes the bounds of a loop in each iteration, Python once.
            if any(target.name in b.form.atoms() for loop in self.enclosing_loops for b in bounds(loop)):
                raise VerificationError(f"a loop changes {target.name}, which its bounds need")
            self.known.add(target.name)
            return
        self.written.setdefault(target.array, []).append((target.index, [*self.enclosing_loops]))
        if len(target.index) != self.ranks.get(target.array, len(target.index)):
            raise VerificationError(f"{self.where} writes to {target.array} at {len(target.index)} indices")
        if target.array in self.allocated:
            return
        if target.array not in self.filled:
            raise VerificationError(f"{self.where} writes to {target.array}, which is not its own")
        if target.array in self.totals:
            return
        for loop in self.enclosing_loops:
            if loop.bind and Affine.variable(loop.variable) not in target.index:
                raise VerificationError(f"{self.where} writes to {target.array} in threads for each {loop.variable}")
        if self.block is not None and (
            not target.index or target.index[0] not in map(Affine.variable, self.block_variables)
        ):
            raise VerificationError(f"another block may write to the entry {target.index} of {target.array}")


def _is_strip(inner: Loop, outer: Loop) -> bool:
    """Return whether ``inner`` runs over the steps between two values of the variable of ``outer``."""
    first = Affine.variable(outer.variable)
    return Bound(first) in inner.lows and Bound(first + (outer.step - 1)) in inner.highs
