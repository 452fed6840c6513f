"""What signatures and docstrings of public functions have in common.

SymPy has no types, so that ``Expr`` would accept everything: type checkers are told of `Expression`. Sections of
docstrings that several functions or classes share are written once (`documented`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, cleandoc, isfunction, signature
from sys import modules
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar

from sympy_tensordiff.errors import ArgumentTypeError
from sympy_tensordiff.symbolic.tensors import TensorSymbol


class Expression(Protocol):
    """A tensor expression, or one of SymPy's: no text, no array, no number of Python's."""

    @property
    def free_symbols(self) -> Any:
        """The symbols in it."""


Scalar: TypeAlias = Expression | float
Tensors: TypeAlias = tuple[TensorSymbol, ...] | list[TensorSymbol]
Variables: TypeAlias = Sequence[Expression]


OTHER_NAMES = {
    "dim": "axis",
    "dims": "axis",
    "axes": "axis",
    "keepdim": "keepdims",
    "unbiased": "ddof",
    "correction": "ddof",
}
"""Names of arguments that other packages have."""

Function = TypeVar("Function", bound=Callable[..., Any])


def explained(function: Function, name: str, hints: Mapping[str, str] = MappingProxyType({})) -> Function:
    """Return the function with errors that say how it is called, where the arguments do not fit its signature.

    Parameters
    ----------
    function : callable
    name : str
        The name that users know it by.
    hints : mapping
        From the name of an argument to what is said where it is missing.
    """

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # Nothing of the function has run where the traceback ends here.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            problem = str(error).partition("() ")[2] or str(error)
        raise ArgumentTypeError(_misfit(function, name, problem, args, kwargs, hints))

    return called  # type: ignore[return-value]


def _misfit(
    function: Any, name: str, problem: str, args: Sequence[Any], kwargs: Mapping[str, Any], hints: Mapping[str, str]
) -> str:
    """Return the message for arguments that do not fit the signature of a function."""
    parameters = [*signature(function).parameters.values()]
    if parameters[0].name == "cls":
        parameters, args = parameters[1:], args[1:]
    plain = Signature([p.replace(annotation=Parameter.empty) for p in parameters])
    shown = name + re.sub(r"<class '(\w+)'>", r"\1", str(plain))
    names = [parameter.name for parameter in parameters]
    positional = [p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    unknown = [key for key in kwargs if key not in names]
    way_out = ""
    if unknown:
        near = [OTHER_NAMES.get(unknown[0], ""), *get_close_matches(unknown[0], names, 1)]
        found = next((other for other in near if other in names), None)
        way_out = f": write {found}=" if found else ""
    elif "wrt" in names and len(args) > len(positional):
        several = ", ".join(n if n != "wrt" else "(x, y)" for n in positional)
        way_out = f": several variables are a tuple, {name}({several})"
    elif missing := [key for key in positional[len(args) :] if key not in kwargs and key in hints]:
        way_out = f": {hints[missing[0]]}"
    return f"{shown} {problem}{way_out}"


def explain_calls(namespace: dict[str, Any]) -> None:
    """Let each public function in ``namespace``, and in the module that defines it, explain how it is called."""
    for name, function in [*namespace.items()]:
        if not name.startswith("_") and isfunction(function):
            module, own = vars(modules[function.__module__]), function.__name__
            if module[own] is function:  # two names of one function have one explanation
                module[own] = explained(function, f"td.{own}")
            namespace[name] = module[own]


Documented = TypeVar("Documented")


TensorSymbol.__new__ = explained(  # type: ignore[method-assign]
    TensorSymbol.__new__,
    "td.TensorSymbol",
    {"shape": 'give the shape, td.TensorSymbol("X", (n, m)) with n, m = td.indices("n m")'},
)


def documented(sections: str) -> Callable[[Documented], Documented]:
    r"""A decorator that puts sections behind the first paragraph of a docstring.

    >>> documented("Raises")(type("T", (), {"__doc__": "A class." + chr(10) * 2 + "Notes"})).__doc__
    'A class.\n\nRaises\n\nNotes'
    """

    def with_sections(described: Documented) -> Documented:
        if described.__doc__:  # there is none under python -OO
            first, _, rest = cleandoc(described.__doc__).partition("\n\n")
            described.__doc__ = "\n\n".join(filter(None, (first, cleandoc(sections), rest)))
        return described

    return with_sections
