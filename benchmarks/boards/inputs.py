"""The inputs of GradBench as arrays, for the forms in JAX and PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.boards.evals import array


def least_squares(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of the eval `llsq`."""
    return array(given["x"]), np.linspace(-1, 1, given["n"])


def mixture(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of the eval `gmm`, with whole triangular matrices."""
    size, number = given["d"], given["k"]
    columns, rows = np.triu_indices(size, 1)
    alpha, mu, q, flat, x = (array(given[field]) for field in ("alpha", "mu", "q", "l", "x"))
    lower = np.zeros((number, size, size))
    lower[:, rows, columns] = flat.reshape(number, -1)
    return alpha, mu, q, lower, x, float(given["gamma"]), float(given["m"])


def bundle(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of the eval `ba`."""
    numbers = np.arange(given["p"])
    tables = (np.tile(array(given["cam"]), (given["n"], 1)), np.tile(array(given["x"]), (given["m"], 1)))
    weights, image = np.full(given["p"], float(given["w"])), np.tile(array(given["feat"]), (given["p"], 1))
    return *tables, weights, numbers % given["n"], numbers % given["m"], image


def memory(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of the eval `lstm`."""
    main, extra, state, sequence = (
        array(given[field]) for field in ("main_params", "extra_params", "state", "sequence")
    )
    return main, extra, state, sequence[:-1], sequence[1:]
