"""The check of an input: a read that leaves its shape for every size is refused, whatever is asked about it.

Kernels refuse a call in which a read leaves its shape, so such an input has no value at all, and a derivative of it
would be that of another expression. Considered are the reads that no condition guards; those that leave
their shape for some sizes only are left to the call, and so are those for which the integers cannot be projected.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from sympy_tensordiff.errors import OutOfShapeError
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.graph.write_forms import Forms
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.extrema import cases
from sympy_tensordiff.integer.fourier_motzkin import project_exactly
from sympy_tensordiff.integer.polyhedron import implied, is_empty
from sympy_tensordiff.integer.rows import Rows, atoms_in, limits_of, substitute_all
from sympy_tensordiff.integer.values import at_extreme
from sympy_tensordiff.simplify.accesses import Access, Accesses, Around
from sympy_tensordiff.simplify.facts import positive_sizes

MOST = 1000
"""So many reads that nothing proves inside are looked at."""


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
    def __init__(self, reader: Reader, facts: Rows) -> None:
        self.reader = reader
        self.graph = reader.graph
        self.facts = facts

    def run(self, roots: Sequence[Node]) -> None:
        """Look at all that the roots read without a condition, in which ranges they do."""
        found = Accesses(self.graph, self.facts, conditional=False).unproven(roots)
        for access, axis, inside in islice(found, MOST):
            self.check(access, axis, inside)

    def always(self, rows: Sequence[Row], bound: Sequence[int]) -> bool:
        """Whether there are values of the bound variables for which the rows hold, for every size."""
        for case in dict.fromkeys((tuple(rows), *cases(rows))):
            found = project_exactly(case, bound)
            if found is not None and all(implied(row, self.facts) for row in found):
                return True
        return False

    def check(self, access: Access, axis: int, inside: Row) -> None:
        """Refuse the access if it leaves the shape for every size."""
        around, bound = access.around.rows, access.around.variables[::-1]
        worst = at_extreme(inside, bound, around)
        if worst is None or implied(worst.negation(), self.facts):
            met = worst is not None and self.values(inside, around, bound) is not None
            if met or self.always((*around, inside.negation()), bound):
                raise OutOfShapeError(self.message(access, axis, inside))

    # -------------------------------------------------------------- the message

    def message(self, access: Access, axis: int, inside: Row) -> str:
        tensor, index, place = access
        around, bound = place.rows, place.variables[::-1]
        forms = Forms(self.reader)
        selecting = atoms_in(index)
        first = sorted(place.variables, key=lambda v: v not in selecting)  # the user's own names go to these
        scope = forms.bind(first, [self.graph.names[v] for v in first], ())
        name = tensor.data[0] if tensor.op == "tensor" else "a table" if tensor.free else write(self.reader, tensor)
        shown = ", ".join(str(forms.form(form, scope)) for form in index)
        text = f"{name}[{shown}] is read outside of the shape of {name}, along axis {axis}, whatever the sizes"
        values = self.values(inside, around, bound)
        mend = "mend the range, the index or the shape"
        if values:
            point = ", ".join(f"{forms.symbol(v, scope)} = {forms.form(values[v], scope)}" for v in reversed(values))
            end = forms.form(tensor.shape[axis] - 1, scope)
            text += f": for {point} the index is {forms.form(index[axis].substitute(values), scope)}, not in 0 … {end}"
            limits = self.mended(inside, place, values)
            if limits is not None:
                (variable,) = values
                counted, *ends = limits
                written = ", ".join(str(forms.form(form, scope)) for form in ends)
                mend = f"{counted}write ({forms.symbol(variable, scope)}, {written})"
        return f"{text}; {mend}"

    def values(self, inside: Row, around: Rows, bound: Sequence[int]) -> dict[int, Affine] | None:
        """The values of the indices in a row at which it is hardest to meet, innermost first.

        None where there are no single ones, or the loops do not take them for every size.
        """
        form, found = inside.form, dict[int, Affine]()
        for v in bound:
            ends = limits_of(v, around)[form.coefficient(v) < 0] if form.coefficient(v) else []
            if len(ends) == 1:
                found = {u: value.substitute({v: ends[0]}) for u, value in found.items()} | {v: ends[0]}
                form = form.substitute({v: ends[0]})
        known = substitute_all(around, found)
        there = form.atoms().isdisjoint(bound) and self.always(known, [v for v in bound if v not in found])
        return found if there else None

    def mended(
        self, inside: Row, place: Around, values: dict[int, Affine]
    ) -> tuple[str, Affine] | tuple[str, Affine, Affine] | None:
        """A word on counting, and what stands behind the index in the limit that reads inside; None if unknown."""
        (variable, *others) = values
        lows, highs = limits_of(variable, place.rows)
        step = inside.form.coefficient(variable)
        if others or abs(step) != 1 or len(lows) != 1 or len(highs) != 1:
            return None
        (low,), (high,) = lows, highs
        end = (inside.form - Affine({variable: step})) * -step
        if any(variable in loops.variables for loops in place.loops if loops.kind == "comprehension"):
            return ("", end + 1) if step < 0 else None
        if step > 0:
            return "", end, high
        if low == Affine.of(1) and high - end == low:
            return "indices count from 0, ", Affine.of(0), end
        return "", low, end
