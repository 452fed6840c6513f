"""A record of all that is printed, to be compared before and after a change that should change nothing.

    python -m tests.golden --write FOLDER [--fuzz 2000] [--only PATTERN]
    python -m tests.golden --check FOLDER [--show 40]

For every case of the tables, every result that the documentation names and every random function with the seeds
0 to ``--fuzz``, the record has the function, its pullbacks or derivatives, their LaTeX, how often the loops of the
kernel run, and the text of `td.generate_code` in all backends; of the table of convex functions it has the
certificates. One file a case: ``--check`` derives everything anew, and shows what differs as unified differences, most
similar texts first, with counts of each part. The exit code is 1 where something differs, where a case has no record,
and where a record has no case.
"""

from __future__ import annotations

import argparse
import difflib
import doctest
import json
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote, unquote

sys.path.insert(0, str(Path(__file__).parent))

import cases
import cases_convex
import cases_einsum
import sympy
import test_docs
import test_total_reads
from fuzz import function_checks
from fuzz.count import count

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.testing import call_arguments, random_values
from sympy_tensordiff.testing.values import shape_of

BACKENDS = ("numpy", "numba", "cuda", "c")
SECONDS = 120
"""A case that takes longer is recorded as such."""
Record = dict[str, str]


# ---------------------------------------------------------------------------- what is recorded


def printed(results: tuple[Any, ...]) -> Record:
    return {"text": "\n".join(map(str, results)), "latex": "\n".join(map(sympy.latex, results))}


def kernels(results: tuple[Any, ...], sizes: dict[Any, int] | None) -> Record:
    """The operations at these sizes, and the text in each backend."""
    free = sorted(set().union(*(result.free_symbols for result in results)), key=str)
    record: Record = {}
    arguments = free
    if sizes is not None:
        arguments, _ = call_arguments(results, random_values(results, sizes))
        record["counts"] = attempted(lambda: counted(arguments, results, sizes))
    for backend in BACKENDS:
        record[backend] = attempted(lambda backend=backend: td.generate_code(arguments, results, backend))
    return record


def counted(arguments: Any, results: tuple[Any, ...], sizes: dict[Any, int]) -> str:
    program = build_program(arguments, results)
    counts = count(program, {str(size): value for size, value in sizes.items()})
    return f"{counts.iterations} iterations, {counts.stores} stores"


def attempted(make: Callable[[], str]) -> str:
    try:
        return make()
    except Exception as error:  # a refusal is part of the record
        return f"{type(error).__name__}: {error}"


def pullbacks(function: Any, variables: tuple[Any, ...], sizes: dict[Any, int] | None) -> Record:
    """The function and its pullbacks by all variables, in one sweep."""
    cotangent = td.TensorSymbol("cotangent", shape_of(function))
    results = (function, *td.vjp(function, variables, cotangent))
    return printed(results) | kernels(results, sizes)


def of_case(name: str) -> Record:
    case = cases.build(name)
    return pullbacks(case.function, case.variables, dict(case.sizes))


def of_einsum(table: str, key: str) -> Record:
    row = next(row for name, row in getattr(cases_einsum, table).items() if str(name) == key)
    results = [row.build()]
    for variable in row.wrt:
        results.append(td.jacobian(results[-1], variable))
    return printed(tuple(results)) | kernels(tuple(results), {})


def of_read(name: str) -> Record:
    row = test_total_reads.ROWS[name]
    found = test_total_reads.results_of(row)
    results = (row.function, *(result for result, _ in found.values()))
    has_data = any(isinstance(key, td.TensorSymbol) for key in row.settings[0])  # counts are of sizes alone
    return printed(results) | kernels(results, None if has_data else dict(row.settings[0]))


def of_convex(table: str, name: str) -> Record:
    function, variables, domain = getattr(cases_convex, table)[name]
    found = cases_convex.certified(function, variables, domain)
    return {"text": str(function), "certificate": repr(found), "latex": "\n".join(found.latex_lines())}


def of_random(kind: str, seed: str) -> Record:
    made = GENERATORS[kind](int(seed))
    return pullbacks(made.function, tuple(made.variables), dict(made.draws[0]) if made.draws else dict(made.sizes))


def of_page(name: str) -> Record:
    """Every named result of a page of the documentation, as it is at the page's end."""
    page = next(page for page in test_docs.PAGES if page.name == name)
    globs: dict[str, Any] = {}
    examples = doctest.DocTestParser().get_doctest(test_docs.session(page), globs, name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=test_docs.FLAGS)
    runner.run(examples, out=lambda text: None, clear_globs=False)
    record: Record = {}
    for name, value in sorted(examples.globs.items()):
        if isinstance(value, sympy.Basic):
            record |= {f"{name} {part}": text for part, text in printed((value,)).items()}
        elif hasattr(value, "source") and hasattr(value, "plan"):
            record[f"{name} kernel"] = value.source
    return record


KINDS = {"ranges": "functions", "maps": "maps", "tensors": "tensors"}
GENERATORS = {kind: function_checks.GENERATORS[own] for kind, own in KINDS.items()}
RECORDERS: dict[str, Callable[..., Record]] = {
    "case": of_case,
    "einsum": of_einsum,
    "read": of_read,
    "convex": of_convex,
    "page": of_page,
    "random": of_random,
}


def keys(fuzz: int) -> Iterator[str]:
    """The names of all records: ``kind/…``."""
    yield from (f"case/{name}" for name in cases.names())
    for table in ("PEERS", "THESIS", "FIGURES"):
        yield from (f"einsum/{table}/{key}" for key in getattr(cases_einsum, table))
    yield from (f"read/{name}" for name in test_total_reads.ROWS)
    for table in ("CONVEX", "NOT_CONVEX"):
        yield from (f"convex/{table}/{name}" for name in getattr(cases_convex, table))
    yield from (f"page/{page.name}" for page in test_docs.PAGES if page.name not in test_docs.NEEDED)
    for seed in range(fuzz):
        yield f"random/{tuple(GENERATORS)[seed % len(GENERATORS)]}/{seed}"


class _TooSlowError(BaseException):
    """Ends a case that takes too long."""


def record(key: str) -> Record:
    """The record of one case; a refusal, a crash and a limit of time are records as well."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise _TooSlowError

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    kind, *names = key.split("/")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return RECORDERS[kind](*names)
    except _TooSlowError:
        return {"error": f"more than {SECONDS} seconds"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


# ---------------------------------------------------------------------------- the command


def path_of(folder: Path, key: str) -> Path:
    return folder / f"{quote(key, safe='/+,')}.json"


def without_case(options: argparse.Namespace) -> list[str]:
    """The records that this check would compare with a case, if there were one."""
    folder: Path = options.check
    stored = {unquote(str(path.relative_to(folder).with_suffix(""))) for path in folder.rglob("*.json")}

    def is_asked(key: str) -> bool:
        kind, *_, last = key.split("/")
        return bool(re.search(options.only, key)) and (kind != "random" or int(last) < options.fuzz)

    return sorted(filter(is_asked, stored - set(keys(options.fuzz))))


def differences(key: str, before: Record, after: Record) -> list[tuple[str, list[str]]]:
    """Each part that differs, with the lines of its difference."""
    found = []
    for part in sorted(before.keys() | after.keys()):
        old, new = before.get(part, ""), after.get(part, "")
        if old != new:
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"{key} {part}", "now", lineterm="", n=1)
            found.append((part, list(lines)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FOLDER")
    what.add_argument("--check", type=Path, metavar="FOLDER")
    parser.add_argument("--fuzz", type=int, default=2000, help="how many random functions")
    parser.add_argument("--only", default="", help="a regular expression for the names of cases")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", type=int, default=20, help="how many differences are shown in full")
    options = parser.parse_args()
    folder: Path = options.write or options.check
    chosen = [key for key in keys(options.fuzz) if re.search(options.only, key)]
    if not chosen or not (options.write or folder.is_dir()):
        print("no case has such a name" if not chosen else f"there is no record: {folder} is not a folder")
        return 1
    missing = [] if options.write else [f"{key}: a record without a case" for key in without_case(options)]
    found: list[tuple[str, list[str]]] = []
    with get_context("spawn").Pool(options.jobs, maxtasksperchild=50) as pool:
        for key, new in zip(chosen, pool.imap(record, chosen, chunksize=4), strict=True):
            path = path_of(folder, key)
            if options.write:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(new, indent=0), encoding="utf-8")
            elif path.exists():
                found += differences(key, json.loads(path.read_text(encoding="utf-8")), new)
            else:
                missing.append(f"{key}: a case without a record")
    for _, lines in sorted(found, key=lambda difference: len(difference[1]))[: options.show]:
        print("\n".join(lines), end="\n\n")
    if missing:
        print(*missing, sep="\n", end="\n\n")
    parts = Counter(part.rpartition(" ")[2] for part, _ in found)
    counts = [f"{number} differ in {part}" for part, number in sorted(parts.items())]
    print(f"{len(chosen)} cases", *counts, *([f"{len(missing)} are missing"] if missing else []), sep="; ")
    return 1 if found or missing else 0


if __name__ == "__main__":
    sys.exit(main())
