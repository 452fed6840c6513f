"""Generated modules on disk: written once per text, imported from there.

A file is needed: Numba keeps its compiled code beside it, and tracebacks show its lines. Files
are named after a hash of their text, so that they never change; the folder belongs to the user
alone, since what lies in it is executed.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.abc
import importlib.util
import itertools
import linecache
import os
import shutil
import stat
import sys
import tempfile
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

VARIABLE = "SYMPY_TENSORDIFF_CACHE"


_count = itertools.count(1)


def load_source(source: str, versions: str, own: bool = False) -> ModuleType:
    """The module of ``source``; ``versions`` says what compiled code depends on besides the text.

    ``own``: a module that nobody else gets, because more will be put into it than its text says.
    """
    digest = hashlib.sha256(f"{versions}\n{source}".encode()).hexdigest()
    name = f"sympy_tensordiff_generated.k_{digest}" + (f"_{next(_count)}" if own else "")
    if name in sys.modules:
        return sys.modules[name]
    for folder in (cache_folder, temporary_folder):
        try:
            path = _write(folder(), f"k_{digest}.py", source)
        except OSError:
            continue
        return _import(name, importlib.util.spec_from_file_location(name, path))
    # Nothing is writable: Numba has no place for compiled code either.
    return _import(name, _memory_spec(name, source.replace("cache=True, ", "")))


def cache_folder() -> Path:
    """The user's own folder for generated modules, created where it does not exist."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        folder = Path(chosen)
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "sympy_tensordiff"
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
    handle, scratch = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(source)
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


class _MemoryLoader(importlib.abc.InspectLoader):
    """Imports a text that lies in no file; tracebacks find its lines under the name ``place``."""

    def __init__(self, source: str, place: str) -> None:
        self.source = source
        self.place = place
        linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)

    def get_source(self, fullname: str) -> str:
        return self.source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.source, self.place)

    def is_package(self, fullname: str) -> bool:
        return False


def _memory_spec(name: str, source: str) -> ModuleSpec | None:
    place = f"<{name}>"
    return importlib.util.spec_from_loader(name, _MemoryLoader(source, place), origin=place)
