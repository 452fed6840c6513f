"""Kernels as explicit loop nests: the loops over the axes are loops, and what is filled is the target of a statement.

A schedule rewrites such nests; a printer knows nothing else. The statements are `Loop`, `If`, `Set` and `Alloc`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.scalars import Bound, Ends, Load, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import Around, bounds, forms, rewrite, rewrite_scalar, scalars, with_parts
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.data import data_entries

ZERO = Affine()
"""Where all axes begin."""

FALSE = Operation("or", ())
"""A condition that does not hold."""


def extent(array: str, axis: int) -> Affine:
    """The length of an axis, as the array tells it: a variable whose name no other can have."""
    return Affine.variable(f"{array}.shape[{axis}]")


def span(variable: str, start: Affine, stop: Affine, body: Iterable[Statement] = ()) -> Loop:
    """A loop from ``start`` to ``stop - 1``.

    >>> span("i", Affine(), Affine.variable("n")).highs
    (Bound(form=n - 1, divisor=1),)
    """
    return Loop(variable, (Bound(start),), (Bound(stop - 1),), tuple(body))


def exactly(form: Affine) -> Ends:
    """An integer form as a value."""
    return Ends((Bound(form),))


def double(value: Scalar) -> Scalar:
    """A number in double precision."""
    return Operation("double", (value,))


def real(value: Scalar) -> Scalar:
    """A number in the precision of the results."""
    return Operation("real", (value,))


def with_scalars(body: Sequence[Statement], names: Mapping[str, Name | Load]) -> tuple[Statement, ...]:
    """A nest with other scalars, or entries of arrays, in the place of those with ``names``.

    >>> from sympy_tensordiff.codegen.ir.scalars import Number
    >>> with_scalars([Set(Name("s"), Number(2), "sum")], {"s": Name("t")})
    (Set(target=Name(name='t'), value=Number(value=2), reduction='sum'),)
    """

    def changed(part: Scalar) -> Scalar:
        return names.get(part.name, part) if isinstance(part, Name) else part

    def target(part: Name | Load) -> Name | Load:
        return names.get(part.name, part) if isinstance(part, Name) else part

    def value(scalar: Scalar) -> Scalar:
        return rewrite_scalar(scalar, changed)

    return rewrite(body, lambda statement, _: (with_parts(statement, value, target=target),))


def with_numbers(body: Sequence[Statement], arrays: Collection[str]) -> tuple[Statement, ...]:
    """A nest in which arrays, of which it needs one entry only, are scalars.

    >>> from sympy_tensordiff.codegen.ir.scalars import Number
    >>> (found,) = with_numbers([Set(Load("x", ()), Number(2))], {"x"})
    >>> found.target, found.value.function
    (Name(name='x'), 'real')
    """

    def changed(part: Scalar) -> Scalar:
        return Name(part.array) if isinstance(part, Load) and part.array in arrays else part

    def statement(old: Statement, _: Around) -> tuple[Statement, ...]:
        new = with_parts(old, lambda value: rewrite_scalar(value, changed))
        if isinstance(new, Set) and isinstance(new.target, Load) and new.target.array in arrays:
            new = Set(Name(new.target.array), real(new.value))
        return (new,)

    return rewrite(body, statement) if arrays else tuple(body)


# ---------------------------------------------------------------------------- laws of nests
# The laws of scheduled nests: names and entries before use, entries of known rank, one writer for each of a block.


class NestLaws:
    """Checks a nest; a nest that breaks a law is a bug of ours.

    Parameters
    ----------
    known : collection of str
        The scalars, integers and arrays which are passed to the function with their values.
    filled : collection of str
        The arrays to whose entries it writes besides those that it makes.
    block : tuple of str, optional
        The integers between which the first index of each entry lies that the function writes, where other threads
        write the others.
    totals : collection of str
        Arrays of which each block has a copy of its own, or to which threads add atomically.

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
    ) -> None:
        self.known = set(known) | set(block or ())
        self.filled = set(filled)
        self.block = block
        self.totals = totals
        self.own: dict[str, int] = {}
        self.cut: set[str] = set()
        """Variables of loops that stay between the ends of the block."""
        self.around: list[Loop] = []
        self.written: dict[str, list[tuple[tuple[Affine, ...], list[Loop]]]] = {}
        """Where entries of an array have been set so far, and the loops around that."""

    def check(self, body: Sequence[Statement]) -> None:
        """Raise `VerificationError` where a nest breaks a law."""
        for statement in body:
            self.reads(statement)
            if isinstance(statement, Alloc):
                self.own[statement.name] = len(statement.shape)
            elif isinstance(statement, Set):
                self.write(statement)
            elif isinstance(statement, If):
                self.check(statement.body)
            elif isinstance(statement, Loop):
                self.loop(statement)

    def loop(self, loop: Loop) -> None:
        """A loop, whose variable nothing around it has and nothing behind it reads."""
        if loop.variable in self.known:
            raise VerificationError(f"a nest has two loops over {loop.variable} inside of each other")
        is_cut = self.block is not None and self.stays_inside(loop, *self.block)
        self.known.add(loop.variable)
        self.around.append(loop)
        self.cut |= {loop.variable} if is_cut else set()
        self.check(loop.body)
        self.known.discard(loop.variable)
        self.around.pop()
        self.cut.discard(loop.variable)

    def stays_inside(self, loop: Loop, start: str, stop: str) -> bool:
        """Whether the values of a loop lie between the ends of the block."""
        lows = [Bound(Affine.variable(name)) for name in (start, *self.cut)]
        return any(low in lows for low in loop.lows) and Bound(Affine.variable(stop) - 1) in loop.highs

    def reads(self, statement: Statement) -> None:
        """What a statement itself uses has been set before it."""
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
        used |= {entry.tensor for entry in data_entries(forms(own))} | (arrays - self.written.keys())
        if missing := sorted(str(name) for name in used - self.known if "." not in str(name)):
            raise VerificationError(f"a nest uses {', '.join(missing)} before it is set")
        for load in loads:
            if len(load.index) != self.own.get(load.array, len(load.index)):
                raise VerificationError(f"a nest reads {load.array} at {len(load.index)} indices")
            if load.array not in self.own.keys() | self.known:
                self.is_complete(load)

    def is_complete(self, load: Load) -> None:
        """What is read of an array that the nest fills has been set before, in the same turns of loops around both."""
        for index, around in self.written[load.array]:
            common = [loop for loop in self.around if any(loop is other for other in around)]
            same = [form for form, read in zip(index, load.index, strict=True) if form == read]
            for loop in common:
                inner = [one for one in common if Affine.variable(one.variable) in same]
                first = Affine.variable(loop.variable)
                # The values of blocks of a loop that has been split differ where those of the inner loop do.
                is_block = any(
                    Bound(first) in one.lows and Bound(first + (loop.step - 1)) in one.highs for one in inner
                )
                if loop not in inner and not is_block:
                    raise VerificationError(
                        f"a nest reads {load.array} while the loop over {loop.variable} still fills it"
                    )

    def write(self, statement: Set) -> None:
        """A scalar or an entry of an array that the function may write, at a first index of its own in a block."""
        target = statement.target
        if isinstance(target, Name):
            # C computes the bounds of a loop in each turn, Python once.
            if any(target.name in b.form.atoms() for loop in self.around for b in bounds(loop)):
                raise VerificationError(f"a loop changes {target.name}, which its bounds need")
            self.known.add(target.name)
            return
        self.written.setdefault(target.array, []).append((target.index, [*self.around]))
        if target.array in self.own:
            if len(target.index) != self.own[target.array]:
                raise VerificationError(f"a nest writes to {target.array} at {len(target.index)} indices")
            return
        if target.array not in self.filled:
            raise VerificationError(f"a nest writes to {target.array}, which is not its own")
        if target.array in self.totals:
            return
        for loop in self.around:
            if loop.bind and Affine.variable(loop.variable) not in target.index:
                raise VerificationError(f"a nest writes to {target.array} in threads for each {loop.variable}")
        if self.block is not None and (not target.index or target.index[0] not in map(Affine.variable, self.cut)):
            raise VerificationError(f"another block may write to the entry {target.index} of {target.array}")
