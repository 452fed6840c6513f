"""Hidden states, from what is seen of them.

A machine is idle, working or overheating; what one sees each minute is a noisy
temperature. The probability of all temperatures is a sum over all paths of states,
which a recurrence computes. Its derivatives are the posterior probabilities of the
states: the backward recursion of textbooks is the derivative of the forward recursion,
and need not be written.
"""

# %%
# ## The recurrence
#
# In logarithms: `a` has, for each state, the logarithm of the probability of all that
# has been seen so far and of being in that state now.

import numpy as np
from matplotlib import pyplot as plt

import sympy_tensordiff as td

n, T = td.indices("n T")
start, move = td.TensorSymbol("start", n), td.TensorSymbol("move", (n, n))
seen = td.TensorSymbol("seen", (T, n))
forward = td.scan(
    lambda a, b: td.logsumexp(a[:, None] + move, axis=0) + b, start, seen, last=True
)
likelihood = td.logsumexp(forward)
forward

# %%
# ## Its derivatives
#
# By the logarithm of what is seen, at each time and state: the posterior probability
# of the state. The recursion runs backwards in time.

posterior = td.gradient(likelihood, seen)
posterior

# %%
# ## A night of the machine

rng = np.random.default_rng(4)
chances = np.array([[0.9, 0.1, 0.0], [0.1, 0.85, 0.05], [0.3, 0.0, 0.7]]) + 1e-6
means, states = np.array([20.0, 50.0, 70.0]), [0]
for _ in range(119):
    states.append(rng.choice(3, p=chances[states[-1]] / chances[states[-1]].sum()))
temperatures = means[states] + 12 * rng.normal(size=120)
evidence = -(((temperatures[:, None] - means) / 12) ** 2) / 2

f = td.lambdify([start, move, seen], (likelihood, posterior))
value, probabilities = f(np.log([0.8, 0.1, 0.1]), np.log(chances), evidence)
assert np.allclose(probabilities.sum(axis=1), 1)
found = probabilities.argmax(axis=1)
assert (found == states).mean() > 0.85

figure, axes = plt.subplots(figsize=(7, 3))
axes.plot(temperatures, ".", color="gray", label="seen")
axes.plot(means[found], label="most probable state")
axes.set_xlabel("minute")
axes.set_ylabel("temperature")
axes.legend()
figure.tight_layout()
