"""Programs as NumPy modules: each kernel computes all entries at once, and sums along axes of their own.

A sum of products is an ``einsum`` of two arrays (`array_products`); other sums are cut into blocks, so that
intermediate arrays have `Dialect.block` entries at most, or no more than their operands. Conditions shorten slices
or are masks (`array_lanes`). A sum whose range depends on the entry is a running sum (`array_sums`), or a sum over the
widest range with zeros (`array_products`); else it is a Python loop over the widest range, in which each operation
covers the entries for which the index is in bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import inf

from sympy_tensordiff.codegen.emit.array_accumulators import with_first_additions, with_joined_sums, with_merged_tests
from sympy_tensordiff.codegen.emit.array_guards import (
    SAFE_ENTRY,
    UseConditions,
    as_scalar,
    conditions_at,
    conditions_in,
    conditions_of_use,
    nonnegative_arrays,
    nonnegative_names,
)
from sympy_tensordiff.codegen.emit.array_lanes import SHORT_LENGTH, Lanes, Span
from sympy_tensordiff.codegen.emit.array_library import pure_driver, pure_library_text, pure_module_text
from sympy_tensordiff.codegen.emit.array_products import (
    find_offsets,
    over_widest_range,
    print_product,
    print_split_product,
    print_window,
)
from sympy_tensordiff.codegen.emit.array_recurrences import LinearRecurrence, find_recurrences
from sympy_tensordiff.codegen.emit.array_scalars import PrintingContext, StoredValue, VectorPrinter, slope_along
from sympy_tensordiff.codegen.emit.array_sums import (
    FUNCTIONS,
    SHORTEST_LENGTH,
    Additions,
    Narrowing,
    is_short,
    loop_ends,
    tied_rows,
)
from sympy_tensordiff.codegen.emit.array_values import with_common_values
from sympy_tensordiff.codegen.emit.base import initial_value_text
from sympy_tensordiff.codegen.emit.dialects import DIALECTS, Dialect
from sympy_tensordiff.codegen.emit.driver import (
    WORD,
    Functions,
    head_text,
    host_driver,
    module_names,
    module_text,
    passed_names,
    task_text,
    without_unused_real,
)
from sympy_tensordiff.codegen.emit.forms import FormNames, TextBlock, tuple_text
from sympy_tensordiff.codegen.emit.helpers import called_by
from sympy_tensordiff.codegen.emit.library import library_text
from sympy_tensordiff.codegen.emit.pure_recurrences import pure_recurrence
from sympy_tensordiff.codegen.emit.recurrences import recurrence_text, step_function, with_own_functions
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover, axis_rows, loop_rows
from sympy_tensordiff.codegen.ir.loops import (
    If,
    Loop,
    Set,
    Statement,
    is_accumulator,
    is_addition,
    is_let,
    is_scatter,
    is_store,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.programs import Correlation, FusedKernels, Kernel, Program, Recurrence, Scatter
from sympy_tensordiff.codegen.ir.rare_loops import condition_name, condition_of_loop, decided, without_condition
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Load, Name, Number, Operation, Scalar, constant
from sympy_tensordiff.codegen.ir.walk import (
    added,
    dependences,
    loads,
    loops,
    scalar_arrays,
    scalars,
    statements,
    subexpressions,
)
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.rows import Rows

_FILL_FUNCTIONS = {"0": ("zeros", ""), "1": ("ones", "")}
"""The NumPy functions that make arrays of one value, and their further arguments."""


def print_program(program: Program) -> str:
    """Return the text of a NumPy module whose function ``run`` fills the outputs of ``program``."""
    return print_arrays(program, DIALECTS["numpy"])


def print_arrays(program: Program, dialect: Dialect) -> str:
    """Return the text of a module for the array library of ``dialect``, whose function ``run`` fills the outputs of
    ``program`` or, in a pure dialect, returns them.
    """
    names = module_names(program, dialect.own_names)
    if dialect.is_pure:
        functions, inner = _print_functions(program, names, dialect)
        texts = [*inner, *functions.texts]
        pieces = [*called_by(texts, dialect.helpers).values(), *texts]
        pieces.append(pure_driver(program, names, functions, dialect))
        return pure_module_text(program, dialect, names, pieces, constants=block_constant(pieces, dialect.backend))
    pieces = print_steps(program, names)
    pieces = [*called_by(pieces, dialect.helpers).values(), *pieces]
    return module_text(program, "numpy", names, pieces, constants=block_constant(pieces))


def block_constant(pieces: Iterable[str], backend: str = "numpy") -> str:
    """Return the line of code that defines ``BLOCK``, the number of entries that are computed at once in a loop over
    blocks in the array library of `backend`; "" if none of the function texts `pieces` uses it.
    """
    has_blocks = any(re.search(r"\bBLOCK\b", piece) for piece in pieces)
    return (
        f"BLOCK = {DIALECTS[backend].block}  # entries that are computed at once where a sum is cut into blocks"
        * has_blocks
    )


def recurrence_pieces(step: Recurrence, names: FormNames) -> list[str]:
    """Return the texts of the NumPy functions of a recurrence: first those of its steps, and last the function that
    runs the loop. ``names`` maps names of the program to identifiers.
    """
    return [*_body_functions(step, DIALECTS["numpy"]), recurrence_text(step, names)]


def _body_functions(step: Recurrence, dialect: Dialect) -> list[str]:
    """Return the texts of the functions that compute one time step of a recurrence. The last one calls the others."""
    name = step_function(step)
    own = module_names(step.body, {*dialect.own_names, name})
    if not dialect.is_pure:
        *pieces, last = print_steps(step.body, own, name)
        return with_own_functions(step, pieces, [last])
    functions, inner = _print_functions(step.body, own, dialect)
    last = pure_driver(step.body, own, functions, dialect, name)
    return with_own_functions(step, [*inner, *functions.texts], [last])


def print_steps(program: Program, names: FormNames, name: str = "run") -> list[str]:
    """Generate the Python functions, in NumPy, that run the steps of ``program``, and return their texts. The last one
    is the function ``name``, which calls the others.
    """
    functions, inner = _print_functions(program, names, DIALECTS["numpy"])
    around = 'with np.errstate(all="ignore"):' if name == "run" else ""
    return [*inner, *functions.texts, host_driver(program, names, functions, around, name=name)]


def _print_functions(program: Program, names: FormNames, dialect: Dialect) -> tuple[Functions, list[str]]:
    """Return ``(functions, texts)``: the `Functions` of all steps of a program, and the texts of the functions for
    single time steps, which recurrences call. ``names`` are the identifiers in the text.
    """
    prover = Prover(program)
    bare = scalar_arrays(program.arguments)
    used = conditions_of_use(program, prover) if dialect.is_differentiated else UseConditions({}, {}, {})
    compared = compared_arrays(program) if dialect.barrier else frozenset[str]()
    nonnegative = nonnegative_arrays(program) if dialect.is_differentiated else frozenset[str]()
    functions = Functions(names)
    inner: list[str] = []
    for kernel in program.kernels:
        assert not isinstance(kernel, FusedKernels | Correlation)
        if isinstance(kernel, Recurrence):
            inner += _body_functions(kernel, dialect)
            if dialect.is_pure:
                functions.add(kernel, *pure_recurrence(kernel, names, dialect))
            else:
                functions.add(kernel, recurrence_text(kernel, names))
            continue
        if not isinstance(kernel, Kernel):
            if dialect.is_pure:
                functions.add(kernel, *pure_library_text(kernel, program, names, dialect))
            else:
                functions.add(kernel, library_text(kernel, program, names))
            continue
        is_compared = kernel.array in compared
        printer = KernelPrinter(kernel, bare, names.copy(), prover, dialect, used, is_compared, nonnegative)
        text = printer.print()
        functions.add(kernel, dialect.text(text), passed=printer.passed)
    return functions, inner


def compared_arrays(program: Program) -> frozenset[str]:
    """Return the names of the arrays whose entries are tested for equality with computed values, such as their own
    maximum. Such entries must not be computed twice with different rounding.
    """
    found = set[str]()
    for kernel in program.nests:
        lets = {s.name: s.value for s in statements(kernel.body) if isinstance(s, Set) and is_let(s)}
        for test in scalars(kernel.body):
            if isinstance(test, Operation) and test.function in ("eq", "ne"):
                sides = [lets.get(side.name, side) if isinstance(side, Name) else side for side in test.arguments]
                if not any(isinstance(side, Number) for side in sides):
                    found |= {side.array for side in sides if isinstance(side, Load)}
    return frozenset(found)


class KernelPrinter:
    """Prints one kernel as a function of whole arrays: each statement becomes an array operation for all entries."""

    def __init__(
        self,
        kernel: Kernel,
        bare: frozenset[str],
        names: FormNames,
        prover: Prover,
        dialect: Dialect,
        used: UseConditions,
        is_compared: bool = False,
        nonnegative: frozenset[str] = frozenset(),
    ) -> None:
        self.kernel = kernel
        self.is_compared = is_compared
        """Whether entries are tested for equality, so that a compiler must not compute them twice."""
        self.names = names
        self.condition, self.conditions = used.arrays.get(kernel.array), used.lets
        """The condition under which an entry is used, and those of named values."""
        self.used_masks: dict[tuple[Scalar, Scalar | None, int], Name] = {}
        self.dialect = dialect
        self.values = VectorPrinter(names, prover, bare, dialect)
        self.values.nonnegative = nonnegative_names(kernel.body, nonnegative)
        self.values.stored_conditions = used.stored
        stored = conditions_at(used.stored.get(kernel.array, ()), [Affine.variable(axis) for axis in kernel.axes])
        self.stored_condition = as_scalar(stored) if stored else None
        """The condition under which an entry is stored, and `SAFE_ENTRY` elsewhere."""
        self.narrowing = Narrowing(self.values, prover)
        self.additions = Additions(self.narrowing)
        self.additions.lets = {s.name: s.value for s in statements(kernel.body) if isinstance(s, Set) and is_let(s)}
        self.additions.arguments = prover.arguments
        self.depends = dependences(kernel)
        self.has_cases = False
        self.passed: list[str] = []
        """The arguments of the function."""
        self.box = kernel.box(self.values.shapes)
        self.root = Lanes(tuple(Span(axis, Affine.of(0), n) for axis, n in zip(kernel.axes, self.box, strict=True)))
        self.recurrences = find_recurrences(kernel, self.box, self.depends, prover)

    def print(self) -> str:
        """Return the text of the kernel's function, and store the names of its parameters in ``self.passed``."""
        block = TextBlock()
        inner = block.child("")
        task = task_text(self.kernel, self.names)
        inner.line(f'"""{task.replace("Fill", "Return") if self.dialect.is_pure else task}."""')
        if not self.dialect.is_pure:
            inner.line(f"real = {self.names(self.kernel.array)}.dtype.type")
        frame = whole = PrintingContext(self.root, inner, (), axis_rows(self.kernel, self.values.shapes))
        for extent in self.box:  # slices with negative ends and views of negative lengths mean something else
            frame = self.narrowing.if_nonempty(frame, Affine.of(0), extent)
        body = self.kernel.body
        if self.dialect.is_pure:
            axes = {name: indices.intersection(self.kernel.axes) for name, indices in self.depends.items()}
            body = with_joined_sums(body, axes, self.recurrences)
        self.print_body(body, frame if self.condition is None else self.with_mask(frame, self.condition))
        if self.dialect.is_pure and (frame is not whole or isinstance(self.kernel, Scatter)):
            inner.line(f"return {self._array_text() if isinstance(self.kernel, Scatter) else self._filled('real(0)')}")
        _, *lines = block.render()
        if self.dialect.is_pure:
            lines = with_merged_tests(with_first_additions(lines, self.additions.complete))
            used = [self.values.shapes[array] for array in (*uses(self.kernel).arrays, self.kernel.array)]
            sizes = {name for shape in used for form in shape for name in form.atoms() if isinstance(name, str)}
            lines = [lines[0], *with_common_values(lines[1:], {*map(self.names, sizes)}, self.names.fresh)]
        # Sizes in the shapes of arrays are passed if the text contains them.
        words = set(WORD.findall("\n".join(lines[1:])))
        forms = [form for array in uses(self.kernel).arrays for form in self.values.shapes[array]]
        sizes = {name for form in forms for name in form.atoms() if isinstance(name, str) and self.names(name) in words}
        conditions = [self.condition, self.stored_condition, *self.conditions.values()]
        parts = [part for one in conditions if one is not None for part in subexpressions(one)]
        indices = {*self.kernel.axes, *(loop.variable for loop in loops(self.kernel.body))}
        tested = [part.form for part in parts if isinstance(part, IndexValue)]
        atoms = {name for form in tested for name in form.atoms() - indices}
        sizes |= {name for name in atoms if isinstance(name, str) and self.names(name) in words}
        self.passed = passed_names(self.kernel, self.names, [*self.box, *map(Affine.variable, sizes)])
        data = sorted({self.names(entry.tensor) for entry in data_entries(tested)} & words - {*self.passed})
        self.passed += data
        if not self.dialect.is_pure:
            return "\n".join(without_unused_real([head_text(self.kernel, self.passed), *lines]))
        self.passed = [name for name in (*self.passed, *self.dialect.preamble) if name in words]
        return "\n".join([head_text(self.kernel, self.passed), *lines])

    def with_mask(self, frame: PrintingContext, condition: Scalar) -> PrintingContext:
        """Return `frame`, the context in which code is printed, with the mask `condition` added: values computed in it
        count only where the condition is true. Print the line that defines the mask at its first use.
        """
        key = condition, frame.mask, id(frame.block)
        if key not in self.used_masks:
            mask = self.names.fresh("mask")
            test = condition if frame.mask is None else Operation("and", (frame.mask, condition))
            with self.values.inside(frame):
                frame.block.line(f"{mask} = {self.values.scalar(test)}")
                self.values.stored[mask] = StoredValue(frame.lanes, self.values.varies(test), None)
                self.values.add_mask(mask, conditions_in(condition), frame.mask)
            self.used_masks[key] = Name(mask)
        return frame._replace(mask=self.used_masks[key])

    def _array_text(self) -> str:
        """Return the name of the array that the kernel fills, as text."""
        return self.names(self.kernel.array)

    def _filled(self, text: str) -> str:
        """Return the text of an array of the kernel's shape whose entries are all equal to ``text``."""
        return f"np.broadcast_to({text}, {tuple_text(map(self.values.form, self.box))})" if self.box else text

    def print_body(self, body: tuple[Statement, ...], frame: PrintingContext) -> None:
        """Print the statements ``body`` as array operations, whose dimensions are the vectorised loops of the context
        ``frame``.
        """
        with self.values.inside(frame):
            for number, statement in enumerate(body):
                if self.prints_cases(body[number:], frame):
                    return
                if isinstance(statement, Loop):
                    self.print_loop(statement, frame)
                elif isinstance(statement, If):
                    self.print_body(statement.body, self.narrowing.restrict_lanes(frame, statement.conditions))
                elif is_accumulator(statement):
                    self.print_accumulator(statement, frame)
                elif is_let(statement):
                    self.print_let(statement, frame)
                elif is_addition(statement):
                    if not print_split_product(statement, frame, self.additions):
                        self.additions.add(statement.name, statement.value, reduction_of(statement), frame)
                elif is_scatter(statement):
                    self.print_scatter(statement, frame)
                elif is_store(statement):
                    self.print_store(statement.value, frame)

    def prints_cases(self, body: tuple[Statement, ...], frame: PrintingContext) -> bool:
        """Print `body` as both branches of an ``if``, for loops that are all guarded by one rare condition: without the
        loops, for the case that the condition holds at no entry, and with them. Return whether this was possible; if
        not, print nothing.

        ``frame`` is the context in which the code is printed.
        """
        if self.dialect.is_pure or isinstance(self.kernel, Scatter) or frame.lanes is not self.root or self.has_cases:
            return False
        tests = {condition_of_loop(statement) for statement in body if isinstance(statement, Loop)}
        test = tests.pop() if len(tests) == 1 else None
        name = "" if test is None else condition_name(test)
        first = body[0]
        is_set = is_let(first) and first.name == name and test != Name(name) and bool(self.values.varies(first.value))
        if test is None or not (is_set or name in self.values.stored) or is_addition(first) or not is_store(body[-1]):
            return False
        self.has_cases = True
        if is_let(first) and is_set:
            self.print_body(decided(body, test, False), frame.child(f"if {self.condition_of_all(first.value)}:"))
            self.print_body(body, frame.child("else:"))
            return True
        holds = self.names(name) if test != Name(name) else f"np.logical_not({self.names(name)})"
        varies = bool(self.values.varies(Name(name)))
        condition = f"np.all({holds})" if varies else holds
        self.print_body(decided(body, test, False), frame.child(f"if {condition}:"))
        rest = body if varies else decided(body, test, True)
        self.print_body(rest, frame.child("else:"))
        return True

    def condition_of_all(self, condition: Scalar) -> str:
        """Return the text of the test that a condition holds at all entries. ``x < c`` is tested by ``x.max() < c``,
        which needs no array of booleans.
        """
        if isinstance(condition, Operation) and condition.function == "and":
            return " and ".join(map(self.condition_of_all, condition.arguments))
        if isinstance(condition, Operation) and condition.function == "lt":
            low, high = condition.arguments
            varies = [bool(self.values.varies(side)) for side in (low, high)]
            if varies == [False, True]:
                return f"{self.values.scalar(low)} < {self.extreme(high, 'min')}"
            if varies == [True, False]:
                return f"{self.extreme(low, 'max')} < {self.values.scalar(high)}"
        return f"np.all({self.values.scalar(condition)})"

    def extreme(self, value: Scalar, method: str) -> str:
        """Return the text of the minimum (``method`` "min") or maximum ("max") of ``value`` over all entries, such as
        ``x.max()``.
        """
        if isinstance(value, Operation) and value.function == "mul" and len(value.arguments) == 2:
            factor, rest = value.arguments
            if isinstance(factor, Number) and factor.value > 0:
                return f"{self.values.scalar(factor)}*{self.extreme(rest, method)}"
        text = self.values.scalar(value)
        return f"{text}.{method}()" if isinstance(value, Name | Load) else f"({text}).{method}()"

    # ------------------------------------------------------------------------ values

    def print_store(self, value: Scalar, frame: PrintingContext) -> None:
        """Append to ``frame`` the assignment of `value` to the entries of the array that the kernel fills. In a dialect
        without assignment to arrays, append the line that returns `value`.
        """
        text, varies = self.values.scalar(value), self.values.varies(value)
        if not self.dialect.is_pure:
            frame.block.line(f"{self._array_text()}[...] = {text}")
            return
        if self.stored_condition is not None:
            test = self.values.scalar(self.stored_condition)
            chosen = self.values.choice_of(value, SAFE_ENTRY), self.values.choice_of(SAFE_ENTRY, value)
            text = f"np.where({test}, {', '.join(chosen)})"
            varies |= self.values.varies(self.stored_condition)
        text = text if varies else f"real({text})"
        text = text if len(varies) == len(frame.lanes.dims) else self._filled(text)
        frame.block.line(f"return {self.dialect.barrier.format(text) if self.is_compared else text}")

    def print_let(self, statement: Set, frame: PrintingContext) -> None:
        """Print the assignment of a name in ``frame``, the printing context. Its value is an array if it differs
        between the entries that are computed together.
        """
        condition = self.conditions.get((self.kernel.array, statement.name))
        with self.values.inside(frame if condition is None else self.with_mask(frame, condition)):
            text = self.values.argument(statement.value)
        self.values.stored[statement.name] = StoredValue(frame.lanes, self.values.varies(statement.value), frame.mask)
        frame.block.line(f"{self.names(statement.name)} = {text}")

    def print_accumulator(self, statement: Set, frame: PrintingContext) -> None:
        """Append the lines that initialise the accumulator of a reduction."""
        name, start = statement.name, initial_value_text(reduction_of(statement))
        lanes = frame.lanes
        varies = lanes.dims_of(*map(Affine.variable, self.depends[name]))
        self.values.stored[name] = StoredValue(lanes, varies, frame.mask)
        text = f"real({start})"
        if varies and self.dialect.is_pure:
            dims = lanes.dims_from_first(varies)
            lengths = [self.values.form(dim.length) if wanted else "1" for dim, wanted in dims]
            text = f"np.broadcast_to({text}, {tuple_text(lengths)})"
        elif varies:
            function, value = _FILL_FUNCTIONS.get(start, ("full", f", {start}"))
            if lanes is self.root and len(varies) == len(lanes.dims) and not isinstance(self.kernel, Scatter):
                text = f"np.{function}_like({self.names(self.kernel.array)}{value})"
            else:
                lengths = [
                    self.values.form(dim.length) if wanted else "1" for dim, wanted in lanes.dims_from_first(varies)
                ]
                shape = f"({', '.join(lengths)})" if len(lengths) > 1 else lengths[0]
                text = f"np.{function}({shape}{value}, real)"
        frame.block.line(f"{self.names(name)} = {text}")

    def print_scatter(self, statement: Set, frame: PrintingContext) -> None:
        """Append code that adds values to array entries at index arrays, or takes maxima or minima; repeated indices
        accumulate (``np.add.at``).
        """
        value, reduction = statement.value, reduction_of(statement)
        function, operator = FUNCTIONS[reduction]
        lanes, array = frame.lanes, self.names(self.kernel.array)
        images = [lanes.image(form) for form in statement.index]
        if frame.mask is not None:
            value = Operation("select", (frame.mask, value, constant({"max": -inf, "min": inf}.get(reduction, 0))))
        elif self.dialect.is_pure:
            pass
        elif not lanes.dims or (isinstance(self.kernel, Scatter) and self.kernel.exclusive):
            target = self.values.target_text(array, images, self.values.shapes[self.kernel.array], frame.block)
            text = self.values.scalar(value)
            frame.block.line(f"{target} += {text}" if operator else f"{target} = {function}({target}, {text})")
            return
        if self.dialect.is_pure and reduction == "sum" and (spans := self.slices_filled(images, lanes)):
            self.print_spread(value, spans, lanes, frame)
            return
        text, chosen = self.values.scalar(value), len(statement.index)
        if self.dialect.is_pure:
            chosen -= self.count_whole_axes(images, lanes)
        outer = lanes.dims[: len(lanes.dims) - len(statement.index) + chosen]
        with self.values.inside(frame._replace(lanes=Lanes(outer, lanes.images))):
            entries = self.values.index_arrays(self.kernel.array, statement.index)[:chosen]
        whole = tuple_text(self.values.form(dim.length) for dim in lanes.dims)
        if lanes.dims_of(*statement.index[:chosen]) != frozenset(outer):
            if not self.values.is_array(statement.index[0]):  # PyTorch broadcasts tensors only
                entries[0] = f"{self.dialect.arange}({self.values.form(images[0])}, {self.values.form(images[0] + 1)})"
            entries[0] = f"np.broadcast_to({entries[0]}, {tuple_text(self.values.form(dim.length) for dim in outer)})"
        if self.values.varies(value) not in (frozenset(), frozenset(lanes.dims)):
            # NumPy 2.4 reads past the end of values with fewer axes than one array of places has.
            text = f"np.broadcast_to({text}, {whole})"
        if self.dialect.is_pure:
            text = text if self.values.varies(value) else f"real({text})"
            helper = "added" if reduction == "sum" else f"{reduction}imum_at"
            frame.block.line(f"{array} = {helper}({array}, {tuple_text(entries)}, {text})")
            return
        places = f"({', '.join(entries)})" if len(entries) > 1 else entries[0]
        if frame.mask is None:
            frame.block.line(f"{function}.at({array}, {places}, {text})")
            return
        # An array without entries has none at which the entries that the mask leaves out could be added.
        frame.block.line(f"if {array}.size:")
        frame.block.line(f"    {function}.at({array}, {places}, {text})")

    def slices_filled(self, images: Sequence[Affine], lanes: Lanes) -> list[tuple[Span | None, str]]:
        """Return the slice that a scatter writes along each axis of its array, as a pair ``(dimension, text)``: the
        text of the slice, and the dimension of ``lanes`` along which the axis's index in `images` varies (None if it is
        constant).

        Return [] for other kernels than scatters, and if the entries are not distinct, form no slice, or have their
        axes in another order than the dimensions. The texts are for the helper ``spread``.
        """
        found: list[tuple[Span | None, str]] = []
        if not isinstance(self.kernel, Scatter) or not self.kernel.exclusive:
            return found
        form, array = self.values.form, self.names(self.kernel.array)
        for axis, (image, extent) in enumerate(zip(images, self.values.shapes[self.kernel.array], strict=True)):
            dims = lanes.dims_of(image)
            dim = next(iter(dims), None)
            step = 1 if dim is None else slope_along(image, dim)
            if len(dims) > 1 or not step or image.compounds() or data_entries([image]):
                return []
            start = image if dim is None else image.substitute({dim.axis: dim.low})
            length = Affine.of(1) if dim is None else dim.length
            is_whole = dim is not None and (start, step, length) == (Affine.of(0), 1, extent)
            whole = form(extent) if extent.is_constant else f"{array}.shape[{axis}]"
            found.append(
                (dim, "None" if is_whole else tuple_text([*map(form, (start, Affine.of(step), length)), whole]))
            )
        return found if tuple(dim for dim, _ in found if dim is not None) == lanes.dims else []

    def print_spread(
        self, value: Scalar, spans: Sequence[tuple[Span | None, str]], lanes: Lanes, frame: PrintingContext
    ) -> None:
        """Append to ``frame`` code that adds `value` to a slice of the array that the kernel fills. The code adds
        `value`, padded with zeros, to the whole array, since XLA fuses such a sum.

        `value` has the dimensions ``lanes``; `spans` describe the slice along each axis, as `slices_filled` returns
        them.
        """
        text, array = self.values.scalar(value), self.names(self.kernel.array)
        varies = self.values.varies(value)
        text = text if varies else f"real({text})"
        if varies != frozenset(lanes.dims):
            text = f"np.broadcast_to({text}, {tuple_text(self.values.form(dim.length) for dim in lanes.dims)})"
        axes = [":" if dim is not None else "None" for dim, _ in spans]
        if "None" in axes:
            text = f"{text if text.isidentifier() else f'({text})'}[{', '.join(axes)}]"
        frame.block.line(f"{array} = {array} + spread({', '.join([text, '0', *(span for _, span in spans)])})")

    def count_whole_axes(self, index: Sequence[Affine], lanes: Lanes) -> int:
        """Return the number of trailing axes of the kernel's array that are written completely, each along one
        dimension of ``lanes``: code can write slices there instead of index arrays. ``index`` is the index of the
        entries.
        """
        count, shape = 0, self.values.shapes[self.kernel.array]
        pairs = zip(reversed(index[1:]), reversed(lanes.dims), reversed(shape), strict=False)
        for form, dim, extent in pairs:
            others = index[: len(index) - count - 1]
            is_whole = form == Affine.variable(dim.axis) and dim.low == Affine.of(0) and dim.stop == extent
            if not is_whole or dim in lanes.dims_of(*others):
                break
            count += 1
        return count

    # ------------------------------------------------------------------------ loops

    def print_loop(self, loop: Loop, frame: PrintingContext) -> None:
        """Append a loop in ``frame``, the printing context: as array operations if possible, else as a Python loop."""
        if frame.lanes is self.root and self.prints_recurrence(loop, frame):
            return
        if not self.dialect.is_pure and (test := condition_of_loop(loop)) is not None:
            text = self.values.scalar(test)
            varies = bool(self.values.varies(test))
            frame = frame.child(f"if {f'np.any({text})' if varies else text}:")
            loop = loop if varies else without_condition(loop, test)
        wide = self.narrowing.widest(loop, frame)
        if wide == loop:
            # One more dimension is worth it for a long sum, and for a short one if it is fused and reads slices.
            is_long = not is_short(loop, SHORTEST_LENGTH if self.dialect.is_fused else SHORT_LENGTH)
            is_done = print_product(loop, frame, self.additions) or (
                (not is_short(loop) or (is_long and self.reads_slices(loop, frame)))
                and self.print_as_dimension(loop, frame)
            )
        else:
            is_done = not is_short(wide) and (
                self.print_by_offsets(loop, wide, frame)
                or self.additions.print_running_reduction(loop, wide, frame)
                or print_window(loop, wide, frame, self.additions)
                or self.print_over_widest_range(loop, wide, frame)
            )
        if not is_done and self.dialect.is_pure and not is_short(wide):
            self.print_as_dimension(wide, frame, tied_rows(loop, frame.lanes, self.dialect))
        elif not is_done:
            self.print_python_loop(loop, wide, frame)

    def prints_recurrence(self, loop: Loop, frame: PrintingContext) -> bool:
        """Append a sum that is a linear recurrence along the last axis, and return True; False for other loops."""
        scan = self.recurrences.get(next(iter(added(loop.body)), ""))
        if scan is None:
            return False
        factor = self.names.fresh("factor")
        found = LinearRecurrence(scan, factor, self.kernel.axes[-1], self.box[-1])
        self.depends[factor] = self.depends[found.accumulator.name]
        self.print_body((*found.terms, *found.factors), frame)
        own, factor = self.names(found.accumulator.name), self.names(factor)
        frame.block.line(f"{own} = recurrence({factor}, {own}, {found.is_reversed})")
        return True

    def reads_slices(self, loop: Loop, frame: PrintingContext) -> bool:
        """Return whether each read in `loop` is a slice of an array when the loop becomes a dimension of array
        operations, so that no index arrays are needed.
        """
        inner = {loop.variable, *(one.variable for one in loops(loop.body))}
        for load in loads(loop.body):
            names = [{*frame.lanes.axes_in(form), *(form.atoms() & inner)} for form in load.index]
            if any(len(found) > 1 for found in names) or any(form.compounds() for form in load.index):
                return False
        return True

    def print_python_loop(self, loop: Loop, wide: Loop, frame: PrintingContext) -> None:
        """Append to ``frame`` a Python loop over the range of ``wide`` in place of ``loop``, whose range differs
        between the array entries that are computed together. An iteration computes only the entries whose own range
        contains the loop variable.

        The range of ``wide`` contains the ranges of all entries.
        """
        lows, stops = loop_ends(wide)
        low = self.values.extreme("max", self.narrowing.without_dominated(lows, 1, frame.known))
        stop = self.values.extreme("min", self.narrowing.without_dominated(stops, -1, frame.known))
        span = stop if low == "0" else f"{low}, {stop}"
        is_written_out = low.isdigit() and stop.isdigit() and int(stop) - int(low) <= SHORTEST_LENGTH
        if self.dialect.is_pure and is_written_out and loop == wide and all(map(is_addition, loop.body)):
            for value in range(int(low), int(stop)):
                self.print_body(Renaming({}, forms={loop.variable: Affine.of(value)}).body(loop.body), frame)
            return
        inner = frame.child(f"for {self.names(loop.variable)} in range({span}):", loop_rows(wide))
        tied = tied_rows(loop, frame.lanes, self.dialect)
        self.print_body(
            loop.body, self.narrowing.restrict_lanes(inner._replace(context=frame.context + loop_rows(wide)), tied)
        )

    def print_by_offsets(self, loop: Loop, wide: Loop, frame: PrintingContext) -> bool:
        """Print `loop`, which adds to ``s[2*i + a]`` for each ``i`` and a few ``a``, as a Python loop over ``a`` with
        one array operation for all ``i``. Return False, and print nothing, for another loop.

        The range of all ``i`` is that of the loop `wide`.

        ``s[2*i + a] += v(i, a)`` for ``a = 0, 1, 2`` becomes three operations on all ``i``, in place of a loop over
        ``i`` with three entries each: the entries of one ``a`` are distinct, with a constant stride.
        """
        found = find_offsets(loop, frame.lanes)
        if found is None:
            return False
        old, first, length = found
        span, frame = self.narrowing.span(frame, wide)
        offset = self.names.fresh(f"{self.names(old.axis)}_offset")
        step, axis = Affine.variable(offset), Affine.variable(old.axis)
        known = (Constraint("ge", step), Constraint("ge", length - 1 - step))
        frame = frame.child(f"for {offset} in range({length}):", known)
        lanes = frame.lanes.replace(old, span, first + step)
        context = (*frame.context, *loop_rows(loop), Constraint("eq", first + step - axis))
        inside = (Constraint("ge", axis - old.low), Constraint("ge", old.stop - 1 - axis))
        rows = frame.lanes.varying_rows(loop_rows(loop)) + inside
        self.print_body(loop.body, self.narrowing.restrict_lanes(frame._replace(lanes=lanes, context=context), rows))
        return True

    def print_over_widest_range(self, loop: Loop, wide: Loop, frame: PrintingContext) -> bool:
        """Print ``loop``, a sum whose range depends on the array entry, as array code that sums over `wide`, a range
        that contains those of all entries: terms outside of an entry's own range count as 0. Return whether that was
        possible.

        A Python loop follows for the case of an infinite or nan factor, unless the dialect is pure.
        """
        found = over_widest_range(loop, wide, frame, self.additions)
        if found is None:
            return False
        sum_over, conditions = found
        if self.dialect.is_pure:  # an array may be traced, so that its entries are not tested
            return print_product(sum_over, frame, self.additions)
        inner = frame
        if conditions:
            inner = frame.child(f"if {' and '.join(conditions)}:")
            self.print_python_loop(loop, wide, frame.child("else:"))
        with self.values.inside(inner):
            if not print_product(sum_over, inner, self.additions):
                self.print_as_dimension(sum_over, inner)
        return True

    def print_as_dimension(self, loop: Loop, frame: PrintingContext, rows: Rows = ()) -> bool:
        """Print a reduction loop as array operations with one more dimension, in blocks if an array would be large.
        Always return True, which says that the loop has been printed.

        Only the terms for which the constraints ``rows`` hold are added. ``frame`` is the context for printing.
        """
        span, frame = self.narrowing.span(frame, loop)
        if not _adds_view_entries(loop.body):
            span, frame = self.narrowing.blocks(frame, span, frame.lanes.dims)
        frame = frame._replace(lanes=frame.lanes.with_outer(span))
        self.print_body(loop.body, self.narrowing.restrict_lanes(frame, rows) if rows else frame)
        return True


def _adds_view_entries(body: tuple[Statement, ...]) -> bool:
    """Return whether the `body` of a loop only adds an array entry, in whose indices each variable occurs once and
    outside of quotients. The loop is then the sum of a view of the array, for which no temporary array is needed.
    """
    if len(body) != 1 or not is_addition(body[0]) or not isinstance(body[0].value, Load):
        return False
    names = [name for form in body[0].value.index for name in form.atoms()]
    return len(set(names)) == len(names) and not any(form.hidden() for form in body[0].value.index)
