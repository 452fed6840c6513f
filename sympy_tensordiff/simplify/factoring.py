"""Factoring: common operands of the terms of a sum are moved in front of the sum.

An operand is in common where it is read under the same axes of the result and is summed over in the same places. The
cofactors of all terms must have the same axes, or they would have to be repeated or embedded: ``p_i d_ij - p_i p_j``
stays, ``s p_i d_ij - s p_i p_j`` is ``s (…)``.

`Keys` orders nodes in a way that does not depend on the order in which an expression was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.cost import CostModel
from sympy_tensordiff.graph.einsum_normal_form import Label, Operand, in_order
from sympy_tensordiff.graph.interning import Number, breadth_first
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.polynomials import Growth
from sympy_tensordiff.simplify.products import (
    ContractionParts,
    Uses,
    build,
    operand_of_view,
    product_of,
    rewritten,
    weight,
)

Key: TypeAlias = tuple[str, tuple[str, ...]]
"""The digest of a node, and those of its axes."""

COMMUTATIVE = frozenset({"add", "mul", "and", "or"})
INDEXED = BINDERS | {"tensor", "guard", "read", "index"}

_LOWER_ORDERS = 1.05
"""How many times the operations of its terms a shorter product may take.

``(D + A B) C X`` and ``D C X + A B C X``, where ``D`` is a diagonal of a vector, differ in terms of lower order only.
"""


class Keys:
    """Structural hashes of nodes: equal nodes have equal hashes, even in different graphs. Nodes sorted by them have
    the same order in each run.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: dict[Node, Key] = {}

    def of(self, node: Node) -> Key:
        """Return a hash of the structure of `node`, and a tuple with a hash for each of its axes; symmetric axes have
        equal hashes.
        """
        for part in reachable(node, known=self._known):
            key, axes = self._key(part, [self._known[arg] for arg in part.args])
            is_symmetric = len(axes) == 2 and self.graph.symmetric.get(part, False)
            self._known[part] = key, (min(axes),) * 2 if is_symmetric else axes
        return self._known[node]

    def _key(self, node: Node, args: Sequence[Key]) -> Key:
        """Return a hash of the structure of `node` and a tuple with a hash for each of its axes, made from those of its
        arguments, `args`. Nodes of equal structure have equal hashes, whatever their graph.
        """
        if node.op == "ein":
            return _contraction(node, args)
        if node.op in INDEXED:
            key = _digest(node.op, self._indexed(node), *(digest for digest, _ in args))
            return key, tuple(_digest(key, str(axis)) for axis in range(len(node.shape)))
        data = getattr(node.data, "__name__", repr(node.data))
        if node.op in ("inv", "cof", "lse"):
            (key, axes), key_of = args[0], _digest(node.op, data, args[0][0])
            if node.op == "lse":
                reduced = sorted(axis for n, axis in enumerate(axes) if n in node.data)
                rest = [axis for n, axis in enumerate(axes) if n not in node.data]
                return _digest(node.op, key, *reduced), tuple(_digest(node.op, axis) for axis in rest)
            batch, own = axes[:-2], axes[-2:]
            own = own[::-1] if node.op == "inv" else own * node.data
            ends = tuple(_digest(node.op, str(n // 2), axis) for n, axis in enumerate(own))
            return key_of, (*(_digest(node.op, axis) for axis in batch), *ends)
        order = sorted if node.op in COMMUTATIVE else list
        read = [[axes[n] for _, axes in args if axes] for n in range(len(node.shape))]
        colours = tuple(_digest(node.op, data, *order(axes)) for axes in read)
        return _digest(node.op, data, *order(key for key, _ in args), *sorted(colours)), colours

    def _indexed(self, node: Node) -> str:
        """Return text that describes a node of index notation for a structural hash: the names of its free indices, or
        its data if it has none.

        Numbers of variables would not do, because they differ between graphs.
        """
        names = sorted(self.graph.names[v] for v in node.free if v >= 0)
        return repr(names) if names else repr(node.data)


def _contraction(node: Node, args: Sequence[Key]) -> Key:
    """Return ``(key, axes)`` for the einsum `node`: a hash of its structure, and a tuple with a hash for each of its
    axes. ``args`` are such pairs for its operands.

    Labels are distinguished by colour refinement, as in graph isomorphism.
    """
    coefficient, inputs, output, extents = node.data
    if is_view(node) and inputs and sorted(inputs[0]) == sorted(output):
        (key, axes), place = args[0], inputs[0].index
        return (_digest("ein", repr(coefficient), key) if coefficient != 1 else key), tuple(
            axes[place(n)] for n in output
        )
    colours = [f"{output.count(label)}" for label in range(len(extents))]
    for _ in range(3):
        reads = [
            _hash_of_operand(key, [colours[label] for label in labels])
            for key, labels in zip(args, inputs, strict=True)
        ]
        seen: list[list[str]] = [[] for _ in extents]
        for read, (_, axes), labels in zip(reads, args, inputs, strict=True):
            for axis, label in zip(axes, labels, strict=True):
                seen[label].append(_digest(read, axis))
        colours = [_digest(colour, *sorted(own)) for colour, own in zip(colours, seen, strict=True)]
    key = _digest("ein", repr(coefficient), *sorted(reads), *sorted(colours))
    return key, tuple(_digest(key, colours[label]) for label in output)


def _hash_of_operand(key: Key, labels: Sequence[str]) -> str:
    """Return a hash of an operand: ``key`` contains a hash of the tensor and one of each axis, `labels` the label of
    each axis. The hash does not depend on the order of the axes.
    """
    return _digest(key[0], *sorted(_digest(axis, label) for axis, label in zip(key[1], labels, strict=True)))


def _digest(*parts: str) -> str:
    """Return a short hash of `parts`."""
    return blake2b(" ".join(parts).encode(), digest_size=12).hexdigest()


Role = tuple[str, int]
"""The role of a label: an axis of the result by its position, or a sum of the operand by its number."""


class CommonFactor(NamedTuple):
    """A factor that several terms of a sum may share, as a key by which terms are grouped: the factor ``base``, the
    role of each of its axes (an axis of the result, or summed), and the roles of the axes of the other factors.

    `power` is True for a divisor, else None: ``1/s`` is a factor of ``1/s`` and ``1/s**3``. Equal candidates of several
    terms are a common factor.
    """

    base: Node
    power: Any
    roles: tuple[Role, ...]
    others: frozenset[Role]


def factored(graph: Graph, roots: Sequence[Node], nodes: Sequence[Node], model: CostModel, given: Growth) -> list[Node]:
    """Return `roots` with common factors of sums taken out, ``a*(b + c)`` for ``a*b + a*c``, if the text becomes no
    longer and the cost by `model` no higher.

    `nodes` are all nodes below `roots`, arguments first. Arrays that grow no faster than `given` cost nothing.
    """
    uses = Counter(chain(roots, chain.from_iterable(node.args for node in nodes)))
    keys = Keys(graph)

    def rewriting(node: Node) -> Node:
        """Return the sum `node` with common factors taken out, if two terms may share one; other nodes unchanged."""
        if node.op != "add" or not _may_share(node):
            return node
        new = _Sum(graph, node, uses, keys, model, given).factored()
        if new is not node:
            _replace_uses(uses, node, new)
        return new

    return rewritten(graph, roots, nodes, rewriting, uses)


def _replace_uses(uses: Uses, old: Node, new: Node) -> None:
    """Update `uses`, the number of uses of each node, after `new` has replaced `old`: add the uses that nodes below
    `new` make, and subtract those below `old`.

    Sums further up are compared with the terms that are then there, so that one pass suffices for a chain of sums.
    """
    stack = [new]
    while stack:
        for arg in stack.pop().args:
            if not uses[arg]:
                stack.append(arg)
            uses[arg] += 1
    stack = [old]
    while stack:
        for arg in stack.pop().args:
            uses[arg] -= 1
            if not uses[arg]:
                stack.append(arg)


def is_repeated(node: Node) -> bool:
    """Return whether `node` is a tensor repeated along a new axis, as ``v[:, None]``, which needs no storage."""
    return bool(node.args) and is_view(node) and len(node.data.output) > len(node.args[0].shape)


def _may_share(node: Node) -> bool:
    """Return whether two terms of the sum `node` may have a common factor. This is a cheap test: if it is false they
    have none, if it is true they need not have one.
    """
    known: set[Node] = set()
    for term in node.args:
        product = operand_of_view(term)
        if product.op == "mul" and len(product.args) == 2 and product.args[0].op == "const":
            product = product.args[1]
        if product.op in ("ein", "mul") or product is not term:
            args = product.args if product.op in ("ein", "mul") else (product,)
            operands = {_base(operand) for arg in args for operand in (arg, *_scalars_of(arg))}
            if any(operand.op != "const" and operand in known for operand in operands):
                return True
            known |= operands
    return False


class _Sum:
    """An addition that is being factored: its terms as products, and the operands that several terms have in common."""

    def __init__(self, graph: Graph, node: Node, uses: Uses, keys: Keys, model: CostModel, given: Growth) -> None:
        self.graph = graph
        self.node = node
        self.uses = uses
        self.keys = keys
        self.model = model
        self.given = given
        self.args = node.args
        self.terms = [_term(graph, arg) for arg in self.args]
        self.places: dict[CommonFactor, dict[int, int]] = {}

    def factored(self) -> Node:
        """Return the sum with common factors taken out: ``a*(b + c)`` for ``a*b + a*c``. Unchanged if it has none."""
        mirrored = self._with_mirrored_operand()
        if mirrored is not None:
            return mirrored
        for n, term in enumerate(self.terms):
            for m in range(len(term.parts)):
                found = self._candidate(term, m)
                if found is not None:
                    self.places.setdefault(found, {}).setdefault(n, m)
        self._merge_repeated()
        self._merge_diagonals()
        # A size is a number: out of some terms only, it would turn the mean in each of them into a bracket.
        least = {c: len(self.terms) if c.base.op == "index" and not c.roles else 2 for c in self.places}
        shared = [candidate for candidate, places in self.places.items() if len(places) >= max(2, least[candidate])]
        if not shared:
            return self.node
        shared.sort(key=lambda c: (-len(self.places[c]), len(c.roles), self.keys.of(c.base), c.roles))
        taken: dict[Node, Node] = {}
        for candidate in shared:
            where = {n: m for n, m in self.places[candidate].items() if self.args[n] not in taken}
            product = self._product(candidate, where) if len(where) > 1 else None
            if product is not None:
                taken.update(dict.fromkeys((self.args[n] for n in where), product))
        if not taken:
            return self.node
        return self.graph.add(list(dict.fromkeys(taken.get(arg, arg) for arg in self.node.args)))

    def _with_mirrored_operand(self) -> Node | None:
        """Return the sum after joining two terms that differ by the transpose of one operand: ``S @ (T + T.T) @ S`` for
        ``S @ T @ S + S @ T.T @ S`` with a symmetric ``S``. None if there are no such terms.
        """
        graph = self.graph
        if len(self.node.shape) != 2 or True not in graph.symmetric.values():
            return None
        whole = {build(graph, term): n for n, term in enumerate(self.terms)}
        for n, term in enumerate(self.terms):
            for place, (operand, labels) in enumerate(term.parts):
                if len(term.parts) < 2 or len(set(labels)) != 2 or graph.symmetric.get(operand):
                    continue
                turned = [(arg, own[::-1] if m == place else own) for m, (arg, own) in enumerate(term.parts)]
                other = whole.get(build(graph, term._replace(parts=in_order(turned, term.output, graph.symmetric))))
                if other is None or other == n or operand.shape[0] != operand.shape[1]:
                    continue
                turned[place] = graph.add([operand, graph.transposed(operand)]), labels
                joined = build(graph, term._replace(parts=turned))
                if self._costs_no_more(joined, [self.args[n], self.args[other]], {arg for arg, _ in term.parts}):
                    return graph.add([joined, *(arg for m, arg in enumerate(self.args) if m not in (n, other))])
        return None

    def _candidate(self, term: ContractionParts, place: int) -> CommonFactor | None:
        """Return a key of the operand number `place` of the product `term`, by which terms are grouped: an operand can
        be a common factor of several terms if their keys are equal. None if its labels rule that out.
        """
        node, labels = term.parts[place]
        base = _base(node)
        power = True if base is not node and _exponent(node) < 0 else None
        if power is None:
            base = node
        if not labels:
            return CommonFactor(base, power, (), frozenset())
        if len(set(term.output)) < len(term.output):
            return None
        roles = _roles(term, place)
        own = tuple(self._own_roles(term, place))
        read = {label for n, (_, own) in enumerate(term.parts) if n != place for label in own}
        others = frozenset(role for label, role in roles.items() if label in read)
        if power is None and set(roles.values()) != {*own, *others}:
            return None
        return CommonFactor(base, power, own, others)

    def _merge_repeated(self) -> None:
        """Extend the groups of terms with a common factor ``A``: a term ``c*A``, whose other factor ``c`` has fewer
        axes, joins the terms ``A*B``, since their sum is ``A*(B + c)``.

        This includes divisors along some axes of the result.
        """
        found = [(c, dict(places)) for c, places in self.places.items() if c.roles]
        for candidate, places in self.places.items():
            is_full = all(self._is_entrywise(n, m) for n, m in places.items())
            is_scale = candidate.power is not None and all(role[0] == "axis" for role in candidate.roles)
            for other, its in found:
                is_repeated = candidate.others > other.others and (is_full or is_scale or not other.others)
                if is_repeated and candidate[:3] == other[:3]:
                    for n, m in its.items():
                        places.setdefault(n, m)

    def _is_entrywise(self, n: int, m: int) -> bool:
        """Return whether operand number `m` of term number `n`, and another operand of this term, have exactly the axes
        of the result, so that the term is a product entry by entry.
        """
        parts, output = self.terms[n].parts, set(self.terms[n].output)
        full = [k for k, (_, labels) in enumerate(parts) if set(labels) == output]
        return m in full and len(full) > 1

    def _merge_diagonals(self) -> None:
        """Find more common factors: the term ``u[i]*B[i, j]``, which is ``diag(u) @ B``, gets the factor ``B`` in
        common with ``Sum_k M[i, k]*B[k, j]``.
        """
        for candidate in list(self.places):
            sums = [role for role in candidate.roles if role[0] == "sum"]
            if len(sums) != 1 or sums[0] not in candidate.others:
                continue
            for axis in candidate.others - {sums[0]} - set(candidate.roles):
                roles = tuple(axis if role == sums[0] else role for role in candidate.roles)
                found = self.places.get(candidate._replace(roles=roles, others=candidate.others - {sums[0]}), {})
                for n, m in found.items():
                    self.places[candidate].setdefault(n, m)

    def _product(self, candidate: CommonFactor, where: dict[int, int]) -> Node | None:
        """Return the terms with the numbers in `where` as one product, ``A*(b + c)`` for ``A*b + A*c`` with the common
        factor `candidate`. None if the product is longer or costs more.

        `where` maps each term to the position of the factor in it.
        """
        graph = self.graph
        terms = [self.terms[n] for n in where]
        exponents = [_exponent(self.terms[n].parts[m][0]) for n, m in where.items()]
        exponent = max(exponents)
        if candidate.power is not None and min(exponents) < exponent:  # cofactors have a power of the divisor
            candidate = candidate._replace(others=candidate.others.union(candidate.roles))
        factor = candidate.base if candidate.power is None else graph.pow(candidate.base, graph.const(exponent))
        rests = graph.add([self._cofactor_of(candidate, self.terms[n], m, exponent) for n, m in where.items()])
        if candidate.roles:
            rank = max(len(own) for term in terms for _, own in (*term.parts, ((), term.output)))
            if len(candidate.others) > rank:
                return None
            axes: Sequence[Label] = sorted(candidate.others) if rests.shape else ()
        else:
            axes = [("axis", n) for n in range(len(self.node.shape))]
        output = [("axis", n) for n in range(len(self.node.shape))]
        parts: list[Operand] = [(factor, candidate.roles), (rests, axes if rests.shape else ())]
        extents: dict[Label, Affine] = dict(zip(output, self.node.shape, strict=True))
        product = build(graph, ContractionParts(1, parts, output, extents))
        is_entrywise = all(role[0] == "axis" for role in candidate.roles)
        most = 0 if is_entrywise else -1
        return product if self._is_better(product, where, most, scalar=not candidate.roles) else None

    def _cofactor_of(self, candidate: CommonFactor, term: ContractionParts, place: int, exponent: Number) -> Node:
        """Return the cofactor of the common factor at position `place` of `term`: the product of the other factors, and
        of the power that the factor has beyond `exponent`, such as ``1/s**2`` for ``1/s**3`` and -1.

        So that the cofactors of several terms can be added, it has the axes ``candidate.others``, or none if it is
        constant along them; that of a scalar factor has the axes of `term`.
        """
        node, labels = term.parts[place]
        parts = [part for n, part in enumerate(term.parts) if n != place]
        if candidate.power is not None and _exponent(node) != exponent:
            left = self.graph.pow(candidate.base, self.graph.const(_exponent(node) - exponent))
            parts.append((left, labels))
        if not labels:
            return build(self.graph, term._replace(parts=parts))
        role = {role: label for label, role in _roles(term, place).items()}
        embedded = {own: role[real] for own, real in zip(candidate.roles, self._own_roles(term, place), strict=True)}
        others = [role[own] if own in role else embedded[own] for own in sorted(candidate.others)]
        # A sum repeats a scalar along all axes: on a diagonal it is a multiple of the unit matrix.
        is_diagonal = len(set(others)) < len(others)
        is_scalar = not is_diagonal and not any(label in others for _, own in parts for label in own)
        return build(self.graph, term._replace(parts=parts, output=() if is_scalar else others))

    def _own_roles(self, term: ContractionParts, place: int) -> list[Role]:
        """Return the role of each axis of operand number `place` in the product `term`: an axis of the result, or
        summed over.

        For a symmetric matrix the roles are sorted, since its axes may be exchanged.
        """
        roles, (node, labels) = _roles(term, place), term.parts[place]
        own = [roles[label] for label in labels]
        return sorted(own) if self.graph.symmetric.get(node) else own

    # -------------------------------------------------------------- weights

    def _is_better(self, product: Node, where: Iterable[int], most: int, *, scalar: bool) -> bool:
        """Return whether `product` may replace the terms numbered ``where`` of a sum. It may add at most ``most`` to
        the weight of the sum (about its printed length) and, unless the common factor is a ``scalar``, may not cost
        more to compute.
        """
        old = [self.args[n] for n in where]
        leaves = {_base(node) for n in where for node, _ in self.terms[n].parts}
        freed = self._used_only_by(old, leaves)
        edges = len(old) - 1 if len(old) < len(self.node.args) else len(old) + 1
        top = operand_of_view(product)  # what reads a view reads its operand
        added = [node for node in _nodes_above(top, leaves) if node in freed or not self.uses[node]]
        heavier = self._weight(node for node in added if not is_repeated(node)) - self._weight(freed) - edges
        return heavier <= most and (scalar or self._costs_no_more(product, old, leaves))

    def _weight(self, nodes: Iterable[Node]) -> int:
        """Return the sum of the weights of `nodes`, which estimate their printed length. A node and its transpose, as
        in ``u + u.T``, count once.
        """
        heaviest: dict[str, int] = {}
        for node in nodes:
            key = self.keys.of(node)[0]
            heaviest[key] = max(weight(node), heaviest.get(key, 0))
        return sum(heaviest.values())

    def _costs_no_more(self, product: Node, old: Sequence[Node], leaves: set[Node]) -> bool:
        """Return whether computing `product` takes about as many operations as computing the terms `old`, or fewer, as
        each of the sizes grows. ``leaves`` are the nodes that both forms compute, which are not counted.
        """
        known = leaves.difference(old)
        before, after = self.model.of([self.graph.add(old)], known), self.model.of([product], known)
        counts, most = after.operations.terms, before.operations.terms
        grows = any(counts[each] > _LOWER_ORDERS * most.get(each, counts[each]) for each in after.operations.growth)
        return not grows and self.model.is_no_worse(after, before, self.given, _LOWER_ORDERS)

    def _used_only_by(self, terms: Sequence[Node], leaves: set[Node]) -> set[Node]:
        """Return the nodes from `terms` down to `leaves` (exclusive) that are used nowhere else. They are no longer
        computed once the terms are replaced.
        """
        inside: Uses = Counter(terms)
        freed: set[Node] = set()
        for node in sorted({node for term in terms for node in _nodes_above(term, leaves)}, key=lambda n: -n.id):
            if inside[node] >= self.uses[node]:
                freed.add(node)
                inside.update(node.args)
        return freed


def _nodes_above(top: Node, leaves: set[Node]) -> list[Node]:
    """Return `top` and the nodes below it, down to `leaves`, which are not included."""
    found = breadth_first(top, lambda node: () if node in leaves else node.args)
    return [node for node in found if node not in leaves]


# ---------------------------------------------------------------- terms


def _term(graph: Graph, node: Node) -> ContractionParts:
    """Return the term `node` as one product without nested products; scalar factors are operands of their own, and the
    axes of symmetric matrices are in a standard order.
    """
    product = product_of(graph, node)
    parts: list[Operand] = []
    for part, labels in product.parts:
        scalars = _scalars_of(part)
        if scalars:
            parts += [(scalar, ()) for scalar in scalars]
            own = [(arg, lb) for arg, lb in zip(part.args, part.data.inputs, strict=True) if arg.shape]
            part = graph.ein(1, own, part.data.output, dict(enumerate(part.data.extents)))
        parts.append((part, labels))
    return product._replace(parts=in_order(parts, product.output, graph.symmetric))


def _scalars_of(part: Node) -> list[Node]:
    """Return the scalar operands of the contraction ``part``; [] for other nodes."""
    return [arg for arg in part.args if not arg.shape] if is_core(part) else []


def _roles(term: ContractionParts, place: int) -> dict[Label, Role]:
    """Return a dictionary from labels to their roles in the operand at `place` of the product ``term``: ``("axis", n)``
    for axis ``n`` of the result, ``("sum", n)`` for a summed label.

    Summed labels are numbered in order of appearance, after the labels of the result.
    """
    roles: dict[Label, Role] = {label: ("axis", n) for n, label in enumerate(term.output)}
    for label in term.parts[place][1]:
        roles.setdefault(label, ("sum", len(roles)))
    return roles


def _base(node: Node) -> Node:
    """Return ``u`` for a power ``u**c`` with a constant ``c``; another node, or a power of a view (a scaled or
    transposed tensor), unchanged.
    """
    return node.args[0] if node.op == "pow" and node.args[1].op == "const" and not is_view(node.args[0]) else node


def _exponent(node: Node) -> Any:
    """Return ``c`` for a power ``u**c`` with a constant ``c``; 1 for another node."""
    return node.args[1].data if _base(node) is not node else 1
