"""Loops and sums of schedules on their own: moved sums, prefix scans, extrema, threads, guards of tiles, scatters."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from types import SimpleNamespace

from every import every

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, accumulator, add, let
from sympy_tensordiff.codegen.ir.nests import span
from sympy_tensordiff.codegen.ir.programs import Scatter, entrywise
from sympy_tensordiff.codegen.ir.scalars import Bound, Identity, Load, Name, Number, Operation
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.schedule import angles, cpu, fusion, gpu_model, primitives, scans, shared_sums, tiles
from sympy_tensordiff.codegen.schedule.joined_scatters import with_joined_scatters
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import IndirectIndex

I, J, K, N = map(Affine.variable, ("i", "j", "k", "n"))
ZERO, ONE = Affine.of(0), Affine.of(1)


def value_of(scalar, names):
    """Return the value of sums and products of numbers and names."""
    if isinstance(scalar, Number | Name):
        return scalar.value if isinstance(scalar, Number) else names[scalar.name]
    values = [value_of(argument, names) for argument in scalar.arguments]
    result = values[0]
    for value in values[1:]:
        result = result + value if scalar.function == "add" else result * value
    return result


@every("count", [1, 2, 3, 5])
def test_moved_sums_of_powers(count):
    """``Sum_j w[j]*(p - q[j])**n`` for ``p + change`` follows from the sums for p; that for n = 0 is the same."""
    random = Random(count)
    weights, points = ([random.randint(-3, 3) for _ in range(4)] for _ in range(2))

    def sums(p):
        return [sum(w * (p - q) ** n for w, q in zip(weights, points, strict=True)) for n in range(count)]

    totals = [Name(f"s{n}") for n in range(count)]
    names = {"change": 3} | dict(zip((total.name for total in totals), sums(2), strict=True))
    statements = primitives._move(totals, Name("change"), "{}_".format)
    assert bool(statements) == (count > 1)
    for statement in statements:
        names[statement.target.name] = value_of(statement.value, names)
    assert [names[total.name] for total in totals] == sums(5)


def test_sums_that_grow_along_a_row_have_an_accumulator_around():
    summed = Loop("j", (Bound(ZERO),), (Bound(I),), (add("s", Load("x", (J,))),))
    start = accumulator("s")
    finder = scans._ScanFinder(entrywise("a", ("i",), [start, summed], Name("s")), {})
    assert finder.scan(summed, {"s": start}, ()) is not None
    assert finder.scan(summed, {}, ()) is None
    assert finder.scan(summed, {"t": accumulator("t")}, ()) is None
    twice = scans._ScanFinder(entrywise("a", ("i",), [start, add("s", Load("y", (I,))), summed], Name("s")), {})
    assert twice.scan(summed, {"s": start}, ()) is None


@every("is_down", [False, True])
def test_products_in_running_sums(is_down):
    """``Sum_{j <= i + d} x[j]*Prod_{j + e <= k <= i + f} a[k]`` grows by ``a[i + f]``, unless a length is negative."""
    for last, first, nearest in product(range(-2, 3), repeat=3):
        nest = [accumulator("p", "prod")]
        near, far = I + nearest, J + first
        low, high = (near, far) if is_down else (far, near)
        nest.append(Loop("k", (Bound(low),), (Bound(high),), (add("p", Load("a", (K,)), "prod"),)))
        nest.append(added := add("s", Operation("mul", (Load("x", (J,)), Name("p")))))
        ends = ((Bound(I + last),), (Bound(N),)) if is_down else ((Bound(ZERO),), (Bound(I + last),))
        loop = Loop("j", *ends, tuple(nest))
        start = accumulator("s")
        finder = scans._ScanFinder(entrywise("r", ("i",), [start, loop], Name("s")), {})
        found = finder.with_product(scans.PrefixScan((start,), loop, (), downward=is_down), added)
        # The term that enters at an entry has a product of this length: the factor of each other one is new.
        length = (last + first) - nearest + 1 if is_down else nearest - (last + first) + 1
        assert (found is not None) == (length >= 0)
        if found is not None:
            assert [load.index for part in found.growth for load in [part.value]] == [(near,)]


def test_sines_are_computed_again_only_if_an_angle_was_large():
    body = [add("s", Operation("sin", (Load("x", (J,)),)))]
    start, *_, again = angles.with_near_angles(span("j", ZERO, N, body), "{}_".format)
    (condition,) = again.conditions
    assert [condition.holds({start.target.name: value}) for value in (0, 1)] == [False, True]


def test_loops_that_are_extrema():
    value = Load("x", (J,))
    heavy = Operation("add", tuple(Load("x", (J + n,)) for n in range(cpu.CHAIN_WEIGHT + 1)))
    chosen = Operation("select", (Name("c"), value, Identity("max").value))
    for reduction in ("max", "min", "sum"):
        loop = span("j", ZERO, N, [add("m", value, reduction)])
        assert cpu.is_extremum(loop) == (reduction != "sum")
        for body in (
            [add("m", heavy, reduction)],
            [add("m", Load("x", (I,)), reduction)],
            [Set(Load("m", (I,)), value, reduction)],
            [let("t", value), add("m", Name("t"), reduction)],
        ):
            assert not cpu.is_extremum(replace(loop, body=tuple(body)))
        assert not cpu.is_extremum(span("j", ZERO, Affine.of(cpu.CHAINS - 1), loop.body))
    rare = span("j", ZERO, N, [add("m", chosen, "max")])
    assert (cpu.condition_of_loop(rare) is not None) and not cpu.is_extremum(rare)


def test_the_middle_of_loops_of_a_warp():
    """The most iterations of all threads, and the value of the variable in the middle one, by enumeration."""
    for low, high, step, divisor in product((0, I, I - 3), (5, I, I + 4, 2 * I - 1), (1, 2, 3), (1, 2)):
        ends = [Affine.of(end) if isinstance(end, int) else end for end in (low, high)]
        loop = Loop("j", (Bound(ends[0]),), (Bound(ends[1], divisor),), (), step)
        warp = [{"i": thread} for thread in range(6)]
        most, inner = gpu_model._middle(loop, warp)
        values = [[*range(ends[0].evaluate(lane), ends[1].evaluate(lane) // divisor + 1, step)] for lane in warp]
        assert most == max(map(len, values))
        for lane, variables, own in zip(warp, inner, values, strict=True):
            assert variables["i"] == lane["i"] and (not own or variables["j"] == own[len(own) // 2])


def test_threads_of_a_sum():
    for length in (*range(70), *range(250, 260), 511, 512, 3000, 10**6):
        first = 0 if length < 8 else 8 if length < 16 else 16 if length < 32 else 32
        expected = min(first + 32 * (length // 256), shared_sums.THREADS)
        assert shared_sums.threads_of_sum(Affine.of(length)) == Affine.of(expected)


def test_sums_in_guards_are_computed_before():
    """The inner sum leaves the guard; all other statements keep their order."""
    inner = span("k", ZERO, N, [add("r", Operation("mul", (Load("A", (I, K)), Load("B", (J, K)))))])
    outside = add("s", Operation("mul", (Load("x", (I,)), Name("r"))))
    guard = If((Constraint("ge", I - J),), (accumulator("r"), inner, outside))
    kernel = entrywise("a", ("i", "j"), [accumulator("s"), guard, let("t", Name("s"))], Name("t"))
    shapes = {"a": (N, N), "A": (N, N), "B": (N, N), "x": (N,)}
    found = tiles.without_guard(kernel, shapes)
    start, *rest = kernel.body
    moved = (accumulator("r"), inner, start, replace(guard, body=(outside,)), *rest[1:])
    assert found == replace(kernel, body=moved)
    assert tiles.without_guard(kernel, shapes | {"B": (N, N + 1)}) is None
    assert tiles.without_guard(replace(kernel, body=(start, *rest[1:])), shapes) is None


def test_scatters_wait_for_those_to_the_same_array():
    """Scatters to another array, and steps that use neither, do not end the waiting; a read of the array does."""
    x = td.TensorSymbol("x", td.indices("n"))
    program = build_program([x], td.gradient(x @ x, x))
    places = {array: Affine.variable(IndirectIndex(f"p{array}", (I,))) for array in "ab"}

    def scatter(array, value):
        return Scatter(array, ("i",), (Set(Load(array, (places[array],)), Load(value, (I,)), "sum"),), (N,))

    plain, reading = (entrywise(name, ("i",), (), Load(source, (I,))) for name, source in (("f", "u"), ("g", "a")))
    first, second, third, fourth = (scatter(*pair) for pair in ("av", "bv", "aw", "bw"))

    def joined(array):
        value = Operation("add", (Load("v", (I,)), Load("w", (I,))))
        return replace(scatter(array, "v"), body=(Set(Load(array, (places[array],)), value, "sum"),))

    for steps, expected in (
        ((first, third), (joined("a"),)),
        ((first, second, third, fourth), (joined("a"), joined("b"))),
        ((first, plain, third), (plain, joined("a"))),
        ((first, reading, third), (first, reading, third)),
        ((first, second, reading, third, fourth), (first, reading, joined("b"), third)),
    ):
        found = with_joined_scatters(replace(program, kernels=steps)).kernels
        assert sorted(map(str, found)) == sorted(map(str, expected))
        assert [step for step in found if step in (plain, reading)] == [
            step for step in steps if step in (plain, reading)
        ]


def test_equal_scalars_of_joined_kernels_have_one_name():
    """Those in front of the loop that are set once, in terms of such scalars; not those read from filled arrays."""
    inverse = Operation("pow", (Load("s", (ZERO,)), Number(-1)))
    parts = fusion._Parts.__new__(fusion._Parts)
    parts.step = SimpleNamespace(filled=("t",))
    filled = Load("t", (ZERO,))
    parts.before = [
        *(let("c0", inverse), let("c1", inverse), let("d0", Operation("mul", (Name("c0"), Number(2))))),
        *(let("d1", Operation("mul", (Name("c1"), Number(2)))), let("f0", filled), let("f1", filled)),
        *(accumulator("e0"), add("e0", inverse), accumulator("e1"), add("e1", inverse)),
    ]
    stores = [Set(Load(array, (I,)), Operation("mul", tuple(map(Name, names)))) for array, names in NAMES.items()]
    parts.inside = [let("c2", inverse), let("g0", Load("x", (I,))), let("g1", Load("x", (I,))), *stores]
    parts.after = [Set(Load("r", (ZERO,)), Name("d1"))]
    parts.join_constants()
    assert [part.target.name for part in parts.before] == ["c0", "d0", "f0", "f1", "e0", "e0", "e1", "e1"]
    joined = {"c1": "c0", "c2": "c0", "d1": "d0"}
    assert parts.inside == [
        *(let("g0", Load("x", (I,))), let("g1", Load("x", (I,)))),
        *(
            Set(Load(array, (I,)), Operation("mul", tuple(Name(joined.get(name, name)) for name in names)))
            for array, names in NAMES.items()
        ),
    ]
    assert parts.after == [Set(Load("r", (ZERO,)), Name("d0"))]


NAMES = {"a": ("c0", "d1", "f0"), "b": ("c1", "c2", "f1", "g1", "e1")}
"""The scalars that the loop reads for the entries of two arrays."""
