"""Generated modules on disk: written once per text, imported from there.

A file is needed: Numba keeps its compiled code beside it, and tracebacks show its lines. Files
are named after a hash of their text and of what compiled code depends on besides it, so that they
never change; the folder belongs to the user alone, since what is in it is executed. A module is
made of the text that was asked for, which the file merely has to show. Several processes may
write at once: each file appears as a whole, and a module is compiled for one type of numbers, so
that what they write is the same.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib
import importlib.abc
import importlib.util
import itertools
import linecache
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import threading
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

VARIABLE = "SYMPY_TENSORDIFF_CACHE"


OFF = "off"
"""The value of the variable with which nothing is kept on disk."""

_count = itertools.count(1)
_lock = threading.Lock()


def load_source(source: str, versions: str, own: bool = False, on_disk: bool = True) -> ModuleType:
    """The module of ``source``; ``versions`` says what compiled code depends on besides the text.

    ``own``: a module that nobody else gets, because more will be put into it than its text says. One that is not
    ``on_disk`` is compiled without a file.
    """
    own = own or not on_disk
    digest = hashlib.sha256(f"{versions}\n{source}".encode()).hexdigest()
    name = f"sympy_tensordiff_generated.k_{digest}" + (f"_{next(_count)}" if own else "")
    with _lock:
        if (loaded := sys.modules.get(name)) is not None:
            return loaded
        folders = (cache_folder, temporary_folder) if on_disk and os.environ.get(VARIABLE) != OFF else ()
        for folder in folders:
            # Numba has no place for compiled code: RuntimeError.
            with contextlib.suppress(OSError, RuntimeError):
                path = _write(folder(), f"k_{digest}.py", source)
                _code_folder(path.parent)
                loader = _TextLoader(source, str(path))
                return _import(name, importlib.util.spec_from_file_location(name, path, loader=loader))
        # Numba has no place for compiled code either.
        text, place = source.replace("cache=True, ", ""), f"<{name}>"
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
        return _import(name, importlib.util.spec_from_loader(name, _TextLoader(text, place), origin=place))


@functools.cache
def code_versions(backend: str) -> str:
    """What compiled code depends on besides its text."""
    packages = ["sympy-tensordiff", "numpy"] + ([] if backend == "numpy" else ["numba", "llvmlite"])
    found = [f"Python {sys.version} on {platform.machine()}"]
    if backend in ("numba", "llvm"):
        llvm = importlib.import_module("llvmlite.binding")
        found.append(f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}")
    for package in packages:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} from source")
    return ", ".join(found)


def clear_cache() -> int:
    """Remove the generated modules and the compiled code from disk; the number of files removed.

    What this process has loaded goes on working. The folder is that of the environment variable
    ``SYMPY_TENSORDIFF_CACHE``, else ``sympy_tensordiff`` in the user's folder for caches; with the
    value ``off`` nothing is kept on disk, and nothing is removed. Files of other kinds stay.

    Returns
    -------
    int
        The number of files removed.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.clear_cache()  # doctest: +SKIP
    42
    """
    removed = 0
    if os.environ.get(VARIABLE) == OFF:
        return removed
    folder = cache_folder()
    for path in (*folder.iterdir(), *_code_folder(folder).iterdir()):
        if _OURS.match(path.name) and path.is_file():
            path.unlink(missing_ok=True)
            removed += 1
    return removed


_OURS = re.compile(r"\.?k_[0-9a-f]{64}\.")


def cache_folder() -> Path:
    """The user's own folder for generated modules, created where it does not exist."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        folder = Path(chosen)
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "sympy_tensordiff"
    return _private(folder)


def _code_folder(folder: Path) -> Path:
    """Where Numba keeps compiled code of modules in ``folder``, which nobody else can write either."""
    return _private(folder / "__pycache__")


def _private(folder: Path) -> Path:
    """A folder that nobody else can write, created where it does not exist."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        raise PermissionError(f"{folder} can be written by others")
    return folder


@functools.cache
def temporary_folder() -> Path:
    """A folder for this process only, removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="sympy_tensordiff_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _write(folder: Path, name: str, source: str) -> Path:
    """The path of a file with this text; other processes see all of it or nothing."""
    path = folder / name
    try:
        if path.read_text(encoding="utf-8") == source:
            return path
    except (OSError, UnicodeDecodeError):
        pass
    return write_bytes(folder, name, source.encode())


def write_bytes(folder: Path, name: str, content: bytes) -> Path:
    """The path of a new file with this content; other processes see all of it or nothing."""
    path = folder / name
    handle, scratch = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(scratch, path)
    except BaseException:
        os.unlink(scratch)
        raise
    return path


def _import(name: str, spec: ModuleSpec | None) -> ModuleType:
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Numba looks the module up by name when it reloads compiled code.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _TextLoader(importlib.abc.InspectLoader):
    """Imports a text; ``path`` is the name of its file in tracebacks, which is not read."""

    def __init__(self, source: str, path: str) -> None:
        self.source = source
        self.path = path

    def get_source(self, fullname: str) -> str:
        return self.source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.source, self.path)

    def is_package(self, fullname: str) -> bool:
        return False
