"""Callables of compiled programs: arguments are checked, code is compiled when needed, results are computed."""

from __future__ import annotations

import functools
import importlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from sympy_tensordiff.codegen.emit.cuda_library import has_cupy
from sympy_tensordiff.codegen.emit.dialects import PURE
from sympy_tensordiff.codegen.emit.llvm_driver import Target, print_llvm
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import NO_POSITION, DataCheck, Program
from sympy_tensordiff.codegen.ir.sizes import MAX_EMPTY_AXIS_PROGRAMS, Builder, EmptyAxes, Sizes, check_determined
from sympy_tensordiff.codegen.ir.walk import externals
from sympy_tensordiff.codegen.ir.work import kernel_work
from sympy_tensordiff.codegen.lower.externals import bind, called, for_backend
from sympy_tensordiff.codegen.run import llvm
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker, PreparedArguments, is_masked
from sympy_tensordiff.codegen.run.cache import code_versions, load_source
from sympy_tensordiff.codegen.run.compilation import announce_if_slow, cancel_safely
from sympy_tensordiff.codegen.run.data_errors import data_error
from sympy_tensordiff.codegen.run.device_arrays import is_on_device, stream_handle
from sympy_tensordiff.codegen.run.device_call import DeviceCalls, require_device, translate_device_errors
from sympy_tensordiff.codegen.run.modules import Lease, forget, lease
from sympy_tensordiff.codegen.run.plan_text import COMPILED, driver_lines, plan_text
from sympy_tensordiff.codegen.run.repeated_calls import LastCall, Runs, remember
from sympy_tensordiff.codegen.run.results import check_out, fit, nesting
from sympy_tensordiff.codegen.run.signature import documentation, in_order, signature
from sympy_tensordiff.codegen.run.threads import (
    PARALLEL_WORK,
    blockable,
    has_compiled_products,
    large_steps,
    with_threads,
)
from sympy_tensordiff.codegen.schedule.fusion import fuse
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.codegen.schedule.polygammas import POLYGAMMA, with_polygammas
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotPositiveDefiniteError,
    SingularMatrixError,
    UnsupportedError,
)
from sympy_tensordiff.graph.interning import no_collection
from sympy_tensordiff.lazy import numpy as np

_PRINTERS = {"numpy": "arrays", "numba": "numba_cpu", "llvm": "numba_cpu", "cuda": "numba_cuda"}
BACKENDS = tuple(_PRINTERS)

_OTHER_NAMES = {"pytorch": "torch", "jnp": "jax", "gpu": "cuda", "cpu": "llvm"}
"""Names by which users may ask for a backend."""

_MAX_EXACT_POSITION = 2**24
"""The largest position that float32 represents exactly."""


def print_source(program: Program, backend: str, parallel: bool | None = None, dtype: str = "float64") -> str:
    """Return the text of a program's generated module for ``backend``, with functions that run on several cores if
    ``parallel``; no compiler or device is needed.
    """
    program = with_polygammas(program) if backend in COMPILED else program
    bounded = _prepared_program(program, backend, parallel)
    fused = fuse(bounded, Prover(bounded)) if parallel or backend == "llvm" else bounded
    chosen = blockable(fused) if parallel else frozenset[str]()
    if backend == "llvm":
        return print_llvm(fused, Target("float" if dtype == "float32" else "double"), chosen).whole()
    return _module_source(bounded, backend, chosen)


def _prepared_program(program: Program, backend: str, parallel: bool | None) -> Program:
    """Return the program after scheduling for ``backend``; raise for an unknown backend or invalid ``parallel``."""
    if backend in ("c", "cuda_c"):
        raise ArgumentError(f"backend={backend!r} is for text only: write it with td.generate_code, and compile it")
    if not isinstance(backend, str) or backend not in _PRINTERS:
        names = (*BACKENDS, *PURE, "dask", "dask-numpy")
        known = ", ".join(map(repr, names))
        near = get_close_matches(_OTHER_NAMES.get(str(backend).lower(), str(backend).lower()), names, 1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise ArgumentError(
            f"unknown backend {backend!r}{meant}; the backends are {known}, and 'c' and 'cuda_c' for text"
        )
    if parallel is not None and not isinstance(parallel, bool):
        raise ArgumentTypeError(f"parallel must be None, True or False, not {parallel!r}")
    if parallel and backend not in COMPILED:
        raise ArgumentError(f"parallel=True is for 'llvm' and 'numba', not for {backend!r}: leave it out")
    check_determined(program)
    bounded = prepared(program, backend)
    if backend == "llvm":  # its text is printed when a call needs it
        llvm.check_constants(bounded)
    return bounded


def _module_source(program: Program, backend: str, parallel: frozenset[str]) -> str:
    """Return the text of the Python module for ``backend``; the functions ``parallel`` run on several cores."""
    printer = importlib.import_module(f"sympy_tensordiff.codegen.emit.{_PRINTERS[backend]}")
    text: str = printer.print_program(program, parallel) if parallel else printer.print_program(program)
    return text


def _compile_for_empty_axes(
    build: Any, backend: str, functions: Any, parallel: bool | None, sizes: Sizes
) -> CompiledFunction:
    """Return a compiled function for calls in which an axis has no entries, at the sizes ``sizes``. ``build`` maps
    sizes to the program.

    ``functions`` has the user's implementations of functions; with ``parallel``, the function uses several threads.
    """
    program: Program = build(sizes)
    return CompiledFunction(program, backend, called(functions, externals(program)), parallel)


class CompiledFunction:
    """A compiled function, made by `lambdify`: call it with arrays and numbers, by position or by name.

    ``build`` makes the programs for calls in which an axis has no entries; without it these calls are refused. ``help``
    and `inspect.signature` show the arguments, with their shapes and types.

    Attributes
    ----------
    program : Program
        The loop nests it was printed from.
    backend : str
    functions : dict
        The implementations of user functions, as given.
    parallel : bool or None
        Whether kernels run on several cores; None: in calls that are large enough.

    Examples
    --------
    >>> import inspect, numpy as np, sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> A, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m)
    >>> f = td.lambdify((A, x), A @ x, "numpy")
    >>> inspect.signature(f)
    <Signature (A, x, *, out=None)>
    >>> f(x=np.array([1.0, 2.0]), A=np.eye(2))
    array([1., 2.])
    >>> print(f.__doc__.splitlines()[4])
    A : array of shape (n, m), real (float64, float32 or integers)
    """

    def __init__(
        self,
        program: Program,
        backend: str,
        functions: Mapping[Any, Callable[..., Any]] | None = None,
        parallel: bool | None = None,
        build: Builder | None = None,
    ) -> None:
        own = functions if isinstance(functions, Mapping) else {}  # `bind` refuses what is not a mapping
        if backend in COMPILED and not called(own, [POLYGAMMA]):
            program = with_polygammas(program)
        self.program = program
        self.backend = backend
        self._implementations = bind(functions, externals(program), backend)
        self.functions = dict(functions or {})
        self.parallel = parallel
        self._bounded = _prepared_program(program, backend, parallel)
        self._printed_parallel = self._blockable if parallel else frozenset()
        if backend != "llvm":
            self.source = _module_source(self._bounded, backend, self._printed_parallel)
        self._build = build
        self._checker = ArgumentChecker(program, may_be_empty=build is not None and backend != "cuda")
        self._for_empty_axes = functools.lru_cache(MAX_EMPTY_AXIS_PROGRAMS)(
            functools.partial(_compile_for_empty_axes, build, backend, self.functions, parallel)
        )
        self._runs: dict[tuple[np.dtype[Any], frozenset[str]], Runs] = {}
        self._leases: list[Lease] = []
        self._unfinished: list[ModuleType] = []
        self._on_disk = True
        self._fallback = ""
        self._recent: LastCall | None = None
        self._large: tuple[dict[str, int], frozenset[str]] = {}, frozenset()
        self._nest = nesting(program.structure)
        self._searches: dict[tuple[int, ...], CompiledFunction] = {}
        self.__signature__ = signature(program.arguments, backend)
        self.__doc__ = documentation(program, backend)

    def __call__(self, /, *args: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Return the results for the arguments ``args``, or ``named`` by keywords.

        ``out`` is an array to fill, or tuples of arrays, nested like the results; ``stream`` is the CUDA stream, by
        default that of the caller.
        """
        if named:
            args = in_order(self.program.arguments, args, named)
        if self.backend == "cuda" and any(map(is_on_device, args)):
            return self._on_device(args, out, stream)
        if stream is not None and self.backend != "cuda":
            raise ArgumentError(f"stream is for the backend 'cuda', not for {self.backend!r}: leave it out")
        recent = self._recent
        if out is None and recent is not None and (values := recent.prepare(args)) is not None:
            results = [np.empty(shape, recent.dtype) for shape in recent.shapes]
            self._run_translating_errors(recent.run, values, results)
            return self._nested_results(results)
        try:
            prepared = self._checker.prepare(args)
        except EmptyAxes as empty:
            return self._for_empty_axes(empty.sizes)(*args, out=out)
        if not self._checker.increases(prepared):
            return self._for_empty_axes(())(*args, out=out)
        self._check_data(prepared.suspects, args)
        targets = self._result_arrays(args, prepared, out)
        filled = [t if t.flags.c_contiguous and t.flags.aligned else np.empty_like(t, order="C") for t in targets]
        if self.backend == "cuda":
            self._run_on_cuda(prepared, filled, stream)
            run = None
        else:
            run = self._compute(prepared, filled)
        for target, array in zip(targets, filled, strict=True):
            if target is not array:
                target[...] = array
        if run is not None:
            self._recent = remember(self.program.arguments, args, prepared, run)
        return self._nested_results(filled) if out is None else out

    def runner(self, args: Sequence[Any], out: Any) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        """Return a function ``f(args, out)`` that computes ``out`` for ``args`` without checks, for fast repeated
        calls. The first call, with checks, is made here for the given ``args`` and ``out``.

        These must have the shapes, types, memory orders and integers of ``args`` and ``out``, and the arrays must be
        aligned and in C order.
        """
        try:
            prepared = self._checker.prepare(args)
        except EmptyAxes as empty:
            return self._for_empty_axes(empty.sizes).runner(args, out)
        if self.program.increasing:  # later calls are not checked
            return self._for_empty_axes(()).runner(args, out)
        self._check_data(prepared.suspects, args)
        return functools.partial(
            self._run_translating_errors, self._compute(prepared, self._result_arrays(tuple(args), prepared, out))
        )

    def _compute(self, prepared: PreparedArguments, filled: Sequence[Any]) -> Callable[..., None]:
        """Compute the results of a call with the arguments ``prepared`` into the arrays ``filled``; compile before if
        needed. Return the function that computed them, so that further calls with the same kinds of arguments can use
        it.
        """
        parallel = self._in_parallel()
        is_compiled = (prepared.dtype, parallel) in self._runs and not self._unfinished
        try:
            with nullcontext() if is_compiled else cancel_safely(self._discard_modules), self._announced(is_compiled):
                run = self._load(prepared.dtype, parallel).function_for([*prepared.values, *filled])
                self._run_translating_errors(run, prepared.values, filled)
                self._unfinished.clear()
        except (OSError, EOFError, pickle.UnpicklingError):
            if not self._on_disk:
                raise
            self._on_disk = False  # the disk is full, or stored code is damaged
            self._discard_modules()
            return self._compute(prepared, filled)
        return run

    def _announced(self, is_compiled: bool) -> AbstractContextManager[None]:
        """Return a context manager that prints a note if compilation takes long; it does nothing if the code is
        compiled already (`is_compiled`), or if the backend does not compile.
        """
        is_quick = is_compiled or self.backend not in COMPILED
        count = len(self._bounded.kernels)
        return nullcontext() if is_quick else announce_if_slow(f"compiling {count} kernel{'s' * (count != 1)}")

    def _discard_modules(self) -> None:
        """Discard all loaded modules, so that the next call loads them again."""
        for module in self._unfinished:
            forget(module)
        self._unfinished.clear()
        self._runs.clear()
        self._leases.clear()
        self._recent = None

    def _run_on_cuda(self, prepared: PreparedArguments, filled: Sequence[Any], stream: Any) -> None:
        """Run the program on the GPU, wait for it and fill the arrays ``filled`` with the results. Arguments in host
        memory are copied to the device before, and results back after. ``stream`` is the caller's CUDA stream, or None.
        """
        cuda = require_device()
        with translate_device_errors(self.program, prepared, self._checker.known_sizes()):
            handle = stream_handle(stream)
            queue = cuda.external_stream(handle) if handle else 0
            self._cuda.run(*prepared.values, *filled, queue)

    def _on_device(self, args: tuple[Any, ...], out: Any, stream: Any) -> Any:
        """Return the results of a call with the arguments ``args`` in the memory of a GPU, as arrays in its memory: new
        ones, or those given as ``out``. The kernels run on ``stream``.
        """
        require_device()
        given = None if out is None else fit(self.program.structure, out)
        results = self._device_calls(self._cuda.run_on_device, args, given, stream, self._check_data)
        return self._nest(results) if out is None else out

    @functools.cached_property
    def _cuda(self) -> ModuleType:
        """The module of the CUDA kernels, for all number types."""
        module = self._module(np.dtype(np.float64))
        if not has_cupy():
            module.cupy = None  # type: ignore[attr-defined]
        return module

    @functools.cached_property
    def _device_calls(self) -> DeviceCalls:
        """The object that runs calls with arrays in device memory, created once."""
        return DeviceCalls(self.program, self._checker)

    def _nested_results(self, results: Sequence[Any]) -> Any:
        """Return the results in the nested tuples that the user asked for. An array without axes is replaced by its
        scalar.
        """
        return self._nest([array if array.ndim else array[()] for array in results])

    def _check_data(self, suspects: Sequence[DataCheck], args: Sequence[Any]) -> None:
        """Raise DataIndexError if an entry of an index array in ``args`` makes a read out of bounds. ``suspects`` are
        the checks to be made entry by entry.
        """
        if not suspects:
            return
        numbers = tuple(dict.fromkeys(check.number for check in suspects))
        search = self._searches.get(numbers)
        if search is None:
            assert self.program.search is not None
            program = self.program.search(numbers)
            # The search runs on the host.
            backend = "llvm" if self.backend == "cuda" else self.backend
            functions = called(self.functions, externals(program))
            search = self._searches[numbers] = CompiledFunction(program, backend, functions)
        if any(
            np.size(v) > _MAX_EXACT_POSITION
            for a, v in zip(self.program.arguments, args, strict=True)
            if a.dtype == "integer"
        ):
            pairs = zip(self.program.arguments, args, strict=True)
            args = tuple([np.asarray(v, np.float64) if a.shape and a.dtype == "real" else v for a, v in pairs])
        places = dict(zip(numbers, search(*args), strict=True))
        for check in suspects:
            if places[check.number] < NO_POSITION:
                raise data_error(self.program, check, int(places[check.number]), args, self._checker.known_sizes())

    def _run_translating_errors(self, run: Callable[..., None], values: Sequence[Any], results: Sequence[Any]) -> None:
        """Call ``run`` with the argument ``values`` and the arrays ``results``, which it fills. NumPy's `LinAlgError`
        is raised as an error of this package.
        """
        try:
            run(*values, *results)
        except np.linalg.LinAlgError as error:
            kind = NotPositiveDefiniteError if "positive definite" in str(error) else SingularMatrixError
            raise kind(str(error)) from error

    def _in_parallel(self) -> frozenset[str]:
        """Return the names of functions that run on several cores, decided by the sizes of the last call."""
        if self.backend not in COMPILED or self.parallel is False:
            return frozenset()
        if self.parallel:
            return self._blockable
        if self._large[0] is not (sizes := self._checker.known_sizes()):
            is_small = sum(kernel_work(self._bounded, sizes, convolution_speed=1).values()) < PARALLEL_WORK
            self._large = sizes, frozenset() if is_small else large_steps(self._fused, sizes) & self._blockable
        return self._large[1]

    @functools.cached_property
    def _fused(self) -> Program:
        """The scheduled program with fused kernels, from which the module is printed."""
        return fuse(self._bounded, Prover(self._bounded))

    @functools.cached_property
    def _blockable(self) -> frozenset[str]:
        """The names of the compiled functions that take a range of rows, so that several cores can share the rows of an
        array.
        """
        return blockable(self._fused)

    def _load(self, dtype: np.dtype[Any], parallel: frozenset[str] = frozenset()) -> Runs:
        """Return the compiled functions that compute results of ``dtype``, as `Runs`, loading them at the first call;
        later calls take them from a cache. Those named in ``parallel`` use several cores.
        """
        found = self._runs.get((dtype, parallel))
        if found is not None:
            return found
        module: Any = self._load_llvm(dtype, parallel) if self.backend == "llvm" else None
        module = module or self._module(dtype, parallel)
        run, run_in = module.run, getattr(module, "run_in", None)
        if parallel:
            has_products = has_compiled_products(self._fused)
            run = with_threads(run, lambda: self._load(dtype).run, has_products)
            run_in = run_in and with_threads(run_in, lambda: self._load(dtype).run_in, has_products)
        scratch, tables = (getattr(module, name, None) for name in ("scratch", "tables"))
        found = self._runs[dtype, parallel] = Runs(run, run_in, scratch, tables)
        return found

    @no_collection()
    def _load_llvm(self, dtype: np.dtype[Any], parallel: frozenset[str]) -> Any:
        """Return the functions of the program for results of a dtype, compiled by LLVM; those in ``parallel`` run on
        several cores. None if Numba has to compile them.
        """
        try:
            return llvm.load_program(
                self._bounded, lambda: self._fused, self._implementations, dtype, parallel, self._on_disk
            )
        except (llvm.UnavailableError, UnsupportedError) as error:
            self._fallback = str(error)
            return None

    @property
    def llvm(self) -> str:
        """The LLVM IR of the function in double precision; raise AttributeError for other backends."""
        if self.backend != "llvm":
            raise AttributeError(f"a function for the backend {self.backend!r} has no text for LLVM")
        return print_llvm(self._fused, Target(), self._printed_parallel).whole()

    @functools.cached_property
    def source(self) -> str:
        """The text of the generated module; for ``llvm``, that of the same loops in Python."""
        text = _module_source(self._bounded, self.backend, self._printed_parallel)
        return text.replace('for the backend "numba".', "for Numba, with the loops that LLVM compiles.", 1)

    def _module(self, dtype: np.dtype[Any], parallel: frozenset[str] = frozenset()) -> ModuleType:
        """Return the generated module for results of the type ``dtype``, in which the functions named in ``parallel``
        run on several cores; from a cache if it has been loaded before.
        """
        versions = code_versions(self.backend)
        if self.backend in COMPILED:
            versions += f", {dtype}"
        is_printed = parallel == self._printed_parallel
        source = self.source if is_printed else _module_source(self._bounded, self.backend, parallel)
        own = bool(self._implementations) or not self._on_disk
        module = load_source(source, versions, own, self._on_disk)
        self._leases.append(lease(module, own))
        supplied = {
            (external.name, external.orders): for_backend(external, function, self.backend)
            for external, function in self._implementations.items()
        }
        for name, key in getattr(module, "FUNCTIONS", {}).items():
            setattr(module, name, supplied[key])
        if self.backend in COMPILED:
            self._unfinished.append(module)
        return module

    def _result_arrays(self, args: tuple[Any, ...], prepared: PreparedArguments, out: Any) -> list[Any]:
        """Return the arrays to fill: new ones, or those in ``out``, which are checked."""
        outputs = self.program.outputs
        if out is None:
            return [np.empty(shape, prepared.dtype) for shape in prepared.shapes]
        given = fit(self.program.structure, out)
        others = [(f"argument {a.label}", v) for a, v in zip(self.program.arguments, args, strict=True)]
        targets = []
        for output, array, shape in zip(outputs, given, prepared.shapes, strict=True):
            if not isinstance(array, np.ndarray) or is_masked(array):
                raise ArgumentTypeError(f"out for {output.name} is {type(array).__name__}, a NumPy array is needed")
            check_out(output.name, array, shape, prepared.dtype, others)
            targets.append(array)
            others.append((f"out for {output.name}", array))
        return targets

    @property
    def plan(self) -> str:
        """A description of the computation: its steps in order, and the reasons for temporaries."""
        driver = driver_lines(self._bounded, self._fused, self.backend, self.parallel, self._fallback)
        return plan_text(self.program, self.backend, driver)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledFunction, (self.program, self.backend, self.functions, self.parallel, self._build)

    def __repr__(self) -> str:
        arguments = ", ".join(a.label for a in self.program.arguments)
        return f"<CompiledFunction({arguments}) for {self.backend}>"
