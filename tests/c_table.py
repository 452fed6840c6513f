"""All functions of the tables as C, value and pullbacks, against the interpreter.

    python tests/c_table.py [--only PATTERN] [--sanitize] [--float32] [--compiler clang] [--cuda]

takes minutes; ``--cuda`` runs the files in CUDA C++ instead, with their blocks and threads on the processor. It prints
what C refuses, and what differs by more than 1e-12 of the largest entry; the exit code is 1 if anything does.
``--sanitize`` makes all calls once more with the sanitizers of addresses and of undefined behaviour.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import cases
import exact_checks
import in_c
import in_cuda
import numpy as np
import pytest
import test_total_reads
from cases_reads import ROWS

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import NotInCError

RTOL = {"float64": 1e-12, "float32": 1e-4}


class Table:
    """Compiles and checks one case after the other."""

    def __init__(self, options: Any, folder: Path) -> None:
        self.folder = folder
        self.compiler = options.compiler
        self.dtype = "float32" if options.float32 else "float64"
        self.is_cuda = options.cuda
        self.count = 0

    def lambdify(self, arguments: Any, expressions: Any, backend: str, *, temporaries: bool = True) -> Any:
        """The function of C in the place of one of Python."""
        assert backend == "c"
        self.count += 1
        name = f"case_{self.count}"
        if self.is_cuda:
            function = in_cuda.compiled(arguments, expressions, self.folder, name, self.dtype, temporaries=temporaries)
            function.order = (1, -1)[self.count % 2]
            return function
        program = build_program(arguments, expressions, temporaries=temporaries)
        found, refused = in_c.sources({name: program}, dtype=self.dtype)
        if refused:
            raise NotInCError(refused[name])
        library = in_c.build(found, self.folder, "-O1", compiler=self.compiler)
        return in_c.Function(library, name, program, self.dtype)

    def case(self, name: str) -> None:
        """A function of the tables of derivatives."""
        case = cases.build(name)
        exact_checks.assert_kernel_exact(
            case.function, case.variables, **cases.options(case, kernels=(("c", True),), rtol=RTOL[self.dtype])
        )

    def read(self, name: str) -> None:
        """A function that reads by data, or outside of its tensor."""
        test_total_reads.checked(name, [("c", True)], symbolic=False)

    def run(self, pattern: str) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exact_checks, "lambdify", self.lambdify)
            patch.setattr(td, "lambdify", self.lambdify)
            equal = test_total_reads.assert_equal
            # The last argument is the tolerance of the other backends.
            patch.setattr(test_total_reads, "assert_equal", lambda *three: equal(*three[:3], RTOL[self.dtype]))
            kinds = [(name, partial(self.case, name)) for name in cases.names()]
            kinds += [(name, partial(self.read, name)) for name in ROWS]
            counts: Counter[str] = Counter()
            for name, check in kinds:
                if re.search(pattern, name):
                    counts[self.outcome(name, check)] += 1
        print(dict(counts), flush=True)
        return int(counts["wrong"] > 0)

    def outcome(self, name: str, check: Any) -> str:
        try:
            check()
        except NotInCError as error:
            print(f"refused {name}: {error}", flush=True)
            return "refused"
        except Exception as error:
            print(f"WRONG {name}: {type(error).__name__}: {str(error)[:1500]}", flush=True)
            return "wrong"
        return "right"


CHILD = """
import ctypes, pickle, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from in_c_call import call
for number, calls in pickle.loads(Path(sys.argv[1], "calls").read_bytes()):
    library = ctypes.CDLL(f"{sys.argv[1]}/part_{number}.so")
    for one in calls:
        call(library, *one)
    print("clean", len(calls), flush=True)
"""


def sanitized(folder: Path, calls: list[Any]) -> int:
    """Make calls with sanitizers, in a process that has nothing else of ours: Python itself is slow with them."""
    parts = [calls[n : n + 40] for n in range(0, len(calls), 40)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda part: _compile_part(folder, *part), enumerate(parts)))
    (folder / "calls").write_bytes(pickle.dumps(list(enumerate(parts))))
    found = [
        subprocess.run(["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True).stdout.strip()
        for name in ("asan", "ubsan")
    ]
    own = {"LD_PRELOAD": ":".join(found), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    command = [sys.executable, "-c", CHILD, str(folder), str(Path(__file__).parent)]
    return subprocess.run(command, env={**os.environ, **own}).returncode


def _compile_part(folder: Path, number: int, calls: list[Any]) -> None:
    paths = [folder / f"{name}.c" for name in dict.fromkeys(call[0] for call in calls)]
    command = ["gcc", *in_c.WARNINGS, *in_c.SANITIZERS, "-shared", "-fPIC", "-o", folder / f"part_{number}.so", *paths]
    subprocess.run([*map(str, command), "-lm"], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="a regular expression for names")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--compiler", default="gcc")
    options = parser.parse_args()
    in_c.Function.calls = [] if options.sanitize else None
    with tempfile.TemporaryDirectory() as name, np.errstate(all="ignore"):
        folder = Path(name)
        code = Table(options, folder).run(options.only)
        if in_c.Function.calls:
            code |= sanitized(folder, in_c.Function.calls)
        return code


if __name__ == "__main__":
    sys.exit(main())
