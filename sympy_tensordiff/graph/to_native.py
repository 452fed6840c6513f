"""Writing the graph in other notations: ``expr.rewrite(sympy.Sum)`` and ``expr.rewrite(td.EinsumProduct)``.

SymPy's ``Sum`` and ``Product`` follow Karr's convention: a range that ends before it starts is not empty
but negative. Every range that may be empty therefore ends at ``Max(high, low - 1)``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import isnan
from typing import Any

import sympy

from sympy_tensordiff.errors import TensorDiffError, UnsupportedError
from sympy_tensordiff.graph.einsums import Recognition
from sympy_tensordiff.graph.index_tests import conjuncts, is_index_choice
from sympy_tensordiff.graph.interning import Recursion, in_turn, no_collection, takes_tensors, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.graph.nodes import rewritten as rewritten_nodes
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import ExpressionWriter, write
from sympy_tensordiff.graph.write_forms import BoundSymbols
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.rows import atoms_in
from sympy_tensordiff.symbolic.conversion.lift import lift
from sympy_tensordiff.symbolic.expressions.hooks import rewritten
from sympy_tensordiff.symbolic.expressions.misplaced_tensors import index_letters
from sympy_tensordiff.symbolic.index_notation.indices import to_affine
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange, bound_forms
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum

MAX_DEPTH = 1000
"""The most levels of an expression, which SymPy traverses recursively; this many take seconds."""


def to_native(expr: Any) -> Any:
    """Return an expression of this package's classes in SymPy's own notation.

    Raise `UnsupportedError` for a whole comprehension, and for a condition that SymPy would move out of its sum.
    """
    reader = Reader(Graph())
    root = reader.read(rewritten(lift(expr), IndexedSum))  # SymPy's own sums in it bind indices, too
    if root.depth > MAX_DEPTH:
        raise UnsupportedError(f"this {type(expr).__name__} is nested too deeply to be written in SymPy's own classes")
    return trampoline(_Native(reader).visit(root, ()))


class _Native(ExpressionWriter):
    """Writes a graph in SymPy's own notation, with ``Sum``, ``Product`` and ``Indexed``. ``groups`` maps each variable
    to all variables that are bound by the same sum.
    """

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader)
        self.groups: dict[int, list[int]] = {}
        self.rows: dict[int, list[Constraint]] = {}
        self.merging: dict[Node, list[int]] = {}
        self.numbers: dict[Any, int] = {}
        shapes = [extent for tensor in reader.tensors.values() for extent in tensor.shape]
        self.facts = [Constraint("ge", self.affine(extent) - 1) for extent in shapes]
        for symbol in reader.free:
            if symbol.is_integer and symbol.is_nonnegative:
                self.facts.append(Constraint("ge", self.affine(symbol) - bool(symbol.is_positive)))

    def bounded(self, expr: Any) -> Any:
        """Return `expr` unchanged. The base class wraps deeply nested expressions in a class of this package, which
        SymPy's own notation cannot contain.
        """
        return expr

    def affine(self, expr: Any) -> Affine:
        """Return the affine form of `expr`, a loop bound written in SymPy. New symbols in it get variable numbers."""
        return to_affine(expr, lambda symbol: self.numbers.setdefault(symbol, len(self.numbers)))

    # -------------------------------------------------------------- tensors

    def plain(self, node: Node, args: list[Any], bound_symbols: BoundSymbols) -> Any:
        """Return the SymPy expression of a node that binds no variables, given those of its arguments in `args`."""
        return self.base_of_tensor(node.data[0]) if node.op == "tensor" else super().plain(node, args, bound_symbols)

    def base_of_tensor(self, name: str) -> Any:
        """Return a tensor variable as an `IndexedBase`, or as a symbol if it has no axes."""
        tensor = self.reader.tensors[name]
        kind = {"integer": True} if tensor.dtype is int else {"real": True}
        return sympy.IndexedBase(name, shape=tensor.shape, **kind) if tensor.shape else sympy.Symbol(name, **kind)

    def variable(self, variable: Any, bound_symbols: BoundSymbols) -> Any:
        """Return the SymPy expression of a variable; an entry of an integer tensor as an `Indexed`."""
        if not isinstance(variable, IndirectIndex):
            return super().variable(variable, bound_symbols)
        index = tuple(self.form(form, bound_symbols) for form in variable.index)
        base = self.base_of_tensor(variable.tensor)
        return base[index] if index else base

    def write_read(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return an entry of a tensor as an `Indexed`; an entry of a comprehension as its body."""
        tensor = node.args[0]
        if tensor.op == "comprehension":
            return (yield self.visit(self.graph.entry(tensor, node.data), bound_symbols))
        index = tuple(self.form(form, bound_symbols) for form in node.data)
        base = yield self.visit(tensor, bound_symbols)
        return base[index] if index else base

    def write_comprehension(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Raise UnsupportedError: a whole comprehension has no form in SymPy's notation."""
        tensor = yield ExpressionWriter(self.reader).visit(node, bound_symbols)
        entry = f"T[{', '.join(index_letters(tensor.rank))}]"
        raise UnsupportedError(
            f"a whole comprehension has no form in SymPy's own notation: rewrite an entry of it, {entry}, "
            f"with T = {tensor}"
        )

    def whole(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Raise UnsupportedError: this operation on whole tensors cannot be written as sums."""
        tensor = yield ExpressionWriter(self.reader).visit(node, bound_symbols)
        raise UnsupportedError(
            f"{type(tensor).__name__} has no form as a sum: {tensor}; rewrite(sympy.MatrixExpr) has SymPy's own "
            "inverses and determinants of whole matrices"
        )

    # -------------------------------------------------------------- sums and products

    def write_sum(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the SymPy `Sum` or `Product` of `node`, a sum or product over index ranges."""
        body, limits = yield self.ranged(node, bound_symbols)
        return (sympy.Sum if node.op == "sum" else sympy.Product)(body, *limits)

    write_prod = write_sum

    def write_reduction(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Raise UnsupportedError: a maximum or minimum over a range has no form in SymPy's notation."""
        extremum = yield ExpressionWriter(self.reader).visit(node, bound_symbols)
        name = type(extremum).__name__
        raise UnsupportedError(
            f"{name} has no form in SymPy's own notation, which has sums and products over ranges: {extremum}; "
            f"write sympy.{name[-3:]} of the entries"
        )

    write_max = write_min = write_reduction

    def limits(
        self, node: Node, variables: Sequence[int], rows: Sequence[Constraint], body: Node, bound_symbols: BoundSymbols
    ) -> list[tuple[Any, Any, Any]]:
        """Return the limits ``(index, lowest, highest)`` of the sum ``node`` for SymPy, outermost first: those of
        ``variables`` in the range ``rows``, with the summand ``body``. Upper limits are raised where a range may be
        empty: SymPy's sum is 0 only if a range ends exactly 1 before its start.
        """
        group = self.merging.pop(node, [])
        group += variables
        if body.op == node.op:
            self.merging[body] = group  # SymPy makes one of two sums
        enclosing = [row for v, _ in bound_symbols if v not in variables for row in self.rows[v]]
        result = []
        for v, (index, low, high) in zip(
            variables, super().limits(node, variables, rows, body, bound_symbols), strict=True
        ):
            result.append((index, low, self.not_below_empty(low, high, enclosing)))
            self.groups[v] = group
            (own,) = self.affine(index).variables()
            self.rows[v] = IndexRange(index, low, high).constraints(own, self.affine)
            enclosing += self.rows[v]
        return result

    def not_below_empty(self, low: Any, high: Any, rows: Iterable[Constraint]) -> Any:
        """Return the upper limit ``high`` of a sum, as ``Max(high, low - 1)`` unless ``rows`` imply
        ``high >= low - 1``. SymPy's sums over ranges with a smaller upper limit are not 0.
        """
        facts = (*self.facts, *rows)
        highs = [self.affine(form) for form in bound_forms(high, sympy.Min)]
        unproven = [
            form - 1
            for form in bound_forms(low, sympy.Max)
            if not all(is_implied(Constraint("ge", top - self.affine(form) + 1), facts) for top in highs)
        ]
        return sympy.Max(high, *unproven) if unproven else high

    # -------------------------------------------------------------- conditions, which SymPy moves out of its sums

    def leaking_indices(self, node: Node, indices: Iterable[int], bound_symbols: BoundSymbols) -> str:
        """Return the names, as text, of those ``indices`` that SymPy would move out of the sum that binds them, when it
        merges the nested sums around ``node``; "" if there are none.
        """
        outer_variables, names = set[int](), list[str]()
        groups = {id(self.groups[v]): self.groups[v] for v, _ in bound_symbols}
        for group in groups.values():
            if not node.free.isdisjoint(outer_variables):
                names += [str(symbol) for v, symbol in bound_symbols if v in group and v in indices]
            outer_variables.update(group)
        return ", ".join(sorted(names))

    def write_add(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the SymPy sum of the terms of `node`. Guarded terms stay separate, instead of being merged into one
        `Piecewise`, where SymPy would wrongly move their conditions out of an outer sum.
        """
        if not any(
            term.op == "guard" and self.leaking_indices(term, variables_of_guard(term), bound_symbols)
            for term in node.args
        ):
            return (yield super().write_add(node, bound_symbols))
        terms = yield from in_turn(self.visit(term, bound_symbols) for term in node.args)
        return sympy.Add(*terms)

    def write_guard(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return a guard as a `Piecewise`. If SymPy would move that out of an outer sum, return a sum over a new index
        ``g`` instead: its range contains only 0 where the guard holds, and is empty elsewhere.
        """
        if not self.leaking_indices(node, variables_of_guard(node), bound_symbols):
            return (yield super().write_guard(node, bound_symbols))
        if node.args[0].op == "const" and isnan(node.args[0].data):
            raise UnsupportedError("a Piecewise without a default has no value where no condition holds: add (0, True)")
        body = yield self.visit(node.args[0], bound_symbols)
        equations = [row for row in node.data if row.kind == "eq"]
        forms = [self.form(row.form, bound_symbols) for row in node.data if row.kind == "ge"]
        forms += [
            -self.remainder(row.form, Affine.of(row.modulus), bound_symbols) for row in node.data if row.kind == "mod"
        ]
        body *= sympy.Mul(*self.deltas(equations, bound_symbols))
        variable = self.graph.fresh("g")
        index = self.symbol(variable, self.bind((variable,), ("g",), bound_symbols))
        return sympy.Sum(body, (index, 0, sympy.Max(-1, sympy.Min(0, *forms)))) if forms else body

    def write_select(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return a select as a `Piecewise`. If SymPy would move the condition out of a sum, return two guarded terms
        for a select by ``i != j``, and raise UnsupportedError for any other.
        """
        leaking_indices = self.leaking_indices(node, node.args[0].free, bound_symbols)
        if leaking_indices and is_index_choice(node):
            graph, (test, *others) = self.graph, conjuncts(node.args[0])
            value = graph.tested(graph.logic("and", others), node.args[1]) if others else node.args[1]
            form = test.args[0].data
            sides = [graph.guard((Constraint("ge", side - 1),), value) for side in (form, -form)]
            terms = yield from in_turn(self.visit(side, bound_symbols) for side in sides)
            return sympy.Add(*terms)
        result = yield super().write_select(node, bound_symbols)
        if leaking_indices:
            raise UnsupportedError(
                f"{result} has a condition on values with {leaking_indices}, an index of a sum inside of a sum: "
                "SymPy's Sum would carry it out of its sum (sympy.piecewise_fold)"
            )
        return result


def variables_of_guard(guard: Node) -> frozenset[int]:
    """Return the variables in the constraints of a guard."""
    return atoms_in(guard.data)


@no_collection()
def to_einsum(expr: Any) -> Any:
    """Return ``expr`` with index notation converted to operations on whole tensors, such as ``A @ x``, as far as
    possible.

    Sums over whole axes of products of entries become einsum products, functions of entries element-wise functions.
    Subexpressions that read at other indices, or run over parts of an axis, become comprehensions. An expression that
    the graph does not support is returned unchanged.
    """
    reader = Reader(Graph())
    try:
        root = reader.read(expr)
    except TensorDiffError:
        return expr
    extents = {extent for node in reachable(root) for extent in node.shape if all(v >= 0 for v in extent.atoms())}
    whole = trampoline(_WholeTensors(reader.graph, extents).run(root))
    return expr if whole is root else write(reader, whole)


def _along_axes(graph: Graph, body: Node, variables: Sequence[int], extents: Sequence[Affine]) -> Node:
    """Return ``body``, the formula of a tensor's entry, with reads along axes of extent 1 written with an index:
    ``u[k, q]`` for ``u[k, 0]``, where ``q`` is the index in ``variables`` of the only axis of extent 1. Unchanged
    unless there is exactly one such axis.

    The axes of operands and result then match.
    """
    single = [v for v, extent in zip(variables, extents, strict=True) if extent == Affine.of(1)]
    if len(single) != 1:
        return body
    axis = Affine.variable(single[0])

    def along(node: Node) -> Node:
        """Return ``node``, if it is a read such as ``u[k, 0]``, with the index of the tensor's axis of extent 1 along
        all axes of extent 1, as in ``u[k, q]``; other nodes unchanged.
        """
        if node.op != "read":
            return node
        pairs = zip(node.data, node.args[0].shape, strict=True)
        return graph.read(node.args[0], [axis if extent == Affine.of(1) else form for form, extent in pairs])

    return rewritten_nodes(graph, [body], along)[0]


class _WholeTensors:
    """Converts comprehensions and sums to operations on whole tensors, such as ``A @ x``. ``known`` are constraints on
    the extents.
    """

    def __init__(self, graph: Graph, known: Collection[Affine]) -> None:
        self.graph = graph
        self.known = known
        self.done: dict[Node, Node] = {}
        self.around: set[int] = set()

    def run(self, root: Node) -> Recursion[Node]:
        """Return ``root`` with sums and comprehensions in it converted to operations on whole tensors, such as ``A @
        x``.

        One that depends on an enclosing index, or has no such form, is not converted by itself.
        """
        for node in reachable(root):
            if node not in self.done:
                new = self.graph.with_args(node, [self.done[arg] for arg in node.args])
                if new.op in BINDERS and all(v >= 0 for v in new.free):
                    new = yield self.convert_binder(new)
                self.done[node] = self.done[new] = new
        return self.done[root]

    def convert_binder(self, node: Node) -> Recursion[Node]:
        """Return the comprehension or sum `node` as operations on whole tensors; if that is impossible, convert the
        parts inside of it.
        """
        graph = self.graph
        variables, rows, body = graph.open(node)
        whole = self.convert_sum(node) if node.op == "sum" else None
        if node.op == "comprehension":
            body = _along_axes(graph, body, variables, node.data)
            work = Recognition(graph, dict(zip(variables, node.data, strict=True)), self.known)
            whole = self.if_closed(work.tensor(body, variables))
        if whole is not None:
            return whole
        self.around.update(variables)
        inside = yield self.run(body)
        if inside is body:
            return node
        if node.op == "comprehension":
            return graph.comprehension(variables, node.data, inside)
        return graph.reduce(node.op, variables, rows, inside)

    def convert_sum(self, node: Node) -> Node | None:
        """Return the sum `node` as a contraction such as ``x @ y``, or as an entry of one, such as ``(A @ x)[p]``; None
        if it is neither.
        """
        selected: dict[int, Affine] = {}
        for part in reachable(node):
            for form, extent in zip(part.data, part.args[0].shape, strict=True) if part.op == "read" else ():
                for v in form.atoms():
                    if v >= 0 and form == Affine.variable(v):
                        selected.setdefault(v, extent)
        while True:
            work = Recognition(self.graph, selected, self.known, selected)
            whole = self.if_closed(work.tensor(node, list(selected)))
            if whole is not None:
                return self.graph.read(whole, [Affine.variable(v) for v in selected])
            if not selected:
                return None
            selected = {v: extent for v, extent in selected.items() if work.refused and v not in work.refused}

    def if_closed(self, whole: Node | None) -> Node | None:
        """Return ``whole``, or None if an operation on whole tensors in it depends on an index that an outer sum or
        comprehension binds.
        """
        parts = reachable(whole) if whole is not None and self.around else ()
        return None if any(takes_tensors(part) and not self.around.isdisjoint(part.free) for part in parts) else whole
