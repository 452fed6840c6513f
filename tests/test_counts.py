"""Counted, not computed: no loop runs where nothing is to be done.

A loop over the full box with a mask passes every numeric test. Here the loops themselves are
counted, on the expression and on the loop nests.
"""

import itertools

import pytest
import sympy
from cases import build, names
from counting import hidden_masks, masks, visits
from fuzz.equality import as_scalar
from loop_counts import BY_DATA, COTANGENT, FEWER, SPLIT, cotangent_of, counted, iterations, program_of
from sympy import Eq, KroneckerDelta, Mod, Piecewise, tanh

from sympy_tensordiff import (
    IndexedSum,
    TensorComprehension,
    TensorSymbol,
    gradient,
    hessian,
    indices,
    jacobian,
    vjp,
)
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.graph.nodes import reachable

DELTAS_IN_TABLES = [  # the tables of cotangents hold deltas, ranges and congruences on their own axes
    ("V26", "W", jacobian, 112),  # 7200 where each entry runs over the whole table
    ("H6", "in_", hessian, 54),
    ("chain_partly_read", "x", hessian, 0),
    ("chain_same_names", "x", hessian, 192),
    ("attention", "Key", jacobian, 96),
]


@pytest.mark.parametrize(("name", "by", "derivative", "most"), DELTAS_IN_TABLES)
def test_sums_over_a_table_run_where_it_is_not_zero(name, by, derivative, most):
    case = build(name)
    (variable,) = (v for v in case.variables if str(v) == by)
    weights = cotangent_of(case.function)
    function = as_scalar(case.function, weights) if derivative is hessian else case.function
    assert iterations(program_of(case, derivative(function, variable))) <= most


def test_masks_are_seen_where_there_are_some():
    i, k, p = indices("i k p")
    x = TensorSymbol("x", 5)
    delta, guard = KroneckerDelta(k, p), Piecewise((x[k], Eq(Mod(k, 2), 0)), (0, True))
    assert masks(IndexedSum(x[k] * delta, (k, 0, 4))) == [delta]
    assert masks(IndexedSum(sympy.exp(IndexedSum(guard * x[i], (i, 0, 4))), (k, 0, 4)))
    assert not masks(KroneckerDelta(i, p) * IndexedSum(x[k] * KroneckerDelta(i, p), (k, 0, 4)))
    assert not masks(IndexedSum(Piecewise((x[k], x[k] > 0), (0, True)), (k, 0, 4)))
    table = TensorComprehension(x[i] * KroneckerDelta(i, p), (i, 5))
    assert not masks(IndexedSum(table[k], (k, 0, 4)))
    assert hidden_masks(IndexedSum(table[k], (k, 0, 4)))
    assert not hidden_masks(IndexedSum(TensorComprehension(guard.subs(k, i), (i, 5))[k], (k, 0, 4)))


# ------------------------------------------------------- loops run over the contributing tuples


def test_what_is_said_of_loops_is_said_of_cases_that_there_are():
    """Those of each case are counted where its derivatives are checked."""
    assert {name for name, _ in FEWER.keys() | SPLIT} | BY_DATA <= set(names())


def bare_reads():
    """Reads of all small coefficients and offsets, in a vector that is just long enough or longer."""
    i, j = indices("i j")
    for a, b, spare in itertools.product([-3, -2, 1, 2, 4], [-2, 0, 1, 3, 6], [0, 5]):
        corners = [a * u + b * v for u, v in itertools.product((0, 3), (0, 2))]
        x = TensorSymbol("x", max(corners) - min(corners) + 1 + spare)
        yield TensorComprehension(x[a * i + b * j - min(corners)], (i, 4), (j, 3)), x


def test_loops_of_bare_reads_run_over_their_tuples():
    for function, x in bare_reads():
        weights = cotangent_of(function)
        program = build_program([x, weights], vjp(function, x, weights), temporaries=False)
        assert visits(program, COTANGENT, {}) == 12, function


# ------------------------------------------------------- the example of section 6


@pytest.mark.parametrize(("by", "innermost"), [("a", 300), ("b", 300), ("c", 120), ("d", 300)])
def test_section_6_without_temporaries(by, innermost):
    # 3 x 4 x 5 tuples for each variable; f has a sum over 5, and dc computes it before its loop over k.
    case = build("T10")
    tuples, visited, total = counted(case, next(v for v in case.variables if str(v) == by))
    assert tuples == visited == 60
    assert total == innermost


def section_6_with_temporaries(with_value):
    case = build("T10")
    pullbacks = vjp(case.function, tuple(case.variables), cotangent_of(case.function))
    return iterations(program_of(case, ((case.function,) if with_value else ()) + pullbacks))


def test_section_6_computes_its_function_once():
    # Without temporaries it would be 300 + 300 + 120 + 300.
    assert section_6_with_temporaries(False) <= 60 + 4 * 60


def test_section_6_shares_its_function_with_its_derivatives():
    assert section_6_with_temporaries(True) == section_6_with_temporaries(False)


def test_the_second_derivative_by_a_diagonal_collapses():
    case = build("T10")
    weights = cotangent_of(case.function)
    second = hessian(as_scalar(case.function, weights), case.variables[2])
    p, q, r, s = second.indices
    deltas = second.atoms(KroneckerDelta)
    assert len(deltas) == 3 and set().union(*(d.free_symbols for d in deltas)) == {p, q, r, s}
    # Only 3 of the 81 entries loop at all: over j, k and once more k, and over the exponent's k.
    program = build_program([*case.variables, weights], second, temporaries=False)
    assert iterations(program) <= 3 * 4 * 5 * (5 + 5)
    x, df = TensorSymbol("x", (4, 4)), TensorSymbol("df", 4)
    i = indices("i")
    cube = IndexedSum(df[i] * x[i, i] ** 3, (i, 0, 3))
    assert iterations(build_program([x, df], hessian(cube, x), temporaries=False)) == 0


# ------------------------------------------------------- sums in functions in sums


def layers(number, width, rank=1):
    """``Sum_i tanh(Sum_j W1[i, j]*tanh(Sum_k W2[j, k]*... x[...]))``, all sums nested."""
    names_ = indices(" ".join(f"i{n}" for n in range(number + 1)))
    c = indices("c")
    weights = [TensorSymbol(f"W{n + 1}", (width, width)) for n in range(number)]
    x = TensorSymbol("x", (width,) if rank == 1 else (width, 3))
    inner = x[names_[-1]] if rank == 1 else x[names_[-1], c]
    for n in reversed(range(number)):
        inner = tanh(IndexedSum(weights[n][names_[n], names_[n + 1]] * inner, (names_[n + 1], 0, width - 1)))
    columns = [] if rank == 1 else [(c, 0, 2)]
    return IndexedSum(inner, (names_[0], 0, width - 1), *columns), (*weights, x)


def chained_layers(number, width):
    """One comprehension per layer, to which the layer before is added: written out, there are 2**number paths."""
    i, k = indices("i k")
    weights = [TensorSymbol(f"W{n + 1}", (width, width)) for n in range(number)]
    x = TensorSymbol("x", width)
    hidden = TensorComprehension(x[i], (i, width))
    for n in reversed(range(number)):
        body = hidden[i] + tanh(IndexedSum(weights[n][i, k] * hidden[k], (k, 0, width - 1)))
        hidden = TensorComprehension(body, (i, width))
    return IndexedSum(hidden[i], (i, 0, width - 1)), (*weights, x)


NETS = {
    "nested": lambda number: layers(number, 4),
    "nested, of a matrix": lambda number: layers(number, 4, 2),
    "chained": lambda number: chained_layers(number, 4),
}


def differences(figures, order):
    for _ in range(order):
        figures = [b - a for a, b in itertools.pairwise(figures)]
    return figures


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("net", [pytest.param(n, marks=pytest.mark.thorough if "matrix" in n else ()) for n in NETS])
def test_all_gradients_of_a_net_grow_slowly(net):
    remaining, paper, nodes, parts, texts = [], [], [], [], []
    for number in range(1, 7):
        function, variables = NETS[net](number)
        gradients = gradient(function, variables)
        remaining.append(iterations(build_program(variables, gradients)))
        paper.append(iterations(build_program(variables, gradients, temporaries=False)))
        parts.append(len(set().union(*(sympy.preorder_traversal(g) for g in gradients))))
        texts.append(len(str(gradients)) if net.startswith("nested") else 0)
        work = Differentiation(function)
        found = [work.simplified(n) for n in work.pullbacks([work.leaf(v) for v in variables], work.graph.one)]
        nodes.append(len(set().union(*map(reachable, found))))
    assert max(differences(remaining, 2)) <= 0, f"more than linear with temporaries: {remaining}"
    assert max(differences(paper[1:], 3)) <= 0, f"more than quadratic without: {paper}"
    assert all(a <= b for a, b in zip(remaining, paper, strict=True)), (remaining, paper)
    assert paper[5] <= 6 * paper[0], paper
    if net == "nested":  # 16 products forwards and 16 backwards for each layer, and no other loop
        assert remaining == [32 * number for number in range(1, 7)]
    # An index that is bound around all layers has another height in the gradient of each.
    assert max(differences(nodes[1:], 3 if "matrix" in net else 2)) <= 0, f"graph nodes: {nodes}"
    assert max(differences(parts[1:], 3)) <= 2, f"different parts of the expressions: {parts}"
    assert max(differences(texts[1:], 4)) <= 40, f"characters: {texts}"
