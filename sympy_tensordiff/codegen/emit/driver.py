"""The parts of generated modules that backends share: header, names, functions of steps, the driver ``run``."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sympy_tensordiff.codegen.emit.forms import CHOICE, UNARY, FormNames, FormPrinter, TextBlock, tuple_text
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import Array, FusedKernels, Kernel, Program, Scatter, Step
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.ir.walk import array_shapes, declared, externals, filled_arrays, function_name, loops
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.products import quotient_by

ENTRY_NAMES = frozenset({"run", "run_in", "run_on_device", "scratch", "tables"})
ENTRY_NAMES |= {"compute", "checked", "type_of", "cupy", "ARGUMENTS", "FUNCTIONS"}
"""The names that callables look up in a module of any backend."""

LAPACK_IMPORT = "from scipy.linalg import lapack"
"""The line that imports LAPACK in modules that call it."""

STANDARD_MODULES = ("contextlib", "functools", "itertools", "math")
"""The modules of the standard library that a module imports if it uses them."""


def module_names(program: Program, own: Iterable[str], kind: type[FormNames] = FormNames) -> FormNames:
    """Return the identifiers for the names of ``program`` in its generated module, as an object of the class ``kind``.
    They differ from the names of the program's functions and from ``own``, the other names that the module defines or
    imports.
    """
    names = [a.name for a in program.arguments] + list(array_shapes(program))
    names += [solved.name for solved in solve_sizes(program.arguments)] + [size.name for size in program.sizes]
    for kernel in program.nests:
        names += [*kernel.axes, *(loop.variable for loop in loops(kernel.body)), *declared(kernel.body)]
    functions = {function_name(kernel) for kernel in program.kernels}
    result = kind(names, {*own, *ENTRY_NAMES, *STANDARD_MODULES, "np", *functions})
    result.texts |= functions
    for external in externals(program):
        result.add_function(external)
    return result


def passed_names(kernel: Step, names: FormNames, extents: Sequence[Affine] = ()) -> list[str]:
    """Return the names of the arguments of the function for the step `kernel`, in this order: arrays that it fills,
    arrays that it reads, scalars, and integers, also those in ``extents``.
    """
    used = uses(kernel)
    integers = sorted({*used.integers, *(name for extent in extents for name in extent.atoms())})
    return list(map(names, dict.fromkeys([*filled_arrays(kernel), *used.arrays, *used.scalars, *integers])))


def head_text(kernel: Step, passed: Iterable[str]) -> str:
    """Return the ``def`` line of a step's function with the parameters ``passed``."""
    return f"def {function_name(kernel)}({', '.join(passed)}):"


class Functions:
    """The functions of a module that run its steps, as texts. If two functions are equal up to names, only one is
    printed, and called with different arguments.
    """

    def __init__(self, names: FormNames) -> None:
        self._all = names
        self._passed: dict[str, list[str]] = {}
        self.texts: list[str] = []
        """The texts of all functions, with their decorators."""
        self._known: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def add(
        self,
        kernel: Step,
        text: str,
        decorator: str = "",
        passed: Sequence[str] | None = None,
        names: FormNames | None = None,
    ) -> None:
        """Add the function of the step `kernel`, with the source ``text`` after ``decorator``, to the module. If an
        earlier function differs from it only in names, do not add it: the step calls the earlier one.

        ``passed`` are the arguments of its call, by default `passed_names`; ``names`` are the identifiers in which
        equal functions may differ.
        """
        own = function_name(kernel)
        self._passed[own] = passed_names(kernel, self._all) if passed is None else list(passed)
        texts = (names or self._all).texts
        name = self._known.setdefault(text_up_to_renaming(decorator + text, texts), own)
        self._names[own] = name
        if name == own:
            self.texts.append(decorator + text)

    def __call__(self, kernel: Step) -> str:
        """Return the text of the call that runs a step, with its arguments."""
        own = function_name(kernel)
        return f"{self._names[own]}({', '.join(self._passed[own])})"


WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
"""A name in a text that is not an attribute."""

_SUBSCRIPTS = re.compile(rf'"[\w,.]*->\w*"|{WORD.pattern}')
"""The subscripts of an ``einsum``, whose letters are not renamed, or a name."""


def text_up_to_renaming(text: str, names: Collection[str]) -> str:
    """Return ``text`` with each of ``names`` replaced by a number, counted by first occurrence: the results for two
    functions are equal if and only if these differ in names only.

    >>> text_up_to_renaming("x = f(y, x)", {"x", "y"}) == text_up_to_renaming("u = f(x, u)", {"u", "x"})
    True
    >>> text_up_to_renaming('einsum("ij,j->i", i)', {"i", "j"})
    'einsum("ij,j->i", <0>)'
    """
    places: dict[str, str] = {}
    return _SUBSCRIPTS.sub(lambda m: places.setdefault(m[0], f"<{len(places)}>") if m[0] in names else m[0], text)


def task_text(kernel: Kernel, names: FormNames) -> str:
    """Return a comment that says which entry a kernel computes."""
    array = names(kernel.array)
    if isinstance(kernel, Scatter):
        where = "a diagonal of {}" if kernel.exclusive else "the entries of {} that data select"
        task = {"sum": "Add to"}.get(kernel.reduction, f"Take the {kernel.reduction}imum in")
        return f"{task} {where.format(array)}"
    return f"Fill {array}[{', '.join(map(names, kernel.axes))}]" if kernel.axes else f"Fill {array}"


def run_parameters(program: Program) -> list[str]:
    """Return the parameters of ``run``: the arguments of the program, then the arrays to fill."""
    return [a.name for a in program.arguments] + [a.name for a in program.outputs]


def header(program: Program, backend: str, names: FormNames) -> str:
    """Return the docstring at the top of a generated module."""
    printer = FormPrinter(names)
    lines = [f'"""Generated by sympy_tensordiff for the backend "{backend}".', ""]
    outputs = " and ".join(names(a.name) for a in program.outputs)
    lines += [f"run({', '.join(map(names, run_parameters(program)))}) fills {outputs}.", ""]
    filled = [f"{names(a.name)} : array {shape_text(a.shape, printer)}, to be filled" for a in program.outputs]
    return "\n".join([*lines, *argument_lines(program, names, filled), '"""'])


def argument_lines(program: Program, names: FormNames, others: Sequence[str] = ()) -> list[str]:
    """Return comment lines that describe the parameters of the generated function: the arguments of ``program``, the
    lines ``others``, and the user functions to supply. ``names`` maps names of the program to identifiers.
    """
    lines, printer = [], FormPrinter(names)
    for argument in program.arguments:
        what = f"array {shape_text(argument.shape, printer)}" if argument.kind == "array" else argument.kind
        what += " of integers, which select entries" * (argument.dtype == "integer")
        lines.append(f"{names(argument.name)} : {what}")
    lines += others
    for external in externals(program):
        count = len(external.orders)
        text = f"function of {count} number{'s' * (count > 1)}, to be supplied (see FUNCTIONS)"
        lines.append(f"{names.functions[external]} : {text}")
    return lines


def module_text(
    program: Program,
    backend: str,
    names: FormNames,
    pieces: Sequence[str],
    modules: Mapping[str, Sequence[str]] | None = None,
    library: str = "",
    constants: str = "",
) -> str:
    """Return the text of a generated Python module: a header, imports, the definitions ``library`` and ``constants``,
    and the texts ``pieces`` of its functions.

    ``modules`` maps further modules to names that may be imported from them; only names that occur in the pieces are.
    """
    text = "\n".join(pieces)
    lines = [f"import {module}" for module in STANDARD_MODULES if f"{module}." in text]
    lines += [""] if lines else []
    lines += ["import numpy as np"] if "np." in text else []
    lines += [LAPACK_IMPORT] if "getattr(lapack, " in text else []
    for module, known in (modules or {}).items():
        used = [name for name in known if re.search(rf"(?<![\w.]){name}[.(]|@{name}\b", text)]
        lines += [f"from {module} import {', '.join(used)}"] if used else []
    top = [header(program, backend, names), "\n".join(lines), library, labels_text(program, names), constants]
    return "\n\n\n".join(["\n\n".join(filter(None, top)), *pieces]) + "\n"


def without_unused_real(lines: list[str]) -> list[str]:
    """Return the lines of a function without the line that defines ``real``, the number type, if nothing else
    uses it.
    """
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("real = "))
    used = any(re.search(r"\breal\b", line) for line in lines[at + 1 :])
    return lines if used else lines[:at] + lines[at + 1 :]


def labels_text(program: Program, names: FormNames) -> str:
    """Return the lines that define ARGUMENTS, the tuple of the user's names of the arguments, and FUNCTIONS, if there
    are user functions: a dictionary from their names in the module to the user's names and the orders of
    differentiation.
    """
    lines = [f"ARGUMENTS = {tuple(a.label for a in program.arguments)!a}"]
    supplied = {names.functions[external]: (external.name, external.orders) for external in externals(program)}
    if supplied:
        lines.append("# To be supplied in this module before the first call, as td.lambdify(..., functions=...) does:")
        lines.append("# functions of numbers, here by their names and by how often each argument is differentiated.")
        lines.append(f"FUNCTIONS = {supplied!a}")
    return "\n".join(lines)


def size_lines(program: Program, names: FormNames) -> list[str]:
    """Return the lines of a driver that compute the sizes from the shapes of the arguments."""
    lines = []
    printer = FormPrinter(names)
    for solved in solve_sizes(program.arguments):
        axis = f"{names(solved.argument.name)}.shape[{solved.axis}]"
        coefficient, rest = solved.parts
        sign = -1 if coefficient.is_constant and coefficient.constant < 0 else 1
        value = quotient_by((Affine.variable(axis) - rest) * sign, coefficient * sign)
        lines.append(f"{names(solved.name)} = {FormPrinter(names, {axis: axis}).form(value)}")
    for size in program.sizes:
        lines.append(f"{names(size.name)} = {printer.extreme('max' if size.lows else 'min', size.lows or size.highs)}")
    return lines


def shape_text(shape: Iterable[Affine], printer: FormPrinter) -> str:
    """Return a shape as the text of a tuple."""
    return tuple_text(map(printer.form, shape))


class Temporaries:
    """Describes the temporaries of a program for the code that allocates them: their shapes as text, with negative
    extents replaced by 0, and the conditions under which they are not empty.
    """

    def __init__(self, program: Program, printer: FormPrinter) -> None:
        self._prover = Prover(program)
        self._arrays = {a.name: a for a in program.temporaries}
        self._printer = printer

    def get(self, name: str) -> Array | None:
        """Return the temporary array called ``name``; None if there is none."""
        return self._arrays.get(name)

    def may_be_empty(self, array: Array) -> bool:
        """Return whether an extent of ``array`` may be zero or negative in some call."""
        return not all(self.is_positive(form) for form in array.shape)

    def shape(self, array: Array) -> str:
        """Return the shape of ``array`` as text."""
        texts = self._extents(array)
        return f"({', '.join(texts)})" if len(texts) > 1 else texts[0] if texts else "()"

    def entries(self, array: Array) -> str:
        """Return the number of entries of ``array`` as text."""
        return "*".join(self._extents(array, UNARY)) or "1"

    def _extents(self, array: Array, level: int = CHOICE) -> list[str]:
        """Return the extents of ``array`` as texts, clipped to 0 if they may be negative. They are in parentheses where
        an operator of the precedence ``level`` needs them.
        """
        form, integers = self._printer.form, self._printer.integers
        return [form(f, level) if self.is_positive(f) else integers("max", ["0", form(f)]) for f in array.shape]

    def work_extents(self, step: Step) -> Sequence[Affine]:
        """Return the extents that must all be positive for `step` to compute anything, those of its result; otherwise
        its call is skipped. Return () for a step that is always called.
        """
        if isinstance(step, Scatter):
            return step.extents if step.exclusive else ()
        array = None if isinstance(step, FusedKernels) else self.get(step.array)
        return () if array is None else array.shape

    def work_constraints(self, step: Step) -> list[Constraint]:
        """Return the constraints on sizes under which `step` computes at least one entry: its extents are positive.
        Extents that are always positive are left out.
        """
        return [Constraint("ge", form - 1) for form in self.work_extents(step) if not self.is_positive(form)]

    def nonempty_condition(self, extents: Iterable[Affine]) -> str:
        """Return the condition that all ``extents`` are positive as text; "" if that holds in every call."""
        texts = [f"{self._printer.form(form)} > 0" for form in extents if not self.is_positive(form)]
        return self._printer.conjunction.join(texts)

    def is_positive(self, form: Affine) -> bool:
        """Return whether the size form ``form`` is positive in every call."""
        return self._prover.proves(Constraint("ge", form - 1))


def host_driver(
    program: Program,
    names: FormNames,
    call: Callable[[Step], str],
    around: str = "",
    name: str = "run",
) -> str:
    """Return the text of the function ``name`` that calls the functions of all steps in order, for arrays in host
    memory. ``call`` returns the call of a step; ``around``, if given, is a ``with`` line around the calls.
    """
    temporaries = Temporaries(program, FormPrinter(names))
    block = TextBlock()
    inner = block.child(f"def {name}({', '.join(map(names, run_parameters(program)))}):")
    inner.line(f'"""Fill {" and ".join(names(output.name) for output in program.outputs)}."""')
    for line in size_lines(program, names):
        inner.line(line)
    dtype = f"{names(program.outputs[0].name)}.dtype"
    if around:
        inner = inner.child(around)
    for kernel in program.kernels:
        made = [] if isinstance(kernel, Scatter) else [temporaries.get(name) for name in filled_arrays(kernel)]
        place = inner
        for temporary in (array for array in made if array is not None):
            inner.line(f"{names(temporary.name)} = np.empty({temporaries.shape(temporary)}, {dtype})")
            if temporaries.may_be_empty(temporary) and not isinstance(kernel, FusedKernels):
                place = inner.child(f"if {names(kernel.array)}.size:")
        if (
            isinstance(kernel, Scatter)
            and kernel.exclusive
            and (some := temporaries.nonempty_condition(kernel.extents))
        ):
            place = inner.child(f"if {some}:")
        place.line(call(kernel))
    return "\n".join(block.render())


def scratch_arrays(program: Program) -> list[Array]:
    """Return the temporaries of a compiled program, in the order in which they are filled."""
    known = {array.name: array for array in program.temporaries}
    steps = [step for step in program.kernels if not isinstance(step, Scatter)]
    return [known[name] for step in steps for name in filled_arrays(step) if name in known]
