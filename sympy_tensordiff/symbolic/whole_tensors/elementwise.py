"""Elementwise operations: sums, products, powers and scalar functions of tensors of one shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sympy import Add, Basic, Dummy, Expr, Indexed, Lambda, Mul, Piecewise, Pow, S, Symbol, default_sort_key, sympify
from sympy.core.rules import Transform

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.symbolic.expressions.base import TensorNode, argument, arguments, is_placeholder
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.expressions.partial_derivatives import distinct
from sympy_tensordiff.symbolic.expressions.replacement import IndexRenaming
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, nodes_in
from sympy_tensordiff.symbolic.index_notation.signatures import documented
from sympy_tensordiff.symbolic.whole_tensors.einsum import aligned, broadcast_shape
from sympy_tensordiff.symbolic.whole_tensors.operations import (
    Read,
    Shape,
    TensorOperation,
    refuse_scalars,
    shape_of,
    varying_in,
)


def order_key(expr: Any) -> Any:
    """Return a sort key for operands that is the same in every process: SymPy's key, followed by a digest (hash) that
    decides between operands with equal keys.
    """
    return bool(shape_of(expr)), default_sort_key(expr), measures(expr).digest


class Entrywise(TensorOperation):
    """The base class of operations that work entry by entry, such as sums, products and functions of tensors."""

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape of a node with the operands ``args``: their shapes, broadcast to one."""
        return broadcast_shape(args, cls.__name__)

    def applied(self, *values: Any) -> Any:
        """Return the operation applied to the scalars ``values`` in place of its operands: the sum of ``values`` for a
        sum of tensors. Each subclass defines it.
        """
        raise NotImplementedError

    def entry_of(self, indices: Sequence[Expr], read: Read) -> Any:
        """Return the entry at ``indices``: the scalar operation applied to the entries of the operands, which ``read``
        returns.
        """
        varying = varying_in(indices)
        return self.applied(*(read(operand, indices, varying) for operand in self.operands))


def _with_values(expr: Any, values: dict[Any, Any]) -> Any:
    """Return ``expr`` with its symbols replaced by ``values``. A `Piecewise` is rebuilt without evaluation by SymPy."""
    if not expr.has(Piecewise):
        return expr.xreplace(values)
    if isinstance(expr, Piecewise):
        return choice((_with_values(value, values), condition.xreplace(values)) for value, condition in expr.args)
    return expr.func(*(_with_values(arg, values) for arg in expr.args))


def choice(cases: Iterable[tuple[Any, Any]]) -> Any:
    """Return a `Piecewise` of the ``(value, condition)`` pairs ``cases``, not evaluated by SymPy: only the conditions
    True and False are resolved. NaN if no case remains.
    """
    found = []
    for value, condition in cases:
        if condition not in (False, S.false):
            found.append((value, condition))
        if condition in (True, S.true):
            break
    if not found:
        return S.NaN
    return found[0][0] if found[0][1] in (True, S.true) else Piecewise(*found, evaluate=False)


class Commutative(Entrywise):
    """The base class of sums and products of tensors. Operands are sorted, so that ``A + B`` and ``B + A`` are one
    node.
    """

    def __new__(cls, *operands: Any) -> Any:
        checked = aligned(operands, cls.__name__)
        refuse_scalars(checked, cls.__name__)
        return cls._unchecked(*checked)

    @classmethod
    def _unchecked(cls, *args: Basic) -> Any:
        """Return the node with these operands in sorted order, without checking them."""
        return super()._unchecked(*sorted(args, key=order_key))


_OF_TERMS = """
Parameters
----------
*operands : Expr or number
    At least one of rank > 0; they are repeated to one shape as in NumPy.

Raises
------
ShapeError
    If the shapes of two operands do not fit, or none has an axis.
ArgumentTypeError, UnsupportedError
    If an operand is neither a tensor expression nor a real scalar.
"""


@documented(_OF_TERMS)
class TensorAdd(Commutative):
    """The sum of tensors, entry by entry; scalars are added to every entry.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A, B = td.TensorSymbol("A", (2, 3)), td.TensorSymbol("B", (2, 3))
    >>> td.TensorAdd(A, B) == td.TensorAdd(B, A)
    True
    >>> td.TensorAdd(A, B, 1)[0, 2].doit()
    A[0, 2] + B[0, 2] + 1
    """

    def applied(self, *values: Any) -> Any:
        """Return the sum of the scalars ``values``, one in place of each operand: the formula of one entry of this
        elementwise sum.
        """
        return Add(*values)


@documented(_OF_TERMS)
class TensorMul(Commutative):
    """The product of tensors, entry by entry; scalars multiply every entry.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A, B = td.TensorSymbol("A", (2, 3)), td.TensorSymbol("B", (2, 3))
    >>> td.TensorMul(2, A, B) == td.TensorMul(B, A, 2)
    True
    >>> td.TensorMul(2, A, B)[0, 2].doit()
    2*A[0, 2]*B[0, 2]
    """

    def applied(self, *values: Any) -> Any:
        """Return the product of the scalars ``values``: this elementwise product with a scalar in place of each tensor
        operand.
        """
        return Mul(*values)


class TensorPow(Entrywise):
    """``base ** exponent`` entry by entry.

    Parameters
    ----------
    base, exponent : Expr or number
        At least one of rank > 0; they are repeated to one shape as in NumPy.

    Raises
    ------
    ShapeError
        If the shapes do not fit, or both are scalars.
    ArgumentTypeError, UnsupportedError
        If one is neither a tensor expression nor a real scalar.

    Notes
    -----
    Tensors are real: the base of a power with a non-integer exponent is not negative.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (2, 3))
    >>> td.TensorPow(A, 2).shape, td.TensorPow(2, A).shape
    ((2, 3), (2, 3))
    >>> td.TensorPow(2, A)[0, 2].doit()
    2**A[0, 2]
    """

    def __new__(cls, base: Any, exponent: Any) -> Any:
        operands = aligned((base, exponent), "TensorPow")
        refuse_scalars(operands, "TensorPow")
        return cls._unchecked(*operands)

    base = argument(0, "What is raised to a power.")
    exponent = argument(1, "The power.")

    def applied(self, *values: Any) -> Any:
        """Return ``base**exponent`` for the two scalars ``values``, the base and the exponent."""
        return Pow(*values)


class TensorFunction(Entrywise):
    """A function of real numbers, applied to tensors entry by entry; the function is stored as a template,
    ``Lambda((t0, t1), exp(t0)*t1)``.

    Parameters
    ----------
    template : Lambda
        The function; nothing is free in it. Its variables are renamed, so that equal functions
        are equal objects.
    *operands : Expr or number
        One per variable: tensors, repeated to one shape as in NumPy, and scalars, the same for every entry.

    Raises
    ------
    ArgumentTypeError
        If the template is not a `sympy.Lambda` of symbols.
    ArgumentError
        If something is free in it, or it has not as many variables as there are operands.
    ShapeError
        If the shapes of two operands do not fit, or none has an axis.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> t = sympy.Symbol("t")
    >>> A = td.TensorSymbol("A", (2, 3))
    >>> td.TensorFunction(sympy.Lambda(t, sympy.exp(t)), A) == td.exp(A)
    True
    """

    has_template = True

    def __new__(cls, template: Any, *operands: Any) -> Any:
        template = closed_template(template)
        checked = aligned(operands, cls.__name__)
        if len(checked) != len(template.signature):
            raise ArgumentError(
                f"TensorFunction: {template} is a function of {len(template.signature)} arguments, "
                f"but {len(checked)} operands are given"
            )
        refuse_scalars(checked, cls.__name__)
        return cls._unchecked(template, *checked)

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape of a node with the arguments ``args``, a template and the operands: the operands' shapes,
        broadcast to one.
        """
        return broadcast_shape(args[1:], cls.__name__)

    template = argument(0, "The function of real numbers, a `sympy.Lambda`.")
    operands: tuple[Any, ...] = arguments(1, "The operands, one per variable of the template.")

    def applied(self, *values: Any) -> Any:
        """Return the formula of this elementwise function with the scalars ``values`` in place of its variables."""
        template = self.args[0]
        return _with_values(template.expr, dict(zip(template.variables, map(sympify, values), strict=True)))

    def _substituted(self, old: Basic, new: Basic) -> Any:
        """Return the node with ``old`` replaced by ``new`` in the operands and in the body of the template; the
        template's variables are unaffected.
        """
        operands = tuple(arg._subs(old, new) for arg in self.operands)
        if is_placeholder(new):  # it stands for symbols, of which a template has none
            return self if operands == self.operands else self._of_shape((self.template, *operands), self._shape)
        return self._with(operands, lambda body: body._subs(old, new))

    def _eval_subs(self, old: Basic, new: Basic) -> Basic:
        """SymPy's hook for `subs`: return the node with ``old`` replaced by ``new`` in the operands and in the body of
        the `Lambda` (the template) that this function applies to each entry; the variables of the `Lambda` stay.
        """
        result: Basic = self._substituted(old, new)
        return result

    def _replaced(self, rule: Any) -> tuple[Any, bool]:
        """Apply ``rule``, a dictionary of replacements or a transform, to the operands and to the formula of this
        elementwise function. Return ``(result, whether it changed)``.

        The variables of the formula (the template), which stand for the operands, are unaffected.
        """
        if isinstance(rule, Transform) or self in rule:
            replaced: tuple[Any, bool] = super()._replaced(rule)
            return replaced
        operands = tuple(arg._xreplace(rule)[0] for arg in self.operands)
        if isinstance(rule, IndexRenaming):
            result = self._unchecked(self.template, *operands)
        else:
            result = self._with(operands, lambda body: body.xreplace(rule))
        return result, result is not self

    def _with(self, operands: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
        """Return this node with the given ``operands``, and with ``change`` applied to the formula of its entries (its
        template). Free symbols that ``change`` adds to the formula become operands.
        """
        variables = [Dummy(real=True) for _ in operands]
        body = self.applied(*variables)
        changed = change(body)
        if changed == body:
            return self if operands == self.operands else self.func(self.template, *operands)
        return apply_to(variables, changed, operands)


def placeholders(count: int) -> list[Symbol]:
    """Return the first ``count`` of the symbols ``t0``, ``t1``, ..., which all templates of elementwise functions use
    as variables.
    """
    return [Symbol(f"t{number}", real=True) for number in range(count)]


def closed_template(template: Any) -> Any:
    """Return the `Lambda` ``template`` with its variables renamed to ``t0, t1, ...``; raise an error if its body
    contains other free symbols.

    Raises `ArgumentTypeError` if it is not a `Lambda` of symbols, and `ArgumentError` if it has free symbols.
    """
    if not isinstance(template, Lambda) or not all(isinstance(symbol, Symbol) for symbol in template.signature):
        raise ArgumentTypeError(
            f"TensorFunction: the template must be a sympy.Lambda of symbols, not {template!r}; "
            "td.elementwise takes any function"
        )
    if template.free_symbols:
        raise ArgumentError(
            f"TensorFunction: {template} holds {sorted(map(str, template.free_symbols))}, which its variables are not: "
            "give them as operands; td.elementwise does that"
        )
    variables = placeholders(len(template.signature))
    body = distinct(template.expr, template=True)
    if body is not template.expr:
        template = Lambda(template.signature, body)
    return template if tuple(variables) == tuple(template.signature) else Lambda(tuple(variables), template(*variables))


def apply_to(variables: Sequence[Any], body: Any, operands: Sequence[Any]) -> Any:
    """Return the elementwise function with the formula ``body`` in ``variables``, applied to ``operands``. Tensor
    entries and free symbols in ``body`` become further operands.

    Raises `ArgumentError` if ``body`` has a variable inside of a tensor or a sum.
    """
    tensors = {
        node: Dummy(real=True)
        for node in nodes_in([body], lambda node: () if isinstance(node, (TensorNode, Indexed)) else node.args)
        if isinstance(node, (TensorNode, Indexed))
    }
    for node in tensors:
        if not node.free_symbols.isdisjoint(variables):
            raise ArgumentError(
                f"elementwise: the function puts its argument into {node}, which is not a function of SymPy's; give "
                "other tensors as operands, td.elementwise(lambda a, b: …, A, B), or write a td.TensorComprehension"
            )
    body = body.xreplace(tensors)
    symbols = free_symbols_in([body]).difference(variables, tensors.values())
    others = sorted([*tensors, *symbols], key=order_key)
    names = placeholders(len(variables) + len(others))
    holes = (*variables, *(tensors.get(other, other) for other in others))
    template = Lambda(tuple(names), body.xreplace(dict(zip(holes, names, strict=True))))
    return TensorFunction(template, *operands, *others)
