"""Integer forms, conditions and places in arrays as values of LLVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

from sympy_tensordiff.codegen.emit.llvm import NO_MEMORY, Builder, Module, Value
from sympy_tensordiff.codegen.ir.scalars import (
    Bound,
    Ends,
)
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.integer.affine import Affine, Quotient, Row, Variable, quotient
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import PositivePart, extrema_in
from sympy_tensordiff.integer.products import Product, SymbolicQuotient


class FormPrinter(Builder):
    """The function of a step.

    ``shapes`` are those of the arrays, ``integers`` the names of arrays of integers, ``bare`` arrays that are numbers.
    """

    def __init__(self, module: Module, shapes: Shapes, integers: frozenset[str], bare: frozenset[str]) -> None:
        super().__init__(module)
        self.real = module.real
        self.shapes: dict[str, tuple[Affine, ...]] = dict(shapes)
        self.integral = integers
        self.bare = bare
        self.passed: dict[str, tuple[str, str]] = {}
        """The parameters in order of their use: of each name the kind, "a" for arrays, "r", "i", and the value."""
        self.values: dict[str, str] = {}
        """The values of loop variables."""
        self.scalars: dict[str, Value] = {}
        """The slots of scalars, and their types."""
        self.arrays: dict[str, str] = {}
        """The pointers of arrays that the function makes."""
        self.allocated: list[str] = []
        """The pointers among them that it frees at its end."""
        self.changing: frozenset[str] = frozenset()
        self.depth = 0
        self.defined: dict[str, int] = {}

    @property
    def types(self) -> dict[str, str]:
        """The types of parameters by their kinds."""
        return {"a": "ptr noalias", "r": self.module.real, "i": "i64"}

    def called(self, function: Any, value: Callable[[str, str], str]) -> str:
        """The code that the function of a step returns; ``value`` tells what is passed by name and kind."""
        kinds = {**self.types, "a": "ptr"}
        passed = ", ".join(f"{kinds[kind]} {value(name, kind)}" for name, kind in function.passed.items())
        return self.new(f"call i32 @{function.symbol}({passed})")

    def parameter(self, name: str, kind: str) -> str:
        """The value of a parameter."""
        if name not in self.passed:
            self.passed[name] = kind, f"%{kind}.{len(self.passed)}"
        return self.passed[name][1]

    def function(self, result: str = "i32 0") -> str:
        """The text of the function, whose name is ``{name}``."""
        declared = ", ".join(f"{self.types[kind]} {value}" for kind, value in self.passed.values())
        for pointer in self.allocated:
            self.line(f"call void @free(ptr {pointer})")
        body = ["entry:", *self.slots, *self.lines, f"  ret {result}"]
        body += ["failed:", f"  ret i32 {NO_MEMORY}"] if self.allocated else []
        return "\n".join([f"define internal i32 @{{name}}({declared}) noinline {{", *body, "}"])

    # ------------------------------------------------------------------------ integers

    def form(self, form: Affine) -> str:
        """An integer form."""
        if form.is_constant:
            return str(form.constant)
        found = self.known.get(form)
        if found is None:
            found = self._form(form)
            if self.changing.isdisjoint(form.atoms()):
                self.known[form] = found
        return found

    def _form(self, form: Affine) -> str:
        rest, extrema = extrema_in(form) if any(isinstance(v, PositivePart) for v, _ in form.terms) else (form, ())
        total = "0"
        for atom, factor in sorted(rest.terms, key=lambda term: term[1] < 0):
            total = self._more(total, self.atom(atom), factor)
        for factor, function, one, other in extrema:
            name = "smin" if function == "min" else "smax"
            total = self._more(total, self.greatest([self.form(one), self.form(other)], name), factor)
        return self.add(total, str(rest.constant))

    def _more(self, total: str, value: str, factor: int) -> str:
        if factor < 0 and total != "0":
            return self.new(f"sub nsw i64 {total}, {self.times(value, str(-factor))}")
        return self.add(total, self.times(value, str(factor)))

    def atom(self, atom: Variable) -> str:
        """A variable, or what is computed from some."""
        if isinstance(atom, Product):
            return reduce(self.times, [self.form(Affine.variable(factor)) for factor in atom.factors])
        if isinstance(atom, Quotient | SymbolicQuotient):
            return self.divided(self.form(atom.form), self.form(Affine.of(atom.divisor)))
        if isinstance(atom, DataEntry):
            inside: Sequence[Row] = getattr(atom, "inside", ())
            if not inside:
                return self.data(atom)
            return self.choice(self.conditions(inside), lambda: (self.data(atom), "i64"), lambda: ("0", "i64"))[0]
        name = str(atom)
        array, dot, attribute = name.partition(".")
        if dot:
            return self.form(self.shapes[array][int(attribute.strip("shape[]"))])
        if name in self.values:
            return self.values[name]
        if name in self.scalars:
            return self.new(f"load i64, ptr {self.scalars[name][0]}")
        return self.parameter(name, "i")

    def data(self, entry: DataEntry) -> str:
        """An entry of an array of integers."""
        if not entry.index:
            return self.parameter(entry.tensor, "i")
        return self.new(f"load i64, ptr {self.place(entry.tensor, entry.index)}")

    def low(self, bounds: Iterable[Bound]) -> str:
        """The first value of a loop."""
        return self.greatest([self.form(quotient(b.form + (b.divisor - 1), b.divisor)) for b in bounds])

    def stop(self, bounds: Iterable[Bound]) -> str:
        """One more than the last value of a loop."""
        return self.greatest([self.form(quotient(b.form, b.divisor) + 1) for b in bounds], "smin")

    def ends(self, ends: Ends) -> str:
        """An integer."""
        return self.low(ends.lows) if ends.lows else self.stop(ends.highs)

    def conditions(self, rows: Sequence[Row]) -> str:
        """Whether all of some rows hold; what data tell is asked behind what stands before it."""
        found = self.condition(rows[0])
        for number, row in enumerate(rows[1:], 1):
            if row.form.hidden():
                rest = rows[number:]
                return self.choice(found, lambda rest=rest: (self.conditions(rest), "i1"), lambda: ("false", "i1"))[0]  # type: ignore[misc]
            found = self.new(f"and i1 {found}, {self.condition(row)}")
        return found

    def condition(self, row: Row) -> str:
        """Whether a row holds."""
        if row.kind == "mod":
            return self.new(f"icmp eq i64 {self.new(f'srem i64 {self.form(row.form)}, {row.modulus}')}, 0")
        # Each side positive, as in the texts: optimisers know bounds of what is not negated.
        left = Affine({v: c for v, c in row.form.terms if c > 0}, row.form.constant)
        right = left - row.form
        return self.new(f"icmp {'sge' if row.kind == 'ge' else 'eq'} i64 {self.form(left)}, {self.form(right)}")

    # ------------------------------------------------------------------------ arrays

    def base(self, array: str) -> str:
        """The pointer to the first entry of an array."""
        return self.arrays[array] if array in self.arrays else self.parameter(array, "a")

    def kind(self, array: str) -> str:
        """The type of the entries of an array."""
        return "i64" if array in self.integral else self.module.real

    def place(self, array: str, index: Sequence[Affine]) -> str:
        """The pointer to an entry."""
        offset = "0"
        for form, extent in zip(index, self.shapes[array], strict=True):
            offset = self.add(self.times(offset, self.form(extent)), self.form(form))
        return self.shifted(self.base(array), offset, self.kind(array))

    def shifted(self, pointer: str, offset: str, kind: str = "") -> str:
        """A pointer so many entries further on."""
        if offset == "0":
            return pointer
        return self.new(f"getelementptr inbounds {kind or self.module.real}, ptr {pointer}, i64 {offset}")

    def entries(self, shape: Iterable[Affine]) -> str:
        """The number of entries of a shape."""
        return reduce(
            self.times, [self.greatest(["0", self.form(e)]) if not e.is_constant else str(e) for e in shape], "1"
        )

    def array(self, name: str, shape: Sequence[Affine], entries: str = "") -> str:
        """The pointer of a new array."""
        self.module.declare("malloc", "noalias ptr", ["i64"])
        self.module.declare("free", "void", ["ptr"])
        self.shapes[name] = tuple(shape)
        count = entries or self.entries(shape)
        size = self.times(self.greatest(["1", count]), str(self.module.size))
        found = self.new(f"call noalias ptr @malloc(i64 {size})")
        (after,) = self.labels("made")
        self.branch(self.new(f"icmp ne ptr {found}, null"), after, "failed")
        self.start(after)
        self.arrays[name] = found
        self.allocated.append(found)
        return found
