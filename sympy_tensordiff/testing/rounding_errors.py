"""The operations of a formula with an unknown for the rounding error of each, for `error_bounds`.

`Perturbation` rewrites a formula so that each operation ``v`` becomes ``v + e`` with an unknown ``e``, and notes by how
much it may be rounded; `Restriction` puts 0 for the unknowns. In the steps of a recurrence, an operation has an unknown
for each time, which is a sequence of the recurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import sympy
from sympy import Expr
from sympy.core.function import AppliedUndef

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.functions.table import ELEMENTARY_ERROR, SPECIAL_ERROR, record_of
from sympy_tensordiff.symbolic.expressions.traversal import Recursion, Rewriting, Rules, names_in, with_args
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorExpr, TensorSymbol
from sympy_tensordiff.symbolic.recurrences.scans import Scan, ScanVariable, State, fresh_name
from sympy_tensordiff.symbolic.whole_tensors.einsum import FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of


def magnified(weight: Any, slope: Any, size: Any, is_symbolic: bool) -> Any:
    """Return ``weight*abs(slope)*size``, a bound of the error in a result that comes from a value with a rounding error
    of at most ``weight*size``. ``slope`` is the derivative of the result with respect to this value.

    Unless ``is_symbolic``, it is 0 where the slope is 0, even if ``size`` is infinite there.
    """
    value = weight * sympy.Abs(slope) * size
    if is_symbolic or slope.is_number:
        return value
    return sympy.Piecewise((value, sympy.Ne(slope, 0)), (0, True), evaluate=False)


@dataclass(frozen=True)
class RoundedOperation:
    """An operation in a formula, with a symbol for the unknown rounding error of its result.

    The error of `part` is at most ``weight*u*size``. `unknown` has an axis for each of `limits`, the bound indices in
    `part`, outer ones first; `offsets` are the smallest values of the indices.
    """

    part: Expr
    unknown: Any
    weight: Any
    size: Any
    limits: tuple[IndexRange, ...]
    offsets: tuple[Any, ...]

    def bound(self, slope: Any, is_symbolic: bool) -> Any:
        """Return a bound of the effect of this rounding error on a result, whose derivative with respect to the error
        is ``slope``. The effects in all iterations of enclosing sums are added.

        With ``is_symbolic``, the bound is a formula in which no values will be substituted.
        """
        if not self.limits:
            return magnified(self.weight, slope, self.size, is_symbolic)
        places = [limit[0] - offset for limit, offset in zip(self.limits, self.offsets, strict=True)]
        entry = magnified(self.weight, slope[tuple(places)].doit(), self.size, is_symbolic)
        return IndexedSum(entry, *reversed(self.limits)) if entry != 0 else entry


class Perturbation(Rewriting):
    """A traversal that adds a symbol for the unknown rounding error to each rounded operation of a formula, and records
    a bound of each error as a `RoundedOperation`. Its methods get the ranges of the enclosing indices, outermost first.
    """

    def __init__(self, body: Expr, indices: Sequence[Any]) -> None:
        super().__init__()
        self.indices = indices
        self.operations: list[RoundedOperation] = []
        self.names = names_in([body])
        self.unknowns: dict[tuple[Any, tuple[IndexRange, ...]], Any] = {}
        self.scan: Any = None
        """The recurrence whose steps are visited."""
        self.rows: dict[Any, Any] = {}
        """The variables in its steps for the rows of unknowns."""
        self.scans: dict[Any, Any] = {}

    # ------------------------------------------------------------ nodes

    def visit(self, expr: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return `expr` with a symbol for the rounding error added to each rounded operation in it. Arguments of the
        formula, integers and exact numbers are returned unchanged.
        """
        if isinstance(expr, TensorSymbol):
            return expr
        if isinstance(expr, Expr) and not isinstance(expr, TensorExpr) and self.is_exact(expr):
            return expr
        if isinstance(expr, Expr) and expr.is_number:
            weight = 1 if expr.is_Rational or expr.is_Float or expr.is_NumberSymbol else SPECIAL_ERROR
            return self.rounded(expr, expr, weight, sympy.Abs(expr), ())
        return (yield super().visit(expr, outer_ranges))

    def is_exact(self, expr: Any) -> bool:
        """Return whether `expr` has no rounding error of its own: it is an argument of the formula, an integer, or a
        number that floats store exactly.
        """
        if isinstance(expr, sympy.Symbol) or (isinstance(expr, TensorEntry) and expr.tensor.is_symbol):
            return True
        if expr.is_Rational or expr.is_Float:
            return _is_dyadic(expr)
        return bool(expr.is_integer) and not expr.atoms(sympy.Function)

    def addition(self, expr: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return an addition plus a symbol for its unknown rounding error. For three or more terms its bound contains
        the absolute values of all terms, because partial sums may be larger than the result.
        """
        args = yield self.all(expr.args, outer_ranges)
        roundings = len(expr.args) - 1
        size = sympy.Abs(expr) if roundings == 1 else sympy.Add(*map(sympy.Abs, expr.args))
        return self.rounded(expr, sympy.Add(*args), roundings, size, outer_ranges)

    def product(self, expr: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return the product ``expr``, with rewritten factors, plus a symbol for its rounding error; no symbol if all
        factors but one are powers of 2.
        """
        args = yield self.all(expr.args, outer_ranges)
        exact = [arg for arg in expr.args if _is_power_of_two(arg)]
        return self.rounded(
            expr, sympy.Mul(*args), max(len(expr.args) - len(exact) - 1, 0), sympy.Abs(expr), outer_ranges
        )

    def power(self, expr: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return the power ``expr``, with rewritten base and exponent, plus a symbol for its rounding error. The bound
        of the error is that of repeated products or roots, or of the function `pow`.
        """
        base, exponent = yield self.all(expr.args, outer_ranges)
        own = expr.exp
        if own.is_Integer or (own.is_Rational and own.q == 2 and abs(own) < 16):
            weight: Any = abs(int(own.p)) - int(own.q == 1) + int(own.p < 0)
        else:
            weight = ELEMENTARY_ERROR
            if own.is_number and not _is_dyadic(own):
                weight += sympy.Abs(own * sympy.log(sympy.Abs(expr.base)))
        return self.rounded(expr, base**exponent, weight, sympy.Abs(expr), outer_ranges)

    def function(self, expr: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return the function call ``expr``, with rewritten arguments, plus a symbol for the rounding error of its
        value.
        """
        if isinstance(expr, AppliedUndef):
            raise UnsupportedError(f"error_bound: {expr.func} has only a name, and no bound of its error is known")
        args = yield self.all(expr.args, outer_ranges)
        return self.rounded(expr, expr.func(*args), record_of(expr.func).error, sympy.Abs(expr), outer_ranges)

    def choice(self, expr: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return the `Piecewise` ``expr`` with a symbol for the rounding error in each rounded operation of its values;
        its conditions are unchanged.
        """
        values = yield self.all([pair.args[0] for pair in expr.args], outer_ranges)
        pairs = [(value, pair.args[1]) for value, pair in zip(values, expr.args, strict=True)]
        return sympy.Piecewise(*pairs, evaluate=False)

    def reduction(self, expr: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return a sum or product, with its body rewritten, plus a symbol for its unknown rounding error; ``n`` terms
        need ``n - 1`` rounded operations. For a maximum or minimum, only the body is rewritten.
        """
        expr = self.with_new_indices(expr, outer_ranges)
        inner = (*outer_ranges, *expr.ranges())
        body = yield self.visit(expr.body, inner)
        new = with_args(expr, (body, *expr.args[1:]))
        if isinstance(expr, (IndexedMax, IndexedMin)):
            return new
        is_product = isinstance(expr, IndexedProduct)
        size = sympy.Abs(expr) if is_product else IndexedSum(sympy.Abs(expr.body), *expr.limits)
        return self.rounded(expr, new, _count(expr) - 1, size, outer_ranges)

    def entry(self, expr: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return the tensor entry ``expr`` with symbols for the rounding errors in the formula of the tensor; its
        indices are unchanged.
        """
        if isinstance(expr.tensor, Scan):
            return (yield from self.of_scan(expr, outer_ranges))
        if not isinstance(expr.tensor, TensorComprehension):
            raise UnsupportedError(f"error_bound: the errors of {expr.tensor} depend on how it is computed")
        tensor = self.with_new_indices(expr.tensor, outer_ranges)
        body = yield self.visit(tensor.body, (*outer_ranges, *tensor.ranges()))
        return TensorEntry(TensorComprehension(body, *tensor.limits), *expr.args[1:])

    def recurrence(self, expr: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return the recurrence (scan) ``expr`` with a symbol added for each rounding error in its steps, initial
        values and sequences. Raise `UnsupportedError` if it is inside another recurrence or depends on the indices
        bound in ``outer_ranges``.
        """
        if expr in self.scans:
            return self.scans[expr]
        if self.scan is not None or not expr.free_symbols.isdisjoint(limit[0] for limit in outer_ranges):
            raise UnsupportedError(f"error_bound: the recurrence {expr} depends on indices or steps around it")
        outer = []
        for part in expr.outer:
            outer.append((yield from self.whole(part, ())))
        self.scan, self.rows = expr, {}
        time = IndexRange(expr.time, sympy.S.Zero, expr.length - 1)
        steps = []
        for part in expr.steps:
            steps.append((yield from self.whole(part, (time,))))
        value, *updates = steps
        self.scan = None
        states = [State(s.variable, initial, new) for s, initial, new in zip(expr.states, outer, updates, strict=False)]
        known = zip((variable for variable, _ in expr.sequences), outer[len(states) :], strict=True)
        rows = [*known, *((row, unknown) for unknown, row in self.rows.items())]
        self.scans[expr] = Scan(expr.kind, value, states, rows, expr.time, expr.length, expr.reverse)
        return self.scans[expr]

    def whole(self, part: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return ``part``, a scalar or whole tensor in a step of a recurrence, in index notation with symbols for the
        rounding errors in its entries.
        """
        if part in getattr(self.scan, "bound", ()) or getattr(part, "is_symbol", False):
            return part
        written = part.rewrite(IndexedSum)
        if not shape_of(part):
            return (yield self.visit(written, outer_ranges))
        if isinstance(written, Scan):
            return (yield self.visit(written, outer_ranges))
        if not isinstance(written, TensorComprehension):
            written = table_of(written)
        written = self.with_new_indices(written, outer_ranges)
        body = yield self.visit(written.body, (*outer_ranges, *written.ranges()))
        return TensorComprehension(body, *written.limits)

    def of_scan(self, expr: Any, outer_ranges: Any) -> Recursion[Any]:
        """Return ``expr``, an entry of a recurrence, with symbols for the recurrence's rounding errors; the indices of
        the entry are unchanged.
        """
        tensor = yield self.visit(expr.tensor, ())
        return TensorEntry(tensor, *expr.indices)

    def at_times(self, size: Any, limits: Sequence[IndexRange], offsets: Sequence[Any]) -> Any:
        """Return ``size``, the size of a rounding error in a step of a recurrence, in a form that is valid outside of
        the recurrence: as the entry, at the current time and indices, of a new tensor with the sizes of all steps.

        The tensor has an axis for the time and for each bound index. ``limits`` are the ranges of the time and the
        indices, ``offsets`` their first values.
        """
        (_, *inner), (_, *lows) = limits, offsets
        if any(symbol in end.free_symbols for symbol, _, _ in inner for _, *ends in inner for end in ends):
            raise UnsupportedError(f"error_bound: the ranges in the steps of {self.scan} depend on each other")
        moved = {k: k + low for (k, *_), low in zip(inner, lows, strict=True) if low != 0}
        axes = [(k, high - low + 1) for k, low, high in inner]
        row = TensorComprehension(size.subs(moved), *axes) if axes else size
        places = [k - low for (k, *_), low in zip(inner, lows, strict=True)]
        return TensorEntry(self.scan.result("stack", row), limits[0][0], *places)

    def with_new_indices(self, binder: Any, outer_ranges: tuple[IndexRange, ...]) -> Any:
        """Return `binder`, a sum or comprehension, with new names for those of its indices that occur in
        ``outer_ranges``.
        """
        around = {*self.indices, *(limit[0] for limit in outer_ranges)}
        renamed = {}
        for index in around.intersection(binder.variables):
            name = next(name for n in count(1) if (name := f"{index.name}_{n}") not in self.names)
            self.names.add(name)
            renamed[index] = sympy.Symbol(name, integer=True)
        return binder.xreplace(renamed) if renamed else binder

    def other(self, expr: Any, outer_ranges: Any) -> Any:
        """Raise `UnsupportedError` for ``expr``, for whose class no bound of the rounding error is known."""
        raise UnsupportedError(f"error_bound: the errors of {expr} depend on how it is computed")

    rules: ClassVar[Rules] = {
        sympy.Add: addition,
        sympy.Mul: product,
        sympy.Pow: power,
        sympy.exp: function,
        sympy.Piecewise: choice,
        sympy.Function: function,
        IndexedSum: reduction,
        IndexedProduct: reduction,
        IndexedMax: reduction,
        IndexedMin: reduction,
        TensorEntry: entry,
        Scan: recurrence,
        Expr: other,
    }

    # ------------------------------------------------------------ unknowns

    def rounded(self, part: Any, value: Any, weight: Any, size: Any, outer_ranges: tuple[IndexRange, ...]) -> Any:
        """Return `value`, the result of the operation ``part``, plus a symbol for its absolute rounding error. Record
        that this error is at most ``weight*size`` roundoffs; return `value` alone if ``weight`` is 0.

        ``outer_ranges`` are the ranges of the enclosing indices.
        """
        if weight == 0:
            return value
        symbols = part.free_symbols
        in_steps = self.scan is not None and not symbols.isdisjoint(self.scan.bound)
        used = [limit for limit in outer_ranges if limit[0] in symbols or (in_steps and limit[0] == self.scan.time)]
        limits, offsets, extents = [], [], []
        for n, (index, low, high) in enumerate(used):
            remaining = {limit[0] for limit in used[:n]}
            ends = [_outermost(end, outer_ranges, remaining, is_low) for end, is_low in ((low, True), (high, False))]
            limits.append(IndexRange(index, *ends))
            first, last = (
                _outermost(end, outer_ranges, set(), is_low) for end, is_low in zip(ends, (True, False), strict=True)
            )
            offsets.append(first)
            extents.append(last - first + 1)
        key = part, tuple(limits)
        if key not in self.unknowns:
            name = f"error_{len(self.unknowns)}"
            while name in self.names:
                name += "_"
            unknown = TensorSymbol(name, tuple(extents)) if extents else sympy.Symbol(name, real=True)
            self.unknowns[key] = unknown
            if in_steps:
                size = self.at_times(weight * size, limits, offsets)
                weight = sympy.S.One
                self.rows[unknown] = ScanVariable(fresh_name(name), tuple(extents[1:]))
            self.operations.append(RoundedOperation(part, unknown, weight, size, tuple(limits), tuple(offsets)))
        unknown = self.unknowns[key]
        places = [limit[0] - offset for limit, offset in zip(limits, offsets, strict=True)]
        if in_steps:
            unknown, places = self.rows[unknown], places[1:]
        return value + (unknown[tuple(places)] if places else unknown)


def table_of(tensor: Any) -> Any:
    """Return a tensor as a comprehension with the formula of its entry ``[p0, p1, ...]``."""
    used = names_in([tensor])
    names = (name for n in range(len(used) + tensor.rank) if (name := f"p{n}") not in used)
    places = [sympy.Symbol(name, integer=True) for name, _ in zip(names, tensor.shape, strict=False)]
    return TensorComprehension(tensor[tuple(places)].doit(), *zip(places, tensor.shape, strict=True))


def _count(reduction: Any) -> Any:
    """Return the number of terms of a sum or other reduction, at least 1, as an expression."""
    total: Any = sympy.S.One
    for _, low, high in reduction.limits:
        if {limit[0] for limit in reduction.limits} & (low.free_symbols | high.free_symbols):
            return IndexedSum(sympy.S.One, *reduction.limits)
        extent = high - low + 1
        is_whole = extent.is_number or extent.is_Symbol  # a size, which is positive
        total *= extent if is_whole else sympy.Max(extent, 1)
    return total


def _outermost(end: Any, outer_ranges: Sequence[IndexRange], remaining: set[Any], is_low: bool) -> Any:
    """Return the smallest (`is_low`) or largest value of `end`, an affine form, when the indices in ``outer_ranges``
    vary in their ranges. The indices in `remaining` are not varied: they remain in the result.
    """
    end = sympy.sympify(end)
    for index, low, high in reversed(outer_ranges):
        if index in end.free_symbols and index not in remaining:
            slope = end.coeff(index)
            if not slope.is_Integer or (end - slope * index).has(index):
                raise UnsupportedError(f"error_bound: the range that ends at {end} is not affine in {index}")
            end = end.subs(index, low if (slope > 0) == is_low else high)
    return end


def _is_dyadic(number: Any) -> bool:
    """Return whether float32 stores `number` exactly: it is an integer of at most 24 bits times a power of 2."""
    if not (number.is_Rational or number.is_Float):
        return False
    exact = sympy.Rational(number)
    return int(exact.q) & (int(exact.q) - 1) == 0 and abs(int(exact.p)).bit_length() <= 24


def _is_power_of_two(number: Any) -> bool:
    """Return whether `number` is a rational power of 2, of either sign: products with it are exact."""
    if not number.is_Rational or number == 0:
        return False
    return all(int(abs(part)) & (int(abs(part)) - 1) == 0 for part in (number.p, number.q))


class Restriction(Rewriting):
    """A traversal that replaces the symbols for unknown rounding errors by 0 in a derivative: a first-order bound needs
    the derivative at the exact values.
    """

    def __init__(self, sweep: Perturbation) -> None:
        super().__init__()
        self.unknowns = {operation.unknown for operation in sweep.operations}

    def symbol(self, expr: Any, outer_ranges: Any) -> Any:
        """Return 0 for a symbol of an unknown error; any other symbol unchanged."""
        return sympy.S.Zero if expr in self.unknowns else expr

    def entry(self, expr: Any, outer_ranges: Any) -> Any:
        """Return 0 if ``expr`` is an entry of a tensor of unknown rounding errors. In an entry of another tensor,
        replace the unknown errors by 0.
        """
        if expr.tensor in self.unknowns:
            return sympy.S.Zero
        args = yield self.all(expr.args, outer_ranges)
        return with_args(expr, args)

    def recurrence(self, expr: Any, outer_ranges: Any) -> Any:
        """Return the recurrence ``expr`` without the sequences that stand for unknown rounding errors: these are set to
        0 in its steps.
        """
        rows = [(variable, sequence) for variable, sequence in expr.sequences if sequence in self.unknowns]
        gone = [*(variable for variable, _ in rows), *(one for one in self.unknowns if one in expr.free_symbols)]
        zero = {one: FilledTensor(0, shape_of(one)) if shape_of(one) else sympy.S.Zero for one in gone}
        value, *updates = [step.xreplace(zero) for step in expr.steps]
        remaining = [pair for pair in expr.sequences if pair not in rows]
        outer = yield self.all(
            [*(state.initial for state in expr.states), *(one for _, one in remaining)], outer_ranges
        )
        states = [State(s.variable, initial, new) for s, initial, new in zip(expr.states, outer, updates, strict=False)]
        sequences = zip((variable for variable, _ in remaining), outer[len(states) :], strict=True)
        return Scan(expr.kind, value, states, [*sequences], expr.time, expr.length, expr.reverse)

    rules: ClassVar[Rules] = {TensorEntry: entry, Scan: recurrence}
