"""Which steps of a program fill an array, and which read it."""

from __future__ import annotations

from collections import defaultdict

from sympy_tensordiff.codegen.ir.programs import Program, Step
from sympy_tensordiff.codegen.ir.walk import array_shapes, filled_arrays, uses


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
