"""AC optimal power flow in the form of PGLib: the case files of MATPOWER, and the problem as a `td.nlp`.

The state has angles and magnitudes of voltages, generation, and the power at both ends of each branch. Constraints are
the balance of power at each bus, Ohm's law of each branch, thermal limits and angle differences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sympy import Eq, Piecewise, cos, sin

import sympy_tensordiff as td

FIELDS = {
    "bus": "id kind pd qd gs bs area vm va base zone vmax vmin",
    "gen": "bus pg qg qmax qmin vg base status pmax pmin",
    "gencost": "model startup shutdown n c2 c1 c0",
    "branch": "f t r x b rate rate_b rate_c ratio angle status angmin angmax",
}


@dataclass(frozen=True)
class Network:
    """The numbers of a case, per unit: of buses, generators and branches in service, by the names of `FIELDS`."""

    bus: dict[str, Any]
    gen: dict[str, Any]
    branch: dict[str, Any]


def read_case(path: Path) -> Network:
    """Read a file of PGLib; raise ValueError where a table is missing or a cost is not a polynomial of degree two."""
    text = re.sub(r"%.*", "", path.read_text(encoding="utf-8"))
    base = float(_match(r"mpc\.baseMVA\s*=\s*([\d.eE+-]+)", text))
    tables = {}
    for name, fields in FIELDS.items():
        rows = [line.split() for line in _match(rf"mpc\.{name}\s*=\s*\[(.*?)\]", text).split(";") if line.strip()]
        columns = np.array([[float(number) for number in row] for row in rows]).T
        tables[name] = dict(zip(fields.split(), columns, strict=False))
    bus, gen, cost, branch = tables.values()
    if not ((cost["model"] == 2) & (cost["n"] == 3)).all():
        raise ValueError(f"{path.name}: costs are expected as polynomials with three coefficients")
    numbers = {int(number): place for place, number in enumerate(bus["id"])}
    gen |= {"c2": cost["c2"] * base**2, "c1": cost["c1"] * base, "c0": cost["c0"]}
    gen = {name: column[gen["status"] > 0] for name, column in gen.items()}
    branch = {name: column[branch["status"] > 0] for name, column in branch.items()}
    for table, names in ((gen, ("bus",)), (branch, ("f", "t"))):
        table |= {name: np.array([numbers[int(number)] for number in table[name]]) for name in names}
    for table, names in ((bus, "pd qd gs bs"), (gen, "pmin pmax qmin qmax"), (branch, "rate")):
        table |= {name: table[name] / base for name in names.split()}
    return Network(bus, gen, branch | _admittances(branch))


def _match(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        raise ValueError(f"no {pattern.split()[0]} in the file")
    return found[1]


def _admittances(branch: dict[str, Any]) -> dict[str, Any]:
    """Return conductance and susceptance of the series element, and the real and imaginary part of the transformer."""
    impedance = branch["r"] + 1j * branch["x"]
    ratio = np.where(branch["ratio"] == 0, 1.0, branch["ratio"]) * np.exp(1j * np.radians(branch["angle"]))
    series = 1 / impedance
    parts = {"g": series.real, "y": series.imag, "tr": ratio.real, "ti": ratio.imag, "tm": np.abs(ratio) ** 2}
    return parts | {name: np.radians(branch[name]) for name in ("angmin", "angmax")}


def ohm(xp: Any, vm: tuple[Any, Any], difference: Any, branch: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return active and reactive power at the start and at the end of a branch, from the magnitudes at both ends.

    `xp` has `cos` and `sin`: of SymPy, of JAX or of CasADi.
    """
    (start, end), (g, y, charge) = vm, (branch["g"], branch["y"], branch["b"] / 2)
    tr, ti, tm = branch["tr"], branch["ti"], branch["tm"]
    product, c, s = start * end / tm, xp.cos(difference), xp.sin(difference)
    forth, across = -g * tr + y * ti, -y * tr - g * ti
    back, returned = -g * tr - y * ti, -y * tr + g * ti
    return (
        g / tm * start**2 + product * (forth * c + across * s),
        -(y + charge) / tm * start**2 - product * (across * c - forth * s),
        g * end**2 + product * (back * c - returned * s),
        -(y + charge) * end**2 - product * (returned * c + back * s),
    )


class _Functions:
    cos, sin = staticmethod(cos), staticmethod(sin)


def problem(network: Network) -> Any:
    """Return the optimal power flow of a network as a `td.nlp`."""
    bus, gen, branch = network.bus, network.gen, network.branch
    n, m, b, i, k, l = td.indices("n m b i k l")  # of buses, generators, branches
    va, vm = (td.TensorSymbol(name, n) for name in ("va", "vm"))
    pg, qg = (td.TensorSymbol(name, m) for name in ("pg", "qg"))
    flows = [td.TensorSymbol(name, b) for name in ("pf", "qf", "pt", "qt")]
    pf, qf, pt, qt = flows
    f, t = (td.TensorSymbol(name, b, dtype=int, below=n) for name in ("f", "t"))
    at = td.TensorSymbol("at", m, dtype=int, below=n)
    numbers = {name: td.TensorSymbol(name, b) for name in ("g", "y", "b", "tr", "ti", "tm")}
    numbers["b"] = td.TensorSymbol("charge", b)
    c2, c1, c0 = (td.TensorSymbol(name, m) for name in ("c2", "c1", "c0"))
    loads = {name: td.TensorSymbol(name, n) for name in ("pd", "qd", "gs", "bs")}

    def balance(generated: Any, start: Any, end: Any, load: Any, shunt: Any) -> Any:
        given = td.IndexedSum(Piecewise((generated[k], Eq(at[k], i)), (0, True)), (k, 0, m - 1))
        leaves = td.IndexedSum(Piecewise((start[l], Eq(f[l], i)), (0, True)), (l, 0, b - 1))
        arrives = td.IndexedSum(Piecewise((end[l], Eq(t[l], i)), (0, True)), (l, 0, b - 1))
        return td.TensorComprehension(given - leaves - arrives - load[i] - shunt * vm[i] ** 2, (i, n))

    of_branch = {name: value[l] for name, value in numbers.items()}
    power = ohm(_Functions, (vm[f[l]], vm[t[l]]), va[f[l]] - va[t[l]], of_branch)
    laws = [td.TensorComprehension(flow[l] - value, (l, b)) for flow, value in zip(flows, power, strict=True)]
    balances = [
        balance(pg, pf, pt, loads["pd"], loads["gs"][i]),
        balance(qg, qf, qt, loads["qd"], -loads["bs"][i]),
    ]
    limits = [
        td.TensorComprehension(va[f[l]] - va[t[l]], (l, b)),
        td.TensorComprehension(pf[l] ** 2 + qf[l] ** 2, (l, b)),
        td.TensorComprehension(pt[l] ** 2 + qt[l] ** 2, (l, b)),
    ]
    data = {f: branch["f"], t: branch["t"], at: gen["bus"], c2: gen["c2"], c1: gen["c1"], c0: gen["c0"]}
    data |= {symbol: branch[name] for name, symbol in numbers.items()}
    data |= {symbol: bus[name] for name, symbol in loads.items()}
    reference, rate = np.where(bus["kind"] == 3, 0.0, np.inf), branch["rate"]
    ends = dict.fromkeys(flows, (-rate, rate))
    return td.nlp(
        td.IndexedSum(c2[k] * pg[k] ** 2 + c1[k] * pg[k] + c0[k], (k, 0, m - 1)),
        (*balances, *laws, *limits),
        (va, vm, pg, qg, *flows),
        start=start(network),
        data=data,
        bounds={
            **{va: (-reference, reference), vm: (bus["vmin"], bus["vmax"])},
            **{pg: (gen["pmin"], gen["pmax"]), qg: (gen["qmin"], gen["qmax"])},
            **ends,
        },
        constraint_bounds=[
            *[(0.0, 0.0)] * 6,
            (branch["angmin"], branch["angmax"]),
            *[(-np.inf, rate**2)] * 2,
        ],
    )


def start(network: Network) -> list[Any]:
    """Return the flat start: angles 0, magnitudes 1, generation in the middle of its bounds, no power in branches."""
    buses, branches, gen = len(network.bus["id"]), len(network.branch["f"]), network.gen
    middles = [(gen[f"{name}min"] + gen[f"{name}max"]) / 2 for name in "pq"]
    return [np.zeros(buses), np.ones(buses), *middles, *[np.zeros(branches)] * 4]


NAMES = ("objective", "gradient", "constraints", "jacobian", "hessian")
"""The functions that an interior point method calls."""


class Callbacks:
    """The functions of a `td.nlp` at a point near its start."""

    def __init__(self, own: Any) -> None:
        random = np.random.default_rng(0)
        self.problem, self.size = own, own.n
        self.x = own.x0 + 0.01 * random.normal(size=own.n)
        self.multipliers = random.normal(size=own.m)

    def objective(self) -> Any:
        return self.problem.objective(self.x)

    def gradient(self) -> Any:
        return self.problem.gradient(self.x)

    def constraints(self) -> Any:
        return self.problem.constraints(self.x)

    def jacobian(self) -> Any:
        return self.problem.jacobian(self.x)

    def hessian(self) -> Any:
        return self.problem.hessian(self.x, self.multipliers, 1.0)

    def summary(self, name: str) -> Any:
        """Return the values, or products of a symmetric or rectangular sparse matrix with fixed vectors."""
        values = getattr(self, name)()
        if name not in ("jacobian", "hessian"):
            return values
        rows, columns = getattr(self.problem, f"{name}structure")()
        product = np.zeros(self.problem.m if name == "jacobian" else self.problem.n)
        vector = np.cos(np.arange(self.size))
        np.add.at(product, rows, values * vector[columns])
        if name == "hessian":
            off = rows != columns
            np.add.at(product, columns[off], values[off] * vector[rows[off]])
        return product


def solve(own: Any) -> tuple[float, int]:
    """Solve a problem by Ipopt through the package ipyopt; return the least cost and Ipopt's status."""
    import ipyopt

    def filled(function: Any) -> Any:
        def fill(*given: Any) -> None:
            given[-1][...] = function(*given[:-1])

        return fill

    patterns = own.jacobianstructure(), own.hessianstructure()
    fills = [filled(getattr(own, name)) for name in ("gradient", "constraints", "jacobian", "hessian")]
    solver = ipyopt.Problem(
        *(own.n, own.lb, own.ub, own.m, own.cl, own.cu, *patterns, own.objective, *fills),
        ipopt_options={"print_level": 0, "sb": "yes"},
    )
    _, cost, status = solver.solve(own.x0.copy())
    return float(cost), int(status)
