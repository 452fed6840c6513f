"""Canonical signs and coefficients: ``(x[i] - x[p])**3`` is ``-(x[p] - x[i])**3``, ``(2*a - 2*b)*c`` is
``2*(a - b)*c``.

Additions that are factors, bases of integer powers, summands or arguments of odd and even functions give away their
sign and the greatest common divisor of their coefficients. So terms that differ in those alone are one node, and sums
of them under other bound indices, too: the constructors of the graph, which collect equal terms, do the rest.

Of an addition and its opposite the one stays that subtracts fewer terms, or smaller multiples of entries; of ``a - b``
and ``b - a`` the one whose first term is added. First are numbers, then entries of tensors, those at indices from
outside before those that a sum binds, then by name and index.

Signs of floating point numbers are exact, and so is the whole rewriting, except that common divisors other than powers
of two are rounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from math import gcd, lcm
from typing import Any, NamedTuple

from sympy_tensordiff.functions.table import record_of
from sympy_tensordiff.graph.interning import Number, breadth_first, takes_tensors
from sympy_tensordiff.graph.nodes import Graph, Node, reachable, rewritten
from sympy_tensordiff.integer.affine import Affine

ENTERED = frozenset({"mul", "ein", "sum", "guard"})
"""Nodes that are linear in their arguments, or in each of their factors."""

SKETCH = 48
"""Terms are compared by at most so many nodes; larger ones by the order in which they were made."""


class Signed(NamedTuple):
    """A node in two equal forms: `alone` for use by itself, and ``number*core`` for use as a factor of a product.

    Then ``number`` moves in front of the product: ``x*(b - a)`` becomes ``-x*(a - b)``.

    The sign of ``core`` is canonical: it is ``a - b`` for ``b - a``.
    """

    alone: Node
    number: Number
    core: Node


def with_canonical_signs(
    graph: Graph, nodes: Sequence[Node], *, for_readers: bool = True, mixed: bool = False
) -> list[Node]:
    """Rewrite differences in `nodes` so that ``a - b`` and ``b - a`` are multiples of one node, which is then computed
    once. Return the rewritten nodes.

    Operations on whole tensors are unchanged; scalar expressions that read entries of them are rewritten only if
    ``mixed``.

    With `for_readers`, common divisors of terms are taken out, too, and indices that are bound outside come first.
    Without it, the sign of ``x[i] - y[j]`` is the same whichever indices a sum binds, so that all results agree,
    comprehensions in tensor algebra included.
    """
    work = _Signs(graph, for_readers, mixed)
    if not for_readers:
        nodes = rewritten(graph, nodes, work.comprehension)
    return [node if node.has_tensor_ops and not mixed else work.root(node) for node in nodes]


class _Signs:
    """Rewrites nodes so that ``a - b`` and ``b - a`` become multiples of one node. The result for each node is stored
    in ``done``; the options are those of `with_canonical_signs`.
    """

    def __init__(self, graph: Graph, for_readers: bool, mixed: bool) -> None:
        self.graph = graph
        self.for_readers = for_readers
        self.mixed = mixed
        self.done: dict[Node, Signed] = {}
        self.leading: dict[Node, tuple[Any, ...]] = {}

    def root(self, node: Node) -> Node:
        """Return `node`, an expression or a comprehension, with canonical signs."""
        if node.op != "comprehension":
            return self.within(node)
        # Its axes are indices from outside, whose order is known.
        variables, _, body = self.graph.inside(node, ())
        new = self.within(body)
        if new is body:
            return node
        found = self.graph.comprehension(variables, node.data, new)
        if node in self.graph.labels:
            self.graph.labels.setdefault(found, self.graph.labels[node])
        return found

    def comprehension(self, node: Node) -> Node:
        """Return `node` with canonical signs if it is a comprehension without operations on whole tensors; other nodes
        unchanged.
        """
        return self.root(node) if node.op == "comprehension" and not node.has_tensor_ops else node

    def within(self, node: Node) -> Node:
        """Return `node` with canonical signs, so that ``a - b`` and ``b - a`` below it become multiples of one node.
        The name that a node has for readers passes to the node that replaces it.
        """
        for part in reachable(node):
            if part not in self.done:
                self.done[part] = self.signed(part)
                if part in self.graph.labels:
                    self.graph.labels.setdefault(self.done[part].alone, self.graph.labels[part])
        return self.done[node].alone

    def signed(self, node: Node) -> Signed:
        """Return `node` as a number times a node with a canonical sign: ``b - a`` is -1 times ``a - b``. The dictionary
        ``self.done`` maps the arguments of `node` to this form.
        """
        is_whole = node.has_tensor_ops and not (self.mixed and not node.shape and not takes_tensors(node))
        if is_whole or not node.args:
            return Signed(node, 1, node)
        args = [self.done[arg] for arg in node.args]
        match node.op:
            case "mul":
                factors = (arg.core for arg in args)
                return self.split(self.graph.mul([*(self.graph.const(arg.number) for arg in args), *factors]))
            case "pow" if _is_integer(node.args[1]) and args[0].number != 1:
                base = args[0]
                number = self.graph.pow(self.graph.const(base.number), node.args[1])
                return self.split(self.graph.mul((number, self.graph.pow(base.core, node.args[1]))))
            case "call" if len(args) == 1 and args[0].number < 0 and record_of(node.data).parity:
                call = self.graph.call(node.data, [self.opposite(args[0])])
                return self.split(self.graph.neg(call) if record_of(node.data).parity < 0 else call)
            case "compare" if node.data in ("eq", "ne") and node.args[1] is self.graph.zero:
                return self.split(self.graph.with_args(node, [args[0].core, node.args[1]]))
            case "sum" | "guard":
                inner = args[0]
                core = self.graph.with_args(node, [inner.core])
                alone = core if inner.number == 1 else self.graph.scale(inner.number, core)
                return self.split(alone)
            case "select":
                return self.choice(node, args)
            case _:
                return self.split(self.graph.with_args(node, [arg.alone for arg in args]))

    def choice(self, node: Node, args: Sequence[Signed]) -> Signed:
        """Return the select `node`, ``x if c else y``, as a number times a select: ``-(a if c else b)`` for ``-a if c
        else -b``. `args` are the condition and the two values as `Signed`.

        The number is the sign of the first value that is not 0; with ``for_readers``, it also has the size that makes
        the printed form the shortest.
        """
        condition, *values = args
        alone = self.graph.with_args(node, [arg.alone for arg in args])
        own = [value for value in values if value.core is not self.graph.zero]
        number = (-1 if own[0].number < 0 else 1) * (_front_number(own) if self.for_readers else 1)
        if number == 1:
            return Signed(alone, 1, alone)
        scaled = [self.graph.scale(value.number / Fraction(number), value.core) for value in values]
        core = self.graph.select(condition.alone, *scaled)
        stays = number.denominator == 1 or len(own) > 1
        return Signed(alone if stays else self.graph.scale(number, core), number, core)

    def split(self, node: Node) -> Signed:
        """Return `node` as a number times a node whose sign is canonical, as ``-1*(a - b)`` for ``b - a``. If the
        attribute ``for_readers`` is true, a common divisor of the terms is also taken out.
        """
        if node.op != "add":
            number, core = self.graph.split_coefficient(node)
            return Signed(node, 1, node) if core is self.graph.one else Signed(node, number, core)
        terms = [self.graph.split_coefficient(term) for term in node.args]
        number = self.sign(terms) * (common_number([number for number, _ in terms]) if self.for_readers else 1)
        if number == 1:
            return Signed(node, 1, node)
        factor = Fraction(1, number)
        return Signed(node, number, self.graph.add([self.graph.scale(factor, term) for term in node.args]))

    def opposite(self, arg: Signed) -> Node:
        """Return `arg` times -1 as a single node, with the sign moved into each term of an addition."""
        if arg.alone.op == "add":
            return self.graph.add([self.graph.neg(term) for term in arg.alone.args])
        return self.graph.neg(arg.alone)

    def sign(self, terms: Sequence[tuple[Number, Node]]) -> int:
        """Return the sign, 1 or -1, to take out of an addition with these `terms`: the sign of most of them. On a tie,
        the sign of the sum of the coefficients if all terms are tensor entries, as for ``2*x[i] - x[j]``; else that of
        the first term.

        The first term is that with the least `position`.
        """
        negative = sum(number < 0 for number, _ in terms)
        if 2 * negative != len(terms):
            return -1 if 2 * negative > len(terms) else 1
        total = sum(number for number, _ in terms)
        if total and all(node.op == "read" for _, node in terms):
            return -1 if total < 0 else 1
        return -1 if min(terms, key=self.position)[0] < 0 else 1

    def position(self, term: tuple[Number, Node]) -> tuple[Any, ...]:
        """Return the key by which the terms of an addition are ordered: constants, then reads, then other nodes; those
        without bound variables first.
        """
        node = term[1]
        if node not in self.leading:
            parts = _sample_below(node)
            kind = 0 if node is self.graph.one else 1 if node.op == "read" else 2 if node.is_guard_free else 3
            bound = self.for_readers and any(v < 0 for v in node.free)
            self.leading[node] = (kind, bound, sorted(map(label_of, parts)), node.id)
        return self.leading[node]


def without_minus(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Return `nodes` without a minus sign in front where possible: ``-(a - b)*c`` becomes ``(b - a)*c``.

    ``-2*sum((y - f)*x)`` is ``2*sum((f - y)*x)``. A difference that the result needs elsewhere stays, one of
    entries, such as ``x[p] - x[j]``, and ``1 - u``.
    """
    uses = Counter(arg for node in reachable(*nodes) for arg in node.args)
    found = []
    for node in nodes:
        variables, _, body = graph.inside(node, ()) if node.op == "comprehension" else ((), (), node)
        number, core = graph.split_view(body)
        swapped = _opposite_choice if core.op == "select" and not graph.is_choice(core) else _with_swapped_difference
        turned = swapped(graph, core, uses) if number < 0 else None
        if turned is not None:
            body = graph.scale(-number, turned)
            node = graph.comprehension(variables, node.data, body) if node.op == "comprehension" else body
        found.append(node)
    return found


def _with_swapped_difference(graph: Graph, node: Node, uses: Counter[Node]) -> Node | None:
    """Return ``-node`` without a minus sign, by swapping a difference in `node`: ``b - a`` for ``a - b``. None if there
    is no such difference; `uses` counts the uses of nodes.
    """
    if node.op == "add":
        terms = [graph.split_view(term) for term in node.args]
        usual = graph.one in node.args or all(term.op == "read" and abs(c) == 1 for c, term in terms)
        if usual or uses[node] > 1 or all(number > 0 for number, _ in terms):
            return None
        return graph.add([graph.scale(-1, term) for term in node.args])
    for n, arg in enumerate(node.args if node.op in ENTERED else ()):
        turned = _with_swapped_difference(graph, arg, uses)
        if turned is not None:
            return graph.with_args(node, [*node.args[:n], turned, *node.args[n + 1 :]])
    return None


def _front_number(values: Sequence[Signed]) -> int | Fraction:
    """Return the positive number to take out of `values`, the branches of a choice, such that the printed form is
    shortest: 2 for ``2*x`` and ``4*y``. It is 1 for floats.
    """
    numbers = [value.number for value in values]
    content = content_of(numbers)
    if len(numbers) == 1 or content.denominator == 1:
        return content
    signs = [(abs(Fraction(value.number)), value.core.op == "add") for value in values]

    def length(front: int | Fraction) -> int:
        """Return how many characters the coefficients take in print after ``front`` is taken out: those of ``front``
        itself, and those of each coefficient divided by it.
        """
        return _signs_of(front, False) + sum(_signs_of(number / front, is_sum) for number, is_sum in signs)

    fronts: list[int | Fraction] = [1, *(number for number, _ in signs)]
    return min(fronts, key=length)


def _signs_of(number: int | Fraction, is_sum: bool) -> int:
    """Return how many numbers must be written for the positive factor `number`: 0 for 1, 1 for 3 or 1/3, 2 for 2/3. If
    it multiplies a sum (`is_sum`), return twice as many.
    """
    return ((number.numerator != 1) + (number.denominator != 1)) * (1 + is_sum)


def _opposite_choice(graph: Graph, choice: Node, uses: Counter[Node]) -> Node | None:
    """Return ``-choice`` for the select `choice` without a minus sign in front: in each branch a difference is swapped,
    ``a - b`` to ``b - a``, or the sign moves into an odd function. None if a branch has neither.

    ``uses`` counts the uses of nodes.
    """
    values = []
    for value in choice.args[1:]:
        number, core = graph.split_coefficient(value)
        if core.op == "add" and any(graph.split_coefficient(term)[0] < 0 for term in core.args):
            values.append(graph.add([graph.scale(-number, term) for term in core.args]))
        elif (
            turned := _with_swapped_difference(graph, value, uses) or _with_opposite_argument(graph, value)
        ) is not None:
            values.append(turned)
    return graph.select(choice.args[0], *values) if len(values) == 2 else None


def _with_opposite_argument(graph: Graph, value: Node) -> Node | None:
    """Return ``-value`` with the factor ``f(a - b)``, for an odd function f, replaced by ``f(b - a)``; None if there is
    no such factor.
    """
    factors = graph.factors(value)
    for n, call in enumerate(factors):
        if call.op == "call" and len(call.args) == 1 and call.args[0].op == "add" and record_of(call.data).parity < 0:
            swapped = graph.call(call.data, [graph.add([graph.neg(term) for term in call.args[0].args])])
            return graph.mul([*factors[:n], swapped, *factors[n + 1 :]])
    return None


def _is_integer(exponent: Node) -> bool:
    """Return whether `exponent` is a constant integer."""
    return exponent.op == "const" and isinstance(exponent.data, int)


MAX_DENOMINATOR = 4
"""The greatest denominator that is taken out of an addition in which not all terms have it.

With any denominator the gradient of five Euler steps of size 1/10 has numbers up to 10**61, which single precision does
not have.
"""


def content_of(numbers: Sequence[Number]) -> int | Fraction:
    """Return the number to take out of an addition with the coefficients `numbers`: 1/2 for ``a/2 + 3*b``, which is
    ``(a + 6*b)/2``; 1 for ``a/10 + b``, and if a coefficient is a float.

    >>> content_of([Fraction(1, 2), 3]), content_of([4, 6]), content_of([Fraction(1, 10), 1])
    (Fraction(1, 2), Fraction(2, 1), Fraction(1, 1))
    """
    if any(isinstance(number, float) for number in numbers):
        return 1
    exact = [Fraction(number) for number in numbers]
    denominators = [f.denominator for f in exact]
    least = lcm(*denominators)
    return Fraction(gcd(*(f.numerator for f in exact)), least if least <= MAX_DENOMINATOR else gcd(*denominators))


def common_number(numbers: Sequence[Number]) -> int | Fraction:
    """Return the number to take out of an addition with the coefficients `numbers`, their greatest common divisor: 2
    for ``4*a + 6*b``, which becomes ``2*(2*a + 3*b)``.

    It is 1 instead of a fraction that leaves no fewer numbers, or more digits: ``a + b/2`` is not ``(2*a + b)/2``.
    """
    content = content_of(numbers)
    if content.denominator == 1:
        return content
    before, after = ([abs(Fraction(number)) / front for number in numbers] for front in (1, content))
    fewer = sum(_signs_of(number, False) for number in after) < sum(_signs_of(number, False) for number in before)
    return content if fewer and sum(map(_digits, [*after, content])) <= sum(map(_digits, before)) else 1


def _digits(number: int | Fraction) -> int:
    """Return the number of digits of `number` as a coefficient: 2 for ``2/3``, 0 for 1, which is not written."""
    return sum(len(str(part)) for part in (number.numerator, number.denominator) if part != 1)


def _sample_below(node: Node) -> list[Node]:
    """Return `node` and all nodes below it, breadth first, as a sample by which two nodes can be compared; [] if there
    are more than ``SKETCH`` nodes.
    """
    found = list(islice(breadth_first(node, lambda part: part.args), SKETCH + 1))
    return found if len(found) <= SKETCH else []


def label_of(node: Node) -> tuple[int, str, tuple[Any, ...]]:
    """Return a sort key of `node` without its arguments: its name, and for a read its indices."""
    if node.op == "read":
        return 0, _name(node.args[0]), tuple(map(_form_key, node.data))
    if node.op == "index":
        return 1, node.op, (_form_key(node.data),)
    return 2, f"{node.op} {_name(node)}", ()


def _name(node: Node) -> str:
    """Return the name of a tensor, symbol or function, the text of a number, or the op of another node."""
    if node.op == "tensor":
        return str(node.data[0])
    return str(getattr(node.data, "__name__", node.data)) if node.op in ("const", "scalar", "call") else node.op


def _form_key(form: Affine) -> tuple[Any, ...]:
    """Return a sort key of an affine index form, which puts forms of few terms first. The order of two forms does not
    change if all variable numbers are shifted by the same amount.
    """
    terms = [((v < 0, v, "") if isinstance(v, int) else (2, 0, repr(v)), c) for v, c in form.terms]
    return len(terms), tuple(sorted(terms)), form.constant


__all__ = ["with_canonical_signs", "without_minus"]
