"""Values that tensors of integers may have, so that what they select lies inside of what is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

from sympy import Expr

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Compound, Quotient, Row, Variable
from sympy_tensordiff.integer.data import DataEntry, data_entries
from sympy_tensordiff.integer.implication import implied, maximum, minimum
from sympy_tensordiff.integer.rows import shape_rows, substitute_all

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
    walk = _Walk(sizes or {})
    for expression in expressions:
        walk.run(expression)
    result = {}
    for name in sorted(walk.reader.graph.integers):
        below = walk.reader.graph.below.get(name)
        if below is not None and (declared := below.substitute(walk.known)).is_constant:
            walk.narrow(name, 0, declared.constant - 1)
        low, high = walk.inside.get(name, (None, None))
        for end in walk.compared.get(name, ANY) if low is None or high is None else ():
            low, high = (end if low is None else low), end
        if low is None or high is None or low > high:
            raise ArgumentError(f"no value of {name} keeps all reads inside of their shapes: give its values")
        result[name] = low, high
    return result


class _Walk:
    """The data of expressions, read into one graph, with what is known where they stand."""

    def __init__(self, sizes: Mapping[Any, Any]) -> None:
        self.reader = Reader(Graph())
        self.sizes = sizes
        self.known: dict[Variable, Affine] = {}
        self.inside: dict[str, Interval] = {}
        self.compared: dict[str, tuple[int, int]] = {}

    def run(self, expression: Expr) -> None:
        """Looks at all reads in an expression, with the ranges and conditions around each."""
        root = self.reader.read(expression)
        given = {str(symbol): int(value) for symbol, value in self.sizes.items()}
        named = {v: given.get(str(symbol)) for symbol, v in self.reader.free.items()}
        self.known = {v: Affine.of(value) for v, value in named.items() if value is not None}
        stack: list[tuple[Node, tuple[Row, ...]]] = [(root, ())]
        seen: set[tuple[Node, tuple[Row, ...]]] = set()
        while stack:
            node, rows = stack.pop()
            if (node, rows) in seen:
                continue
            seen.add((node, rows))
            if node.op == "guard":
                rows = (*rows, *self.rows(node.data))
                self.conditions(self.rows(node.data), rows)
                stack.append((node.args[0], rows))
            elif node.op in ("sum", "prod", "max", "min", "comprehension"):
                _, more, body = self.reader.graph.open(node)
                stack.append((body, (*rows, *self.rows(more))))
                self.conditions(self.rows(more), rows)
            else:
                self.node(node, rows)
                stack += [(arg, rows) for arg in node.args]

    def rows(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        return substitute_all(rows, self.known)

    def node(self, node: Node, rows: tuple[Row, ...]) -> None:
        if node.op == "read":
            for form, extent in zip(node.data, node.args[0].shape, strict=True):
                self.read(form.substitute(self.known), extent.substitute(self.known), rows)
            self.selecting(node.data, rows)
        elif node.op == "index":
            self.selecting([node.data], rows)

    def selecting(self, forms: Sequence[Affine], rows: tuple[Row, ...]) -> None:
        """The indices of data are inside of the shapes of these."""
        for entry in data_entries(form.substitute(self.known) for form in forms):
            for form, extent in zip(entry.index, self.reader.graph.integers[entry.tensor].shape, strict=True):
                self.read(form, extent.substitute(self.known), rows)

    def read(self, form: Affine, extent: Affine, rows: tuple[Row, ...]) -> None:
        """``0 <= form < extent``, where variables may have data as bounds."""
        last = maximum(extent - 1, rows)
        if all(implied(row, rows) for row in shape_rows([form], [extent])):
            return
        self.within(form, 0, None if last is None else floor(last), rows)
        for row in rows:
            for v, c in row.form.terms:
                if abs(c) == 1 and form.coefficient(v) and data_entries([row.form]) and not isinstance(v, Compound):
                    bound = form.substitute({v: Affine({v: 1}) - c * row.form})
                    self.within(bound, 0, None if last is None else floor(last), rows)

    def conditions(self, conditions: Sequence[Row], rows: tuple[Row, ...]) -> None:
        """What data are compared with."""
        self.selecting([row.form for row in conditions], rows)
        for row in conditions:
            for v, c in row.form.terms:
                if isinstance(v, DataEntry):
                    rest = (Affine({v: c}) - row.form) * (1 if c > 0 else -1)
                    low, high = minimum(rest, rows), maximum(rest, rows)
                    if low is not None and high is not None:
                        ends = floor(low / abs(c)) - 1, ceil(high / abs(c)) + 1
                        first, last = self.compared.get(v.tensor, ends)
                        self.compared[v.tensor] = min(first, ends[0]), max(last, ends[1])

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
        known = self.inside.get(name, (None, None))
        lows = [end for end in (known[0], low) if end is not None]
        highs = [end for end in (known[1], high) if end is not None]
        self.inside[name] = max(lows, default=None), min(highs, default=None)


def _share(end: Fraction | int | None, parts: int, rounded: Callable[[Any], int]) -> int | None:
    return None if end is None else rounded(Fraction(end) / parts)
