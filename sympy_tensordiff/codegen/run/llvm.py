"""Machine code of LLVM modules: compiled, cached on disk, loaded, and called as built-in functions.

An entry point has the signature of a built-in function of Python, and becomes one. The code is freed with the last of
its functions.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from sympy_tensordiff.codegen.emit.base import signed_text
from sympy_tensordiff.codegen.emit.llvm_driver import ModuleText, Target, print_llvm
from sympy_tensordiff.codegen.ir.programs import Program, Recurrence
from sympy_tensordiff.codegen.ir.scalars import External, Number
from sympy_tensordiff.codegen.ir.walk import externals, scalars
from sympy_tensordiff.codegen.lower.externals import llvm_text
from sympy_tensordiff.codegen.run.cache import cache_folder, code_versions, is_off, write_bytes
from sympy_tensordiff.codegen.run.modules import RECENT
from sympy_tensordiff.codegen.run.threads import start_pool
from sympy_tensordiff.lazy import numpy as np

DEBUG = "SYMPY_TENSORDIFF_LLVM"
"""The environment variable: with ``verify``, LLVM's verifier checks each module; with ``check``, compiled code checks
all indices, too; with ``dump``, modules are printed.
"""

_PYTHON = [
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyFloat_AsDouble",
    "PyLong_AsLongLong",
    "PyLong_FromLongLong",
    "PyErr_SetString",
    "PyErr_NoMemory",
]
_FASTCALL = 0x80


class UnavailableError(Exception):
    """An error: LLVM cannot compile a program on this machine, for the reason in its message."""


class _Method(ctypes.Structure):
    """The C structure that describes a built-in function; it must outlive the function."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


@functools.cache
def _binding() -> Any:
    """Return the LLVM binding with the symbols of Python that compiled code calls, or raise UnavailableError."""
    llvm = importlib.import_module("llvmlite.binding")
    if not hasattr(llvm, "create_new_module_pass_manager") or llvm.llvm_version_info < (15,):
        raise UnavailableError(f"llvmlite {metadata.version('llvmlite')} is too old, 0.45 is needed")
    probe, head = np.zeros((1, 3)), object.__basicsize__
    if (
        sys.implementation.name != "cpython"
        or ctypes.c_void_p.from_address(id(probe) + head).value != probe.ctypes.data
    ):
        raise UnavailableError("arrays of this Python have an unknown layout")
    with contextlib.suppress(RuntimeError):  # newer versions do so by themselves
        llvm.initialize_native_target()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in _PYTHON:
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    llvm.add_symbol("PyExc_ValueError", ctypes.addressof(ctypes.c_void_p.in_dll(ctypes.pythonapi, "PyExc_ValueError")))
    return llvm


def _cython_blas() -> ModuleType:
    """Return SciPy's module of BLAS functions, without the rest of ``scipy.linalg``, which takes 0.2 s to import."""
    name = "scipy.linalg.cython_blas"
    folder = Path(importlib.import_module("scipy").__file__ or "").parent / "linalg"
    spec = None if "scipy.linalg" in sys.modules else PathFinder.find_spec(name, [str(folder)])
    if spec is None or spec.loader is None:
        return importlib.import_module(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(name, None)  # a later import puts it into ``scipy.linalg``
    return module


@functools.cache
def _load_blas() -> None:
    """Register the symbols of SciPy's BLAS for compiled code."""
    table = _cython_blas().__pyx_capi__
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for name in ("dgemm", "dgemv", "ddot", "sgemm", "sgemv", "sdot"):
        _binding().add_symbol(f"blas_{name}", pointer_of(table[name], name_of(table[name])))


def target(dtype: np.dtype[Any]) -> Target:
    """Return the target of LLVM modules for results of a dtype on this machine."""
    is_wide = "+avx512f" in _processor()[1]
    is_checked = os.environ.get(DEBUG) == "check"
    return Target("float" if dtype == np.float32 else "double", is_wide, object.__basicsize__, is_checked)


_CODE_MODEL = "jitdefault"
"""Addresses of 64 bits: code and its constants may be more than 2 GiB apart if large arrays are between them.

With the model ``small``, LLVM aborts the process then; on one core, eight kernels take 1.01 of their time with it.
"""


@functools.cache
def _processor() -> tuple[str, str]:
    """Return the name and the features of the processor."""
    llvm = _binding()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine() -> Any:
    """Return LLVM's target machine for this processor."""
    name, features = _processor()
    found = _binding().Target.from_default_triple()
    return found.create_target_machine(cpu=name, features=features, opt=3, reloc="pic", codemodel=_CODE_MODEL)


# ---------------------------------------------------------------------------- object code


def optimised(text: str, functions: Mapping[str, tuple[str, str]], machine: Any) -> Any:
    """Return the LLVM module parsed from ``text`` and optimised for ``machine``; user ``functions`` are linked in.

    ``functions`` are the functions of the user by symbol, each as the text of a module and its name there.
    """
    llvm, debug = _binding(), os.environ.get(DEBUG)
    if debug == "dump":
        print(text)
    module = llvm.parse_assembly(text)
    for own, name in dict.fromkeys(functions.values()):
        other = llvm.parse_assembly(own)
        for defined in [*other.functions, *other.global_variables]:
            if not defined.is_declaration and not defined.name.startswith("llvm."):
                defined.linkage = "external" if defined.name == name else "internal"
        module.link_in(other)
        module.get_function(name).linkage = "internal"
    if debug in ("verify", "check", "dump"):
        module.verify()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(3)
    # With vectors of straight-line code, LLVM takes 4 % longer, and kernels are not faster.
    options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    # Conditions that are simplified before branches are merged: the row stencil takes 0.6 of the time.
    first = llvm.create_new_module_pass_manager()
    first.add_sroa_pass()
    first.add_instruction_combine_pass()
    first.run(module, builder)
    builder.getModulePassManager().run(module, builder)
    return module


def compiled(text: str, functions: Mapping[str, tuple[str, str]]) -> bytes:
    """Return the object code of an LLVM text, with the user's ``functions`` linked in."""
    machine = _machine()
    code: bytes = machine.emit_object(optimised(text, functions, machine))
    return code


@functools.lru_cache(RECENT)
def _code_of(text: str, on_disk: bool) -> bytes:
    """Return the object code of a text, read from disk if it is stored there undamaged."""
    if not on_disk or is_off():
        return compiled(text, {})
    digest = hashlib.sha256(f"{code_versions('llvm')}, {_CODE_MODEL}\n{text}".encode()).hexdigest()
    with contextlib.suppress(OSError, RuntimeError):
        path = cache_folder() / f"k_{digest}.o"
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                return content[32:]
        code = compiled(text, {})
        with contextlib.suppress(OSError):
            write_bytes(path.parent, path.name, hashlib.sha256(code).digest() + code)
        return code
    return compiled(text, {})


class Code:
    """Loaded machine code, whose entry points are functions."""

    def __init__(self, code: bytes) -> None:
        llvm = _binding()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self._methods: list[_Method] = []

    def function(self, name: str) -> Callable[..., Any]:
        """Return an entry point as a function, which keeps this object alive."""
        method = _Method(name.encode(), self._engine.get_function_address(name), _FASTCALL, None)
        self._methods.append(method)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        found: Callable[..., Any] = make(ctypes.addressof(method), self, None)
        return found


# ---------------------------------------------------------------------------- functions of a module


def check_constants(program: Program) -> None:
    """Raise UnsupportedError if a constant of a program overflows double precision."""
    for node in (node for kernel in program.nests for node in scalars(kernel.body)):
        if isinstance(node, Number) and node.value == node.value:
            signed_text(node.value)
    for step in program.kernels:
        if isinstance(step, Recurrence):
            check_constants(step.body)


def load_program(
    program: Program,
    implementations: Mapping[External, Any],
    dtype: np.dtype[Any],
    parallel: frozenset[str],
    on_disk: bool,
) -> SimpleNamespace:
    """Return the functions of a program for results of a dtype; ``implementations`` are the functions of the user.

    Raise `UnavailableError` or `UnsupportedError` if Numba has to compile the program.
    """
    text = print_llvm(program, target(dtype), parallel)
    functions = {f"user{n}": llvm_text(one, implementations[one], dtype) for n, one in enumerate(externals(program))}
    return load(text, functions, on_disk)


def load(module: ModuleText, functions: Mapping[str, tuple[str, str]], on_disk: bool = True) -> SimpleNamespace:
    """Load the compiled code of a module, and return its functions ``run``, ``run_in``, ``scratch`` and ``tables``;
    those that it lacks are left out.

    Raise `UnavailableError` if it calls a function that does not exist, or a function of the user that may raise an
    error.
    """
    text = module.text
    if "@numba_parallel_for" in text:
        start_pool()
    if "@blas_" in text:
        _load_blas()
    for symbol, (own, name) in functions.items():
        if _may_raise(own, name):
            raise UnavailableError("a function that is supplied may raise an error")
        text = re.sub(rf"@{symbol}(?=\()", f"@{name}", text)
    _check_symbols(text, {name for _, name in functions.values()})
    code = Code(compiled(text, functions) if functions else _code_of(text, on_disk))
    entries = {name: code.function(name) for name in module.entries}
    if module.driver:
        space: dict[str, Any] = {"__name__": "sympy_tensordiff_generated"}
        exec(compile(module.driver, "<sympy_tensordiff>", "exec"), space)
        space.update(entries)
        return SimpleNamespace(run=space["run"])
    run = entries["run"]
    if "scratch" not in entries:
        return SimpleNamespace(run=run)
    size, tables = entries["scratch"], entries.get("tables")

    def scratch(*values: Any) -> list[np.ndarray[Any, Any]]:
        """Return newly allocated memory for the temporaries of a call with these arguments."""
        return [np.empty(size(*values), np.uint8)]

    def run_once(*values: Any) -> None:
        """Run the compiled function with newly allocated temporaries."""
        arrays = scratch(*values)
        if tables is not None:
            tables(*values, *arrays)
        run(*values, *arrays)

    return SimpleNamespace(run=run_once, run_in=run, scratch=scratch, tables=tables)


def _may_raise(own: str, name: str) -> bool:
    """Return whether a user's function, as compiled by Numba, can return an error code, so that callers have to test
    it.
    """
    found = re.search(rf"^define [^\n]*@{name.removeprefix('cfunc.')}\(.*?^}}", own, re.MULTILINE | re.DOTALL)
    return found is None or set(re.findall(r"^ +ret (.*)", found[0], re.MULTILINE)) != {"i32 0"}


@functools.cache
def _open_process() -> None:
    """Load the symbols of this process into LLVM, so that compiled code can call its functions; this is done once."""
    _binding().create_mcjit_compiler(_binding().parse_assembly(""), _machine())


def _check_symbols(text: str, known: set[str]) -> None:
    """Raise UnavailableError if a function declared in ``text`` does not exist in the process: LLVM would abort."""
    _open_process()
    called = set(re.findall(r"^declare .*@([\w.]+)\(", text, re.MULTILINE)) - known
    for name in sorted(called):
        intrinsic = re.fullmatch(r"llvm\.(sin|cos|pow|log2|log10)\.f(32|64)", name)
        if name.startswith("llvm.") and intrinsic is None:
            continue
        symbol = name if intrinsic is None else intrinsic[1] + "f" * (intrinsic[2] == "32")
        if not _binding().address_of_symbol(symbol):
            raise UnavailableError(f"the library of C has no function {symbol}")
