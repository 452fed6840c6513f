"""Random inputs, the oracle's inputs as arguments of a kernel, and the ranges of data."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any, Literal

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy import Basic, Expr

from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.run.signature import named_arguments
from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Compound, Quotient, Row, Variable
from sympy_tensordiff.integer.data import DataEntry, data_entries
from sympy_tensordiff.integer.implication import maximum, minimum
from sympy_tensordiff.integer.rows import substitute_all
from sympy_tensordiff.reference import symbols_of, tensors_of
from sympy_tensordiff.simplify.accesses import Access, AccessContext, Accesses
from sympy_tensordiff.symbolic.indices import integers_by_use
from sympy_tensordiff.symbolic.tensors import TensorSymbol

# Numerators over this give numbers that a double holds exactly, so the kernels and the oracle
# start from the same inputs; odd numerators keep away from 0.
_DENOMINATOR = 16
MOST = 10**8
"""For no larger tensor are values drawn."""


def as_expressions(expression: Any) -> tuple[Expr, ...]:
    """One expression or several, as a tuple."""
    several = isinstance(expression, (tuple, list, sympy.Tuple))
    return tuple(sympy.sympify(e) for e in (expression if several else (expression,)))


def size_symbols(*expressions: Expr) -> list[Basic]:
    """The integer symbols of some expressions: sizes and free indices, by name."""
    used = integers_by_use(expressions)
    return [s for s in symbols_of(*expressions) if isinstance(s, Expr) and (s.is_integer or s in used)]


def shape_of(expression: Expr) -> tuple[Expr, ...]:
    """The shape of an expression, ``()`` for a scalar."""
    return tuple(sympy.sympify(extent) for extent in getattr(expression, "shape", ()))


def concrete_shape(tensor: Expr, sizes: Mapping[Any, Any]) -> tuple[int, ...]:
    """The shape of a tensor where its symbolic sizes have values."""
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
    """Random values for all tensors and scalar symbols of some expressions, the sizes included.

    Integers that select what is read keep all reads inside of their shapes.

    Parameters
    ----------
    expressions : expression, or tuple of expressions and symbols
    sizes : mapping, optional
        The integer symbols: sizes of tensors and free indices.
    seed : int
    kind : {"rational", "float"}
        Fractions with a power of two below, which a double holds exactly, or doubles.
    low, high : float
        The range; rational values are never 0.
    given : mapping, optional
        Values that are not drawn.
    """
    expressions = as_expressions(expressions)
    generator = random.Random(seed)

    def number() -> Fraction | float:
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
        if math.prod(shape) > MOST:
            raise ArgumentError(
                f"{tensor} has {math.prod(shape):,} entries, and random values are drawn for at most {MOST:,}; take "
                "smaller sizes"
            )
        is_data = tensor.dtype is int
        drawn = [generator.randint(*ranges[tensor.name]) if is_data else number() for _ in range(math.prod(shape))]
        dtype = np.int64 if is_data else object if kind == "rational" else np.float64
        values[tensor] = _as_declared(tensor, np.array(drawn, dtype).reshape(shape))
    integers = size_symbols(*expressions)
    for symbol in symbols_of(*expressions):
        if symbol in values:
            continue
        if symbol in known:
            values[symbol] = known[symbol]
        elif symbol in integers:
            raise ArgumentError(f"no value given for the integer symbol {symbol}; pass sizes=")
        else:
            values[symbol] = number()
    return values


def _as_declared(tensor: TensorSymbol, array: NDArray[Any]) -> NDArray[Any]:
    """Random numbers as a symmetric matrix, and a positive definite one, where the tensor is declared to be that."""
    if not tensor.symmetric:
        return array
    array = np.triu(array) + np.triu(array, 1).T
    if tensor.positive:
        np.fill_diagonal(array, abs(array).sum(axis=1) + 1)
    return array


def to_double(value: Any) -> NDArray[np.float64]:
    """A result of the oracle, or an input of it, in double precision."""
    return np.asarray(value, dtype=object).astype(np.float64)


def call_arguments(expressions: Any, values: Mapping[Any, Any]) -> tuple[list[Basic], list[Any]]:
    """The arguments of a kernel, as symbols and as values: tensors, scalars, then integers.

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


ANY = (-2, 3)
"""Values of data that select nothing, and are compared with nothing."""

Interval = tuple[int | None, int | None]


def data_ranges(expressions: Iterable[Expr], sizes: Mapping[Any, Any] | None = None) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of each tensor of integers, by its name.

    Parameters
    ----------
    expressions : iterable of Expr
    sizes : mapping, optional
        The integer symbols: sizes and free indices.

    Returns
    -------
    dict from str to (int, int)
        Data that select keep every read inside of its shape, whatever they are in these ranges; where an
        index adds several data, each has its share. A range that is declared holds as well. Data that
        are only compared with indices range over the values that these have, and one more at either end.

    Raises
    ------
    ArgumentError
        If no value is inside of all shapes.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, k = td.indices("i k")
    >>> x, idx = td.TensorSymbol("x", 9), td.TensorSymbol("idx", 4, dtype=int)
    >>> data_ranges([td.IndexedSum(x[2*idx[i] + k], (k, 0, 2), (i, 0, 3))])
    {'idx': (0, 3)}
    """
    walk = _Data(sizes or {})
    for expression in expressions:
        walk.run(expression)
    result = {}
    for name in sorted(walk.reader.graph.integers):
        below = walk.reader.graph.below.get(name)
        if below is not None and (declared := below.substitute(walk.known)).is_constant:
            walk.narrow(name, 0, declared.constant - 1)
        low, high = walk.inside_of.get(name, (None, None))
        for end in walk.compared.get(name, ANY) if low is None or high is None else ():
            low, high = (end if low is None else low), end
        if low is None or high is None or low > high:
            raise ArgumentError(f"no value of {name} keeps all reads inside of their shapes: give its values")
        result[name] = low, high
    return result


class _Data(Accesses):
    """The data of expressions, read into one graph: what they select, and what they are compared with."""

    def __init__(self, sizes: Mapping[Any, Any]) -> None:
        self.reader = Reader(Graph())
        super().__init__(self.reader.graph, ())
        self.sizes = {str(symbol): int(value) for symbol, value in sizes.items()}
        self.known: dict[Variable, Affine] = {}
        self.inside_of: dict[str, Interval] = {}
        self.compared: dict[str, tuple[int, int]] = {}

    def run(self, expression: Expr) -> None:
        """Looks at all reads in an expression, with the ranges and conditions around each."""
        root = self.reader.read(expression)
        named = {v: self.sizes.get(str(symbol)) for symbol, v in self.reader.free.items()}
        self.known = {v: Affine.of(value) for v, value in named.items() if value is not None}
        self.facts = tuple(Row("eq", Affine.variable(v) - value) for v, value in self.known.items())
        for access, axis, _ in self.below([root]):
            form, extent = (part.substitute(self.known) for part in (access.forms[axis], access.tensor.shape[axis]))
            self.read(form, extent, substitute_all(access.around.rows, self.known))

    def entry(self, read: Node, around: AccessContext) -> Iterator[tuple[Node, AccessContext]]:
        """A table is looked at in all of its entries."""
        yield from ((arg, around) for arg in read.args)

    def tested(self, rows: Sequence[Row], around: AccessContext) -> Iterator[Access]:
        """Notes what data are compared with."""
        yield from super().tested(rows, around)
        context = substitute_all((*around.rows, *rows), self.known)
        for row in substitute_all(rows, self.known):
            for v, c in row.form.terms:
                if isinstance(v, DataEntry):
                    rest = (Affine({v: c}) - row.form) * (1 if c > 0 else -1)
                    low, high = minimum(rest, context), maximum(rest, context)
                    if low is not None and high is not None:
                        ends = floor(low / abs(c)) - 1, ceil(high / abs(c)) + 1
                        first, last = self.compared.get(v.tensor, ends)
                        self.compared[v.tensor] = min(first, ends[0]), max(last, ends[1])

    def read(self, form: Affine, extent: Affine, rows: tuple[Row, ...]) -> None:
        """``0 <= form < extent``, where variables may have data as bounds."""
        last = maximum(extent - 1, rows)
        self.within(form, 0, None if last is None else floor(last), rows)
        for row in rows:
            for v, c in row.form.terms:
                if abs(c) == 1 and form.coefficient(v) and data_entries([row.form]) and not isinstance(v, Compound):
                    bound = form.substitute({v: Affine({v: 1}) - c * row.form})
                    self.within(bound, 0, None if last is None else floor(last), rows)

    def within(self, form: Affine, low: int | None, high: int | None, rows: tuple[Row, ...]) -> None:
        """``low <= form <= high`` as the ranges of the data in it, each with its share of the room."""
        held = [(v, c) for v, c in form.terms if isinstance(v, Compound) and data_entries([Affine.variable(v)])]
        rest = form - Affine(dict(held))
        least, most = minimum(rest, rows), maximum(rest, rows)
        below = None if low is None or least is None else low - least
        above = None if high is None or most is None else high - most
        for v, c in held:
            ends = (below, above) if c > 0 else (above, below)
            first, last = _share(ends[0], c * len(held), ceil), _share(ends[1], c * len(held), floor)
            if isinstance(v, DataEntry):
                self.narrow(v.tensor, first, last)
            elif isinstance(v, Quotient):
                up = None if last is None else v.divisor * last + v.divisor - 1
                self.within(v.form, None if first is None else v.divisor * first, up, rows)

    def narrow(self, name: str, low: int | None, high: int | None) -> None:
        known = self.inside_of.get(name, (None, None))
        lows = [end for end in (known[0], low) if end is not None]
        highs = [end for end in (known[1], high) if end is not None]
        self.inside_of[name] = max(lows, default=None), min(highs, default=None)


def _share(end: Fraction | int | None, parts: int, rounded: Callable[[Any], int]) -> int | None:
    return None if end is None else rounded(Fraction(end) / parts)
