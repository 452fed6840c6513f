"""Scans as nodes of the graph: an operation on the arrays that its steps read, for code generation.

The steps stay expressions of their own, with a program of their own. A tensor that they read is an operand: initial
values, sequences, and constants: the free variables of the steps, and the largest expressions in them that no step
changes. Scalar operands are arrays with one entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sympy import Idx, Symbol

from sympy_tensordiff.graph.interning import Shape
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, nodes_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.recurrences.scans import Scan
from sympy_tensordiff.symbolic.recurrences.scans import needed_states as needed_states  # for later packages
from sympy_tensordiff.symbolic.whole_tensors.einsum import EinsumProduct
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of


class ScanData(NamedTuple):
    """The data of a ``scan`` node: the scan (a loop over time) itself, its length, and the index forms that its steps
    use.

    ``scan`` is the expression, ``constants`` the variables of the steps for the operands behind the initial values and
    sequences, ``length`` the number of steps, ``integers`` the form of each integer symbol in the steps.
    """

    scan: Any
    constants: tuple[Any, ...]
    length: Affine
    integers: tuple[tuple[Any, Affine], ...]
    own: Shape

    @property
    def shape(self) -> Shape:
        """Return the shape of the scan's result."""
        return (self.length, *self.own) if self.scan.kind == "stack" else self.own

    @property
    def forms(self) -> tuple[Affine, ...]:
        """Return all affine index forms that describe the scan: its length, the integers that its steps use, and the
        extents of its value.
        """
        return (self.length, *(form for _, form in self.integers), *self.own)

    def substituted(self, mapping: Mapping[Any, Affine]) -> ScanData:
        """Return the data of the scan with variables in its index forms (length, extents and integers) replaced by
        ``mapping``.
        """
        if not mapping:
            return self
        integers = tuple([(symbol, form.substitute(mapping)) for symbol, form in self.integers])
        own = tuple([form.substitute(mapping) for form in self.own])
        return self._replace(length=self.length.substitute(mapping), integers=integers, own=own)


def step_constants(scan: Scan) -> tuple[dict[Any, Any], list[Any], list[Any]]:
    """Find the expressions that are the same in all steps of a scan (a loop over time), so that they can be computed
    before it. Return ``(constants, tensors, symbols)``: a dictionary from these to tensor symbols that replace them,
    and the tensors and other free symbols that the steps then read.
    """
    moved = {expr: _placeholder(expr) for expr in _unchanged(scan)}
    steps = [step.xreplace(moved) for step in scan.steps]
    free = set().union(*(step.free_symbols for step in steps)).difference(scan.bound)
    free |= {symbol for variable in scan.bound[:-1] for extent in variable.shape for symbol in extent.free_symbols}
    tensors = sorted((s for s in free if isinstance(s, TensorSymbol)), key=lambda s: s.name)
    symbols = sorted((s for s in free if isinstance(s, (Symbol, Idx))), key=str)
    return moved, tensors, symbols


def _placeholder(expr: Any) -> Any:
    """Return a tensor symbol that replaces ``expr``, a value that is the same in all steps of a scan. It has the shape
    of ``expr``; its name is made from a hash of ``expr``.
    """
    return TensorSymbol(f"constant_{measures(expr).digest.hex()[:12]}", shape_of(expr))


def _unchanged(scan: Scan) -> list[Any]:
    """Return the largest loop-invariant expressions in the steps of `scan`, which depend on no state, sequence or time.
    They can be computed before the loop.
    """
    bound = set(scan.bound)
    for node in nodes_in(scan.steps):
        bound.update(node.variables if getattr(node, "is_binder", False) else ())
        bound.update(node.bound if getattr(node, "is_scan", False) else ())

    def is_unchanged(node: Any) -> bool:
        """Return whether `node` is worth computing once for all steps of the scan: it contains no variable in
        ``bound``, which changes from step to step, and is not just a symbol, a view or made of integers.
        """
        is_value = getattr(node, "is_tensor_expr", False) or getattr(node, "is_binder", False)
        if not is_value or node.is_symbol or not bound.isdisjoint(node.free_symbols):
            return False
        return any(isinstance(s, TensorSymbol) or not s.is_integer for s in node.free_symbols) and not _is_view(node)

    nodes = nodes_in(scan.steps, lambda node: () if is_unchanged(node) else node.args)
    return [node for node in nodes if is_unchanged(node)]


def _is_view(node: Any) -> bool:
    """Return whether `node` only permutes the axes of a tensor symbol, as ``A.T`` does."""
    if not isinstance(node, EinsumProduct) or len(node.operands) != 1 or not node.operands[0].is_symbol:
        return False
    return sorted(node.inputs[0]) == sorted(node.output)


def variables_in(exprs: Iterable[Any]) -> set[Any]:
    """Return the free symbols of all ``exprs`` as one set."""
    return set(free_symbols_in(exprs))
