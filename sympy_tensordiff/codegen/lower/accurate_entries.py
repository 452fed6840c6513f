"""Entries of arrays rewritten so that no digits are lost and nothing overflows; norms become arrays of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sympy.codegen.cfunctions import hypot

from sympy_tensordiff.codegen.ir.programs import ContractionStep
from sympy_tensordiff.codegen.ir.rename import unique
from sympy_tensordiff.codegen.lower.growing_arrays import without_growing_arrays
from sympy_tensordiff.codegen.lower.inverse_norms import is_inverse_norm
from sympy_tensordiff.codegen.lower.tensors import Definition
from sympy_tensordiff.graph.nodes import Graph, Node, ranges, rewritten
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.cancellation import body_of, without_cancellation
from sympy_tensordiff.simplify.growing_functions import is_call
from sympy_tensordiff.simplify.norms import with_scaled_norms


def with_accurate_entries(
    graph: Graph,
    definitions: Sequence[Definition],
    tensors: Mapping[str, Node],
    scales_norms: bool,
    taken: Iterable[str],
) -> list[Definition]:
    """Return the `definitions` of the arrays of a program with their entries rewritten to avoid cancellation and
    overflow. With `scales_norms`, norms are rescaled where their sums of squares would overflow or underflow. `tensors`
    maps names to the program's arguments; ``taken`` are names in use.

    With `scales_norms`, the norms of an array of sums of squares become an array of their own, with a new name.
    """
    computed = [(one.array, one.entries) for one in definitions if one.entries is not None]
    arrays = {**tensors, **{one.name: one.array for one in definitions}}
    products = {one.array: value for one in definitions if (value := _dot_product(graph, one.step, arrays)) is not None}
    known = [array for array, _ in computed]
    entries = without_growing_arrays(graph, [entries for _, entries in computed], dict(computed))
    entries = without_cancellation(graph, entries, known, products)
    bodies = [body_of(table) for table in entries]
    graph.norms.update(array for array, body in zip(known, bodies, strict=True) if is_call(body, hypot))
    norms: dict[Node, list[Definition]] = {}
    if scales_norms:
        names = {*arrays, *taken}

        def stored(array: Node, entries: Node) -> Node:
            """Define a new array of norms, to be computed after `array`, by the formula `entries`: the square roots of
            the entries of `array`. Record it in ``norms``, and return its tensor node.
            """
            name = unique("norm", names)
            names.add(name)
            defined = Definition(name, graph.tensor(f"array {name}", array.shape), entries)
            norms.setdefault(array, []).append(defined)
            graph.norms.add(defined.array)
            return defined.array

        tables = {**products, **dict(zip(known, entries, strict=True))}
        entries = with_scaled_norms(graph, entries, tables, stored)
        entries = _with_powers_inline(graph, entries, dict(zip(known, entries, strict=True)))
    found = iter(entries)
    done = []
    for one in definitions:
        done.append(one if one.entries is None else replace(one, entries=next(found)))
        done += norms.get(one.array, [])
    return done


def _with_powers_inline(graph: Graph, entries: Sequence[Node], tables: Mapping[Node, Node]) -> list[Node]:
    """Return `entries`, formulas of array entries, with reads of arrays that store powers of norms, such as ``1/n**3``,
    replaced by the formulas of these powers, since a stored power may overflow. `tables` maps arrays to the formulas of
    their entries.
    """
    bodies = {array: body_of(table) for array, table in tables.items()}
    powers = {
        array: tables[array]
        for array, body in bodies.items()
        if is_inverse_norm(graph, body) and body.args[1].data < -1
    }

    def with_formula(node: Node) -> Node:
        """Return the formula of the array entry that `node` reads, such as ``1/n**3``, if it is an array of powers of
        norms. Return any other `node` unchanged.
        """
        if node.op != "read" or node.args[0] not in powers:
            return node
        table = powers[node.args[0]]
        return graph.entry(table, node.data) if table.op == "comprehension" else table

    return rewritten(graph, entries, with_formula) if powers else list(entries)


def _dot_product(graph: Graph, step: Any, arrays: Mapping[str, Node]) -> Node | None:
    """Return the sum ``Sum_k a[k]*b[k]`` for a `step` that contracts two arrays over all axes to a scalar; None for
    other steps. `arrays` maps names to tensor nodes.
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
