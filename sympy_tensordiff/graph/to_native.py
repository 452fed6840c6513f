"""The graph into other notations: ``expr.rewrite(sympy.Sum)`` and ``expr.rewrite(td.EinsumProduct)``.

SymPy's ``Sum`` and ``Product`` follow Karr's convention, where a range that ends before it starts is not empty
but negative. Every range that may be empty therefore ends at ``Max(high, low - 1)``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import isnan
from typing import Any

import sympy

from sympy_tensordiff.errors import TensorDiffError, UnsupportedError
from sympy_tensordiff.graph.einsums import Recognition
from sympy_tensordiff.graph.interning import Recursion, in_turn, no_collection, takes_tensors, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import Writer, write
from sympy_tensordiff.graph.write_forms import Scope
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.implication import implied
from sympy_tensordiff.integer.rows import atoms_in
from sympy_tensordiff.symbolic.hooks import rewritten
from sympy_tensordiff.symbolic.indices import to_affine
from sympy_tensordiff.symbolic.lift import lift
from sympy_tensordiff.symbolic.limits import bound_forms
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.whole import index_letters

DEEPEST = 1000
"""The levels of an expression, through which SymPy goes by recursion; so many take seconds."""


def to_native(expr: Any) -> Any:
    """``expr``, one of the classes of this package, in SymPy's own notation.

    Raises
    ------
    UnsupportedError
        For a whole comprehension, and for a condition that SymPy would carry out of its sum.
    """
    reader = Reader(Graph())
    root = reader.read(rewritten(lift(expr), IndexedSum))  # SymPy's own sums in it bind indices, too
    if root.depth > DEEPEST:
        raise UnsupportedError(f"this {type(expr).__name__} is nested too deeply to be written in SymPy's own classes")
    return trampoline(_Native(reader).visit(root, ()))


class _Native(Writer):
    """Sums and products of SymPy's; ``groups`` are the variables that one of them binds, by each of these."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader)
        self.groups: dict[int, list[int]] = {}
        self.rows: dict[int, list[Row]] = {}
        self.merging: dict[Node, list[int]] = {}
        self.numbers: dict[Any, int] = {}
        shapes = [extent for tensor in reader.tensors.values() for extent in tensor.shape]
        self.facts = [Row("ge", self.affine(extent) - 1) for extent in shapes]
        for symbol in reader.free:
            if symbol.is_integer and symbol.is_nonnegative:
                self.facts.append(Row("ge", self.affine(symbol) - bool(symbol.is_positive)))

    def bounded(self, expr: Any) -> Any:
        return expr

    def affine(self, expr: Any) -> Affine:
        """The form of a bound that is written."""
        return to_affine(expr, lambda symbol: self.numbers.setdefault(symbol, len(self.numbers)))

    # -------------------------------------------------------------- tensors

    def plain(self, node: Node, args: list[Any], scope: Scope) -> Any:
        return self.base(node.data[0]) if node.op == "tensor" else super().plain(node, args, scope)

    def base(self, name: str) -> Any:
        """A tensor as a base, a symbol where it has no axes."""
        tensor = self.reader.tensors[name]
        kind = {"integer": True} if tensor.dtype is int else {"real": True}
        return sympy.IndexedBase(name, shape=tensor.shape, **kind) if tensor.shape else sympy.Symbol(name, **kind)

    def variable(self, variable: Any, scope: Scope) -> Any:
        if not isinstance(variable, DataEntry):
            return super().variable(variable, scope)
        index = tuple(self.form(form, scope) for form in variable.index)
        return self.base(variable.tensor)[index] if index else self.base(variable.tensor)

    def read(self, node: Node, scope: Scope) -> Recursion[Any]:
        tensor = node.args[0]
        if tensor.op == "comprehension":
            return (yield self.visit(self.graph.entry(tensor, node.data), scope))
        index = tuple(self.form(form, scope) for form in node.data)
        base = yield self.visit(tensor, scope)
        return base[index] if index else base

    def comprehension(self, node: Node, scope: Scope) -> Recursion[Any]:
        tensor = yield Writer(self.reader).visit(node, scope)
        entry = f"T[{', '.join(index_letters(tensor.rank))}]"
        raise UnsupportedError(
            f"a whole comprehension has no form in SymPy's own notation: rewrite an entry of it, {entry}, "
            f"with T = {tensor}"
        )

    def whole(self, node: Node, scope: Scope) -> Recursion[Any]:
        """What is left of operations on whole tensors in index notation."""
        tensor = yield Writer(self.reader).visit(node, scope)
        raise UnsupportedError(
            f"{type(tensor).__name__} has no form as a sum: {tensor}; rewrite(sympy.MatrixExpr) has SymPy's own "
            "inverses and determinants of whole matrices"
        )

    # -------------------------------------------------------------- sums and products

    def sum(self, node: Node, scope: Scope) -> Recursion[Any]:
        body, limits = yield self.ranged(node, scope)
        return (sympy.Sum if node.op == "sum" else sympy.Product)(body, *limits)

    prod = sum

    def reduction(self, node: Node, scope: Scope) -> Recursion[Any]:
        extremum = yield Writer(self.reader).visit(node, scope)
        name = type(extremum).__name__
        raise UnsupportedError(
            f"{name} has no form in SymPy's own notation, which has sums and products over ranges: {extremum}; "
            f"write sympy.{name[-3:]} of the entries"
        )

    max = min = reduction

    def limits(
        self, node: Node, variables: Sequence[int], rows: Sequence[Row], body: Node, scope: Scope
    ) -> list[tuple[Any, Any, Any]]:
        """The limits, of which none ends more than one before it starts."""
        group = self.merging.pop(node, [])
        group += variables
        if body.op == node.op:
            self.merging[body] = group  # SymPy makes one of two sums
        around = [row for v, _ in scope if v not in variables for row in self.rows[v]]
        found = []
        for v, (index, low, high) in zip(variables, super().limits(node, variables, rows, body, scope), strict=True):
            found.append((index, low, self.not_reversed(low, high, around)))
            value = self.affine(index)
            self.groups[v] = group
            self.rows[v] = [Row("ge", value - self.affine(form)) for form in bound_forms(low, sympy.Max)]
            self.rows[v] += [Row("ge", self.affine(form) - value) for form in bound_forms(high, sympy.Min)]
            around += self.rows[v]
        return found

    def not_reversed(self, low: Any, high: Any, rows: Iterable[Row]) -> Any:
        """The upper bound, and not less than one below the lower bound."""
        facts = (*self.facts, *rows)
        highs = [self.affine(form) for form in bound_forms(high, sympy.Min)]
        open_ = [
            form - 1
            for form in bound_forms(low, sympy.Max)
            if not all(implied(Row("ge", top - self.affine(form) + 1), facts) for top in highs)
        ]
        return sympy.Max(high, *open_) if open_ else high

    # -------------------------------------------------------------- conditions, which SymPy carries out of its sums

    def leaking(self, node: Node, indices: Iterable[int], scope: Scope) -> str:
        """Indices of sums among those of a condition, where a sum around would take the condition for its own."""
        outer, found = set[int](), list[str]()
        groups = {id(self.groups[v]): self.groups[v] for v, _ in scope}
        for group in groups.values():
            if not node.free.isdisjoint(outer):
                found += [str(symbol) for v, symbol in scope if v in group and v in indices]
            outer.update(group)
        return ", ".join(sorted(found))

    def add(self, node: Node, scope: Scope) -> Recursion[Any]:
        if not any(term.op == "guard" and self.leaking(term, atoms_of(term), scope) for term in node.args):
            return (yield super().add(node, scope))
        terms = yield from in_turn(self.visit(term, scope) for term in node.args)
        return sympy.Add(*terms)

    def guard(self, node: Node, scope: Scope) -> Recursion[Any]:
        """A case; as a sum over one value of an index where it holds, over none elsewhere, where it would leak."""
        if not self.leaking(node, atoms_of(node), scope):
            return (yield super().guard(node, scope))
        if node.args[0].op == "const" and isnan(node.args[0].data):
            raise UnsupportedError("a Piecewise without a default has no value where no condition holds: add (0, True)")
        body = yield self.visit(node.args[0], scope)
        equations = [row for row in node.data if row.kind == "eq"]
        forms = [self.form(row.form, scope) for row in node.data if row.kind == "ge"]
        forms += [-self.remainder(row.form, Affine.of(row.modulus), scope) for row in node.data if row.kind == "mod"]
        body *= sympy.Mul(*self.deltas(equations, scope))
        variable = self.graph.fresh("g")
        index = self.symbol(variable, self.bind((variable,), ("g",), scope))
        return sympy.Sum(body, (index, 0, sympy.Max(-1, sympy.Min(0, *forms)))) if forms else body

    def select(self, node: Node, scope: Scope) -> Recursion[Any]:
        result = yield super().select(node, scope)
        if leaking := self.leaking(node, node.args[0].free, scope):
            raise UnsupportedError(
                f"{result} has a condition on values with {leaking}, an index of a sum inside of a sum: "
                "SymPy's Sum would carry it out of its sum (sympy.piecewise_fold)"
            )
        return result


def atoms_of(guard: Node) -> frozenset[int]:
    """The variables in the rows of a guard."""
    return atoms_in(guard.data)


@no_collection()
def to_einsum(expr: Any) -> Any:
    """``expr`` as operations on whole tensors, as far as there are such operations.

    Returns
    -------
    Expr
        The same value: of the same shape, or a scalar. Sums over whole axes of products of
        entries are einsum products, functions of entries are element-wise functions. Parts that
        read at other places, or run over parts of an axis, are comprehensions. What the graph does not
        support stays as it is.
    """
    reader = Reader(Graph())
    try:
        root = reader.read(expr)
    except TensorDiffError:
        return expr
    extents = {extent for node in reachable(root) for extent in node.shape if all(v >= 0 for v in extent.atoms())}
    whole = trampoline(_Whole(reader.graph, extents).run(root))
    return expr if whole is root else write(reader, whole)


class _Whole:
    """One pass; ``known`` are the extents of all axes."""

    def __init__(self, graph: Graph, known: Collection[Affine]) -> None:
        self.graph = graph
        self.known = known
        self.done: dict[Node, Node] = {}
        self.around: set[int] = set()

    def run(self, root: Node) -> Recursion[Node]:
        """``root`` with the binders in which no bound variable is free as whole tensors, where they are some."""
        for node in reachable(root):
            if node not in self.done:
                new = self.graph.with_args(node, [self.done[arg] for arg in node.args])
                if new.op in BINDERS and all(v >= 0 for v in new.free):
                    new = yield self.binder(new)
                self.done[node] = self.done[new] = new
        return self.done[root]

    def binder(self, node: Node) -> Recursion[Node]:
        """A closed binder as whole tensors, or with those inside of it."""
        graph = self.graph
        variables, rows, body = graph.open(node)
        whole = self.sum(node) if node.op == "sum" else None
        if node.op == "comprehension":
            work = Recognition(graph, dict(zip(variables, node.data, strict=True)), self.known)
            whole = self.closed(work.tensor(body, variables))
        if whole is not None:
            return whole
        self.around.update(variables)
        inside = yield self.run(body)
        if inside is body:
            return node
        if node.op == "comprehension":
            return graph.comprehension(variables, node.data, inside)
        return graph.reduce(node.op, variables, rows, inside)

    def sum(self, node: Node) -> Node | None:
        """A sum as a contraction, or as an entry of one where free indices only select entries."""
        selected: dict[int, Affine] = {}
        for part in reachable(node):
            for form, extent in zip(part.data, part.args[0].shape, strict=True) if part.op == "read" else ():
                for v in form.atoms():
                    if v >= 0 and form == Affine.variable(v):
                        selected.setdefault(v, extent)
        while True:
            work = Recognition(self.graph, selected, self.known, selected)
            whole = self.closed(work.tensor(node, list(selected)))
            if whole is not None:
                return self.graph.read(whole, [Affine.variable(v) for v in selected])
            if not selected:
                return None
            selected = {v: extent for v, extent in selected.items() if work.refused and v not in work.refused}

    def closed(self, whole: Node | None) -> Node | None:
        """What is found, unless an operation on whole tensors in it depends on an index of a binder around."""
        parts = reachable(whole) if whole is not None and self.around else ()
        return None if any(takes_tensors(part) and not self.around.isdisjoint(part.free) for part in parts) else whole
