"""Prefix scans: reductions that continue from one entry of a row to the next.

``product[p] = x[0]*...*x[p - 1]`` is the product of the entry before times ``x[p - 1]``: one pass along
the row in place of a loop for each entry. Where the loop ends at the same value for all entries and
begins later and later, the pass goes down the row.

A sum of multiples of exponentials goes on as well where the exponents have terms of the entry alone:
``s[p] = Sum_{j <= p} exp(f[j] + g[p])*r[j]`` is ``exp(g[p] - g[p - 1])*s[p - 1]`` and one more term. Sums of
exponentials are computed so, ``g[p]`` being ``-max_{j <= p} f[j]``. A sum far from
underflow may also grow by a larger factor, since terms that underflowed are negligible then. If it is small, or not
finite, it starts again: nothing overflows that does not in a loop for each entry. Terms may be selected by data, if the
test is the same for all entries.

Where ``g[p]`` is a multiple of the index p, as in the decay ``exp(-r*(p - j))``, the factor is one number for the row.

The exponent may be ``c*(f[j] + g[p])``, and the terms may have a factor ``(f[j] + g[p])**n``: the sums with the powers
0, ..., n - 1 instead go on together with it, by the binomial theorem (moments of an exponential kernel).

A sum whose terms have one factor more at each entry goes on by that factor (Horner's rule): with
``s[p] = Sum_{j > p} b[j]*Prod_{p < k < j} a[k]``, ``s[p]`` is ``a[p + 1]*s[p + 1] + b[p + 1]``, and the sum of
``g**(j - p)*b[j]`` is ``g`` times the one of the entry before and one more term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement, is_accumulator, is_addition, is_let
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Bound, IndexValue, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import (
    added,
    declared,
    dependences,
    forms,
    live_statements,
    rewrite_scalar,
    scalar_names,
    scalars,
    statements,
    subexpressions,
)
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import data_entries

MAX_SUMMAND_OPERATIONS = 64
"""A summand of more operations and reads than this is not looked through for exponents.

Half and twice as much change no text of the benchmarks.
"""


ZERO, ONE = Number(0), Number(1)


MAX_DISTANCES = 3
"""A summand with a higher power of a distance ``p[i] - q[j]`` than this is summed in a loop for each entry."""


@dataclass(frozen=True)
class PrefixScan:
    """A sum (or other reduction) whose range grows along a row, as ``Sum_{j <= i} x[j]``: each entry continues from the
    value of the previous one (a prefix scan).

    ``downward``: the entry before is the next one of the row, and the loop begins where it has begun there. ``growth``:
    statements that multiply the sum of the entry before by the factor that all its terms have gained, if they have.
    ``shifts``: the terms of the exponents in the summand that depend on the entry, as pairs ``(c, p[i])`` for
    ``c*p[i]`` and entry i, with the same c for the whole row. ``moments``: if the summand has a factor ``(p[i] -
    q[j])**n``, the summands with the exponents 0, ..., n - 1 instead, whose sums continue together with the sum itself;
    ``places``: the terms of ``p[i]``, as those of ``shifts``.
    """

    accumulators: tuple[Set, ...]
    loop: Loop
    conditions: tuple[Constraint, ...]
    downward: bool
    shifts: tuple[tuple[Scalar, Scalar], ...] = ()
    growth: tuple[Statement, ...] = ()
    moments: tuple[Scalar, ...] = ()
    places: tuple[tuple[Scalar, Scalar], ...] = ()


def may_have_scans(kernel: Kernel) -> bool:
    """Return whether a loop of `kernel`, at top level or behind guards, has a bound that depends on the last axis.
    Without such a loop, `find_scans` finds nothing.
    """
    waiting = list(kernel.body)
    for part in waiting:
        if isinstance(part, If):
            waiting += part.body
        elif isinstance(part, Loop) and any(
            kernel.axes[-1] in bound.form.atoms() for bound in (*part.lows, *part.highs)
        ):
            return True
    return False


def find_scans(kernel: Kernel, outside: Mapping[str, bool]) -> tuple[list[PrefixScan], tuple[Statement, ...]]:
    """Return ``(scans, rest)``: the prefix scans of `kernel`, reductions that continue from entry to entry along its
    last axis, and its other statements. ``outside[name]`` says whether the scalar ``name``, set outside of loops, has
    one value for a whole row.
    """
    finder = _ScanFinder(kernel, outside)
    return finder.found, tuple(live_statements(finder.block(kernel.body, ()), set()))


class _ScanFinder:
    """Finds the loops of a kernel that are prefix scans: reductions that continue from entry to entry along its last
    axis.
    """

    def __init__(self, kernel: Kernel, outside: Mapping[str, bool]) -> None:
        self.axis = kernel.axes[-1]
        self.outside = outside
        self.found: list[PrefixScan] = []
        self.declared = declared(kernel.body)
        self.depends = dependences(kernel)
        # The loops, at any depth, that fill an accumulator on their own.
        self.additions = [s.name for s in statements(kernel.body) if is_addition(s)]

    def block(self, body: tuple[Statement, ...], conditions: tuple[Constraint, ...]) -> tuple[Statement, ...]:
        """Return `body` without the loops that are prefix scans and without their accumulators. The scans are added to
        `found`, with the `conditions` of the guards around them.
        """
        outer = {s.name: s for s in body if is_accumulator(s)}
        taken: set[Statement] = set()
        result: list[Statement] = []
        for statement in body:
            if isinstance(statement, Loop) and (scan := self.scan(statement, outer, conditions)):
                self.found.append(scan)
                taken |= {*scan.accumulators, statement}
            elif isinstance(statement, If):
                inner = self.block(statement.body, (*conditions, *statement.conditions))
                statement = replace(statement, body=inner)
            result.append(statement)
        return tuple(s for s in result if s not in taken)

    def scan(self, loop: Loop, outer: Mapping[str, Set], conditions: tuple[Constraint, ...]) -> PrefixScan | None:
        """Return `loop` as a prefix scan, if the range of this reduction grows along the row so that each entry can
        continue from the previous one; else None. `outer` are the accumulators declared around it, ``conditions`` its
        guards.
        """
        rising = [any(self.axis in bound.form.atoms() for bound in side) for side in (loop.lows, loop.highs)]
        if rising[0] == rising[1] or not all(self.is_rising(bound) for bound in (*loop.lows, *loop.highs)):
            return None
        if conditions and data_entries([bound.form for bound in (loop.highs if rising[0] else loop.lows)]):
            return None  # the first end is computed for all entries; its data may be read behind the conditions only
        filled = added(loop.body)
        alone = all(name in outer and self.is_filled_here(name, loop) for name in filled)
        if not filled or not alone:
            return None
        scan = PrefixScan(tuple(outer[name] for name in filled), loop, conditions, downward=rising[0])
        return self.rescaled(scan) or self.grown(scan) if self.varies(loop) else scan

    def is_rising(self, bound: Bound) -> bool:
        """Return whether the loop bound `bound` is linear in the kernel's axis i and does not decrease along it, as ``i
        + 1`` and ``n``, but not ``n - i``.
        """
        return self.axis not in bound.form.hidden() and bound.form.coefficient(self.axis) >= 0

    def is_filled_here(self, name: str, loop: Loop) -> bool:
        """Return whether no statement outside of `loop` adds to the accumulator `name`."""
        here = sum(is_addition(s) and s.name == name for s in statements(loop.body))
        return here == self.additions.count(name)

    def varies(self, loop: Loop) -> bool:
        """Return whether the terms of the sum in `loop` depend on the index of the last axis. If only the number of
        terms depends on it, return False.
        """
        if any(self.axis in form.atoms() for form in forms(loop.body)):
            return True
        used = {node.name for node in scalars(loop.body) if isinstance(node, Name)} - declared(loop.body).keys()
        return any(name in self.declared and not self.outside.get(name) for name in used)

    def rescaled(self, scan: PrefixScan) -> PrefixScan | None:
        """Return `scan`, if its terms are like ``exp(u[j] - m[i])`` at the entry i, with its ``shifts`` set: the parts
        of the exponent that depend on i, here ``m[i]``. None for other terms.

        The running sum is then multiplied by an exponential when the shift ``m[i]`` changes from entry to entry.
        """
        *lets, add = scan.loop.body
        if not is_addition(add) or add.reduction != "sum" or not all(map(is_let, lets)):
            return None
        value = self.written_out(add.value)
        if value is None:
            return None
        test, value = self.selected(value)
        factors = [base for factor in _parts(value, "mul") for base in _repeated(factor)]
        varying = [factor for factor in factors if self.depends_on_axis(factor)]
        exponentials = [one for one in varying if isinstance(one, Operation) and one.function == "exp"]
        distances = [factor for factor in varying if factor not in exponentials]
        if len(exponentials) != 1 or len(distances) > MAX_DISTANCES or len(set(distances)) > 1:
            return None
        (exponent,) = exponentials[0].arguments
        if (shifts := self.entry_part(exponent, scan.loop)) is None or (test is not None and distances):
            return None
        body = (replace(add, value=value if test is None else Operation("select", (test, value, ZERO))),)
        found = replace(scan, loop=replace(scan.loop, body=body), shifts=shifts or ((ONE, ZERO),))
        if not distances:
            return found
        if (places := self.entry_part(distances[0], scan.loop)) is None:
            return None
        rest = [factor for factor in factors if factor not in distances]
        moments = tuple([_product([*rest, *distances[:count]]) for count in range(len(distances))])
        return replace(found, moments=moments, places=places)

    def selected(self, value: Scalar) -> tuple[Scalar | None, Scalar]:
        """Return ``(test, v)`` for a select `value` that is v where ``test`` holds and 0 elsewhere, if ``test`` is the
        same for all entries of a row; ``(None, value)`` for other values. Inside of v, selects by the same test are
        replaced by their first branches.
        """
        if not isinstance(value, Operation) or value.function != "select" or value.arguments[2] != ZERO:
            return None, value
        test, chosen, _ = value.arguments
        if self.depends_on_axis(test):
            return None, value

        def decided(part: Scalar) -> Scalar:
            """Return the first branch of a choice by the enclosing function's ``test``; other values unchanged."""
            is_same = isinstance(part, Operation) and part.function == "select" and part.arguments[0] == test
            return part.arguments[1] if isinstance(part, Operation) and is_same else part

        return test, rewrite_scalar(chosen, decided)

    def entry_part(self, value: Scalar, loop: Loop) -> tuple[tuple[Scalar, Scalar], ...] | None:
        """Return the parts of `value` that depend on the entry i of a row, as pairs ``(c, p[i])`` for terms ``c*p[i]``
        with the same c for all entries. With j the variable of `loop`, ``c*(p[i] - q[j])`` gives one pair. () if
        `value` does not depend on i.

        None if `value` is not a sum of such terms and of terms that are the same for all entries.
        """
        if not self.depends_on_axis(value):
            return ()
        if (form := index_form(value)) is not None and not {self.axis, loop.variable} & form.hidden():
            return ((Number(form.coefficient(self.axis)), IndexValue(Affine.variable(self.axis))),)
        if loop.variable not in scalar_names(value, self.depends):
            return ((ONE, value),)
        if not isinstance(value, Operation) or value.function not in ("add", "mul", "neg"):
            return None
        if value.function == "add":
            parts = [self.entry_part(part, loop) for part in value.arguments]
            known = [part for part in parts if part is not None]
            return None if len(known) < len(parts) else tuple([pair for part in known for pair in part])
        factors = list(_parts(value, "mul")) if value.function == "mul" else [Number(-1), *value.arguments]
        both = {self.axis, loop.variable}
        varying = [factor for factor in factors if both & scalar_names(factor, self.depends)]
        if len(varying) != 1 or (inner := self.entry_part(varying[0], loop)) is None:
            return None
        rest = [factor for factor in factors if factor not in varying]
        return tuple([(_product([*rest, c]), part) for c, part in inner])

    def grown(self, scan: PrefixScan) -> PrefixScan | None:
        """Return `scan` with a growth factor recorded, if all terms change by the same factor from one entry to the
        next: by ``a`` for ``Sum_{j <= i} a**(i - j)*x[j]``. None if there is no such factor.
        """
        loop, add = scan.loop, scan.loop.body[-1]
        moving, others = (loop.lows, loop.highs) if scan.downward else (loop.highs, loop.lows)
        if not is_addition(add) or add.reduction != "sum" or any(bound.divisor > 1 for bound in others):
            return None
        if len(scan.accumulators) > 1:
            return None
        if len(moving) != 1 or moving[0].divisor > 1 or moving[0].form.coefficient(self.axis) != 1:
            return None
        return self.with_powers(scan, add) or self.with_product(scan, add)

    def with_powers(self, scan: PrefixScan, add: Set) -> PrefixScan | None:
        """Return `scan`, a running sum, with the factor recorded by which its terms change from one entry to the next:
        ``a`` for ``Sum_{j <= i} a**(i - j)*x[j]``. None if the terms depend on i in another way.

        `add` is the statement that adds a term.
        """
        loop = scan.loop
        fixed = tuple([s for s in loop.body[:-1] if not (is_let(s) and self.axis in self.depends[s.name])])
        if any(self.axis in form.atoms() for form in forms(fixed)) or (value := self.written_out(add.value)) is None:
            return None
        varying = [factor for factor in _parts(value, "mul") if self.depends_on_axis(factor)]
        if len(varying) != 1 or not isinstance(varying[0], Operation) or varying[0].function != "pow":
            return None
        base, exponent = varying[0].arguments
        if {self.axis, loop.variable} & scalar_names(base, self.depends) or (form := index_form(exponent)) is None:
            return None
        steps = form.coefficient(self.axis) * (-1 if scan.downward else 1)
        if steps <= 0 or self.axis in form.hidden():
            return None
        factor = base if steps == 1 else Operation("pow", (base, Number(steps)))
        body = (*fixed, replace(add, value=value))
        return replace(scan, loop=replace(loop, body=body), growth=(replace(add, value=factor, reduction="prod"),))

    def with_product(self, scan: PrefixScan, add: Set) -> PrefixScan | None:
        """Return `scan`, a running sum, with the factor recorded by which its terms grow from one entry to the next:
        ``a[i]`` if they contain ``prod_{j < k <= i} a[k]``. None if they contain no such product.

        `add` is the statement that updates the sum.
        """
        loop = scan.loop
        varying = [s for s in loop.body[:-1] if self.depends_on_axis_in(s)]
        if len(varying) != 1 or not isinstance(inner := varying[0], Loop):
            return None
        filled = added(inner.body)
        factors = [factor for factor in _parts(add.value, "mul") if self.depends_on_axis(factor)]
        if len(filled) != 1 or factors != [Name(name := next(iter(filled)))] or filled[name].reduction != "prod":
            return None
        near, far = (inner.lows, inner.highs) if scan.downward else (inner.highs, inner.lows)
        if [len(near), len(far), near[0].divisor, far[0].divisor] != [1, 1, 1, 1]:
            return None
        place, variable = near[0].form, Affine.variable(loop.variable)
        first = (loop.lows if scan.downward else loop.highs)[0].form
        ends = (place - Affine.variable(self.axis), far[0].form - variable, place - first)
        if not all(end.is_constant for end in ends):
            return None
        # The nearest term of the entry before must have the new factor.
        gap = (first + ends[1].constant - place).constant
        if (gap + 1 if scan.downward else 1 - gap) < 0:
            return None
        if any({self.axis, loop.variable} & form.atoms() for form in forms(inner.body)):
            return None
        used = {node.name for node in scalars(inner.body) if isinstance(node, Name)} - declared(inner.body).keys()
        if any({self.axis, loop.variable} & self.depends.get(used_name, frozenset()) for used_name in used):
            return None
        body = Renaming({}, forms={inner.variable: place}, scalars={name: Name(add.name)}).body(inner.body)
        return replace(scan, growth=body)

    def depends_on_axis_in(self, statement: Statement) -> bool:
        """Return whether `statement`, with its body, uses the index along the axis, or sets a scalar that differs
        between the entries along it. False for the initialisation of an accumulator.
        """
        if is_accumulator(statement):
            return False
        if any(self.axis in form.atoms() for form in forms([statement])):
            return True
        return any(isinstance(s, Set) and self.axis in self.depends.get(s.name, ()) for s in statements([statement]))

    def depends_on_axis(self, value: Scalar) -> bool:
        """Return whether `value` differs between the entries of a row."""
        return self.axis in scalar_names(value, self.depends)

    def written_out(self, value: Scalar) -> Scalar | None:
        """Return `value` with the names of scalars replaced by their definitions. None if a name is not defined by a
        single assignment, or if the result is long.
        """
        known = {accumulator.name for scan in self.found for accumulator in scan.accumulators}
        known |= {name for name, is_same in self.outside.items() if is_same}
        while True:
            names = {node.name for node in subexpressions(value) if isinstance(node, Name)}
            lets = {name: self.declared[name] for name in names & self.declared.keys() - known}
            lets = {name: statement for name, statement in lets.items() if is_let(statement)}
            if not lets:
                return value if names & self.declared.keys() <= known else None

            def written(part: Scalar, lets: Mapping[str, Set] = lets) -> Scalar:
                """Return the value to which a statement in ``lets``, a dictionary by names, sets the scalar ``part``;
                other nodes unchanged.
                """
                return lets[part.name].value if isinstance(part, Name) and part.name in lets else part

            value = rewrite_scalar(value, written)
            if sum(1 for _ in subexpressions(value)) > MAX_SUMMAND_OPERATIONS:
                return None


def _repeated(value: Scalar) -> list[Scalar]:
    """Return the factors of a small positive integer power, ``[x, x, x]`` for ``x**3``; ``[value]`` for any other
    value.
    """
    if isinstance(value, Operation) and value.function == "pow" and isinstance(value.arguments[1], Number):
        base, power = value.arguments[0], value.arguments[1].value
        return [base] * power if isinstance(power, int) and 0 < power <= MAX_DISTANCES else [value]
    return [value]


def _product(factors: Sequence[Scalar]) -> Scalar:
    """Return the product of `factors`."""
    others = [factor for factor in factors if factor != ONE]
    return Operation("mul", tuple(others)) if len(others) > 1 else (*others, ONE)[0]


def index_form(value: Scalar) -> Affine | None:
    """Return a value as an integer form; None if it is not one."""
    if isinstance(value, IndexValue):
        return value.form
    if isinstance(value, Number):
        return Affine.of(value.value) if isinstance(value.value, int) else None
    if not isinstance(value, Operation) or value.function not in ("add", "neg", "mul"):
        return None
    forms = [index_form(argument) for argument in value.arguments]
    known = [form for form in forms if form is not None]
    if len(known) < len(forms):
        return None
    if value.function != "mul":
        return sum(known, Affine()) * (-1 if value.function == "neg" else 1)
    numbers = [form for form in known if form.is_constant]
    others = [form for form in known if not form.is_constant] or [Affine.of(1)]
    return others[0] * prod(form.constant for form in numbers) if len(others) == 1 else None


def _parts(value: Scalar, function: str) -> Iterator[Scalar]:
    """Yield the operands of nested operations `function` in `value`: terms for "add", factors for "mul"."""
    if isinstance(value, Operation) and value.function == function:
        for argument in value.arguments:
            yield from _parts(argument, function)
    else:
        yield value
