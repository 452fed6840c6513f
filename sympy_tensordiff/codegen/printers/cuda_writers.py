"""No two threads write one entry: read off the text of each kernel for CUDA, not off what was meant to be printed.

The loop nests have one instance per entry. A kernel is right if no two threads, in none of their rounds, have the same
values of all axes: each coordinate of a thread has to be the value of an axis, or to be taken apart into the values of
several, ``z % n`` and ``z//n``, or to be pinned by a condition around the one statement that writes. Threads of a block
that wait for each other have to come by the same places, so they do that at the top level only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sympy_tensordiff.errors import VerificationError

COORDINATES = "xyz"


class Digit(NamedTuple):
    """``coordinate // divisors[0] // divisors[1] … % modulus``, without a modulus where that is empty."""

    coordinate: str
    divisors: tuple[str, ...] = ()
    modulus: str = ""


def check_writers(text: str, array: str, axes: Sequence[str], barriers: Sequence[str] = ()) -> None:
    """Raise `VerificationError` where two threads of a kernel may write one entry of ``array``.

    Parameters
    ----------
    text : str
        The function.
    array : str
        What it fills, by the name in the text.
    axes : sequence of str
        The names of the axes there.
    barriers : sequence of str
        The functions in which threads of a block wait; if there are any, a block computes an entry together.
    """
    module = ast.parse(text)
    (function,) = (node for node in module.body if isinstance(node, ast.FunctionDef))
    where = f"kernel {function.name}"
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id in barriers and not _is_at_top(call, function):
            raise VerificationError(f"{where}: threads wait in {call.func.id} where not all of them come by")
    digits = digits_of(function)
    known = {axis: digits[axis] for axis in axes if axis in digits}
    if len(known) < len(axes):
        lost = sorted(set(axes) - set(known))
        raise VerificationError(f"{where}: no coordinate of a thread tells {', '.join(lost)}")
    # Without axes there is one block, but still a number of threads.
    kind, count = ("block", len(axes)) if barriers else ("grid", max(1, len(axes)))
    needed = [f"{kind} {c}" for c in COORDINATES[:count]] + (["thread x", "thread y"] if barriers else [])
    stores = list(stores_into(function.body, array, ()))
    if len(stores) != 1:
        raise VerificationError(f"{where}: {array} is written in {len(stores)} places, not in one")
    index, conditions = stores[0]
    unread = sorted(set(axes) - {node.id for node in ast.walk(index) if isinstance(node, ast.Name)})
    if unread:
        raise VerificationError(f"{where}: where an entry is written does not depend on {', '.join(unread)}")
    pinned = {name for condition in conditions for name in _pinned(condition, digits)}
    for coordinate in needed:
        found = [digit for digit in known.values() if digit.coordinate == coordinate]
        if coordinate not in pinned and not tells_all(found):
            raise VerificationError(f"{where}: threads that differ in {coordinate} only write one entry")


def _is_at_top(call: ast.Call, function: ast.FunctionDef) -> bool:
    simple = [s for s in function.body if not isinstance(s, ast.If | ast.While | ast.For)]
    return any(call is node for statement in simple for node in ast.walk(statement))


def digits_of(function: ast.FunctionDef) -> dict[str, Digit]:
    """What the names of a function are of a thread's coordinates; names that change by other steps are left out."""
    found: dict[str, Digit] = {}
    steps: dict[str, str] = {}
    for node in sorted(
        (n for n in ast.walk(function) if isinstance(n, ast.Assign | ast.AugAssign)), key=lambda node: node.lineno
    ):
        if isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name) and node.target.id in found:
                digit, step = found[node.target.id], ast.unparse(node.value)
                if not isinstance(node.op, ast.Add) or steps.get(step) != digit.coordinate or digit.divisors:
                    del found[node.target.id]
            continue
        target = node.targets[0]
        value = ast.unparse(node.value)
        if value.startswith(("cuda.grid(", "cuda.gridsize(")):
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            for name, coordinate in zip(names, COORDINATES, strict=False):
                assert isinstance(name, ast.Name)
                if value.startswith("cuda.grid("):
                    found[name.id] = Digit(f"grid {coordinate}")
                else:
                    steps[name.id] = f"grid {coordinate}"
        elif isinstance(target, ast.Name):
            digit_or_none = digit_of(node.value, found)
            found.pop(target.id, None)
            if digit_or_none is not None:
                found[target.id] = digit_or_none
    return found


def digit_of(value: ast.expr, known: dict[str, Digit]) -> Digit | None:
    """The part of a coordinate that an expression is."""
    text = ast.unparse(value)
    for kind, name in (("block", "cuda.blockIdx."), ("thread", "cuda.threadIdx.")):
        if text.startswith(name) and text[len(name) :] in tuple(COORDINATES):
            return Digit(f"{kind} {text[len(name) :]}")
    if isinstance(value, ast.Name):
        return known.get(value.id)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod | ast.FloorDiv):
        inner, by = digit_of(value.left, known), ast.unparse(value.right)
        if inner is not None and not inner.modulus:
            divisors = (*inner.divisors, by) if isinstance(value.op, ast.FloorDiv) else inner.divisors
            return Digit(inner.coordinate, divisors, by if isinstance(value.op, ast.Mod) else "")
    return None


def tells_all(digits: Sequence[Digit]) -> bool:
    """Whether the values of digits tell the coordinate: each is the next one's rest, and the last has none."""
    order = sorted(digits, key=lambda digit: len(digit.divisors))
    moduli: tuple[str, ...] = ()
    for number, digit in enumerate(order):
        is_last = number == len(order) - 1
        if digit.divisors != moduli or bool(digit.modulus) == is_last:
            return False
        moduli += (digit.modulus,)
    return bool(order)


def stores_into(
    body: Sequence[ast.stmt], array: str, conditions: tuple[ast.expr, ...]
) -> Iterator[tuple[ast.expr, tuple[ast.expr, ...]]]:
    """Where entries are written, each with the conditions around it."""
    for statement in body:
        if isinstance(statement, ast.If | ast.While):
            yield from stores_into(statement.body, array, (*conditions, statement.test))
            yield from stores_into(statement.orelse, array, conditions)
        elif isinstance(statement, ast.Assign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Subscript) and ast.unparse(target.value) == array:
                    yield target.slice, conditions


def _pinned(condition: ast.expr, digits: dict[str, Digit]) -> Iterator[str]:
    """The coordinates that have to be 0 for a condition to hold."""
    parts = condition.values if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And) else [condition]
    for part in parts:
        if (
            isinstance(part, ast.Compare)
            and isinstance(part.ops[0], ast.Eq)
            and ast.unparse(part.comparators[0]) == "0"
        ):
            digit = digit_of(part.left, digits)
            if digit is not None and not digit.divisors and not digit.modulus:
                yield digit.coordinate
