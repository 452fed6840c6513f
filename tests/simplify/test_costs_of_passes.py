"""Passes that change products and sums add no loop and no array that grows faster: in random functions, too.

- `merged_sums` does not ask the cost: it joins sums over one range, each of which runs through all of it, and what can
  be nested is nested before.
- `without_sparse_operands` multiplies two operands at a time where sums over all would take more loops; `as_einsums`
  keeps sums whose einsums would take more loops or memory.
"""

from __future__ import annotations

from collections import Counter

import pytest
import sympy
from cost_judge.generate import random_function
from sparse_products import random_product

import sympy_tensordiff as td
from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.cost import CostModel
from sympy_tensordiff.graph.nodes import reachable
from sympy_tensordiff.integer.polynomials import grows_faster
from sympy_tensordiff.simplify import pipeline

n, i, j, k, l = td.indices("n i j k l")
A, B, C, D = (td.TensorSymbol(name, (n, n)) for name in "ABCD")
u, v, w, x = (td.TensorSymbol(name, n) for name in "uvwx")
SHIFT = td.TensorComprehension(sympy.KroneckerDelta(i, j + 1) * u[i], (i, n), (j, n))
BAND = td.TensorComprehension(sympy.KroneckerDelta(i, j) * u[i] + sympy.KroneckerDelta(i, j + 1) * w[i], (i, n), (j, n))


def over(body, *variables):
    return td.IndexedSum(body, *((variable, 0, n - 1) for variable in variables))


def table(body, *variables):
    return td.TensorComprehension(body, *((variable, n) for variable in variables))


FUNCTIONS = {
    "a chain that ends with a shift": td.sum((A @ B @ C @ SHIFT) ** 2),
    "a band in a chain": td.sum((A @ BAND @ B @ BAND @ C) ** 2),
    "shifts between vectors": td.dot(v, td.tanh(A @ B @ (SHIFT @ (C @ x)))),
    "a trace": td.trace(A @ B @ SHIFT @ C @ D),
    "sums over chains": over(td.exp(x[i]) * A[i, j] * B[j, k] * w[k], i, j, k)
    + over(td.exp(x[i]) * C[i, j] * D[j, k] * v[k], i, j, k),
    "sums with a common function": over(td.exp(x[i]) * A[i, j] * v[j], i, j)
    + over(td.exp(x[i]) * A[i, j] ** 2, i, j) * over(td.sin(v[k]) * x[k], k),
    "tables in products": td.sum(td.tanh(table(A[i, j] * x[j] + B[j, i], i, j) @ C @ v)),
}


def growing_steps(monkeypatch):
    """Record the steps of the passes: the numbers of changes, and those that grow faster with the sizes."""
    changes, growing = Counter(), []

    def watched(name, step):
        def run(graph, nodes, *args, **options):
            found = list(step(graph, nodes, *args, **options))
            if found != list(nodes):
                changes[name] += 1
                model = CostModel(graph, Hints().for_graph(nodes, reachable(*nodes)))
                old, new = model.of(nodes), model.of(found)
                if grows_faster(new.operations.growth, old.operations.growth):
                    growing.append((name, old.operations, new.operations))
                given = model.growth(part for part in reachable(*nodes) if part.op == "tensor")
                if grows_faster(new.stored, old.stored | given):
                    growing.append((name, old.memory, new.memory))
            return found

        return run

    for name in ("merged_sums", "as_einsums"):
        monkeypatch.setattr(pipeline, name, watched(name, getattr(pipeline, name)))
    passes = tuple(
        (watched(step.__name__, step) if step is pipeline.without_sparse_operands else step, kinds)
        for step, kinds in pipeline.DERIVATIVES
    )
    monkeypatch.setattr(pipeline, "DERIVATIVES", passes)
    return changes, growing


def derive(value, variables, tangent):
    for wrt in variables:
        td.gradient(value, wrt)
    td.hvp(value, variables[-1], tangent)


@pytest.mark.in_turns(4)
def test_passes_add_no_loop_to_functions_of_sparse_matrices_and_of_sums(monkeypatch):
    changes, growing = growing_steps(monkeypatch)
    for name, value in FUNCTIONS.items():
        variables = [one for one in (A, C, u, v, x) if td.gradient(value, one) != 0 and one in value.atoms(type(one))]
        for wrt in variables:
            derive(value, [wrt], td.TensorSymbol("tangent", wrt.shape))
        assert not growing, name
    assert min(changes[name] for name in ("merged_sums", "as_einsums", "without_sparse_operands")) > 2


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("seeds", [range(start, start + 12) for start in (5000, 5012)], ids=str)
def test_passes_add_no_loop_to_random_functions(monkeypatch, seeds):
    changes, growing = growing_steps(monkeypatch)
    for seed in seeds:
        function = random_function(seed)
        symbols = function.symbols()
        wrt = symbols[function.wrt]
        derive(function.expression(symbols), [wrt], td.TensorSymbol("tangent", wrt.shape))
        assert not growing, function.text()
    assert changes


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in range(0, 80, 20)], ids=str)
def test_passes_add_no_loop_to_random_products_with_sparse_tensors(monkeypatch, seeds):
    changes, growing = growing_steps(monkeypatch)
    for seed in seeds:
        value, wrt = random_product(seed)
        derive(value, [wrt], td.TensorSymbol("tangent", wrt.shape))
        assert not growing, (seed, value, wrt)
    assert changes["without_sparse_operands"] > 10


def test_a_step_that_adds_a_loop_is_found(monkeypatch):
    def wasteful(graph, nodes, *args, **options):
        matrix = next(node for node in reachable(*nodes) if node.op == "tensor" and len(node.shape) == 2)
        cubic = graph.ein(1, [(matrix, (0, 1)), (matrix, (1, 2)), (matrix, (2, 0))], ())
        return [graph.mul([node, cubic]) for node in nodes]

    monkeypatch.setattr(pipeline, "merged_sums", wasteful)
    _, growing = growing_steps(monkeypatch)
    td.gradient(over(td.exp(x[i]) * A[i, j] * v[j] + x[i] * v[i], i, j), x)
    assert [name for name, _, _ in growing] == ["merged_sums"]
