# %% [markdown]
# # The ground state of a spin chain, from measurements
#
# A variational quantum circuit in numpy: the energy is estimated from a few hundred shots, so that every evaluation is noisy,
# and nothing but energies is known.

# %%
import matplotlib.pyplot as plt
import numpy as np

import zotune

spins, layers, shots, field = 4, 2, 400, 1.0
rng = np.random.default_rng(1)
basis = 1 - 2 * ((np.arange(2**spins)[:, None] >> np.arange(spins)) & 1)
ising = -(basis[:, :-1] * basis[:, 1:]).sum(1)


def rotated(state: np.ndarray, angle: float, spin: int) -> np.ndarray:
    """A rotation of one spin about y."""
    c, s = np.cos(angle / 2), np.sin(angle / 2)
    state = np.moveaxis(state.reshape([2] * spins), spins - 1 - spin, 0)
    state = np.stack([c * state[0] - s * state[1], s * state[0] + c * state[1]])
    return np.moveaxis(state, 0, spins - 1 - spin).reshape(-1)


def prepared(angles: np.ndarray) -> np.ndarray:
    """The state that the circuit prepares: rotations, and controlled phase flips between them."""
    state = np.eye(1, 2**spins)[0]
    flips = np.prod(
        [np.where((basis[:, i] < 0) & (basis[:, i + 1] < 0), -1, 1) for i in range(spins - 1)],
        axis=0,
    )
    for layer in angles.reshape(layers + 1, spins):
        for spin, angle in enumerate(layer):
            state = rotated(state, angle, spin)
        state = state * flips
    return state


def exact(angles: np.ndarray, shots: int | None = None) -> float:
    """The energy, exact or from shots in two bases."""
    state = prepared(angles)
    turned = state
    for spin in range(spins):
        turned = rotated(turned, -np.pi / 2, spin)
    energies = (ising, -field * basis.sum(1))
    weights = (state**2 / (state @ state), turned**2 / (turned @ turned))
    if shots is None:
        return float(sum(e @ w for e, w in zip(energies, weights, strict=True)))
    drawn = (rng.multinomial(shots, w) / shots for w in weights)
    return float(sum(e @ w for e, w in zip(energies, drawn, strict=True)))


def measured(angles: np.ndarray) -> float:
    """What the machine tells."""
    return exact(angles, shots)


# %%
start = rng.normal(0, 0.3, (layers + 1) * spins)
run = zotune.minimize(measured, start, budget=1500)
flip = np.array([[0, 1], [1, 0]])
hamiltonian = np.diag(ising.astype(float))
for spin in range(spins):
    sides = np.eye(2 ** (spins - 1 - spin)), np.eye(2**spin)
    hamiltonian -= field * np.kron(np.kron(sides[0], flip), sides[1])
lowest = float(np.linalg.eigvalsh(hamiltonian)[0])
found = exact(run.best_x.numpy())
print(run, run.chosen)
print(f"exact energy there {found:.3f}, ground state {lowest:.3f}")

# %%
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot(run.curve["spent"], run.curve["best_loss"], label="measured at the answer so far")
axis.axhline(found, color="C2", linestyle=":", label="exact energy of the answer")
axis.axhline(lowest, color="black", linestyle="--", label="ground state")
axis.set(xlabel="energy measurements", ylabel="energy")
axis.legend()
figure.savefig("quantum.png", dpi=110)
