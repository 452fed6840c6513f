"""Integer forms, conditions and addresses of array entries as LLVM values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any

from sympy_tensordiff.codegen.emit.llvm import NO_MEMORY, OUTSIDE, Builder, Module, Value
from sympy_tensordiff.codegen.ir.scalars import Bound, Ends, Scalar
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.integer.affine import Affine, Constraint, Quotient, Variable, quotient
from sympy_tensordiff.integer.extrema import PositivePart, extrema_in
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.products import IndexProduct, SymbolicQuotient


class LlvmFormPrinter(Builder):
    """The base of printers of a step's LLVM function: it emits integer forms, conditions and addresses of array
    entries.

    ``shapes`` are the shapes of the arrays, ``integers`` the names of integer arrays, ``bare`` the arrays that are
    numbers.
    """

    def __init__(self, module: Module, shapes: Shapes, integers: frozenset[str], bare: frozenset[str]) -> None:
        super().__init__(module)
        self.real = module.real
        self.shapes: dict[str, tuple[Affine, ...]] = dict(shapes)
        self.integer_arrays = integers
        self.bare = bare
        self.passed: dict[str, tuple[str, str]] = {}
        """The parameters in order of first use: by name the kind, "a" for arrays, "r", "i", and the value."""
        self.values: dict[str, str] = {}
        """The values of loop variables."""
        self.scalars: dict[str, Value] = {}
        """The slots of scalars, and their types."""
        self.arrays: dict[str, str] = {}
        """The pointers of arrays that the function allocates."""
        self.allocated: list[str] = []
        """The pointers among these that it frees at its end."""
        self.changing: frozenset[str] = frozenset()
        self.depth = 0
        self.defined: dict[str, int] = {}
        self.booleans: dict[str, Scalar] = {}
        """The values of boolean scalars."""
        self.is_branch_free = False
        """Whether the statement is in a loop without branches and long loops, which LLVM can make vectors of."""
        self.is_inside: Callable[[str], bool] = lambda array: False
        """Whether all reads of an array are in bounds, whichever conditions of selects are true."""
        self.code = ""
        """The slot of the return code; "" for a function that cannot fail but for lack of memory."""
        self.is_inlined = False
        """Whether LLVM may inline the function: in loops over time, where a call takes as long as a short step."""

    @property
    def types(self) -> dict[str, str]:
        """The LLVM types of function parameters, by kind: array, number or integer."""
        return {"a": "ptr noalias", "r": self.module.real, "i": "i64"}

    def call_step(self, function: Any, value: Callable[[str, str], str]) -> str:
        """Emit the call of a step's function, and return its return code; ``value(name, kind)`` returns the value or
        pointer to pass for a parameter.
        """
        kinds = {**self.types, "a": "ptr"}
        passed = ", ".join(f"{kinds[kind]} {value(name, kind)}" for name, kind in function.passed.items())
        return self.new(f"call i32 @{function.symbol}({passed})")

    def add_code_slot(self) -> None:
        """Emit a stack slot for the return code of the function, with the value 0."""
        self.code = self.slot("i32")
        self.line(f"store i32 0, ptr {self.code}")

    def add_code(self, found: str) -> None:
        """Emit code that combines the return code ``found`` by "or" with the earlier ones."""
        before = self.new(f"load i32, ptr {self.code}")
        self.line(f"store i32 {self.new(f'or i32 {before}, {found}')}, ptr {self.code}")

    def parameter(self, name: str, kind: str) -> str:
        """Return the LLVM value of the parameter ``name`` of the function that is being printed; it is added to the
        parameters when it is first used. ``kind`` is "i" for an integer, "r" for a number, "a" for an array.
        """
        if name not in self.passed:
            self.passed[name] = kind, f"%{kind}.{len(self.passed)}"
        return self.passed[name][1]

    def function(self) -> str:
        """Return the text of the LLVM function, with the placeholder ``{name}`` for its symbol. The function returns an
        error code, 0 for success.
        """
        result = self.new(f"load i32, ptr {self.code}") if self.code else "0"
        declared = ", ".join(f"{self.types[kind]} {value}" for kind, value in self.passed.values())
        for pointer in self.allocated:
            self.line(f"call void @free(ptr {pointer})")
        body = ["entry:", *self.slots, *self.lines, f"  ret i32 {result}"]
        body += ["failed:", f"  ret i32 {NO_MEMORY}"] if self.allocated else []
        attribute = "" if self.is_inlined else "noinline "
        return "\n".join([f"define internal i32 @{{name}}({declared}) {attribute}{{", *body, "}"])

    # ------------------------------------------------------------------------ integers

    def form(self, form: Affine) -> str:
        """Emit an integer form, and return its value; repeated forms reuse the computed value."""
        if form.is_constant:
            return str(form.constant)
        found = self.known.get(form)
        if found is None:
            found = self._form(form)
            if self.changing.isdisjoint(form.atoms()):
                self.known[form] = found
        return found

    def _form(self, form: Affine) -> str:
        """Emit an integer form, positive terms first, and return its value."""
        rest, extrema = extrema_in(form) if any(isinstance(v, PositivePart) for v, _ in form.terms) else (form, ())
        total = "0"
        for atom, factor in sorted(rest.terms, key=lambda term: term[1] < 0):
            total = self._add_term(total, self.atom(atom), factor)
        for factor, function, one, other in extrema:
            name = "smin" if function == "min" else "smax"
            total = self._add_term(total, self.greatest([self.form(one), self.form(other)], name), factor)
        return self.add(total, str(rest.constant))

    def _add_term(self, total: str, value: str, factor: int) -> str:
        """Emit ``total + factor*value``, and return its value."""
        if factor < 0 and total != "0":
            return self.new(f"sub nsw i64 {total}, {self.times(value, str(-factor))}")
        return self.add(total, self.times(value, str(factor)))

    def atom(self, atom: Variable) -> str:
        """Emit ``atom``, one variable of a form (a symbol, product, quotient or array entry), and return its value."""
        if isinstance(atom, IndexProduct):
            return reduce(self.times, [self.form(Affine.variable(factor)) for factor in atom.factors])
        if isinstance(atom, Quotient | SymbolicQuotient):
            if (known := self.known.get(Affine.variable(atom))) is not None:
                return known
            return self.divided(self.form(atom.form), self.form(Affine.of(atom.divisor)))
        if isinstance(atom, IndirectIndex):
            inside: Sequence[Constraint] = getattr(atom, "inside", ())
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

    def data(self, entry: IndirectIndex) -> str:
        """Emit the read of an integer-array entry, and return its value."""
        if not entry.index:
            return self.parameter(entry.tensor, "i")
        return self.new(f"load i64, ptr {self.entry_pointer(entry.tensor, entry.index)}")

    def low(self, bounds: Iterable[Bound]) -> str:
        """Emit code that computes the first value of a loop, the maximum of its lower ``bounds``, and return it."""
        return self.greatest([self.form(quotient(b.form + (b.divisor - 1), b.divisor)) for b in bounds])

    def stop(self, bounds: Iterable[Bound]) -> str:
        """Emit code that computes the exclusive end of a loop, the minimum of its upper ``bounds`` plus one, and return
        it.
        """
        return self.greatest([self.form(quotient(b.form, b.divisor) + 1) for b in bounds], "smin")

    def ends(self, ends: Ends) -> str:
        """Emit code that computes one end of an integer range, and return its value: the start if ``ends`` has lower
        bounds (their maximum), else the exclusive stop (the minimum of the upper bounds, plus 1).
        """
        return self.low(ends.lows) if ends.lows else self.stop(ends.highs)

    def conditions(self, rows: Sequence[Constraint]) -> str:
        """Emit the test that all constraints hold, and return its i1 value. Constraints that read arrays are only
        tested if those before them hold.
        """
        found = self.condition(rows[0])
        for number, row in enumerate(rows[1:], 1):
            if row.form.hidden():
                rest = rows[number:]
                return self.choice(found, lambda rest=rest: (self.conditions(rest), "i1"), lambda: ("false", "i1"))[0]  # type: ignore[misc]
            found = self.new(f"and i1 {found}, {self.condition(row)}")
        return found

    def condition(self, row: Constraint) -> str:
        """Emit the test of the constraint ``row``, and return its i1 value."""
        if row.kind == "mod":
            return self.new(f"icmp eq i64 {self.new(f'srem i64 {self.form(row.form)}, {row.modulus}')}, 0")
        # Both sides have positive terms, as in other backends: optimisers know bounds of values that are not negated.
        left = Affine({v: c for v, c in row.form.terms if c > 0}, row.form.constant)
        right = left - row.form
        return self.new(f"icmp {'sge' if row.kind == 'ge' else 'eq'} i64 {self.form(left)}, {self.form(right)}")

    # ------------------------------------------------------------------------ arrays

    def base(self, array: str) -> str:
        """Return the pointer to the first entry of an array, which becomes a parameter if it is not one yet."""
        return self.arrays[array] if array in self.arrays else self.parameter(array, "a")

    def entry_type(self, array: str) -> str:
        """Return the type of the entries of an array."""
        return "i64" if array in self.integer_arrays else self.module.real

    def entry_pointer(self, array: str, index: Sequence[Affine]) -> str:
        """Emit the address of an array entry, and return the pointer."""
        offset = "0"
        for form, extent in zip(index, self.shapes[array], strict=True):
            place, length = self.form(form), self.form(extent)
            place = self.checked(place, length) if self.module.is_checked else place
            offset = self.add(self.times(offset, length), place)
        return self.pointer_at(self.base(array), offset, self.entry_type(array))

    def checked(self, place: str, extent: str) -> str:
        """Emit code that checks that the integer ``place`` is a valid index of an axis of length ``extent``. Return an
        index that is valid in any case: ``place``, or 0 if it is out of range.

        If it is out of range, a flag is set for which the call raises an error.
        """
        self.module.declared["outside"] = "@outside = internal global i32 0"
        is_inside = self.new(f"icmp ult i64 {place}, {extent}")
        code = self.new(f"select i1 {is_inside}, i32 0, i32 {OUTSIDE}")
        self.new(f"atomicrmw or ptr @outside, i32 {code} monotonic")
        return self.new(f"select i1 {is_inside}, i64 {place}, i64 0")

    def check_block(self, array: str, pointer: str, *axes: tuple[str, str]) -> None:
        """Emit a run-time test that a block of ``array``, which begins at ``pointer``, is in bounds. `axes` are its
        (length, stride) pairs. Nothing is emitted unless the module is compiled with such tests.
        """
        if not self.module.is_checked:
            return
        start, base = (self.new(f"ptrtoint ptr {one} to i64") for one in (pointer, self.base(array)))
        low = high = self.new(f"sdiv i64 {self.new(f'sub i64 {start}, {base}')}, {self.module.size}")
        for length, stride in axes:
            end = self.times(self.add(length, "-1"), stride)
            low, high = self.add(low, self.greatest(["0", end], "smin")), self.add(high, self.greatest(["0", end]))
        entries = self.entries(self.shapes[array])
        with self.when(*(partial(self.new, f"icmp sgt i64 {length}, 0") for length, _ in axes)):
            for place in (low, high):
                self.checked(place, entries)

    def pointer_at(self, pointer: str, offset: str, kind: str = "") -> str:
        """Emit the address ``offset`` entries after a pointer, and return it. The entries have the type ``kind``, by
        default that of real numbers.
        """
        if offset == "0":
            return pointer
        return self.new(f"getelementptr inbounds {kind or self.module.real}, ptr {pointer}, i64 {offset}")

    def entries(self, shape: Iterable[Affine]) -> str:
        """Emit the product of the extents in `shape`, the number of entries of an array, and return its value."""
        return reduce(
            self.times, [self.greatest(["0", self.form(e)]) if not e.is_constant else str(e) for e in shape], "1"
        )

    def allocate(self, name: str, shape: Sequence[Affine], entries: str = "") -> str:
        """Emit code that allocates the array ``name`` of this ``shape``, and return its pointer; ``entries`` is the
        value of its number of entries, if known. The emitted function returns NO_MEMORY if that fails.
        """
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
