"""Sums of products of arrays: the factors are grouped into two arrays, whose product ``einsum`` sums.

No array has an axis for each index of the sum and of the result, unless a factor has. A read along several indices at
once is a view. Computed factors, and windows that a matrix product has to copy, may have more entries than the
arguments: such sums are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product as combinations
from math import prod
from string import ascii_letters
from typing import NamedTuple

from sympy_tensordiff.codegen.emit.array_lanes import SHORT_LENGTH, Lanes, Span, sort_conditions
from sympy_tensordiff.codegen.emit.array_scalars import PrintingContext, slope_along
from sympy_tensordiff.codegen.emit.array_sums import WINDOW_BLOCK_FACTOR, Additions, calls_user_function, reduce_copies
from sympy_tensordiff.codegen.emit.forms import PRODUCT, TextBlock
from sympy_tensordiff.codegen.ir.facts import condition_of, loop_rows
from sympy_tensordiff.codegen.ir.loops import Loop, Set
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import bounds, subexpressions
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.rows import shape_rows

_ASSUMED_LENGTH = 64
"""The assumed length of an axis whose length is unknown, when arrangements are compared."""

_MAX_FACTORS = 8
"""The most factors of a sum for which arrangements are compared."""


def print_product(loop: Loop, frame: PrintingContext, additions: Additions) -> bool:
    """Print ``loop``, which only adds up products, ``s += a[k]*b[k]``, as one ``einsum`` call in ``frame``, and return
    True. Print nothing and return False for other loops.

    ``additions`` adds the value of the call to ``s``.

    Also for products that would need an array with an axis for each index.
    """
    lanes, nest, add = frame.lanes, [loop], loop.body[0]
    while isinstance(add, Loop) and len(nest[-1].body) == 1:
        nest.append(add)
        add = add.body[0]
    forms = [bound.form for inner in nest for bound in bounds(inner)]
    is_tied = any(lanes.dims_of(form) or form.atoms() & {inner.variable for inner in nest} for form in forms)
    addition = additions.single_addition(nest[-1].body, frame)
    if addition is None or addition.reduction != "sum" or is_tied:
        return False
    lines, spans = TextBlock(), list[Span]()
    inner = frame._replace(block=lines)
    for own in nest:
        span, inner = additions.narrowing.span(inner, own)
        spans.append(span)
    found = _SumOfProducts(
        inner._replace(lanes=lanes.with_outer(*spans), block=TextBlock()), addition, additions
    ).arranged()
    if found is None or (additions.values.dialect.is_fused and not found.pays_in_fused_sums):
        return False
    wide = [operand for operand in found.operands if operand.is_wide and (operand.is_computed or found.by_matrices)]
    widest = max(wide, key=lambda operand: _entries(operand.dims), default=None)
    cut = next((n for n, span in enumerate(spans) if widest is not None and span in widest.dims), None)
    if widest is not None and cut is not None:
        others = [dim for dim in (*lanes.dims, *spans) if dim in widest.dims and dim is not spans[cut]]
        spans[cut], inner = additions.narrowing.blocks(
            inner, spans[cut], others, 1 if widest.is_computed else WINDOW_BLOCK_FACTOR
        )
    _SumOfProducts(inner._replace(lanes=lanes.with_outer(*spans)), addition, additions).print()
    frame.block.slot(lines)
    return True


def print_split_product(add: Set, frame: PrintingContext, additions: Additions) -> bool:
    """Print ``add``, a statement such as ``s += a*b`` in a loop, as one ``einsum`` call in ``frame``, and return True.
    Print nothing and return False if that is impossible.

    It is impossible if the factors do not vary along different dimensions, or if the library has no compiler that fuses
    sums with their terms.

    A mask stays with the factors that vary along its dimensions only. So does a condition within the product if the
    other factors are polynomials of arguments, which have no poles.
    """
    if not additions.values.dialect.is_differentiated or add.reduction != "sum" or calls_user_function(add.value):
        return False
    with additions.values.inside(frame._replace(block=TextBlock())):
        is_negative, factors = factors_of(add.value)
        is_negative, factors = _split_masked_products(is_negative, factors, additions)
        if not additions.applies_to_all_lanes(add.name, frame):
            assert frame.mask is not None
            dims = additions.values.varies(frame.mask)
            inside = [factor for factor in factors if additions.values.varies(factor) <= dims]
            masked = Operation("select", (frame.mask, product_of(inside), Number(0)))
            factors = [masked, *(factor for factor in factors if factor not in inside)]
    value = product_of(factors)
    add = replace(add, value=Operation("neg", (value,)) if is_negative else value)
    found = _SumOfProducts(frame, add, additions)
    arrangement = found.by_dimensions() if found.summed_dims else None
    if arrangement is None:
        return False
    found.print(arrangement)
    return True


def _split_masked_products(
    is_negative: bool, factors: Sequence[Scalar], additions: Additions
) -> tuple[bool, list[Scalar]]:
    """Take factors out of conditions in a product: ``a*b if c else 0`` becomes the two factors ``a if c else 0`` and
    ``b`` if ``b`` is a polynomial that varies along a dimension along which ``c`` is constant. Return the sign and the
    new factors, ``(is_negative, factors)``.
    """
    found = list[Scalar]()
    for factor in factors:
        is_choice = isinstance(factor, Operation) and factor.function == "select" and factor.arguments[2] == Number(0)
        if not isinstance(factor, Operation) or not is_choice:
            found.append(factor)
            continue
        condition, value, _ = factor.arguments
        sign, parts = factors_of(value)
        dims = additions.values.varies(condition)
        outside = [part for part in parts if not additions.values.varies(part) <= dims]
        if not outside or not all(map(additions.is_polynomial, outside)):
            found.append(factor)
            continue
        inside = product_of([part for part in parts if part not in outside])
        found += [Operation("select", (condition, inside, Number(0))), *outside]
        is_negative ^= sign
    return is_negative, found


def factors_of(value: Scalar) -> tuple[bool, list[Scalar]]:
    """Return ``(is_negative, factors)`` for a product: (True, [a, b]) for ``-a*b``."""
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


def product_of(factors: Sequence[Scalar]) -> Scalar:
    """Return the product of `factors` as one expression; 1 for none."""
    if not factors:
        return Number(1)
    return factors[0] if len(factors) == 1 else Operation("mul", tuple(factors))


class FactorGroup(NamedTuple):
    """Factors that are multiplied first, as one operand of a summed product. ``dims`` are the dimensions along which
    the operand varies.

    ``is_computed``: an array is computed for it. ``is_wide``: it has more entries than the arrays it is computed from.
    """

    factors: tuple[Scalar, ...]
    dims: frozenset[Span]
    is_computed: bool
    is_wide: bool


class Arrangement(NamedTuple):
    """A grouping of the factors of a summed product into operands, such as ``(a*b) @ c``, and whether these are
    multiplied as matrices.
    """

    operands: tuple[FactorGroup, ...]
    by_matrices: bool

    @property
    def pays_in_fused_sums(self) -> bool:
        """Return whether one ``einsum`` call is faster than a product and a sum, if the library's compiler can fuse
        these two; a matrix product always is.

        Others are not if a computed operand has more entries than the arrays it is computed from, or if all operands
        vary along the same dimensions and one is computed.
        """
        is_wide = any(operand.is_computed and operand.is_wide for operand in self.operands)
        is_one = any(operand.is_computed for operand in self.operands) and len({o.dims for o in self.operands}) == 1
        return self.by_matrices or not (is_wide or is_one)

    def work(self) -> float:
        """The estimated work to compute those operands that are products: twice the number of entries times the number
        of factors, summed over these operands.

        It is 1 less with a matrix product, so that this is preferred to an equal alternative.
        """
        made = (operand for operand in self.operands if operand.is_computed)
        return sum(2 * len(operand.factors) * _entries(operand.dims) for operand in made) - self.by_matrices


class _SumOfProducts:
    """Prints a sum of products that is to be added to an accumulator, and chooses the array operations for it, such as
    an ``einsum``.
    """

    def __init__(self, frame: PrintingContext, add: Set, additions: Additions) -> None:
        self.frame = frame
        self.add = add
        self.additions = additions
        self.values = additions.values
        self.summed_dims = additions.summed_dims(add.name, frame.lanes)
        self.is_negative, self.factors = factors_of(add.value)

    def arranged(self) -> Arrangement | None:
        """Return the `Arrangement` of the factors of a product into operands of one array operation, such as
        ``einsum``, that takes the fewest operations.

        Return None if no factor is an array, if there are too many, or if an ordinary sum is as good.

        It has one or two operands, or more if the library's compiler fuses sums.
        """
        with self.values.inside(self.frame):
            varying = [factor for factor in self.factors if self.values.varies(factor)]
            if not varying or len(varying) > _MAX_FACTORS:
                return None
            if self.values.dialect.is_fused and (several := self.by_dimensions(3)) is not None:
                return several
            found = []
            for sides in combinations((False, True), repeat=len(varying) - 1):
                pairs = list(zip((False, *sides), varying, strict=True))
                groups = [[factor for side, factor in pairs if side == own] for own in (False, True)]
                operands = tuple(self._operand(group) for group in groups if group)
                dims = [operand.dims for operand in operands]
                inner = frozenset(self.summed_dims)
                by_matrices = len(dims) == 2 and bool(
                    dims[0] & dims[1] & inner and dims[0] - dims[1] - inner and dims[1] - dims[0] - inner
                )
                found.append(Arrangement(operands, by_matrices))
        best = min(found, key=Arrangement.work)
        return None if len(best.operands) == 1 and best.operands[0].is_computed else best

    def by_dimensions(self, fewest: int = 2) -> Arrangement | None:
        """Return the `Arrangement` for one ``einsum`` in which all factors that vary along the same dimensions form one
        operand. None if it has fewer than `fewest` operands, or if an operand would be a large temporary.

        The library chooses the order of the products.

        A temporary is large if it is larger than what it is computed from, and than the other operands.
        """
        groups: dict[frozenset[Span], list[Scalar]] = {}
        with self.values.inside(self.frame._replace(block=TextBlock())):
            for factor in self.factors:
                if varies := self.values.varies(factor):
                    groups.setdefault(varies, []).append(factor)
            operands = tuple(map(self._operand, groups.values()))
        has_wide = any(
            operand.is_computed
            and operand.is_wide
            and not any(_entries(operand.dims) < _entries(other.dims) for other in operands if not other.is_wide)
            for operand in operands
        )
        return Arrangement(operands, True) if len(operands) >= fewest and not has_wide else None

    def _operand(self, factors: Sequence[Scalar]) -> FactorGroup:
        """Return `factors` as a `FactorGroup`, one operand of an array product: with the dimensions along which their
        product varies, and whether an array must be computed for it.
        """
        dims = frozenset[Span]().union(*map(self.values.varies, factors))
        parts = [part for factor in factors for part in subexpressions(factor)]
        ranks = [len(part.index) for part in parts if isinstance(part, Load)]
        ranks += [len(self.values.varies(part)) for part in parts if isinstance(part, Name)]
        first = factors[0]
        is_read = isinstance(first, Name) or (isinstance(first, Load) and self.values.is_view(first))
        return FactorGroup(tuple(factors), dims, len(factors) > 1 or not is_read, max(ranks, default=0) < len(dims))

    def print(self, found: Arrangement | None = None) -> None:
        """Append the line of Python that adds the sum of products to its accumulator. ``found`` is the arrangement of
        the factors into operands to use; None means the best one.
        """
        found = found or self.arranged()
        assert found is not None
        with self.values.inside(self.frame):
            if len(found.operands) == 1:
                self.additions.add(self.add.name, self.add.value, "sum", self.frame)
                return
            dims = self.frame.lanes.dims
            varies = frozenset[Span]().union(*(operand.dims for operand in found.operands))
            out = [dim for dim in dims if dim in varies and dim not in self.summed_dims]
            is_pair = len(found.operands) == 2
            text = (self._correlation(found.operands, out) if is_pair else None) or self._row_sums(found, out)
            text = text or self._einsum(found, out)
            behind = dims[dims.index(out[0]) :] if out else ()
            if len(behind) > len(out):
                text += f"[{', '.join(':' if dim in out else 'None' for dim in behind)}]"
            text = reduce_copies(
                text, [self.values.form(dim.length) for dim in self.summed_dims if dim not in varies], "sum"
            )
            scalars = [factor for factor in self.factors if not self.values.varies(factor)]
            if scalars:
                text = f"{self.values.scalar(product_of(scalars), PRODUCT)}*{text}"
            text = ("-" if self.is_negative else "") + text
            self.additions.update(self.add.name, text, "sum", self.frame, frozenset(out))

    def _row_sums(self, found: Arrangement, out: Sequence[Span]) -> str | None:
        """Return the sum of products as text of the form ``(a*b).sum(axis=-1)``, if its operands all vary along the
        same dimensions and the library's ``einsum`` would be slower; else None.
        """
        dims = found.operands[0].dims
        is_batch = not self.values.dialect.sums_rows_by_products and all(
            operand.dims == dims and not operand.is_wide for operand in found.operands
        )
        summed = [dim for dim in self.frame.lanes.dims if dim in dims and dim not in out]
        if not is_batch or not out or all(dim.is_short for dim in summed):
            return None
        order = [*(dim for dim in self.frame.lanes.dims if dim in out), *summed]
        with self.values.inside(self.frame._replace(lanes=Lanes(tuple(order), self.frame.lanes.images))):
            text = self.values.scalar(product_of([factor for one in found.operands for factor in one.factors]))
        return f"({text}).sum(axis={tuple(range(-len(summed), 0))})"

    def _einsum(self, found: Arrangement, out: Sequence[Span]) -> str:
        """Return the text of the call of ``np.einsum`` for the operands of the arrangement ``found``. The result has
        the dimensions ``out``.
        """
        dims = [dim for dim in self.frame.lanes.dims if any(dim in operand.dims for operand in found.operands)]
        letters = {dim: dim.axis for dim in dims if len(dim.axis) == 1}
        others = (letter for letter in ascii_letters if letter not in letters.values())
        letters |= {dim: next(others) for dim in dims if dim not in letters}
        orders = [self._order(operand) for operand in found.operands]
        subscripts = ["".join(letters[dim] for dim in order) for order in orders]
        arrays = [self._array(operand, order) for operand, order in zip(found.operands, orders, strict=True)]
        how = self.values.dialect.optimize if found.by_matrices else ""
        return f'np.einsum("{",".join(subscripts)}->{"".join(letters[dim] for dim in out)}", {", ".join(arrays)}{how})'

    def _order(self, operand: FactorGroup) -> list[Span]:
        """Return the dimensions of an operand of a product in the order of its axes: the order in memory if it reads an
        array, or short axes first if it is computed.
        """
        # In a wide one, summed dimensions come first: the last axis of a block must not be short.
        factors = [] if operand.is_wide and operand.is_computed else operand.factors
        dims = self.additions.memory_order(factors, operand.dims)
        return sorted(dims, key=lambda dim: operand.is_computed and not dim.is_short)

    def _array(self, operand: FactorGroup, order: Sequence[Span]) -> str:
        """Return the array expression for the product of the factors in ``operand``, as an array with the axes
        ``order``.
        """
        with self.values.inside(self.frame._replace(lanes=Lanes(tuple(order), self.frame.lanes.images))):
            return self.values.scalar(product_of(operand.factors))

    def _correlation(self, operands: Sequence[FactorGroup], out: Sequence[Span]) -> str | None:
        """Return the text of a call of ``np.correlate`` or ``np.convolve``, if the product of `operands`, summed over
        all dimensions but ``out``, is of the form ``sum_k x[i + k]*w[k]``; None for other products.
        """
        for window, weights in (operands, operands[::-1]):
            load = window.factors[0]
            if (
                window.is_computed
                or not isinstance(load, Load)
                or not len(load.index) == len(weights.dims) == len(out) == 1
            ):
                continue
            (along,), (output_span,) = weights.dims, out
            form = self.values.lanes.image(load.index[0])
            if self.values.lanes.dims_of(form) != {along, output_span}:
                continue
            rises = slope_along(form, along), slope_along(form, output_span)
            if not {*rises} <= {1, -1}:
                continue
            first = form
            for span, each in zip((along, output_span), rises, strict=True):
                first = first.substitute({span.axis: span.low if each == 1 else span.stop - 1})
            stop, array = first + output_span.length + along.length - 1, self.values.names(load.array)
            is_whole = first == Affine.of(0) and stop == self.values.shapes[load.array][0]
            part = array if is_whole else f"{array}[{self.values.form(first)}:{self.values.form(stop)}]"
            dialect = self.values.dialect
            function = dialect.correlation + ("correlate" if rises[0] == 1 else "convolve")
            vector = self._array(weights, [along])
            return f'{function}({part}, {vector}, "valid"){dialect.reverse if rises[1] == -1 else ""}'
        return None


def _entries(dims: Iterable[Span]) -> float:
    """Return the approximate number of entries of an array with the dimensions ``dims``."""
    lengths = [dim.length for dim in dims]
    return float(prod(n.constant if n.is_constant else _ASSUMED_LENGTH for n in lengths))


# ---------------------------------------------------------------------------- sums over the widest range
# Loops whose ranges depend on the entry, as operations on all entries.
#
# Either each value touches few adjacent entries, or the sum runs over the widest range, with zeros:
# ``sum_{j <= i} a[i, j]*x[j]`` is the sum over all ``j`` of ``x[j]`` times ``a[i, j]``, with the other entries of ``a``
# replaced by zeros. Infinity times such a zero is not zero: the other factor has to be finite, which is tested in each
# call. Windows that partly overlap a vector need no zeros.


_MAX_WINDOW_RATIO = 4
"""The most positions of a window for which a sum is computed, as a multiple of those that are needed."""


def find_offsets(loop: Loop, lanes: Lanes) -> tuple[Span, Affine, int] | None:
    """Return ``(dimension, first, count)`` if iteration ``i`` of `loop` changes only a few neighbouring entries of the
    result: along ``dimension``, the ``count`` entries from index ``first`` on. For the entries ``2*i`` and ``2*i + 1``,
    ``first`` is ``2*i`` and ``count`` is 2.

    None if ``count`` is not a small constant, or ``first`` is the same for all i.
    """
    found = sort_conditions(lanes, lanes.varying_rows(loop_rows(loop)))
    if found.mask or found.scalar or len(found.spans) != 1:
        return None
    ((axis, wanted),) = found.spans.items()
    span = lanes.dim(axis)
    for first in wanted.lows:
        for stop in wanted.stops:
            length = stop - first
            moves = first.coefficient(loop.variable) and loop.variable not in first.hidden()
            if moves and length.is_constant and 0 < length.constant <= SHORT_LENGTH:
                return span, first, length.constant
    return None


def over_widest_range(
    loop: Loop, wide: Loop, frame: PrintingContext, additions: Additions
) -> tuple[Loop, list[str]] | None:
    """Return ``(sum, tests)``: the sum `loop`, whose range depends on the result entry (``j <= i``), as a sum over the
    range of `wide`, which is the same for all entries, where terms outside of an entry's own range are 0. Return None
    if the body is not a single suitable addition.

    The tests check that the factors are finite.

    The tests are texts; they are needed since ``0*inf`` is nan.
    """
    add = additions.single_addition(loop.body, frame)
    if add is None or add.reduction != "sum" or calls_user_function(add.value):
        return None
    lanes, values = frame.lanes, additions.values
    span, inner = additions.narrowing.span(frame._replace(block=TextBlock()), wide)
    inner = inner._replace(lanes=lanes.with_outer(span), context=frame.context + loop_rows(wide))
    rows = lanes.varying_rows(loop_rows(loop))
    if additions.reads_outside(add.value, inner) or data_entries(row.form for row in rows):
        return None
    if len({row.form.coefficient(wide.variable) > 0 for row in rows}) != 1:
        return None  # between two bounds there may be few values
    is_negative, factors = factors_of(add.value)
    numbers = [f for f in factors if isinstance(f, Number)]
    factors = [f for f in factors if not isinstance(f, Number)]
    tied = inner.lanes.dims_of(*(row.form for row in rows))
    with values.inside(inner):
        inside = [f for f in factors if values.varies(f) <= tied]
    others = [f for f in factors if f not in inside]
    masked = Operation("select", (condition_of(rows), product_of(inside), Number(0)))
    if len(others) > 1 or not all(isinstance(f, Load | Name) for f in others):
        return None
    value = product_of([*numbers, masked, *others])
    value = Operation("neg", (value,)) if is_negative else value
    factor_names = [f.array if isinstance(f, Load) else f.name for f in others if isinstance(f, Load | Name)]
    conditions = [f"np.isfinite({values.names(f)}).all()" for f in factor_names]
    return replace(wide, body=(replace(add, value=value),)), conditions


def print_window(loop: Loop, wide: Loop, frame: PrintingContext, additions: Additions) -> bool:
    """Print a windowed sum such as ``sum_k w[k]*x[p - k]``, whose range is limited by the ends of x, as one library
    call. Return False, and print nothing, for other loops.

    ``wide`` is `loop` with one range that contains those at all entries. The text goes to ``frame``; ``additions``
    prints the sum.

    NumPy's ``convolve`` and ``correlate`` compute the sums at all positions of a window that overlaps a vector partly.
    """
    add, lanes, values = additions.single_addition(loop.body, frame), frame.lanes, additions.values
    if add is None or add.reduction != "sum" or calls_user_function(add.value) or len(lanes.dims) != 1:
        return False
    lines, (output_span,) = TextBlock(), lanes.dims
    span, inner = additions.narrowing.span(frame._replace(block=lines), wide)
    inner = inner._replace(lanes=lanes.with_outer(span), context=frame.context + loop_rows(wide))
    loads = [load for load in additions.reads_outside(add.value, inner) if len(load.index) == 1]
    is_negative, factors = factors_of(add.value)
    if len(loads) != 1 or factors.count(loads[0]) != 1:
        return False
    form, shape = inner.lanes.image(loads[0].index[0]), values.shapes[loads[0].array]
    factors.remove(loads[0])
    rises = slope_along(form, span), slope_along(form, output_span)
    if not {*rises} <= {1, -1}:
        return False
    with values.inside(inner):
        weights = [factor for factor in factors if values.varies(factor)]
        scalars = [values.scalar(factor, PRODUCT) for factor in factors if factor not in weights]
        if any(values.varies(factor) != {span} for factor in weights):
            return False
    first = form.substitute(
        {span.axis: span.low, output_span.axis: output_span.low if rises[1] == 1 else output_span.stop - 1}
    )
    first += span.length - 1 if rises[0] == 1 else 0
    stop, whole = first + output_span.length, shape[0] + span.length - 1
    wanted = [
        Constraint("ge", form)
        for form in (first, whole - stop, shape[0] - 1, _MAX_WINDOW_RATIO * output_span.length - whole)
    ]
    is_inside = (*inner.context, *shape_rows(loads[0].index, shape))
    known = all(values.prover.proves(row, is_inside) for row in lanes.varying_rows(loop_rows(loop)))
    if not known or not all(values.prover.proves(row, inner.context) for row in wanted):
        return False
    array = values.names(loads[0].array)
    vector = f"np.ones({values.form(span.length)}, {array}.dtype)"
    if values.dialect.is_pure:
        vector = f"np.broadcast_to(real(1), ({values.form(span.length)},))"
    if weights:
        with values.inside(inner._replace(lanes=Lanes((span,), lanes.images))):
            vector = values.scalar(product_of(weights))
    calls = '{}correlate({}, {}, "full")', "{}convolve({}, {})"
    text = calls[rises[0] == -1].format(values.dialect.correlation, array, vector)
    if first != Affine.of(0) or stop != whole:
        text += f"[{values.form(first)}:{values.form(stop)}]"
    text = "*".join([*scalars, text + values.dialect.reverse * (rises[1] == -1)])
    additions.update(add.name, "-" * is_negative + text, "sum", inner._replace(lanes=lanes), frozenset(lanes.dims))
    frame.block.slot(lines)
    return True
