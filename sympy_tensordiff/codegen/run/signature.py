"""The arguments of a callable: keywords, the signature, the docstring, and the arguments of expressions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy

from sympy_tensordiff.codegen.emit.forms import tuple_text
from sympy_tensordiff.codegen.ir.programs import Argument, Program
from sympy_tensordiff.codegen.ir.rename import unique
from sympy_tensordiff.codegen.ir.sizes import check_determined
from sympy_tensordiff.codegen.lower.functions import is_external
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker
from sympy_tensordiff.codegen.run.results import SINGLE
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.functions import Partial
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.extrema import extrema_text
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

OPTIONS = ("out", "stream")
"""The keywords of a call that are not arguments of the expression."""


def parameters(arguments: Sequence[Argument]) -> dict[str, Argument]:
    """Return a dictionary from keywords, which are valid and distinct Python identifiers, to the program's arguments,
    in order.
    """
    found: dict[str, Argument] = {}
    for argument in arguments:
        found[unique(argument.label, found, OPTIONS)] = argument
    return found


def signature(arguments: Sequence[Argument], backend: str) -> inspect.Signature:
    """Return the signature of the callable with these arguments, which `inspect.signature` shows."""
    kind = inspect.Parameter
    options = OPTIONS if backend == "cuda" else OPTIONS[:1]
    return inspect.Signature(
        [
            *(kind(name, kind.POSITIONAL_OR_KEYWORD) for name in parameters(arguments)),
            *(kind(name, kind.KEYWORD_ONLY, default=None) for name in options),
        ]
    )


def in_order(arguments: Sequence[Argument], args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return all arguments of a call in order: those given by position (``args``) and by keyword (``named``). Raise
    ArgumentTypeError if one is missing, unknown or given twice.
    """
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
    """Return the docstring of the callable that computes `program`: its parameters and results with their shapes."""
    given = parameters(program.arguments)
    options = ["out : optional", f"    What is filled in place of new results: {_results(program.structure)}."]
    if backend == "cuda":
        options += ["stream : optional", "    The stream that CUDA works on; the caller's where it is None."]
    names = {argument.name: name for name, argument in given.items()}
    return "\n".join(
        [
            f"({', '.join(given)}) -> {_results(program.structure)}, computed with {backend}.",
            "",
            *docstring_lines(program, names.__getitem__, options),
            *(f"\n{name} is called {a.label} in the expression." for name, a in given.items() if name != a.label),
        ]
    )


def docstring_lines(program: Program, names: Callable[[str], str], options: Sequence[str] = ()) -> list[str]:
    """Return the lines of a docstring on the arguments with their shapes and types, the options and the results."""
    lines = [f"{names(argument.name)} : {_type_text(argument)}" for argument in program.arguments]
    lines = ["Parameters", "----------", *lines, *options, ""] if lines or options else []
    lines += ["Returns", "-------"]
    for output in program.outputs:
        kind = f"array of shape {tuple_text(map(str, output.shape))}" if output.shape else "number"
        lines.append(f"{output.name} : {kind}, of the arguments' type: float32 if all of them are, else float64")
    return lines


def _type_text(argument: Argument) -> str:
    """Return the type of an argument, for docstrings."""
    if argument.kind == "integer":
        return "int"
    if argument.kind == "scalar":
        return "float"
    what = (
        f"array of shape {tuple_text(map(str, argument.shape))}" if argument.shape else "number, or array of shape ()"
    )
    if argument.dtype == "real":
        return f"{what}, real (float64, float32 or integers)"
    below = "" if argument.below is None else f" from 0 to {argument.below - 1}"
    return f"{what}, of integers{below}"


def _results(structure: str) -> str:
    """Return what a call returns, given the ``structure`` of nested results, in words for docstrings: "the result" or a
    tuple of results.
    """
    count = structure.count(SINGLE)
    return "the result" if structure == SINGLE else f"a tuple of {count} {'result' if count == 1 else 'results'}"


# ---------------------------------------------------------------------------- arguments of expressions


def expected_sizes(reader: Reader, sizes: Mapping[Any, int]) -> Hints:
    """Return the user's ``sizes`` (by symbol or name) as `Hints` for cost estimates; raise for unknown names or invalid
    values.
    """
    if not isinstance(sizes, Mapping):
        raise ArgumentTypeError(f"sizes must be a mapping such as {{n: 300}}, not {sizes!r}")
    known = {str(symbol.name): variable for symbol, variable in reader.free.items()}
    found = {}
    for key, size in sizes.items():
        name = str(getattr(key, "name", key))
        if name not in known:
            raise ArgumentError(f"sizes has a value for {name}, which is not a size of the expression or its arguments")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ArgumentTypeError(f"sizes[{name}] must be a positive int, not {size!r}")
        found[known[name]] = size
    return Hints(found)


def extents_of_argument(reader: Reader, tensor: TensorSymbol, fixed: Any, names: dict[Any, str]) -> dict[str, Any]:
    """Return the fields of `Argument` that the declaration of ``tensor`` determines, as a dictionary: its shape, and
    for an integer tensor also the upper bound of its entries and a text about its origin.

    ``fixed`` maps variables to given values, ``names`` the others to names in the program. ``reader`` has converted the
    expression.
    """
    shape = tuple([over_names(reader.affine(extent).substitute(fixed), names) for extent in tensor.shape])
    below = reader.graph.below.get(tensor.name)
    if below is None:
        return {"shape": shape}
    selects = f"it is declared with below={tensor.below}, and"
    if tensor.below is None:
        read, axis = reader.selections[tensor.name]
        form = read.data[axis]
        index = extrema_text(form.substitute({v: Affine.variable(reader.graph.names[v]) for v in form.atoms()}))
        array = read.args[0].data[0] if read.args[0].op == "tensor" else "a tensor, which holds computed values,"
        selects = f"the index {index} of axis {axis} of {array}"
    return {"shape": shape, "below": over_names(below.substitute(fixed), names), "selects": selects}


def over_names(form: Any, names: dict[Any, str]) -> Any:
    """Return an affine form of the graph with its variables replaced by their names in the program."""
    return form.substitute({v: form.variable(names[v]) for v in form.atoms()})


def read_arguments(reader: Reader, args: Sequence[Any]) -> tuple[tuple[Argument, ...], dict[Any, str], dict[str, str]]:
    """Return ``(arguments, names, arrays)`` for the symbols ``args`` of a function: a list of `Argument` records, a
    dictionary from the variables of scalars and integers to names in the program, and one from names of tensors to
    names of arrays.

    Raise ArgumentError if two arguments have one name, ArgumentTypeError if one is not a symbol.
    """
    found: list[Argument] = []
    names: dict[Any, str] = {}
    arrays: dict[str, str] = {}
    for arg in args:
        taken = {a.name for a in found}
        label = str(getattr(arg, "name", arg))
        name = unique(label, taken)
        if any(a.label == label for a in found):
            raise ArgumentError(f"two arguments are called {label}: each symbol may occur in args once")
        if isinstance(arg, TensorSymbol):
            reader.tensor(arg)
            arrays[arg.name] = name
            kind: Any = "integer" if arg.dtype is int else "real"
            found.append(Argument("array", name, label, dtype=kind, symmetric=arg.symmetric))
        elif isinstance(arg, sympy.Symbol | sympy.Idx) and reader.is_integer(arg):
            names[reader.variable(arg)] = name
            found.append(Argument("integer", name, label))
        elif isinstance(arg, sympy.Symbol):
            names[reader.read(arg)] = name
            found.append(Argument("scalar", name, label))
        else:
            raise ArgumentTypeError(
                f"{arg!r} cannot be an argument of a kernel: give tensor symbols, scalar symbols and integer symbols"
            )
    return tuple(found), names, arrays


def named_arguments(args: Sequence[Any], exprs: Sequence[Any] = ()) -> tuple[Argument, ...]:
    """Return the `Argument` records of the symbols ``args`` of the expressions ``exprs``; nothing is compiled."""
    reader = Reader(Graph())
    reader.use((*exprs, *args))
    arguments, _, _ = read_arguments(reader, args)
    names = {variable: str(symbol) for symbol, variable in reader.free.items()}
    shapes = [extents_of_argument(reader, arg, {}, names) if isinstance(arg, TensorSymbol) else {} for arg in args]
    return tuple(replace(a, name=a.label, **shape) for a, shape in zip(arguments, shapes, strict=True))


def size_checker(args: Sequence[Any], exprs: Sequence[Any], may_be_empty: bool = False) -> ArgumentChecker:
    """Return an object that checks the arguments ``args`` of a function of ``exprs`` and computes sizes from them,
    without a compiled program. If a symbolic extent is 0, it raises `EmptyAxes` if ``may_be_empty``, otherwise
    `ArgumentError`.

    Raise `ArgumentError` if no argument determines a size in a shape.
    """
    program = Program(named_arguments(args, exprs), (), (), ())
    check_determined(program)
    return ArgumentChecker(program, may_be_empty)


def check_complete(graph: Graph, nodes: Sequence[Node], names: dict[Any, str], arrays: dict[str, str]) -> None:
    """Raise ArgumentError if a tensor or scalar below ``nodes`` is not an argument: it is not in ``arrays`` (by tensor
    name) or ``names`` (by scalar).
    """
    missing: dict[str, None] = {name: None for name in graph.integers if name not in arrays}
    for node in reachable(*nodes):
        if node.op == "tensor" and node.data[0] not in arrays:
            missing[node.data[0]] = None
        if node.op == "scalar" and isinstance(node.data, sympy.Symbol) and node not in names:
            missing[str(node.data)] = None
    if missing:
        raise ArgumentError(f"{', '.join(missing)} occurs in the expression, but not in args: add it to args")


def check_functions(nodes: Sequence[Node]) -> None:
    """Raise ArgumentError if two different functions in ``nodes`` have one name."""
    known: dict[str, Any] = {}
    for node in reachable(*nodes):
        if node.op == "call" and is_external(node):
            function = node.data.function if isinstance(node.data, Partial) else node.data
            if known.setdefault(function.__name__, function) != function:
                raise ArgumentError(
                    f"two different functions are called {function.__name__} (other assumptions, or one is "
                    "SymPy's): give them different names"
                )
