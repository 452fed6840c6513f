"""Kernels as machine code of NVIDIA's devices, without one: compiled by Numba, assembled, and disassembled again."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import inspect
import re
import subprocess
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sympy_tensordiff.codegen.ir.programs import Program


def tools() -> Path | None:
    """The folder with NVIDIA's assembler, and with what takes its results apart."""
    if importlib.util.find_spec("numba_cuda") is None or importlib.util.find_spec("nvidia") is None:
        return None
    places = importlib.util.find_spec("nvidia").submodule_search_locations
    return next((path.parent for place in places for path in Path(place).glob("cu*/bin/ptxas")), None)


def compiler_of_kernels() -> ctypes.CDLL | None:
    """NVRTC, from NVIDIA's wheel or an installation of CUDA; None where there is none."""
    spec = importlib.util.find_spec("nvidia")
    places = [path for place in (spec.submodule_search_locations if spec else ()) for path in Path(place).rglob("lib*")]
    found = [path for path in places if re.fullmatch(r"libnvrtc\.so\.\d+", path.name)]
    name = str(found[0]) if found else ctypes.util.find_library("nvrtc")
    return ctypes.CDLL(name) if name else None


def compile_kernels(library: ctypes.CDLL, text: str, architecture: str = "sm_90") -> tuple[int, str]:
    """The return code and the log of NVRTC for a file in CUDA C++."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert not library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(f"-arch={architecture}".encode())
    code = library.nvrtcCompileProgram(program, 1, options)
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log.value.decode().strip()


@dataclass
class Machine:
    """The machine code of one kernel."""

    ptx: str
    report: str
    """What the assembler tells of registers."""
    code: str

    @property
    def registers(self) -> int:
        return int(re.search(r"Used (\d+) registers", self.report)[1])

    @property
    def is_spilled(self) -> bool:
        return "0 bytes spill stores, 0 bytes spill loads" not in self.report

    @property
    def has_doubles(self) -> bool:
        return re.search(r"\.f64\b", self.ptx) is not None

    @property
    def has_atomics(self) -> bool:
        return re.search(r"\b(atom|red)\.", self.ptx) is not None

    @property
    def has_local_memory(self) -> bool:
        return re.search(r"\b(LDL|STL)\b", self.code) is not None

    def reads(self, dtype: str) -> list[tuple[int, int]]:
        """The entries of global and of shared memory that each innermost loop with reads, or a kernel without one,
        reads. One instruction may read several entries of shared memory.
        """
        words = [_word(found) for line in self.code.splitlines() if (found := _INSTRUCTION.search(line))]
        bits = {"LDS": 32, "LDS64": 64, "LDS128": 128}
        found = [
            (
                sum(name.startswith("LDG") for name in names),
                sum(bits.get(name, 0) // (8 * np.dtype(dtype).itemsize) for name in names),
            )
            for names in (*self._innermost_loops(), words)
        ]
        return [pair for pair in found[:-1] if any(pair)] or found[-1:]

    def innermost(self) -> tuple[int, int]:
        """The numbers of loads and of integer instructions in the innermost loop with the most loads.

        One that stores goes over the entries: it counts where sums are unrolled whole, and not where there is a loop
        of its own for sums of no values.
        """
        found = [names for names in self._innermost_loops() if any(name.startswith("LDG") for name in names)]
        counts = [
            (sum(name.startswith("LDG") for name in names), sum(name.startswith(_INTEGER) for name in names))
            for names in [names for names in found if "STG" not in names] or found
        ]
        return max(counts, default=(0, 0))

    def _innermost_loops(self) -> Iterator[list[str]]:
        names: list[str] = []
        labels: dict[str, int] = {}
        ends: list[tuple[int, int]] = []
        for line in self.code.splitlines():
            if label := re.match(r"\s*(\.L_\w+):", line):
                labels[label[1]] = len(names)
            if found := _INSTRUCTION.search(line):
                target = re.search(r"\.L_\w+", found[2])
                if found[1] == "BRA" and target and target[0] in labels:
                    ends.append((labels[target[0]], len(names)))
                names.append(_word(found))
        for start, end in ends:
            if not any((a, b) != (start, end) and start <= a and b <= end for a, b in ends):
                yield names[start : end + 1]


def _word(found: re.Match[str]) -> str:
    """The name of an instruction; of a read of shared memory with its bits, if these are not 32."""
    wide = re.match(r"\.(?:U\.)?(64|128)\b", found[2]) if found[1] == "LDS" else None
    return found[1] + (wide[1] if wide else "")


_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)([^;]*);")

# Everything that computes or moves integers, addresses and conditions.
_INTEGER = (
    "IADD", "IMAD", "IMUL", "IABS", "IMNMX", "ISETP", "LEA", "SHF", "SHL", "SHR", "LOP", "SEL", "MOV", "PRMT", "VIADD",
    "VIMNMX", "PLOP", "R2UR", "CS2R", "S2R", "BMSK", "SGXT", "I2I", "I2F", "F2I", "R2P", "P2R", "UIADD", "UIMAD",
    "ULEA", "USHF", "ULOP", "UISETP", "USEL", "UMOV", "UPRMT", "UIMNMX", "UPLOP", "UVIADD", "USGXT", "UBMSK",
)  # fmt: skip


def kernels(module: ModuleType) -> list[str]:
    """The names of the kernels of a generated module."""
    found = [name for name, value in vars(module).items() if hasattr(value, "targetoptions")]
    return [name for name in found if not vars(module)[name].targetoptions.get("device")]


def assemble(
    module: ModuleType, program: Program, kernel: str, dtype: str, capability: tuple[int, int], folder: Path
) -> Machine:
    """The machine code of one kernel of a module for one element type and architecture."""
    from numba import cuda
    from numba.cuda import dispatcher

    function = getattr(module, kernel).py_func
    with pytest.MonkeyPatch.context() as patch:
        # Functions called by a kernel are compiled for the current device; there is none.
        patch.setattr(dispatcher, "get_current_device", lambda: types.SimpleNamespace(compute_capability=capability))
        ptx, _ = cuda.compile_ptx(function, _signature(module, program, function, dtype), cc=capability)
    source, cubin, target = folder / "kernel.ptx", folder / "kernel.cubin", f"-arch=sm_{capability[0]}{capability[1]}"
    source.write_text(ptx)
    assembler = tools()
    done = subprocess.run([assembler / "ptxas", target, "-v", source, "-o", cubin], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code = subprocess.run([assembler / "nvdisasm", "-c", cubin], capture_output=True, text=True, check=True).stdout
    return Machine(ptx, done.stderr, code)


def _signature(module: ModuleType, program: Program, function: Any, dtype: str) -> tuple[Any, ...]:
    from numba import types as numba_types

    real = getattr(numba_types, dtype)
    text = inspect.getsource(function)
    subscripted = {*re.findall(r"(\w+)\[", text), *re.findall(r"atomic\.add\((\w+),", text)}
    # What Python or the module calls by a name, too, has an underscore more.
    arguments = {argument.name: argument for argument in program.arguments}
    found = []
    for name in inspect.signature(function).parameters:
        argument = arguments.get(name) or arguments.get(name.rstrip("_"))
        is_integer = argument.dtype == "integer" or argument.kind == "integer" if argument else name not in subscripted
        entry = numba_types.int64 if is_integer else real
        found.append(numba_types.Array(entry, 1, "C") if name in subscripted else entry)
    return tuple(found)
