"""Public boards: the tool of GradBench answers as its evals expect, and optimal power flow has right derivatives."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from benchmarks.boards import gradbench, power_flow
from benchmarks.boards.evals import EVALS


def asked(module, function, given):
    """The output of a function of an eval."""
    message = {"id": 1, "kind": "evaluate", "module": module, "function": function, "input": given}
    response = gradbench.answer(message)
    assert response["success"], response["error"]
    assert len(response["timings"]) >= 1
    return response["output"]


def runs(**given):
    return given | {"min_runs": 1, "min_seconds": 0}


def assert_slope(module, functions, given, field, result=np.ravel):
    """The derivative in a random direction is that of differences."""
    value, slope = functions
    random = np.random.default_rng(0)
    x = np.array(given[field], dtype=float)
    move = random.normal(size=x.shape)
    after, before = (
        np.array(asked(module, value, given | {field: (x + step * move).tolist()})) for step in (1e-5, -1e-5)
    )
    found = result(asked(module, slope, given))
    wanted = (after - before).ravel() / 2e-5
    found = found @ move.ravel()
    np.testing.assert_allclose(found, wanted[-np.size(found) :] if found.ndim else wanted[-1], rtol=2e-5, atol=1e-7)


def test_messages():
    assert len(EVALS) == 12
    assert gradbench.answer({"id": 0, "kind": "start"}) == {"id": 0, "tool": "sympy_tensordiff"}
    assert gradbench.answer({"id": 1, "kind": "define", "module": "gmm"}) == {"id": 1, "success": True}
    assert not gradbench.answer({"id": 1, "kind": "define", "module": "other"})["success"]
    assert gradbench.answer({"id": 3, "kind": "analysis", "of": 2, "valid": True}) == {"id": 3}
    assert not gradbench.answer({"id": 4, "kind": "evaluate", "module": "lse", "function": "f", "input": {}})["success"]


def test_a_board_in_another_process(tmp_path):
    """The board hears each answer, and its verdicts are reported."""
    question = {
        "id": 0,
        "kind": "evaluate",
        "module": "hello",
        "function": "double",
        "input": 3.5,
        "description": "3.5",
    }
    verdict = {"id": 1, "kind": "analysis", "of": 0, "valid": False, "error": "why"}
    script = tmp_path / "board.py"
    script.write_text(
        f"import json\nprint(json.dumps({question!r}), flush=True)\nassert json.loads(input())['output'] == 7.0\n"
        f"print(json.dumps({verdict!r}), flush=True)\ninput()\n",
        encoding="utf-8",
    )
    times, mistakes = gradbench.judged([sys.executable, str(script)])
    assert [name for name, _ in times["double"]] == ["3.5"]
    assert mistakes == ["double 3.5: why"]
    script.write_text("raise SystemExit(3)", encoding="utf-8")
    assert gradbench.judged([sys.executable, str(script)])[1] == [
        "the command ended with the code 3, after 0 questions"
    ]


def test_small_evals():
    assert asked("hello", "square", 3.0) == 9.0
    x = np.random.default_rng(0).uniform(-300, 300, 9)
    weights = np.exp(x - x.max())
    assert asked("lse", "primal", runs(x=x.tolist())) == pytest.approx(x.max() + np.log(weights.sum()), rel=1e-14)
    np.testing.assert_allclose(asked("lse", "gradient", runs(x=x.tolist())), weights / weights.sum(), atol=1e-16)
    matrix = np.random.default_rng(1).random((4, 4))
    given = runs(A=matrix.ravel().tolist(), ell=4)
    assert asked("det", "primal", given) == pytest.approx(np.linalg.det(matrix), rel=1e-12)
    cofactors = np.linalg.det(matrix) * np.linalg.inv(matrix).T
    np.testing.assert_allclose(asked("det", "gradient", given), cofactors.ravel(), rtol=1e-10)
    powers = np.vander(np.linspace(-1, 1, 6), 4, increasing=True)
    residual = np.sign(np.linspace(-1, 1, 6)) - powers @ [1.0, 2, 3, 4]
    given = runs(x=[1.0, 2, 3, 4], n=6)
    assert asked("llsq", "primal", given) == pytest.approx((residual**2).sum() / 2, rel=1e-13)
    np.testing.assert_allclose(asked("llsq", "gradient", given), -powers.T @ residual, rtol=1e-12, atol=1e-13)


def test_the_direction_of_newton():
    points = np.random.default_rng(0).random((30, 3))
    near = ((points[:, None] - points[-4:]) ** 2).sum(2).argmin(1)
    wanted = [points[-4 + k] - points[near == k].mean(0) for k in range(4)]
    found = asked("kmeans", "dir", runs(points=points.tolist(), centroids=points[-4:].tolist()))
    np.testing.assert_allclose(found, wanted, atol=1e-14)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("modes", ["rr", "ff", "rf", "fr"])
def test_minima_by_descent(modes):
    """The numbers are those that the board expects."""
    assert asked("particle", modes, runs(w=0.0)) == pytest.approx(0.2071918746486116, rel=1e-12)


@pytest.mark.thorough
def test_a_saddle():
    for modes in EVALS["saddle"]:
        assert asked("saddle", modes, runs(start=[1.0, 1.0])) == pytest.approx([8.246324826140356e-06] * 4, rel=1e-9)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", ["ode", "gmm", "lstm", "ht", "ba"])
def test_derivatives(name):
    random = np.random.default_rng(0)
    if name == "ode":
        assert_slope("ode", ("primal", "gradient"), runs(x=random.random(5).tolist(), s=7), "x")
    elif name == "gmm":
        tables = {"x": (6, 3), "mu": (2, 3), "q": (2, 3), "l": (2, 3)}
        given = runs(d=3, k=2, n=6, m=1, gamma=1.3, alpha=random.normal(size=2).tolist())
        given |= {field: random.normal(size=shape).tolist() for field, shape in tables.items()}
        for field in ("alpha", "mu", "q", "l"):
            assert_slope("gmm", ("objective", "jacobian"), given, field, lambda found, own=field: np.ravel(found[own]))
    elif name == "lstm":
        shapes = {"main_params": (4, 12), "extra_params": (3, 3), "state": (4, 3), "sequence": (6, 3)}
        given = runs(**{field: random.random(shape).tolist() for field, shape in shapes.items()})
        assert_slope("lstm", ("objective", "jacobian"), given, "main_params", lambda found: np.array(found[:48]))
        assert_slope("lstm", ("objective", "jacobian"), given, "extra_params", lambda found: np.array(found[48:]))
    elif name == "ht":
        assert_slope("ht", ("objective", "jacobian"), hand(random), "theta", lambda found: np.array(found)[:, 2:])
    else:
        given = runs(n=2, m=3, p=4, cam=random.uniform(0.1, 0.5, 11).tolist(), x=[1.0, 2, 3], w=0.7, feat=[0.2, 0.3])
        found = asked("ba", "jacobian", given)
        assert found["rows"][:3] == [0, 15, 30] and found["rows"][-1] == 4 * 31
        assert found["cols"][:15] == [*range(11), 22, 23, 24, 31] and found["cols"][-1] == 22 + 9 + 3
        assert found["vals"][-1] == pytest.approx(-1.4)
        for field, columns in (("cam", slice(11)), ("x", slice(11, 14))):
            move = np.zeros(len(given[field]))
            move[1] = 1e-6
            ends = [
                asked("ba", "objective", given | {field: (np.array(given[field]) + s * move).tolist()}) for s in (1, -1)
            ]
            slope = np.subtract(*(end["reproj_error"]["elements"][0] for end in ends)) / 2e-6
            assert found["vals"][columns][1] == pytest.approx(slope, rel=1e-5, abs=1e-8)


def hand(random):
    """A hand of 22 bones and 5 corners, seen at 2 points of triangles."""
    bones = 22
    model = {
        "bone_names": [str(bone) for bone in range(bones)], "parents": [-1, *(max(0, b - 1) for b in range(1, bones))],
        "base_relatives": random.normal(size=(bones, 4, 4)) / 3,
        "inverse_base_absolutes": random.normal(size=(bones, 4, 4)),
        "base_positions": random.normal(size=(5, 4)), "weights": random.random((5, bones)),
        "triangles": np.array([[0, 1, 2], [2, 3, 4]]), "is_mirrored": True,
    }  # fmt: skip
    model = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in model.items()}
    data = {"model": model, "correspondences": [1, 0], "points": random.normal(size=(2, 3)).tolist()}
    return runs(theta=random.normal(size=26).tolist(), data=data, us=random.random((2, 2)).tolist())


CASE = """
function mpc = three_buses
mpc.baseMVA = 100.0;
mpc.bus = [
 7 3 50.0 10.0 1.0 2.0 1 1.0 0.0 230.0 1 1.1 0.9;
 2 2 80.0 20.0 0.0 0.0 1 1.0 0.0 230.0 1 1.1 0.9;
 5 1 60.0 15.0 0.0 5.0 1 1.0 0.0 230.0 1 1.1 0.9;
];
mpc.gen = [
 7 100 0 100 -100 1.0 100 1 200 0;
 2 100 0 100 -100 1.0 100 1 200 0;
 5 100 0 100 -100 1.0 100 0 200 0;  % out of service
];
mpc.gencost = [
 2 0 0 3 0.02 10 5;
 2 0 0 3 0.01 20 0;
 2 0 0 3 0.01 1 0;
];
mpc.branch = [
 7 2 0.01 0.1 0.02 150 0 0 0 0 1 -30 30;
 7 5 0.02 0.2 0.01 150 0 0 0.98 3 1 -30 30;
 2 5 0.03 0.15 0.03 150 0 0 0 0 1 -30 30;
];
"""


@pytest.mark.in_turns(4)
def test_power_flow(tmp_path):
    """Flows are those of admittance matrices, and all derivatives are those of differences."""
    path = tmp_path / "three.m"
    path.write_text(CASE, encoding="utf-8")
    network = power_flow.read_case(path)
    assert network.gen["bus"].tolist() == [0, 1] and network.branch["f"].tolist() == [0, 0, 1]
    problem = power_flow.problem(network)
    assert (problem.n, problem.m) == (3 + 3 + 2 + 2 + 12, 6 + 12 + 9)
    random = np.random.default_rng(0)
    x = problem.x0 + 0.1 * random.normal(size=problem.n)
    va, vm, pg, qg, pf, qf, pt, qt = problem.unpack(x)
    bus, branch = network.bus, network.branch
    voltage, ratio = vm * np.exp(1j * va), branch["tr"] + 1j * branch["ti"]
    start, end = voltage[branch["f"]], voltage[branch["t"]]
    series, charge = 1 / (branch["r"] + 1j * branch["x"]), 0.5j * branch["b"]
    first = start * np.conj((series + charge) / np.abs(ratio) ** 2 * start - series / np.conj(ratio) * end)
    last = end * np.conj((series + charge) * end - series / ratio * start)
    flows, made = np.array([pf + 1j * qf, pt + 1j * qt]), pg + 1j * qg
    balance = -(bus["pd"] + 1j * bus["qd"]) - (bus["gs"] - 1j * bus["bs"]) * vm**2
    np.add.at(balance, network.gen["bus"], made)
    np.subtract.at(balance, branch["f"], flows[0])
    np.subtract.at(balance, branch["t"], flows[1])
    laws = flows - [first, last]
    wanted = [balance.real, balance.imag, laws[0].real, laws[0].imag, laws[1].real, laws[1].imag]
    wanted += [va[branch["f"]] - va[branch["t"]], *np.abs(flows) ** 2]
    np.testing.assert_allclose(problem.constraints(x), np.concatenate(wanted), atol=1e-13)

    multipliers, move = random.normal(size=problem.m), random.normal(size=problem.n)
    ends = [(x + step * move) for step in (1e-6, -1e-6)]

    def slope(function):
        return (function(ends[0]) - function(ends[1])) / 2e-6

    assert problem.gradient(x) @ move == pytest.approx(slope(problem.objective), rel=1e-6)
    jacobian = problem.jacobian_operator(x)
    np.testing.assert_allclose(jacobian @ move, slope(problem.constraints), rtol=1e-6, atol=1e-7)
    curvature = problem.hessian_operator(x, multipliers, 0.7) @ move
    wanted = slope(lambda at: 0.7 * problem.gradient(at) + problem.jacobian_operator(at).tocsr().T @ multipliers)
    np.testing.assert_allclose(curvature, wanted, rtol=1e-6, atol=1e-6)


def test_answers_are_json():
    written = []
    gradbench.serve(iter([json.dumps({"id": 5, "kind": "start"})]), written.append)
    assert json.loads(written[0])["id"] == 5
