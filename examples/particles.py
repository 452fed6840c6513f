"""Energies and forces of particles.

Atoms attract each other from afar and repel each other when they come close. The energy
is a sum over pairs; the force is its negative gradient, which is derived here. Thirteen
atoms find the shape of least energy, and then move.
"""

# %%
# ## The energy
#
# The potential of Lennard-Jones, `4*(r**-12 - r**-6)`. Each pair counts once: the first
# index ends before the second.

import numpy as np
from matplotlib import pyplot as plt
from scipy.optimize import basinhopping

import sympy_tensordiff as td

i, j, a, n = td.indices("i j a n")
x = td.TensorSymbol("x", (n, 3))
square = td.IndexedSum((x[i, a] - x[j, a]) ** 2, (a, 0, 2))
energy = td.IndexedSum(4 / square**6 - 4 / square**3, (i, 0, j - 1), (j, 0, n - 1))
energy

# %%
# ## The force
#
# A particle is the first of some pairs and the second of others, so entry `[p, q]` of
# the gradient is the sum of two sums. The pair of a particle with itself, which would
# divide by zero, is in neither.

gradient = td.gradient(energy, x)
first, second = gradient.body.args
first
second

# %%
# ## The kernel
#
# Energy and gradient together, against a sum over pairs in NumPy and its central
# differences:

potential = td.lambdify([x], (energy, gradient))


def by_hand(x):
    first, second = np.triu_indices(len(x), 1)
    square = ((x[first] - x[second]) ** 2).sum(axis=1)
    return (4 / square**6 - 4 / square**3).sum()


rng = np.random.default_rng(1)
point = np.mgrid[:3, :2, :2].reshape(3, -1).T * 1.1 + 0.05 * rng.standard_normal(
    (12, 3)
)
value, slope = potential(point)
assert np.isclose(value, by_hand(point))
for entry in np.ndindex(point.shape):
    move = np.zeros(point.shape)
    move[entry] = 1e-5
    assert np.isclose(
        slope[entry],
        (by_hand(point + move) - by_hand(point - move)) / 2e-5,
        rtol=1e-5,
        atol=1e-6,
    )
print(f"energy {value:.4f}, sum of all forces {np.abs(slope.sum(axis=0)).max():.1e}")

# %%
# ## The result
#
# From random places, atoms roll into the next valley, and are shaken to find deeper
# ones: basin hopping. The deepest of thirteen atoms is an icosahedron with an atom in
# the middle; its energy, -44.326801, is in the [Cambridge Cluster
# Database](https://www-wales.ch.cam.ac.uk/CCD.html).


def flat(coordinates):
    value, slope = potential(coordinates.reshape(-1, 3))
    return value, slope.ravel()


start = 1.6 * rng.uniform(-1, 1, 39)
best = basinhopping(
    flat,
    start,
    niter=40,
    stepsize=0.4,
    minimizer_kwargs={"jac": True, "method": "L-BFGS-B"},
    rng=1,
)
print(f"least energy in {best.nfev} evaluations: {best.fun:.6f}")
assert abs(best.fun + 44.326801) < 1e-5

# %%
# Pushed a little, the cluster swings. Forces that are not a gradient of the energy
# would not keep the sum of potential and kinetic energy, as the steps of Verlet do:

place, speed, dt = best.x.reshape(-1, 3), 0.4 * rng.standard_normal((13, 3)), 0.004
speed -= speed.mean(axis=0)
energies, (potential_energy, slope) = [], potential(place)
for _ in range(1000):
    speed = speed - dt / 2 * slope
    place = place + dt * speed
    potential_energy, slope = potential(place)
    speed = speed - dt / 2 * slope
    energies.append((potential_energy, (speed**2).sum() / 2))
parts = np.array(energies)
whole = parts.sum(axis=1)
print(f"the energy {whole[0]:.4f} changes by {np.ptp(whole):.1e}")
print(f"its parts change by {np.ptp(parts[:, 0]):.1f}")
assert np.ptp(whole) < 0.01 * np.ptp(parts[:, 0])

figure = plt.figure(figsize=(9, 3.8), layout="constrained")
left, right = figure.add_subplot(1, 2, 1, projection="3d"), figure.add_subplot(1, 2, 2)
cluster = best.x.reshape(-1, 3) - best.x.reshape(-1, 3).mean(axis=0)
for one, other in zip(*np.triu_indices(13, 1), strict=True):
    if np.linalg.norm(cluster[one] - cluster[other]) < 1.3:
        left.plot(*cluster[[one, other]].T, color="tab:gray", lw=1)
distance = np.linalg.norm(cluster, axis=1)
left.scatter(
    *cluster.T,
    s=160,
    c=distance,
    cmap="coolwarm_r",
    edgecolors="black",
    depthshade=False,
)
left.set_axis_off()
left.set_aspect("equal")
left.set_box_aspect(None, zoom=1.5)
left.set_title("thirteen atoms of least energy")
time = dt * np.arange(len(parts))
right.plot(time, whole, color="black", label="sum")
right.plot(time, parts[:, 0], lw=0.8, label="potential energy")
right.plot(
    time, parts[:, 1] + best.fun, lw=0.8, label="kinetic energy, above the least"
)
right.set(title="the cluster swings", xlabel="time", ylabel="energy")
right.set_ylim(best.fun - 1.6, whole[0] + 0.5)
right.legend(loc="lower left", fontsize=9)
plt.show()
