"""Array definitions of a program over whole tensors, each filled by a library call or entry by entry.

Arrays that are computed entry by entry are written in index notation over the arrays defined before, and lowered like
the index notation of a user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import sympy

from sympy_tensordiff.codegen.ir.programs import (
    Apply,
    CofactorTangent,
    ContractionStep,
    Operand,
    ProductStep,
    Recurrence,
    Solve,
    Step,
)
from sympy_tensordiff.codegen.ir.rename import unique
from sympy_tensordiff.codegen.lower.exponentials import MAX_BOUNDED_EXPONENT, finite, inverse_of_sum, size_of
from sympy_tensordiff.codegen.lower.inverse_norms import with_scaled_vectors
from sympy_tensordiff.codegen.lower.materialise import (
    arrays_of,
    cofactor_tangent_labels,
    determinant,
    factorized,
    is_positive,
    is_product,
    is_small_batch,
    solved_place,
)
from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.einsums import entry
from sympy_tensordiff.graph.interning import Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, ranges, reachable
from sympy_tensordiff.graph.pairs import in_pairs
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.recognition import ORDERED, recognise

T = TypeVar("T")

RecurrenceBuilder: TypeAlias = Callable[[Sequence[Node], Sequence[str], Mapping[Node, str]], Recurrence]
"""Returns the step of several results of one scan, given the names of their arrays and of those of their operands."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one array of a program: the formula of its entries, or the library call that fills it.

    ``array`` represents it in the index notation of later definitions.
    """

    name: str
    array: Node
    entries: Node | None = None
    step: Step | None = None
    is_filled: bool = False
    """Whether the step of an earlier definition fills the array."""


def define_arrays(
    graph: Graph,
    roots: Sequence[Node],
    results: Sequence[str],
    arrays: Mapping[str, str],
    taken: Container[str],
    hints: Hints,
    factorizes: bool = True,
    recurrence: RecurrenceBuilder | None = None,
    small_in_loops: bool = False,
) -> list[Definition]:
    """Choose the arrays that a program stores to compute the tensors `roots`. Return them in the order of computation,
    each as a `Definition` with a library call or a formula for its entries.

    ``results`` are the names of the roots' arrays, ``arrays`` maps tensors to arrays, ``taken`` are names in use.

    `hints` are the expected lengths of axes. `factorizes`: whether a library computes triangular factors, which several
    calls share. `recurrence` returns the step for several results of one scan. With `small_in_loops`, loops compute
    batches of small matrix products.
    """
    if not any(root.has_tensor_ops for root in roots):
        return [Definition(name, _array(graph, name, root), root) for name, root in zip(results, roots, strict=True)]
    pairs = recognise(graph, with_scaled_vectors(graph, in_pairs(graph, roots, hints)), rules=ORDERED)
    work = _Definitions(graph, pairs, results, arrays, taken, factorizes, recurrence, small_in_loops)
    return _with_shares(graph, work.found, taken)


def _array(graph: Graph, name: str, node: Node) -> Node:
    """Return a tensor node, with the shape of `node`, that represents the array `name`."""
    # No tensor of a user's is called so: names are cut at blanks there.
    return graph.tensor(f"array {name}", node.shape)


def same_recurrence(nodes: Iterable[Node], depths: Mapping[Node, int]) -> dict[Node, list[Node]]:
    """Return a dictionary from each scan among `nodes` to its group of scans that one loop can compute: those with the
    same recurrence, operands and depth (see `scan_depths`).
    """
    groups: dict[object, list[Node]] = {}
    for node in nodes:
        if node.op == "scan":
            scan = node.data.scan
            operands = node.args[: len(scan.states) + len(scan.sequences)]
            groups.setdefault((scan.recurrence, operands, depths[node]), []).append(node)
    return {node: group for group in groups.values() for node in group}


def scan_depths(roots: Iterable[Node]) -> dict[Node, int]:
    """Return a dictionary from each node below `roots` to its scan depth: the greatest number of scans on a path from
    the node down to a leaf, counting the node itself.

    Scans of one depth depend on none of each other, so that one loop may compute several.
    """
    found: dict[Node, int] = {}
    for node in reachable(*roots):
        found[node] = max((found[arg] for arg in node.args), default=0) + (node.op == "scan")
    return found


def _results_without_copies(
    roots: Sequence[Node], arrays: Iterable[Node], is_call: Callable[[Node], bool]
) -> dict[Node, Node]:
    """Return ``{array: result}`` for those of `arrays` that only transpose or scale the result of a library call, and
    are its only use below ``roots``. The call can then fill the array directly, without a copy. ``is_call(node)`` says
    whether a library computes the product `node`.
    """
    uses = Counter(roots)
    for part in reachable(*roots):
        uses.update(part.args)
    found = {}
    for node in arrays:
        if is_view(node) and node.args and uses[node.args[0]] == 1:
            (value,) = node.args
            labels, output = node.data.inputs[0], node.data.output
            permuted = len(set(labels)) == len(labels) == len(output) == len(set(output))
            if permuted and (is_call(value) or value.op in ("inv", "cof")):
                found[node] = value
    return found


class _Definitions:
    """Collects in `found` the definitions of all arrays of a program, in the order in which they are computed."""

    def __init__(
        self,
        graph: Graph,
        roots: Sequence[Node],
        results: Sequence[str],
        arguments: Mapping[str, str],
        taken: Container[str],
        factorizes: bool,
        recurrence: RecurrenceBuilder | None,
        small_in_loops: bool,
    ) -> None:
        self.graph = graph
        self.small_in_loops = small_in_loops
        self.recurrence = recurrence
        self.arguments = arguments
        self.names: dict[Node, str] = {}
        for root, name in zip(roots, results, strict=True):
            if root.op != "tensor":
                self.names.setdefault(root, name)
        arrays = arrays_of(roots, small_in_loops)
        self.moved = _results_without_copies(roots, arrays, self.is_call)
        depths = scan_depths(roots)
        order = lambda node: (depths[node], node.op != "scan", node.id)  # noqa: E731
        ordered = sorted(arrays.difference(self.moved.values()), key=order)
        used = set(results)
        tried: dict[str, int] = {}
        for node in ordered:
            if node not in self.names:
                self.names[node] = unique(graph.labels.get(node, "t"), taken, used, tried=tried)
                used.add(self.names[node])
        # Those defined so far: entries that are written out may hold what an array behind them holds, too.
        self.arrays: dict[Node, Node] = {}
        self.done: dict[Node, Node] = {}
        self.found: list[Definition] = []
        self.factors: dict[Node, str] = {}
        self.scans = same_recurrence(ordered, depths)
        needed = Counter(filter(None, map(self.factorized, ordered)))
        for node in ordered:
            matrix = self.factorized(node) if factorizes else None
            if matrix is not None and matrix not in self.factors:
                positive = is_positive(graph, matrix)
                if positive or needed[matrix] > 1:
                    name = self.factors[matrix] = unique("factors", taken, used)
                    used.add(name)
                    kind = 2 if positive else 1 if graph.symmetric.get(matrix) else 0
                    *batch, length, _ = matrix.shape
                    array = graph.tensor(f"array {name}", (*batch, length + 1, length))
                    step = Apply(name, "factors", self.name(matrix), (kind,))
                    self.found.append(Definition(name, array, step=step))
            if node in self.arrays:
                continue
            nodes = self.scans.get(node, [node])
            made = self.scan(nodes) if node in self.scans else [self.definition(node)]
            self.found += made
            self.arrays.update((one, definition.array) for one, definition in zip(nodes, made, strict=True))
        for root, name in zip(roots, results, strict=True):
            if self.names.get(root) != name:  # a variable, or a result that is there twice
                self.found.append(Definition(name, _array(graph, name, root), self.arrays.get(root, root)))

    def factorized(self, node: Node) -> Node | None:
        """Return the matrix that has to be split into triangular factors to compute the array `node`; None if no
        factors are needed.
        """
        value = self.moved.get(node, node)
        if value.op == "cof" and value.data == 1 and not is_positive(self.graph, value.args[0]):
            return value.args[0]
        return None if self.solved_place(value) is None and is_product(value) else factorized(value)

    def solved_place(self, node: Node) -> int | None:
        """Return the position of the operand ``inv(A)`` in the product `node` if a linear solver computes the product
        without the inverse; None otherwise.

        An inverse that is an array is multiplied by a matrix: a product takes half the time of a solution for as many
        right-hand sides. It serves many matrices, too, in one call.
        """
        place = solved_place(node)
        if place is None or node.args[place] not in self.names:
            return place
        return None if len(node.args[place].shape) > 2 or len(node.args[1 - place].shape) > 1 else place

    def definition(self, node: Node) -> Definition:
        """Return the `Definition` that computes the array of `node`: as a log-sum-exp, by a library call, or by a
        formula for each entry.
        """
        name = self.names[node]
        array = _array(self.graph, name, node)
        if node.op == "lse":  # see `_with_shares`
            tensor = self.arrays.get(node.args[0], node.args[0])
            return Definition(name, array, self.graph.logsumexp(node.data, tensor))
        step = self.moved_step(node, name) if node in self.moved else self.step(node, name)
        if step is not None:
            return Definition(name, array, step=step)
        return Definition(name, array, trampoline(self.as_comprehension(node)))

    def scan(self, nodes: Sequence[Node]) -> list[Definition]:
        """Return one definition for each of the arrays that store ``nodes``, results of one recurrence over time. One
        step fills all of them: it is in the first definition, and the others are marked as filled.
        """
        assert self.recurrence is not None
        names = [self.names[node] for node in nodes]
        operands = {arg: self.name(arg) for node in nodes for arg in node.args}
        step = self.recurrence(nodes, names, operands)
        arrays = [_array(self.graph, name, node) for name, node in zip(names, nodes, strict=True)]
        first = Definition(names[0], arrays[0], step=step)
        return [first, *(Definition(n, a, is_filled=True) for n, a in zip(names[1:], arrays[1:], strict=True))]

    # -------------------------------------------------------------- library calls

    def step(self, node: Node, name: str) -> ProductStep | Apply | None:
        """Return the library call that fills the array `name` with the value of `node`; None if loops compute it."""
        if (found := determinant(node)) is not None:
            return self.step_of_factors(name, found[0], found[1])
        match node.op:
            case "inv":
                return self.step_of_factors(name, "inv", node.args[0])
            case "cof" if node.data == 1:
                return replace(self.step_of_factors(name, "cofactor", node.args[0]), options=(1,))
            case "cof" if node.data:
                return Apply(name, "cofactor", self.name(node.args[0]), (node.data,))
            case "cof":
                return self.step_of_factors(name, "det", node.args[0])
        return self.product(node, name) if self.is_call(node) else None

    def is_call(self, node: Node) -> bool:
        """Return whether `node` is a matrix product that a library computes."""
        return is_product(node) and not (self.small_in_loops and is_small_batch(node))

    def step_of_factors(self, name: str, function: str, matrix: Node) -> Apply:
        """Return the step that fills the array `name` with the `function`, such as "inv", of `matrix`. If several steps
        need the triangular factors of `matrix`, they are stored, and the step reads them.
        """
        if matrix in self.factors:
            return Apply(name, function, self.factors[matrix], factored=self.name(matrix))
        return Apply(name, function, self.name(matrix))

    def product(self, node: Node, name: str) -> ProductStep:
        """Return the library call that fills the array `name` with the product `node`: a contraction, a solution of
        linear equations, or a derivative of cofactors.
        """
        if (found := cofactor_tangent_labels(node)) is not None:
            return self.cofactor_tangent(node, *found, name)
        place = self.solved_place(node)
        if place is None:
            left, right = (
                Operand(self.name(arg), labels) for arg, labels in zip(node.args, node.data.inputs, strict=True)
            )
            return ContractionStep(name, node.data.output, left, right)
        inverted, labels = node.args[place].args[0], node.data.inputs[place]
        own = self.name(inverted)
        matrix = Operand(self.factors.get(inverted, own), labels)
        right = Operand(self.name(node.args[1 - place]), node.data.inputs[1 - place])
        return Solve(name, node.data.output, matrix, right, factored=own if inverted in self.factors else "")

    def cofactor_tangent(
        self, node: Node, place: int, pair: tuple[int, ...], rest: tuple[int, ...], name: str
    ) -> CofactorTangent:
        """Return the step that fills the array ``name`` with the einsum `node`, the directional derivative of the
        cofactors of a matrix. The einsum is the product of a second-order `TensorCofactor`, with the labels ``pair``
        and ``rest``, and the direction, its operand number ``place``, summed over ``pair``.
        """
        direction = tuple([rest[pair.index(label)] for label in node.data.inputs[place]])
        matrix = Operand(self.name(node.args[1 - place].args[0]), rest)
        return CofactorTangent(name, node.data.output, matrix, Operand(self.name(node.args[place]), direction))

    def moved_step(self, node: Node, name: str) -> ProductStep | Apply:
        """Return the library call that fills the array `name` with `node`, a multiple of a transposed tensor, without a
        copy: the call that computes this tensor, set to store its result transposed and multiplied.
        """
        step = self.step(self.moved[node], name)
        assert step is not None
        coefficient, inputs, output, _ = node.data
        given = range(len(output)) if isinstance(step, Apply) else step.output
        places = dict(zip(inputs[0], given, strict=True))
        order = tuple([places[label] for label in output])
        if isinstance(step, Apply):
            return replace(step, axes=order if order != tuple(given) else (), factor=coefficient)
        return replace(step, output=order, factor=coefficient)

    def name(self, node: Node) -> str:
        """Return the name of the array that stores the values of `node`: an argument of the program, or an array that
        the program computes.
        """
        return self.arguments[node.data[0]] if node.op == "tensor" else self.names[node]

    # -------------------------------------------------------------- index notation

    def as_comprehension(self, node: Node) -> Recursion[Node]:
        """Convert the tensor `node` to index notation: return a comprehension with the formula of its entries, which
        may read other arrays. For a scalar, return the formula alone.
        """
        graph = self.graph
        if node.op == "comprehension" or not (node.shape or node.op == "ein"):
            scalar: Node = yield self.written(node)
            return scalar
        axes = [graph.fresh(f"i{n}") for n in range(len(node.shape))]
        body = yield self.scalar(entry(graph, node, [Affine.variable(v) for v in axes]))
        return graph.comprehension(axes, node.shape, body) if axes else body

    def scalar(self, node: Node) -> Recursion[Node]:
        """Return the scalar or comprehension `node` in index notation: operations on whole tensors in it become sums,
        or reads of the arrays that store them. If an array stores `node`, return this array, or its only entry.
        """
        if node in self.arrays:
            array = self.arrays[node]
            return array if node.shape else self.graph.read(array, ())
        if node not in self.done:
            self.done[node] = yield self.written(node)
        return self.done[node]

    def written(self, node: Node) -> Recursion[Node]:
        """Return the formula in index notation for the entries of an array that stores `node`. It reads other arrays,
        but not this one.
        """
        if node.op == "read" and node.args[0].op not in ("tensor", "comprehension"):
            tensor = node.args[0]
            if tensor in self.arrays:
                return self.graph.read(self.arrays[tensor], node.data)
            result: Node = yield self.scalar(entry(self.graph, tensor, node.data))
        elif node.op == "ein":
            result = yield self.scalar(entry(self.graph, node, ()))
        else:
            result = yield self.inside(node)
        return result

    def inside(self, node: Node) -> Recursion[Node]:
        """Return `node` with its arguments, or the body of a sum or comprehension, converted to index notation."""
        graph = self.graph
        if node.op in BINDERS and node.has_tensor_ops:
            variables, _, body = graph.open(node)
            return graph.over(node, variables, (yield self.scalar(body)))
        args = yield from in_turn(map(self.scalar, node.args))
        return graph.with_args(node, args)


# ---------------------------------------------------------------------------- logarithms of sums of exponentials
# ``t[i] = log(sum_j exp(z[i, j]))`` is ``shift[i] + log(total[i])`` with ``power[i, j] = exp(z[i, j] - shift[i])``,
# ``total[i] = sum_j power[i, j]`` and the greatest entry of a row as its shift, or 0 where that is infinite. What other
# arrays need as ``exp(z[i, j] - t[i])``, a softmax, is ``power[i, j]/total[i]``: one exponential for both, and the
# shares sum to 1 however large the entries are, for the rounding of ``t`` has no part in them.


def _with_shares(graph: Graph, definitions: Sequence[Definition], taken: Container[str]) -> list[Definition]:
    """Return `definitions`, the arrays to compute, with each log-sum-exp computed from auxiliary arrays, such as a
    maximum and a sum. Softmaxes of the same tensor then read these arrays. New names differ from those in ``taken``.
    """
    rest, found = list(definitions), list[Definition]()
    names = {definition.name for definition in definitions}
    works = {
        definition.array: _Logarithm(graph, definition, taken, names)
        for definition in definitions
        if definition.entries is not None and definition.entries.op == "lse"
    }
    bounds = _bounds_of_entries(definitions, works)
    while rest:
        first = rest.pop(0)
        work = works.get(first.array)
        if work is None:
            found.append(first)
            continue
        bound = bounds.get(work.tensor)
        work.is_shifted = bound is None or bound > MAX_BOUNDED_EXPONENT
        shared = {id(one): new for one in rest if (new := work.with_shares(one.entries)) is not one.entries}
        rest = [replace(one, entries=shared.get(id(one), one.entries)) for one in rest]
        found += work.definitions(bool(shared))
    return found


def _bounds_of_entries(definitions: Sequence[Definition], works: Mapping[Node, _Logarithm]) -> dict[Node, Any]:
    """Return upper bounds of the absolute values of nodes, where known: 1 for ``tanh(u)`` and for a softmax. The nodes
    are those in the formulas of `definitions`, and their arrays; ``works`` maps the arrays of log-sum-exps to their
    auxiliary arrays.
    """
    sizes: dict[Node, Any] = {}
    for definition in definitions:
        if definition.entries is not None and definition.array not in works:
            for part in reachable(definition.entries):
                if part in sizes:
                    continue
                is_share = any(work.index(part) is not None for work in works.values())
                sizes[part] = 1 if is_share else size_of(part, sizes)
            sizes[definition.array] = sizes[definition.entries]
    return sizes


class _Logarithm:
    """The auxiliary arrays of the log-sum-exp of a tensor ``z``: its maximum ("shift"), the exponentials of ``z -
    shift`` ("power"), their sum ("total"), and the inverse of the sum ("share").

    There is no shift if `is_shifted` is false: the entries of z are bounded, and no exponential overflows.
    """

    is_shifted = True

    def __init__(self, graph: Graph, definition: Definition, taken: Container[str], names: set[str]) -> None:
        assert definition.entries is not None
        self.graph, self.definition = graph, definition
        (self.tensor,), self.summed = definition.entries.args, definition.entries.data
        self.axes = [graph.fresh(f"i{n}") for n in range(len(self.tensor.shape))]
        self.arrays: dict[str, Node] = {}
        for what in ("shift", "power", "total", "share"):
            name = unique(f"{definition.name}_{what}", taken, names)
            names.add(name)
            shape = self.tensor.shape if what == "power" else self.outer(self.tensor.shape)
            self.arrays[what] = graph.tensor(f"array {name}", tuple(shape))

    def outer(self, items: Sequence[T]) -> list[T]:
        """Return those elements of `items` (one per axis) that belong to axes over which the log-sum-exp does not
        sum.
        """
        return [item for axis, item in enumerate(items) if axis not in self.summed]

    def with_shares(self, entries: Node | None) -> Node | None:
        """Return the formula `entries` with each softmax ``exp(z[i] - logsumexp(z))`` replaced by a product of entries
        of two arrays: ``power[i]``, an exponential, times ``share[i]``, the inverse of the sum. Return None for None.
        """
        if entries is None or self.definition.array not in (parts := reachable(entries)):
            return entries
        done: dict[Node, Node] = {}
        for node in parts:
            index = self.index(node)
            new = self.graph.with_args(node, [done[arg] for arg in node.args])
            done[node] = (
                new if index is None else self.graph.mul([self.read("power", index), self.read("share", index)])
            )
        return done[entries]

    def index(self, node: Node) -> Sequence[Affine] | None:
        """Return the index ``i`` if `node` is ``exp(z[i] - logsumexp(z))``, an entry of a softmax, for the log-sum-exp
        that this object rewrites; None for any other node.
        """
        if node.op != "call" or node.data is not sympy.exp or node.args[0].op != "add":
            return None
        terms = node.args[0].args
        for own, other in (terms, terms[::-1]) if len(terms) == 2 else ():
            if own.op == "read" and own.args[0] is self.tensor:
                logarithm = self.graph.read(self.definition.array, self.outer(own.data))
                if other is self.graph.neg(logarithm):
                    index: Sequence[Affine] = own.data
                    return index
        return None

    def read(self, what: str, index: Sequence[Affine]) -> Node:
        """Return the read of an array that helps to compute the log-sum-exp of a tensor z, at the entry for ``index``,
        an index of z. ``what`` names the array: "shift", "power", "total" or "share".
        """
        return self.graph.read(self.arrays[what], index if what == "power" else self.outer(index))

    def definitions(self, is_shared: bool) -> Iterator[Definition]:
        """Yield the definitions of the arrays that compute a log-sum-exp: the maximum ("shift"), the sum of the
        exponentials ("total"), and last the log-sum-exp itself. With `is_shared`, softmaxes read the exponentials
        ("power") and the inverse sum ("share"), which are then arrays, too.

        There is no maximum if the entries are bounded.
        """
        graph, index = self.graph, [Affine.variable(axis) for axis in self.axes]
        inner = [axis for axis in self.axes if axis not in self.outer(self.axes)]
        rows = ranges(inner, [self.tensor.shape[axis] for axis in self.summed])
        entry = graph.read(self.tensor, index)
        shift = graph.zero
        if self.is_shifted:
            yield self.defined("shift", finite(graph, graph.reduce("max", inner, rows, entry)))
            shift = self.read("shift", index)
        power = graph.call(sympy.exp, (graph.add((entry, graph.neg(shift))),))
        if is_shared:
            yield self.defined("power", power)
            power = self.read("power", index)
        yield self.defined("total", graph.sum(inner, rows, power))
        total = self.read("total", index)
        if is_shared:
            yield self.defined("share", inverse_of_sum(graph, total))
        value = graph.add((graph.call(sympy.log, (total,)), shift))
        yield replace(self.definition, entries=self.comprehension(value, self.outer(self.axes)))

    def defined(self, what: str, value: Node) -> Definition:
        """Return the definition of the auxiliary array `what` ("shift", "power", "total" or "share") with the entries
        `value`.
        """
        array = self.arrays[what]
        axes = self.axes if what == "power" else self.outer(self.axes)
        return Definition(array.data[0].removeprefix("array "), array, self.comprehension(value, axes))

    def comprehension(self, value: Node, axes: Sequence[int]) -> Node:
        """Return the scalar `value` as a comprehension over `axes`; unchanged without axes."""
        extents = [self.tensor.shape[self.axes.index(axis)] for axis in axes]
        return self.graph.comprehension(axes, extents, value) if axes else value
