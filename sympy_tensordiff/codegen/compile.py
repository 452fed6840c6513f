"""A `Program` becomes a callable."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import numpy as np

from sympy_tensordiff.codegen.arguments import ArgumentChecker, Prepared, check_out
from sympy_tensordiff.codegen.cache import load_source
from sympy_tensordiff.codegen.externals import bind, for_backend, parse_key
from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.fusion import fuse
from sympy_tensordiff.codegen.loops import DataCheck, Fused, Kernel, Program, Scatter
from sympy_tensordiff.codegen.partition import split_large
from sympy_tensordiff.codegen.results import fit, nest
from sympy_tensordiff.codegen.sizes import check_determined
from sympy_tensordiff.codegen.split import split_deep
from sympy_tensordiff.codegen.steps import describe, describe_scatter, describe_together
from sympy_tensordiff.codegen.walk import array_shapes, externals
from sympy_tensordiff.errors import ArgumentError, BackendError, DataIndexError, SingularMatrixError
from sympy_tensordiff.integer.affine import Affine

_PRINTERS = {"numpy": "numpy", "numba": "numba_cpu", "cuda": "numba_cuda"}
BACKENDS = tuple(_PRINTERS)


def print_source(program: Program, backend: str) -> str:
    """The text of the module for ``backend``; nothing but this package is needed."""
    if not isinstance(backend, str) or backend not in _PRINTERS:
        raise ArgumentError(f"unknown backend {backend!r}; the backends are {', '.join(map(repr, BACKENDS))}")
    check_determined(program)
    printer = importlib.import_module(f"sympy_tensordiff.codegen.printers.{_PRINTERS[backend]}")
    text: str = printer.print_program(split_large(split_deep(program)))
    return text


def compile_program(
    program: Program, backend: str, functions: Mapping[Any, Callable[..., Any]] | None = None
) -> CompiledFunction:
    """The callable that computes ``program`` with ``backend`` and the user's ``functions``."""
    return CompiledFunction(program, backend, functions)


def _versions(backend: str) -> str:
    """What compiled code depends on besides its text."""
    packages = ["sympy-tensordiff", "numpy"] + ([] if backend == "numpy" else ["numba"])
    found = []
    for package in packages:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} from source")
    return ", ".join(found)


def _shape(forms: tuple[Affine, ...]) -> str:
    return f"({', '.join(map(str, forms))})"


def _require_device() -> None:
    """Raise `BackendError` with the way out where no CUDA kernel can run."""
    try:
        cuda = importlib.import_module("numba.cuda")
        if cuda.is_available():
            return
        reason = str(cuda.cuda_error()).strip().partition("\n")[0].rstrip(": ")
    except Exception as error:  # versions of numba-cuda and NumPy that do not fit raise all sorts of errors here
        reason = f"{type(error).__name__}: {error}"
    installed = importlib.util.find_spec("numba_cuda") is not None
    wayout = "is there one, with its driver?" if installed else "pip install 'sympy-tensordiff[cuda]'."
    raise BackendError(
        f"the backend 'cuda' found no CUDA device ({reason}): {wayout} "
        "Without one, NUMBA_ENABLE_CUDASIM=1 in the environment runs the kernels in Numba's slow simulator; "
        ".source holds their text"
    )


class CompiledFunction:
    """A compiled program: call it with arrays and numbers in the order of its arguments.

    Attributes
    ----------
    source : str
        The text of the generated module.
    program : Program
        The loop nests it was printed from.
    backend : str
    functions : dict
        The implementations of user functions, as given.
    """

    def __init__(
        self, program: Program, backend: str, functions: Mapping[Any, Callable[..., Any]] | None = None
    ) -> None:
        self.program = program
        self.backend = backend
        self._implementations = bind(functions, externals(program))
        self.functions = dict(functions or {})
        self.source = print_source(program, backend)
        self._checker = ArgumentChecker(program)
        self._run: Callable[..., None] | None = None
        self._searches: dict[int, CompiledFunction] = {}

    def __call__(self, *args: Any, out: Any = None) -> Any:
        """Compute; ``out`` is an array to be filled (tuples of them, nested as the results are)."""
        prepared = self._checker.prepare(args)
        for check in prepared.suspects:
            self._check_data(check, args)
        targets = self._targets(args, prepared, out)
        filled = [t if t.flags.c_contiguous and t.flags.aligned else np.empty_like(t, order="C") for t in targets]
        if self._run is None:
            self._run = self._load()
        self._run_quietly(*prepared.values, *filled)
        for target, array in zip(targets, filled, strict=True):
            if target is not array:
                target[...] = array
        if out is not None:
            return out
        return nest(self.program.structure, [array if array.ndim else array[()] for array in filled])

    def _check_data(self, check: DataCheck, args: tuple[Any, ...]) -> None:
        """Raise `DataIndexError` where data lead a read out of its array."""
        search = self._searches.get(id(check))
        if search is None:
            called = {external.name for external in externals(check.search)}
            functions = {key: value for key, value in self.functions.items() if parse_key(key)[0] in called}
            # The search works with the arrays of the host.
            backend = "numba" if self.backend == "cuda" else self.backend
            search = self._searches[id(check)] = compile_program(check.search, backend, functions)
        wrong = np.argwhere(search(*args))
        if not len(wrong):
            return
        names = [a.name for a in self.program.arguments]
        labels = {a.name: a.label for a in self.program.arguments}
        data = np.asarray(args[names.index(check.data)])
        place = tuple(wrong[0].tolist()) if data.ndim else ()
        sizes = self._checker.known_sizes()
        length = check.extent.evaluate(sizes)
        array = labels.get(check.load.array, check.load.array)
        raise DataIndexError(
            f"{labels[check.data]}[{', '.join(map(str, place)) or '()'}] is {data[place]}: the index "
            f"{check.load.index[check.axis]} of axis {check.axis} of {array} has to be from 0 to {length - 1}; "
            "negative ones do not wrap around"
        )

    def _run_quietly(self, *values: Any) -> None:
        assert self._run is not None
        if self.backend != "cuda":
            try:
                self._run(*values)
            except np.linalg.LinAlgError as error:
                raise SingularMatrixError(str(error)) from error
            return
        with warnings.catch_warnings():
            # Small arrays do not fill a device; that is no news to their owner.
            warnings.filterwarnings("ignore", message=".*Grid size")  # the text begins with a colour
            try:
                self._run(*values)
            except Exception as error:
                if "Support" in type(error).__name__:  # a part of NVIDIA's toolkit is missing
                    raise BackendError(f"CUDA cannot compile: {error}; pip install 'sympy-tensordiff[cuda]'") from error
                raise

    def _load(self) -> Callable[..., None]:
        if self.backend == "cuda":
            _require_device()
        module = load_source(self.source, _versions(self.backend), own=bool(self._implementations))
        supplied = {
            (external.name, external.orders): for_backend(external, function, self.backend)
            for external, function in self._implementations.items()
        }
        for name, key in getattr(module, "FUNCTIONS", {}).items():
            setattr(module, name, supplied[key])
        run: Callable[..., None] = module.run
        return run

    def _targets(self, args: tuple[Any, ...], prepared: Prepared, out: Any) -> list[Any]:
        """The arrays to be filled: new ones, or those the caller gave."""
        outputs = self.program.outputs
        if out is None:
            return [np.empty(shape, prepared.dtype) for shape in prepared.shapes]
        given = fit(self.program.structure, out)
        others = [(f"argument {a.label}", v) for a, v in zip(self.program.arguments, args, strict=True)]
        targets = []
        for output, array, shape in zip(outputs, given, prepared.shapes, strict=True):
            targets.append(check_out(output.name, array, shape, prepared.dtype, others))
            others.append((f"out for {output.name}", array))
        return targets

    @property
    def plan(self) -> str:
        """What is computed, in which order, and why the temporaries exist."""
        program = self.program
        lines = ["arguments:"]
        lines += [
            f"  {a.label} : {a.kind} {_shape(a.shape) if a.kind == 'array' else ''}".rstrip() for a in program.arguments
        ]
        lines += ["results:", *(f"  {a.name} : array {_shape(a.shape)}" for a in program.outputs)]
        if program.sizes:
            lines += ["sizes computed before:"]
            lines += [f"  {s.name} = {'max' if s.lows else 'min'}{_shape(s.lows or s.highs)}" for s in program.sizes]
        if program.temporaries:
            lines += ["temporaries:", *(f"  {a.name} : array {_shape(a.shape)}" for a in program.temporaries)]
            lines += [f"  {note}" for note in program.notes]
        lines.append("kernels:")
        shapes = array_shapes(program)
        # Only compiled loops run several kernels together.
        steps = fuse(program, Prover(program)).kernels if self.backend == "numba" else program.kernels
        for n, step in enumerate(steps, 1):
            if isinstance(step, Fused):
                text = describe_together(step)
            elif isinstance(step, Scatter):
                text = describe_scatter(step, self.backend)
            elif isinstance(step, Kernel):
                text = f"fill {step.array}[{', '.join(step.axes)}]"
            else:
                text = describe(step, shapes)
            lines.append(f"  {n}. {text}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_program, (self.program, self.backend, self.functions)

    def __repr__(self) -> str:
        arguments = ", ".join(a.label for a in self.program.arguments)
        return f"<CompiledFunction({arguments}) for {self.backend}>"
