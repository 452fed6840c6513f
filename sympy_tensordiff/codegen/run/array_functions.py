"""Callables of array libraries that trace programs: JAX, PyTorch and CuPy compute what the printed text says."""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sympy_tensordiff.codegen.emit.arrays import print_arrays
from sympy_tensordiff.codegen.emit.dialects import DIALECTS, PURE
from sympy_tensordiff.codegen.ir.programs import Program
from sympy_tensordiff.codegen.ir.sizes import MAX_EMPTY_AXIS_PROGRAMS, Builder, EmptyAxes, Sizes, check_determined
from sympy_tensordiff.codegen.ir.walk import externals
from sympy_tensordiff.codegen.lower.externals import bind, called
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker
from sympy_tensordiff.codegen.run.cache import load_source
from sympy_tensordiff.codegen.run.compute import with_pure_compute
from sympy_tensordiff.codegen.run.modules import lease
from sympy_tensordiff.codegen.run.plan_text import plan_text
from sympy_tensordiff.codegen.run.signature import documentation, in_order, signature
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, BackendError
from sympy_tensordiff.lazy import numpy as np


def print_array_module(program: Program, backend: str) -> str:
    """Return the text of the module of a program for an array library, with its function ``compute``."""
    check_determined(program)
    dialect = DIALECTS[backend]
    return with_pure_compute(print_arrays(prepared(program, backend), dialect), program, dialect)


def _for_empty_axes(build: Any, backend: str, functions: Any, sizes: Sizes) -> ArrayFunction:
    """Return the compiled function of arrays for a call in which some axis has length 0. ``build(sizes)`` returns its
    program, given these ``sizes``; ``functions`` are the user's implementations of undefined functions.
    """
    program: Program = build(sizes)
    return ArrayFunction(program, backend, called(functions, externals(program)))


class ArrayFunction:
    """A function of the arrays of JAX, PyTorch or CuPy, made by `lambdify`: its results are arrays of that library.

    A call runs the text in ``source``, all of whose operations are those of the library: it can be traced,
    differentiated, batched and compiled there, and runs on the device of the arguments. Nothing is changed in place. An
    entry of an index array that selects nothing is not refused: reads follow the library's rules.

    Attributes
    ----------
    program : Program
        The loop nests it was printed from.
    backend : str
    functions : dict
        The implementations of user functions, as given: functions of arrays of the library.
    source : str
        The text of the module, as `generate_code` returns it.
    """

    def __init__(
        self,
        program: Program,
        backend: str,
        functions: Mapping[Any, Callable[..., Any]] | None = None,
        build: Builder | None = None,
    ) -> None:
        assert backend in PURE
        self.program = program
        self.backend = backend
        self._implementations = bind(functions, externals(program), backend)
        self.functions = dict(functions or {})
        self.source = print_array_module(program, backend)
        self._build = build
        self._checker = ArgumentChecker(program, may_be_empty=build is not None)
        self._shapes: tuple[Any, ...] | None = None
        self._for_empty_axes = functools.lru_cache(MAX_EMPTY_AXIS_PROGRAMS)(
            functools.partial(_for_empty_axes, build, backend, self.functions)
        )
        self._is_compiling: Callable[[], bool] = _never_traced
        self._compute = self._load()
        self.__signature__ = signature(program.arguments, backend)
        self.__doc__ = documentation(program, backend)

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Return the results for the arguments ``args``, or ``named`` by keywords."""
        if named:
            args = in_order(self.program.arguments, args, named)
        if not self._is_compiling():
            args = tuple(self._checked(args))
            shapes = tuple([getattr(value, "shape", value) for value in args])
            if shapes != self._shapes:
                try:
                    self._checker.sizes(args)
                except EmptyAxes as empty:
                    return self._for_empty_axes(empty.sizes)(*args)
                self._shapes = shapes
        results = self._compute(*args)
        return _with_graph(args, results) if self.backend == "torch" else results

    def _checked(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments of a call, arrays or Python integers; raise for a wrong type or number of axes."""
        self._checker.check_count(args)
        found: list[Any] = []
        for argument, value in zip(self.program.arguments, args, strict=True):
            if argument.kind == "integer":
                try:
                    found.append(operator.index(value))
                except Exception as error:
                    raise ArgumentTypeError(
                        f"argument {argument.label} must be a known integer, not {value!r}: pass a Python int, "
                        "under jit by static_argnums"
                    ) from error
                continue
            shape = np.shape(value)
            if len(shape) != len(argument.shape):
                raise ArgumentError(
                    f"argument {argument.label} has the shape {tuple(shape)}, an array of {len(argument.shape)} axes "
                    "is needed"
                )
            found.append(value if hasattr(value, "shape") or not argument.shape else np.asarray(value))
        return found

    def _load(self) -> Callable[..., Any]:
        """Import the generated Python module, and return its function ``compute``, which evaluates the expression;
        raise BackendError if the array library is not installed.
        """
        dialect = DIALECTS[self.backend]
        try:
            library = importlib.import_module(self.backend)
            if self.backend == "torch":
                self._is_compiling = library.compiler.is_compiling
            module: Any = load_source(self.source, self.backend, own=True, on_disk=False)
        except ImportError as error:
            raise BackendError(f"{dialect.title} is not installed ({error}): pip install {self.backend}") from error
        self._lease = lease(module, own=True)
        supplied = {(external.name, external.orders): f for external, f in self._implementations.items()}
        for name, key in getattr(module, "FUNCTIONS", {}).items():
            setattr(module, name, supplied[key])
        compute: Callable[..., Any] = module.compute
        return compute

    @property
    def plan(self) -> str:
        """A description of the computation: its steps in order, and the reasons for temporaries."""
        return plan_text(self.program, self.backend, [])

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayFunction, (self.program, self.backend, self.functions, self._build)

    def __repr__(self) -> str:
        arguments = ", ".join(a.label for a in self.program.arguments)
        return f"<ArrayFunction({arguments}) for {self.backend}>"


def _never_traced() -> bool:
    """Return False: the libraries that use this function have no compiler that traces calls, as `jax.jit` does."""
    return False


def _with_graph(args: Sequence[Any], results: Any) -> Any:
    """Return the tensors ``results``, where those that do not depend on ``args`` have derivatives, zeros: with a batch
    without entries, or a stencil on one entry, ``loss.backward()`` would fail. They are added to an empty sum.
    """
    variables = [arg for arg in args if getattr(arg, "requires_grad", False)]
    if not variables:
        return results
    if isinstance(results, tuple):
        return tuple(_with_graph(variables, result) for result in results)
    if results.requires_grad:
        return results
    return functools.reduce(lambda total, variable: total + variable.reshape(-1)[:0].sum(), variables, results)
