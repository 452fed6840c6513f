"""Sums of products by NumPy: the factors are put into two arrays, the product of which ``einsum`` sums up.

No array has an axis for each index of the sum and of the result, unless a factor itself has. What
a factor reads along several indices at once is a view. Factors that are computed, and windows that
have to be copied for a product of matrices, may have more entries than the arguments have: such
sums are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as combinations
from math import prod
from typing import NamedTuple

from sympy_tensordiff.codegen.emit.accumulate import Additions, repeated
from sympy_tensordiff.codegen.emit.forms import PRODUCT, Block
from sympy_tensordiff.codegen.emit.lanes import Lanes, Span
from sympy_tensordiff.codegen.emit.narrowing import SHORT
from sympy_tensordiff.codegen.emit.vectors import Frame, VectorPrinter, rise
from sympy_tensordiff.codegen.ir.loops import Add, Loop
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import bounds, subexpressions
from sympy_tensordiff.integer.affine import Affine

_USUAL = 64
"""A length that is not known, for the choice between arrangements."""

_MOST = 8
"""More factors than these are not arranged."""


class Nest(NamedTuple):
    """Loops, outermost first, around one addition."""

    loops: tuple[Loop, ...]
    add: Add


def find_nest(loop: Loop) -> Nest | None:
    """The loops around the only addition to a sum in ``loop``, with ranges that depend on none of them."""
    found = [loop]
    while True:
        if len(loop.body) != 1:
            return None
        (inner,) = loop.body
        if isinstance(inner, Add) and inner.reduction == "sum":
            break
        if not isinstance(inner, Loop):
            return None
        found.append(loop := inner)
    variables = {loop.variable for loop in found}
    if any(bound.form.atoms() & variables for loop in found for bound in bounds(loop)):
        return None
    return Nest(tuple(found), inner)


class Operand(NamedTuple):
    """Factors that are multiplied with each other, and the dimensions along which their product varies.

    ``is_made``: an array is computed for it. ``is_wide``: it has more entries than what it is made of.
    """

    factors: tuple[Scalar, ...]
    dims: frozenset[Span]
    is_made: bool
    is_wide: bool

    def loads(self) -> Iterable[Load]:
        """The reads in it."""
        return (part for factor in self.factors for part in subexpressions(factor) if isinstance(part, Load))


def _operand(factors: Sequence[Scalar], values: VectorPrinter) -> Operand:
    dims = frozenset[Span]().union(*map(values.varies, factors))
    parts = [part for factor in factors for part in subexpressions(factor)]
    ranks = [len(part.index) for part in parts if isinstance(part, Load)]
    ranks += [len(values.varies(part)) for part in parts if isinstance(part, Name)]
    first = factors[0]
    is_made = len(factors) > 1 or not (isinstance(first, Name) or (isinstance(first, Load) and values.is_part(first)))
    return Operand(tuple(factors), dims, is_made, max(ranks, default=0) < len(dims))


class Arrangement(NamedTuple):
    """How a sum of products is computed: one or two operands, and the factors without dimensions."""

    operands: tuple[Operand, ...]
    scalars: tuple[Scalar, ...]
    is_negative: bool
    by_matrices: bool

    @property
    def widest(self) -> Operand | None:
        """The operand for which most memory is needed besides that of the arguments."""
        wide = [operand for operand in self.operands if operand.is_wide and (operand.is_made or self.by_matrices)]
        return max(wide, key=lambda operand: entries(operand.dims), default=None)


def arrange(value: Scalar, values: VectorPrinter, summed: Sequence[Span]) -> Arrangement | None:
    """The arrangement of least work for the sum of ``value`` over the dimensions ``summed``."""
    is_negative, factors = factors_of(value)
    scalars = tuple(factor for factor in factors if not values.varies(factor))
    varying = [factor for factor in factors if values.varies(factor)]
    if not varying or len(varying) > _MOST:
        return None
    best: tuple[float, Arrangement] | None = None
    for sides in combinations((False, True), repeat=len(varying) - 1):
        groups = [[f for f, side in zip(varying, (False, *sides), strict=True) if side == own] for own in (0, 1)]
        operands = tuple(_operand(group, values) for group in groups if group)
        by_matrices = len(operands) == 2 and _is_product_of_matrices(operands[0].dims, operands[1].dims, summed)
        found = Arrangement(operands, scalars, is_negative, by_matrices)
        work = _work(found)
        if best is None or work < best[0]:
            best = work, found
    return best[1] if best is not None else None


def factors_of(value: Scalar) -> tuple[bool, list[Scalar]]:
    """Whether a product is negated, and its factors."""
    is_negative, factors, waiting = False, list[Scalar](), [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Operation) and node.function in ("mul", "neg"):
            is_negative ^= node.function == "neg"
            waiting += reversed(node.arguments)
        elif isinstance(node, Number) and node.value < 0:
            is_negative ^= True
            waiting.append(Number(-node.value))
        elif node != Number(1):
            factors.append(node)
    return is_negative, factors


def entries(dims: Iterable[Span]) -> float:
    """The number of entries of an array, about."""
    lengths = [dim.length for dim in dims]
    return float(prod(n.constant if n.is_constant else _USUAL for n in lengths))


def _is_product_of_matrices(left: frozenset[Span], right: frozenset[Span], summed: Sequence[Span]) -> bool:
    """Whether there are indices to be summed over, and others that only one of the operands has, of each."""
    inner = frozenset(summed)
    return bool(left & right & inner) and bool(left - right - inner) and bool(right - left - inner)


def _work(found: Arrangement) -> float:
    """The memory traffic and the multiplications, about, in units of one entry."""
    points = entries(frozenset[Span]().union(*(operand.dims for operand in found.operands)))
    work = points / 8 if found.by_matrices else points
    for operand in found.operands:
        if operand.is_made:
            work += 2 * len(operand.factors) * entries(operand.dims)
        elif found.by_matrices and operand.is_wide:
            work += entries(operand.dims)
    return work


def print_product(nest: Nest, frame: Frame, additions: Additions) -> bool:
    """Write a nest whose ranges depend on no lane; False where an array would need an axis for each index."""
    lanes, add, values = frame.lanes, nest.add, additions.values
    forms = [bound.form for loop in nest.loops for bound in bounds(loop)]
    if any(map(lanes.dims_of, forms)) or not additions.counts_everywhere(add.name, frame):
        return False
    lines, spans = Block(), list[Span]()
    inner = frame._replace(block=lines)
    for loop in nest.loops:
        span, inner = additions.narrowing.span(inner, loop)
        spans.append(span)
    found = _arranged(add, inner._replace(lanes=lanes.inside(*spans)), additions)
    if found is None:
        return False
    widest = found.widest
    cut = next((n for n, span in enumerate(spans) if widest is not None and span in widest.dims), None)
    if widest is not None and cut is not None:
        others = [dim for dim in (*lanes.dims, *spans) if dim in widest.dims and dim is not spans[cut]]
        most = "BLOCK" if widest.is_made else "COPIED"
        spans[cut], inner = additions.narrowing.blocks(inner, spans[cut], others, most)
    inner = inner._replace(lanes=lanes.inside(*spans))
    found = _arranged(add, inner, additions)
    assert found is not None
    with values.inside(inner):
        Product(inner, additions).print(add, found)
    frame.block.slot(lines)
    return True


def _arranged(add: Add, frame: Frame, additions: Additions) -> Arrangement | None:
    """How the sum over the lanes is computed; None where it is not by views and products."""
    with additions.values.inside(frame._replace(block=Block())):
        found = arrange(add.value, additions.values, additions.summed(add.name, frame.lanes))
    return None if found is None or (len(found.operands) == 1 and found.operands[0].is_made) else found


class Product:
    """Writes one sum of products over the lanes of a frame."""

    def __init__(self, frame: Frame, additions: Additions) -> None:
        self.frame = frame
        self.additions = additions
        self.values = additions.values

    def print(self, add: Add, found: Arrangement) -> None:
        """Add a sum to an accumulator."""
        if len(found.operands) == 1:
            self.additions.add(add.name, add.value, "sum", self.frame)
            return
        dims = self.frame.lanes.dims
        summed = self.additions.summed(add.name, self.frame.lanes)
        varies = found.operands[0].dims | found.operands[1].dims
        out = [dim for dim in dims if dim in varies and dim not in summed]
        text = self._correlation(found.operands, out) or self._einsum(found, out)
        behind = dims[dims.index(out[0]) :] if out else ()
        if len(behind) > len(out):
            text += f"[{', '.join(':' if dim in out else 'None' for dim in behind)}]"
        text = repeated(text, [self.values.form(dim.length) for dim in summed if dim not in varies], "sum")
        if found.scalars:
            text = f"{self.values.scalar(product_of(found.scalars), PRODUCT)}*{text}"
        self.additions.assign(add.name, ("-" if found.is_negative else "") + text, "sum", self.frame)

    def _correlation(self, operands: Sequence[Operand], out: Sequence[Span]) -> str | None:
        """The sums of products of a vector with windows of another one; None where they are others."""
        for operand, weights in (operands, operands[::-1]):
            window = None if operand.is_made else find_window(operand.factors[0], weights.dims, out, self.values)
            if window is not None:
                vector = self._array(weights, self._order(weights))
                return f'{window.function}({window.text}, {vector}, "valid"){"[::-1]" if window.is_turned else ""}'
        return None

    def _einsum(self, found: Arrangement, out: Sequence[Span]) -> str:
        """The sums of products of the entries of two arrays, for each entry along ``out``."""
        dims = [dim for dim in self.frame.lanes.dims if any(dim in operand.dims for operand in found.operands)]
        letters, orders = _letters(dims), [self._order(operand) for operand in found.operands]
        subscripts = ["".join(letters[dim] for dim in order) for order in orders]
        arrays = [self._array(operand, order) for operand, order in zip(found.operands, orders, strict=True)]
        how = ", optimize=True" if found.by_matrices else ""
        return f'np.einsum("{",".join(subscripts)}->{"".join(letters[dim] for dim in out)}", {", ".join(arrays)}{how})'

    def _order(self, operand: Operand) -> list[Span]:
        """The dimensions of an operand as its axes: as they stand in an array, short ones in front in what is made."""
        lanes = self.frame.lanes
        loads = sorted(operand.loads(), key=lambda load: -len(self.values.varies(load)))
        own = [lanes.dim(axis) for load in loads for form in load.index for axis in lanes.axes_in(form)]
        if operand.is_wide and operand.is_made:
            own = []  # sums stand in front: the last axis of a block must not be short
        dims = list(dict.fromkeys([*own, *(dim for dim in lanes.dims if dim in operand.dims)]))
        return sorted(dims, key=lambda dim: not _is_short(dim)) if operand.is_made else dims

    def _array(self, operand: Operand, order: Sequence[Span]) -> str:
        """The text of an operand with these axes."""
        with self.values.inside(self.frame._replace(lanes=Lanes(tuple(order), self.frame.lanes.images))):
            return self.values.scalar(product_of(operand.factors))


def product_of(factors: Sequence[Scalar]) -> Scalar:
    """The product of factors."""
    if not factors:
        return Number(1)
    return factors[0] if len(factors) == 1 else Operation("mul", tuple(factors))


def _is_short(dim: Span) -> bool:
    return dim.length.is_constant and dim.length.constant <= SHORT


def _letters(dims: Sequence[Span]) -> dict[Span, str]:
    """A letter for each dimension, its own where it has one."""
    others = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    found: dict[Span, str] = {}
    own = {dim: dim.axis for dim in dims if len(dim.axis) == 1}
    for dim in dims:
        taken = {*found.values(), *own.values()}
        letter = own.get(dim)
        if letter is None or letter in found.values():
            letter = next(other for other in others if other not in taken)
        found[dim] = letter
    return found


# ---------------------------------------------------------------------------- windows of vectors
# Products with windows of a vector, ``sum_k x[i + k]*w[k]``, by NumPy's ``correlate`` and ``convolve``.


class Window(NamedTuple):
    """The part of a vector that windows run along, which of the two functions, and whether the result is turned."""

    text: str
    function: str
    is_turned: bool


def find_window(factor: Scalar, weights: frozenset[Span], out: Sequence[Span], values: VectorPrinter) -> Window | None:
    """The windows that ``factor`` reads along one summed and one other index; None for any other factor."""
    if not isinstance(factor, Load) or len(factor.index) != 1 or len(weights) != 1 or len(out) != 1:
        return None
    (summed,), (kept,) = weights, out
    form = values.lanes.image(factor.index[0])
    if values.lanes.dims_of(form) != {summed, kept} or not all(rise(form, span) in (1, -1) for span in (summed, kept)):
        return None
    first = form
    for span in (summed, kept):
        last = span.low + span.step * (span.length - 1)
        first = first.substitute({span.axis: span.low if rise(form, span) == 1 else last})
    stop = first + kept.length + summed.length - 1
    name, extent = values.names(factor.array), values.shapes[factor.array][0]
    text = name if first == Affine.of(0) and stop == extent else f"{name}[{values.form(first)}:{values.form(stop)}]"
    function = "np.correlate" if rise(form, summed) == 1 else "np.convolve"
    return Window(text, function, rise(form, kept) == -1)
