"""The cost of a graph: operations and memory as polynomials in the sizes.

It counts the work of the kernels that are planned for the graph: einsums are multiplied in the order of least
work, together with the products that they absorb (`pairs`); a scalar under sums is computed once for
each value of the bound indices it depends on; element-wise functions of tensors run in the loops that need them, and
are stored where a contraction reads them.

Costs are compared by their growth first: the maximal monomials, where all sizes are large and independent. Laws,
checked by tests: the cost does not depend on names or on the order of operands, and that of a part is not greater than
that of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.graph.cofactor_tangents import cofactor_direction
from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.contractions import is_core, is_view, sums_labels
from sympy_tensordiff.graph.interning import RANGED, Node, Shape, reachable
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.pairs import in_pairs
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint, Quotient, Variable
from sympy_tensordiff.integer.polynomials import Growth, Polynomial, grows_faster, maximal
from sympy_tensordiff.integer.rows import bounds_with_divisors

ONE = Polynomial.of(1)

Interval: TypeAlias = tuple[Polynomial, Polynomial]
"""The least and the greatest value of an index, as polynomials in the sizes."""


class Cost(NamedTuple):
    """The cost of evaluating a graph: operations and memory, as polynomials in the sizes.

    `operations` counts multiplications, additions and evaluations of functions, `largest` the entries of the largest
    stored array, `memory` those of all stored arrays, results included. `stored` is the growth of the stored arrays:
    the maximal monomials of their numbers of entries.
    """

    operations: Polynomial
    largest: Polynomial
    memory: Polynomial
    stored: Growth


def cost(graph: Graph, roots: Sequence[Node], hints: Hints | None = None) -> Cost:
    """Return the cost of evaluating the tensors and scalars ``roots`` together, at the expected sizes ``hints``."""
    return CostModel(graph, hints or Hints()).of(roots)


class CostModel:
    """A model that estimates the cost of graphs and compares them; costs of shared results are cached.

    Without `shares`, no product reads another one that it contains: a form with few products does not seem to cost
    more than one whose products have parts in common.
    """

    def __init__(self, graph: Graph, hints: Hints, shares: bool = True) -> None:
        self.graph = graph
        self.hints = hints
        self.shares = shares
        self._volumes: dict[Shape, Polynomial] = {}

    def of(self, roots: Sequence[Node], known: Collection[Node] = ()) -> Cost:
        """Return the cost of evaluating ``roots`` together, given the values of the nodes ``known``."""
        return _CostCounter(self, roots, known).total()

    def is_no_worse(self, new: Cost, old: Cost, given: Growth, slack: float = 1) -> bool:
        """Return whether an expression of cost ``new`` may replace one of cost ``old``: its operations and memory grow
        no faster with the sizes, and it takes at most ``slack`` times as many operations. If it takes no more
        operations, its memory may also grow as fast as ``given``, that of the arguments.

        The numbers of operations are compared at the expected sizes.
        """
        if grows_faster(new.operations.growth, old.operations.growth):
            return False
        before, after = self.value(old.operations), self.value(new.operations)
        if not grows_faster(new.stored, old.stored):
            return after <= slack * before
        return after <= before and not grows_faster(new.stored, given | old.stored)

    def volume(self, extents: Shape) -> Polynomial:
        """Return the product of the extents as a polynomial in the sizes, cached."""
        if extents not in self._volumes:
            total = ONE
            for extent in extents:
                total *= Polynomial.of(extent)
            self._volumes[extents] = total
        return self._volumes[extents]

    def growth(self, arrays: Iterable[Node]) -> Growth:
        """Return how the numbers of entries of ``arrays`` grow with the sizes, as the largest monomials, such as
        ``m*n``.
        """
        return maximal(monomial for array in arrays for monomial in self.volume(array.shape).growth)

    def value(self, polynomial: Polynomial) -> float:
        """Return the value of `polynomial` for the expected sizes."""
        return float(polynomial.evaluate(lambda variable: self.hints(Affine.variable(variable))))


class _CostCounter:
    """Counts the operations that a graph takes, in one walk over its nodes. The operations of a node count once for
    each combination of values of the indices around it.
    """

    def __init__(self, model: CostModel, roots: Sequence[Node], known: Collection[Node]) -> None:
        self.model = model
        self.graph = model.graph
        self.roots = frozenset(in_pairs(self.graph, roots, model.hints, known, model.shares))
        self.known = known
        self.users: dict[Node, list[Node]] = {}
        for part in reachable(*self.roots, known=known):
            for arg in part.args:
                self.users.setdefault(arg, []).append(part)
        self.operations = Polynomial()
        self.arrays: list[Polynomial] = []

    def total(self) -> Cost:
        """Return the cost of evaluating all roots together."""
        stack: list[tuple[Node, dict[Variable, Interval]]] = [(root, {}) for root in self.roots]
        seen = set()
        while stack:
            node, ranges = stack.pop()
            if node in self.known:
                continue
            enclosing = {v: ranges[v] for v in node.free if v in ranges}
            key = node, tuple(sorted(enclosing.items(), key=lambda item: item[0])) if enclosing else ()
            if key in seen:
                continue
            seen.add(key)
            inner = {**enclosing, **self._ranges_of_bound(node, enclosing)}
            self._count_operations(node, enclosing, inner)
            stack += [(arg, inner) for arg in node.args]
        memory = sum(self.arrays, Polynomial())
        largest = max(self.arrays, key=self.model.value, default=ONE)
        return Cost(
            self.operations, largest, memory, maximal(monomial for array in self.arrays for monomial in array.growth)
        )

    # -------------------------------------------------------------- one node

    def _count_operations(
        self, node: Node, enclosing: dict[Variable, Interval], inner: dict[Variable, Interval]
    ) -> None:
        """Add to ``self.operations`` the number of operations that compute all entries of `node`, for all values of the
        indices around it. ``enclosing`` has the ranges of these indices; ``inner`` also has those that `node` binds.

        The sizes of the arrays that it needs are added to ``arrays``.
        """
        volume = self.model.volume(node.shape) * _points(enclosing)
        match node.op:
            case "add" | "mul":
                count = sum(arg.op != "const" for arg in node.args)
                self.operations += volume * max(1, count - 1)
            case "ein" if _is_cofactor_tangent(node):
                self.operations += self.model.volume((*node.shape, node.shape[-1])) * 6
            case "ein" if is_core(node):
                loops = self.model.volume(node.data.extents)
                self.operations += loops * (len(node.args) - 1 + sums_labels(node))
            case "pow" | "call" | "compare" | "select":
                self.operations += volume
            case "sum" | "prod" | "max" | "min":
                self.operations += _points(inner)
                if enclosing:
                    self.arrays.append(volume)
            case "lse":
                self.operations += self.model.volume(node.args[0].shape) * 3
            case "inv":
                self.operations += self.model.volume((*node.shape, node.shape[-1])) * 2
            case "cof" if not self._is_tangent_only(node):
                matrix = node.args[0].shape
                self.operations += self.model.volume((*matrix, matrix[-1])) * 2
        if self._is_stored(node):
            self.arrays.append(volume)

    def _is_tangent_only(self, cofactors: Node) -> bool:
        """Return whether second-order cofactors are used only in products with a matrix, which can be computed without
        storing the cofactors.
        """
        users = self.users.get(cofactors, ())
        return cofactors.data > 1 and bool(users) and all(map(_is_cofactor_tangent, users))

    def _is_stored(self, node: Node) -> bool:
        """Return whether evaluation stores the tensor `node` in an array of its own."""
        if not node.shape or node.op == "tensor":
            return False
        if node in self.roots or node.op in ("inv", "lse") or sums_labels(node):
            return True
        if is_view(node) or (node.op == "cof" and node.data > 1):
            return False
        users = self.users.get(node, ())
        return any(
            user.op in ("inv", "cof", "lse", "read") or (sums_labels(user) and len(user.args) > 1) for user in users
        )

    # -------------------------------------------------------------- index notation

    def _ranges_of_bound(self, node: Node, enclosing: dict[Variable, Interval]) -> dict[Variable, Interval]:
        """Return the ranges of the indices that `node` binds, given the ranges of the ``enclosing`` ones; {} if it
        binds none.
        """
        if node.op == "comprehension":
            extents = zip(self.graph.bound(node), node.data, strict=True)
            return {v: (Polynomial(), Polynomial.of(extent) - 1) for v, extent in extents}
        if node.op not in RANGED:
            return {}
        known = dict(enclosing)
        remaining = list(self.graph.bound(node))
        while remaining:
            variable = next((v for v in remaining if self._range_of(v, node.data, known, remaining)), remaining[0])
            known[variable] = self._range_of(variable, node.data, known, remaining) or (ONE, ONE)
            remaining.remove(variable)
        return {v: known[v] for v in self.graph.bound(node)}

    def _range_of(
        self,
        variable: Variable,
        rows: Sequence[Constraint],
        known: dict[Variable, Interval],
        remaining: Sequence[Variable],
    ) -> Interval | None:
        """Return the range ``(least, greatest)`` of the index `variable`, as polynomials in the sizes, by the
        constraints ``rows`` and the ranges ``known`` of other indices; ``(1, 1)``, which stands for a single value, if
        an equation fixes it; None if it is unbounded.

        Constraints with indices in ``remaining``, whose ranges are not known yet, are not used.
        """
        unknown = frozenset(remaining) - {variable}
        usable = [row for row in rows if row.form.coefficient(variable) and row.form.atoms().isdisjoint(unknown)]
        if any(row.kind == "eq" for row in usable):
            return ONE, ONE
        lows, highs = bounds_with_divisors(variable, [row.form for row in usable if row.kind == "ge"])
        if not lows or not highs:
            return None
        least = [_extreme_value(form, known, upper=False) * Fraction(1, divisor) for form, divisor in lows]
        greatest = [_extreme_value(form, known, upper=True) * Fraction(1, divisor) for form, divisor in highs]
        return max(least, key=self.model.value), min(greatest, key=self.model.value)


def _is_cofactor_tangent(node: Node) -> bool:
    """Return whether `node` is a contraction of second-order cofactors with a single matrix, without other operands."""
    if node.op != "ein":
        return False
    operands = list(zip(node.args, node.data.inputs, strict=True))
    found = cofactor_direction(operands, node.data.output)
    return found is not None and len(found.factors) == 1 and not found.others


def _points(ranges: dict[Variable, Interval]) -> Polynomial:
    """Return the number of integer points of a box, the product of the lengths of `ranges`."""
    total = ONE
    for low, high in ranges.values():
        total *= high - low + 1
    return total


def _extreme_value(form: Affine, known: dict[Variable, Interval], *, upper: bool) -> Polynomial:
    """Return the greatest value of `form` (the least if `upper` is false) when its variables lie in the ranges
    ``known``.
    """
    total = Polynomial.of(form.constant)
    for variable, coefficient in form.terms:
        if variable in known:
            total += known[variable][(coefficient > 0) == upper] * coefficient
        elif isinstance(variable, Quotient):
            total += _extreme_value(variable.form, known, upper=(coefficient > 0) == upper) * Fraction(
                coefficient, variable.divisor
            )
        elif not isinstance(variable, Compound) or variable.atoms().isdisjoint(known):
            total += Polynomial.of(Affine({variable: coefficient}))
    return total
