"""Programs as CUDA C: compiled as C++, and run with blocks and threads on the processor by `cuda_on_cpu`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import in_c
import numpy as np

from sympy_tensordiff.codegen.emit.c import COptions, CSource
from sympy_tensordiff.codegen.emit.cuda_c import print_cuda_c
from sympy_tensordiff.codegen.ir.programs import Program
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import NotInCError

COMPILER = shutil.which("g++") or shutil.which("clang++")
FLAGS = ("-x", "c++", "-std=c++17", "-isystem", str(Path(__file__).parent / "cuda_on_cpu"), "-U_FORTIFY_SOURCE")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-function")
TRAPS = ("-fsanitize=bounds,signed-integer-overflow", "-fsanitize-undefined-trap-on-error")
MARGIN = 64


def source(program: Program, name: str, **options: Any) -> CSource:
    return print_cuda_c(program, COptions(name=name, **options))


def sources(programs: Mapping[str, Program], **options: Any) -> tuple[dict[str, CSource], dict[str, str]]:
    """The files of programs, and why CUDA C refuses others."""
    found, refused = {}, {}
    for name, program in programs.items():
        try:
            found[name] = source(program, name, **options)
        except NotInCError as error:
            refused[name] = str(error)
    return found, refused


def build(files: Mapping[str, str], folder: Path, *flags: str) -> ctypes.CDLL:
    """The library of several files, which traps where an index leaves an array in shared memory.

    The headers are read once: each file is a namespace of one unit.
    """
    main = ["#include <cuda_runtime.h>", "#include <math.h>", "#include <stddef.h>", "#include <stdint.h>"]
    for name, text in files.items():
        (folder / f"{name}.cu").write_text(text)
        main += [f"namespace of_{name} {{", f'#include "{name}.cu"', "}"]
    number = len(list(folder.iterdir()))
    unit, library = folder / f"unit_{number}.cpp", folder / f"lib_{number}.so"
    unit.write_text("\n".join(main))
    command = [COMPILER, *FLAGS, *WARNINGS, *TRAPS, *flags, "-shared", "-fPIC", "-o", library, unit]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert not done.returncode, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def compiled(arguments: Any, expressions: Any, folder: Path, name: str, dtype: str, **options: Any) -> Function:
    """The function that `lambdify` would return, through a file in CUDA C++; raise NotInCError where there is none."""
    program = build_program(arguments, expressions, library=False, rows=False, **options)
    return Function(build({name: source(program, name, dtype=dtype)}, folder, "-O0"), name, program, dtype)


class Function(in_c.Function):
    """A function of a library; arrays have margins, which it must neither use nor change.

    ``order`` is that in which the threads of a block run: 1 forwards, -1 backwards.
    """

    order = 1

    def code(self, arguments: Sequence[Any], known: Mapping[str, int], results: Sequence[Any]) -> int:
        """Call the function, which fills the results, and return its value."""
        passed: list[Any] = []
        for argument, value in zip(self.program.arguments, arguments, strict=True):
            if argument.kind == "integer" or (argument.dtype == "integer" and not argument.shape):
                passed.append(ctypes.c_ssize_t(int(value)))
            elif argument.shape:
                own = np.array(value, np.int64 if argument.dtype == "integer" else self.dtype, order="C")
                passed.append(own)
            else:
                passed.append((ctypes.c_float if self.dtype == np.float32 else ctypes.c_double)(float(value)))
        passed += [ctypes.c_ssize_t(known[name]) for name in self.sizes]
        integers = [a.name for a in self.program.arguments if a.kind == "integer"]
        count = getattr(self.library, f"{self.name}_scratch")
        count.restype = ctypes.c_ssize_t
        entries = count(*(ctypes.c_ssize_t(known[name]) for name in (*integers, *self.sizes)))
        passed += [*results, np.full(entries, np.nan, self.dtype)]
        guarded = [_guarded(value) if isinstance(value, np.ndarray) else value for value in passed]
        texts = [ctypes.c_void_p(v[MARGIN:].ctypes.data) if isinstance(v, np.ndarray) else v for v in guarded]
        self.library.set_order_of_threads(self.order)
        code = int(getattr(self.library, self.name)(*texts, None))
        for value, own in zip(passed, guarded, strict=True):
            if isinstance(value, np.ndarray):
                start, end = own[:MARGIN], own[MARGIN + value.size :]
                assert np.array_equal(start, _margin(own), equal_nan=True), "written before an array"
                assert np.array_equal(end, _margin(own), equal_nan=True), "written behind an array"
        for result, own in zip(passed[-1 - len(results) : -1], guarded[-1 - len(results) : -1], strict=True):
            result[...] = own[MARGIN : MARGIN + result.size].reshape(result.shape)
        return code


def _margin(array: Any) -> Any:
    return np.full(MARGIN, np.nan if array.dtype.kind == "f" else 2**60, array.dtype)


def _guarded(array: Any) -> Any:
    """The entries of an array between margins."""
    return np.concatenate([_margin(array), array.reshape(-1), _margin(array)])
