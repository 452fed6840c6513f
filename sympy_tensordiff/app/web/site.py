"""The page as a folder of static files: Pyodide answers in a worker of the browser, without a server."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import zipfile
from importlib import import_module
from importlib.metadata import files as files_of
from importlib.resources import as_file, files
from pathlib import Path

PYODIDE = "314.0.7"
"""The version of Pyodide that npm installs."""
PYODIDE_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip")
PACKAGES = ("sympy", "mpmath", "lark", "sympy_tensordiff")
IGNORED = shutil.ignore_patterns("__pycache__", "tests", "benchmarks", "physics", "static", "*.pyi", "*.so")
"""Files that no answer needs."""

_COMPILE = """
import { loadPyodide } from PYODIDE;
const python = await loadPyodide();
python.mountNodeFS("/packages", process.argv[1]);
python.runPython(`
import compileall, py_compile
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
assert compileall.compile_dir("/packages", quiet=1, legacy=True, invalidation_mode=mode)
`);
"""


class SiteError(Exception):
    """The site cannot be built; the message says why, in one line."""


def build_site(folder: Path, pyodide: Path | None = None) -> None:
    """Write the static web page into `folder`, ready for any file server; without a ``pyodide`` folder, install
    Pyodide.

    Parameters
    ----------
    folder : Path
        A new or an empty folder.
    pyodide : Path, optional
        The folder of Pyodide; by default npm installs it into a temporary one.

    Raises
    ------
    SiteError
        If `folder` has files, or npm, Node or a file of Pyodide is missing.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SiteError(f"{folder} is not an empty folder")
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        source = pyodide or _install_pyodide(temporary / "npm")
        missing = [file for file in PYODIDE_FILES if not (source / file).is_file()]
        if missing:
            raise SiteError(f"{source} has no {missing[0]}: give the folder of npm's package pyodide")
        with as_file(files(__package__).joinpath("static")) as static:
            shutil.copytree(static, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("site"))
            shutil.copytree(static / "site", folder, dirs_exist_ok=True)
        (folder / "pyodide").mkdir()
        for file in PYODIDE_FILES:
            shutil.copyfile(source / file, folder / "pyodide" / file)
        _pack(temporary / "packages", source, folder / "packages.zip")
    for package in PACKAGES[:-1]:
        for path in files_of(package) or ():
            if "LICEN" in path.name.upper() and ".dist-info" in str(path):
                (folder / "licenses").mkdir(exist_ok=True)
                shutil.copyfile(str(path.locate()), folder / "licenses" / f"{package}.txt")


def _install_pyodide(folder: Path) -> Path:
    """Install Pyodide with npm and return its folder."""
    folder.mkdir(parents=True)
    _run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), f"pyodide@{PYODIDE}"])
    return folder / "node_modules" / "pyodide"


def _pack(folder: Path, pyodide: Path, archive: Path) -> None:
    """Copy the Python packages into `folder`, compile them with Pyodide's Python, and write bytecode and data files
    into `archive`.
    """
    for package in PACKAGES:
        origin = import_module(package).__file__
        assert origin is not None
        shutil.copytree(Path(origin).parent, folder / package, ignore=IGNORED)
    script = _COMPILE.replace("PYODIDE", repr((pyodide / "pyodide.mjs").resolve().as_uri()))
    _run(["node", "--input-type=module", "--eval", script, str(folder)])
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".py":
                packed.write(path, path.relative_to(folder))


def _run(command: list[str]) -> None:
    """Run a command; raise `SiteError` with the end of its output if it fails."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SiteError(f"{command[0]} is missing: install Node.js 20 or newer") from None
    if result.returncode:
        lines = (result.stderr or result.stdout).strip().splitlines() or ["no output"]
        raise SiteError(f"{command[0]} failed: {lines[-1][:300]}")
