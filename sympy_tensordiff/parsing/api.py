"""`parse`, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sympy_tensordiff.errors import ArgumentTypeError
from sympy_tensordiff.parsing.axes import Sizes, declared
from sympy_tensordiff.parsing.build import Builder
from sympy_tensordiff.parsing.front import bottom_up, read
from sympy_tensordiff.parsing.language import THESIS
from sympy_tensordiff.symbolic import hooks
from sympy_tensordiff.symbolic.measures import measures
from sympy_tensordiff.symbolic.tensors import TensorSymbol


class ParsedExpression:
    """An input of the text language as an expression (`parse` makes it).

    Attributes
    ----------
    tensors : Mapping
        The declared tensors by their names, in the order of the declarations. Their axes have symbolic
        sizes; axes that the expression makes equally long have the same.
    expression : Expr
        The expression, a tensor or a scalar.
    arguments : tuple of TensorSymbol
        What to differentiate by, one for each ``derivative wrt``.
    """

    __slots__ = ("arguments", "expression", "tensors")

    tensors: Mapping[str, TensorSymbol]
    expression: Any
    arguments: tuple[TensorSymbol, ...]

    def __init__(self, tensors: Mapping[str, TensorSymbol], expression: Any, arguments: tuple[TensorSymbol, ...]):
        self.tensors = MappingProxyType(dict(tensors))
        self.expression = expression
        self.arguments = arguments

    @property
    def argument(self) -> TensorSymbol:
        """The first argument."""
        return self.arguments[0]

    def derivative(self, simplify: bool = True) -> Any:
        """The derivative by all arguments in turn.

        Parameters
        ----------
        simplify : bool
            Whether the derivative is simplified; without, it is what the sweep over the expression leaves.

        Returns
        -------
        Expr
            Of the shape of the expression, then of the first argument, of the second, and so on.

        Raises
        ------
        UnsupportedError
            If something in the expression has no derivative here; the message names it.

        Examples
        --------
        >>> import sympy_tensordiff as td
        >>> text = "declare A 2 x 1 expression (x *(i,ij->j) A) *(j,j->) x derivative wrt x derivative wrt x"
        >>> parsed = td.parse(text)
        >>> parsed.derivative()
        A + A.T
        """
        result = self.expression
        for argument in self.arguments:
            result = hooks.jacobian(result, argument, simplify)
        return result

    def _parts(self) -> tuple[dict[str, TensorSymbol], Any, tuple[TensorSymbol, ...]]:
        return dict(self.tensors), self.expression, self.arguments

    def __eq__(self, other: object) -> bool:
        """Whether the other has the same tensors in any order, the same expression and the same arguments."""
        return self._parts() == other._parts() if isinstance(other, ParsedExpression) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.expression, self.arguments))

    def __reduce__(self) -> tuple[Any, ...]:
        return ParsedExpression, self._parts()

    def _repr_latex_(self) -> str | None:
        if measures(self.expression).is_unprintable:
            return None
        text: str = self.expression._repr_latex_()
        return text

    def __repr__(self) -> str:
        declarations = "".join(f"{name} {tensor.rank} " for name, tensor in self.tensors.items())
        arguments = ", ".join(tensor.name for tensor in self.arguments)
        return f"<parsed: declare {declarations}expression {self.expression} derivative wrt {arguments}>"


def parse(text: str) -> ParsedExpression:
    """An expression out of a text in the language of the thesis.

    Parameters
    ----------
    text : str
        ``declare NAME ORDER … expression EXPRESSION derivative wrt NAME``, at most 200,000 characters; several
        ``derivative wrt NAME`` mean a derivative of a higher order. White space is free, ``#`` starts a comment
        up to the end of the line.

    Returns
    -------
    ParsedExpression
        The tensors, the expression, and what to differentiate by.

    Raises
    ------
    ParseError
        If the text is not in the language, or its tensors do not fit; it has the line and the column.
    ArgumentTypeError
        If ``text`` is no str.

    Notes
    -----
    The grammar of Lippmann (thesis, section 2.3), from what binds strongest: ``^`` from left to right, with an atom
    as exponent; ``-`` and the unary product ``(ij->ji)A`` before an operand, so that ``-x^2`` is ``-(x^2)``; the
    products ``*(ij,jk->ik)`` and ``/`` from left to right; ``+`` and ``-`` from left to right.

    Numbers are exact (``0.5`` is 1/2). Numbers and tensors of order 0 fit beside every order. Axes under one
    letter of a product and of the two sides of a sum are equally long (thesis, section 3.2.4).

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> parsed = td.parse("declare A 2 x 1 expression exp(A *(ij,j->i) x) derivative wrt x")
    >>> parsed.expression, parsed.tensors["A"].shape
    (exp(A @ x), (n, m))
    >>> parsed.derivative()
    diag(exp(A @ x)) @ A
    >>> td.parse("declare A 2 x 1 expression A + x derivative wrt x")
    Traceback (most recent call last):
    ...
    sympy_tensordiff.errors.ParseError: line 1, column 30: the operands of + have different orders: ...
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(f"td.parse takes a str, not {type(text).__name__}")
    root = read(THESIS, text)
    orders = declared(root)
    *_, expression = (part for part in root.parts if part.kind not in ("declaration", "argument"))
    nodes = bottom_up(expression)
    builder = Builder(Sizes(orders, nodes))
    result = builder.expression(nodes)
    return ParsedExpression(
        builder.tensors, result, tuple(builder.tensors[node.text] for node in root.of_kind("argument"))
    )
