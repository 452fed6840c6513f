"""Loops over sines and cosines that run on vectors, and once more where that is not enough.

The functions of `elementary` reduce an angle by multiples of pi/2 within two or three numbers, which is exact for
angles up to `WIDEST`. A branch for other ones would keep the loop from working on vectors: it only notes that there
was one, and then runs again with the functions of the C library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sympy_tensordiff.codegen.loops import AddAt, Let, Statement
from sympy_tensordiff.codegen.printers.elementary import WIDEST
from sympy_tensordiff.codegen.printers.rows import has_few_steps
from sympy_tensordiff.codegen.scalars import External, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.walk import (
    Around,
    loops,
    rewrite,
    rewrite_scalar,
    scalars,
    statements,
    subexpressions,
    with_parts,
)

NEAR = {"sin": "sin_near", "cos": "cos_near"}
"""The functions for angles up to `WIDEST`."""

CHOICES = frozenset({"select", "and", "or"})
"""Of their arguments, only the first is computed in any case."""


def works_on_near_angles(body: Sequence[Statement]) -> bool:
    """Whether a loop over ``body`` may be one over vectors of angles, and may run twice."""
    nodes = [node for node in scalars(body) if isinstance(node, Operation)]
    if not any(node.function in NEAR for node in nodes) or not all(map(has_few_steps, loops(body))):
        return False
    # A function of the user's is called once for each entry; an addition to an array cannot be taken back.
    if any(isinstance(node.function, External) for node in nodes):
        return False
    if any(isinstance(statement, AddAt) for statement in statements(body)):
        return False
    chosen = (argument for node in nodes if node.function in CHOICES for argument in node.arguments[1:])
    return not any(_is_wave(node) for argument in chosen for node in subexpressions(argument))


def near_angles(body: Sequence[Statement], fresh: Callable[[str], str], wide: str) -> tuple[Statement, ...]:
    """``body`` with the functions for near angles; ``wide`` tells of each whether it is none."""

    def change(statement: Statement, _: Around) -> Iterator[Statement]:
        angles: dict[Scalar, str] = {}
        new = with_parts(statement, lambda value: rewrite_scalar(value, partial(_near, angles=angles, fresh=fresh)))
        for angle, name in angles.items():
            if angle != Name(name):
                yield Let(name, angle)
            yield Let(wide, Operation("lt", (Number(WIDEST), Operation("abs", (Name(name),)))))
        yield new

    return rewrite(body, change)


def _is_wave(node: Scalar) -> bool:
    return isinstance(node, Operation) and node.function in NEAR


def _near(value: Scalar, angles: dict[Scalar, str], fresh: Callable[[str], str]) -> Scalar:
    """A sine or cosine of its angle as a name, which ``angles`` tells; anything else as it is."""
    if not _is_wave(value):
        return value
    assert isinstance(value, Operation)
    (angle,) = value.arguments
    if angle not in angles:
        angles[angle] = angle.name if isinstance(angle, Name) else fresh("angle")
    return Operation(NEAR[str(value.function)], (Name(angles[angle]),))
