"""Writing operations on whole tensors: products as users write them, with deltas and ones as operands.

A view of a product is written as one product. Operands are in an order that does not depend on how
the expression was derived, so that equal results are equal texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.einsums import ELEMENTWISE
from sympy_tensordiff.graph.interning import Number, Recursion, in_turn
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.write_forms import BoundSymbols, Forms
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.printing.matrix_notation import added_labels
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import (
    TensorAdd,
    TensorFunction,
    TensorMul,
    TensorPow,
    placeholders,
)
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import (
    TensorAdjugate,
    TensorCofactor,
    TensorDeterminant,
    TensorInverse,
    TensorLogSumExp,
)
from sympy_tensordiff.symbolic.whole_tensors.subscripts import FROM_I, LETTERS, axis_labels

WrittenOperand = tuple[Any, tuple[Any, ...]]
"""An operand in SymPy's terms and its labels."""


def operands_of(node: Node) -> list[tuple[Node, tuple[int, ...]]]:
    """Return the operands of the einsum `node` with their labels. For a transposed or scaled einsum, return those of
    the einsum inside.
    """
    operands = list(zip(node.args, node.data.inputs, strict=True))
    if not (is_view(node) and node.args and is_core(node.args[0])):
        return operands
    (core, labels) = operands[0]
    outer = dict(zip(core.data.output, labels, strict=True))
    # A repeated label here takes a diagonal of the core: it identifies labels there.
    new = len(node.data.extents)
    for label in range(len(core.data.extents)):
        if label not in outer:
            outer[label] = new
            new += 1
    return [
        (arg, tuple(outer[label] for label in inputs)) for arg, inputs in zip(core.args, core.data.inputs, strict=True)
    ]


def order_symmetric_labels(
    operands: Sequence[tuple[Node, tuple[int, ...]]], output: Sequence[int], known: Mapping[Node, bool]
) -> list[WrittenOperand]:
    """Return ``operands``, pairs of a node and its labels, with the two labels of a symmetric matrix exchanged where
    the product then reads as a chain, ``x.T S y``, without a transposed S. ``known`` says which nodes are symmetric;
    ``output`` are the labels of the result.

    A path starts at the first axis of the result, or at an end.
    """
    if not any(len(labels) == 2 and known.get(arg) for arg, labels in operands):
        return list(operands)
    place: dict[int, int] = {}
    for label in (*output[:1], *(label for _, labels in operands for label in labels)):
        if label not in place:
            path = _reached(operands, label)
            path = path if label in output[:1] else _reached(operands, path[-1])
            place.update((label, len(place) + n) for n, label in enumerate(path))
    return [
        (arg, labels[::-1] if len(labels) == 2 and known.get(arg) and place[labels[0]] > place[labels[1]] else labels)
        for arg, labels in operands
    ]


def _reached(operands: Sequence[tuple[Node, tuple[int, ...]]], start: int) -> list[int]:
    """Return the labels connected to ``start`` through operands, the nearest first; ``start`` itself is included."""
    found = {start: None}
    queue = [start]
    for label in queue:
        for _, labels in operands:
            queue += [other for other in dict.fromkeys(labels) if label in labels and other not in found]
            found.update(dict.fromkeys(labels if label in labels else ()))
    return queue


def write_einsum(
    node: Node, operands: Sequence[WrittenOperand], extents: Sequence[Any], names: Mapping[int, str]
) -> Any:
    """Return the expression of an einsum `node`, whose `operands` are already written: an `EinsumProduct`, element-wise
    product or filled tensor. ``extents`` are the extents of its output, ``names`` maps labels to preferred letters.
    """
    scalars = [expr for expr, labels in operands if not labels]
    tensors = sorted(((expr, labels) for expr, labels in operands if labels), key=_operand_key)
    factor = sympy.Mul(number(node.data.coefficient), *scalars)
    if not tensors and not node.data.output:
        return factor
    if not tensors and (len(set(node.data.output)) == len(node.data.output) or factor == 0):
        return FilledTensor(factor, [extents[label] for label in node.data.output])
    for place, (expr, labels) in enumerate(tensors):
        factor, with_a_mean = mean_inside(factor, expr)
        tensors[place] = with_a_mean, labels
    output, deltas = _with_deltas(node.data.output, extents)
    tensors += deltas
    used = {label for _, labels in tensors for label in labels}
    missing = [label for label in dict.fromkeys(output) if label not in used]
    if missing:
        tensors.append((FilledTensor(sympy.S.One, [extents[label] for label in missing]), tuple(missing)))
    if all(labels == output for _, labels in tensors):
        return scaled_product(factor, [expr for expr, _ in tensors])
    if len(tensors) == 1 and isinstance(tensors[0][0], DeltaTensor) and tensors[0][1] == output:
        return scaled_product(factor, [tensors[0][0]])
    subscripts = _subscripts([labels for _, labels in tensors], output, names)
    return scaled_product(*with_mean(factor, EinsumProduct(subscripts, *(expr for expr, _ in tensors))))


def with_mean(factor: Any, total: EinsumProduct) -> tuple[Any, list[EinsumProduct]]:
    """Write the sum ``total`` of n terms as a mean if ``factor`` contains ``1/n``, for a symbolic n: return
    ``(factor*n, [mean])``. Otherwise return ``(factor, [total])``.
    """
    extents = total.label_extents
    count = sympy.Mul(*(extents[label] for label in added_labels(total.inputs, total.output)))
    powers = factor.as_powers_dict()
    sizes = count.as_powers_dict().items()
    if count.is_number or not all((powers.get(base, 0) + power).is_nonpositive for base, power in sizes):
        return factor, [total]
    labels = ",".join(("", *total.inputs))
    return factor * count, [EinsumProduct(f"{labels}->{total.output}", 1 / count, *total.operands)]


def mean_inside(factor: Any, expr: Any) -> tuple[Any, Any]:
    """Write a sum of n terms in ``expr`` as a mean if ``factor`` contains ``1/n``, and return ``(factor*n, new expr)``:
    ``(2, mean(x))`` for ``2/n`` and ``sum(x)``. Otherwise return both unchanged.
    """
    if isinstance(expr, EinsumProduct):
        factor, (expr,) = with_mean(factor, expr)
    elif isinstance(expr, TensorMul):
        for place, part in enumerate(expr.args):
            rest, (mean,) = with_mean(factor, part) if isinstance(part, EinsumProduct) else (factor, [part])
            if mean is not part:
                return rest, TensorMul(*expr.args[:place], mean, *expr.args[place + 1 :])
    return factor, expr


def scaled_product(factor: Any, tensors: Sequence[Any]) -> Any:
    """Return ``factor`` times the element-wise product of ``tensors``, which have one shape or are all scalars."""
    if not getattr(tensors[0], "shape", ()):
        return sympy.Mul(factor, *tensors)
    factors = list(tensors) if factor == 1 else [factor, *tensors]
    return factors[0] if len(factors) == 1 else TensorMul(*factors)


def _operand_key(operand: WrittenOperand) -> tuple[Any, ...]:
    """Return a key by which operands are sorted for printing: variables first, by name, then others by a hash that is
    the same in every process.
    """
    expr = operand[0]
    return (0, expr.name, "") if expr.is_symbol else (1, "", measures(expr).digest.hex())


def _with_deltas(output: tuple[int, ...], extents: Sequence[Any]) -> tuple[tuple[int, ...], list[WrittenOperand]]:
    """Replace repeated labels in ``output`` by new, negative labels and unit tensors. Return ``(new labels, unit
    tensors)``: ``(i, i)`` becomes ``(i, j)`` with the operand ``delta[i, j]``.

    ``extents[label]`` is a label's extent. Labels ``(i, k, i, k)`` get one unit tensor.
    """
    new: list[int] = []
    pairs: list[tuple[int, int]] = []
    for place, label in enumerate(output):
        if label in output[:place]:
            pairs.append((label, -1 - place))
            new.append(-1 - place)
        else:
            new.append(label)
    result = tuple(new)
    rank = len(output)
    if pairs and 2 * len(pairs) == rank and output[: rank // 2] == output[rank // 2 :]:
        delta = DeltaTensor([extents[label] for label in output[: rank // 2]])
        return result, [(delta, result)]
    return result, [(DeltaTensor([extents[label]]), (label, other)) for label, other in pairs]


def _subscripts(inputs: Sequence[tuple[int, ...]], output: tuple[int, ...], names: Mapping[int, str]) -> str:
    """Return the subscripts of an einsum with the operand labels ``inputs`` and the result labels ``output`` as text,
    ``"ij,jk->ik"``. Labels get the letters in ``names``, and free letters otherwise.
    """
    letters: dict[int, str] = {}
    order = dict.fromkeys((*output, *(label for labels in inputs for label in labels)))
    for label in order:
        if (name := names.get(label, "")) in LETTERS and len(name) == 1 and name not in letters.values():
            letters[label] = name
    free = (letter for letter in FROM_I if letter not in letters.values())
    letters |= {label: next(free) for label in order if label not in letters}

    def as_letters(labels: Sequence[int]) -> str:
        """Return the subscripts of an operand, as ``ij``, for its labels: one letter for each."""
        return "".join(letters[label] for label in labels)

    return ",".join(map(as_letters, inputs)) + "->" + as_letters(output)


def branches_of(graph: Graph, node: Node) -> tuple[list[tuple[Node, Node]], Node]:
    """Return ``(branches, default)`` of nested selects: pairs of condition and value, and the value where none holds.

    A choice in the value of a branch whose rest is that of the branch is a branch by both conditions, and one in the
    rest is more branches; so are products with a choice between something and 0.
    """
    branches: list[tuple[Node, Node]] = []
    choice = graph.split_select(node)
    while choice is not None:
        condition, value, rest = choice
        conditions = [condition]
        while (inner := graph.split_select(value)) is not None and rest in inner[1:]:
            holds = inner[2] is rest
            conditions.append(inner[0] if holds else graph.logic("not", [inner[0]]))
            value = inner[1] if holds else inner[2]
        branches.append((graph.logic("and", conditions), value))
        node, choice = rest, graph.split_select(rest)
    return branches, node


def number(value: Number) -> Any:
    """Return a number as a SymPy number."""
    if isinstance(value, float):
        return sympy.Float(value)
    return sympy.Rational(value.numerator, value.denominator)


def axis_letters(graph: Graph, node: Node, known: dict[Node, str]) -> str:
    """Return the letters that the user gave to the axes of the tensor ``node``, with a blank for an axis without a
    letter; "" if no axis has one. The letters of ``node`` and of all nodes below it are added to ``known``.
    """
    for part in reachable(node, known=known):
        known[part] = graph.letters.get(part, "")
        if not known[part] and part.shape and part.op in ELEMENTWISE:
            known[part] = next((known[arg] for arg in part.args if arg.shape and known[arg].strip()), "")
        elif not known[part] and part.op == "ein":
            names = dict[int, str]()
            for arg, labels in zip(part.args, part.data.inputs, strict=True):
                names = {**dict(zip(labels, known[arg], strict=False)), **names}
            known[part] = "".join(names.get(label, " ") for label in part.data.output)
    return known[node]


def _log_softmax(graph: Graph, node: Node) -> list[Node]:
    """Return the two terms ``[u, -logsumexp(u)]`` if ``node`` is the logarithm of a softmax, ``-(logsumexp(u) - u)`` in
    the graph; [] for other nodes.
    """
    if not (node.view and node.data.is_multiple and node.args[0].op == "add"):
        return []
    terms = [graph.scale(node.data.coefficient, term) for term in node.args[0].args]
    for term in terms:
        total = term.args[0] if is_view(term) and term.args else term
        if total.op == "lse" and graph.add([other for other in terms if other is not term]) is total.args[0]:
            return terms
    return []


class TensorWriter(Forms, ABC):
    """The methods of `ExpressionWriter` that write operations on whole tensors."""

    axis_letters: dict[Node, str]

    @abstractmethod
    def visit(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the expression of `node`, where ``bound_symbols`` lists the bound variables with their symbols."""

    @abstractmethod
    def plain(self, node: Node, args: list[Any], bound_symbols: BoundSymbols) -> Any:
        """Return the SymPy expression of a `node` that binds no indices, such as a product or a function. `args` are
        the expressions of its arguments.
        """

    def whole(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the expression of an operation on whole tensors, whose result may be a scalar."""
        if node.op == "ein":
            return (yield self._write_einsum(node, bound_symbols))
        if node.op in ("call", "select", "compare", "and", "or", "not"):
            return (yield self._write_function(node, bound_symbols))
        args = yield from in_turn(self.visit(arg, bound_symbols) for arg in node.args)
        match node.op:
            case "add":
                return TensorAdd(*args)
            case "pow":
                return TensorPow(*args)
            case "inv":
                return TensorInverse(*args)
            case "lse":
                return TensorLogSumExp(args[0], node.data)
        return _cofactor(node.data, args[0])

    def _write_einsum(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the expression of an einsum node. Cofactor matrices in it become adjugates, and the logarithm of a
        softmax becomes two terms.
        """
        if terms := _log_softmax(self.reader.graph, node):
            return TensorAdd(*(yield from in_turn(self.visit(term, bound_symbols) for term in terms)))
        operands: list[WrittenOperand] = []
        parts = operands_of(node)
        core = node.args[0] if is_view(node) and node.args else node
        names: dict[int, str] = {}
        if is_core(core) and core.id in self.reader.graph.hints:
            inputs = zip(parts, core.data.inputs, strict=True)
            pairs = (pair for (_, labels), own in inputs for pair in zip(labels, own, strict=True))
            names = {label: self.reader.graph.hints[core.id][own] for label, own in pairs}
        if self.reader.graph.letters and not names:
            names = self.names_of([*parts, (node, node.data.output)])
        for arg, labels in order_symmetric_labels(parts, node.data.output, self.reader.graph.symmetric):
            if arg.op == "cof" and arg.data == 1:
                matrix = yield self.visit(arg.args[0], bound_symbols)
                operands.append((TensorAdjugate(matrix), (*labels[:-2], labels[-1], labels[-2])))
            else:
                operands.append(((yield self.visit(arg, bound_symbols)), tuple(labels)))
        extents = [self.form(extent, bound_symbols) for extent in node.data.extents]
        return write_einsum(node, operands, extents, names)

    def names_of(self, operands: Sequence[tuple[Node, Sequence[int]]]) -> dict[int, str]:
        """Return letters for the labels of an einsum, as far as the user has named the axes of the operands."""
        names: dict[int, str] = {}
        for node, labels in operands:
            for label, letter in zip(labels, axis_letters(self.reader.graph, node, self.axis_letters), strict=False):
                if label not in names and letter != " " and letter not in names.values():
                    names[label] = letter
        return names

    def _write_function(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return nested element-wise functions as one `TensorFunction`, whose operands are the tensors and scalars
        inside.
        """
        symbols: dict[Node, Any] = {}
        template = yield (self._call_template if node.op == "call" else self._choice_template)(
            node, symbols, bound_symbols
        )
        operands = yield from in_turn(self.visit(leaf, bound_symbols) for leaf in symbols)
        return TensorFunction(sympy.Lambda(tuple(symbols.values()), template), *operands)

    def _call_template(self, node: Node, leaves: dict[Node, Any], bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the function call ``node`` as an expression in placeholder symbols, one for each argument. ``leaves``
        maps arguments to their symbols; new arguments are added to it.
        """
        args = yield from in_turn(self._leaf_symbol(arg, leaves, bound_symbols) for arg in node.args)
        return self.plain(node, args, bound_symbols)

    def _choice_template(self, node: Node, leaves: dict[Node, Any], bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the select or condition ``node`` as an expression in placeholder symbols, one for each operand.
        ``leaves`` maps operands to their symbols; new operands are added to it.
        """
        if node.op not in ("select", "compare", "and", "or", "not"):
            leaf: Any = yield self._leaf_symbol(node, leaves, bound_symbols)
            return leaf
        if node.op == "select":
            branches, rest = branches_of(self.reader.graph, node)
            pairs = []
            for condition, value in branches:
                holds = yield self._choice_template(condition, leaves, bound_symbols)
                pairs.append(((yield self._choice_template(value, leaves, bound_symbols)), holds))
            pairs.append(((yield self._choice_template(rest, leaves, bound_symbols)), sympy.true))
            return sympy.Piecewise(*pairs, evaluate=False)
        args = yield from in_turn(self._choice_template(arg, leaves, bound_symbols) for arg in node.args)
        return self.plain(node, args, bound_symbols)

    def _leaf_symbol(self, node: Node, leaves: dict[Node, Any], bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the placeholder symbol of `node` from ``leaves``, where it is added if new; a number is returned as
        itself.
        """
        if node.op == "const":
            return self.plain(node, [], bound_symbols)
        yield from ()
        return leaves.setdefault(node, placeholders(len(leaves) + 1)[-1])


def _cofactor(order: int, matrix: Any) -> Any:
    """Return ``det(matrix)`` for order 0, the cofactor matrix (the transposed adjugate) for order 1, and a
    `TensorCofactor` for higher orders.
    """
    if order == 0:
        return TensorDeterminant(matrix)
    if order == 1:
        *batch, row, column = list(axis_labels(matrix.shape))
        return EinsumProduct(f"{''.join(batch)}{row}{column}->{''.join(batch)}{column}{row}", TensorAdjugate(matrix))
    return TensorCofactor(order, matrix)
