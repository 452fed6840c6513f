"""The cache of generated modules on disk: each text is written once and imported.

Numba needs a file, next to which it stores compiled code, and tracebacks show its lines. The name of a file is a hash
of its text and of everything else that compiled code depends on, so that files never change. The folder must belong to
the user alone, since its files are executed. A module is made from the requested text, not from the file. Several
processes may write at once: each file appears as a whole, and a module is compiled for one number type, so that all
write the same.
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
import secrets
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
"""The value of the environment variable that disables the cache on disk."""

_count = itertools.count(1)
_lock = threading.Lock()


def load_source(source: str, versions: str, own: bool = False, on_disk: bool = True) -> ModuleType:
    """Return the module made from the text ``source``. If it was loaded before, with the same ``versions`` of compilers
    and packages, it comes from a cache; with `own`, it is a new one. Without `on_disk`, the module has no file.

    With `own`, the caller may add to the module; other modules are shared.
    """
    own = own or not on_disk
    digest = hashlib.sha256(f"{versions}\n{source}".encode()).hexdigest()
    name = f"sympy_tensordiff_generated.k_{digest}" + (f"_{next(_count)}" if own else "")
    with _lock:
        if (loaded := sys.modules.get(name)) is not None:
            return loaded
        folders = (cache_folder, temporary_folder) if on_disk and not is_off() else ()
        for folder in folders:
            # Numba raises RuntimeError if it cannot store compiled code.
            with contextlib.suppress(OSError, RuntimeError):
                path = _write(folder(), f"k_{digest}.py", source)
                _code_folder(path.parent)
                loader = _TextLoader(source, str(path))
                return _import(name, importlib.util.spec_from_file_location(name, path, loader=loader))
        # Numba cannot store compiled code either.
        text, place = source.replace("cache=True, ", ""), f"<{name}>"
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
        return _import(name, importlib.util.spec_from_loader(name, _TextLoader(text, place), origin=place))


@functools.cache
def code_versions(backend: str) -> str:
    """Return a text with the versions of all packages, and the processor, on which compiled code depends. It is part of
    the keys of caches.
    """
    found = [f"Python {sys.version} on {platform.machine()}"]
    if backend in ("numba", "llvm"):
        llvm = importlib.import_module("llvmlite.binding")
        found.append(f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}")
    if backend == "llvm":  # its object code is linked with no other package, and stored by program, not by text
        return ", ".join([*found, importlib.import_module("llvmlite").__version__, _own_files()])
    packages = {"numpy": ["numpy"]}.get(backend, ["numpy", "numba", "llvmlite"])
    for package in ("sympy-tensordiff", *packages):
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} from source")
    return ", ".join(found)


def _own_files() -> str:
    """Return a hash of the sizes and modification times of those files of this package on which generated code depends,
    to notice when they change. In an archive without files, return the package's version.
    """
    root = Path(__file__).parents[2]
    try:
        folders = [root / "integer", root / "graph", *(path for path in (root / "codegen").iterdir() if path.is_dir())]
        files = sorted((entry.path, entry.stat()) for folder in folders for entry in os.scandir(folder))
    except OSError:
        return str(importlib.import_module("sympy_tensordiff").__version__)
    text = repr([(path, status.st_size, status.st_mtime_ns) for path, status in files if path.endswith(".py")])
    return hashlib.sha256(text.encode()).hexdigest()


def is_off() -> bool:
    """Return whether the environment disables the cache on disk."""
    return os.environ.get(VARIABLE) == OFF


def clear_cache() -> int:
    """Remove the generated modules and the compiled code from disk, and return the number of files removed.

    Modules that this process has loaded keep working. The folder is given by the environment variable
    ``SYMPY_TENSORDIFF_CACHE``, by default ``sympy_tensordiff`` in the user's cache folder; with the value ``off`` there
    is no cache on disk, and nothing is removed. Other files stay.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.clear_cache()  # doctest: +SKIP
    42
    """
    removed = 0
    if is_off():
        return removed
    folder = cache_folder()
    for path in (*folder.iterdir(), *_code_folder(folder).iterdir()):
        if _GENERATED_FILE.match(path.name) and path.is_file():
            path.unlink(missing_ok=True)
            removed += 1
    return removed


_GENERATED_FILE = re.compile(r"\.?k_[0-9a-f]{64}\.")


def cache_folder() -> Path:
    """Return the user's folder for generated modules; it is created if needed.

    Raise PermissionError if others can write to it.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        folder = Path(chosen)
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "sympy_tensordiff"
    return _private_folder(folder)


def _code_folder(folder: Path) -> Path:
    """Return the folder in which Numba stores the compiled code of modules in ``folder``."""
    return _private_folder(folder / "__pycache__")


def _private_folder(folder: Path) -> Path:
    """Return a folder that only the user can write, created if needed; raise PermissionError if others can write it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        raise PermissionError(f"{folder} can be written by others")
    return folder


@functools.cache
def temporary_folder() -> Path:
    """Return a folder for this process only, which is removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="sympy_tensordiff_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _write(folder: Path, name: str, source: str) -> Path:
    """Write the text ``source`` to the file ``name`` in ``folder``, atomically, unless the file exists; return its
    path.
    """
    path = folder / name
    try:
        if path.read_text(encoding="utf-8") == source:
            return path
    except (OSError, UnicodeDecodeError):
        pass
    return write_bytes(folder, name, source.encode())


def write_bytes(folder: Path, name: str, content: bytes) -> Path:
    """Write the bytes ``content`` to the file ``name`` in ``folder``, atomically, and return its path."""
    path = folder / name
    # The name is chosen before the file exists: Ctrl-C inside of `mkstemp` leaves a file whose name nobody knows.
    scratch = folder / f".{name}.{secrets.token_hex(8)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(scratch, flags, 0o600), "wb") as file:
            file.write(content)
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    return path


def _import(name: str, spec: ModuleSpec | None) -> ModuleType:
    """Import the module that `spec` describes as ``name``: execute it, register it in ``sys.modules`` and return it. If
    its code raises, remove it from there and raise the same exception.
    """
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
    """Imports a module from its text ``source``. Tracebacks show ``path`` as its file name; the loader does not read
    such a file.
    """

    def __init__(self, source: str, path: str) -> None:
        self.source = source
        self.path = path

    def get_source(self, fullname: str) -> str:
        """Return the source text of the module ``fullname`` (import protocol)."""
        return self.source

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text that this loader holds, and return the code object of the module ``fullname`` (import
        protocol).
        """
        return self.source_to_code(self.source, self.path)

    def is_package(self, fullname: str) -> bool:
        """Return False for the module ``fullname``: generated modules are not packages (import protocol)."""
        return False
