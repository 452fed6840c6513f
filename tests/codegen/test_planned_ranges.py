"""The planner of temporaries: equal loops have equal ranges."""

from __future__ import annotations

from sympy_tensordiff.codegen.lower import plan
from sympy_tensordiff.codegen.lower.plan import EnclosingLoops, Planner
from sympy_tensordiff.graph.nodes import Graph, ranges
from sympy_tensordiff.integer.affine import Affine


def test_the_range_of_a_label_is_projected_once_for_equal_loops(monkeypatch):
    """The names of the loops do not matter; their extents do."""
    calls = []
    project = plan.project
    monkeypatch.setattr(plan, "project", lambda *given: calls.append(1) or project(*given))
    graph = Graph()
    n, m = (Affine.variable(graph.fresh(name)) for name in "nm")
    planner = Planner(graph, ())

    def found(extents):
        """The range of the sum of the first and twice the second of two new loops, and the calls made for it."""
        first, second = graph.fresh("i"), graph.fresh("j")
        context = EnclosingLoops((first, second), ranges((first, second), extents))
        before = len(calls)
        return planner.range(Affine({first: 1, second: 2}), context), len(calls) - before

    (one, some), (other, none), (swapped, more) = found((n, m)), found((n, m)), found((m, n))
    assert one == other == (Affine(), n + 2 * m - 3)
    assert swapped == (Affine(), m + 2 * n - 3)
    assert some > 0 == none < more
