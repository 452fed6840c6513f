"""Vector functions for sines and cosines of small angles; the loop runs again with the C library's if one was large.

The functions of `elementary` reduce an angle by multiples of pi/2 within two or three numbers, which is exact for
angles up to `MAX_NEAR_ANGLE`. A branch for larger angles would keep the loop from being vectorised: the loop only
records that there was one, and then runs again with the functions of the C library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.nests import FALSE
from sympy_tensordiff.codegen.ir.scalars import External, Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import (
    Around,
    added,
    loops,
    rewrite,
    rewrite_scalar,
    scalars,
    statements,
    subexpressions,
    with_parts,
)
from sympy_tensordiff.codegen.schedule.rows import has_few_steps
from sympy_tensordiff.integer.affine import Affine, Constraint

MAX_NEAR_ANGLE = 100000.0
"""The greatest angle that the functions of near angles reduce: it is less than 2**16 times pi/2."""

NEAR_ANGLE_FUNCTIONS = {"sin": "sin_near", "cos": "cos_near", "tan": "tan_near"}
"""The functions for angles up to `MAX_NEAR_ANGLE`."""

CHOICES = frozenset({"select", "and", "or"})
"""Of their arguments, only the first is computed in any case."""


def works_on_near_angles(body: Sequence[Statement]) -> bool:
    """Return whether it is possible to compute the sines and cosines in a loop over `body` by fast functions that are
    right for small angles only, and to run the loop again with ordinary functions if an angle is large.
    """
    nodes = [node for node in scalars(body) if isinstance(node, Operation)]
    if not any(node.function in NEAR_ANGLE_FUNCTIONS for node in nodes) or not all(map(has_few_steps, loops(body))):
        return False
    # A function of the user's is called once for each entry.
    if any(isinstance(node.function, External) for node in nodes):
        return False
    chosen = (argument for node in nodes if node.function in CHOICES for argument in node.arguments[1:])
    return not any(_is_sine_or_cosine(node) for argument in chosen for node in subexpressions(argument))


def with_near_angles(loop: Loop, fresh: Callable[[str], str]) -> tuple[Statement, ...] | None:
    """Return statements that run `loop` with fast sines and cosines, right for small angles only, and again with
    ordinary ones if an angle was large. None if the loop is short, calls no such function, or may not run twice.
    ``fresh`` returns new names.
    """
    if has_few_steps(loop) or not works_on_near_angles(loop.body) or _reads_what_it_writes(loop.body):
        return None
    wide = fresh("wide")
    before = {name: Name(fresh(f"{name}_before")) for name in added(loop.body)}
    start = [Set(Name(wide), FALSE), *(Set(saved, Name(name)) for name, saved in before.items())]
    near = replace(loop, body=near_angles(loop.body, fresh, wide))
    again: list[Statement] = [*(Set(Name(name), saved) for name, saved in before.items()), loop]
    return (*start, near, If((Constraint("ge", Affine.variable(wide) - 1),), tuple(again)))


def _reads_what_it_writes(body: Sequence[Statement]) -> bool:
    """Return whether the loop over `body` reads entries of arrays that it writes. Running it twice would then change
    the result.
    """
    targets = [
        (s.target.array, s.reduction) for s in statements(body) if isinstance(s, Set) and isinstance(s.target, Load)
    ]
    read = {node.array for node in scalars(body) if isinstance(node, Load)}
    return any(reduction or array in read for array, reduction in targets)


def near_angles(body: Sequence[Statement], fresh: Callable[[str], str], wide: str) -> tuple[Statement, ...]:
    """Return `body` with sine and cosine replaced by versions for small angles. Added statements set the flag ``wide``
    if an angle exceeds `MAX_NEAR_ANGLE`. ``fresh`` returns new names.
    """

    def change(statement: Statement, _: Around) -> Iterator[Statement]:
        """Yield the statements that replace ``statement``: first those that give names to its angles, the arguments of
        sines and cosines, and set the flag for large angles; then ``statement`` with fast functions for small angles.
        """
        angles: dict[Scalar, str] = {}

        def small_angle(value: Scalar) -> Scalar:
            """Return ``value``, if it is a call of sine or cosine, as a call of the fast function for small angles.
            Return any other expression unchanged.

            The argument of the new call is a scalar variable, which is recorded in ``angles`` of the enclosing
            function.
            """
            if not _is_sine_or_cosine(value):
                return value
            assert isinstance(value, Operation)
            (angle,) = value.arguments
            if angle not in angles:
                angles[angle] = angle.name if isinstance(angle, Name) else fresh("angle")
            return Operation(NEAR_ANGLE_FUNCTIONS[str(value.function)], (Name(angles[angle]),))

        new = with_parts(statement, lambda value: rewrite_scalar(value, small_angle))
        for angle, name in angles.items():
            if angle != Name(name):
                yield Set(Name(name), angle)
            yield Set(Name(wide), Operation("lt", (Number(MAX_NEAR_ANGLE), Operation("abs", (Name(name),)))), "any")
        yield new

    return rewrite(body, change)


def _is_sine_or_cosine(node: Scalar) -> bool:
    """Return whether `node` is a sine or a cosine."""
    return isinstance(node, Operation) and node.function in NEAR_ANGLE_FUNCTIONS
