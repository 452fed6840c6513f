"""Expressions and declared names from trees of index notation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import sympy
from sympy import Add, Expr, Integer, Mul, S
from sympy.logic.boolalg import Boolean

from sympy_tensordiff.functions.table import CONNECTIVES, RELATIONS, readable_functions
from sympy_tensordiff.parsing.axes import MATRIX_FUNCTIONS
from sympy_tensordiff.parsing.frontend import (
    Tree,
    bottom_up,
    check_declarations,
    check_not_keyword,
    names_hint,
    short,
)
from sympy_tensordiff.parsing.numbers import NumberChecks, comparable, errors_at, read_number
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorExpr, TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors.elementwise import choice


class DeclaredNames:
    """The names that one text declares: tensors, sizes and integers.

    `tensors` has the declared tensors in order, without the one that is defined; `declared_shape` is the shape of that
    one if it is declared, too, else None. `sizes` has the symbols in the shapes, and the declared integers.
    """

    def __init__(self, declarations: list[Tree], defined: Tree) -> None:
        self.tensors: dict[str, TensorSymbol] = {}
        self.declared_shape: tuple[Any, ...] | None = None
        self.declarations = declarations
        self.defined = defined.text
        check_declarations(declarations)
        check_not_keyword(defined)
        self.sizes = {node.text: indices(node.text) for node in declarations if is_integer(node) and not has_axes(node)}
        names = {node.text for node in declarations}
        for node in declarations:
            self._collect_sizes(names, node)

    def declare(self, extent: Callable[[Tree], Any]) -> None:
        """Create the declared tensors; ``extent`` converts the node of an extent to its value."""
        for node in self.declarations:
            axes = tuple(map(extent, node.children))
            if node.text == self.defined:
                self.declared_shape = axes
            elif node.text not in self.sizes:
                self.tensors[node.text] = _tensor(node, axes)

    def argument(self, node: Tree) -> TensorSymbol:
        """Return the tensor named by the derivative clause ``node`` (``d/dx``); raise `ParseError` if it is not a
        declared real tensor.
        """
        tensor, name = self.tensors.get(node.text), short(node.text)
        if tensor is None and node.text == self.defined:
            raise node.error(f"{name} is what is defined; {names_hint(self.tensors)}")
        if tensor is None:
            raise node.error(f"wrt takes a declared tensor, and {name} is not one; {names_hint(self.tensors)}")
        if tensor.dtype is int:
            raise node.error(f"{name} is a tensor of integers, which has no derivative")
        return tensor

    def check_index(self, node: Tree) -> None:
        """Raise `ParseError` if the index ``node`` has the name of a tensor, a size or a keyword."""
        check_not_keyword(node)
        if node.text in self.tensors or node.text in self.sizes:
            what = "a tensor" if node.text in self.tensors else "a size"
            raise node.error(f"{short(node.text)} is {what}, so no index has this name; take another")

    def extent_of(self, index: Tree, body: Tree) -> Any:
        """Return the extent of the tensor axes along which ``index`` alone runs in ``body``: of ``x`` for ``i`` if the
        body contains ``x[i]``. Entries such as ``x[i + 1]`` do not count.

        Raise `ParseError` if there is no such axis, or if two have different extents.
        """
        name = short(index.text)
        found: dict[Any, str] = {}
        for node in bottom_up(body):
            tensor = self.tensors.get(node.children[0].text) if node.kind == "entry" else None
            if tensor is None or node.children[0].kind != "name":
                continue
            for axis, (at, extent) in enumerate(zip(node.children[1:], tensor.shape, strict=False)):
                if at.kind == "name" and at.text == index.text:
                    found.setdefault(extent, f"{tensor.name} (axis {axis})")
        if len(found) == 1:
            return next(iter(found))
        what = " and ".join(f"{name} runs to {extent} along {where}" for extent, where in [*found.items()][:2])
        raise index.error(
            f"{what or f'no axis tells how far {name} runs'}; write its range, as in ({name}, 0, n - 1) in a sum, or "
            "declare the shape of the result"
        )

    def _collect_sizes(self, names: set[str], declaration: Tree) -> None:
        """Record each name in the shape of the tensor ``declaration`` as a size, in ``sizes``. Raise `ParseError` if it
        is a keyword, or one of ``names``, those of the tensors.
        """
        for node in bottom_up(declaration):
            if node.kind == "name" and node.text not in self.sizes:
                if node.text in names:
                    raise node.error(
                        f"{short(node.text)} is a tensor, but is used in a shape; use another name for the size"
                    )
                check_not_keyword(node)
                self.sizes[node.text] = indices(node.text)


def has_axes(declaration: Tree) -> bool:
    """Return whether a declared name, or the left side of the definition, has brackets: True for ``x[n]``, False for
    ``x``.
    """
    return len(declaration.tokens) > 1 + is_integer(declaration)


def is_integer(declaration: Tree) -> bool:
    """Return whether a declaration begins with ``int``."""
    return declaration.tokens[0].type == "INT"


def _tensor(node: Tree, axes: tuple[Any, ...]) -> TensorSymbol:
    """Return the tensor symbol that the tree ``node`` declares, with the extents ``axes``."""
    with errors_at(node):
        tensor: TensorSymbol = TensorSymbol(node.text, axes, dtype=int if is_integer(node) else float)
        return tensor


def _piecewise(cases: list[tuple[Any, Any]]) -> Any:
    """Return the `Piecewise` of the pairs ``(value, condition)`` in ``cases``."""
    try:
        return sympy.Piecewise(*cases)
    except RecursionError:  # SymPy turns some conditions round for ever
        return choice(cases)


BoundIndices = Mapping[str, Any]
"""The indices bound around a node: from names to SymPy symbols."""


class FunctionSpec(NamedTuple):
    """A function of numbers in index notation, and the numbers of arguments that it takes: at least ``least``, at most
    ``most`` (0: no limit).
    """

    function: Callable[..., Any]
    least: int = 1
    most: int = 1


FUNCTIONS: MappingProxyType[str, FunctionSpec] = MappingProxyType(
    {
        **{name: FunctionSpec(record.function, *record.operands) for name, record in readable_functions().items()},
        **{name: FunctionSpec(sympy.Mod, 2, 2) for name in ("mod", "Mod")},
        **{name: FunctionSpec(sympy.KroneckerDelta, 2, 2) for name in ("delta", "KroneckerDelta")},
        **{name: FunctionSpec(getattr(sympy, name), 2, 2) for name in ("jn", "Eq", "Ne")},
    }
)

FUNCTIONS_OF_CONDITIONS: MappingProxyType[str, FunctionSpec] = MappingProxyType(
    {
        **{name: FunctionSpec(getattr(sympy, name), 2, 2) for name in ("Implies", "Equivalent")},
        **{name: FunctionSpec(getattr(sympy, name), 1, 0) for name in ("And", "Or", "Xor")},
        **{"ITE": FunctionSpec(sympy.ITE, 3, 3), "Not": FunctionSpec(sympy.Not)},
    }
)
"""Functions of conditions whose result is a condition."""

INDICATORS: MappingProxyType[str, FunctionSpec] = MappingProxyType(
    {
        **{name: FunctionSpec(relation, 2, 2) for name, relation in RELATIONS.items()},
        **{name: FunctionSpec(CONNECTIVES[name], 2, 2) for name in ("logical_and", "logical_or")},
        "logical_not": FunctionSpec(CONNECTIVES["logical_not"]),
    }
)
"""Comparisons of two numbers and operations on conditions: as a number, such a call is 1 if it is true, else 0."""

REDUCTIONS: MappingProxyType[str, Any] = MappingProxyType(
    {
        **{name: IndexedSum for name in ("sum", "Sum", "IndexedSum")},
        **{name: IndexedProduct for name in ("prod", "Product", "IndexedProduct")},
        **{"IndexedMax": IndexedMax, "IndexedMin": IndexedMin},
    }
)
"""Reductions: a body, then one or more limits ``(k, first, last)``, or ``k`` alone."""

STRUCTURES = ("TensorComprehension", "Piecewise", "where")
"""Functions with other arguments than numbers."""

CONSTANTS: MappingProxyType[str, Any] = MappingProxyType(
    {"pi": sympy.pi, "E": sympy.E, "True": sympy.true, "False": sympy.false}
)
"""Constants by name, for names that are not declared."""


class IndexedBuilder:
    """Builds the expression of a syntax tree in index notation. In its methods, ``bound_indices`` maps the names of the
    indices that are bound around a subexpression to their symbols.
    """

    def __init__(self, root: Tree) -> None:
        *declarations, self.left = root.of_kind("declaration")
        self.numbers = NumberChecks()
        self.names = DeclaredNames(declarations, self.left)
        self.names.declare(lambda part: self.number_of(part, {}))

    def definition(self, right: Tree) -> Any:
        """Return the tensor or scalar that a definition such as ``s[i] = sum(A[i, j]*x[j], j)`` defines; `right` is the
        tree of its right side.
        """
        left, names = self.left, self.names
        axes, shape = left.children, names.declared_shape
        if shape is not None and len(shape) != len(axes):
            raise left.error(f"{short(left.text)} is declared with {len(shape)} axes and defined with {len(axes)}")
        bound_indices: dict[str, Any] = {}
        for axis in axes:
            if axis.kind != "name" or axis.text in bound_indices:
                raise axis.error("the left side has indices with different names, as in f[i, j] = …")
            names.check_index(axis)
            bound_indices[axis.text] = indices(axis.text)
        body = self.value_of(right, bound_indices)
        if not axes and isinstance(body, TensorExpr):
            return body
        body = self.check_number(body, right)
        if not axes:
            return body
        extents = shape if shape is not None else [names.extent_of(axis, right) for axis in axes]
        with errors_at(right):
            return TensorComprehension(body, *zip(bound_indices.values(), extents, strict=True))

    # ------------------------------------------------------------------------ parts

    def number_of(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the expression of ``part``, which must be a scalar; raise `ParseError` for a tensor or condition."""
        return self.check_number(self.value_of(part, bound_indices), part)

    def check_number(self, value: Any, part: Tree) -> Any:
        """Return ``value``; raise `ParseError` at ``part`` for a condition, or a tensor with axes."""
        if not isinstance(value, Expr):
            raise part.error("a number is expected here, not a condition; write where(condition, a, b)")
        if isinstance(value, TensorExpr) and value.shape:
            raise part.error(f"a number is expected here, not a tensor with {value.rank} axes: read an entry")
        return value

    def condition_of(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the condition ``part``; raise `ParseError` if it is not a condition."""
        if part.kind == "call" and part.text in INDICATORS:
            with errors_at(part):
                return self.indicated_condition(part, bound_indices)
        value = self.value_of(part, bound_indices)
        if isinstance(value, Expr) or not isinstance(value, Boolean):
            raise part.error("a condition is expected here, such as i < j")
        return value

    def indicated_condition(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the condition of ``part``, a call of one of `INDICATORS` such as ``less(i, j)``; raise `ParseError`
        for a wrong number of arguments.
        """
        if part.text in RELATIONS:
            values = [comparable(self.number_of(operand, bound_indices)) for operand in part.children]
        else:
            values = [self.condition_of(operand, bound_indices) for operand in part.children]
        return self.call_checked(INDICATORS[part.text], part, values)

    def value_of(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the expression of ``part``; raise `ParseError` if a number in it is invalid or too long."""
        build: Callable[[Tree, BoundIndices], Any] = getattr(self, f"_build_{part.kind}")
        with errors_at(part):
            value = build(part, bound_indices)
            return self.numbers.check_real(value) if isinstance(value, Expr) else value

    def _build_number(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the exact value of the number ``part``."""
        return read_number(part)

    def _build_name(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the expression of the name ``part``: a bound index, a size, a tensor without axes or a constant."""
        name = part.text
        for named in (bound_indices, self.names.sizes, self.names.tensors, CONSTANTS):
            if name in named:
                found = named[name]
                if isinstance(found, TensorExpr) and found.shape:
                    marks = ", ".join("ijklmnopqrstuvwxyz"[: found.rank])
                    raise part.error(f"{short(name)} has {found.rank} axes: read an entry, {short(name)}[{marks}]")
                return found
        raise part.error(
            f"{short(name)} is neither declared nor an index here; an index is written on the left side or behind the "
            f"body of a sum, as in sum(x[{short(name)}], {short(name)}), everything else behind `declare`, an "
            f"integer as `int {short(name)}`"
        )

    def _build_entry(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the expression of ``part``, an entry such as ``A[i, j]`` of a declared tensor or of a comprehension.
        Raise `ParseError` if ``part`` indexes anything else.
        """
        read, *positions = part.children
        if read.kind == "name" and read.text in self.names.tensors:
            tensor: Any = self.names.tensors[read.text]
        elif read.kind == "call":
            tensor = self.value_of(read, bound_indices)
        else:
            raise part.error(f"{read.shown} is not a declared tensor; {names_hint(self.names.tensors)}")
        if not isinstance(tensor, TensorExpr):
            raise part.error("only a tensor has entries")
        index = tuple(self.number_of(position, bound_indices) for position in positions)
        return tensor[index]

    def _build_tuple(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Raise `ParseError` at ``part``, because a tuple is not a value."""
        raise part.error("several values in parentheses occur only in ranges and in cases of Piecewise")

    def _build_signed(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the expression of ``part``, an operand with a plus or minus sign."""
        value = self.number_of(part.children[0], bound_indices)
        return -value if part.text == "-" else value

    def _build_sum(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the expression of ``part``, a sum or difference."""
        terms = [self.number_of(operand, bound_indices) for operand in part.children]
        signs = ("+", *part.tokens)
        return self.join_checked(Add, [term if sign == "+" else -term for sign, term in zip(signs, terms, strict=True)])

    def _build_product(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the expression of ``part``, a chain of products, quotients, floor quotients and remainders, from left
        to right.
        """
        factors = [self.number_of(operand, bound_indices) for operand in part.children]
        for sign, factor, operand in zip(part.tokens, factors[1:], part.children[1:], strict=True):
            if sign != "*" and factor.is_zero:
                raise operand.error("this divides by 0")
        above = factors[:1]  # what the next operator, read from the left, is about
        for sign, factor in zip(part.tokens, factors[1:], strict=True):
            if sign == "%":
                above = [sympy.Mod(self.join_checked(Mul, above), factor)]
            elif sign == "//":
                above = [sympy.floor(self.join_checked(Mul, [*above, 1 / factor]))]
            else:
                above.append(factor if sign == "*" else 1 / factor)
        return self.join_checked(Mul, above)

    def join_checked(self, function: Any, operands: list[Any]) -> Any:
        """Return ``function(*operands)``, a sum or a product, after checking that its numbers do not get too long."""
        return self.numbers.check_length(self.numbers.join_checked(lambda parts: function(*parts), operands))

    def _build_power(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the expression of the power ``part``, a tree of base and exponent, after checking that its numbers do
        not get too long.
        """
        base, exponent = (self.number_of(operand, bound_indices) for operand in part.children)
        self.numbers.check_power(base, exponent)
        return base**exponent

    def _build_comparison(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the chain of comparisons ``part``, such as ``0 <= i < n``, as one condition."""
        values = [self.number_of(operand, bound_indices) for operand in part.children]
        pairs = zip(part.tokens, values[:-1], values[1:], strict=True)
        return sympy.And(*(sympy.Rel(left, right, str(sign)) for sign, left, right in pairs))

    def _build_both(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the conjunction of the conditions in ``part`` that "and" joins."""
        return sympy.And(*(self.condition_of(operand, bound_indices) for operand in part.children))

    def _build_either(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the disjunction of the conditions in ``part`` that "or" joins."""
        return sympy.Or(*(self.condition_of(operand, bound_indices) for operand in part.children))

    def _build_inverse(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the negation of a condition; ``part`` is the syntax tree of ``not condition``."""
        return sympy.Not(self.condition_of(part.children[0], bound_indices))

    # ------------------------------------------------------------------------ calls

    def _build_call(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the expression of the call ``part``: a sum or other reduction, a comprehension, a choice (``where``),
        or a function of numbers or conditions.
        """
        name = part.text
        if name in REDUCTIONS or name == "TensorComprehension":
            return self.build_binder(part, bound_indices)
        if name in STRUCTURES:
            return self.build_choice(part, bound_indices)
        if name in INDICATORS:
            return _piecewise([(S.One, self.condition_of(part, bound_indices)), (S.Zero, S.true)])
        spec = FUNCTIONS.get(name) or FUNCTIONS_OF_CONDITIONS.get(name)
        if spec is None:
            if name in self.names.tensors:
                raise part.error(f"{short(name)} is a tensor; its indices are in brackets, as in {short(name)}[i]")
            if name in MATRIX_FUNCTIONS:
                raise part.error(
                    f"{name} is a function of whole matrices, and not of index notation: write a matrix formula, "
                    f"without =, as in `declare X[n, n] {name}(X) derivative wrt X`"
                )
            names = [*FUNCTIONS, *INDICATORS, *REDUCTIONS, *STRUCTURES]
            listed = ", ".join(one for one in names if one.islower() or one.lower() not in names)
            raise part.error(f"{short(name)} is not a function; the functions are {listed}")
        one = self.number_of if name in FUNCTIONS else self.condition_of
        return self.call_checked(spec, part, [one(operand, bound_indices) for operand in part.children])

    def call_checked(self, spec: FunctionSpec, part: Tree, values: list[Any]) -> Any:
        """Return the function ``spec`` of ``values``, the arguments of the call ``part``; raise `ParseError` if their
        number is wrong, or the last one of a remainder is 0.
        """
        name = part.text
        if not spec.least <= len(values) <= (spec.most or len(values)):
            count = f"{spec.least} to {spec.most}" if spec.most > spec.least else f"{spec.least}"
            raise part.error(f"{name} takes {count} arguments, and {len(values)} are given")
        self.numbers.check_call(name, values)
        if name in ("mod", "Mod") and values[1].is_zero:
            raise part.children[1].error("this divides by 0")
        return spec.function(*values)

    def build_choice(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the `Piecewise` of ``part``, a call ``where(condition, a, b)`` or ``Piecewise((a, condition), …)``."""
        if part.text == "where":
            if len(part.children) != 3:
                raise part.error("where takes a condition and two values, as in where(i < j, a, b)")
            condition, *values = part.children
            cases = [(values[0], self.condition_of(condition, bound_indices)), (values[1], S.true)]
        else:
            cases = []
            for case in part.children:
                if case.kind != "tuple" or len(case.children) != 2:
                    raise case.error("Piecewise takes pairs of a value and a condition, as in (x[i], i < j)")
                cases.append((case.children[0], self.condition_of(case.children[1], bound_indices)))
        return _piecewise([(self.number_of(value, bound_indices), condition) for value, condition in cases])

    def build_binder(self, part: Tree, bound_indices: BoundIndices) -> Any:
        """Return the expression of ``part``, a reduction or comprehension such as ``sum(x[i], i)``: its body over the
        indices and ranges that it binds.
        """
        body, *limits = part.children
        is_tensor = part.text == "TensorComprehension"
        if not limits:
            raise part.error(f"{part.text} takes a body and one range or more, as in {part.text}(x[k], k)")
        inner = dict(bound_indices)
        ranges = []
        for limit in limits if is_tensor else reversed(limits):  # outermost first
            index, *given = limit.children if limit.kind == "tuple" else (limit,)
            if index.kind != "name" or len(given) not in ((0, 1) if is_tensor else (0, 2)):
                form = "(i, extent)" if is_tensor else "(k, first, last)"
                raise limit.error(f"a range is {form}, or a name alone")
            self.names.check_index(index)
            ends = [self.number_of(end, bound_indices if is_tensor else inner) for end in given]
            inner[index.text] = indices(index.text)
            ranges.append((index, ends))
        value = self.number_of(body, inner)
        for index, ends in ranges:
            if not ends:  # given by its name alone
                extent = self.names.extent_of(index, body)
                ends += [extent] if is_tensor else [Integer(0), extent - 1]
        found = [(inner[index.text], *ends) for index, ends in ranges]
        return TensorComprehension(value, *found) if is_tensor else REDUCTIONS[part.text](value, *found[::-1])
