"""One test for many values: pytest's own way makes a test of each, which costs more than most of these do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import pytest

Test = Callable[..., None]


def every(
    names: str,
    values: Iterable[Any] | Callable[[], Iterable[Any]],
    ids: Callable[[Any], str] | Iterable[str] | None = None,
    turns: int = 1,
) -> Callable:
    """Run a test with each value of the argument ``names``; the first failure ends it, and says for which value.

    Several names are separated by commas, and each value is a tuple then. The values of a mapping are named by their
    keys, others by ``ids``, if given: labels, or what makes a label of a value. One value in ``turns`` runs each day,
    as with the mark `in_turns`. Values that take long are those of a function, which is called when the test runs.
    """
    # what is written of a value is found where its test fails: to write all takes a second
    label = ids if callable(ids) else repr
    arguments = [name.strip() for name in names.split(",")]

    @cache
    def cases() -> list[tuple[Any, str | None, dict[str, Any]]]:
        given = values() if callable(values) else values
        known = ids
        if isinstance(given, Mapping):
            known, given = list(given), given.values()
        given = list(given)
        labels = [None] * len(given) if known is None or callable(known) else list(known)
        assert given
        return [
            (value, known, dict(zip(arguments, value if len(arguments) > 1 else (value,), strict=True)))
            for value, known in zip(given, labels, strict=True)
        ]

    if not callable(values):
        cases()

    def decorate(test: Test) -> Test:
        def run(**fixtures: Any) -> None:
            for value, known, case in fixtures.pop("in_turns")(cases(), turns) if turns > 1 else cases():
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
