"""The lines of a recurrence in a text, and the scans that are made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from sympy import Symbol, sympify

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.recurrence_notation import (
    HEADS,
    RecurrenceReader,
    inside_of,
    plain_name,
    split_lines,
    with_braced_rows,
)
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.recurrences.scans import Scan, ScanVariable, State, Time, fresh_name, needed_states
from sympy_tensordiff.symbolic.whole_tensors.einsum import FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of


class Line(NamedTuple):
    """A line such as ``h[t, i] = ...``: the name, the time, the other indices and the right side, all as text."""

    name: str
    time: str
    rest: str
    right: str


class Lines:
    """The lines after "where", which define recurrences. ``steps`` maps a name to the line that defines it at time
    ``t``; ``starts`` maps a state to the line of its value at time -1 (at ``T`` if it runs backwards).
    """

    def __init__(self, text: RecurrenceReader, lines: str) -> None:
        self.whole_text, self.notation = text, text.notation
        self.steps: dict[str, Line] = {}
        self.starts: dict[str, Line] = {}
        self.constants: dict[str, str] = {}
        for part in split_lines(lines, self.notation.separator):
            line = self.line(part)
            if line is None:
                continue
            if not line.time:
                self.constants[line.name] = line.right
            else:
                is_step = re.fullmatch(r"[a-z](_\d+)?", line.time)
                (self.steps if is_step else self.starts)[line.name] = line
        if not self.steps:
            raise text.error("no line after where has a time on its left side, as in h[t] = …")
        self.letter = next(iter(self.steps.values())).time
        for line in self.starts.values():
            if line.name not in self.steps:
                raise text.error(f"{line.name} has a first value and no step: write it at the time {self.letter}")
        self.time = Time(fresh_name(self.letter))
        self.below, self.depends = self.names_below(False), self.names_below(True)
        self.head_lengths: list[Any] = []  # the numbers of steps that the formula before "where" says
        self.active: set[str] = set()  # the names whose recurrences are being read
        self.stacks: dict[tuple[str, bool], Any] = {}
        self.done: dict[str, tuple[Any, ...]] = {}  # the recurrence of each name: values, states, rows, length

    def line(self, part: str) -> Line | None:
        """Return the text `part`, such as ``h[t, i] = ...``, as a `Line` with its name, time, other indices and right
        side; None if the text is blank. Raise an error if it has no such left side.
        """
        if self.notation.is_latex:
            part = re.sub(r"\\[;,:! ]|\\(begin|end)\{aligned\}|&", " ", part)
        if not part.strip():
            return None
        left = re.match(rf"\s*(?P<name>{self.notation.base})\s*(?:{self.notation.at})?\s*=(?!=)", part)
        if left is None:
            raise self.whole_text.error(
                f"{part.strip()[:60]} is not a line of a recurrence, such as h[t] = … or h[-1] = …", part.strip()[:20]
            )
        time = left["time"] or (left["short"] if self.notation.is_latex else None) or ""
        return Line(left["name"], time.replace(" ", ""), (left["rest"] or "").strip(), part[left.end() :])

    # ------------------------------------------------------------------------ dependence

    def reads(self, text: str) -> list[tuple[str, str]]:
        """Return pairs ``(name, time)`` for all names that `text` mentions: ``("h", "t-1")`` for ``h[t-1]``, ``("x",
        "")`` for ``x`` without a time.
        """
        found = re.finditer(rf"({self.notation.base})(?:\s*{self.notation.at})?", text)
        return [
            (m[1], (m["time"] or (m["short"] if self.notation.is_latex else "") or "").replace(" ", "")) for m in found
        ]

    def names_below(self, with_starts: bool) -> dict[str, set[str]]:
        """Return a dictionary from each defined name to all defined names on which it depends, directly or through
        others. Names in the initial values of states, such as ``h[-1] = x``, count only if ``with_starts`` is true.
        """
        texts = {one: [line.right for line in (self.steps[one], self.starts.get(one)) if line] for one in self.steps}
        own = {one: texts[one] if with_starts else texts[one][:1] for one in texts}
        needs = {
            one: {other for text in own[one] for other, _ in self.reads(text) if other in self.steps} for one in own
        }
        found = {}
        for one in needs:
            below: set[str] = set()
            stack = [*needs[one]]
            while stack:
                if (other := stack.pop()) not in below:
                    below.add(other)
                    stack += needs[other]
            found[one] = below
        return found

    def component(self, name: str) -> list[str]:
        """Return the names that one loop must compute together for the recurrence of `name`, in the order of the lines:
        `name`, and each state that depends on `name` and on which `name` depends.
        """
        both = [one for one in self.starts if name in self.below[one] and one in self.below[name]]
        return [one for one in self.steps if one == name or one in both]

    # ------------------------------------------------------------------------ scans

    def recurrence(self, name: str) -> tuple[Any, ...]:
        """Return the recurrence that defines `name` (cached), as a tuple ``(values, variables, initial, rows, lengths,
        is_reversed)``. The states are ``variables`` before a step, ``values`` after it and ``initial`` at first;
        ``rows`` has a variable for the current row of each sequence, such as ``x[t]``.

        The first four are dictionaries by name; ``lengths`` are known numbers of steps, and ``is_reversed`` says
        whether the recurrence runs backwards in time.
        """
        if name in self.done:
            return self.done[name]
        names = self.component(name)
        self.active.update(names)
        states = [one for one in names if one in self.starts]
        backwards = {self.starts[one].time != "-1" for one in states}
        if len(backwards) > 1:
            raise self.whole_text.error(f"{' and '.join(states)} need each other, and run in different directions")
        is_reversed = backwards == {True}
        length = [self.whole_text.size(self.starts[one].time) for one in states if is_reversed]
        length += [self.whole_text.tensors[one].shape[0] for one in names if one in self.whole_text.tensors]
        starts = {one: self.start(one) for one in states}
        candidates = self.shapes(starts)
        for shapes in candidates:
            initial = {
                one: value if shapes[one] == shape_of(value) else FilledTensor(value, shapes[one])
                for one, value in starts.items()
            }
            variables = {one: ScanVariable(fresh_name(plain_name(one)), shape) for one, shape in shapes.items()}
            own: dict[str, tuple[Any, Any]] = {}
            try:
                values = self.values(names, variables, own, is_reversed)
            except ParseError:
                if len(candidates) == 1:
                    raise
                continue
            zeros = {
                one: FilledTensor(values[one], shape)
                for one, shape in shapes.items()
                if shape and values[one].is_number
            }
            values |= zeros
            if all(shape_of(values[one]) == shape for one, shape in shapes.items()):
                break
        else:
            raise self.whole_text.error(
                f"the shapes of {', '.join(states)} do not fit: write the first values with their shapes, or "
                "declare the states, as in declare h[T, n]", self.steps[states[0]].right.strip()[:20]
            )  # fmt: skip
        found = values, variables, initial, own, length, is_reversed
        self.done.update(dict.fromkeys(names, found))
        self.active.difference_update(names)
        return found

    def values(
        self, names: list[str], variables: Mapping[str, Any], rows: dict[str, tuple[Any, Any]], is_reversed: bool
    ) -> dict[str, Any]:
        """Return a dictionary from `names` to their values after one step, as expressions in the states before it
        (`variables`) and in the current rows of sequences, such as ``x[t]``. New row variables are added to ``rows``.
        With `is_reversed`, the steps run backwards in time.
        """
        values: dict[str, Any] = {}
        for name in names:
            self.value_now(name, variables, values, rows, is_reversed)
        return values

    def value_now(
        self, name: str, variables: Mapping[str, Any], values: dict[str, Any],
        rows: dict[str, tuple[Any, Any]], is_reversed: bool,
    ) -> Any:  # fmt: skip
        """Return the value of `name` after the current step, as an expression in the states before it (``variables``)
        and in the current rows of sequences, such as ``x[t]``. Raise an error if the value depends on itself.

        New rows are added to ``rows``; ``values`` caches values. With ``is_reversed``, the recurrence runs backwards in
        time.
        """
        if name not in values:
            values[name] = None
            values[name] = self.read_in_step(
                self.steps[name].right, self.steps[name].rest, variables, values, rows, is_reversed
            )
        if values[name] is None:
            raise self.whole_text.error(f"{name} needs itself at the same time {self.letter}", name)
        return values[name]

    def start(self, name: str) -> Any:
        """Return the first value of the state `name` as an expression, from the line that defines it, such as ``h[-1] =
        x``. A plain 0 in this line gives the scalar 0, even if the state is a tensor.
        """
        line = self.starts[name]
        if found := re.fullmatch(r"\s*\\mathbf\{0\}(?:_\{(.*)\})?\s*", line.right):
            shape = [self.whole_text.size(part) for part in re.split(r"\\times", found[1])] if found[1] else []
            return FilledTensor(0, shape) if shape else sympify(0)
        return sympify(0) if re.fullmatch(r"\s*0\s*", line.right) else self.read_outside_steps(line.right, line.rest)

    def shapes(self, starts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return guesses of the shapes of all states of a recurrence, each a dictionary by name, which the caller tries
        in turn. ``starts`` has the first values: a state whose first value is a number may still be a tensor.

        Such a state has the declared shape, or any shape that occurs in the text.
        """
        tensors = self.whole_text.tensors
        certain = {one: shape_of(value) for one, value in starts.items() if shape_of(value) or not value.is_number}
        certain |= {one: tensors[one].shape[1:] for one in starts if one in tensors and one not in certain}
        open_ones = [one for one in starts if one not in certain]
        if not open_ones:
            return [certain]
        guesses: list[dict[str, Any]] = [{}]
        for one in open_ones:
            other = next(
                (name for name in self.steps if plain_name(one) == f"d{plain_name(name)}" and name not in self.active),
                None,
            )
            if other is not None:
                guesses[0][one] = shape_of(self.stacked(other))[1:]
        every = [tensor.shape for tensor in tensors.values()]
        sizes = dict.fromkeys(extent for shape in every for extent in shape)
        trials = dict.fromkeys([(), *((size,) for size in sizes), *map(tuple, every), *(tuple(s[1:]) for s in every)])
        guesses += [dict.fromkeys(open_ones, shape) for shape in trials]
        return [{**certain, **guess} for guess in guesses if len(guess) == len(open_ones)]

    def read_in_step(
        self, text: str, rest: str, variables: Mapping[str, Any], values: dict[str, Any],
        rows: dict[str, tuple[Any, Any]], is_reversed: bool,
    ) -> Any:  # fmt: skip
        """Parse `text`, the right side of a line such as ``W @ h[t-1] + x[t]``, as an expression for one time step. A
        state at the previous time, ``h[t-1]``, becomes its variable in ``variables``; a sequence at the current time,
        ``x[t]``, becomes a row variable, recorded in ``rows``.

        If ``is_reversed``, states are those at the next time. ``rest`` are the indices after the time on the left side.

        ``values`` caches the values of names at the current time.
        """
        before = f"{self.letter}{'+' if is_reversed else '-'}1"

        def row(key: str, sequence: Any) -> Any:
            """Return the variable for the current row of `sequence`, which ``rows``, a dictionary of the enclosing
            method, stores under `key`, the name in the text. The first use creates it.
            """
            if key not in rows:
                name = plain_name(key.rpartition("@")[0])
                name = name if name.isidentifier() else "r"
                rows[key] = ScanVariable(fresh_name(name), shape_of(sequence)[1:]), sequence
            return rows[key][0]

        def inserted_text(match: re.Match[str]) -> str:
            """Return the placeholder name that replaces `match`, a name read at a time, such as ``h_t``, before the
            text is parsed. Other text is returned unchanged.
            """
            name, time = (
                match["base"],
                (match["time"] or (match["short"] if self.notation.is_latex else "")).replace(" ", ""),
            )
            rest = f"[{match['rest'].strip()}]" if match["rest"] else ""
            declared = self.whole_text.tensors.get(plain_name(name))
            if time == before and name in variables:
                found = variables[name]
            elif time == self.letter and name in self.steps and (name in variables or name not in self.starts):
                found = self.value_now(name, variables, values, rows, is_reversed)
            elif name in self.steps and re.match(rf"{self.letter}(?![A-Za-z])", time):
                if name not in self.starts and time != self.letter:
                    raise self.whole_text.error(
                        f"{name} is read at {time}, and has no first value: add a line such as "
                        f"{self.example_of_start(name)}",
                        match[0],
                    )
                if name in variables or (time != self.letter and time != self.time_before(name)):
                    raise self.whole_text.error(
                        f"{name} is read at {time}: a step reads states at {before}, and others at {self.letter}; for "
                        f"older states, add a state that stores {name}", match[0]
                    )  # fmt: skip
                found = row(f"{name}@{time}", self.stacked(name, time != self.letter))
            elif time == self.letter and name not in self.steps:
                sequence = declared if declared is not None else self.read_outside_steps(inside_of(name))
                found = row(f"{name}@", sequence)
            else:
                return match[0]
            return self.whole_text.name_for(found) + rest

        text = re.sub(r"^\s*\\mathbf\{0\}(_\{[^{}]*\})?\s*$", "0", text)
        text = with_braced_rows(text, self.letter) if self.notation.is_latex else text
        text = re.sub(rf"(?P<base>{self.notation.base})\s*{self.notation.at}", inserted_text, text)
        value = self.read_outside_steps(text, rest, self.letter)
        return value.xreplace({indices(self.letter): self.time, Symbol(self.letter, integer=True): self.time})

    def example_of_start(self, name: str) -> str:
        """Return an example of a line that gives the first value of the state `name`, for an error message."""
        return f"{name}_{{-1}} = h_0" if self.notation.is_latex else f"{name}[-1] = h0"

    def time_before(self, name: str) -> str:
        """Return the time at which a step reads the state `name`, as text: ``t-1``, or ``t+1`` if the recurrence runs
        backwards. "" if `name` is not a state.
        """
        return "" if name not in self.starts else f"{self.letter}{'-' if self.starts[name].time == '-1' else '+'}1"

    def read_outside_steps(self, text: str, rest: str | None = None, letter: str = "") -> Any:
        """Parse `text`, an expression that is not part of a time step. In it, the name of a state without a time is the
        tensor of its values at all times, and the state at its last time is its last value.

        ``rest`` are the indices of the entry that the text defines (None: none); ``letter`` is the name of a time
        variable in it.
        """

        def replaced(match: re.Match[str]) -> str:
            """Return the placeholder name that replaces `match`, a name that a line defines: it stands for a constant,
            for the values of a state at all times, or for its last value. Any other text is returned unchanged.
            """
            name, time = match["base"], (match["time"] or (match["short"] if self.notation.is_latex else "") or "")
            if name in self.constants and not time:
                return self.whole_text.name_for(self.read_outside_steps(self.constants[name]))
            if name not in self.steps or match["rest"] or self.whole_text.is_declared(match[0]):
                return match[0]
            if name in self.active:
                raise self.whole_text.error(f"{name} needs itself at other times than the one before", match[0])
            if not time:
                return self.whole_text.name_for(self.stacked(name))
            length, is_reversed = self.length(name), self.recurrence(name)[5]
            at = self.whole_text.size(time)
            if at - (0 if is_reversed else length - 1) != 0:
                return match[0]
            return self.whole_text.name_for(self.scan("last", name, self.recurrence(name)[0][name]))

        names = sorted(map(re.escape, [*self.steps, *self.constants]), key=len, reverse=True)
        guard = r"(?<![A-Za-z\\{])(?<!\\mathrm\{d\})" if self.notation.is_latex else r"(?<![\w.])"
        end = r"(?![A-Za-z}])" if self.notation.is_latex else r"(?!\w)"
        text = re.sub(rf"{guard}(?P<base>{'|'.join(names)}){end}(?:\s*{self.notation.at})?", replaced, text)
        return self.whole_text.expression(text, rest, letter)

    def length(self, name: str) -> Any:
        """Return the number of steps of the recurrence of `name`; raise an error if nothing determines it."""
        _, _, _, rows, known, _ = self.recurrence(name)
        known = [*known, *(shape_of(sequence)[0] for _, sequence in rows.values()), *self.head_lengths]
        known += [self.whole_text.size(line.time) for line in self.starts.values() if line.time != "-1"]
        if not known:
            raise self.whole_text.error(
                f"the number of steps of {name} is not clear: declare it, as in declare h[T, n]"
            )
        return known[0]

    def scan(self, kind: str, name: str, value: Any, more: Mapping[str, tuple[Any, Any]] | None = None) -> Any:
        """Return a scan (loop over time) of the recurrence that defines `name`, in which each step computes `value`.
        Its result is all of these values stacked, the last one, or their sum, as ``kind`` says: "stack", "last" or
        "sum".

        ``more`` maps names to further pairs of a row variable and its sequence.
        """
        values, variables, initial, rows, _, is_reversed = self.recurrence(name)
        needed = needed_states([(variables[one], values[one]) for one in variables], [value])
        states = [State(variables[one], initial[one], values[one]) for one in variables if variables[one] in needed]
        free = free_symbols_in([value, *(state.update for state in states)])
        used = [pair for pair in {**rows, **(more or {})}.values() if pair[0] in free]
        if not states and kind == "stack" and value in [variable for variable, _ in used]:
            return dict(used)[value]
        return Scan(kind, value, states, used, self.time, self.length(name), is_reversed)

    def stacked(self, name: str, is_before: bool = False) -> Any:
        """Return the values of `name` at all times, stacked to one tensor; with `is_before`, the values before each
        time step.
        """
        key = name, is_before
        if key not in self.stacks:
            self.stacks[key] = self._stacked(name, is_before)
        return self.stacks[key]

    def _stacked(self, name: str, is_before: bool) -> Any:
        """Compute the tensor of the values of `name` in all steps of the recurrence; if `is_before`, the values before
        each step. (`stacked` caches it.)
        """
        if name not in self.starts:
            return self.value_of_step("stack", self.steps[name].right, self.steps[name].rest)
        values, variables, *_ = self.recurrence(name)
        return self.scan("stack", name, variables[name] if is_before else values[name])

    def stacked_values(self) -> dict[str, Any]:
        """Return a dictionary from each name that a line defines to the tensor of its values at all times."""
        return {name: self.stacked(name) for name in self.steps}

    # ------------------------------------------------------------------------ the formula before the lines

    def value(self, head: str) -> Any:
        """Parse the formula `head`, which is before "where" in the text of a recurrence, and return its expression.
        Return None in index notation, whose formulas have a left side instead.
        """
        if self.notation.has_left_sides:
            return None
        head = re.sub(r"\\[;,:! ]", " ", head).strip() if self.notation.is_latex else head
        for kind, pattern in HEADS.items() if self.notation.is_latex else ():
            found = re.fullmatch(pattern, head, re.DOTALL)
            if found is None or found["letter"].strip() != self.letter:
                continue
            end = self.whole_text.size(found["end"])
            self.head_lengths = [] if end == 0 else [end if kind == "stack" else end + 1]
            return self.value_of_step(kind, found["body"])
        return self.read_outside_steps(head)

    def value_of_step(self, kind: str, body: str, rest: str = "") -> Any:
        """Return the values of the formula `body` over all steps, as `kind` says: stacked ("stack"), the last one
        ("last"), or their sum ("sum"). ``rest`` are the indices after the time on the left side, if `body` defines a
        tensor.
        """
        read = [name for name in self.states_in(body) if name in self.starts]
        if not read:
            rows: dict[str, tuple[Any, Any]] = {}
            value = self.read_in_step(body, rest, {}, {}, rows, False)
            if kind == "stack" and value in (sequences := dict(rows.values())):
                return sequences[value]
            lengths = [*(shape_of(sequence)[0] for _, sequence in rows.values()), *self.head_lengths]
            if not lengths:
                raise self.whole_text.error(
                    "the number of steps is not clear: no line reads a declared row", body.strip()
                )
            return Scan(kind, value, [], list(rows.values()), self.time, lengths[0], False)
        main = max(read, key=lambda name: len(self.depends[name]))
        values, variables, _, known, _, is_reversed = self.recurrence(main)
        more = dict(known)
        value = self.read_in_step(body, rest, variables, dict(values), more, is_reversed)
        return self.scan(kind, main, value, more)

    def states_in(self, body: str) -> list[str]:
        """Return the names that `body` reads at a time, such as ``h`` in ``h[t-1]``, and that a line defines. For a
        name without a first value, add the names that its own definition reads.
        """
        found: dict[str, None] = {}
        texts = [body]
        while texts:
            for name, time in self.reads(texts.pop()):
                if time and name in self.steps and name not in found:
                    found[name] = None
                    texts += [] if name in self.starts else [self.steps[name].right]
        return [*found]
