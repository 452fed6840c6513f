"""The conductivity of a rod, from temperatures.

A rod has warm and cold places, and thermometers along it show how they even out. How
well each place conducts is what is asked for: the inverse problem of the heat equation.
One step of the equation is a stencil in index notation; what is derived is how the
temperatures before and the conductivity answer for those after.
"""

# %%
# ## The function
#
# One step in time: heat flows between neighbours, by the conductivity `k` of what is
# between them. The two ends are held at their temperature; what is computed are the
# places inside.

import numpy as np
from matplotlib import pyplot as plt
from scipy.optimize import minimize

import sympy_tensordiff as td

i, n = td.indices("i n")
u, k = td.TensorSymbol("u", n + 2), td.TensorSymbol("k", n + 1)
flow = k[i + 1] * (u[i + 2] - u[i + 1]) - k[i] * (u[i + 1] - u[i])
step = td.TensorComprehension(u[i + 1] + flow, (i, n))
step

# %%
# ## Its derivatives
#
# By the conductivity, which each of two places has read, if there are two:

g = td.TensorSymbol("g", n)
by_u, by_k = td.vjp(step, (u, k), g)
by_k

# %%
# By the temperatures before; this is the step backward in time, and knows the ends:

by_u

# %%
# ## The kernels
#
# The loop over time is Python. Forward, the temperatures are kept; backward, their
# misfit is pulled back from step to step, and each one adds to the derivative
# with respect to the conductivity.

forward = td.lambdify((u, k), step)
backward = td.lambdify((u, k, g), (by_u, by_k))


def simulate(k, start, count):
    history = [start]
    for _ in range(count):
        inside = forward(history[-1], k)
        history.append(np.concatenate([start[:1], inside, start[-1:]]))
    return np.array(history)


def misfit(k, measured, smoothing):
    """The misfit of a conductivity, and its gradient."""
    history = simulate(k, measured[0], len(measured) - 1)
    errors = history - measured
    slope, adjoint = np.zeros_like(k), np.zeros_like(measured[0])
    for time in range(len(errors) - 2, -1, -1):
        adjoint, by_conductivity = backward(
            history[time], k, (adjoint + errors[time + 1])[1:-1]
        )
        slope += by_conductivity
    bends = np.diff(k)
    slope += smoothing * (np.pad(bends, (1, 0)) - np.pad(bends, (0, 1)))
    return (errors**2).sum() / 2 + smoothing * (bends**2).sum() / 2, slope


# %%
# Some entries of the gradient against central differences, through all steps in time:

size, count = 60, 300
rng = np.random.default_rng(0)
places = np.linspace(0, 1, size + 2)
faces = (places[1:] + places[:-1]) / 2
truth = np.where(np.abs(faces - 0.35) < 0.08, 0.08, 0.35) + 0.1 * np.exp(
    -(((faces - 0.75) / 0.08) ** 2)
)
start = np.exp(-(((places - 0.5) / 0.2) ** 2)) + 0.5 * np.sin(6 * np.pi * places)
history = simulate(truth, start, count)
noise = 0.003 * rng.standard_normal(history.shape)
noise[0] = noise[:, 0] = noise[:, -1] = 0
measured = history + noise

guess, smoothing = np.full(size + 1, 0.25), 0.01
_, slope = misfit(guess, measured, smoothing)
for entry in range(0, size + 1, 6):
    move = 1e-6 * np.eye(size + 1)[entry]
    ahead, behind = (
        misfit(guess + sign * move, measured, smoothing)[0] for sign in (1, -1)
    )
    assert np.isclose(slope[entry], (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-6)
print("the gradient agrees with central differences")

# %%
# ## The result
#
# From a rod that is the same everywhere, a method of SciPy finds the place that
# conducts badly and the one that conducts well.

losses = []


def recorded(k):
    loss, slope = misfit(k, measured, smoothing)
    losses.append(loss)
    return loss, slope


found = minimize(
    recorded, guess, jac=True, method="L-BFGS-B", bounds=[(0.01, 0.5)] * (size + 1)
).x
error = np.linalg.norm(found - truth) / np.linalg.norm(truth - guess)
print(f"misfit {losses[0]:.2f} to {min(losses):.3f}; noise: {(noise**2).sum() / 2:.3f}")
print(f"error of the conductivity: {error:.1%} of that of the guess")
assert error < 0.25
assert min(losses) < 1.5 * (noise**2).sum() / 2

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(9, 3.1), layout="constrained"
)
picture = left.imshow(
    measured.T, aspect="auto", cmap="inferno", extent=(0, count, 1, 0)
)
left.set(title="temperatures, measured", xlabel="step in time", ylabel="place")
figure.colorbar(picture, ax=left)
middle.plot(faces, truth, color="black", label="truth")
middle.plot(faces, guess, ":", color="tab:gray", label="guess")
middle.plot(faces, found, color="tab:red", label="found")
middle.set(title="conductivity", xlabel="place", ylim=(0, 0.7))
middle.legend(loc="upper left", ncols=3, fontsize=8, columnspacing=1, handlelength=1.2)
right.semilogy(np.minimum.accumulate(losses))
right.set(title="misfit", xlabel="evaluation")
plt.show()
