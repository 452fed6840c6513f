"""The interpreter: sums, reads and comprehensions as plain loops over index tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import sympy
from sympy import Basic, Expr, Symbol

from sympy_tensordiff.errors import ArgumentError, IndexExpressionError, OutOfShapeError, UnsupportedError
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.reference.duals import CONTEXT, Number, add, extremum, multiply, primal
from sympy_tensordiff.reference.inputs import ObjectArray, bind_values, is_tensor
from sympy_tensordiff.reference.scalars import (
    SCALAR_RULES,
    Compiled,
    SymbolValues,
    compile_function,
    split_off_functions,
)
from sympy_tensordiff.reference.tensor_rules import TENSOR_RULES
from sympy_tensordiff.symbolic.conversion.lift import lift
from sympy_tensordiff.symbolic.expressions.partial_derivatives import distinct
from sympy_tensordiff.symbolic.index_notation.sums import (
    IndexedMax,
    IndexedMin,
    IndexedProduct,
    IndexedReduction,
    IndexedSum,
)
from sympy_tensordiff.symbolic.index_notation.tensors import (
    TensorComprehension,
    TensorEntry,
    TensorExpr,
    TensorSymbol,
    in_full,
)

EntryReader: TypeAlias = Callable[[SymbolValues, tuple[int, ...]], Number]


class Interpreter:
    """Evaluates expressions by plain loops: expressions are compiled to Python functions of the given values, and these
    are called.

    `expressions` are those to be evaluated, so that a missing value raises at once; `values`, `sizes` and `total` are
    those of `evaluate`. `functions` maps undefined functions to `Lambda`, `arrays` tensors to object arrays, and
    `numbers`, the environment outside all sums and comprehensions, symbols to numbers.
    """

    def __init__(
        self,
        expressions: Iterable[Expr],
        values: Mapping[Any, Any],
        sizes: Mapping[Any, Any] | None = None,
        *,
        total: bool = False,
    ) -> None:
        values, self.functions = split_off_functions(values)
        self.arrays, self.numbers = bind_values(expressions, values, sizes)
        self._compiled: dict[Basic, Compiled] = {}
        self._readers: dict[Basic, EntryReader] = {}
        self._arrays_of_nodes: dict[Basic, Callable[[SymbolValues], ObjectArray]] = {}
        self.total = total

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(self, *exception: object) -> None:
        # Break the reference cycle of closures and interpreter, so that all values are freed at once.
        self._compiled.clear()
        self._readers.clear()
        self._arrays_of_nodes.clear()

    def inside(self, arrays: Mapping[Any, ObjectArray]) -> Interpreter:
        """Return an interpreter for one step of a scan: it knows the values ``arrays`` of tensors in addition to those
        that this one knows, and its cache is empty.
        """
        inner = Interpreter((), {}, total=self.total)
        inner.functions, inner.arrays, inner.numbers = self.functions, {**self.arrays, **arrays}, self.numbers
        return inner

    def compile(self, node: Basic) -> Compiled:
        """Return a function that evaluates a scalar or a condition, given the values of symbols (the environment);
        cached.
        """
        closure = self._compiled.get(node)
        if closure is None:
            closure = self._compiled[node] = self._compile_node(node)
        return closure

    def _compile_node(self, node: Basic) -> Compiled:
        """Return a function that evaluates the scalar or condition ``node``; raise `UnsupportedError` for a tensor or
        an unknown node.
        """
        if isinstance(node, IndexedReduction):
            return self._compile_reduction(node)
        if isinstance(node, TensorEntry):
            return self._compile_entry(node)
        if is_tensor(node) and len(node.shape) > 0:
            raise UnsupportedError(f"{node} is a tensor of shape {node.shape} where a scalar is needed")
        if isinstance(node, TensorExpr):
            reader = self.reader(node)
            return lambda env: reader(env, ())
        if isinstance(node, (Symbol, sympy.Idx)):
            return self._compile_symbol(node)
        applied = compile_function(self.compile, self.functions, node)
        if applied is not None:
            return applied
        for class_ in type(node).__mro__:
            rule = SCALAR_RULES.get(class_)
            if rule is not None:
                return rule(self.compile, node)
        raise UnsupportedError(f"the reference interpreter does not know {type(node).__name__}: {node}")

    def compile_integer(self, node: Basic) -> Callable[[SymbolValues], int]:
        """Return a function that evaluates an index, a bound or an extent to an int; it raises `IndexExpressionError`
        if the value is not an integer.
        """
        if isinstance(node, sympy.Integer):
            number = int(node)
            return lambda env: number
        closure = self.compile(node)

        def run(env: SymbolValues) -> int:
            """Return the value of the index expression as an int, given the values of symbols."""
            value = closure(env)
            if type(value) is int:
                return value
            value = primal(value)
            if value != int(value):
                raise IndexExpressionError(f"{node} is {value} here, which is not an integer")
            return int(value)

        return run

    def compile_points(self, limits: Iterable[Basic]) -> Callable[[SymbolValues], Iterator[SymbolValues]]:
        """Return a function that yields the values of symbols (an environment) for each point of a sum's ranges; the
        first limit is the innermost.
        """
        loops = [(k, self.compile_integer(low), self.compile_integer(high)) for k, low, high in reversed(tuple(limits))]

        return lambda env: _iterate_loops(loops, env)

    def _compile_symbol(self, node: Basic) -> Compiled:
        """Return a function that looks up the value of a symbol; it raises `ArgumentError` if there is none."""

        def run(env: SymbolValues) -> Number:
            """Return the value of the symbol in the environment ``env``."""
            try:
                return env[node]
            except KeyError:
                raise ArgumentError(f"no value given for {node}") from None

        return run

    def _compile_reduction(self, node: IndexedReduction) -> Compiled:
        """Return a function that evaluates a sum, product or extremum: it evaluates the body at all points and combines
        the values.
        """
        body, *limits = node.args
        value, environments, total = self.compile(body), self.compile_points(limits), _REDUCTIONS[type(node)]
        return _memoise(node, lambda env: total([value(inner) for inner in environments(env)]))

    def _compile_entry(self, node: TensorEntry) -> Compiled:
        """Return a function that evaluates an entry of a tensor."""
        reader = self.reader(node.tensor)
        indices = [self.compile_integer(index) for index in node.indices]
        return lambda env: reader(env, tuple([index(env) for index in indices]))

    def compile_shape(self, tensor: Expr) -> Callable[[SymbolValues], tuple[int, ...]]:
        """Return a function that evaluates the shape of ``tensor``, given the values of symbols (the environment)."""
        extents = [sympy.sympify(extent) for extent in tensor.shape]
        if all(extent.is_Integer for extent in extents):
            numbers = tuple(map(int, extents))
            return lambda env: numbers
        closures = [self.compile_integer(extent) for extent in extents]
        return lambda env: tuple(closure(env) for closure in closures)

    def reader(self, tensor: Expr) -> EntryReader:
        """Return a function that reads one entry of ``tensor``. Out of bounds it raises `OutOfShapeError`; if the
        interpreter is ``total``, it returns 0.
        """
        reader = self._readers.get(tensor)
        if reader is None:
            if isinstance(tensor, TensorSymbol):
                array = self.arrays[tensor]
                read_unchecked: EntryReader = lambda env, position: array[position]  # noqa: E731
            elif isinstance(tensor, TensorComprehension):
                entry, axes = self.compile(tensor.args[0]), [limit[0] for limit in tensor.args[1:]]
                read_unchecked = _memoise(tensor, lambda env, at: entry({**env, **dict(zip(axes, at, strict=True))}))
            elif type(tensor) in TENSOR_RULES:
                read_unchecked = lambda env, position: self.array(tensor, env)[position]  # noqa: E731
            else:
                raise UnsupportedError(f"the reference interpreter does not know the tensor {tensor}")
            reader = self._readers[tensor] = self._with_bounds_check(tensor, read_unchecked)
        return reader

    def _with_bounds_check(self, tensor: Expr, read_unchecked: EntryReader) -> EntryReader:
        """Return the function ``read_unchecked``, which reads an entry of ``tensor``, with a bounds check added."""
        shape_at, total = self.compile_shape(tensor), self.total

        def read(env: SymbolValues, position: tuple[int, ...]) -> Number:
            """Return the entry at ``position``, for the values ``env`` of symbols. If it is out of bounds, raise
            `OutOfShapeError`, or return 0 if the interpreter was made with ``total``.
            """
            shape = shape_at(env)
            for index, extent in zip(position, shape, strict=True):
                if not 0 <= index < extent:
                    if total:
                        return 0
                    raise OutOfShapeError(f"the read at {position} leaves the shape {shape} of {tensor}")
            return read_unchecked(env, position)

        return read

    def array(self, node: Expr, env: SymbolValues) -> ObjectArray:
        """Return all entries of the tensor ``node`` at the values ``env`` of symbols; for a scalar an array without
        axes.
        """
        if type(node) in TENSOR_RULES:
            if node not in self._arrays_of_nodes:
                self._arrays_of_nodes[node] = _memoise(node, lambda env: TENSOR_RULES[type(node)](self, node, env))
            return self._arrays_of_nodes[node](env)
        result = np.empty(self.compile_shape(node)(env) if is_tensor(node) else (), dtype=object)
        for position in np.ndindex(result.shape):
            result[position] = self.reader(node)(env, position) if is_tensor(node) else self.compile(node)(env)
        return result

    def run(self, expression: Expr) -> Any:
        """Return the value of ``expression``: an object array for a tensor, otherwise one number."""
        result = self.array(expression, self.numbers)
        return result if result.ndim else result[()]


def _memoise(node: Basic, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``compute`` with a cache of its results, by the values of the free symbols of ``node``: a loop over an
    index that does not occur in ``node`` then does not compute them again.
    """
    free_symbols = [s for s in node.free_symbols if isinstance(s, (Symbol, sympy.Idx))]
    memo: dict[tuple[Any, ...], Any] = {}

    def from_cache(env: SymbolValues, *position: tuple[int, ...]) -> Any:
        """Return the value of a compiled expression at the index ``position`` for the symbol values ``env``, from the
        cache if it was computed before.
        """
        key = (*position, *[env.get(symbol) for symbol in free_symbols])
        if key not in memo:
            memo[key] = compute(env, *position)
        return memo[key]

    return from_cache


def _iterate_loops(
    loops: Sequence[tuple[Basic, Callable[[SymbolValues], int], Callable[[SymbolValues], int]]],
    env: SymbolValues,
    depth: int = 0,
) -> Iterator[SymbolValues]:
    """Yield ``env`` with the values of the loop indices added, for each iteration of the nested ``loops``, tuples
    ``(index, first, last)``, outermost first.

    The ends are functions of the values so far. The loops before ``depth`` have their values in ``env``.
    """
    if depth == len(loops):
        yield env
        return
    index, low, high = loops[depth]
    for value in range(low(env), high(env) + 1):
        inner = {**env, index: value}
        if depth + 1 == len(loops):
            yield inner
        else:
            yield from _iterate_loops(loops, inner, depth + 1)


def to_exact(value: Any) -> Any:
    """Convert integers to fractions, in arrays too, so that divisions stay exact; any other value unchanged."""
    if isinstance(value, np.ndarray):
        return np.asarray(np.frompyfunc(to_exact, 1, 1)(value), dtype=object)
    return Fraction(value) if isinstance(value, int) and not isinstance(value, bool) else value


def evaluate(
    expression: Any, values: Mapping[Any, Any], sizes: Mapping[Any, Any] | None = None, *, total: bool = False
) -> Any:
    """Return the value of an expression by plain loops, exact if all of its functions are rational. A read out of
    bounds raises `OutOfShapeError`; with `total` it is 0.

    Parameters
    ----------
    expression : scalar, condition, tensor expression, matrix expression of SymPy's, or a tuple of them
    values : mapping
        Tensor symbols to nested lists or arrays; scalar, index and size symbols to numbers;
        undefined functions to a `sympy.Lambda`. Integers and fractions are exact, floats become
        30-digit floats.
    sizes : mapping, optional
        Further symbols; sizes that the shapes determine need not be given.
    total : bool
        Whether a read out of bounds is 0, its value by definition, instead of an error. The arguments are checked in
        either case.

    Returns
    -------
    number, object array, or a tuple of them
        A `Fraction` where everything is rational, otherwise an ``mpf``.

    Raises
    ------
    OutOfShapeError
        If an evaluated read is out of bounds, and reads are not ``total``.

    Examples
    --------
    >>> from sympy_tensordiff.symbolic.index_notation.indices import indices
    >>> from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
    >>> k = indices("k")
    >>> x = TensorSymbol("x", 3)
    >>> evaluate(IndexedSum(x[k] ** 2 / 2, (k, 0, 1)), {x: [1, 2, 7]})
    Fraction(5, 2)
    >>> evaluate(x[k] + 1, {x: [1, 2, 7], k: 3}, total=True)
    Fraction(1, 1)
    """
    is_sequence = isinstance(expression, (tuple, list, sympy.Tuple))
    inputs = map(sympy.sympify, expression if is_sequence else (expression,))
    expressions = [distinct(in_full(lift(e) if isinstance(e, sympy.MatrixExpr) else e)) for e in inputs]
    with Interpreter(expressions, values, sizes, total=total) as interpreter:
        results = tuple(to_exact(interpreter.run(e)) for e in expressions)
    return results if is_sequence else results[0]


def points(*limits: Any, values: Mapping[Any, Any] | None = None) -> list[tuple[int, ...]]:
    """Return the index tuples over which a sum with these ``limits`` runs, in the order of its loops; the first limit
    is innermost. ``values`` maps symbols in the limits, such as sizes, to their values.

    >>> i, k = sympy.symbols("i k", integer=True)
    >>> points((k, 0, i), (i, 0, 1))
    [(0, 0), (0, 1), (1, 1)]
    """
    limits_ = [sympy.Tuple(*limit) for limit in limits]
    indices = [limit[0] for limit in limits_]
    with Interpreter((), values or {}) as interpreter:
        return [tuple(env[k] for k in indices) for env in interpreter.compile_points(limits_)(interpreter.numbers)]


def _extremum_of(direction: int) -> Callable[[Sequence[Number]], Number]:
    """Return a function for the maximum (``direction`` 1) or minimum (-1) of a list of numbers; of an empty list it is
    minus or plus infinity.
    """
    return lambda numbers: extremum(numbers, [False] * len(numbers), direction) if numbers else -direction * CONTEXT.inf


_REDUCTIONS: dict[type, Callable[[Sequence[Number]], Number]] = {
    IndexedSum: lambda numbers: reduce(add, numbers, 0),
    IndexedProduct: lambda numbers: reduce(multiply, numbers, 1),
    IndexedMax: _extremum_of(1),
    IndexedMin: _extremum_of(-1),
}
