"""Maps with strides on CUDA: entries of other residue classes have no rounds, so that no loop asks for a remainder."""

from __future__ import annotations

import ast

import assembler
import pytest

import sympy_tensordiff as td
from benchmarks.rows import ROWS
from sympy_tensordiff.codegen.run.cache import load_source

i, k, n, m = td.indices("i k n m")
w, dy = td.TensorSymbol("w", m), td.TensorSymbol("dy", n)


def signal(stride, dilation, first=0):
    """The pullback of sums over ``x[stride*i + dilation*k + first]``."""
    x = td.TensorSymbol("x", stride * n + dilation * m + first)
    sums = td.IndexedSum(x[stride * i + dilation * k + first] * w[k], (k, 0, m - 1))
    return td.lambdify((x, w, dy), td.vjp(td.TensorComprehension(sums, (i, n)), x, dy), "cuda")


FUNCTIONS = {
    "2i+3k": lambda: signal(2, 3),
    "2i+4k": lambda: signal(2, 4),
    "6i+4k+3": lambda: signal(6, 4, 3),
    **{
        name: lambda name=name: td.lambdify(*ROWS[name].ours(ROWS[name].sizes), "cuda")
        for name in ("conv-X-2-1", "conv-X-2-2")
    },
}


def remainders(source):
    """The loops over what is summed, and the remainders that are computed in one of them."""
    loops = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.While) and ast.unparse(node.body[-1]).endswith(" += 1")
    ]
    inside = [part for loop in loops for part in ast.walk(loop)]
    return loops, [part for part in inside if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_loop_has_a_test_of_a_residue(name):
    loops, found = remainders(FUNCTIONS[name]().source)
    assert loops and not found


@pytest.mark.skipif(assembler.tools() is None, reason="needs pip install '.[ptx]'")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers_for_a_load(name, tmp_path, thorough):
    """In the innermost loop, as machine code; architectures take turns."""
    function = FUNCTIONS[name]()
    module = load_source(function.source, "test")
    # Behind the one that fills with zeros, where there is one, and before the one that adds to a residue class.
    kernel = [one for one in assembler.kernels(module) if not one.startswith("diagonal")][-1]
    capabilities = ((8, 0), (9, 0), (10, 0))
    for capability in capabilities if thorough else (capabilities[[*FUNCTIONS].index(name) % 3],):
        machine = assembler.assemble(module, function.program, kernel, "float32", capability, tmp_path)
        loads, integers = machine.innermost()
        assert 0 < integers <= loads, (capability, loads, integers)
        assert machine.registers <= 64 and not machine.is_spilled
