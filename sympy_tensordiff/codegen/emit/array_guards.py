"""Conditions under which values are used: entries of temporary arrays, and named values of kernels.

A library that differentiates a program multiplies the derivative of a value that is not used by 0, which is nan where
it is singular, as ``1/r[i, j]`` is at ``i = j``. So a value is computed from other arguments where it is not used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import or_
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import (
    Prover,
    as_integer_or_condition,
    axis_rows,
    condition_of,
    condition_rows,
    enclosing_rows,
    nonzero_forms,
    with_integers,
)
from sympy_tensordiff.codegen.ir.loops import Loop, Set, Statement, is_accumulator, is_let, is_store, reduction_of
from sympy_tensordiff.codegen.ir.programs import ContractionStep, Kernel, Program, Scatter
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Load, Name, Number, Operation, Scalar, constant
from sympy_tensordiff.codegen.ir.walk import dependences, loops, scalar_names, scalars, statements, walk
from sympy_tensordiff.integer.affine import Affine, Constraint

Condition: TypeAlias = "Constraint | Affine"
"""A constraint, or a form that is not 0."""
Conditions: TypeAlias = frozenset[Condition]


class UseConditions(NamedTuple):
    """The conditions under which a program uses array entries or named values. Where a condition is false, the value
    does not matter, and generated code computes one at which derivatives are finite.

    ``arrays`` are those of the entries of temporary arrays, ``lets`` those of named values, by array and name.
    ``stored`` are the conditions of use, in terms of `axis_name`, of the temporary arrays whose entries are arguments
    of singular functions. The entries are stored as 0.5 where these are false, so that the functions need no guards.
    """

    arrays: dict[str, Scalar]
    lets: dict[tuple[str, str], Scalar]
    stored: dict[str, Conditions]


def conditions_of_use(program: Program, prover: Prover) -> UseConditions:
    """Return the conditions on the indices under which the entries of each array and the values of each scalar of
    `program` are used. Arrays and scalars that are always used are left out.
    """
    result = UseConditions({}, {}, {})
    common: dict[str, Conditions] = dict.fromkeys([array.name for array in program.outputs], frozenset())
    """The conditions that all reads of an array so far have in common, in terms of its axes."""
    nodes = [node for step in program.nests for node in scalars(step.body) if isinstance(node, Operation)]
    bases = {node.arguments[0].array for node in nodes if is_singular(node) and isinstance(node.arguments[0], Load)}
    for step in reversed(program.kernels):
        if isinstance(step, Kernel):
            _UsesInKernel(step, prover, common, bases, result).visit()
        else:
            common |= dict.fromkeys(uses(step).arrays, frozenset())
    return result


class _UsesInKernel:
    """Finds the conditions under which one kernel uses each array and each named value, for `conditions_of_use`. It
    visits the statements from last to first, since uses follow definitions.
    """

    def __init__(
        self, step: Kernel, prover: Prover, common: dict[str, Conditions], bases: Collection[str], result: UseConditions
    ) -> None:
        self.step, self.box, self.common, self.result = step, axis_rows(step, prover.shapes), common, result
        self.inner = {*step.axes, *(loop.variable for loop in loops(step.body))}
        self.depends = dependences(step)
        names = {axis_name(number): Affine.variable(name) for number, name in enumerate(step.axes)}
        known = () if isinstance(step, Scatter) else common.get(step.array, ())
        own = {mapped(condition, names): condition for condition in known}
        self.own = frozenset([one for one in own if isinstance(one, Affine) or not prover.proves(one, self.box)])
        stored = frozenset([own[one] for one in self.own if _names(one) & {*step.axes}])
        if step.array in bases and stored and not any(form_of(one).compounds() for one in stored):
            result.stored[step.array] = stored
        self.lets: dict[str, Conditions] = {}
        """The conditions that all uses of a named value so far have in common."""

    def visit(self) -> None:
        """Visit the statements of the kernel from last to first, and record the conditions under which it uses arrays
        and named values.
        """
        needed: Conditions = frozenset()
        nonnegative = nonnegative_names(self.step.body)
        integers: dict[str, Scalar] = {}
        found = list(walk(self.step.body))
        for statement, _ in found:
            if isinstance(statement, Set) and is_let(statement):
                value = as_integer_or_condition(with_integers(statement.value, integers))
                integers |= {} if value is None else {statement.name: value}
        for statement, around in reversed(found):
            if not isinstance(statement, Set):
                continue
            value = with_integers(statement.value, integers)
            rows, mine = enclosing_rows(around, self.box), frozenset[Condition]()
            outside = frozenset([*rows, *_differences(rows, self.inner)])
            if is_let(statement):
                scope = {*self.step.axes, *(one.variable for one in around if isinstance(one, Loop))}
                used = self.lets.pop(statement.name, frozenset()) - self.own - outside
                mine = frozenset([one for one in used if _names(one) & self.inner <= scope])
            missing: Conditions = frozenset()
            for node, conditions in self._nodes(value, outside):
                if is_singular(node, nonnegative) and scalar_names(node, self.depends) & self.inner:
                    needed |= self.own - conditions
                    missing |= mine - conditions
                elif isinstance(node, Name):
                    uses_of_name = conditions | mine | self.own
                    self.lets[node.name] = self.lets.get(node.name, uses_of_name) & uses_of_name
                elif isinstance(node, Load):
                    self._add_read(node, conditions | mine | self.own)
            if missing:
                self.result.lets[self.step.array, statement.name] = as_scalar(missing)
        if needed:
            self.result.arrays[self.step.array] = as_scalar(needed)

    def _add_read(self, load: Load, conditions: Conditions) -> None:
        """Record the read `load`, which happens under `conditions`: in ``self.common``, keep for its array only the
        conditions under which all reads so far happen.

        Conditions are written in terms of the array's axes; those that cannot be are dropped.
        """
        images: dict[str, Affine] = {}
        for number, form in enumerate(load.index):
            names = form.atoms() & self.inner
            if len(names) == 1 and not form.compounds():
                (name,) = names
                if form.coefficient(name) == 1 and name not in images:
                    images[name] = Affine.variable(axis_name(number)) - (form - Affine.variable(name))
        own = [one for one in conditions if _names(one) & self.inner <= images.keys()]
        found = frozenset([mapped(one, images) for one in own])
        self.common[load.array] = self.common.get(load.array, found) & found

    def _nodes(self, value: Scalar, conditions: Conditions) -> Iterator[tuple[Scalar, Conditions]]:
        """Yield each node of the expression `value` with the conditions under which it is needed: the given
        ``conditions``, and those of the ``select`` operations around it.
        """
        stack = [(value, conditions)]
        while stack:
            node, known = stack.pop()
            yield node, known
            if isinstance(node, Operation) and node.function == "select":
                condition, chosen, otherwise = node.arguments
                fails = Operation("not", (condition,))
                stack += [(condition, known), (chosen, known | self._following(condition))]
                stack.append((otherwise, known | self._following(fails)))
            elif isinstance(node, Operation):
                stack.extend((argument, known) for argument in node.arguments)

    def _following(self, condition: Scalar) -> Conditions:
        """Return the conditions on integers that are true if the boolean expression `condition` is: constraints such as
        ``i >= j``, and forms that are not 0.
        """
        rows = [row for row in condition_rows(condition, True) if not row.form.compounds()]
        forms = [mapped(form, {}) for form in nonzero_forms(condition) if not form.compounds()]
        return frozenset([*rows, *forms, *_differences(rows, self.inner)])


def _differences(rows: Iterable[Constraint], inner: set[str]) -> Iterator[Condition]:
    """Yield, for each inequality ``i - j + c >= 0`` in `rows` between two of the indices `inner`, the weaker condition
    that ``i - j + c + 1`` is not 0. For ``i > j`` this is ``i - j != 0``.
    """
    for row in rows:
        if row.kind == "ge" and sorted(c for _, c in row.form.terms) == [-1, 1] and row.form.atoms() <= inner:
            yield mapped(row.form + 1, {})


def conditions_at(stored: Iterable[Condition], index: Sequence[Affine]) -> list[Condition]:
    """Return the conditions ``stored`` for the array entry at `index`. They contain a variable for the index along each
    axis (see `axis_name`), which is replaced by the form in `index`.
    """
    images = {axis_name(number): form for number, form in enumerate(index)}
    return [mapped(one, images) for one in stored]


def conditions_in(condition: Scalar) -> Conditions:
    """Return the conditions on integers that the boolean expression `condition` joins by "and"; the inverse of
    `as_scalar`.
    """
    return frozenset([*condition_rows(condition, True), *(mapped(one, {}) for one in nonzero_forms(condition))])


def axis_name(number: int) -> str:
    """Return the name of the variable that, in the conditions on an array, is the index along axis `number`."""
    return f"axis {number}"


def form_of(condition: Condition) -> Affine:
    """Return the integer form of a condition: the form of a constraint, or the form that is not 0."""
    return condition.form if isinstance(condition, Constraint) else condition


def _names(condition: Condition) -> set[str]:
    """Return the variables of a condition."""
    return {str(name) for name in form_of(condition).atoms()}


def mapped(condition: Condition, images: Mapping[str, Affine]) -> Condition:
    """Return `condition` with its variables replaced by the forms in `images`. Since ``f != 0`` and ``-f != 0`` mean
    the same, only one of the two is ever returned.
    """
    if isinstance(condition, Constraint):
        return condition._replace(form=condition.form.substitute(images))
    form = condition.substitute(images)
    return max(form, -form, key=str)


def as_scalar(conditions: Iterable[Condition]) -> Scalar:
    """Return conditions, joined by "and", as a boolean scalar expression."""
    conditions = sorted(conditions, key=str)
    rows = [one for one in conditions if isinstance(one, Constraint)]
    forms = [one for one in conditions if isinstance(one, Affine)]
    forms = [form for form in forms if not any(row.form + 1 in (form, -form) for row in rows)]
    parts = [*([condition_of(rows)] if rows else []), *(Operation("ne", (IndexValue(f), Number(0))) for f in forms)]
    return parts[0] if len(parts) == 1 else Operation("and", tuple(parts))


# ---------------------------------------------------------------------------- singular functions


SAFE_ARGUMENTS = {
    **dict.fromkeys(("pow", "sqrt", "log", "log1p", "log2", "log10", "cbrt", "gamma", "lgamma"), 0.5),
    **dict.fromkeys(("arcsin", "arccos", "arctanh"), 0.5), "arccosh": 2,
}  # fmt: skip
"""Functions with singular derivatives, and an argument at which all of these are finite."""

SAFE_ENTRY = constant(0.5)
"""The value of entries that are not used of arrays that are arguments of these functions."""


def is_singular(node: Scalar, nonnegative: Collection[str] = ()) -> bool:
    """Return whether `node` is a function or power whose derivatives may be infinite somewhere, such as ``sqrt(x)``;
    False for ``x**2``, ``1/exp(x)``, ``2**x`` and ``sqrt(x**2 + 1)``. The values of the names ``nonnegative`` are not
    negative.
    """
    if not isinstance(node, Operation) or node.function not in SAFE_ARGUMENTS:
        return False
    base, *exponents = node.arguments
    if any(isinstance(e, Number) and e.value >= 0 and e.value == int(e.value) for e in exponents):
        return False
    if node.function in _INSIDE_POSITIVE and _is_positive(base, nonnegative):
        return False
    return not isinstance(base, Number)


_INSIDE_POSITIVE = "pow", "sqrt", "log", "log2", "log10", "log1p", "cbrt", "gamma", "lgamma"
"""Functions that have finite derivatives at positive numbers."""


def _is_positive(node: Scalar, nonnegative: Collection[str]) -> bool:
    """Return whether `node` is visibly greater than 0, as ``exp(x)`` and ``x**2 + 1`` are. ``nonnegative`` has the
    names of values that are at least 0.
    """
    if isinstance(node, Number):
        return node.value > 1e-30  # in float32 too
    if not isinstance(node, Operation):
        return False
    if node.function == "add":
        signs = [_is_positive(term, nonnegative) for term in node.arguments]
        return any(signs) and all(map(or_, signs, [is_nonnegative(term, nonnegative) for term in node.arguments]))
    return node.function in ("exp", "cosh", "sigmoid", "logistic_density")


def is_nonnegative(node: Scalar, names: Collection[str]) -> bool:
    """Return whether the formula of `node` shows that its value is at least 0: it is a square, one of ``names``, a read
    of one of these arrays, or a sum or product of such values.
    """
    if isinstance(node, Name | Load):
        return (node.name if isinstance(node, Name) else node.array) in names
    if isinstance(node, Operation) and node.function in ("add", "mul"):
        return all(is_nonnegative(part, names) for part in node.arguments)
    if isinstance(node, Operation) and node.function == "pow":
        exponent = node.arguments[1]
        return isinstance(exponent, Number) and exponent.value >= 0 and exponent.value % 2 == 0
    return _is_positive(node, names)


def nonnegative_arrays(program: Program) -> frozenset[str]:
    """Return the names of the arrays of `program` that one kernel or contraction fills and whose formulas show that no
    entry is negative: those of squared distances, for example.
    """
    found = frozenset[str]()
    scattered = {step.array for step in program.kernels if isinstance(step, Scatter)}
    for step in program.kernels:
        if isinstance(step, Kernel) and step.array not in scattered and is_store(step.body[-1]):
            names = nonnegative_names(step.body, found)
            if all(is_nonnegative(s.value, names) for s in statements(step.body) if is_store(s)):
                found |= {step.array}
        if isinstance(step, ContractionStep) and step.array not in scattered:
            found |= {step.array} if step.left == step.right and step.factor >= 0 else set()  # sums of squares
    return found


def nonnegative_names(body: Iterable[Statement], arrays: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the names of the values and sums in the statements `body` that cannot be negative, as their formulas show:
    sums of squares, for example. The names of ``arrays``, whose entries are not negative, are included.
    """
    sets = [s for s in statements(body) if isinstance(s, Set) and isinstance(s.target, Name)]
    found = {s.name for s in sets if is_let(s) or (is_accumulator(s) and reduction_of(s) == "sum")}
    found |= arrays
    values = [(s.name, s.value) for s in sets if not is_accumulator(s)]
    while wrong := {name for name, value in values if name in found and not is_nonnegative(value, found)}:
        found -= wrong
    return frozenset(found)
