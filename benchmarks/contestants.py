"""Contestants of a row: this package, and the other libraries that are installed; all results agree."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import sympy_tensordiff as td
from benchmarks.libraries import Call, Library, first_line, leaves
from benchmarks.row import Array, Arrays, Peer, Row, Sizes

# Greatest difference, as a part of the greatest entry of the array.
TOLERANCE = {"float64": 1e-10, "float32": 3e-4}
OURS = "ours"


class DisagreementError(Exception):
    """Two ways to compute a row differ: nothing of it is timed."""


class TooSlowError(Exception):
    """A first call that takes longer than a row may take."""


@dataclass
class Contestant:
    """One way to compute a row, ready to run."""

    label: str
    library: str
    call: Call
    automatic: bool = False  # the derivative is not written by hand


@dataclass
class Field:
    """All that take part in a row, in the order of the rounds, and why others do not."""

    contestants: list[Contestant] = field(default_factory=list)
    gaps: dict[str, str] = field(default_factory=dict)


def inputs(row: Row, sizes: Sizes, dtype: str) -> Arrays:
    """The same arrays for all, from a fixed seed; those of integers stay integers."""
    return with_type(row.inputs(np.random.default_rng(0), sizes), dtype)


def with_type(arrays: Arrays, dtype: str) -> Arrays:
    """Arrays of real numbers with another element type, and those of integers."""
    return tuple(np.ascontiguousarray(array, dtype=dtype if array.dtype.kind == "f" else None) for array in arrays)


def reference(row: Row, arrays: Arrays) -> list[Array]:
    """Return the reference result: NumPy by hand, in double precision, of the very same inputs."""
    (hand,) = (peer for peer in row.peers if peer.library == "numpy")
    result = hand.formulation.function(np, *with_type(arrays, "float64"))
    return [np.asarray(leaf) for leaf in leaves(result)]


def compiled(row: Row, sizes: Sizes, backends: list[str]) -> dict[str, Any]:
    """Our kernels of a row, for any element type."""
    arguments, expression = row.ours(sizes)
    found = {f"{OURS}, {backend}": td.lambdify(arguments, expression, backend) for backend in backends}
    for backend in backends if row.expand else ():
        found[f"{OURS}, {backend}, expand=True"] = td.lambdify(arguments, expression, backend, expand=True)
    return found


class Host:
    """The host, which runs our kernels on arrays of NumPy."""

    def prepare(self, function: Any, arrays: Arrays) -> Call:
        return lambda: function(*arrays)

    def to_numpy(self, leaf: Any) -> Array:
        return np.asarray(leaf)


def gather(
    row: Row,
    sizes: Sizes,
    dtype: str,
    libraries: dict[str, Library],
    missing: dict[str, str],
    ours: dict[str, Any],
    limit: float,
    home: Host | None = None,
) -> Field:
    """All contestants of a row. Each has run, within ``limit`` seconds, and has been compared with the reference.

    ``home`` is where our kernels run.
    """
    home = home or Host()
    arrays = inputs(row, sizes, dtype)
    expected = reference(row, arrays)
    result = Field()
    for label, function in ours.items():
        with gap(result, label, ()):
            call = home.prepare(function, arrays)
            _first_run(label, call, dtype, expected, home.to_numpy, limit)
            result.contestants.append(Contestant(label, OURS, call, True))
    for peer in [*row.peers, *_compiled(row.peers, libraries)]:
        if peer.library not in libraries:
            result.gaps |= {peer.label: missing[peer.library]} if peer.library in missing else {}
            continue
        library = libraries[peer.library]
        with gap(result, peer.label, (DisagreementError,)):
            call = library.prepare(peer.formulation, arrays)
            _first_run(peer.label, call, dtype, expected, library.to_numpy, limit)
            automatic = peer.library not in ("numpy", "cupy", "keops")
            result.contestants.append(Contestant(peer.label, peer.library, call, automatic))
    return result


def _compiled(peers: tuple[Peer, ...], libraries: dict[str, Library]) -> Iterator[Peer]:
    """The forms of PyTorch once more, compiled, where that is asked for."""
    for peer in peers:
        if "torch.compile" in libraries and peer.library == "torch" and "backward only" not in peer.form:
            yield replace(peer, library="torch.compile")


@contextmanager
def gap(found: Field, label: str, fatal: tuple[type[Exception], ...]) -> Iterator[None]:
    """A peer that cannot run is a gap with a name; one that disagrees is an error, and so is any fault of ours."""
    try:
        yield
    except TooSlowError as error:
        found.gaps[label] = str(error)
    except Exception as error:
        if isinstance(error, fatal) or label.startswith(OURS):
            raise
        found.gaps[label] = f"does not run: {type(error).__name__}: {first_line(error)}"


def _first_run(label: str, call: Call, dtype: str, expected: list[Array], to_numpy: Any, limit: float) -> None:
    with at_most(limit):
        result = call()
    compare(label, [to_numpy(leaf) for leaf in leaves(result)], dtype, expected)


def compare(label: str, found: list[Array], dtype: str, expected: list[Array]) -> None:
    """Element types, shapes and all entries."""
    if len(found) != len(expected):
        raise DisagreementError(f"{label}: {len(found)} results, expected {len(expected)}")
    for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        where = f"{label}, result {place}"
        if ours.shape != theirs.shape or ours.dtype != np.dtype(dtype):
            raise DisagreementError(f"{where}: {ours.dtype} {ours.shape}, expected {dtype} {theirs.shape}")
        scale = float(np.abs(theirs).max())
        worst = float(np.abs(ours - theirs).max())
        if not worst <= TOLERANCE[dtype] * scale:  # also where something is not a number
            raise DisagreementError(f"{where}: differs by {worst:.3g} where the largest entry is {scale:.3g}")


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupts Python code that runs longer. (Compiled code is interrupted when it returns.)"""
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise TooSlowError(f"the first call takes longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
