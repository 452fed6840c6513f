"""One test for many values: pytest's own way makes a test of each, which costs more than most of these do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

Test = Callable[..., None]


def every(
    names: str, values: Iterable[Any], ids: Callable[[Any], str] | Iterable[str] | None = None, turns: int = 1
) -> Callable:
    """Run a test with each value of the argument ``names``; the first failure ends it, and says for which value.

    Several names are separated by commas, and each value is a tuple then. The values of a mapping are named by their
    keys, others by ``ids``, if given: labels, or what makes a label of a value. One value in ``turns`` runs each day,
    as with the mark `in_turns`.
    """
    if isinstance(values, Mapping):
        ids, values = list(values), list(values.values())
    values = list(values)
    # what is written of a value is found where its test fails: to write all takes a second
    label = ids if callable(ids) else repr
    labels = [None] * len(values) if ids is None or callable(ids) else list(ids)
    arguments = [name.strip() for name in names.split(",")]
    cases = [
        (value, known, dict(zip(arguments, value if len(arguments) > 1 else (value,), strict=True)))
        for value, known in zip(values, labels, strict=True)
    ]
    assert cases

    def decorate(test: Test) -> Test:
        def run(**fixtures: Any) -> None:
            for value, known, case in fixtures.pop("in_turns")(cases, turns) if turns > 1 else cases:
                try:
                    test(**case, **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    raise AssertionError(
                        f"{names} = {label(value) if known is None else known}: {type(error).__name__}: {error}"
                    ) from error

        signature = inspect.signature(test)
        others = [parameter for parameter in signature.parameters.values() if parameter.name not in arguments]
        if turns > 1:
            others.append(inspect.Parameter("in_turns", inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__dict__.update({**test.__dict__, **run.__dict__})  # marks of pytest
        return run

    return decorate
