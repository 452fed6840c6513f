"""The hash-consed graph of tensors and of the scalar expressions in their entries.

Equal structure is the same `Node`: identity is equality. Ids grow in the order of creation, so a
node's arguments have smaller ids and ascending ids are a topological order. Index expressions are
`Affine` forms over integer *variables*: the ids ``0, 1, …`` that `Graph.fresh` hands out, and the
negative ids of bound variables.

Bound variables are closed to *heights*: a binder over a body in which ``h`` variables are bound at
most calls its own ``-(h+1), -(h+2), …``. Alpha-equivalent nodes are therefore the same node, and a
substitution of free variables can never capture. To look inside a binder, `Graph.open` it: its
variables become fresh ones; `Graph.sum` and `Graph.comprehension` close them again.

Kinds of nodes (`op`), their `data` and `args`:

=============  =======================================  =====================================
op             data                                     args
=============  =======================================  =====================================
const          int, Fraction (no integer), float
scalar         SymPy symbol or constant (real)
index          Affine, an index used as a number
tensor         (name, shape)                            (a variable tensor)
read           index forms                              tensor or comprehension
add, mul                                                two or more
pow                                                     base, exponent
call           SymPy function class                     arguments
compare        "lt", "le", "eq", "ne"                   two scalars (a condition on values)
and, or, not                                            conditions
select                                                  condition, value, otherwise
guard          rows                                     body: the body where all rows hold, else 0
sum            rows                                     body: summed over all points of the rows
comprehension  extents                                  body
=============  =======================================  =====================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sympy_tensordiff.integer.affine import Affine, Quotient, Row, Variable, normalise_rows

Number = int | Fraction | float
Substitution = Mapping[Variable, Affine]
"""What stands in place of a variable (an int) or of a whole `Quotient`."""


_SCOPES = frozenset({"guard", "sum", "comprehension"})


class Node:
    """One node; made by `Graph` only.

    ``free`` are the variables that stand free in it; ``depth`` is greater than that of every
    argument; ``plain`` says that no guard and no binder is below.
    """

    __slots__ = ("args", "data", "depth", "free", "height", "id", "op", "plain")
    id: int
    op: str
    args: tuple[Node, ...]
    data: Any
    free: frozenset[int]
    depth: int
    height: int
    plain: bool

    def __repr__(self) -> str:
        data = "" if self.data is None else f"{self.data} "
        return f"<{self.id}: {self.op} {data}{' '.join(str(a.id) for a in self.args)}>"


class Graph:
    """A table of interned nodes and of the names of variables. One graph serves one call."""

    def __init__(self) -> None:
        self._table: dict[tuple[Any, ...], Node] = {}
        self.names: list[str] = []
        self.hints: dict[int, tuple[str, ...]] = {}
        self.zero = self.const(0)
        self.one = self.const(1)

    # -------------------------------------------------------------- variables

    def fresh(self, name: str) -> int:
        """A new variable; ``name`` is what a reader would like to see."""
        self.names.append(name)
        return len(self.names) - 1

    # -------------------------------------------------------------- interning

    def _node(self, op: str, data: Any, args: tuple[Node, ...], key: Any, own: frozenset[int]) -> Node:
        full = (op, key, tuple(a.id for a in args)) if key is not args else (op, tuple(sorted(a.id for a in args)))
        node = self._table.get(full)
        if node is None:
            node = Node()
            node.id, node.op, node.data, node.args = len(self._table), op, data, args
            node.free = own.union(*(a.free for a in args))
            node.depth = 1 + max((a.depth for a in args), default=0)
            node.height = max((a.height for a in args), default=0)
            node.plain = op not in _SCOPES and all(a.plain for a in args)
            self._table[full] = node
        return node

    def _plain(self, op: str, data: Any, args: tuple[Node, ...]) -> Node:
        return self._node(op, data, args, data, frozenset())

    # -------------------------------------------------------------- leaves

    def const(self, value: Number) -> Node:
        if isinstance(value, Fraction) and value.denominator == 1:
            value = value.numerator
        # 0.5 and Fraction(1, 2) are equal keys but print differently.
        return self._node("const", value, (), (type(value).__name__, value), frozenset())

    def scalar(self, symbol: Any) -> Node:
        return self._plain("scalar", symbol, ())

    def index(self, form: Affine) -> Node:
        if form.is_constant:
            return self.const(form.constant)
        return self._node("index", form, (), form, form.atoms())

    def tensor(self, name: str, shape: tuple[Affine, ...]) -> Node:
        return self._node("tensor", (name, shape), (), (name, shape), frozenset())

    def read(self, tensor: Node, index: Sequence[Affine]) -> Node:
        own = frozenset().union(*(form.atoms() for form in index))
        return self._node("read", tuple(index), (tensor,), tuple(index), own)

    # -------------------------------------------------------------- arithmetic

    def add(self, terms: Iterable[Node]) -> Node:
        """The sum; numbers are added, equal terms collected, equal guards joined."""
        coefficients: dict[Node, Number] = {}
        constant: Number = 0
        guarded: dict[tuple[Row, ...], list[Node]] = {}
        for term in terms:
            for part in term.args if term.op == "add" else (term,):
                if part.op == "guard":
                    guarded.setdefault(part.data, []).append(part.args[0])
                    continue
                factor, rest = self.split_coefficient(part)
                if rest is self.one:
                    constant += factor
                else:
                    coefficients[rest] = coefficients.get(rest, 0) + factor
        parts = [self.scale(c, node) for node, c in coefficients.items() if c != 0]
        parts += [self.guard(rows, self.add(bodies)) for rows, bodies in guarded.items()]
        parts = [part for part in parts if part is not self.zero]
        if constant != 0:
            parts.append(self.const(constant))
        if len(parts) < 2:
            return parts[0] if parts else self.zero
        args = tuple(parts)
        return self._node("add", None, args, args, frozenset())

    def split_coefficient(self, node: Node) -> tuple[Number, Node]:
        """``(c, rest)`` with node = c * rest; ``rest`` is one for a number."""
        if node.op == "const":
            return node.data, self.one
        if node.op == "mul" and node.args[0].op == "const":
            rest = node.args[1:]
            return node.args[0].data, rest[0] if len(rest) == 1 else self._node("mul", None, rest, rest, frozenset())
        return 1, node

    def scale(self, factor: Number, node: Node) -> Node:
        return node if factor == 1 else self.mul((self.const(factor), node))

    def mul(self, factors: Iterable[Node]) -> Node:
        """The product; numbers are multiplied, powers of one base joined, guards lifted out."""
        constant: Number = 1
        rows: tuple[Row, ...] = ()
        powers: dict[Node, list[Node]] = {}
        stack = list(factors)[::-1]
        while stack:
            factor = stack.pop()
            if factor.op == "const":
                constant *= factor.data
            elif factor.op == "mul":
                stack.extend(reversed(factor.args))
            elif factor.op == "guard":
                rows += factor.data
                stack.append(factor.args[0])
            elif factor.op == "pow":
                powers.setdefault(factor.args[0], []).append(factor.args[1])
            else:
                powers.setdefault(factor, []).append(self.one)
        if constant == 0:
            return self.zero
        parts = [self.pow(base, self.add(exponents)) for base, exponents in powers.items()]
        parts = [part for part in parts if part is not self.one]
        if any(part.op == "const" for part in parts):
            return self.guard(rows, self.mul([self.const(constant), *parts]))
        if constant != 1 or not parts:
            parts.insert(0, self.const(constant))
        args = tuple(parts)
        return self.guard(rows, args[0] if len(args) == 1 else self._node("mul", None, args, args, frozenset()))

    def neg(self, node: Node) -> Node:
        return self.scale(-1, node)

    def pow(self, base: Node, exponent: Node) -> Node:
        if exponent is self.zero or base is self.one:
            return self.one
        if exponent is self.one:
            return base
        if exponent.op == "const" and isinstance(exponent.data, int):
            power = exponent.data
            if base.op == "const" and (base.data != 0 or power > 0):
                exact = Fraction(base.data) if isinstance(base.data, int) else base.data
                return self.const(exact**power)
            if base.op == "pow" and base.args[1].op == "const":
                inner = base.args[1].data
                # (x**(1/2))**2 is x only for x >= 0; integer exponents always multiply.
                if isinstance(inner, int):
                    return self.pow(base.args[0], self.const(inner * power))
            if base.op == "guard" and power > 0:
                return self.guard(base.data, self.pow(base.args[0], exponent))
        return self._plain("pow", None, (base, exponent))

    def call(self, function: Any, args: Sequence[Node]) -> Node:
        return self._plain("call", function, tuple(args))

    # -------------------------------------------------------------- conditions

    def compare(self, relation: str, left: Node, right: Node) -> Node:
        return self._plain("compare", relation, (left, right))

    def logic(self, op: str, args: Sequence[Node]) -> Node:
        return args[0] if op != "not" and len(args) == 1 else self._plain(op, None, tuple(args))

    def select(self, condition: Node, value: Node, otherwise: Node) -> Node:
        """``value if condition else otherwise``; guards of the values protect the condition too."""
        if value is otherwise:
            return value
        if value.op == otherwise.op == "guard" and value.data == otherwise.data:
            return self.guard(value.data, self.select(condition, value.args[0], otherwise.args[0]))
        if value.op == "guard" and otherwise is self.zero:
            return self.guard(value.data, self.select(condition, value.args[0], otherwise))
        if otherwise.op == "guard" and value is self.zero:
            return self.guard(otherwise.data, self.select(condition, value, otherwise.args[0]))
        if _has_guard(value) or _has_guard(otherwise):
            parts = [self.select(condition, term, self.zero) for term in _terms(value)]
            return self.add(parts + [self.select(condition, self.zero, term) for term in _terms(otherwise)])
        return self._plain("select", None, (condition, value, otherwise))

    def guard(self, rows: Iterable[Row], body: Node) -> Node:
        """``body`` where all rows hold, 0 (and nothing read) elsewhere."""
        rows = tuple(rows)
        while body.op == "guard":
            rows += body.data
            body = body.args[0]
        if not rows or body is self.zero:
            return body
        reduced = normalise_rows(rows)
        if reduced is None:
            return self.zero
        if not reduced:
            return body
        key = tuple(sorted(reduced))
        own = frozenset().union(*(row.form.atoms() for row in key))
        return self._node("guard", key, (body,), key, own)

    # -------------------------------------------------------------- binders

    def sum(self, variables: Sequence[int], rows: Iterable[Row], body: Node) -> Node:
        """The sum of ``body`` over all integer points of ``rows``, as it stands.

        Every variable is bounded by the rows. `simplify.deltas.summation` is the constructor that
        also eliminates equations; this one only closes the binder.
        """
        if body is self.zero:
            return body
        closing, closed = self._close(variables, body)
        names = tuple(self.names[v] for v in variables)
        return self._binder("sum", tuple(sorted(row.substitute(closing) for row in rows)), closed, names)

    def comprehension(self, variables: Sequence[int], extents: Sequence[Affine], body: Node) -> Node:
        """The tensor of shape ``extents`` with the entry ``body`` at ``variables``."""
        closed = self._close(variables, body)[1]
        return self._binder("comprehension", tuple(extents), closed, tuple(self.names[v] for v in variables))

    def _close(self, variables: Sequence[int], body: Node) -> tuple[Substitution, Node]:
        closing = {v: Affine.variable(-(body.height + 1 + n)) for n, v in enumerate(variables)}
        return closing, self.substitute(body, closing)

    def _binder(self, op: str, data: tuple[Any, ...], body: Node, names: tuple[str, ...]) -> Node:
        """A binder over a closed body; ``data`` are the closed rows or the extents."""
        count = len(names)
        forms = data if op == "comprehension" else [row.form for row in data]
        node = self._node(op, data, (body,), (count, data), frozenset().union(*(form.atoms() for form in forms)))
        if node.id not in self.hints:
            node.free = node.free - frozenset(-(body.height + 1 + n) for n in range(count))
            node.height = body.height + count
            self.hints[node.id] = names
        return node

    def open(self, node: Node) -> tuple[tuple[int, ...], tuple[Row, ...], Node]:
        """Fresh variables, rows over them and the body of a sum or a comprehension.

        The rows of a comprehension are its ranges ``0 <= i < extent``.
        """
        opening = self._opening(node)
        variables = tuple(form.terms[0][0] for form in opening.values())
        closed = node.data if node.op == "sum" else ranges(tuple(opening), node.data)
        rows = tuple(row.substitute(opening) for row in closed)
        return variables, rows, self.substitute(node.args[0], opening)

    # -------------------------------------------------------------- substitution

    def rebuild(self, node: Node, args: Sequence[Node], mapping: Substitution | None = None) -> Node:
        """``node`` with new arguments, and its own index forms substituted by ``mapping``.

        Not for `sum` and `comprehension`, which hold bound variables: open them.
        """
        mapping = mapping or {}
        match node.op:
            case "add":
                return self.add(args)
            case "mul":
                return self.mul(args)
            case "pow":
                return self.pow(args[0], args[1])
            case "select":
                return self.select(args[0], args[1], args[2])
            case "guard":
                return self.guard((row.substitute(mapping) for row in node.data), args[0])
            case "index":
                return self.index(node.data.substitute(mapping))
            case "read":
                return self.read(args[0], [form.substitute(mapping) for form in node.data])
            case "and" | "or" | "not":
                return self.logic(node.op, args)
            case _:
                return self._plain(node.op, node.data, tuple(args)) if args else node

    def substitute(self, node: Node, mapping: Substitution) -> Node:
        """All free occurrences of the variables of ``mapping`` replaced at once, without capture."""
        keys = frozenset().union(*(k.form.atoms() if isinstance(k, Quotient) else (k,) for k in mapping))
        if not keys & node.free:
            return node
        done: dict[Node, Node] = {}
        rebuild = self._rename if _is_renaming(mapping, node) else self.rebuild
        for part in reachable(node, keys):
            args = tuple([done.get(a, a) for a in part.args])
            if part.op in ("sum", "comprehension"):
                done[part] = self._substitute_binder(part, args[0], mapping)
            else:
                done[part] = rebuild(part, args, mapping)
        return done[node]

    def _rename(self, node: Node, args: tuple[Node, ...], mapping: Substitution) -> Node:
        """As `rebuild`, where variables only change their names: nothing can become simpler."""
        match node.op:
            case "add" | "mul":
                return self._node(node.op, None, args, args, frozenset())
            case "guard" | "index" | "read":
                return self.rebuild(node, args, mapping)
            case _:
                return self._plain(node.op, node.data, args)

    def _substitute_binder(self, node: Node, body: Node, mapping: Substitution) -> Node:
        old = node.args[0]
        if body.height != old.height:  # the variables bound by this node have other heights now
            opening = self._opening(node)
            return self._closed_again(node, opening, self.substitute(old, {**mapping, **opening}), mapping)
        if body is self.zero and node.op == "sum":
            return body
        data = tuple(item.substitute(mapping) for item in node.data)
        return self._binder(node.op, tuple(sorted(data)) if node.op == "sum" else data, body, self.hints[node.id])

    def rebind(self, node: Node, body: Node) -> Node:
        """A sum or a comprehension over another body, in which its bound variables stand as before."""
        opening = self._opening(node)
        return self._closed_again(node, opening, self.substitute(body, opening), {})

    def _opening(self, node: Node) -> dict[Variable, Affine]:
        """Fresh variables for the bound ones of a node, in their order."""
        height, names = node.args[0].height, self.hints[node.id]
        return {-(height + 1 + n): Affine.variable(self.fresh(name)) for n, name in enumerate(names)}

    def _closed_again(self, node: Node, opening: Substitution, body: Node, mapping: Substitution) -> Node:
        variables = [form.terms[0][0] for form in opening.values()]
        data = [item.substitute({**mapping, **opening}) for item in node.data]
        if node.op == "sum":
            return self.sum(variables, data, body)
        return self.comprehension(variables, data, body)


def _is_renaming(mapping: Substitution, node: Node) -> bool:
    """Whether different variables stay different ones."""
    targets = set()
    for form in mapping.values():
        if len(form.terms) != 1 or form.constant or form.terms[0][1] != 1:
            return False
        targets.add(form.terms[0][0])
    return len(targets) == len(mapping) and node.free.isdisjoint(targets)


def _terms(node: Node) -> tuple[Node, ...]:
    return node.args if node.op == "add" else (node,)


def _has_guard(node: Node) -> bool:
    return any(term.op == "guard" for term in _terms(node))


def ranges(variables: Sequence[int], extents: Sequence[Affine]) -> tuple[Row, ...]:
    """The rows ``0 <= variable <= extent - 1``."""
    rows: list[Row] = []
    for v, extent in zip(variables, extents, strict=True):
        form = Affine.variable(v)
        rows += [Row("ge", form), Row("ge", extent - 1 - form)]
    return tuple(rows)


def reachable(node: Node, keys: frozenset[int] | None = None) -> list[Node]:
    """The nodes below and including ``node``, arguments first; only those with ``keys`` free, if given."""
    seen = {node}
    stack = [node]
    while stack:
        for arg in stack.pop().args:
            if arg not in seen and (keys is None or keys & arg.free):
                seen.add(arg)
                stack.append(arg)
    return sorted(seen, key=lambda n: n.id)
