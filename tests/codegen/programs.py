"""Small programs built by hand, with arguments for them; used by all tests of the code generation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement, accumulator, add, is_accumulator, let
from sympy_tensordiff.codegen.ir.programs import Argument, Array, Check, Kernel, Program, Scatter, Size, entrywise
from sympy_tensordiff.codegen.ir.scalars import (
    ELEMENTARY,
    Bound,
    IndexValue,
    Load,
    Name,
    Number,
    Operation,
    Reduction,
    Scalar,
)
from sympy_tensordiff.codegen.ir.verify import OutOfBounds, failing, out_of_bounds_point
from sympy_tensordiff.codegen.ir.walk import loops, rewrite, with_parts
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.indirect import IndirectIndex, partition_data

L, M, N, K = (Affine.variable(name) for name in "LMNK")
i, j, k, p, q, r = (Affine.variable(name) for name in "ijkpqr")


def op(function: str, *arguments: Scalar | float | Fraction) -> Operation:
    """An operation; numbers become constants."""
    return Operation(function, tuple(Number(a) if isinstance(a, int | float | Fraction) else a for a in arguments))


def load(name: str, *index: Affine | int) -> Load:
    return Load(name, tuple(Affine.of(form) for form in index))


def array(name: str, *shape: Affine | int) -> Argument:
    return Argument("array", name, name, tuple(Affine.of(form) for form in shape))


def integers(name: str, *shape: Affine | int) -> Argument:
    return replace(array(name, *shape), dtype="integer")


def data(name: str, *index: Affine | int) -> Affine:
    """An entry of an array of integers."""
    return Affine.variable(IndirectIndex(name, tuple(Affine.of(form) for form in index)))


def result(name: str, *shape: Affine | int) -> Array:
    return Array(name, tuple(Affine.of(form) for form in shape))


def loop(variable: str, low: Affine | int, high: Affine | int, *body: Statement) -> Loop:
    return Loop(variable, (Bound(Affine.of(low)),), (Bound(Affine.of(high)),), body)


def at_least(left: Affine, right: Affine | int) -> Constraint:
    return Constraint("ge", left - right)


def total(
    name: str, value: Scalar, *limits: tuple[str, Affine | int, Affine | int], reduction: Reduction = "sum"
) -> tuple[Statement, ...]:
    """``name`` = the sum, or another reduction, of ``value`` over the limits, the first outermost."""
    inner: Statement = add(name, value, reduction)
    for variable, low, high in reversed(limits):
        inner = loop(variable, low, high, inner)
    return accumulator(name, reduction), inner


def only_where(name: str, value: Scalar, *rows: Constraint) -> tuple[Statement, ...]:
    """``name`` = ``value`` where the rows hold, else 0."""
    return accumulator(name), If(rows, (add(name, value),))


def store(value: Scalar) -> Set:
    """Return the statement that sets the own entry of a kernel: `owned` says which."""
    return Set(Load("own", ()), value)


def add_at(index: tuple[Affine, ...], value: Scalar) -> Set:
    """Return the statement that adds to an entry of the array of a scatter: `owned` says which."""
    return Set(Load("own", index), value, "sum")


def owned(kernel: Kernel) -> Kernel:
    """A kernel of which `store` and `add_at` know the array."""

    def target(old: Name | Load) -> Name | Load:
        if not isinstance(old, Load) or old.array != "own":
            return old
        return kernel.entry if old.index == () and not isinstance(kernel, Scatter) else Load(kernel.array, old.index)

    return replace(kernel, body=rewrite(kernel.body, lambda statement, _: (with_parts(statement, target=target),)))


def single(arguments: tuple[Argument, ...], output: Array, axes: str, *body: Statement) -> Program:
    """A program of one kernel."""
    return Program(arguments, (output,), (), (owned(Kernel(output.name, tuple(axes), body)),))


def left(program: Program) -> list[tuple[str, int, OutOfBounds]]:
    """The arrays and axes that reads leave for some sizes, and for which."""
    prover = Prover(program)
    found: list[tuple[str, int, OutOfBounds]] = []
    for kernel in program.nests:
        inner = {*kernel.axes, *(one.variable for one in loops(kernel.body))}
        for read, axis, row in prover.unproved(kernel):
            for rows in failing(read.context, read.choices, row) if not partition_data([row])[1] else ():
                escape = out_of_bounds_point(partition_data(rows)[0], prover.facts, inner)
                if escape is not None:
                    found.append((read.load.array, axis, escape))
    return found


def checked(program: Program) -> Program:
    """The program that refuses calls in which reads leave their arrays."""
    checks = [Check(escape.violation, f"{name} is left") for name, _, escape in left(program)]
    return replace(program, checks=tuple(checks))


REDUCTIONS: tuple[Reduction, ...] = ("sum", "prod", "max", "min")

CASES: dict[str, tuple[Program, Callable[[np.random.Generator], list[Any]]]] = {}


def case(program: Callable[[], Program]) -> Callable[[], Program]:
    """Register a program; its arguments are random arrays of its shapes for the sizes in the docstring.

    Data in ``idx`` are 0 to ``most_idx``.
    """
    built = checked(program())
    sizes = dict(part.split("=") for part in (program.__doc__ or "").split())
    values = {name: int(value) for name, value in sizes.items()}

    def arguments(rng: np.random.Generator) -> list[Any]:
        made: list[Any] = []
        for argument in built.arguments:
            if argument.kind == "integer":
                made.append(values[argument.name])
            elif argument.dtype == "integer":
                shape = [form.evaluate(values) for form in argument.shape]
                made.append(rng.integers(0, values[f"most_{argument.name}"], shape, endpoint=True)[()])
            else:
                made.append(rng.uniform(0.2, 1.5, [form.evaluate(values) for form in argument.shape])[()])
        return made

    CASES[program.__name__] = (built, arguments)
    return program


# ---------------------------------------------------------------------------- element by element


@case
def vector_add() -> Program:
    """N=5"""
    return single((array("x", N), array("y", N)), result("z", N), "i", store(op("add", load("x", i), load("y", i))))


@case
def scalar_arguments() -> Program:
    """N=5 p=3"""
    arguments = (array("x", N), Argument("scalar", "lam", "lam"), array("rate"), Argument("integer", "p", "p"))
    value = op("mul", Name("lam"), op("pow", load("rate"), 2), load("x", p), IndexValue(2 * i - p + 1))
    return single(arguments, result("y", N), "i", store(value))


@case
def select_values() -> Program:
    """N=6"""
    x = load("x", i)
    leaky = op("select", op("lt", 1, x), x, op("mul", Fraction(1, 3), x))
    both = op("and", op("le", x, 1), op("not", op("eq", x, 0)), op("ne", IndexValue(i), 2))
    either = op("or", op("lt", x, op("neg", x)), op("lt", IndexValue(i), IndexValue(N - 3)))
    value = op("add", leaky, op("select", both, 2, -1.5), op("select", either, Fraction(1, 2), x))
    return single((array("x", N),), result("y", N), "i", store(value))


@case
def arithmetic() -> Program:
    """N=4"""
    x, y = load("x", i), load("y", i)
    half = op("pow", y, Fraction(-1, 2))
    terms = (
        op("mul", -2, x, op("pow", y, -1), half),
        op("neg", op("add", x, op("neg", y), -3)),
        op("pow", op("neg", x), 5), op("pow", x, y), op("pow", op("add", x, 1), -3), op("pow", 2, x),
        op("mul", op("add", x, y), op("max", x, y, 1), op("min", x, y, Fraction(2, 3))), op("neg", op("mul", x, y)),
        op("mul", -1, x), op("pow", x, 0), op("pow", x, 1), op("pow", op("pow", x, 2), Fraction(3, 2)), 10**17,
    )  # fmt: skip
    return single((array("x", N), array("y", N)), result("z", N), "i", store(op("add", *terms)))


@case
def elementary() -> Program:
    """N=4"""
    values = []
    for name, count in ELEMENTARY.items():
        x: Scalar = load("x", i)
        if name in ("arcsin", "arccos", "arctanh"):
            x = op("mul", Fraction(1, 2), x)
        if name == "arccosh":
            x = op("add", x, 1)
        if name in ("abs", "sign", "floor", "ceil"):
            x = op("mul", 3, op("add", x, Fraction(-3, 4)))
        first: Scalar = 2 if name == "spherical_bessel" else op("add", x, -1)  # the first is an order
        values.append(op(name, x) if count == 1 else op(name, first, load("y", i)))
    # Few kernels compile faster; distinct weights keep the functions apart.
    weighted = [op("mul", n + 1, value) for n, value in enumerate(values)]
    kernels = tuple(entrywise(f"f{n}", ("i",), [], op("add", *weighted[n::5])) for n in range(5))
    outputs = tuple(result(kernel.array, N) for kernel in kernels)
    return Program((array("x", N), array("y", N)), outputs, (), kernels, structure=f"({'.' * len(outputs)})")


# ---------------------------------------------------------------------------- reads


@case
def reads() -> Program:
    """N=4"""
    values = (
        load("a", j, i), load("a", i, i), load("x", N - 1 - i), load("x", i + j), load("x", 2 * j + 1),
        load("x", quotient(i + j, 2)), load("x", 3), load("a", 1, i), load("a", j, 2), load("b", j, 1, i),
        load("x", quotient(4 * i + 2 * j + 3, 4)),
    )  # fmt: skip
    arguments = (array("a", N, N), array("x", 2 * N + 1), array("b", N, 3, N))
    return single(arguments, result("y", N, N), "ij", store(op("add", *values)))


@case
def shifted_transpose() -> Program:
    """N=3 M=5"""
    value = op("mul", load("a", j + 1, i + k, i), load("v", k))
    body = (*total("s", value, ("k", 0, 2)), store(Name("s")))
    return single((array("a", M + 1, N + 2, N), array("v", 3)), result("y", N, M), "ij", *body)


@case
def guarded_reads() -> Program:
    """N=6"""
    shifted = op("select", op("le", 1, IndexValue(i)), load("x", i - 1), 0)
    inner = op("select", op("lt", load("x", i), 1), load("x", i + 1), op("mul", 2, load("x", i)))
    nested = op("select", op("lt", IndexValue(i), IndexValue(N - 1)), inner, op("exp", load("x", i)))
    choice = op("and", op("lt", 0.7, load("x", i)), op("le", 2, IndexValue(i)))
    jump = op("select", choice, load("x", i - 2), load("x", 0))
    return single((array("x", N),), result("y", N), "i", store(op("add", shifted, nested, op("mul", jump, 3))))


@case
def guard_on_integers() -> Program:
    """N=4 p=7"""
    inside = op("and", op("le", 0, IndexValue(p)), op("lt", IndexValue(p), IndexValue(N)))
    value = op("select", inside, op("mul", load("x", p), load("x", i)), op("select", inside, load("x", p), -1))
    return single((array("x", N), Argument("integer", "p", "p")), result("y", N), "i", store(value))


# ---------------------------------------------------------------------------- sums


@case
def matmul() -> Program:
    """L=3 M=4 N=5"""
    body = (*total("acc", op("mul", load("a", i, k), load("b", k, j)), ("k", 0, M - 1)), store(Name("acc")))
    return single((array("a", L, M), array("b", M, N)), result("c", L, N), "ij", *body)


@case
def long_sums() -> Program:
    """N=3 M=40"""
    a, x = load("a", i, k), load("x", k)
    outer = loop("k", 0, M - 1,
                 *total("inner", op("mul", x, load("x", r)), ("r", 0, k)),
                 *total("outer", IndexValue(k + r), ("r", 0, M - 1)),
                 let("t", op("exp", op("neg", Name("inner")))),
                 add("acc", op("add", op("mul", Name("t"), x), Name("outer"))))  # fmt: skip
    whole = ("k", 0, M - 1)
    two = (*total("acc", op("mul", a, load("a", j, k)), whole), *total("one", load("x", j), whole))
    kernels = (
        entrywise("s", (), total("acc", op("mul", x, x), whole), Name("acc")),
        entrywise("v", ("i",), total("acc", op("mul", a, x, load("s")), whole), Name("acc")),
        entrywise("w", ("i", "j"), two, op("add", Name("acc"), Name("one"))),
        entrywise("u", (), (accumulator("acc"), outer), Name("acc")),
    )
    outputs = (result("s"), result("v", N), result("w", N, N), result("u"))
    return Program((array("a", N, M), array("x", M)), outputs, (), kernels, structure="(....)")


@case
def reductions() -> Program:
    """N=4 M=5"""
    x, a = load("x", k), load("a", i, k)
    terms: list[Scalar] = []
    body: list[Statement] = []
    for reduction in REDUCTIONS:
        # Over all of a range, over a dependent one, over none, of what the index does not matter to, over two.
        own = (
            total(f"{reduction}_whole", op("add", a, x, -1), ("k", 0, M - 1), reduction=reduction),
            total(f"{reduction}_part", op("mul", x, load("x", j)), ("k", i, j), reduction=reduction),
            total(f"{reduction}_column", load("a", k, j), ("k", 0, N - 1), reduction=reduction),
            total(f"{reduction}_same", load("a", i, j), ("k", 0, j), reduction=reduction),
            total(f"{reduction}_two", op("add", x, load("a", r, j)), ("k", 0, M - 1), ("r", 0, i), reduction=reduction),
        )
        for start, *statements in own:
            assert is_accumulator(start)
            body += [start, *statements]
            # The extrema of nothing are infinite.
            terms.append(op("pow", op("add", op("abs", Name(start.name)), 1), -1))
    arguments = (array("x", M), array("a", N, M))
    return single(arguments, result("y", N, M), "ij", *body, store(op("add", *terms)))


@case
def guarded_reductions() -> Program:
    """N=25"""
    x = load("x", k)
    body: list[Statement] = []
    for reduction in REDUCTIONS:
        name = f"{reduction}_all"
        guards = (
            If((Constraint("mod", k - 1, 3),), (add(name, x, reduction),)),
            If((at_least(k, i + 20),), (add(name, op("mul", x, load("x", i)), reduction),)),
            If((Constraint("eq", k + i - N + 1),), (add(name, op("mul", 7, x), reduction),)),
            If(
                (Constraint("ge", quotient(k + i, 2) - 20), at_least(2 * i, k)),
                (add(name, op("add", 1, x), reduction),),
            ),
        )
        body += [accumulator(name, reduction), loop("k", 0, N - 1, *guards)]
    value = op("add", *(Name(f"{reduction}_all") for reduction in REDUCTIONS))
    return single((array("x", N),), result("y", N), "i", *body, store(value))


@case
def long_reductions() -> Program:
    """N=3 M=40"""
    a, x = load("a", i, k), load("x", k)
    kernels = []
    for reduction in REDUCTIONS:
        whole = total("acc", op("add", x, a), ("k", 0, M - 1), reduction=reduction)
        same = total("one", op("add", load("x", j), Fraction(1, 4)), ("k", 0, M - 1), reduction=reduction)
        constant = (accumulator("two", reduction), loop("k", 0, M - 1, add("two", Number(1.25), reduction)))
        inner = total("inner", op("mul", x, load("x", r)), ("r", 0, k), reduction=reduction)
        outer = (accumulator("outer", reduction), loop("k", 0, M - 1, *inner, add("outer", Name("inner"), reduction)))
        names = (Name("acc"), Name("one"), Name("two"))
        kernels += [
            entrywise(f"v_{reduction}", ("i",), [*whole], Name("acc")),
            entrywise(f"w_{reduction}", ("i", "j"), [*whole, *same, *constant], op("add", *names)),
            entrywise(f"u_{reduction}", (), [*outer], Name("outer")),
        ]  # fmt: skip
    outputs = []
    for kernel in kernels:
        outputs.append(result(kernel.array, *{"v": (N,), "w": (N, M), "u": ()}[kernel.array[0]]))
    structure = f"({'.' * len(outputs)})"
    return Program((array("a", N, M), array("x", M)), tuple(outputs), (), tuple(kernels), structure=structure)


@case
def scans() -> Program:
    """N=5 M=6"""
    x, a = load("x", k), load("a", i, k)
    both = loop(
        "k", 0, j - 1, let("f", op("add", a, Name("own"))), add("prefix", Name("f")), add("greatest", Name("f"), "max")
    )
    twice = Loop(
        "k",
        (Bound(j + 1), Bound(i + j, 2)),
        (Bound(M - 1),),
        (*total("inner", a, ("r", 0, k)), add("least", Name("inner"), "min")),
    )
    between = If(
        (at_least(j, i + 2),),
        (*total("between", x, ("k", i + 1, j - 1), reduction="prod"), add("far", Name("between"))),
    )
    before = If(
        (at_least(i, j + 2),), (*total("before", x, ("k", j + 1, i - 1), reduction="prod"), add("far", Name("before")))
    )
    not_one = total("window", x, ("k", j, j), reduction="prod")
    changing = total("changing", op("mul", x, load("x", j)), ("k", 0, j))
    rest = map(Name, ("far", "window", "changing"))
    body = (
        let("own", load("x", i)), accumulator("prefix"), accumulator("greatest", "max"), both,
        accumulator("least", "min"), twice, accumulator("far"), between, before, *not_one, *changing,
        store(op("add", Name("prefix"), op("max", Name("greatest"), -9), op("min", Name("least"), 9), *rest)),
    )  # fmt: skip
    return single((array("x", M), array("a", N, M)), result("y", N, M), "ij", *body)


@case
def guarded_long_sums() -> Program:
    """N=25"""
    x = load("x", k)
    guards = (
        If((Constraint("mod", k - 1, 3),), (add("acc", x),)),
        If((at_least(k, i),), (add("acc", op("mul", x, load("x", i))),)),
        If((Constraint("eq", k + i - N + 1),), (add("acc", op("mul", 7, x)),)),
        If(
            (Constraint("ge", quotient(k + i, 2) - 5), at_least(2 * i, k)), (add("acc", op("mul", 2, x, load("x", i))),)
        ),
        If((Constraint("ge", quotient(k, 2) - 4),), (add("acc", x), add("all", x))),
        let("safe", op("select", op("le", 1, IndexValue(k)), load("x", k - 1), 0)),
        add("acc", Name("safe")),
    )
    body = (accumulator("acc"), accumulator("all"), loop("k", 0, N - 1, *guards))
    return single((array("x", N),), result("y", N), "i", *body, store(op("add", Name("acc"), Name("all"))))


@case
def dependent_bounds() -> Program:
    """N=5"""
    value = op("mul", load("x", k), load("x", q + 1), IndexValue(i))
    guard = If((at_least(q + 1, 0), at_least(N - 2, q)), (add("t", value),))
    inner = (accumulator("t"), loop("q", 2 * i - N, i + k - 2 * N + 4, guard))
    guarded = loop("k", 0, i, *inner, add("s", op("mul", Name("t"), load("x", k))))
    lows, highs = (Bound(i - 3, 2), Bound(Affine.of(0))), (Bound(2 * i + 1, 3), Bound(N - 1))
    body = (accumulator("s"), guarded, accumulator("w"), Loop("r", lows, highs, (add("w", load("x", r)),)))
    return single((array("x", N),), result("y", N), "i", *body, store(op("add", Name("s"), Name("w"))))


@case
def correlation_adjoint() -> Program:
    """N=7 K=3"""
    lows, highs = (Bound(p - N + 1), Bound(Affine.of(0))), (Bound(K - 1), Bound(p))
    inner = Loop("k", lows, highs, (add("s", op("mul", load("w", k), load("g", p - k))),))
    return single(
        (array("w", K), array("g", N)), result("dx", N + K - 1), "p", accumulator("s"), inner, store(Name("s"))
    )


@case
def strided_adjoint() -> Program:
    """N=4 K=3"""
    place = quotient(p - k, 2)
    guard = If((Constraint("mod", p - k, 2), at_least(place, 0), at_least(N - 1, place)),
               (add("s", op("mul", load("w", k), load("g", place))),))  # fmt: skip
    even = If((Constraint("mod", p, 2),), (add("s", op("mul", 5, load("g", quotient(p, 2) - 0))),))
    last = If((at_least(2 * N - 1, p),), (even,))
    body = (accumulator("s"), loop("k", 0, K - 1, guard), last, store(Name("s")))
    return single((array("w", K), array("g", N)), result("dx", 2 * N + K - 2), "p", *body)


@case
def section_six() -> Program:
    """L=4 M=5 K=3"""
    difference = op("pow", op("add", load("a", i, k), load("b", j, k)), 2)
    term = op("add", op("mul", difference, load("c", i, i)), op("pow", load("d", i + k), 3))
    f_body = (*total("s", term, ("k", 0, K - 1)), store(op("exp", op("neg", Name("s")))))
    rows = (*total("s", op("mul", load("g", i, j), load("f", i, j)), ("j", 0, M - 1)), store(Name("s")))
    bounds = (Bound(p - K + 1), Bound(Affine.of(0))), (Bound(L - 1), Bound(p))
    dd = (
        accumulator("s"),
        Loop("i", *bounds, (add("s", load("r", i)),)),
        store(op("mul", -3, op("pow", load("d", p), 2), Name("s"))),
    )
    diagonal = op(
        "mul", -1, load("g", p, j), load("f", p, j), op("pow", op("add", load("a", p, k), load("b", j, k)), 2)
    )
    on = If((Constraint("eq", p - q),), (loop("k", 0, K - 1, loop("j", 0, M - 1, add("s", diagonal))),))
    arguments = (array("a", L, K), array("b", M, K), array("c", L, L), array("d", L + K - 1), array("g", L, M))
    kernels = (
        owned(Kernel("f", ("i", "j"), f_body)),
        owned(Kernel("r", ("i",), rows)),
        owned(Kernel("dd", ("p",), dd)),
        entrywise("dc", ("p", "q"), [accumulator("s"), on], Name("s")),
    )
    temporaries = (result("f", L, M), result("r", L))
    return Program(arguments, (result("dd", L + K - 1), result("dc", L, L)), temporaries, kernels, structure="(..)",
                   notes=("f is used by every derivative", "r is the sum over j"))  # fmt: skip


@case
def masks() -> Program:
    """N=5 M=4"""
    value = op("mul", load("a", i, j), IndexValue(i - j))
    body = (
        let("row", op("exp", load("a", i, 0))),
        let("column", load("a", 0, j)),
        *only_where("band", op("mul", value, Name("row")), at_least(i + j, 2), at_least(Affine.of(5), i + j)),
        accumulator("deep"),
        If((at_least(i + j, 2),), (
            let("inner", op("mul", value, Name("column"))),
            *total("both", op("mul", load("a", k, j), Name("row")), ("k", j, i)),
            If((at_least(i, 2 * j),), (
                add("deep", op("mul", Name("inner"), Name("column"), Name("both"))),
                *only_where("third", Name("both"), Constraint("ge", quotient(i + j, 2) - 2)),
                add("deep", Name("third")),
            )),
        )),
        *only_where("point", value, Constraint("eq", i - 2), at_least(j, 1)),
        *only_where("half", load("a", quotient(i, 2), j), Constraint("eq", i - 2 * j)),
        *only_where("none", value, at_least(j, i + N)),
        *only_where("only_row", Name("row"), at_least(i, 2)),
        store(op("add", Name("band"), Name("deep"), Name("point"), Name("half"), Name("none"), Name("only_row"))),
    )  # fmt: skip
    return single((array("a", N, M),), result("y", N, M), "ij", *body)


@case
def rank_three() -> Program:
    """N=3 M=4"""
    value = op("mul", load("a", i, k), load("a", j, k), load("v", r))
    guard = If((Constraint("eq", i - j + k - 1),), (add("s", value),))
    body = (accumulator("s"), loop("r", i, M - 1, guard), store(op("add", Name("s"), IndexValue(i + 2 * j - k))))
    return single((array("a", N, M), array("v", M)), result("y", N, N, M), "ijk", *body)


@case
def rank_five() -> Program:
    """N=2 M=3"""
    value = op("add", load("a", i, j), op("mul", load("a", k, p), load("a", q, 0)), IndexValue(i + 3 * k - q))
    return single((array("a", N, M),), result("y", N, M, N, M, N), "ijkpq", store(value))


@case
def two_outputs() -> Program:
    """N=4"""
    total_of_x = total("s", load("x", i), ("i", 0, N - 1))
    kernels = (
        entrywise("t", (), [*total_of_x], Name("s")),
        entrywise("y", ("i",), [], op("mul", load("x", i), op("pow", load("t"), -1))),
        entrywise("z", (), [], op("log", load("t"))),
    )
    return Program((array("x", N),), (result("y", N), result("z")), (result("t"),), kernels, structure="(..)")


@case
def computed_sizes() -> Program:
    """N=3 M=6"""
    sizes = (Size("low", lows=(Affine.of(0), N - 2)), Size("high", highs=(M - 1, 2 * N - 4)),
             Size("count", lows=(Affine.variable("high") - Affine.variable("low") + 1, Affine.of(0))))  # fmt: skip
    low, count = Affine.variable("low"), Affine.variable("count")
    t = entrywise("t", ("i",), [], op("exp", load("x", i + low)))
    bounds = (Bound(N - 2), Bound(Affine.of(0))), (Bound(M - 1), Bound(2 * N - 4))
    inner = Loop("p", *bounds, (add("s", op("mul", load("t", p - low), load("x", j))),))
    y = entrywise("y", ("j",), [accumulator("s"), inner], Name("s"))
    return Program((array("x", M), array("v", N)), (result("y", M),), (result("t", count),), (t, y), sizes)


@case
def empty_temporary() -> Program:
    """N=1 M=6"""
    return computed_sizes()


@case
def awkward_names() -> Program:
    """N=3"""
    arguments = (array("np", N), array("math", N), array("real", N), array("run", N), array("BLOCK", N))
    value = op("add", *(load(a.name, i) for a in arguments), op("mul", load("np", k), load("max", i)))
    body = (*total("range", value, ("k", 0, N - 1)), *total("i_low", load("np", k), ("k", i, N - 1)),
            store(op("add", Name("range"), Name("i_low"))))  # fmt: skip
    return single((*arguments, array("max", N)), result("cuda", N), "i", *body)


# ---------------------------------------------------------------------------- data that select entries


def scattered(
    arguments: tuple[Argument, ...], output: Array, axes: str, extents: tuple[Affine, ...], *body: Statement
) -> Program:
    """A program of zeros and one scatter."""
    zeros = entrywise(output.name, tuple(f"e{axis}" for axis in range(len(output.shape))), [], Number(0))
    return Program(arguments, (output,), (), (zeros, owned(Scatter(output.name, tuple(axes), body, extents))))


def within(form: Affine, extent: Affine) -> tuple[Constraint, Constraint]:
    return Constraint("ge", form), Constraint("ge", extent - 1 - form)


@case
def embedding() -> Program:
    """N=4 M=3 K=5 most_idx=3"""
    arguments = (array("x", N, M), integers("idx", K))
    return single(arguments, result("y", K, M), "ij", store(load("x", data("idx", i), j)))


@case
def nested_data() -> Program:
    """N=4 M=3 K=5 most_idx=3 most_jdx=4"""
    arguments = (array("x", N), integers("idx", K), integers("jdx", M))
    body = total("s", load("x", data("idx", data("jdx", k))), ("k", 0, i))
    return single(arguments, result("y", M), "i", *body, store(op("mul", Name("s"), IndexValue(data("jdx", i)))))


@case
def mixed_forms() -> Program:
    """N=12 M=3 K=5 most_idx=4"""
    arguments = (array("x", N), integers("idx", K), Argument("integer", "M", "M"))
    form = 2 * data("idx", i) + j - quotient(data("idx", i), 2)
    return single(arguments, result("y", K, M), "ij", store(load("x", form)))


@case
def scalar_data() -> Program:
    """N=4 most_one=3"""
    arguments = (array("x", N), integers("one"))
    return single(arguments, result("y", N), "i", store(op("mul", load("x", data("one")), load("x", i))))


@case
def tested_data() -> Program:
    """N=4 K=6 most_idx=9"""
    arguments = (array("v", K), integers("idx", K), Argument("integer", "N", "N"))
    inner = If((Constraint("eq", i - data("idx", k)),), (add("s", load("v", k)),))
    return single(arguments, result("y", N), "i", accumulator("s"), loop("k", 0, K - 1, inner), store(Name("s")))


@case
def data_behind_conditions() -> Program:
    """N=4 K=6 most_idx=9"""
    arguments = (array("x", N), array("v", K), integers("idx", K))
    inside = If(within(data("idx", i), N), (add("s", load("x", data("idx", i))),))
    chosen = op("select", op("lt", IndexValue(data("idx", i)), IndexValue(N)), load("x", data("idx", i)), load("v", i))
    return single(arguments, result("y", K), "i", accumulator("s"), inside, store(op("add", Name("s"), chosen)))


@case
def histogram() -> Program:
    """N=4 K=9 most_idx=6"""
    place = data("idx", i)
    inner = If(within(place, N), (add_at((place,), load("v", i)),))
    return scattered(
        (array("v", K), integers("idx", K), Argument("integer", "N", "N")), result("y", N), "i", (K,), inner
    )


@case
def scattered_rows() -> Program:
    """N=4 M=3 K=5 L=2 most_r=5 most_c=4"""
    arguments = (array("v", K, M, L), integers("r", K), integers("c", K, M), Argument("integer", "N", "N"))
    spots = (data("r", i), data("c", i, j))
    body = total("s", op("mul", load("v", i, j, k), load("v", i, j, k)), ("k", 0, L - 1))
    inner = If((*within(spots[0], N), *within(spots[1], M)), (add_at(spots, Name("s")),))
    return scattered(arguments, result("y", N, M), "ij", (K, M), *body, inner)


@case
def scattered_in_loops() -> Program:
    """N=4 K=5 most_idx=5"""
    place = data("idx", k)
    inner = If(
        within(place, N), (add_at((place,), op("mul", load("v", i), load("v", k))), add_at((Affine.of(0),), Number(1)))
    )
    return scattered(
        (array("v", K), integers("idx", K), Argument("integer", "N", "N")),
        result("y", N),
        "i",
        (K,),
        loop("k", i, K - 1, inner),
    )


@case
def scattered_twice() -> Program:
    """N=4 K=5 most_idx=3"""
    built = scattered_in_loops()
    first = entrywise("y", ("i",), [], op("mul", 2, load("x", i)))
    again = add_at((data("idx", i),), load("v", i))
    guarded = If(within(data("idx", i), N), (again,))
    steps = (first, built.kernels[1], owned(Scatter("y", ("i",), (guarded,), (K,), 2)))
    return replace(built, arguments=(array("x", N), *built.arguments[:2]), kernels=steps)
