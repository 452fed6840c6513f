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
import json
import os
import pickle
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from sympy_tensordiff.codegen.emit.base import signed_text
from sympy_tensordiff.codegen.emit.driver import LAPACK_IMPORT
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
    """The C structure ``PyMethodDef``, which describes a compiled function to Python. It must exist as long as the
    function.
    """

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


@functools.cache
def _binding() -> Any:
    """Return the module ``llvmlite.binding``, initialised such that compiled code can call the functions of Python's C
    API. Raise UnavailableError if LLVM cannot be used here.
    """
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


def _linalg_module(name: str, public: str) -> ModuleType:
    """Return the extension module ``name`` of ``scipy.linalg``, loaded alone, since the whole package takes 0.1 s to
    import.

    If the package is imported already or has no such module, return its module ``public``, which has the same
    functions.
    """
    full = f"scipy.linalg.{name}"
    folder = Path(importlib.import_module("scipy").__file__ or "").parent / "linalg"
    spec = None if "scipy.linalg" in sys.modules else PathFinder.find_spec(full, [str(folder)])
    if spec is None or spec.loader is None:
        return importlib.import_module(f"scipy.linalg.{public}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(full, None)  # a later import puts it into ``scipy.linalg``
    return module


@functools.cache
def _load_blas() -> None:
    """Register the symbols of SciPy's BLAS for compiled code."""
    table = _linalg_module("cython_blas", "cython_blas").__pyx_capi__
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for name in ("dgemm", "dgemv", "ddot", "sgemm", "sgemv", "sdot"):
        _binding().add_symbol(f"blas_{name}", pointer_of(table[name], name_of(table[name])))


def target(dtype: np.dtype[Any]) -> Target:
    """Return the properties of LLVM modules on this machine for results of a dtype (a `Target`): the number type,
    whether vectors are wide, the size of the header of array objects, and whether accesses are checked.
    """
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
    for passes in (first, builder.getModulePassManager()):
        passes.run(module, builder)
        with contextlib.suppress(AttributeError):  # llvmlite 0.50 does not free them: 120 KiB for each module
            llvm.newpassmanagers.NewPassManager._dispose(passes)
            passes.detach()
    return module


def compiled(text: str, functions: Mapping[str, tuple[str, str]]) -> bytes:
    """Return the object code of an LLVM text, with the user's ``functions`` linked in."""
    machine = _machine()
    code: bytes = machine.emit_object(optimised(text, functions, machine))
    return code


@dataclass(frozen=True)
class ObjectCode:
    """The compiled object code of a module, the names of its entry points and of the external functions that it calls,
    and the text of its Python driver ("" without one).
    """

    code: bytes
    entries: tuple[str, ...]
    called: tuple[str, ...]
    driver: str = ""

    def content(self, key: str) -> bytes:
        """Serialise the compiled functions for a file: a payload of one line of JSON (names, driver text) and the
        object code, preceded by the SHA-256 hash of `key` and the payload.
        """
        rest = json.dumps([self.entries, self.called, self.driver]).encode() + b"\n" + self.code
        return hashlib.sha256(key.encode() + rest).digest() + rest

    @classmethod
    def of_content(cls, key: str, content: bytes) -> ObjectCode:
        """Return the object code from a file's bytes; raise ValueError if they are damaged or have another key."""
        if hashlib.sha256(key.encode() + content[32:]).digest() != content[:32]:
            raise ValueError("the content has another hash")
        line, _, code = content[32:].partition(b"\n")
        entries, called, driver = json.loads(line)
        return cls(code, tuple(entries), tuple(called), driver)


_recent: dict[str, ObjectCode] = {}
"""The code of the latest requests, by its keys: the same expression is often compiled again."""


def _code_of(key: str, make: Callable[[], ObjectCode], on_disk: bool) -> ObjectCode:
    """Return the object code stored in memory or on disk under ``key``, a text of everything that it depends on. If
    there is none, or it is damaged, call ``make`` to compile it, and store it.
    """
    found = _recent.pop(key, None) or (_code_on_disk(key, make) if on_disk and not is_off() else make())
    _recent[key] = found
    for other in list(_recent)[:-RECENT]:
        _recent.pop(other, None)
    return found


def _code_on_disk(key: str, make: Callable[[], ObjectCode]) -> ObjectCode:
    """Return the object code with a key from disk. If there is none, compile it with ``make``, and store it there."""
    with contextlib.suppress(OSError, RuntimeError):
        path = cache_folder() / f"k_{key}.o"
        with contextlib.suppress(OSError, ValueError):
            return ObjectCode.of_content(key, path.read_bytes())
        found = make()
        with contextlib.suppress(OSError):
            write_bytes(path.parent, path.name, found.content(key))
        return found
    return make()


class Code:
    """Machine code loaded into memory; ``function(name)`` returns one of its entry points as a Python function."""

    def __init__(self, code: bytes) -> None:
        llvm = _binding()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self._methods: list[_Method] = []

    def function(self, name: str) -> Callable[..., Any]:
        """Return the entry point `name` as a Python function; while it exists, the machine code stays loaded."""
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
    fused: Callable[[], Program],
    implementations: Mapping[External, Any],
    dtype: np.dtype[Any],
    parallel: frozenset[str],
    on_disk: bool,
) -> SimpleNamespace:
    """Return the functions of ``program``, for results of the type ``dtype``, compiled by LLVM or loaded from a cache
    (with ``on_disk``, also from that on disk). ``fused`` returns the program with fused kernels, ``implementations``
    maps external functions to the user's, and ``parallel`` names the functions that run on several cores.

    The program with fused kernels is printed only if no code is stored for the program. Raise `UnavailableError` or
    `UnsupportedError` if Numba has to compile the program.
    """
    goal = target(dtype)

    @functools.cache
    def printed() -> ModuleText:
        """Return the text of the LLVM module of the program with fused kernels."""
        return print_llvm(fused(), goal, parallel)

    def make() -> ObjectCode:
        """Compile the module, with the user's functions, and return its object code."""
        one_by_one = enumerate(externals(program))
        functions = {f"user{n}": llvm_text(one, implementations[one], dtype) for n, one in one_by_one}
        return object_code(printed(), functions)

    if implementations:
        return load(make())
    versions = f"{code_versions('llvm')}, {_CODE_MODEL}, {goal}, {sorted(parallel)}, {sorted(program.rules_off)}\n"
    # While this package is debugged, its functions may differ from those in its files.
    is_debugged = os.environ.get(DEBUG) is not None
    seen = printed() if is_debugged else replace(program, search=None, notes=(), laws=(), rules_off=frozenset())
    key = hashlib.sha256(versions.encode() + pickle.dumps(seen, protocol=5)).hexdigest()
    return load(_code_of(key, make, on_disk))


def object_code(module: ModuleText, functions: Mapping[str, tuple[str, str]]) -> ObjectCode:
    """Return a module as object code, with the ``functions`` of the user linked in.

    Raise `UnavailableError` if it calls a function that does not exist, or a function of the user that may raise an
    error.
    """
    text = module.text
    for symbol, (own, name) in functions.items():
        if _may_raise(own, name):
            raise UnavailableError("a function that is supplied may raise an error")
        text = re.sub(rf"@{symbol}(?=\()", f"@{name}", text)
    known = {name for _, name in functions.values()}
    called = sorted(set(re.findall(r"^declare .*@([\w.]+)\(", text, re.MULTILINE)) - known)
    _open_symbols(called)
    return ObjectCode(compiled(text, functions), module.entries, tuple(called), module.driver)


def load(module: ObjectCode) -> SimpleNamespace:
    """Return a namespace with the functions of the compiled ``module``: always ``run`` and, if it has temporaries,
    ``scratch``, which allocates them, and ``run_in`` and ``tables``, which take them as arguments.

    ``tables`` may be None.
    """
    _open_symbols(module.called)
    code = Code(module.code)
    entries = {name: code.function(name) for name in module.entries}
    if module.driver:
        space: dict[str, Any] = {"__name__": "sympy_tensordiff_generated"}
        driver = module.driver
        if f"{LAPACK_IMPORT}\n" in driver:
            driver = driver.replace(LAPACK_IMPORT, "")
            space["lapack"] = _linalg_module("_flapack", "lapack")
        exec(compile(driver, "<sympy_tensordiff>", "exec"), space)
        space.update(entries)
        return SimpleNamespace(run=space["run"])
    run = entries["run"]
    if "scratch" not in entries:
        return SimpleNamespace(run=run)
    size, tables = entries["scratch"], entries.get("tables")

    def allocate_scratch(*values: Any) -> list[np.ndarray[Any, Any]]:
        """Return new arrays for the temporaries of a call with the arguments ``values``: one array, whose length is
        computed by ``size``, the compiled function of the module.
        """
        return [np.empty(size(*values), np.uint8)]

    def run_once(*values: Any) -> None:
        """Run the compiled function with the arguments ``values``, and with temporaries that are allocated for this
        call only.
        """
        arrays = allocate_scratch(*values)
        if tables is not None:
            tables(*values, *arrays)
        run(*values, *arrays)

    return SimpleNamespace(run=run_once, run_in=run, scratch=allocate_scratch, tables=tables)


def _may_raise(own: str, name: str, callers: tuple[str, ...] = ()) -> bool:
    """Return whether the function ``name``, compiled by Numba, can return an error code other than 0, which callers
    have to test. ``own`` is the LLVM text of its module; ``callers`` are functions that are being examined already.
    """
    found = re.search(
        rf"^define [^\n]*@{re.escape(name.removeprefix('cfunc.'))}\(.*?^}}", own, re.MULTILINE | re.DOTALL
    )
    if found is None:
        return True
    for code in set(re.findall(r"^ +ret (.*)", found[0], re.MULTILINE)) - {"i32 0"}:
        call = re.search(
            rf"^ +{re.escape(code.removeprefix('i32 '))} = [a-z ]*call i32 @([\w.]+)\(", found[0], re.MULTILINE
        )
        if call is None or call[1] in (name, *callers) or _may_raise(own, call[1], (name, *callers)):
            return True
    return False


@functools.cache
def _open_process() -> None:
    """Load the symbols of this process into LLVM, so that compiled code can call its functions; this is done once."""
    _binding().create_mcjit_compiler(_binding().parse_assembly(""), _machine())


def _open_symbols(called: Sequence[str]) -> None:
    """Make the external functions `called` by a module known to LLVM's linker.

    Raise UnavailableError if one does not exist in the process: LLVM would end that.
    """
    if "numba_parallel_for" in called:
        start_pool()
    if any(name.startswith("blas_") for name in called):
        _load_blas()
    _open_process()
    for name in called:
        intrinsic = re.fullmatch(r"llvm\.(sin|cos|pow|log2|log10)\.f(32|64)", name)
        if name.startswith("llvm.") and intrinsic is None:
            continue
        symbol = name if intrinsic is None else intrinsic[1] + "f" * (intrinsic[2] == "32")
        if not _binding().address_of_symbol(symbol):
            raise UnavailableError(f"the library of C has no function {symbol}")
