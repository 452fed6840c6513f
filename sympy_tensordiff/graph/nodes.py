"""The hash-consed graph of tensors and of the scalar expressions in their entries.

Equal structure is the same `Node`: identity is equality. Ids grow in the order of creation, so a
node's arguments have smaller ids and ascending ids are a topological order. Index expressions are
`Affine` forms over integer *variables*: the ids ``0, 1, …`` that `Graph.fresh` hands out, and the
negative ids of bound variables.

Bound variables are numbered by *height* (de Bruijn levels): a binder over a body in which at most ``h``
variables are nested calls its own ``-(h+1), -(h+2), …``. Alpha-equivalent nodes are therefore the same node, and a
substitution of free variables can never capture. A binder that is made inside a closed body uses higher
numbers where those are taken by enclosing binders, and gets its own ones back when these are opened. To look
inside a binder, `Graph.open` it: its variables become fresh ones; `Graph.sum`, `Graph.reduce` and
`Graph.comprehension` close them again.

A `sum` over no point is 0, a `prod` 1, a `max` and a `min` are infinite. Only the sum is linear in
its body: neither a factor nor a guard moves across the others.

Whole tensors have a ``shape``; they are closed, no bound variable is free in them. Element-wise nodes (`add`, `pow`,
`call`, `select`, conditions) of whole tensors have the shape of their arguments, some of which may be scalars;
products, sums over axes, transposes, deltas are ``ein``.

An entry of a tensor of integers is never a ``read``: it is the index that is one `IndirectIndex`, as in the forms of
other reads. ``Graph.symmetric`` has the matrices that are known to be symmetric, ``Graph.asymmetric`` others. An
entry of a symmetric variable is one node in both orders of its indices, and ``Graph.positive`` holds the variables
that are positive definite. ``Graph.integers`` has the nodes of integer tensors by name, ``Graph.below`` the upper
limits of those with declared ranges.
``Graph.assumptions`` has the assumptions about sizes and free indices: the declarations of their symbols, and that
divisors are positive. Kernels refuse calls that violate them.

Kinds of nodes (`op`), their `data` and `args`:

=============  =======================================  =====================================
op             data                                     args
=============  =======================================  =====================================
const          int, Fraction (no integer), float
scalar         SymPy symbol or constant (real)
index          Affine, an index or data used as a number
tensor         (name, shape)                            (a variable tensor)
read           index forms                              tensor or comprehension
add, mul                                                two or more
pow                                                     base, exponent
call           SymPy function class, `Partial`, or str  arguments (a str: `codegen` only)
compare        "lt", "le", "eq", "ne"                   two scalars (a condition on values)
and, or, not                                            conditions
select                                                  condition, value, otherwise
guard          rows                                     body: the body where all rows hold, else 0
sum            rows                                     body: summed over all points of the rows
prod           rows                                     body: multiplied over all points of the rows
max, min       rows                                     body: the greatest, the least value over the points
comprehension  extents                                  body
ein            `Contraction`: coefficient, labels       operands, see `graph.contractions`
inv            None                                     matrix
cof            order k                                  matrix: k-th derivative of its determinant
lse            axes                                     tensor: log(sum(exp)) over the axes
scan           `graph.scans.ScanData`                   initial values, sequences, constants
=============  =======================================  =====================================
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from sympy_tensordiff.graph.elementwise import Elementwise
from sympy_tensordiff.graph.interning import BINDERS, RANGED, REDUCTIONS, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint, Variable
from sympy_tensordiff.integer.rows import Rows, atoms_in, ranges, renaming_map, substitute_all

Substitution = Mapping[Variable, Affine]
"""The form that replaces each variable (an int) or whole `Compound`."""


class Graph(Elementwise):
    """A table of nodes, in which equal nodes are one object, and of variable names, with the constructors of all kinds
    of nodes. Each call of a public function makes a new graph.
    """

    def __init__(self) -> None:
        super().__init__()
        self._patterns = {}
        self._kinds = {}
        self.hints: dict[int, tuple[str, ...]] = {}
        self.letters: dict[Node, str] = {}  # the letters of axes in the einsums of users
        self.labels: dict[Node, str] = {}  # names that users have given to subexpressions
        self._made_of: dict[Node, tuple[tuple[int, ...], Node]] = {}
        self._rows_of: dict[Node, Rows] = {}
        self._shared: dict[str, list[int]] = {}
        self._opened: dict[tuple[Node, tuple[int, ...]], tuple[tuple[int, ...], Rows, Node]] = {}
        self.slopes: dict[Any, tuple[Node, Node, tuple[Node, ...]]] = {}
        self.laws: dict[str, int] = {}  # the accurate forms in kernels, with the number of their uses
        self.norms: set[Node] = set()  # the arrays of norms
        self.quotients: Any = None  # what simplify.quotients knows of nodes

    # -------------------------------------------------------------- binders

    def sum(self, variables: Sequence[int], rows: Iterable[Constraint], body: Node) -> Node:
        """Return the sum of ``body`` over ``variables``, at all integer points that satisfy ``rows``; nothing is
        simplified.

        Every variable is bounded by the rows. `simplify.deltas.summation` is the constructor that also eliminates
        equations; this one only closes the binder.
        """
        return self.reduce("sum", variables, rows, body)

    def reduce(self, op: str, variables: Sequence[int], rows: Iterable[Constraint], body: Node) -> Node:
        """Return the sum, product, maximum or minimum (``op``) of ``body`` over ``variables``, at all integer points
        that satisfy ``rows``.

        Every variable is bounded by the rows; nothing is simplified, except that a constant neutral body is returned
        itself.
        """
        if body is self._neutral(op):
            return body
        rows = tuple(rows)
        outer = body.free | atoms_in(rows)
        base, closing, closed = self._close(variables, body, outer)
        names = tuple(self.names[v] for v in variables)
        node = self._closed_binder(op, tuple(sorted(substitute_all(rows, closing))), closed, names, base)
        self._made_of.setdefault(node, (tuple(variables), body))
        return node

    def comprehension(self, variables: Sequence[int], extents: Sequence[Affine], body: Node) -> Node:
        """Return the tensor of shape ``extents`` with the entry ``body`` at ``variables``."""
        base, _, closed = self._close(variables, body, body.free)
        node = self._closed_binder(
            "comprehension", tuple(extents), closed, tuple(self.names[v] for v in variables), base
        )
        self._made_of.setdefault(node, (tuple(variables), body))
        return node

    def _neutral(self, op: str) -> Node | None:
        """Return the neutral element of the reduction ``op``: 0 for a sum, 1 for a product. None for a maximum or
        minimum.
        """
        return {"sum": self.zero, "prod": self.one}.get(op)

    def _close(self, variables: Sequence[int], body: Node, outer: frozenset[int]) -> tuple[int, Substitution, Node]:
        """Rename ``variables`` in ``body``, which a sum or other binder is about to bind, to the negative numbers
        ``-(base + 1)``, ``-(base + 2)``, .... Return ``(base, renaming, new body)``.

        None of these numbers is in `outer`.

        Usually ``base`` is the number of binders nested in the body.
        """
        base = body.height
        if any(base < -v <= base + len(variables) for v in outer):
            base = max(-v for v in outer)
        closing = renaming_map(variables, [-(base + 1 + n) for n in range(len(variables))])
        return base, closing, self.substitute(body, closing)

    def _closed_binder(self, op: str, data: tuple[Any, ...], body: Node, names: tuple[str, ...], base: int) -> Node:
        """Return the node of a sum or other binder (``op``), in whose ``body`` the bound variables are already renamed
        to the negative numbers ``-(base + 1)``, ``-(base + 2)``, .... ``data`` are its constraints or extents.

        `names` are the names of the variables for printing.
        """
        count = len(names)
        key = (count, data) if base == body.height else (count, data, base)
        node = self._node(op, data, (body,), key, data, data if op == "comprehension" else ())
        if node.id not in self.hints:
            node.free = node.free - frozenset(-(base + 1 + n) for n in range(count))
            node.height = base + count
            self.hints[node.id] = names
        elif (known_names := self.hints[node.id]) != names and all(
            o == new or o.startswith(f"{new}_") for o, new in zip(known_names, names, strict=True)
        ):
            # An index inside another j is printed as j_1; read again, it gets the name j of equal nodes elsewhere.
            self.hints[node.id] = names
        return node

    def bound(self, node: Node) -> tuple[int, ...]:
        """Return the variables that the sum or other binder `node` binds. They are negative numbers, which depend on
        how deeply binders are nested in its body.
        """
        count = len(self.hints[node.id])
        base = node.height - count
        return tuple(-(base + 1 + n) for n in range(count))

    def open(self, node: Node) -> tuple[tuple[int, ...], tuple[Constraint, ...], Node]:
        """Return ``(variables, constraints, body)`` of the sum or other binder `node`, with new variables in place of
        the bound ones.

        The rows of a comprehension are its ranges ``0 <= i < extent``.
        """
        opening = self._fresh_variables(node)
        variables = tuple(form.terms[0][0] for form in opening.values())
        closed = node.data if node.op in RANGED else ranges(tuple(opening), node.data)
        rows = substitute_all(closed, opening)
        return variables, rows, self.substitute(node.args[0], opening)

    def entry(self, table: Node, index: Sequence[Affine]) -> Node:
        """Return the entry of the comprehension ``table`` at ``index``: its body with the forms in ``index`` in place
        of its variables.
        """
        return self.substitute(table.args[0], dict(zip(self.bound(table), index, strict=True)))

    def inside(self, node: Node, taken: Container[int]) -> tuple[tuple[int, ...], tuple[Constraint, ...], Node]:
        """Return ``(variables, constraints, body)`` of the sum or other binder ``node``, with the variables from which
        it was made, which is cheaper than new ones. They may occur in other nodes, too; if one of them is in ``taken``,
        all are new.

        Another node may have been made of the same variables. So use this for a look inside, or for a change of the
        body that is closed again before another node is opened.
        """
        made = self._made_of.get(node)
        if made is None or any(v in taken for v in made[0]):
            return self.open(node)
        variables, body = made
        if node not in self._rows_of:
            if node.op == "comprehension":
                self._rows_of[node] = ranges(variables, node.data)
            else:
                self._rows_of[node] = substitute_all(node.data, renaming_map(self.bound(node), variables))
        return variables, self._rows_of[node], body

    def open_shared(self, node: Node, taken: Container[int]) -> tuple[tuple[int, ...], Rows, Node]:
        """Return ``(variables, constraints, body)`` of the sum or other binder ``node``, with variables that are not in
        ``taken`` in place of the bound ones. Calls for other binders use the same variables, so that equal parts of
        them become the same nodes.

        Binders with indices of the same names get the same variables. Use it as `inside`.
        """
        return self.opened_over(node, self.shared_variables(self.hints[node.id], taken, node.free))

    def shared_variables(self, names: Sequence[str], *taken: Container[int]) -> tuple[int, ...]:
        """Return one variable for each of ``names``, none of which is in ``taken``. Variables of earlier calls are used
        again if possible.
        """
        variables: list[int] = []
        for name in names:
            shared = self._shared.setdefault(name, [])
            found = next((v for v in shared if v not in variables and not any(v in part for part in taken)), None)
            if found is None:
                found = self.fresh(name)
                shared.append(found)
            variables.append(found)
        return tuple(variables)

    def opened_over(self, node: Node, variables: tuple[int, ...]) -> tuple[tuple[int, ...], Rows, Node]:
        """Return ``(variables, constraints, body)`` of the sum or other binder `node`, with the given ``variables`` in
        place of its bound ones.
        """
        key = node, variables
        if key not in self._opened:
            opening = renaming_map(self.bound(node), variables)
            closed = node.data if node.op in RANGED else ranges(tuple(opening), node.data)
            made = self._made_of.get(node)
            body = made[1] if made and made[0] == variables else self.substitute(node.args[0], opening)
            self._opened[key] = variables, substitute_all(closed, opening), body
        return self._opened[key]

    # -------------------------------------------------------------- substitution

    def rebuild(self, node: Node, args: Sequence[Node], mapping: Substitution | None = None) -> Node:
        """Return a node like ``node`` with the new arguments ``args``; ``node`` must not bind variables. ``mapping`` is
        substituted in the index forms that the node itself stores, such as the indices of a read.
        """
        mapping = mapping or {}
        match node.op:
            case "add" | "mul":
                return self.add(args) if node.op == "add" else self.mul(args)
            case "pow":
                return self.pow(args[0], args[1])
            case "select":
                return self.select(args[0], args[1], args[2])
            case "guard":
                return self.guard(substitute_all(node.data, mapping), args[0])
            case "index":
                return self.index(node.data.substitute(mapping))
            case "read":
                return self.read(args[0], substitute_all(node.data, mapping))
            case "compare" if args[0].op == "index":
                return self.compare(node.data, args[0], args[1])
            case "and" | "or" | "not":
                return self.logic(node.op, args)
            case "call":
                return self.call(node.data, args)
            case "scan":
                return self.scan(node.data.substituted(mapping), args)
            case "ein" | "inv" | "cof" | "lse":
                return self.tensor_node(node, args)
            case _:
                return self._plain(node.op, node.data, tuple(args)) if args else node

    def with_args(self, node: Node, args: Sequence[Node]) -> Node:
        """Return ``node`` with other arguments. A sum or other binder keeps its bound variables, which may occur in
        `args`.
        """
        if tuple(args) == node.args:
            return node
        if node.op in BINDERS:
            return self.rebind(node, args[0])
        return self.rebuild(node, args)

    def substitute(self, node: Node, mapping: Substitution) -> Node:
        """Return ``node`` with the free variables that are keys of ``mapping`` replaced by index forms, all at once.
        Bound variables never clash with variables of these forms.
        """
        keys = frozenset().union(*(k.atoms() if isinstance(k, Compound) else (k,) for k in mapping))
        if not keys & node.free:
            return node
        done: dict[Node, Node] = {}
        rebuild = self._rebuild_renamed if _is_renaming(mapping, node) else self.rebuild
        for part in reachable(node, keys=keys):
            args = tuple([done.get(a, a) for a in part.args])
            if part.op in BINDERS:
                done[part] = self._substitute_binder(part, args[0], mapping)
            else:
                done[part] = rebuild(part, args, mapping)
        return done[node]

    def _rebuild_renamed(self, node: Node, args: tuple[Node, ...], mapping: Substitution) -> Node:
        """Return ``node`` with the new arguments ``args``, and with its own variables renamed by ``mapping``. Nothing
        is simplified, since a mere renaming allows no rule to apply.
        """
        match node.op:
            case "add" | "mul":
                return self._node(node.op, None, args, args, (), node.shape)
            case "guard" | "index" | "read" | "ein" | "inv" | "cof" | "lse" | "scan":
                return self.rebuild(node, args, mapping)
            case "compare" if args[0].op == "index":
                return self.compare(node.data, args[0], args[1])
            case _:
                return self._plain(node.op, node.data, args)

    def _substitute_binder(self, node: Node, body: Node, mapping: Substitution) -> Node:
        """Return the sum or other binder `node` after the substitution ``mapping``. ``body`` is its body after the
        substitution.
        """
        old = node.args[0]
        own = self.bound(node)
        # The height of the body has changed, or the numbers of the bound variables are used in the mapping.
        if body.height != node.height - len(own) or any(v in mapping for v in own):
            opening = self._fresh_variables(node)
            return self._close_again(node, opening, self.substitute(old, {**mapping, **opening}), mapping)
        if body is self._neutral(node.op):
            return body
        data = substitute_all(node.data, mapping)
        return self._closed_binder(
            node.op, tuple(sorted(data)) if node.op in RANGED else data, body, self.hints[node.id], body.height
        )

    def rebind(self, node: Node, body: Node, mapping: Substitution | None = None) -> Node:
        """Return a sum or other binder like ``node`` with the new ``body``, which contains the same bound variables;
        ``mapping`` is substituted in its constraints or extents.
        """
        names = self.hints[node.id]
        if not mapping and body.height == node.height - len(names) and body is not self._neutral(node.op):
            return self._closed_binder(node.op, node.data, body, names, body.height)
        opening = self._fresh_variables(node)
        return self._close_again(node, opening, self.substitute(body, opening), mapping or {})

    def over(self, node: Node, variables: Sequence[int], body: Node) -> Node:
        """Return a sum or other binder like ``node`` (with its constraints or extents) that binds ``variables`` in the
        new ``body``.
        """
        return self._close_again(node, renaming_map(self.bound(node), variables), body, {})

    def map_forms(self, node: Node, change: Callable[[Affine], Affine]) -> Node:
        """Return ``node`` with each affine index form in it replaced by ``change(form)``, which must be equal to it."""
        return rewritten(self, [node], lambda part: self.map_own_forms(part, change))[0]

    def map_own_forms(self, node: Node, change: Callable[[Affine], Affine]) -> Node:
        """Return ``node`` with ``change`` applied to the index forms that it stores itself, such as the indices of a
        read, but not to those in its arguments. The new forms must be equal in value.
        """
        if node.op == "read":
            return self.read(node.args[0], [change(form) for form in node.data])
        return self.index(change(node.data)) if node.op == "index" else node

    def _fresh_variables(self, node: Node) -> dict[Variable, Affine]:
        """Return a mapping from the bound variables of `node` to new ones, in their order."""
        names = self.hints[node.id]
        return renaming_map(self.bound(node), [self.fresh(name) for name in names])

    def _close_again(self, node: Node, fresh: Substitution, body: Node, mapping: Substitution) -> Node:
        """Return a sum or other binder like ``node`` that binds the variables in ``fresh``, a mapping from the old
        bound variables to the new ones. ``body`` is its new body; ``mapping`` is substituted in its constraints or
        extents.
        """
        variables = [form.terms[0][0] for form in fresh.values()]
        data = substitute_all(node.data, {**mapping, **fresh})
        if node.op in RANGED:
            return self.reduce(node.op, variables, data, body)
        return self.comprehension(variables, data, body)


def _is_renaming(mapping: Substitution, node: Node) -> bool:
    """Return whether ``mapping`` only renames: it replaces each variable by another one (plus a constant), no two by
    the same and none by one that is free in ``node``. Different index forms in ``node`` then stay different.
    """
    targets = set()
    for form in mapping.values():
        if len(form.terms) != 1 or form.terms[0][1] != 1:
            return False
        targets.add(form.terms[0][0])
    return len(targets) == len(mapping) and (node.free - mapping.keys()).isdisjoint(targets)


def replace(graph: Graph, node: Node, values: dict[Node, Node]) -> Node:
    """Return ``node`` with each node below it that is a key of ``values`` replaced by its value. Keys may not contain
    bound variables.
    """
    done = dict(values)
    for part in reachable(node, known=done):
        done[part] = graph.with_args(part, [done[arg] for arg in part.args])
    return done[node]


def rewritten(graph: Graph, roots: Sequence[Node], change: Callable[[Node], Node]) -> list[Node]:
    """Return ``roots`` with ``change(node)`` in place of each node below them, arguments first."""
    done: dict[Node, Node] = {}
    for part in reachable(*roots):
        done[part] = change(graph.with_args(part, [done[arg] for arg in part.args]))
    return [done[root] for root in roots]


__all__ = [
    "BINDERS", "RANGED", "REDUCTIONS", "Graph", "Node", "Substitution", "ranges", "reachable", "replace", "rewritten"
]  # fmt: skip
