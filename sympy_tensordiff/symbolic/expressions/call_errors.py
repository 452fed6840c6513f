"""Error messages for calls that do not fit the signature of a public function: the signature, and what to write
instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from types import MappingProxyType
from typing import Any, TypeVar

from sympy_tensordiff.errors import ArgumentTypeError

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


def explained(function: Function, name: str = "", hints: Mapping[str, str] = MappingProxyType({})) -> Function:
    """Return ``function`` wrapped so that a call with arguments that do not fit raises an `ArgumentTypeError` with
    advice, in place of Python's `TypeError`. ``name`` is its name in messages; ``hints`` has advice for missing
    arguments.

    ``name`` is the function's name in messages, by default ``td.`` and its name; ``hints`` maps names of arguments to
    advice. Errors raised inside of the function pass unchanged.
    """
    name = name or f"td.{function.__name__}"

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        """Return the result of the wrapped function; raise `ArgumentTypeError` if the arguments do not fit its
        signature.
        """
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # Nothing of the function has run where the traceback ends here.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            problem = str(error).partition("() ")[2] or str(error)
        raise ArgumentTypeError(_mismatch_message(function, name, problem, args, kwargs, hints))

    return called  # type: ignore[return-value]


def _mismatch_message(
    function: Any, name: str, problem: str, args: Sequence[Any], kwargs: Mapping[str, Any], hints: Mapping[str, str]
) -> str:
    """Return the message for a call with ``args`` and ``kwargs`` that do not fit the signature of ``function``: the
    signature under the name ``name``, ``problem`` (Python's message), and advice such as the one in ``hints`` for a
    missing argument.
    """
    parameters = [*signature(function).parameters.values()]
    if parameters[0].name == "cls":
        parameters, args = parameters[1:], args[1:]
    plain = Signature([p.replace(annotation=Parameter.empty) for p in parameters])
    shown = name + re.sub(r"<class '(\w+)'>", r"\1", str(plain))
    names = [parameter.name for parameter in parameters]
    positional = [p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    unknown = [key for key in kwargs if key not in names]
    advice = ""
    if unknown:
        near = [OTHER_NAMES.get(unknown[0], ""), *get_close_matches(unknown[0], names, 1)]
        found = next((other for other in near if other in names), None)
        advice = f": write {found}=" if found else ""
    elif "wrt" in names and len(args) > len(positional):
        several = ", ".join(n if n != "wrt" else "(x, y)" for n in positional)
        advice = f": several variables are a tuple, {name}({several})"
    elif missing := [key for key in positional[len(args) :] if key not in kwargs and key in hints]:
        advice = f": {hints[missing[0]]}"
    return f"{shown} {problem}{advice}"
