"""Forward or reverse mode for a Jacobian: the one whose result takes less work.

A reverse sweep takes a multiple of the work of the function for each entry of its value, a forward sweep for each entry
of the variable. Products of Jacobian matrices are multiplied in the order of least work in either mode, so the modes
differ where sums of such products are multiplied again: behind skip connections and gates. Both Jacobians are derived,
their costs (`graph.cost`) are compared, and one of them is dropped.

Source: Griewank & Walther 2008, *Evaluating Derivatives*, chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.cost import CostModel
from sympy_tensordiff.graph.nodes import Node, reachable
from sympy_tensordiff.integer.polynomials import grows_faster
from sympy_tensordiff.simplify.algebra import written_size

if TYPE_CHECKING:
    from sympy_tensordiff.derivative.elementwise import Differentiation

MARGIN = 0.8
"""The forward form is taken if it has at most so many times the operations of the reverse form, or of its text."""


def simplified_jacobians(work: Differentiation, leaves: Sequence[Node]) -> list[Node]:
    """Return the simplified Jacobians with respect to `leaves`, each by forward or reverse mode, whichever
    costs less.
    """
    reverse = work.simplified_all(work.jacobians(leaves))
    return [_less_work(work, leaf, node) for leaf, node in zip(leaves, reverse, strict=True)]


def simplified_slopes(work: Differentiation, leaves: Sequence[Node]) -> list[Node]:
    """Return the simplified Jacobians of a gradient (the rows of a Hessian) with respect to `leaves`.

    Whole tensors are swept forward. In index notation both modes are compared with respect to a leaf of another shape
    than the gradient; for one of the same shape, both take as many sweeps.
    """
    if work.is_whole:
        return work.simplified_all([*map(work.forward_jacobian, leaves)])
    reverse = work.simplified_all(work.jacobians(leaves))
    return [
        node if work.extents(leaf) == work.root.shape else _less_work(work, leaf, node)
        for leaf, node in zip(leaves, reverse, strict=True)
    ]


def _less_work(work: Differentiation, leaf: Node, reverse: Node) -> Node:
    """Return the forward-mode Jacobian with respect to `leaf` if it costs less than `reverse`, the reverse-mode one;
    else `reverse`.
    """
    if not work.root.shape:
        return reverse
    forward = work.simplified(work.forward_jacobian(leaf))
    if forward is reverse:
        return reverse
    nodes = [reachable(node) for node in (forward, reverse)]
    model = CostModel(work.graph, Hints().for_graph((forward, reverse), reachable(forward, reverse)))
    one, other = (model.of([node]).operations for node in (forward, reverse))
    grows, shrinks = grows_faster(one.growth, other.growth), grows_faster(other.growth, one.growth)
    if grows != shrinks:
        return forward if shrinks else reverse
    size, limit = (written_size([node], parts) for node, parts in zip((forward, reverse), nodes, strict=True))
    most = 1 if size <= MARGIN * limit else MARGIN
    return forward if model.value(one) <= most * model.value(other) else reverse
