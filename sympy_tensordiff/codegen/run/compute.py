"""The function ``compute`` of generated modules: it checks the arguments, allocates the results, and calls ``run``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sympy_tensordiff.codegen.emit.array_helpers import TYPE_HELPERS
from sympy_tensordiff.codegen.emit.dialects import Dialect
from sympy_tensordiff.codegen.emit.driver import module_names, run_parameters, shape_text, size_lines
from sympy_tensordiff.codegen.emit.forms import FormNames, FormPrinter, TextBlock
from sympy_tensordiff.codegen.ir.programs import Argument, Check, Program
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.run.results import nest
from sympy_tensordiff.codegen.run.signature import docstring_lines
from sympy_tensordiff.integer.affine import Affine

_OWN_NAMES = ("checked", "type_of", "dtype", "stream")
_MAX_TUPLES = 50
"""The most tuples in nested results; with more, they are returned flat, since Python limits nested parentheses."""

_HELPERS = '''
def checked(name, value, rank, kinds="fiub"):
    """An argument as an array, which has so many axes with entries, and numbers of these kinds."""
    array = np.asarray(value)
    if array.ndim != rank or 0 in array.shape or array.dtype.kind not in kinds or array.dtype.char in "eg":
        wanted = "integers" if kinds == "iu" else "real numbers (float64, float32, integers)"
        found = f"shape {array.shape} and dtype {array.dtype}"
        raise ValueError(f"{name} has {found}; it needs {rank} axes, none without entries, and {wanted}")
    return value if rank == 0 and isinstance(value, (int, float)) else array


def type_of(*values):
    """The type of the results: float32 if all arrays have it, else float64."""
    strong = [value.dtype if value.dtype.kind == "f" else np.float64 for value in values if hasattr(value, "dtype")]
    return np.result_type(*strong).type if strong else np.float64
'''


def with_compute(source: str, program: Program, backend: str) -> str:
    """Return the module text ``source`` extended by a function ``compute`` that allocates results and calls ``run``."""
    if "import numpy as np\n" not in source:
        head, end, rest = source.partition('\n"""\n\n')
        source = f"{head}{end}import numpy as np\n{rest}"
    names = module_names(program, {*_OWN_NAMES, *compile(source, "<text>", "exec").co_names})
    return f"{source}\n{_HELPERS}\n\n" + "\n".join(_compute(program, names, backend).render()) + "\n"


def _compute(program: Program, names: FormNames, backend: str) -> TextBlock:
    """Return the text of ``compute``, which checks its arguments, allocates results and calls ``run``."""
    block = TextBlock()
    own = ["stream=0"] if backend == "cuda" else []
    inner = block.child(f"def compute({', '.join([*(names(a.name) for a in program.arguments), *own])}):")
    lines = ['"""Check the arguments, and return new results.', "", *docstring_lines(program, names), '"""']
    for line in lines:
        inner.line(line)
    for argument in program.arguments:
        inner.line(f"{names(argument.name)} = {_read_text(argument, names(argument.name))}")
    for line in size_lines(program, names):
        inner.line(line)
    _check_shapes(program, names, inner)
    for condition, message in _refusals(program, names):
        inner.child(f"if {condition}:").line(f"raise ValueError({message!a})")
    real = [a for a in program.arguments if a.kind != "integer" and a.dtype == "real"]
    inner.line(f"dtype = type_of({', '.join(names(a.name) for a in real)})")
    for argument in real:
        name = names(argument.name)
        ranked = f"np.require({name}, dtype, 'CA')"
        inner.line(f"{name} = {ranked if argument.shape else f'dtype({name})'}")
    printer = FormPrinter(names)
    for output in program.outputs:
        inner.line(f"{names(output.name)} = np.empty({shape_text(output.shape, printer)}, dtype)")
    inner.line(f"run({', '.join([*map(names, run_parameters(program)), *(part[:6] for part in own)])})")
    inner.line(f"return {_results_text(program, names)}")
    return block


def with_pure_compute(source: str, program: Program, dialect: Dialect) -> str:
    """Return the module text ``source``, of functions without side effects, extended by a function ``compute`` that
    checks its arguments and calls ``run``.
    """
    own = {*dialect.own_names, "checked", "type_of", "device_of"}
    names = module_names(program, {*own, *compile(source, "", "exec").co_names})
    parameters = ", ".join(names(a.name) for a in program.arguments)
    block = TextBlock()
    inner = block.child(f"def compute({parameters}):")
    for line in ['"""Return new results.', "", *docstring_lines(program, names), '"""']:
        inner.line(line)
    real = [a for a in program.arguments if a.kind != "integer" and a.dtype == "real"]
    inner.line(f"dtype = type_of({', '.join(names(a.name) for a in real)})")
    if any("device=" in text for text in dialect.preamble.values()):
        arrays = [names(a.name) for a in program.arguments if a.kind != "integer"]
        inner.line(f"device = device_of({', '.join(arrays)})")
    for name, text in dialect.preamble.items():
        inner.line(f"{name} = {text}")
    for argument in program.arguments:
        name = names(argument.name)
        if argument.kind == "integer":
            continue
        is_real = argument.dtype == "real"
        read = f"checked({argument.label!a}, {name}{'' if is_real else ', True'})"
        inner.line(f"{name} = {f'real({read})' if is_real else dialect.integers.format(read)}")
        label, rank = argument.label.replace("{", "{{").replace("}", "}}"), len(argument.shape)
        message = f"{label} has {{{name}.ndim}} axes, {rank} needed"
        inner.child(f"if {name}.ndim != {rank}:").line(f"raise ValueError(f{message!a})")
    for line in size_lines(program, names):
        inner.line(line)
    _check_shapes(program, names, inner)
    # Reads are inside of all arrays, so a check that needs a search is left out.
    checks = [check for check in (*program.assumptions, *program.checks) if not check.points]
    for condition, message in _size_refusals(program, FormPrinter(names), checks):
        inner.child(f"if {condition}:").line(f"raise ValueError({message!a})")
    results = [_Text(names(output.name)) for output in program.outputs]
    text = ", ".join(results)
    inner.line(
        f"{text}{',' * (len(results) == 1)} = run({', '.join([parameters, *dialect.preamble]).removeprefix(', ')})"
    )
    inner.line(f"return {_nested_text(program, results)}")
    return f"{source}\n{TYPE_HELPERS[dialect.backend]}\n\n" + "\n".join(block.render()) + "\n"


def _read_text(argument: Argument, name: str) -> str:
    """Return the text of an expression that checks an argument, called ``name`` in the code, and converts it to an
    array (a scalar integer to an int).
    """
    kinds = ', "iu"' if argument.dtype == "integer" or argument.kind == "integer" else ""
    read = f"checked({argument.label!a}, {name}, {len(argument.shape)}{kinds})"
    if not kinds:
        return read
    return f"np.require({read}, np.int64, 'CA')" if argument.shape else f"int({read})"


def _check_shapes(program: Program, names: FormNames, block: TextBlock) -> None:
    """Append to ``block`` tests that compare the shapes of the arguments of ``program`` with the sizes."""
    printer = FormPrinter(names)
    read = {(s.argument.name, s.axis) for s in solve_sizes(program.arguments) if s.form == Affine.variable(s.name)}
    for argument in program.arguments:
        if not all((argument.name, axis) in read for axis in range(len(argument.shape))):
            name, shape = names(argument.name), shape_text(argument.shape, printer)
            label = argument.label.replace("{", "{{").replace("}", "}}")
            message = f"{label} has shape {{{name}.shape}}, expected {{{shape}}}"
            block.child(f"if {name}.shape != {shape}:").line(f"raise ValueError(f{message!a})")


def _refusals(program: Program, names: FormNames) -> Iterator[tuple[str, str]]:
    """Yield the conditions on sizes and data under which a call of ``program`` is refused, as pairs of texts: the
    condition and its message.
    """
    printer = FormPrinter(names)
    yield from _size_refusals(program, printer, (*program.assumptions, *program.checks))
    extremes = {}
    for argument in program.arguments:
        if argument.dtype == "integer":
            name = names(argument.name)
            few = (name, name) if not argument.shape else (f"{name}.min()", f"{name}.max()")
            extremes[f"least {argument.name}"], extremes[f"greatest {argument.name}"] = few
            if argument.below is not None:
                below = printer.form(argument.below)
                message = f"{argument.selects} has to be from 0 to {argument.below - 1}"
                yield f"{few[0]} < 0 or {few[1]} >= {below}", f"{argument.label} has an entry outside: {message}"
    with_data = FormPrinter(names, extremes)
    for suspect in program.data_checks:
        what = f"{suspect.data or 'data'} may lead a read out of {suspect.load.array}"
        message = f"{what}: call run with data known to be right"
        yield " and ".join(map(with_data.condition, suspect.violation)) or "True", message


def _size_refusals(program: Program, printer: FormPrinter, checks: Sequence[Check]) -> Iterator[tuple[str, str]]:
    """Yield the conditions on sizes under which a call is refused by its ``checks``, as pairs of texts: the condition
    and its message.
    """
    positive = [Affine.variable(solved.name) for solved in solve_sizes(program.arguments)]
    positive += [*program.extents, *(extent for output in program.outputs for extent in output.shape)]
    given = {form for argument in program.arguments for form in argument.shape}
    texts = list(dict.fromkeys(printer.form(form) for form in positive if form.atoms() and form not in given))
    if texts:
        least = texts[0] if len(texts) == 1 else f"min({', '.join(texts)})"
        yield f"{least} < 1", f"a tensor would have no entries: of {', '.join(texts)}, each has to be positive"
    for check in checks:
        yield " and ".join(map(printer.condition, check.violation)) or "True", check.message


class _Text(str):
    """A string whose ``repr`` is the string itself; nested tuples of such strings print as code."""

    __slots__ = ()
    __repr__ = str.__str__


def _results_text(program: Program, names: FormNames) -> str:
    """Return the text of the nested tuples of results that ``compute`` returns: the names of the arrays, where a result
    without axes is read as a number.
    """
    return _nested_text(program, [_Text(names(out.name) + "[()]" * (not out.shape)) for out in program.outputs])


def _nested_text(program: Program, texts: Sequence[_Text]) -> str:
    """Return ``texts``, one per result of `program`, as the text of a tuple that is nested as the user's expressions
    are. If these are nested more deeply than Python's parser allows, return the text of a flat tuple.
    """
    is_deep = program.structure.count("(") > _MAX_TUPLES
    return repr(tuple(texts) if is_deep else nest(program.structure, texts))
