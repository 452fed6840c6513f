"""Printing of scans: the text is a call of `td.scan` with a lambda expression, the formula is the recursion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from sympy import Tuple
from sympy.core.symbol import Str
from sympy.printing.pretty.stringpict import prettyForm

from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.depth import MAX_PRINTED_DEPTH, measures
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, names_in, nodes_in, scans_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.printing.printed_forms import (
    MOST_NODES,
    MarkedVariable,
    PrintedForms,
    SymbolForms,
    names_a_point,
    refuse_unprintable,
    text_instead,
)
from sympy_tensordiff.symbolic.recurrences.scans import without_fresh_number
from sympy_tensordiff.symbolic.whole_tensors.elementwise import Entrywise


class ScanForms(PrintedForms):
    """The printed forms of one scan (a recurrence over time): a call of `scan` in text, a recursion in LaTeX."""

    def text(self, printer: Any) -> str:
        """Return the text of a scan: the call of `scan` that makes it."""
        if names_a_point(printer) or not _is_printable(self.node):
            return str(text_instead(self.node, printer))
        call, (selection,) = _calls([self.node], printer._print)
        return call + selection

    def latex(self, printer: Any) -> str:
        """Return the LaTeX of a scan: the value of one step, followed by the recursion of the states."""
        formula = _formula(self.node, printer._print)
        return formula if printer._print_level == 1 else rf"\left({formula}\right)"

    def pretty(self, printer: Any) -> Any:
        """Return the two-dimensional form in which SymPy prints a scan: one line, the text that `str` gives."""
        return prettyForm(str(self.node))


class ScanVariableForms(SymbolForms):
    """The printed forms of a variable that a scan binds: the name as the user wrote it."""

    def text(self, printer: Any) -> str:
        """Return the name as the user wrote it."""
        return without_fresh_number(self.node.name)

    def constructor(self, printer: Any) -> str:
        """Return the constructor call of a variable that a scan binds, as text for `srepr`."""
        return f"ScanVariable({self.node.name!r}, {printer._print(self.node.args[1])})"


def _is_printable(scan: Any) -> bool:
    """Return whether a scan can be printed: its text is short enough, if necessary after the common subexpressions of
    its steps have got names.
    """
    found = measures(scan)
    if not found.is_unprintable:
        return True
    if found.depth > MAX_PRINTED_DEPTH or len(nodes_in([scan])) > MOST_NODES:
        return False
    parts, steps = _parts_in_text(tuple(scan.steps))
    return not any(measures(part).is_unprintable for part in (*steps, *(part for _, part in parts)))


@lru_cache(256)
def _parts_in_text(steps: tuple[Any, ...]) -> tuple[Sequence[tuple[Any, Any]], Sequence[Any]]:
    """Return ``(parts, reduced)`` for printing the ``steps`` of a scan as text: pairs ``(symbol, subexpression)`` for
    the common subexpressions, and the steps written with these symbols.
    """
    return hooks.step_parts(steps, True)  # type: ignore[no-any-return]


def _calls(scans: Sequence[Any], show: Any) -> tuple[str, list[str]]:
    """Return ``(call, selections)`` for printing `scans`, results of one recurrence: the text of one call ``scan(...)``
    that computes all of them, and for each the text that selects it from the result, such as ``[0]``.

    ``show(expr)`` prints an expression.

    Sums are printed separately from other results.
    """
    scan = scans[0]
    states, sequences = scan.states, scan.sequences
    updates = [state.update for state in states]
    kind = "last" if any(one.kind == "last" and one.value in updates for one in scans) else "stack"
    outputs = [*dict.fromkeys(one.value for one in scans if one.kind != kind or one.value not in updates)]
    named = len(states) != 1 or len(sequences) > 1
    names = [variable.name for variable in scan.bound[:-1]]
    names += [scan.time.name] * (scan.time in free_symbols_in([*updates, *outputs]))
    lets, shown = _shown_steps(scan, [*updates, *outputs], show)
    new, values = shown[: len(states)], shown[len(states) :]
    body = f"({', '.join(new)}{',' * (len(new) == 1)})" if named else new[0]
    if values:
        body = f"({body}, {values[0] if len(values) == 1 else '(' + ', '.join(values) + ')'})"
    if lets:
        body = f"({', '.join([*lets, body])})[-1]"
    initial, rows = _shown_outer(scan, show)
    if named:
        first = "{" + ", ".join(f'"{s.variable.name}": {text}' for s, text in zip(states, initial, strict=True)) + "}"
        second = "{" + ", ".join(f'"{v.name}": {text}' for (v, _), text in zip(sequences, rows, strict=True)) + "}"
        second = second if rows else ""
    else:
        first, second = initial[0], rows[0] if rows else ""
    options = [f"length={show(scan.length)}"] * (not rows) + ["reverse=True"] * scan.reverse
    options += ["last=True"] * (kind == "last") + ["total=True"] * (scan.kind == "sum")
    arguments = ", ".join(filter(None, (f"lambda {', '.join(names)}: {body}", first, second, *options)))
    selections = []
    for one in scans:
        if one.kind == kind and one.value in updates:
            selections.append("[0]" * bool(values) + (f"[{updates.index(one.value)}]" if named else ""))
        else:
            end = f"[{0 if scan.reverse else show(scan.length - 1)}]" * (one.kind == "last")
            selections.append("[1]" + (f"[{outputs.index(one.value)}]" if len(outputs) > 1 else "") + end)
    return f"scan({arguments})", selections


def _shown_steps(scan: Any, steps: Sequence[Any], show: Any) -> tuple[list[str], list[str]]:
    """Return ``(definitions, texts)`` to print ``steps``, expressions of the recurrence `scan`: a text ``u := ...`` for
    each part that they share, and the steps with these names in it. ``show(expr)`` prints an expression.
    """
    found, reduced = _parts_in_text(tuple(steps))
    taken = names_in([*steps, *scan.bound])
    letters = (n for n in _letters() if n not in taken)
    rule = {symbol: TensorSymbol(next(letters), symbol.shape) for symbol, _ in found}
    lets = [f"{rule[symbol].name} := {show(part.xreplace(rule))}" for symbol, part in found]
    return lets, [show(step.xreplace(rule)) for step in reduced]


def _letters() -> Iterator[str]:
    """Yield the names of common parts of steps, in order: u, v, ..., then u_1, ...."""
    return (f"{letter}_{n}" if n else letter for n in count() for letter in "uvwzgfemo")


_BETWEEN = "\1"
"""Stands between texts: those that name their parts have several lines."""


def _shown_outer(scan: Any, show: Any) -> tuple[list[str], list[str]]:
    """Return ``(texts of the initial values, texts of the sequences)`` of a scan. A recurrence that occurs several
    times in these is named where it occurs first: ``(states := scan(...))``. ``show(expr)`` prints an expression.
    """
    groups: dict[Any, list[Any]] = {}
    for one in scans_in(scan.outer):
        groups.setdefault((one.recurrence, one.kind == "sum"), []).append(one)
    found: list[tuple[str, str]] = []
    rule: dict[Any, Any] = {}
    for group in groups.values():
        mark = f"\0{len(found)}\0"
        call, selections = _calls(group, show)
        found.append((mark, call))
        rule |= {one: _marked(one, mark + selection) for one, selection in zip(group, selections, strict=True)}
    texts = [show(part.xreplace(rule)) for part in scan.outer]
    whole = _BETWEEN.join(texts)
    taken = "".join([whole, *(call for _, call in found)])
    names = (name for n in count() if (name := f"states_{n}" if n else "states") not in taken)
    for mark, call in found:
        is_repeated = whole.count(mark) > 1
        if is_repeated:
            name = next(names)
            whole = whole.replace(mark, f"({name} := {call})", 1)
        whole = whole.replace(mark, name if is_repeated else call)
    texts = whole.split(_BETWEEN) if texts else []
    return texts[: len(scan.states)], texts[len(scan.states) :]


def _formula(scan: Any, show: Any) -> str:
    """Return the LaTeX of a scan: the value of a step, "where", and the recursions of the states on which it depends.
    The lines are aligned if parts of the steps have names. ``show(expr)`` prints an expression.
    """
    head, lines, has_parts = _recursion(scan, show, set())
    if not has_parts:
        return rf"{head} \;\text{{where}}\; " + r",\; ".join(lines)
    rows = " \\\\\n".join(line.replace(" = ", " &= ", 1) for line in lines)
    return f"{head} \\;\\text{{where}}\\; \\begin{{aligned}}\n{rows}\n\\end{{aligned}}"


def _recursion(scan: Any, show: Any, named: set[str]) -> tuple[str, list[str], bool]:
    """Return ``(LaTeX, lines, has_parts)`` of ``scan``, a recurrence over time: the LaTeX of its result, the lines that
    define the names in it, and whether parts of the steps have names.

    New names avoid ``named`` and are added to it; ``show(expr)`` prints an expression.
    """
    time, before = show_time(scan), _time_before(scan)
    found, (value, *updates) = hooks.step_parts(scan.steps, False)
    for expr in (value, *updates, *(part for _, part in found)):
        refuse_unprintable(expr, "LaTeX")
    rule = {}
    for state in scan.states:
        if not state.is_constant:
            rule[state.variable] = before
    parts = _named_parts(scan, found, show, time, named)
    stored = _StoredStates(scan, show, time, named)
    entrywise = {
        variable: _entrywise_row(sequence.xreplace(stored.names), variable.rank + 1, time, show)
        for variable, sequence in scan.sequences
        if variable not in stored.rows
    }
    for variable, row in entrywise.items():
        if row is not None and sum(isinstance(symbol, TensorSymbol) for symbol in row.free_symbols) <= 2:
            stored.rows[variable] = row
    marked = _StepWriter(show, {**rule, **{variable: time for variable, _ in scan.sequences}}, stored.rows | parts)
    lines = []
    for state, update in zip(scan.states, updates, strict=True):
        name = show(state.variable)
        if state.is_constant:
            lines.append(rf"{name} = {show(state.initial)}")
            continue
        start = show(scan.length) if scan.reverse else "-1"
        lines.append(rf"{_indexed(name, time)} = {marked(update)}")
        lines.append(rf"{_indexed(name, start)} = {show(state.initial.xreplace(stored.names))}")
    lines += [f"{show(parts[symbol])} = {marked(part)}" for symbol, part in found]
    for variable, sequence in scan.sequences:
        if variable not in stored.rows:
            name, row = _indexed(show(variable), time), entrywise[variable]
            row = _row(sequence.xreplace(stored.names), scan.time, show) if row is None else show(row)
            lines += [f"{name} = {row}"] * (name != row)
    lines += stored.lines
    shown = next((_indexed(show(s.variable), time) for s in scan.states if s.update == scan.value), None)
    shown = marked(value) if shown is None else shown
    low, high = f"{time} = 0", f"{show(scan.length)} - 1"
    if scan.kind == "sum":
        head = rf"\sum_{{{low}}}^{{{high}}} {shown}"
    elif scan.kind == "stack":
        head = rf"\left[{shown}\right]_{{{time} < {show(scan.length)}}}"
    else:
        head = rf"\left.{shown}\right|_{{{time} = {'0' if scan.reverse else high}}}"
    return head, list(dict.fromkeys(lines)), bool(found) or stored.has_parts


def _named_parts(scan: Any, found: Any, show: Any, time: str, named: set[str]) -> dict[Any, Any]:
    """Choose printed letters for the subexpressions ``found`` of a scan, pairs ``(symbol, definition)`` whose
    definitions are printed on lines of their own. Return a dictionary from the symbols to variables that are printed as
    letters.

    If the definition changes with the time of ``scan``, the letter has the subscript ``time``. ``named`` are the
    letters in use, to which new ones are added. ``show(expr)`` prints an expression.
    """
    symbols = free_symbols_in([part for one in [scan, *scans_in(scan.outer)] for part in (*one.steps, *one.outer)])
    taken = {show(symbol)[:1] for symbol in symbols}
    letters = (name for n in count() for letter in "uvwzgfemo" if letter not in taken
               if (name := letter if n == 0 else f"{letter}_{{{n}}}") not in named)  # fmt: skip
    varying, shown = set(scan.bound), {}
    for symbol, part in found:
        name = next(letters)
        named.add(name)
        if not varying.isdisjoint(part.free_symbols):
            varying.add(symbol)
            name = _indexed(name, time)
        shown[symbol] = _marked(symbol, name)
    return shown


class _StoredStates:
    """The other recurrences whose states at all times a scan reads. Their formulas in LaTeX become part of the formula
    of the scan, and their states get printed names such as ``h_{t-1}``.

    ``rows`` maps variables of sequences to what is printed for them, such as ``h_{t-1}``, ``names`` the stacked states
    in other sequences to variables. ``lines`` are the recursions; ``has_parts`` says whether their steps have parts.
    """

    def __init__(self, scan: Any, show: Any, time: str, named: set[str]) -> None:
        self.rows: dict[Any, Any] = {}
        self.names: dict[Any, Any] = {}
        self.lines: list[str] = []
        self.has_parts = False
        taken = {show(state.variable) for state in scan.states}
        taken |= {show(symbol) for step in scan.steps for symbol in step.free_symbols if symbol not in scan.bound}
        own = {show(variable): sequence for variable, sequence in scan.sequences}
        known: dict[Any, bool] = {}
        nodes = [node for part in scan.outer for node in scans_in([part]) if node.kind != "sum"]
        for one in dict.fromkeys(nodes):
            if one.recurrence not in known:
                names = {show(state.variable) for state in one.states}
                rows = {show(variable): sequence for variable, sequence in one.sequences}
                is_clear = taken.isdisjoint(names) and all(own.get(name, row) == row for name, row in rows.items())
                known[one.recurrence] = show_time(one) == time and is_clear
                if known[one.recurrence]:
                    taken |= names
                    _, lines, has_parts = _recursion(one, show, named)
                    self.lines += lines
                    self.has_parts |= has_parts
            if not known[one.recurrence]:
                continue
            state = next((s for s in one.states if one.value in (s.update, s.variable)), None)
            if state is None:
                continue
            index = time if one.value == state.update else _time_before(one).replace(" ", "")
            for variable, sequence in scan.sequences:
                if sequence == one and one.kind == "stack":
                    self.rows[variable] = _marked(variable, _indexed(show(state.variable), index))
            if one.value == state.update:
                name, end = show(state.variable), "0" if one.reverse else f"{show(one.length)}-1"
                self.names[one] = _marked(one, name if one.kind == "stack" else _indexed(name, end))


def _time_before(scan: Any) -> str:
    """Return the printed time index of the states before a step: ``t - 1``, or ``t + 1`` for a reversed scan."""
    return f"{show_time(scan)} {'+' if scan.reverse else '-'} 1"


def show_time(scan: Any) -> str:
    """Return the name of the time variable as it is printed in a scan's formula."""
    return str(scan.time.name)


def _indexed(name: str, time: str) -> str:
    """Return ``name`` in LaTeX with the time as a subscript; in braces first if it has a subscript already."""
    return f"{name}_{{{time}}}" if "_" not in name else rf"{{{name}}}_{{{time}}}"


def _entrywise_row(expr: Any, rank: int, time: str, show: Any) -> Any | None:
    """Return the row of ``expr`` at the time ``time``, such as ``2*h_t - y_t`` for ``2*h - y``. None unless ``expr`` is
    an elementwise operation on stacked states and tensor symbols with ``rank`` axes.

    ``show`` prints names.
    """
    if not isinstance(expr, Entrywise):
        return None
    rows = {}
    for operand in expr.operands:
        own = len(getattr(operand, "shape", ()))
        if own == rank and isinstance(operand, TensorSymbol) and operand.shape[0] == expr.shape[0]:
            row = MarkedVariable._unchecked(Str(_indexed(show(operand), time)), Tuple(*operand.shape[1:]))
        else:
            row = _entrywise_row(operand, rank, time, show) if own == rank else operand
        if row is None:
            return None
        rows[operand] = row
    return expr.applied(*rows.values()) if rank == 1 else expr.func(*(rows.get(arg, arg) for arg in expr.args))


def _row(sequence: Any, time: Any, show: Any) -> str:
    """Return the LaTeX of the row of `sequence` at the symbol `time`: ``x_t``, or the formula of the row for a
    comprehension. ``show(expr)`` prints an expression.
    """
    if isinstance(sequence, TensorComprehension):
        (_, *limits) = [limit.args for limit in sequence.limits]
        body = sequence.write_out((time, *(index for index, _ in limits)))
        return str(show(sequence.func(body, *limits) if limits else body))
    text = show(sequence)
    is_closed = text.isalnum() or text.startswith(("\\mathrm", r"\left("))
    return _indexed(text if is_closed else rf"\left({text}\right)", str(time.name))


class _StepWriter:
    """Prints the steps of a scan in LaTeX, with the time as a subscript of each bound variable."""

    def __init__(self, show: Any, times: dict[Any, str], others: dict[Any, Any]) -> None:
        self.show = show
        self.names = {v: _marked(v, _indexed(show(v), time.replace(" ", ""))) for v, time in times.items()} | others

    def __call__(self, expr: Any) -> str:
        """Return the formula of ``expr``."""
        return str(self.show(expr.xreplace(self.names)))


def _marked(variable: Any, text: str) -> Any:
    """Return a copy of ``variable`` that is printed as ``text``."""
    return MarkedVariable._unchecked(Str(text), Tuple(*variable.shape))
