"""`td.scan`: recurrences from a Python function of one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from itertools import count
from typing import Any, ClassVar

from sympy import Integer, Number, Symbol, Tuple

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.hooks import operand
from sympy_tensordiff.symbolic.expressions.traversal import (
    BoundIndices,
    Recursion,
    Rewriting,
    Rules,
    free_symbols_in,
    nodes_in,
    with_args,
)
from sympy_tensordiff.symbolic.index_notation.tabulate import fresh_indices, same_extent
from sympy_tensordiff.symbolic.index_notation.tensors import (
    TensorComprehension,
    TensorEntry,
    TensorSymbol,
    checked_name,
)
from sympy_tensordiff.symbolic.recurrences.scans import Scan, ScanVariable, Time, check_rows, fresh_name, no_sequence
from sympy_tensordiff.symbolic.whole_tensors import reductions
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import flip, reshape


@explained
def scan(
    step: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    last: bool = False,
    checkpoint: int | None = None,
    *,
    total: bool = False,
) -> Any:
    """Return the states of a recurrence over time. The function ``step`` computes the next state from the state, which
    is ``init`` at first, and a row of ``xs``; it may also compute outputs, which are returned too.

    Parameters
    ----------
    step : callable
        ``step(state)``, ``step(state, x, t)`` or fewer of these arguments: the state before the step, the row
        ``xs[t]`` and the time, as expressions. Without ``xs`` the second of two arguments is the time. It returns the
        next state, or a pair of the next state and an output.
    init : Expr, tuple of Expr, or dict
        The state before the first step; the state is a tuple of tensors for a tuple. For a dict from names to initial
        values, ``step`` has a parameter of each name, and returns a tuple in the order of the dict; for one name, it
        may return the state itself.
    xs : Expr, tuple of Expr, or dict, optional
        The sequences whose rows the steps read: tensors with the time as their first axis. If ``init`` or ``xs`` is
        a dict, so is the other one. Rows of arrays of integers select entries, as in ``E[:, o]``.
    length : int or Expr, optional
        The number of steps; needed without ``xs``.
    reverse : bool
        Whether the steps run from the last time to the first; results are stacked at their times all the same.
    last : bool
        Whether to return only the last state.
    checkpoint : int, optional
        Every how many steps a derivative stores the states; those between are computed again. It divides the length.
        By default all states are stored.
    total : bool
        Whether outputs are added over time instead of stacked.

    Returns
    -------
    Expr or tuple
        The states after each step, with the time as the first axis (the last state for ``last``); a tuple for a tuple
        of states. If steps have outputs, a pair of this and of the outputs, in the structure in which ``step`` returns
        them.

    Raises
    ------
    ShapeError
        If a step changes the shape of a state, or sequences differ in their lengths.
    ArgumentError, ArgumentTypeError
        If ``step`` has other parameters or returns something else, or there is no length.

    Notes
    -----
    ``h[t] = step(h[t - 1], xs[t], t)`` with ``h[-1] = init``. A derivative is again a scan: forwards of twice the
    states, backwards of their cotangents, which reads the stored states (Griewank & Walther 2008, *Evaluating
    Derivatives*, chapters 3 and 12).

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, T = td.indices("n T")
    >>> W, x, h0 = td.TensorSymbol("W", (n, n)), td.TensorSymbol("x", (T, n)), td.TensorSymbol("h0", n)
    >>> h = td.scan(lambda h, x: td.tanh(W @ h + x), h0, x)
    >>> h, h.shape
    (scan(lambda h, x: tanh(x + W @ h), h0, x), (T, n))
    >>> F = td.scan(lambda a, b: (b, a + b), {"a": 0, "b": 1}, length=10, last=True)
    >>> td.evaluate(F[0], {})
    np.float64(55.0)
    """
    for flag, given in (("reverse", reverse), ("last", last), ("total", total)):
        if not isinstance(given, bool):
            raise ArgumentTypeError(f"td.scan: {flag} must be True or False, not {given!r}")
    if not callable(step):
        raise ArgumentTypeError(
            f"td.scan: the step must be a function of the state, such as lambda h, x: h/2 + x, not {step!r}"
        )
    call = _Call(step, init, xs)
    length = call.checked_length(length)
    updates, outputs, structure = call.run()
    updates, outputs = call.with_rows(updates, outputs, length)
    if outputs is None and (prefix := _prefix_form(call, updates, length, reverse, last)) is not None:
        return prefix
    if checkpoint is None:
        states = [*zip(call.states, call.initial, updates, strict=True)]
        parts = states, [*zip(call.rows, call.sequences, strict=True)], call.time, length, reverse
        result: Callable[[str, Any], Any] = partial(_result, parts)
    else:
        result = _StateBlocks(call, updates, length, reverse, checkpoint).result
    results = [result("last" if last else "stack", update) for update in updates]
    found = tuple(results) if call.is_tuple else results[0]
    if outputs is None:
        return found
    values = [result("sum" if total else "stack", output) for output in outputs]
    return found, (tuple(values) if structure else values[0])


def _prefix_form(call: _Call, updates: Sequence[Any], length: Any, reverse: bool, last: bool) -> Any | None:
    """Return the running sum or product that equals the recurrence of ``call``, of ``length`` steps. None unless the
    only state is a scalar and each step adds or multiplies, as ``s + f(x, t)`` or ``s*f(x, t)``.

    ``updates`` are the next states. With ``last``, return the last value only.

    With ``reverse``, the recurrence runs backwards.
    """
    if call.is_tuple or call.states[0].rank or not all(same_extent(shape_of(s)[0], length) for s in call.sequences):
        return None
    (state,), (update,), (first,) = call.states, updates, call.initial
    term, factor = update - state, update / state
    is_sum, is_product = (state not in part.free_symbols for part in (term, factor))
    part = term if is_sum else factor
    tensors = [variable for variable in call.rows if variable.rank]
    if not (is_sum or is_product) or part == 0 or not part.free_symbols.isdisjoint(tensors):
        return None
    if call.rows and part.free_symbols.isdisjoint(call.rows):
        return None  # no row says how many steps there are
    row = part if part in call.rows else None
    sequence = call.sequences[call.rows.index(row)] if row is not None else _over_time(call, part, length)
    if is_sum:
        result = reductions.sum(sequence) if last else reductions.cumsum(flip(sequence) if reverse else sequence)
        found = result if first == 0 else result + first
    else:
        result = reductions.prod(sequence) if last else reductions.cumprod(flip(sequence) if reverse else sequence)
        found = result if first == 1 else first * result
    return flip(found) if reverse and not last else found


def _over_time(call: _Call, part: Any, length: Any) -> Any:
    """Return the vector of the values of `part` at the times 0, 1, ..., ``length - 1``. `part` is a scalar in a step of
    the scan ``call``; it depends on the time and on rows of sequences of numbers, but on no state.
    """
    names = {str(symbol) for symbol in free_symbols_in([part, *call.sequences]) - {call.time}}
    index = Symbol(next(name for n in count() if (name := f"t_{n}" if n else "t") not in names), integer=True)
    rows = {
        v: TensorEntry(sequence, index) for v, sequence in zip(call.rows, call.sequences, strict=True) if not v.rank
    }
    return TensorComprehension(part.xreplace({**rows, call.time: index}), (index, length))


def _result(parts: Any, kind: str, value: Any) -> Any:
    """Return the `Scan` node that combines the values of the expression `value` as ``kind`` says ("stack", "last" or
    "sum"); `parts` are the node's other arguments: states, sequences, time, length and direction.
    """
    return Scan(kind, value, *parts)


class _StateBlocks:
    """The recurrence of a scan in blocks of ``size`` steps (checkpointing), which saves memory: a derivative stores
    only the states at the start of each block, and computes those inside of a block again.
    """

    def __init__(self, call: _Call, updates: Sequence[Any], length: Any, reverse: bool, size: Any) -> None:
        if isinstance(size, bool) or not isinstance(size, (int, Integer)) or size < 1:
            raise ArgumentTypeError(f"td.scan: checkpoint must be a number of steps, 1, 2, …, not {size!r}")
        self.size, self.length, self.reverse = int(size), length, reverse
        self.count = length / Integer(size)
        if any(not number.is_Integer for number in self.count.atoms(Number)):
            raise ArgumentError(
                f"td.scan: checkpoint={size} does not divide the {length} steps: write the length as {size}*m"
            )
        self.times = Time(fresh_name(call.time.name)), Time(fresh_name(call.time.name))
        self.rule = {call.time: self.size * self.times[0] + self.times[1]}
        self.call = call
        self.starts = [ScanVariable(fresh_name(v.name), v.shape) for v in call.states]
        self.rows = [ScanVariable(fresh_name(v.name), (self.size, *v.shape)) for v in call.rows]
        self.inner = [*zip(call.states, self.starts, (u.xreplace(self.rule) for u in updates), strict=True)]
        ends = [self.block("last", update) for update in updates]
        self.states = [*zip(self.starts, call.initial, ends, strict=True)]
        self.sequences = [
            (row, reshape(sequence, (self.count, self.size, *shape_of(sequence)[1:])))
            for row, sequence in zip(self.rows, call.sequences, strict=True)
        ]

    def block(self, kind: str, value: Any) -> Any:
        """Return the `Scan` over the time steps of one block, which computes the expression `value` in each step.
        `kind` says how the values are combined: "stack", "last" or "sum".
        """
        sequences = [*zip(self.call.rows, self.rows, strict=True)]
        return Scan(kind, value.xreplace(self.rule), self.inner, sequences, self.times[1], self.size, self.reverse)

    def result(self, kind: str, value: Any) -> Any:
        """Return the recurrence with checkpoints as a `Scan` over blocks of time steps. It computes `value` in each
        time step, and `kind` says how the values are combined: "stack", "last" or "sum".
        """
        inside = self.block(kind, value)
        found = Scan(kind, inside, self.states, self.sequences, self.times[0], self.count, self.reverse)
        return reshape(found, (self.length, *shape_of(value))) if kind == "stack" else found


class _Call:
    """One call of `scan`: it makes the bound variables, calls the user's step function with them, and builds the
    results.
    """

    def __init__(self, step: Callable[..., Any], init: Any, xs: Any) -> None:
        self.step = step
        names = _parameters(step)
        self.named = isinstance(init, Mapping)
        if self.named != isinstance(xs, Mapping) and xs is not None:
            raise ArgumentTypeError(
                "td.scan: if init is a dict of named states, xs is a dict of named sequences, and the other way round"
            )
        self.is_tuple = self.named or isinstance(init, (tuple, list, Tuple))
        state_names, initial = _named_parts(init, names[0] if names else "h")
        has_rows = xs is not None
        row_names, sequences = _named_parts(xs, names[1] if len(names) > 1 else "x") if has_rows else ([], [])
        self.initial = [operand(value, "the initial value of a scan") for value in initial]
        self.sequences = [operand(value, "a sequence of a scan") for value in sequences]
        if not self.initial and not self.named:  # a dict of none: a function of rows, as derivatives may be
            raise ArgumentError("td.scan: there is no state: init is empty")
        if scalar := next((sequence for sequence in self.sequences if not shape_of(sequence)), None):
            raise no_sequence(scalar)
        self.states = [_variable(n, shape_of(a)) for n, a in zip(state_names, self.initial, strict=True)]
        self.takes_rows_in_tuple = isinstance(xs, (tuple, list, Tuple))
        self.names, self.state_names, self.row_names, self.has_rows = names, state_names, row_names, has_rows
        self.time = Time(fresh_name(self._time_name()))
        own = zip(row_names, self.sequences, strict=True)
        self.given_rows = [a[self.time] if _is_data(a) else _variable(n, shape_of(a)[1:]) for n, a in own]
        self.data = [sequence for sequence in self.sequences if _is_data(sequence)]
        self.rows = [row for row in self.given_rows if isinstance(row, ScanVariable)]
        self.sequences = [sequence for sequence in self.sequences if not _is_data(sequence)]

    def _time_name(self) -> str:
        """Return the name of the step function's parameter for the time; "t" if it has none."""
        if self.named:
            rest = [name for name in self.names if name not in (*self.state_names, *self.row_names)]
            return rest[0] if rest else "t"
        place = 2 if self.has_rows or len(self.names) > 2 else 1
        return self.names[place] if len(self.names) > place else "t"

    def checked_length(self, length: Any) -> Any:
        """Return the number of steps of the scan: ``length`` if it is given, else the number of rows of a sequence.
        Raise `ArgumentError` if there is neither, `ShapeError` if a sequence of integers, whose entries are used as
        indices, has another number of rows.

        Other sequences are checked when the `Scan` is built.
        """
        sequences = [*self.sequences, *self.data]
        if length is None and not sequences:
            raise ArgumentError("td.scan: without xs, length= must say how many steps there are")
        steps = shape_of(sequences[0])[0] if length is None else as_expr(length, "the length of a scan")
        for sequence in self.data:
            check_rows(sequence, steps)
        return steps

    def run(self) -> tuple[list[Any], list[Any] | None, bool]:
        """Call the user's step function; return ``(next states, outputs or None, whether the outputs are a tuple)``."""
        given = self._arguments()
        try:
            result = self.step(*given)
        except TypeError as error:
            raise ArgumentTypeError(
                f"td.scan: the step raised {type(error).__name__}: {error}; it was called with "
                f"{', '.join(map(str, given))}, as step(state, x, t): where init is a dict, it has a parameter "
                "for each state"
            ) from error
        sequence = (tuple, list, Tuple)
        is_pair = isinstance(result, sequence) and len(result) == 2
        if self.is_tuple and len(self.states) > 1:
            is_pair = is_pair and isinstance(result[0], sequence)
        new, output = result if is_pair else (result, None)
        if self.named and len(self.states) == 1 and not isinstance(new, sequence):
            new = (new,)
        several = isinstance(new, sequence)
        if several != self.is_tuple or (several and len(new) != len(self.states)):
            expected = f"a tuple of {len(self.states)} states" if self.is_tuple else "one state"
            raise ArgumentError(
                f"td.scan: the step returns {result}, but the state is {expected}, as init is: return the next state, "
                "or the pair (next state, output)"
            )
        updates = [operand(part, "the step's new state") for part in (new if several else [new])]
        if not is_pair:
            return updates, None, False
        structure = isinstance(output, (tuple, list, Tuple))
        outputs: Any = output if structure else [output]
        return updates, [operand(part, "an output of a step") for part in outputs], structure

    def with_rows(
        self, updates: list[Any], outputs: list[Any] | None, length: Any
    ) -> tuple[list[Any], list[Any] | None]:
        """Return ``(updates, outputs)``, the expressions of a step, with each read ``A[t]`` at the step's time ``t``
        replaced by a variable for that row of ``A``, which becomes a sequence of the scan.

        ``length`` is the number of steps.
        """
        known = dict(zip([(sequence, None) for sequence in self.sequences], self.rows, strict=True))
        for entry in nodes_in([*updates, *(outputs or ())]):
            key = _read_row(entry, self.time, length)
            if key is not None and key not in known:
                sequence = _selected_rows(entry, self.time, length) if any(key[1:]) else entry.tensor
                known[key] = _variable(entry.tensor.name, shape_of(sequence)[1:])
                self.sequences.append(sequence)
                self.rows.append(known[key])
        rows = _Rows(self.time, length, known)
        return [*map(rows.run, updates)], None if outputs is None else [*map(rows.run, outputs)]

    def _arguments(self) -> list[Any]:
        """Return the arguments with which to call the step function; raise `ArgumentTypeError` if its parameters do not
        fit.
        """
        if self.named:
            names = [*self.state_names, *self.row_names]
            known = dict(zip(names, [*self.states, *self.given_rows], strict=True))
            missing = [name for name in known if name not in self.names]
            rest = [name for name in self.names if name not in known]
            if missing or len(rest) > 1:
                raise ArgumentTypeError(
                    f"td.scan: the step has the parameters {', '.join(self.names)}: it needs one for each of "
                    f"{', '.join(known)}, and at most one more for the time"
                )
            return [known.get(name, self.time) for name in self.names]
        state = tuple(self.states) if self.is_tuple else self.states[0]
        row = (tuple(self.given_rows) if self.takes_rows_in_tuple else self.given_rows[0]) if self.has_rows else None
        count = len(self.names)
        if not 1 <= count <= 3:
            raise ArgumentTypeError(f"td.scan: the step takes {count} arguments: step(state), or step(state, x, t)")
        if count == 2 and not self.has_rows:
            return [state, self.time]
        return [state, row, self.time][:count]


def _is_data(sequence: Any) -> bool:
    """Return whether ``sequence`` is a tensor variable of integers: its entries are then used as indices."""
    return isinstance(sequence, TensorSymbol) and sequence.dtype is int


def _read_row(entry: Any, time: Any, length: Any) -> tuple[Any, ...] | None:
    """Return a key that is the same for all entries of the row that ``entry`` reads in the step at ``time``: ``(A,
    None)`` for ``A[t, j]``, and ``(A, idx[t], None)`` for ``A[idx[t], j]``. None if ``entry`` reads no such row.

    ``length`` is the number of steps.
    """
    if not isinstance(entry, TensorEntry) or type(entry.tensor) is not TensorSymbol or entry.tensor.dtype is not float:
        return None
    tensor, indices = entry.tensor, entry.indices
    if indices and indices[0] == time:
        return (tensor, None) if same_extent(tensor.shape[0], length) else None
    data = tuple([index if _is_entry_of_data(index, time, length) else None for index in indices])
    rest = [index for index, own in zip(indices, data, strict=True) if own is None]
    return (tensor, *data) if any(data) and time not in free_symbols_in(rest) else None


def _is_entry_of_data(index: Any, time: Any, length: Any) -> bool:
    """Return whether ``index`` is ``idx[t]``, an entry of an integer array at the time ``t`` of a scan, where the array
    has one entry for each of the ``length`` steps.
    """
    is_entry = isinstance(index, TensorEntry) and _is_data(index.tensor) and index.indices == (time,)
    return is_entry and same_extent(index.tensor.shape[0], length)


def _selected_rows(entry: TensorEntry, time: Any, length: Any) -> Any:
    """Return the tensor of the rows that ``entry``, such as ``A[idx[t], j]``, reads while ``time`` runs over 0, ...,
    ``length - 1``: its row ``t`` is ``A[idx[t]]``.
    """
    index, *own = fresh_indices(1 + len(entry.indices), [entry.tensor, length], ["t"])
    limits, places = [(index, length)], []
    for place, extent in zip(entry.indices, entry.tensor.shape, strict=True):
        is_data = _is_entry_of_data(place, time, length)
        places.append(place.xreplace({time: index}) if is_data else own.pop(0))
        limits += [] if is_data else [(places[-1], extent)]
    return TensorComprehension(TensorEntry(entry.tensor, *places), *limits)


class _Rows(Rewriting):
    """Rewrites the step of a recurrence: reads of a sequence's row at the current ``time``, ``A[t]`` or ``A[idx[t]]``,
    become the variables to which ``known`` maps these rows.
    """

    def __init__(self, time: Any, length: Any, known: Mapping[Any, Any]) -> None:
        super().__init__()
        self.time, self.length, self.known = time, length, known

    def visit_entry(self, expr: TensorEntry, bound_indices: BoundIndices) -> Recursion[Any]:
        """Replace a read at the time ``t`` of the step, as ``A[t, i]`` or ``A[idx[t], i]``, by ``a[i]``, where ``a`` is
        the scan's variable for that row. If there is none, return ``expr`` with rewritten arguments.
        """
        key = _read_row(expr, self.time, self.length)
        tensor, *indices = yield self.all(expr.args, bound_indices)
        if key is None or key not in self.known:
            return with_args(expr, [tensor, *indices])
        rest = [index for index, place in zip(indices, expr.indices, strict=True) if place not in (self.time, *key[1:])]
        row = self.known[key]
        return row[tuple(rest)] if row.rank else row

    def visit_comprehension(self, expr: TensorComprehension, bound_indices: BoundIndices) -> Recursion[Any]:
        """Return the comprehension ``expr`` with its operands rewritten. If it then only copies a row, as ``x[i]`` for
        all i, return the variable ``x`` of the row.
        """
        new = yield from super().rebuilt(expr, bound_indices)
        body = getattr(new, "body", None)
        if isinstance(body, TensorEntry) and body.tensor in self.known.values():
            shape = tuple(body.tensor.shape)
            if tuple(body.indices) == tuple(new.indices) and tuple(new.shape) == shape:
                return body.tensor
        return new

    rules: ClassVar[Rules] = {TensorEntry: visit_entry, TensorComprehension: visit_comprehension}


def _parameters(step: Callable[..., Any]) -> list[str]:
    """Return the names of the positional parameters of ``step`` that have no default value."""
    try:
        found = signature(step).parameters.values()
    except (TypeError, ValueError):
        return ["h", "x"]
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in found if p.kind in kinds and p.default is Parameter.empty]


def _named_parts(value: Any, name: str) -> tuple[list[str], Sequence[Any]]:
    """Return ``(names, values)`` of the states or sequences in `value`: a mapping has names, items of a tuple get
    ``name`` with a number.
    """
    if isinstance(value, Mapping):
        return [checked_name(key) for key in value], [*value.values()]
    if isinstance(value, (tuple, list, Tuple)):
        return [f"{name}{n}" for n in range(len(value))], [*value]
    return [name], [value]


def _variable(name: str, shape: Sequence[Any]) -> Any:
    """Return a new bound variable with a unique name; once the scan is complete it is renamed to ``name``."""
    return ScanVariable(fresh_name(name), tuple(shape))
