"""Autotuning: `tune` times alternative plans of a compiled function and stores the fastest.

The plan of a program follows a model of costs. If the model is wrong for a processor or for some sizes, a measurement
shows it. Each alternative changes one decision: whether sums of products are calls of a library, whether values that
several loops need are stored, whether kernels share a loop, and each rule of the schedule that applies. They are tried
one after the other, each on top of those that gained.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.cache import cache_folder, code_versions, is_off, write_bytes
from sympy_tensordiff.codegen.run.compile import CompiledFunction
from sympy_tensordiff.codegen.run.plan_text import COMPILED
from sympy_tensordiff.codegen.schedule.cpu import LOOPS, ROWS
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, TensorDiffError
from sympy_tensordiff.lazy import numpy as np

MIN_GAIN = 0.97
"""An alternative is taken if it needs less than this part of the time; repeated readings differ by about 2 %."""

ROUNDS = 7
"""The number of readings of both functions, in turn; the shortest count, since other programs only add time."""

ROUND_SECONDS = 0.004
"""The least time of a reading, in seconds: calls of some microseconds are repeated."""


@dataclass(frozen=True)
class Alternative:
    """One decision that `tune` may change to make a function faster: other program options, a scheduling rule left out,
    or several cores.
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    without: str = ""
    parallel: bool | None = None


def _alternatives(function: CompiledFunction) -> Iterator[Alternative]:
    """Yield the changes that `tune` may try in order to make a function faster. Some of them do not change its code;
    the caller drops those.
    """
    options = _recipe(function)[3]
    names = {
        "library": "sums of products in loops",
        "trapezoids": "no products over trapezoids",
        "rows": "no rows that several kernels share",
    }
    for option, name in names.items():
        if options.get(option):
            yield Alternative(name, options=((option, False),))
    if function.backend not in COMPILED:
        return
    yield Alternative("values of several loops computed in each", options=(("shares", False),))
    yield Alternative("one loop for each kernel", without="fuse")
    for rule in (*ROWS, *LOOPS):
        yield Alternative(f"without the rule: {rule.name}", without=rule.name)
    if function.parallel is None:
        yield Alternative("on one core", parallel=False)
        yield Alternative("on all cores", parallel=True)


def tune(function: CompiledFunction, /, *arrays: Any, seconds: float = 30.0, again: bool = False) -> CompiledFunction:
    """Return the fastest of the alternatives of a compiled function, as timed on ``arrays`` for at most about
    ``seconds``. With ``again``, time them although a choice is stored.

    The choice is kept in the cache on disk, by the text of the function, the processor, the sizes and the type of the
    numbers: the next call for the same function, also in another process, compiles the choice and times nothing.

    Parameters
    ----------
    function : CompiledFunction
        A function that `lambdify` made for the backend ``"llvm"``, ``"numba"`` or ``"numpy"``. It is not changed.
    *arrays : array_like
        Arguments of a typical call, in order.
    seconds : float
        After this time, in seconds, no further alternative is tried; compiling counts.
    again : bool
        Whether to time the alternatives although a choice is kept.

    Returns
    -------
    CompiledFunction
        A function of the same arguments with the same results, up to rounding; The notes of ``.plan`` say which choice
        was made, and in which part of the time it runs.

    Raises
    ------
    ArgumentTypeError
        If ``function`` is not a compiled function for one of these backends, or ``seconds`` is not a positive number.
    ArgumentError
        If the arguments do not fit.

    Examples
    --------
    >>> import numpy as np, sympy_tensordiff as td
    >>> n = td.indices("n")
    >>> A, x = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", n)
    >>> f = td.lambdify((A, x), td.gradient(td.dot(x, A @ x), x), "numpy")
    >>> g = td.tune(f, np.eye(3), np.ones(3))
    >>> g(np.eye(3), np.ones(3))
    array([2., 2., 2.])
    >>> "tuned for n = 3" in g.plan
    True
    """
    if not isinstance(function, CompiledFunction) or function.backend not in (*COMPILED, "numpy"):
        wanted = "a function that td.lambdify made for the backend 'llvm', 'numba' or 'numpy'"
        given = repr(function) if isinstance(function, CompiledFunction) else type(function).__name__
        raise ArgumentTypeError(f"td.tune takes {wanted}, not {given}")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ArgumentTypeError(f"seconds must be a positive number, not {seconds!r}")
    if function._build is None:
        raise ArgumentError("td.tune takes a function as td.lambdify returns it, not one for an axis without entries")
    begun = time.perf_counter()
    wanted = function(*arrays)
    sizes = dict(function._checker.known_sizes())
    key = _key(function, arrays, sizes)
    choice = None if again else _read(key)
    if choice is not None:
        with contextlib.suppress(TensorDiffError):
            return _noted(function, _chosen(function, choice), sizes, choice)
    gains: dict[str, float] = {}
    best, taken, texts = function, list[Alternative](), {function.source}
    for alternative in _alternatives(function):
        if time.perf_counter() - begun > seconds:
            break
        try:
            other = _built(function, [*taken, alternative])
            if other.source in texts and other.parallel == best.parallel:
                continue
            texts.add(other.source)
            if not _agree(other(*arrays), wanted):
                continue
        except TensorDiffError:
            continue  # the alternative has no program, as for a product over a range that no loop can run over
        ratio = _ratio(other, best, arrays)
        if ratio < MIN_GAIN:
            best, gains[alternative.name] = other, ratio
            taken.append(alternative)
    _write(key, gains)
    return _noted(function, best, sizes, gains)


def _recipe(function: CompiledFunction) -> tuple[Any, ...]:
    """Return ``(args, exprs, structure, options)``, from which the program of a compiled function can be built
    again.
    """
    found: tuple[Any, ...] = function._build.args  # type: ignore[union-attr]
    return found


def _built(function: CompiledFunction, alternatives: Sequence[Alternative]) -> CompiledFunction:
    """Return the compiled function of the same expressions with the changes of ``alternatives``."""
    args, exprs, structure, options = _recipe(function)
    changes = {key: value for one in alternatives for key, value in one.options}
    program = function.program
    if changes:
        program = replace(build_program(args, exprs, **{**options, **changes}), structure=structure)
    off = frozenset(one.without for one in alternatives if one.without)
    program = replace(program, rules_off=off)
    parallel = next((one.parallel for one in reversed(alternatives) if one.parallel is not None), function.parallel)
    return CompiledFunction(program, function.backend, function.functions, parallel, function._build)


def _chosen(function: CompiledFunction, gains: Mapping[str, float]) -> CompiledFunction:
    """Return ``function`` rebuilt with the alternatives named in ``gains``, such as the use of several cores, which an
    earlier call of `tune` chose; ``function`` itself if there are none.
    """
    chosen = [one for one in _alternatives(function) if one.name in gains]
    return _built(function, chosen) if chosen else function


def _noted(
    function: CompiledFunction, best: CompiledFunction, sizes: Mapping[str, int], gains: Mapping[str, float]
) -> CompiledFunction:
    """Return ``best``, the tuned version of ``function``, with a note in its plan on the chosen alternatives and what
    they gain at these ``sizes``.
    """
    where = ", ".join(f"{name} = {size}" for name, size in sizes.items()) or "these arguments"
    found = [f"{name}, in {ratio:.2f} of the time" for name, ratio in gains.items()]
    note = f"tuned for {where}: {'; '.join(found) or 'as planned'}"
    program = replace(best.program, notes=(*best.program.notes, note))
    return CompiledFunction(program, best.backend, best.functions, best.parallel, function._build)


def _ratio(one: Callable[..., Any], other: Callable[..., Any], arrays: Sequence[Any]) -> float:
    """Return the time of ``one`` divided by the time of ``other``, as functions of ``arrays``. Calls of both are timed
    alternately, and the shortest times count.
    """
    readings = [(_seconds(one, arrays), _seconds(other, arrays)) for _ in range(ROUNDS)]
    return min(first for first, _ in readings) / min(second for _, second in readings)


def _seconds(function: Callable[..., Any], arrays: Sequence[Any]) -> float:
    """Return the mean time in seconds of a call of ``function`` with ``arrays``, over calls that take `ROUND_SECONDS`
    in all.
    """
    calls, begun = 0, time.perf_counter()
    while True:
        function(*arrays)
        calls += 1
        if (passed := time.perf_counter() - begun) > ROUND_SECONDS:
            return passed / calls


def _agree(one: Any, other: Any) -> bool:
    """Return whether the results ``one`` and ``other`` (arrays or tuples of arrays) are equal up to rounding errors."""
    if isinstance(other, tuple):
        return all(_agree(a, b) for a, b in zip(one, other, strict=True))
    scale = float(np.max(np.abs(other), initial=0.0, where=np.isfinite(other)))
    digits = 1e-3 if np.asarray(other).dtype == np.float32 else 1e-8
    return bool(np.allclose(one, other, rtol=digits, atol=digits * scale, equal_nan=True))


# ---------------------------------------------------------------------------- choices on disk


def _key(function: CompiledFunction, arrays: Sequence[Any], sizes: Mapping[str, int]) -> str:
    """Return the name of the file that stores which alternatives `tune` chose for ``function`` on this processor, at
    these ``sizes`` and with the number type of ``arrays``.
    """
    dtype = "float32" if all(np.asarray(a).dtype != np.float64 for a in arrays) else "float64"
    text = (
        f"{code_versions(function.backend)}\n{function.parallel}\n{dtype}\n{sorted(sizes.items())}\n{function.source}"
    )
    return f"k_{hashlib.sha256(text.encode()).hexdigest()}.json"


def _read(key: str) -> dict[str, float] | None:
    """Return the alternatives that an earlier call of `tune` chose, from the file ``key`` of the cache folder: a
    dictionary from their names to their gains. None if the cache is off or has no valid file of this name.
    """
    if is_off():
        return None
    try:
        found = json.loads((cache_folder() / key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_choice = isinstance(found, dict) and all(isinstance(ratio, float) for ratio in found.values())
    return found if is_choice else None


def _write(key: str, gains: Mapping[str, float]) -> None:
    """Store ``gains``, a dictionary from the names of tuning alternatives to their gains, in the file ``key`` of the
    cache folder. Do nothing if the cache is off or cannot be written.
    """
    if not is_off():
        with contextlib.suppress(OSError):
            write_bytes(cache_folder(), key, json.dumps(dict(gains)).encode())
