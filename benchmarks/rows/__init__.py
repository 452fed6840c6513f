"""All rows of the suite, one module for each family."""

from __future__ import annotations

from benchmarks.row import Row
from benchmarks.rows import (
    contractions,
    convolutions,
    curvature,
    factorization,
    gathers,
    matrices,
    networks,
    paper,
    particles,
    regression,
    second_order,
    signals,
)

MODULES = (
    paper,
    contractions,
    convolutions,
    signals,
    regression,
    factorization,
    particles,
    networks,
    gathers,
    matrices,
    second_order,
    curvature,
)
ROWS: dict[str, Row] = {row.name: row for module in MODULES for row in module.ROWS}
