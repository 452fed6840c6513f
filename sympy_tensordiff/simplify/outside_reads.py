"""The check of an input: a read that leaves its shape for every size is refused, whatever is asked about it.

Kernels refuse a call in which a read leaves its shape, so such an input has no value at all, and a derivative of it
would be that of another expression. Considered are the reads that no condition guards; those that leave
their shape for some sizes only are left to the call, and so are those for which the integers cannot be projected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sympy_tensordiff.errors import OutOfShapeError
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.graph.write_forms import Forms
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import apart, data_entries
from sympy_tensordiff.integer.exact_projection import project_exactly
from sympy_tensordiff.integer.extrema import cases
from sympy_tensordiff.integer.polyhedron import implied, is_empty
from sympy_tensordiff.simplify.facts import Facts, at_extreme, limits_of, positive_sizes

MOST = 20_000
"""So many nodes, each with the ranges around it, are looked at."""

Access = tuple[Node, tuple[Affine, ...]]
"""A tensor, and the index at which it is read."""


def check_reads(reader: Reader, roots: Sequence[Node]) -> None:
    """Refuse an input in which an unconditional read leaves its shape for every size.

    Parameters
    ----------
    reader : Reader
        What has read the input.
    roots : sequence of Node
        What it has read.

    Raises
    ------
    OutOfShapeError
        The message names the read, the values of the indices at which it leaves the shape, and the range to write.
    """
    facts = positive_sizes(reader.graph, [*roots, *reader.leaves()])
    open_ended = bool(facts) or any(root.free for root in roots)  # all in numbers has been checked when it was built
    if open_ended and not is_empty(facts, ()):
        _Check(reader, facts).run(roots)


def check_expression(expr: Any) -> None:
    """As `check_reads`, for an expression that nobody has read yet."""
    reader = Reader(Graph())
    check_reads(reader, [reader.read(expr)])


class _Check:
    def __init__(self, reader: Reader, facts: Facts) -> None:
        self.reader = reader
        self.graph = reader.graph
        self.facts = facts
        self.names: dict[int, str] = {}
        self.axes: set[int] = set()

    def run(self, roots: Sequence[Node]) -> None:
        """Look at all that the roots compute without a condition, in which ranges it does."""
        stack: list[tuple[Node, Facts, tuple[int, ...]]] = [(root, (), ()) for root in reversed(roots)]
        seen: set[tuple[Node, Facts]] = set()
        while stack and len(seen) < MOST:
            node, around, bound = stack.pop()
            if around and node.free.isdisjoint(bound):
                if not self.always(around, bound):
                    continue  # for some sizes the loops around it do not run
                around, bound = (), ()
            if (node, around) in seen or node.op == "guard":
                continue
            seen.add((node, around))
            for access in _accesses(self.graph, node):
                self.check(access, around, bound)
            if node.op in BINDERS:
                body, rows, variables = self.opened(node, bound)
                if node.op in RANGED and self.graph.integers:
                    self.check_ranges(rows, variables, around, bound)
                stack.append((body, around + rows, (*variables, *bound)))
            elif node.op == "read":
                stack += self.entries(node, around, bound)
            else:
                args = node.args[:1] if node.op == "select" else node.args
                stack += [(arg, around, bound) for arg in reversed(args)]

    def opened(self, node: Node, bound: Sequence[int]) -> tuple[Node, Facts, tuple[int, ...]]:
        """The body of a binder, the rows of its ranges and its variables, innermost first."""
        variables, rows, body = self.graph.inside(node, bound)
        self.names.update(zip(variables, self.graph.hints[node.id], strict=True))
        if node.op == "comprehension":
            self.axes.update(variables)
        return body, rows, tuple(reversed(variables))

    def entries(
        self, read: Node, around: Facts, bound: tuple[int, ...]
    ) -> Iterator[tuple[Node, Facts, tuple[int, ...]]]:
        """The entry of a table, for those indices alone at which it is read."""
        if read.args[0].op == "comprehension":
            body, rows, variables = self.opened(read.args[0], bound)
            index = [Row("eq", Affine.variable(v) - form) for v, form in zip(variables[::-1], read.data, strict=True)]
            if free := [v for v in bound if v in read.args[0].free]:
                yield body, (*around, *rows, *index), (*variables, *free, *(v for v in bound if v not in free))
            elif (known := project_exactly((*around, *rows, *index), bound)) is not None:
                yield body, known, variables

    def always(self, rows: Sequence[Row], bound: Sequence[int]) -> bool:
        """Whether there are values of the bound variables for which the rows hold, for every size."""
        for case in dict.fromkeys((tuple(rows), *cases(rows))):
            found = project_exactly(case, bound)
            if found is not None and all(implied(row, self.facts) for row in found):
                return True
        return False

    def check_ranges(self, rows: Facts, variables: Sequence[int], around: Facts, bound: tuple[int, ...]) -> None:
        """Check the data in the ranges of variables, innermost first, which are read where the loops around run."""
        plain, data = apart(rows)
        for row in data:
            level = next((n for n, v in enumerate(variables) if v in row.form.atoms()), len(variables))
            outer, inner = variables[level + 1 :], variables[: level + 1]
            known = tuple([other for other in plain if other.form.atoms().isdisjoint(inner)])
            for entry in data_entries([row.form]):
                if all(form.atoms().isdisjoint(inner) for form in entry.index):
                    access = self.graph.integers[entry.tensor], entry.index
                    self.check(access, around + known, (*outer, *bound))

    def check(self, access: Access, around: Facts, bound: tuple[int, ...]) -> None:
        """Refuse the access if it leaves the shape for every size."""
        tensor, index = access
        for axis, (form, extent) in enumerate(zip(index, tensor.shape, strict=True)):
            for inside in (Row("ge", form), Row("ge", extent - 1 - form)):
                worst = at_extreme(inside, bound, around)
                if worst is not None and not implied(worst.negation(), self.facts):
                    continue  # for some sizes it is inside where that is hardest
                met = worst is not None and self.values(inside, around, bound) is not None
                if met or self.always((*around, inside.negation()), bound):
                    raise OutOfShapeError(self.message(access, axis, inside, around, bound))

    # -------------------------------------------------------------- the message

    def message(self, access: Access, axis: int, inside: Row, around: Facts, bound: tuple[int, ...]) -> str:
        tensor, index = access
        forms = Forms(self.reader)
        scope = forms.bind(bound[::-1], [self.names[v] for v in bound[::-1]], ())
        name = tensor.data[0] if tensor.op == "tensor" else "a table" if tensor.free else write(self.reader, tensor)
        shown = ", ".join(str(forms.form(form, scope)) for form in index)
        text = f"{name}[{shown}] is read outside of the shape of {name}, along axis {axis}, whatever the sizes"
        values = self.values(inside, around, bound)
        mend = "mend the range, the index or the shape"
        if values:
            point = ", ".join(f"{forms.symbol(v, scope)} = {forms.form(values[v], scope)}" for v in reversed(values))
            end = forms.form(tensor.shape[axis] - 1, scope)
            text += f": for {point} the index is {forms.form(index[axis].substitute(values), scope)}, not in 0 … {end}"
            limits = self.mended(inside, around, values)
            if limits is not None:
                (variable,) = values
                counted, *ends = limits
                written = ", ".join(str(forms.form(form, scope)) for form in ends)
                mend = f"{counted}write ({forms.symbol(variable, scope)}, {written})"
        return f"{text}; {mend}"

    def values(self, inside: Row, around: Facts, bound: Sequence[int]) -> dict[int, Affine] | None:
        """The values of the indices in a row at which it is hardest to meet, innermost first.

        None where there are no single ones, or the loops do not take them for every size.
        """
        form, found = inside.form, dict[int, Affine]()
        for v in bound:
            ends = limits_of(v, around)[form.coefficient(v) < 0] if form.coefficient(v) else []
            if len(ends) == 1:
                found = {u: value.substitute({v: ends[0]}) for u, value in found.items()} | {v: ends[0]}
                form = form.substitute({v: ends[0]})
        known = [row.substitute(found) for row in around]
        there = form.atoms().isdisjoint(bound) and self.always(known, [v for v in bound if v not in found])
        return found if there else None

    def mended(
        self, inside: Row, around: Facts, values: dict[int, Affine]
    ) -> tuple[str, Affine] | tuple[str, Affine, Affine] | None:
        """A word on counting, and what stands behind the index in the limit that reads inside; None if unknown."""
        (variable, *others) = values
        lows, highs = limits_of(variable, around)
        step = inside.form.coefficient(variable)
        if others or abs(step) != 1 or len(lows) != 1 or len(highs) != 1:
            return None
        (low,), (high,) = lows, highs
        end = (inside.form - Affine({variable: step})) * -step
        if variable in self.axes:
            return ("", end + 1) if step < 0 else None
        if step > 0:
            return "", end, high
        if low == Affine.of(1) and high - end == low:
            return "indices count from 0, ", Affine.of(0), end
        return "", low, end


def _accesses(graph: Graph, node: Node) -> Iterator[Access]:
    """What a read, or an index as a number, reads: an entry, and the data in its index."""
    forms = node.data if node.op == "read" else (node.data,) if node.op == "index" else ()
    if node.op == "read":
        yield node.args[0], node.data
    for entry in data_entries(forms) if graph.integers else ():
        yield graph.integers[entry.tensor], entry.index
