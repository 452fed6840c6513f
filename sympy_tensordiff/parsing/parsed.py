"""The result of `parse`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol


@dataclass(frozen=True, slots=True, repr=False)
class ParsedExpression:
    """The result of `parse`: the expression, its tensors, and the variables to differentiate with respect to.

    Attributes
    ----------
    tensors : Mapping
        The declared tensors by their names, in the order of the declarations. Their axes have symbolic
        sizes; axes that the expression makes equally long have the same.
    expression : Expr
        The expression, a tensor or a scalar.
    arguments : tuple of TensorSymbol
        The variables of the derivative, one for each ``derivative wrt``.
    assumed : tuple of str
        Orders that the formula does not determine, decided by the first letters of the names.
    """

    tensors: Mapping[str, TensorSymbol] = field(hash=False)
    expression: Any
    arguments: tuple[TensorSymbol, ...]
    assumed: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))

    @property
    def argument(self) -> TensorSymbol:
        """The first variable to differentiate with respect to."""
        return self._select_arguments(None)[0]

    def _select_arguments(self, wrt: Any) -> tuple[TensorSymbol, ...]:
        """Return the variables to differentiate with respect to: those in ``wrt``, else those named in the text, else
        the only tensor.
        """
        if wrt is not None:
            names = [str(getattr(name, "name", name)) for name in (wrt if isinstance(wrt, tuple | list) else (wrt,))]
            if unknown := [name for name in names if name not in self.tensors]:
                raise ArgumentError(f"wrt names {unknown[0]}; the input has {', '.join(self.tensors) or 'no names'}")
            return tuple(self.tensors[name] for name in names)
        arguments = self.arguments or (tuple(self.tensors.values()) if len(self.tensors) == 1 else ())
        if not arguments:
            known = ", ".join(self.tensors) or "(there are none)"
            raise ArgumentError(
                "the text does not say what to differentiate with respect to: give wrt=, one or several of the names "
                f"{known}, or write `derivative wrt NAME` at the end of the text"
            )
        return arguments

    def with_respect_to(self, wrt: Any) -> ParsedExpression:
        """Return the same expression, to be differentiated with respect to ``wrt`` (names or tensors)."""
        return ParsedExpression(self.tensors, self.expression, self._select_arguments(wrt), self.assumed)

    def derivative(self, simplify: bool = True, wrt: Any = None) -> Any:
        """Return the derivative of the expression, taken with respect to all its variables, or those in ``wrt``, one
        after the other. With ``simplify``, it is simplified.

        Parameters
        ----------
        simplify : bool
            Whether to simplify the derivative after the sweep.
        wrt : str, TensorSymbol or tuple of them, optional
            Other variables than those of the text. For a formula with a single tensor, the default is this tensor.

        Returns
        -------
        Expr
            A tensor with the axes of the expression, then those of the first variable, the second, and so on.

        Raises
        ------
        UnsupportedError
            If a part of the expression has no derivative; the message names it.
        ArgumentError
            If ``wrt`` is not one of the tensors, or is missing.

        Examples
        --------
        >>> import sympy_tensordiff as td
        >>> text = "declare A 2 x 1 expression (x *(i,ij->j) A) *(j,j->) x derivative wrt x derivative wrt x"
        >>> parsed = td.parse(text)
        >>> parsed.derivative()
        A + A.T
        """
        result = self.expression
        for argument in self._select_arguments(wrt):
            result = hooks.jacobian(result, argument, simplify)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return ParsedExpression, (dict(self.tensors), self.expression, self.arguments, self.assumed)

    def _repr_latex_(self) -> str | None:
        """Return the LaTeX of the expression for notebooks; None if it is too large."""
        if measures(self.expression).is_unprintable:
            return None
        text: str = self.expression._repr_latex_()
        return text

    def __repr__(self) -> str:
        declarations = "".join(f"{name} {tensor.rank} " for name, tensor in self.tensors.items())
        arguments = ", ".join(tensor.name for tensor in self.arguments)
        return f"<parsed: declare {declarations}expression {self.expression} derivative wrt {arguments}>"
