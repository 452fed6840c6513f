"""The entries of arrays in forms that keep their digits, and norms as arrays of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sympy_tensordiff.codegen.ir.programs import ContractionStep
from sympy_tensordiff.codegen.ir.rename import unique
from sympy_tensordiff.codegen.lower.growing_arrays import without_growing_arrays
from sympy_tensordiff.codegen.lower.tensors import Definition
from sympy_tensordiff.graph.nodes import Graph, Node, ranges
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.cancellation import without_cancellation
from sympy_tensordiff.simplify.norms import with_scaled_norms


def with_accurate_entries(
    graph: Graph,
    definitions: Sequence[Definition],
    tensors: Mapping[str, Node],
    scales_norms: bool,
    taken: Iterable[str],
) -> list[Definition]:
    """Return the array definitions with their entries rewritten to avoid lost digits and overflow.

    Parameters
    ----------
    graph : Graph
    definitions : sequence of Definition
    tensors : dict of str to Node
        The arguments by name.
    scales_norms : bool
        Whether norms are computed again in another scale where their sums of squares overflow or underflow. The norms
        of an array of sums of squares are an array of their own.
    taken : iterable of str
        Further names that no array may have.
    """
    computed = [(one.array, one.entries) for one in definitions if one.entries is not None]
    arrays = {**tensors, **{one.name: one.array for one in definitions}}
    products = {one.array: value for one in definitions if (value := _dot_product(graph, one.step, arrays)) is not None}
    known = [array for array, _ in computed]
    entries = without_growing_arrays(graph, [entries for _, entries in computed], dict(computed))
    entries = without_cancellation(graph, entries, known, products)
    norms: dict[Node, Definition] = {}
    if scales_norms:
        names = {*arrays, *taken}

        def stored(array: Node, entries: Node) -> Node:
            """Return a new array of the norms `entries`, to be defined after that of their squares, `array`."""
            name = unique("norm", {*names, *(one.name for one in norms.values())})
            norms[array] = Definition(name, graph.tensor(f"array {name}", array.shape), entries)
            graph.norms.add(norms[array].array)
            return norms[array].array

        tables = {**products, **dict(zip(known, entries, strict=True))}
        entries = with_scaled_norms(graph, entries, tables, stored)
    found = iter(entries)
    done = []
    for one in definitions:
        done.append(one if one.entries is None else replace(one, entries=next(found)))
        done += [norms[one.array]] if one.array in norms else []
    return done


def _dot_product(graph: Graph, step: Any, arrays: Mapping[str, Node]) -> Node | None:
    """Return a contraction step to a number, of two arrays with equal labels, as the sum ``Sum_k a[k]*b[k]``; None for
    other steps.
    """
    if not isinstance(step, ContractionStep) or step.output or step.left.labels != step.right.labels:
        return None
    left, right = (arrays.get(operand.array) for operand in (step.left, step.right))
    if left is None or right is None or len(set(step.left.labels)) < len(step.left.labels) or step.factor != 1:
        return None
    axes = [graph.fresh(f"k{n}") for n in range(len(left.shape))]
    index = [Affine.variable(axis) for axis in axes]
    body = graph.mul((graph.read(left, index), graph.read(right, index)))
    return graph.sum(axes, ranges(axes, left.shape), body)
