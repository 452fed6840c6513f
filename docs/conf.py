"""Sphinx configuration: Markdown by MyST, no network."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "sympy_tensordiff"
author = "The sympy_tensordiff developers"
copyright = "2026, the sympy_tensordiff developers"
release = version = installed_version("sympy-tensordiff")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
extensions += ["mathml", "error_index", "gallery", "live_examples", "reference_pages"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
# Formulas are MathML, which browsers render themselves.
myst_update_mathjax = False
html_math_renderer = "mathml"

# The docstrings are numpydoc; single backticks in them name things, and a name that has no page is not an error.
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "code"
autodoc_typehints = "none"
# What a class only overrides is described by SymPy.
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = "sympy_tensordiff"
html_copy_source = False
html_static_path = ["_static"]
