"""One test for many values: pytest's own way makes a test of each, which costs more than most of these do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Test = Callable[..., None]


def every(name: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test with each value of the argument ``name``; the first failure ends it, and says for which value.

    The values of a mapping are named by their keys.
    """
    cases = list(values.items()) if isinstance(values, Mapping) else [(value, value) for value in values]
    assert cases

    def decorate(test: Test) -> Test:
        def run(**fixtures: Any) -> None:
            for label, value in cases:
                try:
                    test(**{name: value}, **fixtures)
                except Exception as error:
                    raise AssertionError(f"{name} = {label}: {type(error).__name__}: {error}") from error

        signature = inspect.signature(test)
        others = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__dict__.update({**test.__dict__, **run.__dict__})  # marks of pytest
        return run

    return decorate
