"""Smaller functions that break the law in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .functions import ACTIVATIONS, Function, Step
from .judge import Breach, judge

_ORDERS = {"function": "f", "gradient": "fg", "hvp": "fgh", "hessian": "fghH"}


def shrunk(function: Function, breach: Breach) -> tuple[Function, Breach]:
    """The smallest function found that has a breach of the same kind and growth, and that breach."""
    orders = _ORDERS[breach.result]
    is_growing = breach.growth > 1.5
    found = True
    while found:
        found = False
        for candidate in _smaller(function):
            try:
                verdict = judge(candidate, orders=orders, values=breach.what == "value")
            except Exception:
                continue
            same = [b for b in verdict.breaches if b.kind == breach.kind and (b.growth > 1.5) >= is_growing]
            if same:
                function, breach, found = candidate, same[0], True
                break
    return function, breach


def _smaller(function: Function) -> Iterator[Function]:
    """Functions with fewer steps in which the variable is still there, those with the fewest first."""
    steps = list(function.steps)
    yield from _shorter(function)
    for step in steps:
        for operand in dict.fromkeys(step.operands):
            if step.operation and function.axes[operand] == step.axes and step is not steps[-1]:
                renamed = [_renamed(other, step.name, operand) for other in steps if other is not step]
                yield from _checked(function, renamed)
    for place, step in enumerate(steps[:-1]):
        if step.operation:
            yield from _checked(function, [*steps[:place], Step(step.name, step.axes), *steps[place + 1 :]])
    for place, step in enumerate(steps):
        if step.operation in ACTIVATIONS and step.operation not in ("tanh", "square"):
            yield from _checked(function, [*steps[:place], replace(step, operation="tanh"), *steps[place + 1 :]])


def _shorter(function: Function) -> Iterator[Function]:
    """Functions that end at an earlier step."""
    steps = list(function.steps)
    for place, step in enumerate(steps):
        if not step.operation:
            continue
        if place < len(steps) - 2 and step.axes:
            for head in ("sum", "squares"):
                yield from _checked(function, [*steps[: place + 1], Step("end", "", head, (step.name,))])
        elif not step.axes and place < len(steps) - 1:
            yield from _checked(function, steps[: place + 1])


def _renamed(step: Step, old: str, new: str) -> Step:
    return replace(step, operands=tuple(new if one == old else one for one in step.operands))


def _checked(function: Function, steps: list[Step]) -> Iterator[Function]:
    """The function of other steps, where it depends on its variable and something has changed."""
    candidate = replace(function, steps=tuple(steps)).live()
    used = {name for step in candidate.steps for name in step.operands}
    if function.wrt in used and (not function.penalty or function.penalty in used) and candidate != function:
        yield candidate
