"""The import table: which subpackage may import which.

All imports are read from the source with `ast`, those inside functions and under
``TYPE_CHECKING`` included: a dependency that is only needed late is a dependency all the same.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType

import pytest
from every import every
from package_sources import sources, statements

import sympy_tensordiff as td
from sympy_tensordiff.integer.system import system

pytestmark = pytest.mark.quick

PACKAGE = "sympy_tensordiff"
ROOT = Path(td.__file__).parent

BELOW_ORACLE = frozenset(
    {
        "functions",
        "integer",
        "symbolic",
        "graph",
        "derivative",
        "simplify",
        "codegen",
        "structure",
        "bridges",
        "distributed",
        "parsing",
        "drawing",
        "errors",
    }
)
# Package -> packages that it may import. Every package may import itself, `errors` and `lazy`.
TABLE: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "lazy": frozenset(),
    "integer": frozenset(),
    "functions": frozenset(),
    "symbolic": frozenset({"functions", "integer"}),
    "graph": frozenset({"functions", "symbolic", "integer"}),
    "simplify": frozenset({"functions", "graph", "integer"}),
    "derivative": frozenset({"graph", "symbolic", "integer", "simplify"}),
    "codegen": frozenset({"functions", "graph", "integer", "simplify"}),
    "parsing": frozenset({"functions", "symbolic"}),
    "drawing": frozenset({"graph", "integer"}),
    "structure": frozenset({"codegen", "derivative", "graph", "integer", "simplify", "symbolic"}),
    "bridges": frozenset({"codegen", "derivative", "structure", "symbolic"}),
    "convex": frozenset({"derivative", "functions", "reference", "structure", "symbolic"}),
    "distributed": frozenset({"codegen", "integer", "structure", "symbolic"}),
    "reference": BELOW_ORACLE,
    "testing": BELOW_ORACLE | {"reference"},
    "app": BELOW_ORACLE | {"convex", "reference", "testing", ""},
    "__main__": BELOW_ORACLE | {"convex", "reference", "testing", "app", ""},
}
# Single modules with a permission of their own: module -> packages.
MODULES: dict[str, frozenset[str]] = {
    # The entry point of a package converts the classes that users write to the graph.
    f"{PACKAGE}.codegen.api": frozenset({"symbolic"}),
    f"{PACKAGE}.codegen.cost": frozenset({"symbolic"}),
    f"{PACKAGE}.codegen.program": frozenset({"symbolic"}),
    f"{PACKAGE}.codegen.run.signature": frozenset({"symbolic"}),
    f"{PACKAGE}.drawing.api": frozenset({"symbolic", "derivative"}),
    f"{PACKAGE}.drawing.equations": frozenset({"symbolic", "derivative"}),
    f"{PACKAGE}.drawing.plot": frozenset({"symbolic"}),
}
# The folders of `codegen` in the order of the data flow: each imports itself and those before it.
STAGES = ("ir", "lower", "schedule", "emit", "run")
# The folders of `symbolic`, lowest first: each imports itself and those before it.
SYMBOLIC_FOLDERS = ("expressions", "index_notation", "whole_tensors", "recurrences", "printing", "conversion")
# Imports against the table that are known and accepted: (module, imported module). Keep it empty.
ALLOWED: frozenset[tuple[str, str]] = frozenset()


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def is_package(module: str) -> bool:
    return SOURCES[module].name == "__init__.py"


def package_of(module: str) -> str:
    """``sympy_tensordiff.integer.smith`` -> ``integer``; ``""`` for the package itself."""
    return module.split(".")[1] if "." in module else ""


def imported_modules(module: str, imports: Iterable[ast.Import | ast.ImportFrom]) -> Iterator[str]:
    """All modules of the package that these statements in ``module`` import, by their full names."""
    package = module if is_package(module) else module.rpartition(".")[0]
    for node in imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        else:
            base = node.module or ""
            if node.level:
                anchor = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*anchor, base] if base else anchor)
            if base.split(".")[0] == PACKAGE:
                # `from package import name` imports a module where `name` is one.
                names = {f"{base}.{alias.name}" for alias in node.names}
                yield from (name if name in SOURCES else base for name in sorted(names))


@cache
def imports_of_all() -> dict[str, frozenset[str]]:
    found = {module: imported_modules(module, sources()[path].imports) for module, path in SOURCES.items()}
    return {module: frozenset(targets) - {module} for module, targets in found.items()}


def violations(imports: dict[str, frozenset[str]]) -> list[str]:
    """Every import that the table does not permit, as a line of text."""
    found = []
    for module, targets in imports.items():
        package = package_of(module)
        if package == "":  # re-exports from every package
            continue
        permitted = TABLE.get(package, frozenset()) | MODULES.get(module, frozenset()) | {package, "errors", "lazy"}
        found += [
            f"{module} imports {target}: {package!r} may import {sorted(permitted)} only"
            for target in sorted(targets)
            if package_of(target) not in permitted and (module, target) not in ALLOWED
        ]
    return found


def backward_imports(imports: dict[str, frozenset[str]], package: str, folders: tuple[str, ...]) -> list[str]:
    """Return the imports of a folder of ``package`` from a later one of ``folders``, or from a file of the package
    itself, which may import all of them.
    """
    order = {
        module: folders.index(module.split(".")[2]) if module.split(".")[2] in folders else len(folders)
        for module in imports
        if module.startswith(f"{PACKAGE}.{package}.")
    }
    return [
        f"{module} imports {target}"
        for module, place in order.items()
        for target in sorted(imports[module])
        if order.get(target, -1) > place
    ]


def folders_of(package: str) -> set[str]:
    """Return the names of the folders and files in ``package``."""
    return {module.split(".")[2] for module in SOURCES if module.startswith(f"{PACKAGE}.{package}.")}


def cycles(imports: dict[str, frozenset[str]]) -> list[list[str]]:
    """The modules on or between import cycles, each with what it imports there.

    Modules that import nothing of the rest, or that nothing of the rest imports, are taken away
    until only cycles (and paths between them) are left.
    """
    rest = {m: {t for t in targets if t in imports} for m, targets in imports.items()}
    while True:
        targets_of_others = {t for m, targets in rest.items() for t in targets if t in rest and m != t}
        keep = {m for m, targets in rest.items() if m in targets_of_others and targets & rest.keys()}
        if len(keep) == len(rest):
            return [[m, *sorted(t & rest.keys())] for m, t in sorted(rest.items())]
        rest = {m: rest[m] & keep for m in keep}


def test_every_package_has_a_row() -> None:
    packages = {package_of(module) for module in SOURCES} - {""}
    assert packages <= TABLE.keys(), f"no row in the table for {sorted(packages - TABLE.keys())}"


def test_the_import_table_holds() -> None:
    found = violations(imports_of_all())
    assert not found, "\n".join(found)


def test_kernels_are_made_in_stages() -> None:
    assert backward_imports(imports_of_all(), "codegen", STAGES) == []
    assert folders_of("codegen") == {*STAGES, "api", "cost", "program", "tuning"}


def test_the_folders_of_symbolic_are_in_order() -> None:
    """Keep the printers above the classes that they print, and conversions above all classes."""
    assert backward_imports(imports_of_all(), "symbolic", SYMBOLIC_FOLDERS) == []
    assert folders_of("symbolic") == {*SYMBOLIC_FOLDERS}


def test_no_import_cycles() -> None:
    assert cycles(imports_of_all()) == []


def test_the_checks_see_a_violation() -> None:
    """A check that finds nothing anywhere would pass as well."""
    bad = {f"{PACKAGE}.integer.smith": frozenset({f"{PACKAGE}.graph.nodes"})}
    assert len(violations(bad)) == 1
    early, late_stage = f"{PACKAGE}.codegen.ir.loops", f"{PACKAGE}.codegen.emit.c"
    both = {early: frozenset({late_stage}), late_stage: frozenset({early})}
    assert len(backward_imports(both, "codegen", STAGES)) == 1
    base, printer = f"{PACKAGE}.symbolic.expressions.base", f"{PACKAGE}.symbolic.printing.printed_forms"
    both = {base: frozenset({printer}), printer: frozenset({base})}
    assert len(backward_imports(both, "symbolic", SYMBOLIC_FOLDERS)) == 1
    a, b, c = f"{PACKAGE}.graph.a", f"{PACKAGE}.graph.b", f"{PACKAGE}.graph.c"
    assert cycles({a: frozenset({b}), b: frozenset({a, c}), c: frozenset()}) == [[a, b], [b, a]]
    first, second = "from .. import graph", "import sympy_tensordiff.codegen.ir.loops as l"
    for outer in (
        *("def f():", "if a:", "if a: pass\nelse:", "try: pass\nexcept a:", "try: pass\nfinally:"),
        *(
            "class A:\n  def f():",
            "async def f():",
            "match a:\n case 1:",
            "with a:",
            "while a: pass\nelse:",
            "for a in b:",
        ),
    ):
        late = ast.parse(f"{outer}\n    {first}\n    {second}\n")
        imports = [node for node in statements(late.body) if isinstance(node, ast.Import | ast.ImportFrom)]
        seen = set(imported_modules(f"{PACKAGE}.integer.affine", imports))
        assert seen == {f"{PACKAGE}.graph", f"{PACKAGE}.codegen.ir.loops"}, outer


@every("module", [m for m in SOURCES if is_package(m)])
def test_packages_only_reexport(module: str) -> None:
    for node in ast.parse(SOURCES[module].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # the docstring
            continue
        if module == PACKAGE and (isinstance(node, ast.If) or getattr(node, "name", "") == "__dir__"):
            continue  # the names that `lazy` imports at first use
        assigned = {ast.unparse(t) for t in node.targets} if isinstance(node, ast.Assign) else set()
        assert assigned and assigned <= {"__all__", "__version__"}, (
            f"{module} defines something in line {node.lineno}: {ast.unparse(node)[:60]}"
        )


def public_names() -> list[str]:
    """Return the public names of ``td``: no private names, no modules."""
    return [name for name in td.__all__ if not inspect.ismodule(getattr(td, name))]


def test_public_names_are_documented() -> None:
    assert len(public_names()) > 10
    for name in public_names():
        value = getattr(td, name)
        # An inherited docstring describes another class.
        text = vars(value).get("__doc__") if inspect.isclass(value) else inspect.getdoc(value)
        assert text and text.strip(), f"td.{name} has no docstring"


@every("module", [m for m, path in SOURCES.items() if path.stat().st_size])
def test_modules_open_with_a_docstring(module: str) -> None:
    assert sources()[SOURCES[module]].doc, f"{module} has no docstring"


def test_only_one_file_inspects_frames() -> None:
    """Keep all inspections of SymPy's call frames in one file, each with the SymPy function that needs it."""
    inspected = re.compile(r"\bf_(back|code|globals|locals)\b")
    found = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if inspected.search(path.read_text())}
    assert found == {"symbolic/expressions/sympy_callers.py"}


def test_one_convolution_stays_in_few_files() -> None:
    """Limit the files that the derivative of a convolution enters and its changes of the package."""
    i, k, n = td.indices("i k n")
    x, w, dy = td.TensorSymbol("x", 2 * n + 1), td.TensorSymbol("w", 3), td.TensorSymbol("dy", n)
    files: set[str] = set()
    packages: list[str] = []

    def derive() -> object:
        y = td.TensorComprehension(td.IndexedSum(x[2 * i + k] * w[k], (k, 0, 2)), (i, n))
        return td.vjp(y, x, dy)

    def note(frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and ROOT in path.parents:
            files.add(str(path.relative_to(ROOT)))
            package = path.relative_to(ROOT).parts[0]
            if package not in packages[-1:]:
                packages.append(package)

    derive()  # what is remembered of an expression is the same in every order of the tests
    system.cache_clear()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        derive()
    finally:
        sys.setprofile(before)
    assert len(files) <= 44, sorted(files)  # one of them explains calls that do not fit
    assert len(packages) <= 525  # 95 of them check the reads of the sum when it is built
