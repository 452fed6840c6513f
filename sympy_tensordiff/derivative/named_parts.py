"""Expressions in terms of named parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import sympy

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.graph.collector import no_collection
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write_all
from sympy_tensordiff.graph.write_forms import Forms
from sympy_tensordiff.simplify.facts import input_facts
from sympy_tensordiff.simplify.logistic import for_readers
from sympy_tensordiff.simplify.parts import Parts
from sympy_tensordiff.symbolic.lift import as_operand
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.symbolic.traversal import free_symbols_in
from sympy_tensordiff.symbolic.typed import Scalar


@no_collection()
def cse(
    exprs: Scalar | Sequence[Scalar], names: Mapping[Any, str] | None = None
) -> tuple[list[tuple[TensorSymbol, Any]], list[Any]]:
    """Parts that expressions have in common, as `sympy.cse` gives them, with indices and whole tensors.

    Parameters
    ----------
    exprs : Expr, or sequence of Expr
        Scalars and tensor expressions.
    names : mapping of Expr to str, optional
        Names for parts, each a tensor expression or a scalar that occurs; they are named wherever they occur, also
        where they occur once. Other parts are called ``t0``, ``t1``, …

    Returns
    -------
    parts : list of (TensorSymbol, Expr)
        Each part after those that it is made of. One that depends on indices bound around it is a tensor with an
        axis for each of them; one that is a scalar is a tensor of shape ``()``.
    reduced : list of Expr
        The expressions in terms of the parts.

    Raises
    ------
    ArgumentError
        If a part that has a name in ``names`` does not occur, depends on an index that is bound around it, or shares
        the name with something else.
    ArgumentTypeError
        If ``names`` is not a mapping to strings.

    Notes
    -----
    The parts are found on the graph of the expressions, in time that grows with its nodes. With the parts put in
    order, each in the place of its name, the reduced expressions have the values of those given.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, j, k, n = td.indices("i j k n")
    >>> A, x = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", n)
    >>> parts, reduced = td.cse(td.gradient(td.logsumexp(A @ x), (A, x)))
    >>> parts
    [(t0, softmax(A @ x))]
    >>> reduced
    [outer(t0, x), A.T @ t0]

    A part under two sums, over indices of other names:

    >>> d = td.TensorComprehension(sum((x[i] - x[j])**2 for _ in range(1)), (i, n), (j, n))
    >>> energy = td.IndexedSum(td.exp(-(x[i] - x[j])**2), (i, 0, n - 1), (j, 0, n - 1))
    >>> more = td.IndexedSum(x[k]*td.exp(-(x[i] - x[k])**2), (k, 0, n - 1), (i, 0, n - 1))
    >>> td.cse([energy, more], names=None)[1]
    [IndexedSum(t0[i, j], (i, 0, n - 1), (j, 0, n - 1)), IndexedSum(t0[i, k]*x[k], (k, 0, n - 1), (i, 0, n - 1))]
    """
    given = exprs if isinstance(exprs, (tuple, list, sympy.Tuple)) else [exprs]
    operands = [as_operand(expr, "the expression") for expr in given]
    named = _checked(names)
    reader = Reader(Graph())
    reader.use((*operands, *named))
    roots = [reader.read(expr) for expr in operands]
    wanted = {reader.read(expr): name for expr, name in named.items()}
    facts = input_facts(reader.graph, [*roots, *reader.leaves()])
    parts = Parts(reader.graph, roots, reader.free.values(), facts, wanted)
    chosen = {}
    for node, name in wanted.items():
        found = parts.find(node)
        if found is None:
            expr = next(e for e, other in named.items() if other == name)
            raise ArgumentError(
                f"{expr}, which names calls {name}, is not a part of the expressions that can have a name: give one "
                "that occurs as it is written and holds no bound index"
            )
        chosen[found.key] = name
    taken = {str(symbol) for symbol in free_symbols_in([*operands, *named])} | {*reader.graph.names}
    if clash := sorted(taken & {*named.values()}):
        raise ArgumentError(f"names calls a part {clash[0]}, which is a name in the expressions: choose another one")
    free = (name for n in count() if (name := f"t{n}") not in taken and name not in named.values())
    forms = Forms(reader)
    symbols = {
        part.key: TensorSymbol(
            chosen[part.key] if part.key in chosen else next(free), [forms.form(extent, ()) for extent in part.shape]
        )
        for part in parts.parts
    }
    leaves = {key: reader.tensor(symbol) for key, symbol in symbols.items()}
    definitions, reduced = parts.replaced(roots, leaves)
    written = write_all(reader, for_readers(reader.graph, [*definitions, *reduced]))
    return list(zip(symbols.values(), written, strict=False)), written[len(definitions) :]


def _checked(names: Any) -> dict[Any, str]:
    """The names by the expressions that they are given to."""
    if names is None:
        return {}
    if not isinstance(names, Mapping) or not all(isinstance(name, str) for name in names.values()):
        raise ArgumentTypeError(f"names must be a mapping of expressions to strings, such as {{K: 'K'}}, not {names!r}")
    if len({*names.values()}) < len(names):
        raise ArgumentError(f"names gives two parts one name: {', '.join(names.values())}")
    return {as_operand(expr, "a part"): name for expr, name in names.items()}
