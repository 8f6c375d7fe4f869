# %% [markdown]
# # A study over a small network's weights
#
# Which estimator, with how many queries a step, trains a network of 65 weights with function values alone? Ray Tune runs the
# comparison on all cores, under one budget.

# %%
import torch

import zotune


@zotune.objectives.register("tiny-network", formula="mean (net(z; x) − sin z)²")
def tiny_network(hidden: int = 16, seed: int = 0) -> zotune.Objective:
    """A network with one hidden layer that learns a sine; x are its weights."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.linspace(-3, 3, 64, dtype=torch.float64)
    start = 0.5 * torch.randn(4 * hidden + 1, dtype=torch.float64, generator=generator)

    def loss(x):  # of many vectors at once
        first, shift, last, again = x[..., :-1].unflatten(-1, (4, hidden)).unbind(-2)
        wave = torch.tanh(z[:, None] * first[..., None, :] + shift[..., None, :])
        out = (wave * last[..., None, :] + wave**2 * again[..., None, :]).sum(-1) + x[..., -1:]
        return (out - torch.sin(z)).square().mean(-1)

    return zotune.objective(loss, 4 * hidden + 1, start=start, batched=True)


# %%
study = zotune.Study(
    name="network",
    question="Which estimator and q train a small network?",
    problem="tiny-network",
    budget=2000,
    count="evaluations",
    replicates=3,
    space={"estimator": ["avg", "align"], "q": [1, 8, 64], "eta": [0.02, 0.1]},
    fixed={"step": "constant", "update": "sgd"},
)
results = study.run(storage_path="results", tracking_uri="none")
print(results.best)

# %% [markdown]
# The curves of the best step of each estimator and q, in the report's style:

# %%
drawing = results.plot()
drawing.figure.savefig("network_study.png", dpi=110)
drawing
