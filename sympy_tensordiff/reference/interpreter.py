"""The interpreter: sums, reads and comprehensions as plain loops over index tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import sympy
from sympy import Basic, Expr, Symbol

from sympy_tensordiff.errors import ArgumentError, IndexExpressionError, OutOfShapeError, UnsupportedError
from sympy_tensordiff.reference.duals import CONTEXT, Number, add, extremum, multiply, primal
from sympy_tensordiff.reference.inputs import ObjectArray, bind, is_tensor
from sympy_tensordiff.reference.scalars import SCALAR_RULES, Compiled, Environment, compile_function, take_functions
from sympy_tensordiff.reference.whole import RULES
from sympy_tensordiff.symbolic.lift import lift
from sympy_tensordiff.symbolic.partial_derivatives import distinct
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedReduction, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorEntry, TensorExpr, TensorSymbol, in_full

Reader: TypeAlias = Callable[[Environment, tuple[int, ...]], Number]


class Interpreter:
    """Expressions compiled to closures over the given values.

    Parameters
    ----------
    expressions : iterable of expressions
        Everything that is going to be evaluated, so that a missing value is found at once.
    values, sizes : mappings
        As in `evaluate`.
    total : bool
        As in `evaluate`.

    Attributes
    ----------
    functions : dict from undefined function to Lambda
    arrays : dict from tensor to object array
    numbers : dict from symbol to number
        The environment outside of all sums and comprehensions.
    """

    def __init__(
        self,
        expressions: Iterable[Expr],
        values: Mapping[Any, Any],
        sizes: Mapping[Any, Any] | None = None,
        *,
        total: bool = False,
    ) -> None:
        values, self.functions = take_functions(values)
        self.arrays, self.numbers = bind(expressions, values, sizes)
        self._compiled: dict[Basic, Compiled] = {}
        self._readers: dict[Basic, Reader] = {}
        self._wholes: dict[Basic, Callable[[Environment], ObjectArray]] = {}
        self.total = total

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(self, *exception: object) -> None:
        # The closures hold the interpreter, and it holds them, with all values: nobody waits for a garbage collection.
        self._compiled.clear()
        self._readers.clear()
        self._wholes.clear()

    def compile(self, node: Basic) -> Compiled:
        """The closure of a scalar or of a condition."""
        found = self._compiled.get(node)
        if found is None:
            found = self._compiled[node] = self._build(node)
        return found

    def _build(self, node: Basic) -> Compiled:
        if isinstance(node, IndexedReduction):
            return self._reduction(node)
        if isinstance(node, TensorEntry):
            return self._entry(node)
        if is_tensor(node) and len(node.shape) > 0:
            raise UnsupportedError(f"{node} is a tensor of shape {node.shape} where a scalar is needed")
        if isinstance(node, TensorExpr):
            reader = self.reader(node)
            return lambda env: reader(env, ())
        if isinstance(node, (Symbol, sympy.Idx)):
            return self._symbol(node)
        applied = compile_function(self.compile, self.functions, node)
        if applied is not None:
            return applied
        for kind in type(node).__mro__:
            rule = SCALAR_RULES.get(kind)
            if rule is not None:
                return rule(self.compile, node)
        raise UnsupportedError(f"the reference interpreter does not know {type(node).__name__}: {node}")

    def integer(self, node: Basic) -> Callable[[Environment], int]:
        """The closure of an index, a bound or an extent."""
        if isinstance(node, sympy.Integer):
            number = int(node)
            return lambda env: number
        closure = self.compile(node)

        def run(env: Environment) -> int:
            value = closure(env)
            if type(value) is int:
                return value
            value = primal(value)
            if value != int(value):
                raise IndexExpressionError(f"{node} is {value} here, which is no integer")
            return int(value)

        return run

    def points(self, limits: Iterable[Basic]) -> Callable[[Environment], Iterator[Environment]]:
        """The environments of a sum's index tuples; the first limit is the innermost loop."""
        loops = [(k, self.integer(lo), self.integer(hi)) for k, lo, hi in reversed(tuple(limits))]

        return lambda env: _points(loops, env)

    def _symbol(self, node: Basic) -> Compiled:
        def run(env: Environment) -> Number:
            try:
                return env[node]
            except KeyError:
                raise ArgumentError(f"no value given for {node}") from None

        return run

    def _reduction(self, node: IndexedReduction) -> Compiled:
        body, *limits = node.args
        value, environments, total = self.compile(body), self.points(limits), _REDUCTIONS[type(node)]
        return _once(node, lambda env: total([value(inner) for inner in environments(env)]))

    def _entry(self, node: TensorEntry) -> Compiled:
        reader = self.reader(node.tensor)
        indices = [self.integer(index) for index in node.indices]
        return lambda env: reader(env, tuple([index(env) for index in indices]))

    def shape(self, tensor: Expr) -> Callable[[Environment], tuple[int, ...]]:
        """The closure of the shape of a tensor."""
        extents = [sympy.sympify(extent) for extent in tensor.shape]
        if all(extent.is_Integer for extent in extents):
            numbers = tuple(map(int, extents))
            return lambda env: numbers
        closures = [self.integer(extent) for extent in extents]
        return lambda env: tuple(closure(env) for closure in closures)

    def reader(self, tensor: Expr) -> Reader:
        """The function that reads one entry of a tensor; outside of its shape that is an error, or 0."""
        found = self._readers.get(tensor)
        if found is None:
            if isinstance(tensor, TensorSymbol):
                array = self.arrays[tensor]
                unchecked: Reader = lambda env, position: array[position]  # noqa: E731
            elif isinstance(tensor, TensorComprehension):
                entry, axes = self.compile(tensor.args[0]), [limit[0] for limit in tensor.args[1:]]
                unchecked = _once(tensor, lambda env, at: entry({**env, **dict(zip(axes, at, strict=True))}))
            elif type(tensor) in RULES:
                unchecked = lambda env, position: self.array(tensor, env)[position]  # noqa: E731
            else:
                raise UnsupportedError(f"the reference interpreter does not know the tensor {tensor}")
            found = self._readers[tensor] = self._checked(tensor, unchecked)
        return found

    def _checked(self, tensor: Expr, unchecked: Reader) -> Reader:
        shape_at, total = self.shape(tensor), self.total

        def read(env: Environment, position: tuple[int, ...]) -> Number:
            shape = shape_at(env)
            for index, extent in zip(position, shape, strict=True):
                if not 0 <= index < extent:
                    if total:
                        return 0
                    raise OutOfShapeError(f"the read at {position} leaves the shape {shape} of {tensor}")
            return unchecked(env, position)

        return read

    def array(self, node: Expr, env: Environment) -> ObjectArray:
        """All entries of a tensor; an array without axes of a scalar."""
        if type(node) in RULES:
            if node not in self._wholes:
                self._wholes[node] = _once(node, lambda env: RULES[type(node)](self, node, env))
            return self._wholes[node](env)
        result = np.empty(self.shape(node)(env) if is_tensor(node) else (), dtype=object)
        for position in np.ndindex(result.shape):
            result[position] = self.reader(node)(env, position) if is_tensor(node) else self.compile(node)(env)
        return result

    def run(self, expression: Expr) -> Any:
        """The value of an expression: an object array of a tensor, otherwise one number."""
        result = self.array(expression, self.numbers)
        return result if result.ndim else result[()]


def _once(node: Basic, compute: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the environment, called once for all loops that a node does not depend on."""
    around = [s for s in node.free_symbols if isinstance(s, (Symbol, sympy.Idx))]
    memo: dict[tuple[Any, ...], Any] = {}

    def run(env: Environment, *position: tuple[int, ...]) -> Any:
        key = (*position, *[env.get(symbol) for symbol in around])
        if key not in memo:
            memo[key] = compute(env, *position)
        return memo[key]

    return run


def _points(
    loops: Sequence[tuple[Basic, Callable[[Environment], int], Callable[[Environment], int]]],
    env: Environment,
    depth: int = 0,
) -> Iterator[Environment]:
    """The environments of loops from the one at ``depth`` on, the outermost first."""
    if depth == len(loops):
        yield env
        return
    index, lo, hi = loops[depth]
    for value in range(lo(env), hi(env) + 1):
        inner = {**env, index: value}
        if depth + 1 == len(loops):
            yield inner
        else:
            yield from _points(loops, inner, depth + 1)


def exact(value: Any) -> Any:
    """Integers as fractions, in arrays too, so that a division by them stays exact."""
    if isinstance(value, np.ndarray):
        return np.asarray(np.frompyfunc(exact, 1, 1)(value), dtype=object)
    return Fraction(value) if isinstance(value, int) and not isinstance(value, bool) else value


def evaluate(
    expression: Any, values: Mapping[Any, Any], sizes: Mapping[Any, Any] | None = None, *, total: bool = False
) -> Any:
    """The value of an expression by plain loops, exact wherever its functions are rational.

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
        Whether a read outside of its tensor is 0, which is its value by definition, instead of an error. Calls are
        checked as without it.

    Returns
    -------
    number, object array, or a tuple of them
        A `Fraction` where everything is rational, otherwise an ``mpf``.

    Raises
    ------
    OutOfShapeError
        A read that takes place leaves the shape of its tensor, and reads are not ``total``.

    Examples
    --------
    >>> from sympy_tensordiff.symbolic.indices import indices
    >>> from sympy_tensordiff.symbolic.tensors import TensorSymbol
    >>> k = indices("k")
    >>> x = TensorSymbol("x", 3)
    >>> evaluate(IndexedSum(x[k] ** 2 / 2, (k, 0, 1)), {x: [1, 2, 7]})
    Fraction(5, 2)
    >>> evaluate(x[k] + 1, {x: [1, 2, 7], k: 3}, total=True)
    Fraction(1, 1)
    """
    several = isinstance(expression, (tuple, list, sympy.Tuple))
    given = map(sympy.sympify, expression if several else (expression,))
    expressions = [distinct(in_full(lift(e) if isinstance(e, sympy.MatrixExpr) else e)) for e in given]
    with Interpreter(expressions, values, sizes, total=total) as interpreter:
        results = tuple(exact(interpreter.run(e)) for e in expressions)
    return results if several else results[0]


def points(*limits: Any, values: Mapping[Any, Any] | None = None) -> list[tuple[int, ...]]:
    """The index tuples of a sum in the order of its loops, the first limit innermost.

    >>> i, k = sympy.symbols("i k", integer=True)
    >>> points((k, 0, i), (i, 0, 1))
    [(0, 0), (0, 1), (1, 1)]
    """
    limits_ = [sympy.Tuple(*limit) for limit in limits]
    indices = [limit[0] for limit in limits_]
    with Interpreter((), values or {}) as interpreter:
        return [tuple(env[k] for k in indices) for env in interpreter.points(limits_)(interpreter.numbers)]


def _extremum(direction: int) -> Callable[[Sequence[Number]], Number]:
    """The greatest or least of some numbers, of which those that are tied share the derivative; of none an infinity."""
    return lambda numbers: extremum(numbers, [False] * len(numbers), direction) if numbers else -direction * CONTEXT.inf


_REDUCTIONS: dict[type, Callable[[Sequence[Number]], Number]] = {
    IndexedSum: lambda numbers: reduce(add, numbers, 0),
    IndexedProduct: lambda numbers: reduce(multiply, numbers, 1),
    IndexedMax: _extremum(1),
    IndexedMin: _extremum(-1),
}
