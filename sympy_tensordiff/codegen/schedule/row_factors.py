"""Factors of a product that depend on fewer axes than the kernel has, multiplied before the loops over the other axes:
``u[j]*(w[i]*a[i] - b[i])/c[i]`` for each i and j as ``t[i] = (w[i]*a[i] - b[i])/c[i]`` and ``u[j]*t[i]``.

Lowering keeps the factors of a product apart where each of them may be worth an array of its own. Here it is known
which values are stored, and what is left is computed for each entry. Fusion then makes a scalar of ``t[i]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sympy_tensordiff.codegen.ir.loops import Set, is_let
from sympy_tensordiff.codegen.ir.programs import Array, Kernel, Program, Step, entrywise
from sympy_tensordiff.codegen.ir.rename import reserve_name
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import (
    all_names,
    array_shapes,
    dependences,
    live_statements,
    parts,
    rewrite_scalar,
    scalar_names,
    subexpressions,
    used_names,
)
from sympy_tensordiff.integer.affine import Affine

LEAST_OPERATIONS = 2
"""Fewer operations take as long as a read."""

Shapes = Mapping[str, tuple[Affine, ...]]


def with_row_factors(program: Program) -> Program:
    """Return `program` with those factors in a kernel that depend on only some of its axes computed before, by kernels
    over these axes.
    """
    shapes = array_shapes(program)
    inverses = {step.array for step in program.kernels if isinstance(step, Kernel) and _is_inverse(step.body[-1])}
    taken: set[str] = set()
    steps: list[Step] = []
    arrays: list[Array] = []
    for step in program.kernels:
        if type(step) is Kernel and len(step.axes) > 1 and all(map(is_let, step.body[:-1])):
            taken = taken or all_names(program)
            work = _RowFactors(step, shapes, inverses, taken)
            step = work.kernel()
            steps += work.found
            arrays += work.arrays
        steps.append(step)
    return program.with_steps(steps, new=arrays) if arrays else program


class _RowFactors:
    """Takes the factors of few axes out of one kernel without loops.

    `inverses` are arrays of reciprocals, such as those of norms: two of them may overflow where each times its entry
    does not, so they stay where they are.
    """

    def __init__(self, kernel: Kernel, shapes: Shapes, inverses: set[str], taken: set[str]) -> None:
        self.own = kernel
        self.inverses = inverses
        self.taken = taken
        self.extents = dict(zip(kernel.axes, shapes[kernel.array], strict=True))
        self.depends = dependences(kernel)
        self.lets = {s.name: s.value for s in kernel.body[:-1] if isinstance(s, Set) and isinstance(s.target, Name)}
        self.found: list[Kernel] = []
        self.arrays: list[Array] = []

    def kernel(self) -> Kernel:
        """Return the kernel that reads the stored products; the kernels that compute these are in `found`."""
        *before, last = self.own.body
        assert isinstance(last, Set)
        guarded = self._guarded(last)
        value = rewrite_scalar(
            last.value, lambda one: one if id(one) in guarded or not isinstance(one, Operation) else self._product(one)
        )
        if not self.found:
            return self.own
        last = replace(last, value=value)
        wanted = used_names(last)
        return replace(self.own, body=(*live_statements(before, wanted), last))

    def _guarded(self, last: Set) -> set[int]:
        """Return the identities of the operations that are computed on one side of a choice only."""
        choices = [one for one in subexpressions(last.value) if isinstance(one, Operation) and one.function == "select"]
        return {id(part) for one in choices for side in one.arguments[1:] for part in parts(side)}

    def _product(self, product: Operation) -> Scalar:
        """Return `product` with the factors of each set of axes replaced by the read of their product."""
        if product.function != "mul":
            return product
        groups: dict[frozenset[str], list[Scalar]] = {}
        for factor in product.arguments:
            axes = self._axes(factor)
            if len(axes) < len(self.own.axes) and not self._is_reciprocal(factor):
                groups.setdefault(axes, []).append(factor)
        constants = groups.pop(frozenset(), [])
        if groups:
            groups[min(groups, key=len)] += constants
        arguments, before = list(product.arguments), len(self.found)
        for axes, group in groups.items():
            if not self._is_worthwhile(axes, group):
                continue
            first = next(n for n, one in enumerate(arguments) if one is group[0])
            gone = {id(one) for one in group[1:]}
            arguments[first] = self._stored(axes, group)
            arguments = [one for one in arguments if id(one) not in gone]
        if len(self.found) == before:
            return product
        return arguments[0] if len(arguments) == 1 else Operation("mul", tuple(arguments))

    def _axes(self, factor: Scalar) -> frozenset[str]:
        """Return the axes of the kernel on which `factor` depends."""
        return scalar_names(factor, self.depends).intersection(self.own.axes)

    def _is_worthwhile(self, axes: frozenset[str], group: list[Scalar]) -> bool:
        """Return whether storing the product of `group` pays: it takes more operations than a read, and is not larger
        than an array that it reads. False also if it has more than one division, since it may then overflow although
        the factors do not.
        """
        nodes = [part for factor in group for part in self._parts(factor)]
        work = len(group) - 1 + sum(isinstance(part, Operation) for part in nodes)
        divisions = sum(map(_is_division, group))
        reads = any(isinstance(part, Load) and axes == self._axes(part) for part in nodes)
        return reads and work >= LEAST_OPERATIONS and divisions < 2 and len(set(map(id, group))) == len(group)

    def _parts(self, factor: Scalar) -> list[Scalar]:
        """Return the nodes of `factor`, with those of the scalars that it names."""
        found = parts(factor)
        for name in [part.name for part in found if isinstance(part, Name)]:
            found += self._parts(self.lets[name]) if name in self.lets else []
        return found

    def _is_reciprocal(self, factor: Scalar) -> bool:
        """Return whether `factor` is the name of a reciprocal, or the entry of an array of them."""
        if isinstance(factor, Name):
            return factor.name in self.lets and _is_division(self.lets[factor.name])
        return isinstance(factor, Load) and factor.array in self.inverses

    def _stored(self, axes: frozenset[str], group: list[Scalar]) -> Scalar:
        """Return the entry of a new array with the product of `group`."""
        own = [axis for axis in self.own.axes if axis in axes]
        value = group[0] if len(group) == 1 else Operation("mul", tuple(group))
        name = reserve_name("t", self.taken)
        wanted = {part.name for part in subexpressions(value) if isinstance(part, Name)}
        kernel = entrywise(name, own, live_statements(self.own.body[:-1], wanted), value)
        self.found.append(kernel)
        self.arrays.append(Array(name, tuple(self.extents[axis] for axis in own)))
        return kernel.entry


def _is_division(factor: Scalar) -> bool:
    """Return whether `factor` is a power with a negative number as exponent."""
    exponent = factor.arguments[1] if isinstance(factor, Operation) and factor.function == "pow" else None
    return isinstance(exponent, Number) and exponent.value < 0


def _is_inverse(statement: object) -> bool:
    """Return whether `statement` stores a reciprocal."""
    return isinstance(statement, Set) and _is_division(statement.value)
