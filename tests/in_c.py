"""Programs as C: printed, compiled into one library, and called through `ctypes`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from in_c_call import call

from sympy_tensordiff.codegen.emit.c import COptions, CSource, print_c
from sympy_tensordiff.codegen.ir.programs import Program
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker
from sympy_tensordiff.errors import NotInCError

COMPILER = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")


def build(sources: Mapping[str, str], folder: Path, *flags: str, compiler: str | None = None) -> ctypes.CDLL:
    """The library of several files."""
    paths = []
    for name, source in sources.items():
        paths.append(folder / f"{name}.c")
        paths[-1].write_text(source)
    library = folder / f"lib_{len(list(folder.iterdir()))}.so"
    command = [compiler or COMPILER, *WARNINGS, *flags, "-shared", "-fPIC", "-o", library, *paths, "-lm"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert not done.returncode, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def sources(programs: Mapping[str, Program], **options: Any) -> tuple[dict[str, CSource], dict[str, str]]:
    """The files of programs, and why C refuses others."""
    found, refused = {}, {}
    for name, program in programs.items():
        try:
            found[name] = print_c(program, COptions(name=name, **options))
        except NotInCError as error:
            refused[name] = str(error)
    return found, refused


class Function:
    """A function of a library, called with the arrays and numbers that the compiled function of the program takes."""

    calls: ClassVar[list[Any] | None] = None
    """Where calls are noted, with all that they pass, if that is wanted."""

    def __init__(self, library: ctypes.CDLL, name: str, program: Program, dtype: Any = np.float64) -> None:
        self.program = program
        self.dtype = np.dtype(dtype)
        self.library, self.name = library, name
        given = [a.name for a in program.arguments if a.kind == "integer"]
        self.sizes = [s.name for s in solve_sizes(program.arguments) if s.name not in given]

    def known(self, arguments: Sequence[Any]) -> dict[str, int]:
        """The sizes of a call."""
        pairs = zip(self.program.arguments, arguments, strict=True)
        read = [value if argument.kind == "integer" else np.asarray(value) for argument, value in pairs]
        return ArgumentChecker(self.program).sizes(read)

    def code(self, arguments: Sequence[Any], known: Mapping[str, int], results: Sequence[Any]) -> int:
        """Call the function, which fills the results, and return its value."""
        passed: list[Any] = []
        for argument, value in zip(self.program.arguments, arguments, strict=True):
            if argument.kind == "integer":
                passed.append(int(value))
            elif argument.shape or argument.dtype == "real":
                passed.append(np.array(value, np.int64 if argument.dtype == "integer" else self.dtype, order="C"))
            else:
                passed.append(int(value))
        passed += [known[name] for name in self.sizes]
        integers = [a.name for a in self.program.arguments if a.kind == "integer"]
        sizes = [known[name] for name in (*integers, *self.sizes)]
        if Function.calls is not None:
            Function.calls.append((self.name, passed, sizes, results))
        return call(self.library, self.name, passed, sizes, results)

    def __call__(self, *arguments: Any) -> list[Any]:
        """The results; an `AssertionError` for another return code than 0."""
        known = self.known(arguments)
        shapes = [[form.evaluate(known) for form in output.shape] for output in self.program.outputs]
        results = [np.full(shape, np.nan, self.dtype) for shape in shapes]
        code = self.code(arguments, known, results)
        if code == 5:
            raise NotInCError("the file does not know whether these sizes fit: code 5")
        assert code == 0, f"code {code}"
        return results
