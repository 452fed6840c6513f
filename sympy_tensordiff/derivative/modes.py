"""Forward or reverse mode for a derivative: the one whose result takes less work.

A reverse sweep takes a multiple of the work of the function for each entry of its value, a forward sweep for each entry
of the variable. Products of Jacobian matrices are multiplied in the order of least work in either mode, so the modes
differ where sums of such products are multiplied again, behind skip connections and gates, and where conditions choose
terms. Both derivatives are derived, their costs (`graph.cost`) are compared, and one of them is dropped.

Source: Griewank & Walther 2008, *Evaluating Derivatives*, chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sympy_tensordiff.derivative.tensor_sweep import total
from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.cost import CostModel
from sympy_tensordiff.graph.nodes import Node, reachable
from sympy_tensordiff.integer.polynomials import grows_faster
from sympy_tensordiff.simplify.algebra import written_size

if TYPE_CHECKING:
    from sympy_tensordiff.derivative.elementwise import Differentiation

MARGIN = 0.8
"""A second form of no shorter text is taken if it has at most so many times the operations of the preferred form."""


def simplified_jacobians(work: Differentiation, leaves: Sequence[Node]) -> list[Node]:
    """Return the simplified Jacobians of the expression of `work` with respect to `leaves`. Those of a tensor are
    computed by forward and by reverse mode, and the one that costs fewer operations is returned.
    """
    reverse = work.simplified_all(work.jacobians(leaves))
    if not work.root.shape:
        return reverse
    return [_less_work(work, [node], _forward(work, leaf))[0] for leaf, node in zip(leaves, reverse, strict=True)]


def simplified_slopes(work: Differentiation, leaves: Sequence[Node]) -> list[Node]:
    """Return the simplified Jacobians of a gradient, the expression of `work`, with respect to each of the variables
    `leaves`. Together they are one row of blocks of a Hessian.

    Whole tensors are swept forward, which takes a third of the time of a reverse sweep with as many axes. In index
    notation both modes are compared.
    """
    if work.is_whole:
        return work.simplified_all([*map(work.forward_jacobian, leaves)])
    return simplified_jacobians(work, leaves)


def simplified_products(work: Differentiation, gradients: Sequence[Node], leaves: Sequence[Node]) -> list[Node]:
    """Return the Hessian-vector product (hvp) of a scalar, as one simplified tensor for each variable in `leaves`. It
    is the derivative of `gradients`, the scalar's derivatives with respect to these variables, in the direction of the
    vectors ``work.inputs``.

    The gradients are moved forward in the direction of the inputs. Those of whole tensors may also be swept in reverse
    with the inputs as cotangents, since a Hessian is symmetric.
    """
    states = work.states_of_derivatives(gradients)
    forward = work.simplified_all([state.pushforward(leaves, work.inputs) for state in states])
    if not work.is_whole:
        return forward
    parts = [state.pullbacks(leaves, vector) for state, vector in zip(states, work.inputs, strict=True)]
    reverse = work.simplified_all([total(work.graph, column) for column in zip(*parts, strict=True)])
    return _less_work(work, reverse, forward)


def _forward(work: Differentiation, leaf: Node) -> list[Node]:
    """Return the simplified Jacobian of the expression of `work` with respect to `leaf`, computed by forward mode, as a
    list of one node.
    """
    return [work.simplified(work.forward_jacobian(leaf))]


def _less_work(work: Differentiation, preferred: list[Node], other: list[Node]) -> list[Node]:
    """Return the cheaper of `preferred` and `other`, two lists of nodes that compute the same values: the one whose
    number of operations grows more slowly with the sizes or, if both grow alike, the one whose storage does.

    If both grow alike, return `other` if it takes at most as many operations, or at most ``MARGIN`` times as many
    unless its written form is shorter; else `preferred`. ``work`` has the graph of the nodes.
    """
    if other == preferred:
        return preferred
    model = CostModel(work.graph, Hints().for_graph((*other, *preferred), reachable(*other, *preferred)))
    new, old = model.of(other), model.of(preferred)
    for measure in ("operations", "stored"):
        one, two = (cost.operations.growth if measure == "operations" else cost.stored for cost in (new, old))
        grows, shrinks = grows_faster(one, two), grows_faster(two, one)
        if grows != shrinks:
            return other if shrinks else preferred
    size, limit = (written_size(nodes, reachable(*nodes)) for nodes in (other, preferred))
    most = 1 if size < limit else MARGIN
    return other if model.value(new.operations) <= most * model.value(old.operations) else preferred
