"""Roots of sums of squares that neither overflow nor underflow before the root does.

The square of 1e200 is infinite in double precision, that of 1e-200 is 0. A norm is computed plainly, and once more from
entries that are divided by the largest one where the sum of squares left the range of numbers that keep their digits::

    sqrt(Sum_k a[k]**2)      r = sqrt(s) if 0 < 2**-80*s < oo else (m*sqrt(Sum_k (a[k]/m)**2) if 0 < m < oo else m)

with ``s = Sum_k a[k]**2`` and ``m = Max_k abs(a[k])``. The product with ``2**-80`` is 0 where ``s`` is below 1e-299, in
single precision below 1e-21: so the condition fits both types of numbers. If the root of a sum is taken, powers of the
sum are powers of ``r``, and its comparisons with 0 are comparisons of ``r``. The loops of the second branch run only
where it is chosen.

Source: Blue 1978, *A Portable Fortran Program to Find the Euclidean Norm of a Vector*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from math import inf

import sympy

from sympy_tensordiff.graph.interning import breadth_first, outside_of_binders
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.simplify.facts import positive_sizes
from sympy_tensordiff.simplify.node_properties import is_power_of_positive_index

_MARGIN = Fraction(1, 2**80)
"""A sum of squares whose product with this is 0 may have lost digits to underflow: its terms are too small."""

MAX_RANK = 1
"""Norms by more indices than this stay as they are.

They are computed in inner loops, which a condition would slow down: all distances of 300 points take 2.4 times as long.
"""


def with_scaled_norms(
    graph: Graph, roots: Sequence[Node], arrays: Mapping[Node, Node], stored: Callable[[Node, Node], Node]
) -> list[Node]:
    """Return the entries `roots` with each norm ``sqrt(sum(x**2))`` written so that no square overflows or underflows:
    where one would, ``x`` is first divided by its largest entry. `arrays` maps arrays to their entries; the function
    `stored` makes arrays of norms.

    `roots` are numbers and comprehensions. `stored` returns the array from which norms are read, given an array of
    sums of squares and the entries of the norms.
    """
    norms = _Norms(graph, arrays, stored, positive_sizes(graph, [*roots, *arrays, *arrays.values()]))
    for part in reachable(*roots):
        if is_root(part):
            for factor in graph.factors(part.args[0]):
                norms.define_norms_of(factor)
    return [norms.within(root) for root in roots]


class _Norms:
    """Expresses sums of squares in one expression by norms, which do not overflow, for `with_scaled_norms`. It
    remembers the norm of each sum of squares.
    """

    def __init__(
        self, graph: Graph, arrays: Mapping[Node, Node], stored: Callable[[Node, Node], Node], facts: Rows
    ) -> None:
        self.graph = graph
        self.facts = facts
        self.arrays = arrays
        self.stored = stored
        self.norms: dict[Node, Node | None] = {}
        self.tables: dict[Node, Node | None] = {}
        self.bound: set[int] = set()

    def within(self, root: Node) -> Node:
        """Return `root` with powers and comparisons of sums of squares replaced by those of norms, which do not
        overflow, also inside of sums and other binders.
        """
        if not any(is_root(part) or self.is_use_of_norm(part) for part in reachable(root)):
            return root
        if root.op in BINDERS:
            variables, _, body = self.graph.open(root)
            self.bound.update(variables)
            new = self.within(body)
            return root if new is body else self.graph.over(root, variables, new)
        outside = set(breadth_first(root, outside_of_binders))
        powers = [part for part in outside if is_root(part) or self.is_use_of_norm(part)]
        bases = {part.args[0] for part in powers if self.norm(part.args[0]) is not None}
        done: dict[Node, Node] = {}
        for part in reachable(root):
            if part in outside and part.op in BINDERS:
                done[part] = self.within(part)
            elif part in outside:
                done[part] = self.with_norm(self.graph.with_args(part, [done[arg] for arg in part.args]), part, bases)
        return done[root]

    def is_use_of_norm(self, node: Node) -> bool:
        """Return whether `node` can be computed from a stored norm: it is a negative power of ``s[i]``, or compares
        ``s[i]`` with 0, where ``s`` is a stored array of sums of squares and another array stores their roots.
        """
        if node.op not in ("pow", "compare") or node.args[0].op != "read" or node.args[1].op != "const":
            return False
        is_use = node.args[1].data < 0 if node.op == "pow" else node.args[1] is self.graph.zero
        return is_use and self.tables.get(node.args[0].args[0]) is not None

    def with_norm(self, node: Node, old: Node, bases: Collection[Node]) -> Node:
        """Return `node`, a power or comparison of one of the sums of squares `bases`, in terms of the root of this sum:
        ``norm**(2*p)`` for ``base**p``, ``norm > 0`` for ``base > 0``. Other nodes are unchanged.

        `bases` are the sums of squares; `old` is `node` before its arguments were rewritten.
        """
        if old.op not in ("pow", "compare") or old.args[0] not in bases or old.args[1].op != "const":
            return node
        norm = self.norms[old.args[0]]
        assert norm is not None
        if old.op == "pow":
            return self.graph.pow(norm, self.graph.const(2 * old.args[1].data))
        return self.graph.compare(old.data, norm, self.graph.zero) if old.args[1] is self.graph.zero else node

    def norm(self, base: Node) -> Node | None:
        """Return the square root of the sum of squares `base`, in a form without overflow, or as the array entry that
        stores this norm. None if `base` is not a sum of squares.
        """
        if base not in self.norms:
            if base.op == "mul":
                self.norms[base] = self.scaled_norm(base)
            else:
                self.norms[base] = self.stored_norm(base) if base.op == "read" else self.formula(base, base)
        return self.norms[base]

    def scaled_norm(self, product: Node) -> Node | None:
        """Return the square root of `product` if it is one sum of squares times positive numbers or sizes, such as
        ``sum(x**2)/n``; None for other products.
        """
        graph = self.graph
        others = [factor for factor in product.args if not self.is_positive(factor)]
        norm = self.norm(others[0]) if len(others) == 1 and others[0].op in ("read", "sum") else None
        if norm is None:
            return None
        factor = graph.mul([factor for factor in product.args if factor is not others[0]])
        root = graph.pow(factor, graph.const(Fraction(1, 2)))
        if norm.op == "read" and not norm.shape and not norm.args[0].shape:
            return graph.read(self.stored(others[0].args[0], graph.mul((root, norm))), ())
        return graph.mul((root, norm))

    def is_positive(self, factor: Node) -> bool:
        """Return whether `factor` is a positive number, a size that is positive for every call, or a constant power of
        one of these.
        """
        base = factor.args[0] if factor.op == "pow" and factor.args[1].op == "const" else factor
        return base.data > 0 if base.op == "const" else is_power_of_positive_index(factor, self.facts)

    def define_norms_of(self, base: Node) -> None:
        """If `base` is an entry of a stored array of sums of squares, define an array of the square roots of its
        entries, unless there is one already.
        """
        if base.op == "read":
            self.stored_norm(base)

    def stored_norm(self, base: Node) -> Node | None:
        """Return the norm of `base`, an entry of an array of sums of squares, as an entry of the array of their square
        roots, which is created at its first use; None if the array stores other values.
        """
        array = base.args[0]
        if array not in self.tables:
            self.tables[array] = self.array_of_roots(array)
        table = self.tables[array]
        return None if table is None else self.graph.read(table, base.data)

    def array_of_roots(self, array: Node) -> Node | None:
        """Return a new array with the square roots of the entries of `array`; None if these are not sums of squares."""
        entries = self.arrays.get(array)
        if entries is None or entries.shape != array.shape or len(array.shape) > MAX_RANK:
            return None
        if entries.op != "comprehension":
            formula = None if array.shape else self.formula(entries, self.graph.read(array, ()))
            return None if formula is None else self.stored(array, formula)
        variables, _, body = self.graph.open(entries)
        index = [Affine.variable(v) for v in variables]
        formula = self.formula(body, self.graph.read(array, index))
        if formula is None:
            return None
        return self.stored(array, self.graph.comprehension(variables, array.shape, formula))

    def formula(self, total: Node, base: Node) -> Node | None:
        """Return a formula for the square root of `total`, a sum of squares, without overflow or underflow: where the
        sum, read from `base`, is too large or too small, entries are divided by the largest one. None if no rule
        applies.

        `base` has the value of `total`: it is `total` itself, or a read of the array that stores it.
        """
        graph = self.graph
        if total.op != "sum" or len(total.free & self.bound) > MAX_RANK:
            return None
        variables, rows, square = graph.open(total)
        if not all(row.form.atoms().isdisjoint(self.bound) for row in rows):
            return None  # the sums up to each index are running sums, the sums of ratios are none
        entry = _root_of_square(graph, square)
        if entry is None:
            return None
        graph.laws["norm"] = graph.laws.get("norm", 0) + 1
        largest = graph.reduce("max", variables, rows, graph.call(sympy.Abs, (entry,)))
        inverse = graph.pow(largest, graph.const(-1))
        # A square of a product would become a product of squares.
        ratio = graph.pow(graph.call(sympy.Abs, (graph.mul((entry, inverse)),)), graph.const(2))
        infinity, half = graph.const(inf), graph.const(Fraction(1, 2))
        scaled = graph.mul((largest, graph.pow(graph.sum(variables, rows, ratio), half)))
        has_inverse = graph.logic("and", [graph.compare("lt", one, infinity) for one in (inverse, largest)])
        is_safe = graph.logic(
            "and",
            (graph.compare("lt", graph.zero, graph.scale(_MARGIN, base)), graph.compare("lt", base, infinity)),
        )
        return graph.select(is_safe, graph.pow(base, half), graph.select(has_inverse, scaled, largest))


def is_root(node: Node) -> bool:
    """Return whether `node` is a power with an odd multiple of 1/2 as its exponent."""
    if node.op != "pow" or node.args[1].op != "const":
        return False
    power = node.args[1].data
    return isinstance(power, Fraction) and power.denominator == 2


def _root_of_square(graph: Graph, node: Node) -> Node | None:
    """Return ``a`` for ``a**2``, and ``a*b`` for ``a**2*b**2``; None for other nodes."""
    found = []
    for factor in graph.factors(node):
        if factor.op != "pow" or factor.args[1].op != "const" or factor.args[1].data != 2:
            return None
        found.append(factor.args[0])
    return graph.mul(found)
