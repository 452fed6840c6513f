"""The optimal power flow of `power_flow` in CasADi, for comparison: unknowns and constraints in the same order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import casadi
import numpy as np
import scipy.sparse

from benchmarks.boards.power_flow import Network, ohm, start


def sums(places: Any, count: int) -> Any:
    """Return the matrix that adds entries to the places they belong to."""
    numbers = np.arange(len(places))
    matrix = scipy.sparse.csc_matrix((np.ones(len(places)), (places, numbers)), shape=(count, len(places)))
    return casadi.DM(matrix)


class Callbacks:
    """The functions of the problem at the point of `power_flow.Callbacks`."""

    def __init__(self, network: Network) -> None:
        bus, gen, branch = network.bus, network.gen, network.branch
        parts = start(network)
        unknowns = [casadi.SX.sym(f"x{number}", len(part)) for number, part in enumerate(parts)]
        va, vm, pg, qg, pf, qf, pt, qt = unknowns
        f, t = branch["f"].tolist(), branch["t"].tolist()
        numbers = {name: casadi.DM(value) for name, value in branch.items() if value.dtype == float}
        laws = ohm(SimpleNamespace(cos=casadi.cos, sin=casadi.sin), (vm[f], vm[t]), va[f] - va[t], numbers)
        count = len(bus["id"])
        at, leaving, arriving = (sums(places, count) for places in (gen["bus"], branch["f"], branch["t"]))
        balances = [
            at @ made - leaving @ first - arriving @ last - casadi.DM(bus[load]) - casadi.DM(shunt) * vm**2
            for made, first, last, load, shunt in ((pg, pf, pt, "pd", bus["gs"]), (qg, qf, qt, "qd", -bus["bs"]))
        ]
        flows = [flow - law for flow, law in zip((pf, qf, pt, qt), laws, strict=True)]
        limits = [va[f] - va[t], pf**2 + qf**2, pt**2 + qt**2]
        x, g = casadi.vertcat(*unknowns), casadi.vertcat(*balances, *flows, *limits)
        cost = casadi.sum1(casadi.DM(gen["c2"]) * pg**2 + casadi.DM(gen["c1"]) * pg + casadi.DM(gen["c0"]))
        multipliers = casadi.SX.sym("lagrange", g.numel())
        hessian = casadi.tril(casadi.hessian(cost + casadi.dot(multipliers, g), x)[0])
        random = np.random.default_rng(0)
        self.x = np.concatenate(parts) + 0.01 * random.normal(size=x.numel())
        self.multipliers = random.normal(size=g.numel())
        results = {"objective": cost, "gradient": casadi.gradient(cost, x), "constraints": g}
        results["jacobian"] = casadi.jacobian(g, x)
        self.functions = {name: casadi.Function(name, [x], [result]) for name, result in results.items()}
        self.functions["hessian"] = casadi.Function("hessian", [x, multipliers], [hessian])
        for name in self.functions:
            setattr(self, name, self.call_of(name))

    def call_of(self, name: str) -> Any:
        """Return a call without arguments that fills an array of the nonzero entries."""
        function = self.functions[name]
        buffer, run = function.buffer()
        result = np.zeros(function.nnz_out(0))
        given = [self.x, self.multipliers][: function.n_in()]
        for place, value in enumerate(given):
            buffer.set_arg(place, memoryview(value))
        buffer.set_res(0, memoryview(result))
        owners = function, buffer, given  # the run has only their addresses

        def call() -> Any:
            run()
            return result if owners else None

        return call

    def summary(self, name: str) -> Any:
        """Return the values, or products of a sparse matrix with a fixed vector."""
        values = self.functions[name](*[self.x, self.multipliers][: self.functions[name].n_in()])
        if name not in ("jacobian", "hessian"):
            return np.asarray(values).ravel()
        matrix = values.sparse()
        vector = np.cos(np.arange(matrix.shape[1]))
        if name == "hessian":
            matrix = matrix + scipy.sparse.tril(matrix, -1).T
        return matrix @ vector
