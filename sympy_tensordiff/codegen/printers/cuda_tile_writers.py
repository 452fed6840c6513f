"""Tiles are right for all orders in which threads may run: read off the text of each kernel that has them.

A thread writes several entries, each at a row and a column that are sums of parts of the numbers of its block and of
itself, and of a number that tells its own entries apart. Nobody meets where each such sum tells its parts, as digits
do, and the parts together tell block and thread. So it is with what threads put into shared memory; and between what
they put there and what they read they all wait, where all of them come by.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from sympy_tensordiff.codegen.printers.cuda_writers import Digit, digit_of, digits_of, stores_into, tells_all
from sympy_tensordiff.errors import VerificationError

WAIT = "cuda.syncthreads()"


@dataclass(frozen=True)
class Sum:
    """Parts of the numbers of block and thread with their weights, and a constant."""

    parts: tuple[tuple[Digit, int], ...] = ()
    constant: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.parts + other.parts, self.constant + other.constant)

    def __mul__(self, factor: int) -> Sum:
        return Sum(tuple([(digit, factor * weight) for digit, weight in self.parts]), factor * self.constant)


def check_tiles(text: str, array: str, threads: int, grid: str = "x") -> None:
    """Raise `VerificationError` where threads of blocks of so many may meet in ``array`` or in shared memory.

    ``grid``: the coordinates of a block, all others are 0.
    """
    (function,) = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    kernel = _Kernel(function, threads)
    where = f"kernel {function.name}"
    shared = {name for name, value in kernel.values.items() if ast.unparse(value).startswith("cuda.shared.array(")}
    for name in (array, *sorted(shared)):
        places = [index for index, _ in stores_into(function.body, name, ())]
        coordinates = {"thread x", *(f"block {c}" for c in grid if name == array)}
        if not places or not kernel.are_apart([kernel.sums(place) for place in places], coordinates):
            raise VerificationError(f"{where}: it is not plain that no two threads write one entry of {name}")
    if not _wait(function.body, shared, kernel.differing()):
        raise VerificationError(f"{where}: threads read shared memory while others write there, or wait alone")


class _Kernel:
    """What the names of a function are, those that are given one value once."""

    def __init__(self, function: ast.FunctionDef, threads: int) -> None:
        self.threads = threads
        self.digits = digits_of(function)
        self.values: dict[str, ast.expr] = {}
        self.changing: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AugAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    if target.id in self.values or isinstance(node, ast.AugAssign):
                        self.changing.add(target.id)
                    self.values[target.id] = node.value

    def sums(self, place: ast.expr) -> list[Sum] | None:
        """The sums that a place tells: of each index, or of each name in the place of a flat array."""
        if isinstance(place, ast.Tuple):
            found = [self.sum(element) for element in place.elts]
            return None if None in found else [one for one in found if one is not None]
        groups: dict[str, list[Digit]] = {}
        for node in ast.walk(place):
            digit = self.entry(node) if isinstance(node, ast.Name) else None
            if digit is not None:
                groups.setdefault(digit.coordinate, []).append(digit)
        result = []
        for coordinate, digits in groups.items():
            if coordinate.startswith(("block ", "thread ")):
                result += [Sum(((digit, 1),)) for digit in dict.fromkeys(digits)]
                continue
            flat = self.sum(self.values[coordinate])
            if flat is None or not tells_all(list(dict.fromkeys(digits))):
                return None
            result.append(flat)
        return sorted(result, key=lambda one: str(one.parts))

    def entry(self, node: ast.expr) -> Digit | None:
        """The part that a name is of a number of block or thread, or of a sum of these."""
        if isinstance(node, ast.Name) and node.id in self.values and node.id not in self.changing:
            if node.id in self.digits:
                return self.digits[node.id]
            value = self.values[node.id]
            if self.sum(value) is not None:
                return Digit(node.id)
            names = [part.id for part in ast.walk(value) if isinstance(part, ast.Name)]
            known = {name: digit for name in names if (digit := self.entry(ast.Name(name))) is not None}
            return digit_of(value, known)
        return None

    def sum(self, value: ast.expr) -> Sum | None:
        """An expression as a sum of parts; None where it is none."""
        if isinstance(value, ast.Constant) and isinstance(value.value, int):
            return Sum((), value.value)
        digit = digit_of(value, self.digits)
        if digit is not None:
            return Sum(((digit, 1),))
        if isinstance(value, ast.Name) and value.id in self.values and value.id not in self.changing:
            return self.sum(self.values[value.id])
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Mult):
            left, right = self.sum(value.left), self.sum(value.right)
            if left is not None and right is not None:
                if isinstance(value.op, ast.Add):
                    return left + right
                return left * right.constant if not right.parts else None
        return None

    def are_apart(self, places: Sequence[list[Sum] | None], coordinates: Iterable[str]) -> bool:
        """Whether places are different for all threads, and for each of them."""
        known = [place for place in places if place is not None]
        shapes = {tuple([one.parts for one in place]) for place in known}
        constants = [tuple([one.constant for one in place]) for place in known]
        if len(known) < len(places) or len(shapes) != 1 or len(set(constants)) < len(constants):
            return False
        (shape,) = shapes
        digits = [digit for parts in shape for digit, _ in parts]
        if not all(tells_all([d for d in digits if d.coordinate == c]) for c in coordinates):
            return False
        found = [{place[number] for place in constants} for number in range(len(shape))]
        return all(self._tells_parts(parts, own) for parts, own in zip(shape, found, strict=True))

    def _tells_parts(self, parts: Sequence[tuple[Digit, int]], constants: set[int]) -> bool:
        """Whether a sum tells its parts and its constant, as a number tells its digits."""
        weights = [(weight, self._count(digit)) for digit, weight in parts]
        least, *others = sorted(constants)
        if others:
            step = min(b - a for a, b in zip([least, *others], others, strict=False))
            if any((other - least) % step for other in others):
                return False
            weights.append((step, (others[-1] - least) // step + 1))
        reach: int | None = 0
        for weight, count in sorted(weights, key=lambda pair: pair[0]):
            if reach is None or weight <= reach:
                return False
            reach = None if count is None else reach + weight * (count - 1)
        return True

    def _count(self, digit: Digit) -> int | None:
        """How many values a part has; None where that depends on the sizes."""
        if digit.modulus.isdecimal():
            return int(digit.modulus)
        if digit.coordinate == "thread x" and not digit.modulus and all(d.isdecimal() for d in digit.divisors):
            return -(-self.threads // prod(map(int, digit.divisors)))
        return None

    def differing(self) -> set[str]:
        """The names whose values may differ within a block."""
        found: set[str] = set()
        while True:
            new = {name for name, value in self.values.items() if _differs(value, found)} - found
            if not new:
                return found
            found |= new


def _differs(value: ast.expr, differing: set[str]) -> bool:
    text = ast.unparse(value)
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return "cuda.threadIdx" in text or not names.isdisjoint(differing)


def _wait(body: Sequence[ast.stmt], shared: set[str], differing: set[str]) -> bool:
    """Whether all threads come by where they wait, and wait between writing and reading, in all rounds."""
    waits = [isinstance(s, ast.Expr) and ast.unparse(s) == WAIT for s in body]
    if not any(waits):
        inside = [s for s in body if any(ast.unparse(n) == WAIT for n in ast.walk(s) if isinstance(n, ast.Call))]
        is_idle = not any(_touched(s, shared, (ast.Load, ast.Store)) for s in body if s not in inside)
        loops = [s for s in inside if isinstance(s, ast.While) and not _differs(s.test, differing)]
        return len(loops) == len(inside) > 0 and is_idle and all(_wait(s.body, shared, differing) for s in loops)
    first = waits.index(True)
    second = len(waits) - 1 - waits[::-1].index(True)
    return (
        sum(waits) == 2
        and not any(_touched(s, shared, (ast.Load,)) for s in body[:first])
        and not any(_touched(s, shared, (ast.Store,)) for s in body[first:second])
        and not any(_touched(s, shared, (ast.Load, ast.Store)) for s in body[second:])
    )


def _touched(statement: ast.stmt, shared: set[str], how: tuple[type[ast.expr_context], ...]) -> bool:
    """Whether a statement reads or writes entries of shared memory."""
    entries = [node for node in ast.walk(statement) if isinstance(node, ast.Subscript) and isinstance(node.ctx, how)]
    return any(isinstance(node.value, ast.Name) and node.value.id in shared for node in entries)
