"""The arguments of a callable by their names: keywords, the signature, and the docstring that ``help`` shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.loops import Argument, Program
from sympy_tensordiff.codegen.results import SINGLE
from sympy_tensordiff.errors import ArgumentTypeError

OPTIONS = ("out", "stream")
"""The keywords of a call that are no arguments of the expression."""


def parameters(arguments: Sequence[Argument]) -> dict[str, Argument]:
    """The arguments by the identifiers that keywords can be."""
    found: dict[str, Argument] = {}
    for argument in arguments:
        found[unique(argument.label, found, OPTIONS)] = argument
    return found


def signature(arguments: Sequence[Argument], backend: str) -> inspect.Signature:
    """What `inspect.signature` tells of a callable."""
    kind = inspect.Parameter
    options = OPTIONS if backend == "cuda" else OPTIONS[:1]
    return inspect.Signature(
        [
            *(kind(name, kind.POSITIONAL_OR_KEYWORD) for name in parameters(arguments)),
            *(kind(name, kind.KEYWORD_ONLY, default=None) for name in options),
        ]
    )


def in_order(arguments: Sequence[Argument], args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """All arguments of a call in their order; ``named`` are those that it gives by keywords."""
    found = parameters(arguments)
    given = dict(zip(found, args, strict=False))
    for name in named:
        if name not in found:
            known = ", ".join(found) or "none"
            raise ArgumentTypeError(f"there is no argument {name}: the arguments are {known}")
        if name in given:
            raise ArgumentTypeError(f"the argument {name} is given twice, by its position and by its name")
    missing = [name for name in found if name not in given and name not in named]
    if missing:
        raise ArgumentTypeError(f"the argument {missing[0]} is missing: give it by its position or by its name")
    return (*args, *(named[name] for name in found if name in named))


def documentation(program: Program, backend: str) -> str:
    """The docstring of a callable."""
    given = parameters(program.arguments)
    options = ["out : optional", f"    What is filled in place of new results: {_results(program.structure)}."]
    if backend == "cuda":
        options += ["stream : optional", "    The stream that CUDA works on; the caller's where it is None."]
    names = {argument.name: name for name, argument in given.items()}
    return "\n".join(
        [
            f"({', '.join(given)}) -> {_results(program.structure)}, computed with {backend}.",
            "",
            *described(program, names.__getitem__, options),
            *(f"\n{name} is called {a.label} in the expression." for name, a in given.items() if name != a.label),
        ]
    )


def described(program: Program, names: Callable[[str], str], options: Sequence[str] = ()) -> list[str]:
    """The lines of a docstring on arguments with their shapes and types, on options, and on results."""
    lines = [f"{names(argument.name)} : {_said(argument)}" for argument in program.arguments]
    lines = ["Parameters", "----------", *lines, *options, ""] if lines or options else []
    lines += ["Returns", "-------"]
    for output in program.outputs:
        kind = f"array of shape {shown_shape(output.shape)}" if output.shape else "number"
        lines.append(f"{output.name} : {kind}, of the arguments' type: float32 if all of them are, else float64")
    return lines


def shown_shape(shape: Sequence[Any]) -> str:
    """A shape as NumPy prints it."""
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _said(argument: Argument) -> str:
    if argument.kind == "integer":
        return "int"
    if argument.kind == "scalar":
        return "float"
    what = f"array of shape {shown_shape(argument.shape)}" if argument.shape else "number, or array of shape ()"
    if argument.dtype == "real":
        return f"{what}, real (float64, float32 or integers)"
    below = "" if argument.below is None else f" from 0 to {argument.below - 1}"
    return f"{what}, of integers{below}"


def _results(structure: str) -> str:
    count = structure.count(SINGLE)
    return "the result" if structure == SINGLE else f"a tuple of {count} {'result' if count == 1 else 'results'}"
