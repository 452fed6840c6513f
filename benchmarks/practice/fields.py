"""All functions of practice, one module for each field."""

from __future__ import annotations

from benchmarks.practice import chemistry, control, equations, finance, graphs, learning
from benchmarks.practice.case import Case, cases_of

MODULES = (chemistry, learning, equations, control, graphs, finance)
CASES: dict[str, Case] = {case.name: case for module in MODULES for case in cases_of(module)}
