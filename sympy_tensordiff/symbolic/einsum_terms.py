"""Products of tensors with labelled axes, the einsum products that they are, and the indices that stand for axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from sympy import Add, Dummy, Expr, Idx, Lambda, Mul, Piecewise, S, Symbol

from sympy_tensordiff.symbolic.binders import Binder
from sympy_tensordiff.symbolic.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.operations import TensorOperation
from sympy_tensordiff.symbolic.subscripts import LETTERS, unused_labels
from sympy_tensordiff.symbolic.tabulate import same_extent
from sympy_tensordiff.symbolic.traversal import free_symbols_in, nodes_in
from sympy_tensordiff.symbolic.whole import is_whole


@dataclass(frozen=True, eq=False)
class Label:
    """The index of an axis, known by identity: two indices of one name are two labels.

    Results have their axes in the order of the positions. A label without one is an axis of
    extent 1 that is read at 0.
    """

    index: Any
    extent: Expr
    position: int | None


class Factor(NamedTuple):
    """A tensor and the labels of its axes; a label may stand twice."""

    tensor: Any
    labels: tuple[Label, ...]


class Term(NamedTuple):
    """A scalar times the entries of some tensors."""

    scale: Expr = S.One
    factors: tuple[Factor, ...] = ()

    @property
    def labels(self) -> tuple[Label, ...]:
        """The indices that the value depends on, in the order of their positions."""
        return _ordered(label for factor in self.factors for label in factor.labels)


def union(terms: Iterable[Term]) -> tuple[Label, ...]:
    """The labels of all terms, in an order for which a tensor among them is not transposed, if there is one."""
    terms = list(terms)
    labels = _ordered(chain.from_iterable(term.labels for term in terms))
    orders = [term.factors[0].labels for term in terms if len(term.factors) == 1]
    orders = [order for order in orders if len(order) == len(labels) and set(order) == set(labels)]
    return labels if labels in orders or not orders else orders[0]


def _ordered(labels: Iterable[Label]) -> tuple[Label, ...]:
    positions = {label: label.position for label in labels if label.position is not None}
    return tuple(sorted(positions, key=positions.__getitem__))


def product(terms: Iterable[Term]) -> Term:
    """The product of some terms."""
    terms = list(terms)
    return Term(Mul(*(term.scale for term in terms)), tuple(chain.from_iterable(term.factors for term in terms)))


def added(terms: Sequence[Term]) -> Term:
    """The sum of some terms: each becomes a tensor with the labels of all."""
    labels = union(terms)
    if not labels:
        return Term(Add(*(term.scale for term in terms)))
    return Term(factors=(Factor(TensorAdd(*(operand_of(term, labels) for term in terms)), labels),))


def applied(terms: Sequence[Term], function: Callable[[Sequence[Any]], Any]) -> Term:
    """A function of some terms; numbers stay in it."""
    labels = union(terms)
    values = [term.scale if not term.labels and term.scale.is_number else Dummy("t", real=True) for term in terms]
    operands = [operand_of(term, labels) for term, value in zip(terms, values, strict=True) if value.is_Dummy]
    template = Lambda(tuple(value for value in values if value.is_Dummy), function(values))
    return Term(factors=(Factor(TensorFunction(template, *operands), labels),))


def operand_of(term: Term, labels: Sequence[Label]) -> Any:
    """The term as an operand of an element-wise node: a tensor with the labels as axes, or a scalar."""
    return tensor_of(term, labels) if term.labels else tensor_of(term, ())


def one_factor(term: Term) -> Factor:
    """The term as one tensor."""
    return Factor(tensor_of(term, term.labels), term.labels)


def summed(term: Term, over: Sequence[Label]) -> Term:
    """The sum of the term over the whole ranges of some labels."""
    unused = [label.extent for label in over if label not in term.labels]
    scale = Mul(term.scale, *unused)
    rest = tuple(label for label in term.labels if label not in over)
    if len(rest) == len(term.labels):
        return Term(scale, term.factors)
    total = tensor_of(Term(factors=term.factors), rest)
    return Term(scale, (Factor(total, rest),)) if rest else Term(Mul(scale, total))


def tensor_of(term: Term, output: Sequence[Label]) -> Any:
    """The tensor with the axes ``output`` whose entries are those of the term, summed over all other labels.

    A scalar where there are no axes. Axes that no factor has are those of a tensor of ones.
    """
    factors = _unit_axes(term.factors, output)
    missing = [label for label in output if not any(label in factor.labels for factor in factors)]
    if not factors:
        shape = [label.extent for label in output]
        return FilledTensor(term.scale, shape) if shape else term.scale
    if missing:
        factors.append(Factor(FilledTensor(1, [label.extent for label in missing]), tuple(missing)))
    delta = _delta(factors, output)
    if delta is not None:
        return _scaled(term.scale, [delta])
    if all(factor.labels == tuple(output) for factor in factors):
        return _scaled(term.scale, [factor.tensor for factor in factors])
    return _scaled(term.scale, [_einsum(_in_a_row(_unrolled(factors, output), output), output)])


def _scaled(scale: Expr, tensors: Sequence[Any]) -> Any:
    """A scalar times tensors of one shape, entry by entry; the scalars of a single product join the others."""
    if len(tensors) == 1 and isinstance(tensors[0], TensorMul):
        parts = tensors[0].operands
        scale = Mul(scale, *(part for part in parts if not is_whole(part)))
        tensors = [part for part in parts if is_whole(part)]
    if scale != 1 and not is_whole(tensors[0]):
        return Mul(scale, *tensors)
    operands = tensors if scale == 1 else [scale, *tensors]
    return TensorMul(*operands) if len(operands) > 1 else operands[0]


def _unit_axes(factors: Sequence[Factor], output: Sequence[Label]) -> list[Factor]:
    """The factors, where axes of extent 1 that are read at 0 are those of the output that nobody else has."""
    held = set(chain.from_iterable(factor.labels for factor in factors))
    free = [label for label in output if label.extent == 1 and label not in held]
    units = [label for factor in factors for label in factor.labels if label.position is None]
    renamed = dict(zip(units, free, strict=False))
    return [Factor(tensor, tuple(renamed.get(label, label) for label in labels)) for tensor, labels in factors]


def _delta(factors: Sequence[Factor], output: Sequence[Label]) -> Any:
    """The unit tensor, where the factors are unit tensors that match the first half of the output with the second."""
    half = len(output) // 2
    if not all(isinstance(factor.tensor, DeltaTensor) for factor in factors):
        return None
    pairs = [
        frozenset(pair)
        for _, labels in factors
        for pair in zip(labels[: len(labels) // 2], labels[len(labels) // 2 :], strict=True)
    ]
    wanted = [frozenset(pair) for pair in zip(output[:half], output[half:], strict=False)]
    if 2 * half != len(output) or Counter(pairs) != Counter(wanted):
        return None
    return DeltaTensor([label.extent for label in output[:half]])


def _unrolled(factors: Iterable[Factor], output: Sequence[Label]) -> list[Factor]:
    """The factors, squares that are summed written as products, which SymPy has made squares of."""
    result = []
    for factor in factors:
        tensor = factor.tensor
        square = isinstance(tensor, TensorPow) and tensor.exponent == 2 and not set(factor.labels) <= set(output)
        result += [Factor(tensor.base, factor.labels)] * 2 if square else [factor]
    return result


def _in_a_row(factors: list[Factor], output: Sequence[Label]) -> list[Factor]:
    """The factors in an order that reads as a chain: neighbours share a label that is summed."""
    rest = list(factors)
    row: list[Factor] = []
    wanted = set(output[:1])
    while rest:
        first = next((factor for factor in rest if not wanted.isdisjoint(factor.labels)), None)
        if first is None:
            first = min(rest, key=lambda factor: len(factor.labels)) if not row and not output else rest[0]
        rest.remove(first)
        row.append(first)
        wanted = set(first.labels).difference(output)
    return row


def _einsum(factors: Sequence[Factor], output: Sequence[Label]) -> Any:
    letters: dict[Label, str] = {}
    labels = list(dict.fromkeys(chain(output, *(factor.labels for factor in factors))))
    for label in labels:
        name = label.index.name if label.index is not None else ""
        if len(name) == 1 and name in LETTERS and name not in letters.values():
            letters[label] = name
    free = iter(unused_labels("".join(letters.values())))
    for label in labels:
        if label not in letters:
            letters[label] = next(free)
    inputs = ("".join(letters[label] for label in factor.labels) for factor in factors)
    subscripts = f"{','.join(inputs)}->{''.join(letters[label] for label in output)}"
    return EinsumProduct(subscripts, *(factor.tensor for factor in factors))


# ------------------------------------------------------------------ indices around, and the axes that they run over

Scope: TypeAlias = frozenset[tuple[Any, Label | None]]
"""The indices that are bound around, and their labels; None for one that is no axis of a whole tensor."""


def axis(index: Any, extent: Expr, labels: dict[Any, Label | None]) -> Label | None:
    """The label of an axis that is read at an index; None where it is not read all along."""
    label = labels.get(index)
    if label is not None and same_extent(label.extent, extent):
        return label
    return Label(None, S.One, None) if index == 0 and extent == 1 else None


def depends(exprs: Iterable[Any], scope: Scope) -> bool:
    """Whether an operation on whole tensors depends on an index around, which it must not."""
    indices = {index for index, label in scope if label is None}
    operations = (node for node in nodes_in(exprs) if isinstance(node, TensorOperation)) if indices else ()
    return any(not indices.isdisjoint(node.free_symbols) for node in operations)


def is_open(scope: Scope) -> bool:
    """Whether there are axes around."""
    return any(label is not None for _, label in scope)


def closed(scope: Scope) -> Scope:
    """The same indices, none of which is an axis."""
    return frozenset((index, None) for index, _ in scope)


def among(scope: Scope, symbols: Iterable[Any]) -> Scope:
    """The part of a scope about some symbols."""
    return frozenset(pair for pair in scope if pair[0] in symbols)


def restricted(scope: Scope, expr: Any) -> Scope:
    """The part of a scope that an expression depends on."""
    return among(scope, expr.free_symbols) if scope else scope


def plain_reads(expr: Any) -> dict[Any, Expr]:
    """The free indices of an expression that only select entries, as ``p`` in ``A[p, j]``, and the extents there.

    Such an index runs over the axes that it reads without leaving any shape: the expression is an
    entry of a tensor with this axis. An index that stands anywhere else, in another index, in a
    bound, in a condition, or as a number, is none of them; nor is one that reads axes of different
    extents.

    >>> import sympy_tensordiff as td
    >>> j, p, q, n, m = td.indices("j p q n m")
    >>> A = td.TensorSymbol("A", (n, m))
    >>> plain_reads(td.IndexedSum(A[p, j]*A[q, j]*q, (j, 0, m - 1)))
    {p: n}
    """
    found: dict[Any, Expr] = {}
    others: set[Any] = set()
    stack, seen = [expr], set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (Symbol, Idx)):
            others.add(node)
        elif isinstance(node, TensorEntry):
            others |= node.tensor.free_symbols
            for index, extent in zip(node.indices, node.tensor.shape, strict=True):
                plain = isinstance(index, (Symbol, Idx)) and same_extent(found.setdefault(index, extent), extent)
                others |= set() if plain else index.free_symbols
        elif isinstance(node, Piecewise):
            others |= free_symbols_in([node])
        else:
            others |= set(node.variables) if isinstance(node, Binder) else set()
            stack += node.args
    return {index: found[index] for index in sorted(found, key=str) if index not in others}
