"""LLVM modules as text: functions, basic blocks and integer arithmetic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from sympy_tensordiff.codegen.emit.llvm_elementary import elementary_text
from sympy_tensordiff.codegen.ir.scalars import External
from sympy_tensordiff.integer.affine import Affine

FLAGS = "contract nsz"
"""The fast-math flags of operations: fused multiply-add, ignored signs of zero; nan and infinities are kept."""

LOOP_MARK = ", !llvm.loop !vectors"
"""The mark of a loop, before its number of vectors and "u" if it is unrolled; each becomes a metadata node.

A loop with 0 vectors may be unrolled if its number of iterations is constant. With code for other numbers, LLVM takes
3 % longer, and kernels are not faster.
"""

MAX_INTERLEAVED_VECTORS = 4
"""The most vectors that one iteration of a loop computes (its interleave count)."""

UNROLLED_ITERATIONS = 4
"""The iterations of a loop with a given number of vectors that are unrolled, if it has as many.

In single precision the rows layernorm and fir take 0.89 of the time that they take if none are.
"""

TOO_LARGE, NO_MEMORY, OUTSIDE, SINGULAR = 1, 2, 4, 8
"""The return codes of functions, as bits: extents too large for BLAS, no memory, an entry outside its array, a matrix
without an inverse.
"""

Value = tuple[str, str]
"""A value: its text and its type."""


class Module:
    """The functions of one LLVM module, whose real numbers have the type ``real``, and declarations of the external
    functions that they call.

    ``externals`` are the symbols of the functions that the user supplies. ``is_checked``: every index is compared with
    the extent of its axis.
    """

    def __init__(self, real: str, externals: Mapping[External, str], is_checked: bool = False) -> None:
        self.real = real
        self.is_checked = is_checked
        self.size = 8 if real == "double" else 4
        self.externals = externals
        self.functions: dict[str, str] = {}
        self.declared: dict[str, str] = {}
        self._known: dict[str, str] = {}

    def declare(self, name: str, result_type: str, argument_types: Sequence[str], attributes: str = "") -> None:
        """Declare the external function ``name`` in the module. ``result_type`` and ``argument_types`` are LLVM types
        as text; ``attributes`` are appended.
        """
        self.declared[name] = f"declare {result_type} @{name}({', '.join(argument_types)}){attributes}"

    def define(self, name: str, text: str) -> str:
        """Add the function ``name`` with the LLVM ``text`` to the module, unless it has a function of this name; return
        the name.
        """
        self.functions.setdefault(name, text)
        return name

    def shared(self, name: str, text: str) -> str:
        """Add the LLVM function ``text`` to the module and return its symbol: ``name``, with a number if that is in
        use. The symbol replaces ``{name}`` in ``text``; equal texts are added once.
        """
        if text not in self._known:
            own = name if name not in self.functions else f"{name}.{len(self.functions)}"
            self._known[text] = own
            self.functions[own] = text.replace("{name}", own)
        return self._known[text]

    def elementary(self, name: str, kind: str) -> str:
        """Define an elementary function for the number type ``kind``, with the functions that it calls, and return its
        symbol.
        """
        symbol = f"{name}.{kind}"
        if symbol not in self.functions:
            text, called = elementary_text(name, kind)
            for other in called:
                self.elementary(other, kind)
            self.functions[symbol] = text
            for own in re.findall(r"@(llvm\.(?:fabs|copysign|floor|sqrt)\.f\d+)\(", text):
                self.declare(own, kind, [kind] * (1 + ("copysign" in own)))
        return symbol

    def text(self, entries: Iterable[str] = ()) -> str:
        """Return the text of the LLVM module, which begins with the texts ``entries`` of its entry points."""
        declared = {n: line for n, line in self.declared.items() if n not in self.functions}
        used = "\n".join([*entries, *self.functions.values()])
        nodes = ['!0 = !{!"llvm.loop.unroll.runtime.disable"}']
        nodes += [f'!{n} = !{{!"llvm.loop.interleave.count", i32 {n}}}' for n in range(1, MAX_INTERLEAVED_VECTORS + 1)]
        rolled, unrolled, scalar, masked = (f"!{len(nodes) + n}" for n in range(4))
        nodes.append(f'{rolled} = !{{!"llvm.loop.unroll.disable"}}')
        nodes.append(f'{unrolled} = !{{!"llvm.loop.unroll.count", i32 {UNROLLED_ITERATIONS}}}')
        nodes.append(f'{scalar} = !{{!"llvm.loop.vectorize.enable", i1 false}}')
        nodes.append(f'{masked} = !{{!"llvm.loop.vectorize.predicate.enable", i1 true}}')

        def node(match: re.Match[str]) -> str:
            """Return the text that replaces the placeholder (`match`) at a loop: a reference to a new LLVM metadata
            node, such as ``, !llvm.loop !7``.
            """
            properties = "!0" if match[1] == "0" else f"{unrolled if match[2] == 'u' else rolled}, !{match[1]}"
            properties += {"s": f", {scalar}", "p": f", {masked}"}.get(match[2], "")
            nodes.append(f"!{len(nodes)} = distinct !{{!{len(nodes)}, {properties}}}")
            return f", !llvm.loop !{len(nodes) - 1}"

        text = re.sub(rf"{LOOP_MARK}(\d)([usp]?)", node, used)
        return "\n".join([text, *declared.values(), *nodes]) + "\n"


class Builder:
    """Emits the instructions of one function, basic block by basic block."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.label = "entry"
        self.count = 0
        self.known: dict[Affine, str] = {}
        """The values of forms that have been computed on every path to the current block."""

    # ------------------------------------------------------------------------ blocks

    def new(self, text: str) -> str:
        """Append an instruction that has a value, and return the name of the value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def line(self, text: str) -> None:
        """Append an LLVM instruction that has no result, such as a store."""
        self.lines.append(f"  {text}")

    def slot(self, kind: str) -> str:
        """Reserve stack memory for one value of type ``kind``, and return the pointer to it."""
        self.count += 1
        self.slots.append(f"  %s{self.count} = alloca {kind}")
        return f"%s{self.count}"

    def labels(self, *words: str) -> list[str]:
        """Return new names for basic blocks (LLVM labels): each of ``words`` with the same new number."""
        self.count += 1
        return [f"{word}{self.count}" for word in words]

    def start(self, label: str) -> None:
        """Begin a basic block with this label."""
        self.lines.append(f"{label}:")
        self.label = label

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End the basic block with a branch to the label ``yes`` if ``condition`` is true, else to ``no``."""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    @contextmanager
    def when(self, *conditions: Callable[[], str]) -> Iterator[None]:
        """Context manager: emit a test of all ``conditions`` (functions that emit a condition) around the code of the
        ``with`` block, which then runs only if all hold. A condition is evaluated only if those before it hold.
        """
        if not conditions:
            yield
            return
        (after,) = self.labels("after")
        outside = dict(self.known)
        for condition in conditions:
            (yes,) = self.labels("then")
            self.branch(condition(), yes, after)
            self.start(yes)
        yield
        self.known = outside
        self.line(f"br label %{after}")
        self.start(after)

    @contextmanager
    def loop(self, low: str, stop: str, step: int = 1, vectors: str = "0") -> Iterator[str]:
        """Context manager: emit a loop from ``low`` to ``stop - 1`` (backwards for ``step=-1``) around the code of the
        ``with`` block, and yield its variable. ``vectors`` is a hint how many vectors an iteration computes, see
        `LOOP_MARK`.
        """
        body, latch, after = self.labels("loop", "latch", "after")
        first, end = (low, stop) if step > 0 else (self.add(stop, "-1"), low)
        test = "slt" if step > 0 else "sge"
        self.branch(self.new(f"icmp {test} i64 {first}, {end}"), body, after)
        before = self.label
        self.start(body)
        self.count += 1
        variable, following = f"%i{self.count}", f"%n{self.count}"
        self.line(f"{variable} = phi i64 [ {first}, %{before} ], [ {following}, %{latch} ]")
        outside = dict(self.known)
        yield variable
        self.known = outside
        self.line(f"br label %{latch}")
        self.start(latch)
        self.line(f"{following} = add nsw i64 {variable}, {step}")
        self.branch(self.new(f"icmp {test} i64 {following}, {end}"), body, after)
        self.lines[-1] += f"{LOOP_MARK}{vectors}"
        self.start(after)

    def choice(self, condition: str, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """Emit code that computes ``yes()`` if ``condition`` is true, else ``no()``, and return its LLVM value. If one
        of the two is a float and the other a double, the result is a double.
        """
        first, second, after = self.labels("yes", "no", "chosen")
        self.branch(condition, first, second)
        found = []
        for label, value in ((first, yes), (second, no)):
            self.start(label)
            outside = dict(self.known)
            found.append((*value(), self.label, len(self.lines)))
            self.known = outside
            self.line(f"br label %{after}")
        (one, kind, here, place), (other, second_kind, there, _) = found
        if kind != second_kind:  # at most one of them is a float
            if kind == "float":
                self.count += 1
                self.lines.insert(place, f"  %w{self.count} = fpext float {one} to double")
                one, kind = f"%w{self.count}", "double"
            else:
                self.count += 1
                self.lines.insert(-1, f"  %w{self.count} = fpext float {other} to double")
                other = f"%w{self.count}"
        self.start(after)
        return self.new(f"phi {kind} [ {one}, %{here} ], [ {other}, %{there} ]"), kind

    # ------------------------------------------------------------------------ integers

    def add(self, left: str, right: str) -> str:
        """Emit the sum of two integers, and return its value; constants are folded."""
        if is_number(left) and is_number(right):
            return str(int(left) + int(right))
        if "0" in (left, right):
            return left if right == "0" else right
        return self.new(f"add nsw i64 {left}, {right}")

    def times(self, left: str, right: str) -> str:
        """Emit the product of two integers, and return its value; constants are folded."""
        if is_number(left) and is_number(right):
            return str(int(left) * int(right))
        if "1" in (left, right):
            return left if right == "1" else right
        return "0" if "0" in (left, right) else self.new(f"mul nsw i64 {left}, {right}")

    def greatest(self, values: Iterable[str], function: str = "smax") -> str:
        """Emit the maximum of the integers ``values`` (``function`` "smax") or their minimum ("smin"), and return its
        value; constants are folded.
        """
        values = [*values]
        if all(map(is_number, values)):
            return str((max if function == "smax" else min)(map(int, values)))
        name = f"llvm.{function}.i64"
        return reduce(lambda one, other: self.call("i64", name, [one, other], "i64"), dict.fromkeys(values))

    def divided(self, value: str, divisor: str) -> str:
        """Emit a quotient by a positive integer, rounded down, and return its value. A ``divisor`` of 0 counts as 1,
        since the code may run before the test that excludes it.
        """
        if divisor.isdigit() and not int(divisor) & int(divisor) - 1:
            return self.new(f"ashr i64 {value}, {int(divisor).bit_length() - 1}")
        divisor = self.greatest(["1", divisor])
        rest = self.new(f"srem i64 {value}, {divisor}")
        below = self.new(f"icmp slt i64 {rest}, 0")
        whole = self.new(f"sdiv i64 {value}, {divisor}")
        return self.new(f"add nsw i64 {whole}, {self.new(f'sext i1 {below} to i64')}")

    def call(self, result: str, name: str, values: Sequence[str], kind: str) -> str:
        """Emit a call of the LLVM function `name`, whose arguments ``values`` all have the type `kind`; return its
        value, of the type ``result``. The function is declared if it is new.
        """
        self.module.declare(name, result, [kind] * len(values))
        return self.new(f"call {result} @{name}({', '.join(f'{kind} {value}' for value in values)})")


def is_number(text: str) -> bool:
    """Return whether the text of an integer value is a literal."""
    return text.lstrip("-").isdigit()
