# %% [markdown]
# # Ask and tell with a pool of processes
#
# A simulator that takes a while is evaluated in two processes at once. `Minimizer` asks for all points that do not depend on each
# other, and the pool answers them.

# %%
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import matplotlib.pyplot as plt
import numpy as np

import zotune


def simulator(x: np.ndarray) -> float:
    """A spring network at rest; every evaluation takes a few milliseconds."""
    time.sleep(0.004)
    lengths = np.diff(x, prepend=0.0, append=5.0)
    return float(((lengths - 0.4) ** 2).sum() + 0.1 * (1 - np.cos(3 * x)).sum())


# %%
minimizer = zotune.Minimizer(np.linspace(0.2, 4.8, 12), budget=1200)
batches, waited = [], time.perf_counter()
with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
    while not minimizer.done:
        points = np.asarray(minimizer.ask())
        batches.append(len(points))
        minimizer.tell(list(pool.map(simulator, points)))
waited = time.perf_counter() - waited
run = minimizer.result
print(run)
print(f"{sum(batches)} evaluations in {len(batches)} batches took {waited:.1f} s")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(run.curve["spent"], run.curve["best_loss"])
left.set(xlabel="evaluations", ylabel="best energy so far")
right.plot(batches, ".")
right.set(xlabel="batch", ylabel="points to evaluate side by side")
figure.savefig("process_pool.png", dpi=110)
