"""User-supplied functions: checks of their keys, and implementations adapted to each backend.

An implementation goes into the generated module as an object under a name of the module's own:
nothing that the user wrote becomes text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sympy_tensordiff.codegen.ir.scalars import External
from sympy_tensordiff.codegen.lower.special_functions import implementation as of_scipy
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from sympy_tensordiff.lazy import numpy as np

Implementations = dict[External, Callable[..., Any]]


def bind(functions: Mapping[Any, Any] | None, needed: Sequence[External], backend: str) -> Implementations:
    """Return a dictionary from the functions in `needed` to their implementations for ``backend``: the one in the
    user's dictionary `functions`, else SciPy's. Raise `ArgumentError` if there is none, or if a key of `functions` is
    not needed.
    """
    if not isinstance(functions, Mapping | None):
        raise ArgumentTypeError(f"functions must be a mapping from names to callables, not {functions!r}")
    given: dict[tuple[str, tuple[int, ...]], Any] = {}
    for key, implementation in (functions or {}).items():
        parsed = parse_key(key)
        if not callable(implementation):
            raise ArgumentTypeError(f"functions[{key!r}] is {implementation!r}, which cannot be called")
        if parsed in given:
            raise ArgumentError(f"functions has two keys that mean {key!r}")
        given[parsed] = implementation
    names = {external.name for external in needed}
    unknown = [key for key in functions or () if parse_key(key)[0] not in names]
    if unknown:
        what = f"it calls {', '.join(sorted(names))}" if names else "it calls no function that has to be supplied"
        raise ArgumentError(f"functions[{unknown[0]!r}] is not in the expression: {what}")
    bound = {external: given.get((external.name, _without_zero_orders(external.orders))) for external in needed}
    for external in needed:
        if external.is_special and bound[external] is None:
            bound[external] = of_scipy(external.name, len(external.orders), backend)
    missing = [external for external in needed if bound[external] is None]
    if missing:
        without = ", ".join(dict.fromkeys(external.name for external in missing))
        keys = ", ".join(dict.fromkeys(f"{show_key(external)}: ..." for external in missing))
        who = f"no backend can evaluate {without}"
        if all(external.is_special for external in missing):
            who = f"backend={backend!r} cannot evaluate {without}, backend='numpy' can by SciPy"
        raise UnsupportedError(f"{who}: supply what is missing, functions={{{keys}}}")
    return {external: implementation for external, implementation in bound.items() if implementation is not None}


def called(functions: Mapping[Any, Any], needed: Sequence[External]) -> dict[Any, Any]:
    """Return the part of the user's dictionary `functions` that a program needs: the implementations of the functions
    in ``needed``, and of their derivatives.
    """
    names = {external.name for external in needed}
    return {key: function for key, function in functions.items() if parse_key(key)[0] in names}


def parse_key(key: Any) -> tuple[str, tuple[int, ...]]:
    """Return ``(name, orders of derivatives)`` for ``key``, a key of the user's dictionary ``functions`` of
    `lambdify`; the orders are () for the function itself. Raise ArgumentTypeError if it is not such a key.

    >>> parse_key("g"), parse_key("g''"), parse_key(("g", (0, 1)))
    (('g', ()), ('g', (2,)), ('g', (0, 1)))
    """
    if isinstance(key, str) and key.rstrip("'"):
        name = key.rstrip("'")
        return name, _without_zero_orders((len(key) - len(name),))
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], tuple | list):
        name, orders = key
        if name and orders and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in orders):
            return name, _without_zero_orders(tuple(orders))
    raise ArgumentTypeError(
        f"functions has the key {key!r}: a key is a name, 'g', or a name with how often it is differentiated in each "
        "argument, ('g', (0, 1)); for one argument \"g'\" is short"
    )


def show_key(external: External) -> str:
    """Return the key of the function ``external`` in the user's dictionary ``functions`` of `lambdify`, as text for
    messages: ``'f'``, or ``"f'"`` for the derivative.
    """
    if len(external.orders) == 1:
        return repr(external.name + "'" * external.orders[0])
    return repr((external.name, external.orders)) if any(external.orders) else repr(external.name)


def _without_zero_orders(orders: tuple[int, ...]) -> tuple[int, ...]:
    """Return `orders`, the number of derivatives with respect to each argument of a function, or () if all of them are
    0, which means the function itself.
    """
    return orders if any(orders) else ()


class Vectorised:
    """A user's function for NumPy, which is called with arrays that are broadcast to one shape. It raises
    `ArgumentError` if the function fails or returns another shape, and `ArgumentTypeError` if the values are not real
    numbers.
    """

    def __init__(self, external: External, function: Callable[..., Any]) -> None:
        self.label = show_key(external)
        self.function = function

    def __call__(self, *args: Any) -> Any:
        """The values, an array of the common shape of the arguments (a scalar for scalars)."""
        arrays = [array[()] for array in np.broadcast_arrays(*args)]
        for array in arrays:
            if isinstance(array, np.ndarray):
                array.flags.writeable = False  # they may be the caller's
        shape = np.shape(arrays[0])
        wayout = "it is called with arrays; a function of numbers can be wrapped in np.vectorize"
        try:
            result = np.asarray(self.function(*arrays))
        except Exception as error:
            raise ArgumentError(
                f"the implementation of {self.label} failed for arguments of shape {shape}: "
                f"{type(error).__name__}: {error}; {wayout}"
            ) from error
        if result.shape != shape:
            raise ArgumentError(
                f"the implementation of {self.label} returned shape {result.shape} for arguments of shape {shape}; "
                + wayout
            )
        if result.dtype.kind not in "biuf":
            raise ArgumentTypeError(
                f"the implementation of {self.label} returned dtype {result.dtype}; real numbers are needed"
            )
        return result[()]


def for_backend(external: External, function: Callable[..., Any], backend: str) -> Any:
    """Return the user's implementation `function` of ``external`` in the form that the generated module of `backend`
    calls: compiled by Numba or, for NumPy, wrapped with checks.
    """
    if backend == "numpy":
        return Vectorised(external, function)
    return _for_cuda(external, function) if backend == "cuda" else _for_numba(external, function)


def llvm_text(external: External, function: Callable[..., Any], dtype: np.dtype[Any]) -> tuple[str, str]:
    """Compile `function`, the user's implementation of ``external``, by Numba for scalars of the type ``dtype``. Return
    ``(text, name)``: the LLVM text, and the name of the function in it.

    Raise `UnsupportedError` where Numba compiles nothing.
    """
    import numba

    if numba.config.DISABLE_JIT:
        raise UnsupportedError("Numba's compiler is switched off")
    kind = numba.float32 if dtype == np.float32 else numba.float64
    names = ", ".join(f"x{n}" for n in range(len(external.orders)))
    space = {"compiled": _for_numba(external, function)}
    entry = eval(f"lambda {names}: compiled({names})", space)
    found = numba.cfunc(kind(*(kind,) * len(external.orders)), nopython=True, error_model="numpy")(entry)
    return found.inspect_llvm(), found.native_name


def _for_numba(external: External, function: Callable[..., Any]) -> Any:
    """Return the user's `function` compiled by Numba. If it cannot be compiled, raise an error with the name in
    ``external``.
    """
    import numba
    from numba.core.registry import cpu_target

    compiled = numba.njit(error_model="numpy")(function) if inspect.isfunction(function) else function
    if numba.config.DISABLE_JIT:
        return compiled
    context = cpu_target.typing_context
    context.refresh()
    try:
        called = context.resolve_value_type(compiled)
        result = called.get_call_type(context, (numba.float64,) * len(external.orders), {}).return_type
    except Exception as error:
        raise _refusal(external, "compile it", error) from error
    if not isinstance(result, numba.types.Integer | numba.types.Float | numba.types.Boolean):
        raise ArgumentTypeError(
            f"the implementation of {show_key(external)} returns {result} for numbers; a real number is needed"
        )
    return compiled


def _for_cuda(external: External, function: Callable[..., Any]) -> Any:
    """Return the user's `function` as a device function of Numba; raise `ArgumentError` if that fails. ``external``
    names the function in the message.
    """
    from numba import cuda

    function = getattr(function, "py_func", function) if not _is_on_device(function) else function
    try:
        return cuda.jit(device=True)(function) if inspect.isfunction(function) else function
    except Exception as error:
        raise _refusal(external, "compile it for CUDA", error) from error


def _is_on_device(function: Any) -> bool:
    """Return whether `function` is a device function that Numba has compiled for CUDA already."""
    return "cuda" in type(function).__module__


def _refusal(external: External, what: str, error: Exception) -> ArgumentError:
    """Return the error to raise when Numba fails to do `what`, such as "compile", with the user's function
    ``external``. It quotes Numba's ``error``.
    """
    reason = " ".join(str(error).split())[:300]
    return ArgumentError(
        f"the implementation of {show_key(external)} is not for this backend: Numba cannot {what} ({reason}); "
        "give a function of numbers that Numba compiles, or use backend='numpy'"
    )
