"""The static model of kernels on a device: figures that are counted by hand, and those of the schedules with blocks."""

from __future__ import annotations

import math
from dataclasses import replace

import assembler
import pytest
import sympy

import sympy_tensordiff as td
from benchmarks.gpu import grown
from benchmarks.rows import ROWS
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import Barrier, If, Loop
from sympy_tensordiff.codegen.ir.nests import exactly
from sympy_tensordiff.codegen.ir.rename import reserve_name
from sympy_tensordiff.codegen.ir.scalars import Bound
from sympy_tensordiff.codegen.ir.walk import all_names, statements
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.cache import load_source
from sympy_tensordiff.codegen.schedule.block_laws import check_blocks
from sympy_tensordiff.codegen.schedule.block_nests import block_nest
from sympy_tensordiff.codegen.schedule.blocks import is_exchange
from sympy_tensordiff.codegen.schedule.gpu_model import figures, temporary_bytes
from sympy_tensordiff.codegen.schedule.launches import on_device
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Constraint

i, j, k, d, n, m, p = td.indices("i j k d n m p")
A, B, C = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, p)), td.TensorSymbol("C", (n, p))
x, y, w = td.TensorSymbol("x", n), td.TensorSymbol("y", m), td.TensorSymbol("w", 3)
X, b = td.TensorSymbol("X", (n, 3)), td.TensorSymbol("b", n)
Q, K, V, G = (td.TensorSymbol(name, (n, m)) for name in "QKVG")

PRODUCT = td.TensorComprehension(td.IndexedSum(A[i, k] * B[k, j], (k, 0, m - 1)), (i, n), (j, p))
DISTANCE = td.IndexedSum((X[i, d] - X[j, d]) ** 2, (d, 0, 2))
PAIRS = td.IndexedSum(td.IndexedSum(sympy.exp(-DISTANCE) * b[j] * b[i], (j, 0, n - 1)), (i, 0, n - 1))
WINDOWS = td.TensorComprehension(td.IndexedSum(x[i + k] * w[k], (k, 0, 2)), (i, n - 2))


def launches(arguments, results, **sizes):
    program = prepared(build_program(arguments, results, library=False, rows=False), "cuda")
    device = on_device(program)
    return device, figures(device, sizes)


def test_figures_by_hand():
    """Small products by one thread per entry: a warp reads one row of the first, columns side by side."""
    left, right = td.TensorSymbol("L", (512, 12)), td.TensorSymbol("R", (12, 512))
    device, (one,) = launches((left, right), left @ right)
    assert one[:8] == ("fill_result", 512 * 512, 1.0, 24, 0, 24, 1.0, 12)
    # 1024 blocks of 256 threads with 64 registers each: 4 on each of 132 processors. Two factors are read, one product
    # is written, at 4.8 TB/s; the operations would take 0.19 microseconds.
    assert (one.occupancy, one.slots) == (0.5, 512 * 512 / (132 * 1024))
    assert one.seconds == pytest.approx(8 * (2 * 512 * 12 + 512**2) / 4.8e12)
    assert sum(temporary_bytes(device.program, {}).values()) == 0
    picked = td.TensorComprehension(A[2 * i, 3] + A[3, 2 * i], (i, n))
    _, (other,) = launches((A,), picked, n=512, m=64)
    # 32 sectors for every second entry of a column, 16 for those of a row: 16 would hold all 64 entries.
    assert other.sectors == 3.0
    assert one.iterations == ((24, 0, 24),) and other.iterations == ((2, 0, 1),)
    _, (short,) = launches((x,), 2 * x, n=100)
    assert (short.threads, short.lanes) == (128, 100 / 128)


def test_products_read_global_memory_64_times_less():
    sizes = {"n": 1024, "m": 1024, "p": 1024}
    _, found = launches((A, B, C), td.vjp(PRODUCT, (A, B), C), **sizes)
    products = [one for one in found if one.shared]
    # A thread with one entry reads one number per operation.
    assert len(products) == 2 and all(one.loads == 512 and one.operations == 2 * 16 * 1024 for one in products)
    assert max(one.sectors for one in found) == 1.0 == min(one.lanes for one in found)


@pytest.mark.parametrize("extents", [(512, 512), (n, m), (700, 40), (40, 1, 700)])
def test_transposed_reads_are_coalesced(extents):
    tensor = td.TensorSymbol("T", extents)
    turned = td.TensorComprehension(
        sympy.exp(tensor[(j, i) if len(extents) == 2 else (j, 0, i)]) + i, (i, extents[-1]), (j, extents[0])
    )
    _, (one,) = launches((tensor,), turned, n=300, m=500)
    assert one.sectors == 1.0 and one.lanes > 0.75 and one.shared == 1


def test_triangles_and_guarded_products_have_tiles():
    causal = td.TensorComprehension(td.IndexedSum(A[i, k] * B[k, j], (k, 0, i)), (i, n), (j, p))
    upper = td.TensorComprehension(td.IndexedSum(A[i, k] * B[k, j], (k, j, m - 1)), (i, n), (j, p))
    chosen = sympy.Piecewise((td.IndexedSum(A[i, k] * B[k, j], (k, 0, m - 1)), i >= j), (0, True))
    guarded = td.TensorComprehension(chosen * x[i], (i, n), (j, p))
    for result in (causal, upper, guarded):
        _, found = launches((A, B, x), result, n=1024, m=1024, p=1024)
        products = [one for one in found if one.shared]
        assert products and all(one.loads <= 0.1 * one.operations and one.sectors == 1.0 for one in products)


def test_iterations_as_compilers_leave_them():
    """Short loops are unrolled, what a loop does not change is read before it, and a store may change any array."""
    term = sympy.sin(A[i, k] + x[i])
    _, (sums,) = launches((A, x), td.TensorComprehension(td.IndexedSum(term, (k, 0, i)), (i, n)), n=99, m=99)
    assert sums.iterations == ((1, 0, 3), (0, 1, 1))  # the terms, and the sums of warps
    _, (windows,) = launches((x, w), WINDOWS, n=99)
    assert windows.iterations == ((6, 0, 6),)
    _, (both,) = launches((x, b), (x * b, x + b, x), n=99)
    assert both.iterations == ((5, 0, 2),)
    weights = td.TensorComprehension(td.IndexedSum(A[i, k] * y[k] * B[k, j], (k, 0, m - 1)), (i, n), (j, p))
    _, found = launches((A, y, B), weights, n=99, m=99, p=99)
    # Of a tile of 16 terms, a thread copies 4 entries of either factor, and one of the weights.
    assert [one.iterations[:1] for one in found if one.shared] == [((9, 16 * 9, 16 * 48),)]


def test_pairs_need_no_memory():
    device, found = launches((X, b), td.gradient(PAIRS, (X, b)), n=10**5)
    assert sum(temporary_bytes(device.program, {"n": 10**5}).values()) <= 4 * 8 * 4 * 10**5  # 4 n numbers, for a part
    assert all(one.lanes > 0.75 and one.sectors < 1.5 for one in found)
    # The same with sizes that are numbers.
    many, weights = td.TensorSymbol("X", (5000, 3)), td.TensorSymbol("b", 5000)
    device, _ = launches((many, weights), td.gradient(PAIRS.subs({X: many, b: weights, n: 5000}), (many, weights)))
    assert sum(temporary_bytes(device.program, {}).values()) == 0
    # A value that is compared with a maximum has to be the same number in both places: it is stored.
    most = td.IndexedMax(sympy.exp(-DISTANCE) * b[j], (j, 0, n - 1))
    device, _ = launches((X, b), td.gradient(td.IndexedSum(most, (i, 0, n - 1)), b), n=9)
    assert any(len(array.shape) == 2 for array in device.program.temporaries)


@pytest.mark.parametrize("count", [10**7, 5000, 40])
def test_reductions_have_two_launches_and_no_serial_tail(count):
    _, found = launches((x,), td.IndexedSum(sympy.sin(x[i]) ** 2, (i, 0, n - 1)), n=count)
    assert len(found) <= 2 and max(one.serial for one in found) <= 256
    assert all(one.sectors == 1.0 for one in found)
    # One launch is enough for up to 32 terms of each thread.
    known = td.TensorSymbol("x", count)
    _, found = launches((known,), td.sum(td.sin(known)))
    assert len(found) == 1 + (count > 32 * 256) and max(one.serial for one in found) <= 256
    columns = td.TensorComprehension(td.IndexedSum(A[i, j] * x[i], (i, 0, n - 1)), (j, m))
    _, found = launches((A, x), columns, n=count, m=7)
    assert len(found) <= 2 and max(one.serial for one in found) <= 5000


def test_attention_is_coalesced():
    attention = td.softmax(Q @ K.T, axis=1) @ V
    _, found = launches((Q, K, V, G), td.vjp(attention, (Q, K, V), G), n=1024, m=64)
    assert max(one.sectors for one in found) == 1.0 and min(one.lanes for one in found) == 1.0
    assert len(found) == 13 and max(one.serial for one in found) <= 256
    products = [one for one in found if one.operations > 1000]
    assert len(products) == 5 and all(one.loads / one.operations < 0.02 for one in products)


centred = td.TensorComprehension(A[i, j] - td.IndexedSum(A[i, k], (k, 0, m - 1)) / m, (i, n), (j, m))
variance = td.TensorComprehension(td.IndexedSum(centred[i, k] ** 2, (k, 0, m - 1)) / m, (i, n))
NORMED = td.TensorComprehension(centred[i, j] / sympy.sqrt(variance[i] + 1), (i, n), (j, m))


@pytest.mark.parametrize(
    "arguments, result",
    [
        ((A,), td.softmax(A, axis=1)),
        ((A, C), td.vjp(td.softmax(A, axis=1), A, td.TensorSymbol("C", (n, m)))),
        ((A,), td.logsumexp(A, axis=1)),
        ((A,), NORMED),
    ],
)
def test_functions_of_rows_have_one_launch(arguments, result):
    device, (one,) = launches((A, td.TensorSymbol("C", (n, m))), result, n=4096, m=1000)
    assert sum(temporary_bytes(device.program, {"n": 4096, "m": 1000}).values()) <= 8 * 4096 * 3
    assert one.threads == 4096 * 32 * 4 and one.lanes == 1.0 and one.sectors == 1.0 and one.serial == 8


# What the model says against a schedule, by row: sectors of sums of products with a transposed factor, of diagonals,
# and of the fourth of four operands with two orders of axes; lanes of tiles with sides of 10 and 24; matrices of pairs
# between products, which are not computed again.
KNOWN = {
    "mttkrp": "sectors",
    "factorization-hessian": "sectors",
    "attention": "memory",
    "network": "lanes",
    "gaussian-process": "memory",
    "network-third": "sectors lanes",
    "softmax-network-hvp": "lanes",
    "attention-hvp": "sectors memory",
    "process-hessian": "memory",
}
DEPTHS = {f"network-{kind}-{depth}" for kind in ("hessian", "hvp") for depth in (3, 8)}
"""Networks of other depths than 2 and 4, which have the same launches, more often."""
FEW = 1024
"""Threads of a launch that no device notices, as for one number."""


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.thorough if n in DEPTHS else ()) for n in ROWS])
def test_what_the_model_says_of_the_rows(name):
    row = ROWS[name]
    sizes = grown(row)
    arguments, results = row.ours(sizes)
    device, found = launches(arguments, results, **sizes)
    many = [one for one in found if one.threads >= FEW]
    products = [one for one in many if one.shared > one.loads and one.operations > 1000]
    data = 8 * sum(
        math.prod(int(form.evaluate(sizes)) for form in array.shape)
        for array in (*device.program.arguments, *device.program.outputs)
    )
    limits = {
        "sectors": all(one.sectors <= 1.5 or one.loads <= 0.1 * one.operations for one in many),
        "lanes": all(one.lanes >= 0.75 for one in many),
        "loads": all(one.loads <= 0.1 * one.operations for one in products),
        "memory": max(temporary_bytes(device.program, sizes).values(), default=0) <= 4 * data,
        # A thread has a long sum for itself only where there are many threads.
        "sums": all(one.serial <= 256 or one.threads >= 2**13 for one in many),
    }
    assert {limit for limit, holds in limits.items() if not holds} == set(KNOWN.get(name, "").split())


def nest_of(arguments, results):
    device, _ = launches(arguments, results, n=99, m=99, p=99)
    prover, taken = Prover(device.program), all_names(device.program)
    kernel = device.program.kernels[0]
    nest = block_nest(kernel, device.shared_loops, prover.shapes, lambda wish: reserve_name(wish, taken))
    return nest, kernel, prover


@pytest.mark.parametrize("case", [((A, B), PRODUCT), ((x,), td.sum(x**2)), ((A, y), A @ y), ((A, x), A.T @ x)])
def test_nests_without_a_barrier_are_refused(case):
    """Each of the barriers is needed, and all accesses are proved to be apart with them."""
    nest, kernel, prover = nest_of(*case)
    known = all_names_of(prover)
    check_blocks(nest, kernel, prover, known)
    barriers = sum(isinstance(one, Barrier) for one in statements(nest.body))
    assert barriers >= 1
    for number in range(barriers):
        with pytest.raises(VerificationError, match=r"two threads of .* touch the entry"):
            check_blocks(replace(nest, body=without(nest.body, number)), kernel, prover, known)
    if nest.blocks:  # the others are guarded in the nest itself
        with pytest.raises(VerificationError, match="axis 0 of"):
            check_blocks(replace(nest, blocks=wider(nest.blocks)), kernel, prover, known)


def test_what_not_all_threads_reach_is_refused():
    """Neither a barrier nor an exchange of sums in a guard, or in a loop of which threads have different lengths."""
    nest, kernel, prover = nest_of((x,), td.sum(x**2))
    known, own = all_names_of(prover), Affine.variable(nest.x[0])
    number = next(n for n, statement in enumerate(nest.body) if is_exchange(statement))
    for waiting, rest in ((nest.body[number], nest.body[number + 1 :]), (Barrier(), nest.body[number:])):
        guard = If((Constraint("ge", own),), (waiting,))
        loop = Loop("again", (Bound(own),), (Bound(own),), (waiting,))
        for outer in (guard, loop):
            with pytest.raises(VerificationError, match="not all threads of a block reach a barrier, or an exchange"):
                check_blocks(replace(nest, body=(*nest.body[:number], outer, *rest)), kernel, prover, known)
    wide = replace(nest.shared[0], shape=(exactly(Affine.of(2**13)),))
    with pytest.raises(VerificationError, match="have 65536 bytes, 49152 are the most"):
        check_blocks(replace(nest, shared=(wide,)), kernel, prover, known)


def test_sums_of_warps_need_no_memory():
    """A warp adds up a short row without a barrier, by exchanges that each text has a function for."""
    short = td.TensorSymbol("S", (n, 96))
    for backend, name in (("cuda", "shfl_xor_sync"), ("cuda_c", "__shfl_xor_sync")):
        text = td.generate_code((short,), td.sum(short, axis=1), backend)
        assert name in text and "__shared__" not in text and "__syncthreads" not in text
        text = td.generate_code((A,), td.softmax(A, axis=1), backend)
        assert text.count("syncthreads()") == 2 + 2 * (backend == "cuda")  # those of the simulator


def all_names_of(prover):
    names = {str(atom) for shape in prover.shapes.values() for form in shape for atom in form.atoms()}
    return {*names, *prover.shapes}


def wider(axes):
    return tuple([(name, extent + 1) for name, extent in axes])


def without(body, number):
    """Statements without one of their barriers."""
    found, count = [], [number]

    def visit(part):
        result = []
        for one in part:
            if isinstance(one, Barrier):
                count[0] -= 1
                if count[0] == -1:
                    continue
            elif hasattr(one, "body"):
                one = replace(one, body=tuple(visit(one.body)))
            result.append(one)
        return result

    found = visit(body)
    return tuple(found)


COLUMNS = td.TensorComprehension(td.IndexedSum(A[i, j] * x[i], (i, 0, n - 1)), (j, m))


@pytest.mark.skipif(assembler.tools() is None, reason="needs pip install '.[ptx]'")
@pytest.mark.parametrize("case", [((A, B), PRODUCT), ((x,), td.sum(x**2)), ((A, y), A @ y), ((A, x), COLUMNS)])
def test_the_machine_code_reads_as_often_as_the_model_says(case, tmp_path):
    """In each loop with reads, those of some iterations of the model's: see also `test_machine_code`."""
    _, found = launches(*case, n=99, m=99, p=99)
    function = td.lambdify(*case, "cuda")
    module, kernels = load_source(function.source, "test"), {one.name: one for one in found}
    for kernel in assembler.kernels(module):
        machine = assembler.assemble(module, function.program, kernel, "float64", (9, 0), tmp_path)
        for pair in machine.reads("float64"):
            own = [one[:2] for one in kernels[kernel].iterations]
            assert any(pair == (loads * r, shared * r) for loads, shared in own for r in range(1, 65)), (kernel, pair)


def test_the_plan_shows_the_model():
    plan = td.lambdify((A, B), PRODUCT, "cuda").plan
    assert "model of an H200 for sizes of 1024, in float64: 2 launches, 8 MB of temporaries, at least" in plan
    assert "fill_result: 1048576 threads, 100 % of lanes, 1 loads per operation (1 for 1 in an iteration), 1 of" in plan
    text = td.generate_code((x, w), WINDOWS, "cuda_c")
    plan = td.lambdify((X, b), td.gradient(PAIRS, (X, b)), "cuda").plan
    assert "computed again where they are summed, instead of stored: t" in plan
    assert "__shared__" not in text and "__syncthreads" not in text  # short sums stay in the thread
