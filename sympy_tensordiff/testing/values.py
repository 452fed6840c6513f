"""Random inputs, arguments of a kernel from the oracle's inputs, and the ranges of index arrays."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Literal

import sympy
from sympy import Basic, Expr

from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.run.signature import named_arguments
from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint, Quotient, Variable
from sympy_tensordiff.integer.implication import maximum, minimum
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.rows import substitute_all
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.reference import symbols_of, tensors_of
from sympy_tensordiff.simplify.accesses import Access, AccessContext, Accesses
from sympy_tensordiff.symbolic.expressions.integer_symbols import integers_by_use
from sympy_tensordiff.symbolic.expressions.traversal import scans_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.recurrences.scans import ScanVariable, fresh_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fractions with this denominator are exact doubles, so that kernels and oracle have the same inputs; odd numerators
# avoid 0.
_DENOMINATOR = 16
MAX_ENTRIES = 10**8
"""Largest tensor for which values are drawn."""


def as_expressions(expression: Any) -> tuple[Expr, ...]:
    """Return one expression or a sequence of expressions as a tuple of SymPy expressions."""
    is_sequence = isinstance(expression, (tuple, list, sympy.Tuple))
    return tuple(sympy.sympify(e) for e in (expression if is_sequence else (expression,)))


def size_symbols(*expressions: Expr) -> list[Basic]:
    """Return the integer symbols in ``expressions``, sizes and free indices, sorted by name."""
    used = integers_by_use(expressions)
    return [s for s in symbols_of(*expressions) if isinstance(s, Expr) and (s.is_integer or s in used)]


def shape_of(expression: Expr) -> tuple[Expr, ...]:
    """Return the shape of ``expression``, () for a scalar."""
    return tuple(sympy.sympify(extent) for extent in getattr(expression, "shape", ()))


def concrete_shape(tensor: Expr, sizes: Mapping[Any, Any]) -> tuple[int, ...]:
    """Return the shape of ``tensor`` as numbers, with the values ``sizes`` of its symbols; raise `ArgumentError` if one
    is missing.
    """
    extents = []
    for extent in shape_of(tensor):
        known = {s: int(sizes[s]) for s in extent.free_symbols if s in sizes}
        extents.append(extent.subs(known))
    for extent in extents:
        if not extent.is_Integer:
            raise ArgumentError(f"{tensor}: no value given for {sorted(map(str, extent.free_symbols))}; pass sizes=")
    return tuple(int(extent) for extent in extents)


def random_values(
    expressions: Any,
    sizes: Mapping[Any, int] | None = None,
    seed: int = 0,
    kind: Literal["rational", "float"] = "rational",
    *,
    low: float = -2,
    high: float = 2,
    given: Mapping[Any, Any] | None = None,
) -> dict[Any, Any]:
    """Return random values for all tensors and scalar symbols in ``expressions``, together with the sizes: numbers of
    the ``kind`` "rational" or "float" between ``low`` and ``high``, or the values in ``given``.

    Values of index arrays keep all reads in bounds.

    Parameters
    ----------
    expressions : expression, or tuple of expressions and symbols
    sizes : mapping, optional
        The integer symbols: sizes of tensors and free indices.
    seed : int
    kind : {"rational", "float"}
        Fractions that are exact doubles, or doubles.
    low, high : float
        The range; rational values are never 0.
    given : mapping, optional
        Values to use instead of random ones.
    """
    expressions = as_expressions(expressions)
    generator = random.Random(seed)

    def draw() -> Fraction | float:
        """Draw one random rational or float between ``low`` and ``high``."""
        if kind == "float":
            return generator.uniform(low, high)
        odd = 2 * generator.randrange(int(low * _DENOMINATOR) // 2, int(high * _DENOMINATOR) // 2) + 1
        return Fraction(odd, _DENOMINATOR)

    known = dict(sizes or {})
    values: dict[Any, Any] = dict(given or {})
    tensors = [tensor for tensor in tensors_of(*expressions) if tensor not in values]
    ranges = data_ranges(expressions, known) if any(tensor.dtype is int for tensor in tensors) else {}
    for tensor in tensors:
        shape = concrete_shape(tensor, known)
        if math.prod(shape) > MAX_ENTRIES:
            raise ArgumentError(
                f"{tensor} has {math.prod(shape):,} entries, and random values are drawn for at most {MAX_ENTRIES:,}; "
                "take smaller sizes"
            )
        is_data = tensor.dtype is int
        drawn = [generator.randint(*ranges[tensor.name]) if is_data else draw() for _ in range(math.prod(shape))]
        dtype = np.int64 if is_data else object if kind == "rational" else np.float64
        values[tensor] = _make_symmetric(tensor, np.array(drawn, dtype).reshape(shape))
    integers = size_symbols(*expressions)
    for symbol in symbols_of(*expressions):
        if symbol in values:
            continue
        if symbol in known:
            values[symbol] = known[symbol]
        elif symbol in integers:
            raise ArgumentError(f"no value given for the integer symbol {symbol}; pass sizes=")
        else:
            values[symbol] = draw()
    return values


def _make_symmetric(tensor: TensorSymbol, array: NDArray[Any]) -> NDArray[Any]:
    """Return the random `array` made symmetric or positive definite if ``tensor`` is declared so; else unchanged."""
    if not tensor.symmetric:
        return array
    array = np.triu(array) + np.triu(array, 1).T
    if tensor.positive:
        np.fill_diagonal(array, abs(array).sum(axis=1) + 1)
    return array


def to_double(value: Any) -> NDArray[np.float64]:
    """Convert a result or an input of the exact interpreter to double precision."""
    return np.asarray(value, dtype=object).astype(np.float64)


def call_arguments(expressions: Any, values: Mapping[Any, Any]) -> tuple[list[Basic], list[Any]]:
    """Return ``(symbols, values)`` of the arguments with which to call a function compiled from ``expressions``:
    tensors, then scalars, then integers.

    Sizes that the shapes of the tensors determine are left out.
    """
    expressions = as_expressions(expressions)
    tensors: Sequence[TensorSymbol] = tensors_of(*expressions)
    determined = {size.name for size in solve_sizes(named_arguments(tensors))}
    symbols = [s for s in symbols_of(*expressions) if str(s) not in determined]
    sizes = size_symbols(*expressions)
    reals, integers = ([s for s in symbols if (s in sizes) is whole] for whole in (False, True))
    arrays = [np.asarray(values[t], np.int64) if t.dtype is int else to_double(values[t]) for t in tensors]
    scalars = [float(values[s]) for s in reals]
    return [*tensors, *reals, *integers], [*arrays, *scalars, *(int(values[s]) for s in integers)]


# ---------------------------------------------------------------------------- ranges of data


DEFAULT_RANGE = (-2, 3)
"""Range of index arrays that select nothing and are compared with nothing."""

Interval = tuple[int | None, int | None]


def data_ranges(expressions: Iterable[Expr], sizes: Mapping[Any, Any] | None = None) -> dict[str, tuple[int, int]]:
    """Return a dictionary from each integer tensor used as an index in ``expressions`` to the smallest and largest
    value of its entries, for drawing random ones.

    Parameters
    ----------
    expressions : iterable of Expr
    sizes : mapping, optional
        The integer symbols: sizes and free indices.

    Returns
    -------
    dict from str to (int, int)
        All values in these ranges keep every read in bounds; if an index adds several array entries, they share the
        slack. Declared ranges hold as well. Arrays that are only compared with indices range over the values of these
        indices, and one more at either end.

    Raises
    ------
    ArgumentError
        If no value keeps all reads in bounds.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, k = td.indices("i k")
    >>> x, idx = td.TensorSymbol("x", 9), td.TensorSymbol("idx", 4, dtype=int)
    >>> data_ranges([td.IndexedSum(x[2*idx[i] + k], (k, 0, 2), (i, 0, 3))])
    {'idx': (0, 3)}
    """
    collector = _IndexArrayRanges(sizes or {})
    waiting = [*expressions]
    while waiting:
        expression = waiting.pop()
        collector.collect(expression)
        for scan in scans_in([expression]):
            names = {v: ScanVariable(fresh_name(v.name), v.shape) for v in scan.bound[:-1]}
            waiting += [*scan.outer, *(step.xreplace(names) for step in scan.steps)]
    result = {}
    for name in sorted(collector.reader.graph.integers):
        below = collector.reader.graph.below.get(name)
        if below is not None and (declared := below.substitute(collector.size_values)).is_constant:
            collector.narrow(name, 0, declared.constant - 1)
        low, high = collector.range_of_array.get(name, (None, None))
        for end in collector.compared_range.get(name, DEFAULT_RANGE) if low is None or high is None else ():
            low, high = (end if low is None else low), end
        if low is None or high is None or low > high:
            raise ArgumentError(f"no value of {name} keeps all reads inside of their shapes: give its values")
        result[name] = low, high
    return result


class _IndexArrayRanges(Accesses):
    """Collects, for each integer tensor in an expression, the range of values that its entries may have: from reads
    ``x[p[i]]``, which must be in bounds, and from comparisons.
    """

    def __init__(self, sizes: Mapping[Any, Any]) -> None:
        self.reader = Reader(Graph(), scans="leaf")
        super().__init__(self.reader.graph, ())
        self.sizes = {str(symbol): int(value) for symbol, value in sizes.items()}
        self.size_values: dict[Variable, Affine] = {}
        self.range_of_array: dict[str, Interval] = {}
        self.compared_range: dict[str, tuple[int, int]] = {}

    def collect(self, expression: Expr) -> None:
        """Record the ranges that the entries of integer tensors must have so that all reads in ``expression`` are in
        bounds.
        """
        root = self.reader.read(expression)
        named = {v: self.sizes.get(str(symbol)) for symbol, v in self.reader.free.items()}
        self.size_values = {v: Affine.of(value) for v, value in named.items() if value is not None}
        self.facts = tuple(Constraint("eq", Affine.variable(v) - value) for v, value in self.size_values.items())
        for access, axis, _ in self.below([root]):
            form, extent = (
                part.substitute(self.size_values) for part in (access.forms[axis], access.tensor.shape[axis])
            )
            self.constrain_read(form, extent, substitute_all(access.around.rows, self.size_values))

    def entry(self, read: Node, around: AccessContext) -> Iterator[tuple[Node, AccessContext]]:
        """Yield ``(argument, around)`` for each argument of ``read``, the read of a tensor entry. The traversal then
        visits the formulas of all entries of the tensor, not only of this one.
        """
        yield from ((arg, around) for arg in read.args)

    def reads_in_conjunction(self, rows: Sequence[Constraint], around: AccessContext) -> Iterator[Access]:
        """Yield the reads of integer tensors in ``rows``, conditions that must all hold. For each entry ``p[i]`` that
        they compare with a bounded form, also record a range of test values of ``p``: the bounds of the form, and one
        more at either end.

        Test values then fall on both sides of the condition.
        """
        yield from super().reads_in_conjunction(rows, around)
        context = substitute_all((*around.rows, *rows), self.size_values)
        for row in substitute_all(rows, self.size_values):
            for v, c in row.form.terms:
                if isinstance(v, IndirectIndex):
                    rest = (Affine({v: c}) - row.form) * (1 if c > 0 else -1)
                    low, high = minimum(rest, context), maximum(rest, context)
                    if low is not None and high is not None:
                        ends = floor(low / abs(c)) - 1, ceil(high / abs(c)) + 1
                        first, last = self.compared_range.get(v.tensor, ends)
                        self.compared_range[v.tensor] = min(first, ends[0]), max(last, ends[1])

    def constrain_read(self, form: Affine, extent: Affine, rows: tuple[Constraint, ...]) -> None:
        """Narrow the ranges of the integer tensors in ``form``, the index of a read, so that ``0 <= form < extent``.
        The constraints ``rows`` hold at the read.
        """
        last = maximum(extent - 1, rows)
        self.constrain_between(form, 0, None if last is None else floor(last), rows)
        for row in rows:
            for v, c in row.form.terms:
                if abs(c) == 1 and form.coefficient(v) and data_entries([row.form]) and not isinstance(v, Compound):
                    bound = form.substitute({v: Affine({v: 1}) - c * row.form})
                    self.constrain_between(bound, 0, None if last is None else floor(last), rows)

    def constrain_between(self, form: Affine, low: int | None, high: int | None, rows: tuple[Constraint, ...]) -> None:
        """Narrow the ranges of the integer tensors in ``form`` so that ``low <= form <= high`` wherever the constraints
        ``rows`` hold; each of several tensors gets an equal share of the interval.
        """
        index_terms = [(v, c) for v, c in form.terms if isinstance(v, Compound) and data_entries([Affine.variable(v)])]
        other_terms = form - Affine(dict(index_terms))
        other_min, other_max = minimum(other_terms, rows), maximum(other_terms, rows)
        below = None if low is None or other_min is None else low - other_min
        above = None if high is None or other_max is None else high - other_max
        for v, c in index_terms:
            ends = (below, above) if c > 0 else (above, below)
            first, last = (
                _divide_bound(ends[0], c * len(index_terms), ceil),
                _divide_bound(ends[1], c * len(index_terms), floor),
            )
            if isinstance(v, IndirectIndex):
                self.narrow(v.tensor, first, last)
            elif isinstance(v, Quotient):
                up = None if last is None else v.divisor * last + v.divisor - 1
                self.constrain_between(v.form, None if first is None else v.divisor * first, up, rows)

    def narrow(self, name: str, low: int | None, high: int | None) -> None:
        """Narrow the range of the integer tensor ``name`` to ``low .. high`` (None: no bound)."""
        known = self.range_of_array.get(name, (None, None))
        lows = [end for end in (known[0], low) if end is not None]
        highs = [end for end in (known[1], high) if end is not None]
        self.range_of_array[name] = max(lows, default=None), min(highs, default=None)


def _divide_bound(end: Fraction | int | None, parts: int, rounded: Callable[[Any], int]) -> int | None:
    """Return ``end / parts`` rounded by ``rounded``; None for None."""
    return None if end is None else rounded(Fraction(end) / parts)
