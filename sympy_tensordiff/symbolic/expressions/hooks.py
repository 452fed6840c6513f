"""Hooks: functions that the node classes call and that later packages register, so that imports go one way."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_DERIVATIVES = "sympy_tensordiff.derivative.api"
_EQUATIONS = "sympy_tensordiff.drawing.equations"


class Hook:
    """A function that can be called before it is defined: one module calls the hook, and a module imported later sets
    the function by `register`, so that the first one need not import the second.

    The first call imports ``module``, which registers the function; without a module, or while that is imported, a
    call applies the default ``function``.
    """

    def __init__(self, function: Callable[..., Any], module: str = "") -> None:
        self.function = function
        self.module = module

    def register(self, function: Callable[..., Any]) -> None:
        """Set the function that the hook is to call."""
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        if self.module:
            import_module(self.module)  # other threads wait here until the module is complete
            self.module = ""
        return self.function(*arguments)


derivative = Hook(lambda expr, variable: None, _DERIVATIVES)
"""Return the derivative of an entry, an indexed sum or a tensor expression with respect to an entry of a tensor symbol,
a tensor symbol or a scalar symbol; None leaves SymPy's unevaluated ``Derivative``."""

jacobian = Hook(lambda T, variable, simplify: derivative(T, variable), _DERIVATIVES)
"""Return the derivative of a parsed expression with respect to a tensor symbol, axes of ``T`` first."""

lifted = Hook(lambda value: value)
"""Convert a variable in SymPy's own notation to these classes; other values are returned unchanged."""

operand = Hook(lambda value, description: value, "sympy_tensordiff.symbolic.conversion.lift")
"""Convert an argument of a public function to these classes; errors call it by the given description."""

read_out_of_bounds = Hook(lambda expr: None, _DERIVATIVES)
"""Return a read in an expression that is out of bounds for some indices in ranges of numbers; None without one."""

simplified = Hook(lambda expr: expr, "sympy_tensordiff.derivative.native")
"""Contract Kronecker deltas under a binder, for `sympy.simplify`."""

printed_forms = Hook(str, "sympy_tensordiff.symbolic.printing.forms_of_classes")
"""Return the printed forms of a node, as text, LaTeX and two-dimensional form; None for a class without such forms."""

formula = Hook(str, _EQUATIONS)
"""Return the LaTeX that notebooks show for a list of results of these classes."""

equations = Hook(lambda parts, reduced: str(reduced), _EQUATIONS)
"""Return the LaTeX that notebooks show for the reduced expressions of `cse` and their parts."""

step_parts = Hook(lambda steps, is_text: ([], steps), _EQUATIONS)
"""Return the parts that the steps of a scan have in common, as `cse` does, and the steps in terms of them; no parts
where the steps are short without, as text or in LaTeX."""

lines = Hook(lambda expr: None, _EQUATIONS)
"""Return (name, part) pairs of an expression that is too long for one text, the rest with the name None; or None."""

notations: dict[Any, Callable[[Any], Any]] = {}
"""The conversion that ``expr.rewrite(target)`` applies, for each class ``target``."""


def notation(target: Any) -> Callable[[Any], Any] | None:
    """Return the function that converts an expression to the notation of the class ``target``, such as `EinsumProduct`;
    None if there is none.
    """
    import_module(_DERIVATIVES)
    return notations.get(target)


def rewritten(expr: Any, target: type) -> Any:
    """Return ``expr`` rewritten in the notation of the class ``target``. It may also be an expression in SymPy's own
    classes.
    """
    import_module(_DERIVATIVES)
    return notations[target](expr)
