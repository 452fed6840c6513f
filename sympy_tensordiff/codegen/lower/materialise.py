"""Materialisation: which whole tensors are stored in arrays; entries of the others are computed where they are used.

Arrays are the results, the operands and results of library calls, and sums over axes, each of which is computed once.
All other tensors are fused into the loops that use them, unless

- two arrays use it, or every entry of an array uses each of its entries again (it is repeated
  along an axis), and it is more than a few operations;
- it has grown large: compilers take more than linear time for a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence, Set
from fractions import Fraction
from math import prod

import sympy

from sympy_tensordiff.codegen.lower.functions import is_external, is_user_function
from sympy_tensordiff.codegen.lower.plan import StorageCandidate
from sympy_tensordiff.functions.table import record_of
from sympy_tensordiff.graph.contractions import is_core, is_view, sums_labels
from sympy_tensordiff.graph.interning import breadth_first
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, reachable

MAX_SCALAR_OPERATIONS = 60
"""A value of more than this becomes an array. Half and twice as much change no text of the benchmarks."""

MAX_RECOMPUTED_OPERATIONS = 4
"""A value of no more than this is computed again wherever it is used.

Of 2, the Hessian of a factorization takes twice the time; of 8, two benchmarks take 0.99 to 1.01 of it.
"""

MAX_SMALL_PRODUCT = 150
"""Loops compute a batch of matrix products if each has no more multiplications than this.

2,000 products in double precision, LLVM, one core of an AMD EPYC, loops against BLAS: a vector times a matrix of 3 by 3
15 to 171 us, of 12 by 12 88 to 263; two matrices of 4 by 4 29 to 184, of 6 by 6 252 to 264, of 8 by 8 872 to 485.
"""

_FUNCTION = 20
CONDITIONS = frozenset({"compare", "and", "or", "not"})


def arrays_of(roots: Sequence[Node], small_in_loops: bool = False) -> set[Node]:
    """Return the nodes of tensors below `roots` that are to be stored in arrays, because a library computes them or
    they are costly and used several times. Arguments, which are arrays already, are not included.

    With `small_in_loops`, loops compute batches of small matrix products (`is_small_batch`), whose operands then need
    no arrays.
    """
    parts = reachable(*roots)
    work = _Materialising(parts, small_in_loops)
    work.arrays.update(roots)
    for part in reversed(parts):
        work.visit(part)
    return {node for node in work.arrays if node.op != "tensor"}


class _Materialising:
    """Decides for `arrays_of` which tensors are stored in arrays. A tensor is visited after all nodes that use it."""

    def __init__(self, parts: Sequence[Node], small_in_loops: bool) -> None:
        self.small_in_loops = small_in_loops
        self.arrays: set[Node] = set()
        self.users: dict[Node, Node | None] = {}
        """The one array in whose loop a node is computed; None where there are several."""
        self.costs: dict[Node, int] = {}
        lengths: dict[Node, int] = {}
        """The operations in the formula of an entry: operands that are stored since they are repeated are reads."""
        for part in parts:
            self.costs[part] = self.cost(part, self.costs)
            repeated = self.repeated_operands(part)
            lengths[part] = self.cost(part, {arg: 1 if arg in repeated else lengths[arg] for arg in part.args})
            if lengths[part] > MAX_SCALAR_OPERATIONS and part.shape and _may_be_stored(part):
                self.arrays.add(part)
                self.costs[part] = lengths[part] = 1

    def array_operands(self, node: Node) -> tuple[Node, ...] | None:
        """Return the arrays that the library call for `node` reads; None if loops compute it."""
        return None if self.small_in_loops and is_small_batch(node) else array_operands(node)

    def repeated_operands(self, node: Node) -> set[Node]:
        """Return the operands of the product of tensors `node` that are costly, and each entry of which is used for
        several entries of `node`, so that they are worth arrays.
        """
        if node.op != "ein":
            return set()
        axes = len(node.data.extents)
        repeated = [arg for arg, own in zip(node.args, node.data.inputs, strict=True) if own and len(set(own)) < axes]
        return {arg for arg in repeated if self.costs[arg] > MAX_RECOMPUTED_OPERATIONS and _may_be_stored(arg)}

    def cost(self, node: Node, costs: Mapping[Node, int]) -> int:
        """Return roughly how many operations one entry of `node` takes; ``costs`` has those of its arguments."""
        if node.op in ("const", "scalar", "index"):
            return 0
        if node.op in ("tensor", "comprehension") or self.array_operands(node) is not None or sums_labels(node):
            return 1
        if node.op in RANGED:
            return MAX_SCALAR_OPERATIONS
        return _own_cost(node) + sum(costs[arg] for arg in node.args)

    def visit(self, node: Node) -> None:
        """Decide which arguments of `node` are stored in arrays. All nodes that use `node` have been visited before."""
        if node not in self.arrays and node not in self.users:
            return  # an inverse that is only solved with
        user = node if node in self.arrays or node.op == "comprehension" else self.users[node]
        operands = self.array_operands(node)
        if operands is not None:
            self.arrays.update(operands)
            self.arrays.add(node)
        elif node.op == "ein":
            if sums_labels(node):
                self.arrays.add(node)
                user = node
            for arg, labels in zip(node.args, node.data.inputs, strict=True):
                self.record_use(arg, node, user, len(set(labels)) < len(node.data.extents))
        else:
            for arg in node.args:
                self.record_use(arg, node, user, _repeats(node, arg))

    def record_use(self, node: Node, by: Node, user: Node | None, repeated: bool) -> None:
        """Record that the node ``by`` uses `node` in the loop nest that fills the array `user`. Store `node` in an
        array if it is costly and used by a second loop nest, or several times per entry in one (``repeated``).
        """
        if node in self.arrays:
            return
        is_new = repeated or user is None or self.users.get(node, user) is not user
        # What index notation computes behind a condition reads nothing where that fails.
        always = bool(node.shape) or (by.shape and by.op != "select") or by.op == "ein"
        if is_new and always and _may_be_stored(node) and self.costs[node] > MAX_RECOMPUTED_OPERATIONS:
            self.arrays.add(node)
        else:
            self.users[node] = None if is_new else user


def _may_be_stored(node: Node) -> bool:
    """Return whether an array may store `node`: it depends on no bound index and is not a condition."""
    return node.op not in CONDITIONS and all(v >= 0 for v in node.free)


def _own_cost(node: Node) -> int:
    """Return roughly how many operations `node` takes beyond its arguments."""
    if node.op == "call":
        return 2 if record_of(node.data).is_exact else _FUNCTION
    if node.op == "pow":
        exponent = node.args[1]
        small = exponent.op == "const" and isinstance(exponent.data, int) and abs(exponent.data) <= 4
        return 4 if small else _FUNCTION
    return max(1, len(node.args) - 1)


def is_dear(node: Node) -> bool:
    """Return whether `node` calls a costly function, such as exp, or is a power that needs a logarithm."""
    return is_general_power(node) or (node.op == "call" and not record_of(node.data).is_exact)


def is_general_power(node: Node) -> bool:
    """Return whether computing the power `node` needs a logarithm, since a few products, divisions or a square root are
    not enough.
    """
    if node.op != "pow":
        return False
    exponent = node.args[1].data if node.args[1].op == "const" else None
    if not isinstance(exponent, int | Fraction) or exponent.denominator not in (1, 2, 4):
        return True
    return not -MAX_PRODUCT_EXPONENT <= exponent <= MAX_PRODUCT_EXPONENT


MAX_PRODUCT_EXPONENT = 16
"""The largest integer or half-integer exponent of a power that a few products compute, as ``r**-12``."""


def is_slice(graph: Graph, tensor: Node) -> bool:
    """Return whether `tensor` is a slice of an array in memory order, such as ``x[1:, 3]``, which is read without a
    copy.
    """
    if tensor.op != "comprehension" or tensor.args[0].op != "read" or tensor.args[0].args[0].op != "tensor":
        return False
    axes, forms = graph.bound(tensor), tensor.args[0].data
    read = [v for form in forms for v in axes if v in form.atoms()]
    return read == list(axes) and forms[-1].coefficient(axes[-1]) == 1 and not any(form.compounds() for form in forms)


def _repeats(node: Node, arg: Node) -> bool:
    """Return whether one entry of `arg`, an argument of `node`, is used for several entries of `node`, as in
    broadcasting.
    """
    if node.op in BINDERS:
        return all(v >= 0 for v in arg.free)
    if node.op == "read":
        return any(v < 0 for v in node.free)
    return arg.shape != node.shape or (any(v < 0 for v in node.free) and all(v >= 0 for v in arg.free))


# ---------------------------------------------------------------------------- library calls
# Which nodes of whole tensors become calls of a library on whole arrays.


STORED = frozenset({"tensor", "comprehension", "inv", "cof", "lse", "scan"})
"""Nodes other than sums of products that are arrays before anything is computed with them."""


def is_product(node: Node) -> bool:
    """Return whether `node` is a matrix product that a library (BLAS) computes.

    An operand has to have an axis of its own, and no such axis is summed. The inner product of two arrays is one, too;
    that of values that are still to be computed runs in the loop that computes them.
    """
    if not sums_labels(node) or len(node.args) != 2:
        return False
    left, right = (set(labels) for labels in node.data.inputs)
    if left != right:
        return bool((left & right) - set(node.data.output)) and left ^ right <= set(node.data.output)
    return not node.data.output and all(arg.op in STORED or sums_labels(arg) for arg in node.args)


def is_small_batch(node: Node) -> bool:
    """Return whether `node` is a batch of products of small matrices, which loops compute faster than one library call
    for each. The lengths of all axes but the batch axes must be numbers, with a small product.

    Products with inverses or cofactors are not: they become calls of other kinds.
    """
    if not is_product(node) or any(arg.op in ("inv", "cof") for arg in node.args):
        return False
    left, right = node.data.inputs
    batch = set(left) & set(right) & set(node.data.output)
    lengths = [extent for label, extent in enumerate(node.data.extents) if label not in batch]
    is_numeric = all(extent.is_constant for extent in lengths)
    return bool(batch) and is_numeric and prod(extent.constant for extent in lengths) <= MAX_SMALL_PRODUCT


def solved_place(node: Node) -> int | None:
    """Return the position of the operand ``inv(A)`` in a product like ``inv(A)*B``, which a linear solver computes
    without the inverse; None for other nodes.

    One of its last two axes is summed over; the other one is an axis of the product that the other operand does not
    have. Those in front are axes of all three.
    """
    if is_product(node):
        for place, (arg, labels) in enumerate(zip(node.args, node.data.inputs, strict=True)):
            batch, theirs = set(labels[:-2]), set(node.data.inputs[1 - place])
            free = set(labels[-2:]) - theirs
            if arg.op == "inv" and len(free) == 1 and free.issubset(node.data.output):
                summed = set(labels[-2:]) - free
                is_one = len(summed) == 1 and summed.isdisjoint(node.data.output) and not summed & batch
                if is_one and len(batch) == len(labels) - 2 and batch.issubset(theirs.intersection(node.data.output)):
                    return place
    return None


def cofactor_tangent_labels(node: Node) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """Return ``(position, summed, others)`` if `node` is the product of a matrix X and the second-order cofactors of a
    matrix A, the derivative of the cofactors of A in the direction X; else None. ``position`` is that of X among the
    operands, ``summed`` are the labels that are summed over, and ``others`` those of the result.
    """
    if is_core(node) and len(node.args) == 2:
        for place, labels in enumerate(node.data.inputs):
            tensor, axes = node.args[1 - place], node.data.inputs[1 - place]
            if (
                tensor.op == "cof"
                and tensor.data == 2
                and len(set(axes)) == len(axes) == 4
                and len(set(labels)) == len(labels) == 2
            ):
                for pair, rest in ((axes[:2], axes[2:]), (axes[2:], axes[:2])):
                    if set(pair) == set(labels) and set(rest) == set(node.data.output):
                        return place, pair, rest
    return None


def determinant(node: Node) -> tuple[str, Node] | None:
    """Return ``(function name, matrix)`` if `node` is ``log(det(A))`` or ``log(abs(det(A)))``; else None."""
    if node.op == "call" and node.data is sympy.log:
        inner, function = node.args[0], "logdet"
        if inner.op == "call" and inner.data is sympy.Abs:
            inner, function = inner.args[0], "logabsdet"
        if inner.op == "cof" and inner.data == 0:
            return function, inner.args[0]
    return None


def factorized(node: Node) -> Node | None:
    """Return the matrix whose triangular factors (LU, Cholesky) a library needs to compute `node`; None if it needs
    none.
    """
    if node.op == "inv" or (node.op == "cof" and node.data == 0):
        return node.args[0]
    if (found := determinant(node)) is not None:
        return found[1]
    place = solved_place(node) if cofactor_tangent_labels(node) is None else None
    return None if place is None else node.args[place].args[0]


def is_positive(graph: Graph, matrix: Node) -> bool:
    """Return whether `matrix` is known to be positive definite: it is declared so, or is a sum, a positive multiple or
    an inverse of such matrices.
    """
    stack = [matrix]
    while stack:
        node = stack.pop()
        if node.op in ("inv", "add") and node.shape:
            stack += node.args
        elif is_view(node) and node.data.coefficient > 0 and (node.args or len(set(node.data.output)) == 1):
            if (node.args and node.args[0].shape != node.shape) or len(node.data.extents) != len(node.shape) - (
                not node.args
            ):
                return False
            stack += node.args
        elif node not in graph.positive:
            return False
    return True


def array_operands(node: Node) -> tuple[Node, ...] | None:
    """Return the nodes whose arrays the library call for `node` reads; None if no library computes `node`. These are
    its arguments, except for products ``inv(A)*B``, computed by solving, which read A and B, and determinants, which
    read their matrix.
    """
    if node.op in ("inv", "cof", "lse", "scan"):
        return node.args
    if (found := determinant(node)) is not None:
        return (found[1],)
    if is_product(node):
        place = solved_place(node)
        if (direction := cofactor_tangent_labels(node)) is not None:
            place = 1 - direction[0]
        return tuple([arg.args[0] if n == place else arg for n, arg in enumerate(node.args)])
    return None


# ---------------------------------------------------------------------------- parts that are used elsewhere
# Which parts of a value other values use, too, and so are worth an array before the value has one.


_ARITHMETIC = RANGED | {"add", "mul", "pow", "call"}


def uses(*bodies: Node) -> Counter[Node]:
    """Return for each node below `bodies` how many nodes have it as an argument; bodies of comprehensions are not
    entered.
    """
    found: Counter[Node] = Counter()
    seen = set(bodies)
    stack = list(bodies)
    while stack:
        for arg in stack.pop().args:
            found[arg] += 1
            if arg not in seen and arg.op != "comprehension":
                seen.add(arg)
                stack.append(arg)
    return found


def shared_parts(node: Node, totals: Sequence[Counter[Node]], known: Set[int]) -> list[Node]:
    """Return the largest proper subexpressions of `node` that are worth storing because they are also used outside of
    it: scalar sums, or functions of sums, whose free indices are all in `known`. ``totals`` counts the uses of nodes in
    the kernel and in all results.

    What only one branch of a choice needs is left there, and so is what calls a function of the user's.
    """
    elsewhere = _used_elsewhere(node, totals)
    found = []
    stack = [node]
    seen = {node}
    while stack:
        part = stack.pop()
        if part is not node:
            if not part.height or part.shape or part.op == "comprehension":
                continue
            is_worth_it = part.op in _ARITHMETIC or (part.op == "select" and _is_number(part))
            if part in elsewhere and is_worth_it and known >= part.free and not calls_user_function(part):
                found.append(part)
                continue
            if part.op == "select":
                continue
        new = [arg for arg in reversed(part.args) if arg not in seen]
        seen.update(new)
        stack += new
    return found


def _used_elsewhere(node: Node, totals: Sequence[Counter[Node]]) -> set[Node]:
    """Return the nodes below `node` that are also used outside of it, and all nodes below those. Each counter in
    ``totals`` maps nodes to their numbers of uses in a larger expression that contains `node`.
    """
    here = uses(node)
    found = {part for part in here if any(total[part] > here[part] for total in totals)}
    stack = list(found)
    while stack:
        new = [arg for arg in stack.pop().args if arg in here and arg not in found]
        found.update(new)
        stack += new
    return found


def _is_number(choice: Node) -> bool:
    """Return whether the select `choice` has numeric branches, not conditions."""
    choices = breadth_first(choice, lambda part: [arg for arg in part.args[1:] if arg.op == "select"])
    return not any(arg.op in CONDITIONS for part in choices for arg in part.args[1:])


def calls_user_function(node: Node) -> bool:
    """Return whether a node below `node` calls a user function."""
    return any(is_user_function(part) for part in reachable(node))


# ---------------------------------------------------------------------------- what all calls have in common

LARGEST_TABLE = 2**20
"""Of more entries than these, no values of functions are kept from call to call."""


def is_table(candidate: StorageCandidate, arguments: Container[Node]) -> bool:
    """Return whether an array of the values of `candidate` is a constant table: it is not large, and its entries depend
    on no argument and no size, so that they are the same in all calls. `arguments` are nodes that count as arguments.
    """
    if not candidate.node.free <= frozenset(candidate.axes):
        return False
    if any(part.op == "tensor" or part in arguments for part in reachable(candidate.node)):
        return False
    extents = [high[0] - low[0] + 1 for low, high in zip(candidate.lows, candidate.highs, strict=True)]
    is_short = all(extent.is_constant for extent in extents) and prod(e.constant for e in extents) <= LARGEST_TABLE
    return is_short and not any(is_external(part) for part in reachable(candidate.node))
