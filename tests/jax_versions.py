"""Names of JAX that have moved, in the versions that pyproject.toml allows."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any


def enable_x64(value: bool = True) -> AbstractContextManager[Any]:
    """Return the context in which numbers have double precision, or do not; its name was in `jax.experimental`."""
    jax = import_module("jax")
    module = jax if hasattr(jax, "enable_x64") else import_module("jax.experimental")
    return module.enable_x64(value)  # type: ignore[no-any-return]
