"""Recurrences over time: the class `Scan`, whose steps are expressions of bound state variables.

A scan has states ``h`` with initial values and updates, sequences whose row at time ``t`` a step reads as a variable,
and a ``value`` that each step computes from the states before the step. Its ``kind`` says what becomes of the values:
``"stack"`` has them in a first axis, ``"last"`` is the last one, ``"sum"`` their total. The next state is itself such a
value. Bound variables are of a class of their own, so that no substitution captures one; where a name is also the name
of something free in the step, the bound variable gets another one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

from sympy import Basic, Dummy, S, Tuple
from sympy.core.symbol import Str
from sympy.logic.boolalg import BooleanAtom

from sympy_tensordiff.errors import ArgumentTypeError, ShapeError
from sympy_tensordiff.symbolic.expressions import sympy_callers
from sympy_tensordiff.symbolic.expressions.base import is_placeholder
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, nodes_in
from sympy_tensordiff.symbolic.index_notation.limits import checked_extent
from sympy_tensordiff.symbolic.index_notation.tabulate import same_extent
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors.operations import Shape, TensorOperation, shape_of

KINDS = ("stack", "last", "sum")
"""Results of a scan: all values along a first axis, the value of the last step, the sum of all values."""

TIME_INDEX = 2_000_000
"""The index of the dummies that are times, with different names in scans inside of each other."""


class ScanVariable(TensorSymbol):
    """A variable that a `Scan` binds: a state before the step, or the current row of a sequence.

    It equals no `TensorSymbol`, whatever its name.
    """


class Time(Dummy):
    """The time variable that a `Scan` binds; it is equal to no other symbol."""

    def __new__(cls, name: str) -> Any:
        return super().__new__(cls, name, dummy_index=TIME_INDEX, integer=True, nonnegative=True)

    def __getnewargs_ex__(self) -> Any:
        """Python's hook for pickling: the name."""
        return (self.name,), {}

    def _sympystr(self, printer: Any) -> str:
        """SymPy's hook for `str`: return the name of the time as the user wrote it, without the number that makes it
        unique.
        """
        return without_fresh_number(str(self.name))

    _latex = _sympystr

    def _sympyrepr(self, printer: Any) -> str:
        """SymPy's hook for `srepr`: the constructor call."""
        return f"Time({self.name!r})"


class State(NamedTuple):
    """A state of a scan: its variable, its value before the first step, and its value after a step."""

    variable: Any
    initial: Any
    update: Any

    @property
    def is_constant(self) -> bool:
        """Return whether the state has the same value at all times: its update is the state itself."""
        return bool(self.update == self.variable)


class Scan(TensorOperation):
    """The result of a recurrence over time: the values of its steps stacked, the last one, or their sum. `td.scan`
    makes it.

    Parameters
    ----------
    kind : {"stack", "last", "sum"}
        Whether the values of the steps are stacked along a first axis, only the last one is kept, or all are added.
    value : Expr
        The result of a step, from the states before it, the rows of the sequences and the time.
    states : sequence of (ScanVariable, Expr, Expr)
        Each state with its initial value and its update, both of its shape.
    sequences : sequence of (ScanVariable, Expr)
        Each variable with the tensor whose row at the time of the step it is.
    time : Time
        The bound integer symbol of the time.
    length : int or Expr
        The number of steps, a positive integer or a size.
    reverse : bool
        Whether the times are ``length - 1, …, 0``; values are stacked at their time all the same.

    Raises
    ------
    ShapeError
        If a shape or a length does not match; the message names the state or the sequence.
    ArgumentTypeError
        For another kind, or variables that are not of this class.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 5)
    >>> h = td.scan(lambda h, x: h/2 + x, 0, x)
    >>> h, h.shape, h.func(*h.args) == h
    (scan(lambda h, x: h/2 + x, 0, x), (5,), True)
    """

    has_symbols_of_parts = False
    has_index_form = False
    is_scan = True
    _free: frozenset[Basic] | None = None

    def __new__(
        cls, kind: Any, value: Any, states: Any, sequences: Any, time: Any, length: Any, reverse: Any = False
    ) -> Any:
        return cls.results_of([(kind, value)], states, sequences, time, length, reverse)[0]

    @classmethod
    def results_of(
        cls, results: Sequence[tuple[Any, Any]], states: Any, sequences: Any, time: Any, length: Any, reverse: Any
    ) -> list[Any]:
        """Return one `Scan` for each ``(kind, value)`` in ``results``: several results of one recurrence (a loop over
        time) with the given ``states`` and ``sequences``. Wrong arguments raise the errors of `Scan`.

        The variable ``time`` has ``length`` values, in descending order with ``reverse``.
        """
        kinds = [kind.name if isinstance(kind, Str) else kind for kind, _ in results]
        for kind in kinds:
            if kind not in KINDS:
                raise ArgumentTypeError(f"the kind of a Scan is one of {', '.join(KINDS)}, not {kind!r}")
        if not isinstance(time, Time):
            raise ArgumentTypeError(f"the time of a Scan is a Time, not {time!r}: td.scan makes it")
        steps = checked_extent(length, "the length of a scan")
        rows = [State(*row) for row in states]
        pairs = [(variable, sequence) for variable, sequence in sequences]
        for row in rows:
            _check_variable(row.variable)
            _check_shape(f"the initial value of the state {row.variable}", row.initial, row.variable.shape)
            _check_shape(f"the step's new value of the state {row.variable}", row.update, row.variable.shape)
        for variable, sequence in pairs:
            _check_variable(variable)
            _check_sequence(variable, sequence, steps)
        values = Tuple(*(value for _, value in results))
        args = Tuple(values, Tuple(*(Tuple(*row) for row in rows)), Tuple(*(Tuple(*pair) for pair in pairs)), time)
        values, *recurrence = _without_clashes(args, [steps])
        return [
            cls._unchecked(Str(kind), value, *recurrence, steps, _truth(reverse))
            for kind, value in zip(kinds, values.args, strict=True)
        ]

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape of the result of a scan with the arguments ``args``."""
        own = shape_of(args[1])
        return (args[5], *own) if args[0].name == "stack" else own

    # -------------------------------------------------------------- parts

    @property
    def kind(self) -> str:
        """Return how the values of the steps are combined: "stack", "last" or "sum"."""
        return str(self.args[0].name)

    @property
    def value(self) -> Any:
        """Return the expression of the value of one step, from which the result is made: all values stacked, the last
        one, or their sum. The new states have expressions of their own.
        """
        return self.args[1]

    @property
    def states(self) -> list[State]:
        """Return the states; each `State` has a variable, an initial value and an update."""
        return [State(*row.args) for row in self.args[2].args]

    @property
    def sequences(self) -> list[tuple[Any, Any]]:
        """Return pairs ``(variable, sequence)``: in each step of the recurrence, the variable stands for one row of the
        sequence.
        """
        return [(row.args[0], row.args[1]) for row in self.args[3].args]

    @property
    def time(self) -> Any:
        """Return the bound symbol of the time in the scan's steps."""
        return self.args[4]

    @property
    def length(self) -> Any:
        """Return the number of steps of the scan."""
        return self.args[5]

    @property
    def reverse(self) -> bool:
        """Return whether the scan runs backwards in time."""
        return bool(self.args[6])

    @property
    def recurrence(self) -> tuple[Any, ...]:
        """Return all arguments of the scan but ``kind`` and ``value``. Scans with equal ones are results of the same
        recurrence and can be computed in one loop.
        """
        return tuple(self.args[2:])

    def result(self, kind: str, value: Any) -> Any:
        """Return another `Scan` of the same recurrence: its steps have the result ``value``, and ``kind`` says how
        these are combined ("stack", "last" or "sum").
        """
        return Scan(kind, value, *self.recurrence)

    @property
    def bound(self) -> list[Any]:
        """Return the bound variables: states, rows of sequences and the time."""
        return [*(s.variable for s in self.states), *(variable for variable, _ in self.sequences), self.time]

    @property
    def steps(self) -> list[Any]:
        """Return the expressions that each step evaluates: the value, then the updates of the states."""
        return [self.value, *(state.update for state in self.states)]

    @property
    def outer(self) -> list[Any]:
        """Return the expressions that are evaluated before the first step: initial values and sequences."""
        return [*(state.initial for state in self.states), *(sequence for _, sequence in self.sequences)]

    @property
    def operands(self) -> tuple[Any, ...]:
        """Return the tensors and scalars that the scan takes: initial values and sequences."""
        return tuple(self.outer)

    @property
    def free_symbols(self) -> set[Basic]:
        """Override `Basic.free_symbols`: return the free symbols of all parts, without the bound variables."""
        if self._free is None:
            inside = free_symbols_in(self.steps) - set(self.bound)
            sizes = free_symbols_in([self.length, *(s for v in self.bound[:-1] for s in v.shape)])
            self._free = frozenset(inside | sizes | free_symbols_in(self.outer))
        return sympy_callers.free_symbols_for_caller(self, set(self._free), sys._getframe(1))

    def _substituted(self, old: Basic, new: Basic) -> Any:
        """Return the scan with ``old`` replaced by ``new``; it is checked again unless ``new`` is a temporary
        placeholder of `subs`.
        """
        if old in self.bound:
            return self
        if is_placeholder(new):
            return super()._substituted(old, new)
        args = tuple(arg._subs(old, new) for arg in self.args)
        return self if args == self.args else self.func(*args)

    def _eval_subs(self, old: Basic, new: Basic) -> Any:
        """SymPy's hook for `subs`: replace ``old`` by ``new`` in the scan. Its bound variables are unique, so they are
        never replaced and never clash with symbols in `new`.
        """
        return self._substituted(old, new)

    def doit(self, **hints: Any) -> Any:
        """Override `Basic.doit`: return the scan unchanged; nothing is unrolled."""
        return self


def needed_states(states: Sequence[tuple[Any, Any]], values: Iterable[Any]) -> set[Any]:
    """Return the state variables on which ``values`` depend, directly or through updates of other states; ``states``
    are pairs of a variable and its update.
    """
    known = dict(states)
    found: set[Any] = set()
    stack = [*values]
    while stack:
        for symbol in free_symbols_in([stack.pop()]):
            if symbol in known and symbol not in found:
                found.add(symbol)
                stack.append(known[symbol])
    return found


def _truth(value: Any) -> Any:
    """Return a bool as SymPy's true or false; raise `ArgumentTypeError` for other values."""
    if isinstance(value, (bool, BooleanAtom)):
        return S.true if value else S.false
    raise ArgumentTypeError(f"reverse must be True or False, not {value!r}")


def _check_variable(variable: Any) -> None:
    """Raise `ArgumentTypeError` unless ``variable`` is a bound variable."""
    if not isinstance(variable, ScanVariable):
        raise ArgumentTypeError(f"the variables of a Scan are ScanVariables, not {variable!r}: td.scan makes them")


def _check_shape(what: str, value: Any, shape: Sequence[Any]) -> None:
    """Raise `ShapeError` unless ``value`` (called ``what``) has the shape of its state."""
    own = shape_of(value)
    if len(own) != len(shape) or not all(map(same_extent, own, shape)):
        raise ShapeError(
            f"{what} is {value} of shape {own}, but the state has shape {tuple(shape)}: a step keeps the shape of "
            "each state, which is that of its initial value"
        )


def no_sequence(sequence: Any) -> ShapeError:
    """Return (do not raise) the exception to raise for a sequence that is a scalar."""
    return ShapeError(f"the sequence {sequence} of a scan is a scalar: its first axis must be the time")


def check_rows(sequence: Any, length: Any) -> None:
    """Raise `ShapeError` unless ``sequence`` has ``length`` rows."""
    rows = shape_of(sequence)[0]
    if not same_extent(rows, length):
        raise ShapeError(
            f"the sequence {sequence} of a scan has {rows} rows, but the scan has {length} steps: all sequences "
            "and length= must agree"
        )


def _check_sequence(variable: Any, sequence: Any, length: Any) -> None:
    """Raise `ShapeError` unless ``sequence`` has ``length`` rows of the shape of ``variable``."""
    shape = shape_of(sequence)
    if not shape:
        raise no_sequence(sequence)
    check_rows(sequence, length)
    if len(shape) != variable.rank + 1 or not all(map(same_extent, shape[1:], variable.shape)):
        raise ShapeError(f"the rows of {sequence} have shape {shape[1:]}, but {variable} has shape {variable.shape}")


def _without_clashes(args: Any, others: Sequence[Any]) -> Any:
    """Return the arguments of a scan with bound variables renamed where their names occur elsewhere in the steps or in
    `others`; the time is called ``t`` if that name is free.
    """
    value, states, sequences, time = args.args
    bound = [*(row.args[0] for row in states.args), *(row.args[0] for row in sequences.args)]
    steps = [value, *(row.args[2] for row in states.args)]
    sizes = [extent for variable in bound for extent in variable.shape]
    inside = [n for n in nodes_in([*steps, *sizes, *others]) if hasattr(type(n), "name") and not isinstance(n, Str)]
    taken = {str(node.name) for node in inside if node not in bound and node != time}
    rule: dict[Any, Any] = {}
    for variable in bound:
        name = _unused(variable.name, taken)
        taken.add(name)
        if name != variable.name:
            rule[variable] = ScanVariable(name, variable.shape)
    canonical = Time(_unused(time.name, taken) if time in inside else "t")
    if canonical != time:
        rule[time] = canonical
    return args.xreplace(rule).args if rule else args.args


def _unused(name: str, taken: set[str]) -> str:
    """Return ``name`` without the number that `fresh_name` appended to make it unique, such as ``h``; if ``taken``
    contains this name, the first of ``h_1``, ``h_2``, ... that it does not contain.
    """
    name = without_fresh_number(name)
    stem, _, number = name.rpartition("_")
    stem = stem if stem and number.isdigit() else name
    return next(new for n in count() if (new := name if n == 0 else f"{stem}_{n}") not in taken)


def without_fresh_number(name: str) -> str:
    """Return a name without the number that `fresh_name` has added."""
    stem, _, number = name.rpartition("_")
    return stem if stem and number.isdigit() and int(number) > FIRST_FRESH else name


FIRST_FRESH = 10**9
"""Numbers in names above this one are only there until a scan is complete."""

_fresh = count(FIRST_FRESH + 1)


def fresh_name(name: str) -> str:
    """Return ``name`` with a new number, such as ``s_12``, so that no other variable has it. A scan that binds the
    variable restores ``name`` where possible.
    """
    return f"{without_fresh_number(name)}_{next(_fresh)}"
