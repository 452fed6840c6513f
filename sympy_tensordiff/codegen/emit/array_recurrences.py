"""Running sums whose terms all gain one factor from entry to entry, as linear recurrences along an axis.

``s[p] = Sum_{j > p} b[j]*Prod_{p < k < j} a[k]`` is ``a[p + 1]*s[p + 1] + b[p + 1]`` (`schedule.scans`). The arrays of
factors and of new terms take one operation each, and the recurrence a logarithmic number of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement, is_accumulator
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Identity, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import added, bounds, loops, rewrite_scalar, with_values
from sympy_tensordiff.codegen.schedule.scans import PrefixScan, find_scans
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.rows import Rows


class LinearRecurrence:
    """Builds the statements that compute the arrays ``factor`` and ``term`` of a linear recurrence ``s[p] =
    factor[p]*s[p - 1] + term[p]``. From these, array libraries can compute ``s`` in parallel.

    Parameters
    ----------
    scan : PrefixScan
        A sum with ``growth``, each entry of which has at most one term that the entry before does not have.
    factor : str
        The name for the factors.
    axis : str
        The axis along which it runs.
    extent : Affine
        The extent of that axis.
    """

    def __init__(self, scan: PrefixScan, factor: str, axis: str, extent: Affine) -> None:
        (self.accumulator,) = scan.accumulators
        self.factor = factor
        self.is_reversed = scan.downward
        loop = scan.loop
        place = (loop.lows if scan.downward else loop.highs)[0].form
        ends = [(place * low.divisor - low.form) for low in loop.lows]
        ends += [(high.form - place * high.divisor) for high in loop.highs]
        self.inside: Rows = tuple(Constraint("ge", end) for end in ends if end != Affine.of(0))
        at_place = Renaming({}, forms={loop.variable: place}).body(loop.body)
        self.terms: tuple[Statement, ...] = _guarded(self.inside, _without_empty_loops(at_place))
        factors = Renaming({}, scalars={self.accumulator.name: Name(factor)}).body(scan.growth)
        start = Set(Name(factor), Identity("prod"))
        # Where the entry before is none, or has no terms, the new factor may be outside of its array.
        before = Affine.variable(axis) + (1 if scan.downward else -1)
        ends = [row.form.substitute({axis: before}) for row in self.inside]
        ends.append(extent - 1 - before if scan.downward else before)
        gained = tuple([Constraint("ge", end) for end in dict.fromkeys(ends)])
        self.factors: tuple[Statement, ...] = (start, *_guarded(gained, factors))


def _guarded(conditions: Rows, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return `body` inside of an `If` with the ``conditions``; `body` alone if there are none."""
    return (If(conditions, body),) if conditions else body


def find_recurrences(
    kernel: Kernel, extents: Sequence[Affine], depends: Mapping[str, frozenset[str]], prover: Prover
) -> dict[str, PrefixScan]:
    """Return the sums of `kernel` that are linear recurrences along its last axis, as a dictionary from the names of
    their accumulators to their descriptions.

    ``extents`` are the lengths of the axes; ``depends`` maps each name to the indices on which it depends.
    """
    found: dict[str, PrefixScan] = {}
    forms = [bound.form for loop in loops(kernel.body) for bound in bounds(loop)]
    if not any(kernel.axes[-1] in form.atoms() for form in forms if kernel.axes):
        return found
    axis = kernel.axes[-1]
    for scan in find_scans(kernel, {name: axis not in indices for name, indices in depends.items()})[0]:
        near, far = (scan.loop.lows, scan.loop.highs) if scan.downward else (scan.loop.highs, scan.loop.lows)
        sign, first = (1, extents[-1] - 1) if scan.downward else (-1, Affine.of(0))
        # The first entry has one term at most, as all others gain one at most.
        gaps = [(near[0].form - bound.form).substitute({axis: first}) * sign for bound in far]
        if scan.growth and not scan.conditions and any(prover.proves(Constraint("ge", gap)) for gap in gaps):
            found[scan.accumulators[0].name] = scan
    return found


def _without_empty_loops(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Remove loops without iterations from ``body`` and replace the products that they would compute by 1. Return
    ``body`` unchanged if such a loop computes another reduction, such as a sum.
    """
    empty = [s for s in body if isinstance(s, Loop) and _is_empty(s)]
    neutral = {name: add.reduction for name, add in added(empty).items() if add.reduction == "prod"}
    if len(neutral) != len(added(empty)):
        return body

    def without_empty_products(value: Scalar) -> Scalar:
        """Return the node ``value`` of an expression with 1 in place of an empty product (a name in ``neutral``), or,
        if it is a product, without its factors 1. Return other nodes unchanged.
        """
        if isinstance(value, Operation) and value.function == "mul":
            factors = [part for part in value.arguments if part != Number(1)]
            return Operation("mul", tuple(factors)) if len(factors) > 1 else (*factors, Number(1))[0]
        return Number(1) if isinstance(value, Name) and value.name in neutral else value

    rest = tuple([s for s in body if s not in empty and not (is_accumulator(s) and s.name in neutral)])
    return with_values(rest, lambda value: rewrite_scalar(value, without_empty_products))


def _is_empty(loop: Loop) -> bool:
    """Return whether a loop has no iterations, whatever the sizes are."""
    ends = [(low, high) for low in loop.lows for high in loop.highs if low.divisor == high.divisor == 1]
    gaps = [low.form - high.form for low, high in ends]
    return any(gap.is_constant and gap.constant > 0 for gap in gaps)
