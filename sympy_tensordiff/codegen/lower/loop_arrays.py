"""Arrays that store the values of a loop: the integers that index them, and the entry that equals a given value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, product
from math import lcm

from sympy_tensordiff.codegen.lower.lower import Lowering
from sympy_tensordiff.codegen.lower.plan import EnclosingLoops, StorageCandidate, index_forms
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.graph.instances import Comparison, instances, with_joined_indices
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint, Quotient, quotient
from sympy_tensordiff.integer.clamps import gist
from sympy_tensordiff.integer.implication import is_empty, is_implied
from sympy_tensordiff.integer.indirect import compounds_in, data_entries
from sympy_tensordiff.integer.products import SymbolicQuotient, quotient_by, times
from sympy_tensordiff.integer.rows import Rows, complement
from sympy_tensordiff.simplify.canonical_signs import with_canonical_signs
from sympy_tensordiff.simplify.facts import unconditional_reads

MAX_MOVES = 16
"""The number of combinations of periods tried for one match."""

MAX_CASES = 4
"""The number of entries, each for a case of its own, that may make up one value."""


@dataclass(frozen=True)
class LoopArray:
    """An array that stores one value per iteration of a loop: the stored formula (`candidate`), its tensor node, and
    the lowest index of each axis.
    """

    candidate: StorageCandidate
    tensor: Node
    lows: tuple[Affine, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes on which the stored value depends. (Along the other axes of the array, the value is constant.)"""
        return tuple(axis for axis in self.candidate.axes if axis in self.candidate.node.free)


class LoopArrays:
    """The arrays that store values of loop bodies, one entry per iteration, created on demand; bodies that are equal up
    to names of indices share an array.
    """

    def __init__(self, graph: Graph, lowering: Lowering) -> None:
        self.graph = graph
        self.lowering = lowering
        self.arrays: dict[tuple[Node, Rows], LoopArray] = {}
        self.opened: dict[Node, tuple[tuple[int, ...], Rows, Node]] = {}
        self.around: dict[int, Rows] = {}
        """The rows of the binder of each variable."""
        self.canonical_form: dict[Rows, dict[Affine, Affine]] = {}
        """Index forms as they are compared where some facts hold."""

    def open(self, node: Node) -> tuple[tuple[int, ...], Rows, Node]:
        """Return ``(variables, constraints, body)`` of `node`, a sum or comprehension, with the same variables in every
        call. Record the constraints of each variable in ``self.around``.
        """
        if node not in self.opened:
            self.opened[node] = variables, rows, _ = self.graph.open(node)
            self.around.update(dict.fromkeys(variables, rows))
        return self.opened[node]

    # -------------------------------------------------------------- which values have arrays

    def candidate(self, body: Node, variables: tuple[int, ...], rows: Rows) -> StorageCandidate:
        """Return a description of an array that stores the values of `body` in loops over `variables`, bounded by
        `rows`. Its axes are as few integers, such as ``i + k``, as determine the value. Raise `UnsupportedError` if one
        of them has no bounds.
        """
        used = body.free.union(*(row.form.atoms() for row in rows)).difference(variables)
        outer = sorted(v for v in used if v in self.around)
        ways = self.rounded(body, frozenset((*outer, *variables)))
        tried = (self.candidate_with_quotients(body, variables, outer, rows, mapping) for mapping in ways)
        candidates = [candidate for candidate in tried if candidate is not None]
        if not candidates:
            raise UnsupportedError(
                "values are compared with the greatest or least of them and cannot be kept, for their indices have no "
                "bounds of their own: give the values a name as a TensorComprehension"
            )
        return min(candidates, key=lambda found: len(found.axes))

    def candidate_with_quotients(
        self,
        body: Node,
        variables: Sequence[int],
        outer: Sequence[int],
        rows: Rows,
        rounded: Mapping[Compound, Affine],
    ) -> StorageCandidate | None:
        """Return a description of an array that stores the values of `body` in loops over `variables`, bounded by
        `rows`, with quotients such as ``floor(i/2)`` as axes. `rounded` maps each quotient to a new variable; ``outer``
        are the indices bound outside of these loops. None if an axis has no bounds.
        """
        more = (*rows, *(row for part in rounded for row in part.definition()))
        rows = tuple(row.substitute(rounded) for row in more)
        body = self.graph.substitute(body, rounded)
        rows += tuple(unconditional_reads(self.graph, body, (*self.lowering.facts, *rows)))
        own = (*variables, *(v for form in rounded.values() for v in form.variables()))
        planner = self.lowering.planner
        near = EnclosingLoops((*outer, *own), rows)
        all_around = EnclosingLoops((*self.binders(outer), *own), rows + self.constraints_of_binders(outer))
        contexts = [(near, False), (near, True), (all_around, True)]
        found = next(filter(None, (planner.candidate(body, context, rounded=r) for context, r in contexts)), None)
        if found is None:
            return None
        again = {v: Affine.variable(part) for part, form in rounded.items() for v in form.variables()}
        return replace(found, forms=tuple([form.substitute(again) for form in found.forms]))

    def constraints_of_binders(self, variables: Sequence[int]) -> Rows:
        """Return the constraints of the sums and comprehensions that bind `variables`, and of those that bind other
        indices in these constraints.
        """
        return tuple(row for rows in dict.fromkeys(self.binders(variables).values()) for row in rows)

    def binders(self, variables: Sequence[int]) -> dict[int, Rows]:
        """Return a dictionary from the bound indices among `variables` to the constraints of the sum or comprehension
        that binds them. Bound indices that occur in these constraints are included, too, and so on.
        """
        found: dict[int, Rows] = {}
        waiting = list(variables)
        while waiting:
            v = waiting.pop()
            if v in self.around and v not in found:
                found[v] = self.around[v]
                waiting += [w for row in found[v] for w in sorted(row.form.atoms())]
        return {v: found[v] for v in sorted(found)}

    def rounded(self, body: Node, known: frozenset[int]) -> list[dict[Compound, Affine]]:
        """Return a list of substitutions that replace nonlinear index terms in `body`, such as ``floor(i/2)``, by new
        variables, for the caller to try in turn. The first replaces all terms with indices in ``known``, the next ones
        fewer, the last none.
        """
        parts = {part for node in reachable(body) for form in index_forms(node) for part in form.compounds()}
        own = sorted(part for part in parts if not known.isdisjoint(part.atoms()) and part.atoms() <= body.free)
        found: list[dict[Compound, Affine]] = []
        while own:
            found.append({part: Affine.variable(self.graph.fresh("w")) for part in own})
            left = self.graph.substitute(body, found[-1]).free & known
            rest = [part for part in own if left.isdisjoint(part.atoms())]
            if rest == own:
                break
            own = rest
        return [*found, {}]

    def array(
        self, candidate: StorageCandidate, note: str = "values that are compared with their greatest or least one"
    ) -> LoopArray:
        """Return the array that stores the values described by `candidate`, a new one if there is none. `note` is the
        reason why they are stored, which the plan shows for a new array.
        """
        key = candidate.node, candidate.rows
        if key not in self.arrays:
            name, lows, extents = self.lowering.allocated(candidate)
            self.lowering.notes.append(f"{name}: {note}")
            # No tensor of a user's is called so: names are cut at blanks there.
            tensor = self.graph.tensor(f"kept {name}", tuple(extents))
            self.lowering.arrays[tensor.data[0]] = name
            self.arrays[key] = LoopArray(candidate, tensor, lows)
        return self.arrays[key]

    # -------------------------------------------------------------- what reads it

    def read(self, stored: LoopArray, forms: Sequence[Affine]) -> Node:
        """Return the read of the array ``stored`` at the values `forms` of its loop indices. Their lowest values are
        subtracted, because the array begins there.
        """
        return self.graph.read(stored.tensor, [form - low for form, low in zip(forms, stored.lows, strict=True)])

    def entry(
        self, arrays: Sequence[LoopArray], value: Node, known: Rows, nonzero: Sequence[Affine] = ()
    ) -> Node | None:
        """Return a node that reads `value` from ``arrays``: from one of them, or with a case distinction from several.
        None unless what is read provably equals `value` wherever the constraints ``known`` hold and the forms
        ``nonzero`` are not 0.

        Several arrays may hold values of one form, each for a case of its own: the rows of the array decide. If no
        single entry is in bounds at all points, several entries become cases: of ``a[i]*a[j]`` for ``i < j``,
        ``a[p]*a[q]`` is the entry of ``(p, q)`` or of ``(q, p)`` where ``p - q`` is ``nonzero``.
        """
        facts = (*self.lowering.facts, *known)
        facts += tuple(unconditional_reads(self.graph, value, facts)) if arrays else ()
        cases: dict[Rows, Node] = {}
        for stored in arrays:
            for forms in self.forms(stored, value, known):
                place = dict(zip(stored.candidate.axes, forms, strict=True))
                rows = (row.substitute(place) for row in stored.candidate.rows)
                open_rows = tuple([row for row in rows if not is_implied(row, facts)])
                if not open_rows:
                    return self.read(stored, forms)
                if len(cases) < MAX_CASES:
                    cases.setdefault(open_rows, self.read(stored, forms))
        return self.choice_by_cases(cases, facts, nonzero)

    def choice_by_cases(self, cases: Mapping[Rows, Node], facts: Rows, nonzero: Sequence[Affine]) -> Node | None:
        """Combine `cases`, a dictionary from constraints to nodes, to one node: where the constraints ``rows`` hold, it
        is ``cases[rows]``, for the first such case. None unless the cases cover all points at which the constraints
        `facts` hold and the forms `nonzero` are not 0.
        """
        rest: list[Rows] = [()] if cases else []
        terms: list[Node] = []
        for rows, node in cases.items():
            terms += [self.graph.guard((*region, *rows), node) for region in rest]
            pieces = [(*region, *outside) for region in rest for outside in complement(rows)]
            rest = [piece for piece in pieces if not _has_zero((*facts, *piece), nonzero)]
        return None if rest or not terms else self.graph.add(terms)

    def forms(self, stored: LoopArray, value: Node, known: Rows) -> Iterator[list[Affine]]:
        """Yield the indices, as one form for each axis, at which the array ``stored`` contains `value`, given the
        constraints `known`. They are found by matching `value` with the formula of the array's entries.
        """
        around = dict(zip(stored.candidate.axes, stored.candidate.forms, strict=True))
        scope = value.free.union(self.lowering.outside, *(row.form.atoms() for row in known))
        if any(not form.atoms() <= scope for axis, form in around.items() if axis not in stored.axes):
            return
        for mapping, back in self.equal_notations(known):
            again = self.graph.substitute(value, mapping)
            compare = self.comparison(stored, known)
            own, by_terms = (
                instances(self.graph, stored.candidate.node, stored.axes, again, compare, by_terms=by_terms)
                for by_terms in (False, True)
            )
            others = self.instances_where(stored, again, known), self.at_ends(stored, again, compare)
            for found in chain(own, *others, by_terms):
                yield [found.get(axis, form).substitute(back) for axis, form in around.items()]

    def symmetries(self, stored: LoopArray) -> list[dict[int, Affine]]:
        """Return the substitutions of index forms for axes that do not change the stored formula: ``{i: j, j: i}`` for
        a symmetric array ``stored``. The identity is left out.

        Affine ones need not be inside of the array.
        """
        candidate, axes = stored.candidate, stored.axes
        facts = (*self.lowering.facts, *candidate.rows)
        fresh_axes = {axis: self.graph.fresh(f"i{n}") for n, axis in enumerate(axes)}
        renamed = {axis: Affine.variable(v) for axis, v in fresh_axes.items()}
        entry = self.graph.substitute(candidate.node, renamed)
        inside = tuple([row.substitute(renamed) for row in candidate.rows])
        found: dict[tuple[Affine, ...], None] = {}
        for forms in instances(self.graph, candidate.node, axes, entry, self.comparison(stored, inside)):
            back = {v: Affine.variable(axis) for axis, v in fresh_axes.items()}
            found[tuple([gist(forms[axis].substitute(back), facts) for axis in axes])] = None
        found.pop(tuple(map(Affine.variable, axes)), None)
        symmetries = [dict(zip(axes, forms, strict=True)) for forms in found]
        return [
            symmetry
            for symmetry in symmetries
            if not any(form.compounds() for form in symmetry.values())
            or all(is_implied(row.substitute(symmetry), facts) for row in candidate.rows)
        ]

    def comparison(self, stored: LoopArray, known: Rows) -> Comparison:
        """Return the `Comparison` for matching a value with the formula of the array `stored`: it brings both to a
        normal form, which is the same for index forms that are equal where the constraints `known` hold, and for
        ``(a - b)**2`` and ``(b - a)**2``.
        """
        facts = (*self.lowering.facts, *known)
        done = self.canonical_form.setdefault(facts, {})

        def canonical_form(form: Affine) -> Affine:
            """Return the index `form` simplified under the known constraints ``facts``, with canonical signs in
            quotients.
            """
            if form not in done:
                done[form] = _with_positive_lead(gist(form, facts))
            return done[form]

        def canonical_node(node: Node) -> Node:
            """Return `node` with all index forms simplified, and with one sign for ``a - b`` and ``b - a``."""
            return with_canonical_signs(self.graph, [self.graph.map_forms(node, canonical_form)])[0]

        return Comparison(canonical_form, canonical_node, partial(_with_whole_periods_added, stored))

    def equal_notations(self, known: Rows) -> Iterator[tuple[dict[int, Affine], dict[int, Affine]]]:
        """Yield substitutions for indices, ``(substitution, inverse)``, that the constraints `known` allow: none, ``{v:
        p[k]}`` if ``v == p[k]``, and ``{v: 2*m}`` if v is even, with the inverse ``{m: v/2}``.
        """
        yield {}, {}
        equal: dict[int, Affine] = {}
        for row in known:
            if row.kind == "eq" and data_entries([row.form]):
                places = (v for v, c in row.form.terms if abs(c) == 1 and isinstance(v, int))
                equal |= {v: Affine({v: 1}) - row.form * row.form.coefficient(v) for v in places}
        if equal:
            yield equal, {}
        for row in known:
            for v in sorted(v for v, c in row.form.terms if abs(c) == 1 and isinstance(v, int) and row.kind == "mod"):
                # A multiple of m is m times another integer.
                c, whole = row.form.coefficient(v), self.graph.fresh("m")
                exact = Affine({v: 1}) + (row.modulus * Affine.variable(whole) - row.form) * c
                yield {v: exact}, {whole: quotient(row.form, row.modulus)}

    def instances_where(self, stored: LoopArray, value: Node, known: Rows) -> Iterator[dict[int, Affine]]:
        """Yield the indices at which the array `stored` contains `value`, as dictionaries from its axes to index forms.
        Quotients in indices of the two may be written differently, if they are equal where the constraints `known`
        hold.
        """
        axes, node = stored.axes, stored.candidate.node
        facts = (*self.lowering.facts, *known)
        compare = self.comparison(stored, known)
        for holes, pattern in self.patterns(node, axes):
            for found in instances(self.graph, pattern, (*axes, *holes), value, compare):
                given = (found[hole] - Affine.variable(part).substitute(found) for hole, part in holes.items())
                if all(is_implied(Constraint("eq", gist(difference, facts)), facts) for difference in given):
                    yield found

    def at_ends(self, stored: LoopArray, value: Node, compare: Comparison) -> Iterator[dict[int, Affine]]:
        """Yield the corners of the array `stored` that contain `value`, such as ``{j: 0}``, as dictionaries from its
        axes to ends of their ranges. ``compare`` brings the formulas to a normal form for the comparison.

        Rounded and clamped indices are constant there: ``2*x[j//2] - 3*x[j//3]`` is ``-x[0]`` at ``j = 0``.
        """
        ends = [_ends(stored.candidate.rows, axis) for axis in stored.axes]
        wanted = compare.node(with_joined_indices(self.graph, value))
        for chosen in islice(product(*ends), MAX_MOVES):
            found = dict(zip(stored.axes, chosen, strict=True))
            entry = self.graph.substitute(stored.candidate.node, found)
            if compare.node(with_joined_indices(self.graph, entry)) is wanted:
                yield found

    def patterns(self, node: Node, axes: Sequence[int]) -> Iterator[tuple[dict[int, Compound], Node]]:
        """Yield ``(holes, pattern)``: `node` with nonlinear parts of its indices, such as ``floor(i/2)``, replaced by
        new variables, and a dictionary from these variables to the parts. Only parts with a variable in `axes` are
        replaced.

        Patterns have linear indices, which can be matched.
        """
        parts = {part for inner in reachable(node) for form in index_forms(inner) for part in form.compounds()}
        own = sorted(part for part in parts if part.atoms() <= node.free and not part.atoms().isdisjoint(axes))
        tried = set()
        for first in range(len(own)):
            holes: dict[int, Compound] = {}
            pattern = node
            for part in (*own[first:], *own[:first]):
                hole = self.graph.fresh("w")
                next_pattern = self.graph.substitute(pattern, {part: Affine.variable(hole)})
                if next_pattern.free >= part.atoms().intersection(axes):
                    holes[hole], pattern = part, next_pattern
            chosen = frozenset(holes.values())
            if holes and chosen not in tried:
                tried.add(chosen)
                yield holes, pattern


def _has_zero(rows: Rows, nonzero: Sequence[Affine]) -> bool:
    """Return whether the constraints `rows` cannot hold, given that no form in `nonzero` is 0: they have no solution,
    or one of these forms is 0 at every solution.
    """
    sides = ((Constraint("ge", form - 1), Constraint("ge", -form - 1)) for form in nonzero)
    return is_empty(rows) or any(is_empty((*rows, above)) and is_empty((*rows, below)) for above, below in sides)


def _ends(rows: Rows, axis: int) -> list[Affine]:
    """Return the bounds of the variable `axis`, first the lower and then the upper ones, from the inequalities in
    `rows` in which its coefficient is 1 or -1.
    """
    own = [row for row in rows if row.kind == "ge" and axis not in row.form.hidden()]
    lows = [Affine({axis: 1}) - row.form for row in own if row.form.coefficient(axis) == 1]
    return lows + [row.form + Affine({axis: 1}) for row in own if row.form.coefficient(axis) == -1]


def _with_whole_periods_added(stored: LoopArray, found: Mapping[int, Affine]) -> Iterator[dict[int, Affine]]:
    """Yield other indices at which the periodic array ``stored`` has the same value as at ``found``, a dictionary from
    axes to index forms: first ``found`` itself, then ``found`` shifted by whole periods to the first period of the
    array.

    ``y[Mod(j + 1, n)]`` is ``y[p]`` for ``j = p - 1`` and for ``j = Mod(p - 1, n)``, which is never negative.
    """
    yield dict(found)
    candidate = stored.candidate
    moves: list[list[tuple[Affine, Affine] | None]] = []
    for axis in stored.axes:
        lows = dict.fromkeys(
            Affine({axis: 1}) - row.form
            for row in candidate.rows
            if row.kind == "ge" and row.form.coefficient(axis) == 1 and axis not in row.form.hidden()
        )
        moves.append([None, *product(lows, _periods(candidate.node, axis))])
    for chosen in islice(product(*moves), 1, MAX_MOVES):
        moved = dict(found)
        for axis, move in zip(stored.axes, chosen, strict=True):
            if move is not None:
                low, period = move[0].substitute(moved), move[1]
                form = found[axis] - low
                moved[axis] = low + form - times(period, quotient_by(form, period))
        yield moved


def _periods(node: Node, axis: int) -> list[Affine]:
    """Return candidates for the period of `node` along the index `axis`: the divisors n in indices such as ``Mod(i,
    n)`` or ``floor(i/n)``, and the least common multiple of those that are numbers.
    """
    found = compounds_in(form for part in reachable(node) for form in index_forms(part))
    divisors = dict.fromkeys(
        Affine.of(part.divisor)
        for part in found
        if isinstance(part, (Quotient, SymbolicQuotient)) and axis in part.form.atoms()
    )
    numbers = [m.constant for m in divisors if m.is_constant]
    return list(divisors | dict.fromkeys([Affine.of(lcm(*numbers))] if numbers else []))


def _with_positive_lead(form: Affine) -> Affine:
    """Return ``form`` with floors by symbolic divisors brought to a normal form, in which their first term is positive:
    ``floor(-p/n)`` becomes ``-1 - floor((p - 1)/n)``.
    """
    for found in compounds_in([form]):
        if isinstance(found, SymbolicQuotient):
            first = next((c for v, c in found.form.terms if v not in found.divisor.atoms()), 1)
            if first < 0:
                opposite = -1 - quotient_by(-1 - found.form, Affine.of(found.divisor))
                return _with_positive_lead(form.substitute({found: opposite}))
    return form
