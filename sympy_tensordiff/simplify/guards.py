"""Constraints of guards: equations, substitutions by them, and the union of two guards with equal bodies.

``[p >= q + 1]*f + [p == q]*f`` is ``[p >= q]*f``, and two bands side by side are one band. The rows of the union are
those of each guard that hold at all points of the other. They are the union if there is nothing in between: no integer
point that satisfies them violates a row of both. That is decided in the context of the indices; if it cannot be
decided, the guards stay separate.

The body of a guard with an equation is written in fewer indices. It is the same body where that of
the other guard, with the equation put in, is.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

from sympy_tensordiff.graph.index_tests import conjuncts, unequal_forms
from sympy_tensordiff.graph.interning import breadth_first
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, Substitution, reachable, rewritten
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint, Variable
from sympy_tensordiff.integer.implication import is_empty, is_implied, without_redundant
from sympy_tensordiff.integer.indirect import data_terms, eliminate_entries_by_equations
from sympy_tensordiff.integer.rows import Rows, atoms_in
from sympy_tensordiff.integer.system import definitions
from sympy_tensordiff.integer.values import unique_value
from sympy_tensordiff.simplify.facts import has_positive_divisors


def tighten_to_equations(rows: Sequence[Constraint], facts: Rows, sizes: frozenset[int]) -> Rows:
    """Return `rows` without constraints that the others or ``facts`` imply, and with an equation for each index that
    can have only one value. Variables in ``sizes`` are not indices.
    """
    rows = without_redundant(rows, facts)
    for v in sorted(atoms_in(rows) - sizes):
        single = unique_value([v], rows)
        if single is not None:
            rows = without_redundant((Constraint("eq", Affine({v: 1}) - single[0][v]), *single[1], *rows), facts)
    return tuple(_as_equation(row, (*facts, *rows), sizes) for row in rows)


def _as_equation(row: Constraint, known: Rows, sizes: frozenset[int]) -> Constraint:
    """Return ``p == 0`` in place of the inequality `row`, ``p <= 0``, if `known` implies ``p >= 0``. Any other
    constraint is returned unchanged, and so is one that contains only the size variables `sizes`.
    """
    meets = row.kind == "ge" and not row.form.atoms() <= sizes and is_implied(Constraint("ge", -row.form), known)
    return Constraint("eq", row.form) if meets else row


def pivot(rows: Sequence[Constraint], sizes: frozenset[int]) -> tuple[Constraint, dict[Variable, Affine]] | None:
    """Return ``(equation, {variable: its value})`` for an equation in `rows` that can be solved for a variable not in
    `sizes`; None if there is none.

    It is solved for data, those that the oldest index selects first, or for the newest index.
    """
    for row in rows:
        data = data_terms(row.form)
        inside = row.form.hidden()
        terms = row.form.terms if row.kind == "eq" else ()
        for v, c in sorted(terms, key=_newest_variable) if len(data) > 1 else reversed(terms):
            is_index = isinstance(v, int) and v not in sizes and v not in inside
            value = Affine({v: 1}) - row.form * c
            if abs(c) == 1 and (v not in definitions(value.compounds()) if v in data else is_index and not data):
                return row, {v: value}
    return None


def rewrite_in_fewest_indices(
    graph: Graph, body: Node, row: Constraint, solution: Substitution, fixed: Container[int]
) -> Node:
    """Return the product `body` with each factor in the form with the fewest free indices that the equation `row`
    allows: under ``p[i] == j``, ``p[i]`` may become j or vice versa.

    `solution` is the equation solved for ``p[i]``; `fixed` are sizes.

    `solution` is empty if only a multiple of the entry is known.

    Under ``p == idx[t]`` the factor ``x[idx[t]]`` of a sum over t is ``x[p]``, which leaves the sum, ``exp(w[t]*x[p])``
    is ``exp(w[t]*x[idx[t]])``, a number for each t, and ``w[t]*x[idx[t]]`` stays.
    """
    rewrites: list[Callable[[Node], Node]] = [lambda part: part, partial(_without_data, graph, row, solution)]
    data = frozenset[Variable](data_terms(row.form))
    if not all(v in fixed for entry in data if isinstance(entry, Compound) for v in entry.atoms()):
        rewrites.reverse()  # of two forms in equally many indices the one without the data
    inside = row.form.hidden()
    for v, c in row.form.terms:
        value = Affine({v: 1}) - row.form * c
        if abs(c) != 1 or v in solution or v in definitions(value.compounds()):
            continue
        if v in data or (isinstance(v, int) and v not in fixed and v not in inside):
            rewrites.append(partial(_with_value, graph, v, value))
    return graph.mul(_choose_fewest_indices(graph, graph.factors(body), rewrites, row.form.atoms(), fixed))


def _choose_fewest_indices(
    graph: Graph,
    factors: Sequence[Node],
    rewrites: Sequence[Callable[[Node], Node]],
    changing: frozenset[Variable],
    fixed: Container[int],
) -> list[Node]:
    """Rewrite `factors` to equal nodes with as few free indices as possible; sizes, the variables in `fixed`, do not
    count. Subexpressions that contain a variable of `changing` are rewritten by whichever of `rewrites` leaves the
    fewest indices; others are kept.

    A binder, a guard or a read is rewritten as a whole, by one of `rewrites`.
    """

    def number_of_indices(node: Node) -> int:
        """Return the number of free indices in `node`. Variables in ``fixed``, which are sizes, do not count."""
        return sum(v not in fixed for v in node.free)

    forms: dict[Node, list[Node]] = {}
    best: dict[Node, Node] = {}
    found = {part for factor in factors for part in breadth_first(factor, _arguments)}
    for part in sorted(found, key=lambda part: part.id):
        own = _arguments(part)
        if changing.isdisjoint(part.free):
            forms[part] = [part]
        elif own:
            forms[part] = [graph.with_args(part, [_nth(forms[arg], n) for arg in own]) for n in range(len(rewrites))]
            forms[part].insert(0, graph.with_args(part, [best[arg] for arg in own]))
        else:
            forms[part] = [rewrite(part) for rewrite in rewrites]
        best[part] = min(forms[part], key=number_of_indices)
        forms[part] = forms[part][-len(rewrites) :]
    return [best[factor] for factor in factors]


def _nth(forms: Sequence[Node], n: int) -> Node:
    """Return ``forms[n]``: a subexpression as changed by rewriting number `n`. If ``forms`` has a single entry, no
    rewriting changes the subexpression, and this entry is returned.
    """
    return forms[n] if len(forms) > 1 else forms[0]


def _arguments(part: Node) -> Sequence[Node]:
    """Return the arguments of `part` that are rewritten one by one; () for nodes that are rewritten as a whole: reads,
    conditional nodes such as guards, and sums and other binders.
    """
    return () if part.op == "read" or part.op in _CONDITIONAL or part.op in BINDERS else part.args


def _without_data(graph: Graph, row: Constraint, solution: Substitution, part: Node) -> Node:
    """Substitute `solution` (a mapping of variables) in `part`, then replace entries such as ``p[i]`` by the index that
    the equation `row` gives for them: j for ``p[i] == j``.

    Tests of indices that differ keep their entries, as guards do: the two are recognised as opposite by their forms.
    """
    part = graph.substitute(part, solution) if solution else part
    conditions = [one for node in reachable(part) if node.op == "select" for one in conjuncts(node.args[0])]
    tested = {one.args[0] for one in conditions if unequal_forms(one)}

    def without_entries(node: Node) -> Node:
        """Return `node` with integer-array entries replaced by their values under the known equation ``row``: with
        ``p[i] == k``, the index ``p[i] + 1`` becomes ``k + 1``. Nodes that a condition tests are unchanged.
        """
        if node in tested:
            return node
        return graph.map_own_forms(node, lambda form: eliminate_entries_by_equations(form, (row,)))

    return rewritten(graph, [part], without_entries)[0]


def _with_value(graph: Graph, v: Variable, value: Affine, part: Node) -> Node:
    """Return `part` with `value` substituted for the variable `v`; `part` unchanged if a range or a condition in it
    depends on `v`.
    """
    keys = v.atoms() if isinstance(v, Compound) else frozenset((v,))
    if any(node.op in _CONDITIONAL and keys & atoms_in(node.data) for node in reachable(part, keys=keys)):
        return part
    return graph.substitute(part, {v: value})


_CONDITIONAL = RANGED | {"guard"}


def _newest_variable(term: tuple[Variable, int]) -> int:
    """Return the number of the variable in `term`, a pair of a variable and its coefficient; for a compound such as a
    floor, the largest one in it. Variables are numbered as they are created; -1 if there is no number.
    """
    variable = term[0]
    return max(
        (v for v in (variable.atoms() if isinstance(variable, Compound) else (variable,)) if isinstance(v, int)),
        default=-1,
    )


def solved(rows: Rows, sizes: frozenset[int]) -> Substitution:
    """Return a mapping from the variables that the equations among `rows` determine to forms of the remaining
    variables; `sizes` are not solved for.
    """
    mapping: dict[Variable, Affine] = {}
    while (found := pivot(rows, sizes)) is not None:
        row, new = found
        mapping = {v: form.substitute(new) for v, form in mapping.items()} | dict(new)
        rows = tuple(r.substitute(new) for r in rows if r is not row)
    return mapping


def pair_opposites(graph: Graph, terms: list[Node], facts: Rows) -> list[Node]:
    """Return `terms` with a guard ``[p == 0]`` next to a guard ``[p >= 1]`` written as ``[p <= 0]``, where ``p >= 0``
    is known. The two are then opposites, like an if and an else.
    """
    guards = {term.data for term in terms if term.op == "guard"}
    return [_as_opposite(graph, term, guards, facts) if term.op == "guard" else term for term in terms]


def _as_opposite(graph: Graph, term: Node, guards: set[Rows], facts: Rows) -> Node:
    """Return the guard ``[p == 0]`` as ``[p <= 0]``, if `guards` contains ``[p >= 1]`` and `facts` imply ``p >= 0``;
    else `term` unchanged.
    """
    for row in term.data if len(guards) > 1 else ():
        rest = tuple(other for other in term.data if other is not row)
        for form in (row.form, -row.form) if row.kind == "eq" else ():
            above = tuple(sorted((*rest, Constraint("ge", form - 1))))
            if above in guards and is_implied(Constraint("ge", form), (*facts, *rest)):
                return graph.guard((*rest, Constraint("ge", -form)), term.args[0])
    return term


MAX_GUARDED_TERMS = 32
"""Additions with more parts under guards are left as they are: each part is compared with all others."""


class GuardedTerm(NamedTuple):
    """A summand of a guarded term in an addition, such as ``a`` in the term ``[i == j]*(a + b)``.

    The fields are the constraints of the guard, the body of the summand, the position of the term, and the summand as
    written.

    `place` is the position of the term in the addition, `summand` the node in the body of the term.
    """

    rows: Rows
    body: Node
    place: int
    summand: Node


class GuardJoiner:
    """Merges two guarded terms of an addition with equal bodies into one whose guard is the union of both."""

    def __init__(self, graph: Graph, sizes: frozenset[int]) -> None:
        self.graph = graph
        self.sizes = sizes

    def joined(self, terms: Sequence[Node], facts: Rows) -> list[Node] | None:
        """Return the `terms` of an addition with two guarded terms merged into one, as ``[i < j]*f + [i >= j]*f`` into
        ``f``; None if no two can be merged. ``facts`` are known constraints.
        """
        # One term may occur here twice, and then counts twice: parts know the place of their term.
        parts = [part for place, term in enumerate(terms) if term.op == "guard" for part in self.parts(term, place)]
        for pair in combinations(parts if len(parts) <= MAX_GUARDED_TERMS else (), 2):
            body = self.common_body(*pair)
            rows = union(pair[0].rows, pair[1].rows, facts) if body is not None else None
            if body is None or rows is None:
                continue
            new = [self.graph.guard(rows, body)]
            both = (*pair[0].rows, *pair[1].rows)
            if not is_empty(both, facts):
                # Where they overlap the body counts twice.
                both = tighten_to_equations(both, facts, self.sizes)
                if len(tighten_to_equations(rows, facts, self.sizes)) + len(both) >= len(pair[0].rows) + len(
                    pair[1].rows
                ):
                    continue
                new.append(self.graph.guard(both, body))
            left = [self.without(term, [p for p in pair if p.place == place]) for place, term in enumerate(terms)]
            return [*left, *new]
        return None

    def parts(self, term: Node, place: int) -> list[GuardedTerm]:
        """Return the summands of the guarded sum `term`, such as ``[c]*(x + y)``, each with all of its constraints.
        `place` is the position of `term` in an addition.
        """
        number, core = self.graph.split_coefficient(term.args[0])
        parts = []
        for summand in core.args if core.op == "add" else (core,):
            rows, body = (summand.data, summand.args[0]) if summand.op == "guard" else ((), summand)
            parts.append(GuardedTerm((*term.data, *rows), self.graph.scale(number, body), place, summand))
        return parts

    def without(self, term: Node, parts: Sequence[GuardedTerm]) -> Node:
        """Return the guard `term` with the summands in `parts` removed from its body; unchanged if `parts` is empty."""
        if not parts:
            return term
        gone = {part.summand for part in parts}
        number, core = self.graph.split_coefficient(term.args[0])
        left = [summand for summand in (core.args if core.op == "add" else (core,)) if summand not in gone]
        return self.graph.guard(term.data, self.graph.scale(number, self.graph.add(left)))

    def common_body(self, one: GuardedTerm, two: GuardedTerm) -> Node | None:
        """Return one body for two guarded terms, so that they can be merged: it equals the body of each term where the
        guard of this term holds, such as ``i`` for ``i`` and for ``0 if i == 0``. None if there is no such body.
        """
        if one.body is two.body:
            return one.body
        for general, special in ((one, two), (two, one)):
            mapping = solved(special.rows, self.sizes)
            if not mapping or not has_positive_divisors(general.body, mapping):
                continue
            same = self.graph.substitute(general.body, mapping) is special.body
            # ``1 + p*log(x[p])`` is 1 at ``p == 0``, where ``x[0]`` need not be positive.
            if same and (general.body.total or _functions(general.body) == _functions(special.body)):
                return general.body
        return None


def _functions(body: Node) -> int:
    """Return the number of operations in `body` other than sums and products: reads, powers, function calls,
    conditions.
    """
    return sum(node.op not in ("const", "index", "add", "mul") for node in reachable(body))


def union(first: Rows, second: Rows, facts: Rows) -> Rows | None:
    """Return constraints that describe the union of the points of `first` and of `second` exactly; None if none are
    found.

    Examples
    --------
    >>> from sympy_tensordiff.integer.affine import Affine
    >>> p, q = Affine.variable("p"), Affine.variable("q")
    >>> union((Constraint("ge", p - q - 1),), (Constraint("eq", p - q),), ())
    (p - q >= 0,)
    >>> union((Constraint("ge", p - 2),), (Constraint("eq", p),), ()) is None
    True
    """
    one, two = _as_inequalities(first), _as_inequalities(second)
    if one is None or two is None:
        return None
    common = [row for row in one if is_implied(row, (*facts, *second))]
    common += [row for row in two if is_implied(row, (*facts, *first))]
    known = (*facts, *common)
    for row in one:
        for other in two:
            if row not in common and other not in common and not is_empty((row.negation(), other.negation()), known):
                return None
    return tuple(dict.fromkeys(common))


def _as_inequalities(rows: Rows) -> list[Constraint] | None:
    """Return `rows` with each equation as two inequalities; None if there are congruences."""
    if any(row.kind == "mod" for row in rows):
        return None
    return [
        Constraint("ge", form) for row in rows for form in ((row.form, -row.form) if row.kind == "eq" else (row.form,))
    ]
