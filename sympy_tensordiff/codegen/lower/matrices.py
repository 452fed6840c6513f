"""Matrix products: sums of products in index notation that a library call computes.

The factors of a sum depend on outer indices through a few integer combinations of indices, their *labels*. Two groups
of factors that share the labels that are summed over, and have other ones of their own, are two matrices:
``Sum_ij X[q, 2*i + p, 2*j + r]*Y[s, i, j]`` has the labels ``q p r | i j | s``. A factor that is a whole tensor under
its labels is taken as it is; others are copied into an array with an axis for each label.

An index that occurs in the bounds of other indices, as in ``Sum_kf W[f, k]*Y[f, p - 2*k]``, is not a label that can be
summed in a matrix product. Then the product is one over the others, here ``T[k, i] = Sum_f W[f, k]*Y[f, i]`` with the
label ``i = p - 2*k``, and the rest is a short sum of its entries, ``Sum_k T[k, p - 2*k]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from math import prod

from sympy_tensordiff.codegen.ir import programs
from sympy_tensordiff.codegen.ir.programs import BLOCK, ContractionStep, Operand, ProductStep, Trapezoid
from sympy_tensordiff.codegen.lower.costs import ProductCost, is_worth
from sympy_tensordiff.codegen.lower.factor_groups import (
    Matrix,
    Ranges,
    Split,
    Terms,
    TriangularBound,
    joined,
    length,
    merged,
)
from sympy_tensordiff.codegen.lower.loop_order import is_short_range
from sympy_tensordiff.codegen.lower.materialise import calls_user_function
from sympy_tensordiff.codegen.lower.plan import EnclosingLoops, are_segments, index_forms, is_never_empty, is_rounded
from sympy_tensordiff.codegen.lower.temporaries import Storage
from sympy_tensordiff.graph.index_tests import is_index_choice, unequal_forms
from sympy_tensordiff.graph.interning import Number, Recursion
from sympy_tensordiff.graph.nodes import BINDERS, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.lattice import independent
from sympy_tensordiff.integer.rows import partition

MIN_TRAPEZOID_ROWS = 3 * BLOCK
"""With fewer rows over a trapezoid than these, or fewer terms, loops are as good."""

MAX_TERMS = 8
"""A sum is distributed into no more products of matrices than these."""

_FACTORS = 5
"""Of more factors, not all pairs of matrices are compared. Of 2, the Hessian of Volterra's series takes 12 times."""


Chosen = tuple[Matrix, Matrix, Ranges, Split]
"""The two operands of a product of matrices, the ranges of their labels, and how the sum is split."""


class Matrices(Storage):
    """A `Storage`, with the same parameters, that also finds matrix products in sums, and computes them by library
    calls.
    """

    trapezoids = False
    """Whether the backend has products over trapezoids."""

    def _as_product(self, node: Node, context: EnclosingLoops) -> Recursion[Node | None]:
        """Add library calls for the matrix products in the sum `node`, which is inside of the loops of `context`, and
        return `node` with reads of their results. None if `node` contains no matrix product, or if plain loops are as
        fast.
        """
        is_product = node.args[0].op == "mul" or _is_without_diagonal(node.args[0])
        if not self.library or not (is_product or node.args[0].op == "add") or self._is_excluded(node):
            return None
        if are_segments(context.rows, node.free):
            return None
        for split in self._splits(node, context) if is_product else ():
            chosen = self._chosen(split)
            product = None if chosen is None else (yield self._product_of(*chosen))
            if chosen is not None and product is not None:
                return self._remaining_sum(product, *chosen[2:])
        terms = []
        for number, chosen in self._distributed(node, context):
            product = yield self._product_of(*chosen)
            if product is None:
                return None
            terms.append(self.graph.scale(number, self._remaining_sum(product, *chosen[2:])))
        return self.graph.add(terms) if terms else None

    def _distributed(self, node: Node, context: EnclosingLoops) -> list[tuple[Number, Chosen]]:
        """Split a sum `node` of several products, such as ``Sum_k (x[i, k]*y[k, j] + u[i, k]*v[k, j])``, into one
        matrix product for each term. Return pairs ``(coefficient, plan of the matrix product)``; [] if a term is not a
        matrix product. `context` has the loops around the sum.

        Only sums of products become several: their rounding errors are those of the products, while a difference of
        two entries may be exact.
        """
        variables, rows, body = self.graph.open(node)
        if any(is_short_range(rows, v) for v in variables):
            return []
        found: list[tuple[Number, Chosen]] = []
        waiting: list[Sequence[Node]] = [self.graph.factors(body)]
        while waiting:
            factors = waiting.pop()
            number, core = self.graph.split_coefficient(self.graph.mul(factors))
            factors = self.graph.factors(core)
            splits = self._split_sum(Terms(variables, rows, core), context) if core.op == "mul" else ()
            chosen = next(filter(None, map(self._chosen, splits)), None)
            if chosen is not None:
                found.append((number, chosen))
                continue
            addition = next((factor for factor in factors if self._adds_products(factor, variables)), None)
            if addition is None or len(found) + len(waiting) + len(addition.args) > MAX_TERMS:
                return []
            rest = [self.graph.const(number), *(factor for factor in factors if factor is not addition)]
            waiting += [[*rest, *self.graph.factors(term)] for term in reversed(addition.args)]
        return found

    def _adds_products(self, node: Node, variables: Sequence[int]) -> bool:
        """Return whether `node` is an addition of products, such as ``a*b - 2*c*d``, and depends on one of the
        summation ``variables``, so that the sum over these can be split into one sum for each product.
        """
        return (
            node.op == "add"
            and not node.free.isdisjoint(variables)
            and all(self.graph.split_coefficient(term)[1].op == "mul" for term in node.args)
        )

    def _splits(self, node: Node, context: EnclosingLoops) -> Iterator[Split]:
        """Yield the ways to compute the sum `node`, inside of the loops of `context`, by a matrix product and loops
        around it. Each `Split` says which factors and summed indices belong to the matrix product.
        """
        terms = Terms(*self.graph.open(node))
        slant = TriangularBound.of(terms, context.variables) if self.trapezoids else None
        yield from self._split_sum(terms, context)
        yield from self._split_sum(self._as_double_sum(node, context), context)
        yield from self._split_sum(terms, context, slant) if slant is not None else ()

    def _is_excluded(self, node: Node) -> bool:
        """Return whether `node` must not be computed for a whole matrix, only at the entries that are needed, because
        it reads at indices from an integer array or calls a user function.
        """
        if self.graph.integers and any(data_entries(index_forms(part)) for part in reachable(node)):
            return True
        return calls_user_function(node)

    # -------------------------------------------------------------- which matrices

    def _as_double_sum(self, node: Node, context: EnclosingLoops) -> Terms | None:
        """Return ``Sum_k a_k*Sum_j b_j*c_jk`` as one sum over j and k; None for other sums."""
        outer = Terms(*self.graph.open(node))
        sums = [factor for factor in self.graph.factors(outer.body) if factor.op == "sum"]
        around = context.inside(outer.variables, outer.rows)
        if len(sums) != 1 or self._stored_at(sums[0], around) is not None:
            return None
        inner = Terms(*self.graph.open(sums[0]))
        if not is_never_empty(inner.variables, inner.rows, (*self.facts, *around.rows)):
            return None
        others = [factor for factor in self.graph.factors(outer.body) if factor is not sums[0]]
        body = self.graph.mul([*others, inner.body])
        return Terms((*outer.variables, *inner.variables), (*outer.rows, *inner.rows), body)

    def _stored_at(self, node: Node, context: EnclosingLoops) -> tuple[Affine, ...] | None:
        """Return the index at which an existing array has the value of `node` in the loops of `context`, or None if no
        array stores it. Callers need only the index, not the array.
        """
        candidate = self.planner.candidate(node, context) if node in self._structures else None
        stored = None if candidate is None else self._array_containing(candidate)
        return None if stored is None or candidate is None else self._index(stored, candidate)

    def _split_sum(
        self, terms: Terms | None, context: EnclosingLoops, slant: TriangularBound | None = None
    ) -> Iterator[Split]:
        """Yield the plan, if there is one, that computes the sum `terms`, inside of the loops of ``context``, by a
        matrix product over the variables whose ranges depend on no other index, and loops over the others. The bound
        `slant`, such as ``j <= i``, if given, makes the product triangular.
        """
        if terms is None:
            return
        graph = self.graph
        variables, rows, body = terms
        inside = context.inside(variables, rows)
        known = self.outside.union(inside.variables)
        quotients = [q for part in reachable(body) for form in index_forms(part) for q in form.quotients()]
        names = {
            q: graph.fresh("q") for q in dict.fromkeys(quotients) if known >= q.atoms() and q.atoms() - self.outside
        }
        values = {q: Affine.variable(v) for q, v in names.items()}
        around = [row.substitute(values) for row in inside.rows]
        around += [row.substitute(values) for q in names for row in q.definition()]
        rounded = frozenset[int]().union(*(q.atoms() for q in names))
        factors = self._factors(graph.substitute(body, values))
        used = frozenset[int]().union(*(factor.free for factor in factors))
        # A variable that no factor depends on is not a label, and only multiplies the result.
        bounds = [row for row in rows if slant is None or row != slant.bound]
        summed = [v for v in variables if v in used - rounded and self._has_range(v, bounds)]
        inner = [factor for factor in factors if not factor.free.isdisjoint(summed)]
        if len(inner) < 2 or any(is_rounded(factor, known - self.outside) for factor in inner):
            return
        rest, own = partition(rows, summed)
        yield Split(
            tuple(summed),
            own,
            tuple(inner),
            tuple([v for v in variables if v not in summed]),
            rest,
            tuple([factor for factor in factors if factor.free.isdisjoint(summed)]),
            EnclosingLoops((*inside.variables, *names.values()), tuple(around)),
            {v: Affine.variable(q) for q, v in names.items()},
            slant=slant,
        )

    def _factors(self, body: Node) -> list[Node]:
        """Return the factors of the product `body`. If it is under a condition ``i != j``, the factors that depend on
        both i and j are joined to one factor, which is 0 on the diagonal; the condition is dropped for the others.
        """
        graph = self.graph
        if not _is_without_diagonal(body):
            return list(graph.factors(body))
        (form,) = unequal_forms(body.args[0])
        factors = graph.factors(body.args[1])
        inside = [factor for factor in factors if form.atoms() <= factor.free]
        outside = [factor for factor in factors if not form.atoms() <= factor.free]
        return [graph.tested(body.args[0], graph.mul(inside)), *outside]

    def _has_range(self, v: int, rows: Sequence[Constraint]) -> bool:
        """Return whether the variable `v` can be the axis of an array: its constraints in ``rows`` are inequalities
        that contain no other index of loops or sums.
        """
        own = [row for row in rows if v in row.form.atoms()]
        return all(row.kind == "ge" and row.form.atoms() <= self.outside | {v} for row in own)

    def _chosen(self, split: Split) -> Chosen | None:
        """Return the cheapest matrix product for the sum `split`, as ``(left, right, ranges, split)``: its factors
        grouped into two matrices, the range of each label, and the plan. None if loops are cheaper, or there are too
        many factors.

        Among equals one of two factors in a sum of the others comes first: other sums may need it.
        """
        matrices = [self._matrix((factor,), split) for factor in split.factors]
        found = merged(matrices, lambda matrix: self.planner.entries(matrix.labels, split.context, self.hints))
        if not 2 <= len(found) <= _FACTORS:
            return None
        pairs: list[tuple[Matrix, Matrix, Split]] = []
        for first, second in combinations(found, 2):
            part = split.partial(first, second, [m for m in found if m is not first and m is not second])
            if part is not None:
                pairs.append((first, second, part))
        for number in range(1, 2 ** (len(found) - 1)):
            groups = [[m for n, m in enumerate(found) if (number >> n) & 1 == side] for side in (0, 1)]
            pairs.append((joined(groups[0]), joined(groups[1]), split))
        iterations = self._iterations(split)
        best: tuple[float, Chosen] | None = None
        for first, second, part in pairs:
            ranges = self._ranges((first, second), part)
            if ranges is not None:
                cost = self._cost(first, second, ranges, part)
                units = cost.units
                if part.is_partial:
                    units += max(0, iterations // max(cost.summed, 1) - cost.results)
                    units -= self._count_contiguous_reads(first, second, part)
                if is_worth(cost, iterations) and (best is None or units < best[0]):
                    best = units, (first, second, ranges, part)
        return None if best is None else best[1]

    def _count_contiguous_reads(self, first: Matrix, second: Matrix, split: Split) -> int:
        """Return how many reads in the operands ``first`` and ``second`` of the matrix product `split` have a summed
        variable in their last index, so that the sum runs over contiguous memory.

        Between products of equal cost, more is better.
        """
        reads = (part for m in (first, second) for f in m.factors for part in reachable(f) if part.op == "read")
        return sum(bool(read.data) and not read.data[-1].atoms().isdisjoint(split.summed) for read in reads)

    def _matrix(self, factors: tuple[Node, ...], split: Split) -> Matrix:
        """Return the product of `factors` as a `Matrix`, whose labels are the index forms in the factors, such as ``i +
        1``. Summed variables of the plan `split` are separate labels.
        """
        return Matrix(factors, self.planner.labels(self.graph.mul(factors), split.context, split.summed))

    def _ranges(self, pair: tuple[Matrix, Matrix], split: Split) -> Ranges | None:
        """Return the range of each label of the product of a ``pair`` of matrices; ``split`` says which labels are
        rows, columns and summed over. None if this is not a matrix product, or if the range of one label depends on
        another.
        """
        both, first, second, summed = split.roles(*pair)
        if not first or not second or not summed:
            return None
        own_summed = [Affine.variable(v) for matrix in pair for v in split.own_summed(matrix, summed)]
        labels = [*both, *first, *second, *summed, *own_summed]
        variables = [v for v in split.context.variables if any(v in label.atoms() for label in labels)]
        vectors = [tuple([label.coefficient(v) for v in variables]) for label in labels]
        if len(independent(vectors)) < len(labels):
            return None
        ranges: Ranges = {}
        least = 0 if split.slant is None else 1
        for label in labels:
            found = self._range(label, split)
            if found is None:
                return None
            if not is_implied(Constraint("ge", length(found) - least), self.facts):
                if split.slant is not None:
                    return None
                found = self._with_clamped_length(*found, creates=False)
            ranges[label] = found
        if (slant := split.slant) is None:
            return ranges
        if slant.row not in (*first, *second):
            return None
        is_long = all(self._volume([label], ranges) >= MIN_TRAPEZOID_ROWS for label in (slant.row, slant.term))
        return ranges if is_long else None

    def _with_clamped_length(self, low: Affine, high: Affine, *, creates: bool) -> tuple[Affine, Affine]:
        """Return the range from `low` to `high`, with the end changed to ``low + size - 1`` if its length may be
        negative, where ``size`` is the computed size ``max(high - low + 1, 0)``. If the program has no such size yet,
        it is added with ``creates``; without, the range is returned unchanged.
        """
        extent = high - low + 1
        if is_implied(Constraint("ge", extent), self.facts):
            return low, high
        size = self.clamped(extent, "t") if creates else self.known_clamped(extent)
        return (low, high) if size is None else (low, low + size - 1)

    def _range(self, label: Affine, split: Split) -> tuple[Affine, Affine] | None:
        """Return the lowest and highest value of the index form `label`, such as ``i + k``, in the loops of `split`;
        None if they are unknown.
        """
        if split.slant is None:
            return self.planner.range(label, split.context)
        return split.slant.range(label, split, self.planner, self.facts)

    # -------------------------------------------------------------- what they cost

    def _iterations(self, split: Split) -> int:
        """Return roughly how many iterations loops over all variables of the sum `split` and of the loops around it
        would take.
        """
        variables = [Affine.variable(v) for v in split.context.variables if v not in split.hidden]
        ranges = [self._range(variable, split) for variable in variables]
        total = prod(self.hints(length(found)) for found in ranges if found is not None)
        for row in split.context.rows:
            total //= row.modulus if row.kind == "mod" else 1
        return total

    def _cost(self, first: Matrix, second: Matrix, ranges: Ranges, split: Split) -> ProductCost:
        """Return the data for the cost of the product of the matrices ``first`` and ``second`` in the plan `split`: its
        lengths, and how many entries are copied to build the operands. ``ranges`` has the range of each label.
        """
        roles = split.roles(first, second)
        batch, rows, columns, summed = (self._volume(labels, ranges) for labels in roles)
        copied = 0
        for matrix, own in ((first, roles[1]), (second, roles[2])):
            is_there = self._is_whole(matrix, ranges)
            if split.is_partial and not is_there:
                is_there = self._known_array(matrix, (roles[0], own, roles[3]), ranges, split) is not None
            copied += 0 if is_there else self._volume(matrix.labels, ranges)
        return ProductCost(batch, rows, columns, summed, copied, batch * rows * columns if split.outer_variables else 0)

    def _volume(self, labels: Iterable[Affine], ranges: Ranges) -> int:
        """Return roughly how many entries an array with the axes `labels` has, given the ``ranges`` of the labels."""
        return prod(self.hints(length(ranges[label])) for label in labels)

    def _is_whole(self, matrix: Matrix, ranges: Ranges) -> bool:
        """Return whether ``matrix`` is a single tensor that a library can read without a copy, since its labels run
        over whole axes (``ranges`` has their ranges).
        """
        read = matrix.factors[0]
        if len(matrix.factors) > 1 or read.op != "read" or not read.args[0].free <= self.outside:
            return False
        if len(set(read.data)) < len(read.data) or not set(read.data) <= ranges.keys():
            return False
        extents = zip(read.data, read.args[0].shape, strict=True)
        return all(ranges[label] == (Affine(), extent - 1) for label, extent in extents)

    # -------------------------------------------------------------- steps

    def _product_of(self, first: Matrix, second: Matrix, ranges: Ranges, split: Split) -> Recursion[Node | None]:
        """Add a step that multiplies the matrices ``first`` and ``second``, and return the node that reads the product.
        ``ranges`` has the range of each label, ``split`` says which labels are rows, columns or summed over. None if an
        operand cannot be stored in an array.
        """
        first, second = self._in_order(first, second, split)
        if split.slant is None:  # a window may be longer than the axis along which it moves
            ranges = {label: self._with_clamped_length(*found, creates=True) for label, found in ranges.items()}
        both, rows, columns, summed = split.roles(first, second)
        cost = self._cost(first, second, ranges, split)
        operands = []
        for matrix, own in ((first, rows), (second, columns)):
            operand = yield self._operand(matrix, (both, own, summed), ranges, split)
            if operand is None:
                return None
            operands.append(operand)
        if split.is_partial:  # in the order in which an operand has its axes, whatever sums ask for
            (_, one), (_, other) = operands
            rows, columns = [label for label in one if label in rows], [label for label in other if label in columns]
        if split.slant is not None:  # the rows are cut into blocks
            cut = split.slant.row
            rows.sort(key=lambda label: label != cut)
        output = [*both, *rows, *columns]
        # Numbers that do not depend on which of the two is first: a product and its transpose are one array.
        found = sorted(operands, key=lambda operand: operand[0])
        numbers = {label: n for n, label in enumerate(dict.fromkeys(label for _, labels in found for label in labels))}
        key = (*((array, tuple([numbers[label] for label in labels])) for array, labels in found), split.slant)
        if key not in self._products:
            left, right = (Operand(array, tuple([numbers[label] for label in labels])) for array, labels in operands)
            filled = self._fresh("t"), tuple([numbers[label] for label in output])
            step: ProductStep = ContractionStep(*filled, left, right)
            if (slant := split.slant) is not None:
                shift = self.form(slant.offset + ranges[slant.row][0] - ranges[slant.term][0])
                step = Trapezoid(*filled, left, right, 1, numbers[slant.row], shift, slant.is_upper)
            iterations = self._iterations(split)
            self.notes.append(f"{step.array}: {cost}, in place of {iterations} iterations")
            self._products[key] = self._filled(step, [length(ranges[label]) for label in output]), step.output
        tensor, axes = self._products[key]
        labels = dict(zip(numbers.values(), numbers, strict=True))
        return self.graph.read(tensor, [labels[n] - ranges[labels[n]][0] for n in axes])

    def _in_order(self, first: Matrix, second: Matrix, split: Split) -> tuple[Matrix, Matrix]:
        """Return the operands ``first`` and ``second`` of the matrix product `split` in the order ``(left, right)`` for
        which the index of the innermost enclosing loop is the last axis of the product.

        A product with a slanted bound has the matrix with the row label of the bound on the left.
        """
        _, rows, columns, _ = split.roles(first, second)
        is_turned = max(map(split.place, rows)) > max(map(split.place, columns))
        if split.slant is not None:
            is_turned = split.slant.row in second.labels
        return (second, first) if is_turned else (first, second)

    def _filled(self, step: ProductStep, shape: Sequence[Affine]) -> Node:
        """Add the library call `step`, and the new array of this `shape` that it fills; return the tensor node of the
        array.
        """
        self.kernels.append(step)
        self.stored_arrays.append(programs.Array(step.array, tuple([self.form(extent) for extent in shape])))
        tensor = self.graph.tensor(f"array {step.array}", tuple(shape))
        self.arrays[f"array {step.array}"] = step.array
        return tensor

    def _operand(
        self, matrix: Matrix, roles: tuple[list[Affine], ...], ranges: Ranges, split: Split
    ) -> Recursion[tuple[str, tuple[Affine, ...]] | None]:
        """Return ``(name, labels)`` of an array with the entries of `matrix`, an operand of a product in the plan
        ``split``; create the array if necessary. `roles` are its batch labels, own labels and summed labels, ``ranges``
        their ranges. None if it cannot be stored.
        """
        own_summed = split.own_summed(matrix, roles[2])
        if self._is_whole(matrix, ranges) and not own_summed:
            read = matrix.factors[0]
            found = yield self._stored_whole(read.args[0])
            if found is not None:
                return found, read.data
        known = self._known_array(matrix, roles, ranges, split)
        if known is not None:
            return known
        node, around = self._matrix_entry(matrix, roles, split), split.context
        order = self._orders(matrix, roles, ranges, split)[0]
        if self.planner.candidate_over(node, order, [ranges[label] for label in order], around) is None:
            return None
        other = roles[1][-1] if order[-1] == roles[2][-1] else roles[2][-1]
        if self._count_reads_along(order[-1], other, matrix, split):
            # What runs along the last axis is the innermost index of all that is kept for it.
            around = replace(around, variables=tuple(sorted(around.variables, key=lambda v: v in order[-1].atoms())))
        yield self._store_common_parts(node, around)
        for factor in matrix.factors:
            if factor.height and factor.op != "read":  # other sums may need its values, too
                yield self._temporary(factor, around)
        known = self._known_array(matrix, roles, ranges, split)
        if known is not None:
            return known
        order = self._orders(matrix, roles, ranges, split)[0]  # what it reads may be known by now
        chosen = self.planner.candidate_over(node, order, [ranges[label] for label in order], around)
        assert chosen is not None
        created = yield self._create_array(chosen, around, tuple(range(len(chosen.axes))), is_operand=True)
        return created.array, chosen.forms

    def _matrix_entry(self, matrix: Matrix, roles: tuple[list[Affine], ...], split: Split) -> Node:
        """Return the formula of an entry of `matrix`, an operand of a product in the plan ``split``: the product of its
        factors, summed over the summed labels that the other operand does not have. `roles` are its batch labels, own
        labels and summed labels.
        """
        own_summed = split.own_summed(matrix, roles[2])
        node = self.graph.mul(matrix.factors)
        bounds = [row for row in split.bounds if not row.form.atoms().isdisjoint(own_summed)]
        return self.graph.sum(own_summed, bounds, node) if own_summed else node

    def _orders(
        self, matrix: Matrix, roles: tuple[list[Affine], ...], ranges: Ranges, split: Split
    ) -> list[tuple[Affine, ...]]:
        """Return the orders of axes in which an array may store the operand `matrix` of a matrix product, the best one
        first. `roles` are its batch labels, own labels and summed labels, `ranges` their lowest and highest values.
        """
        both, own, summed = roles
        orders = [(*both, *own, *summed), (*both, *summed, *own)]
        # A copied operand is best read along its last axis, and written along that of the copy: a long one.
        pair = summed[-1], own[-1]
        one, two = (self._count_reads_along(*labels, matrix, split) for labels in (pair, pair[::-1]))
        if (two, self._volume(pair[1:], ranges)) > (one, self._volume(pair[:1], ranges)):
            orders.reverse()
        if split.is_partial:
            for order in permutations(own):
                orders += [(*both, *order, *summed), (*both, *summed, *order)]
        return orders

    def _count_reads_along(self, label: Affine, other: Affine, matrix: Matrix, split: Split) -> int:
        """Return how many reads in the factors of `matrix`, an operand in the plan ``split``, are contiguous along
        `label` rather than along ``other``: they have `label` in their last index and ``other`` in an earlier one.
        """
        found: list[tuple[Affine, ...]] = []
        stack = list(matrix.factors)
        while stack:
            part = stack.pop()
            if part.op == "read":
                found.append(part.data)
            elif (place := self._stored_at(part, split.context)) is not None:
                found.append(place)
            elif part.op not in BINDERS:
                stack += part.args
        return sum(
            label.atoms() <= last.atoms() and any(other.atoms() <= form.atoms() for form in before)
            for *before, last in filter(None, found)
        )

    def _known_array(
        self, matrix: Matrix, roles: tuple[list[Affine], ...], ranges: Ranges, split: Split
    ) -> tuple[str, tuple[Affine, ...]] | None:
        """Return ``(name, labels)`` of an existing array that stores `matrix`, an operand of the matrix product
        ``split``; None if there is none. `roles` are its batch labels, own labels and summed labels, ``ranges`` their
        ranges.
        """
        node = self._matrix_entry(matrix, roles, split)
        for order in self._orders(matrix, roles, ranges, split):
            candidate = self.planner.candidate_over(node, order, [ranges[label] for label in order], split.context)
            for stored in () if candidate is None else self.stored.get(candidate.node, ()):
                assert candidate is not None
                same = (stored.candidate.lows, stored.candidate.highs) == (candidate.lows, candidate.highs)
                if same and all(is_implied(row, (*self.facts, *candidate.rows)) for row in stored.candidate.rows):
                    return stored.array, tuple([candidate.forms[n] for n in stored.order]) or candidate.forms
        return None

    def _stored_whole(self, tensor: Node) -> Recursion[str | None]:
        """Return the name of an array in which all entries of `tensor` are stored: an argument, or a temporary that is
        computed first. None if no such temporary can be made.
        """
        if tensor.op == "tensor":
            return self.arrays[tensor.data[0]]
        found = yield self._temporary(tensor, EnclosingLoops((), ()))
        return found[0].array if found is not None and not found[1] else None

    def _remaining_sum(self, product: Node, ranges: Ranges, split: Split) -> Node:
        """Return the sum that `split` plans as a node, given the node ``product`` that reads its matrix product: it is
        multiplied by the other factors, and summed over the other variables. ``ranges`` has the range of each label.

        For a triangular sum, the terms near the diagonal that the matrix product lacks are added.
        """
        graph = self.graph
        if split.slant is not None:
            rows = (*split.bounds, *split.rows, split.slant.near_diagonal(ranges[split.slant.row][0]))
            product = graph.add([product, graph.sum(split.summed, rows, graph.mul(split.factors))])
        body = graph.substitute(graph.mul([*split.other_factors, product]), split.hidden)
        return (
            graph.sum(split.outer_variables, split.rows, body)
            if split.outer_variables
            else graph.guard(split.rows, body)
        )


def _is_without_diagonal(node: Node) -> bool:
    """Return whether `node` is a product under a single condition like ``i != j`` or ``i != j + 1``, with two indices i
    and j on which it depends.
    """
    if not is_index_choice(node) or node.args[1].op != "mul":
        return False
    forms = unequal_forms(node.args[0])
    return len(forms) == 1 and all(len(form.atoms()) == 2 and form.atoms() <= node.args[1].free for form in forms)
