"""`cost`: the operations and the memory of an expression, before a kernel is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import sympy

from sympy_tensordiff.codegen.run.results import flatten
from sympy_tensordiff.codegen.run.signature import expected_sizes
from sympy_tensordiff.graph import cost as graph_cost
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.polynomials import Polynomial
from sympy_tensordiff.simplify.facts import read_with_ranges
from sympy_tensordiff.simplify.recognition import recognise
from sympy_tensordiff.symbolic.lift import as_operand


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
    more than once as arrays. A derivative takes a small multiple of the operations of its function (Griewank & Walther
    2008, *Evaluating Derivatives*, section 3.3): a gradient at most 5 times, a product with a Hessian at most 4 times
    those of the gradient.

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
    reader = Reader(graph)
    reader.use(exprs)
    nodes = recognise(graph, read_with_ranges(reader, exprs))
    hints = None if sizes is None else expected_sizes(reader, sizes)
    found = graph_cost.cost(graph, nodes, hints)
    values = {} if hints is None else {Affine.variable(v): size for v, size in hints.sizes.items()}
    symbols: dict[Any, Any] = {}

    def symbol(variable: Any) -> Any:
        """Return the SymPy symbol or expression for a variable of a cost polynomial."""
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
