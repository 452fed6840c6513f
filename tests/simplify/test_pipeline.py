"""A pass for whose kinds a graph has no node changes nothing, so that the tables of passes may leave it out."""

import cases
import pytest

import sympy_tensordiff as td
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.simplify.canonical_signs import with_canonical_signs, without_minus
from sympy_tensordiff.simplify.pipeline import DERIVATIVES, INPUT, SIGNS
from sympy_tensordiff.simplify.sums_over_equal_ranges import merged_sums
from sympy_tensordiff.testing.values import shape_of

PASSES = [
    *INPUT,
    *DERIVATIVES,
    (with_canonical_signs, SIGNS),
    (merged_sums, frozenset({"add"})),
    (without_minus, frozenset({"number", "ein"})),
]


@pytest.mark.quick
def test_passes_without_nodes_of_their_kinds_change_nothing():
    left_out = set()
    for name in cases.names()[::5]:
        case = cases.build(name)
        cotangent = td.TensorSymbol("cotangent", shape_of(case.function))
        work = Differentiation(case.function, cotangent, by=case.variables)
        nodes = work.pullbacks([work.leaf(v) for v in case.variables], work.inputs[0])
        kinds = frozenset(work.graph.kinds)
        for number, (step, needed) in enumerate(PASSES):
            if needed.isdisjoint(kinds):
                left_out.add(number)
                assert step(work.graph, nodes) == nodes, (name, step)
    assert left_out == set(range(len(PASSES)))
