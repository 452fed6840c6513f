"""`cost`: the operations and the memory of an expression, before a kernel is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sympy

from sympy_tensordiff.codegen.run.results import flatten
from sympy_tensordiff.codegen.run.signature import expected_sizes
from sympy_tensordiff.graph import cost as graph_cost
from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.scans import step_constants
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.polynomials import Polynomial
from sympy_tensordiff.simplify.facts import read_with_ranges
from sympy_tensordiff.simplify.recognition import recognise
from sympy_tensordiff.symbolic.conversion.lift import as_operand
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in, scans_in
from sympy_tensordiff.symbolic.recurrences.scans import ScanVariable, Time, fresh_name, needed_states
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of


class ProgramCost(NamedTuple):
    """The cost of evaluating expressions once, as polynomials in their sizes.

    Attributes
    ----------
    operations : Expr
        The number of multiplications, additions and evaluations of functions.
    largest : Expr
        The number of entries of the largest array that is stored, results included.
    memory : Expr
        The number of entries of all arrays that are stored, results included and arguments not.
    """

    operations: Any
    largest: Any
    memory: Any


def cost(expr: Any, sizes: Mapping[Any, int] | None = None) -> ProgramCost:
    """Return the operations and the memory that evaluating ``expr`` takes, as polynomials in the sizes.

    Parameters
    ----------
    expr : Expr, or tuple of Expr
        Tensor expressions and scalars, evaluated together: shared parts are counted once.
    sizes : mapping, optional
        Integers by sizes or their names. The order of products is chosen for them, and they are put into the result.

    Returns
    -------
    Cost
        ``operations``, ``largest`` and ``memory``, SymPy expressions in the sizes. Bounds that depend on other indices
        count as their extremes, so triangular sums count as full ones.

    Raises
    ------
    ArgumentError
        If ``sizes`` has a key that is not a size of ``expr``.

    Notes
    -----
    The count is that of the plan for a kernel: products of two operands in the order of least work, sums that are used
    more than once as arrays. The step of a scan counts as often as it runs, what no step changes counts once. A
    derivative takes a small multiple of the operations of its function (Griewank & Walther 2008, *Evaluating
    Derivatives*, section 3.3): a gradient at most 5 times, a product with a Hessian at most 4 times those of the
    gradient.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, d = td.indices("n d")
    >>> A, x, v = td.TensorSymbol("A", (n, d)), td.TensorSymbol("x", d), td.TensorSymbol("v", d)
    >>> f = td.sum(td.exp(A @ x))
    >>> td.cost(f).operations
    2*d*n + 2*n
    >>> td.cost(td.gradient(f, x)).operations
    4*d*n + n
    >>> td.cost(td.hvp(f, x, v)), td.cost(td.hessian(f, x), sizes={n: 100, d: 10}).operations
    (ProgramCost(operations=6*d*n + 2*n, largest=d, memory=d + 3*n), 23100)
    """
    flat, _ = flatten(expr)
    exprs = [as_operand(e, "the expression") for e in flat]
    graph = Graph()
    reader = Reader(graph, scans="leaf")
    reader.use(exprs)
    for scan in nodes_in(exprs):
        if getattr(scan, "is_scan", False):
            reader.affine(scan.length)
    read_with_ranges(reader, exprs)
    hints = None if sizes is None else expected_sizes(reader, sizes)
    found = _with_scans(reader, exprs, hints)
    values = {} if hints is None else {Affine.variable(v): size for v, size in hints.sizes.items()}
    symbols: dict[Any, Any] = {}

    def symbol(variable: Any) -> Any:
        """Return the SymPy expression for a variable of a cost polynomial, which is a size: the number that the caller
        of `cost` gave for it, else its symbol.
        """
        form = Affine.variable(variable)
        if variable not in symbols:
            symbols[variable] = values.get(form) or write(reader, graph.index(form))
        return symbols[variable]

    def written(polynomial: Polynomial) -> Any:
        """Return a cost polynomial as a SymPy expression."""
        terms = (
            sympy.Mul(coefficient, *(sympy.Pow(symbol(v), exponent) for v, exponent in monomial))
            for monomial, coefficient in polynomial.terms.items()
        )
        return sympy.Add(*terms)

    return ProgramCost(written(found.operations), written(found.largest), written(found.memory))


def _with_scans(reader: Reader, exprs: Sequence[Any], hints: Hints | None) -> graph_cost.Cost:
    """Return the cost of evaluating ``exprs`` at the expected sizes ``hints``, including all time steps of the scans
    (loops over time) in them. Scans with the same recurrence run in one loop, whose cost is counted once.
    """
    recurrences: dict[Any, dict[Any, Any]] = {}
    roots, waiting = [*exprs], [*exprs]
    while waiting:
        for scan in scans_in([waiting.pop()]):
            together = recurrences.setdefault(scan.recurrence, {})
            if scan not in together:
                together[scan] = moved = step_constants(scan)[0]
                waiting += [*scan.outer, *moved]
                roots += [*scan.outer, *moved]
    nodes = recognise(reader.graph, read_with_ranges(reader, list(dict.fromkeys(roots))))
    total = graph_cost.cost(reader.graph, nodes, hints)
    for scans in recurrences.values():
        total = _with_recurrence(reader, total, scans, hints)
    return total


def _with_recurrence(
    reader: Reader, total: graph_cost.Cost, scans: Mapping[Any, Mapping[Any, Any]], hints: Hints | None
) -> graph_cost.Cost:
    """Return ``total``, a cost, plus the cost of all time steps of one recurrence. ``scans`` maps each scan with this
    recurrence to a dictionary: from its subexpressions that do not depend on the time to the variables that replace
    them.
    """
    first = next(iter(scans))
    rule = {v: ScanVariable(fresh_name(v.name), v.shape) for v in first.bound[:-1]}
    rule[first.time] = time = Time(fresh_name(first.time.name))
    moved = {expr: variable for own in scans.values() for expr, variable in own.items()}
    values = [scan.value.xreplace(moved) for scan in scans]
    updates = [(state.variable, state.update.xreplace(moved)) for state in first.states]
    needed = needed_states(updates, values)
    steps = [*values, *(update for variable, update in updates if variable in needed)]
    step = _with_scans(reader, [*dict.fromkeys(one.xreplace(rule) for one in steps)], hints)
    length = Polynomial.of(reader.affine(first.length))
    volumes = [Polynomial.of(1)]
    added = Polynomial()
    for scan in scans:
        volume = length if scan.kind != "last" else Polynomial.of(1)
        for extent in shape_of(scan.value):
            volume *= Polynomial.of(reader.affine(extent))
        added += volume if scan.kind == "sum" else Polynomial()
        volumes += [volume] if scan.kind == "stack" else []
    model = graph_cost.CostModel(reader.graph, hints or Hints())
    variable = reader.free.get(time)
    work = step.operations if variable is None else _at_last_time(step.operations, variable, length)
    return total._replace(
        operations=total.operations + work * length + added,
        largest=max(total.largest, step.largest, *volumes, key=model.value),
        memory=sum([total.memory, step.memory, *volumes[1:]], Polynomial()),
    )


def _at_last_time(polynomial: Polynomial, time: int, length: Polynomial) -> Polynomial:
    """Return a cost ``polynomial`` at the last time step: its variable number `time` is replaced by ``length - 1``."""
    total = Polynomial()
    for monomial, coefficient in polynomial.terms.items():
        term = Polynomial({tuple([pair for pair in monomial if pair[0] != time]): coefficient})
        for _ in range(dict(monomial).get(time, 0)):
            term *= length - 1
        total += term
    return total
