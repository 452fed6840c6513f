"""Fewer accumulators and fewer additions in functions of whole arrays that change no array."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from sympy_tensordiff.codegen.ir.loops import Set, Statement, is_accumulator, is_addition, is_store, reduction_of
from sympy_tensordiff.codegen.ir.scalars import Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import rewrite, rewrite_scalar, subexpressions
from sympy_tensordiff.codegen.ir.walk import values as values_in


def with_joined_sums(
    body: tuple[Statement, ...], axes: Mapping[str, frozenset[str]], fixed: Collection[str]
) -> tuple[Statement, ...]:
    """Join accumulators in the statements ``body`` that are used only in one sum: if ``s + t`` is stored, add the terms
    of ``t`` to ``s`` instead, and drop ``t``. Return the new statements.

    Only sums with equal ``axes`` (a dictionary from accumulators to the axes of their arrays) are joined; those named
    in ``fixed`` are left unchanged.
    """
    *rest, store = body
    if not is_store(store):
        return body
    uses = Counter(part.name for value in values_in(body) for part in subexpressions(value) if isinstance(part, Name))
    sums = [s.name for s in body if is_accumulator(s) and reduction_of(s) == "sum" and uses[s.name] == 1]
    joined: dict[str, tuple[str, bool]] = {}
    """The accumulator that takes the place of another one, and whether it takes the negative values."""

    def join(node: Scalar) -> Scalar:
        """Return the addition `node` without the accumulators that can be joined with its first one: ``s`` for ``s +
        t``. Record in ``joined`` that additions to ``t`` now go to ``s``. Return other nodes unchanged.
        """
        if not isinstance(node, Operation) or node.function != "add":
            return node
        terms = {name: (term, sign) for term in node.arguments for name, sign in [_signed_name(term)]}
        found = [name for name in sums if name in terms and name not in fixed]
        found = [name for name in found if axes[name] == axes[found[0]]]
        joined.update({name: (found[0], terms[name][1] != terms[found[0]][1]) for name in found[1:]})
        remaining = tuple(term for term in node.arguments if _signed_name(term)[0] not in found[1:])
        return remaining[0] if len(remaining) == 1 else replace(node, arguments=remaining)

    def change(statement: Statement) -> tuple[Statement, ...]:
        """Return what replaces `statement` if the accumulators in ``joined`` are joined to others: an update goes to
        the other accumulator, and a definition is dropped. Return other statements unchanged.
        """
        if not isinstance(statement, Set) or statement.name not in joined:
            return (statement,)
        name, is_negative = joined[statement.name]
        value = Operation("neg", (statement.value,)) if is_negative else statement.value
        return (replace(statement, target=Name(name), value=value),) if is_addition(statement) else ()

    store = replace(store, value=rewrite_scalar(store.value, join))
    return (*rewrite(rest, lambda statement, _: change(statement)), store)


def _signed_name(term: Scalar) -> tuple[str, int]:
    """Return ``("s", 1)`` if `term` is the name ``s``, ``("s", -1)`` for ``-s``, and ``("", 1)`` for other terms."""
    if isinstance(term, Operation) and term.function == "neg":
        return _signed_name(term.arguments[0])[0], -1
    return (term.name, 1) if isinstance(term, Name) else ("", 1)


def with_first_additions(lines: list[str], complete: Collection[str]) -> list[str]:
    """Return the lines of code with ``s = 0`` and a following ``s = s + x`` replaced by ``s = x``. ``complete``
    contains the lines ``s = s + x`` in which x has all axes of ``s``; only these are replaced.

    An addition counts as the first if it is the next line that contains the accumulator, in the same block.

    >>> with_first_additions(["s = np.broadcast_to(real(0), (n,))", "s = s + x*x"], {"s = s + x*x"})
    ['s = x*x']
    """
    lines = list(lines)
    for addition in complete:
        name, _, rest = addition.partition(" = ")
        if not (rest := rest.removeprefix(f"{name} + ")) or rest == addition.partition(" = ")[2]:
            continue
        word = re.compile(rf"(?<![\w.]){name}(?!\w)")
        uses = [number for number, line in enumerate(lines) if word.search(line)]
        for first, second in itertools.pairwise(uses):
            indent = lines[first].partition(name)[0]
            starts = f"{indent}{name} = real(0)", f"{indent}{name} = np.broadcast_to(real(0)"
            if lines[first].startswith(starts) and lines[second] == indent + addition and not word.search(rest):
                lines[second] = f"{indent}{name} = {rest}"
                del lines[first]
                break
    return lines


def with_merged_tests(lines: list[str]) -> list[str]:
    """Return the lines of code with adjacent ``if`` blocks under the same test joined into one.

    >>> with_merged_tests(["if n >= 2:", "    s = x", "if n >= 2:", "    s = s + y"])
    ['if n >= 2:', '    s = x', '    s = s + y']
    """
    result: list[str] = []
    opened: dict[int, str] = {}
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if line.lstrip().startswith("if ") and opened.get(depth) == line:
            continue
        opened = {own: test for own, test in opened.items() if own < depth}
        if line.lstrip().startswith("if "):
            opened[depth] = line
        result.append(line)
    return result
