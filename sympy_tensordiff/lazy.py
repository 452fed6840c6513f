"""Imports at first use: reading, differentiating, printing and generating text need SymPy, mpmath and lark only."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as numpy
else:

    class _LazyModule:
        """A stand-in for a module, which is imported when one of its attributes is read for the first time."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            value = getattr(import_module(self._name), attribute)
            if not attribute.startswith("__"):
                vars(self)[attribute] = value
            return value

    numpy = _LazyModule("numpy")

_MODULES = {
    "bridges.jax": "jax_function",
    "bridges.minimize": "minimize_problem",
    "bridges.torch": "torch_function",
    "codegen.api": "evaluate generate_code lambdify",
    "codegen.cost": "cost",
    "codegen.run.array_functions": "ArrayFunction",
    "codegen.run.cache": "clear_cache",
    "codegen.run.compile": "CompiledFunction",
    "codegen.tuning": "tune",
    "convex.api": "certify_convex",
    "derivative.api": "gradient hessian hvp jacobian jvp vjp",
    "derivative.named_parts": "cse name",
    "derivative.native": "diff simplify_deltas",
    "distributed.function": "DaskFunction",
    "drawing.api": "GraphDrawing draw_graph",
    "drawing.equations": "latex",
    "drawing.plot": "plot_index_map",
    "parsing.api": "parse",
    "parsing.indexed.api": "parse_indexed",
    "parsing.parsed": "ParsedExpression",
    "parsing.to_text": "to_text",
    "structure.api": "structured_hessian structured_jacobian",
    "structure.nlp": "nlp",
    "testing.differences": "check_derivative",
    "testing.error_bounds": "ErrorBound error_bound",
}
NAMES = {name: f"sympy_tensordiff.{module}" for module, names in _MODULES.items() for name in names.split()}
"""The public names that are imported at first use, with their modules; ``__init__`` lists them for type checkers."""

PACKAGES = frozenset({*(module.partition(".")[0] for module in _MODULES), "app", "reference", "simplify", "graph"})
"""The subpackages that are imported at their first use."""


def public_name(name: str) -> Any:
    """Import and return the public name or subpackage ``name`` of `sympy_tensordiff`; None if it is neither."""
    if name in PACKAGES:
        return import_module(f"sympy_tensordiff.{name}")
    if name not in NAMES:
        return None
    value = getattr(import_module(NAMES[name]), name)
    vars(sys.modules["sympy_tensordiff"])[name] = value
    return value
