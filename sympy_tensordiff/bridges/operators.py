"""Expressions as functions of arrays whose pushforward and pullback are such functions again, to any order.

JAX and PyTorch differentiate by two rules for each function. Here a rule makes another function of the same kind, when
it is first asked for, so that both libraries differentiate it by the same rules again.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import sympy

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.codegen.ir.sizes import EmptyAxes
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker
from sympy_tensordiff.derivative.api import jvp, vjp
from sympy_tensordiff.errors import ArgumentError, BackendError
from sympy_tensordiff.structure.values import directions_of
from sympy_tensordiff.symbolic.lift import as_operand
from sympy_tensordiff.symbolic.tensors import TensorSymbol

Shape: TypeAlias = tuple[int, ...]
Step: TypeAlias = tuple[Any, ...]
Path: TypeAlias = tuple[Step, ...]


def library(name: str, title: str, extra: str) -> Any:
    """A module of an optional library."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BackendError(f"{title} is not installed ({error}): pip install '.[{extra}]'") from error


def with_integers(function: Function, arrays: Sequence[Any], integers: Sequence[Any]) -> list[Any]:
    """What belongs to all arguments in order, from what belongs to arrays and to integers."""
    rest, numbers = iter(arrays), iter(integers)
    count = len(arrays) + len(integers)
    return [next(numbers) if position in function.integers else next(rest) for position in range(count)]


class Function:
    """What a user hands over: arguments, expressions, and which arguments are differentiated.

    Attributes
    ----------
    args : tuple
    labels : list of str
        The names of the arguments.
    integers : frozenset of int
        The positions of arguments that are integers: sizes and indices.
    variables : frozenset of int
        The positions of arguments that derivatives are for.
    is_tuple : bool
        Whether the result is a tuple.
    key : str
        A name for other processes, where one is given.
    """

    def __init__(self, args: Any, expr: Any, wrt: Any, backend: str, options: Mapping[str, Any]) -> None:
        if isinstance(args, sympy.Expr) and not isinstance(args, TensorSymbol | sympy.Symbol):
            expr, wrt = args, wrt if expr is None else expr  # the short form, (expr, wrt)
            args = wrt if wrt is not None else ()
        self.args = tuple(args) if isinstance(args, Sequence | sympy.Tuple) else (args,)
        self.is_tuple = isinstance(expr, tuple | list)
        outputs = tuple(as_operand(e, "the expression") for e in (expr if self.is_tuple else (expr,)))
        self.backend, self.options = backend, dict(options)
        self.key = ""
        self.labels = [str(getattr(arg, "name", arg)) for arg in self.args]
        self.operator = Operator(
            self, self.args, tuple(range(len(self.args))), outputs, tuple(~k for k in range(len(outputs)))
        )
        arguments = self.operator.kernel.program.arguments
        self.integers = frozenset(p for p, a in enumerate(arguments) if a.kind == "integer")
        self.reals = frozenset(p for p, a in enumerate(arguments) if a.dtype == "real") - self.integers
        self.variables = self._variables(wrt)
        self.checker = ArgumentChecker(self.operator.kernel.program, may_be_empty=True)

    def _variables(self, wrt: Any) -> frozenset[int]:
        if wrt is None:
            return self.reals
        variables = tuple(wrt) if isinstance(wrt, tuple | list | sympy.Tuple) else (wrt,)
        for variable in variables:
            if variable not in self.args:
                raise ArgumentError(f"{variable} is in wrt, but not in args: add it to args")
            if self.args.index(variable) not in self.reals:
                raise ArgumentError(
                    f"{variable} is in wrt, but holds integers: there is no derivative with respect to it"
                )
        return frozenset(self.args.index(variable) for variable in variables)

    def shapes(self, given: Sequence[Any]) -> list[Shape]:
        """The shapes of the results for the shapes of arrays, and the values of integers."""
        program = self.operator.kernel.program
        for argument, shape in zip(program.arguments, given, strict=True):
            if argument.kind != "integer" and len(shape) != len(argument.shape):
                raise ArgumentError(
                    f"argument {argument.label} has the shape {tuple(shape)}, an array of {len(argument.shape)} axes "
                    "is needed"
                )
        kinds = [argument.kind == "integer" for argument in program.arguments]
        try:
            arrays = [v if integer else SimpleNamespace(shape=v) for integer, v in zip(kinds, given, strict=True)]
            sizes = self.checker.sizes(arrays)
        except EmptyAxes as empty:
            sizes = dict(empty.values)
        return [tuple(form.evaluate(sizes) for form in output.shape) for output in program.outputs]


class _Derivable:
    """What makes other operators out of one, each once.

    Attributes
    ----------
    path : tuple
        The steps from the operator of the function to this one.
    """

    path: Path
    _made: dict[Step, Any]

    def pushforward(self, positions: tuple[int, ...]) -> Any:
        """The derivatives of all outputs along tangents of the arguments at ``positions``; these come last."""
        return self.after(("pushforward", positions))

    def pullback(self, positions: tuple[int, ...], given: tuple[int, ...]) -> Any:
        """The cotangents of the arguments at ``positions``, from those of the outputs ``given``; these come last."""
        return self.after(("pullback", positions, given))

    def batched(self, flags: tuple[bool, ...]) -> Any:
        """The operator for each entry of a leading axis of the arguments that are flagged."""
        return self.after(("batched", flags))

    def after(self, step: Step) -> Any:
        """The operator that a step makes."""
        if step not in self._made:
            self._made[step] = result = getattr(self, f"_{step[0]}")(*step[1:])
            result.path = (*self.path, step)
        return self._made[step]


class Operator(_Derivable):
    """Expressions as a function of arrays.

    Parameters
    ----------
    function : Function
        Where they come from; its arguments are the first ones.
    args : tuple
        The symbols of the arguments.
    kinds : tuple of int
        What has the shape of each argument: argument ``k`` of the function, or its result ``~k``.
    outputs : tuple of Expr
    output_kinds : tuple of int
        As ``kinds``, for the outputs.
    linear : tuple of int
        The positions of arguments that the outputs are linear in, in all of them together.
    """

    def __init__(
        self,
        function: Function,
        args: tuple[Any, ...],
        kinds: tuple[int, ...],
        outputs: tuple[Any, ...],
        output_kinds: tuple[int, ...],
        linear: tuple[int, ...] = (),
    ) -> None:
        self.function, self.args, self.kinds, self.arity = function, args, kinds, len(args)
        self.outputs, self.output_kinds, self.linear = outputs, output_kinds, linear
        self.path: Path = ()
        self._lock = threading.Lock()
        self._made: dict[Step, Any] = {}

    @cached_property
    def kernel(self) -> Any:
        """The compiled function; operators that are only differentiated further have none."""
        return lambdify(self.args, self.outputs, self.function.backend, **self.function.options)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        with self._lock:  # the libraries call from threads of their own
            return tuple(self.kernel(*values))

    def shapes(self, given: Sequence[Any]) -> list[Shape]:
        """The shapes of the outputs for the shapes of arrays, and the values of integers."""
        count = len(self.function.args)
        results = self.function.shapes(given[:count])
        return [tuple(given[k]) if k >= 0 else results[~k] for k in self.output_kinds]

    def left_out(self, positions: Sequence[int]) -> tuple[int, ...]:
        """The arguments whose values the pullback to ``positions`` does not take: it is linear in them."""
        return self.linear if set(positions) <= set(self.linear) else ()

    def _pushforward(self, positions: tuple[int, ...]) -> Operator:
        moved = tuple(self.args[p] for p in positions)
        tangents = directions_of(moved, self.args, "tangent")
        outputs = tuple(jvp(output, moved, tangents) for output in self.outputs)
        kinds = (*self.kinds, *(self.kinds[p] for p in positions))
        last = tuple(range(len(self.args), len(kinds)))
        return Operator(self.function, (*self.args, *tangents), kinds, outputs, self.output_kinds, last)

    def _pullback(self, positions: tuple[int, ...], given: tuple[int, ...]) -> Operator:
        cotangents = directions_of([self.outputs[k] for k in given], self.args, "cotangent")
        variables = tuple(self.args[p] for p in positions)
        parts = [vjp(self.outputs[k], variables, c) for k, c in zip(given, cotangents, strict=True)]
        outputs = tuple(sum(column[1:], column[0]) for column in zip(*parts, strict=True))
        rest = [p for p in range(len(self.args)) if p not in self.left_out(positions)]
        kinds = (*(self.kinds[p] for p in rest), *(self.output_kinds[k] for k in given))
        last = tuple(range(len(rest), len(kinds)))
        args = (*(self.args[p] for p in rest), *cotangents)
        return Operator(self.function, args, kinds, outputs, tuple(self.kinds[p] for p in positions), last)

    def _batched(self, flags: tuple[bool, ...]) -> Batched:
        return Batched(self, flags, (False,) * len(self.outputs))


class Batched(_Derivable):
    """An operator for each entry of a leading axis.

    Parameters
    ----------
    inner : Operator or Batched
    flags : tuple of bool
        Which arguments have the axis.
    summed : tuple of bool
        Which outputs are summed over the axis; the others have it.
    """

    def __init__(self, inner: Any, flags: tuple[bool, ...], summed: tuple[bool, ...]) -> None:
        self.inner, self.flags, self.summed = inner, flags, summed
        self.function, self.linear, self.arity = inner.function, inner.linear, inner.arity
        self.outputs, self.left_out = inner.outputs, inner.left_out
        self.path: Path = ()
        self._made: dict[Step, Any] = {}

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        given = [v.shape if isinstance(v, np.ndarray) else v for v in values]
        types = [v.dtype for v in values if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
        results = [np.zeros(shape, np.result_type(*types) if types else np.float64) for shape in self.shapes(given)]
        for b in range(self._length(given)):
            parts = self.inner(*[v[b] if flag else v for v, flag in zip(values, self.flags, strict=True)])
            for result, part, total in zip(results, parts, self.summed, strict=True):
                if total:
                    result += part
                else:
                    result[b] = part
        return tuple(results)

    def shapes(self, given: Sequence[Any]) -> list[Shape]:
        """As those of an operator."""
        length = self._length(given)
        inner = self.inner.shapes([shape[1:] if flag else shape for shape, flag in zip(given, self.flags, strict=True)])
        return [s if total else (length, *s) for s, total in zip(inner, self.summed, strict=True)]

    def _length(self, given: Sequence[Any]) -> int:
        return next(int(shape[0]) for shape, flag in zip(given, self.flags, strict=True) if flag)

    def _pushforward(self, positions: tuple[int, ...]) -> Batched:
        return Batched(
            self.inner.pushforward(positions), (*self.flags, *(self.flags[p] for p in positions)), self.summed
        )

    def _pullback(self, positions: tuple[int, ...], given: tuple[int, ...]) -> Batched:
        rest = [flag for p, flag in enumerate(self.flags) if p not in self.left_out(positions)]
        flags = (*rest, *(not self.summed[k] for k in given))
        return Batched(self.inner.pullback(positions, given), flags, tuple(not self.flags[p] for p in positions))

    def _batched(self, flags: tuple[bool, ...]) -> Batched:
        return Batched(self, flags, (False,) * len(self.outputs))


# ---------------------------------------------------------------------------- the rules of both libraries


def pulled_back(
    apply: Callable[..., Any], operator: Any, values: Sequence[Any], positions: Sequence[int], cotangents: Sequence[Any]
) -> list[Any]:
    """The cotangents of the arguments at ``positions``, None for all others and where those of the outputs are None."""
    given = tuple(k for k, c in enumerate(cotangents) if c is not None)
    results: list[Any] = [None] * len(values)
    if positions and given:
        left_out = operator.left_out(positions)
        rest = [v for p, v in enumerate(values) if p not in left_out]
        pulled = apply(operator.pullback(tuple(positions), given), *rest, *(cotangents[k] for k in given))
        for position, cotangent in zip(positions, pulled, strict=True):
            results[position] = cotangent
    return results


def over_axis(
    apply: Callable[..., Any], to_front: Callable[..., Any], operator: Any, values: Sequence[Any], axes: Sequence[Any]
) -> Any:
    """The results for each entry of an axis, which comes first in them; None for arguments without it."""
    moved = [value if axis is None else to_front(value, axis) for value, axis in zip(values, axes, strict=True)]
    return apply(operator.batched(tuple(axis is not None for axis in axes)), *moved)
