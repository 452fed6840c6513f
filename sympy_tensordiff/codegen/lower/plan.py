"""Storage planning: an expression as a function of a few integers, which become the axes of an array.

A part of an entry that holds a sum is worth an array of its own where it takes fewer values than
it is evaluated: its indices enter only through some integer combinations of the axes and loops
around it, and their number (the rank) is smaller than that of the axes and loops. Those
combinations are the axes of the temporary, so ``S[p - k, j]`` and ``S[i, j]`` are one array. Where several such
parts, or several results, use one sum, that has an array first (`shared_parts`): ``1/S`` and ``1/S**2`` read one ``S``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import gcd, prod

from sympy_tensordiff.codegen.lower.segments import AxisSegment, segment_in
from sympy_tensordiff.graph.nodes import RANGED, Graph, Node, reachable
from sympy_tensordiff.integer import smith
from sympy_tensordiff.integer.affine import Affine, Constraint, Quotient, Variable, quotient
from sympy_tensordiff.integer.floor_elimination import symbolic_divisors
from sympy_tensordiff.integer.fourier_motzkin import project
from sympy_tensordiff.integer.implication import is_implied, remove_redundant
from sympy_tensordiff.integer.indirect import bound_of_data, data_entries
from sympy_tensordiff.integer.lattice import independent
from sympy_tensordiff.integer.rows import Rows, partition, renaming_map, unit_bounds_of


@dataclass(frozen=True)
class EnclosingLoops:
    """The loops of a kernel that enclose an expression: their variables (axes and loop variables), outermost first, and
    the constraints ``rows`` that hold inside.
    """

    variables: tuple[int, ...]
    rows: Rows

    @property
    def dimension(self) -> int:
        """The number of independent indices of a loop nest: the number of its axes and loop variables, minus one for
        each equation that determines one of them.

        A test of data, such as ``y[i] == 0``, determines none.
        """
        equations = [r for r in self.rows if r.kind == "eq" and any(map(r.form.coefficient, self.variables))]
        return len(self.variables) - len(equations)

    def inside(self, variables: Sequence[int], rows: Sequence[Constraint]) -> EnclosingLoops:
        """Return the context inside of loops nested in this one: over `variables`, bounded by `rows`."""
        return EnclosingLoops((*self.variables, *variables), (*self.rows, *rows))


@dataclass(frozen=True)
class StorageCandidate:
    """A value that an array could store: the expression ``node`` in the variables ``axes``, one for each axis of the
    array. Each stands for an index form of the loops in ``forms``, such as ``i + k``, and has lower and upper bounds.

    ``node`` is the part with ``axes`` in place of the forms; ``rows`` say where it is needed;
    ``lows`` and ``highs`` bound each axis over the sizes.
    """

    node: Node
    axes: tuple[int, ...]
    forms: tuple[Affine, ...]
    rows: Rows
    lows: tuple[tuple[Affine, ...], ...]
    highs: tuple[tuple[Affine, ...], ...]

    @property
    def axis_count(self) -> int:
        """The number of axes of the array, to compare with the number of loops around the value. An array that is
        shorter than the loops, because an axis is an index such as ``floor(i/2)``, counts as one axis less.
        """
        return len(self.axes) - any(form.compounds() for form in self.forms)

    def order(self, context: EnclosingLoops) -> tuple[int, ...]:
        """Return the order of the array's axes, as a permutation, that is contiguous in the loops of `context`: axes
        whose indices contain variables of outer loops come first. ``i + a`` comes before j in loops over i, j and a:
        with the loop over j inside of that over a, the entries that one row reads are rows.
        """
        depth = {v: n for n, v in enumerate(context.variables)}
        inside = [[depth[v] for v in form.atoms() if v in depth] for form in self.forms]
        return tuple(sorted(range(len(self.forms)), key=lambda n: (min(inside[n]), max(inside[n]))))


Domain = tuple[Rows, tuple[tuple[Affine, ...], ...], tuple[tuple[Affine, ...], ...]]
"""The rows, lows and highs of a candidate, which are those of all parts that depend on the same combinations."""


@dataclass(frozen=True)
class Stored:
    """An array that stores the values of a `StorageCandidate`. Its axes are the candidate's, in the order `order`; if
    the values are tensors, their axes follow.

    ``order`` says which of the candidate's each axis is, where that is another order.
    """

    array: str
    candidate: StorageCandidate
    lows: tuple[Affine, ...]
    order: tuple[int, ...] = ()


class Planner:
    """Finds the integers on which the value of an expression in loops depends, such as ``i + k`` for ``x[i + k]**2``,
    and their ranges. These integers can become the axes of an array that stores the values.
    """

    def __init__(self, graph: Graph, facts: Rows) -> None:
        self.graph = graph
        self.facts = facts
        self.has_segments = False
        """Whether each place is in one segment of an axis at most, see `segments`."""
        self.increasing: set[str] = set()
        """The integer tensors of which this was used: their entries must not decrease."""
        self._flattened: dict[tuple[Node, AxisSegment], Node] = {}
        self._axes: list[int] = []
        self._forms_in: dict[Node, frozenset[Affine]] = {}
        self._loops: list[int] = []
        self._domains: dict[tuple[tuple[Affine, ...], EnclosingLoops, bool], Domain | None] = {}
        self._ranges: dict[tuple[Affine, EnclosingLoops], tuple[Affine, Affine] | None] = {}
        self._numbered_nodes: dict[tuple[Node, tuple[int, ...]], Node] = {}

    def rank(self, node: Node, context: EnclosingLoops) -> int:
        """Return the number of linearly independent integers on which `node`, in the loops of ``context``, depends: one
        for ``x[i + k]``, two for ``x[i + k]*y[k]``. It is the number of axes of an array for `node`.
        """
        used = [v for v in context.variables if v in node.free]
        vectors = (_vector(inner, used) for form in self._forms(node) for inner in _with_inner_forms(form))
        return len(independent(dict.fromkeys(vector for vector in vectors if any(vector))))

    def candidate(self, node: Node, context: EnclosingLoops, rounded: bool = False) -> StorageCandidate | None:
        """Return a description of an array that stores the values of `node` in the loops of ``context``, with as few
        axes as possible: one axis ``i + k`` for ``x[i + k]**2``. None if an axis has no bounds. With ``rounded``, the
        bounds may contain quotients.

        A value in segments, ``starts[t] <= j < starts[t + 1]``, has no axis t, if ``self.has_segments``.
        """
        segment = segment_in(self.graph, node, context.rows, context.variables) if self.has_segments else None
        if segment is not None:
            self.increasing.add(segment.starts)
            place = node, segment
            if place not in self._flattened:
                self._flattened[place] = segment.flattened(self.graph, node)
            rest = tuple([v for v in context.variables if v != segment.row])
            node, context = self._flattened[place], EnclosingLoops(rest, segment.around(context.rows))
        forms, inverse = self._basis(node, context)
        axes = self._numbered(len(forms))
        node = self._over_axes(node, axes, list(inverse), list(inverse.values()))
        # A quotient may be a form once it is written in axes, and the node then depends on fewer of them.
        if not node.free.issuperset(axes):
            used = [axis for axis in axes if axis in node.free]
            forms = [form for axis, form in zip(axes, forms, strict=True) if axis in used]
            axes = self._numbered(len(used))
            node = self.graph.substitute(node, dict(zip(used, map(Affine.variable, axes), strict=True)))
        renamed, loops = self._renamed(forms, context)
        key = renamed, loops, rounded
        if key not in self._domains:
            self._domains[key] = self._domain(renamed, axes, loops, rounded)
        domain = self._domains[key]
        return None if domain is None else StorageCandidate(node, axes, tuple(forms), *domain)

    def _renamed(self, forms: Sequence[Affine], context: EnclosingLoops) -> tuple[tuple[Affine, ...], EnclosingLoops]:
        """Return `forms` and `context` with standard names in place of the loop variables, as a cache key that is the
        same for equal loop nests.
        """
        while len(self._loops) < len(context.variables):
            self._loops.append(self.graph.fresh(f"j{len(self._loops)}"))
        loops = tuple(self._loops[: len(context.variables)])
        names = renaming_map(context.variables, loops)
        rows = dict.fromkeys(row.substitute(names) for row in context.rows)
        return tuple([form.substitute(names) for form in forms]), EnclosingLoops(loops, tuple(rows))

    def _domain(
        self, forms: Sequence[Affine], axes: Sequence[int], context: EnclosingLoops, rounded: bool
    ) -> Domain | None:
        """Return ``(constraints, lower bounds, upper bounds)`` of the new variables `axes`, which stand for the index
        forms `forms` in the loops of `context`. None if an axis has no bounds; with ``rounded``, bounds may contain
        quotients.
        """
        rows = self._needed(forms, axes, context)
        if rows is None:
            return None
        lows, highs = [], []
        for axis in axes:
            low, high = self.box(axis, [a for a in axes if a != axis], rows, rounded)
            if not low or not high:
                return None
            lows.append(low)
            highs.append(high)
        return rows, tuple(lows), tuple(highs)

    def candidates(self, node: Node, context: EnclosingLoops) -> list[StorageCandidate]:
        """Return descriptions of the arrays that could store the values of `node` in the loops of `context`: first one
        with quotients such as ``i // 2`` as axes, unless it has more axes, then one with ordinary index forms. [] if an
        index has no bounds.
        """
        plain = self.candidate(node, context)
        if plain is None or not (found := self.quotients(node, context)):
            return [] if plain is None else [plain]
        fresh = {part: Affine.variable(self.graph.fresh("w")) for part in found}
        rows = (*context.rows, *(row for part in found for row in part.definition()))
        variables = (*context.variables, *(v for form in fresh.values() for v in form.variables()))
        around = EnclosingLoops(variables, tuple([row.substitute(fresh) for row in rows]))
        node = self.graph.substitute(node, fresh)
        fewer = self.candidate(node, around) if self.rank(node, around) <= len(plain.axes) else None
        if fewer is None or len(fewer.axes) > len(plain.axes):
            return [plain]
        back = {v: Affine.variable(part) for part, form in fresh.items() for v in form.variables()}
        return [replace(fewer, forms=tuple([form.substitute(back) for form in fewer.forms])), plain]

    def quotients(self, node: Node, context: EnclosingLoops) -> list[Quotient]:
        """Return the quotients, such as ``floor(i/2)``, in the index forms of `node` that contain loop indices of
        ``context``.
        """
        parts = {part for form in self._forms(node) for part in form.quotients()}
        own = [part for part in parts if part.atoms() <= node.free and not data_entries([part.form])]
        return sorted(part for part in own if not part.atoms().isdisjoint(context.variables))

    def labels(self, node: Node, context: EnclosingLoops, units: Collection[int]) -> tuple[Affine, ...]:
        """Return linearly independent index forms, such as ``i + k``, of which all indices in `node` are integer
        combinations. Variables in `units` are forms of their own. ``context`` has the loops around `node`.

        An index that contains a variable in `units` is split into single variables.
        """
        used = [v for v in context.variables if v in node.free]
        unit = _units(len(used))
        vectors: dict[tuple[int, ...], None] = {}
        for vector in _vectors(node, used, signed=True):
            own = [n for n, c in enumerate(vector) if c]
            is_split = any(used[n] in units for n in own)
            vectors.update(dict.fromkeys([unit[n] for n in own] if is_split else [vector]))
        basis = independent(sorted(vectors, key=lambda vector: vector not in unit))
        if _integer_inverse(basis, vectors, len(used)) is None:
            basis = unit
        return tuple([Affine(dict(zip(used, vector, strict=True))) for vector in basis])

    def candidate_over(
        self, node: Node, labels: Sequence[Affine], ranges: Sequence[tuple[Affine, Affine]], context: EnclosingLoops
    ) -> StorageCandidate | None:
        """Return a description of an array that stores the values of `node` in the loops of `context`, with the index
        forms ``labels`` as axes; ``ranges`` has the lowest and highest value of each. None if `node` is not a function
        of these forms, or if the loops are empty.
        """
        used = [v for v in context.variables if v in node.free]
        basis = [tuple([label.coefficient(v) for v in used]) for label in labels]
        inverse = _integer_inverse(basis, dict.fromkeys(_vectors(node, used)), len(used))
        rows = self._needed(labels, axes := self._numbered(len(labels)), context)
        if inverse is None or rows is None:
            return None
        lows, highs = (tuple([(form,) for form in forms]) for forms in zip(*ranges, strict=True))
        return StorageCandidate(self._over_axes(node, axes, used, inverse), axes, tuple(labels), rows, lows, highs)

    def range(self, label: Affine, context: EnclosingLoops) -> tuple[Affine, Affine] | None:
        """Return the lowest and the highest value of the index form `label` in the loops of `context`, as forms in the
        sizes. None if one of them is unknown, or a maximum or minimum of several forms.
        """
        (renamed,), loops = self._renamed([label], context)
        if (renamed, loops) not in self._ranges:
            axes = self._numbered(1)
            rows = self._needed([renamed], axes, loops)
            lows, highs = ((), ()) if rows is None else self.box(axes[0], [], rows, False)
            self._ranges[renamed, loops] = (lows[0], highs[0]) if len(lows) == len(highs) == 1 else None
        return self._ranges[renamed, loops]

    def entries(self, labels: Iterable[Affine], context: EnclosingLoops, hints: Callable[[Affine], int]) -> int:
        """Return the expected number of entries of an array with an axis for each of ``labels``, index forms in the
        loops of ``context``. ``hints`` has the expected values of extents; an unknown extent counts as 1.
        """
        ranges = [self.range(label, context) for label in labels]
        return prod(hints(found[1] - found[0] + 1) for found in ranges if found is not None)

    def numbered(self, node: Node, variables: Sequence[int]) -> Node:
        """Return `node` with `variables` renamed to standard names, in their order of occurrence, so that expressions
        that differ only in these names become the same node.
        """
        key = node, tuple(variables)
        if key not in self._numbered_nodes:
            found: dict[int, None] = {}
            for vector in _vectors(node, variables):
                found.update((v, None) for v, c in zip(variables, vector, strict=True) if c)
            axes = self._numbered(len(found))
            self._numbered_nodes[key] = self.graph.substitute(node, renaming_map(tuple(found), axes))
        return self._numbered_nodes[key]

    def is_safe(self, node: Node, rows: Rows) -> bool:
        """Return whether the symbolic divisors in the index forms of `node`, such as n in ``x[i // n]``, are proved
        positive wherever `rows` hold, so that no index divides by 0. Divisions of values are not examined.
        """
        divisors = symbolic_divisors(form for form in self._forms(node) if form.compounds())
        return all(is_implied(Constraint("ge", divisor - 1), (*self.facts, *rows)) for divisor in divisors)

    def _forms(self, node: Node) -> frozenset[Affine]:
        """Return the index forms of `node` and of all nodes below, from a cache."""
        known = self._forms_in
        for part in reachable(node, known=known):
            known[part] = frozenset(index_forms(part)).union(*(known[arg] for arg in part.args))
        return known[node]

    def _numbered(self, count: int) -> tuple[int, ...]:
        """Return `count` standard axis variables, the same ones at each call."""
        while len(self._axes) < count:
            self._axes.append(self.graph.fresh(f"i{len(self._axes)}"))
        return tuple(self._axes[:count])

    def _over_axes(
        self, node: Node, axes: Sequence[int], used: Sequence[int], inverse: Sequence[Sequence[int]]
    ) -> Node:
        """Return `node` with each variable in `used` replaced by a combination of the new variables `axes`. Row k of
        the matrix `inverse` has the coefficients for ``used[k]``.
        """
        values = [Affine.variable(axis) for axis in axes]
        sums = (sum((c * value for c, value in zip(row, values, strict=True)), Affine()) for row in inverse)
        return self.graph.substitute(node, dict(zip(used, sums, strict=True)))

    def _basis(self, node: Node, context: EnclosingLoops) -> tuple[list[Affine], dict[int, tuple[int, ...]]]:
        """Return ``(forms, combinations)``: independent index forms of which all indices in `node` are integer
        combinations, and a dictionary from each loop variable in `node` to its coefficients on these forms, by which it
        can be replaced.
        """
        used = [v for v in context.variables if v in node.free]
        # In their own directions, which no substitution of the variables changes.
        vectors = dict.fromkeys(_vectors(node, used, signed=True))
        if self.has_segments and self.graph.integers:  # both limits of a segment say where it is
            vectors = {v: None for v in vectors if next(c for c in v if c) > 0 or tuple(-c for c in v) not in vectors}
        basis = independent(map(_direction, vectors))
        if len(basis) > 1:
            basis = _in_order_of_reads(basis, node, used)
        inverse = _integer_inverse(basis, vectors, len(used))
        if inverse is None:  # all vectors of integers in their span are reached
            basis = list(smith.kernel_basis(smith.kernel_basis(list(vectors), len(used)), len(used)))
            inverse = _integer_inverse(basis, vectors, len(used))
            assert inverse is not None
        forms = [Affine({v: c for v, c in zip(used, vector, strict=True)}) for vector in basis]
        return forms, dict(zip(used, inverse, strict=True))

    def _needed(self, forms: Sequence[Affine], axes: Sequence[int], context: EnclosingLoops) -> Rows | None:
        """Return the constraints on the new variables `axes`, which stand for the index forms ``forms``, that the loops
        of `context` imply. Loop variables are eliminated. None if the constraints cannot hold.
        """
        used = {v for form in forms for v in form.atoms()}
        if are_segments(context.rows, used):
            return None
        rows = [row for row in map(_with_ranges_of_data, context.rows) if row is not None]
        rows += [Constraint("eq", Affine.variable(axis) - form) for axis, form in zip(axes, forms, strict=True)]
        projected = project(rows, context.variables, self.facts)
        return None if projected is None else remove_redundant(projected, self.facts)

    def box(
        self, axis: int, others: Sequence[int], rows: Rows, rounded: bool
    ) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
        """Return ``(lower bounds, upper bounds)`` of the variable `axis` that the constraints `rows` imply, as forms in
        the sizes. The variables `others` are eliminated. Bounds with quotients are included only if ``rounded``.
        """
        projected = project(rows, others, self.facts)
        lows, highs = [], []
        for row in remove_redundant(projected or (), self.facts):
            c = row.form.coefficient(axis)
            if row.kind == "eq" and abs(c) == 1:
                value = Affine({axis: 1}) - row.form * c
                lows.append(value)
                highs.append(value)
            elif c == 1:
                lows.append(Affine({axis: 1}) - row.form)
            elif c == -1:
                highs.append(row.form + Affine({axis: 1}))
            elif c > 1 and rounded:
                lows.append(quotient(Affine({axis: c}) - row.form + c - 1, c))
            elif c < -1 and rounded:
                highs.append(quotient(row.form - Affine({axis: c}), -c))
        return tuple(lows), tuple(highs)


def _with_ranges_of_data(row: Constraint) -> Constraint | None:
    """Return `row`; if it has entries of data, as ``v < start[i + 1]``, the weaker constraint ``v < n`` that holds for
    all values in their declared range. None if no range is declared.
    """
    if not data_entries([row.form]):
        return row
    bound = bound_of_data(row.form, 1) if row.kind == "ge" else None
    return None if bound is None else Constraint("ge", bound)


def are_segments(rows: Rows, used: AbstractSet[Variable]) -> bool:
    """Return whether data bound one of the variables ``used`` from both sides in terms of another one, as in ``start[i]
    <= v < start[i + 1]``: the loops visit each v a few times, an array has an entry for each i and v.
    """
    signs: dict[Variable, set[bool]] = {}
    for row in rows:
        inside = {v for entry in data_entries([row.form]) for form in entry.index for v in form.atoms()}
        if row.kind == "ge" and inside & used:
            for v, coefficient in row.form.terms:
                if v in used and v not in inside:
                    signs.setdefault(v, set()).add(coefficient > 0)
    return any(len(found) == 2 for found in signs.values())


def _vectors(node: Node, used: Sequence[int], *, signed: bool = False) -> list[tuple[int, ...]]:
    """Return the nonzero coefficient vectors on the variables `used` of the index forms below `node`: ``(1, -2)`` for
    ``i - 2*k + 3`` and ``used = (i, k)``. Unless ``signed``, their signs are changed so that the first nonzero
    coefficient is positive.

    Their order does not change when indices are renamed, so that equal parts get equal axes. The forms that tests
    compare with 0 come last, always with such signs, since their own say nothing and no entry is read at them.
    """
    found = []
    tested: dict[Node, None] = {}
    keys = frozenset(used)
    stack, seen = [node], {node}
    while stack:
        part = stack.pop()
        if part.op == "compare" and part.args[0].op == "index":
            tested[part.args[0]] = None
            continue
        for arg in reversed(part.args):
            if arg not in seen and not keys.isdisjoint(arg.free):
                seen.add(arg)
                stack.append(arg)
        for form in _with_inner_forms(*index_forms(part)):
            vector = _vector(form, used)
            if any(vector):
                positive = signed or next(c for c in vector if c) > 0
                found.append(vector if positive else tuple(-c for c in vector))
    for index in tested:
        for form in _with_inner_forms(index.data):
            vector = _vector(form, used)
            if any(vector):
                found.append(vector if next(c for c in vector if c) > 0 else tuple(-c for c in vector))
    return found


def _in_order_of_reads(basis: list[tuple[int, ...]], node: Node, used: Sequence[int]) -> list[tuple[int, ...]]:
    """Sort `basis`, vectors with the coefficients of index forms on the variables `used`, by the reads in `node` that
    have these forms as indices: forms in reads with the most variables come first.

    The result does not depend on the order of terms in an addition.
    """
    keys = frozenset(used)
    reads = [part for part in reachable(node) if part.op == "read" and not keys.isdisjoint(part.free)]
    reads.sort(key=lambda part: (-len(keys & part.free), part.args[0].id))
    found = dict.fromkeys(vector for part in reads for form in part.data if any(vector := _vector(form, used)))
    places = {vector: place for place, vector in reversed(list(enumerate(map(_direction, found))))}
    return sorted(basis, key=lambda vector: places.get(vector, len(places)))


def _direction(vector: tuple[int, ...]) -> tuple[int, ...]:
    """Return the integer `vector` divided by the greatest common divisor of its entries."""
    return tuple([c // gcd(*vector) for c in vector])


def _vector(form: Affine, used: Sequence[int]) -> tuple[int, ...]:
    """Return the coefficients of `form` on the variables `used`."""
    return tuple([form.coefficient(v) for v in used])


def _with_inner_forms(*forms: Affine) -> list[Affine]:
    """Return `forms` with the forms inside of their quotients and other nonlinear terms."""
    found = list(forms)
    for form in found:
        found += (inner for compound in sorted(form.compounds()) for inner in compound.forms())
    return found


def _units(count: int) -> list[tuple[int, ...]]:
    """Return the unit vectors of length `count`."""
    return [tuple(int(m == n) for m in range(count)) for n in range(count)]


def is_never_empty(variables: Sequence[int], rows: Sequence[Constraint], facts: Rows) -> bool:
    """Return whether the range ``rows`` of `variables` provably contains a point for all values of the other variables
    that satisfy `facts`. False if the constraints are not simple enough for a proof.
    """
    for v in reversed(variables):
        around, own = partition(rows, [v])
        if any(row.kind != "ge" or abs(row.form.coefficient(v)) != 1 for row in own):
            return False
        lows, highs = unit_bounds_of(v, own)
        if not all(is_implied(Constraint("ge", high - low), (*facts, *around)) for low in lows for high in highs):
            return False
        rows = around
    return True


def index_forms(node: Node) -> Sequence[Affine]:
    """Return the affine index forms in `node` itself: the indices of a read, the extents of a comprehension, the bounds
    in a sum or guard, or an index used as a number; () for other nodes.
    """
    match node.op:
        case "index":
            return (node.data,)
        case "read" | "comprehension":
            return tuple(node.data)
    return [_as_bound(row.form) for row in node.data] if node.op in RANGED or node.op == "guard" else ()


def is_rounded(node: Node, variables: frozenset[int]) -> bool:
    """Return whether the indices below `node` contain `variables` inside of quotients, remainders, maxima or
    products.
    """
    forms = (form for part in reachable(node) for form in index_forms(part))
    return any(not form.hidden().isdisjoint(variables) for form in forms)


def _as_bound(form: Affine) -> Affine:
    """Return ``form`` if the coefficient of its only bound variable is negative, else ``-form``: ``p - k`` for ``k -
    p`` with k bound. Lower and upper bounds of k thus get equal forms. Forms with several bound variables are
    unchanged.
    """
    coefficients = [c for v, c in form.terms if isinstance(v, int) and v < 0]
    return form * -1 if len(coefficients) == 1 and coefficients[0] > 0 else form


def _integer_inverse(
    basis: Sequence[tuple[int, ...]], vectors: Sequence[tuple[int, ...]] | dict[tuple[int, ...], None], width: int
) -> list[tuple[int, ...]] | None:
    """Return an integer right inverse of the matrix `basis`, which has ``width`` columns: a matrix L for which ``basis
    @ L`` is the identity. None if there is none, or if one of `vectors` is not an integer combination of the rows of
    `basis`.
    """
    solution = smith.solve(basis, width)
    if solution.congruences or solution.equations:
        return None
    rows = [[0] * len(basis) for _ in range(width)]
    for numerator, factor, column in solution.particular:
        for r, c in enumerate(column):
            for m, n in enumerate(numerator):
                rows[r][m] += c * n // factor
    for vector in vectors:
        combination = [sum(vector[r] * rows[r][m] for r in range(width)) for m in range(len(basis))]
        again = tuple(sum(c * b[r] for c, b in zip(combination, basis, strict=True)) for r in range(width))
        if again != vector:
            return None
    return [tuple(row) for row in rows]
