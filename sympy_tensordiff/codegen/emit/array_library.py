"""Modules of pure array functions: library calls that return their results, the driver, and the text of the module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from sympy_tensordiff.codegen.emit.base import signed_text
from sympy_tensordiff.codegen.emit.dialects import Dialect
from sympy_tensordiff.codegen.emit.driver import (
    STANDARD_MODULES,
    WORD,
    Functions,
    argument_lines,
    head_text,
    labels_text,
    passed_names,
    size_lines,
)
from sympy_tensordiff.codegen.emit.forms import INDENT, FormNames, TextBlock
from sympy_tensordiff.codegen.emit.library import LibraryCall
from sympy_tensordiff.codegen.ir.programs import Apply, ContractionStep, ProductStep, Program, Solve
from sympy_tensordiff.codegen.ir.walk import filled_arrays


class PureLibraryCall(LibraryCall):
    """Prints a linear-algebra step as an expression without side effects; a singular matrix gives infinities or nan."""

    functions: ClassVar = {
        "inv": ("np.linalg.inv({0})", "inverse_factorized({0})"),
        "det": ("np.linalg.det({0})", "determinant_factorized({0})"),
        "logdet": ("log_determinant({0})", "log_determinant_factorized({0}, False)"),
        "logabsdet": ("np.linalg.slogdet({0})[1]", "log_determinant_factorized({0}, True)"),
        "cofactor": ("cofactor({0}, {2})", "cofactor({3}, {2})"),
        "factors": ("factorized({0}, {2})",),
    }
    solves = "np.linalg.solve({0}, {1})", "solve_factorized({0}, {1}, {2})"

    def __init__(self, step: ProductStep | Apply, program: Program, names: FormNames) -> None:
        super().__init__(step, program, names)
        if isinstance(step, Solve) and step.factored:  # factors may be a tuple, which has no shape
            row, column = step.left.labels[-2:]
            own = {label: f"{names(step.right.array)}.shape[{axis}]" for axis, label in enumerate(step.right.labels)}
            self.lengths = {row: own.get(column, ""), column: own.get(row, "")} | own

    def value(self, step: ProductStep | Apply) -> tuple[str, str]:
        """Return ``(description, expression text)`` of the result of a step; the step's numeric factor is not
        included.
        """
        if not isinstance(step, ContractionStep):
            return super().value(step)
        labels = dict.fromkeys(label for operand in step.operands for label in operand.labels)
        letters = dict(zip(labels, "ijklmnopqrstuvwxyzabcdefghABCDEFGHIJKLMNOPQRSTUVWXYZ", strict=False))
        axes = ["".join(letters[label] for label in operand.labels) for operand in step.operands]
        out = "".join(letters[label] for label in step.output)
        arrays = ", ".join(self.names(operand.array) for operand in step.operands)
        return "a sum of products", f'np.einsum("{",".join(axes)}->{out}", {arrays})'


def pure_library_text(
    step: ProductStep | Apply, program: Program, names: FormNames, dialect: Dialect
) -> tuple[str, str, list[str]]:
    """Return ``(text, "", parameters)`` for a function that computes the `step` of `program` by one library call and
    returns the result as a new array: its source text, no decorator, and the names of its parameters.
    """
    what, value = PureLibraryCall(step, program, names).value(step)
    value = value.replace(".transpose(", f".{dialect.transpose}(")
    if isinstance(step, ContractionStep):
        value = value.removesuffix(")") + dialect.optimize + ")"
    if step.factor != 1:
        value = f"{signed_text(step.factor)}*{value}"
    passed = [name for name in passed_names(step, names) if name != names(step.array)]
    lines = [head_text(step, passed), f'{INDENT}"""Return {names(step.array)}: {what}."""', f"{INDENT}return {value}"]
    return dialect.text("\n".join(lines)), "", passed


def pure_driver(program: Program, names: FormNames, functions: Functions, dialect: Dialect, name: str = "run") -> str:
    """Return the text of the function ``name`` that calls the functions of all steps of ``program`` and returns the
    results as a tuple, without changing any array.
    """
    block = TextBlock()
    body = TextBlock()
    for line in size_lines(program, names):
        body.line(line)
    for step in program.kernels:
        body.line(f"{', '.join(map(names, filled_arrays(step)))} = {functions(step)}")
    results = [names(output.name) for output in program.outputs]
    body.line(f"return {', '.join(results)}{',' * (len(results) == 1)}")
    inner = block.child(f"def {name}({', '.join([*(names(a.name) for a in program.arguments), *dialect.preamble])}):")
    inner.line('"""Return the results for arguments of one type, a tuple."""')
    inner.slot(body)
    return "\n".join(block.render())


def pure_module_text(
    program: Program, dialect: Dialect, names: FormNames, pieces: Sequence[str], constants: str = ""
) -> str:
    """Return the text of a module of `dialect`: a docstring, the imports, the definitions ``constants`` and the
    function texts ``pieces``. ``names`` maps the names of the program to identifiers.
    """
    words = set(WORD.findall("\n".join(pieces)))
    arguments = ", ".join(names(argument.name) for argument in program.arguments)
    outputs = ", ".join(names(output.name) for output in program.outputs)
    lines = [
        f'"""Generated by sympy_tensordiff for {dialect.title}.',
        "",
        f"compute({arguments}) returns {outputs}.",
        "",
    ]
    lines += [*argument_lines(program, names), '"""']
    imports = [f"import {module}" for module in STANDARD_MODULES if module in words | {"functools"}]
    imports.append("")
    for line in dialect.imports:
        head, _, own = line.partition(" import ")
        used = [name for name in own.split(", ") if name in words]
        if not own:
            imports.append(line) if re.findall(r"\w+", line)[-1] in {*words, dialect.module} else None
        elif used:
            imports.append(f"{head} import {', '.join(used)}")
    top = ["\n".join(lines), "\n".join(imports), labels_text(program, names), constants]
    return "\n\n\n".join(["\n\n".join(filter(None, top)), *pieces]) + "\n"
