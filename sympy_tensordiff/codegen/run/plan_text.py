"""The text of ``.plan``: arguments, results, temporaries and the steps in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from sympy_tensordiff.codegen.emit.forms import FormNames
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import ConstantKernel, FusedKernels, Kernel, Program, Recurrence, Scatter
from sympy_tensordiff.codegen.ir.steps import (
    describe,
    describe_fused,
    describe_kernel,
    describe_scatter,
    is_compiled_whole,
    uncompiled_arrays,
)
from sympy_tensordiff.codegen.ir.walk import all_names, array_shapes
from sympy_tensordiff.codegen.run.threads import PARALLEL_WORK, blockable
from sympy_tensordiff.codegen.schedule.cpu import ScheduleContext
from sympy_tensordiff.codegen.schedule.device_loops import describe_device
from sympy_tensordiff.codegen.schedule.fusion import fuse, nest_of
from sympy_tensordiff.codegen.schedule.gpu_model import describe_model
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.integer.affine import Affine

COMPILED = ("numba", "llvm")
"""The CPU backends that compile loops."""


class Plan(str):
    """A string with the plan of a program, which notebooks show as a table."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython's hook for text output: print the lines of this text on ``printer``. ``cycle`` is not used."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """IPython's hook for HTML output: a table of the names, shapes and steps under their headings."""
        return f'<table style="text-align: left">{"".join(map(self._row, self.splitlines()))}</table>'

    def _row(self, line: str) -> str:
        """Return a line of a plan's text as a row of an HTML table. The row is a heading, two cells (a step number or a
        name, and its text), or one text.
        """
        text = line.strip()
        if line == text and line.endswith(":"):
            return f'<tr><th colspan="2" style="text-align: left">{escape(text[:-1])}</th></tr>'
        step, name = re.match(r"(\d+\.) (.*)", text), re.match(r"([^:=]{1,40}?) ?: (.*)", text)
        cells = step.groups() if step else name.groups() if name else ("", text)
        return "<tr>" + "".join(f'<td style="text-align: left">{escape(cell)}</td>' for cell in cells) + "</tr>"


def plan_text(program: Program, backend: str, driver: Sequence[str]) -> Plan:
    """Return the description of a program: its steps in order and the reasons for temporaries. ``driver`` are lines
    about how the kernels are called.
    """
    program = prepared(program, backend, splits=False)
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
    elif program.notes:
        lines += ["products:"]
    lines += [f"  {note}" for note in program.notes]
    if program.laws:
        uses = [f"{law} ({count} times)" if count > 1 else law for law, count in program.laws]
        lines.append(f"in forms that keep their digits: {', '.join(uses)}")
    lines += driver
    lines.append("kernels:")
    shapes = array_shapes(program)
    prover = Prover(program)
    steps = fuse(program, prover).kernels if backend in COMPILED else program.kernels
    for n, step in enumerate(steps, 1):
        if isinstance(step, FusedKernels):
            text = describe_fused(step)
        elif isinstance(step, Scatter):
            text = describe_scatter(step, backend)
        elif isinstance(step, Kernel):
            once = ", once for all calls" * (isinstance(step, ConstantKernel) and backend == "llvm")
            text = f"fill {describe_kernel(step)}{once}"
        else:
            text = describe(step, shapes)
        lines.append(f"  {n}. {text}")
        if backend in COMPILED and isinstance(step, Kernel | FusedKernels):
            place = ScheduleContext(prover, FormNames(all_names(program), ()).fresh, off=program.rules_off)
            nest_of(step, place)
            lines += [f"     {rule.name}: {rule.reason}" for rule in place.fired]
    return Plan("\n".join(lines))


def driver_lines(
    bounded: Program, fused: Program, backend: str, parallel: bool | None, fallback: str = ""
) -> list[str]:
    """Return the lines of ``.plan`` that say which steps of a program are compiled, and which run on several cores or
    as partial sums. ``bounded`` is the scheduled program, ``fused`` the same after fusion; `fallback` says why LLVM is
    not used, or is "".

    ``backend`` and ``parallel`` are the user's choices.
    """
    if backend == "cuda":
        return [*describe_device(bounded), *describe_model(bounded)]
    if backend not in COMPILED:
        return []
    library = uncompiled_arrays(fused, recurrences=backend == "llvm")
    is_one = bool(fused.nests) or is_compiled_whole(fused) or (backend == "llvm" and not library)
    loops = [step.array for step in fused.kernels if isinstance(step, Recurrence) and step.array in library]
    lines = ["compiled: one function" if is_one else "compiled: nothing"]
    if loops:
        lines[0] += f"; the steps of {', '.join(loops)} run in Python, with NumPy"
    if library and (fused.nests or (backend == "llvm" and len(library) < len(fused.kernels))):
        lines = [
            f"compiled: each kernel, called from Python, since the library call for {', '.join(library)} cannot be",
            *(f"the steps of {array} run in Python, with NumPy" for array in loops),
        ]
    if fallback:
        lines.append(f"compiled by Numba: {fallback}")
    if parallel:
        names = ", ".join(name.removeprefix("fill_") for name in sorted(blockable(fused)))
        lines.append(f"on all cores: {names or 'nothing'}")
    elif parallel is None:
        lines.append(f"on all cores: kernels of about {PARALLEL_WORK} operations in a call, or more")
    return lines


def _shape(forms: tuple[Affine, ...]) -> str:
    """Return the shape with the extents ``forms`` as text."""
    return f"({', '.join(map(str, forms))})"
