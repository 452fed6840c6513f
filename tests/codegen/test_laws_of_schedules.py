"""Parts of schedules on their own: threads and parts of sums, lengths of loops, pieces of kernels, joined sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from types import SimpleNamespace

import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import Loop, Set, accumulator, add, let
from sympy_tensordiff.codegen.ir.nests import span
from sympy_tensordiff.codegen.ir.programs import Kernel, Scatter, entrywise
from sympy_tensordiff.codegen.ir.scalars import Bound, Load, Name, Number, Operation
from sympy_tensordiff.codegen.ir.walk import subexpressions, weight
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.schedule import (
    block_nests,
    common_loops,
    device_loops,
    distribution,
    gpu_model,
    iterations,
    joined_scatters,
    joined_sums,
    launches,
    passes,
    scans,
    split,
    split_reductions,
)
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import IndirectIndex

I, J, K, N, M = map(Affine.variable, ("i", "j", "k", "n", "m"))


def number(form: Affine) -> Affine:
    return Affine.of(form) if isinstance(form, int) else form


def loop(variable: str, low: int | Affine, high: int | Affine, body: Sequence[object] = (), *divisors: int) -> Loop:
    """Return the loop from ``low`` to ``high``, both included, divided by the ``divisors``, rounded inwards."""
    divisors = divisors or (1, 1)
    return Loop(variable, (Bound(number(low), divisors[0]),), (Bound(number(high), divisors[1]),), tuple(body))


@every("shape", list(product((1, 2, 3), (1, 2, 5), (1, 4, 6), (2, 3))))
def test_threads_of_a_block_have_different_entries(shape):
    """The threads of one block compute each entry of the block once; threads beyond the array compute none."""
    threads = gpu_model._Threads.__new__(gpu_model._Threads)
    threads.axes, threads.box = ["h", "i", "j", "k"], list(shape)
    threads.extents = (shape[3], shape[2], shape[0] * shape[1])
    threads.start = [0, 0, 0]
    for block in ((2, 2, 2), (3, 1, 4), (4, 6, 6)):
        threads.block = block
        entries = [threads.lane(number) for number in range(prod(block))]
        found = [tuple(entry[axis] for axis in threads.axes) for entry in entries if entry is not None]
        columns, rows, outer = (min(size, extent) for size, extent in zip(block, threads.extents, strict=True))
        expected = {
            (*divmod(number, shape[1]), row, column)
            for number, row, column in product(range(outer), range(rows), range(columns))
        }
        assert len(found) == len(set(found)) and set(found) == expected


def test_the_backend_of_time_steps(monkeypatch):
    """Steps that a backend cannot compile are NumPy's; others are compiled by the backend of the recurrence."""

    class Step:
        body = None

    for backend, is_compiled, uncompiled in product(
        ("numpy", "numba", "llvm", "c", "cuda"), (False, True), ((), ("x",))
    ):
        monkeypatch.setattr(passes, "is_compiled_step", lambda step, found=is_compiled: found)
        monkeypatch.setattr(passes, "uncompiled_arrays", lambda body, found=uncompiled: found)
        is_left_out = bool(uncompiled) if backend == "numba" else backend == "llvm" and not is_compiled
        assert passes._backend_of(Step(), backend) == ("numpy" if is_left_out else backend)


def test_rounds_are_bounds_of_numbers_of_iterations():
    """For loops with values, the host computes their number; the axes of a box are at their extremes."""
    for low, high, divisor, size in product((-2, 0, 1, 3), (3, 4, 7), (1, 2, 3), (5, 8)):
        found = split_reductions.rounds(loop("j", N + low - 9, N + high, (), 1, divisor), set())
        values = [j for j in range(-40, 40) if j >= size + low - 9 and divisor * j <= size + high]
        assert values and found.substitute({"n": Affine.of(size)}) == Affine.of(len(values))
        boxed = split_reductions.rounds(loop("j", I + low - 9, I + high), set(), {"i": Affine.of(size)})
        most = max(high - low + 10, 0)
        assert boxed is not None and boxed.constant >= most and boxed == Affine.of(size - 1 + most)
    assert split_reductions.rounds(loop("j", Affine.of(0), I), {"i"}) is None
    assert split_reductions.rounds(loop("j", Affine.of(0), N, (), 2, 1), set()) is None


def test_short_loops_are_those_of_constant_length():
    limit = iterations.SHORT
    for low, high, divisors in product((0, 2, N), (0, limit - 1, limit, limit + 1, N), ((1, 1), (2, 1), (1, 2))):
        found = loop("j", low, high, (), *divisors)
        is_constant = isinstance(low, int) and isinstance(high, int) and divisors == (1, 1)
        assert iterations._is_short(found) == (is_constant and high - low + 1 <= limit)
        assert not iterations._is_short(replace(found, step=2))
        assert not iterations._is_short(replace(found, highs=(*found.highs, Bound(N))))


def test_kernels_that_one_thread_can_run():
    """All axes from a number on, and all loops, have constant lengths, whose product is below the limit."""
    launch = launches._Launch.__new__(launches._Launch)
    data = Affine.variable(IndirectIndex("idx", (I,)))
    ends = {2: Affine.of(1), launches.SHORT - 1: Affine.of(launches.SHORT - 2), None: N, 0: data}
    for (count, end), width, axis in product(ends.items(), (1, 3, N), (0, 1)):
        launch.shapes = {"a": (N, number(width))}
        body = [accumulator("s"), loop("k", 0, end, [add("s", Load("x", (K,)))])]
        found = launch.is_short(entrywise("a", ("i", "j"), body, Name("s")), axis)
        is_known = count and isinstance(width, int) and axis == 1
        assert found == bool(is_known and count * width < launches.SHORT)


def test_scatters_share_no_memory():
    kernel = entrywise("a", ("i",), (), Load("x", (I,)))
    scatter = Scatter("a", ("i",), (Set(Load("a", (I,)), Load("x", (I,)), "sum"),), (N,))
    shapes = {"a": (N,), "x": (N,)}
    for loops in ({}, {"a": None}):
        assert block_nests.shares_memory(kernel, loops, shapes) == bool(loops)
        assert not block_nests.shares_memory(scatter, loops, shapes)


def test_a_sum_of_sums_has_one_accumulator():
    """``s = 0; for j: s += x; t += s`` is ``for j: t += x``, for one reduction free of order."""
    value = Load("x", (I, J))
    for outer, inner in product(("sum", "max", "min", "prod"), repeat=2):
        body = (accumulator("s", inner), loop("j", 0, M, [add("s", value, inner)]), add("t", Name("s"), outer))
        nest = loop("i", 0, N, body)
        found = joined_sums._with_one_accumulator(nest)
        if outer == inner and outer in ("sum", "max", "min"):
            assert found == loop("i", 0, N, [loop("j", 0, M, [add("t", value, outer)])])
        else:
            assert found is nest
        changed = loop("i", 0, N, [*body[:2], add("t", Operation("mul", (Number(2), Name("s"))), outer)])
        assert joined_sums._with_one_accumulator(changed) is changed


def test_sums_have_as_many_parts_as_fill_the_device():
    """In whole numbers: no part is empty, there are at most so many, and short sums stay whole."""
    most, threads = split_reductions.MOST_PARTS, split_reductions.THREADS
    short = split_reductions.SHORT_WORK * threads
    sizes = (1, threads, 10 * threads + 3, 40 * threads + 1, 4000 * threads)
    for length, other, width, tile, columns in product(sizes, (1, 9), (0, 8), (0, 64), (1, 5, 300)):
        chosen = split_reductions.ChosenLoop(
            *(loop("j", 0, length - 1), Affine.of(length), [(loop("k", 0, other - 1), Affine.of(other))]),
            *(width, "", "", 32, accumulator("s"), []),
        )
        chunk, parts = split_reductions._Stages.part_count(None, (Affine.of(columns),), chosen, tile)
        work = length * other
        if tile:
            assert chunk == 32
            expected = min(length // chunk, most, most * tile // columns)
        else:
            at_once = width or 1
            assert chunk == (chosen.threads if width else 256)
            expected = min(-(-length // chunk), work // (8 * chunk), most, most * at_once // columns)
            expected = 1 if work <= short else expected
        assert parts == Affine.of(max(expected, 1))


def test_products_inside_of_sums_are_stored_for_tiles():
    """Only those whose loop has step 1, starts at 0 and has one end: the array has an entry for each iteration."""
    n, m, d = sympy.symbols("n m d", integer=True, positive=True)
    i, j, k = td.indices("i j k")
    A, C, b = td.TensorSymbol("A", (n, m)), td.TensorSymbol("C", (m, d)), td.TensorSymbol("B", (n, d))
    inner = td.IndexedSum(A[i, j] * C[j, k], (j, 0, m - 1))
    total = td.TensorComprehension(td.IndexedSum(b[i, k] * sympy.exp(inner), (k, 0, d - 1)), (i, n))
    program = build_program([A, C, b], total, temporaries=False)
    (kernel,) = program.nests
    number = next(number for number, part in enumerate(kernel.body) if isinstance(part, Loop))
    nest = kernel.body[number]
    stages = split_reductions._Stages(program)
    assert len(stages.with_stored_products(kernel)) == 2
    for changed in (
        replace(nest, step=2),
        replace(nest, highs=(*nest.highs, Bound(N))),
        replace(nest, lows=(Bound(Affine.of(1)),)),
        replace(nest, highs=(Bound(nest.highs[0].form, 2),)),
    ):
        other = replace(kernel, body=(*kernel.body[:number], changed, *kernel.body[number + 1 :]))
        assert split_reductions._Stages(program).with_stored_products(other) == [other]


def test_large_kernels_are_cut_where_enough_operations_are_left():
    """A chain of values is stored each time the operations since the last stored one exceed the limit."""
    for count in (split.PIECE // 2, split.PIECE + 1, 3 * split.PIECE + 5):
        chain = [let("t0", Load("x", (I,)))]
        chain += [let(f"t{n + 1}", Operation("sin", (Name(f"t{n}"),))) for n in range(count)]
        kernel = entrywise("a", ("i",), chain, Name(f"t{count}"))
        left, stored = 0, 0
        for statement in chain:
            left += weight([statement])
            if left > split.PIECE:
                left, stored = 0, stored + 1
        pieces = split._Pieces(kernel, {"a", "x"})
        assert len(pieces.made) == stored
        assert max(weight(piece.body) for piece in pieces.kernels) <= split.PIECE + weight(chain[-1:]) + 1


@every("count", [1, 2, 4])
def test_each_loop_of_a_large_kernel_has_a_kernel(count):
    body = []
    for number in range(count):
        body += [accumulator(f"s{number}"), loop("k", 0, M, [add(f"s{number}", Load("x", (I + number, K)))])]
    value = Operation("add", (Load("y", (I,)), *(Name(f"s{number}") for number in range(count))))
    pieces = split._Pieces(entrywise("a", ("i",), body, value), {"a", "x", "y"})
    assert len(pieces.made) == count and len(pieces.kernels) == count + 1
    assert [sum(isinstance(part, Loop) for part in piece.body) for piece in pieces.kernels] == [1] * count + [0]


def test_summands_as_long_as_the_limit_are_written_out():
    """Names of scalars are replaced by their values up to a number of nodes; a name that is set twice has no value."""
    finder = scans._ScanFinder.__new__(scans._ScanFinder)
    finder.found, finder.outside = [], {"y": True}
    limit = scans.MAX_SUMMAND_OPERATIONS
    for size in (2, limit - 1, limit, limit + 1):
        value = Operation("add", tuple(Name("y") for _ in range(size - 1)))
        assert sum(1 for _ in subexpressions(value)) == size
        finder.declared = {"t": let("t", value)}
        assert finder.written_out(Name("t")) == (value if size <= limit else None)
    finder.declared = {"t": let("t", Load("x", (I,)))}
    both = Operation("add", (Name("t"), Name("y")))
    assert finder.written_out(both) == Operation("add", (Load("x", (I,)), Name("y")))
    finder.declared = {"t": accumulator("t")}
    assert finder.written_out(Name("t")) is None


def test_nests_of_loops_that_can_be_joined():
    """A serial loop with step 1 around innermost loops and scalars that are set."""
    inner = loop("k", 0, M, [add("s", Load("x", (J, K)))])
    nest = loop("j", 0, N, [accumulator("s"), inner, add("t", Name("s"))])
    assert common_loops._is_nest(nest)
    for other in (
        *(accumulator("s"), inner, replace(nest, step=2), replace(nest, bind="grid.x")),
        loop("j", 0, N, [accumulator("s"), inner, Set(Load("a", (J,)), Name("s"))]),
        loop("j", 0, N, [accumulator("s"), loop("k", 0, M, [inner]), add("t", Name("s"))]),
    ):
        assert not common_loops._is_nest(other)


def test_positions_that_a_sum_gives_keep_loops_whole():
    """A position other than a single value of the loop's index cannot be read again in a second loop."""
    row = [accumulator("r"), loop("k", 0, M, [add("r", Load("c", (J, K)))])]
    read = add("s", Operation("exp", (Operation("mul", (Name("r"), Load("v", (Affine.variable("q"),)))),)))
    summed = [accumulator("q"), loop("k", 0, M, [add("q", Load("idx", (J, K)))])]
    fresh = "{}_".format
    assert distribution.distributed(span("j", Affine(), N, [*summed, *row, read]), "c", fresh) is None
    plain = add("s", Operation("exp", (Name("r"),)))
    assert distribution.distributed(span("j", Affine(), N, [*summed, *row, plain]), "c", fresh) is not None


def test_scatters_to_the_same_entries_are_one():
    entry = Load("a", (Affine.variable(IndirectIndex("idx", (I,))),))
    other_entry = Load("a", (Affine.variable(IndirectIndex("idx", (I,))) + 1,))

    def scatter(target: Load, value: str, *axes: str) -> Scatter:
        read = Load(value, tuple(map(Affine.variable, axes)))
        return Scatter("a", axes, (Set(target, read, "sum"),), (N, M)[: len(axes)])

    first, second, third = scatter(entry, "x", "i"), scatter(entry, "y", "i"), scatter(other_entry, "z", "i")
    wide = scatter(entry, "w", "i", "j")
    found = list(joined_scatters._join_scatters([first, third, second, wide], {"a", "x", "y", "z", "w", "i", "j"}))
    both = Operation("add", (Load("x", (I,)), Load("y", (I,))))
    assert found == [replace(first, body=(Set(entry, both, "sum"),)), third, wide]


def test_terms_of_a_kernel_are_those_of_its_loops():
    """One product for the entries, and one for each loop, with the lengths of the loops around it."""
    inner = loop("k", 0, M - 1, [add("s", Load("x", (J, K)))])
    kernel = entrywise("a", ("i",), [accumulator("s"), loop("j", 0, 6, [inner]), loop("k", 0, 3)], Name("s"))
    shapes = {"a": (N,)}
    seven, four = Affine.of(7), Affine.of(4)
    expected = [(N,), (N, seven), (N, seven, M), (N, four)]
    assert sorted(map(str, device_loops._terms(kernel, shapes, {}))) == sorted(map(str, expected))
    batched = [extents[1:] for extents in expected]
    assert sorted(map(str, device_loops._terms(kernel, shapes, {"a": 0}))) == sorted(map(str, batched))


@pytest.mark.parametrize("is_small", [False, True])
def test_the_plan_says_who_runs_a_loop_over_time(is_small, monkeypatch):
    kernels = (Kernel("a", (), ()), Kernel("b", (), ()))
    program = SimpleNamespace(kernels=kernels)
    step = SimpleNamespace(array="r", body=program)
    monkeypatch.setattr(device_loops, "on_device", lambda body: SimpleNamespace(program=body))
    for batch in (None, N):
        found = SimpleNamespace(batch=batch, is_small=is_small, step=step)
        monkeypatch.setattr(device_loops, "block_loop", lambda step, found=found: found)
        first, *rest = device_loops._describe_loop(step)
        assert first.startswith("one block runs" if batch is None else "blocks run, each for some of n entries")
        assert first.endswith("the loop for r: 2 kernels in each step") == is_small
        assert rest == ([] if is_small else ["other ones are launched by the host in each step of r: 2 kernels"])
    monkeypatch.setattr(device_loops, "block_loop", lambda step: None)
    assert [*device_loops._describe_loop(step)] == ["launched by the host in each step of r: 2 kernels"]
