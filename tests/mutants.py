"""``python -m tests.mutants 500``: mutants of the code: each has one changed operator, number or condition; tests fail.

``python -m tests.mutants record`` runs the tests once and writes which test runs which line (it needs ``coverage``).
The command then imports and collects all tests once. For each mutant it forks a process in which the code of one
function is exchanged and the tests that run the changed line run until one fails: the tests of the folder of the same
name and those that noticed mutants of the module before come first. It prints a line for each mutant and the share of
those that tests notice. Of a mutant that survives, it says whether the changed expression ever had another value than
the original one in these tests: if so, the tests are weak; if not, they never reach the difference, or there is none.
`tests/equivalent_mutants.txt` names mutants that compute the same, with the reason; another score is without them.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import functools
import gc
import gzip
import importlib
import itertools
import json
import mmap
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "sympy_tensordiff"
FOLDERS = ("integer", "derivative", "simplify", "codegen/schedule")
RECORD = TESTS.parent / ".mutants.json.gz"
EQUIVALENT = TESTS / "equivalent_mutants.txt"
ELSEWHERE = ("app", "drawing", "cuda_on_cpu", "test_docs.py", "test_boards.py", "test_notebooks.py", "test_faults.py")
ABOUT_TEXTS = ("test_layers.py", "test_language_rules.py", "test_mutation.py")
OPTIONS = ["-o", "addopts=", "-p", "no:xdist", "-p", "no:cacheprovider", "-q", str(TESTS)]
OPTIONS += [f"--ignore={TESTS / name}" for name in (*ELSEWHERE, *ABOUT_TEXTS)]
"""The tests of other folders, and those that read the code instead of running it, take no part."""

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
        self.number, self.texts, self.lines = number, ("", ""), range(0)

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            return node  # ``zip(..., strict=True)`` asserts something that always holds
        if isinstance(node, ast.AnnAssign):  # annotations of local variables are not evaluated
            node.value = None if node.value is None else self.visit(node.value)
            return node
        new = changed(node)
        if new is not None:
            self.number -= 1
            if self.number == -1:
                self.texts = ast.unparse(node).split("\n")[0], ast.unparse(new).split("\n")[0]
                self.lines = lines_of(node)
                return ast.copy_location(new, node)
        return self.generic_visit(node)


OPERATORS = (ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp)
WATCH = "__watched_by_mutants__"
"""The name of the builtin function that is called with both values of a watched expression."""


class Watch(Change):
    """Keeps the code, but compares the values of the expression around a change: operators and their operands."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.is_inside, self.is_watched = False, False

    def visit(self, node: ast.AST) -> ast.AST:
        is_outermost = isinstance(node, OPERATORS) and not self.is_inside
        before = copy.deepcopy(node) if is_outermost else node
        outer, self.is_inside = self.is_inside, isinstance(node, OPERATORS)
        had_changed = self.number < 0
        new = super().visit(node)
        self.is_inside = outer
        if had_changed or self.number >= 0 or not is_outermost or self.is_watched:
            return new
        if any(isinstance(part, ast.NamedExpr | ast.Yield | ast.Await) for part in ast.walk(before)):
            return new
        self.is_watched = True
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        values = [ast.copy_location(ast.Lambda(empty, value), node) for value in (before, new)]
        return ast.copy_location(ast.Call(ast.Name(WATCH, ast.Load()), values, []), node)


def differ(before: Callable[[], Any], after: Callable[[], Any]) -> tuple[Any, bool]:
    """Return the value of ``before``, and whether that of ``after`` is another one or raises an error."""
    value = before()
    try:
        other = after()
        return value, other is not value and not bool(other == value)
    except Exception:
        return value, True


def lines_of(node: ast.AST) -> range:
    """Return the lines of a node without those of the statements inside."""
    last = node.test.end_lineno if isinstance(node, ast.If | ast.While) else node.end_lineno  # type: ignore[attr-defined]
    return range(node.lineno, last + 1)  # type: ignore[attr-defined]


@functools.cache
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


class Mutant(NamedTuple):
    """The changed code of a function, the lines of the change, a text that says what was changed, and the code of the
    function that compares the values of the changed expression; None for changes of statements.
    """

    site: Site
    code: CodeType
    lines: range
    text: str
    watched: CodeType | None = None

    @property
    def name(self) -> str:
        """The module, the function with the number of the change in it, and the change."""
        path, function, _, number = self.site
        return f"{path.relative_to(PACKAGE)} {function} {number}: {self.text.partition(': ')[2]}"


def mutant(site: Site) -> Mutant:
    """Return the mutant of a site; raise LookupError if the site has none."""
    change, watch = Change(site.number), Watch(site.number)
    code = code_with(change, site)
    watched = code_with(watch, site)
    where = f"{site.path.relative_to(PACKAGE)}:{change.lines.start} {site.function}"
    text = f"{where}: {change.texts[0]}  ->  {change.texts[1]}"
    return Mutant(site, code, change.lines, text, watched if watch.is_watched else None)


def code_with(change: Change, site: Site) -> CodeType:
    """Return the changed code of the function of a site; raise LookupError if nothing is to be changed there."""
    tree = copy.deepcopy(body_of(site.path))
    function = next(f for f in functions(tree) if f.lineno == site.line)
    function.body = [change.visit(part) for part in function.body]  # type: ignore[misc]
    if change.number >= 0:
        raise LookupError("inside of a message")
    waiting = [compile(ast.fix_missing_locations(tree), str(site.path), "exec")]
    while waiting:
        code = waiting.pop()
        if code.co_name == site.function and function.name == code.co_name and is_at(code, function):
            return code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    raise LookupError(site.function)


def is_at(code: CodeType, function: ast.FunctionDef) -> bool:
    """Return whether code is that of a function, whose first line may be that of a decorator."""
    return function.lineno - len(function.decorator_list) - 8 <= code.co_firstlineno <= function.lineno


def reasons() -> dict[str, str]:
    """Return for each mutant that is known to compute the same the reason, by its name."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return dict(line.split("  # ") for line in lines if line and not line.startswith("#"))  # type: ignore[misc]


class Live:
    """The functions of the package in this process by file and line, and its caches.

    They are looked for once, before processes are forked: a search touches all objects, and so copies their memory.
    """

    def __init__(self) -> None:
        for path in sorted(path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py")):
            name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            importlib.import_module(name.removesuffix(".__init__"))
        gc.unfreeze()  # the conftest hides what lives at the end of the collection
        self.functions: dict[tuple[str, int, str], list[FunctionType]] = {}
        self.caches = []
        for one in gc.get_objects():
            if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(str(PACKAGE)):
                self.functions.setdefault(_key(one.__code__), []).append(one)
            elif isinstance(one, functools._lru_cache_wrapper) and one.__module__.startswith("sympy_tensordiff"):
                self.caches.append(one)
        gc.freeze()

    def of(self, mutant: Mutant) -> list[FunctionType]:
        """Return the functions with the code that a mutant changes."""
        found = self.functions.get(_key(mutant.code), ())
        return [one for one in found if one.__code__.co_freevars == mutant.code.co_freevars]

    def forget(self) -> None:
        """Empty the caches: tests may have filled them when they were collected."""
        for cache in self.caches:
            cache.cache_clear()
        importlib.import_module("sympy.core.cache").clear_cache()


def _key(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_name


class Record(NamedTuple):
    """The record of a run of the tests: numbers of tests for each file and line, names and CPU times of tests."""

    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[str, list[int]]]

    def covering(self, mutant: Mutant) -> list[int]:
        """Return the tests that run a line of the change."""
        own = self.lines.get(str(mutant.site.path.relative_to(PACKAGE)), {})
        return sorted({test for line in mutant.lines for test in own.get(str(line), ())})


class Recorder:
    """A plugin of pytest that writes the record at the end."""

    def __init__(self, path: Path) -> None:
        coverage = importlib.import_module("coverage")
        folders = [f"{PACKAGE / folder}/*" for folder in FOLDERS]
        self.path = path
        self.coverage = coverage.Coverage(data_file=None, include=folders, config_file=False)
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_runtestloop(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        start = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - start
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        tests = [name for name in self.seconds if name not in self.failed]
        numbers = {name: number for number, name in enumerate(tests)}
        lines = {}
        for file in data.measured_files():
            contexts = data.contexts_by_lineno(file)
            own = {line: sorted(numbers[c] for c in found if c in numbers) for line, found in contexts.items()}
            lines[str(Path(file).relative_to(PACKAGE))] = own
        with gzip.open(self.path, "wt", encoding="utf-8") as stream:
            seconds = [round(self.seconds[name], 4) for name in tests]
            json.dump({"tests": tests, "seconds": seconds, "lines": lines}, stream)


class Campaign:
    """A plugin of pytest that judges mutants instead of running the tests.

    Attributes
    ----------
    counts : Counter of str
        How many mutants were noticed, were slow (a test ran several times its time), survived, survived as they compute
        the same (equivalent), are run by no test.
    """

    def __init__(self, record: Record, mutants: Iterator[Mutant], seconds: float, write: Callable[[str], None]) -> None:
        self.record, self.mutants, self.seconds, self.write = record, mutants, seconds, write
        self.counts: Counter[str] = Counter()
        self.hits: Counter[tuple[Path, int]] = Counter()
        self.is_trusted: dict[int, bool] = {}
        self.shared = mmap.mmap(-1, 9)
        self.reasons = reasons()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.live = Live()
        items = {item.nodeid: item for item in session.items}
        self.items = [items.get(name) for name in self.record.tests]
        folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        for mutant in self.mutants:
            start = time.perf_counter()
            found, by = self.judge(mutant)
            self.counts[found] += 1
            for left in folder.iterdir():
                shutil.rmtree(left, ignore_errors=True)
            self.write(f"{found:10} {time.perf_counter() - start:5.1f} s  {mutant.text}{by}")
        return True

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """Return the verdict on a mutant, and a text about the tests."""
        tests = self.chosen(mutant)
        if not tests or not self.live.of(mutant):
            return "not run" if self.live.of(mutant) else "not live", ""
        while tests:
            found, test = self.verdict(mutant, tests)
            if found == "survived" and mutant.name in self.reasons:
                return "equivalent", f"  ({self.reasons[mutant.name]})"
            if found == "survived":
                return found, f"  ({len(tests)} tests{self.difference(mutant, tests)})"
            if self.trusts(test):
                self.hits[mutant.site.path, test] += 1
                return found, f"  by {self.record.tests[test]}"
            tests = [one for one in tests if one != test]
        return "survived", "  (no test passes without it)"

    def difference(self, mutant: Mutant, tests: Sequence[int]) -> str:
        """Return a text that says whether the changed expression has another value in ``tests``; empty if unknown."""
        if mutant.watched is None:
            return ""

        def watch(before: Callable[[], Any], after: Callable[[], Any]) -> Any:
            value, is_other = differ(before, after)
            if is_other:
                self.shared[8:9] = b"1"
                os._exit(0)
            return value

        setattr(builtins, WATCH, watch)
        self.shared[8:9] = b"0"
        found, _ = self.verdict(mutant._replace(code=mutant.watched), tests)
        delattr(builtins, WATCH)
        if self.shared[8:9] == b"1":
            return ", another value"
        return ", always the same value" if found == "survived" else ""

    def trusts(self, test: int) -> bool:
        """Return whether a test that failed passes without a mutant, in the same kind of process."""
        if test not in self.is_trusted:
            self.is_trusted[test] = self.verdict(None, [test])[0] == "survived"
        return self.is_trusted[test]

    def chosen(self, mutant: Mutant) -> list[int]:
        """Return tests that run the changed line, of each file the shortest first, of so much CPU time in all."""
        path = mutant.site.path
        own = {f"tests/{folder.split('/')[0]}" for folder in FOLDERS if str(path).startswith(str(PACKAGE / folder))}
        files: dict[str, list[int]] = {}
        covering = [n for n in self.record.covering(mutant) if self.items[n] is not None]
        for test in sorted(covering, key=lambda n: (-self.hits[path, n], self.record.seconds[n])):
            files.setdefault(self.record.tests[test].split("::")[0], []).append(test)
        order = sorted(
            files.items(), key=lambda one: (one[0].rsplit("/", 1)[0] not in own, self.record.seconds[one[1][0]])
        )
        rounds = itertools.chain.from_iterable(itertools.zip_longest(*(tests for _, tests in order)))
        known = sorted((n for n in covering if self.hits[path, n]), key=lambda n: -self.hits[path, n])
        chosen, left = [], self.seconds
        for test in dict.fromkeys([*known, *(n for n in rounds if n is not None)]):
            left -= self.record.seconds[test]
            if left < 0 and chosen:
                break
            chosen.append(test)
        return chosen

    def verdict(self, mutant: Mutant | None, tests: Sequence[int]) -> tuple[str, int]:
        """Return "survived", "noticed" or "slow", and the last test that ran."""
        child = os.fork()
        if not child:
            status = 1
            try:
                status = self.run(mutant, tests)
            finally:
                os._exit(status)
        deadline = time.monotonic() + 20 * self.seconds + 300
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
        status = os.waitstatus_to_exitcode(ended[1])
        names = {0: "survived", -signal.SIGVTALRM: "slow", -signal.SIGKILL: "slow"}
        return names.get(status, "noticed"), int.from_bytes(self.shared[:8], "little")

    def run(self, mutant: Mutant | None, tests: Sequence[int]) -> int:
        """Run tests until one fails, in a process forked for it; return its exit status."""
        silence = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(silence, stream)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 34, 1 << 34))
        for function in self.live.of(mutant) if mutant else ():
            function.__code__ = mutant.code
        self.live.forget()
        chosen: list[Any] = [self.items[n] for n in tests]
        for number, item, following in zip(tests, chosen, [*chosen[1:], chosen[-1]], strict=True):
            self.shared[:8] = number.to_bytes(8, "little")
            signal.setitimer(signal.ITIMER_VIRTUAL, 10 + 5 * self.record.seconds[number])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.session.testsfailed:
                return 1
        return 0


def mutants(folders: Sequence[str], seed: int, number: int, skip: int = 0) -> Iterator[Mutant]:
    """Yield random mutants, the same for the same seed."""
    everything = [site for folder in folders for site in sites(folder)]
    random.Random(seed).shuffle(everything)

    def found() -> Iterator[Mutant]:
        for site in everything:
            try:
                yield mutant(site)
            except LookupError:
                continue

    return itertools.islice(found(), skip, number)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 1 if fewer than 90 of 100 mutants were noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=sys.modules[__name__].__doc__)
    parser.add_argument("number", help='how many mutants, or "record"')
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first ones: continue an earlier run")
    parser.add_argument("--folder", choices=FOLDERS, nargs="*", default=[*FOLDERS])
    parser.add_argument("--seconds", type=float, default=60, help="CPU time of a mutant's tests (default 60)")
    parser.add_argument("--record", type=Path, default=RECORD, help=f"default: {RECORD.name}")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(TESTS))
    if options.number == "record":
        return int(pytest.main(OPTIONS, plugins=[Recorder(options.record)]))
    with gzip.open(options.record, "rt", encoding="utf-8") as stream:
        record = Record(**json.load(stream))
    chosen = mutants(options.folder, options.seed, int(options.number), options.skip)
    output = os.fdopen(os.dup(1), "w", buffering=1)
    campaign = Campaign(record, chosen, options.seconds, lambda line: print(line, file=output, flush=True))
    pytest.main([*OPTIONS, "-s", "--turn", "all"], plugins=[campaign])
    counts = campaign.counts
    judged = counts.total() - counts["not live"]
    noticed = counts["noticed"] + counts["slow"]
    scores = [noticed / max(judged - equal, 1) for equal in (0, counts["equivalent"])]
    text = f"score {scores[0]:.1%}, without equivalent ones {scores[1]:.1%}"
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())), text)
    return int(scores[1] < 0.9)


if __name__ == "__main__":
    sys.exit(main())
