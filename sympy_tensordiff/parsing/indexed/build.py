"""The tree of an input as an expression of the package's classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy import Add, Expr, Integer, Mul, Rational, S
from sympy.logic.boolalg import Boolean

from sympy_tensordiff.errors import ParseError, TensorDiffError
from sympy_tensordiff.parsing.constants import LONGEST
from sympy_tensordiff.parsing.indexed.functions import CONNECTIVES, CONSTANTS, FUNCTIONS, REDUCTIONS, STRUCTURES
from sympy_tensordiff.parsing.indexed.names import Names
from sympy_tensordiff.parsing.indexed.ranges import extent_of
from sympy_tensordiff.parsing.indexed.syntax import Item, Part
from sympy_tensordiff.parsing.numbers import Numbers, TooLongError
from sympy_tensordiff.parsing.tree import cut
from sympy_tensordiff.symbolic.indices import indices
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorExpr

Scope = Mapping[str, Any]
LARGEST = 308
"""The largest exponent of ten in a number."""

_NO_NUMBERS = (S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity, S.ImaginaryUnit)

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": sympy.StrictLessThan,
    "<=": sympy.LessThan,
    ">": sympy.StrictGreaterThan,
    ">=": sympy.GreaterThan,
    "==": sympy.Eq,
    "!=": sympy.Ne,
}


class Builder:
    """Expressions out of parts; ``scope`` holds the indices that are bound around a part."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.numbers = Numbers()
        self.names: Names | None = None

    def extent(self, names: Names, part: Part) -> Any:
        """An extent in a shape."""
        self.names = names
        return self.number(part, {})

    def definition(self, left: Item, right: Part) -> Any:
        """The tensor, or the scalar, that the left side names and the right side defines."""
        assert self.names is not None
        axes = left.axes or ()
        shape = self.names.declared_shape
        if shape is not None and len(shape) != len(axes):
            self.fail(f"{cut(left.name)} is declared with {len(shape)} axes and defined with {len(axes)}", left.place)
        scope: dict[str, Any] = {}
        for axis in axes:
            if axis.kind != "name" or axis.text in scope:
                self.fail("the left side holds indices, each a name of its own, as in f[i, j] = …", axis.place)
            self.names.check_index(axis.text, axis.place)
            scope[axis.text] = indices(axis.text)
        body = self.value(right, scope)
        if not axes and isinstance(body, TensorExpr):
            return body
        body = self.as_number(body, right)
        if not axes:
            return body
        extents = shape if shape is not None else [self.range_of(axis, right) for axis in axes]
        return self.checked(lambda: TensorComprehension(body, *zip(scope.values(), extents, strict=True)), right.place)

    # ------------------------------------------------------------------------ parts

    def number(self, part: Part, scope: Scope) -> Any:
        """The value of a part that has to be a number."""
        return self.as_number(self.value(part, scope), part)

    def as_number(self, value: Any, part: Part) -> Any:
        """The value of a part, which is a number."""
        if not isinstance(value, Expr):
            self.fail("a number is expected here, not a condition; write where(condition, a, b)", part.place)
        if isinstance(value, TensorExpr) and value.shape:
            self.fail(f"a number is expected here, not a tensor with {value.rank} axes: read an entry", part.place)
        return value

    def condition(self, part: Part, scope: Scope) -> Any:
        """A part that has to be a condition."""
        value = self.value(part, scope)
        if isinstance(value, Expr) or not isinstance(value, Boolean):
            self.fail("a condition is expected here, such as i < j", part.place)
        return value

    def value(self, part: Part, scope: Scope) -> Any:
        """The expression of a part."""
        build: Callable[[Part, Scope], Any] = getattr(self, f"_{part.kind}")
        value = self.checked(lambda: build(part, scope), part.place)
        if isinstance(value, Expr) and value.has(
            S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity, S.ImaginaryUnit
        ):
            self.fail("the value is not finite, or not real", part.place)
        return value

    def checked(self, build: Callable[[], Any], place: int) -> Any:
        """What ``build`` makes; errors of the package point at the place."""
        try:
            return build()
        except ParseError:
            raise
        except TooLongError as error:
            self.fail(f"the expression {error}", place)
        except TensorDiffError as error:
            self.fail(str(error), place)

    def fail(self, message: str, place: int) -> Any:
        """Raise the error about a place."""
        raise ParseError(message, self.source, place) from None

    def _number(self, part: Part, scope: Scope) -> Any:
        mantissa, _, exponent = part.text.lower().partition("e")
        if len(mantissa) > LONGEST or abs(int(exponent[:9] or 0)) > LARGEST:
            self.fail(f"the number {cut(part.text)} is longer than {LONGEST:,} digits, or no double", part.place)
        return Rational(part.text)

    def _name(self, part: Part, scope: Scope) -> Any:
        assert self.names is not None
        name = part.text
        for known in (scope, self.names.sizes, self.names.tensors, CONSTANTS):
            if name in known:
                found = known[name]
                if isinstance(found, TensorExpr) and found.shape:
                    marks = ", ".join("ijklmnopqrstuvwxyz"[: found.rank])
                    self.fail(f"{cut(name)} has {found.rank} axes: read an entry, {cut(name)}[{marks}]", part.place)
                return found
        return self.fail(
            f"{cut(name)} is neither declared nor an index here; an index stands on the left side or behind the body "
            f"of a sum, as in sum(x[{cut(name)}], {cut(name)}), everything else behind `declare`, an integer as "
            f"`int {cut(name)}`",
            part.place,
        )

    def _entry(self, part: Part, scope: Scope) -> Any:
        assert self.names is not None
        read, *positions = part.parts
        if read.kind == "name" and read.text in self.names.tensors:
            tensor: Any = self.names.tensors[read.text]
        elif read.kind == "call":
            tensor = self.value(read, scope)
        else:
            return self.fail(f"{cut(read.text) or 'this'} is no declared tensor; {self.names.known()}", part.place)
        if not isinstance(tensor, TensorExpr):
            self.fail("only a tensor has entries", part.place)
        index = tuple(self.number(position, scope) for position in positions)
        return tensor[index]

    def _tuple(self, part: Part, scope: Scope) -> Any:
        return self.fail("several values in parentheses stand in ranges and in cases of Piecewise only", part.place)

    def _signed(self, part: Part, scope: Scope) -> Any:
        value = self.number(part.parts[0], scope)
        return -value if part.text == "-" else value

    def _sum(self, part: Part, scope: Scope) -> Any:
        terms = [self.number(operand, scope) for operand in part.parts]
        signs = ("+", *part.operators)
        return self.joined(Add, [term if sign == "+" else -term for sign, term in zip(signs, terms, strict=True)])

    def _product(self, part: Part, scope: Scope) -> Any:
        factors = [self.number(operand, scope) for operand in part.parts]
        for sign, factor, operand in zip(part.operators, factors[1:], part.parts[1:], strict=True):
            if sign != "*" and factor.is_zero:
                self.fail("this divides by 0", operand.place)
        above = factors[:1]  # what the next operator, read from the left, is about
        for sign, factor in zip(part.operators, factors[1:], strict=True):
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

    def _power(self, part: Part, scope: Scope) -> Any:
        base, exponent = (self.number(operand, scope) for operand in part.parts)
        self.numbers.check_power(base, exponent)
        return base**exponent

    def _comparison(self, part: Part, scope: Scope) -> Any:
        values = [self.number(operand, scope) for operand in part.parts]
        pairs = zip(part.operators, values[:-1], values[1:], strict=True)
        return sympy.And(*(_COMPARISONS[sign](left, right) for sign, left, right in pairs))

    def _both(self, part: Part, scope: Scope) -> Any:
        return sympy.And(*(self.condition(operand, scope) for operand in part.parts))

    def _either(self, part: Part, scope: Scope) -> Any:
        return sympy.Or(*(self.condition(operand, scope) for operand in part.parts))

    def _inverse(self, part: Part, scope: Scope) -> Any:
        return sympy.Not(self.condition(part.parts[0], scope))

    # ------------------------------------------------------------------------ calls

    def _call(self, part: Part, scope: Scope) -> Any:
        name = part.text
        if name in REDUCTIONS or name == "TensorComprehension":
            return self.bound(part, scope)
        if name in STRUCTURES:
            return self.choice(part, scope)
        called = FUNCTIONS.get(name) or CONNECTIVES.get(name)
        if called is None:
            if self.names is not None and name in self.names.tensors:
                self.fail(f"{cut(name)} is a tensor; its indices stand in brackets, as in {cut(name)}[i]", part.place)
            known = [*FUNCTIONS, *REDUCTIONS, *STRUCTURES]
            told = ", ".join(one for one in known if one.islower() or one.lower() not in known)
            return self.fail(f"{cut(name)} is no function; the functions are {told}", part.place)
        one = self.number if name in FUNCTIONS else self.condition
        values = [one(operand, scope) for operand in part.parts]
        if not called.least <= len(values) <= (called.most or len(values)):
            count = f"{called.least} to {called.most}" if called.most > called.least else f"{called.least}"
            self.fail(f"{name} takes {count} arguments, and {len(values)} are given", part.place)
        if name == "exp":
            self.numbers.check_exponential(values[0])
        if name in ("mod", "Mod") and values[1].is_zero:
            self.fail("this divides by 0", part.parts[1].place)
        return called.function(*values)

    def choice(self, part: Part, scope: Scope) -> Any:
        """``where(condition, a, b)``, or ``Piecewise((a, condition), …)``."""
        if part.text == "where":
            if len(part.parts) != 3:
                self.fail("where takes a condition and two values, as in where(i < j, a, b)", part.place)
            condition, *values = part.parts
            cases = [(values[0], self.condition(condition, scope)), (values[1], S.true)]
        else:
            cases = []
            for case in part.parts:
                if case.kind != "tuple" or len(case.parts) != 2:
                    self.fail("Piecewise takes pairs of a value and a condition, as in (x[i], i < j)", case.place)
                cases.append((case.parts[0], self.condition(case.parts[1], scope)))
        return sympy.Piecewise(*((self.number(value, scope), condition) for value, condition in cases))

    def bound(self, part: Part, scope: Scope) -> Any:
        """A reduction, or a tensor given entry by entry: a body, then its ranges."""
        assert self.names is not None
        body, *limits = part.parts
        is_tensor = part.text == "TensorComprehension"
        if not limits:
            self.fail(f"{part.text} takes a body and one range or more, as in {part.text}(x[k], k)", part.place)
        inner = dict(scope)
        ranges = []
        for limit in limits if is_tensor else reversed(limits):  # outermost first
            index, *given = limit.parts if limit.kind == "tuple" else (limit,)
            if index.kind != "name" or len(given) not in ((0, 1) if is_tensor else (0, 2)):
                form = "(i, extent)" if is_tensor else "(k, first, last)"
                self.fail(f"a range is {form}, or a name alone", limit.place)
            self.names.check_index(index.text, index.place)
            ends = [self.number(end, scope if is_tensor else inner) for end in given]
            inner[index.text] = indices(index.text)
            ranges.append((index, ends))
        value = self.number(body, inner)
        found = [(inner[index.text], *(ends or self.run(index, body, is_tensor))) for index, ends in ranges]
        return TensorComprehension(value, *found) if is_tensor else REDUCTIONS[part.text](value, *found[::-1])

    def run(self, index: Part, body: Part, is_tensor: bool) -> tuple[Any, ...]:
        """What stands for the range of an index that is given by its name alone."""
        extent = self.range_of(index, body)
        return (extent,) if is_tensor else (Integer(0), extent - 1)

    def range_of(self, index: Part, body: Part) -> Any:
        """The extent along which an index runs that is given by its name alone."""
        assert self.names is not None
        return extent_of(index, body, self.names.tensors, self.source)
