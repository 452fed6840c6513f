"""No name that a user gives takes the place of one that a generated module, or what calls it, uses itself."""

from __future__ import annotations

import ast
import builtins
import keyword

import pytest
import sympy as sp

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit import cuda_library, numba_cuda

BACKENDS = ("numpy", "numba", "cuda")
i, m, n = td.indices("i m n")
x, A = td.TensorSymbol("x", n), td.TensorSymbol("A", (n, m))
y, B = td.TensorSymbol("y", m), td.TensorSymbol("B", (m, m))
chosen = td.TensorSymbol("chosen", m, dtype=int)

ASKED = {"run", "run_in", "scratch", "compute", "run_on_device", "cupy", "ARGUMENTS", "FUNCTIONS"}
"""What a callable looks for in a module, whether it has it or not."""

STRANGE = ("a\0b", "\ud800", "\N{SNOWMAN}", "1", "", '"""', "\\", "\n", "lambda")
"""Names of symbols that are not names of Python's."""


def programs(functions=("g",), others=("a",), strange=()):
    """Modules with many helpers, in which functions, and tensors, sizes and scalars, have these names."""
    sizes = [sp.Symbol(word, integer=True, positive=True) for word in (*others[::4], *strange)]
    symbols = [sp.Symbol(word, real=True) for word in (*others, *strange)]
    tensors = [td.TensorSymbol(word, n) for word in others]
    of_sizes = [td.TensorSymbol(f"of{number}", size) for number, size in enumerate(sizes)]

    def function(z):
        return sp.Add(*[sp.Function(word)(z) for word in functions])

    total, each = sp.Add(*symbols), sp.Add(*[t[i] for t in tensors])
    sums = sp.sin(x[i]) + sp.exp(x[i]) * sp.gamma(total) + sp.Max(x[i], total) + sp.erf(x[i]) + sp.sign(x[i])
    yield [x, *symbols], td.gradient(td.IndexedSum(function(total * x[i]) + sums, (i, 0, n - 1)), x)
    yield [A, x, *tensors], td.gradient(td.logsumexp(td.TensorComprehension(each * x[i], (i, n)) @ A), x)
    yield [B, y, x, *symbols], [td.inv(B) @ y * total, td.det(B), td.IndexedSum(function(x[i]), (i, 0, n - 1))]
    yield (
        [x, y, chosen, *tensors],
        [
            td.IndexedMax(function(x[i]) * each, (i, 0, n - 1)),
            td.gradient(td.IndexedSum(x[chosen[i]] * y[i], (i, 0, m - 1)), x),
            td.IndexedProduct(x[i], (i, 0, n - 1)),
        ],
    )
    yield (
        of_sizes,
        sp.Add(
            *[td.IndexedSum(sp.sin(t[i]) * size, (i, 0, size - 1)) for t, size in zip(of_sizes, sizes, strict=True)]
        ),
    )


def local_names(function):
    """The names that belong to a function, its parameters included."""
    found = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    return found | {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def global_names(tree):
    """Yield the names that a module defines and imports, once for each definition."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            if node.targets[0].id == "FUNCTIONS":
                yield from (key for key in ast.literal_eval(node.value))


def check(text, helpers):
    tree = ast.parse(text)
    found = list(global_names(tree))
    assert len(found) == len(set(found)), sorted(name for name in found if found.count(name) > 1)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and ast.dump(function) not in helpers:
            taken = local_names(function) & ({*found} | {*dir(builtins)})
            assert not taken, (function.name, taken)
    supplied = [
        ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "FUNCTIONS"
    ]
    assert not ASKED & {name for names in supplied for name in names}


def identifiers(text):
    """Every name in a module."""
    fields = [
        getattr(node, field, None) for node in ast.walk(ast.parse(text)) for field in ("id", "arg", "name", "attr")
    ]
    return {field for field in fields if isinstance(field, str)}


@pytest.mark.in_turns(8)
def test_names_of_a_module_as_names_of_the_users(monkeypatch):
    for module in (cuda_library, numba_cuda):
        monkeypatch.setattr(module, "has_cupy", lambda: True, raising=False)
    first = [td.generate_code(*case, backend=backend) for case in programs() for backend in BACKENDS]
    own = set().union(ASKED, *map(identifiers, first)) - {"x", "y", "A", "B", "chosen", "i", "m", "n"}
    words = sorted(word for word in own if word.isidentifier() and not keyword.iskeyword(word))
    assert len(words) > 160
    helpers = {ast.dump(node) for text in first for node in ast.parse(text).body}
    for turn, case in enumerate((*programs(functions=words), *programs(others=words, strange=STRANGE))):
        check(td.generate_code(*case, backend=BACKENDS[turn % 3]), helpers)
