"""The page as a folder of static files: Pyodide answers in a worker of the browser, without a server."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import zipfile
from importlib import import_module
from importlib.metadata import files as files_of
from importlib.resources import as_file, files
from pathlib import Path

NPM_VERSIONS = {"pyodide": "314.0.7", "temml": "0.13.5"}
"""The packages of npm in the site: Python for browsers, and the converter from LaTeX to MathML."""
PYODIDE_FILES = ("pyodide.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip")
PYODIDE_SCRIPTS = ("pyodide.asm.mjs", "pyodide.asm.js")
"""Pyodide has one of these, depending on its version."""
TEMML_FILES = ("dist/temml.mjs", "dist/Temml-Local.css", "dist/Temml.woff2", "LICENSE")
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


def build_site(folder: Path, pyodide: Path | None = None, temml: Path | None = None) -> None:
    """Write the static web page into `folder`, ready for any file server. ``pyodide`` and ``temml`` are the folders of
    these npm packages; by default npm installs them.

    Parameters
    ----------
    folder : Path
        A new or an empty folder.
    pyodide, temml : Path, optional
        The folders of these packages of npm; by default npm installs them into a temporary folder. If `pyodide` is a
        distribution with packages that contains NumPy, the site has it, too, and computes numbers and checks.

    Raises
    ------
    SiteError
        If `folder` has files, or npm, Node, a file of a package or the font of the formulas is missing.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SiteError(f"{folder} is not an empty folder")
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        given = {"pyodide": pyodide, "temml": temml}
        for package, source in given.items():
            if source is not None:
                _require_files(source, package)
        installed = _install([package for package, source in given.items() if source is None], temporary / "npm")
        python, converter = (source or installed / package for package, source in given.items())
        with as_file(files(__package__).joinpath("static")) as static:
            shutil.copytree(static, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("site"))
            shutil.copytree(static / "site", folder, dirs_exist_ok=True)
        wheel = _numpy_wheel(python)
        (folder / "pyodide").mkdir()
        for file in (*PYODIDE_FILES, *PYODIDE_SCRIPTS, *([wheel] if wheel else [])):
            if (python / file).is_file():
                shutil.copyfile(python / file, folder / "pyodide" / file)
        (folder / "settings.js").write_text(f"export const HAS_NUMPY = {'true' if wheel else 'false'};\n")
        _copy_typesetting(converter / "dist", folder)
        _pack(temporary / "packages", python, folder / "packages.zip")
        _copy_licenses(converter, folder / "licenses")


def _install(names: list[str], folder: Path) -> Path:
    """Install the packages ``names`` with npm into `folder`, and return the path of its ``node_modules``."""
    if names:
        folder.mkdir(parents=True)
        packages = [f"{name}@{NPM_VERSIONS[name]}" for name in names]
        _run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *packages])
    return folder / "node_modules"


def _require_files(folder: Path, package: str) -> None:
    """Raise `SiteError` if `folder` lacks a file of this package of npm."""
    for name in PYODIDE_FILES if package == "pyodide" else TEMML_FILES:
        if not (folder / name).is_file():
            raise SiteError(f"{folder} has no {name}: give the folder of npm's package {package}")


def _numpy_wheel(pyodide: Path) -> str | None:
    """Return the name of NumPy's wheel file in a folder of Pyodide; None if there is none, as in the package of npm."""
    packages = json.loads((pyodide / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    name = packages.get("numpy", {}).get("file_name")
    return name if name and (pyodide / name).is_file() else None


def _copy_typesetting(temml: Path, folder: Path) -> None:
    """Copy the converter from LaTeX to MathML, in the folder ``temml``, with its style sheet and its font into
    `folder`.
    """
    try:
        from sympy_tensordiff.app.web.typesetting import FONT_FILE
    except ImportError as error:
        raise SiteError(f"the font of the formulas needs {error.name}: pip install '.[page]'") from None
    shutil.copyfile(FONT_FILE, folder / "formulas.ttf")
    for name in ("temml.mjs", "Temml.woff2"):
        shutil.copyfile(temml / name, folder / name)
    styles = [
        (temml / "Temml-Local.css").read_text(encoding="utf-8"),
        (folder / "page.css").read_text(encoding="utf-8"),
    ]
    (folder / "page.css").write_text("\n".join(styles), encoding="utf-8")


def _copy_licenses(temml: Path, folder: Path) -> None:
    """Copy the licenses of the packages in the site into ``folder``; ``temml`` is the folder of the converter to
    MathML.
    """
    folder.mkdir()
    for package in (*PACKAGES[:-1], "ziamath"):
        for path in files_of(package) or ():
            if "LICEN" in path.name.upper():
                shutil.copyfile(str(path.locate()), folder / f"{package}-{path.name}")
    shutil.copyfile(temml / "LICENSE", folder / "temml.txt")


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
