"""Loop-invariant code motion for reads of integer arrays.

As far as a compiler knows, an integer array may overlap with the array that the kernel writes. It would load each place
again in every pass of the innermost loop, and could not vectorise that. So a loop reads once for all iterations of its
inner loops, and functions of gathered entries are computed from a row that has been read before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sympy_tensordiff.codegen.ir.facts import Prover, data_reads, is_vectorised, rows_of
from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement, is_let, is_store, let
from sympy_tensordiff.codegen.ir.nests import exactly
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Load, MaskedEntry, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import forms, rewrite_scalar, scalars, statements, walk, with_parts, with_values
from sympy_tensordiff.codegen.schedule.rows import RowPlan, RowPlanner, Segment
from sympy_tensordiff.integer.affine import Affine, Variable
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.rows import Rows

Entry: TypeAlias = "IndirectIndex | Load"


@dataclass(frozen=True)
class InvariantReads:
    """Moves reads that are the same in all iterations of a loop, such as ``idx[i]`` in a loop over j with ``x[idx[i],
    j]``, in front of the loop.

    `fresh` makes names, `extents` maps the variables of axis lengths to extents. With `has_values`, reads of arrays of
    real numbers are hoisted, too.
    """

    prover: Prover
    fresh: Callable[[str], str]
    extents: Mapping[Variable, Affine]
    has_values: bool

    def body(self, body: Sequence[Statement], rows: Rows) -> tuple[Statement, ...]:
        """Return the loop nest `body` with loop-invariant reads moved in front of loops, if it reads entries of integer
        arrays; else `body` itself. ``rows`` are constraints that hold around it.
        """
        return self.block(body, rows, {}, "") if any(data_entries(forms(body))) else tuple(body)

    def block(
        self, body: Sequence[Statement], rows: Rows, stored_entries: Mapping[Entry, str], variable: str
    ) -> tuple[Statement, ...]:
        """Return the statements of `body`, the body of the loop over `variable`, with each entry that its inner loops
        read repeatedly stored in a scalar before these loops. ``stored_entries`` maps entries that are stored already
        to their scalars; ``rows`` are known constraints.

        `variable` is "" outside of all loops.

        An entry that may be out of bounds is not read before the loops.
        """
        stored_entries, reads = dict(stored_entries), list[Statement]()
        for entry in dict.fromkeys(self.wanted(body, variable)):
            if self.is_inside(entry, rows):
                name = self.fresh(entry_name(entry))
                value = entry if isinstance(entry, Load) else exactly(Affine.variable(entry))
                reads.append(with_parts(Set(Name(name), value), *_replacements_by_names(stored_entries)))
                stored_entries[entry] = name
        return (*reads, *self.inside(body, rows, stored_entries))

    def inside(self, body: Sequence[Statement], rows: Rows, known: Mapping[Entry, str]) -> Iterator[Statement]:
        """Yield the statements of `body` with each array entry in `known` replaced by the variable that contains its
        value. ``rows`` are constraints that hold for `body`; inner loops are rewritten by `block`.
        """
        for statement in body:
            new = with_parts(statement, *_replacements_by_names(known))
            inner = (*rows, *(row.substitute(self.extents) for row in rows_of(statement)))
            if isinstance(statement, Loop) and isinstance(new, Loop):
                new = replace(new, body=self.block(statement.body, inner, known, statement.variable))
            elif isinstance(statement, If) and isinstance(new, If):
                new = replace(new, body=tuple(self.inside(statement.body, inner, known)))
            else:
                rows = inner
            yield new

    def wanted(self, body: Sequence[Statement], variable: str) -> Iterator[Entry]:
        """Yield the array entries to read before the inner loops of `body`, once in each iteration over `variable`: the
        inner loops read them, but their indices do not depend on variables of these loops.

        They depend on `variable`; if it is "", they are read once in all.
        """
        targets = [s.target for s in statements(body) if isinstance(s, Set)]
        others = self.prover.shapes.keys() - {target.array for target in targets if isinstance(target, Load)}
        own = {target.name for target in targets if isinstance(target, Name)}
        for statement, around in walk(body):
            inner = own.union(loop.variable for loop in around if isinstance(loop, Loop))
            if any(isinstance(loop, Loop) for loop in around):
                for entry in self.entries(statement, others):
                    atoms = frozenset[object]().union(*(form.atoms() for form in entry.index))
                    if atoms.isdisjoint(inner) and (not variable or variable in atoms):
                        yield entry

    def entries(self, statement: Statement, arrays: Collection[str]) -> Iterator[Entry]:
        """Yield the reads in `statement` that may be moved out of loops: entries of integer arrays in its indices, and
        if ``self.has_values``, its reads of ``arrays``.
        """
        own = [replace(statement, body=()) if isinstance(statement, Loop | If) else statement]
        for entry in data_entries(forms(own)):
            if not isinstance(entry, MaskedEntry):
                yield entry
        for value in scalars(own) if self.has_values else ():
            if isinstance(value, Load) and value.index and value.array in arrays:
                yield value

    def is_inside(self, entry: Entry, context: Rows) -> bool:
        """Return whether `entry`, and the entries in its own index, are proved to be in bounds in the context."""
        own = entry if isinstance(entry, Load) else Load(entry.tensor, entry.index)
        if any(isinstance(inner, MaskedEntry) for inner in data_entries(own.index)):
            return False
        loads = [*data_reads(own.index), own]
        return not any(self.prover.unproved_bounds(load, context) for load in loads)


def _replacements_by_names(known: Mapping[Entry, str]) -> tuple[Callable[[Scalar], Scalar], Callable[[Affine], Affine]]:
    """Return two functions that replace each array entry in `known` by the scalar with its name: the first for the
    nodes of scalar expressions, the second for affine forms.
    """
    data: dict[Variable, Affine] = {e: Affine.variable(n) for e, n in known.items() if isinstance(e, IndirectIndex)}

    def form_with_names(one: Affine) -> Affine:
        """Return the affine form ``one`` with scalars in place of the integer-array entries whose values have names."""
        return one.substitute(data)

    def part_with_names(one: Scalar) -> Scalar:
        """Return the scalar expression `one` with names in place of the array entries whose values have names. Entries
        in the indices of other reads are replaced, too.
        """
        if isinstance(one, IndexValue):
            return IndexValue(form_with_names(one.form))
        if not isinstance(one, Load):
            return one
        return Name(known[one]) if one in known else Load(one.array, tuple(map(form_with_names, one.index)))

    return lambda value: rewrite_scalar(value, part_with_names), form_with_names


def entry_name(entry: Entry) -> str:
    """Return a readable name for the scalar that stores an array entry: ``idx_i`` for ``idx[i]``."""
    array = entry.array if isinstance(entry, Load) else entry.tensor
    name = "_".join([array, *map(str, entry.index)])
    return name if name.isidentifier() else f"{array}_entry"


def gathers_first(kernel: Kernel, fresh: Callable[[str], str]) -> tuple[Kernel, RowPlan | None]:
    """Return ``(kernel, plan)`` for a kernel that reads data-dependent entries of a row, such as ``x[idx[i]]``: the new
    kernel first copies these entries to a local row, and then applies functions to it with vector instructions.

    ``fresh`` makes the name of the row. Without such reads, return the kernel unchanged and None.
    """
    if not kernel.axes or not all(is_let(statement) or is_store(statement) for statement in kernel.body):
        return kernel, None
    parts = list(scalars(kernel.body))
    functions = {part.function for part in parts if isinstance(part, Operation)}
    if not any(map(is_vectorised, parts)) or "select" in functions:
        return kernel, None
    loads = [part for part in parts if isinstance(part, Load)]
    axis = kernel.axes[-1]
    gathers = [load for load in loads if any(axis in entry.atoms() for entry in data_entries(load.index))]
    if not gathers:
        return kernel, None
    names = {load: fresh(f"{load.array}_row") for load in dict.fromkeys(gathers)}
    lets = [let(name, load) for load, name in names.items()]
    body = with_values(
        kernel.body, lambda part: Name(names[part]) if isinstance(part, Load) and part in names else part
    )
    kernel = replace(kernel, body=(*lets, *body))
    segments = [Segment("entry", [*lets]), Segment("entry", [*body])]
    return kernel, RowPlan(RowPlanner(kernel, is_long=False), segments, frozenset(names.values()))
