# %% [markdown]
# # A heat equation run backwards
#
# A rod was warm somewhere, and eleven noisy thermometers tell its temperature a while later. Where was it warm?
# The simulator is a black box with bounds: no temperature is below 0 or above 2.

# %%
import matplotlib.pyplot as plt
import numpy as np

import zotune

cells, steps = 24, 60
rng = np.random.default_rng(0)
place = np.linspace(0, 1, cells)
truth = np.exp(-(((place - 0.3) / 0.1) ** 2)) + 0.6 * np.exp(-(((place - 0.75) / 0.08) ** 2))
thermometers = np.arange(1, cells, 2)


def simulate(start: np.ndarray) -> np.ndarray:
    """The temperature after some steps of diffusion, with ends that let nothing out."""
    u = start.copy()
    for _ in range(steps):
        padded = np.pad(u, 1, mode="edge")
        u = u + 0.2 * (padded[:-2] - 2 * u + padded[2:])
    return u


measured = simulate(truth)[thermometers] + 0.005 * rng.standard_normal(len(thermometers))

# %% [markdown]
# The misfit, and a little weight on smooth answers: many starts explain the same measurements.


# %%
def misfit(start: np.ndarray) -> float:
    """How far the simulated temperatures are from the measured ones."""
    error = simulate(start)[thermometers] - measured
    return float(error @ error + 1e-3 * np.diff(start) @ np.diff(start))


run = zotune.minimize(misfit, np.full(cells, 0.5), budget=1500, bounds=(0.0, 2.0))
print(run)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(place, truth, "k--", label="truth")
left.plot(place, run.best_x, "o-", label="found")
left.plot(place[thermometers], measured, "s", alpha=0.6, label="measured, later")
left.plot(place, simulate(run.best_x.numpy()), "C1-", lw=1, label="simulated from what was found")
left.set(xlabel="place", ylabel="temperature", ylim=(-0.05, 1.6))
left.legend(ncols=2, fontsize="small")
right.semilogy(run.curve["spent"], run.curve["best_loss"])
right.set(xlabel="simulations", ylabel="best misfit so far")
figure.savefig("heat_equation.png", dpi=110)
