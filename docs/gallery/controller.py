# %% [markdown]
# # A controller tuned in simulation
#
# A motor that is too weak to lift a pendulum must swing it up and then hold it, in the classic-control simulator of
# gymnasium (`pip install gymnasium`). Three gains are searched; four episodes of 200 time steps are one evaluation.

# %%
import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import zotune

environment = gymnasium.make("Pendulum-v1").unwrapped
HANGING, STEPS = np.pi, 200
SCALES = np.array([0.1, 20.0, 4.0])  # sizes to expect; the search sees numbers near 1


def torque(gains: np.ndarray, state: np.ndarray) -> float:
    """Pump energy until the pendulum can reach the top; near the top, hold it there."""
    cosine, sine, speed = state
    energy = 0.5 * speed**2 + 15 * (cosine - 1)  # 0 at rest at the top
    near = max(0.0, cosine) ** 4
    pump, spring, damping = gains * SCALES
    return float(-(1 - near) * pump * speed * energy - near * (spring * sine + damping * speed))


def episode(gains: np.ndarray, push: float) -> tuple[np.ndarray, float]:
    """Angles of an episode that begins with a small push, and its mean cost as gymnasium counts it."""
    environment.reset(seed=0)
    environment.state = np.array([HANGING, push])
    state, angles, cost = np.array([-1.0, 0.0, push]), [], 0.0
    for _ in range(STEPS):
        state, reward, *_ = environment.step(np.array([torque(gains, state)]))
        angles.append(np.arctan2(state[1], state[0]))
        cost -= float(reward)
    return np.array(angles), cost / STEPS


# %% [markdown]
# The first controller does next to nothing, and the pendulum hangs. Every evaluation sees the same four pushes, so the
# function is deterministic; whether the gains are good for other pushes is looked at afterwards.


# %%
def cost(gains: np.ndarray) -> float:
    """The mean cost of four episodes."""
    return float(np.mean([episode(gains, push)[1] for push in (-1.0, -0.4, 0.4, 1.0)]))


first = np.full(3, 0.05)
run = zotune.minimize(cost, first, budget=600, progress=False)
print(run)
print("gains:", (run.best_x.numpy() * SCALES).round(3))

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(run.curve["spent"], run.curve["best_loss"])
left.set(xlabel="evaluations of four episodes", ylabel="lowest mean cost so far")
for push in (-0.8, 0.2, 0.6):
    before, after = episode(first, push)[0], episode(run.best_x.numpy(), push)[0]
    right.plot(np.cos(before), color="0.7", linewidth=1)
    right.plot(np.cos(after), linewidth=1)
right.set(
    xlabel="time step", ylabel="height of the tip", title="three new pushes; grey: the first gains"
)
figure.savefig("controller.png", dpi=110)
