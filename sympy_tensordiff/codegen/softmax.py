"""Logarithms of sums of exponentials as loops: where there are shares in the sums, or where loops are compiled.

``t[i] = log(sum_j exp(z[i, j]))`` is ``shift[i] + log(total[i])`` with ``power[i, j] = exp(z[i, j] - shift[i])``,
``total[i] = sum_j power[i, j]`` and the greatest entry of a row as its shift, or 0 where that is infinite. What
another kernel needs as ``exp(z[i, j] - t[i])``, a softmax, is ``power[i, j]/total[i]``: one exponential for both, and
the shares sum to 1 however large the entries are, for the rounding of ``t`` has no part in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.laws import check_laws
from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    Apply,
    Array,
    Bound,
    Kernel,
    Let,
    Loop,
    Program,
    Statement,
    Step,
    Store,
)
from sympy_tensordiff.codegen.scalars import Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.walk import (
    array_shapes,
    declared,
    outer_names,
    rewrite,
    scalars,
    uses,
    with_values,
)
from sympy_tensordiff.integer.affine import Affine


def softmax_in_loops(program: Program, backend: str) -> Program:
    """The program with loops in place of the calls whose shares other kernels need.

    For Numba, also in place of all calls that reduce the last axes of what has further axes: compiled loops are
    faster than the call there. CUDA and C have no such call.
    """
    for step in program.kernels:
        if isinstance(step, Apply) and step.function == "logsumexp":
            program = _Softmax(program, step).program(backend)
    check_laws(program)
    return program


class _Softmax:
    """Replaces one call, ``step``."""

    def __init__(self, program: Program, step: Apply) -> None:
        self.before = program
        self.step = step
        self.shape = array_shapes(program)[step.operand]
        taken = outer_names(program)
        self.names: dict[str, str] = {}
        for what in ("shift", "power", "total", "share"):
            self.names[what] = unique(f"{step.array}_{what}", taken)
            taken.add(self.names[what])
        axes = []
        for number in range(len(self.shape)):
            axes.append(unique(f"i{number}", taken))
            taken.add(axes[-1])
        self.own = unique("s", taken)
        self.inner = tuple(axes[n] for n in step.options)
        self.outer = tuple(axis for axis in axes if axis not in self.inner)
        self.axes = tuple(axes)

    def program(self, backend: str) -> Program:
        """The program without the call."""
        kernels: list[Step] = []
        place = next(number for number, step in enumerate(self.before.kernels) if step is self.step)
        rest: list[Step] = [
            replace(step, body=_Shares(self.step, self.names, step).new_body()) if isinstance(step, Kernel) else step
            for step in self.before.kernels[place + 1 :]
        ]
        read = {name for step in rest for name in uses(step).arrays}
        is_shared = self.names["power"] in read
        are_rows = self.outer and self.axes == self.outer + self.inner and not self.step.axes
        if not is_shared and not (backend == "numba" and are_rows) and backend not in ("cuda", "c"):
            return self.before
        is_read = self.step.array in read or any(self.step.array == array.name for array in self.before.outputs)
        made = ["shift", "total", *(["power", "share"] if is_shared else [])]
        kernels += [self.shift(), *([self.powers()] if is_shared else []), self.total(is_shared)]
        kernels += [self.share()] if is_shared else []
        kernels += [self.logarithm()] if is_read else []
        lengths = dict(zip(self.axes, self.shape, strict=True))
        arrays = []
        for what in made:
            axes = self.axes if what == "power" else self.outer
            arrays.append(Array(self.names[what], tuple(lengths[axis] for axis in axes)))
        kept = [array for array in self.before.temporaries if is_read or array.name != self.step.array]
        steps = (*self.before.kernels[:place], *kernels, *rest)
        return replace(self.before, kernels=steps, temporaries=(*kept, *arrays))

    def load(self, what: str) -> Load:
        return Load(self.names[what], self.index(self.axes if what == "power" else self.outer))

    def index(self, axes: tuple[str, ...]) -> tuple[Affine, ...]:
        return tuple(map(Affine.variable, axes))

    def power(self) -> Scalar:
        """The exponential at the axes."""
        entry = Load(self.step.operand, self.index(self.axes))
        return Operation("exp", (Operation("add", (entry, _negative(self.load("shift")))),))

    def reduced(self, array: str, value: Scalar, result: Scalar, start: Accumulator) -> Kernel:
        """A kernel that reduces ``value`` over the inner axes to ``result``, which holds the accumulator's name."""
        body: tuple[Statement, ...] = (Add(start.name, value, start.reduction),)
        for axis, extent in reversed(list(zip(self.axes, self.shape, strict=True))):
            body = (Loop(axis, (Bound(Affine.of(0)),), (Bound(extent - 1),), body),) if axis in self.inner else body
        return Kernel(array, self.outer, (start, *body, Store(result)))

    def shift(self) -> Kernel:
        greatest = Name(self.own)
        # The difference is nan where the greatest entry is infinite, or nan itself.
        is_finite = Operation("eq", (Operation("add", (greatest, _negative(greatest))), Number(0)))
        entry = Load(self.step.operand, self.index(self.axes))
        value = Operation("select", (is_finite, greatest, Number(0)))
        return self.reduced(self.names["shift"], entry, value, Accumulator(self.own, "max"))

    def powers(self) -> Kernel:
        return Kernel(self.names["power"], self.axes, (Store(self.power()),))

    def total(self, is_shared: bool) -> Kernel:
        value = self.load("power") if is_shared else self.power()
        return self.reduced(self.names["total"], value, Name(self.own), Accumulator(self.own))

    def share(self) -> Kernel:
        value = Operation("pow", (self.load("total"), Number(-1)))
        return Kernel(self.names["share"], self.outer, (Store(value),))

    def logarithm(self) -> Kernel:
        value: Scalar = Operation("add", (Operation("log", (self.load("total"),)), self.load("shift")))
        if self.step.factor != 1:
            value = Operation("mul", (Number(self.step.factor), value))
        order = self.step.axes or range(len(self.outer))
        return Kernel(self.step.array, tuple(self.outer[n] for n in order), (Store(value),))


class _Shares:
    """Puts the share of an exponential in its sum in the place of ``exp(z[i, j] - t[i])``."""

    def __init__(self, step: Apply, names: Mapping[str, str], kernel: Kernel) -> None:
        self.step = step
        self.own = names
        self.kernel = kernel
        # What an outer loop has computed for an inner one.
        self.declared = declared(kernel.body)
        self.replaced: set[str] = set()

    def new_body(self) -> tuple[Statement, ...]:
        """The body of the kernel, without what nothing uses any more."""
        body = with_values(self.kernel.body, self.value)
        unused = self.replaced - {node.name for node in scalars(body) if isinstance(node, Name)}
        return rewrite(body, lambda s, _: () if isinstance(s, Let) and s.name in unused else (s,))

    def value(self, value: Scalar) -> Scalar:
        entry = self.entry(value)
        if entry is None:
            return value
        return Operation("mul", (Load(self.own["power"], entry.index), Load(self.own["share"], self.outer(entry))))

    def outer(self, entry: Load) -> tuple[Affine, ...]:
        """The index of an entry without the axes that are summed."""
        return tuple(form for axis, form in enumerate(entry.index) if axis not in self.step.options)

    def entry(self, value: Scalar) -> Load | None:
        """The entry of the operand in the exponent, if that is the entry less the logarithm of its sum."""
        if self.step.factor != 1 or not isinstance(value, Operation) or value.function != "exp":
            return None
        (exponent,) = value.arguments
        if not isinstance(exponent, Operation) or exponent.function != "add" or len(exponent.arguments) != 2:
            return None
        for entry, other in (exponent.arguments, exponent.arguments[::-1]):
            if isinstance(entry, Load) and entry.array == self.step.operand:
                outer = self.outer(entry)
                logarithm = Load(self.step.array, tuple(outer[n] for n in self.step.axes) or outer)
                name = other.name if isinstance(other, Name) else ""
                if isinstance(let := self.declared.get(name), Let) and let.value == _negative(logarithm):
                    self.replaced.add(name)
                    return entry
                if other in (_negative(logarithm), Operation("neg", (logarithm,))):
                    return entry
        return None


def _negative(value: Scalar) -> Scalar:
    return Operation("mul", (Number(-1), value))
