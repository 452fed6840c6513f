"""Expressions as functions of arrays whose pushforward and pullback are functions of the same kind, to any order.

JAX and PyTorch differentiate by two rules for each function. Here a rule creates another function of the same kind at
its first use, so that both libraries can differentiate it again by the same rules.
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
from sympy_tensordiff.structure.values import direction_symbols
from sympy_tensordiff.symbolic.conversion.lift import as_operand
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

Shape: TypeAlias = tuple[int, ...]
Step: TypeAlias = tuple[Any, ...]
Path: TypeAlias = tuple[Step, ...]


def import_optional(name: str, title: str, extra: str) -> Any:
    """Import and return the library ``name``; if it is missing, raise `BackendError` with the advice to install
    ``extra``. ``title`` is the library's name in the message.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BackendError(f"{title} is not installed ({error}): pip install '.[{extra}]'") from error


def merge_arguments(function: BridgedFunction, arrays: Sequence[Any], integers: Sequence[Any]) -> list[Any]:
    """Merge ``arrays`` and ``integers`` into one list, in the order of the function's arguments."""
    rest, numbers = iter(arrays), iter(integers)
    count = len(arrays) + len(integers)
    return [next(numbers) if position in function.integers else next(rest) for position in range(count)]


class BridgedFunction:
    """A function made for another library (JAX or PyTorch): its arguments, its expressions, and the arguments with
    respect to which it can be differentiated.

    `labels` are the names of the arguments `args`; `integers` are the positions of sizes and indices, `variables` those
    of the arguments to differentiate with respect to. `is_tuple` says whether the result is a tuple. `key` is a name
    that is valid in other processes, or empty.
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
        self.variables = self._positions_of_wrt(wrt)
        self.checker = ArgumentChecker(self.operator.kernel.program, may_be_empty=True)

    def _positions_of_wrt(self, wrt: Any) -> frozenset[int]:
        """Return the positions of the arguments in ``wrt``; of all real arguments for None. Raise `ArgumentError` if
        one is not a real argument.
        """
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
        """Return the shapes of the results. ``given`` has, for each argument, the shape of an array or the value of an
        integer.
        """
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


class _DerivableOperator:
    """Base class of operators: functions of arrays that another array library (JAX, PyTorch) calls and differentiates.
    From each operator, three kinds of operators can be derived, and are cached: its pushforward (jvp), its pullback
    (vjp), and its application to batches.

    `path` has the steps from the operator of the function to this one.
    """

    path: Path
    autograd: Any = None
    """The autograd function of PyTorch of an operator that is a program of PyTorch, once it is created."""
    _derived: dict[Step, Any]

    def pushforward(self, positions: tuple[int, ...]) -> Any:
        """Return the operator that computes the tangents of all outputs of this operator, cached. It takes the
        arguments of this operator, then the tangents of those at ``positions``.
        """
        return self.derive(("pushforward", positions))

    def pullback(self, positions: tuple[int, ...], given: tuple[int, ...]) -> Any:
        """Return the operator that computes the cotangents of the arguments at ``positions`` (cached). Besides the
        arguments, it takes the cotangents of the outputs with the numbers ``given``; those of other outputs are 0.
        """
        return self.derive(("pullback", positions, given))

    def batched(self, flags: tuple[bool, ...]) -> Any:
        """Return the operator that applies this one for each index along a new leading axis (a batch); it is cached.
        Arguments with a true flag in ``flags`` have this axis, the others are the same for the whole batch.
        """
        return self.derive(("batched", flags))

    def derive(self, step: Step) -> Any:
        """Return the operator that ``step`` derives from this one. A step is a tuple of the name of a derivation and
        its arguments: ``("batched", flags)`` calls the method ``_batched`` with ``flags``. The result is cached.
        """
        if step not in self._derived:
            self._derived[step] = result = getattr(self, f"_{step[0]}")(*step[1:])
            result.path = (*self.path, step)
        return self._derived[step]


class Operator(_DerivableOperator):
    """A function of arrays, for use in another library such as JAX, that computes ``outputs`` (expressions) from
    ``args`` (symbols). The operators derived from it compute its derivatives.

    The arguments `args` begin with those of `function`, from which the operator is derived. ``kinds[n]`` says of which
    shape argument ``n`` is: that of argument ``k`` of the function, or ``~k`` for its result ``k``; ``output_kinds``
    says the same of the outputs. The outputs are jointly linear in the arguments at the positions `linear`.
    """

    def __init__(
        self,
        function: BridgedFunction,
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
        self._derived: dict[Step, Any] = {}

    @cached_property
    def kernel(self) -> Any:
        """The compiled function of the operator's expressions, created at the first call."""
        return lambdify(self.args, self.outputs, self.function.backend, **self.function.options)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        with self._lock:  # the libraries call from their own threads
            return tuple(self.kernel(*values))

    def trace(self, vmap: Callable[..., Any], values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results for ``values``, computed by operations of an array library such as JAX, so that the
        library can trace them. ``vmap``, a function of the library, is not used here, but in `Batched`.
        """
        with self._lock:
            kernel = self.kernel
        return tuple(kernel(*values))

    def shapes(self, given: Sequence[Any]) -> list[Shape]:
        """Return the shapes of the outputs. ``given`` has, for each argument, the shape of an array or the value of an
        integer.
        """
        count = len(self.function.args)
        results = self.function.shapes(given[:count])
        return [tuple(given[k]) if k >= 0 else results[~k] for k in self.output_kinds]

    def unused_by_pullback(self, positions: Sequence[int]) -> tuple[int, ...]:
        """Return the positions of the arguments whose values are not needed to compute the cotangents of the arguments
        at ``positions``, because the outputs are linear in them.
        """
        return self.linear if set(positions) <= set(self.linear) else ()

    def _pushforward(self, positions: tuple[int, ...]) -> Operator:
        """Create the operator that computes the tangents of all outputs from those of the arguments at ``positions``;
        `pushforward` calls this once.
        """
        variables = tuple(self.args[p] for p in positions)
        tangents = direction_symbols(variables, self.args, "tangent")
        outputs = tuple(jvp(output, variables, tangents) for output in self.outputs)
        kinds = (*self.kinds, *(self.kinds[p] for p in positions))
        last = tuple(range(len(self.args), len(kinds)))
        return Operator(self.function, (*self.args, *tangents), kinds, outputs, self.output_kinds, last)

    def _pullback(self, positions: tuple[int, ...], given: tuple[int, ...]) -> Operator:
        """Create the operator of reverse mode: it computes the cotangents of the arguments numbered ``positions`` from
        the cotangents of the outputs numbered ``given``.

        `pullback` calls this once.
        """
        cotangents = direction_symbols([self.outputs[k] for k in given], self.args, "cotangent")
        variables = tuple(self.args[p] for p in positions)
        parts = [vjp(self.outputs[k], variables, c) for k, c in zip(given, cotangents, strict=True)]
        outputs = tuple(sum(column[1:], column[0]) for column in zip(*parts, strict=True))
        rest = [p for p in range(len(self.args)) if p not in self.unused_by_pullback(positions)]
        kinds = (*(self.kinds[p] for p in rest), *(self.output_kinds[k] for k in given))
        last = tuple(range(len(rest), len(kinds)))
        args = (*(self.args[p] for p in rest), *cotangents)
        return Operator(self.function, args, kinds, outputs, tuple(self.kinds[p] for p in positions), last)

    def _batched(self, flags: tuple[bool, ...]) -> Batched:
        """Create the operator that applies this one to each entry along a leading axis of those arguments whose flag in
        ``flags`` is true. `batched` calls this once, and stores the result.
        """
        return Batched(self, flags, (False,) * len(self.outputs))


class Batched(_DerivableOperator):
    """An operator applied along a leading axis: to each entry of the arguments with that axis, and to the other
    arguments as they are.

    Arguments with a true flag in `flags` have the axis. Outputs with a true flag in `summed` are summed over it, all
    others have it.
    """

    def __init__(self, inner: Any, flags: tuple[bool, ...], summed: tuple[bool, ...]) -> None:
        self.inner, self.flags, self.summed = inner, flags, summed
        self.function, self.linear, self.arity = inner.function, inner.linear, inner.arity
        self.outputs, self.unused_by_pullback = inner.outputs, inner.unused_by_pullback
        self.path: Path = ()
        self._derived: dict[Step, Any] = {}

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

    def trace(self, vmap: Callable[..., Any], values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results for a whole batch, computed by operations of an array library: its function ``vmap`` maps
        the inner operator over the batch axis of the arguments ``values``.
        """
        integers = self.function.integers
        numbers = [value for position, value in enumerate(values) if position in integers]

        def each(*arrays: Any) -> tuple[Any, ...]:
            """Return the results of the operator for ``arrays``, the arguments of one call without a batch axis; the
            array library maps this function over the batch.

            Integer arguments are those of the enclosing function.
            """
            found: tuple[Any, ...] = self.inner.trace(vmap, merge_arguments(self.function, arrays, numbers))
            return found

        axes = tuple([0 if flag else None for position, flag in enumerate(self.flags) if position not in integers])
        results = vmap(each, axes)(*[value for position, value in enumerate(values) if position not in integers])
        return tuple([r.sum(0) if total else r for r, total in zip(results, self.summed, strict=True)])

    def shapes(self, given: Sequence[Any]) -> list[Shape]:
        """Return the shapes of the outputs for a whole batch of calls. ``given`` has the shape of each array argument
        and the value of each integer argument.
        """
        length = self._length(given)
        inner = self.inner.shapes([shape[1:] if flag else shape for shape, flag in zip(given, self.flags, strict=True)])
        return [s if total else (length, *s) for s, total in zip(inner, self.summed, strict=True)]

    def _length(self, given: Sequence[Any]) -> int:
        """Return the length of the leading axis along which the operator is applied. ``given`` are the shapes of the
        arguments, some of which have this axis.
        """
        return next(int(shape[0]) for shape, flag in zip(given, self.flags, strict=True) if flag)

    def _pushforward(self, positions: tuple[int, ...]) -> Batched:
        """Create the operator that computes the tangents of all outputs from those of the arguments at ``positions``,
        for a batch of calls. Call `pushforward` instead, which caches it.
        """
        return Batched(
            self.inner.pushforward(positions), (*self.flags, *(self.flags[p] for p in positions)), self.summed
        )

    def _pullback(self, positions: tuple[int, ...], given: tuple[int, ...]) -> Batched:
        """Create the operator that computes the cotangents of the arguments at ``positions`` from those of the outputs
        with the numbers ``given``. Cotangents of arguments without the batch axis are summed over it.
        """
        rest = [flag for p, flag in enumerate(self.flags) if p not in self.unused_by_pullback(positions)]
        flags = (*rest, *(not self.summed[k] for k in given))
        return Batched(self.inner.pullback(positions, given), flags, tuple(not self.flags[p] for p in positions))

    def _batched(self, flags: tuple[bool, ...]) -> Batched:
        """Create the operator that applies this one to each entry along a further leading axis of those arguments whose
        flag in ``flags`` is true. `batched` calls this once, and stores the result.
        """
        return Batched(self, flags, (False,) * len(self.outputs))


# ---------------------------------------------------------------------------- the rules of both libraries


def apply_pullback(
    apply: Callable[..., Any], operator: Any, values: Sequence[Any], positions: Sequence[int], cotangents: Sequence[Any]
) -> list[Any]:
    """Return the cotangents of those arguments of ``operator`` that are at ``positions``, given the ``cotangents`` of
    its results; None for other arguments. ``values`` are all arguments. It is the backward rule of JAX and PyTorch.

    If all cotangents are None, so are all results. ``apply`` calls an operator.
    """
    given = tuple(k for k, c in enumerate(cotangents) if c is not None)
    results: list[Any] = [None] * len(values)
    if positions and given:
        unused_by_pullback = operator.unused_by_pullback(positions)
        rest = [v for p, v in enumerate(values) if p not in unused_by_pullback]
        cotangents_of_arguments = apply(
            operator.pullback(tuple(positions), given), *rest, *(cotangents[k] for k in given)
        )
        for position, cotangent in zip(positions, cotangents_of_arguments, strict=True):
            results[position] = cotangent
    return results


def apply_over_axis(
    apply: Callable[..., Any], to_front: Callable[..., Any], operator: Any, values: Sequence[Any], axes: Sequence[Any]
) -> Any:
    """Return the results of ``operator`` mapped over one axis of its arguments ``values``, as ``vmap`` of JAX and
    PyTorch needs it. In each result, this axis is the first one.

    ``axes`` has the number of the axis in each argument (None: no such axis). ``to_front(value, axis)`` moves an axis
    to the front, ``apply`` calls an operator.
    """
    with_leading_axis = [
        value if axis is None else to_front(value, axis) for value, axis in zip(values, axes, strict=True)
    ]
    return apply(operator.batched(tuple(axis is not None for axis in axes)), *with_leading_axis)
