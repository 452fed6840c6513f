"""The core needs SymPy, mpmath and lark only: reading, differentiating, printing and generating text."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import sympy_tensordiff as td
from sympy_tensordiff import lazy

REFUSED = ("numpy", "scipy", "numba", "llvmlite", "opt_einsum", "threadpoolctl", "matplotlib", "jax", "torch", "dask")

PROGRAM = """
import sys

REFUSED = set(sys.argv[1].split())

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError("refused: " + name, name=name)

sys.meta_path.insert(0, Refusal())
import sympy
import sympy_tensordiff as td

packages = {name.split(".")[1] for name in sys.modules if name.startswith("sympy_tensordiff.")}
assert packages == {"errors", "functions", "integer", "lazy", "symbolic"}, packages

def use(tensors, expr, backends=("numpy", "numba", "c", "cuda", "cuda_c", "llvm", "jax", "torch", "cupy")):
    for text in (str(expr), sympy.latex(expr), sympy.pretty(expr), sympy.srepr(expr), td.latex(expr)):
        assert text
    for backend in backends:
        assert len(td.generate_code(tensors, expr, backend)) > 500, backend

i, j, k, n, m, p = td.indices("i j k n m p")
x, w, dy = td.TensorSymbol("x", 2*n + 1), td.TensorSymbol("w", 3), td.TensorSymbol("dy", n)
y = td.TensorComprehension(td.IndexedSum(x[2*i + k]*w[k], (k, 0, 2)), (i, n))
for variable in (x, w):
    use((x, w, dy, n), td.vjp(y, variable, dy))
A, b = td.TensorSymbol("A", (m, n)), td.TensorSymbol("b", n)
norm = td.IndexedSum(b[i]**2, (i, 0, n - 1))
assert str(sympy.diff(norm, b[p])) == "2*b[p]"
use((A, b), td.hessian(td.logsumexp(A @ b), b))
use((A, b), td.jacobian(A @ td.softmax(b), b))
use((A, b), td.gradient(td.sum(td.einsum("ij,j,ik,k,il,l->i", A, b, A, b, A, b)), b))
use((b,), td.gradient(td.sum(td.erf(b)), b))
assert td.cse([norm + sympy.exp(norm)]) and td.cost(A @ b)
for text in ("norm2(A*x - y)^2", "declare x[n]  s = sum(x[i]**2, i)  derivative wrt x",
             "declare x 1 expression x *(i,i->) x derivative wrt x", r"\\|A x - y\\|_2^2"):
    parsed = td.parse(text)
    parsed = parsed if parsed.arguments else parsed.with_respect_to(["x"])
    use(tuple(parsed.tensors.values()), parsed.derivative(), ["numpy"])
    assert td.to_text(parsed.expression, language="index") and td.draw_graph(parsed).svg()
assert td.certify_convex(td.logsumexp(A @ b), b)
try:
    td.evaluate(td.sum(b), {b: [1, 2]})
except ModuleNotFoundError as error:
    assert error.name in REFUSED
else:
    raise AssertionError("the value did not need NumPy")
assert not REFUSED & sys.modules.keys()
"""


@pytest.mark.in_turns(4)
def test_the_core_imports_no_numerical_library() -> None:
    command = [sys.executable, "-c", PROGRAM, " ".join(REFUSED)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def test_all_modules_can_be_imported() -> None:
    """Import each module, also those without an example, which the search for examples leaves out."""
    for module in walk_packages(td.__path__, f"{td.__name__}."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def test_names_that_are_imported_late_are_those_of_the_type_checkers() -> None:
    tree = ast.parse(Path(td.__file__).read_text(encoding="utf-8"))
    (late,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in late.body if isinstance(node, ast.ImportFrom)]
    assert {alias.asname: node.module for node in imports for alias in node.names} == lazy.NAMES
    assert lazy.NAMES.keys() <= set(td.__all__) and set(td.__all__) <= set(dir(td))
    for name in lazy.NAMES:
        assert getattr(td, name).__module__.startswith("sympy_tensordiff.")


def test_every_file_that_is_not_python_is_in_the_wheel():
    """Setuptools packs the patterns of pyproject.toml only: a grammar of a new folder would be missing."""
    package = Path(__file__).parents[1] / "sympy_tensordiff"
    text = (package.parent / "pyproject.toml").read_text(encoding="utf-8")
    patterns = json.loads(text.partition("package-data]\nsympy_tensordiff = ")[2].partition("\n")[0])
    packed = {path for pattern in patterns for path in package.glob(pattern)}
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    found = {path for path in files if path.suffix != ".py"}
    assert len(found) > 9 and found <= packed, found - packed
