"""Orders of contraction: optimal for few operands, and searched once for each structure."""

from __future__ import annotations

import random
from itertools import combinations
from math import prod

import sympy_tensordiff as td
from sympy_tensordiff.graph import contraction_order, contraction_paths
from sympy_tensordiff.graph.contraction_paths import Labels, contraction_path, least_work, operation_count


def least_of_all(inputs: list[Labels], output: Labels, sizes: dict[int, int]) -> int:
    """Return the fewest multiplications of all orders, found by trying each pair first."""
    if len(inputs) < 2:
        return 0
    totals = []
    for one, two in combinations(range(len(inputs)), 2):
        rest = [own for place, own in enumerate(inputs) if place not in (one, two)]
        both = inputs[one] | inputs[two]
        product = both & output.union(*rest)
        totals.append(prod(sizes[label] for label in both) + least_of_all([*rest, product], output, sizes))
    return min(totals)


def test_optimal_order_against_all_orders():
    draw = random.Random(0)
    for _ in range(40):
        sizes = {label: draw.choice([1, 2, 3, 100, 12799]) for label in range(6)}
        inputs = [frozenset(draw.sample(range(6), draw.randint(0, 3))) for _ in range(draw.randint(2, 5))]
        present = frozenset().union(*inputs)
        output = frozenset(n for n in present if sum(n in own for own in inputs) < 2 or draw.random() < 0.3)
        path = contraction_path(inputs, output, sizes)
        expected = least_of_all(inputs, output, sizes)
        assert operation_count(inputs, output, sizes, path) == least_work(inputs, output, sizes) == expected


def test_one_search_for_einsums_that_differ_in_names_of_labels():
    contraction_paths._cheapest_path.cache_clear()
    for first in (0, 50, 90):
        chain = [frozenset({first + 7 * place % 11, first + 7 * (place + 1) % 11}) for place in range(6)]
        sizes = {label: 100 + place for place, own in enumerate(chain) for label in own}
        contraction_path(chain, chain[0] ^ frozenset({first + 7}), sizes)
    assert contraction_paths._cheapest_path.cache_info().misses == 1


def test_estimates_of_work_of_a_matrix_product_state(monkeypatch):
    """Each einsum is estimated once, and again only for a product multiplied out that it may read."""
    calls = []
    work = contraction_order.Products.work
    monkeypatch.setattr(contraction_order.Products, "work", lambda self, node: calls.append(node) or work(self, node))
    size = td.indices("D")
    tensors, left, right = (
        td.TensorSymbol("A", (4, size, 2, size)),
        td.TensorSymbol("l", size),
        td.TensorSymbol("r", size),
    )
    norm = td.outer(left, left)
    for site in range(4):
        norm = td.einsum("ab,asc,bsd->cd", norm, tensors[site], tensors[site])
    td.gradient(td.einsum("ab,a,b->", norm, right, right), tensors)
    assert 0 < len(calls) <= 65


def test_search_of_the_order_of_a_chain_looks_at_few_products(monkeypatch):
    """Of a chain of matrices, few sets of operands other than its intervals can be part of the best order."""
    volumes = []
    monkeypatch.setattr(contraction_paths, "prod", lambda factors: volumes.append(factors) or prod(factors))
    chain = [frozenset({place, place + 1}) for place in range(9)]
    contraction_paths._cheapest_path.cache_clear()
    contraction_path(chain, frozenset({0, 9}), {label: 100 + label for label in range(10)})
    assert len(volumes) <= 200
