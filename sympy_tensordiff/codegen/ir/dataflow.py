"""Which steps of a program fill an array, and which read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from sympy_tensordiff.codegen.ir.programs import Kernel, Program, Scatter, Step
from sympy_tensordiff.codegen.ir.scalars import External, Operation
from sympy_tensordiff.codegen.ir.walk import array_shapes, filled_arrays, scalars, uses
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine


class Dataflow:
    """The shapes, writers and readers of all arrays of a program, whose steps are told apart by identity."""

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
        """The arrays that a step reads."""
        return self._reads[id(step)]

    def writer(self, array: str) -> Step | None:
        """The step that fills a temporary, if it is the only one."""
        writers = self.writers[array]
        return writers[0] if array in self.temporaries and len(writers) == 1 else None

    def reader(self, array: str) -> Step | None:
        """The step that reads an array, if it is the only one."""
        readers = self.readers[array]
        return readers[0] if len(readers) == 1 else None

    def is_before(self, first: Step, second: Step) -> bool:
        """Whether a step comes before another one."""
        return self._positions[id(first)] < self._positions[id(second)]


def check_order(program: Program) -> None:
    """Raise `VerificationError` where a step reads what is not complete, or a result never is."""
    last = {array.name: -1 for array in program.arguments}
    last |= {array: number for number, step in enumerate(program.kernels) for array in filled_arrays(step)}
    begun: set[str] = set()
    for number, step in enumerate(program.kernels):
        early = {name for name in uses(step).arrays if last.get(name, number) >= number}
        early |= {step.array} - begun if isinstance(step, Scatter) else set()
        if early:
            raise VerificationError(f"step {step.array}: {', '.join(sorted(early))} is read before it is complete")
        begun.update(filled_arrays(step))
    if lost := sorted({array.name for array in program.outputs} - begun):
        raise VerificationError(f"no step fills {', '.join(lost)}")


def is_same_in_all_calls(kernel: Kernel, shapes: Mapping[str, Sequence[Affine]], tables: AbstractSet[str]) -> bool:
    """Whether a kernel depends on no argument and no size, and on no function of the user's, which may remember."""
    used = uses(kernel)
    functions = {node.function for node in scalars(kernel.body) if isinstance(node, Operation)}
    if used.scalars or used.integers or any(isinstance(function, External) for function in functions):
        return False
    return tables >= set(used.arrays) and all(extent.is_constant for extent in shapes[kernel.array])
