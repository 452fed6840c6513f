"""Machine code of LLVM modules: compiled, kept on disk, loaded, and called by Python without conversions.

An entry of a module takes what Python passes to a built-in function: so it becomes one. The code goes with the last
of its functions.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import os
import re
from collections.abc import Callable, Mapping
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import numpy as np

from sympy_tensordiff.codegen.emit.llvm_driver import ModuleText, Target
from sympy_tensordiff.codegen.run.cache import OFF, VARIABLE, cache_folder, write_bytes
from sympy_tensordiff.codegen.run.threads import start_pool

DEBUG = "SYMPY_TENSORDIFF_LLVM"
"""The environment variable that is ``verify`` where LLVM's verifier is to look at each module."""

_FASTCALL = 0x80


class _Method(ctypes.Structure):
    """What Python knows of a built-in function."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


@functools.cache
def _binding() -> Any:
    """LLVM, with what compiled code calls of Python."""
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in (
        "PyEval_SaveThread", "PyEval_RestoreThread", "PyFloat_AsDouble", "PyLong_AsLongLong", "PyLong_FromLongLong",
        "PyErr_SetString", "PyErr_NoMemory",
    ):  # fmt: skip
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    llvm.add_symbol("PyExc_ValueError", ctypes.addressof(ctypes.c_void_p.in_dll(ctypes.pythonapi, "PyExc_ValueError")))
    return llvm


@functools.cache
def _load_blas() -> None:
    """Let compiled code find SciPy's BLAS."""
    table = importlib.import_module("scipy.linalg.cython_blas").__pyx_capi__
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for name in ("dgemm", "dgemv", "ddot", "sgemm", "sgemv", "sdot"):
        _binding().add_symbol(f"blas_{name}", pointer_of(table[name], name_of(table[name])))


@functools.cache
def target(dtype: np.dtype[Any]) -> Target:
    """What texts depend on here, for a type of numbers."""
    is_wide = bool(_binding().get_host_cpu_features().get("avx512f", False))
    return Target("float" if dtype == np.float32 else "double", is_wide, object.__basicsize__)


@functools.cache
def _processor() -> tuple[str, str]:
    llvm = _binding()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine() -> Any:
    name, features = _processor()
    found = _binding().Target.from_default_triple()
    return found.create_target_machine(cpu=name, features=features, opt=3, reloc="pic", codemodel="small")


def compiled(text: str) -> bytes:
    """The object code of a text."""
    llvm = _binding()
    module = llvm.parse_assembly(text)
    if os.environ.get(DEBUG) == "verify":
        module.verify()
    machine = _machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(3)
    options.loop_vectorization = options.slp_vectorization = options.loop_interleaving = options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    # Conditions that are simplified before branches are merged: the row stencil takes 0.6 of the time.
    first = llvm.create_new_module_pass_manager()
    first.add_sroa_pass()
    first.add_instruction_combine_pass()
    first.run(module, builder)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def code_of(text: str, on_disk: bool = True) -> bytes:
    """The object code of a text, from disk where it is there undamaged."""
    if not on_disk or os.environ.get(VARIABLE) == OFF:
        return compiled(text)
    version = f"llvmlite {metadata.version('llvmlite')} {_binding().llvm_version_info}"
    digest = hashlib.sha256("\n".join([version, *_processor(), text]).encode()).hexdigest()
    with contextlib.suppress(OSError, RuntimeError):
        folder = cache_folder()
        path = folder / f"k_{digest}.o"
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                return content[32:]
        code = compiled(text)
        write_bytes(folder, path.name, hashlib.sha256(code).digest() + code)
        return code
    return compiled(text)


class Code:
    """Loaded machine code, with its entries as functions."""

    def __init__(self, code: bytes, functions: tuple[Any, ...] = ()) -> None:
        llvm = _binding()
        self._functions = functions
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self._methods: list[_Method] = []

    def function(self, name: str) -> Callable[..., Any]:
        """An entry as a function, which keeps this object."""
        method = _Method(name.encode(), self._engine.get_function_address(name), _FASTCALL, None)
        self._methods.append(method)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        found: Callable[..., Any] = make(ctypes.addressof(method), self, None)
        return found


def load(module: ModuleText, functions: Mapping[str, Any], on_disk: bool = True) -> SimpleNamespace:
    """What runs a module; ``functions`` are the user's by their symbols, each with its ``address``."""
    text = module.text
    for symbol, function in functions.items():
        text = _with_address(text, symbol, function.address)
    if "numba_parallel_for" in text:
        start_pool()
    if "gemm(" in text or "dot(" in text:
        _load_blas()
    code = Code(code_of(text, on_disk), tuple(functions.values()))
    entries = {name: code.function(name) for name in module.entries}
    if module.driver:
        space: dict[str, Any] = {"__name__": "sympy_tensordiff_generated"}
        exec(compile(module.driver, "<sympy_tensordiff>", "exec"), space)  # noqa: S102
        space.update(entries)
        return SimpleNamespace(run=space["run"])
    run = entries["run"]
    if "scratch" not in entries:
        return SimpleNamespace(run=run)
    size, tables = entries["scratch"], entries.get("tables")

    def scratch(*values: Any) -> list[np.ndarray[Any, Any]]:
        return [np.empty(size(*values), np.uint8)]

    def once(*values: Any) -> None:
        arrays = scratch(*values)
        if tables is not None:
            tables(*values, *arrays)
        run(*values, *arrays)

    return SimpleNamespace(run=once, run_in=run, scratch=scratch, tables=tables)


def _with_address(text: str, symbol: str, address: int) -> str:
    """A text in which a function of the user's is that at an address."""
    found = re.search(rf"declare (\w+) @{symbol}\((.*)\)", text)
    if found is None:
        return text
    kinds = found[2].split(", ")
    names = ", ".join(f"{kind} %x{n}" for n, kind in enumerate(kinds))
    body = f"  %r = call {found[1]} inttoptr (i64 {address} to ptr)({names})\n  ret {found[1]} %r"
    return text.replace(found[0], f"define internal {found[1]} @{symbol}({names}) alwaysinline {{\n{body}\n}}")
