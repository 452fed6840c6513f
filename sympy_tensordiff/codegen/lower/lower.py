"""Lowering: from nodes of the graph to statements of loop nests.

One kernel per output and per temporary. Inside a kernel each value is computed in the outermost
block that knows its indices, if that reads nothing outside of a shape, and once. Sums and the other
reductions become an accumulator and loops, guards an accumulator behind an `If`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import sympy

from sympy_tensordiff.codegen.ir import loops, scalars
from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, accumulator, add, let
from sympy_tensordiff.codegen.ir.scalars import Bound, Load, Name, Reduction
from sympy_tensordiff.codegen.ir.walk import guarded_by
from sympy_tensordiff.codegen.lower.bessel import has_polynomial, modified_bessel
from sympy_tensordiff.codegen.lower.blocks import CodeBlock, nested_blocks
from sympy_tensordiff.codegen.lower.carries import carried_variables
from sympy_tensordiff.codegen.lower.functions import has_root, operation, rational_form, root
from sympy_tensordiff.codegen.lower.inverse_norms import factors_of_root, inverse_norms, is_inverse_root
from sympy_tensordiff.codegen.lower.loop_order import in_memory_order, is_short_range
from sympy_tensordiff.codegen.lower.materialise import calls_user_function, is_dear, is_slice, uses
from sympy_tensordiff.codegen.lower.matrices import Matrices
from sympy_tensordiff.codegen.lower.plan import EnclosingLoops
from sympy_tensordiff.codegen.lower.scatters import ScatterTerm, limit_of_data, parameter, selects
from sympy_tensordiff.codegen.lower.terms import is_where_equal
from sympy_tensordiff.graph.functions import scaled_besseli
from sympy_tensordiff.graph.index_tests import conjuncts
from sympy_tensordiff.graph.interning import Recursion, in_turn
from sympy_tensordiff.graph.nodes import RANGED, Node, reachable
from sympy_tensordiff.integer.affine import Affine, quotient
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.rows import Rows, bounds_a_loop, bounds_with_divisors, partition, renaming_map

_ACCUMULATORS: dict[Reduction, str] = {"sum": "s", "prod": "product", "max": "greatest", "min": "least"}


class Lowering(Matrices):
    """Translates the nodes of one program into statements of loop nests. Its parameters are those of `Storage`."""

    # -------------------------------------------------------------- values

    def value(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Return `node` as a scalar expression for use in `block`. The statements that compute it are added to `block`
        or to blocks around it.
        """
        match node.op:
            case "const":
                return scalars.constant(node.data)
            case "scalar":
                return Name(self.names[node]) if node in self.names else scalars.Number(float(node.data))
            case "index":
                return scalars.IndexValue(self.form(node.data))
        home = self._outermost_block(node, block)
        for seen in block.outwards():
            if node in seen.values:
                return seen.values[node]
        value: scalars.Scalar = yield self._compute(node, home)
        if not isinstance(value, Name | Load) and (home is not block or self._uses[node] > 1):
            name = self._local("v")
            home.statements.append(let(name, value))
            value = Name(name)
        home.values[node] = value
        return value

    def _compute(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Add the code that computes `node`, whose value is not known yet, to `block`, and return its value as a scalar
        expression: the read of an array of its values if storing them pays, else a name or formula.
        """
        # What an equation of indices guards is worth an array, not the zeros around it.
        stays = node.op in ("read", "compare", "and", "or", "not") or is_where_equal(node)
        asks = not stays and (
            node.height
            or is_dear(node)
            or self._is_repeated(node, block.context)
            or self._is_worth_hoisting(node, block.context)
        )
        product: Node | None = None
        continues = not carried_variables(self.graph, node).isdisjoint(block.context.variables)
        if (
            node.op == "sum"
            and not continues
            and (self._must_stay_conditional(node, block) or not self._stored_at(node, block.context))
        ):
            product = yield self._as_product(node, block.context)
        if product is not None and product.op == "read":  # no array of its own is worth it
            entry: scalars.Scalar = yield self._read(product, block)
            return entry
        if (asks and not self._must_stay_conditional(node, block)) or self._is_rounded_often(node, block.context):
            stored_value: scalars.Scalar | None = yield self._stored_value(node, block)
            if stored_value is not None:
                return stored_value
        if node.op == "add":
            yield self._sums_first(node, block)
        if product is not None:
            self._count_uses(product)
            entry = yield self.value(product, block)
            return entry
        methods = {
            "read": self._read,
            "guard": self._guard,
            **dict.fromkeys(RANGED, self._reduction),
            "mul": self._product,
            "select": self._choice,
        }
        if node.data is sympy.frac and (found := rational_form(node.args[0])) is not None:
            form, below = found  # a rounded sum of fractions may be less than the integer that it is
            remainder = scalars.IndexValue(self.form(form - below * quotient(form, below)))
            return scalars.Operation("mul", (scalars.Number(Fraction(1, below)), remainder))
        special = self._root if node.op == "pow" and has_root(node.args[1]) else methods.get(node.op)
        special = self._bessel if node.op == "call" and has_polynomial(node) else special
        if special is not None:
            value: scalars.Scalar = yield special(node, block)
            return value
        args = yield from in_turn(self.value(arg, block) for arg in node.args)
        return operation(node, args)

    def _stored_value(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar | None]:
        """Return code that reads the value of `node` in ``block`` from an array, perhaps times a number. The array is
        created if it does not exist. None if storing `node` is not worthwhile.
        """
        if (use := self.shifts.members.get(node)) is not None:
            shifted: scalars.Scalar | None = yield self._at_shift(use, block.context)
            return shifted
        number, core = self.graph.split_coefficient(node)
        if number != 1 and not self._is_multiple_stored(node, block.context):  # one array serves what differs in signs
            entry: scalars.Scalar | None = yield self._stored_value(core, block)
            return None if entry is None else scalars.Operation("mul", (scalars.Number(number), entry))
        scatters = node.op in ("sum", "max", "min") and self.temporaries and bool(self.graph.integers)
        if scatters:
            selected: scalars.Scalar | None = yield self._selected(node, block)
            if selected is not None:
                return selected
            scatters = selects(self.graph, node, block.context.variables)
        shared = scatters or node.op == "read" or self._is_repeated(node, block.context)
        found = yield self._temporary(node, block.context, shared=shared)
        if found is None:
            return None
        stored, index = found
        if self.shares_rows and shared and (node.op == "call" or self._is_large_sum(node, block.context)):
            self.of_rows.add(stored.array)
        return Load(stored.array, tuple(self.form(form) for form in index))

    def _is_multiple_stored(self, node: Node, context: EnclosingLoops) -> bool:
        """Return whether an array for the product `node`, which has a number as a factor, should include the number,
        which saves the multiplication in the loops of ``context``. It should unless other code needs the product
        without the number.
        """
        number, core = self.graph.split_coefficient(node)
        if abs(number) == 1 or node.op != "mul" or not self._is_worth_hoisting(core, context):
            return False
        return not (self._uses[core] or self._uses_in_results[core] or core in self.stored)

    def _is_rounded_often(self, node: Node, context: EnclosingLoops) -> bool:
        """Return whether `node` is a read with a quotient or remainder in its index, such as ``x[(i + k) % n]``, that
        the loops of `context` execute several times for the same entry: here, for all i and k with the same ``i + k``.

        A copy of the tensor with the axis ``i + k`` then saves divisions.
        """
        if not self.temporaries or node.op != "read" or node.args[0].op != "tensor":
            return False
        if not any(form.compounds() for form in node.data) or any(data_entries(node.data)):
            return False
        return self.planner.rank(node, context) < context.dimension

    def _is_repeated(self, node: Node, context: EnclosingLoops) -> bool:
        """Return whether the value of `node` is computed more than once in the program, as earlier passes found: at
        shifted indices, in another loop, or in another sum.
        """
        if node in self.shifts.members or self.graph.split_coefficient(node)[1] in self.shifts.members:
            return True
        if not self.repeated or not (node.op in RANGED or node.op == "select" or is_dear(node)):
            return False
        return self._over_standard_axes(node, context) in self.repeated

    def _over_standard_axes(self, node: Node, context: EnclosingLoops) -> Node:
        """Return `node` with the loop indices of `context` renamed to standard names, so that equal values in different
        loops become the same node.
        """
        return self.planner.numbered(node, [v for v in context.variables if v in node.free])

    def _is_large_sum(self, node: Node, context: EnclosingLoops) -> bool:
        """Return whether `node`, inside of the loops of `context`, is one of the sums that several loops compute and
        whose array might be larger than all arguments of the program.
        """
        if node.op != "sum" or not self.large_sums:
            return False
        return self._over_standard_axes(node, context) in self.large_sums

    def _selected(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar | None]:
        """Return the read ``s[r[q]]`` in place of a reduction `node` that depends on an outer index q through the entry
        ``r[q]`` of an integer array only. The new array ``s`` stores its value for each value of ``r[q]``: that of
        ``Sum_{i >= r[q]} x[i]`` is an array of running sums. None for other reductions, or if the array does not pay.
        """
        entry = parameter(self.graph, node, block.context.variables)
        entry = entry or limit_of_data(self.graph, node, block.context)
        if entry is None:
            return None
        v = self.graph.fresh("value")
        value = {entry: Affine.variable(v)}
        rows = tuple([row.substitute(value) for row in (*block.context.rows, *entry.definition())])
        context = EnclosingLoops((*block.context.variables, v), rows)
        part = self.graph.substitute(node, value)
        if not part.free.isdisjoint(entry.atoms().intersection(block.context.variables)):
            # One array for each value would hold no less than is read of it.
            found: scalars.Scalar | None = yield self._selected_factor(node, block)
            return found
        temporary = yield self._temporary(part, context, shared=True)
        if temporary is None:
            return None
        stored, index = temporary
        return Load(stored.array, tuple(self.form(form.substitute({v: Affine.variable(entry)})) for form in index))

    def _selected_factor(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar | None]:
        """Return the code ``w[q]*s[r[q]]`` for a sum `node` over i such as ``Sum_i [r[i] == r[q]]*w[q]*v[i]``. The new
        array s has ``Sum_i [r[i] == p]*v[i]`` for each value p of r. None if all factors depend on i, or if s cannot be
        built.
        """
        variables, rows, body = self.graph.open(node)
        if node.op != "sum":
            return None
        tests, product = (body.data, body.args[0]) if body.op == "guard" else ((), body)
        factors = self.graph.factors(product)
        outer = [factor for factor in factors if factor.free.isdisjoint(variables)]
        if not outer:
            return None
        rest = self.graph.guard(tests, self.graph.mul([factor for factor in factors if factor not in outer]))
        found: scalars.Scalar | None = yield self._selected(self.graph.sum(variables, rows, rest), block)
        if found is None:
            return None
        number: scalars.Scalar = yield self.value(self.graph.mul(outer), block)
        return scalars.Operation("mul", (number, found))

    def _read(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Return code for `node`, the read of a tensor entry, in ``block``: a read of the tensor's array, which may be
        a new temporary, or the formula of the entry if the tensor is not stored.
        """
        tensor = node.args[0]
        index = tuple(self.form(form) for form in node.data)
        if tensor.op == "tensor":
            return Load(self.arrays[tensor.data[0]], index)
        found = None if is_slice(self.graph, tensor) else (yield self._temporary(tensor, block.context))
        if found is None:  # nothing to keep: the entry itself
            value: scalars.Scalar = yield self.value(self._entry(tensor, node.data, block), block)
            return value
        stored, prefix = found
        return Load(stored.array, (*(self.form(form) for form in prefix), *index))

    def _entry(self, tensor: Node, place: Sequence[Affine], block: CodeBlock) -> Node:
        """Return the formula of the entry of the comprehension `tensor` at the index `place`: its body at this index,
        with a guard that makes it 0 out of bounds. Bounds that the loops around `block` ensure get no guard.
        """
        variables, rows, body = self.graph.open(tensor)
        forms = dict(zip(variables, place, strict=True))
        known = (*self.facts, *block.context.rows)
        tests = [row for row in (row.substitute(forms) for row in rows) if not is_implied(row, known)]
        entry = self.graph.guard(tests, self.graph.substitute(body, forms))
        self._count_uses(entry)
        return entry

    def _guard(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Return the name of a scalar with the value of the guard `node`: its body where the conditions are true, else
        0. Append an `If` statement that computes it to `block`.
        """
        name = self._local("s")
        block.statements.append(accumulator(name))
        inner = CodeBlock(block.context.inside((), node.data), frozenset(), block)
        value = yield self.value(node.args[0], inner)
        block.statements.append(If(self.rows(node.data), (*inner.statements, add(name, value))))
        return Name(name)

    def _choice(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Return the select `node` as a scalar expression for the code of ``block``. A branch that is costly, or may be
        undefined where it is not needed, is computed under its condition only.
        """
        condition, *branches = node.args
        test = yield self.value(condition, block)
        values = []
        for branch, holds in zip(branches, (True, False), strict=True):
            inner = block
            is_usual = holds and self._holds_nearly_everywhere(condition, branch)
            private = self._used_only_by(branch, block)
            is_always = (branch.total and not self._has_long_loops(private)) or is_usual
            if not (is_always and self.planner.is_safe(branch, block.context.rows)):
                inner = CodeBlock(block.context, frozenset(), block, private=private)
                inner.is_common = not condition.free.issuperset(block.context.variables)
            values.append((yield self.value(branch, inner)))
            if inner is block:
                continue
            if inner.statements and isinstance(test, scalars.Operation):
                name = self._local("v")
                block.statements.append(let(name, test))
                test = Name(name)
            block.statements += guarded_by(inner.statements, test if holds else scalars.Operation("not", (test,)))
        return scalars.Operation("select", (test, *values))

    def _holds_nearly_everywhere(self, condition: Node, branch: Node) -> bool:
        """Return whether `condition` is true at nearly all points, like ``i != j``, so that it is cheaper to compute
        `branch` everywhere than to skip it by a test in each iteration. False if `branch` calls a user's function.

        Indices, and a computed number and 0, differ nearly everywhere. Entries of a mask may be 0 nearly everywhere, so
        that long sums stay conditional then.
        """
        if calls_user_function(branch) or not _is_inequation(condition):
            return False
        if not any(side.op == "read" for part in conjuncts(condition) for side in part.args):
            return True
        return not self._has_long_loops(reachable(branch))

    def _has_long_loops(self, nodes: Iterable[Node]) -> bool:
        """Return whether `nodes` have a sum or another reduction over a range that is not short."""
        found = [part for part in nodes if part.op in RANGED]
        return not all(is_short_range(part.data, v) for part in found for v in self.graph.bound(part))

    def _used_only_by(self, branch: Node, block: CodeBlock) -> frozenset[Node]:
        """Return the nodes that only this `branch` of a select uses in the kernel of ``block``, so that they can be
        computed under its condition.
        """
        total: Counter[Node] = next((around.uses for around in block.outwards() if around.uses is not None), Counter())
        inside: Counter[Node] = Counter([branch])
        private = set()
        for part in reversed(reachable(branch)):
            if inside[part] >= total[part]:
                private.add(part)
                inside.update(part.args)
        return frozenset(private)

    def _must_stay_conditional(self, node: Node, block: CodeBlock) -> bool:
        """Return whether `node`, in the code of `block`, must be computed under the condition of a branch and not
        before it: only this branch uses it, and it calls a user function, or would need as many loops as the branch.
        """
        around = next((one for one in block.outwards() if one.private is not None and node in one.private), None)
        if around is None:
            return False
        if calls_user_function(node):
            return True
        is_common = around.is_common and node.height > 0
        return is_common and self.planner.rank(node, block.context) >= block.context.dimension

    def _sums_first(self, node: Node, block: CodeBlock) -> Recursion[None]:
        """Add code that computes the sums in the terms of the addition `node`, in loop nests that sums over the same
        range share. Each sum is computed in the outermost block around `block` in which it is constant.

        With temporaries they share arrays instead: sums that depend on enclosing indices come first, others read them.
        """
        groups: dict[tuple[Any, ...], dict[Node, None]] = {}
        homes: dict[int, CodeBlock] = {}
        others = False
        waiting = [node]
        while waiting:
            part = waiting.pop()
            if part.op in ("add", "mul"):
                waiting += reversed(part.args)
            elif part.op == "sum" and part not in (home := self._outermost_block(part, block)).values:
                homes[id(home)] = home
                inside = home is block and not (self.temporaries and part.free.isdisjoint(block.own))
                others = others or not inside
                if inside or self.temporaries:
                    groups.setdefault((inside, id(home), self._points(part)), {})[part] = None
        for (inside, place, _), parts in groups.items():
            home = homes[place]
            own = [part for part in parts if not (self.temporaries and self._is_repeated(part, home.context))]
            common = self._with_common_functions(own, home.context) if self.temporaries and own else own
            if len(common) > 1:
                names = yield self._reductions(common, home)
                home.values.update(zip(common, names, strict=True))
            for part in parts if self.temporaries and others and inside else ():
                if part not in common:
                    yield self.value(part, block)

    def _with_common_functions(self, sums: Sequence[Node], context: EnclosingLoops) -> list[Node]:
        """Return those of `sums`, all over the same range, that call a costly function which another one of them calls
        with the same arguments: one loop can compute these sums together, with one call.

        All run over the same range, in the loops of ``context``.

        A function of fewer indices is worth an array, which a product of matrices may read.
        """
        variables, _, _ = self.graph.open(sums[0])
        needed = frozenset((*context.variables, *variables))
        functions = []
        for node in sums:
            own, _, body = self.graph.open(node)
            body = self.graph.substitute(body, renaming_map(own, variables))
            functions.append({part for part in reachable(body) if needed <= part.free and is_dear(part)})
        counts = Counter(part for found in functions for part in found)
        return [node for node, found in zip(sums, functions, strict=True) if any(counts[part] > 1 for part in found)]

    def _points(self, node: Node) -> tuple[Any, ...]:
        """Return a hashable key for the index range of the sum `node`. Sums over the same range, apart from the names
        of indices, have equal keys.
        """
        own = self.graph.bound(node)
        numbered = {v: Affine.variable(-(1 + n)) for n, v in enumerate(own)}
        return len(own), tuple(sorted(row.substitute(numbered) for row in node.data))

    def _reduction(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Add the loops that compute the reduction `node` (a sum, product or extremum) to `block`. Return the scalar in
        which they accumulate its value.
        """
        names: list[Name] = yield self._reductions([node], block)
        return names[0]

    def _reductions(self, nodes: Sequence[Node], block: CodeBlock) -> Recursion[list[Name]]:
        """Add a loop nest that computes the reductions `nodes`, each in an accumulator, to `block`; return the
        accumulators. The reductions are of one kind and over the same range.
        """
        op: Reduction = nodes[0].op  # type: ignore[assignment]
        variables, rows, body = self.graph.open(nodes[0])
        bodies = [body]
        for node in nodes[1:]:
            others, _, body = self.graph.open(node)
            bodies.append(
                self.graph.substitute(body, {w: Affine.variable(v) for w, v in zip(others, variables, strict=True)})
            )
        if len(nodes) == 1:
            self._record_chain(nodes[0], bodies[0], block.context)
            variables, rows, bodies[0] = self._split(op, variables, rows, bodies[0], block.context)
            variables, rows = in_memory_order(self.planner, variables, rows, bodies[0], block.context, self.hints)
        names = [self._local(_ACCUMULATORS[op]) for _ in nodes]
        for name, body in zip(names, bodies, strict=True):
            self._count_uses(body)
            block.statements.append(accumulator(name, op))
        for v in variables:
            self.names[v] = self._local(self.graph.names[v])
        blocks = nested_blocks(variables, rows, block)
        blocks[1].uses = uses(*bodies)
        if self.temporaries:
            self.shifts.search(bodies, blocks[-1].context, False)
        # Rows that bound no loop, as equations with data do not, are tested inside of all.
        tests = tuple(row for row in rows if not bounds_a_loop(row, variables))
        innermost = CodeBlock(blocks[-1].context.inside((), tests), frozenset(), blocks[-1]) if tests else blocks[-1]
        added = []
        for name, body in zip(names, bodies, strict=True):
            added.append(add(name, (yield self.value(body, innermost)), op))
        inside = [If(self.rows(tests), (*innermost.statements, *added))] if tests else added
        block.statements += self._nest(variables, rows, blocks, inside)
        return [Name(name) for name in names]

    def _record_chain(self, node: Node, summand: Node, context: EnclosingLoops) -> None:
        """Record the factors that depend on i in the ``summand`` of a running sum `node` such as ``Sum_{j <= i} a**(i -
        j)*x[j]``, so that they are not stored in arrays: the scheduler updates the sum from one i to the next.
        """
        if not self._axes or context.variables != self._axes or len(self.graph.bound(node)) != 1:
            return
        last = self._axes[-1]
        if last in carried_variables(self.graph, node) and last in summand.free:
            self.chained.update(factor for factor in self.graph.factors(summand) if last in factor.free)

    def _additions(
        self, array: str, variables: Sequence[int], part: ScatterTerm, block: CodeBlock
    ) -> Recursion[tuple[loops.Statement, ...]]:
        """Return the loops over `variables` that execute the scatter `part`, in ``block``: in each iteration, an entry
        of `array` is updated, by an addition, maximum or minimum, with the value of `part`.
        """
        blocks = nested_blocks(variables, part.rows, block)
        innermost = CodeBlock(blocks[-1].context.inside((), part.conditions), frozenset(), blocks[-1])
        value = yield self.value(part.value, innermost)
        added = Set(Load(array, tuple([self.form(form) for form in part.index])), value, part.reduction)
        statements: tuple[loops.Statement, ...] = (*innermost.statements, added)
        if part.conditions:
            statements = (If(self.rows(part.conditions), statements),)
        return self._nest(variables, part.rows, blocks, statements)

    def _nest(
        self, variables: Sequence[int], rows: Rows, blocks: Sequence[CodeBlock], inside: Sequence[loops.Statement]
    ) -> tuple[loops.Statement, ...]:
        """Return nested loops over `variables`, with the bounds in the constraints `rows`, around the statements
        `inside`. The body of each loop begins with the statements of its block in `blocks`.
        """
        statements = tuple(inside)
        for n in reversed(range(len(variables))):
            lows, highs = self._bounds(variables[n], frozenset(variables[n + 1 :]), rows)
            body = (*blocks[n + 1].statements, *statements)
            statements = (Loop(self.names[variables[n]], lows, highs, body),)
        return statements

    def _split(
        self, op: str, variables: tuple[int, ...], rows: Rows, body: Node, context: EnclosingLoops
    ) -> tuple[tuple[int, ...], Rows, Node]:
        """Split the reduction `op` of `body` over `variables`, such as ``Sum_{i, j} body``, into two, ``Sum_i (Sum_j
        body)``, if the inner one depends on fewer integers than there are loops around it, so that an array can store
        it. Return ``(variables, rows, body)`` of the outer reduction, or the arguments if there is no such split.
        """
        if not self.temporaries:
            return variables, rows, body
        for n in range(1, len(variables)):
            outer, inner = variables[:n], variables[n:]
            rest, own = partition(rows, inner)
            part = self.graph.reduce(op, inner, own, body)
            around = context.inside(outer, rest)
            if self.planner.rank(part, around) < around.dimension:
                return outer, rest, part
        return variables, rows, body

    def _bounds(self, v: int, inner: frozenset[int], rows: Rows) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
        """Return ``(lower bounds, upper bounds)`` of the loop over the variable `v` according to the constraints
        `rows`. Left out are constraints that contain a variable in ``inner``, the variables of loops inside of it, and
        those that are tested in the loop, such as ``v <= h[v]``.
        """
        forms = [row.form for row in rows if row.form.atoms().isdisjoint(inner)]
        own = [form for form in forms if form.coefficient(v) and v not in form.hidden()]
        lows, highs = (tuple([Bound(self.form(form), c) for form, c in side]) for side in bounds_with_divisors(v, own))
        return lows, highs

    def _product(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Return the product `node` as a scalar expression for the code of ``block``. Factors that are constant in
        inner loops are multiplied together before these loops.
        """
        groups: dict[int, tuple[CodeBlock, list[Node]]] = {}
        args = node.args
        for part in self.shifts.products.get(node, ()):
            if part in self.shifts.members and set(part.args) <= set(args):
                args = (part, *(factor for factor in args if factor not in part.args))
        powers = inverse_norms(self.graph, args)
        roots = [factor for factor in args if is_inverse_root(factor)] if len(args) > 1 else []
        for factor in args:
            if factor in roots or factor in powers:
                continue
            home = self._outermost_block(factor, block) if factor.op != "const" else block
            groups.setdefault(id(home), (home, []))[1].append(factor)
        if powers:
            product: scalars.Scalar = yield self._divided_by_norms(powers, list(groups.values()), block)
            return product
        parts = []
        for home, group in groups.values():
            joins = home is not block and len(group) > 1
            joined = [self.graph.mul(group)] if joins else self._with_hoisted_products(node, group, block.context)
            parts += [(factor, home if joins else block) for factor in joined]
        # One after the other: the whole power may overflow.
        parts += [(part, block) for power in roots for part in factors_of_root(self.graph, power)]
        factors = yield from in_turn(self.value(*part) for part in parts)
        return factors[0] if len(factors) == 1 else scalars.Operation("mul", tuple(factors))

    def _with_hoisted_products(self, node: Node, factors: Sequence[Node], context: EnclosingLoops) -> list[Node]:
        """Return the `factors` of the product `node`, with factors that depend on the same loop indices of ``context``
        joined if their product is worth storing as an array: ``u[j]*v[j]`` in ``u[j]*v[j]*A[i, j]``.

        Factors without an index go into a joined factor if it is still worth an array then: ``2*u[j]*v[j]``.
        """
        groups: dict[frozenset[int], list[Node]] = {}
        for factor in factors:
            groups.setdefault(factor.free.intersection(context.variables), []).append(factor)
        if len(groups) == len(factors) or context.dimension < 2:
            return list(factors)
        constant = [factor for factor in groups.pop(frozenset(), ()) if factor.data != -1]
        found = [factor for factor in factors if factor.data == -1]
        for group in groups.values():
            product = self.graph.mul(group)
            is_joined = len(group) > 1 and product is not node and self._is_worth_hoisting(product, context)
            if is_joined and constant:
                scaled = self.graph.mul((*constant, *group))
                if scaled is not node and self._is_worth_hoisting(scaled, context):
                    product, constant = scaled, []
            found += [product] if is_joined else group
        return [*constant, *found]

    def _divided_by_norms(
        self, powers: Sequence[Node], groups: Sequence[tuple[CodeBlock, list[Node]]], block: CodeBlock
    ) -> Recursion[scalars.Scalar]:
        """Return code for a product with negative `powers` of norms, such as ``x*n**-3``, which divides by n three
        times, since ``n**3`` may overflow or underflow. `groups` has pairs of a block of code and the other factors
        that are computed there.
        """
        inner = [factor for home, group in groups if home is block for factor in group]
        outer = [(home, group) for home, group in groups if home is not block]
        numbers = [factor for factor in inner if factor.op == "const"]
        inner = [factor for factor in inner if factor.op != "const"]
        inverses = [(power.args[0], -power.args[1].data) for power in powers]
        first = [base for base, count in inverses for _ in range(count)][: len(inner)]
        rest = [self.graph.pow(base, self.graph.const(first.count(base) - count)) for base, count in inverses]
        rest = [power for power in rest if power is not self.graph.one]
        needed = {id(self._outermost_block(power, block)) for power in rest}
        home = next((home for home, _ in outer if needed <= set(map(id, home.outwards()))), None)
        parts = [self.value(factor, block) for factor in numbers]
        for one, base in zip_longest(inner, first):
            parts += [] if one is None else [self.value(one, block)]
            parts += [] if base is None else [self._inverse(base, block)]
        for around, group in outer:
            own = [*group, *(rest if around is home else ())]
            parts.append(self.value(self.graph.mul(own), around if len(own) > 1 else block))
        if home is None:
            parts += [self._inverse(p.args[0], block) for p in rest for _ in range(-p.args[1].data)]
        factors = yield from in_turn(parts)
        return scalars.Operation("mul", tuple(factors))

    def _inverse(self, norm: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Return a name (or array read) with the value ``1/norm``, which is computed once, outside of loops where
        possible.
        """
        node = self.graph.pow(norm, self.graph.const(-1))
        value: scalars.Scalar = yield self.value(node, block)
        if not isinstance(value, Name | Load):
            block.values[node] = name = Name(self._local("v"))
            block.statements.append(let(name.name, value))
            value = name
        return value

    def _root(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Return the power `node`, whose exponent is like 3/2, as a product with a square root, which takes a tenth of
        the time of a general power.
        """
        base: scalars.Scalar = yield self.value(node.args[0], block)
        if not isinstance(base, Name | Load):
            block.values[node.args[0]] = name = Name(self._local("v"))
            block.statements.append(let(name.name, base))
            base = name
        return root(base, node.args[1].data)

    def _bessel(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Return code for the call `node` of a modified Bessel function of order 0 or 1, by polynomials. Scalars that
        occur in them several times are assigned to variables in ``block``.
        """
        argument: scalars.Scalar = yield self.value(node.args[1], block)

        def named(value: scalars.Scalar) -> scalars.Scalar:
            """Return the name of a new scalar with the ``value``, or ``value`` if it is a name or a read."""
            if isinstance(value, Name | Load):
                return value
            name = self._local("v")
            block.statements.append(let(name, value))
            return Name(name)

        return modified_bessel(int(node.args[0].data), node.data is scaled_besseli, argument, named)

    # -------------------------------------------------------------- where values are computed

    def _outermost_block(self, node: Node, block: CodeBlock) -> CodeBlock:
        """Return the outermost block around `block` in which `node` can be computed: the one inside of all loops on
        whose indices `node` depends (loop-invariant code motion).
        """
        best = block
        while block.parent is not None and block.own.isdisjoint(node.free):
            private = block.private is not None and node in block.private
            if private and not node.total:
                break
            outward, block = bool(block.own) or (block.private is not None and not private), block.parent
            if not self.planner.is_safe(node, block.context.rows):
                break
            if outward:
                best = block
        return best


def _is_inequation(condition: Node) -> bool:
    """Return whether a condition says that numbers or indices differ."""
    return all(part.op == "compare" and part.data == "ne" for part in conjuncts(condition))
