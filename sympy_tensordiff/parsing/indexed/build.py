"""The tree of an input as an expression of the package's classes, and what its names stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import sympy
from sympy import Add, Expr, Integer, Mul, S
from sympy.logic.boolalg import Boolean

from sympy_tensordiff.parsing.axes import OF_MATRICES
from sympy_tensordiff.parsing.frontend import Tree, bottom_up, check_declared, check_word, cut, known
from sympy_tensordiff.parsing.numbers import FUNCTIONS as COMMON
from sympy_tensordiff.parsing.numbers import Numbers, about, read_number
from sympy_tensordiff.symbolic.elementwise import choice
from sympy_tensordiff.symbolic.indices import indices
from sympy_tensordiff.symbolic.scalar_functions import sigmoid, softplus
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorExpr, TensorSymbol

Scope = Mapping[str, Any]


class Called(NamedTuple):
    """A function of numbers, and how many of them it takes at least and at most (0: any number)."""

    function: Callable[..., Any]
    least: int = 1
    most: int = 1


_OF_SYMPY = """
    asin acos atan sqrt sinh cosh asinh acosh atanh floor ceiling sec csc cot asec acsc acot sech csch coth asech acsch
    acoth frac sinc erf erfc Abs
"""
_UNARY: dict[str, Any] = {
    **COMMON,
    **{name: getattr(sympy, name) for name in _OF_SYMPY.split()},
    **{"ln": sympy.log, "sigmoid": sigmoid, "softplus": softplus, "relu": lambda value: sympy.Max(value, 0)},
}
FUNCTIONS: MappingProxyType[str, Called] = MappingProxyType(
    {
        **{name: Called(function) for name, function in _UNARY.items()},
        **{name: Called(sympy.Max, 1, 0) for name in ("max", "Max")},
        **{name: Called(sympy.Min, 1, 0) for name in ("min", "Min")},
        **{name: Called(sympy.Mod, 2, 2) for name in ("mod", "Mod")},
        **{name: Called(sympy.KroneckerDelta, 2, 2) for name in ("delta", "KroneckerDelta")},
        **{name: Called(getattr(sympy, name), 2, 2) for name in ("atan2", "jn", "Eq", "Ne")},
        "Heaviside": Called(sympy.Heaviside, 1, 2),
    }
)

CONNECTIVES: MappingProxyType[str, Called] = MappingProxyType(
    {
        **{name: Called(getattr(sympy, name), 2, 2) for name in ("Implies", "Equivalent")},
        **{name: Called(getattr(sympy, name), 1, 0) for name in ("And", "Or", "Xor")},
        **{"ITE": Called(sympy.ITE, 3, 3), "Not": Called(sympy.Not)},
    }
)
"""What takes conditions, and is one."""

REDUCTIONS: MappingProxyType[str, Any] = MappingProxyType(
    {
        **{name: IndexedSum for name in ("sum", "Sum", "IndexedSum")},
        **{name: IndexedProduct for name in ("prod", "Product", "IndexedProduct")},
        **{"IndexedMax": IndexedMax, "IndexedMin": IndexedMin},
    }
)
"""Reductions: a body, then one or more limits ``(k, first, last)``, or ``k`` alone."""

STRUCTURES = ("TensorComprehension", "Piecewise", "where")
"""What takes other arguments than numbers."""

CONSTANTS: MappingProxyType[str, Any] = MappingProxyType(
    {"pi": sympy.pi, "E": sympy.E, "True": sympy.true, "False": sympy.false}
)
"""What a name stands for that nothing else has."""


class Builder:
    """Expressions out of parts; ``scope`` holds the indices that are bound around a part."""

    def __init__(self, root: Tree) -> None:
        *declarations, self.left = root.of_kind("declaration")
        self.numbers = Numbers()
        self.names = Names(declarations, self.left)
        self.names.declare(lambda part: self.number(part, {}))

    def definition(self, right: Tree) -> Any:
        """The tensor, or the scalar, that the left side names and the right side defines."""
        left, names = self.left, self.names
        axes, shape = left.parts, names.declared_shape
        if shape is not None and len(shape) != len(axes):
            raise left.error(f"{cut(left.text)} is declared with {len(shape)} axes and defined with {len(axes)}")
        scope: dict[str, Any] = {}
        for axis in axes:
            if axis.kind != "name" or axis.text in scope:
                raise axis.error("the left side holds indices, each a name of its own, as in f[i, j] = …")
            names.check_index(axis)
            scope[axis.text] = indices(axis.text)
        body = self.value(right, scope)
        if not axes and isinstance(body, TensorExpr):
            return body
        body = self.as_number(body, right)
        if not axes:
            return body
        extents = shape if shape is not None else [names.range_of(axis, right) for axis in axes]
        with about(right):
            return TensorComprehension(body, *zip(scope.values(), extents, strict=True))

    # ------------------------------------------------------------------------ parts

    def number(self, part: Tree, scope: Scope) -> Any:
        """The value of a part that has to be a number."""
        return self.as_number(self.value(part, scope), part)

    def as_number(self, value: Any, part: Tree) -> Any:
        """The value of a part, which is a number."""
        if not isinstance(value, Expr):
            raise part.error("a number is expected here, not a condition; write where(condition, a, b)")
        if isinstance(value, TensorExpr) and value.shape:
            raise part.error(f"a number is expected here, not a tensor with {value.rank} axes: read an entry")
        return value

    def condition(self, part: Tree, scope: Scope) -> Any:
        """A part that has to be a condition."""
        value = self.value(part, scope)
        if isinstance(value, Expr) or not isinstance(value, Boolean):
            raise part.error("a condition is expected here, such as i < j")
        return value

    def value(self, part: Tree, scope: Scope) -> Any:
        """The expression of a part; all numbers in it are finite and real, and none is too long."""
        build: Callable[[Tree, Scope], Any] = getattr(self, f"_{part.kind}")
        with about(part):
            value = build(part, scope)
            return self.numbers.check_real(value) if isinstance(value, Expr) else value

    def _number(self, part: Tree, scope: Scope) -> Any:
        return read_number(part)

    def _name(self, part: Tree, scope: Scope) -> Any:
        name = part.text
        for named in (scope, self.names.sizes, self.names.tensors, CONSTANTS):
            if name in named:
                found = named[name]
                if isinstance(found, TensorExpr) and found.shape:
                    marks = ", ".join("ijklmnopqrstuvwxyz"[: found.rank])
                    raise part.error(f"{cut(name)} has {found.rank} axes: read an entry, {cut(name)}[{marks}]")
                return found
        raise part.error(
            f"{cut(name)} is neither declared nor an index here; an index stands on the left side or behind the body "
            f"of a sum, as in sum(x[{cut(name)}], {cut(name)}), everything else behind `declare`, an integer as "
            f"`int {cut(name)}`"
        )

    def _entry(self, part: Tree, scope: Scope) -> Any:
        read, *positions = part.parts
        if read.kind == "name" and read.text in self.names.tensors:
            tensor: Any = self.names.tensors[read.text]
        elif read.kind == "call":
            tensor = self.value(read, scope)
        else:
            raise part.error(f"{read.shown} is no declared tensor; {known(self.names.tensors)}")
        if not isinstance(tensor, TensorExpr):
            raise part.error("only a tensor has entries")
        index = tuple(self.number(position, scope) for position in positions)
        return tensor[index]

    def _tuple(self, part: Tree, scope: Scope) -> Any:
        raise part.error("several values in parentheses stand in ranges and in cases of Piecewise only")

    def _signed(self, part: Tree, scope: Scope) -> Any:
        value = self.number(part.parts[0], scope)
        return -value if part.text == "-" else value

    def _sum(self, part: Tree, scope: Scope) -> Any:
        terms = [self.number(operand, scope) for operand in part.parts]
        signs = ("+", *part.tokens)
        return self.joined(Add, [term if sign == "+" else -term for sign, term in zip(signs, terms, strict=True)])

    def _product(self, part: Tree, scope: Scope) -> Any:
        factors = [self.number(operand, scope) for operand in part.parts]
        for sign, factor, operand in zip(part.tokens, factors[1:], part.parts[1:], strict=True):
            if sign != "*" and factor.is_zero:
                raise operand.error("this divides by 0")
        above = factors[:1]  # what the next operator, read from the left, is about
        for sign, factor in zip(part.tokens, factors[1:], strict=True):
            if sign == "%":
                above = [sympy.Mod(self.joined(Mul, above), factor)]
            elif sign == "//":
                above = [sympy.floor(self.joined(Mul, [*above, 1 / factor]))]
            else:
                above.append(factor if sign == "*" else 1 / factor)
        return self.joined(Mul, above)

    def joined(self, function: Any, operands: list[Any]) -> Any:
        """A sum or a product whose numbers do not get too long."""
        return self.numbers.check_length(self.numbers.joined(lambda parts: function(*parts), operands))

    def _power(self, part: Tree, scope: Scope) -> Any:
        base, exponent = (self.number(operand, scope) for operand in part.parts)
        self.numbers.check_power(base, exponent)
        return base**exponent

    def _comparison(self, part: Tree, scope: Scope) -> Any:
        values = [self.number(operand, scope) for operand in part.parts]
        pairs = zip(part.tokens, values[:-1], values[1:], strict=True)
        return sympy.And(*(sympy.Rel(left, right, str(sign)) for sign, left, right in pairs))

    def _both(self, part: Tree, scope: Scope) -> Any:
        return sympy.And(*(self.condition(operand, scope) for operand in part.parts))

    def _either(self, part: Tree, scope: Scope) -> Any:
        return sympy.Or(*(self.condition(operand, scope) for operand in part.parts))

    def _inverse(self, part: Tree, scope: Scope) -> Any:
        return sympy.Not(self.condition(part.parts[0], scope))

    # ------------------------------------------------------------------------ calls

    def _call(self, part: Tree, scope: Scope) -> Any:
        name = part.text
        if name in REDUCTIONS or name == "TensorComprehension":
            return self.bound(part, scope)
        if name in STRUCTURES:
            return self.choice(part, scope)
        called = FUNCTIONS.get(name) or CONNECTIVES.get(name)
        if called is None:
            if name in self.names.tensors:
                raise part.error(f"{cut(name)} is a tensor; its indices stand in brackets, as in {cut(name)}[i]")
            if name in OF_MATRICES:
                raise part.error(
                    f"{name} is a function of whole matrices, and not of index notation: write a matrix formula, "
                    f"without =, as in `declare X[n, n] {name}(X) derivative wrt X`"
                )
            names = [*FUNCTIONS, *REDUCTIONS, *STRUCTURES]
            listed = ", ".join(one for one in names if one.islower() or one.lower() not in names)
            raise part.error(f"{cut(name)} is not a function; the functions are {listed}")
        one = self.number if name in FUNCTIONS else self.condition
        values = [one(operand, scope) for operand in part.parts]
        if not called.least <= len(values) <= (called.most or len(values)):
            count = f"{called.least} to {called.most}" if called.most > called.least else f"{called.least}"
            raise part.error(f"{name} takes {count} arguments, and {len(values)} are given")
        if name == "exp":
            self.numbers.check_exponential(values[0])
        if name in ("mod", "Mod") and values[1].is_zero:
            raise part.parts[1].error("this divides by 0")
        return called.function(*values)

    def choice(self, part: Tree, scope: Scope) -> Any:
        """``where(condition, a, b)``, or ``Piecewise((a, condition), …)``."""
        if part.text == "where":
            if len(part.parts) != 3:
                raise part.error("where takes a condition and two values, as in where(i < j, a, b)")
            condition, *values = part.parts
            cases = [(values[0], self.condition(condition, scope)), (values[1], S.true)]
        else:
            cases = []
            for case in part.parts:
                if case.kind != "tuple" or len(case.parts) != 2:
                    raise case.error("Piecewise takes pairs of a value and a condition, as in (x[i], i < j)")
                cases.append((case.parts[0], self.condition(case.parts[1], scope)))
        found = [(self.number(value, scope), condition) for value, condition in cases]
        try:
            return sympy.Piecewise(*found)
        except RecursionError:  # SymPy turns some conditions round for ever
            return choice(found)

    def bound(self, part: Tree, scope: Scope) -> Any:
        """A reduction, or a tensor given entry by entry: a body, then its ranges."""
        body, *limits = part.parts
        is_tensor = part.text == "TensorComprehension"
        if not limits:
            raise part.error(f"{part.text} takes a body and one range or more, as in {part.text}(x[k], k)")
        inner = dict(scope)
        ranges = []
        for limit in limits if is_tensor else reversed(limits):  # outermost first
            index, *given = limit.parts if limit.kind == "tuple" else (limit,)
            if index.kind != "name" or len(given) not in ((0, 1) if is_tensor else (0, 2)):
                form = "(i, extent)" if is_tensor else "(k, first, last)"
                raise limit.error(f"a range is {form}, or a name alone")
            self.names.check_index(index)
            ends = [self.number(end, scope if is_tensor else inner) for end in given]
            inner[index.text] = indices(index.text)
            ranges.append((index, ends))
        value = self.number(body, inner)
        for index, ends in ranges:
            if not ends:  # given by its name alone
                extent = self.names.range_of(index, body)
                ends += [extent] if is_tensor else [Integer(0), extent - 1]
        found = [(inner[index.text], *ends) for index, ends in ranges]
        return TensorComprehension(value, *found) if is_tensor else REDUCTIONS[part.text](value, *found[::-1])


class Names:
    """The names of one input.

    Attributes
    ----------
    tensors : dict
        The declared tensors, in the order of their declarations, without the one that is defined.
    sizes : dict
        The symbols in the shapes, and the declared integers.
    declared_shape : tuple of Expr or None
        The shape of the tensor that is defined, where it is declared too.
    """

    def __init__(self, declarations: list[Tree], defined: Tree) -> None:
        self.tensors: dict[str, TensorSymbol] = {}
        self.declared_shape: tuple[Any, ...] | None = None
        self.declarations = declarations
        self.defined = defined.text
        check_declared(declarations)
        check_word(defined)
        self.sizes = {node.text: indices(node.text) for node in declarations if is_integer(node) and not has_axes(node)}
        names = {node.text for node in declarations}
        for node in declarations:
            self._collect(names, node)

    def declare(self, extent: Callable[[Tree], Any]) -> None:
        """Make the tensors, with the extents of their axes."""
        for node in self.declarations:
            axes = tuple(map(extent, node.parts))
            if node.text == self.defined:
                self.declared_shape = axes
            elif node.text not in self.sizes:
                self.tensors[node.text] = _tensor(node, axes)

    def argument(self, node: Tree) -> TensorSymbol:
        """The tensor that is differentiated by."""
        tensor, name = self.tensors.get(node.text), cut(node.text)
        if tensor is None and node.text == self.defined:
            raise node.error(f"{name} is what is defined; {known(self.tensors)}")
        if tensor is None:
            raise node.error(f"wrt takes a declared tensor, and {name} is none; {known(self.tensors)}")
        if tensor.dtype is int:
            raise node.error(f"nothing is differentiated by {name}, a tensor of integers")
        return tensor

    def check_index(self, node: Tree) -> None:
        """Raise where an index has a name that stands for something else."""
        check_word(node)
        if node.text in self.tensors or node.text in self.sizes:
            what = "a tensor" if node.text in self.tensors else "a size"
            raise node.error(f"{cut(node.text)} is {what}, so no index has this name; take another")

    def range_of(self, index: Tree, body: Tree) -> Any:
        """The extent of all axes in ``body`` at which the name of ``index`` stands alone.

        Raises
        ------
        ParseError
            If there is no such axis, or if two have different extents.
        """
        name = cut(index.text)
        found: dict[Any, str] = {}
        for node in bottom_up(body):
            tensor = self.tensors.get(node.parts[0].text) if node.kind == "entry" else None
            if tensor is None or node.parts[0].kind != "name":
                continue
            for axis, (at, extent) in enumerate(zip(node.parts[1:], tensor.shape, strict=False)):
                if at.kind == "name" and at.text == index.text:
                    found.setdefault(extent, f"{tensor.name} (axis {axis})")
        if len(found) == 1:
            return next(iter(found))
        what = " and ".join(f"{name} runs to {extent} along {where}" for extent, where in [*found.items()][:2])
        raise index.error(
            f"{what or f'no axis tells how far {name} runs'}; write its range, as in ({name}, 0, n - 1) in a sum, or "
            "declare the shape of the result"
        )

    def _collect(self, names: set[str], declaration: Tree) -> None:
        """The sizes in a shape."""
        for node in bottom_up(declaration):
            if node.kind == "name" and node.text not in self.sizes:
                if node.text in names:
                    raise node.error(f"{cut(node.text)} is a tensor and stands in a shape; a size is a name of its own")
                check_word(node)
                self.sizes[node.text] = indices(node.text)


def has_axes(declaration: Tree) -> bool:
    """Whether a declaration, or the left side of the definition, has brackets."""
    return len(declaration.tokens) > 1 + is_integer(declaration)


def is_integer(declaration: Tree) -> bool:
    """Whether what is declared holds integers."""
    return declaration.tokens[0].type == "INT"


def _tensor(node: Tree, axes: tuple[Any, ...]) -> TensorSymbol:
    with about(node):
        tensor: TensorSymbol = TensorSymbol(node.text, axes, dtype=int if is_integer(node) else float)
        return tensor
