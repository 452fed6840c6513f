"""Common subexpressions, found up to the names of bound indices, and the choice of those that get names.

A part may depend on indices that are bound around it: ``exp(-D[i, j])`` under two sums is one part with two axes,
whatever its indices are called in either place. So parts are compared after their bound variables are renamed in the
order in which they occur; only nodes with equal parts are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter
from typing import NamedTuple

import sympy

from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.fourier_motzkin import project
from sympy_tensordiff.integer.implication import remove_redundant, without_implied
from sympy_tensordiff.integer.rows import atoms_in
from sympy_tensordiff.simplify.accesses import Accesses
from sympy_tensordiff.simplify.facts import size_variables
from sympy_tensordiff.simplify.node_properties import is_finite_for_finite_arguments

MAX_CONDITION_COMBINATIONS = 8
"""A node below more combinations of conditions has no name: each choice in a chain of choices doubles them."""

MIN_OPERATIONS = 2
"""A part of fewer operations is shorter than a name and its definition."""

_LEAVES = frozenset({"const", "scalar", "index", "tensor"})
_NAMELESS = _LEAVES | {"compare", "and", "or", "not", "read", "guard"}
_TRANSPARENT = frozenset({"read", "mul", "ein"})

Rows = frozenset[Constraint]


class Key(NamedTuple):
    """A key to compare subexpressions: the subexpression with its bound variables renamed to standard names, and the
    extents of these variables. Subexpressions with equal keys differ in names only.
    """

    node: Node
    extents: tuple[Affine, ...]


class Axis(NamedTuple):
    """A bound variable of a subexpression as a tensor axis: ``variable - first`` runs over ``0, ..., extent - 1``."""

    variable: int
    first: int
    extent: Affine


class NamedPart(NamedTuple):
    """A common subexpression that gets a name: its first occurrence, and its bound variables as tensor axes.

    The name is that of `node` with its axes in the order `turned`, if that is not empty. Entries where one of the
    `conditions` is false are 0.
    """

    key: Key
    node: Node
    axes: tuple[Axis, ...]
    order: tuple[int, ...]
    turned: tuple[int, ...]
    conditions: tuple[Node, ...] = ()

    @property
    def shape(self) -> tuple[Affine, ...]:
        """The shape of the tensor that stores the subexpression: the extents of its free indices, then the shape of its
        node.
        """
        own = [self.node.shape[axis] for axis in self.turned] or self.node.shape
        return (*(self.axes[n].extent for n in self.order), *own)

    def in_order(self, graph: Graph, node: Node) -> Node:
        """Transpose the tensor `node`, an occurrence of this subexpression, so that its axes are in the order of the
        named tensor that stores the subexpression.
        """
        return graph.ein(1, [(node, range(len(node.shape)))], self.turned) if self.turned else node


class Parts:
    """The common subexpressions of several nodes that are worth a name. Each is stored in a named tensor, and replaced
    by reads of it; subexpressions that differ only in the names of bound variables count as equal.

    The variables in `free`, sizes and free indices, are never bound; `facts` are the constraints on them. Nodes in
    `wanted` get a name wherever they occur, whatever their size. Constraints in `ranges` bound indices
    that are not in `free`: parts at several of them are one tensor. With `quotients`, a quotient of two factors that
    several products have is a part, as ``exp(x[i])/s`` in ``a*exp(x[i])/s`` and ``b*exp(x[j])/s``.
    """

    def __init__(
        self,
        graph: Graph,
        roots: Sequence[Node],
        free: Iterable[int],
        facts: Iterable[Constraint] = (),
        wanted: Iterable[Node] = (),
        ranges: Iterable[Constraint] = (),
        *,
        quotients: bool = False,
    ) -> None:
        self.graph = graph
        self._ranges = frozenset(ranges)
        self._free = frozenset(free)
        self._facts = tuple(facts)
        self._own: list[int] = []
        self._opened: dict[Node, tuple[tuple[int, ...], tuple[Constraint, ...], Node]] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._keys: dict[Node, tuple[Key, tuple[Axis, ...]] | None] = {}
        self._grouped: dict[Node, tuple[Node, ...]] = {}
        self._walk(roots)
        if grouped := self._powers_of_roots() | (self._products_of_quotients() if quotients else {}):
            self._grouped = grouped
            self._walk(roots)
        # Parts without free indices, which entries x[p] may be instances of.
        for node in self._nodes:
            if self._indices.isdisjoint(node.free) and (key := self._key(node)):
                self._general.setdefault(key, node)
        self.parts = self._parts_to_name(roots, {key for node in wanted if (key := self._key(node))})
        self._by_key = {part.key: part for part in self.parts}
        self._leaves: dict[Key, Node] = {}
        self._done: dict[Node, Node] = {}

    def find(self, node: Node) -> NamedPart | None:
        """Return the named common subexpression that equals `node`, a node below the roots; None if there is none."""
        found = self._key(node)
        return self._by_key.get(found) if found else None

    # -------------------------------------------------------------- the walk

    def _walk(self, roots: Sequence[Node]) -> None:
        """Store the nodes below `roots` and the conditions under which they are evaluated."""
        self._general: dict[Key, Node] = {}
        self._keys.clear()
        self._nodes = self._in_order(roots)
        self._indices = self._free - size_variables(self._nodes)
        self._crowded: set[Node] = set()
        self._around = self._constraints_by_path(roots)
        self._conditions = self._conditions_of_choices(roots)
        self._numbers = self._always_finite()

    def _args(self, node: Node) -> tuple[Node, ...]:
        """Return the arguments of `node` in which to search for common subexpressions: for a sum or other binder only
        its body, always with the same new names for the bound variables.

        A quotient that occurs in several products is one argument of each.
        """
        if node.op not in BINDERS:
            return self._grouped.get(node, node.args)
        if node not in self._opened:
            self._opened[node] = variables, _, _ = self.graph.open(node)
            # A reader meets the limits of a sum innermost first.
            turned = variables if node.op == "comprehension" else variables[::-1]
            self._places |= {v: (len(self._opened), n) for n, v in enumerate(turned)}
        return (self._opened[node][2],)

    def _in_order(self, roots: Sequence[Node]) -> list[Node]:
        """Return all nodes below `roots`, each after its arguments."""
        order: dict[Node, None] = {}
        stack = list(reversed(roots))
        while stack:
            node = stack[-1]
            todo = [arg for arg in self._args(node) if arg not in order] if node not in order else []
            if todo:
                stack += reversed(todo)
            else:
                order[stack.pop()] = None
        return [*order]

    def _constraints_by_path(self, roots: Sequence[Node]) -> dict[Node, set[Rows]]:
        """Return for each node the sets of constraints on its bound variables, one set for each path that leads to the
        node from one of `roots`.

        A node with more than ``MAX_CONDITION_COMBINATIONS`` of them is recorded as crowded, and gets none.
        """
        around: dict[Node, set[Rows]] = {node: set() for node in self._nodes}
        for root in roots:
            around[root].add(self._constraints_on(self._ranges, root))
        for node in reversed(self._nodes):
            own = self._opened[node][1] if node.op in BINDERS else node.data if node.op == "guard" else ()
            for arg in self._args(node):
                around[arg] |= {self._constraints_on(rows.union(own), arg) for rows in around[node]}
                if node in self._crowded or len(around[arg]) > MAX_CONDITION_COMBINATIONS:
                    self._crowded.add(arg)
                    around[arg] = set()
        return around

    def _conditions_of_choices(self, roots: Sequence[Node]) -> dict[Node, frozenset[Node]]:
        """Return a dictionary from nodes below `roots` to the conditions of the selects around them: a node is
        evaluated only where these are true. Conditions on bound variables that do not occur in the node are left out.

        A node has no entry if its uses are under different conditions, none of which implies the others, or under more
        than ``MAX_CONDITION_COMBINATIONS``.
        """
        paths: dict[Node, set[frozenset[Node]]] = {node: set() for node in self._nodes}
        for root in roots:
            paths[root].add(frozenset())
        crowded: set[Node] = set()
        for node in reversed(self._nodes):
            if node in crowded or len(paths[node]) > MAX_CONDITION_COMBINATIONS:
                crowded.update((node, *self._args(node)))
                continue
            new = [frozenset[Node]()] * len(self._args(node))
            if node.op == "select":
                condition = node.args[0]
                both = condition.args if condition.op == "and" else (condition,)
                new[1:] = frozenset(both), frozenset([self.graph.logic("not", [condition])])
            for arg, conditions in zip(self._args(node), new, strict=True):
                paths[arg] |= {around | conditions for around in paths[node]}
        found: dict[Node, frozenset[Node]] = {}
        for node, ways in paths.items():
            if node in crowded:
                continue
            own = node.free | self._free
            known = {frozenset(condition for condition in alternative if condition.free <= own) for alternative in ways}
            if (common := frozenset.intersection(*known)) in known:
                found[node] = common
        return found

    def _always_finite(self) -> set[Node]:
        """Return the nodes that may be computed even where a condition is false: those whose value is finite for all
        finite entries, and those without indices that are computed in any case.
        """
        found: set[Node] = set()
        for node in self._nodes:
            is_exponential = node.op == "call" and node.data is sympy.exp
            is_finite = is_exponential or is_finite_for_finite_arguments(self.graph, node)
            is_computed = node.free <= self._free - self._indices and not self._conditions.get(node, {node})
            if node.total or is_computed or (is_finite and found.issuperset(self._args(node))):
                found.add(node)
        return found

    def _constraints_on(self, rows: Rows, node: Node) -> Rows:
        """Return the constraints in `rows` that restrict the bound variables of `node`, directly or through variables
        of other such constraints.
        """
        variables, found = node.free - self._free, set[Constraint]()
        while more := {row for row in rows - found if row.form.atoms() & variables}:
            found |= more
            variables = variables | atoms_in(more) - self._free
        return frozenset(found)

    def _powers_of_roots(self) -> dict[Node, tuple[Node, ...]]:
        """Return a dictionary for computing powers of ``s`` from the root ``r = s**(1/2)``: it maps a power such as
        ``s**(-3/2)`` to the pair ``(r, -3)`` of base and exponent, and a test of ``s == 0`` to ``(r, 0)``.

        Only values ``s`` that several such powers and tests, and nothing else, use are included.
        """
        users: dict[Node, list[Node]] = {}
        for node in self._nodes:
            for arg in self._args(node):
                users.setdefault(arg, []).append(node)
        found: dict[Node, tuple[Node, ...]] = {}
        for base, own in users.items():
            powers = [
                node for node in own if node.op == "pow" and node.args[0] is base and not _is_root_of_squares(node)
            ]
            twice = [_doubled_exponent(power) for power in powers]
            tests = [node for node in own if node.op == "compare" and node.args[1] is self.graph.zero]
            if len(powers) + len(tests) < len(own) or len(powers) < 2 or not all(n % 2 for n in twice):
                continue
            root = self.graph.pow(base, self.graph.const(Fraction(1, 2)))
            args = {node: (root, self.graph.const(n)) for node, n in zip(powers, twice, strict=True) if n != 1}
            found |= args | {test: (root, self.graph.zero) for test in tests if test.data in ("ne", "eq")}
        return found

    def _products_of_quotients(self) -> dict[Node, tuple[Node, ...]]:
        """Return a dictionary from products to their factors, in which a quotient that several products share is one
        factor: from ``a*exp(x[i])/s`` to ``(a, exp(x[i])/s)``.
        """
        products: dict[Node, dict[Key, tuple[Node, ...]]] = {}
        for product in self._nodes:
            for over, under in _quotients_in(product, self._free) if product in self._around else ():
                quotient = self.graph.mul((over, under))
                if quotient is not product:
                    self._around[quotient] = self._around[product]
                    self._numbers |= {quotient} if product in self._numbers else set()
                    if product in self._conditions:
                        self._conditions[quotient] = self._conditions[product]
                if (key := self._key(quotient)) is not None:
                    rest = (factor for factor in product.args if factor not in (over, under))
                    products.setdefault(product, {}).setdefault(key, (*rest, quotient))
        counts = Counter(key for found in products.values() for key in found)
        best = {product: max(found, key=counts.__getitem__) for product, found in products.items()}
        return {
            product: products[product][key]
            for product, key in best.items()
            if counts[key] > 1 and len(products[product][key]) > 1
        }

    # -------------------------------------------------------------- equal parts

    def _key(self, node: Node) -> Key | None:
        """Return the key of `node`, which is the same for equal subexpressions; None if `node` must not get a name, as
        a number or a variable.
        """
        found = self._keys.get(node)
        if node not in self._keys:
            nameable = node in self._around and node.op not in _NAMELESS
            # A table that the function has may be undefined at entries that no condition lets read.
            is_stored = node.op == "comprehension" or node in self._numbers
            nameable = nameable and (is_stored or self._conditions_on_entries(node) is not None)
            found = self._key_over(node, node.free - self._free) if nameable else None
            if nameable and not node.shape and not node.free.isdisjoint(self._indices):
                general = self._key_over(node, node.free - self._free | node.free & self._indices)
                found = general if general and general[0] in self._general else found
            self._keys[node] = found
        return found[0] if found else None

    def _conditions_on_entries(self, node: Node) -> tuple[Node, ...] | None:
        """Return the conditions under which an entry of a tensor that stores the values of `node` is computed, () if
        all are; other entries are 0. None if `node` cannot be stored in a tensor.

        There is none if entries may be undefined and the uses have no common conditions, or if `node` is a tensor under
        conditions.
        """
        if node.op == "comprehension" or node in self._numbers:
            return ()
        found = self._conditions.get(node)
        return None if found is None or (found and node.shape) else tuple(sorted(found, key=attrgetter("id")))

    def _under(self, conditions: Sequence[Node], node: Node) -> Node:
        """Return `node` where all `conditions` are true, else 0."""
        return self.graph.select(self.graph.logic("and", conditions), node, self.graph.zero) if conditions else node

    def _key_over(self, node: Node, bound: frozenset[int]) -> tuple[Key, tuple[Axis, ...]] | None:
        """Return ``(key, axes)`` for a table of the values of `node`, with an axis for each of its variables in
        `bound`. Nodes that differ only in the names of these variables have equal keys.

        None if a range cannot be that of an axis, such as one that depends on another variable, or if the table would
        contain tensors.
        """
        guarded = self._under(self._conditions_on_entries(node) or (), node)
        if not bound:
            return Key(guarded, ()), ()
        if node.shape:
            return None
        found = (
            {self._axes(node, rows, bound) for rows in self._around[node]} if bound.isdisjoint(self._free) else {None}
        )
        axes = found.pop() if len(found) == 1 else None
        axes = axes or self._axes_of_reads(node, bound) or self._axes_of_box(node, bound)
        if axes is None:
            return None
        while len(self._own) < len(axes):
            self._own.append(self.graph.fresh("i"))
        forms = {axis.variable: Affine.variable(own) + axis.first for axis, own in zip(axes, self._own, strict=False)}
        return Key(self.graph.substitute(guarded, forms), tuple(axis.extent for axis in axes)), axes

    def _axes(self, node: Node, rows: Rows, bound: frozenset[int]) -> tuple[Axis, ...] | None:
        """Return the variables in `bound` as tensor axes, in order of occurrence, if `rows` are the constraints on
        them. None unless each runs from a number to a bound without other indices, as ``i`` from 0 to ``n - 1``.
        """
        rows = self._without_equal_data(rows, bound)
        others = atoms_in(rows) - bound - self._free
        if any(row.kind != "ge" or row.form.compounds() for row in rows):
            return None
        left = project(rows, others)
        left = None if left is None else remove_redundant(sorted(left), self._facts)
        axes = []
        for v in self._occurring(node, bound):
            own = [row.form for row in left or () if v in row.form.atoms()]
            lower = [form - Affine.variable(v) for form in own if form.coefficient(v) == 1]
            upper = [form + Affine.variable(v) for form in own if form.coefficient(v) == -1]
            if len(lower) != 1 or len(upper) != 1 or len(own) != 2 or lower[0].terms:
                return None
            first = -lower[0].constant
            axes.append(Axis(v, first, upper[0] + 1 - first))
        return tuple(axes) if all(axis.extent.atoms() <= self._free for axis in axes) else None

    def _without_equal_data(self, rows: Rows, bound: frozenset[int]) -> Rows:
        """Return the constraints `rows` with variables replaced by entries of integer tensors that equal them, as in
        ``p == a[t]``; constraints that the others imply are left out. Variables in ``bound`` are not replaced.
        """
        for row in sorted(row for row in rows if row.kind == "eq" and row.form.compounds()):
            for v, c in row.form.terms:
                if v in bound or v in self._free or c not in (1, -1) or v not in row.form.atoms():
                    continue
                value = Affine.variable(v) - c * row.form
                left = frozenset(other.substitute({v: value}) for other in rows if other is not row)
                return self._without_equal_data(frozenset(without_implied(sorted(left), self._facts)), bound)
        return rows

    def _axes_of_reads(self, node: Node, bound: frozenset[int]) -> tuple[Axis, ...] | None:
        """Return the bound variables as tensor axes if each one indexes axes of one length only, as in ``x[i]*y[i]``;
        else None.

        That is for parts below several conditions, such as ``j < i`` and ``j > i``, which are numbers everywhere.
        """
        if node not in self._numbers:
            return None
        extents: dict[int, set[Affine]] = {}
        for part in reachable(node):
            own = (*part.data, *part.args[0].shape) if part.op == "read" else ()
            for form, extent in zip(own[: len(own) // 2], own[len(own) // 2 :], strict=True):
                for v in form.atoms() & bound:
                    extents.setdefault(v, set()).add(extent if form == Affine.variable(v) else form)
            rows = part.data if part.op in RANGED or part.op == "guard" else ()
            forms = [part.data] if part.op == "index" else [row.form for row in rows]
            if any(form.atoms() & bound for form in forms):
                return None
        only = {v: next(iter(own)) for v, own in extents.items() if len(own) == 1}
        if only.keys() != bound or any(not extent.atoms() <= self._free for extent in only.values()):
            return None
        return tuple(Axis(v, 0, only[v]) for v in self._occurring(node, bound))

    def _axes_of_box(self, node: Node, bound: frozenset[int]) -> tuple[Axis, ...] | None:
        """Return the variables in `bound` as tensor axes, with ranges that contain all their values: ``0 <= j < n`` for
        ``j < i`` and ``j > i``. None if there are no such ranges.

        None, too, if somewhere in them `node` may be undefined or read out of bounds.

        That is for parts that are numbers everywhere and read inside their tensors there.
        """
        if node not in self._numbers or not self._around[node]:
            return None
        if any(part.op in ("guard", "select") for part in reachable(node)):  # reads below many conditions
            return None
        boxes = [self._box(rows, bound) for rows in self._around[node]]
        ends: dict[int, tuple[int, Affine]] = {}
        for v in bound:
            ranges = [box[v] for box in boxes if v in box]
            last = ranges[0][1] if len(ranges) == len(boxes) else None
            steps = [] if last is None else [end - last for _, end in ranges]
            if last is None or any(step.terms for step in steps):
                return None
            ends[v] = min(first for first, _ in ranges), last + max(step.constant for step in steps)
        axes = tuple(Axis(v, ends[v][0], ends[v][1] + 1 - ends[v][0]) for v in self._occurring(node, bound))
        shifted = {axis.variable: Affine.variable(axis.variable) + axis.first for axis in axes}
        table = self.graph.comprehension(
            [axis.variable for axis in axes], [axis.extent for axis in axes], self.graph.substitute(node, shifted)
        )
        return axes if next(Accesses(self.graph, self._facts).unproven([table]), None) is None else None

    def _box(self, rows: Rows, bound: frozenset[int]) -> dict[int, tuple[int, Affine]]:
        """Return a dictionary from variables in `bound` to ``(first, last)``, the range that `rows` allow if the other
        variables in `bound` are free: ``first`` is a number, ``last`` a form of sizes. Variables without such a range
        are left out.
        """
        found = {}
        plain = [row for row in rows if row.kind == "ge" and not row.form.compounds()]
        for v in bound:
            left = project(plain, atoms_in(plain) - {v} - self._free)
            own = [row.form for row in remove_redundant(sorted(left or ()), self._facts) if v in row.form.atoms()]
            lower = [form - Affine.variable(v) for form in own if form.coefficient(v) == 1]
            upper = [form + Affine.variable(v) for form in own if form.coefficient(v) == -1]
            is_range = len(lower) == len(upper) == 1 and len(own) == 2
            if is_range and not lower[0].terms and upper[0].atoms() <= self._free:
                found[v] = -lower[0].constant, upper[0]
        return found

    def _occurring(self, node: Node, bound: frozenset[int]) -> list[int]:
        """Return the variables in `bound` in the order of their first occurrence in `node`."""
        found: dict[int, None] = {}
        stack, done = [node], set()
        while stack and len(found) < len(bound):
            top = stack.pop()
            if top in done or not top.free & bound:
                continue
            done.add(top)
            forms = top.data if top.op in ("read", "comprehension") else (top.data,) if top.op == "index" else ()
            rows = top.data if top.op in RANGED or top.op == "guard" else ()
            for form in (*forms, *(row.form for row in rows)):
                found.update(dict.fromkeys(v for v, _ in form.terms if v in bound))
                found.update(dict.fromkeys(sorted((form.atoms() & bound) - found.keys())))
            stack += reversed(top.args)
        return [*found, *sorted(bound - found.keys())]

    def _used(self, node: Node) -> list[Node]:
        """Return the arguments of `node` in which subexpressions count as used. Arguments that are printed as part of a
        function do not count: those of a norm, and the first ``z`` in a log-softmax ``z - logsumexp(z)``.
        """
        args = self._args(node)
        if _is_root_of_squares(node):  # a norm
            return []
        if node.op == "select" and self.graph.is_zero(node.args[2]) and _divides_by_norm(self.graph, node):
            return [node.args[1]]
        maxima = [_core(arg).args[0] for arg in args if _core(arg).op == "lse"] if node.op == "add" else []
        return [arg for arg in args if arg not in maxima]

    def _operations(self, node: Node) -> int:
        """Return the approximate number of operators and function names that `node` adds to the text of its arguments:
        2 for ``a + b + c``, 1 for ``exp(u)``.
        """
        if node.op in ("add", "mul", "ein"):
            # A number among factors is a sign or a coefficient, one among terms is a term.
            parts = [arg for arg in self._args(node) if node.op == "add" or arg.op != "const"]
            return max(0, len(parts) - 1) + (node.op == "ein" and not node.view)
        return 0 if node.op in _LEAVES | {"read"} else 1

    def _same(self, node: Node) -> Key | Node:
        """Return a value by which subexpressions are compared, equal for equal ones: the key of `node`, or `node`
        itself if it has no key.
        """
        return self._key(node) or node

    def _parts_to_name(self, roots: Sequence[Node], forced: set[Key]) -> list[NamedPart]:
        """Return the subexpressions of ``roots`` to be named: those in `forced` (the user's wishes), and those used
        often enough to pay. Inner ones come first.
        """
        first: dict[Key | Node, Node] = {}
        for node in self._nodes:
            first.setdefault(self._same(node), node)
        self.operations = sum(map(self._operations, first.values()))  # with equal parts computed once
        # A node that transposes, scales or reads a part uses it, wherever that node is itself.
        halves = _other_halves(first.values())
        users = [node for node in first.values() if _core(node) is node and node not in halves]
        uses = Counter(self._same(_core(arg)) for arg in (*roots, *(a for node in users for a in self._used(node))))
        orders: dict[Node, Counter[tuple[int, ...]]] = {}  # of axes, in which operations entry by entry need them
        for arg in (*roots, *(arg for node in users if node.op != "ein" for arg in self._used(node))):
            core = _core(arg)
            is_view = core is not arg and arg.view and arg.args[0] is core
            if is_view and sorted(arg.data.inputs[0]) == sorted(arg.data.output) == [*range(len(core.shape))]:
                orders.setdefault(core, Counter())[tuple(map(arg.data.inputs[0].index, arg.data.output))] += 1
            elif len(core.shape) >= 2:
                orders.setdefault(core, Counter())[()] += 1
        parts: list[NamedPart] = []
        weights: dict[Key | Node, int] = {}
        for same, node in first.items():
            below = {self._same(arg) for arg in self._args(node)}
            weights[same] = self._operations(node) + sum(weights[part] for part in below)
            conditions = self._conditions_on_entries(node) or ()
            saved = (uses[same] - 1) * weights[same] - (len(conditions) + 1 if conditions else 0)
            worth = saved > 0 and weights[same] >= MIN_OPERATIONS and _core(node) is node
            if isinstance(same, Key) and (worth or same in forced):
                node = self._general.get(same, node)
                axes = (self._keys[node] or (same, ()))[1]
                order = sorted(range(len(axes)), key=lambda n: self._places.get(axes[n].variable, (0, n)))
                found = orders.get(node, Counter[tuple[int, ...]]())
                turned = max(found, key=lambda own: (found[own], not own), default=())
                conditions = self._conditions_on_entries(node) or ()
                parts.append(NamedPart(same, node, axes, tuple(order), turned, conditions))
                weights[same] = 0
        return parts

    # -------------------------------------------------------------- the parts replaced

    def replaced(self, roots: Sequence[Node], leaves: Mapping[Key, Node]) -> tuple[list[Node], list[Node]]:
        """Return ``(definitions, roots)``: the definitions of the named subexpressions, and the roots with named
        tensors in their place. `leaves` maps the key of each subexpression to its tensor.
        """
        self._leaves = dict(leaves)
        for node in self._nodes:
            self._done[node] = self._read(node) or self._rebuilt_with_names(node)
        return [self._definition(part) for part in self.parts], [self._done[root] for root in roots]

    def _definition(self, part: NamedPart) -> Node:
        """Return the definition of `part` as a comprehension over its axes."""
        node = self._under([self._condition(c) for c in part.conditions], self._rebuilt_with_names(part.node))
        if not part.axes:
            return part.in_order(self.graph, node)
        axes = [part.axes[n] for n in part.order]
        # An index that is free in the expressions has another name in the definition.
        outside = {axis.variable for axis in axes} & atoms_in(self._ranges)
        variables = [self.graph.fresh("ijkl"[n % 4]) if v in outside else v for n, (v, _, _) in enumerate(axes)]
        moved = self.graph.substitute(
            node, {axis.variable: Affine.variable(v) + axis.first for v, axis in zip(variables, axes, strict=True)}
        )
        return self.graph.comprehension(variables, [axis.extent for axis in axes], moved)

    def _condition(self, node: Node) -> Node:
        """Return `node`, the condition of a choice or the negation of one, with common subexpressions replaced by reads
        of the tensors that have been made for them.
        """
        if node.op == "not" and node not in self._done:
            return self.graph.logic("not", [self._done[node.args[0]]])
        return self._done[node]

    def _read(self, node: Node) -> Node | None:
        """Return the read of the named tensor that replaces `node`; None if `node` has no name."""
        key = self._key(node)
        found, leaf = self._keys.get(node), self._leaves.get(key) if key else None
        if leaf is None or found is None:
            return leaf
        part = self._by_key[found[0]]
        if node.shape:
            return self.graph.ein(1, [(leaf, part.turned)], range(len(leaf.shape))) if part.turned else leaf
        axes = [found[1][n] for n in part.order]
        return self.graph.read(leaf, [Affine.variable(axis.variable) - axis.first for axis in axes])

    def _rebuilt_with_names(self, node: Node) -> Node:
        """Return `node` with its arguments rebuilt: in them, named subexpressions are replaced by reads of the tensors
        with these names.
        """
        args = [self._done[arg] for arg in self._args(node)]
        if node.op not in BINDERS:
            return self.graph.with_args(node, args)
        variables, rows, _ = self._opened[node]
        if node.op == "comprehension":
            return self.graph.comprehension(variables, node.data, args[0])
        return self.graph.reduce(node.op, variables, rows, args[0])


def _doubled_exponent(power: Node) -> int:
    """Return twice the exponent of `power`; 0 if that is not an integer."""
    exponent = power.args[1]
    twice = 2 * exponent.data if exponent.op == "const" and isinstance(exponent.data, (int, Fraction)) else 0
    return int(twice) if twice == int(twice) else 0


def _other_halves(nodes: Iterable[Node]) -> set[Node]:
    """Return the guards in additions among ``nodes`` that repeat the body of an earlier guard of the same addition,
    such as the second one in ``[i < j]*f + [i > j]*f``. The two are printed as one, so that ``f`` counts as used once.
    """
    found: set[Node] = set()
    for node in nodes:
        guards = [term for term in node.args if term.op == "guard"] if node.op == "add" else []
        first = {term.args[0]: term for term in reversed(guards)}
        found.update(term for term in guards if first[term.args[0]] is not term)
    return found


def _core(node: Node) -> Node:
    """Return the tensor ``A`` if `node` only transposes, scales or reads entries of it, as ``-2*A.T``; `node` itself
    otherwise.
    """
    while node.op in _TRANSPARENT and not (node.op == "ein" and not node.view):
        args = [arg for arg in node.args if arg.op != "const"]
        if len(args) != 1:
            break
        node = args[0]
    return node


def _is_root_of_squares(node: Node) -> bool:
    """Return whether `node` is an odd power of a vector norm, as ``(x @ x)**(1/2)`` or ``(x @ x)**(-1/2)``."""
    return node.op == "pow" and _doubled_exponent(node) % 2 == 1 and not node.shape and _is_sum_of_squares(node.args[0])


def _is_sum_of_squares(node: Node) -> bool:
    """Return whether `node` is a sum of squares of entries, such as ``x @ x`` or ``sum(X**2, axis=1)``."""
    if node.op != "ein" or node.view:
        return False
    if len(node.args) == 1:
        return node.args[0].op == "pow" and _doubled_exponent(node.args[0]) == 4
    return len(node.args) == 2 and len(set(node.args)) == 1 == len(set(node.data.inputs))


def _divides_by_norm(graph: Graph, choice: Node) -> bool:
    """Return whether the select `choice` has the condition ``norm(x) != 0`` and a value that divides by this norm, as
    in ``x/norm(x)``, which is 0 at 0 by convention. ``norm(x)`` may also be the norms of all rows of a matrix.
    """
    condition, value, _ = choice.args
    if condition.op != "compare" or condition.data != "ne" or not graph.is_zero(condition.args[1]):
        return False
    size = condition.args[0]
    terms = value.args if value.op == "add" else (value,)
    factors = [factor for term in terms for factor in (term.args if term.op in ("mul", "ein") else (term,))]
    powers = [factor for factor in factors if factor.op == "pow" and factor.args[0] is size]
    return _is_sum_of_squares(size) and any(_doubled_exponent(power) % 2 for power in powers)


def _quotients_in(product: Node, free: frozenset[int]) -> list[tuple[Node, Node]]:
    """Return pairs ``(x, 1/y)`` of factors of `product` whose quotient other products may share; [] if it has none.

    The factor ``1/y`` is a power of a computed value; ``x`` has all its indices except those in `free`.
    """
    factors = [factor for factor in product.args if factor.op != "const"] if product.op == "mul" else []
    divisors = [factor for factor in factors if factor.op == "pow" and _is_computed_divisor(factor)]
    return [(x, y) for y in divisors for x in factors if x is not y and x.op != "scalar" and y.free - free <= x.free]


def _is_computed_divisor(power: Node) -> bool:
    """Return whether `power` has a negative number as exponent, and a base that is neither a symbol nor an entry."""
    base, exponent = power.args
    return exponent.op == "const" and exponent.data < 0 and base.op not in _LEAVES | {"read"}
