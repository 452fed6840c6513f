"""Named parts: functions and derivatives written in terms of shared subexpressions that have names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import sympy

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.graph.interning import no_collection
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write_all
from sympy_tensordiff.graph.write_forms import Forms
from sympy_tensordiff.graph.write_tensors import axis_letters
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.simplify.canonical_signs import with_canonical_signs
from sympy_tensordiff.simplify.common_subexpressions import Key, NamedPart, Parts
from sympy_tensordiff.simplify.facts import input_facts, size_variables
from sympy_tensordiff.simplify.logistic import for_readers
from sympy_tensordiff.simplify.recognition import WITHOUT_TRANSPOSES, recognise
from sympy_tensordiff.simplify.symmetry import symmetric_nodes, with_equal_products, with_outer_factors
from sympy_tensordiff.symbolic.conversion.lift import as_operand
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, named_in, nodes_in, postorder, scans_in
from sympy_tensordiff.symbolic.index_notation.signatures import Scalar
from sympy_tensordiff.symbolic.index_notation.tensors import NamedTensor, TensorSymbol


class CommonParts(tuple[list[tuple[TensorSymbol, Any]], list[Any]]):
    """The result of `cse`: ``([(symbol, subexpression), ...], [expression, ...])``. Notebooks show it as formulas."""

    __slots__ = ()

    def _repr_latex_(self) -> str:
        """IPython's hook for LaTeX output: the reduced expressions, and the parts after "where"."""
        return rf"$\displaystyle {hooks.equations(*self)}$"


@no_collection()
def cse(
    exprs: Scalar | Sequence[Scalar], names: Mapping[Any, str] | None = None
) -> tuple[list[tuple[TensorSymbol, Any]], list[Any]]:
    """Return the common subexpressions of `exprs` as `sympy.cse` does: ``(parts, reduced)``, pairs ``(symbol,
    subexpression)`` and the list of the expressions in these symbols. `names` maps subexpressions to names for their
    symbols.

    Subexpressions in index notation and whole tensors are found, too.

    Parameters
    ----------
    exprs : Expr, or sequence of Expr
        Scalars and tensor expressions.
    names : mapping of Expr to str, optional
        Names for parts, each a tensor expression or a scalar that occurs; they are named wherever they occur, also
        where they occur once. Other parts are called ``t0``, ``t1``, …, those that `td.name` has named by their names.

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
    ShapeError
        If two different named expressions have one name.

    Notes
    -----
    The parts are found on the graph of the expressions, in time that grows with its nodes. With the parts substituted
    for their names, in order, the reduced expressions have the values of the given ones. A part has axes of the lengths
    of the ranges in which it occurs: sizes at which such a range is empty are for the expressions given alone. A table
    of the function may be infinite or undefined at entries that the expressions do not read.

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

    >>> energy = td.IndexedSum(td.exp(-(x[i] - x[j])**2), (i, 0, n - 1), (j, 0, n - 1))
    >>> more = td.IndexedSum(x[k]*td.exp(-(x[i] - x[k])**2), (k, 0, n - 1), (i, 0, n - 1))
    >>> td.cse([energy, more])[1]
    [IndexedSum(t0[i, j], (i, 0, n - 1), (j, 0, n - 1)), IndexedSum(t0[i, k]*x[k], (k, 0, n - 1), (i, 0, n - 1))]
    """
    given = exprs if isinstance(exprs, (tuple, list, sympy.Tuple)) else [exprs]
    operands = [as_operand(expr, "the expression") for expr in given]
    named = _checked(names)
    if any(getattr(expr, "is_scan", False) for expr in nodes_in(operands)):
        return _with_scans_as_parts(operands, named)
    units = named_in([*operands, *named])
    reader = Reader(Graph(), names=True)
    reader.use((*operands, *named))
    roots = [reader.read(expr) for expr in (*operands, *(unit.definition for unit in units))]
    wanted = {reader.read(expr): expr for expr in named}
    facts = input_facts(reader.graph, [*roots, *reader.leaves()])
    roots, parts = _best_parts(reader, roots, facts, wanted)
    taken = {str(symbol) for symbol in free_symbols_in([*operands, *named])} | {*reader.graph.names, *reader.tensors}
    chosen = {_wanted(parts, node, expr, named[expr], taken): named[expr] for node, expr in wanted.items()}
    own = [TensorSymbol(unit.name, unit.shape) for unit in units]
    definitions = dict(zip(roots[len(operands) :], zip(own, map(reader.read, units), strict=True), strict=True))
    known = {part.key: definitions[part.node] for part in parts.parts if part.node in definitions and not part.turned}
    rest = [part for part in parts.parts if part.key not in known]
    symbols = _symbols(reader, rest, chosen, taken)
    leaves = {key: reader.tensor(symbol) for key, symbol in symbols.items()} | {
        key: leaf for key, (_, leaf) in known.items()
    }
    symbols = {part.key: symbols.get(part.key) or known[part.key][0] for part in parts.parts}
    is_symmetric = symmetric_nodes(reader.graph, [part.node for part in parts.parts if not part.axes])
    for part in parts.parts:
        if is_symmetric.get(part.node) and not part.axes:
            reader.graph.symmetric[leaves[part.key]] = True
    if reader.graph.letters:
        letters = dict[Node, str]()
        for part in parts.parts:
            if not part.axes:
                node = part.in_order(reader.graph, part.node)
                reader.graph.letters.setdefault(leaves[part.key], axis_letters(reader.graph, node, letters))
    defined, reduced = _in_parts(reader, parts, symbols, leaves, roots, own)
    return CommonParts(([(symbol, defined[symbol]) for symbol in _in_order(defined)], reduced[: len(operands)]))


def _with_scans_as_parts(operands: Sequence[Any], named: Mapping[Any, str]) -> CommonParts:
    """Return the common parts of the expressions ``operands``, in which a scan (a loop over time) becomes a part if it
    occurs more than once, or has a name in ``named``. The steps inside of scans are unchanged.
    """
    scans: dict[Any, None] = {}  # each after those in its sequences and initial values
    uses: Counter[Any] = Counter()
    for root in operands:
        found = scans_in([root])
        uses.update(found)
        for one in found:
            for scan in postorder(one, scans, lambda node: scans_in(node.outer)):
                uses.update(dict.fromkeys(scans_in(scan.outer), 1))
                scans[scan] = None
    shared = [scan for scan in scans if scan in named or uses[scan] > 1]
    taken = {*map(str, free_symbols_in(operands)), *named.values()}
    free = (name for n in count() if (name := f"t{n}") not in taken)
    symbols: dict[Any, Any] = {}
    definitions: list[tuple[Any, Any]] = []
    for scan in shared:
        definitions.append((symbol := TensorSymbol(named.get(scan) or next(free), scan.shape), scan.xreplace(symbols)))
        symbols[scan] = symbol
    rest = [expr.xreplace(symbols) for expr in operands]
    others = {expr: name for expr, name in named.items() if expr not in symbols}
    plain = {scan: TensorSymbol(f"scan_{n}", scan.shape) for n, scan in enumerate(scans_in(rest))}
    back = {symbol: scan for scan, symbol in plain.items()}
    parts, reduced = cse([expr.xreplace(plain) for expr in rest], others)
    definitions += [(symbol, expr.xreplace(back)) for symbol, expr in parts]
    return CommonParts((definitions, [expr.xreplace(back) for expr in reduced]))


def _best_parts(reader: Reader, roots: list[Node], facts: Rows, wanted: Mapping[Node, Any]) -> tuple[list[Node], Parts]:
    """Return ``(roots, parts)``: the form of `roots` with the fewest operations, and its common subexpressions. If the
    user names subexpressions (`wanted`), no other forms are tried. `facts` are constraints that hold.

    What differs in the sign, in a common number or in the grouping of a product is one part then, at shifted indices
    as well.
    """
    graph, free = reader.graph, [*reader.free.values()]
    if wanted:
        return roots, Parts(graph, roots, free, facts, wanted)
    roots = with_equal_products(graph, recognise(graph, roots, rules=WITHOUT_TRANSPOSES))
    roots = with_outer_factors(graph, roots)
    signed = with_canonical_signs(graph, roots)
    parts = Parts(graph, roots, free, facts)
    sizes = size_variables(reachable(*roots))
    ranges = _ranges_of_entries(roots, {*free} - sizes)
    bound = {v for row in ranges for v in row.form.atoms()} - sizes
    for form in (roots, signed) if signed != roots else (roots,):
        for others in (
            Parts(graph, form, free, facts),
            Parts(graph, form, {*free} - bound, facts, ranges=ranges),
            Parts(graph, form, free, facts, quotients=True),
        ):
            if others.operations < parts.operations:
                roots, parts = form, others
    return roots, parts


def _ranges_of_entries(roots: Sequence[Node], indices: set[int]) -> Rows:
    """Return the constraints ``0 <= p < n`` for each of the free `indices` ``p`` that indexes an axis of length ``n``
    in `roots`, as in ``x[p]``. There is none for an index of axes with different lengths.
    """
    extents: dict[int, set[Affine]] = {}
    for node in reachable(*roots):
        for form, extent in zip(node.data, node.args[0].shape, strict=True) if node.op == "read" else ():
            for v in indices & form.atoms():
                if form == Affine.variable(v):
                    extents.setdefault(v, set()).add(extent)
    ends = {v: next(iter(own)) for v, own in extents.items() if len(own) == 1}
    forms = [form for v, extent in ends.items() for form in (Affine.variable(v), extent - 1 - Affine.variable(v))]
    return tuple(Constraint("ge", form) for form in forms)


def _symbols(
    reader: Reader, parts: Sequence[NamedPart], chosen: Mapping[Key, str], taken: set[str]
) -> dict[Key, TensorSymbol]:
    """Return a dictionary from keys to tensor symbols, one for each common subexpression in `parts`. A symbol has the
    name in `chosen`, else ``t0``, ``t1``, ... without the names in `taken`. ``reader`` has the graph.
    """
    free = (name for n in count() if (name := f"t{n}") not in taken and name not in chosen.values())
    forms = Forms(reader)
    return {
        part.key: TensorSymbol(chosen.get(part.key) or next(free), [forms.form(extent, ()) for extent in part.shape])
        for part in parts
    }


def _in_parts(
    reader: Reader,
    parts: Parts,
    symbols: Mapping[Key, TensorSymbol],
    leaves: Mapping[Key, Node],
    roots: Sequence[Node],
    own: Sequence[TensorSymbol],
) -> tuple[dict[TensorSymbol, Any], list[Any]]:
    """Write expressions and their common subexpressions in SymPy's notation. Return ``(definitions, expressions)``: a
    dictionary from symbols to the subexpressions that they name, and the expressions in terms of these symbols.

    `roots` are the nodes of the expressions, then the definitions of `own`, the symbols that the user named.

    `symbols` and `leaves` map the keys of the common subexpressions in `parts` to their symbols, and to the nodes of
    these symbols.
    """
    definitions, replaced = parts.replaced(roots, leaves)
    ordered = recognise(reader.graph, [*definitions, *replaced], rules=WITHOUT_TRANSPOSES)
    definitions, replaced = ordered[: len(definitions)], ordered[len(definitions) :]
    # From here on a named expression is what its name stands for elsewhere: a tensor.
    reader.tensors |= {symbol.name: symbol for symbol in own}
    written = write_all(reader, for_readers(reader.graph, [*definitions, *replaced]))
    rest = len(written) - len(own)
    # A name that stands for a part is defined like the part, not by itself.
    defined = dict(zip(symbols.values(), written, strict=False))
    defined |= {symbol: e for symbol, e in zip(own, written[rest:], strict=True) if symbol not in defined}
    return defined, written[len(symbols) : rest]


def _wanted(parts: Parts, node: Node, expr: Any, name: str, taken: set[str]) -> Key:
    """Return the key of the subexpression `node`, which the user wrote as `expr` and calls `name`, in the common
    subexpressions `parts`. Raise `ArgumentError` if it cannot have a name, or if `name` is in `taken`.
    """
    found = parts.find(node)
    if found is None:
        raise ArgumentError(
            f"td.cse: {expr}, which names calls {name}, is not a part of the expressions that can have a name: give "
            "one that occurs as it is written, without indices that are bound around it"
        )
    if name in taken:
        raise ArgumentError(f"td.cse: names calls {expr} {name}, which the expressions call something else")
    return found.key


def _in_order(defined: Mapping[TensorSymbol, Any]) -> list[TensorSymbol]:
    """Return the symbols in `defined`, each after those in its definition."""
    order: dict[TensorSymbol, None] = {}

    def below(symbol: TensorSymbol) -> list[TensorSymbol]:
        """Return the symbols in the definition of `symbol` that have definitions themselves, sorted by name."""
        return sorted((s for s in defined[symbol].free_symbols if s in defined), key=str)

    for symbol in defined:
        for inner in postorder(symbol, order, below):
            order[inner] = None
    return [*order]


@explained
def name(expr: Scalar, name: str) -> NamedTensor:
    """Give the expression `expr` the name ``name``, as in ``K = A @ A.T``. The result is printed as ``K``, and its
    derivatives are written in terms of ``K`` instead of its definition.

    Parameters
    ----------
    expr : Expr
        A scalar or a tensor expression, in which no index is free; sizes may be.
    name : str
        A name as that of a `TensorSymbol`, which nothing else in an expression has.

    Returns
    -------
    NamedTensor
        Has the shape of ``expr``, and its value. ``.definition`` is ``expr``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        For a name that there cannot be, or an index that is free in ``expr``.

    Notes
    -----
    `vjp`, `gradient`, `jvp` and `hvp` differentiate through the name by the chain rule: results hold ``K`` and the
    derivative with respect to it, which is called ``dK``, and which they return for ``K`` itself. Full Jacobians and
    Hessians and plain ``diff`` write the definition in place of the name, and so do texts and kernels, which compute it
    once.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n = td.indices("n")
    >>> A, y = td.TensorSymbol("A", (n, n)), td.TensorSymbol("y", n)
    >>> K = td.name(A @ A.T, "K")
    >>> td.gradient(y @ td.inv(K) @ y, A)
    (dK + dK.T) @ A
    >>> td.gradient(y @ td.inv(K) @ y, K)
    -outer(inv(K).T @ y, inv(K) @ y)
    """
    operand = as_operand(expr, "the expression")
    reader = Reader(Graph(), scans="leaf")
    reader.use((operand,))
    node = reader.read(operand)
    free = node.free - size_variables([*reader.leaves(), node])
    used = [form for part in reachable(node) if part.op == "read" for form in part.data]
    if indices := sorted({str(reader.symbols[v]) for form in used for v in form.atoms() & free}):
        raise ArgumentError(
            f"td.name: {indices[0]} is a free index of {operand}, which a name does not show: name the tensor over it, "
            f"td.name(td.TensorComprehension(…, ({indices[0]}, n)), {str(name)!r})[{indices[0]}]"
        )
    return NamedTensor(name, operand)


def _checked(names: Any) -> dict[Any, str]:
    """Check the user's dictionary `names` of expressions to strings and return it with converted expressions; {} for
    None. Raise `ArgumentTypeError` or `ArgumentError` if it is malformed or gives a name twice.

    Raises `ArgumentTypeError` unless it is a mapping to strings, `ArgumentError` if a name repeats.
    """
    if names is None:
        return {}
    if not isinstance(names, Mapping) or not all(isinstance(name, str) for name in names.values()):
        raise ArgumentTypeError(f"names must be a mapping of expressions to strings, such as {{K: 'K'}}, not {names!r}")
    if len({*names.values()}) < len(names):
        raise ArgumentError(f"names gives two parts one name: {', '.join(names.values())}")
    return {as_operand(expr, "a part"): name for expr, name in names.items()}
