# %% [markdown]
# # A black-box attack on a classifier
#
# A small network is trained on the spot to tell pictures of two shapes apart. The attacker sees its scores only, and looks
# for the smallest change of one picture that is taken for the other shape.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch

import zotune

torch.manual_seed(0)
torch.set_num_threads(1)
size = 12
grid = torch.arange(size) - (size - 1) / 2
rows, columns = torch.meshgrid(grid, grid, indexing="ij")


def pictures(many: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rings and crosses, at random places, with noise."""
    shift = torch.randn(many, 2, 1, 1) * 0.8
    y, x = rows - shift[:, 0], columns - shift[:, 1]
    rings = (((y**2 + x**2).sqrt() - 3.5).abs() < 1).float()
    crosses = ((y.abs() < 1) | (x.abs() < 1)).float()
    label = torch.arange(many) % 2
    drawn = torch.where(label[:, None, None] == 0, rings, crosses)
    return (drawn + 0.2 * torch.randn(many, size, size)).clamp(0, 1), label


network = torch.nn.Sequential(
    torch.nn.Flatten(), torch.nn.Linear(size * size, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2)
)
optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(200):
    batch, label = pictures(64)
    loss = torch.nn.functional.cross_entropy(network(batch), label)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
network.requires_grad_(False)
tried, label = pictures(500)
print("accuracy", float((network(tried).argmax(1) == label).float().mean()))

# %% [markdown]
# The attack minimises the margin of the true class plus a price on the size of the change. It looks for the picture itself: bounds
# keep its pixels between black and white, and the function needs no clamp, which would hide from it what a change does.

# %%
victim, true = tried[0], int(label[0])
start = victim.flatten().double().numpy()


def margin(picture: np.ndarray) -> float:
    """The true class's score above the other's, and the price of the change."""
    scores = network(torch.from_numpy(picture).float()[None])[0]
    change = picture - start
    return float(torch.relu(scores[true] - scores[1 - true] + 0.5)) + 0.5 * float(change @ change)


run = zotune.minimize(margin, start, budget=2000, bounds=(0.0, 1.0))
attacked = run.best_x.reshape(size, size).float()
change = attacked - victim
now = int(network(attacked[None]).argmax())
print(run)
print("taken for", ["a ring", "a cross"][now])

# %%
figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained")
for axis, picture, title in zip(
    axes,
    (victim, change, attacked),
    ("before: a ring", "the change (red: brighter)", f"after: {['a ring', 'a cross'][now]}"),
    strict=False,
):
    if picture is change:
        axis.imshow(picture, cmap="RdBu_r", vmin=-1, vmax=1)  # red: brighter, blue: darker
    else:
        axis.imshow(picture, cmap="gray", vmin=0, vmax=1)
    axis.set(title=title, xticks=[], yticks=[])
axes[3].plot(run.curve["spent"], run.curve["best_loss"])
axes[3].set(xlabel="queries of the network", title="margin and price")
figure.savefig("attack.png", dpi=110)
