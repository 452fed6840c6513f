"""``python -m tests.mutants 50``: mutants of the code, each with one changed operator, number or condition; tests fail.

The command forks a process for each mutant, in which the code of one function is exchanged, and runs the test files of
the package's folder until one fails. It prints the mutants that survive, and the share of those that tests notice.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import importlib
import io
import os
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "sympy_tensordiff"
SHARED = ("test_cases.py", "test_index_maps.py", "test_counts.py", "test_total_reads.py", "test_random_tensors.py")
FOLDERS = {
    "integer": ("integer", "simplify", "graph/test_index_conditions.py", "derivative", *SHARED),
    "derivative": ("derivative", *SHARED, "test_cost_law.py", "test_structure.py", "test_scan.py"),
    "simplify": ("simplify", "graph", "derivative", *SHARED, "test_corpus.py", "test_printed.py"),
    "codegen/schedule": ("codegen", "test_counts.py", "test_cases.py", "test_benchmarks_practice.py", "test_fuzz.py"),
}
"""The folders of the package, and the tests of each, in the order in which they run."""

COMPARISONS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
OPERATIONS = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And},
}


class Site(NamedTuple):
    """A place that can be changed: the module, the line of its function, and which of the changes of that function."""

    path: Path
    function: str
    line: int
    number: int


def changed(node: ast.AST) -> ast.AST | None:
    """Return a node that means something else, or None."""
    new = copy.copy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        new.ops = [COMPARISONS[type(node.ops[0])](), *node.ops[1:]]  # type: ignore[attr-defined]
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OPERATIONS:
        new.op = OPERATIONS[type(node.op)]()  # type: ignore[attr-defined]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        new.test = ast.UnaryOp(ast.Not(), node.test)  # type: ignore[attr-defined]
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int):
        new.value = not node.value if isinstance(node.value, bool) else node.value + 1  # type: ignore[attr-defined]
    elif isinstance(node, ast.Continue | ast.Break):
        return ast.Pass()
    else:
        return None
    return new


class Change(ast.NodeTransformer):
    """Changes the node of a number among those that can be changed."""

    def __init__(self, number: int) -> None:
        self.number, self.texts = number, ("", "")

    def visit(self, node: ast.AST) -> ast.AST:
        new = changed(node)
        if new is not None:
            self.number -= 1
            if self.number == -1:
                self.texts = ast.unparse(node).split("\n")[0], ast.unparse(new).split("\n")[0]
                return ast.copy_location(new, node)
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return node


def body_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield the functions and methods of a module, those inside of others excepted."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node)


def sites(folder: str) -> list[Site]:
    """Return all places of a folder that can be changed."""
    found = []
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        for function in functions(body_of(path)):
            count = sum(changed(node) is not None for part in function.body for node in ast.walk(part))
            found += [Site(path, function.name, function.lineno, number) for number in range(count)]
    return found


def mutant(site: Site) -> tuple[CodeType, str]:
    """Return the code of the changed function, and what was changed as a text."""
    tree = body_of(site.path)
    function = next(f for f in functions(tree) if f.lineno == site.line)
    change = Change(site.number)
    function.body = [change.visit(part) for part in function.body]  # type: ignore[misc]
    if change.number >= 0:
        raise LookupError("inside of a message")
    waiting = [compile(ast.fix_missing_locations(tree), str(site.path), "exec")]
    while waiting:
        code = waiting.pop()
        if code.co_name == site.function and function.name == code.co_name and is_at(code, function):
            where = f"{site.path.relative_to(PACKAGE)}:{site.line} {site.function}"
            return code, f"{where}: {change.texts[0]}  ->  {change.texts[1]}"
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    raise LookupError(site.function)


def is_at(code: CodeType, function: ast.FunctionDef) -> bool:
    """Return whether code is that of a function, whose first line may be that of a decorator."""
    return function.lineno - len(function.decorator_list) - 8 <= code.co_firstlineno <= function.lineno


def exchange(site: Site, code: CodeType) -> bool:
    """Give the code to the live function of a place; return whether there is one."""
    name = ".".join(site.path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    importlib.import_module(name)
    found = False
    for live in [f for f in gc.get_objects() if isinstance(f, FunctionType)]:
        own = live.__code__
        is_same = own.co_name == code.co_name and own.co_firstlineno == code.co_firstlineno
        if is_same and Path(own.co_filename) == site.path and own.co_freevars == code.co_freevars:
            live.__code__ = code
            found = True
    return found


def verdict(site: Site, code: CodeType, tests: tuple[str, ...], seconds: int) -> str:
    """Return "noticed", "survived" or "slow" (its tests take longer), or "not called" if it is no live function."""
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        silence = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(silence, stream)
        status = 3
        with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
            if exchange(site, code):
                options = ["-x", "-q", "-p", "no:xdist", "-o", "addopts=", "-p", "no:cacheprovider"]
                passed = (pytest.main([*options, str(TESTS / name)]) in (0, 5) for name in tests)
                status = 0 if all(passed) else 1
            else:
                status = 2
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "survived", 2: "not called", -signal.SIGXCPU: "slow"}.get(status, "noticed")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 1 if fewer than 90 of 100 mutants were noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=sys.modules[__name__].__doc__)
    parser.add_argument("number", type=int, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", choices=FOLDERS, nargs="*", default=[*FOLDERS])
    parser.add_argument("--seconds", type=int, default=400, help="CPU time of a mutant's tests (default 400)")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(TESTS))
    everything = [(folder, site) for folder in options.folder for site in sites(folder)]
    rng = random.Random(options.seed)
    rng.shuffle(everything)
    print(f"{len(everything)} places; seed {options.seed}", flush=True)
    counts: Counter[str] = Counter()
    for folder, site in everything:
        if counts["noticed"] + counts["survived"] + counts["slow"] >= options.number:
            break
        try:
            code, text = mutant(site)
        except LookupError:
            continue
        found = verdict(site, code, FOLDERS[folder], options.seconds)
        counts[found] += 1
        print(f"{found:10} {text}", flush=True)
    judged = counts["noticed"] + counts["survived"] + counts["slow"]
    score = (counts["noticed"] + counts["slow"]) / max(judged, 1)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())), f"score {score:.0%}")
    return int(score < 0.9)


if __name__ == "__main__":
    sys.exit(main())
