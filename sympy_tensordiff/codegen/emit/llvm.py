"""Modules of LLVM as text: their functions, blocks and integers."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from sympy_tensordiff.codegen.emit.llvm_elementary import elementary_text
from sympy_tensordiff.codegen.ir.scalars import External
from sympy_tensordiff.integer.affine import Affine

FLAGS = "contract nsz"
"""Fused multiply-add, and ignored signs of zero: what keeps nan and infinities. Sums may be reordered, too."""

ROLLED = ", !llvm.loop !vectors"
"""At the end of a loop that is not unrolled, before its number of vectors; each has a node of its own in the module."""

VECTORS = 4
"""At most so many vectors are computed side by side in one turn of a loop."""

NO_MEMORY = 2
"""The code of a function that finds no memory."""

Value = tuple[str, str]
"""The text of a value and its type."""


def real_text(value: float, kind: str) -> str:
    """A floating point constant, exactly."""
    if kind == "float" and math.isfinite(value):
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Module:
    """The functions of one module, for results of type ``real``, and what they call.

    ``externals`` are the symbols of the functions that the user supplies.
    """

    def __init__(self, real: str, externals: Mapping[External, str]) -> None:
        self.real = real
        self.size = 8 if real == "double" else 4
        self.externals = externals
        self.functions: dict[str, str] = {}
        self.declared: dict[str, str] = {}
        self._known: dict[str, str] = {}

    def declare(self, name: str, result: str, kinds: Sequence[str], attributes: str = "") -> str:
        """The symbol of a function of another module."""
        self.declared[name] = f"declare {result} @{name}({', '.join(kinds)}){attributes}"
        return name

    def define(self, name: str, text: str) -> str:
        """The symbol of a function with a text that stands there once."""
        self.functions.setdefault(name, text)
        return name

    def shared(self, name: str, text: str) -> str:
        """The symbol of a function whose text has ``{name}`` for it, or of another one with the same text."""
        if text not in self._known:
            own = name if name not in self.functions else f"{name}.{len(self.functions)}"
            self._known[text] = own
            self.functions[own] = text.replace("{name}", own)
        return self._known[text]

    def elementary(self, name: str, kind: str) -> str:
        """The symbol of one of the functions that can be vectorised."""
        symbol = f"{name}.{kind}"
        if symbol not in self.functions:
            text, called = elementary_text(name, kind)
            for other in called:
                self.elementary(other, kind)
            self.functions[symbol] = text
            for own in re.findall(r"@(llvm\.(?:fabs|copysign)\.f\d+)\(", text):
                self.declare(own, kind, [kind] * (1 + ("copysign" in own)))
        return symbol

    def text(self) -> str:
        """The whole."""
        declared = {n: line for n, line in self.declared.items() if n not in self.functions}
        used = "\n".join(self.functions.values())
        nodes = ['!0 = !{!"llvm.loop.unroll.disable"}']
        nodes += [f'!{n} = !{{!"llvm.loop.interleave.count", i32 {n}}}' for n in range(1, VECTORS + 1)]

        def node(match: re.Match[str]) -> str:
            nodes.append(f"!{len(nodes)} = distinct !{{!{len(nodes)}, !0, !{match[1]}}}")
            return f", !llvm.loop !{len(nodes) - 1}"

        text = re.sub(rf"{ROLLED}(\d)", node, used)
        return "\n".join([text, *declared.values(), *nodes]) + "\n"


class Builder:
    """The blocks of a function, one line after the other."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.label = "entry"
        self.count = 0
        self.known: dict[Affine, str] = {}
        """The values of forms, as far as they have been computed on the way to here."""

    # ------------------------------------------------------------------------ blocks

    def new(self, text: str) -> str:
        """A new value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def line(self, text: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {text}")

    def slot(self, kind: str) -> str:
        """A place on the stack."""
        self.count += 1
        self.slots.append(f"  %s{self.count} = alloca {kind}")
        return f"%s{self.count}"

    def labels(self, *words: str) -> list[str]:
        """New labels."""
        self.count += 1
        return [f"{word}{self.count}" for word in words]

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.label = label

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End a block."""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    @contextmanager
    def when(self, *conditions: Callable[[], str]) -> Iterator[None]:
        """Emit a body that runs where all conditions hold; a condition is tested only where those before it hold."""
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
    def loop(self, low: str, stop: str, step: int = 1, vectors: int = 0) -> Iterator[str]:
        """Emit a loop from ``low`` to ``stop - 1``, or backwards where ``step`` is -1.

        One with a number of ``vectors`` side by side is not unrolled.
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
        self.lines[-1] += f"{ROLLED}{vectors}" if vectors else ""
        self.start(after)

    def choice(self, condition: str, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """One of two values; only that one is computed."""
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
        """A sum."""
        if is_number(left) and is_number(right):
            return str(int(left) + int(right))
        if "0" in (left, right):
            return left if right == "0" else right
        return self.new(f"add nsw i64 {left}, {right}")

    def times(self, left: str, right: str) -> str:
        """A product."""
        if is_number(left) and is_number(right):
            return str(int(left) * int(right))
        if "1" in (left, right):
            return left if right == "1" else right
        return "0" if "0" in (left, right) else self.new(f"mul nsw i64 {left}, {right}")

    def greatest(self, values: Iterable[str], function: str = "smax") -> str:
        """The greatest integer, or the least."""
        values = [*values]
        if all(map(is_number, values)):
            return str((max if function == "smax" else min)(map(int, values)))
        name = f"llvm.{function}.i64"
        return reduce(lambda one, other: self.call("i64", name, [one, other], "i64"), dict.fromkeys(values))

    def divided(self, value: str, divisor: str) -> str:
        """A quotient by a positive number, rounded down."""
        if divisor.isdigit() and not int(divisor) & int(divisor) - 1:
            return self.new(f"ashr i64 {value}, {int(divisor).bit_length() - 1}")
        rest = self.new(f"srem i64 {value}, {divisor}")
        below = self.new(f"icmp slt i64 {rest}, 0")
        whole = self.new(f"sdiv i64 {value}, {divisor}")
        return self.new(f"add nsw i64 {whole}, {self.new(f'sext i1 {below} to i64')}")

    def call(self, result: str, name: str, values: Sequence[str], kind: str) -> str:
        """The value of a function of numbers of one type that is declared."""
        self.module.declare(name, result, [kind] * len(values))
        return self.new(f"call {result} @{name}({', '.join(f'{kind} {value}' for value in values)})")


def is_number(text: str) -> bool:
    """Whether an integer is a constant."""
    return text.lstrip("-").isdigit()
