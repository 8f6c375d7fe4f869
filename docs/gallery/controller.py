# %% [markdown]
# # A controller tuned in simulation
#
# A linear controller swings a cart along so that its pole stays up, in the classic-control simulator of gymnasium
# (`pip install gymnasium`). Its four gains are all that is searched; an episode is one evaluation.

# %%
import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import zotune

environment = gymnasium.make("CartPole-v1")
starts = range(5)


def episode(gains: np.ndarray, seed: int) -> list[np.ndarray]:
    """The states of one episode."""
    state, _ = environment.reset(seed=seed)
    states = [state]
    for _ in range(500):
        state, _, fell, over, _ = environment.step(int(gains @ state > 0))
        states.append(state)
        if fell or over:
            break
    return states


# %% [markdown]
# The cost is flat where every episode ends early, so it also counts how far the pole leans and the cart is away.


# %%
def cost(gains: np.ndarray) -> float:
    """Time that is missing to 500 steps, and how restless the ride is; the same starts each time."""
    total = 0.0
    for seed in starts:
        states = np.array(episode(gains, seed))
        total += (501 - len(states)) / 500 + np.mean(states[:, 0] ** 2 + states[:, 2] ** 2)
    return float(total / len(starts))


run = zotune.minimize(cost, np.zeros(4), budget=150, progress=False)
print(run, run.best_x.tolist())

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(run.curve["spent"], run.curve["best_loss"])
left.set(xlabel="evaluations of five episodes", ylabel="best cost so far")
for seed in range(100, 105):
    right.plot(np.array(episode(run.best_x.numpy(), seed))[:, 2], linewidth=0.8)
right.set(xlabel="time step", ylabel="angle of the pole", title="five new starts")
figure.savefig("controller.png", dpi=110)
