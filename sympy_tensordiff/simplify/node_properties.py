"""Properties of nodes under constraints: where they are defined, where they are 0, and their cases."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Sequence

import sympy

from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.index_tests import unequal_forms
from sympy_tensordiff.graph.interning import Recursion, breadth_first, is_total, outside_of_binders, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable, replace
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.floor_elimination import symbolic_divisors
from sympy_tensordiff.integer.implication import is_empty, is_implied
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.rows import Rows, atoms_in, complement, linear, positive_rows, shape_rows
from sympy_tensordiff.simplify.sign_analysis import sign_facts

MAX_VISITED_NODES = 32
"""Cotangents of more nodes count as unconditional: products with all of their choices would explode."""


class NodeProperties:
    """Cached answers about nodes under constraints: whether they are defined (no division by 0, reads in bounds), and
    whether they are 0.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.zero: dict[tuple[Node, Constraint, Rows], bool] = {}
        self.defined: dict[tuple[Node, Constraint | None, Rows], bool] = {}
        self.reads: dict[Node, dict[Node, None]] = {}

    def is_defined(self, node: Node, facts: Rows, row: Constraint | None = None) -> Recursion[bool]:
        """Return whether `node` has a value, without a division by 0 or a read out of bounds, wherever `facts` hold;
        with a `row`, wherever `facts` hold but this constraint does not.

        To be run by `trampoline`.

        So it may be evaluated where it was not before. With a `row`: where this constraint does not hold, so that
        nothing behind guards and in ranges that imply it is evaluated.
        """
        if node.op == "comprehension":
            return False
        if node.is_guard_free:
            total = node.total or is_power_of_positive_index(node, facts) or is_power_of_positive_symbol(node)
            return total and all(is_implied(needed, facts) for needed in self.read_conditions(node))
        key = (node, row, facts)
        if key not in self.defined:
            if node.op in ("guard", "sum", "prod"):
                variables, inside, body = self.inside(node, facts)
                rows = inside[len(facts) :]
                # Bounds are computed of empty ranges, too.
                found = all(is_implied(needed, facts) for needed in divisor_constraints([row.form for row in rows]))
                for entry, known in tested_data(self.graph, variables, rows, facts):
                    found = found and all(is_implied(needed, known) for needed in inside_shape(self.graph, entry))
                found = found and (
                    (row is not None and is_implied(row, inside)) or (yield self.is_defined(body, inside, row))
                )
            else:
                found = is_total(node.op, node.data, node.args)
                found = found and all(is_implied(needed, facts) for needed in defining_constraints(self.graph, node))
                for arg in node.args:
                    found = found and (yield self.is_defined(arg, facts, row))
            self.defined[key] = found
        return self.defined[key]

    def may_evaluate(self, node: Node, facts: Rows) -> bool:
        """Return whether `node` has a value wherever `facts` hold: no division by 0, and all reads in bounds."""
        return trampoline(self.is_defined(node, facts))

    def inside(self, node: Node, facts: Rows) -> tuple[tuple[int, ...], Rows, Node]:
        """Return ``(variables, constraints, body)`` of `node`, a guard, sum or other binder. The constraints are its
        own and `facts`, those around it; a guard has no variables.
        """
        if node.op == "guard":
            return (), (*facts, *node.data), node.args[0]
        variables, rows, body = self.graph.open_shared(node, atoms_in(facts))
        return variables, (*facts, *rows), body

    def read_conditions(self, node: Node) -> Iterator[Constraint]:
        """Yield the constraints for reads in `node` to be in bounds, except for reads inside of sums and other nodes
        that bind indices.
        """
        stack = [node]
        while stack:
            top = stack[-1]
            args = () if top.op in BINDERS else top.args
            waiting = [arg for arg in args if arg not in self.reads] if top not in self.reads else []
            stack += waiting
            if not waiting:
                found = dict.fromkeys((top,) if top.op in ("read", "index") else ())
                self.reads.setdefault(stack.pop(), {**found, **{k: None for arg in args for k in self.reads[arg]}})
        for read in self.reads[node]:
            yield from defining_constraints(self.graph, read)

    def is_redundant(self, row: Constraint, node: Node, facts: Rows) -> Recursion[bool]:
        """Return whether the condition `row` in a guard around `node` is superfluous: where `facts` hold and `row`
        fails, `node` is 0 by itself and defined.
        """
        defined: bool = yield self.is_defined(node, facts, row)
        return defined and bool((yield self.vanishes_without(node, row, facts)))

    def vanishes_without(self, node: Node, row: Constraint, facts: Rows) -> Recursion[bool]:
        """Return whether `node` is provably 0 wherever `facts` hold and the constraint `row` is false. This is so if a
        guard or a range in it implies `row`: the guard ``[i < n]*x[i]`` is 0 without ``i < n``.
        """
        if node.is_guard_free:
            return node is self.graph.zero
        key = (node, row, facts)
        if key not in self.zero:
            if node.op in ("guard", "sum"):
                _, inside, body = self.inside(node, facts)
                found = is_implied(row, inside) or (yield self.vanishes_without(body, row, inside))
            elif is_power(node):
                found = yield self.vanishes_without(node.args[0], row, facts)
            elif node.op in ("add", "mul", "select"):
                found = yield self.parts_vanish_without(node, row, facts)
            else:
                found = False
            self.zero[key] = found
        return self.zero[key]

    def parts_vanish_without(self, node: Node, row: Constraint, facts: Rows) -> Recursion[bool]:
        """Return whether the product, addition or select `node` is 0 wherever `facts` hold and `row` fails: one factor
        of a product must be 0 there, or every term or branch.

        Of a product one factor has to be 0, of the others all parts.
        """
        every = node.op != "mul"
        for part in node.args[node.op == "select" :]:
            if (yield self.vanishes_without(part, row, facts)) is not every:
                return not every
        return every


def is_conditional(graph: Graph, node: Node) -> bool:
    """Return whether `node` is exactly 0 where some condition fails, because it contains a guard or a select with a
    branch 0. The answer is False if more than ``MAX_VISITED_NODES`` nodes would have to be visited.
    """
    return _is_conditional_within(graph, node, [MAX_VISITED_NODES])


def _is_conditional_within(graph: Graph, node: Node, budget: list[int]) -> bool:
    """Return whether `node` is exactly 0 where some condition fails, because it contains a guard or a select with a
    branch 0. Each visited node decreases ``budget[0]``; the answer is False if the budget is used up.
    """
    budget[0] -= 1
    if budget[0] < 0:
        return False
    match node.op:
        case "add":
            return all(_is_conditional_within(graph, term, budget) for term in node.args)
        case "select":
            sides = node.args[1:]
            return any(map(graph.is_zero, sides)) or any(_is_conditional_within(graph, side, budget) for side in sides)
        case "mul" | "sum" | "ein" | "comprehension":
            return any(_is_conditional_within(graph, part, budget) for part in node.args)
    return node.op == "guard"


def count_true_terms(graph: Graph, node: Node) -> Node:
    """Return a node that counts the terms of `node` whose conditions hold, ``[i < j] + [i == j]`` for
    ``[i < j]*a + [i == j]*b``: it is 0 where all conditions fail. Terms under the same conditions count once; a node
    without conditions counts as 1.

    It counts the selected terms. The value of `node` does not show this: selected terms may cancel where a derivative
    is not 0.
    """
    if graph.is_zero(node):
        return node
    if not is_conditional(graph, node):
        return graph.broadcast(graph.one, node.shape) if node.shape else graph.one
    match node.op:
        case "select":
            condition, value, other = node.args[0], *(count_true_terms(graph, side) for side in node.args[1:])
            is_tested = condition is graph.compare("lt", graph.zero, value) and value.shape == node.shape
            return value if is_tested and graph.is_zero(other) else graph.select(condition, value, other)
        case "guard":
            return graph.guard(node.data, count_true_terms(graph, node.args[0]))
        case "add":
            return graph.add(list(dict.fromkeys(count_true_terms(graph, term) for term in node.args)))
        case "sum":
            variables, rows, body = graph.open(node)
            return graph.sum(variables, rows, count_true_terms(graph, body))
        case "mul":
            return graph.mul([count_true_terms(graph, factor) for factor in node.args])
        case "ein":
            operands = list(zip(node.args, node.data.inputs, strict=True))
            extents: dict[Hashable, Affine] = dict(enumerate(node.data.extents))
            chosen = [(count_true_terms(graph, part), own) for part, own in operands if is_conditional(graph, part)]
            return graph.ein(1, chosen, node.data.output, extents)
        case "comprehension":
            variables, _, body = graph.open(node)
            return graph.comprehension(variables, node.data, count_true_terms(graph, body))
    return graph.select(graph.compare("ne", node, graph.zero), graph.one, graph.zero)


def is_power_of_positive_index(node: Node, facts: Rows) -> bool:
    """Return whether `node` is a constant power, such as ``1/m``, of an index form that `facts` prove positive."""
    base, exponent = node.args if node.op == "pow" else (node, node)
    return base.op == "index" and exponent.op == "const" and is_implied(Constraint("ge", base.data - 1), facts)


def is_power_of_positive_symbol(node: Node) -> bool:
    """Return whether `node` is a power of a symbol that is declared positive, such as ``1/h**2``."""
    base, exponent = node.args if node.op == "pow" else (node, node)
    return base.op == "scalar" and bool(base.data.is_positive) and exponent.total


def is_power(node: Node) -> bool:
    """Return whether `node` is ``u**n`` for a positive integer n; it is then 0 where ``u`` is 0."""
    exponent = node.args[1] if node.op == "pow" else None
    return exponent is not None and exponent.op == "const" and isinstance(exponent.data, int) and exponent.data > 0


def inside_shape(graph: Graph, node: Node) -> Rows:
    """Return the constraints that the indices of the read `node` are within the tensor's shape, such as ``0 <= i < n``
    for ``x[i]``, also for integer tensors in its indices. () if `node` reads nothing.
    """
    if node.op not in ("read", "index"):
        return ()
    data = graph.inside_data(node.data if node.op == "read" else (node.data,)) if graph.integers else ()
    return (*data, *shape_rows(node.data, node.args[0].shape)) if node.op == "read" else data


def defining_constraints(graph: Graph, node: Node) -> Rows:
    """Return the constraints under which a read or an index form has a value: it is in bounds, and divisors are
    positive.
    """
    forms = node.data if node.op == "read" else (node.data,) if node.op == "index" else ()
    return (*inside_shape(graph, node), *(() if linear(forms) else divisor_constraints(forms)))


def divisor_constraints(forms: Iterable[Affine]) -> Rows:
    """Return the constraints ``n >= 1`` for all divisors in `forms` that are not numbers: ``n`` in ``i//n``."""
    return positive_rows(symbolic_divisors(forms))


def tested_data(graph: Graph, variables: Sequence[int], rows: Rows, facts: Rows) -> Iterator[tuple[Node, Rows]]:
    """Yield ``(entry, constraints)`` for each integer-tensor entry in `rows`, such as ``p[i]``, with the constraints
    that hold where it is read. `rows` are the conditions of a guard, or the bounds of loops over `variables`; `facts`
    always hold.

    The rows of a range are tested where the loops around it run, those of a guard where the others hold.
    """
    for row in rows if graph.integers else ():
        for entry in data_entries([row.form]):
            yield graph.index(Affine.variable(entry)), (*facts, *context_of(row, rows, variables, entry))


def context_of(
    row: Constraint, rows: Rows, variables: Sequence[int], entry: IndirectIndex | None = None
) -> Iterator[Constraint]:
    """Yield the constraints in `rows` that hold already where `row`, one of them, is tested. In loops over `variables`
    these are the bounds of outer loops; in a guard, which has no `variables`, all other conditions. Those that contain
    `entry` are left out.
    """
    place = {v: n for n, v in enumerate(variables)}

    def innermost_position(row: Constraint) -> int:
        """Return the position in `variables`, a list of loop variables, of the innermost variable that the constraint
        ``row`` contains; -1 if it contains none.
        """
        return max((place[v] for v in row.form.atoms() if v in place), default=-1)

    around = (
        other
        for other in rows
        if other is not row and (not variables or innermost_position(other) < innermost_position(row))
    )
    return (other for other in around if entry is None or entry not in data_entries([other.form]))


MOST_CASES = 8
"""Values with more cases are not split."""


def cases_of(graph: Graph, value: Node) -> list[tuple[Rows, Node]]:
    """Return `value` split into cases by its guards: pairs ``(constraints, value where these are true)``, which exclude
    each other and cover all points. If there are more than ``MOST_CASES``, return ``[((), value)]``.

    A choice by indices that differ is split as well: the first of them that differs is less or greater. Guards inside
    of binders stay.
    """
    found: list[tuple[Rows, Node]] = []
    waiting: list[tuple[Rows, Node]] = [((), value)]
    while waiting:
        rows, case = waiting.pop()
        choice = _outermost_choice(case)
        if choice is None:
            found.append((rows, case))
            continue
        if choice.op == "guard":
            inside, outside = [choice.data], list(complement(choice.data))
            case_value, elsewhere = choice.args[0], graph.zero
        else:
            inside, outside = _unequal(unequal_forms(choice.args[0]))
            case_value, elsewhere = choice.args[1:]
        parts = [((*rows, *piece), replace(graph, case, {choice: case_value})) for piece in inside]
        parts += [((*rows, *piece), replace(graph, case, {choice: elsewhere})) for piece in outside]
        waiting += [part for part in reversed(parts) if not is_empty(part[0])]
        if len(found) + len(waiting) > MOST_CASES:
            return [((), value)]
    return found


def _outermost_choice(node: Node) -> Node | None:
    """Return the first guard or select by ``i != j`` in `node`, outermost first and not inside of sums or other
    binders; None if there is none.
    """
    parts = breadth_first(node, lambda part: [arg for arg in outside_of_binders(part) if not arg.is_guard_free])
    return next((part for part in parts if part.op == "guard" or _is_unequal_choice(part)), None)


def _is_unequal_choice(node: Node) -> bool:
    """Return whether `node` is a select whose condition says that indices differ, ``i != j``."""
    return node.op == "select" and bool(unequal_forms(node.args[0]))


def _unequal(forms: Sequence[Affine]) -> tuple[list[Rows], list[Rows]]:
    """Return ``(unequal, equal)``, two lists of systems of constraints. Each point satisfies exactly one system: one of
    ``unequal`` if no form in ``forms`` is 0 there, one of ``equal`` if some form is 0.
    """
    inside: list[Rows] = [()]
    outside: list[Rows] = []
    for form in forms:
        outside += [(*rows, Constraint("eq", form)) for rows in inside]
        sides = (Constraint("ge", -form - 1), Constraint("ge", form - 1))
        inside = [(*rows, side) for rows in inside for side in sides]
    return inside, outside


def unconditional(root: Node) -> set[Node]:
    """Return the nodes below `root` that are evaluated for all values of the data: not in the branches of selects, nor
    under guards whose conditions read entries of integer tensors.

    Guards on indices alone do not count: they are part of the cotangents.
    """
    found = {root}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.op == "guard" and data_entries(row.form for row in node.data):
            continue
        new = [arg for arg in node.args[: 1 if node.op == "select" else None] if arg not in found]
        found.update(new)
        stack += new
    return found


class FiniteNodes(Container[Node]):
    """A set of nodes, for tests ``node in finite_nodes``. It contains a node if the node is finite for all inputs at
    which the function, given as a node `root`, is finite. Such a node times 0 is 0.

    These are the nodes that the function evaluates unconditionally, and nodes for which
    `is_finite_for_finite_arguments` proves that they are finite for all finite entries of the tensors. A quotient that
    the function evaluates is not among these: the function may be finite where it is infinite, as ``relu(-oo)``. An
    exponential is, since overflow does not count. Nodes that are visited are cached.

    `root` is the value of the function; `values` are the functions that `root` is a derivative of, whose exponentials
    are finite, too.
    """

    def __init__(self, graph: Graph, root: Node, values: Sequence[Node] = ()) -> None:
        self._graph = graph
        self._evaluated = unconditional(root)
        self._exponentials = {
            node
            for nodes in (self._evaluated, *map(unconditional, values))
            for node in nodes
            if node.op == "call" and node.data is sympy.exp
        }
        self._finite: dict[Node, bool] = {}

    def __contains__(self, node: object) -> bool:
        """Return whether `node` has a finite value wherever the function has one."""
        assert isinstance(node, Node)
        if node in self._evaluated:
            return True
        for part in reachable(node, known=self._finite):
            is_finite = part in self._exponentials or is_finite_for_finite_arguments(self._graph, part)
            self._finite[part] = is_finite and all(self._finite[arg] for arg in part.args)
        return self._finite[node]


def is_finite_for_finite_arguments(graph: Graph, node: Node) -> bool:
    """Return whether the value of the operation `node` is finite for all finite arguments with the signs that its
    arguments are known to have.

    Examples are a quotient by ``1 + x**2``, the exponential of a value that is never positive, and softmax,
    ``exp(X - lse(X))``.
    """
    if is_total(node.op, node.data, node.args):
        return True
    if node.op == "pow" and node.args[1].op == "const":
        exponent, sign = node.args[1].data, sign_facts(graph, node.args[0]).sign
        return bool(sign >= (1 if exponent < 0 else 0))
    return node.op == "call" and node.data is sympy.exp and _is_never_positive(graph, node.args[0])


def _is_never_positive(graph: Graph, node: Node) -> bool:
    """Return whether `node` is provably at most 0, by its signs or because it is ``X - logsumexp(X)``."""
    for shift in node.args if node.op == "add" else ():
        coefficient, total = graph.split_view(shift)
        total = total.args[0] if is_view(total) and total.args else total
        if coefficient == -1 and total.op == "lse":
            scores = total.args[0]
            terms = scores.args if scores.op == "add" else (scores,)
            return {shift, *terms} == set(node.args)
    return sign_facts(graph, graph.neg(node)).sign >= 0


def may_be_infinite(nodes: Sequence[Node]) -> bool:
    """Return whether some power or function below `nodes` may be infinite for some entries of tensors, such as
    ``1/x[i]``.

    Overflow does not count, nor the slope of a root at 0, which is chosen to be 0.
    """
    parts = reachable(*nodes)
    tested = {arg for part in parts if part.op == "compare" and part.data == "ne" for arg in part.args}
    varying: set[Node] = set()
    for part in parts:
        if part.op == "tensor" or not varying.isdisjoint(part.args):
            varying.add(part)
            if part.args and part.args[0] not in tested and _may_be_infinite(part):
                return True
    return False


def _may_be_infinite(node: Node) -> bool:
    """Return whether `node` is a power or a call that may be infinite or undefined for some arguments, such as ``1/x``
    or ``log(x)``. Exponentials and their powers do not count.
    """
    base = node.args[0] if node.op == "pow" else node
    is_exponential = base.op == "call" and base.data is sympy.exp
    return node.op in ("pow", "call") and not is_exponential and not is_total(node.op, node.data, node.args)
