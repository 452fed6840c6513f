"""Fixtures and options of all tests: the selected tests, a folder for modules, processes, garbage collection."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import date
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestItem, DoctestModule
from hypothesis import settings
from simulated_threads import one_after_another

TESTS = Path(__file__).parent

collect_ignore = ["typed_usage.py"]  # type checkers read it
if importlib.util.find_spec("jax") is None:
    collect_ignore += ["judges/programs.py", "judges/array_programs.py", "judges/indexed.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "also what takes long: all cases in full, the machine code of all CUDA kernels of the benchmarks"
    parser.addoption("--thorough", action="store_true", help=help)
    help_slice = "K/N: of all tests only the K-th of N parts, which N runs share between them"
    parser.addoption("--slice", default="1/1", help=help_slice)
    help_turn = "the day whose turn it is, of tests marked `in_turns`, as a number (default: today); or: all"
    parser.addoption("--turn", default="today", help=help_turn)
    parser.addoption("--update", action="store_true", help="write tests/printed.txt anew, where test_printed.py runs")
    help_record = (
        "write the systems of constraints that tests meet to a file: python -m tests.judges isl --recorded FILE"
    )
    parser.addoption("--record-questions", metavar="FILE", help=help_record)


def pytest_configure(config: pytest.Config) -> None:
    # The examples of hypothesis are the same in each run; others are tried with --thorough.
    settings.register_profile("same", derandomize=not config.getoption("--thorough"))
    settings.load_profile("same")
    config.addinivalue_line("markers", "quick: a sample of everything, for each save of a file: -m quick")
    config.addinivalue_line("markers", "thorough: takes long, and tests more of what others test; with --thorough only")
    help_turns = "in_turns(n, by=None): like cases, of which each day runs one in n (values of the parameter `by`)"
    config.addinivalue_line("markers", help_turns)
    # Processes of xdist get the options of the first one: all have the same day, also around midnight.
    if config.option.turn == "today":
        config.option.turn = str(date.today().toordinal())


def pytest_report_header(config: pytest.Config) -> str:
    return f"tests in turns: --turn {config.option.turn} repeats these, --turn all runs all"


def turn(config: pytest.Config) -> int | None:
    """Return the day whose turn it is; None with ``--thorough``, or if a file or a name was asked for: all run."""
    is_folder = all(Path(argument.split("::")[0]).is_dir() for argument in config.args)
    if config.option.thorough or config.option.turn == "all" or config.option.keyword or not is_folder:
        return None
    return int(config.option.turn)


def is_today(number: int, file: str, day: int | None, parts: int) -> bool:
    """Return whether the case of this number in a table of a file runs on a day; true if the day is None.

    Tables of one file have the same turns: cases of one number share what is compiled.
    """
    return day is None or (number + zlib.crc32(file.encode()) + day) % parts == 0


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files without a quick test where only those are wanted: to import all takes longer than they do."""
    is_wanted = config.option.markexpr != "quick" or collection_path.suffix != ".py"
    return None if is_wanted or "mark.quick" in collection_path.read_text(encoding="utf-8") else True


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Leave out the search for examples in a module without one: it inspects each object of each module."""
    found = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text(encoding="utf-8"):
        return [collector for collector in found if not isinstance(collector, DoctestModule)]
    return found


def number_of_process(config: pytest.Config) -> int | None:
    """Return the number of a process of xdist, None in the process that the user started."""
    known = getattr(config, "workerinput", None)
    return None if known is None else int(re.sub(r"\D", "", known["workerid"]))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, Any]:
    """Import the files of each folder backwards in every second process: in a new checkout, where pytest rewrites the
    assertions of each file for a tenth of a second, it finds the half that another process has written.
    """
    report = yield
    if isinstance(collector, pytest.Directory) and (number_of_process(collector.config) or 0) % 2:
        report.result.reverse()
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if number_of_process(config) is not None:  # all have the same order, that of the names
        items.sort(key=lambda item: (TESTS not in item.path.parents, item.path.parts, isinstance(item, DoctestItem)))
    if not config.getoption("--thorough"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("thorough")])
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    waiting = waiting_tests(items, turn(config))
    if waiting:
        config.hook.pytest_deselected(items=[item for item in items if item in waiting])
        items[:] = [item for item in items if item not in waiting]
    number, parts = map(int, config.getoption("--slice").split("/"))
    if parts > 1:
        chosen = {item for item in items if zlib.crc32(item.nodeid.encode()) % parts == number - 1}
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]


def waiting_tests(items: list[pytest.Item], day: int | None) -> set[pytest.Item]:
    """Return the tests marked `in_turns` whose turn is another day; quick ones always run."""
    numbers: dict[str, dict[Any, int]] = {}
    waiting = set()
    for item in items:
        mark = item.get_closest_marker("in_turns")
        if mark is None or item.get_closest_marker("quick"):
            continue
        if not hasattr(item, "callspec"):  # not a table: the tests of a file run on different days
            today = is_today(0, item.nodeid, day, *mark.args)
        else:
            by = mark.kwargs.get("by")
            known = numbers.setdefault(item.nodeid.split("[")[0], {})
            number = known.setdefault(item.callspec.params[by] if by else item.nodeid, len(known))
            today = is_today(number, item.nodeid.split("::")[0], day, *mark.args)
        if not today:
            waiting.add(item)
    return waiting


@pytest.fixture
def in_turns(request: pytest.FixtureRequest) -> Callable[[Iterable[Any], int], list[Any]]:
    """Choose one in n of the cases in the loop of a test: those of the day."""

    def chosen(cases: Iterable[Any], parts: int) -> list[Any]:
        day, file = turn(request.config), request.node.nodeid.split("::")[0]
        return [case for n, case in enumerate(cases) if is_today(n, file, day, parts)]

    return chosen


@pytest.fixture
def thorough(request: pytest.FixtureRequest) -> bool:
    """Return whether a test tries all it can."""
    return bool(request.config.getoption("--thorough"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    # Modules stay: to go through them again and again while they are imported would take a third of the time.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.record_questions:
        record_questions(session.config)
    # Expressions are many small objects that live on in caches; to look for the few that nobody has takes a second.
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)


def record_questions(config: pytest.Config) -> None:
    """Record the questions of this process until the end, those of each process of xdist in a file of its own."""
    number = number_of_process(config)
    path = Path(config.option.record_questions + ("" if number is None else f".{number}"))
    stack = ExitStack()
    stack.enter_context(import_module("judges.recording").written(path))
    config.add_cleanup(stack.close)


def pytest_sessionfinish() -> None:
    # Pytest looks five times for objects that nobody has and that complain; one time finds them.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    """A folder of its own for compiled code, elementary functions for all kernels; LLVM's verifier sees all modules."""
    with pytest.MonkeyPatch.context() as patch:
        import_module("shared_elementary").install(patch)
        patch.setenv("SYMPY_TENSORDIFF_CACHE", str(tmp_path_factory.mktemp("generated")))
        patch.setenv("SYMPY_TENSORDIFF_LLVM", "verify")
        yield


@pytest.fixture(scope="session", autouse=True)
def proved_schedules() -> Iterator[Callable[..., Any]]:
    """Schedules that are not proved to stay inside of arrays are errors, where users get plain loops."""

    fusion = import_module("sympy_tensordiff.codegen.schedule.fusion")

    def refuse(step: object, site: object, error: Exception) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        plain = fusion.in_plain_loops
        patch.setattr(fusion, "in_plain_loops", refuse)
        yield plain


Elsewhere = Callable[..., Any]
"""Calls a function of a module of the tests, named first, in another process: arguments and result are pickled."""


@contextmanager
def another_process(**environment: str) -> Iterator[Elsewhere]:
    """One process with these variables in its environment, for all the calls: to start one takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        pool = ProcessPoolExecutor(1, get_context("spawn"))
        pool.submit(int).result()
    with pool:
        yield lambda function, *args: pool.submit(function, *args).result()


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[Elsewhere]:
    """A process in which names hash differently."""
    with another_process(PYTHONHASHSEED="78" if os.environ.get("PYTHONHASHSEED") == "77" else "77") as call:
        assert call(hash, "name") != hash("name")
        yield call


@pytest.fixture(scope="session")
def simulator() -> Iterator[Elsewhere]:
    """A process where CUDA's kernels run in Numba's simulator, and Numba's as plain Python: switches at its import."""
    # NumPy warns of numbers without a value, compiled code does not.
    warnings = "error,ignore::RuntimeWarning"
    with another_process(NUMBA_ENABLE_CUDASIM="1", NUMBA_DISABLE_JIT="1", PYTHONWARNINGS=warnings) as call:
        call(one_after_another)
        yield call


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """The backend of a case, for ``indirect=["backend"]``; for ``"uncompiled"``, Numba, whose kernels run as Python."""
    if request.param == "uncompiled":
        request.getfixturevalue("uncompiled")
        return "numba"
    return str(request.param)


@pytest.fixture
def uncompiled() -> Iterator[None]:
    """Kernels for Numba run as plain Python here: for tests of what a text means, not of what a compiler makes of it.

    Arrays refuse negative positions meanwhile.
    """
    with import_module("uncompiled").run_as_python():  # it imports Numba
        yield
