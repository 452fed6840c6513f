"""Arrays for values that are compared with their own maximum or minimum, so that ties are exact.

``b(p) == max_k b(k)`` chooses where the derivative of a maximum goes. It holds for floating point numbers if both sides
are made of the same ones: compiled in two places, ``exp(a[k])*c[k]`` may differ in its last bit, as vectors or with
products fused into additions. So the values get an array, which all comparisons with their maximum, and the maximum
itself, read; also where no other temporaries are wanted. A value that is read unchanged, or rounded once, is the same
number everywhere and needs no array. Of values that conditions choose, each one has its own array: a comparison may
hold one of them alone, where the conditions are known. Values that are equal by their form, such as ``3*a[i]*a[j]`` and
``3*a[j]*a[i]``, may also differ by rounding, and a comparison does not distinguish them: the array holds one of them.

Two values of one form, ``f(p) == f(0)``, also become entries of one array. Users write such equations, and the
derivative of a maximum over equal values has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sympy

from sympy_tensordiff.codegen.lower.loop_arrays import LoopArray, LoopArrays
from sympy_tensordiff.codegen.lower.lower import Lowering
from sympy_tensordiff.codegen.lower.plan import StorageCandidate
from sympy_tensordiff.codegen.lower.tensors import Definition
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.functions.table import record_of
from sympy_tensordiff.graph.index_tests import unequal_forms
from sympy_tensordiff.graph.interning import Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.graph.nodes import replace as substituted
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.implication import is_empty, is_implied
from sympy_tensordiff.integer.rows import Rows, complement, rows_connected_to
from sympy_tensordiff.simplify.node_properties import cases_of


def with_compared_values(graph: Graph, lowering: Lowering, definitions: Sequence[Definition]) -> list[Definition]:
    """Return `definitions` with additional arrays for values that are compared with their own maximum or minimum, as in
    ``x[i] == Max_k x[k]``: both sides read the same stored numbers, so that equality is exact. ``lowering`` is the
    translation to loops, which has the arrays that exist already.
    """
    entries = [definition.entries for definition in definitions if definition.entries is not None]
    work = _Ties(graph, lowering)
    if not [entry for entry in entries if work.collect(entry)]:
        return list(definitions)
    found: list[Definition] = []
    for definition in definitions:
        if definition.entries is None:
            found.append(definition)
            continue
        new = trampoline(work.replaced(definition.entries))
        found += work.needed([new])
        found.append(Definition(definition.name, definition.array, new))
    return found


@dataclass(frozen=True)
class TieTerm:
    """A part of the expression whose maximum or minimum is taken, such as ``exp(a[k])*c[k]``. An array stores it, since
    it might be rounded differently if it were computed twice.

    ``node`` is the part, ``stored`` its array, and ``case`` the position of the case that contains it, if the value is
    defined by cases.
    """

    case: int
    node: Node
    candidate: StorageCandidate
    stored: LoopArray


class _Ties(LoopArrays):
    """Stores values that are compared with their own maximum or minimum in arrays. Both sides of the comparison then
    read the same floating-point numbers, and equality is exact.
    """

    def __init__(self, graph: Graph, lowering: Lowering) -> None:
        super().__init__(graph, lowering)
        self.parts: dict[Node, list[TieTerm]] = {}
        self.cases: dict[Node, list[tuple[Rows, Node]]] = {}
        self.done: dict[tuple[Node, Rows, tuple[Affine, ...]], Node] = {}
        self.defined: set[Node] = set()

    # -------------------------------------------------------------- which values have arrays

    def collect(self, root: Node) -> bool:
        """Find each comparison of a value with its own maximum or minimum in `root`, such as ``f(i) == Max_k f(k)``,
        and create arrays for the values. Return whether there are arrays, or other comparisons that may depend on
        rounding.
        """
        stack, seen, compared, has_pairs = [root], {root}, dict[Node, None](), False
        while stack:
            node = stack.pop()
            compared.update((extremum, None) for _, extremum in _comparisons(node))
            has_pairs = has_pairs or _compares_rounded_values(node, self.lowering.outside)
            new = [part for part in ((self.open(node)[2],) if node.op in BINDERS else node.args) if part not in seen]
            seen.update(new)
            stack += new
        for extremum in compared:
            self.parts_of(extremum)
        return has_pairs or bool(self.arrays)

    def parts_of(self, extremum: Node) -> list[TieTerm]:
        """Return the parts of the expression under the maximum or minimum `extremum`, such as ``exp(a[k])``, that may
        be rounded differently if computed twice, each with an array that stores its values. Create missing arrays.
        """
        if extremum not in self.parts:
            variables, rows, body = self.open(extremum)
            self.cases[extremum] = cases = cases_of(self.graph, body)
            parts = [
                (n, part, around + more)
                for n, (around, case) in enumerate(cases)
                for part, more in rounded_parts(case, self.lowering.outside)
            ]
            several = Counter(part for _, part, _ in parts)
            self.parts[extremum] = []
            for number, part, around in parts:
                # A value that several cases need has one array for all of them.
                found = self.candidate(part, variables, (*rows, *around) if several[part] == 1 else rows)
                # The array may be that of another maximum, over its indices.
                self.parts[extremum].append(TieTerm(number, part, found, replace(self.array(found), candidate=found)))
        return self.parts[extremum]

    # -------------------------------------------------------------- what reads it

    def replaced(self, node: Node, known: Rows = (), nonzero: tuple[Affine, ...] = ()) -> Recursion[Node]:
        """Return `node` with values that are compared with their own maximum or minimum, as in ``f(i) == Max_k f(k)``,
        replaced by reads of arrays that store them, so that both sides are rounded equally. The constraints `known` are
        true at `node`, and the forms `nonzero` are not 0 there.
        """
        known = rows_connected_to(known, node.free, frozenset())
        nonzero = tuple([form for form in nonzero if not form.atoms().isdisjoint(node.free)])
        key = node, known, nonzero
        if key not in self.done:
            self.done[key] = yield self._replaced(node, known, nonzero)
        return self.done[key]

    def _replaced(self, node: Node, known: Rows, nonzero: tuple[Affine, ...]) -> Recursion[Node]:
        """Return `node` with values that are compared with their own maximum or minimum replaced by reads of arrays
        that store them; the uncached implementation of `replaced`. The constraints `known` are true at `node`, and the
        forms `nonzero` are not 0 there.
        """
        graph = self.graph
        if node.op in BINDERS:
            variables, rows, body = self.open(node)
            known += rows
            if node.op in EXTREMA and self.parts.get(node):
                new = self.with_entries(node)
            else:
                new = yield self.replaced(body, known, nonzero)
            return node if new is body else graph.over(node, variables, new)
        if node.op == "guard":
            known += node.data
        inside = (*nonzero, *unequal_forms(node.args[0])) if node.op == "select" else nonzero
        args = yield from in_turn(
            self.replaced(arg, known, inside if position == 1 else nonzero) for position, arg in enumerate(node.args)
        )
        for position, extremum in _comparisons(node):
            args[position] = self.compared(extremum, node.args[position], known, nonzero) or args[position]
        if _compares_rounded_values(node, self.lowering.outside):
            args = self.entries_of_one_array(node.args, known, nonzero) or args
        return graph.with_args(node, args)

    def compared(self, extremum: Node, value: Node, known: Rows, nonzero: Sequence[Affine]) -> Node | None:
        """Return `value`, which is compared with the maximum or minimum `extremum`, with its stored parts replaced by
        reads of the arrays from which `extremum` is computed, so that both sides are rounded equally. None if no part
        of `value` is stored. The constraints `known` hold, and the forms `nonzero` are not 0.

        Raises `UnsupportedError` for a part that may be equal to one of the maximum's and has no entry.
        """
        # A value that contains the maximum is not one of the values under it.
        parts = self.parts_of(extremum) if extremum not in reachable(value) else []
        arrays = list({part.stored.tensor: part.stored for part in parts}.values())
        whole = self.entry(arrays, value, known, nonzero)
        entries = {}
        others = rounded_parts(value, self.lowering.outside) if parts and whole is None else ()
        is_exact = parts and whole is None and _is_exact(value, self.lowering.outside, 1)
        for part, _ in [(value, ())] if is_exact else others:
            found = None if is_exact else self.entry(arrays, part, known, nonzero)
            if found is not None:
                entries[part] = found
            elif any((self.agree_at_one_place if is_exact else may_equal)(part, other.node) for other in parts):
                raise UnsupportedError(
                    "a kernel cannot determine which value attains the maximum or minimum: write the values as a "
                    "TensorComprehension of their own"
                )
        return substituted(self.graph, value, entries) if entries else whole

    def agree_at_one_place(self, value: Node, other: Node) -> bool:
        """Return whether `value` and `other` become the same expression if all their indices are set to 0, as ``-x[0]``
        and ``2*x[j//2] - 3*x[j//3]`` do, so that they have equal values at some indices.
        """
        one, two = (self.graph.map_forms(node, lambda _: Affine()) for node in (value, other))
        return one is two

    def entries_of_one_array(self, values: Sequence[Node], known: Rows, nonzero: Sequence[Affine]) -> list[Node] | None:
        """Return the two compared `values` as reads of one stored array, so that rounding cannot make equal values
        differ. Return None if no array has both as entries. The constraints `known` hold, and the forms `nonzero` are
        not 0.

        ``exp(x[i])*y[i] == exp(x[j])*y[j]`` holds at ``i = j`` only if both sides are computed in the same way. Such
        comparisons are written by users, and are left of a maximum over equal values.
        """
        for general in values:
            try:
                candidate = self.candidate(general, (), ())
            except UnsupportedError:
                continue
            trial = LoopArray(candidate, general, ())
            if all(any(True for _ in self.forms(trial, value, known)) for value in values):
                arrays = [self.array(candidate, "values that are compared with each other")]
                found = [self.entry(arrays, value, known, nonzero) for value in values]
                entries = [entry for entry in found if entry is not None]
                if len(entries) == len(found):
                    return entries
        return None

    def with_entries(self, extremum: Node) -> Node:
        """Return the expression whose maximum or minimum `extremum` is, with the parts that might be rounded
        differently if computed twice replaced by reads of the arrays that store them.
        """
        terms = []
        for number, (rows, case) in enumerate(self.cases[extremum]):
            own = [part for part in self.parts[extremum] if part.case == number]
            new = {part.node: self.read(part.stored, part.candidate.forms) for part in own}
            terms.append(self.graph.guard(rows, substituted(self.graph, case, new)))
        return self.graph.add(terms)

    # -------------------------------------------------------------- how it is filled

    def needed(self, roots: Sequence[Node]) -> Iterator[Definition]:
        """Yield definitions of the arrays that `roots` read, if not yielded before. An array comes after the arrays
        that its definition reads.
        """
        read = {part for root in roots for part in reachable(root) if part.op == "tensor"}
        for stored in self.arrays.values():
            if stored.tensor not in read or stored.tensor in self.defined:
                continue
            self.defined.add(stored.tensor)
            graph, candidate = self.graph, stored.candidate
            axes = [graph.fresh(f"i{n}") for n in range(len(stored.lows))]
            shift = {a: Affine.variable(v) + low for a, v, low in zip(candidate.axes, axes, stored.lows, strict=True)}
            body = trampoline(self.replaced(candidate.node))
            body = graph.guard([row.substitute(shift) for row in candidate.rows], graph.substitute(body, shift))
            tensor, shape = stored.tensor, stored.tensor.shape
            symmetries = self.symmetries(stored)
            if symmetries:
                name = self.lowering.allocated(candidate)[0]
                tensor = graph.tensor(f"kept {name}", shape)
                self.lowering.arrays[tensor.data[0]] = name
            entries = graph.comprehension(axes, shape, body) if axes else body
            yield from self.needed([entries])
            yield Definition(self.lowering.arrays[tensor.data[0]], tensor, entries)
            if symmetries:
                least = graph.substitute(self.least(replace(stored, tensor=tensor), symmetries), shift)
                name = self.lowering.arrays[stored.tensor.data[0]]
                yield Definition(name, stored.tensor, graph.comprehension(axes, shape, least))

    def least(self, stored: LoopArray, symmetries: Sequence[Mapping[int, Affine]]) -> Node:
        """Return the minimum of entries of the array ``stored`` that have equal values but may be rounded differently:
        the entry at the array's own index, and those to which `symmetries` map it, such as ``d[i, j]`` and ``d[j, i]``.
        """
        graph, candidate = self.graph, stored.candidate
        own = self.read(stored, list(map(Affine.variable, candidate.axes)))
        result = own
        for symmetry in symmetries:
            other = self.read(stored, [symmetry.get(axis, Affine.variable(axis)) for axis in candidate.axes])
            moved = [row.substitute(symmetry) for row in candidate.rows]
            inside = tuple([row for row in moved if not is_implied(row, (*self.lowering.facts, *candidate.rows))])
            terms = [graph.guard(inside, graph.call(sympy.Min, [result, other]))]
            terms += [graph.guard(outside, result) for outside in complement(inside)]
            result = graph.add(terms)
        return graph.guard(candidate.rows, result)


def _comparisons(node: Node) -> Iterator[tuple[int, Node]]:
    """Yield ``(position, extremum)`` if `node` tests whether a value equals a maximum or minimum: the position of the
    value among its arguments, and the node of the extremum.
    """
    if node.op == "compare" and node.data in ("eq", "ne"):
        for position, other in enumerate(reversed(node.args)):
            if other.op in EXTREMA:
                yield position, other


def _compares_rounded_values(node: Node, closed: frozenset[int]) -> bool:
    """Return whether `node` tests ``a == b`` or ``a != b`` for two inexact values computed from the same tensors, so
    that rounding errors may decide.

    Maxima and minima do not count; `closed` are the sizes and free indices.
    """
    if node.op != "compare" or node.data not in ("eq", "ne") or any(arg.op in EXTREMA for arg in node.args):
        return False
    one, other = node.args
    return not _is_exact(one, closed, 1) and not _is_exact(other, closed, 1) and _tensors(one) == _tensors(other)


# ---------------------------------------------------------------------------- parts that are rounded
# Which parts of a value may be other numbers where they are computed again, and values put together of such parts.


EXTREMA = frozenset({"max", "min"})


def rounded_parts(node: Node, closed: frozenset[int]) -> Iterator[tuple[Node, Rows]]:
    """Yield ``(part, guards)`` for each alternative value of ``node`` (a branch of a choice, with the guards around it,
    or ``node`` itself) whose computation may round differently in two places. `closed` are the sizes and free indices.
    """
    stack: list[tuple[Node, Rows]] = [(node, ())]
    seen = set()
    while stack:
        part, rows = stack.pop()
        if (part, rows) in seen or _is_exact(part, closed, 1):
            continue
        seen.add((part, rows))
        choices = _alternatives(part, closed)
        if choices:
            stack += [(choice, rows + part.data if part.op == "guard" else rows) for choice in reversed(choices)]
        else:
            yield part, rows


def _alternatives(node: Node, closed: frozenset[int]) -> Sequence[Node]:
    """Return the expressions one of which ``node`` equals, up to its sign: a and b for ``a if c else b``, a for ``-a``;
    () for a node without alternatives. ``closed`` has the sizes and free indices.
    """
    match node.op:
        case "guard":
            return node.args
        case "select":
            return node.args[1:] if _is_exact(node.args[0], closed, 1) else ()
        case "add":
            return node.args if _count_simultaneous_terms(node) == 1 else ()
        case "mul":
            return node.args[1:] if len(node.args) == 2 and node.args[0].data == -1 else ()
    return ()


def may_equal(value: Node, other: Node) -> bool:
    """Return whether `value` and ``other`` may be equal by construction, judged by the tensors that they read: the same
    ones or, if ``other`` contains a choice, only some of them in `value`.
    """
    if value.op in EXTREMA and other.op not in EXTREMA:
        return False
    own, others = _tensors(value), _tensors(other)
    chosen = any(part.op in ("guard", "select") for part in reachable(other))
    return bool(own) and (own <= others if chosen else own == others)


def _is_exact(node: Node, closed: frozenset[int], roundings: int) -> bool:
    """Return whether ``node`` has the same floating-point value wherever it is computed, because at most ``roundings``
    of its operations round. `closed` are the sizes and free indices.
    """
    stack = [node]
    while stack:
        part = stack.pop()
        if part.op == "add":
            roundings -= _count_simultaneous_terms(part) - 1
        elif part.op == "mul":
            roundings -= len(part.args) - 1 - (part.args[0].op == "const" and part.args[0].data in (1, -1))
        known = part.op == "read" and (part.args[0].op == "tensor" or part.args[0].free <= closed)
        if known or part.op in ("const", "scalar", "index"):
            continue
        plain = part.op in ("add", "mul", "guard", "select", "compare", "and", "or", "not", *EXTREMA)
        if roundings < 0 or not (plain or (part.op == "call" and record_of(part.data).is_exact)):
            return False
        stack += part.args
    return True


def _count_simultaneous_terms(total: Node) -> int:
    """Return how many terms of the addition `total` may be nonzero at the same point; guarded terms may exclude each
    other.
    """
    groups: list[list[Rows]] = []
    for term in total.args:
        rows = term.data if term.op == "guard" else ()
        for group in groups:
            if all(is_empty((*rows, *other)) for other in group):
                group.append(rows)
                break
        else:
            groups.append([rows])
    return len(groups)


def _tensors(node: Node) -> set[Node]:
    """Return the tensors below `node`."""
    return {part for part in reachable(node) if part.op == "tensor"}
