"""Dataflow of a program: the names that each step uses, and the writers and readers of each array."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

from sympy_tensordiff.codegen.ir.programs import (
    Apply,
    Correlation,
    FusedKernels,
    Kernel,
    ProductStep,
    Program,
    Recurrence,
    Scatter,
    Step,
    Trapezoid,
)
from sympy_tensordiff.codegen.ir.scalars import External, Load, Name, Operation
from sympy_tensordiff.codegen.ir.walk import array_shapes, filled_arrays, forms, own_names, scalars
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import data_entries


@dataclass(frozen=True, slots=True)
class Uses:
    """The arrays, real scalars and integers that a step uses and does not define, by name, in order of first use."""

    arrays: tuple[str, ...]
    scalars: tuple[str, ...]
    integers: tuple[str, ...]


class _StepKey:
    """A wrapper that makes a step usable as a cache key; it is compared by identity, since comparing the contents of
    steps is slow.
    """

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        self.step = step

    def __hash__(self) -> int:
        return id(self.step)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StepKey) and other.step is self.step


def uses(step: Step) -> Uses:
    """Return the names that the function of a step needs as parameters, apart from the arrays that it fills. Results
    are cached.
    """
    return _uses(_StepKey(step))


@lru_cache(maxsize=1024)
def _uses(key: _StepKey) -> Uses:
    """Return the names that the step in `key` uses and does not define. This is the cached implementation of `uses`."""
    kernel = key.step
    if isinstance(kernel, ProductStep):
        sizes = sorted(kernel.shift.atoms()) if isinstance(kernel, Trapezoid) else ()
        return Uses(tuple(dict.fromkeys((kernel.left.array, kernel.right.array))), (), tuple(sizes))
    if isinstance(kernel, Correlation):
        used = [form for view in kernel.views for form in view.index] + [extent for _, extent in kernel.labels]
        integers = sorted({name for form in used for name in form.atoms()} - dict(kernel.labels).keys())
        return Uses(tuple(dict.fromkeys((kernel.left.array, kernel.right.array))), (), tuple(integers))
    if isinstance(kernel, Apply):
        is_read_too = kernel.function == "cofactor" and kernel.factored
        return Uses((kernel.operand, kernel.factored) if is_read_too else (kernel.operand,), (), ())
    if isinstance(kernel, FusedKernels):
        return _uses_of_fused(kernel)
    if isinstance(kernel, Recurrence):
        return Uses(kernel.arrays, (), tuple(sorted({name for form in kernel.forms for name in form.atoms()})))
    own = set(own_names(kernel))
    arrays: dict[str, None] = {}
    names: dict[str, None] = {}
    for node in scalars(kernel.body):
        if isinstance(node, Load):
            arrays[node.array] = None
        elif isinstance(node, Name) and node.name not in own:
            names[node.name] = None
    used = [*forms(kernel.body), *(kernel.extents if isinstance(kernel, Scatter) else ())]
    arrays.update(dict.fromkeys(sorted(entry.tensor for entry in data_entries(used))))
    integers = sorted({name for form in used for name in form.atoms()} - own)
    return Uses(tuple(arrays), tuple(names), tuple(integers))


def _uses_of_fused(step: FusedKernels) -> Uses:
    """Return the arrays, scalars and integers that the fused kernels ``step`` use, and which their function takes as
    parameters. Arrays that it fills are left out.
    """
    found = [uses(kernel) for kernel in step.kernels]
    filled = {kernel.array for kernel in step.kernels}
    extents = step.extent, *(extent for _, extent in step.inner)
    shapes = (*extents, *(form for array in step.rows for form in array.shape))
    integers = {
        *(name for part in found for name in part.integers),
        *(name for form in shapes for name in form.atoms()),
    }
    return Uses(
        tuple(dict.fromkeys(name for part in found for name in part.arrays if name not in filled)),
        tuple(dict.fromkeys(name for part in found for name in part.scalars)),
        tuple(sorted(integers.difference(step.axes))),
    )


class Dataflow:
    """The shapes, writers and readers of all arrays of a program; steps are compared by identity."""

    def __init__(self, program: Program) -> None:
        self.shapes = array_shapes(program)
        self.temporaries = frozenset(array.name for array in program.temporaries)
        self.writers: defaultdict[str, list[Step]] = defaultdict(list)
        self.readers: defaultdict[str, list[Step]] = defaultdict(list)
        self._reads: dict[int, frozenset[str]] = {}
        self._positions: dict[int, int] = {}
        for position, step in enumerate(program.kernels):
            self._positions[id(step)] = position
            self._reads[id(step)] = frozenset(uses(step).arrays)
            for name in filled_arrays(step):
                self.writers[name].append(step)
            for name in self._reads[id(step)]:
                self.readers[name].append(step)

    def reads(self, step: Step) -> frozenset[str]:
        """Return the arrays that a step reads."""
        return self._reads[id(step)]

    def writer(self, array: str) -> Step | None:
        """Return the only step that fills a temporary; None for other arrays or several writers."""
        writers = self.writers[array]
        return writers[0] if array in self.temporaries and len(writers) == 1 else None

    def reader(self, array: str) -> Step | None:
        """Return the only step that reads an array; None if there are several or none."""
        readers = self.readers[array]
        return readers[0] if len(readers) == 1 else None

    def is_before(self, first: Step, second: Step) -> bool:
        """Return whether ``first`` runs before ``second``."""
        return self._positions[id(first)] < self._positions[id(second)]


def check_order(program: Program) -> None:
    """Raise VerificationError if a step reads an array before it is complete, or no step fills a result."""
    last = {array.name: -1 for array in program.arguments}
    last |= {array: number for number, step in enumerate(program.kernels) for array in filled_arrays(step)}
    started: set[str] = set()
    for number, step in enumerate(program.kernels):
        early = {name for name in uses(step).arrays if last.get(name, number) >= number}
        early |= {step.array} - started if isinstance(step, Scatter) else set()
        if early:
            raise VerificationError(f"step {step.array}: {', '.join(sorted(early))} is read before it is complete")
        started.update(filled_arrays(step))
    if lost := sorted({array.name for array in program.outputs} - started):
        raise VerificationError(f"no step fills {', '.join(lost)}")


def is_same_in_all_calls(kernel: Kernel, shapes: Mapping[str, Sequence[Affine]], tables: AbstractSet[str]) -> bool:
    """Return whether a kernel computes the same array in all calls: it uses no argument, no size and no function of the
    user. It may read only `tables`, arrays already known to be the same in all calls. ``shapes`` are the shapes of all
    arrays.
    """
    used = uses(kernel)
    functions = {node.function for node in scalars(kernel.body) if isinstance(node, Operation)}
    if used.scalars or used.integers or any(isinstance(function, External) for function in functions):
        return False
    return tables >= set(used.arrays) and all(extent.is_constant for extent in shapes[kernel.array])
