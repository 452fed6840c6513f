"""Run-time checks of a call, derived from the reads of the results and the conditions of each read.

A read that nothing proves inside of its shape is refused by a `Check` where sizes alone decide. Where data decide, the
extremes of the arrays of integers settle most calls; where they do not, a search does. That is an expression as any
other: the least place of an entry that leads a read out, over all points at which the read happens.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sympy_tensordiff.codegen.ir.programs import NO_POSITION, Check, DataCheck
from sympy_tensordiff.codegen.ir.rename import named, reserve_name, unique
from sympy_tensordiff.codegen.ir.scalars import CONDITIONS, IndexValue, Load, Name, Scalar, constant
from sympy_tensordiff.codegen.ir.verify import failing, out_of_bounds_point
from sympy_tensordiff.codegen.lower.functions import operation
from sympy_tensordiff.errors import OutOfShapeError
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.extrema import extrema_text
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries, innermost_first
from sympy_tensordiff.integer.products import factors_of_products
from sympy_tensordiff.integer.rows import Rows, bounds_a_loop, renaming_map, unit_bounds_of
from sympy_tensordiff.simplify.accesses import Access, Accesses


@dataclass(frozen=True)
class Names:
    """The names of a program's sizes, tensors and arguments in the generated code."""

    variables: Mapping[Any, str]
    arrays: Mapping[str, str]
    labels: Mapping[str, str]


class _Checks:
    """Collects the bounds checks that each call of one program makes. For a read that is out of bounds for all sizes,
    it raises `OutOfShapeError` at once.
    """

    def __init__(self, graph: Graph, names: Names, facts: Rows) -> None:
        self.graph = graph
        self.names = names
        self.facts = tuple([row._replace(form=named(row.form, names.variables, names.arrays)) for row in facts])
        self.checks: dict[Check, None] = {}
        self.data_checks: dict[tuple[Any, ...], DataCheck] = {}
        self.searches: list[Node] = []
        self._signatures: set[Hashable] = set()
        self._numbered: list[int] = []

    def add(self, access: Access, axis: int, row: Constraint) -> None:
        """Add the run-time checks for one bound of the read ``access``: that its index along `axis` satisfies `row`.
        Nothing is added if an equal read is checked already.
        """
        if not access.around.choices:
            signature = axis, self.signature(access, row)
            if signature in self._signatures:
                return
            self._signatures.add(signature)
        local = self.local_names(access.around.variables)
        change = partial(named, names=local, arrays=self.names.arrays)
        rows = [each._replace(form=change(each.form)) for each in access.around.rows]
        inner = {local[v] for v in access.around.variables}
        choices = [_as_scalar(choice, change) for choice in access.around.choices]
        load = Load(self.array_name(access.tensor), tuple(map(change, access.forms)))
        number = None
        for case in failing(rows, choices, row._replace(form=change(row.form))):
            plain, data, ordered = _without_data(case)
            facts = (*self.facts, *ordered)
            factors = factors_of_products(each.form for each in plain) if data else ()
            plain += [each for each in facts if len(each.form.terms) == 1 and each.form.terms[0][0] in factors]
            escape = out_of_bounds_point(plain, facts, inner | data)
            if escape is None:
                continue
            if not data:
                if access.around.choices_on_indices:  # behind values the read is 0 where it is outside
                    self.refuse(access, load, axis, escape.violation, escape.points, escape.certain)
                continue
            if number is None:
                entry = self.entry_at_fault(access, row)
                number = len(self.searches)
                self.searches.append(self.search(access, row, entry))
                data_name = self.names.arrays[entry.tensor] if entry else ""
                extent = change(access.tensor.shape[axis])
            key = load, axis, row, escape.violation, tuple(rows), access.around.choices
            self.data_checks.setdefault(key, DataCheck(load, axis, extent, escape.violation, data_name, number))

    def signature(self, access: Access, row: Constraint) -> Hashable:
        """Return a key of the bounds check `row` of the read ``access``. Two checks with equal keys fail for the same
        sizes and integer arrays, so that a program needs only one of them.

        It has the rows over the indices that the access depends on, and those over each group of other indices, which
        only ensure that there is a point: the variables are numbered in each group.
        """
        around = access.around
        bound = frozenset(around.variables)
        own = frozenset().union(row.form.atoms(), *(form.atoms() for form in access.forms))
        groups: list[tuple[frozenset[Any], tuple[Constraint, ...]]] = [(own & bound, (row,))]
        for each in around.rows:
            atoms = each.form.atoms() & bound
            rows: tuple[Constraint, ...] = (each,)
            for group in [group for group in groups if not group[0].isdisjoint(atoms)]:
                groups.remove(group)
                atoms, rows = atoms | group[0], (*group[1], *rows)
            groups.append((atoms, rows))
        while len(self._numbered) < len(bound):
            self._numbered.append(self.graph.fresh("i"))
        place = {v: n for n, v in enumerate(around.variables)}
        keys = []
        first: Hashable = None
        for atoms, group_rows in groups:
            ordered = sorted(atoms, key=place.__getitem__)
            names = renaming_map(ordered, self._numbered[: len(ordered)])
            keys.append(frozenset(each.substitute(names) for each in group_rows))
            if row in group_rows:
                first = row.substitute(names), tuple([form.substitute(names) for form in access.forms])
        together = frozenset(around.tested_together)
        return access.tensor, first, frozenset(keys), len(together) and (together, around.rows)

    def local_names(self, variables: Sequence[int]) -> dict[Any, str]:
        """Return a dictionary from variables to names: those of the sizes, and new names for `variables`, the indices
        of the loops that enclose a read.
        """
        found = dict(self.names.variables)
        taken = {*found.values(), *self.names.arrays.values()}
        for v in variables:
            found[v] = reserve_name(self.graph.names[v], taken)
        return found

    def array_name(self, tensor: Node) -> str:
        """Return the name of a tensor's array in the program; a computed tensor gets a new name."""
        if tensor.op == "tensor":
            return self.names.arrays[tensor.data[0]]
        return unique("t", {*self.names.variables.values(), *self.names.arrays.values()})

    def refuse(self, access: Access, load: Load, axis: int, violation: Rows, points: Rows, certain: bool) -> None:
        """Add a run-time check that refuses calls whose sizes satisfy all constraints in `violation`, because the read
        `load` is then out of bounds along `axis`. With `certain`, it is out of bounds for all sizes: raise
        `OutOfShapeError` at once. The constraints `points` must have an integer solution, too.

        `access` is the read in the graph.
        """
        array = self.names.labels.get(load.array, load.array)
        message = f"{array}[{', '.join(map(extrema_text, load.index))}] is read outside of the shape of {array}"
        if load.array not in self.names.labels:
            tensors = [part.data[0] for part in reachable(access.tensor) if part.op == "tensor"]
            sources = dict.fromkeys(self.names.labels.get(self.names.arrays[name], name) for name in tensors)
            message += f", which holds values of {', '.join(sources)}" if sources else ""
        message += f", along axis {axis}"
        if certain:
            raise OutOfShapeError(f"{message}, whatever the sizes; fix the range, the index or the shape")
        message += "; the sizes of the arguments do not fit the expression"
        self.checks[Check(violation, message, points)] = None

    # -------------------------------------------------------------- searches

    def entry_at_fault(self, access: Access, row: Constraint) -> IndirectIndex | None:
        """Return the integer-array entry that the error message names if the read ``access`` violates its bound `row`:
        ``p[i]`` for ``x[p[i]]``, else an entry in the bounds of its indices or in a condition around it; None if there
        is none.
        """
        form = row.form
        found = innermost_first([form])
        rows = [each for each in access.around.rows if each not in access.around.tested_together]
        compared = [part.data for part in reachable(*access.around.choices) if part.op == "index"]
        for v in reversed(access.around.variables) if not found else ():
            bounds = unit_bounds_of(v, rows)[form.coefficient(v) < 0] if form.coefficient(v) else []
            bounds = [b for b in bounds if data_entries([b])] or bounds[:1]
            if bounds:
                form = form.substitute({v: bounds[0]})
        found = (
            found or innermost_first([form]) or innermost_first(each.form for each in rows) or innermost_first(compared)
        )
        return found[-1] if found else None

    def search(self, access: Access, row: Constraint, entry: IndirectIndex | None) -> Node:
        """Return a node that finds bad data, for error messages: its value is the first position in the array of
        ``entry`` at which the stored integer makes the read ``access`` violate its bound `row`, or `NO_POSITION` if
        there is none.
        """
        graph, around = self.graph, access.around
        place: list[Node] = []
        for axis, form in enumerate(entry.index if entry else ()):
            lengths = graph.integers[entry.tensor].shape[axis + 1 :] if entry else ()
            place.append(graph.mul([graph.index(form), *map(graph.index, lengths)]))
        value = graph.add(place)
        tests = [row.negation(), *around.conditions]
        for variables, rows, _ in around.loops:
            tests += [each for each in rows if not bounds_a_loop(each, variables)]
        happens = [*map(self.condition, tests), *around.choices, *map(self.not_known_to_fail, around.tested_together)]
        value = graph.select(graph.logic("and", happens), value, graph.const(NO_POSITION))
        for variables, rows, _ in reversed(around.loops):
            bounds = [each for each in rows if bounds_a_loop(each, variables)]
            value = graph.reduce("min", variables, bounds, value) if variables else value
        return value

    def not_known_to_fail(self, row: Constraint) -> Node:
        """Return a condition node that is true where the constraint `row` holds, and where it cannot be tested because
        an integer-array entry in it would be read out of bounds.
        """
        inside = [self.condition(needed) for needed in self.graph.inside_data([row.form])]
        return self.graph.logic("or", [self.condition(row), *(self.graph.logic("not", [each]) for each in inside)])

    def condition(self, row: Constraint) -> Node:
        """Return the constraint `row` as a node of boolean value."""
        form = row.form - row.modulus * quotient(row.form, row.modulus) if row.kind == "mod" else row.form
        sides = self.graph.zero, self.graph.index(form)
        return self.graph.compare("le" if row.kind == "ge" else "eq", *sides)


def checks_of_reads(
    graph: Graph, roots: Sequence[Node], names: Names, facts: Rows
) -> tuple[tuple[Check, ...], tuple[DataCheck, ...], list[Node]]:
    """Return the run-time checks for reads below `roots` that may be out of bounds, as ``(size checks, data checks,
    searches)``; a search is a node that finds the position of bad data for a message.

    ``names`` are the names of sizes and tensors in the code.

    `roots` are the results as the user wrote them, `facts` the constraints on sizes and free indices.
    """
    work = _Checks(graph, names, facts)
    for access, axis, row in Accesses(graph, facts).unproven(roots):
        work.add(access, axis, row)
    return tuple(work.checks), tuple(work.data_checks.values()), work.searches


def _as_scalar(node: Node, change: Any) -> Scalar:
    """Convert `node`, a condition on integers, to a scalar expression of generated code. The function ``change(form)``
    puts the program's names into an index form.

    A part that is not a number, integer or condition becomes the name ``value``.
    """
    match node.op:
        case "const":
            return constant(node.data)
        case "index":
            return IndexValue(change(node.data))
        case op if op in CONDITIONS or op in ("compare", "add", "mul"):
            return operation(node, [_as_scalar(arg, change) for arg in node.args])
    return Name("value")


def _without_data(rows: Sequence[Constraint]) -> tuple[list[Constraint], set[str], list[Constraint]]:
    """Replace each integer-array entry ``p[i]`` in ``rows`` by a new variable between the symbols ``least p`` and
    ``greatest p``, the extremes of its array. Return ``(constraints, new variables, order)``, where ``order`` has
    ``least p <= greatest p`` for each array.
    """
    entries = data_entries(row.form for row in rows)
    values = {entry: Affine.variable(f"data {number}") for number, entry in enumerate(entries)}
    result = [row.substitute(values) for row in (*rows, *(row for entry in entries for row in entry.definition()))]
    for entry, value in values.items():
        result += [Constraint("ge", value - Affine.variable(f"least {entry.tensor}"))]
        result += [Constraint("ge", Affine.variable(f"greatest {entry.tensor}") - value)]
    tensors = dict.fromkeys(entry.tensor for entry in entries)
    ordered = [Constraint("ge", Affine({f"greatest {name}": 1, f"least {name}": -1})) for name in tensors]
    return result, {form.terms[0][0] for form in values.values()}, ordered
